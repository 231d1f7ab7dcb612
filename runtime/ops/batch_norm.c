/* batch_norm.c: TensorFlow's fused batch normalisation: y = (x - mean) / sqrt(variance + epsilon) * scale + offset, by
 * channel.
 *
 * In training, mean and variance are those of x over all but the channel; batch_mean and batch_variance are then what a
 * moving average takes (the variance with n - 1), the reserved ones what the gradient takes. Otherwise they are the
 * inputs. The gradient is made of plain ops.
 */
#include "graph/grad.h"
#include "kernels/nn.h"
#include <string.h>

enum { EPSILON, FACTOR, FORMAT, TRAINING };      /* attributes; as the kernels in kernels/nn.c read them */

/* ---- shapes, gradient ---------------------------------------------------------------------------------------- */

static int32_t shape_norm(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0);
  *dfi_set_shape(c, 0) = *x;
  const bool first = !strncmp(c->node->attrs[FORMAT].s, "NC", 2);
  for (int32_t i = 1; i < c->node->nout; i++)
    *dfi_set_shape(c, i) =
        i == 5 ? dfi_shape_scalar() : dfi_shape_vector(x->rank > 1 ? x->dims[first ? 1 : x->rank - 1] : -1);
  return DF_OK;
}

static int32_t shape_norm_grad(dfi_infer *c) {
  *dfi_set_shape(c, 0) = *dfi_in_shape(c, 1);
  for (int32_t i = 1; i < 5; i++) *dfi_set_shape(c, i) = i < 3 ? *dfi_in_shape(c, 2) : dfi_shape_vector(0);
  return DF_OK;
}

/* One value per channel, so that it goes with x. */
static df_output by_channel(dfi_build *b, df_output v, bool first, int32_t rank) {
  if (!first) return v;
  const int64_t dims[4] = { -1, 1, 1, 1 };
  return dfi_op(b, "Reshape", v, dfi_const_ints(b, rank - 1, dims));
}

static int32_t grad_norm(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const char *format = n->attrs[FORMAT].s;
  const bool first = !strncmp(format, "NC", 2), training = n->attrs[TRAINING].i != 0;
  const int32_t rank = (int32_t)strlen(format);
  if (dy[1].node || dy[2].node)
    return dfg_fail(g, n, "the mean and variance of %s have no gradient", dfi_op_info_at(n->op)->op->type);
  if (!dy[0].node) return dfg_end(g);
  int64_t axis[4], m = 0;
  for (int32_t d = 0; d < rank; d++) if (d != (first ? 1 : rank - 1)) axis[m++] = d;
  const df_output axes = dfi_const_ints(b, (int32_t)m, axis), x = dfg_in(g, n, 0), scale = dfg_in(g, n, 1);
  const df_output mean = training ? dfi_op(b, "Mean", x, axes) : dfg_in(g, n, 3);
  const df_output centred = dfi_op(b, "Sub", x, by_channel(b, mean, first, rank));
  const df_output variance = training ? dfi_op(b, "Mean", dfi_op(b, "Square", centred), axes) : dfg_in(g, n, 4);
  const df_output inverse =
      dfi_op(b, "Rsqrt", dfi_op(b, "Add", variance, dfi_const_like(b, variance, n->attrs[EPSILON].f)));
  const df_output normal = dfi_op(b, "Mul", centred, by_channel(b, inverse, first, rank)),
                  product = dfi_op(b, "Mul", dy[0], normal);
  const df_output by = by_channel(b, dfi_op(b, "Mul", scale, inverse), first, rank);
  df_output d = dy[0];
  if (training) {
    d = dfi_op(b, "Sub", d, by_channel(b, dfi_op(b, "Mean", dy[0], axes), first, rank));
    d = dfi_op(b, "Sub", d, dfi_op(b, "Mul", normal, by_channel(b, dfi_op(b, "Mean", product, axes), first, rank)));
  }
  dx[0] = dfi_op(b, "Mul", by, d);
  dx[1] = dfi_op(b, "Sum", product, axes);
  dx[2] = dfi_op(b, "Sum", dy[0], axes);
  if (training) return dfg_end(g);
  const df_output slope = dfi_op(b, "Mul", dfi_op(b, "Mul", scale, inverse), dx[2]);
  dx[3] = dfi_op(b, "Neg", slope);
  const df_output half = dfi_const_like(b, variance, -0.5);
  dx[4] = dfi_op(b, "Mul", half, dfi_op(b, "Mul", dfi_op(b, "Mul", scale, dx[1]), dfi_op(b, "Square", inverse)));
  return dfg_end(g);
}

/* ---- entries ---------------------------------------------------------------------------------------------------- */

#define FORMAT_AND_TRAINING "data_format:string[NHWC|NCHW|NDHWC|NCDHW]='NHWC' is_training:bool=true"
#define NORM(TYPE, MORE) \
  { .type = TYPE, .in = "x:T scale:T offset:T mean:T variance:T", \
    .out = "y:T batch_mean:T batch_variance:T reserve_space_1:T reserve_space_2:T" MORE, .types = "T=float32|float64", \
    .attrs = "epsilon:float=0.0001 exponential_avg_factor:float=1 " FORMAT_AND_TRAINING, \
    .doc = "batch normalisation of x [n, h, w, c] (or [n, c, h, w]), with the batch's mean and variance in training", \
    .shape = shape_norm, .grad = grad_norm, .kernel = { [DF_REF] = ref_batch_norm, [DF_CPU] = cpu_batch_norm } }
#define NORM_GRAD(TYPE, MORE, LAST) \
  { .type = TYPE, .in = "y_backprop:T x:T scale:T reserve_space_1:T reserve_space_2:T" MORE, \
    .out = "x_backprop:T scale_backprop:T offset_backprop:T " LAST, \
      .types = "T=float32|float64", \
    .attrs = "epsilon:float=0.0001 " FORMAT_AND_TRAINING, \
      .doc = "the gradient of FusedBatchNorm", \
    .shape = shape_norm_grad, .kernel = { [DF_REF] = ref_batch_norm_grad } }

static const df_op ops[] = {
  NORM("FusedBatchNorm", ""),
  NORM("FusedBatchNormV2", ""),
  NORM("FusedBatchNormV3", " reserve_space_3:T"),
  NORM_GRAD("FusedBatchNormGrad", "", "reserve_space_3:T reserve_space_4:T"),
  NORM_GRAD("FusedBatchNormGradV2", "", "reserve_space_3:T reserve_space_4:T"),
  NORM_GRAD("FusedBatchNormGradV3", " reserve_space_3:T", "reserve_space_4:T reserve_space_5:T"),
};
const dfi_op_table dfi_ops_batch_norm = { ops, sizeof ops / sizeof *ops };
