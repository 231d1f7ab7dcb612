--- What a run logged, as a timeline that Perfetto and chrome://tracing open: opts.trace = 'run.json' of df.run and
-- df.start.
--
-- Nodes are slices of the thread that ran them: one after the other on the run's own, overlapping ones on lanes of the
-- workers. A graph that is cut has a track for each device instead, and an arrow for each message from the device that
-- sent it to the one that got it, when it did; by the virtual clock also a track for each device's copies, and for each
-- link, and the times are that clock's. Where several owners turn the run their devices' slices lie beside each other,
-- as they ran.
-- Iterations and frames overlap freely, so they are async spans, an id each. Memory is a counter. Times are
-- microseconds, and the lines of the file are in their order.
local json = require 'dflow.exchange.json'
local files = require 'dflow.exchange.file'
local core = require 'dflow.backend'
local logged = require 'dflow.inspect.events'
local enums = require 'dflow.backend.enums'

local M = {}
local TOKEN, DONE, OPEN = enums.DF_EVENT_TOKEN, enums.DF_EVENT_DONE, enums.DF_EVENT_FRAME_OPEN
local quote = json.quote
local format, concat = string.format, table.concat
local token = logged.token
local unpack = table.unpack or unpack
local META = '{"ph":"M","pid":1,"tid":%d,"name":"thread_name","args":{"name":"%s"}}'

local DEVICE, LANE = 1, 2000          -- the first threads of devices and of what runs elsewhere, where a graph is cut

--- The lines of the timeline.
function M.write_to(h, file)
  local names = logged.names(h)
  local away, ends = logged.look_ahead(h)
  local lines, comma = {}, ''
  local function put(...)
    lines[#lines + 1] = comma
    lines[#lines + 1] = format(...)
    comma = ',\n'
    if #lines > 4000 then
      file:write(concat(lines))
      lines = {}
    end
  end
  -- lines whose time is the end of what ran, while others ran beside it: {time, …}
  local later = {}
  local function put_at(time, ...)
    local k = #later
    while k > 0 and later[k][1] > time do k = k - 1 end
    table.insert(later, k + 1, { time, ... })
  end
  local function come_to(time)
    while later[1] and later[1][1] <= time do put(unpack(table.remove(later, 1), 2)) end
  end
  local quoted = {}                                  -- by node: name, the same when dead, op and source
  local function words(id)
    local q = quoted[id]
    if not q then
      local n = names.node(id)
      q = { name = quote(n.name), gone = quote(n.name .. ' (dead)'),
            about = format('"op":%s,"source":%s', quote(n.type), quote(n.source)) }
      if n.label then q.about = q.about .. ',"variable":' .. quote(n.label) end
      quoted[id] = q
    end
    return q
  end
  file:write('{"displayTimeUnit":"ns","traceEvents":[\n')
  put('{"ph":"M","pid":1,"name":"process_name","args":{"name":"dflow"}}')
  local devices, links = logged.places_of(h)
  local host = quote(devices[1])
  local cut, thread = #links > 0, {}
  for i, name in ipairs(devices) do
    thread[name] = DEVICE + i - 1
    if cut then put(META, thread[name], name) end
  end
  if not cut then put(META, 1, 'tokens') end
  local first_lane = cut and LANE or 2
  local arrow, arrows = logged.by_name(), 0                 -- by place of a message on its way: its number
  local open, iterations, lane_of, busy, lanes = {}, {}, logged.by_name(), {}, first_lane - 1
  local i, now, last_memory = 0, 0, nil
  logged.each(h, function(at, took, iteration, memory, node, frame, scope, kind, dead, device)
    i = i + 1
    now = math.max(now, at + took)
    come_to(at)
    local link = cut and device < 0 and links[-device]
    local tid = link and thread[link[1]] or cut and DEVICE + math.max(device, 0) or 1
    if kind == OPEN then
      names.open(frame, node, iteration, scope)
      open[frame] = true
      put('{"ph":"b","cat":"frame","pid":1,"tid":1,"id":"f%d","ts":%.3f,"name":%s,"args":{"source":%s}}', frame,
          at / 1000, quote(names.frame(frame).tag),
        quote(names.scope(scope).where))
    elseif kind == TOKEN then
      local q, tag = words(node), quote(names.tag(frame, iteration))
      local key = frame ~= 0 and frame .. ':' .. iteration
      if key and not iterations[key] then
        iterations[key] = true
        put('{"ph":"b","cat":"iteration","pid":1,"tid":1,"id":"i%s","ts":%.3f,"name":%s}', key, at / 1000, tag)
      end
      put('{"ph":"X","cat":"%s","pid":1,"tid":%d,"ts":%.3f,"dur":%.3f,"name":%s,"args":{%s,"tag":%s,"dead":%s}}', link
          and 'message' or dead and 'dead' or 'node', tid, at / 1000,
        took / 1000, link and quote(('%s to %s'):format(names.node(node).name, link[2])) or dead and q.gone or q.name,
        q.about, tag, tostring(dead))
      if link then
        arrows = arrows + 1
        put('{"ph":"s","cat":"message","pid":1,"tid":%d,"id":%d,"ts":%.3f,"name":"message"}', tid, arrows, at / 1000)
        if away[i] then arrow.put(token(node, frame, iteration, device), device, arrows)
        else put_at(at + took, '{"ph":"f","cat":"message","pid":1,"tid":%d,"id":%d,"ts":%.3f,"name":"message"}',
                    thread[link[2]], arrows, (at + took) / 1000) end
      end
      if ends[i] then
        put_at(at + took, '{"ph":"e","cat":"iteration","pid":1,"tid":1,"id":"i%s","ts":%.3f,"name":%s}',
               key, (at + took) / 1000, tag)
      end
      if away[i] then
        local lane = first_lane
        while busy[lane] do lane = lane + 1 end
        if lane > lanes then
          put(META, lane, (cut and 'on its way %d' or 'worker %d'):format(lane - first_lane + 1))
          lanes = lane
        end
        busy[lane] = true
        lane_of.put(token(node, frame, iteration, device), device, lane)
        put('{"ph":"B","cat":"away","pid":1,"tid":%d,"ts":%.3f,"name":%s,"args":{%s,"tag":%s}}', lane, at / 1000,
            q.name, q.about, tag)
      end
    elseif kind == DONE then
      local key = token(node, frame, iteration, device)
      local id = arrow.take(key, device)
      if id then
        put('{"ph":"f","cat":"message","pid":1,"tid":%d,"id":%d,"ts":%.3f,"name":"message"}', thread[link[2]], id,
            at / 1000)
      end
      local lane = lane_of.take(key, device)
      if lane then
        busy[lane] = nil
        put('{"ph":"E","cat":"away","pid":1,"tid":%d,"ts":%.3f}', lane, at / 1000)
      end
    else
      open[frame] = nil
      put('{"ph":"e","cat":"frame","pid":1,"tid":1,"id":"f%d","ts":%.3f,"name":%s}', frame, at / 1000,
          quote(names.frame(frame).tag))
    end
    if memory ~= last_memory then
      put_at(at + took, '{"ph":"C","pid":1,"name":"memory","ts":%.3f,"args":{%s:%.0f}}', (at + took) / 1000, host,
             memory)
      last_memory = memory
    end
  end)
  come_to(now)
  -- What a run that failed or was stopped left open, innermost first; and what the log had no room for.
  for lane = first_lane, lanes do
    if busy[lane] then put('{"ph":"E","cat":"away","pid":1,"tid":%d,"ts":%.3f}', lane, now / 1000) end
  end
  local left = {}
  for frame in pairs(open) do left[#left + 1] = frame end
  table.sort(left, function(a, b) return a > b end)
  for _, frame in ipairs(left) do
    put('{"ph":"e","cat":"frame","pid":1,"tid":1,"id":"f%d","ts":%.3f,"name":%s}', frame, now / 1000,
        quote(names.frame(frame).tag))
  end
  local lost = core.run_events_lost(h.handle)
  if lost > 0 then
    put('{"ph":"i","s":"g","pid":1,"tid":1,"ts":%.3f,"name":"the log was full: %.0f events are missing"}', now / 1000,
        lost)
  end
  file:write(concat(lines), '\n]}\n')
end

--- Writes the run's timeline to a file, in Perfetto's own format where it is called run.pftrace. Called by h:wait()
-- when opts.trace was given.
function M.write(h, path)
  if path:find('%.pftrace$') or path:find('%.perfetto%-trace$') then
    return require('dflow.inspect.perfetto').write(h, path)
  end
  local write = h.recorded and require('dflow.inspect.timeline').write_to or M.write_to
  return files.with(path, function(file) write(h, file) end, 'trace')
end

return M
