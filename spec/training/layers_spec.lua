--- Layers, against what TensorFlow 2.15 computed (spec/training/tensorflow_layers.lua.gz) and by themselves.
local df = require 'dflow'
local numbers = require 'spec.training.numbers'
local expected = require('spec.support').recorded 'spec/training/tensorflow_layers'
local support = require 'spec.support'
local near, message_of = support.near, support.message_of

--- Gradients of the sum of y * numbers, as the script takes them.
local function grads(y, xs)
  return df.gradients(df.reduce_sum(y * df.constant(numbers(y.shape, 99))), xs)
end
local function weighted(y) return df.reduce_sum(y * df.constant(numbers(y.shape, 98))) end
local function fed(shape, k) return df.placeholder_with_default(df.constant(numbers(shape, k))) end

describe('a layer', function()
  before_each(function() df.set_random_seed(1) end)

  it('makes its variables at the first call, shares them, and lists them', function()
    local l = df.nn.Dense(3, { activation = df.relu })
    assert.matches('made at its first call', message_of(function() return l.kernel end))
    assert.matches('made at its first call', message_of(function() return l:parameters() end))
    local a, b = l(df.ones{ 2, 4 }), l(df.ones{ 5, 4 })
    assert.same({ 2, 3 }, a.shape)
    assert.same({ 5, 3 }, b.shape)
    assert.equal(2, #df.global_variables())
    assert.same({ l.kernel, l.bias }, l:parameters())
    assert.same({ 4, 3 }, l.kernel.shape)
    assert.equal('dense/kernel', l.kernel.name)
    assert.equal('dense_1/kernel', (function() local m = df.nn.Dense(1) m(df.ones{ 1, 1 }) return m.kernel.name end)())
    local named = df.nn.Dense(1, { name = 'head', use_bias = false })
    named(df.ones{ 1, 1 })
    assert.equal('head/kernel', named.kernel.name)
    assert.equal(1, #named:parameters())
    near(df.run(l(df.ones{ 1, 4 })), df.run(df.relu(df.reduce_sum(l.kernel, { axis = 0, keep_dims = true }))))
  end)

  it('is named by the variable scope, which may share it', function()
    local a, b = df.nn.MultiHeadAttention(2, 4), df.nn.Dense(4, { name = 'out' })
    local function build() return b(df.ones{ 1, 2 }), a(df.ones{ 1, 3, 4 }) end
    df.variable_scope('encoder', build)
    assert.equal('encoder/multi_head_attention/query/kernel', a.query.kernel.name)
    assert.equal('encoder/out/kernel', b.kernel.name)
    local c, d = df.nn.Dense(4, { name = 'out' }), df.nn.Dense(4)
    df.variable_scope('encoder', { reuse = true }, function() return c(df.ones{ 1, 2 }) end)
    assert.equal(b.kernel, c.kernel)
    df.variable_scope('encoder', { reuse = true }, function() assert.equal(b.bias, df.get_variable('out/bias')) end)
    df.name_scope('here', function() d(df.ones{ 1, 2 }) end)
    assert.equal('dense/kernel', d.kernel.name)
    assert.matches('shape', message_of(df.variable_scope, 'encoder', { reuse = true }, function() df.nn.Dense(3, { name = 'out' })(df.ones{ 1, 2 }) end))
  end)

  it('begins as Glorot has it, or as it is told', function()
    local l = df.nn.Dense(50)
    l(df.ones{ 1, 100 })
    local limit, most = math.sqrt(6 / 150), df.run(df.reduce_max(df.abs(l.kernel)))
    assert.is_true(most <= limit and most > 0.95 * limit, most)
    for _, init in ipairs{ function(shape, dtype) return df.fill(shape, df.constant(2, dtype)) end, 2, { { 2, 2 }, { 2, 2 } } } do
      local m = df.nn.Dense(2, { kernel_initializer = init, bias_initializer = 'ones' })
      near(df.run(m(df.float32{ { 1, 2 } })), { { 7, 7 } })
    end
    local l3 = df.nn.Dense(50, { kernel_initializer = df.nn.initializers.ones })      -- the maker for what it makes
    near(df.run(l3(df.ones{ 1, 3 })[0][0]), 3)
    local function deviation(name, shape)
      local x = df.nn.initializers[name]{ seed = 3 }(shape, 'float32')
      return df.run(df.sqrt(df.reduce_mean(df.square(x))))
    end
    near(deviation('he_normal', { 200, 50 }), math.sqrt(2 / 200), { rtol = 0.03 })
    near(deviation('glorot_normal', { 200, 50 }), math.sqrt(2 / 250), { rtol = 0.03 })
    near(deviation('lecun_uniform', { 3, 3, 20, 50 }), math.sqrt(1 / 180), { rtol = 0.03 })
    for _, shape in ipairs{ { 5, 3 }, { 3, 5 }, { 2, 2, 3 } } do
      local q = df.reshape(df.nn.initializers.orthogonal{ gain = 2, seed = 1 }(shape, 'float32'), { -1, shape[#shape] })
      local tall = #shape == 3 or shape[1] > shape[2]
      near(df.run(df.matmul(q, q, { transpose_a = tall, transpose_b = not tall })), df.run(df.eye(3) * 4), { atol = 1e-5 })
    end
  end)

  it('lives at the top level when a body or branch calls it first', function()
    local l = df.nn.Dense(3)
    local function step(i, x) return i + 1, l(x) end
    local _, x = df.while_loop(function(i) return i:lt(2) end, step, { df.int32(0), df.ones{ 2, 3 } })
    local y = l(l(df.ones{ 2, 3 }))
    near(df.run(x), df.run(y))
    near(df.run(df.gradients(x, l.kernel)), df.run(df.gradients(y, l.kernel)))
    local m = df.nn.BatchNorm{}
    local on = df.placeholder('bool', {})
    local z = df.cond(on, function() return m(df.float32{ { 1 }, { 3 } }, { training = true }) end, function() return df.zeros{ 2, 1 } end)
    df.run(z, { [on] = false })
    near(df.run(m.moving_mean), { 0 })
    df.run(z, { [on] = true })
    near(df.run(m.moving_mean), { 0.02 })
  end)

  it('of any kind knows its options, and says which it does not', function()
    local sizes = { Dense = { 2 }, Embedding = { 3, 2 }, Dropout = { 0.5 }, Conv1D = { 2, 3 }, Conv2D = { 2, 3 }, DepthwiseConv2D = { 3 }, Conv2DTranspose = { 2, 3 },
                    AdditiveAttention = { 2 }, MultiHeadAttention = { 2, 4 }, TransformerBlock = { 2, 4 }, Flatten = {}, BatchNorm = {}, LayerNorm = {},
                    RMSNorm = {}, GroupNorm = {} }
    for kind, list in pairs(sizes) do
      list[#list + 1] = { nonsense = 1 }
      assert.matches(kind .. " has no option 'nonsense'", message_of(df.nn[kind], (table.unpack or unpack)(list)))
    end
  end)

  it('that normalizes gives the dtype that it was given', function()
    for _, dtype in ipairs{ 'float16', 'bfloat16', 'float32', 'float64' } do
      for _, kind in ipairs{ 'BatchNorm', 'LayerNorm', 'RMSNorm', 'GroupNorm' } do
        local x = df.cast(fed({ 2, 3, 4 }, 1), dtype)
        local y = df.nn[kind](kind == 'GroupNorm' and { groups = 2 } or {})(x)
        assert.equal(dtype, y.dtype)
        assert.equal(dtype, df.run(y).dtype)
        assert.equal(dtype, df.run(df.gradients(y:reduce_sum(), x)).dtype)
      end
    end
  end)

  it('says what is wrong, and of which layer', function()
    assert.matches('Dense: units is a whole number from 1 up, not the string "a"', message_of(df.nn.Dense, 'a'))
    assert.matches('Dense: its input is float32%[3%], %[batch, ..., features%] is expected', message_of(df.nn.Dense(2), df.ones{ 3 }))
    assert.matches("Dense has no option 'unit'", message_of(df.nn.Dense, 2, { unit = 3 }))
    assert.matches('int32, a float dtype is expected', message_of(df.nn.Dense(2), df.int32{ { 1 } }))
    assert.matches('must be known while building', message_of(df.nn.Dense(2), df.placeholder('float32', { 2, -1 })))
    local l = df.nn.Dense(2, { name = 'out' })
    l(df.ones{ 1, 4 })
    assert.matches("Dense 'out': its input float32%[1,5%] has 5 features, its kernel is for 4", message_of(l, df.ones{ 1, 5 }))
    assert.matches("its variables are float32, its input is float64", message_of(l, df.ones({ 1, 4 }, 'float64')))
    assert.matches("Dense 'out' has no field or method 'kernal'; did you mean 'kernel'", message_of(function() return l.kernal end))
    assert.matches('training is true, false or a scalar bool', message_of(df.nn.BatchNorm{}, df.ones{ 2, 2 }, { training = 1 }))
    assert.matches('the rate is a number from 0 to below 1', message_of(df.nn.Dropout, 1))
    assert.matches('Conv2D: its input is float32%[3,3%], %[batch, height, width, channels%]', message_of(df.nn.Conv2D(1, 2), df.ones{ 3, 3 }))
    assert.matches("padding is 'VALID' or 'SAME'", message_of(df.nn.Conv2D, 1, 2, { padding = 'FULL' }))
    assert.matches('64 is not a multiple of the 5 heads', message_of(df.nn.MultiHeadAttention, 5, 64))
    assert.matches('step 2 is the number 3', message_of(df.nn.Sequential, { df.nn.Dense(1), 3 }))
    assert.matches("no initializer 'glorot_unifrom'; did you mean 'glorot_uniform'", message_of(df.nn.Dense, 1, { kernel_initializer = 'glorot_unifrom' }))
    assert.matches("the initializer of 'kernel' gives float32%[2%], float32%[4,2%]", message_of(df.nn.Dense(2, { kernel_initializer = { 1, 2 } }), df.ones{ 1, 4 }))
    assert.matches("activation is a function such as df.relu, or a name such as 'relu', not the string", message_of(df.nn.Dense, 1, { activation = 'rellu' }))
    assert.matches('its activation gives nil', message_of(df.nn.Dense(1, { activation = function() end }), df.ones{ 1, 1 }))
    df.reset()
    assert.matches("Dense 'out': its variables belong to another graph", message_of(l, df.ones{ 1, 4 }))
  end)

  it('prints its shapes and sizes', function()
    local l = df.nn.Sequential{ df.nn.Conv2D(4, 3), df.nn.BatchNorm{}, df.relu, df.nn.Flatten(), df.nn.Dense(2) }
    assert.matches('not built yet', tostring(l))
    l(df.ones{ 2, 5, 5, 1 })
    local text = tostring(l)
    assert.matches('%[2,5,5,1%] %-> %[2,2%]  122 parameters', text)
    assert.matches('Conv2D%(4, 3x3%)  %[2,5,5,1%] %-> %[2,3,3,4%]  40 parameters', text)
    assert.equal(6, #l:parameters())
    assert.equal(8, #l:variables())
  end)

  it('takes train and eval for all its calls', function()
    local l = df.nn.Sequential{ df.nn.Dropout(0.5, { seed = 1 }), df.nn.BatchNorm{} }
    local x = df.ones{ 4, 6 }
    local function zeros(y) return df.run(df.reduce_sum(df.cast(y:eq(0), 'float32'))) end
    assert.equal(0, zeros(df.nn.Dropout(0.5)(x)))
    assert.is_true(zeros(l.steps[1](x, { training = true })) > 0)
    l:train()
    assert.is_true(zeros(l.steps[1](x)) > 0)
    l:eval()
    assert.equal(0, zeros(l.steps[1](x)))
    local on = df.placeholder('bool', {})
    local y = l.steps[1](x, { training = on })
    assert.equal(0, df.run(df.reduce_sum(df.cast(y:eq(0), 'float32')), { [on] = false }))
    assert.is_true(df.run(df.reduce_sum(df.cast(y:eq(0), 'float32')), { [on] = true }) > 0)
  end)

  it('looks rows up, with a gradient that is sparse', function()
    local l = df.nn.Embedding(5, 3)
    local y = l(df.int32{ { 1, 4 }, { 1, 0 } })
    assert.same({ 2, 2, 3 }, y.shape)
    local g = df.gradients(df.reduce_sum(y), l.table)
    assert.equal('indexed_slices', df.type(g))
    assert.matches('int32 or int64 is expected', message_of(l, df.ones{ 2 }))
  end)
end)

describe('layers', function()
  it('have gradients by differences, most of second order', function()
    local x2, x3 = support.tensor({ 3, 4 }, -1, 1, 'float64', 2), support.tensor({ 2, 3, 4 }, -1, 1, 'float64', 1)
    local x4 = support.tensor({ 1, 3, 4, 2 }, -1, 1, 'float64', 3)
    for _, c in ipairs{
      { x2, function(x) return df.nn.BatchNorm{}(x, { training = true }) end }, { x2, function(x) return df.nn.LayerNorm{}(x) end },
      { x2, function(x) return df.nn.RMSNorm{}(x) end }, { x4, function(x) return df.nn.GroupNorm{ groups = 2 }(x) end, 1 },
      { x3, function(x) return (df.nn.MultiHeadAttention(2, 4)(x, { causal = true })) end },
      { x3, function(x) return (df.nn.TransformerBlock(2, 4)(x)) end, 1 },
      { x4, function(x) return df.nn.DepthwiseConv2D(2, { depth_multiplier = 2, padding = 'SAME' })(x) end },
      { x4, function(x) return df.nn.Conv2DTranspose(2, 2, { strides = 2 })(x) end },
      { x3, function(x) return df.nn.Conv1D(2, 2, { padding = 'CAUSAL', dilation = 2, activation = 'tanh' })(x) end },
    } do
      assert.is_true(support.check_gradient(c[2], { c[1] }, { order = c[3] or 2, rtol = 1e-4, atol = 1e-5 }))
    end
  end)
end)

describe('a convolution', function()
  for name, o in pairs{ a = { strides = 2, padding = 'SAME' }, b = { dilation = 2 }, c = { strides = { 2, 1 }, padding = 'valid' } } do
    it('is what TensorFlow makes it: ' .. name, function()
      local opts = { use_bias = false, kernel_initializer = numbers({ 3, 2, 3, 4 }, 2) }
      for k, v in pairs(o) do opts[k] = v end
      local l, x = df.nn.Conv2D(4, { 3, 2 }, opts), fed({ 2, 7, 6, 3 }, 1)
      local y = l(x)
      local dx, dk = df.unpack(grads(y, { x, l.kernel }))
      local e = expected['conv2d_' .. name]
      near(df.run{ sum = weighted(y), first = y[0][0][0], dk = dk[0][0], dx = dx[1][2] }, e, { atol = 1e-4, rtol = 1e-4 })
      e = expected['depthwise_' .. name]
      if e then
        opts.kernel_initializer, opts.depth_multiplier = numbers({ 3, 2, 3, 2 }, 3), 2
        for _, kernels in ipairs{ 'cpu', 'ref' } do
          l = df.nn.DepthwiseConv2D({ 3, 2 }, opts)
          y = l(x)
          dx, dk = df.unpack(grads(y, { x, l.kernel }))
          local s = df.Session{ kernels = kernels }
          near(s:run{ sum = weighted(y), first = y[0][0][0], dk = dk[0][0], dx = dx[1][2] }, e, { atol = 1e-4, rtol = 1e-4 })
          s:close()
        end
      end
    end)
  end

  it('is transposed as TensorFlow transposes it', function()
    for name, o in pairs{ a = { strides = 2, padding = 'SAME' }, b = { strides = 3 }, c = {} } do
      o.use_bias, o.kernel_initializer = false, numbers({ 3, 2, 2, 3 }, 2)
      local y = df.nn.Conv2DTranspose(2, { 3, 2 }, o)(fed({ 2, 3, 4, 3 }, 1))
      local e = expected['transposed_' .. name]
      assert.same(e.shape, y.shape)
      near(df.run{ shape = df.shape(y), sum = weighted(y), y = y[1][1] }, e, { atol = 1e-4 })
      local any = df.placeholder('float32', { -1, -1, 4, 3 })
      local z = df.nn.Conv2DTranspose(2, { 3, 2 }, o)(any)
      assert.same({ -1, -1, e.shape[3], 2 }, z.shape)
      near(df.run(df.shape(z), { [any] = numbers({ 2, 3, 4, 3 }, 1) }), e.shape)
    end
  end)

  it('goes along a line', function()
    local x = fed({ 2, 7, 3 }, 1)
    local l = df.nn.Conv1D(2, 3, { strides = 2, padding = 'SAME', kernel_initializer = numbers({ 3, 3, 2 }, 2), bias_initializer = numbers({ 2 }, 3) })
    near(df.run(l(x)), expected.conv1d.y, { atol = 1e-4 })
    local causal = df.nn.Conv1D(2, 3, { padding = 'CAUSAL' })
    local y = causal(x)
    assert.same({ 2, 7, 2 }, y.shape)
    near(df.run(df.gradients(y[0][3], x)[0][4]), { 0, 0, 0 })
    assert.same({ 2, 3, 3 }, df.nn.MaxPool1D(2)(x).shape)
    assert.same({ 2, 3 }, df.nn.GlobalAvgPool()(x).shape)
    near(df.run(df.nn.AvgPool2D(2)(df.reshape(df.float32{ 1, 2, 3, 6 }, { 1, 2, 2, 1 }))), { { { { 3 } } } })
  end)
end)

describe('a normalisation', function()
  for name, shape in pairs{ rows = { 6, 4 }, images = { 2, 3, 2, 4 } } do
    it('over the batch is what TensorFlow makes it, and moves its averages: ' .. name, function()
      local l = df.nn.BatchNorm{ gamma_initializer = numbers({ 4 }, 2), beta_initializer = numbers({ 4 }, 3) }
      local x = fed(shape, 1)
      local y = l(x, { training = true })
      local dx, dg, db = df.unpack(grads(y, { x, l.gamma, l.beta }))
      local r, e = df.run{ y = y, dx = dx, dgamma = dg, dbeta = db }, expected['batch_norm_' .. name]
      for k, v in pairs(r) do near(v, e[k], { atol = 1e-4, what = k }) end
      near(df.run(l.moving_mean), e.mean)
      near(df.run(l.moving_variance), e.variance)
      df.init()
      df.run(dx)                -- the gradient alone is a use of the call, too
      near(df.run(l.moving_mean), e.mean)
      local still = l(x)
      near(df.run(still), df.run((x - l.moving_mean) * df.rsqrt(l.moving_variance + 1e-3) * l.gamma + l.beta))
      near(df.run(l.moving_mean), e.mean)
    end)
  end

  it('over the batch asks at run time whether it is training', function()
    local on, l = df.placeholder('bool', {}), df.nn.BatchNorm{ momentum = 0.5 }
    local x = df.float32{ { 1, 2 }, { 3, 6 } }
    local y = l(x, { training = on })
    assert.same({ 2, 2 }, y.shape)
    near(df.run(y, { [on] = false }), { { 1, 2 }, { 3, 6 } }, { rtol = 1e-3 })
    near(df.run(y, { [on] = true }), { { -1, -1 }, { 1, 1 } }, { rtol = 1e-3 })
    near(df.run(l.moving_mean), { 1, 2 })
    local _, last = df.while_loop(function(i) return i:lt(3) end, function(i) return i + 1, l(x, { training = true }) end, { df.int32(0), x })
    df.run(last)
    near(df.run(l.moving_mean), { 1.875, 3.75 })
    assert.equal(2, #l:parameters())
  end)

  it('over features and groups is what TensorFlow makes it', function()
    local x = fed({ 3, 5 }, 1)
    local l = df.nn.LayerNorm{ gamma_initializer = numbers({ 5 }, 2), beta_initializer = numbers({ 5 }, 3) }
    local y = l(x)
    near(df.run{ y = y, dx = grads(y, x) }, expected.layer_norm, { atol = 1e-4 })
    x = fed({ 2, 3, 2, 6 }, 1)
    l = df.nn.GroupNorm{ groups = 3, gamma_initializer = numbers({ 6 }, 2), beta_initializer = numbers({ 6 }, 3) }
    y = l(x)
    near(df.run{ y = y, dx = grads(y, x) }, expected.group_norm, { atol = 1e-4 })
    x = df.float32{ { 3, 4 } }
    near(df.run(df.nn.RMSNorm{}(x)), { { 3 / math.sqrt(12.5), 4 / math.sqrt(12.5) } })
    assert.matches('6 channels, which 4 groups do not divide', message_of(df.nn.GroupNorm{ groups = 4 }, df.ones{ 1, 6 }))
  end)
end)

describe('attention', function()
  --- MultiHeadAttention with the numbers that the script gave its parts.
  local function layer()
    local l = df.nn.MultiHeadAttention(2, 6)
    for i, name in ipairs{ 'query', 'key', 'value', 'output' } do
      l[name].kernel_initializer, l[name].bias_initializer = numbers({ 6, 6 }, 8 + 2 * i), numbers({ 6 }, 9 + 2 * i)
    end
    return l
  end

  it('of several heads drops weights in training alone, and says what causal is', function()
    local x = fed({ 2, 3, 6 }, 1)
    local l = df.nn.MultiHeadAttention(2, 6, { dropout = 0.5 })
    local still, trained = l(x), l(x, { training = true })
    local a, b, c = df.run(still):totable(), df.run(still):totable(), df.run(trained):totable()
    assert.same(a, b)
    assert.not_same(a, c)
    assert.matches('causal is true or false, not the number 1', message_of(l, x, { causal = 1 }), 1, true)
  end)

  it('of several heads is what TensorFlow makes it', function()
    local mask = df.bool{ { { true, true, false, true }, { false, true, true, true }, { true, false, false, false } },
                          { { true, false, true, false }, { true, true, false, false }, { false, true, true, true } } }
    local x, m = fed({ 2, 3, 6 }, 1), fed({ 2, 4, 6 }, 2)
    near(df.run(layer()(x, m, m, { mask = mask })), expected.attention.y, { atol = 1e-4 })
    local y = fed({ 2, 4, 6 }, 1)
    near(df.run(layer()(y, y, y, { causal = true })), expected.causal.y, { atol = 1e-4 })
    near(df.run(layer()(y, { causal = true })), expected.causal.y, { atol = 1e-4 })
  end)

  it('gives the same a step at a time, with a cache that grows in a loop, and the same gradients', function()
    local l, x = layer(), fed({ 2, 4, 6 }, 1)
    local rows = df.TensorArray('float32', 4):unstack(df.transpose(x, { 1, 0, 2 }))
    local cache = { 2, 2, -1, 3 }
    local _, out = df.while_loop(function(t) return t:lt(4) end, function(t, out, c)
      local y, longer = l(rows:read(t):expand_dims(1), nil, nil, { causal = true, cache = c })
      return t + 1, out:write(t, df.squeeze(y, 1)), longer
    end, { df.int32(0), df.TensorArray('float32', 4), l:empty_cache(2) }, { shape_invariants = { [3] = { keys = cache, values = cache } } })
    local y = df.transpose(out:stack(), { 1, 0, 2 })
    local whole = l(x, { causal = true })
    near(df.run(y), expected.causal.y, { atol = 1e-4 })
    near(df.run(grads(y:set_shape{ 2, 4, 6 }, { x, l.query.kernel })), df.run(grads(whole, { x, l.query.kernel })), { atol = 1e-4, rtol = 1e-4 })
    assert.equal(8, #l:parameters())
  end)

  it('says which mask or cache does not fit', function()
    local l, x = df.nn.MultiHeadAttention(2, 6, { name = 'a' }), df.ones{ 2, 4, 6 }
    assert.matches("MultiHeadAttention 'a': the mask is float32%[4,4%], a bool is expected", message_of(l, x, x, x, { mask = df.ones{ 4, 4 } }))
    assert.matches('the mask is bool%[3,4%], which does not fit the scores float32%[2,2,4,4%]', message_of(l, x, x, x, { mask = df.ones{ 3, 4 }:gt(0) }))
    assert.matches('the mask is bool%[4%]', message_of(l, x, x, x, { mask = df.ones{ 4 }:gt(0) }))
    assert.matches("the cache's keys are float32%[2,4,6%], %[batch, 2, time, 3%] is expected", message_of(l, x, x, x, { cache = { keys = x, values = x } }))
    assert.matches('have different numbers of examples', message_of(l, x, df.ones{ 3, 4, 6 }))
    assert.matches('its query is float32%[4,6%]', message_of(l, df.ones{ 4, 6 }))
  end)

  it('also adds, or is plain; a block learns to look back', function()
    local q, k = df.random_normal({ 2, 5 }, { seed = 1 }), df.random_normal({ 2, 4, 3 }, { seed = 2 })
    local y, w = df.nn.AdditiveAttention(7)(df.Variable(q), df.Variable(k))
    assert.same({ 2, 3 }, y.shape)
    near(df.run(df.reduce_sum(w, { axis = 1 })), { 1, 1 })
    local a, weights = df.nn.attention(df.ones{ 2, 3, 4 }, df.ones{ 2, 5, 4 }, df.ones{ 2, 5, 6 })
    assert.same({ 2, 3, 6 }, a.shape)
    near(df.run(weights):at(0, 0, 0), 0.2)
    df.set_random_seed(2)
    local block = df.nn.TransformerBlock(2, 8, { causal = true })
    local x = df.Variable(df.random_normal({ 8, 6, 8 }, { seed = 3 }), { trainable = false })
    local shifted = df.pad(x:slice({ 0, 0, 0 }, { 8, 5, 8 }), { { 0, 0 }, { 1, 0 }, { 0, 0 } })
    local loss = df.reduce_mean(df.square(block(x) - shifted))
    local step = df.train.Adam(0.01):minimize(loss)
    local before = df.run(loss)
    for _ = 1, 40 do df.run(step) end
    assert.is_true(df.run(loss) < 0.5 * before)
  end)

  it('has the gelu that TensorFlow has', function()
    local x = df.constant(numbers({ 7 }, 1, 3))
    near(df.run{ exact = df.nn.gelu(x), fast = df.nn.gelu(x, { approximate = true }) }, expected.gelu)
  end)
end)
