--- map_fn, foldl, foldr, scan, custom gradients, and derivatives by composition.
local df = require 'dflow'
local support = require 'spec.support'
local near, same, message_of = support.near, support.same, support.message_of

describe('map_fn', function()
  it('applies a function to each row, and calls it once', function()
    local calls = 0
    local y = df.map_fn(function(row) calls = calls + 1 return row * 2 + 1 end, df.constant({ { 1.0, 2.0 }, { 3.0, 4.0 } }))
    near(df.run(y), { { 3, 5 }, { 7, 9 } })
    assert.equal(1, calls)
    assert.same({ 2, 2 }, y.shape)
  end)

  it('gives the dtype of what the function returns', function()
    local y = df.map_fn(function(x) return x:gt(1) end, df.constant({ 1.0, 2.0 }))
    assert.equal('bool', y.dtype)
    same(df.run(y), { false, true })
  end)

  it('takes a list of tensors, and gives a list for several results', function()
    local a, b = df.constant({ 1.0, 2.0 }), df.constant({ 10.0, 20.0 })
    near(df.run(df.map_fn(function(x, y) return x + y end, { a, b })), { 11, 22 })
    local r = df.map_fn(function(x, y) return x * y, x:lt(y), { sum = x + y } end, { a, b })
    same(df.run(r), { { 10, 40 }, { true, true }, { sum = { 11, 22 } } })
  end)

  it('takes no rows at all', function()
    local x = df.placeholder('float32', { -1, 2 })
    local y = df.map_fn(function(row) return row * 2 end, x)
    assert.same({ 0, 2 }, df.run(y, { [x] = df.zeros({ 0, 2 }):eval() }).shape)
    near(df.run(y, { [x] = { { 1, 2 } } }), { { 2, 4 } })
  end)

  it('nests, and captures', function()
    local x, w = df.constant({ { 1.0, 2.0 }, { 3.0, 4.0 } }), df.constant(10.0)
    local y = df.map_fn(function(row) return df.map_fn(function(e) return e * w end, row) end, x)
    near(df.run(y), { { 10, 20 }, { 30, 40 } })
    near(df.run(df.gradients(y, { x, w })), { { { 10, 10 }, { 10, 10 } }, 10 })
  end)

  it('gives the same with parallel_iterations 1 and 32', function()
    local x = df.range(100):cast('float32')
    local a = df.map_fn(df.sqrt, x, { parallel_iterations = 1 })
    local b = df.map_fn(df.sqrt, x, { parallel_iterations = 32 })
    same(df.run(a), df.run(b))
  end)

  it('has a gradient, and a gradient of that', function()
    local x = df.constant({ 1.0, 2.0, 3.0 })
    local y = df.map_fn(function(e) return e * e * e end, x)
    local g = df.gradients(y, x)
    near(df.run(g), { 3, 12, 27 })
    near(df.run(df.gradients(g, x)), { 6, 12, 18 })
  end)

  it('says what is wrong with its arguments', function()
    assert.matches('scalar', message_of(df.map_fn, function(x) return x end, df.constant(1.0)))
    assert.matches('numbers of rows, 2 and 3', message_of(df.map_fn, function(_, y) return y end, { df.ones({ 2 }), df.ones({ 3 }) }))
    assert.matches('returns nothing', message_of(df.map_fn, function() end, df.ones({ 2 })))
    assert.matches("no option 'parallel'", message_of(df.map_fn, function(x) return x end, df.ones({ 2 }), { parallel = 1 }))
  end)
end)

describe('what goes over rows', function()
  it('calls graph functions and layers as functions of Lua', function()
    local x = df.float32{ { 1, 2 }, { 3, 4 }, { 5, 6 } }
    local double = df.func('double', { 'float32' }, function(v) return v * 2 end)
    local join = df.func('join', { 'float32', 'float32' }, function(a, v) return a * 0.5 + v end)
    for _, batch in ipairs{ false, true } do same(df.run(df.map_fn(double, x, { batch = batch })), df.run(x * 2)) end
    for _, over in ipairs{ df.foldl, df.foldr, df.scan } do
      same(df.run(over(join, x)), df.run(over(function(a, v) return a * 0.5 + v end, x)))
    end
    local layer = df.nn.Dense(3)
    local rows = df.expand_dims(x, 1)
    same(df.run(df.map_fn(layer, rows)), df.run(df.expand_dims(layer(x), 1)))
    assert.matches('takes a function first', message_of(df.map_fn, x, x))
  end)
end)

describe('foldl, foldr and scan', function()
  local x
  before_each(function() x = df.constant({ 1.0, 2.0, 3.0 }) end)
  local function minus(a, e) return a - e end

  it('fold from the left and from the right', function()
    same(df.run(df.foldl(minus, x)), -4)
    same(df.run(df.foldl(minus, x, 10.0)), 4)
    same(df.run(df.foldr(minus, x)), 0)
    same(df.run(df.foldr(minus, x, 10.0)), 4)
  end)

  it('scan keeps every accumulator', function()
    same(df.run(df.scan(minus, x)), { 1, -1, -4 })
    same(df.run(df.scan(minus, x, 10.0)), { 9, 7, 4 })
    same(df.run(df.scan(minus, x, 10.0, { reverse = true })), { 4, 5, 7 })
    same(df.run(df.scan(minus, x, { reverse = true })), { 0, 1, 3 })
  end)

  it('take structures', function()
    local r = df.scan(function(s, e) return { a = s.a + e, b = s.b * e } end, x, { a = df.constant(0.0), b = df.constant(1.0) })
    same(df.run(r), { a = { 1, 3, 6 }, b = { 1, 2, 6 } })
    same(df.run(df.foldl(function(a, e, f) return a + e * f end, { x, x }, 0.0)), 14)
  end)

  it('have gradients', function()
    near(df.run(df.gradients(df.foldl(function(a, e) return a * e end, x), x)), { 6, 3, 2 })
    near(df.run(df.gradients(df.scan(function(a, e) return a * e end, x), x)), { 9, 4, 2 })
  end)
end)

describe('custom_gradient', function()
  it('uses the inner function for the gradient', function()
    local clip = df.custom_gradient(function(x) return df.identity(x), function(dy) return df.clip_by_value(dy, -1, 1) end end)
    local x = df.constant({ 1.0, 2.0 })
    local y = clip(x) * { 0.5, 100 }
    near(df.run(y), { 0.5, 200 })
    near(df.run(df.gradients(y, x)), { 0.5, 1 })
  end)

  it('takes several inputs and outputs, and works in a loop', function()
    local op = df.custom_gradient(function(a, b)
      return a + b, a * b, function(ds, dp) return ds * 10 + dp * b, ds * 100 + dp * a end
    end)
    local a, b = df.constant(2.0), df.constant(3.0)
    local s, p = op(a, b)
    near(df.run{ s, p }, { 5, 6 })
    near(df.run(df.gradients({ s, p }, { a, b })), { 13, 102 })
    local _, v = df.while_loop(function(i) return i:lt(3) end, function(i, v)
      return i + 1, (df.custom_gradient(function(x) return x * 2, function(dy) return dy * 3 end end)(v))
    end, { df.int32(0), a })
    near(df.run(v), 16)
    near(df.run(df.gradients(v, a)), 27)
  end)

  it('lets an error of the inner function through', function()
    local bad = df.custom_gradient(function(x) return x * 2, function() error('inner boom') end end)
    local x = df.constant(1.0)
    assert.matches('inner boom', message_of(df.gradients, bad(x), x))
    near(df.run(df.gradients(x * 3, x)), 3)
  end)
end)

describe('derivatives by composition', function()
  local x, y
  before_each(function()
    x = df.constant({ 1.0, 2.0 })
    y = x * x * x[0]
  end)

  it('jacobian and hessian give the same by lanes and row by row', function()
    local at, w = { 0.3, -0.7, 1.1, 0.2 }, df.constant(support.tensor({ 4, 4 }, -1, 1, 'float32', 3))
    local function straight(x) return df.tanh(df.squeeze(df.matmul(df.expand_dims(x, 0), w), { axis = { 0 } })) * x + df.gather(x, { 1, 0, 3, 3 }) end
    local function branch(x) return df.cond(x[0]:gt(0), function() return df.sin(x) * x end, function() return x end) end
    for _, fn in ipairs{ straight, branch } do
      local known, unknown = df.placeholder('float32', { 4 }), df.placeholder('float32', { -1 })       -- the number of rows is known, or is not
      local a, b = fn(known), fn(unknown)
      local found = df.run({ df.jacobian(a, known), df.hessian(a, known), df.jacobian(b, unknown), df.hessian(b, unknown) }, { [known] = at, [unknown] = at })
      near(found[1], found[3])
      near(found[2], found[4])
    end
  end)

  it('jacobian, hessian, hvp and jvp agree with what one computes by hand', function()
    near(df.run(df.jacobian(y, x)), { { 3, 0 }, { 4, 4 } })
    local s = y:reduce_sum()
    near(df.run(df.hessian(s, x)), { { 6, 4 }, { 4, 2 } })
    near(df.run(df.hvp(s, x, { 1, 10 })), { 46, 24 })
    near(df.run(df.jvp(y, x, { 1, 10 })), { 3, 44 })
  end)

  it('take a vector that goes with x, or a number for all of it', function()
    near(df.run(df.jvp(y, x, 2)), { 6, 16 })
    assert.matches('jvp: v is float32%[3%], but x %(`Const:0`%) is float32%[2%]', message_of(df.jvp, y, x, { 1, 2, 3 }))
    assert.matches('hvp: v is float64%[2%], but x %(`Const:0`%) is float32%[2%]', message_of(df.hvp, y:reduce_sum(), x, df.float64{ 1, 2 }))
    assert.matches('hvp: v is missing', message_of(df.hvp, y:reduce_sum(), x))
  end)

  it('are zeros where the derivative is zero everywhere', function()
    near(df.run(df.hessian(x:reduce_sum(), x)), { { 0, 0 }, { 0, 0 } })
    near(df.run(df.hvp(x:reduce_sum(), x, { 1, 1 })), { 0, 0 })
    near(df.run(df.jvp(df.constant({ 1.0 }) * 2, x, { 1, 1 })), { 0 })
    near(df.run(df.jacobian(df.constant({ 1.0 }) * 2, x)), { { 0, 0 } })
  end)
end)

describe('the dtypes of what map_fn gives', function()
  it('have an entry for each thing that the function returns, and for nothing else', function()
    local xs = df.float32{ 1, 2, 3 }
    local function both(x) return { a = x * 2, b = df.cast(x, 'int32') } end
    local y = df.map_fn(both, xs, { dtype = { a = 'float32', b = 'int32' } })
    assert.same({ { 2, 4, 6 }, { 1, 2, 3 } }, { df.run(y.a):totable(), df.run(y.b):totable() })
    for words, dtype in pairs{ ['has no entry b'] = { a = 'float32' }, ['has an entry c'] = { a = 'float32', b = 'int32', c = 'int32' } } do
      local why = support.error_of(df.map_fn, both, xs, { dtype = dtype })
      assert.matches(words, tostring(why))
    end
  end)
end)

describe('an accumulator whose shape changes', function()
  it('is what shape_invariants says, in foldl, foldr and scan', function()
    local function join(a, x) return df.concat({ a, df.expand_dims(x, 0) }, 0) end
    local xs = df.float32{ 1, 2, 3 }
    assert.same({ 1, 2, 3 }, df.run(df.foldl(join, xs, df.zeros{ 0 }, { shape_invariants = { -1 } })):totable())
    assert.same({ 3, 2, 1 }, df.run(df.foldr(join, xs, df.zeros{ 0 }, { shape_invariants = { -1 } })):totable())
    local both = df.foldl(function(a, x) return { list = join(a.list, x), n = a.n + 1 } end, xs, { list = df.zeros{ 0 }, n = df.int32(0) },
                          { shape_invariants = { list = { -1 } } })
    assert.same({ { 1, 2, 3 }, 3 }, { df.run(both.list):totable(), df.run(both.n) })
    local sums = df.scan(function(a, x) return df.placeholder_with_default(a, { -1 }) + x end, xs, df.zeros{ 2 }, { shape_invariants = { -1 } })
    assert.same({ { 1, 1 }, { 3, 3 }, { 6, 6 } }, df.run(sums):totable())
  end)

  it('is an error that says which shape_invariants would allow it: they do', function()
    local function join(a, x) return df.concat({ a, df.expand_dims(x, 0) }, 0) end
    local xs, load = df.float32{ 1, 2, 3 }, rawget(_G, 'loadstring') or load
    for name, fold in pairs{ foldl = df.foldl, foldr = df.foldr, scan = df.scan } do
      for _, case in ipairs{
        { function() return df.zeros{ 0 } end, join },
        { function() return { list = df.zeros{ 0 }, n = df.int32(0) } end, function(a, x) return { list = join(a.list, x), n = a.n + 1 } end },
        { function() return { df.int32(0), df.zeros{ 0 } } end, function(a, x) return { a[1] + 1, join(a[2], x) } end },
      } do
        local why = support.error_of(fold, case[2], xs, case[1]())
        local said = tostring(why):match 'shape_invariants = (%b{}) would allow it'
        assert(said, tostring(why))
        assert.is_true(pcall(fold, case[2], xs, case[1](), { shape_invariants = load('return ' .. said)() }), name .. ' ' .. said)
      end
    end
  end)
end)
