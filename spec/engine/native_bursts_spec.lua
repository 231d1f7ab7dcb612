--- Many iterations of a loop over arrays at once, in native code: the same bits, errors and counts as one by one.
local df = require 'dflow'
local shell = require 'spec.shell'
local same_under_both = require 'spec.engines'.same_under_both
local native_it = require('spec.support').native_it(it, pending)
local it = require('spec.support').host_it(it, pending)        -- loops are compiled on the host

local function range(n, scale) local t = {} for i = 1, n do t[i] = math.sin(i * 1.7) * (scale or 1) end return t end

describe('bursts of native code', function()
  native_it('map each element, whatever the length', function()
    local x = df.placeholder('float32', { -1 })
    local y = df.map_fn(function(v) return v * v + df.tanh(v) - df.maximum(v, 0.25) end, x)
    for _, n in ipairs{ 1, 15, 16, 17, 33, 4096, 4097, 8200, 20000 } do same_under_both(y, { [x] = range(n) }) end
    local s = df.Session{ engine = 'native' }
    s:run(y, { [x] = range(100) })
    assert.matches('map_fn  native: variables int32, array; many iterations at once; ', s:native())
    s:close()
    same_under_both(y, { [x] = { 0 / 0, 1 / 0, -1 / 0, 1e-42, -1e-42, 0, -0.0, 1e38, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 } })
  end)

  it('map two arrays of whole numbers to two others', function()
    local a, b = df.placeholder('int32', { -1 }), df.placeholder('int32', { -1 })
    local p = df.map_fn(function(x, y) return { x * 7 + y, df.cast(x - y, 'float64') / 3 } end, { a, b })
    local u, v = {}, {}
    for i = 1, 5000 do u[i], v[i] = i * 429496, -i end
    same_under_both({ p[1], p[2] }, { [a] = u, [b] = v })
  end)

  it('carry what a scan carries, forwards and backwards, with its gradient', function()
    local x = df.placeholder('float32', { -1 })
    for _, reverse in ipairs{ false, true } do
      local y = df.scan(function(a, v) return a * 0.9 + v end, x, nil, { reverse = reverse })
      local g = df.gradients(df.reduce_sum(df.square(y)), x)
      for _, n in ipairs{ 2, 40, 5000 } do same_under_both({ y, g }, { [x] = range(n) }) end
    end
  end)

  it('take conds, and count the tokens that die in them', function()
    local x = df.placeholder('float32', { -1 })
    local y = df.map_fn(function(v) return df.cond(v:gt(0), function() return df.sqrt(v) end, function() return v * v - 1 end) end, x)
    same_under_both(y, { [x] = range(3000) })
  end)

  it('carry small tensors and write them as rows', function()
    local x = df.placeholder('float32', { -1, 3 })
    local y = df.scan(function(a, v) return a * 0.5 + v * v end, x)
    local rows = {}
    for i = 1, 700 do rows[i] = { i, math.cos(i), -i } end
    same_under_both({ y, df.gradients(y, x) }, { [x] = rows })
  end)

  it('end where the predicate says so, which is not known before', function()
    local x = df.placeholder('float32', { -1 })
    local rows = df.TensorArray('float32', 5000, { clear_after_read = false }):unstack(x)
    local i, s, out = df.while_loop(function(i, s) return df.less(s, 700) end, function(i, s, out)
      local v = rows:read(i)
      return i + 1, s + df.abs(v), out:write(i, s)
    end, { df.int32(0), df.float32(0), df.TensorArray('float32', 0, { dynamic_size = true }) })
    same_under_both({ i, s, out:stack() }, { [x] = range(5000) })
  end)

  it('leave a division by zero far inside to the tokens, which name op, frame and iteration', function()
    local d = df.placeholder('int32', { -1 })
    local y = df.map_fn(function(v) return df.int32(100000):floor_div(v) end, d, { name = 'divides' })
    local t = {}
    for i = 1, 9000 do t[i] = i - 7000 end
    local r = same_under_both(y, { [d] = t })
    assert.matches('zero', r.error)
    assert.equal('divides:6999', r.frame)
    for i = 1, 9000 do t[i] = i end
    same_under_both(y, { [d] = t })
  end)

  it('leave locations that were written, cleared or are not there to the tokens', function()
    local at = df.placeholder('int32', {})
    local function written()
      local out = df.TensorArray('float32', 3000):write(at, df.float32(7))
      local _, last = df.while_loop(function(i) return i:lt(3000) end, function(i, out) return i + 1, out:write(i, df.cast(i, 'float32')) end,
        { df.int32(0), out })
      return last:stack()
    end
    local r = same_under_both(written(), { [at] = 2345 })
    assert.matches('2345', r.error)
    local function cleared()
      local ta = df.TensorArray('float32', 3000, { clear_after_read = true }):scatter(df.range(3000), df.cast(df.range(3000), 'float32'))
      local once = ta:read(at)
      local _, s = df.while_loop(function(i) return i:lt(3000) end, function(i, s) return i + 1, s + ta:read(i) end, { df.int32(0), once })
      return s
    end
    r = same_under_both(cleared(), { [at] = 1234 })
    assert.matches('1234', r.error)
    local function beyond()
      local ta = df.TensorArray('float32', 100):unstack(df.cast(df.range(100), 'float32'))
      local _, s = df.while_loop(function(i) return i:lt(at) end, function(i, s) return i + 1, s + ta:read(i) end, { df.int32(0), df.float32(0) })
      return s
    end
    same_under_both(beyond(), { [at] = 100 })
    assert.matches('100', same_under_both(beyond(), { [at] = 101 }).error)
  end)

  it('read and write one array in one loop as tokens do', function()
    local ta = df.TensorArray('float32', 2000, { clear_after_read = false }):write(0, df.float32(1))
    local _, out = df.while_loop(function(i) return i:lt(2000) end, function(i, ta) return i + 1, ta:write(i, ta:read(i - 1) * 0.75 + 1) end,
      { df.int32(1), ta })
    same_under_both(out:stack(), {})
  end)

  it('read a variable, and angles too large for the polynomial', function()
    local w, x = df.Variable(df.float32(0.5)), df.placeholder('float32', { -1 })
    local y = df.map_fn(function(v) return df.sin(v) * w + df.cos(v) end, x)
    same_under_both(y, { [x] = range(3000, 10) })
    local far = range(3000, 10)
    far[2500], far[2999] = 1e9, 1 / 0
    same_under_both(y, { [x] = far })
  end)

  it('turn angles with the bits of the kernels, small ones on a shorter way where each waits for the one before', function()
    local n = 20000
    local bits = df.placeholder('int32', { n })
    local x = df.bitcast(bits, 'float32')
    local differ = {}
    for _, f in ipairs{ 'sin', 'cos' } do
      local chained = df.scan(function(a, v) return df.select(v:gt(1e30), a, df[f](v)) end, df.concat({ df.zeros{ 1 }, x }, 0))
      for _, y in ipairs{ df.slice(chained, { 1 }, { n }), df.map_fn(df[f], x) } do
        differ[#differ + 1] = df.reduce_sum(df.cast(df.bitcast(y, 'int32'):ne(df.bitcast(df[f](x), 'int32')), 'int32'))
      end
    end
    local s = df.Session{ engine = 'native' }
    for _, begin in ipairs{ 0, 0x3f48f000, 0x3f490000, 0x3f49fd0b, 0x3c000000, 0x477fff00 } do
      for _, sign in ipairs{ 0, -2147483648 } do
        local t = {}
        for i = 1, n do t[i] = begin + i - 1 + sign end
        assert.same({ 0, 0, 0, 0 }, s:run(differ, { [bits] = t }))
      end
    end
    s:close()
  end)

  it('end at once where the predicate compares numbers that are too far apart for their difference', function()
    local x, limits = df.placeholder('float32', { 400 }), df.placeholder('int64', { 40 })
    local rows = df.TensorArray('float32', 400, { clear_after_read = false }):unstack(x)
    local limit = df.TensorArray('int64', 40, { clear_after_read = false }):unstack(limits)
    for way = 1, -1, -2 do
      local _, total, steps = df.while_loop(function(k) return k:lt(40) end, function(k, total, steps)
        local most = limit:read(k)
        local function goes_on(_, n) if way > 0 then return n:lt(most) end return n:gt(most) end
        local _, n, sum = df.while_loop(goes_on, function(i, n, sum) return i + 1, n + way, sum + rows:read(i) end,
          { df.int32(0), df.constant(5000 * way, { dtype = 'int64' }), df.float32(0) })
        return k + 1, total + sum, steps + n
      end, { df.int32(0), df.float32(0), df.constant(0, { dtype = 'int64' }) })
      local feed = { 5300 * way }
      for i = 2, 40 do feed[i] = (-2 ^ 63 + 4096) * way end
      assert.is_nil(same_under_both({ total, steps }, { [x] = range(400), [limits] = df.tensor(feed, 'int64') }).error)
    end
  end)

  it('run loops of numbers whose predicate counts, upwards and downwards, to the largest number there is', function()
    local n, k = df.placeholder('int32', {}), df.placeholder('int64', {})
    local function sums(first, more, step)
      return { df.while_loop(more, function(i, s, t, x)
        return step(i), s * 31 + i, df.cond((i % 2):eq(0), function() return t + 1 end, function() return t * 0.5 end), x + df.cast(i, x.dtype)
      end, { first, first, df.float32(0), df.float64(0) }) }
    end
    local up = sums(df.int32(-3), function(i) return i:lt(n) end, function(i) return i + 1 end)
    local down = sums(df.int32(70), function(i) return i:ge(n) end, function(i) return i - 1 end)
    for _, m in ipairs{ -2147483648, -5, -3, -2, 0, 1, 17, 70, 71, 100000 } do
      same_under_both(up, { [n] = m })
      if m > -100 then same_under_both(down, { [n] = m }) end
    end
    local most = df.constant(2 ^ 62, { dtype = 'int64' }) * 2 - 1
    local near = sums(most - 40, function(i) return i:lt(most - k) end, function(i) return i + 1 end)
    for _, m in ipairs{ 0, 1, 39, 40, 41, -1, -100 } do same_under_both(near, { [k] = m }) end
    local s = df.Session{ engine = 'native' }
    s:run(up, { [n] = 100 })
    assert.matches('native: variables int32, int32, float32, float64; many iterations at once; ', s:native())
    s:close()
  end)

  it('go on past the largest number, where the predicate always holds, and stop within a moment', function()
    local i, s = df.while_loop(function(i) return i:le(2147483647) end, function(i, s) return i + 1, s + 1 end,
      { df.int32(2147483000), df.constant(0, { dtype = 'int64' }) })
    local session = df.Session{ engine = 'native' }
    local h = session:start({ i, s }, nil, { paused = true })
    h:resume()
    local n
    repeat n = h:stats().iterations until n > 5e9
    h:pause()
    assert.is_true(h:frames()[2].first >= n)
    h:cancel()
    assert.is_false((pcall(h.wait, h)))
    session:close()
  end)

  it('stop at any iteration with what tokens would have', function()
    local r = shell.run(('DFLOW_STRESS=osr:7 %s -e %s'):format(shell.dflow, shell.quote[==[
      local n = df.placeholder('int32', {})
      local fetches = { df.while_loop(function(i) return i:lt(n) end, function(i, s, x, y)
        return i + 1, s * 3 + i, x * 1.0001 + 1, df.cond((s % 3):eq(0), function() return y + x end, function() return y - 1 end)
      end, { df.int32(0), df.int32(7), df.float32(1), df.float32(0) }) }
      local function under(engine)
        local s = df.Session{ engine = engine }
        local found = s:run(fetches, { [n] = 3000 })
        local c = s:stats()
        s:close()
        return ('%d %d %a %a %d %d'):format(found[1], found[2], found[3], found[4], c.nodes_run, c.dead_tokens)
      end
      local expected, differ = under 'tokens', 0
      for _ = 1, 20 do if under 'native' ~= expected then differ = differ + 1 end end
      print(differ)]==]))
    assert.are.equal('0\n', r.out, r.err)
  end)

  it('leave a division by zero in a loop without arrays to the tokens', function()
    local k = df.placeholder('int32', {})
    local i, y = df.while_loop(function(i) return i:lt(9000) end, function(i, y) return i + 1, y * 3 + df.int32(100000):floor_mod(k - i) end,
      { df.int32(0), df.int32(0) }, { name = 'divides' })
    local r = same_under_both({ i, y }, { [k] = 7001 })
    assert.equal('divides:7001', r.frame)
    same_under_both({ i, y }, { [k] = 9000 })
    same_under_both({ i, y }, { [k] = 0 })
  end)

  it('agree with tokens where engines change at random iterations', function()
    local r = shell.run(('DFLOW_STRESS=osr:5 %s -e %s'):format(shell.dflow, shell.quote[==[
      local arrays = require 'spec.random_arrays'
      print(arrays.differences(df, 1, 30))]==]))
    assert.are.equal('0\n', r.out, r.err)
  end)
end)
