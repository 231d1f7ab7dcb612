--- df.check_gradients and df.checkpoint.
local df = require 'dflow'
local support = require 'spec.support'
local near, message_of = support.near, support.message_of

describe('check_gradients', function()
  local x
  before_each(function()
    df.reset()
    x = df.constant({ 1.0, 2.0 }, 'float64')
  end)

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

  it('takes floats only', function()
    assert.matches('int32', message_of(df.check_gradients, df.int32(1), x))
    assert.matches('missing', message_of(df.check_gradients, x))
  end)
end)

describe('checkpoint', function()
  before_each(df.reset)

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

  it('takes a function of several values', function()
    local a, b = df.constant(2.0), df.constant(3.0)
    local p, s = df.checkpoint(function(u, v) return u * v, u + v end)(a, b)
    near(df.run{ p, s }, { 6, 5 })
    near(df.run(df.gradients({ p, s }, { a, b })), { 4, 3 })
  end)
end)
