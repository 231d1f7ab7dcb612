--- Fig. 15: an LSTM of 8 layers over 1 to 8 devices. Virtual time.
--
-- The loop over time is one, and every device takes part in it: layer l of step t runs beside layer l + 1 of step t - 1. So does the loop of the gradient, backwards.
local lstm = require 'lstm'
local hardware = require 'hardware'
local df = require 'dflow'

local M = { title = 'Fig. 15: an LSTM of 8 layers', clock = 'virtual', length = 100, devices = { 1, 2, 4, 8 } }
M.published = '5.5 times as fast on 8 GPUs as on one.'

--- A step of training on n devices, which is over, recorded.
function M.run(n, opts)
  local h = lstm.start{ kind = hardware.V100, scale = opts.scale or 16, length = opts.length or M.length, layers = 8, devices = n, batch = opts.batch, units = opts.units }
  h:wait()
  return h
end

--- Of the forward and the backward loop: seconds of a time step of a device, and how much later than a device the next one begins.
local function wave(h, length)
  local loops, last = {}, 0
  for _, e in ipairs(h:whatif{ timeline = true }.timeline) do
    local d = tonumber(e.device:match 'sim:(%d+)')
    if e.kind == 'work' and d and e.frame > 0 then
      loops[e.frame] = loops[e.frame] or { busy = 0, begins = {} }
      local l = loops[e.frame]
      l.begins[d] = l.begins[d] or e.begins
      if d == 0 then l.busy = l.busy + e.ends - e.begins end
      last = math.max(last, d)
    end
  end
  local steps, delays = {}, {}
  for frame, l in pairs(loops) do
    steps[frame], delays[frame] = l.busy / length, last > 0 and math.abs(l.begins[last] - l.begins[0]) / last or 0
  end
  return steps, delays
end

--- How many times as fast n devices can be: they wait for the wave to come to the last and to come back.
function M.bound(n, length, steps, delays)
  local step, delay = steps[1] + steps[2], delays[1] + delays[2]
  return n * length * step / (length * step + (n - 1) * delay)
end

function M.measure(opts)
  local rows, one = {}
  for i, n in ipairs(opts.devices or M.devices) do
    local h, length = M.run(n, opts), opts.length or M.length
    local seconds, steps, delays = h:stats().seconds, wave(h, length)
    one = one or seconds
    rows[i] = { n, seconds, one / seconds, M.bound(n, length, steps, delays), steps[2] * 1e3, delays[2] * 1e3 }
  end
  return { columns = { 'devices', 'seconds', 'speed_up', 'wavefront', 'backward_step_ms', 'backward_hands_on_ms' }, rows = rows }
end

function M.draw(result)
  local x, y, bound, paper = {}, {}, {}, {}
  for i, row in ipairs(result.rows) do x[i], y[i], bound[i], paper[i] = row[1], row[3], row[4], row[1] == 8 and 5.5 or 0 / 0 end
  return df.plot.line(x, { dflow = y, wavefront = bound, paper = paper }, { title = M.title .. ' (virtual)', xlabel = 'devices', ylabel = 'times as fast as on 1', zero = true,
    points = true })
end

function M.says(result)
  local last = result.rows[#result.rows]
  return ('%.2f times as fast on %d devices as on one; their wave allows %.2f. A wave of equal steps would allow %.2f, but in the backward loop a layer hands its gradient '
    .. 'on after %.2f ms of a step of %.2f, '
    .. 'before those of its weights.'):format(last[3], last[1], last[4], last[1] * M.length / (M.length + last[1] - 1), last[6], last[5])
end

return M
