/* cross.c: crosses of columns of features: of each row every choice of one value from each column, joined as a string
 * or hashed, as TensorFlow's linear models have learnt it. The last column changes fastest. */
#include "../ragged.h"
#include "../string.h"
#include <stdio.h>
#include <string.h>

#define FAIL(k, ...) (dfk_fail(k, DF_INVALID_ARGUMENT, __VA_ARGS__), false)

/* Row i of a column has values [starts[i], starts[i + 1]). */
typedef struct column { const df_tensor *values; int64_t *starts; } column;

typedef struct cross {
  column     *column;
  int32_t     n;
  int64_t     batch;               /* -1 until a column says it */
  bool        hashed;
  uint64_t    key, buckets;
  const char *separator;
  int64_t     separator_length;
} cross;

/* ---- columns ----------------------------------------------------------------------------------------------------- */
static bool add_column(df_kernel *k, cross *c, const df_tensor *values, int64_t rows) {
  if (c->batch >= 0 && rows != c->batch)
    return FAIL(k, "column %d has %lld rows, those before it %lld", c->n, (long long)rows, (long long)c->batch);
  if (values->dtype != DF_STRING && values->dtype != DF_INT64)
    return FAIL(k, "column %d is %s: expected string or int64", c->n, df_dtype_name(values->dtype));
  c->batch = rows;
  int64_t *starts = dfk_scratch(k, (rows + 1) * (int64_t)sizeof *starts);
  if (!starts) return false;
  c->column[c->n++] = (column){ values, starts };
  return true;
}

static bool add_ragged(df_kernel *k, cross *c, const df_tensor *values, const df_tensor *splits) {
  if (values->rank != 1 || (splits->dtype != DF_INT32 && splits->dtype != DF_INT64))
    return FAIL(k, "ragged column %d: expected a vector and its splits, int32 or int64", c->n);
  if (!dfk_ragged_splits(k, splits, values->size) || !add_column(k, c, values, splits->size - 1)) return false;
  for (int64_t i = 0; i < splits->size; i++) c->column[c->n - 1].starts[i] = dfk_index(splits, i);
  return true;
}

static bool add_sparse(df_kernel *k, cross *c, const df_tensor *indices, const df_tensor *values,
                       const df_tensor *shape) {
  if (indices->dtype != DF_INT64 || shape->dtype != DF_INT64 || indices->rank != 2 || indices->dims[1] != 2 ||
      values->rank != 1 || indices->dims[0] != values->size ||
      shape->size != 2 || ((const int64_t *)shape->data)[0] < 0)
    return FAIL(k, "sparse column %d is no matrix: its indices must be [n, 2], its values [n], its shape two numbers",
                c->n);
  const int64_t rows = ((const int64_t *)shape->data)[0];
  if (rows >= INT64_MAX / 16) return FAIL(k, "sparse column %d has %lld rows", c->n, (long long)rows);
  if (!add_column(k, c, values, rows)) return false;
  int64_t *starts = c->column[c->n - 1].starts, row = 0;
  starts[0] = 0;
  for (int64_t i = 0; i < values->size; i++) {
    const int64_t to = ((const int64_t *)indices->data)[2 * i];
    if (to < row || to >= rows)
      return FAIL(k, "sparse column %d: value %lld is in row %lld behind row %lld, of %lld", c->n - 1, (long long)i,
                  (long long)to, (long long)row, (long long)rows);
    while (row < to) starts[++row] = i;
  }
  while (row < rows) starts[++row] = values->size;
  return true;
}

static bool add_dense(df_kernel *k, cross *c, const df_tensor *values) {
  if (values->rank != 2) return FAIL(k, "a dense column has rank %d: expected a matrix", values->rank);
  if (!add_column(k, c, values, values->dims[0])) return false;
  for (int64_t i = 0; i <= c->batch; i++) c->column[c->n - 1].starts[i] = i * values->dims[1];
  return true;
}

/* ---- one cross --------------------------------------------------------------------------------------------------- */

/* TensorFlow's way to make one fingerprint of two. */
static uint64_t concatenated(uint64_t a, uint64_t b) {
  const uint64_t by = 0xc6a4a7935bd1e995u;
  b *= by;
  uint64_t h = ((a ^ by) ^ (b ^ b >> 47) * by) * by;
  h = (h ^ h >> 47) * by;
  return h ^ h >> 47;
}

static int64_t hash_of(const cross *c, const int64_t *at) {
  uint64_t h = c->key;
  for (int32_t i = 0; i < c->n; i++) {
    const df_tensor *t = c->column[i].values;
    const df_str *s = (const df_str *)t->data + at[i];
    h = concatenated(h, t->dtype == DF_STRING ? dfk_fingerprint(s->bytes, s->length)
                                              : ((const uint64_t *)t->data)[at[i]]);
  }
  return (int64_t)(h % (c->buckets ? c->buckets : (uint64_t)INT64_MAX));
}

static bool put_joined(df_kernel *k, const cross *c, const int64_t *at, df_tensor *out, int64_t to) {
  int64_t length = 0;
  char *joined = NULL;
  for (int pass = 0; pass < 2; pass++) {
    if (pass && !(joined = dfk_scratch(k, length + 1))) return false;
    length = 0;
    for (int32_t i = 0; i < c->n; i++) {
      char number[24];
      const df_tensor *t = c->column[i].values;
      df_str s = { number, 0 };
      if (t->dtype == DF_STRING) s = ((const df_str *)t->data)[at[i]];
      else s.length = snprintf(number, sizeof number, "%lld", (long long)((const int64_t *)t->data)[at[i]]);
      if (i && joined) memcpy(joined + length, c->separator, (size_t)c->separator_length);
      if (i) length += c->separator_length;
      if (joined && s.length) memcpy(joined + length, s.bytes, (size_t)s.length);
      length += s.length;
    }
  }
  const bool good = dfk_set_string(k, out, to, joined, length);
  dfk_free(joined);
  return good;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* How many crosses row r has; -1: too many. */
static int64_t crosses_in(const cross *c, int64_t r) {
  int64_t n = c->n > 0;
  for (int32_t i = 0; i < c->n; i++) {
    const int64_t *starts = c->column[i].starts;
    if (__builtin_mul_overflow(n, starts[r + 1] - starts[r], &n)) return -1;
  }
  return n;
}

static bool write_row(df_kernel *k, const cross *c, int64_t r, df_tensor *out, int64_t to, int64_t count,
                      int64_t *at) {
  for (int32_t i = 0; i < c->n; i++) at[i] = c->column[i].starts[r];
  for (int64_t j = 0; j < count; j++, to++) {
    if (c->hashed) ((int64_t *)out->data)[to] = hash_of(c, at);
    else if (!put_joined(k, c, at, out, to)) return false;
    if (j % 4096 == 0 && dfk_stopping(k)) return dfk_fail(k, DF_CANCELLED, "the run ends while columns are crossed"),
                                                 false;
    for (int32_t i = c->n - 1; i >= 0 && ++at[i] == c->column[i].starts[r + 1]; i--) at[i] = c->column[i].starts[r];
  }
  return true;
}

/* The values of all rows as output v. splits: batch + 1 numbers, filled. False: the error is filled. */
static bool write_crosses(df_kernel *k, const cross *c, int32_t v, int64_t *splits) {
  splits[0] = 0;
  for (int64_t r = 0; r < c->batch; r++) {
    const int64_t n = crosses_in(c, r);
    if (n < 0 || __builtin_add_overflow(splits[r], n, &splits[r + 1]))
      return FAIL(k, "row %lld has too many crosses", (long long)r);
  }
  df_tensor *out = dfk_out(k, v, c->hashed ? DF_INT64 : DF_STRING, 1, &splits[c->batch]);
  int64_t *at = out ? dfk_scratch(k, (c->n + 1) * (int64_t)sizeof *at) : NULL;
  bool good = at;
  for (int64_t r = 0; good && r < c->batch; r++)
    good = write_row(k, c, r, out, splits[r], splits[r + 1] - splits[r], at);
  dfk_free(at);
  return good;
}

/* What the attributes say is n inputs. */
static bool begin(df_kernel *k, cross *c, int64_t columns, int64_t n) {
  if (k->nin != n)
    return FAIL(k, "%d inputs were given, expected %lld for %lld columns", k->nin, (long long)n, (long long)columns);
  c->batch = -1;
  c->column = dfk_scratch(k, (columns + 1) * (int64_t)sizeof *c->column);
  return c->column;
}
static void end(cross *c) {
  for (int32_t i = 0; i < c->n; i++) dfk_free(c->column[i].starts);
  dfk_free(c->column);
}

/* ---- sparse ------------------------------------------------------------------------------------------------------ */
static bool write_sparse(df_kernel *k, const cross *c, int64_t *splits) {
  if (!write_crosses(k, c, 1, splits)) return false;
  df_tensor *indices = dfk_out(k, 0, DF_INT64, 2, (int64_t[]){ splits[c->batch], 2 }),
            *shape = indices ? dfk_out(k, 2, DF_INT64, 1, (int64_t[]){ 2 }) : NULL;
  if (!shape) return false;
  int64_t most = 0, *to = (int64_t *)indices->data;
  for (int64_t r = 0; r < c->batch; r++) {
    for (int64_t j = 0; j < splits[r + 1] - splits[r]; j++) { *to++ = r; *to++ = j; }
    if (splits[r + 1] - splits[r] > most) most = splits[r + 1] - splits[r];
  }
  memcpy(shape->data, (int64_t[]){ c->batch, most }, 16);
  return true;
}

/* indices…, values…, shapes…, dense…: n of the first three, then `dense`, and `more` other inputs. */
static int32_t cross_sparse(df_kernel *k, cross *c, int64_t n, int64_t dense, int64_t more) {
  if (n > k->nin) return dfk_fail(k, DF_INVALID_ARGUMENT, "N is %lld of %d inputs", (long long)n, k->nin);
  bool good = begin(k, c, n + dense, 3 * n + dense + more);
  for (int64_t i = 0; good && i < n; i++) good = add_sparse(k, c, k->in[i], k->in[n + i], k->in[2 * n + i]);
  for (int64_t i = 0; good && i < dense; i++) good = add_dense(k, c, k->in[3 * n + i]);
  if (good && !c->n) good = FAIL(k, "no columns to cross");
  int64_t *splits = good ? dfk_scratch(k, (c->batch + 1) * (int64_t)sizeof *splits) : NULL;
  good = splits && write_sparse(k, c, splits);
  dfk_free(splits);
  end(c);
  return good ? DF_OK : k->error->code;
}

int32_t ref_sparse_cross(df_kernel *k) {
  cross c = { .hashed = k->out_dtype[1] == DF_INT64, .buckets = (uint64_t)dfk_int(k, 2), .key = (uint64_t)dfk_int(k, 3),
              .separator = "_X_", .separator_length = 3 };
  return cross_sparse(k, &c, dfk_int(k, 0), k->attrs[5].i, 0);
}
int32_t ref_sparse_cross_v2(df_kernel *k) {
  const df_tensor *separator = k->in[k->nin - 1];
  if (separator->size != 1) return dfk_fail(k, DF_INVALID_ARGUMENT, "sep must be one string");
  const df_str *s = (const df_str *)separator->data;
  cross c = { .separator = s->bytes, .separator_length = s->length };
  return cross_sparse(k, &c, dfk_int(k, 0), k->attrs[2].i, 1);
}

/* ---- ragged ------------------------------------------------------------------------------------------------------ */
static bool add_in_order(df_kernel *k, cross *c, int64_t ragged, int64_t sparse, int64_t dense) {
  const df_tensor *const *r = k->in, *const *s = r + 2 * ragged, *const *d = s + 3 * sparse;
  int64_t nr = 0, ns = 0, nd = 0;
  for (const char *order = dfk_string(k, 1); *order; order++) {
    if (*order == 'R' && nr < ragged) {
      if (!add_ragged(k, c, r[nr], r[ragged + nr])) return false;
      nr++;
    } else if (*order == 'S' && ns < sparse) {
      if (!add_sparse(k, c, s[ns], s[sparse + ns], s[2 * sparse + ns])) return false;
      ns++;
    } else if (*order == 'D' && nd < dense) {
      if (!add_dense(k, c, d[nd++])) return false;
    } else return FAIL(k, "input_order '%s' does not name %lld ragged, %lld sparse and %lld dense columns",
                       dfk_string(k, 1), (long long)ragged, (long long)sparse, (long long)dense);
  }
  return c->n == ragged + sparse + dense && c->n ? true : FAIL(k, "input_order '%s' names %d of %lld columns",
                                               dfk_string(k, 1), c->n, (long long)(ragged + sparse + dense));
}

static bool write_ragged(df_kernel *k, const cross *c, int64_t *splits) {
  if (!write_crosses(k, c, 0, splits)) return false;
  df_tensor *out = dfk_out(k, 1, k->out_dtype[1], 1, (int64_t[]){ c->batch + 1 });
  if (!out) return false;
  if (out->dtype == DF_INT32 && splits[c->batch] > INT32_MAX)
    return FAIL(k, "%lld crosses: more than int32 splits hold", (long long)splits[c->batch]);
  for (int64_t i = 0; i <= c->batch; i++) df_tensor_set_int(out, i, splits[i]);
  return true;
}

int32_t ref_ragged_cross(df_kernel *k) {
  const int64_t ragged = k->attrs[5].i, sparse = dfk_int(k, 0), dense = k->attrs[8].i;
  cross c = { .hashed = k->out_dtype[0] == DF_INT64, .buckets = (uint64_t)dfk_int(k, 3), .key = (uint64_t)dfk_int(k, 4),
              .separator = "_X_", .separator_length = 3 };
  if (sparse > k->nin)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "Nsparse is %lld of %d inputs", (long long)sparse, k->nin);
  bool good = begin(k, &c, ragged + sparse + dense, 2 * ragged + 3 * sparse + dense) &&
              add_in_order(k, &c, ragged, sparse, dense);
  int64_t *splits = good ? dfk_scratch(k, (c.batch + 1) * (int64_t)sizeof *splits) : NULL;
  good = splits && write_ragged(k, &c, splits);
  dfk_free(splits);
  end(&c);
  return good ? DF_OK : k->error->code;
}
