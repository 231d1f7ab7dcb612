--- agree.lua: each op that has a gradient, and the gradient, computed on the host and with a GPU: prints what differs and how many agree.
-- Ops without a kernel there run on the host, so values cross; a process of its own, as the driver is chosen when one opens it.
local df = require 'dflow'
local graphs = require 'spec.op_gradients'

local function flat(v, into)
  if type(v) == 'number' then into[#into + 1] = v
  elseif type(v) == 'boolean' then into[#into + 1] = v and 1 or 0
  elseif type(v) == 'table' and not v.dtype then for _, e in ipairs(v) do flat(e, into) end
  else flat(v:totable(), into) end
  return into
end

--- The numbers of y and its gradients.
local function values(kind, device)
  df.reset()
  local y, gradients, feeds
  df.device(device, function()
    local xs
    y, xs, feeds = graphs.build(kind)
    gradients = df.gradients(y, xs, { unconnected = 'zero' })
  end)
  local s = df.Session{ devices = { 'cpu:0', 'gpu:0' }, soft_placement = true }
  local r = flat(s:run({ y, gradients }, feeds), {})
  s:close()
  return r
end

local agreeing = 0
for _, kind in ipairs(graphs.types()) do
  local ok, host = pcall(values, kind, 'cpu:0')
  local also, there = pcall(values, kind, 'gpu:0')
  local wrong = not ok and host or not also and there or #host ~= #there and ('%d numbers, %d there'):format(#host, #there)
  for i = 1, wrong and 0 or #host do
    local a, b = host[i], there[i]
    local near = a == b or a ~= a and b ~= b or math.abs(a - b) <= 1e-5 * math.max(1, math.abs(a))
    if not near then wrong = ('number %d is %s, there %s'):format(i, a, b) break end
  end
  if wrong then print(kind .. ': ' .. tostring(wrong)) else agreeing = agreeing + 1 end
end
print(('%d agree'):format(agreeing))
