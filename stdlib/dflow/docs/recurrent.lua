--- The pages of df.rnn. Text for pages.lua, which docs/functions.lua reads.
return [==[
df.rnn
  Recurrent cells (RNNCell, LSTMCell, GRUCell), wrappers, and loops over time: dynamic_rnn,
  bidirectional_rnn, raw_rnn, decode, beam_search. Kernels have TensorFlow 1's layout. cell(x, state)
  returns an output and the next state.
  example   local cell = df.rnn.GRUCell(4)
            return df.rnn.dynamic_rnn(cell, df.ones{2, 5, 3}).shape

df.rnn.RNNCell(units, {…})
  A cell: activation([x, h] kernel + bias); .kernel is [in + units, units]. Its state is h.
  option    activation: function = df.tanh  applied to the sum
@cell
  example   local cell = df.rnn.RNNCell(4)
            return cell(df.ones{2, 3}, cell:zero_state(2)).shape, cell.kernel.shape

df.rnn.LSTMCell(units, {…})
  A cell: an LSTM; .kernel is [in + units, 4 units], gates i j f o, .bias [4 units]. Its state is
  {c =, h =}.
  option    forget_bias: number = 1  added to the forget gate
  option    peepholes: bool = false  true: the gates read c, by .w_i_diag, .w_f_diag and .w_o_diag
  option    projection: int = nil  h is [batch, projection], by .projection_kernel
  option    cell_clip: number = nil  clips c to plus and minus this
  option    proj_clip: number = nil  clips the projection likewise
  option    layer_norm: bool = false  true: normalises each gate and c, and has no bias
  option    activation: function = df.tanh  of the candidate and of c
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
  A cell that calls a list of cells in turn, each with the previous output. Its state is the list of
  their states.
@name
  example   local cell = df.rnn.MultiRNNCell{df.rnn.LSTMCell(4), df.rnn.GRUCell(5)}
            return cell(df.ones{2, 3}, cell:zero_state(2)).shape

df.rnn.DropoutWrapper(cell, {…})
  Applies dropout to a cell. A probability is a number or a scalar Output. Of an LSTM's state only h is
  dropped. After cell:eval() later calls drop nothing.
  option    input_keep_prob: number = 1  the probability to keep an element of the input
  option    output_keep_prob: number = 1  the probability to keep an element of the output
  option    state_keep_prob: number = 1  the probability to keep an element of the state
  option    variational: bool = false  true: drops the same elements at all steps of a run
  option    seed: int = nil  of what is drawn
@name
  example   local cell = df.rnn.DropoutWrapper(df.rnn.GRUCell(4), {output_keep_prob = 0.5})
            return cell(df.ones{2, 3}, cell:zero_state(2)).shape

df.rnn.ResidualWrapper(cell, {…})
  A cell whose output is the inner cell's output plus the input.
@name
  example   local cell = df.rnn.ResidualWrapper(df.rnn.GRUCell(3))
            return cell(df.ones{2, 3}, cell:zero_state(2)).shape

df.rnn.BahdanauAttention(units, memory, {…})
  For AttentionWrapper: scores v . tanh(query W + memory U) over memory [batch, time, size].
  option    lengths: int = nil  int32 [batch]: later positions have no weight
@name
  example   df.rnn.BahdanauAttention(4, df.ones{2, 5, 3}).attend(df.ones{2, 6}).shape

df.rnn.LuongAttention(units, memory, {…})
  For AttentionWrapper: scores query . (memory U); units is the cell's.
  option    lengths: int = nil  int32 [batch]: later positions have no weight
@name
  example   df.rnn.LuongAttention(4, df.ones{2, 5, 3}).attend(df.ones{2, 4}).shape

df.rnn.AttentionWrapper(cell, mechanism, {…})
  A cell with attention. Its input is x and the previous attention; its output queries the memory. Its
  state is {cell =, attention =, weights =}. cell:beams(n) returns the cell with a memory for each of the
  n beams of an example, for df.rnn.beam_search.
  option    attention_size: int = nil  projects [output, context] to so many columns;
              without it, the mix itself
  option    output_attention: bool = true  false: the output is the inner cell's
@name
  example   local how = df.rnn.LuongAttention(4, df.ones{2, 5, 3})
            local cell = df.rnn.AttentionWrapper(df.rnn.GRUCell(4), how, {attention_size = 6})
            return df.rnn.dynamic_rnn(cell, df.ones{2, 7, 1}).shape

df.rnn.ACTCell(cell, {…})
  Adaptive computation time (Graves, 2016): at each step the cell runs in a while_loop until the halting
  unit's sum reaches 1 - epsilon; outputs are averaged. Its state is {state =, ponder =, steps =}: ponder
  [batch] is a cost to add to the loss, steps the number of times that the cell ran.
  option    epsilon: number = 0.01  the distance from 1 at which a step ends
  option    max_steps: int = 100  the most runs of the cell in a step
  option    halting_bias: number = 1  the initial bias of the halting unit
@name
  example   local cell = df.rnn.ACTCell(df.rnn.RNNCell(4))
            return cell(df.ones{2, 3}, cell:zero_state(2)).shape

df.rnn.dynamic_rnn(cell, x, {…})
  Runs the cell over time, in a while_loop. x is [batch, time, inputs]. Returns the outputs, in x's layout,
  and the last state.
@rnn
  gradient  backpropagation through time: a loop that goes backwards
  example   df.rnn.dynamic_rnn(df.rnn.RNNCell(2), df.ones{2, 5, 3}, {lengths = {1, 5}}).shape

df.nn.dynamic_rnn(cell, x, {…})
  The same as df.rnn.dynamic_rnn, and also takes df.nn.lstm_cell and df.nn.gru_cell.
@rnn
  gradient  backpropagation through time: a loop that goes backwards
  example   df.nn.dynamic_rnn(df.nn.gru_cell(4), df.ones{2, 5, 3}).shape

df.rnn.bidirectional_rnn(fw, bw, x, {…})
  Runs one cell forwards and one backwards over each example. Returns {fw, bw} outputs and {fw, bw} states,
  also under the names fw and bw.
  option    lengths: int = nil  int32 [batch]: the length of each example
  option    initial_state_fw: table = nil  zeros otherwise
  option    initial_state_bw: table = nil  zeros otherwise
  option    time_major: bool = false  true: x is [time, batch, inputs]
@over
  gradient  backpropagation through time
  example   local y = df.rnn.bidirectional_rnn(df.rnn.GRUCell(2), df.rnn.GRUCell(3), df.ones{2, 5, 3})
            return df.concat(y, 2).shape

df.rnn.raw_rnn(cell, loop_fn, {…})
  Runs a cell in a loop that loop_fn controls: loop_fn(time, output, state, loop_state) returns finished
  [batch], next_input, next_state, emit, next_loop_state. At time 0 the other arguments are nil, and its
  results are the initial values. Returns a TensorArray of emitted values, the last state and the last
  loop_state.
@over
  example   local function grow(t, y, s)
              return df.greater_equal(t, df.int32{2, 3}), df.ones{2, 1}, s or df.zeros{2}
            end
            local function cell(x, s) return s + 1, s + 1 end
            return df.rnn.raw_rnn(cell, grow):stack()

df.rnn.decode({cell =, helper =, …})
  Generates sequences until every example has ended. The helper chooses the inputs. Returns {logits =
  [batch, time, n], ids = [batch, time]}, the last state and lengths [batch].
  option    cell: cell = nil  the cell, or a function(x, state)
  option    helper: helper = nil  the source of inputs, such as df.rnn.TrainingHelper(x)
  option    initial_state: table = nil  the initial state; zeros otherwise
  option    output_layer: layer = nil  maps the cell's output to logits
  option    max_steps: int = nil  the most steps; required where the helper does not end the loop
@over
  example   local cell, head = df.rnn.GRUCell(4), df.nn.Dense(6)
            local helper = df.rnn.GreedyEmbeddingHelper(df.ones{6, 3}, {0, 0}, 5)
            return df.rnn.decode{cell = cell, helper = helper, output_layer = head, max_steps = 7}.ids.shape

df.rnn.TrainingHelper(inputs, {…})
  A helper of decode for teacher forcing: the inputs are [batch, time, size].
  option    lengths: int = nil  int32 [batch]: the length of each example
  option    time_major: bool = false  true: the inputs are [time, batch, size]
  example   local helper = df.rnn.TrainingHelper(df.ones{2, 3, 4})
            return df.rnn.decode{cell = df.rnn.RNNCell(5), helper = helper}.ids.shape

df.rnn.ScheduledEmbeddingTrainingHelper(inputs, embedding, probability, {…})
  A helper of decode for scheduled sampling. With this probability an example's next input is the embedding
  of an id drawn from its output, else the target. An embedding is a table [n, size], a layer or a
  function of ids.
  option    lengths: int = nil  int32 [batch]: the length of each example
  option    time_major: bool = false  true: the inputs are [time, batch, size]
  option    seed: int = nil  of what is drawn
  example   local helper = df.rnn.ScheduledEmbeddingTrainingHelper(df.ones{2, 3, 4}, df.ones{5, 4}, 0.5)
            return df.rnn.decode{cell = df.rnn.RNNCell(5), helper = helper}.ids.shape

df.rnn.GreedyEmbeddingHelper(embedding, start, stop)
  A helper of decode: the next input is the most probable id, until it is stop. start is int32 [batch].
  example   local helper = df.rnn.GreedyEmbeddingHelper(df.ones{5, 4}, {0, 0}, 4)
            return df.rnn.decode{cell = df.rnn.RNNCell(5), helper = helper, max_steps = 3}.ids.shape

df.rnn.SampleEmbeddingHelper(embedding, start, stop, {…})
  A helper of decode: the next input is an id drawn from the output, until it is stop.
  option    temperature: number = 1  divides the logits
  option    seed: int = nil  of what is drawn
  example   local helper = df.rnn.SampleEmbeddingHelper(df.ones{5, 4}, {0, 0}, 4, {seed = 1})
            return df.rnn.decode{cell = df.rnn.RNNCell(5), helper = helper, max_steps = 3}.ids.shape

df.rnn.tile_batch(x, n)
  Repeats each row of x [batch, ...], or of all tensors of a structure, n times: [batch * n, ...], in the
  order of the beams of beam_search. Use it for values that a step reads besides the state.
  example   df.rnn.tile_batch(df.int32{{1, 2}, {3, 4}}, 2)

df.rnn.beam_search({step =, initial_state =, start =, stop =, width =, max_steps =, …})
  Searches the best sequences with a beam. Returns ids [batch, width, time] and scores [batch, width],
  best first. step(ids, state) returns log-probabilities [batch * width, vocabulary] and the next state.
  A score is the sum of log-probabilities divided by ((5 + length) / 6) ^ length_penalty. The loop ends
  when all sequences have ended.
  option    step: function = nil  computes one step of all beams
  option    initial_state: table = nil  a structure of [batch, ...]
  option    start: int = nil  the first input id
  option    stop: int = nil  the id that ends a sequence; the rest of the sequence is filled with it
  option    width: int = nil  the number of sequences per example
  option    max_steps: int = nil  the most steps
  option    length_penalty: number = 0  values above 0 prefer longer sequences
  option    parallel_iterations: int = 32  as of while_loop
  option    name: string = 'beam_search'  what the loop is called
  example   local p = df.log_softmax(df.float32{{0, 2, 1}, {0, 1, 3}, {0, 0, 0}})
            local function step(ids, state) return df.gather(p, ids), state end
            return df.rnn.beam_search{step = step, initial_state = df.zeros{1, 1}, start = 0, stop = 2, width = 2, max_steps = 3}
]==]
