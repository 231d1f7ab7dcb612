/* ops_grad.c: ops that only the gradient pass builds. */
#include "grad.h"
#include "op.h"
#include "../kernels/gradient.h"

static int32_t shape_sum_to_shape(dfi_infer *c) {
  *dfi_set_shape(c, 0) = dfi_in_as_shape(c, 1);
  return DF_OK;
}

static int32_t grad_sum_to_shape(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dfi_op(dfg_build(g), "BroadcastTo", dy[0], dfg_in_shape(g, n, 0));
  return dfg_end(g);
}

static double cost_sum(const df_kernel *k) { return k->in[0]->size; }

static const df_op ops[] = {
  { .type = "SumToShape", .in = "input:T shape:I", .out = "output:T", .types = "T=float I=int32|int64",
    .doc = "T[shape]: the input summed over what broadcasting a tensor of that shape to the input's shape repeated",
    .shape = shape_sum_to_shape, .grad = grad_sum_to_shape, .cost = cost_sum, .kernel = { [DF_REF] = ref_sum_to_shape } },
};

const dfi_op_table dfi_ops_grad = { ops, (int32_t)(sizeof ops / sizeof *ops) };
