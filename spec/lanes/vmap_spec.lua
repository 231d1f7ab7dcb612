local df = require 'dflow'
local support = require 'spec.support'

local native_it = support.native_it(it, pending)
local unpack = table.unpack or unpack

--- What a run gives, flat.
local function numbers(v)
  if type(v) == 'number' or type(v) == 'boolean' then return { v } end
  return v:list()
end

--- df.vmap(fn) gives what map_fn gives, lane by lane, and so do its gradients, by each argument that is a float, of order 1 and 2.
local function agrees(fn, inputs, opts)
  opts = opts or {}
  local xs, n = {}, nil
  for k, v in ipairs(inputs) do
    xs[k] = df.constant(v, opts.dtypes and opts.dtypes[k] or 'float32')
    n = n or xs[k].shape[1]
  end
  local function both(f)
    local lanes = { df.vmap(f)(unpack(xs)) }
    local one_by_one = df.map_fn(function(i)
      local rows = {}
      for k, x in ipairs(xs) do rows[k] = df.gather(x, i) end
      local r = { f(unpack(rows)) }
      return unpack(r)
    end, df.range(n))
    if #lanes == 1 then one_by_one = { one_by_one } end
    local a, b = df.run(lanes), df.run(one_by_one)
    for k in ipairs(lanes) do
      local want, have = numbers(b[k]), numbers(a[k])
      assert.equal(#want, #have)
      for j = 1, #want do
        local w, h = want[j], have[j]
        if w ~= h and not (w ~= w and h ~= h) then
          assert.is_true(type(w) == 'number' and math.abs(w - h) <= 1e-5 * math.max(1, math.abs(w)),
                         ('result %d, element %d: vmap has %s, map_fn %s'):format(k, j, tostring(h), tostring(w)))
        end
      end
    end
  end
  both(fn)
  if opts.no_gradient then return end
  local function derivative(f)
    return function(...)
      local args, wanted, sum = { ... }, {}, nil
      for _, x in ipairs(args) do if x.dtype == 'float32' then wanted[#wanted + 1] = x end end
      for _, y in ipairs{ f(...) } do
        if y.dtype == 'float32' then
          local s = (y * y):reduce_sum()
          sum = sum and sum + s or s
        end
      end
      local grads = df.gradients(sum, wanted, { unconnected = 'zero' })
      for k, d in ipairs(grads) do grads[k] = df.identity(d) end
      return unpack(grads)
    end
  end
  both(derivative(fn))
  if opts.second ~= false then both(derivative(derivative(fn))) end
end

describe('df.vmap', function()
  local rows = { { 1, -2, 3 }, { 4, 5, -6 }, { 0.5, 7, 8 } }

  it('compares lanes by one node, whatever the comparison', function()
    for _, name in ipairs{ 'equal', 'not_equal', 'less', 'less_equal', 'greater', 'greater_equal' } do
      df.reset()
      df.vmap(df[name])(df.placeholder('float32', { 3, 2 }), df.placeholder('float32', { 3, 2 }))
      for _, op in ipairs(df.default_graph():ops()) do assert.is_falsy(op.type:find 'Enter', name) end
    end
  end)

  it('gives what map_fn gives where no control flow is', function()
    agrees(function(x) return x * x + 1, x:reduce_sum(), x:reshape{ 3, 1 }, x:expand_dims(-1) end, { rows })
    agrees(function(x) return df.concat({ x, x * 2 }, 0), df.stack({ x, x }, { axis = 1 }), x:slice({ 1 }, { 2 }), x[1] end, { rows })
    agrees(function(x) return x:reshape{ 1, 3 }:matmul(df.float32{ { 1, 2 }, { 3, 4 }, { 5, 6 } }) end, { rows })
    agrees(function(x) return df.matmul(x:reshape{ 3, 1 }, x:reshape{ 1, 3 }), df.softmax(x), df.reduce_max(x), df.cumsum(x, { axis = 0 }) end, { rows })
    agrees(function(x) return df.tile(x, { 2 }), df.pad(x, { { 1, 2 } }), df.reverse(x, { 0 }), df.transpose(x:reshape{ 3, 1 }, { 1, 0 }) end, { rows })
    agrees(function(x) return df.where(x:gt(0), x, -x), df.clip_by_value(x, -1, 1), df.broadcast_to(x:reshape{ 3, 1 }, { 3, 2 }) end, { rows })
    agrees(function(x) return df.argmax(x, { axis = 0 }), df.shape(x), df.size(x), df.one_hot(df.cast(df.abs(x), 'int32'), 9) end, { rows }, { no_gradient = true })
  end)

  it('gathers and scatters each lane for itself', function()
    local places = { { 0, 2 }, { 1, 1 }, { 2, 0 } }
    agrees(function(x, i) return df.gather(x, i), df.gather(df.float32{ 10, 20, 30 }, i), df.gather(x:reshape{ 1, 3 }, i, 1) end, { rows, places },
           { dtypes = { nil, 'int32' } })
    agrees(function(x, i) return df.scatter_nd(i:expand_dims(1), x:slice({ 0 }, { 2 }), { 3 }), df.unsorted_segment_sum(x, df.concat({ i, { 0 } }, 0), 3) end,
           { rows, places }, { dtypes = { nil, 'int32' } })
    agrees(function(x, i) return df.slice(x, df.floordiv(i:slice({ 0 }, { 1 }), 2), { 2 }) end, { rows, places }, { dtypes = { nil, 'int32' }, second = false })
  end)

  it('runs each branch of a cond for the lanes that take it', function()
    agrees(function(x) return df.cond(x:reduce_sum():gt(0), function() return x:log() end, function() return x * 2 end) end, { { { 1, 2 }, { -3, 1 }, { 2, 2 } } })
    agrees(function(x) return df.cond(x:gt(0), function() return x + 1 end, function() return x * 3 end) end, { { 1, -2, 0, 5 } })
    -- A branch that no lane takes does not run, nor would its loop end.
    local y = df.vmap(function(x)
      return df.cond(x:lt(0), function() return (df.while_loop(function(v) return v:lt(1) end, function(v) return v - 1 end, { x })) end, function() return x end)
    end)(df.float32{ 1, 2 })
    assert.same({ 1, 2 }, df.run(y):list())
    -- Nor does what would fail there.
    local z = df.vmap(function(x) return df.cond(x:eq(0), function() return df.int32(-1) end, function() return df.floordiv(df.int32(12), x) end) end)(df.int32{ 3, 0, 4 })
    assert.same({ 4, -1, 3 }, df.run(z):list())
  end)

  it('runs a branch whose result has a shape that the run alone knows', function()
    local x, scale = df.placeholder('float32', { -1, -1 }), df.placeholder('float32')
    local function either(r) return df.cond(r:reduce_sum():gt(7), function() return r * r * scale end, function() return -r end) end
    local lanes, one_by_one = df.vmap(either)(x), df.map_fn(either, x)
    local function all(y) return { y, (df.gradients(df.reduce_sum(y * y), x)), (df.gradients(df.reduce_sum(df.gradients(df.reduce_sum(y * y), x)), x)) } end
    lanes, one_by_one = all(lanes), all(one_by_one)
    for _, some in ipairs{ { { 1, 2, 3 }, { 4, 5, 6 } }, { { 1, 2, 3 }, { 0, 1, 1 } }, { { 5, 5 } }, { { 9, 9 }, { 8, 8 }, { 1, 1 } } } do
      local feeds = { [x] = df.tensor(some, 'float32'), [scale] = 0.5 }
      local a, b = df.run(lanes, feeds), df.run(one_by_one, feeds)
      for k = 1, #a do assert.same(b[k]:totable(), a[k]:totable()) end
    end
  end)

  it('ends a while_loop lane by lane', function()
    agrees(function(x) return (df.while_loop(function(v) return v:lt(100) end, function(v) return v * v end, { x })) end, { { 2, 3, 50, 200 } })
    agrees(function(x)
      local i, y = df.while_loop(function(_, y) return y:reduce_sum():lt(50) end, function(i, y) return i + 1, y * 1.5 + 1 end, { df.int32(0), x })
      return y, df.cast(i, 'float32')
    end, { { { 1, 2 }, { 20, 40 }, { 3, 3 } } })
    agrees(function(n)
      local _, count = df.while_loop(function(v) return v:gt(1) end, function(v, c)
        return df.cond((v % 2):eq(0), function() return df.floordiv(v, 2) end, function() return 3 * v + 1 end), c + 1
      end, { n, df.int32(0) })
      return count
    end, { { 1, 2, 3, 7, 27, 97 } }, { dtypes = { 'int32' }, no_gradient = true })
  end)

  it('gives the same however lanes that are done leave the others', function()
    local function halves(n, limit)
      local v, steps = df.while_loop(function(v, c) return df.logical_and(v:gt(1), c:lt(limit)) end, function(v, c)
        return df.cond((v % 2):eq(0), function() return df.floordiv(v, 2) end, function() return 3 * v + 1 end), c + 1
      end, { n, df.int32(0) })
      return v, steps
    end
    local function grows(x) return (df.while_loop(function(v) return v:lt(100) end, function(v) return v * v + x * 0.5 end, { x })) end
    local list, limits, reals = {}, {}, {}
    for i = 1, 60 do list[i], limits[i], reals[i] = i * 7 % 61, i % 5 == 0 and 3 or 200, 1.1 + i * 0.3 end
    local n, limit, x = df.int32(list), df.int32(limits), df.float32(reals)
    local a, b = df.unpack(df.map_fn(halves, { n, limit }))
    local y = df.map_fn(grows, x)
    local dy = df.gradients(y:reduce_sum(), x)
    local want = df.run{ a, b, y, dy }
    for _, compact in ipairs{ 'auto', true, false } do
      local p, q = df.vmap(halves, { compact = compact })(n, limit)
      local z = df.vmap(grows, { compact = compact })(x)
      support.near(df.run{ p, q, z, df.gradients(z:reduce_sum(), x) }, want, { rtol = 1e-5, atol = 1e-5 })
    end
  end)

  it('gives the bits of each lane alone where a lane that is done, or never begins, would fail, and where rows are put over a table', function()
    local registry = require 'dflow.front.registry'
    local function put(op, t, at, v) return registry.op(op, { t, at:reshape{ 1, 1 }, v:reshape{ 1 } }) end
    local function fn(to, from, x)
      -- The place of a lane that is done is outside of its table.
      local last, steps, sum = df.while_loop(function(at) return at:ge(0) end, function(at, steps, sum)
        return to[at], steps + 1, sum * 0.5 + x[at]
      end, { from, df.int32(0), x[0] * 3 })
      -- A counter that all lanes share and nothing that can fail reads; tables that nothing else reads, and one that something does.
      local _, _, set, added, taken, most, least, read = df.while_loop(function(at, k) return df.logical_and(at:ge(0), k:lt(4)) end,
        function(at, k, set, added, taken, most, least, read)
          local v = x[at] * df.cast(k + 1, 'float32')
          return to[at], k + 1, put('TensorScatterUpdate', set, at, v), put('TensorScatterAdd', added, at, v), put('TensorScatterSub', taken, at, v),
            put('TensorScatterMax', most, at, v), put('TensorScatterMin', least, at, v), put('TensorScatterUpdate', read, at, read[at] * 0.5 + v)
        end, { from, df.int32(0), x, x, x, x, x, x })
      -- A shared counter that an index is made of; a loop in a loop.
      local _, _, picked = df.while_loop(function(at, k) return df.logical_and(at:ge(0), k:lt(3)) end, function(at, k, picked)
        return to[at], k + 1, picked + x[k]
      end, { from, df.int32(0), x[1] })
      local _, deep = df.while_loop(function(at) return at:ge(0) end, function(at, deep)
        local _, inner = df.while_loop(function(b, s) return df.logical_and(b:ge(0), s:lt(2)) end, function(b, s)
          return to[b], s + df.cond(x[b]:gt(0), function() return df.abs(x[b]) + 0.25 end, function() return df.float32(0.5) end)
        end, { at, x[at] })
        return to[at], deep * 0.75 + inner
      end, { from, df.float32(0) })
      return set, added, taken, most, least, read, picked, deep, sum, last, steps
    end
    local whole = { 'set', 'added', 'taken', 'most', 'least', 'read', 'picked', 'deep', 'sum', 'last', 'steps' }
    for seed = 1, tonumber(os.getenv 'DFLOW_LANES_SEEDS' or 8) do
      df.reset()
      local draw = support.random(seed)
      -- Of many lanes the loop is several, each of those that are not done.
      local lanes, size, to, from, x = (seed % 4 == 0 and 520 or 1) + math.floor(draw() * 6), 4 + math.floor(draw() * 4), {}, {}, {}
      for lane = 1, lanes do
        to[lane], x[lane] = {}, {}
        for k = 1, size do                           -- each place leads to an earlier one, or out of the table
          to[lane][k] = math.max(-1, k - 1 - 1 - math.floor(draw() * 3))
          x[lane][k] = draw() < 0.2 and -0.0 or draw() * 4 - 2
        end
        from[lane] = seed == 1 and -1 or math.floor(draw() * (size + 1)) - 1          -- of the first seed none begins
      end
      local inputs = { df.int32(to), df.int32(from), df.float32(x) }
      local ways = { df.unpack(df.map_fn(fn, inputs)) }
      local want, slope = df.run(ways), nil
      for _, compact in ipairs{ 'auto', true, false } do
        local ys = { df.vmap(fn, { compact = compact })(unpack(inputs)) }
        local total = 0
        for k = 1, 9 do total = total + df.reduce_sum(ys[k] * k) end
        for _, engine in ipairs{ 'tokens', 'native' } do
          local s = df.Session{ engine = engine }
          local found = s:run(ys)
          for k, name in ipairs(whole) do
            assert.same(support.bits(want[k]), support.bits(found[k]), ('seed %d, compact = %s, %s, %s'):format(seed, tostring(compact), engine, name))
          end
          local grad = s:run(df.gradients(total, inputs[3]))
          slope = slope or grad
          support.near(grad, slope, { rtol = 1e-5, atol = 1e-5 })
          s:close()
        end
      end
    end
  end)

  it('leaves those lanes that take longest to loops of their own, each of fewer', function()
    local list, expected = {}, {}
    for k = 1, 1000 do
      list[k] = k
      local v, steps = k, 0
      while v > 1 do v, steps = v % 2 == 0 and v / 2 or 3 * v + 1, steps + 1 end
      expected[k] = steps
    end
    local function halves(n)
      local _, steps = df.while_loop(function(v) return v:gt(1) end, function(v, c)
        return df.cond((v % 2):eq(0), function() return df.floordiv(v, 2) end, function() return 3 * v + 1 end), c + 1
      end, { n, df.int32(0) })
      return steps
    end
    local function lanes_of_loops(n)
      df.reset()
      df.vmap(halves)(df.zeros({ n }, { dtype = 'int32' }))
      local sizes = {}
      for _, op in ipairs(df.default_graph():ops()) do
        if op.type == 'Enter' and op.inputs[1].dtype == 'bool' then sizes[#sizes + 1] = op.inputs[1].shape[1] end
      end
      return sizes
    end
    assert.same({ 1000, 500, 250, 125 }, lanes_of_loops(1000))
    assert.same({ 60 }, lanes_of_loops(60))
    df.reset()
    local x = df.int32(list)
    for _, engine in ipairs{ 'tokens', 'native' } do
      local s = df.Session{ engine = engine }
      assert.same(expected, s:run(df.vmap(halves)(x)):list())
      s:close()
    end
  end)

  native_it('has no shape that changes in a loop of little work, which is native code then', function()
    local to, x = df.int32{ { -1, 0, 1 }, { -1, 2, 0 }, { -1, -1, -1 } }, df.float32{ { 1, 2, 3 }, { 4, 5, 6 }, { 7, 8, 9 } }
    local y = df.vmap(function(t, v)
      local _, _, out = df.while_loop(function(i) return i:lt(4) end, function(i, v, out)
        local _, total = df.while_loop(function(at) return at:ge(0) end, function(at, total)
          return t[at], df.tensor_scatter_add(total, at:reshape{ 1, 1 }, v[at]:reshape{ 1 })
        end, { df.int32(2), v })
        return i + 1, total * 0.5, out + total
      end, { df.int32(0), v, v })
      return out
    end)(to, x)
    local s = df.Session{ engine = 'native' }
    local found = s:run(y)
    local told = s:native()
    s:close()
    assert.matches('native: variables', told)
    assert.is_nil(told:find('tokens', 1, true), told)
    assert.same(df.Session{ engine = 'tokens' }:run(y):list(), found:list())
  end)

  it('keeps a counter that is the same in all lanes one', function()
    local x = df.float32{ 1, 2, 3 }
    local seen
    df.vmap(function(v)
      local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, y) return i + 1, y * 2 end, { df.int32(0), v })
      return y
    end)(x)
    for _, op in ipairs(df.default_graph():ops()) do
      if op.type == 'LoopCond' then seen = op.inputs[1].op.inputs[1].shape end
    end
    assert.same({}, seen)
  end)

  it('keeps an array that is the same in all lanes one', function()
    local writes = 0
    df.vmap(function(v)
      local ta = df.TensorArray('float32', 2, { clear_after_read = false }):write(0, df.float32(1)):write(1, df.float32(2))
      return ta:read(0) * v + ta:stack():reduce_sum()
    end)(df.float32{ 1, 2, 3 })
    for _, op in ipairs(df.default_graph():ops()) do
      if op.type == 'TensorArrayWrite' then
        writes = writes + 1
        assert.same({}, op.inputs[3].shape)
      end
    end
    assert.is_true(writes >= 2)
  end)

  it('computes no lane on that is done, where that would fail, of few lanes and of many', function()
    for _, times in ipairs{ 1, 700 } do
      local ends, expected = {}, {}
      for k = 1, 6 * times do
        local n, y = k % 6 + 1, 0
        for i = 0, n - 1 do y = y + math.floor(60 / (n - i)) end
        ends[k], expected[k] = n, y
      end
      local function one(n)
        local _, y = df.while_loop(function(i) return i:lt(n) end, function(i, y) return i + 1, y + df.floordiv(df.int32(60), n - i) end, { df.int32(0), df.int32(0) })
        return y
      end
      assert.same(expected, df.run(df.vmap(one)(df.int32(ends))):list())
    end
  end)

  it('computes what takes batches at once, of one example a lane or several, and of none', function()
    for count = 0, 2 do
      df.reset()
      local w, x = df.fill({ 2, 2, 1, 3 }, 0.5), df.reshape(df.range(0, 3 * count * 9):cast 'float32', { 3, count, 3, 3, 1 })
      local function one(v) return df.nn.conv2d(v, w, { strides = { 1, 1, 1, 1 }, padding = 'VALID' }) end
      local y, loops = df.vmap(one)(x), 0
      for _, op in ipairs(df.default_graph():ops()) do if op.type == 'LoopCond' then loops = loops + 1 end end
      assert.equal(count == 0 and 1 or 0, loops)
      support.near(df.run(y), df.run(df.map_fn(one, x)))
    end
  end)

  it('slices each lane at its own place, and sums to shapes that only the run knows, all lanes at once', function()
    local function loops()
      local n = 0
      for _, op in ipairs(df.default_graph():ops()) do if op.type == 'LoopCond' then n = n + 1 end end
      return n
    end
    local x, at = df.float32{ { 1, 2, 3, 4 }, { 5, 6, 7, 8 }, { 9, 10, 11, 12 } }, df.int32{ 2, 0, 1 }
    local y = df.vmap(function(row, k) return df.slice(row, df.stack{ k }, { 2 }) end)(x, at)
    local a, b = df.placeholder('float32', { 3, -1 }), df.placeholder('float32', { 3, 2, -1 })
    local g = df.vmap(function(u, v) return df.gradients(u * v, u) end)(a, b)
    assert.equal(0, loops())
    assert.same({ { 3, 4 }, { 5, 6 }, { 10, 11 } }, df.run(y):totable())
    local rows = { { { 1, 2 }, { 3, 4 } }, { { 5, 6 }, { 7, 8 } }, { { 9, 10 }, { 11, 12 } } }
    assert.same({ { 10 }, { 26 }, { 42 } }, df.run(g, { [a] = { { 1 }, { 2 }, { 3 } }, [b] = rows }):totable())
    assert.same({ { 4, 6 }, { 12, 14 }, { 20, 22 } }, df.run(g, { [a] = { { 1, 1 }, { 2, 2 }, { 3, 3 } }, [b] = rows }):totable())
  end)

  it('joins and splits rows of TensorArrays, of one length or several', function()
    agrees(function(x)
      local parts = df.TensorArray('float32', 2):split(x, { 1, 2 })
      return parts:concat() * 2, parts:read(1), parts:read(0)
    end, { rows })
    agrees(function(x)
      local ta = df.TensorArray('float32', 2, { element_shape = { -1 } })
      return ta:write(0, x):write(1, x[0]:reshape{ 1 } * x[1]):concat()
    end, { rows })
    -- In a branch that some lanes take: the gradient's arrays are made around it.
    agrees(function(x)
      local ta = df.TensorArray('float32', 2):split(x, { 1, 2 })
      return df.cond(x[0]:gt(2), function() return (ta:concat() * x):reduce_sum() end, function()
        return (df.TensorArray('float32', 2, { element_shape = { -1 } }):write(0, x):write(1, x[2]:reshape{ 1 }):concat() * 3):square():reduce_sum()
      end)
    end, { rows })
  end)

  it('reads a TensorArray from outside at places of each lane, and lets no lane write to it', function()
    local ta = df.TensorArray('float32', 3):unstack(df.float32{ { 1, 2 }, { 3, 4 }, { 5, 6 } })
    agrees(function(at, x)
      local _, sum = df.while_loop(function(k) return k:lt(at) end, function(k, sum) return k + 1, sum * x + ta:read(at - k) end,
                                   { df.int32(0), df.zeros{ 2 } })
      return ta:read(at) * x, ta:gather(df.stack{ at, 0 }), ta:stack() + x, sum
    end, { { 0, 2, 1 }, { 1, 2, 3 } }, { dtypes = { 'int32', 'float32' }, no_gradient = true })
    local at, x, own = df.int32{ 0, 1 }, df.float32{ 1, 2 }, df.TensorArray('float32', 2)
    for _, write in ipairs{ function(_, v) return own:write(0, v):read(0) end, function(i) return own:write(i, 7):read(0) end,
                            function(_, v) return own:unstack(df.stack{ v, v }):read(0) end,
                            function(i) return own:scatter(df.stack{ i }, df.ones{ 1 }):read(0) end,
                            function(_, v) return own:split(df.stack{ v, v }, { 1, 1 }):concat() end } do
      local e = support.error_of(df.vmap(write), at, x)
      assert.matches('make the array inside', e.message)
    end
  end)

  it('takes TensorArrays as arguments and as results, wherever lanes wrote', function()
    local x, at = df.float32(rows), df.int32{ 0, 2, 1 }
    local function written(v, i)
      return { same = df.TensorArray('float32', 3):unstack(v * v),
               own = df.TensorArray('float32', 3):write(i, v[0]):write((i + 1) % 3, v[1] * 2):write((i + 2) % 3, v[2]),
               shared = df.TensorArray('float32', 2):write(0, df.float32(7)):write(1, df.float32(8)) }
    end
    local r = df.vmap(written)(x, at)
    local stacked = df.map_fn(function(v, i)
      local w = written(v, i)
      return w.same:stack(), w.own:stack(), w.shared:stack()
    end, { x, at })
    for k, name in ipairs{ 'same', 'own', 'shared' } do
      local rows_of = df.transpose(r[name]:stack())
      support.near(df.run(rows_of), df.run(stacked[k]), nil, name)
      support.near(df.run(r[name]:read(1)), df.run(df.transpose(stacked[k])[1]), nil, name)
      if name ~= 'shared' then
        support.near(df.run(df.gradients(rows_of * rows_of, x)), df.run(df.gradients(stacked[k] * stacked[k], x)), nil, name)
      end
    end
    -- As an argument again, and with the lanes at another axis.
    local back = df.vmap(function(ta, v) return ta:read(0) + ta:stack():reduce_sum() * v[2] end)(r.own, x)
    support.near(df.run(back), df.run(stacked[2]:slice({ 0, 0 }, { -1, 1 }):reshape{ 3 } + df.reduce_sum(stacked[2], { axis = 1 }) * x:slice({ 0, 2 }, { -1, 1 }):reshape{ 3 }))
    local wide = df.vmap(function(v) return df.TensorArray('float32', 2):write(0, v):write(1, v * 2) end, { out_axes = 1 })(x)
    support.near(df.run(wide:read(1)), df.run(df.transpose(x * 2)))
    support.near(df.run(df.vmap(function(ta) return ta:read(1) end, { in_axes = -1 })(wide)), df.run(x * 2))
    -- What a lane did not write is an error where it is read.
    local some = df.vmap(function(v, i) return df.TensorArray('float32', 3):write(i, v[0]) end)(x, at)
    assert.matches('lane %d is read but was never written', support.message_of(df.run, some:stack()))
  end)

  it('takes TensorArrays, map_fn, scan and recurrent loops', function()
    agrees(function(x) return df.map_fn(function(v) return v * v end, x), df.scan(function(a, v) return a * 0.5 + v end, x) end, { rows })
    agrees(function(x)
      local _, t = df.while_loop(function(i) return i:lt(3) end, function(i, t) return i + 1, t:write(2 - i, x[i] * 2) end, { df.int32(0), df.TensorArray('float32', 3) })
      return t:stack(), t:read(1), t:gather{ 2, 0 }
    end, { rows })
    -- Lanes at different places.
    agrees(function(x, at)
      local ta = df.TensorArray('float32', 3, { element_shape = {} }):write(at, x[0]):write((at + 1) % 3, x[1]):write((at + 2) % 3, x[2])
      return ta:stack(), ta:read(at)
    end, { rows, { 0, 1, 2 } }, { dtypes = { nil, 'int32' }, no_gradient = true })
    -- A loop that ends lane by lane and writes as it goes.
    agrees(function(x, n)
      local i, t = df.while_loop(function(i) return i:lt(n) end, function(i, t) return i + 1, t:write(i, x[i]) end, { df.int32(0), df.TensorArray('float32', 3) })
      return t:read(0), df.cast(i, 'float32')
    end, { rows, { 1, 2, 3 } }, { dtypes = { nil, 'int32' }, second = false })
  end)

  it('nests', function()
    local x = df.float32(rows)
    local w = df.float32{ 1, 2 }
    local y = df.vmap(function(a) return df.vmap(function(b) return a * b end)(w), df.vmap(function(e) return e + a:reduce_sum() end)(a) end)
    local outer, sums = y(x)
    assert.same({ 3, 2, 3 }, outer.shape)
    assert.same({ 1, -2, 3, 2, -4, 6, 4, 5, -6, 8, 10, -12, 0.5, 7, 8, 1, 14, 16 }, df.run(outer):list())
    assert.same({ 3, 0, 5, 7, 8, -3, 16, 22.5, 23.5 }, df.run(sums):list())
    local both = df.vmap(function(a)
      return df.vmap(function(b)
        return df.cond(b:gt(a:reduce_sum()), function() return b end, function()
          return (df.while_loop(function(v) return v:lt(20) end, function(v) return v * 2 + 1 end, { df.abs(b) }))
        end)
      end)(a)
    end)(x)
    local want = {}
    for _, row in ipairs(rows) do
      local sum = row[1] + row[2] + row[3]
      for _, b in ipairs(row) do
        local v = b
        if not (b > sum) then
          v = math.abs(b)
          while v < 20 do v = v * 2 + 1 end
        end
        want[#want + 1] = v
      end
    end
    assert.same(want, df.run(both):list())
  end)

  it('has a gradient for each lane of what all share', function()
    local w = df.Variable(df.float32{ 1, 2, 3 })
    local x = df.float32(rows)
    local straight = df.vmap(function(a) return df.gradients(((w * a):reduce_sum()) ^ 2, w) end)(x)
    local looped = df.vmap(function(a)
      local _, y = df.while_loop(function(i) return i:lt(2) end, function(i, y) return i + 1, y * w end, { df.int32(0), a })
      return df.gradients(y:reduce_sum(), w)
    end)(x)
    local one, two = {}, {}
    for _, r in ipairs(rows) do
      local dot = r[1] + 2 * r[2] + 3 * r[3]
      for k = 1, 3 do
        one[#one + 1] = 2 * dot * r[k]
        two[#two + 1] = 2 * k * r[k]
      end
    end
    support.near(df.run(straight), df.tensor(one, 'float32', { 3, 3 }))
    support.near(df.run(looped), df.tensor(two, 'float32', { 3, 3 }))
    -- And vmap itself has one.
    support.near(df.run(df.gradients(df.vmap(function(a) return (df.while_loop(function(v) return v:lt(100) end, function(v) return v * v end, { a })) end)(
      df.identity(x):reshape{ 9 }:abs() + 1.5), x)), df.run(df.gradients(df.map_fn(function(a)
      return (df.while_loop(function(v) return v:lt(100) end, function(v) return v * v end, { a }))
    end, df.identity(x):reshape{ 9 }:abs() + 1.5), x)))
  end)

  it('draws for each lane apart', function()
    local r = df.run(df.vmap(function() return df.random_uniform{ 2 } end, { size = 50, in_axes = {} })())
    local seen, list = {}, r:list()
    assert.equal(100, #list)
    for _, v in ipairs(list) do seen[v] = true end
    local n = 0
    for _ in pairs(seen) do n = n + 1 end
    assert.is_true(n > 95)
  end)

  it('calls functions of a graph', function()
    local factorial
    factorial = df.func('factorial', { 'int32' }, function(n)
      return df.cond(n:le(1), function() return df.int32(1) end, function() return n * factorial(n - 1) end)
    end, { returns = { 'int32' } })
    assert.same({ 1, 6, 120 }, df.run(df.vmap(factorial)(df.int32{ 1, 3, 5 })):list())
  end)

  it('takes axes, structures and what all lanes share', function()
    local x = df.float32(rows)
    local y = df.vmap(function(p) return { twice = p.a * 2, sum = p.a + p.b } end, { in_axes = { { a = 1, b = false } }, out_axes = { twice = 1, sum = -1 } })
    local r = y{ a = x, b = df.float32(10) }
    assert.same(df.run(x * 2):list(), df.run(r.twice):list())
    assert.same(df.run(x + 10):list(), df.run(r.sum):list())
    assert.same({ 5, 5 }, df.run(df.vmap(function() return df.float32(5) end, { size = 2, in_axes = {} })()):list())
    local p = df.placeholder('float32', { -1, 2 })
    local z = df.vmap(function(v) return df.cond(v:reduce_sum():gt(0), function() return v * v end, function() return v end) end)(p)
    for n = 0, 3 do
      local list = {}
      for k = 1, n do list[k] = { k, k - 3 } end
      local got = df.run(z, { [p] = df.tensor(list, 'float32', { n, 2 }) })
      assert.same({ n, 2 }, got.shape)
    end
  end)

  it('computes random programs, and their gradients, as each lane by itself; values are the same to the bit however lanes are batched', function()
    local programs = require 'spec.random_program'
    for seed = 1, tonumber(os.getenv 'DFLOW_LANES_SEEDS' or 25) do
      df.reset()
      local program, draw, at, xs = programs.make(seed, 2), support.random(seed), { {}, {}, {} }, {}
      for lane = 1, 4 do for k = 1, 3 do at[k][lane] = draw() * 4 - 2 end end
      for k = 1, 3 do xs[k] = df.constant(at[k], 'float64') end
      local function fn(p, q, w)
        local y = programs.build(df, program, { p, q, w })
        return y + 0, df.unpack(df.gradients(y, { p, q, w }, { unconnected = 'zero' }))      -- of 0 and -0 either is right
      end
      local ways = { df.vmap(fn, { compact = 'auto' }), df.vmap(fn, { compact = true }), df.vmap(fn, { compact = false }),
                     function(...) return df.unpack(df.map_fn(fn, { ... })) end }
      local out
      for i, batched in ipairs{ false, true, false, true } do
        local s = df.Session{ batch = batched }
        local found = s:run{ ways[i](unpack(xs)) }
        s:close()
        out = out or found
        assert.same(support.bits(out[1]), support.bits(found[1]), ('seed %d, way %d'):format(seed, i))
        for k = 2, 4 do support.near(found[k], out[k], { rtol = 1e-9, atol = 1e-9 }) end          -- terms come in another order
      end
      for lane = 1, 4 do
        local value, derivatives, _, tie = programs.eval(program, { at[1][lane], at[2][lane], at[3][lane] })
        for k, want in ipairs{ value, derivatives[1], derivatives[2], derivatives[3] } do
          local have = out[k]:list()[lane]
          assert.is_true(tie or math.abs(have - want) <= 1e-8 * math.max(1, math.abs(want)),
                         ('seed %d, lane %d, part %d: %.10g, %.10g is right'):format(seed, lane, k, have, want))
        end
      end
    end
  end)

  it('is what map_fn with batch does', function()
    local x = df.float32(rows)
    local function fn(v) return df.cond(v:reduce_sum():gt(3), function() return v * 2 end, function() return v:exp() end) end
    support.near(df.run(df.map_fn(fn, x, { batch = true })), df.run(df.map_fn(fn, x)))
    local a, b = df.unpack(df.map_fn(function(p, q) return p + q, p * q end, { x, x * 2 }, { batch = true }))
    support.near(df.run(a), df.run(x * 3))
    support.near(df.run(b), df.run(x * x * 2))
    support.near(df.run(df.map_fn(function(v) return { s = v.a + v.b } end, { a = x, b = x }, { batch = true }).s), df.run(x * 2))
  end)

  it('is what map_fn with batch does not do where lanes may have other shapes: then rows are called', function()
    local x, n = df.float32(rows), df.int32{ 1, 3, 2 }
    local ways = {
      function(v, k) return df.boolean_mask(v, v:gt(0)):reduce_sum() * df.cast(k, 'float32') end,
      function(v, k) return v:slice({ 0 }, df.stack{ k }):reduce_sum() end,
      function(v, k) return (df.range(k):cast 'float32' * v[0]):reduce_sum() end,
      function(v, k) return df.TensorArray('float32', 2, { element_shape = { -1 } }):split(v, df.stack{ k, 3 - k }):read(0):reduce_sum() end,
      function(v, k) return df.cond(k:gt(1), function() return df.unique(v:slice({ 0 }, df.stack{ k })):reduce_sum() end, function() return v[0] end) end,
    }
    for i, fn in ipairs(ways) do
      local one, batched = df.map_fn(fn, { x, n }), df.map_fn(fn, { x, n }, { batch = true })
      support.near(df.run(batched), df.run(one), nil, 'way ' .. i)
    end
  end)

  it('gives nodes and errors the lines of the function, also after a function that failed', function()
    local function line() return debug.getinfo(2, 'l').currentline end
    local first = line()
    local function fn(v, n)
      local _, y = df.while_loop(function(i) return i:lt(n) end, function(i, y)
        return i + 1, df.cond(y:gt(5), function() return y - v end, function() return y + v end)
      end, { df.int32(0), v })
      return df.gradients(y * y, v), df.floordiv(df.int32(6), n)
    end
    local last = line()
    local nodes = #df.default_graph():ops()
    local x, n = df.float32{ 1, 2, 3 }, df.int32{ 2, 0, 3 }
    local given = #df.default_graph():ops()
    local _, quotient = df.vmap(fn)(x, n)
    local ops = df.default_graph():ops()
    local inside = 0
    for k = given + 1, #ops do
      local at = tonumber(ops[k].source:match ':(%d+)$')
      if at > first and at < last then inside = inside + 1 end
    end
    assert.is_true(inside > 0.9 * (#ops - given) and given > nodes, ('%d of %d nodes'):format(inside, #ops - given))
    local e = support.error_of(df.run, quotient)
    assert.equal(last - 2, tonumber(e.source:match ':(%d+)$'))
    local at
    e = support.error_of(df.vmap(function(v, k)
      local ta = df.TensorArray('float32', k)
      at = line() - 1
      return ta:write(0, v):read(0)
    end), x, n)
    assert.equal(at, tonumber(e.source:match ':(%d+)$'))
    assert.equal(line(), tonumber((x + 1).op.source:match ':(%d+)$'))
    local bad = df.custom_gradient(function(v)
      return v * v, function(dy) return df.TensorArray('float32', df.cast(v, 'int32')):write(0, dy):read(0) end
    end)
    assert.matches('differs by lane', support.message_of(df.gradients, df.vmap(function(v) return bad(v) end)(x), x))
    assert.equal(line(), tonumber((x + 1).op.source:match ':(%d+)$'))
  end)

  it('says what it cannot do', function()
    local x = df.float32(rows)
    local function fails(text, fn)
      local e = support.error_of(fn)
      assert.equal('invalid_argument', e.code)
      assert.is_truthy(e.message:find(text, 1, true), e.message)
    end
    fails('argument 2 has 2 lanes along axis 0, but argument 1 has 3', function() df.vmap(function(a, b) return a + b end)(x, df.float32{ 1, 2 }) end)
    fails('no argument has lanes', function() df.vmap(function(a) return a end, { in_axes = { false } })(x) end)
    fails('argument 1 is 2, but', function() df.vmap(function(a) return a end, { in_axes = 2 })(x) end)
    fails('returns nothing', function() df.vmap(function() end)(x) end)
    fails('in_axes has 2 entries', function() df.vmap(function(a) return a end, { in_axes = { 0, 0 } })(x) end)
    fails('vmap takes a function', function() df.vmap(3) end)
    fails('a whole number is expected', function() df.vmap(function(a) return a end, { out_axes = false })(x) end)
    local v = df.Variable(df.float32(0))
    fails('effect', function() df.vmap(function(a) return df.cond(a:reduce_sum():gt(0), function() return v:assign(1) end, function() return v:assign(2) end) end)(x) end)
    fails('effect', function() df.vmap(function(a)
      v:assign(a:reduce_sum())
      return a
    end)(x) end)
  end)

  it('refuses a gradient through control flow that was built outside, which no lane has for itself', function()
    local x, v = df.float32{ 1, 2, 3 }, df.Variable{ 1.0, 2.0 }
    local function branch(a) return df.cond(a:reduce_sum():gt(0), function() return df.sin(a) * a end, function() return a * a end) end
    local _, turned = df.while_loop(function(i) return i:lt(3) end, function(i, a) return i + 1, a * x end, { df.int32(0), x })
    for _, case in ipairs{ { branch(x), x }, { turned, x }, { branch(v * 1), v } } do
      local y, by = case[1], case[2]
      for _, fn in ipairs{ function(i) return df.gradients(y, by, { grad_ys = y * i }) end, function(i) return df.gradients(y * i, by) end } do
        local e = support.error_of(df.vmap(fn), df.float32{ 1, 2 })
        assert.equal('unimplemented', e.code)
        assert.is_truthy(e.message:find('outside of the function: build it inside', 1, true), e.message)
      end
    end
    support.near(df.run(df.vmap(function(i) return df.gradients(branch(x) * i, x) end)(df.float32{ 1, 2 })),
                 df.run(df.stack{ df.gradients(branch(x), x), df.gradients(branch(x), x) * 2 }))
  end)

  it('refuses what an array that grows gives, where lanes write to different places', function()
    local function fill(n)
      local _, ta = df.while_loop(function(i) return i:lt(n) end, function(i, ta)
        return i + 1, ta:write(i + n * 0, df.cast(i, 'float32'))
      end, { n * 0, df.TensorArray('float32', 1, { dynamic_size = true, element_shape = {} }) })
      return ta
    end
    for _, fn in ipairs{ function(n) return fill(n):stack() end, function(n) return fill(n):size() end, fill } do
      assert.equal('unimplemented', support.error_of(df.vmap(fn), df.int32{ 2, 1 }).code)
    end
  end)
end)
