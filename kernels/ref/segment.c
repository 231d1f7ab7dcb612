/* segment.c: reference kernels that pick or group elements: segment sums, top_k, in_top_k, bincount, and the pairs of
 * adjoints (gather and sum by segment, take and put along the last axis) that their gradients are made of.
 */
#include "../reduce.h"
#include "element.h"
#include <math.h>
#include <string.h>

/* ---- segments --------------------------------------------------------------------------------- */

typedef enum fold { SUM, PROD, MAX, MIN } fold;

static int64_t lowest(int32_t dtype, bool high) {
  switch (dtype) {
    case DF_INT8:  return high ? INT8_MAX : INT8_MIN;
    case DF_UINT8: return high ? UINT8_MAX : 0;
    case DF_INT16: return high ? INT16_MAX : INT16_MIN;
    case DF_UINT16: return high ? UINT16_MAX : 0;
    case DF_INT32: return high ? INT32_MAX : INT32_MIN;
    case DF_UINT32: return high ? UINT32_MAX : 0;
    case DF_UINT64: return high ? -1 : 0;
    default:       return high ? INT64_MAX : INT64_MIN;
  }
}

/* The greatest finite number of a float dtype: what an empty segment's min is, as in TensorFlow. */
static double greatest(int32_t dtype) {
  switch (dtype) {
    case DF_FLOAT16:  return 65504;
    case DF_BFLOAT16: return 0x1.fep127;
    case DF_FLOAT32:  return 0x1.fffffep127;
    default:          return 0x1.fffffffffffffp1023;
  }
}

/* Checks that ids' shape begins data's, and gives the elements of a row. */
static int32_t row_of(df_kernel *k, const df_tensor *data, const df_tensor *ids, int64_t *row) {
  char a[160], b[160];
  bool prefix = ids->rank <= data->rank;
  for (int32_t i = 0; prefix && i < ids->rank; i++) prefix = ids->dims[i] == data->dims[i];
  if (!prefix)
    return dfk_fail(k, DF_INVALID_ARGUMENT,
                    "the shape of data must begin with that of segment_ids: data is %s, segment_ids %s",
                    dfk_shape_text(data, a, sizeof a), dfk_shape_text(ids, b, sizeof b));
  *row = 1;
  for (int32_t i = ids->rank; i < data->rank; i++) *row *= data->dims[i];
  return DF_OK;
}

static df_tensor *segments_out(df_kernel *k, const df_tensor *data, int32_t ids_rank, int64_t n) {
  int64_t dims[DF_MAX_RANK];
  int32_t rank = 0;
  dims[rank++] = n;
  for (int32_t i = ids_rank; i < data->rank && rank < DF_MAX_RANK; i++) dims[rank++] = data->dims[i];
  return dfk_out(k, 0, data->dtype, rank, dims);
}

static double fold_float(fold f, double a, double x) {
  switch (f) {
    case SUM:  return a + x;
    case PROD: return a * x;
    case MAX:  return x > a || isnan(x) ? x : a;
    default:   return x < a || isnan(x) ? x : a;
  }
}

static int64_t fold_int(fold f, int32_t dtype, int64_t a, int64_t x) {
  switch (f) {
    case SUM:  return (int64_t)((uint64_t)a + (uint64_t)x);
    case PROD: return (int64_t)((uint64_t)a * (uint64_t)x);
    case MAX:  return ref_below(dtype, a, x) ? x : a;
    default:   return ref_below(dtype, x, a) ? x : a;
  }
}

static int32_t unsorted(df_kernel *k, fold f) {
  const df_tensor *data = k->in[0], *ids = k->in[1];
  int64_t row = 0, n;
  if (!dfk_integer(k, 2, "num_segments", &n)) return k->error->code;
  int32_t code = row_of(k, data, ids, &row);
  if (code) return code;
  if (n < 0) return dfk_fail(k, DF_INVALID_ARGUMENT, "num_segments must not be negative, got %lld", (long long)n);
  df_tensor *y = segments_out(k, data, ids->rank, n);
  if (!y) return DF_RESOURCE_EXHAUSTED;
  bool floats = ref_is_float(data->dtype), both = dfk_is_complex(data->dtype);
  double *acc = (double *)dfk_scratch(k, (y->size + 1) * 16);
  if (!acc) return DF_RESOURCE_EXHAUSTED;
  int64_t *sums = (int64_t *)acc;
  double complex *pairs = (double complex *)acc;
  for (int64_t i = 0; i < y->size; i++) {
    if (both) pairs[i] = f == PROD;
    else if (floats) acc[i] = f == SUM ? 0 : f == PROD ? 1 : f == MAX ? -greatest(data->dtype) : greatest(data->dtype);
    else sums[i] = f == SUM ? 0 : f == PROD ? 1 : lowest(data->dtype, f == MIN);
  }
  for (int64_t i = 0; i < ids->size && !code; i++) {
    int64_t id = dfk_index(ids, i);
    if (id >= n)
      code = dfk_fail(k, DF_INVALID_ARGUMENT, "segment_ids[%lld] is %lld: expected less than num_segments, %lld",
                      (long long)i, (long long)id, (long long)n);
    for (int64_t j = 0; j < row && id >= 0 && !code; j++) {
      int64_t to = id * row + j;
      if (both)
        pairs[to] =
            f == SUM ? pairs[to] + ref_get_complex(data, i * row + j) : pairs[to] * ref_get_complex(data, i * row + j);
      else if (floats) acc[to] = fold_float(f, acc[to], ref_get(data, i * row + j));
      else sums[to] = fold_int(f, data->dtype, sums[to], ref_get_int(data, i * row + j));
    }
  }
  for (int64_t i = 0; i < y->size; i++) {
    if (both) ref_put_complex(y, i, pairs[i]);
    else if (floats) ref_put(y, i, acc[i]);
    else ref_put_int(y, i, sums[i]);
  }
  dfk_free(acc);
  return code;
}

int32_t ref_unsorted_segment_sum(df_kernel *k)  { return unsorted(k, SUM); }
int32_t ref_unsorted_segment_prod(df_kernel *k) { return unsorted(k, PROD); }
int32_t ref_unsorted_segment_max(df_kernel *k)  { return unsorted(k, MAX); }
int32_t ref_unsorted_segment_min(df_kernel *k)  { return unsorted(k, MIN); }

int32_t ref_segment_sum(df_kernel *k) {
  const df_tensor *data = k->in[0], *ids = k->in[1];
  int64_t row = 0;
  if (ids->rank != 1) return dfk_fail(k, DF_INVALID_ARGUMENT, "segment_ids must be a vector, got rank %d", ids->rank);
  int32_t code = row_of(k, data, ids, &row);
  if (code) return code;
  for (int64_t i = 0; i < ids->size; i++) {
    int64_t id = dfk_index(ids, i), before = i ? dfk_index(ids, i - 1) : 0;
    if (id < before)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "segment_ids must ascend from 0: segment_ids[%lld] is %lld after %lld",
                      (long long)i, (long long)id, (long long)before);
  }
  df_tensor *y = segments_out(k, data, 1, ids->size ? dfk_index(ids, ids->size - 1) + 1 : 0);
  if (!y) return DF_RESOURCE_EXHAUSTED;
  if (y->size) memset(y->data, 0, (size_t)(y->size * df_dtype_bytes(y->dtype)));
  bool floats = ref_is_float(data->dtype);
  for (int64_t begin = 0, end; begin < ids->size; begin = end) {
    int64_t id = dfk_index(ids, begin);
    for (end = begin; end < ids->size && dfk_index(ids, end) == id; ) end++;
    for (int64_t j = 0; j < row; j++) {
      double f = 0;
      double complex c = 0;
      uint64_t u = 0;
      for (int64_t i = begin; i < end; i++) {
        if (dfk_is_complex(data->dtype)) c += ref_get_complex(data, i * row + j);
        else if (floats) f += ref_get(data, i * row + j);
        else u += (uint64_t)ref_get_int(data, i * row + j);
      }
      if (dfk_is_complex(data->dtype)) ref_put_complex(y, id * row + j, c);
      else if (floats) ref_put(y, id * row + j, f);
      else ref_put_int(y, id * row + j, (int64_t)u);
    }
  }
  return DF_OK;
}

int32_t ref_segment_gather(df_kernel *k) {
  const df_tensor *rows = k->in[0], *ids = k->in[1];
  int64_t dims[2 * DF_MAX_RANK], row = 1;
  int32_t rank = 0;
  if (rows->rank < 1 || ids->rank + rows->rank - 1 > DF_MAX_RANK)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "rows of a rank-%d tensor at rank-%d ids are not supported", rows->rank,
                    ids->rank);
  for (int32_t i = 0; i < ids->rank; i++) dims[rank++] = ids->dims[i];
  for (int32_t i = 1; i < rows->rank; i++) { dims[rank++] = rows->dims[i]; row *= rows->dims[i]; }
  df_tensor *y = dfk_out(k, 0, rows->dtype, rank, dims);
  if (!y) return DF_RESOURCE_EXHAUSTED;
  size_t bytes = (size_t)(row * df_dtype_bytes(rows->dtype));
  if (bytes == 0) return DF_OK;
  for (int64_t i = 0; i < ids->size; i++) {
    int64_t id = dfk_index(ids, i);
    if (id >= rows->dims[0])
      return dfk_fail(k, DF_INVALID_ARGUMENT, "segment_ids[%lld] is %lld: expected less than %lld", (long long)i,
                      (long long)id, (long long)rows->dims[0]);
    if (id < 0) memset((char *)y->data + (size_t)i * bytes, 0, bytes);
    else memcpy((char *)y->data + (size_t)i * bytes, (const char *)rows->data + (size_t)id * bytes, bytes);
  }
  return DF_OK;
}

int32_t ref_bincount(df_kernel *k) {
  const df_tensor *values = k->in[0], *weights = k->in[2];
  int64_t n;
  char a[160], b[160];
  if (!dfk_integer(k, 1, "size", &n)) return k->error->code;
  if (n < 0) return dfk_fail(k, DF_INVALID_ARGUMENT, "size must not be negative, got %lld", (long long)n);
  if (weights->size != values->size && weights->size != 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "weights must be empty or one per value: arr is %s, weights %s",
                    dfk_shape_text(values, a, sizeof a), dfk_shape_text(weights, b, sizeof b));
  df_tensor *y = dfk_out(k, 0, weights->dtype, 1, &n);
  if (!y) return DF_RESOURCE_EXHAUSTED;
  if (n) memset(y->data, 0, (size_t)(n * df_dtype_bytes(y->dtype)));
  bool floats = ref_is_float(weights->dtype);
  for (int64_t i = 0; i < values->size; i++) {
    int64_t v = dfk_index(values, i);
    if (v < 0)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "arr[%lld] is %lld: expected no negative values", (long long)i,
                      (long long)v);
    if (v >= n) continue;
    if (floats) ref_put(y, v, ref_get(y, v) + (weights->size ? ref_get(weights, i) : 1));
    else ref_put_int(y, v, ref_get_int(y, v) + (weights->size ? ref_get_int(weights, i) : 1));
  }
  return DF_OK;
}

/* ---- top_k -------------------------------------------------------------------------------------- */

static bool above(const df_tensor *x, int64_t a, int64_t b) {
  if (!ref_is_float(x->dtype)) return ref_below(x->dtype, ref_get_int(x, b), ref_get_int(x, a));
  double p = ref_get(x, a), q = ref_get(x, b);
  return isnan(p) ? !isnan(q) : p > q;
}

int32_t ref_top_k(df_kernel *k) {
  const df_tensor *x = k->in[0];
  int64_t count, n = x->rank ? x->dims[x->rank - 1] : 0, rows = 1, dims[DF_MAX_RANK];
  char text[160];
  if (!dfk_integer(k, 1, "k", &count)) return k->error->code;
  if (x->rank < 1) return dfk_fail(k, DF_INVALID_ARGUMENT, "top_k needs at least one axis, got a scalar");
  if (count < 0 || count > n)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "top_k of %lld among the last axis of %s: expected 0 to %lld",
                    (long long)count, dfk_shape_text(x, text, sizeof text), (long long)n);
  for (int32_t i = 0; i < x->rank - 1; i++) rows *= dims[i] = x->dims[i];
  dims[x->rank - 1] = count;
  df_tensor *values = dfk_out(k, 0, x->dtype, x->rank, dims), *indices = dfk_out(k, 1, DF_INT32, x->rank, dims);
  if (!values || !indices) return DF_RESOURCE_EXHAUSTED;
  size_t width = (size_t)df_dtype_bytes(x->dtype);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < n; i++) {
      int64_t place = 0;
      for (int64_t j = 0; j < n; j++)
        if (above(x, r * n + j, r * n + i) || (j < i && !above(x, r * n + i, r * n + j))) place++;
      if (place >= count) continue;
      ((int32_t *)indices->data)[r * count + place] = (int32_t)i;
      memcpy((char *)values->data + (size_t)(r * count + place) * width,
             (const char *)x->data + (size_t)(r * n + i) * width, width);
    }
  return DF_OK;
}

int32_t ref_in_top_k(df_kernel *k) {
  const df_tensor *p = k->in[0], *targets = k->in[1];
  int64_t wanted = dfk_int(k, 0);
  char a[160], b[160];
  if (p->rank != 2 || targets->rank != 1 || p->dims[0] != targets->dims[0])
    return dfk_fail(k, DF_INVALID_ARGUMENT, "predictions must be [batch, classes] and targets [batch], got %s and %s",
                    dfk_shape_text(p, a, sizeof a), dfk_shape_text(targets, b, sizeof b));
  df_tensor *y = dfk_out(k, 0, DF_BOOL, 1, targets->dims);
  if (!y) return DF_RESOURCE_EXHAUSTED;
  int64_t classes = p->dims[1];
  for (int64_t r = 0; r < p->dims[0]; r++) {
    int64_t t = dfk_index(targets, r), more = 0;
    bool known = t >= 0 && t < classes;
    for (int64_t i = 0; i < classes && known; i++) {
      double v = ref_get(p, r * classes + i);
      if (!isfinite(v)) known = false;
      else if (v > ref_get(p, r * classes + t)) more++;
    }
    ((uint8_t *)y->data)[r] = known && more < wanted;
  }
  return DF_OK;
}

/* ---- take and put along the last axis ------------------------------------------------------------- */

static int32_t along(df_kernel *k, const df_tensor *a, const df_tensor *b, bool same_last) {
  char s[160], t[160];
  bool same = a->rank == b->rank && a->rank > 0;
  for (int32_t i = 0; same && i < a->rank - !same_last; i++) same = a->dims[i] == b->dims[i];
  if (same) return DF_OK;
  return dfk_fail(k, DF_INVALID_ARGUMENT, "%s and %s must have the same axes%s", dfk_shape_text(a, s, sizeof s),
                  dfk_shape_text(b, t, sizeof t), same_last ? "" : " but the last");
}

int32_t ref_take_along(df_kernel *k) {
  const df_tensor *x = k->in[0], *indices = k->in[1];
  int32_t code = along(k, x, indices, false);
  if (code) return code;
  df_tensor *y = dfk_out(k, 0, x->dtype, indices->rank, indices->dims);
  if (!y) return DF_RESOURCE_EXHAUSTED;
  int64_t n = x->dims[x->rank - 1], m = indices->dims[indices->rank - 1];
  size_t width = (size_t)df_dtype_bytes(x->dtype);
  for (int64_t i = 0; i < y->size; i++) {
    int64_t at = dfk_index(indices, i);
    if (at < 0 || at >= n)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "index %lld is out of range [0, %lld)", (long long)at, (long long)n);
    memcpy((char *)y->data + (size_t)i * width, (const char *)x->data + (size_t)(i / m * n + at) * width, width);
  }
  return DF_OK;
}

int32_t ref_put_along(df_kernel *k) {
  const df_tensor *x = k->in[0], *indices = k->in[1];
  int64_t n, dims[DF_MAX_RANK];
  if (!dfk_integer(k, 2, "size", &n)) return k->error->code;
  int32_t code = along(k, x, indices, true);
  if (code) return code;
  for (int32_t i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  int64_t m = dims[x->rank - 1];
  dims[x->rank - 1] = n;
  df_tensor *y = dfk_out(k, 0, x->dtype, x->rank, dims);
  if (!y) return DF_RESOURCE_EXHAUSTED;
  if (y->size) memset(y->data, 0, (size_t)(y->size * df_dtype_bytes(y->dtype)));
  bool floats = ref_is_float(x->dtype);
  for (int64_t i = 0; i < x->size; i++) {
    int64_t at = dfk_index(indices, i);
    if (at < 0 || at >= n)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "index %lld is out of range [0, %lld)", (long long)at, (long long)n);
    at += i / m * n;
    if (dfk_is_complex(x->dtype)) ref_put_complex(y, at, ref_get_complex(y, at) + ref_get_complex(x, i));
    else if (floats) ref_put(y, at, ref_get(y, at) + ref_get(x, i));
    else ref_put_int(y, at, (int64_t)((uint64_t)ref_get_int(y, at) + (uint64_t)ref_get_int(x, i)));
  }
  return DF_OK;
}
