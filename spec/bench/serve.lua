-- serve.lua: dflow's side of side_by_side. Reads `prepare NAME`, `sample` and `quit`, one a line; answers a JSON line each.
-- A workload is a function that builds in a fresh graph and gives: what runs it once, how many units one run is, and a number
-- (or what gives it) that has to be the same in every system.
--
--   serve.lua DATA.npz [threads]
local df = require 'dflow'
local clock = require 'dflow.core'.clock
local unpack = table.unpack or unpack
local path, threads = ...
threads = tonumber(threads or os.getenv 'THREADS')

local session
local data = df.load_npz(path)
local function variable(name) return df.Variable(df.constant(data[name])) end
local function zeros(shape) return df.fill(shape, df.float32(0)) end
local function run(...) return session:run(...) end
local function call(fetch, feeds) return function() return run(fetch, feeds) end end

local W = {}

-- ---- loops ----
function W.counter()
  local N = 100000
  local i = df.while_loop(function(i) return i:lt(N) end, function(i) return i + 1 end, { df.int32(0) })
  return call(i), N, call(i)
end

function W.counter_float()
  local N, x0 = 100000, df.placeholder('float32', {})
  local _, x = df.while_loop(function(i) return i:lt(N) end, function(i, x) return i + 1, x * 1.0000001 end, { df.int32(0), x0 })
  local f = call(x, { [x0] = 1 })
  return f, N, f
end

function W.nested()
  local _, a = df.while_loop(function(i) return i:lt(300) end, function(i, a)
    local _, inner = df.while_loop(function(j) return j:lt(100) end, function(j, b) return j + 1, b + 1 end, { df.int32(0), a })
    return i + 1, inner
  end, { df.int32(0), df.float32(0) })
  return call(a), 30000, call(a)
end

function W.cond_in_loop()
  local N, x0 = 30000, df.placeholder('float32', {})
  local _, x = df.while_loop(function(i) return i:lt(N) end, function(i, x)
    return i + 1, df.cond((i % 2):eq(0), function() return x * 1.0001 end, function() return x - 0.0001 end)
  end, { df.int32(0), x0 })
  local f = call(x, { [x0] = 0.5 })
  return f, N, f
end

function W.grad_scalar_loop()
  local N, x0 = 10000, df.placeholder('float32', {})
  local _, x = df.while_loop(function(i) return i:lt(N) end, function(i, x) return i + 1, df.sin(x) end, { df.int32(0), x0 })
  local g = df.gradients(x, x0)
  return call({ x, g }, { [x0] = 0.5 }), N, call(x, { [x0] = 0.5 })
end

function W.grad_rnn_loop()
  local w, h0 = variable 'rnn_w', df.constant(data.rnn_h)
  local _, x = df.while_loop(function(i) return i:lt(1000) end, function(i, x) return i + 1, df.tanh(df.matmul(x, w)) end, { df.int32(0), h0 })
  local g = df.gradients(df.reduce_sum(x), w)
  return call(g), 1000, call(df.reduce_sum(df.abs(g)))
end

function W.map_fn()
  local y = df.map_fn(function(v) return v * v + 1.0 end, variable 'map_e')
  return call(y), 10000, call(df.reduce_sum(y))
end

local function scan()
  local e = variable 'scan_e'
  local y = df.scan(function(a, v) return a * 0.9 + v end, e)
  return y, df.gradients(df.reduce_sum(y), e)
end
function W.scan() local y = scan() return call(y), 10000, call(df.reduce_sum(df.abs(y))) end
function W.scan_grad() local _, g = scan() return call(g), 10000, call(df.reduce_sum(df.abs(g))) end

-- ---- LSTM ----
local function lstm(key, save)
  local X = data[key .. 'x']
  local T, B = X.shape[1], X.shape[2]
  local w, b = variable(key .. 'w'), variable(key .. 'b')
  local zero = zeros{ B, math.floor(data[key .. 'b'].shape[1] / 4) }
  local input = df.TensorArray('float32', T):unstack(df.constant(X))
  local _, _, _, out = df.while_loop(function(t) return t:lt(T) end, function(t, c, h, out)
    local z = df.matmul(df.concat({ input:read(t), h }, 1), w) + b
    local i, j, f, o = unpack(df.split(z, 4, { axis = 1 }))
    c = c * df.sigmoid(f + 1) + df.sigmoid(i) * df.tanh(j)
    h = df.tanh(c) * df.sigmoid(o)
    return t + 1, c, h, out:write(t, h)
  end, { df.int32(0), zero, zero, df.TensorArray('float32', T) }, { save = save })
  local loss = df.reduce_mean(df.square(out:stack()))
  return loss, df.gradients(loss, { w, b })
end
for _, size in ipairs{ '28_128_128', '100_32_128', '100_64_512' } do
  W['lstm_' .. size .. '_fwd'] = function()
    local loss = lstm('lstm_' .. size .. '_')
    return call(loss), 1, call(loss)
  end
  W['lstm_' .. size .. '_grad'] = function()
    local loss, g = lstm('lstm_' .. size .. '_')
    return call{ loss, g }, 1, call(df.reduce_sum(df.abs(g[1])))
  end
end

-- ---- training steps ----
local function lenet()
  local h = df.constant(data.image)
  local function conv(x, w, padding) return df.relu(df.conv2d(x, variable(w), { strides = { 1, 1, 1, 1 }, padding = padding })) end
  local function pool(x) return df.max_pool(x, { ksize = { 1, 2, 2, 1 }, strides = { 1, 2, 2, 1 }, padding = 'VALID' }) end
  h = pool(conv(h, 'net_w1', 'SAME'))
  h = pool(conv(h, 'net_w2', 'VALID'))
  h = df.reshape(conv(h, 'net_w3', 'VALID'), { 128, 64 })
  local y = df.matmul(df.relu(df.matmul(h, variable 'net_w4')), variable 'net_w5')
  return df.reduce_mean(df.sparse_softmax_cross_entropy_with_logits(y, df.constant(data.label)))
end
function W.lenet_step()
  local loss = lenet()
  local first = run(loss)
  return call(df.train.SGD(0.01):minimize(loss)), 1, function() return first end
end
local function mlp()
  local h = df.relu(df.matmul(df.constant(data.pixels), variable 'mlp_w1') + df.Variable(zeros{ 128 }))
  local y = df.matmul(h, variable 'mlp_w2') + df.Variable(zeros{ 10 })
  return df.reduce_mean(df.sparse_softmax_cross_entropy_with_logits(y, df.constant(data.label):slice({ 0 }, { 64 })))
end
function W.mlp_adam_step()
  local loss = mlp()
  local first = run(loss)
  return call(df.train.Adam(0.001):minimize(loss)), 1, function() return first end
end

-- ---- kernels ----
local function kernel(name, build, unit)
  W[name] = function()
    local y = build()
    return call(y.op), unit or 1, call(df.reduce_sum(df.abs(df.cast(y, 'float64'))))
  end
end
kernel('ewise_chain', function() local x = variable 'ewise' return df.tanh(x) * df.sigmoid(x) + df.exp(-x * x) end, 1048576)
kernel('sum_all', function() return df.reduce_sum(variable 'square') end)
kernel('sum_axis0', function() return df.reduce_sum(variable 'square', { axis = 0 }) end)
kernel('sum_axis1', function() return df.reduce_sum(variable 'square', { axis = 1 }) end)
kernel('mean_axis0', function() return df.reduce_mean(variable 'square', { axis = 0 }) end)
kernel('transpose', function() return df.transpose(variable 'square', { 1, 0 }) end)
kernel('softmax', function() return df.softmax(variable 'logits') end)
kernel('layer_norm', function()
  local x = variable 'norm'
  local mean = df.reduce_mean(x, { axis = 1, keep_dims = true })
  local d = x - mean
  return d * df.rsqrt(df.reduce_mean(df.square(d), { axis = 1, keep_dims = true }) + 1e-5)
end)
kernel('gather', function() return df.gather(variable 'table', df.constant(data.rows)) end)
kernel('scatter_add', function() return df.scatter_nd(df.expand_dims(df.constant(data.rows), 1), variable 'table', { 100000, 64 }) end)
for _, n in ipairs{ 64, 256, 1024, 2048 } do
  kernel('gemm_' .. n, function() local a = variable('m' .. n) return df.matmul(a, a) end)
end
local function conv()
  local x, w = variable 'conv_x', variable 'conv_w'
  return df.conv2d(x, w, { strides = { 1, 1, 1, 1 }, padding = 'SAME' }), x, w
end
kernel('conv', function() return (conv()) end)
function W.conv_grad()
  local y, x, w = conv()
  local dx, dw = df.unpack(df.gradients(y, { x, w }, { grad_ys = y }))
  return call{ dx.op, dw.op }, 1, call(df.reduce_sum(df.abs(dw)))
end
local function pool()
  local x = variable 'conv_x'
  return df.max_pool(x, { ksize = { 1, 2, 2, 1 }, strides = { 1, 2, 2, 1 }, padding = 'VALID' }), x
end
kernel('max_pool', function() return (pool()) end)
kernel('max_pool_grad', function() local y, x = pool() return df.gradients(y, x, { grad_ys = y }) end)

-- ---- building and stepping ----
function W.null_step() return call(df.no_op()), 1 end
function W.feed_add_fetch()
  local x = df.placeholder('float32', {})
  local y, feeds = x + 1, { [x] = 1 }
  return function() return run(y, feeds) end, 1
end
function W.build()
  local n = 5000
  return function()
    df.Graph():as_default(function()
      local y, c = df.placeholder('float32', {}), df.float32(2)
      for _ = 1, n do y = df.mul(y, c) end
    end)
  end, n
end
local function chain(n)
  local x = df.placeholder('float32', {})
  local y = x
  for k = 1, n do y = k % 2 == 0 and df.sin(y) or df.mul(y, x) end
  return x, y
end
--- A workload that times itself: the function gives seconds.
function W.chain_gradients()
  return function()
    local g, spent = df.Graph()
    g:as_default(function()
      local x, y = chain(5000)
      collectgarbage()
      local t = clock()
      df.gradients(y, x)
      spent = clock() - t
    end)
    return spent
  end, 1, nil, true
end
function W.chain_first_run()
  return function()
    local g, spent = df.Graph()
    g:as_default(function()
      local x, y = chain(5000)
      local grad = df.gradients(y, x)
      local s = df.Session{ graph = g, threads = threads }
      collectgarbage()
      local t = clock()
      s:run({ y, grad }, { [x] = 0.3 })
      spent = clock() - t
      s:close()
    end)
    return spent
  end, 1, nil, true
end

-- ---- serving ----
local body, calls, timed
local function sample()
  if timed then return body() end
  local t = clock()
  for _ = 1, calls do body() end
  return (clock() - t) / calls
end
--- Hot loops are compiled in the background; other systems compile while they prepare. On a busy machine that takes a while.
local function settle()
  local began = clock()
  repeat
    body()
    local spent = clock() - began
  until spent > 5 or (spent > 0.1 and not session:native():find('it is being compiled', 1, true))
end
local function prepare(name)
  if not W[name] then return '{"skip": true}' end
  if session then session:close() end
  body = nil
  df.reset()
  collectgarbage()
  session = df.Session{ graph = df.default_graph(), threads = threads }
  local count, check
  body, count, check, timed = W[name]()
  local number = check and check()
  calls = 1
  sample()
  if not timed then settle() end
  local one = math.max(sample(), 1e-7)
  calls = math.max(1, math.floor(0.04 / one))
  sample()
  return ('{"count": %d, "calls": %d, "check": %s}'):format(count, calls, type(number) == 'number' and ('%.9g'):format(number) or 'null')
end

io.stdout:setvbuf 'line'
for line in io.lines() do
  local verb, name = line:match '^(%a+)%s*(.*)$'
  if verb == 'prepare' then
    local ok, answer = pcall(prepare, name)
    print(ok and answer or ('{"skip": true, "error": %q}'):format(tostring(answer):gsub('[\n"\\]', ' ')))
  elseif verb == 'sample' then collectgarbage() print(('%.9g'):format(sample()))
  else break end
end
