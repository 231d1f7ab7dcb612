"""Records small ONNX models with what ONNX Runtime makes of them: python spec/models/record_onnx.py

NAME.onnx is fed NAME.in.npz and gives NAME.out.npz, in spec/models/onnx.
"""
import os

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper as h

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'onnx')
F, I, B = T.FLOAT, T.INT64, T.BOOL
rng = np.random.RandomState(0)


def v(name, dtype=F, shape=()):
  return h.make_tensor_value_info(name, dtype, shape)


def const(name, array):
  return onnx.numpy_helper.from_array(np.asarray(array), name)


def record(name, nodes, inputs, outputs, feeds, initializers=(), functions=(), opset=17):
  graph = h.make_graph(nodes, name, inputs, outputs, list(initializers))
  opsets = [h.make_opsetid('', opset)] + ([h.make_opsetid('own', 1)] if functions else [])
  model = h.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=8)
  onnx.checker.check_model(model)
  path = os.path.join(here, name)
  onnx.save(model, path + '.onnx')
  session = onnxruntime.InferenceSession(path + '.onnx', providers=['CPUExecutionProvider'])
  feeds = {k: np.asarray(a) for k, a in feeds.items()}
  results = session.run(None, feeds)
  np.savez(path + '.in.npz', **feeds)
  np.savez(path + '.out.npz', **{o.name: r for o, r in zip(session.get_outputs(), results) if r.dtype != object})   # .npz has no words


def x(*shape):
  return rng.uniform(-1, 1, shape).astype(np.float32)


body = h.make_graph([
    h.make_node('Mul', ['a', 'w'], ['next']), h.make_node('ReduceSum', ['next'], ['sum'], keepdims=0),
    h.make_node('Less', ['sum', 'limit'], ['go']), h.make_node('Identity', ['next'], ['row']), h.make_node('Identity', ['go'], ['more'])],
    'body', [v('i', I), v('c', B), v('a', F, [2])], [v('more', B), v('next', F, [2]), v('row', F, [2])])
record('loop', [h.make_node('Loop', ['most', 'start', 'x'], ['last', 'rows'], body=body)], [v('x', F, [2]), v('most', I)],
       [v('last', F, [2]), v('rows', F, [None, 2])], {'x': np.float32([1, 2]), 'most': np.int64(20)},
       [const('w', np.float32([1.5, 2])), const('limit', np.float32(100)), const('start', True)])

grow = h.make_graph([
    h.make_node('Concat', ['s', 's'], ['twice'], axis=0), h.make_node('Identity', ['c'], ['more'])],
    'grow', [v('i', I), v('c', B), v('s', F, [None])], [v('more', B), v('twice', F, [None])])
record('grow', [h.make_node('Loop', ['most', '', 'x'], ['y'], body=grow)], [v('x', F, [1]), v('most', I)], [v('y', F, [None])],
       {'x': np.float32([3]), 'most': np.int64(3)})

inner = [h.make_graph([h.make_node('Mul', ['x', 'two'], ['m'])], 'yes', [], [v('m', F, [2])]),
         h.make_graph([h.make_node('Neg', ['x'], ['n'])], 'no', [], [v('n', F, [2])])]
record('if', [h.make_node('ReduceSum', ['x'], ['s'], keepdims=0), h.make_node('Greater', ['s', 'zero'], ['p']),
              h.make_node('If', ['p'], ['y'], then_branch=inner[0], else_branch=inner[1])], [v('x', F, [2])], [v('y', F, [2])],
       {'x': np.float32([1, -3])}, [const('two', np.float32(2)), const('zero', np.float32(0))])

step = h.make_graph([h.make_node('Add', ['s', 'e'], ['t']), h.make_node('Identity', ['t'], ['u'])], 'step',
                    [v('s', F, [2]), v('e', F, [2])], [v('t', F, [2]), v('u', F, [2])])
record('scan', [h.make_node('Scan', ['s', 'x'], ['last', 'all'], body=step, num_scan_inputs=1, scan_input_directions=[1])],
       [v('s', F, [2]), v('x', F, [3, 2])], [v('last', F, [2]), v('all', F, [3, 2])], {'s': np.float32([0, 0]), 'x': x(3, 2)})

put = h.make_graph([h.make_node('Add', ['x', 'f'], ['e']), h.make_node('Cast', ['i'], ['f'], to=F)][::-1] +
                   [h.make_node('SequenceInsert', ['s', 'e'], ['longer']), h.make_node('Identity', ['c'], ['more'])],
                   'put', [v('i', I), v('c', B), h.make_tensor_sequence_value_info('s', F, None)],
                   [v('more', B), h.make_tensor_sequence_value_info('longer', F, None)])
record('sequence', [h.make_node('SequenceEmpty', [], ['none']), h.make_node('Loop', ['most', '', 'none'], ['q'], body=put),
                    h.make_node('ConcatFromSequence', ['q'], ['y'], axis=0, new_axis=1), h.make_node('SequenceLength', ['q'], ['n']),
                    h.make_node('SequenceAt', ['q', 'two'], ['third'])], [v('x', F, [2]), v('most', I)],
       [v('y', F, [None, 2]), v('n', I), v('third', F, [2])], {'x': x(2), 'most': np.int64(4)}, [const('two', np.int64(2))])

record('lstm', [h.make_node('LSTM', ['x', 'w', 'r', 'b', 'lengths'], ['y', 'h', 'c'], hidden_size=3, direction='bidirectional')],
       [v('x', F, [4, 2, 2])], [v('y', F, [4, 2, 2, 3]), v('h', F, [2, 2, 3]), v('c', F, [2, 2, 3])], {'x': x(4, 2, 2)},
       [const('w', x(2, 12, 2)), const('r', x(2, 12, 3)), const('b', x(2, 24)), const('lengths', np.int32([4, 2]))])
record('gru', [h.make_node('GRU', ['x', 'w', 'r', 'b'], ['y', 'h'], hidden_size=3, linear_before_reset=1)], [v('x', F, [4, 2, 2])],
       [v('y', F, [4, 1, 2, 3]), v('h', F, [1, 2, 3])], {'x': x(4, 2, 2)}, [const('w', x(1, 9, 2)), const('r', x(1, 9, 3)), const('b', x(1, 18))])

record('convolutions', [
    h.make_node('Conv', ['x', 'k', 'b'], ['c'], pads=[1, 0, 1, 2], strides=[2, 1], group=2, dilations=[1, 2]),
    h.make_node('Relu', ['c'], ['r']), h.make_node('MaxPool', ['r'], ['m'], kernel_shape=[2, 2], strides=[1, 2], ceil_mode=1),
    h.make_node('AveragePool', ['r'], ['a'], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    h.make_node('ConvTranspose', ['r', 't'], ['u'], strides=[2, 2], output_padding=[1, 1], pads=[0, 1, 0, 1])],
    [v('x', F, [1, 4, 6, 7])], [v('m', F, [None] * 4), v('a', F, [None] * 4), v('u', F, [None] * 4)], {'x': x(1, 4, 6, 7)},
    [const('k', x(4, 2, 3, 2)), const('b', x(4)), const('t', x(4, 2, 3, 3))])

record('shapes', [
    h.make_node('Shape', ['x'], ['s']), h.make_node('Slice', ['x', 'from', 'to', 'axes', 'steps'], ['sl']),
    h.make_node('Reshape', ['x', 'minus'], ['flat']), h.make_node('Gather', ['x', 'at'], ['g'], axis=1),
    h.make_node('GatherElements', ['x', 'each'], ['ge'], axis=1), h.make_node('ScatterElements', ['x', 'each', 'new'], ['se'], axis=1),
    h.make_node('TopK', ['x', 'k'], ['tv', 'ti'], axis=0), h.make_node('Pad', ['x', 'pads'], ['p'], mode='reflect'),
    h.make_node('Einsum', ['x', 'x'], ['ein'], equation='ij,kj->ik')], [v('x', F, [None, 4])],
    [v('s', I, [2]), v('sl', F, [None] * 2), v('flat', F, [None] * 2), v('g', F, [None] * 3), v('ge', F, [None] * 2), v('se', F, [None] * 2), v('tv', F, [None] * 2), v('ti', I, [None] * 2),
     v('p', F, [None] * 2), v('ein', F, [None] * 2)], {'x': x(3, 4)},
    [const('from', np.int64([-1, 3])), const('to', np.int64([-100, 0])), const('axes', np.int64([0, 1])), const('steps', np.int64([-1, -2])),
     const('minus', np.int64([2, -1])), const('at', np.int64([[0, -1]])), const('each', np.int64([[0, 3], [1, -2]])),
     const('new', np.float32([[10, 20], [30, 40]])), const('k', np.int64([2])), const('pads', np.int64([1, 2, 1, 0]))])

scale = h.make_function('own', 'Scaled', ['a'], ['b'], [h.make_node('Constant', [], ['two'], value_float=2.0), h.make_node('Mul', ['a', 'two'], ['b'])],
                        [h.make_opsetid('', 17)])
record('function', [h.make_node('Scaled', ['x'], ['m'], domain='own'), h.make_node('LayerNormalization', ['m', 'g', 'o'], ['y'])],
       [v('x', F, [2, 3])], [v('y', F, [2, 3])], {'x': x(2, 3)}, [const('g', np.float32([1, 2, 3])), const('o', np.float32([0, 1, 0]))], [scale])

# Axes, pads and whether to drop are inputs: known only when it runs.
record('later', [
    h.make_node('Slice', ['x', 'from', 'to', 'axes', 'steps'], ['sl']), h.make_node('Unsqueeze', ['x', 'new'], ['un']),
    h.make_node('Squeeze', ['un', 'new'], ['sq']), h.make_node('Pad', ['x', 'pads', '', 'axes'], ['p']),
    h.make_node('Pad', ['x', 'pads', '', 'axes'], ['e'], mode='edge'), h.make_node('Dropout', ['x', 'rate', 'drops'], ['d', 'kept'])],
    [v('x', F, [None, 4]), v('from', I, [2]), v('to', I, [2]), v('axes', I, [2]), v('steps', I, [2]), v('new', I, [2]), v('pads', I, [4]),
     v('rate'), v('drops', B)],
    [v('sl', F, [None] * 2), v('un', F, [None] * 4), v('sq', F, [None] * 2), v('p', F, [None] * 2), v('e', F, [None] * 2), v('d', F, [None] * 2),
     v('kept', B, [None] * 2)],
    {'x': x(3, 4), 'from': np.int64([-1, 1]), 'to': np.int64([-100, 100]), 'axes': np.int64([-1, 0]), 'steps': np.int64([-2, 1]),
     'new': np.int64([-1, 1]), 'pads': np.int64([1, 0, -2, 3]), 'rate': np.float32(0.5), 'drops': np.bool_(False)}, opset=18)

record('losses', [
    h.make_node('SoftmaxCrossEntropyLoss', ['x', 't', 'w'], ['ce', 'lp'], ignore_index=-1),
    h.make_node('NegativeLogLikelihoodLoss', ['lp', 't'], ['each'], reduction='none', ignore_index=-1),
    h.make_node('NegativeLogLikelihoodLoss', ['lp', 'u', 'w'], ['sum'], reduction='sum'),
    h.make_node('NegativeLogLikelihoodLoss', ['lp', 'u'], ['mean'])],
    [v('x', F, [2, 3, 2]), v('t', I, [2, 2]), v('u', I, [2, 2])],
    [v('ce'), v('lp', F, [2, 3, 2]), v('each', F, [2, 2]), v('sum'), v('mean')],
    {'x': x(2, 3, 2), 't': np.int64([[0, -1], [2, 1]]), 'u': np.int64([[0, 1], [2, 1]])}, [const('w', np.float32([1, 2, 0.5]))])

record('quantised', [
    h.make_node('QuantizeLinear', ['x', 'scales', 'zeros'], ['q'], axis=0), h.make_node('DequantizeLinear', ['q', 'scales', 'zeros'], ['x1'], axis=0),
    h.make_node('DynamicQuantizeLinear', ['x'], ['dy', 'ds', 'dz']), h.make_node('Transpose', ['dy'], ['dt']),
    h.make_node('QLinearMatMul', ['dy', 'ds', 'dz', 'dt', 'ds', 'dz', 'third', 'seven'], ['m']), h.make_node('HannWindow', ['n'], ['hann']),
    h.make_node('Unique', ['labels'], ['u', 'first', 'back', 'counts'])],
    [v('x', F, [2, 4]), v('labels', I, [None])],
    [v('q', T.INT8, [2, 4]), v('x1', F, [2, 4]), v('dy', T.UINT8, [2, 4]), v('ds'), v('dz', T.UINT8), v('m', T.UINT8, [2, 2]), v('hann', F, [None]),
     v('u', I, [None]), v('first', I, [None]), v('back', I, [None]), v('counts', I, [None])],
    {'x': 3 * x(2, 4), 'labels': np.int64([3, -1, 3, 7, -1, 3])},
    [const('scales', np.float32([0.1, 0.01])), const('zeros', np.int8([-3, 5])), const('third', np.float32(0.03)), const('seven', np.uint8(7)),
     const('n', np.int64(5))])

R = lambda name, y, **more: h.make_node('Resize', [name, 'roi' if more.pop('cut', False) else '', *more.pop('by')], [y], **more)
record('resize', [
    R('x', 'near', by=['scales'], mode='nearest', nearest_mode='floor', coordinate_transformation_mode='asymmetric'),
    R('x', 'ceil', by=['', 'sizes'], mode='nearest', nearest_mode='round_prefer_ceil'),
    R('x', 'linear', by=['scales'], mode='linear', coordinate_transformation_mode='align_corners'),
    R('x', 'torch', by=['', 'sizes'], mode='linear', coordinate_transformation_mode='pytorch_half_pixel'),
    R('x', 'cubic', by=['scales'], mode='cubic', cubic_coeff_a=-0.5, exclude_outside=1),
    R('x', 'less', by=['', 'few'], mode='linear', antialias=1),
    R('x', 'cubic_less', by=['', 'few'], mode='cubic', antialias=1),
    R('x', 'cut', cut=True, by=['', 'sizes'], mode='linear', coordinate_transformation_mode='tf_crop_and_resize', extrapolation_value=7.0),
    h.make_node('CenterCropPad', ['x', 'shape'], ['cropped'], axes=[2, 3])],
       [v('x', F, [1, 2, None, None]), v('shape', I, [2])],
       [v(k, F, [None] * 4) for k in ('near', 'ceil', 'linear', 'torch', 'cubic', 'less', 'cubic_less', 'cut', 'cropped')],
       {'x': x(1, 2, 5, 7), 'shape': np.int64([8, 4])},
       [const('scales', np.float32([1, 1, 1.6, 2])), const('sizes', np.int64([1, 2, 7, 4])), const('few', np.int64([1, 2, 2, 3])),
        const('roi', np.float32([0, 0, -0.25, 0.25, 1, 1, 0.75, 1.5]))], opset=19)

record('resize_tenths', [R('x', 'y', by=['scales'], mode='linear')], [v('x', F, [1, 1, 10, 10])], [v('y', F, [None] * 4)],
       {'x': x(1, 1, 10, 10)}, [const('scales', np.float32([1, 1, 0.7, 2.3]))], opset=19)

record('gridsample', [
    h.make_node('GridSample', ['x', 'grid'], [mode + '_' + pad + str(corners)], mode=mode, padding_mode=pad, align_corners=corners)
    for mode in ('linear', 'cubic', 'nearest') for pad, corners in (('zeros', 0), ('border', 1), ('reflection', 0))
] + [h.make_node('AffineGrid', ['theta', 'size'], ['points'], align_corners=1)],
       [v('x', F, [2, 3, 4, 5]), v('grid', F, [2, 3, 4, 2]), v('theta', F, [2, 2, 3]), v('size', I, [4])],
       [v(mode + '_' + pad + str(corners), F, [2, 3, 3, 4]) for mode in ('linear', 'cubic', 'nearest')
        for pad, corners in (('zeros', 0), ('border', 1), ('reflection', 0))] + [v('points', F, [None] * 4)],
       {'x': x(2, 3, 4, 5), 'grid': 1.3 * x(2, 3, 4, 2), 'theta': x(2, 2, 3), 'size': np.int64([2, 3, 4, 5])}, opset=20)

longer = h.make_graph([
    h.make_node('Concat', ['s', 's'], ['twice'], axis=0), h.make_node('ReduceSum', ['twice'], ['sum'], keepdims=0),
    h.make_node('Identity', ['c'], ['more'])], 'longer', [v('i', I), v('c', B), v('s', F, [None])],
    [v('more', B), v('twice', F, [None]), v('sum', F, [])])
record('longer', [h.make_node('Loop', ['most', '', 'x'], ['y', 'sums'], body=longer)], [v('x', F, [1]), v('most', I)],
       [v('y', F, [None]), v('sums', F, [None])], {'x': np.float32([3]), 'most': np.int64(3)})

record('silence', [h.make_node('DynamicQuantizeLinear', ['x'], ['y', 'scale', 'zero'])], [v('x', F, [3])],
       [v('y', T.UINT8, [3]), v('scale'), v('zero', T.UINT8)], {'x': np.zeros(3, np.float32)})

# The body does not say how long its variable is, and makes it longer.
untold = h.make_graph([
    h.make_node('Concat', ['s', 's'], ['twice'], axis=0), h.make_node('Identity', ['c'], ['more'])],
    'untold', [v('i', I), v('c', B), v('s', F, None)], [v('more', B), v('twice', F, None)])
record('untold', [h.make_node('Loop', ['most', '', 'x'], ['y'], body=untold)], [v('x', F, [1]), v('most', I)], [v('y', F, [None])],
       {'x': np.float32([3]), 'most': np.int64(3)})

# Numbers that lie in the fields of their types, not as bytes.
typed = {'f16': T.FLOAT16, 'f32': T.FLOAT, 'f64': T.DOUBLE, 'i8': T.INT8, 'i16': T.INT16, 'i32': T.INT32, 'i64': T.INT64, 'u8': T.UINT8,
         'u16': T.UINT16, 'u32': T.UINT32, 'u64': T.UINT64, 'b': T.BOOL}
values = {'f16': [0.5, -2, 65504], 'f32': [1.5, -3e38, 0], 'f64': [1e300, -0.1, 2], 'i8': [-128, 127, 3], 'i16': [-32768, 32767, 5],
          'i32': [-2147483648, 2147483647, 7], 'i64': [-2**63, 2**63 - 1, 9], 'u8': [0, 255, 11], 'u16': [0, 65535, 13], 'u32': [0, 4294967295, 17],
          'u64': [0, 2**53, 19], 'b': [True, False, True]}
record('typed', [h.make_node('Identity', [name + '_'], [name]) for name in typed], [], [v(name, t, [3]) for name, t in typed.items()], {},
       [h.make_tensor(name + '_', t, [3], values[name]) for name, t in typed.items()])

# Edges that are asked for by a word, even and odd.
AUTO = ('SAME_UPPER', 'SAME_LOWER', 'VALID')
record('edges', [node for auto in AUTO for node in (
    h.make_node('Conv', ['x', 'k'], ['conv_' + auto], auto_pad=auto, strides=[2, 1]),
    h.make_node('MaxPool', ['x'], ['max_' + auto], kernel_shape=[2, 3], auto_pad=auto, strides=[1, 2]),
    h.make_node('AveragePool', ['x'], ['mean_' + auto], kernel_shape=[2, 4], auto_pad=auto, count_include_pad=1),
    h.make_node('LpPool', ['x'], ['lp_' + auto], kernel_shape=[2, 2], auto_pad=auto, p=2),
    h.make_node('ConvTranspose', ['x', 'k'], ['turned_' + auto], auto_pad=auto, strides=[2, 2]))],
       [v('x', F, [1, 2, 5, 6])], [v(what + '_' + auto, F, [None] * 4) for auto in AUTO for what in ('conv', 'max', 'mean', 'lp', 'turned')],
       {'x': x(1, 2, 5, 6)}, [const('k', x(2, 2, 2, 4))])

# Numbers as words and words as numbers; what the words are is asked in the model, since .npz has none.
NUMBERS = {'f32': np.float32([0.1, 1 / 3, 16777216, -2.5, 7, 100, 0.5]), 'f64': np.float64([0.1, 2.5, 1e22, -5e-300, 12345678, 7, 1e15]),
           'i64': np.int64([-2**63, 0, 7]), 'u8': np.uint8([0, 200, 255])}


def words_of(array):
  cast = h.make_model(h.make_graph([h.make_node('Cast', ['x'], ['y'], to=T.STRING)], 'cast', [v('x', onnx.helper.np_dtype_to_tensor_dtype(array.dtype), [None])],
                                   [v('y', T.STRING, [None])]), opset_imports=[h.make_opsetid('', 19)], ir_version=8)
  return onnxruntime.InferenceSession(cast.SerializeToString(), providers=['CPUExecutionProvider']).run(None, {'x': array})[0]


WORDS = {name: words_of(array) for name, array in NUMBERS.items()}
record('worded', [node for name in NUMBERS for node in (h.make_node('Cast', [name], [name + '_s'], to=T.STRING),
                                                        h.make_node('Equal', [name + '_s', name + '_w'], [name + '_same']))] +
       [h.make_node('Cast', [name + '_w'], [name + '_back'], to=onnx.helper.np_dtype_to_tensor_dtype(NUMBERS[name].dtype)) for name in ('f32', 'f64', 'i64')] +
       [h.make_node('CastLike', ['i64', 'f32'], ['like'])],
       [v(name, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for name, a in NUMBERS.items()],
       [v(name + '_same', B, a.shape) for name, a in NUMBERS.items()] +
       [v(name + '_back', onnx.helper.np_dtype_to_tensor_dtype(NUMBERS[name].dtype), NUMBERS[name].shape) for name in ('f32', 'f64', 'i64')] + [v('like', F, [3])] +
       [v(name + '_s', T.STRING, a.shape) for name, a in NUMBERS.items()],
       NUMBERS, [h.make_tensor(name + '_w', T.STRING, [len(words)], [w.encode() for w in words]) for name, words in WORDS.items()], opset=19)

CONSTANTS = {'value_float': 1.5, 'value_floats': [1.5, -2.0], 'value_int': -7, 'value_ints': [3, 2**40], 'value': const('', np.int8([[1], [-2]]))}
record('constants', [h.make_node('Constant', [], [key + '_'], **{key: value}) for key, value in CONSTANTS.items()] +
       [h.make_node('Identity', [key + '_'], [key]) for key in CONSTANTS] +
       [h.make_node('Constant', [], ['a'], value_string='ä\x00b'.encode()), h.make_node('Constant', [], ['b'], value_strings=[b'ab', b'\xc3\xa4\x00b']),
        h.make_node('Equal', ['a', 'b'], ['same']), h.make_node('ConstantOfShape', ['shape'], ['zeros']),
        h.make_node('ConstantOfShape', ['shape'], ['sevens'], value=const('', np.int16([7])))], [v('shape', I, [2])],
       [v('value_float'), v('value_floats', F, [2]), v('value_int', I), v('value_ints', I, [2]), v('value', T.INT8, [2, 1]), v('same', B, [2]),
        v('zeros', F, [None] * 2), v('sevens', T.INT16, [None] * 2)], {'shape': np.int64([2, 3])}, opset=19)

# Heads, masks and a cache; boxes of two pictures and two classes.
record('attention', [h.make_node('Attention', ['q', 'k', 'v', 'mask', 'past_k', 'past_v'], ['y', 'keys', 'values'], is_causal=1, softcap=2.0),
                     h.make_node('Attention', ['q3', 'k3', 'v3'], ['y3'], q_num_heads=4, kv_num_heads=2, scale=0.7)],
       [v('q', F, [1, 2, 3, 4]), v('k', F, [1, 2, 3, 4]), v('v', F, [1, 2, 3, 5]), v('past_k', F, [1, 2, 2, 4]), v('past_v', F, [1, 2, 2, 5]),
        v('q3', F, ['b', 's', 12]), v('k3', F, ['b', 't', 6]), v('v3', F, ['b', 't', 10])],
       [v('y', F, [None] * 4), v('keys', F, [None] * 4), v('values', F, [None] * 4), v('y3', F, [None] * 3)],
       {'q': x(1, 2, 3, 4), 'k': x(1, 2, 3, 4), 'v': x(1, 2, 3, 5), 'past_k': x(1, 2, 2, 4), 'past_v': x(1, 2, 2, 5),
        'q3': x(2, 3, 12), 'k3': x(2, 4, 6), 'v3': x(2, 4, 10)},
       [const('mask', np.array([[1, 1, 1, 1, 1], [0, 1, 1, 1, 1], [1, 0, 1, 1, 1]], bool))], opset=23)
BOXES = np.float32([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]]])
record('boxes', [h.make_node('NonMaxSuppression', ['boxes', 'scores', 'most', 'overlap', 'least'], ['left']),
                 h.make_node('NonMaxSuppression', ['boxes', 'scores', 'most'], ['centred'], center_point_box=1)],
       [v('boxes', F, [2, 6, 4]), v('scores', F, [2, 2, 6])], [v('left', I, [None, 3]), v('centred', I, [None, 3])],
       {'boxes': np.concatenate([BOXES, BOXES[:, ::-1]]), 'scores': np.abs(x(2, 2, 6))},
       [const('most', np.int64([3])), const('overlap', np.float32([0.5])), const('least', np.float32([0.1]))])
# 0 in a shape: the dimension that was there, or none at all.
record('zeros', [h.make_node('Reshape', ['x', 'kept'], ['a']), h.make_node('Reshape', ['x', 'shape'], ['b']), h.make_node('Reshape', ['none', 'empty'], ['c'], allowzero=1),
                 h.make_node('Reshape', ['none', 'later'], ['d'], allowzero=1)],
       [v('x', F, [2, 3, 4]), v('none', F, [0, 3]), v('shape', I, [2]), v('later', I, [2])],
       [v('a', F, [None] * 3), v('b', F, [None] * 2), v('c', F, [None] * 2), v('d', F, [None] * 2)],
       {'x': x(2, 3, 4), 'none': np.zeros((0, 3), np.float32), 'shape': np.int64([0, -1]), 'later': np.int64([0, 5])},
       [const('kept', np.int64([0, 4, -1])), const('empty', np.int64([7, 0]))])

# Products of matrices of bytes: with numbers that stand for 0, without, and with one for each column.
some = np.random.RandomState(7)
SIDES = {'u': some.randint(0, 256, (5, 9)).astype(np.uint8), 's': some.randint(-128, 128, (9, 4)).astype(np.int8),
         'w': some.randint(0, 256, (9, 4)).astype(np.uint8)}
record('bytes', [h.make_node('MatMulInteger', ['u', 's', 'zu', 'zs'], ['us']), h.make_node('MatMulInteger', ['u', 'w', '', 'zw'], ['uw']),
                 h.make_node('MatMulInteger', ['u', 's'], ['plain']), h.make_node('MatMulInteger', ['u', 's', 'zu', 'columns'], ['by_columns'])],
       [v('u', T.UINT8, ['m', 'k']), v('s', T.INT8, ['k', 'n']), v('w', T.UINT8, ['k', 'n'])],
       [v(name, T.INT32, [None] * 2) for name in ('us', 'uw', 'plain', 'by_columns')], SIDES,
       [const('zu', np.uint8(200)), const('zs', np.int8(-90)), const('zw', np.uint8(17)), const('columns', np.int8([1, -2, 3, -128]))])
