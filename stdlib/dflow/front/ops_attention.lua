--- Attention as one op: what a mask and a bias become, and what is said of what does not fit.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local registry = require 'dflow.front.registry'
local arguments = require 'dflow.front.arguments'

local functions, def, required = arguments.functions, arguments.def, arguments.required
local op, to_output, typed = registry.op, convert.to_output, convert.typed

local WHAT = 'scaled_dot_product_attention'

local M = {}

--- true where query i may look at key j: at what is not after it, when `offset` keys are before the first query.
function M.causal_mask(queries, keys, offset)
  local rows = functions.expand_dims(functions.range(queries), 1)
  if offset ~= nil then rows = rows + offset end
  return functions.less_equal(functions.expand_dims(functions.range(keys), 0), rows)
end

--- Raises unless o.offset is a whole number from 0 up or an int32 scalar, and o.causal is true with it.
function M.causal_offset(o, what)
  local offset = o.offset
  if offset == nil then return end
  local d = type(offset) == 'table' and not errors.is_data(offset) and typed(offset)
  local is_number = type(offset) == 'number' and dtypes.is_whole(offset) and offset >= 0
  if not is_number and (not d or d ~= dtypes.number.int32 or (offset.shape and #offset.shape > 0)) then
    errors.bad('%s: offset is %s; how many keys are before the first query is expected, a whole number from 0 up or a '
               .. 'scalar int32', what,
               d and require('dflow.front.tensor').shape_text(offset.dtype, offset.shape) or errors.describe(offset))
  end
  if o.causal ~= true then errors.bad('%s: offset goes with causal = true', what) end
end

local function mask_of(mask, g)
  mask = to_output(mask, typed(mask) == nil and dtypes.BOOL or nil, g, WHAT)
  if graph.dtype(mask) ~= dtypes.BOOL then
    errors.bad('%s: the mask is %s, a bool is expected, true where a query may look; what is added to the scores is '
               .. 'the bias', WHAT, mask.dtype)
  end
  return mask
end

--- What the op is given beside queries, keys and values: nothing, a mask, or what is added to the scores.
local function extra_of(o, q)
  local mask = o.mask ~= nil and mask_of(o.mask, q.graph) or nil
  if o.bias == nil then return { mask } end
  local dtype = graph.dtype(q)
  local bias = to_output(o.bias, dtype, q.graph, WHAT)
  if graph.dtype(bias) == dtypes.BOOL then
    errors.bad('%s: the bias is %s, what is added to the scores is expected; where a query may look is the mask', WHAT,
               bias.dtype)
  end
  if mask then bias = functions.select_v2(mask, bias, to_output(-math.huge, dtype, q.graph, WHAT)) end
  return { bias }
end

--- scaled_dot_product_attention(query, key, value, {mask, bias, causal = false, offset, scale}): softmax(scale query
-- key' + bias) value, without the matrix of all scores; with an offset a bool for each of them says what is causal.
-- query [..., tq, d], key [..., tk, d], value [..., tk, dv] -> [..., tq, dv].
def(WHAT, { 'query', 'key', 'value' }, { 'mask', 'bias', 'causal', 'offset', 'scale' }, function(o)
  required(WHAT, o, 'query', 'key', 'value')
  if o.causal ~= nil and type(o.causal) ~= 'boolean' then
    errors.bad('%s: causal is true or false, not %s', WHAT, errors.describe(o.causal))
  end
  M.causal_offset(o, WHAT)
  local scale = o.scale
  if scale ~= nil and (type(scale) ~= 'number' or scale == 0 or scale - scale ~= 0) then
    errors.bad('%s: scale is a finite number other than 0, not %s', WHAT, errors.describe(scale))
  end
  local q = to_output(o.query, not typed(o.query) and dtypes.FLOAT32 or nil, nil, WHAT)
  local dtype = graph.dtype(q)
  local k, v = to_output(o.key, dtype, q.graph, WHAT), to_output(o.value, dtype, q.graph, WHAT)
  local causal = o.causal
  if o.offset ~= nil then
    local mask = M.causal_mask(functions.dim(q, -2), functions.dim(k, -2), o.offset)
    o.mask, causal = o.mask ~= nil and functions.logical_and(mask_of(o.mask, q.graph), mask) or mask, nil
  end
  return (op('ScaledDotProductAttention', { q, k, v, extra_of(o, q) },
             { causal = causal, scale = scale, name = o.name }))
end)

return M
