--- The dtypes beyond the usual ones: short and unsigned integers, complex and quantized numbers.
local df = require 'dflow'
local support = require 'spec.support'
local same = support.same

local LIMITS = {
  int16 = { -32768, 32767 }, uint16 = { 0, 65535 }, uint32 = { 0, 4294967295 }, uint64 = { 0, 2^53 },
  qint8 = { -128, 127 }, quint8 = { 0, 255 }, qint16 = { -32768, 32767 }, quint16 = { 0, 65535 }, qint32 = { -2^31, 2^31 - 1 },
}

describe('dtypes', function()
  before_each(function() df.reset() end)

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
    assert.equal('[1 65535] uint16[2]', tostring(df.tensor({ 1, 65535 }, 'uint16')))
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
    assert.is_false((pcall(df.cast, df.constant({ 1 }, 'qint8'), 'int32')))
  end)
end)
