--- Models that were trained a little, for what is exported after training: a convolutional and a recurrent one.
-- Each is {outputs, feeds, step = a training operation, session =}; their values are the same each time.
local df = require 'dflow'
local M = {}

--- n numbers between -1 and 1 that look like noise.
local function noise(shape, salt)
  local n, list = 1, {}
  for _, d in ipairs(shape) do n = n * d end
  for i = 1, n do list[i] = math.sin(i * 12.9898 + salt * 78.233) end
  return df.tensor(list, 'float32', shape)
end

--- Gives every variable values of its own, and trains for some steps.
local function trained(m, steps)
  m.session = df.Session{}
  for k, v in ipairs(df.trainable_variables()) do
    m.session:run(v:assign(df.constant(noise(v.shape, k)) * 0.3))
  end
  for _ = 1, steps do m.session:run(m.step, m.feeds) end
  return m
end

function M.pictures()
  local x = df.placeholder('float32', { -1, 6, 6, 2 }, 'x')
  local labels = df.placeholder('int32', { -1 }, 'labels')
  local norm = df.nn.BatchNorm()
  local conv, dense = df.nn.Conv2D(3, 3, { activation = df.relu }), df.nn.Dense(4)
  local function model(training)
    local c = df.max_pool(conv(norm(x, { training = training })), { 1, 2, 2, 1 }, { 1, 2, 2, 1 }, 'VALID')
    return dense(df.reshape(c, { -1, 12 }))
  end
  local loss = df.reduce_mean(df.sparse_softmax_cross_entropy_with_logits(model(true), labels))
  local step = df.train.Adam(0.05):minimize(loss)
  return trained({ outputs = { probabilities = df.softmax(model(false)) }, step = step,
                   feeds = { [x] = noise({ 5, 6, 6, 2 }, 1), [labels] = df.tensor({ 0, 1, 2, 3, 1 }, 'int32') } }, 6)
end

function M.sequences()
  local x, lengths = df.placeholder('float32', { 4, 5, 3 }, 'x'), df.placeholder('int32', { 4 }, 'lengths')
  local cell = df.rnn.LSTMCell(4)
  local rows, state = df.rnn.dynamic_rnn(cell, x, { lengths = lengths })
  local y = df.nn.Dense(2)(state.h)
  local loss = df.reduce_mean(df.square(y - 1)) + df.reduce_mean(df.square(rows))
  local step = df.train.Momentum(0.1, 0.9):minimize(loss)
  return trained({ outputs = { y = y, rows = rows }, step = step,
                   feeds = { [x] = noise({ 4, 5, 3 }, 2), [lengths] = df.tensor({ 5, 2, 0, 4 }, 'int32') } }, 6)
end

return M
