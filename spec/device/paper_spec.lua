--- The paper's experiments (examples/paper) by the virtual clock, at sizes that take no time: their shapes, and what-if beside real runs.
-- run: first
package.path = 'examples/paper/?.lua;' .. package.path
local fig12, fig13, fig15 = require 'fig12', require 'fig13', require 'fig15'
local lstm, hardware = require 'lstm', require 'hardware'
local df = require 'dflow'
local ordered_it = require('spec.support').ordered_it(it, pending)       -- figures of a placement that the experiment chose

local pipeline = { size = 512, scale = 32, trips = 48 }
local layers = { units = 128, scale = 128, length = 80 }

--- Is what-if within a tenth of what a real run took?
local function near(h, change, real)
  local ratio = h:whatif(change).seconds / real:stats().seconds
  assert.is_true(math.abs(ratio - 1) < 0.1, ('what-if says %g of it'):format(ratio))
end

describe('a pipeline over 8 devices (Fig. 12)', function()
  it('is at least 5 times as fast with 32 iterations at once as with 1, and never slower with more', function()
    local rows = fig12.measure(pipeline).rows
    assert.is_true(rows[#rows][3] >= 5, rows[#rows][3])
    for i = 2, #rows do assert.is_true(rows[i][2] <= rows[i - 1][2]) end
  end)

  ordered_it('is told by what-if of one recorded run, whatever its window', function()
    for _, recorded in ipairs{ 1, 32 } do
      local h = fig12.run(recorded, pipeline)
      for _, window in ipairs{ 1, 4, 16 } do near(h, { parallel_iterations = window }, fig12.run(window, pipeline)) end
    end
  end)
end)

describe('a loop over many devices (Fig. 11)', function()
  --- By the virtual clock, recorded.
  local function run(n, barrier, opts)
    local g = df.Graph()
    return g:as_default(function()
      local begin = {}
      for d = 1, n do begin[d] = df.float32(0) end
      local function on_host(fn) return df.device('cpu:0', fn) end                     -- where it is, whatever computes fast
      local _, ends = df.while_loop(function(i) return on_host(function() return i:lt(60) end) end, function(i, x)
        local after = {}
        for d = 1, n do after[d] = df.device(('sim:%d'):format(d - 1), function() return x[d] + 1 end) end
        if barrier then
          local all = df.device('sim:0', function() return df.add_n(after) * 0 end)
          for d = 1, n do after[d] = df.device(('sim:%d'):format(d - 1), function() return after[d] + all end) end
        end
        return on_host(function() return i + 1 end), after
      end, { df.int32(0), begin }, { parallel_iterations = opts.parallel_iterations or 32 })
      local list = { 'cpu:0' }
      for d = 1, n do
        list[d + 1] = { ('sim:%d'):format(d - 1), bandwidth = '1GB/s', latency = opts.latency or '50us', speed = opts.speed or 1 }
      end
      local sum = on_host(function() return df.add_n(ends) end)
      local h = df.Session{ graph = g, devices = list, clock = 'virtual' }:start(sum, nil, { record = true })
      h:wait()
      return h
    end)
  end

  it('is told by what-if of other windows, links and devices, with a barrier and without', function()
    for _, barrier in ipairs{ false, true } do
      for _, n in ipairs{ 2, 8, 64 } do
        local h = run(n, barrier, {})
        for _, change in ipairs{ { parallel_iterations = 1 }, { parallel_iterations = 8 }, { latency = 5e-4 }, { speed = 10 } } do
          near(h, change, run(n, barrier, change))
        end
      end
    end
  end)
end)

describe('an LSTM of 8 layers (Fig. 15)', function()
  ordered_it('is at least 5.5 times as fast on 8 devices as on 1, and what-if tells of fewer devices', function()
    local eight, one = fig15.run(8, layers), fig15.run(1, layers)
    local ratio = one:stats().seconds / eight:stats().seconds
    assert.is_true(ratio >= 5.5 and ratio <= 8, ratio)
    near(eight, { devices = 1 }, one)
    near(eight, { devices = 4 }, fig15.run(4, layers))
  end)

  it('is told by what-if of slower devices and links', function()
    local h, kind = fig15.run(8, layers), hardware.V100
    for _, case in ipairs{ { 'speed', 30, 30 / 128 }, { 'bandwidth', 1e9, 1e9 / 128 }, { 'latency', '1ms', '1ms' } } do
      local other = { speed = kind.speed, memory = kind.memory, bandwidth = kind.bandwidth, latency = kind.latency }
      other[case[1]] = case[2]
      local real = lstm.start{ kind = other, scale = layers.scale, units = layers.units, length = layers.length, layers = 8, devices = 8 }
      real:wait()
      near(h, { [case[1]] = case[3] }, real)
    end
  end)
end)

describe('a loop over time and the same without a loop (Fig. 14)', function()
  local fig14 = require 'fig14'
  local function run(how, change)
    local g = df.Graph()
    return g:as_default(function()
      local sums, x = df.device('sim:0', function() return fig14.network(how, 16, 64, 30, change.parallel_iterations) end)
      local devices = { 'cpu:0', { 'sim:0', speed = change.speed or 10, bandwidth = change.bandwidth or 1e9, latency = '10us' } }
      local h = df.Session{ graph = g, devices = devices, clock = 'virtual' }:start(sums, { [x] = df.run(df.ones{ 16, 64 }) }, { record = true })
      h:wait()
      return h
    end)
  end

  it('is told by what-if of other windows, devices and links', function()
    for _, how in ipairs{ 'dynamic', 'static' } do
      local h = run(how, {})
      for _, change in ipairs{ { speed = 1 }, { speed = 100 }, { bandwidth = 1e7 }, how == 'dynamic' and { parallel_iterations = 1 } or nil } do
        near(h, change, run(how, change))
      end
    end
  end)
end)

describe('deep Q-learning in the graph (Fig. 16)', function()
  local fig16 = require 'fig16'
  local function run(change)
    local g = df.Graph()
    return g:as_default(function()
      df.set_random_seed(7)
      local last, n = df.device('sim:0', function() return fig16.in_graph(32, change.parallel_iterations) end)
      local devices = { 'cpu:0', { 'sim:0', speed = change.speed or 10, bandwidth = '1GB/s', latency = change.latency or '10us' } }
      local s = df.Session{ graph = g, devices = devices, clock = 'virtual' }
      s:run(last, { [n] = 1 })                 -- variables have their first values
      local h = s:start(last, { [n] = 120 }, { record = true })
      h:wait()
      return h
    end)
  end

  it('is told by what-if of other windows, devices and links', function()
    local h = run{ parallel_iterations = 4 }
    for _, change in ipairs{ { speed = 1 }, { speed = 100 }, { latency = 1e-4 }, { parallel_iterations = 1 } } do
      local all = { parallel_iterations = 4 }
      for key, value in pairs(change) do all[key] = value end
      near(h, change, run(all))
    end
  end)
end)

describe('an LSTM on a device that its saved values do not fit in (Table 1, Fig. 13)', function()
  local small = { units = 256, scale = 8, length = 40 }
  local function train(save, memory, change)
    local kind = {}
    for key, value in pairs(hardware.K40) do kind[key] = value end
    for key, value in pairs(change or {}) do kind[key] = value end
    local h = lstm.start{ kind = kind, units = small.units, scale = small.scale, length = small.length, save = save, memory = memory }
    local ok, err = pcall(h.wait, h)
    return h, ok, err
  end

  ordered_it('swaps them at most 1 % slower than a larger device keeps them', function()
    local whole = train 'keep'
    local memory = whole:stats().memory['sim:0'].peak * small.scale * 0.6
    local _, ok, err = train('keep', memory)
    assert.is_false(ok)
    assert.are.equal('resource_exhausted', err.code)
    local swapped = train('swap', memory)
    assert.is_true(swapped:stats().swap.tensors_out > 0)
    local ratio = swapped:stats().seconds / whole:stats().seconds
    assert.is_true(ratio <= 1.01, ('%g times as long'):format(ratio))
  end)

  ordered_it('is told by what-if of other devices and links, keeping and swapping', function()
    local memory = train 'keep':stats().memory['sim:0'].peak * small.scale * 0.6
    for save, bytes in pairs{ keep = false, swap = memory } do
      local h, k = train(save, bytes or nil), hardware.K40
      for _, case in ipairs{ { 'speed', k.speed / 2 }, { 'bandwidth', k.bandwidth / 8 } } do
        local real = train(save, bytes or nil, { [case[1]] = case[2] })
        near(h, { [case[1]] = case[2] / small.scale }, real)
      end
    end
  end)

  ordered_it('copies under the compute', function()
    local result = fig13.measure{ units = 256, scale = 8, length = 40, memory = 150 * 2 ^ 20 }
    assert.is_true(result.hidden > 0.95, result.hidden)
    assert.is_true(result.rows[2][2] > 0 and result.rows[3][2] > 0)
    local svg = fig13.draw(result).svg()
    assert.is_truthy(svg:find('copy to the host', 1, true) and svg:find('copy from the host', 1, true))
  end)
end)

describe('parameter servers (OSDI 2016, Figs. 7 to 9)', function()
  local function column(result, k)
    local list = {}
    for i, row in ipairs(result.rows) do list[i] = row[k] end
    return list
  end

  ordered_it('serve dense steps by their ports, and sparse ones in the same time whatever the table has', function()
    local result = require('osdi_fig7').measure{ workers = { 1, 32 } }
    local dense, large, small_table, large_table = column(result, 3), column(result, 4), column(result, 5), column(result, 6)
    assert.is_true(dense[1] > 147 / 1.6 and dense[1] < 147 * 1.6 and large[1] > 1010 / 1.6 and large[1] < 1010 * 1.6)      -- the paper's
    assert.is_true(math.abs(dense[2] / (2 * 32 * 100 / 16 / 1250) / 1e3 - 1) < 0.05, 'a server sends 32 times its part, and receives as much')
    assert.same(small_table, large_table)
  end)

  ordered_it('train faster with a few backup workers, of which three or four are best', function()
    local fig8 = require 'osdi_fig8'
    local result = fig8.measure{ workers = { 25, 50 }, backup = { 0, 3, 6 }, steps = 12 }
    local rate, gain = column(result, 4), column(result, 9)
    assert.is_true(rate[3] > 1.9 * rate[1])                            -- 50 asynchronous workers and 25
    assert.is_true(gain[6] > 1.03 and gain[6] > gain[7], gain[6])
    assert.is_true(rate[1] > rate[2])                                  -- a barrier waits for the slowest
  end)

  ordered_it('bring more words a second than workers do, until the softmax is sampled', function()
    local rows = require('osdi_fig9').measure{ servers = { 1, 4 }, workers = { 4, 16 } }.rows
    assert.is_true(rows[2][2] > 3.5 * rows[1][2] and rows[1][3] < 1.1 * rows[1][2])
    assert.is_true(rows[1][4] > 40 * rows[1][2])
  end)
end)

describe('a study of workloads', function()
  it('counts the flops and bytes of a step, and gives a CNN more of many threads than an LSTM', function()
    local result = require('study_threads').measure{ threads = { 1, 64 }, batch = 8, width = 16 }
    local last = result.rows[2]
    assert.is_true(last[5] > 4 * last[9] and last[9] > 1, ('%g and %g times'):format(last[5], last[9]))
    local sweep = require('study_length').measure{ values = { 1, 4 }, batch = 4, width = 16 }
    assert.is_true(math.abs(sweep.rows[2][6] / sweep.rows[1][6] - 1) < 0.2)           -- flops for each byte are the kernels'
    assert.is_true(sweep.rows[2][13] > sweep.rows[1][13])                             -- iterations are kept for the gradient
  end)
end)

describe('examples/paper/numbers.lua', function()
  ordered_it('measures what was to be reached; what is virtual time is reached on any machine', function()
    local shell = require 'spec.shell'
    local r = shell.run(shell.dflow .. ' examples/paper/numbers.lua')
    assert.equal('', r.err)
    local rows = 0
    for line in r.out:gmatch '[^\n]+' do
      rows = rows + 1
      if line:find('^Fig') or line:find('^swapping') then assert.is_nil(line:find('not reached', 1, true), line) end
    end
    assert.equal(13, rows)
  end)
end)
