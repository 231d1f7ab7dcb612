/* gradient.h: kernels of the ops that only the gradient pass builds. */
#ifndef DFLOW_KERNELS_GRADIENT_H
#define DFLOW_KERNELS_GRADIENT_H
#include "kernel.h"
int32_t ref_sum_to_shape(df_kernel *k);
int32_t cpu_sum_to_shape(df_kernel *k);
#endif
