/* v1.h: the kernels of TensorFlow's older ops (runtime/ops/v1.c names them). */
#ifndef DFLOW_V1_H
#define DFLOW_V1_H
#include "kernel.h"

int32_t ref_v1_concat(df_kernel *k);
int32_t cpu_v1_concat(df_kernel *k);
int32_t ref_v1_gather(df_kernel *k);
int32_t cpu_v1_gather(df_kernel *k);
int32_t ref_v1_reverse(df_kernel *k);
int32_t cpu_v1_reverse(df_kernel *k);
int32_t ref_v1_top_k(df_kernel *k);
int32_t cpu_v1_top_k(df_kernel *k);
int32_t ref_v1_in_top_k(df_kernel *k);
int32_t ref_v1_empty(df_kernel *k);
int32_t ref_v1_list_diff(df_kernel *k);
int32_t ref_v1_conjugate_transpose(df_kernel *k);
int32_t ref_v1_parallel_concat(df_kernel *k);

/* The newer op's kernel, with the inputs as that wants them. */
int32_t dfk_v1_concat(df_kernel *k, df_kernel_fn concat);
int32_t dfk_v1_gather(df_kernel *k, df_kernel_fn gather);
int32_t dfk_v1_reverse(df_kernel *k, df_kernel_fn reverse);
int32_t dfk_v1_top_k(df_kernel *k, df_kernel_fn top_k);
int32_t dfk_v1_in_top_k(df_kernel *k, df_kernel_fn in_top_k);
#endif
