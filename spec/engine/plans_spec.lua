--- What a session keeps of the plans that it made.
-- run: first
local df = require 'dflow'
local shell = require 'spec.shell'
local support = require 'spec.support'
local same, message_of = support.same, support.message_of

describe('the plans of a session', function()
  local function products(n)
    local x, ys = df.placeholder('float32', {}), {}
    for i = 1, n do ys[i] = x * i end
    return x, ys
  end

  it('take no more than plan_cache, those that were not used for longest going first', function()
    local s = df.Session{ plan_cache = '400KB' }
    local x, ys = products(100)
    for i = 1, 100 do same(s:run(ys[i], { [x] = 2 }), 2 * i) end
    local p = s:stats().plans
    same(p.made, 100)
    same(p.limit, 400 * 1024)
    assert.is_true(p.kept < 60 and p.kept >= 8 and p.bytes < 2 * p.limit, ('%d kept, %d bytes'):format(p.kept, p.bytes))
    s:run(ys[100], { [x] = 2 })
    same(s:stats().plans.made, 100)       -- it was there yet
    same(s:run(ys[1], { [x] = 3 }), 3)
    same(s:stats().plans.made, 101)       -- it was not
  end)

  it('are made in time linear in the number of their loops', function()
    local c = df.placeholder('float64', {})
    local function seconds(n)
      local sums = {}
      for k = 1, n do
        sums[k] = select(2, df.while_loop(function(i) return i:lt(1) end,
          function(i, x) return i + 1, x + c * k end, { df.int32(0), df.float64(0) }))
      end
      local all, least = df.add_n(sums), math.huge
      for _ = 1, 2 do
        local s, from = df.Session(), os.clock()
        same(s:run(all, { [c] = 2 }), n * (n + 1.0))
        least = math.min(least, os.clock() - from)
        s:close()
      end
      return least
    end
    local n = require('spec.support').sample(1500, 3000)
    local few, many = seconds(n), seconds(8 * n)      -- 8 to 9 times as long, measured; 64 if each looked at all
    assert(many < 30 * few + 0.01, ('%g s for %d loops, %g s for 8 times as many'):format(few, n, many))
  end)

  it('keep the one used again and again while others come and go', function()
    local s = df.Session{ plan_cache = '1KB' }
    local x, ys = products(60)
    for i = 2, 60 do
      same(s:run(ys[1], { [x] = 2 }), 2)
      same(s:run(ys[i], { [x] = 2 }), 2 * i)
    end
    same(s:stats().plans.made, 60)
  end)

  it('stay while a run in the background needs them', function()
    local s = df.Session{ plan_cache = '1KB' }
    local x, ys = products(40)
    local n = df.while_loop(function(i) return i:lt(50000) end, function(i) return i + 1 end, { df.int32(0) })
    local h = s:start(n)
    for i = 1, 40 do same(s:run(ys[i], { [x] = 2 }), 2 * i) end
    same(h:wait(), 50000)
    same(s:run(n), 50000)
  end)

  it('are 64 MB unless it is said', function()
    same(df.Session{}:stats().plans.limit, 64 * 2 ^ 20)
    assert.matches('plan_cache is a number of bytes', message_of(df.Session, { plan_cache = 'much' }))
  end)
end)

describe('a graph that grows between runs', function()
  it('is warned of once, after a thousand times, with the line that builds', function()
    local r = shell.run(shell.lua .. " - ", [[
      local df = require 'dflow'
      local x = df.placeholder('float32', {})
      for i = 1, 1010 do
        local odd = math.floor(i / 64) % 2 == 1              -- no line builds for long: the session counts, and not the lines
        if odd then df.run(x + i, {[x] = 1}) else
          df.run(x * i, {[x] = 1}) end
      end
    ]])
    same(r.status, 0)
    local _, times = r.err:gsub('has grown between runs', '')
    same(times, 1)
    assert.matches('1000 times.*stdin:[56].*finalize', r.err)
  end)

  it('is warned of once where a line is named that builds for each run', function()
    local r = shell.run(shell.lua .. " - ", [[
      local df = require 'dflow'
      local x = df.placeholder('float32', {})
      for i = 1, 1400 do df.run(x + i, {[x] = 1}) end
    ]])
    same(r.status, 0)
    assert.matches('stdin:3: warning: the graph has grown by', r.err)
    assert.not_matches('has grown between runs', r.err)
  end)

  it('is not warned of when it stops growing', function()
    local r = shell.run(shell.lua .. " - ", [[
      local df = require 'dflow'
      local x = df.placeholder('float32', {})
      for i = 1, 900 do df.run(x + i, {[x] = 1}) end
      local y = x * 2
      for _ = 1, 200 do df.run(y, {[x] = 1}) end
    ]])
    same(r.status, 0)
    assert.not_matches('has grown between runs', r.err)      -- the line that builds is named sooner: spec/front/intern_spec.lua
  end)
end)
