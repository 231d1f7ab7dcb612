--- Sequences and optional values of ONNX models for `dflow run`: how they are fed, and what a run gave.
--
-- Element k of the sequence NAME is NAME[k] in a file. An optional value is a list of one or none.
local df = require 'dflow'
local listing = require 'dflow.front.listing'

local M = {}

--- What the model's input or output of that name is: {dtype = that of the tensors in it, optional =, of_lists =}; nil:
-- a tensor.
function M.kind(g, name)
  name = name:gsub(':0$', '')
  local dtype = g.onnx and g.onnx.lists[name]
  if not dtype then return nil end
  return { dtype = g.onnx.optional[name] or dtype, optional = g.onnx.optional[name] ~= nil,
           of_lists = dtype == 'variant' }
end

--- The value that is fed for a list of Tensors; nil: an optional value that has none.
function M.fed(kind, tensors)
  if not tensors then return df.tensor_list({}, kind.of_lists and 'variant' or kind.dtype) end
  local value = df.tensor_list(tensors, kind.dtype)
  return kind.of_lists and df.tensor_list({ value }, 'variant') or value
end

--- What a run gave: a listing of Tensors, or the Tensor of an optional value; 'none': it has none.
function M.given(kind, value)
  if kind.of_lists then value = df.tensor_list_values(value, 'variant')[1] end
  if not value then return 'none' end
  local list = df.tensor_list_values(value, kind.dtype)
  if kind.optional and not kind.of_lists then return list[1] or 'none' end
  return listing.of(list)
end

--- The arrays of a file as a list: arr_2 before arr_10, s[2] before s[10].
function M.in_order(arrays)
  local keys, list = {}, {}
  for key in pairs(arrays) do keys[#keys + 1] = key end
  local function split(key) return key:match '^(.-)(%d+)%]?$' end
  table.sort(keys, function(a, b)
    local before_a, number_a = split(a)
    local before_b, number_b = split(b)
    if before_a and before_a == before_b then return tonumber(number_a) < tonumber(number_b) end
    return a < b
  end)
  for i, key in ipairs(keys) do list[i] = arrays[key] end
  return list
end

--- Takes the elements NAME[k] of the model's lists out of a file's arrays: {[NAME] = list of Tensors}.
function M.take(g, arrays)
  local lists = {}
  for key, value in pairs(arrays) do
    local name = key:match '^(.*)%[%d+%]$'
    if name and M.kind(g, name) then
      lists[name] = lists[name] or {}
      lists[name][key] = value
    end
  end
  for name, elements in pairs(lists) do
    for key in pairs(elements) do arrays[key] = nil end
    lists[name] = M.in_order(elements)
  end
  return lists
end

return M
