--- Minimisers and training loops that are whole in the graph.
local df = require 'dflow'
local errors = require 'dflow.front.errors'
local support = require 'spec.support'
local near, message_of = support.near, support.message_of

local function rosenbrock(x)
  local a, b = x[0], x[1]
  return (1 - a) ^ 2 + 100 * (b - a ^ 2) ^ 2
end

describe('df.train.lbfgs', function()
  it('finds the end of a curved valley', function()
    local x, y, n = df.train.lbfgs(rosenbrock, df.float64{ -1.2, 1.0 }, { tolerance = 1e-8 })
    local got = df.run{ x, y, n }
    near(got[1], { 1, 1 }, { rtol = 1e-7 })
    near(got[2], 0, { atol = 1e-12 })
    assert.is_true(got[3] < 60, got[3])
  end)

  it('takes tensors of any shape, and captured variables', function()
    local centre = df.Variable({ { 1.0, 2.0 }, { 3.0, 4.0 } })
    local x, y = df.train.lbfgs(function(x) return df.reduce_sum((x - centre) ^ 2 * df.constant{ { 1.0, 10.0 }, { 100.0, 1.0 } }) end, df.zeros{ 2, 2 })
    near(df.run(x), { { 1, 2 }, { 3, 4 } }, { rtol = 1e-3 })
    near(df.run(y), 0, { atol = 1e-5 })
  end)

  it('ends at once where it begins at the end, and after max_iterations', function()
    local x, _, n = df.train.lbfgs(function(x) return df.reduce_sum(x ^ 2) end, df.zeros{ 3 })
    near(df.run{ x, n }, { { 0, 0, 0 }, 0 })
    assert.equal(3, df.run((select(3, df.train.lbfgs(rosenbrock, df.float64{ -1.2, 1 }, { max_iterations = 3 })))))
  end)

  it('fits a logistic regression as well as Newton does', function()
    local x = support.tensor({ 50, 3 }, -1, 1, 'float64', 3)
    local y = df.cast(df.greater(df.reduce_sum(df.constant(x) * df.float64{ { 1, -2, 0.5 } }, { axis = 1 }), 0.3), 'float64')
    local w, _, n = df.train.lbfgs(function(w)
      local z = df.reshape(df.matmul(x, df.reshape(w, { 3, 1 })), { -1 })
      return df.reduce_mean(df.softplus(z) - y * z) + 0.01 * df.reduce_sum(w ^ 2)
    end, df.zeros({ 3 }, 'float64'), { tolerance = 1e-9 })
    local z = df.reshape(df.matmul(x, df.reshape(w, { 3, 1 })), { -1 })
    local slope = df.matmul(df.constant(x), df.reshape(df.sigmoid(z) - y, { 50, 1 }), { transpose_a = true }) / 50
    near(df.run(df.reshape(slope, { -1 }) + 0.02 * w), { 0, 0, 0 }, { atol = 1e-8 })
    assert.is_true(df.run(n) < 40)
  end)

  it('stops where the function is not a number beyond', function()
    local x = df.train.lbfgs(function(x) return df.reduce_sum(x - df.log(x)) end, df.float64{ 0.01, 5 }, { tolerance = 1e-7 })
    near(df.run(x), { 1, 1 }, { rtol = 1e-5 })
  end)

  it('says what it does not take', function()
    assert.matches('a function of x', message_of(df.train.lbfgs, 3, df.zeros{ 2 }))
    assert.matches('floats are expected', message_of(df.train.lbfgs, rosenbrock, df.int32{ 1, 2 }))
    assert.matches('a scalar of float32 is expected', message_of(df.train.lbfgs, function(x) return x end, df.zeros{ 2 }))
    assert.matches('memory is a whole number', message_of(df.train.lbfgs, rosenbrock, df.zeros{ 2 }, { memory = 0 }))
    assert.matches("no option 'tol'", message_of(df.train.lbfgs, rosenbrock, df.zeros{ 2 }, { tol = 0 }))
  end)
end)

describe('df.train.conjugate_gradient', function()
  it('finds the least of a bowl in about as many steps as it has axes, and the end of a valley', function()
    local x, _, n = df.train.conjugate_gradient(function(x) return df.reduce_sum((x - 1) ^ 2 * df.float64{ 1, 4, 9 }) end, df.zeros({ 3 }, 'float64'),
                                                { tolerance = 1e-6 })
    near(df.run(x), { 1, 1, 1 }, { rtol = 1e-5 })
    assert.is_true(df.run(n) < 60)
    near(df.run((df.train.conjugate_gradient(rosenbrock, df.float64{ -1.2, 1 }, { max_iterations = 3000, tolerance = 1e-6 }))), { 1, 1 }, { rtol = 1e-4 })
  end)
end)

describe('df.train.loop', function()
  it('runs a step again and again in the graph', function()
    local w, o = df.Variable(5.0), df.train.SGD(0.1)
    local steps = df.train.loop(10, function() return o:minimize(w ^ 2) end)
    assert.equal(10, df.run(steps))
    near(df.run(w), 5 * 0.8 ^ 10)
    df.run(steps)
    near(df.run(w), 5 * 0.8 ^ 20)
  end)

  it('hands a carry from step to step, of any structure', function()
    local last = df.train.loop(4, function(i, c) return { sum = c.sum + df.cast(i, 'float32'), list = { c.list[1] * 2 } } end,
                               { carry = { sum = df.float32(0), list = { df.int32(1) } } })
    near(df.run(last), { sum = 6, list = { 16 } })
    near(df.run(df.train.loop(df.int32(3), function(_, x) return x + 1 end, { carry = df.float32(0) })), 3)
  end)

  it('stops early, and reports now and then', function()
    local seen = df.FIFOQueue(10, 'int32')
    local last = df.train.loop(100, function(_, x) return x * 2 end, { carry = df.int32(1), stop = function(_, x) return x:ge(100) end, every = 3,
                                                                      report = function(_, x) seen:enqueue(x) end })
    assert.equal(128, df.run(last))
    assert.equal(2, df.run(seen:size()))
    assert.equal(8, df.run(seen:dequeue()))
    assert.equal(64, df.run(seen:dequeue()))
  end)

  it('warns of a schedule that was built outside of it, by which all steps have one rate', function()
    local said = {}
    local function rates(where)
      local w, step = df.Variable(1.0), df.Variable(0)
      local function rate() return df.train.exponential_decay(1.0, step, 1, 0.5) end
      local outside = where == 'outside' and rate()
      local last = df.train.loop(3, function()
        return df.train.SGD(outside or rate()):minimize(w * 1, { global_step = step })
      end)
      df.run(last)
      return 1 - df.run(w)
    end
    local warn = errors.warn
    errors.warn = function(text) said[#said + 1] = text end
    local ok, why = pcall(function()
      near(rates 'inside', 1.75)
      assert.same({}, said)
      near(rates 'outside', 3)
    end)
    errors.warn = warn
    assert(ok, why)
    assert.equal(1, #said)
    assert.matches('schedule .- was built outside of the training loop', said[1])
  end)

  it('says what it does not take', function()
    assert.matches('builds a step', message_of(df.train.loop, 3, 4))
    assert.matches('steps is', message_of(df.train.loop, -1, function() end))
    assert.matches('every is', message_of(df.train.loop, 1, function() end, { every = 0 }))
  end)
end)
