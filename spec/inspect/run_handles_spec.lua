-- What a handle of df.start is asked in any order: it never hangs, and gives the right result or `cancelled`.
local shell = require 'spec.shell'

local SCRIPT = [[
local df = require 'dflow'
local seed, sequences = tonumber(arg[1]), tonumber(arg[2])
local v, w = df.Variable(0.0), df.Variable(0.0)
local function loop(n)
  local _, s = df.while_loop(function(i) return i:lt(n) end, function(i, s)
    v:assign_add(1.0)
    w:assign_add(1.0)
    local _, t = df.while_loop(function(j) return j:lt(3) end, function(j, t)
      return j + 1, df.cond((i + j):floormod(2):eq(0), function() return t + 1 end, function() return t * 0.5 end)
    end, { df.int32(0), s })
    return i + 1, t
  end, { df.int32(0), df.float32(0) })
  return s
end
local q = df.FIFOQueue(2, { 'float32' }, { shapes = { {} } })
local _, through = df.while_loop(function(i) return i:lt(100) end, function(i, s)
  local put = q:enqueue(i:cast('float32'))
  return i + 1, df.control_dependencies({ put }, function() return s + q:dequeue() end)
end, { df.int32(0), df.float32(0) })
local x = df.range(200):cast('float32')
local rows = df.map_fn(function(r) return df.gradients(df.sin(r * r), r) end, x):reduce_sum()
local works = { loop(300), rows, loop(5), through, loop(2 ^ 30) }
local ENDLESS = 5
local level, left, out = { v:assign(0.0), w:assign(0.0) }, q:size(), q:dequeue()
local expected = {}
for k = 1, 4 do expected[k] = df.run(works[k]) end

local state = seed
local function random(n)           -- the same numbers under every Lua
  state = (state * 16807) % 2147483647
  return state % n + 1
end
local units = { 'token', 'node', 'iteration', 'frame' }
for n = 1, sequences do
  local k, done = random(5), {}
  local cancelled = false
  local function check(ok, what)
    if not ok then error(('seed %d, sequence %d, run %d: %s: %s'):format(seed, n, k, table.concat(done, ' '), what), 0) end
  end
  df.run(level)
  while df.run(left) > 0 do df.run(out) end
  local h = df.start(works[k], nil, ({ { paused = true }, { at_once = true } })[random(4)])
  local function over(ok, r)
    if ok then
      check(k ~= ENDLESS and r == expected[k], 'the result is ' .. tostring(r))
    else
      check(type(r) == 'table' and r.code == 'cancelled' and cancelled, tostring(r))
    end
  end
  for _ = 1, random(8) do
    local what = random(12)
    if what == 1 then
      done[#done + 1] = 'pause'
      check(h:pause() ~= nil or h:done() or h:state() == 'done', 'it did not pause')
    elseif what <= 3 then
      done[#done + 1] = 'resume'
      h:resume()
    elseif what <= 6 then
      local unit = units[random(4)]
      if k ~= ENDLESS or unit ~= 'frame' then
        done[#done + 1] = 'step ' .. unit
        h:step(random(5), unit)
      end
    elseif what == 7 then
      done[#done + 1] = 'frames'
      local text = tostring(h:frames())
      check(#text > 0, text)
    elseif what == 8 then
      done[#done + 1] = 'settle'
      h:settle(0.0005)
    elseif what == 9 then
      done[#done + 1] = 'tokens'
      local ok, e = pcall(h.tokens, h)
      check(ok or e.code == 'failed_precondition', tostring(e))
    elseif what == 10 and random(2) == 1 then
      done[#done + 1] = 'cancel'
      cancelled = true
      h:cancel()
    elseif what == 11 and (k ~= ENDLESS or cancelled or h:state() == 'paused') then
      done[#done + 1] = 'wait'
      local ok, r = pcall(h.wait, h)
      if not ok and r.code == 'failed_precondition' then check(h:state() == 'paused', tostring(r)) else over(ok, r) end
    else
      h:stats()
      h:done()
    end
  end
  if k == ENDLESS or random(3) == 1 then
    done[#done + 1] = 'cancel'
    cancelled = true
    h:cancel()
  end
  h:resume()
  done[#done + 1] = 'wait'
  over(pcall(h.wait, h))
  over(pcall(h.wait, h))
  check(h:done() and h:state() == 'done' and h:pause() == nil and #h:frames() == 0, 'it is over')
  local a, b = df.run(v), df.run(w)
  check(a - b == 0 or a - b == 1, ('v is %s and w is %s'):format(a, b))
end
io.write('sound')
]]

describe('a run in the background', function()
  for _, stress in ipairs{ '', 'DFLOW_STRESS=shuffle:7' } do
    it(('can be asked anything in any order, 500 times%s'):format(stress ~= '' and ', its tokens shuffled' or ''), function()
      local slow = (os.getenv('DFLOW_MODE') or ''):find('san$')
      local script, seed = os.tmpname(), tonumber(os.getenv('DFLOW_SEED')) or os.time() % 100000 + 1
      shell.write(script, SCRIPT)
      local r = shell.run(('%s timeout -s ABRT 120 %s %s %d %d'):format(stress, shell.lua, script, seed, slow and 30 or 500))
      os.remove(script)
      assert.are.equal('sound', r.out, ('seed %d, status %d: %s'):format(seed, r.status, r.err))
    end)
  end
end)
