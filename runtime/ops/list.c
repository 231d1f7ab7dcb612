/* list.c: TensorList ops: lists of tensors as values in variants (list.h).
 *
 * Nothing is known of a list while building, but an op that takes elements out is told their shape by an input. A
 * missing element is zeros of the shape that this input, the list, and the list's other elements say together.
 */
#include "resource/variant.h"
#include "graph/grad.h"
#include "resource/tensor_array.h"
#include "resource/values.h"
#include "resource/variable.h"
#include "kernels/array.h"

/* ---- what is known while building ------------------------------------------------------------------------- */

/* Input i as a shape: a scalar is the -1 of one that is not known. */
static dfi_shape asked_shape(const dfi_infer *c, int32_t i) {
  return dfi_in_shape(c, i)->rank == 1 ? dfi_in_as_shape(c, i) : dfi_shape_unknown();
}

static int32_t shape_element(dfi_infer *c, int32_t out, int32_t input) {
  *dfi_set_shape(c, out) = asked_shape(c, input);
  return DF_OK;
}
static int32_t shape_get(dfi_infer *c) { return shape_element(c, 0, 2); }
static int32_t shape_pop(dfi_infer *c) {
  *dfi_set_shape(c, 0) = *dfi_in_shape(c, 0);
  return shape_element(c, 1, 1);
}
static int32_t shape_rows(dfi_infer *c, int32_t input, int64_t n) {
  dfi_shape e = asked_shape(c, input);
  if (e.rank < 0 || e.rank >= DF_MAX_RANK) return DF_OK;
  dfi_shape s = { .rank = (int8_t)(e.rank + 1), .dims = { n } };
  memcpy(s.dims + 1, e.dims, sizeof *s.dims * (size_t)e.rank);
  *dfi_set_shape(c, 0) = s;
  return DF_OK;
}
static int32_t shape_stack(dfi_infer *c) {
  return shape_rows(c, 1, c->node->attrs[1].i >= 0 ? c->node->attrs[1].i : -1);
}
static int32_t shape_gather(dfi_infer *c) {
  const dfi_shape *ix = dfi_in_shape(c, 1);
  return shape_rows(c, 2, ix->rank == 1 ? ix->dims[0] : -1);
}
static int32_t shape_concat(dfi_infer *c) {
  *dfi_set_shape(c, 1) = dfi_shape_vector(-1);
  return DF_OK;
}
static int32_t shape_vector(dfi_infer *c) { return DF_OK; }

/* ---- lists in and out of kernels ---------------------------------------------------------------------------- */

static dfi_list *list_at(df_kernel *k, int32_t i, int64_t at) {
  const df_tensor *t = k->in[i];
  dfi_handle *h = t && t->dtype == DF_VARIANT && at < t->size ? ((dfi_handle **)t->data)[at] : NULL;
  if (h && h->type == DFI_LIST) return (dfi_list *)h;
  dfk_fail(k, DF_INVALID_ARGUMENT, "input %d holds no TensorList", i);
  return NULL;
}

static dfi_list *list_in(df_kernel *k, int32_t i) {
  char text[160];
  if (k->in[i] && k->in[i]->rank == 0) return list_at(k, i, 0);
  dfk_fail(k, DF_INVALID_ARGUMENT, "input %d is %s but must be one TensorList", i,
           k->in[i] ? dfk_shape_text(k->in[i], text, sizeof text) : "a handle");
  return NULL;
}

/* Output `out` is the list; consumes it. */
static int32_t give(df_kernel *k, int32_t out, dfi_list *l) {
  df_tensor *t = dfk_out(k, out, DF_VARIANT, 0, NULL);
  if (t) dfk_set_variant(t, 0, l);
  dfi_handle_release(l);
  return t ? DF_OK : k->error->code;
}

/* Is there memory for a list of n elements? Else k->error says so. */
static bool room_for(df_kernel *k, int64_t n) {
  return dfi_slots_for(n, 2 * sizeof(df_value), "a TensorList", k->error);
}

/* The list of input i to be changed, as output `out`: itself where it has no other holder. NULL: error is filled. */
static dfi_list *change(df_kernel *k, int32_t i, int32_t out, const dfi_list *l) {
  df_tensor *t = (df_tensor *)k->in[i];
  if (i < 32 && k->reusable >> i & 1 && dfi_tensor_exclusive(t) &&
      __atomic_load_n(&l->base.refs, __ATOMIC_ACQUIRE) == 1) {
    k->out[out] = (df_value){ .kind = DF_TENSOR, .dtype = DF_VARIANT, .as.tensor = df_tensor_retain(t) };
    return (dfi_list *)l;
  }
  dfi_list *copy = dfi_list_copy(l);
  return give(k, out, copy) ? NULL : copy;
}

/* A shape given as a tensor: a vector, or a scalar -1 for one of unknown rank. */
static bool shape_in(df_kernel *k, int32_t i, dfi_shape *s) {
  const df_tensor *t = k->in[i];
  char text[160];
  *s = dfi_shape_unknown();
  if (t->rank == 0 && dfk_index(t, 0) == -1) return true;
  bool ok = t->rank == 1 && t->size <= DF_MAX_RANK;
  for (int64_t d = 0; ok && d < t->size; d++) ok = (s->dims[d] = dfk_index(t, d)) >= -1;
  s->rank = (int8_t)t->size;
  if (!ok)
    dfk_fail(k, DF_INVALID_ARGUMENT, "element_shape is %s: expected a vector of dimensions, or -1",
             dfk_shape_text(t, text, sizeof text));
  return ok;
}

static int32_t check_dtype(df_kernel *k, const dfi_list *l, uint8_t dtype) {
  if (l->dtype == dtype) return DF_OK;
  return dfk_fail(k, DF_INVALID_ARGUMENT, "the list holds %s but the op is for %s", df_dtype_name(l->dtype),
                  df_dtype_name(dtype));
}

static int32_t check_element(df_kernel *k, const dfi_list *l, const df_value *v) {
  dfi_shape s = dfi_value_shape(v), merged;
  char a[160], b[160];
  if (check_dtype(k, l, v->dtype)) return k->error->code;
  if (dfi_shape_merge(&l->element, &s, &merged)) return DF_OK;
  return dfk_fail(k, DF_INVALID_ARGUMENT, "the list's elements are %s but it is given %s",
                  dfi_typed_shape_text(l->dtype, &l->element, a), dfi_typed_shape_text(v->dtype, &s, b));
}

static int32_t merge(df_kernel *k, dfi_shape *s, const dfi_shape *with) {
  char a[160], b[160];
  dfi_shape both;
  if (dfi_shape_merge(s, with, &both)) {
    *s = both;
    return DF_OK;
  }
  return dfk_fail(k, DF_INVALID_ARGUMENT,
                  "the list's elements are %s but the shape asked for, or that of another element, is %s",
                  dfi_shape_text(s, a), dfi_shape_text(with, b));
}

/* The shape that input `asked`, the list, and its elements where that is not enough, give together. */
static int32_t element_shape(df_kernel *k, const dfi_list *l, int32_t asked, dfi_shape *s) {
  if (!shape_in(k, asked, s) || merge(k, s, &l->element)) return k->error->code;
  for (int64_t i = 0; i < l->n && !dfi_shape_known(s); i++) {
    if (l->item[i].kind == DF_EMPTY) continue;
    dfi_shape e = dfi_value_shape(&l->item[i]);
    if (merge(k, s, &e)) return k->error->code;
  }
  return DF_OK;
}

/* Zeros for a missing element, owned. */
static int32_t zeros(df_kernel *k, const dfi_list *l, const dfi_shape *s, df_value *out) {
  char a[160];
  if (!dfi_shape_known(s))
    return dfk_fail(k, DF_INVALID_ARGUMENT,
                    "an element that was never set is read, and its shape (%s) is not known in full",
                    dfi_shape_text(s, a));
  return dfi_values_zeros(l->dtype, s, out) ? DF_OK : dfi_variant_no_memory(k);
}

static int32_t index_in(df_kernel *k, int32_t i, const dfi_list *l, int64_t *at) {
  if (!dfk_integer(k, i, "index", at)) return k->error->code;
  if (*at >= 0 && *at < l->n) return DF_OK;
  return dfk_fail(k, DF_INVALID_ARGUMENT, "index %lld is outside the list, which has %lld elements", (long long)*at,
                  (long long)l->n);
}

static void give_value(df_kernel *k, int32_t out, df_value v) {   /* consumed */
  v.dead = v.flags = 0;
  v.uses = 0;
  k->out[out] = v;
}

/* ---- kernels: making ------------------------------------------------------------------------------------------- */

/* element_shape max_num_elements; element_dtype */
static int32_t kernel_empty(df_kernel *k) {
  dfi_shape s;
  int64_t most;
  if (!shape_in(k, 0, &s) || !dfk_integer(k, 1, "max_num_elements", &most)) return k->error->code;
  dfi_list *l = dfi_list_new((uint8_t)dfk_int(k, 0), &s, 0);
  l->most = most;
  return give(k, 0, l);
}

/* element_shape num_elements; element_dtype */
static int32_t kernel_reserve(df_kernel *k) {
  dfi_shape s;
  int64_t n;
  if (!shape_in(k, 0, &s) || !dfk_integer(k, 1, "num_elements", &n)) return k->error->code;
  if (n < 0) return dfk_fail(k, DF_INVALID_ARGUMENT, "num_elements is %lld but must not be negative", (long long)n);
  return room_for(k, n) ? give(k, 0, dfi_list_new((uint8_t)dfk_int(k, 0), &s, n)) : k->error->code;
}

static bool rows_in(df_kernel *k, int32_t i) {
  char text[160];
  if (k->in[i]->rank > 0) return true;
  dfk_fail(k, DF_INVALID_ARGUMENT, "the tensor is %s but must be a vector at least",
           dfk_shape_text(k->in[i], text, sizeof text));
  return false;
}

/* Row i of input `from` becomes element indices[i] (NULL: i) of l. */
static int32_t place_rows(df_kernel *k, dfi_list *l, int32_t from, const df_tensor *indices) {
  df_tensor *t = (df_tensor *)k->in[from];
  dfi_shape row = dfi_shape_of(t->rank - 1, t->dims + 1), merged;
  char a[160], b[160];
  if (check_dtype(k, l, t->dtype)) return k->error->code;
  if (!dfi_shape_merge(&l->element, &row, &merged))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the list's elements are %s but the rows are %s",
                    dfi_shape_text(&l->element, a), dfi_shape_text(&row, b));
  for (int64_t i = 0; i < t->dims[0]; i++) {
    df_value v;
    if (!dfi_row_value(t, i, &v)) return dfi_variant_no_memory(k);
    dfi_list_set(l, indices ? dfk_index(indices, i) : i, &v);
    dfi_value_drop(&v);
  }
  return DF_OK;
}

static int32_t give_or_drop(df_kernel *k, dfi_list *l, int32_t code) {
  if (!code) return give(k, 0, l);
  dfi_handle_release(l);
  return code;
}

/* tensor element_shape */
static int32_t kernel_from_tensor(df_kernel *k) {
  dfi_shape s;
  if (!rows_in(k, 0) || !shape_in(k, 1, &s)) return k->error->code;
  dfi_list *l = dfi_list_new(k->in[0]->dtype, &s, k->in[0]->dims[0]);
  return give_or_drop(k, l, place_rows(k, l, 0, NULL));
}

/* The indices of a scatter: one for each row, none negative. *top: the largest. */
static int32_t scatter_indices(df_kernel *k, int32_t rows, int32_t i, int64_t *top) {
  const df_tensor *ix = k->in[i];
  *top = -1;
  if (!rows_in(k, rows)) return k->error->code;
  if (ix->rank != 1 || ix->size != k->in[rows]->dims[0])
    return dfk_fail(k, DF_INVALID_ARGUMENT, "there are %lld indices for %lld rows", (long long)ix->size,
                    (long long)k->in[rows]->dims[0]);
  for (int64_t at = 0; at < ix->size; at++) {
    if (dfk_index(ix, at) < 0)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "indices[%lld] is %lld but must not be negative", (long long)at,
                      (long long)dfk_index(ix, at));
    if (dfk_index(ix, at) > *top) *top = dfk_index(ix, at);
  }
  return DF_OK;
}

/* tensor indices element_shape (num_elements) */
static int32_t kernel_scatter(df_kernel *k) {
  dfi_shape s;
  int64_t top, n = -1;
  if (scatter_indices(k, 0, 1, &top) || !shape_in(k, 2, &s) || (k->nin > 3 && !dfk_integer(k, 3, "num_elements", &n)))
    return k->error->code;
  if (n < -1 || (n >= 0 && top >= n))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "num_elements is %lld but the largest index is %lld", (long long)n,
                    (long long)top);
  if (n < 0) n = top + 1;
  if (!room_for(k, n)) return k->error->code;
  dfi_list *l = dfi_list_new(k->in[0]->dtype, &s, n);
  return give_or_drop(k, l, place_rows(k, l, 0, k->in[1]));
}

/* input_handle tensor indices */
static int32_t kernel_scatter_into(df_kernel *k) {
  const dfi_list *was = list_in(k, 0);
  int64_t top;
  if (!was || scatter_indices(k, 1, 2, &top) || check_dtype(k, was, k->in[1]->dtype)) return k->error->code;
  dfi_list *l = room_for(k, top) ? change(k, 0, 0, was) : NULL;
  if (!l) return k->error->code;
  if (top >= l->n) dfi_list_resize(l, top + 1);
  return place_rows(k, l, 1, k->in[2]);
}

/* tensor element_shape lengths */
static int32_t kernel_split(df_kernel *k) {
  dfi_shape s, whole, merged;
  char a[160], b[160];
  df_tensor *t = (df_tensor *)k->in[0];
  const df_tensor *lengths = k->in[2];
  if (!rows_in(k, 0) || !shape_in(k, 1, &s)) return k->error->code;
  int64_t total = 0;
  bool negative = lengths->rank != 1;
  for (int64_t i = 0; i < lengths->size; i++) {
    total += dfk_index(lengths, i);
    negative |= dfk_index(lengths, i) < 0;
  }
  if (negative || total != t->dims[0])
    return dfk_fail(k, DF_INVALID_ARGUMENT, "lengths must be a vector of %lld in all, and none negative",
                    (long long)t->dims[0]);
  whole = dfi_shape_of(t->rank, t->dims);
  whole.dims[0] = -1;
  if (!dfi_shape_merge(&s, &whole, &merged))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "element_shape is %s but the parts are %s", dfi_shape_text(&s, a),
                    dfi_shape_text(&whole, b));
  dfi_list *l = dfi_list_new(t->dtype, &s, lengths->size);
  int64_t row = total ? t->size / total : 0, at = 0, dims[DF_MAX_RANK];
  memcpy(dims, t->dims, sizeof dims);
  for (int64_t i = 0; i < lengths->size; i++, at += row * dims[0]) {
    dims[0] = dfk_index(lengths, i);
    df_value part = { .kind = DF_TENSOR, .dtype = t->dtype, .as.tensor = dfi_tensor_part(t, at, t->rank, dims) };
    if (!part.as.tensor) return give_or_drop(k, l, dfi_variant_no_memory(k));
    dfi_list_set(l, i, &part);
    dfi_value_drop(&part);
  }
  return give(k, 0, l);
}

/* ---- kernels: one element ---------------------------------------------------------------------------------------- */

static int32_t check_room(df_kernel *k, const dfi_list *l) {
  if (l->most < 0 || l->n < l->most) return DF_OK;
  return dfk_fail(k, DF_INVALID_ARGUMENT, "the list is full: it holds %lld elements at most", (long long)l->most);
}

/* input_handle tensor */
static int32_t kernel_push(df_kernel *k) {
  const dfi_list *was = list_in(k, 0);
  if (!was || check_element(k, was, k->raw[1]) || check_room(k, was)) return k->error->code;
  dfi_list *l = change(k, 0, 0, was);
  if (!l) return k->error->code;
  dfi_list_push(l, k->raw[1]);
  return DF_OK;
}

/* input_handles[…] tensor[…, …]: row i is pushed on list i */
static int32_t kernel_push_batch(df_kernel *k) {
  const df_tensor *lists = k->in[0];
  if (!rows_in(k, 1)) return k->error->code;
  if (lists->rank != 1 || lists->size != k->in[1]->dims[0])
    return dfk_fail(k, DF_INVALID_ARGUMENT, "there are %lld lists for %lld rows", (long long)lists->size,
                    (long long)k->in[1]->dims[0]);
  df_tensor *out = dfk_out_like(k, 0, lists);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < lists->size; i++) {
    const dfi_list *was = list_at(k, 0, i);
    df_value row;
    if (!was) return k->error->code;
    if (!dfi_row_value((df_tensor *)k->in[1], i, &row)) return dfi_variant_no_memory(k);
    dfi_list *l = check_element(k, was, &row) || check_room(k, was) ? NULL : dfi_list_copy(was);
    if (l) {
      dfi_list_push(l, &row);
      dfk_set_variant(out, i, l);
      dfi_handle_release(l);
    }
    dfi_value_drop(&row);
    if (!l) return k->error->code;
  }
  return DF_OK;
}

/* input_handle element_shape */
static int32_t kernel_pop(df_kernel *k) {
  const dfi_list *was = list_in(k, 0);
  if (!was || check_dtype(k, was, k->out_dtype[1])) return k->error->code;
  if (was->n == 0) return dfk_fail(k, DF_INVALID_ARGUMENT, "there is nothing to pop: the list is empty");
  df_value v = dfi_value_copy(&was->item[was->n - 1]);
  dfi_shape s;
  if (v.kind == DF_EMPTY && (element_shape(k, was, 1, &s) || zeros(k, was, &s, &v))) return k->error->code;
  give_value(k, 1, v);
  dfi_list *l = change(k, 0, 0, was);
  if (!l) return k->error->code;
  dfi_list_resize(l, l->n - 1);
  return DF_OK;
}

/* input_handle index element_shape */
static int32_t kernel_get(df_kernel *k) {
  const dfi_list *l = list_in(k, 0);
  int64_t i;
  if (!l || check_dtype(k, l, k->out_dtype[0]) || index_in(k, 1, l, &i)) return k->error->code;
  df_value v = dfi_value_copy(&l->item[i]);
  dfi_shape s;
  if (v.kind == DF_EMPTY && (element_shape(k, l, 2, &s) || zeros(k, l, &s, &v))) return k->error->code;
  give_value(k, 0, v);
  return DF_OK;
}

/* input_handle index item; resize_if_index_out_of_bounds */
static int32_t kernel_set(df_kernel *k) {
  const dfi_list *was = list_in(k, 0);
  int64_t i;
  if (!was || !dfk_integer(k, 1, "index", &i)) return k->error->code;
  bool grows = dfk_bool(k, 0) && i >= was->n;
  if ((!grows && index_in(k, 1, was, &i)) || check_element(k, was, k->raw[2])) return k->error->code;
  dfi_list *l = !grows || room_for(k, i) ? change(k, 0, 0, was) : NULL;
  if (!l) return k->error->code;
  if (grows) dfi_list_resize(l, i + 1);
  dfi_list_set(l, i, k->raw[2]);
  return DF_OK;
}

/* ---- kernels: many elements -------------------------------------------------------------------------------------- */

/* The elements that indices names (NULL: all n) with zeros for the missing ones, all of shape *s; to be dropped and
   freed. */
static df_value *take(df_kernel *k, const dfi_list *l, int64_t n, const df_tensor *indices, dfi_shape *s) {
  df_value *v = dfi_xcalloc((size_t)n + 1, sizeof *v);
  int64_t i = 0;
  for (; i < n; i++) {
    int64_t at = indices ? dfk_index(indices, i) : i;
    if (at < 0 || at >= l->n) {
      dfk_fail(k, DF_INVALID_ARGUMENT, "indices[%lld] is %lld, outside the list of %lld elements", (long long)i,
               (long long)at, (long long)l->n);
      break;
    }
    v[i] = dfi_value_copy(&l->item[at]);
    if (v[i].kind == DF_EMPTY) {
      if (zeros(k, l, s, &v[i])) break;
      continue;
    }
    dfi_shape e = dfi_value_shape(&v[i]);
    if (merge(k, s, &e)) { i++; break; }
  }
  if (i == n && !k->error->code) return v;
  while (i-- > 0) dfi_value_drop(&v[i]);
  dfi_free(v);
  return NULL;
}

/* Input `asked` says the shape. */
static int32_t stack(df_kernel *k, const dfi_list *l, int32_t asked, int64_t n, const df_tensor *indices) {
  dfi_shape s;
  char a[160];
  if (check_dtype(k, l, k->out_dtype[0]) || element_shape(k, l, asked, &s)) return k->error->code;
  if (n == 0 && !dfi_shape_known(&s))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "no elements are stacked, and what they would be (%s) is not known in full",
                    dfi_shape_text(&s, a));
  df_value *v = take(k, l, n, indices, &s);
  return v ? dfi_values_drop(v, n, dfi_values_stack(k, 0, l->dtype, &s, n, v)) : k->error->code;
}

/* input_handle element_shape; element_dtype num_elements */
static int32_t kernel_stack(df_kernel *k) {
  const dfi_list *l = list_in(k, 0);
  if (!l) return k->error->code;
  if (dfk_int(k, 1) >= 0 && dfk_int(k, 1) != l->n)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the list has %lld elements, not %lld", (long long)l->n,
                    (long long)dfk_int(k, 1));
  return stack(k, l, 1, l->n, NULL);
}

/* input_handle indices element_shape: a list whose element shape is open gives nothing for no indices. */
static int32_t kernel_gather(df_kernel *k) {
  const dfi_list *l = list_in(k, 0);
  dfi_shape s;
  char a[160];
  if (!l) return k->error->code;
  if (k->in[1]->rank != 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "indices is %s but must be a vector",
                    dfk_shape_text(k->in[1], a, sizeof a));
  if (k->in[1]->size == 0 && (!shape_in(k, 2, &s) || merge(k, &s, &l->element))) return k->error->code;
  if (k->in[1]->size == 0 && !dfi_shape_known(&s))
    return dfk_fail(k, DF_INVALID_ARGUMENT,
                    "no elements are gathered, and what they would be (%s) is not known in full",
                    dfi_shape_text(&s, a));
  return stack(k, l, 2, k->in[1]->size, k->in[1]);
}

/* The elements joined. `s` is what their shapes fit; `leading` (may be NULL) has the rows of the missing ones. */
static int32_t concat(df_kernel *k, const dfi_list *l, dfi_shape s, const df_tensor *leading) {
  char a[160], b[160];
  if (check_dtype(k, l, k->out_dtype[0]) || merge(k, &s, &l->element)) return k->error->code;
  int64_t n = l->n, total = 0, first = s.rank > 0 ? s.dims[0] : -1;
  dfi_shape rest = s.rank > 0 ? dfi_shape_of(s.rank - 1, s.dims + 1) : dfi_shape_unknown();
  df_tensor *lengths = dfk_out(k, 1, DF_INT64, 1, &n);
  if (!lengths) return k->error->code;
  for (int64_t i = 0; i < n; i++) {
    if (l->item[i].kind == DF_EMPTY) continue;
    dfi_shape e = dfi_value_shape(&l->item[i]);
    if (e.rank == 0)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "element %lld is a scalar: scalars are stacked, not concatenated",
                      (long long)i);
    e = dfi_shape_of(e.rank - 1, e.dims + 1);
    if (!dfi_shape_merge(&rest, &e, &rest))
      return dfk_fail(k, DF_INVALID_ARGUMENT, "element %lld has rows %s, but %s was expected", (long long)i,
                      dfi_shape_text(&e, a), dfi_shape_text(&rest, b));
  }
  if (!dfi_shape_known(&rest))
    return dfk_fail(k, DF_INVALID_ARGUMENT,
                    "nothing is concatenated, and what its rows would be (%s) is not known in full",
                    dfi_shape_text(&rest, a));
  df_value *v = dfi_xcalloc((size_t)n + 1, sizeof *v);
  for (int64_t i = 0; i < n; i++) {
    v[i] = dfi_value_copy(&l->item[i]);
    if (v[i].kind == DF_EMPTY) {
      dfi_shape full = { .rank = (int8_t)(rest.rank + 1),
                         .dims = { leading && i < leading->size ? dfk_index(leading, i) : first } };
      memcpy(full.dims + 1, rest.dims, sizeof *rest.dims * (size_t)rest.rank);
      if (zeros(k, l, &full, &v[i])) return dfi_values_drop(v, i, k->error->code);
    }
    total += ((int64_t *)lengths->data)[i] = v[i].as.tensor->dims[0];
  }
  return dfi_values_drop(v, n, dfi_values_concat(k, 0, l->dtype, &rest, total, n, v));
}

/* input_handle; element_dtype element_shape */
static int32_t kernel_concat(df_kernel *k) {
  const dfi_list *l = list_in(k, 0);
  return l ? concat(k, l, dfi_shape_of((int32_t)k->attrs[1].i, k->attrs[1].ints), NULL) : k->error->code;
}

/* input_handle element_shape leading_dims; element_dtype */
static int32_t kernel_concat_v2(df_kernel *k) {
  const dfi_list *l = list_in(k, 0);
  dfi_shape s;
  return l && shape_in(k, 1, &s) ? concat(k, l, s, k->in[2]->size ? k->in[2] : NULL) : k->error->code;
}

/* ---- kernels: whole lists ---------------------------------------------------------------------------------------- */

static int32_t kernel_length(df_kernel *k) {
  const dfi_list *l = list_in(k, 0);
  if (!l) return k->error->code;
  k->out[0] = (df_value){ .kind = DF_SCALAR, .dtype = DF_INT32, .as.i32 = (int32_t)l->n };
  return DF_OK;
}

static int32_t kernel_element_shape(df_kernel *k) {
  const dfi_list *l = list_in(k, 0);
  if (!l) return k->error->code;
  int64_t rank = l->element.rank;
  df_tensor *t = dfk_out(k, 0, k->out_dtype[0], rank < 0 ? 0 : 1, &rank);
  if (!t) return k->error->code;
  if (rank < 0) df_tensor_set_int(t, 0, -1);
  for (int32_t d = 0; d < rank; d++) df_tensor_set_int(t, d, l->element.dims[d]);
  return DF_OK;
}

/* input_handle size */
static int32_t kernel_resize(df_kernel *k) {
  const dfi_list *was = list_in(k, 0);
  int64_t n;
  if (!was || !dfk_integer(k, 1, "size", &n)) return k->error->code;
  if (n < 0) return dfk_fail(k, DF_INVALID_ARGUMENT, "the size is %lld but must not be negative", (long long)n);
  dfi_list *l = room_for(k, n) ? change(k, 0, 0, was) : NULL;
  if (!l) return k->error->code;
  dfi_list_resize(l, n);
  return DF_OK;
}

/* input_a input_b, of one shape */
static int32_t kernel_concat_lists(df_kernel *k) {
  const df_tensor *a = k->in[0], *b = k->in[1];
  if (a->size != b->size || a->rank != b->rank)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "there are %lld lists to join with %lld", (long long)a->size,
                    (long long)b->size);
  df_tensor *out = dfk_out_like(k, 0, a);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < a->size; i++) {
    const dfi_list *x = list_at(k, 0, i), *y = x ? list_at(k, 1, i) : NULL;
    if (!y || check_dtype(k, x, y->dtype)) return k->error->code;
    dfi_list *l = dfi_list_copy(x);
    for (int64_t at = 0; at < y->n; at++) dfi_list_push(l, &y->item[at]);
    dfk_set_variant(out, i, l);
    dfi_handle_release(l);
  }
  return DF_OK;
}

/* input_handle tensor indices: as long a list as input_handle's, whose element indices[i] has row i of the tensor added
   to it. */
static int32_t kernel_gather_grad(df_kernel *k) {
  const dfi_list *like = list_in(k, 0);
  int64_t top;
  if (!like || scatter_indices(k, 1, 2, &top)) return k->error->code;
  if (top >= like->n)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "index %lld is outside the list of %lld elements", (long long)top,
                    (long long)like->n);
  dfi_list *l = dfi_list_new(k->in[1]->dtype, &like->element, like->n);
  int32_t code = DF_OK;
  for (int64_t i = 0; i < k->in[2]->size && !code; i++) {
    df_value row;
    if (!dfi_row_value((df_tensor *)k->in[1], i, &row)) code = dfi_variant_no_memory(k);
    else code = dfi_value_add(k, &l->item[dfk_index(k->in[2], i)], &row);
    dfi_value_drop(&row);
  }
  return give_or_drop(k, l, code);
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

/* HOST_IN and HOST_OUT: what is the host's where a GPU has the elements: shapes, indices, lengths. */
#define ENTRY(TYPE, HOST_IN, HOST_OUT, IN, OUT, TYPES, ATTRS, DOC, SHAPE, GRAD, KERNEL) \
  { .type = TYPE, .in = IN, .out = OUT, .types = TYPES, .attrs = ATTRS, .doc = DOC, .stateful = true, \
    .traits = DFO_REPEATS, .remote = DFI_REMOTE_MOVES, .host_in = HOST_IN, .host_out = HOST_OUT, \
    .shape = SHAPE, GRAD, .kernel = { [DF_REF] = KERNEL } }
#define GRAD(NAME) .grad = dfi_grad_list_##NAME
#define NO_GRAD    .no_grad = true
#define LIST "input_handle:variant"
#define OUT_LIST "output_handle:variant"
#define DTYPE "element_dtype:dtype"
#define S "shape_type=int32|int64"

static const df_op ops[] = {
  ENTRY("EmptyTensorList", 0x3, 0x0, "element_shape:shape_type max_num_elements:int32", "handle:variant", S, DTYPE,
        "an empty list of elements of this dtype and shape; max_num_elements -1: as many as one likes",
        dfi_shape_all_scalar, NO_GRAD, kernel_empty),
  ENTRY("TensorListReserve", 0x3, 0x0, "element_shape:shape_type num_elements:int32", "handle:variant", S, DTYPE,
        "a list of num_elements elements that are not set yet", dfi_shape_all_scalar, NO_GRAD, kernel_reserve),
  ENTRY("TensorListFromTensor", 0x2, 0x0, "tensor:T element_shape:shape_type", OUT_LIST, "T=any " S, "",
        "the rows of a tensor as a list", dfi_shape_all_scalar, GRAD(from_tensor), kernel_from_tensor),
  ENTRY("TensorListScatter", 0x6, 0x0, "tensor:T indices:int32 element_shape:shape_type", OUT_LIST, "T=any " S, "",
        "a list whose element indices[i] is row i of the tensor", dfi_shape_all_scalar, GRAD(scatter), kernel_scatter),
  ENTRY("TensorListScatterV2", 0xe, 0x0, "tensor:T indices:int32 element_shape:shape_type num_elements:int32", OUT_LIST,
        "T=any " S, "",
        "a list of num_elements elements (-1: as many as are named) whose element indices[i] is row i of the tensor",
        dfi_shape_all_scalar, GRAD(scatter), kernel_scatter),
  ENTRY("TensorListScatterIntoExistingList", 0x4, 0x0, LIST " tensor:T indices:int32", OUT_LIST, "T=any", "",
        "the list with element indices[i] replaced by row i of the tensor", dfi_shape_all_scalar, GRAD(scatter_into),
        kernel_scatter_into),
  ENTRY("TensorListSplit", 0x6, 0x0, "tensor:T element_shape:shape_type lengths:int64", OUT_LIST, "T=any " S, "",
        "the first lengths[0] rows of the tensor as element 0, the next lengths[1] as element 1, …",
        dfi_shape_all_scalar, GRAD(split), kernel_split),
  ENTRY("TensorListPushBack", 0x0, 0x0, LIST " tensor:T", OUT_LIST, "T=any", "",
        "the list with one element more at its end",
        dfi_shape_all_scalar, GRAD(push), kernel_push),
  ENTRY("TensorListPushBackBatch", 0x0, 0x0, "input_handles:variant tensor:T", "output_handles:variant", "T=any", "",
        "each list with its row of the tensor at the end", dfi_shape_same, NO_GRAD, kernel_push_batch),
  ENTRY("TensorListPopBack", 0x2, 0x0, LIST " element_shape:int32", OUT_LIST " tensor:element_dtype",
        "element_dtype=any", DTYPE,
        "the list without its last element, and that element", shape_pop, GRAD(pop), kernel_pop),
  ENTRY("TensorListGetItem", 0x6, 0x0, LIST " index:int32 element_shape:int32", "item:element_dtype",
        "element_dtype=any", DTYPE,
        "the element at index", shape_get, GRAD(get), kernel_get),
  ENTRY("TensorListSetItem", 0x2, 0x0, LIST " index:int32 item:T", OUT_LIST, "T=any",
        "resize_if_index_out_of_bounds:bool=false",
        "the list with another element at index", dfi_shape_all_scalar, GRAD(set), kernel_set),
  ENTRY("TensorListStack", 0x2, 0x0, LIST " element_shape:int32", "tensor:element_dtype", "element_dtype=any",
        DTYPE " num_elements:int=-1", "all elements stacked", shape_stack, GRAD(stack), kernel_stack),
  ENTRY("TensorListGather", 0x6, 0x0, LIST " indices:int32 element_shape:int32", "values:element_dtype",
        "element_dtype=any",
        DTYPE, "the elements at indices, stacked", shape_gather, GRAD(gather), kernel_gather),
  ENTRY("TensorListGatherGrad", 0x4, 0x0, LIST " tensor:T indices:int32", OUT_LIST, "T=any", "",
        "a list as long as another whose elements are the sums of the rows that the indices give them",
        dfi_shape_all_scalar, GRAD(gather_grad), kernel_gather_grad),
  ENTRY("TensorListConcat", 0x0, 0x2, LIST, "tensor:element_dtype lengths:int64", "element_dtype=any",
        DTYPE " element_shape:shape=?", "all elements joined along axis 0, and how many rows each has", shape_concat,
        GRAD(concat), kernel_concat),
  ENTRY("TensorListConcatV2", 0x6, 0x2, LIST " element_shape:shape_type leading_dims:int64",
        "tensor:element_dtype lengths:int64",
        "element_dtype=any " S, DTYPE,
        "all elements joined along axis 0, and how many rows each has; leading_dims says how many a missing one has",
        shape_concat, GRAD(concat), kernel_concat_v2),
  ENTRY("TensorListConcatLists", 0x0, 0x0, "input_a:variant input_b:variant", "output:variant", "", DTYPE,
        "each list of input_a with the elements of its list of input_b after its own", dfi_shape_same, NO_GRAD,
        kernel_concat_lists),
  ENTRY("TensorListLength", 0x0, 0x0, LIST, "length:int32", "", "", "the number of elements", dfi_shape_all_scalar,
        NO_GRAD,
        kernel_length),
  ENTRY("TensorListElementShape", 0x0, 0x1, LIST, "element_shape:shape_type", S, "shape_type:dtype",
        "the shape that all elements fit; -1 where not even its rank is known", shape_vector, NO_GRAD,
        kernel_element_shape),
  ENTRY("TensorListResize", 0x2, 0x0, LIST " size:int32", OUT_LIST, "", "",
        "the list cut, or with elements that are not set at its end", dfi_shape_all_scalar, GRAD(resize),
        kernel_resize),
};
const dfi_op_table dfi_ops_list = { ops, (int32_t)(sizeof ops / sizeof *ops) };
