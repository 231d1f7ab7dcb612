--- The pages of df.nn's layers. Text for pages.lua, which docs/functions.lua reads.
return [==[
df.nn
  Layers, losses, samplers, metrics and initializers. A layer such as df.nn.Dense or df.nn.Conv2D is made
  once and called; l:parameters() lists its variables. The ops of df are here, too: df.nn.relu is
  df.relu.
  example   df.nn.relu == df.relu

df.nn.dense(x, units, {…})
  Computes activation(x W + b). Returns it and the list of its variables. x is [..., inputs], the result [..., units].
  option    activation: function = nil  applied to the result, such as df.relu
  option    use_bias: bool = true  false: no b
  option    name: string = 'dense'  the prefix of the variables' names
  option    seed: int = nil  the seed of the initial weights
  example   df.nn.dense(df.ones{2, 3}, 4).shape

df.nn.lstm_cell(units, {…})
  Makes an LSTM cell: cell.step(x, state) returns h and the next state {c =, h =}; cell.zero_state(batch,
  dtype) returns the initial state; cell.variables is the list of weights, made at the first step.
  option    forget_bias: number = 1  added to the forget gate
  option    name: string = 'lstm_cell'  the prefix of the variables' names
  option    seed: int = nil  the seed of the initial weights
  example   local cell = df.nn.lstm_cell(4)
            return cell.step(df.ones{2, 3}, cell.zero_state(2)).shape

df.nn.gru_cell(units, {…})
  Makes a GRU cell, used as an lstm_cell; its state is h.
  option    name: string = 'gru_cell'  the prefix of the variables' names
  option    seed: int = nil  the seed of the initial weights
  example   local cell = df.nn.gru_cell(4)
            return cell.step(df.ones{2, 3}, cell.zero_state(2)).shape

df.nn.glorot_uniform(rows, columns, dtype?, seed?)
  Draws Glorot's uniform weights, within sqrt(6 / (rows + columns)) of zero.
  example   df.nn.glorot_uniform(2, 3, 'float32', 1).shape

df.nn.Dense(units, {…})
  A layer that computes activation(x kernel + bias). x is [batch, ..., in], the result [batch, ...,
  units]. The first call makes .kernel [in, units] and .bias; later calls share them.
  option    activation: function = nil  applied to the result, such as df.relu
  option    use_bias: bool = true  false: no bias
  option    kernel_initializer: any = nil  a function(shape, dtype), a name in df.nn.initializers,
              or a value; Glorot's uniform otherwise
  option    bias_initializer: any = nil  the same; zeros otherwise
@name
  example   local l = df.nn.Dense(4)
            return l(df.ones{2, 3}).shape, l.kernel.shape

df.nn.Embedding(n, size, {…})
  A layer that looks up rows of its .table [n, size] by integer ids. The gradient is sparse.
  option    initializer: any = nil  as of a Dense; uniform within 0.05 of zero otherwise
@name
  example   df.nn.Embedding(10, 3)(df.int32{{1, 2}}).shape

df.nn.Dropout(rate, {…})
  A layer: l(x, {training = false}). In training it sets each element to 0 with probability rate, and
  divides the others by 1 - rate.
  option    seed: int = nil  of what is drawn
  option    noise_shape: shape = nil  the shape of the drawn numbers; elements share one along axes of size 1
@name
  example   df.nn.Dropout(0.5)(df.float32{1, 2})

df.nn.Flatten({…})
  A layer that reshapes [batch, ...] to [batch, n].
@name
  example   df.nn.Flatten()(df.ones{2, 3, 4}).shape

df.nn.Sequential({l1, l2, …}, {…})
  A layer that calls a list of layers and functions in turn, each with the previous result. {training =
  …} is passed to the layers that take it.
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
  'CAUSAL' pads the beginning only.
@convolution
  example   df.nn.Conv1D(4, 3)(df.ones{1, 5, 2}).shape

df.nn.DepthwiseConv2D(size, {…})
  A layer: a separate convolution of each channel; .kernel is [h, w, in, depth_multiplier], the
  result has in times depth_multiplier channels.
  option    depth_multiplier: int = 1  the output channels per input channel
@convolution
  example   df.nn.DepthwiseConv2D(3)(df.ones{1, 5, 5, 2}).shape

df.nn.Conv2DTranspose(filters, size, {…})
  A layer: a transposed convolution, which enlarges images by the strides; .kernel is
  [h, w, filters, in].
@convolution
  example   df.nn.Conv2DTranspose(4, 2, {strides = 2})(df.ones{1, 5, 5, 2}).shape

df.nn.Conv3DTranspose(filters, size, {…})
  A layer: a transposed convolution, which enlarges volumes by the strides; .kernel is
  [d, h, w, filters, in].
@convolution
  example   df.nn.Conv3DTranspose(4, 2, {strides = 2})(df.ones{1, 5, 5, 5, 2}).shape

df.nn.MaxPool2D(size, {…})
  A layer: the maximum of each window of [batch, height, width, channels].
@pooling
  example   df.nn.MaxPool2D(2)(df.ones{1, 4, 4, 2}).shape

df.nn.AvgPool2D(size, {…})
  A layer: the mean of each window of [batch, height, width, channels].
@pooling
  example   df.nn.AvgPool2D(2)(df.ones{1, 4, 4, 2}).shape

df.nn.MaxPool1D(size, {…})
  A layer: the maximum of each window of [batch, width, channels].
@pooling
  example   df.nn.MaxPool1D(2)(df.ones{1, 4, 2}).shape

df.nn.AvgPool1D(size, {…})
  A layer: the mean of each window of [batch, width, channels].
@pooling
  example   df.nn.AvgPool1D(2)(df.ones{1, 4, 2}).shape

df.nn.MaxPool3D(size, {…})
  A layer: the maximum of each window of [batch, depth, height, width, channels].
@pooling
  example   df.nn.MaxPool3D(2)(df.ones{1, 4, 4, 4, 2}).shape

df.nn.AvgPool3D(size, {…})
  A layer: the mean of each window of [batch, depth, height, width, channels].
@pooling
  example   df.nn.AvgPool3D(2)(df.ones{1, 4, 4, 4, 2}).shape

df.nn.GlobalMaxPool({…})
  A layer: the maximum over all positions, [batch, ..., channels] to [batch, channels].
@name
  example   df.nn.GlobalMaxPool()(df.ones{1, 4, 4, 2}).shape

df.nn.GlobalAvgPool({…})
  A layer: the mean over all positions, [batch, ..., channels] to [batch, channels].
@name
  example   df.nn.GlobalAvgPool()(df.ones{1, 4, 4, 2}).shape

df.nn.BatchNorm({…})
  A layer: l(x, {training = false}). In training it normalises x by its own mean and variance over all
  axes but one; each run of the call updates .moving_mean and .moving_variance. Otherwise it normalises x
  by these averages. training may be an Output.
  option    axis: int = -1  the axis that is not averaged
  option    momentum: number = 0.99  the weight of the old averages in an update
  option    epsilon: number = 1e-3  added to the variance
@affine
  example   df.nn.BatchNorm()(df.float32{{1, 2}, {3, 6}}, {training = true})

df.nn.LayerNorm({…})
  A layer that normalises each example by the mean and variance of its last axis, then multiplies by
  .gamma and adds .beta.
  option    epsilon: number = 1e-6  added to the variance
@affine
  example   df.nn.LayerNorm()(df.float32{{1, 3}})

df.nn.layer_norm(x, {…})
  Normalises each example by the mean and variance over one or several axes: LayerNorm without
  variables.
  option    gamma: float = nil  multiplies the normalised x
  option    beta: float = nil  added to that
  option    axis: int or list = -1  the axes of mean and variance
  option    epsilon: number = 1e-6  added to the variance
  example   df.nn.layer_norm({{1.0, 3.0}}, {gamma = 2.0, beta = 1.0})

df.nn.GroupNorm({…})
  A layer that normalises each example by the mean and variance of groups of channels, over all
  positions.
  option    groups: int = 32  the number of groups, a divisor of the number of channels
  option    epsilon: number = 1e-3  added to the variance
@affine
  example   df.nn.GroupNorm{groups = 2}(df.float32{{1, 3, 5, 9}})

df.nn.RMSNorm({…})
  A layer that divides x by the root mean square of its last axis and multiplies by .gamma.
  option    epsilon: number = 1e-6  added to the mean of squares
  option    scale: bool = true  false: no gamma
  option    gamma_initializer: any = nil  ones otherwise
@name
  example   df.nn.RMSNorm()(df.float32{{3, 4}})

df.nn.attention(queries, keys, values, {…})
  Returns softmax(q k' scale) v, and the weights. queries are [..., tq, d], keys [..., tk, d], values
  [..., tk, dv].
  option    mask: bool = nil  [queries, keys] with or without a batch in front: true where a query
              may look
  option    causal: bool = false  true: query i attends to keys 0 to i only
  option    offset: int = 0  the number of keys before the first query, as those of a cache: query i
              sees keys 0 to offset + i
  option    scale: number = nil  d ^ -0.5 otherwise
  example   df.nn.attention(df.ones{1, 2}, df.ones{2, 2}, df.float32{{1}, {3}})

df.nn.AdditiveAttention(units, {…})
  A layer: l(query, keys, values, {mask, causal}) by scores scale . tanh(q W + k U), Bahdanau's.
  query is [batch, size] or [batch, tq, size]. Returns the weighted values and the weights.
@name
  example   df.nn.AdditiveAttention(4)(df.ones{1, 3}, df.ones{1, 5, 2}).shape

df.nn.MultiHeadAttention(heads, size, {…})
  A layer: l(query, keys = query, values = keys, {causal = false, mask, cache, training}). size is
  the width of all heads together; .query .key .value .output are Dense. With a cache, {keys =,
  values =} of [batch, heads, time, size / heads] or l:empty_cache(batch), keys and values are
  appended to it, and the longer cache is the second result.
  option    use_bias: bool = true  false: no biases
  option    dropout: number = 0  the dropout rate of the weights, in training
  option    kernel_initializer: any = nil  the initializer of all four; Glorot's uniform otherwise
@name
  example   local l, x = df.nn.MultiHeadAttention(2, 4), df.ones{1, 3, 4}
            local y, cache = l(x, x, x, {causal = true, cache = {}})
            return y.shape, df.run(df.shape(cache.keys))

df.nn.TransformerBlock(heads, size, {…})
  A layer: attention, then two dense layers, each after a LayerNorm and with a residual connection.
  l(x, {mask, cache, training}); with a cache the second result is the longer cache.
  option    hidden: int = nil  the width of the first dense layer; 4 times size otherwise
  option    causal: bool = false  true: a position attends to earlier ones only
  option    dropout: number = 0  the dropout rate in training
  option    activation: function = nil  of the first dense layer; df.gelu otherwise
@name
  example   df.nn.TransformerBlock(2, 4)(df.ones{1, 3, 4}).shape
]==]
