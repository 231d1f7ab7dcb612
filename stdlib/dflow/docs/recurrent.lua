--- The pages of df.rnn. Text for pages.lua, which docs/functions.lua reads.
return [==[
df.rnn
  Recurrent cells (RNNCell, LSTMCell, GRUCell), what wraps them, and the loops that run them over
  time: dynamic_rnn, bidirectional_rnn, raw_rnn, decode, beam_search. Kernels lie as in TensorFlow
  1. A cell is called: cell(x, state) gives an output and the next state.
  example   local cell = df.rnn.GRUCell(4)
            return df.rnn.dynamic_rnn(cell, df.ones{2, 5, 3}).shape

df.rnn.RNNCell(units, {…})
  A cell: activation([x, h] kernel + bias); .kernel is [in + units, units]. Its state is h.
  option    activation: function = df.tanh  of the sum
@cell
  example   local cell = df.rnn.RNNCell(4)
            return cell(df.ones{2, 3}, cell:zero_state(2)).shape, cell.kernel.shape

df.rnn.LSTMCell(units, {…})
  A cell: an LSTM; .kernel is [in + units, 4 units], gates i j f o, .bias [4 units]. Its state is
  {c =, h =}.
  option    forget_bias: number = 1  added to the forget gate
  option    peepholes: bool = false  the gates see c, by .w_i_diag, .w_f_diag and .w_o_diag
  option    projection: int = nil  h is [batch, projection], by .projection_kernel
  option    cell_clip: number = nil  c stays within plus and minus this
  option    proj_clip: number = nil  and so does what is projected
  option    layer_norm: bool = false  each gate and c are normalised, and there is no bias
  option    activation: function = df.tanh  of the new value and of c
@cell
  example   local cell = df.rnn.LSTMCell(4)
            return cell(df.ones{2, 3}, cell:zero_state(2)).shape, cell.kernel.shape

df.rnn.GRUCell(units, {…})
  A cell: a GRU; .gate_kernel is [in + units, 2 units], .candidate_kernel [in + units, units]. Its
  state is h.
  option    activation: function = df.tanh  of the candidate
@cell
  example   local cell = df.rnn.GRUCell(4)
            return cell(df.ones{2, 3}, cell:zero_state(2)).shape

df.rnn.MultiRNNCell({cell, …}, {…})
  A cell of cells: each gets what the one before gave. Its state is the list of theirs.
@name
  example   local cell = df.rnn.MultiRNNCell{df.rnn.LSTMCell(4), df.rnn.GRUCell(5)}
            return cell(df.ones{2, 3}, cell:zero_state(2)).shape

df.rnn.DropoutWrapper(cell, {…})
  A cell with dropout around it. A probability is a number or a scalar Output; of an LSTM's state
  only h is thinned. After cell:eval() later calls drop nothing.
  option    input_keep_prob: number = 1  that an element of what goes in stays
  option    output_keep_prob: number = 1  that an element of what comes out stays
  option    state_keep_prob: number = 1  that an element of the state stays
  option    variational: bool = false  the same elements at all steps of a run
  option    seed: int = nil  of what is drawn
@name
  example   local cell = df.rnn.DropoutWrapper(df.rnn.GRUCell(4), {output_keep_prob = 0.5})
            return cell(df.ones{2, 3}, cell:zero_state(2)).shape

df.rnn.ResidualWrapper(cell, {…})
  A cell that gives what the cell inside gives plus what went in.
@name
  example   local cell = df.rnn.ResidualWrapper(df.rnn.GRUCell(3))
            return cell(df.ones{2, 3}, cell:zero_state(2)).shape

df.rnn.BahdanauAttention(units, memory, {…})
  For AttentionWrapper: scores v . tanh(query W + memory U) over memory [batch, time, size].
  option    lengths: int = nil  [batch]: what is past them has no weight
@name
  example   df.rnn.BahdanauAttention(4, df.ones{2, 5, 3}).attend(df.ones{2, 6}).shape

df.rnn.LuongAttention(units, memory, {…})
  For AttentionWrapper: scores query . (memory U); units are those of the cell.
  option    lengths: int = nil  [batch]: what is past them has no weight
@name
  example   df.rnn.LuongAttention(4, df.ones{2, 5, 3}).attend(df.ones{2, 4}).shape

df.rnn.AttentionWrapper(cell, mechanism, {…})
  A cell that sees x beside what was attended to last, and whose output asks the memory. Its state
  is {cell =, attention =, weights =}. cell:beams(n) is the same cell, with a memory for each of the
  n beams of an example, for df.rnn.beam_search.
  option    attention_size: int = nil  attention is [output, mix] times a matrix of so many columns;
              without it, the mix itself
  option    output_attention: bool = true  false: what comes out is the cell's own
@name
  example   local how = df.rnn.LuongAttention(4, df.ones{2, 5, 3})
            local cell = df.rnn.AttentionWrapper(df.rnn.GRUCell(4), how, {attention_size = 6})
            return df.rnn.dynamic_rnn(cell, df.ones{2, 7, 1}).shape

df.rnn.ACTCell(cell, {…})
  Adaptive computation time: at each step the cell runs in a while_loop until a halting unit has
  said enough, and what it gave is averaged. Its state is {state =, ponder =, steps =}; ponder
  [batch] is the cost, to be added to the loss, steps how often the cell ran.
  option    epsilon: number = 0.01  the sum that is enough is 1 - epsilon
  option    max_steps: int = 100  the most for one step
  option    halting_bias: number = 1  at first
@name
  example   local cell = df.rnn.ACTCell(df.rnn.RNNCell(4))
            return cell(df.ones{2, 3}, cell:zero_state(2)).shape

df.rnn.dynamic_rnn(cell, x, {…})
  The cell over time, in a while_loop: the outputs, laid out as x, and the last state. x is
  [batch, time, inputs].
@rnn
  gradient  backpropagation through time: a loop that goes backwards
  example   df.rnn.dynamic_rnn(df.rnn.RNNCell(2), df.ones{2, 5, 3}, {lengths = {1, 5}}).shape

df.nn.dynamic_rnn(cell, x, {…})
  The same as df.rnn.dynamic_rnn; takes df.nn.lstm_cell and df.nn.gru_cell, too.
@rnn
  gradient  backpropagation through time: a loop that goes backwards
  example   df.nn.dynamic_rnn(df.nn.gru_cell(4), df.ones{2, 5, 3}).shape

df.rnn.bidirectional_rnn(fw, bw, x, {…})
  One cell from the beginning, one from the end of each example: {fw, bw} outputs and {fw, bw}
  states, also under the names fw and bw.
  option    lengths: int = nil  [batch]: where each example ends
  option    initial_state_fw: table = nil  zeros otherwise
  option    initial_state_bw: table = nil  zeros otherwise
  option    time_major: bool = false  x is [time, batch, inputs]
@over
  gradient  backpropagation through time
  example   local y = df.rnn.bidirectional_rnn(df.rnn.GRUCell(2), df.rnn.GRUCell(3), df.ones{2, 5, 3})
            return df.concat(y, 2).shape

df.rnn.raw_rnn(cell, loop_fn, {…})
  A loop whose inputs, end and outputs a function decides: loop_fn(time, output, state,
  loop_state) gives finished [batch], next_input, next_state, emit, next_loop_state. At time 0 it
  is called with nothing else, and says how all begins. Gives a TensorArray of what was emitted,
  the last state and the last loop_state.
@over
  example   local function grow(t, y, s)
              return df.greater_equal(t, df.int32{2, 3}), df.ones{2, 1}, s or df.zeros{2}
            end
            local function cell(x, s) return s + 1, s + 1 end
            return df.rnn.raw_rnn(cell, grow):stack()

df.rnn.decode({cell =, helper =, …})
  A loop that makes sequences and ends when every example has: {logits = [batch, time, n], ids =
  [batch, time]}, the last state and lengths [batch]. The helper says what comes in.
  option    cell: cell = nil  or a function(x, state)
  option    helper: helper = nil  such as df.rnn.TrainingHelper(x)
  option    initial_state: table = nil  zeros otherwise
  option    output_layer: layer = nil  from what the cell gives to logits
  option    max_steps: int = nil  needed where nothing else is sure to end the loop
@over
  example   local cell, head = df.rnn.GRUCell(4), df.nn.Dense(6)
            local helper = df.rnn.GreedyEmbeddingHelper(df.ones{6, 3}, {0, 0}, 5)
            return df.rnn.decode{cell = cell, helper = helper, output_layer = head, max_steps = 7}.ids.shape

df.rnn.TrainingHelper(inputs, {…})
  For decode: teacher forcing, the inputs [batch, time, size] are what comes in.
  option    lengths: int = nil  [batch]: where each example ends
  option    time_major: bool = false  the inputs are [time, batch, size]
  example   local helper = df.rnn.TrainingHelper(df.ones{2, 3, 4})
            return df.rnn.decode{cell = df.rnn.RNNCell(5), helper = helper}.ids.shape

df.rnn.ScheduledEmbeddingTrainingHelper(inputs, embedding, probability, {…})
  For decode: scheduled sampling. With this probability an example's next input is the embedding of
  what was drawn from its output, else the target. An embedding is a table [n, size], a layer or a
  function of ids.
  option    lengths: int = nil  [batch]: where each example ends
  option    time_major: bool = false  the inputs are [time, batch, size]
  option    seed: int = nil  of what is drawn
  example   local helper = df.rnn.ScheduledEmbeddingTrainingHelper(df.ones{2, 3, 4}, df.ones{5, 4}, 0.5)
            return df.rnn.decode{cell = df.rnn.RNNCell(5), helper = helper}.ids.shape

df.rnn.GreedyEmbeddingHelper(embedding, start, stop)
  For decode: the likeliest id comes in next, until it is stop. start is int32 [batch].
  example   local helper = df.rnn.GreedyEmbeddingHelper(df.ones{5, 4}, {0, 0}, 4)
            return df.rnn.decode{cell = df.rnn.RNNCell(5), helper = helper, max_steps = 3}.ids.shape

df.rnn.SampleEmbeddingHelper(embedding, start, stop, {…})
  For decode: an id drawn from the output comes in next, until it is stop.
  option    temperature: number = 1  the logits are divided by it
  option    seed: int = nil  of what is drawn
  example   local helper = df.rnn.SampleEmbeddingHelper(df.ones{5, 4}, {0, 0}, 4, {seed = 1})
            return df.rnn.decode{cell = df.rnn.RNNCell(5), helper = helper, max_steps = 3}.ids.shape

df.rnn.tile_batch(x, n)
  Each row of x [batch, ...], or of all tensors of a structure, n times, one copy after the other:
  [batch * n, ...], as beam_search has the beams of an example. For what its step reads besides the
  state.
  example   df.rnn.tile_batch(df.int32{{1, 2}, {3, 4}}, 2)

df.rnn.beam_search({step =, initial_state =, start =, stop =, width =, max_steps =, …})
  The best sequences that a beam of `width` finds: ids [batch, width, time] and scores [batch,
  width], best first. step(ids, state) gives log-probabilities [batch * width, vocabulary] and the
  next state. A score is the sum of log-probabilities by ((5 + length) / 6) ^ length_penalty. The
  loop ends when all have ended.
  option    step: function = nil  one step of all beams
  option    initial_state: table = nil  a structure of [batch, ...]
  option    start: int = nil  the id that comes in first
  option    stop: int = nil  the id that ends a sequence; what follows it is it
  option    width: int = nil  how many sequences are kept
  option    max_steps: int = nil  the most ids
  option    length_penalty: number = 0  above 0 longer sequences are preferred
  option    parallel_iterations: int = 32  as for while_loop
  option    name: string = 'beam_search'  what the loop is called
  example   local p = df.log_softmax(df.float32{{0, 2, 1}, {0, 1, 3}, {0, 0, 0}})
            local function step(ids, state) return df.gather(p, ids), state end
            return df.rnn.beam_search{step = step, initial_state = df.zeros{1, 1}, start = 0, stop = 2, width = 2, max_steps = 3}
]==]
