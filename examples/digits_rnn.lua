-- digits_rnn.lua: an LSTM reads handwritten digits row by row and learns to name them.
--
-- The recurrence is a while_loop over the rows, its input and state in TensorArrays and loop variables; the training
-- signal is the gradient through that loop. The data are 8×8 digits (examples/data); MNIST's files work the same:
--
--   dflow examples/digits_rnn.lua [train-images train-labels test-images test-labels] [epochs=N]
local df = require 'dflow'

local here = debug.getinfo(1, 'S').source:match('^@(.*)/') or '.'
local files, EPOCHS = {}, 24
for _, a in ipairs{ ... } do
  local n = a:match('^epochs=(%d+)$')
  if n then EPOCHS = tonumber(n) else files[#files + 1] = a end
end
local function read(i, name) return df.data.idx(files[i] or here .. '/data/' .. name .. '-ubyte.gz') end
local train_x, train_y = read(1, 'train-images-idx3'), read(2, 'train-labels-idx1')
local test_x, test_y = read(3, 't10k-images-idx3'), read(4, 't10k-labels-idx1')

local HIDDEN, BATCH = 64, 32
local COUNT, ROWS, COLUMNS = train_x.shape[1], train_x.shape[2], train_x.shape[3]
df.set_random_seed(7)
math.randomseed(7)

-- ---- the model ----
local function weights(rows, columns, name)
  return df.Variable(df.random_normal({ rows, columns }) * (1 / math.sqrt(rows)), { name = name })
end
local W = weights(COLUMNS + HIDDEN, 4 * HIDDEN, 'W')
local b = df.Variable(df.fill({ 4 * HIDDEN }, df.float32(0)), { name = 'b' })
local V = weights(HIDDEN, 10, 'V')
local d = df.Variable(df.fill({ 10 }, df.float32(0)), { name = 'd' })

local function lstm(x, s)
  local z = df.matmul(df.concat({ x, s.h }, 1), W) + b
  local input, new, forget, output = df.unpack(df.split(z, 4, { axis = 1 }))
  local c = s.c * df.sigmoid(forget + 1) + df.sigmoid(input) * df.tanh(new)
  return { c = c, h = df.tanh(c) * df.sigmoid(output) }
end

--- images uint8[n, rows, columns] -> logits float32[n, 10]
local function classify(images, n)
  local pixels = df.cast(images, 'float32') / 255
  local rows = df.TensorArray('float32', ROWS):unstack(df.transpose(pixels, { 1, 0, 2 }))
  local zero = df.fill({ n, HIDDEN }, df.float32(0))
  local _, state = df.while_loop(
    function(row) return row:lt(ROWS) end,
    function(row, state) return row + 1, lstm(rows:read(row), state) end,
    { df.int32(0), { c = zero, h = zero } })
  return df.matmul(state.h, V) + d
end

-- ---- training: the images are constants of the graph, a step is fed the numbers of its batch ----
local batch = df.placeholder('int32', { BATCH }, 'batch')
local images, labels = df.constant(train_x), df.cast(df.constant(train_y), 'int32')
local losses = df.sparse_softmax_cross_entropy_with_logits(
  classify(df.gather(images, batch), BATCH), df.gather(labels, batch))
local loss = df.reduce_mean(losses)
local rate = df.placeholder('float32', {}, 'rate')
local step = df.train.Adam{ learning_rate = rate, clip_norm = 5 }:minimize(loss)

local guesses = df.argmax(classify(df.constant(test_x), test_x.shape[1]), 1)
local right = df.equal(df.cast(guesses, 'int32'), df.cast(df.constant(test_y), 'int32'))
local accuracy = df.reduce_mean(df.cast(right, 'float32'))

print(('%d digits to learn from, %d held out, %d×%d pixels'):format(COUNT, test_x.shape[1], ROWS, COLUMNS))
local order, started = {}, os.clock()
for i = 1, COUNT do order[i] = i - 1 end
for epoch = 1, EPOCHS do
  for i = COUNT, 2, -1 do
    local j = math.random(i)
    order[i], order[j] = order[j], order[i]
  end
  local total, steps = 0, 0
  for first = 1, COUNT - BATCH + 1, BATCH do
    local chosen = {}
    for i = 1, BATCH do chosen[i] = order[first + i - 1] end
    local now = df.run({ loss = loss, step = step }, { [batch] = chosen, [rate] = 0.01 * 0.88 ^ (epoch - 1) })
    total, steps = total + now.loss, steps + 1
  end
  print(('epoch %2d  loss %.4f  held out %5.1f %%  %5.1f s')
    :format(epoch, total / steps, 100 * df.run(accuracy), os.clock() - started))
end

-- ---- a look at some ----
local SHOWN = 6
local named = df.run(guesses)
print()
for row = 0, ROWS - 1 do
  local line = {}
  for k = 0, SHOWN - 1 do
    for column = 0, COLUMNS - 1 do
      local ink = 1 + math.floor(test_x:at(k, row, column) / 256 * 5)
      line[#line + 1] = (' .+#@'):sub(ink, ink):rep(ROWS > 16 and 1 or 2)
    end
  end
  print((table.concat(line):gsub('%s+$', '')))
end
local verdicts = {}
for k = 0, SHOWN - 1 do
  verdicts[#verdicts + 1] = ('%-16s'):format(('   a %d? (%d)'):format(named:at(k), test_y:at(k)))
end
print(table.concat(verdicts))
print(('\n%.1f %% of the held-out digits named right'):format(100 * df.run(accuracy)))
