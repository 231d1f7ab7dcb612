--- Work on a copy of a graph, under the names of the graph itself.
--
-- A copy has the same nodes under the same ids, so the Outputs, Variables and closures that a user holds mean the same
-- in both. While `within` runs its function they mean the copy: what is built, differentiated and run leaves the user's
-- graph and sessions as they were.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local Variable = require('dflow.front.variable').Variable

local M = {}
local getmetatable, rawget, rawset, pairs = getmetatable, rawget, rawset, pairs

--- The pair of the Output, or of the Variable's handle.
function M.pair_of(x)
  local o = getmetatable(x) == Variable and x.handle or x
  return o.node, o.index
end

--- A flat list of such pairs.
function M.pairs_of(list)
  local flat = {}
  for i, x in ipairs(list) do flat[2 * i - 1], flat[2 * i] = M.pair_of(x) end
  return flat
end

--- The values that a session's variables have now, by Variable; those that have none yet are left out.
function M.values_of(s)
  local values = {}
  for _, v in ipairs(s.graph.variables) do
    local ok, value = pcall(core.session_variable, s.handle, v.handle.node)
    if ok then values[v] = value end
  end
  return values
end

local function widened(value, d)
  if getmetatable(value) == tensor.Tensor and dtypes.is_float(core.tensor_info(value))
    and core.tensor_info(value) ~= d then
    return core.tensor_cast(value, d)
  end
  return value
end

--- Feeds for a copy: Tensors of the dtypes that the copy has.
function M.feeds(feeds)
  if feeds ~= nil and not errors.is_data(feeds) then
    errors.bad('feeds is a table {[x] = value}, not %s', errors.describe(feeds))
  end
  local list = {}
  for k, v in pairs(feeds or {}) do list[k] = getmetatable(k) == graph.Output and widened(v, graph.dtype(k)) or v end
  return list
end

--- Forgets what Lua remembers of dtypes.
local function forget_dtypes(g)
  for _, o in pairs(g.first) do rawset(o, 'd', nil) end
  for _, list in pairs(g.more) do
    for _, o in pairs(list) do rawset(o, 'd', nil) end
  end
end

--- Forgets the objects of nodes that are not there.
local function forget_nodes(g, count)
  for _, list in pairs(g.more) do
    for node in pairs(list) do if node >= count then list[node] = nil end end
  end
  for _, list in ipairs{ g.first, g.operation_of } do
    for node in pairs(list) do if node >= count then list[node] = nil end end
  end
  for _, v in ipairs(g.variables) do
    local o = rawget(v, 'snapshot')
    if o and o.node >= count then rawset(v, 'snapshot', nil) end
  end
end

--- Calls fn() while g means a copy of itself, and returns what fn returns.
-- @param opts  wide: floats are float64; values: of variables, as values_of gives them; parallel_iterations, save: of
--              all loops
-- @param need  what must be computable in the copy
function M.within(g, opts, need, fn)
  local count = core.graph_nodes(g.handle)
  local copy = core.graph_copy(g.handle, opts.wide, M.pairs_of(need))
  core.graph_set_loops(copy, opts.parallel_iterations or 0, opts.save)
  local handle, s, variables, narrow = g.handle, g.session, #g.variables, {}
  g.handle, g.session = copy, nil
  -- of nodes of the other graph: front/intern.lua
  local period, interned, literals, needs = g.period, g.interned, g.literals, g.needs
  g.period, g.interned, g.literals, g.needs = nil, nil, nil, nil
  forget_dtypes(g)
  for i = 1, variables do
    local v = g.variables[i]
    narrow[i] = v.d
    if opts.wide and dtypes.is_float(v.d) then v.d = dtypes.FLOAT64 end
  end
  local function finish(ok, ...)
    if g.session then g.session:close() end
    g.handle, g.session = handle, s
    g.period, g.interned, g.literals, g.needs = period, interned, literals, needs
    for i = #g.variables, variables + 1, -1 do g.variables[i] = nil end
    for i = 1, variables do g.variables[i].d = narrow[i] end
    forget_nodes(g, count)
    forget_dtypes(g)
    if not ok then error((...), 0) end
    return ...
  end
  return finish(pcall(graph.with, g, function()
    for v, value in pairs(opts.values or {}) do
      local o = convert.constant(g, widened(value, v.d), v.d)
      core.variable_set_init(copy, v.handle.node, o.node, o.index)
    end
    return fn()
  end))
end

--- Raises where a cond or loop is being built.
function M.check_idle(g, what)
  if core.flow_depth(g.handle) > 0 then
    errors.raise('failed_precondition', '%s inside of a cond or while_loop that is being built', what)
  end
end

return M
