--- Ops on whole arrays whose Lua surface differs from the node: reductions, dtypes, shapes, picking elements.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local registry = require 'dflow.front.registry'
local arguments = require 'dflow.front.arguments'

local functions, def, required = arguments.functions, arguments.def, arguments.required
local int32, axes_of = arguments.int32, arguments.axes_of
local op, op1, to_output, typed = registry.op, registry.op1, convert.to_output, convert.typed
local Output = graph.Output

-- ---- reductions -------------------------------------------------------------------------------------------------
for name, type_name in pairs(registry.reductions()) do
  def(name, { 'x', 'axis', 'keep_dims' }, {}, function(o)
    required(name, o, 'x')
    local x = to_output(o.x, registry.need(type_name).inputs[1].dtype, nil, name)
    local y = op(type_name, { x, axes_of(x, o.axis) }, { keep_dims = o.keep_dims, name = o.name })
    if o.axis == nil and not o.keep_dims and not graph.rank(x) then y:set_shape{} end
    return y
  end)
  -- {axis = nil} is {}, which Lua cannot tell from a list of no axes: that reduces nothing, as in TensorFlow
  local reduce = functions[name]
  functions[name] = function(...)
    local _, last = ...
    if select('#', ...) == 2 and errors.is_data(last) and next(last) == nil then
      errors.warn(name .. ' is given {}, a list of no axes, which reduces nothing; leave it out to reduce all ({axis '
                          .. '= nil} is {}), '
        .. 'or write {axis = {}} if it is meant')
    end
    return reduce(...)
  end
end

for name, type_name in pairs { argmax = 'ArgMax', argmin = 'ArgMin' } do
  def(name, { 'x', 'axis' }, { 'output_type' }, function(o)
    required(name, o, 'x')
    return op(type_name, { o.x, int32(o.axis or 0, convert.graph_of(o.x)) },
              { output_type = o.output_type, name = o.name })
  end)
end

for name, type_name in pairs { cumsum = 'Cumsum', cumprod = 'Cumprod' } do
  def(name, { 'x', 'axis' }, { 'exclusive', 'reverse' }, function(o)
    required(name, o, 'x')
    return op(type_name, { o.x, int32(o.axis or 0, convert.graph_of(o.x)) },
              { exclusive = o.exclusive, reverse = o.reverse, name = o.name })
  end)
end

-- ---- dtypes ---------------------------------------------------------------------------------------------------------
def('cast', { 'x', 'dtype' }, {}, function(o)
  required('cast', o, 'x', 'dtype')
  local d = dtypes.of(o.dtype)
  if typed(o.x) == d and o.name == nil then return to_output(o.x) end
  local x = to_output(o.x, nil, nil, 'cast')
  if graph.dtype(x) == d and o.name == nil then return x end
  return op('Cast', { x }, { DstT = dtypes.name[d], name = o.name })
end)

--- True division: integers are cast to float32, int64 to float64.
def('truediv', { 'x', 'y' }, {}, function(o)
  required('truediv', o, 'x', 'y')
  local x, y = o.x, o.y
  local dx, dy = typed(x), typed(y)
  if dx and dy and dx ~= dy then
    local to, from = dtypes.wider(dx, dy)
    errors.bad("/: the operands have different dtypes, %s and %s: cast one of them, as in %s",
               dtypes.name[dx], dtypes.name[dy], dtypes.conversion(from, to))
  end
  local d = dx or dy
  if not d then
    d = dtypes.FLOAT32
    x, y = to_output(x, d, nil, '/'), to_output(y, d, nil, '/')
  elseif dtypes.is_int(d) then
    d = d == dtypes.INT64 and dtypes.FLOAT64 or dtypes.FLOAT32
    local g = convert.graph_of(x) or convert.graph_of(y)
    x = dx and functions.cast(x, dtypes.name[d]) or to_output(x, d, g, '/')
    y = dy and functions.cast(y, dtypes.name[d]) or to_output(y, d, g, '/')
  end
  return op('RealDiv', { x, y }, o.name and { name = o.name })
end)

--- a / b: the short way for two floats.
function functions.div(a, b, opts)
  if opts ~= nil then return functions.truediv(a, b, opts) end
  local float = getmetatable(a) == Output and dtypes.is_float(graph.dtype(a))
  return float and functions.realdiv(a, b) or functions.truediv(a, b)
end

local real_abs                -- made when it is first called, as all functions of ops are
--- |x|; of complex numbers the distance from 0, as TensorFlow's abs.
function functions.abs(x, ...)
  local d = convert.typed(x)
  if d and dtypes.is_complex(d) then return functions.complex_abs(x, ...) end
  real_abs = real_abs or registry.make(registry.entry 'Abs')
  return real_abs(x, ...)
end

-- ---- shapes ---------------------------------------------------------------------------------------------------------
def('concat', { 'values', 'axis' }, {}, function(o)
  required('concat', o, 'values', 'axis')
  local values = o.values
  if type(values) ~= 'table' then
    errors.bad('concat takes a list of values, not %s', errors.describe(values))
  end
  if type(o.axis) == 'table' and not errors.is_data(values) and (convert.typed(o.axis) or 3) ~= 3
  and convert.typed(o.axis) ~= 9 then
    errors.bad('concat: the values are one list, and the axis comes after it: df.concat({a, b}, 0)')
  end
  if not errors.is_data(values) then values = { values } end
  if #values == 0 then errors.bad('concat: the list is empty') end
  return op('ConcatV2', { values, int32(o.axis, convert.graph_of(values)) }, { name = o.name })
end)

def('stack', { 'values', 'axis' }, {}, function(o)
  required('stack', o, 'values')
  if type(o.values) ~= 'table' or not errors.is_data(o.values) or #o.values == 0 then
    errors.bad('stack takes a list of values, df.stack({a, b}, axis), not %s', errors.describe(o.values))
  end
  return op('Pack', { o.values }, { axis = o.axis, name = o.name })
end)
functions.pack = functions.stack
convert.pack = function(parts) return op('Pack', { parts }, nil) end

def('unstack', { 'x', 'num', 'axis' }, {}, function(o)
  required('unstack', o, 'x')
  local x = to_output(o.x, nil, nil, 'unstack')
  local shape, axis, num = x.shape, o.axis or 0, o.num
  if type(axis) ~= 'number' then
    errors.bad('unstack: axis is %s, a whole number is expected', errors.describe(axis))
  end
  if not num then
    num = shape and shape[(axis < 0 and axis + #shape or axis) + 1]
    if not num or num < 0 then
      errors.bad('unstack: how many parts axis %d has is not known while building: %s; give num', axis,
                 tensor.shape_text(x.dtype, shape))
    end
  end
  return op('Unpack', { x }, { num = num, axis = axis, name = o.name })
end)

--- split(x, n) into n equal parts, split(x, {2, 3}) into parts of these sizes, along axis 0 unless given.
def('split', { 'x', 'parts', 'axis' }, { 'num' }, function(o)
  required('split', o, 'x', 'parts')
  local x = to_output(o.x, nil, nil, 'split')
  local axis = int32(o.axis or 0, x.graph)
  if type(o.parts) == 'number' then
    if o.num ~= nil and o.num ~= o.parts then
      errors.bad('split: num is %s, but %s parts are asked for', errors.describe(o.num), tostring(o.parts))
    end
    return op('Split', { axis, x }, { num_split = o.parts, name = o.name })
  end
  local sizes = to_output(o.parts, 3, x.graph, 'split')
  local shape = sizes.shape
  local n = o.num or (shape and shape[1])
  if not n or n < 0 then errors.bad('split: the number of sizes is not known while building; give num') end
  return op('SplitV', { x, sizes, axis }, { num_split = n, name = o.name })
end)

def('expand_dims', { 'x', 'axis' }, {}, function(o)
  required('expand_dims', o, 'x', 'axis')
  return op('ExpandDims', { o.x, int32(o.axis, convert.graph_of(o.x)) }, { name = o.name })
end)

def('squeeze', { 'x', 'axis' }, {}, function(o)
  required('squeeze', o, 'x')
  local axis = o.axis
  if type(axis) == 'number' then axis = { axis } end
  return op('Squeeze', { o.x }, { squeeze_dims = axis, name = o.name })
end)

def('transpose', { 'x', 'perm' }, {}, function(o)
  required('transpose', o, 'x')
  local x, perm = to_output(o.x, nil, nil, 'transpose'), o.perm
  if perm == nil then
    local rank = graph.rank(x)
    if rank then
      local list = {}
      for i = 1, rank do list[i] = rank - i end
      perm = convert.list(x.graph, list)
    else
      local r = op1('Rank', x)
      perm = (r - 1) - op1('Range', int32(0, x.graph), r, int32(1, x.graph))
    end
  end
  return op('Transpose', { x, int32(perm, x.graph) }, { name = o.name })
end)

def('reshape', { 'x', 'shape' }, {}, function(o)
  required('reshape', o, 'x', 'shape')
  local x = to_output(o.x, nil, nil, 'reshape')
  return op('Reshape', { x, typed(o.shape) and o.shape or int32(o.shape, x.graph) }, { name = o.name })
end)

--- df.dim(x, axis): that dimension as a scalar int32; a constant where it is known.
def('dim', { 'x', 'axis' }, {}, function(o)
  required('dim', o, 'x', 'axis')
  local x, axis = to_output(o.x, nil, nil, 'dim'), o.axis
  if type(axis) ~= 'number' then return op1('GatherV2', op1('Shape', x), int32(axis, x.graph), int32(0, x.graph)) end
  local shape = x.shape
  if shape then
    local at = axis < 0 and axis + #shape or axis
    local d = shape[at + 1]
    if not d then errors.bad('dim: there is no axis %d in %s', axis, tensor.shape_text(x.dtype, shape)) end
    if d >= 0 then return int32(d, x.graph) end
    axis = at
  end
  return op('StridedSlice', { op1('Shape', x), { axis }, { axis == -1 and 0 or axis + 1 }, { 1 } },
            { shrink_axis_mask = 1, end_mask = axis == -1 and 1 or nil })
end)

def('slice', { 'x', 'begin', 'size' }, {}, function(o)
  required('slice', o, 'x', 'begin', 'size')
  local g = convert.graph_of(o.x)
  return op('Slice', { o.x, int32(o.begin, g), int32(o.size, g) }, { name = o.name })
end)

def('strided_slice', { 'x', 'begin', 'end_', 'strides' },
    { 'begin_mask', 'end_mask', 'ellipsis_mask', 'new_axis_mask', 'shrink_axis_mask' }, function(o)
  required('strided_slice', o, 'x', 'begin', 'end_')
  local g = convert.graph_of(o.x)
  local begin, strides = int32(o.begin, g), o.strides
  if strides == nil then
    strides = {}
    for i = 1, (begin.shape and begin.shape[1] or 1) do strides[i] = 1 end
  end
  return op('StridedSlice', { o.x, begin, int32(o.end_, g), int32(strides, g) },
            { begin_mask = o.begin_mask, end_mask = o.end_mask, ellipsis_mask = o.ellipsis_mask,
              new_axis_mask = o.new_axis_mask,
              shrink_axis_mask = o.shrink_axis_mask, name = o.name })
end)

def('tile', { 'x', 'multiples' }, {}, function(o)
  required('tile', o, 'x', 'multiples')
  return op('Tile', { o.x, int32(o.multiples, convert.graph_of(o.x)) }, { name = o.name })
end)

def('pad', { 'x', 'paddings' }, { 'mode', 'constant_values' }, function(o)
  required('pad', o, 'x', 'paddings')
  local mode = o.mode == nil and 'CONSTANT' or type(o.mode) == 'string' and o.mode:upper()
  local x = to_output(o.x, nil, nil, 'pad')
  local paddings = int32(o.paddings, x.graph)
  if mode == 'CONSTANT' then
    if o.constant_values ~= nil and registry.has('PadV2') then
      return op('PadV2', { x, paddings, o.constant_values }, { name = o.name })
    end
    return op('Pad', { x, paddings }, { name = o.name })
  elseif mode == 'REFLECT' or mode == 'SYMMETRIC' then
    return op('MirrorPad', { x, paddings }, { mode = mode, name = o.name })
  end
  errors.bad("pad: the mode is 'constant', 'reflect' or 'symmetric', not %s", type(o.mode) == 'string' and "'" .. o.mode
             .. "'" or errors.describe(o.mode))
end)

def('reverse', { 'x', 'axis' }, {}, function(o)
  required('reverse', o, 'x', 'axis')
  local axis = type(o.axis) == 'number' and { o.axis } or o.axis
  return op('ReverseV2', { o.x, int32(axis, convert.graph_of(o.x)) }, { name = o.name })
end)

--- reverse_sequence(x, lengths, {seq_axis, batch_axis = 0}): the first lengths[i] elements of row i in reverse order.
def('reverse_sequence', { 'x', 'lengths' }, { 'seq_axis', 'batch_axis', 'seq_dim', 'batch_dim' }, function(o)
  required('reverse_sequence', o, 'x', 'lengths')
  for _, of in ipairs{ 'seq', 'batch' } do
    if o[of .. '_axis'] ~= nil and o[of .. '_dim'] ~= nil then
      errors.bad('reverse_sequence: %s_axis and %s_dim are one option, which is given twice', of, of)
    end
  end
  local g = convert.graph_of(o.x) or convert.graph_of(o.lengths)
  return op('ReverseSequence', { o.x, typed(o.lengths) and o.lengths or int32(o.lengths, g) },
            { seq_dim = o.seq_axis or o.seq_dim, batch_dim = o.batch_axis or o.batch_dim, name = o.name })
end)

def('broadcast_to', { 'x', 'shape' }, {}, function(o)
  required('broadcast_to', o, 'x', 'shape')
  local x = to_output(o.x, nil, nil, 'broadcast_to')
  return op('BroadcastTo', { x, typed(o.shape) and o.shape or int32(o.shape, x.graph) }, { name = o.name })
end)

-- ---- picking --------------------------------------------------------------------------------------------------------
def('gather', { 'x', 'indices', 'axis' }, { 'batch_dims' }, function(o)
  required('gather', o, 'x', 'indices')
  local g = convert.graph_of(o.x) or convert.graph_of(o.indices)
  local indices = typed(o.indices) and o.indices or int32(o.indices, g)
  return op('GatherV2', { o.x, indices, int32(o.axis or dtypes.is_whole(o.batch_dims) and o.batch_dims or 0, g) },
            { batch_dims = o.batch_dims, name = o.name })
end)

def('one_hot', { 'indices', 'depth', 'on_value', 'off_value', 'axis', 'dtype' }, {}, function(o)
  required('one_hot', o, 'indices', 'depth')
  local g = convert.graph_of(o.indices)
  local indices = typed(o.indices) and o.indices or int32(o.indices, g)
  local d = o.dtype and dtypes.of(o.dtype) or typed(o.on_value) or typed(o.off_value)
  or (o.on_value ~= nil and dtypes.of_bare(o.on_value)) or dtypes.FLOAT32
  local on, off = o.on_value, o.off_value
  if on == nil then on = d ~= dtypes.BOOL and 1 or true end
  if off == nil then off = d ~= dtypes.BOOL and 0 or false end
  return op('OneHot', { indices, int32(o.depth, g), to_output(on, d, g, 'one_hot'), to_output(off, d, g, 'one_hot') },
            { axis = o.axis, name = o.name })
end)

--- The dimensions of x from number `at` on as the mask's, where both are known: an error if they are not.
local function mask_fits(x, mask, at)
  local shape, of = x.shape, mask.shape
  if not shape then return end
  local fits = at + #of <= #shape
  for i, n in ipairs(of) do fits = fits and (n < 0 or shape[at + i] < 0 or n == shape[at + i]) end
  if not fits then
    errors.bad('boolean_mask: the mask is %s, x %s: its dimensions from axis %d on are to be those of the mask',
               tensor.shape_text('bool', of),
               tensor.shape_text(x.dtype, shape), at)
  end
end

--- boolean_mask(x, mask, {axis = 0}): the elements of x along its axes from `axis` on where mask is true.
def('boolean_mask', { 'x', 'mask' }, { 'axis' }, function(o)
  required('boolean_mask', o, 'x', 'mask')
  local x = to_output(o.x, nil, nil, 'boolean_mask')
  local mask = to_output(o.mask, dtypes.BOOL, x.graph, 'boolean_mask')
  local rank, axis = graph.rank(mask), o.axis or 0
  if not rank or rank == 0 then errors.bad('boolean_mask: the rank of the mask must be known and above 0') end
  if axis < 0 then
    if not graph.rank(x) then
      errors.bad('boolean_mask: axis %d counts from the end of an x whose rank is not known', axis)
    end
    axis = axis + graph.rank(x)
    if axis < 0 then
      errors.bad('boolean_mask: axis %d is before the first axis of x, which has %d', o.axis, graph.rank(x))
    end
  end
  mask_fits(x, mask, axis)
  if rank > 1 then
    local shape = op1('Shape', x)
    local parts = { { -1 }, functions.strided_slice(shape, { axis + rank }, { 0 }, { 1 }, { end_mask = 1 }) }
    if axis > 0 then table.insert(parts, 1, functions.strided_slice(shape, { 0 }, { axis }, { 1 })) end
    x, mask = functions.reshape(x, functions.concat(parts, 0)), functions.reshape(mask, { -1 })
  end
  return functions.gather(x, functions.squeeze(op1('Where', mask), { axis = 1 }), axis)
end)

--- sequence_mask(lengths, maxlen?): bool[n, maxlen], true in the first lengths[i] places of row i.
def('sequence_mask', { 'lengths', 'maxlen' }, { 'dtype' }, function(o)
  required('sequence_mask', o, 'lengths')
  local lengths = typed(o.lengths) and to_output(o.lengths) or int32(o.lengths)
  local most = o.maxlen == nil and functions.maximum(functions.reduce_max(lengths), 0)
  or to_output(o.maxlen, graph.dtype(lengths), lengths.graph)
  local mask = functions.less(functions.range(most), functions.expand_dims(lengths, -1))
  return o.dtype and functions.cast(mask, o.dtype) or mask
end)

--- repeat_(x, repeats, {axis}): each element repeats times, or element i repeats[i] times.
def('repeat_', { 'x', 'repeats', 'axis' }, {}, function(o)
  required('repeat_', o, 'x', 'repeats')
  local x, axis = to_output(o.x, nil, nil, 'repeat_'), o.axis
  if axis == nil then x, axis = functions.reshape(x, { -1 }), 0 end
  local n = op('GatherV2', { op1('Shape', x), int32(axis, x.graph), int32(0, x.graph) })
  local repeats = op('BroadcastTo',
                     { typed(o.repeats) and o.repeats or int32(o.repeats, x.graph), functions.stack{ n } })
  local places = op1('Where', functions.sequence_mask(repeats))
  return functions.gather(x, op('StridedSlice', { places, { 0, 0 }, { 0, 1 }, { 1, 1 } },
                                { begin_mask = 1, end_mask = 1, shrink_axis_mask = 2 }), axis)
end)

--- where(c): the indices of the true elements, int64[n, rank]. where(c, x, y): x where c is true, else y; as in
-- TensorFlow 1 a vector c chooses whole rows of a matrix and more. Otherwise all three broadcast.
def('where', { 'condition', 'x', 'y' }, {}, function(o)
  required('where', o, 'condition')
  if o.x == nil and o.y == nil then return op('Where', { o.condition }, { name = o.name }) end
  required('where', o, 'x', 'y')
  local g = convert.graph_of(o.condition) or convert.graph_of(o.x) or convert.graph_of(o.y)
  local c = to_output(o.condition, dtypes.BOOL, g, 'where')
  if graph.dtype(c) ~= dtypes.BOOL then
    errors.bad('where: the condition is %s, bool is expected: it comes first, df.where(p, x, y)',
               tensor.shape_text(c.dtype, c.shape))
  end
  local d = typed(o.x) or typed(o.y)
  local x = to_output(o.x, d, g, 'where')
  local y = to_output(o.y, d or graph.dtype(x), g, 'where')
  local rank = graph.rank(x)
  local rows = rank and rank > 1 and graph.rank(y) == rank and graph.rank(c) == 1
  return op(rows and 'Select' or 'SelectV2', { c, x, y }, { name = o.name })
end)

def('top_k', { 'x', 'k' }, { 'sorted' }, function(o)
  required('top_k', o, 'x')
  return op('TopKV2', { o.x, int32(o.k or 1, convert.graph_of(o.x)) }, { sorted = o.sorted, name = o.name })
end)
