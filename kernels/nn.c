/* nn.c: what the reference and the CPU kernels of nn.h check alike. */
#include "nn.h"
#include "move.h"
#include <string.h>

/* t in these dims, which it broadcasts to; NULL: k has failed. */
static df_tensor *in_dims(df_kernel *k, const df_tensor *t, const int64_t *dims) {
  df_tensor *out = df_tensor_new(t->dtype, t->rank, dims, k->error);
  if (!out) return NULL;
  dfk_box box = { .rank = t->rank };
  dfk_strides(t->rank, dims, box.to);
  dfk_strides(t->rank, t->dims, box.from);
  for (int32_t d = 0; d < t->rank; d++) {
    box.dims[d] = dims[d];
    if (t->dims[d] == 1) box.from[d] = 0;
  }
  if (dfk_move(k, out, 0, t, 0, &box)) return out;
  df_tensor_release(out);
  return NULL;
}

/* Do the inputs broadcast to one shape? They have the same rank. */
static bool broadcast(const df_tensor *a, const df_tensor *b, int64_t *dims) {
  for (int32_t i = 0; i < a->rank; i++) {
    dims[i] = a->dims[i] == 1 ? b->dims[i] : a->dims[i];
    if (b->dims[i] != dims[i] && b->dims[i] != 1) return false;
  }
  return true;
}
static bool has_dims(const df_tensor *t, const int64_t *dims) {
  return !memcmp(t->dims, dims, (size_t)t->rank * sizeof *dims);
}

int32_t dfk_xent_begin(df_kernel *k, bool sparse, dfk_xent *x) {
  const df_tensor *f = k->in[0], *labels = k->in[1];
  char a[160], b[160];
  int64_t dims[DF_MAX_RANK];
  *x = (dfk_xent){ .logits = f, .labels = labels };
  bool fits = f->rank > 0 && labels->rank == f->rank - sparse;
  if (fits && sparse) fits = has_dims(labels, f->dims);
  if (!fits || (!sparse && !broadcast(f, labels, dims)))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "labels must have the shape of the logits%s: logits are %s, labels %s",
                    sparse ? " without its last axis" : "", dfk_shape_text(f, a, sizeof a),
                    dfk_shape_text(labels, b, sizeof b));
  if (sparse) memcpy(dims, f->dims, (size_t)f->rank * sizeof *dims);
  if (!has_dims(f, dims) && !(x->logits = x->own[0] = in_dims(k, f, dims))) return k->error->code;
  if (!sparse && !has_dims(labels, dims) && !(x->labels = x->own[1] = in_dims(k, labels, dims))) return k->error->code;
  x->classes = dims[f->rank - 1];
  x->rows = 1;
  for (int32_t i = 0; i < f->rank - 1; i++) x->rows *= dims[i];
  for (int64_t i = 0; sparse && i < labels->size; i++) {
    int64_t label = dfk_index(labels, i);
    if (label >= 0 && label < x->classes) continue;
    return dfk_fail(k, DF_INVALID_ARGUMENT, "labels[%lld] is %lld: expected a class from 0 to %lld", (long long)i,
                    (long long)label, (long long)x->classes - 1);
  }
  x->loss = dfk_out(k, 0, f->dtype, f->rank - 1, dims);
  if (x->loss)
    x->backprop = x->own[0] ? dfk_out(k, 1, f->dtype, f->rank, dims) : dfk_out_reuse(k, 1, 0, f->dtype, f->rank, dims);
  return x->backprop ? DF_OK : DF_RESOURCE_EXHAUSTED;
}

int32_t dfk_xent_end(dfk_xent *x, int32_t code) {
  for (int i = 0; i < 2; i++) if (x->own[i]) df_tensor_release(x->own[i]);
  return code;
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

/* ---- batch normalisation -------------------------------------------------------------------------------------- */
enum { EPSILON, FACTOR, FORMAT, TRAINING };
enum { GRAD_EPSILON, GRAD_FORMAT, GRAD_TRAINING };

/* x as [outer, channels, inner]. False: it is not of rank 4 (or 5), or the others are not of one value per channel. */
static bool norm_extent(df_kernel *k, const df_tensor *x, const char *format, int32_t from, dfk_norm *b) {
  const bool first = !strncmp(format, "NC", 2);
  if (x->rank != (int32_t)strlen(format)) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "x must have rank %zu (%s), it has rank %d", strlen(format), format, x->rank);
    return false;
  }
  const int32_t axis = first ? 1 : x->rank - 1;
  *b = (dfk_norm){ .outer = 1, .channels = x->dims[axis], .inner = 1 };
  for (int32_t d = 0; d < axis; d++) b->outer *= x->dims[d];
  for (int32_t d = axis + 1; d < x->rank; d++) b->inner *= x->dims[d];
  b->n = b->outer * b->inner;
  for (int32_t i = from; i <= 4; i++) {
    if (!k->in[i]->size && i > from + 1) continue;               /* mean and variance may be empty in training */
    if (k->in[i]->rank == 1 && k->in[i]->size == b->channels) continue;
    dfk_fail(k, DF_INVALID_ARGUMENT, "input %d must have one value for each of %lld channels, it has %lld", i,
             (long long)b->channels, (long long)k->in[i]->size);
    return false;
  }
  return true;
}

int32_t dfk_norm_begin(df_kernel *k, dfk_norm *b) {
  const df_tensor *x = k->in[0];
  if (!norm_extent(k, x, dfk_string(k, FORMAT), 1, b)) return k->error->code;
  b->training = dfk_bool(k, TRAINING);
  b->epsilon = dfk_float(k, EPSILON);
  b->factor = dfk_float(k, FACTOR);
  b->moving = b->training && b->factor != 1;
  if ((!b->training || b->moving) && (k->in[3]->size != b->channels || k->in[4]->size != b->channels))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "mean and variance must have one value for each of %lld channels",
                    (long long)b->channels);
  for (int32_t i = 0; i < k->nout; i++) {
    b->out[i] = i == 0 ? dfk_out_like(k, 0, x) : dfk_out(k, i, k->out_dtype[i], i == 5 ? 0 : 1, &b->channels);
    if (!b->out[i]) return k->error->code;
  }
  return DF_OK;
}

int32_t dfk_norm_grad_begin(df_kernel *k, dfk_norm *b) {
  const df_tensor *dy = k->in[0], *x = k->in[1];
  const int64_t none = 0;
  if (!norm_extent(k, x, dfk_string(k, GRAD_FORMAT), 2, b)) return k->error->code;
  b->training = dfk_bool(k, GRAD_TRAINING);
  b->epsilon = dfk_float(k, GRAD_EPSILON);
  if (dy->size != x->size)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "y_backprop has %lld elements, x %lld", (long long)dy->size,
                    (long long)x->size);
  if (k->in[3]->size != b->channels || k->in[4]->size != b->channels)
    return dfk_fail(k, DF_INVALID_ARGUMENT,
                    "the reserved mean and variance must have one value for each of %lld channels",
                    (long long)b->channels);
  for (int32_t i = 0; i < 5; i++) {
    b->out[i] = i == 0 ? dfk_out_like(k, 0, x) : dfk_out(k, i, k->out_dtype[i], 1, i < 3 ? &b->channels : &none);
    if (!b->out[i]) return k->error->code;
  }
  return DF_OK;
}

df_tensor *dfk_lrn_begin(df_kernel *k) {
  const df_tensor *x = k->in[0];
  char text[160];
  if (x->rank != 4)
    dfk_fail(k, DF_INVALID_ARGUMENT, "the input is %s but must be [batch, rows, columns, depth]",
             dfk_shape_text(x, text, sizeof text));
  else if (dfk_int(k, 0) < 0)
    dfk_fail(k, DF_INVALID_ARGUMENT, "depth_radius is %lld but must not be negative", (long long)dfk_int(k, 0));
  else
    return dfk_out_like(k, 0, x);
  return NULL;
}
