--- Lanes that are done, or take no part in a branch, add nothing to a gradient: also where what is computed of their
-- values overflows, as 0 by an infinite derivative is NaN.
require 'spec.support'
local df = require 'dflow'

local function is_finite(v) return v == v and math.abs(v) < math.huge end

--- Values, first and second gradients of a function of a lane, as lists.
local function orders(lanes_of, x)
  local y = lanes_of(x)
  local first = df.gradients(y:reduce_sum(), x)
  local second = df.gradients(first:reduce_sum(), x, { unconnected = 'zero' })
  local out = {}
  for i, o in ipairs(df.run{ y, first, second }) do out[i] = o:list() end
  return out
end

local function same_as_map_fn(name, fn, x)
  local want = orders(function(a) return df.map_fn(fn, a) end, x)
  for _, compact in ipairs{ 'auto', true, false } do
    for i, list in ipairs(orders(df.vmap(fn, { compact = compact }), x)) do
      for lane, v in ipairs(list) do
        local w = want[i][lane]
        local where = ('%s, compact = %s, order %d, lane %d: %s, %s'):format(name, tostring(compact), i - 1, lane, v, w)
        assert(is_finite(w) == is_finite(v), where)
        assert(not is_finite(w) or math.abs(w - v) <= 1e-5 * math.abs(w), where)
      end
    end
  end
end

describe('a lane that is done', function()
  before_each(df.reset)

  local bodies = {
    square = function(v) return v * v end, exp = function(v) return df.exp(v) end,
    inverse = function(v) return 1 / (v * 1e-9) end, sqrt = function(v) return df.sqrt(v) * 1e10 end,
    log = function(v) return df.log(v) * -1e20 end, pow = function(v) return v ^ 3 end,
    division = function(v) return v / (v * 1e-20) * v end, tanh = function(v) return v + df.tanh(v) * v end,
    linear = function(v) return v * 2 end, abs = function(v) return df.abs(v) * v end,
  }
  for name, body in pairs(bodies) do
    it('adds nothing to a gradient: ' .. name, function()
      same_as_map_fn(name, function(x)
        return (df.while_loop(function(v, i)
          return df.logical_and(df.logical_and(df.less(v, 1e38), df.greater(v, 0)), i:lt(20))
        end, function(v, i) return body(v), i + 1 end, { x, df.int32(0) }))
      end, df.float32{ 1e10, 1.01, 3, 0.5, 2e38, 1.5 })
    end)
  end

  it('is not computed of what the other lanes have come to', function()
    local x = df.float32{ 1e20, 1 }
    same_as_map_fn('shared', function(at)
      local most = df.select_v2(at:gt(10), df.int32(1), df.int32(20))
      return (df.while_loop(function(_, i) return i:lt(most) end, function(v, i, k)
        local u = v * k
        return v + u * 1e-30 * u * 1e-30, i + 1, k * 10
      end, { at, df.int32(0), df.float32(1) }))
    end, x)
  end)

  it('nor is a branch that a lane does not take', function()
    same_as_map_fn('cond', function(x)
      return df.cond(df.less(x, 1e10), function() return x * x * x end, function() return x + 1 end)
    end, df.float32{ 1, 1e30, 2, 1e38 })
  end)
end)
