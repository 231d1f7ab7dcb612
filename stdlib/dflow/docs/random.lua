--- The pages of random numbers. Text for pages.lua, which docs/functions.lua reads.
return [==[
df.stateless_random_uniform(shape, seed, minval = 0, maxval = 1, {dtype})
  Draws uniform numbers that depend only on the shape and the seed, a list of two integers; the same as TensorFlow's.
  example   df.stateless_random_uniform({2}, {1, 2})

df.stateless_random_normal(shape, seed, mean = 0, stddev = 1, {dtype})
  Draws normal numbers that depend only on the shape and the seed; the same as TensorFlow's.
  example   df.stateless_random_normal({2}, {1, 2})

df.stateless_truncated_normal(shape, seed, mean = 0, stddev = 1, {dtype})
  Draws normal numbers within two standard deviations that depend only on the shape and the seed; the same as TensorFlow's.
  example   df.stateless_truncated_normal({2}, {1, 2})

df.random_poisson(lam, shape, {dtype = 'float32', seed})
  Draws Poisson numbers of rates lam. The result's dimensions are those of shape, then those of lam.
  example   df.random_poisson({2.0, 20.0}, {3}, {seed = 1})

df.stateless_random_gamma(shape, seed, alpha, beta = 1, {dtype})
  Draws gamma numbers of shape alpha and rate beta, the same as TensorFlow's. The last dimensions of shape are those of alpha.
  example   df.stateless_random_gamma({2}, {1, 2}, 2.5)

df.stateless_random_poisson(shape, seed, lam, {dtype = 'int32'})
  Draws Poisson numbers of rate lam, the same as TensorFlow's. The last dimensions of shape are those of lam.
  example   df.stateless_random_poisson({3}, {1, 2}, 4.0)

df.stateless_random_binomial(shape, seed, counts, probs, {dtype = 'int32'})
  Draws binomial numbers of counts trials with probability probs, the same as TensorFlow's. The last dimensions of shape are theirs.
  example   df.stateless_random_binomial({3}, {1, 2}, 10.0, 0.5)

df.stateless_multinomial(logits, num_samples, seed, {dtype = 'int64'})
  Draws num_samples classes for each row with probabilities softmax(logits). They depend only on the arguments and the seed; the same as TensorFlow's.
  example   df.stateless_multinomial({{0.0, 1.0, 2.0}}, 4, {1, 2})

df.random_crop(value, size, {…})
  Returns a part of this size, at a random position in each run. A value that is smaller than the size
  is an error of the run.
@seed
@name
  gradient  value: dy, where the part was
  example   df.random_crop({{1, 2, 3}, {4, 5, 6}}, {1, 2}, {seed = 3})

df.dropout(x, rate, {…})
  Sets each element to zero with probability rate, and divides the others by 1 - rate.
  option    seed: int = nil  equal seeds give equal zeros in the n-th run that draws
  option    noise_shape: shape = nil  the shape of the drawn numbers; elements share one along axes of size 1
  option    keep_prob: number = nil  1 - rate, TensorFlow 1's option
@name
  gradient  x: dy where x was kept, divided by 1 - rate
  example   df.dropout(df.ones{4}, 0.5, {seed = 1})
]==]
