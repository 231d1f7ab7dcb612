--- df.nn: layers, attention, losses, samplers and metrics, made of variables and ops; the door to the rooms in nn/. The ops of df are
-- here, too: `df.nn.relu` is `df.relu`.
local errors = require 'dflow.front.errors'
local ops = require 'dflow.front.ops'

local M = { initializers = require 'dflow.nn.initializers' }
for _, room in ipairs{ 'functions', 'basic', 'convolution', 'normalization', 'attention' } do
  for name, fn in pairs(require('dflow.nn.' .. room)) do M[name] = fn end
end

return setmetatable(M, { __index = function(_, name)
  local fn = type(name) == 'string' and ops.find(name)
  if fn then return fn end
  local names = {}
  for known in pairs(M) do names[#names + 1] = known end
  table.sort(names, function(a, b) return a > b end)      -- small letters first: of names alike, what was typed is more often a function
  errors.bad("df.nn has no '%s'%s", tostring(name), errors.hint(name, names))
end })
