/* variable_place.c: parts of a variable's value changed in place: slices named by indices or by a strided slice, and a
 * counter.
 *
 * As everywhere (variable.h) the update works on the value itself while it has no other holder and on a copy otherwise,
 * under the variable's lock; all that can be wrong is found before anything changes.
 */
#include "resource/variable.h"
#include "base/remote_memory.h"
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

/* Are integers divided by a zero among the updates? */
static int32_t check_division(dfk_update_op op, const df_value *updates, df_kernel *k) {
  df_value here;
  if (op != DFK_DIV) return DF_OK;
  if (!dfi_value_on_host(updates, &here))
    return dfk_fail(k, DF_RESOURCE_EXHAUSTED, "the updates could not be brought to the host");
  const bool allowed = dfk_update_allowed(op, updates->dtype, dfi_value_size(updates), dfi_value_data(&here));
  dfi_value_drop(&here);
  return allowed ? DF_OK : dfk_fail(k, DF_INVALID_ARGUMENT, "integer division by zero");
}

/* Rows index[i] of the value, seen as `rows` rows of `row` elements, op= the updates (one: a number). All is
 * checked. */
static int32_t place_rows(dfi_variable *v, df_kernel *k, dfk_update_op op, int64_t rows, int64_t row,
                          const int64_t *index, int64_t n, const df_value *updates, bool one) {
  if (!dfi_variable_writable(v, k->error)) return k->error->code;
  if (v->value.kind == DF_TENSOR && !dfi_readable(v->value.as.tensor) && dfi_places(v->dtype))
    return dfi_remote_place_rows(op, v->value.as.tensor, rows, row, index, n, updates, one)
               ? DF_OK
               : dfk_fail(k, DF_RESOURCE_EXHAUSTED, "parts of variable '%s' could not be changed", v->name);
  df_value here;
  parts to;
  int32_t code = parts_begin(&to, v, k);
  if (code) return code;
  if (!dfi_value_on_host(updates, &here))
    return dfk_fail(k, DF_RESOURCE_EXHAUSTED, "the updates of variable '%s' could not be brought to the host", v->name);
  const char *from = dfi_value_data(&here);
  const int64_t bytes = row * dfi_dtype_size[v->dtype];
  for (int64_t i = 0; i < n; i++) {
    char *at = to.data + index[i] * bytes;
    dfk_update(op, v->dtype, row, at, at, from + (one ? 0 : i * bytes), one);
  }
  dfi_value_drop(&here);
  return parts_end(&to, v, k);
}

/* ---- rows ---------------------------------------------------------------------------------------------------- */

static int32_t scatter(dfi_variable *v, df_kernel *k, dfk_update_op op, const df_tensor *indices,
                       const df_value *updates) {
  df_tensor view;
  const df_tensor *now = look(v, &view, k->error);
  char a[160], b[160];
  if (!now) return k->error->code;
  if (now->rank < 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "variable '%s' is a scalar: it has no rows to scatter to", v->name);
  dfi_shape given = dfi_value_shape(updates), want = { 0 };
  const bool one = given.rank == 0;
  for (int32_t i = 0; i < indices->rank && i < DF_MAX_RANK; i++) want.dims[want.rank++] = indices->dims[i];
  for (int32_t i = 1; i < now->rank && want.rank < DF_MAX_RANK; i++) want.dims[want.rank++] = now->dims[i];
  if (updates->dtype != v->dtype || (!one && !dfi_shape_equal(&want, &given)))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the updates of variable '%s' must be %s but are %s", v->name,
                    dfi_typed_shape_text(v->dtype, &want, a), dfi_typed_shape_text(updates->dtype, &given, b));
  const int64_t rows = now->dims[0], row = dfk_span(now->dims, 1, now->rank);
  for (int64_t i = 0; i < indices->size; i++) {
    const int64_t at = dfk_index(indices, i);
    if (at < 0 || at >= rows)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "indices[%lld] is %lld but variable '%s' has rows 0 to %lld",
                      (long long)i, (long long)at, v->name, (long long)rows - 1);
  }
  int64_t *index = dfk_scratch(k, (indices->size + 1) * (int64_t)sizeof *index);
  if (!index) return k->error->code;
  for (int64_t i = 0; i < indices->size; i++) index[i] = dfk_index(indices, i);
  int32_t code = check_division(op, updates, k);
  if (!code) code = place_rows(v, k, op, rows, row, index, indices->size, updates, one);
  dfk_free(index);
  return code;
}

int32_t dfi_variable_scatter(dfi_variable *v, df_kernel *k, dfk_update_op op, const df_tensor *indices,
                             const df_value *updates, df_value *out) {
  dfi_variable_lock(v);
  int32_t code = scatter(v, k, op, indices, updates);
  if (!code && out) *out = dfi_value_copy(&v->value);
  dfi_variable_unlock(v);
  return code;
}

/* ---- slices ---------------------------------------------------------------------------------------------------- */

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
  else code = check_division(op, updates, k);
  for (int64_t i = 0; i < p.picks && p.row; i++) p.offset[i] /= p.row;        /* whole rows: the last dims are whole */
  if (!code && p.row)
    code = place_rows(v, k, op, dfk_span(now->dims, 0, p.depth), p.row, p.offset, p.picks, updates, false);
  dfk_free(p.offset);
  return code;
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
  int64_t dims[DF_MAX_RANK], index[DF_MAX_RANK] = { 0 }, to[DF_MAX_RANK];
  memcpy(dims, now->dims, sizeof dims);
  int64_t n = dfi_shape_size(&want), *at_each = dfk_scratch(k, (n + 1) * (int64_t)sizeof *at_each);
  if (!at_each) return k->error->code;
  for (int64_t i = 0; i < n; i++) {
    for (int32_t d = 0; d < rank; d++) to[d] = s.begin[d] + index[d] * s.stride[d];
    at_each[i] = dfk_position(rank, dims, to);
    dfk_next(rank, s.size, index);
  }
  const int32_t code = place_rows(v, k, DFK_SET, now->size, 1, at_each, n, update, one);
  dfk_free(at_each);
  return code;
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
