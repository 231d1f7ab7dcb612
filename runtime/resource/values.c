/* values.c: rows copied side by side. */
#include "resource/values.h"
#include "resource/variable.h"
#include "base/remote_memory.h"

int32_t dfi_values_drop(df_value *v, int64_t n, int32_t code) {
  for (int64_t i = 0; i < n; i++) dfi_value_drop(&v[i]);
  dfi_free(v);
  return code;
}

enum { GRAIN_BYTES = 256 << 10 };

typedef struct copying { const df_value *v; char *to; struct df_buffer *in; int64_t bytes; } copying;
static void copy_rows(void *arg, int64_t begin, int64_t end) {
  const copying *c = arg;
  for (int64_t i = begin; i < end; i++) dfi_bytes_copy(c->to + i * c->bytes, c->in, dfi_value_data(&c->v[i]),
      dfi_buffer_in(&c->v[i]), c->bytes);
}

/* Elements that own something go one by one: strings and variants. */
static int32_t copy_owned(df_kernel *k, df_tensor *to, int64_t at, const df_value *v) {
  const df_tensor *from = v->as.tensor;
  for (int64_t i = 0; i < from->size; i++)
    if (to->dtype == DF_VARIANT) dfk_set_variant(to, at + i, ((void **)from->data)[i]);
    else if (!dfk_set_string(k, to, at + i, ((df_str *)from->data)[i].bytes, ((df_str *)from->data)[i].length))
      return k->error->code;
  return DF_OK;
}

int32_t dfi_values_stack(df_kernel *k, int32_t out, uint8_t dtype, const dfi_shape *row, int64_t n, const df_value *v) {
  if (row->rank == DF_MAX_RANK)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "elements of rank %d cannot be stacked", DF_MAX_RANK);
  int64_t dims[DF_MAX_RANK] = { n };
  memcpy(dims + 1, row->dims, sizeof *dims * (size_t)row->rank);
  df_tensor *t = dfk_out(k, out, dtype, row->rank + 1, dims);
  if (!t) return k->error->code;
  int64_t size = n ? t->size / n : 0, bytes = size * dfi_dtype_size[dtype];
  int32_t code = DF_OK;
  if (dfk_plain(dtype)) {
    copying c = { v, t->data, t->buffer, bytes };
    dfk_parallel(k, n, GRAIN_BYTES / (bytes + 1) + 1, copy_rows, &c);
  } else
    for (int64_t i = 0; i < n && !code; i++) code = copy_owned(k, t, i * size, &v[i]);
  return code;
}

int32_t dfi_values_concat(df_kernel *k, int32_t out, uint8_t dtype, const dfi_shape *rest, int64_t rows, int64_t n,
                          const df_value *v) {
  int64_t dims[DF_MAX_RANK] = { rows }, width = dfi_dtype_size[dtype];
  memcpy(dims + 1, rest->dims, sizeof *dims * (size_t)rest->rank);
  df_tensor *t = dfk_out(k, out, dtype, rest->rank + 1, dims);
  if (!t) return k->error->code;
  int32_t code = DF_OK;
  for (int64_t i = 0, at = 0; i < n && !code; at += dfi_value_size(&v[i++]))
    if (dfk_plain(dtype))
      dfi_bytes_copy((char *)t->data + at * width, t->buffer, dfi_value_data(&v[i]), dfi_buffer_in(&v[i]),
                     dfi_value_size(&v[i]) * width);
    else code = copy_owned(k, t, at, &v[i]);
  return code;
}

bool dfi_values_zeros(uint8_t dtype, const dfi_shape *shape, df_value *out) {
  *out = (df_value){ .dtype = dtype };
  if (shape->rank == 0 && dfi_unboxed(dtype)) {
    out->kind = DF_SCALAR;
    out->as.i64 = 0;
    return true;
  }
  df_tensor *t = dfi_tensor_make(dtype, shape->rank, shape->dims);
  if (!t) return false;
  if (dfk_plain(dtype)) dfi_bytes_zero(t->data, t->buffer, t->size * dfi_dtype_size[dtype]);
  out->kind = DF_TENSOR;
  out->as.tensor = t;
  return true;
}
