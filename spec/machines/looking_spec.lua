--- Looking at a run that goes over ranks: all pause at one cut, are stepped, broken into and read, and go on.
local df = require 'dflow'

local error_of = require('spec.support').raised

--- A loop whose body goes round three ranks; n is how often. Fetches the sum, and x, what rank 2 made last.
local function round_trip()
  local n = df.placeholder('int32', {}, 'n')
  local _, x, sum = df.while_loop(function(i) return i:lt(n) end, function(i, x, sum)
    local a = df.device('/rank:1/cpu:0', function() return df.add(x, 1, { name = 'a' }) end)
    local b = df.device('/rank:2/cpu:0', function() return df.multiply(a, 0.5, { name = 'b' }) end)
    return i + 1, b, sum + b
  end, { df.int32(0), df.float64(1), df.float64(0) })
  return n, { sum, x }
end

local function text_of(h) return tostring(h:frames()) end

describe('a run over ranks', function()
  setup(function() df.cluster.start(3) end)
  teardown(function() df.cluster.stop() end)
  it('counts what other ranks do while it runs, too', function()
    local n = df.placeholder('int32', {}, 'n')
    local y = df.device('/rank:1/cpu:0', function()
      return (select(2, df.while_loop(function(i) return i:lt(n) end, function(i, y) return i + 1, df.sin(y) end, { df.int32(0), df.float64(1) })))
    end)
    local h = df.start(y, { [n] = 2147483647 })
    local before = 0
    for _ = 1, 3 do
      h:pause()
      local paused = h:stats().iterations
      h:resume()
      local now, until_then = 0, os.time() + 20
      repeat now = h:stats().iterations until now > paused or os.time() > until_then
      assert.is_true(paused >= before and now > paused)
      before = now
    end
    h:cancel()
  end)

  it('pauses on all ranks, with books that balance, and goes on to the same result', function()
    local n, fetches = round_trip()
    local want = df.run(fetches, { [n] = 30000 })
    local h = df.start(fetches, { [n] = 30000 })
    local looks = 0
    for _ = 1, 40 do
      if h:done() then break end
      h:pause()
      if h:state() ~= 'paused' then break end
      local frames, ledger = text_of(h), h:ledger()          -- an error where a message is missing, or counted twice
      assert.is_true(ledger.frames >= 0 and ledger.sent > 0)
      assert.equal(frames, text_of(h))
      looks = looks + 1
      h:resume()
    end
    assert.is_true(looks >= 5)
    assert.same(want, h:wait())
  end)

  it('pauses and steps a function whose variables are on other ranks, and says what waits there', function()
    local function on(rank, value) return df.device(('/rank:%d/cpu:0'):format(rank), function() return df.Variable(value) end) end
    local v, w, n = on(1, { 1.0, 2.0 }), on(2, { 0.5, 0.25 }), df.placeholder('int32', {})
    local q = df.FIFOQueue(1, 'float32', { shapes = { { 2 } } })
    local f = df.func('f', { 'float32' }, function(x)
      return df.control_dependencies({ df.assign_add(v, x * w:value()) }, function() return w * x end)
    end)
    local function loop(body) return select(2, df.while_loop(function(i) return i:lt(n) end, function(i, y) return i + 1, body(y) end, { df.int32(0), df.ones{ 2 } })) end
    local y, stuck = loop(function(y) return f(y) + y - f(y) end), loop(function(y) return f(y) + q:dequeue() end)
    local h = df.start(y, { [n] = 1000 })
    for _ = 1, 10 do
      h:pause()
      if h:state() ~= 'paused' then break end
      h:step()
      assert.matches('paused', h:state())
      h:resume()
    end
    assert.same({ 1, 1 }, h:wait():totable())
    assert.same({ 1001, 502 }, df.run(v):totable())
    assert.matches('nothing can move', error_of(function() df.run(stuck, { [n] = 2 }) end).message)
  end)

  it('starts with nothing done on any rank', function()
    local n, fetches = round_trip()
    local h = df.start(fetches, { [n] = 3 }, { paused = true })
    h:settle()
    assert.equal(0, h:ledger().ran)
    h:resume()
    assert.same(df.run(fetches, { [n] = 3 }), h:wait())
  end)

  it('stops at a node on another rank, in its iteration, and steps from there', function()
    local n, fetches = round_trip()
    local h = df.start(fetches, { [n] = 50 }, { paused = true })
    h:settle()
    h:break_at{ op = 'while/b', iteration = 7 }
    h:resume()
    local stop = h:settle()
    assert.equal('break', stop.reason)
    assert.equal('while/b', stop.op.name)
    assert.equal(7, stop.iteration)
    assert.is_truthy(text_of(h):find 'while')
    assert.equal(2, h:value('while/a', 'while:7'))
    for _ = 1, 20 do
      h:step()
      h:ledger()
    end
    h:unbreak()
    h:step(3, 'iteration')
    assert.is_true(h:settle().iteration >= 8)
    h:resume()
    assert.same(df.run(fetches, { [n] = 50 }), h:wait())
  end)

  it('steps as many tokens as were asked for, on all ranks together, and counts them all', function()
    local n, fetches = round_trip()
    local want = df.run(fetches, { [n] = 12 })
    local whole = df.start(fetches, { [n] = 12 })
    whole:wait()
    for _, size in ipairs{ 1, 3, 40 } do
      local h = df.start(fetches, { [n] = 12 }, { paused = true })
      h:settle()
      local steps, before = 0, 0
      while true do
        if not h:step(size) then break end
        steps = steps + 1
        local ledger, stats = h:ledger(), h:stats()
        assert.equal(size * steps, ledger.ran + ledger.died)
        assert.is_true(stats.nodes_run >= ledger.ran and stats.nodes_run >= before)
        before = stats.nodes_run
      end
      assert.is_true(steps * size > 100)
      assert.same(want, h:wait())
      for _, count in ipairs{ 'nodes_run', 'dead_tokens', 'frames', 'iterations' } do
        assert.equal(whole:stats()[count], h:stats()[count])
      end
    end
  end)

  it('stops where a rank makes what is no number', function()
    local x = df.placeholder('float32', {}, 'x')
    local _, y = df.while_loop(function(i) return i:lt(40) end, function(i, y)
      return i + 1, df.device('/rank:1/cpu:0', function() return df.sqrt(y - 1, { name = 'root' }) end)
    end, { df.int32(0), x })
    local h = df.start(y, { [x] = 9 }, { paused = true })
    h:settle()
    h:break_at{ nan = true }
    h:resume()
    local stop = h:settle()
    assert.equal('break', stop.reason)
    assert.equal('while/root', stop.op.name)
    h:cancel()
    assert.equal('cancelled', error_of(function() h:wait() end).code)
  end)

  it('reads values, large tensors, arrays and variables where they are', function()
    local n = df.placeholder('int32', {}, 'n')
    local v = df.device('/rank:1/cpu:0', function() return df.Variable(df.constant{ 4.0, 2 }, { name = 'v' }) end)
    local large, array
    local _, sum, out = df.while_loop(function(i) return i:lt(n) end, function(i, s, ta)
      large = df.device('/rank:2/cpu:0', function() return df.fill({ 1000 }, df.cast(i, 'float32')) end)
      array = df.device('/rank:2/cpu:0', function() return ta:write(i, large) end)
      return i + 1, s + df.device('/rank:1/cpu:0', function() return df.reduce_sum(v:value()) end), array
    end, { df.int32(0), df.float32(0), df.TensorArray('float32', 8, { name = 'rows' }) })
    local h = df.start({ sum, out:size() }, { [n] = 8 }, { paused = true })
    h:settle()
    h:break_at{ op = large, iteration = 5 }
    h:resume()
    h:settle()
    h:unbreak()
    local seen
    for _ = 1, 200 do
      local ok, value = pcall(h.value, h, large, 'while:5')
      if ok and type(value) == 'table' then seen = value break end
      if h:step().reason ~= 'step' then break end
    end
    assert.is_truthy(seen)
    assert.same({ 1000 }, seen.shape)
    assert.equal(5, seen:at(999))
    h:resume()
    assert.same({ 48, 8 }, h:wait())
  end)

  it('says why a value has not come from another rank', function()
    local q = df.FIFOQueue(1, 'float32')
    local taken = q:dequeue()
    local y = df.device('/rank:1/cpu:0', function() return df.multiply(taken, 2, { name = 'twice' }) end)
    local z = df.add(y, 1, { name = 'z' })
    local h = df.start(z)
    h:pause()
    local text = tostring(h:whynot(z))
    assert.is_truthy(text:find 'twice' and text:find('waits for an element', 1, true))
    h:resume()
    df.run(q:enqueue(3))
    assert.equal(7, h:wait())
  end)

  it('ends as unavailable when a paused rank is killed', function()
    local n, fetches = round_trip()
    local h = df.start(fetches, { [n] = 2000000000 })
    h:pause()
    os.execute(('kill -KILL %d'):format(df.cluster.ranks()[3].pid))
    local err = error_of(function() h:resume() h:wait() end)
    assert.equal('unavailable', err.code)
    assert.equal(2, err.rank)
    df.cluster.restart()
    assert.same(df.run(fetches, { [n] = 5 }), df.run(fetches, { [n] = 5 }))
  end)

  it('is looked at when it is over', function()
    local n, fetches = round_trip()
    local h = df.start(fetches, { [n] = 20 }, { remains = true, values = true })
    h:wait()
    local b = assert(h:value('while/b', 'while:19'))
    assert.is_true(math.abs(b - 1) < 1e-5)
  end)
end)
