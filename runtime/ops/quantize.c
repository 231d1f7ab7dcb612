/* quantize.c: entries of ops on numbers in few bits: quantising, and back; products; floats rounded as if they were
 * quantised, for training, whose gradient is that of the identity within the range.
 */
#include "op/op.h"
#include "graph/grad.h"
#include "kernels/quantize.h"

/* ---- shapes and checks ---------------------------------------------------------------------------------- */

static int32_t check_mode(dfi_infer *c, int32_t mode, int32_t rounding, int64_t axis) {
  const char *m = c->node->attrs[mode].s;
  if (rounding >= 0 && !strcmp(c->node->attrs[rounding].s, "HALF_TO_EVEN") && strcmp(m, "SCALED"))
    return dfi_infer_fail(c, "round_mode 'HALF_TO_EVEN' is for mode 'SCALED', which is '%s'", m);
  if (axis < -1) return dfi_infer_fail(c, "axis is %lld: expected -1, for all, or an axis", (long long)axis);
  return DF_OK;
}

/* Inputs from..to are one number each. */
static int32_t check_numbers(dfi_infer *c, int32_t from, int32_t to) {
  char text[160];
  for (int32_t i = from; i < to; i++)
    if (dfi_in_shape(c, i)->rank > 0)
      return dfi_infer_fail(c, "input %d (%s) must be one number, it is %s", i,
                            dfi_input_arg(dfi_op_info_at(c->node->op), c->node->nin, i)->name,
                            dfi_typed_shape_text(DF_FLOAT32, dfi_in_shape(c, i), text));
  return DF_OK;
}

static int32_t shape_quantize(dfi_infer *c) {
  const int64_t axis = c->node->attrs[4].i;
  const int32_t code = check_mode(c, 1, 2, axis);
  if (code) return code;
  *dfi_set_shape(c, 0) = *dfi_in_shape(c, 0);
  *dfi_set_shape(c, 1) = *dfi_in_shape(c, 1);
  *dfi_set_shape(c, 2) = *dfi_in_shape(c, 2);
  return axis < 0 ? check_numbers(c, 1, 3) : DF_OK;
}

static int32_t shape_dequantize(dfi_infer *c) {
  const int64_t axis = c->node->attrs[2].i;
  const int32_t code = check_mode(c, 0, -1, axis);
  if (code) return code;
  *dfi_set_shape(c, 0) = *dfi_in_shape(c, 0);
  return axis < 0 ? check_numbers(c, 1, 3) : DF_OK;
}

static int32_t shape_product(dfi_infer *c) {
  const dfi_shape *a = dfi_in_shape(c, 0), *b = dfi_in_shape(c, 1);
  const bool a_t = c->node->attrs[0].i != 0, b_t = c->node->attrs[1].i != 0;
  char s[160], t[160];
  if ((a->rank >= 0 && a->rank != 2) || (b->rank >= 0 && b->rank != 2))
    return dfi_infer_fail(c, "needs two matrices, got %s and %s", dfi_typed_shape_text(dfi_in_dtype(c, 0), a, s),
                          dfi_typed_shape_text(dfi_in_dtype(c, 1), b, t));
  const int64_t m = a->rank < 0 ? -1 : a->dims[a_t], ka = a->rank < 0 ? -1 : a->dims[!a_t];
  const int64_t n = b->rank < 0 ? -1 : b->dims[!b_t], kb = b->rank < 0 ? -1 : b->dims[b_t];
  if (ka >= 0 && kb >= 0 && ka != kb)
    return dfi_infer_fail(c, "the inner dimensions differ, %lld and %lld", (long long)ka, (long long)kb);
  *dfi_set_shape(c, 0) = dfi_shape_of(2, (int64_t[]){ m, n });
  *dfi_set_shape(c, 1) = *dfi_set_shape(c, 2) = dfi_shape_scalar();
  return check_numbers(c, 2, 6);
}

static int32_t check_bits(dfi_infer *c, int32_t at) {
  const int64_t bits = c->node->attrs[at].i;
  if (bits < 2 || bits > 16) return dfi_infer_fail(c, "num_bits is %lld: expected 2 to 16", (long long)bits);
  return DF_OK;
}

static int32_t shape_fake_args(dfi_infer *c) {
  const df_attr *a = c->node->attrs;
  if (!(a[0].f < a[1].f)) return dfi_infer_fail(c, "min is %g and max %g: expected min below max", a[0].f, a[1].f);
  const int32_t code = check_bits(c, 2);
  return code ? code : dfi_shape_same(c);
}

static int32_t shape_fake_vars(dfi_infer *c) {
  int32_t code = check_bits(c, 0);
  if (!code) code = check_numbers(c, 1, 3);
  return code ? code : dfi_shape_same(c);
}

static int32_t shape_fake_vars_grad(dfi_infer *c) {
  int32_t code = check_bits(c, 0);
  if (!code) code = check_numbers(c, 2, 4);
  *dfi_set_shape(c, 0) = *dfi_in_shape(c, 0);
  *dfi_set_shape(c, 1) = *dfi_set_shape(c, 2) = dfi_shape_scalar();
  return code;
}

/* Inputs from, from + 1 have a number for each place of the last axis of input x. */
static int32_t check_channels(dfi_infer *c, int32_t x, int32_t from) {
  char a[160], b[160];
  const dfi_shape *s = dfi_in_shape(c, x);
  for (int32_t i = from; i < from + 2; i++) {
    const dfi_shape *r = dfi_in_shape(c, i);
    const int64_t n = s->rank > 0 ? s->dims[s->rank - 1] : -1;
    if (s->rank != 0 && (r->rank < 0 || (r->rank == 1 && (n < 0 || r->dims[0] < 0 || r->dims[0] == n)))) continue;
    return dfi_infer_fail(c,
                          "input %d (%s) is %s and inputs %s: it must have a number for each place of their last axis",
                          i, dfi_input_arg(dfi_op_info_at(c->node->op), c->node->nin, i)->name,
                          dfi_typed_shape_text(DF_FLOAT32, r, a), dfi_typed_shape_text(DF_FLOAT32, s, b));
  }
  return DF_OK;
}

static int32_t shape_fake_channels(dfi_infer *c) {
  int32_t code = check_bits(c, 0);
  if (!code) code = check_channels(c, 0, 1);
  return code ? code : dfi_shape_same(c);
}

static int32_t shape_fake_channels_grad(dfi_infer *c) {
  int32_t code = check_bits(c, 0);
  if (!code) code = check_channels(c, 1, 2);
  *dfi_set_shape(c, 0) = *dfi_in_shape(c, 0);
  *dfi_set_shape(c, 1) = *dfi_in_shape(c, 2);
  *dfi_set_shape(c, 2) = *dfi_in_shape(c, 3);
  return code;
}

/* ---- gradients ---------------------------------------------------------------------------------------------- */

static int32_t grad_fake_args(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const df_output x = dfg_in(g, n, 0);
  dfi_attr_float(b, "min", n->attrs[0].f);
  dfi_attr_float(b, "max", n->attrs[1].f);
  dfi_attr_int(b, "num_bits", n->attrs[2].i);
  dfi_attr_int(b, "narrow_range", n->attrs[3].i);
  dx[0] = dfi_op(b, "FakeQuantWithMinMaxArgsGradient", dy[0], x);
  return dfg_end(g);
}

static int32_t grad_fake(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx, const char *type) {
  dfi_build *b = dfg_build(g);
  const df_output x = dfg_in(g, n, 0), min = dfg_in(g, n, 1), max = dfg_in(g, n, 2);
  dfi_attr_int(b, "num_bits", n->attrs[0].i);
  dfi_attr_int(b, "narrow_range", n->attrs[1].i);
  dx[0] = dfi_op(b, type, dy[0], x, min, max);
  if (!dx[0].node) return dfg_end(g);
  dx[1] = (df_output){ dx[0].node, 1 };
  dx[2] = (df_output){ dx[0].node, 2 };
  return dfg_end(g);
}

static int32_t grad_fake_vars(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  return grad_fake(g, n, dy, dx, "FakeQuantWithMinMaxVarsGradient");
}
static int32_t grad_fake_channels(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  return grad_fake(g, n, dy, dx, "FakeQuantWithMinMaxVarsPerChannelGradient");
}

/* ---- costs, in ns --------------------------------------------------------------------------------------------- */

static double cost_stream(const df_kernel *k) { return 30 + 0.3 * (double)k->in[0]->size; }
static double cost_product(const df_kernel *k) {
  const df_tensor *a = k->in[0], *b = k->in[1];
  const double depth = a->rank == 2 ? (double)a->dims[!dfk_bool(k, 0)] : 1;
  return 300 + (double)a->size * (double)b->size / (depth > 1 ? depth : 1) / 150;
}

/* ---- entries --------------------------------------------------------------------------------------------------- */

#define FAKE(NAME) .kernel = { [DF_REF] = ref_fake_quant##NAME }, .cost = cost_stream
#define ROUNDS "the nearest of 2^num_bits numbers, from min to max moved until one of them is 0: what training with " \
  "quantised numbers sees. narrow_range: one fewer."

static const df_op ops[] = {
  { .type = "QuantizeV2", .lua = "quantize", .in = "input:float32 min_range:float32 max_range:float32",
    .out = "output:T output_min:float32 output_max:float32", .types = "T=quantized",
    .attrs = "T:dtype mode:string[MIN_COMBINED|MIN_FIRST|SCALED]='MIN_COMBINED' "
             "round_mode:string[HALF_AWAY_FROM_ZERO|HALF_TO_EVEN]='HALF_AWAY_FROM_ZERO' narrow_range:bool=false "
             "axis:int=-1 ensure_minimum_range:float=0.01",
    .doc = "T[...] = quantize(input float32[...], min_range, max_range; T): the integers of T from least to greatest "
           "stand for the numbers from min_range to max_range, which are widened to have 0 among them, and are the "
           "other two results. mode 'SCALED': 0 stands for 0; 'MIN_FIRST': one integer stands for 0. axis: a range for "
           "each place along it.",
    .example = "df.cast(df.quantize({-1.0, 0.0, 1.0}, -1, 1, {T = 'qint8', mode = 'SCALED', narrow_range = true}), "
               "'int32')", .output = "[-127    0  127] int32[3]", .see = "dequantize quantized_matmul",
    .derivative = "none: it rises in steps, so its derivative is zero everywhere; fake_quant_with_min_max_vars has one",
    .shape = shape_quantize, .no_grad = true, .cost = cost_stream, .kernel = { [DF_REF] = ref_quantize } },
  { .type = "Dequantize", .lua = "dequantize", .in = "input:T min_range:float32 max_range:float32",
    .out = "output:dtype", .types = "T=quantized dtype=float32",
    .attrs = "mode:string[MIN_COMBINED|MIN_FIRST|SCALED]='MIN_COMBINED' narrow_range:bool=false axis:int=-1 "
             "dtype:dtype=float32",
    .doc = "float32[...] = dequantize(input T[...], min_range, max_range): the numbers that quantize's integers stand "
           "for, with its mode, narrow_range and axis.",
    .example = "df.dequantize(df.cast({-127, 0, 127}, 'qint8'), -1, 1, {mode = 'SCALED', narrow_range = true})",
    .output = "[-1.  0.  1.] float32[3]", .see = "quantize", .derivative = "none: integers have none",
    .shape = shape_dequantize, .no_grad = true,
    .cost = cost_stream, .kernel = { [DF_REF] = ref_dequantize } },
  { .type = "QuantizedMatMul", .lua = "quantized_matmul",
    .in = "a:T1 b:T2 min_a:float32 max_a:float32 min_b:float32 max_b:float32",
    .out = "out:Toutput min_out:float32 max_out:float32",
    .types = "T1=qint8|quint8 T2=qint8|quint8 Toutput=qint32 Tactivation=quantized",
    .attrs = "transpose_a:bool=false transpose_b:bool=false Toutput:dtype=qint32 Tactivation:dtype=quint8",
    .doc = "qint32[m,n] = quantized_matmul(a T1[m,k], b T2[k,n], min_a, max_a, min_b, max_b): the product of what a "
           "and b stand for, quantised as by quantize; the other results are what the least and the greatest integer "
           "of it stand for. A quarter of the bytes of float32, and with VNNI several times the speed.",
    .example = "df.cast(df.quantized_matmul(df.cast({{1, 2}}, 'quint8'), df.cast({{3}, {4}}, 'quint8'), 0, 255, 0, "
               "255), 'int32')", .output = "[[11]] int32[1,1]", .see = "quantize matmul",
    .derivative = "none: integers have none", .shape = shape_product, .no_grad = true, .cost = cost_product,
    .kernel = { [DF_REF] = ref_quantized_matmul, [DF_CPU] = cpu_quantized_matmul } },
  { .type = "FakeQuantWithMinMaxArgs", .lua = "fake_quant_with_min_max_args", .in = "inputs:float32",
    .out = "outputs:float32", .attrs = "min:float=-6 max:float=6 num_bits:int[2..16]=8 narrow_range:bool=false",
    .doc = "float32[...] = fake_quant_with_min_max_args(inputs float32[...]): " ROUNDS,
    .example = "df.fake_quant_with_min_max_args({-7.0, 0.3, 2.0}, {min = -1, max = 3, num_bits = 2})",
    .derivative = "dy where inputs lie from min to max, zero beyond: as if nothing were rounded",
    .output = "[-1.3333  0.0000  2.6667] float32[3]", .see = "fake_quant_with_min_max_vars quantize",
    .shape = shape_fake_args,
    .grad = grad_fake_args, FAKE() },
  { .type = "FakeQuantWithMinMaxArgsGradient", .in = "gradients:float32 inputs:float32", .out = "backprops:float32",
    .attrs = "min:float=-6 max:float=6 num_bits:int[2..16]=8 narrow_range:bool=false",
    .doc = "the gradients where the inputs are from min to max, and 0 beyond", .shape = shape_fake_args,
    .no_grad = true, FAKE(_grad) },
  { .type = "FakeQuantWithMinMaxVars", .lua = "fake_quant_with_min_max_vars",
    .in = "inputs:float32 min:float32 max:float32", .out = "outputs:float32",
    .attrs = "num_bits:int[2..16]=8 narrow_range:bool=false",
    .doc = "float32[...] = fake_quant_with_min_max_vars(inputs float32[...], min, max): " ROUNDS " min and max may be "
           "learned: they get the gradients of what lies beyond them.",
    .example = "df.fake_quant_with_min_max_vars({-7.0, 0.3, 2.0}, -1, 3, {num_bits = 2})",
    .derivative = "dy where inputs lie from min to max; min gets the sum of dy below it, max of that above it",
    .output = "[-1.3333  0.0000  2.6667] float32[3]", .see = "fake_quant_with_min_max_args quantize",
    .shape = shape_fake_vars,
    .grad = grad_fake_vars, FAKE(_vars) },
  { .type = "FakeQuantWithMinMaxVarsGradient", .in = "gradients:float32 inputs:float32 min:float32 max:float32",
    .out = "backprops_wrt_input:float32 backprop_wrt_min:float32 backprop_wrt_max:float32",
    .attrs = "num_bits:int[2..16]=8 narrow_range:bool=false",
    .doc = "the gradients where the inputs are from min to max; the sum of those below, and of those above",
    .shape = shape_fake_vars_grad, .no_grad = true, FAKE(_vars_grad) },
  { .type = "FakeQuantWithMinMaxVarsPerChannel", .lua = "fake_quant_with_min_max_vars_per_channel",
    .in = "inputs:float32 min:float32 max:float32", .out = "outputs:float32",
    .attrs = "num_bits:int[2..16]=8 narrow_range:bool=false",
    .doc = "float32[..., n] = fake_quant_with_min_max_vars_per_channel(inputs float32[..., n], min float32[n], max "
           "float32[n]): fake_quant_with_min_max_vars with a range for each channel, as the weights of a convolution "
           "have them.",
    .example = "df.fake_quant_with_min_max_vars_per_channel({{-7.0, 0.3}, {2.0, 0.1}}, {-1, 0}, {3, 1}, "
               "{num_bits = 2})",
    .derivative = "as of fake_quant_with_min_max_vars, for each channel",
    .output = "[[-1.3333  0.3333]\n [ 2.6667  0.0000]] float32[2,2]",
    .see = "fake_quant_with_min_max_vars quantize", .shape = shape_fake_channels,
    .grad = grad_fake_channels, FAKE(_channels) },
  { .type = "FakeQuantWithMinMaxVarsPerChannelGradient",
    .in = "gradients:float32 inputs:float32 min:float32 max:float32",
    .out = "backprops_wrt_input:float32 backprop_wrt_min:float32 backprop_wrt_max:float32",
    .attrs = "num_bits:int[2..16]=8 narrow_range:bool=false",
    .doc = "FakeQuantWithMinMaxVarsGradient for each channel",
    .shape = shape_fake_channels_grad, .no_grad = true, FAKE(_channels_grad) },
};
const dfi_op_table dfi_ops_quantize = { ops, sizeof ops / sizeof *ops };
