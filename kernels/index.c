/* index.c: how the kernels that take indices begin: every index is checked before anything is read or written.
 *
 * An index out of range is an error that names its position, its value and the bound; negative indices do not count
 * from the end.
 */
#include "index.h"
#include "reduce.h"
#include "search.h"
#include "array.h"
#include "move.h"
#include <stdio.h>

#define FAIL(k, ...) (dfk_fail(k, DF_INVALID_ARGUMENT, __VA_ARGS__), NULL)

char *dfk_index_text(int32_t rank, const int64_t *dims, int64_t p, char *buffer, size_t bytes) {
  int64_t at[DF_MAX_RANK] = { 0 };
  for (int32_t d = rank - 1; d >= 0; d--) { at[d] = p % dims[d]; p /= dims[d]; }
  size_t n = 0;
  buffer[0] = 0;
  for (int32_t d = 0; d < rank && n < bytes; d++)
    n += (size_t)snprintf(buffer + n, bytes - n, d ? ",%lld" : "%lld", (long long)at[d]);
  return buffer;
}

/* The first of n indices outside [0, limit); n when there is none. The inner loops run without a branch. */
static int64_t first_outside(const df_tensor *t, int64_t limit) {
  for (int64_t i = 0; i < t->size; i += 256) {
    int64_t end = i + 256 < t->size ? i + 256 : t->size;
    uint64_t most = 0;
    if (t->dtype == DF_INT64) {
      const int64_t *v = t->data;
      for (int64_t j = i; j < end; j++) most = (uint64_t)v[j] > most ? (uint64_t)v[j] : most;
    } else {
      const uint32_t *v = t->data;
      uint32_t most32 = 0;
      for (int64_t j = i; j < end; j++) most32 = v[j] > most32 ? v[j] : most32;
      most = most32 > INT32_MAX ? UINT64_MAX : most32;
    }
    if (most < (uint64_t)limit) continue;
    for (int64_t j = i; j < end; j++)
      if ((uint64_t)dfk_index(t, j) >= (uint64_t)limit) return j;
  }
  return t->size;
}

bool dfk_gather_plan(df_kernel *k, int32_t params_rank, const int64_t *params_dims, dfk_gather *g, int32_t *rank,
                     int64_t *dims) {
  const df_tensor *indices = k->in[1];
  int64_t batch = dfk_int(k, 0);
  char text[160];
  int32_t axis;
  if (params_rank == 0) return FAIL(k, "params is a scalar: expected rank 1 or more");
  if (!dfk_scalar_axis(k, k->in[2], params_rank, "axis", &axis)) return false;
  if (batch < -indices->rank || batch > indices->rank)
    return FAIL(k, "batch_dims is %lld for indices of rank %d", (long long)batch, indices->rank);
  if (batch < 0) batch += indices->rank;
  if (batch > axis) return FAIL(k, "batch_dims is %lld: expected at most axis, which is %d", (long long)batch, axis);
  int32_t b = (int32_t)batch, n = 0;
  for (int32_t d = 0; d < b; d++)
    if (params_dims[d] != indices->dims[d])
      return FAIL(k, "dimension %d is %lld in params and %lld in indices: expected the first %d to be equal", d,
                  (long long)params_dims[d], (long long)indices->dims[d], b);
  for (int32_t d = 0; d < axis; d++) dims[n++] = params_dims[d];
  for (int32_t d = b; d < indices->rank; d++) dims[n++] = indices->dims[d];
  for (int32_t d = axis + 1; d < params_rank; d++) dims[n++] = params_dims[d];
  if (n > DF_MAX_RANK) return FAIL(k, "the result would have %d dimensions: expected at most %d", n, DF_MAX_RANK);
  *rank = n;
  *g = (dfk_gather){ dfk_span(params_dims, 0, b), dfk_span(params_dims, b, axis),
                     dfk_span(indices->dims, b, indices->rank), params_dims[axis],
                     dfk_span(params_dims, axis + 1, params_rank) };
  int64_t bad = first_outside(indices, g->limit);
  if (bad == indices->size) return true;
  if (indices->rank == 0)
    return FAIL(k, "index %lld is not in [0, %lld), the range of dimension %d of params",
                (long long)dfk_index(indices, 0), (long long)g->limit, axis);
  dfk_index_text(indices->rank, indices->dims, bad, text, sizeof text);
  return FAIL(k, "indices[%s] = %lld is not in [0, %lld), the range of dimension %d of params", text,
              (long long)dfk_index(indices, bad), (long long)g->limit, axis);
}

df_tensor *dfk_gather_begin(df_kernel *k, dfk_gather *g) {
  const df_tensor *params = k->in[0];
  int64_t dims[2 * DF_MAX_RANK];
  int32_t rank;
  return dfk_gather_plan(k, params->rank, params->dims, g, &rank, dims) ? dfk_out(k, 0, params->dtype, rank, dims)
                                                                        : NULL;
}

/* The places of indices of one number each, up to the first that is out of range. Returns how many. */
static int64_t leading_places(const df_tensor *indices, int64_t limit, int64_t stride, int64_t *offset) {
  const int64_t *i64 = indices->data, n = indices->size;
  const int32_t *i32 = indices->data;
  int64_t i = 0;
  if (indices->dtype == DF_INT64)
    for (; i < n && (uint64_t)i64[i] < (uint64_t)limit; i++) offset[i] = i64[i] * stride;
  else if (indices->dtype == DF_INT32)
    for (; i < n && (uint64_t)(int64_t)i32[i] < (uint64_t)limit; i++) offset[i] = i32[i] * stride;
  return i;
}

bool dfk_places_of(df_kernel *k, const df_tensor *indices, int32_t rank, const int64_t *dims, const char *what,
                   dfk_places *p) {
  char text[160], at[160];
  int64_t strides[DF_MAX_RANK];
  if (indices->rank < 1)
    return FAIL(k, "indices is %s: expected rank 1 or more", dfk_shape_text(indices, text, sizeof text));
  int64_t depth = indices->dims[indices->rank - 1];
  if (depth > rank)
    return FAIL(k, "indices is %s, %lld numbers to an index, for a %s of rank %d",
                dfk_shape_text(indices, text, sizeof text), (long long)depth, what, rank);
  p->depth = (int32_t)depth;
  p->picks = dfk_span(indices->dims, 0, indices->rank - 1);
  p->row = dfk_span(dims, p->depth, rank);
  p->offset = dfk_scratch(k, (int64_t)sizeof(int64_t) * p->picks);
  if (!p->offset) return false;
  dfk_strides(rank, dims, strides);
  for (int64_t i = depth == 1 ? leading_places(indices, dims[0], strides[0], p->offset) : 0; i < p->picks; i++) {
    p->offset[i] = 0;
    for (int32_t d = 0; d < p->depth; d++) {
      int64_t v = dfk_index(indices, i * depth + d);
      if ((uint64_t)v < (uint64_t)dims[d]) {
        p->offset[i] += v * strides[d];
        continue;
      }
      dfk_free(p->offset);
      p->offset = NULL;
      dfk_index_text(indices->rank, indices->dims, i * depth + d, at, sizeof at);
      return FAIL(k, "indices[%s] = %lld is not in [0, %lld), the range of dimension %d of the %s", at, (long long)v,
                  (long long)dims[d], d, what);
    }
  }
  return true;
}

df_tensor *dfk_gather_nd_begin(df_kernel *k, dfk_places *p) {
  const df_tensor *params = k->in[0], *indices = k->in[1];
  int64_t dims[2 * DF_MAX_RANK];
  int32_t rank = 0;
  p->offset = NULL;
  if (!dfk_places_of(k, indices, params->rank, params->dims, "params", p)) return NULL;
  for (int32_t d = 0; d < indices->rank - 1; d++) dims[rank++] = indices->dims[d];
  for (int32_t d = p->depth; d < params->rank; d++) dims[rank++] = params->dims[d];
  df_tensor *out = rank > DF_MAX_RANK
                       ? FAIL(k, "the result would have %d dimensions: expected at most %d", rank, DF_MAX_RANK)
                       : dfk_out(k, 0, params->dtype, rank, dims);
  if (out) return out;
  dfk_free(p->offset);
  p->offset = NULL;
  return NULL;
}

df_tensor *dfk_one_hot_begin(df_kernel *k, int64_t *prefix, int64_t *depth, int64_t *suffix) {
  const df_tensor *indices = k->in[0];
  static const char *const names[] = { "indices", "depth", "on_value", "off_value" };
  char text[160];
  for (int32_t i = 1; i < 4; i++)
    if (k->in[i]->rank != 0)
      return FAIL(k, "%s is %s: expected a scalar", names[i], dfk_shape_text(k->in[i], text, sizeof text));
  int64_t axis = dfk_int(k, 0), dims[DF_MAX_RANK];
  *depth = dfk_index(k->in[1], 0);
  if (*depth < 0) return FAIL(k, "depth is %lld: expected 0 or more", (long long)*depth);
  if (axis < -1 || axis > indices->rank)
    return FAIL(k, "axis is %lld: expected one in [-1, %d]", (long long)axis, indices->rank);
  if (indices->rank == DF_MAX_RANK)
    return FAIL(k, "indices has %d dimensions already, the most there can be", DF_MAX_RANK);
  if (axis < 0) axis = indices->rank;
  for (int32_t d = 0, from = 0; d <= indices->rank; d++) dims[d] = d == axis ? *depth : indices->dims[from++];
  *prefix = dfk_span(indices->dims, 0, (int32_t)axis);
  *suffix = dfk_span(indices->dims, (int32_t)axis, indices->rank);
  return dfk_out(k, 0, k->in[2]->dtype, indices->rank + 1, dims);
}

bool dfk_updates_fit(df_kernel *k, const df_tensor *indices, const df_tensor *updates, int32_t rank,
                     const int64_t *dims, int32_t depth) {
  char one[160], other[160];
  int32_t lead = indices->rank - 1;
  bool fits = updates->rank == lead + rank - depth;
  for (int32_t d = 0; fits && d < updates->rank; d++)
    fits = updates->dims[d] == (d < lead ? indices->dims[d] : dims[d - lead + depth]);
  if (fits) return true;
  dfk_fail(k, DF_INVALID_ARGUMENT,
           "updates is %s for indices %s: expected the dimensions of indices but the last, then those of a slice",
           dfk_shape_text(updates, one, sizeof one), dfk_shape_text(indices, other, sizeof other));
  return false;
}

df_tensor *dfk_bound_begin(df_kernel *k) {
  const df_tensor *sorted = k->in[0], *values = k->in[1];
  char a[160], b[160];
  if (sorted->rank == 2 && values->rank == 2 && sorted->dims[0] == values->dims[0])
    return dfk_out(k, 0, k->out_dtype[0], 2, values->dims);
  return FAIL(k, "%s and %s are given: expected two matrices of as many rows", dfk_shape_text(sorted, a, sizeof a),
              dfk_shape_text(values, b, sizeof b));
}

df_tensor *dfk_cross_begin(df_kernel *k) {
  const df_tensor *a = k->in[0], *b = k->in[1];
  char s[160], t[160];
  if (a->rank == b->rank && a->rank > 0 && a->dims[a->rank - 1] == 3 &&
      !memcmp(a->dims, b->dims, sizeof *a->dims * (size_t)a->rank))
    return dfk_out_like(k, 0, a);
  dfk_fail(k, DF_FAILED_PRECONDITION, "%s and %s are given: expected one shape whose last axis is 3",
           dfk_shape_text(a, s, sizeof s), dfk_shape_text(b, t, sizeof t));
  return NULL;
}

/* ---- take and put along the last axis, top_k ------------------------------------------------------------------- */
static bool along(df_kernel *k, const df_tensor *a, const df_tensor *b, bool same_last) {
  char s[160], t[160];
  bool same = a->rank == b->rank && a->rank > 0;
  for (int32_t i = 0; same && i < a->rank - !same_last; i++) same = a->dims[i] == b->dims[i];
  if (same) return true;
  dfk_fail(k, DF_INVALID_ARGUMENT, "%s and %s must have the same axes%s", dfk_shape_text(a, s, sizeof s),
           dfk_shape_text(b, t, sizeof t), same_last ? "" : " but the last");
  return false;
}
static bool indices_within(df_kernel *k, const df_tensor *indices, int64_t n) {
  for (int64_t i = 0; i < indices->size; i++) {
    const int64_t at = dfk_index(indices, i);
    if (at >= 0 && at < n) continue;
    dfk_fail(k, DF_INVALID_ARGUMENT, "index %lld is out of range [0, %lld)", (long long)at, (long long)n);
    return false;
  }
  return true;
}

df_tensor *dfk_take_along_begin(df_kernel *k) {
  const df_tensor *x = k->in[0], *indices = k->in[1];
  if (!along(k, x, indices, false) || !indices_within(k, indices, x->dims[x->rank - 1])) return NULL;
  return dfk_out(k, 0, x->dtype, indices->rank, indices->dims);
}

df_tensor *dfk_put_along_begin(df_kernel *k) {
  const df_tensor *x = k->in[0], *indices = k->in[1];
  int64_t n, dims[DF_MAX_RANK];
  if (!dfk_integer(k, 2, "size", &n) || !along(k, x, indices, true) || !indices_within(k, indices, n)) return NULL;
  for (int32_t i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  dims[x->rank - 1] = n;
  df_tensor *y = dfk_out(k, 0, x->dtype, x->rank, dims);
  if (y) dfk_clear(y);
  return y;
}

bool dfk_top_k_begin(df_kernel *k, dfk_top *t) {
  const df_tensor *x = k->in[0];
  int64_t dims[DF_MAX_RANK];
  char text[160];
  *t = (dfk_top){ .rows = 1, .n = x->rank ? x->dims[x->rank - 1] : 0 };
  if (x->rank < 1) return FAIL(k, "top_k needs at least one axis, got a scalar");
  if (!dfk_integer(k, 1, "k", &t->count)) return false;
  if (t->count < 0 || t->count > t->n)
    return FAIL(k, "top_k of %lld among the last axis of %s: expected 0 to %lld", (long long)t->count,
                dfk_shape_text(x, text, sizeof text), (long long)t->n);
  for (int32_t i = 0; i < x->rank - 1; i++) t->rows *= dims[i] = x->dims[i];
  dims[x->rank - 1] = t->count;
  t->values = dfk_out(k, 0, x->dtype, x->rank, dims);
  t->indices = t->values ? dfk_out(k, 1, DF_INT32, x->rank, dims) : NULL;
  return t->indices != NULL;
}

df_tensor *dfk_in_top_k_begin(df_kernel *k) {
  const df_tensor *p = k->in[0], *targets = k->in[1];
  char a[160], b[160];
  if (p->rank == 2 && targets->rank == 1 && p->dims[0] == targets->dims[0])
    return dfk_out(k, 0, DF_BOOL, 1, targets->dims);
  return FAIL(k, "predictions must be [batch, classes] and targets [batch], got %s and %s",
              dfk_shape_text(p, a, sizeof a), dfk_shape_text(targets, b, sizeof b));
}

static double number_at(const df_tensor *t, int64_t i) {
  switch (t->dtype) {
    case DF_FLOAT32: return ((const float *)t->data)[i];
    case DF_FLOAT64: return ((const double *)t->data)[i];
    default: return (double)dfk_any_int(t, i);
  }
}

df_tensor *dfk_histogram_begin(df_kernel *k, dfk_bins *b) {
  const df_tensor *range = k->in[1];
  int64_t n;
  if (!dfk_integer(k, 2, "nbins", &n)) return NULL;
  if (range->rank != 1 || range->size != 2) return FAIL(k, "value_range should be a vector of 2 elements.");
  const double low = number_at(range, 0), high = number_at(range, 1);
  if (!(low < high))
    return FAIL(k, "value_range should satisfy value_range[0] < value_range[1], but got '[%g, %g]'", low, high);
  if (n <= 0) return FAIL(k, "nbins should be a positive number, but got '%lld'", (long long)n);
  *b = (dfk_bins){ low, (high - low) / (double)n };
  return dfk_out(k, 0, k->out_dtype[0], 1, &n);
}

/* ---- partition, stitch ------------------------------------------------------------------------------------------- */

int64_t *dfk_partition_begin(df_kernel *k, int64_t *row) {
  const df_tensor *data = k->in[0], *parts = k->in[1];
  const int32_t n = k->nout, lead = parts->rank, rank = data->rank - lead + 1;
  char one[160], other[160];
  bool fits = data->rank >= lead;
  for (int32_t d = 0; fits && d < lead; d++) fits = data->dims[d] == parts->dims[d];
  if (!fits)
    return FAIL(k, "data is %s and partitions %s: expected data to begin with the dimensions of partitions",
                dfk_shape_text(data, one, sizeof one), dfk_shape_text(parts, other, sizeof other));
  if (rank > DF_MAX_RANK)
    return FAIL(k, "a part would have %d dimensions: expected at most %d", rank, DF_MAX_RANK);
  int64_t *count = dfk_scratch(k, (int64_t)sizeof(int64_t) * n), dims[DF_MAX_RANK];
  if (!count) return NULL;
  memset(count, 0, sizeof *count * (size_t)n);
  bool ok = true;
  for (int64_t i = 0; i < parts->size && ok; i++) {
    const int64_t p = dfk_index(parts, i);
    if (p >= 0 && p < n) { count[p]++; continue; }
    dfk_index_text(lead, parts->dims, i, one, sizeof one);
    ok = false;
    dfk_fail(k, DF_INVALID_ARGUMENT, "partitions%s%s%s = %lld is not in [0, %d)", lead ? "[" : "", one,
             lead ? "]" : "", (long long)p, n);
  }
  for (int32_t d = 1; d < rank; d++) dims[d] = data->dims[lead + d - 1];
  for (int32_t p = 0; p < n && ok; p++) {
    dims[0] = count[p];
    ok = dfk_out(k, p, data->dtype, rank, dims) != NULL;
  }
  *row = dfk_span(data->dims, lead, data->rank);
  if (ok) return count;
  dfk_free(count);
  return NULL;
}

/* Does data i begin with the dims of indices i, and has it behind them what the first has? False: error is filled. */
static bool stitch_fits(df_kernel *k, int32_t n, int32_t i) {
  const df_tensor *indices = k->in[i], *data = k->in[n + i], *first = k->in[n];
  const int32_t lead = k->in[0]->rank;
  char one[160], other[160];
  bool fits = data->rank >= indices->rank;
  for (int32_t d = 0; fits && d < indices->rank; d++) fits = data->dims[d] == indices->dims[d];
  if (!fits)
    return FAIL(k, "data[%d] is %s and indices[%d] %s: expected data to begin with the dimensions of indices", i,
                dfk_shape_text(data, one, sizeof one), i, dfk_shape_text(indices, other, sizeof other));
  fits = data->rank - indices->rank == first->rank - lead;
  for (int32_t d = 0; fits && d < first->rank - lead; d++)
    fits = data->dims[indices->rank + d] == first->dims[lead + d];
  if (!fits)
    return FAIL(k, "data[0] is %s and data[%d] %s: expected rows of the same shape behind the dimensions of indices",
                dfk_shape_text(first, one, sizeof one), i, dfk_shape_text(data, other, sizeof other));
  return true;
}

df_tensor *dfk_stitch_begin(df_kernel *k, int64_t *row) {
  const int32_t n = k->nin / 2, lead = k->in[0]->rank;
  int64_t rows = 0, dims[DF_MAX_RANK];
  char text[160];
  for (int32_t i = 0; i < n; i++) {
    const df_tensor *indices = k->in[i];
    if (!stitch_fits(k, n, i)) return NULL;
    for (int64_t j = 0; j < indices->size; j++) {
      const int64_t v = dfk_index(indices, j);
      if (v < 0) {
        dfk_index_text(indices->rank, indices->dims, j, text, sizeof text);
        return FAIL(k, "indices[%d][%s] = %lld is negative: expected 0 or more", i, text, (long long)v);
      }
      if (v >= rows) rows = v + 1;
    }
  }
  const df_tensor *first = k->in[n];
  const int32_t rank = first->rank - lead + 1;
  if (rank > DF_MAX_RANK) return FAIL(k, "the result would have %d dimensions: expected at most %d", rank, DF_MAX_RANK);
  dims[0] = rows;
  for (int32_t d = 1; d < rank; d++) dims[d] = first->dims[lead + d - 1];
  *row = dfk_span(dims, 1, rank);
  return dfk_out(k, 0, first->dtype, rank, dims);
}

bool dfk_stitch_grad_fits(df_kernel *k) {
  const df_tensor *dy = k->in[k->nin - 1];
  char text[160];
  if (dy->rank < 1) return FAIL(k, "dy is a scalar: expected rank 1 or more");
  for (int32_t i = 0; i < k->nin - 1; i++) {
    const df_tensor *t = k->in[i];
    for (int64_t j = 0; j < t->size; j++) {
      if ((uint64_t)dfk_index(t, j) < (uint64_t)dy->dims[0]) continue;
      dfk_index_text(t->rank, t->dims, j, text, sizeof text);
      return FAIL(k, "indices[%d][%s] = %lld is not in [0, %lld)", i, text, (long long)dfk_index(t, j),
                  (long long)dy->dims[0]);
    }
  }
  return true;
}

df_tensor *dfk_stitch_grad_out(df_kernel *k, int32_t i) {
  const df_tensor *dy = k->in[k->nin - 1], *t = k->in[i];
  int64_t dims[2 * DF_MAX_RANK];
  int32_t rank = t->rank;
  memcpy(dims, t->dims, sizeof t->dims);
  for (int32_t d = 1; d < dy->rank; d++) dims[rank++] = dy->dims[d];
  if (rank > DF_MAX_RANK) return FAIL(k, "a part would have %d dimensions: expected at most %d", rank, DF_MAX_RANK);
  return dfk_out(k, i, dy->dtype, rank, dims);
}

/* ---- sparse to dense --------------------------------------------------------------------------------------------- */

/* sparse_indices (a number, [n] or [n, rank]) output_shape sparse_values default_value; validate_indices. The dims of
 * the result. False: error is filled. */
static bool to_dense_fits(df_kernel *k, int64_t n, int64_t width, int64_t *dims) {
  const df_tensor *ix = k->in[0], *shape = k->in[1], *values = k->in[2];
  char text[160];
  if (ix->rank > 2 || shape->rank != 1 || shape->size > DF_MAX_RANK || width != shape->size)
    return FAIL(k, "sparse_indices is %s for an output of rank %lld", dfk_shape_text(ix, text, sizeof text),
                (long long)shape->size);
  if (values->rank > 1 || (values->rank == 1 && values->size != n))
    return FAIL(k, "sparse_values is %s: expected one value, or %lld", dfk_shape_text(values, text, sizeof text),
                (long long)n);
  if (k->in[3]->size != 1) return FAIL(k, "default_value must be a scalar");
  for (int64_t d = 0; d < width; d++)
    if ((dims[d] = dfk_index(shape, d)) < 0) return FAIL(k, "output_shape has a negative dimension");
  return true;
}

df_tensor *dfk_to_dense_begin(df_kernel *k, int64_t **place, int64_t *n) {
  const df_tensor *ix = k->in[0];
  const int64_t width = ix->rank == 2 ? ix->dims[1] : 1;
  int64_t dims[DF_MAX_RANK], last = -1;
  *n = ix->rank ? ix->dims[0] : 1;
  if (!to_dense_fits(k, *n, width, dims)) return NULL;
  df_tensor *out = dfk_out(k, 0, k->in[2]->dtype, (int32_t)width, dims);
  int64_t *list = out ? dfk_scratch(k, (*n + 1) * (int64_t)sizeof *list) : NULL;
  if (!list) return NULL;
  for (int64_t i = 0; i < *n; i++) {
    bool inside = true;
    list[i] = 0;
    for (int64_t d = 0; d < width && inside; d++) {
      const int64_t at = dfk_index(ix, i * width + d);
      inside = at >= 0 && at < dims[d];
      list[i] = inside ? list[i] * dims[d] + at : -1;
    }
    if (inside && !(dfk_bool(k, 0) && list[i] <= last)) { last = list[i]; continue; }
    dfk_free(list);
    return FAIL(k, inside ? "sparse_indices[%lld] is not after the one before it"
                          : "sparse_indices[%lld] is outside the output", (long long)i);
  }
  *place = list;
  return out;
}
