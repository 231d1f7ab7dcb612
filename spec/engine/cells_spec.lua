--- Recurrent cells, however they are written: a product, its bias, and what is computed of its gates are done in one pass. The numbers,
-- errors and tokens are those of the ops one by one.
-- run: first
local df = require 'dflow'
local support = require 'spec.support'

local bits = support.bits
local host_it = support.host_it(it, pending)
local unpack = table.unpack or unpack

local function normal(shape, seed, most) return support.tensor(shape, -(most or 1), most or 1, 'float32', seed) end
local function variable(shape, seed, most) return df.Variable(normal(shape, seed, most or 0.3)) end

--- The values as they are, and where every value is kept, so that each op runs alone; they have to be equal.
local function both(ys, feeds)
  local s = df.Session{ threads = 2 }
  local together = s:run(ys, feeds)
  assert.same(bits(together), bits(s:run(ys, feeds)))
  assert.same(bits(s:start(ys, feeds, { values = true }):wait()), bits(together))
  s:close()
  return together
end

--- What `step` makes of a state of zeros in so many steps over x [steps, rows, inputs], and of every step.
local function over(x, units, step, options)
  local steps, rows = x.shape[1], df.shape(x)[1]
  local zero = df.fill(df.stack{ rows, units }, df.float32(0)):set_shape{ x.shape[2], units }
  local input = df.TensorArray('float32', steps):unstack(x)
  local _, c, h, out = df.while_loop(function(t) return t:lt(steps) end, function(t, c, h, out)
    c, h = step(input:read(t):set_shape{ x.shape[2], x.shape[3] }, c, h)
    return t + 1, c, h, out:write(t, h)
  end, { df.int32(0), zero, zero, df.TensorArray('float32', steps) }, options)
  return out:stack(), c, h
end

local function lstm(inputs, units, how)
  how = how or {}
  local w = variable(how.turned and { 4 * units, inputs + units } or { inputs + units, 4 * units }, 1)
  local b = variable({ 4 * units }, 2)
  local peep = variable({ units }, 3)
  return function(x, c, h)
    local z = df.matmul(df.concat({ x, h }, how.axis or 1), w, { transpose_b = how.turned })
    if how.bias == 'first' then z = b + z elseif how.bias == 'op' then z = df.bias_add(z, b) elseif how.bias ~= 'none' then z = z + b end
    local i, j, f, o = unpack(df.split(z, 4, { axis = how.axis or 1 }))
    if how.peepholes then i, f = i + c * peep, f + c * peep end
    local new = c * df.sigmoid(f + 1) + df.sigmoid(i) * df.tanh(j)
    local y = df.tanh(new) * df.sigmoid(o)
    if how.mask then new, y = df.where(how.mask, new, c), df.where(how.mask, y, h) end
    return new, y
  end, w, b
end

describe('a recurrent cell', function()
  it('has the bits of its ops, whatever its sizes, and so has its gradient', function()
    -- rows, inputs, units
    for _, d in ipairs{ { 5, 3, 16 }, { 8, 16, 32 }, { 32, 128, 128 }, { 33, 20, 40 }, { 70, 7, 33 }, { 6, 150, 70 }, { 128, 28, 128 }, { 100, 1, 9 },
                        { 9, 250, 64 }, { 4, 60, 60 }, { 1, 60, 60 }, { 200, 5, 1 }, { 64, 200, 200 } } do
      df.reset()
      local step, w, b = lstm(d[2], d[3])
      local x = df.constant(normal({ 4, d[1], d[2] }, d[1] + d[2]))
      local out, c, h = over(x, d[3], step)
      both{ out, c, h, df.gradients(df.reduce_sum(out * out), { w, b }) }
    end
  end)

  it('has the same bits on one thread and on many, however large its steps are', function()
    for _, d in ipairs{ { 16, 30, 64 }, { 70, 40, 72 }, { 128, 100, 256 }, { 90, 330, 200 } } do      -- rows, inputs, units
      df.reset()
      local out = over(df.constant(normal({ 3, d[1], d[2] }, d[1])), d[3], (lstm(d[2], d[3])))
      local alone
      for _, threads in ipairs{ 1, 2, 3, 6 } do
        local s = df.Session{ threads = threads }
        alone = alone or bits(s:start(out, nil, { values = true }):wait())
        for _ = 1, 3 do assert.same(alone, bits(s:run(out))) end
        s:close()
      end
    end
  end)

  it('is one however it is written', function()
    for _, how in ipairs{ { bias = 'first' }, { bias = 'op' }, { bias = 'none' }, { turned = true }, { axis = -1 }, { peepholes = true } } do
      df.reset()
      local step, w = lstm(24, 48, how)
      local out = over(df.constant(normal({ 5, 20, 24 }, 7)), 48, step)
      both{ out, df.gradients(df.reduce_sum(out), w) }
    end
  end)

  --- What is added up to gates, in so many ways; x has 24 columns, h has as many as there are units.
  local ways = {
    function(x, h, w, r, b) return df.matmul(x, w) + df.matmul(h, r) + b end,
    function(x, h, w, r, b) return b + (df.matmul(h, r) + df.matmul(x, w)) end,
    function(x, h, w, r, b) return df.matmul(x, w) + (df.matmul(h, r) + b) end,
    function(x, h, w, r, b) return (df.matmul(x, w) + b) + (df.matmul(h, r) + b) end,
    function(x, h, w, r, b) return df.matmul(h, r) + df.tanh(df.matmul(x, w)) end,
    function(x, h, w, r, b) return df.matmul(df.concat({ x, h * 2 }, 1), df.concat({ w, r }, 0)) + df.matmul(h, r) + b + b end,
  }

  it('adds up products of its own, however they are bracketed, and what others have made', function()
    for n, way in ipairs(ways) do
      for _, units in ipairs{ 40, 200 } do               -- 200: a product is summed in two parts
        df.reset()
        local w, r, b = variable({ 24, 4 * units }, 1), variable({ units, 4 * units }, 2, 0.1), variable({ 4 * units }, 3)
        local x = df.constant(normal({ 4, 20, 24 }, 7))
        local out, c = over(x, units, function(v, c, h)
          local i, j, f, o = unpack(df.split(way(v, h, w, r, b), 4, { axis = 1 }))
          c = c * df.sigmoid(f + 1) + df.sigmoid(i) * df.tanh(j)
          return c, df.tanh(c) * df.sigmoid(o)
        end)
        local ok, e = pcall(both, { out, c, df.gradients(df.reduce_sum(out), { w, r }) })
        assert.is_true(ok, ('way %d of %d units: %s'):format(n, units, tostring(e)))
      end
    end
  end)

  it('may be of several products whose gates are cut by themselves, or of one gate', function()
    for units = 40, 200, 160 do
      df.reset()
      local w, r, u = variable({ 24, 3 * units }, 1), variable({ units, 2 * units }, 2, 0.1), variable({ units, units }, 3, 0.1)
      local b = variable({ units }, 4)
      local x = df.constant(normal({ 4, 20, 24 }, 7))
      local gru = over(x, units, function(v, c, h)
        local z, reset, n = unpack(df.split(df.matmul(v, w), 3, { axis = 1 }))
        local rz, rr = unpack(df.split(df.matmul(h, r), 2, { axis = 1 }))
        z, reset = df.sigmoid(z + rz), df.sigmoid(reset + rr)
        n = df.tanh(n + reset * (df.matmul(h, u) + b))
        return c + 1, (1 - z) * n + z * h
      end)
      local first = df.slice(w, { 0, 0 }, { -1, units })
      local rnn = over(x, units, function(v, c, h) return c, df.tanh(df.matmul(v, first) + df.matmul(h, u) + b) end)
      local rows = over(x, units, function(v, c, h) return c, df.relu(df.matmul(df.concat({ v, h }, 1), df.concat({ first, u }, 0)) * b) end)
      both{ gru, rnn, rows, df.gradients(df.reduce_sum(gru) + df.reduce_sum(rnn * rnn), { w, r, u }) }
    end
  end)

  it('takes masks, of rows and of numbers, and lets a state pass', function()
    for _, mask in ipairs{ df.fill({ 20, 1 }, df.bool(true)), 'rows', 'number' } do
      df.reset()
      local m = mask == 'rows' and df.constant(normal({ 20, 1 }, 5)):gt(0) or mask == 'number' and df.placeholder('bool', {})
        or df.constant(normal({ 20, 48 }, 6)):gt(0)
      local step, w = lstm(24, 48, { mask = m })
      local out, c = over(df.constant(normal({ 5, 20, 24 }, 7)), 48, step)
      both({ out, c, df.gradients(df.reduce_sum(out), w) }, mask == 'number' and { [m] = true } or nil)
    end
  end)

  it('is what df.rnn makes, with lengths, projections and clipped states', function()
    for _, make in ipairs{
      function() return df.rnn.LSTMCell(40) end, function() return df.rnn.LSTMCell(40, { peepholes = true, cell_clip = 0.5 }) end,
      function() return df.rnn.LSTMCell(40, { projection = 24 }) end, function() return df.rnn.LSTMCell(40, { layer_norm = true }) end,
      function() return df.rnn.GRUCell(40) end, function() return df.rnn.RNNCell(40) end,
    } do
      df.reset()
      local x, n = df.placeholder('float32', { -1, 6, 12 }), df.placeholder('int32', { -1 })
      local cell = make()
      local y, state = df.rnn.dynamic_rnn(cell, x, { lengths = n })
      local g = df.gradients(df.reduce_sum(y * y), x)
      for _, lengths in ipairs{ { 6, 0, 3, 5, 1, 6, 2, 4, 6, 6, 3, 5 }, { 2, 6 }, { 4 } } do
        local feeds = { [x] = normal({ #lengths, 6, 12 }, #lengths), [n] = lengths }
        both({ y, g, type(state) == 'table' and rawget(state, 'h') or y }, feeds)
      end
    end
  end)

  it('has as many rows as it is given, run by run', function()
    local x = df.placeholder('float32', { 3, -1, 24 })
    local step, w = lstm(24, 40)
    local out = over(x, 40, step)
    local s = df.Session{ threads = 2 }
    for _, rows in ipairs{ 12, 1, 64, 4, 5, 0, 129, 12 } do
      local feeds = { [x] = normal({ 3, rows, 24 }, rows + 1) }
      assert.same(bits(s:start(out, feeds, { values = true }):wait()), bits(s:run(out, feeds)))
    end
    s:run(w:assign(normal({ 64, 160 }, 99)))
    local feeds = { [x] = normal({ 3, 12, 24 }, 13) }
    assert.same(bits(s:start(out, feeds, { values = true }):wait()), bits(s:run(out, feeds)))
    s:close()
  end)

  it('leaves to others what they read: a gate, the sum, the product, what is multiplied', function()
    for which = 1, 5 do
      df.reset()
      local w, b = variable({ 40, 64 }, 1), variable({ 64 }, 2)
      local x = df.constant(normal({ 10, 24 }, 3))
      local _, h, seen = df.while_loop(function(t) return t:lt(5) end, function(t, h, seen)
        local side = df.concat({ x, h }, 1)
        local product = df.matmul(side, w)
        local sum = product + b
        local i, j, f, o = unpack(df.split(sum, 4, { axis = 1 }))
        local y = df.sigmoid(i) * df.tanh(j) + df.sigmoid(f) * df.tanh(o) + h
        local other = ({ df.reduce_sum(j), df.reduce_sum(sum), df.reduce_max(product), df.reduce_sum(side), df.reduce_sum(h) })[which]
        return t + 1, y, seen + other
      end, { df.int32(0), df.fill({ 10, 16 }, df.float32(0.5)), df.float32(0) })
      both{ h, seen }
    end
  end)

  it('is in conds, in loops in loops, and written out step by step', function()
    local w, b = variable({ 40, 64 }, 1), variable({ 64 }, 2)
    local x = df.constant(normal({ 10, 24 }, 3))
    local function step(h)
      local i, j, f, o = unpack(df.split(df.matmul(df.concat({ x, h }, 1), w) + b, 4, { axis = 1 }))
      return df.sigmoid(i) * df.tanh(j) + df.sigmoid(f) * df.tanh(o) * h
    end
    local zero = df.fill({ 10, 16 }, df.float32(0.5))
    local _, h = df.while_loop(function(t) return t:lt(6) end, function(t, h)
      local _, deep = df.while_loop(function(k) return k:lt(t) end, function(k, v) return k + 1, step(v) end, { df.int32(0), h })
      return t + 1, df.cond((t % 2):eq(0), function() return step(deep) end, function() return deep * 0.5 end)
    end, { df.int32(0), zero })
    local flat = zero
    for _ = 1, 5 do flat = step(flat) end
    both{ h, flat, df.gradients(df.reduce_sum(h), { w, b }), df.gradients(df.reduce_sum(flat), { w, b }) }
  end)

  it('of special numbers: NaN, infinities and zeros with a sign pass as they do alone', function()
    local list = {}
    for i = 1, 8 * 24 do list[i] = ({ 0, -0.0, 1 / 0, -1 / 0, 0 / 0, 1e38, -1e-40, 3 })[(i + math.floor(i / 24)) % 8 + 1] end
    local x = df.reshape(df.constant(df.tensor(list, 'float32')), { 1, 8, 24 })
    both{ (over(x, 40, (lstm(24, 40)))) }
  end)

  --- A cell by lot: sources of products, vectors and what others made, cut or not, and what is computed of their gates and the state.
  local function by_lot(seed)
    local state = seed * 7919 % 2147483647
    local function any(n)
      state = state * 16807 % 2147483647
      return state % n + 1
    end
    local rows, inputs, units, seeds = any(70), any(60), any(90), seed * 100
    local function weights(high, wide) seeds = seeds + 1 return variable({ high, wide }, seeds, 0.2) end
    local vector, column = weights(1, units), df.constant(normal({ rows, 1 }, seed))
    local made = {}
    local function made_once(key, make) made[key] = made[key] or make() return made[key] end
    local outputs = {}
    local function product(k, x, h, wide)
      local which = any(4)
      local a = which == 1 and x or which == 2 and h or which == 3 and df.concat({ x, h }, 1) or df.concat({ h, df.tanh(x), x }, 1)
      local high = ({ inputs, units, inputs + units, units + 2 * inputs })[which]
      if any(3) == 1 then return df.matmul(a, made_once(k, function() return weights(wide, high) end), { transpose_b = true }) end
      return df.matmul(a, made_once(k, function() return weights(high, wide) end))
    end
    local function step(x, c, h)
      local values, k = { c, h, vector, column }, 0
      for _ = 1, any(3) do
        local gates = any(4)
        local sum
        for _ = 1, any(3) do
          k = k + 1
          local which = any(4)
          local term = sum and which == 1 and df.reshape(made_once(k, function() return weights(1, gates * units) end), { gates * units })
            or which == 2 and df.tanh(product(k, x, h, gates * units)) or product(k, x, h, gates * units)
          sum = sum and (any(2) == 1 and sum + term or term + sum) or term
        end
        if any(8) == 1 then outputs[#outputs + 1] = df.reduce_sum(sum) end
        local parts = gates == 1 and { sum } or { unpack(df.split(sum, gates, { axis = 1 })) }
        for i = 1, #parts do values[#values + 1] = parts[i] end
      end
      for _ = 1, 4 + any(8) do
        local a, b = values[any(#values)], values[any(#values)]
        local which = any(6)
        values[#values + 1] = which == 1 and df.sigmoid(a) or which == 2 and df.tanh(a) or which == 3 and a * b or which == 4 and a + b
          or which == 5 and df.where(column:gt(0.1), a + c, b + c) or a - b
      end
      local all = c
      for i = 5, #values do if values[i].shape[2] == units then all = df.tanh(all + values[i] * 0.5) end end
      return all, df.sigmoid(all * 2) + (outputs[1] or 0) * 1e-4
    end
    return df.constant(normal({ 3, rows, inputs }, seed + 1)), units, step
  end

  it('made by lot has the bits of its ops', function()
    local first, n = tonumber(os.getenv 'DFLOW_SEED') or 1, tonumber(os.getenv 'DFLOW_PROGRAMS') or 40
    for seed = first, first + n - 1 do
      df.reset()
      local x, units, step = by_lot(seed)
      local out, c = over(x, units, step)
      local ok, e = pcall(both, { out, c, df.gradients(df.reduce_sum(out * out), x, { unconnected = 'zero' }) })
      assert.is_true(ok, ('cell %d: %s'):format(seed, tostring(e)))
    end
  end)

  host_it('writes neither gates nor sums nor what is put side by side', function()
    local x = df.constant(normal({ 8, 128, 64 }, 1))
    local out = df.reduce_sum(select(3, over(x, 256, (lstm(64, 256)), { parallel_iterations = 1 })))
    local s = df.Session{ threads = 2 }
    s:run(out)
    local function needed(options)
      df.reset_peak_memory()
      local before = s:stats().memory['cpu:0'].in_use
      s:start(out, nil, options):wait()
      return s:stats().memory['cpu:0'].peak - before
    end
    needed{}
    local state = 128 * 256 * 4
    assert.is_true(needed{} < needed{ values = true } - 3 * 8 * 4 * state)
  end)

  it('is stopped between, stepped and looked at', function()
    local out = over(df.constant(normal({ 6, 20, 24 }, 7)), 48, (lstm(24, 48)))
    local s = df.Session()
    local whole = s:run(out)
    for _, steps in ipairs{ 5, 17, 40, 77, 120 } do
      local h = s:start(out, nil, { paused = true })
      for _ = 1, steps do h:step() end
      h:frames()
      h:resume()
      assert.same(bits(whole), bits(h:wait()))
    end
    local h = s:start(out, nil, {})
    for _ = 1, 20 do h:pause() h:frames() h:resume() end
    assert.same(bits(whole), bits(h:wait()))
  end)

  it('refuses shapes as its ops do, and says where', function()
    local w, b = df.placeholder('float32', { -1, -1 }), df.placeholder('float32', { -1 })
    local x = df.placeholder('float32', { -1, 24 })
    local _, h = df.while_loop(function(t) return t:lt(3) end, function(t, h)
      local i, j = unpack(df.split(df.matmul(df.concat({ x, h }, 1), w) + b, 2, { axis = 1 }))
      return t + 1, (df.sigmoid(i) * df.tanh(j)):set_shape{ -1, 16 }
    end, { df.int32(0), df.placeholder_with_default(df.constant(normal({ 10, 16 }, 3)), { -1, 16 }) })
    local function run(rows, high, wide, biases)
      return pcall(df.run, h, { [x] = normal({ rows, 24 }, 1), [w] = normal({ high, wide }, 2), [b] = normal({ biases }, 3) })
    end
    assert.is_true((run(10, 40, 32, 32)))
    for _, c in ipairs{ { 9, 40, 32, 32, 'ConcatV2' }, { 10, 41, 32, 32, 'MatMul' }, { 10, 40, 32, 31, 'Add' }, { 10, 40, 33, 33, 'Split' } } do
      local ok, e = run(c[1], c[2], c[3], c[4])
      assert.is_false(ok)
      assert.truthy(tostring(e):find('(' .. c[5] .. ')', 1, true), tostring(e))
      assert.truthy(tostring(e):find('while:0', 1, true), tostring(e))
    end
  end)
end)
