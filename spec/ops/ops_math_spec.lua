--- Elementwise math, comparisons, logic, bits, select and casts: values, broadcasting, errors, derivatives, kernels.
local df = require 'dflow'
local support = require 'spec.support'
local near, same, message_of = support.near, support.same, support.message_of
local nan, inf = 0 / 0, math.huge

-- What each op of one operand is, and where it is smooth.
local unary = {
  { 'negative', function(x) return -x end, -2, 2 },
  { 'abs', math.abs, 0.2, 2 },
  { 'square', function(x) return x * x end, -2, 2 },
  { 'sqrt', math.sqrt, 0.3, 3 },
  { 'rsqrt', function(x) return 1 / math.sqrt(x) end, 0.3, 3 },
  { 'reciprocal', function(x) return 1 / x end, 0.3, 3 },
  { 'exp', math.exp, -2, 2 },
  { 'expm1', function(x) return math.exp(x) - 1 end, -2, 2 },
  { 'log', math.log, 0.3, 3 },
  { 'log1p', function(x) return math.log(1 + x) end, -0.5, 3 },
  { 'sin', math.sin, -3, 3 },
  { 'cos', math.cos, -3, 3 },
  { 'tan', math.tan, -1.2, 1.2 },
  { 'asin', math.asin, -0.9, 0.9 },
  { 'acos', math.acos, -0.9, 0.9 },
  { 'atan', math.atan, -3, 3 },
  { 'sinh', function(x) return (math.exp(x) - math.exp(-x)) / 2 end, -2, 2 },
  { 'cosh', function(x) return (math.exp(x) + math.exp(-x)) / 2 end, -2, 2 },
  { 'tanh', function(x) return 1 - 2 / (math.exp(2 * x) + 1) end, -2, 2 },
  { 'asinh', function(x) return math.log(x + math.sqrt(x * x + 1)) end, -2, 2 },
  { 'acosh', function(x) return math.log(x + math.sqrt(x * x - 1)) end, 1.2, 4 },
  { 'atanh', function(x) return 0.5 * math.log((1 + x) / (1 - x)) end, -0.9, 0.9 },
  { 'erf', nil, -2, 2 },
  { 'erfc', nil, -2, 2 },
  { 'lgamma', nil, 0.3, 4 },
  { 'digamma', nil, 0.4, 4 },
  { 'sigmoid', function(x) return 1 / (1 + math.exp(-x)) end, -3, 3 },
  { 'softplus', function(x) return math.log(1 + math.exp(x)) end, -3, 3 },
  { 'softsign', function(x) return x / (1 + math.abs(x)) end, 0.2, 3 },
  { 'relu', function(x) return math.max(x, 0) end, 0.2, 3 },
  { 'relu6', function(x) return math.min(math.max(x, 0), 6) end, 0.2, 5 },
  { 'elu', function(x) return x < 0 and math.exp(x) - 1 or x end, -3, -0.2 },
  { 'selu', nil, -3, -0.2 },
  { 'leaky_relu', function(x) return x < 0 and 0.20000000298023224 * x or x end, -3, -0.2 },
}
-- The same of two operands: the function, and the range of each.
local function floored(x, y) return x - y * math.floor(x / y) end
local binary = {
  { 'add', function(x, y) return x + y end, -2, 2, -2, 2 },
  { 'subtract', function(x, y) return x - y end, -2, 2, -2, 2 },
  { 'multiply', function(x, y) return x * y end, -2, 2, -2, 2 },
  { 'divide', function(x, y) return x / y end, -2, 2, 0.4, 2 },
  { 'realdiv', function(x, y) return x / y end, -2, 2, 0.4, 2 },
  { 'div_no_nan', function(x, y) return x / y end, -2, 2, 0.4, 2 },
  { 'floormod', floored, -2, 2, 2.1, 4 },
  { 'truncatemod', math.fmod, 0.1, 2, 2.1, 4 },
  { 'pow', function(x, y) return x ^ y end, 0.3, 2, -2, 2 },
  { 'maximum', math.max, -2, 0, 0.1, 2 },
  { 'minimum', math.min, -2, 0, 0.1, 2 },
  { 'squared_difference', function(x, y) return (x - y) ^ 2 end, -2, 2, -2, 2 },
  { 'xdivy', function(x, y) return x / y end, 0.3, 2, 0.4, 2 },
  { 'xlogy', function(x, y) return x * math.log(y) end, 0.3, 2, 0.4, 2 },
  { 'atan2', nil, 0.3, 2, 0.4, 2 },
}

local function eval(name, ...) return df.run(df[name](...)) end
local function float64(v) return df.constant(v, 'float64') end

local host_it = require('spec.support').host_it(it, pending)

describe('elementwise math', function()
  for _, row in ipairs(unary) do
    local name, f, low, high = row[1], row[2], row[3], row[4]
    if f then
      it(('computes %s'):format(name), function()
        local xs = support.numbers(37, low, high, 3)
        local expected = {}
        for i, x in ipairs(xs) do expected[i] = f(x) end
        near(eval(name, float64(xs)), expected, { rtol = 1e-13, atol = 1e-14 })
        near(eval(name, df.constant(xs, 'float32')), expected, { rtol = 1e-5, atol = 1e-6 })
        near(eval(name, float64(xs[1])), expected[1], { rtol = 1e-13, atol = 1e-14 })
      end)
    end
  end
  for _, row in ipairs(binary) do
    local name, f = row[1], row[2]
    if f then
      it(('computes %s'):format(name), function()
        local xs, ys, expected = support.numbers(37, row[3], row[4], 5), support.numbers(37, row[5], row[6], 7), {}
        for i, x in ipairs(xs) do expected[i] = f(x, ys[i]) end
        near(eval(name, float64(xs), float64(ys)), expected, { rtol = 1e-13, atol = 1e-14 })
        near(eval(name, df.constant(xs, 'float32'), df.constant(ys, 'float32')), expected, { rtol = 1e-4, atol = 1e-5 })
        near(eval(name, float64(xs[1]), float64(ys[1])), expected[1], { rtol = 1e-13, atol = 1e-14 })
      end)
    end
  end

  it('knows values of the special functions', function()
    near(eval('erf', float64{ 0, 0.5, -1 }), { 0, 0.5204998778130465, -0.8427007929497149 }, { rtol = 1e-14 })
    near(eval('erfc', float64{ 0, 0.5, 10 }), { 1, 0.4795001221869535, 2.088487583762545e-45 }, { rtol = 1e-13, atol = 0 })
    near(eval('lgamma', float64{ 0.5, 4, -0.5 }), { 0.5723649429247001, 1.791759469228055, 1.265512123484645 }, { rtol = 1e-14 })
    near(eval('digamma', float64{ 1, 0.5, -0.5 }), { -0.5772156649015329, -1.963510026021423, 0.03648997397857652 }, { rtol = 1e-13 })
    near(eval('polygamma', float64(1 / 0), float64{ 0.5 }), { 1 / 0 })
    near(eval('polygamma', float64(1), float64{ 1, 4, -0.5 }), { 1.6449340668482264, 0.2838229557371153, 8.934802200544679 }, { rtol = 1e-13 })
    near(eval('zeta', float64(2), float64{ 1, 2 }), { 1.6449340668482264, 0.6449340668482264 }, { rtol = 1e-13 })
    near(eval('atan2', float64{ 1, 1, -1 }, float64{ 1, -1, -1 }), { math.pi / 4, 3 * math.pi / 4, -3 * math.pi / 4 }, { rtol = 1e-15 })
    near(eval('selu', float64{ -1, 2 }), { -1.1113307378125625, 2.1014019743959743 }, { rtol = 1e-13 })
  end)

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
    for _, row in ipairs(unary) do
      for _, dtype in ipairs{ 'float32', 'float64' } do
        local t = support.tensor({ 19 }, row[3], row[4], dtype, 11)
        local x, list = df.placeholder(dtype, { 19 }), t:totable()
        local y, number = df[row[1]](x), df.placeholder(dtype, {})
        local one = df[row[1]](number)
        local all = df.run(y, { [x] = t }):totable()
        for i = 1, 19 do same(df.run(one, { [number] = list[i] }), all[i], row[1]) end
      end
    end
    for _, row in ipairs(binary) do
      for _, dtype in ipairs{ 'float32', 'float64' } do
        local s, t = support.tensor({ 19 }, row[3], row[4], dtype, 11), support.tensor({ 19 }, row[5], row[6], dtype, 12)
        local x, y, a, b = df.placeholder(dtype, { 19 }), df.placeholder(dtype, { 19 }), df.placeholder(dtype, {}), df.placeholder(dtype, {})
        local all, one = df.run(df[row[1]](x, y), { [x] = s, [y] = t }):totable(), df[row[1]](a, b)
        s, t = s:totable(), t:totable()
        for i = 1, 19 do same(df.run(one, { [a] = s[i], [b] = t[i] }), all[i], row[1]) end
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
  it('takes halves to the even neighbour', function()
    same(eval('round', { 0.5, 1.5, 2.5, -0.5, -1.5, 2.4 }), { 0, 2, 2, 0, -2, 2 })
    same(eval('rint', { 0.5, 1.5, -2.5 }), { 0, 2, -2 })
    same(eval('round', df.constant({ 3, -4 }, 'int32')), { 3, -4 })
  end)
  it('goes down with floor and up with ceil', function()
    same(eval('floor', { -1.5, 1.5, -0.0 }), { -2, 1, 0 })
    same(eval('ceil', { -1.5, 1.5 }), { -1, 2 })
  end)
  it('has no gradient, and says so by being unconnected', function()
    local x = df.constant(1.5)
    same(df.run(df.gradients(df.floor(x) + x, x)), 1)
    assert.is_truthy(message_of(df.gradients, df.floor(x), x))
  end)
end)

describe('integers', function()
  it('that are short or have no sign wrap and compare as the reference says, whatever the shapes', function()
    local limits = { int16 = { -32768, 32767 }, uint16 = { 0, 65535 }, uint32 = { 0, 4294967295 }, uint64 = { 0, 9e15 } }
    for dtype, limit in pairs(limits) do
      local function t(dims, seed)
        local n, list, at = 1, {}, seed
        for _, d in ipairs(dims) do n = n * d end
        for i = 1, n do
          at = (at * 16807) % 2147483647
          list[i] = i % 7 == 0 and limit[i % 2 + 1] or math.floor(limit[1] + (limit[2] - limit[1]) * (at / 2147483647) / (i % 3 == 0 and 1000 or 1))
        end
        return df.tensor(list, dtype):reshape(dims)
      end
      for _, dims in ipairs{ { { 70 }, { 70 } }, { { 5, 33 }, { 33 } }, { { 40, 1 }, { 1, 21 } }, { { 3, 150 }, { 150 } },
                             { { 3, 1, 50 }, { 4, 1 } }, { { 9 }, { 1 } }, { { 0, 3 }, { 3 } } } do
        local a, b = t(dims[1], 5), t(dims[2], 11)
        for _, op in ipairs{ 'negative', 'abs', 'square', 'relu' } do
          local ok = pcall(df[op], a)                  -- TensorFlow's take not all unsigned ones
          assert.is_true(ok or dtype ~= 'int16')
          if ok then support.cpu_equals_ref(df[op], { a }, { rtol = 0, atol = 0, what = op .. ' of ' .. dtype }) end
        end
        for _, op in ipairs{ 'reduce_sum', 'reduce_prod', 'reduce_max', 'reduce_min' } do
          for axis = 0, #dims[1] - 1 do
            support.cpu_equals_ref(function(x) return { df[op](x, { axis = axis }), df[op](x) } end, { a },
              { rtol = 0, atol = 0, what = op .. ' of ' .. dtype })
          end
        end
        for _, op in ipairs{ 'cumsum', 'cumprod' } do
          for axis = 0, #dims[1] - 1 do
            support.cpu_equals_ref(function(x) return { df[op](x, axis), df[op](x, axis, { exclusive = true, reverse = true }) } end, { a },
              { rtol = 0, atol = 0, what = op .. ' of ' .. dtype })
          end
        end
        for _, op in ipairs{ 'add', 'subtract', 'multiply', 'maximum', 'minimum', 'less', 'less_equal', 'greater', 'greater_equal' } do
          support.cpu_equals_ref(function(x, y) return { df[op](x, y), df[op](y, x) } end, { a, b }, { rtol = 0, atol = 0, what = op .. ' of ' .. dtype })
        end
      end
    end
  end)

  local function int(v, dtype) return df.constant(v, dtype or 'int32') end
  it('wrap when they overflow', function()
    same(df.run(int(2147483647) + 1), -2147483648)
    same(df.run(int{ 2147483647, -2147483647 - 1 } * 2), { -2, 0 })
    same(df.run(df.abs(int(-2147483647 - 1))), -2147483648)
    same(df.run(df.negative(int({ 128 }, 'uint8'))), { 128 })
    same(df.run(int({ 127 }, 'int8') + 1), { -128 })
  end)
  it('divide down with // and toward zero with truncatediv', function()
    local a, b = int{ 7, -7, 7, -7 }, int{ 2, 2, -2, -2 }
    same(df.run(df.floordiv(a, b)), { 3, -4, -4, 3 })
    same(df.run(df.floormod(a, b)), { 1, 1, -1, -1 })
    same(df.run(df.truncatediv(a, b)), { 3, -3, -3, 3 })
    same(df.run(df.truncatemod(a, b)), { 1, -1, 1, -1 })
    same(eval('floordiv', { -7.5 }, { 2.0 }), { -4 })
    same(eval('floormod', { -7.5, 7.5, 5.0 }, { 2.0, -2.0, inf }), { 0.5, -0.5, 5 })
    same(df.run(df.mod(-7, int(3))), 2)
  end)
  it('wrap where the smallest is divided by -1', function()
    local least = int(-2147483647 - 1)
    same(df.run(df.floordiv(least, -1)), -2147483648)
    same(df.run(df.floormod(least, -1)), 0)
    same(df.run(df.truncatediv(int({ -128, 5 }, 'int8'), int({ -1, -1 }, 'int8'))), { -128, -5 })
  end)
  it('leave what numbers by themselves leave, to the bit: floats of all sizes, next to multiples, zeros, denormals; the ends of the integers', function()
    local list = { float32 = {}, float64 = {}, int32 = {} }
    for _, v in ipairs{ 0, -0.0, 1, -1, 0.3, 7, 1e-42, -1e-42, 1.2e-38, 1e-31, 1e-30, 3e38, -3e38, 1e-310, 1e308, 4194304, 4194303.5, inf, -inf, nan, 2.5e-29 } do
      list.float32[#list.float32 + 1], list.float64[#list.float64 + 1] = v, v
    end
    for k = 1, 40 do
      local v = ((k * 37) % 101 - 50) * 1.37 ^ ((k * 29) % 90 - 45)
      for _, w in ipairs{ v, v * k } do list.float32[#list.float32 + 1], list.float64[#list.float64 + 1] = w, w end
    end
    list.int32 = { 1, -1, 2, 3, -3, 7, 10, 46341, 65536, 2147483647, -2147483647, -2147483647 - 1, 2147483646, 1073741824 }
    for k = 1, 60 do list.int32[#list.int32 + 1] = (k * 48271 * 16807) % 4294967291 - 2147483646 end
    for dtype, values in pairs(list) do
      local n, all = #values, df.constant(values, dtype)
      local x, y = df.run(df.tile(all, { n })), df.run(df.reshape(df.tile(df.expand_dims(all, 1), { 1, n }), { -1 }))
      local names = dtype == 'int32' and { 'floormod', 'truncatemod', 'floordiv', 'truncatediv' } or { 'floormod', 'truncatemod' }
      local s = df.Session{ engine = 'tokens' }
      for _, name in ipairs(names) do
        local one = df.map_fn(function(a, b) return df[name](a, b) end, { x, y }, { dtype = dtype })
        assert.same(support.bits(s:run(one)), support.bits(s:run(df[name](x, y))), name .. ', ' .. dtype)
        assert.same(support.bits(s:run(df[name](all, all[6]))), support.bits(s:run(df[name](all, df.fill({ n }, all[6])))), name)
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
  it('have bits', function()
    same(df.run(df.bitwise_and(int{ 12, 10 }, 6)), { 4, 2 })
    same(df.run(df.bitwise_or(int{ 12, 10 }, 6)), { 14, 14 })
    same(df.run(df.bitwise_xor(int{ 12, 10 }, 6)), { 10, 12 })
    same(df.run(df.invert(int{ 0, -1 })), { -1, 0 })
    same(df.run(df.invert(int({ 1 }, 'uint8'))), { 254 })
    same(df.run(df.left_shift(int{ 1, 1, 1 }, int{ 3, -1, 99 })), { 8, 1, -2147483648 })
    same(df.run(df.right_shift(int{ 16, -16, -1 }, int{ 2, 2, 99 })), { 4, -4, -1 })
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
  it('stretches axes of one element and missing ones', function()
    local a = df.reshape(df.range(6), { 2, 3 })
    same(df.run(a + df.constant({ 10, 20, 30 }, 'int32')), { { 10, 21, 32 }, { 13, 24, 35 } })
    same(df.run(a + df.constant({ { 10 }, { 20 } }, 'int32')), { { 10, 11, 12 }, { 23, 24, 25 } })
    same(df.run(df.constant({ { 1 }, { 2 } }, 'int32') * df.constant({ 1, 10 }, 'int32')), { { 1, 10 }, { 2, 20 } })
    same(df.run(10 - a), { { 10, 9, 8 }, { 7, 6, 5 } })
    assert.are.equal('2,3,4,5', shape_of(df.zeros{ 2, 1, 4, 1 } + df.zeros{ 3, 1, 5 }))
  end)
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
  it('agrees with tiling, whatever the axes', function()
    local shapes = { { 3, 1, 5 }, { 1, 4, 1 }, { 4, 5 }, { 1 }, {}, { 3, 4, 5 }, { 5 }, { 3, 1, 1 } }
    for i, s in ipairs(shapes) do
      for j, t in ipairs(shapes) do
        local x, y = df.constant(support.tensor(s, -1, 1, 'float32', i)), df.constant(support.tensor(t, -1, 1, 'float32', 20 + j))
        local full = df.zeros{ 3, 4, 5 }
        same(df.run((x - y) + full), df.run((x + full) - (y + full)))
      end
    end
  end)
  it('sums the gradient back to each operand', function()
    local function f(a, b) return a * b + df.maximum(a, b) end
    support.check_gradient(f, { support.tensor({ 2, 1, 3 }, 0.5, 1), support.tensor({ 4, 1 }, 1.1, 2) })
    support.check_gradient(f, { 0.5, support.tensor({ 2, 2 }, 1.1, 2) })
    support.check_gradient(function(a, b) return a / b end, { support.tensor({ 3 }, 0.5, 1), support.tensor({ 2, 3 }, 1, 2) }, { order = 2 })
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
  it('combine', function()
    local a, b = df.constant{ true, true, false, false }, df.constant{ true, false, true, false }
    same(df.run(df.logical_and(a, b)), { true, false, false, false })
    same(df.run(df.logical_or(a, b)), { true, true, true, false })
    same(df.run(df.logical_xor(a, b)), { false, true, true, false })
    same(df.run(df.logical_not(a)), { false, false, true, true })
  end)
end)

describe('select', function()
  it('chooses element by element, by row, and as a whole', function()
    local t, e = df.constant({ { 1, 2 }, { 3, 4 } }, 'int32'), df.constant({ { 10, 20 }, { 30, 40 } }, 'int32')
    same(df.run(df.select({ { true, false }, { false, true } }, t, e)), { { 1, 20 }, { 30, 4 } })
    same(df.run(df.select({ true, false }, t, e)), { { 1, 2 }, { 30, 40 } })
    same(df.run(df.select(false, t, e)), { { 10, 20 }, { 30, 40 } })
    same(df.run(df.select({ true, false }, { 'a', 'b' }, { 'c', 'd' })), { 'a', 'd' })
    assert.is_truthy(message_of(df.select, { true, false, true }, t, e):find('one for each row', 1, true))
    assert.is_truthy(message_of(df.select, true, t, df.constant({ 1 }, 'int32')):find('one shape', 1, true))
  end)
  it('broadcasts as select_v2', function()
    same(df.run(df.select_v2({ true, false }, 1, { { 10 }, { 20 } })), { { 1, 10 }, { 1, 20 } })
  end)
  it('sends the gradient where the value came from', function()
    local c = df.tensor({ true, false, true })
    support.check_gradient(function(x, y, p) return df.select(p, x * x, y) end, { { 1, 2, 3 }, { 4, 5, 6 }, c }, { order = 2 })
    support.check_gradient(function(x, y, p) return df.select_v2(p, x, y * y) end, { 2, { { 4, 5, 6 }, { 1, 2, 3 } }, c })
    support.check_gradient(function(x, y, p) return df.select(p, x, y) end,
                           { support.tensor({ 3, 2 }, 0, 1), support.tensor({ 3, 2 }, 0, 1, nil, 2), c })
  end)
  it('keeps an untaken NaN out of the value', function()
    local x = df.constant({ -1.0, 4.0 })
    same(df.run(df.select(df.greater(x, 0), df.sqrt(x), x)), { -1, 2 })
  end)
end)

describe('clip_by_value and add_n', function()
  it('hold and sum', function()
    same(eval('clip_by_value', { 1, 5, 9 }, 2, 6), { 2, 5, 6 })
    same(eval('clip_by_value', { 1.0, nan, 9.0 }, 2.0, { 6.0, 6.0, 7.0 }), { 2, nan, 7 })
    same(eval('add_n', { df.constant{ 1, 2 }, df.constant{ 3, 4 }, df.constant{ 5, 6 } }), { 9, 12 })
    same(eval('add_n', { df.constant(1.5) }), 1.5)
    assert.is_truthy(message_of(df.add_n, { df.constant{ 1, 2 }, df.constant{ 1, 2, 3 } }):find('one shape', 1, true))
  end)
  it('have gradients', function()
    support.check_gradient(function(x, l, h) return df.clip_by_value(x * x, l, h) end, { { 0.5, 1.2, 2 }, 1, { 3, 3, 3 } })
    support.check_gradient(function(x, y) return df.add_n{ x, x * y, y } end, { { 1, 2 }, { 3, 4 } }, { order = 2 })
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
  it('wraps integers into narrower ones', function()
    same(cast({ 300, -1, 128 }, 'int32', 'uint8'), { 44, 255, 128 })
    same(cast({ 300, 128 }, 'int32', 'int8'), { 44, -128 })
  end)
  it('goes through bool as not zero', function()
    same(cast({ 0, 0.1, nan }, 'float32', 'bool'), { false, true, true })
    same(cast({ true, false }, 'bool', 'float64'), { 1, 0 })
    same(cast(true, 'bool', 'int64'), 1)
  end)
  it('rounds halves once, to the even neighbour', function()
    same(cast({ 2049, 2051, 65520 }, 'int32', 'float16'), { 2048, 2052, inf })
    same(cast({ 257, 259 }, 'int64', 'bfloat16'), { 256, 260 })
    same(cast({ 1 + 2 ^ -11 + 2 ^ -40 }, 'float64', 'float16'), { 1 + 2 ^ -10 })
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
  for _, row in ipairs(unary) do
    local name, low, high = row[1], row[3], row[4]
    it(('of %s is the limit of its differences, the second one too'):format(name), function()
      support.check_gradient(function(x) return df[name](x) end, { support.tensor({ 5 }, low, high, nil, 9) },
                             { order = 2, rtol = 1e-4, atol = 1e-5, what = name })
      support.check_gradient(function(x) return df[name](x) end, { (low + high) / 2 + 0.01 }, { order = 2, rtol = 1e-4, atol = 1e-5 })
    end)
  end
  for _, row in ipairs(binary) do
    local name = row[1]
    it(('of %s is the limit of its differences, the second one too'):format(name), function()
      support.check_gradient(function(x, y) return df[name](x, y) end,
                             { support.tensor({ 5 }, row[3], row[4], nil, 9), support.tensor({ 5 }, row[5], row[6], nil, 8) },
                             { order = 2, rtol = 1e-4, atol = 1e-5, what = name })
    end)
  end
  it('of the activations holds on the other side of the bend', function()
    for _, name in ipairs{ 'relu', 'relu6', 'elu', 'selu', 'leaky_relu', 'softsign', 'abs' } do
      support.check_gradient(function(x) return df[name](x) end, { { -2.5, -0.3, 0.7, 3, 6.5 } }, { order = 2, rtol = 1e-4, atol = 1e-5, what = name })
    end
    support.check_gradient(function(x) return df.leaky_relu(x, { alpha = -0.5 }) end, { { -2, 3 } })
  end)
  it('of polygamma and zeta goes to their second operand', function()
    support.check_gradient(function(x) return df.polygamma(float64(2), x) end, { { 0.7, 2.5 } }, { order = 2, rtol = 1e-4, atol = 1e-4 })
    support.check_gradient(function(q) return df.zeta(float64(2.5), q) end, { { 0.7, 2.5 } }, { order = 2, rtol = 1e-4, atol = 1e-4 })
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
  local floats = { 'float32', 'float64', 'float16', 'bfloat16' }
  local ints = { 'int32', 'int64', 'int8', 'uint8' }
  local digits = { float32 = 1e-5, float64 = 1e-12, float16 = 2e-3, bfloat16 = 2e-2 }
  local shapes = { {}, { 1 }, { 37 }, { 5, 7 }, { 2, 1, 3 }, { 0, 4 } }
  local pairs_of_shapes = { { {}, { 33 } }, { { 33 }, {} }, { { 4, 33 }, { 33 } }, { { 4, 1 }, { 4, 33 } }, { { 3, 1, 2 }, { 4, 1 } },
                            { { 18 }, { 18 } }, { {}, {} } }
  local function agree(name, values, dtype)
    local rtol = digits[dtype] or 0
    support.cpu_equals_ref(df[name], values, { rtol = rtol, atol = rtol / 10, what = name .. ' of ' .. dtype })
  end

  it('agree with the reference on every op of one operand', function()
    for _, row in ipairs(unary) do
      for _, dtype in ipairs(floats) do
        for i, shape in ipairs(shapes) do agree(row[1], { support.tensor(shape, row[3], row[4], dtype, i) }, dtype) end
      end
    end
    for _, name in ipairs{ 'sign', 'floor', 'ceil', 'round', 'rint', 'is_nan', 'is_inf', 'is_finite' } do
      for _, dtype in ipairs(floats) do agree(name, { support.tensor({ 40 }, -4, 4, dtype) }, dtype) end
    end
    for _, name in ipairs{ 'negative', 'abs', 'sign', 'square', 'round', 'relu', 'relu6', 'invert' } do
      for _, dtype in ipairs(ints) do agree(name, { support.tensor({ 40 }, -100, 100, dtype) }, dtype) end
    end
  end)
  it('agree with the reference on every op of two operands, however they broadcast', function()
    for _, row in ipairs(binary) do
      for _, dtype in ipairs(floats) do
        for i, s in ipairs(pairs_of_shapes) do
          if not (dtype:find '16' and row[1]:find 'mod') then
            agree(row[1], { support.tensor(s[1], row[3], row[4], dtype, i), support.tensor(s[2], row[5], row[6], dtype, 50 + i) }, dtype)
          end
        end
      end
    end
    local whole = { 'add', 'subtract', 'multiply', 'maximum', 'minimum', 'squared_difference', 'floordiv', 'floormod', 'truncatediv',
                    'truncatemod', 'less', 'less_equal', 'greater', 'greater_equal', 'equal', 'not_equal', 'bitwise_and', 'bitwise_or',
                    'bitwise_xor' }
    for _, name in ipairs(whole) do
      for _, dtype in ipairs(ints) do
        for i, s in ipairs(pairs_of_shapes) do
          agree(name, { support.tensor(s[1], -100, 100, dtype, i), support.tensor(s[2], 1, 40, dtype, 50 + i) }, dtype)
        end
      end
    end
    for _, name in ipairs{ 'pow', 'left_shift', 'right_shift' } do
      for _, dtype in ipairs(ints) do
        for i, s in ipairs(pairs_of_shapes) do
          agree(name, { support.tensor(s[1], -5, 5, dtype, i), support.tensor(s[2], 0, 9, dtype, 50 + i) }, dtype)
        end
      end
    end
    for _, name in ipairs{ 'less', 'less_equal', 'greater', 'greater_equal', 'equal', 'not_equal', 'approximate_equal' } do
      for _, dtype in ipairs(floats) do agree(name, { support.tensor({ 3, 9 }, -1, 1, dtype), support.tensor({ 9 }, -1, 1, dtype, 2) }, dtype) end
    end
    for _, name in ipairs{ 'logical_and', 'logical_or', 'logical_xor', 'equal', 'not_equal' } do
      agree(name, { support.tensor({ 3, 9 }, -1, 2, 'int32'):astype('bool'), support.tensor({ 9 }, -1, 2, 'int32', 3):astype('bool') }, 'bool')
    end
  end)
  it('agree with the reference on gradients', function()
    for _, row in ipairs(unary) do
      for _, dtype in ipairs{ 'float32', 'float64', 'bfloat16' } do
        support.cpu_equals_ref(function(x) return df.gradients(df[row[1]](x), x, { unconnected = 'zero' }) end,
                               { support.tensor({ 21 }, row[3], row[4], dtype) },
                               { rtol = digits[dtype] * 4, atol = digits[dtype], what = row[1] .. ' of ' .. dtype })
      end
    end
  end)
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
