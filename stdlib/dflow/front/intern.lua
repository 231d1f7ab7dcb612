--- Building in a loop: `df.run(v:assign(x))` a thousand times is one operation, run a thousand times.
--
-- What is built after a run, outside of all bodies, scopes and dependencies, and equals what was built before that run
-- at the same line (the same op, attributes and inputs), gets no node of its own at first: run alone, it is run as the
-- other one. Whatever else is done with it (an input of something that is new, a feed, a gradient, a name) builds its
-- node then. So it does not show, but by the graph, which stays as it is. The k-th of its kind since the last run
-- stands for the k-th before it. What draws random numbers, makes a resource or has no inputs is always built; what has
-- an effect stands for another only where that one's effect is not asked for besides.
-- What gradients are asked for again, they are given again. What is none of this (a minimizer, a loop, a cond built for
-- each run) makes the graph larger and its runs slower; a warning says so once.
local core = require 'dflow.backend'
local dtypes = require 'dflow.front.dtypes'
local errors = require 'dflow.front.errors'
local graph = require 'dflow.front.graph'
local Tensor = require('dflow.front.tensor').Tensor

local M = {}
local Output, Operation = graph.Output, graph.Operation
local getmetatable, setmetatable, rawget, rawset, type = getmetatable, setmetatable, rawget, rawset, type
local number_type = math.type or function() return '' end

--- Has g been run, and does nothing stand that nodes would be built under?
function M.open(g)
  if not g.period or g.controls or g.asked and #g.asked > 0 then return false end
  local flow, scopes, devices, controls = core.graph_build_state(g.handle)
  return flow == 0 and scopes == 1 and devices == 1 and controls == 0
end

--- May nodes of this entry stand for each other?
local function may(e)
  local yes = e.interned
  if yes == nil then
    local one = e.noutputs == 0 or (e.noutputs == 1 and not e.has_list_output)
    yes = one and e.ninputs > 0 and not e.attr.seed and e.type ~= 'PlaceholderWithDefault'
    for _, a in ipairs(e.outputs) do
      yes = yes and a.dtype ~= dtypes.RESOURCE and not (a.set and a.set[dtypes.RESOURCE])
    end
    e.interned = yes
  end
  return yes
end

--- The words that tell a bare value from others, appended to `into`; nil where it is no such value, or one of more than
-- `left` parts.
local function content(v, into, left)
  local kind = type(v)
  if kind == 'table' then
    if not errors.is_data(v) then return nil end
    into[#into + 1] = '{'
    for i = 1, #v do
      left = content(v[i], into, left)
      if not left then return nil end
    end
    into[#into + 1] = '}'
    return next(v, #v > 0 and #v or nil) == nil and left or nil
  end
  if kind == 'number' then into[#into + 1] = number_type(v) .. ('%.17g'):format(v)
  elseif kind == 'boolean' then into[#into + 1] = tostring(v)
  elseif kind == 'string' and #v < 1000 then into[#into + 1] = ('%d"%s'):format(#v, v)
  else return nil end
  return left > 0 and left - 1 or nil
end

local function attrs_key(attrs, into)
  local names = {}
  for name in pairs(attrs) do
    if type(name) ~= 'string' then return false end         -- the op says what it takes
    names[#names + 1] = name
  end
  table.sort(names)
  for _, name in ipairs(names) do
    if name == 'name' then return false end
    into[#into + 1] = name
    if not content(attrs[name], into, 16) then return false end
  end
  return true
end

--- A read may be shared: it gives the value that the variable has, and does nothing else.
local function has_effect(e)
  if e.effect == nil then e.effect = e.stateful and not core.op_about(e.id, 'reads') or false end
  return e.effect
end

--- What such a node is found by; nil where it cannot be.
local function key_of(e, where, inputs, attrs, bound)
  if not may(e) then return nil end
  local parts = { e.id, where or '' }                         -- no line: a function of dflow's is a coroutine's
  for _, o in ipairs(inputs) do
    local same = not rawget(o, 'node') and rawget(o, 'same')
    if same and o.effect then same = nil end
    parts[#parts + 1] = (same or o.node) .. ':' .. o.index
  end
  if attrs and not attrs_key(attrs, parts) then return nil end
  if bound and not attrs_key(bound, parts) then return nil end
  return table.concat(parts, '|')
end

--- An Output (or Operation) that stands for a node from before the last run; else nil, and the key to keep the new node
-- by.
-- @param inputs  Outputs; build() gives the id of a node of its own
function M.find(g, e, where, inputs, attrs, bound, build)
  local key = key_of(e, where, inputs, attrs, bound)
  if not key then return nil end
  g.interned = g.interned or {}
  local known = g.interned[key]
  if not known then return nil, key end
  if known.period ~= g.period then known.period, known.used = g.period, 0 end
  local node = known[known.used + 1]
  if not node then return nil, key end
  known.used = known.used + 1
  local o = { graph = g, same = node, build = build, effect = has_effect(e) }
  if e.noutputs == 0 then return setmetatable(o, Operation) end
  o.index, o.d = 0, core.output_dtype(g.handle, node, 0)
  return setmetatable(o, Output)
end

function M.keep(g, key, node)
  local known = g.interned[key]
  if not known or known.period ~= g.period then
    known = known or {}
    known.period, known.used = g.period, known.period == g.period and known.used or 0
    g.interned[key] = known
  end
  known[#known + 1] = node
  known.used = #known
end

--- The node of its own, built now where it is not there yet.
function graph.hooks.materialise(o)
  local build, g = rawget(o, 'build'), o.graph
  if not build then return nil end
  local inside = not M.open(g)
  if inside then
    core.push_top(g.handle)
    core.push_device(g.handle, '')
  end
  local ok, node = pcall(build)
  if inside then
    core.pop_device(g.handle)
    core.pop_top(g.handle)
  end
  if not ok then error(node, 0) end
  rawset(o, 'node', node)
  rawset(o, 'build', nil)
  if getmetatable(o) == Operation then g.operation_of[node] = o else g.first[node] = o end
  return node
end

--- Is it the value of `fed` that a run is given, and nothing that was computed? What stands for another has other
-- inputs than its own node.
local function is_input(fed) return core.node_type(fed.graph.handle, fed.node) == 'Placeholder' end

--- The node that a run of o alone may run. `fed`: the one output that is fed, or nil.
function M.alone(o, fed)
  local node = rawget(o, 'node')
  if node then return node end
  if fed and not is_input(fed) then return o.node end
  return rawget(o, 'same')
end

--- Does one of `nodes` need `target`?
local function need(handle, nodes, target)
  local seen, left = {}, {}
  for _, node in ipairs(nodes) do left[#left + 1] = node end
  while #left > 0 do
    local node = table.remove(left)
    if node == target then return true end
    if not seen[node] then
      seen[node] = true
      for i = 0, core.node_inputs(handle, node) - 1 do left[#left + 1] = (core.node_input_of(handle, node, i)) end
      for _, before in ipairs(core.node_controls(handle, node)) do left[#left + 1] = before end
    end
  end
  return false
end

--- Would o, run as the node that it stands for, lose its effect, since others of `flat` ask for that of this node?
local function shared(o, flat, at)
  local others, target = {}, rawget(o, 'same')
  for k = 1, #flat, 2 do
    local x = flat[k]
    if k ~= at and x ~= o then others[#others + 1] = type(x) == 'number' and x or rawget(x, 'same') end
  end
  if #others == 0 then return false end
  local g = o.graph
  local key = target .. '<' .. table.concat(others, ' ')         -- nodes keep their inputs
  g.needs = g.needs or {}
  if g.needs[key] == nil then g.needs[key] = need(g.handle, others, target) end
  return g.needs[key]
end

--- Puts nodes in the place of Outputs and Operations in the flat list {x, index, …} of what a run fetches.
-- @param feeds  what is fed, by Output
function M.settle(flat, feeds)
  local own = false
  if type(feeds) == 'table' then
    for fed in next, feeds do own = own or getmetatable(fed) ~= Output or not is_input(fed) end
  end
  for k = 1, #flat, 2 do                           -- those with a node first: what they need is not to be shared
    local x = flat[k]
    if type(x) == 'table' and (own or rawget(x, 'node')) then flat[k] = x.node end
  end
  for k = 1, #flat, 2 do
    local x = flat[k]
    if type(x) == 'table' then
      flat[k] = rawget(x, 'effect') and shared(x, flat, k) and x.node or rawget(x, 'node') or rawget(x, 'same')
    end
  end
  return flat
end

-- ---- derivatives ----------------------------------------------------------------------------------------------------
--- What Outputs are known by; nil where one has an effect, or a node of its own besides the one that it stood for.
local function derivatives_key(key, lists)
  local parts = { key }
  for _, list in ipairs(lists) do
    for _, o in ipairs(list) do
      local node, same = o and rawget(o, 'node'), o and rawget(o, 'same')
      if o and (node and same or same and rawget(o, 'effect')) then return nil end
      parts[#parts + 1] = o and (node or same) .. ':' .. o.index or '-'
    end
    parts[#parts + 1] = '|'
  end
  return table.concat(parts, ' ')
end

--- Outputs that stand for those of `list` (false: none), whose own nodes build() makes together.
local function standing(g, list, build)
  local own, stands = nil, {}
  for i, o in ipairs(list) do
    local d = o and core.output_dtype(g.handle, o.node, o.index)
    stands[i] = o and setmetatable({ graph = g, same = o.node, index = o.index, d = d, effect = false,
        build = function()
      own = own or build()
      rawset(stands[i], 'index', own[i].index)
      return own[i].node
    end }, Output)
  end
  return stands
end

--- What gradients gave for the same line and Outputs before the last run, by Outputs that stand for it, else what
--- build() gives: a list of Outputs, false where there is none. What was asked for twice between two runs is built
-- twice.
-- @param lists  of Outputs (false: none)
function M.derivatives(g, key, lists, build)
  key = g.period and M.open(g) and derivatives_key(key, lists)
  if not key then return build() end
  g.derived = g.derived or {}
  local known = g.derived[key]
  if not known or known.period == g.period then
    g.derived[key] = { results = build(), period = g.period }
    return g.derived[key].results
  end
  known.period = g.period
  return standing(g, known.results, build)
end

-- ---- literals -------------------------------------------------------------------------------------------------------
--- The Const of a value that was written where an Output is taken: it has no other holder, so equal ones of a line are
-- one.
-- @param make  function() -> Output
function M.literal(g, v, dtype, make)
  if not M.open(g) then return make() end
  local key
  if getmetatable(v) == Tensor then key = v                -- which never changes, and which has its dtype
  else
    local parts = { dtype or 'none', (core.where()) }
    if not content(v, parts, 64) then return make() end
    key = table.concat(parts, '|')
  end
  g.literals = g.literals or setmetatable({}, { __mode = 'k' })
  local known = g.literals[key]
  if known and not graph.is_lost(known) then return known end
  known = make()
  g.literals[key] = known
  return known
end

local LOOK, PATIENCE = 64, 4        -- runs between two looks at a graph, and looks at which it must have grown
local told = setmetatable({}, { __mode = 'k' })

--- Called before each run of g. Has it grown at one line, by a node a run at least, for a good while?
function M.note_growth(g, session)
  if g.period % LOOK ~= 0 or told[g] then return end
  local size, grows = core.graph_nodes(g.handle), g.grows
  local where = size > 0 and core.node_where(g.handle, size - 1) or ''
  if not grows or grows.where ~= where or where == '' or size - grows.size < LOOK then
    g.grows = { where = where, size = size, since = size, looks = 0 }
    return
  end
  grows.size, grows.looks = size, grows.looks + 1
  if grows.looks < PATIENCE then return end
  told[g] = true
  core.session_told_growth(session)
  errors.warn(('the graph has grown by %d operations in %d runs: what is built here is built again for each run, which '
               .. 'makes each slower; '
    .. 'build it once, before the loop, and run that'):format(size - grows.since, LOOK * PATIENCE), where)
end

return M
