--- Messages by the virtual clock: what a device sends shares its bandwidth, and what it receives; rows cost what they touch.
local df = require 'dflow'
local near = require('spec.support').near

local MB, RATE, LATENCY = 2 ^ 20, 2 ^ 30, 1e-6

--- sim:0 … sim:n-1, each with ports of RATE bytes a second, on a virtual clock; kernels take next to nothing.
local function devices(n)
  local list = { 'cpu:0' }
  for d = 0, n - 1 do list[#list + 1] = { 'sim:' .. d, bandwidth = RATE, latency = LATENCY, speed = 1e6 } end
  return list
end

--- A run in which each {from, to, bytes} is one message; gives the handle of the run, which is over.
local function send(n, messages, clock, owners)
  local g = df.Graph()
  return g:as_default(function()
    local fetches, values = {}, {}
    for i, m in ipairs(messages) do
      local key = m[1] .. ':' .. m[3]
      values[key] = values[key] or df.device('sim:' .. m[1], function() return df.zeros{ math.floor(m[3] / 4) } + df.random_uniform({}) end)
      fetches[i] = df.device('sim:' .. m[2], function() return values[key]:slice({ i }, { 1 }) end)
    end
    local h = df.Session{ graph = g, devices = devices(n), clock = clock or 'virtual', owners = owners }:start(fetches, nil, { record = not clock })
    h:wait()
    return h
  end)
end

--- When each large message left, by its receiver, in the order of time.
local function left(h)
  local list = {}
  for _, e in ipairs(h:whatif{ timeline = true }.timeline) do
    if e.kind == 'message' and e.bytes >= MB then list[#list + 1] = { to = e.to, from = e.device, at = e.ends - LATENCY, begins = e.begins } end
  end
  table.sort(list, function(a, b) return a.at < b.at end)
  return list
end

describe('ports of devices by the virtual clock', function()
  it('divide their bandwidth: n messages out of one, or into one, take n times as long as one', function()
    for _, n in ipairs{ 1, 2, 5, 16 } do
      local out, into = {}, {}
      for d = 1, n do
        out[d] = { 0, d, 16 * MB }
        into[d] = { d, 0, 16 * MB }
      end
      near(send(n + 1, out):stats().seconds, n * 16 * MB / RATE, { rtol = 1e-3 })
      near(send(n + 1, into):stats().seconds, n * 16 * MB / RATE, { rtol = 1e-3 })
    end
  end)

  it('divide it in real time, too, with one owner and with several: n messages take no less than n times as long as one', function()
    for _, owners in ipairs{ 1, 5 } do
      for _, n in ipairs{ 1, 4 } do
        local out, into = {}, {}
        for d = 1, n do
          out[d] = { 0, d, 16 * MB }
          into[d] = { d, 0, 16 * MB }
        end
        for _, messages in ipairs{ out, into } do
          local seconds = send(n + 1, messages, 'real', owners):stats().seconds
          assert(seconds >= 0.99 * n * 16 * MB / RATE, ('%d messages take %g s with %d owners'):format(n, seconds, owners))
        end
      end
    end
  end)

  it('share it in real time: no value leaves a port before the others that left for the same time', function()
    -- one device sends a value to each of four, and each sends its own back: served in turn, the first would be on its way back meanwhile
    local n, bytes, trips = 4, MB, 4
    for _, owners in ipairs{ 1, n + 1 } do
      df.reset()
      local begin = {}
      for d = 1, n do begin[d] = df.zeros{ bytes / 4 } end
      local _, ends = df.while_loop(function(i) return df.device('sim:0', function() return i:lt(trips) end) end, function(i, x)
        local sum, after = df.device('sim:0', function() return df.add_n(x) end), {}
        for d = 1, n do after[d] = df.device('sim:' .. d, function() return sum * 0.5 end) end
        return df.device('sim:0', function() return i + 1 end), after
      end, { df.int32(0), begin })
      for d = 1, n do ends[d] = df.device('sim:' .. d, function() return ends[d]:reduce_sum() end) end
      local seconds = {}
      for _, clock in ipairs{ 'virtual', 'real' } do
        local list = devices(n + 1)
        for d = 2, #list do list[d].bandwidth = 2 ^ 26 end
        local h = df.Session{ devices = list, clock = clock, owners = owners }:start(ends)
        h:wait()
        seconds[clock] = h:stats().seconds
      end
      assert(seconds.real >= 0.98 * seconds.virtual, ('%g s by the virtual clock, %g in real time with %d owners'):format(seconds.virtual, seconds.real, owners))
    end
  end)

  it('do not slow down messages between others, nor what goes the other way', function()
    near(send(8, { { 0, 1, 16 * MB }, { 2, 3, 16 * MB }, { 4, 5, 16 * MB }, { 6, 7, 16 * MB } }):stats().seconds, 16 * MB / RATE, { rtol = 1e-3 })
    near(send(2, { { 0, 1, 16 * MB }, { 1, 0, 16 * MB } }):stats().seconds, 16 * MB / RATE, { rtol = 1e-3 })
  end)

  it('give equal shares: a short message is through before a long one that began with it', function()
    -- 4 and 12 MB into one port: both at half the rate until 8 MB are through, then the long one alone
    local at = left(send(3, { { 1, 0, 12 * MB }, { 2, 0, 4 * MB } }))
    assert.equal('sim:2', at[1].from)
    near(at[1].at, 8 * MB / RATE, { rtol = 1e-2 })
    near(at[2].at, 16 * MB / RATE, { rtol = 1e-2 })
    -- three into one port, of which one also shares the port that it leaves by: it gets the smaller of both shares
    at = left(send(5, { { 1, 0, 8 * MB }, { 2, 0, 8 * MB }, { 2, 3, 8 * MB }, { 2, 4, 8 * MB } }))
    near(at[1].at, 16 * MB / RATE, { rtol = 1e-2 })          -- sim:1 has half of sim:0's port, whatever sim:2 takes
    assert.equal('sim:1', at[1].from)
    near(at[#at].at, 24 * MB / RATE, { rtol = 1e-2 })        -- sim:2 sends 24 MB
  end)

  it('have a link carry one message after the other', function()
    local at = left(send(2, { { 0, 1, 4 * MB }, { 0, 1, 8 * MB } }))
    near(at[2].at, 12 * MB / RATE, { rtol = 1e-2 })
    near(at[2].begins, at[1].at, { rtol = 1e-2 })
  end)

  it('are the same when the run is timed again, with the same links and with others', function()
    local messages = {}
    for i = 1, 40 do
      local from = i * 7 % 6
      messages[i] = { from, (from + 1 + i * 5 % 5) % 6, (1 + i * 3 % 4) * MB }
    end
    local h = send(6, messages)
    near(h:whatif{}.seconds, h:stats().seconds, { rtol = 1e-9 })
    near(h:whatif{ bandwidth = RATE / 4 }.seconds, 4 * h:stats().seconds, { rtol = 1e-2 })
    local ports, most = {}, 0                                -- no schedule is faster than its busiest port
    for _, m in ipairs(messages) do
      local pair = m[1] .. '>' .. m[2] .. '>' .. m[3]        -- what goes to one device is sent there once
      if not ports[pair] then
        ports[pair] = true
        for _, port in ipairs{ 'out' .. m[1], 'in' .. m[2] } do
          ports[port] = (ports[port] or 0) + m[3]
          most = math.max(most, ports[port])
        end
      end
    end
    assert.is_true(h:stats().seconds >= most / RATE)
    assert.is_true(h:stats().seconds <= 2 * most / RATE)
  end)

  it('are the same in every run of a session, whatever the windows of its loops', function()
    for _, clock in ipairs{ 'virtual', 'virtual_owners' } do
      for _, window in ipairs{ 1, 2, 5, 32 } do
        df.reset()
        local trips = df.placeholder('int32', {})
        local _, y = df.while_loop(function(i) return i:lt(trips) end, function(i, y)
          local a = df.device('sim:0', function() return df.tanh(y) + 1 end)
          local _, b = df.while_loop(function(j) return j:lt(3) end, function(j, b)
            return j + 1, df.device('sim:1', function() return df.sin(b) end)
          end, { df.int32(0), a }, { parallel_iterations = window })
          return i + 1, b
        end, { df.int32(0), df.ones{ 4 } }, { parallel_iterations = window })
        local s, seconds = df.Session{ devices = devices(2), clock = clock, owners = 3 }, {}
        for _, n in ipairs{ 6, 2, 6, 1, 2, 6 } do
          local h = s:start(y, { [trips] = n })
          h:wait()
          seconds[n] = seconds[n] or h:stats().seconds
          near(h:stats().seconds, seconds[n], { rtol = 1e-9 })
        end
        assert.is_true(seconds[1] < seconds[2] and seconds[2] < seconds[6])
        s:close()
      end
    end
  end)

  it('are the same in every run of a session whose loop runs its iterations a second time', function()
    local w, x = df.random_uniform({ 64, 64 }, { seed = 1 }) * 0.1, df.ones{ 64, 64 }
    local _, y = df.while_loop(function(i) return i:lt(100) end, function(i, y)
      return i + 1, df.device('sim:0', function() return df.tanh(y:matmul(w)) end)
    end, { df.int32(0), x }, { parallel_iterations = 2 })
    local grad = df.gradients(y:reduce_sum(), x)
    local s, seconds = df.Session{ devices = { 'cpu:0', 'sim:0' }, clock = 'virtual', save = 'recompute' }, nil
    for _ = 1, 3 do
      local h = s:start(grad)
      h:wait()
      seconds = seconds or h:stats().seconds
      near(h:stats().seconds, seconds, { rtol = 1e-9 })
    end
    s:close()
  end)

  it('hold up what crosses when the run begins, and what needs it', function()
    local x = df.placeholder('float32', { MB })
    local fetches = {}
    for d = 0, 3 do fetches[d + 1] = df.device('sim:' .. d, function() return x:slice({ d }, { 1 }) end) end
    local list = devices(4)
    list[1] = { 'cpu:0', bandwidth = RATE }
    local h = df.Session{ devices = list, clock = 'virtual' }:start(fetches, { [x] = df.run(df.ones{ MB }) }, { record = true })
    assert.equal(4, #h:wait())
    near(h:stats().seconds, 16 * MB / RATE, { rtol = 1e-2 })
    near(h:whatif{}.seconds, h:stats().seconds, { rtol = 1e-9 })
  end)

  it('bound a barrier: n devices sum at one, which sends the sum back', function()
    for _, n in ipairs{ 2, 8 } do
      df.reset()
      local parts, back = {}, {}
      for d = 1, n do parts[d] = df.device('sim:' .. d, function() return df.zeros{ MB } + df.random_uniform({}) end) end
      local sum = df.device('sim:0', function() return df.add_n(parts) end)
      for d = 1, n do back[d] = df.device('sim:' .. d, function() return sum:slice({ 0 }, { 1 }) end) end
      local h = df.Session{ devices = devices(n + 1), clock = 'virtual' }:start(back)
      h:wait()
      near(h:stats().seconds, 2 * n * 4 * MB / RATE, { rtol = 1e-2 })
    end
  end)

  it('leave values and counters as they are', function()
    local function run(clock)
      df.reset()
      local _, y = df.while_loop(function(i) return i:lt(20) end, function(i, a)
        local b = df.device('sim:0', function() return a * 0.5 + df.random_uniform({ 64, 64 }, { seed = 3 }) end)
        local c = df.device('sim:1', function() return b:matmul(a) * 0.01 end)
        return i + 1, df.device('sim:2', function() return df.tanh(b + c) end)
      end, { df.int32(0), df.ones{ 64, 64 } }, { parallel_iterations = 4 })
      local s = df.Session{ devices = devices(3), clock = clock }
      local value, stats = s:run(y):totable(), s:stats()
      return { value, stats.nodes_run, stats.iterations, stats.frames, stats.dead_tokens }
    end
    assert.same(run('real'), run('virtual'))
  end)
end)

describe('rows by the virtual clock', function()
  --- Seconds of a fetch on sim:0 whose table has so many rows.
  local function seconds(rows, build)
    local g = df.Graph()
    return g:as_default(function()
      local v = df.device('sim:0', function() return df.Variable(df.zeros{ rows, 64 }) end)
      local ids = df.placeholder('int32', { 32 })
      local y = df.device('sim:0', function() return build(v, ids) end)
      local list = {}
      for i = 1, 32 do list[i] = i * 37 % rows end
      local s = df.Session{ graph = g, devices = { 'cpu:0', { 'sim:0', memory = '1GB', speed = 1 } }, clock = 'virtual' }
      s:run(y.op, { [ids] = list })
      local h = s:start(y.op, { [ids] = list })
      h:wait()
      return h:stats().seconds
    end)
  end

  for name, build in pairs{
    gather = function(v, ids) return df.gather(v, ids) end,
    scatter_add = function(v, ids) return v:scatter_add(ids, df.ones{ 32, 64 }) end,
    scatter_update = function(v, ids) return v:scatter_update(ids, df.ones{ 32, 64 }) end,
    slice = function(v) return v:value():slice({ 5, 0 }, { 32, 64 }) end,
    strided_slice = function(v) return v:value():strided_slice({ 0, 0 }, { 64, 64 }, { 2, 1 }) end,
    gather_nd = function(v, ids) return df.gather_nd(v, df.expand_dims(ids, 1)) end,
  } do
    it(('have %s cost the rows it touches, whatever the table has'):format(name), function()
      local small, large = seconds(1000, build), seconds(64000, build)
      near(large, small, { rtol = 1e-6 })
    end)
  end
end)

describe('kernels by the virtual clock', function()
  it('take `launch` seconds to begin, whatever the speed, and 1 us by the speed where it is not said', function()
    local function seconds(speed, launch)
      local y = df.device('sim:0', function()
        local x = df.random_uniform({ 64, 64 })
        local y = x
        for _ = 1, 10 do y = y:matmul(x) end
        return y
      end)
      local h = df.Session{ devices = { 'cpu:0', { 'sim:0', speed = speed, launch = launch } }, clock = 'virtual' }:start(y.op)
      h:wait()
      return h:stats().seconds
    end
    for _, speed in ipairs{ 0.1, 1, 50 } do
      local work = seconds(speed, '1ns')
      near(seconds(speed, '1ms') - work, 11e-3, { rtol = 1e-3 })
      near(seconds(speed) - work, 11e-6 / speed, { rtol = 1e-2 })
    end
  end)
end)
