/* fake.c: what ops are given that round floats as if these were quantised: see quantize.h. */
#include "quantize.h"

bool dfk_fake_one_shape(df_kernel *k, const df_tensor *dy, const df_tensor *x) {
  char a[160], b[160];
  bool same = dy->rank == x->rank;
  for (int32_t d = 0; same && d < x->rank; d++) same = dy->dims[d] == x->dims[d];
  if (!same)
    dfk_fail(k, DF_INVALID_ARGUMENT, "gradients are %s and inputs %s: they must have one shape",
             dfk_shape_text(dy, a, sizeof a), dfk_shape_text(x, b, sizeof b));
  return same;
}

bool dfk_fake_range(df_kernel *k, int32_t in) {
  char text[160];
  for (int32_t i = in; i < in + 2; i++) {
    if (k->in[i]->rank == 0) continue;
    dfk_fail(k, DF_INVALID_ARGUMENT, "%s must be one number, got %s", i == in ? "min" : "max",
             dfk_shape_text(k->in[i], text, sizeof text));
    return false;
  }
  return true;
}

int64_t dfk_fake_ranges(df_kernel *k, int32_t in, const df_tensor *x) {
  char a[160], b[160];
  const int64_t n = x->rank ? x->dims[x->rank - 1] : -1;
  for (int32_t i = in; i < in + 2; i++) {
    if (n >= 0 && k->in[i]->rank == 1 && k->in[i]->dims[0] == n) continue;
    dfk_fail(k, DF_INVALID_ARGUMENT,
             "%s is %s and inputs %s: it must have a number for each place of their last axis",
             i == in ? "min" : "max", dfk_shape_text(k->in[i], a, sizeof a), dfk_shape_text(x, b, sizeof b));
    return -1;
  }
  return n;
}
