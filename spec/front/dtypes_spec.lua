--- The dtypes beyond the usual ones: short and unsigned integers, complex and quantized numbers.
local df = require 'dflow'
local support = require 'spec.support'
local same = support.same

local LIMITS = {
  int16 = { -32768, 32767 }, uint16 = { 0, 65535 }, uint32 = { 0, 4294967295 }, uint64 = { 0, 2^53 },
  qint8 = { -128, 127 }, quint8 = { 0, 255 }, qint16 = { -32768, 32767 }, quint16 = { 0, 65535 }, qint32 = { -2^31, 2^31 - 1 },
}

describe('dtypes', function()
  it('hold their smallest and largest number, alone and in arrays, through constants, feeds and fetches', function()
    for dtype, limits in pairs(LIMITS) do
      local t = df.tensor(limits, dtype)
      assert.equal(dtype, t.dtype)
      same(t, limits)
      same(df.run(df.constant(limits, dtype)), limits)
      local one, many = df.placeholder(dtype, {}), df.placeholder(dtype)
      for _, v in ipairs(limits) do assert.equal(v, df.run(df.identity(one), { [one] = v })) end
      same(df.run(df.identity(many), { [many] = { limits, limits } }), { limits, limits })
    end
  end)

  it('refuse numbers that they cannot hold', function()
    for dtype, limits in pairs(LIMITS) do
      for _, v in ipairs{ limits[1] - 1, dtype == 'uint64' and 2^64 or limits[2] + 1, 0.5 } do
        assert.is_false((pcall(df.tensor, { v }, dtype)), dtype .. ' ' .. tostring(v))
        assert.is_false((pcall(df.constant, v, dtype)), dtype .. ' ' .. tostring(v))
      end
    end
  end)

  it('print as NumPy prints them', function()
    assert.equal('[    1 65535] uint16[2]', tostring(df.tensor({ 1, 65535 }, 'uint16')))
    assert.equal('[1.0-2.j 0.5+3.j] complex64[2]', tostring(df.tensor{ { re = 1, im = -2 }, { re = 0.5, im = 3 } }))
  end)

  it('of complex numbers are made from tables of re and im, and from real numbers', function()
    same(df.run(df.complex64(5)), { re = 5, im = 0 })
    same(df.run(df.constant({ { re = 1, im = 2 }, 3 }, 'complex128')), { { re = 1, im = 2 }, { re = 3, im = 0 } })
    local p = df.placeholder('complex64')
    local q = df.stack{ p, p }
    same(df.run(q, { [p] = { re = 4, im = 5 } }), { { re = 4, im = 5 }, { re = 4, im = 5 } })
    assert.equal('complex64', q.dtype)
  end)

  it('are cast: out of range saturates, the imaginary part is dropped', function()
    same(df.run(df.cast(df.constant{ -1.5, 3.7, 1e9 }, 'uint16')), { 0, 3, 65535 })
    same(df.run(df.cast(df.constant{ -40000.0, 2.0 }, 'int16')), { -32768, 2 })
    same(df.run(df.cast(df.constant{ { re = 1.5, im = 9 } }, 'float32')), { 1.5 })
    same(df.run(df.cast(df.constant({ { re = 1.5, im = 9 } }, 'complex128'), 'complex64')), { { re = 1.5, im = 9 } })
    same(df.run(df.cast(df.constant({ 1, 0 }, 'uint64'), 'bool')), { true, false })
    same(df.run(df.cast(df.constant({ 1.5, 300.0, -300.0 }), 'quint8')), { 1, 255, 0 })
    same(df.run(df.cast(df.constant({ -3 }, 'qint8'), 'int32')), { -3 })
    assert.is_false((pcall(df.cast, df.constant({ 'a' }), 'int32')))
  end)

  it('of short and unsigned integers compute, wrap, divide and compare as integers do', function()
    for _, dtype in ipairs{ 'int16', 'uint16', 'uint32', 'uint64' } do
      local x, y = df.constant({ 7, 3, 72 }, dtype), df.constant({ 2, 3, 5 }, dtype)
      local r = df.run{ x + y, x * y, df.floordiv(x, y), df.floormod(x, y), df.greater(x, y), df.maximum(x, y), df.cumsum(x, 0),
                        df.reduce_max(x), df.reduce_prod(y), df.argmax(x, 0), df.bitwise_and(x, y), df.add_n{ x, y, y },
                        df.clip_by_value(x, 3, 10), df.unsorted_segment_max(x, { 0, 1, 1 }, 2) }
      for i, want in ipairs{ { 9, 6, 77 }, { 14, 9, 360 }, { 3, 1, 14 }, { 1, 0, 2 }, { true, false, true }, { 7, 3, 72 }, { 7, 10, 82 },
                             72, 30, 2, { 2, 3, 0 }, { 11, 9, 82 }, { 7, 3, 10 }, { 7, 72 } } do
        same(r[i], want, dtype .. ' ' .. i)
      end
      assert.is_false((pcall(df.run, df.floordiv(x, df.constant(0, dtype)))))
    end
    same(df.run(df.constant({ 65535 }, 'uint16') + 1), { 0 })
    same(df.run(df.constant({ 32767 }, 'int16') * 2), { -2 })
    local huge = df.constant({ 2^63 }, 'uint64')            -- its sign bit is no sign
    same(df.run{ df.greater(huge, 1), df.floordiv(huge, 2^32), df.maximum(huge, 1):floordiv(2^60), df.right_shift(huge, 60) },
         { { true }, { 2^31 }, { 8 }, { 8 } })
  end)

  it('of complex numbers compute as TensorFlow does', function()      -- recorded from TensorFlow 2.15.1
    local near = function(found, want) support.near(found, want, { rtol = 1e-4, atol = 1e-5 }) end
    local x = df.constant({ { re = 1, im = 2 }, { re = -3, im = 0.5 } }, 'complex64')
    local y = df.constant({ { re = 2, im = -1 }, { re = 0.5, im = 1 } }, 'complex64')
    near(df.run(x * y), { { re = 4, im = 3 }, { re = -2, im = -2.75 } })
    near(df.run(df.realdiv(x, y)), { { re = 0, im = 1 }, { re = -0.8, im = 2.6 } })
    near(df.run(df.cumprod(x, 0)), { { re = 1, im = 2 }, { re = -4, im = -5.5 } })
    near(df.run(df.cumsum(x, 0, { reverse = true })), { { re = -2, im = 2.5 }, { re = -3, im = 0.5 } })
    near(df.run(df.exp(x)), { { re = -1.1312044, im = 2.4717267 }, { re = 0.04369226, im = 0.02386919 } })
    near(df.run(df.tanh(x)), { { re = 1.1667362, im = -0.24345818 }, { re = -0.9973165, im = 0.00416043 } })
    near(df.run(df.pow(x, y)), { { re = 2.4284463, im = 14.932414 }, { re = -0.07619845, im = 0.04578533 } })
    near(df.run(df.complex_abs(x)), { 2.236068, 3.0413813 })
    for _, y in ipairs{ df.abs(x), x:abs() } do near(df.run(y), { 2.236068, 3.0413813 }) end
    near(df.run(df.angle(x)), { 1.1071488, 2.976444 })
    near(df.run(df.squared_difference(x, y)), { { re = 10, im = 0 }, { re = 12.5, im = 0 } })
    local m = df.reshape(df.stack{ x, y }, { 2, 2 })
    near(df.run(df.matmul(m, m)), { { { re = -8.5, im = 8 }, { re = -6, im = -8.25 } }, { { re = 6, im = 4.5 }, { re = -6.25, im = 5 } } })
    near(df.run(df.batch_matmul(m, m, { adj_x = true })),
         { { { re = 10, im = 0 }, { re = -2, im = 9 } }, { { re = -2, im = -9 }, { re = 10.5, im = 0 } } })
  end)

  it('of complex numbers have gradients with conjugates, as in TensorFlow', function()
    local near = function(found, want) support.near(found, want, { rtol = 1e-4, atol = 1e-5 }) end
    local x = df.constant({ { re = 1, im = 2 }, { re = -3, im = 0.5 } }, 'complex64')
    local y = df.constant({ { re = 2, im = -1 }, { re = 0.5, im = 1 } }, 'complex64')
    local function grad(z) return df.run(df.gradients(df.reduce_sum(df.real(z)), x)) end
    near(grad(x * x * y), { { re = 8, im = -6 }, { re = -4, im = 5.5 } })
    near(grad(df.conj(x)), { { re = 1, im = 0 }, { re = 1, im = 0 } })
    near(grad(df.realdiv(y, x)), { { re = 0.4, im = -0.2 }, { re = -0.01607012, im = 0.11979548 } })
    near(df.run(df.gradients(df.reduce_sum(df.complex_abs(df.tanh(x))), x)),
         { { re = -0.41167822, im = -0.49443606 }, { re = -0.00534245, im = 0.00832088 } })
    near(grad(df.sqrt(x)), { { re = 0.28443223, im = 0.17578879 }, { re = 0.02364754, im = 0.28572765 } })
    near(grad(df.sigmoid(x) * y), { { re = -0.13894065, im = 0.9823254 }, { re = 0.00047904, im = -0.05107171 } })
    near(grad(df.pow(x, y)), { { re = 14.932416, im = 2.4284472 }, { re = 0.02432441, im = -0.02182266 } })
    near(grad(df.log(x) * y), { { re = 0, im = 1 }, { re = -0.10810812, im = 0.35135138 } })
    near(grad(df.rsqrt(x) * y), { { re = 0.17578879, im = -0.28443223 }, { re = 0.10294729, im = 0.02258088 } })
    near(grad(df.squared_difference(x, y)), { { re = -2, im = 6 }, { re = -7, im = -1 } })
    near(df.run(df.gradients(df.reduce_sum(df.angle(x)), x)), { { re = -0.4, im = 0.2 }, { re = -0.05405406, im = -0.32432434 } })
    local m = df.reshape(x, { 1, 2 })
    near(df.run(df.gradients(df.real(df.matmul(m, m, { transpose_b = true })), x)), { { re = 2, im = -4 }, { re = -6, im = -1 } })
    near(df.run(df.gradients(df.real(df.reduce_prod(x)), x)), { { re = -3, im = -0.5 }, { re = 1, im = -2 } })
  end)

  it('are told apart by bits and by truth', function()
    same(df.run(df.bitcast(df.constant{ 1.0, -1.0 }, { type = 'int32' })), { 1065353216, -1082130432 })
    same(df.run(df.bitcast(df.constant{ 1.0 }, { type = 'uint8' })), { { 0, 0, 128, 63 } })
    same(df.run(df.bitcast(df.constant({ { 0, 0, 128, 63 } }, 'uint8'), { type = 'float32' })), { 1 })
    assert.is_false((pcall(df.bitcast, df.constant({ 1, 2, 3 }, 'uint8'), { type = 'float32' })))
    for _, case in ipairs{ { 0, false }, { 2.5, true }, { 'a', true }, { '', false }, { { 0 }, true }, { true, true } } do
      assert.equal(case[2], df.run(df.to_bool(df.constant(case[1]))))
    end
    assert.equal(false, df.run(df.to_bool(df.constant({}, 'int32'))))
  end)

  it('of all kinds go through loops, branches, variables and TensorArrays', function()
    for dtype, values in pairs{ complex64 = { { re = 1, im = 2 }, 3 }, complex128 = { { re = 0, im = -1 }, 2 }, uint16 = { 1, 65535 },
                                int16 = { -5, 7 }, uint64 = { 1, 2^40 }, string = { 'a', 'bc' }, qint8 = { -3, 4 }, bool = { true, false } } do
      df.reset()
      local x = df.constant(values, dtype)
      local want = df.run(x):totable()
      local back = { want[2], want[1] }
      local _, swapped = df.while_loop(function(i) return i:lt(3) end,
                                       function(i, a) return i + 1, df.reverse(a, { 0 }) end, { df.int32(0), x })
      same(df.run(swapped), back, dtype)
      local _, one = df.while_loop(function(i) return i:lt(3) end, function(i, a, b) return i + 1, b, a end, { df.int32(0), x[0], x[1] })
      same(df.run(one), want[2], dtype)                 -- a scalar, boxed or not
      local p = df.placeholder('bool', {})
      local either = df.cond(p, function() return x[0] end, function() return x[1] end)
      same(df.run(either, { [p] = true }), want[1], dtype)
      same(df.run(either, { [p] = false }), want[2], dtype)
      local v = df.Variable(x)
      same(df.run(v:value()), want, dtype)
      same(df.run(v:assign(df.reverse(x, { 0 }))), back, dtype)
      local ta = df.TensorArray(dtype, 2)
      ta = ta:write(1, x[0]):write(0, x[1])
      same(df.run(ta:stack()), back, dtype)
      same(df.run(ta:read(1)), want[1], dtype)
      same(df.run(df.TensorArray(dtype, 2):unstack(x):gather({ 1, 0, 1 })), { want[2], want[1], want[2] }, dtype)
    end
  end)

  it('of complex numbers have gradients through loops and TensorArrays', function()
    local z = df.complex64{ re = 1, im = 1 }
    local _, w = df.while_loop(function(i) return i:lt(3) end, function(i, a) return i + 1, a * a end, { df.int32(0), z })
    same(df.run(df.gradients(df.real(w), z)), { re = 64, im = 64 })            -- the conjugate of 8 z^7
    local x = df.constant({ { re = 1, im = 1 }, 2 }, 'complex128')
    local ta = df.TensorArray('complex128', 2):unstack(x)
    same(df.run(df.gradients(df.real(ta:read(0) * ta:read(1)), x)), { { re = 2, im = 0 }, { re = 1, im = -1 } })
  end)

  it('of strings give their rows', function()
    local t = df.tensor{ { 'a', 'b' }, { 'c', 'd' } }
    assert.equal('c', t:at(1, 0))
    assert.same({ 'c', 'd' }, t:at(1):totable())
    assert.same({ { 'c', 'd' }, { 'a', 'b' } }, t:rows({ 1, 0 }):totable())
  end)
end)
