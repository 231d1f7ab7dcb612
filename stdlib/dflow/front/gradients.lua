--- Gradients: reverse mode, sparse results, custom gradients.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local intern = require 'dflow.front.intern'
local convert = require 'dflow.front.convert'
local registry = require 'dflow.front.registry'
local tensor_array = require 'dflow.front.tensor_array'
local ops = require 'dflow.front.ops'
local arguments = require 'dflow.front.arguments'

local M = {}
local Output = graph.Output
local getmetatable, type, rawget = getmetatable, type, rawget
local unpack = graph.unpack
local call_user = require 'dflow.front.call'

-- ---- IndexedSlices ------------------------------------------------------------------------------------------------
--- Rows `indices` of a tensor of shape dense_shape are `values`; rows named twice add up, the others are zero.
local IndexedSlices = { __name = 'dflow.IndexedSlices', is_slices = true }
M.IndexedSlices = IndexedSlices

--- df.IndexedSlices(values, indices, dense_shape?)
function M.indexed_slices(values, indices, dense_shape)
  if values == nil or indices == nil then errors.bad('IndexedSlices takes values, indices and dense_shape') end
  local g = convert.graph_of(values) or convert.graph_of(indices)
  values = convert.to_output(values, nil, g)
  indices = convert.typed(indices) and convert.to_output(indices) or arguments.int32(indices, values.graph)
  if dense_shape ~= nil then dense_shape = arguments.int32(dense_shape, values.graph) end
  return setmetatable({ graph = values.graph, values = values, indices = indices, dense_shape = dense_shape },
                      IndexedSlices)
end

--- The dense Output: made once per object and context.
function IndexedSlices.as_output(s)
  local context = core.current_context(s.graph.handle)
  local o = rawget(s, 'dense')
  if o and rawget(s, 'context') == context and not graph.is_lost(o) then return o end
  if not s.dense_shape then errors.bad('IndexedSlices without dense_shape cannot turn dense') end
  local rows = registry.op('StridedSlice', { s.dense_shape, { 0 }, { 1 }, { 1 } }, { shrink_axis_mask = 1 })
  o = registry.op('UnsortedSegmentSum', { s.values, s.indices, ops.functions.cast(rows, 'int32') })
  s.dense, s.context = o, context
  return o
end
IndexedSlices.dtype_of = function(s) return graph.dtype(s.values) end

IndexedSlices.__index = function(s, key)
  if key == 'dense' or key == 'context' or key == 'dense_shape' or key == 'd' then return nil end
  if key == 'dtype' then return s.values.dtype end
  if key == 'name' then return s.values.name end
  local method = type(key) == 'string' and (graph.methods[key] or ops.find_method(key))
  if method then return method end
  return IndexedSlices.as_output(s)[key]
end
IndexedSlices.__tostring = function(s)
  return ('IndexedSlices(values = %s, indices = %s)'):format(s.values.name, s.indices.name)
end
IndexedSlices.__lt, IndexedSlices.__le = Output.__lt, Output.__le
ops.operators(IndexedSlices)

function M.is_slices(x) return getmetatable(x) == IndexedSlices end

-- ---- gradients ------------------------------------------------------------------------------------------------------
local modes = { error = 0, zero = 1, none = 2 }

local function list_of(v)
  if v == nil then return {} end
  if nest.is_plain(v) then return (nest.flatten(v, function() return true end)) end
  return { v }
end

--- Outputs (false: none) as pairs of node and index.
local function flat(outputs)
  local list = {}
  for i, o in ipairs(outputs) do list[2 * i - 1], list[2 * i] = o and o.node or -1, o and o.index or 0 end
  return list
end

--- Builds the derivatives: of each x the Output, and where it is sparse those of its indices and shape; false where
-- there is none.
-- @param asked  {ys, grad_ys or nil, xs, stops, mode, line}, as the library takes them
local function derive(g, asked, y_outputs, x_list, stop_list)
  local function call() return core.gradients(g.handle, asked[1], asked[2], asked[3], asked[4], asked[5], asked[6]) end
  local out
  if M.watch and core.flow_depth(g.handle) == 0 then
    local watch = M.watch
    M.watch = nil                  -- what gradient functions ask for is no call of the user's
    local ok, result = pcall(call)
    M.watch = watch
    if not ok then error(result, 0) end
    watch(y_outputs, x_list, stop_list, asked[6])
    out = result
  else
    out = call()
  end
  local outputs = {}
  for k = 1, 3 * #x_list do outputs[k] = out[2 * k - 1] >= 0 and graph.output(g, out[2 * k - 1], out[2 * k]) end
  return outputs
end

--- The derivative by x, of the three Outputs that derive gave for it.
local function derivative(g, x, dense, indices, shape)
  if not dense then return false end
  if indices then
    return setmetatable({ graph = g, values = dense, indices = indices, dense_shape = shape or nil }, IndexedSlices)
  end
  return getmetatable(x) == tensor_array.TensorArray and tensor_array.wrap(dense, x.d, x.name .. '/grad') or dense
end

--- M.watch: nil, or a function that each call at the top level calls with ys, xs and stops as Outputs or Variables,
-- and the Lua line.

--- M.noticed: nil, or df.vmap's function that each call calls: it may give other results.

--- gradients(ys, xs, {grad_ys, stop_gradients, unconnected, name}): d(sum of ys) / dx for every x, in the structure of
-- xs. With a name what is built for them is in a scope of that name.
-- @return  an Output for one x, else a table like xs. IndexedSlices where it is sparse, false where 'none' and there is
--          none
function M.gradients(ys, xs, opts)
  opts = errors.options(opts, 'gradients', { 'grad_ys', 'stop_gradients', 'unconnected', 'name' })
  if ys == nil or xs == nil then
    errors.bad('gradients takes ys and xs; %s is missing', ys == nil and 'ys' or 'xs')
  end
  local mode = modes[opts.unconnected or 'error']
  if not mode then
    errors.bad("gradients: unconnected is 'error', 'zero' or 'none', not %s", errors.describe(opts.unconnected))
  end
  local where = core.where()
  local y_list, x_list = list_of(ys), list_of(xs)
  if #y_list == 0 then errors.bad('gradients: there are no ys') end
  if #x_list == 0 then errors.bad('gradients: there are no xs') end
  local g = convert.graph_of(y_list) or graph.current()
  local y_outputs, given_outputs, x_outputs, stop_outputs = {}, nil, {}, {}
  for i, y in ipairs(y_list) do
    local mt = getmetatable(y)
    y_outputs[i] = mt == tensor_array.TensorArray and y.handle or convert.to_output(y, nil, g, 'gradients: ys')
  end
  if opts.grad_ys ~= nil then
    local given = nest.is_plain(opts.grad_ys) and (nest.is_structure(opts.grad_ys) or #y_list > 1) and opts.grad_ys
      or { opts.grad_ys }
    for i in pairs(given) do
      if type(i) ~= 'number' or i > #y_list then
        errors.bad('gradients: grad_ys has an entry %s, but there %s', tostring(i), #y_list == 1 and 'is one y'
                   or ('are %d ys'):format(#y_list))
      end
    end
    given_outputs = {}
    for i, y in ipairs(y_outputs) do
      local v = given[i]
      if v == nil or v == false then given_outputs[i] = false
      else
        local o = convert.to_output(v, graph.dtype(y), g, 'gradients: grad_ys')
        if graph.rank(o) == 0 and graph.rank(y) ~= 0 then o = ops.functions.ones_like(y) * o end
        given_outputs[i] = o
      end
    end
  end
  local function handle_or_output(x, what)
    local mt = getmetatable(x)
    local of = mt and rawget(mt, 'handle_of')
    if of then return of(x) end
    if mt ~= Output then
      errors.bad('gradients: %s holds %s, an Output or Variable is expected', what, errors.describe(x))
    end
    return x
  end
  for i, x in ipairs(x_list) do
    local o = handle_or_output(x, 'xs')
    if o.graph ~= g then errors.bad('gradients: %s belongs to another graph than ys', o.name) end
    x_outputs[i] = o
  end
  for i, x in ipairs(list_of(opts.stop_gradients)) do stop_outputs[i] = handle_or_output(x, 'stop_gradients') end
  local function derived()
    return derive(g, { flat(y_outputs), given_outputs and flat(given_outputs), flat(x_outputs), flat(stop_outputs),
                       mode, where },
                  y_outputs, x_list, list_of(opts.stop_gradients))
  end
  local first = core.graph_nodes(g.handle)
  local function build() return opts.name and graph.with(g, graph.name_scope, opts.name, derived) or derived() end
  local outputs = M.watch and build() or intern.derivatives(g, ('%s|%d|%s|'):format(where, mode, opts.name or ''),
                                                            { y_outputs, given_outputs or {}, x_outputs, stop_outputs },
                                                            build)
  local results = {}
  for i, x in ipairs(x_list) do
    results[i] = derivative(g, x, outputs[3 * i - 2], outputs[3 * i - 1], outputs[3 * i])
  end
  if M.noticed then
    results = M.noticed(g, first, x_list, x_outputs, y_outputs, given_outputs, stop_outputs, results)
  end
  if nest.is_plain(xs) then return nest.pack(xs, results, function() return true end) end
  return results[1]
end

-- ---- custom gradients -----------------------------------------------------------------------------------------------
-- A graph keeps its own: { fn =, nx =, ny =, dtypes =, ys = } by id; here is only which graph an id belongs to.
local graph_of_id, last_id = setmetatable({}, { __mode = 'v' }), 0

local function remember(g, entry)
  last_id = last_id + 1
  g.custom = g.custom or {}
  g.custom[last_id], graph_of_id[last_id] = entry, g
  return last_id
end


--- What the function of custom gradient `id` of g makes of these dys: an Output or false for each x.
function M.custom_derivatives(g, id, dys)
  local c, out = g.custom[id], {}
  local dx = call_user(c.fn, unpack(dys, 1, c.ny))
  if dx.n == 0 then errors.bad('custom_gradient: the function of dy returns nothing: is `return` missing?') end
  if dx.n == 1 and c.nx > 1 and nest.is_plain(dx[1]) then dx = dx[1]
  elseif dx.n ~= c.nx then
    errors.bad('custom_gradient: the function of dy returns %d value%s, but there %s: one for each, nil where there is '
               .. 'none', dx.n, dx.n == 1 and '' or 's', c.nx == 1 and 'is 1 input' or ('are %d inputs'):format(c.nx))
  end
  for i = 1, c.nx do
    out[i] = dx[i] ~= nil and dx[i] ~= false and convert.to_output(dx[i], c.dtypes[i], g, 'custom_gradient')
  end
  return out
end

core.on_custom_gradient(function(id, dy, m)
  local g, list = graph_of_id[id], {}
  local c = g.custom[id]
  for i = 1, c.ny do
    if dy[2 * i - 1] >= 0 then
      list[i] = graph.output(g, dy[2 * i - 1], dy[2 * i])
    else
      list[i] = ops.functions.zeros_like(c.ys[i])
    end
  end
  local depth = graph.depth()
  graph.push(g)
  local ok, result = pcall(function()
    local dx, pairs_of = M.custom_derivatives(g, id, list), {}
    for i = 1, m do pairs_of[i] = dx[i] or false end
    return flat(pairs_of)
  end)
  graph.restore(depth)
  if not ok then error(result, 0) end
  return result
end)

--- What the ys are, with a gradient by the xs: fn(dy...) gives it. Of both a list of Outputs.
function M.with_custom_gradient(g, xs, ys, fn)
  local args, kinds, nx = { unpack(xs) }, {}, #xs
  for i, x in ipairs(xs) do kinds[i] = graph.dtype(x) end
  for i, y in ipairs(ys) do args[nx + i] = y end
  local id = remember(g, { fn = fn, nx = nx, ny = #ys, dtypes = kinds, ys = ys })
  return registry.op('CustomGradient', { args }, { nx = nx, id = id })
end

--- df.custom_gradient(fn): a function that gives y of `y, function(dy) return dx end = fn(x...)`; gradients call the
-- inner function.
function M.custom_gradient(fn)
  if type(fn) ~= 'function' then errors.bad('custom_gradient takes a function, not %s', errors.describe(fn)) end
  return function(...)
    local n, xs = select('#', ...), {}
    local g = convert.graph_of({ ... }) or graph.current()
    for i = 1, n do xs[i] = ops.functions.identity(convert.to_output((select(i, ...)), nil, g, 'custom_gradient')) end
    local ys = graph.attempt(g, call_user, fn, unpack(xs, 1, n))
    ys.n = nil
    local grad = ys[#ys]
    ys[#ys] = nil
    if type(grad) ~= 'function' or #ys == 0 then
      errors.bad('custom_gradient: the function returns y and a function of dy; it returned %s', errors.describe(grad))
    end
    for i, y in ipairs(ys) do ys[i] = convert.to_output(y, nil, g, 'custom_gradient') end
    return unpack(M.with_custom_gradient(g, xs, ys, grad), 1, #ys)
  end
end

return M
