--- The pages of random numbers. Text for pages.lua, which docs/functions.lua reads.
return [==[
df.stateless_random_uniform(shape, seed, minval = 0, maxval = 1, {dtype})
  Uniform numbers that are a function of the shape and the seed, a list of two integers, alone; the same as TensorFlow's.
  example   df.stateless_random_uniform({2}, {1, 2})

df.stateless_random_normal(shape, seed, mean = 0, stddev = 1, {dtype})
  Normal numbers that are a function of the shape and the seed alone; the same as TensorFlow's.
  example   df.stateless_random_normal({2}, {1, 2})

df.stateless_truncated_normal(shape, seed, mean = 0, stddev = 1, {dtype})
  Normal numbers within two deviations that are a function of the shape and the seed alone; the same as TensorFlow's.
  example   df.stateless_truncated_normal({2}, {1, 2})

df.random_poisson(lam, shape, {dtype = 'float32', seed})
  Poisson numbers, as many of each rate lam as shape says: the dimensions of lam follow those of shape.
  example   df.random_poisson({2.0, 20.0}, {3}, {seed = 1})

df.stateless_random_gamma(shape, seed, alpha, beta = 1, {dtype})
  Gamma numbers of shape alpha and rate beta, TensorFlow's; the last dimensions of shape are those of alpha.
  example   df.stateless_random_gamma({2}, {1, 2}, 2.5)

df.stateless_random_poisson(shape, seed, lam, {dtype = 'int32'})
  Poisson numbers of rate lam, TensorFlow's; the last dimensions of shape are those of lam.
  example   df.stateless_random_poisson({3}, {1, 2}, 4.0)

df.stateless_random_binomial(shape, seed, counts, probs, {dtype = 'int32'})
  How often of counts times something of probability probs happens, TensorFlow's; the last dimensions of shape are theirs.
  example   df.stateless_random_binomial({3}, {1, 2}, 10.0, 0.5)

df.stateless_multinomial(logits, num_samples, seed, {dtype = 'int64'})
  Classes drawn with probabilities softmax(logits), num_samples of each row: a function of these and the seed, TensorFlow's.
  example   df.stateless_multinomial({{0.0, 1.0, 2.0}}, 4, {1, 2})

df.random_crop(value, size, {…})
  A part of this size, from a place that is drawn anew in each run. A value that is smaller stops
  it.
@seed
@name
  gradient  value: dy, where the part was
  example   df.random_crop({{1, 2, 3}, {4, 5, 6}}, {1, 2}, {seed = 3})

df.dropout(x, rate, {…})
  Each element is zero with probability rate, the others are divided by 1 - rate.
  option    seed: int = nil  the same one gives the same zeros in the n-th run in which it draws
  option    noise_shape: shape = nil  where it is 1 elements share their fate
  option    keep_prob: number = nil  1 - rate, as TensorFlow 1 has it
@name
  gradient  x: dy in the places that were kept, divided by 1 - rate
  example   df.dropout(df.ones{4}, 0.5, {seed = 1})
]==]
