/* quantized.c: entries of ops that compute with quantised tensors: windows, pools, ReLU, sums, concatenation, and
 * products fused with bias and requantising. Their ranges are inputs and outputs, each one number.
 */
#include "ops/array.h"
#include "ops/window.h"
#include "graph/grad.h"
#include "kernels/quantize.h"

/* ---- shapes ------------------------------------------------------------------------------------------------- */

/* Outputs from, from + 1, where there are such, are one number each. */
static int32_t tell_range(dfi_infer *c, int32_t from) {
  for (int32_t i = from; i < c->node->nout; i++) *dfi_set_shape(c, i) = dfi_shape_scalar();
  return DF_OK;
}

static int32_t shape_same(dfi_infer *c) {
  *dfi_set_shape(c, 0) = *dfi_in_shape(c, 0);
  return tell_range(c, 1);
}
static int32_t shape_range(dfi_infer *c) { return tell_range(c, 0); }

static int32_t shape_bias(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0), *b = dfi_in_shape(c, 1);
  const int64_t last = x->rank > 0 ? x->dims[x->rank - 1] : -1, n = b->rank == 1 ? b->dims[0] : -1;
  if (x->rank >= 0 && x->rank < 2) return dfi_infer_fail(c, "input has rank %d: expected 2 or more", x->rank);
  if (b->rank >= 0 && b->rank != 1) return dfi_infer_fail(c, "bias has rank %d: expected a vector", b->rank);
  if (last >= 0 && n >= 0 && last != n)
    return dfi_infer_fail(c, "bias has %lld numbers, the last axis of input has %lld places", (long long)n,
                          (long long)last);
  return shape_same(c);
}

/* The attributes begin with strides, padding and dilations, behind them there may be padding_list. */
static int32_t shape_conv_of(dfi_infer *c, const df_attr *pads) {
  static const df_attr explicit = { .s = "EXPLICIT", .i = 8 }, format = { .s = "NHWC", .i = 4 };
  const df_attr *a = c->node->attrs;
  const bool given = pads && pads->i > 0;
  const dfk_conv_attrs attrs = { &a[0], given ? &explicit : &a[1], given ? pads : NULL, &format, &a[2] };
  const int32_t code = dfi_shape_conv(c, attrs, 4, false);
  return code ? code : tell_range(c, 1);
}
static int32_t shape_conv(dfi_infer *c)       { return shape_conv_of(c, NULL); }
static int32_t shape_conv_fused(dfi_infer *c) { return shape_conv_of(c, &c->node->attrs[3]); }

static int32_t shape_pool(dfi_infer *c) {
  const int32_t code = dfi_shape_pool(c, 4, "NHWC");
  return code ? code : tell_range(c, 1);
}

static int32_t shape_matmul(dfi_infer *c) {
  const dfi_shape *a = dfi_in_shape(c, 0), *b = dfi_in_shape(c, 1);
  const bool a_t = c->node->attrs[0].i != 0, b_t = c->node->attrs[1].i != 0;
  int32_t code = dfi_infer_rank(c, 0, 2, "a");
  if (!code) code = dfi_infer_rank(c, 1, 2, "b");
  if (code) return code;
  const int64_t k = a->rank < 0 ? -1 : a->dims[!a_t], l = b->rank < 0 ? -1 : b->dims[b_t];
  if (k >= 0 && l >= 0 && k != l)
    return dfi_infer_fail(c, "the inner dimensions differ, %lld and %lld", (long long)k, (long long)l);
  *dfi_set_shape(c, 0) = dfi_shape_of(2, (int64_t[]){ a->rank < 0 ? -1 : a->dims[a_t],
                                                      b->rank < 0 ? -1 : b->dims[!b_t] });
  return tell_range(c, 1);
}

/* The axis comes first, then as many values as least and greatest numbers of them. */
static int32_t shape_concat(dfi_infer *c) {
  const int32_t n = (c->node->nin - 1) / 3;
  const dfi_shape *first = dfi_in_shape(c, 1);
  int32_t axis = -1;
  const int32_t known = first->rank < 0 ? 0 : dfi_infer_axis(c, 0, first->rank, "concat_dim", &axis);
  if (known < 0) return c->error->code;
  dfi_shape all = *first;
  for (int32_t i = 0; known && i < n; i++) {
    dfi_shape s = *dfi_in_shape(c, 1 + i);
    if (s.rank < 0) continue;
    const int64_t sum = i == 0 ? s.dims[axis] : all.dims[axis] < 0 || s.dims[axis] < 0 ? -1
                                                : all.dims[axis] + s.dims[axis];
    if (s.rank != all.rank) return dfi_infer_fail(c, "values have ranks %d and %d", all.rank, s.rank);
    s.dims[axis] = all.dims[axis] = -1;
    if (!dfi_shape_merge(&all, &s, &all))
      return dfi_infer_fail(c, "values differ in a dimension other than %d", axis);
    all.dims[axis] = sum;
  }
  if (known) *dfi_set_shape(c, 0) = all;
  return tell_range(c, 1);
}

static int32_t shape_reshape(dfi_infer *c) {
  const int32_t code = dfi_infer_reshape(c);
  return code ? code : tell_range(c, 1);
}

/* The ranges are one number each, or one for each place along an axis. */
static int32_t shape_rounded(dfi_infer *c) {
  for (int32_t i = 0; i < c->node->nout; i++)
    *dfi_set_shape(c, i) = *dfi_in_shape(c, i + (c->node->nout > 1));
  return DF_OK;
}

/* ---- gradients: as if nothing were rounded ------------------------------------------------------------------- */

static int32_t grad_rounded(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dy[0];
  return dfg_end(g);
}
static int32_t grad_rounded_within(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const df_output x = dfg_in(g, n, 0), min = dfg_in(g, n, 1), max = dfg_in(g, n, 2);
  dfi_attr_int(b, "axis", n->attrs[5].i);
  dx[0] = dfi_op(b, "QuantizeAndDequantizeV4Grad", dy[0], x, min, max);
  if (!dx[0].node) return dfg_end(g);
  dx[1] = (df_output){ dx[0].node, 1 };
  dx[2] = (df_output){ dx[0].node, 2 };
  return dfg_end(g);
}

/* ---- costs, in ns ------------------------------------------------------------------------------------------- */

static double cost_stream(const df_kernel *k) { return 30 + 0.5 * (double)k->in[0]->size; }
static double cost_matmul(const df_kernel *k) {
  const df_tensor *a = k->in[0], *b = k->in[1];
  const double depth = a->rank == 2 ? (double)a->dims[!dfk_bool(k, 0)] : 1;
  return 300 + (double)a->size * (double)b->size / (depth > 1 ? depth : 1) / 150;
}
static double cost_conv(const df_kernel *k) {
  const df_tensor *in = k->in[0], *f = k->in[1];
  const double channels = in->rank == 4 && in->dims[3] > 0 ? (double)in->dims[3] : 1;
  return 300 + (double)in->size / channels * (double)f->size / 100;
}
static double cost_pool(const df_kernel *k) { return 100 + 2 * (double)k->in[0]->size; }

/* ---- entries -------------------------------------------------------------------------------------------------- */

#define NONE .no_grad = true, .derivative = "none: integers have none"
#define RANGE(OF) "min_" OF ":float32 max_" OF ":float32"
#define PRODUCT_RANGES "min_a:float32 max_a:float32 min_b:float32 max_b:float32"
#define WINDOW_RANGES "min_input:float32 max_input:float32 min_filter:float32 max_filter:float32"
#define ASKED " min_freezed_output:float32 max_freezed_output:float32"
#define OUT_RANGE ":out_type min_output:float32 max_output:float32"
#define OUT_BOUNDS ":out_type output_min:float32 output_max:float32"
#define BYTES "qint8|quint8"
#define POOL .in = "input:T min_input:float32 max_input:float32", \
  .out = "output:T min_output:float32 max_output:float32", .types = "T=" BYTES, \
  .attrs = "ksize:ints[1..] strides:ints[1..] padding:string[SAME|VALID]", .shape = shape_pool, .cost = cost_pool, NONE
#define RELU(OUT) .in = "features:Tinput min_features:float32 max_features:float32", \
  .out = "activations:out_type min_activations:float32 max_activations:float32", \
  .types = "Tinput=quantized out_type=quantized", .attrs = "out_type:dtype=" OUT, .shape = shape_same, \
  .cost = cost_stream, NONE
#define CONV_FUSED(BIAS, OUT) .in = "input:Tinput filter:Tfilter " BIAS WINDOW_RANGES ASKED, \
  .out = "output" OUT_RANGE, \
  .types = "Tinput=" BYTES " Tfilter=qint8 out_type=" BYTES " Tbias=float32|qint32", \
  .attrs = "strides:ints[1..] padding:string[SAME|VALID] dilations:ints[1..]=[1,1,1,1] padding_list:ints=[] " \
           "out_type:dtype=" OUT, \
  .shape = shape_conv_fused, .cost = cost_conv, NONE, \
  .kernel = { [DF_REF] = ref_quantized_conv2d_fused, [DF_CPU] = cpu_quantized_conv2d_fused }
#define MATMUL_FUSED(OUT, RESULT, KINDS) .in = "a:T1 b:T2 bias:Tbias " PRODUCT_RANGES ASKED, \
  .out = "out:Toutput" RESULT, \
  .types = "T1=" BYTES " T2=qint8 Tbias=float32|qint32 Toutput=" KINDS, \
  .attrs = "transpose_a:bool=false transpose_b:bool=false input_quant_mode:string[MIN_FIRST|SCALED]='MIN_FIRST' " \
           "Toutput:dtype" OUT, \
  .shape = shape_matmul, .cost = cost_matmul, NONE, \
  .kernel = { [DF_REF] = ref_quantized_matmul_fused, [DF_CPU] = cpu_quantized_matmul_fused }

#define ROUNDED .in = "input:T input_min:T input_max:T", .out = "output:T", .types = "T=float", \
  .attrs = "signed_input:bool=true num_bits:int[1..63]=8 range_given:bool=false " \
           "round_mode:string[HALF_TO_EVEN|HALF_UP]='HALF_TO_EVEN' narrow_range:bool=false axis:int[-1..]=-1", \
  .shape = shape_rounded, .cost = cost_stream, .kernel = { [DF_REF] = ref_quantize_and_dequantize_v2 }

static const df_op ops[] = {
  { .type = "QuantizeAndDequantizeV2", .lua = "quantize_and_dequantize", ROUNDED, .grad = grad_rounded,
    .doc = "T[...] = quantize_and_dequantize(input T[...], input_min, input_max; num_bits, range_given): the nearest "
           "of the numbers that integers of num_bits stand for, 0 among them; without range_given the range is the "
           "input's",
    .example = "df.quantize_and_dequantize({-1.0, 0.3, 0.6}, -1, 1, {num_bits = 3, range_given = true})",
    .output = "[-1.0000  0.3333  0.6667] float32[3]", .see = "quantize fake_quant_with_min_max_vars",
    .derivative = "dy: as if nothing were rounded" },
  { .type = "QuantizeAndDequantizeV3", .in = "input:T input_min:T input_max:T num_bits:int32", .out = "output:T",
    .types = "T=float",
    .attrs = "signed_input:bool=true range_given:bool=true narrow_range:bool=false axis:int[-1..]=-1",
    .doc = "QuantizeAndDequantizeV2 with num_bits as an input", .shape = shape_rounded, .cost = cost_stream,
    .grad = grad_rounded, .kernel = { [DF_REF] = ref_quantize_and_dequantize_v3 } },
  { .type = "QuantizeAndDequantizeV4", ROUNDED, .grad = grad_rounded_within,
    .doc = "QuantizeAndDequantizeV2, whose gradient is that of the identity within the range" },
  { .type = "QuantizeAndDequantizeV4Grad", .in = "gradients:T input:T input_min:T input_max:T",
    .out = "input_backprop:T input_min_backprop:T input_max_backprop:T", .types = "T=float",
    .attrs = "axis:int[-1..]=-1", .doc = "the gradients where the input lies in its range, and 0 beyond",
    .shape = shape_rounded, .cost = cost_stream, .kernel = { [DF_REF] = ref_quantize_and_dequantize_grad } },
  { .type = "QuantizedConv2D", .lua = "quantized_conv2d", .in = "input:Tinput filter:Tfilter " WINDOW_RANGES,
    .out = "output" OUT_RANGE, .types = "Tinput=" BYTES " Tfilter=" BYTES " out_type=qint32",
    .attrs = "strides:ints[1..] padding:string[SAME|VALID] dilations:ints[1..]=[1,1,1,1] out_type:dtype=qint32",
    .doc = "qint32[n, oh, ow, co] = quantized_conv2d(input[n, h, w, ci], filter[kh, kw, ci, co], min_input, max_input, "
           "min_filter, max_filter; strides, padding): conv2d of what input and filter stand for, quantised as by "
           "quantize; the other results are what the least and the greatest integer of it stand for.",
    .example = "df.cast(df.quantized_conv2d(df.cast(df.ones{1, 2, 2, 1}, 'quint8'), df.cast(df.ones{2, 2, 1, 1}, "
               "'quint8'), 0, 255, 0, 255, {strides = {1, 1, 1, 1}, padding = 'VALID'}), 'int32')",
    .output = "[[[[4]]]] int32[1,1,1,1]", .see = "conv2d quantized_matmul requantize", .shape = shape_conv, NONE,
    .cost = cost_conv, .kernel = { [DF_REF] = ref_quantized_conv2d, [DF_CPU] = cpu_quantized_conv2d } },
  { .type = "QuantizedConv2DWithBiasAndReluAndRequantize", CONV_FUSED("bias:Tbias ", "quint8"),
    .doc = "max(0, conv2d + bias) as integers of the range from 0 to max_freezed_output; a range of the filter for "
           "each channel may be given" },
  { .type = "QuantizedConv2DWithBiasAndRequantize", CONV_FUSED("bias:Tbias ", "qint8"),
    .doc = "conv2d + bias as integers of the range asked for, in which 0 stands for 0" },
  { .type = "QuantizedConv2DAndReluAndRequantize", CONV_FUSED("", "quint8"),
    .doc = "max(0, conv2d) as integers of the range asked for" },
  { .type = "QuantizedConv2DAndRequantize", CONV_FUSED("", "qint8"),
    .doc = "conv2d as integers of the range asked for" },
  { .type = "QuantizedMatMulWithBiasAndReluAndRequantize",
    MATMUL_FUSED("=quint8", " min_out:float32 max_out:float32", BYTES),
    .doc = "max(0, matmul + bias) as integers of the range from 0 to max_freezed_output" },
  { .type = "QuantizedMatMulWithBiasAndRequantize", MATMUL_FUSED("=quint8", " min_out:float32 max_out:float32", BYTES),
    .doc = "matmul + bias as integers of the range asked for" },
  { .type = "QuantizedMatMulWithBiasAndDequantize", MATMUL_FUSED("=float32", "", "float32"),
    .doc = "matmul + bias of what a and b stand for, as floats" },
  { .type = "Requantize", .lua = "requantize",
    .in = "input:Tinput input_min:float32 input_max:float32 requested_output_min:float32 requested_output_max:float32",
    .out = "output" OUT_BOUNDS, .types = "Tinput=quantized out_type=quantized", .attrs = "out_type:dtype",
    .doc = "T[...] = requantize(input[...], input_min, input_max, requested_output_min, requested_output_max; "
           "out_type): the integers of out_type that stand for the same numbers, in the range that is asked for.",
    .example = "df.cast(df.requantize(df.cast({0, 1000, 2000}, 'qint32'), -2^31, 2^31, 0, 4000, {out_type = "
               "'quint8'}), 'int32')",
    .output = "[  0  64 127] int32[3]", .see = "requantization_range quantized_matmul", .shape = shape_same, NONE,
    .cost = cost_stream, .kernel = { [DF_REF] = ref_requantize } },
  { .type = "RequantizationRange", .lua = "requantization_range",
    .in = "input:Tinput input_min:float32 input_max:float32",
    .out = "output_min:float32 output_max:float32", .types = "Tinput=quantized",
    .doc = "output_min, output_max = requantization_range(input[...], input_min, input_max): what the least and the "
           "greatest integer that there are stand for, the first of them 0 at most.",
    .example = "(select(2, df.requantization_range(df.cast({0, 1073741824}, 'qint32'), -1, 1)))",
    .output = "0.5", .see = "requantize",
    .shape = shape_range, NONE, .cost = cost_stream, .kernel = { [DF_REF] = ref_requantization_range } },
  { .type = "QuantizeDownAndShrinkRange", .in = "input:Tinput input_min:float32 input_max:float32",
    .out = "output" OUT_BOUNDS, .types = "Tinput=quantized out_type=quantized", .attrs = "out_type:dtype",
    .doc = "Requantize to the range that RequantizationRange finds", .shape = shape_same, NONE, .cost = cost_stream,
    .kernel = { [DF_REF] = ref_quantize_down } },
  { .type = "QuantizedRelu", RELU("quint8"), .doc = "max(0, what features stand for), in the same range",
    .kernel = { [DF_REF] = ref_quantized_relu } },
  { .type = "QuantizedRelu6", RELU("quint8"), .doc = "what features stand for, from 0 to 6, in the same range",
    .kernel = { [DF_REF] = ref_quantized_relu6 } },
  { .type = "QuantizedBiasAdd", .in = "input:T1 bias:T2 " RANGE("input") " " RANGE("bias"),
    .out = "output:out_type min_out:float32 max_out:float32", .types = "T1=" BYTES " T2=" BYTES " out_type=qint32",
    .attrs = "out_type:dtype=qint32", .doc = "what input and bias stand for, a bias for each place of the last axis",
    .shape = shape_bias, NONE, .cost = cost_stream, .kernel = { [DF_REF] = ref_quantized_add } },
  { .type = "QuantizedMaxPool", POOL, .doc = "MaxPool of integers; their range stays",
    .kernel = { [DF_REF] = ref_quantized_max_pool } },
  { .type = "QuantizedAvgPool", POOL, .doc = "AvgPool of integers, rounded towards 0; their range stays",
    .kernel = { [DF_REF] = ref_quantized_avg_pool } },
  { .type = "QuantizedConcat", .in = "concat_dim:int32 values:T* input_mins:float32* input_maxes:float32*",
    .out = "output:T output_min:float32 output_max:float32", .types = "T=quantized",
    .doc = "values one behind the other, all in the range that holds theirs", .shape = shape_concat, NONE,
    .cost = cost_stream, .kernel = { [DF_REF] = ref_quantized_concat } },
  { .type = "QuantizedReshape", .in = "tensor:T shape:Tshape input_min:float32 input_max:float32",
    .out = "output:T output_min:float32 output_max:float32", .types = "T=quantized Tshape=int32|int64",
    .doc = "Reshape; the range stays", .shape = shape_reshape, NONE, .cost = cost_stream,
    .kernel = { [DF_REF] = ref_quantized_reshape } },
};
const dfi_op_table dfi_ops_quantized = { ops, sizeof ops / sizeof *ops };
