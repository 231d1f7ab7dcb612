/* einsum.c: einsum as a chain of matrix products.
 *
 * Inputs are folded from the left: each step multiplies what there is so far with the next input, summing the labels
 * that are no longer needed. A step is a batch of matrix products: labels of both sides that are kept make the batch,
 * those that are summed the inner dimension, those of one side its rows or columns. A side is copied only when its axes
 * do not lie in such an order. Axes of size 1 are dropped from a side, which makes their broadcasting nothing special.
 */
#include "../linalg.h"
#include "../half.h"
#include "../move.h"
#include "gemm.h"
#include <string.h>

enum { LABELS = DFK_EINSUM_LABELS };

/* A strided array with a label per axis; no label twice. */
typedef struct term {
  const char *data;
  void       *owned;         /* freed with the term; NULL when borrowed */
  int32_t     rank;
  int8_t      label[LABELS];
  int64_t     dim[LABELS], stride[LABELS];
} term;

typedef struct work { df_kernel *k; int32_t dtype; int64_t width; } work;

static int32_t find(const term *t, int32_t label) {
  for (int32_t i = 0; i < t->rank; i++) if (t->label[i] == label) return i;
  return -1;
}

static int64_t size_of(const term *t) {
  int64_t n = 1;
  for (int32_t i = 0; i < t->rank; i++) n *= t->dim[i];
  return n;
}

static void drop(term *t) {
  dfk_free(t->owned);
  t->owned = NULL;
}

/* An input: its repeated labels become one axis along the diagonal, its axes of size 1 none. */
static term term_of(const df_tensor *x, const void *data, const int8_t *label) {
  term t = { .data = (const char *)data };
  int64_t stride = 1;
  for (int32_t a = x->rank - 1; a >= 0; stride *= x->dims[a--]) {
    if (x->dims[a] == 1) continue;
    int32_t at = find(&t, label[a]);
    if (at >= 0) { t.stride[at] += stride; continue; }
    memmove(t.label + 1, t.label, (size_t)t.rank);
    memmove(t.dim + 1, t.dim, (size_t)t.rank * 8);
    memmove(t.stride + 1, t.stride, (size_t)t.rank * 8);
    t.label[0] = label[a];
    t.dim[0] = x->dims[a];
    t.stride[0] = stride;
    t.rank++;
  }
  return t;
}

/* Do the axes lie row-major in this order of labels? */
static bool lies(const term *t, const int8_t *order, int32_t n) {
  int64_t stride = 1;
  for (int32_t i = n - 1; i >= 0; i--) {
    int32_t a = find(t, order[i]);
    if (t->stride[a] != stride) return false;
    stride *= t->dim[a];
  }
  return true;
}

/* One row of a strided walk: `sum` adds to the rows already there. */
#define ROW(T)                                                                                                     \
  {                                                                                                                \
    const T *f = (const T *)from;                                                                                  \
    T *t = (T *)to;                                                                                                \
    if (sum) for (int64_t i = 0; i < n; i++) t[i * ts] += f[i * fs];                                               \
    else     for (int64_t i = 0; i < n; i++) t[i * ts] = f[i * fs];                                                \
  }
static void row(int32_t dtype, const char *from, int64_t fs, char *to, int64_t ts, int64_t n, bool sum) {
  switch (dtype) {
    case DF_FLOAT32: ROW(float) break;
    case DF_FLOAT64: ROW(double) break;
    case DF_INT32:   ROW(uint32_t) break;
    default:         ROW(uint64_t) break;
  }
}

/* A copy is any transpose's. */
static void move(const work *w, const char *from, char *to, int32_t rank, const int64_t *dim, const int64_t *step,
                 const int64_t *stride) {
  const df_tensor there = { .dtype = (uint8_t)w->dtype, .data = (void *)(uintptr_t)from };
  df_tensor here = { .dtype = (uint8_t)w->dtype, .data = to };
  dfk_box box = { .rank = rank };
  memcpy(box.dims, dim, sizeof *dim * (size_t)rank);
  memcpy(box.to, step, sizeof *step * (size_t)rank);
  memcpy(box.from, stride, sizeof *stride * (size_t)rank);
  dfk_move(w->k, &here, 0, &there, 0, &box);
}

/* Copies t into `to`, row-major in `order`; the labels of t that are not in the order are summed. */
static void arrange(const work *w, const term *t, const int8_t *order, int32_t n, char *to) {
  int64_t dim[LABELS], from[LABELS], step[LABELS], at[LABELS] = { 0 }, stride = 1, count = 1, total = 1;
  int32_t rank = 0;
  bool sum = false;
  for (int32_t a = 0; a < t->rank; a++) {                      /* summed axes first: the slowest */
    bool kept = false;
    for (int32_t i = 0; i < n; i++) kept |= order[i] == t->label[a];
    if (kept) continue;
    dim[rank] = t->dim[a];
    from[rank] = t->stride[a];
    step[rank++] = 0;
    sum = true;
  }
  int32_t first = rank;
  for (int32_t i = 0; i < n; i++) {
    int32_t a = find(t, order[i]);
    dim[rank] = t->dim[a];
    from[rank++] = t->stride[a];
  }
  for (int32_t a = rank - 1; a >= first; a--) {
    step[a] = stride;
    stride *= dim[a];
  }
  for (int32_t a = 0; a < rank; a++) total *= dim[a];
  if (sum) memset(to, 0, (size_t)(stride * w->width));
  if (total == 0) return;
  if (rank == 0) {
    memcpy(to, t->data, (size_t)w->width);
    return;
  }
  if (!sum && rank <= DFK_MOVE_RANK) {
    move(w, t->data, to, rank, dim, step, from);
    return;
  }
  int32_t inner = rank - 1;
  for (int32_t a = 0; a < inner; a++) count *= dim[a];
  for (int64_t i = 0; i < count; i++) {
    int64_t f = 0, o = 0;
    for (int32_t a = 0; a < inner; a++) { f += at[a] * from[a]; o += at[a] * step[a]; }
    row(w->dtype, t->data + f * w->width, from[inner], to + o * w->width, step[inner], dim[inner], sum);
    for (int32_t a = inner - 1; a >= 0; a--) {
      if (++at[a] < dim[a]) break;
      at[a] = 0;
    }
  }
}

/* Makes t row-major in `order`, summing what is not in it. DF_OK or DF_RESOURCE_EXHAUSTED. */
static int32_t settle(const work *w, term *t, const int8_t *order, int32_t n) {
  if (n == t->rank && lies(t, order, n)) return DF_OK;
  term r = { .rank = n };
  int64_t stride = 1;
  for (int32_t i = n - 1; i >= 0; i--) {
    r.label[i] = order[i];
    r.dim[i] = t->dim[find(t, order[i])];
    r.stride[i] = stride;
    stride *= r.dim[i];
  }
  r.owned = dfk_scratch(w->k, stride * w->width + 8);
  if (!r.owned) return DF_RESOURCE_EXHAUSTED;
  arrange(w, t, order, n, (char *)r.owned);
  r.data = (const char *)r.owned;
  drop(t);
  *t = r;
  return DF_OK;
}

/* Sums out the labels of t that neither the other side nor anything later has. */
static int32_t forget(const work *w, term *t, const term *other, const bool *needed) {
  int8_t keep[LABELS];
  int32_t n = 0;
  for (int32_t a = 0; a < t->rank; a++)
    if (needed[(int)t->label[a]] || find(other, t->label[a]) >= 0) keep[n++] = t->label[a];
  return n == t->rank ? DF_OK : settle(w, t, keep, n);
}

/* Products without a sum: c[b, i, j] = x[b, i] y[b, j]. */
#define OUTER(T)                                                                                                    \
  for (int64_t b = 0; b < count; b++)                                                                               \
    for (int64_t i = 0; i < m; i++) {                                                                               \
      const T *p = (const T *)x + b * m + i, *q = (const T *)y + b * n;                                             \
      T *restrict r = (T *)c + (b * m + i) * n;                                                                     \
      for (int64_t j = 0; j < n; j++) r[j] = *p * q[j];                                                             \
    }
static void outer(int32_t dtype, int64_t count, int64_t m, int64_t n, const char *x, const char *y, char *c) {
  switch (dtype) {
    case DF_FLOAT32: OUTER(float) break;
    case DF_FLOAT64: OUTER(double) break;
    case DF_INT32:   OUTER(uint32_t) break;
    default:         OUTER(uint64_t) break;
  }
}

static int32_t append(int8_t *to, int32_t n, const int8_t *from, int32_t count) {
  memcpy(to + n, from, (size_t)count);
  return n + count;
}

/* x := x y, with the labels that are needed. Both are used up. */
static int32_t multiply(const work *w, term *x, term *y, const bool *needed) {
  int8_t batch[LABELS], left[LABELS], right[LABELS], inner[LABELS], order[LABELS];
  int32_t nb = 0, nl = 0, nr = 0, ni = 0;
  int64_t count = 1, m = 1, n = 1, k = 1;
  int32_t code = forget(w, x, y, needed);
  if (!code) code = forget(w, y, x, needed);
  for (int32_t a = 0; a < x->rank && !code; a++) {
    int8_t l = x->label[a];
    bool both = find(y, l) >= 0;
    if (both && needed[(int)l]) { batch[nb++] = l; count *= x->dim[a]; }
    else if (both) { inner[ni++] = l; k *= x->dim[a]; }
    else { left[nl++] = l; m *= x->dim[a]; }
  }
  for (int32_t a = 0; a < y->rank && !code; a++)
    if (find(x, y->label[a]) < 0) { right[nr++] = y->label[a]; n *= y->dim[a]; }

  gemm g = { .m = m, .n = n, .k = k, .lda = k, .ldb = n, .ldc = n };
  int32_t rank = append(order, append(order, append(order, 0, batch, nb), inner, ni), left, nl);
  if (!code && nl && ni && lies(x, order, rank)) {
    g.a_t = true;
    g.lda = m;
  } else if (!code) {
    rank = append(order, append(order, append(order, 0, batch, nb), left, nl), inner, ni);
    code = settle(w, x, order, rank);
  }
  rank = append(order, append(order, append(order, 0, batch, nb), right, nr), inner, ni);
  if (!code && nr && ni && lies(y, order, rank)) {
    g.b_t = true;
    g.ldb = k;
  } else if (!code) {
    rank = append(order, append(order, append(order, 0, batch, nb), inner, ni), right, nr);
    code = settle(w, y, order, rank);
  }

  term r = { .rank = append(order, append(order, append(order, 0, batch, nb), left, nl), right, nr) };
  int64_t stride = 1;
  for (int32_t i = r.rank - 1; i >= 0 && !code; i--) {
    const term *from = find(x, order[i]) >= 0 ? x : y;
    r.label[i] = order[i];
    r.dim[i] = from->dim[find(from, order[i])];
    r.stride[i] = stride;
    stride *= r.dim[i];
  }
  int64_t *at = NULL;
  if (!code &&
      (!(r.owned = dfk_scratch(w->k, stride * w->width + 8)) || !(at = (int64_t *)dfk_scratch(w->k, count * 16 + 8))))
    code = DF_RESOURCE_EXHAUSTED;
  r.data = (const char *)r.owned;
  if (!code && ni == 0) {
    outer(w->dtype, count, m, n, x->data, y->data, (char *)r.owned);
  } else if (!code) {
    for (int64_t i = 0; i < count; i++) { at[i] = i * m * k; at[count + i] = i * k * n; }
    code = dfk_gemm_batch(w->k, &g, w->dtype, count, x->data, at, y->data, at + count, r.owned);
  }
  dfk_free(at);
  drop(x);
  drop(y);
  *x = r;
  return code;
}

/* Labels as bits of what the output and the inputs from `next` on have. */
static void set_needed(const dfk_einsum *e, const term *terms, int32_t next, bool *needed) {
  memset(needed, 0, LABELS);
  for (int32_t i = 0; i < e->out_rank; i++) needed[(int)e->out[i]] = true;
  for (int32_t t = next; t < e->n; t++)
    for (int32_t a = 0; a < terms[t].rank; a++) needed[(int)terms[t].label[a]] = true;
}

int32_t cpu_einsum(df_kernel *k) {
  dfk_einsum e;
  int64_t sizes[LABELS], dims[DF_MAX_RANK];
  if (dfk_is_rare(k->in[0]->dtype)) return ref_einsum(k);
  int32_t code = dfk_einsum_of(k, &e, sizes);
  if (code) return code;
  const df_tensor *first = k->in[0];
  for (int32_t i = 0; i < e.out_rank; i++) dims[i] = sizes[(int)e.out[i]];
  df_tensor *y = dfk_out(k, 0, first->dtype, e.out_rank, dims);
  if (!y) return DF_RESOURCE_EXHAUSTED;
  if (y->size == 0) return DF_OK;
  bool half = dfk_is_half(first->dtype), needed[LABELS];
  work w = { k, half ? DF_FLOAT32 : first->dtype, 0 };
  w.width = w.dtype == DF_FLOAT32 || w.dtype == DF_INT32 ? 4 : 8;
  term terms[DFK_EINSUM_INPUTS];
  memset(terms, 0, sizeof *terms * (size_t)e.n);
  for (int32_t i = 0; i < e.n && !code; i++) {
    const df_tensor *x = k->in[i];
    const void *data = x->data;
    float *f = NULL;
    if (half) {
      f = (float *)dfk_scratch(k, x->size * 4 + 4);
      if (f) dfk_half_to_floats(x->dtype, f, (const uint16_t *)x->data, x->size);
      else code = DF_RESOURCE_EXHAUSTED;
      data = f;
    }
    terms[i] = term_of(x, data, e.label[i]);
    terms[i].owned = f;
  }
  for (int32_t i = 1; i < e.n && !code; i++) {
    set_needed(&e, terms, i + 1, needed);
    code = multiply(&w, &terms[0], &terms[i], needed);
  }
  /* What is left is laid out as the output wants it; labels of size 1 are in no term. */
  int8_t order[DF_MAX_RANK];
  int32_t rank = 0;
  for (int32_t i = 0; i < e.out_rank; i++) if (find(&terms[0], e.out[i]) >= 0) order[rank++] = e.out[i];
  if (!code && half) {
    code = settle(&w, &terms[0], order, rank);
    if (!code) dfk_half_from_floats(y->dtype, (uint16_t *)y->data, (const float *)terms[0].data, y->size);
  } else if (!code && terms[0].rank == rank && lies(&terms[0], order, rank)) {
    memcpy(y->data, terms[0].data, (size_t)(size_of(&terms[0]) * w.width));
  } else if (!code) {
    arrange(&w, &terms[0], order, rank, (char *)y->data);
  }
  for (int32_t i = 0; i < e.n; i++) drop(&terms[i]);
  return code;
}
