--- Small tensors of known shape in hot loops as machine code: the numbers, errors and counts of the token engine, bit for bit.
local df = require 'dflow'
local shell = require 'spec.shell'
local same_under_both = require 'spec.engines'.same_under_both

--- Runs under both engines; each loop is to have been compiled.
local function compiled_and_same(fetches, feeds)
  local s = df.Session{ engine = 'native' }
  pcall(s.run, s, fetches, feeds)
  assert.is_nil(s:native():match '[^\n]*tokens:[^\n]*')
  s:close()
  return same_under_both(fetches, feeds)
end

local function numbers(n, scale)
  local t = {}
  for i = 1, n do t[i] = math.sin(i * 1.37) * (scale or 1) end
  return t
end

local it = require('spec.support').native_it(it, pending)        -- loops are compiled on the host

describe('small tensors in native code', function()
  for _, n in ipairs{ 1, 3, 8, 16, 17, 64, 65, 130, 1000 } do
    it(('are computed as tokens compute them: %d elements'):format(n), function()
      local x0 = df.placeholder('float32', { n })
      local function body(i, x, y)
        local a = df.maximum(x * 0.75 + y, -y) - df.square(x) / (df.abs(y) + 1.5)
        local b = df.select(a:gt(x), a, x + 0.25)
        return i + 1, df.tanh(b) + df.floor(a), df.sigmoid(y) * df.sqrt(df.abs(a)) - df.cast(i, 'float32')
      end
      local out = { df.while_loop(function(i) return i:lt(9) end, body, { df.int32(0), x0, x0 * 2 }) }
      compiled_and_same(out, { [x0] = numbers(n, 3) })
      if n > 1 then
        local odd = numbers(n)
        odd[1], odd[2], odd[3] = 1 / 0, 0 / 0, 1e-41
        compiled_and_same(out, { [x0] = odd })
      end
    end)
  end

  it('are computed as tokens compute them: what is called, element by element', function()
    local x0 = df.placeholder('float32', { 5 })
    for _, f in ipairs{ function(x) return df.pow(df.abs(x), 1.5) end, function(x) return x % 0.3 end, df.lgamma, df.digamma, df.erfc } do
      local _, y = df.while_loop(function(i) return i:lt(9) end, function(i, x) return i + 1, f(x) * 0.5 + x * 0.25 end, { df.int32(0), x0 })
      compiled_and_same({ y }, { [x0] = { 0.3, 0.7, 1.5, 2.25, -0.6 } })
    end
  end)

  for _, t in ipairs{ 'float64', 'int32', 'int64' } do
    it('are computed as tokens compute them: ' .. t, function()
      local x0 = df.placeholder(t, { 5 })
      local function body(i, x, y)
        local c = df.logical_and(x:le(y), df.logical_not(x:eq(y)))
        return i + 1, df.select(c, x * 3 - y, df.minimum(x, y) + 1), df.abs(y) - df.cast(c, t) + df.cast(df.cast(x, 'float32') * 0.5, t)
      end
      local out = { df.while_loop(function(i) return i:lt(20) end, body, { df.int32(0), x0, x0 + 2 }) }
      compiled_and_same(out, { [x0] = { 3, -7, 0, 100, -1 } })
    end)
  end

  for _, t in ipairs{ 'uint8', 'int8', 'int16', 'uint16', 'uint32', 'uint64', 'float16', 'bfloat16', 'bool' } do
    it('are moved, chosen, saved and computed as tokens do: ' .. t, function()
      for _, n in ipairs{ 4, 50 } do
        df.reset()
        local x0, captured = df.placeholder(t, { 6, n }), df.placeholder(t, { 40, n })
        local list = {}
        for k = 1, 40 * n do list[k] = t == 'bool' and k % 3 == 1 or t ~= 'bool' and (k * 7) % 11 end
        local feeds = { [x0] = df.tensor({ df.unpack(list, 1, 6 * n) }, t, { 6, n }), [captured] = df.tensor(list, t, { 40, n }) }
        local function computed(x, y)
          if t == 'bool' then return df.logical_or(df.logical_and(x, df.logical_not(y)), x:eq(y)) end
          local a = df.maximum(x * y + x, y) - df.minimum(x, y)
          return df.select(a:gt(x), a, df.cast(df.cast(y, 'float32') * 0.5, t)) + df.cast(x:eq(y), t)
        end
        local rows = df.TensorArray(t, 9)
        local _, a, b, c, out = df.while_loop(function(i) return i:lt(9) end, function(i, a, b, c, out)
          local row = df.cond((i % 3):eq(1), function() return captured[i * 2] end, function() return a[i % 6] end)
          local _, inner = df.while_loop(function(j) return j:lt(2) end, function(j, v) return j + 1, computed(v, captured[j + i]) end, { df.int32(0), row })
          local at = df.reshape(i % 6, { 1, 1 })
          local new = df.tensor_scatter_update(a, at, df.expand_dims(inner, 0))
          local beside = df.concat({ df.expand_dims(row, 0), df.gather(captured, df.stack{ i, i + 3, i, i + 5 }), df.stack{ b } }, 0)
          return i + 1, computed(new, beside), df.reshape(df.stack{ row, inner }, { 2 * n }):slice({ 3 }, { n }), computed(c, a), out:write(i, inner)
        end, { df.int32(0), x0, captured[7], x0, rows })
        compiled_and_same({ a, b, c, out:stack(), out:read(3) }, feeds)
      end
    end)
  end

  it('are broadcast: numbers, rows and columns', function()
    local x0, row, column = df.placeholder('float32', { 3, 4 }), df.placeholder('float32', { 4 }), df.placeholder('float32', { 3, 1 })
    local function body(i, x) return i + 1, (x * row - column) * df.float32{ 0.5 } + df.exp(column) * 0.25 + df.sin(row) end
    local out = { df.while_loop(function(i) return i:lt(7) end, body, { df.int32(0), x0 }) }
    local x = { numbers(4), numbers(4, 2), numbers(4, -1) }
    compiled_and_same(out, { [x0] = x, [row] = { 1, -2, 0.5, 0 }, [column] = { { 3 }, { -1 }, { 0.1 } } })
  end)

  it('are broadcast by whole pieces, and by parts of them', function()
    for _, dims in ipairs{ { 3, 32, 16 }, { 2, 5, 48 }, { 64, 3, 1 }, { 7, 16, 3 }, { 1, 80, 32 } } do
      local function made(...)
        local n, s = 1, { ... }
        for _, d in ipairs(s) do n = n * d end
        return df.reshape(df.constant(df.tensor(numbers(n), 'float32')), s)
      end
      local a, b, c = dims[1], dims[2], dims[3]
      local like = { made(c), made(b, c), made(a, b, 1), made(a, 1, 1), made(1, b, c), made(1, b, 1) }
      local function body(i, x)
        for k, y in ipairs(like) do x = k % 2 == 0 and df.where(x:gt(y), x * 0.5, y - x) or x * y + df.cast(i, 'float32') end
        return i + 1, x
      end
      compiled_and_same({ df.while_loop(function(i) return i:lt(6) end, body, { df.int32(0), made(a, b, c) }) }, {})
    end
  end)

  it('change places, and come from constants and from conds', function()
    local x0 = df.placeholder('float32', { 6 })
    local fixed = df.float32{ 1, 2, 3, 4, 5, 6 }
    local function body(i, a, b, c)
      local d = df.cond((i % 3):eq(0), function() return a + fixed end, function() return df.cond(b[1]:gt(0), function() return c end, function() return a end) end)
      return i + 1, b, a, d
    end
    local function free(i, a, b, c)
      local d = df.cond((i % 3):eq(0), function() return a + fixed end, function() return df.cond(i:gt(4), function() return c end, function() return a end) end)
      return i + 1, b, a, d
    end
    local start = { df.int32(0), x0, fixed, -x0 }
    same_under_both({ df.while_loop(function(i) return i:lt(11) end, body, start) }, { [x0] = numbers(6) })
    compiled_and_same({ df.while_loop(function(i) return i:lt(11) end, free, start) }, { [x0] = numbers(6) })
  end)

  it('go into inner loops and come out of them', function()
    local x0 = df.placeholder('float32', { 10 })
    local function body(i, x)
      local _, z = df.while_loop(function(j) return j:lt(i) end, function(j, z) return j + 1, z * 0.5 + x end, { df.int32(0), x })
      return i + 1, df.cond((i % 2):eq(0), function() return df.reshape(df.reshape(z, { 2, 5 }) - 1.0, { 10 }) end, function() return x end)
    end
    local out = { df.while_loop(function(i) return i:lt(12) end, body, { df.int32(0), x0 }) }
    compiled_and_same(out, { [x0] = numbers(10) })
  end)

  it('are the elements of arrays: map_fn, scan, what gradients save, and gradients of these', function()
    local xs, w = df.placeholder('float32', { 300, 7 }), df.placeholder('float32', { 7 })
    local ys = df.map_fn(function(x) return df.tanh(x * w) + x end, xs)
    local zs = df.scan(function(a, x) return a * 0.9 + x * w end, ys)
    local loss = df.reduce_sum(zs * zs)
    local g = df.gradients(loss, { xs, w })
    local rows = {}
    for i = 1, 300 do rows[i] = numbers(7, i / 100) end
    compiled_and_same({ ys, zs, loss, g[1], g[2] }, { [xs] = rows, [w] = numbers(7, 2) })
    same_under_both({ df.gradients(df.reduce_sum(g[1] * xs), { xs, w })[2] }, { [xs] = rows, [w] = numbers(7, 2) })
  end)

  it('are given to kernels: products, reductions, pieces, sorting', function()
    local x0, w, v = df.placeholder('float32', { 4, 6 }), df.placeholder('float32', { 6, 6 }), df.placeholder('float32', { 6 })
    local function body(i, x, s)
      local y = df.tanh(df.matmul(x, w) + v)
      local a, b = df.unpack(df.split(y, 2, { axis = 1 }))
      local norm = df.reduce_sum(df.square(y)) + df.reduce_max(y)
      local z = df.concat({ b, a }, 1) * df.reduce_mean(y, { axis = 1, keep_dims = true }) + df.softmax(x)
      return i + 1, z - df.reduce_sum(a) * 0.01, s + norm + df.cast(df.argmax(df.reshape(z, { 24 }), 0), 'float32')
    end
    local i, x, s = df.while_loop(function(i) return i:lt(25) end, body, { df.int32(0), x0, df.float32(0) })
    local rows, matrix = {}, {}
    for k = 1, 4 do rows[k] = numbers(6, k) end
    for k = 1, 6 do matrix[k] = numbers(6, 0.3 * k) end
    compiled_and_same({ i, x, s }, { [x0] = rows, [w] = matrix, [v] = numbers(6) })
    local g = df.gradients(s + df.reduce_sum(x), { x0, w, v })
    same_under_both({ g[1], g[2], g[3] }, { [x0] = rows, [w] = matrix, [v] = numbers(6) })
  end)

  it('are multiplied as kernels multiply them: turned or not, a row, a column, one element, of each dtype', function()
    local sizes = { { 1, 1, 1 }, { 1, 7, 5 }, { 6, 1, 9 }, { 3, 4, 1 }, { 8, 8, 8 }, { 16, 32, 24 }, { 33, 17, 40 }, { 2, 90, 20 } }
    for _, t in ipairs{ 'float32', 'float64', 'int32' } do
      for _, size in ipairs(sizes) do
        df.reset()
        local m, n, k = size[1], size[2], size[3]
        local function some(rows, columns, seed)
          return df.cast(df.constant(df.run(df.random_uniform({ rows, columns }, -3, 3, { seed = seed }))), t)
        end
        local out = { df.while_loop(function(i) return i:lt(5) end, function(i, a, b, sum)
          local at, bt = df.transpose(a), df.transpose(b)
          local c = df.matmul(a, b) + df.matmul(at, b, { transpose_a = true }) - df.matmul(a, bt, { transpose_b = true })
          return i + 1, a + c:slice({ 0, 0 }, { 1, 1 }), b - 1, sum + c + df.matmul(at, bt, { transpose_a = true, transpose_b = true })
        end, { df.int32(0), some(m, k, 1), some(k, n, 2), df.cast(df.zeros{ m, n }, t) }) }
        same_under_both(out)
      end
    end
  end)

  it('are given to kernels where they lie: a cell with a variable of 32 by 32, and what its gradient saves', function()
    local w, h0 = df.Variable(df.reshape(df.constant(numbers(1024, 0.3)), { 32, 32 })), df.placeholder('float32', { 16, 32 })
    local x = df.placeholder('float32', { 40, 16, 32 })
    local rows = df.TensorArray('float32', 40):unstack(x)
    local _, h, out = df.while_loop(function(t) return t:lt(40) end, function(t, h, out)
      local z = df.tanh(df.matmul(h, w) + rows:read(t))
      return t + 1, z, out:write(t, df.transpose(z, { 1, 0 }))
    end, { df.int32(0), h0, df.TensorArray('float32', 40) })
    local loss = df.reduce_sum(df.square(out:stack())) + df.reduce_sum(h)
    local g = df.gradients(loss, { w, x, h0 })
    compiled_and_same({ h, loss, g[1], g[2], g[3] }, { [h0] = df.reshape(df.constant(numbers(512)), { 16, 32 }):eval(),
      [x] = df.reshape(df.constant(numbers(40 * 512, 2)), { 40, 16, 32 }):eval() })
  end)

  it('are saved as they are where a variable had them, beside an array that is packed', function()
    local w = df.Variable(df.constant(numbers(96, 0.3)))
    local ta = df.TensorArray('float32', 50, { clear_after_read = false })
    local other = df.TensorArray('float32', 50, { clear_after_read = false })
    local _, s, a, b = df.while_loop(function(t) return t:lt(50) end, function(t, s, a, b)
      s = s * 0.75 + w
      return t + 1, s, a:write(t, w), b:write(t, df.select(t:lt(25), w, s))
    end, { df.int32(0), df.zeros{ 96 }, ta, other })
    local total = df.reduce_sum(a:stack() * b:stack()) + df.reduce_sum(s) + df.reduce_sum(a:read(7) * b:read(30))
    compiled_and_same({ total, df.gradients(total, w) }, {})
  end)

  it('are rows that are read where they lie, while gradients are added to others', function()
    local x = df.placeholder('float32', { 30, 96 })
    local rows = df.TensorArray('float32', 30, { clear_after_read = false }):unstack(x)
    local _, s = df.while_loop(function(t) return t:lt(30) end, function(t, s)
      return t + 1, s * 0.5 + rows:read(t) * rows:read(df.int32(29) - t) + rows:read(3)
    end, { df.int32(0), rows:read(0) })
    compiled_and_same({ s, df.gradients(s, x) }, { [x] = df.reshape(df.constant(numbers(30 * 96, 2)), { 30, 96 }):eval() })
  end)

  it('are drawn as tokens draw them, in each run, frame and iteration', function()
    local n = df.placeholder('int32', {})
    local function body(i, x, s)
      local _, t = df.while_loop(function(j) return j:lt(i % 3) end,
        function(j, t) return j + 1, t + df.random_uniform({ 5 }, -1, 1, { seed = 4 }) end, { df.int32(0), x })
      return i + 1, t * 0.5 + df.random_normal({ 5 }), s + df.random_uniform({})
    end
    local out = { df.while_loop(function(i) return i:lt(n) end, body, { df.int32(0), df.zeros{ 5 }, df.float32(0) }) }
    local r = compiled_and_same(out, { [n] = 50 })
    assert.not_same(r.found, same_under_both(out, { [n] = 51 }).found)
  end)

  it('leave the errors of kernels to the tokens', function()
    local k = df.placeholder('int32', {})
    local _, y = df.while_loop(function(i) return i:lt(20) end,
      function(i, y) return i + 1, y + df.gather({ 1.5, 2.5, 3.5, 4.5, 5.5 }, i + k) end, { df.int32(0), df.float32(0) }, { name = 'gathers' })
    local r = same_under_both({ y }, { [k] = -8 })
    assert.equal('gathers:0', r.frame)
    assert.equal('gathers:5', same_under_both({ y }, { [k] = 0 }).frame)
  end)

  it('lie packed in an array, which any op reads and goes on with', function()
    local n = df.placeholder('int32', {})
    local ta = df.TensorArray('float32', 0, { dynamic_size = true, clear_after_read = false, element_shape = { -1 } })
    local _, a = df.while_loop(function(i) return i:lt(n) end,
      function(i, a) return i + 1, a:write(i, df.float32{ 1, 2, 3 } * df.cast(i, 'float32')) end, { df.int32(0), ta })
    local out = { a:read(4), a:size(), a:gather{ 3, 0, 3 }, a:concat(), a:stack() }
    for _, trips in ipairs{ 5, 5000 } do same_under_both(out, { [n] = trips }) end
    local longer = a:write(n, { 7, 8 })
    same_under_both({ longer:read(n), longer:read(2), longer:concat() }, { [n] = 40 })
  end)

  it('leave what is wrong to the tokens: written twice, read and never written, another shape', function()
    local k = df.placeholder('int32', {})
    local function loop(body, shape)
      local ta = df.TensorArray('float32', 10, { element_shape = shape })
      local i, a = df.while_loop(function(i) return i:lt(10) end, body, { df.int32(0), ta }, { name = 'writes' })
      return { i, a:size() }
    end
    local two = df.float32{ 1, 2 }
    local twice = loop(function(i, a) return i + 1, a:write(i % k, two * df.cast(i, 'float32')) end)
    local r = same_under_both(twice, { [k] = 6 })
    assert.matches('second time', r.error)
    assert.equal('writes:6', r.frame)
    same_under_both(twice, { [k] = 10 })
    local read = loop(function(i, a)
      a = a:write(i, two)
      return i + 1, df.cond(i:eq(k), function() local b = a:read(i + 1) return a:write(i + 1, b) end, function() return a end)
    end)
    assert.is_string(same_under_both(read, { [k] = 5 }).error)
  end)

  it('agree with the tokens where engines change at random iterations', function()
    local r = shell.run(('DFLOW_STRESS=osr:7 %s -e %s'):format(shell.dflow, shell.quote[==[
      local function text(v) local t = {} local function add(x) if type(x) == 'table' then for _, y in ipairs(x) do add(y) end else t[#t + 1] = ('%a'):format(x) end end
        for _, x in ipairs(v) do add(type(x) == 'number' and x or x:totable()) end return table.concat(t, ' ') end
      local x0 = df.placeholder('float32', { 2, 9 })
      local w = df.float32{ .1, .2, .3, .4, .5, .6, .7, .8, .9 }
      local function body(i, x, s)
        local _, z, t = df.while_loop(function(j) return j:lt(i % 4) end, function(j, z, t)
          return j + 1, z * 0.5 + df.tanh(x) * w + df.random_normal({ 2, 9 }), t + j
        end, { df.int32(0), x, s })
        return i + 1, df.cond((i % 3):eq(1), function() return z - w end, function() return df.sin(z) * df.reduce_max(z) end), t
      end
      local i, y, s = df.while_loop(function(i) return i:lt(60) end, body, { df.int32(0), x0, df.int32(0) })
      local zs = df.scan(function(a, v) return a * 0.9 + v * y[1] end, df.random_normal({ 200, 9 }, { seed = 3 }))
      local g = df.gradients(df.reduce_sum(y) + df.reduce_sum(zs * zs), x0)
      for round = 1, 6 do
        local found = {}
        for _, engine in ipairs{ 'tokens', 'native' } do
          local s0 = df.Session{ engine = engine }
          found[engine] = text(s0:run({ i, y, s, zs, g }, { [x0] = { { 1, 2, 3, 4, 5, 6, 7, 8, round }, { -1, 0, 1, 0.5, 0.25, 3, 2, 1, 0 } } }))
          s0:close()
        end
        if found.tokens ~= found.native then print('round ' .. round) end
      end
      print 'done']==]))
    assert.are.equal('done\n', r.out, r.err)
  end)

  it('are written to one array in several shapes', function()
    local x4, x5, n = df.placeholder('float32', { 4 }), df.placeholder('float32', { 5 }), 300
    local function body(i, rows)
      local f = df.cast(i, 'float32')
      return i + 1, rows:write(i * 2, x4 * f):write(i * 2 + 1, x5 + f)
    end
    local _, rows = df.while_loop(function(i) return i:lt(n) end, body, { df.int32(0), df.TensorArray('float32', 2 * n, { element_shape = { -1 } }) })
    same_under_both({ rows:concat(), rows:read(2), rows:read(2 * n - 1) }, { [x4] = { 1, 2, 3, 4 }, [x5] = { 5, 6, 7, 8, 9 } })
  end)

  it('are left to the tokens where many are written: there is no room for all', function()
    local x = df.placeholder('float64', { 32768 })
    local function body(i, rows)
      for k = 0, 39 do rows = rows:write(i * 40 + k, x) end
      return i + 1, rows
    end
    local _, rows = df.while_loop(function(i) return i:lt(2) end, body, { df.int32(0), df.TensorArray('float64', 80) })
    local s = df.Session{ engine = 'native' }
    assert.equal(32768 * 80 * 2, s:run(rows:stack():reduce_sum(), { [x] = df.fill({ 32768 }, df.float64(2)):eval() }))
    assert.matches('its small tensors take too much room', s:native())
    s:close()
  end)

  it('are left to the tokens where arrays are written in so many places that compiling would take minutes', function()
    local x = df.placeholder('float32', {})
    local function body(i, rows)
      for k = 0, 300 do rows = rows:write(i * 301 + k, x) end
      return i + 1, rows
    end
    local _, rows = df.while_loop(function(i) return i:lt(2) end, body, { df.int32(0), df.TensorArray('float32', 602) })
    local s = df.Session{ engine = 'native' }
    assert.equal(1204, s:run(rows:stack():reduce_sum(), { [x] = 2 }))
    assert.matches('more than 200 places', s:native())
    s:close()
  end)

  it('are left to the tokens where they are large, or their shape comes of values', function()
    local x, u = df.placeholder('float32', { 70000 }), df.placeholder('float32', { -1 })
    local function loop(v, name) return df.while_loop(function(i) return i:lt(3) end, function(i, v) return i + 1, v * 0.5 end, { df.int32(0), v }, { name = name }) end
    local _, a = loop(x, 'large')
    local _, b = loop(df.gather(u, df.reshape(df.where(u:gt(0)), { -1 })), 'found')
    local _, c = df.while_loop(function(i) return i:lt(3) end, function(i, v) return i + 1, df.gather(v, df.reshape(df.where(v:gt(0)), { -1 })) end,
      { df.int32(0), u }, { name = 'finds', shape_invariants = { {}, { -1 } } })
    local s = df.Session{ engine = 'native' }
    s:run({ a, b, c }, { [x] = df.zeros{ 70000 }:eval(), [u] = { 1, 2 } })
    assert.matches('large  tokens: [^\n]*float32%[70000%], and only numbers and small tensors of known shape are compiled', s:native())
    assert.matches('found  native: variables [^\n]*; of float32%[2%]', s:native())
    assert.matches('finds  tokens: [^\n]*int64%[%?,1%], and only numbers', s:native())
    s:close()
  end)
end)
