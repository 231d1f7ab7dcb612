-- Lua functions as ops.
local df = require 'dflow'
local near = require('spec.support').near

local fails = require('spec.support').says

describe('a Lua function as an op', function()
  it('gets numbers for scalars and Tensors for others, and gives values', function()
    local seen
    local function fn(a, b, p, s, t)
      seen = { a, b, p, s, t }
      return a + b, { 1, 2, 3 }, t:astype('int32'), s .. '!'
    end
    local x = df.placeholder('float32', { 2 })
    local sum, list, whole, text = df.lua_func(fn, { 2.5, df.int32(3), true, 'ab', x }, { 'float32', 'float64', 'int32', 'string' })
    local r = df.run({ sum, list, whole, text }, { [x] = { 7, 8 } })
    assert.are.equal(5.5, r[1])
    assert.are.same({ 1, 2, 3 }, r[2]:totable())
    assert.are.equal('float64', r[2].dtype)
    assert.are.same({ 7, 8 }, r[3]:totable())
    assert.are.equal('ab!', r[4])
    assert.are.equal('number', type(seen[1]))
    assert.are.equal(3, seen[2])
    assert.is_true(seen[3])
    assert.are.same({ 2 }, seen[5].shape)
  end)

  it('gives several results one by one or in a list', function()
    for _, fn in ipairs{ function(x) return x, x + 1 end, function(x) return { x, x + 1 } end } do
      local a, b = df.lua_func(fn, { df.float32(2) }, { 'float32', 'float32' })
      assert.same({ 2, 3 }, df.run{ a, b })
    end
  end)

  it('is called each time it runs, in loops and branches', function()
    local calls = {}
    local _, s = df.while_loop(function(i) return i:lt(5) end, function(i, s)
      local y = df.lua_func(function(n) calls[#calls + 1] = n return n * n end, { i }, { 'int32' }, { shapes = { {} } })
      return i + 1, s + y
    end, { df.int32(0), df.int32(0) })
    assert.are.equal(30, df.run(s))
    assert.are.same({ 0, 1, 2, 3, 4 }, calls)
    local n = 0
    local p = df.placeholder('bool', {})
    local y = df.cond(p, function() return df.lua_func(function() n = n + 1 return 1.0 end, {}, 'float32') end, function() return df.float32(2) end)
    assert.are.equal(2, df.run(y, { [p] = false }))
    assert.are.equal(0, n)
    assert.are.equal(1, df.run(y, { [p] = true }))
    assert.are.equal(1, n)
  end)

  it('is an effect in program order, unless it is said to have none', function()
    local log = {}
    local function say(word) return df.lua_func(function() log[#log + 1] = word end, {}, {}) end
    local i = df.while_loop(function(i) return i:lt(2) end, function(i)
      say 'a'
      say 'b'
      df.lua_func(function() log[#log + 1] = 'never' return 1 end, {}, { 'int32' }, { stateful = false })
      return i + 1
    end, { df.int32(0) })
    assert.are.equal(2, df.run(i))
    assert.are.same({ 'a', 'b', 'a', 'b' }, log)
    assert.is_true(df.run(say 'c'))
    assert.are.equal('c', log[5])
  end)

  it('has the gradient that it is given', function()
    local x, z = df.placeholder('float32', {}), df.placeholder('float32', {})
    local y = df.lua_func(function(a, b) return a * a * b end, { x, z }, { 'float32' },
                          { gradient = function(a, b, y, dy) return 2 * y / a * dy, a * a * dy end })
    local feeds = { [x] = 3, [z] = 2 }
    assert.are.equal(18, df.run(y, feeds))
    near(df.run(df.gradients(y * 2, { x, z }), feeds), { 24, 18 })
    local _, w = df.while_loop(function(i) return i:lt(3) end, function(i, v)
      return i + 1, df.lua_func(function(a) return a * a end, v, 'float32', { gradient = function(a, _, dy) return 2 * a * dy end, shapes = { {} } })
    end, { df.int32(0), x })
    near(df.run(df.gradients(w, x), { [x] = 1.1 }), 8 * 1.1 ^ 7)
    local plain = df.lua_func(function(a) return a end, x, 'float32')
    fails(function() df.gradients(plain, x) end, 'op HostCall', 'has no gradient')
  end)

  it('ends the run where it fails, and says where and why', function()
    local i = df.while_loop(function(i) return i:lt(9) end, function(i)
      return df.lua_func(function(n)
        if n == 4 then error('I dislike 4') end
        return n + 1
      end, { i }, { 'int32' }, { shapes = { {} }, name = 'picky' })
    end, { df.int32(0) })
    local e = fails(function() df.run(i) end, 'I dislike 4', 'lua_func_spec.lua')
    assert.are.equal('invalid_argument', e.code)
    assert(e.op:find('picky', 1, true))
    assert.are.equal('while:4', e.frame)
    local y = df.lua_func(function() df.float32{ 1, 2 }:set_shape{ 3 } end, {}, 'float32')
    fails(function() df.run(y) end, 'contradicts')
    local t = df.lua_func(function() error({ 'a table' }) end, {}, 'float32')
    fails(function() df.run(t) end, 'table')
    assert.are.equal(3, df.run(df.float32(1) + 2))
  end)

  it('must return what it was said to', function()
    local function gives(out, ...)
      local values = { n = select('#', ...), ... }
      local y = df.lua_func(function() return (table.unpack or unpack)(values, 1, values.n) end, {}, out)
      return function() return df.run(y) end
    end
    fails(gives({ 'float32' }), 'returns 0 values, 1 is expected')
    fails(gives({ 'float32' }, 1, 2), 'returns 2 values, 1 is expected')
    fails(gives({ 'float32' }, 'x'), 'float32')
    fails(gives({ 'int32' }, 1.5), '1.5')
    fails(gives({ 'float32' }, nil), 'nil')
    fails(gives({ 'float32' }, df.tensor({ 1 }, 'int32')), 'returns int32 as result 1, float32 is expected')
    fails(gives({ 'float32' }, df.float32(1)), 'returns an Output')
    assert.are.equal(2, gives({ 'float32' }, 2)())
  end)

  it('that has no results may return one value, as print returns what it likes, but no more', function()
    local times, many = 0, nil
    local op = df.lua_func(function()
      times = times + 1
      if many then return 1, 2 end
      if many == nil then return 'a value' end
    end, {}, {})
    df.run(op)
    many = false
    df.run(op)
    assert.equal(2, times)
    many = true
    local ok, e = pcall(df.run, op)
    assert.is_false(ok)
    assert.matches('returns 2 values, 0 are expected', e.message, 1, true)
  end)

  it('may run other things', function()
    local x = df.placeholder('float32', {})
    local square = x * x
    local y = df.lua_func(function(a) return df.run(square, { [x] = a }) + 1 end, { x + 1 }, 'float32')
    assert.are.same({ 17, 9 }, df.run({ y, square }, { [x] = 3 }))
  end)

  it('answers runs in the background while its thread waits for them', function()
    local _, s = df.while_loop(function(i) return i:lt(200) end, function(i, s)
      return i + 1, s + df.lua_func(function(n) return n end, { i }, 'int32', { shapes = { {} } })
    end, { df.int32(0), df.int32(0) })
    local h = df.start(s)
    assert.are.equal(19900, h:wait())
    h = df.start(s)
    while not h:done() do end
    assert.are.equal(19900, h:wait())
    local two = { df.start(s), df.start(s) }
    assert.are.equal(19900, two[2]:wait())
    assert.are.equal(19900, two[1]:wait())
    local bad = df.start(df.lua_func(function() error('no') end, {}, 'float32'))
    fails(function() bad:wait() end, 'no')
    h = df.start(s)
    h:cancel()
    fails(function() h:wait() end, 'cancelled')
  end)

  it('answers while a run of its thread waits for the one in the background', function()
    local q = df.FIFOQueue(2, { 'int32' }, { shapes = { {} } })
    local h = df.start(q:enqueue(df.lua_func(function() return 42 end, {}, 'int32', { shapes = { {} } })))
    assert.are.equal(42, df.run(q:dequeue()))
    h:wait()
  end)

  it('is called as often as compiled code asks', function()
    local n = 0
    local x = df.placeholder('float32', {})
    local y = df.lua_func(function(a) n = n + 1 return a end, x, 'float32')
    local sum = 0
    for i = 1, 300 do sum = sum + df.run(y, { [x] = i }) end
    assert.are.equal(45150, sum)
    assert.are.equal(300, n)
  end)

  it('is an environment: episodes driven from the graph', function()
    local position = 0
    local function step(action)
      position = position + (action == 1 and 1 or -1)
      return { position }, position == 3
    end
    local steps = df.while_loop(function(_, done) return df.logical_not(done) end, function(i)
      local _, done = df.lua_func(step, { df.int32(1) }, { 'float32', 'bool' }, { shapes = { { 1 }, {} } })
      return i + 1, done
    end, { df.int32(0), false })
    assert.are.equal(3, df.run(steps))
  end)

  it('says what is wrong with its arguments', function()
    fails(function() df.lua_func(1, {}, {}) end, 'takes a Lua function')
    fails(function() df.lua_func(print, {}) end, 'list of the dtypes')
    fails(function() df.lua_func(print, {}, { 'flot' }) end, 'flot')
    fails(function() df.lua_func(print, {}, {}, { gradient = 1 }) end, 'gradient is a function')
    fails(function() df.lua_func(print, {}, {}, { grad = print }) end, "no option 'grad'")
  end)
end)
