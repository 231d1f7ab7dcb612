--- df.all_reduce, df.all_gather, df.broadcast: values that several devices have, combined for all of them.
--
-- Made of ordinary ops that are asked to be with the inputs, so gradients, loops, ranks and errors need no words of
-- their own. Each element is combined once, in the order of the list, and copied: all places have the same bits.
local errors = require 'dflow.front.errors'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local tensor = require 'dflow.front.tensor'
local ops = require 'dflow.front.ops'

local M = {}
local f = ops.functions
local RING_BYTES = 64 * 1024         -- from so many bytes on a ring moves less than a tree does

--- A list of Outputs of one dtype.
local function outputs_of(list, what)
  if type(list) ~= 'table' or getmetatable(list) ~= nil or #list == 0 then
    errors.bad('%s takes a list of Outputs, one for each device, not %s', what, errors.describe(list))
  end
  local outs = {}
  for i = 1, #list do
    if list[i] == nil then errors.bad('%s: element %d of the list is nil', what, i) end
    outs[i] = convert.to_output(list[i], outs[1] and outs[1].dtype, outs[1] and outs[1].graph, what)
    if outs[i].dtype ~= outs[1].dtype then
      errors.bad('%s: element %d is %s and the first is %s; all must have one dtype', what, i, outs[i].dtype,
                 outs[1].dtype)
    end
  end
  return outs
end

--- May the two have one shape, as far as it is known?
local function may_be_alike(a, b)
  local s, t = a.shape, b.shape
  if not s or not t then return true end
  for k = 1, math.max(#s, #t) do if s[k] ~= t[k] and (s[k] or 0) >= 0 and (t[k] or 0) >= 0 then return false end end
  return #s == #t
end

local function with(x, fn) return graph.colocate_with(x, fn) end

local combine = {
  sum = function(a, b) return a + b end, mean = function(a, b) return a + b end,
  prod = function(a, b) return a * b end,
  max = function(a, b) return f.maximum(a, b) end, min = function(a, b) return f.minimum(a, b) end,
}

--- Bytes of an element: `float32` has 4.
local function bytes_of(dtype) return (tonumber(dtype:match '%d+$') or 8) / 8 end

--- How many elements each has; nil where that is not known.
local function elements(x)
  local shape, n = x.shape, 1
  if not shape then return nil end
  for i = 1, #shape do
    if shape[i] < 0 then return nil end
    n = n * shape[i]
  end
  return n
end

--- Copies of x with each of the others.
local function copies(x, first, outs)
  local list = {}
  for i, o in ipairs(outs) do list[i] = i == first and x or with(o, function() return f.identity(x) end) end
  return list
end

--- Pairs, pairs of pairs, …: each step is taken where the left one is. The result is with the first.
local function tree(outs, op)
  local level = {}
  for i, o in ipairs(outs) do level[i] = { value = o, at = o } end
  while #level > 1 do
    local above = {}
    for i = 1, #level, 2 do
      local a, b = level[i], level[i + 1]
      above[#above + 1] = b and { value = with(a.at, function() return op(a.value, b.value) end), at = a.at } or a
    end
    level = above
  end
  return level[1].value
end

--- Part k of n of a vector of `size` elements is combined along the ring that ends at device k; then each has all
-- parts.
local function ring(outs, op, size)
  local n, flat, parts = #outs, {}, {}
  local first, length = {}, {}
  for k = 1, n do
    first[k] = math.floor((k - 1) * size / n)
    length[k] = math.floor(k * size / n) - first[k]
  end
  for i, o in ipairs(outs) do flat[i] = with(o, function() return f.reshape(o, { size }) end) end
  local function part(i, k)
    return with(outs[i], function() return f.slice(flat[i], { first[k] }, { length[k] }) end)
  end
  for k = 1, n do
    local sum = part(k % n + 1, k)
    for step = 2, n do
      local i = (k + step - 1) % n + 1
      local mine = part(i, k)
      local before = sum
      sum = with(outs[i], function() return op(before, mine) end)
    end
    parts[k] = sum
  end
  local results = {}
  for i, o in ipairs(outs) do
    results[i] = with(o, function() return f.reshape(f.concat(parts, 0), o.shape) end)
  end
  return results
end

--- all_reduce({x0, x1, …}, {op = 'sum'}): a list, each result where its input is: 'sum', 'mean', 'max', 'min' or 'prod'
-- over the list.
function M.all_reduce(list, opts)
  opts = errors.options(opts, 'all_reduce', { 'op' })
  local name = opts.op == nil and 'sum' or opts.op
  local op = combine[name]
  if not op then
    errors.bad("all_reduce: op is 'sum', 'mean', 'max', 'min' or 'prod', not %s", errors.describe(name))
  end
  local outs = outputs_of(list, 'all_reduce')
  for i, o in ipairs(outs) do
    if not may_be_alike(o, outs[1]) then
      errors.bad('all_reduce: element %d is %s and the first is %s; all must have one shape', i,
                 tensor.shape_text(o.dtype, o.shape),
                 tensor.shape_text(outs[1].dtype, outs[1].shape))
    end
  end
  local n, size = #outs, elements(outs[1])
  local results
  if n == 1 then results = { outs[1] }
  elseif n > 2 and size and size >= n
    and size * bytes_of(outs[1].dtype) >= RING_BYTES then results = ring(outs, op, size)
  elseif n == 2 then                  -- both sides compute it: one message each way
    results = {}
    for i = 1, 2 do results[i] = with(outs[i], function() return op(outs[1], outs[2]) end) end
  else results = copies(tree(outs, op), 1, outs) end
  if name ~= 'mean' then return results end
  for i = 1, n do
    local sum = results[i]
    results[i] = with(outs[i], function() return sum / f.cast(n, outs[1].dtype) end)
  end
  return results
end

--- all_gather({x0, x1, …}, {axis = 0}): a list, where each input is the inputs side by side along the axis.
function M.all_gather(list, opts)
  opts = errors.options(opts, 'all_gather', { 'axis' })
  local axis = opts.axis == nil and 0 or opts.axis
  if type(axis) ~= 'number' or axis % 1 ~= 0 then
    errors.bad('all_gather: axis is a whole number, not %s', errors.describe(axis))
  end
  local outs, results = outputs_of(list, 'all_gather'), {}
  for i, o in ipairs(outs) do results[i] = with(o, function() return f.concat(outs, axis) end) end
  return results
end

--- broadcast(x, devices): a list of x on each of the devices.
function M.broadcast(x, devices)
  if type(devices) ~= 'table' or #devices == 0 then
    errors.bad("broadcast takes a value and a list of devices such as {'sim:0', '/rank:1/sim:0'}, not %s",
               errors.describe(devices))
  end
  x = convert.to_output(x, nil, nil, 'broadcast')
  local list = {}
  for i, device in ipairs(devices) do
    if type(device) ~= 'string' then
      errors.bad('broadcast: device %d is a name, not %s', i, errors.describe(device))
    end
    list[i] = graph.device(device, function() return f.identity(x) end)
  end
  return list
end

return M
