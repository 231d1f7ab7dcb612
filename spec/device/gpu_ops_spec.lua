-- run: once
--- gpu_ops_spec.lua: op by op, a GPU agrees with the host, and what it has no kernels for is listed with the reason (on the strict driver).
local build, mode = os.getenv('DFLOW_BUILD'), os.getenv('DFLOW_MODE') or ''
local here = build and io.open(build .. '/strict/libcuda.so.1') and not (mode == 'asan' or mode == 'tsan' or mode == 'ubsan')
local gpu_it = here and it or pending
local long_it = require('spec.support').long_it(gpu_it)

local function dflow(arguments)
  local p = assert(io.popen(('env -u DFLOW_DEFAULT_DEVICE DFLOW_CUDA_DRIVER=strict timeout 900 %s/dflow %s 2>&1'):format(build, arguments)))
  local out = p:read('*a')
  p:close()
  return (out:gsub('%s+$', ''))
end

describe('ops on gpu:0', function()
  gpu_it('agree with the host, each, and so do their gradients', function()
    local types = #require('spec.op_gradients').types()
    assert.is_true(types > 200)
    local told = dflow('spec/cuda/agree.lua'):gsub('%[[^\n]*%]\n', '')      -- but for what the op Print prints
    assert.equal(types .. ' agree', told)
  end)

  gpu_it('have zeros where the host has them for denormal floats', function()
    for _, how in ipairs{ 'apart', 'groups' } do
      local p = assert(io.popen(('DFLOW_STRESS=%s DFLOW_CUDA_DRIVER=strict timeout 900 %s/dflow spec/cuda/denormals.lua 2>&1'):format(how, build)))
      assert.equal('78 agree of 78\n', p:read('*a'))
      p:close()
    end
  end)

  long_it('agree with the reference over dtypes and shapes: empty, of one element, odd, larger than a block', function()
    assert.equal('1987 agree, 0 do not', dflow('spec/cuda/shapes.lua'))
  end)

  gpu_it('run where they are asked to, if TensorFlow runs them there in the host\'s memory: shapes, 32-bit integers, queues, stacks', function()
    assert.equal('83 of 83 agree', dflow('spec/cuda/hosted.lua'))
  end)

  gpu_it('say in the placement that they were asked to be there and that only the host has a kernel for them', function()
    local told = dflow([[-e "
      local x, list = df.placeholder('int32', { 3 }), {}
      df.device('gpu:0', function() list = { x // 2, x % 2, df.pow(x, 2), x * 2 } end)
      local s = df.Session{ devices = { 'cpu:0', 'gpu:0' } }
      for _, y in ipairs(list) do
        s:run(y, { [x] = { 1, 2, 3 } })
        local placed = s:placement(y)
        print(placed[#placed].device, placed[#placed].why)
      end"]])
    local host = 'cpu:0\tasked for (gpu:0), but there is a kernel for it on the host alone\n'
    assert.equal(host:rep(3) .. 'gpu:0\tasked for (gpu:0)', told)
  end)

  gpu_it('have what TensorFlow\'s arrays, lists and references hold on the GPU, wherever the handles are: runs copy what is fetched', function()
    assert.equal('5 of 5 agree, 2 3 2 3 3 copied', dflow('spec/cuda/contents.lua'))
  end)

  long_it('agree with it on complex numbers, transforms, matrices, what is drawn until it fits, and boxes', function()
    assert.equal('329 agree, 0 do not', dflow('spec/cuda/numerics.lua'))
  end)

  gpu_it('say what was wrong with a matrix, with logits and with boxes in the words of the host, and go on after it', function()
    local told = {}
    for i, device in ipairs{ 'cpu:0', 'gpu:0' } do
      told[i] = dflow(([[-e "
        local op = require('dflow.front.registry').op
        local x, nan, inf = df.float32, 0 / 0, 1 / 0
        local s = df.Session{}
        local function says(fn)
          local y = df.device('%s', function() return { fn() } end)
          local ok, e = pcall(s.run, s, y[1])
          print(ok and e or (tostring(e):match '[^\n]*'))
        end
        says(function() return df.cholesky(x{ { 1, 2 }, { 2, 1 } }) end)
        says(function() return df.matrix_inverse(x{ { { 1, 0 }, { 0, 1 } }, { { 1, 2 }, { 2, 4 } } }) end)
        says(function() return df.matrix_solve(x{ { 1, 2 }, { 2, 4 } }, x{ { 1 }, { 2 } }) end)
        says(function() return df.matrix_triangular_solve(x{ { 0, 2 }, { 2, 4 } }, x{ { 1 }, { 2 } }) end)
        says(function() return df.matrix_determinant(x{ { 1, 2 }, { 2, 4 } }) end)
        says(function() return op('LogMatrixDeterminant', { x{ { 0, 2 }, { 2, 1 } } }) end)
        says(function() return op('Svd', { x{ { 0, inf } } }) end)
        says(function() return op('SelfAdjointEigV2', { x{ { nan } } }) end)
        says(function() return op('Multinomial', { x{ { 0, nan, 1 } }, df.int32(3) }) end)
        says(function() return op('Multinomial', { x{ { 0, 0, 1 }, { -inf, -inf, -inf } }, df.int32(3) }) end)
        says(function() return op('RandomGamma', { df.int32{ 3 }, x{ 0, 1 } }) end)
        says(function() return op('NonMaxSuppressionV2', { x{ { 0, 1, 2, 3 } }, x{ 1 }, df.int32(3), x(3) }) end)
        says(function() return df.matrix_solve(x{ { 2, 0 }, { 0, 4 } }, x{ { 1 }, { 2 } }) end)"]]):format(device))
    end
    assert.equal(told[1], told[2])
    assert.matches(
      'Cholesky decomposition was not successful.*is not invertible.*not finite.*logits%[0, 1%] is NaN.*must be greater than 0.*%[%[0.5%]', told[2])
  end)

  gpu_it('let a recurrent net over examples of any length run there, with its gradient: what is copied does not grow with the steps', function()
    local told = dflow([[-e "
      local function net(device)
        df.reset()
        df.set_random_seed(3)
        local x, n = df.placeholder('float32', { 4, 30, 3 }), df.placeholder('int32', { 4 })
        local out = df.device(device, function()
          local y = df.rnn.dynamic_rnn(df.rnn.LSTMCell(5), x, { lengths = n })
          local loss = df.reduce_sum(y * y)
          local g = df.gradients(loss, { x, df.trainable_variables()[1] })
          return { loss, df.reduce_sum(g[1] * g[1]), df.reduce_sum(g[2] * g[2]) }
        end)
        local s, said, copies = df.Session{ devices = { 'cpu:0', 'gpu:0' } }, {}, {}
        local list = {}
        for i = 1, 360 do list[i] = math.sin(i) end
        local feeds = { [x] = df.tensor(list, 'float32'):reshape{ 4, 30, 3 } }
        for run, longest in ipairs{ 2, 2, 7, 30 } do
          feeds[n] = { longest, 1, 0, 2 }
          local was = s:devices()[2]
          for _, v in ipairs(s:run(out, feeds)) do said[#said + 1] = v end
          local is = s:devices()[2]
          if run > 1 then copies[#copies + 1] = { is.copies_in - was.copies_in, is.copies_out - was.copies_out } end
        end
        s:close()
        return said, copies
      end
      local a = net('cpu:0')
      local b, copies = net('gpu:0')
      for i, v in ipairs(a) do if math.abs(v - b[i]) > 1e-5 * math.max(1, math.abs(v)) then print(i, v, b[i]) end end
      local grows = false
      for i = 2, 3 do for k = 1, 2 do grows = grows or copies[i][k] > copies[i - 1][k] end end      -- a loop that is a graph by then has fewer
      print(#a, grows, copies[3][1] .. ' ' .. copies[3][2])"]])
    assert.matches('^12\tfalse\t%d+ %d$', told)
  end)

  gpu_it('are asked by an Assert there, which the host looks at', function()
    assert.matches('^true\nfalse\t[^\n]*it is below', dflow([[-e "
      local x = df.placeholder('float32', { 2 })
      local y = df.device('gpu:0', function()
        return df.control_dependencies({ df.assert(df.reduce_all(df.greater(x, 0)), { x }, { message = 'it is below' }) }, function() return x * 2 end)
      end)
      print(pcall(df.run, y, { [x] = { 1, 2 } }))
      print(pcall(df.run, y, { [x] = { 1, -2 } }))"]]):gsub('^true[^\n]*', 'true'))
  end)

  gpu_it('say which number is not finite, and go on after it', function()
    assert.equal(([[
true
false	x : Tensor had NaN values, the first at [1,2]
false	x : Tensor had Inf and NaN values, the first at [0,1]
true
false	h : Tensor had Inf values, the first at [4999] ]]):gsub(' $', ''), (dflow([[-e "
      local x = df.placeholder('float32', { 2, 3 })
      local h = df.placeholder('float16', { 6000 })
      local y = df.device('gpu:0', function() return df.check_numerics(x, { message = 'x' }) end)
      local z = df.device('gpu:0', function() return df.check_numerics(h, { message = 'h' }) end)
      local function says(y, feeds)
        local ok, e = pcall(df.run, y, feeds)
        print(ok and true or 'false\\t' .. tostring(e):match '%a+ : Tensor had [^\\n]*')
      end
      local nan, inf, many = 0 / 0, 1 / 0, {}
      says(y, { [x] = { { 1, 2, 3 }, { 4, 5, 6 } } })
      says(y, { [x] = { { 1, 2, 3 }, { 4, 5, nan } } })
      says(y, { [x] = { { 1, inf, 3 }, { nan, 5, 6 } } })
      for i = 1, 6000 do many[i] = i end
      says(z, { [h] = df.run(df.cast(df.float32(many), 'float16')) })
      many[5000] = -inf
      says(z, { [h] = df.run(df.cast(df.float32(many), 'float16')) })"]])))
  end)

  gpu_it('are told of by print there, which gives on what lies on the device', function()
    assert.equal('here[1 2][3]\nhere[1 2][3]\n[2. 4.] float32[2]\t1', dflow([[-e "
      local x = df.placeholder('float32', { 2 })
      local y = df.device('gpu:0', function()
        local a = x * 1
        return df.print(a, { a, df.int32(3) }, { message = 'here' }) * 2
      end)
      local s = df.Session{}
      s:run(y, { [x] = { 1, 2 } })
      local was = s:devices()[2].copies_in
      print(s:run(y, { [x] = { 1, 2 } }), s:devices()[2].copies_in - was)"]]))
  end)

  gpu_it('count numbers as approximately equal that are apart by the tolerance, as the host does', function()
    for _, dtype in ipairs{ 'float32', 'float64', 'float16', 'int32', 'uint8' } do
      assert.equal('[ true  true  true false] bool[4]', dflow(([[-e "
        local x = df.placeholder('%s', { 4 })
        print(df.run(df.device('gpu:0', function() return df.approximate_equal(x, df.constant({ 1, 3, 3, 98 }, '%s'), { tolerance = 1 }) end),
          { [x] = { 1, 2, 4, 100 } }))"]]):format(dtype, dtype)))
    end
    assert.equal('[ true false false] bool[3]', dflow[[-e "
      local x = df.placeholder('float32', { 3 })
      print(df.run(df.device('gpu:0', function() return df.approximate_equal(x, { 0.1, 1 / 0, 0 }, { tolerance = 0.1 }) end),
        { [x] = { 0, 1 / 0, 0 / 0 } }))"]])
  end)

  gpu_it('have a kernel there, or a reason to have none', function()
    local told = dflow([[-e "
      local core = require 'dflow.backend'
      df.run(df.device('gpu:0', function() return df.constant{ 1. } + 1 end))
      for op = 0, core.op_count() - 1 do io.write(core.op_info(op).type, ' ', core.op_about(op, 'gpu') or 'none', '\n') end"]])
    local without, kernels = {}, 0
    for _, group in ipairs(require 'spec.cuda.without') do
      for kind in group[1]:gmatch('%S+') do
        assert.is_nil(without[kind], kind .. ' is listed twice')
        without[kind] = group.why
      end
    end
    local wrong = {}
    for kind, how in told:gmatch('(%w+) (%w+)') do
      if how == 'none' and not without[kind] then wrong[#wrong + 1] = kind .. ' has no kernel and no reason' end
      if how ~= 'none' and without[kind] then wrong[#wrong + 1] = kind .. ' has one (' .. how .. '), though it is listed' end
      without[kind] = nil
      kernels = kernels + (how == 'kernel' and 1 or 0)
    end
    for kind in pairs(without) do wrong[#wrong + 1] = kind .. ' is listed and is no op' end
    assert.same({}, wrong)
    assert.is_true(kernels > 310)
  end)
end)
