/* variable_place.c: parts of a variable's value changed in place: slices named by indices or by a strided slice, and a
 * counter.
 *
 * As everywhere (variable.h) the update works on the value itself while nobody else holds it and on a copy otherwise,
 * under the variable's lock; all that can be wrong is found before anything changes.
 */
#include "resource/variable.h"
#include "base/remote.h"
#include "kernels/array.h"
#include "kernels/index.h"
#include "kernels/move.h"

/* The value as a tensor to look at; `view` is used for a number. The lock is held. NULL: not initialised, error is
   filled. */
static const df_tensor *look(dfi_variable *v, df_tensor *view, df_error *err) {
  if (v->value.kind == DF_TENSOR) return v->value.as.tensor;
  if (v->value.kind == DF_EMPTY) return dfi_variable_writable(v, err), NULL;
  *view = (df_tensor){ .refs = 1, .dtype = v->dtype, .view = 1, .size = 1, .data = &v->value.as };
  return view;
}

static int32_t no_strings(const dfi_variable *v, df_kernel *k) {
  if (dfk_plain(v->dtype)) return DF_OK;
  return dfk_fail(k, DF_UNIMPLEMENTED, "variable '%s' holds %s, which cannot be changed in parts", v->name,
                  df_dtype_name(v->dtype));
}

/* The elements where the host can change some of them: their own place, or a copy of a value that a device has. */
typedef struct parts { char *data; df_value copy; } parts;

static int32_t parts_begin(parts *p, dfi_variable *v, df_kernel *k) {
  *p = (parts){ .data = dfi_variable_writable(v, k->error) };
  if (!p->data) return k->error->code;
  if (v->value.kind != DF_TENSOR || dfi_readable(v->value.as.tensor)) return DF_OK;
  if (!dfi_value_on_host(&v->value, &p->copy))
    return dfk_fail(k, DF_RESOURCE_EXHAUSTED, "the value of variable '%s' could not be brought to the host", v->name);
  p->data = (char *)dfi_value_data(&p->copy);
  return DF_OK;
}

static int32_t parts_end(parts *p, dfi_variable *v, df_kernel *k) {
  if (p->copy.kind == DF_EMPTY) return DF_OK;
  df_tensor *t = v->value.as.tensor;
  const bool back = dfi_bytes_copy(t->data, t->buffer, p->data, dfi_buffer_in(&p->copy),
                                   t->size * dfi_dtype_size[t->dtype]);
  dfi_value_drop(&p->copy);
  if (back) return DF_OK;
  return dfk_fail(k, DF_UNAVAILABLE, "the value of variable '%s' could not be brought back to its device", v->name);
}

static int32_t scatter_nd(dfi_variable *v, df_kernel *k, dfk_update_op op, const df_tensor *indices,
                          const df_value *updates) {
  df_tensor view;
  const df_tensor *now = look(v, &view, k->error);
  char a[160], b[160];
  if (!now || no_strings(v, k)) return k->error->code;
  dfk_places p;
  if (!dfk_places_of(k, indices, now->rank, now->dims, "variable", &p)) return k->error->code;
  dfi_shape given = dfi_value_shape(updates), want = dfi_shape_of(indices->rank - 1, indices->dims);
  for (int32_t d = p.depth; d < now->rank && want.rank < DF_MAX_RANK; d++) want.dims[want.rank++] = now->dims[d];
  int32_t code = DF_OK;
  if (updates->dtype != v->dtype || !dfi_shape_equal(&given, &want))
    code = dfk_fail(k, DF_INVALID_ARGUMENT, "the updates of variable '%s' must be %s but are %s", v->name,
                    dfi_typed_shape_text(v->dtype, &want, a), dfi_typed_shape_text(updates->dtype, &given, b));
  else if (!dfk_update_allowed(op, v->dtype, dfi_value_size(updates), dfi_value_data(updates)))
    code = dfk_fail(k, DF_INVALID_ARGUMENT, "integer division by zero");
  parts to;
  if (!code) code = parts_begin(&to, v, k);
  const char *from = dfi_value_data(updates);
  int64_t width = dfi_dtype_size[v->dtype];
  for (int64_t i = 0; !code && i < p.picks; i++) {
    char *at = to.data + p.offset[i] * width;
    dfk_update(op, v->dtype, p.row, at, at, from + i * p.row * width, false);
  }
  dfk_free(p.offset);
  return code ? code : parts_end(&to, v, k);
}

int32_t dfi_variable_scatter_nd(dfi_variable *v, df_kernel *k, dfk_update_op op, const df_tensor *indices,
                                const df_value *updates) {
  dfi_variable_lock(v);
  int32_t code = scatter_nd(v, k, op, indices, updates);
  dfi_variable_unlock(v);
  return code;
}

/* begin, end and strides as integers. */
static bool read_slice(df_kernel *k, int32_t at, const df_tensor *x, dfk_slice *s) {
  dfk_slice_spec spec = dfk_slice_masks(k->attrs, (int32_t)k->in[at]->size);
  int64_t *to[] = { spec.begin, spec.end, spec.strides };
  char message[256];
  for (int32_t i = 0; i < 3; i++) {
    const df_tensor *t = k->in[at + i];
    if (t->rank != 1 || t->size != spec.n || spec.n > 2 * DF_MAX_RANK) {
      dfk_fail(k, DF_INVALID_ARGUMENT, "begin, end and strides must be vectors of one length, at most %d",
               2 * DF_MAX_RANK);
      return false;
    }
    for (int32_t d = 0; d < spec.n; d++) to[i][d] = dfk_index(t, d);
  }
  if (dfk_slice_resolve(&spec, x->rank, x->dims, s, message, sizeof message)) return true;
  dfk_fail(k, DF_INVALID_ARGUMENT, "%s", message);
  return false;
}

static int32_t place_slice(dfi_variable *v, df_kernel *k, int32_t at, const df_value *update) {
  df_tensor view;
  const df_tensor *now = look(v, &view, k->error);
  dfk_slice s;
  char a[160], b[160];
  if (!now || no_strings(v, k) || !read_slice(k, at, now, &s)) return k->error->code;
  dfi_shape given = dfi_value_shape(update), want = dfi_shape_of(s.rank, s.dims);
  bool one = dfi_value_size(update) == 1;
  if (update->dtype != v->dtype || (!one && !dfi_shape_equal(&given, &want)))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the slice of variable '%s' is %s but is given %s", v->name,
                    dfi_typed_shape_text(v->dtype, &want, a), dfi_typed_shape_text(update->dtype, &given, b));
  int32_t rank = now->rank;
  int64_t dims[DF_MAX_RANK], index[DF_MAX_RANK] = { 0 }, to[DF_MAX_RANK], width = dfi_dtype_size[v->dtype];
  memcpy(dims, now->dims, sizeof dims);
  parts at_once;
  if (parts_begin(&at_once, v, k)) return k->error->code;
  char *data = at_once.data;
  const char *from = dfi_value_data(update);
  for (int64_t i = 0, n = dfi_shape_size(&want); i < n; i++) {
    for (int32_t d = 0; d < rank; d++) to[d] = s.begin[d] + index[d] * s.stride[d];
    memcpy(data + dfk_position(rank, dims, to) * width, from + (one ? 0 : i * width), (size_t)width);
    dfk_next(rank, s.size, index);
  }
  return parts_end(&at_once, v, k);
}

int32_t dfi_variable_place_slice(dfi_variable *v, df_kernel *k, int32_t at, const df_value *update) {
  dfi_variable_lock(v);
  int32_t code = place_slice(v, k, at, update);
  dfi_variable_unlock(v);
  return code;
}

int32_t dfi_variable_count_up(dfi_variable *v, int64_t limit, df_value *out, df_error *err) {
  dfi_variable_lock(v);
  int32_t code = DF_OK;
  if (v->value.kind == DF_EMPTY) dfi_variable_writable(v, err), code = DF_FAILED_PRECONDITION;
  else if (v->value.kind != DF_SCALAR || (v->dtype != DF_INT32 && v->dtype != DF_INT64)) {
    dfi_shape s = dfi_value_shape(&v->value);
    char a[160];
    code = dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "variable '%s' is %s but must be one int32 or int64 to count with",
                    v->name, dfi_typed_shape_text(v->dtype, &s, a));
  } else {
    int64_t now = v->dtype == DF_INT32 ? v->value.as.i32 : v->value.as.i64;
    if (now >= limit)
      code = dfi_fail(err, DF_OUT_OF_RANGE, NULL, "variable '%s' has reached its limit of %lld", v->name,
                      (long long)limit);
    else {
      *out = v->value;
      if (v->dtype == DF_INT32) v->value.as.i32++;
      else v->value.as.i64++;
    }
  }
  dfi_variable_unlock(v);
  return code;
}
