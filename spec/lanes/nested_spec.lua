--- What df.vmap computes does not depend on what is built of one lane (conds, loops, arrays, functions, another vmap), on which derivative is
-- asked for in it, nor on where it is called: each is what the rows by themselves give.
local df = require 'dflow'
local support = require 'spec.support'

local D = 'float64'
local function float(v) return df.constant(v, D) end

local function to_two(x)
  local _, y = df.while_loop(function(_, y) return y:reduce_sum():abs():lt(20) end, function(i, y) return i + 1, y * x + y end, { df.int32(0), x + 0.5 },
                             { maximum_iterations = 4 })
  return y
end

--- Functions of float64[2] that make each what they need: a graph is begun anew for each.
local functions = {
  { 'straight code', function() return function(x) return x * x * x end end },
  { 'a cond', function()
    return function(x) return df.cond(x:reduce_sum():gt(0), function() return x * x * x end, function() return x:sin() * x end) end
  end },
  { 'a loop', function() return to_two end },
  { 'a loop that recomputes', function()
    return function(x)
      local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, y) return i + 1, y * x:tanh() end, { df.int32(0), x }, { save = 'recompute' })
      return y
    end
  end },
  { 'an array', function()
    return function(x)
      local rows = df.TensorArray(D, 2):unstack(x)
      local _, out = df.while_loop(function(i) return i:lt(2) end, function(i, out) return i + 1, out:write(1 - i, rows:read(i) * rows:read(0)) end,
                                   { df.int32(0), df.TensorArray(D, 2) })
      return out:stack() * x
    end
  end },
  { 'a function that reads a variable', function()
    local w = df.Variable(2.0, { dtype = D })
    return df.func('cube', { D }, function(x) return x * x * x * w end)
  end },
  { 'a function that calls itself', function()
    local power
    power = df.func('power', { D, 'int32' }, function(x, n)
      return df.cond(n:le(0), function() return x end, function() return x * power(x, n - 1) end)
    end, { returns = { D } })
    return function(x) return power(x, 2) end
  end },
  { 'a checkpoint', function() return df.checkpoint(function(x) return x * x * x end) end },
  { 'a custom gradient', function()
    return df.custom_gradient(function(x) return x * x * x, function(dy) return dy * 3 * x * x end end)
  end },
  { 'custom gradients of each other, of values in between, in a loop and a cond', function()
    local sine, cosine
    sine = df.custom_gradient(function(x) return x:sin(), function(dy) return dy * cosine(x) * 3 end end)
    cosine = df.custom_gradient(function(x) local s = x + 1 return (s - 1):cos(), function(dy) return -dy * sine(s - 1) * s end end)
    return function(x)
      local scaled = df.custom_gradient(function(y, x) return y * x, function(dy)
        return df.cond(y:reduce_sum():gt(1), function() return dy * x * y end, function() return dy + y end), dy * y * 5
      end end)
      local _, y = df.while_loop(function(_, y) return y:reduce_sum():abs():lt(3) end, function(i, y)
        return i + 1, df.cond(y:reduce_sum():gt(0), function() return scaled(y, x) + sine(x) end, function() return sine(y) - 2 end)
      end, { df.int32(0), x }, { maximum_iterations = 3 })
      return y
    end
  end },
  { 'a custom gradient that is not 0 of 0, in a loop that rows leave one by one', function()
    local twice = df.custom_gradient(function(x) return x * 2, function(dy) return dy * 2 + x end end)
    return function(x) return (df.while_loop(function(y) return y:reduce_sum():abs():lt(20) end, twice, { x })) end
  end },
  { 'a Lua function with a gradient', function()
    local function cube(x) return x * x * x end
    local function slope(x, _, dy) return dy * 3 * x * x end
    return function(x) return df.stack{ df.lua_func(cube, x[0], D, { gradient = slope, shapes = { {} } }), x[1] } end
  end },
  { 'a vmap', function()
    return function(x)
      return df.vmap(function(a) return df.cond(a:gt(0), function() return a * a * a end, function() return a * a * x[0] end) end)(x)
    end
  end },
}

local derivatives = {
  { 'value', function(f, x) return f(x) end },
  { 'gradient', function(f, x) return df.gradients(f(x), x) end },
  { 'gradient of the gradient', function(f, x) return df.gradients(df.gradients(f(x), x), x) end },
  { 'jacobian', function(f, x) return df.jacobian(f(x), x) end },
  { 'hessian', function(f, x) return df.hessian(f(x):reduce_sum(), x) end },
  { 'jvp', function(f, x) return df.jvp(f(x), x, float{ 0.7, -0.3 }) end },
}

local by_row = { gradient = true, ['gradient of the gradient'] = true }       -- the same asked of all rows outside

local rows = { { 1.5, 0.4 }, { -1.2, 0.3 } }

local places = {
  { 'vmap', function(g, X) return df.vmap(g)(X) end },
  { 'vmap in vmap', function(g, X) return df.vmap(function(Y) return df.vmap(g)(Y) end)(df.expand_dims(X, 0))[0] end },
  { 'vmap in map_fn', function(g, X) return df.map_fn(function(Y) return df.vmap(g)(Y) end, df.expand_dims(X, 0))[0] end },
  { 'map_fn in vmap', function(g, X) return df.vmap(function(Y) return df.map_fn(function(x) return g(x) end, Y) end)(df.expand_dims(X, 0))[0] end },
  { 'a function in vmap', function(g, X) return df.vmap(df.func('f', { D }, g))(X) end },
}

describe('df.vmap', function()
  after_each(function() df.reset() end)

  for _, f in ipairs(functions) do
    it('gives what each row by itself does, with all derivatives, wherever it stands: ' .. f[1], function()
      for _, d in ipairs(derivatives) do
        df.reset()
        local fn, X, one = f[2](), float(rows), {}
        local function g(x) return d[2](fn, x) end
        for i = 1, #rows do one[i] = g(X[i - 1]) end
        local expected = df.run(df.stack(one, { axis = 0 }))
        for _, place in ipairs(places) do
          local ok, why = pcall(function()
            support.near(df.run(place[2](g, X)), expected, { rtol = 1e-9, atol = 1e-9 })
            if not by_row[d[1]] then return end
            support.near(df.run(d[2](function(Y) return place[2](function(x) return fn(x) end, Y) end, X)), expected, { rtol = 1e-9, atol = 1e-9 })
          end)
          assert(ok, ('%s of %s, %s: %s'):format(d[1], f[1], place[1], tostring(why)))
        end
      end
    end)
  end

  it('lets a lane do with an array what it may do alone: else the error is the same, and says which lane it was', function()
    local dice = require('spec.chance').dice
    local chance = dice(1130)
    local function place(a) return chance(3) == 1 and df.cast(a, 'int32') or df.int32(chance(9) % 4) end
    local steps = {
      function(t, a) return t:write(place(a), a * chance(9)) end,
      function(t, a) return df.cond(a:gt(chance(3)), function() return t:write(place(a), a) end, function() return t end) end,
      function(t, a)
        local last = df.cast(a, 'int32') + (chance(3) - 2)
        local _, out = df.while_loop(function(i) return i:lt(last) end, function(i, t) return i + 1, t:write(i, a + 1) end, { df.int32(chance(3) - 1), t })
        return out
      end,
      function(t, a) return t:scatter({ 2, 0 }, df.stack{ a, a * 3 }) end,
      function(t, a) return t:unstack(df.stack{ a, a * 5, a }) end,
    }
    local reads = {
      function(t) return t:stack() end,
      function(t, a) return t:read(place(a)) end,
      function(t, a) return df.cond(a:gt(1), function() return t:read(1) end, function() return t:read(2) end) end,
      function(t, a) return t:gather(df.stack{ place(a), df.int32(chance(3) - 1) }) end,
    }
    local gave, failed = 0, 0
    for _ = 1, support.sample(60, 400) do
      df.reset()
      local clear, first, second = chance(2) == 1, steps[chance(2) == 1 and 3 + chance(2) or chance(5)], chance(4) == 1 and steps[chance(5)]
      local read, seed = reads[chance(#reads)], chance(1000)
      local function one(a)
        chance = dice(seed)
        local t = first(df.TensorArray(D, 3, { clear_after_read = clear }), a)
        if second then t = second(t, a) end
        local r = read(t, a)
        return clear and r:reduce_sum() or r:reduce_sum() + read(t, a):reduce_max()
      end
      local x, expected, why = float{ 0, 1, 2, 1 }, {}, {}
      for k = 0, 3 do
        local y = one(x[k])
        local ok, v = pcall(df.run, { y, df.gradients(y, x) })
        if ok then expected[k + 1] = { v[1], v[2]:list()[k + 1] }
        else why[#why + 1] = v.message:gsub("^TensorArray '[^']*': ", '') .. ' (lane ' .. k .. ')' end
      end
      local y = df.vmap(one)(x)
      local ok, v = pcall(df.run, { y, df.gradients(y, x) })
      assert.equal(#why == 0, ok, #why > 0 and why[1] or tostring(v))
      if ok then
        gave = gave + 1
        for k, e in ipairs(expected) do assert.same(e, { v[1]:list()[k], v[2]:list()[k] }) end
      else
        failed = failed + 1
        local told, n = v.message:gsub("^TensorArray '[^']*': ", ''):gsub(' of lane (%d)(.*)', '%2 (lane %1)')
        local found = n == 0
        for _, message in ipairs(why) do found = found or message == told end
        assert(found, told .. '\n' .. table.concat(why, '\n'))
      end
    end
    assert(gave > 9 and failed > 9, gave .. ' ' .. failed)
  end)

  it('has gradients by what an inner vmap captures or reads, in a loop and outside of one', function()
    local x, w = df.float32{ 1, 2, 3 }, df.Variable(3.0)
    local function by_capture(a) return df.gradients(df.vmap(function(b) return a * a * b end)(x):reduce_sum(), a) end
    local function by_variable(a) return df.gradients(df.vmap(function(b) return w * w * b * a end)(x):reduce_sum(), w) end
    for fn, expected in pairs{ [by_capture] = { 12, 24, 36 }, [by_variable] = { 36, 72, 108 } } do
      support.near(df.run(df.vmap(fn)(x)), expected)
      support.near(df.run(df.map_fn(function(row) return df.vmap(fn)(row) end, df.expand_dims(x, 0))), { expected })
    end
  end)

  it('calls a function with what it captured of each lane', function()
    local function scaled(x) return df.func('scaled', { 'float32' }, function(a) return a * x end)(5) end
    support.near(df.run(df.vmap(scaled)(df.float32{ 1, 2 })), { 5, 10 })
  end)
end)

describe('an effect in df.vmap', function()
  after_each(function() df.reset() end)

  --- Two trips of a loop in vmap over {1, 2}: y, and what the variable is then.
  local function two_trips(body)
    local v = df.Variable(0.0)
    local _, y = df.vmap(function(a)
      return df.while_loop(function(i) return i:lt(2) end, function(i, y) return i + 1, body(i, y, v) end, { df.int32(0), a })
    end)(df.float32{ 1, 2 })
    return df.run(y), df.run(v)
  end

  it('runs once where its value is used, too', function()
    local y, v = two_trips(function(_, y, v) return y + v:assign_add(1) end)
    support.near(y, { 4, 5 })
    assert.equal(2, v)
  end)

  it('runs before what waits for it, whatever waits', function()
    local ways = {
      function(x) return x * 2 end,
      function() return df.float32(4) end,
      function(x) return df.cond(x:gt(1.5), function() return x * 2 end, function() return -x end) end,
      function(x) return (df.while_loop(function(v) return v:lt(10) end, function(v) return v * 2 end, { x })) end,
      function(x) return df.gradients(x * x, x) end,
      function(x) return df.control_dependencies({ df.identity(x) }, function() return x + 1 end) end,
      function(x) return df.vmap(function(w) return w * x end)(df.float32{ 1, 2 }) end,
    }
    local waits = {
      function(a, fn) return df.control_dependencies({ a }, fn) end,
      function(a, fn) return df.control_dependencies({ df.group(a) }, fn) end,
      function(a, fn) return df.control_dependencies({ df.control_dependencies({ a }, function() return df.ones{} end) }, fn) end,
    }
    local lanes, most = df.float32{ 1, 2, 3 }, df.placeholder('float32', {})
    for k, way in ipairs(ways) do
      for _, wait in ipairs(waits) do
        local y = df.vmap(function(x) return wait(df.assert(x:lt(most), { x }), function() return way(x) end) end)(lanes)
        support.near(df.run(y, { [most] = 10 }), df.run(df.vmap(way)(lanes)))
        local ok, why = pcall(df.run, y, { [most] = 3 })
        assert.is_true(not ok and tostring(why):find 'assertion failed' ~= nil, ('way %d: %s'):format(k, tostring(why)))
      end
    end
  end)

  it('runs in a loop of which only what all lanes share is asked for', function()
    local trips = df.vmap(function(x)
      return (df.while_loop(function(i) return i:lt(3) end, function(i, y)
        df.assert(y:lt(10), { y })
        return i + 1, y * x
      end, { df.int32(0), df.float32(1) }))
    end)
    support.near(df.run(trips(df.float32{ 1, 2 })), { 3, 3 })
    assert.is_false((pcall(df.run, trips(df.float32{ 1, 4 }))))
  end)

  it('is refused in a loop that ends lane by lane, however its lanes leave', function()
    local v = df.Variable(0.0)
    for _, effect in ipairs{ function(y) df.assert(y:lt(3), { y }) end, function() v:assign_add(1) end, function(y) df.print(y) end } do
      for _, compact in ipairs{ 'auto', true, false } do
        local ok, why = pcall(df.vmap(function(x)
          return df.while_loop(function(i) return i:lt(x) end, function(i, y)
            effect(y)
            return i + 1, y * 2
          end, { df.float32(0), df.float32(1) })
        end, { compact = compact }), df.float32{ 1, 2, 3 })
        assert.is_true(not ok and why.code == 'invalid_argument' and why.message:find 'predicate that differs by lane' ~= nil, tostring(why))
      end
    end
  end)

  it('runs in a cond without results', function()
    local y, v = two_trips(function(i, y, v)
      df.cond((i % 2):eq(0), function() v:assign_add(1) end, function() end)
      return y * 2
    end)
    support.near(y, { 4, 8 })
    assert.equal(1, v)
  end)

  it('keeps its order with reads', function()
    local y, v = two_trips(function(_, y, v)
      local before = v:value()
      v:assign_add(1)
      return y + before
    end)
    support.near(y, { 2, 3 })
    assert.equal(2, v)
  end)

  it('runs in a loop around vmap, for the lanes and not for the function of one lane', function()
    local v = df.Variable(0.0)
    local function trips(fn)
      local _, y = df.while_loop(function(i) return i:lt(2) end, function(i, y) return i + 1, df.vmap(fn)(y) end, { df.int32(0), df.float32{ 1, 2 } })
      return y
    end
    support.near(df.run(trips(function(a)
      v:assign_add(1)
      df.assert(a:gt(0), { a })
      return a * 2
    end)), { 4, 8 })
    assert.equal(2, df.run(v))
    local ok, why = pcall(df.run, trips(function(a)
      df.assert(a:lt(2), { a })
      return a * 2
    end))
    assert.is_false(ok)
    assert.equal('invalid_argument', why.code)
    assert.matches('assertion failed', tostring(why))
  end)
end)
