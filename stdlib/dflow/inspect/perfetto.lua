--- What a run logged, as a Perfetto trace: opts.trace = 'run.pftrace'. The format is protobuf,
-- perfetto/trace/trace.proto.
--
-- A track for each frame, below it a lane for each iteration in flight (the lowest that is free, so that iterations
-- that overlap lie side by side), and in a lane the nodes that ran there; kernels that workers have are on tracks of
-- their own, and where several owners turned the run an iteration has a lane for each device. An arrow goes from a node
-- to each that used what it made. Memory is a counter in bytes, times are nanoseconds.
local core = require 'dflow.backend'
local wire = require 'dflow.exchange.wire'
local files = require 'dflow.exchange.file'
local graph = require 'dflow.front.graph'
local primitive = require('dflow.front.registry').primitive
local logged = require 'dflow.inspect.events'
local whereabouts = require 'dflow.inspect.whereabouts'
local enums = require 'dflow.backend.enums'

local M = {}
local TOKEN, DONE, OPEN = enums.DF_EVENT_TOKEN, enums.DF_EVENT_DONE, enums.DF_EVENT_FRAME_OPEN
local concat = table.concat
local ARROWS = 200000                     -- tokens of which arrows are drawn

-- ---- protobuf -------------------------------------------------------------------------------------------------------
local number, bytes = wire.int, wire.bytes
local function fixed64(field, n) return wire.fixed64(field, wire.little(n, 8)) end

-- TracePacket: timestamp 8, trusted_packet_sequence_id 10, track_event 11, sequence_flags 13, track_descriptor 60.
local SEQUENCE = number(10, 1)
local function packet(body) return bytes(1, body .. SEQUENCE) end

-- TrackDescriptor: uuid 1, name 2, process 3 {pid 1, process_name 6}, parent_uuid 5, counter 8 {unit 3: 3 is bytes}.
local PROCESS, MEMORY, TOP = 1, 2, 3
local function track(uuid, name, parent, more)
  return packet(bytes(60, number(1, uuid) .. bytes(2, name) .. (parent and number(5, parent) or '') .. (more or '')))
end

-- TrackEvent: type 9 (1 begins a slice, 2 ends it, 3 instant, 4 counter), track_uuid 11, categories 22, name 23,
-- counter_value 30, flow_ids 47, debug_annotations 4 {name 10, string_value 6}.
local function annotation(name, text) return bytes(4, bytes(10, name) .. bytes(6, text)) end
local function event(at, type, uuid, more)
  return packet(number(8, at) .. bytes(11, number(9, type) .. number(11, uuid) .. (more or '')))
end

-- ---- arrows ---------------------------------------------------------------------------------------------------------

--- By event number: the numbers of arrows that begin and that end there.
local function arrows(h)
  local g, ran, into, flows, count, n = h.session.graph, {}, {}, {}, 0, 0
  local parents = {}
  local function producers(node)
    local list = into[node]
    if list then return list end
    list = {}
    into[node] = list
    local function add(o, back)
      local op = whereabouts.origin(o).op
      local second = primitive(op.type) == 'Merge' and op.inputs[2]
      -- a loop's Merge has no token of its own, as a rule
      if second and primitive(second.op.type) == 'NextIteration' then
        list[#list + 1] = { second.op.node, 1 }
        list[#list + 1] = { op.inputs[1].op.node, 'outer' }
        list[#list + 1] = { op.node, 0 }
      else
        list[#list + 1] = { op.node, back or 0 }
      end
    end
    for _, o in ipairs(graph.operation(g, node).inputs) do add(o) end
    return list
  end
  local function key(node, frame, iteration) return node .. '@' .. frame .. '@' .. iteration end
  logged.each(h, function(_, _, iteration, _, node, frame, _, kind)
    n = n + 1
    if kind == OPEN then
      parents[frame] = { node, iteration }
    elseif kind == TOKEN and n <= ARROWS then
      for _, p in ipairs(producers(node)) do
        local from
        if p[2] == 'outer' then
          local outer = iteration == 0 and parents[frame]
          from = outer and ran[key(p[1], outer[1], outer[2])]
        else
          from = ran[key(p[1], frame, iteration - p[2])]
        end
        if from then
          count = count + 1
          flows[from] = flows[from] or {}
          flows[n] = flows[n] or {}
          flows[from][#flows[from] + 1], flows[n][#flows[n] + 1] = count, count
        end
      end
      ran[key(node, frame, iteration)] = n
    end
  end)
  return flows
end

-- ---- the file -------------------------------------------------------------------------------------------------------
--- Writes the run's trace to a file.
function M.write(h, path)
  return files.with(path, function(file) M.write_to(h, file) end, 'trace')
end

function M.write_to(h, file)
  local names, flows = logged.names(h), arrows(h)
  local uuid = TOP
  local function fresh()
    uuid = uuid + 1
    return uuid
  end
  local tracks, lanes, lane_of, workers, worker_of = {}, {}, {}, {}, {}
  local devices, links, owners = logged.places_of(h)
  file:write(packet(bytes(60, number(1, PROCESS) .. bytes(3, number(1, 1) .. bytes(6, 'dflow')))),
    track(MEMORY, 'memory of ' .. devices[1], PROCESS, bytes(8, number(3, 3))), track(TOP, 'top level', PROCESS))
  local open, now, last_memory, i = {}, 0, nil, 0
  local about = {}

  --- The device that a token ran on, by name, where each has lanes of its own; else nil.
  local function place(device)
    return owners > 1 and (device < 0 and links[-device][1] or devices[device + 1]) or nil
  end

  local away, ends = logged.look_ahead(h, place)

  --- The lane of an iteration; the lowest of its frame that is free.
  local function lane(frame, iteration, device)
    local on = place(device)
    if frame == 0 and not on then return TOP end
    local key, all = ('%s:%s@%s'):format(frame, iteration, on or ''), ('%s@%s'):format(frame, on or '')
    if lane_of[key] then return lane_of[key].uuid end
    local list = lanes[all] or {}
    lanes[all] = list
    local k = 1
    while list[k] and list[k].busy do k = k + 1 end
    if not list[k] then
      list[k] = { uuid = fresh() }
      local name = on and frame == 0 and on or ('lane %d%s'):format(k, on and ' on ' .. on or '')
      file:write(track(list[k].uuid, name, tracks[frame] or TOP))
    end
    list[k].busy = true
    lane_of[key] = list[k]
    return list[k].uuid
  end

  local function words(id)
    if not about[id] then
      local n = names.node(id)
      about[id] = { bytes(23, n.name), bytes(23, n.name .. ' (dead)'), annotation('op', n.type)
                    .. annotation('source', n.source) }
    end
    return about[id]
  end

  local begun = {}
  logged.each(h, function(at, took, iteration, memory, node, frame, scope, kind, dead, device)
    i = i + 1
    now = at + took
    if kind == OPEN then
      names.open(frame, node, iteration, scope)
      tracks[frame] = fresh()
      local f = names.frame(frame)
      file:write(track(tracks[frame], f.tag, tracks[node] or PROCESS))
      file:write(event(at, 1, tracks[frame], bytes(22, 'frame') .. bytes(23, f.tag)
                       .. annotation('source', names.scope(scope).where)))
      open[frame] = true
    elseif kind == TOKEN then
      local w, where = words(node), lane(frame, iteration, device)
      local key = ('%s:%s@%s'):format(frame, iteration, place(device) or '')
      if frame ~= 0 and not begun[key] then
        begun[key] = true
        file:write(event(at, 1, where, bytes(22, 'iteration') .. bytes(23, names.tag(frame, iteration))))
      end
      local arrow = {}
      for k, id in ipairs(flows[i] or {}) do arrow[k] = fixed64(47, id) end
      if away[i] and device >= 0 then
        local k = 1
        while workers[k] and workers[k].busy do k = k + 1 end
        if not workers[k] then
          workers[k] = { uuid = fresh() }
          file:write(track(workers[k].uuid, ('worker %d'):format(k), PROCESS))
        end
        workers[k].busy = true
        worker_of[node .. '@' .. frame .. ':' .. iteration] = workers[k]
        file:write(event(at, 1, workers[k].uuid, bytes(22, 'node') .. w[1] .. w[3]
                         .. annotation('tag', names.tag(frame, iteration)) .. concat(arrow)))
      else
        file:write(event(at, 1, where, bytes(22, dead and 'dead' or 'node') .. w[dead and 2 or 1] .. w[3]
                         .. concat(arrow)), event(now, 2, where))
      end
      if ends[i] and frame ~= 0 then
        file:write(event(now, 2, where))
        lane_of[key].busy = false
        lane_of[key], begun[key] = nil, nil
      end
    elseif kind == DONE then
      local w = device >= 0 and worker_of[node .. '@' .. frame .. ':' .. iteration]
      if w then
        worker_of[node .. '@' .. frame .. ':' .. iteration], w.busy = nil, false
        file:write(event(at, 2, w.uuid))
      end
    else
      open[frame] = nil
      if tracks[frame] then file:write(event(at, 2, tracks[frame])) end
    end
    if memory ~= last_memory then
      file:write(event(now, 4, MEMORY, number(30, memory)))
      last_memory = memory
    end
  end)
  for frame in pairs(open) do file:write(event(now, 2, tracks[frame])) end            -- of a run that failed
  local lost = core.run_events_lost(h.handle)
  if lost > 0 then
    file:write(event(now, 3, TOP, bytes(23, ('the log was full: %.0f events are missing'):format(lost))))
  end
end

return M
