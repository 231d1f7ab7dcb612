--- Ops that graphs from TensorFlow use under their own names, and their gradients. That they compute what TensorFlow computes, dtype by
--- dtype and mistake by mistake, is in spec/recordings/ops.
local df = require 'dflow'
local support = require 'spec.support'
local registry = require 'dflow.front.registry'
local same, near = support.same, support.near

--- The outputs of a node of this type.
local function op(type, inputs, attrs)
  local outputs = {}
  for i, x in ipairs(inputs) do outputs[i] = getmetatable(x) and df.identity(x) or x end
  return registry.op(type, outputs, attrs or {})
end

describe('an op of TensorFlow', function()
  it('under an older name computes what the newer one does', function()
    local x, y = df.constant{ { 1.5, -2 }, { 3, 4 } }, df.constant{ { 2.0, 2 }, { -1, 5 } }
    for older, newer in pairs{ AddV2 = 'Add', Mod = 'TruncateMod', Div = 'RealDiv', BatchMatMul = 'BatchMatMulV2' } do
      same(df.run(op(older, { x, y })), df.run(op(newer, { x, y })), older)
    end
    same(df.run(op('BatchMatMulV3', { x, y }, { Tout = 'float32', adj_x = true })), df.run(df.batch_matmul(x, y, { adj_x = true })))
    same(df.run(df.gradients(op('BatchMatMulV3', { x, y }, { Tout = 'float32', adj_y = true }), x)),
         df.run(df.gradients(df.batch_matmul(x, y, { adj_y = true }), x)))
    same(df.run(op('Inv', { x })), df.run(op('Reciprocal', { x })))
    same(df.run(op('BiasAddV1', { x, df.constant{ 1.0, 2 } })), { { 2.5, 0 }, { 4, 6 } })
    same(df.run(op('Snapshot', { x })), { { 1.5, -2 }, { 3, 4 } })
    same(df.run(op('Div', { df.int32{ 7, -7 }, df.int32{ 2, 2 } })), { 3, -3 })
  end)

  it('with its inputs in another order computes what the newer one does', function()
    local x = df.constant{ { 1, 2, 3 }, { 4, 5, 6 } }
    same(df.run(op('Concat', { df.int32(1), { x, x } })), { { 1, 2, 3, 1, 2, 3 }, { 4, 5, 6, 4, 5, 6 } })
    same(df.run(op('Gather', { x, df.int32{ 1, 1, 0 } })), { { 4, 5, 6 }, { 4, 5, 6 }, { 1, 2, 3 } })
    same(df.run(op('Reverse', { x, df.constant{ true, false } })), { { 4, 5, 6 }, { 1, 2, 3 } })
    local values, indices = op('TopK', { x }, { k = 2 })
    same(df.run(values), { { 3, 2 }, { 6, 5 } })
    same(df.run(indices), { { 2, 1 }, { 2, 1 } })
    assert.matches('the 4 greatest of 3 elements are asked for', support.message_of(op, 'TopK', { x }, { k = 4 }))
    same(df.run(op('ConjugateTranspose', { df.constant({ { { re = 1, im = 2 }, 3 } }, 'complex64'), df.int32{ 1, 0 } })),
         { { { re = 1, im = -2 } }, { { re = 3, im = 0 } } })
  end)

  it('has the gradient that TensorFlow gives it', function()
    local x = df.constant({ { 1.0, 2, 3 }, { 4, 5, 6 } }, 'float64')
    local w = df.constant({ 1.0, 10, 100, 1000, 1e4, 1e5 }, 'float64', { 2, 3 })
    local function grad(y, weight) return df.run(df.gradients(df.reduce_sum(y * weight), x)) end
    same(grad(op('Concat', { df.int32(0), { x * 2, x } }), df.reshape(df.range(1, 13):cast('float64'), { 4, 3 })),
         { { 9, 12, 15 }, { 18, 21, 24 } })
    same(df.run(df.gradients(df.reduce_sum(op('Gather', { x, df.int32{ 1, 1, 0 } })), x) + 0), { { 1, 1, 1 }, { 2, 2, 2 } })
    same(grad(op('Reverse', { x, df.constant{ true, true } }), w), { { 1e5, 1e4, 1000 }, { 100, 10, 1 } })
    same(grad((op('TopK', { x }, { k = 1 })), df.constant({ { 2.0 }, { 3 } }, 'float64')), { { 0, 0, 2 }, { 0, 0, 3 } })
    same(grad(op('AddV2', { x, w }), w), { { 1, 10, 100 }, { 1000, 1e4, 1e5 } })
    same(grad(op('MulNoNan', { x, df.float64{ 0, 2, 3 } }), w), { { 0, 20, 300 }, { 0, 2e4, 3e5 } })
    near(grad(df.xlog1py(x, x), w), { { 1.1931471805599454, 17.652789553347764, 213.62943611198907 },
                                      { 2409.4379124341, 26250.928025613, 280305.30061982 } })
    same(grad(op('EnsureShape', { x }, { shape = { -1, 3 } }), w), { { 1, 10, 100 }, { 1000, 1e4, 1e5 } })
    assert.matches('prevents gradients', support.message_of(df.gradients, op('PreventGradient', { x }), x))
  end)

  it('of complex numbers and their parts has a gradient', function()
    local a, b = df.constant({ 1.0, 2 }, 'float64'), df.constant({ { 3.0 }, { -1 } }, 'float64')
    local z = df.complex(a, b)
    same(z.shape, { 2, 2 })
    local da, db = df.unpack(df.gradients(df.reduce_sum(df.real(z) * 2 + df.imag(z) * 5), { a, b }))
    same(df.run(da), { 4, 4 })
    same(df.run(db), { { 10 }, { 10 } })
  end)

  for _, name in ipairs{ 'segment_mean', 'segment_prod', 'segment_max', 'segment_min' } do
    it('named ' .. name .. ' has the gradient that finite differences give', function()
      local x = df.constant(support.tensor({ 4, 3 }, -2, 2, 'float64', 7))
      assert.is_true(df.check_gradients(df.reduce_sum(df.square(df[name](x, { 0, 0, 2, 2 }))), { x }))
    end)
  end
  for _, name in ipairs{ 'sparse_segment_sum', 'sparse_segment_mean', 'sparse_segment_sqrt_n' } do
    it('named ' .. name .. ' has the gradient that finite differences give', function()
      local x = df.constant(support.tensor({ 4, 3 }, -2, 2, 'float64', 7))
      assert.is_true(df.check_gradients(df.reduce_sum(df.square(df[name](x, { 3, 0, 3, 1 }, { 0, 0, 1, 1 }))), { x }))
    end)
  end

  it('that ensures a shape says which one it found', function()
    local x = df.placeholder('float32')
    local y = df.ensure_shape(x, { shape = { -1, 2 } })
    assert.same({ -1, 2 }, y.shape)
    same(df.run(y, { [x] = { { 1, 2 } } }), { { 1, 2 } })
    assert.matches('%[1,3%]', support.message_of(df.run, y, { [x] = { { 1, 2, 3 } } }))
    assert.is_false((pcall(df.ensure_shape, df.zeros{ 2, 3 }, { shape = { 2, 2 } })))
  end)

  it('compares shapes that do not broadcast when that is no error', function()
    local x, y = df.int32{ 1, 2 }, df.int32{ 1, 2, 3 }
    assert.is_false((pcall(df.equal, x, y)))
    assert.equal(false, df.run(df.equal(x, y, { incompatible_shape_error = false })))
    assert.equal(true, df.run(df.not_equal(x, y, { incompatible_shape_error = false })))
    same(df.run(df.equal(x, df.int32(2), { incompatible_shape_error = false })), { false, true })
  end)
end)

describe('strings', function()
  it('are written to a file, at its end, with a line of their own or with what is asked for', function()
    local registry, path = require 'dflow.front.registry', os.tmpname()
    local function put(words, last) df.run(registry.op('PrintV2', { df.constant(words) }, { output_stream = 'file://' .. path, ['end'] = last })) end
    put('first')
    put('second', '')
    put('third', '!\n')
    put('', ' end')
    assert.equal('first\nsecondthird!\n end', require('spec.shell').read(path))
    os.remove(path)
    local e = support.error_of(df.run, registry.op('PrintV2', { df.constant 'x' }, { output_stream = 'file:///dev/full' }))
    assert.equal('resource_exhausted', e.code)
    assert.matches('/dev/full', e.message, 1, true)
    e = support.error_of(df.run, registry.op('PrintV2', { df.constant 'x' }, { output_stream = 'nowhere' }))
    assert.equal('invalid_argument', e.code)
    assert.matches("output_stream is 'nowhere' but must be stdout", e.message, 1, true)
  end)

  it('are made from numbers as printf makes them', function()
    same(df.run(df.as_string{ 1.5, -2.25 }), { '1.500000', '-2.250000' })
    same(df.run(df.as_string({ 1.5, -2.25 }, { precision = 1 })), { '1.5', '-2.2' })
    same(df.run(df.as_string(df.int32{ 7, -12 }, { width = 4, fill = '0' })), { '0007', '-012' })
    same(df.run(df.as_string{ true, false }), { 'true', 'false' })
    assert.is_false((pcall(df.run, df.as_string({ 1.5 }, { scientific = true, shortest = true }))))
  end)

  it('become numbers, or say why not', function()
    same(df.run(df.string_to_number{ '1.5', ' -2 ', 'inf' }), { 1.5, -2, 1 / 0 })
    same(df.run(df.string_to_number({ '12', '-7' }, { out_type = 'int32' })), { 12, -7 })
    assert.matches("'1x' is no number", support.message_of(df.run, df.string_to_number({ '1x' })))
    assert.is_false((pcall(df.run, df.string_to_number({ '3000000000' }, { out_type = 'int32' }))))
  end)

  it('are joined, cut and measured', function()
    local s = df.constant{ 'ab', 'c' }
    same(df.run(df.string_join({ s, df.constant('!'), s }, { separator = '-' })), { 'ab-!-ab', 'c-!-c' })
    same(df.run(s + '?'), { 'ab?', 'c?' })
    same(df.run(df.reduce_join({ { 'a', 'b' }, { 'c', 'd' } }, { 0 })), { 'ac', 'bd' })
    same(df.run(df.substr({ 'hello', 'world' }, -3, 2)), { 'll', 'rl' })
    same(df.run(df.string_length(df.constant{ 'd\195\169', '' }, { unit = 'UTF8_CHAR' })), { 2, 0 })
    same(df.run(df.string_upper(df.string_strip{ ' aB\n' })), { 'AB' })
    local indices, values, shape = df.string_split({ 'a  b', '', 'c' }, ' ')
    same(df.run(indices), { { 0, 0 }, { 0, 1 }, { 2, 0 } })
    same(df.run(values), { 'a', 'b', 'c' })
    same(df.run(shape), { 3, 2 })
    same(df.run(df.decode_raw({ 'abc' }, { out_type = 'uint8' })), { { 97, 98, 99 } })
  end)

  it('are formatted with the ends of what is long', function()
    local x = df.reshape(df.range(0, 20), { 2, 10 })
    assert.equal('x = [[0 1 ... 8 9]\n [10 11 ... 18 19]]!',
                 df.run(df.string_format({ x }, { template = 'x = {}!', placeholder = '{}', summarize = 2 })))
    assert.is_false((pcall(df.run, df.string_format({ x }, { template = 'nothing' }))))
  end)
end)

describe('blocks of pixels', function()
  it('go to the batch and back, with gradients', function()
    local x = df.constant(support.tensor({ 1, 4, 2, 1 }, -2, 2, 'float64', 3))
    local y = df.space_to_batch_nd(x, { 2, 2 }, { { 1, 1 }, { 0, 0 } })
    assert.same({ 6, 2, 1 }, { df.run(df.size(y)) / 2, df.run(df.dim(y, 1)) - 1, df.run(df.dim(y, 2)) })
    near(df.run(df.batch_to_space_nd(y, { 2, 2 }, { { 1, 1 }, { 0, 0 } })), df.run(x))
    assert.is_true(df.check_gradients(df.reduce_sum(df.square(y)), { x }))
    assert.is_true(df.check_gradients(df.reduce_sum(df.square(df.batch_to_space_nd(df.reshape(x, { 4, 2, 1, 1 }), { 2, 2 },
                                                                                  { { 0, 1 }, { 0, 0 } }))), { x }))
  end)
  it('go to the channels and back, with gradients', function()
    local x = df.constant(support.tensor({ 1, 2, 4, 3 }, -2, 2, 'float64', 3))
    local y = df.space_to_depth(x, { block_size = 2 })
    assert.same({ 1, 1, 2, 12 }, y.shape)
    same(df.run(df.depth_to_space(y, { block_size = 2 })), df.run(x))
    assert.is_true(df.check_gradients(df.reduce_sum(df.square(y)), { x }))
    assert.is_true(df.check_gradients(df.reduce_sum(df.square(df.depth_to_space(y, { block_size = 2 }))), { x }))
  end)
  it('say of blocks that are too large for the channels what they are', function()
    for _, op in ipairs{ df.space_to_depth, df.depth_to_space } do
      local function message(shape, size) return support.message_of(op, df.placeholder('float32', shape), { block_size = size }) end
      assert.matches('block_size is 1: expected 2 or more', message({}, 1))
      assert.matches('block_size is 1099511627776: blocks of that many pixels squared cannot be counted', message({}, 2 ^ 40))
    end
    assert.matches('axis 3 is 4, and 4611686018427387904 times that cannot be counted',
                   support.message_of(df.space_to_depth, df.placeholder('float32', { 1, 0, 0, 4 }), { block_size = 2 ^ 31 }))
    local x = df.placeholder('float32')
    local empty = { [x] = df.tensor({}, 'float32', { 1, 0, 0, 4 }) }
    assert.matches('axis 3 is 4, and 4611686018427387904 times that cannot be counted',
                   support.message_of(df.run, df.space_to_depth(x, { block_size = 2 ^ 31 }), empty))
    empty = { [x] = df.tensor({}, 'float32', { 1, 2 ^ 40, 1, 0 }) }
    assert.matches('axis 1 is 1099511627776, and 2147483648 times that cannot be counted',
                   support.message_of(df.run, df.depth_to_space(x, { block_size = 2 ^ 31 }), empty))
  end)
end)

describe('finding', function()
  it('counts what is before values in sorted rows', function()
    same(df.run(df.lower_bound({ { 1, 3, 3, 5 } }, { { 0, 3, 6 } })), { { 0, 1, 4 } })
    same(df.run(df.upper_bound({ { 1, 3, 3, 5 } }, { { 0, 3, 6 } })), { { 0, 3, 4 } })
  end)
  it('takes the best of boxes that overlap', function()
    local boxes = df.constant{ { 0, 0, 1, 1 }, { 0, 0.1, 1, 1.1 }, { 0, -0.1, 1, 0.9 }, { 0, 10, 1, 11 }, { 0, 10.1, 1, 11.1 }, { 0, 100, 1, 101 } }
    local scores = df.constant{ 0.9, 0.75, 0.6, 0.95, 0.5, 0.3 }
    same(df.run(df.non_max_suppression(boxes, scores, 3, 0.5, 0.0)), { 3, 0, 5 })
    same(df.run(df.non_max_suppression(boxes, scores, 30, 0.5, 0.4)), { 3, 0 })
  end)
  it('gives cross products and their gradient', function()
    local a, b = df.constant({ 1.0, 2, 3 }, 'float64'), df.constant({ -2.0, 0.5, 4 }, 'float64')
    same(df.run(df.cross(a, b)), { 6.5, -10, 4.5 })
    assert.is_true(df.check_gradients(df.reduce_sum(df.square(df.cross(a, b))), { a, b }))
  end)
end)

describe('a window', function()
  local function image(h, w, c) return df.constant(support.tensor({ 2, h, w, c }, -1, 1, 'float64', h + w)) end
  it('is convolved with an image, with gradients of gradients', function()
    same(df.run(df.conv2d(df.constant({ 1.0, 2, 3, 4, 5, 6, 7, 8, 9 }, 'float32', { 1, 3, 3, 1 }), df.constant({ 1.0, 0, 0, -1 }, 'float32', { 2, 2, 1, 1 }),
                          { strides = { 1, 1, 1, 1 }, padding = 'VALID' })), { { { { -4 }, { -4 } }, { { -4 }, { -4 } } } })
    local x, f = image(4, 5, 2), df.constant(support.tensor({ 3, 2, 2, 3 }, -1, 1, 'float64', 9))
    for _, o in ipairs{ { strides = { 1, 1, 1, 1 }, padding = 'SAME' }, { strides = { 1, 2, 1, 1 }, padding = 'VALID' },
                        { strides = { 1, 1, 1, 1 }, padding = 'SAME', dilations = { 1, 1, 2, 1 } },
                        { strides = { 1, 1, 1, 1 }, padding = 'EXPLICIT', explicit_paddings = { 0, 0, 1, 0, 0, 2, 0, 0 } } } do
      assert.is_true(df.check_gradients(df.reduce_sum(df.square(df.conv2d(x, f, o))), { x, f }, { order = 2 }))
    end
  end)
  it('is convolved as a matrix product in blocks with the sums of the reference, forwards and backwards', function()
    local cases = {          -- n, h, w, channels in and out, window, strides, dilations
      { 2, 33, 17, 3, 5, 3, 3, 1, 1, 1, 1 }, { 3, 40, 40, 4, 33, 3, 2, 2, 1, 1, 1 }, { 1, 9, 30, 7, 2, 2, 4, 1, 3, 2, 1 }, { 4, 20, 20, 8, 8, 1, 1, 1, 1, 1, 1 },
      { 1, 6, 6, 40, 70, 3, 3, 1, 1, 1, 1 }, { 0, 6, 6, 2, 2, 3, 3, 1, 1, 1, 1 }, { 2, 5, 5, 1, 1, 5, 5, 2, 2, 1, 1 },
    }
    for _, c in ipairs(cases) do
      for _, dtype in ipairs{ 'float32', 'float64', 'bfloat16' } do
        local n, h, w, ci, co, kh, kw = (table.unpack or unpack)(c)
        local opts = { strides = { 1, c[8], c[9], 1 }, dilations = { 1, c[10], c[11], 1 }, padding = 'SAME' }
        local out = { n, math.ceil(h / c[8]), math.ceil(w / c[9]), co }
        support.cpu_equals_ref(function(x, f, dy)
          local y = df.conv2d(x, f, opts)
          return { y, df.unpack(df.gradients(y, { x, f }, { grad_ys = dy })) }
        end, { support.tensor({ n, h, w, ci }, -1, 1, dtype, 1), support.tensor({ kh, kw, ci, co }, -1, 1, dtype, 2), support.tensor(out, -1, 1, dtype, 3) },
        { rtol = dtype == 'bfloat16' and 0.01 or 1e-4, atol = ({ float32 = 1e-4, float64 = 1e-12, bfloat16 = 1e-3 })[dtype],
          what = table.concat(c, ',') .. dtype })
      end
    end
  end)
  it('takes the greatest and the mean, with gradients', function()
    local x = image(4, 5, 2)
    for _, padding in ipairs{ 'SAME', 'VALID' } do
      local o = { ksize = { 1, 2, 3, 1 }, strides = { 1, 2, 1, 1 }, padding = padding }
      assert.is_true(df.check_gradients(df.reduce_sum(df.square(df.max_pool(x, o))), { x }))
      assert.is_true(df.check_gradients(df.reduce_sum(df.square(df.avg_pool(x, o))), { x }, { order = 2 }))
    end
  end)
  it('must fit', function()
    assert.is_false((pcall(df.conv2d, df.ones{ 1, 2, 2, 1 }, df.ones{ 4, 4, 1, 1 }, { strides = { 1, 1, 1, 1 }, padding = 'VALID' })))
    assert.is_false((pcall(df.conv2d, df.ones{ 1, 5, 5, 1 }, df.ones{ 2, 2, 3, 1 }, { strides = { 1, 1, 1, 1 }, padding = 'SAME' })))
    assert.is_false((pcall(df.max_pool, df.ones{ 1, 5, 5, 1 }, { ksize = { 1, 2, 2 }, strides = { 1, 1, 1, 1 }, padding = 'SAME' })))
  end)
end)
