-- run: test-all, once
-- gpu_loops_spec.lua: loops that gpu:0 runs as graphs: the numbers, counts and errors of the token engine, on the strict driver of spec/cuda, which
-- runs a graph's nodes in any order that its edges allow and reports memory that is not the graph's any more.

local cudagraph = require 'spec.cudagraph'
local gpu_it, program, hardware = cudagraph.gpu_it(it, pending), cudagraph.program, cudagraph.hardware

describe('a loop on gpu:0', function()
  gpu_it('runs as a graph: with the bits and the counts of tokens, whatever its trips, variables and shapes', function()
    for seed = 1, 2 do
      assert.equal('', program([[
        local n = df.placeholder('int32', {})
        local step = function(i, x) return i + 1, df.tanh(x:matmul(w)) + x * 0.25 end
        local out = loop(n, step, { df.int32(0), x0 })
        for _, trips in ipairs{ 0, 1, 2, 17, 33, 100, 1000 } do
          local how = both('trips ' .. trips, out, { [n] = trips })
          if trips >= 100 then says(how, AS_GRAPH) end
        end
        says(both('thrice', out, { [n] = 200 }, 3), AS_GRAPH)
        says(both('exchanged', loop(n, function(i, a, b) return i + 1, b, a + b * 0.5 end, { df.int32(0), y0, z0 }), { [n] = 101 }), AS_GRAPH)
        says(both('turned', loop(n, function(i, a, b, c) return i + 1, c * 0.5, a, b * 2 end, { df.int32(0), y0, z0, z0 * 2 }), { [n] = 101 }), AS_GRAPH)
        says(both('passed on', loop(n, function(i, a, b) return i + 1, a * 0.9 + b, b end, { df.int32(0), x0, z0 }), { [n] = 101 }), AS_GRAPH)
        says(both('numbers there', loop(n, function(i, a, s) return i + 1, a * 0.9, s * 0.5 + a:reduce_sum() end,
          { df.int32(0), x0, df.constant(1.0) }), { [n] = 101 }), AS_GRAPH)
        says(both('numbers here', loop(n, function(i, k, a) return i + 1, k * 3 + i, a * 0.9 end, { df.int32(0), df.int32(1), x0 }), { [n] = 101 }),
          AS_GRAPH)
        says(both('numbers that vary', loop(n, function(i, rate, a)
          return i + 1, rate * 0.97, df.tanh(a - a * rate) + df.cast(i, 'float32') * 0.01 + rate
        end, { df.int32(0), df.constant(0.5), x0 }), { [n] = 101 }, 2), AS_GRAPH)
        says(both('integers that vary', loop(n, function(i, a) return i + 1, df.minimum(a + i, 1000) end, { df.int32(0), df.cast(x0, 'int32') }),
          { [n] = 101 }), AS_GRAPH)
        says(both('a row, moved', loop(n, function(i, a) return i + 1, df.transpose(df.reshape(df.transpose(a) * 0.9, { 2, 1 })):reverse{ 1 } end,
          { df.int32(0), x0 }), { [n] = 101 }), AS_GRAPH)
        says(both('float64 and int32', loop(n, function(i, a, b) return i + 1, df.sqrt(a + 1), b * 3 + 1 end,
          { df.int32(0), df.cast(x0, 'float64'), df.cast(x0, 'int32') }), { [n] = 101 }), AS_GRAPH)
        says(both('reduced and chosen', loop(n, function(i, a) return i + 1, df.softmax(df.where(a:gt(0.3), a, a * 0.5)) + a:reduce_max() end,
          { df.int32(0), x0 }), { [n] = 101 }), AS_GRAPH)
      ]], 'DFLOW_STRICT_SEED=' .. seed))
    end
  end)

  gpu_it('runs as a graph where the GPU computes the predicate, too: it ends at the iteration at which tokens do', function()
    for seed = 1, 2 do
      assert.equal('', program([[
        local limit = df.placeholder('float32', {})
        local function loop_while(pred, body, vars) return df.device('gpu:0', function() return { df.while_loop(pred, body, vars) } end) end
        local THERE = AS_GRAPH .. ', captured %d time.*; it computes the predicate'
        says(both('one variable', loop_while(function(x) return df.reduce_sum(x):gt(0.001) end, function(x) return x * 0.99 end, { y0 }), {}, 2), THERE)
        local either = loop_while(function(i, x) return df.logical_and(i:lt(300), df.reduce_sum(x):gt(limit)) end,
          function(i, x) return i + 1, df.tanh(x:matmul(w)) * 0.5 + x * 0.5 end, { df.int32(0), y0 })
        for _, at in ipairs{ 0.5, 0.1, 0.001, 100, -100 } do says(both('until ' .. at, either, { [limit] = at }, 2), THERE) end
        says(both('exchanged', loop_while(function(i, a) return df.reduce_sum(a):gt(0.01) end,
          function(i, a, b) return i + 1, b * 0.9, a * 0.99 + df.cast(i, 'float32') * 1e-6 end, { df.int32(0), y0, z0 }), {}, 2), THERE)
        says(both('bytes', loop_while(function(n, b) return df.reduce_sum(n):lt(40) end,
          function(n, b) return n + 1, df.logical_not(b) end, { y0, y0:gt(1.5) }), {}, 2), THERE)
      ]], 'DFLOW_STRICT_SEED=' .. seed))
    end
  end)

  gpu_it('is a WHILE node where the GPU computes the predicate, and a launch has as many iterations as it needs', function()
    assert.equal('', program[[
      local limit = df.placeholder('float32', {})
      local out = df.device('gpu:0', function()
        return { df.while_loop(function(x) return df.reduce_sum(x):gt(limit) end, function(x) return x * 0.999 end, { y0 }) }
      end)
      local how = both('long', out, { [limit] = 0.001 })
      local iterations, launches = how:match '(%d+) iterations in (%d+) launches, captured 1 time; it computes the predicate, for a WHILE node'
      if not iterations or tonumber(iterations) < 8000 or tonumber(launches) > 501 then print(how) end
      for _, at in ipairs{ 2.9999, 2.9, 2.5, 3.1 } do both('until ' .. at, out, { [limit] = at }) end
      -- what the host counts is of each iteration, in a body that is captured once
      out = df.device('gpu:0', function()
        return { df.while_loop(function(i, x) return df.reduce_sum(x):lt(limit) end, function(i, x) return i + 1, x + df.cast(i % 7, 'float32') end,
          { df.int32(0), y0 }) }
      end)
      says(both('numbers', out, { [limit] = 20000 }, 2), 'captured 1 time; it computes the predicate, for a WHILE node')
    ]])
  end)

  gpu_it('computes some iterations in vain where the driver has no conditional nodes', function()
    if hardware then return end
    assert.equal('', program([[
      local out = df.device('gpu:0', function()
        return { df.while_loop(function(x) return df.reduce_sum(x):gt(0.01) end, function(x) return x * 0.99 end, { y0 }) }
      end)
      says(both('long', out, {}, 2), 'it computes the predicate, and has no conditional nodes: some iterations are masked')
      says(both('a cond', loop(df.int32(90), function(i, x)
        return i + 1, df.cond((i % 2):eq(0), function() return x * 0.5 end, function() return df.tanh(x) end)
      end, { df.int32(0), y0 })), 'tokens: .*no conditional nodes')
    ]], 'DFLOW_STRICT_UNCONDITIONAL=1'))
  end)

  local conds = [[
    local n, flag, limit = df.placeholder('int32', {}), df.placeholder('bool', {}), df.placeholder('float32', {})
    local function mixed(x) return x:reduce_sum():gt(0.4) end
    local programs = {
      ['by the counter'] = { { df.int32(0), y0 }, function(i, x)
        return i + 1, df.cond((i % 3):eq(0), function() return x * 0.5 end, function() return df.tanh(x) + 0.5 end) end },
      ['by what the GPU computes'] = { { df.int32(0), y0 }, function(i, x)
        return i + 1, df.cond(mixed(x), function() return x * 0.5 end, function() return x + 1 end) end },
      ['by what is fed'] = { { df.int32(0), y0 }, function(i, x)
        return i + 1, df.cond(flag, function() return x * 0.5 end, function() return x * 0.25 + 1 end) end },
      ['a side that passes on'] = { { df.int32(0), y0 }, function(i, x)
        return i + 1, df.cond(mixed(x), function() return x * 0.5 end, function() return x end) + 0.01 end },
      ['constants'] = { { df.int32(0), y0 }, function(i, x)
        return i + 1, x * df.cond(mixed(x), function() return df.constant(0.5) end, function() return df.constant(1.75) end) end },
      ['numbers of the host'] = { { df.int32(0), df.int32(1), y0 }, function(i, k, x)
        local m = df.cond((i % 2):eq(0), function() return k * 3 % 1000 end, function() return k + i end)
        return i + 1, m, x * 0.5 + df.cast(m, 'float32') end },
      ['numbers by the GPU\'s word'] = { { df.int32(0), y0 }, function(i, x)
        return i + 1, x * 0.5 + df.cond(mixed(x), function() return df.cast(i, 'float32') end, function() return df.cast(i % 5, 'float32') * 2 end) end },
      ['two results'] = { { df.int32(0), y0, z0 }, function(i, x, y)
        local a, b = df.cond(mixed(x), function() return y, x * 0.5 end, function() return x + 0.3, y * 0.9 end)
        return i + 1, a * 0.9, b end },
      ['one inside another'] = { { df.int32(0), y0 }, function(i, x)
        return i + 1, df.cond(mixed(x), function()
          return df.cond((i % 2):eq(0), function() return x * 0.5 end, function() return x * 0.25 end) * 0.9
        end, function() return df.cond(x:reduce_max():lt(0.1), function() return x + 1 end, function() return x + 0.25 end) end) end },
      ['two by one word'] = { { df.int32(0), y0 }, function(i, x)
        local p = mixed(x)
        local a = df.cond(p, function() return x * 0.5 end, function() return x + 1 end)
        local b = df.tanh(a)
        return i + 1, df.cond(p, function() return a + b end, function() return b * 0.5 end) end },
      ['a side that waits for another cond'] = { { df.int32(0), y0, z0 }, function(i, x, y)
        local a = df.cond(df.tanh(df.tanh(x)):reduce_sum():gt(0.4), function() return x * 0.5 end, function() return x + 0.75 end)
        return i + 1, a, df.cond(y:reduce_sum():gt(2.5), function() return df.tanh(y) + a * 0.25 end, function() return y + 0.5 end) end },
      ['products in the sides'] = { { df.int32(0), y0 }, function(i, x)
        return i + 1, df.cond(mixed(x), function() return df.tanh(x:matmul(w)) * 0.3 end, function() return x:matmul(w) + x + 0.1 end) end },
    }
  ]]

  gpu_it('takes one side of a cond in each iteration, wherever its predicate is computed: as an IF node, or as that side alone', function()
    for seed = 1, 2 do
      assert.equal('', program(conds .. [[
        for name, p in pairs(programs) do
          local out = loop(n, p[2], p[1])
          for _, trips in ipairs{ 1, 40, 101 } do
            for _, yes in ipairs{ true, false } do
              local how = both(name .. ' ' .. trips .. ' ' .. tostring(yes), out, { [n] = trips, [flag] = yes }, 2)
              if trips == 101 then says(how, AS_GRAPH) end
              if trips == 101 and name ~= 'by what is fed' then says(how, 'IF node') end
            end
          end
        end
      ]], 'DFLOW_STRICT_SEED=' .. seed))
    end
  end)

  gpu_it('has IF nodes inside a WHILE node, too', function()
    assert.equal('', program(conds .. [[
      for name, p in pairs(programs) do
        local out = loop_there(limit, p[2], p[1])
        for _, trips in ipairs{ 3, 60 } do
          local how = both(name .. ' ' .. trips, out, { [limit] = trips, [flag] = trips > 10 }, 2)
          if trips == 60 then says(how, 'for a WHILE node') end
          if trips == 60 and name ~= 'by what is fed' then says(how, 'IF node') end
        end
      end
    ]]))
  end)

  gpu_it('has conds in what the GPU computes as its predicate, which are counted where there is an iteration', function()
    for seed = 1, 2 do
      assert.equal('', program(conds .. [[
        local function pred(x, y)
          return df.cond(x:reduce_sum():lt(0.6), function() return y:reduce_sum():lt(limit) end, function() return (y * 0.5):reduce_sum():lt(limit * 0.5) end)
        end
        local out = df.device('gpu:0', function()
          return { df.while_loop(function(x, y) return pred(x, y) end, function(x, y)
            return df.cond(mixed(x), function() return x * 0.5 end, function() return x + 1 end), y + 1
          end, { y0, one }) }
        end)
        for _, at in ipairs{ 0, 1, 2, 30, 70 } do
          local how = both('until ' .. at, out, { [limit] = at }, 2)
          if at == 70 then says(how, 'for a WHILE node; 2 IF nodes') end
        end
      ]], 'DFLOW_STRICT_SEED=' .. seed))
    end
  end)

  gpu_it('has a graph for each side that a cond by what is fed takes, and says which conds it cannot take', function()
    assert.equal('', program(conds .. [[
      local out = loop(n, programs['by what is fed'][2], { df.int32(0), y0 })
      local found = {}
      for _, engine in ipairs{ 'tokens', 'native' } do
        local s = df.Session{ engine = engine }
        found[engine] = {}
        for k = 1, 4 do found[engine][k] = support.bits(s:run(out[2], { [n] = 90, [flag] = k % 2 == 0, [one] = fed })) end
        if engine == 'native' then says(s:native(), 'captured 2 times; entered as it was 2 times') end
        s:close()
      end
      if not same(found.tokens, found.native) then print 'other bits' end
      local shapes = loop(n, function(i, x)
        local y = df.cond(mixed(x), function() return df.concat({ x, x }, 0) end, function() return x end)
        return i + 1, df.reshape(df.reduce_sum(y, 0), { 1, 2 }) * 0.3 + 0.1
      end, { df.int32(0), y0 })
      says(both('two shapes', shapes, { [n] = 60 }), 'tokens: .*a cond whose sides have two shapes')
      local function deep(x, d)
        return d == 0 and x + 0.1 or df.cond(x:reduce_sum():gt(0.3 * d), function() return deep(x * 0.75, d - 1) end, function() return x + 0.1 * d end)
      end
      says(both('eight deep', loop(n, function(i, x) return i + 1, deep(x, 8) end, { df.int32(0), y0 }), { [n] = 60 }), 'tokens: .*or none so deep')
    ]]))
  end)

  gpu_it('is captured anew where its constants lie elsewhere, and reads what they are now', function()
    assert.equal('', program[[
      local v, scale
      df.device('gpu:0', function() v = df.Variable(df.constant({ { 0.5, 0.25 } }), { name = 'v' }) scale = df.placeholder('float32', { 1, 2 }) end)
      local out = loop(df.int32(150), function(i, x) return i + 1, x * scale + v end, { df.int32(0), x0 })
      local add = v:assign_add(df.constant({ { 1.0, 1.0 } }))
      local found = {}
      for _, engine in ipairs{ 'tokens', 'native' } do
        local s = df.Session{ engine = engine }
        local all = {}
        for k = 1, 4 do
          all[k] = support.bits(s:run(out, { [scale] = df.run(df.constant({ { 0.5, 0.125 * k } })) }))
          s:run(add)
        end
        found[engine] = all
        if engine == 'native' then says(s:native(), AS_GRAPH) end
        s:close()
      end
      if not same(found.tokens, found.native) then print 'other bits' end
    ]])
  end)

  gpu_it('is captured once for all runs that read a variable, which they find as it is when copies to it are over', function()
    assert.equal('', program[[
      local n = 70000                      -- so large that it is copied beside what is computed, as nothing else is
      local b, change, ones
      df.device('gpu:0', function()
        ones = df.broadcast_to(df.reshape(one, { 1 }), { n })
        b = df.Variable(df.fill({ n }, true), { name = 'b' })
        change = df.scatter_update(b, df.constant{ 0, 1 }, df.constant{ false, false })    -- in place, through the host
      end)
      local out = loop(df.int32(200), function(i, y) return i + 1, df.where(b, y * 0.5, y + 1) end, { df.int32(0), ones })
      local s = df.Session{ engine = 'native' }
      s:run(df.group(change))              -- what it was first is shared with the constant
      for k = 1, 5 do
        local y = s:run(out, { [one] = fed })[2]
        if y:at(0) ~= 201 or y:at(2) ~= 0 then print(k, y:at(0), y:at(2)) end
        s:run(df.group(change))
      end
      says(s:native(), 'captured 1 time;')
      s:close()
    ]])
  end)

  gpu_it('sees soon what another run assigns', function()
    assert.equal('', program[[
      local v = df.device('gpu:0', function() return df.Variable(df.constant({ { 1.0, 2.0 } }), { name = 'v' }) end)
      local put = v:assign(df.constant({ { 5.0, 6.0 } }))
      local trips = 40000
      local out = loop(df.int32(trips), function(i, x) return i + 1, x + v end, { df.int32(0), y0 })
      local s = df.Session{ engine = 'native' }
      local h = s:start(out, { [one] = fed })
      while h:stats().iterations < 6000 do os.execute 'sleep 0.005' end        -- by then it has been captured with kernels of its own
      s:run(df.group(put))
      local before = h:stats().iterations
      local sum = h:wait()[2]:totable()[1][1]
      if before >= trips then print 'it was over too soon' end
      if sum < 5 * (trips - before) then print(sum, before) end
      local captures = s:native():match 'captured (%d+)'
      if not captures or tonumber(captures) > 8 then print(s:native()) end
      s:close()
    ]])
  end)

  gpu_it('takes no graph that was captured for a number for what a tensor is now', function()
    assert.equal('', program[[
      local n, c = df.placeholder('int32', {}), df.placeholder('float32', nil)
      local out = loop(n, function(i, k, x) return i + 1, k * c, df.reshape(x * 0.5 + k, { 1, 2 }) end, { df.int32(0), df.constant(1.0), y0 },
        { shape_invariants = { {}, false, { 1, 2 } } })
      local pair, found = df.run(df.constant{ 2.0, 3.0 }), {}
      for _, engine in ipairs{ 'tokens', 'native' } do
        local s = df.Session{ engine = engine }
        found[engine] = {}
        for k, feed in ipairs{ { 100, 1.01 }, { 5, pair }, { 100, 1.01 }, { 5, 1.5 }, { 100, 1.01 } } do
          found[engine][k] = support.bits(s:run(out[3], { [n] = feed[1], [c] = feed[2], [one] = fed }))
        end
        if engine == 'native' then says(s:native(), AS_GRAPH) end
        s:close()
      end
      if not same(found.tokens, found.native) then print 'other bits' end
    ]])
  end)

  gpu_it('has as many iterations open as before where it was thought to become a graph, and cannot', function()
    assert.equal('', program[[
      local out = loop(df.int32(2000000000), function(i, x) return i + 1, df.tanh(x) + df.random_uniform({ 1, 2 }, { seed = 3 }) end,
        { df.int32(0), x0 })
      local s = df.Session{ engine = 'auto' }
      local h = s:start(out)
      while not s:native():find 'random' do os.execute 'sleep 0.01' end
      local most = 0
      for _ = 1, 20 do
        h:pause()
        local f = h:frames()[2]
        most = math.max(most, f.next - f.first)
        h:resume()
      end
      if most < 2 then print(most) end
      h:cancel()
      s:close()
    ]])
  end)

  gpu_it('is tokens where the GPU would compute a function of what tokens have as a number of the host\'s, if in some iterations only', function()
    assert.equal('', program([[
      local h0 = df.placeholder('float32', {})
      local sum, none = df.device('gpu:0', function() return df.reduce_sum(y0), df.cast(y0 * 0, 'float64') end)
      local function exactly(v) return df.cast(v, 'float64') end             -- all bits of what is added up are there in the end
      local function there(x) return df.cast(x:reduce_sum(), 'float32') end
      local function either(h, x) return df.cond(there(x):gt(10), function() return h * 1.5 end, function() return h * 0.7 end) end
      local function mixed(i, h, x) return df.cond((i % 3):eq(0), function() return h * 1.5 end, function() return there(x) * 0.01 end) end
      local function inside(i, h, x, body)
        return df.while_loop(function(j) return j:lt(i + 1) end, body, { df.int32(0), h, x })
      end
      local of = {
        { 'one of two numbers', function(i, h, x, fn) return x + exactly(fn(either(h, x))) end },
        { 'a number or what is there', function(i, h, x, fn) return x + exactly(fn(mixed(i, h, x))) end },
        { 'a number in other dims', function(i, h, x, fn) return x + exactly(fn(df.reshape(h * 1.5, df.zeros({ 0 }, 'int32')))) end },
        { 'what a loop inside counted', function(i, h, x, fn)
          return x + exactly(fn(df.cast(inside(i, h, x, function(j, g, y) return j + 1, g, y * 0.5 end), 'float32') * 0.37 + 0.1))
        end },
        { 'a number that a loop inside has', function(i, h, x, fn)
          local _, _, y = inside(i, h, x, function(j, g, y) return j + 1, g * 1.01 + 0.1, y + exactly(fn(g)) end)
          return y
        end },
        { 'what is a number there at first', function(i, h, x, fn)
          local _, _, y = inside(i, h, x, function(j, g, y) return j + 1, there(y) * 0.01 + 0.5, y + exactly(fn(g)) end)
          return y
        end }
      }
      for _, one_of in ipairs(of) do
        for _, fn in ipairs{ 'lgamma', 'sqrt' } do
          local out = loop(df.int32(60), function(i, x, h) return i + 1, one_of[2](i, h, x, df[fn]), h * 1.03 + 0.01 end, { df.int32(0), none, h0 })
          says(both(fn .. ' of ' .. one_of[1], out, { [h0] = 0.3 }, 2), fn == 'sqrt' and AS_GRAPH or 'tokens: .*Lgamma.*of what the GPU counts')
        end
      end
      local out = loop(df.int32(60), function(i, x, h, t) return i + 1, x * 0.5 + exactly(t), h, mixed(i, h, x) end, { df.int32(0), none, h0, sum })
      says(both('a variable', { out[2], df.lgamma(out[4]) }, { [h0] = 0.3 }, 2), 'tokens: .*a variable becomes a number of the host\'s')
    ]]))
  end)

  gpu_it('says why it cannot be a graph', function()
    assert.equal('', program[[
      local n = df.int32(60)
      local function why(name, what, body, vars) says(both(name, loop(n, body, vars or { df.int32(0), x0 })), what) end
      why('an axis', 'an axis or an index that it takes is another one', function(i, x) return i + 1, df.cumsum(x, i % 2) end)
      local wide = df.constant({ 1.0, 2.0, 3.0 })
      why('a varying place', 'the host does not read what a graph computes', function(i, x) return i + 1, x + wide:slice({ i % 2 }, { 2 }) end)
      why('random numbers', 'random', function(i, x) return i + 1, x + df.random_uniform({ 1, 2 }, { seed = 3 }) end)
      local grown = df.device('gpu:0', function()
        return { df.while_loop(function(x) return df.device('cpu:0', function() return df.logical_or(x:reduce_sum():lt(1e6), x:reduce_sum():lt(1)) end) end,
          function(x) return x * 1.5 end, { x0 }) }
      end)
      says(both('a predicate that the host computes of it', grown), 'tokens: ')
      local s = df.Session{ engine = 'tokens' }
      s:run(grown)
      says(s:native(), 'the session\'s engine is tokens')
      s:close()
    ]])
  end)

  gpu_it('has kernels compiled for what hangs together in it once it has run for long, with the same bits', function()
    assert.equal('', program[[
      local n = df.placeholder('int32', {})
      local out = loop(n, function(i, x) return i + 1, df.tanh(x * 1.001 + df.cast(i, 'float32') * 0.001) * 0.5 end, { df.int32(0), x0 })
      local how = both('long', out, { [n] = 6000 })
      says(how, 'captured 2 times')
      local found = table.concat(df.devices()[2].libraries or {}, ' ')
      if not found:find 'NVRTC' then print(found) end
    ]])
  end)

  gpu_it('agrees where engines change at random iterations', function()
    for seed = 1, 3 do
      assert.equal('', program([[
        local n = df.placeholder('int32', {})
        local out = loop(n, function(i, a, b, s) return i + 1, df.tanh(b:matmul(w)), a + b * 0.5, s * df.cast(i, 'float32') + a:reduce_sum() end,
          { df.int32(0), x0, x0 * 2, df.constant(1.0) })
        for _, trips in ipairs{ 3, 10, 47 } do both('trips ' .. trips, out, { [n] = trips }, 2) end
        local limit = df.placeholder('float32', {})
        out = df.device('gpu:0', function()
          return { df.while_loop(function(i, x) return df.logical_and(i:lt(90), df.reduce_sum(x):gt(limit)) end,
            function(i, x, y) return i + 1, x * 0.97, y + df.cast(i, 'float32') end, { df.int32(0), y0, z0 }) }
        end)
        for _, at in ipairs{ 2.9, 1, 0.01 } do both('until ' .. at, out, { [limit] = at }, 2) end
        out = loop(n, function(i, x, k)
          local y = df.cond(x:reduce_sum():gt(0.4), function() return x * 0.5 end, function() return x + 1 end)
          return i + 1, df.cond((i % 3):eq(k % 3), function() return df.tanh(y) end, function() return y end), k + 2
        end, { df.int32(0), y0, df.int32(5) })
        for _, trips in ipairs{ 3, 47 } do both('sides ' .. trips, out, { [n] = trips }, 2) end
      ]], ('DFLOW_STRESS=osr:%d DFLOW_STRICT_SEED=%d'):format(seed, seed)))
    end
  end)

  gpu_it('pauses where it is under an inspector, and is stepped, cancelled and too late as ever', function()
    assert.equal('', program[[
      local out = loop(df.int32(2000000000), function(i, x) return i + 1, df.tanh(x:matmul(w)) + x * 0.25 end, { df.int32(0), x0 }, { name = 'long' })
      stands_still(out)
    ]])
  end)

  local where_faults_are_made = hardware and pending or gpu_it
  where_faults_are_made('tells of a device that fails while a graph runs, with node, frame and iteration', function()
    local out = program([[
      local out = loop(df.int32(100000), function(i, x) return i + 1, df.tanh(x:matmul(w)) end, { df.int32(0), x0 }, { name = 'doomed' })
      local s = df.Session{ engine = 'native' }
      local ok, err = pcall(s.run, s, out)
      print(ok, err.code, err.frame, err.message, err.source)
      print(df.run(df.device('cpu:0', function() return df.constant(2) * 21 end)))
    ]], 'DFLOW_STRICT_QUIET=1 DFLOW_STRICT_FAULT=illegal:10')
    assert.matches('^false\tunavailable\tdoomed:%d+\t.*gpu:0 failed: .*ILLEGAL_ADDRESS.*the CPU goes on being usable.*%.?lua.*\n42$', out)
  end)

  gpu_it('gives its memory back when its session closes, and counts it until then', function()
    assert.equal('', program[[
      local out = loop(df.int32(100), function(i, x) return i + 1, df.tanh(x:matmul(w)) end, { df.int32(0), x0 })
      local s = df.Session{ engine = 'native' }
      s:run(out)
      local first = s:stats().memory['gpu:0'].in_use
      for _ = 1, 5 do s:run(out) end
      local later = s:stats().memory['gpu:0'].in_use
      if first < 65536 or later ~= first then print(first, later) end
      s:close()
      s = df.Session{ engine = 'native', devices = { 'cpu:0', { 'gpu:0', memory = '40KB' } } }
      s:run(out)
      says(s:native(), 'tokens: the GPU has no room for a graph of it')
      for _ = 1, 4 do s:run(out) end
      says(s:native(), 'tokens: there is no room on gpu:0 for the 65536 bytes of the graph')
      s:close()
    ]])
  end)

  gpu_it('is tried again where another run left it no room', function()
    assert.equal('', program[[
      local p = df.placeholder('float32', { -1 })
      local beside = df.device('gpu:0', function() return df.tile(p * one, { 8, 1 }) end)
      local out = loop(df.int32(100), function(i, x) return i + 1, df.tanh(x:matmul(w)) end, { df.int32(0), x0 + df.reduce_sum(beside) })
      local after = df.device('gpu:0', function() return df.control_dependencies({ out[2] }, function() return df.reduce_max(beside) end) end)
      local s = df.Session{ engine = 'native', devices = { 'cpu:0', { 'gpu:0', memory = '120KB' } } }
      local function run(n)
        s:run({ out, after }, { [p] = df.run(df.zeros{ n }), [one] = fed })
        return s:native()
      end
      says(run(2500), 'tokens: the GPU has no room for a graph of it')
      says(run(1), AS_GRAPH)
      s:close()
    ]])
  end)

  gpu_it('leaves no piece of memory behind, however often it runs and sessions come and go', function()
    assert.equal('', program([[
      local core = require 'dflow.backend'
      local function pieces()
        collectgarbage()
        collectgarbage()
        return (select(2, core.memory_fail(-1)))
      end
      --- Do the pieces grow each time that fn is done?
      local function steady(name, fn)
        local last
        for round = 1, 12 do               -- what is kept for later ones may take some rounds to be there
          fn()
          local now = pieces()
          if round > 2 and now <= last then return end
          last = now
        end
        print(name .. ' leaves pieces of memory behind')
      end
      local function tried(name, fetches, feeds, how)
        feeds = feeds or {}
        feeds[one] = fed
        local s = df.Session{ engine = 'native' }
        steady(name .. ', runs of a session', function() for _ = 1, 3 do pcall(s.run, s, fetches, feeds) end end)
        if how then says(s:native(), how) end
        s:close()
        steady(name .. ', sessions', function()
          local t = df.Session{ engine = 'native' }
          pcall(t.run, t, fetches, feeds)
          t:close()
        end)
      end
      local n = df.placeholder('int32', {})
      local limit = df.placeholder('float32', {})
      local function there(pred, body, vars) return df.device('gpu:0', function() return { df.while_loop(pred, body, vars) } end) end
      tried('a loop', loop(n, function(i, x) return i + 1, df.tanh(x:matmul(w)) + x * 0.25 end, { df.int32(0), x0 }), { [n] = 70 }, AS_GRAPH)
      tried('a predicate there', there(function(x) return df.reduce_sum(x):gt(0.001) end, function(x) return x * 0.9 end, { y0 }), {}, AS_GRAPH)
      tried('a branch', loop(n, function(i, x)
        return i + 1, df.cond((i % 3):eq(1), function() return x * 0.5 end, function() return df.tanh(x:matmul(w)) end)
      end, { df.int32(0), x0 }), { [n] = 70 }, AS_GRAPH)
      tried('a branch there', loop(n, function(i, x)
        return i + 1, df.cond(df.reduce_sum(x):gt(0.5), function() return x * 0.5 end, function() return x + 0.4 end)
      end, { df.int32(0), y0 }), { [n] = 70 }, AS_GRAPH)
      tried('a loop inside', loop(n, function(i, x)
        local _, y = df.while_loop(function(j) return j:lt(70) end, function(j, y) return j + 1, y * 0.9 + 0.01 end, { df.int32(0), x })
        return i + 1, y
      end, { df.int32(0), y0 }), { [n] = 70 }, AS_GRAPH)
      local function filled()
        local _, ta = df.while_loop(function(i) return i:lt(40) end, function(i, ta) return i + 1, ta:write(i, y0 * df.cast(i, 'float32')) end,
          { df.int32(0), df.TensorArray('float32', 40) })
        return { ta:stack() }
      end
      tried('an array', df.device('gpu:0', filled), {}, AS_GRAPH)
      tried('numbers that vary', loop(n, function(i, rate, a) return i + 1, rate * 0.97, df.tanh(a - a * rate) + df.cast(i, 'float32') * 0.01 end,
        { df.int32(0), df.constant(0.5), x0 }), { [n] = 70 }, AS_GRAPH)
      local v = df.device('gpu:0', function() return df.Variable(df.ones{ 1, 2 }) end)
      tried('a variable', loop(n, function(i, x) return i + 1, x * 0.5 + v end, { df.int32(0), y0 }), { [n] = 70 }, AS_GRAPH)
      tried('an error', loop(n, function(i, x) return i + 1, df.check_numerics(x / (60 - df.cast(i, 'float32')), { message = 'it' }) end,
        { df.int32(0), y0 }), { [n] = 70 })
      tried('a gradient', { (df.gradients(loop(20, function(i, x) return i + 1, df.tanh(x:matmul(w)) end, { df.int32(0), y0 })[2], one)) }, {})
    ]]))
  end)
end)
