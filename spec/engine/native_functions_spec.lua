--- Calls of functions in native loops: values, errors, counts and effects are those of tokens.
local df = require 'dflow'
local shell = require 'spec.shell'
local same_under_both = require 'spec.engines'.same_under_both
local support = require 'spec.support'
local it, fibonacci = support.native_it(it, pending), support.fibonacci        -- loops are compiled on the host

--- What became of the loop that was compiled, or was not.
local function told(fetches, feeds)
  local s = df.Session{ engine = 'native' }
  pcall(s.run, s, fetches, feeds)
  local text = s:native()
  s:close()
  return text
end
local function native(fetches, feeds)
  assert.matches('native: ', told(fetches, feeds))
  assert.is_nil(told(fetches, feeds):match '[^\n]*tokens:[^\n]*')
  return same_under_both(fetches, feeds)
end
local function tokens(why, fetches, feeds)
  assert.matches(why, told(fetches, feeds), 1, true)
  return same_under_both(fetches, feeds)
end

--- The sum over i of fn(i, what was before).
local function loop(trips, x, fn)
  return (select(2, df.while_loop(function(i) return i:lt(trips) end, function(i, y) return i + 1, fn(i, y) end, { df.int32(0), x })))
end

describe('functions in native loops', function()
  before_each(df.reset)

  it('give numbers and tensors of every kind: NaN, -0, the widest integers', function()
    for _, t in ipairs{ 'float32', 'float64', 'int32', 'int64' } do
      df.reset()
      local f = df.func('f', { t, t }, function(a, v) return v * a + v, df.reduce_sum(v) - a, a end, { returns = { t, t, t } })
      local least = t == 'int64' and -2^62 or t == 'int32' and -2^31 or -0.0
      local x = df.placeholder(t, { 70 })
      local list = {}
      for k = 1, 70 do list[k] = (k * 37) % 11 - 5 end
      list[1] = least
      if t:match 'float' then list[2], list[3], list[4] = 0 / 0, 1 / 0, 1e-38 end
      local y = loop(9, x, function(i, v)
        local w, s, a = f(df.cast(i - 4, t), v)
        local same = f(a, w)
        return same + s - s + w
      end)
      native(y, { [x] = df.tensor(list, t) })
    end
  end)

  it('call themselves and each other, with conds and loops in them', function()
    local fib = fibonacci()
    native(loop(14, df.int32(0), function(i, y) return y + fib(i) end))
    local even, odd
    even = df.func('even', { 'int32' }, function(n) return df.cond(n:eq(0), function() return df.bool(true) end, function() return odd(n - 1) end) end, { returns = { 'bool' } })
    odd = df.func('odd', { 'int32' }, function(n) return df.cond(n:eq(0), function() return df.bool(false) end, function() return even(n - 1) end) end, { returns = { 'bool' } })
    native(loop(30, df.int32(0), function(i, y) return y * 2 + df.cast(even(i), 'int32') end))
    local power = df.func('power', { 'float64', 'int32' }, function(x, n)
      local sum = loop(n, df.float64(1), function(k, y)
        return df.cond((k % 3):eq(1), function() return y + df.float64(0.25) end, function() return y * x end)
      end)
      return df.cond(n:gt(4), function() return sum + df.cast(fib(n), 'float64') end, function() return sum end)
    end, { returns = { 'float64' } })
    native(loop(12, df.float64(0.5), function(i, y) return power(y, i) * 0.125 + power(y * 0.5, i:floor_div(2)) end))
  end)

  it('keep vectors and products apart in calls that are open at once', function()
    local w = df.Variable(df.random_uniform({ 16, 16 }, { min = -1, max = 1, seed = 3 }))
    local tree
    tree = df.func('tree', { 'int32', 'float32' }, function(n, v)
      return df.cond(n:eq(0), function() return df.tanh(v) end, function()
        local u = df.reshape(df.matmul(df.expand_dims(v, 0), w), { 16 })
        local l, r = tree(n - 1, u), tree(n - 1, v - u)
        return l * 0.5 + df.reverse(r, { 0 }) * u
      end)
    end, { returns = { 'float32' }, result_shapes = { { 16 } } })
    native(loop(5, df.fill({ 16 }, df.float32(0.1)), function(i, v) return tree(i, v + df.cast(i, 'float32')) end))
  end)

  it('fail as tokens fail, wherever it is, and what was done before is not done twice', function()
    local v = df.Variable(df.int32(0))
    local f
    f = df.func('f', { 'int32', 'int32' }, function(n, d)
      return df.cond(n:le(0), function() return df.int32(100):floor_div(d) end, function() return f(n - 1, d) + n end), d * 2
    end, { returns = { 'int32', 'int32' } })
    for at = 0, 12, 3 do
      local _, y = df.while_loop(function(i) return i:lt(20) end, function(i, y)
        local n = v:assign_add(1)
        local before, twice = f(i % 4, n)
        local last = df.control_dependencies({ v:assign_add(twice - twice) }, function() return f(2, i - at) end)
        return i + 1, y + before + twice + last
      end, { df.int32(0), df.int32(0) }, { name = 'at' .. at })
      assert.matches('native: ', told(y))
      assert.matches('zero', same_under_both(y).error)
      local s, found = nil, {}
      for _, engine in ipairs{ 'tokens', 'native' } do
        s = df.Session{ engine = engine }
        assert.is_false((pcall(s.run, s, y)))
        found[#found + 1] = s:run(v)
        s:close()
      end
      assert.equal(at + 1, found[1])
      assert.equal(found[1], found[2])
    end
  end)

  it('go as deep as calls may go, and no deeper', function()
    local down
    down = df.func('down', { 'int32' }, function(n)
      return df.cond(n:eq(0), function() return df.int32(7) end, function() return down(n - 1) + 1 end)
    end, { returns = { 'int32' } })
    for _, n in ipairs{ 100, 400, 600, 5000, 19000 } do
      same_under_both(loop(2, df.int32(0), function(i, y) return y + down(i * n) end))
    end
    assert.matches('20000 deep', same_under_both(loop(2, df.int32(0), function(i, y) return y + down(i * 20001) end)).error)
  end)

  it('read variables as they are at each call, and refuse one that is not always the same', function()
    local a, b = df.Variable(df.fill({ 80 }, df.float32(1))), df.Variable(df.float32(2))
    local f
    f = df.func('f', { 'int32' }, function(n)
      return df.cond(n:le(0), function() return a * b end, function() return f(n - 1) + f(n - 2) - a end)
    end, { returns = { 'float32' }, result_shapes = { { 80 } } })
    local y = loop(6, df.zeros{ 80 }, function(i, y)
      local u = y + f(i)
      return df.control_dependencies({ b:assign_add(0.5), a:assign_sub(u * 0.001) }, function() return u + df.float32(0) end)
    end)
    same_under_both(y)
  end)

  it('are left to tokens where doing a call over would show, or calls are computed together', function()
    local v = df.Variable(df.float32(0))
    local draws = df.func('draws', { 'float32' }, function(x) return x + df.random_uniform({}, { seed = 5 }) end, { returns = { 'float32' } })
    local adds = df.func('adds', { 'float32' }, function(x) return v:assign_add(x) end, { returns = { 'float32' } })
    local many = df.func('many', { 'float32' }, function(x) return x * x end, { returns = { 'float32' }, batch = true })
    local x = df.placeholder('float32', {})
    tokens('draws random numbers', loop(5, x, function(_, y) return draws(y) end), { [x] = 1 })
    tokens('changes a variable', loop(5, x, function(_, y) return adds(y) end), { [x] = 1 })
    tokens('computed together', loop(5, x, function(_, y) return many(y) end), { [x] = 0.5 })
  end)

  it('keep their gradients, of two orders, when these are built after the loop has run natively', function()
    local x = df.placeholder('float64', {})
    local f
    f = df.func('f', { 'float64', 'int32' }, function(v, n)
      return df.cond(n:eq(0), function() return df.sin(v) end, function() return f(v * v, n - 1) * v end)
    end, { returns = { 'float64' } })
    local y = loop(3, x, function(i, v) return f(v, i) + x end)
    local value = native(y, { [x] = 0.7 }).found
    local g = df.gradients(y, x)
    local found = same_under_both({ y, g, df.gradients(g, x) }, { [x] = 0.7 }).found
    assert.equal(value, found[1])
    local h = 1e-6
    local s = df.Session()
    assert.near((s:run(y, { [x] = 0.7 + h }) - s:run(y, { [x] = 0.7 - h })) / (2 * h), found[2], 1e-6)
    s:close()
  end)

  it('stop when the run shall stop', function()
    local fib = fibonacci()
    local s = df.Session{ engine = 'native' }
    local began = os.clock()
    local ok, err = pcall(s.run, s, loop(3, df.int32(0), function(_, y) return y + fib(45) end), nil, { timeout = 0.2 })
    assert.is_false(ok)
    assert.equal('deadline_exceeded', err.code)
    assert.is_true(os.clock() - began < 20)
    s:close()
  end)

  it('show their frames to who looks, though the loop was native before', function()
    local fib = fibonacci()
    local y = loop(8, df.int32(0), function(i, y) return y + fib(i) end)
    local s = df.Session{ engine = 'native' }
    assert.equal(33, s:run(y))
    local h = s:start(y, nil, { paused = true })
    local seen
    for _ = 1, 400 do
      h:step()
      seen = seen or tostring(h:frames()):match 'fib'
    end
    assert.equal('fib', seen)
    h:cancel()
    s:close()
  end)

  it('are entered and left at any iteration', function()
    local r = shell.run(('for n in 1 2 3 4 5 6; do DFLOW_STRESS=osr:$n %s -e %s; done'):format(shell.dflow, shell.quote[==[
      local function value(engine)
        df.reset()
        local v = df.Variable(df.float64(0))
        local f, g
        g = df.func('g', { 'float64' }, function(x) return select(2, df.while_loop(function(i) return i:lt(4) end,
          function(i, y) return i + 1, y * 0.5 + x end, { df.int32(0), x })), x - v end, { returns = { 'float64', 'float64' } })
        f = df.func('f', { 'int32', 'float64' }, function(n, x)
          return df.cond(n:le(1), function() return x * 0.25 end, function()
            local a, b = g(x)
            return f(n - 1, a) - f(n - 2, b)
          end)
        end, { returns = { 'float64' } })
        local _, y = df.while_loop(function(i) return i:lt(60) end, function(i, y)
          local a = f(i % 7, y * 0.125)
          local w = v:assign_add(a * 0.01)
          return i + 1, df.control_dependencies({ w }, function() return f(i % 3, a) + g(a) - w end)
        end, { df.int32(0), df.float64(0.5) })
        local s = df.Session{ engine = engine }
        local at = ('%a %a %d'):format(s:run(y), s:run(v), s:stats().nodes_run)
        s:close()
        return at
      end
      local want = value 'tokens'
      for _ = 1, 4 do
        local found = value 'native'
        if found ~= want then print(found, want) end
      end
    ]==]))
    assert.equal('', r.out .. r.err)
  end)
end)

describe('functions that tokens call', function()
  before_each(df.reset)

  --- A function that adds up a halved vector and what its calls give, and a number that it counts by.
  local function tree(t)
    local f
    f = df.func('tree', { 'int32', t }, function(n, v)
      return df.cond(n:lt(1), function() return v * v end, function()
        local l, r = f(n - 1, v + 1), f(n - 2, df.reverse(v, { 0 }) - v)
        return l - r * v
      end)
    end, { returns = { t }, result_shapes = { { 5 } } })
    return f
  end

  it('become native though no loop is around them: NaN, -0, overflow and counts as tokens have them', function()
    local values = { float32 = { 0 / 0, -0.0, 1 / 0, 1e-40, 3 }, float64 = { -0.0, 0.0, -1 / 0, 1e300, 2 },
                     int32 = { -2^31, 2^31 - 1, 0, -1, 7 }, int64 = { -2^62, 2^62, 0, -1, 7 } }
    for t, list in pairs(values) do
      df.reset()
      local f, x = tree(t), df.placeholder(t, { 5 })
      for n = 0, 6 do native({ f(df.int32(n), x), x }, { [x] = df.tensor(list, t) }) end
    end
    local fib = fibonacci()
    assert.matches('fib  native: calls; [^\n]*compiled in', (told(fib(df.int32(15))):gsub('from the disk', 'compiled'):gsub('shared', 'compiled')))
    native{ fib(df.int32(15)), fib(df.int32(3)) }
  end)

  it('become native in the middle of a run that calls them again and again', function()
    local fib, s = fibonacci(), df.Session()
    assert.equal(832040, s:run(fib(df.int32(30))))
    assert.matches('fib  native: calls', s:native())
    s:close()
  end)

  it('read variables, of the one that they were compiled for: another is the tokens\'', function()
    local a, b = df.Variable(df.fill({ 4 }, df.float32(2))), df.Variable(df.fill({ 4 }, df.float32(3)))
    local function reader(v)
      local f
      f = df.func('f', { 'int32' }, function(n)
        return df.cond(n:le(0), function() return v * 1.5 end, function() return f(n - 1) * v - f(n - 2) end)
      end, { returns = { 'float32' }, result_shapes = { { 4 } } })
      return f
    end
    local f, g = reader(a), reader(b)
    native{ f(df.int32(5)), g(df.int32(6)) }
    local set = df.control_dependencies({ f(df.int32(4)) }, function() return a:assign_add(df.ones{ 4 }) end)
    same_under_both(df.control_dependencies({ set }, function() return f(df.int32(5)) end))
  end)

  it('fail as tokens fail, with the frames that these have', function()
    local f
    f = df.func('f', { 'int32', 'int32' }, function(n, d)
      return df.cond(n:le(0), function() return df.int32(100):floor_div(d) end, function() return f(n - 1, d - 1) + f(n - 2, d) end)
    end, { returns = { 'int32' } })
    native(f(df.int32(6), df.int32(40)))
    for d = 0, 7 do assert.matches('zero', same_under_both(f(df.int32(7), df.int32(d))).error) end
  end)

  it('go as deep as calls may go, no deeper, and in little more than the time of tokens', function()
    local down
    down = df.func('down', { 'int32' }, function(n)
      return df.cond(n:eq(0), function() return df.int32(7) end, function() return down(n - 1) + 1 end)
    end, { returns = { 'int32' } })
    local n = df.placeholder('int32', {})
    local y, took = down(n), {}
    for _, engine in ipairs{ 'tokens', 'native' } do
      local s = df.Session{ engine = engine }
      local function run(at, timed)
        local began = os.clock()
        assert.equal(at + 7, s:run(y, { [n] = at }))
        if timed then took[engine] = math.min(took[engine] or math.huge, os.clock() - began) end
      end
      for _, at in ipairs{ 0, 100, 511, 512, 600, 5000, 19990 } do run(at) end
      for _ = 1, 5 do run(9000, true) end
      assert.matches('20000 deep', select(2, pcall(s.run, s, y, { [n] = 20001 })).message)
      s:close()
    end
    assert.is_true(took.native < 2 * took.tokens, ('%g s, tokens %g s'):format(took.native, took.tokens))
  end)

  it('are the tokens\' where they have effects or draw, and where what they keep for a gradient is read', function()
    local v = df.Variable(df.float64(0))
    local adds = df.func('adds', { 'float64' }, function(x) return v:assign_add(x) end, { returns = { 'float64' } })
    local draws = df.func('draws', { 'float64' }, function(x) return x + df.cast(df.random_uniform({}, { seed = 5 }), 'float64') end, { returns = { 'float64' } })
    tokens('changes a variable', adds(df.float64(1)))
    tokens('draws random numbers', draws(df.float64(1)))
    local x = df.placeholder('float64', {})
    local f
    f = df.func('f', { 'float64', 'int32' }, function(u, n)
      return df.cond(n:eq(0), function() return df.sin(u) end, function() return f(u * u, n - 1) * u end)
    end, { returns = { 'float64' } })
    local y = f(x, df.int32(4))
    local s = df.Session{ engine = 'native' }
    local value = s:run(y, { [x] = 0.7 })
    assert.matches('f  native: calls', s:native())
    local g = df.gradients(y, x)
    local second = df.gradients(g, x)
    local found = s:run({ y, g, second }, { [x] = 0.7 })
    assert.equal(value, found[1])
    local h = 1e-6
    assert.near((s:run(y, { [x] = 0.7 + h }) - s:run(y, { [x] = 0.7 - h })) / (2 * h), found[2], 1e-6)
    assert.near((s:run(g, { [x] = 0.7 + h }) - s:run(g, { [x] = 0.7 - h })) / (2 * h), found[3], 1e-6)
    s:close()
    same_under_both({ y, g, second }, { [x] = 0.7 })
  end)

  it('wait for what their call waits for, and are dead where it is', function()
    local v, fib = df.Variable(df.int32(1)), fibonacci()
    local reads = df.func('reads', { 'int32' }, function(x) return x + v end, { returns = { 'int32' } })
    local x = df.placeholder('int32', {})
    local set = v:assign_add(fib(x))
    local after = df.control_dependencies({ set }, function() return reads(x) end)
    local y = df.cond(x:gt(5), function() return fib(x) end, function() return fib(x + 9) * 2 end)
    for _, n in ipairs{ 3, 9 } do same_under_both({ after, y }, { [x] = n }) end
  end)

  it('stop when the run shall stop, and show their frames to who looks meanwhile', function()
    local fib = fibonacci()
    local y = fib(df.int32(45))
    local s = df.Session{ engine = 'native' }
    local ok, err = pcall(s.run, s, y, nil, { timeout = 0.2 })
    assert.is_false(ok)
    assert.equal('deadline_exceeded', err.code)
    local h = s:start(y)
    local seen
    for _ = 1, 3 do
      h:pause()
      seen = tostring(h:frames()):match 'fib'
      h:resume()
      if seen then break end
    end
    assert.equal('fib', seen)
    h:cancel()
    s:close()
  end)

  it('are begun again by tokens from any poll', function()
    local r = shell.run(('for n in 1 2 3 4 5 6; do DFLOW_STRESS=osr:$n %s -e %s; done'):format(shell.dflow, shell.quote[==[
      local function value(engine)
        df.reset()
        local v = df.Variable(df.float64(0.5))
        local f
        f = df.func('f', { 'int32', 'float64' }, function(n, x)
          return df.cond(n:le(1), function() return x * 0.25 - v end, function()
            local _, a = df.while_loop(function(i) return i:lt(n) end, function(i, y) return i + 1, y * 0.5 + x end, { df.int32(0), x })
            return f(n - 1, a) - f(n - 2, x)
          end)
        end, { returns = { 'float64' } })
        local s = df.Session{ engine = engine }
        local y = f(df.int32(9), df.float64(3)) + f(df.int32(5), df.float64(-1))
        local c = s:run(y)
        local n = s:stats()
        local at = ('%a %d %d %d %d'):format(c, n.nodes_run, n.dead_tokens, n.frames, n.iterations)
        s:close()
        return at
      end
      local want = value 'tokens'
      for _ = 1, 4 do
        local found = value 'native'
        if found ~= want then print(found, want) end
      end
    ]==]))
    assert.equal('', r.out .. r.err)
  end)
end)
