/* rows.h: kernels that take rows, as chains call them. NULL: the kernel is none, or not of the dtype. */
#ifndef DFLOW_CPU_ROWS_H
#define DFLOW_CPU_ROWS_H
#include "../chain.h"

dfk_rows_fn dfk_fold_rows(df_kernel_fn kernel, int32_t dtype);        /* reduce.c: of rows up to DFK_CHAIN_ROW */
dfk_rows_fn dfk_softmax_rows(df_kernel_fn kernel, int32_t dtype);     /* nn.c */
#endif
