--- libraries.lua: what of CUDA must be there where a GPU is judged, as dflow does without it and says nothing (DFLOW_STRESS=groups,graphs):
-- prints what is missing and how much is there.
local df = require 'dflow'
local one = df.device('gpu:0', function() return df.placeholder('float32', { 4, 4 }) end)
local feeds = { [one] = df.run(df.device('cpu:0', function() return df.ones({ 4, 4 }) end)) }

local s = df.Session{ engine = 'native', devices = { 'cpu:0', 'gpu:0' } }
s:run(df.device('gpu:0', function()
  local image, filter = df.reshape(one * 1, { 1, 4, 4, 1 }), df.reshape(one * 2, { 4, 4, 1, 1 })
  return { df.matmul(one, one), df.conv2d(image, filter, { strides = { 1, 1, 1, 1 }, padding = 'SAME' }), df.tanh(one * 0.5 + 1) * one - 1 }
end), feeds)
local lines = s:devices()[2].libraries
s:run(df.device('gpu:0', function()
  return { df.while_loop(function(x) return df.reduce_sum(x):gt(0.01) end, function(x) return x * 0.99 end, { one * 1 }) }
end), feeds)
local there, loop = 0, s:native()
local function must(what, line, pattern)
  if (line or ''):find(pattern) then there = there + 1 else print(('no %s: %s'):format(what, (line or 'nothing is said of it'):gsub('\n', ' '))) end
end
must('cuBLASLt', lines[1], 'cuBLASLt %d')
must('NVRTC', lines[2], 'NVRTC %d')
must('cuDNN', lines[3], 'cuDNN %d')
must('conditional nodes', loop, 'WHILE node')
print(there .. ' agree of 4')
