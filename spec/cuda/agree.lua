--- agree.lua: each op that has a gradient, and the gradient, computed on the host and with a GPU: prints what differs and how many agree.
-- Ops without a kernel there run on the host, so values cross; a process of its own, as the driver is chosen when one opens it.
local df = require 'dflow'
local graphs = require 'spec.op_gradients'
local near = require 'spec.support'.near

--- y and its gradients.
local function values(kind, device)
  df.reset()
  local y, gradients, feeds
  df.device(device, function()
    local xs
    y, xs, feeds = graphs.build(kind)
    gradients = df.gradients(y, xs, { unconnected = 'zero' })
  end)
  local s = df.Session{ devices = { 'cpu:0', 'gpu:0' }, soft_placement = true }
  local r = s:run({ y, gradients }, feeds)
  s:close()
  return r
end

local agreeing = 0
for _, kind in ipairs(graphs.types()) do
  local ok, host = pcall(values, kind, 'cpu:0')
  local also, there = pcall(values, kind, 'gpu:0')
  local same, wrong = ok, host
  if ok then same, wrong = also, there end
  if same then same, wrong = pcall(near, there, host, { rtol = 1e-5, atol = 1e-5 }) end
  if same then agreeing = agreeing + 1 else print(kind .. ': ' .. tostring(wrong)) end
end
print(('%d agree'):format(agreeing))
