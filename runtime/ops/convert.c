/* convert.c: entries of ops that see numbers as numbers of another dtype: complex numbers and their parts, truth, bits.
 * Gradients of complex numbers are TensorFlow's.
 */
#include "op/op.h"
#include "graph/grad.h"
#include "kernels/convert_ops.h"

/* ---- dtypes and shapes ------------------------------------------------------------------------------------ */

/* The output is of this dtype; an attribute that names another one is a mistake. */
static int32_t set_dtype(dfi_infer *c, uint8_t dtype) {
  int64_t asked = c->node->attrs[0].i;
  if (asked && asked != dtype)
    return dfi_infer_fail(c, "the attribute Tout is %s but the result of %s is %s", df_dtype_name((int32_t)asked),
                          df_dtype_name(dfi_in_dtype(c, 0)), df_dtype_name(dtype));
  c->node->out[0].dtype = dtype;
  return DF_OK;
}

static int32_t shape_part(dfi_infer *c) {
  int32_t code = set_dtype(c, dfi_in_dtype(c, 0) == DF_COMPLEX64 ? DF_FLOAT32 : DF_FLOAT64);
  return code ? code : dfi_shape_same(c);
}

static int32_t shape_complex(dfi_infer *c) {
  int32_t code = set_dtype(c, dfi_in_dtype(c, 0) == DF_FLOAT32 ? DF_COMPLEX64 : DF_COMPLEX128);
  return code ? code : dfi_shape_binary(c);
}

static int32_t shape_bitcast(dfi_infer *c) {
  dfi_shape s = *dfi_in_shape(c, 0);
  int32_t from = dfi_dtype_size[dfi_in_dtype(c, 0)], to = dfi_dtype_size[c->node->out[0].dtype];
  char text[160];
  if (s.rank < 0) return DF_OK;
  if (from > to) {
    if (s.rank == DF_MAX_RANK) return dfi_infer_fail(c, "the result would have more than %d axes", DF_MAX_RANK);
    s.dims[s.rank++] = from / to;
  } else if (from < to) {
    if (s.rank == 0 || (s.dims[s.rank - 1] >= 0 && s.dims[s.rank - 1] != to / from))
      return dfi_infer_fail(c, "%s cannot be cast to %s bit by bit: its last axis must be %d",
                            dfi_typed_shape_text(dfi_in_dtype(c, 0), &s, text), df_dtype_name(c->node->out[0].dtype),
                            to / from);
    s.rank--;
  }
  *dfi_set_shape(c, 0) = s;
  return DF_OK;
}

/* ---- gradients ------------------------------------------------------------------------------------------- */

static df_output zeros(dfi_build *b, df_output like) { return dfi_op(b, "ZerosLike", like); }
static df_output as_complex(dfi_build *b, df_output re, df_output im) { return dfi_op(b, "Complex", re, im); }

static int32_t grad_real(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  dx[0] = as_complex(b, dy[0], zeros(b, dy[0]));
  return dfg_end(g);
}
static int32_t grad_imag(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  dx[0] = as_complex(b, zeros(b, dy[0]), dy[0]);
  return dfg_end(g);
}
static int32_t grad_complex(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  if (dfg_wants(g, n, 0)) dx[0] = dfg_unbroadcast(g, n, 0, dfi_op(b, "Real", dy[0]));
  if (dfg_wants(g, n, 1)) dx[1] = dfg_unbroadcast(g, n, 1, dfi_op(b, "Imag", dy[0]));
  return dfg_end(g);
}
static int32_t grad_conj(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dfi_op(dfg_build(g), "Conj", dy[0]);
  return dfg_end(g);
}
/* -dy / (im + re i) */
static int32_t grad_angle(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output x = dfg_in(g, n, 0), turned = as_complex(b, dfi_op(b, "Imag", x), dfi_op(b, "Real", x));
  dx[0] = dfi_op(b, "Neg", dfi_op(b, "Mul", as_complex(b, dy[0], zeros(b, dy[0])), dfi_op(b, "Reciprocal", turned)));
  return dfg_end(g);
}
/* dy x / |x|, and 0 at 0 */
static int32_t grad_complex_abs(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output size = dfg_out(g, n, 0), d = as_complex(b, dy[0], zeros(b, dy[0]));
  dx[0] = dfi_op(b, "DivNoNan", dfi_op(b, "Mul", d, dfg_in(g, n, 0)), as_complex(b, size, zeros(b, size)));
  return dfg_end(g);
}

/* ---- entries ----------------------------------------------------------------------------------------------- */

#define PART .in = "input:T", .out = "output:any", .types = "T=complex", .attrs = "Tout:dtype=invalid", \
  .shape = shape_part

static const df_op ops[] = {
  { .type = "Real", .lua = "real", PART,
    .doc = "float[...] = real(input complex[...]): the real part: float32 of complex64, float64 of complex128",
    .example = "df.real(df.complex64{re = 1, im = 2})  --> 1",
    .output = "1.0",
    .derivative = "dy becomes the real part",
    .grad = grad_real, .kernel = { [DF_REF] = ref_real } },
  { .type = "Imag", .lua = "imag", PART,
    .doc = "float[...] = imag(input complex[...]): the imaginary part",
    .example = "df.imag(df.complex64{re = 1, im = 2})  --> 2",
    .output = "2.0",
    .derivative = "dy becomes the imaginary part",
    .grad = grad_imag, .kernel = { [DF_REF] = ref_imag } },
  { .type = "Angle", .lua = "angle", PART,
    .doc = "float[...] = angle(input complex[...]): the angle to the positive real axis, from -pi to pi",
    .example = "df.angle(df.complex64{re = 0, im = 2})",
    .output = "1.5708",
    .derivative = "dy turned by a right angle and divided by the distance from 0",
    .grad = grad_angle, .kernel = { [DF_REF] = ref_angle } },
  { .type = "ComplexAbs", .lua = "complex_abs", .in = "x:T", .out = "y:any", .types = "T=complex",
    .attrs = "Tout:dtype=invalid",
    .doc = "float[...] = complex_abs(x complex[...]): the distance from 0",
    .example = "df.complex_abs(df.complex64{re = 3, im = 4})  --> 5",
    .output = "5.0",
    .derivative = "dy times x / |x|, zero at 0",
    .shape = shape_part, .grad = grad_complex_abs, .kernel = { [DF_REF] = ref_complex_abs } },
  { .type = "Complex", .lua = "complex", .in = "real:T imag:T", .out = "out:any", .types = "T=float32|float64",
    .attrs = "Tout:dtype=invalid",
    .doc = "complex[...] = complex(real T[...], imag T[...]): complex numbers of these parts, which broadcast: "
    "complex64 of float32, "
           "complex128 of float64",
    .example = "df.complex({1.0, 2.0}, {0.0, -1.0})",
    .output = "[1.+0.j 2.-1.j] complex64[2]",
    .derivative = "the real and the imaginary part of dy",
    .shape = shape_complex, .grad = grad_complex,
    .kernel = { [DF_REF] = ref_complex } },
  { .type = "Conj", .lua = "conj", .in = "input:T", .out = "output:T", .types = "T=number|complex",
    .doc = "T[...] = conj(input T[...]): the complex conjugate; a real number is its own",
    .example = "df.conj(df.complex64{re = 1, im = 2})",
    .output = "{im = -2.0, re = 1.0}",
    .derivative = "input = conj(dy)",
    .shape = dfi_shape_same, .grad = grad_conj,
    .kernel = { [DF_REF] = ref_conj } },
  { .type = "ToBool", .lua = "to_bool", .in = "input:T", .out = "output:bool", .types = "T=any",
    .doc = "bool = to_bool(input): of a scalar, whether it is not 0, false or an empty string; of a larger rank, "
    "whether there are any elements",
    .example = "df.to_bool({0, 0})  --> true",
    .output = "true",
    .shape = dfi_shape_all_scalar, .no_grad = true,
    .kernel = { [DF_REF] = ref_to_bool } },
  { .type = "Bitcast", .traits = DFO_BITS, .lua = "bitcast", .in = "input:T", .out = "output:type",
    .types = "T=number|complex|quantized type=number|complex|quantized", .attrs = "type:dtype",
    .doc = "type[...] = bitcast(input T[...], {type}): the same bytes seen as another dtype. A wider one takes up the "
    "last axis, which must be as "
           "long as it has parts; a narrower one adds such an axis",
    .example = "df.bitcast({1.0, -1.0}, {type = 'int32'})",
    .output = "[ 1065353216 -1082130432] int32[2]",
    .derivative = "none: the same bytes seen as another dtype are no smooth function",
    .shape = shape_bitcast, .no_grad = true,
    .kernel = { [DF_REF] = ref_bitcast } },
};
const dfi_op_table dfi_ops_convert = { ops, sizeof ops / sizeof *ops };
