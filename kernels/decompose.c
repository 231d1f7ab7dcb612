/* decompose.c: what ops on batches of matrices refuse, and what they make. Shared by the reference and the GPU's. */
#include "decompose.h"
#include <string.h>

int32_t dfk_batch_of(df_kernel *k, int32_t i, dfk_batch *b) {
  const df_tensor *t = k->in[i];
  char text[160];
  if (t->rank < 2)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "Input tensor %d must have rank >= 2, it is %s", i,
                    dfk_shape_text(t, text, sizeof text));
  *b = (dfk_batch){ .t = t, .count = 1 };
  if (t->dims[t->rank - 2] > 0x3fffffff || t->dims[t->rank - 1] > 0x3fffffff)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "matrices of this size are too large");
  b->m = (int)t->dims[t->rank - 2];
  b->n = (int)t->dims[t->rank - 1];
  for (int32_t d = 0; d < t->rank - 2; d++) b->count *= t->dims[d];
  return DF_OK;
}

int32_t dfk_square_batch_of(df_kernel *k, int32_t i, dfk_batch *b) {
  int32_t code = dfk_batch_of(k, i, b);
  if (code || b->m == b->n) return code;
  return dfk_fail(k, DF_INVALID_ARGUMENT, "Input matrices must be squares, got %d != %d", b->m, b->n);
}

df_tensor *dfk_batch_out(df_kernel *k, int32_t i, const df_tensor *t, int32_t n, const int64_t *own) {
  int64_t dims[DF_MAX_RANK];
  const int32_t outer = t->rank - 2;
  memcpy(dims, t->dims, sizeof *dims * (size_t)outer);
  for (int32_t d = 0; d < n; d++) dims[outer + d] = own[d];
  return dfk_out(k, i, t->dtype, outer + n, dims);
}

int32_t dfk_same_batch(df_kernel *k, const dfk_batch *a, const dfk_batch *b) {
  char s[160], t[160];
  bool same = a->t->rank == b->t->rank && a->m == b->m;
  for (int32_t d = 0; d < a->t->rank - 2 && same; d++) same = a->t->dims[d] == b->t->dims[d];
  if (same) return DF_OK;
  if (a->t->rank == b->t->rank && a->m != b->m)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "Input matrix and rhs are incompatible: %s and %s",
                    dfk_shape_text(a->t, s, sizeof s), dfk_shape_text(b->t, t, sizeof t));
  return dfk_fail(k, DF_INVALID_ARGUMENT, "All input tensors must have the same outer dimensions, got %s and %s",
                  dfk_shape_text(a->t, s, sizeof s), dfk_shape_text(b->t, t, sizeof t));
}

int64_t dfk_triangles_at(const df_tensor *x, const df_tensor *whole, int64_t t) {
  const int32_t rank = whole->rank;
  const int64_t *dims = whole->dims;
  int64_t at = 0, step = 1;
  for (int32_t d = rank - 3; d >= 0; d--) {
    const int64_t i = t % dims[d], own = d - (rank - x->rank);
    t /= dims[d];
    if (own < 0) continue;
    at += x->dims[own] == 1 ? 0 : i * step;
    step *= x->dims[own];
  }
  return at;
}

df_tensor *dfk_triangular_solve_begin(df_kernel *k, dfk_triangles *p) {
  char s[160], t[160];
  p->count = 1;
  if (dfk_square_batch_of(k, 0, &p->a) || dfk_batch_of(k, 1, &p->b)) return NULL;
  const dfk_batch a = p->a, b = p->b;
  const int32_t rank = a.t->rank > b.t->rank ? a.t->rank : b.t->rank;
  int64_t dims[DF_MAX_RANK];
  bool ok = a.m == b.m;
  for (int32_t d = 0; d < rank - 2 && ok; d++) {
    const int32_t da = d - (rank - a.t->rank), db = d - (rank - b.t->rank);
    const int64_t x = da < 0 ? 1 : a.t->dims[da], y = db < 0 ? 1 : b.t->dims[db];
    ok = x == y || x == 1 || y == 1;
    dims[d] = x == 1 ? y : x;
    p->count *= dims[d];
  }
  if (!ok) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "In[0] and In[1] have incompatible shapes: %s and %s",
             dfk_shape_text(a.t, s, sizeof s), dfk_shape_text(b.t, t, sizeof t));
    return NULL;
  }
  dims[rank - 2] = b.m;
  dims[rank - 1] = b.n;
  return dfk_out(k, 0, a.t->dtype, rank, dims);
}

df_tensor *dfk_tridiagonal_begin(df_kernel *k, dfk_batch *a, dfk_batch *b) {
  char s[160], t[160];
  if (dfk_batch_of(k, 0, a) || dfk_batch_of(k, 1, b)) return NULL;
  bool ok = a->m == 3 && a->n == b->m && a->t->rank == b->t->rank;
  for (int32_t d = 0; d < a->t->rank - 2 && ok; d++) ok = a->t->dims[d] == b->t->dims[d];
  if (ok) return dfk_out_like(k, 0, b->t);
  dfk_fail(k, DF_INVALID_ARGUMENT, "diagonals[..., 3, n] and rhs[..., n, m] are expected, got %s and %s",
           dfk_shape_text(a->t, s, sizeof s), dfk_shape_text(b->t, t, sizeof t));
  return NULL;
}
