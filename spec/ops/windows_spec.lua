--- Convolutions, pools and normalisations under the names of tf.nn. The shapes and sums are TensorFlow 2.15's: of each result the sum of
--- its elements times cos(1), cos(2), … (so that places count), and of their sizes.
local df = require 'dflow'
local support = require 'spec.support'
local message_of = support.message_of
local nn = df.nn

local function ramp(n, shape, by, from) return df.reshape(df.range(n):cast('float32') * by + (from or 0), shape) end

--- Holds where a result has this shape and these two sums.
local function gives(y, shape, turned, size)
  assert.same(shape, df.run(df.shape(y)):totable())
  local a, b = 0, 0
  for i, v in ipairs(df.run(df.reshape(y, { -1 })):totable()) do a, b = a + v * math.cos(i), b + math.abs(v) end
  assert.near(turned, a, 2e-6 * size)
  assert.near(size, b, 2e-6 * size)
end

describe('of tf.nn', function()
  local x, w, y, x1, w1, y1, m, v, off, sc
  before_each(function()
    x, w, y = ramp(120, { 2, 5, 6, 2 }, 0.01, -0.5), ramp(54, { 3, 3, 2, 3 }, 0.02, -0.4), ramp(54, { 2, 3, 3, 3 }, 0.01)
    x1, w1, y1 = ramp(28, { 2, 7, 2 }, 0.05, -0.5), ramp(18, { 3, 2, 3 }, 0.1, -0.5), ramp(24, { 2, 4, 3 }, 0.1)
    m, v, off, sc = df.constant{ 0.1, -0.2 }, df.constant{ 0.5, 0.3 }, df.constant{ 0.2, 0.1 }, df.constant{ 1.5, -0.5 }
  end)

  it('the gradients of conv2d are ops of their own', function()
    gives(nn.conv2d_transpose(y, w, { 2, 5, 6, 2 }, { strides = 2, padding = 'SAME' }), { 2, 5, 6, 2 }, 1.713318, 16.3128)
    gives(nn.conv2d_backprop_input({ 2, 5, 6, 2 }, w, y, { 1, 2, 2, 1 }, 'SAME'), { 2, 5, 6, 2 }, 1.713318, 16.3128)
    gives(nn.conv2d_backprop_filter(x, { 3, 3, 2, 3 }, y, { 2, 2 }, 'SAME'), { 3, 3, 2, 3 }, -1.799373, 50.98859)
    gives(nn.atrous_conv2d_transpose(ramp(12, { 2, 1, 2, 3 }, 0.1), w, { 2, 5, 6, 2 }, 2, 'VALID'), { 2, 5, 6, 2 }, 0.4030126, 33.988)
  end)

  it('windows move along one axis', function()
    gives(nn.conv1d(x1, w1, 2, 'SAME'), { 2, 4, 3 }, 1.534541, 16.03)
    gives(nn.conv1d(x1, w1, { 1, 2, 1 }, 'SAME'), { 2, 4, 3 }, 1.534541, 16.03)
    gives(nn.conv1d(x1, w1, 1, 'VALID', { dilations = { 2 } }), { 2, 3, 3 }, 0.1392493, 16.29)
    gives(nn.conv1d_transpose(y1, w1, { 2, 7, 2 }, 2, 'SAME'), { 2, 7, 2 }, 0.4802066, 43.02)
    gives(nn.max_pool1d(x1, 3, 2, 'SAME'), { 2, 4, 2 }, -0.4575276, 6.2)
    gives(nn.avg_pool1d(x1, 3, 2, 'SAME'), { 2, 4, 2 }, -0.470044, 5.9)
  end)

  it('windows move through volumes', function()
    local v, f = ramp(360, { 2, 3, 5, 6, 2 }, 0.005, -0.5), ramp(108, { 2, 3, 3, 2, 3 }, 0.01, -0.4)
    local dy, z = ramp(108, { 2, 2, 3, 3, 3 }, 0.01), df.sin(v * 40)
    local function pooled(pool, x3) return pool(x3, { 2, 3, 2 }, { 1, 2, 2 }, 'SAME') end
    gives(nn.conv3d(v, f, 2, 'SAME'), { 2, 2, 3, 3, 3 }, 0.87234147, 171.77399)
    gives(nn.conv3d(v, f, { strides = { 1, 1, 2, 1, 1 }, padding = 'VALID' }), { 2, 2, 2, 4, 3 }, 8.7196711, 351.82076)
    gives(nn.conv3d_transpose(dy, f, { 2, 3, 5, 6, 2 }, 2), { 2, 3, 5, 6, 2 }, -4.0817581, 210.827)
    gives(df.gradients(nn.conv3d(v, f, 2, 'SAME'), f, { grad_ys = dy }), { 2, 3, 3, 2, 3 }, -8.2172154, 700.24585)
    gives(pooled(nn.max_pool3d, v), { 2, 3, 3, 3, 2 }, 1.7694954, 70.709997)
    gives(pooled(nn.avg_pool3d, v), { 2, 3, 3, 3, 2 }, 1.7379432, 61.069998)
    gives(nn.avg_pool3d(v, { 2, 3, 2 }, { 1, 2, 2 }, 'VALID'), { 2, 2, 2, 3, 2 }, -0.47132871, 23.94)
    for pool, sums in pairs{ [nn.max_pool3d] = { -23.265268, 180.10518 }, [nn.avg_pool3d] = { 0.16813306, 37.875982 } } do
      gives(df.gradients(df.reduce_sum(df.square(pooled(pool, z))), z), { 2, 3, 5, 6, 2 }, sums[1], sums[2])
    end
  end)

  it('volumes whose sizes are told when it runs are convolved, and what does not fit is said then', function()
    local v, f = df.placeholder 'float32', df.placeholder 'float32'
    local z = nn.max_pool3d(nn.conv3d(v, f, 1, 'SAME'), 2, 2, 'VALID')
    local g = df.gradients(df.reduce_sum(z), { v, f })
    local function run(x_shape, f_shape) return df.run({ z, g[1], g[2] }, { [v] = df.ones(x_shape):eval(), [f] = df.ones(f_shape):eval() }) end
    local r = run({ 1, 4, 5, 6, 2 }, { 3, 3, 3, 2, 1 })
    assert.same({ { 1, 2, 2, 3, 1 }, { 1, 4, 5, 6, 2 }, { 3, 3, 3, 2, 1 } }, { r[1].shape, r[2].shape, r[3].shape })
    assert.matches('the input is float32%[1,4,5,2%]: expected rank 5', message_of(run, { 1, 4, 5, 2 }, { 3, 3, 3, 2, 1 }))
    assert.matches('the input has 2 channels, the filter is for 5', message_of(run, { 1, 4, 4, 4, 2 }, { 3, 3, 3, 5, 1 }), 1, true)
    local function wrong(...) return message_of(nn.conv3d, df.ones{ 1, 4, 4, 4, 2 }, ...) end
    assert.matches('strides has 4 numbers, one for each of the 5 axes', wrong(df.ones{ 3, 3, 3, 2, 1 }, { 1, 1, 1, 1 }, 'SAME'), 1, true)
    assert.matches('a window that reaches over 6 does not fit into 4', wrong(df.ones{ 6, 3, 3, 2, 1 }, 1, 'VALID'), 1, true)
    local second = nn.conv3d(df.ones{ 1, 2, 4, 4, 4 }, df.ones{ 3, 3, 3, 2, 1 }, 1, 'SAME', 'NCDHW')
    assert.matches('data_format NCDHW is not supported on the CPU: it must be NDHWC', message_of(df.run, second), 1, true)
  end)

  it('the rank says along how many axes', function()
    local v = ramp(360, { 2, 3, 5, 6, 2 }, 0.005, -0.5)
    gives(nn.convolution(v, ramp(108, { 2, 3, 3, 2, 3 }, 0.01, -0.4), 'SAME', 2), { 2, 2, 3, 3, 3 }, 0.87234147, 171.77399)
    gives(nn.conv_transpose(ramp(108, { 2, 2, 3, 3, 3 }, 0.01), ramp(108, { 2, 3, 3, 2, 3 }, 0.01, -0.4), { 2, 3, 5, 6, 2 }, 2), { 2, 3, 5, 6, 2 },
          -4.0817581, 210.827)
    gives(nn.pool(v, { 2, 3, 2 }, 'AVG', { strides = { 1, 2, 2 } }), { 2, 2, 2, 3, 2 }, -0.47132871, 23.94)
    gives(nn.convolution(x1, w1, 'SAME', { strides = { 2 } }), { 2, 4, 3 }, 1.534541, 16.03)
    gives(nn.convolution(x, w, { dilation_rate = { 2, 2 } }), { 2, 1, 2, 3 }, -0.7023838, 15.8328)
    gives(nn.conv_transpose(y1, w1, { 2, 7, 2 }, 2), { 2, 7, 2 }, 0.4802066, 43.02)
    gives(nn.pool(x, { 2, 3 }, 'AVG', { strides = { 2, 1 } }), { 2, 2, 4, 2 }, 0.8381696, 9.6)
    gives(nn.pool(x1, 2, 'MAX', 'SAME'), { 2, 7, 2 }, -0.08236755, 10.9)
    gives(nn.max_pool2d(x, 2, 2, 'VALID') - nn.max_pool(x, { ksize = 2, strides = { 1, 2, 2, 1 }, padding = 'VALID' }), { 2, 2, 3, 2 }, 0, 0)
    gives(nn.avg_pool2d(x, { 2, 3 }, { 2, 1 }, 'VALID'), { 2, 2, 4, 2 }, 0.8381696, 9.6)
  end)

  it('what is given is normalised by what is given', function()
    gives(nn.batch_normalization(x, m, v, off, sc, 1e-3), { 2, 5, 6, 2 }, -0.1132417, 56.94773)
    gives(nn.batch_normalization(x, m, v, false, false, 1e-3), { 2, 5, 6, 2 }, 1.529471, 66.44131)
    gives(nn.batch_norm_with_global_normalization(x, m, v, off, sc, 1e-3, true), { 2, 5, 6, 2 }, -0.1132417, 56.94773)
    gives(nn.batch_norm_with_global_normalization(x, m, v, off, sc, 1e-3, false), { 2, 5, 6, 2 }, 1.60782, 70.93089)
    local a, mean, variance = nn.fused_batch_norm(x, sc, off)
    gives(a, { 2, 5, 6, 2 }, 0.02806199, 104.3032)
    gives(mean, { 2 }, 0.007012514, 0.19)
    gives(variance, { 2 }, 0.01514697, 0.244)
    gives((nn.fused_batch_norm(x, sc, off, m, v, { is_training = false })), { 2, 5, 6, 2 }, -0.1132417, 56.94773)
  end)

  it('halves are normalised by channels of float32, and their gradients are halves', function()
    for _, dtype in ipairs{ 'float16', 'bfloat16' } do
      local h, scale = df.cast(x, dtype), df.constant(df.run(df.cast(sc, 'float32')))
      local y, mean, variance = nn.fused_batch_norm(h, scale, off)
      local expected, of, other = nn.fused_batch_norm(df.cast(h, 'float32'), scale, off)
      assert.same({ dtype, 'float32', 'float32' }, { y.dtype, mean.dtype, variance.dtype })
      local found = df.run{ df.cast(y, 'float32'), df.cast(df.cast(expected, dtype), 'float32'), mean, of, variance, other }
      for i = 1, 6, 2 do assert.same(found[i + 1]:totable(), found[i]:totable()) end
      local g = df.gradients(df.reduce_sum(df.square(df.cast(y, 'float32'))), { h, scale })
      assert.same({ dtype, 'float32' }, { g[1].dtype, g[2].dtype })
      assert.equal(dtype, (nn.fused_batch_norm(h, scale, off, m, v, { is_training = false })).dtype)
    end
  end)

  it('activations have the names that users know', function()
    gives(nn.swish(x1), { 2, 7, 2 }, -0.09755544, 6.037802)
    gives(nn.silu(x1, 2.0), { 2, 7, 2 }, -0.1573907, 6.69358)
    gives(nn.crelu(x1), { 2, 7, 4 }, -1.217227, 10.4)
    gives(nn.crelu(x1, 1), { 2, 14, 2 }, -1.246687, 10.4)
    gives(nn.xw_plus_b(x1[0], w1[0], { 1, 2, 3 }), { 7, 3 }, -1.619817, 43.995)
  end)

  it('gradients flow through all of them', function()
    local filter = df.Variable(df.ones{ 3, 2, 3 })
    local loss = df.reduce_sum(nn.swish(nn.batch_normalization(nn.conv1d(x1, filter, 2, 'SAME'), 0.1, 2, false, { 1, 2, 3 }, 0.001)))
    local g = df.gradients(loss, { x1, filter })
    assert.same({ { 2, 7, 2 }, { 3, 2, 3 } }, { g[1].shape, g[2].shape })
    assert.is_true(df.run(df.reduce_sum(df.abs(g[2]))) > 1)
  end)

  it('a window, a stride and a dilation is one number, two, or four', function()
    local expected = df.run(df.conv2d(x, w, { strides = { 1, 2, 2, 1 }, padding = 'SAME' })):totable()
    for _, strides in ipairs{ 2, { 2 }, { 2, 2 } } do
      assert.same(expected, df.run(df.conv2d(x, w, { strides = strides, padding = 'SAME' })):totable())
      assert.same(expected, df.run(df.conv2d(x, w, strides, 'SAME')):totable())
    end
    assert.same({ 2, 1, 2, 3 }, df.conv2d(x, w, { strides = 1, dilations = 2, padding = 'VALID' }).shape)
    assert.matches('strides has 3 numbers', message_of(df.conv2d, x, w, { strides = { 1, 2, 3 }, padding = 'SAME' }), 1, true)
  end)

  it('what is wrong is told', function()
    assert.matches('conv1d: the input is of rank 4, [batch, width, channels] are expected', message_of(nn.conv1d, x, w1, 1, 'SAME'), 1, true)
    assert.matches('conv1d: stride is table, a whole number is expected', message_of(nn.conv1d, x1, w1, { 1, 2 }, 'SAME'), 1, true)
    assert.matches("pooling_type is the string \"MIN\", 'MAX' or 'AVG' is expected", message_of(nn.pool, x, 2, 'MIN'), 1, true)
    assert.matches('is of rank 1, [batch, width, channels],', message_of(nn.pool, { 1.0 }, 2, 'MAX'), 1, true)
    assert.matches('mean is missing', message_of(nn.fused_batch_norm, x, sc, off, { is_training = false }), 1, true)
    assert.matches('conv1d_transpose: output_shape is table, three numbers are expected: [batch, width, channels]',
                   message_of(nn.conv1d_transpose, x1, w1, { 2, 7 }, 2), 1, true)
    assert.matches('epsilon is the string "a", a number is expected', message_of(nn.fused_batch_norm, x, sc, off, { epsilon = 'a' }), 1, true)
  end)
end)
