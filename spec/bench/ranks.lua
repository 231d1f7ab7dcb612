--- Loops and steps over ranks: iterations a second, microseconds a step, bytes a second; the best of a few runs of each.
--
--     dflow -n 4 spec/bench/ranks.lua              processes of this host
--     DFLOW_STRESS=ranks:4 dflow spec/bench/ranks.lua   sessions of one process, which send each other the same bytes
--
-- none: the predicate goes from rank 0 to all others, and nothing comes back but the tokens that keep them in step; hop: a
-- value goes round all ranks in each iteration; barrier: all ranks send a value to rank 0, whose sum decides whether the
-- next iteration begins. RUNS and N say how often.
local df = require 'dflow'

local cluster = df.cluster
local ranks = tonumber((os.getenv 'DFLOW_STRESS' or ''):match 'ranks:(%d+)') or cluster and cluster.size or 1
local N, runs = tonumber(os.getenv 'N') or 20000, tonumber(os.getenv 'RUNS') or 6
local s = df.Session{}

local function on(k, fn) return df.device(('/rank:%d/cpu:0'):format(k), fn) end

--- Seconds of the quickest of some runs.
local function best(fetch, n)
  s:run(fetch)
  local least = math.huge
  for _ = 1, n do
    local before = s:stats().seconds
    s:run(fetch)
    least = math.min(least, s:stats().seconds - before)
  end
  return least
end

local function loop(name, next_of, more)
  local vars = { df.int32(0) }
  for k = 0, ranks - 1 do vars[k + 2] = df.float32(k) end
  local out = { df.while_loop(function(i, ...) return more and more(i, ...) or i:lt(N) end, function(i, ...)
    return i + 1, (table.unpack or unpack)(next_of{ ... })
  end, vars) }
  print(('%-10s %10.0f iterations/s'):format(name, N / best(df.reduce_sum(df.stack{ (table.unpack or unpack)(out, 2) }), runs)))
end

print(('%d ranks, N = %d, best of %d'):format(ranks, N, runs))
loop('none', function(v)
  local new = {}
  for k = 0, ranks - 1 do new[k + 1] = on(k, function() return v[k + 1] + 1 end) end
  return new
end)
loop('hop', function(v)
  local new, x = {}, v[1]
  for k = 1, ranks - 1 do x = on(k, function() return x + 1 end) new[k + 1] = on(k, function() return v[k + 1] + 1 end) end
  new[1] = on(0, function() return x + 1 end)
  return new
end)
loop('barrier', function(v)
  local new = {}
  for k = 0, ranks - 1 do new[k + 1] = on(k, function() return v[k + 1] + 1 end) end
  return new
end, function(i, ...)
  local values, sum = { ... }, (...)
  for k = 2, ranks do sum = on(0, function() return sum + values[k] end) end
  return on(0, function() return df.logical_and(i:lt(N), sum:lt(1e30)) end)
end)

local x = df.Variable(df.zeros{})
local step = {}
for k = 1, ranks - 1 do step[k] = on(k, function() return df.identity(x:value()) + 1 end) end
if ranks > 1 then
  local sum, steps = df.add_n(step), 1000 * runs
  local function uptime() local f = assert(io.open '/proc/uptime') local t = f:read '*n' f:close() return t end
  s:run(sum)
  local before = uptime()
  for _ = 1, steps do s:run(sum) end
  print(('%-10s %10.1f us (the mean of %d)'):format('null step', 1e6 * (uptime() - before) / steps, steps))
  local big = on(1, function() return df.fill({ 25000000 }, x:value()) end)
  local there, here = df.group(big), df.slice(on(0, function() return df.identity(big) + 0 end), { 0 }, { 1 })
  local make, all = best(there, runs), best(here, runs)
  print(('%-10s %10.2f GB/s (with making it and reading it: %.0f ms; made there alone: %.0f ms)'):format('100 MB', 0.1 / (all - make), all * 1e3, make * 1e3))
end
s:close()
