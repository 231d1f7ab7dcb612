--- h:whatif{replace = true} of a recorded run says what a run takes whose nodes were placed for the other devices.
local df = require 'dflow'
local random_program = require 'spec.random_program'
local support = require 'spec.support'

local NAMES = { 'sim:0', 'sim:1', 'sim:2' }

--- Products, and a loop of them, that no device was asked for; the placeholder is [256,256].
local function products()
  df.reset()
  local x = df.placeholder('float32', { 256, 256 })
  local a, b = x:matmul(x), (x + 1):matmul(x)
  local c = a:matmul(b) + b:matmul(a)
  local _, y = df.while_loop(function(i) return i:lt(10) end, function(i, y)
    return i + 1, df.cond(i:lt(5), function() return (y:matmul(x) * 0.001):tanh() end, function() return y * 0.5 end)
  end, { df.int32(0), c })
  return x, y
end

--- A run of them on so many devices, by the virtual clock, recorded.
local function recorded(n, speed, bandwidth)
  local x, y = products()
  local list = { 'cpu:0' }
  for d = 1, n do list[d + 1] = { NAMES[d], speed = speed, bandwidth = bandwidth, latency = '5us' } end
  local h = df.Session{ devices = list, clock = 'virtual' }:start(y, { [x] = df.run(df.zeros{ 256, 256 }) }, { record = true })
  h:wait()
  return h
end

describe('h:whatif{replace = true}', function()
  support.ordered_it(it, pending)('says what runs take that place their nodes anew for other speeds and links', function()
    local differs = false
    for _, from in ipairs{ 0.1, 10 } do
      local h = recorded(2, from, '10GB/s')
      for _, speed in ipairs{ 0.1, 1, 10, 100 } do
        for _, bandwidth in ipairs{ '1GB/s', '100GB/s' } do
          local real = recorded(2, speed, bandwidth):stats().seconds
          local kept = h:whatif{ speed = speed, bandwidth = bandwidth }
          local anew = h:whatif{ speed = speed, bandwidth = bandwidth, replace = true }
          assert.equal('kept', kept.places)
          assert.equal('anew', anew.places)
          assert.is_nil(kept.timeline)         -- it was not asked for
          assert.is_true(math.abs(anew.seconds / real - 1) < 0.1, ('%g -> %g, %s: %g of it'):format(from, speed, bandwidth, anew.seconds / real))
          differs = differs or kept.seconds / real > 5
        end
      end
    end
    assert.is_true(differs)                    -- else nothing had to move
  end)

  support.ordered_it(it, pending)('places them on fewer devices, too', function()
    local real = recorded(1, 10, '10GB/s'):stats().seconds
    local anew = recorded(3, 10, '10GB/s'):whatif{ devices = 1, replace = true, timeline = true }
    assert.is_true(math.abs(anew.seconds / real - 1) < 0.1, anew.seconds / real)
    for _, e in ipairs(anew.timeline) do assert.is_true(e.device == 'cpu:0' or e.device == 'sim:0', e.device) end
  end)

  it('names the device that a node asks for and that would not be there', function()
    local y = df.device('sim:1', function() return df.placeholder_with_default(1.0) * 2 end)
    local h = df.Session{ devices = { 'cpu:0', 'sim:0', 'sim:1' }, clock = 'virtual' }:start(y, {}, { record = true })
    h:wait()
    local ok, err = pcall(h.whatif, h, { devices = 1, replace = true })
    assert.is_false(ok)
    assert.equal('invalid_argument', err.code)
    assert.matches('sim:1', err.message)
    assert.matches('replace is a boolean', tostring(select(2, pcall(h.whatif, h, { replace = 1 }))))
  end)

  support.ordered_it(it, pending)('says of random programs whose nodes all stay what their runs took', function()
    local ratios = {}
    for seed = 1, support.sample(12, 60) do
      df.reset()
      local turn = 0
      local y, xs = random_program.build(df, random_program.make(seed, 2, false), nil, { width = 40, place = function(fn)
        turn = turn + seed
        return turn % 4 == 0 and fn() or df.device(NAMES[turn % 3 + 1], fn)
      end })
      local feeds = {}
      for i, x in ipairs(xs) do
        feeds[x] = {}
        for j = 1, 40 do feeds[x][j] = ({ 0.7, -0.4, 0.3 })[i] * (1 + j / 64) end
      end
      local list = { 'cpu:0' }
      for d, name in ipairs(NAMES) do list[d + 1] = { name, bandwidth = '10GB/s', latency = ('%dus'):format(4 + d), speed = 3 * d } end
      local s = df.Session{ devices = list, clock = 'virtual' }
      local h = s:start({ y, df.gradients(y, xs, { unconnected = 'zero' }) }, feeds, { record = true })
      h:wait()
      ratios[#ratios + 1] = h:whatif{ replace = true }.seconds / h:stats().seconds
      s:close()
      assert.is_true(math.abs(ratios[#ratios] - 1) < 0.3, ('seed %d: %g of it'):format(seed, ratios[#ratios]))
    end
    table.sort(ratios)
    assert.is_true(math.abs(ratios[math.floor(#ratios / 2) + 1] - 1) < 0.02, ratios[math.floor(#ratios / 2) + 1])
  end)
end)
