--- Several processes that turn one graph: starting them, runs over them, and what becomes of both when one dies.
local df = require 'dflow'

--- What fn() raises; nil where it does not.
local function error_of(fn)
  local ok, err = pcall(fn)
  return not ok and err or nil
end

local function pid_of(rank) return df.cluster.ranks()[rank + 1].pid end
local function signal(rank, name) os.execute(('kill -%s %d'):format(name, pid_of(rank))) end

--- Waits until a rank has that state, ten seconds at most.
local function becomes(rank, state)
  for _ = 1, 1000 do
    if df.cluster.ranks()[rank + 1].state == state then return true end
    os.execute('sleep 0.01')
  end
  return false
end

describe('a cluster', function()
  before_each(function() df.reset() end)
  teardown(function() df.cluster.stop() end)

  it('is one rank, this process, where none was started', function()
    assert.equal(1, df.cluster.size)
    assert.equal(0, df.cluster.rank)
    assert.same({}, df.cluster.ranks())
  end)

  it('refuses a number of ranks that is none, and a program that is not there', function()
    assert.equal('invalid_argument', error_of(function() df.cluster.start(0) end).code)
    assert.equal('invalid_argument', error_of(function() df.cluster.start('two') end).code)
    assert.equal('not_found', error_of(function() df.cluster.start(2, '/no/such/dflow') end).code)
    assert.equal(1, df.cluster.size)
  end)

  it('starts workers of this host', function()
    df.cluster.start(3)
    assert.equal(3, df.cluster.size)
    local ranks = df.cluster.ranks()
    assert.equal(3, #ranks)
    for i, r in ipairs(ranks) do
      assert.equal(i - 1, r.rank)
      assert.equal('alive', r.state)
      assert.is_true(r.pid > 1 and #r.host > 0)
    end
    df.cluster.start(3)
    assert.equal('failed_precondition', error_of(function() df.cluster.start(2) end).code)
  end)

  it('computes on ranks what one process computes', function()
    local x = df.placeholder('float32', { 3 }, 'x')
    local y = df.device('/rank:1/cpu:0', function() return df.sin(x) * 2 end)
    local z = df.device('/rank:2/cpu:0', function() return df.exp(y) + x end)
    local feeds = { [x] = df.tensor{ 0.5, 1, 1.5 } }
    local found = df.run({ y, z }, feeds)
    local here = df.run({ df.sin(x) * 2, df.exp(df.sin(x) * 2) + x }, feeds)
    assert.same(here[1]:totable(), found[1]:totable())
    assert.same(here[2]:totable(), found[2]:totable())
  end)

  it('tells workers what a graph has grown by', function()
    local x = df.placeholder('float32', {}, 'x')
    local y = x
    for i = 1, 5 do
      y = df.device(('/rank:%d/cpu:0'):format(i % 3), function() return y * 2 + i end)
      local want = 1.5
      for k = 1, i do want = want * 2 + k end
      assert.equal(want, df.run(y, { [x] = 1.5 }))
    end
  end)

  it('turns a loop whose body is on several ranks, and its gradient', function()
    local function build(at)
      local x = df.placeholder('float64', {}, 'x')
      local _, y = df.while_loop(function(i) return i:lt(20) end, function(i, a)
        local b = df.device(at[1], function() return df.sin(a) + x end)
        return i + 1, df.device(at[2], function() return b * 0.5 end)
      end, { df.int32(0), x })
      return x, y, df.gradients(y, x)
    end
    local x, y, g = build{ '/rank:1/cpu:0', '/rank:2/cpu:0' }
    local found = df.run({ y, g }, { [x] = 0.3 })
    x, y, g = build{ 'cpu:0', 'cpu:0' }
    assert.same(df.run({ y, g }, { [x] = 0.3 }), found)
  end)

  it('keeps variables where they were built', function()
    local v = df.device('/rank:1/cpu:0', function() return df.Variable(df.constant{ 1.5, 2 }, { name = 'v' }) end)
    local w = df.Variable(2.0, { name = 'w' })
    local step = df.assign(v, v * w)
    assert.same({ 3, 4 }, df.run(step):totable())
    assert.same({ 6, 8 }, df.run(step):totable())
    assert.same({ 6, 8 }, df.run(v):totable())
  end)

  it('gives the errors of a rank as errors of the run, with their Lua line', function()
    local x = df.placeholder('int32', {}, 'x')
    local y = df.device('/rank:2/cpu:0', function() return df.gather(df.constant{ 1, 2, 3 }, x) end)
    assert.equal(2, df.run(y, { [x] = 1 }))
    local err = error_of(function() df.run(y, { [x] = 7 }) end)
    assert.is_truthy(err.source:find 'cluster_spec')
    assert.equal(3, df.run(y, { [x] = 2 }))
  end)

  it('ends a run as unavailable when one of its ranks is killed, says which, and goes on after restart', function()
    local x = df.placeholder('float32', {}, 'x')
    local function at(rank) return df.device(('/rank:%d/cpu:0'):format(rank), function() return x + rank end) end
    local on1, on2 = at(1), at(2)
    assert.equal(3, df.run(on2, { [x] = 1 }))
    local pid = pid_of(2)
    signal(2, 'KILL')
    assert.is_true(becomes(2, 'dead'))
    local err = error_of(function() df.run(on2, { [x] = 1 }) end)
    assert.equal('unavailable', err.code)
    assert.equal(2, err.rank)
    assert.equal(df.cluster.ranks()[1].host, err.host)
    assert.is_truthy(err.message:find(('pid %d'):format(pid)) and err.message:find 'was killed by signal 9')
    assert.equal(2, df.run(on1, { [x] = 1 }))
    df.cluster.restart()
    assert.equal('alive', df.cluster.ranks()[3].state)
    assert.equal(3, df.run(on2, { [x] = 1 }))
    assert.equal(4, df.run(on1 + on2, { [x] = 0.5 }))
  end)

  it('ends a run that goes on when one of its ranks is killed', function()
    local n = df.placeholder('int32', {}, 'n')
    local y = df.while_loop(function(i) return i:lt(n) end, function(i)
      return df.device('/rank:1/cpu:0', function() return i + 1 end)
    end, { df.int32(0) })
    assert.equal(5, df.run(y, { [n] = 5 }))
    local run = df.start(y, { [n] = 2147483647 })
    signal(1, 'KILL')
    local err = error_of(function() run:wait() end)
    assert.equal('unavailable', err.code)
    assert.equal(1, err.rank)
    df.cluster.restart()
    assert.equal(5, df.run(y, { [n] = 5 }))
  end)

  it('calls a rank hung that gives no sign, until it is replaced', function()
    df.cluster.timeout(0.5)
    local y = df.device('/rank:1/cpu:0', function() return df.constant(1.0) + df.placeholder('float32', {}, 'x') end)
    signal(1, 'STOP')
    assert.is_true(becomes(1, 'hung'))
    local x = df.default_graph():op('x') and df.default_graph():output('x:0')
    local err = error_of(function() df.run(y, { [x] = 1 }) end)
    assert.equal('unavailable', err.code)
    assert.is_truthy(err.message:find 'hung')
    df.cluster.timeout(2)
    df.cluster.restart()
    assert.equal(2, df.run(y, { [x] = 1 }))
  end)

  it('goes on alone when the cluster is stopped', function()
    local x = df.placeholder('float32', {}, 'x')
    local there, here = df.device('/rank:1/cpu:0', function() return x * 3 end), x * 2
    assert.equal(3, df.run(there, { [x] = 1 }))
    df.cluster.stop()
    assert.equal(1, df.cluster.size)
    assert.equal(2, df.run(here, { [x] = 1 }))
    local code = error_of(function() df.run(there, { [x] = 1 }) end).code
    assert.is_true(code == 'unavailable' or code == 'invalid_argument')
  end)
end)
