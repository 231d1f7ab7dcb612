-- df.saved: what gradients save of loops and conds, and that it is as little as can be.
local df = require 'dflow'
local support = require 'spec.support'
local near, ordered_it = support.near, support.ordered_it(it, pending)
local unpack = table.unpack or unpack

local function trips(save, n, body, ...)
  local r = { df.while_loop(function(i) return i:lt(n) end, function(i, ...) return i + 1, body(i, ...) end, { df.int32(0), ... }, { save = save }) }
  return unpack(r, 2)
end
--- The names of the ops whose values came about in this way.
local function ops(loop, how)
  local list = {}
  for _, v in ipairs(loop or {}) do if v.how == how then list[#list + 1] = v.variable and 'variable ' .. v.variable or v.op end end
  table.sort(list)
  return table.concat(list, ' ')
end

describe('df.saved', function()
  it('lists per loop what each trip saves, its line, its bytes and the op whose gradient wants it', function()
    local x, w = df.placeholder('float32', { 4, 8 }), df.Variable(df.ones { 8, 8 })
    local y = trips('keep', 5, function(_, u) return df.erf(df.matmul(u, w)) end, x)
    df.gradients(df.reduce_sum(y), w)
    local r = df.saved(y)
    assert(#r == 1 and r[1].kind == 'while_loop' and r[1].name == 'while' and r[1].save == 'keep')
    assert(r[1].line:find('saved_spec.lua:%d+'))
    assert(ops(r[1], 'saved') == 'MatMul ReadVariableOp variable 2', ops(r[1], 'saved'))      -- the variable as the trip read it
    assert(r[1].bytes == 2 * 4 * 8 * 4 + 8 * 8 * 4, tostring(r[1].bytes))
    for _, v in ipairs(r[1]) do
      if v.op == 'MatMul' then
        assert(v.dtype == 'float32' and v.shape[1] == 4 and v.shape[2] == 8 and v.bytes == 128)
        assert(v.wanted_op == 'Erf' and v.line:find('saved_spec.lua:%d+'))
      end
    end
  end)
  it('builds the gradient by the Variables and placeholders where none was built, or by those it is given', function()
    local x, c = df.placeholder('float32', {}), df.float32(2)
    local y = trips('keep', 5, function(_, u) return df.sin(u) * c end, x)
    assert(#df.saved(y) == 1)
    df.reset()
    x, c = df.placeholder('float32', {}), df.float32(2)
    y = trips('keep', 5, function(_, u) return u * c end, x)
    assert(ops(df.saved(y)[1], 'saved') == '')
    assert(ops(df.saved(y, c)[1], 'saved') == 'variable 2')
  end)
  it('finds outputs saved where the derivative is a function of the output, and of what the body returns nothing at all', function()
    local x = df.placeholder('float32', { 3 })
    local y = trips('keep', 5, function(_, u) return df.tanh(u) end, x)
    local r = df.saved(y)
    assert(ops(r[1], 'saved') == 'variable 2' and ops(r[1], 'carried') == 'Tanh' or ops(r[1], 'saved') == 'Tanh', tostring(r))
    assert(r[1].bytes == 12, tostring(r))
  end)
  it('finds cheap elementwise chains computed again, counters counted, loop constants not saved, and shapes in place of values', function()
    local x, w = df.placeholder('float32', { 3 }), df.placeholder('float32', { 3 })
    local y = trips('keep', 5, function(i, u) return df.sin(df.square(u) + w * df.cast(i, 'float32')) end, x)
    local r = df.saved(y)
    assert(ops(r[1], 'saved') == 'variable 2', tostring(r))
    assert(ops(r[1], 'computed again'):find('Square') and ops(r[1], 'counted') == 'variable 1', tostring(r))
    df.reset()
    x = df.placeholder('float32', nil)
    local _, z = df.while_loop(function(i) return i:lt(3) end, function(i, u) return i + 1, u + df.reduce_sum(df.erf(u * 2)) end,
                               { df.int32(0), x }, { shape_invariants = { [2] = false } })
    local text = tostring(df.saved(z))
    assert(text:find('the shape of'), text)
  end)
  it('finds the value saved, not the variable that it is made of, where that is of a wider dtype', function()
    local u = df.placeholder('float64', { 3 })
    local r = df.saved(trips('keep', 5, function(_, u) return df.cast(df.sin(df.cast(u, 'float32')), 'float64') end, u))
    assert(ops(r[1], 'saved') == 'Cast' and r[1].bytes == 12, tostring(r))
  end)
  it('says what save = recompute keeps and what it cannot repeat', function()
    local x = df.placeholder('float32', { 10 })
    local y = trips('recompute', 9, function(_, u) return df.erf(u) * df.random_uniform { 10 } end, x)
    local r = df.saved(y)
    assert(r[1].save == 'recompute' and r[1].kept_bytes == 40 and r[1].bytes == 40, tostring(r))
    assert(ops(r[1], 'kept') == 'variable 2' and ops(r[1], 'not repeated') == 'RandomUniform', tostring(r))
    assert(r[2].name:find('recompute$') and ops(r[2], 'saved') ~= '', tostring(r))
  end)
  it('says that on a CPU nothing need be moved for save = swap', function()
    local x = df.placeholder('float32', {})
    local y = trips('swap', 3, function(_, u) return u * u end, x)
    local r = df.saved(y)
    assert(r[1].save == 'swap' and tostring(r):find('host memory already'), tostring(r))
  end)
  it('reports conds, and says when nothing is saved', function()
    local x = df.placeholder('float32', {})
    local y = df.cond(x:gt(0), function() return df.erf(x * df.erf(x)) end, function() return x end)
    local r = df.saved(y)
    assert(r[1].kind == 'cond' and ops(r[1], 'saved'):find('Erf'), tostring(r))
    assert(tostring(df.saved(df.float32(1))) == 'No gradient saves anything of a loop or cond.')
  end)
end)

describe('the arrays of inner loops', function()
  local n, trips = 64, 30

  --- The gradient of a loop whose body does that to an [n, n] value, and how many such values lay in memory at the most.
  local function peak(body, size)
    local n = size or n
    local g = df.Graph()
    return g:as_default(function()
      local x = df.placeholder('float32', { n, n })
      local _, y = df.while_loop(function(i) return i:lt(trips) end, function(i, c) return i + 1, body(c) end, { df.int32(0), x })
      local loss = y:reduce_sum()
      local s, fetches, feeds = df.Session{ threads = 1 }, { loss, df.gradients(loss, x) }, { [x] = df.run(df.ones{ n, n }) }
      s:run(fetches, feeds)
      collectgarbage()                         -- what other tests have left
      collectgarbage()
      local before = df.stats().memory['cpu:0'].in_use
      df.reset_peak_memory()
      local got = s:run(fetches, feeds)
      local most = (s:stats().memory['cpu:0'].peak - before) / (n * n * 4)
      s:close()
      return most, got[2]:totable()[1][1], df.saved(loss, x)
    end)
  end

  ordered_it('end with their iteration where the gradient needs nothing of what they hold', function()
    local size = 300                          -- beside which frames are small
    local half = df.checkpoint(function(c) return c * 0.5 end)
    for name, body in pairs{
      ['nothing inside'] = { 1.2, function(c) return c * 1.01 end },
      map_fn = { 3.8, function(c) return c + df.map_fn(function(r) return r * 0.01 end, c) end },
      scan = { 3.8, function(c) return c + df.scan(function(a, r) return a * 0 + r * 0.01 end, c, df.zeros{ size }) end },
      checkpoint = { 3.5, function(c) return c * 0.51 + half(c) end },
      ['a map_fn in a map_fn'] = { trips / 2, function(c)
        return c + df.map_fn(function(r) return df.map_fn(function(e) return e * 0.01 end, r) end, c, { parallel_iterations = 1 })
      end },
    } do
      local most, slope = peak(body[2], size)
      assert.is_near(1.01 ^ trips, slope, 1e-3, name)
      assert.is_true(most < body[1], ('%s: %.1f at the peak of %d trips'):format(name, most, trips))
    end
  end)

  -- The program of JAX's issue 3186, which needs 2.0 matrices there with jax.checkpoint, and one more for each trip without.
  -- What the body computes does not depend on what the iteration before gave: it could run ahead.
  ordered_it('hold one iteration at a time of a sum over a large matrix, forwards and backwards, with a checkpoint and without', function()
    local size = 500
    for window, checked in pairs{ [1] = 'term', [2] = 'body', [10] = 'term', [31] = 'body', [32] = 'nothing' } do
      df.reset()
      local x, ys, z = df.placeholder('float32', {}), df.placeholder('float32', { -1 }), df.placeholder('float32', { size, size })
      local function term(y) return x * (y + z) end
      if checked == 'term' then term = df.checkpoint(term) end
      local function body(c, y) return c + term(y) end
      if checked == 'body' then body = df.checkpoint(body) end
      local loss = df.foldl(body, ys, df.zeros{ size, size }, { parallel_iterations = window }):reduce_mean()
      local s, fetches = df.Session{ threads = 1 }, { loss, df.gradients(loss, x) }
      local feeds = { [x] = 2, [ys] = df.run(df.fill({ trips }, 0.5)), [z] = df.run(df.ones{ size, size }) }
      s:run(fetches, feeds)
      collectgarbage()
      collectgarbage()
      local before = df.stats().memory['cpu:0'].in_use
      df.reset_peak_memory()
      local r = s:run(fetches, feeds)
      near(r, { trips * 3, trips * 1.5 }, { rtol = 1e-5 })
      local most = (s:stats().memory['cpu:0'].peak - before) / (size * size * 4)
      assert.is_true(most < 2.2, ('%.2f at the peak with a window of %d'):format(most, window))
      s:close()
    end
  end)

  it('are told by their size where only that is saved, and by their bytes where all is', function()
    local _, _, small = peak(function(c) return c + df.map_fn(function(r) return r * 0.01 end, c) end)
    assert.equal(4, small[1].bytes)
    assert.matches('saved, its size    while/map_fn/Exit:0 +a TensorArray', tostring(small))
    local _, _, large = peak(function(c) return df.map_fn(function(r) return df.tanh(r) end, c) end)
    assert.matches('saved +while/TensorArrayUnstack:0 +a TensorArray, 16.4 kB', tostring(large))
    assert.equal(4 * n * n + 4, large[1].bytes)
  end)

  it('give zeros of their own shapes where nothing comes to an element', function()
    local x = df.placeholder('float32', {})
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, c)
      local ta = df.TensorArray('float32', 3, { element_shape = { -1 }, clear_after_read = false })
      local _, filled = df.while_loop(function(k) return k:lt(3) end, function(k, t)
        return k + 1, t:write(k, df.fill({ k + 1 }, c))
      end, { df.int32(0), ta })
      return i + 1, c + filled:read(1):reduce_sum() + filled:concat():reduce_sum() * 0
    end, { df.int32(0), x })
    assert.same({ 27, 27 }, { df.run(y, { [x] = 1 }), df.run(df.gradients(y, x), { [x] = 1 }) })
  end)
end)

describe('the loop that undoes a loop', function()
  local core = require 'dflow.backend'

  --- The attribute of each loop of the gradient's own, as a set.
  local function attributes(output, name)
    local h, found = output.graph.handle, {}
    for node = 0, output.node do
      if core.node_type(h, node) == 'Enter' and core.node_name_of(h, node):find '^gradients' then
        found[tostring(core.node_attr(h, node, name))] = true
      end
    end
    return found
  end

  it('has as many iterations open as the loop that it undoes', function()
    for _, window in ipairs{ 1, 7, 32 } do
      df.reset()
      local x = df.placeholder('float32', {})
      local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, u) return i + 1, df.sin(u) * u end, { df.int32(0), x },
                                 { parallel_iterations = window })
      assert.same({ [tostring(window)] = true }, attributes(df.gradients(y, x), 'parallel_iterations'))
    end
  end)

  it('saves for a gradient of its own as that loop does', function()
    for _, save in ipairs{ 'keep', 'swap' } do
      df.reset()
      local x = df.placeholder('float32', {})
      local y = trips(save, 5, function(_, u) return df.sin(u) * u end, x)
      local report, seen = df.saved(df.gradients(df.gradients(y, x), x)), false
      for _, loop in ipairs(report) do
        if loop.name:find '^gradients/[^/]+$' then
          seen = true
          assert.equal(save, loop.save, tostring(report))
        end
      end
      assert.is_true(seen, tostring(report))
    end
  end)
end)
