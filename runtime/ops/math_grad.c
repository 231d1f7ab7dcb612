/* math_grad.c: the derivatives of elementwise math, in terms of its own ops, so that they have derivatives in
 * turn. Where a derivative is a function of the output, the output is asked for and not the input: only what is asked
 * for is kept by a loop. In each, dy[0] is what arrives, and what leaves for a broadcast operand is summed to its
 * shape.
 */
#include "ops/math.h"
#include <math.h>

#define GRAD(name) int32_t dfi_grad_##name(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx)
#define IN(i) dfg_conj(g, dfg_in(g, n, i))
#define OUT   dfg_conj(g, dfg_out(g, n, 0))

static df_output neg(dfi_build *b, df_output x)                  { return dfi_op(b, "Neg", x); }
static df_output mul(dfi_build *b, df_output x, df_output y)     { return dfi_op(b, "Mul", x, y); }
static df_output add(dfi_build *b, df_output x, df_output y)     { return dfi_op(b, "Add", x, y); }
static df_output sub(dfi_build *b, df_output x, df_output y)     { return dfi_op(b, "Sub", x, y); }
static df_output quotient(dfi_build *b, df_output x, df_output y) { return dfi_op(b, "RealDiv", x, y); }
static df_output square(dfi_build *b, df_output x)               { return dfi_op(b, "Square", x); }
static df_output number(dfi_build *b, df_output like, double v)  { return dfi_const_like(b, like, v); }
static df_output times(dfi_build *b, double c, df_output x)      { return mul(b, number(b, x, c), x); }
static df_output pick(dfi_build *b, df_output c, df_output x, df_output y) { return dfi_op(b, "SelectV2", c, x, y); }
/* 1 + c x^2 */
static df_output one_and(dfi_build *b, double c, df_output x) {
  df_output one = number(b, x, 1);
  return c < 0 ? sub(b, one, square(b, x)) : add(b, one, square(b, x));
}

/* ---- one operand: dx = dy f'(x) ------------------------------------------------------------------------- */
GRAD(neg)     { dx[0] = neg(dfg_build(g), dy[0]); return dfg_end(g); }
GRAD(abs)     { dfi_build *b = dfg_build(g); dx[0] = mul(b, dy[0], dfi_op(b, "Sign", IN(0))); return dfg_end(g); }
GRAD(square)  { dfi_build *b = dfg_build(g); dx[0] = mul(b, dy[0], times(b, 2, IN(0))); return dfg_end(g); }
GRAD(exp)     { dx[0] = mul(dfg_build(g), dy[0], OUT); return dfg_end(g); }
GRAD(expm1) {
  dfi_build *b = dfg_build(g);
  df_output y = OUT;
  dx[0] = mul(b, dy[0], add(b, y, number(b, y, 1)));
  return dfg_end(g);
}
GRAD(log)     { dx[0] = quotient(dfg_build(g), dy[0], IN(0)); return dfg_end(g); }
GRAD(log1p) {
  dfi_build *b = dfg_build(g);
  df_output x = IN(0);
  dx[0] = quotient(b, dy[0], add(b, x, number(b, x, 1)));
  return dfg_end(g);
}
GRAD(sin)     { dfi_build *b = dfg_build(g); dx[0] = mul(b, dy[0], dfi_op(b, "Cos", IN(0))); return dfg_end(g); }
GRAD(cos) {
  dfi_build *b = dfg_build(g);
  dx[0] = neg(b, mul(b, dy[0], dfi_op(b, "Sin", IN(0))));
  return dfg_end(g);
}
GRAD(tan)     { dfi_build *b = dfg_build(g); dx[0] = mul(b, dy[0], one_and(b, 1, OUT)); return dfg_end(g); }
GRAD(asin) {
  dfi_build *b = dfg_build(g);
  dx[0] = mul(b, dy[0], dfi_op(b, "Rsqrt", one_and(b, -1, IN(0))));
  return dfg_end(g);
}
GRAD(acos) {
  dfi_build *b = dfg_build(g);
  dx[0] = neg(b, mul(b, dy[0], dfi_op(b, "Rsqrt", one_and(b, -1, IN(0)))));
  return dfg_end(g);
}
GRAD(atan)    { dfi_build *b = dfg_build(g); dx[0] = quotient(b, dy[0], one_and(b, 1, IN(0))); return dfg_end(g); }
GRAD(sinh)    { dfi_build *b = dfg_build(g); dx[0] = mul(b, dy[0], dfi_op(b, "Cosh", IN(0))); return dfg_end(g); }
GRAD(cosh)    { dfi_build *b = dfg_build(g); dx[0] = mul(b, dy[0], dfi_op(b, "Sinh", IN(0))); return dfg_end(g); }
GRAD(asinh)   { dfi_build *b = dfg_build(g); dx[0] = quotient(b, dy[0], dfi_op(b, "Cosh", OUT)); return dfg_end(g); }
GRAD(acosh)   { dfi_build *b = dfg_build(g); dx[0] = quotient(b, dy[0], dfi_op(b, "Sinh", OUT)); return dfg_end(g); }
GRAD(atanh)   { dfi_build *b = dfg_build(g); dx[0] = quotient(b, dy[0], one_and(b, -1, IN(0))); return dfg_end(g); }
static int32_t grad_erf(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx, double sign) {
  dfi_build *b = dfg_build(g);
  df_output bell = dfi_op(b, "Exp", neg(b, square(b, IN(0))));
  dx[0] = mul(b, dy[0], times(b, sign * M_2_SQRTPI, bell));
  return dfg_end(g);
}
GRAD(erf)     { return grad_erf(g, n, dy, dx, 1); }
GRAD(erfc)    { return grad_erf(g, n, dy, dx, -1); }
GRAD(lgamma)  { dfi_build *b = dfg_build(g); dx[0] = mul(b, dy[0], dfi_op(b, "Digamma", IN(0))); return dfg_end(g); }
GRAD(digamma) {
  dfi_build *b = dfg_build(g);
  df_output x = IN(0);
  dx[0] = mul(b, dy[0], dfi_op(b, "Polygamma", number(b, x, 1), x));
  return dfg_end(g);
}
GRAD(polygamma) {
  if (dfg_unknown(g, n, 0, 1)) return dfg_end(g);
  dfi_build *b = dfg_build(g);
  df_output a = IN(0);
  dx[1] = dfg_unbroadcast(g, n, 1, mul(b, dy[0], dfi_op(b, "Polygamma", add(b, a, number(b, a, 1)), IN(1))));
  return dfg_end(g);
}
GRAD(zeta) {
  if (dfg_unknown(g, n, 0, 1)) return dfg_end(g);
  dfi_build *b = dfg_build(g);
  df_output x = IN(0);
  df_output slope = neg(b, mul(b, x, dfi_op(b, "Zeta", add(b, x, number(b, x, 1)), IN(1))));
  dx[1] = dfg_unbroadcast(g, n, 1, mul(b, dy[0], slope));
  return dfg_end(g);
}
/* A float or complex number of another precision. What comes from integers or goes to them has no derivative. */
GRAD(cast) {
  uint8_t from = dfi_dtype(n->in[0]), to = n->out[0].dtype;
  if (!(dfi_is_float(from) || dfi_is_complex(from)) || !(dfi_is_float(to) || dfi_is_complex(to))) return dfg_end(g);
  dfi_build *b = dfg_build(g);
  dfi_attr_int(b, "DstT", from);
  dx[0] = dfi_op(b, "Cast", dy[0]);
  return dfg_end(g);
}

/* ---- one operand, with a gradient op of its own: op(y, dy) or op(dy, x) ------------------------------------- */
#define FROM_OUTPUT(name, type) GRAD(name) { dx[0] = dfi_op(dfg_build(g), type, OUT, dy[0]); return dfg_end(g); }
/* These three conjugate by themselves. */
#define FROM_PLAIN_OUTPUT(name, type) GRAD(name) { dx[0] = dfi_op(dfg_build(g), type, dfg_out(g, n, 0), dy[0]); \
  return dfg_end(g); }
FROM_PLAIN_OUTPUT(sqrt, "SqrtGrad")
FROM_PLAIN_OUTPUT(rsqrt, "RsqrtGrad")
FROM_PLAIN_OUTPUT(reciprocal, "ReciprocalGrad")
FROM_OUTPUT(tanh, "TanhGrad")
FROM_OUTPUT(sigmoid, "SigmoidGrad")
/* Relu and Relu6 give what their input's sign and bound can be read from. */
GRAD(relu)     { dx[0] = dfi_op(dfg_build(g), "ReluGrad", dy[0], OUT); return dfg_end(g); }
GRAD(relu6)    { dx[0] = dfi_op(dfg_build(g), "Relu6Grad", dy[0], OUT); return dfg_end(g); }
GRAD(elu)      { dx[0] = dfi_op(dfg_build(g), "EluGrad", dy[0], OUT); return dfg_end(g); }
GRAD(selu)     { dx[0] = dfi_op(dfg_build(g), "SeluGrad", dy[0], OUT); return dfg_end(g); }
GRAD(softplus) { dx[0] = dfi_op(dfg_build(g), "SoftplusGrad", dy[0], IN(0)); return dfg_end(g); }
GRAD(leaky_relu) {
  dfi_build *b = dfg_build(g);
  double alpha = n->attrs[0].f;
  df_output side = alpha >= 0 ? OUT : IN(0);
  dfi_attr_float(b, "alpha", alpha);
  dx[0] = dfi_op(b, "LeakyReluGrad", dy[0], side);
  return dfg_end(g);
}

/* ---- two operands --------------------------------------------------------------------------------------------- */
static void give(dfi_grad *g, df_node *n, df_output *dx, int32_t i, df_output dz) {
  dx[i] = dfg_unbroadcast(g, n, i, dz);
}

GRAD(add) {
  if (dfg_wants(g, n, 0)) give(g, n, dx, 0, dy[0]);
  if (dfg_wants(g, n, 1)) give(g, n, dx, 1, dy[0]);
  return dfg_end(g);
}
GRAD(sub) {
  if (dfg_wants(g, n, 0)) give(g, n, dx, 0, dy[0]);
  if (dfg_wants(g, n, 1)) give(g, n, dx, 1, neg(dfg_build(g), dy[0]));
  return dfg_end(g);
}
GRAD(mul) {
  dfi_build *b = dfg_build(g);
  if (dfg_wants(g, n, 0)) give(g, n, dx, 0, mul(b, dy[0], IN(1)));
  if (dfg_wants(g, n, 1)) give(g, n, dx, 1, mul(b, dy[0], IN(0)));
  return dfg_end(g);
}
GRAD(real_div) {
  dfi_build *b = dfg_build(g);
  df_output slope = quotient(b, dy[0], IN(1));
  if (dfg_wants(g, n, 0)) give(g, n, dx, 0, slope);
  if (dfg_wants(g, n, 1)) give(g, n, dx, 1, neg(b, mul(b, slope, OUT)));
  return dfg_end(g);
}
GRAD(div_no_nan) {
  dfi_build *b = dfg_build(g);
  df_output slope = dfi_op(b, "DivNoNan", dy[0], IN(1));
  if (dfg_wants(g, n, 0)) give(g, n, dx, 0, slope);
  if (dfg_wants(g, n, 1)) give(g, n, dx, 1, neg(b, mul(b, slope, OUT)));
  return dfg_end(g);
}
/* x mod y = x - y div(x, y), and div is flat. */
static int32_t grad_mod(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx, const char *div) {
  dfi_build *b = dfg_build(g);
  if (dfg_wants(g, n, 0)) give(g, n, dx, 0, dy[0]);
  if (dfg_wants(g, n, 1)) give(g, n, dx, 1, neg(b, mul(b, dy[0], dfi_op(b, div, IN(0), IN(1)))));
  return dfg_end(g);
}
GRAD(floor_mod)    { return grad_mod(g, n, dy, dx, "FloorDiv"); }
GRAD(truncate_mod) { return grad_mod(g, n, dy, dx, "TruncateDiv"); }
GRAD(squared_difference) {
  dfi_build *b = dfg_build(g);
  /* no conjugates, as in TensorFlow */
  df_output slope = mul(b, dy[0], times(b, 2, sub(b, dfg_in(g, n, 0), dfg_in(g, n, 1))));
  if (dfg_wants(g, n, 0)) give(g, n, dx, 0, slope);
  if (dfg_wants(g, n, 1)) give(g, n, dx, 1, neg(b, slope));
  return dfg_end(g);
}
/* Where both are equal the first is the one that was taken. */
static int32_t grad_extreme(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx, const char *taken) {
  dfi_build *b = dfg_build(g);
  df_output first = dfi_op(b, taken, IN(0), IN(1)), zero = number(b, dy[0], 0);
  if (dfg_wants(g, n, 0)) give(g, n, dx, 0, pick(b, first, dy[0], zero));
  if (dfg_wants(g, n, 1)) give(g, n, dx, 1, pick(b, first, zero, dy[0]));
  return dfg_end(g);
}
GRAD(maximum) { return grad_extreme(g, n, dy, dx, "GreaterEqual"); }
GRAD(minimum) { return grad_extreme(g, n, dy, dx, "LessEqual"); }

/* A constant exponent gives a polynomial's derivative, so that the third of x^2 is 0 everywhere. Otherwise the power
 * below is kept away from 0^-1 where the exponent is 0, and the logarithm from what is not positive. */
GRAD(pow) {
  dfi_build *b = dfg_build(g);
  const df_tensor *known = n->in[1].node->out[n->in[1].index].constant;
  if (dfg_wants(g, n, 0)) {
    df_output x = IN(0), slope;
    if (known && known->size == 1 && df_tensor_imaginary(known, 0) == 0) {
      double c = df_tensor_get(known, 0);
      if (c == 0) slope = dfi_op(b, "ZerosLike", dy[0]);
      else if (c == 1) slope = dy[0];
      else if (c == 2) slope = mul(b, dy[0], times(b, 2, x));
      else slope = mul(b, dy[0], times(b, c, dfi_op(b, "Pow", x, number(b, x, c - 1))));
    } else {
      df_output y = IN(1), one = number(b, y, 1);
      df_output less = pick(b, dfi_op(b, "Equal", y, number(b, y, 0)), one, sub(b, y, one));
      slope = mul(b, dy[0], mul(b, y, dfi_op(b, "Pow", x, less)));
    }
    give(g, n, dx, 0, slope);
  }
  if (dfg_wants(g, n, 1)) {
    df_output x = IN(0);
    const char *where = dfi_is_complex(dfi_dtype(x)) ? "NotEqual" : "Greater";
    df_output positive = pick(b, dfi_op(b, where, x, number(b, x, 0)), x, number(b, x, 1));
    give(g, n, dx, 1, mul(b, dy[0], mul(b, OUT, dfi_op(b, "Log", positive))));
  }
  return dfg_end(g);
}
/* 1 where x is not 0, in the dtype of x. */
static df_output not_zero(dfi_build *b, df_output x) {
  df_output is = dfi_op(b, "NotEqual", x, number(b, x, 0));
  dfi_attr_int(b, "DstT", dfi_dtype(x));
  return dfi_op(b, "Cast", is);
}
GRAD(xdivy) {
  dfi_build *b = dfg_build(g);
  df_output x = IN(0), y = IN(1);
  if (dfg_wants(g, n, 0)) give(g, n, dx, 0, mul(b, dy[0], dfi_op(b, "Xdivy", not_zero(b, x), y)));
  if (dfg_wants(g, n, 1)) give(g, n, dx, 1, mul(b, dy[0], dfi_op(b, "Xdivy", neg(b, x), square(b, y))));
  return dfg_end(g);
}
GRAD(mul_no_nan) {
  dfi_build *b = dfg_build(g);
  if (dfg_wants(g, n, 0)) give(g, n, dx, 0, dfi_op(b, "MulNoNan", dy[0], IN(1)));
  if (dfg_wants(g, n, 1)) give(g, n, dx, 1, dfi_op(b, "MulNoNan", IN(0), dy[0]));
  return dfg_end(g);
}
/* Real division by floats; of integers nothing. */
GRAD(div) { return dfi_is_int(n->out[0].dtype) ? dfg_end(g) : dfi_grad_real_div(g, n, dy, dx); }
GRAD(xlog1py) {
  dfi_build *b = dfg_build(g);
  df_output x = IN(0), y = IN(1);
  if (dfg_wants(g, n, 0)) give(g, n, dx, 0, mul(b, dy[0], dfi_op(b, "Xlog1py", not_zero(b, x), y)));
  if (dfg_wants(g, n, 1)) give(g, n, dx, 1, mul(b, dy[0], dfi_op(b, "Xdivy", x, add(b, y, number(b, y, 1)))));
  return dfg_end(g);
}
GRAD(xlogy) {
  dfi_build *b = dfg_build(g);
  df_output x = IN(0), y = IN(1);
  if (dfg_wants(g, n, 0)) give(g, n, dx, 0, mul(b, dy[0], dfi_op(b, "Xlogy", not_zero(b, x), y)));
  if (dfg_wants(g, n, 1)) give(g, n, dx, 1, mul(b, dy[0], dfi_op(b, "Xdivy", x, y)));
  return dfg_end(g);
}
GRAD(atan2) {                                         /* atan2(y, x) */
  dfi_build *b = dfg_build(g);
  df_output y = IN(0), x = IN(1);
  df_output slope = quotient(b, dy[0], add(b, square(b, x), square(b, y)));
  if (dfg_wants(g, n, 0)) give(g, n, dx, 0, mul(b, slope, x));
  if (dfg_wants(g, n, 1)) give(g, n, dx, 1, neg(b, mul(b, slope, y)));
  return dfg_end(g);
}

/* ---- three and more ---------------------------------------------------------------------------------------------- */
GRAD(add_n) {
  for (int32_t i = 0; i < n->nin; i++)
    if (dfg_wants(g, n, i)) dx[i] = dy[0];
  return dfg_end(g);
}
GRAD(select) {
  dfi_build *b = dfg_build(g);
  df_output c = IN(0), zeros = dfi_op(b, "ZerosLike", dy[0]);
  if (dfg_wants(g, n, 1)) dx[1] = dfi_op(b, "Select", c, dy[0], zeros);
  if (dfg_wants(g, n, 2)) dx[2] = dfi_op(b, "Select", c, zeros, dy[0]);
  return dfg_end(g);
}
GRAD(select_v2) {
  dfi_build *b = dfg_build(g);
  df_output c = IN(0), zero = number(b, dy[0], 0);
  if (dfg_wants(g, n, 1)) give(g, n, dx, 1, pick(b, c, dy[0], zero));
  if (dfg_wants(g, n, 2)) give(g, n, dx, 2, pick(b, c, zero, dy[0]));
  return dfg_end(g);
}
/* To whichever bound was taken, else to what was clipped. */
GRAD(clip_by_value) {
  dfi_build *b = dfg_build(g);
  df_output x = IN(0), zero = number(b, dy[0], 0);
  df_output low = dfi_op(b, "Less", x, IN(1)), high = dfi_op(b, "Greater", x, IN(2));
  if (dfg_wants(g, n, 0)) give(g, n, dx, 0, pick(b, dfi_op(b, "LogicalOr", low, high), zero, dy[0]));
  if (dfg_wants(g, n, 1)) give(g, n, dx, 1, pick(b, low, dy[0], zero));
  if (dfg_wants(g, n, 2)) give(g, n, dx, 2, pick(b, high, dy[0], zero));
  return dfg_end(g);
}

/* ---- the gradient ops themselves. w is what arrives -------------------------------------------------------------- */
/* op(y, v) = v f(y): by v it is op(y, w), by y it is v w f'(y). */
#define BY_OUTPUT(name, type, slope) \
  GRAD(name) { \
    dfi_build *b = dfg_build(g); \
    df_output w = dy[0]; \
    if (dfg_wants(g, n, 0)) { \
      df_output y = IN(0), vw = mul(b, IN(1), w); \
      dx[0] = slope; \
    } \
    if (dfg_wants(g, n, 1)) dx[1] = dfi_op(b, type, IN(0), w); \
    return dfg_end(g); \
  }
BY_OUTPUT(tanh_grad, "TanhGrad", mul(b, vw, times(b, -2, y)))
BY_OUTPUT(sigmoid_grad, "SigmoidGrad", mul(b, vw, sub(b, number(b, y, 1), times(b, 2, y))))
BY_OUTPUT(sqrt_grad, "SqrtGrad", quotient(b, times(b, -0.5, vw), square(b, y)))
BY_OUTPUT(rsqrt_grad, "RsqrtGrad", mul(b, times(b, -1.5, vw), square(b, y)))
BY_OUTPUT(reciprocal_grad, "ReciprocalGrad", mul(b, times(b, -2, vw), y))

/* op(v, x) = v f(x) with f flat but for jumps: by x there is nothing. */
#define FLAT(name, type) \
  GRAD(name) { \
    if (dfg_wants(g, n, 0)) dx[0] = dfi_op(dfg_build(g), type, dy[0], IN(1)); \
    return dfg_end(g); \
  }
FLAT(relu_grad, "ReluGrad")
FLAT(relu6_grad, "Relu6Grad")
GRAD(leaky_relu_grad) {
  dfi_build *b = dfg_build(g);
  if (!dfg_wants(g, n, 0)) return dfg_end(g);
  df_output x = IN(1);
  dfi_attr_float(b, "alpha", n->attrs[0].f);
  dx[0] = dfi_op(b, "LeakyReluGrad", dy[0], x);
  return dfg_end(g);
}
/* op(v, y) = v (y + c) below zero and v c' above. */
static int32_t grad_elu(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx, const char *type) {
  dfi_build *b = dfg_build(g);
  df_output w = dy[0], y = IN(1);
  if (dfg_wants(g, n, 0)) dx[0] = dfi_op(b, type, w, y);
  if (dfg_wants(g, n, 1)) {
    df_output zero = number(b, y, 0);
    dx[1] = pick(b, dfi_op(b, "Less", y, zero), mul(b, IN(0), w), zero);
  }
  return dfg_end(g);
}
GRAD(elu_grad)  { return grad_elu(g, n, dy, dx, "EluGrad"); }
GRAD(selu_grad) { return grad_elu(g, n, dy, dx, "SeluGrad"); }
/* op(v, x) = v s(x) with s the sigmoid. */
GRAD(softplus_grad) {
  dfi_build *b = dfg_build(g);
  df_output w = dy[0], x = IN(1);
  if (dfg_wants(g, n, 0)) dx[0] = dfi_op(b, "SoftplusGrad", w, x);
  if (dfg_wants(g, n, 1)) dx[1] = dfi_op(b, "SigmoidGrad", dfi_op(b, "Sigmoid", x), mul(b, IN(0), w));
  return dfg_end(g);
}
/* op(v, x) = v / (1 + |x|)^2 */
