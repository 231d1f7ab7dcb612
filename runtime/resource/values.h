/* values.h: many values of one dtype joined to one tensor: what TensorArrayV3 and TensorList share. */
#ifndef DFLOW_VALUES_H
#define DFLOW_VALUES_H
#include "op/op.h"

/* Releases n values and their array. Returns code. */
int32_t dfi_values_drop(df_value *v, int64_t n, int32_t code);
/* Output `out` is the n values stacked along a new axis 0; each has the shape `row`. DF_OK, or a code with the error
   filled. */
int32_t dfi_values_stack(df_kernel *k, int32_t out, uint8_t dtype, const dfi_shape *row, int64_t n, const df_value *v);
/* Output `out` is the n values, none a scalar, joined along axis 0: `rows` rows in all, each of the shape `rest`. */
int32_t dfi_values_concat(df_kernel *k, int32_t out, uint8_t dtype, const dfi_shape *rest, int64_t rows, int64_t n,
                          const df_value *v);
/* Zeros of a dtype and a known shape, owned. False: out of memory, or the dtype has none. */
bool    dfi_values_zeros(uint8_t dtype, const dfi_shape *shape, df_value *out);
#endif
