"""Writes spec/training/tensorflow_layers.lua.gz: what TensorFlow 2.15 (v1 graphs) computes for layers, losses and cells.

    python spec/training/tensorflow_layers.py | gzip -9n > spec/training/tensorflow_layers.lua.gz

Inputs are made by `numbers`, as in spec/training/numbers.lua, so only results are written down.
"""
import os
import textwrap
os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import numpy as np
import tensorflow as tf
v1 = tf.compat.v1
v1.disable_v2_behavior()


def numbers(shape, k, scale=1.0):
    n = int(np.prod(shape))
    return (scale * ((np.arange(n) * 7919 + k * 104729) % 1000 / 500.0 - 1)).reshape(shape).astype(np.float32)


def lua(v):
    if isinstance(v, (list, tuple)):
        return '{' + ', '.join(lua(x) for x in v) + '}'
    if isinstance(v, np.ndarray):
        return lua(v.tolist())
    return ('%.7g' % float(v)).replace('inf', '1 / 0')


results = []


def case(name, outputs, variables=()):
    """The values of a dict of outputs; variables get their numbers first, in order."""
    with v1.Session() as s:
        s.run(v1.global_variables_initializer())
        for v, value in variables:
            v.load(value, s)
        r = s.run(outputs)
    text = ', '.join('%s = %s' % (k, lua(r[k])) for k in sorted(r))
    results.append('\n'.join(textwrap.wrap('  %s = { %s },' % (name, text), 120, subsequent_indent='    ', initial_indent='  ', break_on_hyphens=False)))
    v1.reset_default_graph()


def grads(y, xs):
    """Gradients of the sum of y * numbers."""
    w = numbers([int(d) for d in y.shape], 99)
    return v1.gradients(y * w, xs)


# ---- convolutions ----
for name, strides, padding, dilation in (('a', 2, 'same', 1), ('b', 1, 'valid', 2), ('c', (2, 1), 'valid', 1)):
    x, k = tf.constant(numbers([2, 7, 6, 3], 1)), tf.constant(numbers([3, 2, 3, 4], 2))
    st = (strides, strides) if isinstance(strides, int) else strides
    y = tf.nn.conv2d(x, k, [1, st[0], st[1], 1], padding.upper(), dilations=[1, dilation, dilation, 1])
    dx, dk = grads(y, [x, k])
    case('conv2d_' + name, {'sum': tf.reduce_sum(y * numbers([int(d) for d in y.shape], 98)), 'first': y[0, 0, 0], 'dk': dk[0, 0], 'dx': dx[1, 2]})
    if st[0] == st[1]:
        x, d = tf.constant(numbers([2, 7, 6, 3], 1)), tf.constant(numbers([3, 2, 3, 2], 3))
        y = tf.nn.depthwise_conv2d(x, d, [1, st[0], st[1], 1], padding.upper(), dilations=[dilation, dilation])
        dx, dk = grads(y, [x, d])
        case('depthwise_' + name, {'sum': tf.reduce_sum(y * numbers([int(d) for d in y.shape], 98)), 'first': y[0, 0, 0], 'dk': dk[0, 0], 'dx': dx[1, 2]})
for name, strides, padding in (('a', 2, 'same'), ('b', 3, 'valid'), ('c', 1, 'valid')):
    x = tf.constant(numbers([2, 3, 4, 3], 1))
    layer = v1.layers.Conv2DTranspose(2, (3, 2), strides, padding, use_bias=False)
    y = layer(x)
    case('transposed_' + name, {'shape': tf.shape(y), 'sum': tf.reduce_sum(y * numbers([int(d) for d in y.shape], 98)), 'y': y[1, 1]},
         [(layer.kernel, numbers([3, 2, 2, 3], 2))])
x = tf.constant(numbers([2, 7, 3], 1))
layer = v1.layers.Conv1D(2, 3, strides=2, padding='same')
y = layer(x)
case('conv1d', {'y': y}, [(layer.kernel, numbers([3, 3, 2], 2)), (layer.bias, numbers([2], 3))])

# ---- normalisation ----
for name, shape in (('rows', [6, 4]), ('images', [2, 3, 2, 4])):
    x = tf.constant(numbers(shape, 1))
    layer = v1.layers.BatchNormalization()
    y = layer(x, training=True)
    dx, dg, db = grads(y, [x, layer.gamma, layer.beta])
    with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
        done = tf.identity(y)
        with tf.control_dependencies([done]):
            mean, var = layer.moving_mean.read_value(), layer.moving_variance.read_value()
    case('batch_norm_' + name, {'y': done, 'dx': dx, 'dgamma': dg, 'dbeta': db, 'mean': mean, 'variance': var},
         [(layer.gamma, numbers([4], 2)), (layer.beta, numbers([4], 3))])
x = tf.constant(numbers([3, 5], 1))
layer = tf.keras.layers.LayerNormalization(epsilon=1e-6)
y = layer(x)
case('layer_norm', {'y': y, 'dx': grads(y, [x])[0]}, [(layer.gamma, numbers([5], 2)), (layer.beta, numbers([5], 3))])
x = tf.constant(numbers([2, 3, 2, 6], 1))
layer = tf.keras.layers.GroupNormalization(groups=3)
y = layer(x)
case('group_norm', {'y': y, 'dx': grads(y, [x])[0]}, [(layer.gamma, numbers([6], 2)), (layer.beta, numbers([6], 3))])

# ---- attention ----
x, m = tf.constant(numbers([2, 3, 6], 1)), tf.constant(numbers([2, 4, 6], 2))
layer = tf.keras.layers.MultiHeadAttention(2, 3)
mask = np.array([[1, 1, 0, 1], [0, 1, 1, 1], [1, 0, 0, 0]], bool)
y = layer(x, m, attention_mask=tf.constant(np.stack([mask, ~mask | np.eye(3, 4, dtype=bool)])))
w = layer.weights
case('attention', {'y': y}, [(v, numbers([6, 6] if 'kernel' in v.name else [6], 10 + i).reshape(v.shape)) for i, v in enumerate(w)])
x = tf.constant(numbers([2, 4, 6], 1))
layer = tf.keras.layers.MultiHeadAttention(2, 3)
y = layer(x, x, use_causal_mask=True)
case('causal', {'y': y}, [(v, numbers([6, 6] if 'kernel' in v.name else [6], 10 + i).reshape(v.shape)) for i, v in enumerate(layer.weights)])
x = tf.constant(numbers([7], 1, 3.0))
case('gelu', {'exact': tf.nn.gelu(x), 'fast': tf.nn.gelu(x, approximate=True)})

for part in ('rnn', 'losses', 'more', 'algebra'):
    exec(open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'tensorflow_%s.py' % part)).read())
print('--- What TensorFlow %s computed; made by spec/training/tensorflow_layers.py.\nreturn {' % tf.__version__)
print('\n'.join(results))
print('}')
