/* sets.h: sets in the last dimension of dense and sparse tensors (ref/sets.c). A sparse tensor is indices
   int64[n, rank], values [n], shape int64[rank]; its indices are in order. */
#ifndef DFLOW_SETS_H
#define DFLOW_SETS_H
#include "kernel.h"
/* (set1, set2; set_operation, validate_indices), where a sparse set is three inputs -> a sparse tensor */
int32_t ref_dense_to_dense_set(df_kernel *k), ref_dense_to_sparse_set(df_kernel *k),
    ref_sparse_to_sparse_set(df_kernel *k);
/* (indices, values, shape; validate_indices) -> int32[shape without the last] */
int32_t ref_set_size(df_kernel *k);
/* (hypothesis, truth: sparse; normalize) -> float32[the larger of their shapes, without the last] */
int32_t ref_edit_distance(df_kernel *k);
#endif
