/* array.c: reference kernels that ask for shapes, change them, and move whole blocks about.
 *
 * Shape, Size, Rank, Reshape, ExpandDims and Squeeze touch no element: the last three hand their input on. The movers
 * walk the index space of the result and look up where each element comes from.
 */
#include "../array.h"
#include "../move.h"
#include <limits.h>

/* ---- shapes -------------------------------------------------------------------------------------- */
static int32_t put_dims(df_kernel *k, int32_t i, const int64_t *dims, int64_t n) {
  df_tensor *out = dfk_out(k, i, k->out_dtype[i], 1, &n);
  if (!out) return k->error->code;
  for (int64_t d = 0; d < n; d++) {
    if (out->dtype == DF_INT64) { ((int64_t *)out->data)[d] = dims[d]; continue; }
    if (dims[d] > INT32_MAX)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "dimension %lld is %lld, which int32 does not hold: use out_type int64",
                      (long long)d, (long long)dims[d]);
    ((int32_t *)out->data)[d] = (int32_t)dims[d];
  }
  return DF_OK;
}

static int32_t put_count(df_kernel *k, int64_t n) {
  df_tensor *out = dfk_out(k, 0, k->out_dtype[0], 0, NULL);
  if (!out) return k->error->code;
  if (out->dtype == DF_INT64) { *(int64_t *)out->data = n; return DF_OK; }
  if (n > INT32_MAX)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%lld elements, which int32 does not hold: use out_type int64",
                    (long long)n);
  *(int32_t *)out->data = (int32_t)n;
  return DF_OK;
}

int32_t ref_shape(df_kernel *k) {
  for (int32_t i = 0; i < k->nout; i++) {
    int32_t code = put_dims(k, i, k->in[i]->dims, k->in[i]->rank);
    if (code) return code;
  }
  return DF_OK;
}
int32_t ref_size(df_kernel *k) { return put_count(k, k->in[0]->size); }
int32_t ref_rank(df_kernel *k) { return put_count(k, k->in[0]->rank); }

/* The product of the dimensions above 0: where both shapes are empty, what -1 stands for is found by it. */
static int64_t positive(int32_t rank, const int64_t *dims) {
  int64_t n = 1;
  for (int32_t d = 0; d < rank; d++) n *= dims[d] > 0 ? dims[d] : 1;
  return n;
}

int32_t ref_reshape(df_kernel *k) {
  const df_tensor *x = k->in[0], *shape = k->in[1];
  int64_t dims[DF_MAX_RANK], known = 1;
  int32_t open = -1;
  bool empty = false;
  char text[160];
  if (shape->rank != 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "shape is %s: expected a vector", dfk_shape_text(shape, text, sizeof text));
  if (shape->size > DF_MAX_RANK)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "shape has %lld dimensions: expected at most %d", (long long)shape->size,
                    DF_MAX_RANK);
  for (int32_t d = 0; d < shape->size; d++) {
    dims[d] = dfk_index(shape, d);
    if (dims[d] == -1) {
      if (open >= 0)
        return dfk_fail(k, DF_INVALID_ARGUMENT, "shape has -1 at %d and at %d: expected one at most", open, d);
      open = d;
    } else if (dims[d] < 0) {
      return dfk_fail(k, DF_INVALID_ARGUMENT, "shape[%d] is %lld: expected 0 or more, or -1", d, (long long)dims[d]);
    } else if (__builtin_mul_overflow(known, dims[d], &known)) {
      return dfk_fail(k, DF_INVALID_ARGUMENT, "the shape asked for has more elements than an int64 holds");
    }
  }
  for (int32_t d = 0; d < shape->size; d++) empty |= dims[d] == 0;
  if (open >= 0) {
    if (empty && x->size == 0) {
      dims[open] = positive(x->rank, x->dims) / positive((int32_t)shape->size, dims);
    } else if (known == 0 || x->size % known) {
      return dfk_fail(
          k, DF_INVALID_ARGUMENT,
          "%s has %lld elements, which is no multiple of the %lld that the shape's known dimensions ask for",
          dfk_shape_text(x, text, sizeof text), (long long)x->size, (long long)known);
    } else {
      dims[open] = x->size / known;
    }
  } else if (known != x->size) {
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%s has %lld elements, but the shape asked for has %lld",
                    dfk_shape_text(x, text, sizeof text), (long long)x->size, (long long)known);
  }
  return dfk_out_forward(k, 0, 0, (int32_t)shape->size, dims);
}

int32_t ref_expand_dims(df_kernel *k) {
  const df_tensor *x = k->in[0];
  int32_t axis;
  if (!dfk_one_axis(k, k->in[1], x->rank + 1, "dim", &axis)) return k->error->code;
  if (x->rank == DF_MAX_RANK)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the input has %d dimensions already, the most there can be", DF_MAX_RANK);
  int64_t dims[DF_MAX_RANK];
  for (int32_t d = 0, from = 0; d <= x->rank; d++) dims[d] = d == axis ? 1 : x->dims[from++];
  return dfk_out_forward(k, 0, 0, x->rank + 1, dims);
}

int32_t ref_squeeze(df_kernel *k) {
  const df_tensor *x = k->in[0];
  const df_attr *which = &k->attrs[0];
  char text[160];
  uint32_t drop = 0;
  for (int64_t i = 0; i < which->i; i++) {
    int64_t a = which->ints[i] < 0 ? which->ints[i] + x->rank : which->ints[i];
    if (a < 0 || a >= x->rank)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "squeeze_dims[%lld] is %lld: expected one in [%d, %d)", (long long)i,
                      (long long)which->ints[i], -x->rank, x->rank);
    if (x->dims[a] != 1)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "dimension %lld of %s is to be squeezed, but is %lld: expected 1",
                      (long long)a, dfk_shape_text(x, text, sizeof text), (long long)x->dims[a]);
    drop |= 1u << a;
  }
  int64_t dims[DF_MAX_RANK];
  int32_t rank = 0;
  for (int32_t d = 0; d < x->rank; d++)
    if (which->i ? !(drop >> d & 1) : x->dims[d] != 1) dims[rank++] = x->dims[d];
  return dfk_out_forward(k, 0, 0, rank, dims);
}

/* ---- transpose ------------------------------------------------------------------------------------ */
int32_t ref_transpose(df_kernel *k) {
  const df_tensor *x = k->in[0];
  int32_t from[DF_MAX_RANK];
  int64_t at[DF_MAX_RANK] = { 0 }, source[DF_MAX_RANK];
  df_tensor *out = dfk_transpose_begin(k, from);
  if (!out) return k->error->code;
  for (int64_t o = 0; o < out->size; o++) {
    for (int32_t d = 0; d < x->rank; d++) source[from[d]] = at[d];
    if (!dfk_copy(k, out, o, x, dfk_position(x->rank, x->dims, source), 1)) return k->error->code;
    dfk_next(x->rank, out->dims, at);
  }
  return DF_OK;
}

/* ---- concat, split, pack, unpack ------------------------------------------------------------------- */
int32_t ref_concat(df_kernel *k) {
  int32_t axis;
  df_tensor *out = dfk_concat_begin(k, &axis);
  if (!out) return k->error->code;
  int64_t outer = dfk_span(out->dims, 0, axis), at = 0;
  for (int64_t o = 0; o < outer; o++)
    for (int32_t i = 0; i < k->nin - 1; i++) {
      int64_t row = dfk_span(k->in[i]->dims, axis, out->rank);
      if (!dfk_copy(k, out, at, k->in[i], o * row, row)) return k->error->code;
      at += row;
    }
  return DF_OK;
}

int32_t ref_concat_offset(df_kernel *k) {
  int32_t n = k->nin - 1, axis; /* inputs: concat_dim, then the shapes */
  int64_t rank = k->in[1]->size, sum = 0;
  for (int32_t i = 0; i < n; i++)
    if (k->in[1 + i]->rank != 1)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "shape[%d] has rank %d: expected a vector, the shape of an array", i,
                      k->in[1 + i]->rank);
  if (!dfk_scalar_axis(k, k->in[0], (int32_t)rank, "concat_dim", &axis)) return k->error->code;
  for (int32_t i = 0; i < n; i++) {
    const df_tensor *shape = k->in[1 + i];
    if (shape->size != rank)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "shape[%d] has %lld entries and shape[0] has %lld", i,
                      (long long)shape->size, (long long)rank);
    for (int64_t d = 0; d < rank; d++)
      if (d != axis && dfk_index(shape, d) != dfk_index(k->in[1], d))
        return dfk_fail(k, DF_INVALID_ARGUMENT,
                        "dimension %lld of shape[%d] is %lld and of shape[0] %lld: expected them equal but for axis %d",
                        (long long)d, i, (long long)dfk_index(shape, d), (long long)dfk_index(k->in[1], d), axis);
    df_tensor *out = dfk_out(k, i, DF_INT32, 1, &rank);
    if (!out) return k->error->code;
    dfk_clear(out);
    ((int32_t *)out->data)[axis] = (int32_t)sum;
    sum += dfk_index(shape, axis);
  }
  return DF_OK;
}

/* Outputs i of `sizes[i]` along `axis`, in order. Frees sizes. */
static int32_t part(df_kernel *k, const df_tensor *x, int32_t axis, int64_t *sizes) {
  if (!sizes) return k->error->code;
  int64_t dims[DF_MAX_RANK], outer = dfk_span(x->dims, 0, axis), inner = dfk_span(x->dims, axis + 1, x->rank),
                             start = 0;
  int32_t code = DF_OK;
  memcpy(dims, x->dims, sizeof dims);
  for (int32_t i = 0; i < k->nout && !code; i++) {
    dims[axis] = sizes[i];
    df_tensor *out = dfk_out(k, i, x->dtype, x->rank, dims);
    if (!out) { code = k->error->code; break; }
    int64_t row = sizes[i] * inner;
    for (int64_t o = 0; o < outer && !code; o++)
      if (!dfk_copy(k, out, o * row, x, (o * x->dims[axis] + start) * inner, row)) code = k->error->code;
    start += sizes[i];
  }
  dfk_free(sizes);
  return code;
}
int32_t ref_split(df_kernel *k) {
  int32_t axis;
  int64_t *sizes = dfk_split_begin(k, &axis);
  return part(k, k->in[1], axis, sizes);
}
int32_t ref_split_v(df_kernel *k) {
  int32_t axis;
  int64_t *sizes = dfk_split_v_begin(k, &axis);
  return part(k, k->in[0], axis, sizes);
}

int32_t ref_pack(df_kernel *k) {
  const df_tensor *a = k->in[0];
  int32_t axis;
  df_tensor *out = dfk_pack_begin(k, &axis);
  if (!out) return k->error->code;
  int64_t outer = dfk_span(a->dims, 0, axis), row = dfk_span(a->dims, axis, a->rank), at = 0;
  for (int64_t o = 0; o < outer; o++)
    for (int32_t i = 0; i < k->nin; i++, at += row)
      if (!dfk_copy(k, out, at, k->in[i], o * row, row)) return k->error->code;
  return DF_OK;
}

int32_t ref_unpack(df_kernel *k) {
  const df_tensor *x = k->in[0];
  int32_t axis;
  int64_t dims[DF_MAX_RANK];
  if (!dfk_unpack_begin(k, &axis, dims)) return k->error->code;
  int64_t outer = dfk_span(x->dims, 0, axis), row = dfk_span(x->dims, axis + 1, x->rank);
  for (int32_t i = 0; i < k->nout; i++) {
    df_tensor *out = dfk_out(k, i, x->dtype, x->rank - 1, dims);
    if (!out) return k->error->code;
    for (int64_t o = 0; o < outer; o++)
      if (!dfk_copy(k, out, o * row, x, (o * k->nout + i) * row, row)) return k->error->code;
  }
  return DF_OK;
}
