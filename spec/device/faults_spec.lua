--- Devices that die, links that lose or hold up a message, and which threads work for a run's devices.
local df = require 'dflow'
local support = require 'spec.support'
local over_ranks = (os.getenv 'DFLOW_STRESS' or ''):find 'ranks:'

local rows = {}
for i = 1, 48 do
  rows[i] = {}
  for j = 1, 48 do rows[i][j] = ((i * 7 + j * 13) % 17 - 8) / 200 end
end

--- A loop over sim:0 and sim:1, and its gradient.
local function program()
  df.reset()
  local x = df.placeholder('float32', { 48, 48 })
  local _, y = df.while_loop(function(i) return i:lt(8) end, function(i, y)
    local a = df.device('sim:0', function() return y:matmul(x):tanh() end)
    return i + 1, df.device('sim:1', function() return (a:matmul(x) + y):tanh() end)
  end, { df.int32(0), x })
  return { y, df.gradients(y:reduce_sum(), x) }, { [x] = rows }, x
end

local function ends(s, fetches, feeds)
  local err = support.error_of(s.run, s, fetches, feeds)
  assert.equal('unavailable', err.code)
  for name, m in pairs(s:stats().memory) do if name ~= 'cpu:0' then assert.equal(0, m.in_use) end end
  return err
end

local function session(fault, more)
  local sim = { 'sim:0', latency = more and more.latency }
  for k, v in pairs(fault) do sim[k] = v end
  return df.Session{ devices = { 'cpu:0', sim, 'sim:1' }, clock = more and more.clock, owners = more and more.owners }
end

describe('a device that dies at its n-th kernel', function()
  it('ends the run with an error that names it, the op and the iteration; the next run begins anew', function()
    local fetches, feeds, x = program()
    local s = session{ fail_at = 9 }
    for _ = 1, 3 do
      local err = ends(s, fetches, feeds)
      assert.matches('the device sim:0 was lost at its kernel 9', err.message)
      assert.equal('while:4', err.frame)
      assert.matches('MatMul', err.op)
      assert.matches('faults_spec.lua:%d+', err.source)
    end
    assert.equal(2, s:run(df.device('sim:0', function() return (x:reduce_sum() * 0 + 1) * 2 end), feeds))
    s:close()
  end)

  it('is noticed by numbers, too, and by either clock', function()
    local i = df.device('sim:0', function() return df.while_loop(function(i) return i:lt(1000) end, function(i) return i + 1 end, { df.int32(0) }) end)
    for _, clock in ipairs{ 'real', 'virtual' } do
      local s = session({ fail_at = 100 }, { clock = clock })
      assert.equal('while:49', ends(s, i).frame)
      s:close()
    end
  end)
end)

describe('a link', function()
  it('that loses its n-th message ends the run with an error that names both ends', function()
    local fetches, feeds = program()
    for _, more in ipairs{ {}, { latency = '10us' }, { clock = 'virtual' }, { owners = 3 } } do
      local s = session({ link_fail_at = 9 }, more)
      local err = ends(s, fetches, feeds)
      assert.matches('the link [%w:]+ %-> [%w:]+ was lost at message 9 of sim:0', err.message)
      assert.matches('^while:%d+$', err.frame)
      s:close()
    end
  end)

  it('that holds a message up for ever does so until nothing else can move', function()
    local fetches, feeds = program()
    for _, more in ipairs{ {}, { latency = '10us' }, { clock = 'virtual' }, { owners = 3 } } do
      local s = session({ link_stall_at = 9 }, more)
      local err = ends(s, fetches, feeds)
      assert.matches('has stalled: a message of .* does not come, and nothing else can move', err.message)
      assert.matches(over_ranks and '^[%w/]+:%d+$' or '^while:%d+$', err.frame)       -- which Transfer is the ninth
      s:close()
    end
  end)

  it('is held to by several owners, whichever of them notices, in the foreground and in the background', function()
    local fetches, feeds = program()
    for n = 3, 40 do
      for owners = 2, 3 do
        local fault = ({ { link_fail_at = n }, { link_stall_at = n }, { fail_at = n } })[n % 3 + 1]
        local s = session(fault, { owners = owners })
        local err = ends(s, fetches, feeds)
        assert.matches(({ 'was lost at message', 'has stalled', 'was lost at its kernel' })[n % 3 + 1], err.message)
        assert.matches('sim:0', err.message)
        assert.equal(over_ranks and 3 or owners, #s:stats().owners)             -- one for each rank's one device
        local h = s:start(fetches, feeds)
        local ok, again = pcall(h.wait, h)
        assert.is_false(ok)
        assert.equal('unavailable', again.code)
        s:close()
      end
    end
  end)

  it('that holds up what a queue would give says so, and does not wait for the queue', function()
    local q = df.FIFOQueue(4, { 'float32' })
    local x = df.placeholder('float32', {})
    local put = q:enqueue(df.device('sim:0', function() return x + 1 end))
    for owners = 1, 3 do
      local s = session({ link_stall_at = 2 }, { owners = owners })
      local err = support.error_of(s.run, s, { put, df.device('sim:1', function() return q:dequeue() * 2 end) }, { [x] = 1 })
      assert.equal('unavailable', err.code)
      assert.matches(over_ranks and 'the link sim:0 %-> cpu:0 has stalled' or 'the link sim:0 %-> sim:1 has stalled', err.message)  -- where the queue is
      s:close()
    end
  end)

  it('is told of, too, where what it holds up is to be computed a second time', function()
    local fetches, feeds = program()
    for _, n in ipairs{ 35, 38, 41, 44 } do
      for _, save in ipairs{ 'recompute', 'auto', 'swap' } do
        local s = df.Session{ devices = { 'cpu:0', { 'sim:0', link_stall_at = n }, 'sim:1' }, save = save, owners = 2 }
        assert.matches('has stalled', ends(s, fetches, feeds).message)
        s:close()
      end
    end
  end)

  it('may fail as the run begins', function()
    local fetches, feeds = program()
    local s = session{ link_fail_at = 1 }
    assert.matches('the link cpu:0 %-> sim:0 was lost at message 1 of sim:0', ends(s, fetches, feeds).message)
    s:close()
    s = session{ link_stall_at = 1 }
    assert.matches('the link cpu:0 %-> sim:0 has stalled as the run began, at message 1 of sim:0', ends(s, fetches, feeds).message)
    s:close()
  end)

  it('may fail as the run begins, before the owners have what they are to read', function()
    local x, y, xs = df.placeholder('float32', { 1000 }), {}, {}
    for i = 1, 1000 do xs[i] = i end
    for i = 0, 1 do y[i + 1] = df.device('sim:' .. i, function() return df.reduce_sum(df.tanh(x) * (x - 1)) end) end
    local function fails(device, owners, code)
      local s = df.Session{ devices = { 'cpu:0', device, 'sim:1' }, owners = owners }
      for _ = 1, 20 do
        local err = support.error_of(s.run, s, y, { [x] = xs })
        assert.equal(code, err.code)
      end
      s:close()
    end
    for owners = 1, 3 do
      fails({ 'sim:0', link_fail_at = 1 }, owners, 'unavailable')
      fails({ 'sim:0', memory = '1KB' }, owners, 'resource_exhausted')
    end
  end)

  it('may fail at any message, and at any kernel of a device, and nothing is left behind', function()
    local fetches, feeds = program()
    local before
    for n = 1, 60 do
      local s = session(({ { link_fail_at = n }, { link_stall_at = n }, { fail_at = n } })[n % 3 + 1], { owners = n % 4 + 1 })
      local ok, err = pcall(s.run, s, fetches, feeds)
      assert.is_true(ok or err.code == 'unavailable')
      s:close()
      if n == 20 then before = df.stats().memory['cpu:0'].in_use end
    end
    collectgarbage()
    collectgarbage()
    assert.is_true(df.stats().memory['cpu:0'].in_use <= before + 65536)
  end)

  it('leaves nothing of what was on its way', function()
    local fetches, feeds = program()
    for n = 18, 70, 3 do
      for _, fault in ipairs{ { link_fail_at = n }, { fail_at = n } } do
        local s = session(fault, { latency = '5us' })
        pcall(s.run, s, fetches, feeds)
        for name, m in pairs(s:stats().memory) do if name ~= 'cpu:0' then assert.equal(0, m.in_use) end end
        s:close()
      end
    end
  end)

  it('is told what fails by whole numbers', function()
    for key, v in pairs{ fail_at = 0, link_fail_at = 1.5, link_stall_at = 'soon' } do
      local err = support.error_of(df.Session, { devices = { 'cpu:0', { 'sim:0', [key] = v } } })
      assert.matches(key .. ' of sim:0 is a whole number from 1 up', tostring(err))
    end
  end)
end)

describe('owners', function()
  local function same(a, b)
    if type(a) ~= 'table' then return a == b end
    for i = 1, #a do if not same(a[i], b[i]) then return false end end
    return #a == #b
  end

  it('do not change a bit, whatever the memory, the links and what becomes of saved values', function()
    local fetches, feeds = program()
    local function run(options)
      local s = df.Session(options)
      local all = {}
      for k = 1, 3 do
        local r = s:run(fetches, feeds)
        all[k] = { r[1]:totable(), r[2]:totable() }
      end
      for name, m in pairs(s:stats().memory) do if name ~= 'cpu:0' then assert.equal(0, m.in_use) end end
      s:close()
      return all
    end
    local one = run{ devices = { 'cpu:0', 'sim:0', 'sim:1' } }
    for owners = 2, 4 do
      assert.is_true(same(one, run{ owners = owners, devices = { 'cpu:0', 'sim:0', 'sim:1' } }))
      for _, save in ipairs{ 'swap', 'recompute', 'auto' } do
        assert.is_true(same(one, run{ owners = owners, save = save, devices = { 'cpu:0', { 'sim:0', memory = '200KB', latency = '5us' },
          { 'sim:1', memory = '300KB', bandwidth = '2GB/s' } } }))
      end
    end
  end)

  it('copy large messages beside the run', function()
    local x = df.placeholder('float32', { 200, 200 })
    local y = df.device('sim:0', function() return x + 1 end)
    local z = df.device('sim:1', function() return y * 2 end)
    local s = df.Session{ owners = 3, devices = { 'cpu:0', { 'sim:0', memory = '2MB' }, { 'sim:1', memory = '1MB' } } }
    local ones = df.run(df.ones{ 200, 200 })
    for _ = 1, 20 do assert.equal(4, s:run(z, { [x] = ones }):at(7, 8)) end
    assert.equal(0, s:stats().memory['sim:1'].in_use)
    assert.equal(20, s:stats().transfers['sim:0 -> sim:1'].messages)
    s:close()
  end)
end)
