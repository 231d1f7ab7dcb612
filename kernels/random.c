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

/* Is the parameter a scalar, or one number for each of the batches? */
static bool parameter_fits(df_kernel *k, int32_t i, int64_t batches) {
  static const char *const name[] = { "means", "stdevs", "minvals", "maxvals" };
  const df_tensor *t = k->in[i];
  char text[160];
  if (t->rank == 0 || (t->rank == 1 && (t->size == 1 || t->size == batches))) return true;
  dfk_fail(k, DF_INVALID_ARGUMENT, "%s is %s but must be a scalar or a vector of %lld, the shape's first dimension",
           name[i - 1], dfk_shape_text(t, text, sizeof text), (long long)batches);
  return false;
}

bool dfk_truncated_dims(df_kernel *k, int32_t *rank, int64_t dims[DF_MAX_RANK]) {
  if (!dfk_random_dims(k, rank, dims)) return false;
  if (*rank < 1) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "the shape must have a dimension of batches at least");
    return false;
  }
  for (int32_t i = 1; i < 5; i++) if (!parameter_fits(k, i, dims[0])) return false;
  return true;
}
