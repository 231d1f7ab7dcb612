--- Ranks that die, or hang, at random moments of random loops: each run gives the bits of an undisturbed one, or an error that names the rank, in time.
-- run: once
local df = require 'dflow'
local support = require 'spec.support'

local RANKS = 4

--- 1 … n, the same under every Lua.
local function generator(seed)
  local state = (seed * 7919 + 17) % 2147483646 + 1
  for _ = 1, 4 do state = state * 16807 % 2147483647 end
  return function(n)
    state = state * 16807 % 2147483647
    return math.floor(state / 2147483647 * n) + 1
  end
end

--- A loop of n trips, each op on a random rank, with conds, loops within and large values; what it gives, and its gradient.
local function program(rand)
  df.reset()
  df.set_random_seed(rand(1000))
  local x, n = df.placeholder('float32', { 40, 40 }), df.placeholder('int32', {})
  local function on(fn) return df.device(('/rank:%d/cpu:0'):format(rand(RANKS) - 1), fn) end
  local function step(i, a, b)
    local kind = rand(6)
    if kind == 1 then return on(function() return a:matmul(b) * 0.02 end) end
    if kind == 2 then return on(function() return a:sin() + b end) end
    if kind == 3 then return on(function() return (a * b):tanh() end) end
    if kind == 4 then return on(function() return a + df.random_uniform{ 40, 40 } * 0.1 end) end
    if kind == 5 then
      return df.cond((i % 3):eq(rand(3) - 1), function() return on(function() return a * 0.5 + b end) end, function() return on(function() return b - a end) end)
    end
    local _, c = df.while_loop(function(j) return on(function() return j:lt(i % 4) end) end, function(j, c)
      return j + 1, on(function() return (c + b):sin() end)
    end, { df.int32(0), a })
    return c
  end
  local _, y, z = df.while_loop(function(i) return on(function() return i:lt(n) end) end, function(i, y, z)
    for _ = 1, rand(3) do y, z = step(i, y, z), step(i, z, y) end
    return i + 1, y:tanh(), z:tanh()
  end, { df.int32(0), x, x * 0.5 }, { parallel_iterations = ({ 1, 4, 32 })[rand(3)] })
  local sum = y:reduce_sum() + z:reduce_sum()
  return { sum, (df.gradients(sum, x)):reduce_sum() }, x, n
end

local function pids()
  local list = {}
  for i, r in ipairs(df.cluster.ranks()) do list[i - 1] = r.pid end
  return list
end

describe('a run over ranks', function()
  teardown(function() df.cluster.stop() end)

  it('gives its value or names the rank that is killed, or stopped, at any moment of any loop, and leaves no process behind', function()
    local seen, values, errors = {}, {}, 0
    df.cluster.start(RANKS)
    local row = {}
    for i = 1, 1600 do row[i] = math.sin(i) / 3 end
    for seed = 1, tonumber(os.getenv 'DFLOW_DEATHS') or support.sample(6, 40) do
      local rand = generator(seed)
      local fetches, x, n = program(rand)
      local feeds = { [x] = df.tensor(row, 'float32', { 40, 40 }), [n] = rand(60) }
      local function run()                                     -- as its first run: what is drawn goes by the number of the run
        local s = df.Session()
        local ok, got = pcall(s.run, s, fetches, feeds, { timeout = 120 })
        s:close()
        if ok then return ('%.17g %.17g'):format(got[1], got[2]) end
        return nil, got
      end
      local whole = assert(run())
      for _ = 1, 3 do
        local before, lost = pids(), rand(RANKS - 1)
        for _, pid in pairs(before) do seen[pid] = true end
        os.execute(('(sleep 0.0%02d; kill -%s %d) > /dev/null 2>&1 &'):format(rand(60), rand(8) == 1 and 'STOP' or 'KILL', before[lost]))
        local value, err, over
        repeat                                                 -- a loop may have nothing on that rank
          over = df.cluster.ranks()[lost + 1].state ~= 'alive'
          value, err = run()
          if value then assert.equal(whole, value) end
        until err or over
        if err then
          assert.equal('unavailable', err.code, tostring(err))
          assert.equal(lost, err.rank)
          assert.matches(('rank %d .*pid %d'):format(lost, before[lost]), err.message)
          errors = errors + 1
        end
        df.cluster.restart()
        value, err = run()
        assert.equal(whole, value, tostring(err))
      end
      values[whole] = true
    end
    assert.is_true(errors >= 6 and next(values, (next(values))) ~= nil)
    for _, pid in pairs(pids()) do seen[pid] = true end
    local here = df.cluster.ranks()[1].pid
    df.cluster.stop()
    for pid in pairs(seen) do
      if pid ~= here then assert.is_falsy((os.execute(('kill -0 %d 2> /dev/null'):format(pid)) == true), 'process ' .. pid .. ' is left') end
    end
  end)
end)
