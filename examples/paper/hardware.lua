--- What the paper ran on, as simulated devices: the numbers behind every figure that is in virtual time.
--
-- A simulated device of speed 1 computes 100 GFLOP/s and moves 20 GB/s through its memory, whichever takes longer, and begins a kernel in 1 µs.
--   K40   sustained 1.1 TFLOP/s in products of 512 rows, which is what the paper's Table 1 comes to; 12 GB; PCIe 3, 10 GB/s each way
--   V100  sustained 10 TFLOP/s; 16 GB; NVLink, 20 GB/s each way
--
-- `scale` makes an experiment smaller: the batch, or the rows of a product, is divided by it, and so are the device's speed, memory and bandwidth. Everything then
-- takes as long as on the device itself, but for weights, which do not shrink: what reads or writes a whole weight matrix takes `scale` times as long.
local M = {}

M.K40 = { speed = 11, memory = 12 * 2 ^ 30, bandwidth = 10e9, latency = '10us' }
M.V100 = { speed = 100, memory = 16 * 2 ^ 30, bandwidth = 20e9, latency = '10us' }

--- The list of a session's devices: the host and n of a kind.
function M.devices(kind, n, scale)
  local list = { 'cpu:0' }
  for i = 1, n do
    list[i + 1] = { ('sim:%d'):format(i - 1), speed = kind.speed / scale, memory = math.floor(kind.memory / scale), bandwidth = kind.bandwidth / scale,
      latency = kind.latency }
  end
  return list
end

return M
