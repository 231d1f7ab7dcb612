/* bands.c: entries of TensorFlow's newer versions of matrix_diag and its kind, which know bands of diagonals: graphs of
 * TensorFlow 2, and late ones of TensorFlow 1, have these for tf.linalg.diag, diag_part, set_diag and trace. */
#include "graph/build.h"
#include "graph/grad.h"
#include "op/op.h"
#include "ops/array.h"
#include "kernels/bands.h"

/* How many diagonals k names, and the outer two of them; 0: not known yet. */
static int64_t diagonals(const dfi_infer *c, int32_t at, int64_t *low, int64_t *high) {
  const df_tensor *k = dfi_in_const((dfi_infer *)c, at);
  if (!k || k->size < 1 || k->size > 2) return 0;
  *low = df_tensor_get_int(k, 0);
  *high = df_tensor_get_int(k, k->size - 1);
  return *high - *low + 1;
}

static int32_t shape_part(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0);
  int64_t low, high;
  const int64_t n = diagonals(c, 1, &low, &high);
  if (x->rank < 2 || n < 1) return DF_OK;
  dfi_shape s = dfi_shape_of(x->rank - 2, x->dims);
  const int64_t rows = x->dims[x->rank - 2], cols = x->dims[x->rank - 1];
  const int64_t down = rows + (high < 0 ? high : 0), across = cols - (low > 0 ? low : 0);
  if (n > 1) s.dims[s.rank++] = n;
  s.dims[s.rank++] = rows < 0 || cols < 0 || down < 0 || across < 0 ? -1 : down < across ? down : across;
  *dfi_set_shape(c, 0) = s;
  return DF_OK;
}

static int32_t shape_matrix(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0);
  const df_tensor *rows = dfi_in_const(c, 2), *cols = dfi_in_const(c, 3);
  int64_t low, high;
  const int64_t n = diagonals(c, 1, &low, &high);
  const int32_t batch = x->rank - (n > 1 ? 2 : 1);
  if (x->rank < 1 || n < 1 || batch < 0 || batch + 2 > DF_MAX_RANK) return DF_OK;
  dfi_shape s = dfi_shape_of(batch + 1, x->dims);
  const int64_t width = x->dims[x->rank - 1];
  int64_t r = rows && rows->size == 1 ? df_tensor_get_int(rows, 0) : -2,
          k = cols && cols->size == 1 ? df_tensor_get_int(cols, 0) : -2;
  const int64_t least_r = width - (high < 0 ? high : 0), least_k = width + (low > 0 ? low : 0);
  if (r == -1 && k == -1) r = k = least_r > least_k ? least_r : least_k;
  if (r == -1) r = k == -2 && least_k > least_r ? -2 : least_r;      /* that may be -1, too, and then it is square */
  if (k == -1) k = r == -2 && least_r > least_k ? -2 : least_k;
  s.rank = (int8_t)(batch + 2);
  s.dims[batch] = width < 0 || r < 0 ? -1 : r;
  s.dims[batch + 1] = width < 0 || k < 0 ? -1 : k;
  *dfi_set_shape(c, 0) = s;
  return DF_OK;
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* The op of this kind and the node's version, with its align. */
static df_output banded(dfi_build *b, const df_node *n, const char *v2, const char *v3, const df_output *in) {
  const bool second = !strcmp(dfi_op_info_at(n->op)->op->type + strlen(dfi_op_info_at(n->op)->op->type) - 2, "V2");
  if (!second) dfi_attr_string(b, "align", n->attrs[0].s);
  const char *type = second ? v2 : v3;
  return in[3].node ? dfi_op(b, type, in[0], in[1], in[2], in[3], in[4]) : dfi_op(b, type, in[0], in[1], in[2]);
}

static df_output zero(dfi_build *b, df_output like) { return dfi_const(b, dfi_dtype(like), 0); }

/* By input i, what is put where there is no element of a diagonal: what of dy goes there, all but `taken`. */
static df_output padded(dfi_grad *g, df_node *n, int32_t i, df_output dy, df_output taken) {
  if (!dfg_wants(g, n, i)) return DFI_NONE;
  return dfi_op(dfg_build(g), "Sub", dfg_unbroadcast(g, n, i, dy), dfg_unbroadcast(g, n, i, taken));
}

static int32_t grad_matrix(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const df_output in[5] = { dy[0], dfg_in(g, n, 1), zero(b, dy[0]) };
  dx[0] = banded(b, n, "MatrixDiagPartV2", "MatrixDiagPartV3", in);
  dx[4] = padded(g, n, 4, dy[0], dx[0]);
  return dfg_end(g);
}
static int32_t grad_part(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const df_output in[5] = { dfi_grad_zeros_like(g, n, 0), dy[0], dfg_in(g, n, 1) };
  dx[0] = banded(b, n, "MatrixSetDiagV2", "MatrixSetDiagV3", in);
  dx[2] = padded(g, n, 2, dy[0], dx[0]);
  return dfg_end(g);
}
static int32_t grad_set(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const df_output k = dfg_in(g, n, 2);
  if (dfg_wants(g, n, 0)) {
    const df_output in[5] = { dy[0], dfi_grad_zeros_like(g, n, 1), k };
    dx[0] = banded(b, n, "MatrixSetDiagV2", "MatrixSetDiagV3", in);
  }
  if (dfg_wants(g, n, 1)) {
    const df_output in[5] = { dy[0], k, zero(b, dy[0]) };
    dx[1] = banded(b, n, "MatrixDiagPartV2", "MatrixDiagPartV3", in);
  }
  return dfg_end(g);
}

#define ENTRY(TYPE, IN, OUT, ATTRS, SHAPE, GRAD, KERNEL, DOC) \
  { .type = TYPE, .in = IN, .out = OUT, .types = "T=any", .attrs = ATTRS, .doc = DOC, .shape = SHAPE, .grad = GRAD, \
    .kernel = { [DF_REF] = KERNEL } }
#define BOTH(TYPE, IN, OUT, SHAPE, GRAD, KERNEL, DOC) \
  ENTRY(TYPE "V3", IN, OUT, "align:string[LEFT_RIGHT|RIGHT_LEFT|LEFT_LEFT|RIGHT_RIGHT]='RIGHT_LEFT'", SHAPE, GRAD, \
        KERNEL, DOC), \
  ENTRY(TYPE "V2", IN, OUT, "", SHAPE, GRAD, KERNEL##_left, DOC ", packed to the left")

static const df_op ops[] = {
  BOTH("MatrixDiag", "diagonal:T k:int32 num_rows:int32 num_cols:int32 padding_value:T", "output:T", shape_matrix,
       grad_matrix, ref_band_matrix, "matrices with these diagonals, from k[1] down to k[0], and padding_value beside"),
  BOTH("MatrixDiagPart", "input:T k:int32 padding_value:T", "diagonal:T", shape_part, grad_part, ref_band_part,
       "the diagonals k[1] down to k[0] of matrices, each a row, filled up with padding_value"),
  BOTH("MatrixSetDiag", "input:T diagonal:T k:int32", "output:T", dfi_shape_same, grad_set, ref_band_set,
       "matrices with other diagonals k[1] down to k[0]"),
};
const dfi_op_table dfi_ops_bands = { ops, (int32_t)(sizeof ops / sizeof *ops) };
