--- The pages of streaming metrics and of initializers. Text for pages.lua, which docs/functions.lua reads.
return [==[
df.nn.metrics
  Streaming metrics: mean, accuracy, precision, recall, auc, mean_squared_error,
  mean_absolute_error, perplexity, bleu. Each gives the value so far, an update and an operation
  that begins anew. ?accuracy and so on tell more.
  example   local value, update = df.nn.metrics.accuracy({1, 2, 3}, {1, 2, 0})
            df.run(update)
            return value

df.nn.metrics.mean(values, {…})
  The mean of all values so far. Like every metric it gives three: the value so far, an update (fetch
  it with the feeds of a batch: it adds them, and is the value after that), and an operation that
  begins anew.
@weights
  example   local x = df.placeholder('float32', {-1})
            local mean, update, reset = df.nn.metrics.mean(x)
            df.run(update, {[x] = {1, 2}})
            df.run(update, {[x] = {6}})
            local so_far = df.run(mean)
            df.run(reset)
            return so_far, df.run(mean)

df.nn.metrics.accuracy(labels, predictions, {…})
  The share of predictions that equal their label. Of logits the prediction is their argmax:
  df.argmax(logits, -1). Value, update and reset as of df.nn.metrics.mean.
@weights
  example   local value, update = df.nn.metrics.accuracy({1, 2, 3, 0}, {1, 2, 0, 0})
            return df.run(update)

df.nn.metrics.precision(labels, predictions, {…})
  Of what was predicted true the share that is. Booleans, or numbers, which are true unless 0; 0
  while nothing was predicted true. Value, update and reset as of df.nn.metrics.mean.
@weights
  example   local value, update = df.nn.metrics.precision({1, 0, 1, 1}, {1, 1, 1, 0})
            return df.run(update)

df.nn.metrics.recall(labels, predictions, {…})
  Of what is true the share that was predicted. Booleans, or numbers, which are true unless 0; 0
  while nothing was true. Value, update and reset as of df.nn.metrics.mean.
@weights
  example   local value, update = df.nn.metrics.recall({1, 0, 1, 1}, {1, 1, 1, 0})
            return df.run(update)

df.nn.metrics.auc(labels, predictions, {…})
  The area under the curve of predictions from 0 to 1, by trapezoids between thresholds. Value,
  update and reset as of df.nn.metrics.mean.
  option    num_thresholds: int = 200  how finely the curve is known
  option    curve: string = 'ROC'  true over false positives; 'PR': precision over recall
@weights
  example   local value, update = df.nn.metrics.auc({0, 0, 1, 1}, {0.1, 0.4, 0.35, 0.8})
            return df.run(update)

df.nn.metrics.mean_squared_error(labels, predictions, {…})
  The mean of (predictions - labels) ^ 2. Value, update and reset as of df.nn.metrics.mean.
@weights
  example   local value, update = df.nn.metrics.mean_squared_error({1.0, 2.0}, {1.0, 4.0})
            return df.run(update)

df.nn.metrics.mean_absolute_error(labels, predictions, {…})
  The mean of |predictions - labels|. Value, update and reset as of df.nn.metrics.mean.
@weights
  example   local value, update = df.nn.metrics.mean_absolute_error({1.0, 2.0}, {1.0, 4.0})
            return df.run(update)

df.nn.metrics.perplexity(losses, {…})
  e to the mean of losses, which are nats per word or letter, as a cross entropy gives them. Value,
  update and reset as of df.nn.metrics.mean.
@weights
  example   local value, update = df.nn.metrics.perplexity({0.5, 1.5, 9}, {weights = {1, 1, 0}})
            return df.run(update)

df.nn.metrics.bleu(references, candidates, {…})
  BLEU of a corpus of ids int [batch, time], one reference for each candidate: the geometric mean of
  the precisions of 1 to `order` words in a row, times a penalty for being shorter (Papineni et al.,
  2002). Value, update and reset as of df.nn.metrics.mean.
  option    reference_lengths: int = nil  [batch]: where each reference ends
  option    candidate_lengths: int = nil  [batch]: where each candidate ends
  option    order: int = 4  the longest row of words that counts
  example   local value, update = df.nn.metrics.bleu({{1, 2, 3, 4, 5}}, {{1, 2, 3, 4, 6}})
            return df.run(update)

df.nn.initializers
  How weights begin: variance_scaling, glorot_ he_ lecun_ uniform and normal, orthogonal, identity,
  zeros, ones, constant, random_uniform, random_normal, truncated_normal. Each is called with its
  options and gives a function(shape, dtype) for a layer or df.get_variable; a layer takes the name
  alone, too: {kernel_initializer = 'orthogonal'}.
  example   df.nn.initializers.he_normal{seed = 1}({3, 4}, 'float32').shape

df.nn.initializers.variance_scaling({…})
  Numbers of variance scale / fan, where fan is how many inputs or outputs a unit of the kernel has
  (the last two axes, times the places of a window before them).
  option    scale: number = 1  of the variance
  option    mode: string = 'fan_in'  or 'fan_out', or 'fan_avg', their mean
  option    distribution: string = 'truncated_normal'  or 'untruncated_normal', or 'uniform'
@seed
  example   df.nn.initializers.variance_scaling{scale = 2, mode = 'fan_avg'}({3, 4}, 'float32').shape

df.nn.initializers.glorot_uniform({…})
  Uniform within sqrt(6 / (inputs + outputs)) of zero (Glorot and Bengio, 2010): what a Dense begins
  with, TensorFlow's default; also known as Xavier's.
@seed
  example   df.nn.Dense(2, {kernel_initializer = df.nn.initializers.glorot_uniform{seed = 1}})(df.ones{1, 3}).shape

df.nn.initializers.glorot_normal({…})
  Normal numbers of variance 2 / (inputs + outputs), none beyond two deviations (Glorot and Bengio,
  2010); also known as Xavier's.
@seed
  example   df.nn.initializers.glorot_normal{seed = 1}({3, 4}, 'float32').shape

df.nn.initializers.he_uniform({…})
  Uniform within sqrt(6 / inputs) of zero (He et al., 2015): for layers with df.relu; also known as
  Kaiming's.
@seed
  example   df.nn.initializers.he_uniform{seed = 1}({3, 4}, 'float32').shape

df.nn.initializers.he_normal({…})
  Normal numbers of variance 2 / inputs, none beyond two deviations (He et al., 2015): for layers
  with df.relu; also known as Kaiming's.
@seed
  example   df.nn.initializers.he_normal{seed = 1}({3, 4}, 'float32').shape

df.nn.initializers.lecun_uniform({…})
  Uniform within sqrt(3 / inputs) of zero.
@seed
  example   df.nn.initializers.lecun_uniform{seed = 1}({3, 4}, 'float32').shape

df.nn.initializers.lecun_normal({…})
  Normal numbers of variance 1 / inputs, none beyond two deviations.
@seed
  example   df.nn.initializers.lecun_normal{seed = 1}({3, 4}, 'float32').shape

df.nn.initializers.orthogonal({…})
  A matrix whose rows or columns, whichever are fewer, are orthonormal; axes before the last count as
  rows. For the weights that a recurrent network uses at every step.
  option    gain: number = 1  what the matrix is multiplied by
@seed
  example   local q = df.nn.initializers.orthogonal{seed = 1}({3, 2}, 'float32')
            return df.reduce_max(df.abs(df.matmul(q, q, {transpose_a = true}) - df.eye(2))):lt(1e-5)

df.nn.initializers.identity({…})
  Ones on the diagonal of a matrix.
  option    gain: number = 1  in place of the ones
  example   df.nn.initializers.identity()({2, 3}, 'float32')

df.nn.initializers.zeros()
  Zeros: what biases begin with.
  example   df.nn.initializers.zeros()({2}, 'float32')

df.nn.initializers.ones()
  Ones.
  example   df.nn.initializers.ones()({2}, 'float32')

df.nn.initializers.constant(value)
  The number everywhere. A number alone does the same: {bias_initializer = 0.1}.
  example   df.nn.initializers.constant(0.1)({2}, 'float32')

df.nn.initializers.random_uniform({…})
  Uniform numbers.
  option    min: number = -0.05  the least
  option    max: number = 0.05  none is as large
@seed
  example   df.nn.initializers.random_uniform{min = -1, max = 1, seed = 1}({3}, 'float32').shape

df.nn.initializers.random_normal({…})
  Normal numbers.
@normal
@seed
  example   df.nn.initializers.random_normal{stddev = 0.1, seed = 1}({3}, 'float32').shape

df.nn.initializers.truncated_normal({…})
  Normal numbers, drawn again where they are two or more deviations from the mean.
@normal
@seed
  example   df.nn.initializers.truncated_normal{stddev = 0.1, seed = 1}({3}, 'float32').shape
]==]
