--- ONNX models whose shapes, or even ranks, are known only when they run: they give what the same model with its shapes
-- gives.
local df = require 'dflow'
local model = require 'spec.onnx_model'
local near = require('spec.support').near

local function floats(shape, seed)
  return df.run(df.random_uniform(shape, { min = -1, max = 1, seed = seed }), nil, { tensors = true })
end
local function flat(t) return df.type(t) == 'tensor' and t:reshape{ t.size }:totable() or { t } end

--- Of one node: x [2, channels, 9, …] and w, with its places open and with all shapes said.
local function both(op, attributes, axes, weights)
  local shape, open = { 2, weights and weights[2] * (attributes.group or 1) or 3 }, { 2 }
  if op == 'ConvTranspose' then shape[2] = weights[1] end
  open[2] = shape[2]
  for d = 1, axes do shape[d + 2], open[d + 2] = 8 - d, 'd' .. d end
  local feeds = { x = floats(shape, 1), w = weights and floats(weights, 2) or nil }
  local function run(x_shape)
    local g = { inputs = { x = { 'float', x_shape }, w = weights and { 'float', weights } or nil }, outputs = { 'y' },
                { op, weights and { 'x', 'w' } or { 'x' }, { 'y' }, attributes } }
    return model.run(g, feeds)
  end
  local late, known = run(open), run(shape)
  assert.same(known.shape, late.shape)
  near(late:reshape{ late.size }, flat(known), { rtol = 1e-5, atol = 1e-5 })
  return known
end

local function times(v, axes, twice)
  local list = {}
  for d = 1, axes * (twice and 2 or 1) do list[d] = v + (twice and d % 2 or 0) end
  return list
end

describe('a model in ONNX whose sizes are known late', function()
  for axes = 1, 3 do
    for _, op in ipairs{ 'MaxPool', 'AveragePool', 'LpPool' } do
      it(('has %s over %d axes'):format(op, axes), function()
        local size, two = times(3, axes), times(2, axes)
        both(op, { kernel_shape = size }, axes)
        both(op, { kernel_shape = size, strides = two, pads = times(0, axes, true) }, axes)
        both(op, { kernel_shape = size, strides = two, ceil_mode = 1 }, axes)
        both(op, { kernel_shape = two, dilations = two }, axes)
        both(op, { kernel_shape = size, strides = two, auto_pad = 'SAME_UPPER' }, axes)
        both(op, { kernel_shape = size, strides = two, auto_pad = 'SAME_LOWER' }, axes)
        if op == 'AveragePool' then both(op, { kernel_shape = size, pads = times(1, axes, true), count_include_pad = 1 }, axes) end
      end)
    end
    it(('has Conv over %d axes'):format(axes), function()
      local w = { 4, 2 }
      for d = 1, axes do w[d + 2] = 2 + d % 2 end
      local two = times(2, axes)
      both('Conv', {}, axes, w)
      both('Conv', { group = 2, strides = two, pads = times(1, axes, true) }, axes, w)
      both('Conv', { auto_pad = 'SAME_UPPER', strides = two }, axes, w)
      both('Conv', { auto_pad = 'SAME_LOWER', dilations = two }, axes, w)
      w[2] = 1
      both('Conv', { group = 4, strides = two }, axes, w)
      both('Conv', { group = 2 }, axes, w)
    end)
    it(('has ConvTranspose over %d axes, each the transpose of its convolution'):format(axes), function()
      local w = { 4, 2 }
      for d = 1, axes do w[d + 2] = 3 end
      local two = times(2, axes)
      both('ConvTranspose', {}, axes, w)
      both('ConvTranspose', { strides = two, pads = times(1, axes, true), group = 2 }, axes, w)
      both('ConvTranspose', { strides = two, auto_pad = 'SAME_UPPER' }, axes, w)
      both('ConvTranspose', { strides = two, output_padding = times(1, axes) }, axes, w)
    end)
  end

  it('has Conv3D as the sum over all taps, and its gradients', function()
    local x, w = floats({ 1, 2, 4, 3, 3 }, 3), floats({ 2, 2, 2, 2, 1 }, 4)
    local g = df.import_onnx(model.bytes{ inputs = { x = { 'float', { 1, 2, 'd', 3, 3 } }, w = { 'float', { 2, 2, 2, 2, 1 } } }, outputs = { 'y' },
                                          { 'Conv', { 'x', 'w' }, { 'y' }, { strides = { 2, 1, 1 } } } })
    local y, feeds = g:output 'y', { [g:output 'x'] = x, [g:output 'w'] = w }
    local s = df.Session{ graph = g }
    local found = s:run(y, feeds)
    assert.same({ 1, 2, 2, 2, 3 }, found.shape)
    for co = 0, 1 do
      local sum = 0
      for ci = 0, 1 do for a = 0, 1 do for b = 0, 1 do sum = sum + x:at(0, ci, 2 + a, 1 + b, 2) * w:at(co, ci, a, b, 0) end end end
      assert.is_true(math.abs(sum - found:at(0, co, 1, 1, 2)) < 1e-5)
    end
    s:close()
    g:as_default(function()
      local ok, report = df.check_gradients(df.reduce_sum(df.square(y)), { g:output 'x', g:output 'w' }, { feeds = feeds })
      assert.is_true(ok, report)
    end)
  end)

  it('has branches of different ranks, to which axes are added and taken from', function()
    local branch = { then_branch = { graph = { outputs = { 'a' }, { 'Squeeze', { 'x', 'zero' }, { 'a' } } } },
                     else_branch = { graph = { outputs = { 'b' }, { 'Identity', { 'x' }, { 'b' } } } } }
    local g = { inputs = { c = { 'bool', {} }, x = { 'float', { 1, 3 } } }, constants = { zero = model.int64(0), both = model.int64(-1, 0) },
                outputs = { 'y', 'z', 'q' }, { 'If', { 'c' }, { 'v' }, branch }, { 'Unsqueeze', { 'v', 'both' }, { 'y' } },
                { 'Squeeze', { 'y', 'zero' }, { 'z' } }, { 'Squeeze', { 'v' }, { 'q' } } }
    local x = df.tensor({ { 1, 2, 3 } }, 'float32')
    local r = model.run(g, { c = df.tensor(true), x = x })
    assert.same({ { 1, 3, 1 }, { 3, 1 }, { 3 } }, { r[1].shape, r[2].shape, r[3].shape })
    r = model.run(g, { c = df.tensor(false), x = x })
    assert.same({ { 1, 1, 3, 1 }, { 1, 3, 1 }, { 3 } }, { r[1].shape, r[2].shape, r[3].shape })
  end)

  it('splits a dimension into as many as there are: Split, SplitToSequence', function()
    local g = { inputs = { x = { 'float', { 'n', 2 } } }, outputs = { 'y', 'a', 'b' }, { 'SplitToSequence', { 'x' }, { 's' }, { axis = 0 } },
                { 'ConcatFromSequence', { 's' }, { 'y' }, { axis = 0 } }, { 'Split', { 'x' }, { 'a', 'b' }, { axis = 0, num_outputs = 2 } } }
    local x = floats({ 5, 2 }, 1)
    local r = model.run(g, { x = x })
    assert.same(x:totable(), r[1]:totable())
    assert.same({ { 3, 2 }, { 2, 2 } }, { r[2].shape, r[3].shape })
  end)

  it('is for the shapes that import_onnx is told, which must be the model\'s', function()
    local bytes = model.bytes{ inputs = { x = { 'float', { 'n', 3, 'h' } } }, outputs = { 'y' }, { 'Relu', { 'x' }, { 'y' } } }
    assert.same({ 2, 3, 8 }, df.import_onnx(bytes, { shapes = { x = { 2, 3, 8 } } }):output 'y'.shape)
    assert.same({ -1, 3, 8 }, df.import_onnx(bytes, { shapes = { x = { -1, 3, 8 } } }):output 'y'.shape)
    local message = require('spec.support').message_of
    assert.matches("shapes gives the input 'x' the shape [2,4,8], the model has [-1,3,-1]", message(df.import_onnx, bytes, { shapes = { x = { 2, 4, 8 } } }), 1, true)
    assert.matches('the shape [2,3], the model has', message(df.import_onnx, bytes, { shapes = { x = { 2, 3 } } }), 1, true)
    assert.matches("shapes names 'z', the model's inputs are: x", message(df.import_onnx, bytes, { shapes = { z = { 2 } } }), 1, true)
  end)

  it('turns no layout between convolutions, whatever stands between', function()
    local g = { inputs = { x = { 'float', { 1, 4, 'h', 'w' } }, w = { 'float', { 4, 4, 3, 3 } } }, outputs = { 'y' },
                { 'Conv', { 'x', 'w' }, { 'a' }, { pads = { 1, 1, 1, 1 } } }, { 'Relu', { 'a' }, { 'b' } }, { 'Add', { 'a', 'b' }, { 'c' } },
                { 'MaxPool', { 'c' }, { 'd' }, { kernel_shape = { 2, 2 } } }, { 'GlobalAveragePool', { 'd' }, { 'e' } }, { 'Mul', { 'd', 'e' }, { 'f' } },
                { 'Concat', { 'f', 'd' }, { 'h' }, { axis = 1 } }, { 'Split', { 'h' }, { 'i', 'j' }, { axis = 1, num_outputs = 2 } },
                { 'Conv', { 'i', 'w' }, { 'y' } } }
    local made = df.import_onnx(model.bytes(g))
    local s, path = df.Session{ graph = made }, os.tmpname()
    local feeds = { [made:output 'x'] = floats({ 1, 4, 7, 6 }, 1), [made:output 'w'] = floats({ 4, 4, 3, 3 }, 2) }
    local y = s:run(made:output 'y', feeds, { trace = path })
    local _, transposes = require('spec.shell').read(path):gsub('"name": ?"[^"]*Transpose', '')
    os.remove(path)
    assert.is_true(transposes >= 2 and transposes <= 4, transposes)                -- of x, of y, of each filter
    local names = {}
    for name in ('a b c d e f h i j'):gmatch '%S' do names[#names + 1] = name end
    g.outputs = { 'y', table.unpack and table.unpack(names) or unpack(names) }
    local all = model.run(g, { x = floats({ 1, 4, 7, 6 }, 1), w = floats({ 4, 4, 3, 3 }, 2) })
    near(y:reshape{ y.size }, flat(all[1]))
    s:close()
  end)
end)

describe('a list of tensors as one value', function()
  local message = require('spec.support').message_of

  it('has the elements that it was made of, lists of lists and none of them too', function()
    local value = df.tensor_list{ df.tensor({ 1, 2 }, 'float32'), df.tensor({ { 3 } }, 'float32') }
    local list = df.tensor_list_values(value, 'float32')
    assert.same({ { 1, 2 }, { { 3 } } }, { list[1]:totable(), list[2]:totable() })
    assert.same({}, df.tensor_list_values(df.tensor_list({}, 'int64'), 'int64'))
    local outer = df.tensor_list_values(df.tensor_list({ value }, 'variant'), 'variant')
    assert.equal(2, #df.tensor_list_values(outer[1], 'float32'))
  end)

  it('says what it is not made of', function()
    assert.matches('the list is empty; its dtype is expected', message(df.tensor_list, {}), 1, true)
    assert.matches('element 2 is int32, the list is of float32',
                   message(df.tensor_list, { df.tensor({ 1 }, 'float32'), df.tensor({ 1 }, 'int32') }), 1, true)
    assert.matches('a table of Tensors is expected', message(df.tensor_list, 3), 1, true)
    assert.matches('what a run gave for a list is expected', message(df.tensor_list_values, 3, 'float32'), 1, true)
  end)

  it('is what a model takes and gives for a sequence', function()
    local g = { inputs = { s = { 'float', { 'n' }, sequence = true }, at = { 'int64', {} } }, outputs = { 't', 'n' },
                { 'SequenceErase', { 's', 'at' }, { 't' } }, { 'SequenceLength', { 't' }, { 'n' } } }
    local made = df.import_onnx(model.bytes(g))
    assert.same({ s = 'float32', t = 'float32' }, made.onnx.lists)
    local s = df.Session{ graph = made }
    local feeds = { [made:output 's'] = df.tensor_list{ df.tensor({ 1 }, 'float32'), df.tensor({ 2, 3 }, 'float32'), df.tensor({ 4 }, 'float32') } }
    for at, left in pairs{ [0] = { { 2, 3 }, { 4 } }, [-1] = { { 1 }, { 2, 3 } }, [1] = { { 1 }, { 4 } } } do
      feeds[made:output 'at'] = at
      local list, count = df.tensor_list_values(s:run(made:output 't', feeds), 'float32'), s:run(made:output 'n', feeds)
      assert.equal(2, tonumber(count))
      assert.same(left, { list[1]:totable(), list[2]:totable() })
    end
    s:close()
  end)

  it('of whole numbers are convolved as floats less what stands for 0 are, at each run, whatever is known of their places', function()
    local function bytes(count, seed) return df.run(df.cast(df.random_uniform({ count }, { min = 0, max = 256, seed = seed }), 'int32')):list() end
    for _, case in ipairs{ { 'uint8', 'int8', 2, { pads = { 1, 0, 2, 1 }, strides = { 2, 1 } } }, { 'int8', 'uint8', 2, { dilations = { 1, 2 } } },
                           { 'uint8', 'uint8', 1, { auto_pad = 'SAME_LOWER' } }, { 'int8', 'int8', 2, { auto_pad = 'SAME_UPPER', strides = { 2, 2 } } } } do
      local x_type, w_type, axes, attributes = case[1], case[2], case[3], case[4]
      local function of(dtype, v) return dtype == 'int8' and v - 128 or v end
      local shape, open, kernel, taps = { 2, 40 }, { 'n', 40 }, { 50, 40 }, 1
      for d = 1, axes do shape[d + 2], open[d + 2], kernel[d + 2], taps = 9 + d, 'd' .. d, 4 - d, taps * (4 - d) end
      local raw = {}
      for i, v in ipairs(bytes(50 * 40 * taps, 1)) do raw[i] = string.char(of(w_type, v) % 256) end
      local constants = { w = { w_type, kernel, table.concat(raw) }, zx = { x_type, {}, string.char(7) }, zw = { w_type, {}, string.char(3) } }
      for _, said in ipairs{ shape, open } do
        local made = df.import_onnx(model.bytes{ constants = constants, inputs = { x = { x_type, said } }, outputs = { 'y', 'expected' },
          { 'ConvInteger', { 'x', 'w', 'zx', 'zw' }, { 'y' }, attributes },
          { 'Cast', { 'x' }, { 'xf' }, { to = 11 } }, { 'Cast', { 'w' }, { 'wf' }, { to = 11 } }, { 'Cast', { 'zx' }, { 'zxf' }, { to = 11 } },
          { 'Cast', { 'zw' }, { 'zwf' }, { to = 11 } }, { 'Sub', { 'xf', 'zxf' }, { 'xc' } }, { 'Sub', { 'wf', 'zwf' }, { 'wc' } },
          { 'Conv', { 'xc', 'wc' }, { 'expected' }, attributes } })
        local s = df.Session{ graph = made }
        for seed = 2, 4 do
          local count, numbers = 1, {}
          for _, d in ipairs(shape) do count = count * d end
          for i, v in ipairs(bytes(count, seed)) do numbers[i] = of(x_type, v) end
          local r = s:run({ made:output 'y', made:output 'expected' }, { [made:output 'x'] = df.tensor(numbers, x_type):reshape(shape) })
          assert.same(r[2].shape, r[1].shape)
          assert.same(flat(r[2]), flat(r[1]))
        end
        s:close()
      end
    end
  end)

  it('of whole numbers are multiplied as a matrix of bytes, however many axes there are in front and whatever is known of them', function()
    local raw = {}
    for i = 1, 12 * 5 do raw[i] = string.char(i * 37 % 256) end
    local constants = { w = { 'int8', { 12, 5 }, table.concat(raw) }, zx = { 'uint8', {}, string.char(7) }, zw = { 'int8', {}, string.char(3) } }
    for _, case in ipairs{ { { 3, 12 } }, { { 2, 3, 12 } }, { { 2, 3, 12 }, { 'a', 'b', 12 } }, { { 2, 1, 3, 12 }, { 'a', 1, 3, 12 } }, { { 0, 3, 12 }, { 'a', 3, 12 } } } do
      local made = df.import_onnx(model.bytes{ constants = constants, inputs = { x = { 'uint8', case[2] or case[1] } }, outputs = { 'y', 'expected' },
        { 'MatMulInteger', { 'x', 'w', 'zx', 'zw' }, { 'y' } },
        { 'Cast', { 'x' }, { 'xf' }, { to = 11 } }, { 'Cast', { 'w' }, { 'wf' }, { to = 11 } }, { 'Cast', { 'zx' }, { 'zxf' }, { to = 11 } },
        { 'Cast', { 'zw' }, { 'zwf' }, { to = 11 } }, { 'Sub', { 'xf', 'zxf' }, { 'xc' } }, { 'Sub', { 'wf', 'zwf' }, { 'wc' } },
        { 'MatMul', { 'xc', 'wc' }, { 'expected' } } })
      local of_bytes = 0
      for _, op in ipairs(made:ops()) do of_bytes = of_bytes + (op.type == 'QuantizedMatMul' and 1 or 0) end
      assert.equal(1, of_bytes)
      local s = df.Session{ graph = made }
      local x = df.run(df.cast(df.random_uniform(case[1], { min = 0, max = 256, seed = 5 }), 'uint8'))
      local r = s:run({ made:output 'y', made:output 'expected' }, { [made:output 'x'] = x })
      assert.same(r[2].shape, r[1].shape)
      assert.same(flat(r[2]), flat(r[1]))
      s:close()
    end
  end)

  it('is sliced where not even the number of starts is known', function()
    local made = df.import_onnx(model.bytes{ outputs = { 'y' },
      inputs = { x = { 'float', { 4, 3 } }, starts = { 'int64', { 'n' } }, ends = { 'int64', { 'n' } } },
      { 'Slice', { 'x', 'starts', 'ends' }, { 'y' } } })
    local x, s = floats({ 4, 3 }, 1), df.Session{ graph = made }
    local function sliced(starts, ends)
      local function long(list) return df.tensor(list, 'int64', { #list }) end
      return s:run(made:output 'y', { [made:output 'x'] = x, [made:output 'starts'] = long(starts), [made:output 'ends'] = long(ends) },
                   { tensors = true }):totable()
    end
    assert.same(df.run(df.constant(x):slice({ 1, 0 }, { 2, 3 }), nil, { tensors = true }):totable(), sliced({ 1 }, { 3 }))
    assert.same(df.run(df.constant(x):slice({ 1, 1 }, { 3, 1 }), nil, { tensors = true }):totable(), sliced({ 1, -2 }, { 99, 2 }))
    assert.same(x:totable(), sliced({}, {}))
  end)
end)
