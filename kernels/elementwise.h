/* elementwise.h: the kernels of elementwise math (ops/math.c names them). Each of these has ref_x in
 * ref/elementwise.c and cpu_x in cpu/elementwise_*.c; scalar_x gives the function for unboxed rank-0 operands, with the
 * same bits as cpu_x, or NULL for a dtype that has none. */
#ifndef DFLOW_ELEMENTWISE_H
#define DFLOW_ELEMENTWISE_H
#include "formulas.h"
#include "kernel.h"

/* One operand. */
#define DFK_UNARY(X) \
  X(neg) X(abs) X(sign) X(square) X(sqrt) X(rsqrt) X(reciprocal) X(exp) X(expm1) X(log) X(log1p) X(sin) X(cos) X(tan) \
  X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(asinh) X(acosh) X(atanh) X(erf) X(erfc) X(erfinv) X(lgamma) \
  X(floor) X(ceil) X(round) X(rint) X(is_nan) X(is_inf) X(is_finite) X(sigmoid) X(softplus) X(relu) X(relu6) X(elu) \
  X(selu) X(logical_not) X(invert)
/* Two operands. The gradients take theirs in TensorFlow's order. */
#define DFK_BINARY(X) \
  X(add) X(sub) X(mul) X(real_div) X(div_no_nan) X(floor_div) X(floor_mod) X(truncate_div) X(truncate_mod) X(pow) \
  X(maximum) X(minimum) X(squared_difference) X(xdivy) X(xlogy) X(xlog1py) X(mul_no_nan) X(div) X(atan2) \
  X(less) X(less_equal) X(greater) X(greater_equal) X(equal) X(not_equal) X(logical_and) X(logical_or) X(logical_xor) \
  X(bitwise_and) X(bitwise_or) X(bitwise_xor) X(left_shift) X(right_shift) \
  X(tanh_grad) X(sigmoid_grad) X(sqrt_grad) X(rsqrt_grad) X(reciprocal_grad) X(relu_grad) X(relu6_grad) X(elu_grad) \
  X(selu_grad) X(softplus_grad)
#define X(name) int32_t ref_##name(df_kernel *k); int32_t cpu_##name(df_kernel *k); \
                df_scalar_fn scalar_##name(const uint8_t *in_dtypes, uint8_t out_dtype);
#define ROW(name, ...) X(name)
DFK_UNARY(X)
DFK_BINARY(X)
DFK_FORMULAS1(ROW)
DFK_FORMULAS2(ROW)
#undef ROW
X(select)  /* Select: the condition has the shape of the others, or one element, or one per row */
X(select_v2)
X(clip_by_value)
X(cast)
#undef X

/* With an attribute, or any number of inputs: no scalar function. */
int32_t ref_leaky_relu(df_kernel *k);         int32_t cpu_leaky_relu(df_kernel *k);
int32_t ref_leaky_relu_grad(df_kernel *k);    int32_t cpu_leaky_relu_grad(df_kernel *k);
int32_t ref_approximate_equal(df_kernel *k);  int32_t cpu_approximate_equal(df_kernel *k);
int32_t ref_add_n(df_kernel *k);              int32_t cpu_add_n(df_kernel *k);
/* Special functions that have one kernel (ref/special.c). */
int32_t ref_digamma(df_kernel *k);
int32_t ref_polygamma(df_kernel *k);
int32_t ref_zeta(df_kernel *k);
/* And those that are integrals (ref/integrals.c). */
#define DFK_INTEGRALS(X) X(bessel_i0) X(bessel_i1) X(bessel_i0e) X(bessel_i1e) X(bessel_k0) X(bessel_k1) \
  X(bessel_k0e) X(bessel_k1e) X(bessel_j0) X(bessel_j1) X(bessel_y0) X(bessel_y1) X(dawsn) X(expint) X(fresnel_cos) \
  X(fresnel_sin) X(spence)
#define X(name) int32_t ref_##name(df_kernel *k);
DFK_INTEGRALS(X)
#undef X
int32_t ref_igamma(df_kernel *k), ref_igammac(df_kernel *k), ref_igamma_grad_a(df_kernel *k), ref_betainc(df_kernel *k);

/* Is there a zero among the divisors in[1] of an integer division, or a negative exponent? Fills the error. */
int32_t dfk_check_divisor(df_kernel *k);
int32_t dfk_check_exponent(df_kernel *k);

static inline bool dfk_same_dims(const df_tensor *a, const df_tensor *b) {
  if (a->rank != b->rank) return false;
  for (int32_t d = 0; d < a->rank; d++) if (a->dims[d] != b->dims[d]) return false;
  return true;
}
/* Two or three operands whose shapes do not broadcast: the error names all of them. */
static inline int32_t dfk_no_broadcast(df_kernel *k) {
  char a[160], b[160], c[160];
  dfk_shape_text(k->in[0], a, sizeof a);
  dfk_shape_text(k->in[1], b, sizeof b);
  if (k->nin == 2) return dfk_fail(k, DF_INVALID_ARGUMENT, "shapes %s and %s do not broadcast", a, b);
  return dfk_fail(k, DF_INVALID_ARGUMENT, "shapes %s, %s and %s do not broadcast", a, b,
                  dfk_shape_text(k->in[2], c, sizeof c));
}
#endif
