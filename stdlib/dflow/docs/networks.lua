--- The pages of functions that networks are made of: activations, losses, normalisation, clipping. Text for pages.lua,
-- which docs/functions.lua reads.
return [==[
df.gelu(x, {…})
  Computes x times the normal distribution function of x.
  option    approximate: bool = false  true: approximates it by tanh
  gradient  x: dy (the distribution function + x times the density)
  example   df.gelu{-1.0, 0.0, 1.0}

df.scaled_dot_product_attention(query, key, value, {…})
  Computes softmax(scale query key' + bias) value in one op. Neither it nor its gradient stores the matrix
  of scores, so memory grows with tq and tk, not with their product. query is [..., tq, d], key
  [..., tk, d], value [..., tk, dv]. Keys are processed in blocks, so sums are in another order than
  those of matmul and softmax. A query that may attend to no key gives 0. Masked values must be finite: 0
  times infinity is NaN. df.nn.attention is built of several ops and returns the weights.
  option    mask: bool = nil  broadcasts to [..., tq, tk]: true where a query may attend
  option    bias: float = nil  broadcasts likewise and is added to the scores; it has a gradient
  option    causal: bool = false  true: query i attends to keys 0 to i only
  option    offset: int = 0  with causal: the number of keys before the first query, as those of a
              cache. What is causal is a bool for each score then
  option    scale: number = nil  d ^ -0.5 otherwise
  example   df.scaled_dot_product_attention({{1.0, 0.0}}, {{1.0, 0.0}, {0.0, 1.0}}, {{1.0}, {3.0}})

df.moments(x, axes, {…})
  Returns the mean and variance along the axes.
  option    keep_dims: bool = false  true: keeps the axes, with size 1
@name
  gradient  that of the means it is made of
  example   df.moments({1.0, 2.0, 3.0}, {0})

df.clip_by_average_norm(x, clip_norm)
  Scales x down where its norm divided by the number of its elements is more than clip_norm.
  gradient  that of the ops it is made of
  example   df.clip_by_average_norm({3.0, 4.0}, 1.0)

df.weighted_cross_entropy_with_logits(labels, logits, pos_weight)
  Computes the cross entropy of sigmoid(logits), with positive examples weighted by pos_weight.
  gradient  that of the ops it is made of
  example   df.weighted_cross_entropy_with_logits({1.0, 0.0}, {1.5, -2.0}, 2.0)

df.log_poisson_loss(targets, log_input, compute_full_loss?)
  Computes exp(log_input) - log_input * targets; with compute_full_loss also Stirling's approximation of the
  logarithm of the targets' factorials.
  gradient  that of the ops it is made of
  example   df.log_poisson_loss({0.0, 3.0}, {0.5, 2.0}, true)

df.sufficient_statistics(x, axes, shift?, keep_dims?)
  Returns count, sum and sum of squares of x - shift along the axes, for df.normalize_moments.
  gradient  that of the ops it is made of
  example   df.sufficient_statistics({{1.0, 2.0}, {3.0, 5.0}}, {0})

df.normalize_moments(counts, mean_ss, variance_ss, shift?)
  Returns the mean and variance of results of df.sufficient_statistics.
  gradient  that of the ops it is made of
  example   df.normalize_moments(2.0, df.float32{4, 7}, df.float32{10, 29})

df.weighted_moments(x, axes, frequency_weights, keep_dims?)
  Returns the weighted mean and variance along the axes.
  gradient  that of the ops it is made of
  example   df.weighted_moments({{1.0, 2.0}, {3.0, 5.0}}, {0}, {{1.0}, {3.0}})

df.relu_layer(x, weights, biases)
  Computes relu(x weights + biases).
  gradient  that of the ops it is made of
  example   df.relu_layer({{1.0, -2.0}}, {{1.0}, {1.0}}, {3.0})

df.embedding_lookup_sparse(tables, ids, weights?, {…})
  Looks up the rows of each example's ids and combines them to one row. ids, and weights, are {indices =, values =,
  dense_shape =}: row i of the indices names the example of value i, in order.
  option    combiner: string = 'mean'  or 'sum', 'sqrtn': by the root of the sum of squared weights
  option    partition_strategy: string = 'mod'  as of df.embedding_lookup
@name
  gradient  tables: dy, sparse, weighted
  example   df.embedding_lookup_sparse({{1.0, 2.0}, {3.0, 4.0}}, {indices = {{0, 0}, {0, 1}, {1, 0}}, values = {0, 1, 1}, dense_shape = {2, 2}})

df.l2_normalize(x, axis, {…})
  Divides x by its norm along the axis.
  option    epsilon: number = 1e-12  the lower bound of the sum of squares
@name
  gradient  that of the ops it is made of
  example   df.l2_normalize({3.0, 4.0}, 0)

df.clip_by_norm(x, clip_norm, axes?)
  Scales x down so that its norm is at most clip_norm.
  gradient  that of the ops it is made of
  example   df.clip_by_norm({3.0, 4.0}, 1)

df.global_norm(list)
  Returns the square root of the sum of the squares of all elements of a list; false is ignored.
  gradient  that of the ops it is made of
  example   df.global_norm{df.float32{3}, df.float32{4}}

df.clip_by_global_norm(list, clip_norm, {…})
  Scales the list down so that its global norm is at most clip_norm. Returns the list and the norm before.
  option    use_norm: Output = nil  the norm, where it is known already
@name
  gradient  that of the ops it is made of
  example   df.clip_by_global_norm({df.float32{3}, df.float32{4}}, 1)

df.log_sigmoid(x)
  Computes log(sigmoid(x)), without underflow.
  gradient  x: dy * sigmoid(-x)
  example   df.log_sigmoid{-100.0, 0.0}

df.sigmoid_cross_entropy_with_logits(logits, labels)
  Computes the elementwise cross entropy of labels between 0 and 1 and sigmoid(logits), without overflow.
  Both may be given by name.
  gradient  logits: dy * (sigmoid(logits) - labels)
  example   df.sigmoid_cross_entropy_with_logits{labels = {1.0, 0.0}, logits = {2.0, 2.0}}
]==]
