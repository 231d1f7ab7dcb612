--- Layers that slide a window: convolutions over images, volumes and [batch, width, channels], and pooling.
local errors = require 'dflow.front.errors'
local tensor = require 'dflow.front.tensor'
local registry = require 'dflow.front.registry'
local windows = require 'dflow.front.windows'
local ops = require 'dflow.front.ops'
local initializers = require 'dflow.nn.initializers'
local layer = require 'dflow.nn.layer'

local M = {}
local f = ops.functions
local glorot, zeros = initializers.glorot_uniform(), initializers.zeros()
local AXES = { '[batch, width, channels]', '[batch, height, width, channels]',
               '[batch, depth, height, width, channels]' }
local or_more = { '', ' or two of them', ' or three of them' }
local common = { 'strides', 'padding', 'dilation', 'activation', 'use_bias', 'kernel_initializer', 'bias_initializer',
                 'name' }
local fields = { 'filters', 'size', 'strides', 'padding', 'dilation', 'activation', 'use_bias', 'kernel_initializer',
                 'bias_initializer',
                 'depth_multiplier' }

--- One number for each axis of the window: of a number, or a list.
local function per_axis(v, n, kind, what)
  local list = v
  if type(v) == 'number' then
    list = {}
    for i = 1, n do list[i] = v end
  end
  if not errors.is_data(list) or #list ~= n then
    errors.bad('%s: %s is a whole number%s, not %s', kind, what, or_more[n], errors.describe(v))
  end
  local out = {}
  for i = 1, n do out[i] = layer.whole(list[i], kind, what) end
  return out
end

local function padding_of(v, kind, causal)
  local text = v == nil and 'VALID' or type(v) == 'string' and v:upper() or v
  if text == 'VALID' or text == 'SAME' or (causal and text == 'CAUSAL') then return text end
  errors.bad("%s: padding is 'VALID'%s 'SAME'%s, not %s", kind, causal and ',' or ' or', causal and " or 'CAUSAL'"
             or '', errors.describe(v))
end

--- The fields of a convolution of n axes, checked.
local function convolution(kind, n, filters, size, opts)
  return {
    filters = filters, size = per_axis(size, n, kind, 'the size of the window'), name = opts.name,
    strides = per_axis(opts.strides or 1, n, kind, 'strides'),
    dilation = per_axis(opts.dilation or 1, n, kind, 'dilation'), padding = padding_of(opts.padding, kind, n == 1),
    activation = layer.activation(opts.activation, kind), use_bias = layer.flag(opts.use_bias, kind, 'use_bias', true),
    kernel_initializer = initializers.check(opts.kernel_initializer, glorot, kind .. ': kernel_initializer'),
    bias_initializer = initializers.check(opts.bias_initializer, zeros, kind .. ': bias_initializer'),
  }
end

local function text_of(l)
  return (l.filters and l.filters .. ', ' or '') .. table.concat(l.size, 'x')
end

--- Ends every call: the channels fit the kernel, then bias and activation.
local function check_channels(l, x, axis)
  local shape, expected = x.shape, l.kernel.shape
  local channels = shape[#shape]
  if channels >= 0 and channels ~= expected[axis] then
    l:bad('its input %s has %d channels, its kernel is for %d', tensor.shape_text(x.dtype, shape), channels,
          expected[axis])
  end
end
local function finish(l, x, y)
  if l.use_bias then y = y + l.bias end
  if l.activation then y = l.activation(y) end
  return l:shaped(x, y)
end

--- Does the window fit where nothing is padded? As far as sizes are known; axes 1 … n of the input.
local function check_reach(l, x)
  if l.padding ~= 'VALID' then return end
  for i, size in ipairs(l.size) do
    local have, reach = x.shape[i + 1], (size - 1) * (l.dilation and l.dilation[i] or 1) + 1
    if have >= 0 and reach > have then
      l:bad("a window that reaches over %d does not fit into the %d of axis %d of its input %s; {padding = 'SAME'} "
            .. "fills up with zeros",
            reach, have, i, tensor.shape_text(x.dtype, x.shape))
    end
  end
end

--- strides, padding and dilations as the nodes have them.
local function window(l)
  return { strides = windows.each(l.strides, #l.size), padding = l.padding,
           dilations = windows.each(l.dilation, #l.size) }
end

--- The size of the window, and then these two numbers: the shape of a kernel.
local function kernel_shape(l, from, to)
  local shape = {}
  for i, size in ipairs(l.size) do shape[i] = size end
  shape[#shape + 1], shape[#shape + 2] = from, to
  return shape
end

-- ---- Conv2D, Conv3D -------------------------------------------------------------------------------------------------
local function convolves(kind, n, op)
  local class = layer.class{
    kind = kind, made = { 'kernel', 'bias' }, known = fields, text = text_of,
    build = function(l, x)
      l:weight('kernel', kernel_shape(l, l:size_of(x, n + 1), l.filters), l.kernel_initializer)
      if l.use_bias then l:weight('bias', { l.filters }, l.bias_initializer) end
    end,
    call = function(l, _, x)
      x = l:input(x, n + 2, n + 2, AXES[n])
      l:prepare(x)
      check_channels(l, x, n + 1)
      check_reach(l, x)
      return finish(l, x, f[op](x, l.kernel, window(l)))
    end,
  }
  M[kind] = function(filters, size, opts)
    opts = errors.options(opts, kind, common)
    return layer.new(class, convolution(kind, n, layer.whole(filters, kind, 'filters'), size, opts))
  end
end

--- df.nn.Conv2D(filters, size, {strides = 1, padding = 'VALID', dilation = 1, activation, use_bias = true,
-- kernel_initializer, bias_initializer, name}): size, strides and dilation are a number or {height, width}; kernel is
-- [h, w, in, filters].
-- df.nn.Conv3D is the same over volumes: {depth, height, width}, kernel [d, h, w, in, filters].
convolves('Conv2D', 2, 'conv2d')
convolves('Conv3D', 3, 'conv3d')

-- ---- Conv1D: an image of height 1 -----------------------------------------------------------------------------------
local Conv1D = layer.class{
  kind = 'Conv1D', made = { 'kernel', 'bias' }, known = fields, text = text_of,
  build = function(l, x)
    l:weight('kernel', { l.size[1], l:size_of(x, 2), l.filters }, l.kernel_initializer)
    if l.use_bias then l:weight('bias', { l.filters }, l.bias_initializer) end
  end,
  call = function(l, _, x)
    x = l:input(x, 3, 3, AXES[1])
    l:prepare(x)
    check_channels(l, x, 2)
    check_reach(l, x)
    local image, padding = f.expand_dims(x, 1), l.padding
    if padding == 'CAUSAL' then
      image, padding = f.pad(image, { { 0, 0 }, { 0, 0 }, { (l.size[1] - 1) * l.dilation[1], 0 }, { 0, 0 } }), 'VALID'
    end
    local y = f.conv2d(image, f.expand_dims(l.kernel, 0), { strides = { 1, 1, l.strides[1], 1 }, padding = padding,
        dilations = { 1, 1, l.dilation[1], 1 } })
    return finish(l, x, f.squeeze(y, 1))
  end,
}

--- df.nn.Conv1D(filters, size, {as Conv2D}): over [batch, width, channels]; kernel is [w, in, filters]. padding =
-- 'CAUSAL' pads in front only, so that no place sees what comes after it.
function M.Conv1D(filters, size, opts)
  opts = errors.options(opts, 'Conv1D', common)
  return layer.new(Conv1D, convolution('Conv1D', 1, layer.whole(filters, 'Conv1D', 'filters'), size, opts))
end

-- ---- DepthwiseConv2D ------------------------------------------------------------------------------------------------
local DepthwiseConv2D = layer.class{
  kind = 'DepthwiseConv2D', made = { 'kernel', 'bias' }, known = fields, text = text_of,
  build = function(l, x)
    local channels = l:size_of(x, 3)
    l:weight('kernel', { l.size[1], l.size[2], channels, l.depth_multiplier }, l.kernel_initializer)
    if l.use_bias then l:weight('bias', { channels * l.depth_multiplier }, l.bias_initializer) end
  end,
  call = function(l, _, x)
    x = l:input(x, 4, 4, AXES[2])
    l:prepare(x)
    check_channels(l, x, 3)
    check_reach(l, x)
    return finish(l, x, registry.op('DepthwiseConv2dNative', { x, l.kernel }, window(l)))
  end,
}

--- df.nn.DepthwiseConv2D(size, {depth_multiplier = 1, and as Conv2D}): each channel by itself, into `depth_multiplier`
-- ones; kernel is [h, w, in, depth_multiplier], the result has in × depth_multiplier channels.
function M.DepthwiseConv2D(size, opts)
  local known = { 'depth_multiplier' }
  for _, name in ipairs(common) do known[#known + 1] = name end
  opts = errors.options(opts, 'DepthwiseConv2D', known)
  local l = convolution('DepthwiseConv2D', 2, nil, size, opts)
  l.depth_multiplier = layer.whole(opts.depth_multiplier or 1, 'DepthwiseConv2D', 'depth_multiplier')
  return layer.new(DepthwiseConv2D, l)
end

-- ---- Conv2DTranspose, Conv3DTranspose -------------------------------------------------------------------------------
--- The size of one axis of the result, as TensorFlow's layers choose it: the least that the convolution could have come
-- from, but no smaller than the window. A number, or an Output where `n` is one.
local function grown(l, n, axis)
  local reach, stride = (l.size[axis] - 1) * l.dilation[axis] + 1, l.strides[axis]
  return n * stride + (l.padding == 'VALID' and math.max(reach - stride, 0) or 0)
end

--- The sizes of the result of x, and those that are known of them (-1: not).
local function grown_sizes(l, x)
  local shape, n, sizes, static = x.shape, #l.size, {}, {}
  for i = 1, n + 1 do
    local size = shape[i] >= 0 and shape[i] or f.dim(x, i - 1)
    sizes[i] = i == 1 and size or grown(l, size, i - 1)
    static[i] = shape[i] >= 0 and sizes[i] or -1
  end
  sizes[n + 2], static[n + 2] = l.filters, l.filters
  return sizes, static
end

local function transposes(kind, n, op)
  local class = layer.class{
    kind = kind, made = { 'kernel', 'bias' }, known = fields, text = text_of,
    build = function(l, x)
      l:weight('kernel', kernel_shape(l, l.filters, l:size_of(x, n + 1)), l.kernel_initializer)
      if l.use_bias then l:weight('bias', { l.filters }, l.bias_initializer) end
    end,
    call = function(l, _, x)
      x = l:input(x, n + 2, n + 2, AXES[n])
      l:prepare(x)
      check_channels(l, x, n + 2)
      local sizes, static = grown_sizes(l, x)
      local late = false
      for _, size in ipairs(static) do late = late or size < 0 end
      local y = registry.op(op, { late and f.stack(sizes) or f.int32(sizes), l.kernel, x }, window(l))
      if late then y:set_shape(static) end
      return finish(l, x, y)
    end,
  }
  M[kind] = function(filters, size, opts)
    opts = errors.options(opts, kind, common)
    return layer.new(class, convolution(kind, n, layer.whole(filters, kind, 'filters'), size, opts))
  end
end

--- df.nn.Conv2DTranspose(filters, size, {as Conv2D}): the transpose of a convolution (its gradient with respect to its
-- input), which makes images larger; kernel is [h, w, filters, in]. df.nn.Conv3DTranspose is the same over volumes.
transposes('Conv2DTranspose', 2, 'Conv2DBackpropInput')
transposes('Conv3DTranspose', 3, 'Conv3DBackpropInputV2')

-- ---- pooling --------------------------------------------------------------------------------------------------------
local function pooling(kind, op, n)
  local class = layer.class{
    kind = kind, known = fields, text = text_of,
    call = function(l, _, x)
      x = l:input(x, n + 2, n + 2, AXES[n])
      check_reach(l, x)
      return l:shaped(x, f[op](x, l.size, l.strides, l.padding))
    end,
  }
  M[kind] = function(size, opts)
    opts = errors.options(opts, kind, { 'strides', 'padding', 'name' })
    local of = per_axis(size, n, kind, 'the size of the window')
    return layer.new(class, { size = of, strides = per_axis(opts.strides or of, n, kind, 'strides'),
                              padding = padding_of(opts.padding, kind), name = opts.name })
  end
end
--- df.nn.MaxPool2D(size, {strides = size, padding = 'VALID', name}), AvgPool2D, and the same of [batch, width,
-- channels] and of volumes.
for n = 1, 3 do
  pooling(('MaxPool%dD'):format(n), ('max_pool%dd'):format(n), n)
  pooling(('AvgPool%dD'):format(n), ('avg_pool%dd'):format(n), n)
end

local function global(kind, reduce)
  local class = layer.class{
    kind = kind,
    call = function(l, _, x)
      x = l:input(x, 3, nil, AXES[2] .. ' or ' .. AXES[1])
      local axes = {}
      for i = 1, #x.shape - 2 do axes[i] = i end
      return l:shaped(x, f[reduce](x, { axis = axes }))
    end,
  }
  M[kind] = function(opts)
    opts = errors.options(opts, kind, { 'name' })
    return layer.new(class, { name = opts.name })
  end
end
--- df.nn.GlobalMaxPool(), df.nn.GlobalAvgPool(): [batch, ..., channels] -> [batch, channels].
global('GlobalMaxPool', 'reduce_max')
global('GlobalAvgPool', 'reduce_mean')

return M
