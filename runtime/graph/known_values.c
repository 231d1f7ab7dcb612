/* known_values.c: what is known of values while a graph is built.
 *
 * An output has a `constant` when it is a Const, when it passes one on, when it is the shape, size or rank of something
 * whose static shape says so, or when a stateless op of constants gives at most 64 whole numbers or booleans: then
 * the op's own reference kernel computes it here. Shape functions therefore see through shape arithmetic. A kernel that
 * fails leaves the value unknown; the run will report it.
 *
 * A constant is the value of a live token: the output of a Switch still may be dead.
 */
#include "graph/graph.h"
#include "base/processor.h"

enum { SMALL = 64 };

static bool small(uint8_t dtype, const dfi_shape *s) {
  if (dtype != DF_INT32 && dtype != DF_INT64 && dtype != DF_BOOL && dtype != DF_INT8 && dtype != DF_UINT8) return false;
  int64_t n = dfi_shape_size(s);
  return n <= SMALL;                                       /* -1: not known before the kernel ran */
}

static void whole_numbers(dfi_out *out, int32_t rank, int64_t n, const int64_t *v) {
  df_tensor *t = dfi_tensor_make(out->dtype, rank, &n);
  if (!t) return;
  for (int64_t i = 0; i < (rank ? n : 1); i++)
    if (!df_tensor_set_int(t, i, v[i])) { df_tensor_release(t); return; }
  out->constant = t;
}

static void by_kernel(df_node *n, const dfi_op_info *o) {
  enum { MOST = 16 };
  if (n->nin > 64 || n->nout > MOST) return;
  for (int32_t i = 0; i < n->nout; i++)
    if (!small(n->out[i].dtype, &n->out[i].shape)) return;
  const df_tensor *in[64];
  df_value value[64], out[MOST] = { { 0 } };
  const df_value *raw[64];
  df_tensor scratch[MOST];
  uint8_t dtype[MOST];
  for (int32_t i = 0; i < n->nin; i++) {
    df_tensor *t = n->in[i].node->out[n->in[i].index].constant;
    if (!t || t->size > SMALL) return;
    in[i] = t;
    value[i] = (df_value){ .kind = DF_TENSOR, .dtype = t->dtype, .as.tensor = t };
    raw[i] = &value[i];
  }
  for (int32_t i = 0; i < n->nout; i++) dtype[i] = n->out[i].dtype;
  df_error error;
  error.code = DF_OK;
  df_kernel k = { .attrs = n->attrs,
                  .nin = n->nin,
                  .nout = n->nout,
                  .in = in,
                  .raw = raw,
                  .out = out,
                  .out_dtype = dtype,
                  .scratch = scratch,
                  .error = &error };
  const uint32_t mode = dfi_float_mode();
  dfi_set_float_mode(mode | DFI_NO_DENORMALS);             /* as in a run */
  int32_t code = o->op->kernel[DF_REF](&k);
  dfi_set_float_mode(mode);
  for (int32_t i = 0; i < n->nout; i++) {
    df_tensor *t = code ? NULL : out[i].kind == DF_SCALAR ? dfi_tensor_from_scalar(&out[i])
                 : out[i].kind == DF_TENSOR ? df_tensor_retain(out[i].as.tensor) : NULL;
    df_value_release(&out[i]);
    if (t && (t->dtype != dtype[i] || t->size > SMALL)) { df_tensor_release(t); t = NULL; }
    n->out[i].constant = t;
    if (t && n->out[i].shape.rank < 0) n->out[i].shape = dfi_shape_of(t->rank, t->dims);
    else if (t && n->out[i].shape.rank == t->rank)
      for (int32_t d = 0; d < t->rank; d++) n->out[i].shape.dims[d] = t->dims[d];
  }
}

void dfi_fold_node(df_node *n, const dfi_op_info *o) {
  switch (o->fold) {
    case DFI_FOLD_KERNEL:
      if (n->nin && n->in[0].node->out[n->in[0].index].constant) by_kernel(n, o);
      break;
    case DFI_FOLD_PASS: {
      if (o->op->flow == DF_ENTER && !n->attrs[DFI_ENTER_IS_CONSTANT].i) break;
      for (int32_t i = 0; i < n->nout; i++) {
        df_output from = n->in[o->op->flow == DF_SWITCH ? 0 : i];
        df_tensor *t = from.node->out[from.index].constant;
        if (t) n->out[i].constant = df_tensor_retain(t);
      }
      break;
    }
    case DFI_FOLD_SHAPE:
      for (int32_t i = 0; i < n->nout && i < n->nin; i++) {
        const dfi_shape *s = dfi_shape_at(n->in[i]);
        if (dfi_shape_known(s)) whole_numbers(&n->out[i], 1, s->rank, s->dims);
      }
      break;
    case DFI_FOLD_SIZE: {
      int64_t size = dfi_shape_size(dfi_shape_at(n->in[0]));
      if (size >= 0 && size < INT64_MAX) whole_numbers(&n->out[0], 0, 1, &size);
      break;
    }
    case DFI_FOLD_RANK: {
      int64_t rank = dfi_shape_at(n->in[0])->rank;
      if (rank >= 0) whole_numbers(&n->out[0], 0, 1, &rank);
      break;
    }
  }
}
