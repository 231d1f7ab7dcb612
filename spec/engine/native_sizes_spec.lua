--- Native loops with tensors of any size: what is captured is read in place, and no size turns a loop to tokens at once.
local df = require 'dflow'
local engines, support = require 'spec.engines', require 'spec.support'
local same_under_both = engines.same_under_both

--- Is the loop native? What s:native() says of it.
local function told(fetches, feeds)
  local s = df.Session{ engine = 'native' }
  s:run(fetches, feeds)
  local text = s:native()
  s:close()
  return text
end

local function native(fetches, feeds)
  local text = told(fetches, feeds)
  assert.matches('^[^\n]*  native: ', text)
  return same_under_both(fetches, feeds)
end

local function ramp(dtype, dims)
  local n = 1
  for _, d in ipairs(dims) do n = n * d end
  return df.run((df.cast(df.range(0, n), dtype) / 7):cast(dtype):reshape(dims))
end

describe('rows of a captured tensor in native code', function()
  it('are read in place whatever its size and dtype', function()
    for _, dtype in ipairs{ 'float32', 'float64', 'int32', 'int64' } do
      for _, dims in ipairs{ { 8, 3 }, { 3000, 2 }, { 700, 16 }, { 70, 256 }, { 5000 } } do
        local x = df.placeholder(dtype, dims)
        local n = dims[1]
        local _, sum, last = df.while_loop(function(i) return i:lt(n) end, function(i, sum)
          return i + 1, sum + x[i] * x[n - 1 - i], x[i]
        end, { df.int32(0), df.zeros({ dims[2] }, dtype), df.zeros({ dims[2] }, dtype) })
        native({ sum, last }, { [x] = ramp(dtype, dims) })
      end
    end
  end)

  it('are read in branches, in inner loops and of what is reshaped', function()
    local x = df.placeholder('float32', { 600, 64 })
    local _, sum = df.while_loop(function(i) return i:lt(20) end, function(i, sum)
      local row = df.cond(i:gt(7), function() return x[i * 3] end, function() return x[i] * 2 + df.reshape(x, { 300, 128 })[i][1] end)
      local _, inner = df.while_loop(function(j) return j:lt(i) end, function(j, v) return j + 1, v + x[j] * 0.5 end, { df.int32(0), row })
      return i + 1, sum + inner
    end, { df.int32(0), df.zeros{ 64 } })
    native(sum, { [x] = ramp('float32', { 600, 64 }) })
  end)

  it('of a tensor that the loop makes are copies', function()
    local x = df.placeholder('float32', { 40, 96 })
    local _, v, first = df.while_loop(function(i) return i:lt(9) end, function(i, v) return i + 1, v * 0.5 + 1, v[i] end,
      { df.int32(0), x, df.zeros{ 96 } })
    native({ v, first }, { [x] = ramp('float32', { 40, 96 }) })
  end)

  it('are not copied where only numbers and rows of theirs are read', function()
    local function eliminate(n, dtype, last)
      local x = df.placeholder(dtype, { n, n })
      local function set(a, i, j, v) return df.tensor_scatter_nd_update(a, df.reshape(df.stack{ i, j }, { 1, 2 }), df.reshape(v, { 1 })) end
      local _, a = df.while_loop(function(k) return k:lt(n - 1) end, function(k, a)
        local _, b = df.while_loop(function(i) return i:lt(n) end, function(i, a)
          local m = df.cond(a[k][k]:eq(0), function() return a[i][0] end, function() return a[i][k] / a[k][k] end)
          local _, c = df.while_loop(function(j) return j:lt(last) end, function(j, a) return j + 1, set(a, i, j, a[i][j] - m * a[k][j]) end, { k, a })
          return i + 1, c
        end, { k + 1, a })
        return k + 1, b
      end, { df.int32(0), x })
      return x, a
    end
    for _, dtype in ipairs{ 'float32', 'float64' } do
      for _, n in ipairs{ 3, 17, 40 } do
        df.reset()
        local x, a = eliminate(n, dtype, n)
        native(a, { [x] = df.run(df.cast(df.reshape((df.range(n * n) * 7919) % 31 - 15, { n, n }), dtype)) })
      end
    end
    df.reset()
    local x, a = eliminate(9, 'float32', 10)
    assert.matches('index 9', same_under_both(a, { [x] = df.ones{ 9, 9 }:eval() }).error)
    df.reset()
    local y = df.placeholder('float32', { 12, 20 })
    local _, v, sum = df.while_loop(function(i) return i:lt(12) end, function(i, v, sum) return i + 1, v * 0.5 + 1, sum + v[i][i + 3] end,
      { df.int32(0), y, df.float32(0) })
    native({ v, sum }, { [y] = ramp('float32', { 12, 20 }) })
    local s = df.Session{ engine = 'native' }
    s:run(sum, { [y] = ramp('float32', { 12, 20 }) })
    assert.is_nil(s:native{ code = 'llvm' }:match 'memcpy[^\n]*i64 80,')
    s:close()
  end)

  it('outside of it fail as tokens do', function()
    local x, n = df.placeholder('float32', { 3000, 2 }), df.placeholder('int32', {})
    local _, sum = df.while_loop(function(i) return i:lt(n) end, function(i, sum) return i + 1, sum + x[i] end,
      { df.int32(2990), df.zeros{ 2 } })
    local feeds = { [x] = ramp('float32', { 3000, 2 }) }
    feeds[n] = 3000
    same_under_both(sum, feeds)
    feeds[n] = 3001
    assert.is_string(same_under_both(sum, feeds).error)
    local _, under = df.while_loop(function(i) return i:gt(n) end, function(i, s) return i - 1, s + x[i] end, { df.int32(5), df.zeros{ 2 } })
    feeds[n] = -2
    assert.is_string(same_under_both(under, feeds).error)
  end)

  it('have gradients', function()
    local x = df.placeholder('float32', { 300, 16 })
    local _, y = df.while_loop(function(i) return i:lt(30) end, function(i, y) return i + 1, df.tanh(y + x[i * 2]) end, { df.int32(0), df.zeros{ 16 } })
    same_under_both({ y, df.gradients(y:reduce_sum(), x) }, { [x] = ramp('float32', { 300, 16 }) })
  end)
end)

describe('larger tensors in native code', function()
  it('are loop variables and results', function()
    for _, n in ipairs{ 2048, 4096, 6000 } do
      local x = df.placeholder('float32', { n })
      local _, v, sum = df.while_loop(function(i) return i:lt(12) end, function(i, v, sum)
        local a = df.tanh(v) + df.cast(i, 'float32')
        return i + 1, df.cond((i % 3):eq(1), function() return a * v end, function() return a - 1 end), sum + df.reduce_max(a) + df.reduce_sum(v)
      end, { df.int32(0), x, df.float32(0) })
      native({ v, sum }, { [x] = ramp('float32', { n }) })
    end
  end)

  it('are given to kernels where they lie', function()
    local w, b = df.placeholder('float32', { 300, 256 }), df.placeholder('float32', { 256, 300 })
    local x = df.placeholder('float32', { 2, 300 })
    local ids = df.constant({ 3, 1, 250 }, 'int32')
    local _, y = df.while_loop(function(i) return i:lt(6) end, function(i, y)
      local h = df.tanh(y:matmul(w) * 0.01)
      return i + 1, h:matmul(b) * 0.01 + df.reduce_sum(df.gather(b, ids + i)) * 0.001
    end, { df.int32(0), x })
    native(y, { [w] = ramp('float32', { 300, 256 }), [b] = ramp('float32', { 256, 300 }), [x] = ramp('float32', { 2, 300 }) })
  end)

  it('are the same under both engines where rows and columns are broadcast', function()
    local x, r, c = df.placeholder('float32', { 24, 50 }), df.placeholder('float32', { 50 }), df.placeholder('float32', { 24, 1 })
    local _, y = df.while_loop(function(i) return i:lt(4) end, function(i, y) return i + 1, (y * r + c) * 0.1 + (r + c) end, { df.int32(0), x })
    native(y, { [x] = ramp('float32', { 24, 50 }), [r] = ramp('float32', { 50 }), [c] = ramp('float32', { 24, 1 }) })
  end)

  it('are assigned to variables as they are', function()
    local x = df.placeholder('float32', { 4000 })
    local v = df.Variable(df.zeros{ 4000 })
    local _, sum = df.while_loop(function(i) return i:lt(3) end, function(i, sum)
      v:assign(x)
      return i + 1, sum + v:value()[i]
    end, { df.int32(0), df.float32(0) })
    local s = df.Session{ engine = 'native' }
    s:run(sum, { [x] = ramp('float32', { 4000 }) })
    assert.same(ramp('float32', { 4000 }):totable(), s:run(v):totable())
    s:close()
  end)

  it('some rows of which a trip changes stay where they lie, in an inner loop and around it', function()
    for k = 6, 18, 3 do
      df.reset()
      local x = df.placeholder('float32', { 2 ^ k / 4, 4 })
      local function put(v, i, row) return df.tensor_scatter_add(v, df.reshape(i, { 1, 1 }), df.reshape(row, { 1, 4 })) end
      local _, v, w = df.while_loop(function(i) return i:lt(7) end, function(i, v, w)
        local _, s = df.while_loop(function(j) return j:lt(i) end, function(j, s) return j + 1, s + v[j] end, { df.int32(0), v[i + 1] })
        return i + 1, put(put(v, i, s), i + 2, v[0]), w
      end, { df.int32(0), x, x })
      native({ v, w }, { [x] = ramp('float32', { 2 ^ k / 4, 4 }) })
    end
  end)

  it('some rows of which a trip changes are copied neither for one iteration nor for many at once', function()
    for k = 7, 16, 3 do
      df.reset()
      local x = df.placeholder('float64', { 2 ^ k / 4, 4 })
      local _, v = df.while_loop(function(i) return i:lt(40) end, function(i, v)
        return i + 1, df.tensor_scatter_add(v, df.reshape(i % 16, { 1, 1 }), df.reshape(v[i % 16] * 0.5, { 1, 4 }))
      end, { df.int32(0), x })
      local feeds = { [x] = ramp('float64', { 2 ^ k / 4, 4 }) }
      native(v, feeds)
      assert.is_nil(told(v, feeds):match 'many iterations at once')
    end
  end)

  it('take rows and elements that other variables are, in any order and under conds, and are native at any size', function()
    local chance = require('spec.chance').minimal
    local function one(i) return df.reshape(i, { 1, 1 }) end
    for seed = 1, support.sample(36, 600) do
      df.reset()
      local r, rows = chance(seed), ({ 24, 1000, 20000 })[seed % 3 + 1]
      local x = df.placeholder('float32', { rows, 4 })
      local order, way, place = { 'n', 'b', 'v', 'w' }, {}, {}
      for k = 4, 2, -1 do local j = r(k) order[k], order[j] = order[j], order[k] end
      for k = 0, 8 do way[k], place[k] = r(5), r(8) end
      local first = { n = df.float32(0.5), b = df.constant({ 1, 2, 3, 4 }, 'float32'), v = x, w = x * 2 }
      local vars = { df.int32(0) }
      for k, name in ipairs(order) do vars[k + 1] = first[name] end
      local results = { df.while_loop(function(i) return i:lt(9) end, function(i, ...)
        local now, nexts = {}, { i + 1 }
        for k, name in ipairs(order) do now[name] = select(k, ...) end
        local function put(t, k)
          local at = (i * place[k] + k) % 24
          if way[k] == 1 then return df.tensor_scatter_add(t, df.reshape(df.stack{ at, at % 4 }, { 1, 2 }), df.reshape(now.n, { 1 })) end
          local row = ({ now.b, now.b * now.n, now.w[at], now.v[at] })[way[k] - 1]
          return df.tensor_scatter_update(t, one(at), df.reshape(row, { 1, 4 }))
        end
        local function perhaps(t, k)
          if k == 0 then return t end
          local function changed()
            if way[k + 4] < 3 then return put(t, k) end
            if way[k + 4] == 3 then return put(put(t, k), k - 1) end
            return put(way[k + 4] == 4 and perhaps(t, k - 1) or t, k)
          end
          return df.cond((i % (way[k + 4] + 1)):lt(2), changed, function() return way[k + 4] == 5 and put(t, k + 1) or t end)
        end
        local new = { n = now.n * 0.5 + now.v[i][1], b = ({ now.v[i], now.b + now.w[i], now.w[i] * now.n })[place[5] % 3 + 1],
                      v = put(perhaps(now.v, 3), 2), w = perhaps(now.w, 2) }
        for k, name in ipairs(order) do nexts[k + 1] = new[name] end
        return (table.unpack or unpack)(nexts)
      end, vars) }
      local sums = {}
      for k = 2, 5 do
        local y = results[k]
        sums[k - 1] = df.reduce_sum(df.cast(y, 'float64') * df.cast(df.range(1, df.size(y) + 1), 'float64'):reshape(df.shape(y)))
      end
      native(sums, { [x] = ramp('float32', { rows, 4 }) })
    end
  end)

  it('are changed by the loop alone: what it was given, and what an earlier run gave, stays', function()
    local function put(v, i, row) return df.tensor_scatter_update(v, df.reshape(i, { 1, 1 }), df.reshape(row, { 1, 4 })) end
    for _, rows in ipairs{ 30, 40000 } do
      df.reset()
      local fed, w = df.placeholder('float32', { rows, 4 }), df.Variable(df.ones{ rows, 4 })
      local fixed, made = df.constant(2.0, 'float32', { rows, 4 }), df.tanh(fed)
      local function loop(x)
        local _, v, same, last = df.while_loop(function(i) return i:lt(20) end, function(i, v, same, last)
          return i + 1, put(v, i, v[i] + same[i + 1] + 1), same, v[i]
        end, { df.int32(0), x, x, df.zeros{ 4 } })
        return { v, v * 1, same, last }
      end
      local fetches, feeds = { fed, w:read_value(), fixed, made }, { [fed] = ramp('float32', { rows, 4 }) }
      for _, x in ipairs{ fed, w:read_value(), fixed, made, df.sin(fed) } do
        for _, y in ipairs(loop(x)) do fetches[#fetches + 1] = y end
      end
      local sum = {}
      for k, y in ipairs(fetches) do sum[k] = df.reduce_sum(df.cast(y, 'float64') * df.cast(df.range(1, df.size(y) + 1), 'float64'):reshape(df.shape(y))) end
      native(sum, feeds)
      local s = df.Session{ engine = 'native' }
      local first = s:run({ fetches[5], fetches[21] }, feeds)
      local before = { df.run(df.reduce_sum(first[1])), df.run(df.reduce_sum(first[2])) }
      s:run({ fetches[5], fetches[21] }, feeds)
      assert.same(before, { df.run(df.reduce_sum(first[1])), df.run(df.reduce_sum(first[2])) })
      s:close()
    end
  end)

  it('of more than 65,536 elements go to tokens where an inner loop changes them, and the reason says so', function()
    local x = df.placeholder('float32', { 20000, 4 })
    local _, v = df.while_loop(function(i) return i:lt(3) end, function(i, v)
      local _, u = df.while_loop(function(j) return j:lt(3) end, function(j, u)
        return j + 1, df.tensor_scatter_add(u, df.reshape(j, { 1, 1 }), df.ones{ 1, 4 })
      end, { df.int32(0), v })
      return i + 1, u
    end, { df.int32(0), x })
    local feeds = { [x] = ramp('float32', { 20000, 4 }) }
    assert.matches('tokens: .*it is float32%[20000,4%], and of so many elements only rows are written, in the outermost loop', told(v, feeds))
    same_under_both(v, feeds)
  end)

  it('go to tokens where copying them takes longer, and the reason has the numbers', function()
    local x = df.placeholder('float32', { 16384 })
    local _, v, sum = df.while_loop(function(i) return i:lt(9) end, function(i, v, sum)
      local now = df.cond((i % 3):eq(1), function() return df.tensor_scatter_nd_update(v, df.reshape(i, { 1, 1 }), df.reshape(v[i] + 2, { 1 })) end,
        function() return v end)
      return i + 1, now, sum + now[i]
    end, { df.int32(0), x, df.float32(0) })
    local feeds = { [x] = df.ones{ 16384 }:eval() }
    assert.matches('tokens: .*its variables have 64 kB, which native code would copy in each iteration', told({ v, sum }, feeds))
    same_under_both({ v, sum }, feeds)
  end)

  it('are native where tokens, too, compute them anew in each iteration', function()
    for _, n in ipairs{ 8192, 65536 } do
      df.reset()
      local x = df.placeholder('float32', { n })
      local _, v = df.while_loop(function(i) return i:lt(3) end, function(i, v) return i + 1, v * 0.5 + df.reduce_sum(v) - df.sin(v) end, { df.int32(0), x })
      native(v, { [x] = ramp('float32', { n }) })
    end
  end)

  it('of sizes from 16 to 4 million elements leave a loop that only reads them native', function()
    for k = 4, 22, 3 do
      df.reset()
      local x = df.placeholder('float32', { 2 ^ k / 4, 4 })
      local _, sum = df.while_loop(function(i) return i:lt(4) end, function(i, sum) return i + 1, sum + x[i] end, { df.int32(0), df.zeros{ 4 } })
      native(sum, { [x] = df.fill({ 2 ^ k / 4, 4 }, df.float32(k)):eval() })
    end
  end)

  it('that a loop carries are written to in place, so that a trip takes as much memory at any size', function()
    local core = require 'dflow.backend'
    local writes = {
      ['a row'] = function(v, i) return df.tensor_scatter_nd_update(v, df.reshape(i % 4, { 1, 1 }), df.fill({ 1, 4 }, df.cast(i, 'float32'))) end,
      ['sums in a row'] = function(v, i) return df.tensor_scatter_nd_add(v, df.reshape(i % 4, { 1, 1 }), df.fill({ 1, 4 }, df.cast(i, 'float32'))) end,
      ['every element'] = function(v) return df.tanh(v * 0.5 + 1) end,
    }
    for _, engine in ipairs{ 'tokens', 'native' } do
      for name, write in pairs(writes) do
        for k = 4, 18, 7 do
          df.reset()
          local trips, x = df.placeholder 'int32', df.placeholder('float32', { 2 ^ k / 4, 4 })
          local _, v = df.while_loop(function(i) return i:lt(trips) end, function(i, v) return i + 1, write(v, i) end, { df.int32(0), x })
          local last, s = df.reduce_sum(v), df.Session{ engine = engine, threads = 1 }
          local given = df.run(df.zeros{ 2 ^ k / 4, 4 })
          local function allocated(n)
            local before = select(4, core.memory())
            s:run(last, { [x] = given, [trips] = n })
            return select(4, core.memory()) - before
          end
          allocated(8)
          local each = (allocated(264) - allocated(8)) / 256
          assert.is_true(each < 2048, ('%s of 2^%d elements, %s: %d bytes a trip'):format(name, k, engine, each))
          s:close()
        end
      end
    end
  end)
end)

describe('loops over tensors of 2^4 to 2^22 elements', function()
  local bodies = {
    ['a choice and a product'] = function(x) return df.where(x:gt(0.5), x * 0.5, x + 0.25) end,
    ['a sum'] = function(x) return x * 0.5 + df.reduce_sum(x) * 1e-9 end,
    ['a roll'] = function(x) return df.roll(x, df.int32(1), df.int32(0)) * 0.5 end,
    ['a shift'] = function(x, _, n) return df.concat({ x:slice({ 1 }, { n - 1 }), x:slice({ 0 }, { 1 }) }, 0) end,
    ['picked elements'] = function(x, at) return df.gather(x, at) * 0.5 end,
    ['exponentials'] = function(x) return df.exp(-x) end,
  }
  --- Processor time of an element: the least of several runs of each fetch, turn about.
  local function measured(s, fetches, elements)
    local best = {}
    for _ = 1, 8 do
      for k, y in ipairs(fetches) do
        local begun = os.clock()
        s:run(y)
        best[k] = math.min(best[k] or math.huge, (os.clock() - begun) / elements[k])
      end
    end
    return best
  end

  it('spend at no size more on an element than at a smaller one, or than the ops take outside of a loop', function()
    local STEP = 1.3
    for name, body in pairs(bodies) do
      df.reset()
      local s = df.Session{ engine = 'native', threads = 1 }
      local least = 0
      for power = 4, 22, 2 do
        local n = math.floor(2 ^ power)
        local trips, times = math.max(2, math.floor(2 ^ 19 / n)), math.max(1, math.min(16, math.floor(2 ^ 14 / n)))
        local x, at = df.Variable(df.fill({ n }, 0.75)), df.Variable((df.range(n) * 7 + 3) % n)
        local _, y = df.while_loop(function(i) return i:lt(trips) end, function(i, v) return i + 1, body(v, at, n) end, { df.int32(0), x })
        local straight = x
        for _ = 1, times do straight = body(straight, at, n) end
        local fetches, elements = { y[0], straight[0] }, { n * trips, n * times }
        for _ = 1, trips > 100 and 40 or 2 do for _, f in ipairs(fetches) do s:run(f) end end
        local each = { math.huge, 0 }
        for _ = 1, 12 do                                      -- the least goes down with more samples, and is never too low
          local now = measured(s, fetches, elements)
          each = { math.min(each[1], now[1]), math.max(each[2], now[2]) }
          if each[1] <= STEP * math.max(least, each[2]) then break end
        end
        assert(each[1] <= STEP * math.max(least, each[2]), ('%s of 2^%d elements: %.3f ns each, %.3f with fewer, %.3f outside of a loop')
          :format(name, power, each[1] * 1e9, least * 1e9, each[2] * 1e9))
        least = math.max(least, each[1])
      end
      s:close()
    end
  end)
end)
