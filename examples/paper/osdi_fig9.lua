--- OSDI'16, Fig. 9: a language model whose softmax has 40,000 words, on workers and parameter servers: full softmax against a sampled one. Virtual time.
--
-- LSTM-512-512: two layers of 512 units. The matrix of the softmax is cut over the servers by words. With the full softmax each server multiplies what the workers' LSTMs gave by
-- its part of the matrix, and computes its part of the gradients; with a sampled one the rows of 512 words come to the worker. All workers take one step, as in Fig. 7.
-- Everything is made in an eighth of its width, and of a batch of 512 words so many as SCALE leaves; speeds and links are as much smaller.
local df = require 'dflow'
local servers = require 'servers'

local M = { title = 'Fig. 9: LSTM-512-512 with 40,000 words', clock = 'virtual', workers = { 4, 32, 256 }, servers = { 1, 2, 4, 8, 16, 32 } }
M.published = 'with the full softmax more servers give more words a second, and a second server brings more than going from 4 to 32 workers, or from 32 to 256; the sampled '
  .. 'softmax moves and'
  .. ' computes 78 times less (512 of 40,000 words) and is far faster; in the end the LSTM itself is what takes the time.'
local UNITS, WORDS, SAMPLED, BATCH = 512, 40000, 512, 512
local NARROW, FEWER = 16, 16                                   -- of units and words, and of the batch
local FLOPS, BYTES = NARROW * NARROW * FEWER, NARROW * FEWER   -- what is less of products, and of messages

local function devices(opts)
  local list = servers.devices{ ps = opts.ps, workers = opts.workers }
  for k = 2, #list do
    list[k].speed = list[k].speed / FLOPS
    list[k].bandwidth = list[k].bandwidth / BYTES
  end
  return list
end

--- What the LSTM of a worker costs, as one product: 2 layers, input and state, four gates, forwards and twice backwards.
local function lstm(opts, w, rows, units)
  return servers.on_worker(opts, w, function()
    local x = df.random_uniform({ rows, 2 * units }, { min = -0.1, max = 0.1 })
    local weight = df.constant(0.01, 'float32', { 2 * units, 8 * units })
    local gates = x
    for _ = 1, 3 do gates = df.slice(x:matmul(weight), { 0, 0 }, { rows, 2 * units }) * 0.1 + gates * 0.1 end
    return df.slice(gates, { 0, 0 }, { rows, units })
  end)
end

--- The softmax's part on server p: y goes there, and comes back as what it changes y by.
local function full(opts, w, y, p, part)
  return servers.on_server(p, function()
    local logits = df.matmul(y, part:value(), { transpose_b = true })
    local change = part:assign_sub(df.matmul(logits, y, { transpose_a = true }) * 1e-6)
    return df.control_dependencies({ change.op }, function() return logits:matmul(part:value()) end)
  end)
end

--- Of n words of server p: their rows come to the worker, and as much goes back.
local function sampled_part(opts, w, y, p, part, n)
  local ids = servers.on_server(p, function() return df.random_uniform({ n }, { min = 0, max = part.shape[1], dtype = 'int32' }) end)
  local rows = servers.on_server(p, function() return df.gather(part, ids) end)
  local back, change = servers.on_worker(opts, w, function()
    local logits = df.matmul(y, rows, { transpose_b = true })
    return logits:matmul(rows), df.matmul(logits, y, { transpose_a = true }) * 1e-6
  end)
  local changed = servers.on_server(p, function() return part:scatter_sub(ids, change).op end)
  return back, changed
end

--- Words a second of so many workers and servers.
function M.rate(workers, ps, sampled)
  local opts, g = { ps = ps, workers = workers }, df.Graph()
  return g:as_default(function()
    local rows, units, words = BATCH / FEWER, UNITS / NARROW, math.floor(WORDS / NARROW / ps)
    local matrix, ends = {}, {}
    for p = 1, ps do matrix[p] = servers.on_server(p, function() return df.Variable(df.fill({ words, units }, 0.01)) end) end
    for w = 1, workers do
      local y, back = lstm(opts, w, rows, units), {}
      for p = 1, ps do
        if sampled then back[p], ends[#ends + 1] = sampled_part(opts, w, y, p, matrix[p], math.floor(SAMPLED / NARROW / ps))
        else back[p] = full(opts, w, y, p, matrix[p]) end
      end
      ends[#ends + 1] = servers.on_worker(opts, w, function() return df.add_n(back).op end)
    end
    local s = df.Session{ graph = g, clock = 'virtual', devices = devices(opts) }
    for p = 1, ps do s:run(matrix[p]:value().op) end
    local h = s:start(df.group(ends))
    h:wait()
    local rate = workers * BATCH / h:stats().seconds
    s:close()
    return rate
  end)
end

function M.measure(opts)
  local rows = {}
  for _, ps in ipairs(opts.servers or M.servers) do
    local row = { ps }
    for _, sampled in ipairs{ false, true } do
      for _, n in ipairs(opts.workers or M.workers) do row[#row + 1] = M.rate(n, ps, sampled) end
    end
    rows[#rows + 1] = row
  end
  return { columns = { 'servers', 'full_4', 'full_32', 'full_256', 'sampled_4', 'sampled_32', 'sampled_256' }, rows = rows,
    note = ('words a second, by workers; steps of %d words; made in 1/%d of the width and 1/%d of the words, on devices and links as much slower'):format(BATCH, NARROW, FEWER) }
end

function M.draw(result)
  local x, series = {}, {}
  for k, name in ipairs{ 'full, 4 workers', 'full, 32 workers', 'full, 256 workers', 'sampled, 4 workers', 'sampled, 32 workers', 'sampled, 256 workers' } do
    series[name] = {}
    for i, row in ipairs(result.rows) do x[i], series[name][i] = row[1], row[k + 1] end
  end
  return df.plot.line(x, series, { title = M.title .. ' (virtual)', xlabel = 'parameter servers', ylabel = 'words a second', log = 'xy', points = true })
end

function M.says(result)
  local one, two, most = result.rows[1], result.rows[2], result.rows[#result.rows]
  return ('with the full softmax a second server brings %.2f times the words, and 32 in place of 4 workers %.2f times, on one server; on %d servers sampling brings %.1f '
    .. 'times with 4 workers and %.1f times '
    .. 'with 256. As there, servers bring more than workers as long as these compute the softmax; sampled, 4 workers are bound by their LSTMs from the first server on.')
    :format(two[3] / one[3], one[3] / one[2], most[1], most[5] / most[2], most[7] / most[4])
end

return M
