/* elementwise.h: one element after another, with broadcasting: f for float dtypes, g for integers and bool. */
#ifndef DFLOW_REF_ELEMENTWISE_H
#define DFLOW_REF_ELEMENTWISE_H
#include "../kernel.h"

typedef double  (*float1)(double x);
typedef int64_t (*int1)(int64_t x);
typedef double  (*float2)(double x, double y);
typedef int64_t (*int2)(int64_t x, int64_t y);
int32_t dfk_ref_unary(df_kernel *k, float1 f, int1 g);
int32_t dfk_ref_binary(df_kernel *k, float2 f, int2 g);
#endif
