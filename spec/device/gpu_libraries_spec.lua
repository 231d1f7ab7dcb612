-- run: test-all, once
--- gpu_libraries_spec.lua: CUDA's libraries behind gpu:0, on the strict driver and the libraries for tests beside it (spec/cuda).
local cudagraph = require 'spec.cudagraph'
local build = os.getenv 'DFLOW_BUILD'
local here, gpu = cudagraph.here, cudagraph.gpu
local gpu_it = here and it or pending

--- Runs fn with a folder that holds the driver for tests and these of its libraries.
local function with_driver(libraries, fn)
  local folder = os.tmpname()
  os.remove(folder)
  os.execute('mkdir ' .. folder)
  for _, name in ipairs{ 'libcuda.so.1', unpack and unpack(libraries) or table.unpack(libraries) } do
    local path = name:find '/' and name or build .. '/strict/' .. name
    os.execute(('ln -s "$(realpath %s)" %s/%s'):format(path, folder, name:match '[^/]*$'))
  end
  local ok, e = pcall(fn, 'DFLOW_CUDA_DRIVER=' .. folder .. '/libcuda.so.1')
  os.execute('rm -r ' .. folder)
  if not ok then error(e, 0) end
end

-- Products of every kind, beside those of the host.
local products = [[
  local dtype = %q
  local worst, count = 0, 0
  local function check(make)
    local want, got = df.run(make()), df.run(df.device('gpu:0', make))
    local d = df.run(df.reduce_max(df.abs(df.cast(want, 'float64') - df.cast(got, 'float64'))))
    worst, count = math.max(worst, d), count + 1
  end
  local function m(...)
    local n, dims = 1, { ... }
    for _, d in ipairs(dims) do n = n * d end
    local t = {}
    for i = 1, n do t[i] = math.sin(i * 0.7) end
    return df.reshape(df.cast(df.device("cpu:0", function() return df.placeholder_with_default(df.constant(t), { n }) end), dtype), dims)
  end
  for _, s in ipairs{ { 1, 1, 1 }, { 3, 5, 7 }, { 17, 2, 33 }, { 40, 64, 8 } } do
    for at = 0, 1 do for bt = 0, 1 do
      check(function()
        return df.matmul(at == 1 and m(s[2], s[1]) or m(s[1], s[2]), bt == 1 and m(s[3], s[2]) or m(s[2], s[3]),
          { transpose_a = at == 1, transpose_b = bt == 1 })
      end)
    end end
  end
  check(function() return df.matmul(m(4, 2, 3), m(4, 3, 5)) end)
  check(function() return df.matmul(m(1, 2, 3), m(4, 3, 5)) end)                    -- one for all of the batch
  check(function() return df.matmul(m(3, 1, 2, 3), m(1, 2, 3, 4)) end)              -- steps that are not even: our own kernel
  check(function() return df.matmul(m(2, 3, 2, 3), m(2, 3, 3, 4)) end)
  check(function() return df.matmul(m(5, 3, 3)[1], m(3, 3)) end)                    -- begins in the middle of an allocation
  print(count, worst < %s)
]]

-- Chains of elementwise ops, of each dtype, that meet rows, columns, numbers of the host and of the device; their bits, as text.
local chains = [[
  local said, text = {}, require 'spec.support'.text
  for _, dtype in ipairs{ 'float32', 'float64', 'float16', 'bfloat16' } do
    local x, row, column = df.placeholder(dtype, { -1, 3 }), df.placeholder(dtype, { 3 }), df.placeholder(dtype, { -1, 1 })
    local y = df.device('gpu:0', function()
      local a = df.tanh(x * 2.5 + row)
      local b = df.sigmoid(a / 3) * column - df.maximum(a, 0.1)
      local n = df.reduce_sum(x)
      local c = df.add_n{ a, b, x, a } + df.cast(df.cast(b * 100, 'int32'), dtype)
      return { df.exp(-b * b) * n, b, df.less(a, b), df.square(b) + a ^ 2, df.select_v2(df.less(c, 0.5), c, row), df.clip_by_value(c, -0.25, b),
               df.cast(c * 40, 'uint8'), df.cast(df.cast(c, 'bool'), 'int64') + df.cast(a * 3, 'int64'), df.cast(df.cast(b, 'float16') * 2, 'bfloat16'),
               df.cast(column + c, 'float64') * 3, df.leaky_relu(df.cast(c, 'float32') * 2, { alpha = 0.3 }) }
    end)
    said[#said + 1] = text(df.run(y, { [x] = { { 0.3, -1.2, 2.5 }, { 0.1, 0.7, -0.4 } }, [row] = { 1, 2, 3 }, [column] = { { 0.5 }, { -2 } } }))
  end
  local z = df.placeholder('float64', { 3 })
  local slopes = df.device('gpu:0', function() local l = df.leaky_relu(z * 2, { alpha = 0.1 }); return { l, df.gradients(l + l * z, z) } end)
  said[#said + 1] = text(df.run(slopes, { [z] = { -1.5, 0, 2 } }))
  local v = df.placeholder('int32', { 4 })
  local w = df.device('gpu:0', function() return df.bitwise_xor(v * 3 - 7, df.maximum(v, 2)) end)
  said[#said + 1] = text(df.run(w, { [v] = { 5, -3, 7, 0 } }))
  print(table.concat(said, ' '))
  for _, d in ipairs(df.devices()) do if d.libraries then print(d.launches, d.libraries[2]) end end
]]

--- Runs fn with the name of an unused folder.
local function with_folder(fn)
  local folder = os.tmpname()
  os.remove(folder)
  local ok, e = pcall(fn, folder)
  os.execute('rm -rf ' .. folder)
  if not ok then error(e, 0) end
end

describe('a GPU that cannot go on', function()
  local code = [[
    local x = df.placeholder('float32', { 3 })
    local y = df.device('gpu:0', function() return df.sin(df.exp(x) * 2) end)
    local s = df.Session{}
    for _ = 1, 2 do
      local ok, e = pcall(s.run, s, y, { [x] = { 1, 2, 3 } })
      print(ok, ok or e.code, (tostring(e):gsub('\n.*', '')))
    end
    print(df.run(df.reduce_sum(x), { [x] = { 1, 2, 3 } }))
  ]]

  gpu_it('is an error in each run that wants it, of whatever asks it next; the CPU goes on', function()
    for fault, says in pairs{ ['illegal:2'] = '%w+: CUDA_ERROR_ILLEGAL_ADDRESS %(strict driver: kernel `k_%w+_f32` touched what is not its own',
                              ['lost:2'] = '`?k_%w+_f32`?: CUDA_ERROR_UNKNOWN' } do
      local out = gpu(code, 'DFLOW_STRICT_QUIET=1 DFLOW_STRESS=apart DFLOW_STRICT_FAULT=' .. fault)
      local first, second, sum = out:match '^([^\n]*)\n([^\n]*)\n([^\n]*)$'
      for _, line in ipairs{ first or out, second or out } do
        assert.matches('^false%s+unavailable', line)
        assert.matches('gpu:0 failed: ' .. says, line)
        assert.matches(fault:find 'illegal' and 'of a kernel before it %(with DFLOW_CUDA_DRIVER=strict .* says which%)' or 'nvidia%-smi says how the GPU is', line)
        assert.matches('of use again when the program starts anew; the CPU goes on being usable', line)
      end
      assert.matches(':2: gpu:0 failed', first)                                 -- the line that built what met it
      assert.equal('6.0', sum)
    end
  end)

  gpu_it('is not there: a driver or a GPU that is too old is named with what is needed', function()
    local out = gpu(code, 'DFLOW_STRICT_VERSION=12040')
    assert.matches('the CUDA driver is for CUDA 12.4, and CUDA 13.0 is needed: install NVIDIA\'s driver, 580 or newer', out)
    assert.matches('\n6.0$', out)
    out = gpu(code, 'DFLOW_STRICT_CAPABILITY=75')
    assert.matches('strict driver for tests has compute capability 7.5, 8.0 is the least', out)
    assert.matches('\n6.0$', out)
    local f = io.open('build/cuda/cells.fatbin', 'rb')              -- where nvcc is: for GPUs of 9.0 alone, unless it was told otherwise
    if f and f:read(45):byte(45) == 90 then
      out = gpu(code, 'DFLOW_STRICT_CAPABILITY=86')
      assert.matches('compute capability 8.6, for which this libdflow_cuda.so holds no code: build dflow with `make CUDA_ARCHS=86`', out)
      assert.matches('\n6.0$', out)
    end
    if f then f:close() end
  end)
end)

describe('a kernel of several ops', function()
  gpu_it('that has no room for what lies on the host is out of memory, no wrong number', function()
    local code = [[
      local n, big = 2 ^ 18, {}
      for i = 1, n do big[i] = i % 7 end
      local z = df.device('gpu:0', function()
        local a, c = df.random_uniform({ n }, { seed = 1 }), df.constant(df.tensor(big, 'float32'))
        return df.reduce_sum(df.tanh(a * c + c) * df.sigmoid(a - c))
      end)
      local ok, v = pcall(df.run, z)
      print(ok and 'sum' or v.code, ok and ('%.17g'):format(v) or tostring(v):match '^[^;]*')
    ]]
    with_folder(function(folder)
      local function with(bytes) return gpu(code, ('DFLOW_STRESS=groups DFLOW_GPU_CACHE=%s DFLOW_STRICT_MEMORY=%d'):format(folder, bytes)) end
      assert.matches('^sum%s', with(2 ^ 24))
      assert.matches('^resource_exhausted%s.*out of memory for float32%[262144%] on gpu:0', with(1.5 * 2 ^ 20))
    end)
  end)
end)

describe('the libraries of gpu:0', function()
  gpu_it('compute what is asked for there, though it is known when the plan is made', function()
    assert.equal('1 1', gpu[[
      local x = df.device('gpu:0', function() return df.sin(df.constant{ 0.5, 1.5 }) end)
      local s, n = df.Session{}, {}
      for i = 1, 2 do
        s:run(x + i)
        for _, d in ipairs(s:devices()) do if d.kind == 'gpu' then n[i] = d.launches - (n[1] or 0) end end
      end
      print(table.concat(n, ' '))
    ]])
  end)

  gpu_it('multiply: transposed, in batches, from the middle of memory, of every float', function()
    for dtype, near in pairs{ float32 = 1e-5, float64 = 1e-13, float16 = 0.02, bfloat16 = 0.13 } do
      assert.equal('21\ttrue', gpu(products:format(dtype, near)))
    end
  end)

  gpu_it('are named with how they multiply float32, which DFLOW_GPU_MATH says', function()
    local code = [[
      local x = df.placeholder_with_default(df.constant{ { 1 + 2 ^ -9, 1 + 2 ^ -14 } }, { 1, 2 })
      print(df.run(df.device('gpu:0', function() return df.matmul(x, df.ones{ 2, 1 }) end)):at(0, 0) - 2)
      local s = df.Session{ devices = { 'cpu:0', 'gpu:0' } }
      local d = s:devices()[2]
      print(d.called, d.libraries[1])
    ]]
    local exact, tf32, bf16 = 2 ^ -9 + 2 ^ -14, 2 ^ -9, 0
    local function says(math, value, env)
      local number, device = gpu(code, env):match '^(%S+)\n(.*)$'
      assert.equal(value, tonumber(number))
      assert.equal('strict driver for tests\tproducts: cuBLASLt 13.0.0, float32 as ' .. math, device)
    end
    says('float32', exact)
    says('float32', exact, 'DFLOW_GPU_MATH=float32')
    says('tf32', tf32, 'DFLOW_GPU_MATH=tf32')
    says('bfloat16', bf16, 'DFLOW_GPU_MATH=bfloat16')
    says('float8 (e4m3), or bfloat16 where a side is no multiple of 16', bf16, 'DFLOW_GPU_MATH=float8')
    assert.matches('DFLOW_GPU_MATH is `fp8`, and can be float32, tf32, bfloat16 or float8', gpu(code, 'DFLOW_GPU_MATH=fp8'))
  end)

  -- The nearest of the numbers of four bits of exponent and three of mantissa, whose greatest is 448.
  local float8 = [[
    local function nearest(v, scale)
      local size, sign = math.abs(v / scale), v < 0 and -1 or 1
      local step = 2 ^ -9
      while size >= 16 * step do step = step * 2 end
      local n = math.floor(size / step)
      local over = size / step - n
      if over > 0.5 or over == 0.5 and n % 2 == 1 then n = n + 1 end
      return sign * math.min(n * step, 448) * scale
    end
    local function rounded(t)
      local most, out = 0, {}
      for _, v in ipairs(t) do most = math.max(most, math.abs(v)) end
      local scale = df.run(df.constant(most) / 448)                                  -- in float32, as there
      for i, v in ipairs(t) do out[i] = nearest(v, most > 0 and scale or 1) end
      return out
    end
    local function numbers(n, seed)
      local t = df.run(df.random_normal({ n }, { seed = seed })):totable()
      for i = 1, n, 7 do t[i] = t[i] * 2 ^ -(i % 13) end
      return t
    end
    local function fed(t, dims) return df.reshape(df.placeholder_with_default(df.tensor(t, 'float32'), { #t }), dims) end
    local function far(a, b) return df.run(df.reduce_max(df.abs(df.cast(a, 'float64') - df.cast(b, 'float64')))) end
  ]]
  gpu_it('round both sides to 8 bits where DFLOW_GPU_MATH=float8 asks for it, each with a scale of its own', function()
    assert.equal('true 12', gpu(float8 .. [[
      local near, count = true, 0
      local function check(x, y, dx, dy, opts)
        local want = df.run(df.device('cpu:0', function() return df.matmul(fed(rounded(x), dx), fed(rounded(y), dy), opts) end))
        local got = df.run(df.device('gpu:0', function() return df.matmul(fed(x, dx), fed(y, dy), opts) end))
        near = near and far(want, got) < 1e-5 and far(got, df.matmul(fed(x, dx), fed(y, dy), opts)) > 1e-3
        count = count + 1
      end
      for at = 0, 1 do for bt = 0, 1 do
        local opts = { transpose_a = at == 1, transpose_b = bt == 1 }
        check(numbers(32 * 64, 1), numbers(64 * 48, 2), at == 1 and { 64, 32 } or { 32, 64 }, bt == 1 and { 48, 64 } or { 64, 48 }, opts)
        check(numbers(3 * 32 * 16, 3), numbers(3 * 16 * 16, 4), at == 1 and { 3, 16, 32 } or { 3, 32, 16 }, { 3, 16, 16 }, opts)
        check(numbers(16 * 32, 5), numbers(2 * 32 * 16, 6), at == 1 and { 1, 32, 16 } or { 1, 16, 32 }, bt == 1 and { 2, 16, 32 } or { 2, 32, 16 }, opts)
      end end
      print(near, count)
    ]], 'DFLOW_GPU_MATH=float8'):gsub('\t', ' '))
  end)

  gpu_it('hand on what is no number, and nothing else, from 8 bits; and zeros', function()
    assert.equal('true 1 true 0 true', gpu(float8 .. [[
      local x = numbers(16 * 16, 1)
      local function product(t) return df.run(df.device('gpu:0', function() return df.matmul(fed(t, { 16, 16 }), df.eye(16)) end)) end
      local zeros = {}
      for i = 1, 256 do zeros[i] = 0 end
      local none = df.run(df.reduce_max(df.abs(product(zeros))))
      local want = rounded(x)
      x[20] = math.huge
      local got, wrong, odd = product(x), 0, 0
      for i = 0, 15 do for j = 0, 15 do
        local v = got:at(i, j)
        if v ~= v then wrong = wrong + 1 elseif math.abs(v - want[i * 16 + j + 1]) > 1e-5 then odd = odd + 1 end
      end end
      local tiny = {}
      for i = 1, 256 do tiny[i] = 2 ^ -126 * (1 + i % 2) end
      local small = product(tiny)
      print(none == 0, got:at(1, 3) ~= got:at(1, 3) and 1, wrong == 16, odd, small:at(0, 0) == 2 ^ -125)
    ]], 'DFLOW_GPU_MATH=float8'):gsub('\t', ' '))
  end)

  gpu_it('are all there where a GPU is judged: gpu-check fails without one of them, or without conditional nodes', function()
    local function told(env)
      local p = assert(io.popen(('env -u DFLOW_DEFAULT_DEVICE DFLOW_STRESS=groups,graphs DFLOW_CUDA_DRIVER=strict %s timeout 120 %s/dflow spec/cuda/libraries.lua 2>&1')
        :format(env, build)))
      local out = p:read('*a')
      p:close()
      return out
    end
    assert.equal('4 agree of 4\n', told '')
    assert.matches('^no conditional nodes: .*\n3 agree of 4\n$', told 'DFLOW_STRICT_UNCONDITIONAL=1')
    with_driver({ 'libnvrtc.so.13' }, function(env)
      assert.matches('^no cuBLASLt: .*\nno cuDNN: .*\n2 agree of 4\n$', told(env))
    end)
    with_driver({ 'libcublasLt.so.13' }, function(env) assert.matches('^no NVRTC: .*\nno cuDNN: .*\n2 agree of 4\n$', told(env)) end)
  end)

  gpu_it('leave results on the GPU where an input lies on the host, as what a function has saved for its gradient does', function()
    local code = [[
      local x, w = df.float64{ { 0.1, 0.2, 0.3 } }, df.Variable(df.float64{ { 0.5, -0.4, 0.3 } })
      local f
      f = df.func('again', { 'int32' }, function(i)
        return df.cond(i:lt(1), function() return x * w end, function() return df.tanh(f(i - 1)) * w end)
      end, { returns = { 'float64' }, result_shapes = { { 1, 3 } } })
      print(require 'spec.support'.text(df.run(df.gradients(df.reduce_sum(df.square(f(df.int32(3)))), w))))
    ]]
    local apart = gpu(code, 'DFLOW_DEFAULT_DEVICE=gpu:0 DFLOW_STRESS=apart')
    assert.matches('^%-?0x', apart)
    assert.equal(apart, gpu(code, 'DFLOW_DEFAULT_DEVICE=gpu:0 DFLOW_STRESS=groups'))
  end)

  gpu_it('meet the elements anew in every run: all of them, again and again, a row, one', function()
    local code = [[
      local x, b, c = df.placeholder('float32', { -1, -1 }), df.placeholder('float32', { -1, -1 }), df.placeholder('float32', { -1, -1 })
      local y = df.device('gpu:0', function() return df.tanh(x * 1.5 + b) * c - b end)
      local s, said = df.Session{ devices = { 'cpu:0', 'gpu:0' } }, {}
      local function matrix(n, m, by) return df.run(df.device('cpu:0', function() return df.reshape(df.sin(df.range(n * m * 1.0) * by), { n, m }) end)) end
      local dims = { { 3, 4 }, { 1, 4 }, { 3, 1 }, { 1, 1 } }
      for round = 1, 3 do
        for _, one in ipairs(dims) do for _, two in ipairs(dims) do
          said[#said + 1] = require 'spec.support'.text(
            s:run(df.reshape(y, { 12 }), { [x] = matrix(3, 4, 0.7 + round), [b] = matrix(one[1], one[2], 0.3), [c] = matrix(two[1], two[2], 1.3) }))
        end end
      end
      print(table.concat(said, ' '))
      print(s:devices()[2].launches)
    ]]
    local function parts(env)
      local numbers, launches = gpu(code, env):match '^([^\n]*)\n(%d+)$'
      return numbers, tonumber(launches)
    end
    with_folder(function(folder)
      local env = 'DFLOW_GPU_CACHE=' .. folder .. ' DFLOW_STRESS='
      local alone, many = parts(env .. 'apart')
      local one, few = parts(env .. 'groups')
      assert.is_string(alone)
      assert.equal(alone, one)
      assert.equal(5 * 48, many)
      assert.equal(48, few)
      local again, kept = parts('DFLOW_GPU_CACHE=' .. folder)
      assert.equal(alone, again)
      assert.equal(48, kept)
      assert.equal(alone, (parts 'DFLOW_GPU_CACHE='))              -- which none is there for
    end)
  end)

  gpu_it('make one kernel of elementwise ops that hang together, with the bits of each alone, and keep it on the disk', function()
    with_folder(function(folder)
      local env = 'DFLOW_GPU_CACHE=' .. folder .. ' DFLOW_STRESS='
      local function parts(out)
        local numbers, launches, line = out:match '^([^\n]*)\n(%d+)%s+(.*)$'
        return numbers, tonumber(launches), line
      end
      local alone, many, none = parts(gpu(chains, env .. 'apart'))
      local fused, few, line = parts(gpu(chains, env .. 'groups'))
      assert.equal('fused kernels: none was worth compiling yet', none)
      assert.equal(alone, fused)
      local n = tonumber(line:match '^fused kernels: NVRTC 13%.%d+, (%d+) compiled, 0 from the disk$')
      assert.is_true(n >= 5)
      assert.is_true(few < many / 2, few .. ' launches of ' .. many)
      local again, _, kept = parts(gpu(chains, env .. 'groups'))
      assert.equal(alone, again)
      assert.matches(('^fused kernels: NVRTC 13%%.%%d+, 0 compiled, %d from the disk$'):format(n), kept)
      -- what is on the disk is used at once; without, nothing so small is worth compiling
      assert.equal(few, select(2, parts(gpu(chains, 'DFLOW_GPU_CACHE=' .. folder))))
      assert.equal(many, select(2, parts(gpu(chains, 'DFLOW_GPU_CACHE='))))
      -- a file that is damaged is compiled anew
      os.execute(('printf x | dd of="$(ls %s/* | head -1)" bs=1 seek=5000 conv=notrunc 2>/dev/null'):format(folder))
      again, _, kept = parts(gpu(chains, env .. 'groups'))
      assert.equal(alone, again)
      assert.matches(('^fused kernels: NVRTC 13%%.%%d+, 1 compiled, %d from the disk$'):format(n - 1), kept)
    end)
  end)

  gpu_it('make one kernel of a layer norm that is written out, and one of a softmax, with the bits of each op alone', function()
    local code = [[
      local launches = {}
      for _, case in ipairs{ { 'float32', 9 }, { 'float32', 65 }, { 'float16', 130 }, { 'int32', 70 } } do
        local dtype, n = case[1], case[2]
        df.reset()
        local x = df.placeholder(dtype, { 5, n })
        local function keep(fold, v) return fold(v, -1, { keep_dims = true }) end
        local out = df.device('gpu:0', function()
          local top = keep(df.reduce_max, x)
          if dtype == 'int32' then return { (x - top) * keep(df.reduce_sum, x), df.reduce_min(x * top, 1), df.reduce_prod(x, 1) } end
          local apart = x - keep(df.reduce_mean, x)
          local norm = apart * df.rsqrt(keep(df.reduce_mean, apart * apart) + df.cast(1e-3, dtype)) * df.cast(0.7, dtype)
          local e = df.exp(x - top)
          return { norm, e / keep(df.reduce_sum, e), df.reduce_sum(norm * norm, 1), gradients(norm, x) }
        end)
        local s, list = df.Session{}, {}
        for i = 1, 5 * n do list[i] = math.sin(i) * 3 end
        local feeds = { [x] = df.run(df.cast(df.reshape(df.float32(list), { 5, n }), dtype)) }
        s:run(out, feeds)
        local was = s:devices()[2].launches
        print(require 'spec.support'.text(s:run(out, feeds)))
        launches[#launches + 1] = s:devices()[2].launches - was
        s:close()
      end
      print(table.concat(launches, ' '))
    ]]
    with_folder(function(folder)
      local function parts(out) return out:match '^(.*)\n(%d+ %d+ %d+ %d+)$' end
      local apart, many = parts(gpu(code, 'DFLOW_STRESS=apart'))
      local together, few = parts(gpu(code, 'DFLOW_STRESS=groups DFLOW_GPU_CACHE=' .. folder))
      assert.is_true(#apart > 10000)
      assert.equal(apart, together)
      assert.same({ many, few }, { '30 31 33 7', '2 4 6 2' })
    end)
  end)

  gpu_it('are compiled for what runs often, by a thread of its own: runs go on meanwhile, and give the same bits', function()
    local code = [[
      local x = df.placeholder('float32', { 5 })
      local y = df.device('gpu:0', function()
        local v = x
        for i = 1, 20 do v = df.sigmoid(v * (1 + i / 7)) end
        return v
      end)
      local s, feeds, first = df.Session{}, { [x] = { -3, -1, 0, 0.5, 2 } }, nil
      local function launches()                            -- of the next run
        local was, said = s:devices()[2].launches, require 'spec.support'.text(s:run(y, feeds))
        first = first or said
        if said ~= first then print('other bits') end
        return s:devices()[2].launches - was
      end
      local alone, runs = launches(), 0
      repeat
        for _ = 1, 9 do s:run(y, feeds) end
        runs = runs + 10
      until launches() == 1 or runs == 100000
      print(alone, runs, s:devices()[2].libraries[2])
    ]]
    local alone, runs, line = gpu(code, 'DFLOW_GPU_CACHE='):match '^(%d+)%s+(%d+)%s+(.*)$'
    assert.equal('40', alone)
    assert.matches('^fused kernels: NVRTC 13%.%d+, 1 compiled, 0 from the disk$', line)
    -- 39 launches of 3 us saved each time: worth a tenth of a second at the 855th run, and that takes longer than some more
    assert.is_true(tonumber(runs) > 870, runs .. ' runs')
  end)

  gpu_it('fuse in loops, branches and gradients, with swap and owners, as apart', function()
    local code = [[
      local w, x0 = df.placeholder_with_default(df.fill({ 4, 4 }, 0.3), { 4, 4 }), df.placeholder('float32', { 2, 4 })
      local function program(save)
        local function step(i, x, ta)
          local y = cond((i % 2):eq(0), function() return df.tanh(x:matmul(w) * 0.5 + 0.1) end, function() return df.sigmoid(x) * x - 0.2 end)
          return i + 1, df.exp(-y * y) + x, ta:write(i, y * 2 + x)
        end
        local _, x, ta = while_loop(function(i) return i:lt(7) end, step, { df.int32(0), x0, TensorArray('float32', 7) }, { save = save })
        local loss = (x * x):reduce_sum() + df.sin(ta:stack()):reduce_sum()
        return { loss, gradients(loss, x0), gradients(gradients(loss, x0):reduce_sum(), x0) }
      end
      local s = df.Session{ devices = { 'cpu:0', 'gpu:0' }, owners = arg and 1 or 2, soft_placement = true }
      for _, save in ipairs{ 'keep', 'swap', 'recompute' } do
        local r = s:run(df.device('gpu:0', function() return program(save) end), { [x0] = { { 0.1, 0.2, 0.3, 0.4 }, { 1, -1, 0.5, 0 } } })
        io.write(require 'spec.support'.text(r), ' ')
      end
      print()
      print(s:devices()[2].libraries[2]:match 'NVRTC' ~= nil)
    ]]
    with_folder(function(folder)
      local apart, fused = gpu(code, 'DFLOW_STRESS=apart'), gpu(code, 'DFLOW_STRESS=groups DFLOW_GPU_CACHE=' .. folder)
      assert.matches('^%S+ .*\nfalse$', apart)
      assert.equal((apart:gsub('false$', 'true')), fused)
    end)
  end)

  gpu_it('convolve where cuDNN does: its gradients, what is padded more behind than before, and the other floats, too', function()
    local code = [[
      local function values(device, dtype)
        local said = {}
        for i, how in ipairs{ { 6, 5, 1, 'VALID', 1 }, { 7, 6, 2, 'SAME', 1 }, { 8, 8, 2, 'SAME', 1 }, { 9, 7, 1, 'SAME', 2 }, { 5, 5, 3, 'VALID', 1 } } do
          local x, w = df.placeholder('float32', { 2, how[1], how[2], 3 }), df.placeholder('float32', { 3, 2, 3, 4 })
          local out = df.device(device, function()
            local a, b = df.cast(x, dtype), df.cast(w, dtype)
            local y = df.conv2d(a, b, { strides = { 1, how[3], how[3], 1 }, padding = how[4], dilations = { 1, how[5], how[5], 1 } })
            return { df.cast(y, 'float32'), df.gradients(df.reduce_sum(df.cast(y * y, 'float32')), { x, w }) }
          end)
          local function ramp(n, by)
            local t = {}
            for k = 1, n do t[k] = math.sin(k * by) end
            return df.tensor(t, 'float32')
          end
          local r = df.run(out, { [x] = ramp(2 * how[1] * how[2] * 3, 0.7):reshape{ 2, how[1], how[2], 3 }, [w] = ramp(72, 0.3):reshape{ 3, 2, 3, 4 } })
          said[#said + 1] = r
        end
        return said
      end
      for dtype, near in pairs{ float32 = 1e-5, float64 = 1e-6, float16 = 1e-2, bfloat16 = 1e-1 } do
        require 'spec.support'.near(values('gpu:0', dtype), values('cpu:0', dtype), { rtol = near, atol = near })
      end
      for _, d in ipairs(df.devices()) do if d.libraries then print(d.launches > 0, d.libraries[3]) end end
    ]]
    assert.equal('true\tconvolutions, pooling, softmax, batch norms: cuDNN 9.19.0, float32 as float32', gpu(code))
    assert.equal('true\tconvolutions, pooling, softmax, batch norms: cuDNN 9.19.0, float32 as tf32', gpu(code, 'DFLOW_GPU_MATH=tf32'))
    -- it answers by another kind of math than it was asked with, which is then the description's: the default, tensor cores, none. What
    -- float32 shall not be rounded by is not taken, nor what it says is wrong when it is asked to do it
    for _, env in ipairs{ 'MATH=0', 'MATH=1', 'MATH=3', 'NO_WORKSPACE=1', 'REFUSES=2000' } do
      assert.equal('true\tconvolutions, pooling, softmax, batch norms: cuDNN 9.19.0, float32 as float32', gpu(code, 'DFLOW_STRICT_' .. env))
    end
    -- it has no algorithm for them, or is not there: our own kernel
    assert.equal('true\tconvolutions, pooling, softmax, batch norms: cuDNN 9.19.0, float32 as float32', gpu(code, 'DFLOW_STRICT_NO_ALGORITHM=1'))
    with_driver({ 'libcublasLt.so.13' }, function(env)
      assert.matches("^true\tconvolutions, pooling, softmax, batch norms: dflow's own kernels, as there is no cuDNN %(.*libcudnn.so.9: cannot open", gpu(code, env))
    end)
  end)

  gpu_it('pool, soften and normalise where cuDNN does, as the host does; the rest is for our own kernels', function()
    local code = [[
      local unpack = table.unpack or unpack
      local function ramp(shape, by)
        local n, t = 1, {}
        for _, d in ipairs(shape) do n = n * d end
        for i = 1, n do t[i] = math.sin(i * by) + 1.5 end
        return df.tensor(t, 'float32'):reshape(shape)
      end
      local function values(device, dtype)
        local said = {}
        local function say(make, ...)
          df.reset()
          local xs, feeds = {}, {}
          for i, t in ipairs{ ... } do
            xs[i] = df.placeholder('float32', t.shape)
            feeds[xs[i] ] = t
          end
          local out = df.device(device, function()
            local typed = {}
            for i, x in ipairs(xs) do typed[i] = df.cast(x, dtype) end
            local y = make(unpack(typed))
            if y.last then return { y[1], y[2], y[3] } end
            return { y, df.gradients(df.reduce_sum(df.cast(y[1] * y[1], 'float32')), xs, { unconnected = 'zero' }) }
          end)
          said[#said + 1] = df.run(out, feeds)
        end
        for _, how in ipairs{ { 6, 5, 2, 2, 'VALID' }, { 7, 7, 2, 3, 'SAME' }, { 8, 6, 2, 3, 'SAME' }, { 5, 5, 1, 3, 'SAME' } } do
          local pool = { ksize = { 1, how[4], how[4], 1 }, strides = { 1, how[3], how[3], 1 }, padding = how[5] }
          say(function(x) return { df.max_pool(x, pool) } end, ramp({ 2, how[1], how[2], 3 }, 0.7))
          say(function(x) return { df.avg_pool(x, pool) } end, ramp({ 2, how[1], how[2], 3 }, 0.7))
        end
        say(function(x) return { df.nn.softmax(x) } end, ramp({ 3, 4, 5 }, 0.7))
        say(function(x) return { df.nn.log_softmax(x) } end, ramp({ 7, 33 }, 0.3))
        say(function(x) return { df.nn.softmax(df.exp(x)) } end, ramp({ 2, 6 }, 0.3))      -- what nobody else reads
        if dtype ~= 'float32' and dtype ~= 'float64' then return said end
        local op = require 'dflow.front.registry'.op
        for _, format in ipairs{ 'NHWC', 'NCHW' } do
          local c = format == 'NHWC' and 5 or 4
          for _, training in ipairs{ true, false } do
            say(function(dy, x, scale, mean, variance)
              local y = { op('FusedBatchNormGradV3', { dy, x, scale, mean, variance, df.zeros({ 0 }, dtype) }, { data_format = format, is_training = training }) }
              return { y[1], y[2], y[3], last = true }
            end, ramp({ 3, 4, 6, 5 }, 0.9), ramp({ 3, 4, 6, 5 }, 0.7), ramp({ c }, 0.9), ramp({ c }, 0.2), ramp({ c }, 0.4))
            for _, factor in ipairs{ 1, 0.25 } do
              say(function(...)
                local y = { op('FusedBatchNormV3', { ... }, { data_format = format, is_training = training, exponential_avg_factor = factor }) }
                return { y[1], y[2], y[3], y[4], y[5] }
              end, ramp({ 3, 4, 6, 5 }, 0.7), ramp({ c }, 0.9), ramp({ c }, 0.2), ramp({ c }, 0.4), ramp({ c }, 0.5))
            end
          end
        end
        return said
      end
      for dtype, near in pairs{ float32 = 2e-5, float64 = 2e-6, float16 = 1e-2, bfloat16 = 1e-1 } do
        require 'spec.support'.near(values('gpu:0', dtype), values('cpu:0', dtype), { rtol = near, atol = near })
      end
      local nan = df.placeholder('float32', { 1, 2, 2, 1 })
      local kept = df.device('gpu:0', function() return df.max_pool(nan, { ksize = { 1, 2, 2, 1 }, strides = { 1, 1, 1, 1 }, padding = 'VALID' }) end)
      local v = df.run(df.reshape(kept, {}), { [nan] = df.run(df.reshape(df.float32{ 3, 0 / 0, 2, 1 }, { 1, 2, 2, 1 })) })
      local op, x, none = require 'dflow.front.registry'.op, df.placeholder('float32', { 2, 3, 3, -1 }), df.placeholder('float32', { -1 })
      local empty = df.device('gpu:0', function()                  -- of no channels: nothing for a library
        return { (op('FusedBatchNormV3', { x, none, none, none, none }, {})), (op('FusedBatchNormGradV3', { x, x, none, none, none, none }, {})) }
      end)
      for _, t in ipairs(df.run(empty, { [x] = df.run(df.zeros{ 2, 3, 3, 0 }), [none] = df.run(df.zeros{ 0 }) })) do
        if t.size ~= 0 or t.shape[2] ~= 3 then print(t) end
      end
      print('done', v ~= v)
    ]]
    local out, calls = gpu(code, 'DFLOW_STRICT_SAYS=1'), {}
    out = out:gsub('library: (%w+)\n', function(call) calls[call] = (calls[call] or 0) + 1 return '' end)
    assert.equal('done\ttrue', out)
    -- of each of four floats: three of four windows (the other is padded more behind), their maximum and their mean; and that of NaN
    assert.equal(13, calls.cudnnPoolingForward - calls.cudnnPoolingBackward)
    assert.equal(12, calls.cudnnPoolingBackward)
    assert.equal(12, calls.cudnnSoftmaxForward)
    assert.equal(8, calls.cudnnBatchNormalizationForwardTraining)
    assert.equal(8, calls.cudnnBatchNormalizationForwardInference)
    assert.equal(4, calls.cudnnBatchNormalizationBackward)          -- in training
    assert.equal('done\ttrue', gpu(code, 'DFLOW_STRICT_REFUSES=1'))
    with_driver({}, function(env) assert.equal('done\ttrue', gpu(code, env)) end)
  end)

  gpu_it('add a bias as they write the product, with the bits of the two ops, without an inspector', function()
    local code = [[
      local function program(dtype)
        local x, w, b = df.placeholder(dtype, { -1, 3 }), df.placeholder(dtype, { 3, 4 }), df.placeholder(dtype, { 4 })
        local y = df.device('gpu:0', function()
          local a, c, v = x * 1, w * 1, b * 1
          local one, two = df.bias_add(df.matmul(a, c), v), df.matmul(c, a, { transpose_a = true, transpose_b = true })
          local sum = v + df.matmul(a * 2, c)
          local shared = df.matmul(a * 3, c)                                        -- two read it
          return { one, two, sum, df.bias_add(shared, v) * shared, df.gradients(df.reduce_sum(one * one), { x, w, b }) }
        end)
        return y, { [x] = { { 0.3, -1.2, 2.5 }, { 0.1, 0.7, -0.4 } }, [w] = { { 1, 2, 3, 4 }, { 0.1, 0.2, 0.3, 0.4 }, { -1, 1, -1, 1.5 } }, [b] = { 0.7, -0.1, 1e-3, 5 } }
      end
      local said = {}
      for _, dtype in ipairs{ 'float32', 'float64', 'float16', 'bfloat16' } do
        local y, feeds = program(dtype)
        said[#said + 1] = require 'spec.support'.text(df.run(y, feeds))
      end
      print(table.concat(said, ' '))
      for _, d in ipairs(df.devices()) do if d.libraries then print(d.launches) end end
    ]]
    local function parts(env)
      local numbers, launches = gpu(code, 'DFLOW_GPU_CACHE= ' .. env):match '^([^\n]*)\n(%d+)$'
      return numbers, tonumber(launches)
    end
    local alone, many = parts 'DFLOW_STRESS=apart'
    local one, few = parts ''
    assert.is_string(alone)
    assert.equal(alone, one)
    assert.equal(4, many - few)                                    -- two of either float; halves would be rounded once less
    for _, env in ipairs{ 'DFLOW_STRICT_NO_EPILOGUE=1', 'DFLOW_STRICT_REFUSES=1' } do
      local other, more = parts(env)
      assert.equal(alone, other)
      assert.equal(many, more)
    end
    with_driver({}, function(env) assert.equal((parts('DFLOW_STRESS=apart ' .. env)), (parts(env))) end)
  end)

  gpu_it('add a bias so in loops that become graphs, in branches and where gradients are computed', function()
    local code = [[
      local w, b, x0 = df.placeholder('float32', { 3, 3 }), df.placeholder('float32', { 3 }), df.placeholder('float32', { 2, 3 })
      local y = df.device('gpu:0', function()
        local W, B, X = w * 1, b * 1, x0 * 1
        local _, h = while_loop(function(i) return i:lt(30) end, function(i, h)
          local z = df.tanh(df.bias_add(h:matmul(W), B))
          return i + 1, cond((i % 3):eq(0), function() return df.bias_add(z:matmul(W), B) end, function() return z end)
        end, { df.int32(0), X })
        local _, k = while_loop(function(i) return i:lt(30) end, function(i, h) return i + 1, df.bias_add(h:matmul(W), B) * 0.9 end, { df.int32(0), X })
        return { h, k, df.gradients(df.reduce_sum(h * h), { w, b, x0 }) }
      end)
      local s = df.Session{ devices = { 'cpu:0', 'gpu:0' }, soft_placement = true }
      local feeds = { [w] = { { 0.1, 0.2, 0.3 }, { -0.2, 0.5, 0.1 }, { 0.3, 0.3, -0.4 } }, [b] = { 0.1, -0.1, 0.05 }, [x0] = { { 1, 2, 3 }, { -1, 0, 1 } } }
      print(require 'spec.support'.text(s:run(y, feeds)))
      print(s:devices()[2].launches)
    ]]
    local function parts(env)
      local numbers, launches = gpu(code, 'DFLOW_GPU_CACHE= ' .. env):match '^([^\n]*)\n(%d+)$'
      return numbers, tonumber(launches)
    end
    local alone, many = parts 'DFLOW_STRESS=apart'
    assert.is_string(alone)
    for _, env in ipairs{ '', 'DFLOW_STRESS=shuffle:7', 'DFLOW_STRICT_NO_EPILOGUE=1' } do assert.equal(alone, (parts(env))) end
    assert.is_true(select(2, parts '') < many - 50)
  end)

  gpu_it('convolve, add a bias and take what is above 0 in one, with the bits of the ops, without an inspector', function()
    local code = [[
      local function program(dtype)
        local x, w, b = df.placeholder(dtype, { -1, 5, 4, 2 }), df.placeholder(dtype, { 3, 2, 2, 3 }), df.placeholder(dtype, { 3 })
        local y = df.device('gpu:0', function()
          local a, c, v = x * 1, w * 1, b * 1
          local function conv(of, padding, stride) return df.conv2d(of, c, { strides = { 1, stride, stride, 1 }, padding = padding }) end
          local one = df.relu(df.bias_add(conv(a, 'SAME', 1), v))                    -- all three
          local two = v + conv(a * 2, 'VALID', 2)                                    -- the bias alone
          local loud = df.relu(conv(a * 4, 'VALID', 1) + v) * 3                      -- and what else is done with it
          local kept = df.bias_add(conv(a * 3, 'SAME', 2), v)                        -- two read the sum
          local shared = conv(a * 5, 'VALID', 1)                                     -- two read the convolution
          return { one, two, loud, df.relu(kept) * kept, df.bias_add(shared, v) * shared, df.gradients(df.reduce_sum(one * one), { x, w, b }) }
        end)
        local image = {}
        for i = 1, 2 * 5 * 4 * 2 do image[i] = math.sin(i * i) end
        image[7] = 0 / 0
        local taps = {}
        for i = 1, 36 do taps[i] = math.cos(3 * i) end
        return y, { [x] = df.tensor(image, dtype, { 2, 5, 4, 2 }), [w] = df.tensor(taps, dtype, { 3, 2, 2, 3 }), [b] = { 0.7, -0.1, 1e-3 } }
      end
      local said = {}
      for _, dtype in ipairs{ 'float32', 'float64', 'float16' } do
        local y, feeds = program(dtype)
        said[#said + 1] = require 'spec.support'.text(df.run(y, feeds))
      end
      print(table.concat(said, ' '))
      for _, d in ipairs(df.devices()) do if d.libraries then print(d.launches) end end
    ]]
    local function parts(env)
      local out, fused = gpu(code, 'DFLOW_GPU_CACHE= DFLOW_STRICT_SAYS=1 ' .. env):gsub('library: cudnnConvolutionBiasActivationForward\n', '')
      return out:gsub('library: %w+\n', ''):match '^[^\n]*', fused
    end
    local alone, none = parts 'DFLOW_STRESS=apart'
    assert.truthy(alone:find 'nan')
    assert.equal(0, none)
    local one, fused = parts ''
    assert.equal(alone, one)
    assert.equal(8, fused)                                       -- four of either float; halves would be rounded once less
    assert.equal(alone, (parts 'DFLOW_STRESS=shuffle:7'))
    for _, env in ipairs{ 'DFLOW_STRICT_NO_EPILOGUE=1', 'DFLOW_STRICT_REFUSES=1', 'DFLOW_STRICT_NO_ALGORITHM=1' } do
      local own = env:find 'NO_EPILOGUE' and alone or (parts('DFLOW_STRESS=apart ' .. env))
      assert.equal(own, (parts(env)))
    end
  end)

  -- CUDA's own, where the toolkit is. The driver for tests cannot run what it makes, so that each op runs alone.
  local nvrtc = '/usr/local/cuda/lib64/libnvrtc.so.13'
  local real = here and io.open(nvrtc) and it or pending
  real('take what is written at run time for code, all of them', function()
    with_driver({ nvrtc }, function(env)
      local out = gpu(chains, 'DFLOW_STRICT_QUIET=1 DFLOW_GPU_CACHE= DFLOW_STRESS=groups ' .. env)
      local compiled, said = out:match 'fused kernels: NVRTC %d+%.%d+, (%d+) compiled, 0 from the disk([^\n]*)'
      assert.equal('', said, out)
      assert.is_true(tonumber(compiled) > 4, compiled)
      assert.equal(gpu(chains, 'DFLOW_STRESS=apart'):match '^[^\n]*', (out:match '^[^\n]*'))
    end)
  end)

  real('take loops that are written as one kernel for code', function()
    with_driver({ nvrtc }, function(env)
      local out = gpu([[
        local one, y, wide = df.placeholder('float32', { 1, 1 })
        local x, many = df.constant{ { 1.0, 2.0 } }, df.cast(df.reshape(df.range(130), { 2, 65 }), 'float32')
        df.device('gpu:0', function() y, wide = x * one, many * one end)
        local function loop(body, vars)
          return df.device('gpu:0', function() return { df.while_loop(function(i) return i:lt(100) end, body, { df.int32(0), df.unpack(vars) }) } end)
        end
        local s = df.Session{ engine = 'native' }
        for _, out in ipairs{
          loop(function(i, k, a) return i + 1, k * 3 % 1000, a * 0.75 - df.reduce_mean(a, 1, { keep_dims = true }) + df.cast(k, 'float32') end,
            { df.int32(1), wide }),
          loop(function(i, h, b) return i + 1, df.sqrt(h + 1) * 0.9, b * 0.5 + 0.25 end, { df.cast(y, 'float16'), df.cast(y, 'bfloat16') }),
          loop(function(i, a) return i + 1, df.cond(a:reduce_sum():gt(0.4), function() return a * 0.5 end, function() return a + 0.3 end) end, { y }),
        } do s:run(out, { [one] = df.run(df.constant{ { 1.0 } }) }) end
        print(table.concat(s:devices()[2].libraries, ' '))
      ]], 'DFLOW_STRICT_QUIET=1 DFLOW_GPU_CACHE= ' .. env)
      local compiled, said = out:match 'fused kernels: NVRTC %d+%.%d+, (%d+) compiled, 0 from the disk(.-) convolutions'
      assert.equal('', said, out)
      assert.is_true(tonumber(compiled) >= 3, compiled)
    end)
  end)

  gpu_it('are done without where they refuse what they offered', function()
    local out = gpu([[
      local a, c = df.placeholder('float32', { 2, 2 }), df.placeholder('float32', { 1, 4, 4, 1 })
      local y, z = df.device('gpu:0', function()
        return df.matmul(a, a), df.conv2d(c, df.reshape(a, { 2, 2, 1, 1 }), { strides = { 1, 1, 1, 1 }, padding = 'SAME' })
      end)
      local feeds = { [a] = df.run(df.constant{ { 1., 2. }, { 3., 4. } }), [c] = df.run(df.ones{ 1, 4, 4, 1 }) }
      for _ = 1, 2 do
        local found = df.run({ y, df.reduce_sum(z) }, feeds)
        print(found[1]:at(0, 0), found[1]:at(1, 1), found[2])
      end
    ]], 'DFLOW_STRICT_REFUSES=1')
    assert.equal('7.0\t22.0\t112.0\n7.0\t22.0\t112.0', out)
  end)

  gpu_it('are done without where they are missing, which is one line of s:devices()', function()
    with_driver({}, function(env)
      assert.equal('21\ttrue', gpu(products:format('float32', 1e-5), env))
      local out = gpu([[
        local x = df.placeholder_with_default(df.ones{ 2, 2 }, { 2, 2 })
        df.run(df.device('gpu:0', function() return df.matmul(x, x) end))
        for _, line in ipairs(df.Session{ devices = { 'cpu:0', 'gpu:0' } }:devices()[2].libraries) do print(line) end
      ]], env)
      assert.equal(gpu(chains, 'DFLOW_STRESS=apart'):match '^[^\n]*', (gpu(chains, 'DFLOW_STRESS=groups ' .. env):match '^[^\n]*'))
      assert.matches('fused kernels: none, as there is no NVRTC %(.*libnvrtc.so.13: cannot open.*%): each op by its own kernel',
        gpu(chains, 'DFLOW_STRESS=groups ' .. env))
      assert.matches("products: dflow's own kernel, as there is no cuBLASLt %(.*libcublasLt.so.13: cannot open", out)
    end)
  end)
end)
