--- What a run logged: its events, facts about their nodes and frames, its devices and links. Traces, profiles and
-- reports are made of these.
local core = require 'dflow.backend'
local graph = require 'dflow.front.graph'
local naming = require 'dflow.front.naming'
local enums = require 'dflow.backend.enums'

local M = {}
local TOKEN, DONE = enums.DF_EVENT_TOKEN, enums.DF_EVENT_DONE
local FIELDS = 10
local format = string.format

--- Calls fn(at, took, iteration, memory, node, frame, scope, kind, dead, device) for every event of a run that is over,
-- or so far.
function M.each(h, fn)
  local first = 0
  while true do
    local list = core.run_events(h.handle, first, 4096)
    for i = 0, #list / FIELDS - 1 do
      local b = i * FIELDS
      fn(list[b + 1], list[b + 2], list[b + 3], list[b + 4], list[b + 5], list[b + 6], list[b + 7], list[b + 8],
         list[b + 9] ~= 0, list[b + 10])
    end
    if #list < 4096 * FIELDS then return end
    first = first + 4096
  end
end

--- Facts about nodes and frames, looked up once: node(id) -> name, type, source, label: what Lua's variables call it;
-- tag(frame, iteration) -> 'while:17'.
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

--- A token by name: a message has the node of the value that it carries, but a device of its own.
function M.token(node, frame, iteration, device) return format('%d@%d@%.0f@%d', node, frame, iteration, device) end
local token = M.token

--- Tokens by name: M.token of each, and what was put there, until it is taken. Two messages may have one name: the
-- first that was put is the first taken.
function M.by_name()
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

--- What has to be known before the first line is written, since all lines stand in the order of their times: which
--- nodes ran elsewhere, and with which of its tokens an iteration ends. Both by event number.
-- @param place  nil, or function(device): an iteration ends on each place by itself
function M.look_ahead(h, place)
  local away, last, begun, i = {}, {}, M.by_name(), 0
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

--- The devices of a run and the links between them, in the order in which events number them: names, {from, to}; and
-- how many owners turned it.
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

return M
