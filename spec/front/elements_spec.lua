-- Elements of Tensors, to and from Lua: which value an element of each dtype may be, in both Luas, and what comes back.
local df = require 'dflow'
local support = require 'spec.support'

local jit = rawget(_G, 'jit')
local whole = { int8 = { -2 ^ 7, 2 ^ 7 - 1 }, uint8 = { 0, 2 ^ 8 - 1 }, int16 = { -2 ^ 15, 2 ^ 15 - 1 }, uint16 = { 0, 2 ^ 16 - 1 },
                int32 = { -2 ^ 31, 2 ^ 31 - 1 }, uint32 = { 0, 2 ^ 32 - 1 }, qint8 = { -2 ^ 7, 2 ^ 7 - 1 }, quint8 = { 0, 2 ^ 8 - 1 },
                qint16 = { -2 ^ 15, 2 ^ 15 - 1 }, quint16 = { 0, 2 ^ 16 - 1 }, qint32 = { -2 ^ 31, 2 ^ 31 - 1 } }
local floats = { 'float16', 'bfloat16', 'float32', 'float64' }
local complex = { 'complex64', 'complex128' }

--- A 64-bit integer as this Lua has them; both words are given, as LuaJIT reads `2^63` as a double.
local function long(text) return jit and load('return ' .. text .. 'LL')() or math.tointeger(tonumber(text)) end

--- Its digits, whatever it is.
local function digits(v)
  if type(v) == 'number' then return math.type and tostring(v) or ('%.0f'):format(v) end
  return (tostring(v):gsub('U?LL$', ''))
end

local function takes(v, dtype)
  local ok, t = pcall(df.tensor, { v, v }, dtype)
  return ok and t
end

describe('an element', function()
  it('of whole numbers is what their bits can say, and no number beside', function()
    for dtype, ends in pairs(whole) do
      local t = df.tensor({ ends[1], ends[2] }, dtype)
      assert.same({ ends[1], ends[2] }, t:totable(), dtype)
      for i, step in ipairs{ -1, 1 } do
        assert.is_falsy(takes(ends[i] + step, dtype), dtype .. ' ' .. ends[i] + step)
        assert.is_truthy(takes(ends[i] - step, dtype), dtype .. ' ' .. ends[i] - step)
      end
      for _, other in ipairs{ 0.5, -0.5, 1 / 0, -1 / 0, 0 / 0, true, '1', { re = 1, im = 0 } } do
        assert.is_falsy(takes(other, dtype), dtype .. ' ' .. tostring(other))
      end
    end
    for _, dtype in ipairs{ 'int64', 'uint64' } do
      for _, other in ipairs{ 0.5, 1 / 0, -1 / 0, 0 / 0, true, '1', { re = 1, im = 0 }, 2 ^ 65, -2 ^ 65 } do
        assert.is_falsy(takes(other, dtype), dtype .. ' ' .. tostring(other))
      end
    end
    assert.is_falsy(takes(-1, 'uint64'))
    assert.is_falsy(takes(2 ^ 63, 'int64'))
    assert.is_truthy(takes(-2 ^ 63, 'int64'))
    assert.is_truthy(takes(2 ^ 63, 'uint64'))
    assert.is_falsy(takes(2 ^ 64, 'uint64'))
  end)

  it('of floats is any number, of complex ones a number or both parts', function()
    for _, dtype in ipairs(floats) do
      assert.is_falsy(takes(true, dtype), dtype)
      assert.is_falsy(takes('1', dtype), dtype)
      assert.is_falsy(takes({ re = 1, im = 2 }, dtype), dtype)
      assert.same({ 1.5, -1 / 0 }, df.tensor({ 1.5, -1 / 0 }, dtype):totable(), dtype)
      local t = df.tensor({ 0 / 0, 1 }, dtype):totable()
      assert.is_true(t[1] ~= t[1] and t[2] == 1, dtype)
    end
    for _, dtype in ipairs(complex) do
      assert.same({ { re = 1.5, im = 0 }, { re = 2, im = -3 } }, df.tensor({ 1.5, { re = 2, im = -3 } }, dtype):totable(), dtype)
      for _, wrong in ipairs{ true, 'x', { re = 1 }, { im = 1 }, { re = 'a', im = 1 }, { re = 1, im = true } } do assert.is_falsy(takes(wrong, dtype), dtype) end
    end
    assert.is_truthy(takes(true, 'bool'))
    assert.is_truthy(takes('true', 'string'))
    for _, wrong in ipairs{ 1, 'true', { re = 1, im = 1 } } do assert.is_falsy(takes(wrong, 'bool')) end
    for _, wrong in ipairs{ true, { re = 1, im = 1 } } do assert.is_falsy(takes(wrong, 'string')) end
  end)

  it('may be a 64-bit integer wherever its bits have room for it', function()
    for dtype, ends in pairs(whole) do
      for _, v in ipairs(ends) do assert.same({ v, v }, df.tensor({ long(('%.0f'):format(v)), long(('%.0f'):format(v)) }, dtype):totable(), dtype) end
      assert.is_falsy(takes(long(('%.0f'):format(ends[1] - 1)), dtype), dtype)
      assert.is_falsy(takes(long(('%.0f'):format(ends[2] + 1)), dtype), dtype)
    end
    for _, dtype in ipairs{ 'float32', 'float64' } do assert.same({ 3, 3 }, df.tensor({ long '3', long '3' }, dtype):totable()) end
    for _, dtype in ipairs{ 'bool', 'string' } do assert.is_falsy(takes(long '1', dtype) and dtype == 'bool') end
    assert.is_falsy(takes(long '-1', 'uint64'))
    assert.same({ 0, 0 }, df.tensor({ long '0', long '0' }, 'uint64'):totable())
  end)

  it('of 64 bits comes back with each of them', function()
    for _, text in ipairs{ '9007199254740991', '9007199254740992', '9007199254740993', '-9007199254740991', '-9007199254740993', '9223372036854775807' } do
      for _, t in ipairs{ df.tensor({ long(text), 1 }, 'int64'), df.run(df.identity(df.constant({ long(text), long '1' }, 'int64'))) } do
        local first = t:totable()[1]
        assert.equals(text, digits(first))
        assert.equals(text, digits(t:at(0)))
      end
      assert.equals(text, digits(df.run(df.constant(long(text), 'int64'))))
    end
    if jit then
      local small, large = df.tensor({ 2 ^ 53 - 1, 1 }, 'int64'):totable()[1], df.tensor({ 2 ^ 53, 1 }, 'int64'):totable()[1]
      assert.equals('number', type(small))
      assert.equals('cdata', type(large))
    end
  end)

  it('that is not a number is one, whatever its bits', function()
    local patterns = { float16 = { 'uint16', 0x7e01, 0xfe01, 0x7c01, 0x7fff }, bfloat16 = { 'uint16', 0x7fc1, 0xffc1, 0x7f81, 0x7fff },
                       float32 = { 'uint32', 0x7fc00001, 0xffc00001, 0x7f800001, 0xffffffff } }
    for dtype, row in pairs(patterns) do
      for i = 2, #row do
        local t = df.run(df.bitcast(df.constant({ row[i], row[i] }, row[1]), dtype))
        for _, v in ipairs(t:totable()) do assert.is_true(type(v) == 'number' and v ~= v, dtype .. ' ' .. row[i]) end
        local one = df.run(df.bitcast(df.constant(row[i], row[1]), dtype))
        assert.is_true(type(one) == 'number' and one ~= one, dtype .. ' ' .. row[i])
      end
    end
    for _, words in ipairs{ { 0, 0x7ff80000 }, { 1, 0x7ff00000 }, { 0, 0xfff80000 }, { 0xffffffff, 0xffffffff }, { 0, 0x7ff00001 } } do
      local t = df.run(df.bitcast(df.constant({ words, words }, 'uint32'), 'float64'))
      for _, v in ipairs(t:totable()) do assert.is_true(type(v) == 'number' and v ~= v, words[2]) end
    end
    local ends = { float16 = { 'uint16', 0x7c00, 0xfc00 }, bfloat16 = { 'uint16', 0x7f80, 0xff80 }, float32 = { 'uint32', 0x7f800000, 0xff800000 } }
    for dtype, row in pairs(ends) do assert.same({ 1 / 0, -1 / 0 }, df.run(df.bitcast(df.constant({ row[2], row[3] }, row[1]), dtype)):totable(), dtype) end
    assert.same({ 1 / 0, -1 / 0 }, df.run(df.bitcast(df.constant({ { 0, 0x7ff00000 }, { 0, 0xfff00000 } }, 'uint32'), 'float64')):totable())
  end)

  it('of 16 bits has the value of its bits, alone and among others', function()
    local halves = { [0x0001] = 2 ^ -24, [0x03ff] = 1023 * 2 ^ -24, [0x0400] = 2 ^ -14, [0x3c00] = 1, [0x3c01] = 1 + 2 ^ -10, [0xc000] = -2, [0x7bff] = 65504, [0x8001] = -2 ^ -24,
                     [0xfbff] = -65504, [0x0000] = 0, [0x5555] = 85.3125 }
    for bits, value in pairs(halves) do
      assert.equals(value, df.run(df.bitcast(df.constant(bits, 'uint16'), 'float16')))
      assert.same({ value, value }, df.run(df.bitcast(df.constant({ bits, bits }, 'uint16'), 'float16')):totable())
    end
    local brains = { [0x0001] = 2 ^ -133, [0x3f80] = 1, [0x3f81] = 1 + 2 ^ -7, [0xc000] = -2, [0x4049] = 3.140625 }
    for bits, value in pairs(brains) do
      assert.equals(value, df.run(df.bitcast(df.constant(bits, 'uint16'), 'bfloat16')))
      assert.same({ value, value }, df.run(df.bitcast(df.constant({ bits, bits }, 'uint16'), 'bfloat16')):totable())
    end
  end)

  it('of each dtype comes out of a run as it went in, alone and among others', function()
    for dtype, ends in pairs(whole) do
      if not dtype:find '^q' then
        for _, v in ipairs(ends) do
          local p, q = df.placeholder(dtype, {}), df.placeholder(dtype, { 2 })
          assert.equals(v, df.run(df.identity(p), { [p] = v }), dtype)
          assert.same({ v, v }, df.run(df.identity(q), { [q] = { v, v } }):totable(), dtype)
        end
      end
    end
    for _, v in ipairs{ true, false } do
      local p = df.placeholder('bool', {})
      assert.equals(v, df.run(df.identity(p), { [p] = v }))
    end
    local s = df.placeholder('string', { 3 })
    assert.same({ 'a\0b', '', ('x'):rep(70) }, df.run(df.identity(s), { [s] = { 'a\0b', '', ('x'):rep(70) } }):totable())
  end)
end)

describe('a Tensor', function()
  it('has the length of its first dimension', function()
    local length = getmetatable(df.tensor(3)).__len         -- which LuaJIT does not ask of tables
    assert.equals(0, length(df.tensor(3)))
    assert.equals(3, length(df.tensor{ 1, 2, 3 }))
    assert.equals(2, length(df.tensor{ { 1, 2, 3 }, { 4, 5, 6 } }))
    assert.equals(0, length(df.tensor({}, 'float32', { 0, 3 })))
    assert.equals(2, length(df.tensor({}, 'float32', { 2, 0 })))
    if not jit then assert.equals(3, #df.tensor{ 1, 2, 3 }) end
  end)

  it('leaves an operator to what stands beside it and has one of its own, on either side', function()
    local mine = {}
    for _, event in ipairs{ 'add', 'sub', 'mul', 'div', 'mod', 'pow', 'idiv' } do
      mine['__' .. event] = function(a, b) return event .. (df.type(a) == 'tensor' and ' right' or df.type(b) == 'tensor' and ' left' or '') end
    end
    local object, t = setmetatable({}, mine), df.tensor{ 7, 8 }
    assert.same({ 'add right', 'sub right', 'mul right', 'div right', 'mod right', 'pow right' }, { t + object, t - object, t * object, t / object, t % object, t ^ object })
    assert.same({ 'add left', 'sub left', 'mul left', 'div left', 'mod left', 'pow left' }, { object + t, object - t, object * t, object / t, object % t, object ^ t })
    assert.same({ { 8, 10 }, { 14, 16 }, { 6, 6 } }, { (t + { 1, 2 }):totable(), (t + t):totable(), ({ 13, 14 } - t):totable() })
    assert.same({ 9, 10 }, (2 + t):totable())
    assert.same({ -7, -8 }, (-t):totable())
    if not jit then
      local idiv = assert(load 'local a, b = ... return a // b')
      assert.equals('idiv right', idiv(t, object))
      assert.same({ 3, 4 }, idiv(t, 2):totable())
    end
    for event, value in pairs{ add = 9, sub = 5, mul = 14, div = 3.5, mod = 1, pow = 49, idiv = 3 } do
      assert.equals(value, getmetatable(t)['__' .. event](df.tensor{ 7 }, df.tensor{ 2 }):at(0), event)
    end
  end)

  it('is another where dtype, shape or one element is another', function()
    local t = df.tensor({ 1, 2, 3, 4 }, 'float32')
    assert.is_true(t == df.tensor({ 1, 2, 3, 4 }, 'float32'))
    for _, other in ipairs{ df.tensor({ 1, 2, 3, 4 }, 'float64'), df.tensor({ 1, 2, 3, 4 }, 'int32'), t:reshape{ 2, 2 }, t:reshape{ 4, 1 }, df.tensor({ 1, 2, 3, 5 }, 'float32'),
                            df.tensor({ 0, 2, 3, 4 }, 'float32'), df.tensor({ 1, 2, 3 }, 'float32') } do
      assert.is_false(t == other, tostring(other))
      assert.is_false(other == t, tostring(other))
    end
    assert.is_true(df.tensor{ 0, 0 / 0 } == df.tensor{ -0.0, -(0 / 0) })
    local z = df.tensor({ { re = 1, im = 2 } }, 'complex64')
    assert.is_true(z == df.tensor({ { re = 1, im = 2 } }, 'complex64'))
    assert.is_false(z == df.tensor({ { re = 1, im = 3 } }, 'complex64'))
    assert.is_false(z == df.tensor({ { re = 0, im = 2 } }, 'complex64'))
    assert.is_true(df.tensor{ 'a', 'b' } == df.tensor{ 'a', 'b' })
    assert.is_false(df.tensor{ 'a', 'b' } == df.tensor{ 'a', 'c' })
    support.same(df.tensor(2) == df.tensor(2), true)
  end)
end)
