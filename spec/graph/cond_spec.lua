--- cond, case and switch_case as a user writes them.
local df = require 'dflow'
local support = require 'spec.support'
local near, same, message_of = support.near, support.same, support.message_of
local cond, gradients = df.cond, df.gradients

describe('cond', function()
  local p, x
  before_each(function()
    p = df.placeholder('bool', {}, 'p')
    x = df.constant(3.0)
  end)
  local function both(fetch)
    return { df.run(fetch, { [p] = true }), df.run(fetch, { [p] = false }) }
  end

  it('gives what the taken branch returns', function()
    same(both(cond(p, function() return x * 2 end, function() return x - 1 end)), { 6, 2 })
  end)

  it('gives several values, in a structure if the branches return one', function()
    local a, b = cond(p, function() return x, x + 1 end, function() return x * 10, x end)
    same(both{ a, b }, { { 3, 4 }, { 30, 3 } })
    local r = cond(p, function() return { u = x, v = { x, 1 } } end, function() return { u = 0, v = { x + 1, 2 } } end)
    same(both(r), { { u = 3, v = { 3, 1 } }, { u = 0, v = { 4, 2 } } })
  end)

  it('lets a bare number take the dtype of the other branch, whichever that is', function()
    local i = df.int64(5)
    assert.equal('int64', cond(p, function() return 1 end, function() return i end).dtype)
    assert.equal('int64', cond(p, function() return i end, function() return 1 end).dtype)
    same(both(cond(p, function() return 1 end, function() return x end)), { 1, 3 })
    same(both(cond(p, function() return 1 end, function() return 2.5 end)), { 1, 2.5 })
    assert.matches('int64', message_of(cond, p, function() return 0.5 end, function() return i end))
  end)

  it('merges shapes', function()
    local a, b = df.ones({ 2, 3 }), df.ones({ 4, 3 })
    assert.same({ -1, 3 }, cond(p, function() return a end, function() return b end).shape)
    assert.same({ 2, 3 }, cond(p, function() return a end, function() return a * 2 end).shape)
  end)

  it('does not compute what the other branch would fail at', function()
    local bad = cond(p, function() return df.int32(1) end, function() return df.floordiv(df.int32(1), df.int32(0) * df.cast(x, 'int32')) end)
    same(df.run(bad, { [p] = true }), 1)
    assert.matches('division by zero', message_of(df.run, bad, { [p] = false }))
  end)

  it('takes an operation as a result', function()
    local v = df.Variable(df.int32(0))
    local op = cond(p, function() return df.group(v:assign(1)) end, function() return df.no_op() end)
    assert.is_true(df.run(op, { [p] = true }))
    same(df.run(v), 1)
  end)

  it('takes a TensorArray made in both branches', function()
    local ta = cond(p, function() return df.TensorArray('float32', 2):unstack({ 1, 2 }) end,
                       function() return df.TensorArray('float32', 2):unstack({ 3, 4 }) end)
    near(both(ta:stack()), { { 1, 2 }, { 3, 4 } })
  end)

  it('takes true and false themselves', function()
    same(df.run(cond(df.constant(true), function() return x end, function() return x * 2 end)), 3)
  end)

  it('has gradients through both branches, zero where a branch does not use the value', function()
    local y = df.constant(4.0)
    local z = cond(p, function() return x * x end, function() return x * y end)
    near(both(gradients(z, { x, y })), { { 6, 0 }, { 4, 3 } })
  end)

  it('says what differs between the branches', function()
    local function values(...) local list = { ... } return function() return df.unpack(list) end end
    assert.matches('2 values.*1', message_of(cond, p, values(1, 2), values(1)))
    assert.matches('float32.*int32', message_of(cond, p, values(x), values(df.int32(1))))
    assert.matches('key v', message_of(cond, p, values{ u = x, v = x }, values{ u = x }))
    assert.matches('scalar bool', message_of(cond, df.constant{ true }, values(x), values(x)))
    assert.matches('function', message_of(cond, p, values(x)))
    assert.matches('no option', message_of(cond, p, values(x), values(x), { nome = 'x' }))
  end)

  it('survives a Lua error in a branch: the graph goes on', function()
    assert.matches('boom', message_of(cond, p, function() error('boom') end, function() return x end))
    assert.matches('boom', message_of(cond, p, function() return x end, function() error('boom') end))
    same(both(cond(p, function() return x * 2 end, function() return x end)), { 6, 3 })
  end)
end)

describe('case', function()
  it('runs the function of the first true predicate, or the default', function()
    local i = df.placeholder('int32', {})
    local y = df.case{ { i:lt(0), function() return -1.0 end }, { i:lt(10), function() return df.float32(i) end },
                       default = function() return 10.0 end }
    same({ df.run(y, { [i] = -5 }), df.run(y, { [i] = 4 }), df.run(y, { [i] = 99 }) }, { -1, 4, 10 })
  end)

  it('stops the run when no predicate is true and there is no default', function()
    local i = df.placeholder('int32', {})
    local y = df.case{ { i:lt(0), function() return df.float32(-1) end }, { i:eq(0), function() return df.float32(0) end } }
    same(df.run(y, { [i] = 0 }), 0)
    assert.matches('none of the predicates', message_of(df.run, y, { [i] = 1 }))
    local last = df.case{ { i:lt(0), function() return df.int32(0) + 0 end }, { i:lt(3), function() return df.gather(df.int32{ 5, 6, 7 }, i) end } }
    same(df.run(last, { [i] = 2 }), 7)
    assert.matches('none of the predicates', message_of(df.run, last, { [i] = 3 }))       -- not what the last function would say
  end)

  it('is the first true predicate\'s, for all there are, with a default and without; no other function does anything', function()
    local n = 3
    for with_default = 0, 1 do
      df.reset()
      local ps, made, list = {}, df.Variable(df.zeros{ n + 1 }, { trainable = false }), {}
      local function made_by(k)
        return function()
          return df.control_dependencies({ made:scatter_add({ k - 1 }, { 1. }) }, function() return df.int32(k) + 0 end)
        end
      end
      for k = 1, n do
        ps[k] = df.placeholder('bool', {})
        list[k] = { ps[k], made_by(k) }
      end
      list.default = with_default == 1 and made_by(n + 1) or nil
      local y = df.case(list)
      for bits = 0, 2 ^ n - 1 do
        local feeds, want, done = {}, with_default == 1 and n + 1 or nil, { 0, 0, 0, 0 }
        for k = n, 1, -1 do
          feeds[ps[k]] = math.floor(bits / 2 ^ (k - 1)) % 2 == 1
          if feeds[ps[k]] then want = k end
        end
        df.init()
        if want then
          same(df.run(y, feeds), want)
          done[want] = 1
        else assert.matches('none of the predicates', message_of(df.run, y, feeds)) end
        same(df.run(made), done)
      end
    end
  end)

  it('refuses what is no case', function()
    assert.matches('pair 1', message_of(df.case, { { 1 } }))
    assert.matches("no option 'defalt'", message_of(df.case, { { true, function() return 1 end }, defalt = function() return 1 end }))
  end)
end)

describe('switch_case', function()
  it('runs function number i, the default or the last one for other numbers', function()
    local i = df.placeholder('int32', {})
    local list = {}
    for k = 0, 4 do list[k + 1] = function() return df.int32(k * 10) end end
    local a = df.switch_case(i, list)
    local b = df.switch_case(i, list, function() return df.int32(-1) end)
    for k = 0, 4 do same(df.run({ a, b }, { [i] = k }), { k * 10, k * 10 }) end
    same(df.run({ a, b }, { [i] = 5 }), { 40, -1 })
    same(df.run({ a, b }, { [i] = -1 }), { 40, -1 })
  end)
end)
