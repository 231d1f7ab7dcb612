-- Graph functions: called like Lua functions, as deep as the data say, and differentiated through that.
local df = require 'dflow'
local ordered_it = require('spec.support').ordered_it(it, pending)
local near = require('spec.support').near
local fibonacci = require('spec.support').fibonacci

local fails = require('spec.support').says

--- d y / d x by central differences, for a scalar x.
local function slope(y, x, at, feeds)
  local function f(v)
    local all = {}
    for k, u in pairs(feeds or {}) do all[k] = u end
    all[x] = df.tensor(v, x.dtype)
    return df.run(y, all)
  end
  local h = 1e-5
  return (f(at + h) - f(at - h)) / (2 * h)
end

describe('a function that many graphs have called', function()
  it('keeps none of them alive', function()
    local graphs, f = setmetatable({}, { __mode = 'k' }), df.func('f', { 'float32' }, function(x) return { a = x * 2, b = { x } } end)
    for _ = 1, 10 do
      local g = df.Graph()
      graphs[g] = true
      g:as_default(function() assert.equal(2, df.run(f(df.float32(1)).a)) end)
    end
    for _ = 1, 3 do collectgarbage() end
    assert.is_nil(next(graphs))
  end)
end)

describe('a graph function', function()
  it('calls itself', function()
    local fib = fibonacci()
    assert.are.equal(610, df.run(fib(15)))
    local n = df.placeholder('int32', {})
    local y = fib(n)
    assert.are.equal(1, df.run(y, { [n] = 1 }))
    assert.are.equal(55, df.run(y, { [n] = 10 }))
  end)

  it('is built once, when it is first called', function()
    local built = 0
    local f = df.func('f', { 'float32' }, function(x) built = built + 1 return x * 2 end)
    assert.are.equal(0, built)
    local y = f(f(3.0))
    assert.are.equal(12, df.run(y))
    assert.are.equal(1, built)
    df.reset()
    assert.are.equal(4, df.run(f(2.0)))
    assert.are.equal(2, built)
  end)

  it('has the shape of all results that need no call of itself, and of none where they differ', function()
    for widths, shape in pairs{ [{ 2, 2 }] = { 2 }, [{ 2, 3 }] = { -1 } } do
      local f, inner
      f = df.func('f', { 'int32' }, function(n)
        return df.case({ { n:lt(1), function() return df.zeros{ widths[1] } end }, { n:lt(2), function() return df.ones{ widths[2] } end },
                         default = function() inner = f(n - 2) return inner end })
      end, { returns = { 'float32' } })
      local y = f(df.int32(5), { name = 'called' .. widths[2] })
      assert.same({ shape, shape }, { y.shape, inner.shape })
      assert.equal('called' .. widths[2], y.op.name)
      assert.equal(widths[2], df.run(y).shape[1])
    end
  end)

  it('and another may call each other', function()
    local even, odd
    even = df.func('even', { 'int32' }, function(n)
      return df.cond(n:eq(0), function() return true end, function() return odd(n - 1) end)
    end, { returns = { 'bool' } })
    odd = df.func('odd', { 'int32' }, function(n)
      return df.cond(n:eq(0), function() return false end, function() return even(n - 1) end)
    end, { returns = { 'bool' } })
    assert.is_true(df.run(even(10)))
    assert.is_false(df.run(even(7)))
    assert.is_true(df.run(odd(7)))
  end)

  it('uses what stands outside: constants, placeholders, variables', function()
    local x, c = df.placeholder('float32', { 2 }), df.float32{ 1, 2 }
    local v = df.Variable({ 10.0, 20.0 })
    local f
    f = df.func('f', { 'int32' }, function(n)
      return df.cond(n:le(0), function() return c * 1 end, function() return f(n - 1) + x * v end)
    end, { returns = { 'float32' } })
    near(df.run(f(3), { [x] = { 1, 2 } }), { 31, 122 })
  end)

  it('and those that it calls pass on what any of them uses', function()
    local x, z = df.placeholder('float32', {}), df.placeholder('float32', {})
    local ping, pong
    ping = df.func('ping', { 'int32' }, function(n)
      return df.cond(n:le(0), function() return df.float32(0) end, function() return pong(n - 1) + x end)
    end, { returns = { 'float32' } })
    pong = df.func('pong', { 'int32' }, function(n)
      return df.cond(n:le(0), function() return df.float32(0) end, function() return ping(n - 1) * z end)
    end, { returns = { 'float32' } })
    local y = ping(4)
    assert.are.equal(2 + 2 * 3, df.run(y, { [x] = 2, [z] = 3 }))
    local gx, gz = df.unpack(df.gradients(y, { x, z }))
    assert.are.same({ 1 + 3, 2 }, df.run({ gx, gz }, { [x] = 2, [z] = 3 }))
  end)

  it('takes values, gives several results, or none, in the structure of its body', function()
    local f = df.func('f', { 'float32', 'int32' }, function(a, b) return { sum = a + 1, list = { b, a * a } }, b + 1 end)
    local t, n = f({ 1, 2 }, 3)
    near(df.run(t.sum), { 2, 3 })
    assert.are.equal(3, df.run(t.list[1]))
    assert.are.equal(4, df.run(n))
    local v = df.Variable(1.0)
    local bump = df.func('bump', { 'float32' }, function(by) v:assign_add(by) end)
    local op = bump(2.0)
    assert.is_true(df.run(op))
    assert.are.equal(3, df.run(v))
  end)

  it('is called in loops and branches, and may be first called there', function()
    local fib = fibonacci()
    local _, sum = df.while_loop(function(i) return i:lt(8) end, function(i, s) return i + 1, s + fib(i) end, { df.int32(0), df.int32(0) })
    assert.are.equal(33, df.run(sum))
    local f
    local _, last = df.while_loop(function(i) return i:lt(4) end, function(i, x)
      local here = x * 2
      f = df.func('f', { 'float32' }, function(a) return a + here end)
      return i + 1, f(1.0)
    end, { df.int32(0), df.float32(1) })
    assert.are.equal(1 + 2 * (1 + 2 * (1 + 2 * (1 + 2 * 1))), df.run(last))
    fails(function() f(1.0) end, 'cannot be used outside it')
  end)

  it('runs its side effects in program order', function()
    local v = df.Variable(0.0)
    local count
    count = df.func('count', { 'int32' }, function(n)
      v:assign_add(1)
      local seen = v:value()
      return df.cond(n:le(0), function() return seen end, function() return count(n - 1) + seen * 100 end)
    end, { returns = { 'float32' } })
    assert.are.equal(3 + 200 + 100, df.run(count(2)))
    assert.are.equal(3, df.run(v))
  end)

  it('has a frame for each call', function()
    local before = df.stats().frames
    df.run(fibonacci()(5))
    assert.are.equal(15, df.stats().frames - before)
  end)

  it('ends with an error when it never ends', function()
    local f
    f = df.func('forever', { 'int32' }, function(n) return f(n + 1) end, { returns = { 'int32' } })
    local e = fails(function() df.run(f(0)) end, 'functions call each other more than 20000 deep', 'forever')
    assert.are.equal('resource_exhausted', e.code)
    assert.are.equal(8, df.run(df.int32(3) + 5))
  end)

  it('goes thousands deep, forward and back', function()
    local f
    f = df.func('f', { 'float64', 'int32' }, function(x, n)
      return df.cond(n:le(0), function() return x end, function() return f(x * 1.0001, n - 1) end)
    end, { returns = { 'float64' } })
    local x = df.placeholder('float64', {})
    local y = f(x, 9000)
    near(df.run(df.gradients(y, x), { [x] = df.tensor(1, 'float64') }), 1.0001 ^ 9000, { rtol = 1e-9, atol = 1e-9 })
  end)

  it('runs in the background', function()
    local h = df.start(fibonacci()(12))
    assert.are.equal(144, h:wait())
  end)

  it('says what is wrong with a call', function()
    local f = df.func('f', { 'float32', 'int32' }, function(a, n) return a * df.cast(n, 'float32') end)
    fails(function() f(1.0) end, 'the function f takes 2 arguments, 1 were given')
    fails(function() f(df.int32(1), 2) end, 'argument 1 of the function f is int32, float32 is expected')
    fails(function() f('a', 2) end, 'argument 1 of the function f')
    local g
    g = df.func('g', { 'int32' }, function(n) return g(n) end)
    fails(function() g(1) end, 'calls itself before it is known what it returns', 'returns')
    local h = df.func('h', { 'int32' }, function(n) return n end, { returns = { 'float32' } })
    fails(function() h(1) end, 'result 1 of the function', 'int32', 'float32')
    local k = df.func('k', { 'int32' }, function(n) return n, n end, { returns = { 'int32' } })
    fails(function() k(1) end, 'returns 2 values, but `returns` says 1')
    local inside
    local m = df.func('m', { 'int32' }, function(n) inside = n + 1 return n end)
    m(1)
    fails(function() df.run(inside * 2) end, 'cannot be used outside it: return it')
    local bad = df.func('bad', { 'int32' }, function() error('mine') end)
    fails(function() bad(1) end, 'mine')
    fails(function() df.func('a b', {}, print) end, 'takes a name')
    fails(function() df.func('a', {}) end, 'takes a Lua function')
    fails(function() df.func('a', { 'flot32' }, print) end, 'flot32')
    fails(function() df.func('a', {}, print, { returned = {} }) end, "no option 'returned'")
    assert.are.equal(8, df.run(df.int32(3) + 5))
  end)

  it('knows the shape of what a recursion ends with', function()
    local f
    f = df.func('f', { 'float32', 'int32' }, function(x, n)
      return df.cond(n:le(0), function() return x * 2 end, function() return f(x + 1, n - 1) * x end)
    end, { returns = { 'float32' } })
    assert.are.same({ 2 }, f(df.float32{ 1, 2 }, 3).shape)
    local even, odd
    even = df.func('even', { 'int32' }, function(n)
      return df.cond(n:eq(0), function() return df.zeros{ 4 } end, function() return odd(n - 1) + 1 end)
    end, { returns = { 'float32' } })
    odd = df.func('odd', { 'int32' }, function(n)
      return df.cond(n:eq(0), function() return df.ones{ 4 } end, function() return even(n - 1) end)
    end, { returns = { 'float32' } })
    assert.are.same({ 4 }, even(3).shape)
    near(df.run(even(3)), { 3, 3, 3, 3 })
  end)

  it('is built again where a call has arguments of another shape', function()
    local built = 0
    local total
    total = df.func('total', { 'float32' }, function(x)
      built = built + 1
      local n = df.dim(x, 0)
      return df.cond(n:le(1), function() return df.reduce_sum(x) end, function()
        local half = df.floordiv(n, 2)
        return total(x:slice({ 0 }, df.reshape(half, { 1 }))) + total(x:slice(df.reshape(half, { 1 }), { -1 }))
      end)
    end, { returns = { 'float32' } })
    local y = total(df.float32{ 1, 2, 3, 4, 5 })
    assert.are.equal(15, df.run(y))
    assert.are.equal(3, built)                 -- for {5}, for any size, and for that with results of rank 0
    assert.are.equal(3, df.run(total(df.float32{ 1, 2 })))
    assert.are.equal(3, built)
    local x = df.placeholder('float32', { 3 })
    near(df.run(df.gradients(total(x * x), x), { [x] = { 1, 2, 3 } }), { 2, 4, 6 })
    local f = df.func('f', { 'float32' }, function(a) return a * 2 end)
    assert.are.same({}, f(1.0).shape)
    assert.are.same({ 3 }, df.run(f{ 1, 2, 3 }).shape)
  end)

  it('knows the shapes it is told', function()
    local f = df.func('f', { 'float32' }, function(x)
      assert.are.same({ -1, 3 }, x.shape)
      return df.reduce_sum(x, { axis = 1 })
    end, { shapes = { { -1, 3 } } })
    assert.are.same({ -1 }, f(df.zeros{ 2, 3 }).shape)
  end)
end)

describe('the gradient of a graph function', function()
  it('goes through a recursion, to arguments and what it uses of the outside', function()
    local w, x = df.Variable(0.5, { dtype = 'float64' }), df.placeholder('float64', {})
    local c = df.placeholder('float64', {})
    local f
    f = df.func('f', { 'float64', 'int32' }, function(a, n)
      return df.cond(n:le(0), function() return a * c end, function() return df.sin(a * w) * f(a + c, n - 1) + f(a * 0.5, n - 2) end)
    end, { returns = { 'float64' } })
    local y = f(x, 6)
    local feeds = { [c] = df.tensor(0.7, 'float64'), [x] = df.tensor(2, 'float64') }
    local g = df.run(df.gradients(y, { x, c, w }), feeds)
    near(g[1], slope(y, x, 2, feeds), { rtol = 1e-6, atol = 1e-6 })
    near(g[2], slope(y, c, 0.7, feeds), { rtol = 1e-6, atol = 1e-6 })
    local at = {}
    for i, v in ipairs{ 0.5 + 1e-5, 0.5 - 1e-5 } do
      df.run(w:assign(df.tensor(v, 'float64')))
      at[i] = df.run(y, feeds)
    end
    near(g[3], (at[1] - at[2]) / 2e-5, { rtol = 1e-6, atol = 1e-6 })
  end)

  it('goes through both ways of calling each other', function()
    local x = df.placeholder('float64', {})
    local a, b
    a = df.func('a', { 'float64', 'int32' }, function(u, n)
      return df.cond(n:le(0), function() return u end, function() return b(u * u, n - 1) end)
    end, { returns = { 'float64' } })
    b = df.func('b', { 'float64', 'int32' }, function(u, n)
      return df.cond(n:le(0), function() return u * 3 end, function() return df.exp(-a(u, n - 1)) end)
    end, { returns = { 'float64' } })
    local y = a(x, 5)
    local at = { [x] = df.tensor(0.9, 'float64') }
    near(df.run(df.gradients(y, x), at), slope(y, x, 0.9), { rtol = 1e-6, atol = 1e-6 })
  end)

  it('goes through loops in functions and functions in loops', function()
    local x = df.placeholder('float64', {})
    local inner = df.func('inner', { 'float64', 'int32' }, function(a, n)
      local _, r = df.while_loop(function(i) return i:lt(n) end, function(i, v) return i + 1, df.sin(v) * x + v end, { df.int32(0), a })
      return r
    end)
    local _, y = df.while_loop(function(i) return i:lt(4) end, function(i, v) return i + 1, v * inner(v, i) end, { df.int32(0), x })
    near(df.run(df.gradients(y, x), { [x] = df.tensor(1.1, 'float64') }), slope(y, x, 1.1), { rtol = 1e-6, atol = 1e-6 })
  end)

  it('is zero for what a call does not use, and has several results', function()
    local x, z = df.placeholder('float64', {}), df.placeholder('float64', {})
    local f = df.func('f', { 'float64', 'float64', 'bool' }, function(a, b, p)
      local r = df.cond(p, function() return a * a end, function() return b * 3 end)
      return r, a * b
    end)
    local r, s = f(x, z, true)
    local feeds = { [x] = df.tensor(3, 'float64'), [z] = df.tensor(5, 'float64') }
    assert.are.same({ 6, 0 }, df.run(df.gradients(r, { x, z }), feeds))
    assert.are.same({ 11, 3 }, df.run(df.gradients(r + s, { x, z }), feeds))
    assert.are.same({ 5, 3 }, df.run(df.gradients(s, { x, z }), feeds))
  end)

  it('of a sum over a tree reaches the leaves', function()
    --        0
    --      1   2
    --         3  4
    local left, right = df.int32{ 1, -1, 3, -1, -1 }, df.int32{ 2, -1, 4, -1, -1 }
    local values = df.placeholder('float64', { 5 })
    local sum
    sum = df.func('sum', { 'int32' }, function(i)
      return df.cond(left[i]:lt(0), function() return df.square(values[i]) end, function() return sum(left[i]) * sum(right[i]) + values[i] end)
    end, { returns = { 'float64' } })
    local y = sum(0)
    local v = df.tensor({ 1, 2, 3, 4, 5 }, 'float64')
    assert.are.equal(4 * (16 * 25 + 3) + 1, df.run(y, { [values] = v }))
    near(df.run(df.gradients(y, values) + 0, { [values] = v }), { 1, 4 * 403, 4, 4 * 8 * 25, 4 * 10 * 16 }, { rtol = 1e-9, atol = 1e-9 })
  end)

  it('that calls itself has results of the shape that its ends have, where its calls keep it', function()
    local function shape_of(fn, x)
      local f
      f = df.func('again', { 'float32', 'int32' }, function(v, n)
        return df.cond(n:eq(0), function() return v end, function() return fn(f(v, n - 1), v) end)
      end, { returns = { 'float32' } })
      local y = f(x, 3)
      return y.shape, df.run(y).shape
    end
    for _, case in ipairs{
      { function(y) return y * 2 end, { 2, 3 } },
      { function(y) return df.tanh(df.matmul(y, df.ones{ 3, 3 })) end, { 2, 3 } },
      { function(y) return df.concat({ y, y }, 0) end, { -1, 3 }, { 16, 3 } },
      { function(y, v) return df.concat({ y, v }, 1) end, nil, { 2, 12 } },
    } do
      local known, real = shape_of(case[1], df.ones{ 2, 3 })
      assert.same(case[3] or case[2], real)
      for i, d in ipairs(known or {}) do assert.is_true(d == -1 or d == real[i]) end
      if not case[3] then assert.same(case[2], known) end
    end
  end)

  it('of a Tree-LSTM agrees with finite differences in every weight', function()
    df.set_random_seed(3)
    local size, f = 3, 'float64'
    local left, right = df.int32{ 1, 3, -1, -1, -1 }, df.int32{ 2, 4, -1, -1, -1 }
    local words = df.Variable(df.random_uniform({ 5, size }, { min = -1, max = 1, dtype = f, seed = 1 }))
    local leaf = df.Variable(df.random_uniform({ size, 3 * size }, { min = -1, max = 1, dtype = f, seed = 2 }))
    local node = df.Variable(df.random_uniform({ 2 * size, 5 * size }, { min = -1, max = 1, dtype = f, seed = 3 }))
    local bias = df.Variable(df.random_uniform({ 5 * size }, { min = -1, max = 1, dtype = f, seed = 4 }))
    local tree
    tree = df.func('tree_lstm', { 'int32' }, function(i)
      return df.cond(left[i]:lt(0), function()
        local g = df.split(df.matmul(df.reshape(words[i], { 1, size }), leaf), 3, { axis = 1 })
        local c = df.sigmoid(g[1]) * df.tanh(g[2])
        return df.sigmoid(g[3]) * df.tanh(c), c
      end, function()
        local hl, cl = tree(left[i])
        local hr, cr = tree(right[i])
        local g = df.split(df.matmul(df.concat({ hl, hr }, 1), node) + bias, 5, { axis = 1 })
        local c = df.sigmoid(g[1]) * df.tanh(g[2]) + df.sigmoid(g[3]) * cl + df.sigmoid(g[4]) * cr
        return df.sigmoid(g[5]) * df.tanh(c), c
      end)
    end, { returns = { f, f } })
    assert.same({ 1, size }, (tree(0)).shape)
    local loss = df.reduce_sum(df.square((tree(0))))
    local grads = df.gradients(loss, { words, leaf, node, bias })
    for k, v in ipairs{ words, leaf, node, bias } do
      local g = df.run(grads[k] + 0)
      local at = df.run(v)
      local flat, exact, shape = at:reshape{ -1 }:totable(), g:reshape{ -1 }:totable(), at.shape
      for i = 1, #flat, 4 do
        local was, y = flat[i], {}
        for s, h in ipairs{ 1e-5, -1e-5 } do
          flat[i] = was + h
          df.run(v:assign(df.tensor(flat, f, shape)))
          y[s] = df.run(loss)
        end
        flat[i] = was
        df.run(v:assign(df.tensor(flat, f, shape)))
        near(exact[i], (y[1] - y[2]) / 2e-5, { rtol = 1e-6, atol = 1e-6 })
      end
    end
  end)

  it('trains', function()
    local w = df.Variable(0.1)
    local f
    f = df.func('f', { 'float32', 'int32' }, function(x, n)
      return df.cond(n:eq(0), function() return x end, function() return f(x * w, n - 1) end)
    end, { returns = { 'float32' } })
    local loss = df.square(f(1.0, 3) - 8)
    local step = df.train.Adam(0.1):minimize(loss)
    for _ = 1, 300 do df.run(step) end
    near(df.run(w), 2, { rtol = 1e-2, atol = 1e-2 })
  end)

  ordered_it('keeps nothing where no gradient is fetched', function()
    local x = df.placeholder('float32', {})
    local f = df.func('f', { 'float32' }, function(a) return df.exp(a) * a end)
    local y = f(x)
    local before = df.stats().nodes_run
    df.run(y, { [x] = 1 })
    local plain = df.stats().nodes_run - before
    df.gradients(y, x)
    before = df.stats().nodes_run
    df.run(y * 1, { [x] = 1 })
    assert.are.equal(plain + 1, df.stats().nodes_run - before)
  end)

  it('passes check_gradients', function()
    local x, w = df.placeholder('float32', { 2 }), df.Variable({ 0.5, -0.3 })
    local f
    f = df.func('f', { 'float32', 'int32' }, function(a, n)
      return df.cond(n:le(0), function() return a end, function() return df.sin(a * w) * f(a + 1, n - 1) end)
    end, { returns = { 'float32' } })
    local ok, report = df.check_gradients(f(x, 3), { x, w }, { feeds = { [x] = { 1, 2 } } })
    assert.is_true(ok, tostring(report))
  end)

  it('goes to any order', function()
    local f = df.func('f', { 'float64' }, function(a) return df.exp(a) * a end)
    local x = df.placeholder('float64', {})
    local y, list = f(x), {}
    for k = 1, 4 do
      y = df.gradients(y, x)
      list[k] = y
    end
    local e = math.exp(0.5)
    near(df.run(list, { [x] = 0.5 }), { e * 1.5, e * 2.5, e * 3.5, e * 4.5 })
  end)

  --- What a recursion gives and the same in line, with their first three derivatives by x, at 1.3.
  local function alike(make, plain)
    local x = df.placeholder('float64', {})
    local a, b = {}, {}
    for list, y in pairs{ [a] = make(x), [b] = plain(x) } do
      list[1] = y
      for k = 2, 4 do
        y = df.gradients(y, x)
        list[k] = y
      end
    end
    near(df.run(a, { [x] = 1.3 }), df.run(b, { [x] = 1.3 }), { rtol = 1e-9, atol = 1e-9 })
  end

  it('of second order goes through a recursion, variables and what stands outside', function()
    local w = df.Variable(df.float64(0.7))
    alike(function(x)
      local f
      f = df.func('f', { 'float64', 'int32' }, function(a, n)
        return df.cond(n:le(0), function() return a * x end, function() return df.sin(a * w) * f(a + x, n - 1) end)
      end, { returns = { 'float64' } })
      return f(x * x, 3)
    end, function(x)
      local y, a = df.float64(1), x * x
      for _ = 1, 3 do y, a = y * df.sin(a * w), a + x end
      return y * a * x
    end)
  end)

  it('of second order goes through two calls of itself, and through functions that call each other', function()
    alike(function(x)
      local tree, twice
      tree = df.func('tree', { 'float64', 'int32' }, function(a, n)
        return df.cond(n:le(0), function() return df.sin(a) end, function() return tree(a * 0.5, n - 1) * twice(a, n - 1) end)
      end, { returns = { 'float64' } })
      twice = df.func('twice', { 'float64', 'int32' }, function(a, n) return tree(a * a, n) + a end, { returns = { 'float64' } })
      return tree(x, 2)
    end, function(x)
      local function tree(a, n)
        if n <= 0 then return df.sin(a) end
        return tree(a * 0.5, n - 1) * (tree(a * a, n - 1) + a)
      end
      return tree(x, 2)
    end)
  end)

  it('of second order goes through loops in it and around it', function()
    alike(function(x)
      local f = df.func('f', { 'float64' }, function(a)
        local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, v) return i + 1, df.sin(v) * a end, { df.int32(0), a })
        return y
      end)
      local _, y = df.while_loop(function(i) return i:lt(2) end, function(i, v) return i + 1, f(v) + x end, { df.int32(0), x })
      return y
    end, function(x)
      local y = x
      for _ = 1, 2 do
        local v = y
        for _ = 1, 3 do v = df.sin(v) * y end
        y = v + x
      end
      return y
    end)
  end)

  it('of second order adds up where a call was differentiated more than once', function()
    alike(function(x)
      local f
      f = df.func('f', { 'float64', 'int32' }, function(a, n)
        return df.cond(n:le(0), function() return df.exp(a) end, function() return f(df.sin(a), n - 1) * a end)
      end, { returns = { 'float64' } })
      local y = f(x, 2)
      return df.gradients(y, x) * y + df.gradients(y * y, x)
    end, function(x)
      local s = df.sin(x)
      local y = df.exp(df.sin(s)) * s * x
      return df.gradients(y, x) * y + df.gradients(y * y, x)
    end)
  end)

  it('of second order may be thousands of calls deep', function()
    local f
    f = df.func('f', { 'float64', 'int32' }, function(x, n)
      return df.cond(n:le(0), function() return df.float64(1) end, function() return x * f(x, n - 1) end)
    end, { returns = { 'float64' } })
    local x = df.float64(1)
    local g = df.gradients(f(x, 3000), x)
    near(df.run(df.gradients(g, x)), 3000 * 2999)
    near(df.run(df.hessian(f(x, 20), x)), 380)
  end)
end)
