/* gradient.c: kernels of the ops that only the gradient pass builds. */
#include "../gradient.h"
#include "element.h"
#include <string.h>

/* y[shape] = x summed over the dimensions that broadcasting a tensor of that shape to x's repeated.
 * Sums are kept in double (complex numbers: two) and taken in the order of x's elements. No copy where the shapes are
 * equal. */
int32_t ref_sum_to_shape(df_kernel *k) {
  const df_tensor *x = k->in[0], *shape = k->in[1];
  int64_t dims[DF_MAX_RANK], stride[DF_MAX_RANK], at[DF_MAX_RANK] = { 0 };
  char text[160];
  int32_t rank = (int32_t)shape->size, lead = x->rank - rank;
  bool ok = rank <= x->rank, same = lead == 0;
  for (int32_t d = 0; ok && d < rank; d++) {
    dims[d] = dfk_index(shape, d);
    ok = dims[d] == x->dims[lead + d] || dims[d] == 1;
    same &= dims[d] == x->dims[lead + d];
  }
  if (!ok)
    return dfk_fail(k, DF_INVALID_ARGUMENT,
                    "a gradient of shape %s cannot be summed to a shape of rank %d that it was not broadcast from",
                    dfk_shape_text(x, text, sizeof text), rank);
  if (same) return dfk_out_forward(k, 0, 0, x->rank, NULL);
  df_tensor *y = dfk_out(k, 0, x->dtype, rank, dims);
  if (!y) return k->error->code;
  int64_t step = 1;
  for (int32_t d = x->rank - 1; d >= 0; d--) {          /* how far y moves with x's dimension d */
    bool kept = d >= lead && dims[d - lead] != 1;
    stride[d] = kept ? step : 0;
    if (kept) step *= dims[d - lead];
  }
  bool both = dfk_is_complex(x->dtype);
  double complex *pairs = dfk_scratch(k, (int64_t)sizeof *pairs * (y->size ? y->size : 1));
  double *sum = (double *)pairs;
  if (!pairs) return k->error->code;
  memset(pairs, 0, sizeof *pairs * (size_t)y->size);
  int64_t to = 0;
  for (int64_t i = 0; i < x->size; i++) {
    if (both) pairs[to] += ref_get_complex(x, i);
    else sum[to] += ref_get(x, i);
    for (int32_t d = x->rank - 1; d >= 0; d--) {
      to += stride[d];
      if (++at[d] < x->dims[d]) break;
      to -= stride[d] * x->dims[d];
      at[d] = 0;
    }
  }
  for (int64_t i = 0; i < y->size; i++) {
    if (both) ref_put_complex(y, i, pairs[i]);
    else ref_put(y, i, sum[i]);
  }
  dfk_free(pairs);
  return DF_OK;
}
