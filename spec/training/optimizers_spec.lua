--- df.train's optimizers: step for step beside TensorFlow 1 and PyTorch, dense and on rows.
local df = require 'dflow'
local support = require 'spec.support'
local ordered_it = support.ordered_it(it, pending)
local near, message_of = support.near, support.message_of
local values = require('spec.support').recorded 'spec/training/optimizer_values'

local W = { { 1.0, 2.0 }, { 3.0, -1.0 }, { 0.5, 0.25 } }
local X = { { 0.5, -1.0 }, { 2.0, 1.5 }, { 1.0, 0.3 } }
local Y = { { 1.0, 0.0 }, { -1.0, 2.0 }, { 0.5, -0.5 } }

local function setup_loss(kind, dtype)
  local w = df.Variable(W, { name = 'w', dtype = dtype or 'float64' })
  local x, y = df.constant(X, w.dtype), df.constant(Y, w.dtype)
  local seen = kind == 'sparse' and df.gather(w, df.int32{ 2, 0, 2 }) or w
  return df.reduce_sum(df.square(seen * x - y)), w
end

local all = {}
for name in pairs(require 'dflow.train.rules') do if not name:find 'Optimizer$' then all[#all + 1] = name end end
table.sort(all)

describe('df.train', function()
  for n, case in ipairs(values) do
    local name, options, kind, who, expected = case[1], case[2], case[3], case[4], case[5]
    it(('%s gives what %s gives after 100 %s steps (%d)'):format(name, who, kind, n), function()
      local loss, w = setup_loss(kind)
      local step = df.train[name](options):minimize(loss)
      for _ = 1, 100 do df.run(step) end
      -- TensorFlow rounds its numbers (rates, decays) to float32 first
      near(df.run(w), expected, who == 'TensorFlow' and { rtol = 1e-5, atol = 1e-6 } or { rtol = 1e-9, atol = 1e-10 })
    end)
  end

  it('Nadam is what its authors write, in the form of TensorFlow 1 contrib', function()
    for _, kind in ipairs{ 'dense', 'sparse' } do
      df.reset()
      local w = df.Variable({ { 1.0 }, { 4.0 } }, { dtype = 'float64' })
      local rows = df.int32{ 0, 0 }
      local loss = kind == 'sparse' and df.reduce_sum(df.square(df.gather(w, rows))) * 0.5 or df.square(w[0][0])
      local step = df.train.Nadam(0.1):minimize(loss)
      local x, m, v = 1, 0, 0
      for t = 1, 20 do
        df.run(step)
        local g = 2 * x
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        x = x - 0.1 * math.sqrt(1 - 0.999 ^ t) / (1 - 0.9 ^ t) * (0.9 * m + 0.1 * g) / (math.sqrt(v) + 1e-8)
        near(df.run(w):at(0, 0), x, { rtol = 1e-9 })
        near(df.run(w):at(1, 0), 4)
      end
    end
  end)

  it('Lamb scales each variable by its norm over that of the step', function()
    local w = df.Variable({ 1.0, -2.0 }, { dtype = 'float64' })
    local step = df.train.Lamb(0.1):minimize(df.reduce_sum(w ^ 2))
    local x, m, v = { 1, -2 }, { 0, 0 }, { 0, 0 }
    for t = 1, 20 do
      df.run(step)
      local u, of_w, of_u = {}, 0, 0
      for i = 1, 2 do
        local g = 2 * x[i]
        m[i], v[i] = 0.9 * m[i] + 0.1 * g, 0.999 * v[i] + 0.001 * g * g
        u[i] = m[i] / (1 - 0.9 ^ t) / (math.sqrt(v[i] / (1 - 0.999 ^ t)) + 1e-6) + 0.01 * x[i]
        of_w, of_u = of_w + x[i] ^ 2, of_u + u[i] ^ 2
      end
      for i = 1, 2 do x[i] = x[i] - 0.1 * math.sqrt(of_w / of_u) * u[i] end
      near(df.run(w), x, { rtol = 1e-9 })
    end
    df.reset()
    local zero = df.Variable({ 0.0, 0.0 })          -- of weights that are zero the norm says nothing
    df.run(df.train.Lamb(0.5):minimize(df.reduce_sum((zero - 1) ^ 2)))
    near(df.run(zero), { 0.5, 0.5 }, { rtol = 1e-4 })
  end)

  it('steps on rows as on the whole, where the whole gradient has zeros in the other rows', function()
    for _, name in ipairs{ 'SGD', 'Momentum', 'Adagrad', 'Adam', 'Lamb' } do
      local got = {}
      for _, kind in ipairs{ 'rows', 'whole' } do
        df.reset()
        local w = df.Variable({ { 1.0, 2.0 }, { 3.0, 4.0 } }, { dtype = 'float64' })
        local o = df.train[name](0.1)
        local slices = df.IndexedSlices(df.constant({ { 1.0, 2.0 }, { 0.5, 0.5 } }, 'float64'), { 1, 1 }, { 2, 2 })
        local dense = df.constant({ { 0.0, 0.0 }, { 1.5, 2.5 } }, 'float64')
        df.run(o:apply_gradients{ { kind == 'rows' and slices or dense, w } })
        got[kind] = df.run(w)
      end
      near(got.rows, got.whole, { rtol = 1e-12, what = name })
    end
  end)

  it('AdamW lets a row decay once a step, however often it was looked up', function()
    local rate, decay = 0.1, 0.5
    for _, rows in ipairs{ df.int32{ 2, 0, 2, 2 }, df.int64{ 2, 2, 0, 2 } } do
      local w = df.Variable(W, { dtype = 'float64' })
      local step = df.train.AdamW(rate, { weight_decay = decay }):minimize(df.reduce_sum(df.gather(w, rows)))
      df.run(step)                                  -- the first step of Adam is the rate, whatever the gradient
      local want = {}
      for i, row in ipairs(W) do
        want[i] = {}
        for k, v in ipairs(row) do want[i][k] = i == 2 and v or v * (1 - rate * decay) - rate end
      end
      near(df.run(w), want, { rtol = 1e-6, atol = 1e-6 })
      df.run(step)
      for _, i in ipairs{ 1, 3 } do for k, v in ipairs(want[i]) do want[i][k] = v * (1 - rate * decay) - rate end end
      near(df.run(w), want, { rtol = 1e-6, atol = 1e-6 })
    end
  end)

  it('leaves rows that are not named as they are, but for those that Lamb and the averages of Adam move', function()
    for _, name in ipairs{ 'SGD', 'Momentum', 'Nesterov', 'Adagrad', 'Adadelta', 'RMSProp', 'Ftrl', 'Nadam' } do
      df.reset()
      local loss, w = setup_loss('sparse')
      local step = df.train[name](0.1):minimize(loss)
      for _ = 1, 3 do df.run(step) end
      local rows = df.run(w):totable()
      support.same(rows[2], W[2], name)
      assert.is_true(rows[1][1] ~= W[1][1] and rows[3][1] ~= W[3][1], name)
    end
  end)

  it('makes a step on rows without memory for the whole', function()
    for _, name in ipairs{ 'SGD', 'Momentum', 'Nesterov', 'Adagrad', 'Adadelta', 'RMSProp', 'Ftrl' } do
      df.reset()
      local w = df.Variable(function() return df.zeros{ 100000, 8 } end)
      local rows = df.placeholder('int32', { 3 })
      local step = df.train[name](0.1):minimize(df.reduce_sum((df.gather(w, rows) - 1) ^ 2))
      df.run(step, { [rows] = { 5, 70000, 5 } })
      df.reset_peak_memory()
      local before = df.stats().memory['cpu:0'].in_use
      for _ = 1, 3 do df.run(step, { [rows] = { 7, 5, 99999 } }) end
      assert.is_true(df.stats().memory['cpu:0'].peak - before < 100000, name)
    end
  end)

  ordered_it('keeps what it keeps beside a variable where that lies, so that a step takes nothing of it elsewhere', function()
    for _, name in ipairs(all) do
      df.reset()
      local w = df.device('sim:1', function() return df.Variable(function() return df.zeros{ 5000, 4 } end) end)
      local step = df.train[name](0.1):minimize(df.reduce_sum((df.gather(w, { 3, 7 }) - 1) ^ 2))
      local s = df.Session{ devices = { 'cpu:0', 'sim:0', 'sim:1' } }
      for _, p in ipairs(s:placement(step)) do
        if p.node:find '^Variable' then assert.equal('sim:1', p.device, p.node .. ' of ' .. name) end
      end
      s:run(step)
      local h = s:start(step)
      h:wait()
      local bytes = 0
      for _, link in pairs(h:stats().transfers) do bytes = bytes + link.bytes end
      assert.is_true(bytes < 5000, ('%s brings %d bytes to other devices'):format(name, bytes))
      s:close()
    end
  end)

  it('takes variables, var_list and global_step, and a learning rate that is an output', function()
    for _, name in ipairs(all) do
      df.reset()
      local a, b = df.Variable(1.0), df.Variable(1.0)
      local count = df.Variable(df.int64(0), { trainable = false })
      local o = df.train[name](df.train.inverse_time_decay(0.1, count, 10, 0.5))
      local step = o:minimize(a ^ 2 + b ^ 2, { variables = { a }, global_step = count })
      df.run(step) df.run(step)
      assert.is_true(df.run(a) < 1, name)
      assert.equal(1, df.run(b))
      assert.equal(2, df.run(count))
      df.run(df.train.SGD(0.1):minimize(b ^ 2, { var_list = { b } }))
      assert.is_true(df.run(b) < 1, name)
    end
  end)

  it('changes nothing before the loss is there, which may read a variable late and need no gradient for that', function()
    for _, name in ipairs(all) do
      df.reset()
      local w, x = df.Variable(df.ones{ 3 }), df.placeholder('float32', {})
      local _, late = df.while_loop(function(i) return i:lt(100) end, function(i, u) return i + 1, df.sin(u) end, { df.int32(0), x })
      local loss = df.reduce_sum(df.control_dependencies({ late }, function() return w:value() end))
      local step, before = df.train[name](0.5):minimize(loss), 3
      for _ = 1, 3 do
        near(df.run({ loss, step }, { [x] = 1 })[1], before, { rtol = 1e-6, what = name })
        before = df.run(df.reduce_sum(w))
      end
    end
  end)

  it('counts its step when the step is done: a rate that reads the counter late reads what it was', function()
    for _, name in ipairs(all) do
      local moved = {}
      for i, late in ipairs{ false, true } do
        df.reset()
        local w, x = df.Variable(df.ones{ 3 }), df.placeholder('float32', {})
        local count = df.Variable(df.int64(0), { trainable = false })
        local _, waits = df.while_loop(function(k) return k:lt(100) end, function(k, u) return k + 1, df.sin(u) end, { df.int32(0), x })
        local rate = df.control_dependencies(late and { waits } or {}, function() return 0.5 / (1 + df.cast(count:value(), 'float32')) end)
        local step = df.train[name](rate):minimize(df.reduce_sum(w * w), { global_step = count })
        for _ = 1, 3 do df.run({ step }, { [x] = 1 }) end
        moved[i] = df.run(w)
      end
      near(moved[2], moved[1]:totable(), { rtol = 1e-6, what = name })
    end
  end)

  it('trains inside a loop of the graph as it does from outside', function()
    for _, name in ipairs(all) do
      df.reset()
      local loss, w = setup_loss('dense')
      local step = df.train[name](0.1):minimize(loss)
      for _ = 1, 5 do df.run(step) end
      local outside = df.run(w)
      df.reset()
      w = df.Variable(W, { name = 'w', dtype = 'float64' })
      local o = df.train[name](0.1)
      local n = df.while_loop(function(i) return i:lt(5) end, function(i)
        local x, y = df.constant(X, 'float64'), df.constant(Y, 'float64')
        o:minimize(df.reduce_sum(df.square(w * x - y)))
        return i + 1
      end, { df.int32(0) })
      df.run(n)
      near(df.run(w), outside, { rtol = 1e-9, what = name })
    end
  end)

  it('trains float16 and float32 variables together', function()
    for _, name in ipairs(all) do
      df.reset()
      local a, b = df.Variable(1.0, { dtype = 'float16' }), df.Variable(1.0)
      local step = df.train[name]{ learning_rate = 0.1, epsilon = ({ Adam = 1e-3, AdamW = 1e-3, Nadam = 1e-3, Lamb = 1e-3, RMSProp = 1e-3,
                                   Adadelta = 1e-3 })[name] }:minimize(df.cast(a, 'float32') ^ 2 + b ^ 2)
      for _ = 1, 3 do df.run(step) end
      near(df.run(df.cast(a, 'float32')), df.run(b), { rtol = 1e-2, what = name })
    end
  end)

  it('keeps slots under names, which can be asked for', function()
    local loss, w = setup_loss('dense')
    local o = df.train.RMSProp{ learning_rate = 0.1, centered = true }
    assert.is_nil(o:get_slot(w, 'rms'))
    o:minimize(loss)
    assert.same({ 'mg', 'momentum', 'rms' }, o:get_slot_names())
    assert.equal('w/rms', o:get_slot(w, 'rms').name)
    near(df.run(o:get_slot(w, 'rms')), { { 1, 1 }, { 1, 1 }, { 1, 1 } })
    assert.equal(3, #o:variables())
  end)

  it('clips the gradients of all variables by their one norm, sparse ones too, and not the variables', function()
    for _, norm in ipairs{ 1, 13, 100 } do                        -- the gradients are 3, 4 and 12: their norm is 13
      df.reset()
      local a, b = df.Variable{ 1.0 }, df.Variable{ 2.0, 3.0, 5.0 }
      local loss = df.reduce_sum(a * 3) + df.reduce_sum(df.gather(b, { 2, 0 }) * df.constant{ 4.0, 12.0 })
      df.run(df.train.SGD{ learning_rate = 0.5, clip_norm = norm }:minimize(loss))
      local by = 0.5 * math.min(1, norm / 13)
      near(df.run{ a, b }, { { 1 - 3 * by }, { 2 - 12 * by, 3, 5 - 4 * by } }, { rtol = 1e-6 })
    end
  end)

  it('does one variable\'s step for apply_gradients alone, which knows what belongs to it', function()
    local o, v, g = df.train.SGD(0.1), df.Variable(W), df.constant(W)
    local rows = df.gradients(df.reduce_sum(df.gather(v, { 0 })), v)
    for name, fine in pairs{ dense = g, sparse = rows } do
      for _, wrong in ipairs{ { g, fine, {} }, { v, 'x', {} }, { v, nil, {} }, { v, name == 'dense' and rows or g, {} }, { v, fine, 1 }, { v, fine }, {} } do
        assert.matches('is called by apply_gradients', message_of(o[name], o, wrong[1], wrong[2], wrong[3]))
      end
    end
  end)

  it('says what it does not take', function()
    assert.matches("no option 'rho'", message_of(df.train.Adagrad, { rho = 1 }))
    assert.matches('initial_accumulator', message_of(df.train.Adagrad, 0.1, { initial_accumulator = -1 }))
    assert.matches('learning_rate_power', message_of(df.train.Ftrl, 0.1, { learning_rate_power = 1 }))
    assert.matches('learning_rate is the string', message_of(df.train.SGD, 'fast'))
    assert.matches('true or false', message_of(df.train.RMSProp, 0.1, { centered = 1 }))
    local v = df.Variable(1.0)
    assert.matches('twice', message_of(function() df.train.SGD(0.1):minimize(v * v, { v, v }) end))
    assert.matches('a list of {gradient, Variable}', message_of(function() df.train.SGD(0.1):apply_gradients(3) end))
    assert.matches("no option 'vars'", message_of(function() df.train.SGD(0.1):minimize(v * v, { vars = { v } }) end))
  end)
end)

describe('a learning rate', function()
  local function at(name, steps, ...)
    local args, out = { ... }, {}
    for i, step in ipairs(steps) do
      df.reset()
      out[i] = df.run(df.train[name](args[1], df.int32(step), (table.unpack or unpack)(args, 2)))
    end
    return out
  end

  it('falls exponentially, in inverse time, by stairs', function()
    near(at('exponential_decay', { 0, 10, 15 }, 0.5, 10, 0.9), { 0.5, 0.45, 0.5 * 0.9 ^ 1.5 })
    near(at('exponential_decay', { 15 }, 0.5, 10, 0.9, { staircase = true }), { 0.45 })
    near(at('natural_exp_decay', { 10 }, 0.5, 10, 0.9), { 0.5 * math.exp(-0.9) })
    near(at('inverse_time_decay', { 0, 10, 15 }, 0.5, 10, 0.9), { 0.5, 0.5 / 1.9, 0.5 / (1 + 0.9 * 1.5) })
    near(at('inverse_time_decay', { 15 }, 0.5, 10, 0.9, { staircase = true }), { 0.5 / 1.9 })
    for name, wanted in pairs{ exponential_decay = 0.45, inverse_time_decay = 0.5 / 1.9, natural_exp_decay = 0.5 * math.exp(-0.9) } do
      near(at(name, { 15 }, 0.5, 10, 0.9, true), { wanted })                  -- by place, as in TensorFlow's Python
    end
  end)

  it('is a curve where the step is many steps', function()
    for name, args in pairs{
      exponential_decay = { 100, 0.96 }, natural_exp_decay = { 100, 0.96 }, inverse_time_decay = { 100, 0.5 }, polynomial_decay = { 100 },
      cosine_decay = { 100 }, cosine_decay_restarts = { 10 }, linear_cosine_decay = { 100 },
    } do
      local curve = df.run(df.train[name](0.1, df.range(0, 60, 20, { dtype = 'int32' }), (table.unpack or unpack)(args)))
      near(curve, at(name, { 0, 20, 40 }, 0.1, (table.unpack or unpack)(args)))
    end
    near(df.run(df.train.piecewise_constant(df.range(0, 60, 20, { dtype = 'int32' }), { 10, 30 }, { 1.0, 0.5, 0.25 })), { 1, 0.5, 0.25 })
  end)

  it('falls along a polynomial, which may begin again', function()
    near(at('polynomial_decay', { 0, 50, 100, 200 }, 0.1, 100, 0.01, 2), { 0.1, 0.09 * 0.25 + 0.01, 0.01, 0.01 })
    near(at('polynomial_decay', { 50 }, 0.1, 100), { 0.05005 })
    near(at('polynomial_decay', { 0, 50, 150 }, 0.1, 100, { end_learning_rate = 0, cycle = true }), { 0.1, 0.05, 0.025 })
  end)

  it('falls along cosines', function()
    near(at('cosine_decay', { 0, 50, 100, 300 }, 1, 100, { alpha = 0.1 }), { 1, 0.55, 0.1, 0.1 })
    near(at('cosine_decay_restarts', { 0, 50, 100, 200, 299 }, 1, 100), { 1, 0.5, 1, 0.5, 6.168e-5 }, { rtol = 1e-2 })
    near(at('cosine_decay_restarts', { 150 }, 1, 100, { t_mul = 1, m_mul = 0.5 }), { 0.25 })
    near(at('linear_cosine_decay', { 50 }, 1, 100), { 0.5 * 0.5 + 0.001 })
  end)

  it('is constant by pieces, each of which ends on its boundary', function()
    local function piece(x) return df.run(df.train.piecewise_constant(x, { 5, 10 }, { 1.0, 0.5, 0.1 })) end
    near({ piece(df.int64(0)), piece(df.int64(5)), piece(df.int64(6)), piece(df.int64(10)), piece(df.int64(11)) }, { 1, 1, 0.5, 0.5, 0.1 })
    assert.matches('one longer; they have 1 and 1 entries$', message_of(df.train.piecewise_constant, df.int32(1), { 5 }, { 1.0 }))
    assert.matches('one longer; they have ? and 2 entries', message_of(df.train.piecewise_constant, df.int32(1), 5, { 1.0, 2.0 }), 1, true)
    assert.matches('one longer; they have 1 and ? entries', message_of(df.train.piecewise_constant, df.int32(1), { 5 }, 2.0), 1, true)
    assert.matches('numbers that rise', message_of(df.train.piecewise_constant, df.int32(1), { 5, 5 }, { 1.0, 2.0, 3.0 }))
  end)

  it('says what is missing', function()
    assert.matches('decay_steps is missing', message_of(df.train.cosine_decay, 0.1, 3))
  end)
end)

describe('df.train.ExponentialMovingAverage', function()
  it('says what its decay is to be', function()
    assert.matches('decay is a number from 0 to below 1, not the string "x"', message_of(df.train.ExponentialMovingAverage, 'x'))
    assert.matches('zero_debias is', message_of(df.train.ExponentialMovingAverage, 0.5, { zero_debias = 1 }))
  end)

  it('moves a shadow of each variable towards it', function()
    local v = df.Variable({ 1.0, 2.0 }, { name = 'v' })
    local average = df.train.ExponentialMovingAverage(0.9)
    assert.is_nil(average:average(v))
    local move = average:apply{ v }
    assert.equal('v/ExponentialMovingAverage', average:average(v).name)
    near(df.run(average:average(v)), { 1, 2 })
    df.run(v:assign{ 3.0, 2.0 })
    df.run(move)
    near(df.run(average:average(v)), { 1.2, 2 })
    df.run(move)
    near(df.run(average:average(v)), { 1.38, 2 })
  end)

  it('follows an optimizer, whose step it waits for', function()
    local v = df.Variable(4.0)
    local step = df.train.SGD(0.25):minimize(v ^ 2)
    local average = df.train.ExponentialMovingAverage(0.5)
    local both = df.control_dependencies({ step }, function() return average:apply() end)
    df.run(both)
    near(df.run{ v, average:average(v) }, { 2, 3 })
  end)

  it('is fast at first where it is told the step', function()
    local v, n = df.Variable(0.0), df.Variable(df.int32(0), { trainable = false })
    local average = df.train.ExponentialMovingAverage(0.999, { num_updates = n })
    local move = average:apply{ v }
    df.run(v:assign(1.0))
    df.run(move)
    near(df.run(average:average(v)), 0.9)
  end)

  it('averages outputs from zero, and says what it cannot', function()
    local x = df.placeholder('float32', { 2 })
    local average = df.train.ExponentialMovingAverage(0.5)
    df.run(average:apply{ x }, { [x] = { 1, 2 } })
    near(df.run(average:average(x)), { 0.5, 1 })
    assert.matches('from 0 to below 1', message_of(df.train.ExponentialMovingAverage, 1.5))
    assert.matches('element 1', message_of(function() average:apply{ 3 } end))
  end)
end)
