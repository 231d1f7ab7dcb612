--- ONNX's Attention (versions 23 to 25) in dflow's words: heads, masks, caches, and what it tells of its scores.
local df = require 'dflow'
local read = require 'dflow.exchange.onnx.read'
local dtypes = require 'dflow.front.dtypes'
local import_nn = require 'dflow.exchange.onnx.import_nn'

local ops, help = import_nn.ops, import_nn.help
local same = help.same

--- [batch, length, heads * size] as [batch, heads, length, size].
local function apart(x, heads)
  local s = df.shape(x)
  return df.transpose(df.reshape(x, df.stack{ s[0], s[1], df.int32(heads), df.int32(-1) }), { 0, 2, 1, 3 })
end

--- Each head `times` times, one behind the other.
local function repeated(x, times)
  local s = df.shape(x)
  local more = df.tile(df.expand_dims(x, 2), df.constant({ 1, 1, times, 1, 1 }, 'int32'))
  return df.reshape(more, df.stack{ s[0], s[1] * times, s[2], s[3] })
end

--- 0 where `allowed`, -infinity elsewhere.
local function barrier(allowed, q) return df.select_v2(allowed, same(q, 0), same(q, -math.huge)) end

--- The mask as what is added to the scores; keys that it does not reach are not looked at.
local function added(n, mask, q, length)
  local rank = help.rank(n, mask)
  local missing = df.maximum(length - df.dim(mask, rank - 1), 0)
  local rows = df.reshape(df.stack{ df.int32(0), missing }, help.vector({ 1, 2 }, 'int32'))
  if rank > 1 then rows = df.concat({ df.zeros({ rank - 1, 2 }, 'int32'), rows }, 0) end
  local bias = mask.dtype == 'bool' and barrier(mask, q) or df.cast(mask, q.dtype)
  return df.pad_v2(bias, rows, same(q, -math.huge))
end

--- Which keys each query sees, as what is added to the scores; nil: all of them.
local function bias_of(n, q, k, mask, before, filled)
  local queries, keys = df.dim(q, 2), df.dim(k, 2)
  local left, right = n.attr('left_window_size', -1), n.attr('right_window_size', -1)
  local bias = mask and added(n, mask, q, keys)
  local function forbid(allowed)
    local more = barrier(allowed, q)
    bias = bias and bias + more or more
  end
  local key = df.range(keys)
  local first = before or df.int32(0)
  if filled then filled = df.reshape(df.cast(filled, 'int32'), help.vector({ -1, 1, 1, 1 }, 'int32')) end
  if filled and not before then first = filled - queries end
  local ahead = first + df.expand_dims(df.range(queries), 1) - key      -- how far a key lies before its query
  if n.attr('is_causal', 0) == 1 then forbid(df.greater_equal(ahead, 0)) end
  if left >= 0 then forbid(df.less_equal(ahead, left)) end
  if right >= 0 then forbid(df.less_equal(-ahead, right)) end
  if filled then forbid(df.less(key, filled)) end
  return bias
end

--- Softmax over the keys; a query that may see none has zeros.
local function weights(n, scores, bias)
  local precision = n.attr 'softmax_precision'
  if precision then
    local name = read.dtype[precision] and dtypes.name[read.dtype[precision]]
    if not name then n:refuse(('dflow has not the type %d'):format(precision)) end
    scores = df.cast(scores, name)
  end
  local p = df.softmax(scores)
  if not bias then return p end
  local none = df.equal(df.reduce_max(bias, { axis = -1, keep_dims = true }), same(bias, -math.huge))
  return df.select_v2(none, same(p, 0), p)
end

function ops.Attention(n, q, k, v, mask, past_key, past_value, filled)
  local rank = help.rank(n, q)
  local heads, groups = n.attr 'q_num_heads', n.attr 'kv_num_heads'
  if not past_key ~= not past_value then n:refuse 'it has one of past_key and past_value; both belong together' end
  if rank == 3 then
    if not heads or not groups then
      n:refuse 'its inputs have three axes, and q_num_heads or kv_num_heads is missing'
    end
    q, k, v = apart(q, heads), apart(k, groups), apart(v, groups)
  end
  heads, groups = heads or q.shape[2], groups or k.shape[2]
  if heads < 0 or groups < 0 then n:refuse 'the number of heads is known only when it runs' end
  if heads % groups ~= 0 then
    n:refuse(('its %d heads of queries are no multiple of the %d of keys'):format(heads, groups))
  end
  if past_key then k, v = df.concat({ past_key, k }, 2), df.concat({ past_value, v }, 2) end
  local bias = bias_of(n, q, k, mask, past_key and df.dim(past_key, 2), filled)
  local size = df.cast(df.dim(q, 3), 'float32')
  local scale = n.attr 'scale'
  scale = df.cast(scale and df.float32(math.sqrt(scale)) or df.rsqrt(df.sqrt(size)), q.dtype)
  local function all(x) return heads == groups and x or repeated(x, math.floor(heads / groups)) end
  local scores = df.matmul(q * scale, all(k) * scale, { transpose_b = true })
  local told, cap = { scores }, n.attr('softcap', 0)
  if cap > 0 then scores = df.tanh(scores / same(scores, cap)) * same(scores, cap) end
  told[2] = scores
  if bias then scores = scores + bias end
  told[3] = scores
  local p = weights(n, scores, bias)
  told[4] = p
  p = df.cast(p, q.dtype)
  local y = df.matmul(p, all(v))
  if rank == 3 then
    local s = df.shape(y)
    y = df.reshape(df.transpose(y, { 0, 2, 1, 3 }), df.stack{ s[0], s[2], df.int32(-1) })
  end
  return { y, k, v, df.cast(told[n.attr('qk_matmul_output_mode', 0) + 1]
                            or n:refuse 'its qk_matmul_output_mode is not from 0 to 3', q.dtype) }
end

return import_nn
