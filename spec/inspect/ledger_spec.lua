--- Snapshots are consistent cuts: wherever a run is looked at, the books of its tokens balance, and looking changes nothing.
-- run: first
local df = require 'dflow'
local sampling = require 'spec.sampling'
local shell = require 'spec.shell'

local windows = { 1, 2, 32 }
local one_owner_it = (os.getenv 'DFLOW_STRESS' or ''):find 'owners:' and pending or it      -- the order of several is their own
local support = require 'spec.support'
local next_it = support.next_it(one_owner_it, pending)

local function session(threads) return df.Session{ threads = threads } end

--- Looks at a run until it is over: at all times, and sometimes (by `rand`) while it is held up. How often, and the most iterations in flight.
local function sample(h, rand)
  local looks, most = 0, 0
  while not h:done() do
    local frames
    if rand(4) == 1 and h:pause() then
      local _
      _, frames = sampling.agree(h)
      for _ = 1, rand(3) - 1 do if h:step(rand(40)) then sampling.agree(h) end end
      h:resume()
    else
      local _
      _, frames = sampling.look(h)
    end
    for _, f in ipairs(frames) do if f.parent then most = math.max(most, f.in_flight) end end
    looks = looks + 1
  end
  return looks, most
end

local function generator(seed)
  local state = seed * 7919 + 12345
  return function(n)
    state = (state * 16807) % 2147483647
    return math.floor(state / 2147483647 * n) + 1
  end
end

local cases = {}
for seed = 1, 18 do
  cases[seed] = { seed = 500 + seed, depth = 2 + seed % 2, window = windows[seed % 3 + 1], trips = 1000, gradients = seed % 2 == 0, threads = 1 + math.floor(seed / 2) % 2 }
end

--- Runs a case looked at and not: the same results and, where it is asked for, the same tokens in the same order.
local function case_holds(c, logged)
  local fetches, feeds = sampling.build(c.seed, c)
  local s = session(c.threads)
  local plain = s:start(fetches, feeds, { log = logged })
  local expected = plain:wait()
  local h = sampling.begin(s, fetches, feeds, { log = logged })
  local looks = sample(h, generator(c.seed))
  local found = h:wait()
  assert(#found == #expected)
  for i = 1, #found do
    assert(found[i] == expected[i], ('seed %d: result %d is %.17g when looked at, else %.17g'):format(c.seed, i, found[i], expected[i]))
  end
  if logged then assert.same(sampling.tokens_run(plain), sampling.tokens_run(h)) end
  s:close()
  return looks
end

describe('the ledger of a run', function()
  it('balances between any two tokens of random programs', function()
    local cuts = 0
    for seed = 1, 40 do
      local fetches, feeds = sampling.build(seed, { gradients = seed % 2 == 0, window = windows[seed % 3 + 1] })
      local h = df.start(fetches, feeds, { paused = true })
      h:settle()
      repeat
        sampling.check_ledger(h, h:ledger())
        cuts = cuts + 1
      until not h:step()
      h:wait()
    end
    assert.is_true(cuts > 4000)
  end)

  it('agrees with the frames, tokens and counters of the same cut', function()
    for seed = 41, 80 do
      local fetches, feeds = sampling.build(seed, { gradients = seed % 2 == 0, window = windows[seed % 3 + 1] })
      local rand = generator(seed)
      local h = df.start(fetches, feeds, { paused = true })
      h:settle()
      repeat sampling.agree(h) until not h:step(rand(60))
      h:wait()
    end
  end)

  it('counts as run, in the end, what the log has', function()
    for seed = 81, 100 do
      local fetches, feeds = sampling.build(seed, { gradients = true })
      local h = df.start(fetches, feeds, { paused = true, log = true })
      h:settle()
      local last
      repeat last = h:ledger() until not h:step()
      h:wait()
      local ran, died = 0, 0
      for _, t in ipairs(sampling.tokens_run(h)) do
        if t:match('^%.') then
          if t:match('!$') then died = died + 1 else ran = ran + 1 end
        end
      end
      assert.equal(ran + died, last.sent)          -- the last token was live, ready and the only one
      assert.equal(1, last.live + last.dead)
      assert.equal(ran, last.ran + last.live)
      assert.equal(died, last.died + last.dead)
    end
  end)

  it('balances whenever it is sampled while random programs run, and the results are the same bit for bit', function()
    local looks = 0
    for _, c in ipairs(cases) do looks = looks + case_holds(c, false) end
    assert.is_true(looks > #cases, looks .. ' looks')
  end)

  next_it('shows every token running in the very order of a run without an inspector, with as many iterations at once', function()
    for i = 1, 12 do case_holds({ seed = 900 + i, depth = 2, window = windows[i % 3 + 1], trips = 8, gradients = i % 2 == 0, threads = 1 }, true) end
  end)

  it('balances when ready nodes run in any order', function()
    local path = os.tmpname()
    shell.write(path, [[
      local df = require 'dflow'
      local sampling = require 'spec.sampling'
      for seed = 1, 16 do
        local fetches, feeds = sampling.build(seed, { gradients = seed % 2 == 0, window = ({ 1, 2, 32 })[seed % 3 + 1] })
        local s = df.Session{ threads = 1 + seed % 2 }
        local h = s:start(fetches, feeds, { paused = true })
        h:settle()
        repeat sampling.agree(h) until not h:step(1 + seed % 5)
        h:wait()
        s:close()
        fetches, feeds = sampling.build(seed, { depth = 2, gradients = true, trips = 10 })
        s = df.Session{}
        h = sampling.begin(s, fetches, feeds)
        while not h:done() do sampling.look(h) end
        h:wait()
        s:close()
      end
      print 'balanced']])
    for _, seed in ipairs(support.sample({ 29 }, { 1, 29, 4242 })) do
      local r = shell.run(('DFLOW_STRESS=shuffle:%d %s %s'):format(seed, shell.lua, path))
      assert.equal('balanced\n', r.out, ('shuffle:%d\n%s'):format(seed, r.err))
    end
    os.remove(path)
  end)

  it('is balanced by kernels on workers, queues that wait and functions that call themselves', function()
    local w = df.random_normal({ 96, 96 }, { seed = 3 }) * 0.05
    local outs = {}
    for k = 1, 3 do
      local _, x = df.while_loop(function(i) return i:lt(df.int32(40)) end, function(i, x) return i + 1, df.tanh(df.matmul(x, w)) end,
        { df.int32(0), df.random_normal({ 96, 96 }, { seed = k }) }, { parallel_iterations = 2 })
      outs[k] = df.reduce_sum(x)
    end
    local q = df.FIFOQueue(1, { 'float32' }, { shapes = { {} } })
    outs[4] = q:dequeue()
    local put = q:enqueue(df.float32(7))
    local s = session(2)
    local h = sampling.begin(s, outs)
    for _ = 1, 50 do
      if h:pause() then
        sampling.agree(h)
        h:resume()
      end
    end
    s:run(put)
    while not h:done() do sampling.look(h) end
    assert.equal(7, h:wait()[4])
    assert.is_nil(h:ledger())
    s:close()
  end)
end)
