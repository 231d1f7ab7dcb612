--- Several processes that turn one graph: starting them, runs over them, and what becomes of both when one dies.
local df = require 'dflow'
local unpack = table.unpack or unpack

--- What fn() raises; nil where it does not.
local error_of = require('spec.support').raised

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
  teardown(function() df.cluster.stop() end)

  it('is one rank, this process, where none was started', function()
    assert.equal(1, df.cluster.size)
    assert.equal(0, df.cluster.rank)
    assert.same({}, df.cluster.ranks())
  end)

  it('refuses a number of ranks that is none, and a program that is not there', function()
    assert.equal('invalid_argument', error_of(function() df.cluster.start(0) end).code)
    assert.equal('invalid_argument', error_of(function() df.cluster.start('two') end).code)
    local most = tonumber(error_of(function() df.cluster.start(2 ^ 30) end).message:match '1 to (%d+) ranks')
    for _, n in ipairs{ most + 1, 2 ^ 31 } do
      assert.equal('invalid_argument', error_of(function() df.cluster.start(n) end).code)
      assert.equal('invalid_argument', error_of(function() df.train.replicate(n, function() return df.float32(1) end) end).code)
    end
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

  it('plans on each rank what it plans here: a checkpoint, a loop of one trip, and their gradients', function()
    local x = df.constant({ 0.5, -1.5 }, 'float64')
    local function cube(v) return v * v * v end
    local function build(at)
      return df.device(at, function()
        local y = df.checkpoint(cube)(x)
        local _, z = df.while_loop(function(i) return i:lt(1) end, function(i, a) return i + 1, a * x end, { df.int32(0), y }, { maximum_iterations = 1 })
        return { y, z, df.gradients(z, x), df.hessian(z:reduce_sum(), x) }
      end)
    end
    local here, there = df.run(build('cpu:0')), df.run(build('/rank:1/cpu:0'))
    for k, t in ipairs(here) do assert.same(t:totable(), there[k]:totable()) end
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

  it('runs what is placed on a job where df.cluster.jobs says, as it says when the run begins', function()
    local x = df.placeholder('float32', {}, 'x')
    local y = df.device('/job:ps/task:0/cpu:0', function() return x + 1 end)
    local function place()
      local run = df.start(y, { [x] = 1 })
      assert.equal(2, run:wait())
      for k = 0, 2 do if run:stats().transfers[('cpu:0 -> /rank:%d/cpu:0'):format(k)] then return k end end
      return 0
    end
    assert.equal(0, place())
    for _, rank in ipairs{ 2, 1, 0, 1 } do
      df.cluster.jobs{ ps = { rank }, Worker = { 0 } }
      assert.equal(rank, place())
      assert.equal('/job:ps/task:0/cpu:0', y.device)
      local s = df.Session{ devices = { 'cpu:0', '/job:PS/task:0/sim:0' } }
      assert.is_truthy(s:devices()[4].name:find(rank == 0 and '^sim:0' or ('^/rank:%d/sim:0'):format(rank)))
      s:close()
    end
    for spec, why in pairs{ ['/job:ps/task:1/cpu:0'] = 'no such task', ['/job:other/task:0/cpu:0'] = 'no such job' } do
      local err = error_of(function() df.run(df.device(spec, function() return x * 2 end), { [x] = 1 }) end)
      assert.equal('invalid_argument', err.code)
      assert.is_truthy(err.message:find(why, 1, true), err.message)
    end
    assert.equal(2, df.run(df.device('/job:localhost/replica:0/task:0/device:CPU:0', function() return x * 2 end), { [x] = 1 }))
    df.cluster.jobs{ worker = { 1 } }
    assert.equal('invalid_argument', error_of(place).code)
    for _, bad in ipairs{ { ps = { 64 } }, { ps = { -1 } }, { ps = 1 } } do
      assert.equal('invalid_argument', error_of(function() df.cluster.jobs(bad) end).code)
      assert.equal('invalid_argument', error_of(place).code)
    end
    df.cluster.jobs(nil)
    assert.equal(0, place())
  end)

  it('asks a rank for the GPU that a graph names there, and only runs with it need it', function()
    local shell = require 'spec.shell'
    local text = [[
      local x, found = df.placeholder('float32', {}, 'x'), {}
      local y = df.device('/rank:1/gpu:0', function() return x + 1 end)
      local function tell(fn, ...) local ok, got = pcall(fn, ...) print(ok and got or got.code .. ': ' .. got.message) end
      tell(df.run, y, { [x] = 1 })
      tell(df.run, df.device('/rank:1/cpu:0', function() return x * 3 end), { [x] = 1 })
      local s = df.Session{ soft_placement = true }
      tell(s.run, s, y, { [x] = 1 })
      for _, d in ipairs(df.devices()) do print(d.name) end
      tell(df.Session, { devices = { 'cpu:0', '/rank:1/gpu:0' } })
    ]]
    local function lines(driver)
      local r = shell.run(('DFLOW_CUDA_DRIVER=%s %s -n 2 -'):format(driver, shell.dflow), text)
      assert.equal(0, r.status, r.err)
      local list = {}
      for line in r.out:gmatch '[^\n]+' do list[#list + 1] = line end
      return list
    end
    local none = lines '/no/such/driver'
    for _, i in ipairs{ 1, #none } do
      assert.is_truthy(none[i]:find("invalid_argument: .*there is no device '/rank:1/gpu:0'.*/no/such/driver"), none[i])
    end
    assert.same({ '3.0', '2.0', 'cpu:0', '/rank:1/cpu:0' }, { unpack(none, 2, 5) })
    if not require('spec.cudagraph').here then return end                    -- the driver for tests is not built
    local some = lines 'strict'
    assert.same({ '2.0', '3.0', '2.0', 'cpu:0', '/rank:1/cpu:0', '/rank:1/gpu:0', 'gpu:0' }, { unpack(some, 1, 7) })
  end)

  it('does not lose the value of a variable whose job moves: a run says where it is, and what is restored goes on', function()
    local file = os.tmpname()
    for _, ranks in ipairs{ { 1, 0 }, { 0, 1 }, { 1, 2 } } do
      df.reset()
      df.cluster.jobs{ ps = { ranks[1] } }
      local v = df.device('/job:ps/task:0/cpu:0', function() return df.Variable(1.0, { name = 'v' }) end)
      df.run(v:assign(5.0))
      df.save(file, { variables = { v } })
      for _, back in ipairs{ true, false } do
        df.cluster.jobs{ ps = { ranks[2] } }
        local err = error_of(function() df.run(v) end)
        assert.equal('failed_precondition', err.code)
        assert.is_truthy(err.message:find('on rank ' .. ranks[1], 1, true) and err.message:find('on rank ' .. ranks[2], 1, true), err.message)
        if back then
          df.cluster.jobs{ ps = { ranks[1] } }
          assert.equal(5.0, df.run(v))
        end
      end
      df.restore(file, { variables = { v } })
      assert.equal(6.0, df.run(v:assign_add(1.0)))
      df.cluster.jobs{ ps = { ranks[1] } }
      assert.equal('failed_precondition', error_of(function() df.run(v) end).code)
    end
    os.remove(file)
    df.cluster.jobs(nil)
    df.reset()
  end)

  it('says that a rank is lost that has the GPU a graph or a session names, also with soft placement', function()
    signal(1, 'KILL')
    assert.is_true(becomes(1, 'dead'))
    local y = df.device('/rank:1/gpu:0', function() return df.placeholder_with_default(2.0, {}) + 1 end)
    local s = df.Session{ soft_placement = true }
    for _, fn in ipairs{ function() s:run(y) end, function() df.Session{ devices = { 'cpu:0', '/rank:1/gpu:0' } } end } do
      local err = error_of(fn)
      assert.same({ 'unavailable', 1 }, { err.code, err.rank })
      assert.is_truthy(err.host and err.host ~= '')
    end
    df.cluster.restart()
    assert.equal(3.0, s:run(y))
    s:close()
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
      return df.device('/rank:1/cpu:0', function() return df.device('cpu:0', function() return i + 2 end) - 1 end)
    end, { df.int32(0) })
    assert.equal(5, df.run(y, { [n] = 5 }))
    local run = df.start(y, { [n] = 2147483647 })
    while run:stats().iterations < 10 do end
    signal(1, 'KILL')
    local err = error_of(function() run:wait() end)
    assert.equal('unavailable', err.code)
    assert.equal(1, err.rank)
    assert.is_true(tonumber(err.frame:match '^while:(%d+)$') >= 8 and tostring(err):find(err.frame, 1, true) ~= nil, err.frame)
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

  it('says which rank waits for which, for which value and since when, of a run that goes on and when a rank hangs', function()
    local q = df.FIFOQueue(1, 'float32')
    local late = df.device('/rank:1/cpu:0', function() return df.multiply(q:dequeue(), 2, { name = 'late' }) end)
    local run = df.start(df.device('/rank:2/cpu:0', function() return df.add(late, 1) end))
    local function waiting(rank, seconds)
      for _ = 1, 500 do
        local w = df.cluster.ranks()[rank + 1].waits
        if w and w.seconds >= seconds then return w end
        os.execute 'sleep 0.01'
      end
    end
    local w = assert(waiting(2, 0.3))
    assert.equal(1, w.rank)
    assert.equal('late:0', w.what)
    assert.is_true(df.cluster.ranks()[2].latency < 0.02 and df.cluster.ranks()[1].latency == nil)
    df.cluster.timeout(0.5)
    signal(1, 'STOP')
    local err = error_of(function() run:wait() end)
    assert.equal(1, err.rank)
    assert.is_truthy(err.message:find 'is hung: it has given no sign for .* s; rank 2 has waited for its late:0 for [%d.]+ s')
    df.cluster.timeout(2)
    df.cluster.restart()
    os.execute 'sleep 0.7'                       -- what is not said again is over
    for _, r in ipairs(df.cluster.ranks()) do assert.is_nil(r.waits) end
    err = error_of(function() df.run(df.device('/rank:2/cpu:0', function() return late + 1 end), nil, { timeout = 0.4 }) end)
    assert.equal('deadline_exceeded', err.code)
    assert.is_truthy(err.message:find 'waits for')
  end)

  it('takes nothing out of a queue on another rank for a run that was cancelled before', function()
    local q = df.device('/rank:1/cpu:0', function() return df.FIFOQueue(-1, 'int32', { shapes = {} }) end)
    local x = df.placeholder('int32', {}, 'given')
    local put, one, size = q:enqueue(x), q:dequeue(), q:size()
    for n = 1, 20 do
      local waits = df.start(one)
      if n % 4 == 0 then os.execute 'sleep 0.02' end
      waits:cancel()
      df.run(put, { [x] = n })
      assert.equal('cancelled', error_of(function() waits:wait() end).code)
      assert.equal(n, df.run(one))
      assert.equal(0, df.run(size))
    end
  end)

  it('runs functions that use queues of any one rank, wherever they are called, and says what helps with those of two', function()
    local x, queues = df.placeholder('float32', {}, 'x'), {}
    for k = 0, 2 do
      queues[k] = df.device(('/rank:%d/cpu:0'):format(k), function() return df.FIFOQueue(4, 'float32', { shapes = { {} } }) end)
    end
    local function through(q, v) return df.control_dependencies({ q:enqueue(v) }, function() return q:dequeue() end) end
    for k = 0, 2 do
      local one = df.func('one' .. k, { 'float32' }, function(v) return through(queues[k], v * 2) end)
      for at = 0, 2 do
        assert.equal(6, df.run(df.device(('/rank:%d/cpu:0'):format(at), function() return one(x) end), { [x] = 3 }))
      end
    end
    local two = df.func('two', { 'float32' }, function(v) return through(queues[2], through(queues[1], v)) end)
    local err = error_of(function() df.run(two(x), { [x] = 3 }) end)
    assert.equal('unimplemented', err.code)
    assert.is_truthy(err.message:find('build them on one device', 1, true), err.message)
    assert.equal(3, df.run(through(queues[2], through(queues[1], x)), { [x] = 3 }))
  end)

  it('says that nothing can move when another run over ranks cannot either', function()
    local q, r = df.device('/rank:1/cpu:0', function() return df.FIFOQueue(4, 'int32'), df.FIFOQueue(4, 'int32') end)
    local here = df.FIFOQueue(4, 'int32')
    local next_one = q:dequeue()
    local there = df.device('/rank:2/cpu:0', function() return next_one + 1 end)
    local x = df.placeholder('int32', {}, 'given')
    local helper = df.start(q:enqueue(r:dequeue() + 1))
    df.run(r:enqueue(x), { [x] = 1 })
    assert.equal(3, df.run(there))
    helper:wait()
    local stuck = df.start(q:enqueue(r:dequeue() + 1))
    for _, fetch in ipairs{ there, next_one, here:dequeue() } do
      assert.equal('failed_precondition', error_of(function() df.run(fetch) end).code)
    end
    df.run(r:enqueue(x), { [x] = 2 })
    stuck:wait()
    assert.equal(4, df.run(there))
  end)

  it('runs loops that are nested twenty deep', function()
    local x = df.placeholder('float32', {}, 'x')
    local function nest(n, v)
      if n == 0 then return df.device('/rank:1/cpu:0', function() return v + 1 end) end
      local _, r = df.while_loop(function(i) return i:lt(n == 20 and 3 or 1) end, function(i, a) return i + 1, nest(n - 1, a) end, { df.int32(0), v })
      return r
    end
    assert.equal(4, df.run(nest(20, x), { [x] = 1 }))
  end)

  it('takes the patience with silent ranks from the session that runs', function()
    df.cluster.timeout(60)
    local x = df.placeholder('float32', {}, 'silent')
    local y = df.device('/rank:2/cpu:0', function() return x * 2 end)
    local s = df.Session{ timeout_rank = 0.5 }
    assert.equal(4, s:run(y, { [x] = 2 }))
    signal(2, 'STOP')
    local began = os.time()
    local err = error_of(function() s:run(y, { [x] = 2 }) end)
    assert.equal('unavailable', err.code)
    assert.equal(2, err.rank)
    assert.is_truthy(err.message:find 'hung')
    assert.is_true(os.time() - began < 30)
    df.cluster.timeout(2)
    df.cluster.restart()
    assert.equal(4, s:run(y, { [x] = 2 }))
    for _, bad in ipairs{ 0, -1, 'soon', {} } do
      assert.equal('invalid_argument', error_of(function() df.Session{ timeout_rank = bad } end).code)
    end
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

describe('a worker that is none', function()
  local shell = require 'spec.shell'
  after_each(function() df.cluster.stop() end)

  --- What starting a cluster says whose worker is a script with its end of the channel as descriptor 3.
  local function start(script)
    local path = os.tmpname()
    shell.write(path, '#!/bin/sh\n' .. script .. '\n')
    os.execute('chmod +x ' .. path)
    local err = error_of(function() df.cluster.start(2, path) end)
    os.remove(path)
    assert.equal(1, df.cluster.size)
    return err
  end

  it('is an error that names its rank and says what it did, and a true one can be started after it', function()
    local HELLO = [[\001\000\000\000\000\000\000\000]]                          -- word, request
    for script, why in pairs{
      ['exit 3'] = 'ended with status 3',
      ['kill -9 $$'] = 'was killed by signal 9',
      ['head -c 4000 /dev/zero >&3; sleep 5'] = 'closed its connection',
      [("printf '%s\\377\\377\\377\\377\\377\\377\\377\\377' >&3; sleep 5"):format(HELLO)] = 'closed its connection',
      [("printf '%s\\010\\000\\000\\000\\000\\000\\000\\000\\377\\377\\377\\377\\377\\377\\377\\377' >&3; sleep 5"):format(HELLO)] = 'another version of dflow',
    } do
      local err = start(script)
      assert.equal('unavailable', err.code)
      assert.equal(1, err.rank)
      assert.is_truthy(err.message:find('rank 1', 1, true) and err.message:find(why, 1, true), err.message)
    end
    df.reset()
    df.cluster.start(2)
    assert.equal(3, df.run(df.device('/rank:1/cpu:0', function() return df.constant(1) + df.placeholder_with_default(2, {}) end)))
  end)
end)
