-- Random numbers: the same for a seed whatever runs them, new in each run and iteration, distributed as they should be.
local df = require 'dflow'
local support = require 'spec.support'
local near, same = support.near, support.same

local fails = require('spec.support').fails

local function list(t)
  return t.rank == 1 and t:totable() or t:reshape({ -1 }):totable()
end

--- Mean, variance, third and fourth moment about the mean, and the correlation of neighbours.
local function moments(t)
  local v = list(t:astype('float64'))
  local n, mean = #v, 0
  for _, x in ipairs(v) do mean = mean + x / n end
  local m2, m3, m4, lag = 0, 0, 0, 0
  for i, x in ipairs(v) do
    local d = x - mean
    m2, m3, m4 = m2 + d * d / n, m3 + d * d * d / n, m4 + d * d * d * d / n
    if i > 1 then lag = lag + d * (v[i - 1] - mean) / n end
  end
  return mean, m2, m3, m4, lag / m2
end

local ops = {
  random_uniform = function(opts) return df.random_uniform({ 3, 1001 }, opts) end,
  random_normal = function(opts) return df.random_normal({ 3, 1001 }, opts) end,
  truncated_normal = function(opts) return df.truncated_normal({ 3, 1001 }, opts) end,
}

describe('random numbers', function()
  it('are the same on any number of threads and with the reference kernels', function()
    local x = { df.random_uniform({ 300000 }, { seed = 5 }), df.random_normal({ 300001 }, { seed = 6 }),
                df.truncated_normal({ 299999 }, { seed = 7 }), df.random_uniform({ 100001 }, { max = 1000, dtype = 'int32', seed = 8 }),
                df.random_normal({ 100001 }, { dtype = 'float64', seed = 9 }) }
    local sums = {}
    for i, y in ipairs(x) do
      sums[i] = df.stack { df.reduce_sum(df.cast(y, 'float64')), df.reduce_sum(df.cast(y, 'float64') ^ 2), df.cast(y[77777], 'float64') }
    end
    local expected
    for _, opts in ipairs { { threads = 1 }, { threads = 2 }, { threads = 4 }, { threads = 2, kernels = 'ref' } } do
      local s = df.Session(opts)
      local found = s:run(sums)
      s:close()
      if opts.kernels then near(found, expected, { rtol = 1e-9 })
      else
        same(found, expected or found)
        expected = expected or found
      end
    end
  end)
  for name, make in pairs(ops) do
    for _, dtype in ipairs { 'float32', 'float64', 'float16', 'bfloat16' } do
      it('of ' .. name .. ' in ' .. dtype .. ' are those of the reference, bit for bit', function()
        local y = make { dtype = dtype, seed = 3 }
        local fast, honest = df.Session { kernels = 'cpu' }, df.Session { kernels = 'ref' }
        same(list(fast:run(y)), list(honest:run(y)))
        fast:close()
        honest:close()
      end)
    end
  end
  it('start with the same numbers for the same seeds and tensor sizes', function()
    local short, long = df.random_uniform({ 10 }, { seed = 1 }), df.random_uniform({ 100 }, { seed = 1 })
    local a, b = df.unpack(df.run { short, df.slice(long, { 0 }, { 10 }) })
    same(a, b)
  end)
  it('differ between runs, and the n-th run of a new session repeats', function()
    local x = df.random_uniform({ 4 }, { seed = 1 })
    local function two()
      local s = df.Session {}
      local a, b = list(s:run(x)), list(s:run(x))
      s:close()
      return a, b
    end
    local a, b = two()
    assert.are_not.same(a, b)
    local c, d = two()
    same(c, a)
    same(d, b)
  end)
  it('differ between iterations', function()
    local _, ta = df.while_loop(function(i) return i:lt(50) end, function(i, ta)
      return i + 1, ta:write(i, df.random_uniform({}))
    end, { df.int32(0), df.TensorArray('float32', 50) })
    local seen = {}
    for _, v in ipairs(list(df.run(ta:stack()))) do
      assert.is_nil(seen[v])
      seen[v] = true
    end
  end)
  it('differ between ops that are given no seed, and between seeds', function()
    local a, b, c, d = df.unpack(df.run { df.random_uniform({ 4 }), df.random_uniform({ 4 }), df.random_uniform({ 4 }, { seed = 1 }),
                                          df.random_uniform({ 4 }, { seed = 2 }) })
    local all, n = {}, 0
    for _, t in ipairs { a, b, c, d } do for _, v in ipairs(list(t)) do if not all[v] then all[v] = true n = n + 1 end end end
    assert.are.equal(16, n)
  end)
  it('follow the graph\'s seed', function()
    local function draw(seed)
      local g = df.Graph()
      return g:as_default(function()
        df.set_random_seed(seed)
        local s = df.Session { graph = g }
        local v = list(s:run(df.random_normal({ 5 })))
        s:close()
        return v
      end)
    end
    same(draw(1), draw(1))
    assert.are_not.same(draw(1), draw(2))
  end)
  it('have no place in a gradient', function()
    local x = df.float64(3)
    near(df.run(df.gradients(x * x + df.random_uniform({}, { dtype = 'float64' }), x)), 6)
  end)

  describe('are distributed', function()
    local n = 100000
    for _, dtype in ipairs { 'float32', 'float64' } do
      it('uniformly in [0, 1), ' .. dtype, function()
        local t = df.run(df.random_uniform({ n }, { dtype = dtype, seed = 11 }))
        local mean, m2, m3, m4, lag = moments(t)
        near({ mean, m2, m3, m4, lag }, { 0.5, 1 / 12, 0, 1 / 80, 0 }, { rtol = 0.01, atol = 0.008 })
        local buckets = {}
        for _, v in ipairs(list(t)) do
          assert(v >= 0 and v < 1)
          local k = math.floor(v * 16)
          buckets[k] = (buckets[k] or 0) + 1
        end
        local chi2 = 0
        for k = 0, 15 do chi2 = chi2 + (buckets[k] - n / 16) ^ 2 / (n / 16) end
        assert(chi2 < 45, chi2)               -- 15 degrees of freedom: beyond 45 once in ten thousand
      end)
      it('normally, ' .. dtype, function()
        local mean, m2, m3, m4, lag = moments(df.run(df.random_normal({ n }, { dtype = dtype, seed = 12 })))
        near({ mean, m2, m3, m4, lag }, { 0, 1, 0, 3, 0 }, { rtol = 0.02, atol = 0.02 })
      end)
      it('normally within two deviations, ' .. dtype, function()
        local t = df.run(df.truncated_normal({ n }, { dtype = dtype, seed = 13 }))
        local mean, m2, m3 = moments(t)
        near({ mean, m2, m3 }, { 0, 0.7737, 0 }, { rtol = 0.01, atol = 0.01 })
        for _, v in ipairs(list(t)) do assert(math.abs(v) < 2) end
      end)
    end
    it('with mean and deviation, min and max', function()
      local mean, m2 = moments(df.run(df.random_normal({ n }, { mean = 5, stddev = 0.5, seed = 1 })))
      near({ mean, m2 }, { 5, 0.25 }, { rtol = 0.02 })
      mean = moments(df.run(df.random_uniform({ n }, { min = -3, max = -1, seed = 1 })))
      near(mean, -2, { rtol = 0.01 })
    end)
    it('over integers, all as often', function()
      local counts = {}
      for _, v in ipairs(list(df.run(df.random_uniform({ n }, { min = -3, max = 4, dtype = 'int32', seed = 3 })))) do
        assert(v >= -3 and v < 4)
        counts[v] = (counts[v] or 0) + 1
      end
      for v = -3, 3 do near(counts[v] / n, 1 / 7, { rtol = 0.03 }) end
    end)
    it('over int64 up to its ends', function()
      local low, high = df.constant(-2 ^ 62, 'int64') * 2, df.constant(2 ^ 62, 'int64') - 1 + df.constant(2 ^ 62, 'int64')
      local t = df.run(df.random_uniform_int({ 1000 }, low, high, { seed = 3 }))
      local below = 0
      for _, v in ipairs(list(t:astype('float64'))) do if v < 0 then below = below + 1 end end
      assert(below > 400 and below < 600, below)
    end)
    it('over permutations', function()
      local counts, n6 = {}, 6000
      local _, ta = df.while_loop(function(i) return i:lt(n6) end, function(i, ta)
        return i + 1, ta:write(i, df.reduce_sum(df.random_shuffle(df.int32 { 1, 2, 3 }) * df.int32 { 100, 10, 1 }))
      end, { df.int32(0), df.TensorArray('int32', n6) })
      for _, v in ipairs(list(df.run(ta:stack()))) do counts[v] = (counts[v] or 0) + 1 end
      for _, v in ipairs { 123, 132, 213, 231, 312, 321 } do near(counts[v] / n6, 1 / 6, { rtol = 0.12 }) end
    end)
    it('over classes, by their logits', function()
      local logits = df.log(df.float32 { { 0.1, 0.2, 0.7 }, { 0.5, 0.5, 0 } })
      local t = df.run(df.multinomial(logits, 50000, { seed = 4 }))
      near(t.shape, { 2, 50000 })
      assert.are.equal('int64', t.dtype)
      for row, expected in ipairs { { 0.1, 0.2, 0.7 }, { 0.5, 0.5, 0 } } do
        local counts = { 0, 0, 0 }
        for _, v in ipairs(t:totable()[row]) do v = tonumber(v) counts[v + 1] = counts[v + 1] + 1 end
        for c = 1, 3 do near(counts[c] / 50000, expected[c], { rtol = 0.05 }) end
        if row == 2 then assert.are.equal(0, counts[3]) end
      end
    end)
  end)

  it('shuffle rows of any dtype and keep each', function()
    local t = df.run(df.random_shuffle(df.int32 { { 1, 10 }, { 2, 20 }, { 3, 30 }, { 4, 40 } }, { seed = 1 })):totable()
    table.sort(t, function(a, b) return a[1] < b[1] end)
    near(t, { { 1, 10 }, { 2, 20 }, { 3, 30 }, { 4, 40 } })
    local s = df.run(df.random_shuffle(df.constant { 'c', 'a', 'b' })):totable()
    table.sort(s)
    near(s, { 'a', 'b', 'c' })
    near(df.run(df.random_shuffle(df.float32(7))), 7)
  end)
  it('of empty and scalar shapes', function()
    near(df.run(df.random_uniform({ 0, 3 })).shape, { 0, 3 })
    local v = df.run(df.random_normal({}))
    assert.are.equal('number', type(v))
  end)
  it('of a shape that is known only when it runs', function()
    local shape = df.placeholder('int32', { 2 })
    local x = df.random_uniform(shape)
    near(df.run(x, { [shape] = { 2, 5 } }).shape, { 2, 5 })
    fails(function() df.run(x, { [shape] = { 2, -5 } }) end, 'invalid_argument', '-5')
  end)
  it('are refused where nothing can be drawn', function()
    fails(function() df.random_uniform({ 2 }, { min = 3, max = 3, dtype = 'int32' }) end, 'invalid_argument', 'minval is 3', 'maxval, 3')
    fails(function() df.random_uniform({ -2 }) end, 'invalid_argument', '-2')
    fails(function() df.run(df.multinomial(df.float32 { { -1 / 0, -1 / 0 } }, 2)) end, 'invalid_argument', '-inf')
    fails(function() df.run(df.multinomial(df.float32 { { 0 / 0, 1 } }, 2)) end, 'invalid_argument', 'NaN')
    fails(function() df.multinomial(df.float32 { 1, 2 }, 2) end, 'invalid_argument', 'float32[2]')
  end)
end)
