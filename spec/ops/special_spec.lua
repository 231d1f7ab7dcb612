-- Inverses of distributions, and other functions that are one formula.
local df = require 'dflow'
local support = require 'spec.support'
local host_it = support.host_it(it, pending)         -- a GPU's are within CUDA's ULP

local function agrees(name, low, high, ...)
  for _, dtype in ipairs{ 'float32', 'float64', 'float16', 'bfloat16' } do
    local coarse = ({ float32 = 2e-6, float64 = 1e-14 })[dtype] or 1e-2
    for _, shape in ipairs{ {}, { 37 }, { 2, 0 }, { 3, 5 } } do
      local xs = { support.tensor(shape, low, high, dtype, 1) }
      for i, range in ipairs{ ... } do xs[i + 1] = support.tensor(shape, range[1], range[2], dtype, i + 1) end
      support.cpu_equals_ref(df[name], xs, { rtol = coarse, atol = coarse / 100, what = name .. ' of ' .. dtype })
    end
  end
end

describe('erf', function()
  host_it('of every half is the half nearest to it', function()
    local bits = df.cast(df.range(65536), 'uint16')
    for _, dtype in ipairs{ 'float16', 'bfloat16' } do
      support.cpu_equals_ref(function(x)
        local y = df.erf(df.bitcast(x, { type = dtype }))
        return { y, df.cast(1 / y, 'float32') }                          -- -0, too
      end, { df.run(bits) }, { rtol = 0, atol = 0, what = dtype })
    end
  end)
  it('of halves does not depend on the shape', function()
    for _, dtype in ipairs{ 'float16', 'bfloat16' } do
      local x = support.tensor({ 531 }, -3, 3, dtype, 2)
      local all = df.run(df.erf(x))
      for _, i in ipairs{ 0, 17, 511, 512, 530 } do assert.are.equal(all:at(i), df.run(df.erf(df.constant(x:at(i), dtype)))) end
    end
  end)
end)

describe('erf of float32', function()
  host_it('is within 1.3 ulp, odd, goes up, and ends at 1', function()
    local x = df.bitcast(df.range(0, 8388608 * 130, 40013), { type = 'float32' })       -- from 0 to 8
    local y, exact = df.erf(x), df.erf(df.cast(x, 'float64'))
    local ulp = df.pow(df.float64(2), df.floor(df.log(df.maximum(exact, 1e-37)) / math.log(2)) - 23)
    local up = y:slice({ 1 }, { -1 }) - y:slice({ 0 }, { df.size(y) - 1 })
    local worst, even, least, last = df.unpack(df.run{ df.reduce_max(df.abs(df.cast(y, 'float64') - exact) / ulp), df.reduce_max(df.abs(y + df.erf(-x))),
      df.reduce_min(up), df.reduce_max(y) })
    assert.is_true(worst < 1.3, tostring(worst))
    assert.same({ 0, 0, 1 }, { even, least, last })
    assert.same({ -1 / 0, 1, -1 }, { 1 / df.run(df.erf(-0.0)), df.run(df.erf(1 / 0)), df.run(df.erf(-1 / 0)) })
    assert.is_true(df.run(df.is_nan(df.erf(0 / 0))))
  end)
end)

describe('erfinv', function()
  it('undoes erf', function()
    local x = df.float64{ -0.999999, -0.5, -1e-12, 0, 1e-5, 0.3, 0.9, 0.99999 }
    support.near(df.run(x:erfinv():erf()), df.run(x), { rtol = 4e-16, atol = 1e-30 })
  end)
  it('is infinite at -1 and 1, and NaN beyond', function()
    local t = df.run(df.erfinv{ -1.0, 1.0, 1.5 })
    assert.are.equal(-math.huge, t:at(0))
    assert.are.equal(math.huge, t:at(1))
    assert.are_not.equal(t:at(2), t:at(2))
    local wide = df.run(df.erfinv(df.float64{ -1, 1, 1.5, -1.25, 1 + 2^-52 }))
    assert.are.equal(-math.huge, wide:at(0))
    assert.are.equal(math.huge, wide:at(1))
    for i = 2, 4 do assert.are_not.equal(wide:at(i), wide:at(i)) end
  end)
  it('agrees with the reference', function() agrees('erfinv', -0.99, 0.99) end)
end)

describe('ndtri', function()
  it('is the quantile of the normal distribution, far into its tails', function()
    -- the published quantiles
    local found = df.run(df.ndtri(df.float64{ 1e-300, 1e-20, 1e-5, 0.025, 0.5, 0.9 }))
    local expected = { -37.0471, -9.262340089798408, -4.264890793922825, -1.9599639845400545, 0, 1.2815515655446004 }
    for i, v in ipairs(expected) do
      assert.is_true(math.abs(found:at(i - 1) - v) <= (i == 1 and 1e-4 or 1e-13) * math.max(1, math.abs(v)), tostring(found:at(i - 1)))
    end
  end)
  it('is odd around a half', function()
    local p = 2 ^ -20
    support.near(df.run(df.ndtri(df.float64(1 - p))), -df.run(df.ndtri(df.float64(p))), { rtol = 1e-10, atol = 0 })
  end)
  it('is infinite at 0 and 1, and NaN beyond', function()
    local t = df.run(df.ndtri{ 0.0, 1.0, -0.5 })
    assert.are.equal(-math.huge, t:at(0))
    assert.are.equal(math.huge, t:at(1))
    assert.are_not.equal(t:at(2), t:at(2))
  end)
  it('agrees with the reference', function() agrees('ndtri', 0.01, 0.99) end)
end)

describe('next_after', function()
  it('is one step of the dtype towards the other number', function()
    assert.are.equal(1 + 2 ^ -23, df.run(df.next_after(df.float32(1), df.float32(2))))
    assert.are.equal(1 - 2 ^ -53, df.run(df.next_after(df.float64(1), df.float64(-7))))
    assert.are.equal(3.0, df.run(df.next_after(df.float32(3), df.float32(3))))
    assert.is_true(df.run(df.next_after(df.float32(0), df.float32(1))) > 0)
  end)
end)

describe('sin and cos of float32', function()
  it('are within one unit of the last place, near multiples of pi / 2 and beyond 65536 too', function()
    local x, seed = {}, 5
    for k = 1, 20000 do
      seed = seed * 16807 % 2147483647
      x[k] = (seed / 2147483647 - 0.5) * 2 ^ (k % 40 - 20)
      if k % 3 == 0 then x[k] = math.floor(x[k]) * (math.pi / 2) end
    end
    x = df.constant(df.run(df.constant(x, 'float32')))
    for _, f in ipairs{ 'sin', 'cos' } do
      local found, exact = df.run(df.cast(df[f](x), 'float64')):totable(), df.run(df[f](df.cast(x, 'float64'))):totable()
      for k, v in ipairs(exact) do
        local unit = 2 ^ (math.floor(math.log(math.abs(v) + 1e-300) / math.log(2)) - 23)
        assert.is_true(math.abs(found[k] - v) <= unit, ('%s: %.17g instead of %.17g'):format(f, found[k], v))
      end
    end
  end)
  it('are those of 0 with its sign, and NaN of infinities', function()
    local t = df.run(df.sin{ -0.0, 0.0, math.huge, -math.huge }):totable()
    assert.equal('-inf', tostring(1 / t[1]))
    assert.equal('inf', tostring(1 / t[2]))
    assert.is_true(t[3] ~= t[3] and t[4] ~= t[4])
    assert.equal(1, df.run(df.cos(-0.0)))
  end)
end)
