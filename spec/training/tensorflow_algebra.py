# Part of tensorflow_layers.py: linear algebra, transforms, sorting and counting, with gradients by all float inputs.
def algebra(name, fn, *shapes, make=None):
    """fn of float64 numbers, its values and gradients; a list of results is weighted by 99, 100, …"""
    xs = [tf.constant((make or (lambda s, k: numbers(s, k)))(s, 1 + i).astype(np.float64)) for i, s in enumerate(shapes)]
    ys = fn(*xs)
    ys = list(ys) if isinstance(ys, (list, tuple)) else [ys]
    loss = sum(tf.reduce_sum(tf.cast(y, tf.float64) * numbers([int(d) for d in y.shape], 99 + i).astype(np.float64)) for i, y in enumerate(ys))
    out = {'y%d' % (i + 1): y for i, y in enumerate(ys)}
    for i, g in enumerate(v1.gradients(loss, xs)):
        if g is not None:
            out['d%d' % (i + 1)] = tf.convert_to_tensor(g)
    case('algebra_' + name, out)


def round_square(shape, k):
    """Numbers with a diagonal that makes a square matrix well conditioned."""
    a = numbers(shape, k)
    return a + 3 * np.eye(shape[-2], shape[-1]) if k == 1 else a


def symmetric(shape, k):
    a = numbers(shape, k)
    return a @ np.swapaxes(a, -1, -2) + (2 * np.eye(shape[-1]) if k == 1 else 0) if shape[-1] == shape[-2] else a


S = tf.linalg
A, B = [2, 3, 3], [2, 3, 2]
algebra('solve', S.solve, A, B, make=round_square)
algebra('solve_adjoint', lambda a, b: S.solve(a, b, adjoint=True), A, B, make=round_square)
algebra('triangular', S.triangular_solve, A, B, make=round_square)
algebra('triangular_upper', lambda a, b: S.triangular_solve(a, b, lower=False, adjoint=True), A, B, make=round_square)
algebra('cholesky', S.cholesky, A, make=symmetric)
algebra('cholesky_solve', lambda a, b: S.cholesky_solve(S.cholesky(a), b), A, B, make=symmetric)
algebra('inverse', S.inv, A, make=round_square)
algebra('determinant', S.det, A, make=round_square)
algebra('log_determinant', lambda a: list(S.slogdet(a)), A, make=round_square)
algebra('least_squares', lambda a, b: S.lstsq(a, b, l2_regularizer=0.1), [2, 4, 3], [2, 4, 2])
# Signs of vectors are free: only what does not depend on them
algebra('qr', lambda a: [x * x for x in S.qr(a)], [4, 3], make=round_square)
algebra('svd', lambda a: [S.svd(a)[0]] + [x * x for x in S.svd(a)[1:]], [4, 3], make=round_square)
algebra('eigenvalues', S.eigvalsh, A, make=symmetric)
algebra('eigenvectors', lambda a: S.eigh(a)[1] ** 2, A, make=symmetric)
algebra('tridiagonal', lambda d, x: S.tridiagonal_solve(d + tf.constant([[0.0], [4.0], [0.0]], tf.float64), x, diagonals_format='compact'), [3, 5], [5, 2])
algebra('band', lambda a: S.band_part(a, 1, 0), A)
for name, fn in (('fft', tf.signal.fft), ('ifft', tf.signal.ifft), ('fft2d', tf.signal.fft2d)):
    algebra(name, lambda re, im, fn=fn: (lambda z: [tf.math.real(z), tf.math.imag(z)])(fn(tf.complex(re, im))), [3, 5], [3, 5])
algebra('rfft', lambda x: (lambda z: [tf.math.real(z), tf.math.imag(z)])(tf.signal.rfft(x)), [3, 6])
algebra('irfft', lambda re, im: tf.signal.irfft(tf.complex(re, im)), [3, 4], [3, 4])
algebra('sort', lambda x: tf.sort(x, 0, 'DESCENDING'), [3, 5])
x = tf.constant(numbers([3, 5], 1))
case('sorted', {'order': tf.argsort(x, stable=True), 'down': tf.argsort(x, 0, 'DESCENDING', stable=True),
                'left': tf.searchsorted(tf.sort(x), tf.constant(numbers([3, 4], 2))), 'right': tf.searchsorted(tf.sort(x), tf.sort(x), side='right'),
                'histogram': tf.histogram_fixed_width(x, [-0.8, 0.9], 6),
                'count': v1.bincount(tf.constant([3, 1, 1, 7, 0, 3])), 'weighted': v1.bincount(tf.constant([3, 1, 1, 7]), weights=tf.constant(numbers([4], 3)), maxlength=6)})
