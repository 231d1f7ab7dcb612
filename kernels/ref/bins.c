/* bins.c: numbers counted and put into bins. */
#include "../search.h"
#include "../move.h"
#include "../ragged.h"
#include "element.h"

/* input; boundaries: how many of them each number has reached */
static double number_at(const df_tensor *t, int64_t i) {
  return ref_is_float(t->dtype) ? ref_get(t, i) : (double)ref_get_int(t, i);
}

int32_t ref_bucketize(df_kernel *k) {
  const df_tensor *x = k->in[0], *boundaries = k->attrs[0].tensor;
  const int64_t n = boundaries ? boundaries->size : 0;
  for (int64_t i = 1; i < n; i++)
    if (!(number_at(boundaries, i - 1) <= number_at(boundaries, i)))
      return dfk_fail(k, DF_INVALID_ARGUMENT, "boundaries[%lld] is below the one before: they must ascend",
                      (long long)i);
  df_tensor *out = dfk_out(k, 0, DF_INT32, x->rank, x->dims);
  for (int64_t i = 0; out && i < x->size; i++) {
    const double v = number_at(x, i);
    int64_t low = 0, high = n;
    while (low < high) {
      const int64_t mid = low + (high - low) / 2;
      if (number_at(boundaries, mid) <= v) low = mid + 1;
      else high = mid;
    }
    ((int32_t *)out->data)[i] = (int32_t)(v != v ? n : low);      /* a NaN is behind all of them */
  }
  return out ? DF_OK : k->error->code;
}

/* Adds weight i to bin o, or says that it is there. */
static void count(df_kernel *k, df_tensor *out, int64_t o, const df_tensor *weights, int64_t i) {
  const bool one = dfk_bool(k, 0) || !weights->size;
  if (ref_is_float(out->dtype)) {
    const double v = one ? 1 : ref_get(weights, i);
    ref_put(out, o, dfk_bool(k, 0) ? 1 : ref_get(out, o) + v);
  } else {
    const int64_t v = one ? 1 : ref_get_int(weights, i);
    ref_put_int(out, o, dfk_bool(k, 0) ? 1 : (int64_t)((uint64_t)ref_get_int(out, o) + (uint64_t)v));
  }
}

/* The inputs from `first` on: numbers, the size, weights. False: the error is filled. */
static bool read_counted(df_kernel *k, int32_t first, int64_t *size) {
  const df_tensor *x = k->in[first], *weights = k->in[first + 2];
  if (!dfk_integer(k, first + 1, "size", size)) return false;
  const bool good = *size >= 0 && (!weights->size || weights->size == x->size);
  if (!good)
    dfk_fail(k, DF_INVALID_ARGUMENT, "size is %lld, and %lld numbers have %lld weights: expected a size of 0 or "
                                     "more, and no "
             "weights or one for each", (long long)*size, (long long)x->size, (long long)weights->size);
  return good;
}

/* Numbers [from, to) of input `first` into the bins from o on. False: the error is filled. */
static bool count_row(df_kernel *k, int32_t first, int64_t from, int64_t to, df_tensor *out, int64_t o, int64_t size) {
  for (int64_t i = from; i < to; i++) {
    const int64_t v = dfk_index(k->in[first], i);
    if (v < 0) {
      dfk_fail(k, DF_INVALID_ARGUMENT, "number %lld is %lld: numbers from 0 on are counted", (long long)i,
               (long long)v);
      return false;
    }
    if (v < size) count(k, out, o + v, k->in[first + 2], i);
  }
  return true;
}

/* input, size, weights; binary_output: of a matrix row by row */
int32_t ref_dense_bincount(df_kernel *k) {
  const df_tensor *x = k->in[0];
  int64_t size;
  if (!read_counted(k, 0, &size)) return k->error->code;
  if (x->rank > 2) return dfk_fail(k, DF_INVALID_ARGUMENT, "the input has rank %d, a vector or a matrix is expected",
                                   x->rank);
  const int64_t rows = x->rank == 2 ? x->dims[0] : 1, width = rows ? x->size / rows : 0;
  df_tensor *out = dfk_out(k, 0, k->out_dtype[0], x->rank == 2 ? 2 : 1, x->rank == 2 ? (int64_t[]){ rows,
      size } : &size);
  if (!out) return k->error->code;
  dfk_clear(out);
  for (int64_t r = 0; r < rows; r++)
    if (!count_row(k, 0, r * width, (r + 1) * width, out, r * size, size)) return k->error->code;
  return DF_OK;
}

/* indices, values, dense_shape, size, weights; binary_output: value i is in the row of its first index */
int32_t ref_sparse_bincount(df_kernel *k) {
  const df_tensor *at = k->in[0], *shape = k->in[2];
  int64_t size;
  char text[160];
  const df_tensor *const dense[] = { k->in[1], k->in[3], k->in[4] };
  df_kernel counted = *k;
  counted.in = dense;
  if (!read_counted(&counted, 0, &size)) return k->error->code;
  const int64_t rank = shape->size, rows = rank == 2 ? dfk_index(shape, 0) : 1;
  if (rank < 1 || rank > 2 || at->rank != 2 || at->dims[1] != rank || at->dims[0] != k->in[1]->size || rows < 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "indices are %s for %lld values and a dense_shape of %lld numbers: "
                    "expected an index of one or two numbers for each", dfk_shape_text(at, text, sizeof text),
                    (long long)k->in[1]->size, (long long)rank);
  df_tensor *out = dfk_out(k, 0, k->out_dtype[0], (int32_t)rank, rank == 2 ? (int64_t[]){ rows, size } : &size);
  if (!out) return k->error->code;
  dfk_clear(out);
  for (int64_t i = 0; i < k->in[1]->size; i++) {
    const int64_t row = rank == 2 ? dfk_index(at, 2 * i) : 0;
    if (row < 0 || row >= rows)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "indices[%lld] is in row %lld of %lld", (long long)i, (long long)row,
                      (long long)rows);
    if (!count_row(&counted, 0, i, i + 1, out, row * size, size)) return k->error->code;
  }
  return DF_OK;
}

/* splits, values, size, weights; binary_output */
int32_t ref_ragged_bincount(df_kernel *k) {
  const df_tensor *splits = k->in[0];
  int64_t size;
  if (!read_counted(k, 1, &size) || !dfk_ragged_splits(k, splits, k->in[1]->size)) return k->error->code;
  df_tensor *out = dfk_out(k, 0, k->out_dtype[0], 2, (int64_t[]){ splits->size - 1, size });
  if (!out) return k->error->code;
  dfk_clear(out);
  for (int64_t r = 0; r + 1 < splits->size; r++)
    if (!count_row(k, 1, dfk_index(splits, r), dfk_index(splits, r + 1), out, r * size, size)) return k->error->code;
  return DF_OK;
}
