--- The timeline of a run by the virtual clock, as Perfetto and chrome://tracing open it: what the devices and their
-- links did when, by that clock.
--
-- A device has a track for what it computes, and one each for the copies to the host and from it that save = 'swap'
-- makes; a link has one for its messages. Arrows lead from what gave a value over the message that carried it to what
-- waited for it. It is read from the run's record, as h:whatif reads it.
local json = require 'dflow.exchange.json'
local logged = require 'dflow.inspect.events'

local M = {}
local format, quote = string.format, json.quote

--- The track of an event.
local function track_of(e, host)
  if e.kind == 'work' then return e.device end
  if e.kind == 'copy' then
    if e.to == host then return e.device .. ' copies to the host' end
    return e.to .. ' copies from the host'
  end
  return format('%s to %s', e.device, e.to)
end

--- Tracks in the order of their names, with their numbers; messages of a link may overlap by its latency, so each gets
-- lanes.
local function tracks_of(timeline, host)
  local names, thread, lanes, lane_of = {}, {}, {}, {}
  for _, e in ipairs(timeline) do
    local track = track_of(e, host)
    if not lanes[track] then
      lanes[track] = {}
      names[#names + 1] = track
    end
    local free, lane = lanes[track], 1
    while free[lane] and free[lane] > e.begins do lane = lane + 1 end
    free[lane], lane_of[e] = e.ends, lane
  end
  table.sort(names)
  local n, list = 0, {}
  for _, name in ipairs(names) do
    for lane = 1, #lanes[name] do
      n = n + 1
      thread[name .. '#' .. lane] = n
      list[n] = #lanes[name] > 1 and format('%s %d', name, lane) or name
    end
  end
  return list, function(e) return thread[track_of(e, host) .. '#' .. lane_of[e]] end
end

--- Writes the lines of the file, in the order of their times.
function M.write_to(h, file)
  local timeline = h:whatif{ timeline = true }.timeline
  local names, thread = tracks_of(timeline, logged.places_of(h)[1])
  local by_id, lines = {}, {}
  for _, e in ipairs(timeline) do by_id[e.id] = e end
  local function at(seconds, text) lines[#lines + 1] = { math.floor(seconds * 1e9 + 0.5), #lines, text } end
  local facts = logged.names(h)
  for _, e in ipairs(timeline) do
    local about, begins = facts.node(e.number), math.floor(e.begins * 1e9 + 0.5)
    at(e.begins, format('{"ph":"X","cat":"%s","pid":1,"tid":%d,"ts":%.3f,"dur":%.3f,"name":%s,'
      .. '"args":{"op":%s,"source":%s,"iteration":%.0f%s}}', e.kind, thread(e),
      begins / 1000, (math.floor(e.ends * 1e9 + 0.5) - begins) / 1000, quote(e.node), quote(about.type),
      quote(about.source), e.iteration,
      e.bytes and format(',"bytes":%.0f', e.bytes) or ''))
    local from = by_id[e.cause]
    if from and (e.kind == 'message' or from.kind ~= 'work') and thread(from) ~= thread(e) then
      local left = math.max(from.begins, math.min(from.ends, e.begins))
      at(left, format('{"ph":"s","cat":"message","pid":1,"tid":%d,"id":%d,"ts":%.3f,"name":"message"}', thread(from),
                      e.id, math.floor(left * 1e9 + 0.5) / 1000))
      at(e.begins, format('{"ph":"f","bp":"e","cat":"message","pid":1,"tid":%d,"id":%d,"ts":%.3f,"name":"message"}',
                          thread(e), e.id, begins / 1000))
    end
  end
  table.sort(lines, function(a, b) return a[1] < b[1] or (a[1] == b[1] and a[2] < b[2]) end)
  file:write('{"displayTimeUnit":"ns","traceEvents":[\n{"ph":"M","pid":1,"name":"process_name","args":{"name":"dflow, '
             .. 'by the virtual clock"}}')
  for tid, name in ipairs(names) do
    file:write(format(',\n{"ph":"M","pid":1,"tid":%d,"name":"thread_name","args":{"name":%s}}', tid, quote(name)))
  end
  for _, line in ipairs(lines) do file:write(',\n', line[3]) end
  file:write '\n]}\n'
end

return M
