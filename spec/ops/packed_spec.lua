--- Products with a matrix that was multiplied with before: what is kept of it in panels must be what it is now.
local df = require 'dflow'

local function flat(t) return df.run(df.reshape(t, { -1 })):totable() end

describe('a matrix that is multiplied with again and again', function()
  for _, case in ipairs{ { 32, 320, 200 }, { 7, 1031, 65 }, { 130, 200, 400 } } do
    local m, n, k = case[1], case[2], case[3]
    it(('gives the bits of a product made once: [%d,%d] times [%d,%d], as it lies and transposed'):format(m, k, k, n), function()
      local x = df.constant(df.run(df.random_uniform({ m, k }, -1, 1, { seed = 1 })))
      local y = df.constant(df.run(df.random_uniform({ m, n }, -1, 1, { seed = 2 })))
      local w = df.Variable(df.random_uniform({ k, n }, -1, 1, { seed = 3 }))
      local plain, turned = df.matmul(x, w), df.matmul(y, w, { transpose_b = true })
      local once, once_turned = df.matmul(x, w + 0), df.matmul(y, w + 0, { transpose_b = true })   -- of a tensor made for it
      local more = w:assign_add(df.fill({ k, n }, df.float32(0.25)))
      for _ = 1, 3 do
        for _ = 1, 4 do
          local a, b, c, d = df.run(plain), df.run(turned), df.run(once), df.run(once_turned)
          assert.same(flat(c), flat(a))
          assert.same(flat(d), flat(b))
        end
        df.run(more)                               -- in the variable's own storage
      end
    end)
  end

  it('may be overwritten in place by the next iteration of a loop', function()
    local m, n, k = 16, 256, 256
    local x = df.constant(df.run(df.random_uniform({ m, k }, -1, 1, { seed = 1 })))
    local w0 = df.constant(df.run(df.random_uniform({ k, n }, -1, 1, { seed = 3 })))
    local function sums(copied)
      local _, _, out = df.while_loop(function(i) return i:lt(6) end, function(i, w, sum)
        local function product(f) return df.matmul(x * f, copied and w + 0 or w) end
        local part = product(1) + product(2) + product(3)
        return i + 1, w * 1.5, sum + part
      end, { df.int32(0), w0, df.zeros{ m, n } })
      return flat(df.run(out))
    end
    assert.same(sums(true), sums(false))
  end)

  it('lets its panels go with it', function()
    local x, n = df.ones{ 16, 512 }, 512
    local before
    for round = 1, 3 do
      local w = df.placeholder('float32', { n, n })
      local feed = df.run(df.random_uniform({ n, n }, -1, 1))
      local y = df.reduce_sum(df.matmul(x, w))
      for _ = 1, 4 do df.run(y, { [w] = feed }) end
      feed = nil -- luacheck: ignore
      collectgarbage() collectgarbage()
      if round == 1 then before = df.stats().memory['cpu:0'].in_use end
    end
    assert.is_true(df.stats().memory['cpu:0'].in_use - before < 1e6)
  end)
end)
