--- The Lua surface word by word: small promises that the rooms' own specs do not name.
local df = require 'dflow'
local support = require 'spec.support'
local same, near = support.same, support.near
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
  before_each(function() df.reset() end)

  it('take no options: a table with names is an error that says so, but for a complex number', function()
    local e = failure(function() return float32(1) + { a = 1 } end)
    assert.matches("a table with the key 'a' was given where an Output is expected", e.message)
    local z = df.run((df.complex(1.5, 2) * { re = 0, im = 1 }):real())
    assert.equal(-2, z)
  end)
  it('between a Tensor and an Output build a node, and say what to write between Tensors and numbers', function()
    local t, x = df.tensor({ 1, 2 }, 'float32'), float32{ 10, 20 }
    same(df.run{ t + x, x - t, t * x, x / t }, { { 11, 22 }, { 9, 18 }, { 10, 40 }, { 10, 10 } })
    for _, f in ipairs{ function() return t + 1 end, function() return 2 * t end, function() return t ^ t end } do
      local e = failure(f)
      assert.matches('a Tensor is a value.*df.constant%(t%)', e.message)
      assert.matches('contract_spec.lua:%d+$', e.source)
    end
  end)
end)

describe('bare numbers', function()
  before_each(function() df.reset() end)

  it('take the other operand\'s dtype, on either side, for every dtype', function()
    for _, d in ipairs{ 'float32', 'float64', 'float16', 'bfloat16', 'int8', 'uint8', 'int32', 'int64' } do
      local x = df.constant(6, d)
      assert.equal(d, (10 - x).dtype)
      same(df.run{ x + 1, 10 - x, x * 2, x % 4, x ^ 2 }, { 7, 4, 12, 2, 36 })
    end
  end)
  it('that the dtype cannot hold are errors with number, dtype and line', function()
    for _, case in ipairs{ { 'int32', 0.5 }, { 'int8', 300 }, { 'uint8', -1 }, { 'int32', 2^31 } } do
      local e = failure(function() return df.constant(1, case[1]) + case[2] end)
      assert.equal('invalid_argument', e.code)
      assert.matches(case[1], e.message)
      assert.matches('contract_spec.lua:%d+$', e.source)
    end
  end)
  it('alone, too large for int32, are int64 under Lua 5.4', function()
    if not has_integers then return end
    assert.equal('int64', df.constant(5000000000).dtype)
    assert.equal('int32', df.constant(2147483647).dtype)
    assert.equal('int64', df.constant{ 1, 2147483648 }.dtype)
    assert.equal('integer', math.type(df.run(df.constant(5000000000))))
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
  it('are a branch\'s value, of the other branch\'s dtype', function()
    local p = df.placeholder('bool', {})
    local a, b = df.cond(p, function() return float32(1), 2 end, function() return 3, df.int64(4) end)
    assert.equal('int64', b.dtype)
    same(df.run({ a, b }, { [p] = false }), { 3, 4 })
  end)
end)

describe('structures', function()
  before_each(function() df.reset() end)

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
  it('of fetches come back as they are', function()
    local v, x = df.Variable(7.0), float32(1) + 0
    same(df.run{ x = x, y = { v, { z = x.op } } }, { x = 1, y = { 7, { z = true } } })
    same(df.run({}), {})
  end)
  it('of xs are the structures of derivatives', function()
    local x, w = df.placeholder('float32', { 2 }), df.placeholder('float32', { 2 })
    local y, feeds = df.reduce_sum(x * x * w), { [x] = { 1, 2 }, [w] = { 3, 4 } }
    same(df.run(df.hessian(y, { x, w }), feeds), { { { 6, 0 }, { 0, 8 } }, { { 0, 0 }, { 0, 0 } } })
    same(df.run(df.jacobian(x * w, { a = x, b = w }), feeds), { a = { { 3, 0 }, { 0, 4 } }, b = { { 1, 0 }, { 0, 2 } } })
    same(df.run(df.jvp(x * w, { x, w }, { { 1, 0 }, { 0, 1 } }), feeds), { 3, 2 })
    same(df.run(df.hvp(y, { x, w }, { { 1, 0 }, { 0, 1 } }), feeds), { { 6, 4 }, { 2, 0 } })
  end)
end)

describe('while_loop', function()
  before_each(function() df.reset() end)

  it('ends after maximum_iterations trips, be it a number or an Output', function()
    local m, x = df.placeholder('int32', {}), df.placeholder('float32', {})
    local z = df.while_loop(function(v) return v:lt(100) end, function(v) return v * x end, { float32(1) }, { maximum_iterations = m })
    same(df.run(z, { [m] = 3, [x] = 2 }), 8)
    same(df.run(z, { [m] = 0, [x] = 2 }), 1)
    same(df.run(df.gradients(z, x), { [m] = 3, [x] = 2 }), 12)
    local e = failure(df.while_loop, function(v) return v:lt(9) end, function(v) return v end, { float32(1) }, { maximum_iterations = float32(3) })
    assert.matches('maximum_iterations', e.message)
  end)
  it('names op, frame, line and message of what goes wrong in it', function()
    local x = df.placeholder('float32', {})
    local i = df.while_loop(function(i) return i:lt(5) end, function(i)
      return df.cond(i:eq(3), function()
        df.assert(x:gt(100), { x }, { message = 'too small' })
        return i + 1
      end, function() return i + 1 end)
    end, { int32(0) }, { name = 'outer' })
    local e = failure(df.run, i, { [x] = 1 })
    assert.equal('invalid_argument', e.code)
    assert.matches('outer:3$', e.frame)
    assert.matches('outer:3', tostring(e))
    assert.matches('too small', e.message)
    assert.matches('contract_spec.lua:%d+$', e.source)
    assert.is_string(e.op)
    same(df.run(i, { [x] = 101 }), 5)
  end)
  it('reads and assigns a variable in program order', function()
    local v = df.Variable(1.0)
    local _, sum = df.while_loop(function(i) return i:lt(3) end, function(i, s)
      local a = v * 1
      v:assign(v + 1)
      local b = v * 1
      v:assign_sub(0.5)
      return i + 1, s + a * 100 + b * 10 + v:value()
    end, { int32(0), float32(0) })
    same(df.run(sum), 100 + 20 + 1.5 + 150 + 25 + 2 + 200 + 30 + 2.5)
    same(df.run(v), 2.5)
  end)
  it('gives the shape_invariants that would allow what a body returns, in tables as well', function()
    local function grow(invariants)
      return df.while_loop(function(i) return i:lt(2) end, function(i, s)
        return i + 1, { s[1], { h = df.concat({ s[2].h, s[2].h }, 0) } }
      end, { int32(0), { float32(1), { h = df.zeros{ 1, 2 } } } }, { shape_invariants = invariants })
    end
    local e = failure(grow)
    assert.matches('float32%[1,2%].*float32%[2,2%]', e.message)
    assert.matches('contract_spec.lua:%d+$', e.source)
    local text = e.message:match('shape_invariants = (%b{})')
    assert.equal('{[2] = {[2] = {h = {-1, 2}}}}', text)
    local _, s = grow((loadstring or load)('return ' .. text)())
    assert.are.same({ 4, 2 }, df.run(s[2].h).shape)
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
  before_each(function() df.reset() end)

  it('by an x that is in stop_gradients are partial ones', function()
    local a = df.placeholder('float32', {})
    local b = a * 2
    same(df.run(df.gradients(a + b, { a, b }, { stop_gradients = { a, b } }), { [a] = 1 }), { 1, 1 })
    same(df.run(df.gradients(b * 3, { b, a }, { stop_gradients = b, unconnected = 'zero' }), { [a] = 1 }), { 3, 0 })
  end)
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
  it('of a checkpoint have gradients, in loops and with what it captured', function()
    local x, w = df.placeholder('float32', {}), df.Variable(3.0)
    local cube = df.checkpoint(function(a) return w * a * a * a end)
    local g = df.gradients(cube(x), x)
    same(df.run({ g, df.gradients(g, x), df.gradients(g, w) }, { [x] = 2 }), { 36, 36, 12 })
    local c = df.sin(x)
    assert.is_true(df.check_gradients(df.checkpoint(function(a) return a * c end)(c * 2), x, { order = 2, feeds = { [x] = 0.5 } }))
    local layer = df.checkpoint(function(a)
      local _, z = df.while_loop(function(i) return i:lt(2) end, function(i, z) return i + 1, df.sin(z * a) end, { int32(0), w + a })
      return z
    end)
    local _, z = df.while_loop(function(i) return i:lt(2) end, function(i, z) return i + 1, layer(z) end, { int32(0), x })
    assert.is_true(df.check_gradients(z, { x, w }, { feeds = { [x] = 0.5 } }))
  end)
  it('of a checkpoint neither draw nor assign again', function()
    local x, n = df.placeholder('float32', {}), df.Variable(0.0)
    local drop = df.checkpoint(function(a) return a * df.random_uniform{} end)
    local twice = df.checkpoint(function(a) return drop(a) * n:assign_add(1) end)
    local y = twice(x)
    local r = df.run({ y, df.gradients(y, x) }, { [x] = 2 })
    near(r[1], 2 * r[2])
    same(df.run(n), 1)
    local hidden = df.checkpoint(function(a)
      return df.cond(a:gt(0), function() return a * df.random_uniform{} * n:assign_add(1) end, function() return a end)
    end)
    y = hidden(x)
    r = df.run({ y, df.gradients(y, x) }, { [x] = 2 })
    near(r[1], 2 * r[2])
    same(df.run(n), 2)
  end)
  it('that are wrong are reported by check_gradients', function()
    local x = df.placeholder('float32', { 2 })
    local bad = df.custom_gradient(function(a) return df.exp(a), function(dy) return dy * 2 end end)
    local ok, report = df.check_gradients(df.reduce_sum(df.sin(bad(x))), x, { feeds = { [x] = { 0.1, 0.2 } } })
    assert.is_false(ok)
    assert.matches('CustomGradient', report)
  end)
end)

describe('runs', function()
  before_each(function() df.reset() end)

  it('in the background: wait, done, cancel, a timeout', function()
    local loop, x = endless(), float32(1) + 1
    local h = df.start{ a = x }
    same(h:wait(), { a = 2 })
    same(h:wait(), { a = 2 })
    assert.is_true(h:done())
    h = df.start(loop)
    assert.is_false(h:done())
    same(df.run(x), 2)
    h:cancel()
    assert.equal('cancelled', failure(h.wait, h).code)
    assert.is_true(h:done())
    assert.equal('deadline_exceeded', failure(function() df.start(loop, nil, { timeout = 0.05 }):wait() end).code)
    assert.equal('deadline_exceeded', failure(df.run, loop, nil, { timeout = 0.05 }).code)
    local s = df.Session{ timeout = 0.05 }
    assert.equal('deadline_exceeded', failure(s.run, s, loop).code)
    same(s:run(x), 2)
    s:close()
    assert.equal('failed_precondition', failure(s.run, s, x).code)
  end)
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
  it('refuse what does not fit a feed, and say what would', function()
    local x, i = df.placeholder('float32', { 2 }), df.placeholder('int32', {})
    assert.matches('astype', failure(df.run, x * 2, { [x] = df.tensor({ 1, 2 }, 'float64') }).message)
    for _, v in ipairs{ 1, { 1, 2, 3 }, { 'a', 'b' } } do assert.equal('invalid_argument', failure(df.run, x * 2, { [x] = v }).code) end
    for _, v in ipairs{ 2.5, 2^40, true, 'a' } do assert.equal('invalid_argument', failure(df.run, i + 1, { [i] = v }).code) end
    assert.matches('Placeholder', failure(df.run, x * 2).message)
  end)
  it('of a fetch that is dead name the Switch', function()
    local p, inner = df.placeholder('bool', {}), nil
    df.cond(p, function()
      inner = (float32(1) + df.random_uniform{}) * 2
      return inner
    end, function() return float32(0) end)
    local e = failure(df.run, inner, { [p] = false })
    assert.equal('invalid_argument', e.code)
    assert.matches('Switch', e.message)
  end)
end)

describe('names', function()
  before_each(function() df.reset() end)

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
  before_each(function() df.reset() end)

  it('says what to write: ipairs(x), a < b, two dtypes, two graphs', function()
    local x = float32{ { 1, 2 }, { 3, 4 } }
    local rows = 0
    local e = failure(function() for _ in ipairs(x) do rows = rows + 1 end end)
    assert.matches('df.unstack%(x%)', e.message)
    assert.equal(1, rows)
    assert.matches('a:lt%(b%)', failure(function() return x < x end).message)
    assert.matches('a:lt%(b%)', failure(function() return df.Variable(1.0) >= df.Variable(2.0) end).message)
    assert.matches('cast', failure(function() return int32(1) + df.int64(1) end).message)
    local y = df.Graph():as_default(function() return float32(1) end)
    assert.matches('graph', failure(function() return x + y end).message)
  end)
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

describe('a seed', function()
  it('gives the n-th run of each new session the same numbers', function()
    local function draws()
      df.reset()
      df.set_random_seed(42)
      local u, n = df.random_uniform{ 3 }, df.truncated_normal({ 2 }, { seed = 7 })
      local s = df.Session()
      local a, b = s:run{ u, n }, s:run{ u, n }
      s:close()
      assert(a[1]:at(0) ~= b[1]:at(0))
      return { a[1]:totable(), b[1]:totable(), a[2]:totable(), b[2]:totable() }
    end
    assert.are.same(draws(), draws())
  end)
end)
