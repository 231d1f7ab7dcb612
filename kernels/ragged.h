/* ragged.h: ragged tensors as others (ref/ragged.c). */
#ifndef DFLOW_RAGGED_H
#define DFLOW_RAGGED_H
#include "kernel.h"
/* (shape, values, default_value, row_partition_tensors...; row_partition_types) */
int32_t ref_ragged_to_tensor(df_kernel *k);
int32_t ref_ragged_to_sparse(df_kernel *k); /* (rt_nested_splits..., rt_dense_values) -> indices, values, shape */
/* Do the splits of rows go from 0 to `values` (-1: to any number) and never fall? False: the error is filled. */
bool dfk_ragged_splits(df_kernel *k, const df_tensor *splits, int64_t values);
#endif
