--- What programs from seeds are, as a page: their graphs and those of their gradients, node by node; what is written of them, and what that is when it is
-- read again; how many tokens, messages, bytes and virtual seconds they take on three devices, by each policy, and under other bandwidths; what is seen of
-- a run that stands still; what becomes of saved values where there is little room. spec/pages/programs.txt has it (spec/pages.lua): no node and no count
-- changes unseen. That they are right is in other specs; after a change of the engine that is meant the page is written anew.
local pages = require 'spec.pages'
local pinned = require 'spec.engine.pinned'
local ordered_it = require('spec.support').ordered_it(it, pending)

local function sentences(what, kind, count)
  for seed = 1, count do
    ordered_it(('%s: %d'):format(what, seed), function() pages.section('programs.txt', ('%s %d'):format(kind, seed), pinned[kind](seed)) end)
  end
end

describe('a program is what it was', function()
  sentences('its graphs, files and what these are', 'graph', 24)
  sentences('how it runs by the virtual clock', 'run', 16)
  sentences('what is seen of it while it stands', 'looked', 10)
  sentences('what is saved in little room', 'saved', 16)
  sentences('what is computed together', 'together', 30)
end)
