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
  for (int64_t i = 0; i < p->picks; i++) {
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
  if (!dfk_integer(k, 1, "k", &t->count)) return false;
  if (x->rank < 1) return FAIL(k, "top_k needs at least one axis, got a scalar");
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
