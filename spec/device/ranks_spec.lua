--- Ranks: processes that turn one graph. Here they are sessions of one process (DFLOW_STRESS=ranks:N), or its owners
-- send each other bytes (DFLOW_STRESS=ring). What is printed, drawn and refused is what one device gives.
local df = require 'dflow'
local shell = require 'spec.shell'

local function lines(environment)
  local r = shell.run(('%s %s spec/device/over_ranks.lua'):format(environment, shell.lua))
  assert.are.equal(0, r.status, r.err)
  return r.out
end

--- Random programs on random devices, in a process of its own; how many ranks may refuse is told.
local function random_programs(stress, seed, n)
  local path = os.tmpname()
  shell.write(path, ([[
    local df, check = require 'dflow', require('spec.random_placement').check
    local refused = 0
    for seed = %d, %d do
      local wrong = check(df, seed, { depth = 3 })
      if wrong and wrong:find('cannot run it together', 1, true) then refused = refused + 1
      elseif wrong then io.stderr:write(wrong) os.exit(1) end
    end
    print(refused)]]):format(seed, seed + n - 1))
  local r = shell.run(('DFLOW_STRESS=%s %s %s'):format(stress, shell.lua, path))
  os.remove(path)
  assert.are.equal(0, r.status, r.err)
  return tonumber(r.out)
end

describe('a graph over ranks', function()
  it('gives the values, the random numbers, the effects and the errors of one device', function()
    local here = lines 'DFLOW_ALONE=1'
    assert.matches('trained', here)
    for _, ranks in ipairs{ 'ranks:3', 'ranks:4,owners:2', 'ranks:3,shuffle:5' } do
      assert.are.equal(here, (lines('DFLOW_STRESS=' .. ranks)))
    end
  end)

  it('gives the bits of one device for random programs, each op on a rank of its own choice', function()
    assert.is_true(random_programs('ranks:3', 1, 12) <= 3)
    assert.are.equal(0, random_programs('ring', 300, 12))
  end)

  it('ends as unavailable when a rank is lost, which is named, and the session goes on when it is back', function()
    local path = os.tmpname()
    shell.write(path, [[
      local df = require 'dflow'
      local s, n = df.Session{}, df.placeholder('int32', {})
      local function on(k, fn) return df.device(('/rank:%d/cpu:0'):format(k), fn) end
      local _, y, z = df.while_loop(function(i) return i:lt(n) end, function(i, y, z)
        return i + 1, on(1, function() return y + 1 end), on(2, function() return z + 1 end)
      end, { df.int32(0), df.float64(0), df.float64(0) })
      local ok, err = pcall(s.run, s, { y, z }, { [n] = 2 ^ 31 - 1 })
      print(ok, err.code, (err.message:gsub('%d%d+', 'P')))
      print(s:run(y + z, { [n] = 10 }) == 20)]])
    local r = shell.run(('DFLOW_STRESS=ranks:3,lose:20 %s %s'):format(shell.lua, path))
    os.remove(path)
    assert.are.equal(0, r.status, r.err)
    assert.matches('^false\tunavailable\trank 2 %(host here, pid P%) was lost.*\ntrue\n$', r.out)
  end)

  it('names devices, memory and transfers by rank, and fills no device of another rank past its limit', function()
    local path = os.tmpname()
    shell.write(path, [[
      local df = require 'dflow'
      local s = df.Session{ devices = { 'cpu:0', { '/rank:1/sim:0', memory = '1MB' }, '/rank:2/sim:0' } }
      local size = df.placeholder('int32', {})
      local y = df.device('/rank:1/sim:0', function() return df.tanh(df.fill({ size }, 0.5)) * 2 end)
      local z = df.device('/rank:2/sim:0', function() return df.reduce_sum(y) end)
      print(s:run(z, { [size] = 1000 }) > 900, y.op.device)
      local stats = s:stats()
      print(stats.memory['/rank:1/sim:0'].peak >= 4000, stats.memory['/rank:1/sim:0'].in_use, stats.memory['/rank:1/sim:0'].limit)
      print(stats.transfers['/rank:1/sim:0 -> /rank:2/sim:0'].messages, stats.transfers['/rank:2/sim:0 -> cpu:0'].bytes)
      local ok, err = pcall(s.run, s, z, { [size] = 1000000 })
      print(ok, err.code, err.message:match 'on /rank:1/sim:0')
      ok, err = pcall(s.run, s, df.device('/rank:5/cpu:0', function() return z + 1 end), { [size] = 1 })
      print(ok, err.code, err.message:match 'there are ranks 0 to 2')]])
    local r = shell.run(('DFLOW_STRESS=ranks:3 %s %s'):format(shell.lua, path))
    os.remove(path)
    assert.are.equal(0, r.status, r.err)
    assert.are.equal('true\t/rank:1/sim:0\ntrue\t0\t1048576\n1\t4\nfalse\tresource_exhausted\ton /rank:1/sim:0\n'
      .. 'false\tinvalid_argument\tthere are ranks 0 to 2\n', r.out)
  end)

  it('uses variables of other ranks in functions, wherever they are called, and several of them in one op', function()
    local path = os.tmpname()
    shell.write(path, [[
      local df = require 'dflow'
      local function on(k, fn) return df.device(('/rank:%d/cpu:0'):format(k), fn) end
      local function show(...) print(select(2, pcall(...))) end
      local s, at = df.Session{ soft_placement = os.getenv 'DFLOW_ALONE' ~= nil }, {}
      for k = 0, 2 do at[k] = on(k, function() return df.Variable({ k + 0.5, 2.0 - k }, { name = 'v' .. k }) end) end
      local count = on(2, function() return df.Variable(0.0, { name = 'count' }) end)
      local function after(ops, v) return df.control_dependencies(ops, function() return v() end) end
      local function body(x)
        local a = df.assign_add(at[1], x * at[2]:value())
        local b = after({ a }, function() return df.scatter_add(at[2], df.int32{ 1 }, x[{ { 0, 1 } }] + at[0][{ { 0, 1 } }]) end)
        return after({ b }, function() return at[1] + at[2] * at[0] + df.random_uniform{ 2 } end)
      end
      local f, fact = df.func('f', { 'float32' }, body)
      fact = df.func('fact', { 'int32' }, function(n)      -- a call deeper each time, and a gradient's tape
        return df.cond(n:lt(1), function() return df.assign_add(count, 1.0) + 0 end,
          function() return fact(n - 1) * df.reduce_sum(at[1]) / 64 end)
      end, { returns = { 'float32' } })
      local short = df.func('short', { 'int32' }, function(i) return df.gather(at[2], i) end)
      local told = df.func('told', { 'float32' }, function(x)
        return df.lua_func(function(a) return a * 2 end, { x * at[1] }, { 'float32' }, { shapes = { { 2 } } })
      end)
      local x = df.placeholder('float32', { 2 })
      local function loop(n) return df.while_loop(function(i) return i:lt(n) end, function(i, y)
        return i + 1, on(i.index, function() return f(y * 0.25) end)
      end, { df.int32(0), x }, { parallel_iterations = 1 }) end
      for k = 0, 2 do
        local _, y = loop(3 + k)
        show(s.run, s, on(k, function() return f(x) end), { [x] = { 1, -2 } })
        show(s.run, s, y, { [x] = { 1, -2 } })
        show(s.run, s, on(k, function() return fact(df.int32(k + 2)) end))
        show(s.run, s, df.gradients(f(x), x), { [x] = { 0.5, k } })
        show(s.run, s, df.gradients(fact(df.int32(3)), at[1]))
        show(s.run, s, on(k, function() return told(x) end), { [x] = { 0.5, 3 } })
        show(s.run, s, df.apply_momentum(at[k], at[(k + 1) % 3], df.float32(0.5), df.float32{ 1, k }, df.float32(0.9), {}))
        show(function() s:run(on(k, function() return short(df.int32(7)) end)) end)
        for r = 0, 2 do show(s.run, s, at[r]) end
      end
      show(s.run, s, count)]])
    local function out(environment)
      local r = shell.run(('%s timeout 60 %s %s'):format(environment, shell.lua, path))
      assert.are.equal(0, r.status, r.err)
      return r.out
    end
    local here = out 'DFLOW_ALONE=1'
    assert.matches('index 7', here)
    for _, ranks in ipairs{ 'ranks:3', 'ranks:3,shuffle:7', 'ranks:3,owners:2' } do assert.are.equal(here, out('DFLOW_STRESS=' .. ranks)) end
    os.remove(path)
  end)

  it('ends without what nothing fetched waits for, and not without an effect in a loop', function()
    local path = os.tmpname()
    shell.write(path, [[
      local df, registry = require 'dflow', require 'dflow.front.registry'
      local function on(k, fn) return df.device(('/rank:%d/cpu:0'):format(k), fn) end
      local function first(...) return (registry.op('Merge', { { ... } })) end
      local s, v = df.Session{}, df.Variable(1.0)
      for k = 0, 2 do
        local q = on(k, function() return df.FIFOQueue(1, 'float32', { shapes = { {} } }) end)
        local never = on(k, function() return q:dequeue() * 2 end)
        local _, looped = df.while_loop(function(i) return i:lt(3) end, function(i, x)
          return i + 1, on(k, function() return x + q:dequeue() end)
        end, { df.int32(0), df.float32(0) })
        for at = 0, 2 do
          for _, slow in ipairs{ never, looped } do
            local y = on(at, function() return first(slow, v:value() + 5) * 1 end)
            assert(s:run(y) == 6 and s:start(y):wait() == 6)
          end
        end
        local _, y = df.while_loop(function(i) return i:lt(2) end, function(i, y)
          return i + 1, df.control_dependencies({ on(k, function() return q:dequeue() end) }, function() return y + 1 end)
        end, { df.int32(0), df.float32(0) })
        local h = s:start(y)
        for i = 1, 2 do s:run(q:enqueue(df.float32(i))) end
        assert(h:wait() == 2 and s:run(q:size()) == 0)
      end
      print 'done']])
    local r = shell.run(('DFLOW_STRESS=ranks:3 timeout 60 %s %s'):format(shell.lua, path))
    os.remove(path)
    assert.are.equal('done\n', r.out, r.err)
  end)

  it('is refused when the run begins where there is no such rank', function()
    local s = df.Session{}
    for name, found in pairs{ ['/rank:1/cpu:0'] = 'rank 1, but this process is alone', ['/job:worker/task:2/cpu:0'] = 'rank 2',
                              ['/rank:1'] = 'rank 1' } do
      local y = df.device(name, function() return df.add(df.placeholder_with_default(1.0, {}), 2.0) end)
      local ok, err = pcall(s.run, s, y)
      assert.is_false(ok)
      assert.are.equal('invalid_argument', err.code)
      assert.matches(found, err.message, 1, true)
    end
    assert.are.equal(3, s:run(df.device('/job:worker/task:0/cpu:0', function() return df.add(df.placeholder_with_default(1.0, {}), 2.0) end)))
    assert.are.equal(3, s:run(df.device('/rank:0/cpu:0', function() return df.add(df.placeholder_with_default(1.0, {}), 2.0) end)))
    s:close()
  end)
end)
