--- Elementwise ops that hang together are computed in one pass: the numbers, errors and tokens are those of the ops one by one.
-- run: first
local df = require 'dflow'
local support = require 'spec.support'
local waits = require 'spec.random_waits'

local bits = support.bits

--- The values as they are, and as they are where every value is kept, so that each op runs alone; they have to be equal.
local function both(ys, feeds, session)
  local function fresh() return session or df.Session{ threads = 2 } end     -- which draws the same numbers
  local together = fresh():run(ys, feeds)
  local alone = fresh():start(ys, feeds, { values = true }):wait()
  assert.same(bits(alone), bits(together))
  return together
end

local function counted(ys, feeds, options)
  local s = df.Session{ simplify = false }           -- a run that keeps its values is that of the graph as it is written
  local h = s:start(ys, feeds, options)
  h:wait()
  local c = s:stats()
  s:close()
  return ('%d nodes, %d dead, %d iterations'):format(c.nodes_run, c.dead_tokens, c.iterations)
end

local host_it = support.host_it(it, pending)

describe('elementwise ops that hang together', function()
  it('are no group where what one of them waits for waits for another, by a control edge or a branch', function()
    local p = df.placeholder('float32', { 300 })
    local y = df.sin(df.cumsum(df.cumsum(df.cumsum(p))))
    local after
    df.control_dependencies({ df.identity(y) }, function() after = df.cumsum(p) end)
    local up = df.reduce_sum(y):gt(-1e9)
    local function drawn() return df.random_uniform({ 300 }, { seed = 3 }) end
    local function filled() return df.fill({ 300 }, df.float32(2.5)) end
    both({ y * after + 1, y * df.cond(up, drawn, drawn) + 1, y * df.cond(up, filled, drawn) + 1 },
      { [p] = support.tensor({ 300 }, -1, 1, 'float32') })
  end)

  it('give the bits of the ops one by one, however values wait for each other', function()
    for seed = 1, 60 do
      df.reset()
      both(waits(seed))
    end
  end)

  it('may be a sum of one value', function()
    local x = df.placeholder('float32', { 300, 40 })
    both({ df.add_n({ x }) * 2 + 1, df.add_n({ df.tanh(x) }) / df.add_n({ x, x }) }, { [x] = support.tensor({ 300, 40 }, 1, 2, 'float32') })
  end)

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

  host_it('have a bias of the last axis among them, of any other axis or shape beside them', function()
    local x = df.Variable(support.tensor({ 2, 16, 32, 64 }, -1, 1, 'float32', 1))
    local b = df.constant(support.tensor({ 64 }, -1, 1, 'float32', 2))
    local late, kernel = df.placeholder('float32', { -1 }), df.constant(support.tensor({ 1, 1, 64, 64 }, -1, 1, 'float32', 3))
    local function clipped(v) return df.minimum(df.maximum(v, -0.5), 0.5) end
    local y = clipped(df.bias_add(df.tanh(x), b))
    local across = clipped(df.bias_add(x, df.slice(b, { 1 }, { 16 }), { data_format = 'NCHW' }))
    local open = clipped(df.bias_add(x, late))
    local convolved = clipped(df.bias_add(df.conv2d(x, kernel, { strides = { 1, 1, 1, 1 }, padding = 'SAME' }), b))
    both({ y, across, open, convolved }, { [late] = support.tensor({ 64 }, -1, 1, 'float32', 4) })
    assert.has_error(function() df.run(open, { [late] = { 1 } }) end)          -- where a row of one element would be added
    local one, s = 2 * 16 * 32 * 64 * 4, df.Session()
    local total = df.reduce_sum(y)
    s:run(total)
    df.reset_peak_memory()
    local before = s:stats().memory['cpu:0'].in_use
    s:run(total)
    assert.is_true(s:stats().memory['cpu:0'].peak - before < 1.6 * one)
    s:close()
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

  it('have the rank of the largest where another, of as many elements, has fewer axes and could hold the result', function()
    local x, b = df.placeholder('float32', { -1, 300 }), df.placeholder('float32', { 300 })
    local y = df.tanh(x) + df.reverse(b, { 0 })
    local feed = { [x] = support.tensor({ 1, 300 }, -1, 1, 'float32'), [b] = support.tensor({ 300 }, -1, 1, 'float32', 2) }
    for _, v in ipairs(both({ y, y * 2, df.square(y) - y, df.gradients(y * y, x) }, feed)) do assert.same({ 1, 300 }, v.shape) end
    local one = df.constant(support.tensor({ 1, 1, 400 }, -1, 1, 'float32', 3))
    local z = df.exp(one) * df.reverse(df.constant(support.tensor({ 1, 400 }, -1, 1, 'float32', 4)), { 1 })
    for _, v in ipairs(both{ z, z + 1 }) do assert.same({ 1, 1, 400 }, v.shape) end
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
    local e = support.error_of(s.run, s, z * y, { [a] = first, [b] = second })
    assert.truthy(tostring(e):find('in op Sub', 1, true))
    assert.truthy(tostring(e):find('cannot be broadcast: float32[30,20] and float32[20,30]', 1, true))
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
      local e = support.error_of(s.run, s, y, { [a] = feed, [b] = support.tensor(shape, -1, 1, 'float32') })
      assert.truthy(tostring(e):find('takes tensors of one shape', 1, true))
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

describe('folds, softmax and elementwise ops of one set of rows', function()
  --- Largest while a run of `ys` goes on, beside what there was before.
  local function peak(s, ys, options)
    df.reset_peak_memory()
    local before = s:stats().memory['cpu:0'].in_use
    s:start(ys, nil, options):wait()
    return s:stats().memory['cpu:0'].peak - before
  end

  local function norm(x, axis, keep)
    local mean = df.reduce_mean(x, { axis = axis, keep_dims = true })
    local d = x - mean
    local y = d * df.rsqrt(df.reduce_mean(df.square(d), { axis = axis, keep_dims = true }) + 1e-5)
    return y, df.reduce_sum(y * x, { axis = axis, keep_dims = keep })
  end

  it('give the bits of the ops one by one, whatever the rows, and so do their gradients', function()
    for i, dims in ipairs{ { 1, 300 }, { 300, 2 }, { 70, 7 }, { 41, 16 }, { 7, 41, 33 }, { 9, 255 }, { 9, 256 }, { 5, 1024 },
                           { 3, 1025 }, { 3, 2500 }, { 2, 8192 }, { 2, 8193 }, { 33, 100, 5 } } do
      local x = df.Variable(support.tensor(dims, -3, 3, i % 2 == 0 and 'float64' or 'float32', i))
      local y, sums = norm(x, #dims - 1, i % 3 == 0)
      local e = df.exp(x - df.reduce_max(x, { axis = #dims - 1, keep_dims = true }))
      local softmax = e / df.reduce_sum(e, { axis = #dims - 1, keep_dims = true })
      local all, total = norm(x, #dims == 3 and { 1, 2 } or { -1 }, false)
      local grads = df.gradients({ df.square(sums), softmax * y, df.square(total) * 0.5 }, x)
      both{ y, sums, softmax, all, total, grads, df.reduce_logsumexp(x * 2, { axis = -1 }) * 2, df.softmax(y * 3) - y }
    end
  end)

  host_it('write nothing between what they read and what they make', function()
    local x = df.Variable(df.random_uniform({ 512, 700 }))
    local y = df.reduce_sum(df.square((norm(x, 1))), { axis = 1 })
    local s, one = df.Session(), 512 * 700 * 4
    s:run(y)
    assert.is_true(peak(s, y, {}) < 0.1 * one)
    assert.is_true(peak(s, y, { values = true }) > 2 * one)
  end)

  it('of other dtypes, products, minima and all that is true of a row, too', function()
    for _, dtype in ipairs{ 'int32', 'int64', 'float32', 'float64' } do
      local x = df.cast(df.constant(support.tensor({ 60, 45 }, -9, 9, 'float32', 6)), dtype)
      local low, high = df.reduce_min(x * 2, { axis = 1, keep_dims = true }), df.reduce_max(x + 1, { axis = 1 })
      local all = df.reduce_all((x * x):gt(low), { axis = 1, keep_dims = true })
      local any = df.reduce_any((x - low):lt(x), { axis = 1 })
      both{ x - low, high * 2, all:logical_and(x:gt(low)), any:logical_not(), df.reduce_prod(x + x, { axis = { 1 } }) + high,
            df.reduce_sum(df.where(all:logical_or(x:lt(0)), x, x * 3), { axis = 1 }) }
    end
  end)

  it('meet values with one element a row from elsewhere, rows, numbers, and what has as many rows as columns', function()
    for _, n in ipairs{ 40, 300 } do
      local x = df.constant(support.tensor({ n, n }, -3, 3, 'float32', 1))
      local one, column = df.constant(support.tensor({ n }, -1, 1, 'float32', 2)), df.constant(support.tensor({ n, 1 }, -1, 1, 'float32', 3))
      local sum = df.reduce_sum(x * one, { axis = 1 })                      -- [n]
      local kept = df.reduce_sum(x * column, { axis = 1, keep_dims = true })      -- [n, 1]
      local a, b = sum * one + 2, kept * column - 1
      both{ a, b, x + one, x * sum, x * a, x - b, a + b, df.expand_dims(a, 1) * x, df.reshape(b, { n }) * a, df.add_n{ a, sum, one },
            df.add_n{ kept, b } * x, df.maximum(b, kept) / df.float32(3) + x, one * b }
    end
  end)

  it('with axes in front of a batch that is not known, and none in it', function()
    local x = df.placeholder('float32', { -1, -1, 64 })
    local y, sums = norm(x, 2, false)
    local g = df.gradients(df.reduce_sum(sums * sums), x)
    local s = df.Session{ threads = 2 }
    for _, dims in ipairs{ { 1, 1, 64 }, { 3, 5, 64 }, { 1, 90, 64 }, { 90, 1, 64 }, { 0, 4, 64 }, { 300, 11, 64 } } do
      both({ y, sums, g }, { [x] = support.tensor(dims, -2, 2, 'float32', 4) }, s)
    end
  end)

  it('are cut where a row of each result would not fit, and the parts are right', function()
    local x = df.Variable(support.tensor({ 4, 8000 }, -1, 1, 'float64', 5))
    local y, all = x, {}
    for i = 1, 12 do
      local sum = df.reduce_mean(y, { axis = 1, keep_dims = i % 2 == 0 })
      y = df.tanh(y) * 0.5 + (i % 2 == 0 and sum or df.expand_dims(sum, -1)) * x
      all[i] = sum * 2
    end
    all[#all + 1] = y
    both(all)
  end)

  it('in loops, with what a body makes of its rows', function()
    local x = df.Variable(support.tensor({ 50, 40 }, -1, 1, 'float32', 7))
    local _, h, s = df.while_loop(function(i) return i:lt(6) end, function(i, h, s)
      local m = df.reduce_max(h, { axis = 1, keep_dims = true })
      local e = df.exp(h - m) * df.sigmoid(s)
      local sum = df.reduce_sum(e, { axis = 1, keep_dims = true })
      return i + 1, e / sum + x, s * 0.5 + sum
    end, { df.int32(0), x, df.zeros({ 50, 1 }) })
    both{ h, s, df.gradients(df.reduce_sum(h * h) + df.reduce_sum(s), x) }
  end)

  it('refuse shapes as the op alone does', function()
    local x, b = df.placeholder('float32', { -1, 30 }), df.placeholder('float32', { -1, 1 })
    local sum = df.reduce_sum(df.exp(x), { axis = 1, keep_dims = true })
    local y = x * (sum + b)
    local s = df.Session()
    local feed = support.tensor({ 40, 30 }, -1, 1, 'float32')
    local e = support.error_of(s.run, s, y, { [x] = feed, [b] = support.tensor({ 41, 1 }, -1, 1, 'float32') })
    assert.truthy(tostring(e):find('cannot be broadcast: float32[40,1] and float32[41,1]', 1, true))
    both({ y, sum }, { [x] = feed, [b] = support.tensor({ 40, 1 }, -1, 1, 'float32') }, s)
    both({ y, sum }, { [x] = feed, [b] = support.tensor({ 1, 1 }, -1, 1, 'float32') }, s)
    both({ y, sum }, { [x] = support.tensor({ 1, 30 }, -1, 1, 'float32'), [b] = support.tensor({ 40, 1 }, -1, 1, 'float32') }, s)
  end)

  it('have the shapes that are asked for when they run, however alike these look before', function()
    local x, to = df.placeholder('float32', { -1, -1, 300 }), df.placeholder('int32', { 2 })
    local sum = df.reduce_sum(df.tanh(x), { axis = -1 })
    local y = df.reshape(sum, to) * 2
    local s, feed = df.Session(), support.tensor({ 2, 3, 300 }, -1, 1, 'float32')
    for _, shape in ipairs{ { 3, 2 }, { 6, 1 }, { 2, 3 } } do
      assert.same(shape, both({ y, sum }, { [x] = feed, [to] = shape }, s)[1].shape)
    end
    local e = support.error_of(s.run, s, y, { [x] = feed, [to] = { 6, 2 } })
    assert.truthy(tostring(e):find('float32[2,3] has 6 elements, but the shape [6,2] has 12', 1, true))

    local v, n = df.placeholder('float32', { -1, 300 }), df.placeholder('int32', {})
    local shape = df.stack{ n, 300 }
    local _, total = df.while_loop(function(i) return i:lt(3) end, function(i, total)
      local one = df.reduce_sum(df.tanh(v), { axis = 1, keep_dims = true })
      return i + 1, total + df.reduce_sum(df.broadcast_to(one, shape) * 2)
    end, { df.int32(0), df.float32(0) })
    both({ total }, { [v] = support.tensor({ 1, 300 }, -1, 1, 'float32'), [n] = 7 }, s)

    local none, rows = df.placeholder('float32', { -1, 0, 300 }), df.placeholder('int32', { 2 })
    local empty = df.shape(df.reshape(df.reduce_max(none * 2, { axis = 2 }), rows) + 1)
    assert.same({ 7, 0 }, s:run(empty, { [none] = df.run(df.zeros{ 2, 0, 300 }), [rows] = { 7, 0 } }):totable())
  end)

  it('do in random programs what the ops do one by one', function()
    assert.equal(0, require 'spec.random_rows'.differences(df, 1, 210))
  end)

  it('of special numbers: NaN and infinities fold as they do alone', function()
    local list = {}
    for i = 1, 1200 do list[i] = ({ 0, -0.0, 1 / 0, -1 / 0, 0 / 0, 1e38, -1e-40, 3 })[(i + math.floor(i / 100)) % 8 + 1] end
    local x = df.reshape(df.constant(df.tensor(list, 'float32')), { 300, 4 })
    local a = x * 2 - 1
    local top = df.reduce_max(a, { axis = 1, keep_dims = true })
    both{ a - top, df.softmax(a) * 2, df.log_softmax(a) + top, df.reduce_sum(a, { axis = 1 }) * 3, df.reduce_min(-a, { axis = 1 }) + 0 }
  end)
end)

describe('folds over axes in front, and elementwise ops before them', function()
  it('give the bits of the ops one by one, whatever the shapes', function()
    for i, dims in ipairs{ { 1, 300 }, { 2, 128 }, { 127, 32 }, { 128, 33 }, { 129, 100 }, { 255, 1024 }, { 256, 257 }, { 257, 256 },
                           { 700, 33 }, { 3000, 40 }, { 40, 5000 }, { 3, 9, 64 }, { 33, 5, 7, 40 }, { 5, 30, 1, 32 }, { 300, 2500 },
                           { 40, 31 }, { 9000, 300 } } do
      local dtype = i % 2 == 0 and i < 10 and 'float64' or 'float32'
      local x = df.Variable(support.tensor(dims, -3, 3, dtype, i))
      local row = df.constant(support.tensor({ dims[#dims] }, -1, 1, dtype, i + 1))
      local a = df.tanh(x) * row + x
      local axes = {}
      for d = 1, #dims - 1 do axes[d] = d - 1 end
      both{ df.reduce_sum(a, { axis = axes }), df.reduce_mean(a * x, { axis = axes, keep_dims = true }),
            df.reduce_max(a - row, { axis = axes }) * 2, df.reduce_min(df.square(x) + 1, { axis = 0 }),
            df.reduce_sum(a * 2, { axis = 0, keep_dims = true }) + 1 }
    end
  end)

  it('of other dtypes and special numbers', function()
    for _, dtype in ipairs{ 'int32', 'int64', 'float32', 'float64' } do
      local x = df.cast(df.constant(support.tensor({ 300, 45 }, -9, 9, 'float32', 6)), dtype)
      both{ df.reduce_sum(x * 2, { axis = 0 }), df.reduce_prod(x + 1, { axis = 0 }), df.reduce_min(x * x - 3, { axis = 0 }),
            df.reduce_all((x + 1):gt(-20), { axis = 0 }), df.reduce_any((x * 3):lt(-26), { axis = 0, keep_dims = true }),
            df.reduce_max(-x, { axis = 0 }) }
    end
    local list = {}
    for i = 1, 9000 do list[i] = ({ 0, -0.0, 1 / 0, -1 / 0, 0 / 0, 1e38, -1e-40, 3 })[(i * i + math.floor(i / 100)) % 8 + 1] end
    local x = df.reshape(df.constant(df.tensor(list, 'float32')), { 150, 60 })
    both{ df.reduce_sum(x * 2, { axis = 0 }), df.reduce_max(x + 1, { axis = 0 }), df.reduce_mean(-x, { axis = 0 }) }
  end)

  it('are the gradients of biases and the statistics of batches', function()
    for _, rows in ipairs{ 5, 64, 300 } do
      df.reset()
      local x, w = df.Variable(support.tensor({ rows, 20 }, -1, 1, 'float32', 1)), df.Variable(support.tensor({ 20, 96 }, -1, 1, 'float32', 2))
      local b, scale = df.Variable(support.tensor({ 96 }, -1, 1, 'float32', 3)), df.Variable(support.tensor({ 96 }, 0.5, 2, 'float32', 4))
      local h = df.matmul(x, w) + b
      local mean = df.reduce_mean(h, { axis = 0 })
      local d = h - mean
      local y = d * df.rsqrt(df.reduce_mean(df.square(d), { axis = 0, keep_dims = true }) + 1e-5) * scale + b
      local z = df.relu(df.bias_add(y, b))
      both{ y, df.gradients(df.reduce_sum(df.square(z) * z), { b, scale, w, x }) }
    end
  end)

  it('beside folds of rows, as in the gradient of a layer norm', function()
    for i, dims in ipairs{ { 40, 300 }, { 130, 64 }, { 700, 33 }, { 9, 30, 50 }, { 500, 1500 }, { 3, 8000 } } do
      df.reset()
      local x = df.Variable(support.tensor(dims, -1, 1, i % 2 == 0 and 'float64' or 'float32', 1))
      local scale = df.Variable(support.tensor({ dims[#dims] }, 0.5, 2, i % 2 == 0 and 'float64' or 'float32', 4))
      local d = x - df.reduce_mean(x, { axis = -1, keep_dims = true })
      local y = d * df.rsqrt(df.reduce_mean(df.square(d), { axis = -1, keep_dims = true }) + 1e-5) * scale + scale * 0.5
      both{ y, df.gradients(df.reduce_sum(df.tanh(y) * y), { x, scale }) }
    end
  end)

  it('with a batch that is not known, none in it, and what broadcasts otherwise than it looked', function()
    local x, y = df.placeholder('float32', { -1, 64 }), df.placeholder('float32', { -1, 64 })
    local sum, top = df.reduce_sum(df.tanh(x) * y, { axis = 0 }), df.reduce_max(df.exp(x), { axis = 0, keep_dims = true })
    local s = df.Session{ threads = 2 }
    for _, n in ipairs{ 1, 2, 128, 129, 1000, 0 } do
      local feed = { [x] = support.tensor({ n, 64 }, -2, 2, 'float32', 4), [y] = support.tensor({ n, 64 }, -2, 2, 'float32', 5) }
      both({ sum, top, sum * 2 + top }, feed, s)
      feed[y] = support.tensor({ 1, 64 }, -2, 2, 'float32', 5)
      if n > 0 then both({ sum, top }, feed, s) end
    end
  end)

  host_it('write nothing between what they read and what they make', function()
    local x = df.Variable(df.random_uniform({ 2000, 200 }))
    local y = df.reduce_sum(df.square(df.tanh(x) * 2 - 1), { axis = 0 })
    local s, one = df.Session(), 2000 * 200 * 4
    s:run(y)
    local function peak(options)
      df.reset_peak_memory()
      local before = s:stats().memory['cpu:0'].in_use
      s:start(y, nil, options):wait()
      return s:stats().memory['cpu:0'].peak - before
    end
    assert.is_true(peak{} < 0.1 * one)
    assert.is_true(peak{ values = true } > 2 * one)
  end)

  it('in loops, conds and their gradients', function()
    local x, n = df.Variable(support.tensor({ 20, 40 }, -1, 1, 'float32', 7)), df.placeholder('int32', {})
    local w, b = df.Variable(support.tensor({ 40, 40 }, -0.3, 0.3, 'float32', 8)), df.Variable(support.tensor({ 40 }, -1, 1, 'float32', 9))
    local _, h, s = df.while_loop(function(i) return i:lt(n) end, function(i, h, s)
      local z = df.tanh(df.matmul(h, w) + b)
      local top = df.cond((i % 2):eq(0), function() return df.reduce_max(df.exp(z) * 2, { axis = 0 }) end, function() return s end)
      return i + 1, z * 0.5 + x, s * 0.5 + top
    end, { df.int32(0), x, df.zeros({ 40 }) })
    local g = df.gradients(df.reduce_sum(h * h) + df.reduce_sum(s), { x, w, b })
    for _, trips in ipairs{ 0, 1, 2, 9, 60 } do both({ h, s, g }, { [n] = trips }) end
  end)
end)

describe('a product that is added to something', function()
  --- sum over trips of a b, whose a or b may be stored transposed, and which is added to what `start` holds.
  local function summed(m, n, k, how, start, first)
    local seed = m + 3 * n + 7 * k
    local a = df.Variable(support.tensor(how.transpose_a and { k, m } or { m, k }, -1, 1, 'float32', seed))
    local b = df.Variable(support.tensor(how.transpose_b and { n, k } or { k, n }, -1, 1, 'float32', seed + 1))
    local _, sum = df.while_loop(function(i) return i:lt(4) end, function(i, sum)
      local f = df.cast(i, 'float32') + 0.5
      return i + 1, first and df.matmul(a * f, b, how) + sum or sum + df.matmul(a * f, b, how)
    end, { df.int32(0), start or df.Variable(support.tensor({ m, n }, -1, 1, 'float32', seed + 2)) })
    return sum
  end

  it('gives the bits of the two ops, whatever the sizes and sides', function()
    for _, d in ipairs{ { 5, 2, 1 }, { 8, 32, 16 }, { 9, 33, 7 }, { 31, 47, 90 }, { 64, 64, 64 }, { 256, 512, 32 }, { 130, 70, 191 }, { 130, 70, 193 },
                        { 100, 500, 128 }, { 4, 8, 8 }, { 8, 1, 8 }, { 40, 300, 300 }, { 600, 500, 20 }, { 6, 5, 0 } } do
      for which = 0, 7 do
        df.reset()
        both{ summed(d[1], d[2], d[3], { transpose_a = which % 2 == 1, transpose_b = which % 4 > 1 }, nil, which > 3) }
      end
    end
  end)

  it('so do the gradients of weights, with windows, conds and what else reads the product', function()
    local x = df.placeholder('float32', { 24, 40 })
    local w, n = df.Variable(support.tensor({ 40, 40 }, -0.3, 0.3, 'float32', 1)), df.placeholder('int32', {})
    for _, window in ipairs{ 1, 10 } do
      local _, h, seen = df.while_loop(function(i) return i:lt(n) end, function(i, h, seen)
        local product = df.matmul(h, w)
        local z = df.cond((i % 3):eq(1), function() return df.tanh(product) end, function() return h * 0.5 + df.matmul(h, w) end)
        return i + 1, z, seen + product
      end, { df.int32(0), x, df.zeros({ 24, 40 }) }, { parallel_iterations = window })
      local g = df.gradients(df.reduce_sum(h * h) + df.reduce_sum(seen), { x, w })
      for _, trips in ipairs{ 0, 1, 2, 7 } do both({ h, seen, g }, { [x] = support.tensor({ 24, 40 }, -1, 1, 'float32', 2), [n] = trips }) end
    end
  end)

  it('leaves alone what others read, and what is not the sum of that shape', function()
    local v = df.Variable(support.tensor({ 20, 30 }, -1, 1, 'float32', 3))
    local a, b = df.Variable(support.tensor({ 20, 8 }, -1, 1, 'float32', 4)), df.Variable(support.tensor({ 8, 30 }, -1, 1, 'float32', 5))
    local kept = df.reshape(v * 2, { 20, 30 })
    local row = df.reduce_sum(v, { axis = 0 })
    local before = df.run(v):totable()
    both{ kept + df.matmul(a, b), kept, row + df.matmul(a, b), df.matmul(a, b) + df.matmul(a, b), v + df.matmul(a, b) }
    assert.same(before, df.run(v):totable())
    local square = df.matmul(df.reshape(v, { 30, 20 }), v)
    both{ square + df.matmul(square, square) }
  end)

  host_it('takes no memory for the product', function()
    local one = 256 * 512 * 4
    local zero = df.fill({ 256, 512 }, df.float32(0.5))
    local y = df.reduce_sum(summed(256, 512, 32, { transpose_a = true }, zero * 2))
    local s = df.Session()
    s:run(y)
    local function needed(options)
      df.reset_peak_memory()
      local before = s:stats().memory['cpu:0'].in_use
      s:start(y, nil, options):wait()
      return s:stats().memory['cpu:0'].peak - before
    end
    assert.is_true(needed{} < 2.5 * one)
  end)

  it('is stopped between, and refuses shapes as the op alone does', function()
    local y = summed(64, 48, 16, {})
    local s = df.Session()
    local whole = s:run(y)
    for _, steps in ipairs{ 5, 11, 23 } do
      local h = s:start(y, nil, { paused = true })
      for _ = 1, steps do h:step() end
      h:frames()
      h:resume()
      assert.same(bits(whole), bits(h:wait()))
    end
    local a, c = df.placeholder('float32', { -1, 8 }), df.placeholder('float32', { -1, 8 })
    local z = (c * 2) + df.matmul(a, df.fill({ 8, 8 }, df.float32(1)))
    local e = support.error_of(s.run, s, z, { [a] = support.tensor({ 6, 8 }, -1, 1, 'float32'), [c] = support.tensor({ 7, 8 }, -1, 1, 'float32') })
    assert.truthy(tostring(e):find('cannot be broadcast', 1, true))
    local ok2, e2 = pcall(df.run, df.matmul(a, c) + c, { [a] = support.tensor({ 6, 8 }, -1, 1, 'float32'), [c] = support.tensor({ 7, 8 }, -1, 1, 'float32') })
    assert.is_false(ok2)
    assert.truthy(tostring(e2):find('in op MatMul', 1, true))
  end)
end)
