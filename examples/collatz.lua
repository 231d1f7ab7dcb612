-- collatz.lua: a loop of unknown length, with a cond in its body, mapped over many starts.
--
-- n becomes n/2 when it is even and 3n+1 when it is odd. How long until 1? Each start is an iteration of map_fn's
-- loop, and each opens a loop of its own: frames in frames, and several of them are under way at once.
-- Look at :frames while it runs (or h:frames() of df.start): flights of several starts, each in its own iteration, and the dead half of each cond.
-- The loop is written as Lua writes one: df.autograph makes a while_loop of `while` and a cond of `if`, because n is an Output.
local df = require 'dflow'

--- How many steps n takes to 1, and the highest number on the way.
local flight = df.autograph(function(n)
  local steps, peak = df.int32(0), n
  while n > 1 do
    if n % 2 == 0 then n = df.floor_div(n, 2) else n = 3 * n + 1 end
    steps, peak = steps + 1, df.maximum(peak, n)
  end
  return steps, peak
end)

local LAST = tonumber((...)) or 30
local starts = df.range(df.int64(1), df.int64(LAST + 1), df.int64(1))
local both = df.map_fn(function(n)
  local steps, peak = flight(n)
  return df.cast(steps, 'int64'), peak
end, starts)

local steps, peaks = df.unpack(df.run(both))
for n = 1, LAST do
  local length = steps:at(n - 1)
  print(('%4d  %4d steps  up to %6d  %s'):format(n, length, peaks:at(n - 1), ('*'):rep(math.floor(length / 2))))
end
local stats = df.stats()
print(('\n%d frames, %d iterations, %d dead tokens'):format(stats.frames, stats.iterations, stats.dead_tokens))
