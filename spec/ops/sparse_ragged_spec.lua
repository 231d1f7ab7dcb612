--- Sparse and ragged tensors in one tensor and out of it again; optionals.
local df = require 'dflow'
local op = require('dflow.front.registry').op
local same = require('spec.support').same

local function invalid(x)
  local ok, e = pcall(df.run, x)
  assert(not ok, 'no error was raised')
  assert.equal('invalid_argument', e.code)
end
--- A sparse tensor [2,3] with 1 at [0,0] and 2 at [1,2].
local function sparse(values)
  return { df.int64{ { 0, 0 }, { 1, 2 } }, values or df.int32{ 1, 2 }, df.int64{ 2, 3 } }
end
local function serialize(many, s, out) return op(many and 'SerializeManySparse' or 'SerializeSparse', s, { out_type = out }) end
local function deserialize(x, dtype) return { op('DeserializeSparse', { x }, { dtype = dtype or 'int32' }) } end

describe('a serialized sparse tensor', function()
  it('comes back as it was, from strings and from variants', function()
    for _, out in ipairs{ 'string', 'variant' } do
      same(df.run(deserialize(serialize(false, sparse(), out))), { { { 0, 0 }, { 1, 2 } }, { 1, 2 }, { 2, 3 } })
      same(df.run(deserialize(serialize(true, sparse(), out))), { { { 0, 0 }, { 1, 2 } }, { 1, 2 }, { 2, 3 } })
      same(df.run(deserialize(serialize(true, sparse(df.constant{ 'a', 'bc' }), out), 'string')), { { { 0, 0 }, { 1, 2 } }, { 'a', 'bc' }, { 2, 3 } })
    end
  end)

  it("is TensorFlow's TensorProto, byte for byte", function()
    local shape = df.run(df.gather(serialize(false, sparse(), 'string'), 2))
    local none = { df.zeros({ 0, 1 }, 'int64'), df.zeros({ 0 }, 'int32'), df.int64{ 2 } }
    assert.equal('\8\9\18\6\18\0\18\2\8\1', df.run(df.gather(serialize(false, none, 'string'), 0)))     -- a dimension of 0 is left out
    assert.equal('\8\9\18\4\18\2\8\2"\16\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0', shape)
  end)

  it('says how long its shape is, however many bytes a dimension takes', function()
    for d, head in pairs{ [127] = '\8\3\18\4\18\2\8\127"\252\3', [128] = '\8\3\18\5\18\3\8\128\1"\128\4',
                          [16383] = '\8\3\18\5\18\3\8\255\127"\252\255\3', [16384] = '\8\3\18\6\18\4\8\128\128\1"\128\128\4' } do
      local s = serialize(false, { df.zeros({ d, 1 }, 'int64'), df.zeros({ d }, 'int32'), df.int64{ 70000 } }, 'string')
      assert.equal(head .. ('\0'):rep(4 * d), df.run(df.gather(s, 1)))
    end
  end)

  it('is put below others that may be smaller', function()
    local a = serialize(false, { df.int64{ { 1 } }, df.int32{ 5 }, df.int64{ 2 } }, 'string')
    local b = serialize(false, { df.int64{ { 0 }, { 3 } }, df.int32{ 6, 7 }, df.int64{ 4 } }, 'string')
    same(df.run(deserialize(df.stack{ a, b })), { { { 0, 1 }, { 1, 0 }, { 1, 3 } }, { 5, 6, 7 }, { 2, 4 } })
  end)

  it('is an error where it is none', function()
    invalid(deserialize(df.constant{ 'a', 'b', 'c' })[1])
    invalid(deserialize(df.constant{ 'a', 'b' })[1])
    invalid(deserialize(serialize(false, sparse(), 'variant'), 'float32')[2])
    invalid(serialize(true, { df.int64{ { 1, 0 }, { 0, 2 } }, df.int32{ 1, 2 }, df.int64{ 2, 3 } }))
    local function sorted(rows)
      local ok, e = pcall(df.run, serialize(true, { df.int64(rows), df.int32{ 1, 2, 3 }, df.int64{ 3, 3 } }))
      return not ok and e.message or 'held'
    end
    assert.equal('held', sorted{ { 0, 0 }, { 2, 0 }, { 2, 1 } })
    for text, rows in pairs{ ['index 2 begins with 1: expected numbers from 0 to 2 in order'] = { { 0, 0 }, { 2, 0 }, { 1, 1 } },
                             ['index 1 begins with 0'] = { { 1, 0 }, { 0, 0 }, { 2, 1 } }, ['index 2 begins with 3'] = { { 0, 0 }, { 1, 0 }, { 3, 1 } },
                             ['index 0 begins with %-1'] = { { -1, 0 }, { 1, 0 }, { 2, 1 } } } do
      assert.matches(text, sorted(rows))
    end
    invalid(serialize(false, { df.int64{ { 0, 0 } }, df.int32{ 1, 2 }, df.int64{ 2, 3 } }))
  end)
end)

describe('SparseToDense', function()
  it('puts values at indices, which must be in order', function()
    local function dense(indices, values, opts) return op('SparseToDense', { df.int32(indices), df.int32{ 2, 3 }, values, df.float32(-1) }, opts) end
    same(df.run(dense({ { 0, 1 }, { 1, 2 } }, df.float32{ 5, 6 })), { { -1, 5, -1 }, { -1, -1, 6 } })
    same(df.run(dense({ { 0, 1 }, { 1, 2 } }, df.float32(7))), { { -1, 7, -1 }, { -1, -1, 7 } })
    invalid(dense({ { 1, 2 }, { 0, 1 } }, df.float32{ 5, 6 }))
    same(df.run(dense({ { 1, 2 }, { 0, 1 } }, df.float32{ 6, 5 }, { validate_indices = false })), { { -1, 5, -1 }, { -1, -1, 6 } })
    invalid(dense({ { 0, 3 } }, df.float32{ 5 }))
  end)
end)

describe('a ragged tensor', function()
  local function to(splits, values, batched) return op('RaggedTensorToVariant', { splits, values }, { batched_input = batched }) end
  local function from(x, inner, levels, dtype)
    return { op('RaggedTensorFromVariant', { x }, { input_ragged_rank = inner, output_ragged_rank = levels, Tvalues = dtype or 'int32', Tsplits = 'int64' }) }
  end
  local function rows() return { df.int64{ 0, 2, 2, 5 } }, df.int32{ 1, 2, 3, 4, 5 } end       -- [[1, 2], [], [3, 4, 5]]

  it('goes through a variant', function()
    local splits, values = rows()
    same(df.run(from(to(splits, values, false), 1, 1)), { { 0, 2, 2, 5 }, { 1, 2, 3, 4, 5 } })
  end)

  it('goes through a variant for each of its rows', function()
    local splits, values = rows()
    local each = to(splits, values, true)
    same(df.run(from(each, 0, 1)), { { 0, 2, 2, 5 }, { 1, 2, 3, 4, 5 } })
    same(df.run(from(df.gather(each, 2), 0, 0)), { { 3, 4, 5 } })
    same(df.run(from(df.gather(each, df.int32{ 2, 0 }), -1, 1)), { { 0, 3, 5 }, { 3, 4, 5, 1, 2 } })
  end)

  it('keeps its inner levels', function()
    local splits = { df.int64{ 0, 1, 3 }, df.int64{ 0, 2, 2, 5 } }                              -- [[[1, 2]], [[], [3, 4, 5]]]
    local each = to(splits, df.int32{ 1, 2, 3, 4, 5 }, true)
    same(df.run(from(each, 1, 2)), { { 0, 1, 3 }, { 0, 2, 2, 5 }, { 1, 2, 3, 4, 5 } })
    same(df.run(from(df.gather(each, 1), 1, 1)), { { 0, 0, 3 }, { 3, 4, 5 } })
    local grid = df.reshape(df.gather(each, df.int32{ 0, 1, 1, 0 }), { 2, 2 })
    same(df.run(from(grid, 1, 3)), { { 0, 2, 4 }, { 0, 1, 3, 5, 6 }, { 0, 2, 2, 5, 5, 8, 10 }, { 1, 2, 3, 4, 5, 3, 4, 5, 1, 2 } })
  end)

  it('gives rows', function()
    local function gather(splits, values, indices, levels) return { op('RaggedGather', { splits, values, indices }, { OUTPUT_RAGGED_RANK = levels }) } end
    local splits, values = rows()
    local lists = gather(splits, values, df.int32{ 2, 1, 0, 2 }, 1)
    same(df.run{ lists[1], lists[2] }, { { 0, 3, 3, 5, 8 }, { 3, 4, 5, 1, 2, 3, 4, 5 } })
    local grid = gather(splits, values, df.int32{ { 0, 1 }, { 1, 0 } }, 2)
    same(df.run{ grid[1], grid[2], grid[3] }, { { 0, 2, 4 }, { 0, 2, 2, 2, 4 }, { 1, 2, 1, 2 } })
    local none = gather(splits, values, df.constant({}, 'int32', { 0 }), 1)
    same(df.run(none[1]), { 0 })
    invalid(gather(splits, values, df.int32{ 3 }, 1)[2])
  end)

  it('is an error where splits, ranks or dtypes do not fit', function()
    local splits, values = rows()
    invalid(to({ df.int64{ 0, 2, 1, 5 } }, values, false))
    invalid(to({ df.int64{ 0, 2, 4 } }, values, false))
    invalid(from(to(splits, values, true), 1, 1)[1])
    invalid(from(to(splits, values, false), 1, 1, 'float32')[2])
  end)
end)

describe('an optional', function()
  it('has values, or none', function()
    local some, none = op('OptionalFromValue', { { df.int32(1), df.constant{ 'a', 'b' } } }), op('OptionalNone', {})
    local function values(x) return op('OptionalGetValue', { x }, { output_types = { 'int32', 'string' } }) end
    same(df.run{ op('OptionalHasValue', { some }), op('OptionalHasValue', { none }) }, { true, false })
    same(df.run(values(some)), { 1, { 'a', 'b' } })
    invalid(values(none)[1])
  end)
  it('of numbers, lists or optionals has zeros of its kind, and sums', function()
    local function some(x) return op('OptionalFromValue', { { x } }) end
    local function value(x, dtype) return op('OptionalGetValue', { x }, { output_types = { dtype } })[1] end
    local function sum(...) return op('AddN', { { ... } }) end
    local function zeros(x) return op('ZerosLike', { x }) end
    local a, none = df.constant{ 1.0, 2 }, op('OptionalNone', {})
    local function list(x) return op('TensorListFromTensor', { x, df.constant({}, 'int32', { 0 }) }) end
    local function rows(l) return op('TensorListStack', { l, df.constant({}, 'int32', { 0 }) }, { element_dtype = 'float32' }) end
    same(df.run{ value(sum(some(a), some(a * 10), some(a)), 'float32'), value(zeros(some(a)), 'float32'), a }, { { 12, 24 }, { 0, 0 }, { 1, 2 } })
    same(df.run{ rows(value(sum(some(list(a)), some(list(a))), 'variant')), rows(value(zeros(some(list(a))), 'variant')) }, { { 2, 4 }, { 0, 0 } })
    same(df.run(value(value(sum(some(some(a)), some(some(a))), 'variant'), 'float32')), { 2, 4 })
    same(df.run{ op('OptionalHasValue', { zeros(none) }), op('OptionalHasValue', { sum(none, none) }) }, { false, false })
    invalid(value(sum(some(a), none), 'float32'))
    invalid(value(sum(some(a), some(df.constant{ 1.0 })), 'float32'))
    invalid(value(sum(some(a), list(a)), 'float32'))
  end)
end)
