--- Ranges, mirrored edges, distinct integers, counts and places of extremes: the fast kernels give what the reference gives, to the bit.
local df = require 'dflow'
local support = require 'spec.support'
local same = support.same

before_each(function() df.reset() end)

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

  it('mirror edges of any width of element, in one dimension and in three', function()
    for _, dtype in ipairs{ 'float32', 'float64', 'int8', 'bfloat16', 'bool' } do
      for _, mode in ipairs{ 'REFLECT', 'SYMMETRIC' } do
        support.cpu_equals_ref(function(x)
          x = df.cast(x, dtype)
          local cube, line = df.reshape(x, { 3, 4, 5 }), df.reshape(x, { 60 })
          local ys = { df.mirror_pad(line, { { 7, 59 } }, { mode = mode }), df.mirror_pad(cube, { { 2, 1 }, { 0, 3 }, { 4, 2 } }, { mode = mode }),
                       df.mirror_pad(cube, { { 0, 0 }, { 1, 1 }, { 0, 0 } }, { mode = mode }) }
          for i, y in ipairs(ys) do ys[i] = df.cast(y, 'float32') end
          return ys
        end, { scattered(60, -9, 9, 'float32') }, exactly)
      end
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

  it('count integers, with weights of every dtype and without', function()
    for _, arr in ipairs{ 'int32', 'int64' } do
      for _, dtype in ipairs{ 'int32', 'int64', 'float32', 'float64' } do
        support.cpu_equals_ref(function(v, w)
          return { df.bincount(v, w), df.bincount(v, w, { maxlength = 20 }), df.bincount(v, { dtype = dtype, minlength = 50 }) }
        end, { scattered(300, 0, 40, arr), scattered(300, -5, 9, dtype) }, exactly)
      end
    end
  end)

  it('find extremes of short rows of integers, of long rows, and of rows whose elements are all alike', function()
    for _, dtype in ipairs{ 'int32', 'int64', 'float32', 'float64' } do
      for _, n in ipairs{ 1, 3, 8, 9, 16, 17, 65, 200 } do
        support.cpu_equals_ref(function(x)
          local low = df.zeros_like(x) - 2147483647 - 1
          return { df.argmax(x, { axis = 1 }), df.argmin(x, { axis = 1 }), df.argmax(low, { axis = 1 }), df.argmin(-1 - low, { axis = 1 }) }
        end, { scattered(7 * n, -6, 6, dtype, { 7, n }) }, exactly)
      end
    end
  end)

  it('reverse rows of any width of element', function()
    for _, dtype in ipairs{ 'int8', 'bfloat16', 'float32', 'int64' } do
      support.cpu_equals_ref(function(x)
        local y = df.cast(x, dtype)
        return { df.cast(df.reverse(y, { 1 }), 'float32'), df.cast(df.reverse(y, { 0, 1 }), 'float32'),
                 df.cast(y:strided_slice({ 0, 70 }, { 3, 2 }, { 1, -1 }), 'float32') }
      end, { scattered(3 * 77, -9, 9, 'float32', { 3, 77 }) }, exactly)
    end
  end)
end)
