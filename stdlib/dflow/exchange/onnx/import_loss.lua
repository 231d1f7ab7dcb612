--- ONNX's operators of training and of whole numbers that stand for others: losses, quantisation, windows, random
-- numbers.
local df = require 'dflow'
local read = require 'dflow.exchange.onnx.read'
local dtypes = require 'dflow.front.dtypes'
local narrow = require 'dflow.exchange.onnx.narrow'
local import_ops = require 'dflow.exchange.onnx.import_ops'

local ops, help = import_ops.ops, import_ops.help
local rank_of, axis_of, vector, same = help.rank, help.axis, help.vector, help.same

--- A node that has only these attributes, for operators in other operators' words.
local function with(n, attrs)
  return { attr = function(name, default) if attrs[name] == nil then return default end return attrs[name] end,
           refuse = function(_, why) n:refuse(why) end, align = n.align, opset = n.opset, count = 1, name = n.name }
end

-- ---- losses ---------------------------------------------------------------------------------------------------------
--- The negative of what x [n, classes, …] has at the class that target [n, …] names.
local function negative_likelihood(n, x, target, weight)
  local ignored, how = n.attr 'ignore_index', n.attr('reduction', 'mean')
  local keep = ignored and df.not_equal(target, same(target, ignored))
  local at = keep and df.select_v2(keep, target, df.zeros_like(target)) or target
  local loss = -df.squeeze(ops.GatherElements(with(n, { axis = 1 }), x, df.expand_dims(at, 1)), { axis = { 1 } })
  local share = weight and df.gather(weight, at)
  if keep then
    loss = df.select_v2(keep, loss, df.zeros_like(loss))
    share = df.select_v2(keep, share or df.ones_like(loss), df.zeros_like(loss))
  end
  if weight then loss = loss * share end
  if how == 'none' then return loss end
  local all = df.reduce_sum(loss)
  if how == 'sum' then return all end
  return share and all / df.reduce_sum(share) or df.reduce_mean(loss)
end
ops.NegativeLogLikelihoodLoss = negative_likelihood
function ops.SoftmaxCrossEntropyLoss(n, x, target, weight)
  local turn, back = { 0 }, { 0, rank_of(n, x) - 1 }
  for d = 2, rank_of(n, x) - 1 do turn[d], back[d + 1] = d, d - 1 end
  turn[#turn + 1] = 1
  local likelihood = df.transpose(df.log_softmax(df.transpose(x, turn)), back)
  return { negative_likelihood(n, likelihood, target, weight), likelihood }
end

-- ---- quantisation ---------------------------------------------------------------------------------------------------
local limits = { int8 = { -128, 127 }, uint8 = { 0, 255 }, int16 = { -32768, 32767 }, uint16 = { 0, 65535 } }

--- Scale or zero point as they go with x: one number, or one for each place along the axis.
local function along(n, v, x)
  local block = n.attr('block_size', 0)
  if v and block > 0 and rank_of(n, v) == rank_of(n, x) then        -- one for each block of so many
    local axis = axis_of(n, n.attr('axis', 1), rank_of(n, x))
    return df.slice(df.repeat_(v, block, { axis = axis }), df.zeros_like(df.shape(x)), df.shape(x))
  end
  if not v or rank_of(n, v) ~= 1 then return v end
  local rank, dims = rank_of(n, x), {}
  local axis = axis_of(n, n.attr('axis', 1), math.max(rank, 2))
  if rank == 1 then return v end
  for d = 1, rank do dims[d] = d == axis + 1 and -1 or 1 end
  return df.reshape(v, dims)
end

--- round(x / scale) + zero, as the nearest number that the dtype has, or that the kind (narrow.lua) has.
local function quantise(n, x, scale, zero, d, kind)
  local k = kind and narrow.kinds[kind]
  if k and not k.least then
    local y = df.cast(x, 'float32') / df.cast(scale, 'float32')
    return narrow.cast(n, zero and y + df.cast(zero, 'float32') or y, kind, n.attr('saturate', 1) == 1)
  elseif k then
    local y = df.rint(df.cast(x, 'float32') / df.cast(scale, 'float32'))
    y = df.clip_by_value(zero and y + df.cast(zero, 'float32') or y, k.least, k.most)
    return narrow.mark(n, df.cast(df.cast(y, 'int32'), k.carrier), kind)
  end
  local limit = limits[d] or n:refuse(('it gives %s'):format(d))
  local y = df.rint(df.cast(x, 'float32') / df.cast(scale, 'float32'))
  if zero then y = y + df.cast(zero, 'float32') end
  return df.cast(df.cast(df.clip_by_value(y, limit[1], limit[2]), 'int32'), d)
end
function ops.QuantizeLinear(n, x, scale, zero)
  local out = n.attr('output_dtype', 0)
  local d = zero and zero.dtype or out ~= 0 and read.dtype_of(out) or 'uint8'
  local kind = zero and narrow.kind(n, zero) or not zero and narrow.kinds[out] and out or nil
  return quantise(n, x, along(n, scale, x), along(n, zero, x), d, kind)
end
function ops.DequantizeLinear(n, x, scale, zero)
  scale, zero = along(n, scale, x), along(n, zero, x)
  local whole = x.dtype:find 'float' and 'float32' or 'int32'        -- a float of a kind that is held as one
  local y = df.cast(x, whole)
  if zero then y = y - df.cast(zero, whole) end
  return df.cast(df.cast(y, 'float32') * df.cast(scale, 'float32'), scale.dtype)
end
function ops.DynamicQuantizeLinear(n, x)
  local low, high = df.minimum(df.reduce_min(x), 0), df.maximum(df.reduce_max(x), 0)
  local scale = (high - low) / 255
  scale = df.select_v2(df.equal(scale, 0), df.ones_like(scale), scale)          -- zeros alone have the scale 1
  local zero = quantise(n, -low, scale, nil, 'uint8')
  return { quantise(n, x, scale, zero, 'uint8'), scale, zero }
end
function ops.QLinearMatMul(n, a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero)
  local function side(v, v_scale, v_zero, axis)                    -- a scale of each row of a, or of each column of b
    return ops.DequantizeLinear(with(n, { axis = axis }), v, df.cast(v_scale, 'float32'), v_zero)
  end
  local product = ops.MatMul(n, side(a, a_scale, a_zero, -2), side(b, b_scale, b_zero, -1))
  return quantise(n, product, y_scale, y_zero, y_zero.dtype)
end

-- ---- windows of signals ---------------------------------------------------------------------------------------------
for name, by in pairs{ Hann = { 0.5, 0.5, 0 }, Hamming = { 25 / 46, 21 / 46, 0 }, Blackman = { 0.42, 0.5, 0.08 } } do
  ops[name .. 'Window'] = function(n, size)
    local d = dtypes.name[read.dtype[n.attr('output_datatype', 1)] or n:refuse 'dflow has not the type of its output']
    local count = df.cast(df.reshape(size, vector({}, 'int32')), 'int32')
    local period = n.attr('periodic', 1) == 1 and count or df.maximum(count - 1, 1)
    local turn = df.cast(df.range(0, count), 'float64') / df.cast(period, 'float64') * (2 * math.pi)
    return df.cast(by[1] - by[2] * df.cos(turn) + by[3] * df.cos(turn * 2), d)
  end
end

-- ---- random numbers: others than another runtime draws, of the same distribution ------------------------------------
local function drawn(of)
  return function(n, x)
    local d = n.attr 'dtype'
    d = d and dtypes.name[read.dtype[d] or n:refuse(('dflow has not the type %s'):format(tostring(d)))]
    local shape = x and df.shape(x) or vector(n.attr('shape', {}), 'int32')
    local seed = n.attr 'seed'
    return of(n, shape, d or x and x.dtype or 'float32', seed and math.floor(seed))
  end
end
local uniform = drawn(function(n, shape, d, seed)
  return df.random_uniform(shape, { min = n.attr('low', 0), max = n.attr('high', 1), dtype = d, seed = seed })
end)
local normal = drawn(function(n, shape, d, seed)
  return df.random_normal(shape, { mean = n.attr('mean', 0), stddev = n.attr('scale', 1), dtype = d, seed = seed })
end)
function ops.RandomUniform(n) return uniform(n) end
function ops.RandomNormal(n) return normal(n) end
ops.RandomUniformLike, ops.RandomNormalLike = uniform, normal
function ops.Bernoulli(n, p)
  local d, seed = n.attr 'dtype', n.attr 'seed'
  local yes = df.less(df.random_uniform(df.shape(p), { dtype = p.dtype, seed = seed and math.floor(seed) }), p)
  return df.cast(yes, d and dtypes.name[read.dtype[d] or n:refuse(('dflow has not the type %s')
    :format(tostring(d)))] or p.dtype)
end

return import_ops
