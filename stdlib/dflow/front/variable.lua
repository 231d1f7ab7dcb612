--- Variable: a value that a session keeps between runs. Usable wherever an Output is: there it is read.
--
-- A Variable has the methods and operators of an Output, applied to a read that is made where it is used. Without
-- control dependencies one read serves all uses at the top level, and all of a body or branch between two side effects
-- there.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local shapes = require 'dflow.front.shape'
local dtypes = require 'dflow.front.dtypes'
local protect = require 'dflow.front.protect'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local listing = require 'dflow.front.listing'
local convert = require 'dflow.front.convert'
local registry = require 'dflow.front.registry'
local ops = require 'dflow.front.ops'
local arguments = require 'dflow.front.arguments'

local M = {}
local Variable = { __name = 'dflow.Variable' }
M.Variable = Variable

--- The session that df.run uses for a graph: front/session.lua, which is above, says it.
M.default_session = nil

local methods = {}
local rawget, type = rawget, type

--- A read of the variable's value as it is now, on its own.
local function read(v)
  if rawget(v, 'reference') then return registry.op('Identity', { v.handle }) end
  return registry.op('ReadVariableOp', { v }, { dtype = v.d })
end

--- The Output that stands for v where it is used.
local function as_output(v)
  local g = v.graph
  if g.controls then return read(v) end
  local context = core.current_context(g.handle)
  if context ~= 0 or g.iteration then
    local last, effects = rawget(v, 'within'), core.graph_effects(g.handle)
    if last and last.context == context and last.effects == effects then return last.read end
    last = { context = context, effects = effects, read = read(v) }
    rawset(v, 'within', last)
    return last.read
  end
  local o = rawget(v, 'snapshot')
  if not o or graph.is_lost(o) then
    o = read(v)
    rawset(v, 'snapshot', o)
  end
  return o
end
M.as_output = as_output

Variable.as_output = as_output
Variable.is_value = true
Variable.handle_of = function(v) return v.handle end
Variable.dtype_of = function(v) return v.d end
Variable.is_trainable = function(v) return v.trainable end

local fields = {
  dtype = function(v) return dtypes.name[v.d] end,
  shape = function(v) return shapes.of(core.output_shape(v.graph.handle, v.handle.node, 0)) end,
  name = function(v) return core.node_name_of(v.graph.handle, v.handle.node) end,
  op = function(v) return v.handle.op end,
  index = function() return 0 end,
  source = function(v) return v.handle.source end,
}

--- What a Variable may have or not, and its value has not either.
local unset = { snapshot = true, within = true, d = true, trainable = true, reference = true, initial = true }

Variable.__index = function(v, key)
  local method = methods[key]
  if method then return method end
  local field = fields[key]
  if field then return field(v) end
  if type(key) == 'number' or type(key) == 'table' then return ops.element(as_output(v), key) end
  if unset[key] then return nil end
  method = graph.methods[key] or ops.find_method(key)
  if method then return method end
  return as_output(v)[key]
end

Variable.__newindex = function(v, key)
  errors.bad("a Variable changes in a run, df.run(%s:assign(x)), or by v:load(x), which builds nothing (the field "
             .. "'%s' was to be set)", v.name, tostring(key))
end

--- `w: variable float32[2,3]  -- file:line`
Variable.__tostring = function(v)
  return ('%s: variable %s%s'):format(v.name, tensor.shape_text(v.dtype, v.shape), v.source and '  -- ' .. v.source
                                      or '')
end

for _, event in ipairs{ '__lt', '__le', '__len', '__pairs', '__concat' } do Variable[event] = graph.Output[event] end
Variable.__eq = graph.Output.__eq
ops.operators(Variable)

--- A read of its value, on its own.
methods.value = read
methods.read_value = read

--- v:assign(x), v:assign_add(x), v:assign_sub(x): the new value, as an Output.
for name, type_name in pairs { assign = 'AssignVariableOp', assign_add = 'AssignAddVariableOp',
    assign_sub = 'AssignSubVariableOp' } do
  local by_reference = type_name:gsub('VariableOp$', '')
  methods[name] = function(v, x, opts)
    if x == nil then errors.bad('%s: the value is missing', name) end
    opts = errors.options(opts, name, { 'name' })
    local given = convert.typed(x)
    if given and given ~= v.d then
      errors.bad("%s: the variable %s is %s, the value is %s: cast it, as in %s", name, v.name, v.dtype,
                 dtypes.name[given], dtypes.conversion(given, v.dtype))
    end
    if v.reference then
      return registry.op(by_reference, { v.handle, convert.to_output(x, v.d, v.graph, name) }, opts)
    end
    return registry.op(type_name, { v, convert.to_output(x, v.d, v.graph, name) }, opts)
  end
end

for name, type_name in pairs { scatter_update = 'ResourceScatterUpdate', scatter_add = 'ResourceScatterAdd',
    scatter_sub = 'ResourceScatterSub',
                               scatter_mul = 'ResourceScatterMul', scatter_div = 'ResourceScatterDiv',
                               scatter_min = 'ResourceScatterMin', scatter_max = 'ResourceScatterMax' } do
  local by_reference = type_name:gsub('^Resource', '')
  methods[name] = function(v, indices, updates, opts)
    if getmetatable(indices) and rawget(getmetatable(indices), 'is_slices') then
      indices, updates = indices.indices, indices.values
    end
    opts = errors.options(opts, name, { 'name' })
    local at = convert.typed(indices) and indices or arguments.int32(indices, v.graph)
    if v.reference then
      return registry.op(by_reference, { v.handle, at, convert.to_output(updates, v.d, v.graph, name) }, opts)
    end
    return registry.op(type_name, { v, at, convert.to_output(updates, v.d, v.graph, name) }, opts)
  end
end

--- The value in the default session, as a run gives it.
function methods.eval(v, feeds, opts)
  return as_output(v):eval(feeds, opts)
end

--- v:load(x, session?): the value is x from now on, in that session or the default one. Builds and runs nothing.
-- @param x  a Tensor of the variable's dtype, a number, or a table of numbers
function methods.load(v, x, session)
  if x == nil then errors.bad('load: the value is missing') end
  local mt = getmetatable(x)
  if mt == graph.Output or (mt and rawget(mt, 'as_output')) then
    errors.bad('load: %s has no value while building: run it first, or write df.run(%s:assign(x))', errors.describe(x),
               v.name)
  end
  if session == nil then session = M.default_session(v.graph) end
  local of = getmetatable(session)
  if type(of) ~= 'table' or rawget(of, '__name') ~= 'dflow.Session' then
    errors.bad('load: %s was given for the session', errors.describe(session))
  end
  if session.graph ~= v.graph then
    errors.bad('load: the variable %s belongs to another graph than the session', v.name)
  end
  if mt == tensor.Tensor then
    local own = core.tensor_info(x)
    if own ~= v.d then
      errors.bad("load: the variable %s is %s, the Tensor is %s%s", v.name, v.dtype,
                 dtypes.name[own], dtypes.advised(own, v.d))
    end
  else
    x = tensor.from(x, v.d, nil, v.name)
  end
  core.session_set_variable(session.handle, v.handle.node, x)
end

errors.with_colons(methods, Variable, 'a variable', 'v')

--- df.Variable(init, {name=, trainable=true, dtype=})
-- @param init  a value, a Tensor, an Output, or a function that gives one of these: assigned before the first run of a
--              session that needs the variable. In a body or under control dependencies give a function: it is called
--              outside them
function M.new(init, opts)
  opts = errors.options(opts, 'Variable', { 'name', 'trainable', 'dtype', 'shape' })
  if opts.trainable ~= nil and type(opts.trainable) ~= 'boolean' then
    errors.bad('Variable: trainable is true or false, not %s', errors.describe(opts.trainable))
  end
  if init == nil then errors.bad('Variable: the initial value is missing') end
  local d = opts.dtype and dtypes.of(opts.dtype)
  local g = convert.graph_of(init) or graph.current()
  if getmetatable(init) == tensor.Tensor and d then init = core.tensor_cast(init, d) end
  if getmetatable(init) == graph.Output and core.node_context(g.handle, init.node) ~= 0 then
    errors.bad('Variable: the initial value %s was built in a body or branch, the variable lives outside: give a '
               .. 'function that '
               .. 'builds it, as in df.Variable(function() return df.zeros{2} end)', init.name)
  end
  core.push_top(g.handle)
  local ok, result = protect(function()
    if type(init) == 'function' then init = init() end
    local first = convert.to_output(init, d, g, 'Variable')
    if d and graph.dtype(first) ~= d then first = ops.functions.cast(first, dtypes.name[d]) end
    local shape = opts.shape
    if shape == nil then shape = first.shape end
    local handle = registry.op('VarHandleOp', {},
                               { dtype = graph.dtype(first), shape = shape or nil, name = opts.name or 'Variable' })
    core.variable_set_init(g.handle, handle.node, first.node, first.index)
    return setmetatable({ graph = handle.graph, handle = handle, d = graph.dtype(first),
                          trainable = opts.trainable ~= false, initial = first }, Variable)
  end)
  core.pop_top(g.handle)
  if not ok then error(result, 0) end
  g.variables[#g.variables + 1] = result
  return result
end

--- A variable that an imported graph has: `handle` is the Output of its node, a resource or a reference.
-- @param initial  the Output that it begins with, or nil: the graph says nothing, or has an operation for it
function M.adopt(handle, trainable, initial)
  local g = handle.graph
  local reference = graph.dtype(handle) ~= dtypes.RESOURCE
  local d = reference and graph.dtype(handle) or core.node_attr(g.handle, handle.node, 'dtype')
  if initial then core.variable_set_init(g.handle, handle.node, initial.node, initial.index) end
  if trainable == nil then trainable = dtypes.is_float(d) end
  local v = setmetatable({ graph = g, handle = handle, d = d, trainable = trainable, initial = initial,
                           reference = reference or nil }, Variable)
  g.variables[#g.variables + 1] = v
  return v
end

--- df.trainable_variables(): those of the default graph, in the order they were made.
function M.trainable()
  local list = {}
  for _, v in ipairs(graph.current().variables) do
    if v.trainable then list[#list + 1] = v end
  end
  return listing.of(list)
end

function M.all()
  local list = {}
  for i, v in ipairs(graph.current().variables) do list[i] = v end
  return listing.of(list)
end

return M
