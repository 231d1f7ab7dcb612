--- Copies of graphs, and graphs unrolled as a run of them went: what df.check_gradients stands on.
local df = require 'dflow'
local core = require 'dflow.backend'
local graph = require 'dflow.front.graph'
local copy = require 'dflow.check.copy'
local support = require 'spec.support'
local near, message_of = support.near, support.message_of

--- Runs y in a copy, records the run, and calls fn(unrolled y, session, value) there.
local function unrolled(y, feeds, fn, most)
  local g = y.graph
  return copy.within(g, {}, { y }, function()
    core.graph_prepare(g.handle)
    local s = df.Session{ graph = g }
    core.graph_record(g.handle, true)
    local value = s:run(y, feeds)
    core.graph_record(g.handle, false)
    local out = core.graph_unroll(g.handle, { y.node, y.index }, {}, most or 10000)
    return fn(graph.output(g, out[1], out[2]), s, value)
  end)
end

local function types_of(o)
  local seen = {}
  for _, node in ipairs(core.graph_needs(o.graph.handle, { o.node, o.index })) do
    local kind = core.node_type(o.graph.handle, node)
    seen[kind] = (seen[kind] or 0) + 1
  end
  return seen
end

describe('a copied graph', function()
  it('has the nodes of the first under the same names, and grows alone', function()
    local x = df.constant({ 1.0, 2.0 }, 'float64')
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, v) return i + 1, v * x end, { df.int32(0), x }, { name = 'grow' })
    local g, size = y.graph, y.graph:size()
    copy.within(g, {}, { y }, function()
      assert.equal(size, g:size())
      assert.equal(y.node, g:op('grow/Exit_1').node)
      near(df.run(df.square(y)), { 1, 256 })
      near(df.run(df.gradients(y, x)), { 4, 32 })
      assert.is_true(g:size() > size)
    end)
    assert.equal(size, g:size())
    near(df.run(y), { 1, 16 })
  end)

  it('computes in float64 when it is made so, unless an op cannot', function()
    local x = df.placeholder('float32', { 2 })
    local y = df.reduce_sum(df.cast(x, 'float32') * 0.1)
    copy.within(y.graph, { wide = true }, { y }, function()
      assert.equal('float64', y.dtype)
      near(df.run(y, copy.feeds{ [x] = df.tensor({ 1, 2 }, 'float32') }), 0.3, { rtol = 1e-7 })
    end)
    assert.equal('float32', y.dtype)
    local registry = require 'dflow.front.registry'
    local a, w, p = df.zeros{ 1, 2 }, df.zeros{ 4, 8 }, df.zeros{ 2 }
    local h = select(7, registry.op('LSTMBlockCell', { a, a, a, w, p, p, p, df.zeros{ 8 } }))
    assert.matches('LSTMBlockCell%) does not compute in float64', message_of(copy.within, h.graph, { wide = true }, { h }, function() end))
  end)

  it('prints nothing', function()
    local shell = require 'spec.shell'
    local r = shell.run(shell.dflow .. [[ -e 'local x = df.print(df.float64(2)) print(df.check_gradients(x * x, x))']])
    assert.equal('true\n', r.out)
    assert.equal('', r.err)
  end)
end)

describe('an unrolled graph', function()
  it('has the value of the run without loops and conds', function()
    local p, n = df.placeholder('float64', {}), df.placeholder('int32', {})
    local _, y = df.while_loop(function(i) return i:lt(n) end, function(i, v)
      local _, inner = df.while_loop(function(j) return j:lt(i) end, function(j, u) return j + 1, u * p end, { df.int32(0), v })
      return i + 1, df.cond(inner:gt(2), function() return inner - 1 end, function() return df.sin(inner) + p end)
    end, { df.int32(0), p })
    for trips = 0, 5 do
      unrolled(y, { [p] = 1.2, [n] = trips }, function(u, s, value)
        near(s:run(u, { [p] = 1.2 }), value, { rtol = 1e-14 })
        local kinds = types_of(u)
        for _, kind in ipairs{ 'Enter', 'Exit', 'Switch', 'Merge', 'NextIteration', 'LoopCond' } do assert.is_nil(kinds[kind]) end
        if trips == 5 then
          assert.equal(10, (kinds.Mul or 0))                       -- 0 + 1 + 2 + 3 + 4 inner trips
          assert.matches('^while:%d+', core.node_iteration(u.graph.handle, u.node))
        end
      end)
    end
  end)

  it('has each of several outputs in its place', function()
    local x = df.placeholder('float64', {})
    local i, y, z = df.while_loop(function(i) return i:lt(3) end, function(i, a, b) return i + 1, a * x, b + a end, { df.int32(0), x, df.float64(0) })
    local ys, flat = { z, y, x * 5, df.cast(i, 'float64') }, {}
    copy.within(x.graph, {}, ys, function()
      local g = x.graph
      core.graph_prepare(g.handle)
      local s = df.Session{ graph = g }
      core.graph_record(g.handle, true)
      local want = s:run(ys, { [x] = 2 })
      core.graph_record(g.handle, false)
      for _, v in ipairs(ys) do flat[#flat + 1], flat[#flat + 2] = v.node, v.index end
      local out, found = core.graph_unroll(g.handle, flat, { x.node, x.index }, 10000), {}
      for k = 1, #ys do found[k] = graph.output(g, out[2 * k - 1], out[2 * k]) end
      near(want, { 14, 16, 10, 3 })
      near(s:run(found, { [x] = 2 }), { 14, 16, 10, 3 })
      assert.is_nil(types_of(found[1]).Merge)
    end)
  end)

  it('keeps assignments in order', function()
    local v = df.Variable(1, { dtype = 'float64' })
    local _, y = df.while_loop(function(i) return i:lt(4) end, function(i, a) return i + 1, a + v:assign_add(a) end, { df.int32(0), df.float64(1) })
    unrolled(y, {}, function(u, s, value)
      s:init()
      near(s:run(u), value)
    end)
  end)

  it('has constants for what was drawn', function()
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, a) return i + 1, a + df.random_uniform({ 2 }) end,
                               { df.int32(0), df.zeros{ 2 } })
    unrolled(y + df.random_normal{ 2 }, {}, function(u, s, value)
      near(s:run(u), value)
      near(s:run(u), value)
    end)
  end)

  it('is made of a recorded run only, and no larger than asked for', function()
    local n = df.placeholder('int32', {})
    local _, y = df.while_loop(function(i) return i:lt(n) end, function(i, v) return i + 1, df.sin(v) end, { df.int32(0), df.float64(1) })
    assert.matches('too large', message_of(unrolled, y, { [n] = 100 }, function() end, 20))
    copy.within(y.graph, {}, { y }, function()
      local g = y.graph.handle
      core.graph_prepare(g)
      assert.matches('no run recorded', message_of(core.graph_unroll, g, { y.node, y.index }, {}, 100))
    end)
  end)
end)
