--- The pages of df.nn's layers. Text for pages.lua, which docs/functions.lua reads.
return [==[
df.nn
  Layers: df.nn.Dense, df.nn.Conv2D, df.nn.BatchNorm, df.nn.MultiHeadAttention and others are made
  once and called; l:parameters() lists their variables. Losses, samplers, metrics and initializers
  are here, and the ops of df, too: df.nn.relu is df.relu.
  example   df.nn.relu == df.relu

df.nn.dense(x, units, {…})
  activation(x W + b), and the list of its variables. x is [..., inputs], the result [..., units].
  option    activation: function = nil  such as df.relu
  option    use_bias: bool = true  whether there is a b
  option    name: string = 'dense'  what the names of the variables begin with
  option    seed: int = nil  of the first weights
  example   df.nn.dense(df.ones{2, 3}, 4).shape

df.nn.lstm_cell(units, {…})
  An LSTM: cell.step(x, state) gives h and the next state {c =, h =}; cell.zero_state(batch,
  dtype) the first; cell.variables its weights, made at the first step.
  option    forget_bias: number = 1  added to the forget gate
  option    name: string = 'lstm_cell'  what the names of the variables begin with
  option    seed: int = nil  of the first weights
  example   local cell = df.nn.lstm_cell(4)
            return cell.step(df.ones{2, 3}, cell.zero_state(2)).shape

df.nn.gru_cell(units, {…})
  A GRU, used as an lstm_cell; its state is h itself.
  option    name: string = 'gru_cell'  what the names of the variables begin with
  option    seed: int = nil  of the first weights
  example   local cell = df.nn.gru_cell(4)
            return cell.step(df.ones{2, 3}, cell.zero_state(2)).shape

df.nn.glorot_uniform(rows, columns, dtype?, seed?)
  Weights as Glorot and Bengio draw them: uniform within sqrt(6 / (rows + columns)).
  example   df.nn.glorot_uniform(2, 3, 'float32', 1).shape

df.nn.Dense(units, {…})
  A layer: activation(x kernel + bias). x is [batch, ..., in], the result [batch, ..., units]. Its
  .kernel [in, units] and .bias are made at the first call and shared by all later ones.
  option    activation: function = nil  such as df.relu
  option    use_bias: bool = true  whether there is a bias
  option    kernel_initializer: any = nil  a function(shape, dtype), a name in df.nn.initializers,
              or a value; Glorot's uniform otherwise
  option    bias_initializer: any = nil  the same; zeros otherwise
@name
  example   local l = df.nn.Dense(4)
            return l(df.ones{2, 3}).shape, l.kernel.shape

df.nn.Embedding(n, size, {…})
  A layer: the rows of its .table [n, size] that integer ids name. The gradient is sparse.
  option    initializer: any = nil  as of a Dense; uniform within 0.05 of zero otherwise
@name
  example   df.nn.Embedding(10, 3)(df.int32{{1, 2}}).shape

df.nn.Dropout(rate, {…})
  A layer: l(x, {training = false}). In training each element is 0 with probability rate, and the
  others are divided by 1 - rate.
  option    seed: int = nil  of what is drawn
  option    noise_shape: shape = nil  that of what is drawn; 1 where an axis shares it
@name
  example   df.nn.Dropout(0.5)(df.float32{1, 2})

df.nn.Flatten({…})
  A layer: [batch, ...] as [batch, the product of the rest].
@name
  example   df.nn.Flatten()(df.ones{2, 3, 4}).shape

df.nn.Sequential({l1, l2, …}, {…})
  A layer of layers: each gets what the one before gave; functions may stand among them. Its call
  takes {training = …}, which goes on to those that know it.
@name
  example   df.nn.Sequential{df.nn.Dense(4), df.relu, df.nn.Dense(1)}(df.ones{2, 3}).shape

df.nn.Conv2D(filters, size, {…})
  A layer: a convolution of [batch, height, width, channels]. size, strides and dilation are a
  number or {height, width}; .kernel is [h, w, in, filters], .bias [filters].
@convolution
  example   df.nn.Conv2D(4, 3, {padding = 'SAME'})(df.ones{1, 5, 5, 2}).shape

df.nn.Conv3D(filters, size, {…})
  A layer: a convolution of [batch, depth, height, width, channels]. size, strides and dilation are
  a number or {depth, height, width}; .kernel is [d, h, w, in, filters], .bias [filters].
@convolution
  example   df.nn.Conv3D(4, 3, {padding = 'SAME'})(df.ones{1, 5, 5, 5, 2}).shape

df.nn.Conv1D(filters, size, {…})
  A layer: a convolution of [batch, width, channels]; .kernel is [w, in, filters]. The padding
  'CAUSAL' is all in front.
@convolution
  example   df.nn.Conv1D(4, 3)(df.ones{1, 5, 2}).shape

df.nn.DepthwiseConv2D(size, {…})
  A layer: a convolution of each channel by itself; .kernel is [h, w, in, depth_multiplier], the
  result has in times depth_multiplier channels.
  option    depth_multiplier: int = 1  channels made of each
@convolution
  example   df.nn.DepthwiseConv2D(3)(df.ones{1, 5, 5, 2}).shape

df.nn.Conv2DTranspose(filters, size, {…})
  A layer: the transpose of a convolution, which makes images larger by the strides; .kernel is
  [h, w, filters, in].
@convolution
  example   df.nn.Conv2DTranspose(4, 2, {strides = 2})(df.ones{1, 5, 5, 2}).shape

df.nn.Conv3DTranspose(filters, size, {…})
  A layer: the transpose of a convolution, which makes volumes larger by the strides; .kernel is
  [d, h, w, filters, in].
@convolution
  example   df.nn.Conv3DTranspose(4, 2, {strides = 2})(df.ones{1, 5, 5, 5, 2}).shape

df.nn.MaxPool2D(size, {…})
  A layer: the greatest of each window of [batch, height, width, channels].
@pooling
  example   df.nn.MaxPool2D(2)(df.ones{1, 4, 4, 2}).shape

df.nn.AvgPool2D(size, {…})
  A layer: the mean of each window of [batch, height, width, channels].
@pooling
  example   df.nn.AvgPool2D(2)(df.ones{1, 4, 4, 2}).shape

df.nn.MaxPool1D(size, {…})
  A layer: the greatest of each window of [batch, width, channels].
@pooling
  example   df.nn.MaxPool1D(2)(df.ones{1, 4, 2}).shape

df.nn.AvgPool1D(size, {…})
  A layer: the mean of each window of [batch, width, channels].
@pooling
  example   df.nn.AvgPool1D(2)(df.ones{1, 4, 2}).shape

df.nn.MaxPool3D(size, {…})
  A layer: the greatest of each window of [batch, depth, height, width, channels].
@pooling
  example   df.nn.MaxPool3D(2)(df.ones{1, 4, 4, 4, 2}).shape

df.nn.AvgPool3D(size, {…})
  A layer: the mean of each window of [batch, depth, height, width, channels].
@pooling
  example   df.nn.AvgPool3D(2)(df.ones{1, 4, 4, 4, 2}).shape

df.nn.GlobalMaxPool({…})
  A layer: the greatest of all places, [batch, ..., channels] to [batch, channels].
@name
  example   df.nn.GlobalMaxPool()(df.ones{1, 4, 4, 2}).shape

df.nn.GlobalAvgPool({…})
  A layer: the mean of all places, [batch, ..., channels] to [batch, channels].
@name
  example   df.nn.GlobalAvgPool()(df.ones{1, 4, 4, 2}).shape

df.nn.BatchNorm({…})
  A layer: l(x, {training = false}). In training x is normalised by its own mean and variance over
  all axes but one, and .moving_mean and .moving_variance go a part 1 - momentum of the way to
  them whenever the call runs; otherwise x is normalised by those. training may be an Output.
  option    axis: int = -1  the one that is not averaged over
  option    momentum: number = 0.99  how much of the averages stays
  option    epsilon: number = 1e-3  added to the variance
@affine
  example   df.nn.BatchNorm()(df.float32{{1, 2}, {3, 6}}, {training = true})

df.nn.LayerNorm({…})
  A layer: each example by mean and variance of its last axis, times .gamma plus .beta.
  option    epsilon: number = 1e-6  added to the variance
@affine
  example   df.nn.LayerNorm()(df.float32{{1, 3}})

df.nn.layer_norm(x, {…})
  Each example by mean and variance over an axis or a list of them: LayerNorm without variables of
  its own.
  option    gamma: float = nil  what it is then multiplied by
  option    beta: float = nil  what is then added
  option    axis: int or list = -1  over which mean and variance are taken
  option    epsilon: number = 1e-6  added to the variance
  example   df.nn.layer_norm({{1.0, 3.0}}, {gamma = 2.0, beta = 1.0})

df.nn.GroupNorm({…})
  A layer: each example by mean and variance of groups of its channels, over all places.
  option    groups: int = 32  a divisor of the number of channels
  option    epsilon: number = 1e-3  added to the variance
@affine
  example   df.nn.GroupNorm{groups = 2}(df.float32{{1, 3, 5, 9}})

df.nn.RMSNorm({…})
  A layer: x by the root of the mean of squares of its last axis, times .gamma.
  option    epsilon: number = 1e-6  added to the mean of squares
  option    scale: bool = true  whether there is a gamma
  option    gamma_initializer: any = nil  ones otherwise
@name
  example   df.nn.RMSNorm()(df.float32{{3, 4}})

df.nn.attention(queries, keys, values, {…})
  softmax(q k' scale) v, and the weights. queries are [..., tq, d], keys [..., tk, d], values
  [..., tk, dv].
  option    mask: bool = nil  [queries, keys] with or without a batch in front: true where a query
              may look
  option    causal: bool = false  query i sees keys 0 to i only
  option    offset: int = 0  how many keys are before the first query, as those of a cache: query i
              sees keys 0 to offset + i
  option    scale: number = nil  d ^ -0.5 otherwise
  example   df.nn.attention(df.ones{1, 2}, df.ones{2, 2}, df.float32{{1}, {3}})

df.nn.AdditiveAttention(units, {…})
  A layer: l(query, keys, values, {mask, causal}) by scores scale . tanh(q W + k U), Bahdanau's.
  query is [batch, size] or [batch, tq, size]. Gives the mix of values, and the weights.
@name
  example   df.nn.AdditiveAttention(4)(df.ones{1, 3}, df.ones{1, 5, 2}).shape

df.nn.MultiHeadAttention(heads, size, {…})
  A layer: l(query, keys = query, values = keys, {causal = false, mask, cache, training}). size is
  the width of all heads together; .query .key .value .output are Dense. With a cache, {keys =,
  values =} of [batch, heads, time, size / heads] or l:empty_cache(batch), keys and values go
  behind those it holds, and the longer cache is the second result.
  option    use_bias: bool = true  whether the four have a bias
  option    dropout: number = 0  of the weights, in training
  option    kernel_initializer: any = nil  of all four; Glorot's uniform otherwise
@name
  example   local l, x = df.nn.MultiHeadAttention(2, 4), df.ones{1, 3, 4}
            local y, cache = l(x, x, x, {causal = true, cache = {}})
            return y.shape, df.run(df.shape(cache.keys))

df.nn.TransformerBlock(heads, size, {…})
  A layer: attention and two dense layers, each behind a LayerNorm and added to what went in.
  l(x, {mask, cache, training}); with a cache the second result is it, longer.
  option    hidden: int = nil  width of the first dense layer, 4 times size otherwise
  option    causal: bool = false  no place sees what is after it
  option    dropout: number = 0  in training
  option    activation: function = nil  df.gelu otherwise
@name
  example   df.nn.TransformerBlock(2, 4)(df.ones{1, 3, 4}).shape
]==]
