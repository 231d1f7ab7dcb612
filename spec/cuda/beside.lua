--- beside.lua: kernels of gpu:0 beside the reference: check(what, dtype, tensors, fn) compares the numbers and shapes of what fn makes of the tensors
-- there and here, and prints what differs; told() prints how many agree. In a process of its own, as the driver is chosen when one opens it.
local df = require 'dflow'
local support = require 'spec.support'
local unpack = table.unpack or unpack

local function flat(v, into)
  if type(v) == 'number' then into[#into + 1] = v
  elseif type(v) == 'boolean' then into[#into + 1] = v and 1 or 0
  elseif not support.is_tensor(v) then for _, e in ipairs(v) do flat(e, into) end
  elseif v.rank == 0 then flat(v:item(), into)
  else flat(v:totable(), into) end
  return into
end

--- The numbers and shapes of what fn makes of these tensors there; of placeholders, so that nothing is computed before.
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
      flat(v, out)
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
  local near, why = M.nears[dtype] or 1e-5, nil
  if not ok or not also then why = tostring(not ok and here or there)
  elseif shape ~= shape_there then why = shape .. ' and ' .. shape_there
  else
    for i = 1, #here do
      local a, b = here[i], there[i]
      if not (a == b or a ~= a and b ~= b or math.abs(a - b) <= near * math.max(1, math.abs(a))) then
        why = ('number %d is %s, there %s'):format(i, a, b)
        break
      end
    end
  end
  if why then
    M.wrong = M.wrong + 1
    print(('%s %s: %s'):format(what, dtype, why))
  else M.agreeing = M.agreeing + 1 end
end

function M.told() print(('%d agree, %d do not'):format(M.agreeing, M.wrong)) end
function M.tensor(shape, dtype, low, high) return support.tensor(shape, low or (dtype == 'uint8' and 0 or -3), high or 5, dtype) end
function M.ints(list, dtype) return df.tensor(list, dtype or 'int32') end
M.floats = { 'float32', 'float64', 'float16', 'bfloat16' }
M.numbers = { 'float32', 'float64', 'float16', 'bfloat16', 'int32', 'int64', 'int8', 'uint8' }
return M
