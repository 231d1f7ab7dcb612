--- df.autograph: statements of Lua that build the graph where an Output decides, and the graph is what one would have written.
local df = require 'dflow'
local support = require 'spec.support'
local near = support.near
local cond, while_loop, gradients = df.cond, df.while_loop, df.gradients
local unpack = table.unpack or unpack

--- All nodes of the graph that fn() builds, as lines.
local function nodes_of(fn)
  local g = df.Graph()
  g:as_default(fn)
  local lines = {}
  for i, op in ipairs(g:ops()) do
    local inputs = {}
    for k, o in ipairs(op.inputs) do inputs[k] = o.name end
    lines[i] = ('%s = %s(%s)'):format(op.name, op.type, table.concat(inputs, ', '))
  end
  return lines
end

--- Does fn, rewritten, build node for node what `by_hand` builds, from the Outputs of the same values?
local function same_graph(fn, by_hand, ...)
  local given = { ... }
  local function inputs()
    local list = {}
    for i, v in ipairs(given) do list[i] = df.constant(v[2], v[1]) end
    return unpack(list)
  end
  assert.same(nodes_of(function() by_hand(inputs()) end), nodes_of(function() df.autograph(fn)(inputs()) end))
end

local function f32(v) return df.constant(v, 'float32') end

describe('df.autograph builds the graph of', function()
  it('while_loop', function()
    same_graph(function(x) while x < 100 do x = x * x end return x end, function(x)
      return while_loop(function(u) return u:lt(100) end, function(u) return u * u end, { x })
    end, { 'float32', 3 })
    same_graph(function(i, x)
      while i < 10 do
        local y = x * 2
        i, x = i + 1, y
      end
      return x
    end, function(i, x)
      return while_loop(function(a) return a:lt(10) end, function(a, b)
        local y = b * 2
        return a + 1, y
      end, { i, x })
    end, { 'int32', 0 }, { 'float32', 3 })
  end)

  it('cond, also for an early return and for elseif', function()
    local function by_hand(x)
      return cond(x:gt(0), function() return x * 2 end, function() return x - 1 end)
    end
    same_graph(function(x) local y if x > 0 then y = x * 2 else y = x - 1 end return y end, by_hand, { 'float32', 3 })
    same_graph(function(x) if x > 0 then return x * 2 end return x - 1 end, by_hand, { 'float32', 3 })
    same_graph(function(x) return x > 0 and x * 2 or x - 1 end, by_hand, { 'float32', 3 })
    same_graph(function(x)
      if x < 0 then return -x elseif x < 10 then return x * 2 end
      return x * 3
    end, function(x)
      return cond(x:lt(0), function() return -x end, function()
        return cond(x:lt(10), function() return x * 2 end, function() return x * 3 end)
      end)
    end, { 'float32', 3 })
  end)
end)

describe('df.autograph', function()
  local function run(fn, ...) return df.run(df.autograph(fn)(...)) end

  it('takes long chains of `or` and of `and`', function()
    for _, n in ipairs{ 3, 100, 150 } do
      local equal, other = {}, {}
      for k = 1, n do equal[k], other[k] = 'c == ' .. k, 'c ~= ' .. k end
      local function chain(text) return run(assert((loadstring or load)('return function(c) return ' .. text .. ' end'))(), df.int32(n)) end
      assert.is_true(chain(table.concat(equal, ' or ')))
      assert.is_false(chain(table.concat(other, ' and ')))
      assert.equal(7, chain(('%s or %s and c > 0 and 7 or 8'):format('c < 0 and 9', table.concat(other, ' and ', 1, n - 1))))
    end
  end)

  it('leaves Lua to Lua', function()
    local function fn(n, t)
      local s, seen = 0, {}
      for i = 1, n do
        if i % 2 == 0 then goto continue end
        if i > 8 then break end
        s = s + i
        seen[#seen + 1] = i
        ::continue::
      end
      for _, v in ipairs(t) do
        if v == 'x' then return s, seen, v end
      end
      repeat
        local done = s > 100
        s = s * 2
      until done
      return s, seen, nil
    end
    local f = df.autograph(fn)
    for _, t in ipairs{ { 'a', 'x' }, { 'b' } } do
      assert.same({ fn(20, t) }, { f(20, t) })
    end
    assert.same({ fn(3, {}) }, { f(3, {}) })
  end)

  it('decides at each place when it is built', function()
    local fn = df.autograph(function(x, n)
      local s = f32(0)
      for i = 1, n do
        if i == 3 then goto continue end
        s = s + x
        if s > 10 then break end
        ::continue::
      end
      return s
    end)
    for _, n in ipairs{ 0, 2, 5, 50 } do
      local s = 0
      for i = 1, n do
        if i ~= 3 then
          s = s + 4
          if s > 10 then break end
        end
      end
      assert.equal(s, df.run(fn(f32(4), n)))
      assert.equal(s, df.run(fn(f32(4), df.int32(n))))
    end
  end)

  it('ends loops by break, also those that have no other end', function()
    local function halvings(x)
      local n = df.int32(0)
      while true do
        x, n = x / 2, n + 1
        if x < 1 or n > 100 then break end
      end
      return n
    end
    assert.equal(5, run(halvings, f32(30)))
    assert.equal(3, run(function(x)
      local n = df.int32(0)
      repeat
        n = n + 1
        if x * n > 5 then break end
      until n == 10
      return n
    end, df.int32(2)))
    assert.equal(10, run(function(x)
      local n = df.int32(0)
      repeat
        local m = n + 1
        if x * m > 50 then break end
        n = m
      until m == 10
      return n
    end, df.int32(2)))
  end)

  it('takes values whose shape it cannot know out of a loop', function()
    local x = df.placeholder('float32', { -1 })
    local y = df.autograph(function(v, n)
      for i = 1, n do
        if i * i > 10 then return v * df.cast(i, 'float32') end
      end
      return v
    end)(x, df.int32(9))
    near(df.run(y, { [x] = { 1, 2, 3 } }), { 4, 8, 12 })
  end)

  it('goes over rows', function()
    local xs, ys = df.constant{ 1.0, 2.0, 3.0, 4.0 }, df.constant{ 10.0, 20.0, 30.0, 40.0 }
    local function dot(a, b)
      local s = f32(0)
      for x, y in df.each(a, b) do
        if x == 3 then goto continue end
        s = s + x * y
        ::continue::
      end
      return s
    end
    assert.equal(210, run(dot, xs, ys))
    local g = gradients(df.autograph(dot)(xs, ys), xs)
    near(df.run(g), { 10, 20, 0, 40 })
    local rows = {}
    for v in df.each(df.tensor{ 1, 2 }) do rows[#rows + 1] = v end
    assert.same({ 1, 2 }, rows)
    assert.equal(10, run(function(a)
      local s = f32(0)
      for x in df.each(a) do s = s + x end
      return s
    end, xs))
  end)

  it('rewrites the functions and methods that are called, and functions inside', function()
    local Point = {}
    Point.__index = Point
    function Point:norm() if self.x > 0 then return self.x end return -self.x end
    local function clip(x, most) if x > most then return most end return x end
    local function outer(x)
      local function twice(v) if v > 3 then return v * 2 end return v end
      local p = setmetatable({ x = x }, Point)
      return clip(twice(p:norm()), 9)
    end
    assert.equal(2, run(outer, f32(-2)))
    assert.equal(8, run(outer, f32(4)))
    assert.equal(9, run(outer, f32(-5)))
    near(df.run(df.autograph(function(xs) return df.map_fn(function(v) return clip(v, 2) end, xs) end)(df.constant{ 1.0, 2.0, 3.0 })), { 1, 2, 2 })
    local function sign(v) if v < 0 then return -1.0 end return 1.0 end
    near(df.run(df.autograph(function(xs) return df.map_fn(sign, xs) end)(df.constant{ 1.0, -2.0 })), { 1, -1 })
  end)

  it('makes df.func of a function that calls itself where an Output decides', function()
    local function fact(n) if n <= 1 then return 1 end return n * fact(n - 1) end
    local f = df.autograph(fact)
    assert.equal(120, df.run(f(df.int32(5))))
    assert.equal(720, df.run(f(df.int32(6))))
    assert.equal(24, f(4))
    local even, odd
    function even(n) return n == 0 or odd(n - 1) end
    function odd(n) if n == 0 then return false end return even(n - 1) end
    assert.equal(true, run(even, df.int32(10)))
    assert.equal(false, run(even, df.int32(7)))
    local function power(x, n) return n == 0 and 1 or x * power(x, n - 1) end
    local x = f32(2)
    local y = df.autograph(power)(x, df.int32(5))
    assert.equal(32, df.run(y))
    assert.equal(80, df.run(gradients(y, x)))
    local tree = { l = { l = { v = 1 }, r = { v = 2 } }, r = { v = 3 } }
    local function walk(t, u)
      if t.v then return t.v * u end
      if u > 0 then return walk(t.l, u - 1) end
      return walk(t.r, u)
    end
    assert.equal(1, run(walk, tree, f32(3)))
    assert.equal(0, run(walk, tree, f32(1)))
    local function forever(n) if n > 0 then return forever(n - 1) else return forever(n) end end
    assert.matches('it never ends', support.message_of(df.autograph(forever), df.int32(3)))
  end)

  it('takes tables of values and TensorArrays as loop variables', function()
    assert.equal(4, run(function(x)
      local t = { a = x, b = df.int32(0) }
      while t.a < 10 do t = { a = t.a * 2, b = t.b + 1 } end
      return t.b
    end, f32(1)))
    near(run(function(n)
      local ta = df.TensorArray('int32', n)
      for i = 0, n - 1 do ta = ta:write(i, i * i) end
      return ta:stack()
    end, df.int32(4)), { 0, 1, 4, 9 })
  end)

  it('takes what Lua knows and conditions of arguments that may be missing', function()
    local f = df.autograph(function(x, mask, n)
      if mask then x = x * mask end
      n = n or 2
      if not n then return 0 end
      return x * n
    end)
    assert.equal(12, df.run(f(f32(2), f32(3))))
    assert.equal(4, df.run(f(f32(2))))
  end)

  it('gives loops its options', function()
    local f = df.autograph(function(x) while x < 100 do x = x * 2 end return x end, { maximum_iterations = 3, name = 'doubling' })
    local y = f(f32(1))
    assert.equal(8, df.run(y))
    assert.matches('^doubling', y.name)
    local grow = df.autograph(function(x)
      while df.dim(x, 0) < 5 do x = df.concat({ x, x }, 0) end
      return x
    end, { shape_invariants = { x = { -1 } } })
    near(df.run(grow(df.constant{ 1.0, 2.0 })), { 1, 2, 1, 2, 1, 2, 1, 2 })
    assert.matches('paralel', support.message_of(df.autograph, function() end, { paralel_iterations = 2 }))
  end)

  it('runs effects where they stand', function()
    local v = df.Variable(0.0)
    local y = df.autograph(function(n)
      local s = n
      for i = 1, n do
        if i > 2 then v:assign_add(1) end
        s = s + i
      end
      return s
    end)(df.int32(5))
    df.run(y)
    assert.equal(3, df.run(v))
  end)

  it('runs the effects of iterations that Lua decided in their order, before a run decides the rest', function()
    local loops = {
      function(effect, x) repeat effect(x) x = x + 1 until x > 3 return x end,
      function(effect, x) local i = 0 while i < 3 do effect(i) i = i + x end return i end,
      function(effect, x) for i = 1, 10 do effect(x) x = x + i if x > 4 then break end end return x end,
      function(effect, x) for i in ipairs{ 5, 6, 7, 8 } do effect(i) x = x + i if x > 4 then break end end return x end,
      function(effect, x) repeat repeat effect(x) x = x + 1 until x > 1 effect(x * 2) until x > 3 return x end,
    }
    -- Of v and w, which put(v, fn) changes and at(v) reads.
    local effects = {
      function(put, _, v) return function() put(v, function(a) return a + 1 end) end end,
      function(put, at, v, w)
        return function(i)
          local old = at(v) * 1
          put(v, function(a) return a * 3 + i end)
          put(w, function(b) return at(v) - b + old end)
          put(v, function(a) return a + at(w) / 7 end)
        end
      end,
      function(put, at, v, w)
        return function(i)
          put(w, function(b) return b / 3 + 1 end)
          local seen = at(v) + 1
          if i > 0 then put(v, function(a) return a + at(w) end) seen = seen + at(v) else put(v, function(a) return a * 10 - at(w) end) end
          put(w, function(b) return b - at(v) + seen end)
          put(v, function(a) return a + 2 end)
        end
      end,
      function(put, at, v, w)
        return function(i)
          local k = i
          put(v, function(a) return a / 2 + k end)
          repeat put(w, function(b) return b * 2 - at(v) end) put(v, function(a) return a + at(w) end) k = k + 1 until k > 2
          put(w, function(b) return b / 5 + at(v) end)
        end
      end,
    }
    local function put_plain(v, fn) v.value = fn(v.value) end
    local function at_plain(v) return v.value end
    local function put(v, fn) v:assign(fn(v)) end
    local function at(v) return v end
    for _, start in ipairs{ 0.5, 1 } do
      for l, fn in ipairs(loops) do
        for e, effect in ipairs(effects) do
          local a, b = { value = 1 }, { value = -2 }
          local expected = fn(effect(put_plain, at_plain, a, b), start)
          local v, w = df.Variable(1.0, { dtype = 'float64' }), df.Variable(-2.0, { dtype = 'float64' })
          assert.equal(expected, df.run(df.autograph(fn)(df.autograph(effect(put, at, v, w)), df.constant(start, 'float64'))))
          near(df.run{ v, w }, { a.value, b.value }, { rtol = 1e-12 }, ('loop %d, effect %d, from %g'):format(l, e, start))
        end
      end
    end
  end)

  it('compares variables by value with numbers, and themselves by identity', function()
    local v, w = df.Variable(2.0), df.Variable(2.0)
    local same, other, two = df.autograph(function() return v == v, v == w, v == 2 end)()
    assert.is_true(same)
    assert.is_false(other)
    assert.is_true(df.run(two))
  end)

  it('stays in a coroutine', function()
    local f = df.autograph(function(x)
      for i = 1, 3 do coroutine.yield(i) end
      return x
    end)
    local co = coroutine.wrap(f)
    assert.same({ 1, 2, 3, 7 }, { co(7), co(), co(), co() })
    local inside = df.autograph(function(x)
      while x < 3 do
        coroutine.yield(x)
        x = x + 1
      end
      return x
    end)
    local ok, e = coroutine.resume(coroutine.create(inside), f32(1))
    assert.is_false(ok)
    assert.matches('cannot yield', tostring(e))
  end)
end)

describe('df.autograph says', function()
  local function message(fn, ...)
    local ok, e = pcall(df.autograph(fn), ...)
    assert.is_false(ok)
    return tostring(e)
  end

  it('which variable has no value on one side', function()
    local here = debug.getinfo(1, 'l').currentline + 4
    local text = message(function(x)
      local y
      if x > 0 then
        y = x
      end
      return y
    end, f32(1))
    assert.matches("the variable 'y' %(set in line " .. here .. "%) has no value when the condition in line " .. here - 1 .. ' is false', text)
    assert.matches('in both branches', text)
  end)

  it('which has none before a loop', function()
    assert.matches("the variable 'y' %(set in line %d+%) has no value before the loop in line %d+.*give it one before the loop",
                   message(function(x) local y while x < 10 do y, x = x, x + 1 end return y end, f32(1)))
  end)

  it('which changes its dtype, shape or kind', function()
    assert.matches("'y'.*is float32%[%] when.* and int32%[%] when it is false: cast one",
                   message(function(x) local y if x > 0 then y = x else y = df.int32(1) end return y end, f32(1)))
    assert.matches("'x' %(set in line %d+%) of the loop in line %d+ enters as float32 but the body returns int32",
                   message(function(x) while x < 10 do x = df.cast(x, 'int32') end return x end, f32(1)))
    assert.matches("'x' %(set in line %d+%) of the loop in line %d+ enters as float32%[1%] but the body returns float32%[2%].*shape_invariants = {x = ",
                   message(function(x) while df.dim(x, 0) < 10 do x = df.concat({ x, x }, 0) end return x end, df.constant{ 1.0 }))
    assert.matches("'f'.*is function before the loop", message(function(x)
      local f = print
      while x < 10 do x, f = x + 1, tostring end
      return f
    end, f32(1)))
  end)

  it('which is a number of Lua\'s alone takes the dtype of what the loop joins it with', function()
    if rawget(_G, 'jit') then return end                    -- refused: LuaJIT cannot tell 0 from 0.0
    local list = { 1, 5, -3 }
    for _, dtype in ipairs{ 'float32', 'float64', 'int64' } do
      local x = df.tensor(list, dtype)
      local function gives(want, fn, ...)
        local y = df.autograph(fn)(...)
        assert.are.same({ dtype, want }, { y.dtype, df.run(y) })
      end
      gives(3, function(v) local s = 0 for e in df.each(v) do s = s + e end return s end, df.constant(x))
      gives(5, function(v) local m = -100 for e in df.each(v) do if e > m then m = e end end return m end, df.constant(x))
      gives(30, function(v)                                 -- a counter, which indexes, and two sums, one of the other
        local i, s, t = 0, 0, 0
        while i < df.dim(v, 0) do
          for e in df.each(v) do s = s + e * v[i] end
          i, t = i + 1, t + s
        end
        return t
      end, df.constant(x))
      gives(0, function(v) while v < 100 do v = v + 1 if v > 50 then return 0 end end return v end, df.constant(1, dtype))
    end
    assert.matches('different dtypes', message(function(x, y) local s = 0 while x < 9 do s, x = s + x + y, x + 1 end return s end, f32(1), df.int64(2)))
  end)

  it('which number a function counts in calls of itself', function()
    local text = message(function(x)
      local function halvings(v, n) if v < 1 then return n end return halvings(v / 2, n + 1) end
      return halvings(x, 0)
    end, f32(9))
    assert.matches("'halvings' calls itself .* argument 2 is the number 0, then the number 1; make it an Output", text)
  end)

  it('what failed in a call in a call that is not deep', function()
    local none = setmetatable({ code = 'resource_exhausted', message = 'out of memory' }, getmetatable(support.error_of(df.cast)))
    local text = message(function(x)
      local function steps(v, n)
        if v < 1 then return v end
        if n == 3 then error(none) end
        return steps(v / 2, n + 1)
      end
      return steps(x, 0)
    end, f32(9))
    assert.matches('out of memory', text)
    assert.is_nil(text:find 'calls itself')
  end)

  it('the same after a call that failed', function()
    local fails = true
    local fn = df.autograph(function(v, n)
      local function fact(k, m)
        if fails then error('fails', 0) end
        if k <= 1 then return m end
        return fact(k - 1, m * k)
      end
      local ok, e = pcall(fact, v, n)
      fails = false
      assert(not ok and e == 'fails')
      return fact(v, n)
    end)
    assert.equal(24, df.run(fn(df.int32(4), df.int32(1))))
  end)

  it('that error would stop the building, and what stops a run', function()
    local function positive(x) if x < 0 then error('negative') end return x end
    local text = message(positive, f32(1))
    assert.matches('negative; error is called in a statement that an Output decides %(line %d+%)', text)
    assert.matches('write assert%(p, message%)', text)
    assert.equal('negative', message(function(x) if not x then return 1 end error('negative', 0) end, f32(1)))
  end)

  it('what error raises, in a statement too', function()
    local line
    local function tries(n)
      local x = f32(0)
      for _ = 1, n do
        local _, e = pcall(function() error({ code = 1 }) end)
        assert(e.code == 1)
        _, e = pcall(function() error('inner', 0) end)
        assert(e == 'inner')
        _, e = pcall(function() error 'placed' end)
        assert(tonumber(e:match ':(%d+): placed$') == line, e)
        x = x + 1
      end
      return x
    end
    line = debug.getinfo(tries, 'S').linedefined + 7
    assert.equal(3, df.run(df.autograph(tries)(df.int32(3))))
    local thrown = { code = 2 }
    local ok, e = pcall(df.autograph(function(x) if x < 0 then error(thrown) end return x end), f32(1))
    assert.is_false(ok)
    assert.equal(thrown, e)
    assert.matches('deep.*write assert%(p, message%)', message(function(x)
      if x < 0 then
        local _, why = pcall(error, 'deep', 0)
        error(why, 0)
      end
      return x
    end, f32(1)))
  end)

  it('which table is changed where it cannot be', function()
    assert.matches("the local 't', is changed in a statement that an Output decides.*TensorArray", message(function(x)
      local t = {}  -- luacheck: ignore
      while x < 10 do
        t[#t + 1] = x
        x = x + 1
      end
      return x
    end, f32(1)))
    assert.matches('is changed in a statement', message(function(x)
      local t = {}
      if x > 0 then table.insert(t, x) end
      return x, #t
    end, f32(1)))
    assert.equal(6, df.run(df.autograph(function(x)
      while x < 5 do
        local t = {}
        t.a = x + 1
        t[1] = t.a + 1
        x = t[1]
      end
      return x
    end)(f32(2))))
  end)

  it('which variable a function sets behind the back of a loop', function()
    local count = 0
    local function bump() count = count + 1 end
    assert.matches("the variable 'count' is set by a function", message(function(x)
      while x < 3 do
        bump()
        x = x + 1
      end
      return x
    end, f32(1)))
  end)

  it('that a condition is no scalar, and that a function may return nothing', function()
    assert.matches('the condition is bool%[2%]', message(function(x) if x > 0 then return x end return -x end, df.constant{ 1.0, 2.0 }))
    assert.matches('returns a value or nothing', message(function(x) if x > 0 then return x end end, f32(1)))
    assert.matches('returns 2 values when the condition .* and 1', message(function(x) if x > 0 then return x, x end return x end, f32(1)))
  end)

  it('why it cannot read a function', function()
    local text = support.message_of
    assert.matches('written in C', text(df.autograph, print))
    local compiled = (rawget(_G, 'loadstring') or load)(string.dump(function(x) return x end, true))
    assert.matches('string.dump', text(df.autograph, compiled))
    assert.matches('takes a Lua function', text(df.autograph, 3))
    local jumps = function(x)
      ::top::
      if x > 3 then x = x - 1 goto top end
      return x
    end
    assert.matches('`goto top` goes back', text(df.autograph, jumps))
  end)

  it("Lua's words for what is no function, at the user's line", function()
    local ok, e = pcall(df.autograph(function(x) if x > 0 then no_such_function(x) end return x end), f32(1))      -- luacheck: ignore
    assert.is_false(ok)
    assert.matches("autograph_spec.lua:%d+: attempt to call a nil value %(global 'no_such_function'%)", tostring(e))
  end)
end)

describe('nodes that df.autograph builds', function()
  it('are told by the lines of the source', function()
    local first = debug.getinfo(1, 'l').currentline
    local function fn(x)
      while x < 10 do
        local y = x * 2
        if y > 3 then
          x = y + 1
        else
          x = y
        end
      end
      return x
    end
    df.autograph(fn)(f32(1))
    local lines = {}
    for _, op in ipairs(df.default_graph():ops()) do
      local line = op.source and op.source:match(':(%d+)$')
      lines[op.type] = line and tonumber(line) - first or lines[op.type]
    end
    assert.equal(2, lines.Less)
    assert.equal(3, lines.Mul)
    assert.equal(4, lines.Greater)
    assert.equal(5, lines.Add or lines.AddV2)
  end)
end)
