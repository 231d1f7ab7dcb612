--- Lists of tensors as one value: what a model in ONNX takes as a sequence or an optional value (none or one), and
-- gives.
local errors = require 'dflow.front.errors'

local M = {}

--- What fn builds in a graph of its own, for these feeds (a function of the Outputs that it is given).
local function run(fn, ...)
  local df = require 'dflow'
  local g, given = df.Graph(), { ... }
  return g:as_default(function()
    local fetches, feeds = fn(given)
    local s = df.Session{ graph = g, threads = 1 }
    local results = s:run(fetches, feeds, { tensors = true })
    s:close()
    return results
  end)
end

--- df.tensor_list({t1, t2, …}, dtype?) -> Tensor: a list of Tensors of one dtype, as a model's sequence is fed. An
-- empty list needs the dtype. Shapes may differ. Elements that are such lists themselves make a list of lists.
function M.tensor_list(list, dtype)
  local df = require 'dflow'
  if type(list) ~= 'table' or df.type(list) then
    errors.bad('tensor_list: %s, a table of Tensors is expected', errors.describe(list))
  end
  local tensors = {}
  for i, v in ipairs(list) do
    tensors[i] = df.type(v) == 'tensor' and v or df.tensor(v, dtype)
    dtype = dtype or tensors[i].dtype
    if tensors[i].dtype ~= dtype then
      errors.bad('tensor_list: element %d is %s, the list is of %s', i, tensors[i].dtype, dtype)
    end
  end
  if not dtype then errors.bad 'tensor_list: the list is empty; its dtype is expected behind it' end
  local op = require('dflow.front.registry').op
  return run(function()
    local feeds = {}
    local handle = op('EmptyTensorList', { df.int32(-1), df.int32(-1) }, { element_dtype = dtype })
    for _, t in ipairs(tensors) do
      local x = df.placeholder(dtype, t.shape)
      feeds[x] = t
      handle = op('TensorListPushBack', { handle, x }, {})
    end
    return handle, feeds
  end)
end

--- df.tensor_list_values(value, dtype) -> list of Tensors: the elements of a list that a run gave; dtype is that of its
-- elements.
function M.tensor_list_values(value, dtype)
  local df = require 'dflow'
  if df.type(value) ~= 'tensor' or value.dtype ~= 'variant' then
    errors.bad('tensor_list_values: %s, what a run gave for a list is expected', errors.describe(value))
  end
  local op = require('dflow.front.registry').op
  local function of(fn) return run(function()
    local v = df.placeholder('variant', {})
    return fn(v), { [v] = value }
  end) end
  local count = of(function(v) return op('TensorListLength', { v }, {}) end):item()
  if count == 0 then return {} end
  return of(function(v)
    local items = {}
    for i = 1, count do
      items[i] = op('TensorListGetItem', { v, df.int32(i - 1), df.int32(-1) }, { element_dtype = dtype })
    end
    return items
  end)
end

return M
