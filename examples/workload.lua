-- workload.lua: what a step of training costs, of a network whose graph does not change (a LeNet) and of one that loops (an LSTM), by the size of the
-- batch, the width, the length of the sequence and the threads.
--
-- Both read the same digits: the LeNet whole, the LSTM row after row, as many times over as the length says. The time is the session's own
-- (s:stats().seconds), the best of several steps; work is the multiplications and additions of the products, forward and back. What to look at: how
-- many nodes a step runs, and how small they are; a loop runs its own again and again, and has no more than one iteration's work to do at once.
--
--   dflow examples/workload.lua [curve.svg]
local df = require 'dflow'
local here = (arg and arg[0] or 'examples/'):gsub('[^/]*$', '') .. 'data/'
local images, labels = df.data.idx(here .. 'train-images-idx3-ubyte.gz'), df.data.idx(here .. 'train-labels-idx1-ubyte.gz')

--- The loss of a LeNet on pixels [batch, 8, 8], and its work for each example.
local function lenet(pixels, truth, o)
  local n = o.width
  local net = df.nn.Sequential{ df.nn.Conv2D(n, 3, { padding = 'SAME', activation = df.relu }), df.nn.MaxPool2D(2),
                                df.nn.Conv2D(2 * n, 3, { padding = 'SAME', activation = df.relu }), df.nn.MaxPool2D(2), df.nn.Flatten(), df.nn.Dense(10) }
  return df.nn.sparse_softmax_cross_entropy(truth, net(df.expand_dims(pixels, 3))), 6 * (64 * 9 * n + 16 * 9 * n * 2 * n + 4 * 2 * n * 10)
end
--- The same of an LSTM that reads the rows.
local function lstm(pixels, truth, o)
  local x = df.tile(pixels, { 1, o.length / 8, 1 })
  local _, state = df.rnn.dynamic_rnn(df.rnn.LSTMCell(o.width), x)
  return df.nn.sparse_softmax_cross_entropy(truth, df.nn.Dense(10)(state.h)), 6 * (o.length * (8 + o.width) * 4 * o.width + 10 * o.width)
end

--- Seconds and nodes of a step, and its work for each example.
local function measure(model, o)
  local g = df.Graph()
  local loss, step, work
  g:as_default(function()
    df.set_random_seed(1)
    local x = df.constant(images:rows{ df.unpack(df.data.permutation(1437, 1), 1, o.batch) })
    local y = df.constant(labels:rows{ df.unpack(df.data.permutation(1437, 1), 1, o.batch) })
    loss, work = model(df.cast(x, 'float32') / 255, df.cast(y, 'int32'), o)
    step = df.train.Adam(0.001):minimize(loss)
  end)
  local s = df.Session{ graph = g, threads = o.threads }
  local best, nodes = math.huge, 0
  for k = 1, 12 do
    local before, ran = s:stats().seconds, s:stats().nodes_run
    s:run(step)
    if k > 3 then best, nodes = math.min(best, s:stats().seconds - before), s:stats().nodes_run - ran end
  end
  s:close()
  return best, nodes, work
end

local base = { batch = 32, width = 32, length = 8, threads = 1 }
local function sweep(what, values, models)
  local out = {}
  for name, model in pairs(models) do
    out[name] = {}
    for i, v in ipairs(values) do
      local o = {}
      for k, b in pairs(base) do o[k] = b end
      o[what] = v
      local seconds, nodes, work = measure(model, o)
      out[name][i] = { seconds = seconds, rate = o.batch * work / seconds / 1e9 }
      print(('%-6s batch %4d  width %4d  length %3d  threads %d: %8.3f ms, %6.0f nodes, %7.2f Gflop/s, %9.0f examples/s'):format(
        name, o.batch, o.width, o.length, o.threads, 1e3 * seconds, nodes, out[name][i].rate, o.batch / seconds))
    end
  end
  return out
end
local both = { LeNet = lenet, LSTM = lstm }
local batches, widths, lengths = { 1, 4, 16, 64, 256 }, { 8, 16, 32, 64, 128 }, { 8, 16, 32, 64, 128 }
local by_batch, by_width = sweep('batch', batches, both), sweep('width', widths, both)
local by_length, by_threads = sweep('length', lengths, { LSTM = lstm }).LSTM, sweep('threads', { 1, 2 }, both)

-- ---- in words ----
local function first_last(list, key) return list[1][key], list[#list][key] end
print()
for _, name in ipairs{ 'LeNet', 'LSTM' } do
  local a, b = first_last(by_batch[name], 'seconds')
  local slow, fast = first_last(by_width[name], 'rate')
  local one, two = first_last(by_threads[name], 'seconds')
  print(('%-5s  256 examples at once cost %.0f times one of them: %.1f times as cheap each. 16 times the width: %.1f times the work in a second.'):format(
    name, b / a, 256 * a / b, fast / slow))
  print(('       With a second thread a step of 32 examples takes %.2f times as long.'):format(two / one))
end
local short, long = first_last(by_length, 'seconds')
print(('LSTM   16 times as long a sequence takes %.1f times as long: each iteration waits for the one before, so more of them give no more at once.'):format(long / short))
local function gain(list) return 4 * list[4].seconds / list[5].seconds end
print(('\nFrom 64 examples at once to 256, LeNet does %.2f times as many in a second, LSTM %.2f times.'):format(gain(by_batch.LeNet), gain(by_batch.LSTM)))
local curves = {}
for name, list in pairs(by_batch) do
  curves[name] = {}
  for i, v in ipairs(list) do curves[name][i] = math.log(batches[i] / v.seconds) / math.log(10) end
end
local plot = df.plot.line({ 0, 2, 4, 6, 8 }, curves, { title = 'examples in a second (decimal logarithm)', xlabel = 'binary logarithm of the batch' })
print(plot:text{ columns = 72, rows = 12 })
if (...) then plot:save((...)) end
