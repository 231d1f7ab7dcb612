--- Batches: the parts of several elements, each kind stacked to one Tensor.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local shapes = require 'dflow.front.shape'
local tensor = require 'dflow.front.tensor'

local M = {}
local Tensor = tensor.Tensor

--- Numbers, booleans or strings in a row: of the source's dtype while it can hold those of the first batch, else of
--- their own. What the first batch decided stays.
local function scalars(values, at, source, kinds)
  local d = kinds[at] or source and source[at]
  local number = d and dtypes.number[d]
  if number then
    local t, wrong = core.tensor_new(number, { #values }, values)
    if t then
      kinds[at] = d
      return t
    elseif kinds[at] then
      errors.bad('batch: %s in part %d cannot be held by %s, of which the first batch was: let map return '
                 .. 'df.tensor(v, dtype)',
                 errors.describe(values[wrong]), at, d)
    end
  end
  local t = tensor.from(values, nil, nil, 'batch')
  kinds[at] = t.dtype
  return t
end

local function shape_of_largest(parts)
  local most = {}
  for i, t in ipairs(parts) do
    local shape = core.tensor_shape(t)
    if i > 1 and #shape ~= #most then
      errors.bad('batch: elements of rank %d and %d cannot be padded to one shape', #most, #shape)
    end
    for k, n in ipairs(shape) do most[k] = math.max(most[k] or 0, n) end
  end
  return most
end

--- The elements of t as a list laid out in a larger shape.
local function padded(t, shape, value)
  local own, list = core.tensor_shape(t), core.tensor_list(t)
  local size = 1
  for _, n in ipairs(shape) do size = size * n end
  local out = {}
  for i = 1, size do out[i] = value end
  local index = {}
  for k = 1, #shape do index[k] = 0 end
  for i = 1, #list do
    local at = 0
    for k = 1, #shape do at = at * shape[k] + index[k] end
    out[at + 1] = list[i]
    local k = #shape
    while k > 0 do
      index[k] = index[k] + 1
      if index[k] < own[k] then break end
      index[k] = 0
      k = k - 1
    end
  end
  return out
end

local function stack(parts, at, opts)
  local first = core.tensor_info(parts[1])
  local shape, alike = core.tensor_shape(parts[1]), true
  for i = 2, #parts do
    if core.tensor_info(parts[i]) ~= first then
      errors.bad('batch: part %d is %s in one element and %s in another', at, parts[1].dtype, parts[i].dtype)
    end
    alike = alike and shapes.same(core.tensor_shape(parts[i]), shape)
  end
  if not alike and not opts.pad then
    for i = 2, #parts do
      local other = core.tensor_shape(parts[i])
      if not shapes.same(other, shape) then
        errors.bad('batch: part %d is %s in one element and %s in another; pad = true fills the smaller ones up', at,
                   tensor.shape_text(parts[1].dtype, shape), tensor.shape_text(parts[i].dtype, other))
      end
    end
  end
  local d = dtypes.name[first]
  if alike and d ~= 'string' then
    local bytes = {}
    for i, t in ipairs(parts) do bytes[i] = core.tensor_bytes(t) end
    return core.tensor_from_bytes(first, { #parts, (table.unpack or unpack)(shape) }, table.concat(bytes))
  end
  shape = alike and shape or shape_of_largest(parts)
  local value = opts.pad_value
  if value == nil then value = d == 'string' and '' or d == 'bool' and false or 0 end
  if d == 'bool' and value == 0 then value = false end
  local all = {}
  for _, t in ipairs(parts) do
    for _, x in ipairs(padded(t, shape, value)) do all[#all + 1] = x end
  end
  if #all == 0 then all[1] = value end
  local t, wrong = core.tensor_new(first, { #parts, (table.unpack or unpack)(shape) }, all)
  if not t then errors.bad('batch: pad_value is %s, which %s cannot hold', errors.describe(all[wrong]), d) end
  return t
end

--- One element of many.
-- @param parts_of  looks at an element's parts
-- @param source    the dtypes of the source's parts, or nil
-- @param kinds     what the first batch decided; kept by the caller
function M.stack(list, parts_of, source, kinds, opts)
  local of = list[1].of
  local untouched = of ~= nil
  for _, e in ipairs(list) do untouched = untouched and e.row ~= nil and e.of == of end
  local out = {}
  if untouched then
    local rows = {}
    for i, e in ipairs(list) do rows[i] = e.row end
    for i, t in ipairs(of) do out[i] = core.tensor_rows(t, rows, 1, #rows) end
    out.n = #of
    return out
  end
  for _, e in ipairs(list) do parts_of(e) end
  out.n = list[1].n
  for at = 1, out.n do
    local parts, boxed = {}, false
    for i, e in ipairs(list) do
      if e.n ~= out.n then errors.bad('batch: one element has %d parts, another %d', out.n, e.n) end
      local v = e[at]
      if type(v) == 'table' and getmetatable(v) ~= Tensor then v = tensor.from(v, nil, nil, 'batch') end
      parts[i], boxed = v, boxed or getmetatable(v) == Tensor
    end
    if boxed then
      for i, v in ipairs(parts) do
        if getmetatable(v) ~= Tensor then parts[i] = tensor.from(v, nil, nil, 'batch') end
      end
      out[at] = stack(parts, at, opts)
    else
      out[at] = scalars(parts, at, source, kinds)
    end
  end
  return out
end

return M
