--- Everything that may be asked of a run is asked of each node of six programs at many stops: spec/pages/asked.txt has what is said, whole at the third
-- stop and as sums at the others (spec/pages.lua).
local asked = require 'spec.inspect.asked'
local pages = require 'spec.pages'
local ordered_it = require('spec.support').ordered_it(it, pending)

describe('a run that stands still says what it said', function()
  for _, case in ipairs{ { 'nested', 29, 12 }, { 'nested', 7, 3 }, { 'arrays', 9, 8 }, { 'effects', 6, 12 }, { 'cut', 5, 14 }, { 'far', 3, 14 }, { 'functions', 2, 6 } } do
    local name, each, stops = (table.unpack or unpack)(case)
    ordered_it(('of %s, every %d tokens'):format(name, each), function()
      pages.section('asked.txt', ('%s, every %d tokens'):format(name, each), asked.said(name, each, stops))
    end)
  end
end)
