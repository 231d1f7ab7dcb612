-- Seeds: what draws alike, and what does not.
local df = require 'dflow'
local near = require('spec.support').near

local function loop(seed)
  local _, x = df.while_loop(function(i) return i:lt(3) end, function(i, x)
    return i + 1, df.concat({ x, df.random_uniform({ 2 }, seed and { seed = seed } or nil) }, 0)
  end, { df.int32(0), df.zeros{ 0 } }, { shape_invariants = { {}, { -1 } } })
  return x
end

local function draws(...)
  local s = df.Session()
  local r = s:run{ ... }
  for i = 1, #r do r[i] = r[i]:totable() end
  s:close()
  return r
end

describe('a seed', function()
  it('makes two loops written alike draw alike, and each iteration anew', function()
    local r = draws(loop(7), loop(7), loop(8))
    assert.are.same(r[1], r[2])
    assert.are_not.same(r[1], r[3])
    assert.are_not.equal(r[1][1], r[1][3])
  end)
  it('draws the same numbers on any number of threads, in iterations that run side by side too', function()
    local n = 24
    local _, sums = df.while_loop(function(i) return i:lt(n) end, function(i, sums)
      local x = df.random_uniform({ 300, 300 }, { seed = 3 }):reduce_sum() + df.random_normal({ 200, 200 }, { seed = 4 }):reduce_sum()
      return i + 1, sums:write(i, x)
    end, { df.int32(0), df.TensorArray('float32', n) })
    local y, first = sums:stack(), nil
    for _, threads in ipairs{ 1, 4, 4, 4, 2 } do
      local s = df.Session{ threads = threads }
      local drawn = s:run(y):totable()
      s:close()
      first = first or drawn
      assert.same(first, drawn)
    end
  end)
  it('is one of its own for each op that has none', function()
    local r = draws(loop(), loop(), df.random_uniform{ 6 }, df.random_uniform{ 6 })
    assert.are_not.same(r[1], r[2])
    assert.are_not.same(r[3], r[4])
  end)
  it('makes calls of a function draw each for itself', function()
    local f = df.func('f', { 'float32' }, function(x) return df.random_uniform({ 3 }, { seed = 1 }) + x end, { shapes = { {} } })
    local r = draws(f(0.0), f(0.0))
    assert.are_not.same(r[1], r[2])
  end)
end)

describe('a gamma or Poisson number', function()
  it('is drawn anew in each run, as its seed says, for each parameter', function()
    local g, p = df.random_gamma({ 3000 }, { 0.5, 4.0 }, { seed = 2 }), df.random_poisson({ 3.0, 30.0 }, { 3000 }, { seed = 2 })
    assert.same({ 3000, 2 }, g.shape)
    assert.same({ 3000, 2 }, p.shape)
    for _, case in ipairs{ { g, 0.5, 4 }, { p, 3, 30 } } do
      local mean, spread = df.moments(case[1], { 0 })
      local m, v = df.run(mean), df.run(spread)
      for i = 0, 1 do
        assert.is_true(math.abs(m:at(i) - case[2 + i]) < 0.08 * case[2 + i] + 0.05)
        assert.is_true(math.abs(v:at(i) - case[2 + i]) < 0.2 * case[2 + i] + 0.05)
      end
    end
    local function first() local s = df.Session() local x = s:run(g) s:close() return x:totable() end
    assert.same(first(), first())
    local x, y = df.run(g):totable(), df.run(g):totable()
    assert.are_not.same(x, y)
    local a, b = df.random_gamma({ 4 }, 2.0), df.random_gamma({ 4 }, 2.0)
    local r = df.run{ a, b }
    assert.are_not.same(r[1]:totable(), r[2]:totable())
  end)

  it('that an integer does not have is the nearest that it has, and 0 of NaN, as of a cast', function()
    local function drawn(dtype) return df.run(df.random_poisson({ 1 / 0, 0 / 0, 1e12 }, {}, { dtype = dtype, seed = 2 })):totable() end
    assert.same({ 2147483647, 0, 2147483647 }, drawn 'int32')
    local x = drawn 'int64'
    assert.equal('9223372036854775807', ('%d'):format(x[1]))
    assert.equal(0, x[2])
  end)
end)

describe('a stateless draw', function()
  it('is a function of shape and seed: the numbers of TensorFlow 2.15', function()
    near(df.run(df.stateless_random_uniform({ 7 }, { 3, 17 })), { 0.8790513277, 0.8249487877, 0.4704920053, 0.1077059507, 0.5869967937, 0.5131052732, 0.4019982815 })
    near(df.run(df.stateless_random_uniform({ 3 }, { 3, 17 }, { dtype = 'float64' })), { 0.03241104786274729, 0.7639364211032278, 0.6959745725860917 })
    near(df.run(df.stateless_random_normal({ 7 }, { 3, 17 })), { -0.4524948895, 0.2303743511, 0.7690294981, 0.9573641419, -0.0848997831, -1.0287195444, -1.0720611811 })
    near(df.run(df.stateless_truncated_normal({ 7 }, { 3, 17 })), { -0.4524948895, 0.2303743511, 0.7690294981, 0.9573641419, 0.6846148968, -0.0124487710, 0.4479214549 })
    near(df.run(df.stateless_truncated_normal({ 3 }, { 3, 17 }, { dtype = 'float64' })), { 0.22902923950508705, 0.8320322009092496, -0.14806436120053318 })
    local x = df.stateless_random_uniform({ 2, 2 }, { 1, 2 }, 5, 6)
    assert.are.same(df.run(x):totable(), df.run(x):totable())
    assert.is_true(df.run(x):at(0, 0) >= 5)
  end)
  it('of a gamma, Poisson, binomial or multinomial distribution is TensorFlow\'s too', function()
    near(df.run(df.stateless_random_gamma({ 2 }, { 1, 2 }, 2.5)), { 3.4498653, 2.4584897 })
    near(df.run(df.stateless_random_gamma({ 2 }, { 1, 2 }, 2.5, 2.0)), { 3.4498653 / 2, 2.4584897 / 2 })
    assert.same({ 6, 5, 6 }, df.run(df.stateless_random_poisson({ 3 }, { 1, 2 }, 4.0)):totable())
    assert.same({ 6, 6, 7 }, df.run(df.stateless_random_binomial({ 3 }, { 1, 2 }, 10.0, 0.5)):totable())
    assert.same({ { 2, 2, 1, 2 } }, df.run(df.stateless_multinomial({ { 0.0, 1.0, 2.0 } }, 4, { 1, 2 }, { dtype = 'int32' })):totable())
    local x = df.run(df.stateless_random_poisson({ 2000, 2 }, { 5, 6 }, { 3.0, 40.0 }, { dtype = 'float32' }))
    local mean = df.run(df.reduce_mean(df.constant(x), { axis = 0 }))
    assert.is_true(math.abs(mean:at(0) - 3) < 0.2 and math.abs(mean:at(1) - 40) < 0.6)
    local n = df.run(df.stateless_random_binomial({ 2000, 2 }, { 5, 6 }, { 100.0, 5.0 }, { 0.75, 0.9 }, { dtype = 'float32' }))
    mean = df.run(df.reduce_mean(df.constant(n), { axis = 0 }))
    assert.is_true(math.abs(mean:at(0) - 75) < 0.5 and math.abs(mean:at(1) - 4.5) < 0.1)
  end)
  it('says what is wrong with its parameters', function()
    local function message(fn, ...) return tostring(select(2, pcall(fn, ...))) end
    assert.matches('must end in that of the parameter', message(df.run, df.stateless_random_gamma({ 3 }, { 1, 2 }, { 1.0, 2.0 })))
    assert.matches('alpha is 0 but must be greater than 0', message(df.run, df.stateless_random_gamma({ 1 }, { 1, 2 }, 0.0)))
    assert.matches('seed must have shape', message(df.stateless_random_poisson, { 2 }, { 1, 2, 3 }, 1.0))
    assert.matches('counts is float32%[3%] and probs float32%[2%], which cannot be broadcast',
      message(df.run, df.stateless_random_binomial({ 3 }, { 1, 2 }, { 1.0, 2.0, 3.0 }, { 0.5, 0.5 })))
    assert.matches('must be a matrix', message(df.run, df.stateless_multinomial({ 0.0, 1.0 }, 4, { 1, 2 })))
    assert.matches('num_samples is %-2 but must not be negative', message(df.run, df.stateless_multinomial({ { 0.0, 1.0 } }, -2, { 1, 2 })))
    assert.matches('lam', message(df.stateless_random_poisson, { 2 }, { 1, 2 }))
  end)
  it('of a binomial distribution hangs on Stirling\'s formula where a draw is near the bound', function()
    local x = df.run(df.stateless_random_binomial({ 297886 }, { 7, 3 }, 24.0, 0.45, { dtype = 'float32' }))
    assert.equal(9, x:at(297885))                                   -- a millionth less in the bound, and it is drawn again
  end)
  it('of a binomial distribution broadcasts its parameters, and knows what is no probability', function()
    local function draw(...) return df.run(df.stateless_random_binomial(...)):totable() end
    assert.same({ { 3, 4 }, { 20, 43 } }, draw({ 2, 2 }, { 1, 2 }, { { 5.0 }, { 50.0 } }, { { 0.3, 0.9 } }))
    assert.same({ { { 3 }, { 43 } }, { { 2 }, { 43 } }, { { 2 }, { 44 } } }, draw({ 3, 2, 1 }, { 1, 2 }, { { 5.0 }, { 50.0 } }, { { 0.3 }, { 0.9 } }))
    assert.same({ 0, 3, 4, 0, 0 }, draw({ 5 }, { 1, 2 }, { -1.0, 3.0, 4.0, 3.0, 0.0 }, { 0.5, 1.5, 1.0, -0.5, 0 / 0 }))
    assert.same({}, draw({ 0 }, { 1, 2 }, { 1.0 }, df.zeros{ 0 }))
    for _, n in ipairs{ 1, 5 } do
      local x = df.stateless_random_binomial({ n }, { 1, 2 }, { 1.0 }, df.zeros{ 0 })
      assert.matches('the shape must end in that of the parameter, float32%[0%]', tostring(select(2, pcall(df.run, x))))
    end
    local x = df.stateless_random_binomial({ 2, 1 }, { 1, 2 }, { { 5.0 }, { 50.0 } }, { { 0.3, 0.9 } })
    assert.matches('that of the parameter, float32%[2,2%]', tostring(select(2, pcall(df.run, x))))
  end)
  it('of another program has a seed of signed integers, or one number that names the generator', function()
    local function const(name, type, dims, value)
      return ('node { name: "%s" op: "Const" attr { key: "dtype" value { type: %s } } attr { key: "value" value { tensor { dtype: %s '
        .. 'tensor_shape { dim { size: %d } } %s } } } }\n'):format(name, type, type, dims, value)
    end
    local function drawn(key, op, inputs, attrs)
      local g = df.import_graph_def(const('n', 'DT_INT32', 1, 'int_val: 3') .. const('k', 'DT_UINT64', key, 'uint64_val: 5')
        .. const('c', 'DT_UINT64', 2, 'uint64_val: 5') .. const('none', 'DT_INT32', 0, '')
        .. ('node { name: "x" op: "%s" input: "n" input: "k" %s %s }'):format(op, inputs, attrs))
      local s = df.Session{ graph = g }
      return s:run(g:output 'x:0')
    end
    local function message(...) return tostring(select(2, pcall(drawn, ...))) end
    local types = 'attr { key: "dtype" value { type: DT_UINT64 } } attr { key: "T" value { type: DT_INT32 } } attr { key: "Tseed" value { type: DT_UINT64 } }'
    for key = 1, 2 do assert.matches('seed%) is uint64 but must be', message(key, 'StatelessRandomUniformFullInt', '', types)) end
    local floats = 'attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "Tshape" value { type: DT_INT32 } }'
    assert.matches('alg must be one integer, it has rank 1 and 0 elements', message(1, 'StatelessRandomUniformV2', 'input: "c" input: "none"', floats))
  end)
  it('wants a seed of two integers', function()
    local ok, e = pcall(df.stateless_random_uniform, { 2 }, { 1, 2, 3 })
    assert.is_false(ok)
    assert(tostring(e):find('seed must have shape [2]', 1, true))
  end)
end)
