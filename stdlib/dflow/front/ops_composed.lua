--- What TensorFlow 1 has as functions and not as ops: made of ops, under its names.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local convert = require 'dflow.front.convert'
local registry = require 'dflow.front.registry'
local arguments = require 'dflow.front.arguments'

local f, def, required = arguments.functions, arguments.def, arguments.required
local op, to_output, typed = registry.op, convert.to_output, convert.typed

--- The operands x and y of a comparison as Outputs of one dtype.
local function operands(name, o)
  required(name, o, 'x', 'y')
  local d = typed(o.x) or typed(o.y)
  local g = convert.graph_of(o.x) or convert.graph_of(o.y)
  return to_output(o.x, d, g, name), to_output(o.y, d, g, name)
end

-- ---- assertions: each is an operation that stops the run ------------------------------------------------------------

local told = { 'message', 'data', 'summarize' }

--- Stops the run where `ok` is not all true; data is told then, x and y unless it is given.
local function demand(name, o, ok, text, ...)
  local data = o.data
  if data == nil then data = { ... } end
  return f.assert(f.reduce_all(ok), data, { message = (o.message and o.message .. ': ' or '') .. name .. ': ' .. text,
                                            summarize = o.summarize, name = o.name })
end

for name, how in pairs{
  assert_equal = { 'equal', 'x == y' }, assert_none_equal = { 'not_equal', 'x ~= y' },
  assert_less = { 'less', 'x < y' }, assert_less_equal = { 'less_equal', 'x <= y' },
  assert_greater = { 'greater', 'x > y' }, assert_greater_equal = { 'greater_equal', 'x >= y' },
} do
  def(name, { 'x', 'y' }, told, function(o)
    local x, y = operands(name, o)
    return demand(name, o, f[how[1]](x, y), how[2] .. ' does not hold for every element', x, y)
  end)
end

for name, how in pairs{
  assert_positive = { 'greater', 'x > 0' }, assert_negative = { 'less', 'x < 0' },
  assert_non_negative = { 'greater_equal', 'x >= 0' }, assert_non_positive = { 'less_equal', 'x <= 0' },
} do
  def(name, { 'x' }, told, function(o)
    required(name, o, 'x')
    local x = to_output(o.x, nil, nil, name)
    return demand(name, o, f[how[1]](x, f.zeros_like(x)), how[2] .. ' does not hold for every element', x)
  end)
end

--- |x - y| <= atol + rtol * |y|; both tolerances are ten times the least step at 1 unless they are given.
local step = { float16 = 2 ^ -10, bfloat16 = 2 ^ -7, float32 = 2 ^ -23, float64 = 2 ^ -52 }
def('assert_near', { 'x', 'y', 'rtol', 'atol' }, told, function(o)
  local x, y = operands('assert_near', o)
  local least = 10 * (step[x.dtype] or 0)
  local limit = f.abs(y) * (o.rtol or least) + (o.atol or least)
  return demand('assert_near', o, f.less_equal(f.abs(x - y), limit), 'x and y are not near each other', x, y)
end)

--- One that holds while the graph is built, or is asked when it runs, where the rank is not known before.
local function demand_rank(name, o, text, holds, asked)
  required(name, o, 'x', 'rank')
  local x = to_output(o.x, nil, nil, name)
  if type(o.rank) ~= 'number' or not dtypes.is_whole(o.rank) then
    errors.bad('%s: rank is %s, a whole number is expected', name, errors.describe(o.rank))
  end
  local rank = graph.rank(x)
  if not rank then
    return demand(name, o, f[asked](f.rank(x), o.rank), ('the rank is not %s%d'):format(text, o.rank), f.shape(x))
  end
  if not holds(rank, o.rank) then
    errors.bad('%s%s: `%s` has rank %d, not %s%d', o.message and o.message .. ': ' or '', name, x.name, rank, text,
               o.rank)
  end
  return f.no_op()
end
def('assert_rank', { 'x', 'rank' }, told, function(o)
  return demand_rank('assert_rank', o, '', function(a, b) return a == b end, 'equal')
end)
def('assert_rank_at_least', { 'x', 'rank' }, told, function(o)
  return demand_rank('assert_rank_at_least', o, 'at least ', function(a, b) return a >= b end, 'greater_equal')
end)
def('assert_scalar', { 'x' }, { 'message' }, function(o)
  required('assert_scalar', o, 'x')
  local x = to_output(o.x, nil, nil, 'assert_scalar')
  if (graph.rank(x) or 0) ~= 0 then
    errors.bad('%sassert_scalar: `%s` has rank %d, a scalar is expected', o.message and o.message .. ': ' or '', x.name,
               graph.rank(x))
  end
  return x
end)

def('assert_type', { 'x', 'dtype' }, { 'message' }, function(o)
  required('assert_type', o, 'x', 'dtype')
  local x, wanted = to_output(o.x, nil, nil, 'assert_type'), dtypes.name[dtypes.of(o.dtype)]
  if x.dtype ~= wanted then
    errors.bad('%sassert_type: `%s` is %s, %s is expected', o.message and o.message .. ': ' or '', x.name, x.dtype,
               wanted)
  end
  return f.no_op()
end)
def('assert_integer', { 'x' }, { 'message' }, function(o)
  required('assert_integer', o, 'x')
  local x = to_output(o.x, nil, nil, 'assert_integer')
  if not dtypes.is_int(graph.dtype(x)) then
    errors.bad('%sassert_integer: `%s` is %s, an integer dtype is expected', o.message and o.message .. ': ' or '',
               x.name, x.dtype)
  end
  return f.no_op()
end)

--- verify_tensor_all_finite(x, message): x, once it is known that no element is NaN or infinite.
def('verify_tensor_all_finite', { 'x', 'message' }, {}, function(o)
  required('verify_tensor_all_finite', o, 'x')
  return f.check_numerics(o.x, { message = o.message or 'verify_tensor_all_finite', name = o.name })
end)

--- Does each element of x, read row by row, stand in this relation to the one before it?
local function rises(name, o, relation)
  required(name, o, 'x')
  local x = f.reshape(to_output(o.x, nil, nil, name), { -1 })
  local n = f.maximum(f.dim(x, 0) - 1, 0)
  return f.reduce_all(f[relation](f.slice(x, { 0 }, f.stack{ n }),
                                  f.slice(x, f.stack{ f.dim(x, 0) - n }, f.stack{ n })))
end
def('is_non_decreasing', { 'x' }, {}, function(o) return rises('is_non_decreasing', o, 'less_equal') end)
def('is_strictly_increasing', { 'x' }, {}, function(o) return rises('is_strictly_increasing', o, 'less') end)

-- ---- numbers --------------------------------------------------------------------------------------------------------

--- gelu(x, {approximate = false}): x times the normal distribution up to x; approximately by a tanh.
def('gelu', { 'x' }, { 'approximate' }, function(o)
  required('gelu', o, 'x')
  local x = to_output(o.x, typed(o.x) or dtypes.FLOAT32, nil, 'gelu')
  if not dtypes.is_float(graph.dtype(x)) then errors.bad('gelu: x is %s, a float dtype is expected', x.dtype) end
  if errors.flag(o.approximate, 'gelu', 'approximate') then
    return x * 0.5 * (f.tanh((x + f.pow(x, 3) * 0.044715) * math.sqrt(2 / math.pi)) + 1)
  end
  return x * 0.5 * (f.erf(x * math.sqrt(0.5)) + 1)
end)

--- logaddexp(x, y): log(exp(x) + exp(y)) without overflow; where both are the same infinity, that.
def('logaddexp', { 'x', 'y' }, {}, function(o)
  required('logaddexp', o, 'x', 'y')
  local d = typed(o.x) or typed(o.y) or dtypes.FLOAT32
  if not dtypes.is_float(d) then errors.bad('logaddexp: x and y are %s, a float dtype is expected', dtypes.name[d]) end
  local g = convert.graph_of(o.x) or convert.graph_of(o.y)
  local x, y = to_output(o.x, d, g, 'logaddexp'), to_output(o.y, d, g, 'logaddexp')
  local above = f.greater_equal(x, y)
  local high, low = f.select_v2(above, x, y), f.select_v2(above, y, x)
  local same = f.logical_and(f.equal(high, low), f.is_inf(high))
  return high + f.softplus(f.select_v2(same, f.zeros_like(high), low - high))
end)

-- ---- indices --------------------------------------------------------------------------------------------------------

--- df.meshgrid(x, y, …, {indexing = 'xy'}): each of the vectors, repeated along the dimensions of the others.
function f.meshgrid(...)
  local list, opts = { ... }, nil
  local last = list[#list]
  if nest.is_plain(last) and nest.has_names(last) then opts, list[#list] = last, nil end
  opts = errors.options(opts, 'meshgrid', { 'indexing', 'name' })
  local indexing = opts.indexing or 'xy'
  if indexing ~= 'xy' and indexing ~= 'ij' then
    errors.bad("meshgrid: indexing is %s, 'xy' or 'ij' is expected", errors.describe(indexing))
  end
  local n, sizes, out = #list, {}, {}
  if n == 0 then errors.bad('meshgrid takes vectors: df.meshgrid(x, y)') end
  for i = 1, n do
    list[i] = f.reshape(to_output(list[i], nil, nil, 'meshgrid'), { -1 })
    sizes[i] = f.dim(list[i], 0)
  end
  --- Which dimension vector i goes along: the first two are exchanged under 'xy'.
  local function place(i) return indexing == 'xy' and i <= 2 and n > 1 and 3 - i or i end
  local whole = {}
  for i = 1, n do whole[place(i)] = sizes[i] end
  for i = 1, n do
    local shape = {}
    for d = 1, n do shape[d] = d == place(i) and -1 or 1 end
    out[i] = f.broadcast_to(f.reshape(list[i], shape), f.stack(whole))
  end
  return arguments.named(opts.name, graph.unpack(out, 1, n))
end

--- df.unravel_index(indices, dims): the places of elements that are counted row by row: [rank, …].
def('unravel_index', { 'indices', 'dims' }, {}, function(o)
  required('unravel_index', o, 'indices', 'dims')
  local indices = to_output(o.indices, typed(o.indices) or dtypes.INT32, nil, 'unravel_index')
  local dims = to_output(o.dims, graph.dtype(indices), indices.graph, 'unravel_index')
  local checks = { f.assert_non_negative(indices, { message = 'unravel_index' }),
                   f.assert_less(indices, f.reduce_prod(dims), { message = 'unravel_index' }) }
  return graph.control_dependencies(checks, function()
    -- elements of a step in each dimension
    local behind = f.cumprod(dims, 0, { exclusive = true, reverse = true })
    local column = f.reshape(behind, f.concat({ f.shape(behind), f.fill(f.stack{ f.rank(indices) }, f.int32(1)) }, 0))
    local wide = f.reshape(dims, f.shape(column))
    return f.floormod(f.floordiv(f.expand_dims(indices, 0), column), wide)
  end)
end)

def('batch_gather', { 'params', 'indices' }, {}, function(o)
  required('batch_gather', o, 'params', 'indices')
  local indices = to_output(o.indices, dtypes.INT32, nil, 'batch_gather')
  local rank = graph.rank(indices)
  if not rank or rank == 0 then
    errors.bad('batch_gather: the rank of indices must be known while building, and not 0')
  end
  return f.gather(o.params, indices, { axis = rank - 1, batch_dims = rank - 1, name = o.name })
end)

--- df.confusion_matrix(labels, predictions, {num_classes, weights, dtype}): how often each class was taken for each.
def('confusion_matrix', { 'labels', 'predictions', 'num_classes' }, { 'dtype', 'weights' }, function(o)
  required('confusion_matrix', o, 'labels', 'predictions')
  local d = dtypes.INT64
  local labels = f.cast(to_output(o.labels, typed(o.labels) or d, nil, 'confusion_matrix'), 'int64')
  local predictions = f.cast(to_output(o.predictions, typed(o.predictions) or d, nil, 'confusion_matrix'), 'int64')
  local n = o.num_classes
  local checks = { f.assert_non_negative(labels, { message = 'confusion_matrix: labels' }),
                   f.assert_non_negative(predictions, { message = 'confusion_matrix: predictions' }) }
  if n == nil then
    n = f.maximum(f.reduce_max(labels), f.reduce_max(predictions)) + 1
  else
    n = f.cast(to_output(n, typed(n) or d, nil, 'confusion_matrix'), 'int64')
    checks[3] = f.assert_less(labels, n, { message = 'confusion_matrix: labels' })
    checks[4] = f.assert_less(predictions, n, { message = 'confusion_matrix: predictions' })
  end
  return graph.control_dependencies(checks, function()
    local kind = o.dtype or 'int32'
    local places = f.stack({ f.identity(labels), f.identity(predictions) }, 1)
    local weights = o.weights == nil and f.ones_like(predictions) or o.weights
    weights = f.cast(to_output(weights, typed(weights) or dtypes.of(kind), nil, 'confusion_matrix'), kind)
    return f.scatter_nd(places, f.broadcast_to(weights, f.shape(predictions)), f.stack{ n, n })
  end)
end)

def('histogram_fixed_width_bins', { 'values', 'value_range', 'nbins' }, { 'dtype' }, function(o)
  required('histogram_fixed_width_bins', o, 'values', 'value_range')
  local values = to_output(o.values, nil, nil, 'histogram_fixed_width_bins')
  local range = to_output(o.value_range, graph.dtype(values), values.graph, 'histogram_fixed_width_bins')
  local n, low = o.nbins or 100, f.gather(range, 0)
  if type(n) == 'number' and not (n >= 1 and dtypes.is_whole(n)) or type(n) ~= 'number' and not typed(n) then
    errors.bad('histogram_fixed_width_bins: nbins is a whole number from 1 up, not %s', errors.describe(n))
  end
  local above, width = values - low, f.gather(range, 1) - low
  if not values.dtype:find 'float' then above, width = f.cast(above, 'float64'), f.cast(width, 'float64') end
  return f.cast(f.clip_by_value(f.floor(above / width * n), 0, n - 1), o.dtype or 'int32')      -- in the values' dtype
end)

for name, gathered in pairs{ unsorted_segment_mean = false, unsorted_segment_sqrt_n = true } do
  def(name, { 'data', 'segment_ids', 'num_segments' }, {}, function(o)
    required(name, o, 'data', 'segment_ids', 'num_segments')
    local data = to_output(o.data, nil, nil, name)
    local ids = to_output(o.segment_ids, dtypes.INT32, data.graph, name)
    local rank, inner = graph.rank(data), graph.rank(ids)
    if not rank or not inner then
      errors.bad('%s: the ranks of data and segment_ids must be known while building', name)
    end
    local count = f.unsorted_segment_sum(f.ones(f.shape(ids), data.dtype), ids, o.num_segments)
    count = f.maximum(count, f.ones_like(count))
    if gathered then count = f.sqrt(count) end
    for _ = 1, rank - inner do count = f.expand_dims(count, -1) end
    return f.unsorted_segment_sum(data, ids, o.num_segments) / count
  end)
end

--- df.random_crop(value, size, {seed}): a part of this size from a place that is drawn.
def('random_crop', { 'value', 'size' }, { 'seed' }, function(o)
  required('random_crop', o, 'value', 'size')
  local value = to_output(o.value, nil, nil, 'random_crop')
  local size = to_output(o.size, dtypes.INT32, value.graph, 'random_crop')
  local room = f.shape(value) - size
  local fits = f.assert_non_negative(room, { message = 'random_crop: the value is smaller than size',
      data = { f.shape(value), size } })
  return graph.control_dependencies({ fits }, function()
    -- each dimension by itself: how many places there are differs
    local part = f.random_uniform(f.shape(room), { dtype = 'float64', seed = o.seed })
    local begin = f.cast(f.floor(part * f.cast(room + 1, 'float64')), 'int32')
    local out = f.slice(value, begin, size)
    if nest.is_plain(o.size) and not nest.is_structure(o.size) then out:set_shape(o.size) end
    return out
  end)
end)

--- df.non_max_suppression(boxes, scores, max_output_size, iou_threshold = 0.5, score_threshold = -inf): which boxes
-- stay.
def('non_max_suppression', { 'boxes', 'scores', 'max_output_size', 'iou_threshold', 'score_threshold' }, {}, function(o)
  required('non_max_suppression', o, 'boxes', 'scores', 'max_output_size')
  local iou, score = o.iou_threshold, o.score_threshold
  return op('NonMaxSuppressionV3', { o.boxes, o.scores, o.max_output_size, iou == nil and 0.5 or iou, score == nil
      and -math.huge or score }, { name = o.name })
end)

for name, block in pairs{ space_to_batch = 'paddings', batch_to_space = 'crops' } do
  def(name, { 'x', block, 'block_size' }, {}, function(o)
    required(name, o, 'x', block, 'block_size')
    return f[name .. '_nd'](o.x, { o.block_size, o.block_size }, o[block])
  end)
end

-- ---- arithmetic -----------------------------------------------------------------------------------------------------

def('reciprocal_no_nan', { 'x' }, {}, function(o)
  required('reciprocal_no_nan', o, 'x')
  local x = to_output(o.x, nil, nil, 'reciprocal_no_nan')
  return f.div_no_nan(f.ones_like(x), x)
end)
def('multiply_no_nan', { 'x', 'y' }, {}, function(o)
  local x, y = operands('multiply_no_nan', o)
  return op('MulNoNan', { x, y }, { name = o.name })
end)
def('divide_no_nan', { 'x', 'y' }, {}, function(o)
  required('divide_no_nan', o, 'x', 'y')
  return f.div_no_nan(o.x, o.y)
end)

--- df.polyval({a, b, c}, x): a x^2 + b x + c.
def('polyval', { 'coeffs', 'x' }, {}, function(o)
  required('polyval', o, 'coeffs', 'x')
  if not nest.is_plain(o.coeffs) then
    errors.bad('polyval: coeffs is %s, a list is expected', errors.describe(o.coeffs))
  end
  local x = to_output(o.x, nil, nil, 'polyval')
  if #o.coeffs == 0 then return f.zeros_like(x) end
  local sum = to_output(o.coeffs[1], graph.dtype(x), x.graph, 'polyval')
  for i = 2, #o.coeffs do sum = sum * x + o.coeffs[i] end
  return sum
end)

def('lbeta', { 'x' }, {}, function(o)
  required('lbeta', o, 'x')
  local x = to_output(o.x, nil, nil, 'lbeta')
  return f.reduce_sum(f.lgamma(x), -1) - f.lgamma(f.reduce_sum(x, -1))
end)

def('clip_by_average_norm', { 'x', 'clip_norm' }, {}, function(o)
  required('clip_by_average_norm', o, 'x', 'clip_norm')
  local x = to_output(o.x, nil, nil, 'clip_by_average_norm')
  local limit = to_output(o.clip_norm, graph.dtype(x), x.graph, 'clip_by_average_norm')
  local each = f.cast(f.size(x), x.dtype) * f.rsqrt(f.reduce_sum(f.square(x)))       -- 1 / (norm / elements)
  return x * limit * f.minimum(each, f.reciprocal(limit))
end)

for name, d in pairs{ to_complex64 = 'complex64', to_complex128 = 'complex128' } do
  def(name, { 'x' }, {}, function(o)
    required(name, o, 'x')
    return f.cast(o.x, d)
  end)
end

-- ---- networks -------------------------------------------------------------------------------------------------------

--- The loss of a sigmoid whose positive examples count pos_weight times.
def('weighted_cross_entropy_with_logits', { 'labels', 'logits', 'pos_weight' }, {}, function(o)
  local name = 'weighted_cross_entropy_with_logits'
  required(name, o, 'labels', 'logits', 'pos_weight')
  local logits = to_output(o.logits, nil, nil, name)
  local labels = to_output(o.labels, graph.dtype(logits), logits.graph, name)
  local weight = (to_output(o.pos_weight, graph.dtype(logits), logits.graph, name) - 1) * labels + 1
  return (1 - labels) * logits + weight * (f.log1p(f.exp(-f.abs(logits))) + f.relu(-logits))
end)

def('log_poisson_loss', { 'targets', 'log_input', 'compute_full_loss' }, {}, function(o)
  required('log_poisson_loss', o, 'targets', 'log_input')
  local x = to_output(o.log_input, nil, nil, 'log_poisson_loss')
  local t = to_output(o.targets, graph.dtype(x), x.graph, 'log_poisson_loss')
  local loss = f.exp(x) - x * t
  if not o.compute_full_loss then return loss end
  local inside = f.logical_and(f.greater_equal(t, 0), f.less_equal(t, 1))
  local stirling = t * f.log(t) - t + 0.5 * f.log(2 * math.pi * t)                    -- of log(t!), which is 0 up to 1
  return loss + f.where(inside, f.zeros_like(t), stirling)
end)

--- count, sum and sum of squares along the axes, less shift: what moments are made of.
def('sufficient_statistics', { 'x', 'axes', 'shift', 'keep_dims' }, {}, function(o)
  required('sufficient_statistics', o, 'x', 'axes')
  local x = to_output(o.x, nil, nil, 'sufficient_statistics')
  local how = { axis = o.axes, keep_dims = o.keep_dims or false }
  local axes = nest.is_plain(o.axes) and o.axes or { o.axes }
  -- -1 is the last
  local counts = f.cast(f.reduce_prod(f.gather(f.shape(x), f.floormod(axes, f.rank(x)))), x.dtype)
  local apart = x
  if o.shift ~= nil then apart = x - to_output(o.shift, graph.dtype(x), x.graph, 'sufficient_statistics') end
  return counts, f.reduce_sum(apart, how), f.reduce_sum(f.square(apart), how), o.shift
end)
def('normalize_moments', { 'counts', 'mean_ss', 'variance_ss', 'shift' }, {}, function(o)
  required('normalize_moments', o, 'counts', 'mean_ss', 'variance_ss')
  local function output(v, like) return to_output(v, convert.typed(v) or like, nil, 'normalize_moments') end
  local counts = output(o.counts, convert.typed(o.mean_ss) or convert.typed(o.variance_ss))
  local d = graph.dtype(counts)
  local mean = output(o.mean_ss, d) / counts
  local variance = output(o.variance_ss, d) / counts - f.square(mean)
  if o.shift ~= nil then mean = mean + output(o.shift, d) end
  return mean, variance
end)
def('weighted_moments', { 'x', 'axes', 'frequency_weights', 'keep_dims' }, {}, function(o)
  required('weighted_moments', o, 'x', 'axes', 'frequency_weights')
  local x = to_output(o.x, nil, nil, 'weighted_moments')
  local w = f.cast(to_output(o.frequency_weights, typed(o.frequency_weights) or graph.dtype(x), x.graph), x.dtype)
  + f.zeros_like(x)
  local all = { axis = o.axes, keep_dims = true }
  local sum = f.reduce_sum(w, all)
  local mean = f.reduce_sum(w * x, all) / sum
  local variance = f.reduce_sum(w * f.squared_difference(x, mean), all) / sum
  if o.keep_dims then return mean, variance end
  local axes = nest.is_plain(o.axes) and o.axes or { o.axes }
  return f.squeeze(mean, axes), f.squeeze(variance, axes)
end)

def('relu_layer', { 'x', 'weights', 'biases' }, {}, function(o)
  required('relu_layer', o, 'x', 'weights', 'biases')
  return f.relu(f.bias_add(f.matmul(o.x, o.weights), o.biases))
end)

--- df.embedding_lookup_sparse(tables, ids, weights?, {combiner}): the rows of each example's ids as one: their sum,
-- 'mean' or 'sqrtn'. ids, and weights, are {indices, values, dense_shape}.
def('embedding_lookup_sparse', { 'tables', 'ids', 'weights' }, { 'combiner', 'partition_strategy' }, function(o)
  local name = 'embedding_lookup_sparse'
  required(name, o, 'tables', 'ids')
  for _, key in ipairs{ 'ids', 'weights' } do
    local v = o[key]
    if v ~= nil and not nest.is_composite(v) and not (nest.is_plain(v) and v.indices ~= nil and v.values ~= nil) then
      errors.bad('%s: %s is %s, a SparseTensor or {indices =, values =, dense_shape =} is expected', name, key,
                 errors.describe(v))
    end
  end
  local how = o.combiner or 'mean'
  if how ~= 'sum' and how ~= 'mean' and how ~= 'sqrtn' then
    errors.bad("%s: combiner is %s, 'sum', 'mean' or 'sqrtn' is expected", name, errors.describe(how))
  end
  local rows = f.embedding_lookup(o.tables, to_output(o.ids.values, typed(o.ids.values) or dtypes.INT64),
                                  { partition_strategy = o.partition_strategy })
  local indices = to_output(o.ids.indices, typed(o.ids.indices) or dtypes.INT64, rows.graph, name)
  local segments = f.cast(f.squeeze(f.slice(indices, { 0, 0 }, { -1, 1 }), { 1 }), 'int32')
  local weights = o.weights and f.cast(to_output(o.weights.values, nil, rows.graph, name), rows.dtype)
    or f.ones(f.stack{ f.dim(rows, 0) }, rows.dtype)
  local rank = graph.rank(rows)
  if not rank then errors.bad('%s: the rank of the tables must be known while building', name) end
  local function beside(v)
    for _ = 2, rank do v = f.expand_dims(v, -1) end
    return v
  end
  local sum = f.segment_sum(rows * beside(weights), segments)
  if how == 'sum' then return sum end
  -- an example without ids has zeros
  if how == 'mean' then return f.div_no_nan(sum, beside(f.segment_sum(weights, segments))) end
  return f.div_no_nan(sum, beside(f.sqrt(f.segment_sum(f.square(weights), segments))))
end)

local lookup_sparse = f.embedding_lookup_sparse
--- ids and weights are tables with names, as options are: the last one is none of these when it has indices.
function f.embedding_lookup_sparse(...)
  local args, n = { ... }, select('#', ...)
  while n > 0 and args[n] == nil do n = n - 1 end
  if nest.is_plain(args[n]) and args[n].indices ~= nil then n, args[n + 1] = n + 1, { combiner = 'mean' } end
  return lookup_sparse(graph.unpack(args, 1, n))
end

-- ---- matrices -------------------------------------------------------------------------------------------------------

--- The last two dimensions exchanged.
local function exchanged(name, x)
  local rank = graph.rank(x)
  if not rank then errors.bad('%s: the rank of x must be known while building', name) end
  if rank < 2 then errors.bad('%s: x has rank %d, a matrix or a batch of them is expected', name, rank) end
  local order = {}
  for i = 1, rank do order[i] = i - 1 end
  order[rank - 1], order[rank] = order[rank], order[rank - 1]
  return f.transpose(x, order)
end
def('matrix_transpose', { 'x' }, {}, function(o)
  required('matrix_transpose', o, 'x')
  return exchanged('matrix_transpose', to_output(o.x, nil, nil, 'matrix_transpose'))
end)
def('adjoint', { 'x' }, {}, function(o)
  required('adjoint', o, 'x')
  local x = to_output(o.x, nil, nil, 'adjoint')
  local y = exchanged('adjoint', x)
  return x.dtype:find '^complex' and f.conj(y) or y
end)
def('trace', { 'x' }, {}, function(o)
  required('trace', o, 'x')
  return f.reduce_sum(f.matrix_diag_part(o.x), -1)
end)
def('matvec', { 'a', 'b' }, {}, function(o)
  required('matvec', o, 'a', 'b')
  local a = to_output(o.a, nil, nil, 'matvec')
  return f.squeeze(f.matmul(a, f.expand_dims(to_output(o.b, graph.dtype(a), a.graph, 'matvec'), -1)), { -1 })
end)
def('logdet', { 'x' }, {}, function(o)
  required('logdet', o, 'x')
  return 2 * f.reduce_sum(f.log(f.matrix_diag_part(f.cholesky(o.x))), -1)
end)

return f
