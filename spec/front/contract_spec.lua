--- The Lua surface word by word: small promises that the folders' own specs do not name.
local df = require 'dflow'
local support = require 'spec.support'
local same = support.same
local int32, float32 = df.int32, df.float32
local has_integers = math.type ~= nil

local function failure(fn, ...)
  local ok, e = pcall(fn, ...)
  assert(not ok, 'no error was raised')
  assert(type(e) == 'table', 'the error is ' .. tostring(e))
  assert(tostring(e):find(e.message, 1, true))
  return e
end

local function endless(name)
  return (df.while_loop(function(i) return i:ge(0) end, function(i) return (i + 1) % 1000 end, { int32(0) }, { name = name }))
end

describe('operators', function()
  it('take no options: a table with names is an error that says so, but for a complex number', function()
    local e = failure(function() return float32(1) + { a = 1 } end)
    assert.matches("a table with the key 'a' was given where an Output is expected", e.message)
    local z = df.run((df.complex(1.5, 2) * { re = 0, im = 1 }):real())
    assert.equal(-2, z)
  end)
  it('between a Tensor and an Output build a node; between Tensors and numbers they compute at once', function()
    local t, x = df.tensor({ 1, 2 }, 'float32'), float32{ 10, 20 }
    same(df.run{ t + x, x - t, t * x, x / t }, { { 11, 22 }, { 9, 18 }, { 10, 40 }, { 10, 10 } })
    local size = df.default_graph():size()
    same({ t + 1, 2 * t, t ^ t, -t, t / t, t % 2 }, { { 2, 3 }, { 2, 4 }, { 1, 4 }, { -1, -2 }, { 1, 1 }, { 1, 0 } })
    same({ t:sum(), t:reduce_max(), t:mean{ axis = 0 }, t:gt(1), (t:top_k(1)) }, { 3, 2, 1.5, { false, true }, { 2 } })
    assert.equal('dflow.Tensor', getmetatable(t * 2).__name)
    assert.equal(size, df.default_graph():size())
    local e = failure(function() return t + df.tensor({ 1, 2, 3 }, 'float32') end)
    assert.matches('shapes cannot be broadcast', e.message)
    assert.matches('contract_spec.lua:%d+$', e.source)
    assert.matches('t:gt%(1%)', failure(function() return t < t end).message)
  end)
end)

describe('bare numbers', function()
  it('take the other operand\'s dtype, on either side, for every dtype', function()
    for _, d in ipairs{ 'float32', 'float64', 'float16', 'bfloat16', 'int8', 'uint8', 'int32', 'int64' } do
      local x = df.constant(6, d)
      assert.equal(d, (10 - x).dtype)
      same(df.run{ x + 1, 10 - x, x * 2, x % 4, x ^ 2 }, { 7, 4, 12, 2, 36 })
    end
  end)
  it('begin a fold: as what they are alone, or of the elements\' dtype where the function wants that', function()
    local x = float32{ 1, 2, 3 }
    local function sum(a, v) return a + v end
    same(df.run(df.foldl(sum, x, 0)), 6)
    same(df.run(df.foldl(sum, int32{ 1, 2, 3 }, 0)), 6)
    same(df.run(df.scan(sum, x, 0, { reverse = true })), { 6, 5, 3 })
    if has_integers then
      assert.equal('int32', df.foldl(function(n, v) return n + df.size(v) end, x, 0).dtype)
    end
    assert.matches('int32', failure(df.foldl, function(a) return a + float32(1) end, int32{ 1 }, int32(0)).message)
  end)
end)

describe('structures', function()
  it('of loops hold loops with tables and arrays', function()
    local r = df.while_loop(function(s) return s.i:lt(3) end, function(s)
      local inner = df.while_loop(function(q) return q.j:lt(2) end, function(q)
        return { j = q.j + 1, ta = q.ta:write(q.j, s.acc[1] + df.float32(q.j)), more = { q.more[1] * 2, z = q.more.z } }
      end, { j = int32(0), ta = df.TensorArray('float32', 2), more = { float32(1), z = s.acc[2] } })
      return { i = s.i + 1, out = s.out:write(s.i, inner.ta:stack()), acc = { s.acc[1] + inner.more[1], inner.more.z + 1 } }
    end, { i = int32(0), out = df.TensorArray('float32', 3), acc = { float32(0), float32(10) } })
    same(df.run{ o = r.out:stack(), acc = r.acc }, { o = { { 0, 1 }, { 4, 5 }, { 8, 9 } }, acc = { 12, 13 } })
  end)
  it('of elems go to the function as they are', function()
    local x = float32{ 1, 2, 3 }
    same(df.run(df.map_fn(function(t) return { s = t.a + t.b[1] } end, { a = x, b = { x, x } })), { s = { 2, 4, 6 } })
    same(df.run(df.map_fn(function(a, b) return a + b[1] * b[2] end, { x, { x, x } })), { 2, 6, 12 })
    same(df.run(df.foldl(function(a, t) return { a = a.a + t.a, b = a.b * t.b } end, { a = x, b = x })), { a = 6, b = 6 })
    same(df.run(df.map_fn(function(a) return a + 1 end, { 1.5, 2.5 })), { 2.5, 3.5 })
  end)
end)

describe('while_loop', function()
  it('ends after maximum_iterations trips, be it a number or an Output', function()
    local m, x = df.placeholder('int32', {}), df.placeholder('float32', {})
    local z = df.while_loop(function(v) return v:lt(100) end, function(v) return v * x end, { float32(1) }, { maximum_iterations = m })
    same(df.run(z, { [m] = 3, [x] = 2 }), 8)
    same(df.run(z, { [m] = 0, [x] = 2 }), 1)
    same(df.run(df.gradients(z, x), { [m] = 3, [x] = 2 }), 12)
    local e = failure(df.while_loop, function(v) return v:lt(9) end, function(v) return v end, { float32(1) }, { maximum_iterations = float32(3) })
    assert.matches('maximum_iterations', e.message)
  end)
  it('runs the effects of its predicate once per test', function()
    local n = df.Variable(0.0)
    df.run((df.while_loop(function(i)
      n:assign_add(1)
      return i:lt(3)
    end, function(i) return i + 1 end, { int32(0) })))
    same(df.run(n), 4)
  end)
end)

describe('gradients', function()
  it('that are sparse come out of a run dense, with the slices as fields', function()
    local e = df.Variable{ { 1.0, 2.0 }, { 3.0, 4.0 }, { 5.0, 6.0 } }
    local rows = e:gather{ 2, 0, 2 }
    local g = df.gradients(df.reduce_sum(rows * rows), e)
    local t = df.run(g)
    same(t, { { 2, 4 }, { 0, 0 }, { 20, 24 } })
    same(t.indices, { 2, 0, 2 })
    same(t.dense_shape, { 3, 2 })
    same(df.run{ a = g }.a.values, { { 10, 12 }, { 2, 4 }, { 10, 12 } })
    same(df.run{ 1 - g, g[0], g:reduce_sum() }, { { { -1, -3 }, { 1, 1 }, { -19, -23 } }, { 2, 4 }, 50 })
    same(df.run(e:assign_sub(g)), { { -1, -2 }, { 3, 4 }, { -15, -18 } })
  end)
end)

describe('runs', function()
  it('tell their counters while they go on', function()
    local h = df.start(endless())
    local until_ = os.clock() + 5
    while h:stats().iterations == 0 and os.clock() < until_ do df.run(float32(1) + 1) end
    local now = h:stats()
    h:cancel()
    pcall(h.wait, h)
    assert(now.iterations > 0 and now.nodes_run >= now.iterations)
    assert.equal(1, now.runs)
    assert(h:stats().iterations >= now.iterations)
  end)
  it('are counted, the setting up of a variable is not one', function()
    local v = df.Variable(0.0)
    local s = df.Session()
    s:run(v:assign_add(1))
    s:run(v)
    local stats = s:stats()
    assert.equal(2, stats.runs)
    for _, key in ipairs{ 'nodes_run', 'dead_tokens', 'frames', 'iterations', 'stack_pushes', 'stack_pops' } do assert.is_number(stats[key]) end
    for _, key in ipairs{ 'in_use', 'peak', 'limit' } do assert.is_number(stats.memory['cpu:0'][key]) end
    for _, key in ipairs{ 'bytes_out', 'bytes_in', 'tensors_out', 'tensors_in', 'stall_seconds', 'resident_bytes' } do assert.is_number(stats.swap[key]) end
    s:close()
  end)
  it('count the trips of backward loops, too', function()
    local x = df.placeholder('float32', {})
    local _, z = df.while_loop(function(i) return i:lt(10) end, function(i, z) return i + 1, df.sin(z * x) end, { int32(0), float32(1) })
    local h = df.start(df.gradients(z, x), { [x] = 1 })
    h:wait()
    local stats = h:stats()
    assert.equal(20, stats.iterations)
    assert(stats.stack_pushes >= 10 and stats.stack_pops == stats.stack_pushes)
  end)
end)

describe('names', function()
  it('begin with their scopes: of nodes, of variables, of what a body builds', function()
    local v, i = df.name_scope('outer', function()
      return df.Variable(1.0, { name = 'w' }), df.while_loop(function(i) return i:lt(3) end, function(i)
        return df.add(i, 1, { name = 'next' })
      end, { int32(0) }, { name = 'loop' })
    end)
    assert.matches('^outer/w', v.name)
    assert.equal('Add', df.default_graph():op('outer/loop/next').type)
    assert.equal(i.graph, df.default_graph())
    same(df.run{ v, i }, { 1, 3 })
  end)
end)

describe('what is used wrongly', function()
  it('or is not there yet, ends in an error of code unimplemented', function()
    local h = df.start(float32(1) + 1)
    h:wait()
    for _, name in ipairs{ 'pause', 'resume', 'step', 'break_at', 'frames' } do
      local ok, e = pcall(h[name], h, {})
      assert(ok or (type(e) == 'table' and e.code ~= nil), name)
    end
    for _, name in ipairs{ 'import_graph_def', 'export_graph_def' } do
      assert.is_function(df[name])
      local ok, e = pcall(df[name])
      assert(not ok and type(e) == 'table' and e.code ~= nil, name)
    end
    assert.matches('tpu:7', failure(df.Session, { devices = { 'cpu:0', 'tpu:7' } }).message)
    local elsewhere = df.device('gpu:9', function() return df.placeholder_with_default(1.0) + 1 end)
    assert.matches('gpu:9', failure(df.run, elsewhere).message)
  end)
end)

