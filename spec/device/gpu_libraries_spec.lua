--- gpu_libraries_spec.lua: CUDA's libraries behind gpu:0, on the strict driver and the libraries for tests beside it (spec/cuda).
local build, mode = os.getenv('DFLOW_BUILD'), os.getenv('DFLOW_MODE') or ''
local here = build and io.open(build .. '/strict/libcuda.so.1') and not (mode == 'asan' or mode == 'tsan' or mode == 'ubsan')
local sentence = here and it or pending

local function gpu(code, env)
  local path = os.tmpname()
  local f = assert(io.open(path, 'w'))
  f:write(code)
  f:close()
  local p = assert(io.popen(('DFLOW_CUDA_DRIVER=strict %s timeout 120 %s/dflow %s 2>&1'):format(env or '', build, path)))
  local out = p:read('*a')
  p:close()
  os.remove(path)
  return (out:gsub('%s+$', ''))
end

--- Runs fn with a folder that holds the driver for tests and these of its libraries.
local function with_driver(libraries, fn)
  local folder = os.tmpname()
  os.remove(folder)
  os.execute('mkdir ' .. folder)
  for _, name in ipairs{ 'libcuda.so.1', unpack and unpack(libraries) or table.unpack(libraries) } do
    os.execute(('ln -s "$(realpath %s/strict/%s)" %s/%s'):format(build, name, folder, name))
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

describe('the libraries of gpu:0', function()
  sentence('compute what is asked for there, though it is known when the plan is made', function()
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

  sentence('multiply: transposed, in batches, from the middle of memory, of every float', function()
    for dtype, near in pairs{ float32 = 1e-5, float64 = 1e-13, float16 = 0.02, bfloat16 = 0.13 } do
      assert.equal('21\ttrue', gpu(products:format(dtype, near)))
    end
  end)

  sentence('are named with how they multiply float32, which DFLOW_GPU_MATH says', function()
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
    assert.matches('DFLOW_GPU_MATH is `fp8`, and can be float32, tf32 or bfloat16', gpu(code, 'DFLOW_GPU_MATH=fp8'))
  end)

  sentence('are done without where they are missing, which is one line of s:devices()', function()
    with_driver({}, function(env)
      assert.equal('21\ttrue', gpu(products:format('float32', 1e-5), env))
      local out = gpu([[
        local x = df.placeholder_with_default(df.ones{ 2, 2 }, { 2, 2 })
        df.run(df.device('gpu:0', function() return df.matmul(x, x) end))
        for _, line in ipairs(df.Session{ devices = { 'cpu:0', 'gpu:0' } }:devices()[2].libraries) do print(line) end
      ]], env)
      assert.matches("products: dflow's own kernel, as there is no cuBLASLt %(.*libcublasLt.so.13: cannot open", out)
    end)
  end)
end)
