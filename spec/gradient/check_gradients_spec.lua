--- df.check_gradients and df.checkpoint.
local df = require 'dflow'
local support = require 'spec.support'
local near, message_of = support.near, support.message_of

describe('check_gradients', function()
  local x
  before_each(function() x = df.constant({ 1.0, 2.0 }, 'float64') end)

  it('is true where gradients agree with finite differences, for orders 1 and 2', function()
    assert.is_true(df.check_gradients(df.tanh(x) * x:reduce_sum(), x, { order = 2 }))
  end)

  it('takes variables and placeholders, and leaves the variables as they were', function()
    local w = df.Variable({ 0.5, 1.5 }, { dtype = 'float64' })
    local p = df.placeholder('float64', {})
    assert.is_true(df.check_gradients(df.exp(p) * w * x, { w, p, x }, { feeds = { [p] = 0.3 } }))
    near(df.run(w), { 0.5, 1.5 })
  end)

  it('takes loops', function()
    local w = df.Variable(1.5, { dtype = 'float64' })
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, y) return i + 1, df.sin(y * w) end, { df.int32(0), x })
    assert.is_true(df.check_gradients(y, { x, w }, { order = 2 }))
  end)

  it('reports the first wrong node', function()
    local bad = df.custom_gradient(function(a) return a * 2, function(dy) return dy * 3 end end)
    local ok, report = df.check_gradients(bad(x * x) + 1, x)
    assert.is_false(ok)
    assert.matches('first wrong node is CustomGradient', report)
    assert.matches('check_gradients_spec%.lua:%d+', report)
    assert.matches('finite differences', report)
  end)

  it('names the iteration of a wrong node in a loop', function()
    local bad = df.custom_gradient(function(a) return df.sin(a), function(dy) return dy end end)
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, v) return i + 1, bad(v * 0.9) end, { df.int32(0), x })
    local ok, report = df.check_gradients(y, x)
    assert.is_false(ok)
    assert.matches('first wrong node is while/CustomGradient[^\n]*check_gradients_spec%.lua:%d+, in iteration while:2', report)
  end)

  it('checks float32 graphs in float64', function()
    local w = df.Variable{ { 0.3, -0.2 }, { 0.1, 0.4 } }
    local v = df.constant{ { 1.0, 2.0 } }
    local y = df.foldl(function(h, r) return df.tanh(h:matmul(w) + r) end, df.stack{ v, v, v }, df.zeros{ 1, 2 })
    assert.is_true(df.check_gradients(y, { w, v }, { order = 2 }))
    near(df.run(w), { { 0.3, -0.2 }, { 0.1, 0.4 } })
  end)

  it('goes with the branch that was taken and the trips that were made', function()
    local p, n = df.placeholder('float64', {}), df.placeholder('int32', {})
    local _, y = df.while_loop(function(i) return i:lt(n) end, function(i, v)
      return i + 1, df.cond(v:gt(1), function() return v * p end, function() return v + df.square(p) end)
    end, { df.int32(0), p })
    for trips = 0, 4 do assert.is_true(df.check_gradients(y, p, { feeds = { [p] = 0.8, [n] = trips }, order = 2 })) end
  end)

  it('holds fast what random ops draw', function()
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, v)
      return i + 1, df.sin(v * df.random_uniform({ 2 }, { dtype = 'float64' }))
    end, { df.int32(0), x })
    assert.is_true(df.check_gradients(df.square(y) * df.random_normal({ 2 }, { dtype = 'float64' }), x, { order = 2 }))
  end)

  it('holds fast what is declared constant', function()
    assert.is_true(df.check_gradients(df.stop_gradient(x * x) * x, x, { order = 2 }))
    local y = x * x
    assert.is_true(df.check_gradients(y * x, x, { stop_gradients = { y } }))
    local _, z = df.while_loop(function(i) return i:lt(3) end, function(i, v)
      return i + 1, v * df.stop_gradient(v)
    end, { df.int32(0), x })
    assert.is_true(df.check_gradients(z, x, { order = 2 }))
  end)

  it('accepts any derivative between the two of a kink', function()
    assert.is_true(df.check_gradients(df.relu(df.constant({ -1.0, 0.0, 2.0 }, 'float64')), df.constant({ 1.0 }, 'float64')))
    local k = df.constant({ -1.0, 0.0, 2.0 }, 'float64')
    assert.is_true(df.check_gradients(df.relu(k) + df.abs(k), k))
  end)

  it('takes assignments in a loop', function()
    local v, w = df.Variable(0.5, { dtype = 'float64' }), df.constant(1.5, 'float64')
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, a)
      local now = v:assign_add(a * w)
      return i + 1, a * now
    end, { df.int32(0), w })
    assert.is_true(df.check_gradients(y, w, { unrolled = false, ways = false }) ~= nil)
    near(df.run(v), 0.5)
  end)

  it('leaves the graph as it was', function()
    local y = df.tanh(x) * x
    local size = y.graph:size()
    assert.is_true(df.check_gradients(y, x, { order = 2 }))
    assert.equal(size, y.graph:size())
    near(df.run(y), { math.tanh and math.tanh(1) or 0.76159415595576, 1.9280551601516 })
    assert.equal('float64', (y + 1).dtype)
  end)

  it('looks at large graphs along directions', function()
    local big = df.random_uniform({ 60, 50 }, { dtype = 'float64', seed = 3 })
    local w = df.Variable(function() return df.random_uniform({ 50, 40 }, { dtype = 'float64', seed = 4 }) end)
    assert.is_true(df.check_gradients(df.tanh(big:matmul(w) * 0.1), w))
    local bad = df.custom_gradient(function(a) return df.tanh(a), function(dy) return dy end end)
    local ok, report = df.check_gradients(bad(big:matmul(w) * 0.01), w)
    assert.is_false(ok)
    assert.matches('CustomGradient', report)
  end)

  it('names the loop or cond whose gradient is wrong where each node is right', function()
    local core, registry = require 'dflow.backend', require 'dflow.front.registry'
    local function broken(kind, y)
      core.op_break_gradient(registry.need(kind).id, 1.01)
      local _, ok, report = pcall(df.check_gradients, y, x)
      core.op_break_gradient(-1, 1)
      assert.is_false(ok)
      return report
    end
    local z = df.sin(x)
    local _, a = df.while_loop(function(i) return i:lt(3) end, function(i, v) return i + 1, v * 1.5 end, { df.int32(0), z }, { name = 'grow' })
    local here = debug.getinfo(1, 'l').currentline - 1
    assert.matches('the fault lies in the gradient of the while_loop `grow` built at [^\n]*check_gradients_spec%.lua:' .. here, broken('Exit', df.cos(a)))
    local b = df.cond(df.reduce_sum(x):gt(0), function() return z * z end, function() return z end, { name = 'either' })
    assert.matches('the fault lies in the gradient of the cond `either` built at [^\n]*check_gradients_spec%.lua:%d+', broken('Merge', df.cos(b)))
  end)

  it('checks what cannot be run again in all other ways', function()
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, v, seen)
      seen = seen:write(i, v)
      return i + 1, df.sin(df.reduce_sum(seen:stack()) * x), seen
    end, { df.int32(0), x, df.TensorArray('float64', 0, { dynamic_size = true, clear_after_read = false }) })
    assert.is_true(df.check_gradients(y, x))
    assert.is_true(df.check_gradients(df.hessian(df.reduce_sum(df.map_fn(function(e) return e * e * e end, x)), x), x))
  end)

  it('allows loops that recompute their rounding', function()
    local u = df.constant({ 1.0, 2.0 }, 'float32')
    local _, y = df.while_loop(function(i) return i:lt(5) end, function(i, v) return i + 1, df.sin(v * u + df.random_normal{ 2 }) end,
                               { df.int32(0), u }, { save = 'recompute' })
    assert.is_true(df.check_gradients(y, u, { order = 2 }))
  end)

  it('reports the derivative itself of a scalar, and says where it is that of a weighted sum', function()
    local bad = df.custom_gradient(function(a) return a * a, function(dy) return dy * a end end)
    local three = df.constant(3.0, 'float64')
    assert.matches('the gradient says 3, finite differences 6', select(2, df.check_gradients(bad(three), three)))
    assert.matches('d %(weighted sum of CustomGradient[^ ]*%) / d', select(2, df.check_gradients(bad(x), x)))
  end)

  it('takes floats only', function()
    assert.matches('int32', message_of(df.check_gradients, df.int32(1), x))
    assert.matches('missing', message_of(df.check_gradients, x))
  end)
end)

describe('checkpoint', function()
  it('gives the values and gradients of the function, also of what it captures', function()
    local x, w = df.constant({ 1.0, 2.0 }, 'float64'), df.Variable({ 0.5, 1.5 }, { dtype = 'float64' })
    local function plain(a) return df.tanh(a * w) * x end
    local kept, again = plain(x), df.checkpoint(plain)(x)
    near(df.run(again), df.run(kept))
    near(df.run(df.gradients(again, { x, w })), df.run(df.gradients(kept, { x, w })))
    assert.is_true(df.check_gradients(again, { x, w }))
  end)

  it('works in a loop', function()
    local x, w = df.constant({ 1.0, 2.0 }, 'float64'), df.Variable(0.5, { dtype = 'float64' })
    local layer = df.checkpoint(function(a) return df.sin(a * w) + a end)
    local _, y = df.while_loop(function(i) return i:lt(4) end, function(i, a) return i + 1, layer(a) end, { df.int32(0), x })
    assert.is_true(df.check_gradients(y, { x, w }))
  end)

  it('takes and gives structures and TensorArrays, and hands on what is no value', function()
    local x = df.constant({ 1.0, 2.0 }, 'float64')
    local r = df.checkpoint(function(s, op) return { p = op(s.a) * s.b[1], q = { s.a * s.a, df.stack{ s.a } } } end)({ a = x, b = { x * x } }, df.sin)
    assert.is_true(df.check_gradients(r.p * r.q[1] + r.q[2][0], x, { order = 2 }))
    local write = df.checkpoint(function(ta, i, v) return ta:write(i, df.sin(v) * v) end)
    local _, y, seen = df.while_loop(function(i) return i:lt(3) end, function(i, v, ta)
      ta = write(ta, i, v)
      return i + 1, df.sin(v + ta:read(i)), ta
    end, { df.int32(0), x, df.TensorArray('float64', 3, { clear_after_read = false }) })
    assert.is_true(df.check_gradients(y + df.reduce_sum(seen:stack()), x, { order = 2 }))
    assert.matches('result 2 of the function is nil', message_of(df.checkpoint(function(a) return a, nil end), x))
  end)

  it('takes a function of several values', function()
    local a, b = df.constant(2.0), df.constant(3.0)
    local p, s = df.checkpoint(function(u, v) return u * v, u + v end)(a, b)
    near(df.run{ p, s }, { 6, 5 })
    near(df.run(df.gradients({ p, s }, { a, b })), { 4, 3 })
  end)
end)
