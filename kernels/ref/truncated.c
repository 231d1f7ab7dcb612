/* truncated.c: normal numbers between two bounds. See ../truncated.h. */
#include "../random.h"
#include "../truncated.h"
#include "element.h"

int32_t ref_parameterized_truncated_normal(df_kernel *k) {
  int32_t rank;
  int64_t dims[DF_MAX_RANK];
  if (!dfk_truncated_dims(k, &rank, dims)) return k->error->code;
  df_tensor *out = dfk_out(k, 0, k->out_dtype[0], rank, dims);
  if (!out) return k->error->code;
  const dfk_stream s = dfk_stream_of(k, dfk_int(k, 0));
  const int64_t each = dims[0] ? out->size / dims[0] : 0;
  for (int64_t i = 0; i < dims[0]; i++) {
    double p[4];
    for (int32_t j = 0; j < 4; j++) p[j] = ref_get(k->in[j + 1], k->in[j + 1]->size == 1 ? 0 : i);
    if (!(p[1] > 0) || !(p[2] < p[3]) || !isfinite(p[0]) || !isfinite(p[1]))
      return dfk_fail(k, DF_INVALID_ARGUMENT, "batch %lld has the mean %g, the deviation %g and the bounds %g and %g: "
                      "the mean and the deviation must be finite, the deviation above 0, the first bound below the "
                      "second", (long long)i, p[0], p[1], p[2], p[3]);
    const double low = (p[2] - p[0]) / p[1], high = (p[3] - p[0]) / p[1];
    for (int64_t e = i * each; e < (i + 1) * each; e++)
      ref_put(out, e, fmin(fmax(p[0] + p[1] * between(&s, e, low, high), p[2]), p[3]));
  }
  return DF_OK;
}
