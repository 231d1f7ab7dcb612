--- ONNX's operators of models that keep a state from call to call: linear attention, causal convolutions; and attention
-- whose scores a graph of the model changes.
local df = require 'dflow'
local read = require 'dflow.exchange.onnx.read'
local import_nn = require 'dflow.exchange.onnx.import_nn'

local ops, help = import_nn.ops, import_nn.help
local same = help.same

--- [batch, time, heads * size] as [time, batch, heads, size].
local function by_time(x, heads)
  local s = df.shape(x)
  return df.transpose(df.reshape(x, df.stack{ s[0], s[1], df.int32(heads), df.int32(-1) }), { 1, 0, 2, 3 })
end

local rules = { linear = {}, gated = { decay = true }, delta = { beta = true },
                gated_delta = { decay = true, beta = true } }

--- A state [batch, heads, keys, values] that each step writes its value into under its key, and reads with its query.
function ops.LinearAttention(n, q, k, v, state, decay, beta)
  local rule = rules[n.attr('update_rule', 'gated_delta')]
    or n:refuse(('its update_rule is %s; linear, gated, delta and gated_delta are known'):format(n.attr 'update_rule'))
  local heads, groups, dtype = n.attr 'q_num_heads', n.attr 'kv_num_heads', q.dtype
  if not heads or not groups or heads % groups ~= 0 then
    n:refuse 'its q_num_heads are no multiple of its kv_num_heads'
  end
  if rule.decay and not decay or rule.beta and not beta then
    n:refuse 'its update_rule takes a decay or beta that is not given'
  end
  local function wide(x) return x and df.cast(x, dtype == 'float64' and dtype or 'float32') end
  local queries, keys, values = by_time(wide(q), heads), by_time(wide(k), groups), by_time(wide(v), groups)
  local rates = rule.beta and by_time(wide(beta), help.of_rank(beta, 3).shape[3] == groups and groups or 1)
  local gates = rule.decay and by_time(df.exp(wide(decay)), groups)
  local time, shape = df.dim(queries, 0), df.shape(queries)
  local size, width = df.dim(keys, 3), df.dim(values, 3)
  local scale = n.attr('scale', 0)
  scale = scale ~= 0 and same(queries, scale) or df.rsqrt(df.cast(size, queries.dtype))
  local sizes = df.stack{ shape[1], df.int32(groups), size, width }
  state = state and df.reshape(wide(state), sizes) or df.fill(sizes, same(queries, 0))
  local function step(t, s, out)
    local key, value = df.expand_dims(keys[t], 3), df.expand_dims(values[t], 2)
    if gates then s = s * df.expand_dims(gates[t], 3) end
    if rates then
      value = (value - df.reduce_sum(s * key, { axis = { 2 }, keep_dims = true })) * df.expand_dims(rates[t], 3)
    end
    s = s + key * value
    local asked = df.reshape(queries[t], df.stack{ shape[1], df.int32(groups), df.int32(heads / groups), size })
    return t + 1, s, out:write(t, df.reshape(df.matmul(asked, s), df.stack{ shape[1], df.int32(-1) }) * scale)
  end
  local _, last, out = df.while_loop(function(t) return df.less(t, time) end, step,
    { df.int32(0), state, df.TensorArray(queries.dtype, time, { element_shape = { -1, -1 } }) },
    { shape_invariants = { {}, { -1, -1, -1, -1 }, {} } })
  return { df.cast(df.transpose(out:stack(), { 1, 0, 2 }), dtype), df.cast(last, dtype) }
end

--- n with these attributes alone.
local function with(n, attributes)
  return setmetatable({ attr = function(name, default)
    if attributes[name] == nil then return default end
    return attributes[name]
  end, count = 1 }, { __index = n })
end

function ops.CausalConvWithState(n, x, w, bias, past)
  x = help.of_rank(x, 3)
  local channels, size, activation = w.shape[1], w.shape[3], n.attr('activation', 'none')
  if channels < 0 or size < 0 then n:refuse 'the shape of its weights is known only when it runs' end
  if activation ~= 'none' and activation ~= 'silu' and activation ~= 'swish' then
    n:refuse(('its activation is %s; none, silu and swish are known'):format(activation))
  end
  past = past or df.fill(df.stack{ df.dim(x, 0), df.int32(channels), df.int32(size - 1) }, same(x, 0))
  local all = df.concat({ past, x }, 2)
  local y = ops.Conv(with(n, { group = channels }), all, w, bias)
  if activation ~= 'none' then y = y * df.sigmoid(y) end
  return { y, df.slice(all, df.stack{ df.int32(0), df.int32(0), df.dim(x, 2) }, { -1, -1, -1 }) }
end

ops['ai.onnx.preview:FlexAttention'] = function(n, q, k, v)
  local heads, groups = help.of_rank(q, 4).shape[2], help.of_rank(k, 4).shape[2]
  if heads < 0 or groups < 0 or heads % groups ~= 0 then
    n:refuse 'its heads of queries are no known multiple of those of keys'
  end
  local kind, dtype = n.attr 'softmax_precision', q.dtype
  local wide = kind and (read.dtype_of(kind) or n:refuse(('dflow has not the type %d'):format(kind)))
    or dtype == 'float64' and dtype or 'float32'
  local function all(x) return heads == groups and x or df.repeat_(x, heads / groups, { axis = 1 }) end
  local function changed(name, x) return n.raw(name) and n.importer:subgraph(n.attr(name), n.env, { x })[1] or x end
  q, k = df.cast(q, wide), df.cast(all(k), wide)
  local scale = n.attr 'scale' and same(q, n.attr 'scale') or df.rsqrt(df.cast(df.dim(q, 3), wide))
  local scores = changed('score_mod', df.matmul(q, k, { transpose_b = true }) * scale)
  local p = changed('prob_mod', df.softmax(scores))
  return df.cast(df.matmul(p, df.cast(all(v), wide)), dtype)
end

return import_nn
