-- cond, while_loop, case and switch_case: what runs, how often, in which order, and what is refused when it is built.
local df = require 'dflow'
local support = require 'spec.support'
local near = support.near
local unpack = table.unpack or unpack

local fails = require('spec.support').says

--- n trips with a counter; the other variables in and out.
local function trips(n, body, ...)
  local r = { df.while_loop(function(i) return i:lt(n) end, function(i, ...) return i + 1, body(i, ...) end,
                            { df.int32(0), ... }) }
  return unpack(r, 2)
end
local function line() return debug.getinfo(2, 'l').currentline end

describe('cond', function()
  it('nests, and the inner one sees what the outer one saw', function()
    local i, x = df.placeholder('int32', {}), df.float32(10)
    local y = df.cond(i:lt(2), function()
      local z = x + 1
      return df.cond(i:eq(0), function() return z * 2 end, function() return z * 3 + x end)
    end, function() return x end)
    for k, want in ipairs { 22, 43, 10 } do near(df.run(y, { [i] = k - 1 }), want) end
  end)
  it('refuses a predicate that is no scalar bool', function()
    local x = df.float32(1)
    fails(function() local y = df.cond(x, function() return x end, function() return x end) return y end, 'bool', 'float32')
  end)
  it('refuses a value of a branch outside of it, and says both lines', function()
    local leak, at
    local x = df.float32(1)
    df.cond(x:gt(0), function() leak = x * 2; at = line() return leak end, function() return x end)
    fails(function() local y = leak + 1 return y end, ':' .. at, ':' .. line(), 'true branch')
  end)
  it('runs side effects in the taken branch only, a thousand times over', function()
    local steps = 1000
    for threads = 1, 3 do
      df.reset()
      local p = df.placeholder('bool', {})
      local a, b = df.Variable(df.int32(0)), df.Variable(df.int32(0))
      local y = df.cond(p, function() a:assign_add(1) return df.int32(1) end, function() b:assign_add(1) return df.int32(0) end)
      local s = df.Session { threads = threads }
      local taken = 0
      for k = 1, steps do
        local yes = (k * 7919) % 3 == 0
        if yes then taken = taken + 1 end
        s:run(y, { [p] = yes })
      end
      near(s:run({ a, b }), { taken, steps - taken })
      s:close()
    end
  end)
end)

describe('while_loop', function()
  it('nests, the inner trip count depending on the outer iteration', function()
    local n = trips(5, function(i, n) return (trips(i, function(_, m) return m + 1 end, n)) end, df.int32(0))
    near(df.run(n), 10)
  end)
  it('holds conds, and conds hold loops', function()
    local x = trips(6, function(i, x)
      return df.cond((i % 2):eq(0), function() return (trips(i, function(_, y) return y + 1 end, x)) end, function() return x * 2 end)
    end, df.int32(1))
    local want = 1
    for i = 0, 5 do if i % 2 == 0 then want = want + i else want = want * 2 end end
    near(df.run(x), want)
  end)
  it('has a predicate that may be a captured bool', function()
    local p = df.placeholder('bool', {})
    local i = df.while_loop(function(i) return df.logical_and(p, i:lt(3)) end, function(i) return i + 1 end, { df.int32(0) })
    near(df.run(i, { [p] = false }), 0)
    near(df.run(i, { [p] = true }), 3)
    local never = df.while_loop(function() return p end, function(i) return i + 1 end, { df.int32(4) })
    near(df.run(never, { [p] = false }), 4)
  end)
  it('gives each loop a frame name of its own', function()
    local function loop(opts) return (df.while_loop(function(i) return i:lt(1) end, function(i) return i + 1 end, { df.int32(0) }, opts)) end
    assert.are.equal('while/Exit:0', loop().name)
    assert.are.equal('while_1/Exit:0', loop().name)
    assert.are.equal('steps/Exit:0', loop { name = 'steps' }.name)
    assert.are.equal('steps_1/Exit:0', loop { name = 'steps' }.name)
  end)

  it('refuses a value of the body outside of it, and of the predicate in the body', function()
    local leak, at
    df.while_loop(function(i) return i:lt(3) end, function(i) leak = i * 2; at = line() return i + 1 end, { df.int32(0) })
    fails(function() local y = leak + 1 return y end, ':' .. at, ':' .. line(), 'body')
    fails(function()
      local r = df.while_loop(function(i) leak = i * 2 return leak:lt(3) end, function(i) return i + leak end, { df.int32(0) })
      return r
    end, 'predicate')
  end)
end)

describe('side effects in a body', function()
  it('happen once a trip, whether or not an output depends on them', function()
    local v = df.Variable(df.int32(0))
    local i = trips(5, function(_, x) v:assign_add(2) return x end, df.int32(0))
    df.run(i)
    near(df.run(v), 10)
  end)
  it('happen in program order, trip after trip', function()
    local v = df.Variable(df.int32(1))
    local x = trips(4, function(i, x)
      v:assign_add(i)
      v:assign(v:value() * 2)
      return x + v:value()
    end, df.int32(0))
    local want, value = 0, 1
    for i = 0, 3 do value = (value + i) * 2; want = want + value end
    near(df.run(x), want)
    near(df.run(v), value)
  end)
  it('are seen by a read after them and not by a read before them', function()
    local v = df.Variable(df.int32(1))
    local a, b = trips(3, function(_, a, b)
      local before = v:value()
      v:assign(before * 3)
      local after = v:value()
      return a + before, b + after
    end, df.int32(0), df.int32(0))
    near(df.run({ a, b }), { 1 + 3 + 9, 3 + 9 + 27 })
  end)
  it('are seen by the predicate', function()
    local v = df.Variable(df.int32(0))
    local i = df.while_loop(function() return v:value():lt(6) end, function(i) v:assign_add(2) return i + 1 end, { df.int32(0) })
    near(df.run(i), 3)
  end)
  it('of an inner loop come between those before and after it', function()
    local v = df.Variable(df.int32(1))
    local x = trips(2, function(_, x)
      v:assign_add(1)
      trips(2, function(_, y) v:assign(v:value() * 2) return y end, df.int32(0))
      v:assign_add(3)
      return x + v:value()
    end, df.int32(0))
    local value, want = 1, 0
    for _ = 1, 2 do value = (value + 1) * 4 + 3; want = want + value end
    near(df.run(x), want)
  end)
  it('of a branch come between those before and after it', function()
    local v = df.Variable(df.int32(1))
    local x = trips(4, function(i, x)
      v:assign_add(1)
      df.cond((i % 2):eq(0), function() v:assign(v:value() * 2) end, function() v:assign_sub(1) end)
      v:assign_add(3)
      return x + v:value()
    end, df.int32(0))
    local value, want = 1, 0
    for i = 0, 3 do
      value = value + 1
      if i % 2 == 0 then value = value * 2 else value = value - 1 end
      value = value + 3
      want = want + value
    end
    near(df.run(x), want)
  end)
  it('leave other variables to be read once, outside the loop', function()
    local v, w = df.Variable(df.int32(0)), df.Variable(df.int32(5))
    local before = df.stats().nodes_run
    local x = trips(50, function(_, x) v:assign_add(1) return x + w:value() end, df.int32(0))
    near(df.run(x), 250)
    assert(df.stats().nodes_run > before)
    near(df.run(v), 50)
  end)
  it('in a branch without results still run', function()
    local v, p = df.Variable(df.int32(0)), df.placeholder('bool', {})
    local done = df.cond(p, function() v:assign_add(1) end, function() end)
    df.run(done, { [p] = true })
    df.run(done, { [p] = false })
    near(df.run(v), 1)
  end)
end)

describe('random programs of reads and assigns', function()
  -- Loops and conds in one another, all of it in the body of a loop, against the same program in plain Lua.
  local random
  local function int(n) return math.floor(random() * n) + 1 end
  local modulus = 10007

  local function generate(depth)
    local list = {}
    for i = 1, int(4) do
      local k, var = int(10), int(2)
      if depth > 0 and k <= 2 then
        list[i] = { op = 'loop', trips = int(4) - 1, reads = random() < 0.3 and var or nil, body = generate(depth - 1) }
      elseif depth > 0 and k <= 4 then
        list[i] = { op = 'cond', var = random() < 0.5 and var or nil, yes = generate(depth - 1), no = generate(depth - 1) }
      elseif k <= 7 then list[i] = { op = 'read', var = var }
      elseif k == 8 then list[i] = { op = 'assign', var = var }
      else list[i] = { op = 'add', var = var, by = int(5) } end
    end
    return list
  end
  local function plain(list, vars, acc)
    for _, s in ipairs(list) do
      if s.op == 'loop' then
        local i = 0
        while i < s.trips and (not s.reads or vars[s.reads] % 7 ~= 3) do
          acc = plain(s.body, vars, acc)
          i = i + 1
        end
      elseif s.op == 'cond' then
        acc = plain((s.var and vars[s.var] or acc) % 2 == 0 and s.yes or s.no, vars, acc)
      elseif s.op == 'read' then acc = (acc * 3 + vars[s.var]) % modulus
      elseif s.op == 'assign' then vars[s.var] = (vars[s.var] * 2 + acc) % modulus
      else vars[s.var] = vars[s.var] + s.by end
    end
    return acc
  end
  local function build(list, vars, acc)
    for _, s in ipairs(list) do
      local a = acc
      if s.op == 'loop' then
        local _, r = df.while_loop(function(i)
          local more = i:lt(s.trips)
          if s.reads then more = df.logical_and(more, (vars[s.reads]:value() % 7):ne(3)) end
          return more
        end, function(i, b) return i + 1, build(s.body, vars, b) end, { df.int32(0), acc }, { parallel_iterations = ({ 1, 2, 32 })[int(3)] })
        acc = r
      elseif s.op == 'cond' then
        local p = ((s.var and vars[s.var]:value() or acc) % 2):eq(0)
        acc = df.cond(p, function() return build(s.yes, vars, a) end, function() return build(s.no, vars, a) end)
      elseif s.op == 'read' then acc = (acc * 3 + vars[s.var]:value()) % modulus
      elseif s.op == 'assign' then vars[s.var]:assign((vars[s.var]:value() * 2 + acc) % modulus)
      else vars[s.var]:assign_add(s.by) end
    end
    return acc
  end

  it('read and leave what program order says', function()
    local first = tonumber(os.getenv('DFLOW_SEED') or 1)
    for seed = first, first + 499 do
      df.reset()
      random = support.random(seed * 104729)
      for _ = 1, 5 do random() end
      local program, vars = generate(3), { 5, 8 }
      local want = plain(program, vars, 1)
      local v = { df.Variable(df.int32(5)), df.Variable(df.int32(8)) }
      local _, r = df.while_loop(function(i) return i:lt(1) end, function(i, a) return i + 1, build(program, v, a) end, { df.int32(0), df.int32(1) })
      near({ df.run(r), df.run(v[1]), df.run(v[2]) }, { want, vars[1], vars[2] }, { what = 'seed ' .. seed })
    end
  end)
end)

describe('what waits for an Enter of the loop that it is in', function()
  --- The results of a loop of such a predicate, or the words of its error.
  local function tried(what, pred)
    df.reset()
    local ok, v = pcall(function()
      local i, y = df.while_loop(function(i) return pred(df.default_graph():op('while/' .. what), i) end, function(i, y) return i + 1, y * 2 end,
                                 { df.int32(0), df.placeholder('float32', {}, 'x') })
      return df.run({ i, y }, { [df.default_graph():output 'x'] = 3 }, { timeout = 20 })
    end)
    return ok and ('%g %g'):format(v[1], v[2]) or tostring(v.message):match '^[^\n]*'
  end

  it('has it in the first iteration alone', function()
    for _, what in ipairs{ 'Enter', 'Enter_1' } do
      for trips, pattern in pairs{ [0] = '^0 3$', [1] = 'is dead', [2] = 'is dead' } do
        assert.matches(pattern, tried(what, function(op, i) return df.control_dependencies({ op }, function() return i:lt(trips) end) end))
      end
      for least, pattern in pairs{ [9] = '^0 3$', [4] = 'is dead' } do          -- constants that are read in place, which wait instead
        assert.matches(pattern, tried(what, function(op)
          local a, b
          df.control_dependencies({ op }, function() a, b = df.constant(5.0), df.constant(least + 0.0) end)
          return df.greater(a, b)
        end))
      end
    end
  end)
end)
