--- df.nn: layers, attention, losses, samplers and metrics, made of variables and ops; the modules are in nn/. The ops
-- of df are here, too: `df.nn.relu` is `df.relu`.
local errors = require 'dflow.front.errors'
local ops = require 'dflow.front.ops'

local M = { initializers = require 'dflow.nn.initializers', metrics = require 'dflow.nn.metrics' }
local inside = { classes = true }      -- of these modules for each other
for _, room in ipairs{ 'functions', 'basic', 'convolution', 'normalization', 'attention', 'losses', 'samplers' } do
  for name, fn in pairs(require('dflow.nn.' .. room)) do
    if not inside[name] then M[name] = fn end
  end
end

-- Of df themselves, as the ops are.
local own = { sampled_softmax_loss = 'dflow.nn.sampled', nce_loss = 'dflow.nn.sampled', ctc_loss = 'dflow.nn.ctc',
              ctc_greedy_decoder = 'dflow.nn.ctc', ctc_beam_search_decoder = 'dflow.nn.ctc' }

return setmetatable(M, { __index = function(_, name)
  if own[name] then return require(own[name])[name] end
  local fn = type(name) == 'string' and ops.find(name)
  if fn then return fn end
  local names = {}
  for known in pairs(M) do names[#names + 1] = known end
  -- small letters first: of names alike, what was typed is more often a function
  table.sort(names, function(a, b) return a > b end)
  errors.bad("df.nn has no '%s'%s", tostring(name), errors.hint_of_others(name, names))
end })
