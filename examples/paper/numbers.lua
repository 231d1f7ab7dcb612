--- What was to be reached, measured in a few seconds: a loop over many devices, placing and cutting, swapping, and the speed-ups of Figs. 12 and 15.
--
--   dflow examples/paper/numbers.lua
--
-- Rates and the seconds of placing are this machine's; the rest is virtual time, at sizes that take no time.
local here = debug.getinfo(1, 'S').source:match('^@(.*)/') or '.'
package.path = here .. '/?.lua;' .. package.path
local df = require 'dflow'
local fig11, fig12, fig15, lstm, hardware = require 'fig11', require 'fig12', require 'fig15', require 'lstm', require 'hardware'

local function say(what, to_reach, found, reached) print(('%-56s %12s %14s  %s'):format(what, to_reach, found, reached and '' or 'not reached')) end

print(('%-56s %12s %14s'):format('', 'to reach', 'measured'))
for _, row in ipairs{ { 2, 1e6, 5e5 }, { 8, 4e5, 1.5e5 }, { 64, 1e5, 3e4 } } do
  for i, barrier in ipairs{ false, true } do
    local rate = fig11.rate(row[1], barrier, { work = 200000 })
    say(('a loop over %d devices%s, iterations a second'):format(row[1], barrier and ', a barrier' or ''), ('%.0f'):format(row[1 + i]), ('%.0f'):format(rate),
      rate >= row[1 + i])
  end
end

--- Seconds to place and cut a graph of so many nodes over 8 devices, and to list where each is: the best of three times. The plan is there
-- when the list is asked for again, so what that takes is the list's.
local function placing(nodes)
  local g, best, list_best = df.Graph(), math.huge, math.huge
  g:as_default(function()
    local chain, list = {}, { 'cpu:0' }
    for d = 1, 8 do
      chain[d] = df.placeholder('float32', {})
      list[d + 1] = ('sim:%d'):format(d - 1)
    end
    for i = 1, nodes / 8 do
      for d = 1, 8 do chain[d] = df.device(list[d + 1], function() return chain[d] + chain[i % 50 == 0 and d % 8 + 1 or d] end) end
    end
    local sum = df.add_n(chain)
    for _ = 1, 3 do
      local s = df.Session{ graph = g, devices = list }
      local function listed()
        collectgarbage()
        local began = os.clock()
        s:placement(sum)
        return os.clock() - began
      end
      local both, again = listed(), listed()
      best, list_best = math.min(best, both - again), math.min(list_best, again)
      s:close()
    end
  end)
  return best, list_best
end
local half, whole, list = placing(50000), placing(100000)
say('placing and cutting 100,000 nodes over 8 devices, seconds', '0.3', ('%.2f'):format(whole), whole <= 0.3)
say('  and to list them', '', ('%.2f'):format(list), true)
say('  of twice as many nodes, times as long', '2', ('%.1f'):format(whole / half), whole / half <= 2.4)

local rows = fig12.measure{ size = 512, scale = 32, trips = 48 }.rows
say('Fig. 12, 32 iterations at once over 1', '5', ('%.1f'):format(rows[#rows][3]), rows[#rows][3] >= 5)
local layers = { units = 128, scale = 128, length = 80 }
local ratio = fig15.run(1, layers):stats().seconds / fig15.run(8, layers):stats().seconds
say('Fig. 15, 8 devices over 1', '5.5', ('%.1f'):format(ratio), ratio >= 5.5)

--- A training step of a small Table 1.
local function step(save, memory)
  local h = lstm.start{ kind = hardware.K40, units = 256, scale = 8, length = 40, save = save, memory = memory }
  h:wait()
  return h:stats()
end
local kept = step 'keep'
local swapped = step('swap', kept.memory['sim:0'].peak * 8 * 0.6)
local longer = (swapped.seconds / kept.seconds - 1) * 100
say(('swapping %.0f MB, per cent longer than keeping'):format(swapped.swap.bytes_out / 1e6), '1', ('%.2f'):format(longer), longer <= 1)
