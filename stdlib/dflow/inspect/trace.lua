--- What a run logged, as a timeline that Perfetto and chrome://tracing open: opts.trace = 'run.json' of df.run and df.start.
--
-- Nodes are slices of the thread that ran them: one after the other on the run's own, overlapping ones on lanes of the workers. A graph that is cut has a track for each
-- device instead, and an arrow for each message from the device that sent it to the one that got it, when it did; by the virtual clock also a track for each device's
-- copies, and for each link, and the times are that clock's. Where several owners turn the run their devices' slices lie beside each other, as they ran.
-- Iterations and frames overlap freely, so they are async spans, an id each. Memory is a counter. Times are microseconds, and the
-- lines of the file are in their order.
local core = require 'dflow.backend'
local json = require 'dflow.exchange.json'
local files = require 'dflow.exchange.file'
local graph = require 'dflow.front.graph'
local naming = require 'dflow.front.naming'

local M = {}
local enums = require 'dflow.backend.enums'
local TOKEN, DONE, OPEN = enums.DF_EVENT_TOKEN, enums.DF_EVENT_DONE, enums.DF_EVENT_FRAME_OPEN
local FIELDS = 10
local quote = json.quote
local format, concat = string.format, table.concat
local unpack = table.unpack or unpack

--- Calls fn(at, took, iteration, memory, node, frame, scope, kind, dead, device) for every event of a run that is over, or so far.
function M.each(h, fn)
  local first = 0
  while true do
    local list = core.run_events(h.handle, first, 4096)
    for i = 0, #list / FIELDS - 1 do
      local b = i * FIELDS
      fn(list[b + 1], list[b + 2], list[b + 3], list[b + 4], list[b + 5], list[b + 6], list[b + 7], list[b + 8], list[b + 9] ~= 0, list[b + 10])
    end
    if #list < 4096 * FIELDS then return end
    first = first + 4096
  end
end

--- Facts about nodes and frames, looked up once: node(id) -> name, type, source, label: what Lua's variables call it; tag(frame, iteration) -> 'while:17'.
function M.names(h)
  local g, nodes, frames, scopes = h.session.graph, {}, { [0] = { tag = '' } }, {}
  local named = naming.collect(g, true)
  local names = {}
  function names.node(id)
    local n = nodes[id]
    if not n then
      local op = graph.operation(g, id)
      n = { name = op.name, label = naming.label(named, id), type = op.type, source = op.source or '' }
      nodes[id] = n
    end
    return n
  end
  function names.scope(id)
    if not scopes[id] then
      local name, where = core.run_scope(h.handle, id)
      scopes[id] = { name = name or '', where = where or '' }
    end
    return scopes[id]
  end
  function names.open(frame, parent, iteration, scope)
    local p = frames[parent] or frames[0]
    local tag = names.scope(scope).name
    if p.tag ~= '' then tag = format('%s:%d/%s', p.tag, iteration, tag) end
    frames[frame] = { tag = tag, parent = parent, iteration = iteration, scope = scope }
  end
  function names.frame(frame) return frames[frame] or frames[0] end
  function names.tag(frame, iteration)
    local tag = names.frame(frame).tag
    return tag == '' and '' or format('%s:%d', tag, iteration)
  end
  return names
end

-- ---- the file ----------------------------------------------------------------------------------------------------------
local META = '{"ph":"M","pid":1,"tid":%d,"name":"thread_name","args":{"name":"%s"}}'

--- A token by name: a message has the node of the value that it carries, but a device of its own.
function M.token(node, frame, iteration, device) return format('%d@%d@%.0f@%d', node, frame, iteration, device) end
local token = M.token

--- Tokens by name: M.token of each, and what was put there, until it is taken. Two messages may have one name: the first that was put is the first taken.
local function by_name()
  local q = {}
  function q.put(name, device, v)
    if device >= 0 then q[name] = v return end
    q[name] = q[name] or {}
    table.insert(q[name], v)
  end
  function q.take(name, device)
    local v = q[name]
    if device >= 0 then q[name] = nil return v end
    return v and table.remove(v, 1)
  end
  return q
end

--- What has to be known before the first line is written, since all lines stand in the order of their times: which nodes ran
--- elsewhere, and with which of its tokens an iteration ends. Both by event number.
-- @param place  nil, or function(device): an iteration ends on each place by itself
function M.look_ahead(h, place)
  local away, last, begun, i = {}, {}, by_name(), 0
  M.each(h, function(_, _, iteration, _, node, frame, _, kind, _, device)
    i = i + 1
    if kind == TOKEN then
      if frame ~= 0 then last[('%s:%s%s'):format(frame, iteration, place and place(device) or '')] = i end
      begun.put(token(node, frame, iteration, device), device, i)
    elseif kind == DONE then
      away[begun.take(token(node, frame, iteration, device), device) or 0] = true
    end
  end)
  local ends = {}
  for key, event in pairs(last) do ends[event] = key end
  return away, ends
end

--- Writes the run's timeline to a file, in Perfetto's own format where it is called run.pftrace. Called by h:wait() when opts.trace was given.
function M.write(h, path)
  if path:find('%.pftrace$') or path:find('%.perfetto%-trace$') then return require('dflow.inspect.perfetto').write(h, path) end
  local write = h.recorded and require('dflow.inspect.timeline').write_to or M.write_to
  return files.with(path, function(file) write(h, file) end, 'trace')
end

--- The devices of a run and the links between them, in the order in which events number them: names, {from, to}; and how many owners turned it.
function M.places_of(h)
  local devices, links, owners = {}, {}, 0
  for line in core.run_report(h.handle):gmatch '[^\n]+' do
    local name = line:match '^memory (%S+)'
    local from, to = line:match '^transfer (%S+) %-> (%S+)'
    if name then devices[#devices + 1] = name end
    if from then links[#links + 1] = { from, to } end
    for _ in (line:match '^owners (.*)' or ''):gmatch '%d+' do owners = owners + 1 end
  end
  return devices, links, owners
end

local DEVICE, LANE = 1, 2000          -- the first threads of devices and of what runs elsewhere, where a graph is cut

--- The lines of the timeline.
function M.write_to(h, file)
  local names = M.names(h)
  local away, ends = M.look_ahead(h)
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
  local later = {}                                   -- lines whose time is the end of what ran, while others ran beside it: {time, …}
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
      q = { name = quote(n.name), gone = quote(n.name .. ' (dead)'), about = format('"op":%s,"source":%s', quote(n.type), quote(n.source)) }
      if n.label then q.about = q.about .. ',"variable":' .. quote(n.label) end
      quoted[id] = q
    end
    return q
  end
  file:write('{"displayTimeUnit":"ns","traceEvents":[\n')
  put('{"ph":"M","pid":1,"name":"process_name","args":{"name":"dflow"}}')
  local devices, links = M.places_of(h)
  local host = quote(devices[1])
  local cut, thread = #links > 0, {}
  for i, name in ipairs(devices) do
    thread[name] = DEVICE + i - 1
    if cut then put(META, thread[name], name) end
  end
  if not cut then put(META, 1, 'tokens') end
  local first_lane = cut and LANE or 2
  local arrow, arrows = by_name(), 0                 -- by place of a message on its way: its number
  local open, iterations, lane_of, busy, lanes = {}, {}, by_name(), {}, first_lane - 1
  local i, now, last_memory = 0, 0, nil
  M.each(h, function(at, took, iteration, memory, node, frame, scope, kind, dead, device)
    i = i + 1
    now = math.max(now, at + took)
    come_to(at)
    local link = cut and device < 0 and links[-device]
    local tid = link and thread[link[1]] or cut and DEVICE + math.max(device, 0) or 1
    if kind == OPEN then
      names.open(frame, node, iteration, scope)
      open[frame] = true
      put('{"ph":"b","cat":"frame","pid":1,"tid":1,"id":"f%d","ts":%.3f,"name":%s,"args":{"source":%s}}', frame, at / 1000, quote(names.frame(frame).tag),
        quote(names.scope(scope).where))
    elseif kind == TOKEN then
      local q, tag = words(node), quote(names.tag(frame, iteration))
      local key = frame ~= 0 and frame .. ':' .. iteration
      if key and not iterations[key] then
        iterations[key] = true
        put('{"ph":"b","cat":"iteration","pid":1,"tid":1,"id":"i%s","ts":%.3f,"name":%s}', key, at / 1000, tag)
      end
      put('{"ph":"X","cat":"%s","pid":1,"tid":%d,"ts":%.3f,"dur":%.3f,"name":%s,"args":{%s,"tag":%s,"dead":%s}}', link and 'message' or dead and 'dead' or 'node', tid, at / 1000,
        took / 1000, link and quote(('%s to %s'):format(names.node(node).name, link[2])) or dead and q.gone or q.name, q.about, tag, tostring(dead))
      if link then
        arrows = arrows + 1
        put('{"ph":"s","cat":"message","pid":1,"tid":%d,"id":%d,"ts":%.3f,"name":"message"}', tid, arrows, at / 1000)
        if away[i] then arrow.put(token(node, frame, iteration, device), device, arrows)
        else put_at(at + took, '{"ph":"f","cat":"message","pid":1,"tid":%d,"id":%d,"ts":%.3f,"name":"message"}', thread[link[2]], arrows, (at + took) / 1000) end
      end
      if ends[i] then put_at(at + took, '{"ph":"e","cat":"iteration","pid":1,"tid":1,"id":"i%s","ts":%.3f,"name":%s}', key, (at + took) / 1000, tag) end
      if away[i] then
        local lane = first_lane
        while busy[lane] do lane = lane + 1 end
        if lane > lanes then
          put(META, lane, (cut and 'on its way %d' or 'worker %d'):format(lane - first_lane + 1))
          lanes = lane
        end
        busy[lane] = true
        lane_of.put(token(node, frame, iteration, device), device, lane)
        put('{"ph":"B","cat":"away","pid":1,"tid":%d,"ts":%.3f,"name":%s,"args":{%s,"tag":%s}}', lane, at / 1000, q.name, q.about, tag)
      end
    elseif kind == DONE then
      local key = token(node, frame, iteration, device)
      local id = arrow.take(key, device)
      if id then put('{"ph":"f","cat":"message","pid":1,"tid":%d,"id":%d,"ts":%.3f,"name":"message"}', thread[link[2]], id, at / 1000) end
      local lane = lane_of.take(key, device)
      if lane then
        busy[lane] = nil
        put('{"ph":"E","cat":"away","pid":1,"tid":%d,"ts":%.3f}', lane, at / 1000)
      end
    else
      open[frame] = nil
      put('{"ph":"e","cat":"frame","pid":1,"tid":1,"id":"f%d","ts":%.3f,"name":%s}', frame, at / 1000, quote(names.frame(frame).tag))
    end
    if memory ~= last_memory then
      put_at(at + took, '{"ph":"C","pid":1,"name":"memory","ts":%.3f,"args":{%s:%.0f}}', (at + took) / 1000, host, memory)
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
  for _, frame in ipairs(left) do put('{"ph":"e","cat":"frame","pid":1,"tid":1,"id":"f%d","ts":%.3f,"name":%s}', frame, now / 1000, quote(names.frame(frame).tag)) end
  local lost = core.run_events_lost(h.handle)
  if lost > 0 then put('{"ph":"i","s":"g","pid":1,"tid":1,"ts":%.3f,"name":"the log was full: %.0f events are missing"}', now / 1000, lost) end
  file:write(concat(lines), '\n]}\n')
end

return M
