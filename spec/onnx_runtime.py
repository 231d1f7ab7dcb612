"""Cases of operators that ONNX's own tests leave out, with what ONNX Runtime gives: python spec/onnx_runtime.py FOLDER

Classical models (ai.onnx.ml) and ONNX Runtime's own operators (com.microsoft). Each case becomes FOLDER/NAME with model.onnx and
test_data_set_0/{input,output}_N.pb, for spec/onnx_nodes.lua, which also keeps the small ones in spec/models/onnx_runtime.gz.
"""
import os
import sys

import numpy as np
import onnxruntime
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

rng = np.random.RandomState(7)
ML, MS = 'ai.onnx.ml', 'com.microsoft'


def f(*shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


def u8(*shape):
    return rng.randint(0, 256, shape).astype(np.uint8)


def i8(*shape):
    return rng.randint(-100, 100, shape).astype(np.int8)


def case(name, domain, op, inputs, outputs=1, constants=(), **attributes):
    """inputs: arrays, None where one is left out; those whose places `constants` names are initializers."""
    inputs = [x if x is None else np.asarray(x) for x in inputs]
    names = ['' if x is None else 'x%d' % i for i, x in enumerate(inputs)]
    results = ['y%d' % i for i in range(outputs)] if isinstance(outputs, int) else outputs
    node = h.make_node(op, names, results, domain=domain, **attributes)
    fed = [(n, x) for i, (n, x) in enumerate(zip(names, inputs)) if n and i not in constants]
    kept = [numpy_helper.from_array(inputs[i], names[i]) for i in constants]
    infos = [h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in fed]
    out = [h.make_value_info(n, h.make_tensor_type_proto(T.UNDEFINED, None)) for n in results if n]
    for o in out:
        o.ClearField('type')
    model = h.make_model(h.make_graph([node], name, infos, out, kept), ir_version=8,
                         opset_imports=[h.make_opsetid('', 17), h.make_opsetid(ML, 3), h.make_opsetid(MS, 1)])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=['CPUExecutionProvider'])
        values = session.run(None, dict(fed))
    except Exception as e:
        print('%s: %s' % (name, str(e)[:200]))
        return
    for o, v, s in zip(out, values, session.get_outputs()):
        o.CopyFrom(h.make_tensor_value_info(s.name, h.np_dtype_to_tensor_dtype(np.asarray(v).dtype), v.shape))
    del model.graph.output[:]
    model.graph.output.extend(out)
    data = os.path.join(sys.argv[1], name, 'test_data_set_0')
    os.makedirs(data, exist_ok=True)
    with open(os.path.join(sys.argv[1], name, 'model.onnx'), 'wb') as file:
        file.write(model.SerializeToString())
    for kind, arrays in (('input', [x for _, x in fed]), ('output', values)):
        for i, array in enumerate(arrays):
            with open(os.path.join(data, '%s_%d.pb' % (kind, i)), 'wb') as file:
                file.write(numpy_helper.from_array(np.asarray(array), '%s_%d' % (kind, i)).SerializeToString())


# ---- ai.onnx.ml ----
x = f(4, 3)
case('ml_scaler', ML, 'Scaler', [x], offset=[0.5, 0.0, -1.0], scale=[2.0, 1.0, 0.5])
case('ml_scaler_ints', ML, 'Scaler', [rng.randint(0, 9, (4, 3)).astype(np.int64)], offset=[1.0], scale=[0.5])
for norm in ('MAX', 'L1', 'L2'):
    case('ml_normalizer_' + norm.lower(), ML, 'Normalizer', [np.abs(x)], norm=norm)
case('ml_one_hot', ML, 'OneHotEncoder', [np.array([[1, 3], [7, 2]], np.int64)], cats_int64s=[1, 2, 3], zeros=1)
case('ml_imputer', ML, 'Imputer', [np.array([[1, np.nan, 3], [np.nan, 5, 6]], np.float32)], imputed_value_floats=[9.0, 8.0, 7.0],
     replaced_value_float=float('nan'))
case('ml_features', ML, 'FeatureVectorizer', [f(3, 2), f(3, 1)], inputdimensions=[2, 1])
for post in ('NONE', 'LOGISTIC', 'SOFTMAX', 'SOFTMAX_ZERO'):
    case('ml_linear_regressor_' + post.lower(), ML, 'LinearRegressor', [x], coefficients=list(map(float, f(6))), intercepts=[0.1, -0.2],
         targets=2, post_transform=post)
    case('ml_linear_classifier_' + post.lower(), ML, 'LinearClassifier', [x], 2, coefficients=list(map(float, f(9))),
         intercepts=[0.1, -0.2, 0.3], classlabels_ints=[5, 7, 9], post_transform=post)
case('ml_linear_classifier_two', ML, 'LinearClassifier', [x], 2, coefficients=list(map(float, f(3))), intercepts=[0.1],
     classlabels_strings=['no', 'yes'], post_transform='LOGISTIC')
for kernel in ('LINEAR', 'POLY', 'RBF', 'SIGMOID'):
    case('ml_svm_regressor_' + kernel.lower(), ML, 'SVMRegressor', [x], coefficients=list(map(float, f(4))), kernel_type=kernel,
         kernel_params=[0.5, 0.25, 2.0], n_supports=4, rho=[0.3], support_vectors=list(map(float, f(12))))
    case('ml_svm_classifier_' + kernel.lower(), ML, 'SVMClassifier', [x], 2, classlabels_ints=[0, 1, 2], coefficients=list(map(float, f(12))),
         kernel_type=kernel, kernel_params=[0.5, 0.25, 2.0], rho=[0.1, -0.1, 0.05], support_vectors=list(map(float, f(18))),
         vectors_per_class=[2, 3, 1], post_transform='NONE')
trees = dict(nodes_treeids=[0, 0, 0, 0, 0, 1, 1, 1], nodes_nodeids=[0, 1, 2, 3, 4, 0, 1, 2], nodes_featureids=[0, 2, 0, 0, 0, 1, 0, 0],
             nodes_values=[0.1, -0.2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], nodes_truenodeids=[1, 3, 0, 0, 0, 1, 0, 0],
             nodes_falsenodeids=[2, 4, 0, 0, 0, 2, 0, 0], nodes_missing_value_tracks_true=[1, 0, 0, 0, 0, 0, 0, 0])
modes = ['BRANCH_LEQ', 'BRANCH_GT', 'LEAF', 'LEAF', 'LEAF', 'BRANCH_LT', 'LEAF', 'LEAF']
leaves = dict(treeids=[0, 0, 0, 1, 1], nodeids=[2, 3, 4, 1, 2], weights=[0.5, -1.5, 2.0, 0.25, 1.0])
missing = np.vstack([f(6, 3), [[np.nan, 0.5, -0.5]]]).astype(np.float32)
for how in ('SUM', 'AVERAGE', 'MIN', 'MAX'):
    case('ml_trees_regressor_' + how.lower(), ML, 'TreeEnsembleRegressor', [missing], n_targets=1, aggregate_function=how, nodes_modes=modes,
         target_ids=[0] * 5, target_treeids=leaves['treeids'], target_nodeids=leaves['nodeids'], target_weights=leaves['weights'],
         **({'base_values': [0.5]} if how == 'SUM' else {}), **trees)
for post in ('NONE', 'SOFTMAX'):
    case('ml_trees_classifier_' + post.lower(), ML, 'TreeEnsembleClassifier', [missing], 2, nodes_modes=modes, class_ids=[0, 1, 2, 2, 0],
         class_treeids=leaves['treeids'], class_nodeids=leaves['nodeids'], class_weights=leaves['weights'],
         classlabels_strings=['a', 'b', 'c'], post_transform=post, **trees)
for post in ('NONE', 'LOGISTIC'):
    case('ml_trees_two_classes_' + post.lower(), ML, 'TreeEnsembleClassifier', [missing], 2, nodes_modes=modes, class_ids=[0] * 5,
         class_treeids=leaves['treeids'], class_nodeids=leaves['nodeids'], class_weights=leaves['weights'] if post == 'LOGISTIC'
         else [0.25, 0.5, 0.125, 0.125, 0.25], classlabels_int64s=[3, 4], post_transform=post, **trees)

# ---- com.microsoft ----
case('ms_bias_gelu', MS, 'BiasGelu', [f(2, 3, 4), f(4)])
case('ms_fast_gelu', MS, 'FastGelu', [f(2, 3, 4), f(4)])
case('ms_quick_gelu', MS, 'QuickGelu', [f(2, 3, 4)], alpha=1.5)
case('ms_gelu', MS, 'Gelu', [f(2, 3, 4)])
case('ms_fused_matmul', MS, 'FusedMatMul', [f(2, 4, 3), f(2, 5, 4)], transA=1, transB=1, alpha=0.5)
case('ms_fused_gemm', MS, 'FusedGemm', [f(3, 4), f(4, 5), f(5)], activation='Relu', alpha=0.5, beta=2.0)
case('ms_fused_conv', MS, 'FusedConv', [f(1, 3, 6, 5), f(4, 3, 3, 3), f(4)], activation='LeakyRelu', activation_params=[0.2], pads=[1, 1, 1, 1])
case('ms_fused_conv_sum', MS, 'FusedConv', [f(1, 3, 6, 5), f(4, 3, 3, 3), f(4), f(1, 4, 6, 5)], activation='Relu', pads=[1, 1, 1, 1])
case('ms_skip_layer_norm', MS, 'SkipLayerNormalization', [f(2, 3, 8), f(2, 3, 8), f(8), f(8), f(8)], ['y', '', '', 'sum'], epsilon=1e-5)
case('ms_skip_rms_norm', MS, 'SkipSimplifiedLayerNormalization', [f(2, 3, 8), f(2, 3, 8), f(8)], epsilon=1e-5)
ids = rng.randint(0, 10, (2, 4)).astype(np.int32)
case('ms_embed', MS, 'EmbedLayerNormalization', [ids, ids % 2, f(10, 8), f(6, 8), f(2, 8), f(8), f(8), np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)],
     2, epsilon=1e-5)
case('ms_attention', MS, 'Attention', [f(2, 4, 8), f(8, 24), f(24)], num_heads=2)
case('ms_attention_mask', MS, 'Attention', [f(2, 4, 8), f(8, 24), f(24), np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)], num_heads=2)
case('ms_attention_lengths', MS, 'Attention', [f(2, 4, 8), f(8, 24), f(24), np.array([3, 2], np.int32)], num_heads=2)
case('ms_attention_causal', MS, 'Attention', [f(2, 4, 8), f(8, 24), f(24)], num_heads=2, unidirectional=1)
case('ms_attention_past', MS, 'Attention', [f(1, 2, 8), f(8, 24), f(24), None, f(2, 1, 2, 3, 4)], 2, num_heads=2, unidirectional=1)
case('ms_multi_head', MS, 'MultiHeadAttention', [f(2, 4, 8), f(2, 5, 8), f(2, 5, 8), f(24)], num_heads=2)
case('ms_dynamic_matmul', MS, 'DynamicQuantizeMatMul', [f(3, 16), i8(16, 5), np.float32(0.02), np.int8(3), f(5)])
case('ms_integer_to_float', MS, 'MatMulIntegerToFloat', [u8(3, 16), i8(16, 5), np.float32(0.02), np.float32(0.03), np.uint8(120), np.int8(3), f(5)])
for bits, bytes_of in ((4, 16), (8, 32)):
    case('ms_matmul_%d_bits' % bits, MS, 'MatMulNBits', [f(3, 64), u8(5, 2, bytes_of), np.abs(f(10))], K=64, N=5, bits=bits, block_size=32)
case('ms_matmul_4_bits_zeros', MS, 'MatMulNBits', [f(3, 64), u8(5, 2, 16), np.abs(f(10)), u8(5)], K=64, N=5, bits=4, block_size=32)
scale, zero = np.float32(0.02), np.uint8(120)
case('ms_q_add', MS, 'QLinearAdd', [u8(3, 4), scale, zero, u8(4), np.float32(0.03), np.uint8(100), np.float32(0.05), np.uint8(110)])
case('ms_q_mul', MS, 'QLinearMul', [u8(3, 4), scale, zero, u8(4), np.float32(0.03), np.uint8(100), np.float32(0.05), np.uint8(110)])
case('ms_q_sigmoid', MS, 'QLinearSigmoid', [u8(3, 4), scale, zero, np.float32(1 / 256), np.uint8(0)], constants=(1, 2, 3, 4))
case('ms_q_leaky', MS, 'QLinearLeakyRelu', [u8(3, 4), scale, zero, np.float32(0.02), np.uint8(100)], constants=(1, 2, 3, 4), alpha=0.1)
case('ms_q_softmax', MS, 'QLinearSoftmax', [u8(3, 4), scale, zero, np.float32(1 / 256), np.uint8(0)], axis=-1, opset=13)
case('ms_q_mean', MS, 'QLinearGlobalAveragePool', [u8(1, 3, 4, 4), scale, zero, np.float32(0.01), np.uint8(100)])
case('ms_q_pool', MS, 'QLinearAveragePool', [u8(1, 3, 4, 4), scale, zero, np.float32(0.031), np.uint8(100)], kernel_shape=[2, 2])
case('ms_q_concat', MS, 'QLinearConcat', [np.float32(0.03), np.uint8(100), u8(2, 3), scale, zero, u8(2, 2), np.float32(0.01), np.uint8(50)], axis=1)
case('ms_q_gemm', MS, 'QGemm', [u8(3, 8), scale, zero, i8(8, 5), np.float32(0.03), np.int8(2), rng.randint(-500, 500, 5).astype(np.int32),
                                np.float32(0.4), np.uint8(128)])
# Of one row: of several, ONNX Runtime quantises the states of some together, by how many threads there are.
lstm = [f(4, 1, 6), i8(2, 6, 20), i8(2, 5, 20), f(2, 40), None, None, None, None, np.abs(f(2)) * 0.02, np.zeros(2, np.int8),
        np.abs(f(2)) * 0.02, np.zeros(2, np.int8)]
case('ms_lstm', MS, 'DynamicQuantizeLSTM', lstm, 3, constants=(1, 2, 3, 8, 9, 10, 11), hidden_size=5, direction='bidirectional')
