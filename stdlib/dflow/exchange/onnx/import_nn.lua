--- ONNX's operators of neural networks in dflow's words. ONNX has the channels second, dflow's convolutions have them
-- last.
local df = require 'dflow'
local import_ops = require 'dflow.exchange.onnx.import_ops'
require 'dflow.exchange.onnx.import_windows'
local layouts = require 'dflow.exchange.onnx.layout'
local loops = require 'dflow.rnn.loops'

local ops, help = import_ops.ops, import_ops.help
local rank_of, axis_of, axes_of, vector, same = help.rank, help.axis, help.axes, help.vector, help.same
local unpack = table.unpack or unpack

-- ---- activations ----------------------------------------------------------------------------------------------------
local function select(c, a, b) return df.select_v2(c, a, b) end
local function positive(x) return df.greater(x, same(x, 0)) end
function ops.Relu(_, x) return df.maximum(x, same(x, 0)) end
function ops.LeakyRelu(n, x) return select(df.less(x, same(x, 0)), x * same(x, n.attr('alpha', 0.01)), x) end
function ops.PRelu(n, x, slope)
  -- a slope for each channel then
  local dims = n.opset < 7 and x.shape and slope.shape and #slope.shape == 1 and slope.shape[1] ~= 1 and { -1 }
  for d = 2, dims and #x.shape - 1 or 0 do dims[d] = 1 end
  return select(df.less(x, same(x, 0)), x * (dims and df.reshape(slope, dims) or slope), x)
end
function ops.Elu(n, x)
  return select(positive(x), x, same(x, n.attr('alpha', 1)) * df.expm1(df.minimum(x, same(x, 0))))
end
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
ops.Softmax, ops.LogSoftmax = over_axis(function(x) return df.softmax(x) end),
  over_axis(function(x) return df.log_softmax(x) end)
function ops.Dropout(n, x, ratio, training)
  local on = training and help.known(training)
  if training and not (on and on[1] == false) and not (on and on[1] == 0) then
    local rate = ratio and help.known(ratio)
    if ratio and not rate or not on then
      local p = ratio and df.cast(df.reshape(ratio, vector({}, 'int32')), x.dtype) or same(x, 0.5)
      local drops = df.cast(df.reshape(training, vector({}, 'int32')), 'bool')
      local keep = df.logical_or(df.logical_not(drops),
                                 df.greater_equal(df.random_uniform(df.shape(x), { dtype = x.dtype }), p))
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

-- ---- normalisation --------------------------------------------------------------------------------------------------
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
  local split = df.reshape(x, df.concat({ shape:slice({ 0 }, { 1 }), vector({ groups, -1 }, 'int32'),
      shape:slice({ 2 }, { rank - 2 }) }, 0))
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

-- ---- padding --------------------------------------------------------------------------------------------------------
--- x with `before` and `after` elements (a negative number takes away) along an axis, those of the border, or as `mode`
-- says.
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
    return pad_as_known_later(x, axes and help.spread(df.zeros({ rank, 2 }, 'int32'), axes, rows, rank) or rows, value,
                              mode, rank)
  end
  on = axes_of(n, on, rank)
  local each = {}
  for d = 1, rank do each[d] = { 0, 0 } end
  for i, a in ipairs(on) do each[a + 1] = { list[i], list[#on + i] } end
  if mode == 'constant' then return pad(x, each, value) end
  for d, p in ipairs(each) do if p[1] ~= 0 or p[2] ~= 0 then x = pad_along(x, d - 1, p[1], p[2], mode) end end
  return x
end

-- ---- places ---------------------------------------------------------------------------------------------------------
local function whole(ours)
  return function(n, x) return df[ours](x, { axis = from(2, rank_of(n, x)), keep_dims = true }) end
end
ops.GlobalAveragePool, ops.GlobalMaxPool = whole 'reduce_mean', whole 'reduce_max'
function ops.LRN(n, x)
  local size = n.attr 'size'
  local before, rank = math.floor((size - 1) / 2), rank_of(n, x)
  local channels = x.shape[2]
  if channels < 0 then n:refuse 'the number of channels is known only when it runs' end
  if size > 65536 then n:refuse(('its size is %.0f; up to 65536 is taken'):format(size)) end
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
  return x / df.pow(same(x, n.attr('bias', 1)) + same(x, n.attr('alpha', 1e-4) / size) * sum,
                    same(x, n.attr('beta', 0.75)))
end
function ops.DepthToSpace(n, x)
  local b, s = n.attr 'blocksize', df.shape(x)
  local c, one = s[1], n.attr('mode', 'DCR') == 'DCR'
  local k = df.int32(b)
  local split = one and { s[0], k, k, df.floor_div(c, b * b), s[2], s[3] }
    or { s[0], df.floor_div(c, b * b), k, k, s[2], s[3] }
  local turned = df.transpose(df.reshape(x, df.stack(split)), one and { 0, 3, 4, 1, 5, 2 } or { 0, 1, 4, 2, 5, 3 })
  return df.reshape(turned, df.stack{ s[0], df.floor_div(c, b * b), s[2] * b, s[3] * b })
end
function ops.SpaceToDepth(n, x)
  local b, s = n.attr 'blocksize', df.shape(x)
  local k = df.int32(b)
  local split = df.reshape(x, df.stack{ s[0], s[1], df.floor_div(s[2], b), k, df.floor_div(s[3], b), k })
  local turn = n.attr('mode', 'DCR') == 'DCR' and { 0, 3, 5, 1, 2, 4 } or { 0, 1, 3, 5, 2, 4 }
  return df.reshape(df.transpose(split, turn),
                    df.stack{ s[0], s[1] * (b * b), df.floor_div(s[2], b), df.floor_div(s[3], b) })
end

-- ---- recurrent layers -----------------------------------------------------------------------------------------------
local activations = {
  Relu = function(x) return df.maximum(x, same(x, 0)) end, Tanh = df.tanh, Sigmoid = df.sigmoid, Softsign = df.softsign,
  Softplus = df.softplus,
  Affine = function(x, a, b) return x * same(x, a or 1) + same(x, b or 0) end,
  LeakyRelu = function(x, a) return select(df.less(x, same(x, 0)), x * same(x, a or 0.01), x) end,
  ThresholdedRelu = function(x, a) return select(df.greater(x, same(x, a or 1)), x, df.zeros_like(x)) end,
  ScaledTanh = function(x, a, b) return df.tanh(x * same(x, b or 1)) * same(x, a or 1) end,
  HardSigmoid = function(x, a, b) return ops.HardSigmoid(nil, x, a or 0.2, b or 0.5) end,
  Elu = function(x, a) return select(positive(x), x, same(x, a or 1) * df.expm1(df.minimum(x, same(x, 0)))) end,
}

--- The functions of one direction, `count` of them.
local function functions(n, direction, defaults)
  local names, alpha, beta, out = n.attr 'activations', n.attr('activation_alpha', {}), n.attr('activation_beta', {}),
    {}
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

--- project(x) of all rows of x [time, batch, inputs] at once, [time, batch, width]: one product reads its matrix once,
-- not at each time.
local function projected(x, project, width)
  local batch = x.shape[2]
  local rows = project(df.reshape(x, x.shape[3] > 0 and { -1, x.shape[3] } or df.stack{ df.int32(-1), df.dim(x, 2) }))
  return df.reshape(rows, batch > 0 and { -1, batch, width } or df.stack{ df.dim(x, 0), df.dim(x, 1), df.int32(width) })
end

--- Runs step(row, states) -> states over the time axis of rows, projected from x [time, batch, inputs], backwards where
-- it is so; past its length a row keeps its states and gives zeros. Gives the outputs [time, batch, hidden] and the
-- last states.
local function over_time(x, lengths, backward, states, width, project, step)
  local kept = { {}, {} }
  for i, s in ipairs(states) do kept[i + 2] = { x.shape[2], s.shape and s.shape[2] or -1 } end
  local time = df.dim(x, 0)
  if lengths then x = loops.within(df.cast(lengths, 'int32'), x) end
  if backward then
    x = lengths and df.reverse_sequence(x, lengths, { seq_dim = 0, batch_dim = 1 }) or df.reverse(x, { 0 })
  end
  local rows = df.TensorArray(x.dtype, time):unstack(projected(x, project, width))
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
  end, vars, { shape_invariants = kept }) }
  local y = results[2]:stack()
  if backward then
    y = lengths and df.reverse_sequence(y, lengths, { seq_dim = 0, batch_dim = 1 }) or df.reverse(y, { 0 })
  end
  return y, { unpack(results, 3) }
end

--- A recurrent layer: build(n, direction, weights) gives what becomes of the inputs, and the step. `count`: states.
local function recurrent(count, gates, build)
  return function(n, x, w, r, b, lengths, h0, c0, peepholes)
    local layout, how = n.attr('layout', 0), n.attr('direction', 'forward')
    x = help.of_rank(x, 3)
    if layout == 1 then x = df.transpose(x, { 1, 0, 2 }) end
    local hidden = n.attr 'hidden_size' or r.shape and r.shape[3]
    if not hidden or hidden < 0 then n:refuse 'its hidden_size is known only when it runs' end
    local directions, ys, finals = how == 'bidirectional' and 2 or 1, {}, {}
    local batch = df.dim(x, 1)
    for d = 0, directions - 1 do
      local function part(v) return v and v[d] end
      local states = {}
      for i, given in ipairs{ h0 or false, c0 or false } do
        if i <= count then
          given = given and help.of_rank(given, 3)
          local s = given and (layout == 1 and df.transpose(given, { 1, 0, 2 }) or given)[d]
          states[i] = s or df.zeros(df.stack{ batch, df.int32(hidden) }, x.dtype)
        end
      end
      local bias = part(b) or df.zeros({ 2 * gates * hidden }, x.dtype)
      local function turned(v) return layouts.folded(function(m) return df.transpose(m[d]) end, v) end
      local project, step = build(n, d, { w = turned(w), r = turned(r), wb = bias:slice({ 0 }, { gates * hidden }),
                                          rb = bias:slice({ gates * hidden }, { gates * hidden }), p = part(peepholes),
                                          hidden = hidden })
      ys[d + 1], finals[d + 1] = over_time(x, lengths, how == 'reverse' or d == 1, states, gates * hidden, project,
                                           step)
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
  return function(x) return df.matmul(x, p.w) + (p.wb + p.rb) end,
  function(wx, h) return f[1](df.matmul(h, p.r) + wx) end
end)

ops.GRU = recurrent(1, 3, function(n, d, p)
  local f, size, before = functions(n, d, { 'Sigmoid', 'Tanh' }), p.hidden, n.attr('linear_before_reset', 0) == 1
  local function columns(m, i, count)
    return layouts.folded(function(v) return df.slice(v, { 0, i * size }, { -1, (count or 1) * size }) end, m)
  end
  local matrix, bias, gates = columns(p.r, 2), p.rb:slice({ 2 * size }, { size }), columns(p.r, 0, 2)
  local gate_bias = p.rb:slice({ 0 }, { 2 * size })
  return function(x) return df.matmul(x, p.w) + p.wb end, function(wx, h)
    local rh = df.matmul(h, gates) + gate_bias
    local z = f[1](columns(wx, 0) + columns(rh, 0))
    local r = f[1](columns(wx, 1) + columns(rh, 1))
    local inner = before and r * (df.matmul(h, matrix) + bias) or df.matmul(r * h, matrix) + bias
    local new = f[2](columns(wx, 2) + inner)
    return (same(z, 1) - z) * new + z * h
  end
end)

ops.LSTM = recurrent(2, 4, function(n, d, p)
  local f, size, coupled = functions(n, d, { 'Sigmoid', 'Tanh', 'Tanh' }), p.hidden, n.attr('input_forget', 0) == 1
  local function product(v, m) return df.matmul(v, m) end
  local of_inputs, of_states, bias = n.of_inputs or product, n.of_states or product, p.wb + p.rb
  return function(x) return of_inputs(x, p.w, d) + bias end, function(wx, h, c)
    local all = of_states(h, p.r, d) + wx
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
