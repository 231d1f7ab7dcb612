--- Attention: scaled dot products, additive, multi-head with a cache of keys and values that grows, and a transformer's
-- block.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local ops = require 'dflow.front.ops'
local initializers = require 'dflow.nn.initializers'
local layer = require 'dflow.nn.layer'
local basic = require 'dflow.nn.basic'
local normalization = require 'dflow.nn.normalization'

local M = {}
local f = ops.functions

-- ---- masks ----------------------------------------------------------------------------------------------------------
--- What a score that must not count becomes: so small that its weight is 0, and finite, so that a row of them is no
-- NaN.
local function minus(dtype) return dtype == 'float16' and -6e4 or -1e9 end

local function shown(x) return tensor.shape_text(x.dtype, x.shape) end

--- The mask as a bool of the scores' rank that fits them: [queries, keys] or [batch, queries, keys] get the axes they
-- lack.
local function fit_mask(mask, scores, what)
  if convert.typed(mask) == nil then mask = convert.to_output(mask, dtypes.BOOL, scores.graph, what) end
  mask = convert.to_output(mask)
  local rank, want = graph.rank(mask), graph.rank(scores)
  if graph.dtype(mask) ~= dtypes.BOOL then
    errors.bad("%s: the mask is %s, a bool is expected, true where a query may look: as in df.cast(mask, 'bool')", what,
               shown(mask))
  end
  if not rank or rank < 2 or rank > want then
    errors.bad('%s: the mask is %s; [queries, keys] or [batch, queries, keys]%s is expected', what, shown(mask),
               want == 4 and ' or [batch, heads, queries, keys]' or '')
  end
  if rank == 3 and want == 4 then mask = f.expand_dims(mask, 1) end
  local from, to = mask.shape, scores.shape
  local less = #to - #from
  for i = 1, #from do
    local a, b = from[i], to[i + less]
    if a >= 0 and b >= 0 and a ~= b and a ~= 1 then
      errors.bad('%s: the mask is %s, which does not fit the scores %s', what, shown(mask), shown(scores))
    end
  end
  return mask
end

--- The weights: softmax of the scores that may count.
local function weights_of(scores, o, offset, what)
  if errors.flag(o.causal, what, 'causal') then
    local mask = ops.causal_mask(f.dim(scores, -2), f.dim(scores, -1), offset)
    scores = f.where(f.logical_and(f.ones_like(scores):gt(0), mask), scores, f.ones_like(scores) * minus(scores.dtype))
  end
  if o.mask ~= nil then
    local mask = f.logical_and(f.ones_like(scores):gt(0), fit_mask(o.mask, scores, what))
    scores = f.where(mask, scores, f.ones_like(scores) * minus(scores.dtype))
  end
  return f.softmax(scores)
end

local function float_input(x, what, name)
  if x == nil then errors.bad('%s: the %s are missing', what, name) end
  x = convert.to_output(x, convert.typed(x) or dtypes.FLOAT32, nil, what)
  if not dtypes.is_float(graph.dtype(x)) then
    errors.bad('%s: the %s are %s, a float dtype is expected', what, name, x.dtype)
  end
  if (graph.rank(x) or 0) < 2 then
    errors.bad('%s: the %s are %s, [..., time, size] is expected', what, name, shown(x))
  end
  return x
end

--- df.nn.attention(queries, keys, values, {mask, causal, offset, scale}): softmax(q k' * scale) v, and the weights.
-- queries [..., tq, d], keys [..., tk, d], values [..., tk, dv] -> [..., tq, dv], [..., tq, tk]. scale is d ^ -0.5
-- unless given.
-- causal with an offset, a number or scalar Output: so many keys are before the first query, as those of a cache are.
function M.attention(q, k, v, opts)
  opts = errors.options(opts, 'attention', { 'mask', 'causal', 'offset', 'scale' })
  ops.causal_offset(opts, 'attention')
  q, k, v = float_input(q, 'attention', 'queries'), float_input(k, 'attention', 'keys'),
    float_input(v, 'attention', 'values')
  local d = q.shape[#q.shape]
  local scale = opts.scale
  if scale == nil then scale = d >= 0 and d ^ -0.5 or f.rsqrt(f.cast(f.dim(q, -1), q.dtype)) end
  local weights = weights_of(f.matmul(q * scale, k, { transpose_b = true }), opts, opts.offset, 'attention')
  return f.matmul(weights, v), weights
end

-- ---- additive -------------------------------------------------------------------------------------------------------
local Additive = layer.class{
  kind = 'AdditiveAttention', made = { 'query_kernel', 'key_kernel', 'scale' }, known = { 'units' },
  options = { 'mask', 'causal' }, inputs = 3,
  text = function(l) return tostring(l.units) end,
  build = function(l, q, k)
    local glorot = initializers.glorot_uniform()
    l:weight('query_kernel', { l:size_of(q, -1, 'its query'), l.units }, glorot)
    l:weight('key_kernel', { l:size_of(k, -1, 'its keys'), l.units }, glorot)
    l:weight('scale', { l.units }, initializers.variance_scaling{ mode = 'fan_avg', distribution = 'uniform' })
  end,
  call = function(l, opts, q, k, v)
    q = l:input(q, 2, 3, '[batch, size] or [batch, time, size]', 'its query')
    k = l:input(k, 3, 3, '[batch, time, size]', 'its keys')
    v = v == nil and k or l:input(v, 3, 3, '[batch, time, size]', 'its values')
    l:prepare(q, k)
    local one = #q.shape == 2
    if one then q = f.expand_dims(q, 1) end
    local keys, queries = f.tensordot(k, l.key_kernel, 1), f.tensordot(q, l.query_kernel, 1)
    local scores = f.reduce_sum(f.tanh(f.expand_dims(queries, 2) + f.expand_dims(keys, 1)) * l.scale, { axis = -1 })
    local weights = weights_of(scores, opts, nil, l:title())
    local y = f.matmul(weights, v)
    if one then y, weights = f.squeeze(y, 1), f.squeeze(weights, 1) end
    return l:shaped(q, y), weights
  end,
}

--- df.nn.AdditiveAttention(units, {name}): l(query, keys, values, {mask, causal}) by scores scale · tanh(q W + k U), as
-- Bahdanau's.
-- query [batch, size] or [batch, tq, size], keys and values [batch, tk, size]; gives the mix of values, and the
-- weights.
function M.AdditiveAttention(units, opts)
  opts = errors.options(opts, 'AdditiveAttention', { 'name' })
  return layer.new(Additive, { units = layer.whole(units, 'AdditiveAttention', 'units'), name = opts.name })
end

-- ---- multi-head -----------------------------------------------------------------------------------------------------
local SEQUENCE = '[batch, time, size]'
local parts = { 'query', 'key', 'value', 'output' }

--- [batch, time, size] -> [batch, heads, time, size / heads]
local function split_heads(l, x)
  local shape, d = x.shape, math.floor(l.width / l.heads)
  local y = f.reshape(x, f.stack{ f.dim(x, 0), f.dim(x, 1), l.heads, d }):set_shape{ shape[1], shape[2], l.heads, d }
  return f.transpose(y, { 0, 2, 1, 3 })
end
local function join_heads(l, x)
  local shape = x.shape
  local y = f.transpose(x, { 0, 2, 1, 3 })
  return f.reshape(y, f.stack{ f.dim(x, 0), f.dim(x, 2), l.width }):set_shape{ shape[1], shape[3], l.width }
end

--- The keys and values so far, checked: {keys, values}, or nil where the cache is empty yet.
local function cached(l, cache)
  if not errors.is_data(cache) then l:bad('cache is a table {keys =, values =}, not %s', errors.describe(cache)) end
  if cache.keys == nil and cache.values == nil then return nil end
  local out, d = {}, math.floor(l.width / l.heads)
  for i, name in ipairs{ 'keys', 'values' } do
    local x = cache[name]
    if x == nil then l:bad('the cache has no %s', name) end
    x = convert.to_output(x, nil, nil, l:title())
    local s = x.shape
    if s and (#s ~= 4 or (s[2] >= 0 and s[2] ~= l.heads) or (s[4] >= 0 and s[4] ~= d)) then
      l:bad("the cache's %s are %s, [batch, %d, time, %d] is expected", name, shown(x), l.heads, d)
    end
    out[i] = x
  end
  return out
end

local MultiHead = layer.class{
  kind = 'MultiHeadAttention', made = { 'wide' },
  known = { 'heads', 'width', 'query', 'key', 'value', 'output', 'drop' },
  options = { 'causal', 'mask', 'cache', 'training' }, inputs = 3,
  text = function(l) return ('%d, %d'):format(l.heads, l.width) end,
  build = function(l)
    l.wide = l.width
    for _, name in ipairs(parts) do l[name].full_name = l.scope .. '/' .. name end
  end,
  call = function(l, opts, query, keys, values)
    query = l:input(query, 3, 3, SEQUENCE, 'its query')
    keys = keys == nil and query or l:input(keys, 3, 3, SEQUENCE, 'its keys')
    values = values == nil and keys or l:input(values, 3, 3, SEQUENCE, 'its values')
    if keys.shape[2] >= 0 and values.shape[2] >= 0 and keys.shape[2] ~= values.shape[2] then
      l:bad('its keys %s and values %s are of different times', shown(keys), shown(values))
    end
    if query.shape[1] >= 0 and keys.shape[1] >= 0 and query.shape[1] ~= keys.shape[1] then
      l:bad('its query %s and keys %s have different numbers of examples', shown(query), shown(keys))
    end
    l:prepare(query)
    local d = math.floor(l.width / l.heads)
    local q, k, v = split_heads(l, l.query(query) * d ^ -0.5), split_heads(l, l.key(keys)),
    split_heads(l, l.value(values))
    local before = opts.cache ~= nil and cached(l, opts.cache)
    local offset
    if before then
      offset = f.dim(before[1], 2)
      k, v = f.concat({ before[1], k }, 2), f.concat({ before[2], v }, 2)
    end
    local weights = weights_of(f.matmul(q, k, { transpose_b = true }), opts, offset, l:title())
    if l.drop then weights = l.drop(weights, { training = l:training(opts) }) end
    local y = l:shaped(query, l.output(join_heads(l, f.matmul(weights, v))))
    if opts.cache ~= nil then return y, { keys = k, values = v } end
    return y
  end,
  methods = {
    --- l:empty_cache(batch, dtype = 'float32'): keys and values of no time, what a loop over a growing cache begins
    -- with.
    empty_cache = function(l, batch, dtype)
      local d = math.floor(l.width / l.heads)
      local known = type(batch) == 'number'
      local function none()
        local x = f.zeros(known and { batch, l.heads, 0, d } or f.stack{ batch, l.heads, 0, d }, dtype or 'float32')
        return known and x or x:set_shape{ -1, l.heads, 0, d }
      end
      return { keys = none(), values = none() }
    end,
  },
}

--- df.nn.MultiHeadAttention(heads, size, {use_bias = true, dropout = 0, kernel_initializer, name}): l(query, keys =
-- query, values = keys, {causal = false, mask, cache, training}). size is the width of all heads together; parts .query
-- .key .value .output are Dense.
-- A mask is bool, true where a query may look. With a cache ({} or {keys =, values =}, each [batch, heads, time, size /
-- heads]) the keys and values go behind those it holds, and the longer cache is the second result.
function M.MultiHeadAttention(heads, size, opts)
  opts = errors.options(opts, 'MultiHeadAttention', { 'use_bias', 'dropout', 'kernel_initializer', 'name' })
  heads, size = layer.whole(heads, 'MultiHeadAttention', 'heads'), layer.whole(size, 'MultiHeadAttention', 'size')
  if size % heads ~= 0 then
    errors.bad('MultiHeadAttention: the size %d is not a multiple of the %d heads', size, heads)
  end
  local l = { heads = heads, width = size, inner = {}, name = opts.name }
  for i, name in ipairs(parts) do
    l[name] = basic.Dense(size, { use_bias = opts.use_bias, kernel_initializer = opts.kernel_initializer })
    l.inner[i] = l[name]
  end
  if opts.dropout ~= nil and opts.dropout ~= 0 then
    l.drop = basic.Dropout(opts.dropout)
    l.inner[#l.inner + 1] = l.drop
  end
  return layer.new(MultiHead, l)
end

-- ---- a transformer's block ------------------------------------------------------------------------------------------
local Block = layer.class{
  kind = 'TransformerBlock', made = { 'width' },
  known = { 'heads', 'hidden', 'causal', 'attention', 'norm1', 'norm2', 'dense1', 'dense2', 'drop', 'size' },
  options = { 'mask', 'cache', 'training' }, inputs = 1,
  text = function(l) return ('%d, %d'):format(l.heads, l.size) end,
  build = function(l, x)
    l.width = l:size_of(x, -1)
    if l.width ~= l.size then l:bad('its input is %s, [batch, time, %d] is expected', shown(x), l.size) end
    for _, name in ipairs{ 'norm1', 'attention', 'norm2', 'dense1', 'dense2' } do
      l[name].full_name = l.scope .. '/' .. name
    end
  end,
  call = function(l, opts, x)
    x = l:input(x, 3, 3, SEQUENCE)
    l:prepare(x)
    local training = l:training(opts)
    local function drop(v)
      if l.drop then return l.drop(v, { training = training }) end
      return v
    end
    local normal = l.norm1(x)
    local seen, cache = l.attention(normal, normal, normal,
                                    { causal = l.causal, mask = opts.mask, cache = opts.cache, training = training })
    x = x + drop(seen)
    local y = l:shaped(x, x + drop(l.dense2(l.dense1(l.norm2(x)))))
    if opts.cache ~= nil then return y, cache end
    return y
  end,
  methods = { empty_cache = function(l, ...) return l.attention:empty_cache(...) end },
}

--- df.nn.TransformerBlock(heads, size, {hidden = 4 * size, causal = false, dropout = 0, activation = gelu, name}):
-- attention and two dense layers, each behind a LayerNorm and added to what went in. l(x, {mask, cache, training});
-- with a cache the second result is it, longer.
function M.TransformerBlock(heads, size, opts)
  opts = errors.options(opts, 'TransformerBlock', { 'hidden', 'causal', 'dropout', 'activation', 'name' })
  local attention = M.MultiHeadAttention(heads, size, { dropout = opts.dropout })
  local l = { heads = heads, size = size, hidden = layer.whole(opts.hidden or 4 * size, 'TransformerBlock', 'hidden'),
              name = opts.name,
              causal = layer.flag(opts.causal, 'TransformerBlock', 'causal', false), attention = attention }
  l.norm1, l.norm2 = normalization.LayerNorm(), normalization.LayerNorm()
  l.dense1 = basic.Dense(l.hidden, { activation = opts.activation or f.gelu })
  l.dense2 = basic.Dense(size)
  l.inner = { l.norm1, l.attention, l.norm2, l.dense1, l.dense2 }
  if opts.dropout ~= nil and opts.dropout ~= 0 then
    l.drop = basic.Dropout(opts.dropout)
    l.inner[6] = l.drop
  end
  return layer.new(Block, l)
end

return M
