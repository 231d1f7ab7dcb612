--- Operators of ONNX Runtime's own (com.microsoft), which its optimizer and its quantisation write into files.
local df = require 'dflow'
local layout = require 'dflow.exchange.onnx.layout'
local import_nn = require 'dflow.exchange.onnx.import_nn'

local ops, help = import_nn.ops, import_nn.help
local same, vector = help.same, help.vector
local DOMAIN = 'com.microsoft:'
local mine = {}

--- n with these attributes before its own.
local function with(n, attributes, count)
  return setmetatable({ attr = function(name, default)
    if attributes[name] ~= nil then return attributes[name] end
    return n.attr(name, default)
  end, count = count or n.count, opset = math.max(n.opset, 13) }, { __index = n })
end

-- What the standard has too, under the same name or another.
for theirs, standard in pairs{ QuantizeLinear = 'QuantizeLinear', DequantizeLinear = 'DequantizeLinear', Gelu = 'Gelu',
    Trilu = 'Trilu',
                               MatMulInteger16 = 'MatMulInteger', Inverse = 'Inverse', Range = 'Range',
                               Unique = 'Unique', GatherND = 'GatherND', GridSample = 'GridSample', Pad = 'Pad' } do
  mine[theirs] = function(n, ...) return (ops[standard] or n:refuse 'dflow has no such operator')(with(n, {}), ...) end
end
function mine.Inverse(_, x) return df.matrix_inverse(x) end

-- ---- activations and sums ------------------------------------------------------------------------------------------
local function gelu(n, x, how) return ops.Gelu(with(n, { approximate = how }), x) end
function mine.BiasGelu(n, x, bias) return gelu(n, x + bias, 'none') end
function mine.FastGelu(n, x, bias) return gelu(n, bias and x + bias or x, 'tanh') end
function mine.QuickGelu(n, x) return x * df.sigmoid(x * same(x, n.attr('alpha', 1.702))) end
function mine.BiasAdd(_, x, bias, skip) return x + bias + skip end
function mine.BiasSplitGelu(n, x, bias)
  local parts = df.split(x + bias, 2, { axis = help.rank(n, x) - 1 })
  return parts[1] * gelu(n, parts[2], 'none')
end

local activation = { Relu = df.relu, Tanh = df.tanh, Sigmoid = df.sigmoid,
                     LeakyRelu = function(y, p) return df.select_v2(df.less(y, same(y, 0)), y * same(y, p[1] or 0.01),
                         y) end,
                     Clip = function(y, p) return df.clip_by_value(y, same(y, p[1]), same(y, p[2])) end,
                     HardSigmoid = function(y, p) return df.clip_by_value(y * same(y, p[1] or 0.2)
                         + same(y, p[2] or 0.5), same(y, 0), same(y, 1)) end }
local function activated(n, y)
  local name = n.attr('activation', '')
  if name == '' then return y end
  local fn = activation[name] or n:refuse(('its activation is %s'):format(name))
  return fn(y, n.attr('activation_params', {}))
end
function mine.FusedConv(n, x, w, bias, sum)
  local y = ops.Conv(n, x, w, bias)
  local last = layout.twin(n, y)
  local z = activated(n, sum and last + layout.last(n, sum, #y.shape) or last)
  return layout.second(n, z, #y.shape)
end
function mine.FusedGemm(n, a, b, c) return activated(n, ops.Gemm(n, a, b, c)) end

local function transposed(x, on)
  if not on then return x end
  local rank, perm = #x.shape, {}
  for d = 0, rank - 1 do perm[d + 1] = d end
  perm[rank], perm[rank - 1] = rank - 2, rank - 1
  return layout.transpose(x, perm)
end
function mine.FusedMatMul(n, a, b)
  if n.attr('transBatchA', 0) == 1 or n.attr('transBatchB', 0) == 1 then
    n:refuse 'it transposes axes of the batch (transBatchA, transBatchB)'
  end
  help.rank(n, a)
  help.rank(n, b)
  local y = ops.MatMul(n, transposed(a, n.attr('transA', 0) == 1), transposed(b, n.attr('transB', 0) == 1))
  local alpha = n.attr('alpha', 1)
  return alpha ~= 1 and y * same(y, alpha) or y
end
mine.TransposeMatMul = mine.FusedMatMul

-- ---- normalisation -------------------------------------------------------------------------------------------------
local function normalised(n, x, scale, bias, simple)
  local epsilon = n.attr('epsilon', simple and 1e-5 or 1e-12)
  local mean = not simple and df.reduce_mean(x, { axis = { -1 }, keep_dims = true })
  local centred = mean and x - mean or x
  local inverse = df.rsqrt(df.reduce_mean(df.square(centred), { axis = { -1 }, keep_dims = true }) + same(x, epsilon))
  local y = centred * inverse * scale
  return bias and y + bias or y, mean, inverse
end
function mine.SkipLayerNormalization(n, x, skip, scale, beta, bias)
  local sum = bias and x + skip + bias or x + skip
  local y, mean, inverse = normalised(n, sum, scale, beta)
  return { y, mean, inverse, sum }
end
function mine.SkipSimplifiedLayerNormalization(n, x, skip, scale, bias)
  local sum = bias and x + skip + bias or x + skip
  local y, _, inverse = normalised(n, sum, scale, nil, true)
  return { y, inverse, inverse, sum }
end
function ops.SimplifiedLayerNormalization(n, x, scale)
  local y, _, inverse = normalised(n, x, scale, nil, true)
  return { y, inverse }
end
function mine.EmbedLayerNormalization(n, ids, segments, words, positions, kinds, gamma, beta, mask, places)
  local length = df.dim(ids, 1)
  local sum = df.gather(words, ids) + (places and df.gather(positions, places)
                                       or df.slice(positions, { 0, 0 }, df.stack{ length, df.int32(-1) }))
  if segments and kinds then sum = sum + df.gather(kinds, segments) end
  local counts = mask and df.reduce_sum(df.cast(mask, 'int32'), { axis = { 1 } })
    or df.zeros(df.stack{ df.dim(ids, 0) }, 'int32')
  return { (normalised(n, sum, gamma, beta)), counts, sum }
end

-- ---- attention -----------------------------------------------------------------------------------------------------
--- [batch, length, heads * size] as [batch, heads, length, size], and back.
local function heads_of(x, heads)
  local s = df.shape(x)
  return df.transpose(df.reshape(x, df.stack{ s[0], s[1], df.int32(heads), df.int32(-1) }), { 0, 2, 1, 3 })
end
local function joined(y)
  local s = df.shape(y)
  return df.reshape(df.transpose(y, { 0, 2, 1, 3 }), df.stack{ s[0], s[2], df.int32(-1) })
end

--- What the mask of keys adds to the scores: 0 and a very negative number. Of [batch]: how many keys are there; [batch,
-- keys], [batch, queries, keys] and [batch, 1, queries, keys]: 1 where they are seen.
local function masked(n, mask, keys, like)
  local rank = help.rank(n, mask)
  local seen
  if rank == 1 then seen = df.less(df.reshape(df.range(keys), { 1, 1, 1, -1 }),
                                   df.reshape(df.cast(mask, 'int32'), { -1, 1, 1, 1 })) else
    seen = df.not_equal(mask, same(mask, 0))
    if rank == 2 then seen = df.expand_dims(df.expand_dims(seen, 1),
                                            1) elseif rank == 3 then seen = df.expand_dims(seen, 1) end
  end
  return df.select_v2(seen, same(like, 0), same(like, n.attr('mask_filter_value', -10000)))
end

local function attended(n, q, k, v, mask, bias)
  local scale = n.attr('scale', 0)
  scale = scale ~= 0 and same(q, scale) or df.rsqrt(df.cast(df.dim(q, 3), q.dtype))
  local scores = df.matmul(q, k, { transpose_b = true }) * scale
  if bias then scores = scores + bias end
  local keys, queries = df.dim(k, 2), df.dim(q, 2)
  if mask then scores = scores + masked(n, mask, keys, scores) end
  if n.attr('unidirectional', 0) == 1 then
    local ahead = df.expand_dims(df.range(queries) + (keys - queries), 1) - df.expand_dims(df.range(keys), 0)
    scores = scores + df.select_v2(df.greater_equal(ahead, 0), same(scores, 0),
                                   same(scores, n.attr('mask_filter_value', -10000)))
  end
  return joined(df.matmul(df.softmax(scores), v))
end

function mine.Attention(n, x, w, bias, mask, past, more)
  local heads, sizes = n.attr 'num_heads', n.attr 'qkv_hidden_sizes'
  local all = ops.MatMul(n, x, w)
  if bias then all = all + bias end
  local parts = sizes and df.split_v(all, vector(sizes, 'int32'), 2, { num_split = 3 })
    or df.split(all, 3, { axis = 2 })
  if n.attr('do_rotary', 0) == 1 then n:refuse 'it turns its keys and queries (do_rotary)' end
  local q, k, v = heads_of(parts[1], heads), heads_of(parts[2], heads), heads_of(parts[3], heads)
  if past then k, v = df.concat({ past[0], k }, 2), df.concat({ past[1], v }, 2) end
  return { attended(n, q, k, v, mask, more), df.stack({ k, v }, { axis = 0 }) }
end

function mine.MultiHeadAttention(n, q, k, v, bias, mask, more, past_k, past_v)
  local heads = n.attr 'num_heads'
  if not k then n:refuse 'its queries, keys and values are packed into one input' end
  if help.rank(n, q) ~= 3 or help.rank(n, k) ~= 3 and help.rank(n, k) ~= 4 then
    n:refuse 'its keys are packed; [batch, length, size] is expected'
  end
  if bias then
    local size = q.shape[3]
    if size < 0 then n:refuse 'the size of its heads is known only when it runs' end
    local function part(i, count) return df.slice(bias, { i * size }, { count }) end
    q, k = q + part(0, size), #k.shape == 3 and k + part(1, size) or k
    v = #v.shape == 3 and v + part(2, -1) or v
  end
  local function turned(x) return #x.shape == 4 and x or heads_of(x, heads) end
  q, k, v = heads_of(q, heads), turned(k), turned(v)
  if past_k then k, v = df.concat({ past_k, k }, 2), df.concat({ past_v, v }, 2) end
  return { attended(n, q, k, v, mask, more), k, v }
end

-- ---- whole numbers for floats --------------------------------------------------------------------------------------
local function dequantised(n, x, scale, zero, axis)
  return ops.DequantizeLinear(with(n, { axis = axis or 0 }), x, scale, zero)
end
local function quantised(n, y, scale, zero) return ops.QuantizeLinear(with(n, { axis = 0 }), y, scale, zero) end
--- x as it is behind its quantisation to uint8 by its own least and greatest.
local function coarse(n, x)
  local q = ops.DynamicQuantizeLinear(n, x)
  return (df.cast(q[1], 'float32') - df.cast(q[3], 'float32')) * q[2]
end

function mine.DynamicQuantizeMatMul(n, a, b, scale, zero, bias)
  local y = ops.MatMul(n, coarse(n, a), dequantised(n, b, scale, zero, -1))
  return bias and y + bias or y
end
function mine.MatMulIntegerToFloat(n, a, b, a_scale, b_scale, a_zero, b_zero, bias)
  local y = ops.MatMul(n, dequantised(n, a, a_scale, a_zero, -2), dequantised(n, b, b_scale, b_zero, -1))
  return bias and y + bias or y
end

--- Weights of `bits` bits in blocks along the inner axis, side by side in bytes: b uint8 [columns, blocks, bytes].
function mine.MatMulNBits(n, a, b, scales, zeros, order, bias)
  local inner, columns, bits, block = n.attr 'K', n.attr 'N', n.attr('bits', 4), n.attr 'block_size'
  if bits ~= 2 and bits ~= 4 and bits ~= 8 then
    n:refuse(('its weights have %d bits; 2, 4 and 8 are known'):format(bits))
  end
  if order then n:refuse 'its inner axis is reordered (g_idx)' end
  local each, blocks = 8 / bits, math.ceil(inner / block)
  --- Numbers of so many bits out of bytes [rows, bytes]: [rows, count].
  local function unpacked(v, count)
    local parts = {}
    v = df.cast(v, 'int32')
    for i = 0, each - 1 do parts[i + 1] = df.bitwise_and(df.right_shift(v, i * bits), 2 ^ bits - 1) end
    return df.slice(df.reshape(df.stack(parts, { axis = 2 }), { columns, -1 }), { 0, 0 }, { -1, count })
  end
  local function weights(v, s, z)
    local w = df.cast(df.reshape(unpacked(df.reshape(v, { columns, -1 }), blocks * block), { columns, blocks, block }),
                      a.dtype)
    local zero = df.constant(2 ^ (bits - 1), a.dtype)
    if z and z.dtype == 'uint8' then zero = df.reshape(df.cast(unpacked(df.reshape(z, { columns, -1 }), blocks),
        a.dtype), { columns, blocks, 1 })
    elseif z then zero = df.reshape(df.cast(z, a.dtype), { columns, blocks, 1 }) end
    w = df.reshape((w - zero) * df.reshape(df.cast(s, a.dtype), { columns, blocks, 1 }), { columns, blocks * block })
    return df.transpose(df.slice(w, { 0, 0 }, { -1, inner }), { 1, 0 })
  end
  local w = zeros and layout.folded(weights, b, scales, zeros) or layout.folded(weights, b, scales)
  local y = ops.MatMul(n, a, w)
  return bias and y + bias or y
end

--- An operator of floats on quantised inputs x, scale, zero, …, whose result is quantised by the two inputs behind
-- them.
local function by_floats(inputs, fn)
  return function(n, ...)
    local given, list = { ... }, {}
    for i = 1, inputs do list[i] = dequantised(n, given[3 * i - 2], given[3 * i - 1], given[3 * i]) end
    return quantised(n, fn(n, (table.unpack or unpack)(list)), given[3 * inputs + 1], given[3 * inputs + 2])
  end
end
mine.QLinearAdd = by_floats(2, function(_, a, b) return a + b end)
mine.QLinearMul = by_floats(2, function(_, a, b) return a * b end)
mine.QLinearSigmoid = by_floats(1, function(_, x) return df.sigmoid(x) end)
mine.QLinearLeakyRelu = by_floats(1, function(n, x) return ops.LeakyRelu(n, x) end)
mine.QLinearSoftmax = by_floats(1, function(n, x) return ops.Softmax(with(n, { axis = n.attr('axis', -1) }), x) end)
mine.QLinearReduceMean = by_floats(1, function(n, x) return ops.ReduceMean(with(n, {}), x, vector(n.attr 'axes')) end)
local function channels_last(n, x, fn)
  if n.attr('channels_last', 0) ~= 1 then return fn(x) end
  local rank = help.rank(n, x)
  local y = fn(layout.second(n, x, rank))
  return layout.last(n, y, rank)
end
mine.QLinearAveragePool = by_floats(1,
                                    function(n, x) return channels_last(n, x,
                                        function(v) return ops.AveragePool(n, v) end) end)
mine.QLinearGlobalAveragePool = by_floats(1,
                                          function(n, x) return channels_last(n, x,
                                              function(v) return ops.GlobalAveragePool(n, v) end) end)
function mine.QLinearConcat(n, y_scale, y_zero, ...)
  local given, list = { ... }, {}
  for i = 1, #given / 3 do list[i] = dequantised(n, given[3 * i - 2], given[3 * i - 1], given[3 * i]) end
  return quantised(n, df.concat(list, n.attr 'axis'), y_scale, y_zero)
end
function mine.QGemm(n, a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero)
  local columns = n.attr('transB', 0) == 1 and 0 or 1
  local y = ops.Gemm(with(n, { alpha = 1 }), dequantised(n, a, a_scale, a_zero),
                     dequantised(n, b, b_scale, b_zero, columns))
  y = y * same(y, n.attr('alpha', 1))
  if c then y = y + df.cast(c, 'float32') * (a_scale * b_scale * n.attr('alpha', 1)) end
  return y_scale and quantised(n, y, y_scale, y_zero) or y
end

--- An LSTM whose weights are whole numbers, [directions, inputs, 4 * hidden], and whose inputs and states are quantised
-- where they meet them.
function mine.DynamicQuantizeLSTM(n, x, w, r, b, lengths, h0, c0, peepholes, w_scale, w_zero, r_scale, r_zero)
  local function turned(v) return layout.folded(function(m) return df.transpose(m, { 0, 2, 1 }) end, v) end
  local function product(v, m, scale, zero)
    local q = ops.DynamicQuantizeLinear(n, v)
    return df.cast(ops.MatMulInteger(n, q[1], m, q[3], zero), 'float32') * (q[2] * scale)
  end
  local own = setmetatable({
    of_inputs = function(v, m, d) return product(v, m, w_scale[d], w_zero[d]) end,
    of_states = function(v, m, d) return product(v, m, r_scale[d], r_zero[d]) end,
  }, { __index = n })
  return ops.LSTM(own, x, turned(w), turned(r), b, lengths, h0, c0, peepholes)
end

for name, fn in pairs(mine) do ops[DOMAIN .. name] = fn end
return import_nn
