/* flow.h: kernels of the ops that hand values on. */
#ifndef DFLOW_KERNELS_FLOW_H
#define DFLOW_KERNELS_FLOW_H
#include "kernel.h"
int32_t ref_identity(df_kernel *k);          /* output i is input i */
int32_t ref_custom_gradient(df_kernel *k);   /* output i is input nx + i */
bool    scalar_identity(df_value *out, const df_value *a, const df_value *b, const df_value *c);
#endif
