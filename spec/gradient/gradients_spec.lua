-- gradients: what is asked for, what comes back, and why something has none. Loops and conds: gradients_of_loops_spec.lua.
local df = require 'dflow'
local support = require 'spec.support'
local near = support.near

local function fails(fn, ...)
  local ok, e = pcall(fn)
  assert.is_false(ok, 'it was accepted')
  assert.are.equal('invalid_argument', e.code)
  for _, words in ipairs { ... } do
    assert(tostring(e):find(words, 1, true), ('%q was not said in: %s'):format(words, tostring(e)))
  end
  return e
end
local function line() return debug.getinfo(2, 'l').currentline end
local function gradient(...) local g = df.gradients(...) return g end

describe('gradients', function()
  it('of a value by itself is one', function()
    local x = df.float32(3)
    near(df.run(gradient(x, x)), 1)
  end)
  it('adds up over all the ways from y to x', function()
    local x = df.float32(3)
    local y = x * x
    near(df.run(gradient(y * x + y + x, x)), 27 + 6 + 1)
  end)
  it('of several ys is that of their sum, each weighted by its grad_ys', function()
    local x = df.float32(2)
    near(df.run(gradient({ x * x, x * 3 }, x)), 7)
    near(df.run(df.gradients({ x * x, x * 3 }, x, { grad_ys = { df.float32(10), df.float32(1) } })), 43)
  end)
  it('of parts that are put side by side is what lies at each one\'s place, however many are asked for', function()
    local parts, dy, all, first = {}, {}, {}, 1
    for i, n in ipairs{ 2, 3, 1, 4, 2 } do
      parts[i] = df.placeholder('float32', { 2, n })
      all[i] = { {}, {} }
      for k = 1, n do all[i][1][k], all[i][2][k], first = first, first + 100, first + 1 end
    end
    for row = 1, 2 do
      dy[row] = {}
      for _, part in ipairs(all) do for _, v in ipairs(part[row]) do dy[row][#dy[row] + 1] = v end end
    end
    local y = df.concat(parts, 1)
    for _, which in ipairs{ { 1 }, { 3 }, { 5 }, { 2, 4 }, { 1, 5 }, { 2, 3, 4 }, { 1, 2, 3, 4, 5 } } do
      local xs, want = {}, {}
      for i, k in ipairs(which) do xs[i], want[i] = parts[k], all[k] end
      near(df.run(df.gradients(y, xs, { grad_ys = df.constant(dy, 'float32') })), want)
    end
  end)
  it('is built once, however often it is asked for', function()
    local nodes = {}
    for many = 1, 3 do
      df.reset()
      local x, w = df.placeholder('float32', { 3 }), df.placeholder('float32', { 4, 3 })
      local _, u = df.while_loop(function(i) return i:lt(3) end, function(i, u) return i + 1, df.sin(u) * u + x end, { df.int32(0), x })
      local y = u * x + df.exp(x) + df.gather(w, { 2, 1 }):reduce_sum{ axis = 0 } * x
      local before, xs = #df.default_graph():ops(), {}
      for k = 1, many do xs[k] = x end
      local g = df.gradients(y, xs)
      for k = 2, many do assert.is_true(g[k] == g[1]) end
      nodes[many] = #df.default_graph():ops() - before
    end
    assert.same({ nodes[1], nodes[1], nodes[1] }, nodes)
  end)
  it('has the structure of xs', function()
    local a, b = df.float32(2), df.float32(5)
    local g = df.gradients(a * b, { a, { b } })
    near(df.run(g[1]), 5)
    near(df.run(g[2][1]), 2)
  end)
  it('has the line of the forward op and a name under gradients/', function()
    local x = df.float32(2)
    local at = line() + 1
    local y = df.exp(x)
    local g = gradient(y * 3, x)
    assert(g.name:find('^gradients/'))
    assert(g.op.source:find(':' .. at, 1, true), g.op.source)
  end)
  it('by an intermediate value stops there, and by both gives both', function()
    local x = df.float32(3)
    local y = x * x
    local g = df.gradients(y * y, { y, x })
    near(df.run({ g[1], g[2] }), { 18, 108 })
  end)
  it('undoes broadcasting, of shapes known and not known', function()
    local b = df.constant({ 1, 2, 3 }, 'float32')
    local m, s = df.ones { 2, 3 }, df.float32(2)
    local c = df.constant({ { 1 }, { 2 } }, 'float32')
    local g = df.gradients(df.reduce_sum((m + b) * s * c), { b, s, c, m })
    near(df.run(g), { { 6, 6, 6 }, 1 * 9 + 2 * 9, { { 18 }, { 18 } }, { { 2, 2, 2 }, { 4, 4, 4 } } })
    local p, q = df.placeholder('float32', nil), df.placeholder('float32', { -1, -1 })
    local h = df.gradients(df.reduce_sum(p * q), { p, q })
    near(df.run(h, { [p] = df.tensor({ 1, 2, 3 }, 'float32'), [q] = df.tensor({ { 1 }, { 2 } }, 'float32') }),
         { { 3, 3, 3 }, { { 6 }, { 6 } } })
  end)
  it('of gradients are right to the third order', function()
    local x = df.float64(1.5)
    local y = df.sin(x * x) * df.exp(x)
    local g1 = gradient(y, x)
    local g2 = gradient(g1, x)
    local g3 = gradient(g2, x)
    local h = 1e-4
    local function at(o, v) return df.run(o, { [x] = v }) end
    near(df.run(g1), (at(y, 1.5 + h) - at(y, 1.5 - h)) / (2 * h), { rtol = 1e-5 })
    near(df.run(g2), (at(g1, 1.5 + h) - at(g1, 1.5 - h)) / (2 * h), { rtol = 1e-5 })
    near(df.run(g3), (at(g2, 1.5 + h) - at(g2, 1.5 - h)) / (2 * h), { rtol = 1e-5 })
  end)
  it('have what a branch computed from the branch, not from an array, whichever is taken, and are right again', function()
    local function branchy(x, n)
      return df.cond(n:gt(0), function()
        return df.cond(n:gt(1), function() local a = df.exp(x) return a * df.sin(a) end, function() return df.tanh(x) * df.exp(x) end)
      end, function() return df.reduce_sum(df.sigmoid(x)) * x end)
    end
    for _, shape in ipairs{ { 3 }, { 260 } } do
      for _, called in ipairs{ false, true } do
        df.reset()
        local x, n = df.placeholder('float64', shape), df.placeholder('int32', {})
        local f = called and df.func('branchy', { 'float64', 'int32' }, branchy) or branchy
        local y = f(x, n)
        local g = gradient(y, x)
        gradient(df.reduce_sum(df.square(g)), x)
        for _, op in ipairs(df.default_graph():ops()) do assert.not_equal('TensorArrayWrite', op.type, op.name) end
        for k = 0, 2 do
          local point = support.tensor(shape, -0.5, 0.5, 'float64', k)
          for _, of in ipairs{ y, df.square(g) } do
            local ok, report = df.check_gradients(df.reduce_sum(of), { x }, { feeds = { [x] = point, [n] = k }, ways = false })
            assert.is_true(ok, tostring(report))
          end
        end
      end
    end
  end)
  it('do not go through stop_gradient, nor past stop_gradients', function()
    local x = df.float32(3)
    near(df.run(gradient(x * df.stop_gradient(x), x)), 3)
    local y = x * x
    near(df.run(df.gradients(y * x, x, { stop_gradients = { y } })), 9)
  end)
  it('give zero or false where they are told to', function()
    local x, z = df.float32(1), df.constant({ 1, 2 }, 'float32')
    near(df.run(df.gradients(x * 2, { x, z }, { unconnected = 'zero' })), { 2, { 0, 0 } })
    assert.are.equal(false, df.gradients(x * 2, { x, z }, { unconnected = 'none' })[2])
  end)
  it('of a chain of 100,000 nodes are built in time linear in its length', function()
    local function seconds(n)
      df.reset()
      local x = df.float32(1)
      local y = x
      for _ = 1, n / 2 do y = df.sin(y) * x end
      collectgarbage()
      local from = os.clock()
      local g = gradient(y, x)
      return os.clock() - from, g
    end
    local small = 0
    for _ = 1, 10 do small = small + seconds(10000) end      -- as many nodes in all: a clock that ticks seldom is good enough
    local large, g = seconds(100000)
    assert(large < 4 * small + 0.05, ('%g s for ten times 10,000 nodes, %g s for 100,000'):format(small, large))
    assert(df.run(g) ~= nil)
  end)
end)

describe('sparse gradients', function()
  it('have a shape that is an Output, however it was given', function()
    for _, shape in ipairs{ { 4, 3 }, df.int32{ 4, 3 } } do
      local slices = df.IndexedSlices(df.ones{ 2, 3 }, { 0, 1 }, shape)
      support.same(df.run(slices.dense_shape), { 4, 3 })
      assert.equal(slices.values.graph, slices.dense_shape.graph)
    end
  end)
  it('of a gather are IndexedSlices, and add up where a row was gathered twice', function()
    local x = df.Variable(df.constant({ { 1, 2 }, { 3, 4 }, { 5, 6 } }, 'float32'))
    local g = gradient(df.reduce_sum(df.gather(x, { 2, 0, 2 }) * 3), x)
    assert(g.values and g.indices and g.dense_shape)
    near(df.run(g.indices), { 2, 0, 2 })
    near(df.run(g.values), { { 3, 3 }, { 3, 3 }, { 3, 3 } })
    near(df.run(g + 0), { { 3, 3 }, { 0, 0 }, { 6, 6 } })
  end)
  it('of gathers by int32 and by int64 are one sparse gradient, in either order', function()
    for _, wide_first in ipairs{ true, false } do
      local x = df.Variable({ { 1.0, 2.0 }, { 3.0, 4.0 }, { 5.0, 6.0 } })
      local narrow, wide = df.gather(x, df.int32{ 2, 0 }) * 3, df.gather(x, df.int64{ 2, 1, 2 }) * 5
      local loss = wide_first and df.reduce_sum(wide) + df.reduce_sum(narrow) or df.reduce_sum(narrow) + df.reduce_sum(wide)
      local g = df.gradients(loss, x)
      assert(df.type(g) == 'indexed_slices' and g.indices.dtype == 'int64', tostring(g))
      local rows, sum = df.run{ g.indices, g.values }, { 0, 0, 0 }
      for k, row in ipairs(rows[1]:totable()) do sum[row + 1] = sum[row + 1] + rows[2]:totable()[k][2] end
      assert.same({ 3, 5, 13 }, sum)
    end
  end)
  it('of two gathers stay sparse, of a gather and another use turn dense', function()
    local x = df.constant({ 1, 2, 3 }, 'float32')
    local g = gradient(df.reduce_sum(df.gather(x, { 1 })) + df.reduce_sum(df.gather(x, { 2, 2 }) * 2), x)
    assert.are.same({ 3 }, df.run(g.indices).shape)
    near(df.run(g + 0), { 0, 1, 4 })
    local h = gradient(df.reduce_sum(df.gather(x, { 1 })) + df.reduce_sum(x), x)
    assert.is_nil(rawget(h, 'values'))
    near(df.run(h), { 1, 2, 1 })
  end)
  it('have gradients', function()
    local x = df.constant({ 1, 2, 3 }, 'float64')
    local y = df.reduce_sum(df.gather(x, { 2, 0, 2 }) * df.gather(x, { 2, 0, 2 }) * df.gather(x, { 2, 0, 2 }))
    local g = gradient(y, x)
    near(df.run(gradient(df.reduce_sum(g + 0), x) + 0), { 6, 0, 36 })
  end)
end)

describe('a custom gradient', function()
  it('replaces that of what the function computes', function()
    local f = df.custom_gradient(function(x) return x * x, function(dy) return dy * 100 end end)
    local x = df.float32(3)
    near(df.run({ f(x), gradient(f(x) * 2, x) }), { 9, 200 })
  end)
  it('may use values of the forward function, and may be differentiated again', function()
    local f = df.custom_gradient(function(x) local y = df.exp(x) return y, function(dy) return dy * y end end)
    local x = df.float64(0.3)
    local g = gradient(f(x * 2), x)
    near(df.run(gradient(g, x)), 4 * math.exp(0.6))
  end)
  it('of several arguments gives one gradient each', function()
    local f = df.custom_gradient(function(a, b) return a * b, function(dy) return dy * 2, dy * 3 end end)
    local a, b = df.float32(5), df.float32(7)
    near(df.run(df.gradients(f(a, b), { a, b })), { 2, 3 })
  end)
  it('of the wrong shape is an error that names both', function()
    local f = df.custom_gradient(function(x) return x * x, function() return df.constant({ 1, 2, 3 }, 'float32') end end)
    local x = df.constant({ 1, 2 }, 'float32')
    fails(function() return gradient(f(x), x) end, '[3]', '[2]')
  end)
end)

describe('a gradient that does not exist', function()
  it('because y does not depend on x names x, its line, and says so', function()
    local y, at
    local x = df.float32(1)
    local z = df.float32(2) at = line()
    y = x * x
    fails(function() return gradient(y, z) end, 'does not depend', ':' .. at, 'not computed from it', 'unconnected')
  end)
  it('because of integers on the way names them', function()
    local x = df.float32(1)
    fails(function() return gradient(df.cast(df.cast(x, 'int32'), 'float32'), x) end, 'Cast', 'int32')
    fails(function() return gradient(df.cast(x, 'int32'), x) end, 'y ', 'int32', 'only float')
    local i = df.int32(1)
    fails(function() return gradient(df.cast(i, 'float32'), i) end, 'x ', 'int32', 'only float')
  end)
  it('because an op has none names op, line and the path', function()
    local x = df.constant({ 1, 2 }, 'float32')
    local e = df.exp(x)
    local at = line() + 1
    local u = df.unique(e)
    fails(function() return gradient(df.reduce_sum(u * 2), x) end, 'Unique', ':' .. at, 'Sum', 'Mul', 'Exp')
  end)
  it('because it is zero everywhere or stopped says what stands in the way', function()
    local x = df.float32(1.5)
    fails(function() return gradient(df.floor(x), x) end, 'Floor', 'zero everywhere')
    fails(function() return gradient(df.stop_gradient(x), x) end, 'StopGradient')
    fails(function() return gradient(df.argmax(df.stack { x, x }, 0):cast('float32'), x) end, 'ArgMax')
  end)
  it('because only a predicate depends on x says that', function()
    local x = df.float32(1)
    local y = df.cond(x:gt(0), function() return df.float32(1) end, function() return df.float32(2) end)
    fails(function() return gradient(y, x) end, 'only through a predicate')
    local z = df.while_loop(function(v) return v:lt(x) end, function(v) return v + 1 end, { df.float32(0) })
    fails(function() return gradient(z, x) end, 'only through a predicate')
  end)
  it('because the loop was made with back_prop = false names the loop', function()
    local x = df.float32(1)
    local y = df.while_loop(function(v) return v:lt(3) end, function(v) return v + 1 end, { x }, { back_prop = false, name = 'steps' })
    fails(function() return gradient(y, x) end, 'steps', 'back_prop')
  end)
end)

describe('a loop with back_prop = false', function()
  local function thrice(x, w, opts)
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, y) return i + 1, y * w end, { df.int32(0), x }, opts)
    return y
  end

  it('counts as stop_gradient of its results', function()
    local x, w = df.float32(2), df.Variable(df.float32(3))
    local y = thrice(x, w, { back_prop = false })
    local stopped = df.stop_gradient(thrice(x, w))
    for _, f in ipairs { function(y) return y * x + w end, function(y) return y * y * w + x end } do
      local a, b = df.gradients(f(y), { x, w }), df.gradients(f(stopped), { x, w })
      near(df.run(a), df.run(b))
    end
    near(df.run(df.gradients(y, x, { unconnected = 'zero' })), 0)
    assert.is_false(df.gradients(y, x, { unconnected = 'none' }))
    near(df.run(df.gradients(df.gradients(y * x * x, x), x)), 2 * 54)
  end)

  it('stops gradients within other loops and branches, and of what it captured or wrote to an array', function()
    local x = df.float32(2)
    local _, z = df.while_loop(function(i) return i:lt(2) end, function(i, z)
      return i + 1, df.cond(i:lt(5), function() return z * x + thrice(z, x, { back_prop = false }) end, function() return z end)
    end, { df.int32(0), df.float32(1) })
    near(df.run { z, df.gradients(z, x) }, { 100, 10 + 2 * 1 })
    local _, ta = df.while_loop(function(i) return i:lt(3) end, function(i, ta) return i + 1, ta:write(i, x * x) end,
                                { df.int32(0), df.TensorArray('float32', 3) }, { back_prop = false })
    near(df.run(df.gradients(df.reduce_sum(ta:stack()) * x, x)), 12)
  end)

  it('is checked as such, and lets gradients be taken inside of it', function()
    local x = df.float64(1.5)
    assert(df.check_gradients(thrice(x, x, { back_prop = false }) * x, x))
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, y) return i + 1, df.gradients(y * y, y) end,
                               { df.int32(0), x }, { back_prop = false })
    near(df.run(y), 12)
  end)
end)

describe('the gradient of a pad', function()
  it('has the dims of what was padded, those that are told late and have something behind them, too', function()
    local x = df.placeholder('float32', { -1, 2 })
    local w = df.constant{ { 1., 2, 3 }, { 4, 5, 6 }, { 7, 8, 9 }, { 10, 11, 12 }, { 13, 14, 15 } }
    local g = df.gradients(df.reduce_sum(df.pad(x, { { 1, 2 }, { 0, 1 } }) * w), x)
    near(df.run(g, { [x] = { { 1, 1 }, { 1, 1 } } }), { { 4, 5 }, { 7, 8 } })
  end)

  it('has them whichever side of a dim is padded that is told late', function()
    local x, w = df.placeholder('float32', { -1, -1, 1 }), df.placeholder('float32', { -1, -1, 1 })
    for _, p in ipairs{ { 0, 0, 0, 0 }, { 1, 0, 0, 0 }, { 0, 2, 0, 0 }, { 0, 0, 3, 0 }, { 0, 0, 0, 1 }, { 1, 2, 3, 1 } } do
      local weights, inner = {}, { {}, {} }
      for i = 1, 2 + p[1] + p[2] do
        weights[i] = {}
        for j = 1, 3 + p[3] + p[4] do weights[i][j] = { 10 * i + j } end
      end
      for i = 1, 2 do for j = 1, 3 do inner[i][j] = weights[i + p[1]][j + p[3]] end end
      local g = df.gradients(df.pad(x, { { p[1], p[2] }, { p[3], p[4] }, { 0, 0 } }) * w, x)
      near(df.run(g, { [x] = { { { 1 }, { 2 }, { 3 } }, { { 4 }, { 5 }, { 6 } } }, [w] = weights }), inner)
    end
  end)
end)
