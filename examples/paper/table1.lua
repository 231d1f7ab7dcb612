--- Table 1: time per iteration of an LSTM against the length of its sequence, keeping what the gradient needs and swapping it. Virtual time.
local lstm = require 'lstm'
local hardware = require 'hardware'
local df = require 'dflow'

local M = { title = 'Table 1: an LSTM of 512 units on a K40', clock = 'virtual', lengths = { 100, 200, 500, 600, 700, 900, 1000, 1250, 1500 } }
M.published = '5.7 to 5.8 ms for a time step at every length, with swapping and without; without, memory ends between 500 and 600 steps.'

--- Milliseconds for each time step, bytes swapped out, and the peak of the device in bytes; nil, the error when memory is short.
function M.step(length, save, opts)
  local h = lstm.start{ kind = hardware.K40, scale = opts.scale or 8, length = length, save = save, batch = opts.batch, units = opts.units, memory = opts.memory }
  local ok, err = pcall(h.wait, h)
  local stats = h:stats()
  if not ok and err.code ~= 'resource_exhausted' then error(err, 0) end
  return ok and stats.seconds / length * 1000 or nil, stats.swap.bytes_out, stats.memory['sim:0'].peak
end

function M.measure(opts)
  local rows, peak, at, out = {}, 0, 0
  for i, length in ipairs(opts.lengths or M.lengths) do
    local keep, _, used = M.step(length, 'keep', opts)
    local swap, moved = M.step(length, 'swap', opts)
    rows[i] = { length, keep or '', swap or '', moved }
    if keep and length > at then peak, at = used, length end
    out = out or (not keep and length)
  end
  return { columns = { 'length', 'keep_ms', 'swap_ms', 'bytes_swapped_out' }, rows = rows, note = ('keeping %d steps takes %.0f bytes; made in 1/%d of the batch, on a '
    .. 'device as much slower, where what reads a whole weight matrix takes as many times too long'):format(at, peak, opts.scale or 8) }
end

function M.draw(result)
  local x, keep, swap, paper = {}, {}, {}, {}
  for i, row in ipairs(result.rows) do
    x[i], keep[i], swap[i], paper[i] = row[1], tonumber(row[2]) or 0 / 0, tonumber(row[3]) or 0 / 0, row[1] <= 1000 and 5.75 or 0 / 0
  end
  return df.plot.line(x, { ['with swap'] = swap, without = keep, ['with swap, paper'] = paper }, { title = M.title .. ' (virtual)', xlabel = 'time steps',
    ylabel = 'ms for each step', zero = true,
    points = true })
end

function M.says(result)
  local first, kept = result.rows[1], 0
  for _, row in ipairs(result.rows) do if tonumber(row[2]) then kept = row[1] end end
  return ('%.2f ms for a step and %.2f with swapping: nothing, as there. Keeping goes on to %d steps, as less is kept for the gradient; swapping goes on.'):format(first[2],
    first[3], kept)
end

return M
