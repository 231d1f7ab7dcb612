--- Fig. 11: iterations a second of a loop with next to nothing in its body, over 1 to 64 devices, with a barrier in each iteration and without. Real time.
local df = require 'dflow'

local M = { title = 'Fig. 11: a loop over many devices', clock = 'real', devices = { 1, 2, 4, 8, 16, 32, 64 } }

--- The loop over n devices: each counts for itself; with a barrier none begins an iteration before all have ended the one before.
local function loop(n, barrier)
  local trips = df.placeholder('int32', {})
  local begin = {}
  for d = 1, n do begin[d] = df.float32(0) end
  local _, ends = df.while_loop(function(i) return i:lt(trips) end, function(i, x)
    local after = {}
    for d = 1, n do after[d] = df.device(('sim:%d'):format(d - 1), function() return x[d] + 1 end) end
    if barrier then
      local all = df.device('sim:0', function() return df.add_n(after) * 0 end)
      for d = 1, n do after[d] = df.device(('sim:%d'):format(d - 1), function() return after[d] + all end) end
    end
    return i + 1, after
  end, { df.int32(0), begin }, { parallel_iterations = 32 })
  return df.add_n(ends), trips
end

--- Iterations a second of the best of three runs.
function M.rate(n, barrier, opts)
  local g = df.Graph()
  return g:as_default(function()
    local sum, trips = loop(n, barrier)
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

function M.measure(opts)
  local rows = {}
  for i, n in ipairs(opts.devices or M.devices) do rows[i] = { n, M.rate(n, false, opts), M.rate(n, true, opts) } end
  return { columns = { 'devices', 'iterations_per_second', 'with_barrier' }, rows = rows }
end

-- What the paper gives for 64 machines of a cluster.
M.published = { [64] = { 2014, 809 } }

function M.draw(result)
  local x, free, barrier = {}, {}, {}
  for i, row in ipairs(result.rows) do x[i], free[i], barrier[i] = row[1], row[2], row[3] end
  return df.plot.line(x, { ['no barrier'] = free, barrier = barrier }, { title = M.title, xlabel = 'devices', ylabel = 'iterations a second', log = 'xy',
    points = true })
end

return M
