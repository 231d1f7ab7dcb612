--- Reading and writing by index: values, empty arrays, rank 0, strings, errors that name the index, derivatives, kernels.
local df = require 'dflow'
local support = require 'spec.support'
local near, same = support.near, support.same

--- The same value, but unknown while the graph is built.
local function fed(v, dtype)
  return df.placeholder_with_default(df.constant(v, dtype or 'int32'))
end
local function ints(v) return df.constant(v, 'int32') end
local function shape_of(v) return df.run(v).shape end
local function fails(code, words, fn) return require('spec.support').fails(fn, code, words) end
local function matrix(dtype) return df.constant({ { 1, 2, 3 }, { 4, 5, 6 } }, dtype or 'float32') end

describe('gather', function()
  it('never reads outside', function()
    fails('invalid_argument', 'index 2 is not in [0, 2)', function() return df.run(matrix()[fed(2)]) end)
    fails('invalid_argument', 'index -1 is not in [0, 2)', function() return df.run(matrix()[fed(-1)]) end)
    fails('invalid_argument', 'indices[1,0] = 7 is not in [0, 2), the range of dimension 0', function()
      return df.run(df.gather(matrix(), fed { { 0, 1 }, { 7, 1 } }))
    end)
    fails('invalid_argument', 'indices[0] = -1 is not in [0, 3), the range of dimension 1', function()
      return df.run(df.gather(matrix(), fed({ -1, 1 }, 'int64'), { axis = 1 }))
    end)
    fails('invalid_argument', 'indices[1] = 3 is not in [0, 2)', function() return df.gather(matrix(), ints { 0, 3 }) end)
    fails('invalid_argument', 'index 0 is not in [0, 0)', function() return df.run(df.gather(df.zeros { 0, 3 }, fed(0))) end)
    fails('invalid_argument', 'axis 2 is out of range for rank 2: expected one in [-2, 2)', function() return df.gather(matrix(), ints { 0 }, { axis = 2 }) end)
  end)
  it('finds a bad index among very many', function()
    local ids = df.placeholder('int32', { -1 })
    local y = df.gather(df.zeros { 50 }, ids)
    local list = {}
    for i = 1, 1000 do list[i] = i % 50 end
    same(df.run(df.size(y), { [ids] = df.tensor(list, 'int32') }), 1000)
    list[777] = 50
    fails('invalid_argument', 'indices[776] = 50 is not in [0, 50)', function() return df.run(y, { [ids] = df.tensor(list, 'int32') }) end)
  end)
end)

describe('gather_nd and scatter_nd', function()
  it('name the first of many indices that is out of range', function()
    for _, dtype in ipairs{ 'int32', 'int64' } do
      local list = {}
      for i = 1, 100 do list[i] = { i % 7 } end
      list[61][1], list[90][1] = -1, 7
      local at = df.placeholder(dtype, { 100, 1 })
      fails('invalid_argument', 'indices[60,0] = -1 is not in [0, 7)', function()
        return df.run(df.scatter_nd(at, df.ones{ 100 }, { 7 }), { [at] = df.tensor(list, dtype) })
      end)
      list[61][1] = 0
      fails('invalid_argument', 'indices[89,0] = 7 is not in [0, 7)', function()
        return df.run(df.gather_nd(df.zeros{ 7 }, at), { [at] = df.tensor(list, dtype) })
      end)
    end
  end)

  it('name the index and the bound', function()
    fails('invalid_argument', 'indices[1,1] = 3 is not in [0, 3), the range of dimension 1', function()
      return df.run(df.gather_nd(matrix(), fed { { 0, 1 }, { 1, 3 } }))
    end)
    fails('invalid_argument', 'indices[0,0] = 4 is not in [0, 4)', function()
      return df.run(df.scatter_nd(fed { { 4 } }, df.constant({ 1 }, 'float32'), ints { 4 }))
    end)
    fails('invalid_argument', 'indices is int32[1,3], 3 numbers to an index', function() return df.gather_nd(matrix(), ints { { 0, 1, 2 } }) end)
    fails('invalid_argument', 'updates is float32[2] for indices int32[1,1]: expected [1]', function()
      return df.scatter_nd(ints { { 4 } }, df.constant({ 1, 2 }, 'float32'), ints { 4 })
    end)
  end)
end)

describe('tensor_scatter_update, add and sub', function()
  it('never write outside', function()
    fails('invalid_argument', 'indices[0,0] = -1 is not in [0, 2)', function()
      return df.run(df.tensor_scatter_update(matrix(), fed { { -1 } }, df.constant({ { 1, 2, 3 } }, 'float32')))
    end)
  end)
end)

describe('dynamic_partition and dynamic_stitch', function()
  it('let the later row stay, and fill holes with zeros', function()
    same(df.run(df.dynamic_stitch({ ints { 0, 3 }, ints(0) }, { df.constant({ 1, 2 }, 'int32'), df.constant(9, 'int32') })), { 9, 0, 0, 2 })
    assert.same({ 0 }, shape_of(df.dynamic_stitch({ df.zeros({ 0 }, 'int32') }, { df.zeros { 0 } })))
    assert.same({ 4, 3 }, df.dynamic_stitch({ ints { 0, 3 } }, { matrix() }).shape)
  end)
  it('name the index', function()
    fails('invalid_argument', 'partitions[1] = 3 is not in [0, 2)', function() return df.run(df.dynamic_partition(matrix(), fed { 0, 3 }, 2)) end)
    fails('invalid_argument', 'expected data to begin with the dimensions of partitions', function() return df.dynamic_partition(matrix(), ints { 0, 1, 1 }, 2) end)
    fails('invalid_argument', 'indices[0][1] = -1 is negative', function() return df.run(df.dynamic_stitch({ fed { 0, -1 } }, { matrix() })) end)
    fails('invalid_argument', 'takes lists of one length', function() return df.dynamic_stitch({ ints { 0, 1 }, ints { 2 } }, { matrix() }) end)
  end)
end)

local derivatives = {
  { 'gather by a matrix of indices', function(x) return df.gather(x, ints { { 0, 2 }, { 2, 1 } }) end, { { 3, 2 } } },
  { 'gather by a vector', function(x) return df.gather(x, ints { 0, 2, 2, 1 }) end, { { 3, 2 } } },
  { 'gather by a scalar', function(x) return df.gather(x, ints(2)) end, { { 3, 2 } } },
  { 'gather of single elements', function(x) return df.gather(x, fed { { 0, 2 }, { 2, 1 } }) end, { { 3 } } },
  { 'gather along axis 1', function(x) return df.gather(x, ints { { 0, 2 }, { 2, 1 } }, { axis = 1 }) end, { { 2, 3, 2 } } },
  { 'gather along the last axis', function(x) return df.gather(x, ints(1), { axis = -1 }) end, { { 2, 3, 2 } } },
  { 'gather in batches', function(x) return df.gather(x, ints { { 0, 2 }, { 2, 1 } }, { axis = 2, batch_dims = 1 }) end, { { 2, 2, 3, 2 } } },
  { 'gather_nd', function(x) return df.gather_nd(x, ints { { 0, 1 }, { 2, 0 }, { 0, 1 } }) end, { { 3, 2, 2 } } },
  { 'scatter_nd', function(u) return df.scatter_nd(ints { { 0 }, { 2 }, { 0 } }, u, ints { 4, 2 }) end, { { 3, 2 } } },
  { 'tensor_scatter_update with an index twice', function(x, u) return df.tensor_scatter_update(x, ints { { 0 }, { 2 }, { 0 } }, u) end, { { 3, 2 }, { 3, 2 } } },
  { 'tensor_scatter_add', function(x, u) return df.tensor_scatter_add(x, ints { { 0 }, { 2 }, { 0 } }, u) end, { { 3, 2 }, { 3, 2 } } },
  { 'tensor_scatter_sub', function(x, u) return df.tensor_scatter_sub(x, ints { { 0 }, { 2 }, { 0 } }, u) end, { { 3, 2 }, { 3, 2 } } },
  { 'one_hot', function(on, off)
    return df.one_hot(ints { { 0, 2 }, { 1, 5 } }, 3, { on_value = df.reduce_sum(on), off_value = df.reduce_sum(off), axis = 1 })
  end, { { 1 }, { 1 } } },
  { 'dynamic_partition', function(x) return df.dynamic_partition(x, ints { 0, 2, 0, 2 }, 3) end, { { 4, 2 } } },
  { 'one part of dynamic_partition', function(x) return df.dynamic_partition(x, ints { 0, 2, 0, 2 }, 3)[1] end, { { 4, 2 } } },
  { 'dynamic_partition by a matrix', function(x) return df.dynamic_partition(x, fed { { 0, 1 }, { 1, 0 } }, 2) end, { { 2, 2 } } },
  { 'dynamic_stitch with an index twice', function(x, y) return df.dynamic_stitch({ ints { 0, 3 }, ints { 1, 0 } }, { x, y }) end, { { 2, 2 }, { 2, 2 } } },
  { 'dynamic_stitch of rows and a row', function(x, y) return df.dynamic_stitch({ fed { { 0, 3 } }, fed(5) }, { x, y }) end, { { 1, 2, 2 }, { 2 } } },
}
support.derivatives(it, derivatives)

describe('the gradient of gather', function()
  it('stays sparse along axis 0', function()
    local x = df.placeholder('float64', { 5, 2 })
    local g = df.gradients(df.reduce_sum(df.gather(x, ints { { 3, 1 }, { 3, 0 } })), x)
    assert.equal('indexed_slices', df.type(g))
    same(df.run(g.indices), { 3, 1, 3, 0 })
    assert.same({ 4, 2 }, g.values.shape)
    near(df.run(g + 0, { [x] = support.tensor({ 5, 2 }, -1, 1) }), { { 1, 1 }, { 1, 1 }, { 0, 0 }, { 2, 2 }, { 0, 0 } })
  end)

  -- The same body in a loop and unrolled: one gradient.
  local function sum(v) return df.reduce_sum(df.sin(v)) end
  local bodies = {
    { 'x[i]', function(i, a, x) return sum(x[i] * a) end },
    { 'x[i] and x[3 - i]', function(i, a, x) return sum(x[i] * a) + sum(x[3 - i]) end },
    { 'rows', function(i, a, x) return sum(df.gather(x, df.stack { i, i, 0 }) * a) end },
    { 'another axis', function(i, a, x) return sum(df.gather(x, df.stack { i % 3, 0 }, { axis = 1 }) * a) end },
    { 'gather_nd', function(i, a, x) return sum(df.gather_nd(x, df.stack { df.stack { i, 0 }, df.stack { 0, i % 3 } }) * a) end },
    { 'strided_slice', function(i, a, x)
      return sum(df.strided_slice(x, df.stack { i, 0 }, df.stack { i + 1, 2 }, { 1, 1 }, { shrink_axis_mask = 1 }) * a)
    end },
    { 'slice', function(i, a, x) return sum(df.slice(x, df.stack { i, 1, 0 }, { 1, 2, 2 }) * a) end },
    { 'slices that grow, joined', function(i, a, x) return sum(df.concat({ df.slice(x, { 0, 0, 0 }, df.stack { i + 1, 3, 2 }) * a, x }, 0)) end },
    { 'a tile that grows', function(i, a, x) return sum(df.tile(x, df.stack { i + 1, 1, 2 }) * a) end },
    { 'a partition', function(i, a, x)
      local p = df.dynamic_partition(x * a, df.stack { i % 2, 0, 1, 1 }, 2)
      return sum(p[1]) - sum(p[2] * p[2])
    end },
  }
  for _, case in ipairs(bodies) do
    it('is exact in a loop: ' .. case[1], function()
      local x = df.placeholder('float64', { 4, 3, 2 })
      local feeds, trips = { [x] = support.tensor({ 4, 3, 2 }, -1, 1, 'float64', 3) }, 4
      local function body(i, a) return a * 0.9 + case[2](i, a, x) end
      local start = df.constant(0.5, 'float64')
      local _, looped = df.while_loop(function(i) return i:lt(trips) end, function(i, a) return i + 1, body(i, a) end, { df.int32(0), start })
      local unrolled = start
      for t = 0, trips - 1 do unrolled = body(df.int32(t), unrolled) end
      local function orders(y)
        local g = df.gradients(y, x) + df.constant(0, 'float64')
        return y, g, df.gradients(df.reduce_sum(g * g), x) + df.constant(0, 'float64')
      end
      near(df.run({ orders(looped) }, feeds), df.run({ orders(unrolled) }, feeds), { rtol = 1e-9, atol = 1e-9 })
    end)
  end
end)

