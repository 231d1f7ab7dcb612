--- random_gradients.lua: expressions, conds, loops, arrays and gradients inside one another, from a seed, differentiated three times, each time
-- against differences of the one before.
local df = require 'dflow'
local support = require 'spec.support'
local unpack = table.unpack or unpack

local M = {}
local random
local function int(n) return math.floor(random() * n) + 1 end
local function pick(list) return list[int(#list)] end
local function copy(list) local c = {} for i, v in ipairs(list) do c[i] = v end return c end
local statement

local function smooth(env)
  local a, b, k = pick(env), pick(env), int(8)
  if k == 1 then return a * b * 0.5 end
  if k == 2 then return a + b * 0.3 end
  if k == 3 then return df.sin(a) end
  if k == 4 then return df.tanh(a) + b * 0.1 end
  if k == 5 then return a - b * b * 0.1 end
  if k == 6 then return df.exp(df.tanh(a)) * 0.5 end
  if k == 7 then return a / (b * b + 1.0) end
  return df.tanh(a * 0.7)
end
local function block(env, depth, more)
  local e = copy(env)
  for _, v in ipairs(more or {}) do e[#e + 1] = v end
  for _ = 1, int(3) do statement(e, depth - 1) end
  return e
end
local function add_cond(env, depth)
  local p, n = pick(env):gt(random() * 2 - 1), int(2)
  local function branch()
    local e, out = block(env, depth), {}
    for i = 1, n do out[i] = random() < 0.2 and pick(env) or pick(e) end
    return unpack(out)
  end
  for _, v in ipairs { df.cond(p, branch, branch) } do env[#env + 1] = v end
end
local function add_loop(env, depth)
  local n, init = int(3), { df.int32(0) }
  for i = 1, n do init[i + 1] = pick(env) end
  local limit = random() < 0.3 and df.cast(df.floor(df.abs(df.tanh(pick(env))) * 3.7), 'int32') or int(4) - 1
  local r = { df.while_loop(function(i) return i:lt(limit) end, function(i, ...)
    local vars = { ... }
    local e, out = block(env, depth, vars), { i + 1 }
    for j = 1, n do out[j + 1] = random() < 0.15 and pick(vars) or df.tanh(pick(e)) * 1.1 end
    if n > 1 and random() < 0.1 then out[2], out[3] = vars[2], vars[1] end
    return unpack(out)
  end, init, { parallel_iterations = pick { 1, 2, 32 } }) }
  for j = 2, #r do env[#env + 1] = r[j] end
end
local function add_array(env, depth)
  local size = int(4)
  local _, ta, s = df.while_loop(function(i) return i:lt(size) end, function(i, ta, s)
    local e = block(env, depth, { s })
    local v = e[#e]
    if random() < 0.3 then
      ta = df.cond(v:gt(0), function() return ta:write(i, v * v) end, function() return ta:write(i, v + s) end)
    else
      ta = ta:write(i, v)
    end
    return i + 1, ta, df.tanh(s * 0.5 + ta:read(i) * 0.5)
  end, { df.int32(0), df.TensorArray('float64', size), pick(env) })
  env[#env + 1] = s
  env[#env + 1] = random() < 0.5 and df.tanh(df.reduce_sum(ta:stack())) or ta:read(int(size) - 1)
  if random() < 0.5 then
    local _, z = df.while_loop(function(i) return i:lt(size) end, function(i, z) return i + 1, z * 0.5 + df.sin(ta:read(i)) end,
                               { df.int32(0), pick(env) })
    env[#env + 1] = z
  end
end
function statement(env, depth)
  local k = int(12)
  if depth <= 0 or k <= 4 then env[#env + 1] = smooth(env)
  elseif k <= 6 then add_cond(env, depth)
  elseif k <= 9 then add_loop(env, depth)
  elseif k == 10 then add_array(env, depth)
  elseif k == 11 then env[#env + 1] = df.tanh(df.gradients(smooth(env), pick(env), { unconnected = 'zero' }))
  else
    local v = df.stack { pick(env), pick(env), pick(env) }
    if random() < 0.5 then v = df.gather(v, { 2, 0, 2 }) end
    env[#env + 1] = df.reduce_sum(v * v) * 0.1 + v[1]
  end
end

--- The program of a seed: raises where a gradient is not what differences of the one before give.
function M.check(seed)
  df.reset()
  random = support.random(seed * 7919)
  for _ = 1, 5 do random() end
  local xs = { df.placeholder('float64', {}), df.placeholder('float64', {}) }
  local env = copy(xs)
  for _ = 1, 2 + int(4) do statement(env, 3) end
  local f = df.tanh(env[#env])
  for j = 3, #env do f = f + df.tanh(env[j]) * 0.3 end
  local at = { random() * 2 - 1, random() * 2 - 1 }
  for order = 1, 3 do
    local x = pick(xs)
    local g = df.gradients(f, x, { unconnected = 'zero' })
    local function run(o, h)
      local feeds = { [xs[1]] = at[1], [xs[2]] = at[2] }
      feeds[x] = feeds[x] + h
      return df.run(o, feeds)
    end
    local found, best = run(g, 0), math.huge
    for _, h in ipairs { 1e-6, 3e-6, 1e-5 } do                  -- a step may lie across a branch
      local want = (run(f, h) - run(f, -h)) / (2 * h)
      best = math.min(best, math.abs(found - want) / math.max(1, math.abs(want)))
    end
    assert(best < 1e-4, ('seed %d, order %d: the gradient is %.9g, off by %.3g'):format(seed, order, found, best))
    f = g
  end
end

return M
