--- Draws a loop with a branch in its body: what was typed, and the primitives that run it.
-- What to look at: boxes in boxes for the loop and the cond, blue lines back to the next trip; in lowered.svg Switches with T and F beside them, and Merges.
--   dflow examples/picture.lua [loop.svg [lowered.svg]]       open them in a browser
local df = require 'dflow'

local v = df.placeholder('float32', {})
local function even(i) return (i % 2):eq(0) end
local function step(i, y)
  return i + 1, df.cond(even(i), function() return y * v end, function() return y + v end)
end
local _, y = df.while_loop(function(_, y) return y:lt(50) end, step, { df.int32(0), df.float32(1) })

if arg[1] then df.draw(y, { as = 'svg', path = arg[1] }) end
if arg[2] then df.draw(y, { as = 'svg', at = 'lowered', path = arg[2] }) end
if not arg[1] then print(df.draw(y, { as = 'let' })) end
