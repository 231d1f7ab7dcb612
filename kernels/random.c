/* random.c: what the random kernels of all devices ask of their shape. */
#include "random.h"

bool dfk_random_dims(df_kernel *k, int32_t *rank, int64_t dims[DF_MAX_RANK]) {
  const df_tensor *shape = k->in[0];
  if (shape->rank != 1 || shape->size > DF_MAX_RANK) {
    char text[160];
    dfk_fail(k, DF_INVALID_ARGUMENT, "the shape is given as %s but must be a vector of at most %d integers",
             dfk_shape_text(shape, text, sizeof text), DF_MAX_RANK);
    return false;
  }
  *rank = (int32_t)shape->size;
  for (int32_t i = 0; i < *rank; i++)
    if ((dims[i] = dfk_index(shape, i)) < 0) {
      dfk_fail(k, DF_INVALID_ARGUMENT, "dimension %d of the shape is %lld but must not be negative", i,
               (long long)dims[i]);
      return false;
    }
  return true;
}
