/* math.c: elementwise math, comparisons, logic, bits, choosing and casts: the entries. All operands of an op have
 * one dtype and broadcast as NumPy's do; a result does not depend on whether it was computed as a number or within a
 * tensor. float16 and bfloat16 are computed in float32 and rounded. Gradients are in ops/math_grad.c, kernels in
 * kernels/cpu/elementwise_*.c and kernels/ref/.
 */
#include "op/op.h"
#include "resource/variant.h"
#include "ops/math.h"
#include "kernels/elementwise.h"

/* ---- shapes -------------------------------------------------------------------------------------------- */
static int32_t shape_select(dfi_infer *c) {
  const dfi_shape *cond = dfi_in_shape(c, 0), *t = dfi_in_shape(c, 1), *e = dfi_in_shape(c, 2);
  dfi_shape out, rows;
  char a[160], b[160];
  if (!dfi_shape_merge(t, e, &out))
    return dfi_infer_fail(c, "t is %s and e is %s: select takes two of one shape (select_v2 broadcasts)",
                          dfi_shape_text(t, a), dfi_shape_text(e, b));
  rows = out.rank > 0 ? dfi_shape_vector(out.dims[0]) : dfi_shape_unknown();
  *dfi_set_shape(c, 0) = out;
  if (cond->rank <= 0 || out.rank < 0) return DF_OK;
  if (cond->rank == 1 && out.rank > 1 && dfi_shape_merge(cond, &rows, &rows)) return DF_OK;
  if (dfi_shape_merge(cond, &out, dfi_set_shape(c, 0))) return DF_OK;
  return dfi_infer_fail(c, "the condition is %s and the values are %s: it must have that shape, or be one bool, or one "
                        "for each row", dfi_shape_text(cond, a), dfi_shape_text(&out, b));
}

static int32_t shape_add_n(dfi_infer *c) {
  char a[160], b[160];
  if (c->node->nin == 0) return dfi_infer_fail(c, "add_n takes a list of at least one tensor");
  dfi_shape all = *dfi_in_shape(c, 0);
  for (int32_t i = 1; i < c->node->nin; i++)
    if (!dfi_shape_merge(&all, dfi_in_shape(c, i), &all))
      return dfi_infer_fail(c, "input %d is %s but those before it are %s: add_n takes tensors of one shape", i,
                            dfi_shape_text(dfi_in_shape(c, i), a), dfi_shape_text(&all, b));
  *dfi_set_shape(c, 0) = all;
  return DF_OK;
}

/* ---- equality of shapes that do not broadcast: an error, or, when that is asked for, an answer ----------------- */
static int32_t shape_equal(dfi_infer *c) {
  dfi_shape s;
  if (c->node->attrs[0].i) return dfi_shape_binary(c);
  if (dfi_shape_known(dfi_in_shape(c, 0)) && dfi_shape_known(dfi_in_shape(c, 1)))
    *dfi_set_shape(c, 0) = dfi_shape_broadcast(dfi_in_shape(c, 0), dfi_in_shape(c, 1), &s) ? s : dfi_shape_scalar();
  return DF_OK;
}
static int32_t equal(df_kernel *k, df_kernel_fn fn, bool apart) {
  dfi_shape s, x = dfi_shape_of(k->in[0]->rank, k->in[0]->dims), y = dfi_shape_of(k->in[1]->rank, k->in[1]->dims);
  if (DFI_LIKELY(dfk_bool(k, 0)) || dfi_shape_broadcast(&x, &y, &s)) return fn(k);
  df_tensor *out = dfk_out(k, 0, DF_BOOL, 0, NULL);
  if (!out) return k->error->code;
  *(bool *)out->data = apart;
  return DF_OK;
}
static int32_t kernel_equal_ref(df_kernel *k)     { return equal(k, ref_equal, false); }
static int32_t kernel_equal(df_kernel *k)         { return equal(k, cpu_equal, false); }
static int32_t kernel_not_equal_ref(df_kernel *k) { return equal(k, ref_not_equal, true); }
static int32_t kernel_not_equal(df_kernel *k)     { return equal(k, cpu_not_equal, true); }

/* ---- costs: nanoseconds -------------------------------------------------------------------------------- */
static double largest(const df_kernel *k) {
  int64_t n = 0;
  for (int32_t i = 0; i < k->nin; i++) if (k->in[i]->size > n) n = k->in[i]->size;
  return (double)n;
}
static double cheap(const df_kernel *k)  { return 0.25 * largest(k); }
static double costly(const df_kernel *k) { return 2 * largest(k); }

/* ---- the entries ---------------------------------------------------------------------------------------- */
#define KERNEL_PAIR(name) .kernel = { [DF_REF] = ref_##name, [DF_CPU] = cpu_##name }
#define KERNELS(name)     KERNEL_PAIR(name), .scalar = scalar_##name
#define REFERENCE(name)   .kernel = { [DF_REF] = ref_##name }
#define FLOAT1  .in = "x:T", .out = "y:T", .types = "T=float", .shape = dfi_shape_same
#define NUMBER1 .in = "x:T", .out = "y:T", .types = "T=number", .shape = dfi_shape_same
#define TEST1   .in = "x:T", .out = "y:bool", .types = "T=float", .shape = dfi_shape_same
#define FEATURES        .in = "features:T", .out = "activations:T", .types = "T=float", .shape = dfi_shape_same
#define FEATURES_NUMBER .in = "features:T", .out = "activations:T", .types = "T=number", .shape = dfi_shape_same
#define FIELD1  .in = "x:T", .out = "y:T", .types = "T=float|complex", .shape = dfi_shape_same
#define RING1   .in = "x:T", .out = "y:T", .types = "T=number|complex", .shape = dfi_shape_same
#define FLOAT2  .in = "x:T y:T", .out = "z:T", .types = "T=float", .shape = dfi_shape_binary
#define FIELD2  .in = "x:T y:T", .out = "z:T", .types = "T=float|complex", .shape = dfi_shape_binary
#define RING2   .in = "x:T y:T", .out = "z:T", .types = "T=number|complex", .shape = dfi_shape_binary
#define NUMBER2 .in = "x:T y:T", .out = "z:T", .types = "T=number", .shape = dfi_shape_binary
#define INT2    .in = "x:T y:T", .out = "z:T", .types = "T=int", .shape = dfi_shape_binary
#define TEST2   .in = "x:T y:T", .out = "z:bool", .types = "T=number", .shape = dfi_shape_binary
#define EQUAL2  .in = "x:T y:T", .out = "z:bool", .types = "T=number|bool|string|complex|quantized", \
  .shape = shape_equal, \
                .attrs = "incompatible_shape_error:bool=true"
#define BOOL2   .in = "x:bool y:bool", .out = "z:bool", .shape = dfi_shape_binary

/* What variants hold adds up element by element. */
static int32_t add_n_ref(df_kernel *k) {
  return k->nin && k->in[0]->dtype == DF_VARIANT ? dfi_variant_add_n(k) : ref_add_n(k);
}
static int32_t add_n_cpu(df_kernel *k) {
  return k->nin && k->in[0]->dtype == DF_VARIANT ? dfi_variant_add_n(k) : cpu_add_n(k);
}

static const df_op ops[] = {

  /* One operand. */
  { .type = "Neg", .traits = DFO_CHEAP, .lua = "negative", RING1,
    .doc = "T[...] = negative(x T[...]): x with the other sign; integers wrap",
    .example = "df.negative({1, -2})", .grad = dfi_grad_neg, .cost = cheap, KERNELS(neg) },
  { .type = "Abs", .traits = DFO_CHEAP, .lua = "abs", NUMBER1,
    .doc = "T[...] = abs(x T[...]): the distance from 0; the smallest integer stays itself",
    .example = "df.abs({-1.5, 2})", .grad = dfi_grad_abs, .cost = cheap, KERNELS(abs) },
  { .type = "Sign", .traits = DFO_CHEAP, .lua = "sign", RING1,
    .doc = "T[...] = sign(x T[...]): -1, 0 or 1, as x is below, at or above 0; NaN stays NaN. Its derivative is taken "
    "to be 0",
    .example = "df.sign({-3, 0, 2})", .no_grad = true, .cost = cheap, KERNELS(sign) },
  { .type = "Square", .traits = DFO_CHEAP, .lua = "square", RING1,
    .doc = "T[...] = square(x T[...]): x times itself; integers wrap",
    .example = "df.square({1, -2})", .grad = dfi_grad_square, .cost = cheap, KERNELS(square) },
  { .type = "Sqrt", .traits = DFO_CHEAP, .lua = "sqrt", FIELD1,
    .doc = "T[...] = sqrt(x T[...]): the square root; NaN below 0",
    .example = "df.sqrt({4.0, 9.0})", .grad = dfi_grad_sqrt, .cost = cheap, KERNELS(sqrt) },
  { .type = "Rsqrt", .traits = DFO_CHEAP, .lua = "rsqrt", FIELD1,
    .doc = "T[...] = rsqrt(x T[...]): 1 / sqrt(x); infinite at 0",
    .example = "df.rsqrt({4.0, 16.0})", .grad = dfi_grad_rsqrt, .cost = cheap, KERNELS(rsqrt) },
  { .type = "Reciprocal", .traits = DFO_CHEAP, .lua = "reciprocal", FIELD1,
    .doc = "T[...] = reciprocal(x T[...]): 1 divided by x; infinite at 0",
    .example = "df.reciprocal({2.0, 4.0})", .grad = dfi_grad_reciprocal, .cost = cheap, KERNELS(reciprocal) },
  { .type = "Inv", FIELD1, .doc = "T[...] = Inv: Reciprocal under its older name",
    .grad = dfi_grad_reciprocal, .cost = cheap, KERNELS(reciprocal) },
  { .type = "Exp", .work = dfi_work_curve, .traits = DFO_CHEAP | DFO_CURVE, .lua = "exp", FIELD1,
    .doc = "T[...] = exp(x T[...]): e^x",
    .example = "df.exp({0.0, 1.0})", .grad = dfi_grad_exp, .cost = costly, KERNELS(exp) },
  { .type = "Expm1", .work = dfi_work_curve, .lua = "expm1", FIELD1,
    .doc = "T[...] = expm1(x T[...]): e^x - 1, exact near 0",
    .example = "df.expm1({1e-6})", .grad = dfi_grad_expm1, .cost = costly, KERNELS(expm1) },
  { .type = "Log", .work = dfi_work_curve, .traits = DFO_CHEAP | DFO_CURVE, .lua = "log", FIELD1,
    .doc = "T[...] = log(x T[...]): the natural logarithm; -inf at 0, NaN below",
    .example = "df.log({1.0, 2.0})", .grad = dfi_grad_log, .cost = costly, KERNELS(log) },
  { .type = "Log1p", .work = dfi_work_curve, .lua = "log1p", FIELD1,
    .doc = "T[...] = log1p(x T[...]): log(1 + x), exact near 0",
    .example = "df.log1p({1e-6})", .grad = dfi_grad_log1p, .cost = costly, KERNELS(log1p) },
  { .type = "Sin", .work = dfi_work_curve, .traits = DFO_CHEAP | DFO_CURVE, .lua = "sin", FIELD1,
    .doc = "T[...] = sin(x T[...]): the sine of radians",
    .example = "df.sin({0.0, 0.5})", .grad = dfi_grad_sin, .cost = costly, KERNELS(sin) },
  { .type = "Cos", .work = dfi_work_curve, .traits = DFO_CHEAP | DFO_CURVE, .lua = "cos", FIELD1,
    .doc = "T[...] = cos(x T[...]): the cosine of radians",
    .example = "df.cos({0.0, 0.5})", .grad = dfi_grad_cos, .cost = costly, KERNELS(cos) },
  { .type = "Tan", .lua = "tan", FIELD1,
    .doc = "T[...] = tan(x T[...]): the tangent of radians",
    .example = "df.tan({0.0, 0.5})", .grad = dfi_grad_tan, .cost = costly, KERNELS(tan) },
  { .type = "Asin", .lua = "asin", FIELD1,
    .doc = "T[...] = asin(x T[...]): the arc sine; NaN outside [-1, 1]",
    .example = "df.asin({0.0, 0.5})", .grad = dfi_grad_asin, .cost = costly, KERNELS(asin) },
  { .type = "Acos", .lua = "acos", FIELD1,
    .doc = "T[...] = acos(x T[...]): the arc cosine; NaN outside [-1, 1]",
    .example = "df.acos({0.0, 0.5})", .grad = dfi_grad_acos, .cost = costly, KERNELS(acos) },
  { .type = "Atan", .lua = "atan", FIELD1,
    .doc = "T[...] = atan(x T[...]): the arc tangent",
    .example = "df.atan({0.0, 0.5})", .grad = dfi_grad_atan, .cost = costly, KERNELS(atan) },
  { .type = "Sinh", .work = dfi_work_curve, .traits = DFO_CHEAP | DFO_CURVE, .lua = "sinh", FIELD1,
    .doc = "T[...] = sinh(x T[...]): the hyperbolic sine",
    .example = "df.sinh({0.0, 0.5})", .grad = dfi_grad_sinh, .cost = costly, KERNELS(sinh) },
  { .type = "Cosh", .work = dfi_work_curve, .traits = DFO_CHEAP | DFO_CURVE, .lua = "cosh", FIELD1,
    .doc = "T[...] = cosh(x T[...]): the hyperbolic cosine",
    .example = "df.cosh({0.0, 0.5})", .grad = dfi_grad_cosh, .cost = costly, KERNELS(cosh) },
  { .type = "Tanh", .work = dfi_work_curve, .traits = DFO_CHEAP | DFO_CURVE, .lua = "tanh", FIELD1,
    .doc = "T[...] = tanh(x T[...]): the hyperbolic tangent",
    .example = "df.tanh({0.0, 0.5})", .grad = dfi_grad_tanh, .cost = costly, KERNELS(tanh) },
  { .type = "Asinh", .lua = "asinh", FIELD1,
    .doc = "T[...] = asinh(x T[...]): the inverse hyperbolic sine",
    .example = "df.asinh({0.0, 0.5})", .grad = dfi_grad_asinh, .cost = costly, KERNELS(asinh) },
  { .type = "Acosh", .lua = "acosh", FIELD1,
    .doc = "T[...] = acosh(x T[...]): the inverse hyperbolic cosine; NaN below 1",
    .example = "df.acosh({1.0, 2.0})", .grad = dfi_grad_acosh, .cost = costly, KERNELS(acosh) },
  { .type = "Atanh", .lua = "atanh", FIELD1,
    .doc = "T[...] = atanh(x T[...]): the inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond",
    .example = "df.atanh({0.0, 0.5})", .grad = dfi_grad_atanh, .cost = costly, KERNELS(atanh) },
  { .type = "Erf", .lua = "erf", FLOAT1,
    .doc = "T[...] = erf(x T[...]): the error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x",
    .example = "df.erf({0.0, 0.5})", .grad = dfi_grad_erf, .cost = costly, KERNELS(erf) },
  { .type = "Erfc", .lua = "erfc", FLOAT1,
    .doc = "T[...] = erfc(x T[...]): 1 - erf(x), exact where that is tiny",
    .example = "df.erfc({0.0, 0.5})", .grad = dfi_grad_erfc, .cost = costly, KERNELS(erfc) },
  { .type = "Lgamma", .lua = "lgamma", FLOAT1,
    .doc = "T[...] = lgamma(x T[...]): the logarithm of |gamma(x)|; infinite at 0, -1, -2, ...",
    .example = "df.lgamma({0.5, 4.0})", .grad = dfi_grad_lgamma, .cost = costly, KERNELS(lgamma) },
  { .type = "Digamma", .lua = "digamma", FLOAT1,
    .doc = "T[...] = digamma(x T[...]): the derivative of lgamma; NaN at -1, -2, ...",
    .example = "df.digamma({1.0})", .grad = dfi_grad_digamma, .cost = costly, REFERENCE(digamma) },
  { .type = "Polygamma", .lua = "polygamma", .in = "a:T x:T",
    .out = "z:T", .types = "T=float", .shape = dfi_shape_binary,
    .doc = "T[...] = polygamma(a T, x T[...]): the a-th derivative of digamma at x; a is a whole number, and the "
           "gradient goes to x alone",
    .example = "df.polygamma(1.0, {0.5, 2.0})",
    .grad = dfi_grad_polygamma, .cost = costly, REFERENCE(polygamma) },
  { .type = "Zeta", .lua = "zeta", .in = "x:T q:T", .out = "z:T", .types = "T=float", .shape = dfi_shape_binary,
    .doc = "T[...] = zeta(x T[...], q T[...]): the sum of (q + n)^-x over n from 0, for x > 1; the gradient goes "
           "to q alone",
    .example = "df.zeta(2.0, {1.0, 3.0})", .grad = dfi_grad_zeta, .cost = costly, REFERENCE(zeta) },
  { .type = "Floor", .lua = "floor", FLOAT1,
    .doc = "T[...] = floor(x T[...]): the whole number below",
    .example = "df.floor({-1.5, 1.5})", .no_grad = true, .cost = cheap, KERNELS(floor) },
  { .type = "Ceil", .lua = "ceil", FLOAT1,
    .doc = "T[...] = ceil(x T[...]): the whole number above",
    .example = "df.ceil({-1.5, 1.5})", .no_grad = true, .cost = cheap, KERNELS(ceil) },
  { .type = "Round", .lua = "round", NUMBER1,
    .doc = "T[...] = round(x T[...]): the nearest whole number, halves to the even one",
    .example = "df.round({0.5, 1.5, 2.4})", .no_grad = true, .cost = cheap, KERNELS(round) },
  { .type = "Rint", .lua = "rint", FLOAT1,
    .doc = "T[...] = rint(x T[...]): the nearest whole number, halves to the even one",
    .example = "df.rint({0.5, 1.5, 2.4})", .no_grad = true, .cost = cheap, KERNELS(rint) },
  { .type = "IsNan", .lua = "is_nan", TEST1,
    .doc = "bool[...] = is_nan(x T[...]): not a number: 0 / 0, and what comes of it",
    .example = "df.is_nan({0.0, 0/0})", .no_grad = true, .cost = cheap, KERNELS(is_nan) },
  { .type = "IsInf", .lua = "is_inf", TEST1,
    .doc = "bool[...] = is_inf(x T[...]): infinite, of either sign",
    .example = "df.is_inf({0.0, 1/0})", .no_grad = true, .cost = cheap, KERNELS(is_inf) },
  { .type = "IsFinite", .lua = "is_finite", TEST1,
    .doc = "bool[...] = is_finite(x T[...]): neither infinite nor NaN",
    .example = "df.is_finite({0.0, 1/0})", .no_grad = true, .cost = cheap, KERNELS(is_finite) },

  /* Activations. */
  { .type = "Sigmoid", .work = dfi_work_curve, .traits = DFO_CHEAP | DFO_CURVE, .lua = "sigmoid", FIELD1,
    .doc = "T[...] = sigmoid(x T[...]): 1 / (1 + e^-x)",
    .example = "df.sigmoid({0.0, 2.0})", .grad = dfi_grad_sigmoid, .cost = costly, KERNELS(sigmoid) },
  { .type = "Softplus", .lua = "softplus", FEATURES,
    .doc = "T[...] = softplus(features T[...]): log(1 + e^x), which neither overflows nor loses small x",
    .example = "df.softplus({-1.0, 100.0})", .grad = dfi_grad_softplus, .cost = costly, KERNELS(softplus) },
  { .type = "Relu", .traits = DFO_CHEAP, .lua = "relu", FEATURES_NUMBER,
    .doc = "T[...] = relu(features T[...]): the greater of x and 0; NaN stays",
    .example = "df.relu({-1, 2})", .grad = dfi_grad_relu, .cost = cheap, KERNELS(relu) },
  { .type = "Relu6", .lua = "relu6", FEATURES_NUMBER,
    .doc = "T[...] = relu6(features T[...]): x held between 0 and 6; NaN stays",
    .example = "df.relu6({-1.0, 2.0, 9.0})", .grad = dfi_grad_relu6, .cost = cheap, KERNELS(relu6) },
  { .type = "Elu", .lua = "elu", FEATURES,
    .doc = "T[...] = elu(features T[...]): e^x - 1 below 0, x above",
    .example = "df.elu({-1.0, 2.0})", .grad = dfi_grad_elu, .cost = costly, KERNELS(elu) },
  { .type = "Selu", .lua = "selu", FEATURES,
    .doc = "T[...] = selu(features T[...]): 1.0507 times (x above 0, 1.6733 (e^x - 1) below)",
    .example = "df.selu({-1.0, 2.0})", .grad = dfi_grad_selu, .cost = costly, KERNELS(selu) },
  { .type = "LeakyRelu", .lua = "leaky_relu", FEATURES, .attrs = "alpha:float=0.2",
    .doc = "T[...] = leaky_relu(features T[...]): x above 0, alpha x below",
    .example = "df.leaky_relu({-1.0, 2.0}, {alpha = 0.1})",
    .grad = dfi_grad_leaky_relu, .cost = cheap, KERNEL_PAIR(leaky_relu) },

  /* Two operands, which broadcast. */
  { .type = "Add", .traits = DFO_CHEAP | DFO_ADDS,
    .lua = "add", .in = "x:T y:T", .out = "z:T", .types = "T=number|complex|string",
    .shape = dfi_shape_binary,
    .doc = "T[...] = add(x T[...], y T[...]): x + y; integers wrap; of two strings the second follows the first",
    .example = "df.add({1, 2}, 10)", .grad = dfi_grad_add, .cost = cheap, KERNELS(add) },
  { .type = "AddV2", .traits = DFO_CHEAP | DFO_ADDS, RING2, .doc = "T[...] = AddV2: Add under its newer name",
    .grad = dfi_grad_add, .cost = cheap, KERNELS(add) },
  { .type = "Sub", .traits = DFO_CHEAP | DFO_SUBTRACTS, .lua = "subtract", RING2,
    .doc = "T[...] = subtract(x T[...], y T[...]): x - y; integers wrap",
    .example = "df.subtract({1, 2}, 10)", .grad = dfi_grad_sub, .cost = cheap, KERNELS(sub) },
  { .type = "Mul", .traits = DFO_CHEAP, .lua = "multiply", RING2,
    .doc = "T[...] = multiply(x T[...], y T[...]): x times y; integers wrap",
    .example = "df.multiply({1, 2}, 10)", .grad = dfi_grad_mul, .cost = cheap, KERNELS(mul) },
  { .type = "RealDiv", .traits = DFO_CHEAP, .lua = "realdiv", FIELD2,
    .doc = "T[...] = realdiv(x T[...], y T[...]): x / y, by the rules of IEEE 754. The operator / and df.divide "
           "cast integers to float first",
    .example = "df.realdiv({1.0, 2.0}, 4.0)", .grad = dfi_grad_real_div, .cost = cheap, KERNELS(real_div) },
  { .type = "Div", .hosted = true, RING2,
    .doc = "T[...] = Div: x / y; of integers the quotient without its fraction, and an integer divided by 0 is an "
           "error",
    .grad = dfi_grad_div, .cost = cheap, KERNELS(div) },
  { .type = "MulNoNan", FIELD2, .doc = "T[...] = MulNoNan: x y, and 0 where y is 0, even if x is infinite or NaN",
    .grad = dfi_grad_mul_no_nan, .cost = cheap, KERNELS(mul_no_nan) },
  { .type = "DivNoNan", .lua = "div_no_nan", FIELD2,
    .doc = "T[...] = div_no_nan(x T[...], y T[...]): x / y, and 0 where y is 0",
    .example = "df.div_no_nan({1.0, 2.0}, {0.0, 4.0})",
    .grad = dfi_grad_div_no_nan, .cost = cheap, KERNELS(div_no_nan) },
  { .type = "FloorDiv", .hosted = true, .traits = DFO_CHEAP, .lua = "floordiv", NUMBER2,
    .doc = "T[...] = floordiv(x T[...], y T[...]): the whole number below x / y. An integer divided by 0 is an error",
    .example = "df.floordiv({-7, 7}, 2)", .no_grad = true, .cost = cheap, KERNELS(floor_div) },
  { .type = "FloorMod", .hosted = true, .traits = DFO_CHEAP, .lua = "floormod", NUMBER2,
    .doc = "T[...] = floormod(x T[...], y T[...]): x - y floordiv(x, y): the sign is that of y, as with the % of "
           "Lua. An integer modulo 0 is an error",
    .example = "df.floormod({-7, 7}, 3)", .grad = dfi_grad_floor_mod, .cost = cheap, KERNELS(floor_mod) },
  { .type = "TruncateDiv", .hosted = true, .lua = "truncatediv", NUMBER2,
    .doc = "T[...] = truncatediv(x T[...], y T[...]): x / y without its fraction, as in C. An integer divided by "
           "0 is an error",
    .example = "df.truncatediv({-7, 7}, 2)", .no_grad = true, .cost = cheap, KERNELS(truncate_div) },
  { .type = "TruncateMod", .hosted = true, .lua = "truncatemod", NUMBER2,
    .doc = "T[...] = truncatemod(x T[...], y T[...]): x - y truncatediv(x, y): the sign is that of x, as in C. "
           "An integer modulo 0 is an error",
    .example = "df.truncatemod({-7, 7}, 3)",
    .grad = dfi_grad_truncate_mod, .cost = cheap, KERNELS(truncate_mod) },
  { .type = "Mod", .hosted = true, NUMBER2, .doc = "T[...] = Mod: TruncateMod under its older name",
    .grad = dfi_grad_truncate_mod, .cost = cheap, KERNELS(truncate_mod) },
  { .type = "Pow", .hosted = true, .work = dfi_work_curve, .lua = "pow", RING2,
    .doc = "T[...] = pow(x T[...], y T[...]): x^y. Integers wrap, and an integer to a negative power is an error",
    .example = "df.pow({1, 2, 3}, 2)", .grad = dfi_grad_pow, .cost = costly, KERNELS(pow) },
  { .type = "Maximum", .traits = DFO_CHEAP, .lua = "maximum", NUMBER2,
    .doc = "T[...] = maximum(x T[...], y T[...]): the greater; NaN if either is",
    .example = "df.maximum({1, 5}, 3)", .grad = dfi_grad_maximum, .cost = cheap, KERNELS(maximum) },
  { .type = "Minimum", .traits = DFO_CHEAP, .lua = "minimum", NUMBER2,
    .doc = "T[...] = minimum(x T[...], y T[...]): the lesser; NaN if either is",
    .example = "df.minimum({1, 5}, 3)", .grad = dfi_grad_minimum, .cost = cheap, KERNELS(minimum) },
  { .type = "SquaredDifference", .lua = "squared_difference", RING2,
    .doc = "T[...] = squared_difference(x T[...], y T[...]): (x - y)^2",
    .example = "df.squared_difference({1, 5}, 3)",
    .grad = dfi_grad_squared_difference, .cost = cheap, KERNELS(squared_difference) },
  { .type = "Xdivy", .lua = "xdivy", FIELD2,
    .doc = "T[...] = xdivy(x T[...], y T[...]): x / y, and 0 where x is 0, whatever y",
    .example = "df.xdivy({0.0, 1.0}, {0.0, 2.0})", .grad = dfi_grad_xdivy, .cost = cheap, KERNELS(xdivy) },
  { .type = "Xlogy", .lua = "xlogy", FIELD2,
    .doc = "T[...] = xlogy(x T[...], y T[...]): x log(y), and 0 where x is 0, whatever y",
    .example = "df.xlogy({0.0, 1.0}, {0.0, 2.0})", .grad = dfi_grad_xlogy, .cost = costly, KERNELS(xlogy) },
  { .type = "Xlog1py", .lua = "xlog1py", FIELD2,
    .doc = "T[...] = xlog1py(x T[...], y T[...]): x log(1 + y), and 0 where x is 0, whatever y",
    .example = "df.xlog1py({0.0, 1.0}, {-1.0, 2.0})", .grad = dfi_grad_xlog1py, .cost = costly, KERNELS(xlog1py) },
  { .type = "Atan2", .lua = "atan2", .in = "y:T x:T",
    .out = "z:T", .types = "T=float", .shape = dfi_shape_binary,
    .doc = "T[...] = atan2(y T[...], x T[...]): the angle of the point (x, y), from -pi to pi",
    .example = "df.atan2({1.0, -1.0}, 1.0)", .grad = dfi_grad_atan2, .cost = costly, KERNELS(atan2) },

  /* Comparisons and logic. With NaN only not_equal is true. */
  { .type = "Less", .traits = DFO_CHEAP, .lua = "less", TEST2,
    .doc = "bool[...] = less(x T[...], y T[...]): x < y",
    .example = "df.less({1, 2}, 2)", .no_grad = true, .cost = cheap, KERNELS(less) },
  { .type = "LessEqual", .traits = DFO_CHEAP, .lua = "less_equal", TEST2,
    .doc = "bool[...] = less_equal(x T[...], y T[...]): x <= y",
    .example = "df.less_equal({1, 2}, 2)", .no_grad = true, .cost = cheap, KERNELS(less_equal) },
  { .type = "Greater", .traits = DFO_CHEAP, .lua = "greater", TEST2,
    .doc = "bool[...] = greater(x T[...], y T[...]): x > y",
    .example = "df.greater({1, 2}, 2)", .no_grad = true, .cost = cheap, KERNELS(greater) },
  { .type = "GreaterEqual", .traits = DFO_CHEAP, .lua = "greater_equal", TEST2,
    .doc = "bool[...] = greater_equal(x T[...], y T[...]): x >= y",
    .example = "df.greater_equal({1, 2}, 2)", .no_grad = true, .cost = cheap, KERNELS(greater_equal) },
  { .type = "Equal", .traits = DFO_CHEAP, .lua = "equal", EQUAL2,
    .doc = "bool[...] = equal(x T[...], y T[...]): x == y; strings too. Shapes that do not broadcast are an error, or, "
    "unless "
           "incompatible_shape_error, not equal",
    .example = "df.equal({1, 2}, 2)", .no_grad = true, .cost = cheap, .scalar = scalar_equal,
    .kernel = { [DF_REF] = kernel_equal_ref, [DF_CPU] = kernel_equal } },
  { .type = "NotEqual", .traits = DFO_CHEAP, .lua = "not_equal", EQUAL2,
    .doc = "bool[...] = not_equal(x T[...], y T[...]): x differs from y; strings too",
    .example = "df.not_equal({1, 2}, 2)", .no_grad = true, .cost = cheap, .scalar = scalar_not_equal,
    .kernel = { [DF_REF] = kernel_not_equal_ref, [DF_CPU] = kernel_not_equal } },
  { .type = "ApproximateEqual", .lua = "approximate_equal", .in = "x:T y:T", .out = "z:bool",
    .types = "T=number|complex", .shape = dfi_shape_binary, .attrs = "tolerance:float=1e-05",
    .doc = "bool[...] = approximate_equal(x T[...], y T[...]): |x - y| <= tolerance",
    .example = "df.approximate_equal({1.0}, {1.1}, {tolerance = 0.2})",
    .no_grad = true, .cost = cheap, KERNEL_PAIR(approximate_equal) },
  { .type = "LogicalAnd", .traits = DFO_CHEAP, .lua = "logical_and", BOOL2,
    .doc = "bool[...] = logical_and(x bool[...], y bool[...]): true where both are",
    .example = "df.logical_and({true, false}, true)", .no_grad = true, .cost = cheap, KERNELS(logical_and) },
  { .type = "LogicalOr", .traits = DFO_CHEAP, .lua = "logical_or", BOOL2,
    .doc = "bool[...] = logical_or(x bool[...], y bool[...]): either or both",
    .example = "df.logical_or({true, false}, true)", .no_grad = true, .cost = cheap, KERNELS(logical_or) },
  { .type = "LogicalXor", .lua = "logical_xor", BOOL2,
    .doc = "bool[...] = logical_xor(x bool[...], y bool[...]): one of them, not both",
    .example = "df.logical_xor({true, false}, true)", .no_grad = true, .cost = cheap, KERNELS(logical_xor) },
  { .type = "LogicalNot", .traits = DFO_CHEAP, .lua = "logical_not", .in = "x:bool", .out = "y:bool",
    .shape = dfi_shape_same,
    .doc = "bool[...] = logical_not(x bool[...]): false where x is true, true where it is false",
    .example = "df.logical_not({true, false})", .no_grad = true, .cost = cheap, KERNELS(logical_not) },

  /* Bits. */
  { .type = "BitwiseAnd", .lua = "bitwise_and", INT2,
    .doc = "T[...] = bitwise_and(x T[...], y T[...]): the bits that are set in both",
    .example = "df.bitwise_and({12, 10}, 6)", .no_grad = true, .cost = cheap, KERNELS(bitwise_and) },
  { .type = "BitwiseOr", .lua = "bitwise_or", INT2,
    .doc = "T[...] = bitwise_or(x T[...], y T[...]): the bits that are set in either",
    .example = "df.bitwise_or({12, 10}, 6)", .no_grad = true, .cost = cheap, KERNELS(bitwise_or) },
  { .type = "BitwiseXor", .lua = "bitwise_xor", INT2,
    .doc = "T[...] = bitwise_xor(x T[...], y T[...]): the bits that differ",
    .example = "df.bitwise_xor({12, 10}, 6)", .no_grad = true, .cost = cheap, KERNELS(bitwise_xor) },
  { .type = "Invert", .lua = "invert", .in = "x:T", .out = "y:T", .types = "T=int", .shape = dfi_shape_same,
    .doc = "T[...] = invert(x T[...]): every bit the other way",
    .example = "df.invert({0, 1})", .no_grad = true, .cost = cheap, KERNELS(invert) },
  { .type = "LeftShift", .lua = "left_shift", INT2,
    .doc = "T[...] = left_shift(x T[...], y T[...]): x 2^y, wrapped; y is held between 0 and the width less 1",
    .example = "df.left_shift({1, 2}, 3)", .no_grad = true, .cost = cheap, KERNELS(left_shift) },
  { .type = "RightShift", .lua = "right_shift", INT2,
    .doc = "T[...] = right_shift(x T[...], y T[...]): x / 2^y, rounded down; y is held between 0 and the width "
           "less 1",
    .example = "df.right_shift({16, -16}, 2)", .no_grad = true, .cost = cheap, KERNELS(right_shift) },

  /* Choosing, sums, casts. */
  { .type = "Select", .lua = "select", .in = "condition:bool t:T e:T",
    .out = "output:T", .types = "T=any", .shape = shape_select,
    .doc = "T[...] = select(condition, t T[...], e T[...]): t where condition, e elsewhere; t and e have one "
           "shape, and condition has that shape, or is one bool, or one for each row (axis 0)",
    .example = "df.select({true, false}, {1, 2}, {10, 20})",
    .grad = dfi_grad_select, .cost = cheap, KERNELS(select) },
  { .type = "SelectV2", .traits = DFO_CHEAP, .lua = "select_v2", .in = "condition:bool t:T e:T",
    .out = "output:T", .types = "T=any", .shape = dfi_shape_ternary,
    .doc = "T[...] = select_v2(condition bool[...], t T[...], e T[...]): t where condition, e elsewhere; all "
           "three broadcast",
    .example = "df.select_v2({true, false}, 1, {10, 20})",
    .grad = dfi_grad_select_v2, .cost = cheap, KERNELS(select_v2) },
  { .type = "ClipByValue", .lua = "clip_by_value", .in = "t:T clip_value_min:T clip_value_max:T",
    .out = "output:T", .types = "T=number", .shape = dfi_shape_ternary,
    .doc = "T[...] = clip_by_value(t T[...], clip_value_min, clip_value_max): t held between the bounds, which "
           "broadcast; where they cross, the lower one; NaN stays",
    .example = "df.clip_by_value({1, 5, 9}, 2, 6)",
    .grad = dfi_grad_clip_by_value, .cost = cheap, KERNELS(clip_by_value) },
  { .type = "AddN", .traits = DFO_ADDS, .lua = "add_n", .in = "inputs:T*",
    .out = "sum:T", .types = "T=number|complex|variant", .shape = shape_add_n,
    .doc = "T[...] = add_n(inputs): the sum of a list of tensors of one shape, added in order",
    .example = "df.add_n({df.constant({1, 2}), df.constant({3, 4})})",
    .grad = dfi_grad_add_n, .cost = cheap, .kernel = { [DF_REF] = add_n_ref, [DF_CPU] = add_n_cpu } },
  { .type = "Cast", .traits = DFO_CHEAP, .lua = "cast", .in = "x:SrcT",
    .out = "y:DstT", .types = "SrcT=number|bool|complex|quantized DstT=number|bool|complex|quantized",
    .attrs = "DstT:dtype", .shape = dfi_shape_same,
    .doc = "DstT[...] = cast(x SrcT[...], dtype): a float becomes an integer without its fraction, the nearest "
           "bound where it does not fit, 0 from NaN; integers wrap into narrower ones; what is not 0 is true; of a "
           "complex number the real part is taken, and quantized numbers are their integers",
    .example = "df.cast({1.7, -1.7}, 'int32')", .grad = dfi_grad_cast, .cost = cheap, KERNELS(cast) },

  /* Gradient ops: (y, dy) or (gradients, features), as TensorFlow has them. */
  { .type = "TanhGrad", .work = dfi_work_curve,
    .traits = DFO_CHEAP, .in = "y:T dy:T", .out = "z:T", .types = "T=float|complex",
    .shape = dfi_shape_binary,
    .doc = "T[...] = TanhGrad: dy (1 - y^2), y = tanh(x)",
    .grad = dfi_grad_tanh_grad, .cost = cheap, KERNELS(tanh_grad) },
  { .type = "SigmoidGrad", .work = dfi_work_curve,
    .traits = DFO_CHEAP, .in = "y:T dy:T", .out = "z:T", .types = "T=float|complex",
    .shape = dfi_shape_binary,
    .doc = "T[...] = SigmoidGrad: dy y (1 - y), y = sigmoid(x)",
    .grad = dfi_grad_sigmoid_grad, .cost = cheap, KERNELS(sigmoid_grad) },
  { .type = "SqrtGrad", .traits = DFO_CHEAP, .in = "y:T dy:T", .out = "z:T", .types = "T=float|complex",
    .shape = dfi_shape_binary,
    .doc = "T[...] = SqrtGrad: dy / (2 y), y = sqrt(x)",
    .grad = dfi_grad_sqrt_grad, .cost = cheap, KERNELS(sqrt_grad) },
  { .type = "RsqrtGrad", .traits = DFO_CHEAP, .in = "y:T dy:T", .out = "z:T", .types = "T=float|complex",
    .shape = dfi_shape_binary,
    .doc = "T[...] = RsqrtGrad: -dy y^3 / 2, y = rsqrt(x)",
    .grad = dfi_grad_rsqrt_grad, .cost = cheap, KERNELS(rsqrt_grad) },
  { .type = "ReciprocalGrad", .traits = DFO_CHEAP, .in = "y:T dy:T", .out = "z:T", .types = "T=float|complex",
    .shape = dfi_shape_binary,
    .doc = "T[...] = ReciprocalGrad: -dy y^2, y = 1 / x",
    .grad = dfi_grad_reciprocal_grad, .cost = cheap, KERNELS(reciprocal_grad) },
  { .type = "InvGrad", .in = "y:T dy:T", .out = "z:T", .types = "T=float|complex", .shape = dfi_shape_binary,
    .doc = "T[...] = InvGrad: ReciprocalGrad under its older name",
    .grad = dfi_grad_reciprocal_grad, .cost = cheap, KERNELS(reciprocal_grad) },
  { .type = "ReluGrad", .traits = DFO_CHEAP, .in = "gradients:T features:T",
    .out = "z:T", .types = "T=number", .shape = dfi_shape_binary,
    .doc = "T[...] = ReluGrad: dy where x (or relu(x)) is above 0, else 0",
    .grad = dfi_grad_relu_grad, .cost = cheap, KERNELS(relu_grad) },
  { .type = "Relu6Grad", .in = "gradients:T features:T",
    .out = "z:T", .types = "T=number", .shape = dfi_shape_binary,
    .doc = "T[...] = Relu6Grad: dy where x (or relu6(x)) lies between 0 and 6, else 0",
    .grad = dfi_grad_relu6_grad, .cost = cheap, KERNELS(relu6_grad) },
  { .type = "EluGrad", .in = "gradients:T outputs:T",
    .out = "z:T", .types = "T=float", .shape = dfi_shape_binary,
    .doc = "T[...] = EluGrad: dy (y + 1) below 0, dy above, y = elu(x)",
    .grad = dfi_grad_elu_grad, .cost = cheap, KERNELS(elu_grad) },
  { .type = "SeluGrad", .in = "gradients:T outputs:T",
    .out = "z:T", .types = "T=float", .shape = dfi_shape_binary,
    .doc = "T[...] = SeluGrad: the derivative of selu from its output",
    .grad = dfi_grad_selu_grad, .cost = cheap, KERNELS(selu_grad) },
  { .type = "SoftplusGrad", .in = "gradients:T features:T",
    .out = "z:T", .types = "T=float", .shape = dfi_shape_binary,
    .doc = "T[...] = SoftplusGrad: dy sigmoid(x)",
    .grad = dfi_grad_softplus_grad, .cost = costly, KERNELS(softplus_grad) },
  { .type = "LeakyReluGrad", .in = "gradients:T features:T",
    .out = "z:T", .types = "T=float", .attrs = "alpha:float=0.2", .shape = dfi_shape_binary,
    .doc = "T[...] = LeakyReluGrad: dy where x is above 0, alpha dy elsewhere",
    .grad = dfi_grad_leaky_relu_grad, .cost = cheap, KERNEL_PAIR(leaky_relu_grad) },
};
const dfi_op_table dfi_ops_math = { ops, sizeof ops / sizeof *ops };
