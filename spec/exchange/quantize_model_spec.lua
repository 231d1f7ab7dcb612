--- df.quantize_model: what it makes of a graph computes in bytes, gives nearly what the graph gives, and is a file that reads back.
local df = require 'dflow'
local core = require 'dflow.backend'
local support = require 'spec.support'

local function raises(pattern, fn, ...) assert.matches(pattern, support.message_of(fn, ...)) end
local function random(shape, low, high, seed) return df.tensor(support.tensor(shape, low, high, 'float32', seed)) end
local function weights(shape, seed)
  local n = 1
  for k = 1, #shape - 1 do n = n * shape[k] end
  return df.Variable(df.constant(random(shape, -1, 1, seed)) / math.sqrt(n))
end
--- The greatest difference of two tensors, as a share of the first one's greatest number.
local function apart(a, b) return df.run(df.reduce_max(df.abs(df.constant(a) - df.constant(b))) / df.reduce_max(df.abs(df.constant(a)))) end
local function types(q)
  local count = {}
  for node = 0, q:size() - 1 do
    local name = core.node_type(q.handle, node)
    count[name] = (count[name] or 0) + 1
  end
  return count
end

--- Checks the graph that y becomes against y, on other feeds than those it saw, and once more out of a file; gives it.
local function check(y, x, opts)
  opts.feeds = opts.feeds or {}
  for i = 1, 3 do opts.feeds[i] = { [x] = random(opts.shape, opts.low or 0, 1, i) } end
  local q = df.quantize_model(y, { feeds = opts.feeds, skip = opts.skip })
  local value = random(opts.shape, opts.low or 0, 1, 9)
  local plain, ours = df.run(y, { [x] = value }), df.run(q.outputs[1], { [q.inputs[1]] = value })
  assert.same({ x.name, y.name, y.shape }, { q.inputs[1].name, q.outputs[1].name, q.outputs[1].shape })
  local away = apart(plain, ours)
  assert.is_true(away > 0 and away < (opts.within or 0.03), ('%g apart'):format(away))
  local path = os.tmpname()
  df.export_graph_def(path, { graph = q, outputs = q.outputs })
  local back = df.import_graph_def(path)
  os.remove(path)
  assert.same(ours:totable(), df.run(back:output(y.name), { [back:output(x.name)] = value }):totable())
  local again = df.quantize_model(y, { ranges = q.ranges, skip = opts.skip })
  assert.same(ours:totable(), df.run(again.outputs[1], { [again.inputs[1]] = value }):totable())
  return q, types(q)
end

describe('quantize_model', function()
  local window = { strides = { 1, 1, 1, 1 }, padding = 'SAME' }
  local tile = { ksize = { 1, 2, 2, 1 }, strides = { 1, 2, 2, 1 }, padding = 'VALID' }

  it('makes one op of bytes of each layer, and one quantisation of the whole net', function()
    local x = df.placeholder('float32', { -1, 8, 8, 3 }, 'x')
    local norm = df.nn.BatchNorm{}
    local h = df.relu(norm(df.conv2d(x, weights({ 3, 3, 3, 8 }, 1), window)))
    norm.moving_mean:load(support.tensor({ 8 }, -1, 1, 'float32', 5))
    norm.moving_variance:load(support.tensor({ 8 }, 0.1, 2, 'float32', 6))
    h = df.avg_pool(df.relu6(df.conv2d(df.max_pool(h, tile), weights({ 3, 3, 8, 16 }, 2), window) * 0.5 + random({ 16 }, 0, 1, 3)), tile)
    local y = df.matmul(df.relu(df.matmul(df.reshape(h, { -1, 64 }), weights({ 64, 32 }, 3))), weights({ 5, 32 }, 4), { transpose_b = true }) - 1
    local q, count = check(y, x, { shape = { 4, 8, 8, 3 } })
    assert.equal(4, #q.quantized)
    assert.same({ 1, nil, 2, 1, 1, 1, 1, 1 }, { count.QuantizeV2, count.Dequantize, count.QuantizedConv2DWithBiasAndReluAndRequantize,
      count.QuantizedMaxPool, count.QuantizedAvgPool, count.QuantizedReshape, count.QuantizedMatMulWithBiasAndReluAndRequantize,
      count.QuantizedMatMulWithBiasAndDequantize })
    for _, float in ipairs{ 'Conv2D', 'MatMul', 'Relu', 'MaxPool', 'Mul', 'Rsqrt' } do assert.is_nil(count[float]) end
  end)

  it('gives what is read as floats under its name, and joins branches of bytes', function()
    local x = df.placeholder('float32', { 2, 6, 6, 4 }, 'x')
    local a = df.relu(df.conv2d(x, weights({ 1, 1, 4, 3 }, 1), window))
    local b = df.relu(df.conv2d(x, weights({ 3, 3, 4, 5 }, 2), window))
    local c = df.conv2d(df.concat({ a, b }, -1), weights({ 3, 3, 8, 2 }, 3), window)
    local _, count = check(df.tanh(c) + df.reduce_sum(a, { axis = { 3 }, keep_dims = true }), x, { shape = { 2, 6, 6, 4 }, low = -1 })
    assert.same({ 1, 2, 1, 1, 1 }, { count.QuantizedConcat, count.Dequantize, count.QuantizeV2, count.Tanh, count.QuantizedConv2DWithBiasAndRequantize })
  end)

  it('quantises in loops and branches, whose ranges are those of all iterations', function()
    local x = df.placeholder('float32', { -1, 5, 4 }, 'x')
    local _, state = df.rnn.dynamic_rnn(df.rnn.LSTMCell(8), x)
    local w = weights({ 8, 3 }, 1)
    local y = df.cond(df.less(df.reduce_sum(x), 1e6), function() return df.matmul(state.h, w) + 1 end, function() return df.zeros_like(state.h):slice({ 0, 0 }, { -1, 3 }) end)
    local q, count = check(y, x, { shape = { 3, 5, 4 }, low = -1 })
    assert.equal(2, count.QuantizedMatMulWithBiasAndDequantize)
    assert.equal(2, #q.quantized)
    assert.is_not_nil(count.LoopCond)
  end)

  it('leaves what it is told to, and what it has no bytes for', function()
    local x = df.placeholder('float32', { -1, 6 }, 'x')
    local first = df.matmul(x, weights({ 6, 6 }, 1))
    local y = df.matmul(df.tanh(df.matmul(first, first, { transpose_a = true })), weights({ 6, 2 }, 2))
    local _, count = check(y, x, { shape = { 50, 6 }, low = -1, skip = function(name) return name == first.op.name end })
    assert.same({ 2, 1 }, { count.MatMul, count.QuantizedMatMulWithBiasAndDequantize })
  end)

  it('says what is wrong', function()
    local x = df.placeholder('float32', { 1, 2 }, 'x')
    local y = df.matmul(x, df.float32{ { 1 }, { 2 } })
    raises('the range of x:0 is not known: give `feeds`', df.quantize_model, y)
    raises('feeds has nothing to run', df.quantize_model, y, { feeds = {} })
    raises('x:0 is from inf', df.quantize_model, y, { feeds = { [x] = { { math.huge, math.huge } } } })
    raises('the range of x:0 is .*{least, greatest}', df.quantize_model, y, { ranges = { x = { 2, 1 } } })
    raises('nothing to quantise', df.quantize_model, x + 1, { ranges = {} })
    raises('skip is a function', df.quantize_model, y, { skip = 'x' })
    local z = df.cond(df.reduce_sum(x):gt(0), function() return y + 1 end, function() return df.matmul(df.tanh(x), df.float32{ { 1 }, { 2 } }) end)
    raises('Tanh:0 was never computed with these feeds', df.quantize_model, z, { feeds = { [x] = { { 1, 2 } } } })
  end)
end)
