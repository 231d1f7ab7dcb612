-- logistic.lua: logistic regression of handwritten digits by L-BFGS: one run, in which a while_loop searches along lines, in a while_loop of
-- directions, until the gradient is small; conjugate gradients beside it.
--
-- Neither loop knows how often it will go round: the data say when a line was searched enough, and when all is flat. Look at h:frames()
-- while it runs (`lbfgs`, `search` in it), or at the iterations that df.stats() counts.
--
--   dflow examples/logistic.lua [folder with MNIST's IDX files] [curve.svg]
local df = require 'dflow'
local folder = (...) or (arg and arg[0] or 'examples/'):gsub('[^/]*$', '') .. 'data'
local DECAY = 1e-3

local function read(name)
  local found, t = pcall(df.data.idx, folder .. '/' .. name .. '.gz')
  return found and t or df.data.idx(folder .. '/' .. name)
end
local function pixels(t)      -- [n, h * w + 1] from 0 to 1, with a one for the bias
  local n, h, w = df.unpack(t.shape)
  local x = df.reshape(df.cast(t, 'float32'), { n, h * w }) / 255
  return df.concat({ x, df.ones{ n, 1 } }, 1)
end
local images, labels = read 'train-images-idx3-ubyte', read 'train-labels-idx1-ubyte'
local x, y = pixels(images), df.cast(df.constant(labels), 'int32')
local test_x, test_y = pixels(read 't10k-images-idx3-ubyte'), df.cast(df.constant(read 't10k-labels-idx1-ubyte'), 'int32')
local features = x.shape[2]
print(('%d digits of %d pixels to learn from, %d to be tested on'):format(labels.size, features - 1, test_y.shape[1]))

local seen = df.FIFOQueue(-1, 'float32', { shapes = { {} } })          -- what the function was at each point where it was asked
local function loss(w)
  local fit = df.reduce_mean(df.sparse_softmax_cross_entropy_with_logits{ labels = y, logits = df.matmul(x, w) })
  local all = fit + 0.5 * DECAY * df.reduce_sum(df.square(w))
  seen:enqueue(df.stop_gradient(all))
  return all
end
local function accuracy(w, inputs, truth)
  return df.reduce_mean(df.cast(df.equal(df.cast(df.argmax(df.matmul(inputs, w), 1), 'int32'), truth), 'float32'))
end

local curves = {}
for _, name in ipairs{ 'lbfgs', 'conjugate_gradient' } do
  local w, value, iterations = df.train[name](loss, df.zeros{ features, 10 }, { max_iterations = 300, tolerance = 1e-4 })
  local began = os.clock()
  local got = df.run{ value = value, iterations = iterations, train = accuracy(w, x, y), test = accuracy(w, test_x, test_y) }
  local curve, least = df.run((seen:dequeue_many(seen:size()))):totable(), math.huge
  for k, v in ipairs(curve) do                         -- the least so far
    least = math.min(least, v)
    curve[k] = math.log(least) / math.log(10)
  end
  curves[name] = curve
  print(('%-18s loss %.5f after %d iterations and %d looks, %.1f s; right: %.2f %% of those learned, %.2f %% of the others'):format(
    name, got.value, got.iterations, #curve, os.clock() - began, 100 * got.train, 100 * got.test))
end
local longest = math.max(#curves.lbfgs, #curves.conjugate_gradient)
for _, curve in pairs(curves) do
  for k = #curve + 1, longest do curve[k] = curve[#curve] end
end
local plot = df.plot(curves, { title = 'logarithm of the least loss so far', xlabel = 'look at the function' })
print(plot:text{ columns = 72, rows = 14 })
if select(2, ...) then plot:save((select(2, ...))) end
