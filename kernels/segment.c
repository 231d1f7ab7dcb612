/* segment.c: how folds of rows by segment begin: their arguments are checked, their outputs made. */
#include "segment.h"
#include <string.h>

#define FAIL(k, ...) (dfk_fail(k, DF_INVALID_ARGUMENT, __VA_ARGS__), NULL)

/* Checks that ids' shape begins data's, and gives the elements of a row. */
static bool row_of(df_kernel *k, const df_tensor *data, const df_tensor *ids, int64_t *row) {
  char a[160], b[160];
  bool prefix = ids->rank <= data->rank;
  for (int32_t i = 0; prefix && i < ids->rank; i++) prefix = ids->dims[i] == data->dims[i];
  *row = 1;
  for (int32_t i = ids->rank; i < data->rank; i++) *row *= data->dims[i];
  if (prefix) return true;
  return FAIL(k, "the shape of data must begin with that of segment_ids: data is %s, segment_ids %s",
              dfk_shape_text(data, a, sizeof a), dfk_shape_text(ids, b, sizeof b));
}

static df_tensor *made(df_kernel *k, const df_tensor *data, int32_t ids_rank, int64_t n) {
  int64_t dims[DF_MAX_RANK + 1];
  int32_t rank = 0;
  dims[rank++] = n;
  for (int32_t i = ids_rank; i < data->rank; i++) dims[rank++] = data->dims[i];
  if (rank > DF_MAX_RANK)
    return FAIL(k, "the result would have %d axes, more than %d: data is of rank %d, segment_ids a scalar", rank,
                DF_MAX_RANK, data->rank);
  return dfk_out(k, 0, data->dtype, rank, dims);
}

df_tensor *dfk_unsorted_begin(df_kernel *k, int64_t *row) {
  const df_tensor *data = k->in[0], *ids = k->in[1];
  int64_t n;
  if (!dfk_integer(k, 2, "num_segments", &n) || !row_of(k, data, ids, row)) return NULL;
  if (n < 0) return FAIL(k, "num_segments must not be negative, got %lld", (long long)n);
  for (int64_t i = 0; i < ids->size; i++)
    if (dfk_index(ids, i) >= n)
      return FAIL(k, "segment_ids[%lld] is %lld: expected less than num_segments, %lld", (long long)i,
                  (long long)dfk_index(ids, i), (long long)n);
  return made(k, data, ids->rank, n);
}

df_tensor *dfk_segments_begin(df_kernel *k, const df_tensor *indices, const df_tensor *ids, int64_t *row) {
  const df_tensor *data = k->in[0], *rows = indices ? indices : data;
  char a[160], b[160];
  if (ids->rank != 1) return FAIL(k, "segment_ids is %s but must be a vector", dfk_shape_text(ids, a, sizeof a));
  if (data->rank < 1) return FAIL(k, "data is a scalar: expected rank 1 or more");
  if (indices && indices->rank != 1)
    return FAIL(k, "indices is %s but must be a vector", dfk_shape_text(indices, a, sizeof a));
  if (rows->dims[0] != ids->size)
    return FAIL(k, "%s is %s and segment_ids %s: expected as many rows as ids", indices ? "indices" : "data",
                dfk_shape_text(rows, a, sizeof a), dfk_shape_text(ids, b, sizeof b));
  for (int64_t i = 0; i < ids->size; i++) {
    const int64_t id = dfk_index(ids, i), before = i ? dfk_index(ids, i - 1) : 0,
                  at = indices ? dfk_index(indices, i) : i;
    if (id < before)
      return FAIL(k, "segment_ids must ascend from 0: segment_ids[%lld] is %lld after %lld", (long long)i,
                  (long long)id, (long long)before);
    if (at < 0 || at >= data->dims[0])
      return FAIL(k, "indices[%lld] is %lld: expected one in [0, %lld)", (long long)i, (long long)at,
                  (long long)data->dims[0]);
  }
  *row = 1;
  for (int32_t d = 1; d < data->rank; d++) *row *= data->dims[d];
  return made(k, data, 1, ids->size ? dfk_index(ids, ids->size - 1) + 1 : 0);
}

df_tensor *dfk_segment_gather_begin(df_kernel *k, int64_t *row) {
  const df_tensor *rows = k->in[0], *ids = k->in[1];
  int64_t dims[2 * DF_MAX_RANK];
  int32_t rank = 0;
  *row = 1;
  if (rows->rank < 1 || ids->rank + rows->rank - 1 > DF_MAX_RANK)
    return FAIL(k, "rows of a rank-%d tensor at rank-%d ids are not supported", rows->rank, ids->rank);
  for (int32_t i = 0; i < ids->rank; i++) dims[rank++] = ids->dims[i];
  for (int32_t i = 1; i < rows->rank; i++) { dims[rank++] = rows->dims[i]; *row *= rows->dims[i]; }
  for (int64_t i = 0; i < ids->size && *row; i++)
    if (dfk_index(ids, i) >= rows->dims[0])
      return FAIL(k, "segment_ids[%lld] is %lld: expected less than %lld", (long long)i, (long long)dfk_index(ids, i),
                  (long long)rows->dims[0]);
  return dfk_out(k, 0, rows->dtype, rank, dims);
}

static bool any_negative(const df_tensor *t) {
  int64_t bits = 0;
  if (t->dtype == DF_INT64) for (int64_t i = 0; i < t->size; i++) bits |= ((const int64_t *)t->data)[i];
  else                      for (int64_t i = 0; i < t->size; i++) bits |= ((const int32_t *)t->data)[i];
  return bits < 0;
}

df_tensor *dfk_bincount_begin(df_kernel *k) {
  const df_tensor *values = k->in[0], *weights = k->in[2];
  int64_t n;
  char a[160], b[160];
  if (!dfk_integer(k, 1, "size", &n)) return NULL;
  if (n < 0)
    return FAIL(k, "size must not be negative, got %lld%s", (long long)n,
                n == INT32_MIN ? ": as large a number as arr's wants a size or a maxlength" : "");
  if (weights->size != values->size && weights->size != 0)
    return FAIL(k, "weights must be empty or one per value: arr is %s, weights %s",
                dfk_shape_text(values, a, sizeof a), dfk_shape_text(weights, b, sizeof b));
  const bool refused = any_negative(values);
  for (int64_t i = 0; refused && i < values->size; i++)
    if (dfk_index(values, i) < 0)
      return FAIL(k, "arr[%lld] is %lld: expected no negative values", (long long)i, (long long)dfk_index(values, i));
  return dfk_out(k, 0, weights->dtype, 1, &n);
}
