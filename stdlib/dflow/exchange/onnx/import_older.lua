--- ONNX's operators of whole-number convolutions, text, tables and optimizers in dflow's words.
local df = require 'dflow'
local read = require 'dflow.exchange.onnx.read'
local import_nn = require 'dflow.exchange.onnx.import_nn'
local layout = require 'dflow.exchange.onnx.layout'

local ops, help = import_nn.ops, import_nn.help
local rank_of, same = help.rank, help.same
local unpack = table.unpack or unpack

-- ---- whole numbers --------------------------------------------------------------------------------------------------
--- v less its zero point, exact in float64: along dimension `axis` where there is a zero point for each place.
local function centred(n, v, zero, axis)
  local x = df.cast(v, 'float64')
  if not zero then return x end
  local z, dims = df.cast(zero, 'float64'), {}
  if rank_of(n, zero) == 1 then
    for d = 1, rank_of(n, v) do dims[d] = d == axis + 1 and -1 or 1 end
    z = df.reshape(z, dims)
  end
  return x - z
end
--- The sums of a convolution of whole numbers less what stands for 0: of bytes as a product of matrices of bytes, of
-- which a row is what the window sees from a place, else exact in float64.
local function sums(n, x, x_zero, w, w_zero)
  local rank, size = rank_of(n, w), {}
  for d = 3, rank do size[d - 2] = w.shape[d] end
  local bytes = rank <= 4 and n.attr('group', 1) == 1 and math.min(w.shape[1], unpack(size)) > 0
  for _, zero in pairs{ x_zero, w_zero } do bytes = bytes and rank_of(n, zero) == 0 end
  if not bytes then return ops.Conv(n, centred(n, x, x_zero, 1), centred(n, w, w_zero, 0)) end
  local seen = help.patches(n, x, size, x_zero or df.cast(0, x.dtype))
  local filter = layout.folded(function(v)
    return df.reshape(df.transpose(v, rank == 3 and { 2, 1, 0 } or { 2, 3, 1, 0 }), { -1, w.shape[1] })
  end, w)
  local rows, low, high = help.quantised(df.reshape(seen, { -1, size[1] * (size[2] or 1) * w.shape[2] }), x_zero)
  local columns, low_w, high_w = help.quantised(filter, w_zero)
  local y = df.cast((df.quantized_matmul(rows, columns, low, high, low_w, high_w)), 'int32')
  local places = df.slice(df.shape(seen), { 0 }, { 3 })
  return layout.second(n, df.reshape(y, df.concat({ places, df.constant({ w.shape[1] }, 'int32') }, 0)), rank)
end
function ops.ConvInteger(n, x, w, x_zero, w_zero) return df.cast(sums(n, x, x_zero, w, w_zero), 'int32') end

local limits = { int8 = { -128, 127 }, uint8 = { 0, 255 } }
function ops.QLinearConv(n, x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias)
  local limit = limits[y_zero.dtype] or n:refuse(('it gives %s'):format(y_zero.dtype))
  --- One number, or one for each of the output's channels.
  local function by_channel(v)
    local dims = {}
    for d = 1, rank_of(n, x) do dims[d] = d == 2 and -1 or 1 end
    v = df.cast(v, 'float64')
    return rank_of(n, v) == 1 and df.reshape(v, dims) or v
  end
  local sum, scale = df.cast(sums(n, x, x_zero, w, w_zero), 'float64'), by_channel(w_scale)
  if bias then sum = sum + by_channel(bias) end
  local y = df.rint(sum * scale * df.cast(x_scale, 'float64') / df.cast(y_scale, 'float64'))
    + df.cast(y_zero, 'float64')
  return df.cast(df.cast(df.clip_by_value(y, limit[1], limit[2]), 'int32'), y_zero.dtype)
end

-- ---- text and tables ------------------------------------------------------------------------------------------------
--- The parts of s between delimiters, `most` cuts at the most; without a delimiter between runs of spaces.
local function parts_of(s, delimiter, most)
  local parts, at = {}, 1
  if delimiter == '' then
    s = s:gsub('^%s+', ''):gsub('%s+$', '')
    while at <= #s do
      local first, last = s:find('%s+', at)
      if not first or #parts == most then break end
      parts[#parts + 1], at = s:sub(at, first - 1), last + 1
    end
    if at <= #s then parts[#parts + 1] = s:sub(at) end
    return parts
  end
  while #parts < most do
    local first, last = s:find(delimiter, at, true)
    if not first then break end
    parts[#parts + 1], at = s:sub(at, first - 1), last + 1
  end
  parts[#parts + 1] = s:sub(at)
  return parts
end

function ops.StringSplit(n, x)
  local delimiter, most = n.attr('delimiter', ''), n.attr('maxsplit', math.huge)
  local function split(words)
    local list, shape = { words }, {}
    if type(words) ~= 'string' then list, shape = words:list(), words.shape end
    local rows, width, counts, flat = {}, 0, {}, {}
    for i, s in ipairs(list) do
      rows[i] = parts_of(s, delimiter, most)
      counts[i], width = #rows[i], math.max(width, #rows[i])
    end
    for _, row in ipairs(rows) do
      for k = 1, width do flat[#flat + 1] = row[k] or '' end
    end
    local wide = {}
    for d = 1, #shape do wide[d] = shape[d] end
    wide[#wide + 1] = width
    return df.tensor(flat, 'string', wide), df.tensor(counts, 'int64', shape)
  end
  return { df.lua_func(split, { x }, { 'string', 'int64' }, { stateful = false }) }
end

function ops.RegexFullMatch(n, x) return df.regex_full_match(x, n.attr('pattern', '')) end
function ops.StringNormalizer(n, x)
  local change, stop = n.attr('case_change_action', 'NONE'), n.attr('stopwords', {})
  local exact = n.attr('is_case_sensitive', 0) == 1
  local rank = rank_of(n, x)
  local words = rank == 2 and df.squeeze(x, { axis = { 0 } }) or x
  if #stop > 0 then
    local function plain(v) return exact and v or df.string_lower(v, { encoding = 'utf-8' }) end
    local listed = df.equal(df.expand_dims(plain(words), 1), df.expand_dims(plain(df.constant(stop)), 0))
    words = df.boolean_mask(words, df.logical_not(df.reduce_any(listed, 1)))
    -- one empty word, if none is left
    words = df.concat({ words, df.fill(df.cast(df.equal(df.shape(words), 0), 'int32'), df.constant '') }, 0)
  end
  if change == 'LOWER' then words = df.string_lower(words, { encoding = 'utf-8' }) end
  if change == 'UPPER' then words = df.string_upper(words, { encoding = 'utf-8' }) end
  return rank == 2 and df.expand_dims(words, 0) or words
end

--- An attribute of one of these kinds, as a constant; `kind`: of which.
local function either(n, name, kinds)
  for _, kind in ipairs(kinds) do
    local v = n.attr(name .. kind[1])
    if v ~= nil then
      return kind[2] and df.constant(v, kind[2]) or df.constant(read.tensor(v, name .. kind[1] .. ' of ' .. n.name))
    end
  end
end
function ops.LabelEncoder(n, x)
  local lists = { { 'tensor' }, { 'strings', 'string' }, { 'int64s', 'int64' }, { 'floats', 'float32' } }
  local keys, values = either(n, 'keys_', lists), either(n, 'values_', lists)
  if not keys or not values then n:refuse 'it has no keys or no values' end
  local none = either(n, 'default_',
                      { { 'tensor' }, { 'string', 'string' }, { 'int64', 'int64' }, { 'float', 'float32' } })
  if not none then
    none = values.dtype == 'string' and df.constant '_Unused' or values.dtype == 'int64' and df.int64(-1)
      or df.constant(-0.0, values.dtype)
  end
  none = df.reshape(none, df.zeros({ 0 }, 'int32'))
  local equal = df.equal(df.expand_dims(x, -1), keys)              -- few keys: each is looked at
  local found = df.gather(values, df.argmax(df.cast(equal, 'int32'), -1))
  return df.select_v2(df.reduce_any(equal, -1), found, none)
end

function ops.ArrayFeatureExtractor(n, x, at)
  local y = df.gather(x, df.reshape(at, df.constant({ -1 }, 'int32')), { axis = -1 })
  return rank_of(n, x) == 1 and df.expand_dims(y, 0) or y
end
function ops.Binarizer(n, x) return df.cast(df.greater(x, same(x, n.attr('threshold', 0))), x.dtype) end

-- ---- optimizers: of inputs rate, step, then as many values, gradients and states each -------------------------------
local function optimizer(states, step)
  return function(n, rate, t, ...)
    local given, out = { ... }, {}
    local k = #given / (2 + states)
    for i = 1, k do
      local s = {}
      for j = 1, states do s[j] = given[(1 + j) * k + i] end
      local x, g = given[i], given[k + i]
      local new = { step(n, rate, t, x, g + x * same(x, n.attr('norm_coefficient', 0)), s[1], s[2]) }
      for j, v in ipairs(new) do out[(j - 1) * k + i] = v end
    end
    return out
  end
end
ops.Adagrad = optimizer(1, function(n, rate, t, x, g, h)
  local r = rate / (df.cast(t, rate.dtype) * same(rate, n.attr('decay_factor', 0)) + 1)
  h = h + df.square(g)
  return x - r * g / (df.sqrt(h) + same(x, n.attr('epsilon', 1e-6))), h
end)
ops.Momentum = optimizer(1, function(n, rate, t, x, g, v)
  local alpha, beta = same(x, n.attr 'alpha'), same(x, n.attr 'beta')
  v = alpha * v + df.where(df.greater(t, same(t, 0)), beta, df.ones_like(beta)) * g
  return x - rate * (n.attr 'mode' == 'nesterov' and g + alpha * v or v), v
end)
ops.Adam = optimizer(2, function(n, rate, t, x, g, v, h)
  local alpha, beta = same(x, n.attr('alpha', 0.9)), same(x, n.attr('beta', 0.999))
  v, h = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * df.square(g)
  local n_steps = df.cast(t, rate.dtype)
  local adjusted = df.where(df.greater(t, same(t, 0)), rate * df.sqrt(1 - beta ^ n_steps) / (1 - alpha ^ n_steps), rate)
  local y = x - adjusted * v / (df.sqrt(h) + same(x, n.attr('epsilon', 1e-6)))
  return y * same(x, 1 - n.attr('norm_coefficient_post', 0)), v, h
end)

-- Operators of the standard's other domains.
for name, domain in pairs{ LabelEncoder = 'ai.onnx.ml', ArrayFeatureExtractor = 'ai.onnx.ml', Binarizer = 'ai.onnx.ml',
                           Adagrad = 'ai.onnx.preview.training', Momentum = 'ai.onnx.preview.training',
                           Adam = 'ai.onnx.preview.training' } do
  ops[domain .. ':' .. name], ops[name] = ops[name], nil
end

return import_nn
