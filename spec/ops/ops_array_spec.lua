--- Array ops: shapes, joining, cutting, repeating, filling: values, empty arrays, rank 0, strings, errors, derivatives, kernels.
local df = require 'dflow'
local support = require 'spec.support'
local same, message_of = support.same, support.message_of
local inf = math.huge

--- The same value, but unknown while the graph is built; `shape` is what is known of its shape.
local function fed(v, dtype, shape)
  local c = df.constant(v, dtype or 'int32')
  return df.placeholder_with_default(c, shape or c.shape)
end

--- x with a shape that is not known while the graph is built, not even its rank.
local function hidden(x)
  local shape = df.run(df.shape(x))
  return df.reshape(x, fed(shape, 'int32', { -1 }))
end

local function shape_of(v) return df.run(v).shape end
local function fails(code, words, fn) return require('spec.support').fails(fn, code, words) end

local m23 = { { 1, 2, 3 }, { 4, 5, 6 } }
local function matrix(dtype) return df.constant(m23, dtype or 'float32') end

describe('shape, size and rank', function()
  it('are constants where they are known', function()
    same(df.run(df.shape(matrix())), { 2, 3 })
    same(df.run(df.size(matrix())), 6)
    same(df.run(df.rank(matrix())), 2)
    assert.same({ 2, 3 }, df.zeros(df.shape(matrix())).shape)
  end)
  it('of several arrays are asked for at once', function()
    local shapes = df.shape_n({ matrix(), df.constant({ 'a' }, 'string') })
    same(df.run(shapes), { { 2, 3 }, { 1 } })
  end)
end)

describe('reshape', function()
  it('fills in one -1, while building as well', function()
    local y = df.reshape(matrix(), { -1, 2 })
    assert.same({ 3, 2 }, y.shape)
    same(df.run(df.reshape(matrix(), fed({ 1, -1 }))), { { 1, 2, 3, 4, 5, 6 } })
    assert.same({ 0, 4 }, df.reshape(df.zeros { 0, 2 }, { -1, 4 }).shape)
    assert.same({ 0, 4 }, shape_of(df.reshape(df.zeros { 0, 2 }, fed { -1, 4 })))
  end)
  it('says which numbers of elements do not agree', function()
    fails('invalid_argument', 'float32[2,3] has 6 elements, but the shape [4,2] has 8', function() return df.reshape(matrix(), { 4, 2 }) end)
    fails('invalid_argument', 'has 6 elements, but the shape [4,2] has 8', function() return df.run(df.reshape(matrix(), fed { 4, 2 })) end)
    fails('invalid_argument', 'no multiple of the 4', function() return df.reshape(matrix(), { 4, -1 }) end)
    fails('invalid_argument', '-1 at 0 and at 1', function() return df.reshape(matrix(), { -1, -1 }) end)
  end)
end)

describe('expand_dims and squeeze', function()
  it('name the axis and the range that would do', function()
    fails('invalid_argument', 'dim 5 is out of range for rank 3: expected one in [-3, 3)', function() return df.expand_dims(matrix(), 5) end)
    fails('invalid_argument', 'dimension 0 of float32[2,3] is to be squeezed, but is 2', function() return df.squeeze(matrix(), 0) end)
  end)
end)

describe('transpose', function()
  it('is told apart from a list that is no permutation', function()
    fails('invalid_argument', 'perm names dimension 0 twice', function() return df.transpose(matrix(), { 0, 0 }) end)
    fails('invalid_argument', 'perm names dimension 1 twice', function() return df.transpose(matrix(), { 1, 1 }) end)
    fails('invalid_argument', 'perm has 1 entries for float32[2,3]', function() return df.transpose(matrix(), { 0 }) end)
    fails('invalid_argument', 'perm 2 is out of range', function() return df.run(df.transpose(matrix(), fed { 0, 2 })) end)
    same(df.run(df.invert_permutation(df.constant({ 2, 0, 1 }, 'int32'))), { 1, 2, 0 })
    fails('invalid_argument', 'x[1] is 0, as x[0] is already', function() return df.run(df.invert_permutation(fed { 0, 0 })) end)
  end)
end)

describe('concat, split, stack and unstack', function()
  it('take elements by turns, and every second one apart again, of any size and dtype', function()
    for _, dtype in ipairs{ 'float32', 'float64', 'float16', 'int8', 'int32', 'int64', 'bool', 'string' } do
      for _, n in ipairs{ 1, 2, 7, 16, 33, 64, 100, 1000, 20000 } do
        local a, b = {}, {}
        for k = 1, n do
          a[k], b[k] = k % 101, k % 37 + 50
          if dtype == 'bool' then a[k], b[k] = k % 3 == 0, k % 5 == 0 elseif dtype == 'string' then a[k], b[k] = 'a' .. k, 'b' .. k end
        end
        local x, y = df.placeholder(dtype, { n }), df.placeholder(dtype, { n })
        local both = df.reshape(df.stack({ x, y }, { axis = 1 }), { -1 })
        local step = { 2 }
        local found = df.run({ both, df.strided_slice(both, { 0 }, { 2 * n }, step), df.strided_slice(both, { 1 }, { 2 * n }, step) },
                             { [x] = a, [y] = b })
        for k = 1, n do
          assert(found[1]:at(2 * k - 2) == a[k] and found[1]:at(2 * k - 1) == b[k], ('%s, element %d of %d'):format(dtype, k, n))
        end
        assert.same({ a, b }, { found[2]:list(), found[3]:list() })
      end
    end
  end)

  it('take strings, scalars and empty arrays', function()
    same(df.run(df.stack({ df.constant('a', 'string'), df.constant('b', 'string') })), { 'a', 'b' })
    same(df.run(df.concat({ df.constant({ 'a' }, 'string'), df.constant({ 'b', 'c' }, 'string') }, 0)), { 'a', 'b', 'c' })
    same(df.run(df.unstack(df.constant({ true, false }, 'bool'))), { true, false })
    assert.same({ 0, 5 }, shape_of(df.concat({ df.zeros { 0, 2 }, df.zeros { 0, 3 } }, 1)))
    same(df.run(df.concat({ df.zeros { 0, 3 }, matrix() }, 0)), m23)
  end)
  it('know the shape of the result as far as it can be known', function()
    local x, y = df.placeholder('float32', { -1, 3 }), df.placeholder('float32', { 2, -1 })
    assert.same({ 2, -1 }, df.concat({ x, y }, 1).shape)
    assert.same({ -1, 3 }, df.concat({ x, y }, 0).shape)
    assert.same({ 2, 3, 2 }, df.stack({ x, y }, { axis = -1 }).shape)
    assert.same({ -1, 1 }, df.split(x, 3, { axis = 1 })[1].shape)
  end)
  it('name both shapes where they do not go together', function()
    local x = matrix()
    fails('invalid_argument', 'values[0] is float32[2,3] and values[1] is float32[3,3]: expected the same dimensions but for axis 1',
          function() return df.concat({ x, df.zeros { 3, 3 } }, 1) end)
    fails('invalid_argument', 'values[0] is float32[2,3] and values[1] is float32[3,3]',
          function() return df.run(df.concat({ x, hidden(df.zeros { 3, 3 }) }, 1)) end)
    fails('invalid_argument', 'expected the same rank', function() return df.concat({ x, df.zeros { 3 } }, 1) end)
    fails('invalid_argument', 'axis 2 is out of range for rank 2: expected one in [-2, 2)', function() return df.concat({ x, x }, 2) end)
    fails('invalid_argument', 'expected one shape', function() return df.stack({ x, df.zeros { 3, 3 } }) end)
    fails('invalid_argument', 'does not split into 2 equal parts', function() return df.split(x, 2, { axis = 1 }) end)
    fails('invalid_argument', 'size_splits add up to 2, but dimension 1 of float32[2,3] is 3', function() return df.split(x, { 1, 1 }, { axis = 1 }) end)
    fails('invalid_argument', 'to be taken apart into 5 values along axis 0', function() return df.unstack(x, { num = 5 }) end)
  end)
end)

describe('slice and strided_slice', function()
  it('know their shape when only the indices are unknown', function()
    local i = df.placeholder('int32', {})
    assert.same({ 3 }, df.strided_slice(matrix(), df.stack { i }, df.stack { i + 1 }, { 1 }, { shrink_axis_mask = 1 }).shape)
    assert.same({ 1, 2 }, df.slice(matrix(), df.stack { i, i }, { 1, 2 }).shape)
    assert.same({ 3 }, matrix()[i].shape)
  end)
  it('name the index and the bound', function()
    fails('invalid_argument', 'slice index 5 of dimension 0 is out of bounds: expected an index in [-2, 2)', function()
      return df.run(df.strided_slice(matrix(), fed { 5 }, fed { 6 }, { 1 }, { shrink_axis_mask = 1 }))
    end)
    fails('invalid_argument', 'strides[0] must be non-zero', function() return df.strided_slice(matrix(), { 0 }, { 1 }, { 0 }) end)
    fails('invalid_argument', '3 indices for an input of rank 2', function() return df.strided_slice(matrix(), { 0, 0, 0 }, { 1, 1, 1 }) end)
    fails('invalid_argument', 'size[1] is 2 from begin 2 on for float32[2,3]: expected at most 1', function() return df.slice(matrix(), { 0, 2 }, { 1, 2 }) end)
    fails('invalid_argument', 'size[1] is 2 from begin 2 on for float32[2,3]: expected at most 1', function() return df.run(df.slice(matrix(), fed { 0, 2 }, fed { 1, 2 })) end)
    fails('invalid_argument', 'begin[0] is -1', function() return df.run(df.slice(matrix(), fed { -1, 0 }, fed { 1, 1 })) end)
  end)
end)

describe('tile, pad, reverse, roll and broadcast_to', function()
  it('say what is wrong with their arguments', function()
    local x = matrix()
    fails('invalid_argument', 'multiples has 1 entries for float32[2,3]: expected 2', function() return df.tile(x, { 2 }) end)
    fails('invalid_argument', 'multiples[1] is -1', function() return df.run(df.tile(x, fed { 2, -1 })) end)
    fails('invalid_argument', 'paddings is int32[1,2] for float32[2,3]: expected [2,2]', function() return df.pad(x, { { 1, 1 } }) end)
    fails('invalid_argument', 'mode REFLECT expects at most 1', function() return df.pad(x, { { 2, 1 }, { 1, 0 } }, { mode = 'reflect' }) end)
    fails('invalid_argument', 'axis 2 is out of range for rank 2', function() return df.reverse(x, { 2 }) end)
    fails('invalid_argument', 'seq_lengths[1] is 4: expected one in [0, 3]', function()
      return df.run(df.reverse_sequence(x, fed { 1, 4 }, { seq_dim = 1, batch_dim = 0 }))
    end)
    fails('invalid_argument', 'float32[2,3] does not broadcast to [3,3]', function() return df.broadcast_to(x, { 3, 3 }) end)
  end)
end)

describe('fill, range and linspace', function()
  it('reach the ends of int64', function()
    local least = df.cast(df.constant(-2 ^ 63, 'float64'), 'int64')
    local last = df.cast(df.constant(2 ^ 63, 'float64'), 'int64')
    local r = df.range(least, last, last)
    same(df.run(df.size(r)), 3)
    same(df.run(df.equal(r, df.stack { least, df.constant(-1, 'int64'), last - 1 })), { true, true, true })
  end)
  it('say what is wrong with their arguments', function()
    fails('invalid_argument', 'delta is 0', function() return df.range(0, 5, 0) end)
    fails('invalid_argument', 'a range from 5 to 0 by 1: expected start <= limit', function() return df.range(5, 0, 1) end)
    fails('invalid_argument', 'num is 0: expected 1 or more', function() return df.linspace(0, 1, 0) end)
    fails('invalid_argument', 'dims[1] is -1: expected 0 or more', function() return df.run(df.fill(fed { 2, -1 }, df.constant(1, 'float32'))) end)
    fails('resource_exhausted', 'out of memory for float32[1000000000,1000000000]', function()
      return df.run(df.fill(fed { 1000000000, 1000000000 }, df.constant(1, 'float32')))
    end)
  end)
end)

describe('where, unique and check_numerics', function()
  it('setdiff1d compares floats by value, as TensorFlow does: a NaN is never found, and -0 is 0', function()
    for _, dtype in ipairs{ 'float32', 'float64', 'float16', 'bfloat16' } do
      local x = df.cast(df.float32{ 0 / 0, 1, -0.0, 0 / 0, 0, 1 / 0, 1, -1 / 0, 1 / 0 }, dtype)
      local _, at = df.setdiff1d(x, df.cast(df.float32{ 0 / 0, 1 / 0, 0 }, dtype))
      assert.same({ 0, 1, 3, 6, 7 }, df.run(at):totable(), dtype)
    end
    local z = df.complex({ 0, 1, 1, 0 / 0 }, { -0.0, 2, 3, 0 })
    local _, at = df.setdiff1d(z, df.complex({ -0.0, 1, 0 / 0 }, { 0, 2, 0 }))
    assert.same({ 2, 3 }, df.run(at):totable())
  end)

  it('find elements', function()
    same(df.run(df.where(df.constant({ { true, false }, { false, true } }, 'bool'))), { { 0, 0 }, { 1, 1 } })
    assert.same({ 0, 1 }, shape_of(df.where(df.constant({ false }, 'bool'))))
    local y, idx = df.unique(df.constant({ 3, 1, 3, 2, 1 }, 'int32'))
    same(df.run({ y, idx }), { { 3, 1, 2 }, { 0, 1, 0, 2, 1 } })
    local s, at, count = df.unique_with_counts(df.constant({ 'a', 'b', 'a' }, 'string'))
    same(df.run({ s, at, count }), { { 'a', 'b' }, { 0, 1, 0 }, { 2, 1 } })
    local z = df.unique(df.constant({ 0, -0.0, 0 / 0, 0 / 0 }, 'float32'))
    assert.same({ 3 }, shape_of(z))
  end)
  it('let good numbers through and name the first bad one', function()
    same(df.run(df.check_numerics(df.constant({ 1, 2 }, 'float32'), { message = 'here' })), { 1, 2 })
    fails('invalid_argument', 'here : Tensor had Inf and NaN values, the first at [0,1]', function()
      return df.run(df.check_numerics(df.constant({ { 1, 0 / 0 }, { inf, 1 } }, 'float32'), { message = 'here' }))
    end)
  end)
end)

-- Every op that has a derivative: what it is applied to, and the shapes of its arguments.
local function ints(v) return df.constant(v, 'int32') end
local derivatives = {
  { 'reshape', function(x) return df.reshape(x, { 3, -1 }) end, { { 2, 3, 2 } } },
  { 'reshape to a shape that is fed', function(x) return df.reshape(x, fed { 3, -1 }) end, { { 2, 3, 2 } } },
  { 'expand_dims', function(x) return df.expand_dims(x, 1) end, { { 2, 3 } } },
  { 'squeeze', function(x) return df.squeeze(x, { 1 }) end, { { 2, 1, 3 } } },
  { 'transpose', function(x) return df.transpose(x, { 2, 0, 1 }) end, { { 2, 3, 2 } } },
  { 'transpose by a perm that is fed', function(x) return df.transpose(x, fed { -1, 0, 1 }) end, { { 2, 3, 2 } } },
  { 'concat', function(x, y) return df.concat({ x, y, x }, 1) end, { { 2, 3 }, { 2, 2 } } },
  { 'concat along an axis that is fed', function(x, y) return df.concat({ x, y, x }, fed(-1)) end, { { 2, 3 }, { 2, 2 } } },
  { 'concat of which little is wanted', function(x) return df.concat({ df.zeros({ 2, 1 }, 'float64'), x, df.zeros({ 2, 2 }, 'float64') }, 1) end, { { 2, 3 } } },
  { 'split', function(x) return df.split(x, 2, { axis = 1 }) end, { { 2, 4 } } },
  { 'one part of a split', function(x) return df.split(x, 2, { axis = 1 })[2] end, { { 2, 4 } } },
  { 'split into sizes', function(x) return df.split(x, { 1, -1 }, { axis = 1 }) end, { { 2, 4 } } },
  { 'stack', function(x, y) return df.stack({ x, y, x }, { axis = 1 }) end, { { 2, 3 }, { 2, 3 } } },
  { 'unstack', function(x) return df.unstack(x, { axis = 1, num = 3 }) end, { { 2, 3 } } },
  { 'one part of unstack', function(x) return df.unstack(x, { axis = 1, num = 3 })[2] end, { { 2, 3 } } },
  { 'slice', function(x) return df.slice(x, { 1, 0 }, { -1, 2 }) end, { { 3, 3 } } },
  { 'slice from a place that is fed', function(x) return df.slice(x, fed { 1, 0 }, fed { -1, 2 }) end, { { 3, 3 } } },
  { 'strided_slice', function(x) return df.strided_slice(x, { 2, 0 }, { 0, 3 }, { -1, 2 }) end, { { 3, 3 } } },
  { 'strided_slice with every mask', function(x)
    return df.strided_slice(x, { 0, 1, 0, -1 }, { 0, 2, 0, -9 }, { 1, 1, 1, -2 },
                            { ellipsis_mask = 1, shrink_axis_mask = 2, new_axis_mask = 4, begin_mask = 8, end_mask = 8 })
  end, { { 2, 3, 4 } } },
  { 'strided_slice from a place that is fed', function(x) return df.strided_slice(x, fed { 1, 0 }, fed { 3, 2 }, fed { 1, 1 }) end, { { 3, 3 } } },
  { 'x[i]', function(x) return x[1] end, { { 3, 3 } } },
  { 'tile', function(x) return df.tile(x, { 2, 3 }) end, { { 2, 2 } } },
  { 'tile by multiples that are fed', function(x) return df.tile(x, fed { 2, 3 }) end, { { 2, 2 } } },
  { 'tile of five dimensions', function(x) return df.tile(x, { 2, 1, 2, 1, 2 }) end, { { 1, 2, 1, 2, 1 } } },
  { 'tile of five dimensions by multiples that are fed', function(x) return df.tile(x, fed { 2, 1, 2, 1, 2 }) end, { { 1, 2, 1, 2, 1 } } },
  { 'pad', function(x) return df.pad(x, { { 1, 0 }, { 2, 1 } }) end, { { 2, 2 } } },
  { 'pad by paddings that are fed', function(x) return df.pad(x, fed { { 1, 0 }, { 2, 1 } }) end, { { 2, 2 } } },
  { 'pad with a value', function(x, c) return df.pad(x, { { 1, 0 }, { 2, 1 } }, { constant_values = df.reduce_sum(c) }) end, { { 2, 2 }, { 1 } } },
  { 'pad with a reflection', function(x) return df.pad(x, { { 1, 1 }, { 2, 0 } }, { mode = 'reflect' }) end, { { 2, 3 } } },
  { 'pad with a mirror image', function(x) return df.pad(x, { { 1, 2 }, { 2, 3 } }, { mode = 'symmetric' }) end, { { 2, 3 } } },
  { 'reverse', function(x) return df.reverse(x, { 1 }) end, { { 2, 3 } } },
  { 'reverse_sequence', function(x) return df.reverse_sequence(x, ints { 1, 3 }, { seq_dim = 1, batch_dim = 0 }) end, { { 2, 3 } } },
  { 'roll', function(x) return df.roll(x, ints { 1, -1 }, ints { 0, 1 }) end, { { 2, 3 } } },
  { 'broadcast_to', function(x) return df.broadcast_to(x, { 3, 2, 3 }) end, { { 2, 1 } } },
  { 'broadcast_to a shape that is fed', function(x) return df.broadcast_to(x, fed { 3, 2, 3 }) end, { { 2, 1 } } },
  { 'fill', function(x) return df.fill({ 2, 3 }, df.reduce_sum(x)) end, { { 2 } } },
  { 'range', function(x, y) return df.range(df.reduce_sum(x) * 0.01, df.constant(4, 'float64'), df.reduce_sum(y) * 0.01 + 1) end, { { 2 }, { 2 } } },
  { 'linspace', function(x, y) return df.linspace(df.reduce_sum(x), df.reduce_sum(y), 5) end, { { 2 }, { 2 } } },
  { 'diag', function(x) return df.diag(x) end, { { 3 } } },
  { 'diag_part', function(x) return df.diag_part(x) end, { { 3, 3 } } },
  { 'matrix_set_diag', function(x, d) return df.matrix_set_diag(x, d) end, { { 2, 2, 3 }, { 2, 2 } } },
  { 'check_numerics', function(x) return df.check_numerics(x, { message = 'm' }) end, { { 2, 3 } } },
}
support.derivatives(it, derivatives)

describe('an op at the edge', function()
  it('refuses more than eight dimensions', function()
    local x = df.zeros { 1, 1, 1, 1, 1, 1, 1, 1 }
    assert.truthy(message_of(df.expand_dims, x, 0):find('9 dimensions: expected at most 8', 1, true))
    assert.truthy(message_of(df.stack, { x, x }):find('9 dimensions', 1, true))
  end)
  it('reports a run error with the op that failed', function()
    local e = support.error_of(df.run, df.reshape(matrix(), fed { 4, 2 }, { name = 'narrow' }))
    assert.truthy(e.op:find('narrow', 1, true))
  end)
end)

describe('split by sizes', function()
  it('wants a vector of sizes, however they were come by', function()
    local places = df.where(df.constant{ { true, false }, { true, true } })      -- int64[3,2], known while building
    local e = support.error_of(df.split, df.float32{ 1, 2, 3, 4 }, places)
    assert.matches('size_splits', tostring(e))
  end)
end)

describe('blocks', function()
  it('of more pixels than can be counted are errors, in whatever way they are too many', function()
    local one, big = df.ones{ 1, 1, 1, 1 }, 2 ^ 32
    local function refused(op, x, blocks, margins)
      fails('invalid_argument', 'more pixels than can be counted', function()
        df.run(op(x, fed(blocks, 'int64', { 2 }), fed(margins, 'int64', { 2, 2 })))
      end)
    end
    local none = { { 0, 0 }, { 0, 0 } }
    refused(df.batch_to_space_nd, one, { big, big }, none)
    refused(df.space_to_batch_nd, one, { big, big }, { { big - 1, 0 }, { big - 1, 0 } })
    refused(df.batch_to_space_nd, df.ones{ 4, 1, 1, 1 }, { 2 ^ 31, 2 ^ 31 }, none)
    refused(df.batch_to_space_nd, df.ones{ 0, 4, 1, 1 }, { 2 ^ 62, 1 }, none)
    refused(df.space_to_batch_nd, one, { 2, 2 }, { { 2 ^ 62, 2 ^ 62 }, { 1, 0 } })
  end)
end)
