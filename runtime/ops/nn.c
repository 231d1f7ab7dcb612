/* nn.c: the entries of softmax, the cross entropies, bias_add and l2_loss. Classes lie along the last axis. */
#include "op/op.h"
#include "graph/grad.h"
#include "kernels/nn.h"

/* ---- shapes ------------------------------------------------------------------------------------------- */

static int32_t shape_softmax(dfi_infer *c) {
  if (dfi_in_shape(c, 0)->rank == 0) return dfi_infer_fail(c, "the logits need at least one axis, got a scalar");
  return dfi_shape_same(c);
}

static int32_t xent(dfi_infer *c, bool sparse) {
  dfi_shape logits = *dfi_in_shape(c, 0), labels = *dfi_in_shape(c, 1), loss;
  char a[160], b[160];
  if (logits.rank == 0) return dfi_infer_fail(c, "the logits need at least one axis, got a scalar");
  if (sparse) {
    loss = labels;
    if (logits.rank > 0) {
      dfi_shape rows = logits;
      rows.rank--;
      if (!dfi_shape_merge(&rows, &labels, &loss))
        return dfi_infer_fail(
            c, "labels must have the shape of the logits without its last axis: logits are %s, labels %s",
            dfi_typed_shape_text(dfi_in_dtype(c, 0), &logits, a), dfi_typed_shape_text(dfi_in_dtype(c, 1), &labels, b));
    }
  } else {
    dfi_shape both;
    bool known = logits.rank >= 0 && labels.rank >= 0;
    if (known ? logits.rank != labels.rank || !dfi_shape_broadcast(&logits, &labels, &both)
              : !dfi_shape_merge(&logits, &labels, &both))
      return dfi_infer_fail(c, "labels must have the shape of the logits: logits are %s, labels %s",
                            dfi_typed_shape_text(dfi_in_dtype(c, 0), &logits, a),
                            dfi_typed_shape_text(dfi_in_dtype(c, 1), &labels, b));
    loss = logits = both;
    if (loss.rank > 0) loss.rank--;
  }
  *dfi_set_shape(c, 0) = loss;
  *dfi_set_shape(c, 1) = logits;
  return DF_OK;
}
static int32_t shape_xent(dfi_infer *c)        { return xent(c, false); }
static int32_t shape_sparse_xent(dfi_infer *c) { return xent(c, true); }

static bool channels_first(const df_node *n) { return strcmp(n->attrs[0].s, "NCHW") == 0; }

/* The channel axis of a shape whose rank is known. -1 after a failure. */
static int32_t channel_axis(dfi_infer *c, const dfi_shape *x) {
  const char *format = c->node->attrs[0].s;
  char text[160];
  int32_t axis = channels_first(c->node) ? 1 : x->rank - 1;
  if (x->rank >= 2) return axis;
  if (x->rank < 0) return 0;
  dfi_infer_fail(c, "%s has no channel axis beside the batch's for data_format '%s'",
                 dfi_typed_shape_text(dfi_in_dtype(c, 0), x, text), format);
  return -1;
}

static int32_t shape_bias_add(dfi_infer *c) {
  dfi_shape x = *dfi_in_shape(c, 0), bias = dfi_shape_vector(-1);
  char a[160], b[160];
  int32_t axis = channel_axis(c, &x);
  if (axis < 0) return DF_INVALID_ARGUMENT;
  bool fits = dfi_shape_merge(&bias, dfi_in_shape(c, 1), &bias);
  if (fits && x.rank > 0) {
    if (x.dims[axis] < 0) x.dims[axis] = bias.dims[0];
    fits = bias.dims[0] < 0 || bias.dims[0] == x.dims[axis];
  }
  if (!fits)
    return dfi_infer_fail(c, "bias must have one element per channel: value is %s, bias %s",
                          dfi_typed_shape_text(dfi_in_dtype(c, 0), &x, a),
                          dfi_typed_shape_text(dfi_in_dtype(c, 1), dfi_in_shape(c, 1), b));
  *dfi_set_shape(c, 0) = x;
  return DF_OK;
}

static int32_t shape_bias_add_grad(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0);
  int32_t axis = channel_axis(c, x);
  if (axis < 0) return DF_INVALID_ARGUMENT;
  *dfi_set_shape(c, 0) = dfi_shape_vector(x->rank < 0 ? -1 : x->dims[axis]);
  return DF_OK;
}

/* ---- gradients ------------------------------------------------------------------------------------------ */

static df_output last_axis_sum(dfi_build *b, df_output x) {
  int64_t last = -1;
  dfi_attr_int(b, "keep_dims", true);
  return dfi_op(b, "Sum", x, dfi_const_ints(b, 1, &last));
}
static df_output column(dfi_build *b, df_output x) { return dfi_op(b, "ExpandDims", x, dfi_const_int(b, -1)); }

/* (v - sum(v y)) y: what the derivative of softmax with value y does to v. */
static df_output through_softmax(dfi_build *b, df_output v, df_output y) {
  return dfi_op(b, "Mul", dfi_op(b, "Sub", v, last_axis_sum(b, dfi_op(b, "Mul", v, y))), y);
}

static int32_t grad_softmax(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = through_softmax(dfg_build(g), dy[0], dfg_out(g, n, 0));
  return dfg_end(g);
}

static int32_t grad_log_softmax(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  dx[0] = dfi_op(b, "Sub", dy[0], dfi_op(b, "Mul", last_axis_sum(b, dy[0]), dfi_op(b, "Exp", dfg_out(g, n, 0))));
  return dfg_end(g);
}

/* Is an axis of input i one where that of the other is known not to be, or is not known? */
static bool broadcasts(const df_node *n, int32_t i) {
  const dfi_shape *own = dfi_shape_at(n->in[i]), *other = dfi_shape_at(n->in[1 - i]);
  for (int32_t d = 0; d < own->rank && d < other->rank; d++)
    if (own->dims[d] == 1 && other->dims[d] != 1) return true;
  return false;
}

/* backprop is the derivative of loss by the logits, so it is all that the first order needs. The gradient of backprop,
 * which the second order asks for, is that of softmax. */
static int32_t grad_xent(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  if (dy[0].node) dx[0] = dfi_op(b, "Mul", column(b, dy[0]), dfg_out(g, n, 1));
  if (dy[1].node) {
    df_output second = through_softmax(b, dy[1], dfi_op(b, "Softmax", dfg_in(g, n, 0)));
    dx[0] = dx[0].node ? dfi_op(b, "Add", dx[0], second) : second;
  }
  if (strcmp(dfi_op_info_at(n->op)->op->type, "SoftmaxCrossEntropyWithLogits")) return dfg_end(g);
  if (dx[0].node && broadcasts(n, 0)) dx[0] = dfg_unbroadcast(g, n, 0, dx[0]);
  if (!dfg_wants(g, n, 1)) return dfg_end(g);
  if (dy[0].node) {
    df_output cost = dfi_op(b, "Neg", dfi_op(b, "LogSoftmax", dfg_in(g, n, 0)));
    dx[1] = dfi_op(b, "Mul", column(b, dy[0]), cost);
  }
  if (dy[1].node) {
    df_output second = dfi_op(b, "Neg", dy[1]);
    dx[1] = dx[1].node ? dfi_op(b, "Add", dx[1], second) : second;
  }
  if (dx[1].node && broadcasts(n, 1)) dx[1] = dfg_unbroadcast(g, n, 1, dx[1]);
  return dfg_end(g);
}

static int32_t grad_bias_add(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  dx[0] = dy[0];
  if (!dfg_wants(g, n, 1)) return dfg_end(g);
  dfi_attr_string(b, "data_format", n->attrs[0].s);
  dx[1] = dfi_op(b, "BiasAddGrad", dy[0]);
  return dfg_end(g);
}

static int32_t grad_bias_add_grad(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output t = dy[0];
  int32_t rank = dfi_shape_at(n->in[0])->rank;
  if (channels_first(n)) {
    if (rank < 0)
      return dfg_fail(g, n,
                      "the gradient of BiasAddGrad with NCHW needs the rank of its input to be known while building");
    int64_t dims[DF_MAX_RANK];
    for (int32_t i = 0; i < rank; i++) dims[i] = i == 1 ? -1 : 1;
    t = dfi_op(b, "Reshape", t, dfi_const_ints(b, rank, dims));
  }
  dx[0] = dfi_op(b, "BroadcastTo", t, dfg_in_shape(g, n, 0));
  return dfg_end(g);
}

static int32_t grad_l2_loss(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dfi_op(dfg_build(g), "Mul", dfg_in(g, n, 0), dy[0]);
  return dfg_end(g);
}

/* ---- costs, in ns ----------------------------------------------------------------------------------------- */

static double cost_softmax(const df_kernel *k) { return 50 + 1.0 * (double)k->in[0]->size; }
static double cost_stream(const df_kernel *k)  { return 30 + 0.2 * (double)k->in[0]->size; }

/* ---- entries ------------------------------------------------------------------------------------------------ */

#define KERNELS(name) .kernel = { [DF_REF] = ref_##name, [DF_CPU] = cpu_##name }

static int32_t shape_lrn(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0);
  if (x->rank < 0 || x->rank == 4) return dfi_shape_same(c);
  return dfi_infer_fail(c, "the input has rank %d but must be [batch, rows, columns, depth]", x->rank);
}

/* With S the sum over the channels within the radius (a product with a band of ones) and n = bias + alpha S(x^2):
   dx = dy n^-beta - 2 alpha beta x S(dy x n^(-beta - 1)). */
static int32_t grad_lrn(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const df_output x = dfg_in(g, n, 0);
  const uint8_t dtype = dfi_dtype(x);
  const double alpha = n->attrs[2].f, beta = n->attrs[3].f;
  const df_output depth = dfi_op(b, "Gather", dfi_op(b, "Shape", x), dfi_const_int(b, 3));
  const df_output ones = dfi_op(b, "Fill", dfi_op(b, "Pack", depth, depth), dfi_const(b, dtype, 1));
  const int64_t given = n->attrs[0].i < INT32_MAX ? n->attrs[0].i : INT32_MAX;
  const df_output radius = dfi_op(b, "Minimum", dfi_const_int(b, given), depth);    /* at most its matrix wide */
  const df_output band = dfi_op(b, "MatrixBandPart", ones, radius, radius);
  const df_output squares = dfi_op(b, "BatchMatMulV2", dfi_op(b, "Square", x), band);
  const df_output norm = dfi_op(b, "Add", dfi_op(b, "Mul", squares, dfi_const(b, dtype, alpha)),
                                dfi_const(b, dtype, n->attrs[1].f));
  const df_output scaled = dfi_op(b, "Mul", dy[0], dfi_op(b, "Pow", norm, dfi_const(b, dtype, -beta)));
  const df_output inner = dfi_op(b, "RealDiv", dfi_op(b, "Mul", scaled, x), norm);
  const df_output others = dfi_op(b, "Mul", x, dfi_op(b, "BatchMatMulV2", inner, band));
  dx[0] = dfi_op(b, "Sub", scaled, dfi_op(b, "Mul", others, dfi_const(b, dtype, 2 * alpha * beta)));
  return dfg_end(g);
}

static const df_op ops[] = {
  { .type = "LRN", .lua = "lrn", .in = "input:T", .out = "output:T", .types = "T=float",
    .attrs = "depth_radius:int[0..]=5 bias:float=1 alpha:float=1 beta:float=0.5",
    .doc = "T[batch, rows, columns, depth] = lrn(input; depth_radius, bias, alpha, beta): each element divided by "
    "(bias + alpha * the sum of squares of the channels within depth_radius) ^ beta: local response normalization",
    .example = "df.lrn({{{{1.0, 2.0, 3.0}}}}, {depth_radius = 1})",
    .output = "[[[[0.4082 0.5164 0.8018]]]] float32[1,1,1,3]",
    .derivative = "dy n^-beta - 2 alpha beta x S(dy x n^(-beta - 1)), where S sums over the channels within the "
    "radius and n = bias + alpha S(x^2)",
    .shape = shape_lrn, .grad = grad_lrn, .kernel = { [DF_REF] = ref_lrn } },
  { .type = "Softmax", .lua = "softmax", .in = "logits:T", .out = "softmax:T", .types = "T=float",
    .doc = "exp(x) / sum(exp(x)) along the last axis, without overflow. A row that is all -inf, or holds +inf or NaN, "
    "gives NaN.",
    .example = "df.softmax{1.0, 2.0, 3.0}",
    .output = "[0.0900 0.2447 0.6652] float32[3]",
    .derivative = "logits = softmax * (dy - reduce_sum(dy * softmax, -1, {keep_dims = true}))",
    .shape = shape_softmax, .domain = "-1 1", .grad = grad_softmax, .cost = cost_softmax, KERNELS(softmax) },
  { .type = "LogSoftmax", .work = dfi_work_curve,
    .lua = "log_softmax", .in = "logits:T", .out = "logsoftmax:T", .types = "T=float",
    .doc = "x - log(sum(exp(x))) along the last axis, without overflow. A row that is all -inf, or holds +inf or NaN, "
    "gives NaN.",
    .example = "df.log_softmax{1.0, 2.0, 3.0}",
    .output = "[-2.4076 -1.4076 -0.4076] float32[3]",
    .derivative = "logits = dy - exp(logsoftmax) * reduce_sum(dy, -1, {keep_dims = true})",
    .shape = shape_softmax, .domain = "-1 1", .grad = grad_log_softmax, .cost = cost_softmax, KERNELS(log_softmax) },
  { .type = "SoftmaxCrossEntropyWithLogits", .work = dfi_work_curve, .lua = "softmax_cross_entropy_with_logits",
    .in = "features:T labels:T", .out = "loss:T backprop:T", .types = "T=float",
    .doc = "loss[...] is the cross entropy of labels[..., classes] (each row a distribution: it should sum to 1) and "
    "softmax(features); "
           "backprop is its derivative by the features, softmax - labels. The inputs have one rank and broadcast.",
    .example = "df.softmax_cross_entropy_with_logits(df.float32{{1, 2}}, df.float32{{0, 1}})",
    .output = "[0.3133] float32[1]",
    .derivative = "features = expand_dims(dy, -1) * backprop; labels = -expand_dims(dy, -1) * log_softmax(features)",
    .shape = shape_xent, .grad = grad_xent, .cost = cost_softmax, KERNELS(softmax_xent) },
  { .type = "SparseSoftmaxCrossEntropyWithLogits", .work = dfi_work_curve,
    .lua = "sparse_softmax_cross_entropy_with_logits",
    .in = "features:T labels:Tlabels", .out = "loss:T backprop:T", .types = "T=float Tlabels=int32|int64",
    .doc = "loss[...] is the cross entropy of the class labels[...] and softmax(features[..., classes]); backprop is "
    "its derivative by the "
           "features. A label that is no class is an error.",
    .example = "df.sparse_softmax_cross_entropy_with_logits(df.float32{{1, 2}}, df.int32{1})",
    .output = "[0.3133] float32[1]",
    .derivative = "features = expand_dims(dy, -1) * backprop",
    .shape = shape_sparse_xent, .grad = grad_xent, .cost = cost_softmax, KERNELS(sparse_softmax_xent) },
  { .type = "BiasAdd", .lua = "bias_add", .in = "value:T bias:T", .out = "output:T", .types = "T=number|complex",
    .attrs = "data_format:string[NHWC|NCHW]='NHWC'",
    .doc = "value plus bias[c] in channel c: the last axis, or axis 1 with data_format 'NCHW'.",
    .example = "df.bias_add({{1, 2}, {3, 4}}, {10, 20})  --> {{11, 22}, {13, 24}}",
    .output = "[[11 22]\n [13 24]] int32[2,2]",
    .derivative = "bias = bias_add_grad(dy); value = dy",
    .shape = shape_bias_add, .grad = grad_bias_add, .cost = cost_stream, KERNELS(bias_add) },
  { .type = "BiasAddV1", .in = "value:T bias:T", .out = "output:T", .types = "T=number|complex",
    .attrs = "data_format:string[NHWC|NCHW]='NHWC'",
    .doc = "BiasAdd along the last axis, under its older name",
    .shape = shape_bias_add, .grad = grad_bias_add, .cost = cost_stream, KERNELS(bias_add) },
  { .type = "BiasAddGrad", .lua = "bias_add_grad", .in = "out_backprop:T", .out = "output:T",
    .types = "T=number|complex",
    .attrs = "data_format:string[NHWC|NCHW]='NHWC'",
    .doc = "The sum over all axes but the channels': the last axis, or axis 1 with data_format 'NCHW'.",
    .example = "df.bias_add_grad(df.float32{{1, 2}, {3, 4}})",
    .output = "[4. 6.] float32[2]",
    .derivative = "out_backprop = broadcast_to(dy, shape(out_backprop))",
    .shape = shape_bias_add_grad, .grad = grad_bias_add_grad, .cost = cost_stream, KERNELS(bias_add_grad) },
  { .type = "L2Loss", .lua = "l2_loss", .in = "t:T", .out = "output:T", .types = "T=float",
    .doc = "sum(t^2) / 2, a scalar.", .example = "df.l2_loss({3.0, 4.0})  --> 12.5",
    .output = "12.5",
    .derivative = "t = dy * t",
    .shape = dfi_shape_all_scalar, .domain = "-2 2", .grad = grad_l2_loss, .cost = cost_stream, KERNELS(l2_loss) },
};
const dfi_op_table dfi_ops_nn = { ops, sizeof ops / sizeof *ops };
