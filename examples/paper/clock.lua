--- Is the virtual clock to be believed? The same loops over 2 to 8 devices by the virtual clock and in real time, in which messages take what their links say. Real and virtual
-- time.
--
-- Links are slow (20 ms, and 5 MB/s for the loops that send much), so that what is compared is how messages, windows and ports add up, and not how busy the machine is.
local df = require 'dflow'

local M = { title = 'The virtual clock beside real time', clock = 'real and virtual', devices = { 2, 4, 8 } }
local TRIPS, LARGE = 8, 32768

local function on(d, fn) return df.device(('sim:%d'):format(d - 1), fn) end

--- The loops: what becomes of a value on each of n devices in an iteration.
local loops = {
  { name = 'apart', next_of = function(x, n)
    local after = {}
    for d = 1, n do after[d] = on(d, function() return x[d] + 1 end) end
    return after
  end },
  { name = 'hop', next_of = function(x, n)
    local after = {}
    for d = 1, n do after[d] = on(d % n + 1, function() return x[d] + 1 end) end
    for d = 1, n do after[d] = on(d, function() return after[(d - 2) % n + 1] * 1 end) end
    return after
  end },
  { name = 'barrier', next_of = function(x, n)
    local all, after = on(1, function() return df.add_n(x) * (1 / n) end), {}
    for d = 1, n do after[d] = on(d, function() return all + 1 end) end
    return after
  end },
  { name = 'pipeline', window = 4, next_of = function(x, n, start)
    local y, after = start, {}
    for d = 1, n do
      y = on(d, function() return y + 1 end)
      after[d] = on(d, function() return y * 1 end)
    end
    return after
  end },
  { name = 'barrier, 128 KB', bandwidth = '5MB/s', size = LARGE, next_of = function(x, n)
    local all, after = on(1, function() return df.add_n(x) * (1 / n) end), {}
    for d = 1, n do after[d] = on(d, function() return all + 1 end) end
    return after
  end },
}

--- Seconds of a loop over n devices, by a clock.
local function seconds(loop, n, clock)
  local g = df.Graph()
  return g:as_default(function()
    local begin, list = {}, { 'cpu:0' }
    for d = 1, n do
      begin[d] = df.zeros{ loop.size or 1 }
      list[d + 1] = { ('sim:%d'):format(d - 1), latency = '20ms', bandwidth = loop.bandwidth, speed = 1000 }
    end
    local start = df.placeholder_with_default(df.zeros{ loop.size or 1 })
    local _, ends = df.while_loop(function(i) return on(1, function() return i:lt(TRIPS) end) end, function(i, x)
      return on(1, function() return i + 1 end), loop.next_of(x, n, start)
    end, { df.int32(0), begin }, { parallel_iterations = loop.window or 32 })
    for d = 1, n do ends[d] = on(d, function() return ends[d]:reduce_sum() end) end
    local s = df.Session{ graph = g, devices = list, clock = clock }
    local h = s:start(ends)
    h:wait()
    local took = h:stats().seconds
    s:close()
    return took
  end)
end

function M.measure(opts)
  local rows = {}
  for _, loop in ipairs(loops) do
    for _, n in ipairs(opts.devices or M.devices) do
      local virtual, real = seconds(loop, n, 'virtual'), seconds(loop, n, 'real')
      rows[#rows + 1] = { loop.name, n, real * 1e3, virtual * 1e3, virtual / real }
    end
  end
  return { columns = { 'loop', 'devices', 'real_ms', 'virtual_ms', 'ratio' }, rows = rows, note = ('%d iterations; in real time one thread turns all devices, and a port '
    .. 'serves its messages one after the other, where by the virtual clock they share it'):format(TRIPS) }
end

local function errors_of(result)
  local list = {}
  for i, row in ipairs(result.rows) do list[i] = math.abs(row[5] - 1) end
  table.sort(list)
  return list
end

function M.draw(result)
  local x, series = {}, {}
  for i, row in ipairs(result.rows) do
    series[row[1]] = series[row[1]] or {}
    x[i] = row[3]
  end
  for name, ys in pairs(series) do
    for i, row in ipairs(result.rows) do ys[i] = row[1] == name and row[4] or 0 / 0 end
  end
  series.equal = x
  return df.plot.line(x, series, { title = M.title, xlabel = 'real, ms', ylabel = 'virtual, ms', log = 'xy', points = true })
end

function M.says(result)
  local list = errors_of(result)
  return ('the virtual clock is %.1f %% off at the median, %.1f %% at the worst.'):format(100 * list[math.ceil(#list / 2)], 100 * list[#list])
end

return M
