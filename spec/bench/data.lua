--- data.lua FILE.npz: the numbers that every system reads, the same each time.
local df = require 'dflow'
local seed, all = 0, {}

local function normal(name, shape, scale)
  seed = seed + 1
  all[name] = df.random_normal(shape, { seed = seed }) * df.float32(scale or 1)
end
local function integers(name, shape, below)
  seed = seed + 1
  all[name] = df.cast(df.floor(df.random_uniform(shape, 0, below, { seed = seed })), 'int32')
end

normal('rnn_w', { 32, 32 }, 32 ^ -0.5)
normal('rnn_h', { 16, 32 })
normal('map_e', { 10000 })
normal('scan_e', { 10000, 8 })
normal('ewise', { 2 ^ 20 })
normal('square', { 4096, 4096 })
normal('logits', { 128, 1000 })
normal('norm', { 2048, 768 })
normal('table', { 100000, 64 })
integers('rows', { 100000 }, 100000)
normal('conv_x', { 8, 56, 56, 64 })
normal('conv_w', { 3, 3, 64, 64 }, 1 / 24)
normal('image', { 128, 28, 28, 1 })
integers('label', { 128 }, 10)
normal('pixels', { 64, 784 })
normal('mlp_w1', { 784, 128 }, 0.05)
normal('mlp_w2', { 128, 10 }, 0.05)
normal('net_w1', { 5, 5, 1, 32 }, 0.1)
normal('net_w2', { 5, 5, 32, 64 }, 0.05)
normal('net_w3', { 5, 5, 64, 64 }, 0.05)
normal('net_w4', { 64, 84 }, 0.1)
normal('net_w5', { 84, 10 }, 0.1)
for _, n in ipairs{ 64, 256, 1024, 2048 } do normal('m' .. n, { n, n }, n ^ -0.5) end
for _, size in ipairs{ { 28, 128, 28, 128 }, { 100, 32, 128, 128 }, { 100, 64, 512, 512 } } do
  local steps, batch, inputs, units = size[1], size[2], size[3], size[4]
  local key = ('lstm_%d_%d_%d_'):format(steps, batch, units)
  normal(key .. 'x', { steps, batch, inputs })
  normal(key .. 'w', { inputs + units, 4 * units }, 0.05)
  normal(key .. 'b', { 4 * units }, 0.1)
end

-- In one run: what is drawn goes by the number of the run, too.
df.save_npz(arg[1], df.run(all))
