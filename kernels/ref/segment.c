/* segment.c: reference kernels that pick or group elements: segment sums, top_k, in_top_k, bincount, and the pairs of
 * adjoints (gather and sum by segment, take and put along the last axis) that their gradients are made of.
 */
#include "../index.h"
#include "../move.h"
#include "../reduce.h"
#include "../segment.h"
#include "fold.h"
#include <string.h>

/* ---- segments --------------------------------------------------------------------------------- */

/* The greatest finite number of a float dtype: what an empty segment's min is, as in TensorFlow. */
static double greatest(int32_t dtype) {
  switch (dtype) {
    case DF_FLOAT16:  return 65504;
    case DF_BFLOAT16: return 0x1.fep127;
    case DF_FLOAT32:  return 0x1.fffffep127;
    default:          return 0x1.fffffffffffffp1023;
  }
}

static int32_t unsorted(df_kernel *k, ref_fold f) {
  const df_tensor *data = k->in[0], *ids = k->in[1];
  int64_t row;
  df_tensor *y = dfk_unsorted_begin(k, &row);
  if (!y) return k->error->code;
  bool floats = ref_is_float(data->dtype), both = dfk_is_complex(data->dtype);
  double *acc = (double *)dfk_scratch(k, (y->size + 1) * 16);
  if (!acc) return DF_RESOURCE_EXHAUSTED;
  int64_t *sums = (int64_t *)acc;
  double complex *pairs = (double complex *)acc;
  for (int64_t i = 0; i < y->size; i++) {
    if (both) pairs[i] = f == REF_PROD;
    else if (floats)
      acc[i] = f == REF_SUM ? 0 : f == REF_PROD ? 1 : f == REF_MAX ? -greatest(data->dtype) : greatest(data->dtype);
    else sums[i] = f == REF_SUM ? 0 : f == REF_PROD ? 1 : ref_lowest(data->dtype, f == REF_MIN);
  }
  for (int64_t i = 0; i < ids->size; i++) {
    int64_t id = dfk_index(ids, i);
    for (int64_t j = 0; j < row && id >= 0; j++) {
      int64_t to = id * row + j;
      if (both)
        pairs[to] =
            f == REF_SUM ? pairs[to] + ref_get_complex(data, i * row + j)
                         : pairs[to] * ref_get_complex(data, i * row + j);
      else if (floats) acc[to] = ref_fold_float(f, acc[to], ref_get(data, i * row + j));
      else sums[to] = ref_fold_int(f, data->dtype, sums[to], ref_get_int(data, i * row + j));
    }
  }
  for (int64_t i = 0; i < y->size; i++) {
    if (both) ref_put_complex(y, i, pairs[i]);
    else if (floats) ref_put(y, i, acc[i]);
    else ref_put_int(y, i, sums[i]);
  }
  dfk_free(acc);
  return DF_OK;
}

int32_t ref_unsorted_segment_sum(df_kernel *k)  { return unsorted(k, REF_SUM); }
int32_t ref_unsorted_segment_prod(df_kernel *k) { return unsorted(k, REF_PROD); }
int32_t ref_unsorted_segment_max(df_kernel *k)  { return unsorted(k, REF_MAX); }
int32_t ref_unsorted_segment_min(df_kernel *k)  { return unsorted(k, REF_MIN); }

int32_t ref_segment_sum(df_kernel *k) {
  const df_tensor *data = k->in[0], *ids = k->in[1];
  int64_t row;
  df_tensor *y = dfk_segments_begin(k, NULL, ids, &row);
  if (!y) return k->error->code;
  dfk_clear(y);
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
  int64_t row;
  df_tensor *y = dfk_segment_gather_begin(k, &row);
  if (!y) return k->error->code;
  size_t bytes = (size_t)(row * df_dtype_bytes(rows->dtype));
  if (bytes == 0) return DF_OK;
  for (int64_t i = 0; i < ids->size; i++) {
    int64_t id = dfk_index(ids, i);
    if (id < 0) memset((char *)y->data + (size_t)i * bytes, 0, bytes);
    else memcpy((char *)y->data + (size_t)i * bytes, (const char *)rows->data + (size_t)id * bytes, bytes);
  }
  return DF_OK;
}

int32_t ref_bincount(df_kernel *k) {
  const df_tensor *values = k->in[0], *weights = k->in[2];
  df_tensor *y = dfk_bincount_begin(k);
  if (!y) return k->error->code;
  const int64_t n = y->size;
  dfk_clear(y);
  bool floats = ref_is_float(weights->dtype);
  for (int64_t i = 0; i < values->size; i++) {
    int64_t v = dfk_index(values, i);
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
  dfk_top t;
  if (!dfk_top_k_begin(k, &t)) return k->error->code;
  df_tensor *values = t.values, *indices = t.indices;
  const int64_t rows = t.rows, n = t.n, count = t.count;
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
  df_tensor *y = dfk_in_top_k_begin(k);
  if (!y) return k->error->code;
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

int32_t ref_take_along(df_kernel *k) {
  const df_tensor *x = k->in[0], *indices = k->in[1];
  df_tensor *y = dfk_take_along_begin(k);
  if (!y) return k->error->code;
  int64_t n = x->dims[x->rank - 1], m = indices->dims[indices->rank - 1];
  size_t width = (size_t)df_dtype_bytes(x->dtype);
  for (int64_t i = 0; i < y->size; i++)
    memcpy((char *)y->data + (size_t)i * width,
           (const char *)x->data + (size_t)(i / m * n + dfk_index(indices, i)) * width, width);
  return DF_OK;
}

int32_t ref_put_along(df_kernel *k) {
  const df_tensor *x = k->in[0], *indices = k->in[1];
  df_tensor *y = dfk_put_along_begin(k);
  if (!y) return k->error->code;
  const int64_t m = x->dims[x->rank - 1], n = y->dims[y->rank - 1];
  bool floats = ref_is_float(x->dtype);
  for (int64_t i = 0; i < x->size; i++) {
    const int64_t at = dfk_index(indices, i) + i / m * n;
    if (dfk_is_complex(x->dtype)) ref_put_complex(y, at, ref_get_complex(y, at) + ref_get_complex(x, i));
    else if (floats) ref_put(y, at, ref_get(y, at) + ref_get(x, i));
    else ref_put_int(y, at, (int64_t)((uint64_t)ref_get_int(y, at) + (uint64_t)ref_get_int(x, i)));
  }
  return DF_OK;
}
