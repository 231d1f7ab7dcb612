--- Fig. 14: a loop over time against the same LSTM unrolled into a graph without loops: the time of a training step on this machine, and the longest sequence that fits
--- into a device's memory. The times are real; what fits is found on a simulated device.
local df = require 'dflow'

local M = { title = 'Fig. 14: dynamic against static unrolling', clock = 'real', length = 200, batches = { 16, 32, 64, 128, 256 } }
M.published = 'the loop is 3 to 8 % slower than the unrolled graph, and trains longer sequences.'

--- Loss and gradients of an LSTM over `length` frames, as a loop or unrolled; its input. `window` is of the loop.
function M.network(how, batch, units, length, window)
  local cell = df.rnn.LSTMCell(units)
  local x = df.placeholder('float32', { batch, units })
  local state = cell:zero_state(batch, 'float32')
  if how == 'static' then
    for _ = 1, length do
      local _, after = cell(x, state)
      state = after
    end
  else
    local _
    _, state = df.while_loop(function(t) return t:lt(length) end, function(t, s)
      local _, after = cell(x, s)
      return t + 1, after
    end, { df.int32(0), state }, { save = how == 'swap' and 'swap' or 'keep', parallel_iterations = window })
  end
  local sums = {}
  for i, slope in ipairs(df.gradients(state.h:reduce_sum(), cell:parameters())) do sums[i] = slope:reduce_sum() end
  return sums, x
end

--- Seconds of a training step each way, of one thread: the medians of `turns` runs that take turns.
function M.seconds(batch, opts)
  local units, length, turns = opts.units or 128, opts.length or M.length, opts.turns or 5
  local run, found = {}, { dynamic = {}, static = {} }
  for _, how in ipairs{ 'dynamic', 'static' } do
    local g = df.Graph()
    g:as_default(function()
      local sums, x = M.network(how, batch, units, length)
      local s, feeds = df.Session{ graph = g, threads = 1 }, { [x] = df.run(df.random_normal({ batch, units }, { seed = 1 })) }
      run[how] = function()
        local began = os.clock()
        s:run(sums, feeds)
        return os.clock() - began
      end
    end)
    run[how]()
  end
  for turn = 1, turns do
    for _, how in ipairs(turn % 2 == 0 and { 'static', 'dynamic' } or { 'dynamic', 'static' }) do table.insert(found[how], run[how]()) end
  end
  table.sort(found.dynamic)
  table.sort(found.static)
  return found.dynamic[math.ceil(turns / 2)], found.static[math.ceil(turns / 2)]
end

--- Does a sequence of this length fit?
local function fits(how, length, memory)
  local g = df.Graph()
  return g:as_default(function()
    local sums, x = df.device('sim:0', function() return M.network(how, 32, 32, length) end)
    local s = df.Session{ graph = g, clock = 'virtual', devices = { 'cpu:0', { 'sim:0', memory = memory, speed = 10, bandwidth = '10GB/s' } } }
    local ok, err = pcall(s.run, s, sums, { [x] = df.run(df.zeros{ 32, 32 }) })
    s:close()
    if not ok and err.code ~= 'resource_exhausted' then error(err, 0) end
    return ok
  end)
end

--- The longest sequence, in steps of 10, that trains within `memory`; one that reaches `most` counts as without an end.
function M.longest(how, memory, most)
  local low, high = 0, 1
  while high * 10 <= most and fits(how, high * 10, memory) do low, high = high, high * 2 end
  if high * 10 > most then return most end
  while high - low > 1 do
    local middle = math.floor((low + high) / 2)
    if fits(how, middle * 10, memory) then low = middle else high = middle end
  end
  return low * 10
end

function M.measure(opts)
  local rows, longest = {}, {}
  for i, batch in ipairs(opts.batches or M.batches) do
    local dynamic, static = M.seconds(batch, opts)
    rows[i] = { batch, dynamic, static, dynamic / static }
  end
  for _, how in ipairs{ 'static', 'dynamic', 'swap' } do longest[#longest + 1] = ('%s %d'):format(how, M.longest(how, opts.memory or 8 * 2 ^ 20, opts.most or 2560)) end
  return { columns = { 'batch', 'dynamic_seconds', 'static_seconds', 'ratio' }, rows = rows, note = 'longest sequence that fits: ' .. table.concat(longest, ', ') }
end

function M.draw(result)
  local x, dynamic, static = {}, {}, {}
  for i, row in ipairs(result.rows) do x[i], dynamic[i], static[i] = row[1], row[2] * 1000, row[3] * 1000 end
  return df.plot.line(x, { dynamic = dynamic, static = static }, { title = M.title .. ' (real)', xlabel = 'batch', ylabel = 'ms for a training step', zero = true, points = true })
end

function M.says(result)
  local least, most = math.huge, 0
  for _, row in ipairs(result.rows) do least, most = math.min(least, row[4]), math.max(most, row[4]) end
  return ('the loop takes %.2f to %.2f times as long as the unrolled graph. The unrolled graph makes %d gradients of each weight and sums them at its end; the loop adds '
    .. 'each to one sum as it is made.')
    :format(least, most, M.length)
end

return M
