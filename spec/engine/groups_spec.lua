--- Elementwise ops that hang together are computed in one pass: the numbers, errors and tokens are those of the ops one by one.
local df = require 'dflow'
local support = require 'spec.support'

local bits = support.bits

--- The values as they are, and as they are where every value is kept, so that each op runs alone; they have to be equal.
local function both(ys, feeds, session)
  local s = session or df.Session{ threads = 2 }
  local together = s:run(ys, feeds)
  local alone = s:start(ys, feeds, { values = true }):wait()
  assert.same(bits(alone), bits(together))
  return together
end

local function counted(ys, feeds, options)
  local s = df.Session()
  local h = s:start(ys, feeds, options)
  h:wait()
  local c = s:stats()
  s:close()
  return ('%d nodes, %d dead, %d iterations'):format(c.nodes_run, c.dead_tokens, c.iterations)
end

local host_it = require('spec.support').host_it(it, pending)

describe('elementwise ops that hang together', function()
  before_each(df.reset)

  it('give the bits of the ops one by one, whatever the shapes that meet', function()
    for _, dims in ipairs{ { 1, 300 }, { 7, 41 }, { 3, 1024 }, { 5, 1500 }, { 300, 3 }, { 2000, 17 }, { 40, 257 } } do
      local n, m = dims[1], dims[2]
      local x = df.constant(support.tensor({ n, m }, -3, 3, 'float32', 1))
      local w = df.constant(support.tensor({ n, m }, -3, 3, 'float32', 2))
      local row = df.constant(support.tensor({ m }, -1, 1, 'float32', 3))
      local row1 = df.constant(support.tensor({ 1, m }, -1, 1, 'float32', 4))
      local column = df.constant(support.tensor({ n, 1 }, -1, 1, 'float32', 5))
      local a = df.tanh(x * row + w)
      local b = df.sigmoid(a - column) * row1 + df.float32(0.5)
      local c = df.where(a:gt(b), a * 2, df.exp(-b))
      both{ a, b, c, c * a - b, df.add_n{ a, b, c, x } }
    end
  end)

  it('give the bits of the ops one by one in three dims, and of other dtypes', function()
    local n = 0
    for _, dtype in ipairs{ 'float32', 'float64', 'int32', 'int64' } do
      local x = df.cast(df.constant(support.tensor({ 6, 5, 70 }, -9, 9, 'float32', 6)), dtype)
      local row = df.cast(df.constant(support.tensor({ 70 }, -9, 9, 'float32', 7)), dtype)
      local plane = df.cast(df.constant(support.tensor({ 5, 70 }, -9, 9, 'float32', 8)), dtype)
      local column = df.cast(df.constant(support.tensor({ 6, 5, 1 }, -9, 9, 'float32', 9)), dtype)
      local outer = df.cast(df.constant(support.tensor({ 6, 1, 1 }, -9, 9, 'float32', 10)), dtype)
      local middle = df.cast(df.constant(support.tensor({ 1, 5, 1 }, -9, 9, 'float32', 11)), dtype)
      local y = df.maximum(x * row, plane) - column
      local p = y:gt(x):logical_or((y * outer):lt(row))
      both{ y, y * outer + x, df.where(p, y, x * y) + middle, df.add_n{ y, x, y } }
      n = n + 1
    end
    assert.equal(4, n)
  end)

  it('of special numbers, too', function()
    local list = {}
    for i = 1, 600 do list[i] = ({ 0, -0.0, 1 / 0, -1 / 0, 0 / 0, 1e38, -1e-40, 3 })[i % 8 + 1] end
    local x = df.constant(df.tensor(list, 'float32'))
    local a = df.tanh(x) * df.sigmoid(x)
    both{ a, df.exp(a) - x * x, df.where(df.is_nan(a), x, a), df.relu(x) + df.leaky_relu(x) }
  end)

  host_it('do not write between what they make', function()
    local x = df.Variable(df.fill({ 64, 1024 }, df.float32(0.25)))
    local y = df.reduce_sum(df.tanh(x) * df.sigmoid(x) + df.exp(-x * x))
    local one = 64 * 1024 * 4
    local s = df.Session()
    s:run(y)
    local function needed(options)
      df.reset_peak_memory()
      local before = s:stats().memory['cpu:0'].in_use
      s:start(y, nil, options):wait()
      return s:stats().memory['cpu:0'].peak - before
    end
    assert.is_true(needed{} < 1.6 * one)
    assert.is_true(needed{ values = true } > 3 * one)
  end)

  it('leave alone what others read', function()
    local x = df.Variable(support.tensor({ 600 }, -1, 1, 'float32', 12))
    local a = x * 2
    local b, c = a + 1, a * a
    local sum = df.reduce_sum(a)
    local d = c - b
    both{ a, b, c, d, sum, x + 0 }
    local w = df.constant(support.tensor({ 600 }, -1, 1, 'float32', 13))
    local m = df.reshape(df.matmul(df.reshape(w, { 600, 1 }), df.fill({ 1, 1 }, df.float32(3))), { 600 })
    local e = m + 1
    both{ e * m, df.reduce_sum(e), e - m }
  end)

  it('are the same in loops and conds, and in their gradients', function()
    local x = df.placeholder('float32', { 30, 20 })
    local w = df.Variable(support.tensor({ 20, 20 }, -0.3, 0.3, 'float32', 14))
    local n = df.placeholder('int32', {})
    local function body(i, h, c)
      local z = df.tanh(df.matmul(h, w) + c)
      local even = (i % 2):eq(0)
      local g = df.cond(even, function() return z * c + df.sigmoid(z) * 2 end, function() return df.exp(-z) - c * 0.5 end)
      return i + 1, g * 0.1 + z, c * df.sigmoid(g) - 0.01
    end
    local _, h, c = df.while_loop(function(i) return i:lt(n) end, body, { df.int32(0), x, x * 0.5 })
    local loss = df.reduce_sum(df.square(h) + c)
    local gx, gw = df.unpack(df.gradients(loss, { x, w }))
    local feed = support.tensor({ 30, 20 }, -1, 1, 'float32', 15)
    local s = df.Session{ threads = 2 }
    for _, trips in ipairs{ 0, 1, 2, 5, 40 } do both({ h, c, loss, gx, gw }, { [x] = feed, [n] = trips }, s) end
    local feeds = { [x] = feed, [n] = 6 }
    assert.equal(counted({ loss, gx, gw }, feeds, { values = true }), counted({ loss, gx, gw }, feeds, {}))
  end)

  it('report an error of shapes as the op alone does', function()
    local a, b = df.placeholder('float32', { -1, -1 }), df.placeholder('float32', { -1, -1 })
    local y = df.exp(a) * 2
    local z = df.sigmoid(y - b)
    local s = df.Session()
    local first, second = support.tensor({ 30, 20 }, -1, 1, 'float32'), support.tensor({ 20, 30 }, -1, 1, 'float32')
    local ok, e = pcall(s.run, s, z * y, { [a] = first, [b] = second })
    assert.is_false(ok)
    assert.truthy(tostring(e):find('in op Sub', 1, true))
    assert.truthy(tostring(e):find('float32[30,20] and float32[20,30] do not broadcast', 1, true))
    both({ z, y }, { [a] = first, [b] = support.tensor({ 1, 20 }, -1, 1, 'float32') }, s)
    both({ z, z * y }, { [a] = support.tensor({ 1, 1 }, -1, 1, 'float32'), [b] = second }, s)
    both({ z, z * y }, { [a] = df.tensor({}, 'float32'):reshape{ 0, 4 }, [b] = df.tensor({}, 'float32'):reshape{ 0, 4 } }, s)
  end)

  it('refuse what the op alone refuses: a sum of several wants one shape', function()
    local a, b = df.placeholder('float32', { -1, -1 }), df.placeholder('float32', { -1, -1 })
    local y = df.exp(df.add_n{ a * 2, b })
    local s = df.Session()
    local feed = support.tensor({ 30, 20 }, -1, 1, 'float32')
    for _, shape in ipairs{ { 1, 20 }, { 30, 1 }, { 1, 1 } } do
      local ok, e = pcall(s.run, s, y, { [a] = feed, [b] = support.tensor(shape, -1, 1, 'float32') })
      assert.is_false(ok)
      assert.truthy(tostring(e):find('they must have one shape', 1, true))
    end
    both({ y }, { [a] = feed, [b] = feed }, s)
  end)

  it('can be stopped between, looked at and stepped', function()
    local x = df.Variable(support.tensor({ 500 }, -1, 1, 'float32', 16))
    local w = df.Variable(support.tensor({ 500, 500 }, -0.1, 0.1, 'float32', 17))
    local function body(i, v)
      local u = df.tanh(v) * 2
      local far = df.reshape(df.matmul(df.expand_dims(v, 0), w), { 500 })
      return i + 1, df.sigmoid(u + far) - u * 0.25
    end
    local _, y = df.while_loop(function(i) return i:lt(12) end, body, { df.int32(0), x })
    local s = df.Session()
    local whole = s:run(y)
    for _, steps in ipairs{ 3, 17, 40, 77 } do
      local h = s:start(y, nil, { paused = true })
      for _ = 1, steps do h:step() end
      h:frames()
      h:resume()
      assert.same(bits(whole), bits(h:wait()))
    end
    local h = s:start(y, nil, {})
    for _ = 1, 20 do h:pause() h:frames() h:resume() end
    assert.same(bits(whole), bits(h:wait()))
  end)

  it('do not keep a queue waiting for what it has to give first', function()
    local q = df.FIFOQueue(4, { 'float32' }, { shapes = { { 400 } } })
    local a = df.constant(support.tensor({ 400 }, -1, 1, 'float32', 18)) * 2
    local put = q:enqueue(a)
    local y = a + q:dequeue()
    local got = df.run({ y, put })
    assert.same(bits(df.run(a * 2)), bits(got[1]))
  end)
end)
