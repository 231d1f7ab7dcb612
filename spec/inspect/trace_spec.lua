--- opts.trace: a run as a timeline, by the rules of Perfetto's JSON importer.
local df = require 'dflow'
local support = require 'spec.support'
local json = require 'dkjson'
local host_it = support.host_it(it, pending)       -- of the host's memory
local ordered_it = support.ordered_it(it, pending)

local function program()
  df.reset()
  local i, x = df.while_loop(function(i) return i:lt(df.int32(12)) end, function(i, x)
    local _, z = df.while_loop(function(j) return j:lt(df.int32(2)) end, function(j, z) return j + 1, z + 1 end, { df.int32(0), df.float32(0) })
    return i + 1, df.cond(x:gt(20), function() return x * 0.5 end, function() return x * 2 end) + z * 0
  end, { df.int32(0), df.float32(1) })
  return { i, x }
end

local function endless()
  df.reset()
  return (df.while_loop(function(i) return i:ge(df.int32(0)) end, function(i) return i * 1 end, { df.int32(0) }))
end

local function read(path)
  local text = require('spec.shell').read(path)
  os.remove(path)
  return text
end

--- The events of a trace, which must be well formed:
-- * the lines stand in the order of their times;
-- * on a thread, slices lie one behind the other or one inside the other (X), and B and E pair up;
-- * an async id (of a category) is begun, then ended, under the same name, and not begun again while it is open;
-- * a counter's values are finite numbers;
-- * what runs elsewhere is in the first lane that is free, and the lanes are numbered from 1 up.
local function events(path)
  local trace = assert(json.decode(read(path)))
  assert.equal('ns', trace.displayTimeUnit)
  local last, threads, async, named, arrows, lanes = 0, {}, {}, {}, {}, {}
  for _, e in ipairs(trace.traceEvents) do
    assert.equal(1, e.pid)
    if e.ph == 'M' then
      if e.tid then named[e.tid] = e.args.name end
      local number = e.tid and tonumber(e.args.name:match '^worker (%d+)$' or e.args.name:match '^on its way (%d+)$')
      if number then
        assert.equal(#lanes + 1, number)
        lanes[number] = e.tid
      end
    else
      assert.is_true(e.ts >= last, ('%s at %f comes after %f'):format(e.name or e.ph, e.ts, last))
      last = e.ts
      local stack = threads[e.tid or 0] or {}
      threads[e.tid or 0] = stack
      if e.tid then assert.is_truthy(named[e.tid], 'a thread without a name') end
      if e.ph == 'X' then
        local begins = math.floor(e.ts * 1000 + 0.5)            -- in ns, which are whole
        local ends = begins + math.floor(e.dur * 1000 + 0.5)
        assert.is_true(e.dur >= 0)
        while #stack > 0 and stack[#stack] ~= 'B' and stack[#stack] <= begins do table.remove(stack) end
        assert.is_true(#stack == 0 or stack[#stack] == 'B' or ends <= stack[#stack], e.name .. ' overlaps the slice before it')
        stack[#stack + 1] = ends
      elseif e.ph == 'B' then
        for _, lane in ipairs(lanes) do
          if lane == e.tid then break end
          assert.is_true(#(threads[lane] or {}) > 0, e.name .. ' is in a lane though one before it is free')
        end
        assert.same({}, stack)
        stack[#stack + 1] = 'B'
      elseif e.ph == 'E' then
        assert.equal('B', table.remove(stack))
      elseif e.ph == 'b' then
        local key = e.cat .. e.id
        assert.is_nil(async[key], key .. ' is begun twice')
        async[key] = e
      elseif e.ph == 'e' then
        local b = async[e.cat .. e.id]
        assert.is_truthy(b and not b.ends, e.id .. ' ends without having begun')
        assert.equal(b.name, e.name)
        b.ends = e.ts
      elseif e.ph == 's' then
        assert.is_nil(arrows[e.id], 'an arrow begins twice')
        arrows[e.id] = { from = named[e.tid], at = e.ts }
      elseif e.ph == 'f' then
        assert.is_truthy(arrows[e.id] and not arrows[e.id].to, 'an arrow ends that has not begun')
        arrows[e.id].to = named[e.tid]
      elseif e.ph == 'C' then
        for _, v in pairs(e.args) do assert.is_true(type(v) == 'number' and v >= 0 and v < math.huge) end
      else
        assert.equal('i', e.ph)
      end
    end
  end
  local spans = {}
  for key, b in pairs(async) do
    assert.is_truthy(b.ends, key .. ' has no end')
    spans[#spans + 1] = b
  end
  for _, stack in pairs(threads) do for _, s in ipairs(stack) do assert.is_true(s ~= 'B', 'B without E') end end
  for id, a in pairs(arrows) do assert.is_truthy(a.to, ('arrow %s has no end'):format(id)) end
  return trace.traceEvents, spans, arrows, named
end

--- A run with a trace, waited for; its events, its async spans, and what it raised.
local function traced(fetches, feeds, opts)
  local with = { trace = os.tmpname() }
  for k, v in pairs(opts or {}) do with[k] = v end
  local h = df.start(fetches, feeds, with)
  if with.timeout == nil and with.log then h:cancel() end
  local ok, err = pcall(h.wait, h)
  local list, spans = events(with.trace)
  return list, spans, not ok and err or nil, h
end

local function count(list, field, value)
  local n = 0
  for _, e in ipairs(list) do if e[field] == value then n = n + 1 end end
  return n
end

describe('opts.trace', function()
  ordered_it('writes a timeline whose slices nest, and an async span for each frame and iteration', function()
    local plain = df.run(program())
    local path = os.tmpname()
    assert.same(plain, df.run(program(), nil, { trace = path }))
    local list, spans = events(path)
    assert.equal(14, count(spans, 'cat', 'frame'))                  -- the loop, the one inside it twelve times, and once dead
    assert.equal(13 + 12 * 3, count(spans, 'cat', 'iteration'))
    assert.is_true(count(list, 'ph', 'X') > 300 and count(list, 'cat', 'dead') > 12)
    assert.equal(1, count(spans, 'name', 'while:11/while/while:2'))
  end)

  it('shows iterations that overlap as spans that overlap', function()
    local _, spans = traced(program())
    local overlapping = 0
    for _, a in ipairs(spans) do
      for _, b in ipairs(spans) do
        if a.cat == 'iteration' and b.cat == 'iteration' and a.ts < b.ts and b.ts < a.ends and a.ends < b.ends then overlapping = overlapping + 1 end
      end
    end
    assert.is_true(overlapping > 10)
  end)

  it('gives kernels that ran elsewhere a thread of their own each while they overlap', function()
    local x = df.random_uniform({ 300, 300 }, { seed = 1 })
    local s = df.Session{ threads = 4 }
    local list = {}
    for i = 1, 8 do list[i] = df.matmul(x, x * i):reduce_sum() end
    local path = os.tmpname()
    s:run(list, nil, { trace = path })
    local seen = events(path)
    assert.equal(count(seen, 'ph', 'B'), count(seen, 'ph', 'E'))
    s:close()
  end)

  it('gives each element that is waited for a lane, the first that is free', function()
    local queues, taken = {}, {}
    for i = 1, 4 do
      queues[i] = df.FIFOQueue(3, { 'int32' })
      taken[i] = queues[i]:dequeue()
    end
    local path = os.tmpname()
    local h = df.start(taken, nil, { trace = path })
    h:settle(0.2)
    for _, i in ipairs{ 2, 4, 1, 3 } do df.run(queues[i]:enqueue(10 * i)) end
    assert.same({ 10, 20, 30, 40 }, h:wait())
    local list, _, _, named = events(path)
    local lanes = {}
    for _, name in pairs(named) do lanes[name] = true end
    assert.same({ tokens = true, ['worker 1'] = true, ['worker 2'] = true, ['worker 3'] = true, ['worker 4'] = true }, lanes)
    assert.equal(count(list, 'ph', 'B'), count(list, 'ph', 'E'))
  end)

  host_it('counts the memory as the allocator does', function()
    local list, _, _, h = traced((df.ones{ 1000, 1000 } * df.placeholder_with_default(df.float32(2), {}) + 1):reduce_sum())
    local most = 0
    for _, e in ipairs(list) do if e.ph == 'C' then most = math.max(most, e.args['cpu:0']) end end
    assert.is_true(most >= 4e6)
    assert.is_true(most <= h:stats().memory['cpu:0'].peak)
  end)

  it('is well formed for a run that fails, which fails as it would have', function()
    local x = df.placeholder('int32', {})
    local list, _, err = traced(df.floor_div(df.constant(1, 'int32'), x), { [x] = 0 })
    assert.equal('invalid_argument', err.code)
    assert.equal(1, count(list, 'name', 'FloorDiv'))
    df.reset()
    local _, y = df.while_loop(function(i) return i:lt(df.int32(9)) end, function(i, y)
      local _, z = df.while_loop(function(j) return j:lt(df.int32(3)) end, function(j, z) return j + 1, z + df.floor_div(df.int32(7), i - 4 + j) end, { df.int32(0), df.int32(0) })
      return i + 1, y + z
    end, { df.int32(0), df.int32(0) })
    local _, spans
    _, spans, err = traced(y)
    assert.matches('division by zero', err.message)
    assert.is_true(#spans > 5)
  end)

  it('is well formed for a run that is cancelled, and one that runs out of time', function()
    local _, _, err = traced(endless(), nil, { log = 3000 })
    assert.equal('cancelled', err.code)
    local spans
    _, spans, err = traced(endless(), nil, { timeout = 0.05, log = 3000 })
    assert.equal('deadline_exceeded', err.code)
    assert.is_true(#spans >= 2)                       -- how far it gets in that time is the machine's affair
  end)

  it('says how much is missing when the log was full', function()
    local list = traced(endless(), nil, { timeout = 0.05, log = 1000 })
    local last = list[#list]
    assert.equal('i', last.ph)
    assert.matches('^the log was full: %d+ events are missing$', last.name)
  end)

  it('refuses what is no path, and a file that cannot be written, before anything runs', function()
    local v = df.Variable(df.float32(1))
    local function refused(opts, text)
      local err = support.error_of(df.run, v:assign_add(1), nil, opts)
      assert.matches(text, tostring(err))
    end
    refused({ trace = 7 }, 'trace is the path of a file')
    refused({ trace = '/nowhere/at/all/run.json' }, 'trace: .*nowhere')
    refused({ trace = '.' }, 'trace: ')
    refused({ log = 0 }, 'log is true, or how many events')
    refused({ log = 'all' }, 'log is true, or how many events')
    assert.equal(1, v:eval())
  end)

  it('leaves no file behind for a run that cannot begin', function()
    local path = os.tmpname()
    os.remove(path)
    assert.is_false((pcall(df.run, df.placeholder('int32', {}), nil, { trace = path })))
    local there = io.open(path)
    if there then
      there:close()
      events(path)                                    -- it began, and failed
    end
    assert.is_false((pcall(df.run, df.float32(1), { [df.float32(2)] = df.tensor({ 1 }, 'int32') }, { trace = path })))
    assert.is_nil(io.open(path))
  end)

  it('that the disk has no room for is an error that keeps the results', function()
    if not io.open('/dev/full') then return end
    df.reset()
    local h = df.start(df.float32(3) * 2, nil, { trace = '/dev/full' })
    local err = support.error_of(h.wait, h)
    assert.matches('trace: cannot write /dev/full: No space', tostring(err))
    assert.equal(6, h:wait())
  end)
end)

describe('the trace of a graph that is cut', function()
  --- A loop over two devices, traced in a session of these options: its events, arrows by "from > to", and the threads' names.
  local function traced(options)
    df.reset()
    local x = df.placeholder('float32', { 8, 8 })
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, y)
      local a = df.device('sim:0', function() return y:matmul(x) end)
      return i + 1, df.device('sim:1', function() return a:matmul(x):tanh() end)
    end, { df.int32(0), x })
    local path = os.tmpname()
    local s = df.Session(options)
    local h = s:start(y, { [x] = df.run(df.zeros{ 8, 8 }) }, { trace = path })
    h:wait()
    local list, _, arrows, named = events(path)
    local ways, tracks = {}, {}
    for _, a in pairs(arrows) do ways[a.from .. ' > ' .. a.to] = (ways[a.from .. ' > ' .. a.to] or 0) + 1 end
    for _, name in pairs(named) do tracks[name] = true end
    local sent = h:stats().transfers
    s:close()
    return list, ways, tracks, sent
  end

  it('has a track for each device, and an arrow for each message within the run', function()
    for _, latency in ipairs{ '0us', '200us' } do
      local list, ways, tracks, sent = traced{ devices = { 'cpu:0', { 'sim:0', latency = latency }, { 'sim:1', latency = latency } } }
      assert.is_true(tracks['cpu:0'] and tracks['sim:0'] and tracks['sim:1'])
      assert.are.equal(sent['sim:0 -> sim:1'].messages, ways['sim:0 > sim:1'])
      assert.are.equal(sent['cpu:0 -> sim:0'].messages - 1, ways['cpu:0 > sim:0'] or 0)      -- but the feed, which crosses before it
      for _, e in ipairs(list) do
        if e.name == 'while/Tanh' then assert.are.equal('Tanh', e.args.op) end
      end
    end
  end)

  it('has the same tracks, and an arrow for each message, where several owners turn the run', function()
    for owners = 2, 3 do
      for _, latency in ipairs{ '0us', '200us' } do
        local _, ways, tracks, sent = traced{ owners = owners, devices = { 'cpu:0', { 'sim:0', latency = latency }, { 'sim:1', latency = latency } } }
        for _, name in ipairs{ 'cpu:0', 'sim:0', 'sim:1' } do assert.is_true(tracks[name]) end
        assert.is_true(ways['sim:0 > sim:1'] > 0)
        for link, n in pairs(sent) do
          local from, to = link:match '^(%S+) %-> (%S+)$'
          local feed = from == 'cpu:0' and 1 or 0                   -- crosses before it
          assert.are.equal(n.messages - feed, ways[from .. ' > ' .. to] or 0, link)
        end
      end
    end
  end)

  ordered_it('is of the times of the virtual clock, where a session has that', function()
    local list, ways, tracks = traced{ clock = 'virtual', devices = { 'cpu:0', { 'sim:0', bandwidth = '1GB/s', latency = '1s' }, { 'sim:1', bandwidth = '1GB/s' } } }
    assert.is_true(tracks['sim:0'] and tracks['sim:1'] and tracks['sim:0 to sim:1'] ~= nil)
    assert.is_true(ways['sim:0 > sim:0 to sim:1'] >= 3 and ways['sim:0 to sim:1 > sim:1'] >= 3)
    local last = 0
    for _, e in ipairs(list) do if e.ph == 'X' then last = math.max(last, e.ts + e.dur) end end
    assert.is_true(last > 6e6, 'six messages of a second each, one after the other')
  end)
end)
