/* ragged.c: ragged tensors (row splits, outermost first, and values) put into variants and taken out again, and
 * crosses of their columns and of sparse ones. */
#include "resource/box.h"
#include "kernels/ragged.h"
#include "kernels/string.h"
#include "graph/grad.h"
#include "op/op.h"
#include "resource/tensor_array.h"
#include "resource/values.h"
#include "resource/variable.h"
#include <math.h>

static int32_t out_of_memory(df_kernel *k) {
  return dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for a part of a ragged tensor");
}

/* Split i of a vector of int32 or int64 splits, moved to begin at 0: entries [from, to]. Owned. */
static df_tensor *cut_splits(const df_tensor *t, int64_t from, int64_t to) {
  int64_t n = to - from + 1;
  df_tensor *s = dfi_tensor_make(t->dtype, 1, &n);
  for (int64_t i = 0; s && i < n; i++) df_tensor_set_int(s, i, dfk_index(t, from + i) - dfk_index(t, from));
  return s;
}

/* Rows [from, from + n) of t, owned. */
static df_tensor *cut_rows(df_tensor *t, int64_t from, int64_t n) {
  int64_t dims[DF_MAX_RANK];
  memcpy(dims, t->dims, sizeof dims);
  dims[0] = n;
  return dfi_tensor_part(t, t->dims[0] ? from * (t->size / t->dims[0]) : 0, t->rank, dims);
}

/* Do the splits fit each other and the values? */
static bool check_ragged(df_kernel *k, int32_t n) {
  char text[160];
  for (int32_t i = 0; i < n; i++) {
    const df_tensor *s = k->in[i], *below = k->in[i + 1];
    int64_t rows = below->rank == 0 ? -1 : below->dims[0] - (i + 1 < n);
    bool ok = s->rank == 1 && s->size > 0 && dfk_index(s, 0) == 0 && dfk_index(s, s->size - 1) == rows;
    for (int64_t e = 1; ok && e < s->size; e++) ok = dfk_index(s, e) >= dfk_index(s, e - 1);
    if (ok) continue;
    dfk_fail(k, DF_INVALID_ARGUMENT, "rt_nested_splits[%d] is %s: expected numbers from 0 to %lld that never fall", i,
             dfk_shape_text(s, text, sizeof text), (long long)rows);
    return false;
  }
  return true;
}

/* Row r of the ragged tensor in inputs 0 … n (splits, then values), owned: a ragged tensor with n - 1 splits, or for n
 * = 0 a row of the values. NULL: out of memory. */
static dfi_box *row_of(df_kernel *k, int32_t n, int64_t r) {
  dfi_box *b = dfi_box_new(DFI_RAGGED, n ? n : 1);
  bool ok = true;
  if (!n) {
    df_value v;
    ok = dfi_row_value((df_tensor *)k->in[0], r, &v);
    if (ok) b->tensor[0] = v.kind == DF_TENSOR ? v.as.tensor : dfi_tensor_from_scalar(&v);
  } else {
    int64_t from = dfk_index(k->in[0], r), to = dfk_index(k->in[0], r + 1);
    for (int32_t i = 1; i < n && ok; i++) {
      b->tensor[i - 1] = cut_splits(k->in[i], from, to);
      ok = b->tensor[i - 1] != NULL;
      int64_t next = dfk_index(k->in[i], from);
      to = dfk_index(k->in[i], to);
      from = next;
    }
    if (ok) b->tensor[n - 1] = cut_rows((df_tensor *)k->in[n], from, to - from);
  }
  if (ok && b->tensor[b->n - 1]) return b;
  dfi_handle_release(b);
  return NULL;
}

/* rt_nested_splits… rt_dense_values; batched_input */
static int32_t kernel_to_variant(df_kernel *k) {
  int32_t n = k->nin - 1;
  if (!check_ragged(k, n)) return k->error->code;
  if (!dfk_bool(k, 0)) {
    df_tensor *out = dfk_out(k, 0, DF_VARIANT, 0, NULL);
    if (!out) return k->error->code;
    dfi_box *b = dfi_box_new(DFI_RAGGED, k->nin);
    bool ok = true;
    for (int32_t i = 0; i < k->nin; i++) ok = (b->tensor[i] = dfk_own(k, i)) && ok;
    dfk_set_variant(out, 0, b);
    dfi_handle_release(b);
    return ok ? DF_OK : k->error->code;
  }
  if (!n && k->in[0]->rank == 0) return dfk_fail(k, DF_INVALID_ARGUMENT, "a scalar has no rows to make a batch of");
  int64_t rows = n ? k->in[0]->size - 1 : k->in[0]->dims[0];
  df_tensor *out = dfk_out(k, 0, DF_VARIANT, 1, &rows);
  if (!out) return k->error->code;
  for (int64_t r = 0; r < rows; r++) {
    dfi_box *b = row_of(k, n, r);
    if (!b) return out_of_memory(k);
    dfk_set_variant(out, r, b);
    dfi_handle_release(b);
  }
  return DF_OK;
}

/* The rows of a ragged tensor at its outermost level. */
static int64_t rows_of(const dfi_box *b) {
  return b->n > 1 ? b->tensor[0]->size - 1 : b->tensor[0]->rank ? b->tensor[0]->dims[0] : 1;
}

/* Splits `level` of all boxes, one after the other, as output `out`: each continues where the one before ended. */
static int32_t join_splits(df_kernel *k, int32_t out, dfi_box *const *box, int64_t n, int32_t level) {
  int64_t size = 1, at = 0, base = 0;
  for (int64_t i = 0; i < n; i++) size += box[i]->tensor[level]->size - 1;
  df_tensor *t = dfk_out(k, out, k->out_dtype[out], 1, &size);
  if (!t) return k->error->code;
  df_tensor_set_int(t, at++, 0);
  for (int64_t i = 0; i < n; i++) {
    const df_tensor *s = box[i]->tensor[level];
    for (int64_t e = 1; e < s->size; e++) df_tensor_set_int(t, at++, base + dfk_index(s, e));
    base += dfk_index(s, s->size - 1);
  }
  return DF_OK;
}

static int32_t join_values(df_kernel *k, int32_t out, dfi_box *const *box, int64_t n) {
  df_value *v = dfi_xcalloc((size_t)n + 1, sizeof *v);
  dfi_shape rest = dfi_shape_scalar();
  int64_t rows = 0;
  int32_t code = DF_OK;
  for (int64_t i = 0; i < n && !code; i++) {
    df_tensor *t = box[i]->tensor[box[i]->n - 1];
    dfi_shape s = t->rank ? dfi_shape_of(t->rank - 1, t->dims + 1) : dfi_shape_scalar();
    if (i == 0) rest = s;
    if (!dfi_shape_equal(&rest, &s) || t->rank == 0)
      code = dfk_fail(k, DF_INVALID_ARGUMENT, "the values of ragged tensor %lld have other rows than those before it",
                      (long long)i);
    v[i] = (df_value){ .kind = DF_TENSOR, .dtype = t->dtype, .as.tensor = t };
    rows += t->rank ? t->dims[0] : 0;
  }
  if (!code) code = dfi_values_concat(k, out, k->out_dtype[out], &rest, rows, n, v);
  dfi_free(v);
  return code;
}

/* The outputs are the ragged tensor whose rows, in the order of an array of these dims (one at least), are the boxes,
 * each of ragged rank `inner`. */
static int32_t give_batch(df_kernel *k, int32_t rank, const int64_t *dims, dfi_box *const *box, int32_t inner) {
  int64_t n = 1, outer = 1;
  for (int32_t d = 0; d < rank; d++) n *= dims[d];
  for (int32_t d = 0; d + 1 < rank; d++) {         /* all rows but the innermost are of one length */
    outer *= dims[d];
    int64_t size = outer + 1;
    df_tensor *t = dfk_out(k, d, k->out_dtype[d], 1, &size);
    if (!t) return k->error->code;
    for (int64_t i = 0; i < size; i++) df_tensor_set_int(t, i, i * dims[d + 1]);
  }
  int32_t last = rank - 1;
  int64_t size = n + 1, total = 0;
  df_tensor *t = dfk_out(k, last, k->out_dtype[last], 1, &size);
  if (!t) return k->error->code;
  df_tensor_set_int(t, 0, 0);
  for (int64_t i = 0; i < n; i++) df_tensor_set_int(t, i + 1, total += rows_of(box[i]));
  for (int32_t l = 0; l < inner; l++)
    if (join_splits(k, rank + l, box, n, l)) return k->error->code;
  return join_values(k, rank + inner, box, n);
}

/* encoded_ragged; input_ragged_rank output_ragged_rank Tvalues Tsplits */
static int32_t kernel_from_variant(df_kernel *k) {
  const df_tensor *from = k->in[0];
  int64_t levels = dfk_int(k, 1), inner = dfk_int(k, 0), n = from->size;
  dfi_box *const *box = from->data;
  if (inner < 0) inner = levels - from->rank;
  if (inner < 0 || levels != inner + from->rank)
    return dfk_fail(
        k, DF_INVALID_ARGUMENT,
        "output_ragged_rank is %lld, but it must be input_ragged_rank %lld and the %d dimensions of the input",
        (long long)levels, (long long)inner, from->rank);
  for (int64_t i = 0; i < n; i++) {
    if (!box[i] || box[i]->base.type != DFI_RAGGED || box[i]->n != inner + 1)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "element %lld holds no ragged tensor of ragged rank %lld", (long long)i,
                      (long long)inner);
    if (box[i]->tensor[inner]->dtype != k->out_dtype[levels])
      return dfk_fail(k, DF_INVALID_ARGUMENT, "element %lld holds a ragged tensor of %s, not of %s", (long long)i,
                      df_dtype_name(box[i]->tensor[inner]->dtype), df_dtype_name(k->out_dtype[levels]));
    for (int64_t l = 0; l < inner; l++)
      if (box[i]->tensor[l]->dtype != k->out_dtype[0])
        return dfk_fail(k, DF_INVALID_ARGUMENT, "element %lld has splits of %s, not of %s", (long long)i,
                        df_dtype_name(box[i]->tensor[l]->dtype), df_dtype_name(k->out_dtype[0]));
  }
  if (from->rank == 0) {
    for (int64_t i = 0; i <= inner; i++) dfk_out_tensor(k, (int32_t)i, df_tensor_retain(box[0]->tensor[i]));
    return DF_OK;
  }
  return give_batch(k, from->rank, from->dims, box, (int32_t)inner);
}

/* The outputs are a ragged tensor of no rows, with values like input `values`. */
static int32_t give_none(df_kernel *k, int32_t values) {
  const df_tensor *like = k->in[values];
  int64_t one = 1, dims[DF_MAX_RANK];
  for (int32_t i = 0; i + 1 < k->nout; i++) {
    df_tensor *t = dfk_out(k, i, k->out_dtype[i], 1, &one);
    if (!t) return k->error->code;
    df_tensor_set_int(t, 0, 0);
  }
  memcpy(dims, like->dims, sizeof dims);
  dims[0] = 0;
  return dfk_out(k, k->nout - 1, like->dtype, like->rank, dims) ? DF_OK : k->error->code;
}

/* params_nested_splits… params_dense_values indices */
static int32_t kernel_gather(df_kernel *k) {
  int32_t splits = k->nin - 2;
  const df_tensor *ix = k->in[k->nin - 1];
  if (splits < 1) return dfk_fail(k, DF_INVALID_ARGUMENT, "params is not ragged");
  if (!check_ragged(k, splits)) return k->error->code;
  if (k->nout != splits + ix->rank)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "OUTPUT_RAGGED_RANK is %d: expected %d", k->nout - 1,
                    splits + ix->rank - 1);
  int64_t rows = k->in[0]->size - 1, i = 0;
  dfi_box **box = dfi_xcalloc((size_t)ix->size + 1, sizeof *box);
  int32_t code = DF_OK;
  for (; i < ix->size && !code; i++) {
    int64_t at = dfk_index(ix, i);
    if (at < 0 || at >= rows)
      code = dfk_fail(k, DF_INVALID_ARGUMENT, "indices[%lld] is %lld but params has %lld rows", (long long)i,
                      (long long)at, (long long)rows);
    else if (!(box[i] = row_of(k, splits, at))) code = out_of_memory(k);
  }
  if (!code && ix->rank == 0)
    for (int32_t t = 0; t < splits; t++) dfk_out_tensor(k, t, df_tensor_retain(box[0]->tensor[t]));
  else if (!code && ix->size == 0) code = give_none(k, splits);
  else if (!code) code = give_batch(k, ix->rank, ix->dims, box, splits - 1);
  for (i = 0; i < ix->size; i++) if (box[i]) dfi_handle_release(box[i]);
  dfi_free(box);
  return code;
}

/* Element i of a vector, or the scalar. */
static double element(const df_tensor *t, int64_t i) { return df_tensor_get(t, t->rank ? i : 0); }

/* A whole number of such a vector. */
static int64_t whole_element(const df_tensor *t, int64_t i) { return dfk_index(t, t->rank ? i : 0); }

/* How many rows starts, limits and deltas tell of. */
static int32_t count_ranges(df_kernel *k, int64_t *rows) {
  static const char *const name[] = { "starts", "limits", "deltas" };
  *rows = -1;
  for (int32_t i = 0; i < 3; i++) {
    const df_tensor *t = k->in[i];
    if (t->rank > 1)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "%s has rank %d: expected a scalar or a vector", name[i], t->rank);
    if (t->rank == 0) continue;
    if (*rows >= 0 && *rows != t->size)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "%s has %lld elements, those before %lld: expected vectors of one length",
                      name[i], (long long)t->size, (long long)*rows);
    *rows = t->size;
  }
  if (*rows < 0) *rows = 1;
  return DF_OK;
}

/* How many elements row r has, by whole numbers and by others; delta is not 0. */
static double whole_steps(const df_kernel *k, int64_t r) {
  const int64_t start = whole_element(k->in[0], r), limit = whole_element(k->in[1], r),
                delta = whole_element(k->in[2], r);
  if (delta > 0 ? start >= limit : start <= limit) return 0;
  const uint64_t span = delta > 0 ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
  const uint64_t step = delta > 0 ? (uint64_t)delta : 0 - (uint64_t)delta;
  return (double)(span / step + (span % step != 0));
}
static double steps(const df_kernel *k, int64_t r) {
  const double start = element(k->in[0], r), limit = element(k->in[1], r), delta = element(k->in[2], r);
  return (delta > 0 ? start >= limit : start <= limit) ? 0 : ceil(fabs((limit - start) / delta));
}

/* starts limits deltas: a row from each. Integers are counted as such. */
static int32_t kernel_range(df_kernel *k) {
  const bool whole = k->in[0]->dtype == DF_INT32 || k->in[0]->dtype == DF_INT64;
  int64_t rows, total = 0;
  if (count_ranges(k, &rows)) return k->error->code;
  int64_t n = rows + 1;
  df_tensor *splits = dfk_out(k, 0, k->out_dtype[0], 1, &n);
  if (!splits) return k->error->code;
  df_tensor_set_int(splits, 0, 0);
  for (int64_t r = 0; r < rows; r++) {
    if (whole ? whole_element(k->in[2], r) == 0 : element(k->in[2], r) == 0)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "deltas[%lld] is 0: the row would never end", (long long)r);
    const double size = whole ? whole_steps(k, r) : steps(k, r);
    if (!(size + (double)total <= (k->out_dtype[0] == DF_INT32 ? INT32_MAX : 1e15)))
      return dfk_fail(k, DF_INVALID_ARGUMENT, "row %lld has more elements than %s splits count", (long long)r,
                      df_dtype_name(k->out_dtype[0]));
    total += (int64_t)size;
    df_tensor_set_int(splits, r + 1, total);
  }
  df_tensor *values = dfk_out(k, 1, k->in[0]->dtype, 1, &total);
  if (!values) return k->error->code;
  for (int64_t r = 0, at = 0; r < rows; r++) {
    const int64_t end = dfk_index(splits, r + 1);
    if (whole) {
      uint64_t v = (uint64_t)whole_element(k->in[0], r), by = (uint64_t)whole_element(k->in[2], r);
      for (; at < end; at++, v += by) df_tensor_set_int(values, at, (int64_t)v);
    } else if (values->dtype == DF_FLOAT64) {
      for (double v = element(k->in[0], r); at < end; at++, v += element(k->in[2], r)) df_tensor_set(values, at, v);
    } else {                                             /* the sum is rounded each time, as in TensorFlow */
      for (float v = (float)element(k->in[0], r); at < end; at++, v += (float)element(k->in[2], r))
        df_tensor_set(values, at, v);
    }
  }
  return DF_OK;
}

static int32_t shape_to_variant(dfi_infer *c) {
  *dfi_set_shape(c, 0) = c->node->attrs[0].i ? dfi_shape_vector(-1) : dfi_shape_scalar();
  return DF_OK;
}
static int32_t shape_from_variant(dfi_infer *c) {
  for (int32_t i = 0; i + 1 < c->node->nout; i++) *dfi_set_shape(c, i) = dfi_shape_vector(-1);
  return DF_OK;
}

static int32_t shape_range(dfi_infer *c) {
  int64_t rows = -1;
  bool scalars = true;
  for (int32_t i = 0; i < 3; i++) {
    const dfi_shape *s = dfi_in_shape(c, i);
    scalars &= s->rank == 0;
    if (s->rank == 1) rows = s->dims[0];
  }
  *dfi_set_shape(c, 0) = dfi_shape_vector(scalars ? 2 : rows < 0 ? -1 : rows + 1);
  *dfi_set_shape(c, 1) = dfi_shape_vector(-1);
  return DF_OK;
}

static int32_t shape_to_tensor(dfi_infer *c) {
  const dfi_shape s = dfi_in_as_shape(c, 0);
  if (s.rank > 0) *dfi_set_shape(c, 0) = s;
  return DF_OK;
}
static int32_t shape_to_sparse(dfi_infer *c) {
  const dfi_shape *values = dfi_in_shape(c, c->node->nin - 1);
  const int64_t rank = values->rank < 0 ? -1 : c->node->nin - 1 + values->rank;
  *dfi_set_shape(c, 0) = dfi_shape_of(2, (int64_t[]){ -1, rank });
  *dfi_set_shape(c, 1) = dfi_shape_vector(-1);
  *dfi_set_shape(c, 2) = dfi_shape_vector(rank);
  return DF_OK;
}

static int32_t shape_vectors(dfi_infer *c) {
  for (int32_t i = 0; i < c->node->nout; i++) *dfi_set_shape(c, i) = dfi_shape_vector(-1);
  return DF_OK;
}
static int32_t shape_cross(dfi_infer *c) {
  *dfi_set_shape(c, 0) = dfi_shape_of(2, (int64_t[]){ -1, 2 });
  *dfi_set_shape(c, 1) = dfi_shape_vector(-1);
  *dfi_set_shape(c, 2) = dfi_shape_vector(2);
  return DF_OK;
}

/* ---- gradients ---------------------------------------------------------------------------------------------------
 * Where a value goes depends on the splits alone, so the op itself says it: the values' numbers go the same way. */

/* The op on `in`, its inputs where that has none, and its first attribute. Frees in. */
static df_node *run_on(dfi_grad *g, df_node *n, df_output *in) {
  for (int32_t i = 0; i < n->nin; i++) if (!in[i].node) in[i] = dfg_in(g, n, i);
  dfi_build *b = dfg_build(g);
  const dfi_op_info *o = dfi_op_info_at(n->op);
  if (n->attrs[0].tensor) dfi_attr_tensor(b, o->attr[0].name, n->attrs[0].tensor);
  else dfi_attr_int(b, o->attr[0].name, n->attrs[0].i);
  df_node *made = dfi_opnode(b, o->op->type, n->nin, in);
  dfi_free(in);
  return made;
}
/* The numbers of the rows of input i, counted from `first`. */
static df_output row_numbers(dfi_grad *g, df_node *n, int32_t i, int64_t first) {
  dfi_build *b = dfg_build(g);
  df_output from = dfi_const_int(b, first);
  return dfi_op(b, "Range", from, dfi_op(b, "Add", dfg_in_dim(g, n, i, 0), from), dfi_const_int(b, 1));
}
/* So many rows of input i, each the sum of the `rows` that have its number. */
static df_output sums_by(dfi_grad *g, df_node *n, int32_t i, df_output numbers, df_output rows, df_output count) {
  dfi_build *b = dfg_build(g);
  df_output zero = dfi_const_int(b, 0), all = dfi_const_ints(b, 1, (int64_t[]){ -1 });
  df_output row = dfi_op(b, "Slice", dfg_in_shape(g, n, i), dfi_const_ints(b, 1, (int64_t[]){ 1 }), all);
  df_output flat = dfi_op(b, "Reshape", numbers, all), size = dfi_op(b, "ExpandDims", dfi_op(b, "Size", flat), zero);
  rows = dfi_op(b, "Reshape", rows, dfi_op(b, "ConcatV2", size, row, zero));
  df_output shape = dfi_op(b, "ConcatV2", dfi_op(b, "ExpandDims", count, zero), row, zero);
  return dfi_op(b, "ScatterNd", dfi_op(b, "ExpandDims", flat, dfi_const_int(b, 1)), rows, shape);
}

static int32_t grad_gather(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  const int32_t values = n->nin - 2, last = n->nout - 1;
  if (!dy[last].node) return dfg_end(g);
  df_output *in = dfi_xcalloc((size_t)n->nin, sizeof *in);
  in[values] = row_numbers(g, n, values, 0);
  df_node *taken = run_on(g, n, in);
  if (taken)
    dx[values] = sums_by(g, n, values, (df_output){ taken, last }, dy[last], dfg_in_dim(g, n, values, 0));
  return dfg_end(g);
}

/* Which row of the values lies at each place of the dense tensor, counted from 1; 0: the default. */
static df_output numbers_at(dfi_grad *g, df_node *n) {
  dfi_build *b = dfg_build(g);
  df_output *in = dfi_xcalloc((size_t)n->nin, sizeof *in);
  in[0] = dfg_in(g, n, 0);
  if (dfi_shape_at(n->in[0])->rank != 0) {                /* less the dimensions of a row; a scalar asks for none */
    df_output zero = dfi_const_int(b, 0), row = dfi_op(b, "Size", dfg_in_shape(g, n, 1));
    df_output outer = dfi_op(b, "Sub", dfi_op(b, "Size", in[0]), dfi_op(b, "Sub", row, dfi_const_int(b, 1)));
    in[0] = dfi_op(b, "Slice", in[0], dfi_op(b, "ExpandDims", zero, zero), dfi_op(b, "ExpandDims", outer, zero));
  }
  in[1] = row_numbers(g, n, 1, 1);
  in[2] = dfi_const_int(b, 0);
  return (df_output){ run_on(g, n, in), 0 };
}
static int32_t grad_to_tensor(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output numbers = numbers_at(g, n), zero = dfi_const_int(b, 0);
  if (!numbers.node) return dfg_end(g);
  df_output count = dfi_op(b, "Add", dfg_in_dim(g, n, 1, 0), dfi_const_int(b, 1));
  df_output sums = sums_by(g, n, 1, numbers, dy[0], count);
  if (dfg_wants(g, n, 1)) dx[1] = dfi_op(b, "GatherV2", sums, row_numbers(g, n, 1, 1), zero);
  if (dfg_wants(g, n, 2)) dx[2] = dfg_unbroadcast(g, n, 2, dfi_op(b, "GatherV2", sums, zero, zero));
  return dfg_end(g);
}

static int32_t grad_to_sparse(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  const int32_t values = n->nin - 1;
  if (dy[1].node) dx[values] = dfi_op(dfg_build(g), "Reshape", dy[1], dfg_in_shape(g, n, values));
  return dfg_end(g);
}

static const df_op ops[] = {
  { .type = "RaggedTensorToTensor",
    .in = "shape:Tshape values:T default_value:T row_partition_tensors:Tindex*", .out = "result:T",
    .types = "T=any Tindex=int32|int64 Tshape=int32|int64", .attrs = "row_partition_types:tensor",
    .doc = "a ragged tensor as a dense one, with default_value where a row is short",
    .shape = shape_to_tensor, .grad = grad_to_tensor, .kernel = { [DF_REF] = ref_ragged_to_tensor } },
  { .type = "RaggedTensorToSparse", .in = "rt_nested_splits:Tsplits* rt_dense_values:T",
    .out = "sparse_indices:int64 sparse_values:T sparse_dense_shape:int64", .types = "T=any Tsplits=int32|int64",
    .doc = "a ragged tensor as a sparse one", .shape = shape_to_sparse, .grad = grad_to_sparse,
    .kernel = { [DF_REF] = ref_ragged_to_sparse } },
  { .type = "RaggedTensorToVariant", .in = "rt_nested_splits:Tsplits* rt_dense_values:Tvalues",
    .out = "encoded_ragged:variant",
    .types = "Tvalues=any Tsplits=int32|int64", .attrs = "batched_input:bool",
    .doc = "a ragged tensor in a variant; with batched_input each of its rows in one",
    .stateful = true, .traits = DFO_REPEATS, .no_grad = true, .shape = shape_to_variant,
    .kernel = { [DF_REF] = kernel_to_variant } },
  { .type = "RaggedTensorFromVariant", .in = "encoded_ragged:variant",
    .out = "output_nested_splits:Tsplits*output_ragged_rank output_dense_values:Tvalues",
    .types = "Tvalues=any Tsplits=int32|int64",
    .attrs = "input_ragged_rank:int[-1..] output_ragged_rank:int[0..] Tvalues:dtype Tsplits:dtype=int64",
    .doc = "the ragged tensor whose rows the variants hold",
    .stateful = true, .traits = DFO_REPEATS, .no_grad = true, .shape = shape_from_variant,
    .kernel = { [DF_REF] = kernel_from_variant } },
  { .type = "RaggedGather", .in = "params_nested_splits:Tsplits* params_dense_values:Tvalues indices:Tindices",
    .out = "output_nested_splits:Tsplits*OUTPUT_RAGGED_RANK output_dense_values:Tvalues",
    .types = "Tvalues=any Tsplits=int32|int64 Tindices=int32|int64", .attrs = "OUTPUT_RAGGED_RANK:int[0..]",
    .doc = "the rows of a ragged tensor that indices names, in the shape of indices",
    .shape = shape_from_variant, .grad = grad_gather, .kernel = { [DF_REF] = kernel_gather } },
  { .type = "RaggedRange", .in = "starts:T limits:T deltas:T", .out = "rt_nested_splits:Tsplits rt_dense_values:T",
    .types = "T=float32|float64|int32|int64 Tsplits=int32|int64", .attrs = "Tsplits:dtype=int64",
    .doc = "a ragged tensor with a row from start to limit in steps of delta for each; scalars are for all rows",
    .no_grad = true, .shape = shape_range, .kernel = { [DF_REF] = kernel_range } },
  { .type = "RaggedCross",
    .in = "columns:any*",
    .out = "output_values:out_values_type output_row_splits:out_row_splits_type",
    .types = "out_values_type=int64|string out_row_splits_type=int32|int64",
    .attrs = "Nsparse:int[0..] input_order:string hashed_output:bool num_buckets:int[0..] hash_key:int "
    "ragged_values_types:types=[] ragged_splits_types:types=[] sparse_values_types:types=[] dense_types:types=[] "
    "out_values_type:dtype out_row_splits_type:dtype",
    .doc = "the crosses of columns of features, as a ragged tensor: of each row every choice of one value from each "
    "column, joined by _X_ or hashed",
    .no_grad = true, .shape = shape_vectors, .kernel = { [DF_REF] = ref_ragged_cross } },
  { .type = "SparseCross", .in = "columns:any*",
    .out = "output_indices:int64 output_values:out_type output_shape:int64", .types = "out_type=int64|string",
    .attrs = "N:int[0..] hashed_output:bool num_buckets:int[0..] hash_key:int sparse_types:types=[] "
    "dense_types:types=[] out_type:dtype internal_type:dtype",
    .doc = "the crosses of columns of features, as a sparse tensor: joined by _X_ or hashed",
    .no_grad = true, .shape = shape_cross, .kernel = { [DF_REF] = ref_sparse_cross } },
  { .type = "SparseCrossV2", .in = "columns:any* sep:string",
    .out = "output_indices:int64 output_values:string output_shape:int64",
    .attrs = "N:int[0..] sparse_types:types=[] dense_types:types=[]",
    .doc = "the crosses of columns of features, as a sparse tensor of strings: joined by sep",
    .no_grad = true, .shape = shape_cross, .kernel = { [DF_REF] = ref_sparse_cross_v2 } },
};
const dfi_op_table dfi_ops_ragged = { ops, (int32_t)(sizeof ops / sizeof *ops) };
