/* segment_sorted.c: folds of rows by ids that ascend. Floats are folded in double, integers in int64. */
#include "../segment.h"
#include "element.h"
#include <math.h>

typedef enum fold { SUM, MEAN, SQRT_N, PROD, MAX, MIN } fold;

/* The ids are a vector that ascends from 0 or more, one for each row (each index). */
static int32_t check(df_kernel *k, const df_tensor *data, const df_tensor *indices, const df_tensor *ids) {
  char a[160], b[160];
  const df_tensor *rows = indices ? indices : data;
  if (ids->rank != 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "segment_ids is %s but must be a vector", dfk_shape_text(ids, a, sizeof a));
  if (data->rank < 1) return dfk_fail(k, DF_INVALID_ARGUMENT, "data is a scalar: expected rank 1 or more");
  if (indices && indices->rank != 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "indices is %s but must be a vector", dfk_shape_text(indices, a, sizeof a));
  if (rows->dims[0] != ids->size)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%s is %s and segment_ids %s: expected as many rows as ids",
                    indices ? "indices" : "data", dfk_shape_text(rows, a, sizeof a), dfk_shape_text(ids, b, sizeof b));
  for (int64_t i = 0; i < ids->size; i++) {
    int64_t id = dfk_index(ids, i), before = i ? dfk_index(ids, i - 1) : 0, row = indices ? dfk_index(indices, i) : i;
    if (id < before)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "segment_ids must ascend from 0: segment_ids[%lld] is %lld after %lld",
                      (long long)i, (long long)id, (long long)before);
    if (row < 0 || row >= data->dims[0])
      return dfk_fail(k, DF_INVALID_ARGUMENT, "indices[%lld] is %lld: expected one in [0, %lld)", (long long)i,
                      (long long)row, (long long)data->dims[0]);
  }
  return DF_OK;
}

static double fold_floats(fold f, double a, double x) {
  switch (f) {
    case PROD: return a * x;
    case MAX:  return x > a || isnan(x) ? x : a;
    case MIN:  return x < a || isnan(x) ? x : a;
    default:   return a + x;
  }
}
static int64_t fold_ints(fold f, uint8_t dtype, int64_t a, int64_t x) {
  switch (f) {
    case PROD: return (int64_t)((uint64_t)a * (uint64_t)x);
    case MAX:  return ref_below(dtype, a, x) ? x : a;
    case MIN:  return ref_below(dtype, x, a) ? x : a;
    default:   return (int64_t)((uint64_t)a + (uint64_t)x);
  }
}

static int32_t segments(df_kernel *k, const df_tensor *indices, const df_tensor *ids, fold f) {
  const df_tensor *data = k->in[0];
  int32_t code = check(k, data, indices, ids);
  if (code) return code;
  int64_t dims[DF_MAX_RANK], row = 1;
  dims[0] = ids->size ? dfk_index(ids, ids->size - 1) + 1 : 0;
  for (int32_t d = 1; d < data->rank; d++) row *= dims[d] = data->dims[d];
  df_tensor *y = dfk_out(k, 0, data->dtype, data->rank, dims);
  if (!y) return k->error->code;
  bool floats = ref_is_float(data->dtype), both = dfk_is_complex(data->dtype);
  for (int64_t i = 0; i < y->size; i++) {
    if (both) ref_put_complex(y, i, f == PROD);
    else if (floats) ref_put(y, i, f == PROD);
    else ref_put_int(y, i, f == PROD);
  }
  for (int64_t begin = 0, end; begin < ids->size; begin = end) {
    int64_t id = dfk_index(ids, begin);
    for (end = begin; end < ids->size && dfk_index(ids, end) == id;) end++;
    double scale = f == MEAN ? (double)(end - begin) : f == SQRT_N ? sqrt((double)(end - begin)) : 1;
    for (int64_t j = 0; j < row; j++) {
      double v = 0;
      double complex c = 0;
      int64_t n = 0;
      for (int64_t i = begin; i < end; i++) {
        int64_t at = (indices ? dfk_index(indices, i) : i) * row + j;
        if (both)
          c = i == begin  ? ref_get_complex(data, at)
              : f == PROD ? c * ref_get_complex(data, at)
                          : c + ref_get_complex(data, at);
        else if (floats) v = i == begin ? ref_get(data, at) : fold_floats(f, v, ref_get(data, at));
        else n = i == begin ? ref_get_int(data, at) : fold_ints(f, data->dtype, n, ref_get_int(data, at));
      }
      if (both) ref_put_complex(y, id * row + j, c / scale);
      else if (floats) ref_put(y, id * row + j, v / scale);
      else ref_put_int(y, id * row + j, f == MEAN ? n / (end - begin) : n);
    }
  }
  return DF_OK;
}

int32_t ref_segment_mean(df_kernel *k) { return segments(k, NULL, k->in[1], MEAN); }
int32_t ref_segment_prod(df_kernel *k) { return segments(k, NULL, k->in[1], PROD); }
int32_t ref_segment_max(df_kernel *k)  { return segments(k, NULL, k->in[1], MAX); }
int32_t ref_segment_min(df_kernel *k)  { return segments(k, NULL, k->in[1], MIN); }
int32_t ref_sparse_segment_sum(df_kernel *k)    { return segments(k, k->in[1], k->in[2], SUM); }
int32_t ref_sparse_segment_mean(df_kernel *k)   { return segments(k, k->in[1], k->in[2], MEAN); }
int32_t ref_sparse_segment_sqrt_n(df_kernel *k) { return segments(k, k->in[1], k->in[2], SQRT_N); }
