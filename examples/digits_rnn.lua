-- digits_rnn.lua: an LSTM reads handwritten digits row by row and learns to name them.
--
-- The recurrence is a while_loop over the rows, its input and state in TensorArrays and loop variables; the training
-- signal is the gradient through that loop. The data are 8×8 digits (examples/data); MNIST's files work the same.
-- Look at :frames while it learns: the loop and the loop of its gradient, and with :stacks at what the one saved for the other:
--
--   dflow examples/digits_rnn.lua [train-images train-labels test-images test-labels] [epochs=N] [curve.svg]
local df = require 'dflow'

local here = debug.getinfo(1, 'S').source:match('^@(.*)/') or '.'
local files, EPOCHS, SVG = {}, 30, nil
for _, a in ipairs{ ... } do
  local n = a:match('^epochs=(%d+)$')
  if n then EPOCHS = tonumber(n) elseif a:find '%.svg$' then SVG = a else files[#files + 1] = a end
end
local function read(i, name) return df.data.idx(files[i] or here .. '/data/' .. name .. '-ubyte.gz') end
local train_x, train_y = read(1, 'train-images-idx3'), read(2, 'train-labels-idx1')
local test_x, test_y = read(3, 't10k-images-idx3'), read(4, 't10k-labels-idx1')

local HIDDEN, BATCH, NOISE = 64, 32, 0.2
local COUNT, ROWS, COLUMNS = df.unpack(train_x.shape)
df.set_random_seed(7)

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

--- pixels float32[n, rows, columns] -> logits float32[n, 10]
local function classify(pixels)
  local n = pixels.shape[1]
  local rows = df.TensorArray('float32', ROWS):unstack(df.transpose(pixels, { 1, 0, 2 }))
  local zero = df.fill({ n, HIDDEN }, df.float32(0))
  local _, state = df.while_loop(
    function(row) return row:lt(ROWS) end,
    function(row, state) return row + 1, lstm(rows:read(row), state) end,
    { df.int32(0), { c = zero, h = zero } })
  return df.matmul(state.h, V) + d
end

-- ---- training: what is read is a little blurred by noise, so that it is not learnt by heart ----
local images = df.placeholder('uint8', { BATCH, ROWS, COLUMNS }, 'images')
local labels = df.placeholder('uint8', { BATCH }, 'labels')
local rate = df.placeholder('float32', {}, 'rate')
local pixels = df.cast(images, 'float32') / 255 + NOISE * df.random_normal({ BATCH, ROWS, COLUMNS })
local loss = df.reduce_mean(
  df.sparse_softmax_cross_entropy_with_logits(classify(pixels), df.cast(labels, 'int32')))
local step = df.train.Adam{ learning_rate = rate, clip_norm = 5 }:minimize(loss)

local guesses = df.argmax(classify(df.cast(df.constant(test_x), 'float32') / 255), 1)
local right = df.equal(df.cast(guesses, 'uint8'), df.constant(test_y))
local accuracy = df.reduce_mean(df.cast(right, 'float32'))

print(('%d digits to learn from, %d held out, %d×%d pixels'):format(COUNT, test_x.shape[1], ROWS, COLUMNS))
local curve = {}
for epoch = 1, EPOCHS do
  local total, steps = 0, 0
  for n, x, y in df.data.batches({ train_x, train_y }, BATCH, { seed = epoch }) do
    local now = df.run({ loss = loss, step = step }, { [images] = x, [labels] = y, [rate] = 0.01 * 0.9 ^ (epoch - 1) })
    total, steps = total + now.loss, n
  end
  curve[epoch] = 100 * df.run(accuracy)
  print(('epoch %2d  loss %.4f  held out %5.1f %%  %5.1f s'):format(epoch, total / steps, curve[epoch], os.clock()))
end
local plot = df.plot(curve, { title = '% of the held-out digits', xlabel = 'epoch' })
print(plot:text{ columns = 72, rows = 12 })
if SVG then plot:save(SVG) end

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
print(('\n%.1f %% of the held-out digits named right'):format(curve[EPOCHS]))
