--- Layers and recurrent cells.
local df = require 'dflow'
local support = require 'spec.support'
local near, same, message_of = support.near, support.same, support.message_of

describe('df.nn', function()
  before_each(function()
    df.reset()
    df.set_random_seed(1)
  end)

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
