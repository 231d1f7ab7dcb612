local df = require 'dflow'
local near = require('spec.support').near

describe('df.associative_scan', function()
  it('gives what scan gives, for any length, along any axis, in value and gradient', function()
    for n = 1, 17 do
      local list = {}
      for k = 1, n do list[k] = 0.3 + ((k * 7) % 5) / 4 end
      local x = df.float32(list)
      for _, reverse in ipairs{ false, true } do
        local function both(a, b) return a * b end
        local fast, slow = df.associative_scan(both, x, { reverse = reverse }), df.scan(both, x, nil, { reverse = reverse })
        near(df.run(fast), df.run(slow))
        near(df.run(df.gradients(fast, x)), df.run(df.gradients(slow, x)))
        local wide = df.associative_scan(both, x:reshape{ 1, n }, { axis = -1, reverse = reverse })
        near(df.run(wide:reshape{ n }), df.run(slow))
      end
    end
  end)

  it('has the second derivatives of scan, also of no element and one', function()
    local function both(a, b) return a * b end
    for n = 0, 9 do
      for _, reverse in ipairs{ false, true } do
        local list = {}
        for k = 1, n do list[k] = 0.4 + (k * 5 % 7) / 3 end
        local x, found = df.constant(list, 'float32', { n }), {}
        for i, y in ipairs{ df.associative_scan(both, x, { reverse = reverse }), n > 0 and df.scan(both, x, nil, { reverse = reverse }) or x } do
          local g = df.gradients(y, x)
          found[i] = df.run{ y, g, df.gradients(g * g, x, { unconnected = 'zero' }) }
        end
        near(found[1], found[2], { rtol = 1e-4 })
      end
    end
  end)

  it('takes shapes that only the run knows, but for how many elements there are', function()
    local p = df.placeholder('float32', { -1, 5, -1, -1 })
    local y = df.associative_scan(df.add, p, { axis = 1 })
    assert.same({ -1, 5, -1, -1 }, y.shape)
    for _, dims in ipairs{ { 2, 5, 3, 2 }, { 1, 5, 1, 4 }, { 3, 5, 0, 2 } } do
      local x = df.run(df.random_uniform(dims, { seed = 3 }))
      near(df.run(y, { [p] = x }), df.run(df.cumsum(df.constant(x), { axis = 1 })))
    end
  end)

  it('takes plain numbers, graph functions, and several results', function()
    near(df.run(df.associative_scan(df.add, { 1.0, 2.0, 3.0 })), { 1, 3, 6 })
    local add = df.func('add', { 'float32', 'float32' }, function(a, b) return a + b end)
    near(df.run(df.associative_scan(add, df.float32{ 1, 2, 3 })), { 1, 3, 6 })
    local r = df.associative_scan(function(p, q) return p[1] + q[1], p[2] * q[2] end, { df.float32{ 1, 2, 3 }, df.float32{ 1, 2, 3 } })
    near(df.run(r[1]), { 1, 3, 6 })
    near(df.run(r[2]), { 1, 2, 6 })
  end)

  it('takes structures, as of a linear recurrence', function()
    local a, b = df.float32{ 0.5, 2, -1, 3, 0.25 }, df.float32{ 1, 2, 3, 4, 5 }
    local r = df.associative_scan(function(p, q) return { a = p.a * q.a, b = p.b * q.a + q.b } end, { a = a, b = b })
    local h, want, have = 0, {}, df.run(r.b):list()
    for k, v in ipairs{ 0.5, 2, -1, 3, 0.25 } do
      h = h * v + k
      want[k] = h
    end
    for k in ipairs(want) do near(have[k], want[k]) end
  end)

  it('keeps the order of what does not commute', function()
    local m = df.float32{ { { 1, 2 }, { 0, 1 } }, { { 1, 0 }, { 3, 1 } }, { { 2, 1 }, { 1, 1 } }, { { 0, 1 }, { 1, 0 } } }
    near(df.run(df.associative_scan(function(a, b) return df.batch_matmul(a, b) end, m)),
         df.run(df.scan(function(a, b) return df.matmul(a, b) end, m)))
  end)

  it('says what is wrong', function()
    local function fails(text, ...)
      local ok, e = pcall(df.associative_scan, ...)
      assert.is_false(ok)
      assert.is_truthy(e.message:find(text, 1, true), e.message)
    end
    local function add(a, b) return a + b end
    fails('has to be known while the graph is built', add, df.placeholder('float32', { -1 }))
    fails('has no axis 1', add, df.float32{ 1, 2 }, { axis = 1 })
    fails('a shape is kept', function(a) return a:reduce_sum() end, df.float32{ 1, 2 })
    fails('different numbers of elements', function(a) return a end, { df.float32{ 1, 2 }, df.float32{ 1 } })
    fails('returns nothing', function() end, df.float32{ 1, 2 })
  end)
end)
