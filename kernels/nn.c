/* nn.c: what the reference and the CPU kernels of nn.h check alike. */
#include "nn.h"
#include <string.h>

int32_t dfk_xent_begin(df_kernel *k, bool sparse, dfk_xent *x) {
  const df_tensor *f = k->in[0], *labels = k->in[1];
  char a[160], b[160];
  bool fits = f->rank > 0 && labels->rank == f->rank - sparse;
  for (int32_t i = 0; fits && i < labels->rank; i++) fits = labels->dims[i] == f->dims[i];
  if (!fits)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "labels must have the shape of the logits%s: logits are %s, labels %s",
                    sparse ? " without its last axis" : "", dfk_shape_text(f, a, sizeof a),
                    dfk_shape_text(labels, b, sizeof b));
  x->classes = f->dims[f->rank - 1];
  x->rows = 1;
  for (int32_t i = 0; i < f->rank - 1; i++) x->rows *= f->dims[i];
  for (int64_t i = 0; sparse && i < labels->size; i++) {
    int64_t label = dfk_index(labels, i);
    if (label >= 0 && label < x->classes) continue;
    return dfk_fail(k, DF_INVALID_ARGUMENT, "labels[%lld] is %lld: expected a class from 0 to %lld", (long long)i,
                    (long long)label, (long long)x->classes - 1);
  }
  x->loss = dfk_out(k, 0, f->dtype, f->rank - 1, f->dims);
  x->backprop = x->loss ? dfk_out_reuse(k, 1, 0, f->dtype, f->rank, f->dims) : NULL;
  return x->backprop ? DF_OK : DF_RESOURCE_EXHAUSTED;
}

int32_t dfk_channels_of(df_kernel *k, int32_t attr, dfk_channels *c) {
  const df_tensor *x = k->in[0];
  bool first = strcmp(dfk_string(k, attr), "NCHW") == 0;
  char text[160];
  if (x->rank < 2)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%s has no channel axis beside the batch's for data_format %s",
                    dfk_shape_text(x, text, sizeof text), dfk_string(k, attr));
  int32_t axis = first ? 1 : x->rank - 1;
  *c = (dfk_channels){ 1, x->dims[axis], 1 };
  for (int32_t i = 0; i < axis; i++) c->outer *= x->dims[i];
  for (int32_t i = axis + 1; i < x->rank; i++) c->inner *= x->dims[i];
  return DF_OK;
}
