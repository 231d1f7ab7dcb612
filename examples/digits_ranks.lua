-- digits_ranks.lua: one network, its data on several processes: each takes a part of every batch, and one step takes the mean.
--
--   dflow examples/digits_ranks.lua [ranks=N] [epochs=N]          rank 0 is this process; the others are started here
--
-- The layers are made once, and live here; `df.train.replicate` calls the loss once for each rank, under its device. The step is that of
-- one process with the whole batch, so any number of ranks learns the same.
local df = require 'dflow'
local here = debug.getinfo(1, 'S').source:match('^@(.*)/') or '.'
local RANKS, EPOCHS, BATCH = 3, 20, 96
for _, a in ipairs{ ... } do
  RANKS, EPOCHS = tonumber(a:match '^ranks=(%d+)$') or RANKS, tonumber(a:match '^epochs=(%d+)$') or EPOCHS
end
local function read(name) return df.data.idx(here .. '/data/' .. name .. '-ubyte.gz') end
local train_x, train_y = read 'train-images-idx3', read 'train-labels-idx1'
local test_x, test_y = read 't10k-images-idx3', read 't10k-labels-idx1'
local _, ROWS, COLUMNS = df.unpack(train_x.shape)
df.set_random_seed(7)
df.cluster.start(RANKS)

local net = df.nn.Sequential{ df.nn.Flatten(), df.nn.Dense(96, { activation = df.relu }), df.nn.Dense(10) }
local function pixels(images) return df.cast(images, 'float32') / 255 end
local guesses = df.argmax(net(pixels(df.constant(test_x))), 1)

local images, labels = df.placeholder('uint8', { BATCH, ROWS, COLUMNS }), df.placeholder('uint8', { BATCH })
local share = BATCH / RANKS
local model = df.train.replicate(RANKS, function(k)
  local x = df.slice(images, { (k - 1) * share, 0, 0 }, { share, -1, -1 })
  local y = df.slice(labels, { (k - 1) * share }, { share })
  return df.nn.sparse_softmax_cross_entropy(df.cast(y, 'int32'), net(pixels(x)))
end, { optimizer = df.train.Adam(0.004) })

for epoch = 1, EPOCHS do
  local total, steps = 0, 0
  for n, x, y in df.data.batches({ train_x, train_y }, BATCH, { seed = epoch }) do
    local now = df.run({ loss = model.loss, step = model.step }, { [images] = x, [labels] = y })
    total, steps = total + now.loss, n
  end
  if epoch % 5 == 0 or epoch == EPOCHS then print(('epoch %2d  loss %.4f'):format(epoch, total / steps)) end
end
for _, r in ipairs(df.cluster.ranks()) do
  if r.rank > 0 then print(('rank %d took %d messages and sent %d'):format(r.rank, r.sent.messages, r.received.messages)) end
end
local right = df.run(df.reduce_mean(df.cast(df.equal(guesses, df.cast(df.constant(test_y), 'int64')), 'float32')))
print(('%.1f %% of the held-out digits named right'):format(100 * right))
