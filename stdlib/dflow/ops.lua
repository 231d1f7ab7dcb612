--- The ops of df: what the registry gives, and adapters where Lua's surface differs from the node (an axis in the options,
-- a list that is split, a default that depends on the rank). Ops of neural networks are in ops_nn.lua.
local core = require 'dflow.backend'
local errors = require 'dflow.errors'
local dtypes = require 'dflow.dtypes'
local tensor = require 'dflow.tensor'
local graph = require 'dflow.graph'
local nest = require 'dflow.nest'
local convert = require 'dflow.convert'
local registry = require 'dflow.registry'

local M = {}
local functions = {}     -- name -> function: adapters, and registry functions once they were asked for
M.functions = functions
local op, op1, to_output, typed = registry.op, registry.op1, convert.to_output, convert.typed
local Output = graph.Output
local getmetatable, type = getmetatable, type

-- ---- arguments -----------------------------------------------------------------------------------------------
local is_checked = {}

--- What every op means by these: an axis is a whole number, a list or an Output; a shape a list or an Output.
function is_checked.axis(what, v)
  if type(v) == 'number' and dtypes.is_whole(v) and math.abs(v) < 2^31 then return end
  if nest.is_plain(v) or (type(v) == 'table' and typed(v)) then return end
  errors.bad('%s: axis is %s, a whole number is expected', what, errors.describe(v))
end
function is_checked.shape(what, v)
  if type(v) == 'number' and dtypes.is_whole(v) and math.abs(v) < 2^53 then return end
  if type(v) == 'table' and typed(v) then return end
  if not nest.is_plain(v) then
    errors.bad('%s: shape is %s, a list of whole numbers is expected', what, errors.describe(v))
  end
  for i = 1, #v do
    local d = v[i]
    if type(d) ~= 'number' or not dtypes.is_whole(d) or math.abs(d) >= 2^53 then
      errors.bad('%s: dimension %d of the shape is %s, a whole number is expected', what, i - 1, errors.describe(d))
    end
  end
end
function is_checked.name(what, v)
  if type(v) ~= 'string' then errors.bad('%s: name is %s, a string is expected', what, errors.describe(v)) end
end
function is_checked.dtype(what, v)
  dtypes.of(v)
end
for _, key in ipairs{ 'keep_dims', 'exclusive', 'reverse', 'transpose_a', 'transpose_b', 'sorted' } do
  is_checked[key] = function(what, v)
    if type(v) ~= 'boolean' then
      errors.bad('%s: %s is %s, true or false is expected', what, key, errors.describe(v))
    end
  end
end

--- Takes positional arguments and an options table apart.
-- @param what   the op's name, for messages
-- @param names  names of what may be given by place, in order; these are options too
-- @param more   names of further options
-- @return       a table of them all by name
local function take(what, names, more, ...)
  local n, out = select('#', ...), {}
  while n > 0 and (select(n, ...)) == nil do n = n - 1 end
  local last = n > 0 and (select(n, ...)) or nil
  if n > 0 and nest.is_plain(last) and (nest.has_names(last) or (n > #names and next(last) == nil)) then
    for key, v in pairs(last) do
      local known = key == 'name'
      for i = 1, #names do known = known or names[i] == key end
      for i = 1, #more do known = known or more[i] == key end
      if not known then
        local all = {}
        for i = 1, #names do if i > 1 then all[#all + 1] = names[i] end end
        for i = 1, #more do all[#all + 1] = more[i] end
        all[#all + 1] = 'name'
        errors.bad("%s has no option '%s'%s (it knows: %s)", what, tostring(key), errors.hint(key, all), table.concat(all, ', '))
      end
      out[key] = v
    end
    n = n - 1
  end
  if n > #names then
    errors.bad('%s takes at most %d arguments (%s), %d were given', what, #names, table.concat(names, ', '), n)
  end
  for i = 1, n do
    local v = select(i, ...)
    if v ~= nil then out[names[i]] = v end
  end
  for key, v in pairs(out) do
    local check = is_checked[key]
    if check then check(what, v) end
  end
  return out
end
M.take = take

local function required(what, o, ...)
  for i = 1, select('#', ...) do
    local name = select(i, ...)
    if o[name] == nil then errors.bad('%s: %s is missing', what, name) end
  end
end
M.required = required

M.arguments = {}      -- of adapters: name -> {what may be given by place, what only by name}
local function def(name, names, more, fn)
  M.arguments[name] = { names, more }
  functions[name] = function(...) return fn(take(name, names, more, ...)) end
end
M.def = def

--- An Output of the value; bare numbers are int32 (indices, axes, sizes).
local function int32(v, g)
  return to_output(v, 3, g)
end
M.int32 = int32

local function static_rank(x) return graph.rank(x) end

--- The axes of x as something that a reduction takes: all of them when axis is nil.
local function axes_of(x, axis)
  if axis ~= nil then return int32(axis, x.graph) end
  local rank = static_rank(x)
  if rank then
    local list = {}
    for i = 1, rank do list[i] = i - 1 end
    return convert.constant(x.graph, list, 3, { rank })
  end
  return op1('Range', int32(0, x.graph), op1('Rank', x), int32(1, x.graph))
end
M.axes_of = axes_of

-- ---- reductions -------------------------------------------------------------------------------------------------
for name, type_name in pairs { reduce_sum = 'Sum', reduce_mean = 'Mean', reduce_prod = 'Prod', reduce_max = 'Max', reduce_min = 'Min',
                               reduce_all = 'All', reduce_any = 'Any', reduce_logsumexp = 'LogSumExp',
                               reduce_euclidean_norm = 'EuclideanNorm' } do
  def(name, { 'x', 'axis', 'keep_dims' }, {}, function(o)
    required(name, o, 'x')
    local bool = name == 'reduce_all' or name == 'reduce_any'
    local x = to_output(o.x, bool and 10 or nil, nil, name)
    return op(type_name, { x, axes_of(x, o.axis) }, { keep_dims = o.keep_dims, name = o.name })
  end)
end

for name, type_name in pairs { argmax = 'ArgMax', argmin = 'ArgMin' } do
  def(name, { 'x', 'axis' }, { 'output_type' }, function(o)
    required(name, o, 'x')
    return op(type_name, { o.x, int32(o.axis or 0, convert.graph_of(o.x)) }, { output_type = o.output_type, name = o.name })
  end)
end

for name, type_name in pairs { cumsum = 'Cumsum', cumprod = 'Cumprod' } do
  def(name, { 'x', 'axis' }, { 'exclusive', 'reverse' }, function(o)
    required(name, o, 'x')
    return op(type_name, { o.x, int32(o.axis or 0, convert.graph_of(o.x)) }, { exclusive = o.exclusive, reverse = o.reverse, name = o.name })
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
    errors.bad("/: the operands have different dtypes, %s and %s: cast one of them, as in df.cast(x, '%s')", dtypes.name[dx],
               dtypes.name[dy], dtypes.name[dx])
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

local real_div = registry.has('RealDiv') and registry.make(registry.entry('RealDiv'))
--- a / b: the short way for two floats.
function functions.div(a, b, opts)
  if opts == nil and real_div and getmetatable(a) == Output and dtypes.is_float(graph.dtype(a)) then return real_div(a, b) end
  if opts == nil then return functions.truediv(a, b) end
  return functions.truediv(a, b, opts)
end

-- ---- shapes -----------------------------------------------------------------------------------------------------------
def('concat', { 'values', 'axis' }, {}, function(o)
  required('concat', o, 'values', 'axis')
  local values = o.values
  if type(values) ~= 'table' then
    errors.bad('concat takes a list of values, not %s', errors.describe(values))
  end
  if getmetatable(values) ~= nil then values = { values } end
  if #values == 0 then errors.bad('concat: the list is empty') end
  return op('ConcatV2', { values, int32(o.axis, convert.graph_of(values)) }, { name = o.name })
end)

def('stack', { 'values', 'axis' }, {}, function(o)
  required('stack', o, 'values')
  if type(o.values) ~= 'table' or #o.values == 0 then
    errors.bad('stack takes a list of values, not %s', errors.describe(o.values))
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
      errors.bad('unstack: how many parts axis %d has is not known while building: %s; give num', axis, tensor.shape_text(x.dtype, shape))
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
    local rank = static_rank(x)
    if rank then
      local list = {}
      for i = 1, rank do list[i] = rank - i end
      perm = convert.constant(x.graph, list, 3, { rank })
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
    if d >= 0 then return convert.constant(x.graph, d, 3) end
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
            { begin_mask = o.begin_mask, end_mask = o.end_mask, ellipsis_mask = o.ellipsis_mask, new_axis_mask = o.new_axis_mask,
              shrink_axis_mask = o.shrink_axis_mask, name = o.name })
end)

def('tile', { 'x', 'multiples' }, {}, function(o)
  required('tile', o, 'x', 'multiples')
  return op('Tile', { o.x, int32(o.multiples, convert.graph_of(o.x)) }, { name = o.name })
end)

def('pad', { 'x', 'paddings' }, { 'mode', 'constant_values' }, function(o)
  required('pad', o, 'x', 'paddings')
  local mode = (o.mode or 'constant'):upper()
  local x = to_output(o.x, nil, nil, 'pad')
  local paddings = int32(o.paddings, x.graph)
  if mode == 'CONSTANT' then
    if o.constant_values ~= nil and registry.has('PadV2') then return op('PadV2', { x, paddings, o.constant_values }, { name = o.name }) end
    return op('Pad', { x, paddings }, { name = o.name })
  elseif mode == 'REFLECT' or mode == 'SYMMETRIC' then
    return op('MirrorPad', { x, paddings }, { mode = mode, name = o.name })
  end
  errors.bad("pad: the mode is 'constant', 'reflect' or 'symmetric', not '%s'", o.mode)
end)

def('reverse', { 'x', 'axis' }, {}, function(o)
  required('reverse', o, 'x', 'axis')
  local axis = type(o.axis) == 'number' and { o.axis } or o.axis
  return op('ReverseV2', { o.x, int32(axis, convert.graph_of(o.x)) }, { name = o.name })
end)

--- reverse_sequence(x, lengths, {seq_axis, batch_axis = 0}): the first lengths[i] elements of row i in reverse order.
def('reverse_sequence', { 'x', 'lengths' }, { 'seq_axis', 'batch_axis', 'seq_dim', 'batch_dim' }, function(o)
  required('reverse_sequence', o, 'x', 'lengths')
  local g = convert.graph_of(o.x) or convert.graph_of(o.lengths)
  return op('ReverseSequence', { o.x, typed(o.lengths) and o.lengths or int32(o.lengths, g) },
            { seq_dim = o.seq_axis or o.seq_dim, batch_dim = o.batch_axis or o.batch_dim, name = o.name })
end)

def('broadcast_to', { 'x', 'shape' }, {}, function(o)
  required('broadcast_to', o, 'x', 'shape')
  local x = to_output(o.x, nil, nil, 'broadcast_to')
  return op('BroadcastTo', { x, typed(o.shape) and o.shape or int32(o.shape, x.graph) }, { name = o.name })
end)

-- ---- picking ------------------------------------------------------------------------------------------------------------
def('gather', { 'x', 'indices', 'axis' }, { 'batch_dims' }, function(o)
  required('gather', o, 'x', 'indices')
  local g = convert.graph_of(o.x) or convert.graph_of(o.indices)
  local indices = typed(o.indices) and o.indices or int32(o.indices, g)
  return op('GatherV2', { o.x, indices, int32(o.axis or 0, g) }, { batch_dims = o.batch_dims, name = o.name })
end)

def('one_hot', { 'indices', 'depth', 'on_value', 'off_value', 'axis', 'dtype' }, {}, function(o)
  required('one_hot', o, 'indices', 'depth')
  local g = convert.graph_of(o.indices)
  local indices = typed(o.indices) and o.indices or int32(o.indices, g)
  local d = o.dtype and dtypes.of(o.dtype) or typed(o.on_value) or typed(o.off_value) or (o.on_value ~= nil and dtypes.of_bare(o.on_value)) or dtypes.FLOAT32
  local on, off = o.on_value, o.off_value
  if on == nil then on = d ~= dtypes.BOOL and 1 or true end
  if off == nil then off = d ~= dtypes.BOOL and 0 or false end
  return op('OneHot', { indices, int32(o.depth, g), to_output(on, d, g, 'one_hot'), to_output(off, d, g, 'one_hot') },
            { axis = o.axis, name = o.name })
end)

--- boolean_mask(x, mask): the elements of x along its first axes where mask is true.
def('boolean_mask', { 'x', 'mask' }, {}, function(o)
  required('boolean_mask', o, 'x', 'mask')
  local x = to_output(o.x, nil, nil, 'boolean_mask')
  local mask = to_output(o.mask, dtypes.BOOL, x.graph, 'boolean_mask')
  local rank = static_rank(mask)
  if not rank or rank == 0 then errors.bad('boolean_mask: the rank of the mask must be known and above 0') end
  if rank > 1 then
    local rest = functions.strided_slice(op1('Shape', x), { rank }, { 0 }, { 1 }, { end_mask = 1 })
    x, mask = functions.reshape(x, functions.concat({ { -1 }, rest }, 0)), functions.reshape(mask, { -1 })
  end
  return functions.gather(x, functions.squeeze(op1('Where', mask), { axis = 1 }))
end)

--- sequence_mask(lengths, maxlen?): bool[n, maxlen], true in the first lengths[i] places of row i.
def('sequence_mask', { 'lengths', 'maxlen' }, { 'dtype' }, function(o)
  required('sequence_mask', o, 'lengths')
  local lengths = typed(o.lengths) and to_output(o.lengths) or int32(o.lengths)
  local most = o.maxlen == nil and functions.reduce_max(lengths) or to_output(o.maxlen, graph.dtype(lengths), lengths.graph)
  local mask = functions.less(functions.range(most), functions.expand_dims(lengths, -1))
  return o.dtype and functions.cast(mask, o.dtype) or mask
end)

--- repeat_(x, repeats, {axis}): each element repeats times, or element i repeats[i] times.
def('repeat_', { 'x', 'repeats', 'axis' }, {}, function(o)
  required('repeat_', o, 'x', 'repeats')
  local x, axis = to_output(o.x, nil, nil, 'repeat_'), o.axis
  if axis == nil then x, axis = functions.reshape(x, { -1 }), 0 end
  local n = op('GatherV2', { op1('Shape', x), int32(axis, x.graph), int32(0, x.graph) })
  local repeats = op('BroadcastTo', { typed(o.repeats) and o.repeats or int32(o.repeats, x.graph), functions.stack{ n } })
  local places = op1('Where', functions.sequence_mask(repeats))
  return functions.gather(x, op('StridedSlice', { places, { 0, 0 }, { 0, 1 }, { 1, 1 } }, { begin_mask = 1, end_mask = 1, shrink_axis_mask = 2 }), axis)
end)

--- where(c): the indices of the true elements, int64[n, rank]. where(c, x, y): x where c is true, else y; as in TensorFlow 1 a
-- vector c chooses whole rows of a matrix and more. Otherwise all three broadcast.
def('where', { 'condition', 'x', 'y' }, {}, function(o)
  required('where', o, 'condition')
  if o.x == nil and o.y == nil then return op('Where', { o.condition }, { name = o.name }) end
  required('where', o, 'x', 'y')
  local g = convert.graph_of(o.condition) or convert.graph_of(o.x) or convert.graph_of(o.y)
  local c = to_output(o.condition, dtypes.BOOL, g, 'where')
  local d = typed(o.x) or typed(o.y)
  local x = to_output(o.x, d, g, 'where')
  local y = to_output(o.y, d or graph.dtype(x), g, 'where')
  local rank = static_rank(x)
  local rows = rank and rank > 1 and static_rank(y) == rank and static_rank(c) == 1
  return op(rows and 'Select' or 'SelectV2', { c, x, y }, { name = o.name })
end)

def('top_k', { 'x', 'k' }, { 'sorted' }, function(o)
  required('top_k', o, 'x')
  return op('TopKV2', { o.x, int32(o.k or 1, convert.graph_of(o.x)) }, { sorted = o.sorted, name = o.name })
end)

-- ---- making -----------------------------------------------------------------------------------------------------------------
--- df.constant(v, dtype?, shape?)
def('constant', { 'v', 'dtype', 'shape' }, {}, function(o)
  required('constant', o, 'v')
  local d = o.dtype and dtypes.of(o.dtype)
  if getmetatable(o.v) == Output then errors.bad('constant takes a value; this is the Output %s', o.v.name) end
  if d and getmetatable(o.v) == tensor.Tensor then o.v = o.v:astype(dtypes.name[d]) end
  return convert.constant(graph.current(), o.v, d, o.shape, o.name, 'constant')
end)

--- df.float32(v) and so on: a constant of that dtype; an Output is cast.
for _, name in ipairs(dtypes.list) do
  functions[name] = function(v, shape)
    if v == nil then errors.bad('%s: the value is missing', name) end
    local mt = type(v) == 'table' and getmetatable(v)
    if mt and mt ~= tensor.Tensor or (not mt and nest.is_structure(v)) then return functions.cast(v, name) end
    if mt then v = v:astype(name) end
    return convert.constant(graph.current(), v, dtypes.number[name], shape, nil, name)
  end
end

--- df.placeholder(dtype, shape?, name?): a value that every run is fed with.
def('placeholder', { 'dtype', 'shape', 'name' }, {}, function(o)
  required('placeholder', o, 'dtype')
  return op('Placeholder', {}, { dtype = dtypes.name[dtypes.of(o.dtype)], shape = o.shape or nil, name = o.name })
end)

def('placeholder_with_default', { 'x', 'shape', 'name' }, {}, function(o)
  required('placeholder_with_default', o, 'x')
  local x = to_output(o.x, nil, nil, 'placeholder_with_default')
  return op('PlaceholderWithDefault', { x }, { shape = o.shape or x.shape, name = o.name })
end)

local function filled(name, value)
  def(name, { 'shape', 'dtype' }, {}, function(o)
    required(name, o, 'shape')
    local d = o.dtype and dtypes.of(o.dtype) or dtypes.FLOAT32
    local v = value
    if d == dtypes.BOOL then v = value == 1 elseif d == dtypes.STRING then v = '' end
    local shape = type(o.shape) == 'number' and { o.shape } or o.shape
    if nest.is_plain(shape) and not nest.is_structure(shape) then
      local n = 1
      for i = 1, #shape do n = n * shape[i] end
      if n >= 0 and n <= 4096 then return convert.constant(graph.current(), tensor.from(v, d, shape, name), nil, nil, o.name) end
    end
    local dims = typed(shape) and to_output(shape) or int32(shape)
    return op('Fill', { dims, to_output(v, d, dims.graph) }, { name = o.name })
  end)
end
filled('zeros', 0)
filled('ones', 1)

def('fill', { 'shape', 'value' }, {}, function(o)
  required('fill', o, 'shape', 'value')
  local g = convert.graph_of(o.shape) or convert.graph_of(o.value)
  return op('Fill', { typed(o.shape) and o.shape or int32(type(o.shape) == 'number' and { o.shape } or o.shape, g), to_output(o.value, nil, g, 'fill') },
            { name = o.name })
end)

for name, type_name in pairs { zeros_like = 'ZerosLike', ones_like = 'OnesLike' } do
  def(name, { 'x', 'dtype' }, {}, function(o)
    required(name, o, 'x')
    local x = to_output(o.x, nil, nil, name)
    if o.dtype and dtypes.of(o.dtype) ~= graph.dtype(x) then
      return functions[name == 'zeros_like' and 'zeros' or 'ones'](op1('Shape', x), o.dtype)
    end
    return op(type_name, { x }, { name = o.name })
  end)
end

--- range(limit), range(start, limit), range(start, limit, delta). Whole numbers are int32.
def('range', { 'start', 'limit', 'delta' }, { 'dtype' }, function(o)
  local start, limit = o.start, o.limit
  if limit == nil then start, limit = 0, start end
  if limit == nil then errors.bad('range: limit is missing') end
  local delta = o.delta == nil and 1 or o.delta
  local d = o.dtype and dtypes.of(o.dtype) or typed(start) or typed(limit) or typed(delta)
  if not d then
    d = dtypes.INT32
    for _, v in ipairs { start, limit, delta } do
      local own = dtypes.of_bare(v)
      if not dtypes.is_whole(v) or (dtypes.has_integers and own == dtypes.FLOAT32) then d = dtypes.FLOAT32 break end
      if own == dtypes.INT64 then d = own end
    end
  end
  local g = convert.graph_of(start) or convert.graph_of(limit) or convert.graph_of(delta)
  return op('Range', { to_output(start, d, g, 'range'), to_output(limit, d, g, 'range'), to_output(delta, d, g, 'range') }, { name = o.name })
end)

def('linspace', { 'start', 'stop', 'num' }, {}, function(o)
  required('linspace', o, 'start', 'stop', 'num')
  local d = typed(o.start) or typed(o.stop) or dtypes.FLOAT32
  local g = convert.graph_of(o.start) or convert.graph_of(o.stop) or convert.graph_of(o.num)
  return op('LinSpace', { to_output(o.start, d, g, 'linspace'), to_output(o.stop, d, g, 'linspace'), int32(o.num, g) }, { name = o.name })
end)
functions.lin_space = functions.linspace

--- eye(n, m?): ones on the diagonal of float32[n, m].
def('eye', { 'n', 'm' }, { 'dtype' }, function(o)
  required('eye', o, 'n')
  local rows = functions.range(int32(o.n))
  return functions.one_hot(rows, o.m or o.n, { dtype = o.dtype or 'float32' })
end)

-- ---- products ---------------------------------------------------------------------------------------------------------------
--- matmul(a, b): over the last two axes; more axes than two are batches.
def('matmul', { 'a', 'b' }, { 'transpose_a', 'transpose_b' }, function(o)
  required('matmul', o, 'a', 'b')
  local g = convert.graph_of(o.a) or convert.graph_of(o.b)
  local a = to_output(o.a, typed(o.a) or typed(o.b) or (type(o.a) == 'table' and dtypes.FLOAT32) or nil, g, 'matmul')
  local b = to_output(o.b, graph.dtype(a), g, 'matmul')
  if (static_rank(a) or 0) > 2 or (static_rank(b) or 0) > 2 then
    return op('BatchMatMulV2', { a, b }, { adj_x = o.transpose_a, adj_y = o.transpose_b, name = o.name })
  end
  return op('MatMul', { a, b }, { transpose_a = o.transpose_a, transpose_b = o.transpose_b, name = o.name })
end)

-- Two matrices of one dtype, without options: most products.
do
  local any, id = functions.matmul, registry.need('MatMul').id
  local add_node, where, fresh, dtype_of = core.add_node, core.where, graph.fresh, graph.dtype
  function functions.matmul(a, b, ...)
    if select('#', ...) == 0 and getmetatable(a) == Output and getmetatable(b) == Output then
      local g = a.graph
      if b.graph == g and (static_rank(a) or 2) <= 2 and (static_rank(b) or 2) <= 2 and dtype_of(a) == dtype_of(b) then
        return fresh(g, add_node(g.handle, id, where(), a.node, a.index, b.node, b.index))
      end
    end
    return any(a, b, ...)
  end
end

--- einsum('ij,jk->ik', a, b)
function functions.einsum(equation, ...)
  local args, n, name = { ... }, select('#', ...), nil
  if n > 0 and nest.is_plain(args[n]) and nest.has_names(args[n]) then
    name = errors.options(args[n], 'einsum', { 'name' }).name
    args[n] = nil
    n = n - 1
  end
  if type(equation) ~= 'string' then
    errors.bad("einsum takes an equation such as 'ij,jk->ik' first, not %s", errors.describe(equation))
  end
  if n == 1 and nest.is_plain(args[1]) and nest.is_structure(args[1]) then args = args[1] end
  return op('Einsum', { args }, { equation = (equation:gsub('%s', '')), name = name })
end

--- tensordot(a, b, axes): the sum over the last `axes` axes of a and the first of b, or over {axes of a, axes of b}.
def('tensordot', { 'a', 'b', 'axes' }, {}, function(o)
  required('tensordot', o, 'a', 'b', 'axes')
  local g = convert.graph_of(o.a) or convert.graph_of(o.b)
  local a = to_output(o.a, typed(o.b), g, 'tensordot')
  local b = to_output(o.b, graph.dtype(a), g, 'tensordot')
  local ra, rb = static_rank(a), static_rank(b)
  if not ra or not rb then errors.bad('tensordot: both ranks must be known while building') end
  local la, lb = {}, {}
  if type(o.axes) == 'number' then
    for i = 1, o.axes do la[i], lb[i] = ra - o.axes + i - 1, i - 1 end
  else
    la, lb = (nest.is_plain(o.axes) and o.axes or {})[1], (nest.is_plain(o.axes) and o.axes or {})[2]
    if type(la) == 'number' then la, lb = { la }, { lb } end
    if type(la) ~= 'table' or type(lb) ~= 'table' or #la ~= #lb then
      errors.bad('tensordot: axes is a number or two lists of axes of one length')
    end
  end
  for i = 1, #la do
    for _, pair in ipairs{ { la[i], ra }, { lb[i], rb } } do
      local axis, rank = pair[1], pair[2]
      if type(axis) ~= 'number' or axis >= rank or axis < -rank then
        errors.bad('tensordot: there is no axis %s in a tensor of rank %d', tostring(axis), rank)
      end
    end
  end
  local letters, names_a, names_b, out = 'abcdefghijklmnopqrstuvwxyz', {}, {}, {}
  for i = 1, ra do names_a[i] = letters:sub(i, i) end
  for i = 1, rb do names_b[i] = letters:sub(ra + i, ra + i) end
  local summed = {}
  for i = 1, #la do
    local ia, ib = la[i] < 0 and la[i] + ra or la[i], lb[i] < 0 and lb[i] + rb or lb[i]
    names_b[ib + 1] = names_a[ia + 1]
    summed[names_a[ia + 1]] = true
  end
  for _, list in ipairs { names_a, names_b } do
    for _, c in ipairs(list) do
      if not summed[c] then out[#out + 1] = c end
    end
  end
  return op('Einsum', { { a, b } }, { equation = table.concat(names_a) .. ',' .. table.concat(names_b) .. '->' .. table.concat(out), name = o.name })
end)

-- ---- random numbers --------------------------------------------------------------------------------------------------------
local function random_shape(shape)
  if type(shape) == 'number' then shape = { shape } end
  return typed(shape) and to_output(shape) or int32(shape)
end

def('random_uniform', { 'shape', 'min', 'max' }, { 'dtype', 'seed' }, function(o)
  required('random_uniform', o, 'shape')
  local d = o.dtype and dtypes.of(o.dtype) or typed(o.min) or typed(o.max) or dtypes.FLOAT32
  local shape, low, high = random_shape(o.shape), o.min or 0, o.max
  if dtypes.is_int(d) then
    if high == nil then errors.bad('random_uniform of %s needs max', dtypes.name[d]) end
    return op('RandomUniformInt', { shape, to_output(low, d, shape.graph), to_output(high, d, shape.graph) }, { seed = o.seed, name = o.name })
  end
  local x = op('RandomUniform', { shape }, { dtype = dtypes.name[d], seed = o.seed, name = o.name })
  if high == nil then high = 1 end
  if low == 0 and high == 1 then return x end
  local width = (type(low) == 'number' and type(high) == 'number') and high - low or to_output(high, d, shape.graph) - low
  x = x * width
  return low == 0 and x or x + low
end)

for name, type_name in pairs { random_normal = 'RandomStandardNormal', truncated_normal = 'TruncatedNormal' } do
  def(name, { 'shape', 'mean', 'stddev' }, { 'dtype', 'seed' }, function(o)
    required(name, o, 'shape')
    local x = op(type_name, { random_shape(o.shape) }, { dtype = o.dtype or 'float32', seed = o.seed, name = o.name })
    if o.stddev ~= nil and o.stddev ~= 1 then x = x * o.stddev end
    if o.mean ~= nil and o.mean ~= 0 then x = x + o.mean end
    return x
  end)
end

-- ---- side effects -----------------------------------------------------------------------------------------------------------
--- df.print(x, {message=, summarize=}) or df.print(x, {a, b}, {message=}): x, and a line on standard error.
def('print', { 'x', 'data' }, { 'message', 'summarize', 'first_n' }, function(o)
  required('print', o, 'x')
  local data = o.data
  if data == nil then data = { o.x } elseif getmetatable(data) ~= nil or type(data) ~= 'table' then data = { data } end
  local x = to_output(o.x, nil, nil, 'print')
  if o.data == nil then data = { x } end
  return op('Print', { x, data }, { message = o.message, summarize = o.summarize, first_n = o.first_n, name = o.name })
end)

def('assert', { 'condition', 'data' }, { 'message', 'summarize' }, function(o)
  required('assert', o, 'condition')
  local data = o.data or {}
  if getmetatable(data) ~= nil or type(data) ~= 'table' then data = { data } end
  return op('Assert', { o.condition, data }, { message = o.message, summarize = o.summarize, name = o.name })
end)

--- df.group(a, b, ...) or df.group{a, b}: an operation that runs when all of these have.
function functions.group(...)
  local list = { ... }
  if #list == 1 and nest.is_plain(list[1]) then list = list[1] end
  local members = {}
  for _, x in ipairs(list) do
    if nest.is_plain(x) then
      for _, y in ipairs((nest.flatten(x))) do members[#members + 1] = y end
    else
      members[#members + 1] = x
    end
  end
  return graph.control_dependencies(members, function() return functions.no_op() end)
end

function functions.no_op()
  local g = convert.graph_of(graph.current()) or graph.current()
  core.node_begin(g.handle, registry.need('NoOp').id, core.where())
  return graph.operation(g, core.node_end(g.handle))
end

-- ---- finding functions ------------------------------------------------------------------------------------------------------
functions.divide = functions.div
local aliases = { lt = 'less', le = 'less_equal', gt = 'greater', ge = 'greater_equal', eq = 'equal', ne = 'not_equal',
                  neg = 'negative', multiply = 'mul', subtract = 'sub', mod = 'floormod', floor_mod = 'floormod', floor_div = 'floordiv',
                  reverse_v2 = 'reverse',
                  negative = 'neg', mul = 'multiply', sub = 'subtract', floormod = 'floor_mod', floordiv = 'floor_div',
                  batch_matmul = 'matmul', logsumexp = 'reduce_logsumexp' }

M.aliases = aliases

--- The function of this name, or nil: an adapter, a registry entry, or an alias of one.
function M.find(name)
  local f = rawget(functions, name)
  if f then return f end
  local e = registry.entry(name)
  if e and e.lua == name then
    f = registry.make(e)
  else
    local other = aliases[name]
    if other then
      e = registry.entry(other)
      f = rawget(functions, other) or (e and e.lua == other and registry.make(e)) or nil
    end
  end
  functions[name] = f
  return f
end

setmetatable(functions, { __index = function(_, name) return M.find(name) end })

--- Names of all functions, sorted.
function M.names()
  local seen, list = {}, {}
  local function add(name)
    if not seen[name] then
      seen[name] = true
      list[#list + 1] = name
    end
  end
  for name in pairs(functions) do add(name) end
  for _, name in ipairs(registry.names()) do add(name) end
  table.sort(list)
  return list
end

-- ---- methods, operators and indexing ----------------------------------------------------------------------------------------
--- What a metatable of something usable as an Output gets: __add and so on, which build nodes.
function M.operators(mt)
  local function call(name)
    local f
    return function(a, b)
      f = f or functions[name]
      return f(a, b)
    end
  end
  local function logical(on_bool, on_int)
    return function(a, b)
      local d = typed(a) or typed(b)
      return functions[(d == dtypes.BOOL or not d) and on_bool or on_int](a, b)
    end
  end
  mt.__add, mt.__sub, mt.__mul, mt.__pow = call 'add', call 'sub', call 'mul', call 'pow'
  mt.__div, mt.__mod, mt.__idiv = call 'div', call 'floormod', call 'floordiv'
  mt.__band, mt.__bor, mt.__bxor = logical('logical_and', 'bitwise_and'), logical('logical_or', 'bitwise_or'), logical('logical_xor', 'bitwise_xor')
  mt.__unm = function(a) return functions.neg(a) end
  mt.__bnot = function(a) return functions[typed(a) == dtypes.BOOL and 'logical_not' or 'invert'](a) end
end

--- x[i]: element i along axis 0, for a number or a scalar Output.
function M.element(x, i)
  local shape = x.shape
  if shape and #shape == 0 then errors.bad('x[i] of a scalar: %s has no axis to index', x.name) end
  if type(i) ~= 'number' then
    local mt = type(i) == 'table' and getmetatable(i)
    if not mt then
      errors.bad('x[i] takes a number or a scalar Output, not %s; x:gather, x:slice and x:strided_slice take lists', errors.describe(i))
    end
    return functions.gather(x, i)
  end
  if not dtypes.is_whole(i) then errors.bad('x[%s]: an index is a whole number', tostring(i)) end
  local n = shape and shape[1] or -1
  if n >= 0 and (i >= n or i < -n) then
    errors.raise('out_of_range', 'x[%d] is past the end of axis 0 of %s %s; to go over the rows in Lua write ipairs(df.unstack(x))',
                 i, x.name, tensor.shape_text(x.dtype, shape))
  end
  return op('StridedSlice', { x, { i }, { i == -1 and 0 or i + 1 }, { 1 } }, { shrink_axis_mask = 1, end_mask = i == -1 and 1 or nil })
end

-- Ops that are functions only, because an Output has a field of that name or a method would mislead.
local no_method = { shape = true, dtype = true, name = true, op = true, index = true, graph = true, rank = true, size = true,
                    constant = true, placeholder = true, zeros = true, ones = true, range = true, d = true, read = true, node = true }

function M.find_method(name)
  if no_method[name] then return nil end
  local f = functions[name]
  if f then graph.methods[name] = f end
  return f
end

graph.hooks.find_method = M.find_method
graph.hooks.element = M.element
graph.hooks.names = M.names
M.operators(Output)

function graph.methods.set_shape(x, shape)
  core.output_set_shape(x.graph.handle, x.node, x.index, shape)
  return x
end

return M
