--- What TensorFlow 2.15.1 computed with its own tests' graphs, dflow computes too.
--
-- RECORDINGS names another folder of recordings, RECORDING a pattern that their paths must match.
-- run: first
local replay = require 'spec.replay'

describe('a recording of TensorFlow', function()
  for _, dir in ipairs(replay.list(os.getenv('RECORDINGS') or 'spec/recordings', os.getenv('RECORDING'))) do
    it('gives the same again: ' .. dir:match('[^/]+/[^/]+$'):gsub('/', ', '), function() replay.check(dir) end)
  end
end)
