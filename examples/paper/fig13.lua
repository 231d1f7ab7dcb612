--- Fig. 13: what the streams of a device do while it trains with swapping: copies run under the compute. Virtual time.
local lstm = require 'lstm'
local hardware = require 'hardware'
local timeline = require 'timeline'

local M = { title = 'Fig. 13: the streams of a K40 around the turn from the loop to its gradient', clock = 'virtual' }
M.published = 'by its picture, nearly all copies lie under compute.'

--- A recorded run whose saved values do not fit: a device with a fifth of what they take.
function M.run(opts)
  local h = lstm.start{ kind = hardware.K40, scale = opts.scale or 8, length = opts.length or 120, batch = opts.batch, units = opts.units, save = 'swap',
    memory = opts.memory or 0.4 * 2 ^ 30 }
  h:wait()
  return h
end

--- Seconds that each stream was busy, and for how much of the copies' time the device computed.
function M.measure(opts)
  local h = M.run(opts)
  local list = h:whatif{ timeline = true }.timeline
  local busy, copies, hidden, work = {}, {}, 0, {}
  for _, e in ipairs(list) do
    local stream = e.kind == 'copy' and (e.to == 'cpu:0' and 'copies to the host' or 'copies from the host') or e.kind == 'work' and e.device == 'sim:0' and 'compute'
    if stream then
      busy[stream] = (busy[stream] or 0) + e.ends - e.begins
      table.insert(stream == 'compute' and work or copies, e)
    end
  end
  local first = 1
  for _, c in ipairs(copies) do
    while work[first] and work[first].ends <= c.begins do first = first + 1 end
    local k = first
    while work[k] and work[k].begins < c.ends do
      hidden = hidden + math.min(work[k].ends, c.ends) - math.max(work[k].begins, c.begins)
      k = k + 1
    end
  end
  local out, into = busy['copies to the host'] or 0, busy['copies from the host'] or 0
  return { columns = { 'stream', 'busy_seconds', 'share_of_run' }, timeline = list, seconds = h:stats().seconds, hidden = hidden / (out + into),
    rows = { { 'compute', busy.compute, busy.compute / h:stats().seconds }, { 'copies to the host', out, out / h:stats().seconds },
             { 'copies from the host', into, into / h:stats().seconds } } }
end

function M.draw(result)
  local turn = 0
  for _, e in ipairs(result.timeline) do
    if e.kind == 'copy' and e.to == 'cpu:0' then turn = math.max(turn, e.ends) end
  end
  local first
  for _, e in ipairs(result.timeline) do
    if e.kind == 'copy' and e.to ~= 'cpu:0' then first = first or e.begins end
  end
  local middle = (turn + (first or turn)) / 2
  return { svg = function()
    return timeline.svg(result.timeline, { title = M.title .. ' (virtual)', from = math.max(0, middle - 0.05), to = middle + 0.05,
      keep = function(e) return e.kind ~= 'message' and (e.kind == 'copy' or e.device == 'sim:0') end })
  end }
end

function M.says(result)
  return ('%.1f %% of the time of copies lies under compute.'):format(100 * result.hidden)
end

return M
