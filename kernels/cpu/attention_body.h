/* attention_body.h: attention of one float type. Included by attention.c with T, V (its vector), L (its lanes) and
 * S(f), f's name for it.
 */

/* ---- scores ----------------------------------------------------------------------------------------------------- */

/* to[rows][KEYS] = a[rows, depth] times the keys [j, j + n), which lie as they came or in panels. */
static void S(dots)(const attention *w, int64_t rows, int64_t depth, const T *a, const T *flat, const T *panels,
                    int64_t j, int64_t n, T *to) {
  enum { NR = 2 * L };
  if (!w->packs) {
    for (int64_t i = 0; i < rows; i++)
      S(dfk_gemm_dots)(n, depth, flat + j * depth, depth, a + i * depth, to + i * KEYS);
    return;
  }
  for (int64_t p = 0; p < n; p += NR)
    S(dfk_gemm_near)(rows, n - p < NR ? n - p : NR, depth, a, depth, 1, panels + (j + p) * depth, NR, to + p, KEYS,
                     false);
}

/* What is added to scores of row i, keys [j, j + n): s = scale s + that; -infinity where it is not allowed. */
static void S(masked)(const attention *w, int64_t mask, int64_t i, int64_t j, int64_t n, T *s) {
  const dfk_attention *a = &w->of;
  const T scale = (T)a->scale;
  for (int64_t p = 0; p < n; p++) s[p] *= scale;
  const int64_t at = mask + i * a->row_step + j * a->key_step;
  if (a->mask && a->mask->dtype == DF_BOOL) {
    const uint8_t *m = (const uint8_t *)a->mask->data + at;
    if (a->key_step) for (int64_t p = 0; p < n; p++) s[p] = m[p] ? s[p] : -(T)INFINITY;
    else if (!*m) for (int64_t p = 0; p < n; p++) s[p] = -(T)INFINITY;
  } else if (a->mask) {
    const T *m = (const T *)w->mask + at;
    if (a->key_step) for (int64_t p = 0; p < n; p++) s[p] += m[p];
    else for (int64_t p = 0; p < n; p++) s[p] += *m;
  }
  for (int64_t p = a->causal && i + 1 > j ? i + 1 - j : a->causal ? 0 : n; p < n; p++) s[p] = -(T)INFINITY;
}

/* ---- what weights mix ------------------------------------------------------------------------------------------- */

static bool S(all_finite)(const T *x, int64_t n) {
  V zero = S(splat)(0);
  int64_t p = 0;
  for (; p + L <= n; p += L) zero += S(load)(x + p) * 0;
  if (p < n) zero += S(load_part)(x + p, n - p, 0) * 0;
  return S(sum_lanes)(zero) == 0;
}

/* to[rows, columns] = or += a b, where what has the weight 0 is not there, were it NaN; else which numbers a query sees
 * would follow from how keys are cut. Element (i, p) of a lies at i ars + p acs; b[n, columns]. */
static void S(mix)(int64_t rows, int64_t columns, int64_t n, const T *a, int64_t ars, int64_t acs, const T *b, T *to,
                   bool add) {
  if (S(all_finite)(b, n * columns)) {
    S(dfk_gemm_near)(rows, columns, n, a, ars, acs, b, columns, to, columns, add);
    return;
  }
  if (!add) memset(to, 0, (size_t)(rows * columns) * sizeof *to);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t p = 0; p < n; p++) {
      const T weight = a[i * ars + p * acs];
      for (int64_t e = 0; e < columns && weight != 0; e++) to[i * columns + e] += weight * b[p * columns + e];
    }
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

/* s[n] = exp(s - top); returned: their sum. */
static T S(exp_row)(T *s, int64_t n, T top) {
  V sum = S(splat)(0), m = S(splat)(top);
  int64_t p = 0;
  for (; p + L <= n; p += L) {
    const V e = S(exp)(S(load)(s + p) - m);
    sum += e;
    S(store)(s + p, e);
  }
  if (p < n) {
    const V e = S(exp)(S(load_part)(s + p, n - p, top) - m);
    sum += S(keep)(e, n - p);
    S(store_some)(s + p, e, n - p);
  }
  return S(sum_lanes)(sum);
}
static T S(top_of)(const T *s, int64_t n) {
  V m = S(splat)(-(T)INFINITY);
  int64_t p = 0;
  for (; p + L <= n; p += L) m = S(greater)(m, S(load)(s + p));
  if (p < n) m = S(greater)(m, S(load_part)(s + p, n - p, -(T)INFINITY));
  return S(max_lanes)(m);
}

/* Pieces: matrix t / w->pieces, queries (t % w->pieces) ROWS on. */
static void S(forward)(void *arg, int64_t begin, int64_t end) {
  const attention *w = arg;
  const dfk_attention *a = &w->of;
  T s[ROWS * KEYS] __attribute__((aligned(64))), top[ROWS], sum[ROWS];
  for (int64_t t = begin; t < end; t++) {
    const int64_t b = t / w->pieces, i0 = t % w->pieces * ROWS, rows = a->queries - i0 < ROWS ? a->queries - i0 : ROWS;
    const int64_t row = b * a->queries + i0, mask = a->mask ? dfk_attention_mask_at(a, b) : 0,
                  seen = dfk_attention_seen(a, i0 + rows);
    const T *q = (const T *)w->q + row * a->depth, *v = (const T *)w->v + b * a->keys * a->width;
    T *y = (T *)w->y + row * a->width;
    for (int64_t i = 0; i < rows; i++) { top[i] = -(T)INFINITY; sum[i] = 0; }
    if (!seen) memset(y, 0, (size_t)(rows * a->width) * sizeof *y);
    for (int64_t j = 0; j < seen; j += KEYS) {
      const int64_t n = seen - j < KEYS ? seen - j : KEYS;
      S(dots)(w, rows, a->depth, q, (const T *)w->k + b * a->keys * a->depth,
              (const T *)w->k_panels + b * w->panel_keys * a->depth, j, n, s);
      for (int64_t i = 0; i < rows; i++) {
        T *of = s + i * KEYS;
        S(masked)(w, mask, i0 + i, j, n, of);
        const T was = top[i], best = S(top_of)(of, n);
        top[i] = best > was || best != best ? best : was;
        const T base = top[i] == -(T)INFINITY ? 0 : top[i];
        const T shrink = was == -(T)INFINITY ? 0 : S(exp_of)(was - base);
        sum[i] = sum[i] * shrink + S(exp_row)(of, n, base);
        if (shrink == 0) memset(y + i * a->width, 0, (size_t)a->width * sizeof *y);
        else if (shrink != 1 && j) for (int64_t e = 0; e < a->width; e++) y[i * a->width + e] *= shrink;
      }
      S(mix)(rows, a->width, n, s, KEYS, 1, v + j * a->width, y, j > 0);
    }
    for (int64_t i = 0; i < rows; i++) {
      const T over = sum[i] == 0 ? 0 : 1 / sum[i];
      ((T *)w->sums)[row + i] = sum[i] == 0 ? (T)INFINITY : top[i] + S(log_of)(sum[i]);
      if (sum[i] == 0) memset(y + i * a->width, 0, (size_t)a->width * sizeof *y);
      else for (int64_t e = 0; e < a->width; e++) y[i * a->width + e] *= over;
    }
  }
}

/* Panels of keys and, for what goes back, of values: blocks of 2 L keys, matrix by matrix. */
static void S(pack)(void *arg, int64_t begin, int64_t end) {
  const attention *w = arg;
  const dfk_attention *a = &w->of;
  enum { NR = 2 * L };
  const int64_t blocks = w->panel_keys / NR;
  for (int64_t t = begin; t < end; t++) {
    const int64_t b = t / blocks, j = t % blocks * NR, n = a->keys - j < NR ? a->keys - j : NR;
    const int64_t from = b * a->keys + j, to = b * w->panel_keys + j;
    S(dfk_gemm_transpose)(n, a->depth, (const T *)w->k + from * a->depth, a->depth, (T *)w->k_panels + to * a->depth,
                          NR);
    if (w->v_panels)
      S(dfk_gemm_transpose)(n, a->width, (const T *)w->v + from * a->width, a->width, (T *)w->v_panels + to * a->width,
                            NR);
  }
}

/* ---- backward --------------------------------------------------------------------------------------------------- */

/* Of one block: p = exp(scores - sums), ds = scale p (dy v^T - delta), 0 where p is. */
static void S(block)(const attention *w, int64_t b, int64_t i0, int64_t rows, int64_t j, int64_t n, T *p, T *ds) {
  const dfk_attention *a = &w->of;
  const int64_t row = b * a->queries + i0, keys = b * a->keys, panel = b * w->panel_keys,
                mask = a->mask ? dfk_attention_mask_at(a, b) : 0;
  const T scale = (T)a->scale;
  S(dots)(w, rows, a->depth, (const T *)w->q + row * a->depth, (const T *)w->k + keys * a->depth,
          (const T *)w->k_panels + panel * a->depth, j, n, p);
  S(dots)(w, rows, a->width, (const T *)w->dy + row * a->width, (const T *)w->v + keys * a->width,
          (const T *)w->v_panels + panel * a->width, j, n, ds);
  for (int64_t i = 0; i < rows; i++) {
    T *to = ds + i * KEYS, *of = p + i * KEYS;
    S(masked)(w, mask, i0 + i, j, n, of);
    S(exp_row)(of, n, ((const T *)w->sums)[row + i]);
    const T delta = ((const T *)w->delta)[row + i];
    for (int64_t e = 0; e < n; e++) to[e] = of[e] == 0 ? 0 : scale * of[e] * (to[e] - delta);
  }
}

/* The blocks of queries from i0 on and keys from j0 on, keys outside; what is asked for is added up. */
static void S(blocks)(const attention *w, int64_t b, int64_t i0, int64_t i1, int64_t j0, int64_t j1, bool queries,
                      bool keys) {
  const dfk_attention *a = &w->of;
  T p[ROWS * KEYS] __attribute__((aligned(64))), ds[ROWS * KEYS] __attribute__((aligned(64)));
  const T *q = (const T *)w->q + b * a->queries * a->depth, *dy = (const T *)w->dy + b * a->queries * a->width,
          *k = (const T *)w->k + b * a->keys * a->depth;
  T *dq = (T *)w->dq + b * a->queries * a->depth, *dk = (T *)w->dk + b * a->keys * a->depth,
    *dv = (T *)w->dv + b * a->keys * a->width;
  for (int64_t j = j0; j < j1; j += KEYS)
    for (int64_t i = a->causal && j > i0 ? j / ROWS * ROWS : i0; i < i1; i += ROWS) {
      const int64_t rows = i1 - i < ROWS ? i1 - i : ROWS, seen = dfk_attention_seen(a, i + rows);
      const int64_t end = seen < j1 ? seen : j1, n = end - j < KEYS ? end - j : KEYS;       /* in any block */
      S(block)(w, b, i, rows, j, n, p, ds);
      if (queries)
        S(mix)(rows, a->depth, n, ds, KEYS, 1, k + j * a->depth, dq + i * a->depth, true);
      if (!keys) continue;
      S(mix)(n, a->width, rows, p, 1, KEYS, dy + i * a->width, dv + j * a->width, true);
      S(mix)(n, a->depth, rows, ds, 1, KEYS, q + i * a->depth, dk + j * a->depth, true);
    }
}

/* Whole matrices; or the blocks of their queries, then those of their keys, each of which computes the scores again:
 * the sums are the same. */
static void S(matrices_back)(void *arg, int64_t begin, int64_t end) {
  const attention *w = arg;
  for (int64_t b = begin; b < end; b++) S(blocks)(w, b, 0, w->of.queries, 0, w->of.keys, true, true);
}
static void S(queries_back)(void *arg, int64_t begin, int64_t end) {
  const attention *w = arg;
  for (int64_t t = begin; t < end; t++) {
    const int64_t i = t % w->pieces * ROWS, to = i + ROWS < w->of.queries ? i + ROWS : w->of.queries;
    S(blocks)(w, t / w->pieces, i, to, 0, dfk_attention_seen(&w->of, to), true, false);
  }
}
static void S(keys_back)(void *arg, int64_t begin, int64_t end) {
  const attention *w = arg;
  const int64_t pieces = (w->of.keys + KEYS - 1) / KEYS;
  for (int64_t t = begin; t < end; t++) {
    const int64_t j = t % pieces * KEYS, to = j + KEYS < w->of.keys ? j + KEYS : w->of.keys;
    S(blocks)(w, t / pieces, 0, w->of.queries, j, to, false, true);
  }
}
#undef T
#undef V
#undef L
#undef S
