--- Several owners turn the partitions of one run: what they compute, how they end, how far apart they are.
local df = require 'dflow'
local support = require 'spec.support'
local ordered_it = support.ordered_it(it, pending)

local over_ranks = (os.getenv 'DFLOW_STRESS' or ''):find 'ranks:' ~= nil
-- A test of the owners of one process: how they are dealt out, or what one of them turns where ranks are refused.
local one_process_it = over_ranks and pending or ordered_it

local TWO = { 'cpu:0', 'sim:0', 'sim:1' }

--- Every number of a run, as exactly as it is.
local function bits(v)
  local out = {}
  for i, e in ipairs(type(v) == 'table' and not getmetatable(v) and v or { v }) do
    out[i] = type(e) == 'number' and ('%.17g'):format(e) or tostring(e)
  end
  return table.concat(out, ' ')
end

--- The same fetches in a session of each number of owners: what each made, and its stats.
local function by_owners(fetches, feeds, devices, more)
  local results, stats = {}, {}
  for owners = 1, 3 do
    local options = { devices = devices or TWO, owners = owners }
    for k, v in pairs(more or {}) do options[k] = v end
    local s = df.Session(options)
    for run = 1, 2 do results[owners] = (run > 1 and results[owners] .. '\n' or '') .. bits(s:run(fetches, feeds)) end
    stats[owners] = s:stats()
    s:close()
  end
  return results, stats
end

--- So many owners turned a run, where the environment does not say how many there are and on which devices.
local function turned_by(n, stats)
  local stress = os.getenv 'DFLOW_STRESS' or ''
  if over_ranks then assert.is_true(#stats.owners >= 2)
  elseif not stress:find 'devices:' then assert.equal(n, #stats.owners, stats.owners.why) end
end

--- All of `owners` turned something, and the results are one owner's.
local function alike(results, stats)
  for owners = 2, 3 do
    assert.equal(results[1], results[owners])
    turned_by(owners, stats[owners])
    for _, o in ipairs(stats[owners].owners) do assert.is_true(o.nodes_run > 0) end
  end
end

--- x goes round through sim:0 and sim:1, n times.
local function ring(n, opts)
  local _, x = df.while_loop(function(i) return i:lt(n) end, function(i, x)
    local y = df.device('sim:0', function() return x * 0.5 + 1 end)
    return i + 1, df.device('sim:1', function() return df.tanh(y) + x end)
  end, { df.int32(0), df.float32(1) }, opts)
  return x
end

--- Another one in its body, on both devices, and a sum on one of them.
local function nested(n)
  local _, x, total = df.while_loop(function(i) return i:lt(n) end, function(i, x, total)
    local y = df.device('sim:0', function() return x * 0.5 + 1 end)
    local _, w = df.while_loop(function(k) return k:lt(3) end, function(k, w)
      return k + 1, df.device('sim:1', function() return df.tanh(w) end)
    end, { df.int32(0), y }, { name = 'inner' })
    return i + 1, df.device('sim:1', function() return w + x * 0.1 end), total + df.device('sim:0', function() return x end)
  end, { df.int32(0), df.float32(1), df.float32(0) }, { name = 'outer' })
  return { x, total }
end

describe('owners', function()
  ordered_it('turn a loop over their devices, each of them some, with the bits and the counts of one', function()
    local results, stats = by_owners(ring(50))
    alike(results, stats)
    for owners = 2, 3 do
      assert.equal(100, stats[owners].iterations)
      assert.equal(2, stats[owners].frames)
      assert.equal(2, stats[owners].runs)
    end
    -- two owners need no control loop: what crosses is what crosses for one
    assert.same(stats[1].transfers, stats[2].transfers)
    assert.equal(stats[1].nodes_run, stats[2].nodes_run)
    assert.equal(stats[1].dead_tokens, stats[2].dead_tokens)
  end)

  it('do so whatever the window', function()
    for _, window in ipairs{ 1, 2, 32 } do
      df.reset()
      alike(by_owners(ring(40, { parallel_iterations = window })))
    end
  end)

  --- Two devices that nothing but the counter holds together, and a loop inside; what the frames of it say wherever it is stopped.
  local function apart(window)
    df.reset()
    local _, a, b = df.while_loop(function(i) return i:lt(60) end, function(i, a, b)
      local u = df.device('sim:0', function() return (a * 1.01):tanh() end)
      local _, w = df.while_loop(function(k) return k:lt(2) end, function(k, w)
        return k + 1, df.device('sim:1', function() return df.sin(w) + 0.5 end)
      end, { df.int32(0), b }, { name = 'inner' })
      return i + 1, u, w
    end, { df.int32(0), df.float32(1), df.float32(2) }, { name = 'loop', parallel_iterations = window })
    local x = df.placeholder('bool', {})
    local fetches = { df.cond(x, function() return a * 1 end, function() return b * 1 end), a + b }
    local s = df.Session{ devices = TWO, owners = 3 }
    local right = bits(df.Session{ devices = { 'cpu:0' }, soft_placement = true }:run(fetches, { [x] = true }))
    local h = s:start(fetches, { [x] = true }, { paused = true })
    local most, texts = 0, {}
    while h:state() ~= 'done' do
      h:step(3)
      if h:state() == 'done' then break end
      h:ledger()
      for _, f in ipairs(h:frames()) do
        if f.name == 'loop' then
          most = math.max(most, f.in_flight)
          if window == 1 and f.in_flight == 2 then             -- what is left of the older one is that its end is told
            local older = f.iterations[1]
            assert.same({ 0, 0 }, { older.partial, #older.children })
          end
          texts[#texts + 1] = tostring(f)
        end
      end
    end
    assert.equal(right, bits(h:wait()))
    turned_by(3, h:stats())
    s:close()
    return most, table.concat(texts, '\n')
  end

  it('begin an iteration after the last has ended on all devices, where the window is 1', function()
    local most, texts = apart(1)
    assert.is_true(most <= 2, most)
    assert.matches('in flight %(1 of 1%)', texts)
  end)

  it('do not have more iterations open than the window on any device, together perhaps: which is said', function()
    local most, texts = apart(2)
    assert.is_true(most <= 6, most)
    for open, limit in texts:gmatch 'in flight %((%d+) of (%d+)%)' do assert.is_true(tonumber(open) <= tonumber(limit)) end
    if most > 2 then assert.matches('in flight %(%d; 2 at most on each device%)', texts) end
  end)

  it('take part in a loop of which they have no variable, and in loops and conds within', function()
    local x = df.placeholder('float32', {})
    local _, y = df.while_loop(function(i) return i:lt(7) end, function(i, y)
      local _, inner = df.while_loop(function(k) return k:le(i) end, function(k, z)
        return k + 1, df.device('sim:1', function() return z * 1.125 end) - df.device('sim:0', function() return df.sin(z) end)
      end, { df.int32(0), y })
      return i + 1, df.cond(inner:gt(0), function() return df.device('sim:0', function() return inner * 0.5 end) end,
        function() return df.device('sim:1', function() return 1 - inner end) end)
    end, { df.int32(0), x })
    for _, at in ipairs{ 0.3, -2, 5 } do alike(by_owners({ y, df.gradients(y, { x })[1] }, { [x] = at })) end
  end)

  ordered_it('say once that values are dead together, and once for each condition', function()
    local p, q, n = df.placeholder('bool', {}), df.placeholder('bool', {}), df.placeholder('int32', {})
    local xs = {}
    for k = 1, 20 do xs[k] = df.placeholder('float64', {}) end
    local function all(device, fn)
      local out = {}
      for k, x in ipairs(xs) do out[k] = df.device(device, function() return fn(x) end) end
      return out
    end
    --- The values of a branch on sim:0, half of them of a branch within it.
    local function branches(x)
      return df.cond(p, function()
        local outer = all('sim:0', function(e) return df.sin(e) * x end)
        return df.stack{ df.add_n(outer), df.cond(q, function() return df.add_n(all('sim:0', df.cos)) end, function() return x end) }
      end, function() return df.stack{ x, x } end)
    end
    local _, looped = df.while_loop(function(i) return i:lt(n) end, function(i, a) return i + 1, a + branches(df.cast(i, 'float64')) end,
      { df.int32(0), df.constant({ 0.0, 0 }, 'float64') })
    local feeds = { [n] = 3 }
    for k, x in ipairs(xs) do feeds[x] = k end
    for owners = 1, 2 do
      for _, given in ipairs{ { false, false }, { true, false }, { true, true } } do
        feeds[p], feeds[q] = given[1], given[2]
        local s, host = df.Session{ devices = { 'cpu:0', 'sim:0' }, owners = owners }, df.Session{ soft_placement = true }
        assert.equal(bits(host:run(looped, feeds)), bits(s:run(looped, feeds)))
        local there = s:stats().transfers['cpu:0 -> sim:0']
        -- four conditions in each of four iterations: either branch, of what is fed and of what the loop makes
        assert.is_true(there.dead <= 4 * 4, ('%d messages say that something is dead'):format(there.dead))
        if not given[1] then assert.is_true(there.dead >= 3) end
        s:close()
        host:close()
      end
    end
  end)

  it('end a loop that a branch not taken holds, on every device', function()
    local x = df.placeholder('float32', {})
    local y = df.cond(x:gt(0), function() return ring(5) * x end, function() return df.device('sim:1', function() return x - 1 end) end)
    for _, at in ipairs{ 1, -1 } do
      local results = by_owners(y, { [x] = at })
      assert.equal(results[1], results[2])
      assert.equal(results[1], results[3])
    end
  end)

  it('draw the same random numbers', function()
    local _, total = df.while_loop(function(i) return i:lt(20) end, function(i, t)
      return i + 1, t + df.device('sim:0', function() return df.random_uniform({}, { seed = 7 }) end)
                      * df.device('sim:1', function() return df.random_normal({}, { seed = 3 }) end)
    end, { df.int32(0), df.float32(0) })
    alike(by_owners(total))
  end)

  it('serve variables, queues and arrays on one device each', function()
    local v = df.device('sim:0', function() return df.Variable(1.0) end)
    local before = v * 1
    local rows = df.device('sim:1', function() return df.TensorArray('float32', 30) end)
    local _, filled = df.while_loop(function(i) return i:lt(30) end, function(i, ta)
      local value = df.device('sim:0', function() return i:cast('float32') * before end)
      return i + 1, ta:write(i, value)
    end, { df.int32(0), rows })
    local sum = df.reduce_sum(filled:stack())
    local after = v:assign_add(sum * 0.001)
    local results = by_owners{ before, sum, after }
    assert.equal(results[1], results[2])
    assert.equal(results[1], results[3])
  end)

  it('take as long over a link as it says', function()
    local far = { 'cpu:0', { 'sim:0', latency = '200us' }, 'sim:1' }
    local results, stats = by_owners(ring(10), nil, far)
    alike(results, stats)
    for owners = 1, 3 do assert.is_true(stats[owners].seconds >= 2 * 10 * 2 * 200e-6) end
  end)

  it('end together when one fails, with its error, release everything, and are of use afterwards', function()
    local x = df.placeholder('float32', { -1 })
    local _, y = df.while_loop(function(i) return i:lt(30) end, function(i, y)
      local a = df.device('sim:0', function() return y + 1 end)
      local b = df.device('sim:1', function() return df.reshape(a, { 2, -1 }) end)
      return i + 1, df.device('sim:1', function() return df.reshape(b, { -1 }) end)
    end, { df.int32(0), x })
    for owners = 1, 3 do
      local s = df.Session{ devices = TWO, owners = owners }
      for _ = 1, 20 do
        local err = support.error_of(s.run, s, y, { [x] = { 1, 2, 3 } })
        assert.equal('Reshape', tostring(err.op):match '%((.-)%)')
        assert.matches(':0$', err.frame)
        assert.equal(33, s:run(y, { [x] = { 4, 3, 2, 1 } }):at(1))
      end
      for name, m in pairs(s:stats().memory) do if name ~= 'cpu:0' then assert.equal(0, m.in_use) end end
      s:close()
    end
  end)

  it('end at the timeout, and when they are told to', function()
    local forever = ring(2 ^ 30)
    for owners = 1, 3 do
      local s = df.Session{ devices = TWO, owners = owners }
      local err = support.error_of(s.run, s, forever, nil, { timeout = 0.05 })
      assert.equal('deadline_exceeded', err.code)
      s:close()
    end
  end)

  it('say what waits for what when none of them can move', function()
    local q = df.FIFOQueue(4, { 'float32' })
    local x = df.placeholder('float32', {})
    local y = df.device('sim:1', function() return q:dequeue() + 1 end) + df.device('sim:0', function() return x * 2 end)
    for owners = 1, 3 do
      local s = df.Session{ devices = TWO, owners = owners }
      local err = support.error_of(s.run, s, y, { [x] = 1 })
      assert.matches('nothing can move', tostring(err))
      s:close()
    end
  end)

  it('say so, too, when the host has done its part and the others wait', function()
    local q = df.device('sim:1', function() return df.FIFOQueue(4, { 'float32' }) end)
    local taken = df.device('sim:1', function() return df.group(q:dequeue()) end)
    for owners = 1, 3 do
      local s = df.Session{ devices = TWO, owners = owners }
      local err = support.error_of(s.run, s, taken)
      assert.matches('nothing can move.*waits for 1 element', tostring(err))
      assert.equal('QueueDequeueV2', tostring(err.op):match '%((.-)%)')
      s:run(q:enqueue(1.0))
      s:run(taken)
      s:close()
    end
  end)

  it('leave functions of the program to the first of them, which calls them at once', function()
    local calls = 0
    local function half(v) calls = calls + 1 return v * 0.5 end
    local function called(v) return df.lua_func(half, { v }, { 'float32' }, { shapes = { {} } }) end
    local _, x = df.while_loop(function(i) return i:lt(50) end, function(i, x)
      local y = df.device('sim:0', function() return x + 1 end)
      return i + 1, df.device('sim:1', function() return called(y) end)
    end, { df.int32(0), df.float32(1) })
    local body = df.func('called', { 'float32' }, called)
    local far = df.device('sim:1', function() return body(x) + 1 end)
    for owners = 1, 3 do
      local s = df.Session{ devices = TWO, owners = owners }
      calls = 0
      assert.equal(1, s:run(x))
      assert.equal(50, calls)
      turned_by(math.min(owners, 2), s:stats())
      assert.equal(1.5, s:run(far))
      s:close()
    end
  end)

  it('turn a graph where the host alone calls functions of the program', function()
    local _, x = df.while_loop(function(i) return i:lt(50) end, function(i, x)
      local y = df.device('cpu:0', function() return df.lua_func(function(v) return v * 0.5 end, { x }, { 'float32' }, { shapes = { {} } }) end)
      return i + 1, df.device('sim:1', function() return df.device('sim:0', function() return y + 1 end) - 0.5 end)
    end, { df.int32(0), df.float32(3) })
    alike(by_owners(x))
  end)

  it('are no further apart than the windows let them, so that messages do not pile up', function()
    local width, n = 4096, 4000
    local row = df.device('sim:0', function() return df.ones{ width } end)
    local _, _, total = df.while_loop(function(i) return i:lt(n) end, function(i, a, t)
      local next_a = df.device('sim:0', function() return a * 1 end)
      return i + 1, next_a, df.device('sim:1', function() return t + df.reduce_sum(df.tanh(df.tanh(a))) * 0 + 1 end)
    end, { df.int32(0), row, df.float32(0) }, { parallel_iterations = 4 })
    local s = df.Session{ devices = TWO, owners = 3 }
    collectgarbage() collectgarbage()                             -- what tests before this one have left is not the run's
    df.reset_peak_memory()
    local before = s:stats().memory
    assert.equal(n, s:run(total))
    for name, m in pairs(s:stats().memory) do
      local held = m.peak - (before[name] and before[name].in_use or 0)
      assert.is_true(held < 200 * width * 4, name .. ' held ' .. held)
    end
    turned_by(3, s:stats())
    s:close()
  end)

  ordered_it('wait for each other where what one has sent fills its memory, as one owner would', function()
    local width = 65536
    local row = df.device('sim:0', function() return df.ones{ width } end)
    local _, _, total = df.while_loop(function(i) return i:lt(100) end, function(i, a, t)
      local made = df.device('sim:0', function() return df.tanh(a) + 1 end)
      return i + 1, made, df.device('sim:1', function()
        local z = made
        for _ = 1, 8 do z = df.tanh(df.sin(z)) end
        return t + df.reduce_sum(z) * 0 + 1
      end)
    end, { df.int32(0), row, df.float32(0) }, { parallel_iterations = 32 })
    for owners = 1, 3 do
      local s = df.Session{ devices = { 'cpu:0', { 'sim:0', memory = '3MB' }, { 'sim:1', memory = '3MB' } }, owners = owners }
      assert.equal(100, s:run(total))
      turned_by(owners, s:stats())
      s:close()
    end
  end)

  one_process_it('are told of by the placement, and so is why one turns it all', function()
    local x = ring(3)
    local function told(options, fetch)
      options.devices, options.owners = options.devices or TWO, options.owners or 2
      local s = df.Session(options)
      local list = s:placement(fetch or x)
      s:run(fetch or x)
      local stats = s:stats()
      s:close()
      return list, stats.owners.why
    end
    local list, why = told{}
    assert.same({ ['cpu:0'] = 1, ['sim:0'] = 1, ['sim:1'] = 2 }, list.owners)
    assert.is_nil(list.one_owner)
    assert.is_nil(why)
    local timed, one = told{ clock = 'virtual_owners' }
    assert.same(list.owners, timed.owners)
    assert.matches('the virtual clock', one)
    list = told{ owners = 1 }
    assert.is_nil(list.owners or list.one_owner)
    list, why = told{ clock = 'virtual' }
    assert.is_nil(list.owners)
    assert.matches('the virtual clock', list.one_owner)
    assert.equal(list.one_owner, why)
    list, why = told({}, df.tanh(df.float32(2)))
    assert.matches('on one device', list.one_owner)
    assert.equal(list.one_owner, why)
  end)

  it('run iterations a second time, each its own part, with the values that the others sent the first time', function()
    local row = {}
    for i = 1, 144 do row[i] = math.sin(i) / 4 end
    local x = df.reshape(df.constant(row), { 12, 12 })
    local function on(k, fn) return df.device('sim:' .. k, fn) end
    local _, y, z = df.while_loop(function(i) return i:lt(20) end, function(i, y, z)
      local a = on(0, function() return (y:matmul(x) + df.random_uniform{ 12, 12 }):tanh() end)
      local b = df.cond((i % 3):eq(0), function() return on(1, function() return a:sin() + z end) end, function() return on(0, function() return a * y end) end)
      local _, c = df.while_loop(function(j) return j:lt(i % 4) end, function(j, c) return j + 1, on(1, function() return (c * b):sin() end) end, { df.int32(0), z })
      return i + 1, b, on(1, function() return c:tanh() + a end)
    end, { df.int32(0), x, x * 0.5 })
    local fetches = { y:reduce_sum(), (df.gradients(y:reduce_sum() + z:reduce_sum(), x)):reduce_sum() }
    df.set_random_seed(3)
    local kept = by_owners(fetches)
    for _, save in ipairs{ 'recompute', 'auto' } do
      local again, stats = by_owners(fetches, nil, nil, { save = save })
      for owners = 1, 3 do
        assert.equal(kept[1], again[owners])
        turned_by(owners, stats[owners])
        assert.equal(save == 'recompute', stats[owners].iterations_again > 0)
      end
    end
  end)

  it('run iterations a second time in a quarter of the memory that the values take that are saved', function()
    local x = df.placeholder('float32', { 32, 32 })
    local _, y = df.while_loop(function(i) return i:lt(60) end, function(i, y)
      return i + 1, df.device('sim:0', function() return (y:matmul(x) + df.cast(i, 'float32') * 0.01):tanh() end)
    end, { df.int32(0), x })
    local g, row = df.gradients(y:reduce_sum(), x), {}
    for i = 1, 1024 do row[i] = math.sin(i) / 8 end
    local feeds, whole = { [x] = df.tensor(row, 'float32', { 32, 32 }) }, nil
    for owners = 1, 2 do
      for _, save in ipairs{ 'keep', 'recompute', 'auto' } do
        local s = df.Session{ save = save, owners = owners, devices = { 'cpu:0', { 'sim:0', memory = save ~= 'keep' and 60 * 4096 or nil, bandwidth = '100MB/s' } } }
        local found = s:run(g, feeds):totable()
        whole = whole or found
        assert.same(whole, found)
        local stats = s:stats()
        assert.equal(save ~= 'keep', stats.iterations_again > 0)
        if save ~= 'keep' then assert.equal('recompute', stats.saved[1].save) end
        s:close()
      end
    end
  end)

  it('turn a run in the background, too, and one that is logged, keeps its values or is to be timed again', function()
    local x = ring(30)
    local s = df.Session{ devices = TWO, owners = 3 }
    local h = s:start(x)
    local value = bits(h:wait())
    assert.equal(bits(s:run(x)), value)
    turned_by(3, h:stats())
    assert.equal(30, h:stats().iterations)
    for _, option in ipairs{ 'log', 'values', not over_ranks and 'record' or nil } do
      local r = s:start(x, nil, { [option] = true })
      assert.equal(value, bits(r:wait()))
      turned_by(3, r:stats())
    end
    s:close()
  end)

  --- A value goes from device to device, within an iteration and from one to the next; in the other loop within one alone.
  local function at(device, fn) return df.device(device, fn) end
  local function wide(window, n, x)
    x = x or df.ones{ 64, 64 } * 0.01
    local _, y = df.while_loop(function(i) return at('cpu:0', function() return i:lt(n or 20) end) end, function(i, y)
      local a = at('sim:0', function() return y:matmul(x):tanh() end)
      return at('cpu:0', function() return i + 1 end), at('sim:1', function() return (a:matmul(x) + y):tanh() end)
    end, { df.int32(0), x }, { parallel_iterations = window })
    return y
  end
  local function pipeline(window)
    local _, y, z = df.while_loop(function(i) return at('cpu:0', function() return i:lt(20) end) end, function(i)
      local a = at('sim:0', function() return df.cast(i, 'float32') + 1 end)
      return at('cpu:0', function() return i + 1 end), at('sim:0', function() return a * 2 end), at('sim:1', function() return a:tanh() end)
    end, { df.int32(0), df.float32(0), df.float32(0) }, { parallel_iterations = window })
    return { y, z }
  end

  --- Values go from device to device, and each enters a loop when it is there; in the loop each may go on to the next device.
  local function staggered(window, hop)
    local function on(d, fn) return at(({ 'sim:0', 'sim:1', 'cpu:0' })[d % 3 + 1], fn) end
    local _, y = df.while_loop(function(i) return at('sim:0', function() return i:lt(6) end) end, function(i, y)
      local w = {}
      for d = 1, 3 do w[d] = on(d, function() return (w[d - 1] or y[d]) * 0.5 + 1 end) end
      local _, v = df.while_loop(function(j) return at('sim:1', function() return j:lt(2) end) end, function(j, v)
        local next_of = {}
        for d = 1, 3 do next_of[d] = on(d, function() return v[hop and d % 3 + 1 or d]:tanh() end) end
        return at('sim:1', function() return j + 1 end), next_of
      end, { df.int32(0), w }, { parallel_iterations = window })
      return at('sim:0', function() return i + 1 end), v
    end, { df.int32(0), { df.float32(0), df.float32(1), df.float32(2) } }, { parallel_iterations = window })
    return y
  end

  one_process_it('are timed by the virtual clock, each with a window of its own, as what-if says of a run that they have recorded', function()
    local seconds = {}
    for name, fetches in pairs{ ring = ring(40), wide = wide(32), serial = wide(1, 10), pipeline4 = pipeline(4), pipeline2 = pipeline(2), pipeline1 = pipeline(1),
      staggered = staggered(32), hop = staggered(32, true) } do
      for owners = 1, 3 do
        local run = {}
        for _, clock in ipairs{ 'real', 'virtual_owners' } do
          local s = df.Session{ owners = owners, clock = clock, devices = { 'cpu:0', { 'sim:0', latency = '20us', bandwidth = '1GB/s' }, { 'sim:1', latency = '10us' } } }
          run[clock] = s:start(fetches, nil, { record = true })
          run[clock]:wait()
        end
        if owners > 1 then turned_by(owners, run.real:stats()) end
        seconds[name .. owners] = run.virtual_owners:stats().seconds
        assert.is_true(math.abs(run.virtual_owners:whatif().seconds / seconds[name .. owners] - 1) < 1e-9)
        for _, change in ipairs{ {}, { bandwidth = '100MB/s' }, { latency = '200us' }, { speed = 0.1 }, { parallel_iterations = 2 } } do
          local recorded, timed, steps = run.real:whatif(change), run.virtual_owners:whatif(change).seconds, 0
          for _, step in ipairs(recorded.critical_path) do steps = steps + step.seconds end
          assert.is_true(steps <= recorded.seconds * (1 + 1e-6) and steps > recorded.seconds * 0.8)
          -- of loops in loops, real owners record now one order of what is ready at once, now another
          assert.is_true(math.abs(timed / recorded.seconds - 1) < ((name == 'staggered' or name == 'hop') and 0.05 or 0.01),
            ('%s by %d owners, %s: %g s by the virtual clock, %g recorded by them'):format(name, owners, next(change), timed, recorded.seconds))
        end
      end
    end
    assert.is_true(seconds.pipeline23 < seconds.pipeline21 * 0.95)     -- the first device need not wait for the last one
    assert.is_true(seconds.serial3 > seconds.serial1 * 1.05)
  end)

  one_process_it('are timed alike in the run and by what-if where iterations run a second time, too', function()
    local devices = { 'cpu:0', { 'sim:0', latency = '20us', bandwidth = '1GB/s' }, { 'sim:1', latency = '10us' } }
    local x = df.ones{ 64, 64 } * 0.01
    local function mixed(window)                            -- as wide, with a loop inside
      local _, y = df.while_loop(function(i) return at('cpu:0', function() return i:lt(9) end) end, function(i, y)
        local _, a = df.while_loop(function(j) return at('cpu:0', function() return j:lt(2) end) end, function(j, a)
          return at('cpu:0', function() return j + 1 end), at('sim:0', function() return a:matmul(x):tanh() end)
        end, { df.int32(0), y })
        return at('cpu:0', function() return i + 1 end), at('sim:1', function() return (a:matmul(x) + y):tanh() end)
      end, { df.int32(0), x }, { parallel_iterations = window })
      return y
    end
    for name, y in pairs{ wide = wide(32, 12, x), narrow = wide(4, 12, x), serial = wide(1, 12, x), nested = mixed(32), nested1 = mixed(1) } do
      local fetches, seconds = { y:reduce_sum(), df.gradients(y:reduce_sum(), x):reduce_sum() }, {}
      for owners = 1, 3 do
        for _, save in ipairs{ 'keep', 'swap', 'recompute' } do
          local s = df.Session{ owners = owners, clock = 'virtual_owners', save = save, devices = devices }
          local h = s:start(fetches, nil, { record = true })
          h:wait()
          assert.equal(save == 'recompute', h:stats().iterations_again > 0)
          seconds[save] = h:stats().seconds
          assert(math.abs(h:whatif().seconds / seconds[save] - 1) < 1e-9,
            ('%s by %d owners, %s: %g s, and %g timed again'):format(name, owners, save, seconds[save], h:whatif().seconds))
          s:close()
        end
        assert.is_true(seconds.recompute > 1.1 * seconds.keep)
      end
    end
  end)

  one_process_it('keep loops to their windows by the virtual clock where nothing is sent between them, too', function()
    local function loop(device, window)
      return df.device(device, function()
        local _, y = df.while_loop(function(i) return i:lt(20) end, function(i, y)
          return i + 1, y:matmul(y):matmul(y):matmul(y):matmul(y):tanh()       -- i runs ahead as far as it may
        end, { df.int32(0), df.ones{ 64, 64 } * 0.01 }, { parallel_iterations = window })
        return y.op
      end)
    end
    local s = df.Session{ devices = TWO, owners = 3, clock = 'virtual_owners' }
    local h, most = s:start({ loop('sim:0', 2), loop('sim:1', 3) }, nil, { paused = true }), {}
    while h:state() ~= 'done' do
      h:step(1)
      if h:state() == 'done' then break end
      for _, f in ipairs(h:frames()) do most[f.name] = math.max(most[f.name] or 0, f.in_flight) end
    end
    h:wait()
    assert.is_nil(next(h:stats().transfers))
    assert.same({ 2, 3 }, { most['while'], most.while_1 } )
    s:close()
  end)

  one_process_it('record loops in loops, too, of which a part may be ahead of what one owner would let it', function()
    local seconds = {}
    for owners = 1, 3 do
      local s = df.Session{ owners = owners, devices = { 'cpu:0', { 'sim:0', latency = '20us' }, { 'sim:1', latency = '10us' } } }
      local h = s:start(nested(12), nil, { record = true })
      h:wait()
      local timeline = h:whatif{ timeline = true }.timeline
      local loops, last = {}, 0
      for _, e in ipairs(timeline) do
        loops[e.frame] = e.kind == 'work' or loops[e.frame]          -- one that is dead has messages
        assert.is_true(e.begins >= last)
        last = e.begins
      end
      local frames = 0
      for _ in pairs(loops) do frames = frames + 1 end
      assert.equal(13, frames)                            -- the outer one, and 12 inner ones, each of them once
      seconds[owners] = h:whatif().seconds
      s:close()
    end
    for owners = 2, 3 do assert.is_true(seconds[owners] <= seconds[1] * 1.02 and seconds[owners] > seconds[1] * 0.5) end
  end)

  it('leave a function to its caller, whatever devices its body is on, and what is sent within', function()
    local f
    f = df.func('f', { 'float32', 'int32' }, function(a, n)     -- first called on sim:0, where its tapes are, then
      return df.cond(n:le(0), function() return a end, function()
        local b = df.device('sim:0', function() return df.tanh(a) + 0.5 end)
        return f(df.device('sim:1', function() return b * a end), n - 1)
      end)
    end, { returns = { 'float32' } })
    local x = df.placeholder('float32', {})
    local _, y = df.while_loop(function(i) return i:lt(9) end, function(i, y)
      local u = df.device('sim:0', function() return f(y, i % 3) end)
      return i + 1, df.device('sim:1', function() return f(u * 0.5, df.int32(2)) * 0.75 end)
    end, { df.int32(0), x })
    local z = df.device('sim:2', function() return df.sin(x) + y end)
    for n, fetches in ipairs{ { y, z }, { y, z, df.gradients(y, x) } } do       -- whose calls' tapes are on sim:1, too
      local results, stats = by_owners(fetches, { [x] = 0.3 }, { 'cpu:0', 'sim:0', 'sim:1', 'sim:2' })
      for owners = 2, 3 do
        assert.equal(results[1], results[owners])
        turned_by(math.min(owners, 4 - n), stats[owners])
        for _, o in ipairs(stats[owners].owners) do assert.is_true(o.nodes_run > 0) end
      end
    end
  end)

  it('call a function of the program where it is placed, from the first of them', function()
    local calls = 0
    local function twice(v) calls = calls + 1 return v * 2 end
    local g = df.func('g', { 'float32' }, function(a)
      return df.device('sim:0', function() return df.lua_func(twice, { a }, { 'float32' }) end)
    end, { returns = { 'float32' } })
    for _, call in ipairs{ function(v) return df.lua_func(twice, { v }, { 'float32' }) end, g } do
      local _, x, z = df.while_loop(function(i) return i:lt(10) end, function(i, x, z)
        local y = df.device('sim:1', function() return call(x * 0.25) end)
        y:set_shape{}
        return i + 1, y, df.device('sim:0', function() return df.sin(z) + y end)
      end, { df.int32(0), df.float32(1), df.float32(0.5) })
      local expected
      for owners = 1, 3 do
        local s = df.Session{ devices = TWO, owners = owners }
        calls = 0
        local found = bits(s:run{ x, z })
        assert.equal(10, calls)
        expected = expected or found
        assert.equal(expected, found)
        assert.equal(expected, bits(s:start({ x, z }):wait()))
        turned_by(math.min(owners, 2), s:stats())
        s:close()
      end
    end
  end)

  --- What a run logged: its tokens by node and tag, in no order; how many frames it opened and ended; messages and their arrivals.
  local function logged(h)
    local events, enums = require 'dflow.inspect.events', require 'dflow.backend.enums'
    local names, list, frames, last, kinds = events.names(h), {}, {}, 0, { sent = 0, came = 0, opened = 0, ended = 0 }
    events.each(h, function(at, took, iteration, _, node, frame, scope, kind, dead, device)
      assert.is_true(at >= last and took >= 0)
      last = at
      if kind == enums.DF_EVENT_FRAME_OPEN then
        assert.is_nil(frames[frame])
        frames[frame], kinds.opened = 'open', kinds.opened + 1
        names.open(frame, node, iteration, scope)
      elseif kind == enums.DF_EVENT_FRAME_END then
        assert.equal('open', frames[frame])
        frames[frame], kinds.ended = 'over', kinds.ended + 1
      else
        assert.is_true(frame == 0 or frames[frame] == 'open', 'a token of a frame that is not open')
        if kind == enums.DF_EVENT_DONE then kinds.came = kinds.came + (device < 0 and 1 or 0)
        else
          kinds.sent = kinds.sent + (device < 0 and 1 or 0)
          list[#list + 1] = ('%s %s %s %d'):format(names.node(node).name, names.tag(frame, iteration), dead, device)
        end
      end
    end)
    table.sort(list)
    return list, kinds
  end

  it('write one log of what they do, in the order of time, with the tokens, the frames and the messages of one owner', function()
    local fetches, tokens, kinds = nested(30), {}, {}
    fetches[3] = ring(30)
    for owners = 1, 3 do
      local s = df.Session{ devices = TWO, owners = owners }
      local h = s:start(fetches, nil, { log = true })
      h:wait()
      tokens[owners], kinds[owners] = logged(h)
      assert.equal(kinds[owners].opened, kinds[owners].ended)
      assert.equal(kinds[1].opened, kinds[owners].opened)
      if owners > 1 then
        turned_by(owners, h:stats())
        assert.is_true(kinds[owners].came > 50 and kinds[owners].came <= kinds[owners].sent)
      end
      s:close()
    end
    local function of_ring(list)
      local some = {}
      for _, t in ipairs(list) do if t:find '^while/' then some[#some + 1] = t end end
      return table.concat(some, '\n')
    end
    assert.equal(of_ring(tokens[1]), of_ring(tokens[2]))     -- two owners need no control loop for that one
  end)

  it('have one number for the frame of a function in their log, which is opened and ended', function()
    local f
    f = df.func('f', { 'float32', 'int32' }, function(a, n)
      return df.cond(n:le(0), function() return a end, function() return f(df.tanh(a) + 0.5, n - 1) end)
    end, { returns = { 'float32' } })
    local _, x = df.while_loop(function(i) return i:lt(6) end, function(i, x)
      local u = df.device('sim:0', function() return f(x, df.int32(2)) end)
      return i + 1, df.device('sim:1', function() return u * 0.5 end)
    end, { df.int32(0), df.float32(1) })
    local opened = {}
    for owners = 1, 3 do
      local s = df.Session{ devices = TWO, owners = owners }
      local h = s:start(x, nil, { log = true })
      h:wait()
      local _, kinds = logged(h)
      assert.equal(kinds.opened, kinds.ended)
      opened[owners] = kinds.opened
      s:close()
    end
    assert.same({ 19, 19, 19 }, opened)
  end)

  it('keep the values that they made, and frames go by the same numbers in the log and to inspectors', function()
    local fetches = nested(12)
    for owners = 1, 3 do
      local s = df.Session{ devices = TWO, owners = owners }
      local h = s:start(fetches, nil, { log = true, values = true, paused = true })
      h:break_at{ op = 'Tanh', frame = 'outer/inner', iteration = 2 }
      h:resume()
      local stop = h:settle()
      local known, names = {}, require 'dflow.inspect.events'.names(h)
      require 'dflow.inspect.events'.each(h, function(_, _, iteration, _, node, frame, scope, kind)
        if kind == require 'dflow.backend.enums'.DF_EVENT_FRAME_OPEN then
          names.open(frame, node, iteration, scope)
          known[frame] = names.frame(frame).tag
        end
      end)
      for _, f in ipairs(h:frames()) do if f.id ~= 0 then assert.equal(known[f.id], f.tag) end end
      assert.matches('is %-?%d+%.%d+ = Tanh%(', h:why('outer/inner/Tanh', stop.frame .. ':1'))
      h:unbreak()
      h:resume()
      h:wait()
      if owners > 1 then turned_by(owners, h:stats()) end
      s:close()
    end
  end)

  it('write traces of either format, and pages with values', function()
    local s, path = df.Session{ devices = TWO, owners = 3 }, os.tmpname()
    for _, ending in ipairs{ '.json', '.pftrace' } do
      s:run(nested(20), nil, { trace = path .. ending })
      assert.is_nil(s:stats().owners.why)
      local f = assert(io.open(path .. ending, 'rb'))
      assert.is_true(#f:read('*a') > 10000)
      f:close()
      os.remove(path .. ending)
    end
    s:run(nested(5), nil, { report = path .. '.html' })
    assert.is_nil(s:stats().owners.why)
    local page = require('spec.shell').read(path .. '.html')
    os.remove(path .. '.html')
    os.remove(path)
    local _, values = (page:match('"values":(%b[])') or page:match('values:(%b[])')):gsub('"%-?%d+%.%d+"', '')
    assert.is_true(values > 20, ('%d values'):format(values))
    s:close()
  end)

  one_process_it('send the value of a reference that is fetched, whosever its variable is', function()
    local op = require('dflow.front.registry').op
    local x = df.placeholder('float32', {})
    local v = df.device('sim:1', function() return op('VariableV2', {}, { dtype = 'float32', shape = {} }) end)
    local assign = df.device('sim:1', function() return op('Assign', { v, df.device('sim:0', function() return x * 2 end) }) end)
    local s = df.Session{ devices = TWO, owners = 3 }
    assert.equal(6, s:run(assign, { [x] = 3 }))
    assert.is_nil(s:stats().owners.why)
    assert.equal(6, s:run(v))
    s:close()
  end)

  one_process_it('tell each other that an array was written, once for each device that waits for it and is another owner\'s', function()
    local x = df.placeholder('float32', {})
    local written = df.device('sim:0', function() return df.TensorArray('float32', 1):write(0, x) end)
    local passed = require('dflow.front.registry').op1('Identity', written.handle)
    local fetches = { written:read(0) }
    for i = 1, 3 do
      fetches[i + 1] = df.device('sim:' .. i, function()
        return df.control_dependencies({ passed }, function() return df.square(x) + i end)
      end)
    end
    for owners, others in ipairs{ 0, 2, 3 } do                      -- two owners: sim:1 is turned by that of sim:0
      local s = df.Session{ devices = { 'cpu:0', 'sim:0', 'sim:1', 'sim:2', 'sim:3' }, owners = owners }
      assert.same({ 2, 5, 6, 7 }, s:run(fetches, { [x] = 2 }))
      turned_by(owners, s:stats())
      local told = 0
      for link, sent in pairs(s:stats().transfers) do
        if link:find '^sim:0 %-> sim:' then
          assert.same({ messages = 1, bytes = 0, dead = 0 }, sent)
          told = told + 1
        end
      end
      assert.equal(others, told)
      s:close()
    end
  end)

  it('count each frame and iteration once, also while the run goes on', function()
    local fetches = nested(50)
    local one = df.Session{ devices = TWO }
    one:run(fetches)
    local s = df.Session{ devices = TWO, owners = 3 }
    local h = s:start(fetches, nil, { paused = true })
    for _ = 1, 40 do
      h:step(37)
      local stats, started, frames = h:stats(), 0, 1
      for _, f in ipairs(h:frames()) do
        if f.name == 'outer' then started, frames = f.next - 1, 2 + f.next end
      end
      assert.is_true(stats.frames <= frames, ('%d frames'):format(stats.frames))
      assert.is_true(stats.iterations <= started + 3 * (started + 1), ('%d iterations, %d of them outer ones'):format(stats.iterations, started))
    end
    h:resume()
    h:wait()
    assert.equal(one:stats().frames, h:stats().frames)
    assert.equal(200, h:stats().iterations)
    one:close()
    s:close()
  end)

  it('are stepped together, and stop together at a breakpoint of any of them', function()
    local fetches = nested(3000)
    local expected = bits(df.Session{ devices = { 'cpu:0' }, soft_placement = true }:run(fetches))
    for owners = 2, 3 do
      local s = df.Session{ devices = TWO, owners = owners }
      local h = s:start(fetches, nil, { paused = true })
      for _ = 1, 200 do
        local before = h:ledger()
        assert.is_truthy(h:step(1))
        local after = h:ledger()
        local ran = after.ran + after.died - before.ran - before.died
        assert.is_true(over_ranks and ran >= 1 and ran <= 3 or ran == 1)       -- each rank takes one, at most
      end
      assert.is_truthy(h:step(20, 'node'))
      for _ = 1, 10 do assert.equal('outer', h:step(3, 'frame').frame:match '^%a+') end
      local tanh = h:break_at{ op = 'Tanh', frame = 'outer/inner', iteration = 2 }
      for _ = 1, 5 do
        h:resume()
        local stop = h:settle()
        assert.equal('Tanh', stop.op.type)
        assert.equal(2, stop.iteration)
        assert.matches('^outer:%d+/outer/inner$', stop.frame)
        assert.matches('is ready and runs soon', h:whynot(stop.op, stop.tag))
      end
      h:unbreak(tanh)
      local there = h:break_at{ frame = 'outer', iteration = 2900 }
      h:resume()
      local stop = h:settle()
      assert.equal('outer:2900', stop.tag)     -- more than two thousand frames after the loop's own
      h:unbreak(there)
      local loop = h:frames()[2]
      assert.equal(3, #loop.partitions)
      for _, p in ipairs(loop.partitions) do assert.is_true(p.iteration >= loop.first and p.iteration < loop.next) end
      assert.is_true(#h:history(50) == 50)
      h:resume()
      assert.equal(expected, bits(h:wait()))
      turned_by(owners, h:stats())
      s:close()
    end
  end)

  it('stop behind a value that is none, and are cancelled or closed where they stand', function()
    local x = df.placeholder('float32', {})
    local _, y = df.while_loop(function(i) return i:lt(1000) end, function(i, y)
      local z = df.device('sim:1', function() return df.log(y - 1) end)
      return i + 1, df.device('sim:0', function() return z * 0 + y - 1 end)
    end, { df.int32(0), x })
    local s = df.Session{ devices = TWO, owners = 3 }
    local ok, err = pcall(s.run, s, y, { [x] = 20.5 }, { check_numerics = true })
    assert.is_false(ok)
    assert.matches('Log', tostring(err))
    assert.matches(':20', err.frame)
    local h = s:start(ring(2 ^ 30))
    h:pause()
    h:cancel()
    ok, err = pcall(h.wait, h)
    assert.is_false(ok)
    assert.equal('cancelled', err.code)
    h = s:start(ring(2 ^ 30), nil, { timeout = 0.1 })
    h:pause()
    h:resume()
    ok, err = pcall(h.wait, h)
    assert.equal('deadline_exceeded', not ok and err.code)
    h = s:start(y, { [x] = 3 }, { remains = true })
    h:wait()
    assert.is_truthy(h:frames()[1])
    s:close()
  end)

  it('name the iteration in which something waits for what is outside, not those that wait for it', function()
    local q = df.device('sim:1', function() return df.FIFOQueue(3, 'int32') end)
    local i, y = df.while_loop(function(i) return i:lt(9) end, function(i, y)
      local next = df.device('sim:0', function() return i + 1 end)
      return next, df.device('sim:1', function()
        q:enqueue(i)
        return y + i
      end)
    end, { df.int32(0), df.int32(0) })
    for owners = 1, 3 do
      local s = df.Session{ devices = TWO, owners = owners }
      local e = support.error_of(s.run, s, { i, y })
      assert.equal('while:3', e.frame)
      assert.matches('nothing can move: `while/[^;]* waits for room', e.message)
      s:close()
    end
  end)

  one_process_it('are told of together while inputs of a loop have not come, also where none of it is there yet', function()
    local function on(n, fn) return df.device('sim:' .. n, fn) end
    for owners = 1, 2 do
      local q = on(1, function() return df.FIFOQueue(2, 'float32') end)
      local _, x, y = df.while_loop(function(i) return i:lt(3) end, function(i, x, y)
        return i + 1, on(0, function() return x * 2 end), on(1, function() return y * 3 end)
      end, { df.int32(0), q:dequeue(), q:dequeue() }, { name = 'late' })
      local s = df.Session{ devices = TWO, owners = owners }
      local h = s:start{ x, y }
      local last, told = os.time() + 10
      repeat
        h:pause()
        told = tostring(h:frames()[2])
        h:resume()
      until told:find '2 of its inputs have not come' or os.time() > last
      assert.matches('^late[%d_]*  has not begun: 2 of its inputs have not come', told)
      s:run{ q:enqueue(1), q:enqueue(1) }
      assert.same({ 8, 27 }, h:wait())
      turned_by(owners, h:stats())
      s:close()
    end
  end)

  it('say at the timeout what is waited for outside, not which owner waits for which', function()
    local q = df.device('sim:1', function() return df.FIFOQueue(3, 'int32') end)
    local x = df.placeholder('int32', {})
    local y = df.device('sim:1', function() return q:dequeue() + 1 end)
    local fetches = { df.device('sim:0', function() return y * x end), y + x }
    for owners = 1, 3 do
      local s = df.Session{ devices = TWO, owners = owners }
      local timeout, told = 0.05
      repeat                                    -- until all have begun to wait before it is over
        local e = support.error_of(s.run, s, fetches, { [x] = 2 }, { timeout = timeout })
        assert.equal('deadline_exceeded', e.code)
        timeout, told = 2 * timeout, e.message
      until told:find 'waits for 1 element' or timeout > 10
      assert.matches('timeout: `[^;]* waits for 1 element', told)
      s:close()
    end
  end)

  it('tell what the node was given that failed, though its sender has gone on', function()
    local _, y = df.while_loop(function(i) return i:lt(9) end, function(i, y)
      local left = df.device('sim:0', function() return df.subtract(5, i, { name = 'left' }) end)
      return i + 1, df.device('sim:1', function()
        local later = df.reduce_sum(df.tanh(df.fill({ 200, 200 }, df.cast(y, 'float32'))))       -- long after it was sent
        return df.floordiv(y + df.cast(later * 0, 'int32'), left, { name = 'share' }) + 1
      end)
    end, { df.int32(0), df.int32(100) })
    local s = df.Session{ devices = TWO, owners = 3 }
    for _ = 1, 10 do
      local h = s:start(y, nil, { remains = true })
      assert.is_false((pcall(h.wait, h)))
      assert.matches('failed, integer division by zero: FloorDiv%(.*= %d+, .*left %(from sim:0%) = 0%) on sim:1', h:why('while/share', 'while:5'))
    end
    s:close()
  end)

  it('tell it though its sender has let it go and is still busy', function()
    local q = df.device('sim:0', function() return df.FIFOQueue(1, 'int32', { shapes = { {} } }) end)
    local _, y = df.while_loop(function(i) return i:lt(9) end, function(i, y, taken)
      local left = df.device('sim:0', function() return df.fill({ 2 }, 5 - i, { name = 'left' }) end)
      taken = df.device('sim:0', function() return df.cond(i:gt(4), function() return q:dequeue() end, function() return taken end) end)
      return i + 1, df.device('sim:1', function() return df.floordiv(y, left, { name = 'share' }) end), taken
    end, { df.int32(0), df.int32{ 100, 200 }, df.int32(0) })
    local s = df.Session{ devices = TWO, owners = 3 }
    local h = s:start(y, nil, { remains = true })
    assert.is_false((pcall(h.wait, h)))
    assert.matches('FloorDiv%(.*= %[%d+ %d+%] int32%[2%], while/left %(from sim:0%) = %[0 0%] int32%[2%]%) on sim:1', h:why('while/share', 'while:5'))
    s:close()
  end)

  it('do not pause at a breakpoint once another has failed: the run ends', function()
    local n = 1200
    local m, x = df.placeholder('float64', { n, n }), df.placeholder('float32', {})
    local a = df.device('sim:0', function() return df.cholesky(m) end)          -- takes long, and fails at its last row
    local b = df.device('sim:1', function()
      local y = df.fill({ 500, 500 }, x)
      return df.tanh(df.reduce_sum(df.matmul(y, y)))
    end)
    local last = df.run(df.eye(n, { dtype = 'float64' }))
    last = df.run(last - 2 * df.diag(df.one_hot(df.int32(n - 1), n, { dtype = 'float64' })))
    local s = df.Session{ devices = TWO, owners = 3 }
    for _ = 1, 5 do
      local h = s:start({ a, b }, { [m] = last, [x] = 1 }, { paused = true })
      h:break_at{ op = 'Tanh' }
      h:resume()
      h:settle(5)
      if h:state() == 'paused' then        -- it stood before the matrix was begun, and so it stays
        os.execute 'sleep 0.1'
        assert.equal('paused', h:state())
        h:resume()
      end
      assert.matches('Cholesky', tostring(select(2, pcall(h.wait, h))))
    end
    s:close()
  end)

  it('pause together, however often, with balanced books', function()
    local x = ring(20000)
    for owners = 2, 3 do
      local s = df.Session{ devices = TWO, owners = owners }
      local looks, runs, once = 0, 0, bits(s:run(x))
      repeat                                               -- on a busy machine a run may be over before it is looked at
        local h = s:start(x, nil, { paused = true })
        runs = runs + 1
        for _ = 1, 40 do
          h:resume()
          if not h:pause() then break end
          local books = h:ledger()
          assert.equal(books.sent, books.ran + books.died + books.live + books.dead)
          assert.equal(books.pending, books.owed + books.lost)
          local frames = h:frames()
          local loop = frames[2]
          if loop then
            assert.is_true(loop.first < loop.next)
            assert.same({ 'cpu:0', 'sim:0', 'sim:1' }, loop.devices)
            tostring(frames)
          end
          looks = looks + 1
        end
        h:resume()
        assert.equal(once, bits(h:wait()))
        turned_by(owners, h:stats())
        assert.equal(20000, h:stats().iterations)
      until looks > 5 or runs == 100
      assert.is_true(looks > 5)
      s:close()
    end
  end)

  one_process_it('tell a body once what it waits for outside, however many trips it makes', function()
    local function messages(trips, waits, owners)
      df.reset()
      local x = df.placeholder('float32', { 3 })
      local source = df.device('sim:0', function() return df.sin(x) end)
      local _, y = df.while_loop(function(i) return i:lt(trips) end, function(i, y)
        return i + 1, df.device('sim:1', function()
          return df.control_dependencies(waits and { source } or {}, function() return df.cos(y) end)
        end)
      end, { df.int32(0), x })
      local s, n = df.Session{ devices = TWO, owners = owners }, 0
      s:run(y, { [x] = df.run(df.ones{ 3 }) })
      for _, t in pairs(s:stats().transfers) do n = n + t.messages end
      s:close()
      return n
    end
    for owners = 1, 3 do
      local few, many = messages(3, true, owners) - messages(3, false, owners), messages(30, true, owners) - messages(30, false, owners)
      assert.equal(few, many, ('%d owners'):format(owners))
    end
  end)

  one_process_it('end iterations that follow each other with n log n messages', function()
    local devices = {}
    for i = 0, 7 do devices[i + 1] = 'sim:' .. i end
    local function messages(n, trips, window)
      df.reset()
      local values = { df.int32(0) }
      for i = 1, n do values[i + 1] = df.device(devices[i], function() return df.ones{ 3 } * 1 end) end
      local out = { df.while_loop(function(i) return i:lt(trips) end, function(i, ...)
        local next = { i + 1 }
        for k, v in ipairs{ ... } do next[k + 1] = df.device(devices[k], function() return df.cos(v) + v end) end
        return next
      end, values, { parallel_iterations = window }) }
      local s, sent = df.Session{ devices = devices, owners = 9 }, 0
      s:run(out)
      for _, t in pairs(s:stats().transfers) do sent = sent + t.messages end
      s:close()
      return sent
    end
    for n, rounds in pairs{ [2] = 1, [3] = 2, [7] = 3, [8] = 3 } do
      local a, b = messages(n, 10, 1) - messages(n, 10, 2), messages(n, 30, 1) - messages(n, 30, 2)
      assert.equal(20 * rounds * n, b - a, ('%d devices'):format(n))
    end
  end)

  it('wait for what is elsewhere, whatever it is and wherever it is waited for', function()
    local function on(d, fn) return df.device(d, fn) end
    local function twice(fn, ...)
      return select(2, df.while_loop(function(i) return i:lt(2) end, function(i, ...) return i + 1, fn(...) end, { df.int32(0), df.float32(0), ... }))
    end
    local sources = {
      value = function(a) return a end,
      identity = function(a) return on('sim:0', function() return df.identity(a) end) end,
      tensor = function(a) return on('sim:0', function() return df.fill({ 3 }, a) end) end,
      operation = function(a) return on('sim:0', function() return df.assert(a:gt(0), {}) end) end,
      array = function(a) return on('sim:0', function() return df.TensorArray('float32', 1):write(0, a) end) end,
    }
    local readers = {
      ['at the top'] = function(source, read) return read(source) end,
      ['in a body'] = function(source, read) return twice(function() return read(source) end) end,
      ['in a branch'] = function(source, read, p) return df.cond(p, function() return read(source) end, function() return df.float32(0) end) end,
      ['in a branch in a body in a body'] = function(source, read, p)
        return twice(function()
          return twice(function(y) return df.cond(p, function() return read(source) end, function() return y end) end)
        end)
      end,
      ['as a loop variable'] = function(source, read, _, kind)
        return kind == 'operation' and read(source) or twice(function(_, a) return read(a), a end, source)
      end,
    }
    for kind, make in pairs(sources) do
      for place, put in pairs(readers) do
        df.reset()
        local v, x, p = df.Variable(1.0), df.placeholder('float32', {}), df.placeholder('bool', {})
        local _, slow = on('sim:0', function()
          return df.while_loop(function(i) return i:lt(60) end, function(i, u) return i + 1, df.sin(u) end, { df.int32(0), x })
        end)
        local source = make(df.control_dependencies({ slow }, function() return v:assign(5.0) end))
        local y = put(source, function(what)
          return on('sim:1', function()
            return df.control_dependencies({ kind == 'array' and what.handle or what }, function() return v:value() + 0 end)
          end)
        end, p, kind)
        for owners = 1, 3 do
          local s = df.Session{ devices = TWO, owners = owners }
          assert.equal(5, s:run(y, { [x] = 0.5, [p] = true }), ('%s %s, %d owners'):format(kind, place, owners))
          for link in pairs(s:stats().transfers) do assert(link:match '^(%S+)' ~= link:match '(%S+)$', 'there are transfers ' .. link) end
          s:close()
        end
      end
    end
  end)
end)
