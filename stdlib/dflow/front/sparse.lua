--- Sparse tensors: df.SparseTensor, and functions of them under TensorFlow 1's names.
--
-- A SparseTensor is three Outputs: element i lies at indices[i] and is values[i], in a tensor of shape dense_shape;
-- elsewhere are zeros. In loops, branches, feeds and fetches it stands for its parts (dflow.front.nest). A table
-- {indices =, values =, dense_shape =} is taken wherever a SparseTensor is. Gradients are those of its values.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local convert = require 'dflow.front.convert'
local registry = require 'dflow.front.registry'
local arguments = require 'dflow.front.arguments'

local M = {}
local f, required = arguments.functions, arguments.required
local op, to_output, typed = registry.op, convert.to_output, convert.typed
local INT64 = dtypes.INT64

local SparseTensor = { __name = 'dflow.SparseTensor', is_composite = true }

local function made(indices, values, dense_shape)
  return setmetatable({ indices = indices, values = values, dense_shape = dense_shape }, SparseTensor)
end

--- v as an int64 Output.
local function int64(v, g, what)
  local x = to_output(v, typed(v) or INT64, g, what)
  return graph.dtype(x) == INT64 and x or f.cast(x, 'int64')
end

local function check_ranks(what, indices, values, dense_shape)
  for name, part in pairs{ indices = { indices, 2, '[n, rank]' }, values = { values, 1, '[n]' },
                           dense_shape = { dense_shape, 1, '[rank]' } } do
    local rank = graph.rank(part[1])
    if rank and rank ~= part[2] then
      errors.bad('%s: its %s are %s, %s is expected', what, name, tensor.shape_text(part[1].dtype, part[1].shape),
                 part[3])
    end
  end
  local i, v, s = indices.shape, values.shape, dense_shape.shape
  local function differ(a, b) return a and b and a >= 0 and b >= 0 and a ~= b end
  if differ(i and i[1], v and v[1]) or differ(i and i[2], s and s[1]) then
    errors.bad('%s: indices %s, values %s and dense_shape %s do not fit: [n, rank], [n] and [rank] are expected', what,
               tensor.shape_text(indices.dtype, i), tensor.shape_text(values.dtype, v),
               tensor.shape_text(dense_shape.dtype, s))
  end
end

--- The SparseTensor of these, as Outputs; bare values of `dtype`, or their own.
local function new(indices, values, dense_shape, what, dtype)
  if indices == nil or values == nil or dense_shape == nil then
    errors.bad('%s takes indices, values and dense_shape', what)
  end
  local g = convert.graph_of{ indices, values, dense_shape }
  if errors.is_data(indices) and next(indices) == nil then                 -- no element; of which rank says the shape
    dense_shape = int64(dense_shape, g, what)
    indices = f.fill(f.stack{ f.int32(0), f.size(dense_shape) }, f.int64(0))
    if dense_shape.shape then indices:set_shape{ 0, dense_shape.shape[1] } end
  end
  if errors.is_data(values) and next(values) == nil then
    values = f.constant({}, dtype and dtypes.name[dtype] or 'float32', { 0 })
  end
  indices, dense_shape = int64(indices, g, what), int64(dense_shape, g, what)
  values = to_output(values, typed(values) or dtype, g, what)
  check_ranks(what, indices, values, dense_shape)
  return made(indices, values, dense_shape)
end

--- df.SparseTensor(indices, values, dense_shape): indices int64[n, rank], values [n], dense_shape int64[rank]; or a
-- table of these.
function M.SparseTensor(indices, values, dense_shape)
  if errors.is_data(indices) and indices.indices ~= nil then
    return new(indices.indices, indices.values, indices.dense_shape, 'SparseTensor')
  end
  return new(indices, values, dense_shape, 'SparseTensor')
end

--- Is v a SparseTensor, or a table of its parts?
function M.is(v)
  return getmetatable(v) == SparseTensor
    or (errors.is_data(v) and v.indices ~= nil and v.values ~= nil and v.dense_shape ~= nil)
end

--- v as a SparseTensor.
-- @param what   for messages: `ctc_loss: labels`
-- @param dtype  of values that have none of their own; nil: that of the bare values
function M.of(v, what, dtype)
  if getmetatable(v) == SparseTensor then return v end
  if not M.is(v) then
    errors.bad('%s is %s, a SparseTensor or {indices =, values =, dense_shape =} is expected', what, errors.describe(v))
  end
  return new(v.indices, v.values, v.dense_shape, what, dtype)
end

-- ---- what it can do -------------------------------------------------------------------------------------------------
local methods = {}

--- sp:eval(feeds, session): {indices =, values =, dense_shape =}, as Tensors.
function methods.eval(sp, feeds, session)
  return (session or require('dflow.front.session').default(sp.graph)):run(sp, feeds)
end

--- What is known of its shape: a list, -1 for what is not; nil: not even the rank.
local function static(sp)
  local shape = sp.dense_shape
  local t = graph.constant(shape)
  if t then return t:totable() end
  local rank, list = shape.shape and shape.shape[1] or -1, {}
  if rank < 0 then rank = sp.indices.shape and sp.indices.shape[2] or -1 end
  for d = 1, rank do list[d] = -1 end
  return rank >= 0 and list or nil
end

function SparseTensor.__index(sp, key)
  if key == 'graph' or key == 'dtype' then return rawget(sp, 'values')[key] end
  if key == 'shape' then return static(sp) end
  if methods[key] then return methods[key] end
  if type(key) == 'string' and key:find '^sparse_' and arguments.functions[key] then return arguments.functions[key] end
  if type(key) == 'string' then
    errors.bad("a SparseTensor has no field or method '%s'%s", key,
               errors.hint_of_others(key, { 'indices', 'values', 'dense_shape', 'dtype', 'shape', 'graph', 'eval' }))
  end
end
function SparseTensor.__newindex(_, key)
  errors.bad("a SparseTensor's fields are not changed (%s): df.SparseTensor makes another", tostring(key))
end
function SparseTensor.__tostring(sp)
  return ('SparseTensor(indices = %s, values = %s, dense_shape = %s)')
    :format(sp.indices.name, sp.values.name, sp.dense_shape.name)
end
function SparseTensor.dtype_of(sp) return graph.dtype(rawget(sp, 'values')) end
-- a gradient is that of its values
function SparseTensor.handle_of(sp) return rawget(sp, 'values') end
function SparseTensor.as_output()
  errors.bad('a SparseTensor was given where an Output is expected: df.sparse_tensor_to_dense(sp) is dense, sp.values '
             .. 'are '
             .. 'its values, and sp * x multiplies it by x')
end

--- What a loop keeps of the shapes of its parts: said as its shape, or of the parts.
function SparseTensor.invariants(inv)
  if inv == false then return { indices = { -1, -1 }, values = { -1 }, dense_shape = { -1 } } end
  if not errors.is_data(inv) or nest.has_names(inv) then return inv end
  return { indices = { -1, #inv }, values = { -1 }, dense_shape = { #inv } }
end

--- Feeds v for sp: the parts into `out`. v is what a run gave of a SparseTensor, or {indices, values, dense_shape}.
function SparseTensor.feed(sp, v, out)
  if not errors.is_data(v) then
    errors.bad('feed: %s was fed for a SparseTensor; {indices =, values =, dense_shape =} is expected',
               errors.describe(v))
  end
  local named = v.indices ~= nil
  for i, key in ipairs{ 'indices', 'values', 'dense_shape' } do
    local part = named and v[key]
    if not named then part = v[i] end
    if part ~= nil then out[sp[key]] = part
    elseif key ~= 'dense_shape' then
      errors.bad('feed: what was fed for a SparseTensor has no %s; {indices =, values =, dense_shape =} is expected',
                 key)
    end
  end
end

-- ---- functions ------------------------------------------------------------------------------------------------------

--- As arguments.def; tables of a SparseTensor's parts that stand last are no options.
local function def(name, names, more, fn)
  arguments.def(name, names, more, fn)
  local call = f[name]
  f[name] = function(...)
    local args, n = { ... }, select('#', ...)
    for i = 1, n do if M.is(args[i]) then args[i] = M.of(args[i], name) end end
    return call(graph.unpack(args, 1, n))
  end
  M[name] = f[name]
end

local function given(name, o, key)
  required(name, o, key)
  return M.of(o[key], name .. ': ' .. key)
end
--- The op of a SparseTensor and further inputs.
local function of(type, sp, more, attrs)
  return op(type, { sp.indices, sp.values, sp.dense_shape, graph.unpack(more or {}) }, attrs)
end
--- v as an Output of the dtype of sp's values.
local function like(sp, v, name) return to_output(v, graph.dtype(sp.values), sp.graph, name) end
local function rank_of(name, sp)
  local shape = sp.shape
  return shape and #shape or errors.bad('%s: the rank of the sparse tensor must be known while building', name)
end
local function axis_of(name, axis, rank)
  if type(axis) ~= 'number' or not dtypes.is_whole(axis) or axis < -rank or axis >= rank then
    errors.bad('%s: axis is %s, a whole number from %d to %d is expected', name, errors.describe(axis), -rank, rank - 1)
  end
  return axis < 0 and axis + rank or axis
end
--- int64[rank] with v (an int64 Output) along an axis and 0 elsewhere.
local function along(rank, axis, v)
  local list = {}
  for d = 1, rank do list[d] = d - 1 == axis and 1 or 0 end
  return f.int64(list) * v
end

def('sparse_placeholder', { 'dtype', 'shape', 'name' }, {}, function(o)
  required('sparse_placeholder', o, 'dtype')
  local shape, name, known = o.shape, o.name, o.shape ~= nil
  o.name = nil
  local rank = shape and #shape or -1
  for _, d in ipairs(shape or {}) do known = known and d >= 0 end
  local function called(part) return name and name .. '/' .. part or nil end
  local indices = f.placeholder('int64', { -1, rank }, called 'indices')
  local values = f.placeholder(o.dtype, { -1 }, called 'values')
  if known then return made(indices, values, f.placeholder_with_default(f.int64(shape), { rank }, called 'shape')) end
  return made(indices, values, f.placeholder('int64', { rank }, called 'shape'))
end)

-- ---- dense ones of them, and back
def('sparse_to_dense', { 'sparse_indices', 'output_shape', 'sparse_values', 'default_value', 'validate_indices' }, {},
    function(o)
  local name = 'sparse_to_dense'
  required(name, o, 'sparse_indices', 'output_shape', 'sparse_values')
  local d = typed(o.sparse_indices) or typed(o.output_shape) or dtypes.INT32
  local indices = to_output(o.sparse_indices, d, convert.graph_of{ o.sparse_values }, name)
  local values = to_output(o.sparse_values, typed(o.sparse_values), indices.graph, name)
  local default = o.default_value
  if default == nil then
    d = graph.dtype(values)
    default = d == dtypes.STRING and '' or d ~= dtypes.BOOL and 0
  end
  return op('SparseToDense', { indices, to_output(o.output_shape, graph.dtype(indices), indices.graph, name), values,
                               to_output(default, graph.dtype(values), indices.graph, name) },
            { validate_indices = o.validate_indices, name = o.name })
end)
def('sparse_tensor_to_dense', { 'sp_input', 'default_value', 'validate_indices' }, {}, function(o)
  local sp = given('sparse_tensor_to_dense', o, 'sp_input')
  return f.sparse_to_dense(sp.indices, sp.dense_shape, sp.values, o.default_value, o.validate_indices,
                           { name = o.name })
end)
def('sparse_to_indicator', { 'sp_input', 'vocab_size' }, {}, function(o)
  local name = 'sparse_to_indicator'
  local sp = given(name, o, 'sp_input')
  required(name, o, 'vocab_size')
  local rank = rank_of(name, sp)
  local size = f.expand_dims(int64(o.vocab_size, sp.graph, name), 0)
  local at = f.concat({ f.slice(sp.indices, { 0, 0 }, { -1, rank - 1 }), f.expand_dims(f.cast(sp.values, 'int64'), 1) },
                      1)
  local shape = f.concat({ f.slice(sp.dense_shape, { 0 }, { rank - 1 }), size }, 0)
  return f.sparse_to_dense(at, shape, true, { validate_indices = false, name = o.name })
end)

-- ---- other places
def('sparse_reorder', { 'sp_input' }, {}, function(o)
  local sp = given('sparse_reorder', o, 'sp_input')
  local indices, values = of('SparseReorder', sp, nil, { name = o.name })
  return made(indices, values, sp.dense_shape)
end)
def('sparse_reshape', { 'sp_input', 'shape' }, {}, function(o)
  local sp = given('sparse_reshape', o, 'sp_input')
  required('sparse_reshape', o, 'shape')
  local indices, shape = op('SparseReshape', { sp.indices, sp.dense_shape, int64(o.shape, sp.graph, 'sparse_reshape') },
                            { name = o.name })
  return made(indices, sp.values, shape)
end)
def('sparse_transpose', { 'sp_input', 'perm' }, {}, function(o)
  local sp = given('sparse_transpose', o, 'sp_input')
  local perm = o.perm ~= nil and arguments.int32(o.perm, sp.graph) or f.range(f.size(sp.dense_shape) - 1, -1, -1)
  return f.sparse_reorder(made(f.gather(sp.indices, perm, { axis = 1 }), sp.values, f.gather(sp.dense_shape, perm)),
                          { name = o.name })
end)
def('sparse_slice', { 'sp_input', 'start', 'size' }, {}, function(o)
  local name = 'sparse_slice'
  local sp = given(name, o, 'sp_input')
  required(name, o, 'start', 'size')
  return made(of('SparseSlice', sp, { int64(o.start, sp.graph, name), int64(o.size, sp.graph, name) },
                 { name = o.name }))
end)
def('sparse_split', { 'sp_input', 'num_split', 'axis' }, {}, function(o)
  local name = 'sparse_split'
  local sp = given(name, o, 'sp_input')
  required(name, o, 'num_split', 'axis')
  local rank, count = rank_of(name, sp), o.num_split
  local axis = axis_of(name, o.axis, rank)
  if type(count) ~= 'number' or not dtypes.is_whole(count) or count < 1 then
    errors.bad('%s: num_split is %s, a whole number from 1 up is expected', name, errors.describe(count))
  end
  local size, begin, pieces = sp.dense_shape[axis], f.int64(0), {}
  for p = 1, count do                                         -- the first ones are larger by one
    local own = f.floor_div(size + (count - p), f.int64(count))
    pieces[p] = f.sparse_slice(sp, along(rank, axis, begin), sp.dense_shape + along(rank, axis, own - size))
    begin = begin + own
  end
  return pieces
end)
def('sparse_concat', { 'axis', 'sp_inputs' }, { 'expand_nonconcat_dim' }, function(o)
  local name = 'sparse_concat'
  required(name, o, 'axis', 'sp_inputs')
  if not errors.is_data(o.sp_inputs) or #o.sp_inputs == 0 then
    errors.bad('%s: sp_inputs is %s, a list of sparse tensors is expected', name, errors.describe(o.sp_inputs))
  end
  local first = M.of(o.sp_inputs[1], name .. ': sparse tensor 1')
  local rank = rank_of(name, first)
  local axis, indices, values, shapes = axis_of(name, o.axis, rank), {}, {}, {}
  local most
  for i, v in ipairs(o.sp_inputs) do
    local sp = M.of(v, name .. ': sparse tensor ' .. i)
    indices[i], values[i], shapes[i] = sp.indices, sp.values, sp.dense_shape
    most = most and f.maximum(most, shapes[i]) or shapes[i]
  end
  if o.expand_nonconcat_dim then
    local here = f.cast(along(rank, axis, f.int64(1)), 'bool')
    for i, shape in ipairs(shapes) do shapes[i] = f.select_v2(here, shape, most) end
  end
  return made(op('SparseConcat', { indices, values, shapes }, { concat_dim = axis, name = o.name }))
end)
def('sparse_retain', { 'sp_input', 'to_retain' }, {}, function(o)
  local sp = given('sparse_retain', o, 'sp_input')
  required('sparse_retain', o, 'to_retain')
  local at = f.squeeze(f.where(to_output(o.to_retain, dtypes.BOOL, sp.graph, 'sparse_retain')), { axis = { 1 } })
  return made(f.gather(sp.indices, at), f.gather(sp.values, at), sp.dense_shape)
end)
def('sparse_reset_shape', { 'sp_input', 'new_shape' }, {}, function(o)
  local name = 'sparse_reset_shape'
  local sp = given(name, o, 'sp_input')
  if o.new_shape == nil then
    return made(sp.indices, sp.values, f.maximum(f.reduce_max(sp.indices, { axis = 0 }) + 1, f.int64(0)))
  end
  local shape = int64(o.new_shape, sp.graph, name)
  local fits = f.assert(f.reduce_all(f.greater_equal(shape, sp.dense_shape)), { sp.dense_shape, shape },
                        { message = name .. ': the new shape is smaller' })
  return made(sp.indices, sp.values, graph.control_dependencies({ fits }, function() return f.identity(shape) end))
end)
def('sparse_fill_empty_rows', { 'sp_input', 'default_value' }, {}, function(o)
  local name = 'sparse_fill_empty_rows'
  local sp = given(name, o, 'sp_input')
  required(name, o, 'default_value')
  local indices, values, empty = of('SparseFillEmptyRows', sp, { like(sp, o.default_value, name) }, { name = o.name })
  return made(indices, values, sp.dense_shape), empty
end)

-- ---- arithmetic
def('sparse_tensor_dense_matmul', { 'sp_a', 'b', 'adjoint_a', 'adjoint_b' }, {}, function(o)
  local name = 'sparse_tensor_dense_matmul'
  local sp = given(name, o, 'sp_a')
  required(name, o, 'b')
  return of('SparseTensorDenseMatMul', sp, { like(sp, o.b, name) },
            { adjoint_a = o.adjoint_a, adjoint_b = o.adjoint_b, name = o.name })
end)
def('sparse_add', { 'a', 'b', 'threshold' }, { 'thresh' }, function(o)
  local name = 'sparse_add'
  required(name, o, 'a', 'b')
  local a, b = o.a, o.b
  if not M.is(a) and not M.is(b) then
    errors.bad('%s: a SparseTensor is expected, a is %s and b is %s', name, errors.describe(a), errors.describe(b))
  end
  if not M.is(a) then a, b = b, a end
  if not M.is(b) then return of('SparseTensorDenseAdd', a, { like(a, b, name) }, { name = o.name }) end
  local threshold = o.threshold
  if threshold == nil then threshold = o.thresh or 0 end
  return made(of('SparseAdd', a, { b.indices, b.values, b.dense_shape, like(a, threshold, name) }, { name = o.name }))
end)
for _, kind in ipairs{ 'Mul', 'Div', 'Add' } do
  local name = 'sparse_dense_cwise_' .. kind:lower()
  def(name, { 'sp_input', 'dense' }, {}, function(o)
    local sp = given(name, o, 'sp_input')
    required(name, o, 'dense')
    local x = like(sp, o.dense, name)
    if graph.rank(x) == 0 then x = f.expand_dims(x, 0) end                  -- TensorFlow gathers from no scalar
    return made(sp.indices, of('SparseDenseCwise' .. kind, sp, { x }, { name = o.name }), sp.dense_shape)
  end)
end
local function operator(name)
  return function(a, b)
    if getmetatable(a) ~= SparseTensor and name ~= 'sparse_dense_cwise_div' then a, b = b, a end
    if getmetatable(a) ~= SparseTensor then
      errors.bad('%s: a SparseTensor is divided by a dense one, not the other way', name)
    end
    return f[name](a, b)
  end
end
SparseTensor.__mul, SparseTensor.__div = operator 'sparse_dense_cwise_mul', operator 'sparse_dense_cwise_div'

-- ---- reductions
--- The axes as a list of int32; nil means all.
local function axes_of(name, o, sp)
  local axes = o.axis
  if axes == nil then axes = o.reduction_axes end
  if axes == nil then return f.range(f.size(sp.dense_shape)) end
  if type(axes) == 'number' then axes = { axes } end
  local list = nest.is_plain(axes) and next(axes) == nil and convert.list(sp.graph, axes)
    or to_output(axes, dtypes.INT32, sp.graph, name)
  return graph.rank(list) == 0 and f.expand_dims(list, 0) or list
end
local function kept_of(o)
  local kept = o.keepdims
  if kept == nil then kept = o.keep_dims end
  return kept
end

--- Of each row of indices the number of the place in a tensor of that shape, in row-major order.
local function number_of(indices, shape)
  return f.reduce_sum(indices * f.cumprod(shape, { exclusive = true, reverse = true }), { axis = 1 })
end

--- The elements that lie at one place when the axes are folded, as one: fold(values, number of the place of each, how
-- many places).
local function folded(name, o, fold)
  local sp = given(name, o, 'sp_input')
  local rank, gone, axes, kept = rank_of(name, sp), {}, o.axis, {}
  if axes == nil then axes = o.reduction_axes end
  if type(axes) == 'number' then axes = { axes } end
  if axes ~= nil and not errors.is_data(axes) then
    errors.bad('%s: axis is %s, a number or a list is expected', name, errors.describe(axes))
  end
  for _, axis in ipairs(axes or {}) do gone[axis_of(name, axis, rank)] = true end
  for d = 0, rank - 1 do if axes and not gone[d] then kept[#kept + 1] = d end end
  local indices, shape
  if kept_of(o) then
    local mask = {}
    for d = 0, rank - 1 do mask[d + 1] = axes and not gone[d] and 1 or 0 end
    indices, shape = sp.indices * f.int64(mask), (sp.dense_shape - 1) * f.int64(mask) + 1
  else
    local list = convert.list(sp.graph, kept)
    indices, shape = f.gather(sp.indices, list, { axis = 1 }), f.gather(sp.dense_shape, list)
  end
  local sorted = f.sparse_reorder(made(indices, sp.values, shape))
  local places, place = f.unique(number_of(sorted.indices, shape))
  return made(f.unsorted_segment_max(sorted.indices, place, f.size(places)),
              fold(sorted.values, place, f.size(places), { name = o.name }), shape)
end

for _, kind in ipairs{ 'Sum', 'Max' } do
  local name = 'sparse_reduce_' .. kind:lower()
  def(name, { 'sp_input', 'axis', 'keepdims' }, { 'reduction_axes', 'keep_dims' }, function(o)
    local sp = given(name, o, 'sp_input')
    return of('SparseReduce' .. kind, sp, { axes_of(name, o, sp) }, { keep_dims = kept_of(o), name = o.name })
  end)
  def(name .. '_sparse', { 'sp_input', 'axis', 'keepdims' }, { 'reduction_axes', 'keep_dims' }, function(o)
    return folded(name .. '_sparse', o, f['unsorted_segment_' .. kind:lower()])
  end)
end

def('sparse_softmax', { 'sp_input' }, {}, function(o)
  local name = 'sparse_softmax'
  local sp = given(name, o, 'sp_input')
  local rank = rank_of(name, sp)
  if rank < 2 then errors.bad('%s: the sparse tensor is of rank %d, 2 or more are expected', name, rank) end
  return made(sp.indices, of('SparseSoftmax', sp, nil, { name = o.name }), sp.dense_shape)
end)

return M
