# Part of tensorflow_layers.py: losses, samplers' formulas, metrics.
def ctc(name, T, B, C, labels, lengths, **opts):
    logits = tf.constant(numbers([T, B, C], 1, 2.0))
    idx = [[b, i] for b, l in enumerate(labels) for i in range(len(l))]
    vals = [v for l in labels for v in l]
    sp = tf.SparseTensor(tf.constant(np.array(idx, np.int64).reshape(-1, 2)), tf.constant(vals, tf.int32), [B, max(1, max(len(l) for l in labels))])
    loss = v1.nn.ctc_loss(sp, logits, tf.constant(lengths, tf.int32), **opts)
    d = v1.gradients(loss * numbers([B], 99), logits)[0]
    case('ctc_' + name, {'loss': loss, 'd': d})


ctc('plain', 6, 4, 5, [[0, 1, 2], [3], [2, 2, 1], [0]], [6, 3, 5, 1])
ctc('unmerged', 6, 2, 4, [[0, 0, 1], [2, 2]], [6, 4], ctc_merge_repeated=False)
ctc('collapsed', 6, 2, 4, [[0, 0, 1, 1], [2, 1, 2, 2]], [6, 5], preprocess_collapse_repeated=True)
ctc('ignored', 4, 3, 4, [[0, 1, 2, 0, 1], [2], [1, 1, 1]], [4, 4, 4], ignore_longer_outputs_than_inputs=True)

for strategy in ('mod', 'div'):
    full = numbers([10, 3], 1)
    parts = [full[i::3] for i in range(3)] if strategy == 'mod' else [full[:4], full[4:7], full[7:]]
    tables = [tf.constant(p) for p in parts]
    biases = [tf.constant(p) for p in ([numbers([10], 2)[i::3] for i in range(3)] if strategy == 'mod' else np.split(numbers([10], 2), [4, 7]))]
    x = tf.constant(numbers([4, 3], 3))
    labels = tf.constant([[1, 4], [0, 9], [5, 5], [7, 2]], tf.int64)
    values = (tf.constant([4, 3, 9, 0, 8], tf.int64), tf.constant(np.abs(numbers([4, 2], 4)) + 0.1), tf.constant(np.abs(numbers([5], 5)) + 0.1))
    out = {}
    for kind, fn in (('softmax', v1.nn.sampled_softmax_loss), ('nce', v1.nn.nce_loss)):
        loss = fn(tables, biases, labels, x, 5, 10, num_true=2, sampled_values=values, partition_strategy=strategy)
        gs = v1.gradients(loss * numbers([4], 99), [x] + tables)
        out[kind] = loss
        out[kind + '_dx'] = gs[0]
        out[kind + '_dw'] = tf.concat([tf.convert_to_tensor(g) for g in gs[1:]], 0)
    case('sampled_' + strategy, out)

y, p = tf.constant((numbers([4, 3], 1) > 0).astype(np.float32)), tf.constant(numbers([4, 3], 2, 2.0))
q = tf.nn.softmax(tf.constant(numbers([4, 3], 3)))
w = tf.constant(numbers([4, 1], 4))
L = v1.losses
onehot = tf.one_hot([0, 2, 1, 1], 3)
case('losses', {
    'mean_squared_error': L.mean_squared_error(y, p), 'absolute_difference': L.absolute_difference(y, p, w), 'huber_loss': L.huber_loss(y, p, w, delta=0.7),
    'hinge_loss': L.hinge_loss(y, p), 'log_loss': L.log_loss(y, q, w), 'sigmoid_cross_entropy': L.sigmoid_cross_entropy(y, p, w, label_smoothing=0.2),
    'softmax_cross_entropy': L.softmax_cross_entropy(onehot, p, label_smoothing=0.1), 'cosine_distance': L.cosine_distance(y, p, axis=-1),
    'sparse_softmax_cross_entropy': L.sparse_softmax_cross_entropy(tf.constant([0, 2, 1, 1]), p, weights=tf.constant([1.0, 0, 2, 1])),
    'kl_divergence': tf.reduce_mean(tf.keras.losses.kullback_leibler_divergence(tf.nn.softmax(p), q))})

M = v1.metrics
batches = [(numbers([8], k) > 0.1, numbers([8], k + 10) * 0.5 + 0.5, np.abs(numbers([8], k + 20))) for k in (1, 2, 3)]
py, pp, pw = v1.placeholder(tf.bool, [8]), v1.placeholder(tf.float32, [8]), v1.placeholder(tf.float32, [8])
ms = {'mean': M.mean(pp, pw), 'accuracy': M.accuracy(py, pp > 0.5), 'precision': M.precision(py, pp > 0.5, pw), 'recall': M.recall(py, pp > 0.5),
      'auc': M.auc(py, pp), 'auc_pr': M.auc(py, pp, pw, curve='PR', summation_method='trapezoidal'), 'mean_squared_error': M.mean_squared_error(tf.cast(py, tf.float32), pp)}
with v1.Session() as s:
    s.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
    for b in batches:
        s.run([m[1] for m in ms.values()], dict(zip((py, pp, pw), b)))
    r = s.run({k: m[0] for k, m in ms.items()})
results.append('  metrics = { %s },' % ', '.join('%s = %s' % (k, lua(r[k])) for k in sorted(r)))
v1.reset_default_graph()
