-- run: once
-- gpu_spec.lua: gpu:0, on the strict driver of spec/cuda, which runs the kernels of kernels/cuda on the CPU, late and in odd orders, and reports
-- whatever CUDA's rules do not allow. The driver is chosen when a process opens it, so programs run in processes of their own.

local cudagraph = require 'spec.cudagraph'
local support = require 'spec.support'
local build = os.getenv 'DFLOW_BUILD'
local sentence, gpu = cudagraph.here and it or pending, cudagraph.gpu

-- Builds each value twice, on cpu:0 and on gpu:0, and compares; `near` is relative.
local compare = [[
local near, failed = require 'spec.support'.near, 0
local function check(name, tolerance, fn)
  local on = {}
  for i, d in ipairs{ 'cpu:0', 'gpu:0' } do on[i] = df.device(d, fn) end
  local r = df.run(on)
  local ok, why = pcall(near, r[2], r[1], { rtol = tolerance, atol = tolerance })
  if not ok then print(name, why) failed = failed + 1 end
end
]]

describe('gpu:0', function()
  sentence('gives the values of the CPU: elementwise, broadcast, folded, moved, gathered, multiplied', function()
    assert.equal('0', gpu(compare .. [[
      local x = df.constant({ { 0.3, -1.2, 2.5 }, { 0.1, 0.7, -0.4 } })
      local p = df.constant({ { 0.3, 0.2, 0.5 }, { 0.1, 0.7, 0.4 } })
      local v = df.constant({ 1.5, -0.5, 0.25 })
      local ints = df.constant({ 5, -3, 7, 0 }, 'int32')
      for _, op in ipairs{ 'neg', 'abs', 'sign', 'square', 'exp', 'expm1', 'sin', 'cos', 'tan', 'atan', 'sinh', 'cosh', 'tanh', 'asinh', 'erf',
        'erfc', 'floor', 'ceil', 'round', 'rint', 'sigmoid', 'softplus', 'relu', 'relu6', 'elu', 'selu', 'softsign', 'is_nan', 'is_finite' } do
        check(op, 3e-7, function() return df[op](x) end)
      end
      for _, op in ipairs{ 'sqrt', 'rsqrt', 'reciprocal', 'log', 'log1p', 'asin', 'acos', 'atanh', 'lgamma', 'erfinv', 'ndtri' } do
        check(op, 3e-6, function() return df[op](p) end)
      end
      for _, op in ipairs{ 'add', 'sub', 'mul', 'div', 'maximum', 'minimum', 'squared_difference', 'less', 'greater_equal', 'not_equal', 'atan2' } do
        check(op, 3e-7, function() return df[op](x, v) end)
        check(op, 3e-7, function() return df[op](2.5, x) end)
      end
      check('pow', 1e-6, function() return p ^ v end)
      check('leaky_relu', 0, function() return df.leaky_relu(df.cast(x, 'float64')) end)
      check('ints', 0, function() return ints * 3 - ints end)
      check('bits', 0, function() return df.bitwise_and(ints, 6) end)
      check('cast', 0, function() return df.cast(x * 10, 'int32') end)
      check('half', 0, function() return df.cast(df.cast(x, 'float16') * 3, 'float32') end)
      check('where', 0, function() return df.where(x:gt(0), x, v + x) end)
      check('clip', 0, function() return df.clip_by_value(x, -0.5, 0.5) end)
      check('bounds that have passed each other', 0, function() return df.clip_by_value(x * 1, v, v - 1) end)
      check('such bounds of integers', 0, function() return df.clip_by_value(ints * 1, df.constant(4, 'int32'), df.constant(2, 'int32')) end)
      check('add_n', 0, function() return df.add_n{ x, x, x } end)
      for _, op in ipairs{ 'sum', 'mean', 'prod', 'max', 'min' } do
        check(op, 1e-6, function() return df['reduce_' .. op](x, { axis = 0 }) end)
        check(op, 1e-6, function() return df['reduce_' .. op](x, { axis = 1, keep_dims = true }) end)
        check(op, 1e-6, function() return df['reduce_' .. op](x) end)
      end
      check('logsumexp', 1e-6, function() return df.reduce_logsumexp(x, { axis = 1 }) end)
      check('argmax', 0, function() return df.argmax(x, 1) end)
      check('cumsum', 1e-6, function() return df.cumsum(x, 1, { reverse = true }) end)
      check('softmax', 1e-6, function() return df.softmax(x) end)
      check('log_softmax', 1e-6, function() return df.log_softmax(x) end)
      check('xent', 1e-6, function() return df.sparse_softmax_cross_entropy_with_logits(x, df.constant({ 2, 0 }, 'int32')) end)
      check('transpose', 0, function() return df.transpose(x) end)
      check('concat', 0, function() return df.concat({ x, x }, 1) end)
      check('split', 0, function() return df.split(x, 3, { axis = 1 }) end)
      check('stack', 0, function() return df.stack({ x, x }) end)
      check('unstack', 0, function() return df.unstack(x) end)
      check('slice', 0, function() return x:slice({ 0, 1 }, { 2, 2 }) end)
      check('strided', 0, function() return x:strided_slice({ 1, 2 }, { -3, -4 }, { -1, -1 }) end)
      check('row', 0, function() return x[1] end)
      check('tile', 0, function() return df.tile(x, { 2, 3 }) end)
      check('pad', 0, function() return df.pad(x, { { 1, 0 }, { 0, 2 } }) end)
      check('reverse', 0, function() return df.reverse(x, { 1 }) end)
      check('fill', 0, function() return df.fill({ 2, 2 }, 7.5) end)
      check('gather', 0, function() return df.gather(x, df.constant({ 1, 0, 1 }, 'int32')) end)
      check('gather 1', 0, function() return df.gather(x, df.constant({ 2, 0 }, 'int32'), { axis = 1 }) end)
      check('gather_nd', 0, function() return df.gather_nd(x, df.constant({ { 1, 2 }, { 0, 0 } }, 'int32')) end)
      check('scatter_nd', 0, function() return df.scatter_nd(df.constant({ { 1 }, { 3 }, { 1 } }, 'int32'), df.constant{ 1., 2., 3. }, { 5 }) end)
      check('matmul', 1e-6, function() return df.matmul(x, x, { transpose_b = true }) end)
      check('batch', 1e-6, function() return df.matmul(df.reshape(df.tile(x, { 2, 1 }), { 2, 2, 3 }), df.reshape(df.tile(p, { 2, 1 }), { 2, 3, 2 })) end)
      check('bias', 0, function() return df.bias_add(x, v) end)
      check('uniform', 0, function() return df.random_uniform({ 9 }, { seed = 3 }) end)
      check('normal', 0, function() return df.random_normal({ 9 }, { seed = 3 }) end)
      check('truncated', 0, function() return df.truncated_normal({ 40 }, { seed = 3 }) end)
      print(failed)
    ]]))
  end)

  sentence('runs loops, conditionals, arrays and their gradients as the CPU does, in any order of the driver', function()
    for seed = 1, 2 do
      assert.equal('0', gpu(compare .. [[
        local w = df.constant({ { 0.5, -0.3 }, { 0.2, 0.8 } })
        local function program()
          local x0 = df.constant({ { 1.0, 2.0 } })
          local function step(i, x, ta)
            local y = cond((i % 2):eq(0), function() return df.tanh(x:matmul(w)) end, function() return x * 1.5 end)
            return i + 1, y, ta:write(i, y:reduce_sum())
          end
          local _, x, ta = while_loop(function(i) return i:lt(6) end, step, { df.int32(0), x0, TensorArray('float32', 6) })
          local loss = (x * x):reduce_sum() + ta:stack():reduce_sum()
          return { loss, gradients(loss, w), gradients(gradients(loss, x0):reduce_sum(), w), ta:stack() }
        end
        check('loop', 1e-4, program)
        print(failed)
      ]], 'DFLOW_STRICT_SEED=' .. seed))
    end
  end)

  sentence('differentiates calls of functions, also such as call themselves: what a call keeps for that is the host\'s', function()
    assert.equal('0', gpu(compare .. [[
      for _, kind in ipairs{ 'plain', 'loop', 'itself' } do
        check(kind, 1e-6, function()
          local f
          f = df.func('f', { 'float32', 'int32' }, function(x, n)
            if kind == 'plain' then return df.tanh(x) * x end
            if kind == 'itself' then return df.cond(n:gt(0), function() return f(df.tanh(x) * 1.5, n - 1) end, function() return x * x end) end
            return (select(2, df.while_loop(function(i) return i:lt(n) end, function(i, y) return i + 1, df.tanh(y) * 0.5 + x end, { df.int32(0), x })))
          end, { returns = { 'float32' } })
          local x = df.constant{ { 0.5, -0.25 } } * df.constant{ { 2.0 } }
          local y = f(x, df.int32(5)) + f(x * 2, df.int32(3))
          local d = df.gradients(df.reduce_sum(y), x)
          return { y, d, df.gradients(df.reduce_sum(d), x) }
        end)
      end
      print(failed)
    ]]))
  end)

  sentence('trains: variables and their slots live on it', function()
    assert.equal('true', gpu[[
      local x = df.constant({ { 1., 2. }, { 3., 4. }, { -1., 0.5 } })
      local y = df.constant({ { 3. }, { 7. }, { -0.5 } })
      local loss, step
      df.device('gpu:0', function()
        local w = df.Variable(df.zeros({ 2, 1 }))
        loss = ((x:matmul(w) - y) ^ 2):reduce_mean()
        step = df.train.Adam(0.1):minimize(loss)
      end)
      local first = df.run(loss)
      for _ = 1, 60 do df.run(step) end
      print(df.run(loss) < first / 20)
    ]])
  end)

  sentence('steps a variable that is one number, wherever its value was made', function()
    local values = [[
      for _, rule in ipairs{ df.train.SGD(0.1), df.train.Momentum(0.1, 0.9), df.train.Adam(0.1) } do
        df.reset()
        df.device(arg[1], function()
          local w, t = df.Variable(4.0), df.constant{ 1.0, 2.0, 3.0 }
          local step = rule:minimize(df.square(w - df.reduce_sum(t * t) / 14))
          local made = w:assign(df.reduce_sum(t) - 2)
          for _ = 1, 2 do
            df.run(made)
            for _ = 1, 3 do df.run(step) end
          end
          print(('%.5f'):format(df.run(w)))
        end)
      end]]
    local expected = gpu((values:gsub('arg%[1%]', "'cpu:0'")))
    assert.equal(3, select(2, expected:gsub('%d%.%d+', '')))
    assert.equal(expected, gpu((values:gsub('arg%[1%]', "'gpu:0'"))))
  end)

  sentence('has variables that the host reads and changes in parts', function()
    assert.equal('true 6.0 2.0\n3.0 2.0\n2.0 34.0 -1.0 9.0\n11.0 2.0 7.0 7.0', gpu[[
      local op, s, v = require('dflow.front.registry').op, df.Session{ soft_placement = true }
      df.device('gpu:0', function()
        local p = df.placeholder('float32', { 4 })
        v = df.Variable(df.zeros{ 4 })
        s:run(v:assign(p * 2), { [p] = { 1, 2, 3, 4 } })          -- computed there
      end)
      local function say(x, first)
        local t = { first }
        for _, e in ipairs(s:run(x):totable()) do t[#t + 1] = ('%.1f'):format(e) end
        print(table.concat(t, ' '))
      end
      local there = s:devices()[2].memory.in_use > 0
      say(op('ResourceGather', { v, df.int32{ 2, 0 } }, { dtype = 'float32' }), tostring(there))
      say(op('ResourceGatherNd', { v, df.int32{ { 1 }, { 0 } } }, { dtype = 'float32' }) - df.float32{ 1, 0 })
      s:run(op('ResourceScatterNdAdd', { v, df.int32{ { 1 }, { 1 } }, df.float32{ 10, 20 } }))
      s:run(op('ResourceScatterNdMin', { v, df.int32{ { 2 } }, df.float32{ -1 } }))
      s:run(op('ResourceStridedSliceAssign', { v, df.int32{ 3 }, df.int32{ 4 }, df.int32{ 1 }, df.float32{ 9 } }))
      say(v)
      s:run(op('ResourceScatterNdUpdate', { v, df.int32{ { 0 }, { 1 } }, df.float32{ 11, 2 } }))
      s:run(op('ResourceStridedSliceAssign', { v, df.int32{ 2 }, df.int32{ 4 }, df.int32{ 1 }, df.float32{ 7, 7 } }))
      say(v)
    ]])
  end)

  sentence('takes every rule\'s step where the variable lies, on all of it and on rows, one of them named twice', function()
    assert.equal('0 true', gpu[[
      local op, s = require('dflow.front.registry').op, df.Session()
      local rules = {           -- name, slots, numbers before the gradient and after it
        { 'ProximalGradientDescent', 0, { 0.1, 0.01, 0.02 }, {} }, { 'KerasMomentum', 1, { 0.1 }, { 0.9 } },
        { 'Adagrad', 1, { 0.1 }, {} }, { 'AdagradV2', 1, { 0.1, 0.01 }, {} }, { 'ProximalAdagrad', 1, { 0.1, 0.01, 0.02 }, {} },
        { 'Adadelta', 2, { 0.1, 0.9, 0.01 }, {} }, { 'RMSProp', 2, { 0.1, 0.9, 0.5, 0.01 }, {} },
        { 'CenteredRMSProp', 3, { 0.1, 0.9, 0.5, 0.1 }, {} }, { 'Ftrl', 2, {}, { 0.1, 0.01, 0.02, -0.5 } },
        { 'FtrlV2', 2, {}, { 0.1, 0.01, 0.02, 0.03, -0.5 } }, { 'Adam', 2, { 0.9, 0.99, 0.1, 0.9, 0.99, 0.01 }, {} },
        { 'AdaMax', 2, { 0.9, 0.1, 0.9, 0.99, 0.01 }, {}, true }, { 'AddSign', 1, { 0.1, 1, 0.5, 0.9 }, {}, true },
        { 'PowerSign', 1, { 0.1, 1, 0.5, 0.9 }, {}, true }, { 'Momentum', 1, { 0.1 }, { 0.9 } }, { 'GradientDescent', 0, { 0.1 }, {} },
      }
      local function after(rule, rows, device)
        return df.device(device, function()
          local vars, inputs = {}, {}
          for i = 0, rule[2] do
            vars[i + 1] = df.Variable(df.float32{ { 0.5 + i, 1, 2 }, { 1, 0.25, 0.5 }, { 1.5, 2, 0.75 }, { 3, 1, 1 } } * 1)
            inputs[i + 1] = vars[i + 1]
          end
          for _, v in ipairs(rule[3]) do inputs[#inputs + 1] = df.float32(v) end
          inputs[#inputs + 1] = rows and df.float32{ { 1, -2, 3 }, { 0.5, 1, -1 }, { -1, 0.25, 2 } } * 1
            or df.float32{ { 1, -2, 3 }, { 0.5, 1, -1 }, { -1, 0.25, 2 }, { 0.5, 0.5, 0 } } * 1
          if rows then inputs[#inputs + 1] = df.int32{ 2, 0, 2 } end
          for _, v in ipairs(rule[4]) do inputs[#inputs + 1] = df.float32(v) end
          s:run(op((rows and 'ResourceSparseApply' or 'ResourceApply') .. rule[1], inputs))
          local flat = {}
          for _, v in ipairs(vars) do for _, r in ipairs(s:run(v):totable()) do for _, e in ipairs(r) do flat[#flat + 1] = e end end end
          return flat
        end)
      end
      local failed = 0
      for _, rule in ipairs(rules) do
        for _, rows in ipairs(rule[5] and { false } or { false, true }) do
          local a, b = after(rule, rows, 'cpu:0'), after(rule, rows, 'gpu:0')
          for i = 1, #a do
            if math.abs(a[i] - b[i]) > 1e-5 then print(rule[1], rows, i, a[i], b[i]) failed = failed + 1 break end
          end
        end
      end
      print(failed, s:devices()[2].memory.in_use > 0)
    ]]:gsub('\t', ' '))
  end)

  sentence('takes what the host has: sums of more numbers than a call has room for, numbers of 16 bytes', function()
    assert.equal('840.0 2.5 2.5', gpu[[
      local list, z = {}, df.cast(df.placeholder_with_default(2.5, {}), 'complex128')
      for i = 1, 40 do list[i] = df.placeholder_with_default(i + 0.5, {}) end
      local sum, pair = df.device('gpu:0', function() return df.add_n(list), df.stack{ z, z } end)
      local two = df.run(df.real(pair))
      print(df.run(sum) .. ' ' .. two:at(0) .. ' ' .. two:at(1))
    ]])
  end)

  sentence('gives pinned memory back that a large copy once needed', function()
    assert.equal('true', gpu[[
      local function resident()
        for line in io.lines '/proc/self/status' do
          local kb = line:match '^VmRSS:%s+(%d+)'
          if kb then return tonumber(kb) end
        end
      end
      df.device('gpu:0', function()
        local x = df.placeholder('float32', { -1 })
        local small, sum = x * 2, df.reduce_sum(x)
        df.run(sum, { [x] = df.run(df.ones{ 24 * 2 ^ 20 }) })
        local function often(n) for _ = 1, n do df.run(small, { [x] = { 1, 2, 3 } }) end end
        often(1)
        collectgarbage()
        collectgarbage()
        local before = resident()
        often(600)
        print(before - resident() > 64 * 1024)
      end)
    ]])
  end)

  sentence('says where a kernel is missing, what index is wrong, and that memory has run out', function()
    local out = gpu[[
      local x = df.constant({ 1., 2., 3. })
      print(select(2, pcall(df.run, df.device('gpu:0', function() return df.as_string(x) end))))
      local at = df.placeholder('int32', { -1 })
      print(select(2, pcall(df.run, df.device('gpu:0', function() return df.gather(x, at) end), { [at] = { 5 } })))
      local s = df.Session{ devices = { 'cpu:0', { 'gpu:0', memory = '1MB' } } }
      print(select(2, pcall(s.run, s, df.device('gpu:0', function() return df.fill({ 1024, 1024 }, 1.0):reduce_sum() end))))
      print(df.run(x:reduce_sum()))
    ]]
    assert.matches('has no kernel for gpu:0', out)
    assert.matches('indices%[0%] = 5 is not in %[0, 3%)', out)
    assert.matches('out of memory for float32%[1024,1024%] on gpu:0', out)
    -- without a limit of its own the GPU's own memory is one
    assert.matches('out of memory for float32%[3000,1000%] on gpu:0 %(12 MB in use; it has no more%); the largest holders are `Mul`', gpu([[
      local x = df.device('gpu:0', function() return df.fill({ 3000, 1000 }, 2.0) * 3 end)
      print(select(2, pcall(df.run, df.device('gpu:0', function() return df.reduce_sum(x * x) end))))
    ]], 'DFLOW_STRICT_MEMORY=20000000'))
    assert.matches('6.0$', out)
  end)

  sentence('swaps and recomputes what a gradient needs, within its memory; goes with a second GPU, a sim and owners', function()
    assert.equal('resource_exhausted true true true true', gpu([[
      local function program(save)
        local w = df.constant(0.01, 'float32', { 32, 32 })
        local function step(i, x) return i + 1, df.tanh(x:matmul(w) + 0.1) end
        local _, x = while_loop(function(i) return i:lt(40) end, step, { df.int32(0), df.ones({ 64, 32 }) }, { save = save })
        return gradients(x:reduce_sum(), w):reduce_sum()
      end
      local want = df.run(program 'keep')
      local function on_gpu(save) return df.device('gpu:0', function() return program(save) end) end
      local function near(x) return tostring(math.abs(x - want) < 1e-5 * want) end
      local s = df.Session{ devices = { 'cpu:0', { 'gpu:0', memory = '150KB' } } }
      local _, e = pcall(s.run, s, on_gpu 'keep')
      local said = { e.code, near(s:run(on_gpu 'swap')), near(s:run(on_gpu 'recompute')) }
      local both = df.Session{ devices = { 'cpu:0', 'gpu:0', 'gpu:1', 'sim:0' }, owners = 3 }
      local a = df.device('gpu:0', function() return df.ones({ 3, 3 }) * 2 end)
      local b = df.device('gpu:1', function() return a:matmul(a) end)
      local c = df.device('sim:0', function() return b + 1 end)
      said[4] = tostring(both:run(df.device('gpu:0', function() return c:reduce_sum() end)) == 117)
      said[5] = near(both:run(on_gpu 'keep'))
      print(table.concat(said, ' '))
    ]], 'DFLOW_VIRTUAL_GPUS=2'))
  end)

  sentence('has what another GPU made without the host\'s part, in loops and their gradients, too', function()
    for seed = 1, 2 do
      for _, gpus in ipairs{ 'DFLOW_STRICT_GPUS=2', 'DFLOW_VIRTUAL_GPUS=2' } do
        assert.equal('true 0 1\ntrue true true', gpu([[
          local x, feed = df.placeholder('float32', { 3, 4 }), df.run(df.random_uniform({ 3, 4 }, { seed = 2 }))
          local s = df.Session{ devices = { 'cpu:0', 'gpu:0', 'gpu:1' } }
          local function near(a, b) return math.abs(a - b) < 1e-4 end
          local function chain(one, other)
            local a = df.device(one, function() return df.exp(x) * 2 end)
            return df.device(other, function() return df.reduce_sum(a * a) end)
          end
          local there = near(df.run(chain('cpu:0', 'cpu:0'), { [x] = feed }), s:run(chain('gpu:0', 'gpu:1'), { [x] = feed }))
          local d = s:devices()
          print(tostring(there) .. ' ' .. d[2].copies_out .. ' ' .. d[3].copies_across)
          local w = df.constant(0.1, 'float32', { 4, 4 })
          local function program(one, other)
            local _, y = df.while_loop(function(i) return i:lt(9) end, function(i, y)
              local h = df.device(one, function() return df.tanh(y:matmul(w)) end)
              return i + 1, df.device(other, function() return h * 1.5 + y end)
            end, { df.int32(0), x * 1 })
            return { y:reduce_sum(), df.reduce_sum(df.gradients(y:reduce_sum(), x)) }
          end
          local a, b = df.run(program('cpu:0', 'cpu:0'), { [x] = feed }), s:run(program('gpu:1', 'gpu:0'), { [x] = feed })
          print(tostring(near(a[1], b[1])) .. ' ' .. tostring(near(a[2], b[2])) .. ' ' .. tostring(s:devices()[3].copies_across > 5))
        ]], gpus .. ' DFLOW_STRICT_SEED=' .. seed))
      end
    end
  end)

  sentence('copies what is large in parts, with as much pinned memory as the host has', function()
    local code = [[
      local n = 10 * 2 ^ 20
      local x, right = df.placeholder('float32', { n }), true
      local y = df.run(df.device('gpu:0', function() return x * 2 end), { [x] = df.run(df.cast(df.range(n), 'float32')) })
      for _, i in ipairs{ 0, 1, 4194303, 4194304, 4194305, 8388607, 8388608, n - 1 } do right = right and y:at(i) == 2 * i end
      print(right)
    ]]
    assert.equal('true', gpu(code))
    assert.equal('true', gpu(code, 'DFLOW_STRICT_PINNED=3000000'))
    -- a slab, and no more: what waits for memory waits for a part of it
    assert.equal('3000000.0\n3000000.0', gpu([[
      local x = df.placeholder('float32', { -1 })
      local y = df.device('gpu:0', function() return df.reduce_sum(x * 1.0) end)
      for _ = 1, 2 do print(df.run(y, { [x] = df.run(df.device('cpu:0', function() return df.ones{ 3000000 } end)) })) end
    ]], 'DFLOW_STRICT_PINNED=2097152'))
    assert.matches('gpu:0 failed: cuMemHostAlloc: the host has no memory left that can be pinned', gpu(code, 'DFLOW_STRICT_PINNED=1000'))
  end)

  sentence('copies much that is small at once, from a slab or, where there is room for none, from memory of its own', function()
    local code = [[
      local n, xs, feeds, want = 300, {}, {}, 0
      for i = 1, n do
        xs[i] = df.placeholder('float32', { 1 + i % 5 * 2000 })
        feeds[xs[i] ] = df.run(df.device('cpu:0', function() return df.fill({ 1 + i % 5 * 2000 }, i * 1.0) end))
        want = want + i
      end
      local y = df.device('gpu:0', function()
        local sum = df.reduce_max(xs[1])
        for i = 2, n do sum = sum + df.reduce_max(xs[i]) end
        return sum
      end)
      for round = 1, 3 do print(df.run(y, feeds) == want) end
    ]]
    for _, env in ipairs{ '', 'DFLOW_STRICT_PINNED=3000000', 'DFLOW_STRICT_PINNED=200000', 'DFLOW_STRICT_SEED=3' } do
      assert.equal('true\ntrue\ntrue', gpu(code, env))
    end
  end)

  sentence('is a clear error where there is no driver', function()
    local out = gpu([[print(select(2, pcall(df.run, df.device('gpu:0', function() return df.constant{ 1. } + 1 end))))]], 'DFLOW_CUDA_DRIVER=/nowhere/libcuda.so.1')
    assert.matches("there is no device 'gpu:0'", out)
    assert.matches('no CUDA driver', out)
  end)

  sentence('runs what specs of loops, variables and ops say, as `make gpu-strict` does with all of them', function()
    local files = ''
    for name in support.sample('graph/cond graph/while_loop resource/variables resource/ref_variables ops/tensor_list ops/train',
      [[graph/cond graph/while_loop resource/variables resource/ref_variables resource/tensor_array_v3 exchange/models ops/tensor_list ops/convolution
        ops/pooling ops/fused_cells ops/ops_array ops/ops_index ops/ops_reduce ops/ops_nn ops/optimizer_ops ops/train ops/special]]):gmatch('%S+') do
      files = files .. ' spec/' .. name .. '_spec.lua'
    end
    local p = assert(io.popen(('env DFLOW_CUDA_DRIVER=strict DFLOW_DEFAULT_DEVICE=gpu:0 timeout 900 %s/dflow "$(command -v busted)" -f .busted -o plainTerminal %s 2>&1')
      :format(build, files)))
    local out = p:read('*a')
    p:close()
    assert.matches(' 0 failures / 0 errors', out)
    assert.is_nil(out:match('strict CUDA driver[^\n]*'))
  end)
end)
