--- What a picture is made of, read out of the graph: the nodes that lead to what was asked for, and the conds, loops
-- and frames around them. Plain tables: the graph may go while they stay.
local core = require 'dflow.backend'
local registry = require 'dflow.front.registry'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local text = require 'dflow.front.text'

local M = {}
local SMALL = 4              -- constants of up to this many elements are shown as they are written

--- dflow.h's DF_ROLE_*.
local roles = { 'enter', 'variable', 'switch', 'next', 'exit', 'capture', 'loop_cond', 'pivot', 'result', 'done' }
--- dflow.h's DF_LOWERED_*.
local lowered = { [0] = 'unneeded', 'fed', 'kernel', 'scalar', 'flow', 'in place', 'passed', 'merged', 'duplicate',
                  'unused' }

--- The ends of a whole graph: output 0 of what has no readers, or the operation where it has none.
local function ends(g)
  local h, taken, list = g.handle, {}, { whole = true }
  for id = 0, core.graph_nodes(h) - 1 do
    for i = 0, core.node_inputs(h, id) - 1 do taken[core.node_input_of(h, id, i)] = true end
    for _, from in ipairs(core.node_controls(h, id)) do taken[from] = true end
  end
  for id = 0, core.graph_nodes(h) - 1 do
    if not taken[id] then list[#list + 1] = { id, core.node_outputs(h, id) > 0 and 0 or -1 } end
  end
  return list
end

--- The outputs and operations in what was asked for, as pairs node, index (-1: an operation), `whole` of a graph; and
-- their graph.
function M.roots(what)
  if getmetatable(what) == graph.Graph then
    if what:size() == 0 then errors.bad('there is nothing to draw: the graph is empty') end
    return ends(what), what
  end
  local list, g = {}, nil
  local function add(x, depth)
    local mt = getmetatable(x)
    if type(mt) == 'table' and rawget(mt, 'as_output') and mt ~= graph.Output then
      x = mt.as_output(x)
      mt = getmetatable(x)
    end
    if mt == graph.Output or mt == graph.Operation then
      if g and x.graph ~= g then
        errors.bad('what is drawn together belongs to one graph; %s belongs to another', x.name)
      end
      g = x.graph
      list[#list + 1] = { x.node, mt == graph.Output and x.index or -1 }
    elseif nest.is_plain(x) then
      depth = errors.deeper(depth)
      for _, v in ipairs(x) do add(v, depth) end
      local named = {}
      for k in pairs(x) do if type(k) == 'string' then named[#named + 1] = k end end
      table.sort(named)
      for _, k in ipairs(named) do add(x[k], depth) end
    else
      errors.bad('a graph is drawn of an Output, an operation, a Graph or a table of these, not of %s',
                 errors.describe(x))
    end
  end
  add(what)
  if not g then errors.bad('there is nothing to draw: no Output is in it') end
  return list, g
end

--- A small constant as it is written; nil for other nodes.
local function literal(g, node, op)
  if registry.primitive(op) ~= 'Const' then return nil end
  local t = core.output_constant(g, node, 0)
  if not t or t.size > SMALL then return nil end
  return (text.array(t):gsub('\n%s*', ' '))
end

local function read_node(g, id, role)
  local n = { id = id, op = core.node_type(g, id), name = core.node_name_of(g, id), where = core.node_where(g, id),
              pass = core.node_pass(g, id), context = core.node_context(g, id), asked = core.node_device(g, id),
              attrs = core.node_attrs_text(g, id), ins = {}, outs = {}, controls = core.node_controls(g, id),
              role = roles[role[3 * id + 1]], flow = role[3 * id + 2], which = role[3 * id + 3] }
  for i = 1, core.node_inputs(g, id) do n.ins[i] = { core.node_input_of(g, id, i - 1) } end
  for i = 1, core.node_outputs(g, id) do
    n.outs[i] = text.shape(dtypes.name[core.output_dtype(g, id, i - 1)] or '?', core.output_shape(g, id, i - 1))
  end
  n.literal = literal(g, id, n.op)
  return n
end

--- All that the roots need: calls lead into the functions that they name.
local function needed(g, asked)
  local flat, seen, list, called = {}, {}, {}, {}
  for id = 0, asked.whole and core.graph_nodes(g) - 1 or -1 do list[id + 1] = id end
  if asked.whole then return list end
  for i, pair in ipairs(asked) do flat[2 * i - 1], flat[2 * i] = pair[1], math.max(0, pair[2]) end
  while #flat > 0 do
    local more = {}
    for _, id in ipairs(core.graph_needs(g, flat)) do
      if not seen[id] then
        seen[id] = true
        list[#list + 1] = id
        local name = core.node_type(g, id) == 'FunctionCall' and core.node_attr(g, id, 'function')
        if name and not called[name] then
          called[name] = true
          for other = 0, core.graph_nodes(g) - 1 do
            if core.node_type(g, other) == 'FunctionReturn' and core.node_attr(g, other, 'function') == name then
              more[#more + 1], more[#more + 2] = other, 0
            end
          end
        end
      end
    end
    flat = more
  end
  table.sort(list)
  return list
end

--- The frame in which each node runs: {name, where, parent, parallel_iterations}, nil at the top level. An Enter is in
-- the frame that it leads into, an Exit in the one it leaves. Found from the primitives alone, so it holds for any
-- graph.
local function find_frames(g, nodes, by_id)
  local frames, users, waiting, ready, around = {}, {}, {}, {}, {}
  local function child(parent, name, n)
    local key = (parent and parent.key or '') .. '/' .. name
    if not frames[key] then
      frames[key] = { key = key, name = name, parent = parent, where = n.where,
                      parallel_iterations = registry.primitive(n.op) == 'Enter'
                      and core.node_attr(g, n.id, 'parallel_iterations') or nil }
    end
    return frames[key]
  end
  local function arrive(n, frame)
    if around[n] ~= nil then return end
    if registry.primitive(n.op) == 'Enter' then
      frame = child(frame or nil, core.node_attr(g, n.id, 'frame_name') or '?', n)
    end
    around[n] = frame or false
    ready[#ready + 1] = n
  end
  for _, n in ipairs(nodes) do
    local own = {}
    for _, pair in ipairs(n.ins) do own[#own + 1] = by_id[pair[1]] end
    for _, id in ipairs(n.controls) do own[#own + 1] = by_id[id] end
    waiting[n] = registry.primitive(n.op) == 'Merge' and math.min(1, #own) or #own
    for _, from in ipairs(own) do
      users[from] = users[from] or {}
      table.insert(users[from], n)
    end
  end
  for _, n in ipairs(nodes) do
    if waiting[n] == 0 then
      local name = n.op:find '^Function' and n.op ~= 'FunctionCall' and core.node_attr(g, n.id, 'function')
      arrive(n, name and child(nil, name, n) or false)
    end
  end
  local at = 1
  while ready[at] do
    local n = ready[at]
    at = at + 1
    local frame = around[n]
    if registry.primitive(n.op) == 'Exit' and frame then frame = frame.parent or false end
    for _, user in ipairs(users[n] or {}) do
      waiting[user] = waiting[user] - 1
      if waiting[user] == 0 or (frame and around[user] == nil) then arrive(user, frame) end
    end
  end
  for _, n in ipairs(nodes) do n.frame = around[n] or nil end
end

--- What a body calls its loop's variables, without names that two of them have.
local function once_each(names)
  local times, own = {}, {}
  for _, name in ipairs(names) do times[name] = (times[name] or 0) + 1 end
  for i, name in ipairs(names) do own[i] = times[name] == 1 and name end
  return own
end

--- The nodes that lead to what was asked for. asked.parameters: by a loop's first Exit, what its body calls its
-- variables.
-- @return {nodes, by_id, asked, flows = {cond = {}, loop = {}} by number, exits[loop][variable] = name, total,
--         gradient_of(id): the node of whose gradient a node is a part, -1: of none}
function M.graph(g, asked)
  local role = core.flow_roles(g)
  local r = { nodes = {}, by_id = {}, asked = asked, flows = { cond = {}, loop = {} }, exits = {},
              total = core.graph_nodes(g), gradient_of = function(id) return core.node_gradient_of(g, id) end }
  for i, id in ipairs(needed(g, asked)) do
    local n = read_node(g, id, role)
    r.nodes[i], r.by_id[id] = n, n
  end
  for _, f in ipairs(core.flows(g)) do r.flows[f.kind == 1 and 'cond' or 'loop'][f.number] = f end
  for id = 0, r.total - 1 do
    if roles[role[3 * id + 1]] == 'exit' then
      local loop = role[3 * id + 2]
      r.exits[loop] = r.exits[loop] or {}
      r.exits[loop][role[3 * id + 3]] = core.node_name_of(g, id)
    end
  end
  local parameters = {}
  for exit, names in pairs(asked.parameters or {}) do parameters[role[3 * exit + 2]] = once_each(names) end
  for _, n in ipairs(r.nodes) do
    if n.role == 'variable' then
      local name = core.loop_variable(g, n.flow, n.which)
      local own = parameters[n.flow] and parameters[n.flow][n.which + 1]
      n.variable = ('%s.%s'):format(r.flows.loop[n.flow].name, name ~= '' and name or own or n.which + 1)
    end
  end
  find_frames(g, r.nodes, r.by_id)
  return r
end

--- What a run of these fetches would make of each node: {by id, tokens = how many have tokens}, or nil and why there is
-- no such run.
function M.lowered(g, r)
  local flat = {}
  for _, pair in ipairs(r.asked) do
    local handle = pair[2] >= 0 and dtypes.name[core.output_dtype(g, pair[1], pair[2])] == 'resource'
    local n = r.by_id[pair[1]]
    local inside = n.frame and not (registry.primitive(n.op) == 'Exit' and not n.frame.parent)
    if not (r.asked.whole and inside) then flat[#flat + 1], flat[#flat + 2] = pair[1], handle and -1 or pair[2] end
  end
  local ok, tokens, list = pcall(core.plan_describe, g, flat, {})
  if not ok then return nil, tokens end
  local by_id = { tokens = tokens }
  for i = 1, #list, 2 do by_id[(i - 1) / 2] = lowered[list[i]] end
  return by_id
end

return M
