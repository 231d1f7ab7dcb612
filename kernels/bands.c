/* bands.c: what kernels of bands of diagonals are given, looked at: see bands.h. */
#include "bands.h"
#include "index.h"
#include "move.h"
#include <string.h>

/* "RIGHT_LEFT" and its kind: above, then below. False: it is none of these. */
static bool align_of(const char *text, dfk_align *a) {
  static const char *const name[] = { "RIGHT_RIGHT", "RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT" };
  for (int i = 0; i < 4; i++)
    if (!strcmp(text, name[i])) { *a = (dfk_align){ i & 2, i & 1 }; return true; }
  return false;
}

/* k and align of the call. */
static bool begin(df_kernel *k, int32_t at, bool left, dfk_bands *b) {
  const df_tensor *t = k->in[at];
  if (t->rank > 1 || t->size < 1 || t->size > 2) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "k must be one integer or two, it has rank %d and %lld elements", t->rank,
             (long long)t->size);
    return false;
  }
  *b = (dfk_bands){ .low = dfk_index(t, 0), .high = dfk_index(t, t->size - 1), .align = { true, true } };
  if (b->low > b->high) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "k[0] is %lld, above k[1], which is %lld", (long long)b->low, (long long)b->high);
    return false;
  }
  if (left || align_of(dfk_string(k, 0), &b->align)) return true;
  dfk_fail(k, DF_INVALID_ARGUMENT, "align is '%s' but must be LEFT_RIGHT, RIGHT_LEFT, LEFT_LEFT or RIGHT_RIGHT",
           dfk_string(k, 0));
  return false;
}

/* Has a matrix of this size diagonal d? Each has a main one, be it empty. */
static bool has(int64_t d, int64_t rows, int64_t cols) { return d == 0 || (d > -rows && d < cols); }

/* Of matrices of this size: do its diagonals lie in them? */
static bool fit(df_kernel *k, dfk_bands *b, int64_t rows, int64_t cols) {
  b->rows = rows;
  b->cols = cols;
  if (!has(b->low, rows, cols) || !has(b->high, rows, cols)) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "k is [%lld, %lld]: a matrix of %lld rows and %lld columns has the diagonals %lld "
             "to %lld", (long long)b->low, (long long)b->high, (long long)rows, (long long)cols, (long long)(1 - rows),
             (long long)(cols - 1));
    return false;
  }
  const int64_t down = rows + (b->high < 0 ? b->high : 0), across = cols - (b->low > 0 ? b->low : 0);
  b->width = down < across ? down : across;
  return true;
}

static bool scalar(df_kernel *k, int32_t i, const char *name) {
  if (k->in[i]->size == 1) return true;
  dfk_fail(k, DF_INVALID_ARGUMENT, "%s has %lld elements but must be a scalar", name, (long long)k->in[i]->size);
  return false;
}

static bool matrices(df_kernel *k, const df_tensor *x) {
  char text[160];
  if (x->rank >= 2) return true;
  dfk_fail(k, DF_INVALID_ARGUMENT, "the input is %s but must be matrices", dfk_shape_text(x, text, sizeof text));
  return false;
}

/* The dims of the packed band behind those of a batch; the rank. */
static int32_t packed_dims(const dfk_bands *b, int32_t batch, int64_t *dims) {
  if (b->low < b->high) dims[batch++] = b->high - b->low + 1;
  dims[batch++] = b->width;
  return batch;
}

df_tensor *dfk_bands_part_begin(df_kernel *k, bool left, dfk_bands *b) {
  const df_tensor *x = k->in[0];
  int64_t dims[DF_MAX_RANK + 1];
  if (!matrices(k, x) || !begin(k, 1, left, b) || !scalar(k, 2, "padding_value") ||
      !fit(k, b, x->dims[x->rank - 2], x->dims[x->rank - 1]))
    return NULL;
  memcpy(dims, x->dims, sizeof *dims * (size_t)x->rank);
  return dfk_out(k, 0, x->dtype, packed_dims(b, x->rank - 2, dims), dims);
}

df_tensor *dfk_bands_matrix_begin(df_kernel *k, bool left, dfk_bands *b) {
  const df_tensor *x = k->in[0];
  int64_t rows, cols, dims[DF_MAX_RANK + 1];
  char text[160];
  if (!begin(k, 1, left, b) || !dfk_integer(k, 2, "num_rows", &rows) || !dfk_integer(k, 3, "num_cols", &cols) ||
      !scalar(k, 4, "padding_value"))
    return NULL;
  const int32_t batch = x->rank - (b->low < b->high ? 2 : 1);
  if (batch < 0 || (b->low < b->high && x->dims[batch] != b->high - b->low + 1)) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "the band of the diagonals %lld to %lld is %s", (long long)b->low,
             (long long)b->high, dfk_shape_text(x, text, sizeof text));
    return NULL;
  }
  const int64_t width = x->dims[x->rank - 1];
  const int64_t least_rows = width - (b->high < 0 ? b->high : 0), least_cols = width + (b->low > 0 ? b->low : 0);
  if (rows < 0 && cols < 0) rows = cols = least_rows > least_cols ? least_rows : least_cols;
  if (rows < 0) rows = least_rows;
  if (cols < 0) cols = least_cols;
  if (!fit(k, b, rows, cols)) return NULL;
  if (b->width != width || rows < least_rows || cols < least_cols) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "diagonals of length %lld do not fit matrices of %lld rows and %lld columns",
             (long long)width, (long long)rows, (long long)cols);
    return NULL;
  }
  if (batch + 2 > DF_MAX_RANK) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "the matrices would have rank %d", batch + 2);
    return NULL;
  }
  memcpy(dims, x->dims, sizeof *dims * (size_t)x->rank);
  dims[batch] = rows;
  dims[batch + 1] = cols;
  return dfk_out(k, 0, x->dtype, batch + 2, dims);
}

df_tensor *dfk_bands_set_begin(df_kernel *k, bool left, dfk_bands *b) {
  const df_tensor *x = k->in[0], *packed = k->in[1];
  int64_t dims[DF_MAX_RANK + 1];
  char whole[160], given[160];
  if (!matrices(k, x) || !begin(k, 2, left, b) || !fit(k, b, x->dims[x->rank - 2], x->dims[x->rank - 1])) return NULL;
  memcpy(dims, x->dims, sizeof *dims * (size_t)x->rank);
  const int32_t rank = packed_dims(b, x->rank - 2, dims);
  bool fits = packed->rank == rank;
  for (int32_t d = 0; fits && d < rank; d++) fits = packed->dims[d] == dims[d];
  if (fits) return dfk_out_like(k, 0, x);
  dfk_fail(k, DF_INVALID_ARGUMENT, "the diagonals %lld to %lld of %s are given as %s", (long long)b->low,
           (long long)b->high, dfk_shape_text(x, whole, sizeof whole), dfk_shape_text(packed, given, sizeof given));
  return NULL;
}
