/* reduce.c: which axes a reduction folds. Shared by the reference and the CPU kernels. */
#include "reduce.h"

int32_t dfk_reduction_of(df_kernel *k, dfk_reduction *r) {
  const df_tensor *x = k->in[0], *axes = k->in[1];
  bool keep = dfk_bool(k, 0);
  char text[160];
  r->rank = x->rank;
  for (int32_t i = 0; i < x->rank; i++) r->reduced[i] = false;
  for (int64_t i = 0; i < axes->size; i++) {
    int64_t given = dfk_index(axes, i), a = given < 0 ? given + x->rank : given;
    if (a < 0 || a >= x->rank)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "reduction axis %lld is out of range for %s: expected %d to %d",
                      (long long)given, dfk_shape_text(x, text, sizeof text), -x->rank, x->rank - 1);
    if (r->reduced[a])
      return dfk_fail(k, DF_INVALID_ARGUMENT, "reduction axis %lld is given twice", (long long)given);
    r->reduced[a] = true;
  }
  r->out_rank = 0;
  r->out_size = r->count = 1;
  for (int32_t i = 0; i < x->rank; i++) {
    r->dims[i] = x->dims[i];
    if (r->reduced[i]) r->count *= x->dims[i];
    else r->out_size *= x->dims[i];
    if (!r->reduced[i] || keep) r->out_dims[r->out_rank++] = r->reduced[i] ? 1 : x->dims[i];
  }
  return DF_OK;
}

/* An axis given as a tensor of one element, counted from the end when negative; -1 after a failure. */
static int32_t axis_of(df_kernel *k, const df_tensor *axis, const df_tensor *of) {
  char text[160];
  if (axis->size != 1) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "the axis must be one integer, got %s", dfk_shape_text(axis, text, sizeof text));
    return -1;
  }
  int64_t given = dfk_index(axis, 0), a = given < 0 ? given + of->rank : given;
  if (a >= 0 && a < of->rank) return (int32_t)a;
  if (of->rank == 0)
    dfk_fail(k, DF_INVALID_ARGUMENT, "axis %lld is out of range: a scalar has no axes", (long long)given);
  else
    dfk_fail(k, DF_INVALID_ARGUMENT, "axis %lld is out of range for %s: expected %d to %d", (long long)given,
             dfk_shape_text(of, text, sizeof text), -of->rank, of->rank - 1);
  return -1;
}

int32_t dfk_scalar_axis_of(df_kernel *k, const df_tensor *axis, const df_tensor *of) {
  if (axis->rank == 0) return axis_of(k, axis, of);
  dfk_fail(k, DF_INVALID_ARGUMENT, "the axis must be a scalar, but it has rank %d", axis->rank);
  return -1;
}
