/* linalg.c: reference products and the kernels that only move diagonals. Floats are accumulated in double. */
#include "../linalg.h"
#include "../move.h"
#include "element.h"
#include <string.h>

/* adjoint: what is transposed is conjugated too. */
static int32_t product(df_kernel *k, bool adjoint) {
  const df_tensor *a = k->in[0], *b = k->in[1];
  dfk_product p;
  int32_t code = dfk_product_of(k, &p);
  if (code) return code;
  df_tensor *c = dfk_out(k, 0, a->dtype, p.rank, p.dims);
  if (!c) return DF_RESOURCE_EXHAUSTED;
  for (int64_t t = 0; t < p.count; t++) {
    int64_t at_a, at_b;
    dfk_product_at(&p, t, &at_a, &at_b);
    for (int64_t i = 0; i < p.m; i++)
      for (int64_t j = 0; j < p.n; j++) {
        double f = 0;
        double complex c_sum = 0;
        uint64_t u = 0;
        for (int64_t q = 0; q < p.k; q++) {
          int64_t x = at_a + (p.a_t ? q * p.m + i : i * p.k + q), y = at_b + (p.b_t ? j * p.k + q : q * p.n + j);
          if (dfk_is_complex(a->dtype)) {
            double complex l = ref_get_complex(a, x), r = ref_get_complex(b, y);
            c_sum += (adjoint && p.a_t ? conj(l) : l) * (adjoint && p.b_t ? conj(r) : r);
          } else if (ref_is_float(a->dtype)) f += ref_get(a, x) * ref_get(b, y);
          else u += (uint64_t)ref_get_int(a, x) * (uint64_t)ref_get_int(b, y);
        }
        int64_t at = (t * p.m + i) * p.n + j;
        if (dfk_is_complex(a->dtype)) ref_put_complex(c, at, c_sum);
        else if (ref_is_float(a->dtype)) ref_put(c, at, f);
        else ref_put_int(c, at, (int64_t)u);
      }
  }
  return DF_OK;
}

int32_t ref_matmul(df_kernel *k) {
  return dfk_two_matrices(k) ? product(k, false) : k->error->code;
}

int32_t ref_batch_matmul(df_kernel *k) { return product(k, true); }

/* Every assignment of numbers to labels in turn: the product of the inputs is added to its output. */
int32_t ref_einsum(df_kernel *k) {
  dfk_einsum e;
  int64_t sizes[DFK_EINSUM_LABELS], at[DFK_EINSUM_LABELS] = { 0 }, dims[DF_MAX_RANK], total = 1;
  int32_t code = dfk_einsum_of(k, &e, sizes);
  if (code) return code;
  for (int32_t i = 0; i < e.out_rank; i++) dims[i] = sizes[(int)e.out[i]];
  df_tensor *y = dfk_out(k, 0, k->in[0]->dtype, e.out_rank, dims);
  if (!y) return DF_RESOURCE_EXHAUSTED;
  bool floats = ref_is_float(y->dtype), both = dfk_is_complex(y->dtype);
  double *sum = (double *)dfk_scratch(k, (y->size + 1) * 16);
  if (!sum) return DF_RESOURCE_EXHAUSTED;
  uint64_t *whole = (uint64_t *)sum;
  double complex *pairs = (double complex *)sum;
  memset(sum, 0, (size_t)(y->size + 1) * 16);
  for (int32_t l = 0; l < e.nlabels; l++) total *= sizes[l];
  for (int64_t step = 0; step < total; step++) {
    double f = 1;
    double complex c = 1;
    uint64_t u = 1;
    for (int32_t i = 0; i < e.n; i++) {
      int64_t x = 0;
      for (int32_t a = 0; a < e.rank[i]; a++) {
        int64_t d = k->in[i]->dims[a];
        x = x * d + (d == 1 ? 0 : at[(int)e.label[i][a]]);
      }
      if (both) c *= ref_get_complex(k->in[i], x);
      else if (floats) f *= ref_get(k->in[i], x);
      else u *= (uint64_t)ref_get_int(k->in[i], x);
    }
    int64_t to = 0;
    for (int32_t a = 0; a < e.out_rank; a++) to = to * dims[a] + at[(int)e.out[a]];
    if (both) pairs[to] += c;
    else if (floats) sum[to] += f;
    else whole[to] += u;
    for (int32_t l = e.nlabels - 1; l >= 0; l--) {
      if (++at[l] < sizes[l]) break;
      at[l] = 0;
    }
  }
  for (int64_t i = 0; i < y->size; i++) {
    if (both) ref_put_complex(y, i, pairs[i]);
    else if (floats) ref_put(y, i, sum[i]);
    else ref_put_int(y, i, (int64_t)whole[i]);
  }
  dfk_free(sum);
  return DF_OK;
}

/* ---- diagonals --------------------------------------------------------------------------------------- */

int32_t ref_matrix_band_part(df_kernel *k) {
  const df_tensor *x = k->in[0];
  dfk_band b;
  df_tensor *y = dfk_band_part_begin(k, &b);
  if (!y) return k->error->code;
  size_t width = (size_t)df_dtype_bytes(x->dtype);
  const char *from = (const char *)x->data;
  char *to = (char *)y->data;
  for (int64_t row = 0; b.n && row < x->size / b.n; row++, from += b.n * width, to += b.n * width) {
    int64_t i = row % b.m, begin = b.lower < 0 || i - b.lower < 0 ? 0 : i - b.lower,
            end = b.upper < 0 || i + b.upper + 1 > b.n ? b.n : i + b.upper + 1;
    if (begin > b.n) begin = b.n;
    if (end < begin) end = begin;
    memset(to, 0, (size_t)begin * width);
    memcpy(to + begin * width, from + begin * width, (size_t)(end - begin) * width);
    memset(to + end * width, 0, (size_t)(b.n - end) * width);
  }
  return DF_OK;
}

int32_t ref_matrix_diag(df_kernel *k) {
  const df_tensor *x = k->in[0];
  df_tensor *y = dfk_matrix_diag_begin(k);
  if (!y) return k->error->code;
  const int64_t n = x->dims[x->rank - 1];
  for (int64_t i = 0; i < x->size; i++)
    if (!dfk_copy(k, y, i * n + i % n, x, i, 1)) return k->error->code;
  return DF_OK;
}

int32_t ref_matrix_diag_part(df_kernel *k) {
  const df_tensor *x = k->in[0];
  df_tensor *y = dfk_matrix_diag_part_begin(k);
  if (!y) return k->error->code;
  const int64_t m = x->dims[x->rank - 2], n = x->dims[x->rank - 1], least = m < n ? m : n;
  for (int64_t i = 0; i < y->size; i++)
    if (!dfk_copy(k, y, i, x, i / least * m * n + i % least * (n + 1), 1)) return k->error->code;
  return DF_OK;
}
