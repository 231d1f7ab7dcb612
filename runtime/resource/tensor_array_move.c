/* tensor_array_move.c: many elements of a TensorArray at once: stack, unstack, gather, scatter, concat, split.
 *
 * What can be shared is shared: an unstacked tensor is kept whole, its rows are views of it, and elements that are
 * the rows of one tensor in order are stacked by pointing at it. A view must keep the alignment that kernel.h
 * promises (64 bytes, for 64 bytes and more); where it would not, the row is copied.
 */
#include "resource/tensor_array.h"
#include "base/remote_memory.h"

enum { GRAIN_BYTES = 256 << 10 };

static bool aligned(const void *data, int64_t bytes) { return bytes < 64 || ((uintptr_t)data & 63) == 0; }

static bool copy_elements(df_tensor *to, int64_t at, const df_tensor *like, const void *data, struct df_buffer *in,
    int64_t n) {
  const int64_t width = dfi_dtype_size[to->dtype];
  if (dfk_plain(like->dtype)) return dfi_bytes_copy((char *)to->data + at * width, to->buffer, data, in, n * width);
  if (like->dtype == DF_VARIANT) {
    for (int64_t i = 0; i < n; i++) dfk_set_variant(to, at + i, ((void *const *)data)[i]);
    return true;
  }
  const df_str *s = data;
  for (int64_t i = 0; i < n; i++)
    if (df_tensor_set_string(to, at + i, s[i].bytes, s[i].length, NULL)) return false;
  return true;
}

/* Elements [first, first + size of dims) of t, shared or copied; owned. */
df_tensor *dfi_tensor_part(df_tensor *t, int64_t first, int32_t rank, const int64_t *dims) {
  int64_t n = 1;
  for (int32_t i = 0; i < rank; i++) n *= dims[i];
  const char *data = (const char *)t->data + first * dfi_dtype_size[t->dtype];
  if (aligned(data, n * dfi_dtype_size[t->dtype])) return dfi_tensor_view(t, first, rank, dims);
  df_tensor *copy = dfi_tensor_make(t->dtype, rank, dims);
  if (copy && copy_elements(copy, 0, t, data, t->buffer, n)) return copy;
  df_tensor_release(copy);
  return NULL;
}

bool dfi_row_value(df_tensor *t, int64_t i, df_value *out) {
  int64_t row = t->size / t->dims[0];
  *out = (df_value){ .dtype = t->dtype };
  if (t->rank == 1 && dfi_unboxed(t->dtype) && dfi_readable(t)) {
    int32_t bytes = dfi_dtype_size[t->dtype];
    out->kind = DF_SCALAR;
    memcpy(&out->as, (const char *)t->data + i * bytes, (size_t)bytes);
    return true;
  }
  out->as.tensor = dfi_tensor_part(t, i * row, t->rank - 1, t->dims + 1);
  out->kind = out->as.tensor ? DF_TENSOR : DF_EMPTY;
  return out->as.tensor != NULL;
}

/* ---- one tensor of many elements ----------------------------------------------------------------- */

static int32_t element_at(const dfi_tensor_array *a, int64_t i, dfi_element *e, df_error *err) {
  if (i < 0 || i >= dfi_tensor_array_size(a)) return dfi_index_fail(a, i, false, err);
  dfi_element_look(a, i, e);
  if (e->data || (a->accumulates && e->state == DFI_SLOT_EMPTY)) return DF_OK;
  return dfi_element_missing(a, i, e->state, err);
}

static int32_t differ(const dfi_tensor_array *a, const dfi_shape *first, int64_t i, const dfi_shape *found,
                      const char *what, df_error *err) {
  char title[128], at[64], x[160], y[160];
  return dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
                  "%s: elements of different shapes cannot be %s: %s has %s, those before %s",
                  dfi_tensor_array_title(a, title), what, dfi_array_index(a, i, at),
                  dfi_typed_shape_text(a->dtype, found, x), dfi_typed_shape_text(a->dtype, first, y));
}

static int32_t no_stack_of_arrays(const dfi_tensor_array *a, df_error *err) {
  char title[128];
  return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s holds TensorArrays, which cannot be joined to one tensor",
                  dfi_tensor_array_title(a, title));
}

/* Are the elements the rows of one buffer, in order? Then that memory is the stack. */
static df_tensor *shared_rows(const dfi_tensor_array *a, int64_t n, int32_t rank, const int64_t *dims) {
  dfi_element first, e;
  dfi_element_look(a, 0, &first);
  if (!first.tensor) return NULL;
  int64_t bytes = first.tensor->size * dfi_dtype_size[a->dtype];
  if (bytes == 0 || !aligned(first.data, n * bytes)) return NULL;
  for (int64_t i = 1; i < n; i++) {
    dfi_element_look(a, i, &e);
    if (!e.tensor || e.tensor->buffer != first.tensor->buffer || e.data != (const char *)first.data + i * bytes)
      return NULL;
  }
  df_tensor *t = dfi_tensor_view(first.tensor, 0, first.rank, first.dims);
  if (!t) return NULL;
  t->rank = (int8_t)rank;
  t->size = 1;
  for (int32_t i = 0; i < rank; i++) t->size *= t->dims[i] = dims[i];
  return t;
}

typedef struct gathering { const dfi_tensor_array *a; const df_tensor *index; df_tensor *to; int64_t row; } gathering;

static void look_at(const gathering *g, int64_t i, dfi_element *e) {
  dfi_element_look(g->a, g->index ? dfk_index(g->index, i) : i, e);
}

/* Elements from i on, before `end`, that lie one behind the other as they are to lie: how many? At least the first, e.
   */
static int64_t in_one_piece(const gathering *g, const dfi_element *e, int64_t i, int64_t end, int64_t bytes) {
  int64_t n = 1;
  dfi_element next;
  for (; i + n < end; n++) {
    look_at(g, i + n, &next);
    if (next.in != e->in || next.data != (const char *)e->data + n * bytes) break;
  }
  return n;
}

static void gather_rows(void *arg, int64_t begin, int64_t end) {
  const gathering *g = arg;
  int64_t bytes = g->row * dfi_dtype_size[g->to->dtype];
  for (int64_t i = begin, n = 1; i < end; i += n) {
    dfi_element e;
    char *at = (char *)g->to->data + i * bytes;
    look_at(g, i, &e);
    n = e.data && e.in ? in_one_piece(g, &e, i, end, bytes) : 1;
    if (e.data) dfi_bytes_copy(at, g->to->buffer, e.data, e.in, n * bytes);
    else dfi_bytes_zero(at, g->to->buffer, bytes);
  }
}

/* Packed elements 0 … n - 1, all written, straight from the chunks. */
static bool gather_packed(const dfi_tensor_array *a, int64_t n, const df_tensor *t) {
  char *to = t->data;
  for (int64_t c = 0; dfi_chunk_begin(a, c) < n; c++) {
    if (c >= a->nchunks || !a->chunk[c]) return false;
    int64_t begin = dfi_chunk_begin(a, c), m = dfi_chunk_slots(a, c);
    if (m > n - begin) m = n - begin;
    if (dfi_same_states(dfi_chunk_states(a, c), 1, m, DFI_SLOT_WRITTEN) < m) return false;
    if (!dfi_bytes_copy(to + begin * a->cell, t->buffer, a->chunk[c], NULL, m * a->cell)) return false;
  }
  return true;
}

/* The same elements, which were read. */
static void clear_packed(dfi_tensor_array *a, int64_t n) {
  for (int64_t c = 0, begin; a->clear_after_read && (begin = dfi_chunk_begin(a, c)) < n; c++) {
    const int64_t m = dfi_chunk_slots(a, c);
    memset(dfi_chunk_states(a, c), DFI_SLOT_CLEARED, (size_t)(m < n - begin ? m : n - begin));
  }
}

static void clear_all(dfi_tensor_array *a, int64_t n, const df_tensor *index) {
  if (a->clear_after_read)
    for (int64_t i = 0; i < n; i++) dfi_element_clear(a, index ? dfk_index(index, i) : i);
}

/* All elements of an array that lie as they are to be stacked; *t NULL: an error. False: something is missing. */
static bool stack_packed(dfi_tensor_array *a, int64_t n, df_tensor **t, df_error *err) {
  const bool rows = a->store == DFI_STORE_ROWS;
  int64_t dims[DF_MAX_RANK] = { n };
  for (int32_t d = 0; rows && d < a->row.rank; d++) dims[d + 1] = a->row.dims[d];
  *t = dfi_tensor_make(a->dtype, rows ? a->row.rank + 1 : 1, dims);
  if (!*t) return dfi_array_no_memory(a, err), true;
  if (gather_packed(a, n, *t)) return clear_packed(a, n), true;
  df_tensor_release(*t);
  return false;
}

/* The shape that the elements to be stacked have in common. */
static int32_t shape_of_elements(dfi_tensor_array *a, int64_t n, const df_tensor *index, const dfi_shape *hint,
                                 dfi_shape *shape, df_error *err) {
  char title[128], x[160];
  shape->rank = -1;
  for (int64_t i = 0; i < n; i++) {
    dfi_element e;
    int64_t at = index ? dfk_index(index, i) : i;
    const int32_t status = element_at(a, at, &e, err);
    if (status) return status;
    dfi_shape s;
    if (e.data) s = dfi_shape_of(e.rank, e.dims);
    else if (!dfi_element_shape(a, at, &s)) return dfi_element_missing(a, at, e.state, err);
    if (shape->rank < 0) *shape = s;
    else if (!dfi_shape_equal(shape, &s)) return differ(a, shape, at, &s, "stacked", err);
  }
  if (n == 0 && (!dfi_shape_merge(&a->element, hint, shape) || !dfi_shape_known(shape)))
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
                    "%s has nothing to stack, and its element shape (%s) is not known in full; give element_shape",
                    dfi_tensor_array_title(a, title), dfi_shape_text(hint->rank < 0 ? &a->element : hint, x));
  if (shape->rank == DF_MAX_RANK)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s: its elements have rank %d already and cannot be stacked",
                    dfi_tensor_array_title(a, title), DF_MAX_RANK);
  return DF_OK;
}

/* Elements into t, a row each. False: there is no memory. */
static bool gather_into(dfi_tensor_array *a, df_kernel *k, int64_t n, const df_tensor *index, df_tensor *t,
                        int64_t row) {
  gathering g = { a, index, t, row };
  const int64_t bytes = row * dfi_dtype_size[a->dtype];
  if (dfk_plain(a->dtype)) {
    dfk_parallel(k, n, bytes >= GRAIN_BYTES ? 1 : GRAIN_BYTES / (bytes + 1) + 1, gather_rows, &g);
    return true;
  }
  for (int64_t i = 0; i < n; i++) {
    dfi_element e;
    dfi_element_look(a, index ? dfk_index(index, i) : i, &e);
    if (e.data && !copy_elements(t, i * row, t, e.data, e.in, row)) return false;
  }
  return true;
}

df_tensor *dfi_tensor_array_gather(dfi_tensor_array *a, df_kernel *k, int64_t n, const df_tensor *index,
                                   const dfi_shape *hint) {
  df_error *err = k->error;
  if (a->dtype == DF_RESOURCE) return no_stack_of_arrays(a, err), NULL;
  if (a->whole && !index && n == a->whole->dims[0]) return df_tensor_retain(a->whole);
  if (dfi_packed(a) && !a->whole && !index && n > 0 && !(a->store == DFI_STORE_ROWS && a->row.rank == DF_MAX_RANK)) {
    if (n > dfi_tensor_array_size(a)) return dfi_index_fail(a, dfi_tensor_array_size(a), false, err), NULL;
    df_tensor *t;
    if (stack_packed(a, n, &t, err)) return t;
  }
  dfi_shape shape;
  if (shape_of_elements(a, n, index, hint, &shape, err)) return NULL;
  int64_t dims[DF_MAX_RANK] = { n }, row = 1;
  for (int32_t i = 0; i < shape.rank; i++) row *= dims[i + 1] = shape.dims[i];
  df_tensor *t = !index && n > 0 ? shared_rows(a, n, shape.rank + 1, dims) : NULL;
  if (!t) {
    if (!(t = dfi_tensor_make(a->dtype, shape.rank + 1, dims))) return dfi_array_no_memory(a, err), NULL;
    if (!gather_into(a, k, n, index, t, row)) {
      df_tensor_release(t);
      return dfi_array_no_memory(a, err), NULL;
    }
  }
  clear_all(a, n, index);
  return t;
}

df_tensor *dfi_tensor_array_concat(dfi_tensor_array *a, df_kernel *k, int64_t n, const df_tensor *known,
                                   const dfi_shape *hint, int64_t *lengths) {
  df_error *err = k->error;
  char title[128], x[160];
  if (a->dtype == DF_RESOURCE) return no_stack_of_arrays(a, err), NULL;
  dfi_shape tail = { .rank = -1 };           /* of an element, with its rows -1 */
  int64_t rows = 0;
  for (int64_t i = 0; i < n; i++) {
    dfi_element e;
    if (element_at(a, i, &e, err)) return NULL;
    dfi_shape s;
    if (e.data) s = dfi_shape_of(e.rank, e.dims);
    else if (!dfi_element_shape(a, i, &s)) {
      if (!known || tail.rank < 0) return dfi_element_missing(a, i, e.state, err), NULL;
      s = tail;
      s.dims[0] = dfk_index(known, i);
    }
    if (s.rank == 0) {
      dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s: index %lld is a scalar: scalars are stacked, not concatenated",
               dfi_tensor_array_title(a, title), (long long)i);
      return NULL;
    }
    rows += lengths[i] = s.dims[0];
    s.dims[0] = -1;
    if (tail.rank < 0) tail = s;
    else if (!dfi_shape_equal(&tail, &s)) return differ(a, &tail, i, &s, "concatenated", err), NULL;
  }
  if (n == 0) {
    bool fit = dfi_shape_merge(&a->element, hint, &tail);
    if (tail.rank > 0) tail.dims[0] = 0;
    if (!fit || tail.rank < 1 || !dfi_shape_known(&tail)) {
      dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
               "%s has nothing to concatenate, and its element shape (%s) is not known in full; give element_shape",
               dfi_tensor_array_title(a, title), dfi_shape_text(hint->rank < 0 ? &a->element : hint, x));
      return NULL;
    }
  }
  tail.dims[0] = rows;
  df_tensor *t = dfi_tensor_make(a->dtype, tail.rank, tail.dims);
  if (!t) return dfi_array_no_memory(a, err), NULL;
  int64_t row = rows ? t->size / rows : 0, at = 0;
  for (int64_t i = 0; i < n; at += lengths[i++] * row) {
    dfi_element e;
    dfi_element_look(a, i, &e);
    if (!e.data) {
      if (dfk_plain(a->dtype))
        dfi_bytes_zero((char *)t->data + at * dfi_dtype_size[a->dtype], t->buffer,
                       lengths[i] * row * dfi_dtype_size[a->dtype]);
    } else if (!copy_elements(t, at, t, e.data, e.in, lengths[i] * row)) {
      df_tensor_release(t);
      return dfi_array_no_memory(a, err), NULL;
    }
  }
  clear_all(a, n, NULL);
  return t;
}

/* ---- many elements of one tensor ----------------------------------------------------------------- */

static int32_t check_rows(const dfi_tensor_array *a, const df_tensor *t, df_error *err) {
  char title[128], x[160];
  if (t->rank == 0)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s: a scalar has no rows to make elements of",
                    dfi_tensor_array_title(a, title));
  if (t->dtype != a->dtype)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s holds %s but is given %s", dfi_tensor_array_title(a, title),
                    df_dtype_name(a->dtype), dfk_shape_text(t, x, sizeof x));
  return DF_OK;
}

/* Rows of t have the shape that elements must have; an element shape that is not known yet becomes theirs. */
static int32_t check_row_shape(dfi_tensor_array *a, const dfi_shape *row, df_error *err) {
  char title[128], x[160], y[160];
  dfi_shape merged;
  if (a->accumulates) return DF_OK;
  if (!dfi_shape_merge(&a->element, row, &merged))
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s: its elements are %s but the rows given are %s",
                    dfi_tensor_array_title(a, title), dfi_typed_shape_text(a->dtype, &a->element, x),
                    dfi_typed_shape_text(a->dtype, row, y));
  if (a->element.rank < 0 && !a->saved) a->element = *row;
  return DF_OK;
}

static bool untouched(const dfi_tensor_array *a) {
  if (a->whole) return false;
  for (int32_t c = 0; c < a->nchunks; c++)
    if (a->chunk[c]) return false;
  return true;
}

int32_t dfi_tensor_array_unstack(dfi_tensor_array *a, df_tensor *t, df_error *err) {
  int32_t code = check_rows(a, t, err);
  if (code) return code;
  int64_t n = t->dims[0];
  if (n > dfi_tensor_array_size(a) && !a->dynamic) return dfi_index_fail(a, dfi_tensor_array_size(a), true, err);
  dfi_shape row = dfi_shape_of(t->rank - 1, t->dims + 1);
  if ((code = check_row_shape(a, &row, err)) || n == 0) return code;
  if (untouched(a) && !a->clear_after_read) {
    a->whole = df_tensor_retain(t);
    if (n > a->size) a->size = n;
    return DF_OK;
  }
  if (a->accumulates && a->whole && dfk_adds(a->dtype)) {
    dfi_shape have = dfi_shape_of(a->whole->rank, a->whole->dims), come = dfi_shape_of(t->rank, t->dims);
    if (dfi_shape_equal(&have, &come)) {
      df_tensor *w = a->whole, *sum = w;
      if (!dfi_tensor_exclusive(w) && !(sum = dfi_tensor_make(w->dtype, w->rank, w->dims)))
        return dfi_array_no_memory(a, err);
      if (!dfi_bytes_update(DFK_ADD, w->dtype, w->size, sum->data, sum->buffer, w->data, w->buffer, t->data,
          t->buffer, false))
        return dfi_array_no_memory(a, err);
      if (sum != w) df_tensor_release(w);
      a->whole = sum;
      return DF_OK;
    }
  }
  for (int64_t i = 0; i < n && !code; i++) {
    df_value v;
    if (!dfi_row_value(t, i, &v)) return dfi_array_no_memory(a, err);
    code = dfi_tensor_array_write(a, i, &v, err);
    dfi_value_drop(&v);
  }
  return code;
}

int32_t dfi_tensor_array_scatter(dfi_tensor_array *a, const df_tensor *index, df_tensor *t, df_error *err) {
  int32_t code = check_rows(a, t, err);
  char title[128], x[160], y[160];
  if (code) return code;
  if (index->rank != 1 || index->size != t->dims[0])
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s: indices is %s but must have one index for each row of %s",
                    dfi_tensor_array_title(a, title), dfk_shape_text(index, x, sizeof x),
                    dfk_shape_text(t, y, sizeof y));
  dfi_shape row = dfi_shape_of(t->rank - 1, t->dims + 1);
  code = check_row_shape(a, &row, err);
  for (int64_t i = 0; i < index->size && !code; i++) {
    df_value v;
    if (!dfi_row_value(t, i, &v)) return dfi_array_no_memory(a, err);
    code = dfi_tensor_array_write(a, dfk_index(index, i), &v, err);
    dfi_value_drop(&v);
  }
  return code;
}

int32_t dfi_tensor_array_split(dfi_tensor_array *a, df_tensor *t, const df_tensor *lengths, df_error *err) {
  int32_t code = check_rows(a, t, err);
  char title[128], x[160];
  if (code) return code;
  int64_t n = lengths->size, rows = 0, size = dfi_tensor_array_size(a);
  if (lengths->rank != 1)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s: lengths is %s but must be a vector",
                    dfi_tensor_array_title(a, title), dfk_shape_text(lengths, x, sizeof x));
  if (!a->accumulates && (n > size ? !a->dynamic : n != size && !a->dynamic))
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s has %lld locations but is split into %lld lengths",
                    dfi_tensor_array_title(a, title), (long long)size, (long long)n);
  for (int64_t i = 0; i < n; i++) {
    int64_t length = dfk_index(lengths, i);
    if (length < 0)
      return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s: lengths[%lld] is %lld but must not be negative",
                      dfi_tensor_array_title(a, title), (long long)i, (long long)length);
    rows += length;
  }
  if (rows != t->dims[0])
    return dfi_fail(
        err, DF_INVALID_ARGUMENT, NULL, "%s: lengths add up to %lld but the tensor to split, %s, has %lld rows",
        dfi_tensor_array_title(a, title), (long long)rows, dfk_shape_text(t, x, sizeof x), (long long)t->dims[0]);
  dfi_shape part = dfi_shape_of(t->rank, t->dims);
  part.dims[0] = -1;                         /* parts may differ in length */
  if ((code = check_row_shape(a, &part, err))) return code;
  int64_t row = rows ? t->size / rows : 0, at = 0;
  for (int64_t i = 0; i < n && !code; i++) {
    part.dims[0] = dfk_index(lengths, i);
    df_value v = { .kind = DF_TENSOR, .dtype = t->dtype, .as.tensor = dfi_tensor_part(t, at, t->rank, part.dims) };
    if (!v.as.tensor) return dfi_array_no_memory(a, err);
    code = dfi_tensor_array_write(a, i, &v, err);
    dfi_value_drop(&v);
    at += part.dims[0] * row;
  }
  return code;
}
