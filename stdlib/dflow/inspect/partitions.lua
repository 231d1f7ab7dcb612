--- A loop that several devices take part in is one frame, of which each device has a partition: how far it is, and what
-- it waits for, from which device.
--
-- Read out of a paused run: of the nodes that a device has in the loop, those that have not run in the oldest iteration
-- where some have not. A message is on its way where all of a node's inputs were made, and one of them elsewhere.
local core = require 'dflow.backend'
local graph = require 'dflow.front.graph'
local whereabouts = require 'dflow.inspect.whereabouts'

local M = {}
local READY, RUNNING, WAITING, PARTIAL = 0, 1, 2, 3      -- DF_TOKEN_*
local MOST = 20000                                       -- nodes asked about a frame: beyond that it takes too long

--- Where the nodes of a run's plan are: {on = {[node] = device}, inside = {[loop's name] = {[device] = {nodes}}}}.
function M.places(r)
  local loops, places = whereabouts.loops(r.session.graph), { on = {}, inside = {} }
  for _, p in ipairs(require('dflow.front.devices').placement(r.session.handle, r.flat)) do
    if p.id and p.id >= 0 then
      local loop = loops.of(p.id)
      local name = loop and loop.name or ''
      local inside = places.inside[name] or {}
      places.inside[name], inside[p.device] = inside, inside[p.device] or {}
      table.insert(inside[p.device], p.id)
      places.on[p.id] = p.device
    end
  end
  return places
end

--- Which of its inputs a node waits for: op, device that it comes from over the cut (nil: the node's own), whether it
-- is on its way.
local function waits_for(g, on, node, missing)
  local here, first = on[node], nil
  for i = 1, #missing, 2 do
    local op = whereabouts.origin(graph.output(g, missing[i], math.max(missing[i + 1], 0))).op
    if on[op.node] and on[op.node] ~= here then return op, on[op.node], false end
    first = first or op
  end
  if first then return first end
  for _, input in ipairs(graph.operation(g, node).inputs) do
    local op = whereabouts.origin(input).op
    if on[op.node] and on[op.node] ~= here then return op, on[op.node], true end
  end
end

--- What these nodes of a device do in an iteration: nil when all have run. Ready nodes come before running ones, then
-- those that wait for another device.
local function doing(r, on, nodes, frame, iteration)
  local best, least = nil, math.huge
  for _, node in ipairs(nodes) do
    local ok, state, missing = pcall(core.run_waits_for, r.handle, node, frame, iteration)
    local op, from, sent, rank
    if ok and state <= PARTIAL then
      if state == PARTIAL then op, from, sent = waits_for(r.session.graph, on, node, missing) end
      rank = state < PARTIAL and state or from and PARTIAL or PARTIAL + 1
      if rank < least then
        best, least = { node = node, state = state, waits_for = op, from = from, sent = sent }, rank
      end
    end
  end
  return best
end

--- The partitions of a frame: a list of {device =, iteration =, state = 'ready', 'running', 'waiting' or 'done', op =,
-- waits_for =, from =, sent =}, the oldest open iteration in which the device has something left to do; `sent`: what it
-- waits for is on its way. Empty where one device has it all.
function M.of(f, r, places)
  local devices, list = f.devices, {}
  if not f.parent or f.ended or #devices < 2 or f.enters_missing > 0 then return list end
  local inside, asked = places.inside[f.name] or {}, 0
  for _, device in ipairs(devices) do
    local part = { device = device, state = 'done', iteration = f.next - 1 }
    for iteration = f.first, f.next - 1 do
      asked = asked + #(inside[device] or {})
      if asked > MOST then return list end
      local now = doing(r, places.on, inside[device] or {}, f.id, iteration)
      if now then
        part.iteration = iteration
        part.op = graph.operation(r.session.graph, now.node)
        part.state = now.state == READY and 'ready' or (now.state == RUNNING or now.state == WAITING) and 'running'
          or 'waiting'
        part.waits_for, part.from, part.sent = now.waits_for, now.from, now.sent
        break
      end
    end
    list[#list + 1] = part
  end
  return list
end

--- `sim:1  iteration 7: loop/Sin waits for loop/Tanh from sim:0, which is on its way`
function M.text(p)
  if p.state == 'done' then return ('%s  has done all up to iteration %.0f'):format(p.device, p.iteration) end
  local what = p.state == 'ready' and 'is ready' or p.state == 'running' and 'is running'
    or p.waits_for and ('waits for %s%s%s'):format(p.waits_for.name, p.from and ' from ' .. p.from or '', p.sent
        and ', which is on its way' or '') or 'waits'
  return ('%s  iteration %.0f: %s %s'):format(p.device, p.iteration, p.op.name, what)
end

return M
