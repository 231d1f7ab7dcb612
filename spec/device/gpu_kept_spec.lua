-- run: once
-- gpu_kept_spec.lua: graphs of loops are kept from run to run: what the next run has elsewhere is copied to where the graph reads it, so that they are
-- captured twice at most for as many runs as there are, and give their memory back when that is short.

local cudagraph = require 'spec.cudagraph'
local gpu_it, program = cudagraph.gpu_it(it, pending), cudagraph.program

-- `runs` runs the fetches once for each of the feeds, under tokens and as graphs, compares all bits and counts, and says how the loops ran.
local prelude = [[
local function on(fn) return df.device('gpu:0', fn) end
local function rows(count, width, by)
  local all = {}
  for i = 1, count do
    all[i] = {}
    for k = 1, width do all[i][k] = math.sin(i * 1.3 + k * 0.7 + by) end
  end
  return all
end
local function runs(name, fetches, feeds, between)
  local found, counted, how = {}, {}, nil
  for _, engine in ipairs{ 'tokens', 'native' } do
    local s = df.Session{ engine = engine }
    found[engine] = {}
    for k, feed in ipairs(feeds) do
      if between then between(s, k) end
      feed[one] = fed
      found[engine][k] = support.bits(s:run(fetches, feed))
    end
    local c = s:stats()
    counted[engine] = ('%d nodes, %d dead, %d iterations'):format(c.nodes_run, c.dead_tokens, c.iterations)
    how = s:native()
    s:close()
  end
  for k = 1, #feeds do if not same(found.tokens[k], found.native[k]) then print(name .. ': other bits in run ' .. k) end end
  if counted.tokens ~= counted.native then print(name .. ': ' .. counted.tokens .. ' but ' .. counted.native) end
  return how
end
-- each loop was captured so often at most, and entered without that so often at least
local function kept(how, most, least)
  for line in how:gmatch '[^\n]+' do
    local captures, entered = line:match 'captured (%d+) time', line:match 'entered as it was (%d+) time'
    if not line:find 'a part of the graphs' and (tonumber(captures or 99) > most or tonumber(entered or 0) < least) then print(how) end
  end
end
local function list(n, fn)
  local all = {}
  for k = 1, n do all[k] = fn(k) end
  return all
end
]]

describe('a graph of a loop on gpu:0', function()
  gpu_it('is kept: a training step of an RNN is captured twice at most, whatever is fed', function()
    for seed = 1, 2 do
      assert.equal('', program(prelude .. [[
        local T, width = 40, 3
        local x, keep = on(function() return df.placeholder('float32', { T, 2, width }), df.placeholder('float32', {}) end)
        local fetches = on(function()
          local wv = df.Variable(df.constant(rows(width, width, 0.5)) * 0.3, { name = 'wv' })
          local u = df.Variable(df.fill({ width, width }, 0.05), { name = 'u' })
          local scaled = u * 1.5           -- is made in each run
          local ta = df.TensorArray('float32', T):unstack(x)
          local _, h = df.while_loop(function(i) return i:lt(T) end, function(i, h)
            return i + 1, df.tanh(h:matmul(wv) + ta:read(i):matmul(scaled)) * keep
          end, { df.int32(0), df.reduce_sum(x, 0) * 0.0 })
          local loss = df.reduce_mean(h * h)
          return { loss, df.train.Adam(1e-2):minimize(loss) }
        end)
        local how = runs('training', fetches[1] and { fetches[1], fetches[2] }, list(30, function(k)
          return { [x] = list(T, function(t) return rows(2, width, k + t) end), [keep] = 1 - k * 1e-3 }
        end))
        kept(how, 2, 28)
      ]], 'DFLOW_STRICT_SEED=' .. seed))
    end
  end)

  gpu_it('is kept for each of several shapes, and says what it was captured for', function()
    assert.equal('', program(prelude .. [[
      local x, y = on(function() return df.placeholder('float32', { -1, 2 }), df.placeholder('float32', { -1, 2 }) end)
      local out = loop(df.int32(60), function(i, h) return i + 1, df.tanh(h:matmul(w) + y) end, { df.int32(0), x * 1.5 })
      local function feeds(shapes, n)
        return list(n, function(k) return { [x] = rows(k % shapes + 1, 2, k), [y] = rows(1, 2, k) } end)
      end
      kept(runs('three shapes', out, feeds(3, 30)), 6, 24)
      local how = runs('six shapes', out, feeds(6, 18))      -- more than are kept
      says(how, AS_GRAPH)
      local n = df.placeholder('int32', {})
      out = loop(n, function(i, h) return i + 1, df.tanh(h:matmul(w)) end, { df.int32(0), x * 1.5 })
      -- a fifth one, which ends too soon for a graph, takes the place of one at most
      kept(runs('a short one', out, list(40, function(k) return { [x] = rows(k % 5 + 1, 2, k), [n] = k % 5 < 4 and 60 or 3 } end)), 14, 18)
    ]]))
  end)

  gpu_it('reads the numbers of each run, whether kernels, the host\'s counting or a shape depends on them', function()
    assert.equal('', program(prelude .. [[
      local a, b = df.placeholder('float32', {}), df.placeholder('int32', {})
      local function feeds(n) return list(n, function(k) return { [a] = 0.5 + 0.01 * k, [b] = 50 + k } end) end
      kept(runs('a factor', loop(df.int32(60), function(i, x) return i + 1, df.tanh(x) * a end, { df.int32(0), y0 }), feeds(12)), 2, 10)
      kept(runs('trips', loop(b, function(i, x) return i + 1, df.tanh(x) * 0.9 end, { df.int32(0), y0 }), feeds(12)), 2, 10)
      kept(runs('counted with', loop(df.int32(60), function(i, k, x)
        return i + 1, (k * 3 + b) % 1000, x * 0.5 + df.cast(k, 'float32') + df.cast(b * 2, 'float32')
      end, { df.int32(0), df.int32(1), y0 }), feeds(12)), 2, 10)
      kept(runs('in a side', loop(df.int32(60), function(i, x)
        return i + 1, df.cond((i % 3):eq(0), function() return x * a end, function() return df.tanh(x) + df.cast(b, 'float32') end)
      end, { df.int32(0), y0 }), feeds(12)), 2, 10)
      kept(runs('given by a side', loop(df.int32(60), function(i, x)
        return i + 1, x * 0.5 + df.cond(x:reduce_sum():gt(0.4), function() return a * 1 end, function() return a * 2 end)
      end, { df.int32(0), y0 }), feeds(12)), 2, 10)
      -- an axis: the graph is another one each time
      says(runs('an axis', loop(df.int32(60), function(i, x) return i + 1, df.cumsum(x * a, b % 2) * 0.3 end, { df.int32(0), y0 }), feeds(8)), AS_GRAPH)
    ]]))
  end)

  gpu_it('has what lies on the host copied once for each run, and what the GPU has where that is elsewhere', function()
    assert.equal('', program(prelude .. [[
      local c = df.device('cpu:0', function() return df.placeholder('float32', { 1, 2 }) end)
      local there = on(function() return df.placeholder('float32', { 1, 2 }) end)
      local function feeds(n) return list(n, function(k) return { [c] = rows(1, 2, k), [there] = rows(1, 2, 2 * k) } end) end
      kept(runs('both', loop(df.int32(60), function(i, x) return i + 1, df.tanh(x + c) + there end, { df.int32(0), y0 }), feeds(12)), 2, 10)
      kept(runs('given on as a variable', loop(df.int32(60), function(i, x, y) return i + 1, df.tanh(x + y), there * 1 end,
        { df.int32(0), y0, z0 }), feeds(12)), 2, 10)
      local gpus = on(function()
        return { df.while_loop(function(x) return df.reduce_sum(x):lt(2000) end, function(x) return x + df.tanh(there) + 1.5 end, { y0 }) }
      end)
      local how = runs('the GPU\'s predicate', gpus, feeds(12))
      says(how, 'for a WHILE node')
      kept(how, 3, 9)                      -- once more with kernels of its own, as a run begins or in the middle of one
    ]]))
  end)

  gpu_it('is kept with the loops inside it', function()
    assert.equal('', program(prelude .. [[
      local x, a, n = on(function() return df.placeholder('float32', { 1, 2 }), df.placeholder('float32', {}), df.placeholder('int32', {}) end)
      local v = on(function() return df.Variable(df.constant({ { 0.5, 0.25 } }), { name = 'v' }) end)
      local add = df.group(v:assign_add(df.constant({ { 0.125, 0.0 } })))
      local out = loop(df.int32(60), function(i, h)
        local _, k = df.while_loop(function(j) return j:lt(3) end, function(j, k) return j + 1, df.tanh(k + x) * 0.5 end, { df.int32(0), h })
        return i + 1, k * 0.9 + v
      end, { df.int32(0), y0 })
      local function feeds(n) return list(n, function(k) return { [x] = rows(1, 2, k) } end) end
      kept(runs('few', out, feeds(10), function(s, k) if k % 3 == 0 then s:run(add) end end), 3, 7)
      out = loop(df.int32(60), function(i, h)
        local _, k = df.while_loop(function(j) return j:lt(n) end, function(j, k) return j + 1, df.tanh(k) * a + x end, { df.int32(0), h })
        return i + 1, k * 0.9
      end, { df.int32(0), y0 })
      says(runs('as many as is fed', out, list(8, function(k) return { [x] = rows(1, 2, k), [a] = 0.5 + k * 0.01, [n] = 2 + k % 3 } end)), AS_GRAPH)
    ]]))
  end)

  gpu_it('has loops inside whose numbers are those of the run, also where the host alone computes with them', function()
    assert.equal('', program(prelude .. [[
      local n, a = df.placeholder('int32', {}), df.placeholder('float32', {})
      local times, factor = n * 2 - n, a * 2 - a
      local function feeds(runs_) return list(runs_, function(k) return { [n] = 2 + k % 3, [a] = k / 7 } end) end
      says(runs('a curve', loop(df.int32(60), function(i, x)
        local _, y = df.while_loop(function(j) return j:lt(3) end, function(j, y) return j + 1, y * 0.5 + df.tanh(factor) end, { df.int32(0), x })
        return i + 1, y * 0.5
      end, { df.int32(0), y0 }), feeds(8)), AS_GRAPH)
      says(runs('a remainder', loop(df.int32(60), function(i, x)
        local _, y = df.while_loop(function(j) return j:lt(times) end, function(j, y)
          return j + 1, y * 0.5 + df.cast(j % 2, 'float32')
        end, { df.int32(0), x })
        return i + 1, y * 0.5
      end, { df.int32(0), y0 }), feeds(8)), AS_GRAPH)
    ]]))
  end)

  gpu_it('is counted, and so are loops that are one kernel: of a run, and of the session', function()
    assert.equal('', cudagraph.persistent([[
      local a = loop(df.int32(90), function(i, x) return i + 1, df.tanh(x) * 0.5 end, { df.int32(0), y0 })
      local b = loop(df.int32(90), function(i, x) return i + 1, df.tanh(x:matmul(w)) end, { df.int32(0), y0 })
      local names = { 'graph_captures', 'graph_entries', 'graph_launches', 'graph_iterations', 'persistent_launches', 'persistent_iterations' }
      local s, sum = df.Session{ engine = 'native' }, {}
      s:run(df.device('cpu:0', function() return df.constant(1) * 2 end))
      if s:stats().graph_captures then print 'counted, and nothing was captured' end
      for _ = 1, 3 do
        local h = s:start({ a[2], b[2] }, { [one] = fed })
        h:wait()
        local own = h:stats()
        for _, name in ipairs(names) do sum[name] = (sum[name] or 0) + own[name] end
      end
      local all, how = s:stats(), s:native()
      for _, name in ipairs(names) do if all[name] ~= sum[name] then print(name, all[name], sum[name]) end end
      says(how, ('one kernel of gpu:0: %d iterations in %d launches'):format(all.persistent_iterations, all.persistent_launches))
      says(how, ('a graph of gpu:0: %d iterations in %d launches, captured %d time'):format(all.graph_iterations, all.graph_launches, all.graph_captures))
      says(how, ('entered as it was %d times'):format(all.graph_entries))
      if all.persistent_iterations ~= 270 or all.graph_entries + all.graph_captures ~= 3 then print(how) end
      s:close()
    ]]))
  end)

  gpu_it('reads what variables are, wherever their values lie by then', function()
    assert.equal('', program(prelude .. [[
      local v, u
      on(function()
        v = df.Variable(df.constant({ { 0.5, 0.25 } }), { name = 'v' })
        u = df.Variable(df.constant({ { 0.125, 0.75 } }), { name = 'u' })
      end)
      local feed = on(function() return df.placeholder('float32', { 1, 2 }) end)
      local put, push = df.group(v:assign(feed * 1)), df.group(u:assign_add(df.constant({ { 0.5, 0.5 } })))      -- u stays where it is
      local function between(s, k) s:run(put, { [feed] = rows(1, 2, k) }) s:run(push) end
      local function feeds(n) return list(n, function(k) return {} end) end
      local out = loop(df.int32(60), function(i, x) return i + 1, df.tanh(x + v) * u end, { df.int32(0), y0 })
      kept(runs('assigned', out, feeds(12), between), 2, 10)
    ]]))
  end)

  gpu_it('reads what variables are in a side of a cond, too, which has their handles from a Switch', function()
    assert.equal('', program(prelude .. [[
      local v = on(function() return df.Variable(df.constant({ { 0.5, 0.25 } }), { name = 'v' }) end)
      local number = df.Variable(df.constant(0.5), { name = 'number' })
      local feed, a = on(function() return df.placeholder('float32', { 1, 2 }) end), df.placeholder('float32', {})
      local put, count = df.group(v:assign(feed * 1)), df.group(number:assign(a * 1))
      local function feeds(n) return list(n, function() return {} end) end
      local function side(what) return loop(df.int32(60), function(i, x)
        return i + 1, df.cond((i % 3):eq(0), function() return df.maximum(x, what) * 0.75 end, function() return x * 0.5 end)
      end, { df.int32(0), y0 }) end
      kept(runs('a tensor', side(v), feeds(12), function(s, k) s:run(put, { [feed] = rows(1, 2, k) }) end), 2, 10)
      kept(runs('a number', side(number), feeds(12), function(s, k) if k % 4 == 0 then s:run(count, { [a] = k / 8 }) end end), 4, 8)
      says(runs('in a loop inside', loop(df.int32(60), function(i, x)
        local y = df.while_loop(function(y) return y:reduce_sum():lt(2.5) end, function(y)
          return df.cond(y:reduce_max():lt(0.5), function() return y + df.abs(v) + 0.1 end, function() return y * 1.5 end)
        end, { x })
        return i + 1, y * 0.25
      end, { df.int32(0), y0 }), feeds(6), function(s, k) s:run(put, { [feed] = rows(1, 2, k) }) end), 'it reads a variable that came in')
    ]]))
  end)

  gpu_it('agrees in series of runs where engines change at random iterations', function()
    for seed = 1, 3 do
      assert.equal('', program(prelude .. [[
        local a, x = df.placeholder('float32', {}), on(function() return df.placeholder('float32', { -1, 2 }) end)
        local n = df.placeholder('int32', {})
        local out = loop(n, function(i, h) return i + 1, df.tanh(h:matmul(w) + x) * a end, { df.int32(0), x * 0.5 })
        runs('series', out, list(10, function(k) return { [a] = 0.9 + 0.01 * k, [x] = rows(k % 2 + 1, 2, k), [n] = 20 + k } end))
      ]], ('DFLOW_STRESS=osr:%d DFLOW_STRICT_SEED=%d'):format(seed, seed)))
    end
  end)

  gpu_it('goes where memory is short, and another run is there; it is captured again when there is room', function()
    local programs = [[
      local n, x = df.placeholder('int32', {}), on(function() return df.placeholder('float32', { 1, 2 }) end)
      local small = loop(df.int32(60), function(i, h) return i + 1, df.tanh(h:matmul(w) + x) end, { df.int32(0), x * 0.5 })
      local large = on(function() return df.reduce_sum(df.fill({ n, 2 }, 0.5) * x) end)
      local function run(s)
        local feed = { [x] = { { 0.25, 0.5 } }, [n] = 10, [one] = fed }
        local first = support.bits(s:run(small, feed))
        s:run(large, feed)
        local before = s:native()
        says(before, AS_GRAPH)
        if before:find 'memory was short' then print(before) end
        feed[n] = 20000                    -- 160 KB, and a graph has 64 KB at least
        local sum = s:run(large, feed)
        if sum ~= 20000 * 0.375 then print(sum) end
        if not same(first, support.bits(s:run(small, feed))) then print 'other bits' end
        says(s:native(), 'captured 2 times.*; 1 went when memory was short')
        s:close()
      end
    ]]
    assert.equal('', program(prelude .. programs .. "run(df.Session{ engine = 'native', devices = { 'cpu:0', { 'gpu:0', memory = '200KB' } } })"))
    if not cudagraph.hardware then       -- nothing is told of the memory that the GPU has, until it refuses
      assert.equal('', program(prelude .. programs .. "run(df.Session{ engine = 'native' })", 'DFLOW_STRICT_MEMORY=200000'))
    end
  end)

  gpu_it('goes where another session has no room on the GPU, whose memory is that of all', function()
    if cudagraph.hardware then return end
    assert.equal('', program(prelude .. [[
      local n, x = df.placeholder('int32', {}), on(function() return df.placeholder('float32', { 1, 2 }) end)
      local small = loop(df.int32(60), function(i, h) return i + 1, df.tanh(h:matmul(w) + x) end, { df.int32(0), x * 0.5 })
      local large = on(function() return df.reduce_sum(df.fill({ n, 2 }, 0.5) * x) end)
      local keeps, other = df.Session{ engine = 'native' }, df.Session{ engine = 'native' }
      local feed = { [x] = { { 0.25, 0.5 } }, [n] = 20000, [one] = fed }
      local first = support.bits(keeps:run(small, feed))
      says(keeps:native(), AS_GRAPH)
      local sum = other:run(large, feed)
      if sum ~= 20000 * 0.375 then print(sum) end
      says(keeps:native(), '1 went when memory was short')
      if not same(first, support.bits(keeps:run(small, feed))) then print 'other bits' end
      keeps:close()
      other:close()
    ]], 'DFLOW_STRICT_MEMORY=200000'))
  end)

  gpu_it('goes where a kernel needs memory beside what it makes, too: what tokens have room for is no error', function()
    if cudagraph.hardware then return end
    for memory = 65800, 66200, 50 do
      assert.equal('', program([[
        local n = df.placeholder('int32', {})
        local out = loop(n, function(i, x) return i + 1, df.tanh(x:matmul(w)) end, { df.int32(0), y0 })
        local grad = df.device('gpu:0', function() return df.gradients(df.reduce_sum(out[2]), y0) end)
        local s = df.Session{ engine = 'native' }
        for k = 1, 3 do
          local ok, err = pcall(s.run, s, grad, { [n] = 40 + 3 * k, [one] = fed })
          if not ok then print(err) end
        end
        s:close()
      ]], 'DFLOW_STRICT_MEMORY=' .. memory))
    end
  end)
end)
