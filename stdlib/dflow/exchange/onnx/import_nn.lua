--- ONNX's operators of neural networks in dflow's words. ONNX has the channels second, dflow's convolutions have them last.
local df = require 'dflow'
local registry = require 'dflow.front.registry'
local import_ops = require 'dflow.exchange.onnx.import_ops'
local loops = require 'dflow.rnn.loops'

local ops, help = import_ops.ops, import_ops.help
local rank_of, axis_of, axes_of, vector, same = help.rank, help.axis, help.axes, help.vector, help.same
local unpack = table.unpack or unpack

-- ---- activations ----------------------------------------------------------------------------------------------------
local function select(c, a, b) return df.select_v2(c, a, b) end
local function positive(x) return df.greater(x, same(x, 0)) end
function ops.Relu(_, x) return df.maximum(x, same(x, 0)) end
function ops.LeakyRelu(n, x) return select(df.less(x, same(x, 0)), x * same(x, n.attr('alpha', 0.01)), x) end
function ops.PRelu(_, x, slope) return select(df.less(x, same(x, 0)), x * slope, x) end
function ops.Elu(n, x) return select(positive(x), x, same(x, n.attr('alpha', 1)) * df.expm1(df.minimum(x, same(x, 0)))) end
function ops.Celu(n, x)
  local alpha = same(x, n.attr('alpha', 1))
  return df.maximum(x, same(x, 0)) + df.minimum(same(x, 0), alpha * df.expm1(x / alpha))
end
function ops.Selu(n, x)
  local alpha, gamma = n.attr('alpha', 1.67326319217681884765625), n.attr('gamma', 1.05070102214813232421875)
  return same(x, gamma) * select(positive(x), x, same(x, alpha) * df.expm1(df.minimum(x, same(x, 0))))
end
function ops.ThresholdedRelu(n, x) return select(df.greater(x, same(x, n.attr('alpha', 1))), x, df.zeros_like(x)) end
function ops.HardSigmoid(n, x, alpha, beta)
  alpha, beta = n and n.attr('alpha', 0.2) or alpha, n and n.attr('beta', 0.5) or beta
  return df.maximum(same(x, 0), df.minimum(same(x, 1), x * same(x, alpha) + same(x, beta)))
end
function ops.HardSwish(_, x) return x * ops.HardSigmoid(nil, x, 1 / 6, 0.5) end
function ops.Softplus(_, x) return df.softplus(x) end
function ops.Softsign(_, x) return df.softsign(x) end
function ops.Mish(_, x) return x * df.tanh(df.softplus(x)) end
function ops.Gelu(n, x)
  if n.attr('approximate', 'none') == 'tanh' then
    local cube = x * x * x
    return same(x, 0.5) * x * (same(x, 1) + df.tanh(same(x, math.sqrt(2 / math.pi)) * (x + same(x, 0.044715) * cube)))
  end
  return same(x, 0.5) * x * (same(x, 1) + df.erf(x * same(x, math.sqrt(0.5))))
end
function ops.Shrink(n, x)
  local lambd, bias = n.attr('lambd', 0.5), n.attr('bias', 0)
  local low, high = df.less(x, same(x, -lambd)), df.greater(x, same(x, lambd))
  return select(low, x + same(x, bias), select(high, x - same(x, bias), df.zeros_like(x)))
end

--- fn over an axis, as softmax: before version 13 over all axes from it on.
local function over_axis(fn)
  return function(n, x)
    local rank = rank_of(n, x)
    local axis = axis_of(n, n.attr('axis', n.opset >= 13 and -1 or 1), rank)
    if n.opset >= 13 or axis == rank - 1 then
      local turn = {}
      for d = 0, rank - 1 do turn[d + 1] = d end
      turn[axis + 1], turn[rank] = rank - 1, axis
      if axis == rank - 1 then return fn(x) end
      return df.transpose(fn(df.transpose(x, turn)), turn)
    end
    local flat = ops.Flatten({ attr = function() return axis end, refuse = n.refuse }, x)
    return df.reshape(fn(flat), df.shape(x))
  end
end
ops.Softmax, ops.LogSoftmax = over_axis(function(x) return df.softmax(x) end), over_axis(function(x) return df.log_softmax(x) end)
function ops.Dropout(n, x, ratio, training)
  local on = training and help.known(training)
  if training and not (on and on[1] == false) and not (on and on[1] == 0) then
    local rate = ratio and help.known(ratio)
    if ratio and not rate or not on then
      local p = ratio and df.cast(df.reshape(ratio, vector({}, 'int32')), x.dtype) or same(x, 0.5)
      local drops = df.cast(df.reshape(training, vector({}, 'int32')), 'bool')
      local keep = df.logical_or(df.logical_not(drops), df.greater_equal(df.random_uniform(df.shape(x), { dtype = x.dtype }), p))
      return { select(keep, select(drops, x / (same(x, 1) - p), x), df.zeros_like(x)), keep }
    end
    rate = rate or { 0.5 }
    if rate[1] > 0 then
      local keep = df.greater_equal(df.random_uniform(df.shape(x), { dtype = x.dtype }), same(x, rate[1]))
      return { select(keep, x * same(x, 1 / (1 - rate[1])), df.zeros_like(x)), keep }
    end
  end
  return { df.identity(x), n.count > 1 and df.logical_or(df.equal(x, x), df.not_equal(x, x)) or nil }
end

-- ---- normalisation ----------------------------------------------------------------------------------------------------
--- One value per channel, so that it goes with x.
local function by_channel(v, rank)
  local dims = { -1 }
  for i = 2, rank - 1 do dims[i] = 1 end
  return df.reshape(v, dims)
end
function ops.BatchNormalization(n, x, scale, bias, mean, variance)
  local rank, epsilon = rank_of(n, x), n.attr('epsilon', 1e-5)
  local more = {}
  if n.attr('training_mode', 0) == 1 then
    local axes, keep = { 0 }, n.attr('momentum', 0.9)
    for d = 2, rank - 1 do axes[#axes + 1] = d end
    local m = df.reduce_mean(x, { axis = axes })
    local v = df.reduce_mean(df.square(x - by_channel(m, rank)), { axis = axes })
    more = { mean * same(mean, keep) + m * same(m, 1 - keep), variance * same(variance, keep) + v * same(v, 1 - keep) }
    mean, variance = m, v
  end
  local by = scale * df.rsqrt(variance + same(variance, epsilon))
  return { (x - by_channel(mean, rank)) * by_channel(by, rank) + by_channel(bias, rank), more[1], more[2] }
end

local function normal(x, axes, epsilon)
  local mean = df.reduce_mean(x, { axis = axes, keep_dims = true })
  local centred = x - mean
  local inverse = df.rsqrt(df.reduce_mean(df.square(centred), { axis = axes, keep_dims = true }) + same(x, epsilon))
  return centred * inverse, mean, inverse
end
local function from(first, rank)
  local axes = {}
  for d = first, rank - 1 do axes[#axes + 1] = d end
  return axes
end
function ops.InstanceNormalization(n, x, scale, bias)
  local rank = rank_of(n, x)
  return (normal(x, from(2, rank), n.attr('epsilon', 1e-5))) * by_channel(scale, rank) + by_channel(bias, rank)
end
function ops.LayerNormalization(n, x, scale, bias)
  local rank = rank_of(n, x)
  local y, mean, inverse = normal(x, from(axis_of(n, n.attr('axis', -1), rank), rank), n.attr('epsilon', 1e-5))
  y = y * scale
  return { bias and y + bias or y, mean, inverse }
end
function ops.GroupNormalization(n, x, scale, bias)
  local rank, groups = rank_of(n, x), n.attr 'num_groups'
  local shape = df.shape(x)
  local split = df.reshape(x, df.concat({ shape:slice({ 0 }, { 1 }), vector({ groups, -1 }, 'int32'), shape:slice({ 2 }, { rank - 2 }) }, 0))
  local y = normal(split, from(2, rank + 1), n.attr('epsilon', 1e-5))
  if n.opset >= 21 then return df.reshape(y, shape) * by_channel(scale, rank) + by_channel(bias, rank) end
  return df.reshape(y * by_channel(scale, rank + 1) + by_channel(bias, rank + 1), shape)
end
function ops.MeanVarianceNormalization(n, x)
  local axes = axes_of(n, n.attr('axes', { 0, 2, 3 }), rank_of(n, x))
  local mean = df.reduce_mean(x, { axis = axes, keep_dims = true })
  return (x - mean) / (df.sqrt(df.reduce_mean(df.square(x - mean), { axis = axes, keep_dims = true })) + same(x, 1e-9))
end
function ops.LpNormalization(n, x)
  local axis = axis_of(n, n.attr('axis', -1), rank_of(n, x))
  local one = n.attr('p', 2) == 1
  local sum = df.reduce_sum(one and df.abs(x) or df.square(x), { axis = axis, keep_dims = true })
  return df.div_no_nan(x, one and sum or df.sqrt(sum))           -- zeros stay zeros
end

-- ---- padding --------------------------------------------------------------------------------------------------------------
--- x with `before` and `after` elements (a negative number takes away) along an axis, those of the border, or as `mode` says.
local function pad_along(x, axis, before, after, mode)
  local dim = df.dim(x, axis)
  local i = df.range(0, dim + (before + after)) - before
  if mode == 'edge' then i = df.maximum(0, df.minimum(i, dim - 1))
  elseif mode == 'wrap' then i = df.floor_mod(i, dim)
  else
    local period = df.maximum(2 * dim - 2, 1)
    i = df.floor_mod(i, period)
    i = df.minimum(i, period - i)
  end
  return df.gather(x, i, { axis = axis })
end

local function pad(x, pairs_of, value)
  local any, cut, grow, begin, size = false, false, {}, {}, {}
  for d, p in ipairs(pairs_of) do
    grow[d] = { math.max(p[1], 0), math.max(p[2], 0) }
    any = any or grow[d][1] + grow[d][2] > 0
    cut = cut or p[1] < 0 or p[2] < 0
    begin[d] = math.max(-p[1], 0)
    size[d] = math.max(-p[2], 0)
  end
  if any then x = df.pad_v2(x, grow, value) end
  if cut then x = df.slice(x, vector(begin, 'int32'), df.shape(x) - vector(begin, 'int32') - vector(size, 'int32')) end
  return x
end
--- By `rows`, an int32[rank, 2] of what goes before and after, known only when it runs.
local function pad_as_known_later(x, rows, value, mode, rank)
  rows = df.reshape(rows, { rank, 2 })
  if mode ~= 'constant' then
    for d = 0, rank - 1 do x = pad_along(x, d, rows[d][0], rows[d][1], mode) end
    return x
  end
  local cut = df.maximum(-rows, 0)
  local y = df.pad_v2(x, df.maximum(rows, 0), value)
  return df.slice(y, cut:slice({ 0, 0 }, { rank, 1 }):reshape{ rank }, df.shape(y) - df.reduce_sum(cut, { axis = 1 }))
end
--- What is padded with where nothing is said: zero, false, no letters.
local function fill_of(n, x)
  if x.dtype == 'bool' then return df.constant(n.attr('value', 0) ~= 0) end
  return x.dtype == 'string' and df.constant '' or same(x, n.attr('value', 0))
end
function ops.Pad(n, x, pads, value, axes)
  local rank, mode = rank_of(n, x), n.attr('mode', 'constant')
  local list = pads and help.known(pads) or n.attr 'pads'
  local on = not axes and from(0, rank) or help.known(axes)
  value = value and df.reshape(value, vector({}, 'int32')) or fill_of(n, x)
  if not list or not on then
    local rows = df.transpose(df.reshape(pads and df.cast(pads, 'int32') or vector(list, 'int32'), { 2, -1 }))
    return pad_as_known_later(x, axes and help.spread(df.zeros({ rank, 2 }, 'int32'), axes, rows, rank) or rows, value, mode, rank)
  end
  on = axes_of(n, on, rank)
  local each = {}
  for d = 1, rank do each[d] = { 0, 0 } end
  for i, a in ipairs(on) do each[a + 1] = { list[i], list[#on + i] } end
  if mode == 'constant' then return pad(x, each, value) end
  for d, p in ipairs(each) do if p[1] ~= 0 or p[2] ~= 0 then x = pad_along(x, d - 1, p[1], p[2], mode) end end
  return x
end

-- ---- windows ----------------------------------------------------------------------------------------------------------------
--- What is said of a window over the last axes of x: by axis its size, stride, dilation, pads, and the number of places.
local function windows(n, x, size)
  local rank = rank_of(n, x)
  local m = rank - 2
  local strides, dilations, pads = n.attr 'strides', n.attr 'dilations', n.attr 'pads'
  local auto, out = n.attr('auto_pad', 'NOTSET'), {}
  for d = 1, m do
    local w = { size = size[d], stride = strides and strides[d] or 1, dilation = dilations and dilations[d] or 1, dim = x.shape[d + 2],
                before = 0, after = 0 }
    local reach = (w.size - 1) * w.dilation + 1
    if auto == 'SAME_UPPER' or auto == 'SAME_LOWER' then
      if w.dim < 0 then n:refuse 'its padding is known only when it runs' end
      local all = math.max((math.ceil(w.dim / w.stride) - 1) * w.stride + reach - w.dim, 0)
      w.before = auto == 'SAME_UPPER' and math.floor(all / 2) or math.ceil(all / 2)
      w.after = all - w.before
    elseif auto ~= 'VALID' and pads then
      w.before, w.after = pads[d], pads[m + d]
    end
    if w.dim >= 0 then
      local room = w.dim + w.before + w.after - reach
      w.count = math.floor(room / w.stride) + 1
      if n.attr('ceil_mode', 0) == 1 then
        w.count = math.ceil(room / w.stride) + 1
        if (w.count - 1) * w.stride >= w.dim + w.before then w.count = w.count - 1 end
        w.extra = math.max((w.count - 1) * w.stride + reach - (w.dim + w.before + w.after), 0)
      end
    end
    out[d] = w
  end
  return out
end

local function pads_of(ws, extra)
  local list = { { 0, 0 }, { 0, 0 } }
  for d, w in ipairs(ws) do list[d + 2] = { w.before, w.after + (extra and w.extra or 0) } end
  return list
end

--- [n, c, …] as [n, h, w, c], and back.
local function last(x, m)
  if m == 1 then x = df.expand_dims(x, 2) end
  return df.transpose(x, { 0, 2, 3, 1 })
end
local function second(y, m)
  y = df.transpose(y, { 0, 3, 1, 2 })
  return m == 1 and df.squeeze(y, { axis = { 2 } }) or y
end
local function four(ws, key)
  if #ws == 1 then return { 1, 1, ws[1][key], 1 } end
  return { 1, ws[1][key], ws[2][key], 1 }
end

local function kernel_of(n, w)
  local size = {}
  for d = 3, rank_of(n, w) do
    size[d - 2] = w.shape[d]
    if w.shape[d] < 0 then n:refuse 'the size of its kernel is known only when it runs' end
  end
  if #size < 1 or #size > 2 then n:refuse(('it has %d spatial axes; 1 and 2 are known'):format(#size)) end
  return size
end

function ops.Conv(n, x, w, bias)
  local size, groups = kernel_of(n, w), n.attr('group', 1)
  local m, ws = #size, windows(n, x, size)
  x = last(pad(x, pads_of(ws), same(x, 0)), m)
  local function one(part, filter)
    if m == 1 then filter = df.expand_dims(filter, 2) end
    return df.conv2d(part, df.transpose(filter, { 2, 3, 1, 0 }),
                     { strides = four(ws, 'stride'), dilations = four(ws, 'dilation'), padding = 'VALID' })
  end
  local y
  if groups == 1 then y = one(x, w)
  else
    local xs, filters, ys = df.split(x, groups, { axis = 3 }), df.split(w, groups, { axis = 0 }), {}
    for i = 1, groups do ys[i] = one(xs[i], filters[i]) end
    y = df.concat(ys, 3)
  end
  return second(bias and df.bias_add(y, bias) or y, m)
end

function ops.ConvTranspose(n, x, w, bias)
  local size, groups = kernel_of(n, w), n.attr('group', 1)
  local m, strides, dilations = #size, n.attr 'strides', n.attr 'dilations'
  local more, pads, wanted = n.attr 'output_padding', n.attr 'pads', n.attr 'output_shape'
  local auto, ws, cut, sizes = n.attr('auto_pad', 'NOTSET'), {}, { { 0, 0 }, { 0, 0 } }, {}
  for d = 1, m do
    local s, k, dim = strides and strides[d] or 1, dilations and dilations[d] or 1, x.shape[d + 2]
    if dim < 0 then n:refuse 'the size of its input is known only when it runs' end
    ws[d] = { stride = s, dilation = k }
    local add = more and more[d] or 0
    local full = s * (dim - 1) + (size[d] - 1) * k + 1
    local before, after = pads and pads[d] or 0, pads and pads[m + d] or 0
    local target = wanted and wanted[#wanted - m + d] or auto:find '^SAME' and dim * s
    if target then
      local all = full + add - target
      before = auto == 'SAME_UPPER' and math.floor(all / 2) or all - math.floor(all / 2)
      after = all - before
    end
    sizes[d] = full
    cut[d + 2] = { -before, add - after }
  end
  local function one(part, filter)
    if m == 1 then filter = df.expand_dims(filter, 2) end
    local to = { df.dim(part, 0), df.int32(m == 1 and 1 or sizes[1]), df.int32(sizes[m]), df.dim(filter, 1) }
    return registry.op('Conv2DBackpropInput', { df.stack(to), df.transpose(filter, { 2, 3, 1, 0 }), part },
                       { strides = four(ws, 'stride'), dilations = four(ws, 'dilation'), padding = 'VALID' })
  end
  x = last(x, m)
  local y
  if groups == 1 then y = one(x, w)
  else
    local xs, filters, ys = df.split(x, groups, { axis = 3 }), df.split(w, groups, { axis = 0 }), {}
    for i = 1, groups do ys[i] = one(xs[i], filters[i]) end
    y = df.concat(ys, 3)
  end
  y = pad(second(y, m), cut, same(x, 0))
  if not bias then return y end
  return y + by_channel(bias, m + 2)
end

-- A pool is as many slices as its window has places.
local MOST_PLACES = 65536

--- All elements of each window, one after another, given to fn(a, b).
local function pool(n, x, ws, fn)
  local m, result, places = #ws, nil, 1
  for _, w in ipairs(ws) do places = places * w.size end
  if places > MOST_PLACES then n:refuse(('its window has %.0f places; up to %d are taken'):format(places, MOST_PLACES)) end
  local at = {}
  for d = 1, m do at[d] = 0 end
  while true do
    local begin, stop, stride = { 0, 0 }, { 0, 0 }, { 1, 1 }
    for d, w in ipairs(ws) do
      if not w.count then n:refuse 'the size of its input is known only when it runs' end
      begin[d + 2] = at[d] * w.dilation
      stop[d + 2] = at[d] * w.dilation + (w.count - 1) * w.stride + 1
      stride[d + 2] = w.stride
    end
    local part = df.strided_slice(x, vector(begin, 'int32'), vector(stop, 'int32'), vector(stride, 'int32'), { begin_mask = 3, end_mask = 3 })
    result = result and fn(result, part) or part
    local d = m
    while d >= 1 and at[d] == ws[d].size - 1 do
      at[d] = 0
      d = d - 1
    end
    if d < 1 then return result end
    at[d] = at[d] + 1
  end
end
local lowest = { float32 = -math.huge, float64 = -math.huge, float16 = -math.huge, bfloat16 = -math.huge, int8 = -128, uint8 = 0, int32 = -2147483648 }
function ops.MaxPool(n, x)
  if n.count > 1 then n:refuse 'it gives the places of the maxima' end
  local ws = windows(n, x, n.attr 'kernel_shape')
  return pool(n, pad(x, pads_of(ws, true), same(x, lowest[x.dtype] or 0)), ws, df.maximum)
end
function ops.AveragePool(n, x)
  local ws = windows(n, x, n.attr 'kernel_shape')
  local sum = pool(n, pad(x, pads_of(ws, true), same(x, 0)), ws, df.add)
  local ones = df.ones_like(x)
  if n.attr('count_include_pad', 0) == 1 then ones = pad(ones, pads_of(ws), same(x, 1)) end
  local rest = { { 0, 0 }, { 0, 0 } }
  for d, w in ipairs(ws) do rest[d + 2] = { 0, w.extra or 0 } end
  ones = pad(ones, n.attr('count_include_pad', 0) == 1 and rest or pads_of(ws, true), same(x, 0))
  return sum / pool(n, ones, ws, df.add)
end
function ops.LpPool(n, x)
  local ws, p = windows(n, x, n.attr 'kernel_shape'), n.attr('p', 2)
  local sum = pool(n, pad(df.pow(df.abs(x), same(x, p)), pads_of(ws, true), same(x, 0)), ws, df.add)
  return df.pow(sum, same(x, 1 / p))
end
local function whole(ours)
  return function(n, x) return df[ours](x, { axis = from(2, rank_of(n, x)), keep_dims = true }) end
end
ops.GlobalAveragePool, ops.GlobalMaxPool = whole 'reduce_mean', whole 'reduce_max'
function ops.LRN(n, x)
  local size = n.attr 'size'
  local before, rank = math.floor((size - 1) / 2), rank_of(n, x)
  local channels = x.shape[2]
  if channels < 0 then n:refuse 'the number of channels is known only when it runs' end
  if size > MOST_PLACES then n:refuse(('its size is %.0f; up to %d is taken'):format(size, MOST_PLACES)) end
  local each = {}
  for d = 1, rank do each[d] = { 0, 0 } end
  each[2] = { before, size - 1 - before }
  local square, sum = pad(df.square(x), each, same(x, 0)), nil
  for i = 0, size - 1 do
    local begin, count = {}, {}
    for d = 1, rank do begin[d], count[d] = 0, -1 end
    begin[2], count[2] = i, channels
    local part = df.slice(square, begin, count)
    sum = sum and sum + part or part
  end
  return x / df.pow(same(x, n.attr('bias', 1)) + same(x, n.attr('alpha', 1e-4) / size) * sum, same(x, n.attr('beta', 0.75)))
end
function ops.DepthToSpace(n, x)
  local b, s = n.attr 'blocksize', df.shape(x)
  local c, one = s[1], n.attr('mode', 'DCR') == 'DCR'
  local k = df.int32(b)
  local split = one and { s[0], k, k, df.floor_div(c, b * b), s[2], s[3] } or { s[0], df.floor_div(c, b * b), k, k, s[2], s[3] }
  local turned = df.transpose(df.reshape(x, df.stack(split)), one and { 0, 3, 4, 1, 5, 2 } or { 0, 1, 4, 2, 5, 3 })
  return df.reshape(turned, df.stack{ s[0], df.floor_div(c, b * b), s[2] * b, s[3] * b })
end
function ops.SpaceToDepth(n, x)
  local b, s = n.attr 'blocksize', df.shape(x)
  local k = df.int32(b)
  local split = df.reshape(x, df.stack{ s[0], s[1], df.floor_div(s[2], b), k, df.floor_div(s[3], b), k })
  local turn = n.attr('mode', 'DCR') == 'DCR' and { 0, 3, 5, 1, 2, 4 } or { 0, 1, 3, 5, 2, 4 }
  return df.reshape(df.transpose(split, turn), df.stack{ s[0], s[1] * (b * b), df.floor_div(s[2], b), df.floor_div(s[3], b) })
end

-- ---- recurrent layers -------------------------------------------------------------------------------------------------------------
local activations = {
  Relu = function(x) return df.maximum(x, same(x, 0)) end, Tanh = df.tanh, Sigmoid = df.sigmoid, Softsign = df.softsign, Softplus = df.softplus,
  Affine = function(x, a, b) return x * same(x, a or 1) + same(x, b or 0) end,
  LeakyRelu = function(x, a) return select(df.less(x, same(x, 0)), x * same(x, a or 0.01), x) end,
  ThresholdedRelu = function(x, a) return select(df.greater(x, same(x, a or 1)), x, df.zeros_like(x)) end,
  ScaledTanh = function(x, a, b) return df.tanh(x * same(x, b or 1)) * same(x, a or 1) end,
  HardSigmoid = function(x, a, b) return ops.HardSigmoid(nil, x, a or 0.2, b or 0.5) end,
  Elu = function(x, a) return select(positive(x), x, same(x, a or 1) * df.expm1(df.minimum(x, same(x, 0)))) end,
}

--- The functions of one direction, `count` of them.
local function functions(n, direction, defaults)
  local names, alpha, beta, out = n.attr 'activations', n.attr('activation_alpha', {}), n.attr('activation_beta', {}), {}
  for i, default in ipairs(defaults) do
    local k = direction * #defaults + i
    local name = names and names[k] or default
    local fn = activations[name] or n:refuse(('it has the activation %s'):format(name))
    out[i] = function(x) return fn(x, alpha[k], beta[k]) end
  end
  local clip = n.attr 'clip'
  if not clip then return out end
  local clipped = {}
  for i, fn in ipairs(out) do
    clipped[i] = function(x) return fn(df.maximum(same(x, -clip), df.minimum(x, same(x, clip)))) end
  end
  return clipped
end

--- Runs step(x_t, states) -> states over the time axis of x [time, batch, …], backwards where it is so; past its length a row keeps its
-- states and gives zeros. Gives the outputs [time, batch, hidden] and the last states.
local function over_time(x, lengths, backward, states, step)
  local time = df.dim(x, 0)
  if lengths then x = loops.within(df.cast(lengths, 'int32'), x) end
  if backward then x = lengths and df.reverse_sequence(x, lengths, { seq_dim = 0, batch_dim = 1 }) or df.reverse(x, { 0 }) end
  local rows = df.TensorArray(x.dtype, time):unstack(x)
  local vars = { df.int32(0), df.TensorArray(x.dtype, time) }
  for i, s in ipairs(states) do vars[i + 2] = s end
  local results = { df.while_loop(function(t) return df.less(t, time) end, function(t, out, ...)
    local old = { ... }
    local new = { step(rows:read(t), unpack(old)) }
    local y = new[1]
    if lengths then
      local live = df.expand_dims(df.less(df.cast(t, lengths.dtype), lengths), -1)
      y = select(live, y, df.zeros_like(y))
      for i, s in ipairs(new) do new[i] = select(live, s, old[i]) end
    end
    return t + 1, out:write(t, y), unpack(new)
  end, vars) }
  local y = results[2]:stack()
  if backward then y = lengths and df.reverse_sequence(y, lengths, { seq_dim = 0, batch_dim = 1 }) or df.reverse(y, { 0 }) end
  return y, { unpack(results, 3) }
end

--- A recurrent layer: build(n, direction, weights) gives the step. `count`: states.
local function recurrent(count, gates, build)
  return function(n, x, w, r, b, lengths, h0, c0, peepholes)
    local layout, how = n.attr('layout', 0), n.attr('direction', 'forward')
    if layout == 1 then x = df.transpose(x, { 1, 0, 2 }) end
    local hidden = n.attr 'hidden_size' or r.shape[3]
    local directions, ys, finals = how == 'bidirectional' and 2 or 1, {}, {}
    local batch = df.dim(x, 1)
    for d = 0, directions - 1 do
      local function part(v) return v and v[d] end
      local states = {}
      for i, given in ipairs{ h0 or false, c0 or false } do
        if i <= count then
          local s = given and (layout == 1 and df.transpose(given, { 1, 0, 2 }) or given)[d]
          states[i] = s or df.zeros(df.stack{ batch, df.int32(hidden) }, x.dtype)
        end
      end
      local bias = part(b) or df.zeros({ 2 * gates * hidden }, x.dtype)
      local step = build(n, d, { w = df.transpose(w[d]), r = df.transpose(r[d]), wb = bias:slice({ 0 }, { gates * hidden }),
                                 rb = bias:slice({ gates * hidden }, { gates * hidden }), p = part(peepholes), hidden = hidden })
      ys[d + 1], finals[d + 1] = over_time(x, lengths, how == 'reverse' or d == 1, states, step)
    end
    local y = df.stack(ys, { axis = 1 })
    local out = { layout == 1 and df.transpose(y, { 2, 0, 1, 3 }) or y }
    for i = 1, count do
      local list = {}
      for d = 1, directions do list[d] = finals[d][i] end
      local s = df.stack(list, { axis = 0 })
      out[i + 1] = layout == 1 and df.transpose(s, { 1, 0, 2 }) or s
    end
    return out
  end
end

ops.RNN = recurrent(1, 1, function(n, d, p)
  local f = functions(n, d, { 'Tanh' })
  return function(x, h) return f[1](df.matmul(x, p.w) + df.matmul(h, p.r) + (p.wb + p.rb)) end
end)

ops.GRU = recurrent(1, 3, function(n, d, p)
  local f, size, before = functions(n, d, { 'Sigmoid', 'Tanh' }), p.hidden, n.attr('linear_before_reset', 0) == 1
  local function columns(m, i) return m:slice({ 0, i * size }, { -1, size }) end
  local function part(v, i) return v:slice({ i * size }, { size }) end
  return function(x, h)
    local wx = df.matmul(x, p.w) + p.wb
    local rh = df.matmul(h, p.r:slice({ 0, 0 }, { -1, 2 * size })) + p.rb:slice({ 0 }, { 2 * size })
    local z = f[1](columns(wx, 0) + columns(rh, 0))
    local r = f[1](columns(wx, 1) + columns(rh, 1))
    local matrix, bias = columns(p.r, 2), part(p.rb, 2)
    local inner = before and r * (df.matmul(h, matrix) + bias) or df.matmul(r * h, matrix) + bias
    local new = f[2](columns(wx, 2) + inner)
    return (same(z, 1) - z) * new + z * h
  end
end)

ops.LSTM = recurrent(2, 4, function(n, d, p)
  local f, size, coupled = functions(n, d, { 'Sigmoid', 'Tanh', 'Tanh' }), p.hidden, n.attr('input_forget', 0) == 1
  return function(x, h, c)
    local all = df.matmul(x, p.w) + df.matmul(h, p.r) + (p.wb + p.rb)
    local function gate(i) return all:slice({ 0, i * size }, { -1, size }) end
    local function peep(i, state) return p.p and state * p.p:slice({ i * size }, { size }) or same(state, 0) end
    local i = f[1](gate(0) + peep(0, c))
    local forget = coupled and same(i, 1) - i or f[1](gate(2) + peep(2, c))
    local new = forget * c + i * f[2](gate(3))
    local o = f[1](gate(1) + peep(1, new))
    return o * f[3](new), new
  end
end)

return import_ops
