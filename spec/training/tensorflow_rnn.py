# Part of tensorflow_layers.py: recurrent cells and the loops around them.
cell_of = {
    'rnn': lambda: v1.nn.rnn_cell.BasicRNNCell(4),
    'lstm': lambda: v1.nn.rnn_cell.LSTMCell(4),
    'peepholes': lambda: v1.nn.rnn_cell.LSTMCell(4, use_peepholes=True, num_proj=3, cell_clip=0.5, proj_clip=0.4, forget_bias=0.5),
    'gru': lambda: v1.nn.rnn_cell.GRUCell(4),
}
for name in sorted(cell_of):
    cell = cell_of[name]()
    x = tf.constant(numbers([3, 5, 2], 1))
    y, state = v1.nn.dynamic_rnn(cell, x, sequence_length=[5, 2, 0], dtype=tf.float32)
    vs = v1.trainable_variables()
    gs = grads(y, [x] + vs)
    out = {'y': y, 'dx': gs[0]}
    for v, g in zip(vs, gs[1:]):
        short = v.name.split(':')[0].replace('rnn/', '').split('_cell/')[1].replace('/', '_').replace('gates_', 'gate_')
        out['d_' + short] = tf.reduce_sum(g * numbers([int(d) for d in g.shape], 98))
    if isinstance(state, tuple):
        out['c'], out['h'] = state.c, state.h
    else:
        out['h'] = state
    case('cell_' + name, out, [(v, numbers([int(d) for d in v.shape], 20 + i, 0.5)) for i, v in enumerate(vs)])

fw, bw = v1.nn.rnn_cell.GRUCell(3), v1.nn.rnn_cell.LSTMCell(3)
x = tf.constant(numbers([2, 4, 2], 1))
(yf, yb), (sf, sb) = v1.nn.bidirectional_dynamic_rnn(fw, bw, x, sequence_length=[4, 2], dtype=tf.float32)
vs = v1.trainable_variables()
case('bidirectional', {'fw': yf, 'bw': yb, 'sf': sf, 'sb': sb.h}, [(v, numbers([int(d) for d in v.shape], 20 + i, 0.5)) for i, v in enumerate(vs)])

# A hundred steps of training: the losses of some of them.
x, goal = tf.constant(numbers([4, 6, 3], 1)), tf.constant(numbers([4, 2], 2))
y, state = v1.nn.dynamic_rnn(v1.nn.rnn_cell.LSTMCell(5), x, sequence_length=[6, 3, 1, 5], dtype=tf.float32)
normal = v1.layers.BatchNormalization()
out = v1.layers.Dense(2)(normal(state.h, training=True))
loss = v1.losses.mean_squared_error(goal, out)
train = v1.train.AdamOptimizer(0.01).minimize(loss)
with v1.Session() as s:
    s.run(v1.global_variables_initializer())
    vs = [v for v in v1.trainable_variables() if 'gamma' not in v.name and 'beta' not in v.name]
    for i, v in enumerate(vs):
        v.load(numbers([int(d) for d in v.shape], 20 + i, 0.5), s)
    losses = [s.run([loss, train])[0] for _ in range(100)]
results.append('  training = { %s },' % ', '.join('%.7g' % losses[i] for i in (0, 1, 9, 49, 99)))
v1.reset_default_graph()
