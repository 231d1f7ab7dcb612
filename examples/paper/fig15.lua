--- Fig. 15: an LSTM of 8 layers over 1 to 8 devices. Virtual time.
--
-- The loop over time is one, and every device takes part in it: layer l of step t runs beside layer l + 1 of step t - 1. So does the loop of the gradient, backwards.
local lstm = require 'lstm'
local hardware = require 'hardware'
local df = require 'dflow'

local M = { title = 'Fig. 15: an LSTM of 8 layers', clock = 'virtual', devices = { 1, 2, 4, 8 } }

--- A step of training on n devices, which is over, recorded.
function M.run(n, opts)
  local h = lstm.start{ kind = hardware.V100, scale = opts.scale or 16, length = opts.length or 100, layers = 8, devices = n, batch = opts.batch, units = opts.units }
  h:wait()
  return h
end

function M.measure(opts)
  local rows, one = {}
  for i, n in ipairs(opts.devices or M.devices) do
    local seconds = M.run(n, opts):stats().seconds
    one = one or seconds
    rows[i] = { n, seconds, one / seconds }
  end
  return { columns = { 'devices', 'seconds', 'speed_up' }, rows = rows }
end

function M.draw(result)
  local x, y = {}, {}
  for i, row in ipairs(result.rows) do x[i], y[i] = row[1], row[3] end
  return df.plot.line(x, { dflow = y, ideal = x }, { title = M.title, xlabel = 'devices', ylabel = 'times as fast as on 1', zero = true, points = true })
end

return M
