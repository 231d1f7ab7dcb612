--- Bands of diagonals, as graphs of TensorFlow 2 have them for tf.linalg.diag and its kind (MatrixDiagV3): what TensorFlow gave.
local df = require 'dflow'
local registry = require 'dflow.front.registry'
local support = require 'spec.support'
local same, message_of = support.same, support.message_of

local function op(type, inputs, attrs) return registry.op(type, inputs, attrs or {}) end
local function part(x, k, align, padding) return op('MatrixDiagPartV3', { x, df.int32(k), df.constant(padding or 0, 'float64') }, { align = align }) end
local function matrix(x, k, align, rows, cols, padding)
  return op('MatrixDiagV3', { x, df.int32(k), df.int32(rows or -1), df.int32(cols or -1), df.constant(padding or 0, 'float64') }, { align = align })
end
local function set(x, w, k, align) return op('MatrixSetDiagV3', { x, w, df.int32(k) }, { align = align }) end

describe('a band of diagonals', function()
  for _, c in ipairs(support.recorded 'spec/ops/bands_values') do
    local k = type(c.k) == 'table' and table.concat(c.k, ' to ') or c.k
    it(('%s of %s, packed %s, is TensorFlow\'s, and so is its gradient'):format(k, table.concat(c.shape, 'x'), c.align), function()
      local n, rows, cols = 1, c.shape[#c.shape - 1], c.shape[#c.shape]
      for _, d in ipairs(c.shape) do n = n * d end
      local x, w = df.reshape(df.cast(df.range(1, n + 1), 'float64'), c.shape), df.constant(c.w, 'float64')
      local packed = part(x, c.k, c.align, 9)
      same(df.run(packed), c.part)
      assert.same(packed.shape, df.run(packed).shape)
      same(df.run(df.gradients(df.reduce_sum(part(x, c.k, c.align) * w), x)), c.slope)
      local whole = matrix(df.constant(c.part, 'float64'), c.k, c.align, rows, cols, 7)
      same(df.run(whole), c.matrix)
      assert.same(c.shape, whole.shape)
      same(df.run(set(x, w, c.k, c.align)), c.set)
      local y = set(df.square(x), df.sin(w), c.k, c.align)
      assert.is_true(df.check_gradients(df.reduce_sum(y * y), { x, w }))
      assert.is_true(df.check_gradients(df.reduce_sum(df.square(matrix(df.sin(w), c.k, c.align))), { w }))
      if c.align == 'LEFT_LEFT' then
        same(df.run(op('MatrixDiagPartV2', { x, df.int32(c.k), df.float64(9) })), c.part)
        same(df.run(op('MatrixSetDiagV2', { x, w, df.int32(c.k) })), c.set)
        assert.is_true(df.check_gradients(df.reduce_sum(df.square(op('MatrixSetDiagV2', { x, w, df.int32(c.k) }))), { x, w }))
      end
    end)
  end

  it('may hold strings', function()
    local x = df.constant{ { 'a', 'b' }, { 'c', 'd' } }
    same(df.run(op('MatrixDiagPartV3', { x, df.int32{ -1, 1 }, df.constant '' }, { align = 'LEFT_LEFT' })), { { 'b', '' }, { 'a', 'd' }, { 'c', '' } })
  end)

  it('says what does not fit', function()
    local x = df.reshape(df.cast(df.range(6), 'float64'), { 2, 3 })
    assert.matches('a matrix of 2 rows and 3 columns has the diagonals -1 to 2', message_of(df.run, part(x, 3)), 1, true)
    assert.matches('k[0] is 1, above k[1], which is 0', message_of(df.run, part(x, { 1, 0 })), 1, true)
    assert.matches("align is 'UP'", message_of(part, x, 0, 'UP'), 1, true)
    assert.matches('the diagonals 0 to 0 of float64[2,3] are given as float64[3]', message_of(df.run, set(x, df.zeros({ 3 }, 'float64'), 0)), 1, true)
    assert.matches('diagonals of length 2 do not fit matrices of 1 rows', message_of(df.run, matrix(df.zeros({ 2 }, 'float64'), 0, nil, 1, 5)), 1, true)
    local deep, late = df.zeros({ 1, 1, 1, 1, 1, 1, 1, 2 }, 'float64'), df.placeholder('float64')
    local why = 'the matrices would have rank 9'
    assert.matches(why, message_of(function() return df.run(matrix(deep, 0)) end), 1, true)
    assert.matches(why, message_of(df.run, matrix(late, 0), { [late] = df.run(deep) }), 1, true)
    local unknown = part(x, -9)
    assert.same({ -1 }, unknown.shape)
    local none = df.zeros({ 0, 5 }, 'float64')
    assert.matches('a matrix of 0 rows and 5 columns', message_of(df.run, part(none, 7)), 1, true)
    assert.same({ 2, 0 }, df.run(part(none, { 0, 1 })).shape)
    local wrong = op('MatrixDiagV3', { x, df.int32(0), df.zeros({ 0 }, 'int32'), df.int32(-1), df.float64(0) }, {})
    assert.matches('num_rows', message_of(df.run, wrong), 1, true)
    assert.matches('must be matrices', message_of(df.run, part(df.zeros({ 2 }, 'float64'), 0)), 1, true)
  end)
end)
