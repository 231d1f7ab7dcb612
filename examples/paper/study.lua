--- The workload study's two networks on digits, and what a training step of them costs: seconds by this machine's clock; flops and bytes of every kernel as the runtime counts
-- them; the peak of memory.
--
-- Both read the same pixels: digits of 28 × 28 (made of the 8 × 8 of examples/data), N of them one below the other, so that an input has 28 N rows. The CNN is a LeNet; the LSTM
-- reads the rows, one each iteration of its loop.
local df = require 'dflow'
local here = debug.getinfo(1, 'S').source:match('^@(.*)/') or '.'

local M = { base = { batch = 32, width = 64, N = 1, threads = 1 }, models = { 'CNN', 'LSTM' } }

local function digits(o)
  local images, labels = df.data.idx(here .. '/../data/train-images-idx3-ubyte.gz'), df.data.idx(here .. '/../data/train-labels-idx1-ubyte.gz')
  local rows, wider = {}, {}
  for i = 1, o.batch do rows[i] = (i * 37 % 1400) + 1 end
  for i = 1, 28 do wider[i] = math.floor((i - 1) * 8 / 28) end
  local small = df.cast(df.constant(images:rows(rows)), 'float32') / 255
  local large = df.gather(df.gather(small, df.constant(wider, 'int32'), { axis = 1 }), df.constant(wider, 'int32'), { axis = 2 })
  return df.run(df.tile(large, { 1, o.N, 1 })), df.run(df.cast(df.constant(labels:rows(rows)), 'int32'))
end

local logits = {
  CNN = function(x, o)
    local n = o.width / 4
    local net = df.nn.Sequential{ df.nn.Conv2D(n, 5, { padding = 'SAME', activation = df.relu }), df.nn.MaxPool2D(2),
      df.nn.Conv2D(2 * n, 5, { padding = 'SAME', activation = df.relu }), df.nn.MaxPool2D(2), df.nn.Flatten(), df.nn.Dense(10) }
    return net(df.expand_dims(x, 3))
  end,
  LSTM = function(x, o)
    local _, state = df.rnn.dynamic_rnn(df.rnn.LSTMCell(o.width), x)
    return df.nn.Dense(10)(state.h)
  end,
}

--- A session of a network, and a step of Adam on its loss.
local function network(model, o, session)
  local g = df.Graph()
  return g:as_default(function()
    df.set_random_seed(1)
    local pixels, truth = digits(o)
    local x = df.placeholder('float32', { o.batch, 28 * o.N, 28 })
    local function build() return df.train.Adam(1e-3):minimize(df.nn.sparse_softmax_cross_entropy(truth, logits[model](x, o))) end
    local step, feeds = session.devices and df.device('sim:0', build) or build(), { [x] = pixels }
    session.graph = g
    local s = df.Session(session)
    return s, function(how) return s:start(step, feeds, how) end
  end)
end

--- Seconds of a step, the best of some, and the bytes that a step had at most, weights and all. Of one thread it is the processor's time, which other programs do not change.
function M.real(model, o)
  local s, step = network(model, o, { threads = o.threads })
  local best, began, peak = math.huge, os.clock(), nil
  for k = 1, 30 do
    local before, h = os.clock(), step()
    h:wait()
    local took = o.threads == 1 and os.clock() - before or h:stats().seconds
    if k > 2 then best, peak = math.min(best, took), h:stats().memory['cpu:0'].peak end
    if k > 4 and os.clock() - began > 1 then break end
  end
  s:close()
  return best, peak
end

--- A step by the virtual clock, recorded: its handle, and the flops and bytes of its kernels.
function M.counted(model, o)
  local s, step = network(model, o, { devices = { 'cpu:0', { 'sim:0', launch = '1us' } }, clock = 'virtual' })
  step():wait()
  local h, flops, bytes = step{ record = true }, 0, 0
  h:wait()
  for _, e in ipairs(h:whatif{ timeline = true }.timeline) do
    if e.kind == 'work' then flops, bytes = flops + e.flops, bytes + e.bytes end
  end
  return h, flops, bytes, s
end

--- A sweep over values of one option, of both networks: the module of an experiment.
function M.sweep(what, title, values, xlabel, more)
  local E = { title = title, clock = 'real' }
  function E.measure(opts)
    local rows = {}
    for i, v in ipairs(opts.values or values) do
      local o = {}
      for key, b in pairs(M.base) do o[key] = opts[key] or b end
      o[what] = v
      rows[i] = { v }
      for _, model in ipairs(M.models) do
        local seconds, peak = M.real(model, o)
        local _, flops, bytes, s = M.counted(model, o)
        s:close()
        for _, number in ipairs{ seconds * 1e3, o.batch / seconds, flops / seconds / 1e9, bytes / seconds / 1e9, flops / bytes, peak / 2 ^ 20 } do table.insert(rows[i], number) end
      end
    end
    local columns = { what }
    for _, model in ipairs(M.models) do
      for _, name in ipairs{ 'ms', 'examples_per_s', 'Gflop_per_s', 'GB_per_s', 'flop_per_byte', 'MB' } do columns[#columns + 1] = model .. '_' .. name end
    end
    return { columns = columns, rows = rows, note = ('flops and bytes are those of every kernel, as the runtime counts them, as if nothing stayed in a cache; '
      .. '%s'):format(M.base_text(what)) }
  end
  function E.draw(result)
    local function plot(offset, name, zero, how)
      local x, series = {}, { CNN = {}, LSTM = {} }
      for i, row in ipairs(result.rows) do x[i], series.CNN[i], series.LSTM[i] = row[1], row[1 + offset], row[7 + offset] end
      return df.plot.line(x, series, { title = ('%s (%s): %s'):format(title, how or 'real', name),
        xlabel = xlabel, ylabel = name, log = zero and 'x' or 'xy', zero = zero, points = true })
    end
    return { a = plot(1, 'ms for a step'), b = plot(3, 'Gflop/s', true), c = plot(5, 'flops for each byte', true, 'counted'), d = plot(6, 'MB at most') }
  end
  for key, v in pairs(more) do E[key] = v end
  return E
end

--- What is the same in a sweep, in words.
function M.base_text(what)
  local list = {}
  for _, key in ipairs{ 'batch', 'width', 'N', 'threads' } do
    if key ~= what then list[#list + 1] = ('%s %d'):format(key, M.base[key]) end
  end
  return 'elsewhere ' .. table.concat(list, ', ')
end

--- How many times a column grows from the first row to the last.
function M.growth(result, column) return result.rows[#result.rows][column] / result.rows[1][column] end

return M
