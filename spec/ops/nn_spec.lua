--- Layers and recurrent cells.
local df = require 'dflow'
local support = require 'spec.support'
local near, same, message_of = support.near, support.same, support.message_of

describe('local response normalization', function()
  it('gives what TensorFlow gives, and its gradient', function()
    local df, near = require 'dflow', require('spec.support').near
    local x, w = df.reshape(df.linspace(-2.0, 3.0, 12), { 1, 1, 2, 6 }), df.reshape(df.linspace(1.0, 2.0, 12), { 1, 1, 2, 6 })
    for _, c in ipairs{
      { {}, { -0.6633249521255493, -0.5125692486763, -0.36181363463401794, -0.21105793118476868, -0.06030226871371269, 0.09045340865850449,
              0.1441500037908554, 0.2342437356710434, 0.32433751225471497, 0.41443124413490295, 0.5045250058174133, 0.5946187973022461 },
        { -0.07959900796413422, 0.04402066767215729, 0.16764026880264282, 0.2912599444389343, 0.41487962007522583, 0.5384992957115173,
          0.18996906280517578, 0.13526932895183563, 0.08056952059268951, 0.02586977928876877, -0.028830058872699738, -0.08352982997894287 } },
      { { depth_radius = 2, bias = 0.5, alpha = 1, beta = 1 },
        { -0.24757033586502075, -0.18217243254184723, -0.1280931681394577, -0.13861384987831116, -0.08255159854888916, 0.26938775181770325,
          0.14251011610031128, 0.12472742795944214, 0.10256409645080566, 0.08560311049222946, 0.11053293198347092, 0.14741118252277374 },
        { -0.1636015772819519, -0.21225547790527344, -0.2133452296257019, 0.6034266948699951, 0.7208552360534668, 1.2744618654251099,
          0.19257789850234985, -0.02152794785797596, -0.19065672159194946, -0.18762075901031494, -0.12646768987178802, -0.08185747265815735 } },
    } do
      local y = df.lrn(x, c[1])
      near(df.run(df.reshape(y, { -1 })), c[2], { rtol = 1e-5, atol = 1e-6 })
      near(df.run(df.reshape(df.gradients(y * w, x), { -1 })), c[3], { rtol = 1e-4, atol = 2e-6 })
    end
    assert.is_false((pcall(df.lrn, df.zeros{ 2, 3 })))
  end)
  it('has a gradient where there are fewer channels than the radius reaches', function()
    local df = require 'dflow'
    local x = df.constant({ { { { 1.5, -2, 3 } } } }, 'float64')
    for _, radius in ipairs{ 0, 1, 2, 3, 5, 2 ^ 40 } do
      assert.is_true(df.check_gradients(df.reduce_sum(df.square(df.lrn(x, { depth_radius = radius, alpha = 0.7, beta = 0.75 }))), { x }))
    end
  end)
end)

describe('df.nn', function()
  before_each(function() df.set_random_seed(1) end)

  it('has dense layers', function()
    local x = df.constant({ { 1.0, 2.0 }, { 3.0, 4.0 } })
    local y, vars = df.nn.dense(x, 3, { activation = df.nn.relu })
    assert.same({ 2, 3 }, y.shape)
    near(df.run(y), df.run(df.relu(x:matmul(vars[1]) + vars[2])))
    assert.same({ 4, 5, 2 }, (df.nn.dense(df.ones({ 4, 5, 3 }), 2, { use_bias = false })).shape)
    assert.matches('must be known', message_of(df.nn.dense, df.placeholder('float32', { -1, -1 }), 2))
  end)

  it('has LSTM and GRU cells, which agree with their steps written out', function()
    for _, make in ipairs{ df.nn.lstm_cell, df.nn.gru_cell } do
      local cell = make(4)
      local x = df.random_normal({ 2, 3, 5 }, { seed = 3 })
      local fixed = df.Variable(x, { trainable = false })
      local y, last = df.nn.dynamic_rnn(cell, fixed)
      local state, steps = cell.zero_state(2, 'float32'), {}
      for t = 0, 2 do
        local h
        h, state = cell.step(df.transpose(fixed, { 1, 0, 2 })[t], state)
        steps[t + 1] = h
      end
      local r = df.run{ y = df.transpose(y, { 1, 0, 2 }), steps = df.stack(steps), last = last, state = state }
      near(r.y, r.steps)
      near(r.last, r.state)
      assert.equal(make == df.nn.lstm_cell and 2 or 4, #cell.variables)
      for batch, rows in pairs{ [3] = 3, [df.placeholder('int32', {})] = -1 } do
        local zero = cell.zero_state(batch)
        for _, part in pairs(df.type(zero) == 'output' and { zero } or zero) do assert.same({ rows, 4 }, part.shape) end
      end
    end
  end)

  it('trains through a recurrent layer', function()
    local x = df.random_normal({ 8, 5, 2 }, { seed = 4 })
    local data = df.Variable(x, { trainable = false })
    local y = df.nn.dynamic_rnn(df.nn.lstm_cell(6), data, { parallel_iterations = 4 })
    local out = df.nn.dense(df.transpose(y, { 1, 0, 2 })[4], 1)
    local loss = df.reduce_mean(df.square(out - df.reduce_sum(data, { axis = { 1, 2 } }):expand_dims(1)))
    local step = df.train.Adam(0.03):minimize(loss)
    local before = df.run(loss)
    for _ = 1, 60 do df.run(step) end
    assert.is_true(df.run(loss) < before / 4)
  end)

  it('knows the ops of df, and says what it does not know', function()
    same(df.run(df.nn.relu({ -1.0, 2.0 })), { 0, 2 })
    assert.matches("did you mean 'dense'", message_of(function() return df.nn.dence end))
  end)
end)
