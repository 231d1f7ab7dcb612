/* elementwise.h: one element after another, with broadcasting: f for float dtypes, g for integers and bool, u for
 * uint64, h for complex numbers. What no entry allows may be NULL. */
#ifndef DFLOW_REF_ELEMENTWISE_H
#define DFLOW_REF_ELEMENTWISE_H
#include "../kernel.h"
#include <complex.h>

typedef double  (*float1)(double x);
typedef int64_t (*int1)(int64_t x);
typedef double  (*float2)(double x, double y);
typedef int64_t (*int2)(int64_t x, int64_t y);
typedef uint64_t (*unsigned1)(uint64_t x);
typedef uint64_t (*unsigned2)(uint64_t x, uint64_t y);
typedef double complex (*complex1)(double complex x);
typedef double complex (*complex2)(double complex x, double complex y);
int32_t dfk_ref_unary(df_kernel *k, float1 f, int1 g, unsigned1 u, complex1 h);
int32_t dfk_ref_binary(df_kernel *k, float2 f, int2 g, unsigned2 u, complex2 h);
#endif
