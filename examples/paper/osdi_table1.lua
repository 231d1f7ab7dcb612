--- OSDI'16, Table 1: the time of a training step of four convolutional networks, beside TensorFlow and PyTorch, turn about in one run. Real time.
--
-- The networks are the published ones, whole (nets.txt); only the batch is smaller, as a core takes the place that a GPU had. A step is loss and gradients of all weights; what
-- counts is the processor's time of one thread, which other programs do not change.
-- Peers are asked where `make bench-peers` has put them; where they are not, what they took at the date given is in figures/osdi_table1_peers.csv.
local df = require 'dflow'
local here = debug.getinfo(1, 'S').source:match('^@(.*)/') or '.'

local M = { title = "Table 1: a training step of four convolutional networks", clock = 'real', names = { 'AlexNet', 'Overfeat', 'OxfordNet', 'GoogleNet' } }
M.published = "on one Titan X, with batches of 128 (OxfordNet 64), in ms for AlexNet, Overfeat, OxfordNet and GoogleNet: Caffe 324, 823, 1068, 1935; Neon 87, 211, 320, 270;"
  .. " Torch 81, 268, 529, 470; TensorFlow 81, 279, 540, 445: TensorFlow within 6 % of Torch, both by cuDNN."
local TORCH_OF_TENSORFLOW = { AlexNet = 81 / 81, Overfeat = 268 / 279, OxfordNet = 529 / 540, GoogleNet = 470 / 445 }

-- ---- the networks ----------------------------------------------------------------------------------------------------------
local function network(name)
  for line in io.lines(here .. '/nets.txt') do
    local words = {}
    for word in line:gsub('#.*', ''):gmatch '%S+' do words[#words + 1] = word end
    if words[1] == name then return tonumber(words[2]), { df.unpack(words, 3) } end
  end
end

local function conv(x, n, k, s, same)
  return df.nn.Conv2D(n, k, { strides = s, padding = same == 1 and 'SAME' or 'VALID', activation = df.relu })(x)
end
local function pool(x, k, s, same) return df.nn.MaxPool2D(k, { strides = s, padding = same == 1 and 'SAME' or 'VALID' })(x) end
local layers = {
  conv = conv, pool = pool,
  mean = function(x, k) return df.nn.AvgPool2D(k, { strides = 1 })(x) end,
  inception = function(x, one, three_in, three, five_in, five, pooled)
    return df.concat({ conv(x, one, 1, 1, 1), conv(conv(x, three_in, 1, 1, 1), three, 3, 1, 1), conv(conv(x, five_in, 1, 1, 1), five, 5, 1, 1),
      conv(pool(x, 3, 1, 1), pooled, 1, 1, 1) }, 3)
  end,
  dense = function(x, n) return df.nn.Dense(n, { activation = df.relu })(#x.shape == 4 and df.nn.Flatten()(x) or x) end,
  linear = function(x, n) return df.nn.Dense(n)(#x.shape == 4 and df.nn.Flatten()(x) or x) end,
}

--- A session and what makes a step of the network in it.
local function build(name, batch)
  local g = df.Graph()
  return g:as_default(function()
    local size, list = network(name)
    local x = df.placeholder('float32', { batch, size, size, 3 })
    local y = x
    for _, layer in ipairs(list) do
      local kind, numbers, n = layer:match "^%a+", layer:match ":(.*)", {}
      for number in numbers:gmatch '%d+' do n[#n + 1] = tonumber(number) end
      y = layers[kind](y, df.unpack(n))
    end
    local slopes, ops = df.gradients((y * y):reduce_mean(), df.trainable_variables()), {}
    for i, slope in ipairs(slopes) do ops[i] = slope.op end
    local step, feeds, s = df.group(ops), { [x] = df.run(df.fill({ batch, size, size, 3 }, 0.5)) }, df.Session{ graph = g, threads = 1 }
    return s, function() s:run(step, feeds) end
  end)
end

-- ---- the peers ----------------------------------------------------------------------------------------------------------------
--- A peer as a process that is asked by lines; nil where it is not installed.
local function peer(kind, python, batch)
  local f = io.open(python)
  if not f then return nil end
  f:close()
  local pipe = os.tmpname()
  os.remove(pipe)
  os.execute('mkfifo ' .. pipe)
  local answers = io.popen(('%s %s/peers.py %s %d <%s 2>/dev/null'):format(python, here, kind, batch, pipe))
  local asks = io.open(pipe, 'w')
  os.remove(pipe)
  local name = answers:read '*l'
  if not name then return nil end
  return { name = name, step = function(net, n)
    asks:write(('%s %d\n'):format(net, n))
    asks:flush()
    local list = {}
    for ms in (answers:read '*l' or ''):gmatch '%S+' do list[#list + 1] = tonumber(ms) end
    return list
  end, close = function()
    asks:write '\n'                        -- the end of the pipe is not seen where another peer has inherited it
    asks:close()
    answers:close()
  end }
end

local function median(list)
  table.sort(list)
  return list[math.ceil(#list / 2)]
end

--- The median step of each system in milliseconds; turn about.
local function measure(net, opts, peers)
  local s, step = build(net, opts.batch)
  step()
  local times = { {} }
  for i in ipairs(peers) do times[i + 1] = {} end
  for _ = 1, opts.turns do
    local before = os.clock()
    step()
    table.insert(times[1], (os.clock() - before) * 1e3)
    for i, p in ipairs(peers) do for _, ms in ipairs(p.step(net, 1)) do table.insert(times[i + 1], ms) end end
  end
  s:close()
  for i, list in ipairs(times) do times[i] = median(list) end
  return times
end

local STORED = here .. '/figures/osdi_table1_peers.csv'
--- What the peers took when they were there: their names, by network their times, the date.
local function stored()
  local f = io.open(STORED)
  if not f then return { names = {}, date = 'never' } end
  local out = { names = {} }
  out.date = f:read '*l'
  for name in f:read('*l'):gmatch '[^,]+' do out.names[#out.names + 1] = name end
  for line in f:lines() do
    local net, rest = line:match '^(%a+),(.*)'
    out[net] = {}
    for ms in rest:gmatch '[^,]+' do table.insert(out[net], tonumber(ms)) end
  end
  f:close()
  return out
end

local function store(names, rows)
  local out = { os.date '!%Y-%m-%d', table.concat(names, ',') }
  for _, row in ipairs(rows) do out[#out + 1] = ('%s,%s'):format(row[1], table.concat(row, ',', 3)) end
  local f = assert(io.open(STORED, 'w'))
  f:write(table.concat(out, '\n'), '\n')
  f:close()
end

function M.measure(opts)
  opts = { batch = opts.batch or 2,  turns = opts.turns or 3, names = opts.names or M.names }
  local python, peers = 'build/peers/%s/bin/python', {}
  for _, p in ipairs{ { 'tf', 'tf' }, { 'torch', 'jt' } } do peers[#peers + 1] = peer(p[1], python:format(p[2]), opts.batch) end
  local old, rows, columns = #peers == 0 and stored(), {}, { 'network', 'dflow_ms' }
  for _, name in ipairs(old and old.names or {}) do columns[#columns + 1] = name .. ' ms' end
  for _, p in ipairs(peers) do columns[#columns + 1] = p.name .. ' ms' end
  for i, net in ipairs(opts.names) do
    rows[i] = { net, df.unpack(measure(net, opts, peers)) }
    for _, ms in ipairs(old and old[net] or {}) do table.insert(rows[i], ms) end
  end
  for _, p in ipairs(peers) do p.close() end
  if #peers == 2 and #opts.names == #M.names then
    store({ peers[1].name, peers[2].name }, rows)
  end
  return { columns = columns, rows = rows, note = ('batches of %d, one thread; milliseconds of the processor, medians of %d steps; the peers %s'):format(opts.batch, opts.turns,
    old and 'as they were on ' .. old.date or 'turn about in the same run') }
end

function M.draw(result)
  local x, series = {}, {}
  for k = 2, #result.columns do
    local ys = {}
    for i, row in ipairs(result.rows) do                       -- networks are no line: between two of them there is nothing
      x[2 * i - 1], ys[2 * i - 1] = i, row[k]
      if i < #result.rows then x[2 * i], ys[2 * i] = i + 0.5, 0 / 0 end
    end
    series[result.columns[k]:gsub('[_ ]ms$', '')] = ys
  end
  local names = {}
  for i, row in ipairs(result.rows) do names[i] = ('%d %s'):format(i, row[1]) end
  return df.plot.line(x, series, { title = M.title .. ' (real)', xlabel = table.concat(names, ', '), ylabel = 'ms for a step', log = 'y', points = true })
end

function M.says(result)
  local row, parts = result.rows[1], {}
  if #row < 4 then return 'the peers were never measured on this machine.' end
  local least, most = math.huge, 0
  for _, r in ipairs(result.rows) do
    for k = 3, #r do least, most = math.min(least, r[k] / r[2]), math.max(most, r[k] / r[2]) end
  end
  for i, r in ipairs(result.rows) do parts[i] = ('%s %.2f (%.2f there)'):format(r[1], r[4] / r[3], TORCH_OF_TENSORFLOW[r[1]]) end
  return ('the peers take %.2f to %.2f times as long as dflow. PyTorch takes of TensorFlow\'s time: %s. In the paper both call cuDNN and are within 6 %%; on a processor '
    .. 'each brings its own '
    .. 'kernels, and which is fastest depends on the network.'):format(least, most, table.concat(parts, ', '))
end

return M
