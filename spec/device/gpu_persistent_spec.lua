-- run: once
-- gpu_persistent_spec.lua: loops of small state that are one kernel of gpu:0: the numbers, counts and errors of the token engine, on the strict driver of
-- spec/cuda, which compiles what is written by the host's compiler and runs a block's threads in any order that barriers allow.

local cudagraph = require 'spec.cudagraph'
local gpu_it, persistent, hardware = cudagraph.gpu_it(it, pending), cudagraph.persistent, cudagraph.hardware

describe('a loop of small state on gpu:0', function()
  gpu_it('is one kernel: with the bits and the counts of tokens, whatever its trips, variables and shapes', function()
    assert.equal('', persistent([[
      local n = df.placeholder('int32', {})
      local many = df.cast(df.reshape(df.range(130), { 2, 65 }) % 17, 'float32') * 0.125
      local wide = df.device('gpu:0', function() return many * one end)
      -- numbers of the host's and of the GPU's, a row, a matrix; what is exchanged; broadcasting; folds that one thread has, and that all have
      local out = loop(n, function(i, k, x, y, a, flag)
        local row, column = df.reduce_mean(a, 1, { keep_dims = true }), df.reduce_max(a, 0, { keep_dims = true })
        return i + 1, k * 3 % 1000 + i // 2, y * 0.5 + df.cast(k, 'float32') * 0.01, df.tanh(x) + y:reduce_sum(), a * 0.75 + column - row,
          df.logical_not(flag)
      end, { df.int32(0), df.int32(1), y0, z0, wide, y0:gt(1.5) })
      for _, trips in ipairs{ 0, 1, 2, 33, 400 } do
        local how = both('trips ' .. trips, out, { [n] = trips }, 2)
        if trips > 2 then says(how, AS_KERNEL) end
      end
      local halves = loop(n, function(i, h, b, d) return i + 1, df.sqrt(h + 1) * 0.9, b * 0.5 + df.cast(d:reduce_sum(), 'bfloat16'), d * 1.01 - 0.1 end,
        { df.int32(0), df.cast(y0, 'float16'), df.cast(y0, 'bfloat16'), df.cast(z0, 'float64') })
      says(both('halves', halves, { [n] = 200 }), AS_KERNEL)
    ]], 'DFLOW_STRICT_SEED=1'))
  end)

  gpu_it('is one kernel where the GPU computes the predicate: it ends at the iteration at which tokens do', function()
    assert.equal('', persistent([[
      local limit = df.placeholder('float32', {})
      local out = df.device('gpu:0', function()
        return { df.while_loop(function(i, x) return df.logical_and(i:lt(5000), df.reduce_sum(x):gt(limit)) end,
          function(i, x) return i + 1, x * 0.999 end, { df.int32(0), y0 }) }
      end)
      for _, at in ipairs{ 0.001, 2.9, 2.9999, 3.1 } do
        local how = both('until ' .. at, out, { [limit] = at }, 2)
        if at < 2.99 then says(how, AS_KERNEL) end
      end
    ]], 'DFLOW_STRICT_SEED=2'))
  end)

  gpu_it('takes one side of a cond in each iteration, wherever its predicate is computed, and one in the loop\'s own', function()
    assert.equal('', persistent([[
      local n, flag, limit = df.placeholder('int32', {}), df.placeholder('bool', {}), df.placeholder('float32', {})
      local function mixed(x) return x:reduce_sum():gt(0.4) end
      local out = loop(n, function(i, k, x, y)
        local m = df.cond((i % 2):eq(0), function() return k * 3 % 1000 end, function() return k + i end)
        local a, b = df.cond(mixed(x), function() return y, x * 0.5 end, function() return x + 0.3, y * 0.9 end)
        local c = df.cond(flag, function()
          return df.cond((i % 3):eq(0), function() return a * 0.5 end, function() return a * 0.25 end) * 0.9
        end, function() return df.cond(b:reduce_max():lt(0.1), function() return a + 1 end, function() return a + 0.25 end) end)
        return i + 1, m, c + df.cast(m, 'float32') * 0.001, b
      end, { df.int32(0), df.int32(1), y0, z0 })
      for _, yes in ipairs{ true, false } do
        for _, trips in ipairs{ 1, 40, 101 } do
          local how = both(trips .. ' ' .. tostring(yes), out, { [n] = trips, [flag] = yes }, 2)
          if trips == 101 then says(how, AS_KERNEL) end
        end
      end
      local function pred(x, y)
        return df.cond(x:reduce_sum():lt(0.6), function() return y:reduce_sum():lt(limit) end,
          function() return (y * 0.5):reduce_sum():lt(limit * 0.5) end)
      end
      local there = df.device('gpu:0', function()
        return { df.while_loop(function(x, y) return pred(x, y) end, function(x, y)
          return df.cond(mixed(x), function() return x * 0.5 end, function() return x + 1 end), y + 1
        end, { y0, one }) }
      end)
      for _, at in ipairs{ 0, 1, 2, 70 } do
        local how = both('until ' .. at, there, { [limit] = at }, 2)
        if at == 70 then says(how, AS_KERNEL) end
      end
    ]], 'DFLOW_STRICT_SEED=3'))
  end)

  gpu_it('reads the session\'s variables and what is fed as they are', function()
    assert.equal('', persistent([[
      local v, scale
      df.device('gpu:0', function() v = df.Variable(df.constant({ { 0.5, 0.25 } }), { name = 'v' }) scale = df.placeholder('float32', { 1, 2 }) end)
      local out = loop(df.int32(150), function(i, x) return i + 1, x * scale + v end, { df.int32(0), x0 })
      local add = v:assign_add(df.constant({ { 1.0, 1.0 } }))
      local found = {}
      for _, engine in ipairs{ 'tokens', 'native' } do
        local s = df.Session{ engine = engine }
        local all = {}
        for k = 1, 4 do
          all[k] = support.bits(s:run(out, { [scale] = k % 2 == 0 and { { 0.5, 0.125 } } or df.run(df.constant({ { 0.5, 0.125 * k } })) }))
          s:run(add)
        end
        found[engine] = all
        if engine == 'native' then says(s:native(), AS_KERNEL) end
        s:close()
      end
      if not same(found.tokens, found.native) then print 'other bits' end
    ]]))
  end)

  gpu_it('leaves what lies on the host and never changes where it is', function()
    assert.equal('', persistent([[
      local c, host = df.device('cpu:0', function() return df.placeholder('float32', { 1, 2 }), df.constant({ 2, 1 }) end)
      local out = loop(df.int32(100), function(i, x, a, b, d) return i + 1, df.tanh(x) * 0.5 + a, a, b, d end, { df.int32(0), y0, c, host, c })
      local read = df.device('cpu:0', function() return out[3] * 3 + out[5] end)
      for _, fetches in ipairs{ { out[2] }, { read, df.reshape(out[2], out[4]) }, out } do
        says(both('on the host', fetches, { [c] = df.run(df.constant{ { 0.25, 0.5 } }) }, 2), AS_KERNEL)
      end
      -- the host has it, and another one in each iteration
      local far = df.device('cpu:0', function() return df.constant({ 2.0, 1.0 }) * c[0] end)
      local apart = loop(df.int32(60), function(i, x, a)
        return i + 1, x * 0.5, df.device('cpu:0', function() return df.tanh(a) end) end, { df.int32(0), y0, far })
      both('computed on the host', { apart[3], df.device('cpu:0', function() return apart[3] + 1 end) }, { [c] = df.run(df.constant{ { 0.25, 0.5 } }) }, 2)
    ]]))
  end)

  gpu_it('reads what another GPU has, and leaves it there', function()
    if hardware then return end
    assert.equal('', persistent([[
      local there = df.device('gpu:1', function() return df.constant({ { 0.5, 0.25 } }) * df.constant({ { 2.0 } }) end)
      local out = loop(df.int32(100), function(i, x, a) return i + 1, df.tanh(x) * 0.5 + a + there * 0.125, a end, { df.int32(0), y0, there })
      says(both('of gpu:1', { out, df.device('gpu:1', function() return out[3] * 3 end) }, {}, 2), AS_KERNEL)
    ]], 'DFLOW_STRICT_GPUS=2'))
  end)

  gpu_it('adds up a list of one shape alone, and a run whose shapes did not fit, or were empty, costs later ones nothing', function()
    assert.equal('', persistent([[
      local p, q = df.device('gpu:0', function() return df.placeholder('float32', { -1, 2 }), df.placeholder('float32', { -1, 2 }) end)
      local function rows(n) return df.run(df.cast(df.reshape(df.range(2 * n), { n, 2 }), 'float32')) end
      local programs = {
        list = function() return df.add_n{ p, q, p } end,
        pair = function() return p + q end
      }
      for name, made in pairs(programs) do
        local out = loop(df.int32(100), function(i, x) return i + 1, df.reduce_sum(made(), 0, { keep_dims = true }) * 0.01 + x * 0.5 end,
          { df.int32(0), y0 })
        local found = {}
        for _, engine in ipairs{ 'tokens', 'native' } do
          local s = df.Session{ engine = engine }
          found[engine] = {}
          for k, n in ipairs{ { 2, 3 }, { 2, 2 }, { 1, 2 }, { 0, 0 }, { 3, 3 } } do
            local ok, is = pcall(s.run, s, out, { [p] = rows(n[1]), [q] = rows(n[2]), [one] = fed })
            found[engine][k] = ok and support.bits(is) or tostring(is)
          end
          if engine == 'native' then says(s:native(), AS_KERNEL) end
          s:close()
        end
        if not same(found.tokens, found.native) then print(name .. ': other bits, or words') end
        if name == 'list' and type(found.tokens[3]) ~= 'string' then print 'no error' end
      end
    ]]))
  end)

  gpu_it('has kernels for those shapes that it has had last, however many there have been', function()
    assert.equal('', persistent([[
      local p = df.device('gpu:0', function() return df.placeholder('float32', { -1 }) end)
      local out = loop(df.int32(50), function(i, x) return i + 1, x * 0.5 + p end, { df.int32(0), p })
      local s, tokens = df.Session{ engine = 'native' }, df.Session{ engine = 'tokens' }
      local SHAPES, LAST = 18, 14
      local function run(n)
        local feeds = { [p] = df.run(df.cast(df.range(n), 'float32')) }
        if not same(support.bits(s:run(out, feeds)), support.bits(tokens:run(out, feeds))) then print('other bits', n) end
      end
      for n = 1, SHAPES do run(n) end
      for n = SHAPES, SHAPES - LAST, -1 do run(n) end
      local iterations = s:native():match 'one kernel of gpu:0: (%d+) iterations'
      if tonumber(iterations) ~= 50 * (SHAPES + LAST + 1) then print(s:native()) end
    ]]))
  end)

  gpu_it('leaves an iteration whose numbers are wrong to tokens, which say where that is', function()
    assert.equal('', persistent([[
      local out = loop(df.int32(200), function(i, k, x) return i + 1, 1000 // (100 - i), x * 0.5 + df.cast(k, 'float32') end,
        { df.int32(0), df.int32(0), y0 })
      local found = {}
      for _, engine in ipairs{ 'tokens', 'native' } do
        local s = df.Session{ engine = engine }
        local ok, message = pcall(s.run, s, out, { [one] = fed })
        found[engine] = tostring(message)
        if engine == 'native' then says(s:native(), 'one kernel of gpu:0: 100 iterations') end
        s:close()
      end
      if not found.native:find 'while:100' or found.native ~= found.tokens then print(found.tokens, found.native) end
    ]]))
  end)

  gpu_it('leaves a function to tokens where they have what it is of as a number of the host\'s, if in some iterations only', function()
    assert.equal('', persistent([[
      local h0 = df.placeholder('float32', {})
      local sum = df.device('gpu:0', function() return df.reduce_sum(y0) end)
      local function found(name, body, what, vars)
        says(both(name, loop(df.int32(100), body, vars or { df.int32(0), y0, h0 }), { [h0] = 0.3 }, 2), what)
      end
      local function mixed(i, x, h) return df.cond((i % 3):eq(0), function() return h * 1.5 end, function() return df.reduce_sum(x) end) end
      local FUNCTION = 'tokens: .*%(Lgamma%): the host computes it'
      found('of a cond', function(i, x, h) return i + 1, x * 0.99 + df.lgamma(mixed(i, x, h)), h * 1.03 + 0.01 end, FUNCTION)
      found('in other dims', function(i, x, h) return i + 1, x * 0.99 + df.lgamma(df.reshape(h * 1.5, df.zeros({ 0 }, 'int32'))), h * 1.03 + 0.01 end, FUNCTION)
      found('what is exact', function(i, x, h)
        return i + 1, x * 0.99 + df.sqrt(df.relu(df.reciprocal(df.squared_difference(mixed(i, x, h), 0.5) + 1))), h * 1.03 + 0.01
      end, AS_KERNEL)
      found('a variable', function(i, x, h, t) return i + 1, x * 0.99 + df.lgamma(t), h * 1.03 + 0.01, mixed(i, x, h) end,
        'tokens: .*a variable becomes a number of the host\'s', { df.int32(0), y0, h0, sum })
    ]]))
  end)

  gpu_it('says why it is a graph, or tokens, instead', function()
    assert.equal('', persistent([[
      local n = df.int32(60)
      local function why(name, what, body, vars) says(both(name, loop(n, body, vars or { df.int32(0), x0 })), what) end
      why('a product', 'not one kernel: .*MatMul.*it has no expression', function(i, x) return i + 1, df.tanh(x:matmul(w)) end)
      why('large', 'not one kernel: .*too many elements', function(i, x) return i + 1, x * 0.5 end,
        { df.int32(0), df.device('gpu:0', function() return df.broadcast_to(one, { 100, 41 }) end) })
      local s = df.Session{ engine = 'native' }
      local array = loop(n, function(i, a, x) return i + 1, a:write(i, x), x * 0.5 end, { df.int32(0), df.TensorArray('float32', 60), y0 })
      s:run({ array[2]:stack() }, { [one] = fed })
      says(s:native(), 'a graph of .*not one kernel: .*it is an array')
    ]]))
  end)

  gpu_it('agrees where engines change at random iterations', function()
    for seed = 1, 2 do
      assert.equal('', persistent([[
        local n = df.placeholder('int32', {})
        local out = loop(n, function(i, x, k, y)
          local z = df.cond(x:reduce_sum():gt(0.4), function() return x * 0.5 end, function() return x + y end)
          return i + 1, df.cond((i % 3):eq(k % 3), function() return df.tanh(z) end, function() return z end), k + 2, y * 0.5 + x
        end, { df.int32(0), y0, df.int32(5), z0 })
        for _, trips in ipairs{ 3, 10, 47, 400 } do both('trips ' .. trips, out, { [n] = trips }, 2) end
      ]], ('DFLOW_STRESS=osr:%d DFLOW_STRICT_SEED=%d'):format(seed, seed)))
    end
  end)

  gpu_it('takes over from a graph when its code is there', function()
    local folder = os.tmpname()
    os.remove(folder)
    local out = persistent([[
      local out = loop(df.int32(2000000000), function(i, x) return i + 1, df.tanh(x) * 0.5 + 0.25 end, { df.int32(0), y0 })
      local s = df.Session{ engine = 'auto' }
      local h = s:start(out, { [one] = fed })
      local tries = 0
      while not s:native():find 'one kernel' and tries < 2000 do os.execute 'sleep 0.05' tries = tries + 1 end
      says(s:native(), AS_KERNEL .. '; before that a graph of gpu:0')
      h:cancel()
      pcall(h.wait, h)
      s:close()
    ]], 'DFLOW_GPU_CACHE=' .. folder)
    os.execute('rm -rf ' .. folder)
    assert.equal('', out)
  end)

  gpu_it('takes over from tokens, too, where no graph can be made', function()
    local folder = os.tmpname()
    os.remove(folder)
    local out = persistent([[
      local vars = { df.int32(0), y0 }         -- more numbers than a graph has
      for k = 1, 33 do vars[k + 2] = df.int32(k) end
      local out = loop(df.int32(2000000000), function(i, x, ...)
        local next = { ... }
        for k = 1, 33 do next[k] = next[k] + k end
        return i + 1, df.tanh(x) * 0.5 + 0.25, df.unpack(next)
      end, vars)
      local s = df.Session{ engine = 'auto' }
      local h = s:start(out, { [one] = fed })
      local tries = 0
      while not s:native():find 'one kernel of' and tries < 1000 do os.execute 'sleep 0.05' tries = tries + 1 end
      says(s:native(), AS_KERNEL)
      h:cancel()
      pcall(h.wait, h)
      s:close()
    ]], 'DFLOW_GPU_CACHE=' .. folder)
    os.execute('rm -rf ' .. folder)
    assert.equal('', out)
  end)

  gpu_it('pauses where it is under an inspector, and is stepped, cancelled and too late as ever', function()
    assert.equal('', persistent([[
      local out = loop(df.int32(2000000000), function(i, x) return i + 1, df.tanh(x) * 0.75 + x * 0.25 end, { df.int32(0), y0 }, { name = 'long' })
      stands_still(out, { [one] = fed })
    ]]))
  end)

  gpu_it('is one kernel in however many runs at once', function()
    assert.equal('', persistent([[
      local n, runs = df.placeholder('int32', {}), {}
      local out = loop(n, function(i, x) return i + 1, x * 0.5 + 0.25 end, { df.int32(0), y0 })
      local s = df.Session{ engine = 'native' }
      for k = 1, 20 do runs[k] = s:start(out, { [n] = 2000000000, [one] = fed }) end
      local function all_have_begun()
        for _, h in ipairs(runs) do if h:stats().iterations == 0 then return false end end
        return true
      end
      while not all_have_begun() do os.execute 'sleep 0.02' end
      for _, h in ipairs(runs) do
        h:cancel()
        pcall(h.wait, h)
      end
      s:run(out, { [n] = 100, [one] = fed })
      if s:native():find 'a graph of' or s:native():find 'not one kernel' then print(s:native()) end
      s:close()
    ]]))
  end)

  local where_faults_are_made = hardware and pending or gpu_it
  where_faults_are_made('tells of a device that fails while it runs, with node, frame and iteration', function()
    local out = persistent([[
      local out = loop(df.int32(2000000000), function(i, x) return i + 1, df.tanh(x) * 0.5 end, { df.int32(0), y0 }, { name = 'doomed' })
      local s = df.Session{ engine = 'native' }
      local ok, err = pcall(s.run, s, out, { [one] = fed })
      print(ok, err.code, err.frame, err.message, err.source)
      print(df.run(df.device('cpu:0', function() return df.constant(2) * 21 end)))
    ]], 'DFLOW_STRICT_QUIET=1 DFLOW_STRICT_FAULT=illegal:10')
    assert.matches('^false\tunavailable\tdoomed:%d+\t.*gpu:0 failed: .*ILLEGAL_ADDRESS.*the CPU goes on being usable.*%.?lua.*\n42$', out)
  end)

  -- DFLOW_PROGRAMS sets how many, DFLOW_SEED where the seeds begin
  local count, first = tonumber(os.getenv 'DFLOW_PROGRAMS') or 6, tonumber(os.getenv 'DFLOW_SEED') or 1
  gpu_it('has the bits and the counts of tokens where its body was made by lot, and of the host where what it does is exact', function()
    assert.equal('', persistent(([[
      local wrong, seen = require('spec.random_device_loops').differences(df, %d, %d, false, true)
      if wrong ~= '' then print(wrong) end
      if %d >= 6 and seen.kernels < 2 then print(seen.kernels .. ' kernels') end
    ]]):format(first, count, count)))
  end)
end)
