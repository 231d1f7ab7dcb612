--- Fig. 11: iterations a second of a loop with next to nothing in its body, over 1 to 64 devices of one process and over up to 8 processes, with a barrier in each iteration
-- and without. Real time.
local df = require 'dflow'

local M = { title = 'Fig. 11: a loop over many devices', clock = 'real', devices = { 1, 2, 4, 8, 16, 32, 64 }, processes = 8 }
M.published = 'over 20,000 iterations a second on one machine; on 64 machines 2,014 without a barrier and 809 with one.'

--- The loop over n devices: each counts for itself; with a barrier none begins an iteration before all have ended the one before.
local function loop(n, barrier, name)
  local trips = df.placeholder('int32', {})
  local begin = {}
  for d = 1, n do begin[d] = df.float32(0) end
  local _, ends = df.while_loop(function(i) return i:lt(trips) end, function(i, x)
    local after = {}
    for d = 1, n do after[d] = df.device(name:format(d - 1), function() return x[d] + 1 end) end
    if barrier then
      local all = df.device(name:format(0), function() return df.add_n(after) * 0 end)
      for d = 1, n do after[d] = df.device(name:format(d - 1), function() return after[d] + all end) end
    end
    return i + 1, after
  end, { df.int32(0), begin }, { parallel_iterations = 32 })
  return df.add_n(ends), trips
end

--- Iterations a second of the best of three runs.
function M.rate(n, barrier, opts)
  local g = df.Graph()
  return g:as_default(function()
    local sum, trips = loop(n, barrier, 'sim:%d')
    local list = { 'cpu:0' }
    for d = 1, n do list[d + 1] = ('sim:%d'):format(d - 1) end
    local s = df.Session{ graph = g, devices = list }
    local count = math.ceil((opts.work or 400000) / n)
    s:run(sum, { [trips] = 10 })
    local best = 0
    for _ = 1, 3 do
      local h = s:start(sum, { [trips] = count })
      assert(h:wait() == n * count)
      best = math.max(best, count / h:stats().seconds)
    end
    s:close()
    return best
  end)
end

--- The same over n processes of this machine.
function M.rate_of_processes(n, barrier, opts)
  local g = df.Graph()
  return g:as_default(function()
    local sum, trips = loop(n, barrier, '/rank:%d/cpu:0')
    local s, count, best = df.Session{ graph = g }, opts.trips or 2000, 0
    s:run(sum, { [trips] = 10 })
    for _ = 1, 3 do
      local before = s:stats().seconds
      s:run(sum, { [trips] = count })
      best = math.max(best, count / (s:stats().seconds - before))
    end
    s:close()
    return best
  end)
end

function M.measure(opts)
  local rows = {}
  for i, n in ipairs(opts.devices or M.devices) do
    rows[i] = { n, M.rate(n, false, opts), M.rate(n, true, opts), '', '' }
    if n > 1 and n <= (opts.processes or M.processes) then
      df.cluster.start(n)
      rows[i][4], rows[i][5] = M.rate_of_processes(n, false, opts), M.rate_of_processes(n, true, opts)
      df.cluster.stop()
    end
  end
  return { columns = { 'devices', 'iterations_per_second', 'with_barrier', 'processes', 'processes_with_barrier' }, rows = rows,
    note = 'the devices of one process are turned by one thread; processes share the cores and pass messages through rings in shared memory' }
end

function M.draw(result)
  local x, free, barrier, processes, both, paper, paper_barrier = {}, {}, {}, {}, {}, {}, {}
  for i, row in ipairs(result.rows) do
    x[i], free[i], barrier[i], processes[i], both[i] = row[1], row[2], row[3], tonumber(row[4]) or 0 / 0, tonumber(row[5]) or 0 / 0
    paper[i], paper_barrier[i] = row[1] == 1 and 20000 or row[1] == 64 and 2014 or 0 / 0, row[1] == 64 and 809 or 0 / 0
  end
  return df.plot.line(x, { ['no barrier'] = free, barrier = barrier, ['processes, no barrier'] = processes, ['processes, barrier'] = both,
    ['paper, no barrier'] = paper, ['paper, barrier'] = paper_barrier }, { title = M.title .. ' (real)', xlabel = 'devices', ylabel = 'iterations a second', log = 'xy',
    points = true })
end

function M.says(result)
  local last, most = result.rows[#result.rows], nil
  for _, row in ipairs(result.rows) do most = tonumber(row[4]) and row or most end
  return ('both fall with the number of devices, and a barrier costs %.1f times at %d devices (2.5 at 64 machines there). %.0f iterations a second over %d devices of one '
    .. 'thread say what the machinery costs by itself; '
    .. 'over %s processes on this machine it is %s, and no network is in it.')
    :format(last[2] / last[3], last[1], last[2], last[1], most and most[1] or 'no', most and ('%.0f'):format(most[4]) or 'nothing')
end

return M
