"""Makes spec/training/optimizer_values.lua.gz: 100 steps of TensorFlow 2.15's v1 optimizers and of PyTorch's, dense and sparse.

    python spec/training/optimizers_peers.py tensorflow > a; python spec/training/optimizers_peers.py torch > b
    (echo 'return {'; cat a b; echo '}') | gzip -9n > spec/training/optimizer_values.lua.gz

The loss is that of optimizers_spec.lua: sum((w * x - y) ^ 2) with w float64[3, 2]; sparse: the same of rows 2, 0, 2 of w.
Each entry: name, arguments, dense or sparse, who, rows of w after 100 steps.
"""
import sys
W = [[1.0, 2.0], [3.0, -1.0], [0.5, 0.25]]
X = [[0.5, -1.0], [2.0, 1.5], [1.0, 0.3]]
Y = [[1.0, 0.0], [-1.0, 2.0], [0.5, -0.5]]
ROWS = [2, 0, 2]
STEPS = 100
CASES = [
  ('SGD', '{ learning_rate = 0.02 }', 'GradientDescentOptimizer', dict(learning_rate=0.02)),
  ('Momentum', '{ learning_rate = 0.02, momentum = 0.8 }', 'MomentumOptimizer', dict(learning_rate=0.02, momentum=0.8)),
  ('Nesterov', '{ learning_rate = 0.02, momentum = 0.8 }', 'MomentumOptimizer', dict(learning_rate=0.02, momentum=0.8, use_nesterov=True)),
  ('Adagrad', '{ learning_rate = 0.1 }', 'AdagradOptimizer', dict(learning_rate=0.1)),
  ('Adadelta', '{ learning_rate = 1.0, rho = 0.9, epsilon = 1e-6 }', 'AdadeltaOptimizer', dict(learning_rate=1.0, rho=0.9, epsilon=1e-6)),
  ('Adadelta', '{}', 'AdadeltaOptimizer', dict()),
  ('RMSProp', '{ learning_rate = 0.02 }', 'RMSPropOptimizer', dict(learning_rate=0.02)),
  ('RMSProp', '{ learning_rate = 0.02, decay = 0.8, momentum = 0.5, centered = true, epsilon = 1e-3 }', 'RMSPropOptimizer',
   dict(learning_rate=0.02, decay=0.8, momentum=0.5, centered=True, epsilon=1e-3)),
  ('Ftrl', '{ learning_rate = 0.2 }', 'FtrlOptimizer', dict(learning_rate=0.2)),
  ('Ftrl', '{ learning_rate = 0.2, l1 = 0.1, l2 = 0.2, learning_rate_power = -0.6 }', 'FtrlOptimizer',
   dict(learning_rate=0.2, l1_regularization_strength=0.1, l2_regularization_strength=0.2, learning_rate_power=-0.6)),
  ('Ftrl', '{ learning_rate = 0.2, l2_shrinkage = 0.1 }', 'FtrlOptimizer', dict(learning_rate=0.2, l2_shrinkage_regularization_strength=0.1)),
  ('Adam', '{ learning_rate = 0.1 }', 'AdamOptimizer', dict(learning_rate=0.1)),
  ('Adam', '{ learning_rate = 0.1, beta1 = 0.8, beta2 = 0.95, epsilon = 1e-2 }', 'AdamOptimizer',
   dict(learning_rate=0.1, beta1=0.8, beta2=0.95, epsilon=1e-2)),
  ('Nadam', '{ learning_rate = 0.1 }', 'NadamOptimizer', dict(learning_rate=0.1)),
]
TORCH = [
  ('SGD', '{ learning_rate = 0.02 }', 'SGD', dict(lr=0.02)),
  ('Momentum', '{ learning_rate = 0.02, momentum = 0.8 }', 'SGD', dict(lr=0.02, momentum=0.8)),
  ('Nesterov', '{ learning_rate = 0.02, momentum = 0.8 }', 'SGD', dict(lr=0.02, momentum=0.8, nesterov=True)),
  ('AdamW', '{ learning_rate = 0.1 }', 'AdamW', dict(lr=0.1, weight_decay=0.01)),
  ('AdamW', '{ learning_rate = 0.1, weight_decay = 0.3, beta1 = 0.8, beta2 = 0.95, epsilon = 1e-2 }', 'AdamW',
   dict(lr=0.1, weight_decay=0.3, betas=(0.8, 0.95), eps=1e-2)),
  ('Adagrad', '{ learning_rate = 0.1, initial_accumulator = 0.3 }', 'Adagrad', dict(lr=0.1, initial_accumulator_value=0.3, eps=0.0)),
  ('Adadelta', '{ learning_rate = 1.0, rho = 0.9, epsilon = 1e-6 }', 'Adadelta', dict(lr=1.0, rho=0.9, eps=1e-6)),
]

def line(name, args, kind, who, w):
    rows = ', '.join('{ %s }' % ', '.join('%.17g' % v for v in row) for row in w)
    print("  { '%s', %s, '%s', '%s', { %s } }," % (name, args, kind, who, rows))

if sys.argv[1] == 'tensorflow':
    import numpy as np, tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()

    class NadamOptimizer(tf.train.AdamOptimizer):
        """contrib's, which TensorFlow 2 left out: its op is still there."""
        def _resource_apply_dense(self, grad, var):
            m, v, powers = self.get_slot(var, 'm'), self.get_slot(var, 'v'), self._get_beta_accumulators()
            cast = [tf.cast(x, grad.dtype) for x in (*powers, self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t)]
            return tf.raw_ops.ResourceApplyAdam(var=var.handle, m=m.handle, v=v.handle, beta1_power=cast[0], beta2_power=cast[1], lr=cast[2],
                                                beta1=cast[3], beta2=cast[4], epsilon=cast[5], grad=grad, use_nesterov=True)
    for name, args, cls, kw in CASES:
        for kind in ('dense', 'sparse') if cls != 'NadamOptimizer' else ('dense',):
            with tf.Graph().as_default(), tf.Session() as s:
                w = tf.get_variable('w', initializer=tf.constant(W, tf.float64), use_resource=True)
                x, y = tf.constant(X, tf.float64), tf.constant(Y, tf.float64)
                if kind == 'dense': loss = tf.reduce_sum((w * x - y) ** 2)
                else: loss = tf.reduce_sum((tf.gather(w, ROWS) * x - y) ** 2)
                step = (NadamOptimizer if cls == 'NadamOptimizer' else getattr(tf.train, cls))(**kw).minimize(loss)
                s.run(tf.global_variables_initializer())
                for _ in range(STEPS): s.run(step)
                line(name, args, kind, 'TensorFlow', s.run(w))
else:
    import torch
    for name, args, cls, kw in TORCH:
        w = torch.tensor(W, dtype=torch.float64, requires_grad=True)
        x, y = torch.tensor(X, dtype=torch.float64), torch.tensor(Y, dtype=torch.float64)
        o = getattr(torch.optim, cls)([w], **kw)
        for _ in range(STEPS):
            o.zero_grad()
            ((w * x - y) ** 2).sum().backward()
            o.step()
        line(name, args, 'dense', 'PyTorch', w.tolist())
