-- quantized.lua: what reads digits in floats, reads them in bytes: a LeNet and an LSTM, trained, then quantised by df.quantize_model.
--
-- The ranges come from runs over some of the training digits. The table says how many held-out digits each names right, how many bytes its file has,
-- and the processor time of a digit, the median of many runs turn about; then the same for nets so wide that the arithmetic is what takes the time:
--
--   dflow examples/quantized.lua [epochs=N] [wide=no]
local df = require 'dflow'
local here = debug.getinfo(1, 'S').source:match('^@(.*)/') or '.'
local options = { epochs = 8, wide = 'yes' }
for _, a in ipairs{ ... } do
  local key, value = a:match '^(%w+)=(%w+)$'
  options[key or a] = value
end
local function read(name) return df.data.idx(here .. '/data/' .. name .. '-ubyte.gz') end
local train_x, train_y = read 'train-images-idx3', read 'train-labels-idx1'
local test_x, test_y = read 't10k-images-idx3', read 't10k-labels-idx1'
local HELD = test_x.shape[1]
df.set_random_seed(7)

-- ---- nets: pixels float32[n, 8, 8] to logits; `wide` times as many channels or units ----
local nets = {}
function nets.CNN(wide)
  local net = df.nn.Sequential{
    df.nn.Conv2D(16 * wide, 3, { padding = 'SAME', use_bias = false }), df.nn.BatchNorm{}, df.relu, df.nn.MaxPool2D(2),
    df.nn.Conv2D(32 * wide, 3, { padding = 'SAME', use_bias = false }), df.nn.BatchNorm{}, df.relu, df.nn.MaxPool2D(2),
    df.nn.Flatten(), df.nn.Dense(64 * wide, { activation = df.relu }), df.nn.Dense(10),
  }
  return function(pixels, training) return net(df.expand_dims(pixels, 3), training and { training = true }) end
end
function nets.LSTM(wide)
  local cell, out = df.rnn.LSTMCell(64 * wide), df.nn.Dense(10)
  return function(pixels)
    local _, state = df.rnn.dynamic_rnn(cell, pixels)
    return out(state.h)
  end
end

local BATCH = 32
local function train(net, epochs)
  local images, labels = df.placeholder('uint8', { BATCH, 8, 8 }), df.placeholder('uint8', { BATCH })
  local pixels = df.cast(images, 'float32') / 255 + 0.1 * df.random_normal{ BATCH, 8, 8 }
  local loss = df.nn.sparse_softmax_cross_entropy(df.cast(labels, 'int32'), net(pixels, true))
  local step = df.train.Adam(0.003):minimize(loss)
  for epoch = 1, epochs do
    for _, x, y in df.data.batches({ train_x, train_y }, BATCH, { seed = epoch }) do df.run(step, { [images] = x, [labels] = y }) end
  end
end

-- ---- both, beside each other ----
local scaled = df.run(df.cast(df.constant(test_x), 'float32') / 255)
local some = df.run(df.cast(df.slice(df.constant(train_x), { 0, 0, 0 }, { 256, 8, 8 }), 'float32') / 255)

local function right(logits, x)
  local guesses = logits:eval{ [x] = scaled }
  return 100 * df.run(df.reduce_mean(df.cast(df.equal(df.cast(df.argmax(df.constant(guesses), 1), 'uint8'), df.constant(test_y)), 'float32')))
end
local function file_bytes(outputs, g)
  local path = os.tmpname()
  df.export_graph_def(path, { outputs = outputs, graph = g, frozen = true })
  local f = assert(io.open(path, 'rb'))
  local size = f:seek 'end'
  f:close()
  os.remove(path)
  return size
end
--- Microseconds of processor time for each of n digits, of two graphs turn about: the medians.
local function times(pair, n)
  local digits, samples = df.run(df.slice(df.constant(scaled), { 0, 0, 0 }, { n, 8, 8 })), { {}, {} }
  for round = 1, 25 do
    for i, net in ipairs(pair) do
      local from = os.clock()
      for _ = 1, 4 do net.logits:eval{ [net.x] = digits } end
      if round > 3 then table.insert(samples[i], (os.clock() - from) / 4 / n * 1e6) end
    end
  end
  for i = 1, 2 do
    table.sort(samples[i])
    samples[i] = samples[i][math.ceil(#samples[i] / 2)]
  end
  return samples
end

local function compare(name, wide, epochs)
  local net = nets[name](wide)
  local x = df.placeholder('float32', { -1, 8, 8 })
  local plain = { x = x, logits = net(x) }
  if epochs > 0 then train(net, epochs) end
  local q = df.quantize_model(plain.logits, { feeds = { [x] = some } })
  local bytes = { x = q.inputs[1], logits = q.outputs[1] }
  local in_time, size, correct = times({ plain, bytes }, math.min(HELD, 128)), {}, {}
  for i, v in ipairs{ plain, bytes } do
    size[i] = file_bytes(v.logits, v.logits.graph)
    correct[i] = epochs > 0 and ('%6.2f'):format(right(v.logits, v.x)) or '     -'
  end
  print(('%-5s %2d times  %s %s   %8.1f %8.1f   %7.1f %7.1f  %5.2f'):format(name, wide, correct[1], correct[2], size[1] / 1000, size[2] / 1000, in_time[1],
                                                                         in_time[2], in_time[1] / in_time[2]))
  return q
end

print('                 right, %          file, kB           us a digit      times\n'
      .. 'net   as wide    float   bytes      float    bytes    float   bytes   as fast')
local last
for _, name in ipairs{ 'CNN', 'LSTM' } do last = compare(name, 1, tonumber(options.epochs)) end
if options.wide ~= 'no' then
  compare('CNN', 8, 0)
  compare('LSTM', 8, 0)
end
print('\nthe LSTM\'s ops of bytes:')
for _, op in ipairs(last.quantized) do print(('  %-24s %s'):format(op.name, op.op)) end
