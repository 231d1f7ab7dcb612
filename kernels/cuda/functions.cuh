/* functions.cuh: elementwise functions that are CUDA's own where the CPU has SLEEF's: name_f32, name_f64. The others are
 * the rows of ../expressions.h. Single kernels (elementwise.cu) and those written at run time (fuse.c) are made of
 * both. */
#ifndef DFLOW_CUDA_FUNCTIONS_CUH
#define DFLOW_CUDA_FUNCTIONS_CUH
#include "special.cuh"

FLOAT1(exp_, exp(x))
FLOAT1(expm1_, expm1(x))
FLOAT1(log_, log(x))
FLOAT1(log1p_, log1p(x))
FLOAT1(sin_, sin(x))
FLOAT1(cos_, cos(x))
FLOAT1(tan_, tan(x))
FLOAT1(asin_, asin(x))
FLOAT1(acos_, acos(x))
FLOAT1(atan_, atan(x))
FLOAT1(sinh_, sinh(x))
FLOAT1(cosh_, cosh(x))
FLOAT1(tanh_, tanh(x))
FLOAT1(asinh_, asinh(x))
FLOAT1(acosh_, acosh(x))
FLOAT1(atanh_, atanh(x))
FLOAT1(erf_, erf(x))
FLOAT1(erfc_, erfc(x))
FLOAT1(lgamma_, lgamma(x))
FLOAT1(sigmoid, 1 / (1 + exp(-x)))
FLOAT1(softplus, (x > 0 ? x : 0) + log1p(exp(-fabs(x))))
FLOAT1(elu, x < 0 ? expm1(x) : x)
FLOAT1(selu, (t)SELU_SCALE * (x < 0 ? (t)SELU_ALPHA * expm1(x) : x))
FLOAT2(atan2_, atan2(x, y))
FLOAT2(softplus_grad, x / (1 + exp(-y)))
FLOAT2(xlogy, x == 0 ? 0 : x * log(y))
FLOAT2(xlog1py, x == 0 ? 0 : x * log1p(y))
FLOAT2(pow__, y == 2 ? x * x : pow(x, y))
#endif
