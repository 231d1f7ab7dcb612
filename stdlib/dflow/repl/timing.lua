--- How long things take: an expression once, or as often as it needs for a number that can be trusted.
local df = require 'dflow'
local graph = require 'dflow.front.graph'
local text = require 'dflow.front.text'

local M = {}

--- Seconds as people say them: `1.23 ms`.
function M.seconds(s)
  if s >= 100 then return ('%.0f s'):format(s) end
  for _, unit in ipairs{ { 1, 's' }, { 1e-3, 'ms' }, { 1e-6, 'us' } } do
    if s >= unit[1] then return ('%s %s'):format(text.number(s / unit[1], 3), unit[2]) end
  end
  return ('%s ns'):format(text.number(s / 1e-9, 3))
end

--- What is timed: the function itself, or the run of the Output that it gives.
local function runs(value) return getmetatable(value) == graph.Output or df.type(value) == 'operation' end

local function subject(chunk)
  local value = chunk()
  if runs(value) then return function() return df.run(value) end, true end
  return chunk, false
end

--- What a session did between two tables of stats(): `1 run, 25 nodes, 4 iterations`.
function M.did(before, after)
  local done = {}
  for _, name in ipairs{ 'runs', 'nodes_run', 'iterations' } do
    local n = after[name] - before[name]
    local what = name:gsub('_run$', '')
    if n > 0 then done[#done + 1] = ('%.0f %s'):format(n, n == 1 and what:gsub('s$', '') or what) end
  end
  return table.concat(done, ', ')
end

--- Runs a chunk once, or the Output that it gives. Its results as a list with n, wall and processor seconds, and what
-- the default session did meanwhile.
function M.once(chunk, clock)
  local before, cpu, wall = df.stats(), os.clock(), clock()
  local results = table.pack(chunk())
  if results.n == 1 and runs(results[1]) then
    before, cpu, wall = df.stats(), os.clock(), clock()          -- building it is not what was asked about
    results = table.pack(df.run(results[1]))
  end
  wall, cpu = clock() - wall, os.clock() - cpu
  return results, wall, cpu, M.did(before, df.stats())
end

--- How many of the loops that have run in the default session are native code, and how many the tokens'.
function M.loops()
  local count = { native = 0, tokens = 0 }
  for engine in df.default_session():native():gmatch '[^\n]-  (%a+):[^\n]*' do
    if count[engine] then count[engine] = count[engine] + 1 end
  end
  return count
end

local ROUNDS, ROUND_SECONDS, MOST_SECONDS = 7, 0.1, 3

--- Repeats a chunk: rounds of as many calls as take a tenth of a second.
-- @return {best, mean, deviation: seconds of a call; calls = in a round, rounds, output = is it an Output's run?,
--         iterations = of loops}
function M.often(chunk, clock)
  local f, output = subject(chunk)
  local before = df.stats().iterations
  f()                                            -- compiles what it runs
  local calls, took = 1
  while true do
    local start = clock()
    for _ = 1, calls do f() end
    took = clock() - start
    if took >= ROUND_SECONDS / 4 or calls >= 2 ^ 30 then break end
    calls = calls * (took > 0 and math.max(2, math.min(100, math.ceil(ROUND_SECONDS / 4 / took))) or 100)
  end
  calls = math.max(1, math.floor(calls * ROUND_SECONDS / took))
  local times, began = {}, clock()
  while #times < ROUNDS and (#times < 1 or clock() - began < MOST_SECONDS) do
    local start = clock()
    for _ = 1, calls do f() end
    times[#times + 1] = (clock() - start) / calls
  end
  local sum, best, squares = 0, math.huge, 0
  for _, t in ipairs(times) do sum, best = sum + t, math.min(best, t) end
  local mean = sum / #times
  for _, t in ipairs(times) do squares = squares + (t - mean) ^ 2 end
  return { best = best, mean = mean, deviation = math.sqrt(squares / math.max(1, #times - 1)), calls = calls,
           rounds = #times, output = output,
           iterations = df.stats().iterations - before }
end

return M
