--- Random programs of Lua: as graphs they give what Lua gives, and the same derivatives. By hand: spec/autograph/random_lua.lua.
local random = require 'spec.autograph.random_lua'

describe('random programs that df.autograph reads', function()
  it('give what Lua gives', function()
    for seed = 1, 60 do assert(random.check(seed)) end
  end)

  it('give what Lua gives where choices are chains', function()
    for seed = 1, 30 do assert(random.check(seed, true)) end
  end)

  for seed, what in pairs{ [8] = 'what one branch sets is not seen by the other', [22] = 'a return in a loop that never runs',
                           [155] = 'a value returned by the first trip of a repeat' } do
    it('keep what went wrong once: ' .. what, function() assert(random.check(seed)) end)
  end
end)
