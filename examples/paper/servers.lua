--- Parameter servers and workers as simulated devices, for OSDI'16's Figures 7 to 9: sim:0 … sim:ps-1 are the servers, the workers come behind.
--
-- What the paper does not say is assumed: links of 10 Gb/s, 50 µs away, servers of 8 cores that compute 100 GFLOP/s and move 20 GB/s. `scale` makes tables, messages, speeds
-- and links smaller alike, so that they take as long as in their true size.
local df = require 'dflow'
local M = {}

M.BANDWIDTH, M.LATENCY = 10e9 / 8, 50e-6

local function device(k, speed, scale)
  return { ('sim:%d'):format(k), speed = speed / scale, bandwidth = M.BANDWIDTH / scale, latency = M.LATENCY, launch = '5us', memory = '8GB' }
end

--- A session's list of devices.
-- @param opts  ps, workers, speed (of a worker, 11: a K40's), scale (1)
function M.devices(opts)
  local list, scale = { 'cpu:0' }, opts.scale or 1
  for p = 1, opts.ps do list[p + 1] = device(p - 1, 1, scale) end
  for w = 1, opts.workers do list[opts.ps + w + 1] = device(opts.ps + w - 1, opts.speed or 11, scale) end
  return list
end

function M.on_server(p, fn) return df.device(('sim:%d'):format(p - 1), fn) end
function M.on_worker(opts, w, fn) return df.device(('sim:%d'):format(opts.ps + w - 1), fn) end

--- The k-th of n parts of a sorted list: percentile(list, 0.5) is the median.
function M.percentile(list, share) return list[math.max(1, math.min(#list, math.ceil(share * #list)))] end

return M
