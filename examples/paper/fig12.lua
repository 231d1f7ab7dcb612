--- Fig. 12: how much faster a pipeline over 8 devices becomes as more iterations may run at once. Virtual time.
--
-- The body of the loop is a chain of 8 products with a matrix of 1024², one on each device. An iteration needs nothing of the one before it, so with k iterations at
-- once up to k devices compute.
local df = require 'dflow'
local hardware = require 'hardware'

local M = { title = 'Fig. 12: a pipeline of 8 devices', clock = 'virtual', windows = { 1, 2, 4, 8, 16, 32 } }

--- A run of the pipeline that is over, recorded.
-- @param window  parallel_iterations
function M.run(window, opts)
  local stages, size, trips, scale = opts.devices or 8, opts.size or 1024, opts.trips or 64, opts.scale or 32
  local g, h = df.Graph()
  g:as_default(function()
    local x, w = df.placeholder('float32', { size / scale, size }), df.placeholder('float32', { size, size })
    local _, ends = df.while_loop(function(i) return i:lt(trips) end, function(i, ends)
      local y = x
      for d = 0, stages - 1 do y = df.device(('sim:%d'):format(d), function() return y:matmul(w) end) end
      return i + 1, ends:write(i, df.device(('sim:%d'):format(stages - 1), function() return y:reduce_sum() end))
    end, { df.int32(0), df.TensorArray('float32', trips) }, { parallel_iterations = window })
    local s = df.Session{ graph = g, clock = 'virtual', devices = hardware.devices(hardware.V100, stages, scale) }
    h = s:start(ends:stack(), { [x] = df.run(df.zeros{ size / scale, size }), [w] = df.run(df.zeros{ size, size }) }, { record = true })
    h:wait()
  end)
  return h
end

function M.measure(opts)
  local rows, one = {}
  for i, window in ipairs(opts.windows or M.windows) do
    local seconds = M.run(window, opts):stats().seconds
    one = one or seconds
    rows[i] = { window, seconds, one / seconds }
  end
  return { columns = { 'parallel_iterations', 'seconds', 'speed_up' }, rows = rows }
end

function M.draw(result)
  local x, y = {}, {}
  for i, row in ipairs(result.rows) do x[i], y[i] = row[1], row[3] end
  return df.plot.line(x, y, { title = M.title, xlabel = 'parallel_iterations', ylabel = 'times as fast as with 1', log = 'x', zero = true, points = true })
end

return M
