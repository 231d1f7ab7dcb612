--- Layers, losses and a hundred steps of training with the same weights as in PyTorch: values and gradients, as torch_values.py wrote them down.
local df = require 'dflow'
local near = require('spec.support').near
local numbers = require 'spec.training.numbers'
local expected = require('spec.support').recorded 'spec/training/torch_values'

local function fed(...) return df.constant(numbers(...)) end
local function grads(y, xs) return df.gradients(df.reduce_sum(y * fed(df.shape(y):eval():totable(), 99)), xs) end
local function check(name, values) near(df.run(values), expected[name], { atol = 2e-4, what = name }) end

describe('as in PyTorch', function()
  it('is a convolution, and a transposed one', function()
    local x, l = fed({ 2, 7, 6, 3 }, 1), df.nn.Conv2D(4, { 3, 2 }, { strides = 2, kernel_initializer = numbers({ 3, 2, 3, 4 }, 2), bias_initializer = numbers({ 4 }, 3) })
    local y = l(x)
    local dx, dk, db = df.unpack(grads(y, { x, l.kernel, l.bias }))
    check('convolution', { y = y[1], dx = dx[1][2], dk = dk[0][1], db = db })
    x, l = fed({ 2, 3, 4, 3 }, 1), df.nn.Conv2DTranspose(2, { 3, 2 }, { strides = 2, use_bias = false, kernel_initializer = numbers({ 3, 2, 2, 3 }, 2) })
    y = l(x)
    dx, dk = df.unpack(grads(y, { x, l.kernel }))
    check('transposed', { y = y[1][1], dx = dx[1][2], dk = dk[0][1] })
  end)

  it('is pooling', function()
    local x = fed({ 2, 6, 6, 2 }, 1)
    for name, l in pairs{ max_pool = df.nn.MaxPool2D(2), average_pool = df.nn.AvgPool2D(3) } do
      local y = l(x)
      check(name, { y = y[0], dx = grads(y, x)[1] })
    end
  end)

  it('is normalisation over features and groups', function()
    local x, how = fed({ 3, 5 }, 1), { epsilon = 1e-6, gamma_initializer = numbers({ 5 }, 2), beta_initializer = numbers({ 5 }, 3) }
    local l = df.nn.LayerNorm(how)
    local y = l(x)
    local dx, dg, db = df.unpack(grads(y, { x, l.gamma, l.beta }))
    check('layer_norm', { y = y, dx = dx, dg = dg, db = db })
    l = df.nn.RMSNorm{ epsilon = 1e-6, gamma_initializer = numbers({ 5 }, 2) }
    y = l(x)
    dx, dg = df.unpack(grads(y, { x, l.gamma }))
    check('rms_norm', { y = y, dx = dx, dg = dg })
    x = fed({ 2, 3, 2, 6 }, 1)
    l = df.nn.GroupNorm{ groups = 3, epsilon = 1e-3, gamma_initializer = numbers({ 6 }, 2), beta_initializer = numbers({ 6 }, 3) }
    y = l(x)
    dx, dg = df.unpack(grads(y, { x, l.gamma }))
    check('group_norm', { y = y[1], dx = dx[1], dg = dg })
  end)

  local function lstm(inputs, units)
    return df.rnn.LSTMCell(units, { forget_bias = 0, kernel_initializer = numbers({ inputs + units, 4 * units }, 20, 0.5),
                                    bias_initializer = numbers({ 4 * units }, 21, 0.5) })
  end

  it('is an LSTM over time', function()
    local cell, x = lstm(2, 3), fed({ 2, 5, 2 }, 1)
    local y, state = df.rnn.dynamic_rnn(cell, x)
    local dx, dk = df.unpack(grads(y, { x, cell.kernel }))
    local i, j, f, o = df.unpack(df.split(dk:slice({ 2, 0 }, { 3, 12 }), 4, { axis = 1 }))
    check('lstm', { y = y, c = state.c, dx = dx, dw = df.stack{ i, f, j, o } })
  end)

  it('is a block of a transformer', function()
    local l = df.nn.TransformerBlock(2, 6, { hidden = 12, causal = true })
    for k, name in ipairs{ 'query', 'key', 'value', 'output' } do
      local part = l.attention[name]
      part.kernel_initializer, part.bias_initializer = numbers({ 6, 6 }, k < 4 and 9 + k or 16, 0.5), numbers({ 6 }, k < 4 and 12 + k or 17, 0.5)
    end
    l.dense1.kernel_initializer, l.dense1.bias_initializer = numbers({ 6, 12 }, 18, 0.5), numbers({ 12 }, 19, 0.5)
    l.dense2.kernel_initializer, l.dense2.bias_initializer = numbers({ 12, 6 }, 20, 0.5), numbers({ 6 }, 21, 0.5)
    local x = fed({ 2, 4, 6 }, 1)
    local y = l(x)
    local dx, dw = df.unpack(grads(y, { x, l.dense1.kernel }))
    check('block', { y = y, dx = dx, dw = dw })
  end)

  it('are losses and their gradients', function()
    local p, y, classes = fed({ 4, 3 }, 2, 2), df.cast(df.greater(fed({ 4, 3 }, 1), 0), 'float32'), df.int32{ 0, 2, 1, 1 }
    local nn, losses = df.nn, {}
    losses.softmax = nn.sparse_softmax_cross_entropy(classes, p)
    losses.smoothed = nn.softmax_cross_entropy(df.one_hot(classes, 3), p, { label_smoothing = 0.1 })
    losses.sigmoid = nn.sigmoid_cross_entropy(y, p)
    losses.mean_squared_error, losses.absolute = nn.mean_squared_error(y, p), nn.absolute_difference(y, p)
    losses.huber = nn.huber_loss(y, p, { delta = 0.7 })
    losses.kl = nn.kl_divergence(df.softmax(p), df.softmax(fed({ 4, 3 }, 3)))
    check('losses', losses)
    local slopes = {}
    for name, loss in pairs(losses) do slopes[name] = df.gradients(loss, p) end
    check('slopes', slopes)
    local logits = fed({ 6, 3, 5 }, 1, 2)
    local labels = { indices = df.int64{ { 0, 0 }, { 0, 1 }, { 0, 2 }, { 1, 0 }, { 2, 0 }, { 2, 1 }, { 2, 2 } }, values = df.int32{ 0, 1, 2, 3, 2, 2, 1 },
                     dense_shape = df.int64{ 3, 3 } }
    local loss = df.ctc_loss(labels, logits, { lengths = { 6, 3, 5 } })
    check('ctc', { y = loss, dx = grads(loss, logits):slice({ 0, 2, 0 }, { 6, 1, 5 }):reshape{ 6, 5 } })
  end)

  it('are a hundred steps of training', function()
    local cell = lstm(3, 5)
    local head = df.nn.Dense(2, { kernel_initializer = numbers({ 5, 2 }, 22, 0.5), bias_initializer = numbers({ 2 }, 23, 0.5) })
    local _, state = df.rnn.dynamic_rnn(cell, fed({ 4, 6, 3 }, 1))
    local loss = df.nn.mean_squared_error(fed({ 4, 2 }, 2), head(state.h))
    local step = df.train.AdamW(0.01, { weight_decay = 0.1, clip_norm = 0.5 }):minimize(loss)
    local seen = {}
    for k = 1, 100 do seen[k] = df.run{ loss, step }[1] end
    near({ seen[1], seen[2], seen[10], seen[50], seen[100] }, expected.training.losses, { atol = 1e-4 })
  end)
end)
