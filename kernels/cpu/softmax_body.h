/* softmax_body.h: rows of one float type. Included by nn.c with T, V (its vector), L (its lanes) and S(f), f's name for it.
 * The last, partial vector of a row is treated like a whole one, so a row's result does not depend on where it lies.
 */

/* y = exp(x - top), returned: its sum; *top_out: the greatest. y may be x. */
static T S(exp_row)(const T *x, T *y, int64_t n, T *top_out) {
  int64_t i, rest = n % L;
  V m = S(splat)(-INFINITY), a = S(splat)(0);
  for (i = 0; i < n - rest; i += L) m = S(max)(m, S(load)(x + i));
  if (rest) m = S(max)(m, S(load_part)(x + i, rest, -INFINITY));
  T top = S(max_lanes)(m);
  *top_out = top;
  m = S(splat)(top);
  for (i = 0; i < n - rest; i += L) {
    V e = S(exp)(S(load)(x + i) - m);
    a += e;
    S(store)(y + i, e);
  }
  if (rest) {
    V e = S(exp)(S(load_part)(x + i, rest, -INFINITY) - m);
    T part[L];
    S(store)(part, e);
    S(store_some)(y + i, e, rest);
    for (int64_t j = 0; j < L; j++) if (j >= rest) part[j] = 0;    /* a row of -inf is NaN there too */
    a += S(load)(part);
  }
  return S(sum_lanes)(a);
}

/* The sum of exp(x - top) without keeping the terms. */
static T S(exp_sum)(const T *x, int64_t n, T *top_out) {
  int64_t i, rest = n % L;
  V m = S(splat)(-INFINITY), a = S(splat)(0);
  for (i = 0; i < n - rest; i += L) m = S(max)(m, S(load)(x + i));
  if (rest) m = S(max)(m, S(load_part)(x + i, rest, -INFINITY));
  T top = S(max_lanes)(m);
  *top_out = top;
  m = S(splat)(top);
  for (i = 0; i < n - rest; i += L) a += S(exp)(S(load)(x + i) - m);
  if (rest) a += S(exp)(S(load_part)(x + i, rest, -INFINITY) - m);
  return S(sum_lanes)(a);
}

static void S(softmax_rows)(void *arg, int64_t begin, int64_t end) {
  const rows *s = (const rows *)arg;
  int64_t n = s->n;
  for (int64_t r = begin; r < end; r++) {
    const T *x = (const T *)s->x + r * n;
    T *y = (T *)s->y + r * n, top;
    T scale = 1 / S(exp_row)(x, y, n, &top);
    for (int64_t i = 0; i < n; i++) y[i] *= scale;
  }
}

static void S(log_softmax_rows)(void *arg, int64_t begin, int64_t end) {
  const rows *s = (const rows *)arg;
  int64_t n = s->n;
  for (int64_t r = begin; r < end; r++) {
    const T *x = (const T *)s->x + r * n;
    T *y = (T *)s->y + r * n, top;
    T logarithm = (T)log(S(exp_sum)(x, n, &top));
    for (int64_t i = 0; i < n; i++) y[i] = x[i] - top - logarithm;
  }
}

/* y may be x, never the labels. loss = sum(label) log(sum) - sum(label (x - top)). */
static void S(xent_rows)(void *arg, int64_t begin, int64_t end) {
  const rows *s = (const rows *)arg;
  int64_t n = s->n, i, rest = n % L;
  for (int64_t r = begin; r < end; r++) {
    const T *x = (const T *)s->x + r * n, *label = (const T *)s->labels + r * n;
    T *y = (T *)s->y + r * n, part[L];
    V m = S(splat)(-INFINITY), sum = S(splat)(0), labels = sum, dot = sum;
    for (i = 0; i < n - rest; i += L) m = S(max)(m, S(load)(x + i));
    if (rest) m = S(max)(m, S(load_part)(x + i, rest, -INFINITY));
    T top = S(max_lanes)(m);
    m = S(splat)(top);
    for (i = 0; i < n - rest; i += L) {
      V v = S(load)(x + i) - m, l = S(load)(label + i), e = S(exp)(v);
      sum += e;
      labels += l;
      dot += l * v;
      S(store)(y + i, e);
    }
    if (rest) {
      V v = S(load_part)(x + i, rest, top) - m, l = S(load_part)(label + i, rest, 0), e = S(exp)(v);
      S(store)(part, e);
      for (int64_t j = 0; j < L; j++) if (j >= rest) part[j] = 0;
      sum += S(load)(part);
      labels += l;
      S(store)(part, l * v);
      for (int64_t j = 0; j < L; j++) if (j >= rest) part[j] = 0;    /* an infinite top makes 0 NaN there */
      dot += S(load)(part);
      S(store_some)(y + i, e, rest);
    }
    T total = S(sum_lanes)(sum), scale = 1 / total;
    ((T *)s->loss)[r] = S(sum_lanes)(labels) * (T)log(total) - S(sum_lanes)(dot);
    for (i = 0; i < n; i++) y[i] = y[i] * scale - label[i];
  }
}

static void S(sparse_rows)(void *arg, int64_t begin, int64_t end) {
  const rows *s = (const rows *)arg;
  int64_t n = s->n;
  for (int64_t r = begin; r < end; r++) {
    const T *x = (const T *)s->x + r * n;
    T *y = (T *)s->y + r * n, top;
    int64_t label = dfk_index(s->ids, r);
    T chosen = x[label], sum = S(exp_row)(x, y, n, &top), scale = 1 / sum;
    ((T *)s->loss)[r] = (T)log(sum) - (chosen - top);
    for (int64_t i = 0; i < n; i++) y[i] *= scale;
    y[label] -= 1;
  }
}

/* Sum of squares of pieces of PIECE elements. */
static void S(square_pieces)(void *arg, int64_t begin, int64_t end) {
  const rows *s = (const rows *)arg;
  for (int64_t p = begin; p < end; p++) {
    const T *x = (const T *)s->x + p * PIECE;
    int64_t n = s->n - p * PIECE < PIECE ? s->n - p * PIECE : PIECE, i = 0;
    V a = S(splat)(0), b = a, c = a, d = a;
    for (; i + 4 * L <= n; i += 4 * L) {
      V p0 = S(load)(x + i), p1 = S(load)(x + i + L), p2 = S(load)(x + i + 2 * L), p3 = S(load)(x + i + 3 * L);
      a += p0 * p0;
      b += p1 * p1;
      c += p2 * p2;
      d += p3 * p3;
    }
    T sum = S(sum_lanes)((a + b) + (c + d));
    for (; i < n; i++) sum += x[i] * x[i];
    ((double *)s->y)[p] = sum;
  }
}
#undef T
#undef V
#undef L
#undef S
