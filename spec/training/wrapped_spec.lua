--- Optimizers around optimizers: gradients of several steps, half precision.
local df = require 'dflow'
local support = require 'spec.support'
local near, message_of = support.near, support.message_of

local function bowl(dtype)
  local w = df.Variable({ 1.0, -2.0, 3.0 }, { name = 'w', dtype = dtype })
  return w, df.reduce_sum(w * w)
end

describe('an optimizer that accumulates gradients', function()
  it('takes a step of the inner one with the mean of so many gradients', function()
    local x, w = df.placeholder('float32', {}), df.Variable(0.0)
    local at = df.Variable(0, { dtype = 'int64', trainable = false })
    local step = df.train.Accumulate(df.train.Adam(0.1), 3):minimize(df.square(w - x), { global_step = at })
    local plain = df.Variable(0.0)
    local all = df.placeholder('float32', { 3 })
    local whole = df.train.Adam(0.1):minimize(df.reduce_mean(df.square(plain - all)), { plain })
    for round = 1, 4 do
      local rows = { round, 2 * round, -1 }
      for k = 1, 3 do
        assert.equal(round - 1, df.run(at))
        df.run(step, { [x] = rows[k] })
      end
      df.run(whole, { [all] = rows })
      near(df.run(w), df.run(plain), { rtol = 1e-6 })
    end
    assert.equal(4, df.run(at))
  end)

  it('adds sparse gradients up, and works in a loop of the graph', function()
    local t = df.Variable(df.ones{ 5, 2 })
    local step = df.train.Accumulate(df.train.SGD(0.1), 2):minimize(df.reduce_sum(df.square(df.gather(t, { 1, 3, 1 }))))
    df.run(step)
    near(df.run(t), { { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 } })
    df.run(step)
    near(df.run(t), { { 1, 1 }, { 0.6, 0.6 }, { 1, 1 }, { 0.8, 0.8 }, { 1, 1 } })
    df.reset()
    local w = bowl()
    df.run(df.train.loop(12, function() return df.train.Accumulate(df.train.SGD(0.1), 3):minimize(df.reduce_sum(w * w)) end))
    near(df.run(w), { 0.8 ^ 4, -2 * 0.8 ^ 4, 3 * 0.8 ^ 4 })
  end)

  it('refuses what is no optimizer and no number of steps', function()
    assert.matches('takes an optimizer such as', message_of(df.train.Accumulate, 3, 2))
    assert.matches('whole number from 1 up', message_of(df.train.Accumulate, df.train.SGD(1), 0))
  end)
end)

describe('training in half precision', function()
  it('keeps float32 copies, so that small steps add up', function()
    local w, loss = bowl('float16')
    local step = df.train.MixedPrecision(df.train.SGD(1e-5)):minimize(loss)
    local o = df.train.SGD(1e-5)
    local v = df.Variable({ 1.0, -2.0, 3.0 }, { dtype = 'float16' })
    local rounded = o:minimize(df.reduce_sum(v * v), { v })
    for _ = 1, 100 do df.run{ step, rounded } end
    near(df.run(v), { 1, -2, 3 })
    near(df.run(df.cast(w, 'float32')), { 0.998, -1.996, 2.994 }, { rtol = 1e-3 })
  end)

  it('gives gradients without the scale, and trains float32 variables as the inner optimizer does', function()
    local w, loss = bowl()
    local o = df.train.MixedPrecision(df.train.Adam(0.1), { loss_scale = 1024 })
    near(df.run(o:compute_gradients(loss)[1][1]), { 2, -4, 6 })
    local step = o:minimize(loss)
    local v = df.Variable({ 1.0, -2.0, 3.0 })
    local plain = df.train.Adam(0.1):minimize(df.reduce_sum(v * v), { v })
    for _ = 1, 5 do df.run{ step, plain } end
    near(df.run(w), df.run(v), { rtol = 1e-6 })
  end)

  it('leaves steps out whose gradients are not finite, and moves the scale', function()
    local x, w = df.placeholder('float32', {}), df.Variable(1.0)
    local o = df.train.MixedPrecision(df.train.SGD(0.1), { initial_scale = 8, period = 2 })
    local step = o:minimize(w * x)
    local scale = o:loss_scale()
    df.run(step, { [x] = math.huge })
    assert.same({ 1, 4 }, { df.run(w), df.run(scale) })
    df.run(step, { [x] = 1 })
    near(df.run(w), 0.9)
    assert.equal(4, df.run(scale))
    df.run(step, { [x] = 1 })
    assert.equal(8, df.run(scale))
    assert.same({ 'loss_scale:0', 'good_steps:0' }, (function()
      local names = {}
      for i, v in ipairs(o:variables()) do names[i] = v.name:gsub(':0$', '') .. ':0' end
      return names
    end)())
    assert.matches('above 0', message_of(df.train.MixedPrecision, df.train.SGD(1), { loss_scale = -1 }))
  end)

  it('goes with accumulated gradients, whichever is around the other: they are added up as float32', function()
    for _, dtype in ipairs{ 'float16', 'bfloat16' } do
      local found = {}
      for k, wrap in ipairs{ function(o) return df.train.Accumulate(df.train.MixedPrecision(o, { loss_scale = 128 }), 2) end,
                             function(o) return df.train.MixedPrecision(df.train.Accumulate(o, 2), { loss_scale = 128 }) end } do
        local w, loss = bowl(dtype)
        local step = wrap(df.train.Adam(0.01)):minimize(loss)
        df.run(step)
        near(df.run(df.cast(w, 'float32')), { 1, -2, 3 })
        for _ = 1, 9 do df.run(step) end
        found[k] = df.run(df.cast(w, 'float32'))
        near(found[k], { 0.95, -1.95, 2.95 }, { atol = 0.02 })
      end
      near(found[1], found[2], { rtol = 1e-2 })
    end
  end)

  it('takes sparse gradients', function()
    local t = df.Variable(df.ones({ 4, 2 }, 'float16'))
    local loss = df.reduce_sum(df.square(df.gather(t, { 1, 3, 1 })))
    df.run(df.train.MixedPrecision(df.train.SGD(0.25), { loss_scale = 128 }):minimize(loss))
    near(df.run(df.cast(t, 'float32')), { { 1, 1 }, { 0, 0 }, { 1, 1 }, { 0.5, 0.5 } })
  end)
end)

describe('the step counter', function()
  it('may come second, as in TensorFlow', function()
    local w, loss = bowl()
    local at, o = df.Variable(0, { dtype = 'int64', trainable = false }), df.train.SGD(0.1)
    df.run(o:minimize(loss, at))
    df.run(o:apply_gradients(o:compute_gradients(loss), at))
    assert.equal(2, df.run(at))
    near(df.run(w), { 0.64, -1.28, 1.92 })
  end)

  it('may have a name behind it, or more options', function()
    local _, loss = bowl()
    local at = df.Variable(0, { dtype = 'int64', trainable = false })
    for _, o in ipairs{ df.train.SGD(0.1), df.train.Accumulate(df.train.SGD(0.1), 1), df.train.MixedPrecision(df.train.SGD(0.1)) } do
      local list = o:compute_gradients(loss)
      local named = o:apply_gradients(list, at, 'train')
      assert.matches('^train', named.name)
      df.run{ named, o:apply_gradients(list, nil, { global_step = at }), o:apply_gradients(list, at, nil) }
      assert.matches('name is given twice', message_of(o.apply_gradients, o, list, { name = 'a' }, 'b'))
      assert.matches('4 values were given', message_of(o.apply_gradients, o, list, at, 'a', 'b'))
    end
    assert.equal(9, df.run(at))
  end)
end)
