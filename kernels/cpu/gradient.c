/* gradient.c: sums of what broadcasting repeated along axes side by side: in front, as of a bias, or behind, as of a
 * weight for each row. Each is added up in the order of its elements and in double, as the reference has it. In a
 * mixture of experts they were 14 % of a step as written there.
 */
#include "../gradient.h"
#include <string.h>

/* x[outer, rows, n] to y[outer, n]. sum: n of them for each of the outer. */
typedef struct columns { const df_tensor *x; df_tensor *y; double *sum; int64_t outer, rows, n; } columns;

#define SUMS(T)                                                                                                        \
  static void columns_##T(void *arg, int64_t begin, int64_t end) {                                                     \
    const columns *c = arg;                                                                                            \
    const T *x = c->x->data;                                                                                           \
    for (int64_t o = 0; o < c->outer; o++, x += c->rows * c->n) {                                                      \
      T *y = (T *)c->y->data + o * c->n;                                                                               \
      double *sum = c->sum + o * c->n;                                                                                 \
      for (int64_t j = begin; j < end; j++) sum[j] = 0;                                                                \
      for (int64_t i = 0; i < c->rows; i++) for (int64_t j = begin; j < end; j++) sum[j] += (double)x[i * c->n + j];   \
      for (int64_t j = begin; j < end; j++) y[j] = (T)sum[j];                                                          \
    }                                                                                                                  \
  }                                                                                                                    \
  /* Of n = 1: eight sums at a time, so that an addition need not wait for the one before it. */                       \
  static void rows_##T(void *arg, int64_t begin, int64_t end) {                                                        \
    const columns *c = arg;                                                                                            \
    const T *x = c->x->data;                                                                                           \
    T *y = c->y->data;                                                                                                 \
    int64_t o = begin;                                                                                                 \
    for (; o + 8 <= end; o += 8) {                                                                                     \
      double sum[8] = { 0 };                                                                                           \
      for (int64_t i = 0; i < c->rows; i++)                                                                            \
        for (int64_t q = 0; q < 8; q++) sum[q] += (double)x[(o + q) * c->rows + i];                                    \
      for (int64_t q = 0; q < 8; q++) y[o + q] = (T)sum[q];                                                            \
    }                                                                                                                  \
    for (; o < end; o++) {                                                                                             \
      double sum = 0;                                                                                                  \
      for (int64_t i = 0; i < c->rows; i++) sum += (double)x[o * c->rows + i];                                         \
      y[o] = (T)sum;                                                                                                   \
    }                                                                                                                  \
  }
SUMS(float)
SUMS(double)

/* Fills c's sizes, where x is summed to that shape along axes side by side. */
static bool side_by_side(const df_tensor *x, const df_tensor *shape, columns *c) {
  const int64_t lead = x->rank - shape->size;
  int64_t *part[3] = { &c->outer, &c->rows, &c->n };
  int32_t at = 0;
  c->outer = c->rows = c->n = 1;
  if (lead < 0) return false;
  for (int64_t d = 0; d < x->rank; d++) {
    const int64_t to = d < lead ? 1 : dfk_index(shape, d - lead);
    if (to != 1 && to != x->dims[d]) return false;
    if (x->dims[d] == 1) continue;
    if ((to == 1) != (at == 1)) at++;
    if (at > 2) return false;
    *part[at] *= x->dims[d];
  }
  return at > 0;
}

int32_t cpu_sum_to_shape(df_kernel *k) {
  enum { ELEMENTS = 1 << 15 };                              /* of x that are worth a thread */
  const df_tensor *x = k->in[0], *shape = k->in[1];
  columns c = { .x = x };
  if ((x->dtype != DF_FLOAT32 && x->dtype != DF_FLOAT64) || !x->size || !side_by_side(x, shape, &c))
    return ref_sum_to_shape(k);
  int64_t dims[DF_MAX_RANK];
  for (int64_t d = 0; d < shape->size; d++) dims[d] = dfk_index(shape, d);
  c.y = dfk_out(k, 0, x->dtype, (int32_t)shape->size, dims);
  if (!c.y) return k->error->code;
  const bool single = x->dtype == DF_FLOAT32;
  if (c.n == 1) {
    dfk_parallel(k, c.outer, ELEMENTS / c.rows + 16, single ? rows_float : rows_double, &c);
    return DF_OK;
  }
  if (!(c.sum = dfk_scratch(k, (int64_t)sizeof *c.sum * c.y->size))) return k->error->code;
  dfk_parallel(k, c.n, ELEMENTS / (c.outer * c.rows) + 16, single ? columns_float : columns_double, &c);
  dfk_free(c.sum);
  return DF_OK;
}
