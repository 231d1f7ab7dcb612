/* grad.c: ops that only the gradient pass builds. */
#include "graph/grad.h"
#include "op/op.h"
#include "kernels/gradient.h"

static int32_t shape_sum_to_shape(dfi_infer *c) {
  *dfi_set_shape(c, 0) = dfi_in_as_shape(c, 1);
  return DF_OK;
}

static int32_t grad_sum_to_shape(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dfi_op(dfg_build(g), "BroadcastTo", dy[0], dfg_in_shape(g, n, 0));
  return dfg_end(g);
}

static double cost_sum(const df_kernel *k) { return k->in[0]->size; }

/* What was saved, given again; the gradient goes where that of the read went which gave it first. */
static int32_t give_input(df_kernel *k, int32_t i) {
  k->out[0] = dfi_value_copy(k->raw[i]);
  return DF_OK;
}
static int32_t kernel_variable_saved(df_kernel *k) { return give_input(k, 1); }
static int32_t kernel_array_saved(df_kernel *k) { return give_input(k, 2); }

static int32_t shape_last(dfi_infer *c) {
  const df_output last = c->node->in[c->node->nin - 1];
  *dfi_set_shape(c, 0) = *dfi_shape_at(last);
  c->node->out[0].of = last.node->out[last.index].of;
  return DF_OK;
}

static int32_t grad_variable_saved(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dy[0];
  return dfg_end(g);
}
static int32_t grad_array_saved(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (dy[0].node) dfg_array(g, 0, "TensorArrayWrite", 2, (df_output[]){ dfg_in(g, n, 1), dy[0] });
  return dfg_end(g);
}

static const df_op ops[] = {
  { .type = "ReadVariableSaved", .remote = DFI_REMOTE_MOVES,
    .traits = DFO_GRAD_PASSES, .in = "resource:handle value:T", .out = "output:T",
    .types = "T=all",
    .doc = "value, which a read of the variable gave before",
    .shape = shape_last, .grad = grad_variable_saved, .kernel = { [DF_REF] = kernel_variable_saved } },
  { .type = "ReadReferenceSaved", .remote = DFI_REMOTE_MOVES,
    .traits = DFO_GRAD_PASSES, .in = "ref:&T value:T", .out = "output:T",
    .types = "T=any",
    .doc = "value, which a read of the reference variable gave before",
    .shape = shape_last, .grad = grad_variable_saved, .kernel = { [DF_REF] = kernel_variable_saved } },
  { .type = "TensorArrayReadSaved", .work = dfi_work_nothing,
    .traits = DFO_ARRAY, .remote = DFI_REMOTE_MOVES, .host_in = 0x2,
    .in = "handle:handle index:I value:T", .out = "output:T",
    .types = "I=int32|int64 T=all",
    .doc = "value, which a read of the array at index gave before",
    .shape = shape_last, .grad = grad_array_saved, .kernel = { [DF_REF] = kernel_array_saved } },
  { .type = "SumToShape", .in = "input:T shape:I", .out = "output:T", .types = "T=float|complex I=int32|int64",
    .doc = "T[shape]: the input summed over what broadcasting a tensor of that shape to the input's shape repeated",
    .shape = shape_sum_to_shape, .grad = grad_sum_to_shape, .cost = cost_sum,
    .kernel = { [DF_REF] = ref_sum_to_shape, [DF_CPU] = cpu_sum_to_shape } },
};

const dfi_op_table dfi_ops_grad = { ops, (int32_t)(sizeof ops / sizeof *ops) };
