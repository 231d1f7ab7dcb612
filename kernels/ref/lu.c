/* lu.c: triangles of square matrices, the rows of which are put in such an order that each pivot is the greatest of its
 * column. */
#include "../decompose.h"
#include "element.h"
#include <math.h>

/* One matrix of n rows in `a`, and the row that stands in each place. False: a pivot is 0. */
static bool factor(double complex *a, int64_t n, int64_t *row) {
  for (int64_t i = 0; i < n; i++) row[i] = i;
  for (int64_t c = 0; c < n; c++) {
    int64_t best = c;
    for (int64_t i = c + 1; i < n; i++)
      if (cabs(a[i * n + c]) > cabs(a[best * n + c])) best = i;
    if (a[best * n + c] == 0) return false;
    for (int64_t j = 0; j < n && best != c; j++) {
      const double complex t = a[c * n + j];
      a[c * n + j] = a[best * n + j];
      a[best * n + j] = t;
    }
    const int64_t t = row[c];
    row[c] = row[best];
    row[best] = t;
    for (int64_t i = c + 1; i < n; i++) {
      const double complex f = a[i * n + c] /= a[c * n + c];
      for (int64_t j = c + 1; j < n; j++) a[i * n + j] -= f * a[c * n + j];
    }
  }
  return true;
}

/* input -> lu, p */
int32_t ref_lu(df_kernel *k) {
  const df_tensor *x = k->in[0];
  dfk_batch b;
  const int32_t code = dfk_square_batch_of(k, 0, &b);
  if (code) return code;
  const int64_t n = b.m;
  df_tensor *lu = dfk_out_like(k, 0, x), *p = lu ? dfk_out(k, 1, k->out_dtype[1], x->rank - 1, x->dims) : NULL;
  double complex *a = p ? dfk_scratch(k, (n * n + 1) * (int64_t)sizeof *a + (n + 1) * (int64_t)sizeof(int64_t)) : NULL;
  if (!a) return k->error->code;
  int64_t *row = (int64_t *)(a + n * n + 1);
  const bool is_complex = dfk_is_complex(x->dtype);
  for (int64_t m = 0; m < b.count; m++) {
    const int64_t at = m * n * n;
    for (int64_t i = 0; i < n * n; i++) a[i] = is_complex ? ref_get_complex(x, at + i) : ref_get(x, at + i);
    if (!factor(a, n, row)) {
      dfk_free(a);
      return dfk_fail(k, DF_INVALID_ARGUMENT, "matrix %lld is not invertible", (long long)m);
    }
    for (int64_t i = 0; i < n * n; i++) {
      if (is_complex) ref_put_complex(lu, m * n * n + i, a[i]);
      else ref_put(lu, m * n * n + i, creal(a[i]));
    }
    for (int64_t i = 0; i < n; i++) ref_put_int(p, m * n + i, row[i]);
  }
  dfk_free(a);
  return DF_OK;
}
