--- ONNX's operators of versions 23 to 28 in dflow's words: what language models are made of, and a few others.
local df = require 'dflow'
local read = require 'dflow.exchange.onnx.read'
local dtypes = require 'dflow.front.dtypes'
local import_nn = require 'dflow.exchange.onnx.import_nn'

local ops, help = import_nn.ops, import_nn.help
local same = help.same

function ops.Swish(n, x) return x * df.sigmoid(x * same(x, n.attr('alpha', 1))) end
function ops.SwiGLU(n, a, b)
  if a.dtype ~= b.dtype then n:refuse(('its inputs are %s and %s'):format(a.dtype, b.dtype)) end
  return ops.Swish(n, a) * b
end

function ops.RMSNormalization(n, x, scale)
  local rank, axes = help.rank(n, x), {}
  local narrow = x.dtype == 'float16' or x.dtype == 'bfloat16'
  local wide = narrow and n.attr('stash_type', 1) == 1 and df.cast(x, 'float32') or x
  for d = help.axis(n, n.attr('axis', -1), rank), rank - 1 do axes[#axes + 1] = d end
  local mean = df.reduce_mean(df.square(wide), { axis = axes, keep_dims = true })
  local y = wide * df.rsqrt(mean + same(wide, n.attr('epsilon', 1e-5)))
  return df.cast(y, scale.dtype) * scale
end

--- Along the last axis, from `first`, `count` elements (-1: all that follow), every `step`-th.
local function last_axis(x, first, last, step)
  local rank = #x.shape
  local begin, stop, strides, mask = {}, {}, {}, 2 ^ (rank - 1) - 1
  for d = 1, rank do begin[d], stop[d], strides[d] = 0, 0, 1 end
  begin[rank], stop[rank], strides[rank] = first, last or 0, step or 1
  return df.strided_slice(x, begin, stop, strides,
                          { begin_mask = mask, end_mask = last and mask or mask + 2 ^ (rank - 1) })
end

function ops.RotaryEmbedding(n, x, cos, sin, ids)
  local rank, width, heads = help.rank(n, x), n.attr('rotary_embedding_dim', 0), n.attr('num_heads', 0)
  local shape = df.shape(x)
  if rank == 4 then x = df.transpose(x, { 0, 2, 1, 3 }) else
    if heads == 0 then n:refuse 'its input has three axes, and num_heads is missing' end
    x = df.reshape(x, df.concat({ shape:slice({ 0 }, { 2 }), df.constant({ heads, -1 }, 'int32') }, 0))
  end
  local turned, rest = x, nil
  if width > 0 then turned, rest = last_axis(x, 0, width), last_axis(x, width) end
  if ids then cos, sin = df.gather(cos, ids), df.gather(sin, ids) end
  cos, sin = df.expand_dims(cos, 2), df.expand_dims(sin, 2)
  local a, b
  local pairs_ = n.attr('interleaved', 0) == 1
  if pairs_ then a, b = last_axis(turned, 0, nil, 2), last_axis(turned, 1, nil, 2) else
    local halves = df.split(turned, 2, { axis = 3 })
    a, b = halves[1], halves[2]
  end
  local real, imaginary = cos * a - sin * b, sin * a + cos * b
  local y = pairs_ and df.reshape(df.stack({ real, imaginary }, { axis = 4 }), df.shape(turned))
    or df.concat({ real, imaginary }, 3)
  if rest then y = df.concat({ y, rest }, 3) end
  return rank == 4 and df.transpose(y, { 0, 2, 1, 3 }) or df.reshape(y, shape)
end

function ops.TensorScatter(n, cache, update, at)
  local rank = help.rank(n, cache)
  local axis = help.axis(n, n.attr('axis', -2), rank)
  local perm = { axis }
  if axis == 0 then n:refuse 'its axis is that of the batch' end
  for d = 0, rank - 1 do if d ~= axis and d ~= 0 then perm[#perm + 1] = d end end
  table.insert(perm, 1, 0)
  local rows, new = df.transpose(cache, perm), df.transpose(update, perm)
  local batch, count = df.dim(new, 0), df.dim(new, 1)
  local first = at and df.cast(at, 'int32') or df.zeros({ 1 }, 'int32')
  local index = df.expand_dims(first, 1) + df.expand_dims(df.range(count), 0)
    + df.zeros(df.stack{ batch, count }, 'int32')
  if n.attr('mode', 'linear') == 'circular' then index = df.floor_mod(index, df.dim(rows, 1)) end
  local row = df.expand_dims(df.range(batch), 1) + df.zeros_like(index)
  rows = df.tensor_scatter_update(rows, df.stack({ row, index }, { axis = 2 }), new)
  local back = {}
  for i, d in ipairs(perm) do back[d + 1] = i - 1 end
  return df.transpose(rows, back)
end

function ops.BitCast(n, x)
  local dtype = dtypes.name[read.dtype[n.attr 'to'] or n:refuse(('dflow has not the type %d'):format(n.attr 'to'))]
  if x.dtype == 'bool' then x = df.cast(x, 'uint8') end
  return dtype == 'bool' and df.not_equal(df.bitcast(x, 'uint8'), df.constant(0, 'uint8')) or df.bitcast(x, dtype)
end

function ops.CumProd(n, x, axis)
  return df.cumprod(x, df.cast(df.reshape(axis, help.vector({}, 'int32')), 'int32'),
                    { exclusive = n.attr('exclusive', 0) == 1, reverse = n.attr('reverse', 0) == 1 })
end

return import_nn
