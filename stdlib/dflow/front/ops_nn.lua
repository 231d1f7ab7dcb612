--- Ops of neural networks whose Lua surface differs from the node: losses given by name, softmax along any axis,
-- clipping.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local convert = require 'dflow.front.convert'
local registry = require 'dflow.front.registry'
local gradients = require 'dflow.front.gradients'
local ops = require 'dflow.front.ops'
local arguments = require 'dflow.front.arguments'

local f, def, required = ops.functions, arguments.def, arguments.required
local op, to_output, typed = registry.op, convert.to_output, convert.typed

-- ---- softmax and losses -------------------------------------------------------------------------------------------
for name, type_name in pairs { softmax = 'Softmax', log_softmax = 'LogSoftmax' } do
  def(name, { 'logits', 'axis' }, {}, function(o)
    required(name, o, 'logits')
    local x = to_output(o.logits, typed(o.logits) or dtypes.FLOAT32, nil, name)
    local rank, axis = graph.rank(x), o.axis
    if axis ~= nil and type(axis) ~= 'number' then
      errors.bad('%s: axis is %s, a whole number is expected', name, errors.describe(axis))
    end
    if axis == nil or axis == -1 or (rank and axis == rank - 1) then return op(type_name, { x }, { name = o.name }) end
    if not rank then errors.bad('%s: the rank must be known for an axis that is not the last', name) end
    local perm = {}
    for i = 1, rank do perm[i] = i - 1 end
    local at = axis < 0 and axis + rank or axis
    if at < 0 or at >= rank then
      errors.bad('%s: there is no axis %d in a tensor of rank %d', name, axis, rank)
    end
    perm[at + 1], perm[rank] = rank - 1, at
    return f.transpose(op(type_name, { f.transpose(x, perm) }), perm)
  end)
end

local function labels_and_logits(name)
  return function(o)
    required(name, o, 'labels', 'logits')
    local d = typed(o.logits) or typed(o.labels) or dtypes.FLOAT32
    local logits = to_output(o.logits, d, nil, name)
    return logits, o.labels
  end
end

--- As far as they are known: what broadcasts would be averaged over pairs that were not meant.
local function same_shapes(name, labels, logits)
  local a, b = labels.shape, logits.shape
  local same = not a or not b or #a == #b
  for i = 1, same and a and b and #a or 0 do same = same and (a[i] == b[i] or a[i] < 0 or b[i] < 0) end
  if not same then
    errors.bad('%s: labels and logits are of one shape, these are %s and %s', name, tensor.shape_text(labels.dtype, a),
               tensor.shape_text(logits.dtype, b))
  end
end

--- softmax_cross_entropy_with_logits{labels =, logits =}: labels are distributions; T[batch] of losses.
def('softmax_cross_entropy_with_logits', { 'logits', 'labels' }, {}, function(o)
  local logits, labels = labels_and_logits('softmax_cross_entropy_with_logits')(o)
  return (op('SoftmaxCrossEntropyWithLogits', { logits, to_output(labels, graph.dtype(logits), logits.graph) },
             { name = o.name }))
end)

--- sparse_softmax_cross_entropy_with_logits{labels =, logits =}: labels are the numbers of classes.
def('sparse_softmax_cross_entropy_with_logits', { 'logits', 'labels' }, {}, function(o)
  required('sparse_softmax_cross_entropy_with_logits', o, 'labels', 'logits')
  local logits = to_output(o.logits, typed(o.logits) or dtypes.FLOAT32, nil, 'sparse_softmax_cross_entropy_with_logits')
  local labels = typed(o.labels) and to_output(o.labels) or arguments.int32(o.labels, logits.graph)
  local rank = graph.rank(logits)
  if not rank or rank == 2 then
    return (op('SparseSoftmaxCrossEntropyWithLogits', { logits, labels }, { name = o.name }))
  end
  local of = graph.rank(labels)
  if of and rank > 2 and of ~= rank - 1 then
    errors.bad('sparse_softmax_cross_entropy_with_logits: labels must have the shape of the logits without its last '
               .. 'axis: logits are %s, labels %s',
               tensor.shape_text(logits.dtype, logits.shape), tensor.shape_text(labels.dtype, labels.shape))
  end
  local classes = f.dim(logits, -1)
  local loss = op('SparseSoftmaxCrossEntropyWithLogits',
                  { f.reshape(logits, { -1, classes }), f.reshape(labels, { -1 }) })
  return f.reshape(loss, f.shape(labels))
end)

--- sigmoid_cross_entropy_with_logits{labels =, logits =}: elementwise, without overflow. Both kinks are at 0, where
-- their slopes and their curvatures add up to the function's: max and abs, whose slope there is 0, would not.
def('sigmoid_cross_entropy_with_logits', { 'logits', 'labels' }, {}, function(o)
  local x, z = labels_and_logits('sigmoid_cross_entropy_with_logits')(o)
  z = to_output(z, graph.dtype(x), x.graph)
  same_shapes('sigmoid_cross_entropy_with_logits', z, x)
  local zero = f.zeros_like(x)
  local up = f.greater_equal(x, zero)
  return f.where(up, x, zero) - x * z + f.softplus(f.where(up, -x, x))
end)

-- ---- statistics -----------------------------------------------------------------------------------------------------
--- moments(x, axes, {keep_dims}): mean and variance. TensorFlow's variance holds the mean still for gradients, so that
-- its second derivatives lack a term; ours have it.
def('moments', { 'x', 'axes' }, { 'keep_dims' }, function(o)
  required('moments', o, 'x')
  local x = to_output(o.x, nil, nil, 'moments')
  local mean = f.reduce_mean(x, { axis = o.axes, keep_dims = true })
  local variance = f.reduce_mean(f.squared_difference(x, mean), { axis = o.axes, keep_dims = o.keep_dims or false })
  if not o.keep_dims then mean = f.reduce_mean(x, { axis = o.axes, keep_dims = false }) end
  return mean, variance
end)

--- reduce_variance(x, axis, {keep_dims}), reduce_std: of all that there is, not of a sample; NaN of nothing.
local function variance(name, o)
  required(name, o, 'x')
  local x = to_output(o.x, nil, nil, name)
  if not dtypes.is_float(graph.dtype(x)) then
    errors.bad("%s: x is %s, floats are expected: cast it, as in df.cast(x, 'float32')", name, x.dtype)
  end
  local apart = x - f.reduce_mean(x, { axis = o.axis, keep_dims = true })
  return f.reduce_mean(f.square(apart), { axis = o.axis, keep_dims = o.keep_dims or false })
end
def('reduce_variance', { 'x', 'axis', 'keep_dims' }, {}, function(o) return variance('reduce_variance', o) end)
def('reduce_std', { 'x', 'axis', 'keep_dims' }, {}, function(o) return f.sqrt(variance('reduce_std', o)) end)

--- Which elements of an op's input are zero, false or empty strings, or are not, as bools.
local function zeros(name, o, test)
  required(name, o, 'x')
  local x = to_output(o.x, nil, nil, name)
  if x.dtype == 'bool' then return test == 'equal' and f.logical_not(x) or x end
  return f[test](x, x.dtype == 'string' and f.constant('') or f.cast(f.constant(0), x.dtype))
end

def('count_nonzero', { 'x', 'axis', 'keep_dims' }, { 'dtype' }, function(o)
  return f.reduce_sum(f.cast(zeros('count_nonzero', o, 'not_equal'), o.dtype or 'int64'),
                      { axis = o.axis, keep_dims = o.keep_dims or false })
end)
def('zero_fraction', { 'x' }, {},
    function(o) return f.reduce_mean(f.cast(zeros('zero_fraction', o, 'equal'), 'float32')) end)

def('l2_normalize', { 'x', 'axis' }, { 'epsilon' }, function(o)
  required('l2_normalize', o, 'x')
  local x = to_output(o.x, nil, nil, 'l2_normalize')
  local sum = f.reduce_sum(f.square(x), { axis = o.axis, keep_dims = true })
  return x * f.rsqrt(f.maximum(sum, o.epsilon or 1e-12))
end)

-- ---- clipping -------------------------------------------------------------------------------------------------------
def('clip_by_value', { 'x', 'min', 'max' }, {}, function(o)
  required('clip_by_value', o, 'x', 'min', 'max')
  if type(o.x) == 'number' and type(o.min) == 'number' and typed(o.max) and graph.rank(to_output(o.max)) ~= 0 then
    errors.bad('clip_by_value: what is clipped comes first: df.clip_by_value(x, %s, %s)', tostring(o.x),
               tostring(o.min))
  end
  local x = to_output(o.x, nil, nil, 'clip_by_value')
  return f.maximum(f.minimum(x, o.max), o.min)
end)

def('clip_by_norm', { 'x', 'clip_norm', 'axes' }, {}, function(o)
  required('clip_by_norm', o, 'x', 'clip_norm')
  if gradients.is_slices(o.x) then                -- those rows that there are, each as often as it is there
    local s = o.x
    return gradients.indexed_slices(f.clip_by_norm(s.values, o.clip_norm, o.axes), s.indices, s.dense_shape)
  end
  local x = to_output(o.x, nil, nil, 'clip_by_norm')
  local sum = f.reduce_sum(f.square(x), { axis = o.axes, keep_dims = true })
  local positive = f.greater(sum, 0)
  local norm = f.where(positive, f.sqrt(f.where(positive, sum, f.ones_like(sum))), sum)
  return x * o.clip_norm / f.maximum(norm, o.clip_norm)
end)

--- The members of a list of gradients that are there: nil, false and sparse ones are dealt with by the caller.
local function members(list, what)
  if not nest.is_plain(list) then errors.bad('%s takes a list, not %s', what, errors.describe(list)) end
  local n = 0
  for k in pairs(list) do
    if type(k) ~= 'number' then errors.bad('%s takes a list, this table has the key %s', what, tostring(k)) end
    if k > n then n = k end
  end
  return n
end

--- global_norm(list): the square root of the sum of all squares. false and nil count for nothing.
function f.global_norm(list)
  local n, sums = members(list, 'global_norm'), {}
  for i = 1, n do
    local x = list[i]
    if x then sums[#sums + 1] = f.l2_loss(gradients.is_slices(x) and x.values or to_output(x)) end
  end
  if #sums == 0 then errors.bad('global_norm: the list holds no tensor') end
  local total = sums[1]
  for i = 2, #sums do total = total + sums[i] end
  return f.sqrt(total * 2)
end

--- A norm that is given: a number is of the dtype, and of the graph, of what it limits.
local function given_norm(v, list, n, what)
  for i = 1, n do
    local x = list[i]
    if x then
      x = gradients.is_slices(x) and x.values or to_output(x)
      return to_output(v, typed(v) or graph.dtype(x), x.graph, what)
    end
  end
  return to_output(v, typed(v) or dtypes.FLOAT32, nil, what)
end

--- clip_by_global_norm(list, clip_norm, {use_norm}): the list scaled down so that its norm is at most clip_norm, and
-- the norm. Where the norm is infinite all become NaN, as in TensorFlow: what is wrong with one of them is not hidden
-- in zeros.
function f.clip_by_global_norm(list, clip_norm, opts)
  if clip_norm == nil then errors.bad('clip_by_global_norm: clip_norm is missing') end
  opts = errors.options(opts, 'clip_by_global_norm', { 'use_norm', 'name' })
  local n = members(list, 'clip_by_global_norm')
  local norm = opts.use_norm == nil and f.global_norm(list) or given_norm(opts.use_norm, list, n, 'clip_by_global_norm')
  local limit = to_output(clip_norm, graph.dtype(norm), norm.graph)
  local scale = limit / f.maximum(norm, limit) + (norm - norm)
  local out = {}
  for i = 1, n do
    local x = list[i]
    if not x then
      out[i] = x == nil and false or x
    elseif gradients.is_slices(x) then
      out[i] = gradients.indexed_slices(x.values * scale, x.indices, x.dense_shape)
    else
      out[i] = arguments.named(opts.name, to_output(x) * scale)
    end
  end
  return out, norm
end

-- ---- the rest -------------------------------------------------------------------------------------------------------
--- dropout(x, rate, {seed, noise_shape}): each element is zero with probability `rate`, the others are scaled up.
def('dropout', { 'x', 'rate' }, { 'seed', 'noise_shape', 'keep_prob' }, function(o)
  required('dropout', o, 'x')
  local x = to_output(o.x, nil, nil, 'dropout')
  local keep = o.keep_prob
  if keep ~= nil and o.rate ~= nil then
    errors.bad('dropout: rate and keep_prob are both given; the one is 1 less the other')
  end
  if keep == nil then
    required('dropout', o, 'rate')
    keep = type(o.rate) == 'number' and 1 - o.rate or f.subtract(to_output(1, graph.dtype(x), x.graph), o.rate)
  end
  if type(keep) ~= 'number' and not typed(keep) then
    errors.bad('dropout: keep_prob is a number above 0 and up to 1, not %s', errors.describe(keep))
  end
  if type(keep) == 'number' and not (keep > 0 and keep <= 1) then
    errors.bad('dropout: the rate is at least 0 and below 1')
  end
  local noise = f.random_uniform(o.noise_shape or f.shape(x), { dtype = x.dtype, seed = o.seed })
  return x / keep * f.floor(noise + keep)
end)

--- norm(x, {axis, keep_dims}): the square root of the sum of squares.
def('norm', { 'x', 'axis', 'keep_dims' }, {}, function(o)
  required('norm', o, 'x')
  local x = to_output(o.x, typed(o.x) or dtypes.FLOAT32, nil, 'norm')
  return registry.op('EuclideanNorm', { x, arguments.axes_of(x, o.axis) }, { keep_dims = o.keep_dims, name = o.name })
end)

--- log_sigmoid(x): log(sigmoid(x)) without underflow.
function f.log_sigmoid(x, o)
  required('log_sigmoid', { x = x }, 'x')
  return f.neg(f.softplus(-to_output(x, typed(x) or dtypes.FLOAT32, nil, 'log_sigmoid')), o)
end

-- ---- embeddings -----------------------------------------------------------------------------------------------------
--- For ids [k] in tables cut in `parts`: which table, and which of its rows. 'mod' deals the rows out one by one; 'div'
-- in blocks, the first ones a row longer where they do not come out even.
local function places(ids, tables, parts, strategy)
  if strategy == 'mod' then return f.floormod(ids, parts), f.floordiv(ids, parts) end
  local rows = 0
  for _, t in ipairs(tables) do
    local shape = t.shape
    rows = rows + (shape and shape[1] >= 0 and shape[1] or f.cast(f.dim(t, 0), ids.dtype))
  end
  local each, more
  if type(rows) == 'number' then
    each = math.floor(rows / parts)
    more = rows - each * parts
  else
    each, more = f.floordiv(rows, parts), f.floormod(rows, parts)
  end
  local part = f.maximum(f.floordiv(ids, each + 1),
                         f.floordiv(ids - more, type(each) == 'number' and math.max(each, 1) or f.maximum(each, 1)))
  local long = f.less(part, f.zeros_like(part) + more)
  return part, f.where(long, f.floormod(ids, each + 1),
                       f.floormod(ids - more, type(each) == 'number' and math.max(each, 1) or f.maximum(each, 1)))
end

--- Rows clipped to the norm, when there is one.
local function within(rows, max_norm)
  if max_norm == nil then return rows end
  local axes = {}
  for i = 1, graph.rank(rows) - 1 do axes[i] = i end
  return f.clip_by_norm(rows, max_norm, { axes = axes })
end

local function embedding_lookup(tables, ids, opts)
  local what = 'embedding_lookup'
  local strategy = opts.partition_strategy or 'mod'
  if strategy ~= 'mod' and strategy ~= 'div' then
    errors.bad("%s: partition_strategy is 'mod' or 'div', not %s", what, errors.describe(strategy))
  end
  if tables == nil then errors.bad('%s: the tables are missing', what) end
  if ids == nil then errors.bad('%s: the ids are missing', what) end
  local list = errors.is_data(tables) and nest.is_structure(tables) and tables or { tables }
  local empty = errors.is_data(tables) and #tables == 0
  if empty or nest.has_names(list) then
    errors.bad('%s takes a table or a list of them, not %s', what, empty and 'an empty one' or errors.describe(tables))
  end
  local d = typed(ids)
  if d and d ~= dtypes.INT32 and d ~= dtypes.INT64 then
    errors.bad("%s: the ids are %s, int32 or int64 is expected: cast them, as in df.cast(ids, 'int32')", what,
               dtypes.name[d])
  end
  ids = to_output(ids, d or dtypes.INT32, convert.graph_of(tables), what)
  if #list == 1 then
    local rows = f.gather(list[1], ids, opts.name and opts.max_norm == nil and { name = opts.name } or nil)
    if opts.max_norm == nil then return rows end
    local shape = rows.shape
    return f.reshape(within(f.gather(list[1], f.reshape(ids, { -1 })), opts.max_norm), f.shape(rows)):set_shape(shape)
  end
  local flat = f.reshape(ids, { -1 })
  local part, row = places(flat, list, #list, strategy)
  part = f.cast(part, 'int32')
  local rows_of, order = f.dynamic_partition(row, part, #list), f.dynamic_partition(f.range(f.size(flat)), part, #list)
  local found = {}
  for i, t in ipairs(list) do found[i] = within(f.gather(t, rows_of[i]), opts.max_norm) end
  local rows = f.dynamic_stitch(order, found)
  local tail, static = rows.shape, ids.shape
  local shape = f.concat({ f.shape(ids), f.slice(f.shape(found[1]), { 1 }, { -1 }) }, 0)
  rows = f.reshape(rows, shape)
  if tail and static then
    local all = {}
    for _, n in ipairs(static) do all[#all + 1] = n end
    for i = 2, #tail do all[#all + 1] = tail[i] end
    rows:set_shape(all)
  end
  return rows
end

--- embedding_lookup(tables, ids, {partition_strategy = 'mod', max_norm}): rows of a table [n, ...], or of one that is
-- cut into a list of tables. Its gradient is sparse: it has the rows that ids name, in each table those that lie there.
-- @param ids  int32 or int64 of any shape
-- @return     ids' shape and that of a row
function f.embedding_lookup(tables, ids, opts)
  opts = errors.options(opts, 'embedding_lookup', { 'partition_strategy', 'max_norm', 'name' })
  return arguments.named(opts.name, embedding_lookup(tables, ids, opts))
end

return f
