/* lstm.c: TensorFlow's fused LSTM and GRU cells, step by step or over a whole sequence.
 *
 * The weights of an LSTM's four gates stand side by side: i, ci, f, o, in BlockLSTMV2 i, f, ci, o. Gates are outputs
 * because the gradient ops take them.
 */
#include "op/op.h"
#include "graph/grad.h"
#include "kernels/lstm.h"

/* ---- shapes --------------------------------------------------------------------------------------------- */

static int64_t dim(const dfi_infer *c, int32_t i, int32_t d) {
  const dfi_shape *s = dfi_in_shape(c, i);
  return s->rank > d ? s->dims[d] : -1;
}
static dfi_shape of(int32_t rank, int64_t a, int64_t b, int64_t c) {
  return dfi_shape_of(rank, (int64_t[]){ a, b, c });
}

/* x cs_prev …: all outputs are [batch, units]. */
static int32_t shape_cell(dfi_infer *c) {
  for (int32_t i = 0; i < c->node->nout; i++) *dfi_set_shape(c, i) = of(2, dim(c, 0, 0), dim(c, 1, 1), 0);
  return DF_OK;
}

static int32_t shape_cell_grad(dfi_infer *c) {
  int64_t units = dim(c, 1, 1);
  *dfi_set_shape(c, 0) = of(2, dim(c, 0, 0), units, 0);
  *dfi_set_shape(c, 1) = of(2, dim(c, 0, 0), units < 0 ? -1 : 4 * units, 0);
  for (int32_t i = 2; i < 5; i++) *dfi_set_shape(c, i) = *dfi_in_shape(c, i + 2);
  return DF_OK;
}

static int32_t shape_block(dfi_infer *c) {
  for (int32_t i = 0; i < c->node->nout; i++) *dfi_set_shape(c, i) = of(3, dim(c, 1, 0), dim(c, 1, 1), dim(c, 2, 1));
  return DF_OK;
}

static int32_t shape_block_grad(dfi_infer *c) {
  for (int32_t i = 0; i < 8; i++) *dfi_set_shape(c, i) = *dfi_in_shape(c, i + 1);
  return DF_OK;
}

static int32_t shape_gru_grad(dfi_infer *c) {
  int64_t units = dim(c, 1, 1);
  *dfi_set_shape(c, 0) = *dfi_in_shape(c, 0);
  *dfi_set_shape(c, 1) = *dfi_set_shape(c, 2) = *dfi_in_shape(c, 1);
  *dfi_set_shape(c, 3) = of(2, dim(c, 1, 0), units < 0 ? -1 : 2 * units, 0);
  return DF_OK;
}

/* ---- gradients -------------------------------------------------------------------------------------------- */

/* The gradient of output i, zeros where none came. */
static df_output or_zeros(dfi_grad *g, df_node *n, const df_output *dy, int32_t i) {
  return dy[i].node ? dy[i] : dfi_op(dfg_build(g), "ZerosLike", dfg_out(g, n, i));
}

/* rows of `both` are [x, h]: cut apart. */
static void cut(dfi_grad *g, df_node *n, df_output both, int32_t x, df_output *dx, df_output *dh) {
  dfi_build *b = dfg_build(g);
  df_output shape = dfg_in_shape(g, n, x), zeros = dfi_const_ints(b, 2, (int64_t[]){ 0, 0 }),
            width = dfg_in_dim(g, n, x, 1);
  *dx = dfi_op(b, "Slice", both, zeros, shape);
  *dh = dfi_op(b, "Slice", both, dfi_op(b, "Pack", dfi_const_int(b, 0), width),
               dfi_const_ints(b, 2, (int64_t[]){ -1, -1 }));
}
static df_output join(dfi_build *b, df_output x, df_output h) {
  return dfi_op(b, "ConcatV2", x, h, dfi_const_int(b, 1));
}
static df_output product(dfi_build *b, df_output a, df_output c, const char *transposed) {
  dfi_attr_int(b, transposed, 1);
  return dfi_op(b, "MatMul", a, c);
}

/* x cs_prev h_prev w wci wcf wco b -> i cs f o ci co h */
static int32_t grad_cell(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output in[16];
  for (int32_t i = 0; i < 8; i++) in[i] = dfg_in(g, n, i);
  for (int32_t i = 0; i < 6; i++) in[8 + i] = dfg_out(g, n, i);
  in[14] = or_zeros(g, n, dy, 1);
  in[15] = or_zeros(g, n, dy, 6);
  dfi_attr_int(b, "use_peephole", n->attrs[2].i);
  df_node *back = dfi_opnode(b, "LSTMBlockCellGrad", 16, in);
  if (!back) return dfg_end(g);
  df_output gates = { back, 1 };
  dx[1] = (df_output){ back, 0 };
  cut(g, n, product(b, gates, in[3], "transpose_b"), 0, &dx[0], &dx[2]);
  dx[3] = product(b, join(b, in[0], in[2]), gates, "transpose_a");
  for (int32_t i = 4; i < 7; i++) dx[i] = (df_output){ back, i - 2 };
  dx[7] = dfi_op(b, "BiasAddGrad", gates);
  return dfg_end(g);
}

/* seq_len_max x cs_prev h_prev w wci wcf wco b -> i cs f o ci co h */
static int32_t grad_block_by(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx, const char *type,
                             int32_t peephole) {
  dfi_build *b = dfg_build(g);
  df_output in[18];
  for (int32_t i = 0; i < 9; i++) in[i] = dfg_in(g, n, i);
  for (int32_t i = 0; i < 7; i++) in[9 + i] = dfg_out(g, n, i);
  in[16] = or_zeros(g, n, dy, 1);
  in[17] = or_zeros(g, n, dy, 6);
  dfi_attr_int(b, "use_peephole", n->attrs[peephole].i);
  df_node *back = dfi_opnode(b, type, 18, in);
  for (int32_t i = 0; back && i < 8; i++) dx[i + 1] = (df_output){ back, i };
  return dfg_end(g);
}
static int32_t grad_block(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  return grad_block_by(g, n, dy, dx, "BlockLSTMGrad", 2);
}
static int32_t grad_block_v2(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  return grad_block_by(g, n, dy, dx, "BlockLSTMGradV2", 1);
}

/* x h_prev w_ru w_c b_ru b_c -> r u c h. Only h's gradient counts: the gates are there for this function. */
static int32_t grad_gru(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  if (!dy[3].node) return dfg_end(g);
  df_output in[10];
  for (int32_t i = 0; i < 6; i++) in[i] = dfg_in(g, n, i);
  for (int32_t i = 0; i < 3; i++) in[6 + i] = dfg_out(g, n, i);
  in[9] = dy[3];
  df_node *back = dfi_opnode(b, "GRUBlockCellGrad", 10, in);
  if (!back) return dfg_end(g);
  df_output c_bar = { back, 2 }, ru_bar = { back, 3 };
  dx[0] = (df_output){ back, 0 };
  dx[1] = (df_output){ back, 1 };
  dx[2] = product(b, join(b, in[0], in[1]), ru_bar, "transpose_a");
  dx[3] = product(b, join(b, in[0], dfi_op(b, "Mul", in[1], in[6])), c_bar, "transpose_a");
  dx[4] = dfi_op(b, "BiasAddGrad", ru_bar);
  dx[5] = dfi_op(b, "BiasAddGrad", c_bar);
  return dfg_end(g);
}

/* ---- entries ------------------------------------------------------------------------------------------------ */

#define TYPES "T=float16|bfloat16|float32"
#define CELL "x:T cs_prev:T h_prev:T w:T wci:T wcf:T wco:T b:T"
#define GATES "i:T cs:T f:T o:T ci:T co:T h:T"
#define KERNELS(NAME) .kernel = { [DF_REF] = ref_##NAME, [DF_CPU] = cpu_##NAME }

static const df_op ops[] = {
  { .type = "LSTMBlockCell", .work = dfi_work_cell,
    .in = CELL, .out = GATES, .types = TYPES, .attrs = "forget_bias:float=1 cell_clip:float=3 "
    "use_peephole:bool=false",
    .doc = "one step of an LSTM: x T[batch, inputs], cs_prev and h_prev T[batch, units], w T[inputs + units, 4 units], "
    "b T[4 units]",
    .shape = shape_cell, .grad = grad_cell, KERNELS(lstm_cell) },
  { .type = "LSTMBlockCellGrad", .work = dfi_work_cell, .in = CELL " i:T cs:T f:T o:T ci:T co:T cs_grad:T h_grad:T",
    .out = "cs_prev_grad:T dicfo:T wci_grad:T wcf_grad:T wco_grad:T", .types = TYPES, .attrs = "use_peephole:bool",
    .doc = "the gradients of LSTMBlockCell's gates, of cs_prev and of the peepholes",
    .no_grad = true, .shape = shape_cell_grad, .kernel = { [DF_REF] = ref_lstm_cell_grad } },
  { .type = "BlockLSTM", .work = dfi_work_cell, .in = "seq_len_max:int64 " CELL, .out = GATES, .types = TYPES,
    .attrs = "forget_bias:float=1 cell_clip:float=3 use_peephole:bool=false",
    .doc = "LSTMBlockCell for each step of x T[time, batch, inputs] up to seq_len_max; zeros after that",
    .shape = shape_block, .grad = grad_block, KERNELS(block_lstm) },
  { .type = "BlockLSTMV2", .work = dfi_work_cell, .in = "seq_len_max:int64 " CELL, .out = GATES, .types = TYPES,
    .attrs = "cell_clip:float=0 use_peephole:bool=false",
    .doc = "as BlockLSTM, the gates in the order i, f, ci, o and without a bias of its own to forget",
    .shape = shape_block, .grad = grad_block_v2, KERNELS(block_lstm_v2) },
  { .type = "BlockLSTMGrad", .work = dfi_work_cell, .in = "seq_len_max:int64 " CELL " " GATES " cs_grad:T h_grad:T",
    .out = "x_grad:T cs_prev_grad:T h_prev_grad:T w_grad:T wci_grad:T wcf_grad:T wco_grad:T b_grad:T", .types = TYPES,
    .attrs = "use_peephole:bool",
    .doc = "the gradients of BlockLSTM's inputs", .no_grad = true, .shape = shape_block_grad,
    KERNELS(block_lstm_grad) },
  { .type = "BlockLSTMGradV2", .work = dfi_work_cell, .in = "seq_len_max:int64 " CELL " " GATES " cs_grad:T h_grad:T",
    .out = "x_grad:T cs_prev_grad:T h_prev_grad:T w_grad:T wci_grad:T wcf_grad:T wco_grad:T b_grad:T", .types = TYPES,
    .attrs = "use_peephole:bool",
    .doc = "the gradients of BlockLSTMV2's inputs", .no_grad = true, .shape = shape_block_grad,
    KERNELS(block_lstm_grad_v2) },
  { .type = "GRUBlockCell", .work = dfi_work_cell,
    .in = "x:T h_prev:T w_ru:T w_c:T b_ru:T b_c:T", .out = "r:T u:T c:T h:T", .types = TYPES,
    .doc = "one step of a GRU: x T[batch, inputs], h_prev T[batch, units], w_ru T[inputs + units, 2 units], w_c "
    "T[inputs + units, units]",
    .shape = shape_cell, .grad = grad_gru, KERNELS(gru_cell) },
  { .type = "GRUBlockCellGrad", .work = dfi_work_cell, .in = "x:T h_prev:T w_ru:T w_c:T b_ru:T b_c:T r:T u:T c:T d_h:T",
    .out = "d_x:T d_h_prev:T d_c_bar:T d_r_bar_u_bar:T", .types = TYPES,
    .doc = "the gradients of GRUBlockCell's x, h_prev and gates", .no_grad = true, .shape = shape_gru_grad,
    KERNELS(gru_cell_grad) },
};
const dfi_op_table dfi_ops_lstm = { ops, (int32_t)(sizeof ops / sizeof *ops) };
