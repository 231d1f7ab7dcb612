--- Fig. 12: how much faster a pipeline over 8 devices becomes as more iterations may run at once. Virtual time.
--
-- The body of the loop is a chain of 8 products with a matrix of 1024², one on each device. An iteration needs nothing of the one before it, so with k iterations at
-- once up to k devices compute. Each device has an owner, which opens a window of iterations of its own, as each of the paper's has an executor.
local df = require 'dflow'
local hardware = require 'hardware'

local M = { title = 'Fig. 12: a pipeline of 8 devices', clock = 'virtual', windows = { 1, 2, 4, 8, 16, 32 } }
M.published = 'on 8 V100, five times as fast with 8 iterations at once as with one.'

--- A run of the pipeline that is over, recorded.
-- @param window  parallel_iterations
-- @param kind    of hardware, a V100 by itself
function M.run(window, opts, kind)
  local stages, size, trips, scale = opts.devices or 8, opts.size or 1024, opts.trips or 64, opts.scale or 32
  local g, h = df.Graph()
  g:as_default(function()
    local x, w = df.placeholder('float32', { size / scale, size }), df.placeholder('float32', { size, size })
    local _, ends = df.while_loop(function(i) return i:lt(trips) end, function(i, ends)
      local y = x
      for d = 0, stages - 1 do y = df.device(('sim:%d'):format(d), function() return y:matmul(w) end) end
      return i + 1, ends:write(i, df.device(('sim:%d'):format(stages - 1), function() return y:reduce_sum() end))
    end, { df.int32(0), df.TensorArray('float32', trips) }, { parallel_iterations = window })
    local s = df.Session{ graph = g, clock = 'virtual_owners', owners = stages + 1, devices = hardware.devices(kind or hardware.V100, stages, scale) }
    h = s:start(ends:stack(), { [x] = df.run(df.zeros{ size / scale, size }), [w] = df.run(df.zeros{ size, size }) }, { record = true })
    h:wait()
  end)
  return h
end

function M.measure(opts)
  local rows, one, k40_one = {}, nil, nil
  for i, window in ipairs(opts.windows or M.windows) do
    local seconds, k40 = M.run(window, opts):stats().seconds, M.run(window, opts, hardware.K40):stats().seconds
    one, k40_one = one or seconds, k40_one or k40
    rows[i] = { window, seconds, one / seconds, k40, k40_one / k40 }
  end
  return { columns = { 'parallel_iterations', 'V100_seconds', 'V100_speed_up', 'K40_seconds', 'K40_speed_up' }, rows = rows }
end

function M.draw(result)
  local x, y, z, paper = {}, {}, {}, {}
  for i, row in ipairs(result.rows) do x[i], y[i], z[i], paper[i] = row[1], row[3], row[5], row[1] == 1 and 1 or row[1] == 8 and 5 or 0 / 0 end
  return df.plot.line(x, { V100 = y, K40 = z, ['V100, paper'] = paper }, { title = M.title .. ' (virtual)', xlabel = 'parallel_iterations', ylabel = 'times as fast as with 1',
    log = 'x', zero = true, points = true })
end

function M.says(result)
  local last, eight = result.rows[#result.rows], result.rows[math.min(4, #result.rows)]
  return ('%.1f times with %d at once on V100s, %.1f on K40s; with %d it is %.1f and %.1f. More than 8 is possible as messages lie beside products; the paper\'s devices '
    .. 'have something to do besides.')
    :format(eight[3], eight[1], eight[5], last[1], last[3], last[5])
end

return M
