-- digits_cnn.lua: a small LeNet reads handwritten digits: convolutions, batch normalisation, dropout.
--
-- The layers are made once and called twice, for training and for looking; the moving averages of the normalisation go on as an effect of the
-- training call. No loop is in it: look at what workload.lua says of such a net beside one that loops.
-- The data are 8×8 digits (examples/data); MNIST's files work the same:
--
--   dflow examples/digits_cnn.lua [train-images train-labels test-images test-labels] [epochs=N] [curve.svg]
local df = require 'dflow'
local here = debug.getinfo(1, 'S').source:match('^@(.*)/') or '.'
local files, EPOCHS, BATCH, SVG = {}, 40, 32, nil
for _, a in ipairs{ ... } do
  local n = a:match('^epochs=(%d+)$')
  if n then EPOCHS = tonumber(n) elseif a:find '%.svg$' then SVG = a else files[#files + 1] = a end
end
local function read(i, name) return df.data.idx(files[i] or here .. '/data/' .. name .. '-ubyte.gz') end
local train_x, train_y = read(1, 'train-images-idx3'), read(2, 'train-labels-idx1')
local test_x, test_y = read(3, 't10k-images-idx3'), read(4, 't10k-labels-idx1')
local COUNT, ROWS, COLUMNS = df.unpack(train_x.shape)
df.set_random_seed(7)

-- ---- the network ----
local net = df.nn.Sequential{
  df.nn.Conv2D(16, 3, { padding = 'SAME', use_bias = false }), df.nn.BatchNorm{}, df.relu, df.nn.MaxPool2D(2),
  df.nn.Conv2D(32, 3, { padding = 'SAME', use_bias = false }), df.nn.BatchNorm{}, df.relu, df.nn.MaxPool2D(2),
  df.nn.Flatten(), df.nn.Dense(64, { activation = df.relu }), df.nn.Dropout(0.4), df.nn.Dense(10),
}
--- uint8 [n, rows, columns] -> float32 [n, rows, columns, 1]
local function pixels(images) return df.expand_dims(df.cast(images, 'float32') / 255, 3) end

local images, labels = df.placeholder('uint8', { BATCH, ROWS, COLUMNS }), df.placeholder('uint8', { BATCH })
local noisy = pixels(images) + 0.1 * df.random_normal{ BATCH, ROWS, COLUMNS, 1 }
local loss = df.nn.sparse_softmax_cross_entropy(df.cast(labels, 'int32'), net(noisy, { training = true }))
local rate = df.placeholder('float32', {})
local train = df.train.Adam(rate):minimize(loss)

local guesses = df.argmax(net(pixels(df.constant(test_x))), 1)
local right, so_far, anew = df.nn.metrics.accuracy(df.cast(df.constant(test_y), 'int64'), guesses)
print(net)

print(('%d digits to learn from, %d held out, %d×%d pixels'):format(COUNT, test_x.shape[1], ROWS, COLUMNS))
local curve = {}
for epoch = 1, EPOCHS do
  local total, steps = 0, 0
  for n, x, y in df.data.batches({ train_x, train_y }, BATCH, { seed = epoch }) do
    local now = df.run({ loss = loss, train = train }, { [images] = x, [labels] = y, [rate] = 0.004 * 0.05 ^ (epoch / EPOCHS) })
    total, steps = total + now.loss, n
  end
  df.run(anew)                -- the accuracy of this epoch alone
  df.run(so_far)
  curve[epoch] = 100 * df.run(right)
  if epoch % 5 == 0 or epoch == EPOCHS then
    print(('epoch %2d  loss %.4f  held out %5.1f %%  %5.1f s'):format(epoch, total / steps, curve[epoch], os.clock()))
  end
end
local plot = df.plot(curve, { title = '% of the held-out digits', xlabel = 'epoch' })
print(plot:text{ columns = 72, rows = 12 })
if SVG then plot:save(SVG) end
print(('%.1f %% of the held-out digits named right'):format(curve[EPOCHS]))
