--- A run can be held up between two tokens, stepped, broken into and looked at, and computes what it would have computed.
local df = require 'dflow'
local support = require 'spec.support'
local random_program = require 'spec.random_program'
local ordered_it = support.ordered_it(it, pending)

local function endless()
  df.reset()
  local x = df.placeholder('float32', {})
  local i, y = df.while_loop(function(i) return i:ge(0) end, function(i, y) return i + 1, y * 0.5 + x end, { df.int32(0), df.float32(1) })
  return { i, y }, { [x] = 1 }
end

local function counting(n)
  df.reset()
  local i, y = df.while_loop(function(i) return i:lt(df.int32(n)) end, function(i, y)
    return i + 1, df.cond(y:gt(20), function() return y * 0.5 end, function() return y * 2 end)
  end, { df.int32(0), df.float32(1) })
  return i, y
end

local function names(list)
  local out = {}
  for i, t in ipairs(list) do out[i] = t.op.name .. '@' .. t.tag end
  return out
end

--- The ledger: what the executor counts as outstanding in an iteration is what one sees there.
local function balance(h)
  local live, dead = 0, 0
  local frames = h:frames()
  for _, f in ipairs(frames) do
    for _, it in ipairs(f.iterations) do
      assert(it.outstanding == it.ready + it.running + #it.children,
        ('%s:%d has %d outstanding, but %d tokens, %d calls and %d frames are seen'):format(f.tag, it.number, it.outstanding, it.ready, it.running, #it.children))
      assert(it.number >= f.first and it.number < f.next)
    end
    assert(f.in_flight <= f.limit, f.tag .. ' has more iterations in flight than it may')
    live, dead = live + f.live, dead + f.dead
  end
  local seen_live, seen_dead = 0, 0
  for _, t in ipairs(h:tokens()) do
    if t.state == 'ready' then
      if t.dead then seen_dead = seen_dead + 1 else seen_live = seen_live + 1 end
    end
  end
  assert(live == seen_live and dead == seen_dead)
  return #frames
end

describe('a run in the background', function()
  it('pauses in an endless loop, says where, and goes on', function()
    local fetches, feeds = endless()
    local h = df.start(fetches, feeds)
    local stop = h:pause()
    assert.equal('paused', h:state())
    assert.equal('asked', stop.reason)
    local before = h:stats().nodes_run
    assert.equal(before, h:stats().nodes_run)
    local frames = h:frames()
    while #frames < 2 do                       -- it has only just begun
      h:step(10)
      frames = h:frames()
    end
    assert.equal('while', frames[2].name)
    assert.matches('inspect_spec.lua:%d+$', frames[2].where)
    assert.is_true(frames[2].in_flight >= 1 and frames[2].in_flight <= 32 * math.max(1, #(frames[2].partitions or {})))      -- an owner a window
    h:resume()
    assert.equal('running', h:state())
    h:cancel()
    local err = support.error_of(h.wait, h)
    assert.equal('cancelled', err.code)
    assert.equal(0, #h:frames())
    assert.is_nil(h:pause())
  end)

  it('that a long kernel keeps from pausing pauses when that is over, after `pause` gave up waiting', function()
    local core = require 'dflow.backend'
    local n = df.placeholder('int32', { 1 })
    local i = df.while_loop(function(i) return i:ge(0) end, function(i)      -- nearly all the time is spent in the sort
      return i + 1 + df.cast(df.sort(df.random_uniform(n) + df.cast(i, 'float32'))[0], 'int32') * 0
    end, { df.int32(0) })
    local size, gave_up = 250000, false
    repeat                                     -- until a kernel takes longer than the patience
      size = size * 2
      local h = df.start(i, { [n] = { size } })
      core.run_patience(h.handle, 0.01)
      for _ = 1, 20 do
        gave_up = not h:pause()
        if gave_up then break end
        h:resume()
      end
      local began = df.clock()
      repeat until h:state() == 'paused' or not gave_up or df.clock() - began > 60
      assert(not gave_up or h:state() == 'paused', h:state())
      h:cancel()
      pcall(h.wait, h)
    until gave_up or size > 1e8
    assert.is_true(gave_up)
  end)

  it('is cancelled while it is paused', function()
    local fetches, feeds = endless()
    local h = df.start(fetches, feeds)
    h:pause()
    h:cancel()
    local err = support.error_of(h.wait, h)
    assert.equal('cancelled', err.code)
  end)

  it('that is paused cannot be waited for, and says so', function()
    local h = df.start({ counting(5) }, nil, { paused = true })
    h:settle()
    local err = support.error_of(h.wait, h)
    assert.equal('failed_precondition', err.code)
    assert.matches('paused', err.message)
    h:resume()
    assert.same({ 5, 32 }, h:wait())
  end)

  ordered_it('does not count the time it is paused against its timeout', function()
    local h = df.start({ counting(1000) }, nil, { paused = true, timeout = 1 })
    h:settle()
    local clock = os.time()
    while os.time() - clock < 3 do end          -- twice its timeout, and leaves it nearly all of that
    h:resume()
    assert.equal(1000, h:wait()[1])
  end)

  ordered_it('is stepped token by token, and what ran is its history', function()
    local h = df.start({ counting(3) }, nil, { paused = true })
    assert.equal('asked', h:settle().reason)
    local seen = {}
    local stop = h:step()
    while stop do
      assert.equal('step', stop.reason)
      seen[#seen + 1] = stop.op.name .. '@' .. stop.tag
      local history = names(h:history(1))
      if seen[#seen - 1] then assert.equal(seen[#seen - 1], history[1]) end
      balance(h)
      stop = h:step()
    end
    assert.same({ 3, 8 }, h:wait())
    assert.is_true(#seen > 15)
  end)

  it('is stepped by live nodes, by iterations and by frames', function()
    local i = df.while_loop(function(i) return i:lt(df.int32(4)) end, function(i)
      local j = df.while_loop(function(j) return j:lt(df.int32(3)) end, function(j) return j + 1 end, { df.int32(0) })
      return i + j - 2
    end, { df.int32(0) }, { parallel_iterations = 1 })
    local h = df.start(i, nil, { paused = true })
    h:settle()
    local stop = h:step(1, 'frame')
    assert.equal('step', stop.reason)
    assert.equal(2, #h:frames())
    stop = h:step(1, 'frame')
    assert.equal(3, #h:frames())
    while stop.frame ~= 'while:0/while/while' do stop = h:step() end
    assert.equal(0, stop.iteration)
    stop = h:step(2, 'iteration')
    assert.equal('while:0/while/while:2', stop.tag)
    stop = h:step(1, 'node')
    assert.is_false(stop.dead)
    h:resume()
    assert.equal(4, h:wait())
  end)

  it('stops at a breakpoint by op, iteration, frame, line, deadness, and lets it go', function()
    local i, y = counting(12)
    local h = df.start({ i, y }, nil, { paused = true })
    h:settle()
    local b = h:break_at{ op = 'mul', frame = 'while', iteration = 6 }
    h:resume()
    local stop = h:settle()
    assert.equal('break', stop.reason)
    assert.equal(b, stop.breakpoint)
    assert.equal('while:6', stop.tag)
    assert.equal('Mul', stop.op.type)
    assert.is_true(h:unbreak(b))
    local dead = h:break_at{ dead = true, frame = 'while:8' }
    h:resume()
    stop = h:settle()
    assert.is_true(stop.dead)
    assert.equal('while:8', stop.tag)
    h:unbreak(dead)
    h:break_at{ op = y.op.name }              -- the Exit of y: that of i has long fired
    h:resume()
    assert.equal('Exit', h:settle().op.type)
    h:unbreak()
    h:resume()
    assert.same({ 12, 16 }, h:wait())
  end)

  it('stops where a NaN is made, even by the last node of all', function()
    local x = df.placeholder('float32', {})
    local y = df.log(x) + 1
    local h = df.start(y, { [x] = -1 }, { paused = true })
    h:settle()
    h:break_at{ nan = true }
    h:resume()
    local stop = h:settle()
    assert.equal('Log', stop.op.type)
    h:resume()
    stop = h:settle()
    assert.equal('Add', stop.op.type)
    h:resume()
    local v = h:wait()
    assert.is_true(v ~= v)
  end)

  it('stops where a NaN is made, and not where it is brought to another device', function()
    local x = df.placeholder('float32', {})
    local y = df.device('cpu:0', function() return df.device('sim:0', function() return df.log(x) end) + 1 end)
    local h = df.Session{ devices = { 'cpu:0', 'sim:0' } }:start(y, { [x] = -1 }, { paused = true })
    h:settle()
    h:break_at{ nan = true }
    for _, kind in ipairs{ 'Log', 'Add' } do
      h:resume()
      assert.equal(kind, h:settle().op.type)
    end
    h:resume()
    local v = h:wait()
    assert.is_true(v ~= v)
  end)

  it('stops where a condition on the value holds', function()
    local i, y = counting(12)
    local h = df.start({ i, y }, nil, { paused = true })
    h:settle()
    h:break_at{ op = 'Mul', when = function(v) return v > 20 end }
    h:resume()
    assert.equal('while:4', h:settle().tag)
    assert.equal(32, h:value('while/cond/Mul_1', 'while:4'))
    h:unbreak()
    h:resume()
    assert.equal(12, h:wait()[1])
  end)

  it('refuses a breakpoint that can never be met, and one made of nonsense', function()
    local h = df.start({ counting(3) }, nil, { paused = true })
    h:settle()
    local function refused(spec, text)
      local err = support.error_of(h.break_at, h, spec)
      assert.matches(text, tostring(err))
    end
    refused({ op = 'Conv9D' }, "op 'Conv9D'")
    refused({ frame = 'nowhere' }, 'no frame `nowhere`')
    refused({ iteration = -2 }, 'whole number')
    refused({ opp = 'Mul' }, "did you mean 'op'")
    refused(nil, 'takes a table')
    h:cancel()
    pcall(h.wait, h)
  end)

  it('shows the value of a loop variable and of what was made from it, and what is dead', function()
    local h = df.start({ counting(10) }, nil, { paused = true, values = true })
    h:settle()
    h:break_at{ op = 'while/cond/Mul', iteration = 5 }
    h:resume()
    h:settle()
    assert.equal(16 * 2, h:value('while/Merge_1', 'while:5'))
    assert.is_true(h:value('while/Greater', 'while:5'))
    local v, why = h:value('while/cond/Mul', 'while:4')
    assert.is_nil(v)
    assert.equal('dead', why)
    local err = support.error_of(h.value, h, 'while/cond/Mul', 'while:99')
    assert.equal('not_found', err.code)
    h:cancel()
    pcall(h.wait, h)
  end)

  it('says why a value is what it is, why it is dead, and why it has not come', function()
    local h = df.start({ counting(10) }, nil, { paused = true, values = true })
    h:settle()
    h:break_at{ op = 'while/cond/Mul', iteration = 5 }
    h:resume()
    h:settle()
    assert.matches('^while/Greater:0 @ while:5 is true = Greater%(.* = 32, .* = 20%)', h:why('while/Greater', 'while:5'))
    assert.matches('took true, since .* > .* was 32 > 20', h:why('while/cond/Mul_1', 'while:5'))
    assert.matches('took false, since .* > .* was 16 > 20.*inspect_spec.lua', h:why('while/cond/Mul', 'while:4'))
    local text = h:whynot('while/NextIteration_1', 'while:5')
    assert.matches('waits for while/cond/Merge', text)
    assert.matches('while/cond/Mul.*ready and runs soon', text)
    assert.matches('NextIteration_1 @ while:6', h:whynot('while/Switch_1', 'while:7'))
    local err = support.error_of(h.why, h, 'while/Greater', 'wile:5')
    assert.matches("no open frame 'wile:5' %(open: '', while%)", err.message)
    h:cancel()
    pcall(h.wait, h)
  end)

  it('stops once at an iteration alone, when it begins', function()
    local _, x = df.while_loop(function(i) return i:lt(df.int32(100)) end, function(i, x) return i + 1, x * 1.5 end, { df.int32(0), df.float32(1) })
    for _, spec in ipairs{ { iteration = 3 }, { frame = 'while:3' }, { frame = 'while', iteration = 3 } } do
      local h = df.start(x, nil, { paused = true })
      local id = h:break_at(spec)
      h:resume()
      local stop = h:settle()
      assert.same({ 'break', 3, id }, { stop.reason, stop.iteration, stop.breakpoint })
      assert.is_false(h:unbreak(id))
      h:resume()
      assert.is_nil(h:settle())
      h:wait()
    end
    df.reset()
  end)

  it('has no frames, and no ledger, when it ends meanwhile; any other error is raised', function()
    local core = require 'dflow.backend'
    local h = df.start(df.float32(1) + 1, nil, { paused = true })
    h:settle()
    local look, ledger, errors = core.run_look, core.run_ledger, require 'dflow.front.errors'
    finally(function()
      core.run_look, core.run_ledger = look, ledger
      h:cancel()
      pcall(h.wait, h)
    end)
    for _, code in ipairs{ 'failed_precondition', 'internal' } do
      core.run_look = function() errors.raise(code, 'of this moment') end
      core.run_ledger = core.run_look
      for _, name in ipairs{ 'frames', 'ledger' } do
        local ok, e = pcall(h[name], h)
        assert.equal(code == 'failed_precondition', ok, name)
        if not ok then assert.same({ 'internal', 'of this moment' }, { e.code, e.message }) end
        if ok and name == 'frames' then assert.equal(0, #e) end
      end
    end
  end)

  it('steps by whole numbers, and knows which conditions a breakpoint has', function()
    local i, x = df.while_loop(function(i) return i:lt(df.int32(9)) end, function(i, x)
      return i + 1, df.cond(i:gt(4), function() return x * 0.5 end, function() return x * 2 end)
    end, { df.int32(0), df.float32(1) })
    local fetch = { i, x }
    local h = df.start(fetch, nil, { paused = true })
    h:settle()
    for _, n in ipairs{ 0, -1, 0.5, 1.5, 0 / 0, 'x', {} } do
      for _, name in ipairs{ 'step', 'history', 'back' } do
        if not (name == 'step' and n == 'x') then
          local e = support.error_of(h[name], h, n)
          assert.matches(name .. ': a whole number from 1 up', e.message, 1, true)
        end
      end
    end
    h:break_at{ nan = true }                      -- a dead token is neither
    h:break_at{ inf = true }
    h:break_at{ nan = true, inf = true }
    h:resume()
    assert.is_nil(h:settle())
    h:wait()
    h = df.start(fetch, nil, { paused = true })
    h:settle()
    h:break_at{ dead = true }
    h:resume()
    assert.is_true(h:settle().dead)
    h:cancel()
    pcall(h.wait, h)
  end)

  it('knows frames by their numbers alone', function()
    local _, x = df.while_loop(function(i) return i:lt(df.int32(9)) end, function(i, x) return i + 1, x * 1.5 end, { df.int32(0), df.float32(1) })
    local h = df.start(x, nil, { paused = true })
    h:break_at{ iteration = 2 }
    h:resume()
    h:settle()
    local frames = h:frames()
    assert.is_nil(frames.by_id.name)
    assert.is_nil(frames.by_id[true])
    assert.is_nil(frames.by_id[99])
    h:resume()
    h:wait()
    df.reset()
  end)

  it('lists TensorArrays and saved values with their depth and bytes', function()
    local x = df.placeholder('float32', {})
    local _, y = df.while_loop(function(i) return i:lt(df.int32(100)) end, function(i, y) return i + 1, df.sin(y * x) end, { df.int32(0), df.float32(1) })
    local h = df.start(df.gradients(y, x), { [x] = 0.5 }, { paused = true })
    h:settle()
    h:break_at{ op = 'Sin', iteration = 50 }
    h:resume()
    h:settle()
    local found
    for _, s in ipairs(h:stacks()) do if s.saved then found = s end end
    assert.is_truthy(found)
    assert.is_true(found.depth >= 40 and found.depth <= 60)
    assert.is_true(found.bytes > 0)
    h:unbreak()
    h:resume()
    h:wait()
  end)

  ordered_it('counts of what is saved the bytes that the graph says, numbers, rows and tensors of several sizes alike', function()
    for _, shape in ipairs{ {}, { 1 }, { 3 }, { 3, 3 }, { 40, 50 } } do
      df.reset()
      local x = df.Variable(df.fill(shape, df.float32(0.5)))
      local _, y = df.while_loop(function(i) return i:lt(100) end, function(i, y) return i + 1, df.erf(y * x) end,
                                 { df.int32(0), df.ones(shape) })
      local slope = df.gradients(y, x)
      local a_trip, expected = df.saved(slope)[1].bytes, 0
      local h = df.start(slope, nil, { paused = true })
      h:settle()
      h:break_at{ op = 'Erf', iteration = 60 }
      h:resume()
      h:settle()
      local found, values = 0, 0
      for _, s in ipairs(h:stacks()) do
        if s.saved then
          found, values = found + s.bytes, values + 1
          local size = 4
          for _, d in ipairs(shape) do size = size * d end
          expected = expected + s.depth * size
        end
      end
      assert.is_true(values > 0)
      assert.equal(expected, found)
      assert.is_true(math.abs(found - 60 * a_trip) <= a_trip, ('%d bytes, %d a trip'):format(found, a_trip))
      h:cancel()
      pcall(h.wait, h)
    end
  end)

  ordered_it('computes bit for bit the same whether it is looked at or not', function()
    for seed = 1, 60 do
      df.reset()
      local program = random_program.make(seed, 3)
      local y, xs = random_program.build(df, program)
      local grads = df.gradients(y, xs, { unconnected = 'zero' })
      local fetches = { y, grads[1], grads[2], grads[3] }
      local feeds = { [xs[1]] = 0.7, [xs[2]] = -0.4, [xs[3]] = 0.3 }
      local expected = df.run(fetches, feeds)
      local h = df.start(fetches, feeds, { paused = true, values = seed % 2 == 0 })
      h:settle()
      local n, most = 0, 0
      local stop = true
      while stop and n < 400 do
        most = math.max(most, balance(h))
        stop = h:step(1 + (seed * 7 + n * 13) % 29)
        n = n + 1
      end
      h:resume()
      assert.same(expected, h:wait())
    end
  end)
end)
