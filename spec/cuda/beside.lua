--- beside.lua: kernels of gpu:0 beside the reference: check(what, dtype, tensors, fn) compares the numbers and shapes of what fn makes of the tensors
-- there and here, and prints what differs; told() prints how many agree. In a process of its own, as the driver is chosen when one opens it.
local df = require 'dflow'
local support = require 'spec.support'
local unpack = table.unpack or unpack

--- The values and shapes of what fn makes of these tensors there; of placeholders, so that nothing is computed before.
local function values(device, kernels, tensors, fn)
  local g = df.Graph()
  return g:as_default(function()
    local xs, feeds = {}, {}
    for i, t in ipairs(tensors) do
      xs[i] = df.placeholder(t.dtype, t.shape)
      feeds[xs[i]] = t
    end
    local ys = df.device(device, function() return { fn(unpack(xs)) } end)
    local s, out, shapes = df.Session{ graph = g, kernels = kernels }, {}, {}
    for i, y in ipairs(ys) do
      local v = s:run(y, feeds)
      shapes[i] = support.is_tensor(v) and table.concat(v.shape, ',') or 'scalar'
      out[i] = v
    end
    s:close()
    return out, table.concat(shapes, ';')
  end)
end

local M = { agreeing = 0, wrong = 0 }
local only = arg and arg[1]                           -- a word: only what has it in its name
M.nears = { float16 = 4e-3, bfloat16 = 4e-2, float64 = 1e-11 }
function M.check(what, dtype, tensors, fn)
  if only and not what:find(only, 1, true) then return end
  local ok, here, shape = pcall(values, 'cpu:0', 'ref', tensors, fn)
  local also, there, shape_there = pcall(values, 'gpu:0', 'cpu', tensors, fn)
  local near = M.nears[dtype] or 1e-5
  local same, why = ok and also and shape == shape_there, not ok and here or not also and there or shape .. ' and ' .. tostring(shape_there)
  if same then same, why = pcall(support.near, there, here, { rtol = near, atol = near }) end
  if same then M.agreeing = M.agreeing + 1 return end
  M.wrong = M.wrong + 1
  print(('%s %s: %s'):format(what, dtype, tostring(why)))
end

function M.told() print(('%d agree, %d do not'):format(M.agreeing, M.wrong)) end
function M.tensor(shape, dtype, low, high) return support.tensor(shape, low or (dtype == 'uint8' and 0 or -3), high or 5, dtype) end
function M.ints(list, dtype) return df.tensor(list, dtype or 'int32') end
M.floats = { 'float32', 'float64', 'float16', 'bfloat16' }
M.numbers = { 'float32', 'float64', 'float16', 'bfloat16', 'int32', 'int64', 'int8', 'uint8' }
return M
