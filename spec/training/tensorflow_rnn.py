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
