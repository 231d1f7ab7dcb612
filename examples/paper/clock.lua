--- Is the virtual clock to be believed? The same loops over 2 to 8 devices by the virtual clock and in real time, in which messages take what their links say: turned by one
-- thread, by a thread for each device, and by a process for each device. Of several owners each opens a window of iterations of its own, by both clocks. Real and virtual time.
--
-- Links are slow (20 ms, and 5 MB/s for the loops that send much), so that what is compared is how messages, windows and ports add up, and not how busy the machine is.
local df = require 'dflow'

local M = { title = 'The virtual clock beside real time', clock = 'real and virtual', devices = { 2, 4, 8 } }
local TRIPS, LARGE = 8, 32768

local device = 'sim:%d'                   -- or a process for each: '/rank:%d/sim:0'
local function on(d, fn) return df.device(device:format(d - 1), fn) end

--- A loop of two trips in the body, whose predicate is on the first device: device d makes next_of(d, its value, all values).
local function inner(n, x, next_of)
  local _, after = df.while_loop(function(j) return on(1, function() return j:lt(2) end) end, function(j, w)
    local next = {}
    for d = 1, n do next[d] = next_of(d, w[d], w) end
    return on(1, function() return j + 1 end), next
  end, { df.int32(0), x })
  return after
end

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
  { name = 'serial', window = 1, next_of = function(x, n)
    local after = {}
    for d = 1, n do after[d] = on(d, function() return x[d] + 1 end) end
    return after
  end },
  { name = 'nested', next_of = function(x, n)                -- a value goes from device to device, and each has a loop of its own with it
    local w = {}
    for d = 1, n do w[d] = on(d, function() return (w[d - 1] or x[d]) + 1 end) end
    return inner(n, w, function(d, v) return on(d, function() return v + 1 end) end)
  end },
  { name = 'nested hop', next_of = function(x, n)
    local w = {}
    for d = 1, n do w[d] = on(d, function() return (w[d - 1] or x[d]) + 1 end) end
    return inner(n, w, function(d, _, v) return on(d, function() return v[d % n + 1] + 1 end) end)
  end },
  { name = 'barrier, 128 KB', bandwidth = '5MB/s', size = LARGE, next_of = function(x, n)
    local all, after = on(1, function() return df.add_n(x) * (1 / n) end), {}
    for d = 1, n do after[d] = on(d, function() return all + 1 end) end
    return after
  end },
}

--- Seconds of a loop over n devices, by a clock, turned by so many threads.
local function seconds(loop, n, clock, owners)
  local g = df.Graph()
  return g:as_default(function()
    local begin, list = {}, { 'cpu:0' }
    for d = 1, n do
      begin[d] = df.zeros{ loop.size or 1 }
      list[d + 1] = { device:format(d - 1), latency = '20ms', bandwidth = loop.bandwidth, speed = 1000 }
    end
    local start = df.placeholder_with_default(df.zeros{ loop.size or 1 })
    local _, ends = df.while_loop(function(i) return on(1, function() return i:lt(TRIPS) end) end, function(i, x)
      return on(1, function() return i + 1 end), loop.next_of(x, n, start)
    end, { df.int32(0), begin }, { parallel_iterations = loop.window or 32 })
    for d = 1, n do ends[d] = on(d, function() return ends[d]:reduce_sum() end) end
    local s = df.Session{ graph = g, devices = list, clock = clock, owners = owners }
    local h = s:start(ends)
    h:wait()
    local took = h:stats().seconds
    s:close()
    return took
  end)
end

local function seconds_of_processes(loop, n)
  df.cluster.start(n)
  device = '/rank:%d/sim:0'
  local ok, took = pcall(seconds, loop, n, 'real')
  device = 'sim:%d'
  df.cluster.stop()
  return ok and took or error(took, 0)
end

function M.measure(opts)
  local rows = {}
  for _, loop in ipairs(loops) do
    for _, n in ipairs(opts.devices or M.devices) do
      local row = { loop.name, n, seconds(loop, n, 'virtual', 1), seconds(loop, n, 'real', 1), seconds(loop, n, 'virtual_owners', n + 1), seconds(loop, n, 'real', n + 1),
        seconds_of_processes(loop, n) }
      for i = 3, 7 do row[i] = row[i] * 1e3 end
      rows[#rows + 1] = row
    end
  end
  return { columns = { 'loop', 'devices', 'virtual_of_one_ms', 'one_thread_ms', 'virtual_of_several_ms', 'threads_ms', 'processes_ms' }, rows = rows,
    note = ('%d iterations, of which %d may be open in the pipeline, one in the serial loop and %d in the others; with several threads or processes each device opens its own '
      .. 'window of iterations and waits for the readers of its values, where one thread opens one window for all: the clocks `virtual_owners` and `virtual`')
      :format(TRIPS, 4, 32) }
end

--- Of a row the pairs of a virtual time and the real one beside it.
local function pairs_of(row) return { { row[3], row[4] }, { row[5], row[6] }, { row[5], row[7] } } end

--- By what share of the real time the virtual one is off, and the loop; the smallest first.
function M.errors_of(result)
  local list = {}
  for _, row in ipairs(result.rows) do
    for _, pair in ipairs(pairs_of(row)) do list[#list + 1] = { math.abs(pair[1] / pair[2] - 1), row[1] } end
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  return list
end

function M.draw(result)
  local x, series = {}, {}
  for _, row in ipairs(result.rows) do
    for _, pair in ipairs(pairs_of(row)) do
      x[#x + 1] = pair[2]
      series[row[1]] = series[row[1]] or {}
      series[row[1]][#x] = pair[1]
    end
  end
  for _, ys in pairs(series) do
    for i = 1, #x do ys[i] = ys[i] or 0 / 0 end
  end
  series.equal = x
  return df.plot.line(x, series, { title = M.title, xlabel = 'real, ms', ylabel = 'virtual, ms', log = 'xy', points = true })
end

function M.says(result)
  local all = M.errors_of(result)
  return ('the virtual clock is %.1f %% off at the median of %d, and %.1f %% at the worst, in the loop `%s`.')
    :format(100 * all[math.ceil(#all / 2)][1], #all, 100 * all[#all][1], all[#all][2])
end

return M
