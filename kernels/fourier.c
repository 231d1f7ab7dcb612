/* fourier.c: what Fourier transforms refuse, and what they make. Shared by the reference and the CPU's. */
#include "decompose.h"
#include "index.h"
#include <string.h>

df_tensor *dfk_fourier_begin(df_kernel *k, int32_t axes) {
  const df_tensor *in = k->in[0];
  char text[160];
  if (in->rank >= axes) return dfk_out_like(k, 0, in);
  dfk_fail(k, DF_INVALID_ARGUMENT, "Input must have rank of at least %d but got: %s", axes,
           dfk_shape_text(in, text, sizeof text));
  return NULL;
}

static int32_t check(df_kernel *k, bool adjoint, int64_t *made) {
  const df_tensor *in = k->in[0], *length = k->in[1];
  char text[160];
  if (adjoint) {
    if (!dfk_integer(k, 2, "length", made)) return DF_INVALID_ARGUMENT;
    if (in->rank < 1 || length->size != 1 || *made < 0 || dfk_index(length, 0) < 0)
      return dfk_fail(k, DF_INVALID_ARGUMENT,
                      "dy of rank 1 at least, fft_length of shape [1] and a length are expected");
    return DF_OK;
  }
  if (in->rank < 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "Input must have rank of at least 1 but got: %s",
                    dfk_shape_text(in, text, sizeof text));
  if (length->rank != 1 || length->size != 1) return dfk_fail(k, DF_INVALID_ARGUMENT, "fft_length must have shape [1]");
  if (dfk_index(length, 0) < 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "fft_length[0] must >= 0, but got: %lld", (long long)dfk_index(length, 0));
  return DF_OK;
}

bool dfk_real_fourier_begin(df_kernel *k, bool from_real, bool adjoint, dfk_real_lines *f) {
  const df_tensor *in = k->in[0];
  int64_t dims[DF_MAX_RANK];
  if (check(k, adjoint, &f->made)) return false;
  f->n = dfk_index(k->in[1], 0);
  f->given = in->dims[in->rank - 1];
  if (!adjoint) f->made = !f->n ? 0 : from_real ? f->n / 2 + 1 : f->n;
  memcpy(dims, in->dims, sizeof *dims * (size_t)in->rank);
  dims[in->rank - 1] = f->made;
  f->out = dfk_out(k, 0, k->out_dtype[0], in->rank, dims);
  f->rows = f->out && f->made ? f->out->size / f->made : 0;
  return f->out != NULL;
}
