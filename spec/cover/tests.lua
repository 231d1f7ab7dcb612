--- tests.lua: read by busted before the specs of a first reading: where each test has been is cut off behind it (lines.c).
-- What comes before and between tests, the file itself and what makes ready, has no name: it belongs to all of them.
require 'spec.tidy'
local busted = require 'busted'
local full_name = require 'spec.cover.names'
local cut = assert(package.loadlib(os.getenv 'DFLOW_COVER_MODULE', 'dflow_cover_cut'))
local clock, began = require 'system'.gettime, 0

busted.subscribe({ 'test', 'start' }, function()
  cut('', 0)
  began = clock()
  return nil, true
end)

busted.subscribe({ 'test', 'end' }, function(element)
  cut((full_name(element.name)), (clock() - began) * 1000)
  return nil, true
end)

busted.subscribe({ 'suite', 'end' }, function()
  cut('', 0)
  return nil, true
end)
