--- What each op says of its results where little is known of its inputs: ranks from 0 to 5 with dimensions that are not known in any place, one input so and
-- the others otherwise, attributes of other values. spec/pages/unknown.txt has of each op how many lines that makes, how many of them are errors, and a
-- sum of their bytes (spec/pages.lua). After a failure, `require 'spec.ops.unknown'` of both versions tells the lines of an op.
local pages = require 'spec.pages'
local unknown = require 'spec.ops.unknown'

describe('what an op says of inputs of which little is known', function()
  local ops = unknown.told:ops 'unknown.txt'
  for _, op in ipairs(ops) do
    it('is what it was: ' .. op.type, function() pages.section('unknown.txt', op.type, unknown.summary(unknown.lines(op))) end)
  end

  it('is asked of most ops', function() assert.is_true(#ops > 300, #ops) end)
end)
