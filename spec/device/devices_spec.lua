--- Graphs and loops cut over devices: placement, transfers, memory, the virtual clock.
local df = require 'dflow'
local ordered_it = require('spec.support').ordered_it(it, pending)
local one_owner_it = require('spec.support').one_owner_it(it, pending)

local function on(spec, fn) return df.device(spec, fn) end

--- Runs and gives the result and the counters.
local function counted(s, fetches, feeds)
  local h = s:start(fetches, feeds)
  local result = h:wait()
  return result, h:stats()
end

local function fails(fn, ...)
  local ok, err = pcall(fn, ...)
  assert(not ok, 'it did not fail')
  return err
end

describe('devices', function()
  it('are those of the default session: the host', function()
    local list = df.devices()
    assert.equal('cpu:0', list[1].name)
    assert.equal('cpu', list[1].kind)
    assert.is_number(list[1].memory.in_use)
    assert.is_number(list[1].memory.peak)
  end)

  it('are made when a graph names them, in a session that lists none', function()
    local x = on('sim:3', function() return df.constant{ 1.0, 2.0 } * 2 end)
    assert.same({ 2, 4 }, df.run(x):totable())
    local list = df.devices()
    assert.equal('sim:3', list[#list].name)
    assert.equal('sim', list[#list].kind)
    assert.is_true(list[#list].memory.limit > 0)
  end)

  it('are asked for by name, in TensorFlow\'s long form, and by a function of the op type', function()
    local a = on('sim:1', function() return df.constant(1.0) + 1 end)
    local b = on('/job:worker/task:0/device:SIM:1', function() return df.constant(1.0) + 1 end)
    local c = on('/device:SIM:1', function() return df.constant(1.0) + 1 end)
    local d, e = on(function(type) return type == 'Add' and 'sim:1' or nil end, function()
      local sum = df.constant(1.0) + df.placeholder_with_default(2.0)
      return sum, sum * 2
    end)
    assert.same({ 'sim:1', 'sim:1', 'sim:1', 'sim:1' }, { a.device, b.device, c.device, d.device })
    assert.is_nil(e.device)
    assert.equal('sim:1', a.op.device)
    assert.is_nil(df.constant(1).device)
  end)

  it('may be several CPUs, where a session lists them: values are the same, memory and transfers are told of each', function()
    local function build()
      local w, x = df.Variable{ 1.0, 2.0 }, df.placeholder('float32', { 2 })
      local q = df.FIFOQueue(3, 'float32', { shapes = { { 2 } } })
      local _, y = df.while_loop(function(i) return i:lt(5) end, function(i, y)
        return i + 1, df.cond(i:gt(2), function() return y * w end, function() return df.tanh(y) + x end)
      end, { df.int32(0), x * 2 })
      local put = q:enqueue(y)
      local words = df.string_join({ df.constant{ 'a', 'a text that does not fit where short ones do' }, df.constant{ 'b', 'c' } })
      local back = df.control_dependencies({ put }, function() return q:dequeue() end)
      return { y, df.gradients(y, w), back, words, df.map_fn(function(row) return row * row end, y) }, x
    end
    local function run(options, spec)
      df.reset()
      local fetches, x = on(spec, build)
      local s = df.Session(options)
      local result, stats = counted(s, fetches, { [x] = { 0.3, -0.2 } })
      local text = {}
      for i, v in ipairs(result) do text[i] = tostring(v) end
      local placed = s:placement(fetches)
      s:close()
      return table.concat(text, '\n'), stats, placed
    end
    local expected = run(nil, 'cpu:0')
    for _, more in ipairs{ {}, { owners = 2 }, { clock = 'virtual' }, { save = 'swap' } } do
      more.devices = { 'cpu:0', 'cpu:1' }
      local found, stats, placed = run(more, '/device:CPU:1')
      assert.equal(expected, found)
      local by = {}
      for _, p in ipairs(placed) do by[p.device] = (by[p.device] or 0) + 1 end
      assert.is_true(by['cpu:1'] > 20)
      assert.is_true(stats.memory['cpu:1'].peak > 0)
      assert.is_number(stats.memory['cpu:0'].peak)
      assert.is_true(stats.transfers['cpu:1 -> cpu:0'].messages > 0)
    end
    df.reset()
    local x = on('cpu:1', function() return df.zeros{ 1024, 1024 } + df.placeholder_with_default(1.0) end)
    local err = fails(df.run, x)
    assert.matches("there is no device 'cpu:1'.*df.Session{devices = {'cpu:0', 'cpu:1'}}", tostring(err))
    local s = df.Session{ devices = { 'cpu:0', { 'cpu:1', memory = '1MB' } } }
    assert.equal('resource_exhausted', fails(s.run, s, x).code)
  end)

  it('that stand around others give way to them, and come back', function()
    local x = df.placeholder('float32', {})
    local a, b, c, d = on('sim:0', function()
      local first = x + 1
      local second = on('sim:1', function() return x + 2 end)
      local none = on('', function() return x + 3 end)
      return first, second, none, x + 4
    end)
    assert.same({ 'sim:0', 'sim:1', 'sim:0' }, { a.device, b.device, d.device })
    assert.is_nil(c.device)
  end)

  it('that are not there are an error when the run begins, with the line', function()
    local x = on('sim:9', function() return df.placeholder('float32', {}) + 1 end)
    local s = df.Session{ devices = { 'cpu:0', 'sim:0' } }
    local err = fails(s.run, s, x, { [x.op.inputs[1]] = 1 })
    assert.equal('invalid_argument', err.code)
    assert.matches("there is no device 'sim:9'", tostring(err))
    assert.matches('cpu:0, sim:0', tostring(err))
    assert.matches('devices_spec.lua:', err.source)
    local y = on('tpu:0', function() return df.placeholder_with_default(1.0) + 1 end)
    err = fails(df.run, y)
    assert.equal('invalid_argument', err.code)
    assert.matches("'tpu:0'", tostring(err))
  end)

  it('without a kernel for an op are an error that names both, or run it elsewhere under soft placement', function()
    local text = df.placeholder('string', {})
    local joined = on('sim:0', function() return df.string_join{ text, text } end)
    local s = df.Session{ devices = { 'cpu:0', 'sim:0' } }
    local err = fails(s.run, s, joined, { [text] = 'a' })
    assert.equal('invalid_argument', err.code)
    assert.matches('StringJoin', tostring(err))
    assert.matches('sim:0', tostring(err))
    local soft = df.Session{ devices = { 'cpu:0', 'sim:0' }, soft_placement = true }
    assert.equal('aa', soft:run(joined, { [text] = 'a' }))
    local elsewhere = on('sim:5', function() return df.placeholder_with_default(3.0) * 2 end)
    assert.equal(6, soft:run(elsewhere))
  end)

  it('that are accelerators have no kernels for strings, be they read, made or only passed on', function()
    local text, x = df.placeholder('string', {}), df.placeholder('float32', {})
    local hard, soft = df.Session{ devices = { 'cpu:0', 'sim:0' } }, df.Session{ devices = { 'cpu:0', 'sim:0' }, soft_placement = true }
    for kind, make in pairs{
      StringLength = function() return df.string_length(text) end, StringToNumber = function() return df.string_to_number(text) end,
      AsString = function() return df.as_string(x) end, Substr = function() return df.substr(text, 0, 1) end,
      Equal = function() return df.equal(text, '3') end, Identity = function() return df.identity(text) end,
      Shape = function() return df.shape(text) end, Pack = function() return df.stack{ text, text } end,
    } do
      local feeds = { [text] = '3', [x] = 2 }
      local there, here = on('sim:0', make), make()
      local err = fails(hard.run, hard, there, feeds)
      assert.equal('invalid_argument', err.code)
      assert.matches('op ' .. kind .. ' .*has no kernel for sim:0', tostring(err))
      assert.same({ tostring(hard:run(here, feeds)), 'cpu:0' }, { tostring(soft:run(there, feeds)), soft:placement(there)[#soft:placement(there)].device })
    end
    hard:close()
    soft:close()
  end)

  it('get large values beside what is computed, or as late as can be, and the run ends when all have come', function()
    local shell = require 'spec.shell'
    local program = [[
      local s = df.Session{ devices = { "cpu:0", { "sim:0", memory = "8MB", bandwidth = "1GB/s", latency = "20us" } }, owners = %d }
      local x = df.placeholder("float32", { 200, 200 })
      local function mean(device)
        return df.reduce_mean((select(2, df.while_loop(function(i) return i:lt(20) end, function(i, u)
          return i + 1, df.device(device, function() return df.sin(u * 0.5) end) + x
        end, { df.int32(0), x }, { parallel_iterations = 4 }))))
      end
      local function run(y) return ("%%.9g"):format(s:run(y, { [x] = df.run(df.ones{ 200, 200 }) })) end
      local there, here = run(mean "sim:0"), run(mean "cpu:0")
      print(there == here and "equal" or there .. " but " .. here)]]
    for _, stress in ipairs{ '', 'late:1', 'late:7' } do
      for owners = 1, 2 do
        local r = shell.run(("DFLOW_STRESS='%s' %s -e '%s'"):format(stress, shell.dflow, program:format(owners)))
        assert.equal('equal\n', r.out, r.err)                    -- a debug build looks at the books when it ends
      end
    end
  end)

  it('send what a line carries one after the other: it takes as long as all of it does', function()
    local n, rows = 6, 25000
    local s = df.Session{ devices = { 'cpu:0', { 'sim:0', bandwidth = '10MB/s' } } }
    local x, sums = df.placeholder('float32', { rows }), {}
    for k = 1, n do
      local y = x + k
      sums[k] = on('sim:0', function() return df.reduce_max(y) end)
    end
    local fed = df.run(df.zeros{ rows })
    for _ = 1, 2 do
      local began = df.clock()
      assert.same({ 1, 2, 3, 4, 5, 6 }, s:run(sums, { [x] = fed }))
      local least = n * rows * 4 / (10 * 2 ^ 20)
      assert.is_true(df.clock() - began >= 0.99 * least, ('%g s, at least %g'):format(df.clock() - began, least))
    end
    s:close()
  end)

  it('are described by options that are checked', function()
    for _, case in ipairs{
      { { devices = { 'gpux' } }, 'gpux' }, { { devices = {} }, 'devices is a list' }, { { devices = { { 'sim:0', memory = '12 parsecs' } } }, 'memory of sim:0' },
      { { devices = { { 'sim:0', bandwidth = -1 } } }, 'bandwidth' }, { { devices = { { 'sim:0', latency = '5 weeks' } } }, 'latency' },
      { { devices = { { 'sim:0', colour = 1 } } }, "no option 'colour'" }, { { devices = { 'sim:0', 'sim:0' } }, 'twice' }, { { devices = { 7 } }, 'devices%[1%]' },
      { { owners = 0 }, 'owners' }, { { clock = 'sundial' }, 'clock' }, { { soft_placement = 1 }, 'soft_placement' }, { { memory = 'much' }, 'memory' },
      { { memory = '900000TB' }, 'at most 128TB' }, { { devices = { { 'sim:0', memory = '129TB' } } }, 'memory of sim:0 is at most 128TB' },
      { { save = 'maybe' }, 'save' }, { { devices = { { 'sim:0', speed = 0 } } }, 'speed' },
    } do
      local err = fails(df.Session, case[1])
      assert.equal('invalid_argument', err.code)
      assert.matches(case[2], tostring(err))
    end
    for text, bytes in pairs{ ['70000B'] = 70000, ['70 KB'] = 70 * 1024, ['2MB'] = 2 * 1024 ^ 2, ['1GB'] = 1024 ^ 3, [70000] = 70000 } do
      local limited = df.Session{ devices = { 'cpu:0', { 'sim:1', memory = text } } }
      limited:run(df.float32(1))
      assert.equal(bytes, limited:stats().memory['sim:1'].limit)
      limited:close()
    end
    local s = df.Session{ devices = { 'cpu:0', { 'sim:1', memory = '64KB', bandwidth = '1GB/s', latency = '5us', speed = 2.5 } } }
    assert.equal(65536, s:stats().memory['sim:1'].limit)
  end)
end)

describe('what crosses', function()
  local s
  before_each(function() s = df.Session{ devices = { 'cpu:0', 'sim:0', 'sim:1', 'sim:2' } } end)

  it('crosses once for each destination, however many read it there', function()
    local x = df.placeholder('float32', { 4 })
    local a = on('sim:0', function() return x * 2 end)
    local b, c, d = on('sim:1', function() return a + 1, a * a, a:reduce_sum() end)
    local e = on('sim:2', function() return a - 1 end)
    local r, stats = counted(s, { b, c, d, e }, { [x] = { 1, 2, 3, 4 } })
    assert.same({ 3, 5, 7, 9 }, r[1]:totable())
    assert.same({ messages = 1, bytes = 16, dead = 0 }, stats.transfers['sim:0 -> sim:1'])
    assert.same({ messages = 1, bytes = 16, dead = 0 }, stats.transfers['sim:0 -> sim:2'])
    assert.same({ messages = 1, bytes = 16, dead = 0 }, stats.transfers['cpu:0 -> sim:0'])
    assert.is_nil(stats.transfers['cpu:0 -> sim:1'])
  end)

  it('may be fetched as well: constants, what is fed, variables', function()
    local x, c, w
    on('sim:0', function() x, c, w = df.placeholder('float32', { 2 }), df.constant{ 1., 2. }, df.Variable({ 5., 6. }) end)
    local host = on('cpu:0', function() return c + x + w end)
    local other = on('sim:1', function() return c * x * w end)
    local function values(fetches, feeds)
      local r = s:run(fetches, feeds)
      for k, v in ipairs(r) do r[k] = v:totable() end
      return r
    end
    assert.same({ { 1, 2 }, { 3, 4 }, { 5, 6 }, { 9, 12 }, { 15, 48 } }, values({ c, x, w, host, other }, { [x] = { 3, 4 } }))
    assert.same({ { 10, 20 }, { 18, 30 } }, values({ c, host }, { [x] = { 3, 4 }, [c] = { 10, 20 } }))
    assert.same({ { 1, 2 }, { 5, 6 } }, values{ c, w })
  end)

  it('is nothing where one device does it all', function()
    local _, stats = counted(s, df.constant{ 1.0, 2 } * 2)
    assert.same({}, stats.transfers)
  end)

  ordered_it('may be dead: a signal for each destination', function()
    local p, x = df.placeholder('bool', {}), df.placeholder('float32', { 2 })
    local a = on('sim:0', function() return x * 2 end)
    local y = df.cond(p, function() return on('sim:1', function() return a + 1 end) end, function() return on('sim:2', function() return a - 1 end) end)
    local r, stats = counted(s, y, { [p] = true, [x] = { 1, 2 } })
    assert.same({ 3, 5 }, r:totable())
    assert.equal(0, stats.transfers['sim:0 -> sim:1'].dead)
    assert.equal(1, stats.transfers['sim:0 -> sim:2'].dead)
    r, stats = counted(s, y, { [p] = false, [x] = { 1, 2 } })
    assert.same({ 1, 3 }, r:totable())
    assert.equal(1, stats.transfers['sim:0 -> sim:1'].dead)
  end)

  one_owner_it('of a loop is the predicate, once an iteration for each device that takes part; a loop constant once', function()
    local w = df.placeholder('float32', { 8 })
    local _, y = df.while_loop(function(i) return i:lt(10) end, function(i, y)
      return i + 1, on('sim:0', function() return y * w + w end)
    end, { df.int32(0), df.zeros{ 8 } })
    local r, stats = counted(s, y, { [w] = { .5, .5, .5, .5, .5, .5, .5, .5 } })
    assert.is_true(math.abs(r:at(0) - (1 - 0.5 ^ 10)) < 1e-6)
    local there = stats.transfers['cpu:0 -> sim:0']
    assert.equal(11 + 1, there.messages)
    assert.equal(11 + 32, there.bytes)
    assert.equal(1, stats.transfers['sim:0 -> cpu:0'].messages)
  end)

  it('adds up over the runs of a session', function()
    local x = df.placeholder('float32', {})
    local y = on('sim:0', function() return x * 2 end)
    for i = 1, 3 do assert.equal(2 * i, s:run(y, { [x] = i })) end
    assert.equal(3, s:stats().transfers['cpu:0 -> sim:0'].messages)
    assert.equal(12, s:stats().transfers['cpu:0 -> sim:0'].bytes)
    assert.is_true(s:stats().seconds > 0)
  end)

  it('goes by an identity that was put on another device', function()
    local x = df.placeholder('float32', { 2 })
    local y = on('sim:1', function() return df.identity(on('sim:0', function() return x * 2 end)) end)
    local _, stats = counted(s, y, { [x] = { 1, 2 } })
    assert.equal(1, stats.transfers['sim:0 -> sim:1'].messages)
  end)
end)

describe('a placement', function()
  local function placed(s, x, op)
    for _, p in ipairs(s:placement(x)) do if p.op == op then return p end end
  end

  it('lists the nodes of a run with their devices and why they are there', function()
    local x = df.placeholder('float32', {})
    local y = on('sim:0', function() return x:sin() end)
    local p = placed(df.Session{ devices = { 'cpu:0', 'sim:0' } }, y, 'Sin')
    assert.equal('sim:0', p.device)
    assert.equal(y.op.name, p.node)
    assert.matches('asked for', p.why)
  end)

  it('has a resource with its users, wherever these asked to be', function()
    local v = on('sim:1', function() return df.Variable{ 1.0, 2 } end)
    local y = on('sim:0', function() return v:assign_add{ 1, 1 } end)
    local s = df.Session{ devices = { 'cpu:0', 'sim:0', 'sim:1' } }
    assert.equal('sim:1', placed(s, y, 'AssignAddVariableOp').device)
    assert.same({ 2, 3 }, s:run(y):totable())
    assert.is_true(s:stats().memory['sim:1'].in_use > 0)
    assert.same({ 2, 3 }, s:run(v):totable())
  end)

  it('has gradients with their forward operations', function()
    local x, w = df.placeholder('float32', { 2, 2 }), df.placeholder('float32', { 2, 2 })
    local y = on('sim:1', function() return x:matmul(w) end)
    local g = df.gradients(y:reduce_sum(), w)
    local s = df.Session{ devices = { 'cpu:0', 'sim:1' } }
    for _, p in ipairs(s:placement(g)) do if p.op == 'MatMul' then assert.equal('sim:1', p.device) end end
  end)

  it('takes a variable, an array or a queue for where it lies', function()
    local made = df.device('sim:1', function()
      return { df.Variable(1.0), df.TensorArray('float32', 2), df.FIFOQueue(2, 'float32') }
    end)
    local x = df.placeholder('float32', {})
    local s = df.Session{ devices = { 'cpu:0', 'sim:0', 'sim:1' } }
    for i, what in ipairs(made) do
      local y = df.colocate_with(what, function() return x:cos{ name = 'y' .. i } end)
      for _, p in ipairs(s:placement(y)) do
        if p.node == 'y' .. i then assert.same({ 'sim:1', true }, { p.device, p.why:find('asked to be with', 1, true) ~= nil }) end
      end
    end
    s:close()
  end)

  it('takes colocate_with at its word', function()
    local x = df.placeholder('float32', {})
    local a = on('sim:1', function() return x + 1 end)
    local b = df.colocate_with(a, function() return x:cos() end)
    assert.equal('sim:1', placed(df.Session{ devices = { 'cpu:0', 'sim:1' } }, b, 'Cos').device)
  end)

  ordered_it('puts what computes much on a device that computes faster, where that pays for the way', function()
    local x = df.placeholder('float32', { 512, 512 })
    local y = df.tanh(x:matmul(x)):reduce_sum()
    local function at(speed, bandwidth)
      local s = df.Session{ devices = { 'cpu:0', { 'sim:0', speed = speed, bandwidth = bandwidth } }, clock = 'virtual' }
      local p = placed(s, y, 'MatMul')
      s:run(y, { [x] = df.run(df.ones{ 512, 512 }) })
      local seconds = s:stats().seconds
      s:close()
      return p, seconds
    end
    local fast, soon = at(40, '10GB/s')
    assert.equal('sim:0', fast.device)
    assert.matches('a device that computes faster', fast.why)
    local near, late = at(40, '10MB/s')
    assert.equal('cpu:0', near.device)
    assert.is_true(soon < late)
    assert.equal('cpu:0', at(1, '10GB/s').device)
  end)

  ordered_it('computes what a loop goes on by where its counter is, not where it is read', function()
    local _, x = df.while_loop(function(i) return i:lt(60) end, function(i, x)
      return i + 1, on('sim:0', function() return x + 1 end)
    end, { df.int32(0), df.float32(0) })
    local s = df.Session{ devices = { 'cpu:0', { 'sim:0', latency = '50us', speed = 10 } }, clock = 'virtual' }
    assert.equal(placed(s, x, 'NextIteration').device, placed(s, x, 'Less').device)          -- the first one is the counter's
    s:run(x)
    assert.is_true(s:stats().seconds < 60 * 50e-6)
    s:close()
  end)

  one_owner_it('goes by what nodes took in a run that was recorded, from the next one on', function()
    local x = df.placeholder('float32', { -1, -1 })
    local y = x:matmul(x):reduce_sum()
    local feeds = { [x] = df.run(df.fill({ 600, 600 }, 1.5)) }
    local s = df.Session{ devices = { 'cpu:0', { 'sim:0', speed = 40, bandwidth = '1GB/s' } }, clock = 'virtual' }
    assert.equal('cpu:0', placed(s, y, 'MatMul').device)      -- as if it were 32 by 32
    local h = s:start(y, feeds, { record = true })
    local value, before = h:wait(), h:stats().seconds
    local p = placed(s, y, 'MatMul')
    assert.equal('sim:0', p.device)
    assert.matches('by what it took in a run', p.why)
    h = s:start(y, feeds)
    assert.equal(value, h:wait())
    assert.is_true(h:stats().seconds < before / 2)
    local made = s:stats().plans.made
    s:run(y, feeds)
    assert.equal(made, s:stats().plans.made)
    s:close()
    -- by the clock: a product measured is one that stays where it is
    s = df.Session{ devices = { 'cpu:0', 'sim:0' } }
    h = s:start(y, feeds, { log = true })
    assert.equal(value, h:wait())
    p = placed(s, y, 'MatMul')
    assert.equal('cpu:0', p.device)
    s:close()
  end)

  it('puts what asked for nothing on the first device of the list', function()
    local x = df.placeholder('float32', {})
    local s = df.Session{ devices = { 'sim:0', 'cpu:0' } }
    assert.equal('sim:0', placed(s, x:exp():sin(), 'Sin').device)
  end)
end)

describe('memory of a device', function()
  it('is counted, and given back', function()
    local s = df.Session{ devices = { 'cpu:0', { 'sim:0', memory = '1MB' } } }
    local x = on('sim:0', function() return (df.zeros{ 100, 100 } + 1):reduce_sum() end)
    assert.equal(10000, s:run(x))
    local m = s:stats().memory['sim:0']
    assert.equal(2 ^ 20, m.limit)
    assert.is_true(m.peak >= 40000)
    assert.equal(0, m.in_use)
  end)

  it('that is not enough is an error that names the largest holders, and the session goes on', function()
    local s = df.Session{ devices = { 'cpu:0', { 'sim:0', memory = '256KB' } } }
    local x = df.placeholder('float32', { 128, 128 })
    local y = on('sim:0', function()
      local big = x + 1
      return df.concat({ big, big * 2, big * 3, big * 4 }, 0)
    end)
    local err = fails(s.run, s, y, { [x] = df.run(df.zeros{ 128, 128 }) })
    assert.equal('resource_exhausted', err.code)
    assert.matches('sim:0', tostring(err))
    assert.matches('largest holders', tostring(err))
    assert.matches('devices_spec.lua:%d+', tostring(err))
    assert.equal(0, s:stats().memory['sim:0'].in_use)
    assert.equal(3, s:run(on('sim:0', function() return df.placeholder_with_default(1.0) + 2 end)))
  end)
end)

describe('the virtual clock', function()
  local function chain(devices, n, parallel, options)
    local list = { 'cpu:0' }
    for d = 0, devices - 1 do
      local v = { ('sim:%d'):format(d), bandwidth = '10GB/s', latency = '10us', speed = 10 }
      list[#list + 1] = v
    end
    local x = df.placeholder('float32', { 64, 64 })
    local _, y = df.while_loop(function(i) return i:lt(n) end, function(i, y)
      local h = y
      for d = 0, devices - 1 do h = on(('sim:%d'):format(d), function() return h:matmul(x) end) end
      return i + 1, y
    end, { df.int32(0), df.zeros{ 64, 64 } }, { parallel_iterations = parallel })
    local all = { devices = list, clock = 'virtual' }
    for k, v in pairs(options or {}) do all[k] = v end
    local s = df.Session(all)
    return s, y, { [x] = df.run(df.zeros{ 64, 64 }) }
  end

  it('has each op take what its flops or its bytes take, whichever is more: 100 GF/s, 20 GB/s and a microsecond', function()
    local function seconds(build, ...)
      df.reset()
      local xs, feeds = {}, {}
      for i, shape in ipairs{ ... } do
        xs[i] = df.placeholder('float32', shape)
        feeds[xs[i]] = df.run(df.ones(shape))
      end
      local y = on('sim:0', function() return build((table.unpack or unpack)(xs)) end)
      local s = df.Session{ devices = { 'cpu:0', { 'sim:0', speed = 1e-3, bandwidth = '100000GB/s', latency = '0s' } }, clock = 'virtual' }
      local h = s:start(y.op, feeds)
      h:wait()
      local took = h:stats().seconds * 1e-3
      s:close()
      return took - 1e-6
    end
    local function takes(flops, bytes, ...) require('spec.support').near(seconds(...), math.max(flops / 100e9, bytes / 20e9), { rtol = 1e-3 }) end
    local strides = { strides = { 1, 1, 1, 1 }, padding = 'SAME' }
    takes(0, 12e6, function(x) return x + x end, { 1000, 1000 })
    takes(0, 8e6, function(x) return df.exp(x) end, { 1000, 1000 })
    takes(2 * 500 ^ 3, 0, function(x) return x:matmul(x) end, { 500, 500 })
    takes(2 * 3 * 200 ^ 3, 0, function(x) return x:matmul(x) end, { 3, 200, 200 })
    takes(2 * (2 * 50 * 50 * 32) * 3 * 3 * 16, 0, function(x, w) return df.conv2d(x, w, strides) end, { 2, 50, 50, 16 }, { 3, 3, 16, 32 })
    takes(2 * (2 * 50 * 50 * 32) * 9 * 9, 0, function(x, w) return df.depthwise_conv2d_native(x, w, strides) end, { 2, 50, 50, 16 }, { 9, 9, 16, 2 })
    local function backward(to, depthwise)
      return function(x, w, dy)
        local name = (depthwise and 'DepthwiseConv2dNativeBackprop' or 'Conv2DBackprop') .. to
        local sizes = df.int32(to == 'Input' and x.shape or w.shape)
        return require('dflow.front.registry').op(name, to == 'Input' and { sizes, w, dy } or { x, sizes, dy }, { strides = { 1, 1, 1, 1 }, padding = 'SAME' })
      end
    end
    for _, op in ipairs{ 'Input', 'Filter' } do
      takes(2 * (2 * 50 * 50 * 32) * 3 * 3 * 16, 0, backward(op), { 2, 50, 50, 16 }, { 3, 3, 16, 32 }, { 2, 50, 50, 32 })
      takes(2 * (2 * 50 * 50 * 32) * 9 * 9, 0, backward(op, true), { 2, 50, 50, 16 }, { 9, 9, 16, 2 }, { 2, 50, 50, 32 })
    end
  end)

  it('takes no time for an op only if that hands on what it is given, looks at its shape, or is of shapes on the host', function()
    local shell, free = require 'spec.shell', 0
    for file in shell.run('ls runtime/ops/*.c').out:gmatch '%S+' do
      for entry in shell.read(file):gsub('{ %.type = ', '\1'):gmatch '\1([^\1]*)' do
        if entry:find('.work = dfi_work_nothing', 1, true) then
          free = free + 1
          assert(entry:find 'DFI_REMOTE_MOVES' or entry:find 'DFI_REMOTE_LOOKS' or entry:find '%.hosted = true',
            file .. ' has an op that computes and costs nothing: ' .. entry:match '[^,]*')
        end
      end
    end
    assert.is_true(free > 10)
  end)

  it('has a step of an optimizer read and write its variables as far as the gradient goes', function()
    local function seconds(build)
      df.reset()
      local step, feeds = on('sim:0', build)
      local s = df.Session{ devices = { 'cpu:0', { 'sim:0', speed = 1e-3, bandwidth = '100000GB/s', latency = '0s' } }, clock = 'virtual' }
      s:run(step, feeds)
      local h = s:start(step, feeds)
      h:wait()
      local took = h:stats().seconds * 1e-3
      s:close()
      return took - 1e-6
    end
    local registry = require 'dflow.front.registry'
    local n = 200000
    local function variables(count)
      local list = {}
      for i = 1, count do list[i] = df.Variable(df.zeros{ n / 100, 100 }) end
      return list
    end
    local function dense(name, vars, numbers)
      return function()
        local list, grad = variables(vars), df.placeholder('float32', { n / 100, 100 })
        for _, v in ipairs(numbers) do list[#list + 1] = v == 'grad' and grad or df.float32(v) end
        return registry.op(name, list), { [grad] = df.run(df.ones{ n / 100, 100 }) }
      end
    end
    local near = require('spec.support').near
    near(seconds(dense('ResourceApplyGradientDescent', 1, { 0.1, 'grad' })), 3 * 4 * n / 20e9, { rtol = 0.02 })
    near(seconds(dense('ResourceApplyPowerSign', 2, { 0.1, 1, 1, 0.9, 'grad' })), 5 * 4 * n / 20e9, { rtol = 0.02 })
    near(seconds(dense('ResourceApplyAdam', 3, { 0.9, 0.9, 0.1, 0.9, 0.9, 1e-8, 'grad' })), 7 * 4 * n / 20e9, { rtol = 0.02 })
    near(seconds(function()
      local list, grad = variables(2), df.placeholder('float32', { 50, 100 })
      return registry.op('ResourceSparseApplyMomentum', { list[1], list[2], df.float32(0.1), grad, df.range(50), df.float32(0.9) }),
             { [grad] = df.run(df.ones{ 50, 100 }) }
    end), 5 * 4 * 5000 / 20e9, { rtol = 0.1 })
  end)

  it('gives the same seconds every time, whatever the owners and threads', function()
    local seconds = {}
    for _, options in ipairs{ {}, { owners = 4 }, { threads = 1 }, { owners = 2, threads = 2 } } do
      df.reset()
      local s, y, feeds = chain(2, 10, 8, options)
      for _ = 1, 2 do
        local _, stats = counted(s, y, feeds)
        seconds[#seconds + 1] = stats.seconds
      end
    end
    assert.is_true(seconds[1] > 0)
    for i = 2, #seconds do assert.equal(seconds[1], seconds[i]) end
  end)

  it('has an iteration begin after the last has ended where the window is 1, and overlaps them where it is wider', function()
    local function time(parallel)
      df.reset()
      local x = df.placeholder('float32', { 256, 256 })
      local list = { 'cpu:0' }
      for d = 0, 7 do list[#list + 1] = ('sim:%d'):format(d) end
      local out = df.TensorArray('float32', 32)
      local _, ta = df.while_loop(function(i) return i:lt(32) end, function(i, ta)
        local h = x
        for d = 0, 7 do h = on(('sim:%d'):format(d), function() return h:matmul(x) end) end
        return i + 1, ta:write(i, h:reduce_sum())
      end, { df.int32(0), out }, { parallel_iterations = parallel })
      local s = df.Session{ devices = list, clock = 'virtual' }
      local _, stats = counted(s, ta:stack(), { [x] = df.run(df.zeros{ 256, 256 }) })
      return stats.seconds
    end
    local one, wide = time(1), time(32)
    assert.is_true(one / wide > 5, ('%g / %g'):format(one, wide))
  end)

  it('takes longer over a slower link, and on a slower device', function()
    local function time(bandwidth, speed)
      df.reset()
      local x = df.placeholder('float32', { 128, 128 })
      local y = on('sim:0', function() return x:matmul(x) end)
      local s = df.Session{ devices = { 'cpu:0', { 'sim:0', bandwidth = bandwidth, latency = '1us', speed = speed } }, clock = 'virtual' }
      local _, stats = counted(s, y, { [x] = df.run(df.zeros{ 128, 128 }) })
      return stats.seconds
    end
    assert.is_true(time('1GB/s', 1) > time('10GB/s', 1))
    assert.is_true(time('1GB/s', 1) > time('1GB/s', 10))
    local s, bytes = time('1GB/s', 1000), 128 * 128 * 4
    assert.is_true(math.abs(s - (2 * bytes / 2 ^ 30 + 2e-6)) < 1e-5, tostring(s))
  end)
end)

describe('the real clock', function()
  it('makes messages take as long as their link says', function()
    local x = df.placeholder('float32', {})
    local y = on('sim:0', function() return x * 2 end)
    local s = df.Session{ devices = { 'cpu:0', { 'sim:0', latency = '20ms' } } }
    local h = s:start(on('cpu:0', function() return y + 1 end), { [x] = 1 })
    assert.equal(3, h:wait())
    assert.is_true(h:stats().seconds >= 0.02)
    assert.is_true(h:stats().seconds < 60)
  end)
end)

describe('swapping', function()
  local rows = {}
  for i = 1, 32 do
    rows[i] = {}
    for j = 1, 32 do rows[i][j] = ((i * 7 + j * 13) % 17 - 8) / 40 end
  end

  --- The gradient of a loop of products on sim:0, and the counters of its run.
  local function gradient(save, memory, options)
    df.reset()
    local x = df.placeholder('float32', { 32, 32 })
    local y = on('sim:0', function()
      local _, y = df.while_loop(function(i) return i:lt(60) end, function(i, y) return i + 1, (y:matmul(x)):tanh() end, { df.int32(0), x }, { save = save })
      return y
    end)
    local g = df.gradients(y:reduce_sum(), x)
    local all = { devices = { 'cpu:0', { 'sim:0', memory = memory, bandwidth = '5GB/s' } } }
    for k, v in pairs(options or {}) do all[k] = v end
    local s = df.Session(all)
    local h = s:start(g, { [x] = rows })
    local ok, result = pcall(h.wait, h)
    return ok and result:totable() or nil, h:stats(), result
  end

  it('counts what comes back, not a constant that was on the host from the start', function()
    local w = df.Variable(df.fill({ 64, 64 }, 0.01))
    local _, x = on('sim:0', function()
      return df.while_loop(function(i) return i:lt(5) end, function(i, x) return i + 1, (x:matmul(w)):tanh() end, { df.int32(0), df.ones({ 64, 64 }) })
    end)
    local s = df.Session{ devices = { 'cpu:0', 'sim:0' } }
    s:run(df.gradients(x:reduce_sum(), w))
    local swap = s:stats().swap
    assert.same({ 0, 0, 0, 0 }, { swap.bytes_out, swap.bytes_in, swap.tensors_out, swap.tensors_in })
    s:close()
  end)

  it('gives the same bits, in a memory that keeping does not fit in, by either clock', function()
    local whole, kept = gradient('keep', '64MB')
    assert.equal(0, kept.swap.tensors_out)
    for _, clock in ipairs{ 'real', 'virtual' } do
      local result, stats, err = gradient('keep', '120KB', { clock = clock })
      assert.is_nil(result)
      assert.equal('resource_exhausted', err.code)
      assert.matches('largest holders', tostring(err))
      assert.equal(0, stats.memory['sim:0'].in_use)
      for _, how in ipairs{ { 'swap' }, { nil, 'swap' }, { nil, 'auto' } } do
        result, stats, err = gradient(how[1], '120KB', { clock = clock, save = how[2] })
        assert.same(whole, result, tostring(err))
        assert.is_true(stats.swap.tensors_out > 0)
        assert.equal(stats.swap.tensors_out * 4096, stats.swap.bytes_out)
        assert.equal(stats.swap.tensors_in * 4096, stats.swap.bytes_in)
        assert.is_true(stats.swap.stall_seconds >= 0)
        assert.equal(0, stats.memory['sim:0'].in_use)
        assert.is_true(stats.memory['sim:0'].peak <= 120 * 1024)
      end
    end
  end)

  it('moves the elements of a copy as those of its array, whether they were there when it was made or came later', function()
    local registry, arrays = require 'dflow.front.registry', require 'dflow.front.tensor_array'
    local n, wanted = 24, 1
    local function sum_of(copy_at)
      df.reset()
      local x, d = df.placeholder('float32', { 32, 32 }), df.TensorArray('float32', 1).d
      local function copied(ta, now) return now and arrays.wrap(registry.op1('TensorArrayCopy', ta.handle), d) or ta end
      return on('sim:0', function()
        local made = arrays.wrap(registry.op('TensorArray', { df.int32(n) }, { dtype = 'float32', swap = wanted }), d)
        local _, full = df.while_loop(function(i) return i:lt(n) end, function(i, ta) return i + 1, ta:write(i, x * df.cast(i, 'float32')) end,
          { df.int32(0), copied(made, copy_at == 'first') })
        full = copied(full, copy_at == 'last')
        local _, sum = df.while_loop(function(i) return i:lt(n) end, function(i, sum) return i + 1, sum + full:read(n - 1 - i) end,
          { df.int32(0), df.zeros{ 32, 32 } })
        return sum:reduce_sum()
      end), x
    end
    local out = {}
    for k, copy_at in ipairs{ 'never', 'first', 'last' } do
      local sum, x = sum_of(copy_at)
      local s = df.Session{ devices = { 'cpu:0', { 'sim:0', memory = '64KB', bandwidth = '5GB/s' } } }
      assert.equal(1024 * n * (n - 1) / 2, s:run(sum, { [x] = df.run(df.ones{ 32, 32 }) }))
      out[k] = s:stats().swap.tensors_out
      s:close()
    end
    assert.is_true(out[1] > 0)
    assert.equal(out[1], out[2])
    assert.is_true(out[3] >= out[1])
  end)

  it('moves nothing while there is room, and nothing that a loop wants kept', function()
    local _, stats = gradient('swap', '64MB')
    assert.equal(0, stats.swap.tensors_out)
    _, stats = gradient('keep', '512KB', { save = 'swap' })
    assert.equal(0, stats.swap.tensors_out)
  end)
end)

describe('what-if', function()
  local function recorded(parallel, link)
    df.reset()
    local x = df.placeholder('float32', { 64, 64 })
    local list = { 'cpu:0' }
    for d = 0, 3 do list[#list + 1] = { ('sim:%d'):format(d), bandwidth = link.bandwidth, latency = link.latency, speed = link.speed } end
    local function on_host(fn) return on('cpu:0', fn) end                     -- where it is, whatever computes fast
    local _, ta = df.while_loop(function(i) return on_host(function() return i:lt(20) end) end, function(i, ta)
      local h = x
      for d = 0, 3 do h = on(('sim:%d'):format(d), function() return h:matmul(x) end) end
      return on_host(function() return i + 1 end), ta:write(i, on_host(function() return h:reduce_sum() end))
    end, { df.int32(0), df.TensorArray('float32', 20) }, { parallel_iterations = parallel })
    local h = df.Session{ devices = list, clock = 'virtual' }:start(ta:stack(), { [x] = df.run(df.zeros{ 64, 64 }) }, { record = true })
    h:wait()
    return h
  end

  it('says of a recorded run what runs with other links, speeds and windows take', function()
    local h = recorded(32, { bandwidth = '1GB/s', latency = '5us', speed = 2 })
    assert.is_true(math.abs(h:whatif().seconds / h:stats().seconds - 1) < 1e-9)
    for _, case in ipairs{ { 1, '1GB/s', '5us', 2 }, { 4, '1GB/s', '5us', 2 }, { 32, '10GB/s', '5us', 2 }, { 32, '1GB/s', '50us', 2 }, { 1, '10GB/s', '1us', 20 } } do
      local link = { bandwidth = case[2], latency = case[3], speed = case[4] }
      local real = recorded(case[1], link):stats().seconds
      link.parallel_iterations = case[1]
      assert.is_true(math.abs(h:whatif(link).seconds / real - 1) < 0.1)
    end
  end)

  it('gives the critical path, whose steps add up to the whole', function()
    local w = recorded(4, { bandwidth = '1GB/s', latency = '5us', speed = 2 }):whatif{}
    local sum = 0
    for _, step in ipairs(w.critical_path) do
      assert.is_string(step.op)
      assert.is_number(step.iteration)
      assert.matches('^%a+:%d+$', step.device)
      sum = sum + step.seconds
    end
    assert.is_true(math.abs(sum / w.seconds - 1) < 1e-6)
  end)

  it('gives a timeline: what took time, where, from when to when, and what it came from', function()
    local h = recorded(4, { bandwidth = '1GB/s', latency = '5us', speed = 2 })
    local w = h:whatif{ timeline = true }
    local by_id, free, last, messages = {}, {}, 0, 0
    for _, e in ipairs(w.timeline) do
      by_id[e.id] = e
      assert.is_true(e.begins >= last and e.ends > e.begins and e.ends <= w.seconds)
      last = e.begins
      if e.kind == 'work' then
        assert.is_nil(e.to)
        assert.is_true(e.begins >= (free[e.device] or 0))
        free[e.device] = e.ends
      else
        assert.equal('message', e.kind)
        assert.is_string(e.to)
        messages = messages + 1
      end
    end
    for _, e in ipairs(w.timeline) do assert.is_true(not e.cause or by_id[e.cause].begins <= e.begins) end
    local sent = 0
    for _, link in pairs(h:stats().transfers) do sent = sent + link.messages end
    assert.equal(sent, messages)
    assert.is_nil(h:whatif().timeline)
    assert.matches('timeline is a boolean', tostring(fails(h.whatif, h, { timeline = 3 })))
  end)

  it('folds devices: what went between two of them stays on one', function()
    local h = recorded(4, { bandwidth = '1GB/s', latency = '5us', speed = 2 })
    for _, e in ipairs(h:whatif{ devices = 2, timeline = true }.timeline) do
      assert.is_true(e.device == 'cpu:0' or e.device == 'sim:0' or e.device == 'sim:1', e.device)
    end
    for _, e in ipairs(h:whatif{ devices = 1, timeline = true }.timeline) do
      assert.is_false(e.device == 'sim:0' and e.to == 'sim:0')
    end
  end)

  it('needs a run that was recorded and is over, and knows its options', function()
    local h = df.start(df.placeholder_with_default(1.0) * 2)
    h:wait()
    assert.matches('record = true', tostring(fails(h.whatif, h)))
    assert.matches("no option 'colour'", tostring(fails(h.whatif, h, { colour = 1 })))
    local r = df.start(df.placeholder_with_default(1.0) * 2, {}, { record = true })
    assert.equal(2, r:wait())
    assert.is_true(r:whatif{}.seconds > 0)
  end)
end)

describe('frames of a run on several devices', function()
  it('are found under one name, with the devices that take part', function()
    local s = df.Session{ devices = { 'cpu:0', 'sim:0', 'sim:1' } }
    local i, x = df.while_loop(function(i) return i:lt(5) end, function(i, x)
      return i + 1, df.device('sim:1', function() return df.device('sim:0', function() return x * 2 end) + 1 end)
    end, { df.int32(0), df.float32(1) })
    local h = s:start({ i, x }, nil, { paused = true })
    h:step(2, 'iteration')
    local found = {}
    for _, f in ipairs(h:frames()) do if f.name == 'while' then found[#found + 1] = f.devices end end
    assert.are.equal(1, #found)
    local has = {}
    for _, name in ipairs(found[1]) do has[name] = true end
    assert.is_true(has['sim:0'] and has['sim:1'], table.concat(found[1], ' '))
    h:resume()
    h:wait()
    s:close()
  end)

  local function loop(owners, n)
    df.reset()
    local x = df.placeholder('float32', { 4 })
    local _, a, b = df.while_loop(function(i) return i:lt(n or 12) end, function(i, a, b)
      local u = df.device('sim:0', function() return (a * 1.01):tanh() end)
      return i + 1, u, df.device('sim:1', function() return (u + b):sin() end)
    end, { df.int32(0), x, x }, { name = 'loop', parallel_iterations = 3 })
    local s = df.Session{ devices = { 'cpu:0', 'sim:0', 'sim:1' }, owners = owners }
    return s, s:start(a + b, { [x] = { 1, 2, 3, 4 } }, { paused = true }), s:run(a + b, { [x] = { 1, 2, 3, 4 } }):totable()
  end

  it('say how far each device is in a loop, what it waits for, and from which', function()
    local s, h = loop(1)
    h:break_at{ op = 'loop/Sin', iteration = 7 }
    h:resume()
    h:settle()
    local part
    for _, f in ipairs(h:frames()) do
      if f.name == 'loop' then for _, p in ipairs(f.partitions) do if p.device == 'sim:1' then part = p end end end
    end
    assert.same({ 7, 'ready', 'loop/Sin' }, { part.iteration, part.state, part.op.name })
    assert.matches('\n      sim:1  iteration 7: loop/Sin is ready', tostring(h:frames()))
    h:cancel()
    s:close()
    s, h = loop(1)
    local seen = {}
    while h:state() ~= 'done' do
      for device, waits in tostring(h:frames()):gmatch '\n      (%S+)  iteration %d+: [^\n]* waits for ([^\n,]*)' do seen[device .. ' for ' .. waits] = true end
      h:step()
    end
    assert.is_true(seen['sim:1 for loop/Tanh from sim:0'])
    s:close()
  end)

  it('pause at one cut wherever a step or a breakpoint stops them: the books balance with messages on their way', function()
    for _, owners in ipairs{ 1, 3 } do
      local s, h, right = loop(owners, 90)
      local wrong = {}
      local function look()
        local l = h:ledger()
        if l.pending ~= l.owed + l.lost or l.nodes_run ~= l.ran + l.merged then wrong[#wrong + 1] = l end
      end
      for _, unit in ipairs{ 'token', 'node', 'iteration' } do
        for _ = 1, 10 do
          h:step(1, unit)
          look()
        end
      end
      h:break_at{ op = 'loop/Tanh', iteration = 80 }
      h:resume()
      h:settle()
      assert.equal('paused', h:state())
      look()
      assert.same({}, wrong)
      h:unbreak()
      h:resume()
      assert.same(right, h:wait():totable())
      s:close()
    end
  end)
end)
