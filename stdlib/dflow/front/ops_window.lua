--- Convolutions, pools and normalisations under the names that they have in tf.nn: made of the ops that move a window
-- over images and volumes.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local convert = require 'dflow.front.convert'
local registry = require 'dflow.front.registry'
local arguments = require 'dflow.front.arguments'
local windows = require 'dflow.front.windows'

local f, def, required = arguments.functions, arguments.def, arguments.required
local op, to_output, typed = registry.op, convert.to_output, convert.typed
local ONE = { 1, 1, 1, 1 }

local function floats(name, x) return to_output(x, typed(x) or dtypes.FLOAT32, nil, name) end

-- ---- convolutions over images and volumes ---------------------------------------------------------------------------

--- The convolution whose input has this gradient: what conv2d (or conv3d) makes of output_shape, backwards.
local function backwards(name, sizes, filter, y, attrs, type)
  y = to_output(y, nil, nil, name)
  return op(type or 'Conv2DBackpropInput', { to_output(sizes, dtypes.INT32, y.graph, name), filter, y }, attrs)
end

for n, type in pairs{ [2] = 'Conv2DBackpropInput', [3] = 'Conv3DBackpropInputV2' } do
  local name = ('conv%dd_transpose'):format(n)
  def(name, { 'value', 'filter', 'output_shape', 'strides', 'padding' }, { 'data_format', 'dilations' }, function(o)
    required(name, o, 'value', 'filter', 'output_shape', 'strides')
    return backwards(name, o.output_shape, o.filter, o.value,
                     { strides = windows.each(o.strides, n), dilations = windows.each(o.dilations, n),
                       padding = o.padding or 'SAME',
                       data_format = o.data_format, name = o.name }, type)
  end)
end
def('atrous_conv2d_transpose', { 'value', 'filters', 'output_shape', 'rate', 'padding' }, {}, function(o)
  required('atrous_conv2d_transpose', o, 'value', 'filters', 'output_shape', 'rate', 'padding')
  return backwards('atrous_conv2d_transpose', o.output_shape, o.filters, o.value,
                   { strides = ONE, dilations = windows.rate('atrous_conv2d_transpose', o.rate), padding = o.padding,
                     name = o.name })
end)
def('conv2d_backprop_input', { 'input_sizes', 'filter', 'out_backprop', 'strides', 'padding' }, { 'dilations' },
    function(o)
  required('conv2d_backprop_input', o, 'input_sizes', 'filter', 'out_backprop', 'strides', 'padding')
  return backwards('conv2d_backprop_input', o.input_sizes, o.filter, o.out_backprop,
                   { strides = windows.each(o.strides, 2), dilations = windows.each(o.dilations, 2),
                     padding = o.padding, name = o.name })
end)
def('conv2d_backprop_filter', { 'input', 'filter_sizes', 'out_backprop', 'strides', 'padding' }, { 'dilations' },
    function(o)
  required('conv2d_backprop_filter', o, 'input', 'filter_sizes', 'out_backprop', 'strides', 'padding')
  local x = floats('conv2d_backprop_filter', o.input)
  return op('Conv2DBackpropFilter', { x, to_output(o.filter_sizes, dtypes.INT32, x.graph, 'conv2d_backprop_filter'),
      o.out_backprop },
            { strides = windows.each(o.strides, 2), dilations = windows.each(o.dilations, 2), padding = o.padding,
              name = o.name })
end)
def('depthwise_conv2d', { 'input', 'filter', 'strides', 'padding', 'rate' }, {}, function(o)
  required('depthwise_conv2d', o, 'input', 'filter', 'strides', 'padding')
  return f.depthwise_conv2d_native(o.input, o.filter, { strides = o.strides, padding = o.padding,
                                                        dilations = windows.rate('depthwise_conv2d', o.rate),
                                                        name = o.name })
end)
def('separable_conv2d', { 'input', 'depthwise_filter', 'pointwise_filter', 'strides', 'padding', 'rate' }, {},
    function(o)
  required('separable_conv2d', o, 'input', 'depthwise_filter', 'pointwise_filter', 'strides', 'padding')
  local deep = f.depthwise_conv2d(o.input, o.depthwise_filter, o.strides, o.padding, o.rate)
  return f.conv2d(deep, o.pointwise_filter, { strides = ONE, padding = 'VALID', name = o.name })
end)
def('atrous_conv2d', { 'value', 'filters', 'rate', 'padding' }, {}, function(o)
  required('atrous_conv2d', o, 'value', 'filters', 'rate', 'padding')
  return f.conv2d(o.value, o.filters, { strides = ONE, padding = o.padding,
      dilations = windows.rate('atrous_conv2d', o.rate), name = o.name })
end)

-- ---- along one axis: images of height one ---------------------------------------------------------------------------

local function one(name, what, v)
  -- as TensorFlow also takes it
  if nest.is_plain(v) and #v == 3 and v[1] == 1 and v[3] == 1 then v = { v[2] } end
  if nest.is_plain(v) and #v == 1 then v = v[1] end
  if type(v) ~= 'number' then errors.bad('%s: %s is %s, a whole number is expected', name, what, errors.describe(v)) end
  return v
end
local function tall(x) return f.expand_dims(x, 1) end
local function flat(y, name) return f.squeeze(y, { axis = { 1 }, name = name }) end

--- x as an Output of this rank, where it is known.
local function of_rank(name, x, rank, axes)
  x = floats(name, x)
  local has = graph.rank(x)
  if has and has ~= rank then errors.bad('%s: the input is of rank %d, %s are expected', name, has, axes) end
  return x
end

def('conv1d', { 'value', 'filters', 'stride', 'padding' }, { 'dilations' }, function(o)
  required('conv1d', o, 'value', 'filters', 'stride', 'padding')
  local x = of_rank('conv1d', o.value, 3, '[batch, width, channels]')
  local stride, dilation = one('conv1d', 'stride', o.stride), one('conv1d', 'dilations', o.dilations or 1)
  return flat(f.conv2d(tall(x), f.expand_dims(to_output(o.filters, graph.dtype(x), x.graph, 'conv1d'), 0),
                       { strides = { 1, 1, stride, 1 }, dilations = { 1, 1, dilation, 1 }, padding = o.padding }),
                       o.name)
end)
def('conv1d_transpose', { 'input', 'filters', 'output_shape', 'strides', 'padding' }, { 'dilations' }, function(o)
  required('conv1d_transpose', o, 'input', 'filters', 'output_shape', 'strides')
  local x = of_rank('conv1d_transpose', o.input, 3, '[batch, width, channels]')
  local stride, dilation = one('conv1d_transpose', 'strides', o.strides),
  one('conv1d_transpose', 'dilations', o.dilations or 1)
  local shape = to_output(o.output_shape, dtypes.INT32, x.graph, 'conv1d_transpose')
  local dims = shape.shape
  if dims and (#dims ~= 1 or dims[1] >= 0 and dims[1] ~= 3) then
    errors.bad('conv1d_transpose: output_shape is %s, three numbers are expected: [batch, width, channels]',
               errors.describe(o.output_shape))
  end
  shape = f.concat({ f.slice(shape, { 0 }, { 1 }), f.int32{ 1 }, f.slice(shape, { 1 }, { 2 }) }, 0)
  return flat(backwards('conv1d_transpose', shape,
                        f.expand_dims(to_output(o.filters, graph.dtype(x), x.graph, 'conv1d_transpose'), 0), tall(x),
                        { strides = { 1, 1, stride, 1 }, dilations = { 1, 1, dilation, 1 }, padding = o.padding
                          or 'SAME' }), o.name)
end)

for name, pool in pairs{ max_pool1d = 'max_pool', avg_pool1d = 'avg_pool' } do
  def(name, { 'input', 'ksize', 'strides', 'padding' }, {}, function(o)
    required(name, o, 'input', 'ksize', 'strides', 'padding')
    local x = of_rank(name, o.input, 3, '[batch, width, channels]')
    return flat(f[pool](tall(x), { ksize = { 1, 1, one(name, 'ksize', o.ksize), 1 },
        strides = { 1, 1, one(name, 'strides', o.strides), 1 },
                                   padding = o.padding }), o.name)
  end)
end
for name, pool in pairs{ max_pool2d = 'max_pool', avg_pool2d = 'avg_pool' } do
  def(name, { 'input', 'ksize', 'strides', 'padding' }, {}, function(o)
    required(name, o, 'input', 'ksize', 'strides', 'padding')
    return f[pool](o.input, { ksize = o.ksize, strides = o.strides, padding = o.padding, name = o.name })
  end)
end

-- ---- over one axis, two or three, by the rank of what is given ------------------------------------------------------

--- How many axes the window moves along: 1, 2 or 3.
local function axes(name, x)
  local rank = graph.rank(x)
  if not rank or rank < 3 or rank > 5 then
    errors.bad('%s: the input is of rank %s, [batch, width, channels], [batch, height, width, channels] or '
               .. '[batch, depth, height, width, channels] is expected', name, rank or 'unknown')
  end
  return rank - 2
end

def('convolution', { 'input', 'filter', 'padding', 'strides', 'dilation_rate' }, {}, function(o)
  required('convolution', o, 'input', 'filter')
  local x = floats('convolution', o.input)
  local strides, rate, padding = o.strides or 1, o.dilation_rate or 1, o.padding or 'VALID'
  return f[('conv%dd')
    :format(axes('convolution', x))](x, o.filter, strides, padding, { dilations = rate, name = o.name })
end)
def('conv_transpose', { 'input', 'filters', 'output_shape', 'strides', 'padding' }, { 'dilations' }, function(o)
  required('conv_transpose', o, 'input', 'filters', 'output_shape', 'strides')
  local x = floats('conv_transpose', o.input)
  return f[('conv%dd_transpose'):format(axes('conv_transpose', x))](x, o.filters, o.output_shape, o.strides, o.padding,
      { dilations = o.dilations, name = o.name })
end)
def('pool', { 'input', 'window_shape', 'pooling_type', 'padding', 'strides' }, {}, function(o)
  required('pool', o, 'input', 'window_shape', 'pooling_type')
  local x, kind = floats('pool', o.input), o.pooling_type
  if kind ~= 'MAX' and kind ~= 'AVG' then
    errors.bad("pool: pooling_type is %s, 'MAX' or 'AVG' is expected", errors.describe(kind))
  end
  local fn = f[(kind == 'MAX' and 'max_pool' or 'avg_pool') .. axes('pool', x) .. 'd']
  return fn(x, o.window_shape, o.strides or 1, o.padding or 'VALID', { name = o.name })
end)

-- ---- normalisation --------------------------------------------------------------------------------------------------

--- batch_normalization(x, mean, variance, offset, scale, variance_epsilon): scale * (x - mean) / sqrt(variance +
-- epsilon) + offset, all but x broadcast; false stands for no offset or no scale.
def('batch_normalization', { 'x', 'mean', 'variance', 'offset', 'scale', 'variance_epsilon' }, {}, function(o)
  required('batch_normalization', o, 'x', 'mean', 'variance', 'variance_epsilon')
  local x = floats('batch_normalization', o.x)
  local variance = to_output(o.variance, graph.dtype(x), x.graph, 'batch_normalization')
  local by = f.rsqrt(variance + o.variance_epsilon)
  if o.scale then by = by * o.scale end
  local from = o.offset and o.offset - o.mean * by or -(o.mean * by)
  return f.add(x * by, from, { name = o.name })
end)
def('batch_norm_with_global_normalization',
    { 't', 'm', 'v', 'beta', 'gamma', 'variance_epsilon', 'scale_after_normalization' }, {}, function(o)
  required('batch_norm_with_global_normalization', o, 't', 'm', 'v', 'beta', 'variance_epsilon')
  if o.scale_after_normalization then required('batch_norm_with_global_normalization', o, 'gamma') end
  return f.batch_normalization(o.t, o.m, o.v, o.beta, o.scale_after_normalization and o.gamma or false,
                               o.variance_epsilon, { name = o.name })
end)

--- fused_batch_norm(x, scale, offset, {mean, variance, epsilon = 0.001, is_training = true, data_format = 'NHWC'}): y,
-- and the mean and the variance of the batch; by those that are given unless it is training.
def('fused_batch_norm', { 'x', 'scale', 'offset', 'mean', 'variance', 'epsilon', 'data_format', 'is_training',
                          'exponential_avg_factor' }, {},
function(o)
  required('fused_batch_norm', o, 'x', 'scale', 'offset')
  local x, training = to_output(o.x, nil, nil, 'fused_batch_norm'), o.is_training ~= false
  if not training then required('fused_batch_norm', o, 'mean', 'variance') end
  local epsilon = o.epsilon or 0.001
  if type(epsilon) ~= 'number' then
    errors.bad('fused_batch_norm: epsilon is %s, a number is expected', errors.describe(epsilon))
  end
  local dtype = graph.dtype(x)
  -- what is of channels is float32 then, as in TensorFlow
  local half = dtype == dtypes.FLOAT16 or dtype == dtypes.BFLOAT16
  local function channels(v) return half and f.cast(to_output(v, nil, x.graph, 'fused_batch_norm'), 'float32') or v end
  local scale = channels(o.scale)
  local none = (o.mean == nil or o.variance == nil)
  and f.zeros_like(to_output(scale, dtypes.FLOAT32, x.graph, 'fused_batch_norm'))
  local y, mean, variance = op('FusedBatchNormV3',
    { half and f.cast(x, 'float32') or x, scale, channels(o.offset), o.mean and channels(o.mean) or none,
      o.variance and channels(o.variance) or none },
    { epsilon = math.max(epsilon, 1.001e-5), data_format = o.data_format, is_training = training,
      exponential_avg_factor = o.exponential_avg_factor, name = not half and o.name or nil })
  return half and f.cast(y, dtypes.name[dtype]) or y, mean, variance
end)

-- ---- activations and losses -----------------------------------------------------------------------------------------

for _, name in ipairs{ 'swish', 'silu' } do
  def(name, { 'features', 'beta' }, {}, function(o)
    required(name, o, 'features')
    local x = floats(name, o.features)
    return f.multiply(x, f.sigmoid(o.beta and x * o.beta or x), { name = o.name })
  end)
end
def('crelu', { 'features', 'axis' }, {}, function(o)
  required('crelu', o, 'features')
  local x = floats('crelu', o.features)
  return f.relu(f.concat({ x, -x }, o.axis or -1), { name = o.name })
end)
def('xw_plus_b', { 'x', 'weights', 'biases' }, {}, function(o)
  required('xw_plus_b', o, 'x', 'weights', 'biases')
  return f.bias_add(f.matmul(o.x, o.weights), o.biases, { name = o.name })
end)

return f
