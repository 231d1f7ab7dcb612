-- Gradients that do not exist: the error, when they are built, names the op, its Lua line and the way from y to x.
local df = require 'dflow'
local support = require 'spec.support'

local function fails(y, x, ...)
  local message = support.message_of(df.gradients, y, x)
  for _, pattern in ipairs { ... } do assert(message:find(pattern), pattern .. ' is not in: ' .. message) end
end
local function trips(n, body, x, opts)
  return (select(2, df.while_loop(function(i) return i:lt(n) end, function(i, u) return i + 1, body(u) end, { df.int32(0), x }, opts)))
end

describe('a gradient that does not exist', function()
  it('for want of an op\'s gradient names the op, its line and the way', function()
    local x = df.constant({ 2, 1, 2 }, 'float64')
    local v, i = df.unique(x * 2)
    fails(df.reduce_sum(df.gather(df.sin(v), i)), x, 'op Unique %(`Unique`%) has no gradient', 'spec.lua:16',
          'from y to x: `Sum` %(.-spec.lua:17%) ← `GatherV2` ← `Sin` ← `Unique` %(.-spec.lua:16%) ← `Mul` ← `Const` %(.-spec.lua:15%)')
  end)
  it('is no silent zero where a scatter to a variable gives its new value', function()
    local w, x = df.Variable(df.float64{ 1, 2, 3 }), df.float64{ 1, 2 }
    local y = df.reduce_sum(w:scatter_add(df.int32{ 0, 1 }, x)) * df.reduce_sum(x)
    fails(y, x, 'op ResourceScatterAdd .-has no gradient', 'spec.lua:%d+')
  end)
  it('the same in a loop, under each way of saving, and in a cond', function()
    for _, save in ipairs { 'keep', 'swap', 'recompute' } do
      df.reset()
      local x = df.constant({ 2, 1, 2 }, 'float64')
      local y = trips(3, function(u)
        local v, i = df.unique(u * 2)
        return df.gather(v, i) * x
      end, x, { save = save })
      fails(df.reduce_sum(y), x, 'op Unique %(`while/Unique`%) has no gradient', 'spec.lua:%d+', '← `while/GatherV2`')
    end
    df.reset()
    local x = df.constant({ 2, 1, 2 }, 'float64')
    local y = df.cond(df.reduce_sum(x):gt(0), function() return df.reduce_sum((df.unique(x))) end, function() return df.float64(0) end)
    fails(y, x, 'op Unique %(`cond/Unique`%) has no gradient')
  end)
  it('of a long way shows both its ends', function()
    local x = df.float64(2)
    local y = df.reduce_sum((df.unique(df.stack { x })))
    for _ = 1, 50 do y = df.sin(y) end
    fails(y, x, '… %(%d+ more%)', '← `Const` %(.-spec.lua:%d+%)')
  end)
  it('of an integer says so, of y and of x', function()
    local x = df.float64(2)
    fails(df.cast(x, 'int32') * 2, x, 'y `Mul:0`, built at .-spec.lua:%d+, is int32', 'cast it to float32 first')
    local k = df.int32(3)
    fails(df.cast(k, 'float64') * x, k, 'x `Const_?%d*:0`, built at .-spec.lua:%d+, is int32')
  end)
  it('because y does not depend on x says what stands between them, and where', function()
    local x, z = df.float64(2), df.float64(3)
    fails(z * 2, x, 'does not depend on x', 'y is not computed from it')
    fails(df.cast(df.cast(df.sin(x), 'int32'), 'float64'), x, '`Cast` %(Cast%) at .-spec.lua:%d+, whose dtype is int32',
          'the way from y to x is `Cast_1` %(.-spec.lua:%d+%) ← `Cast` ← `Sin` ← `Const`')
    local y = df.cast(x, 'int32')
    for _ = 1, 4 do y = y * 2 end
    fails(df.cast(y, 'float64'), x, '`Mul_%d` [^←]*← `Mul_%d` ← `Mul_%d` ← `Mul_%d` ← `Cast')             -- seven of them
    fails(df.cast(y * 2, 'float64'), x, '← … %(2 more%) ← `Mul_%d` ← `Cast')
    fails(df.floor(x) * 2, x, '%(Floor%) at .-, whose gradient is zero everywhere')
    fails(df.stop_gradient(x) * 2, x, '%(StopGradient%) at .-, which stops it')
    fails(df.cond(x:gt(0), function() return z end, function() return z * 2 end), x, 'only through a predicate')
  end)
  it('because x and y were exchanged says so', function()
    local x, v = df.float64(2), df.Variable(df.float64(2))
    fails(x, x * x, 'y is not computed from it, but it from y: what is differentiated comes first, gradients%(y, x%); unconnected')
    fails(v, v * v, 'but it from y: what is differentiated comes first')
    fails({ df.float64(3), v }, df.sin(v:value()) * 2, 'but it from y')
    for _, case in ipairs{ { df.float64(3), x }, { x * 2, df.float64(3) }, { x + 1, x * 2 }, { v:value(), v:read_value() } } do
      local message = support.message_of(df.gradients, case[1], case[2])
      assert.matches('y is not computed from it; unconnected', message)
    end
  end)
  it('because an option means nothing says which', function()
    local x = df.constant({ 2, 3 }, 'float64')
    assert.matches('grad_ys has an entry 3, but there are 2 ys', support.message_of(df.gradients, { x * 2, x * x }, x, { grad_ys = { x, x, x } }))
    for _, other in ipairs{ df.constant({ 2, 3, 4 }, 'float64'), df.constant({ 2, 3 }, 'float32') } do
      assert.matches(('grad_ys 2 is %s%%[%d%%], but its y is float64%%[2%%]'):format(other.dtype, other.shape[1]),
                     support.message_of(df.gradients, { x * 2, x * x }, x, { grad_ys = { x, other } }))
    end
    local function loop(opts) return support.message_of(trips, 3, function(u) return u * 2 end, x, opts) end
    assert.matches("save must be 'keep', 'swap', 'recompute' or 'auto', but is 'banana'", loop{ save = 'banana' })
    assert.matches("swap_memory = true means save = 'swap', but save is 'recompute'", loop{ save = 'recompute', swap_memory = true })
    assert.matches('back_prop is true or false, not the string "no"', loop{ back_prop = 'no' })
  end)
  it('leaves the graph as usable as it was', function()
    local x = df.constant({ 2, 1, 2 }, 'float64')
    local y = df.reduce_sum(trips(3, function(u) return (df.unique(u)) end, x, { shape_invariants = { [2] = { -1 } }, save = 'recompute' }))
    for _ = 1, 3 do assert(not pcall(df.gradients, y, x)) end
    support.near(df.run { y, (df.gradients(df.reduce_sum(x * x), x)) }, { 3, { 4, 2, 4 } })
  end)
end)
