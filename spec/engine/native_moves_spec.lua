--- Ops that only put elements elsewhere, in native loops: the bits, the ends and the errors of tokens.
local df = require 'dflow'
local support = require 'spec.support'
local shell = require 'spec.shell'

local function ran(engine, fetches, feeds)
  local s = df.Session{ engine = engine }
  local ok, found = pcall(s.run, s, fetches, feeds)
  local told = s:native()
  s:close()
  return ok and { found = support.bits(found) } or { error = found.message, op = found.op, frame = found.frame, source = found.source }, told
end

--- Equal bits or the same error, in a loop that native code takes.
local function same(fetches, feeds, what)
  local a, told = ran('native', fetches, feeds)
  assert.same(ran('tokens', fetches, feeds), a, what)
  assert.matches('native: variables', told, what)
  return a
end

--- A loop over i whose body makes the next of a vector variable.
local function loop(trips, x, body)
  local _, y = df.while_loop(function(i) return i:lt(trips) end, function(i, v) return i + 1, body(v, i) end, { df.int32(0), x })
  return y
end

describe('elements that are put elsewhere', function()
  local function numbers(dtype, dims)
    local n = 1
    for _, d in ipairs(dims) do n = n * d end
    local list = {}
    for k = 1, n do list[k] = (k * 7) % 11 - 4 + (dtype:find 'float' and 0.25 or 0) end
    if dtype:find 'float' then list[1], list[n] = -0.0, 0 / 0 end
    return df.tensor(list, dtype, dims)
  end

  it('stand side by side along each axis, numbers among them', function()
    for _, dtype in ipairs{ 'float32', 'float64', 'int32', 'int64' } do
      local x = df.placeholder(dtype, { 2, 3 })
      local feeds = { [x] = numbers(dtype, { 2, 3 }) }
      local ys = {}
      for axis = -2, 1 do
        ys[#ys + 1] = loop(5, x, function(v, i)
          local c = df.cast(i, dtype)
          local wide = df.concat({ v, v + c, v }, axis)
          return axis % 2 == 0 and wide:slice({ 1, 0 }, { 2, 3 }) or wide:slice({ 0, 2 }, { 2, 3 })
        end)
      end
      for axis = -3, 2 do
        ys[#ys + 1] = loop(5, x, function(v, i)
          return df.reshape(df.stack({ v, v * df.cast(i, dtype) }, { axis = axis }), { 4, 3 }):slice({ 1, 0 }, { 2, 3 })
        end)
      end
      ys[#ys + 1] = loop(4, x, function(v, i)
        local c = df.cast(i, dtype)
        return v + df.stack({ c, c + c, v[0][1] }) + df.expand_dims(df.expand_dims(c, 0), 0) + df.reshape(v[1][2], { 1, 1 })
      end)
      same(ys, feeds, dtype)
    end
    local p = df.placeholder('bool', { 3 })
    same(loop(4, p, function(v, i) return df.stack{ v[1], (i % 2):eq(1), v[0] } end), { [p] = df.tensor({ true, false, true }, 'bool') })
  end)

  it('are rows that a list of indices names, and ones among zeros', function()
    for _, index in ipairs{ 'int32', 'int64' } do
      local x, at = df.placeholder('float32', { 5, 2 }), df.placeholder(index, { 5 })
      local feeds = { [x] = numbers('float32', { 5, 2 }), [at] = df.tensor({ 4, 0, 0, 2, 3 }, index) }
      local big = df.constant(0.5, 'float32', { 3000, 2 })                      -- captured: it stays where it is
      local function turned(i) return df.floormod(at + df.cast(i, index), 5) end
      same({ loop(6, x, function(v, i) return df.gather(v, turned(i)) end),
             loop(6, x, function(v, i) return v + df.gather(big, turned(i) * 500) end),
             loop(6, x, function(v, i) return df.gather(v, df.reshape(turned(i), { 5, 1 }))[2] + v end),
             loop(6, x, function(v, i) return v + df.one_hot(turned(i) - 1, 2, 1.5, -0.5) end),
             loop(6, x, function(v, i) return v + df.one_hot(df.cast(i, index) - 2, 2) end) }, feeds, index)
    end
  end)

  it('are what indices name along each axis, one index or many', function()
    for _, index in ipairs{ 'int32', 'int64' } do
      local x, at = df.placeholder('float32', { 4, 3, 5 }), df.placeholder(index, { 2, 2 })
      local feeds, ys = { [x] = numbers('float32', { 4, 3, 5 }), [at] = df.tensor({ 2, 0, 1, 1 }, index, { 2, 2 }) }, {}
      for axis = -3, 2 do
        ys[#ys + 1] = loop(6, x, function(v, i)
          local k = df.cast(i, index)
          local one, some = df.gather(v, k % 3, axis), df.gather(v, df.floormod(at + k, 3), axis)
          return v * 0.5 + df.expand_dims(one, axis) + df.reshape(df.reduce_sum(df.reshape(some, { -1 })), { 1, 1, 1 })
        end)
      end
      same(ys, feeds, index)
      same(loop(9, x, function(v, i) return v + df.expand_dims(df.gather(v, df.cast(i, index), 1), 1) end), feeds, index .. ' outside')
    end
  end)

  it('are cut, turned, padded, rolled, mirrored and split as shapes and constants say', function()
    local I = df.int32
    local ops = {
      function(v) return v:slice({ 1, 0, 2 }, { 2, 2, 3 }) end, function(v) return v[2] end, function(v) return v[1][0][3] end,
      function(v) return v:strided_slice({ 2, 0, 4 }, { 0, 2, 0 }, { -1, 1, -2 }) end, function(v) return v[{ 0, 1 }] end,
      function(v) return df.strided_slice(v, { 0, 1 }, { 0, 0 }, { 1, 1 }, { begin_mask = 1, end_mask = 1, shrink_axis_mask = 2 }) end,
      function(v) return df.transpose(v) end, function(v) return df.transpose(v, { 1, 2, 0 }) end, function(v) return df.tile(v, { 2, 1, 3 }) end,
      function(v) return df.pad(v, { { 1, 0 }, { 0, 2 }, { 3, 1 } }) end, function(v) return df.mirror_pad(v, { { 1, 1 }, { 0, 1 }, { 2, 2 } }) end,
      function(v) return df.mirror_pad(v, { { 1, 1 }, { 1, 0 }, { 2, 2 } }, { mode = 'SYMMETRIC' }) end,
      function(v) return df.pad_v2(v, { { 0, 0 }, { 1, 1 }, { 0, 0 } }, v[0][0][1]) end, function(v) return df.reverse(v, { 0, 2 }) end,
      function(v) return df.roll(v, { 1, -2 }, { 0, 2 }) end, function(v) return df.roll(v, I(1), I(1)) end,
      function(v) return df.unpack(df.split(v, 3, { axis = 0 })) end, function(v) return select(2, df.unpack(df.split(v, { 1, 4 }, { axis = 2 }))) end,
      function(v) return select(2, df.unpack(df.unstack(v, { axis = 1 }))) end, function(v) return (df.unpack(df.unstack(v[0][1]))) end,
      function(v, i) return v:slice(df.stack{ i % 2, 0, i % 3 }, { 2, 1, 3 }) end, function(v, i) return v:slice(df.stack{ i, 0, 0 }, { 1, 2, 1 }) end,
    }
    for _, dtype in ipairs{ 'float64', 'int32', 'bool' } do
      local x = dtype == 'bool' and df.constant(numbers('float32', { 3, 2, 5 })):gt(0) or df.constant(numbers(dtype, { 3, 2, 5 }))
      for at, op in ipairs(ops) do
        local function sum(w)
          local n = 1
          for _, d in ipairs(w.shape) do n = n * d end
          return df.reduce_sum(df.reshape(df.cast(w, 'float64'), { -1 }) * df.cast(df.range(n) % 7 + 1, 'float64'))
        end
        local _, _, far, seen = df.while_loop(function(i) return i:lt(6) end, function(i, v, s, seen)
          local w = op(v, i)
          local turned = dtype == 'bool' and df.logical_not(v) or v + df.cast(i, dtype)
          return i + 1, turned, s + sum(op(x, i)), seen + sum(w)
        end, { I(0), x, df.float64(0), df.float64(0) })
        if dtype:find 'float' then
          local g = df.gradients(seen, x)
          same({ far, seen, g }, nil, ('%s, op %d'):format(dtype, at))
        else same({ far, seen }, nil, ('%s, op %d'):format(dtype, at)) end
      end
    end
  end)

  it('come again and again', function()
    for _, dtype in ipairs{ 'float32', 'float64', 'int32', 'int64', 'bool', 'uint8' } do
      local function made(dims)
        local list, n = {}, 1
        for _, d in ipairs(dims) do n = n * d end
        for k = 1, n do list[k] = dtype == 'bool' and k % 3 == 0 or dtype ~= 'bool' and (k * 7) % 11 end
        return df.tensor(list, dtype, dims)
      end
      for _, case in ipairs{ { { 3, 1, 4 }, { 3, 2, 4 } }, { { 4 }, { 3, 2, 4 } }, { { 3, 1, 1 }, { 3, 2, 4 } }, { { 2, 1 }, { 3, 2, 4 } }, { { 1, 2, 1 }, { 3, 2, 4 } },
                             { { 3, 2, 4 }, { 3, 2, 4 } }, { { 1 }, { 5 } }, { { 1, 1 }, { 2, 1, 1 } }, { { 2, 1, 3, 1 }, { 2, 2, 3, 2 } }, { { 70 }, { 2, 70 } } } do
        local x = df.placeholder(dtype, case[1])
        same(loop(4, df.broadcast_to(x, case[2]), function(v)
          local small = v
          for axis = 0, #case[2] - #case[1] - 1 do small = df.gather(small, 0, 0) end
          for axis, d in ipairs(case[1]) do if d == 1 then small = df.slice(small, (function() local z = {} for k = 1, #case[1] do z[k] = 0 end return z end)(),
            (function() local z = {} for k = 1, #case[1] do z[k] = k == axis and 1 or -1 end return z end)()) end end
          local wide = df.broadcast_to(small, case[2])
          if dtype == 'bool' then return df.logical_xor(wide, v) end
          return wide + v
        end), { [x] = made(case[1]) }, dtype .. ' ' .. table.concat(case[1], ','))
      end
      if dtype ~= 'bool' then
        local n = df.placeholder(dtype, {})
        same(loop(4, df.broadcast_to(n, { 3, 2 }), function(v, i) return v + df.broadcast_to(df.cast(i, dtype), { 3, 2 }) end), { [n] = 3 }, dtype)
      end
      for _, dims in ipairs{ { 1 }, { 1, 8 }, { 3, 21 }, { 64 }, { 65 } } do
        same(loop(5, made(dims), function(v, i)
          local like = df.fill(dims, dtype == 'bool' and i:gt(2) or df.cast(i, dtype))
          if dtype == 'bool' then return df.logical_xor(like, v) end
          return df.fill(dims, df.reshape(v, { -1 })[0]) + like
        end), nil, dtype .. ' ' .. table.concat(dims, ','))
      end
    end
  end)

  it('are written over in a copy, one by one, row by row', function()
    for _, index in ipairs{ 'int32', 'int64' } do
      for _, dtype in ipairs{ 'float32', 'float64', 'int32', 'int64' } do
        local x = df.placeholder(dtype, { 4, 3 })
        local feeds = { [x] = numbers(dtype, { 4, 3 }) }
        local function put(f, v, where, what) return f(v, where, df.cast(what, dtype)) end
        same({ loop(9, x, function(v, i)
                 return put(df.tensor_scatter_update, v, df.reshape(df.cast(i % 4, index), { 1, 1 }), df.expand_dims(v[1] + v[0], 0))
               end),
               loop(9, x, function(v, i)
                 local k = df.cast(i % 3, index)
                 return put(df.tensor_scatter_add, v, df.stack({ df.stack{ k + 1, k } }), df.expand_dims(v[2][1], 0))
               end),
               loop(9, x, function(v, i)
                 return put(df.tensor_scatter_add, v, df.reshape(df.cast(i % 4, index), { 1, 1 }), df.expand_dims(v[3], 0))
               end),
               loop(9, x, function(v, i)                                          -- the last of equal ones stays
                 local k = df.cast(i % 4, index)
                 return put(df.tensor_scatter_update, v, df.reshape(df.stack{ k, k, (k + 1) % 4 }, { 3, 1 }), df.stack{ v[0], v[3], v[1] })
               end),
               loop(9, x, function(v, i)                                          -- equal ones are added one after the other
                 local k = df.cast(i % 4, index)
                 return put(df.tensor_scatter_add, v, df.reshape(df.stack{ k, (k + 1) % 4, k, k }, { 4, 1 }), df.stack{ v[0], v[3], v[1], v[2] })
               end) }, feeds, dtype .. ' by ' .. index)
      end
    end
  end)

  it('are written over where the variable lies, which all else of the iteration sees as it was', function()
    local function put(v, k, row) return df.tensor_scatter_update(v, df.reshape(k, { 1, 1 }), df.expand_dims(row, 0)) end
    local function more(v, k, row) return df.tensor_scatter_add(v, df.reshape(k, { 1, 1 }), df.expand_dims(row, 0)) end
    for _, dtype in ipairs{ 'float32', 'float64', 'int32', 'int64' } do
      local x, y, last = df.placeholder(dtype, { 6, 20 }), df.placeholder(dtype, { 6, 20 }), df.placeholder('int32', {})
      local feeds = { [x] = numbers(dtype, { 6, 20 }), [y] = numbers(dtype, { 6, 20 }) }
      local function two(body)
        local _, a, b, c = df.while_loop(function(i) return i:lt(last) end, function(i, a, b, c) return i + 1, body(a, b, i, c) end,
          { df.int32(0), x, y, df.zeros({ 20 }, dtype) })
        return { a, b, c }
      end
      local cases = {
        two(function(a, b, i, c) return put(a, i % 6, a[(i + 1) % 6] + b[2]), more(b, i % 5, a[i % 6]), c + a[i % 6] end),
        two(function(a, b, i, c) return put(put(a, i % 6, b[1]), (i + 1) % 6, a[3]), more(put(b, df.int32(2), c), df.int32(2), a[i % 6]), b[2] end),
        two(function(a, b, i, c) return put(b, i % 6, c), put(a, i % 6, c + 1), a[i % 6] - c end),                   -- they change places
        two(function(a, b, i, c) return put(a, i % 6, c), a, df.reduce_sum(put(b, df.int32(1), c), 0) end),                    -- as it was, elsewhere
        two(function(a, b, i, c)                                                                                     -- what is made is read
          local now = put(a, i % 6, c + 1)
          return now, b + now, now[i % 6]
        end),
        two(function(a, b, i, c)                                                                                     -- rows of another variable
          return df.tensor_scatter_update(a, df.stack{ df.stack{ i % 6 }, df.stack{ (i * 2) % 6 } }, df.reshape(df.stack{ c, b[0] }, { 2, 20 })),
            df.tensor_scatter_update(b, df.reshape(i % 6, { 1, 1 }), df.reshape(c, { 1, 20 })), c + 1
        end),
        two(function(a, b, i, c)                                                                                     -- several rows, one of them twice
          local k = df.reshape(df.stack{ i % 6, (i * 2) % 6, i % 6 }, { 3, 1 })
          return df.tensor_scatter_add(a, k, df.stack{ a[0], c, b[1] }), more(df.tensor_scatter_add(b, k, df.stack{ c, a[2], c }), i % 6, c), c + 1
        end),
        two(function(a, b, i, c)                                                                                     -- in one branch
          return df.cond((i % 3):eq(1), function() return put(a, i % 6, c) end, function() return a end), put(b, i % 6, a[i % 6]), c + b[3]
        end),
        two(function(a, b, i, c)                                                                                     -- by an inner loop
          local _, inner, sum = df.while_loop(function(j) return j:lt(i % 4) end, function(j, v, s) return j + 1, more(v, j, s), s + v[j] + a[j] end,
            { df.int32(0), b, c })
          return put(a, i % 6, inner[i % 5]), inner, sum + b[1]
        end),
      }
      for k, case in ipairs(cases) do
        for _, n in ipairs{ 0, 1, 2, 13 } do
          feeds[last] = n
          same(case, feeds, ('case %d of %s, %d trips'):format(k, dtype, n))
        end
      end
    end
  end)

  it('have not been written over where something fails later in the iteration', function()
    local x, bad = df.placeholder('float32', { 6, 20 }), df.placeholder('int32', {})
    local function put(v, k, row) return df.tensor_scatter_add(v, df.reshape(k, { 1, 1 }), df.expand_dims(row, 0)) end
    local feeds = { [x] = numbers('float32', { 6, 20 }) }
    local ta = df.TensorArray('float32', 20)
    for k, fails in ipairs{
      function(v, i) return v[(i % 6) + df.cast(i:eq(bad), 'int32') * 6] end,
      function(v, i)
        local _, s = df.while_loop(function(j) return j:lt(4) end, function(j, s)
          return j + 1, s + v[j + df.cast((i:eq(bad)):logical_and(j:eq(2)), 'int32') * 9]
        end, { df.int32(0), df.zeros{ 20 } })
        return s
      end,
    } do
      local _, v, seen = df.while_loop(function(i) return i:lt(20) end, function(i, v, seen)
        local new = put(v, i % 6, v[0] + df.cast(i, 'float32'))
        local got = fails(v, i)
        return i + 1, new, seen:write(i, got)
      end, { df.int32(0), x, ta })
      for _, n in ipairs{ 0, 1, 7, 19, 99 } do
        feeds[bad] = n
        local found = same({ v, seen:stack() }, feeds, ('case %d, %d'):format(k, n))
        assert.equal(n < 20, found.error ~= nil)
      end
    end
  end)

  it('are added once where native code is left in the middle of an iteration, and entered again', function()
    local r = shell.run(('for n in 1 2 3; do DFLOW_STRESS=osr:$n %s -e %s; done'):format(shell.dflow, shell.quote[==[
      local function more(v, k, row) return df.tensor_scatter_add(v, df.reshape(k, { 1, 1 }), df.expand_dims(row, 0)) end
      local x = df.constant(df.run(df.reshape(df.range(0., 120., 1.), { 6, 20 })))
      local _, v, w = df.while_loop(function(i) return i:lt(60) end, function(i, v, w)
        local _, u, s = df.while_loop(function(j) return j:lt(20) end, function(j, u, s) return j + 1, more(u, j % 5, v[j % 6]), s + u[j % 3] end,
          { df.int32(0), w, v[0] })
        return i + 1, more(more(v, i % 6, s * 1e-3), (i + 1) % 6, v[i % 5]), u * 0.5
      end, { df.int32(0), x, x })
      local found = {}
      for _, engine in ipairs{ 'tokens', 'native' } do
        local s = df.Session{ engine = engine }
        found[engine] = table.concat(s:run(df.reshape(df.concat({ v, w }, 0), { 240 })):totable(), ' ')
        assert(engine == 'tokens' or s:native():match 'native: variables', s:native())
      end
      io.write(tostring(found.tokens == found.native), ' ')
    ]==]))
    assert.equal('true true true ', r.out, r.err)
  end)

  it('are found where the greatest and the least is, the first of equals and of NaN', function()
    for _, dtype in ipairs{ 'float32', 'float64', 'int32', 'int64', 'uint8' } do
      for _, dims in ipairs{ { 5 }, { 1 }, { 2, 4 }, { 2, 2, 2 }, { 7, 3 } } do
        local n = 1
        for _, d in ipairs(dims) do n = n * d end
        local x = df.placeholder(dtype, dims)
        local function of(v, most, axis, t) return df.cast((most and df.argmax or df.argmin)(v, axis, { output_type = t }), 'float32') end
        local ys = {}
        for axis = -#dims, #dims - 1 do
          local function sum(v, most, t) return df.reduce_sum(of(v, most, axis, t) * 3) end
          ys[#ys + 1] = select(2, df.while_loop(function(i) return i:lt(6) end, function(i, s, v)
            local turned = df.reshape(df.gather(df.reshape(v, { n }), df.floormod(df.range(n) * 5 + i, n)), dims)
            return i + 1, s * 2 + sum(turned, true, 'int32') + sum(turned, false, 'int64') + sum(v, i == nil, 'int64'), turned
          end, { df.int32(0), df.float32(0), x }))
        end
        local odd = {}
        for k = 1, n do odd[k] = (k * 7) % 5 end
        same(ys, { [x] = df.tensor(odd, dtype, dims) }, dtype)
        if dtype:find 'float' then
          for k, v in pairs{ [1] = -0.0, [2] = 0 / 0, [4] = 1 / 0, [5] = -1 / 0, [6] = 0 / 0, [8] = 1e-42 } do if k <= n then odd[k] = v end end
          same(ys, { [x] = df.tensor(odd, dtype, dims) }, dtype)
          for k = 1, n do odd[k] = k % 2 == 0 and 1e-42 or 0 end
          same(ys, { [x] = df.tensor(odd, dtype, dims) }, dtype)
        end
      end
    end
  end)

  it('are added up, and their mean taken, in the order of the kernels however few they are', function()
    local lists = { { 1e8, 1, -1e8 }, { -0.0, -0.0, -0.0 }, { 0 / 0, 1, 2 }, { 1 / 0, -1 / 0, 3 }, { 1e-40, -1e-41, 3e-42 }, { 0.1, 0.7, 3e38 } }
    for _, dtype in ipairs{ 'float32', 'float64', 'int32', 'int64' } do
      for n = 1, 9 do
        df.reset()
        local x = df.placeholder(dtype, { n })
        local y = loop(3, x, function(v)
          local column, row = df.reshape(v, { n, 1 }), df.reshape(v, { 1, n })
          local all = df.reduce_sum(v) + df.reduce_mean(v, 0) - df.reduce_sum(column) * 3 + df.reduce_mean(row)
          return v + all + df.reduce_sum(row, 1, true)[0] - df.reshape(df.reduce_mean(column, 0, true), { 1 }) - df.reduce_sum(column, 1)
        end)
        for _, list in ipairs(dtype:find 'float' and lists or { { 7, -2, 5 }, { 2^31 - 1, 2^31 - 2, -2^31 } }) do
          local values = {}
          for k = 1, n do values[k] = list[(k - 1) % #list + 1] end
          same(y, { [x] = df.tensor(values, dtype) }, dtype .. n)
        end
        if dtype:find 'float' and n < 5 then
          local g = df.gradients(y, x)
          same({ y, g }, { [x] = df.tensor({ (table.unpack or unpack)({ 0.5, -2, 3, 0.25 }, 1, n) }, dtype) }, 'gradient' .. n)
        end
      end
    end
    df.reset()
    local x, axis = df.placeholder('float32', { 3 }), df.placeholder('int32', {})
    local y = loop(3, x, function(v) return v + df.reduce_sum(v, axis, true) * 0.5 end)
    local function both(at)
      local feeds = { [x] = df.tensor({ 1, 2, 3 }, 'float32'), [axis] = at }
      assert.same(ran('tokens', y, feeds), (ran('native', y, feeds)))
    end
    both(0) both(1)
  end)

  it('with an index outside are the error of tokens, of its iteration', function()
    local x = df.placeholder('float32', { 4 })
    local feeds = { [x] = numbers('float32', { 4 }) }
    local function of(i) return df.reshape(i - 3, { 1 }) end
    for k, y in ipairs{
      loop(9, x, function(v, i) return v + df.gather(v, of(i + 3)) end),
      loop(9, x, function(v, i) return v * df.gather(v, of(i)) end),
      loop(9, x, function(v, i) return df.tensor_scatter_update(v, df.reshape(i, { 1, 1 }), { 2 }) end),
      loop(9, x, function(v, i) return df.tensor_scatter_add(v, df.reshape(2 - i, { 1, 1 }), { 2 }) end),
    } do
      local found = same(y, feeds, 'case ' .. k)
      assert.is_truthy(found.error, 'case ' .. k)
      assert.is_truthy(found.frame, 'case ' .. k)
    end
  end)

  it('fill arrays and are read from arrays, many iterations at once', function()
    local n = df.placeholder('int32', {})
    local _, a = df.while_loop(function(i) return i:lt(n) end, function(i, a)
      local c = df.cast(i, 'float32')
      return i + 1, a:write(i, df.stack{ c, c * 2, c * c } + df.gather({ 1.0, 2.0, 3.0 }, df.stack{ i % 3, (i + 1) % 3, 0 }))
    end, { df.int32(0), df.TensorArray('float32', n) })
    for _, trips in ipairs{ 1, 7, 500 } do same(a:stack(), { [n] = trips }) end
  end)

  it('have their gradients', function()
    local x = df.placeholder('float32', { 4 })
    local y = loop(5, x, function(v, i)
      local w = df.tensor_scatter_update(v * 1.5, df.reshape(i % 4, { 1, 1 }), { 0.5 })
      return df.tanh(df.gather(df.concat({ w, v:slice({ 0 }, { 2 }) }, 0), df.stack{ i % 6, (i + 2) % 6, 1, 3 }))
    end)
    same({ y, df.gradients(y:reduce_sum(), x) }, { [x] = df.tensor({ 0.5, -1, 2, 0.25 }, 'float32') })
  end)
end)

describe('rows of arrays that are more than a few numbers', function()
  local n, width = 24, 2048                                     -- 8 KB each
  local function rows() return df.constant(0.5, 'float32', { n, width }) * df.expand_dims(df.cast(df.range(n), 'float32') - 5, 1) end
  local function filled(order, row, more)
    local xs, ta = rows(), df.TensorArray('float32', n)
    local _, out, seen = df.while_loop(function(i) return i:lt(n) end, function(i, out, seen)
      local r = row(xs[i], i)
      out = out:write(order(i), r)
      if more then out, seen = more(out, seen, r, i) end
      return i + 1, out, seen
    end, { df.int32(0), ta, df.float32(0) })
    return { out:stack(), seen }
  end
  local function same_number(i) return i end

  it('are made where they are stacked, up or down, read meanwhile, or of a kernel', function()
    local product = df.constant(0.25, 'float32', { width, width }) * df.cast(df.range(width), 'float32')
    same(filled(same_number, function(r, i) return r * df.cast(i, 'float32') + 1 end))
    same(filled(function(i) return n - 1 - i end, function(r) return df.tanh(r) end))
    same(filled(same_number, function(r) return df.reshape(df.matmul(df.expand_dims(r, 0), product), { width }) end))
    same(filled(same_number, function(r) return r * 2 end, function(out, seen, r, i) return out, seen + df.reduce_sum(r) + out:read(df.floordiv(i, 2))[3] end))
    same(filled(function(i) return (i * 7) % n end, function(r) return r - 3 end, function(out, seen) return out, seen + 1 end))
  end)

  it('have the errors of tokens where one is written twice, outside, or after something failed', function()
    local function failed(...) return assert.truthy(same(filled(...)).error) end
    failed(function(i) return i % 20 end, function(r) return r * 3 end)
    failed(function(i) return i + 1 end, function(r) return r * 3 end)
    failed(same_number, function(r) return r * 3 end, function(out, seen, r, i) return out, seen + df.cast(df.floordiv(df.int32(7), 15 - i), 'float32') end)
  end)

  it('are not copied to be stacked', function()
    local s = df.Session{ engine = 'native' }
    local stacked = df.reduce_sum(df.map_fn(function(r) return r * 2 + 1 end, rows()), 0)
    for _ = 1, 3 do s:run(stacked) end
    local before = s:stats().memory['cpu:0'].in_use
    s:run(stacked)
    assert.is_true(s:stats().memory['cpu:0'].peak - before < 2.6 * n * width * 4)
    s:close()
  end)
end)
