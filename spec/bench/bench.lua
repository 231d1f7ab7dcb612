-- bench.lua: dflow on the workloads that the peers beside this file measure too. One JSON line per number:
--   {"who": "dflow", "work": "counter", "value": 1.2e7, "unit": "it/s"}
-- Arguments name the workloads to measure; none means all. The best of several runs is reported.
local df = require 'dflow'
local clock = require 'dflow.core'.clock
local unpack = table.unpack or unpack

local only = {}
for _, name in ipairs(arg) do only[name] = true end

local function report(work, value, unit)
  print(('{"who": "dflow", "work": "%s", "value": %.6g, "unit": "%s"}'):format(work, value, unit))
  io.stdout:flush()
end

--- Seconds of the fastest of `times` calls, after `warm` that do not count.
local function best(fn, times, warm)
  for _ = 1, warm or 2 do fn() end
  local least = math.huge
  for _ = 1, times or 5 do
    collectgarbage()
    local t = clock()
    fn()
    least = math.min(least, clock() - t)
  end
  return least
end

--- A workload: `fn` builds in a graph of its own.
local function workload(name, fn)
  if next(only) and not only[name] then return end
  df.reset()
  fn(name)
end

local function normal(shape, scale) return df.random_normal(shape, { seed = 1 }) * (scale or 1) end
local function fixed(x) return df.constant(df.run(x)) end

-- The same gradient under save = 'keep' and 'recompute': what the second takes of the first's time and memory.
workload('lstm_recompute', function(name)
  local T, B, H = 10000, 16, 64
  local time, memory = {}, {}
  for _, save in ipairs{ 'recompute', 'keep' } do
    df.reset()
    local W = df.Variable(normal({ 2 * H, 4 * H }, 0.05))
    local b = df.Variable(df.fill({ 4 * H }, df.float32(0)))
    local x, zero = fixed(normal{ B, H }), df.fill({ B, H }, df.float32(0))
    local _, _, h = df.while_loop(function(t) return t:lt(T) end, function(t, c, h)
      local z = df.matmul(df.concat({ x * df.cos(df.cast(t, 'float32')), h }, 1), W) + b
      local i, j, f, o = unpack(df.split(z, 4, { axis = 1 }))
      c = c * df.sigmoid(f + 1) + df.sigmoid(i) * df.tanh(j)
      return t + 1, c, df.tanh(c) * df.sigmoid(o)
    end, { df.int32(0), zero, zero }, { save = save })
    local g = df.gradients(df.reduce_sum(h * h), { W, b })
    local s = df.Session{}
    s:run(h)
    df.reset_peak_memory()
    local _, before = next(s:stats().memory)
    time[save] = best(function() s:run(g) end, 3, 1)
    local _, after = next(s:stats().memory)
    memory[save] = after.peak - before.in_use
    s:close()
    report(('lstm_%s'):format(save), time[save] * 1e3, 'ms')
  end
  report(name .. '_time', time.recompute / time.keep, 'times')
  report(name .. '_memory', 100 * memory.recompute / memory.keep, '% of keep')
end)

workload('counter', function(name)
  local N = 1000000
  local i = df.while_loop(function(i) return i:lt(N) end, function(i) return i + 1 end, { df.int32(0) })
  report(name, N / best(function() df.run(i) end), 'it/s')
end)

workload('nested', function(name)
  local _, a = df.while_loop(function(i) return i:lt(300) end, function(i, a)
    local _, inner = df.while_loop(function(j) return j:lt(100) end,
      function(j, b) return j + 1, b + 1 end, { df.int32(0), a })
    return i + 1, inner
  end, { df.int32(0), df.float32(0) })
  report(name, 30000 / best(function() df.run(a) end, 15), 'it/s')
end)

workload('cond_in_loop', function(name)
  local N, x0 = 100000, df.placeholder('float32', {})
  local _, x = df.while_loop(function(i) return i:lt(N) end, function(i, x)
    return i + 1, df.cond((i % 2):eq(0), function() return x * 1.0001 end, function() return x - 0.0001 end)
  end, { df.int32(0), x0 })
  report(name, N / best(function() df.run(x, { [x0] = 0.5 }) end, 9), 'it/s')
end)

workload('grad_scalar_loop', function(name)
  local N, x0 = 10000, df.placeholder('float32', {})
  local _, x = df.while_loop(function(i) return i:lt(N) end,
    function(i, x) return i + 1, df.sin(x) end, { df.int32(0), x0 })
  local both = { x, df.gradients(x, x0) }
  report(name, best(function() df.run(both, { [x0] = 0.5 }) end, 15) / N * 1e6, 'us/it')
end)

workload('grad2_scalar_loop', function(name)
  local N, x0 = 10000, df.placeholder('float32', {})
  local _, x = df.while_loop(function(i) return i:lt(N) end,
    function(i, x) return i + 1, df.sin(x) end, { df.int32(0), x0 })
  local g = df.gradients(x, x0)
  local fetches, least = { { x, g }, df.gradients(g, x0) }, { math.huge, math.huge }
  for _ = 1, 40 do                              -- in turn, and by the processor's time: both meet the same machine
    for k, f in ipairs(fetches) do
      local t = os.clock()
      df.run(f, { [x0] = 0.5 })
      least[k] = math.min(least[k], os.clock() - t)
    end
  end
  report(name, least[2] / N * 1e6, 'us/it')
  report('grad2_by_grad1', least[2] / least[1], 'times')
end)

workload('grad_rnn_loop', function(name)
  local D, B, N = 32, 16, 1000
  local w = df.Variable(normal({ D, D }, D ^ -0.5))
  local h0 = fixed(normal{ B, D })
  local _, x = df.while_loop(function(i) return i:lt(N) end,
    function(i, x) return i + 1, df.tanh(df.matmul(x, w)) end, { df.int32(0), h0 })
  local g = df.gradients(df.reduce_sum(x), w)
  report(name, best(function() df.run(g) end, 9) / N * 1e6, 'us/it')
end)

-- What it costs to keep every value that is made, in per cent of the same loop without: in turn, by the processor's time.
workload('values', function(name)
  local D, B = 32, 16
  local w = fixed(normal({ D, D }, D ^ -0.5))
  local loops = {
    counter = { 200000, function(n) return (df.while_loop(function(i) return i:lt(n) end, function(i) return i + 1 end, { df.int32(0) })) end },
    rnn = { 5000, function(n)
      return select(2, df.while_loop(function(i) return i:lt(n) end, function(i, x) return i + 1, df.tanh(df.matmul(x, w)) end,
        { df.int32(0), fixed(normal{ B, D }) }))
    end },
  }
  for _, loop in ipairs{ 'counter', 'rnn' } do
    local x, least = loops[loop][2](loops[loop][1]), { math.huge, math.huge }
    for _ = 1, 25 do
      for k = 1, 2 do
        local t = os.clock()
        df.start(x, nil, { values = k == 2 }):wait()
        least[k] = math.min(least[k], os.clock() - t)
      end
    end
    report(name .. '_' .. loop, (least[2] / least[1] - 1) * 100, '%')
  end
end)

workload('grad_memory', function(name)
  local N, x0 = 1000000, df.placeholder('float32', {})
  local _, x = df.while_loop(function(i) return i:lt(N) end,
    function(i, x) return i + 1, df.sin(x) end, { df.int32(0), x0 })
  local g = df.gradients(x, x0)
  local s = df.Session{}
  df.reset_peak_memory()
  local before = s:stats()
  s:run(g, { [x0] = 0.5 })
  local after = s:stats()
  local _, memory = next(after.memory)
  local _, was = next(before.memory)
  report(name, (memory.peak - was.in_use) / (after.stack_pushes - before.stack_pushes), 'bytes/saved')
  s:close()
end)

workload('build', function(name)
  local N = 100000
  local seconds = best(function()
    df.reset()
    local y, c = df.placeholder('float32', {}), df.float32(2)
    for _ = 1, N do y = df.mul(y, c) end
  end, 5, 1)
  report(name, N / seconds, 'nodes/s')
end)

-- A GraphDef of 100,000 nodes: dense layers, a cond and a while_loop each, as TensorFlow writes them.
workload('import', function(name)
  local out, count, i = {}, 0, 0
  local function field(tag, s)
    local n = #s
    return string.char(tag) .. (n < 128 and string.char(n) or string.char(n % 128 + 128, math.floor(n / 128))) .. s
  end
  local function attr(key, value) return field(0x2a, field(0x0a, key) .. field(0x12, value)) end
  local T, INT, BOOL = attr('T', '\48\1'), attr('T', '\48\3'), attr('T', '\48\10')
  local function node(title, op, inputs, attrs)
    local list = { field(0x0a, title), field(0x12, op) }
    for _, input in ipairs(inputs) do list[#list + 1] = field(0x1a, input) end
    out[#out + 1] = field(0x0a, table.concat(list) .. (attrs or ''))
    count = count + 1
  end
  local function constant(title, dtype, tensor, control)
    node(title, 'Const', { control }, attr('dtype', '\48' .. string.char(dtype)) .. attr('value', field(0x42, '\8' .. string.char(dtype) .. tensor)))
  end
  node('x', 'Placeholder', {}, attr('dtype', '\48\1') .. attr('shape', field(0x3a, field(0x12, '\8\4') .. field(0x12, '\8\4'))))
  local y = 'x'
  while count < 100000 do
    i = i + 1
    local s = ('layer_%d/'):format(i)
    local function n(title) return s .. title end
    constant(n'w', 1, field(0x12, field(0x12, '\8\4') .. field(0x12, '\8\4')) .. field(0x22, ('\0\0\128\62'):rep(16)))
    node(n'MatMul', 'MatMul', { y, n'w' }, T)
    node(n'Tanh', 'Tanh', { n'MatMul' }, T)
    constant(n'axes', 3, field(0x12, field(0x12, '\8\2')) .. field(0x22, '\0\0\0\0\1\0\0\0'))
    node(n'Sum', 'Sum', { n'Tanh', n'axes' }, T)
    constant(n'zero', 1, field(0x12, ''))
    node(n'Greater', 'Greater', { n'Sum', n'zero' }, T)
    node(n'cond/Switch', 'Switch', { n'Greater', n'Greater' }, BOOL)
    node(n'cond/switch_t', 'Identity', { n'cond/Switch:1' }, BOOL)
    node(n'cond/switch_f', 'Identity', { n'cond/Switch' }, BOOL)
    node(n'cond/pred_id', 'Identity', { n'Greater' }, BOOL)
    constant(n'cond/two', 1, field(0x12, '') .. field(0x22, '\0\0\0\64'), '^' .. n'cond/switch_t')
    node(n'cond/mul/Switch', 'Switch', { n'Tanh', n'cond/pred_id' }, T)
    node(n'cond/mul', 'Mul', { n'cond/mul/Switch:1', n'cond/two' }, T)
    node(n'cond/neg/Switch', 'Switch', { n'Tanh', n'cond/pred_id' }, T)
    node(n'cond/neg', 'Neg', { n'cond/neg/Switch' }, T)
    node(n'cond/Merge', 'Merge', { n'cond/neg', n'cond/mul' }, T .. attr('N', '\24\2'))
    local frame = attr('frame_name', field(0x12, n'while/frame'))
    constant(n'while/start', 3, field(0x12, ''))
    node(n'while/Enter', 'Enter', { n'while/start' }, INT .. frame)
    node(n'while/Enter_1', 'Enter', { n'cond/Merge' }, T .. frame)
    node(n'while/Merge', 'Merge', { n'while/Enter', n'while/NextIteration' }, INT .. attr('N', '\24\2'))
    node(n'while/Merge_1', 'Merge', { n'while/Enter_1', n'while/NextIteration_1' }, T .. attr('N', '\24\2'))
    constant(n'while/limit', 3, field(0x12, '') .. field(0x22, '\3\0\0\0'), '^' .. n'while/Merge')
    node(n'while/Less', 'Less', { n'while/Merge', n'while/limit' }, INT)
    node(n'while/LoopCond', 'LoopCond', { n'while/Less' })
    node(n'while/Switch', 'Switch', { n'while/Merge', n'while/LoopCond' }, INT)
    node(n'while/Switch_1', 'Switch', { n'while/Merge_1', n'while/LoopCond' }, T)
    node(n'while/Identity', 'Identity', { n'while/Switch:1' }, INT)
    node(n'while/Identity_1', 'Identity', { n'while/Switch_1:1' }, T)
    constant(n'while/one', 3, field(0x12, '') .. field(0x22, '\1\0\0\0'), '^' .. n'while/Identity')
    node(n'while/add', 'AddV2', { n'while/Identity', n'while/one' }, INT)
    node(n'while/outer', 'Enter', { n'Tanh' }, T .. frame .. attr('is_constant', '\40\1'))
    node(n'while/add_1', 'AddV2', { n'while/Identity_1', n'while/outer' }, T)
    node(n'while/NextIteration', 'NextIteration', { n'while/add' }, INT)
    node(n'while/NextIteration_1', 'NextIteration', { n'while/add_1' }, T)
    node(n'while/Exit', 'Exit', { n'while/Switch' }, INT)
    node(n'while/Exit_1', 'Exit', { n'while/Switch_1' }, T)
    y = n'while/Exit_1'
  end
  local bytes = table.concat(out)
  report(name, best(function() df.import_graph_def(bytes) end, 5, 1) * 1e5 / count, 's/100k nodes')
end)

workload('chain_5000', function(name)
  local gradient, run = math.huge, math.huge
  for _ = 1, 5 do
    df.reset()
    local x = df.placeholder('float32', {})
    local y = x
    for k = 1, 5000 do y = k % 2 == 0 and df.sin(y) or df.mul(y, x) end
    local t = clock()
    local g = df.gradients(y, x)
    local built = clock()
    df.run({ y, g }, { [x] = 0.3 })
    gradient, run = math.min(gradient, built - t), math.min(run, clock() - built)
  end
  report('chain_5000_gradients', gradient * 1e3, 'ms')
  report('chain_5000_first_run', run * 1e3, 'ms')
end)

workload('null_step', function(name)
  local nop, n = df.no_op(), 20000
  report(name, best(function() for _ = 1, n do df.run(nop) end end) / n * 1e6, 'us')
end)

workload('feed_add_fetch', function(name)
  local x, n = df.placeholder('float32', {}), 20000
  local y = x + 1
  report(name, best(function() for _ = 1, n do df.run(y, { [x] = 1 }) end end) / n * 1e6, 'us')
end)

workload('matmul_tanh', function()
  for _, size in ipairs{ { 64, 20000 }, { 256, 5000 } } do
    local D, N = unpack(size)
    df.reset()
    local w = fixed(normal({ D, D }, D ^ -0.5))
    local _, x = df.while_loop(function(i) return i:lt(N) end,
      function(i, x) return i + 1, df.tanh(df.matmul(x, w)) end, { df.int32(0), fixed(normal{ 1, D }) })
    report('matmul_tanh_' .. D, best(function() df.run(x) end) / N * 1e6, 'us/it')
  end
end)

-- Bodies whose kernels are split over the threads.
workload('heavy_loops', function()
  local function loop(name, N, body, x)
    local _, y = df.while_loop(function(i) return i:lt(N) end, function(i, v) return i + 1, body(v) end, { df.int32(0), x })
    report(name, N / best(function() df.run(y.op) end), 'it/s')
  end
  for _, size in ipairs{ { 256, 200 }, { 512, 60 }, { 1024, 20 } } do
    local D, N = unpack(size)
    df.reset()
    local w = fixed(normal({ D, D }, D ^ -0.5))
    loop('product_' .. D, N, function(x) return df.tanh(df.matmul(x, w)) end, fixed(normal{ D, D }))
  end
  df.reset()
  local filter = fixed(normal({ 3, 3, 32, 32 }, 1 / 17))
  loop('convolution', 20, function(x) return df.relu(df.conv2d(x, filter, { strides = { 1, 1, 1, 1 }, padding = 'SAME' })) end,
    fixed(normal{ 8, 32, 32, 32 }))
end)

workload('lstm', function()
  local T, B, I, H = 28, 128, 28, 128
  local X = fixed(normal{ T, B, I })
  local W = df.Variable(normal({ I + H, 4 * H }, 0.05))
  local b = df.Variable(df.fill({ 4 * H }, df.float32(0)))
  local zero = df.fill({ B, H }, df.float32(0))
  local input = df.TensorArray('float32', T):unstack(X)
  local _, _, _, out = df.while_loop(function(t) return t:lt(T) end, function(t, c, h, out)
    local z = df.matmul(df.concat({ input:read(t), h }, 1), W) + b
    local i, j, f, o = unpack(df.split(z, 4, { axis = 1 }))
    c = c * df.sigmoid(f + 1) + df.sigmoid(i) * df.tanh(j)
    h = df.tanh(c) * df.sigmoid(o)
    return t + 1, c, h, out:write(t, h)
  end, { df.int32(0), zero, zero, df.TensorArray('float32', T) })
  local loss = df.reduce_mean(df.square(out:stack()))
  local train = { loss, df.gradients(loss, { W, b }) }
  report('lstm_forward', best(function() df.run(loss) end, 9) * 1e3, 'ms')
  report('lstm_gradient', best(function() df.run(train) end, 9) * 1e3, 'ms')
end)

-- How long gradients take to build, for n, 2n and 4n nodes: linear is what these say when the time of a node stays the same.
workload('build_gradients', function(name)
  local function seconds(build, n)
    local least = math.huge
    for _ = 1, 3 do
      df.reset()
      local x = df.placeholder('float32', {})
      local y = build(x, n)
      collectgarbage()
      local t = clock()
      df.gradients(y, x)
      least = math.min(least, clock() - t)
    end
    return least
  end
  local function chain(x, n)
    local y = x
    for k = 1, n do y = k % 2 == 0 and df.sin(y) or df.mul(y, x) end
    return y
  end
  local function nested(x, n, save)                       -- five loops deep, as many nodes in each
    local function level(u, d)
      for k = 1, n / 6 do u = k % 2 == 0 and df.sin(u) or df.mul(u, x) end
      if d == 0 then return u end
      return select(2, df.while_loop(function(i) return i:lt(2) end, function(i, v) return i + 1, level(v, d - 1) end,
                                     { df.int32(0), u }, { save = save }))
    end
    return level(x, 5)
  end
  local function many_loops(x, n)
    for _ = 1, n / 10 do
      x = select(2, df.while_loop(function(i) return i:lt(2) end, function(i, v) return i + 1, df.sin(v) * 0.5 end, { df.int32(0), x }))
    end
    return x
  end
  for _, w in ipairs{ { 'chain', chain, 100000 }, { 'loops', many_loops, 10000 }, { 'nested', function(x, n) return nested(x, n) end, 3000 },
                      { 'nested_recompute', function(x, n) return nested(x, n, 'recompute') end, 3000 } } do
    for _, times in ipairs{ 1, 2, 4 } do
      local n = w[3] * times
      report(('%s_%s_%dn'):format(name, w[1], times), seconds(w[2], n) / n * 1e6, 'us/node')
    end
  end
end)
