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
