--- Normalisations: over the batch (with averages that move), over the features of each example, over groups of them.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local control = require 'dflow.front.control'
local ops = require 'dflow.front.ops'
local initializers = require 'dflow.nn.initializers'
local layer = require 'dflow.nn.layer'

local M = {}
local f = ops.functions
local zeros, ones = initializers.zeros(), initializers.ones()

--- Reduced precision is too narrow for means of many squares: they are taken in float32.
local function wide(x)
  return (x.dtype == 'float16' or x.dtype == 'bfloat16') and f.cast(x, 'float32') or x
end

--- Mean and variance over the axes, which stay with size 1.
local function statistics(x, axes)
  local mean = f.reduce_mean(x, { axis = axes, keep_dims = true })
  return mean, f.reduce_mean(f.square(x - mean), { axis = axes, keep_dims = true })
end

local function affine(opts, kind)
  return {
    epsilon = layer.number(opts.epsilon, kind, 'epsilon', nil), name = opts.name,
    center = layer.flag(opts.center, kind, 'center', true), scale = layer.flag(opts.scale, kind, 'scale', true),
    gamma_initializer = initializers.check(opts.gamma_initializer, ones, kind .. ': gamma_initializer'),
    beta_initializer = initializers.check(opts.beta_initializer, zeros, kind .. ': beta_initializer'),
  }
end
local known = { 'epsilon', 'center', 'scale', 'gamma_initializer', 'beta_initializer', 'axis', 'momentum', 'groups',
                'fused' }

local function make_affine(l, n)
  if l.scale then l:weight('gamma', { n }, l.gamma_initializer) end
  if l.center then l:weight('beta', { n }, l.beta_initializer) end
end

--- (x - mean) / sqrt(variance + epsilon) * gamma + beta, with gamma and beta as `spread` makes them fit x.
local function normalize(l, x, mean, variance, spread)
  local factor = f.rsqrt(variance + l.epsilon)
  local like = wide(x)
  local y = (like - mean) * factor
  if like ~= x then y = f.cast(y, x.dtype) end
  if l.scale then y = y * spread(l.gamma) end
  if l.center then y = y + spread(l.beta) end
  return y
end

local function same(v) return v end

-- ---- BatchNorm ------------------------------------------------------------------------------------------------------
--- The axis as a number from 0, for the layer's input x.
local function axis_of(l, x)
  local rank = #x.shape
  local at = l.axis < 0 and l.axis + rank or l.axis
  if at < 0 or at >= rank then
    l:bad('there is no axis %d in its input %s', l.axis, tensor.shape_text(x.dtype, x.shape))
  end
  return at
end

--- Moves the averages towards the batch's mean and variance; the operations that do it.
local function move(l, mean, variance, count, at)
  local shape = l.moving_mean.shape
  local updates = {}
  -- An image's variance is what TensorFlow's fused kernel gives: of the sample, n / (n - 1) times that of the batch.
  if l.fused then variance = variance * (count / f.maximum(count - 1, 1)) end
  for i, pair in ipairs{ { l.moving_mean, mean }, { l.moving_variance, variance } } do
    local now = f.reshape(pair[2], shape)
    if now.dtype ~= l.dtype then now = f.cast(now, l.dtype) end
    updates[i] = pair[1]:assign_sub((pair[1]:value() - now) * (1 - l.momentum)).op
  end
  return updates, at
end

local BatchNorm = layer.class{
  kind = 'BatchNorm', made = { 'gamma', 'beta', 'moving_mean', 'moving_variance' }, known = known,
  options = { 'training' },
  text = function(l) return l.axis == -1 and '' or 'axis = ' .. l.axis end,
  build = function(l, x, at)
    local n = l:size_of(x, at)
    make_affine(l, n)
    l:weight('moving_mean', { n }, zeros, false)
    l:weight('moving_variance', { n }, ones, false)
    l.fused = #x.shape == 4
  end,
  call = function(l, opts, x)
    x = l:input(x, 2, nil, '[batch, ..., channels]')
    local at = axis_of(l, x)
    l:prepare(x, at)
    local rank, axes, spread_shape = #x.shape, {}, {}
    for i = 0, rank - 1 do
      if i ~= at then axes[#axes + 1] = i end
      spread_shape[i + 1] = i == at and l.moving_mean.shape[1] or 1
    end
    local n = x.shape[at + 1]
    if n >= 0 and n ~= spread_shape[at + 1] then
      l:bad('its input %s has %d channels, it was made for %d', tensor.shape_text(x.dtype, x.shape), n,
            spread_shape[at + 1])
    end
    local function spread(v) return at == rank - 1 and v or f.reshape(v, spread_shape) end
    local function by_batch()
      local w = wide(x)
      local mean, variance = statistics(w, axes)
      local count = f.cast(f.size(w), w.dtype) / spread_shape[at + 1]
      local updates = move(l, f.stop_gradient(mean), f.stop_gradient(variance), count)
      -- What everything after needs, gradients too, waits for the averages: so they move whenever this call is used.
      variance = graph.control_dependencies(updates, function() return f.identity(variance) end)
      return normalize(l, x, mean, variance, spread)
    end
    local function by_averages()
      local mean, variance = spread(wide(l.moving_mean:value())), spread(wide(l.moving_variance:value()))
      return normalize(l, x, mean, variance, spread)
    end
    local training = l:training(opts)
    local y
    if training == true then y = by_batch()
    elseif training == false then y = by_averages()
    else y = control.cond(training, by_batch, by_averages, { name = 'batch_norm' }) end
    if y.shape == nil then y:set_shape(x.shape) end
    return l:shaped(x, y)
  end,
}

--- df.nn.BatchNorm{axis = -1, momentum = 0.99, epsilon = 1e-3, center = true, scale = true, name}: l(x, {training =
-- true}).
-- In training x is normalised by its mean and variance over all axes but `axis`, and the moving averages go a part 1 -
-- momentum of the way to them, each time the call runs; otherwise x is normalised by the averages. `training` may be a
-- scalar bool Output.
function M.BatchNorm(opts)
  opts = errors.options(opts, 'BatchNorm', { 'axis', 'momentum', 'epsilon', 'center', 'scale', 'gamma_initializer',
      'beta_initializer', 'name' })
  local l = affine(opts, 'BatchNorm')
  l.epsilon, l.momentum = l.epsilon or 1e-3, layer.number(opts.momentum, 'BatchNorm', 'momentum', 0.99)
  l.axis = layer.whole(opts.axis or -1, 'BatchNorm', 'axis', -8)
  return layer.new(BatchNorm, l)
end

-- ---- LayerNorm, RMSNorm ---------------------------------------------------------------------------------------------
local function over_features(kind, made, epsilon, center, call)
  local class = layer.class{
    kind = kind, made = made, known = known,
    build = function(l, x) make_affine(l, l:size_of(x, -1)) end,
    call = function(l, _, x)
      x = l:input(x, 1, nil, '[..., features]')
      l:prepare(x)
      local n = x.shape[#x.shape]
      local made_for = rawget(l, 'gamma') and l.gamma.shape[1] or rawget(l, 'beta') and l.beta.shape[1]
      if made_for and n >= 0 and n ~= made_for then
        l:bad('its input %s has %d features, it was made for %d', tensor.shape_text(x.dtype, x.shape), n, made_for)
      end
      return l:shaped(x, call(l, x))
    end,
  }
  M[kind] = function(opts)
    local names = center and { 'epsilon', 'center', 'scale', 'gamma_initializer', 'beta_initializer', 'name' }
      or { 'epsilon', 'scale', 'gamma_initializer', 'name' }
    local l = affine(errors.options(opts, kind, names), kind)
    l.epsilon = l.epsilon or epsilon
    if not center then l.center = false end
    return layer.new(class, l)
  end
end

--- df.nn.LayerNorm{epsilon = 1e-6, center = true, scale = true, name}: each example by mean and variance of its last
-- axis.
over_features('LayerNorm', { 'gamma', 'beta' }, 1e-6, true, function(l, x)
  local mean, variance = statistics(wide(x), { -1 })
  return normalize(l, x, mean, variance, same)
end)

--- df.nn.layer_norm(x, {gamma, beta, axis = -1, epsilon = 1e-6}): each example by mean and variance over an axis or a
-- list of them, times gamma, plus beta; what LayerNorm does with variables of its own.
function M.layer_norm(x, opts)
  opts = errors.options(opts, 'layer_norm', { 'gamma', 'beta', 'axis', 'epsilon' })
  x = convert.to_output(x, convert.typed(x) or dtypes.FLOAT32, nil, 'layer_norm')
  if not dtypes.is_float(graph.dtype(x)) then errors.bad('layer_norm: x is %s, a float dtype is expected', x.dtype) end
  local l = { epsilon = layer.number(opts.epsilon, 'layer_norm', 'epsilon', 1e-6), scale = opts.gamma ~= nil,
              center = opts.beta ~= nil }
  for key, given in pairs{ gamma = opts.gamma, beta = opts.beta } do
    l[key] = convert.to_output(given, graph.dtype(x), x.graph, 'layer_norm')
  end
  local mean, variance = statistics(wide(x), opts.axis == nil and { -1 } or opts.axis)
  return normalize(l, x, mean, variance, same)
end

--- df.nn.RMSNorm{epsilon = 1e-6, scale = true, name}: x / sqrt(mean of squares over the last axis + epsilon) * gamma.
over_features('RMSNorm', { 'gamma' }, 1e-6, false, function(l, x)
  local w = wide(x)
  local y = w * f.rsqrt(f.reduce_mean(f.square(w), { axis = -1, keep_dims = true }) + l.epsilon)
  if w ~= x then y = f.cast(y, x.dtype) end
  return l.scale and y * l.gamma or y
end)

-- ---- GroupNorm ------------------------------------------------------------------------------------------------------
local GroupNorm = layer.class{
  kind = 'GroupNorm', made = { 'gamma', 'beta' }, known = known,
  text = function(l) return tostring(l.groups) end,
  build = function(l, x)
    local n = l:size_of(x, -1)
    if n % l.groups ~= 0 then l:bad('its input has %d channels, which %d groups do not divide', n, l.groups) end
    make_affine(l, n)
  end,
  call = function(l, _, x)
    x = l:input(x, 2, nil, '[batch, ..., channels]')
    l:prepare(x)
    local rank, n = #x.shape, l:size_of(x, -1)
    if n % l.groups ~= 0 or (rawget(l, 'gamma') and n ~= l.gamma.shape[1]) then
      l:bad('its input %s has %d channels, it was made for %d', tensor.shape_text(x.dtype, x.shape), n,
            l.gamma.shape[1])
    end
    -- [batch, places, groups, channels of a group], the statistics over places and channels of a group
    local w = wide(x)
    local parts = f.reshape(w, f.stack{ f.dim(x, 0), -1, l.groups, math.floor(n / l.groups) })
    local mean, variance = statistics(parts, { 1, 3 })
    local y = f.reshape((parts - mean) * f.rsqrt(variance + l.epsilon), f.shape(x)):set_shape(x.shape)
    if w ~= x then y = f.cast(y, x.dtype) end
    if l.scale then y = y * l.gamma end
    if l.center then y = y + l.beta end
    return l:shaped(x, rank and y)
  end,
}

--- df.nn.GroupNorm{groups = 32, epsilon = 1e-3, center = true, scale = true, name}: each example by mean and variance
-- of groups of its channels, over all places.
function M.GroupNorm(opts)
  opts = errors.options(opts, 'GroupNorm',
                        { 'groups', 'epsilon', 'center', 'scale', 'gamma_initializer', 'beta_initializer', 'name' })
  local l = affine(opts, 'GroupNorm')
  l.epsilon, l.groups = l.epsilon or 1e-3, layer.whole(opts.groups or 32, 'GroupNorm', 'groups')
  return layer.new(GroupNorm, l)
end

return M
