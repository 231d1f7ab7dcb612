--- OSDI'16, Fig. 8: training Inception-v3 with 17 parameter servers: images a second, how long steps take, and what backup workers bring. Virtual time.
--
-- A worker fetches the model (24 million numbers, a 17th from each server), computes on a batch of 32, and sends as much back. How long it computes is drawn for each step:
-- MEDIAN seconds, a few per cent more or less, and now and then much longer. Asynchronous workers are loops that know nothing of each other; a synchronous step is over when
-- the gradients of all have come, or, with b backup workers, those of the first of 50 among 50 + b.
local df = require 'dflow'
local servers = require 'servers'

local M = { title = 'Fig. 8: Inception-v3 with 17 parameter servers', clock = 'virtual', workers = { 25, 50, 100, 200 }, backup = { 0, 1, 2, 3, 4, 5, 6 } }
M.published = '2,300 images a second with 200 asynchronous workers, and less for each worker that is added; the median synchronous step takes about 10 % longer than the '
  .. 'asynchronous one, and far'
  .. ' longer from the 90th percentile on; of up to 5 backup workers for 50, four give the shortest step (1.93 s), and three the most per worker (9.5 %).'
local PS, NEED, BATCH, MODEL, SCALE = 17, 50, 32, 24e6 * 4, 640
-- Fitted: the median so that a step with four backup workers takes the 1.93 s of the paper, the tail so that the best number of them is three or four.
local MEDIAN, SPREAD, LATE, LATENESS = 1.43, 0.03, 0.05, 0.27
local ROWS, WIDTH = 20000, 8

--- What a worker computes: its time is in proportion to a number of rows, which is drawn.
local function compute(opts, w, x)
  return servers.on_worker(opts, w, function()
    local late = df.cast(df.random_uniform({}):lt(LATE), 'float32') * LATENESS * df.random_uniform({}, { min = 0.3, max = 1.7 })
    local rows = df.cast(ROWS / 4 * (1 + SPREAD * df.random_normal({}) + late), 'int32')
    return df.slice(x, df.constant({ 0, 0 }, 'int32'), df.stack{ df.minimum(rows, ROWS), df.int32(WIDTH) }).op
  end)
end
--- Of what speed a worker is, so that ROWS / 4 rows take MEDIAN: a slice moves what it puts out twice.
local SPEED = 2 * ROWS / 4 * WIDTH * 4 / 20e9 / MEDIAN

--- Everything that a step of worker w is; gives the gradients, where the worker is.
local function gradients(opts, w, model, x)
  local read, out = {}, {}
  for p, v in ipairs(model) do
    local value = servers.on_server(p, function() return v:value() end)
    read[p] = servers.on_worker(opts, w, function() return df.reshape(value, { -1 }) end)
  end
  local computed = df.control_dependencies(read, function() return compute(opts, w, x) end)
  df.control_dependencies({ computed }, function()
    for p in ipairs(model) do out[p] = servers.on_worker(opts, w, function() return df.identity(read[p]) end) end
  end)
  return out
end

--- A graph with the model, and what fn(opts, model, x) builds on it; run(fetch) gives when each worker's gradients of each iteration had come, in seconds.
local function cluster(workers, fn)
  local opts, g = { ps = PS, workers = workers, speed = SPEED * SCALE, scale = SCALE }, df.Graph()
  return g:as_default(function()
    df.set_random_seed(workers)
    local model, xs = {}, {}
    for p = 1, PS do model[p] = servers.on_server(p, function() return df.Variable(df.zeros{ math.floor(MODEL / 4 / PS / SCALE) }) end) end
    for w = 1, workers do xs[w] = servers.on_worker(opts, w, function() return df.Variable(df.zeros{ ROWS, WIDTH }, { trainable = false }) end) end
    local fetch, s = fn(opts, model, xs), df.Session{ graph = g, clock = 'virtual', devices = servers.devices(opts) }
    for _, list in ipairs{ model, xs } do for _, v in ipairs(list) do s:run(v:value().op) end end
    return function()
      local h, came = s:start(fetch, nil, { record = true }), {}
      h:wait()
      for _, e in ipairs(h:whatif{ timeline = true }.timeline) do
        local w = e.kind == 'message' and tonumber(e.device:match '%d+') - PS + 1 or 0
        if w > 0 and e.bytes > 1000 then
          local k = (e.iteration or 0) + 1
          came[k] = came[k] or {}
          came[k][w] = math.max(came[k][w] or 0, e.ends)
        end
      end
      return came
    end
  end)
end

--- Steps of workers that know nothing of each other, sorted; and images a second of all.
function M.asynchronous(workers, steps)
  local run = cluster(workers, function(opts, model, xs)
    local ends = {}
    for w = 1, workers do
      ends[w] = servers.on_worker(opts, w, function()
        return df.while_loop(function(k) return k:lt(steps) end, function(k)
          local done = {}
          for p, gradient in ipairs(gradients(opts, w, model, xs[w]:value())) do
            done[p] = servers.on_server(p, function() return model[p]:assign_sub(gradient).op end)
          end
          return df.control_dependencies(done, function() return k + 1 end)
        end, { df.int32(0) }, { parallel_iterations = 1 })
      end)
    end
    return df.group(ends)
  end)
  local came, took, rate = run(), {}, 0
  for w = 1, workers do
    for k = 2, steps do took[#took + 1] = came[k][w] - came[k - 1][w] end            -- the first begins with everybody else's
    rate = rate + (steps - 1) * BATCH / (came[steps][w] - came[1][w])
  end
  table.sort(took)
  return took, rate
end

--- Synchronous steps of `need` of `workers`, sorted.
function M.synchronous(workers, need, steps)
  local run = cluster(workers, function(opts, model, xs)
    local sums, all = {}, {}
    for w = 1, workers do all[w] = gradients(opts, w, model, xs[w]:value()) end
    for p = 1, PS do
      sums[p] = servers.on_server(p, function()
        local list = {}
        for w = 1, workers do list[w] = all[w][p] end
        return df.add_n(list).op
      end)
    end
    return df.group(sums)
  end)
  local took = {}
  for k = 1, steps do
    local came = run()[1]
    table.sort(came)
    took[k] = came[need]
  end
  table.sort(took)
  return took
end

local function mean(list)
  local sum = 0
  for _, v in ipairs(list) do sum = sum + v end
  return sum / #list
end

function M.measure(opts)
  local rows, steps, at = {}, opts.steps or 80, servers.percentile
  for _, n in ipairs(opts.workers or M.workers) do
    local took, rate = M.asynchronous(n, 4)
    rows[#rows + 1] = { 'asynchronous', n, 0, rate, at(took, 0.1), at(took, 0.5), at(took, 0.9), at(took, 0.99), '' }
    took = M.synchronous(n, n, math.ceil(steps / 10))
    rows[#rows + 1] = { 'synchronous', n, 0, n * BATCH / mean(took), at(took, 0.1), at(took, 0.5), at(took, 0.9), at(took, 0.99), '' }
  end
  local plain
  for _, b in ipairs(opts.backup or M.backup) do
    local took = M.synchronous(NEED + b, NEED, steps)
    local second = mean(took)
    plain = plain or second
    rows[#rows + 1] = { 'backup', NEED, b, NEED * BATCH / second, at(took, 0.1), at(took, 0.5), at(took, 0.9), at(took, 0.99), plain / second * NEED / (NEED + b) }
  end
  return { columns = { 'how', 'workers', 'backup', 'images_per_second', 'p10_s', 'median_s', 'p90_s', 'p99_s', 'speed_up_per_worker' }, rows = rows,
    note = ('fitted: %g s of computing, %g %% more or less, and %g %% of the steps longer by %g times that on average; the model is made in 1/%d of its size, on links as '
      .. 'much slower')
      :format(MEDIAN, SPREAD * 100, LATE * 100, LATENESS, SCALE) }
end

local function series(result, how, x, y)
  local xs, ys = {}, {}
  for _, row in ipairs(result.rows) do
    if row[1] == how then xs[#xs + 1], ys[#ys + 1] = row[x], row[y] end
  end
  return xs, ys
end

function M.draw(result)
  local x, free = series(result, 'asynchronous', 2, 4)
  local _, together = series(result, 'synchronous', 2, 4)
  local _, median = series(result, 'asynchronous', 2, 6)
  local _, late = series(result, 'asynchronous', 2, 8)
  local _, sync_median = series(result, 'synchronous', 2, 6)
  local _, sync_late = series(result, 'synchronous', 2, 8)
  local b, rates = series(result, 'backup', 3, 4)
  local took = {}
  for i, rate in ipairs(rates) do took[i] = NEED * BATCH / rate end
  local paper, at_four = {}, {}
  for i, n in ipairs(x) do paper[i] = n == 200 and 2300 or 0 / 0 end
  for i, n in ipairs(b) do at_four[i] = n == 4 and 1.93 or 0 / 0 end
  return {
    a = df.plot.line(x, { asynchronous = free, synchronous = together, ['asynchronous, paper'] = paper },
      { title = M.title .. ' (virtual)', xlabel = 'workers', ylabel = 'images a second', zero = true, points = true }),
    b = df.plot.line(x, { ['asynchronous, median'] = median, ['asynchronous, 99 %'] = late, ['synchronous, median'] = sync_median, ['synchronous, slowest'] = sync_late },
      { title = 'Fig. 8: seconds for a step (virtual)', xlabel = 'workers', ylabel = 's', zero = true, points = true }),
    c = df.plot.line(b, { dflow = took, paper = at_four }, { title = 'Fig. 8: a step of 50 workers with backup workers (virtual)', xlabel = 'backup workers',
      ylabel = 's, mean', points = true }),
  }
end

function M.says(result)
  local b, rates = series(result, 'backup', 3, 4)
  local took = {}
  for i, rate in ipairs(rates) do took[i] = NEED * BATCH / rate end
  local _, gain = series(result, 'backup', 3, 9)
  local shortest, most = 1, 1
  for i in ipairs(b) do
    if took[i] < took[shortest] then shortest = i end
    if gain[i] > gain[most] then most = i end
  end
  local _, rate = series(result, 'asynchronous', 2, 4)
  local _, median = series(result, 'asynchronous', 2, 6)
  local _, together = series(result, 'synchronous', 2, 6)
  return ('%.0f images a second with 200 asynchronous workers, %.1f times those of 25 (8 times the workers): less for each worker that is added, as there. The median '
    .. 'synchronous step of 50 takes %.0f %% longer than the '
    .. 'asynchronous one (10 there): all fetch the model at once, and wait for the slowest. With %d backup workers each worker brings the most (%.1f %%); a step is '
      .. 'shortest with %d (%.2f s), and with four '
    .. '%.1f %% longer than that.')
    :format(rate[#rate], rate[#rate] / rate[1], (together[2] / median[2] - 1) * 100, b[most], (gain[most] - 1) * 100, b[shortest], took[shortest],
      (took[5] / took[shortest] - 1) * 100)
end

return M
