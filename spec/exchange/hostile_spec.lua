--- Graphs that are well formed and say hostile things: attributes that no op can have, arrays of any size, axes that are not there.
local df = require 'dflow'
local model = require 'spec.onnx_model'
local node = require('spec.exchange.graphdef_text').node

local function text(...) return table.concat({ ... }, '\n') end

--- A scalar constant.
local function int32(name, v)
  return node(name, 'Const', {}, { dtype = 'DT_INT32', value = { ('tensor { dtype: DT_INT32 tensor_shape { } int_val: %d }'):format(v) } })
end
local x = node('x', 'Placeholder', {}, { dtype = 'DT_FLOAT', shape = { 'shape { dim { size: 2 } dim { size: 2 } }' } })

local function refused(code, pattern, fn, ...)
  local ok, err = pcall(fn, ...)
  assert.is_false(ok)
  assert.equal(code, err.code)
  assert.matches(pattern, err.message)
end

describe('an imported graph', function()
  it('has no attribute that its op cannot have, whatever is known of the inputs', function()
    local unknown = node('u', 'Placeholder', {}, { dtype = 'DT_FLOAT', shape = { 'shape { unknown_rank: true }' } })
    for _, case in ipairs{
      { 'Split', { 'axis', 'u' }, { T = 'DT_FLOAT', num_split = 0 }, 'num_split is 0: expected 1 or more' },
      { 'Split', { 'axis', 'x' }, { T = 'DT_FLOAT', num_split = -1 }, 'num_split is %-1: expected 1 or more' },
      { 'DynamicPartition', { 'u', 'axis' }, { T = 'DT_FLOAT', num_partitions = 0 }, 'num_partitions is 0' },
      { 'FunctionSave', { 'tape', 'x' }, { ['function'] = 'f', slot = -5 }, 'slot is %-5: expected 0 to' },
      { 'SpaceToDepth', { 'u' }, { T = 'DT_FLOAT', block_size = 0 }, 'block_size is 0' },
      { 'FakeQuantWithMinMaxArgs', { 'u' }, { num_bits = 64 }, 'num_bits is 64: expected 2 to 16' },
      { 'MaxPool', { 'u' },
        { T = 'DT_FLOAT', ksize = { 'list { i: 1 i: 0 i: 2 i: 1 }' }, strides = { 'list { i: 1 i: 1 i: 1 i: 1 }' }, padding = 'SAME' }, 'ksize has 0: expected 1 or more' },
      { 'FusedBatchNormV2', { 'u', 'v', 'v', 'v', 'v' }, { T = 'DT_FLOAT', U = 'DT_FLOAT', data_format = 'e(x' },
        "data_format is 'e%(x': expected one of NHWC" },
      { 'MaxPool', { 'u' },
        { T = 'DT_FLOAT', ksize = { 'list { i: 1 i: 1 i: 2 i: 1 }' }, strides = { 'list { i: 1 i: 1 i: 1 i: 1 }' }, padding = 'MOST' },
        "padding is 'MOST': expected one of SAME|VALID" },
      { 'Conv2D', { 'u', 'u' }, { T = 'DT_FLOAT', strides = { 'list { i: 1 i: 1 i: 1 i: 1 }' }, padding = '' }, "padding is '': expected one of SAME" },
      { 'BiasAdd', { 'u', 'v' }, { T = 'DT_FLOAT', data_format = 'NHWCN' }, "data_format is 'NHWCN'" },
      { 'SpaceToDepth', { 'u' }, { T = 'DT_FLOAT', block_size = 2, data_format = 'NH' }, "data_format is 'NH'" },
      { 'MirrorPad', { 'u', 'axis' }, { T = 'DT_FLOAT', Tpaddings = 'DT_INT32', mode = 'reflect' }, "mode is 'reflect': expected one of REFLECT|SYMMETRIC" },
      { 'CropAndResize', { 'u', 'u', 'axis', 'axis' }, { T = 'DT_FLOAT', method = 'bicubic' }, "method is 'bicubic': expected one of bilinear|nearest" },
      { 'MatrixDiagPartV3', { 'u', 'axis', 'v' }, { T = 'DT_FLOAT', align = 'LEFT' }, "align is 'LEFT'" },
      { 'QuantizeV2', { 'u', 'v', 'v' }, { T = 'DT_QUINT8', mode = 'MAX' }, "mode is 'MAX': expected one of MIN_COMBINED" },
      { 'QuantizeV2', { 'u', 'v', 'v' }, { T = 'DT_QUINT8', round_mode = 'UP' }, "round_mode is 'UP'" },
      { 'FIFOQueueV2', {}, { component_types = { 'list { type: DT_FLOAT type: DT_INT32 }' }, shapes = { 'list { shape { } }' } }, 'shapes' },
    } do
      local v = node('v', 'Placeholder', {}, { dtype = 'DT_FLOAT' })
      refused('invalid_argument', case[4], df.import_graph_def,
              text(x, unknown, v, int32('axis', 0), node('tape', 'FunctionTape', {}, { ['function'] = 'f' }), node('y', case[1], case[2], case[3])))
    end
  end)

  it('that contradicts itself fails with what contradicts when it runs, and has no gradient', function()
    local g = df.import_graph_def(text(x, int32('axis', 7), node('y', 'Sum', { 'x', 'axis' }, { T = 'DT_FLOAT', Tidx = 'DT_INT32' }),
                                       node('z', 'Neg', { 'y' }, { T = 'DT_FLOAT' })))
    refused('invalid_argument', '^[^\n]*axis', function() df.Session{ graph = g }:run(g:output 'z:0', { [g:output 'x:0'] = df.tensor({ { 1, 2 }, { 3, 4 } }, 'float32') }) end)
    refused('invalid_argument', 'cannot be differentiated', function() g:as_default(df.gradients, g:output 'z:0', g:output 'x:0') end)
  end)

  it('adds up no handles in the gradient of an array of arrays, and reads none that is not there', function()
    local write = { T = 'DT_RESOURCE' }
    local arrays = text(int32('n', 1), int32('i', 0), node('e', 'TensorArrayV3', { 'n' }, { dtype = 'DT_FLOAT' }),
                        node('a', 'TensorArrayV3', { 'n' }, { dtype = 'DT_RESOURCE', element_shape = { 'shape { }' } }),
                        node('g', 'TensorArrayGradV3', { 'a', 'a:1' }, { source = 'gradients' }))
    local g = df.import_graph_def(text(arrays, node('once', 'TensorArrayWriteV3', { 'g', 'i', 'e', 'g:1' }, write),
                                       node('twice', 'TensorArrayWriteV3', { 'g', 'i', 'e', 'once' }, write),
                                       node('none', 'TensorArrayReadV3', { 'a', 'i', 'a:1' }, { dtype = 'DT_RESOURCE' }),
                                       node('of_none', 'TensorArraySizeV3', { 'none', 'a:1' }, {})))
    local s = df.Session{ graph = g }
    assert.equal(0, s:run(g:output 'once:0'))
    refused('invalid_argument', 'elements of resource cannot be added up', s.run, s, g:output 'twice:0')
    refused('invalid_argument', 'was never written, and resource has no zeros', s.run, s, g:output 'of_none:0')
  end)

  it('makes no array that the memory does not hold', function()
    local most = 2 ^ 31 - 1
    local scalar = node('s', 'Const', {}, { dtype = 'DT_INT32', value = { 'tensor { dtype: DT_INT32 tensor_shape { dim { } } }' } })
    local reserve = { element_dtype = 'DT_FLOAT', shape_type = 'DT_INT32' }
    for _, nodes in ipairs{
      { node('y', 'TensorArrayV3', { 'n' }, { dtype = 'DT_FLOAT' }) },
      { node('y', 'TensorListReserve', { 's', 'n' }, reserve) },
      { int32('one', 1), node('l', 'TensorListReserve', { 's', 'one' }, reserve), node('y', 'TensorListResize', { 'l', 'n' }) },
      { int32('one', 1), node('l', 'TensorListReserve', { 's', 'one' }, reserve),
        node('v', 'Const', {}, { dtype = 'DT_FLOAT', value = { 'tensor { dtype: DT_FLOAT tensor_shape { } float_val: 1 }' } }),
        node('y', 'TensorListSetItem', { 'l', 'n', 'v' }, { element_dtype = 'DT_FLOAT', resize_if_index_out_of_bounds = true }) },
    } do
      local g = df.import_graph_def(text(int32('n', most), scalar, (table.unpack or unpack)(nodes)))
      refused('resource_exhausted', 'for its slots alone', function() df.Session{ graph = g }:run(g:op 'y') end)
    end
  end)
end)

describe('an ONNX model', function()
  it('builds no more nodes than a window of a sensible size needs', function()
    for _, op in ipairs{ 'MaxPool', 'AveragePool', 'LpPool' } do
      refused('resource_exhausted', 'out of memory for float32', model.run,
              { inputs = { x = { 'float', { 1, 1, 4, 4 } } }, outputs = { 'y' },
                { op, { 'x' }, { 'y' }, { kernel_shape = { 2, 2147483647 }, ceil_mode = 1, pads = { 0, 2147483647, 0, 2147483647 } } } },
              { x = df.tensor(df.run(df.ones{ 1, 1, 4, 4 })) })
    end
    refused('unimplemented', 'its size is', model.run,
            { inputs = { x = { 'float', { 1, 4, 4, 4 } } }, outputs = { 'y' }, { 'LRN', { 'x' }, { 'y' }, { size = 2147483647 } } },
            { x = df.tensor(df.run(df.ones{ 1, 4, 4, 4 })) })
  end)
end)
