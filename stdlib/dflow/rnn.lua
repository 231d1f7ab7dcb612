--- df.rnn: recurrent cells, what wraps them, and the loops that run them over time; the modules are in rnn/.
local errors = require 'dflow.front.errors'

local M = {}
for room, names in pairs{
  cells = { 'RNNCell', 'LSTMCell', 'GRUCell' },
  wrappers = { 'MultiRNNCell', 'DropoutWrapper', 'ResidualWrapper', 'BahdanauAttention', 'LuongAttention',
               'AttentionWrapper', 'ACTCell' },
  loops = { 'dynamic_rnn', 'bidirectional_rnn', 'raw_rnn' },
  decode = { 'TrainingHelper', 'ScheduledEmbeddingTrainingHelper', 'GreedyEmbeddingHelper', 'SampleEmbeddingHelper',
             'decode' },
  beam = { 'beam_search', 'tile_batch' },
} do
  local from = require('dflow.rnn.' .. room)
  for _, name in ipairs(names) do M[name] = from[name] end
end

return setmetatable(M, { __index = function(_, name)
  local names = {}
  for known in pairs(M) do names[#names + 1] = known end
  table.sort(names)
  errors.bad("df.rnn has no '%s'%s", tostring(name), errors.hint_or_all(name, names))
end })
