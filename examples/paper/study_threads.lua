--- The workload study: steps of a CNN and an LSTM by the number of threads. Real time as far as there are cores; virtual time to 1024.
--
-- Virtual threads are a device so many times as fast, whose kernels begin no sooner: every kernel is divided perfectly, and beginning one takes 1 µs. What no thread can help is
-- what waits for that.
local df = require 'dflow'
local study = require 'study'

local M = { title = 'Threads', clock = 'real and virtual', threads = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024 }, cores = 2 }

function M.measure(opts)
  local rows, o = {}, {}
  for key, b in pairs(study.base) do o[key] = opts[key] or b end
  for i, n in ipairs(opts.threads or M.threads) do rows[i] = { n } end
  for _, model in ipairs(study.models) do
    local h, _, _, s = study.counted(model, o)
    local one, virtual = nil, nil
    for _, row in ipairs(rows) do
      o.threads = row[1]
      local seconds, took = row[1] <= M.cores and study.real(model, o) or nil, h:whatif{ speed = row[1] }.seconds
      one, virtual = one or seconds, virtual or took
      for _, number in ipairs{ seconds and seconds * 1e3 or '', seconds and one / seconds or '', took * 1e3, virtual / took } do row[#row + 1] = number end
    end
    s:close()
  end
  return { columns = { 'threads', 'CNN_real_ms', 'CNN_real_speed_up', 'CNN_virtual_ms', 'CNN_virtual_speed_up', 'LSTM_real_ms', 'LSTM_real_speed_up', 'LSTM_virtual_ms',
    'LSTM_virtual_speed_up' },
    rows = rows, note = study.base_text 'threads' }
end

function M.draw(result)
  local x, series = {}, { CNN = {}, LSTM = {}, ['CNN, real'] = {}, ['LSTM, real'] = {} }
  for i, row in ipairs(result.rows) do
    x[i], series.CNN[i], series.LSTM[i] = row[1], row[5], row[9]
    series['CNN, real'][i], series['LSTM, real'][i] = tonumber(row[3]) or 0 / 0, tonumber(row[7]) or 0 / 0
  end
  return df.plot.line(x, series, { title = 'Threads (virtual, and real where there are cores)', xlabel = 'threads', ylabel = 'times as fast as with one', log = 'xy',
    points = true })
end

function M.says(result)
  local last, two = result.rows[#result.rows], result.rows[2]
  return ('a second thread makes the CNN %.2f and the LSTM %.2f times as fast (%.2f and %.2f by the virtual clock); with %d the CNN is at most %.0f times as fast and the '
    .. 'LSTM %.0f times, whose small kernels wait for each other.')
    :format(two[3], two[7], two[5], two[9], last[1], last[5], last[9])
end

return M
