/* example.h: tensors out of tensorflow.Example messages (ref/parse_example.c). */
#ifndef DFLOW_EXAMPLE_H
#define DFLOW_EXAMPLE_H
#include "kernel.h"
/* (serialized, names, sparse_keys, dense_keys, ragged_keys, dense_defaults...; Tdense, num_sparse, sparse_types,
 * ragged_value_types, ragged_split_types, dense_shapes) -> sparse_indices, sparse_values, sparse_shapes, dense_values,
 * ragged_values, ragged_row_splits */
int32_t ref_parse_example_v2(df_kernel *k);
/* (serialized, names, sparse_keys..., dense_keys..., dense_defaults...; Nsparse, Ndense, sparse_types, Tdense,
 * dense_shapes) -> the first four of these */
int32_t ref_parse_example(df_kernel *k);
/* (serialized, dense_defaults...; num_sparse, sparse_keys, dense_keys, sparse_types, Tdense, dense_shapes) -> the first
 * four of these */
int32_t ref_parse_single_example(df_kernel *k);
/* (records, record_defaults; OUT_TYPE, field_delim, use_quote_delim, na_value, select_cols) */
int32_t ref_decode_csv(df_kernel *k);
#endif
