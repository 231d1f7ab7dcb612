--- Numbers in few bits: quantised as TensorFlow does and back, products of them, and floats rounded as if they were.
local df = require 'dflow'
local support = require 'spec.support'
local registry = require 'dflow.front.registry'
local values = support.recorded 'spec/ops/quantize_values'

local list = { -7.3, -2.5, -1.0, -0.5, -0.02, 0, 0.02, 0.5, 1.0, 1.5, 2.49, 2.5, 3.0, 6.1, 100 }
local steps = {}
for i = 1, #list do steps[i] = i end

local function raises(fn, pattern)
  local message = support.message_of(fn)
  assert.truthy(message:find(pattern), message)
end
local function numbers(t) return df.run(df.cast(t, 'int32')):totable() end
local function bytes(shape, dtype, seed)
  local low, high = dtype == 'qint8' and -128.49 or -0.49, dtype == 'qint8' and 127.49 or 255.49
  return df.cast(df.rint(df.constant(support.tensor(shape, low, high, 'float32', seed))), dtype)
end

describe('quantize and dequantize', function()
  it("give TensorFlow's integers, ranges and numbers, mode by mode", function()
    assert.equal(48, #values)
    for _, v in ipairs(values) do
      local q, low, high = df.quantize(df.tensor(list, 'float32'), v.min, v.max,
        { T = v.T, mode = v.mode, round_mode = v.round, narrow_range = v.narrow })
      assert.equal(v.T, q.dtype)
      assert.same(v.integers, numbers(q), v.T .. v.mode)
      support.near({ df.run(low), df.run(high) }, { v.low, v.high })
      support.near(df.run(df.dequantize(q, low, high, { mode = v.mode, narrow_range = v.narrow })):totable(), v.back)
    end
  end)

  it('take a range for each place along an axis', function()
    local x = df.constant(support.tensor({ 3, 4, 5 }, -3, 3, 'float32', 1))
    local lows, highs = { -1, -2, -0.5, -4 }, { 1, 3, 2, 0.25 }
    for _, mode in ipairs{ 'MIN_COMBINED', 'SCALED', 'MIN_FIRST' } do
      local q, low, high = df.quantize(x, lows, highs, { T = 'qint8', mode = mode, axis = 1 })
      local back = df.run(df.dequantize(q, low, high, { mode = mode, axis = 1 }))
      for i = 1, 4 do
        local one, l, h = df.quantize(df.gather(x, i - 1, { axis = 1 }), lows[i], highs[i], { T = 'qint8', mode = mode })
        assert.same(numbers(df.gather(q, i - 1, { axis = 1 })), numbers(one))
        assert.same(df.run(df.gather(back, i - 1, { axis = 1 })):totable(), df.run(df.dequantize(one, l, h, { mode = mode })):totable())
      end
    end
  end)

  it('take a range of one number in a tensor of any rank, where that is known only when it runs, and give numbers', function()
    local low, high = df.placeholder('float32'), df.placeholder('float32')
    local q, least, most = df.quantize({ 0.0, 1.0, 2.0 }, low, high, { T = 'quint8' })
    local feeds = { [low] = df.tensor{ { 0.0 } }, [high] = df.tensor{ 2.0 } }
    assert.same({ { 0, 128, 255 }, 0, 2 }, { df.run(df.cast(q, 'int32'), feeds):totable(), df.run(least, feeds), df.run(most, feeds) })
    support.near(df.run(df.dequantize(q, low, high), feeds):totable(), { 0, 256 / 255, 2 })
    local two = { [low] = df.tensor{ 0.0, 1.0 }, [high] = df.tensor{ 2.0 } }
    raises(function() df.run(q, two) end, '%(min_range%) must be one number, it is float32%[2%]')
    raises(function() df.run(q, { [low] = df.tensor({}, 'float32'), [high] = 2 }) end, '%(min_range%) must be one number, it is float32%[0%]')
    raises(function() df.quantize({ 1.0 }, { 0.0 }, 2, { T = 'quint8' }) end, 'input 1 %(min_range%) must be one number, it is float32%[1%]')
  end)

  it('keep what does not fit at the bounds, of qint32 too, where a float has no nearest integer', function()
    local q = df.quantize({ -9, 0.0, 9 }, -1, 1, { T = 'qint32', mode = 'SCALED' })
    assert.same({ -2147483648, 0, 2147483647 }, numbers(q))
    assert.same({ -128, -128, 127 }, numbers((df.quantize({ -1 / 0, -1, 1 / 0 }, -1, 1, { T = 'qint8' }))))
  end)

  it('say what is wrong', function()
    local x = df.placeholder('float32', { -1, -1 })
    raises(function() df.quantize(x, 0, 1, { T = 'qint8', mode = 'FIRST' }) end, "mode is 'FIRST': expected")
    raises(function() df.quantize(x, 0, 1, { T = 'qint8', round_mode = 'UP' }) end, "round_mode is 'UP'")
    raises(function() df.quantize(x, 0, 1, { T = 'qint8', round_mode = 'HALF_TO_EVEN' }) end, "for mode 'SCALED'")
    raises(function() df.quantize(x, { 0, 1 }, 1, { T = 'qint8' }) end, 'input 1 %(min_range%) must be one number')
    raises(function() df.quantize(x, 0, 1, { T = 'float32' }) end, 'float32')
    raises(function() df.quantize(x, 0, 1, { T = 'qint8', axis = -2 }) end, 'axis is %-2')
    raises(function() df.run((df.quantize({ 1.0 }, 3, 2, { T = 'qint8' }))) end, 'max_range is 2, which is below min_range, 3')
    raises(function() df.run((df.quantize({ 1.0, 2 }, { 0, 3 }, { 1, 2 }, { T = 'qint8', axis = 0 }))) end, 'max_range is 2, which is below min_range, 3')
    local y = df.quantize(x, { 0, 0 }, { 1, 1 }, { T = 'qint8', axis = 1 })
    raises(function() df.run(y, { [x] = { { 1, 2, 3 } } }) end, 'min_range must be float32%[3%], got float32%[2%]')
  end)
end)

describe('quantized_matmul', function()
  it("gives TensorFlow's integers and range", function()
    local a, b = df.cast({ { 121, 131, 193 }, { 243, 8, 36 } }, 'quint8'), df.cast({ { 210, 242 }, { 63, 79 }, { 222, 108 } }, 'quint8')
    local y, low, high = df.quantized_matmul(a, b, -1.0, 2.5, -0.3, 4.0)
    assert.equal('qint32', y.dtype)
    assert.same({ { 36306, 25090 }, { 22167, 30785 } }, numbers(y))
    support.near({ df.run(low), df.run(high) }, { -497033.9375, 497033.9375 })
  end)

  it('is the integer product of both sides less what stands for 0, whatever the signs, sides and sizes', function()
    local n = 0
    for _, dims in ipairs{ { 1, 1, 1 }, { 3, 5, 2 }, { 8, 4, 32 }, { 9, 31, 33 }, { 17, 130, 65 }, { 64, 0, 3 }, { 0, 4, 3 }, { 40, 257, 100 } } do
      for _, kinds in ipairs{ { 'quint8', 'qint8' }, { 'qint8', 'qint8' }, { 'quint8', 'quint8' }, { 'qint8', 'quint8' } } do
        local m, k, c = dims[1], dims[2], dims[3]
        local ta, tb = n % 2 == 1, n % 4 > 1
        local a, b = bytes(ta and { k, m } or { m, k }, kinds[1], n), bytes(tb and { c, k } or { k, c }, kinds[2], n + 50)
        local za, zb = kinds[1] == 'qint8' and -28 or 100, kinds[2] == 'qint8' and -77 or 51
        local y = df.quantized_matmul(a, b, -1.0, 1.55, -0.51, 2.04, { transpose_a = ta, transpose_b = tb })
        local plain = df.matmul(df.cast(a, 'int32') - za, df.cast(b, 'int32') - zb, { transpose_a = ta, transpose_b = tb })
        assert.same(df.run(plain):totable(), numbers(y))
        n = n + 1
      end
    end
  end)

  it('gives the same as its reference, and stands for what floats multiply to', function()
    local x, w = df.constant(support.tensor({ 20, 64 }, -1, 1, 'float32', 1)), df.constant(support.tensor({ 64, 30 }, -1, 1, 'float32', 2))
    local a, la, ha = df.quantize(x, -1, 1, { T = 'quint8', mode = 'MIN_FIRST' })
    local b, lb, hb = df.quantize(w, -1, 1, { T = 'quint8', mode = 'MIN_FIRST' })
    local y, low, high = df.quantized_matmul(a, b, la, ha, lb, hb)
    support.cpu_equals_ref(function(p, q)
      local c, l, h = df.quantized_matmul(df.cast(p, 'quint8'), df.cast(q, 'qint8'), -1.0, 2.0, -3.0, 1.0)
      return df.cast(c, 'int32'), l, h
    end, { support.tensor({ 12, 37 }, 0, 255.5, 'float32', 3), support.tensor({ 37, 40 }, -128, 127, 'float32', 4) })
    local back = df.run(df.dequantize(y, low, high, { mode = 'SCALED' }))
    assert.is_true(df.run(df.reduce_max(df.abs(back - df.matmul(x, w)))) < 0.08)
  end)

  it('says what is wrong', function()
    local a, b = df.placeholder('quint8', { -1, -1 }), df.placeholder('qint8', { -1, 4 })
    raises(function() df.quantized_matmul(a, { 1.0 }, 0, 1, 0, 1) end, 'float32')
    local y = df.quantized_matmul(a, b, 0, 1, 0, 1)
    local three, four = df.run(df.cast({ { 1, 2, 3 } }, 'quint8')), df.run(df.cast({ { 1, 2, 3, 4 } }, 'qint8'))
    raises(function() df.run(y, { [a] = three, [b] = four }) end, 'the inner dimensions differ, 3 and 1')
  end)
end)

describe('a quantized convolution or product', function()
  -- TensorFlow's integers are in spec/recordings/ops/quantized and quantized_fused.
  it('gives the same as its reference, with paddings, dilations, signs, ranges of each channel, and more rows than are computed at once', function()
    local function same(type, x, w, kinds, attrs, more)
      support.cpu_equals_ref(function(p, q)
        local list = { df.cast(p, kinds[1]), df.cast(q, kinds[2]) }
        for _, v in ipairs(more) do list[#list + 1] = df.constant(v, 'float32') end
        local y = { registry.op(type, list, attrs) }
        y[1] = df.cast(y[1], type:find 'Dequantize' and 'float32' or 'int32')
        return df.unpack(y)
      end, { x, w })
    end
    local function tensors(x, w, signed)
      return support.tensor(x, signed and -128 or 0, signed and 127 or 255.5, 'float32', 3), support.tensor(w, -128, 127, 'float32', 4)
    end
    for i, kinds in ipairs{ { 'quint8', 'qint8' }, { 'qint8', 'quint8' }, { 'quint8', 'quint8' } } do
      local x, w = tensors({ 2, 7, 6, 3 }, { 3, 2, 3, 35 }, kinds[1] == 'qint8')
      local attrs = { strides = { 1, i, i, 1 }, padding = i == 2 and 'VALID' or 'SAME', dilations = { 1, 1, i == 1 and 2 or 1, 1 } }
      same('QuantizedConv2D', x, w, kinds, attrs, { -1, i == 3 and 0.5 or 2, i == 2 and 0 or -3, 1 })
      if i == 3 then same('QuantizedConv2D', x, w, kinds, attrs, { 0.25, 2, -3, 1 }) end
    end
    local many = { tensors({ 1, 130, 130, 3 }, { 3, 3, 3, 2 }) }
    same('QuantizedConv2D', many[1], many[2], { 'quint8', 'qint8' }, { strides = { 1, 1, 1, 1 }, padding = 'SAME' }, { -1, 2, -1, 1 })
    local low, high, bias = df.unpack(df.run{ df.linspace(-0.5, -1.5, 35), df.linspace(0.5, 1.5, 35), df.linspace(-3.0, 3, 35) })
    for _, signed in ipairs{ false, true } do
      local x, w = tensors({ 2, 7, 6, 3 }, { 3, 2, 3, 35 }, signed)
      for _, name in ipairs{ 'QuantizedConv2DWithBiasAndReluAndRequantize', 'QuantizedConv2DWithBiasAndRequantize' } do
        same(name, x, w, { signed and 'qint8' or 'quint8', 'qint8' },
             { strides = { 1, 2, 1, 1 }, padding = 'VALID', padding_list = { 0, 0, 2, 1, 0, 1, 0, 0 } },
             { bias, -1, 1.5, low, high, -4, 9 })
      end
    end
    local a, b = tensors({ 9, 37 }, { 35, 37 })
    for _, mode in ipairs{ 'MIN_FIRST', 'SCALED' } do
      for _, name in ipairs{ 'QuantizedMatMulWithBiasAndReluAndRequantize', 'QuantizedMatMulWithBiasAndDequantize' } do
        same(name, a, b, { 'quint8', 'qint8' }, { transpose_b = true, input_quant_mode = mode },
             { bias, -0.7, 1.5, -1, 1, 0, 9 })
      end
    end
  end)

  it('says what is wrong', function()
    local function conv(x, w, rest, attrs)
      local list = { df.cast(df.zeros(x), 'quint8'), df.cast(df.zeros(w), 'qint8') }
      for _, v in ipairs(rest) do list[#list + 1] = v end
      attrs = attrs or { strides = { 1, 1, 1, 1 }, padding = 'SAME' }
      return function() df.run((registry.op('QuantizedConv2DWithBiasAndReluAndRequantize', list, attrs))) end
    end
    local function ranges(bias, high) return { df.zeros{ bias }, df.float32(0), df.float32(1), -high, high, df.float32(0), df.float32(1) } end
    local one = df.float32(1)
    raises(conv({ 1, 3, 3, 4 }, { 1, 1, 2, 6 }, ranges(6, one)), 'groups of channels are not quantized')
    raises(conv({ 1, 3, 3, 4 }, { 1, 1, 4, 6 }, ranges(5, one)), 'bias is float32%[5%]: expected a number for each of 6 columns')
    raises(conv({ 1, 3, 3, 4 }, { 1, 1, 4, 6 }, ranges(6, df.ones{ 5 })), 'must be one number or float32%[6%], got float32%[5%]')
    raises(conv({ 1, 3, 4 }, { 1, 1, 4, 6 }, ranges(6, one)), 'the input')
    raises(function() df.run((df.requantize(df.cast({ 1 }, 'qint32'), -1, 1, 0.5, 1, { out_type = 'quint8' }))) end, '0 must be in it')
    local q = df.cast(df.zeros{ 2, 3 }, 'quint8')
    raises(function() registry.op('QuantizedBiasAdd', { q, df.cast(df.zeros{ 4 }, 'quint8'), one, one, one, one }, {}) end, 'bias has 4 numbers')
    raises(function() registry.op('QuantizedConcat', { df.int32(0), { q, df.cast(df.zeros{ 2, 4 }, 'quint8') }, { one, one }, { one, one } }, {}) end, 'other than 0')
    raises(function() registry.op('QuantizedConcat', { df.int32(0), { q, q }, { one }, { one, one } }, {}) end, 'lists of one length')
  end)
end)

describe('fake_quant_with_min_max', function()
  -- min, max, bits, narrow, and what TensorFlow gives: values at a few places, and the gradients for min and max
  local rows = {
    { -6, 6, 8, false, { -6.02352953, -2.49411774, -0.988235295, -0.517647088, 0, 0, 0, 0.517647088, 0.988235295, 1.50588238, 2.49411774,
                         2.49411774, 3.01176476, 5.97647047, 5.97647047 }, 1, 29 },
    { 0.5, 3, 8, false, { 0, 0, 0, 0, 0, 0, 0.0196078438, 0.5, 1, 1.5, 2.49019623, 2.5, 2.5, 2.5, 2.5 }, 15, 42 },
    { -3, -1, 8, true, { -2, -2, -1, -0.496062994, -0.023622047, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }, 3, 99 },
    { -1.5, 2, 4, true, { -1.5, -1.5, -1, -0.5, 0, 0, 0, 0.5, 1, 1.5, 2, 2, 2, 2, 2 }, 3, 65 },
    { -0.1, 0.9, 2, false, { 0, 0, 0, 0, 0, 0, 0, 0.666666687, 1, 1, 1, 1, 1, 1, 1 }, 15, 75 },
  }

  it("rounds as TensorFlow does, and passes gradients on where TensorFlow does", function()
    for _, r in ipairs(rows) do
      local x, dy = df.constant(df.tensor(list, 'float32')), df.constant(df.tensor(steps, 'float32'))
      local how = { num_bits = r[3], narrow_range = r[4] }
      local low, high = df.Variable(df.float32(r[1])), df.Variable(df.float32(r[2]))
      local y = df.fake_quant_with_min_max_args(x, { min = r[1], max = r[2], num_bits = r[3], narrow_range = r[4] })
      local z = df.fake_quant_with_min_max_vars(x, low, high, how)
      support.near(df.run(y):totable(), r[5])
      assert.same(df.run(y):totable(), df.run(z):totable())
      local dx = df.run(df.gradients(y * dy, x)):totable()
      local of_x, of_low, of_high = df.unpack(df.run(df.gradients(z * dy, { x, low, high })))
      assert.same(dx, of_x:totable())
      support.near({ of_low, of_high }, { r[6], r[7] })
      local total = of_low + of_high
      for i = 1, #dx do
        total = total + dx[i]
        assert.is_true(dx[i] == 0 or dx[i] == i)
      end
      assert.equal(120, total)
    end
  end)

  it('takes a range for each channel, as TensorFlow does', function()
    local x = df.constant(df.tensor({ { -7.3, -2.5, 0.3 }, { 1.0, 2.49, 0.02 }, { 3.0, 6.1, -0.4 }, { 100, -100, 0.9 } }, 'float32'))
    local low, high = df.Variable(df.tensor({ -6, -1.5, 0 }, 'float32')), df.Variable(df.tensor({ 6, 2, 0 }, 'float32'))
    local dy = df.constant(df.tensor({ { 1, 2, 3 }, { 4, 5, 6 }, { 7, 8, 9 }, { 10, 11, 12 } }, 'float32'))
    local how = df.fake_quant_with_min_max_vars_per_channel
    for _, r in ipairs{
      { 8, false, { -6.02352953, -1.49607849, 0, 0.988235295, 2.00392151, 0, 3.01176476, 2.00392151, 0, 5.97647047, -1.49607849, 0 } },
      { 4, true, { -6, -1.5, 0, 0.857142866, 2, 0, 3.42857146, 2, 0, 6, -1.5, 0 } },
    } do
      local y = how(x, low, high, { num_bits = r[1], narrow_range = r[2] })
      support.near(df.run(y):list(), r[3])
      local of = df.run(df.gradients(y * dy, { x, low, high }))
      assert.same({ { 0, 0, 3 }, { 4, 0, 6 }, { 7, 0, 9 }, { 0, 0, 12 } }, of[1]:totable())
      assert.same({ { 1, 13, 0 }, { 10, 13, 0 } }, { of[2]:totable(), of[3]:totable() })
    end
    raises(function() how(x, { 0, 1 }, { 1, 1, 1 }) end, 'input 1 %(min%) is float32%[2%] and inputs float32%[4,3%]: it must have a number for each place')
    raises(function() how(x, 0, { 1, 1, 1 }) end, 'input 1 %(min%) is float32%[%]')
    raises(function() how(3, { 1 }, { 2 }) end, 'and inputs float32%[%]')
    local p = df.placeholder('float32')
    raises(function() df.run(how(p, low, high), { [p] = df.tensor({ 1, 2 }, 'float32') }) end, '%(min%) is float32%[3%] and inputs float32%[2%]')
    raises(function() df.run(how(p, low, high), { [p] = 2 }) end, '%(min%) is float32%[3%] and inputs float32%[%]')
    assert.same({}, df.run(how(p, low, high), { [p] = df.tensor({}, 'float32', { 0, 3 }) }):totable())
  end)

  it('gives zeros where the range is none, and passes all gradients on, as TensorFlow does', function()
    local x = df.constant(df.tensor(list, 'float32'))
    local y = df.fake_quant_with_min_max_vars(x, 0, 0)
    assert.equal(0, df.run(df.reduce_max(df.abs(y))))
    assert.equal(15, df.run(df.reduce_sum(df.gradients(y, x))))
  end)

  it('makes 0 of NaN, in every mode', function()
    for _, d in ipairs{ 'quint8', 'qint8', 'qint16', 'qint32' } do
      for _, mode in ipairs{ 'MIN_COMBINED', 'SCALED' } do
        local list = df.run((df.quantize({ 0 / 0, 0 / 0, 0 / 0, 0 / 0, 0 / 0, 0 / 0, 0 / 0, 0 / 0, 1.0 }, -1.0, 1.0, { T = d, mode = mode }))):list()
        for i = 1, 8 do assert.equal(0, tonumber(list[i]), d .. mode) end
        assert.is_true(tonumber(list[9]) > 100)
      end
    end
  end)

  it('keeps a NaN, whose gradient is none, as TensorFlow does', function()
    local x = df.placeholder('float32', { -1 })
    for n = 1, 40, 13 do
      local t = {}
      for i = 1, n do t[i] = i % 2 == 1 and 0 / 0 or 0.5 end
      for _, y in ipairs{ df.fake_quant_with_min_max_args(x, { min = 0, max = 1 }), df.fake_quant_with_min_max_vars(x, 0, 1) } do
        local got, dx = df.unpack(df.run({ y, df.gradients(y, x) }, { [x] = t }))
        for i = 1, n do
          assert.equal(i % 2, got:totable()[i] ~= got:totable()[i] and 1 or 0)
          assert.equal(1 - i % 2, dx:totable()[i])
        end
      end
    end
  end)

  it('gives min and max what lies beyond each, also where max is below min, as in TensorFlow', function()
    local x, dy = df.constant({ -9, -0.5, 0, 0.5, 9 }, { dtype = 'float32' }), df.constant({ 1, 2, 4, 8, 16 }, { dtype = 'float32' })
    for _, r in ipairs{ { 1, -1, 0.9960785, 15, 30 }, { 2, 1, 1, 15, 24 } } do
      local low, high = df.float32(r[1]), df.float32(r[2])
      local y = df.fake_quant_with_min_max_vars(x, low, high)
      support.near(df.run(y):totable(), { r[3], r[3], r[3], r[3], r[3] })
      local dx, of_low, of_high = df.unpack(df.run(df.gradients(y * dy, { x, low, high })))
      assert.same({ 0, 0, 0, 0, 0 }, dx:totable())
      assert.same({ r[4], r[5] }, { of_low, of_high })
    end
  end)

  it('learns: a range that is too narrow widens', function()
    local x = df.constant(support.tensor({ 200 }, -2, 2, 'float32', 3))
    local low, high = df.Variable(df.float32(-0.5)), df.Variable(df.float32(0.5))
    local loss = df.reduce_mean(df.square(df.fake_quant_with_min_max_vars(x, low, high) - x))
    local step = df.train.GradientDescentOptimizer(0.5):minimize(loss)
    local s = df.Session()
    local before = s:run(loss)
    for _ = 1, 40 do s:run(step) end
    assert.is_true(s:run(loss) < 0.1 * before)
    assert.is_true(s:run(high) > 1.2 and s:run(low) < -1.2)
  end)

  it('say what is wrong', function()
    local x = df.placeholder('float32', { -1 })
    raises(function() df.fake_quant_with_min_max_args(x, { min = 1, max = 1 }) end, 'min is 1 and max 1: expected min below max')
    raises(function() df.fake_quant_with_min_max_args(x, { num_bits = 1 }) end, 'num_bits is 1: expected 2 to 16')
    raises(function() df.fake_quant_with_min_max_vars(x, { 1, 2 }, 3) end, 'input 1 %(min%) must be one number')
  end)
end)
