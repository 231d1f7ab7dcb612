--- Where a node of a run is: which of the open frames its values are in, and which iteration is meant.
--
-- A graph says which loops are around a node; a paused run says which frames are open. A question such as `why x` is
-- asked where the run stands, and x may be further in or further out: find() goes from there to the frame of x that is
-- nearest.
local core = require 'dflow.backend'
local registry = require 'dflow.front.registry'

local M = {}

--- The output whose value this one is: past what only hands it on, which has no token.
function M.origin(o)
  while registry.about(o.op.type, 'passes') do o = o.op.inputs[1] end
  return o
end

local EXIT = 5               -- DF_ROLE_EXIT

--- The loops of a graph.
-- @return  {of = function(node) -> the innermost loop whose frame the node's values are in, or nil; exit =
--          function(node) -> the loop it leaves; above = function(loop)}; a loop is an element of core.flows
function M.loops(g)
  local owner, number, roles = {}, {}, nil
  for _, f in ipairs(core.flows(g.handle)) do
    if f.kind == 2 then number[f.number] = f end
    for _, context in ipairs{ f.inside_0, f.inside_1 } do
      if context >= 0 then owner[context] = f end
    end
  end
  local M_ = {}
  local function around(context)
    local f = owner[context]
    while f and f.kind ~= 2 do f = owner[f.parent] end
    return f
  end
  function M_.of(node) return around(core.node_context(g.handle, node)) end
  function M_.above(loop) return around(loop.parent) end
  function M_.exit(node)
    roles = roles or core.flow_roles(g.handle)
    return roles[3 * node + 1] == EXIT and number[roles[3 * node + 2]] or nil
  end
  --- The nodes by which values enter a loop.
  function M_.enters(loop)
    local list = {}
    for node = 0, core.graph_nodes(g.handle) - 1 do
      if registry.primitive(core.node_type(g.handle, node)) == 'Enter' and M_.of(node) == loop then
        list[#list + 1] = node
      end
    end
    return list
  end
  return M_
end

--- Is the frame one of this loop? nil stands for the top level.
local function is_of(f, loop)
  if not loop then return not f.parent end
  return f.parent ~= nil and f.name == loop.name
end

--- The frames from one outwards: id -> the iteration of it that is meant.
local function path(f, iteration)
  local by_id = {}
  while f do
    by_id[f.id] = iteration
    iteration, f = f.parent_iteration, f.parent
  end
  return by_id
end

--- The frame of `loop` that is nearest to iteration `iteration` of frame `f`: it or one around it, else one that is
-- open inside.
-- @return  frame, iteration; nil when none is open
function M.find(frames, f, iteration, loop)
  local at, n = f, iteration
  while at do
    if is_of(at, loop) then return at, n end
    n, at = at.parent_iteration, at.parent
  end
  local from, best, most = path(f, iteration), nil, -1
  for _, candidate in ipairs(frames) do
    if is_of(candidate, loop) then
      local common, inner = 0, candidate
      -- the nearer the place they have in common, the better; in the same iteration best of all
      while inner.parent do
        if from[inner.parent.id] == inner.parent_iteration then common = 2 break end
        if from[inner.parent.id] then common = 1 break end
        inner = inner.parent
      end
      if common > most then best, most = candidate, common end
    end
  end
  if best then return best, best.first end
end

--- `while:17/inner:2`; '' at the top level.
function M.tag(f, iteration) return f.parent and ('%s:%.0f'):format(f.tag, iteration) or '' end

--- In words, how far a frame is when this iteration of it is not open; nil when it is.
function M.closed(f, iteration)
  if not f.parent then return nil end
  if f.enters_missing > 0 then
    return ('`%s` has not begun: %d of its inputs %s not come')
      :format(f.tag, f.enters_missing, f.enters_missing == 1 and 'has' or 'have')
  end
  if iteration >= f.next then
    return ('iteration %.0f of `%s` has not begun: %s'):format(iteration, f.tag, M.flight(f))
  end
  if iteration < f.first then return ('iteration %.0f of `%s` is over: %s'):format(iteration, f.tag, M.flight(f)) end
end

--- `iterations 3-7 are in flight`
function M.flight(f)
  if f.ended then return 'the run is over' end
  if f.next - f.first == 1 then return ('iteration %.0f is in flight'):format(f.first) end
  return ('iterations %.0f-%.0f are in flight'):format(f.first, f.next - 1)
end

return M
