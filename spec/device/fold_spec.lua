--- Before a graph is cut: what only constants go into is computed when the plan is made.
local df = require 'dflow'
local ordered_it = require('spec.support').ordered_it(it, pending)

local function on(spec, fn) return df.device(spec, fn) end
local function session(options)
  options = options or {}
  options.devices = { 'cpu:0', 'sim:0', 'sim:1' }
  return df.Session(options)
end

--- The nodes that a session folds for these fetches, by name.
local function folded(s, fetches)
  local names = {}
  for _, p in ipairs(s:placement(fetches)) do
    if p.why:match 'only constants go into it' then names[p.node] = p.device end
  end
  return names
end

--- What comes of build(on) where no device is asked for, so that nothing is folded: what is right.
local function unfolded(build)
  df.reset()
  local fetches, feeds = build(function(_, fn) return fn() end)
  local s = df.Session{ devices = { 'cpu:0' }, simplify = false }
  assert.same({}, folded(s, fetches))
  local r = s:run(fetches, feeds)
  s:close()
  df.reset()
  return r
end

local function bits(v) return type(v) == 'number' and v or v:totable() end

describe('what only constants go into', function()
  it('is told of as the node of the graph that it stands for, each of them', function()
    local q = df.placeholder('int32', {}, 'q')
    local parts = on('sim:0', function() return { df.matmul(df.int32{ { 2 } }, { { 0 } }, { name = 'first' }), df.matmul(df.int32{ { 3 } }, { { 0 } }, { name = 'second' }) } end)
    local s = session()
    for number, name in ipairs{ 'first', 'second' } do
      for device, told in pairs{ ['cpu:0'] = 'q = 7, ' .. name .. ' %(from sim:0%)', ['sim:0'] = 'q %(from cpu:0%) = 7, ' .. name } do
        local bad = on(device, function() return df.floordiv(q, parts[number]) end)
        local h = s:start({ bad, parts[1], parts[2] }, { [q] = 7 }, { remains = true })
        assert.is_false((pcall(h.wait, h)))
        assert.matches('FloorDiv%(' .. told .. ' = %[%[0%]%] int32%[1,1%]%)', h:why(bad))
      end
    end
    s:close()
  end)

  ordered_it('is computed when the plan is made, chains of it too, to the bits of a run', function()
    local function build(at)
      local x = df.placeholder('float32', { 2, 2 })
      local w = at('sim:0', function()
        return df.constant{ { 0.1, 2.0 }, { 3, 4 } }:transpose():matmul(df.constant{ { 1, 0.5 }, { 0.25, 2 } }):tanh()
      end)
      local n = at('sim:1', function() return (df.constant(3.1) * df.constant(0.7)):exp() end)
      return { at('sim:1', function() return x:matmul(w) end), w, n }, { [x] = { { 1, 2 }, { 3, 4 } } }
    end
    local expected = unfolded(build)
    local fetches, feeds = build(on)
    local s, y, w, n = session(), fetches[1], fetches[2], fetches[3]
    local names = folded(s, fetches)
    assert.equal('sim:0', names[w.op.name])
    assert.equal('sim:1', names[n.op.name])
    assert.is_nil(names[y.op.name])
    local h = s:start(fetches, feeds)
    local r = h:wait()
    for i = 1, 3 do assert.same(bits(expected[i]), bits(r[i])) end
    assert.equal(1, h:stats().transfers['sim:0 -> sim:1'].messages)
    assert.is_true(s:run(w.op))
    s:close()
  end)

  it('takes denormals for zero, as a run does', function()
    local fetches = on('sim:1', function()
      local tiny = df.constant({ 1e-40, 1, -1e-39 }, 'float32')
      return { df.bitcast(tiny * df.constant({ 2, 2, 2 }, 'float32'), { type = 'int32' }), df.not_equal(tiny, 0), df.where(tiny) }
    end)
    assert.same({ 1, 1 }, fetches[3].shape)                    -- what is known when it is built, too
    for _, devices in ipairs{ { 'cpu:0' }, { 'cpu:0', 'sim:1' } } do
      local s = df.Session{ devices = devices, soft_placement = true }
      local r = s:run(fetches)
      assert.same({ { 0, 0x40000000, -0x80000000 }, { false, true, false }, { { 1 } } }, { bits(r[1]), bits(r[2]), bits(r[3]) })
      s:close()
    end
  end)

  ordered_it('leaves fewer nodes to run, in a loop in every iteration', function()
    local function program(at, of_constants)
      local x = df.placeholder('float32', {})
      local _, y = df.while_loop(function(i) return i:lt(10) end, function(i, y)
        local c = at('sim:0', function() return (df.constant(3.0) * df.constant(4.0)):sqrt() end)
        return i + 1, at('sim:0', function() return y + (of_constants and c or c * x) end)
      end, { df.int32(0), x })
      return y, { [x] = 1 }
    end
    local function nodes(of_constants)
      local expected = unfolded(function(at) return program(at, of_constants) end)
      local y, feeds = program(on, of_constants)
      local s = session()
      local h = s:start(y, feeds)
      assert.equal(expected, h:wait())
      local n, names = h:stats().nodes_run, folded(s, y)
      s:close()
      return n, names
    end
    local n, names = nodes(true)
    assert.equal('sim:0', names['while/Mul'])
    assert.equal('sim:0', names['while/Sqrt'])
    assert.is_true(nodes(false) >= n + 10)
  end)

  ordered_it('is dead in a branch that is not taken, and never folded across contexts', function()
    local inner, outer
    local function build(at, taken)
      local p, a, b = df.placeholder('bool', {}), df.constant(2.0), df.constant(5.0)
      return df.cond(p, function()
        return at('sim:0', function()
          inner = df.constant(1.5):sin()
          outer = a * b                           -- captured: it belongs to the branch, its inputs do not
          return inner + outer
        end)
      end, function() return df.constant(0.25):cos() end), { [p] = taken }
    end
    for _, taken in ipairs{ true, false } do
      local expected = unfolded(function(at) return build(at, taken) end)
      local y, feeds = build(on, taken)
      local s = session()
      assert.equal(expected, s:run(y, feeds))
      local names = folded(s, y)
      assert.is_truthy(names[inner.op.name])
      assert.is_nil(names[outer.op.name])
      s:close()
    end
  end)

  it('stays where it has state, is fed, waits, fails, is large or crosses to where it was asked to run', function()
    local v = df.Variable(1.0)
    local c, zero = df.constant{ 1.0, 2.0 }, df.constant({ 0 }, 'int32')
    local sum, random, waits, fails, large, mid = on('sim:0', function()
      return c + c, df.random_uniform(df.constant({ 2 }, 'int32'), { seed = 1 }),
        df.control_dependencies({ v:assign_add(1.0) }, function() return c * c end), zero:floordiv(zero),
        df.fill(df.constant({ 64, 128 }, 'int32'), df.constant(1.0)), c - c
    end)
    local s = session()
    local names = folded(s, { sum, random, waits, fails, large })
    assert.is_truthy(names[sum.op.name])
    local elsewhere = on('sim:1', function() return sum + 1 end)
    assert.is_nil(folded(s, elsewhere)[elsewhere.op.name])
    assert.same({ 3, 5 }, s:run(elsewhere):totable())
    for _, x in ipairs{ random, waits, fails, large } do assert.is_nil(names[x.op.name]) end
    s:run{ waits, random }
    assert.equal(2, s:run(v))
    assert.same({ 20, 30 }, s:run(sum * 1, { [sum] = { 20, 30 } }):totable())
    assert.same({ 1, 1 }, s:run(mid:exp()):totable())
    assert.same({ 2, 2 }, s:run(on('sim:0', function() return mid + 1 end), { [mid] = { 1, 1 } }):totable())
    assert.has_error(function() s:run(fails) end)
    s:close()
  end)

  it('is looked at as it is: it has its value, no token, and says so', function()
    local x = df.placeholder('float32', {})
    local c = on('sim:0', function() return df.constant(3.0) * df.constant(4.0) end)
    local y = on('sim:1', function() return x + c end)
    local s = session()
    local h = s:start(y, { [x] = 1 }, { paused = true })
    assert.equal(12, h:value(c))
    assert.matches('is 12', h:why(c))
    local ok, e = pcall(h.break_at, h, { op = c.op.name })
    assert.is_false(ok)
    assert.matches('`Mul` has no token in this run: only constants go into it', tostring(e))
    h:resume()
    assert.equal(13, h:wait())
    s:close()
  end)

  ordered_it('does not change gradients, nor imported graphs', function()
    local x, y
    local function build(at)
      x = df.placeholder('float32', { 2 })
      y = at('sim:0', function()
        return (x * (df.constant{ 0.3, 0.7 }:exp() + df.constant{ 1.0, 2.0 })):tanh():reduce_sum()
      end)
      return { y, df.gradients(y, x) }, { [x] = { 0.1, 0.2 } }
    end
    local expected = unfolded(build)
    local fetches, feeds = build(on)
    local s = session()
    local r = s:run(fetches, feeds)
    for i = 1, 2 do assert.same(bits(expected[i]), bits(r[i])) end
    s:close()
    local path = os.tmpname()
    df.export_graph_def(path, { outputs = { y } })
    local again = df.import_graph_def(path)
    os.remove(path)
    s = session{ graph = again }
    assert.equal(expected[1], s:run(again:output(y.name), { [again:output(x.name)] = { 0.1, 0.2 } }))
    assert.is_truthy(next(folded(s, again:output(y.name))))
    s:close()
  end)
end)
