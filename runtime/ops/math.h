/* math.h: the gradients of elementwise math (ops/math_grad.c), for the entries (ops/math.c). */
#ifndef DFLOW_OPS_MATH_H
#define DFLOW_OPS_MATH_H
#include "graph/grad.h"

#define DFI_MATH_GRADIENTS(X) \
  X(add) X(sub) X(mul) X(real_div) X(div_no_nan) X(floor_mod) X(truncate_mod) X(pow) X(maximum) X(minimum) \
  X(squared_difference) X(xdivy) X(xlogy) X(xlog1py) X(mul_no_nan) X(div) X(atan2) X(zeta) X(polygamma) X(add_n) \
    X(select) X(select_v2) X(clip_by_value) X(cast) \
  X(neg) X(abs) X(square) X(sqrt) X(rsqrt) X(reciprocal) X(exp) X(expm1) X(log) X(log1p) X(sin) X(cos) X(tan) X(asin) \
  X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(asinh) X(acosh) X(atanh) X(erf) X(erfc) X(lgamma) X(digamma) X(sigmoid) \
  X(softplus) X(relu) X(relu6) X(elu) X(selu) X(leaky_relu) \
  X(tanh_grad) X(sigmoid_grad) X(sqrt_grad) X(rsqrt_grad) X(reciprocal_grad) X(relu_grad) X(relu6_grad) X(elu_grad) \
  X(selu_grad) X(softplus_grad) X(leaky_relu_grad)
#define X(name) int32_t dfi_grad_##name(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
DFI_MATH_GRADIENTS(X)
#undef X
#endif
