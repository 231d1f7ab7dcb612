/* summary.c: what a large tensor holds, in a few numbers. */
#include "base/internal.h"
#include <math.h>

/* Elements by blocks of this many, so that a sum of many small ones keeps its digits. */
enum { BLOCK = 4096 };

bool df_tensor_summary(const df_tensor *t, df_summary *out) {
  int32_t dtype = df_tensor_dtype(t);
  *out = (df_summary){ 0 };
  if (dtype == DF_STRING || dtype == DF_RESOURCE || dtype == DF_VARIANT || dtype == DF_COMPLEX64 ||
      dtype == DF_COMPLEX128)
    return false;
  int64_t size = df_tensor_size(t);
  double sum = 0, block = 0;
  out->min = INFINITY;
  out->max = -INFINITY;
  for (int64_t i = 0; i < size; i++) {
    double v = df_tensor_get(t, i);
    if (isnan(v)) {
      out->nan++;
    } else if (isinf(v)) {
      out->inf++;
    } else {
      if (v < out->min) out->min = v;
      if (v > out->max) out->max = v;
      block += v;
      out->finite++;
    }
    if (i % BLOCK == BLOCK - 1) {
      sum += block;
      block = 0;
    }
  }
  sum += block;
  if (out->finite == 0) return true;
  out->mean = sum / (double)out->finite;
  double width = (out->max - out->min) / DF_SUMMARY_BINS;
  if (!(width > 0) || isinf(width)) return true;
  sum = block = 0;
  for (int64_t i = 0; i < size; i++) {
    double v = df_tensor_get(t, i);
    if (isfinite(v)) {
      int32_t bin = (int32_t)((v - out->min) / width);
      out->histogram[bin < DF_SUMMARY_BINS ? bin : DF_SUMMARY_BINS - 1]++;
      block += (v - out->mean) * (v - out->mean);
    }
    if (i % BLOCK == BLOCK - 1) {
      sum += block;
      block = 0;
    }
  }
  out->deviation = sqrt((sum + block) / (double)out->finite);
  return true;
}
