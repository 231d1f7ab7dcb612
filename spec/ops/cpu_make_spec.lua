--- Ranges, mirrored edges, distinct integers, counts and places of extremes: the fast kernels give what the reference gives, to the bit.
local df = require 'dflow'
local support = require 'spec.support'
local same = support.same

--- n integers in [low, high), scattered.
local function scattered(n, low, high, dtype, shape)
  local v, x = {}, 12345
  for i = 1, n do
    x = (x * 1103515245 + 12345) % 2147483648
    v[i] = low + math.floor(x / 65536) % (high - low)
  end
  return df.tensor(v, dtype, shape)
end
local exactly = { rtol = 0, atol = 0 }

describe('the fast kernels', function()
  -- the host adds up, as TensorFlow does there; each thread of a GPU has start + i delta
  support.host_it(it, pending)('make ranges of every dtype, up and down, empty and long', function()
    for _, dtype in ipairs{ 'int32', 'int64', 'float32', 'float64' } do
      support.cpu_equals_ref(function(a, b, c)
        local many = df.range(a, b * 1000, c)
        return { df.range(a, b, c), df.range(b, a, -c), df.range(a, a, c), many }
      end, { df.tensor(-3, dtype), df.tensor(117, dtype), df.tensor(dtype:find 'float' and 0.7 or 2, dtype) }, exactly)
    end
  end)

  it('find distinct integers, few and more than a table holds at first', function()
    for _, dtype in ipairs{ 'int32', 'int64' } do
      support.cpu_equals_ref(function(few, many)
        local y, at, count = df.unique_with_counts(few)
        local z, place = df.unique(many)
        local none, nowhere = df.unique(few:slice({ 0 }, { 0 }))
        return { y, at, count, z, place, none, nowhere }
      end, { scattered(500, -20, 20, dtype), scattered(9000, -30000, 30000, dtype) }, exactly)
    end
    local ends = df.tensor({ -2147483648, 2147483647, -1, 0, -2147483648, -1 }, 'int32')
    local y, at = df.unique(df.constant(ends))
    same(df.run{ y, at }[1]:totable(), { -2147483648, 2147483647, -1, 0 })
    same(df.run(at):totable(), { 0, 1, 2, 3, 0, 2 })
  end)
end)
