-- How values look: tensors, numbers, tables, at the prompt and printed.
local df = require 'dflow'
local text = require 'dflow.front.text'
local values = require 'dflow.repl.values'

describe('a tensor as text', function()
  local function shows(expected, ...) assert.equal(expected, tostring(df.tensor(...))) end

  it('has as many digits as its numbers need, four at most, the same for all', function()
    shows('[1. 2. 3.] float32[3]', { 1, 2, 3 }, 'float32')
    shows('[0.10 0.25 2.00] float32[3]', { 0.1, 0.25, 2 }, 'float32')
    shows('[0.3333 1.0000] float64[2]', { 1 / 3, 1 }, 'float64')
    shows('[100000.0      1.0      2.5] float32[3]', { 1e5, 1, 2.5 }, 'float32')
    shows('[  1 -20 300] int32[3]', { 1, -20, 300 }, 'int32')
  end)

  it('goes over to powers of ten for the very large and small, with no digits that say nothing', function()
    shows('[1.e-08 1.e+00] float32[2]', { 1e-8, 1 }, 'float32')
    shows('[ 1.5e+10 -2.0e+00] float64[2]', { 1.5e10, -2 }, 'float64')
    shows('[1.e-300 1.e+300] float64[2]', { 1e-300, 1e300 }, 'float64')
  end)

  it('knows NaN, infinities and the zero below zero', function()
    shows('[ nan  inf -inf   1.] float32[4]', { 0 / 0, math.huge, -math.huge, 1 }, 'float32')
    shows('[-0.  0.] float32[2]', { -0.0, 0 }, 'float32')
    shows('[nan nan] float32[2]', { 0 / 0, 0 / 0 }, 'float32')
  end)

  it('has brackets for each axis, and two for none', function()
    shows('[[1 2]\n [3 4]] int32[2,2]', { { 1, 2 }, { 3, 4 } }, 'int32')
    shows('[[[1]\n  [2]]\n\n [[3]\n  [4]]] int32[2,2,1]', { 1, 2, 3, 4 }, 'int32', { 2, 2, 1 })
    shows('[] float32[0]', {}, 'float32')
    shows('[] float32[2,0,3]', {}, 'float32', { 2, 0, 3 })
    shows('7 int32[]', 7, 'int32')
  end)

  it('keeps strings on one line, on the left, by the columns they take', function()
    shows('["a"       "bb\\nc\\0" ""] string[3]', { 'a', 'bb\nc\0', '' })
    shows('["é"    "日本" "abc"] string[3]', { 'é', '日本', 'abc' })
    shows('[["a" "b"]\n ["c" "d"]] string[2,2]', { { 'a', 'b' }, { 'c', 'd' } })
  end)

  it('shows complex numbers in two aligned halves, whole 64-bit numbers whole', function()
    shows('[1.-2.0j 0.+0.5j] complex64[2]', { { re = 1, im = -2 }, { re = 0, im = 0.5 } }, 'complex64')
    shows('[3 4] uint64[2]', { 3, 4 }, 'uint64')
    shows('[3 4] int64[2]', { 3, 4 }, 'int64')
  end)

  it('of more than a thousand elements is its corners', function()
    shows('[0. 0. 0. ... 0. 0. 0.] float32[1001]', 0, 'float32', { 1001 })
    local rows = tostring(df.run(df.reshape(df.range(df.int32(1100)), { 11, 100 })))
    assert.equal('[[   0    1    2 ...   97   98   99]', rows:match('^[^\n]*'))
    assert.matches('\n %.%.%.\n', rows)
  end)

  it('breaks its rows at the width of the screen', function()
    local width = text.options.width
    text.options.width = 20
    local shown = tostring(df.tensor({ 100, 200, 300, 400, 500, 600 }, 'int32'))
    text.options.width = width
    assert.equal('[100 200 300 400\n 500 600] int32[6]', shown)
  end)
end)

describe('a number of a dtype', function()
  it('has as few digits as tell it from its neighbours', function()
    local function scalar(v, dtype) return text.scalar(dtype == 'float64' and v or df.run(df.constant(v, dtype)), dtype) end
    assert.equal('0.1', scalar(0.1, 'float32'))
    assert.equal('0.1', scalar(0.1, 'float16'))
    assert.equal('0.1', scalar(0.1, 'bfloat16'))
    assert.equal('0.1', scalar(0.1, 'float64'))
    assert.equal('0.33333334', scalar(1 / 3, 'float32'))
    assert.equal('0.3333333333333333', scalar(1 / 3, 'float64'))
    assert.equal('1e-05', scalar(1e-5, 'float16'))
    assert.equal('3.4028235e+38', scalar(3.4028234663852886e38, 'float32'))
    assert.equal('16777216.0', scalar(16777216, 'float32'))
    assert.equal('-3.0', scalar(-3, 'float32'))
    assert.equal('3', scalar(3, 'int32'))
    assert.equal('true', scalar(true, 'bool'))
    assert.equal('1.5-2.0j', text.scalar({ re = 1.5, im = -2 }, 'complex64'))
    local seed = 1
    for _ = 1, 500 do                      -- what is read back is the number
      seed = seed * 16807 % 2147483647
      local v = df.run(df.constant((seed - 2 ^ 30) / 2 ^ (seed % 50), 'float32'))
      assert.equal(v, df.run(df.constant(tonumber(text.scalar(v, 'float32')), 'float32')))
    end
  end)
end)

describe('at the prompt', function()
  it('a table is a line, or lines with the comma before a comment, or rows of short words', function()
    assert.equal('{1, 2, x = "a\\nb"}', values.text{ 1, 2, x = 'a\nb' })
    local list = {}
    for i = 1, 30 do list[i] = i end
    assert.matches('^{\n +1,  2,  3,[^\n]*,\n[^\n]*20, … 10 more\n}$', values.text(list))
    local t = {}
    t.t = t
    assert.equal('{t = <cycle>}', values.text(t))
    assert.equal('{{{{{…}}}}}', values.text{ { { { { 1 } } } } })
    df.reset()
    local parts = df.split(df.range(df.int32(6)), 3)
    assert.matches('= Split%([^\n]*%),  %-%- [^\n]*printing_spec.lua:%d+\n', values.text(parts))
  end)

  it('a graph is its let-form, in a list its one line', function()
    assert.equal('Graph of 0 operations', values.text(df.default_graph()))
    local x = df.placeholder('float32', { 2 }, 'x')
    local _ = df.cond(df.placeholder('bool', {}, 'p'), function() return x * 2 end, function() return x end)
    local shown = values.text(df.default_graph())
    assert.matches('^let\n  x: float32%[2%] = Placeholder', shown)
    assert.matches('cond{ p\n    then  cond/Mul: float32%[2%] = Mul%(x, 2.%)[^\n]*\n', shown)
    assert.matches('^{Graph of %d+ operations}$', values.text{ df.default_graph() })
  end)

  it('a float of an Output has the digits of its dtype, a complex one is a number', function()
    assert.matches('\n0.1 float32%[%]$', values.text(df.float32(0.1)))
    assert.matches('\n1.0%+2.5j complex64%[%]$', values.text(df.constant({ re = 1, im = 2.5 }, 'complex64')))
    assert.matches('\n4.0 float32%[%]$', values.text(df.float32(4)))
  end)

  it('strings that are no UTF-8 are shown all the same', function()
    for _, bytes in ipairs{ '\226', 'a\239', '\240\159', '\255\254', '\194' } do
      assert.equal('string', type(tostring(df.tensor({ bytes, 'b' }, 'string'))))
    end
  end)

  it('nan has no sign, a function says where it was written, and a __tostring that fails is no traceback', function()
    assert.equal('nan', values.text(-(0 / 0)))
    assert.equal('nan', values.text(0 / 0))
    assert.matches('^function: 0x%x+  %-%- .*printing_spec.lua:%d+$', values.text(function() end))
    assert.matches('^<its __tostring failed: .*oh>$', values.text(setmetatable({}, { __tostring = function() error 'oh' end })))
  end)
end)
