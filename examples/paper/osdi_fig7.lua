--- OSDI'16, Fig. 7: the null step. Workers fetch a model from 16 parameter servers, change it by next to nothing, and send that back. Virtual time.
--
-- Scalar: a number of each server. Dense: all of a model of 100 MB or 1 GB. Sparse: 32 random rows of a table, whatever its size. All workers begin at once, and the median
-- of their steps is shown; the paper's workers begin when they like.
local df = require 'dflow'
local servers = require 'servers'

local M = { title = 'Fig. 7: null steps against 16 parameter servers', clock = 'virtual', workers = { 1, 2, 5, 10, 25, 50, 100 } }
M.published = 'medians in ms of 1 and of 100 workers: scalar 1.8 and 8.8; dense, 100 MB 147 and 613; dense, 1 GB 1010 and 7160; sparse 5 to 20, whether the table has 1 GB or 16.'
local PS, WIDTH, ROWS = 16, 64, 32
-- What each curve is: bytes of the model; the scale in which it is made, so that it takes megabytes here; sparse: rows are read.
local CURVES = {
  { name = 'scalar', bytes = 4 * PS, scale = 1 },
  { name = 'dense 100 MB', bytes = 1e8, scale = 64 },
  { name = 'dense 1 GB', bytes = 1e9, scale = 640 },
  { name = 'sparse 16 MB', bytes = 16e6, scale = 1, sparse = true },
  { name = 'sparse 256 MB', bytes = 256e6, scale = 1, sparse = true },
}
local PUBLISHED = { scalar = { 1.8, 8.8 }, ['dense 100 MB'] = { 147, 613 }, ['dense 1 GB'] = { 1010, 7160 } }

--- A step of one worker: what ends it, an op for each server.
local function dense_step(opts, w, model)
  local done = {}
  for p, v in ipairs(model) do
    local change = servers.on_worker(opts, w, function() return v:value() * 1e-6 end)
    done[p] = servers.on_server(p, function() return v:assign_sub(change).op end)
  end
  return done
end

local function sparse_step(opts, w, model, rows)
  local done = {}
  for p, v in ipairs(model) do
    local ids = servers.on_worker(opts, w, function() return df.random_uniform({ ROWS / PS }, { min = 0, max = rows, dtype = 'int32' }) end)
    local read = servers.on_server(p, function() return df.gather(v, ids) end)
    local change = servers.on_worker(opts, w, function() return read * 1e-6 end)
    done[p] = servers.on_server(p, function() return v:scatter_sub(ids, change).op end)
  end
  return done
end

--- Milliseconds of the median step of so many workers.
function M.step(curve, workers)
  local opts, g = { ps = PS, workers = workers, scale = curve.scale }, df.Graph()
  return g:as_default(function()
    local model, steps, size = {}, {}, math.max(1, math.floor(curve.bytes / PS / 4 / curve.scale))
    local rows = curve.sparse and math.floor(size / WIDTH)
    for p = 1, PS do model[p] = servers.on_server(p, function() return df.Variable(df.zeros(rows and { rows, WIDTH } or { size })) end) end
    for w = 1, workers do
      for _, op in ipairs(rows and sparse_step(opts, w, model, rows) or dense_step(opts, w, model)) do steps[#steps + 1] = op end
    end
    local s = df.Session{ graph = g, clock = 'virtual', devices = servers.devices(opts) }
    s:run(df.group(model[1]:value().op))                                        -- the variables have their first values
    for p = 2, PS do s:run(model[p]:value().op) end
    local h = s:start(df.group(steps), nil, { record = true })
    h:wait()
    local ends = {}
    for _, e in ipairs(h:whatif{ timeline = true }.timeline) do
      local worker = e.kind == 'message' and tonumber(e.device:match '%d+') - PS + 1 or 0
      if worker > 0 then ends[worker] = math.max(ends[worker] or 0, e.ends) end
    end
    s:close()
    table.sort(ends)
    return servers.percentile(ends, 0.5) * 1e3
  end)
end

function M.measure(opts)
  local rows, columns = {}, { 'workers' }
  for k, curve in ipairs(CURVES) do columns[k + 1] = curve.name .. ' ms' end
  for i, n in ipairs(opts.workers or M.workers) do
    rows[i] = { n }
    for k, curve in ipairs(CURVES) do rows[i][k + 1] = M.step(curve, n) end
  end
  return { columns = columns, rows = rows, note = ('links of 10 Gb/s are assumed, and 50 µs from end to end; dense models are made in 1/%d and 1/%d of their size, on links '
    .. 'as much slower')
    :format(CURVES[2].scale, CURVES[3].scale) }
end

function M.draw(result)
  local x, series = {}, {}
  for k, curve in ipairs(CURVES) do
    local ys, theirs = {}, PUBLISHED[curve.name]
    for i, row in ipairs(result.rows) do x[i], ys[i] = row[1], row[k + 1] end
    series[curve.name] = ys
    if theirs then
      local points = {}
      for i in ipairs(result.rows) do points[i] = i == 1 and theirs[1] or i == #result.rows and theirs[2] or 0 / 0 end
      series[curve.name .. ', paper'] = points
    end
  end
  return df.plot.line(x, series, { title = M.title .. ' (virtual)', xlabel = 'workers', ylabel = 'ms of the median step', log = 'xy', points = true })
end

function M.says(result)
  local one, all = result.rows[1], result.rows[#result.rows]
  return ('dense steps grow as there, by the servers\' ports: %.0f to %.0f ms (100 MB) and %.0f to %.0f ms (1 GB); with many workers they take longer than there, as all '
    .. 'begin at once, and a port '
    .. 'first sends and then receives. Sparse ones are the same to %.1f %% for tables of 16 and 256 MB. Scalar and sparse steps take %.2f to %.2f ms, far less than the '
      .. 'paper\'s: a remote '
    .. 'call costs more than a message of this clock.')
    :format(one[3], all[3], one[4], all[4], math.abs(all[5] / all[6] - 1) * 100, one[2], all[6])
end

return M
