--- A plan that leaves out what changes nothing: what it merges, folds and drops, and what it must not.
local df = require 'dflow'
local support = require 'spec.support'
local random_program = require 'spec.random_program'

--- The values of a run by tokens, bit for bit, or its error; and how many nodes ran.
local function ran(simplify, fetches, feeds, engine)
  local s = df.Session{ simplify = simplify, engine = engine or 'tokens' }
  local h = s:start(fetches, feeds)
  local ok, found = pcall(h.wait, h)
  local nodes = h:stats().nodes_run
  s:close()
  if not ok then return { error = found.message, op = found.op, source = found.source }, nodes end
  return { found = support.bits(found) }, nodes
end

--- Equal bits, or the same error, with and without; returns how many nodes ran with and without.
local function same(fetches, feeds)
  local a, with = ran(true, fetches, feeds)
  local b, without = ran(false, fetches, feeds)
  assert.same(b, a)
  assert.same(b, (ran(true, fetches, feeds, 'native')))
  return with, without
end

local function less(fetches, feeds)
  local with, without = same(fetches, feeds)
  assert.is_true(with < without, ('%d nodes of %d'):format(with, without))
  return with, without
end

--- As written: not a node less.
local function untouched(fetches, feeds)
  local with, without = same(fetches, feeds)
  assert.equal(without, with)
end

describe('equal nodes', function()
  local data = df.tensor({ { 1, 2 }, { 3, 4.5 } }, 'float32')

  it('are computed once', function()
    local x = df.placeholder('float32', { 2, 2 })
    local t = {}
    for i = 1, 10 do t[i] = x:matmul(x):reduce_sum() end
    assert.same({ 3, 21 }, { less(df.add_n(t), { [x] = data }) })
  end)

  it('are computed once though constants of theirs were built twice', function()
    local x = df.placeholder('float32', { 2, 2 })
    less(df.exp(x * 3) + df.exp(x * 3), { [x] = data })
  end)

  it('stay two where an attribute, a dtype or a constant differs', function()
    local x = df.placeholder('float32', { 2, 2 })
    untouched({ df.matmul(x, x), df.matmul(x, x, { transpose_a = true }) }, { [x] = data })
    untouched({ df.cast(x, 'int32'), df.cast(x, 'int64') }, { [x] = data })
    untouched({ x * 3, x * 2, x - 0.0, x + 0.0 }, { [x] = data })
  end)

  it('stay two where the constants are 0 and -0, or different NaNs', function()
    local x = df.placeholder('float32', {})
    local with = same({ x / df.constant(0.0), x / df.constant(-0.0) }, { [x] = 1 })
    assert.equal(2, with)
  end)

  it('are one within a loop and within a branch, and not across', function()
    local x = df.placeholder('float32', { 2, 2 })
    local _, y = df.while_loop(function(i) return i:lt(3) end,
      function(i, v) return i + 1, v * 0.1 + df.tanh(v) + df.tanh(v) end, { df.int32(0), x })
    less(y, { [x] = data })
    local p = df.placeholder('bool', {})
    local function branch() return df.exp(x) + df.exp(x) end
    for _, taken in ipairs{ true, false } do
      if taken then less(df.cond(p, branch, function() return x end), { [x] = data, [p] = taken })
      else same(df.cond(p, branch, function() return x end), { [x] = data, [p] = taken }) end
      untouched(df.exp(x) + df.cond(p, function() return df.exp(x) end, function() return x end), { [x] = data, [p] = taken })
    end
  end)

  it('that draw random numbers stay two', function()
    local a, b = df.random_uniform({ 4 }), df.random_uniform({ 4 })
    local s = df.Session{ engine = 'tokens' }
    local found = s:run{ a, b }
    assert.is_false(support.bits(found[1]) == support.bits(found[2]) and true or false)
    assert.not_same(found[1]:totable(), found[2]:totable())
  end)

  it('with effects happen each time', function()
    local v = df.Variable(0.0)
    local a, b = v:assign_add(1), v:assign_add(1)
    local s = df.Session{ engine = 'tokens' }
    s:run{ a, b }
    assert.equal(2, s:run(v))
  end)

  it('that wait for something else stay two', function()
    local x = df.placeholder('float32', {})
    local v = df.Variable(1.0)
    local before = v:value() * x
    local after = df.control_dependencies({ df.group(v:assign(before + 5)) }, function() return v:value() * x end)
    local s = df.Session{ engine = 'tokens' }
    assert.same({ 2, 14 }, s:run({ before, after }, { [x] = 2 }))
  end)

  it('read a variable where they were built', function()
    local x = df.placeholder('float32', {})
    local v = df.Variable(1.0)
    local _, r = df.while_loop(function(i) return i:lt(3) end, function(i, sum)
      local a = v:value() * x
      v:assign_add(1)
      return i + 1, sum + a + v:value() * x
    end, { df.int32(0), df.float32(0) })
    same(r, { [x] = 1 })
  end)

  it('one of which is fed stay two', function()
    local x = df.placeholder('float32', {})
    local a, b = df.exp(x), df.exp(x)
    local s = df.Session{ engine = 'tokens' }
    local found = s:run({ a + 0.5, b + 0.5 }, { [x] = 0, [a] = 7 })
    assert.same({ 7.5, 1.5 }, found)
  end)

  it('fail as the first of them does, with its line', function()
    local x = df.placeholder('int32', {})
    same({ df.floordiv(df.int32(4), x), df.floordiv(df.int32(4), x) }, { [x] = 0 })
  end)

  it('have the gradients that they have apart', function()
    local x = df.placeholder('float32', { 2, 2 })
    local y = df.exp(x):reduce_sum() * df.exp(x):reduce_max()
    same({ y, df.gradients(y, x) }, { [x] = data })
    local z = (df.exp(x) * x):reduce_sum()                -- built when the others have been run
    same({ z, df.gradients(z, x), df.gradients(df.gradients(z, x), x) }, { [x] = data })
  end)
end)

describe('constants', function()
  it('are computed when the plan is made', function()
    local a = df.constant(0.01, 'float32', { 10, 10 })
    local y = a
    for _ = 1, 20 do y = y:matmul(a) end
    local x = df.placeholder('float32', {})
    local with = less(y:reduce_sum() + x, { [x] = 1 })
    assert.equal(1, with)
    assert.equal(1, (less(y)))                -- what is fetched itself is computed in each run
  end)

  it('of the top level are in a loop, too', function()
    local a = df.constant({ 1.5, 2.5, -3 }, 'float32')
    local x = df.placeholder('float32', { 3 })
    local _, y = df.while_loop(function(i) return i:lt(5) end, function(i, v) return i + 1, v * df.sin(a) end,
      { df.int32(0), x })
    less(y, { [x] = df.tensor({ 1, 2, 3 }, 'float32') })
  end)

  it('that a body returns do not keep the loop alive', function()
    local a = df.constant({ 1.5, 2.5 }, 'float32')
    local x = df.placeholder('float32', { 2 })
    local function loop(give)
      local _, y = df.while_loop(function(i) return i:lt(3) end, function(i) return i + 1, give() end, { df.int32(0), x })
      return y
    end
    local feeds = { [x] = df.tensor({ 1, 2 }, 'float32') }
    same({ loop(function() return df.sin(a) end), loop(function() return a * 1 end), loop(function() return x * 1 end),
           loop(function() return df.cast(df.cast(a, 'float64'), 'float32') end) }, feeds)
  end)

  it('whose kernel fails fail in the run, and only where they are computed', function()
    local x, p = df.placeholder('int32', {}), df.placeholder('bool', {})
    local y = df.cond(p, function() return df.floordiv(df.int32(1), df.int32(0)) end, function() return x end)
    same(y, { [x] = 3, [p] = false })
    same(y, { [x] = 3, [p] = true })
  end)

  it('that are random are drawn anew in each run', function()
    local s = df.Session{}
    local y = df.random_uniform({ 8 }) * 2
    assert.not_same(s:run(y):totable(), s:run(y):totable())
  end)
end)

describe('what changes nothing', function()
  local odd = { 0 / 0, -0.0, 0.0, math.huge, -math.huge, 1e-42, -1e-42, 1.5, 3e38 }

  it('is left out of whole numbers, whatever they are', function()
    local x = df.placeholder('int32', { 3 })
    local feeds = { [x] = df.tensor({ 2147483647, -2147483647 - 1, 0 }, 'int32') }
    assert.equal(1, (less((((x * 1) + 0) - 0) * 2, feeds)))
    assert.equal(1, (less(df.cast(df.cast(x, 'int64'), 'int32') * 2, feeds)))
    assert.equal(1, (less(df.cast(df.cast(x, 'float64'), 'int32') * 2, feeds)))
  end)

  it('is not left out where the numbers do not fit the dtype between', function()
    local x = df.placeholder('int32', { 3 })
    local feeds = { [x] = df.tensor({ 2147483647, -2147483647 - 1, 70000 }, 'int32') }
    for _, between in ipairs{ 'int16', 'uint8', 'float32', 'bool' } do
      untouched(df.cast(df.cast(x, between), 'int32') * 2, feeds)
    end
    local y = df.placeholder('float64', { 2 })
    untouched(df.cast(df.cast(y, 'float32'), 'float64') * 2, { [y] = df.tensor({ 0.1, 1e300 }, 'float64') })
  end)

  it('is left out of floats where the bits stay: NaN, -0, infinities and denormals', function()
    for _, dtype in ipairs{ 'float32', 'float64' } do
      local x = df.placeholder(dtype, { #odd })
      local feeds = { [x] = df.tensor(odd, dtype) }
      local made = x + x                                        -- arithmetic: no denormals
      local ys = { made * 1, made / 1, made - 0.0, made + df.constant(-0.0, dtype), 1 * made }
      local all = {}
      for i, y in ipairs(ys) do all[i] = df.neg(y) end
      less(all, feeds)
      untouched({ made + 0.0, x * 1, x + 0.0, x - 0.0, x / 1 }, feeds)
    end
  end)

  it('is not left out where it makes the shape or the dtype', function()
    local x = df.placeholder('int32', {})
    assert.same({ { 3, 3 } }, { df.run(x * df.ones({ 2 }, 'int32'), { [x] = 3 }):totable() })
    local y = df.placeholder('int32', { -1 })
    same(y * df.ones({ 1 }, 'int32'), { [y] = df.tensor({ 1, 2 }, 'int32') })
    same(df.reshape(df.reshape(y, { 2, -1 }), { -1 }), { [y] = df.tensor({ 1, 2 }, 'int32') })
    assert.is_false(pcall(df.run, df.reshape(df.reshape(y, { 2, -1 }), { -1 }), { [y] = df.tensor({ 1, 2, 3 }, 'int32') }))
  end)

  it('is left out where transposes and reshapes cancel, and not where they do not', function()
    local x = df.placeholder('float32', { 2, 3, 4 })
    local feeds = { [x] = df.tensor(1.5, 'float32', { 2, 3, 4 }) }
    assert.equal(1, (less(df.exp(df.transpose(df.transpose(x, { 1, 2, 0 }), { 2, 0, 1 })), feeds)))
    assert.equal(1, (less(df.exp(df.reshape(df.expand_dims(df.reshape(x, { 6, 4 }), 1), { 2, 3, 4 })), feeds)))
    untouched(df.exp(df.transpose(df.transpose(x, { 1, 2, 0 }), { 1, 2, 0 })), feeds)
    untouched(df.exp(df.reshape(df.transpose(df.reshape(x, { 6, 4 }), { 1, 0 }), { 2, 3, 4 })), feeds)
  end)

  it('stays where it waits for an effect', function()
    local v, x = df.Variable(0.0), df.placeholder('int32', {})
    local y = df.control_dependencies({ v:assign(3) }, function() return x * 1 end)
    local s = df.Session{}
    assert.equal(7, s:run(y, { [x] = 7 }))
    assert.equal(3, s:run(v))
  end)

  it('leaves a loop its variables, its end and its gradients', function()
    local x = df.placeholder('float32', { 2 })
    local i, y = df.while_loop(function(i) return (i * 1):lt(4) end,
      function(i, v) return (i + 1) * 1, (v * v) * 1 end, { df.int32(0), x })
    less({ i, y, df.gradients(y:reduce_sum(), x) }, { [x] = df.tensor({ 1.1, -0.7 }, 'float32') })
  end)

  it('is named in s:placement, and looked at as it was written', function()
    local x = df.placeholder('int32', { 2 })
    local a = x * 1
    local twice = df.square(x * 1)
    local y = df.square(a) + twice
    local s = df.Session{}
    local seen = {}
    for _, at in ipairs(s:placement(y)) do seen[at.why:match '^[%w ]+'] = at.op end
    assert.equal('Mul', seen['changes nothing'])
    assert.equal('Square', seen['computes what '])
    local q = df.FIFOQueue(1, 'int32', {})
    local h = s:start(y + twice * q:dequeue(), { [x] = df.tensor({ 2, 3 }, 'int32') })
    h:pause()
    assert.same({ 2, 3 }, h:value(a):totable())
    assert.same({ 4, 9 }, h:value(twice):totable())
    h:resume()
    s:run(q:enqueue(1))
    assert.same({ 12, 27 }, h:wait():totable())
  end)

  it('is there when a run is stepped', function()
    local x = df.float32(2) * 3
    local s = df.Session{ engine = 'tokens' }
    local h = s:start((x * 1):cast('float32') + x, nil, { paused = true })
    h:step(1)
    assert.equal(6, h:value(x))
    h:resume()
    assert.equal(12, h:wait())
    assert.is_true(h:stats().nodes_run >= 2)
  end)
end)

describe('random programs', function()
  local count = tonumber(os.getenv 'DFLOW_PROGRAMS') or 200
  local at = { 0.7, -0.4, 0.3 }

  it('have the same bits simplified and as written, gradients included', function()
    for seed = 1, math.floor(count / 4) do
      df.reset()
      local program = random_program.make(seed + 700000, 3)
      local y, xs = random_program.build(df, program)
      local grads = df.gradients(y, xs, { unconnected = 'zero' })
      local fetches = { y, grads[1], grads[2], grads[3] }
      local feeds = { [xs[1]] = at[1], [xs[2]] = at[2], [xs[3]] = at[3] }
      local a, b = ran(true, fetches, feeds), ran(false, fetches, feeds)
      assert.same(b, a, random_program.show(program))
    end
  end)
end)
