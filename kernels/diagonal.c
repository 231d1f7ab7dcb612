/* diagonal.c: diagonals: a box of elements that lie a row and one apart. */
#include "array.h"
#include "linalg.h"
#include "move.h"

static df_tensor *wrong(df_kernel *k, const char *what, const df_tensor *t) {
  char text[160];
  dfk_fail(k, DF_INVALID_ARGUMENT, "%s, got %s", what, dfk_shape_text(t, text, sizeof text));
  return NULL;
}
static df_tensor *zeros(df_tensor *t) {
  if (t) dfk_clear(t);
  return t;
}

df_tensor *dfk_diag_begin(df_kernel *k) {
  const df_tensor *x = k->in[0];
  int64_t dims[DF_MAX_RANK];
  if (x->rank < 1 || 2 * x->rank > DF_MAX_RANK) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "the diagonal has rank %d: expected 1 to %d", x->rank, DF_MAX_RANK / 2);
    return NULL;
  }
  for (int32_t d = 0; d < x->rank; d++) dims[d] = dims[d + x->rank] = x->dims[d];
  return zeros(dfk_out(k, 0, x->dtype, 2 * x->rank, dims));
}

df_tensor *dfk_diag_part_begin(df_kernel *k) {
  const df_tensor *x = k->in[0];
  const int32_t half = x->rank / 2;
  char text[160];
  bool fits = x->rank > 0 && x->rank % 2 == 0;
  for (int32_t d = 0; fits && d < half; d++) fits = x->dims[d] == x->dims[d + half];
  if (fits) return dfk_out(k, 0, x->dtype, half, x->dims);
  dfk_fail(k, DF_INVALID_ARGUMENT, "%s has no diagonal: expected the same dimensions twice",
           dfk_shape_text(x, text, sizeof text));
  return NULL;
}

df_tensor *dfk_matrix_set_diag_begin(df_kernel *k) {
  const df_tensor *x = k->in[0], *diagonal = k->in[1];
  char one[160], other[160];
  if (x->rank < 2) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "the input has rank %d: expected 2 or more", x->rank);
    return NULL;
  }
  const int64_t rows = x->dims[x->rank - 2], cols = x->dims[x->rank - 1], n = rows < cols ? rows : cols;
  bool fits = diagonal->rank == x->rank - 1 && diagonal->dims[x->rank - 2] == n;
  for (int32_t d = 0; fits && d < x->rank - 2; d++) fits = diagonal->dims[d] == x->dims[d];
  if (!fits) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "the diagonal is %s for %s: expected %lld along its last dimension",
             dfk_shape_text(diagonal, one, sizeof one), dfk_shape_text(x, other, sizeof other), (long long)n);
    return NULL;
  }
  df_tensor *out = dfk_out_like(k, 0, x);
  return out && dfk_copy(k, out, 0, x, 0, x->size) ? out : NULL;
}

df_tensor *dfk_matrix_diag_begin(df_kernel *k) {
  const df_tensor *x = k->in[0];
  int64_t dims[DF_MAX_RANK];
  char text[160];
  if (x->rank < 1 || x->rank >= DF_MAX_RANK) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "matrix_diag needs 1 to %d axes, got %s", DF_MAX_RANK - 1,
             dfk_shape_text(x, text, sizeof text));
    return NULL;
  }
  for (int32_t i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  dims[x->rank] = dims[x->rank - 1];
  return zeros(dfk_out(k, 0, x->dtype, x->rank + 1, dims));
}

df_tensor *dfk_matrix_diag_part_begin(df_kernel *k) {
  const df_tensor *x = k->in[0];
  if (x->rank < 2) return wrong(k, "matrix_diag_part needs a matrix", x);
  int64_t dims[DF_MAX_RANK];
  const int64_t m = x->dims[x->rank - 2], n = x->dims[x->rank - 1];
  for (int32_t i = 0; i < x->rank - 2; i++) dims[i] = x->dims[i];
  dims[x->rank - 2] = m < n ? m : n;
  return dfk_out(k, 0, x->dtype, x->rank - 1, dims);
}

df_tensor *dfk_band_part_begin(df_kernel *k, dfk_band *b) {
  const df_tensor *x = k->in[0];
  if (!dfk_integer(k, 1, "num_lower", &b->lower) || !dfk_integer(k, 2, "num_upper", &b->upper)) return NULL;
  if (x->rank < 2) return wrong(k, "matrix_band_part needs a matrix", x);
  b->m = x->dims[x->rank - 2];
  b->n = x->dims[x->rank - 1];
  if (b->lower <= b->m && b->upper <= b->n) return dfk_out_like(k, 0, x);
  dfk_fail(k, DF_INVALID_ARGUMENT,
           "num_lower %lld and num_upper %lld must be at most %lld and %lld, or negative for all",
           (long long)b->lower, (long long)b->upper, (long long)b->m, (long long)b->n);
  return NULL;
}

/* ---- as boxes: `count` diagonals of n elements, of matrices of m x columns or of vectors ------------------------- */
static int32_t diagonals(df_kernel *k, df_tensor *to, const df_tensor *from, bool to_matrix, int64_t count, int64_t n,
                         int64_t matrix, int64_t columns) {
  if (!to) return k->error->code;
  dfk_box box = { .rank = 2, .dims = { count, n } };
  int64_t *wide = to_matrix ? box.to : box.from, *dense = to_matrix ? box.from : box.to;
  wide[0] = matrix;
  wide[1] = columns + 1;
  dense[0] = n;
  dense[1] = 1;
  return !count || !n || dfk_move(k, to, 0, from, 0, &box) ? DF_OK : k->error->code;
}

int32_t cpu_diag(df_kernel *k) {
  const int64_t n = k->in[0]->size;
  return diagonals(k, dfk_diag_begin(k), k->in[0], true, 1, n, 0, n);
}
int32_t cpu_diag_part(df_kernel *k) {
  df_tensor *out = dfk_diag_part_begin(k);
  return diagonals(k, out, k->in[0], false, 1, out ? out->size : 0, 0, out ? out->size : 0);
}
/* The matrices in the last two axes of t. */
static int32_t of_matrices(df_kernel *k, df_tensor *to, const df_tensor *from, bool to_matrix) {
  const df_tensor *t = to_matrix ? to : from;
  if (!to) return k->error->code;
  const int64_t m = t->dims[t->rank - 2], n = t->dims[t->rank - 1];
  return diagonals(k, to, from, to_matrix, dfk_span(t->dims, 0, t->rank - 2), m < n ? m : n, m * n, n);
}
int32_t cpu_matrix_diag(df_kernel *k)      { return of_matrices(k, dfk_matrix_diag_begin(k), k->in[0], true); }
int32_t cpu_matrix_diag_part(df_kernel *k) { return of_matrices(k, dfk_matrix_diag_part_begin(k), k->in[0], false); }
int32_t cpu_matrix_set_diag(df_kernel *k)  { return of_matrices(k, dfk_matrix_set_diag_begin(k), k->in[1], true); }
