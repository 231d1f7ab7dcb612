--- ONNX's operators in dflow's words: arithmetic, shapes and indices. Those of neural networks are in import_nn.lua.
--
-- An entry is fn(n, …inputs), called while the graph is built; it returns the outputs, or a list of them. n.attr(name,
-- default) is an attribute, n.opset the version of the operators, n.count the number of outputs, n:refuse(why) an error
-- that names the node.
local df = require 'dflow'
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local registry = require 'dflow.front.registry'
local tensor = require 'dflow.front.tensor'
local read = require 'dflow.exchange.onnx.read'
local proto = require 'dflow.exchange.onnx.proto'
local narrow = require 'dflow.exchange.onnx.narrow'
local dtypes = require 'dflow.front.dtypes'
local layout = require 'dflow.exchange.onnx.layout'

local ops, help = {}, {}
local unpack = table.unpack or unpack

-- ---- what is known ------------------------------------------------------------------------------------------------
--- The numbers of an output that is known while the graph is built, as a flat list; else nil.
function help.known(x)
  local t = x and core.output_constant(x.graph.handle, x.node, x.index)
  if not t then return nil end
  local list = t:list()
  for i, v in ipairs(list) do list[i] = tonumber(v) or v end
  return list
end

function help.rank(n, x)
  local shape = x.shape
  if not shape then n:refuse('the rank of its input is known only when it runs') end
  return #shape
end

--- x, of which the operator says the rank where nothing else does; the run checks it.
function help.of_rank(x, rank)
  if x.shape then return x end
  local any = {}
  for d = 1, rank do any[d] = -1 end
  return df.ensure_shape(x, any)
end

--- The axis of x that the attribute says, counted from 0; from the end where the rank is known only when it runs.
function help.axis_in(n, x, default)
  local axis = n.attr('axis', default)
  return x.shape and help.axis(n, axis, #x.shape) or axis
end

--- The axis, counted from 0.
function help.axis(n, axis, rank)
  if axis < -rank or axis >= math.max(rank, 1) then n:refuse(('its axis is %d, of %d'):format(axis, rank)) end
  return axis < 0 and axis + rank or axis
end

function help.axes(n, list, rank)
  local out = {}
  for i, a in ipairs(list) do out[i] = help.axis(n, a, rank) end
  return out
end

function help.ints(n, x, what)
  local list = help.known(x)
  return list or n:refuse(('its %s are known only when it runs'):format(what))
end

function help.int64(x) return df.cast(x, 'int64') end
function help.vector(list, d) return df.constant(list, d or 'int64', { #list }) end
function help.same(x, v) return df.constant(v, x.dtype) end

--- Indices that count from the end too, from 0 on. `dim`: an int32 scalar, or a vector of as many as one index names.
local function from_zero(i, dim)
  return df.select_v2(df.less(i, help.same(i, 0)), i + df.cast(dim, i.dtype), i)
end

--- `base`, one number (or row) for each of `rank` axes, with `values` at those that `axes` names, which are known only
-- when it runs.
function help.spread(base, axes, values, rank)
  axes = from_zero(df.cast(axes, 'int32'), df.int32(rank))
  return df.tensor_scatter_update(base, df.expand_dims(axes, 1), values)
end
--- Which of `rank` axes `axes` names: int32[rank] of 1 and 0.
local function named(axes, rank)
  return help.spread(df.zeros({ rank }, 'int32'), axes, df.ones_like(df.cast(axes, 'int32')), rank)
end

local known, rank_of, axis_of, axes_of, vector, same = help.known, help.rank, help.axis, help.axes, help.vector,
  help.same
local is_int = { int8 = true, int16 = true, int32 = true, int64 = true, uint8 = true, uint16 = true, uint32 = true,
                 uint64 = true }

-- ---- one and two inputs ---------------------------------------------------------------------------------------------
--- Those that an entry names as its own (`.onnx`).
for op = 0, core.op_count() - 1 do
  local onnx, ours = core.op_about(op, 'onnx'), core.op_info(op).lua
  if onnx and ours then ops[onnx] = function(n, a, b) return df[ours](a, b and n.align(a, b)) end end
end
function ops.Identity(_, x) return df.identity(x) end
function ops.Div(n, a, b) return is_int[a.dtype] and df.truncatediv(a, n.align(a, b)) or df.divide(a, n.align(a, b)) end
function ops.Mod(n, a, b) return n.attr('fmod', 0) == 1 and df.truncatemod(a, b) or df.floor_mod(a, b) end
function ops.Pow(_, a, b)
  if a.dtype == b.dtype then return df.pow(a, b) end
  local wide = is_int[a.dtype] and 'float64' or a.dtype
  return df.cast(df.pow(df.cast(a, wide), df.cast(b, wide)), a.dtype)
end
--- A shift by no fewer bits than there are, or by a negative number, leaves nothing: 0, or the sign that a right shift
-- draws in.
function ops.BitShift(n, a, b)
  local bits = tonumber(a.dtype:match '%d+')
  local over, most = df.logical_or(df.less(b, same(b, 0)), df.greater_equal(b, same(b, bits))), same(b, bits - 1)
  b = df.select_v2(over, most, b)
  if n.attr 'direction' == 'LEFT' then return df.select_v2(over, same(a, 0), df.left_shift(a, b)) end
  local right = df.right_shift(a, b)
  return a.dtype:find '^u' and df.select_v2(over, same(a, 0), right) or right
end
function ops.IsInf(n, x)
  local up, down = n.attr('detect_positive', 1) == 1, n.attr('detect_negative', 1) == 1
  local inf = df.is_inf(x)
  if up and down then return inf end
  if not up and not down then return df.zeros_like(inf) end
  return df.logical_and(inf, up and df.greater(x, same(x, 0)) or df.less(x, same(x, 0)))
end

--- Of any number of inputs.
local function fold(ours)
  return function(_, x, ...)
    for i = 1, select('#', ...) do x = df[ours](x, (select(i, ...))) end
    return x
  end
end
ops.Max, ops.Min, ops.Sum = fold 'maximum', fold 'minimum', fold 'add'
function ops.Mean(n, ...) return ops.Sum(n, ...) / select('#', ...) end
function ops.Clip(n, x, low, high)
  if n.opset < 11 then
    low, high = n.attr 'min', n.attr 'max'
    low, high = low and same(x, low), high and same(x, high)
  end
  if low then x = df.maximum(x, low) end
  return high and df.minimum(x, high) or df.identity(x)
end
function ops.Where(_, c, a, b) return df.select_v2(c, a, b) end

-- ---- values and dtypes ----------------------------------------------------------------------------------------------
function ops.Constant(n)
  local t = n.attr 'value'
  if t then return df.constant(read.tensor(t, 'the value of ' .. n.name)) end
  for _, a in ipairs{ { 'value_float', 'float32' }, { 'value_floats', 'float32', true }, { 'value_int', 'int64' },
                      { 'value_ints', 'int64', true },
                      { 'value_string', 'string' }, { 'value_strings', 'string', true } } do
    local v = n.attr(a[1])
    if v ~= nil then return a[3] and vector(v, a[2]) or df.constant(v, a[2]) end
  end
  n:refuse 'it has no value'
end
function ops.ConstantOfShape(n, shape)
  local t = n.attr 'value'
  local value = t and df.constant(read.tensor(t, 'the value of ' .. n.name)):reshape(vector({}, 'int32'))
    or df.float32(0)
  return df.fill(df.cast(shape, 'int32'), value)
end
--- A number with as few digits as it takes to read it back.
local function as_text(x)
  if x.dtype ~= 'float32' and x.dtype ~= 'float64' then return df.as_string(x) end
  local most = x.dtype == 'float32' and 9 or 17
  local function with(digits) return df.as_string(x, { precision = digits, shortest = true }) end
  local text = with(most)
  for digits = most - 1, most - 3, -1 do
    local shorter = with(digits)
    text = df.select_v2(df.equal(df.string_to_number(shorter, { out_type = x.dtype }), x), shorter, text)
  end
  return text
end
local function cast(n, x, to)
  local d = read.dtype_of(to) or n:refuse(('dflow has not the type %s'):format(tostring(to)))
  if narrow.kinds[to] then return narrow.cast(n, x, to, n.attr('saturate', 1) == 1) end
  if d == x.dtype then return df.identity(x) end
  if d == 'string' then return as_text(x) end
  if x.dtype == 'string' then return df.cast(df.string_to_number(x, { out_type = 'float64' }), d) end
  return df.cast(x, d)
end
function ops.Cast(n, x)
  return cast(n, x, n.attr 'to')
end
function ops.CastLike(n, x, like) return cast(n, x, narrow.kind(n, like) or proto.dtype[dtypes.number[like.dtype]]) end

-- ---- shapes ---------------------------------------------------------------------------------------------------------
function ops.Shape(n, x)
  local shape, first, last = df.cast(df.shape(x), 'int64'), n.attr('start', 0), n.attr 'end'
  if first == 0 and not last then return shape end
  local rank = rank_of(n, x)
  local function clamp(v) return math.max(0, math.min(rank, v < 0 and v + rank or v)) end
  local from, to = clamp(first), clamp(last or rank)
  return shape:slice({ from }, { math.max(to - from, 0) })
end
function ops.Size(_, x) return df.cast(df.size(x), 'int64') end
function ops.Reshape(n, x, shape)
  shape = shape or vector(n.attr 'shape')
  local list = known(shape)
  if n.attr('allowzero', 0) == 1 then return df.reshape(x, shape) end
  if list then
    local dims, all, static = {}, true, x.shape
    for i, v in ipairs(list) do
      dims[i] = v
      if v == 0 then
        if not static or not static[i] or static[i] < 0 then all = false else dims[i] = static[i] end
      end
    end
    if all then return df.reshape(x, vector(dims, 'int32')) end
  end
  local count = shape.shape and shape.shape[1] or -1
  local own = df.cast(df.shape(x), 'int64')
  local padded = df.concat({ own, vector{ 0 } }, 0)
  own = df.gather(padded, df.minimum(df.range(0, count < 0 and df.size(shape) or count), df.size(own)))
  return df.reshape(x, df.select_v2(df.equal(shape, same(shape, 0)), own, shape))
end
function ops.Flatten(n, x)
  local rank, axis = rank_of(n, x), n.attr('axis', 1)
  if axis < 0 then axis = axis + rank end
  local dims, known_first = x.shape, 1
  for i = 1, axis do known_first = dims[i] < 0 and -1 or known_first < 0 and -1 or known_first * dims[i] end
  if known_first >= 0 then
    local rest = 1
    for i = axis + 1, rank do rest = (dims[i] < 0 or rest < 0) and -1 or rest * dims[i] end
    return df.reshape(x, { known_first, rest >= 0 and rest or -1 })
  end
  local shape = df.shape(x)
  return df.reshape(x, df.stack{ df.reduce_prod(shape:slice({ 0 }, { axis })),
      df.reduce_prod(shape:slice({ axis }, { rank - axis })) })
end
function ops.Squeeze(n, x, axes)
  local list = axes and known(axes) or n.attr 'axes'
  if axes and not list then
    local rank, count = rank_of(n, x), axes.shape and axes.shape[1] or -1
    local shape = df.gather(df.shape(x), df.reshape(df.where(df.equal(named(axes, rank), 0)), { -1 }))
    if count > 0 then shape = df.reshape(shape, { rank - count }) end
    return df.reshape(x, shape)
  end
  if list and #list == 0 then return df.identity(x) end
  return list and df.squeeze(x, { axis = x.shape and axes_of(n, list, #x.shape) or list }) or df.squeeze(x)
end
function ops.Unsqueeze(n, x, axes)
  local list = axes and known(axes) or n.attr 'axes'
  if axes and not list then
    local count = axes.shape and axes.shape[1] or -1
    if count < 0 then n:refuse 'the rank of its result is known only when it runs' end
    local new = named(axes, rank_of(n, x) + count)
    local own = df.gather(df.concat({ vector({ 1 }, 'int32'), df.shape(x), vector({ 1 }, 'int32') }, 0),
                          df.cumsum(1 - new, 0))
    return df.reshape(x, df.select_v2(df.equal(new, 1), df.ones_like(new), own))
  end
  -- Those that count from the end are put in after the others, the last first: so each stands where it says, whatever
  -- the rank is.
  list = x.shape and axes_of(n, list, #x.shape + #list) or list
  table.sort(list, function(a, b) return (a < 0) == (b < 0) and (a < b) == (a >= 0) or (a >= 0 and b < 0) end)
  for _, a in ipairs(list) do x = df.expand_dims(x, a) end
  return x
end
function ops.Transpose(n, x)
  local perm = n.attr 'perm'
  return perm and df.transpose(x, perm) or df.transpose(x)
end
function ops.Concat(n, ...)
  local list = { ... }
  return #list == 1 and df.identity(list[1]) or df.concat(list, n.attr('axis', 1))
end
--- Where the dimension is known only when it runs.
local function split_late(x, axis, parts, count)
  local dim = df.dim(x, axis)
  local each = -df.floor_div(-dim, df.int32(parts))
  local left = dim - df.range(parts) * each
  return df.split_v(x, df.maximum(0, df.minimum(each, left)), axis, { num_split = count })
end
function ops.Split(n, x, sizes)
  local axis = help.axis_in(n, x, 0)
  local list = sizes and known(sizes) or n.attr 'split'
  if sizes and not list then return df.split_v(x, df.cast(sizes, 'int32'), axis, { num_split = n.count }) end
  if not list then
    local dim, parts = x.shape and x.shape[axis % #x.shape + 1] or -1, n.attr('num_outputs', n.count)
    -- Equal parts, but for the last: they are split when it runs.
    if dim < 0 then return split_late(x, axis, parts, n.count) end
    local each = math.ceil(dim / parts)
    list = {}
    for i = 1, parts do list[i] = math.max(0, math.min(each, dim - (i - 1) * each)) end
  end
  return df.split_v(x, vector(list, 'int32'), axis, { num_split = #list })
end
function ops.Expand(_, x, shape)
  return df.broadcast_to(x, df.broadcast_dynamic_shape(df.cast(df.shape(x), 'int32'), df.cast(shape, 'int32')))
end
function ops.Tile(_, x, repeats) return df.tile(x, df.cast(repeats, 'int32')) end

--- A number that an int32 holds.
local function clamp(v) return math.max(-2147483648, math.min(2147483647, v)) end
function ops.Slice(n, x, starts, ends, axes, steps)
  if n.opset < 10 then
    starts, ends = vector(n.attr 'starts'), vector(n.attr 'ends')
    axes = n.attr 'axes' and vector(n.attr 'axes')
  end
  local count = starts.shape and starts.shape[1] or -1
  local list = axes and known(axes)
  -- Of an unknown rank what lies behind the axes that are named stays as it is.
  local rank = not x.shape and list and math.min(unpack(list)) >= 0 and math.max(unpack(list)) + 1 or rank_of(n, x)
  if not axes and count < 0 then axes = df.range(df.size(starts)) end
  if axes and not list then
    local function at(v) return df.cast(df.clip_by_value(v, same(v, -2147483648), same(v, 2147483647)), 'int32') end
    local one = df.ones({ rank }, 'int32')
    return df.strided_slice(x, help.spread(df.zeros({ rank }, 'int32'), axes, at(starts), rank),
                            help.spread(df.shape(x), axes, at(ends), rank),
                            steps and help.spread(one, axes, at(steps), rank) or one)
  end
  if not list then
    list = {}
    for i = 1, count do list[i] = i - 1 end
  end
  local s, e, t = known(starts), known(ends), steps and known(steps)
  local begin, stop, stride, mask = {}, {}, {}, 0
  for d = 1, rank do begin[d], stop[d], stride[d] = 0, 0, 1 end
  local dynamic = not s or not e or (steps and not t)
  local untouched = {}
  for i, a in ipairs(list) do
    local d = axis_of(n, a, rank) + 1
    untouched[d] = true
    begin[d] = s and clamp(s[i]) or df.cast(starts[i - 1], 'int32')
    stop[d] = e and clamp(e[i])
      or df.cast(df.clip_by_value(ends[i - 1], same(ends, -2147483648), same(ends, 2147483647)), 'int32')
    stride[d] = t and t[i] or steps and df.cast(steps[i - 1], 'int32') or 1
  end
  for d = 1, rank do if not untouched[d] then mask = mask + 2 ^ (d - 1) end end
  local function all(values)
    if not dynamic then return vector(values, 'int32') end
    for i, v in ipairs(values) do if type(v) == 'number' then values[i] = df.int32(v) end end
    return df.stack(values)
  end
  return df.strided_slice(x, all(begin), all(stop), all(stride), { begin_mask = mask, end_mask = mask })
end

-- ---- indices --------------------------------------------------------------------------------------------------------
function ops.Gather(n, x, i)
  local axis = help.axis_in(n, x, 0)
  return df.gather(x, from_zero(i, df.dim(x, axis)), { axis = axis })
end

--- The places that elements of `i` name along the axis: int32[…, rank].
local function places(n, x, i, axis)
  local rank, parts = rank_of(n, x), {}
  i = df.cast(i, 'int32')
  for d = 0, rank - 1 do
    if d == axis then
      parts[d + 1] = from_zero(i, df.dim(x, d))
    else
      local dims = {}
      for k = 1, rank do dims[k] = k == d + 1 and -1 or 1 end
      parts[d + 1] = df.zeros_like(i) + df.reshape(df.range(0, df.dim(i, d)), dims)
    end
  end
  return df.stack(parts, { axis = -1 })
end
function ops.GatherElements(n, x, i)
  return df.gather_nd(x, places(n, x, i, axis_of(n, n.attr('axis', 0), rank_of(n, x))))
end

local scatters = { none = 'tensor_scatter_update', add = 'tensor_scatter_add' }
local function scatter(n, x, at, updates)
  local how = n.attr('reduction', 'none')
  if how == 'max' or how == 'min' then
    return registry.op(how == 'max' and 'TensorScatterMax' or 'TensorScatterMin', { x, at, updates }, {})
  end
  return df[scatters[how] or n:refuse(('dflow has no scatter with the reduction %s'):format(how))](x, at, updates)
end
function ops.ScatterElements(n, x, i, updates)
  return scatter(n, x, places(n, x, i, axis_of(n, n.attr('axis', 0), rank_of(n, x))), updates)
end
ops.Scatter = ops.ScatterElements

--- Places with indices from the end, from 0 on.
local function positive(n, x, at, batch)
  local depth = at.shape and at.shape[#at.shape] or -1
  if depth < 0 then n:refuse 'the depth of its indices is known only when it runs' end
  return from_zero(at, df.shape(x):slice({ batch or 0 }, { depth }))
end
function ops.ScatterND(n, x, at, updates) return scatter(n, x, positive(n, x, at), updates) end
function ops.GatherND(n, x, at)
  local batch = n.attr('batch_dims', 0)
  at = positive(n, x, at, batch)
  if batch == 0 then return df.gather_nd(x, at) end
  local rank, parts = rank_of(n, at), {}
  at = df.cast(at, 'int32')
  local shape = df.concat({ df.shape(at):slice({ 0 }, { rank - 1 }), vector({ 1 }, 'int32') }, 0)
  for d = 0, batch - 1 do
    local dims = {}
    for k = 1, rank do dims[k] = k == d + 1 and -1 or 1 end
    parts[d + 1] = df.zeros(shape, 'int32') + df.reshape(df.range(0, df.dim(at, d)), dims)
  end
  parts[#parts + 1] = at
  return df.gather_nd(x, df.concat(parts, rank - 1))
end
function ops.OneHot(n, i, depth, values)
  i = df.cast(i, 'int64')
  depth = df.cast(df.reshape(depth, vector({}, 'int32')), 'int32')
  i = from_zero(i, depth)
  local axis, rank = n.attr('axis', -1), rank_of(n, i) + 1
  axis = axis_of(n, axis, rank)
  return df.one_hot(i, depth, { on_value = values[1], off_value = values[0], axis = axis == rank - 1 and -1 or axis })
end
function ops.NonZero(_, x)
  if x.dtype ~= 'bool' then x = df.not_equal(x, same(x, 0)) end
  return df.transpose(df.where(x))
end
function ops.Compress(n, x, mask)
  local axis = n.attr 'axis'
  if not axis then x, axis = df.reshape(x, { -1 }), 0 end
  return df.gather(x, df.reshape(df.where(mask), { -1 }), { axis = axis_of(n, axis, rank_of(n, x)) })
end
function ops.Unique(n, x)
  if n.attr 'axis' then n:refuse 'it has an axis' end
  local y, back, counts = df.unique_with_counts(df.reshape(x, { -1 }), { out_idx = 'int64' })
  local places_of = df.range(0, df.size(x))
  local first = df.cast(df.unsorted_segment_min(places_of, back, df.size(y)), 'int64')
  if n.attr('sorted', 1) == 0 then return { y, first, back, counts } end
  local order = df.argsort(y)
  back = df.gather(df.cast(df.invert_permutation(order), 'int64'), back)
  return { df.gather(y, order), df.gather(first, order), back, df.gather(counts, order) }
end
function ops.Range(_, first, last, step)
  local none = vector({}, 'int32')                     -- some write vectors of one number
  first, last, step = df.reshape(first, none), df.reshape(last, none), df.reshape(step, none)
  local d = first.dtype
  local wide = (d == 'float16' or d == 'bfloat16') and 'float32' or d == 'int16' and 'int32'
  if not wide then return df.range(first, last, step) end
  return df.cast(df.range(df.cast(first, wide), df.cast(last, wide), df.cast(step, wide)), d)
end
function ops.EyeLike(n, x)
  local d = n.attr 'dtype'
  local k, shape = n.attr('k', 0), df.shape(x)
  local rows = df.reshape(df.range(0, shape[0]), { -1, 1 }) + k
  return df.cast(df.equal(rows, df.reshape(df.range(0, shape[1]), { 1, -1 })), d and dtypes.name[read.dtype[d]]
                 or x.dtype)
end
function ops.Trilu(n, x, k)
  local rank, by = rank_of(n, x), k and df.cast(df.reshape(k, vector({}, 'int32')), 'int32') or df.int32(0)
  local rows = df.reshape(df.range(0, df.dim(x, rank - 2)), { -1, 1 }) + by
  local columns = df.reshape(df.range(0, df.dim(x, rank - 1)), { 1, -1 })
  local keep = n.attr('upper', 1) == 1 and df.greater_equal(columns, rows) or df.less_equal(columns, rows)
  return df.select_v2(keep, x, df.zeros_like(x))
end

-- ---- along axes -----------------------------------------------------------------------------------------------------
local function reduction(ours, before, after)
  return function(n, x, axes)
    local list = axes and known(axes) or n.attr 'axes'
    local keep = n.attr('keepdims', 1) == 1
    -- known when it runs; none of them means all, or nothing at all
    if axes and not list then
      local count = axes.shape and axes.shape[1] or -1
      if count < 0 then n:refuse 'the number of its axes is known only when it runs' end
      if count > 0 then
        x = df[ours](before and before(x) or x, { axis = df.cast(axes, 'int32'), keep_dims = keep })
        return after and after(x) or x
      end
    end
    if (not list or #list == 0) and n.attr('noop_with_empty_axes', 0) == 1 then
      return after and after(before and before(x) or x) or before and before(x) or df.identity(x)
    end
    if before then x = before(x) end
    local opts = { keep_dims = keep }
    if list and #list > 0 then opts.axis = vector(list, 'int32') end
    x = df[ours](x, opts)
    return after and after(x) or x
  end
end
ops.ReduceSum, ops.ReduceProd, ops.ReduceMean = reduction 'reduce_sum', reduction 'reduce_prod', reduction 'reduce_mean'
ops.ReduceL1, ops.ReduceSumSquare = reduction('reduce_sum', df.abs), reduction('reduce_sum', df.square)
ops.ReduceL2, ops.ReduceLogSum = reduction('reduce_sum', df.square, df.sqrt), reduction('reduce_sum', nil, df.log)
ops.ReduceLogSumExp = reduction 'reduce_logsumexp'
local function extreme(ours, logical)
  local plain, yes_no = reduction(ours), reduction(logical)
  return function(n, x, ...) return (x.dtype == 'bool' and yes_no or plain)(n, x, ...) end
end
ops.ReduceMax, ops.ReduceMin = extreme('reduce_max', 'reduce_any'), extreme('reduce_min', 'reduce_all')

local function arg(ours)
  return function(n, x)
    local rank = rank_of(n, x)
    local axis = axis_of(n, n.attr('axis', 0), rank)
    local last = n.attr('select_last_index', 0) == 1
    if last then x = df.reverse(x, { axis }) end
    local i = df[ours](x, axis)
    if last then i = df.cast(df.dim(x, axis), 'int64') - 1 - df.cast(i, 'int64') end
    i = df.cast(i, 'int64')
    return n.attr('keepdims', 1) == 1 and df.expand_dims(i, axis) or i
  end
end
ops.ArgMax, ops.ArgMin = arg 'argmax', arg 'argmin'
function ops.CumSum(n, x, axis)
  return df.cumsum(x, df.cast(df.reshape(axis, vector({}, 'int32')), 'int32'),
                   { exclusive = n.attr('exclusive', 0) == 1, reverse = n.attr('reverse', 0) == 1 })
end
function ops.TopK(n, x, k)
  local rank = rank_of(n, x)
  local axis = axis_of(n, n.attr('axis', -1), rank)
  local turn = {}
  for d = 0, rank - 1 do turn[d + 1] = d end
  turn[axis + 1], turn[rank] = rank - 1, axis
  local back = axis ~= rank - 1
  if back then x = df.transpose(x, turn) end
  local smallest = n.attr('largest', 1) == 0
  k = k and df.cast(df.reshape(k, vector({}, 'int32')), 'int32') or df.int32(n.attr 'k')
  local values, i = registry.op('TopKV2', { smallest and df.negative(x) or x, k }, {})
  if errors.is_data(values) then values, i = values[1], values[2] end
  if smallest then values = df.negative(values) end
  if back then values, i = df.transpose(values, turn), df.transpose(i, turn) end
  return { values, df.cast(i, 'int64') }
end
function ops.ReverseSequence(n, x, lengths)
  return df.reverse_sequence(x, lengths, { seq_dim = n.attr('time_axis', 0), batch_dim = n.attr('batch_axis', 1) })
end
function ops.Hardmax(n, x)
  local axis = axis_of(n, n.attr('axis', n.opset >= 13 and -1 or 1), rank_of(n, x))
  return df.one_hot(df.argmax(x, axis), df.dim(x, axis), { axis = axis, on_value = same(x, 1), off_value = same(x, 0) })
end

-- ---- products -------------------------------------------------------------------------------------------------------
function ops.MatMul(n, a, b)
  -- Of an unknown rank is a matrix, or more of them; a vector then is an error of the run.
  local ra, rb = a.shape and #a.shape or 3, b.shape and #b.shape or 3
  if ra == 2 and rb == 2 then return df.matmul(a, b) end
  local x, y = ra == 1 and df.expand_dims(a, 0) or a, rb == 1 and df.expand_dims(b, -1) or b
  local product = registry.op('BatchMatMulV2', { x, y }, {})
  if ra == 1 then product = df.squeeze(product, { axis = { rb == 1 and -2 or -2 } }) end
  return rb == 1 and df.squeeze(product, { axis = { -1 } }) or product
end
function ops.Gemm(n, a, b, c)
  local y = df.matmul(a, b, { transpose_a = n.attr('transA', 0) == 1, transpose_b = n.attr('transB', 0) == 1 })
  local alpha, beta = n.attr('alpha', 1), n.attr('beta', 1)
  if alpha ~= 1 then y = y * same(y, alpha) end
  if not c then return y end
  return y + (beta ~= 1 and c * same(c, beta) or c)
end
function ops.Einsum(n, ...) return df.einsum((n.attr 'equation':gsub('%s', '')), { ... }) end
function ops.Det(_, x) return registry.op('MatrixDeterminant', { x }, {}) end
--- A matrix of bytes as the quantised dtype that has its integers, and the range in which `zero` stands for 0 and each
-- stands for one more.
function help.quantised(v, zero)
  local signed = v.dtype == 'int8'
  local low = df.float32(signed and -128 or 0)
  if zero then low = low - df.cast(zero, 'float32') end
  return layout.folded(function(x) return df.cast(x, signed and 'qint8' or 'quint8') end, v), low, low + 255
end
function ops.MatMulInteger(n, a, b, za, zb)
  local function one(z) return not z or rank_of(n, z) == 0 end
  local rank = rank_of(n, a)
  if rank >= 2 and rank_of(n, b) == 2 and one(za) and one(zb) then
    local rows = rank > 2 and df.reshape(a, df.stack{ -1, df.dim(b, 0) }) or a
    local x, low_a, high_a = help.quantised(rows, za)
    local y, low_b, high_b = help.quantised(b, zb)
    local product = df.cast((df.quantized_matmul(x, y, low_a, high_a, low_b, high_b)), 'int32')
    if rank == 2 then return product end
    return df.reshape(product,
                      df.concat({ df.slice(df.shape(a), { 0 }, { rank - 1 }), df.expand_dims(df.dim(b, 1), 0) }, 0))
  end
  local x, y = df.cast(a, 'int32'), df.cast(b, 'int32')
  if za then x = x - df.cast(#(za.shape or {}) == 1 and df.expand_dims(za, -1) or za, 'int32') end
  if zb then y = y - df.cast(zb, 'int32') end
  return ops.MatMul(n, x, y)
end

-- ---- text -----------------------------------------------------------------------------------------------------------
function ops.StringConcat(_, a, b)
  local shape = df.broadcast_dynamic_shape(df.shape(a), df.shape(b))
  return df.string_join{ df.broadcast_to(a, shape), df.broadcast_to(b, shape) }
end

help.tensor = tensor
return { ops = ops, help = help }
