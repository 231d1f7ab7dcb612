-- run: once, alone
-- gpu_failures_spec.lua: a GPU that hangs, a library that fails: errors that name the device, the op, the frame and the Lua line, and what goes on being
-- usable. On the strict driver of spec/cuda, which fails where DFLOW_STRICT_FAULT says.

local build, mode = os.getenv('DFLOW_BUILD'), os.getenv('DFLOW_MODE') or ''
local here = build and io.open(build .. '/strict/libcuda.so.1') and not (mode == 'asan' or mode == 'tsan' or mode == 'ubsan')
local gpu_it = here and it or pending

--- Runs Lua code in the program with such a fault; gives what it wrote.
local function program(fault, code)
  local path = os.tmpname()
  require('spec.shell').write(path, code)
  local p = assert(io.popen(
    ('env -u DFLOW_DEFAULT_DEVICE DFLOW_CUDA_DRIVER=strict DFLOW_STRICT_QUIET=1 DFLOW_STRICT_FAULT=%s timeout 60 %s/dflow %s 2>&1'):format(fault, build, path)))
  local out = p:read('*a')
  p:close()
  os.remove(path)
  return (out:gsub('%s+$', ''))
end

describe('a GPU', function()
  gpu_it('whose kernel hangs ends a run at its timeout, and the error says where', function()
    local out = program('hang:1', [[
      local p = df.device('gpu:0', function() return df.placeholder('float32', { 2 }) end)
      local y = df.device('gpu:0', function() return df.sqrt(df.exp(p)) end)
      local s = df.Session{ timeout = 0.3 }
      local ok, err = pcall(s.run, s, y, { [p] = df.run(df.constant{ 1.0, 2.0 }) })
      print(ok, err.code, err.message, err.op, err.source)
      print(df.run(df.device('cpu:0', function() return df.constant(2) * 21 end)))
      s:close()
    ]])
    assert.matches('^false\tdeadline_exceeded\tthe run took longer than its timeout: it waits for gpu:0, where a kernel takes long, or hangs', out)
    assert.matches('\n42$', out)
  end)

  gpu_it('whose kernel hangs in a loop, as tokens and as a graph, is left at the timeout with its frame', function()
    for _, engine in ipairs{ 'tokens', 'native' } do
      local out = program('hang:5', ([[
        local p = df.device('gpu:0', function() return df.placeholder('float32', { 2 }) end)
        local out = df.device('gpu:0', function()
          return { df.while_loop(function(i, x) return df.logical_and(i:lt(100000), x:reduce_sum():gt(-1)) end,
            function(i, x) return i + 1, df.sqrt(df.exp(x)) end, { df.int32(0), p * 1 }, { name = 'stuck' }) }
        end)
        local s = df.Session{ timeout = 0.5, engine = '%s' }
        local ok, err = pcall(s.run, s, out, { [p] = df.run(df.constant{ 1.0, 2.0 }) })
        print(ok, err.code, err.frame, err.message)
        s:close()
      ]]):format(engine))
      assert.matches('^false\tdeadline_exceeded\tstuck:%d+\tthe run took longer than its timeout: it waits for gpu:0', out)
      out = program('hang:5', ([[
        local p = df.device('gpu:0', function() return df.placeholder('float32', { 2 }) end)
        local out = df.device('gpu:0', function()
          return { df.while_loop(function(i) return i:lt(2000000000) end, function(i, x) return i + 1, df.sqrt(df.exp(x)) end, { df.int32(0), p * 1 },
            { name = 'stuck' }) }
        end)
        local s = df.Session{ timeout = 0.5, engine = '%s' }
        local ok, err = pcall(s.run, s, out, { [p] = df.run(df.constant{ 1.0, 2.0 }) })
        print(ok, err.code, err.frame)
        local clock = io.open('/proc/uptime')
        local before = clock:read('*n')
        s:close()                                  -- what hangs is left as it is
        clock:seek('set')
        print(clock:read('*n') - before < 15, df.run(df.constant(42)))
      ]]):format(engine))
      assert.matches('^false\tdeadline_exceeded\tstuck:%d+\ntrue\t42$', out)
    end
  end)

  gpu_it('that hangs does not keep a run from being cancelled', function()
    assert.equal('false\tcancelled', program('hang:1', [[
      local p = df.device('gpu:0', function() return df.placeholder('float32', { 2 }) end)
      local y = df.device('gpu:0', function() return df.sqrt(df.exp(p)) end)
      local h = df.start(y, { [p] = df.run(df.constant{ 1.0, 2.0 }) })
      os.execute 'sleep 0.2'
      h:cancel()
      local ok, err = pcall(h.wait, h)
      print(ok, err.code)
    ]]))
  end)

  gpu_it('goes on being usable when a product fails', function()
    local out = program('product:1', [[
      local a = df.run(df.constant({ { 1.0, 2.0 }, { 3.0, 4.0 } }))
      local p = df.device('gpu:0', function() return df.placeholder('float32', { 2, 2 }) end)
      local y = df.device('gpu:0', function() return df.matmul(p, p) end)
      local ok, err = pcall(df.run, y, { [p] = a })
      print(ok, err.code, err.message, err.op)
      print(df.run(y, { [p] = a }))
    ]])
    assert.matches('^false\tinternal\ton gpu:0 cublasLtMatmul: .*; it goes on being usable, and the run can be tried again\tMatMul', out)
    assert.matches('%[%[ ?7%. 10%.%] %[15%. 22%.%]%]', (out:gsub('%s+', ' ')))
  end)

  gpu_it('that is too old, has no more memory or hangs is told of with what can be done', function()
    local function told(fault)
      return program(fault, [[
        local ok, e = pcall(function()
          local p = df.device('gpu:0', function() return df.placeholder('float32', { 64, 64 }) end)
          local y = df.device('gpu:0', function() return df.sqrt(df.exp(p)) end)
          local s = df.Session{ timeout = 0.3 }
          s:run(y, { [p] = df.run(df.ones{ 64, 64 }) })
        end)
        print(ok, e, df.run(df.device('cpu:0', function() return df.constant(2) * 21 end)))
      ]])
    end
    local old = told('none:1 DFLOW_STRICT_CAPABILITY=60')
    assert.matches("compute capability 6%.0, 8%.0 is the least that dflow's kernels are built for.*help: what asks for no device runs on the CPU.-\t42$", old)
    local full = told('none:1 DFLOW_STRICT_MEMORY=20000')
    assert.matches("out of memory for float32%[64,64%] on gpu:0.*in op .*help: smaller batches, save = 'recompute'.*\t42$", full)
    local stuck = told('hang:1')
    assert.matches('it waits for gpu:0, where a kernel takes long, or hangs.*help: where it hangs, gpu:0 is of use again .*; the CPU is now.-\t42$', stuck)
  end)

  -- The kernel read copies of its inputs, which are gone when the error's words are asked for.
  gpu_it('says of an input that does not fit what the CPU says of it', function()
    assert.equal('', program('none:1', [[
      local function words(device)
        return df.device(device, function()
          local x, i = df.placeholder('float32'), df.placeholder('int32')
          local value = df.run(df.constant{ { 1., 2., 3. }, { 4., 5., 6. } })
          local told = {}
          for _, case in ipairs{ { df.slice(x, i, { 1, 2 }), { 0, 2 } }, { df.slice(x, { 0, 2 }, i), { 1, 2 } }, { df.reshape(x, i), { 4, 2 } },
                                 { df.gather(x, i), { 7 } }, { df.tile(x, i), { 1 } }, { df.transpose(x, i), { 0, 0 } }, { df.reduce_sum(x, i), 5 },
                                 { df.matmul(x, x * 1), 0 }, { df.concat({ x, df.ones{ 1, 2 } }, 0), 0 }, { x + df.ones{ 4 }, 0 },
                                 { df.ones{ 4 } * x, 0 }, { df.cast(i, 'float32') + x, { 1, 2 } } } do
            local ok, e = pcall(df.run, case[1], { [x] = value, [i] = df.run(df.int32(case[2])) })
            told[#told + 1] = ok and 'it ran' or e.code .. ': ' .. e.message
          end
          return told
        end)
      end
      local cpu, gpu = words 'cpu:0', words 'gpu:0'
      for n, said in ipairs(cpu) do if said ~= gpu[n] or said == 'it ran' then print(n, said, gpu[n]) end end
    ]]))
  end)
end)
