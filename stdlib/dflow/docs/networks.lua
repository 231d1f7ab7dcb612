--- The pages of functions that networks are made of: activations, losses, normalisation, clipping. Text for pages.lua,
-- which docs/functions.lua reads.
return [==[
df.gelu(x, {…})
  x times the normal distribution's share up to x.
  option    approximate: bool = false  by a tanh
  gradient  x: dy (share + x times the density at x)
  example   df.gelu{-1.0, 0.0, 1.0}

df.scaled_dot_product_attention(query, key, value, {…})
  softmax(scale query key' + bias) value as one op, which keeps no matrix of all scores, nor does its
  gradient: memory grows with the times, not with their product. query is [..., tq, d], key
  [..., tk, d], value [..., tk, dv]. Keys are taken in blocks, so sums are in another order than
  those of matmul and softmax. A query that may see no key gives 0. What may not be seen should
  be finite: 0 times infinity is NaN. df.nn.attention is the same by ops, and gives the weights.
  option    mask: bool = nil  broadcasts to [..., tq, tk]: true where a query may look
  option    bias: float = nil  broadcasts likewise and is added to the scores; it has a gradient
  option    causal: bool = false  query i sees keys 0 to i only, however many there are
  option    offset: int = 0  with causal: how many keys are before the first query, as those of a
              cache. What is causal is a bool for each score then
  option    scale: number = nil  d ^ -0.5 otherwise
  example   df.scaled_dot_product_attention({{1.0, 0.0}}, {{1.0, 0.0}, {0.0, 1.0}}, {{1.0}, {3.0}})

df.moments(x, axes, {…})
  Mean and variance along the axes.
  option    keep_dims: bool = false  the axes stay, as ones
@name
  gradient  that of the means it is made of
  example   df.moments({1.0, 2.0, 3.0}, {0})

df.clip_by_average_norm(x, clip_norm)
  x, made smaller where its norm divided by the number of its elements is more than clip_norm.
  gradient  that of the ops it is made of
  example   df.clip_by_average_norm({3.0, 4.0}, 1.0)

df.weighted_cross_entropy_with_logits(labels, logits, pos_weight)
  The cross entropy of sigmoid(logits), in which positive examples count pos_weight times.
  gradient  that of the ops it is made of
  example   df.weighted_cross_entropy_with_logits({1.0, 0.0}, {1.5, -2.0}, 2.0)

df.log_poisson_loss(targets, log_input, compute_full_loss?)
  exp(log_input) - log_input * targets; with compute_full_loss also Stirling's approximation of the
  logarithm of the targets' factorials.
  gradient  that of the ops it is made of
  example   df.log_poisson_loss({0.0, 3.0}, {0.5, 2.0}, true)

df.sufficient_statistics(x, axes, shift?, keep_dims?)
  count, sum and sum of squares along the axes of x, less shift: what df.normalize_moments takes.
  gradient  that of the ops it is made of
  example   df.sufficient_statistics({{1.0, 2.0}, {3.0, 5.0}}, {0})

df.normalize_moments(counts, mean_ss, variance_ss, shift?)
  Mean and variance of what df.sufficient_statistics found.
  gradient  that of the ops it is made of
  example   df.normalize_moments(2.0, df.float32{4, 7}, df.float32{10, 29})

df.weighted_moments(x, axes, frequency_weights, keep_dims?)
  Mean and variance along the axes, each element as often as its weight says.
  gradient  that of the ops it is made of
  example   df.weighted_moments({{1.0, 2.0}, {3.0, 5.0}}, {0}, {{1.0}, {3.0}})

df.relu_layer(x, weights, biases)
  relu(x weights + biases).
  gradient  that of the ops it is made of
  example   df.relu_layer({{1.0, -2.0}}, {{1.0}, {1.0}}, {3.0})

df.embedding_lookup_sparse(tables, ids, weights?, {…})
  The rows that each example's ids name, as one row. ids, and weights, are {indices =, values =,
  dense_shape =}: row i of the indices says which example value i belongs to; the examples are in
  order.
  option    combiner: string = 'mean'  or 'sum', 'sqrtn': by the root of the sum of squared weights
  option    partition_strategy: string = 'mod'  as of df.embedding_lookup
@name
  gradient  tables: dy, sparse, weighted
  example   df.embedding_lookup_sparse({{1.0, 2.0}, {3.0, 4.0}}, {indices = {{0, 0}, {0, 1}, {1, 0}}, values = {0, 1, 1}, dense_shape = {2, 2}})

df.l2_normalize(x, axis, {…})
  x divided by its norm along the axis.
  option    epsilon: number = 1e-12  the least that the sum of squares counts for
@name
  gradient  that of the ops it is made of
  example   df.l2_normalize({3.0, 4.0}, 0)

df.clip_by_norm(x, clip_norm, axes?)
  x scaled down so that its norm is at most clip_norm.
  gradient  that of the ops it is made of
  example   df.clip_by_norm({3.0, 4.0}, 1)

df.global_norm(list)
  The square root of the sum of all squares of a list; false counts for nothing.
  gradient  that of the ops it is made of
  example   df.global_norm{df.float32{3}, df.float32{4}}

df.clip_by_global_norm(list, clip_norm, {…})
  The list scaled down so that its norm is at most clip_norm, and the norm it had.
  option    use_norm: Output = nil  the norm, where it is known already
@name
  gradient  that of the ops it is made of
  example   df.clip_by_global_norm({df.float32{3}, df.float32{4}}, 1)

df.log_sigmoid(x)
  log(sigmoid(x)), without underflow.
  gradient  x: dy * sigmoid(-x)
  example   df.log_sigmoid{-100.0, 0.0}

df.sigmoid_cross_entropy_with_logits(logits, labels)
  Elementwise cross entropy of labels between 0 and 1 and sigmoid(logits), without overflow. Both
  may be given by name.
  gradient  logits: dy * (sigmoid(logits) - labels)
  example   df.sigmoid_cross_entropy_with_logits{labels = {1.0, 0.0}, logits = {2.0, 2.0}}
]==]
