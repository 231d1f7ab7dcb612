/* convert_ops.h: the kernels of ops that see numbers as numbers of another dtype: complex numbers and their parts,
   bits, truth. */
#ifndef DFLOW_CONVERT_OPS_H
#define DFLOW_CONVERT_OPS_H
#include "kernel.h"
int32_t ref_real(df_kernel *k);
int32_t ref_imag(df_kernel *k);
int32_t ref_angle(df_kernel *k);
int32_t ref_complex_abs(df_kernel *k);
int32_t ref_complex(df_kernel *k);
int32_t ref_conj(df_kernel *k);
int32_t ref_to_bool(df_kernel *k);
int32_t ref_bitcast(df_kernel *k);
/* A wider type takes up the last axis, a narrower one adds one. NULL: error is filled. */
df_tensor *dfk_bitcast_begin(df_kernel *k);
#endif
