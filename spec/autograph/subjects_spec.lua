-- TensorFlow's AutoGraph test subjects of names and functions (closures, methods, varargs, metamethods), written anew in Lua: each function
-- means with Outputs what it means with Lua's own numbers. Loops and branches are those of random_lua.lua.
local df = require 'dflow'
local unpack = table.unpack or unpack

--- What fn gives for numbers, and what the rewritten fn gives for Outputs of the same numbers, fed, so that nothing is known while building.
local function check(fn, cases)
  local staged = df.autograph(fn)
  for _, case in ipairs(cases) do
    df.reset()
    local want, args, feeds = { fn(unpack(case)) }, {}, {}
    for i, v in ipairs(case) do
      args[i] = df.placeholder('int32', {})
      feeds[args[i]] = v
    end
    local outs = { pcall(staged, unpack(args)) }
    if not table.remove(outs, 1) then                          -- LuaJIT's numbers do not say what a variable's dtype is: only this is refused
      local message = tostring(outs[1])
      assert(rawget(_G, 'jit') and (message:find('LuaJIT cannot tell 0 from 0.0', 1, true) or message:find('cast one, as in', 1, true)), message)
      return
    end
    assert.equal(#want, #outs)
    for k, o in ipairs(outs) do
      local have = o
      if type(o) ~= 'number' then have = df.run(o, feeds) end              -- what Lua knows is Lua's
      if type(want[k]) == 'boolean' or math.type and math.type(want[k]) == 'integer' then assert.equal(want[k], have)
      else assert(math.abs(want[k] - have) <= 1e-5 * (1 + math.abs(want[k])), ('result %d is %s, %s is right'):format(k, tostring(have), tostring(want[k]))) end
    end
  end
end

local small = { { 0 }, { 1 }, { 2 }, { 5 }, { 9 } }

describe('names', function()
  it('are of each iteration', function()
    check(function(n)
      local s = 0
      local i = 0
      while i < n do
        local square = i * i
        i = i + 1
        local more = square + i
        s = s + more
      end
      return s
    end, small)
  end)

  it('are upvalues that an inner function reads', function()
    check(function(n)
      local k = 3
      local function times(v) return v * k end
      local s = 0
      for i = 1, n do s = s + times(i) end
      return s
    end, small)
  end)

  it('are upvalues that change between calls', function()
    check(function(n)
      local k = 1
      local function get() return k end
      local a = get()
      k = n
      return a, get()
    end, small)
  end)
end)

describe('choices', function()
  it('are of the first condition that holds', function()
    check(function(n) return n > 4 and n * 2 or n > 1 and n + 7 or n == 1 and n + 2 or n - 9 end, small)
    check(function(n) return (n == 2 or n == 9 or n > 4 and n < 6) and n or -n end, small)
  end)

  it('are of what Lua knows, too', function()
    check(function(n)
      local missing, off = nil, false
      return missing and n or off and n or n > 1 and n * 3 or n + 5, off or missing or n
    end, small)
  end)
end)

describe('functions', function()
  it('inside branch, loop and return', function()
    check(function(n)
      local function clamp(v)
        if v > 3 then return 3 end
        return v
      end
      local function sum(m)
        local s = 0
        for i = 1, m do
          if i > 100 then return s end
          s = s + clamp(i)
        end
        return s
      end
      return sum(n), sum(n + 1)
    end, small)
  end)

  it('are passed as values', function()
    check(function(n)
      local function apply(f, v) return f(f(v)) end
      local function step(v)
        if v % 2 == 0 then return v + 3 end
        return v * 2
      end
      return apply(step, n)
    end, small)
  end)

  it('return functions', function()
    check(function(n)
      local function adder(k)
        return function(v)
          if v > k then return v - k end
          return v + k
        end
      end
      return adder(2)(n), adder(5)(n)
    end, small)
  end)

  it('return several values out of branches', function()
    check(function(n)
      local function two(v)
        if v > 2 then return v, 1 end
        return 0 - v, 2
      end
      local a, b = two(n)
      local c = (two(n))
      return a, b, c
    end, small)
  end)

  it('take varargs', function()
    check(function(n)
      local function sum(...)
        local s = 0
        for i = 1, select('#', ...) do s = s + (select(i, ...)) end
        if s > 10 then return s end
        return 0 - s
      end
      return sum(n, n, 2), sum(n), sum(n, 100)
    end, small)
  end)

  it('call themselves with Lua numbers', function()
    check(function(n)
      local function power(v, k)
        if k == 0 then return 1 end
        return v * power(v, k - 1)
      end
      return power(n, 3)
    end, small)
  end)

  it('call themselves with numbers of Lua where they were called with values of the graph', function()
    local function A(m, n)
      if m == 0 then return n + 1 end
      if n == 0 then return A(m - 1, 1) end
      return A(m - 1, A(m, n - 1))
    end
    check(function(m) return A(m, m), A(m, 2) end, { { 0 }, { 1 }, { 2 } })
  end)

  it('call themselves with numbers of Lua that change places', function()
    local function moves(n, from, to, over)
      if n == 0 then return 0 end
      return moves(n - 1, from, over, to) + 1 + moves(n - 1, over, to, from)
    end
    check(function(n) return moves(n, 1, 2, 3) end, small)
  end)

  it('are methods, of classes with inheritance', function()
    local Base = {}
    Base.__index = Base
    function Base:size(n)
      if n > self.limit then return self.limit end
      return n
    end
    local Derived = setmetatable({}, { __index = Base })
    Derived.__index = Derived
    function Derived:twice(n) return self:size(n) * 2 end
    local object = setmetatable({ limit = 4 }, Derived)
    check(function(n) return object:twice(n), object:size(n) end, small)
  end)

  it('are called by metamethods', function()
    local V = {}
    V.__index = V
    local function vector(a, b) return setmetatable({ a = a, b = b }, V) end
    V.__add = function(p, q) return vector(p.a + q.a, p.b + q.b) end
    V.__call = function(v, k)
      if k > 2 then return v.a * k end
      return v.b
    end
    check(function(n)
      local v = vector(n, 1) + vector(2, n)
      return v.a, v.b, v(n)
    end, small)
  end)

  it('work on tables that Lua knows', function()
    check(function(n)
      local list, s = { 3, 1, 4, 1, 5 }, 0
      for i, v in ipairs(list) do
        if v > n then s = s + i end
      end
      for k, v in pairs{ a = 10 } do if k == 'a' and n > 1 then s = s + v end end
      return s + #list
    end, small)
  end)

  it('say so where a field of a table would change in a loop that an Output decides', function()
    local staged = df.autograph(function(n)
      local state = { sum = 0 }
      for i = 1, n do state.sum = state.sum + i end
      return state.sum
    end)
    local ok, e = pcall(staged, df.placeholder('int32', {}))
    assert.is_false(ok)
    assert(tostring(e):find("'state', is changed in a statement that an Output decides", 1, true), tostring(e))
  end)
end)

