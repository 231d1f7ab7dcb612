# Part of tensorflow_layers.py: gradients of layers and losses, pooling, lookups, attention, samplers, wrappers of cells, schedules, clipping, averages.
def slopes(name, y, wanted, variables=()):
    """y, and the gradients of its weighted sum by a dict of tensors, under d_name."""
    out = dict(zip(('d_' + k for k in wanted), (tf.convert_to_tensor(g) for g in grads(y, list(wanted.values())))))
    case(name, {'y': y, **out}, variables)


x = tf.constant(numbers([2, 3, 5], 1))
layer = v1.layers.Dense(4, tf.nn.sigmoid)
y = layer(x)
slopes('dense', y, {'x': x, 'kernel': layer.kernel, 'bias': layer.bias}, [(layer.kernel, numbers([5, 4], 2)), (layer.bias, numbers([4], 3))])
for name, options in (('a', dict(strides=2, padding='same')), ('b', dict(dilation_rate=2)), ('c', dict(dilation_rate=2, padding='causal'))):
    x = tf.constant(numbers([2, 7, 3], 1))
    layer = tf.keras.layers.Conv1D(2, 3, **options)
    y = layer(x)
    slopes('line_' + name, y, {'x': x, 'kernel': layer.kernel, 'bias': layer.bias}, [(layer.kernel, numbers([3, 3, 2], 2)), (layer.bias, numbers([2], 3))])
for name, strides, padding in (('a', 2, 'same'), ('b', 3, 'valid'), ('c', 1, 'valid')):
    x = tf.constant(numbers([1, 3, 4, 3], 1))
    layer = v1.layers.Conv2DTranspose(2, (3, 2), strides, padding)
    y = layer(x)
    dx, dk, db = grads(y, [x, layer.kernel, layer.bias])
    case('transposed_slopes_' + name, {'first': y[0, 0, 0], 'dx': dx[0, 1], 'dk': dk[1], 'db': db},
         [(layer.kernel, numbers([3, 2, 2, 3], 2)), (layer.bias, numbers([2], 3))])
x = tf.constant(numbers([2, 3, 4], 1))
layer = v1.layers.BatchNormalization()
y = layer(x)
slopes('batch_norm_still', y, {'x': x, 'gamma': layer.gamma, 'beta': layer.beta},
       [(v, numbers([4], 2 + i, 0.5) + 1) for i, v in enumerate((layer.gamma, layer.beta, layer.moving_mean, layer.moving_variance))])
for name, size, strides, padding in (('same', 3, 2, 'same'), ('valid', 2, 1, 'valid')):
    x, row = tf.constant(numbers([1, 5, 4, 2], 1)), tf.constant(numbers([2, 7, 2], 2))
    k = tf.keras.layers
    ys = {'max2': k.MaxPooling2D(size, strides, padding)(x), 'mean2': k.AveragePooling2D(size, strides, padding)(x),
          'max1': k.MaxPooling1D(size, strides, padding)(row), 'mean1': k.AveragePooling1D(size, strides, padding)(row)}
    out = dict(ys)
    for n, y in ys.items():
        out['d_' + n] = grads(y, [x if n[-1] == '2' else row])[0]
    case('pool_' + name, out)
x = tf.constant(numbers([2, 3, 2, 3], 1))
for name, layer in (('max', tf.keras.layers.GlobalMaxPooling2D()), ('mean', tf.keras.layers.GlobalAveragePooling2D())):
    slopes('pool_all_' + name, layer(x), {'x': x})
    x = tf.constant(numbers([2, 3, 2, 3], 1))

for strategy in ('mod', 'div'):
    full = numbers([10, 3], 1)
    tables = [tf.constant(p) for p in ([full[i::3] for i in range(3)] if strategy == 'mod' else [full[:4], full[4:7], full[7:]])]
    y = v1.nn.embedding_lookup(tables, tf.constant([[9, 0, 4], [4, 7, 4]]), partition_strategy=strategy)
    slopes('lookup_' + strategy, y, {'table_%d' % i: t for i, t in enumerate(tables)})

# ---- attention ----
q, k, v = tf.constant(numbers([2, 3, 4], 1)), tf.constant(numbers([2, 5, 4], 2)), tf.constant(numbers([2, 5, 2], 3))
keep = tf.constant([[True, True, True, False, False], [True] * 5])
y = tf.keras.layers.Attention()([q, v, k], mask=[None, keep])
slopes('products', y, {'q': q, 'k': k, 'v': v})
q, k, v = tf.constant(numbers([2, 3, 4], 1)), tf.constant(numbers([2, 3, 4], 2)), tf.constant(numbers([2, 3, 2], 3))
slopes('products_causal', tf.keras.layers.Attention()([q, v, k], use_causal_mask=True), {'q': q, 'k': k, 'v': v})
q, k, v = tf.constant(numbers([2, 3, 4], 1)), tf.constant(numbers([2, 5, 4], 2)), tf.constant(numbers([2, 5, 6], 3))
w, u = tf.constant(numbers([4, 6], 4)), tf.constant(numbers([4, 6], 5))
layer = tf.keras.layers.AdditiveAttention()
y = layer([q @ w, v, k @ u])
slopes('additive', y, {'q': q, 'k': k, 'v': v, 'w': w, 'u': u, 'scale': layer.scale}, [(layer.scale, numbers([6], 6))])
x, m = tf.constant(numbers([2, 3, 6], 1)), tf.constant(numbers([2, 4, 6], 2))
layer = tf.keras.layers.MultiHeadAttention(2, 3)
y = layer(x, m)
kernel = [v for v in layer.weights if 'query/kernel' in v.name][0]
dx, dm, dk = grads(y, [x, m, kernel])
case('heads', {'dx': dx, 'dm': dm, 'dk': tf.reshape(dk, [6, 6])},
     [(v, numbers([6, 6] if 'kernel' in v.name else [6], 10 + i).reshape(v.shape)) for i, v in enumerate(layer.weights)])

# ---- losses: gradients by the predictions ----
y, p = tf.constant((numbers([4, 3], 1) > 0).astype(np.float32)), tf.constant(numbers([4, 3], 2, 2.0))
q, w, L = tf.nn.softmax(tf.constant(numbers([4, 3], 3))), tf.constant(numbers([4, 1], 4)), v1.losses
onehot = tf.one_hot([0, 2, 1, 1], 3)
case('loss_slopes', {k: v1.gradients(f(p), p)[0] for k, f in {
    'mean_squared_error': lambda p: L.mean_squared_error(y, p), 'absolute_difference': lambda p: L.absolute_difference(y, p, w),
    'huber_loss': lambda p: L.huber_loss(y, p, w, delta=0.7), 'hinge_loss': lambda p: L.hinge_loss(y, p),
    'log_loss': lambda p: L.log_loss(y, tf.sigmoid(p), w), 'sigmoid_cross_entropy': lambda p: L.sigmoid_cross_entropy(y, p, w, label_smoothing=0.2),
    'softmax_cross_entropy': lambda p: L.softmax_cross_entropy(onehot, p, label_smoothing=0.1),
    'cosine_distance': lambda p: L.cosine_distance(y, p, axis=-1),
    'sparse_softmax_cross_entropy': lambda p: L.sparse_softmax_cross_entropy(tf.constant([0, 2, 1, 1]), p, weights=tf.constant([1.0, 0, 2, 1])),
    'kl_divergence': lambda p: tf.reduce_mean(tf.keras.losses.kullback_leibler_divergence(q, tf.nn.softmax(p)))}.items()})
classes, N = tf.constant([[1, 4], [0, 9], [5, 5], [7, 2]], tf.int64), tf.random
case('samplers', {
    'uniform': v1.random.uniform_candidate_sampler(classes, 2, 7, False, 10)[1], 'log_uniform': v1.random.log_uniform_candidate_sampler(classes, 2, 7, False, 10)[1],
    'learned_unigram': v1.random.learned_unigram_candidate_sampler(classes, 2, 7, False, 10)[1],
    'fixed_unigram': v1.random.fixed_unigram_candidate_sampler(classes, 2, 7, False, 10, unigrams=[float(i + 1) for i in range(10)], distortion=0.75)[1]})

# ---- cells of cells, and a loop that asks ----
cell = v1.nn.rnn_cell.MultiRNNCell([v1.nn.rnn_cell.LSTMCell(4), v1.nn.rnn_cell.ResidualWrapper(v1.nn.rnn_cell.GRUCell(4))])
x = tf.constant(numbers([3, 5, 2], 1))
y, state = v1.nn.dynamic_rnn(cell, x, sequence_length=[5, 2, 0], dtype=tf.float32)
vs = v1.trainable_variables()
gs = grads(y, [x] + vs)
case('stacked', {'y': y, 'dx': gs[0], 'c': state[0].c, 'h': state[1], **{'d_%d' % (i + 1): tf.reduce_sum(g * numbers([int(d) for d in g.shape], 98))
                                                                      for i, g in enumerate(gs[1:])}},
     [(v, numbers([int(d) for d in v.shape], 20 + i, 0.5)) for i, v in enumerate(vs)])
cell, x, lengths = v1.nn.rnn_cell.LSTMCell(4), tf.constant(numbers([5, 3, 2], 1)), tf.constant([5, 2, 1])
inputs = tf.TensorArray(tf.float32, 5).unstack(x)


def ask(time, output, state, _):
    ended = time >= lengths
    over = tf.reduce_all(ended)
    return (ended, tf.cond(over, lambda: tf.zeros([3, 2]), lambda: inputs.read(time)), cell.zero_state(3, tf.float32) if output is None else state,
            output * 2 if output is not None else tf.zeros([4]), None)


emitted, state, _ = v1.nn.raw_rnn(cell, ask)
y = emitted.stack()
y.set_shape([5, 3, 4])
vs = v1.trainable_variables()
gs = grads(y, [x] + vs)
case('raw_rnn', {'y': y, 'c': state.c, 'h': state.h, 'dx': gs[0], 'dk': tf.reduce_sum(gs[1] * numbers([6, 16], 98))},
     [(v, numbers([int(d) for d in v.shape], 20 + i, 0.5)) for i, v in enumerate(vs)])

# ---- rates at steps 0, 3, … 27, clipping, averages ----
T = v1.train
steps = tf.constant(np.arange(0, 30, 3))
rates = {
    'exponential': lambda s: T.exponential_decay(0.1, s, 8, 0.7), 'stairs': lambda s: T.exponential_decay(0.1, s, 8, 0.7, staircase=True),
    'natural': lambda s: T.natural_exp_decay(0.1, s, 8, 0.7), 'inverse': lambda s: T.inverse_time_decay(0.1, s, 8, 0.7),
    'polynomial': lambda s: T.polynomial_decay(0.1, s, 10, 0.01, 2.0), 'cycle': lambda s: T.polynomial_decay(0.1, s, 10, 0.01, 2.0, cycle=True),
    'cosine': lambda s: T.cosine_decay(0.1, s, 20, 0.05), 'restarts': lambda s: T.cosine_decay_restarts(0.1, s, 4, 2.0, 0.8, 0.05),
    'linear_cosine': lambda s: T.linear_cosine_decay(0.1, s, 20, 1.5, 0.1, 0.002), 'pieces': lambda s: T.piecewise_constant(s, [6, 15], [0.1, 0.05, 0.01])}
case('rates', {k: tf.stack([f(tf.constant(int(i))) for i in range(0, 30, 3)]) for k, f in rates.items()})
a, b = tf.constant(numbers([3, 4], 1, 3.0)), tf.constant(numbers([5], 2))
whole, norm = tf.clip_by_global_norm([a, b], 2.5)
clipped = {'value': tf.clip_by_value(a, -1.0, 0.5), 'norm': tf.clip_by_norm(a, 2.0), 'rows': tf.clip_by_norm(a, 2.0, [1]), 'whole': whole[0]}
case('clipped', {'b': whole[1], 'global': norm, **clipped, **{'d_' + k: grads(y, [a])[0] for k, y in clipped.items()}})
for name, options in (('plain', {}), ('counted', {'num_updates': 3}), ('from_zero', {'zero_debias': True})):
    v = v1.Variable(numbers([3], 1))
    average = T.ExponentialMovingAverage(0.9, **options)
    with tf.control_dependencies([v.assign(v * 0.5 + 1)]):
        of = v if name != 'from_zero' else v.read_value() * 2
        step = average.apply([of])
    seen = []
    with v1.Session() as s:
        s.run(v1.global_variables_initializer())
        for _ in range(10):
            s.run(step)
            seen.append(s.run(average.average(of)))
    results.append('\n'.join(textwrap.wrap('average_%s = %s,' % (name, lua([r.tolist() for r in seen[::3]])), 120, initial_indent='  ', subsequent_indent='    ')))
    v1.reset_default_graph()
