--- Elementwise math, comparisons, logic, bits, select and casts: special values, broadcasting, errors, derivatives at edges.
local df = require 'dflow'
local support = require 'spec.support'
local near, same, message_of = support.near, support.same, support.message_of
local nan, inf = 0 / 0, math.huge
local op = require 'dflow.front.registry'.op

local function eval(name, ...) return df.run(df[name](...)) end
local function float64(v) return df.constant(v, 'float64') end

local host_it = require('spec.support').host_it(it, pending)

describe('elementwise math', function()
  it('keeps digits where the plain formula would lose them', function()
    near(eval('expm1', float64(1e-12)), 1e-12 + 5e-25, { rtol = 1e-15, atol = 0 })
    near(eval('log1p', float64(1e-12)), 1e-12 - 5e-25, { rtol = 1e-15, atol = 0 })
    near(eval('softplus', float64{ -50, 800 }), { math.exp(-50), 800 }, { rtol = 1e-15, atol = 0 })
    near(eval('sigmoid', float64{ -50, 800, -800 }), { math.exp(-50), 1, 0 }, { rtol = 1e-15, atol = 0 })
    near(eval('elu', float64(-1e-12)), -1e-12, { rtol = 1e-9, atol = 0 })
    near(eval('asinh', df.constant({ 1e30, -1e30 })), { 69.77070, -69.77070 }, { rtol = 1e-6 })
    near(eval('acosh', df.constant({ 1e30 })), { 69.77070 }, { rtol = 1e-6 })
    near(eval('cosh', df.constant({ 88.8 })), { 1.838e38 }, { rtol = 1e-2 })
  end)

  host_it('gives the same bits for a number and within a tensor', function()
    for count = 1, 2 do
      for _, dtype in ipairs{ 'float32', 'float64' } do
        for _, name in ipairs(support.elementwise(count, dtype)) do
          local arrays, numbers, feeds, values = {}, {}, {}, {}
          for k = 1, count do
            local t = support.tensor({ 19 }, -2, 2, dtype, 10 + k)
            arrays[k], numbers[k], values[k] = df.placeholder(dtype, { 19 }), df.placeholder(dtype, {}), t:totable()
            feeds[arrays[k]] = t
          end
          local all, one = df.run(op(name, arrays), feeds):totable(), op(name, numbers)
          for i = 1, 19 do
            local fed = {}
            for k, number in ipairs(numbers) do fed[number] = values[k][i] end
            same(df.run(one, fed), all[i], name)
          end
        end
      end
    end
  end)
end)

describe('special values', function()
  it('pass as IEEE 754 says', function()
    same(eval('divide', { 1.0, -1.0, 0.0 }, { 0.0, 0.0, 0.0 }), { inf, -inf, nan })
    same(eval('sqrt', { -1.0, 0.0, inf }), { nan, 0, inf })
    same(eval('log', { 0.0, -1.0, inf }), { -inf, nan, inf })
    same(eval('exp', { -inf, inf, nan }), { 0, inf, nan })
    same(eval('add', { inf, inf }, { -inf, 1.0 }), { nan, inf })
    same(eval('reciprocal', { 0.0, -inf }), { inf, 0 })
    same(eval('rsqrt', { 0.0, inf }), { inf, 0 })
    same(eval('tanh', { -inf, inf, nan }), { -1, 1, nan })
    same(eval('pow', { 0.0, 2.0, nan }, { 0.0, -1.0, 0.0 }), { 1, 0.5, 1 })
    same(eval('lgamma', { 0.0, -1.0 }), { inf, inf })
    same(eval('softsign', { -inf, inf, nan }), { nan, nan, nan })                  -- as TensorFlow's, inf / inf
  end)
  it('keep the sign of zero', function()
    local z = df.run(df.reciprocal(df.negative(df.constant({ 0.0, 1.0 }))))
    same(z, { -inf, -1 })
    same(df.run(df.reciprocal(df.sin(df.constant({ -0.0 }) * 1.0))), df.run(df.reciprocal(df.constant({ -0.0 }) * 1.0)))
  end)
  it('NaN wins in maximum, minimum and relu, and loses every comparison but not_equal', function()
    same(eval('maximum', { nan, 1.0 }, { 1.0, nan }), { nan, nan })
    same(eval('minimum', { nan, 1.0 }, { 1.0, nan }), { nan, nan })
    same(eval('relu', { nan, -1.0 }), { nan, 0 })
    same(eval('relu6', { nan, 7.0 }), { nan, 6 })
    same(eval('sign', { nan, -2.0 }), { nan, -1 })
    same(eval('less', { nan, 1.0 }, { 1.0, nan }), { false, false })
    same(eval('greater_equal', { nan }, { nan }), { false })
    same(eval('equal', { nan }, { nan }), { false })
    same(eval('not_equal', { nan }, { nan }), { true })
  end)
  it('are told apart by is_nan, is_inf and is_finite', function()
    local x = df.constant({ 0.0, nan, inf, -inf })
    same(df.run(df.is_nan(x)), { false, true, false, false })
    same(df.run(df.is_inf(x)), { false, false, true, true })
    same(df.run(df.is_finite(x)), { true, false, false, false })
  end)
  it('are nothing to div_no_nan, xdivy and xlogy where these say so', function()
    same(eval('div_no_nan', { 1.0, nan, 4.0 }, { 0.0, 0.0, 2.0 }), { 0, 0, 2 })
    same(eval('xdivy', { 0.0, 0.0, 4.0 }, { 0.0, nan, 2.0 }), { 0, 0, 2 })
    same(eval('xlogy', { 0.0, 0.0 }, { 0.0, nan }), { 0, 0 })
  end)
end)

describe('the gradient of a function with a pole', function()
  it('hands on nothing there where it is given nothing, as TensorFlow does, in all its kernels', function()
    for _, dtype in ipairs{ 'float16', 'bfloat16', 'float32', 'float64', 'complex64', 'complex128' } do
      for name, at_one in pairs{ sqrt = 0.5, rsqrt = -0.5, reciprocal = -1 } do
        for _, n in ipairs{ 1, 3, 40 } do
          local x = df.concat({ df.zeros({ n }, dtype), df.ones({ 1 }, dtype) }, 0)
          local dx = df.run(df.cast(df.gradients(df[name](x), x, { grad_ys = x }), 'float32')):totable()
          for i = 1, n do assert.equal(0, dx[i]) end
          assert.equal(at_one, dx[n + 1])
        end
      end
    end
    local x = df.constant{ 0.0, 0.0 }
    assert.same({ 0, math.huge }, df.run(df.gradients(df.sqrt(x), x, { grad_ys = df.constant{ 0.0, 1.0 } })):totable())
  end)
end)

describe('rounding', function()
  it('has no gradient, and says so by being unconnected', function()
    local x = df.constant(1.5)
    same(df.run(df.gradients(df.floor(x) + x, x)), 1)
    assert.is_truthy(message_of(df.gradients, df.floor(x), x))
  end)
end)

describe('integers', function()
  local function int(v, dtype) return df.constant(v, dtype or 'int32') end
  it('wrap where the smallest is divided by -1', function()
    local least = int(-2147483647 - 1)
    same(df.run(df.floordiv(least, -1)), -2147483648)
    same(df.run(df.floormod(least, -1)), 0)
    same(df.run(df.truncatediv(int({ -128, 5 }, 'int8'), int({ -1, -1 }, 'int8'))), { -128, -5 })
  end)
  it('leave what numbers by themselves leave, to the bit: floats of all sizes, next to multiples, zeros, denormals; the ends of the integers', function()
    local list = { float32 = {}, float64 = {} }
    for _, v in ipairs{ 0, -0.0, 1, -1, 0.3, 7, 1e-42, -1e-42, 1.2e-38, 1e-31, 1e-30, 3e38, -3e38, 1e-310, 1e308, 4194304, 4194303.5, inf, -inf, nan, 2.5e-29 } do
      list.float32[#list.float32 + 1], list.float64[#list.float64 + 1] = v, v
    end
    for k = 1, 40 do
      local v = ((k * 37) % 101 - 50) * 1.37 ^ ((k * 29) % 90 - 45)
      for _, w in ipairs{ v, v * k } do list.float32[#list.float32 + 1], list.float64[#list.float64 + 1] = w, w end
    end
    list.int32 = { 1, -1, 2, 3, -3, 7, 10, 46341, 65536, 2147483647, -2147483647, -2147483647 - 1, 2147483646, 1073741824 }
    for k = 1, 60 do list.int32[#list.int32 + 1] = (k * 48271 * 16807) % 4294967291 - 2147483646 end
    list.int64 = { -4611686018427387904, 4611686018427387904, 4294967296, -4294967296 }
    for _, v in ipairs(list.int32) do list.int64[#list.int64 + 1] = v end
    for dtype, values in pairs(list) do
      local n, all = #values, df.constant(values, dtype)
      local x, y = df.run(df.tile(all, { n })), df.run(df.reshape(df.tile(df.expand_dims(all, 1), { 1, n }), { -1 }))
      local names = dtype:find 'int' and { 'floormod', 'truncatemod', 'floordiv', 'truncatediv' } or { 'floormod', 'truncatemod' }
      local s = df.Session{ engine = 'tokens' }
      for _, name in ipairs(names) do
        local one = df.map_fn(function(a, b) return df[name](a, b) end, { x, y }, { dtype = dtype })
        assert.same(support.bits(s:run(one)), support.bits(s:run(df[name](x, y))), name .. ', ' .. dtype)
        -- Of one number for all, which may be a power of two.
        for k = 0, n - 1, dtype:find 'int' and 1 or 5 do
          local found = s:run{ df[name](all, all[k]), df[name](all, df.fill({ n }, all[k])) }
          assert.same(support.bits(found[2]), support.bits(found[1]), name .. ', ' .. dtype)
        end
      end
      s:close()
    end
  end)
  it('cannot be divided by zero', function()
    local zero, zeros = df.placeholder('int32', {}), df.placeholder('int32', { 2 })
    for _, name in ipairs{ 'floordiv', 'floormod', 'truncatediv', 'truncatemod' } do
      for _, x in ipairs{ int(7), int{ 7, 8 } } do
        local ok, e = pcall(df.run, df[name](x, zero), { [zero] = 0 })
        assert.is_false(ok)
        assert.are.equal('invalid_argument', e.code)
        assert.is_truthy(e.message:find('integer division by zero', 1, true))
        assert.is_truthy(e.source:find('ops_math_spec.lua', 1, true))
      end
      assert.is_false((pcall(df.run, df[name](7, zeros), { [zeros] = { 1, 0 } })))
      same(df.run(df[name](7.0, df.constant(0.0))), name:find 'div' and inf or nan)
    end
  end)
  it('have powers, but no negative ones', function()
    same(df.run(int{ 2, -3, 0 } ^ int{ 10, 3, 0 }), { 1024, -27, 1 })
    local n = df.placeholder('int32', {})
    assert.is_truthy(message_of(df.run, int(2) ^ n, { [n] = -1 }):find('negative power', 1, true))
    local x = df.placeholder('int32', { -1 })                   -- beside what it could be computed with in one pass
    assert.is_truthy(message_of(df.run, int{ -7, 3 } ^ x + x, { [x] = { -1, 1 } }):find('negative power', 1, true))
  end)
  it('are divided truly by /', function()
    local q = df.divide(int{ 1, 2 }, int{ 4, 4 })
    assert.are.equal('float32', q.dtype)
    same(df.run(q), { 0.25, 0.5 })
    assert.are.equal('float64', (int(1, 'int64') / int(2, 'int64')).dtype)
  end)
end)

describe('broadcasting', function()
  local function shape_of(x) return table.concat(df.run(x).shape, ',') end
  it('leaves empty tensors empty', function()
    assert.are.equal('0,3', shape_of(df.zeros{ 0, 3 } + df.zeros{ 1, 3 }))
    assert.are.equal('0', shape_of(df.exp(df.zeros{ 0 })))
    assert.are.equal('0', shape_of(df.floordiv(df.zeros({ 0 }, 'int32'), df.constant({ 0 }, 'int32'))))
  end)
  it('names both shapes where it cannot, when built and when run', function()
    local m = message_of(df.add, df.zeros{ 2, 3 }, df.zeros{ 2 })
    assert.is_truthy(m:find('float32[2,3]', 1, true) and m:find('float32[2]', 1, true))
    local a, b = df.placeholder('float32'), df.placeholder('float32')
    m = message_of(df.run, a * b, { [a] = { 1, 2, 3 }, [b] = { 1, 2 } })
    assert.is_truthy(m:find('float32[3]', 1, true) and m:find('float32[2]', 1, true))
  end)
end)

describe('comparisons and logic', function()
  it('compare numbers, booleans and strings', function()
    same(eval('less', { 1, 2, 3 }, 2), { true, false, false })
    same(eval('less_equal', { 1, 2, 3 }, 2), { true, true, false })
    same(eval('greater', { 1, 2, 3 }, 2), { false, false, true })
    same(eval('greater_equal', { 1, 2, 3 }, 2), { false, true, true })
    same(eval('equal', { true, false }, { true, true }), { true, false })
    same(eval('not_equal', { true, false }, { true, true }), { false, true })
    same(eval('equal', { 'a', 'bc', '' }, { 'a', 'bd', '' }), { true, false, true })
    same(eval('approximate_equal', { 1.0, 1.0 }, { 1.05, 1.2 }, { tolerance = 0.1 }), { true, false })
    -- TensorFlow's kernel counts the tolerance itself, a float32, and differences of float32 are float32.
    same(eval('approximate_equal', { 1.0, 1.0, 1 / 0, 0 / 0 }, { 1.5, 1.5000001, 1 / 0, 1.0 }, { tolerance = 0.5 }), { true, false, false, false })
    same(eval('approximate_equal', { 1.0, 2.0 }, { 1.0, 2.0 }, { tolerance = 0.0 }), { true, true })
    same(eval('approximate_equal', df.float64{ 1.0 }, df.float64{ 1.1 }, { tolerance = 0.1 }), { true })
    local x = df.constant(3)
    same(df.run(x:lt(4)), true)
    same(df.run(x:ge(4)), false)
  end)
end)

describe('select', function()
  it('keeps an untaken NaN out of the value', function()
    local x = df.constant({ -1.0, 4.0 })
    same(df.run(df.select(df.greater(x, 0), df.sqrt(x), x)), { -1, 2 })
  end)
end)

describe('cast', function()
  local function cast(v, from, to) return df.run(df.cast(df.constant(v, from), to)) end
  it('drops the fraction, saturates, and makes 0 of NaN', function()
    same(cast({ 1.9, -1.9, nan, inf, -inf, 1e10, -1e10 }, 'float32', 'int32'), { 1, -1, 0, 2147483647, -2147483648, 2147483647, -2147483648 })
    same(cast({ 300, -300, -0.5, 127.9 }, 'float64', 'int8'), { 127, -128, 0, 127 })
    same(cast({ 300, -1, 255.5 }, 'float32', 'uint8'), { 255, 0, 255 })
    same(cast(3e9, 'float64', 'int32'), 2147483647)
    same(cast({ 70000, -1e30 }, 'float32', 'float16'), { inf, -inf })
  end)
  it('has a gradient between floats and none through integers', function()
    local x = df.constant(1.5, 'float64')
    local g = df.gradients(df.cast(x, 'float32') * 3, x)
    assert.are.equal('float64', g.dtype)
    same(df.run(g), 3)
    assert.is_truthy(message_of(df.gradients, df.cast(df.cast(x, 'int32'), 'float64'), x))
  end)
  it('knows nothing of strings', function()
    assert.is_truthy(message_of(df.cast, df.constant('1'), 'float32'))
  end)
end)

describe('the derivative', function()
  it('of incomplete gamma functions ends at every size, and is exact at large ones', function()
    local as, xs = {}, {}
    for _, a in ipairs{ 0.5, 3, 1e5, 1e6, 1000001, 1e8, 1e16, 1e30, 1e300 } do
      for _, at in ipairs{ 1, 0, 1e-3, 0.5, 1 - 2 / math.sqrt(a), 1 + 2 / math.sqrt(a), 2, 1e7 } do
        as[#as + 1], xs[#xs + 1] = a, math.max(a * at, 0)
      end
    end
    local a, x = df.placeholder('float64', { -1 }), df.placeholder('float64', { -1 })
    local p = df.igamma(a, x)
    local r = df.run({ p, df.igammac(a, x), df.gradients(p, a) }, { [a] = as, [x] = xs })
    for k = 1, #as do
      local below, above, slope = r[1]:at(k - 1), r[2]:at(k - 1), r[3]:at(k - 1)
      near(below + above, 1, { atol = 1e-12 })
      assert.is_true(below >= 0 and below <= 1 and slope <= 0 and slope > -2, ('%g, %g: %g, %g'):format(as[k], xs[k], below, slope))
      if xs[k] == as[k] and as[k] > 1e4 then
        near(below, 0.5 + 1 / (3 * math.sqrt(2 * math.pi * as[k])), { atol = 1e-9 })
        near(slope * math.sqrt(2 * math.pi * as[k]), -1, { atol = 1e-2 })
      end
    end
  end)
  it('and the incomplete beta function itself is right for small, for large and for one of each', function()
    local function at(a, b, x) return df.run(df.betainc(df.float64(a), df.float64(b), df.float64(x))) end
    for _, a in ipairs{ 1e-300, 1e-3, 1, 30, 1e5, 1e7, 1e15, 1e30, 1e300 } do
      near(at(a, a, 0.5), 0.5, { atol = 1e-12 })
    end
    for _, n in ipairs{ 1e9, 1e20 } do                                    -- an incomplete gamma function in the limit
      for _, a in ipairs{ 0.5, 3, 100 } do near(at(a, n, a / n), df.run(df.igamma(df.float64(a), df.float64(a))), { atol = 1e-6 }) end
    end
    local places, a, b = {}, 1000010, 3e6                                 -- near its middle it grows by equal steps
    for k = 0, 20 do places[k + 1] = a / (a + b) * (1 + (k - 10) * 4e-8) end
    local shares = df.run(df.betainc(df.fill({ 21 }, df.float64(a)), df.fill({ 21 }, df.float64(b)), df.constant(places, "float64")))
    for k = 1, 20 do assert.is_true(math.abs(shares:at(k) - shares:at(k - 1) - 1.842647e-05) < 1e-10) end
    for _, b in ipairs{ 2e6, 1.5e9 } do                                   -- where the method changes, and mirrored
      local x = 1e6 / (1e6 + b) * 1.0002
      near((at(1e6 - 1e-3, b, x) + at(1e6 + 1e-3, b, x)) / 2, at(1e6, b, x), { atol = 1e-11 })
      near(at(3e6, b, 2 * x) + at(b, 3e6, 1 - 2 * x), 1, { atol = 1e-11 })
    end
  end)
  it('of a power with a constant exponent is a polynomial to the end', function()
    local x = df.placeholder('float64', { 3 })
    local y, found = x ^ 3, {}
    for i = 1, 3 do
      y = df.gradients(y, x)
      found[i] = df.run(y, { [x] = { 0, -1, 2 } })
    end
    near(found, { { 0, 3, 12 }, { 0, -6, 12 }, { 6, 6, 6 } })
    same(df.run(df.gradients(x ^ 0, x), { [x] = { 0, -1, 2 } }), { 0, 0, 0 })
    same(df.run(df.gradients(x ^ 1, x), { [x] = { 0, -1, 2 } }), { 1, 1, 1 })
  end)
  it('of a power is finite where the base or the exponent is 0', function()
    local x, y = df.placeholder('float64', {}), df.placeholder('float64', {})
    local g = df.gradients(x ^ y, { x, y })
    same(df.run(g, { [x] = 0, [y] = 2 }), { 0, 0 })
    same(df.run(g, { [x] = 0, [y] = 0 }), { 0, 0 })
    same(df.run(g, { [x] = -2, [y] = 3 }), { 12, 0 })
  end)
  it('of xlogy, xdivy and div_no_nan is finite at 0', function()
    local x, y = df.placeholder('float64', {}), df.placeholder('float64', {})
    same(df.run(df.gradients(df.xlogy(x, y), { x, y }), { [x] = 0, [y] = 0 }), { 0, 0 })
    same(df.run(df.gradients(df.xdivy(x, y), { x, y }), { [x] = 0, [y] = 0 }), { 0, 0 })
    same(df.run(df.gradients(df.div_no_nan(x, y), { x, y }), { [x] = 1, [y] = 0 }), { 0, 0 })
  end)
  it('of maximum and minimum goes to the first where both are equal', function()
    local x, y = df.constant(2.0), df.constant(2.0)
    same(df.run(df.gradients(df.maximum(x, y), { x, y })), { 1, 0 })
    same(df.run(df.gradients(df.minimum(x, y), { x, y })), { 1, 0 })
  end)
  it('may be taken by the same tensor twice', function()
    support.check_gradient(function(x) return x * x / df.maximum(x, x) end, { { 1, 2 } })
  end)
end)

describe('the kernels of the CPU', function()
  it('give the same results on one thread and on several', function()
    local x = support.tensor({ 300, 1000 }, -2, 2, 'float32')
    local found = {}
    local p = df.placeholder('float32', { 300, 1000 })
    local y = df.tanh(p) * df.reshape(df.range(300), { 300, 1 }):cast('float32') + df.exp(p)
    for i, threads in ipairs{ 1, 2, 5 } do
      local s = df.Session{ threads = threads }
      found[i] = s:run(y, { [p] = x }):reshape({ -1 }):totable()
      s:close()
    end
    for i = 1, #found[1], 97 do
      assert.are.equal(found[1][i], found[2][i])
      assert.are.equal(found[1][i], found[3][i])
    end
  end)
end)

describe('half precision', function()
  it('is computed in float32 and rounded once per op', function()
    same(df.run(df.constant({ 1, 2048 }, 'float16') + df.constant({ 2 ^ -11, 1 }, 'float16')), { 1, 2048 })
    same(df.run(df.constant({ 1 }, 'bfloat16') / 3), { 0.333984375 })
    assert.are.equal('float16', (df.constant({ 1 }, 'float16') * 2).dtype)
  end)
end)
