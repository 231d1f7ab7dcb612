--- TensorArray: an array of tensors inside a graph, whose elements are written and read by index, also in loops.
--
-- The object is a handle with what is known of its elements. Everything that writes gives a new object; go on with that
-- one.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local shapes = require 'dflow.front.shape'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local registry = require 'dflow.front.registry'
local ops = require 'dflow.front.ops'
local arguments = require 'dflow.front.arguments'

local M = {}
local TensorArray = { __name = 'dflow.TensorArray' }
M.TensorArray = TensorArray
local methods = {}

--- A TensorArray object for the handle Output. `d` is the dtype of the elements: a number.
function M.wrap(handle, d, label)
  return setmetatable({ graph = handle.graph, handle = handle, d = d, label = label }, TensorArray)
end

TensorArray.handle_of = function(ta) return ta.handle end
TensorArray.dtype_of = function() return dtypes.RESOURCE end
TensorArray.as_output = function(ta)
  errors.bad('%s was given where an Output is expected: write ta:stack(), ta:read(i) or ta:concat()', tostring(ta))
end

TensorArray.__index = function(ta, key)
  local method = methods[key]
  if method then return method end
  if key == 'dtype' then return dtypes.name[rawget(ta, 'd')] end
  if key == 'element_shape' then
    return shapes.of(core.output_shape(ta.graph.handle, ta.handle.node, ta.handle.index))
  end
  if key == 'name' then return rawget(ta, 'label') or ta.handle.name end
  if key == 'op' then return ta.handle.op end
  if key == 'd' or key == 'label' or key == 'flow' then return nil end
  local names = { 'dtype', 'element_shape', 'name', 'op' }
  for name in pairs(methods) do names[#names + 1] = name end
  if type(key) == 'number' then errors.bad('a TensorArray is read with ta:read(i)') end
  errors.bad("a TensorArray has no field or method '%s'%s", tostring(key), errors.hint(key, names))
end

TensorArray.__newindex = function(_, key)
  errors.bad("a TensorArray is written with ta = ta:write(i, v), which returns the array that holds it (the field "
             .. "'%s' was to be set)", tostring(key))
end

TensorArray.__tostring = function(ta)
  return ('TensorArray %s of %s'):format(ta.name, tensor.shape_text(ta.dtype or 'any', ta.element_shape))
end

--- TensorArray(dtype, size, {dynamic_size, element_shape, clear_after_read, name})
function M.new(dtype, size, opts)
  opts = errors.options(opts, 'TensorArray', { 'dynamic_size', 'element_shape', 'clear_after_read', 'name' })
  if dtype == nil then errors.bad('TensorArray: the dtype is missing') end
  if (size == nil or type(size) == 'string') and type(dtype) ~= 'string' then
    errors.bad("TensorArray: the dtype comes first, then the size: TensorArray('float32', 3)")
  end
  if size == nil then errors.bad("TensorArray: the size is missing, as in TensorArray('float32', 3)") end
  local d = dtypes.of(dtype)
  if opts.element_shape then tensor.check_static_shape(opts.element_shape, 'TensorArray') end
  local handle = registry.op('TensorArray', { arguments.int32(size) }, {
    dtype = d, dynamic_size = opts.dynamic_size, clear_after_read = opts.clear_after_read, name = opts.name,
    tensor_array_name = opts.name, element_shape = opts.element_shape or nil })
  return M.wrap(handle, d, opts.name)
end

--- An array around the loop whose body is being built, as that body sees it; `close` gives the array after the loop
-- from the array at the body's end. The dtype may be one that only the body knows.
function M.carried(g, d, size, opts)
  core.push_outer(g.handle)
  local ok, ta = pcall(M.new, d, size, opts)
  core.pop_outer(g.handle)
  if not ok then error(ta, 0) end
  local number, node, index = core.while_add_var(g.handle, ta.handle.node, ta.handle.index)
  local inside = M.wrap(graph.output(g, node, index), ta.d)
  return inside, function(last)
    return M.wrap(graph.output(g, core.while_close_var(g.handle, number, last.handle.node, last.handle.index)), ta.d)
  end
end

local function value_of(ta, v, what)
  if v == nil then errors.bad('%s: the value is missing', what) end
  local d = convert.typed(v)
  if d and d ~= ta.d and d ~= dtypes.RESOURCE then
    errors.bad("%s: the array '%s' holds %s, the value is %s: cast it, as in %s", what, ta.name, ta.dtype,
               dtypes.name[d], dtypes.conversion(d, ta.dtype))
  end
  return convert.to_output(v, ta.d, ta.graph, what)
end

local function index_of(ta, i, what)
  if i == nil then errors.bad('%s: the index is missing', what) end
  return arguments.int32(i, ta.graph)
end

local function with(ta, handle)
  return M.wrap(handle, ta.d, rawget(ta, 'label'))
end

--- ta:write(i, v): location i holds v. Each location is written once.
function methods.write(ta, i, v)
  i = index_of(ta, i, 'write')
  if ta.d == dtypes.RESOURCE then return with(ta, registry.op('TensorArrayWrite', { ta, i, v.handle })) end
  return with(ta, registry.op('TensorArrayWrite', { ta, i, value_of(ta, v, 'write') }))
end

--- ta:unstack(t): location i holds t[i].
function methods.unstack(ta, t)
  return with(ta, registry.op('TensorArrayUnstack', { ta, value_of(ta, t, 'unstack') }))
end

--- ta:scatter(indices, t): location indices[k] holds t[k].
function methods.scatter(ta, indices, t)
  return with(ta, registry.op('TensorArrayScatter',
                              { ta, index_of(ta, indices, 'scatter'), value_of(ta, t, 'scatter') }))
end

--- ta:split(t, lengths): location i holds the next lengths[i] rows of t.
function methods.split(ta, t, lengths)
  if lengths == nil then errors.bad('split: the lengths are missing') end
  local e = registry.need('TensorArraySplit')
  local wanted = e.inputs[3]
  local d = convert.typed(lengths)
  local list = d and lengths or convert.to_output(lengths, wanted.dtype or dtypes.INT32, ta.graph, 'split')
  if d and wanted.dtype and d ~= wanted.dtype then list = ops.functions.cast(lengths, dtypes.name[wanted.dtype]) end
  return with(ta, registry.op('TensorArraySplit', { ta, value_of(ta, t, 'split'), list }))
end

local function reading(type_name, ta, inputs, opts, what)
  local e = registry.need(type_name)
  local attrs = { name = errors.options(opts, 'TensorArray:' .. what, { 'name' }).name }
  if e.attr.dtype then attrs.dtype = ta.d end
  return registry.op(type_name, inputs, attrs)
end

--- ta:read(i, {name}): what location i holds.
function methods.read(ta, i, opts)
  return reading('TensorArrayRead', ta, { ta, index_of(ta, i, 'read') }, opts, 'read')
end

--- ta:stack{name}: all elements along a new axis 0.
function methods.stack(ta, opts)
  return reading('TensorArrayStack', ta, { ta }, opts, 'stack')
end

--- ta:gather(indices, {name}): these elements along a new axis 0.
function methods.gather(ta, indices, opts)
  return reading('TensorArrayGather', ta, { ta, index_of(ta, indices, 'gather') }, opts, 'gather')
end

--- ta:concat{name}: all elements along their axis 0.
function methods.concat(ta, opts)
  return (reading('TensorArrayConcat', ta, { ta }, opts, 'concat'))
end

--- ta:size{name}: how many locations there are now, a scalar int32.
function methods.size(ta, opts)
  return registry.op('TensorArraySize', { ta }, { name = errors.options(opts, 'TensorArray:size', { 'name' }).name })
end

--- ta:grad(source): the array of gradients that belongs to this array and this name.
function methods.grad(ta, source)
  local handle = registry.op('TensorArrayGrad', { ta }, { source = source or '' })
  return M.wrap(handle, ta.d, ta.name .. '/grad')
end

function methods.identity(ta)
  return with(ta, registry.op1('Identity', ta.handle))
end

errors.with_colons(methods, TensorArray, 'a TensorArray', 'ta')

return M
