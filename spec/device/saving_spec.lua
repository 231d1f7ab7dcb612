--- save = 'recompute' and 'auto' of a session: the same bits, with less memory.
local df = require 'dflow'
local support = require 'spec.support'
local sampling = require 'spec.sampling'

local function alike(a, b)
  if type(a) ~= 'table' then return a == b or (a ~= a and b ~= b) end
  if #a ~= #b then return false end
  for i = 1, #a do if not alike(a[i], b[i]) then return false end end
  return true
end

--- What a program gives in two runs of a session, as numbers, and the counters of the second one.
local function results(build, options)
  df.reset()
  df.set_random_seed(7)
  local fetches = build()
  local s = df.Session(options)
  local all, stats = {}, nil
  for _ = 1, 2 do
    local h = s:start(fetches)
    for _, t in ipairs(h:wait()) do all[#all + 1] = type(t) == 'number' and t or t:totable() end
    stats = h:stats()
  end
  s:close()
  return all, stats
end

local function matrix() return df.constant{ { 0.1 } } + df.zeros{ 12, 12 } end

local programs = {
  ['a loop'] = function()
    local x = matrix()
    local _, y = df.while_loop(function(i) return i:lt(30) end, function(i, y) return i + 1, (y:matmul(x) + df.cast(i, 'float32') * 0.01):tanh() end,
      { df.int32(0), x })
    return { y, df.gradients(y:reduce_sum(), x) }
  end,
  ['a loop in a loop'] = function()
    local x = matrix()
    local _, y = df.while_loop(function(i) return i:lt(9) end, function(i, y)
      local _, z = df.while_loop(function(j) return j:lt(7) end, function(j, z) return j + 1, (z:matmul(x) + y):sin() end, { df.int32(0), y })
      return i + 1, (z * y):tanh()
    end, { df.int32(0), x })
    return { y, df.gradients(y:reduce_sum(), x) }
  end,
  ['conds and random numbers'] = function()
    local x = matrix()
    local _, y = df.while_loop(function(i) return i:lt(30) end, function(i, y)
      local r = df.random_uniform{ 12, 12 }
      local z = df.cond((i % 3):eq(0), function() return (y * r):matmul(x) end, function() return (y + r):exp() * 0.1 end)
      return i + 1, z:tanh()
    end, { df.int32(0), x })
    return { y, df.gradients(y:reduce_sum(), x) }
  end,
  ['a variable that the body assigns'] = function()
    local x, v = matrix(), df.Variable(df.ones{ 12, 12 })
    local _, y = df.while_loop(function(i) return i:lt(30) end, function(i, y)
      local w = v:assign_add(df.ones{ 12, 12 } * 0.01)
      local u = df.control_dependencies({ w }, function() return v:value() end)
      return i + 1, (y * u):matmul(x):tanh()
    end, { df.int32(0), x })
    return { y, df.gradients(y:reduce_sum(), x), df.control_dependencies({ y }, function() return v:value() end) }
  end,
  ['arrays that the body reads and writes'] = function()
    local x = df.constant{ { 0.1 } } + df.zeros{ 20, 12, 12 }
    local ta, out = df.TensorArray('float32', 20):unstack(x), df.TensorArray('float32', 20)
    local _, _, written = df.while_loop(function(i) return i:lt(20) end, function(i, y, o)
      local h = (y:matmul(ta:read(i))):tanh()
      return i + 1, h, o:write(i, h * y)
    end, { df.int32(0), x[0], out })
    local s = written:stack()
    return { s, df.gradients(s:reduce_sum(), x) }
  end,
  ['the gradient of a gradient'] = function()
    local x = matrix()
    local _, y = df.while_loop(function(i) return i:lt(12) end, function(i, y) return i + 1, (y:matmul(x)):tanh() end, { df.int32(0), x })
    local g = df.gradients(y:reduce_sum(), x)
    return { y, g, (df.gradients((g * g):reduce_sum(), x)) }
  end,
  ['a function that calls itself'] = function()
    local x, f = matrix(), nil
    f = df.func('f', { 'float32', 'int32' }, function(y, n)
      return df.cond(n:le(0), function() return y end, function() return f((y:matmul(y) * 0.3):tanh(), n - 1) end)
    end, { returns = { 'float32' } })
    local _, y = df.while_loop(function(i) return i:lt(9) end, function(i, y) return i + 1, f(y, df.int32(2)):matmul(x) end, { df.int32(0), x })
    return { y, df.gradients(y:reduce_sum(), x) }
  end,
  ['training within a loop'] = function()
    local x, v = matrix(), df.Variable(df.ones{ 12, 12 } * 0.1)
    local n = df.while_loop(function(n) return n:lt(5) end, function(n)
      local _, y = df.while_loop(function(i) return i:lt(12) end, function(i, y) return i + 1, (y:matmul(v) + x):tanh() end, { df.int32(0), x })
      local g = df.gradients(y:reduce_sum(), v)
      return df.control_dependencies({ v:assign_sub(g * 0.01) }, function() return n + 1 end)
    end, { df.int32(0) })
    return { n, df.control_dependencies({ n }, function() return v:value() end) }
  end,
}

local host_it = support.host_it(it, pending)
-- how little memory is enough is a matter of the order of tokens, which owners side by side have as it comes, and of copies that do not wait until
-- all else has
local stress = os.getenv 'DFLOW_STRESS' or ''
local timely_it = (stress:find 'late' or stress:find 'ranks:') and pending or require('spec.support').next_it(host_it, pending)

describe("a session with save = 'recompute'", function()
  for name, build in pairs(programs) do
    it('gives the bits of keeping for ' .. name, function()
      local kept = results(build, {})
      for _, options in ipairs{ {}, { clock = 'virtual' } } do
        options.save = 'recompute'
        local again, stats = results(build, options)
        assert.is_true(alike(kept, again))
        local recomputed = 0
        for _, v in ipairs(stats.saved) do recomputed = recomputed + v.recomputed end
        assert.is_true(recomputed > 0)
        assert.is_true(stats.iterations_again > 0)
      end
    end)
  end

  it('repeats no side effect, and says what it cannot compute again', function()
    local calls = 0
    local x = matrix()
    local _, y = df.while_loop(function(i) return i:lt(10) end, function(i, y)
      local z = df.lua_func(function(t) calls = calls + 1 return t end, { y }, { 'float32' })
      z:set_shape{ 12, 12 }
      return i + 1, (df.stop_gradient(z) * y):matmul(x)
    end, { df.int32(0), x })
    local s = df.Session{ save = 'recompute' }
    s:run(df.gradients(y:reduce_sum(), x))
    assert.equal(10, calls)
    for _, v in ipairs(s:stats().saved) do
      assert.equal('keep', v.save)
      assert.matches('waits for something outside', v.why)
    end
    s:close()
  end)

  it('leaves loops that say what they want as they are', function()
    local x = matrix()
    local _, y = df.while_loop(function(i) return i:lt(10) end, function(i, y) return i + 1, (y:matmul(x)):tanh() end, { df.int32(0), x },
      { save = 'keep' })
    local s = df.Session{ save = 'recompute' }
    s:run(df.gradients(y:reduce_sum(), x))
    assert.same({}, s:stats().saved)
    s:close()
  end)

  it('has the frames that it had, for breakpoints', function()
    local x = matrix()
    local _, y = df.while_loop(function(i) return i:lt(12) end, function(i, y) return i + 1, (y:matmul(x)):tanh() end, { df.int32(0), x })
    local s = df.Session{ save = 'recompute' }
    local h = s:start(df.gradients(y:reduce_sum(), x), nil, { paused = true })
    local err = support.error_of(h.break_at, h, { frame = 'nowhere' })
    local _, names = tostring(err):gsub('while', '')
    assert.equal(2, names)
    h:resume()
    h:wait()
    s:close()
  end)

  it('can be paused, and its books balance, while iterations run a second time', function()
    local x = matrix()
    local _, y = df.while_loop(function(i) return i:lt(12) end, function(i, y) return i + 1, (y:matmul(x)):tanh() end, { df.int32(0), x })
    local g = df.gradients(y:reduce_sum(), x)
    local kept = df.run(g):totable()
    local s = df.Session{ save = 'recompute' }
    local h = s:start(g, nil, { paused = true })
    local looks, loops, seen = 0, 0, {}
    while h:step(7) do
      sampling.check_ledger(h, h:ledger())
      looks = looks + 1
      for _, f in ipairs(h:frames()) do
        if f.name == 'while' and not seen[f.id] then seen[f.id], loops = true, loops + 1 end
      end
    end
    assert.same(kept, h:wait():totable())
    assert.is_true(looks > 20)
    assert.is_true(loops > 2)                              -- the loop itself, and stretches of it again
    assert.is_true(h:stats().iterations_again >= 10)
    s:close()
  end)
end)

describe("a session with save = 'auto'", function()
  --- The gradient of a loop of 60 products of 32 x 32, on a device with so much memory.
  local function gradient(save, device, memory)
    df.reset()
    local x = df.constant{ { 0.01 } } + df.zeros{ 32, 32 }
    local function loop()
      local _, y = df.while_loop(function(i) return i:lt(60) end, function(i, y) return i + 1, (y:matmul(x)):tanh() end, { df.int32(0), x })
      return y
    end
    local y = device and df.device('sim:0', loop) or loop()
    local s = df.Session{ save = save, memory = memory, devices = device and { 'cpu:0', device } or nil }
    local h = s:start(df.gradients(y:reduce_sum(), x))
    local ok, r = pcall(h.wait, h)
    local stats = h:stats()
    s:close()
    return ok and r:totable(), stats, r
  end

  it('keeps what fits', function()
    local _, stats = gradient('auto')
    assert.equal('keep', stats.saved[1].save)
    assert.equal('all of it fits', stats.saved[1].why)
    assert.equal(60, stats.saved[1].tensors)
    assert.equal(0, stats.iterations_again)
  end)

  host_it('swaps over a fast link, computes again where the link is slow, and says why', function()
    local whole = gradient('keep')
    local fast, stats = gradient('auto', { 'sim:0', memory = '120KB', bandwidth = '5GB/s' })
    assert.same(whole, fast)
    assert.equal('swap', stats.saved[1].save)
    assert.matches('copying what an iteration saves takes', stats.saved[1].why)
    local slow
    slow, stats = gradient('auto', { 'sim:0', memory = '120KB', bandwidth = '100MB/s' })
    assert.same(whole, slow)
    assert.equal('recompute', stats.saved[1].save)
    assert.is_true(stats.saved[1].recomputed > 0)
    assert.equal(0, stats.memory['sim:0'].in_use)
  end)

  host_it('computes again on the host, which has nowhere to swap to', function()
    local whole = gradient('keep')
    for _ = 1, 2 do collectgarbage() end                       -- nothing that a run without room could let go
    local in_use = df.stats().memory['cpu:0'].in_use
    local limit = in_use + 220 * 1024
    local kept, _, err = gradient('keep', nil, limit)
    assert.is_false(kept)
    assert.equal('resource_exhausted', err.code)
    assert.matches("save = 'recompute' would free about", tostring(err))
    local auto, stats = gradient('auto', nil, limit)
    assert.same(whole, auto)
    assert.equal('recompute', stats.saved[1].save)
    assert.matches('nowhere to swap to', stats.saved[1].why)
  end)

  it('moves a value once that several arrays hold', function()
    local x = df.constant{ { 0.01 } } + df.zeros{ 32, 32 }
    local y = df.device('sim:0', function()
      local _, y, z = df.while_loop(function(i) return i:lt(40) end, function(i, y)
        local h = (y:matmul(x)):tanh()
        return i + 1, h, h
      end, { df.int32(0), x, x }, { parallel_iterations = 2 })
      return y:reduce_sum() + z:reduce_sum()
    end)
    local s = df.Session{ save = 'swap', devices = { 'cpu:0', { 'sim:0', memory = '120KB', bandwidth = '5GB/s' } } }
    local h = s:start(df.gradients(y, x))
    h:wait()
    assert.is_true(h:stats().swap.tensors_out > 0)
    assert.is_true(h:stats().swap.tensors_out <= 41)
    s:close()
  end)

  it('is safe in two runs of one session that swap on one device at the same time', function()
    local x = df.placeholder('float32', { 32, 32 })
    local y = df.device('sim:0', function()
      local _, y = df.while_loop(function(i) return i:lt(60) end, function(i, y) return i + 1, (y:matmul(x)):tanh() end, { df.int32(0), x })
      return y
    end)
    local g = df.gradients(y:reduce_sum(), x)
    local whole = df.Session():run(g, { [x] = df.run(df.ones{ 32, 32 } * 0.01) }):totable()
    for _, save in ipairs{ 'swap', 'auto', 'recompute' } do
      local s = df.Session{ save = save, devices = { 'cpu:0', { 'sim:0', memory = '600KB', bandwidth = '5GB/s' } } }
      local runs = {}
      for i = 1, 4 do runs[i] = s:start(g, { [x] = df.run(df.ones{ 32, 32 } * 0.01) }) end
      for i = 1, 4 do assert.same(whole, runs[i]:wait():totable()) end
      assert.equal(0, s:stats().memory['sim:0'].in_use)
      s:close()
    end
  end)

  --- Loops of 64 x 64 floats: what a body makes of y and x.
  local bodies = {
    ['of products'] = function(y, x) return y:matmul(x):tanh() end,
    ['of elements alone'] = function(y, x) return (y * x + 0.1):tanh() * y end,
    ['with a cond'] = function(y, x, i)
      return df.cond((i % 3):eq(0), function() return y:matmul(x) end, function() return y:exp() * 0.1 end):tanh()
    end,
    ['with a loop inside'] = function(y, x)
      local _, z = df.while_loop(function(j) return j:lt(8) end, function(j, z) return j + 1, (z:matmul(x) + y):sin() * 0.1 end, { df.int32(0), y })
      return (z * y):tanh()
    end,
  }
  for name, body in pairs(bodies) do
    timely_it('goes through with a quarter of what keeping takes, whatever runs ahead, in a loop ' .. name, function()
      local x = df.constant{ { 0.1 } } + df.zeros{ 64, 64 }
      local y = df.device('sim:0', function()
        local _, y = df.while_loop(function(i) return i:lt(40) end, function(i, y) return i + 1, body(y, x, i) end, { df.int32(0), x + 0.5 })
        return y
      end)
      local g = df.gradients(y:reduce_sum(), x)
      local function run(save, memory, bandwidth)
        local s = df.Session{ save = save, devices = { 'cpu:0', { 'sim:0', memory = memory, bandwidth = bandwidth or '5GB/s' } } }
        local r = s:run(g):totable()
        local peak = s:stats().memory['sim:0'].peak
        s:close()
        return r, peak
      end
      local whole, peak = run 'keep'
      assert.is_false((pcall(run, 'keep', math.floor(peak / 4))))
      for _, save in ipairs{ 'swap', 'recompute', 'auto' } do assert.same(whole, (run(save, math.floor(peak / 4)))) end
      assert.same(whole, (run('auto', math.floor(peak / 4), '100MB/s')))
    end)
  end

  timely_it('goes through with a quarter in loops so short that all iterations could be open at once', function()
    --- Some of it waits for the iteration before, some for nothing but the loop's predicate.
    local short = {
      function(y, x) return ((y:matmul(x) * 0.02):tanh() * 0.5 + (x * 0.3):sin() * 0.4) * 0.5 + (y * 0.3):sigmoid():square() * 0.4 end,
      function(y, x) return (((x * 0.3):sin():matmul(x) * 0.02):sin() * 0.5 + (y * 0.3):tanh() * 0.4):matmul(y) * 0.02 end,
      function(y, x, i)
        local z = (x * 0.3):tanh():matmul(y) * 0.02
        return df.cond((i % 2):eq(0), function() return (z * 0.3):sin() * 0.5 + (y * 0.3):square() * 0.4 end, function() return z:tanh() end)
      end,
    }
    for _, body in ipairs(short) do
      for _, n in ipairs{ 14, 18 } do
        df.reset()
        local x = df.constant{ { 0.1 } } + df.zeros{ 64, 64 }
        local y = df.device('sim:0', function()
          local _, y = df.while_loop(function(i) return i:lt(n) end, function(i, y) return i + 1, body(y, x, i) end, { df.int32(0), x + 0.5 })
          return y
        end)
        local g = df.gradients(y:reduce_sum(), x)
        local function run(save, memory, bandwidth)
          local s = df.Session{ save = save, devices = { 'cpu:0', { 'sim:0', memory = memory, bandwidth = bandwidth or '5GB/s' } } }
          local r = s:run(g):totable()
          local peak = s:stats().memory['sim:0'].peak
          s:close()
          return r, peak
        end
        local whole, peak = run 'keep'
        for _, save in ipairs{ 'swap', 'recompute', 'auto' } do assert.same(whole, (run(save, math.floor(peak / 4)))) end
        assert.same(whole, (run('auto', math.floor(peak / 4), '100MB/s')))
      end
    end
  end)

  host_it('goes through with the room of sixteen values, however long the loop is', function()
    for _, n in ipairs{ 50, 2000 } do
      df.reset()
      local x = df.constant{ { 0.1 } } + df.zeros{ 32, 32 }
      local y = df.device('sim:0', function()
        local _, y = df.while_loop(function(i) return i:lt(n) end, function(i, y)
          return i + 1, (y:matmul(x) * 0.05):tanh() * y + (y * 0.3):sin()
        end, { df.int32(0), x + 0.5 })
        return y
      end)
      local g, whole = df.gradients(y:reduce_sum(), x), nil
      for _, save in ipairs{ 'keep', 'swap', 'recompute', 'auto' } do
        local s = df.Session{ save = save, devices = { 'cpu:0', { 'sim:0', memory = save == 'keep' and '1GB' or 16 * 32 * 32 * 4, bandwidth = '5GB/s' } } }
        local found = s:run(g):totable()
        whole = whole or found
        assert.same(whole, found)
        s:close()
      end
    end
  end)

  host_it('swaps nothing that stays alive anyway, and says so', function()
    local v = df.device('sim:0', function() return df.Variable(df.zeros{ 32, 32 } + 0.01) end)
    local y = df.device('sim:0', function()
      local _, y = df.while_loop(function(i) return i:lt(60) end, function(i, y) return i + 1, y:matmul(v):tanh() end, { df.int32(0), df.ones{ 32, 32 } })
      return y
    end)
    local s = df.Session{ save = 'swap', devices = { 'cpu:0', { 'sim:0', memory = '160KB', bandwidth = '5GB/s' } } }
    s:run(df.gradients(y:reduce_sum(), v))
    local kept, moved = 0, 0
    for _, value in ipairs(s:stats().saved) do
      if value.swapped == 0 then
        kept = kept + 1
        assert.equal('keep', value.save)
        assert.matches('stays alive anyway', value.why)
      else
        moved = moved + 1
        assert.equal('swap', value.save)
      end
    end
    assert.same({ 1, 1 }, { kept, moved })
    s:close()
  end)

  it('is one of four policies', function()
    local err = support.error_of(df.Session, { save = 'forget' })
    assert.matches("'keep', 'swap', 'recompute' or 'auto'", tostring(err))
  end)
end)

describe("a device with speed = 'measured'", function()
  local function gradient(device, clock)
    df.reset()
    local x = df.placeholder('float32', { 32, 32 })
    local y = df.device('sim:0', function()
      local _, a = df.while_loop(function(i) return i:lt(60) end, function(i, a) return i + 1, a:matmul(x):tanh() end, { df.int32(0), x })
      return a:reduce_sum()
    end)
    local s = df.Session{ devices = { 'cpu:0', device }, save = 'auto', clock = clock }
    local values = {}
    for i = 1, 32 * 32 do values[i] = math.sin(i) / 8 end
    local h = s:start(df.gradients(y, x), { [x] = df.tensor(values, 'float32', { 32, 32 }) })
    local r, stats, rates = h:wait():totable(), h:stats(), nil
    for _, d in ipairs(require('dflow.front.devices').list(s.handle)) do if d.name == 'sim:0' then rates = d.rates end end
    s:close()
    return r, stats, rates
  end

  it('has the rates of this machine, and what is chosen by costs goes by the clock and says so', function()
    local whole, _, none = gradient('sim:0')
    assert.is_nil(none)
    local r, stats, rates = gradient{ 'sim:0', memory = '120KB', speed = 'measured' }
    assert.same(whole, r)
    for _, rate in ipairs{ 'flops', 'bytes', 'begin' } do assert.is_true(rates[rate] > 0, rate) end
    assert.matches('as measured', stats.saved[1].why)
    assert.is_true(stats.saved[1].swapped + stats.saved[1].recomputed > 0)
  end)

  it('computes at those rates by the virtual clock', function()
    local _, by_model = gradient('sim:0', 'virtual')
    local _, stats, rates = gradient({ 'sim:0', speed = 'measured' }, 'virtual')
    local least, most = 1, 1                  -- however the three differ from the model's, the sum lies between; the host goes by the model
    for _, ratio in ipairs{ 100e9 / rates.flops, 20e9 / rates.bytes, rates.begin / 1e-6 } do least, most = math.min(least, ratio), math.max(most, ratio) end
    local slower = stats.seconds / by_model.seconds
    assert.is_true(slower > least * 0.999 and slower < most * 1.001, slower)
  end)

  it('is refused where it is another word', function()
    local e = support.error_of(df.Session, { devices = { { 'sim:0', speed = 'fast' } } })
    assert.matches("speed of sim:0 is a positive number, 1 for the built%-in cost model, or 'measured', not the string \"fast\"", tostring(e))
  end)
end)

describe('variables that do not fit where they are to lie', function()
  it('are told with the device, how full it is, and how many are to lie there', function()
    local y = df.device('sim:0', function()
      local h = df.ones{ 64, 64 }
      for l = 1, 4 do h = h:matmul(df.Variable(df.fill({ 64, 64 }, 0.1), { name = 'w' .. l })) end
      return h:reduce_sum()
    end)
    local s = df.Session{ devices = { 'cpu:0', { 'sim:0', memory = '40KB' } } }
    local err = support.error_of(s.run, s, y)
    assert.equal('resource_exhausted', err.code)
    assert.matches("variable 'w%d', float32%[64,64%], on sim:0 %(%d+ KB of 40 KB in use%), where 4 variables of this run lie", tostring(err))
    assert.matches('saving_spec.lua:%d+', err.source)
    s:close()
  end)

  it('counts a stall as time that the run lost: reads that wait side by side lose it once', function()
    local grads = df.device('sim:0', function()
      local w = df.random_normal({ 64, 64 }, { seed = 2 }) * 0.1
      local _, y = df.while_loop(function(i) return i:lt(60) end, function(i, y) return i + 1, df.tanh(y:matmul(w)) end,
                                 { df.int32(0), df.random_normal({ 64, 64 }, { seed = 1 }) }, { save = 'swap' })
      local list = {}
      for k = 1, 3 do list[k] = df.gradients(y:reduce_sum() * k, w) end
      return list
    end)
    local s = df.Session{ devices = { 'cpu:0', { 'sim:0', memory = '600KB', bandwidth = '1GB/s', latency = '5us' } }, clock = 'virtual' }
    local h = s:start(grads)
    h:wait()
    local stats = h:stats()
    assert.is_true(stats.swap.tensors_in > 0 and stats.swap.stall_seconds > 0)
    assert.is_true(stats.swap.stall_seconds <= stats.seconds)
    s:close()
  end)

  it("has 'auto' in a loop as in a session: the same bits in the same memory", function()
    local function run(save, session)
      df.reset()
      local y, g = df.device('sim:0', function()
        local w = df.random_normal({ 64, 64 }, { seed = 2 }) * 0.1
        local _, last = df.while_loop(function(i) return i:lt(60) end, function(i, y) return i + 1, df.tanh(y:matmul(w)) end,
                                      { df.int32(0), df.random_normal({ 64, 64 }, { seed = 1 }) }, { save = save })
        local sum = last:reduce_sum()
        return sum, df.gradients(sum, w)
      end)
      for _, e in ipairs(save and df.saved(y) or {}) do assert.equal(save, e.save) end
      local s = df.Session{ devices = { 'cpu:0', { 'sim:0', memory = session ~= 'much' and '600KB' or nil } }, save = session ~= 'much' and session or nil }
      local h = s:start(g)
      local ok, r = pcall(h.wait, h)
      local saved = h:stats().saved
      s:close()
      return ok and r:totable(), saved and saved[1] and saved[1].save
    end
    local whole = run('keep', 'much')
    assert.is_false((run('keep')))
    local by_session, how = run(nil, 'auto')
    assert.same(whole, by_session)
    for _, session in ipairs{ 'keep', 'swap', 'recompute' } do
      local r, chosen = run('auto', session)
      assert.same(whole, r)
      assert.equal(how, chosen)
    end
    local _, kept = run('auto', 'much')
    assert.equal('keep', kept)
  end)
end)
