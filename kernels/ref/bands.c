/* bands.c: see bands.h. TensorFlow's second and third version of diagonals: the second packs all to the left. */
#include "../bands.h"
#include "../move.h"
#include "element.h"

/* A band of matrices of rows x cols: its diagonals, and how long the longest is. */
typedef struct band { int64_t low, high, rows, cols, width; dfk_align align; } band;

bool dfk_align_of(const char *text, dfk_align *a) {
  static const char *const name[] = { "RIGHT_RIGHT", "RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT" };
  for (int i = 0; i < 4; i++)
    if (!strcmp(text, name[i])) { *a = (dfk_align){ i & 2, i & 1 }; return true; }
  return false;
}

static int64_t length_of(const band *b, int64_t d) {
  const int64_t down = b->rows + (d < 0 ? d : 0), across = b->cols - (d > 0 ? d : 0);
  return down < across ? down : across;
}
/* Where diagonal d begins in its row. */
static int64_t begin_of(const band *b, int64_t d) {
  const bool left = (d >= 0 && b->align.left_above) || (d <= 0 && b->align.left_below);
  return left ? 0 : b->width - length_of(b, d);
}
/* The place of matrix element [i, j] in the packed band; -1: it is not in it. */
static int64_t packed_at(const band *b, int64_t i, int64_t j) {
  const int64_t d = j - i;
  if (d < b->low || d > b->high) return -1;
  return (b->high - d) * b->width + begin_of(b, d) + (i < j ? i : j);
}

/* k and align of the call. */
static bool begin(df_kernel *k, int32_t at, bool left, band *b) {
  const df_tensor *t = k->in[at];
  if (t->rank > 1 || t->size < 1 || t->size > 2) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "k must be one integer or two, it has rank %d and %lld elements", t->rank,
             (long long)t->size);
    return false;
  }
  *b = (band){ .low = dfk_index(t, 0), .high = dfk_index(t, t->size - 1), .align = { true, true } };
  if (b->low > b->high) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "k[0] is %lld, above k[1], which is %lld", (long long)b->low, (long long)b->high);
    return false;
  }
  if (left || dfk_align_of(dfk_string(k, 0), &b->align)) return true;
  dfk_fail(k, DF_INVALID_ARGUMENT, "align is '%s' but must be LEFT_RIGHT, RIGHT_LEFT, LEFT_LEFT or RIGHT_RIGHT",
           dfk_string(k, 0));
  return false;
}

/* Has a matrix of this size diagonal d? Each has a main one, be it empty. */
static bool has(int64_t d, int64_t rows, int64_t cols) { return d == 0 || (d > -rows && d < cols); }

/* Of matrices of this size: do its diagonals lie in them? */
static bool fit(df_kernel *k, band *b, int64_t rows, int64_t cols) {
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
static int32_t packed_dims(const band *b, int32_t batch, int64_t *dims) {
  if (b->low < b->high) dims[batch++] = b->high - b->low + 1;
  dims[batch++] = b->width;
  return batch;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */
static int32_t part(df_kernel *k, bool left) {
  const df_tensor *x = k->in[0];
  band b;
  if (!matrices(k, x) || !begin(k, 1, left, &b) || !scalar(k, 2, "padding_value") ||
      !fit(k, &b, x->dims[x->rank - 2], x->dims[x->rank - 1]))
    return k->error->code;
  int64_t dims[DF_MAX_RANK + 1];
  memcpy(dims, x->dims, sizeof *dims * (size_t)x->rank);
  df_tensor *out = dfk_out(k, 0, x->dtype, packed_dims(&b, x->rank - 2, dims), dims);
  if (!out) return k->error->code;
  const int64_t size = b.rows * b.cols, packed = (b.high - b.low + 1) * b.width;
  bool ok = true;
  for (int64_t e = 0; e < out->size && ok; e++) {
    const int64_t d = b.high - e % packed / b.width, at = e % b.width - begin_of(&b, d);
    const int64_t i = at + (d < 0 ? -d : 0), j = at + (d > 0 ? d : 0);
    const bool inside = at >= 0 && at < length_of(&b, d);
    ok = inside ? dfk_copy(k, out, e, x, e / packed * size + i * b.cols + j, 1) : dfk_copy(k, out, e, k->in[2], 0, 1);
  }
  return ok ? DF_OK : k->error->code;
}

/* The matrices of a call whose band input is `packed`: elements of the band, and others of `rest`. */
static int32_t fill(df_kernel *k, const band *b, df_tensor *out, const df_tensor *packed, const df_tensor *rest) {
  const int64_t size = b->rows * b->cols, of = (b->high - b->low + 1) * b->width;
  bool ok = true;
  for (int64_t e = 0; e < out->size && ok; e++) {
    const int64_t at = packed_at(b, e % size / b->cols, e % b->cols);
    ok = at >= 0 ? dfk_copy(k, out, e, packed, e / size * of + at, 1)
                 : dfk_copy(k, out, e, rest, rest->size == 1 ? 0 : e, 1);
  }
  return ok ? DF_OK : k->error->code;
}

static int32_t matrix(df_kernel *k, bool left) {
  const df_tensor *x = k->in[0];
  band b;
  int64_t rows, cols, dims[DF_MAX_RANK + 1];
  char text[160];
  if (!begin(k, 1, left, &b) || !dfk_integer(k, 2, "num_rows", &rows) || !dfk_integer(k, 3, "num_cols", &cols) ||
      !scalar(k, 4, "padding_value"))
    return k->error->code;
  const int32_t batch = x->rank - (b.low < b.high ? 2 : 1);
  if (batch < 0 || (b.low < b.high && x->dims[batch] != b.high - b.low + 1))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the band of the diagonals %lld to %lld is %s", (long long)b.low,
                    (long long)b.high, dfk_shape_text(x, text, sizeof text));
  const int64_t width = x->dims[x->rank - 1];
  const int64_t least_rows = width - (b.high < 0 ? b.high : 0), least_cols = width + (b.low > 0 ? b.low : 0);
  if (rows < 0 && cols < 0) rows = cols = least_rows > least_cols ? least_rows : least_cols;
  if (rows < 0) rows = least_rows;
  if (cols < 0) cols = least_cols;
  if (!fit(k, &b, rows, cols)) return k->error->code;
  if (b.width != width || rows < least_rows || cols < least_cols)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "diagonals of length %lld do not fit matrices of %lld rows and %lld "
                    "columns", (long long)width, (long long)rows, (long long)cols);
  memcpy(dims, x->dims, sizeof *dims * (size_t)x->rank);
  dims[batch] = rows;
  dims[batch + 1] = cols;
  if (batch + 2 > DF_MAX_RANK) return dfk_fail(k, DF_INVALID_ARGUMENT, "the matrices would have rank %d", batch + 2);
  df_tensor *out = dfk_out(k, 0, x->dtype, batch + 2, dims);
  return out ? fill(k, &b, out, x, k->in[4]) : k->error->code;
}

static int32_t set(df_kernel *k, bool left) {
  const df_tensor *x = k->in[0], *packed = k->in[1];
  band b;
  int64_t dims[DF_MAX_RANK + 1];
  char whole[160], given[160];
  if (!matrices(k, x) || !begin(k, 2, left, &b) || !fit(k, &b, x->dims[x->rank - 2], x->dims[x->rank - 1]))
    return k->error->code;
  memcpy(dims, x->dims, sizeof *dims * (size_t)x->rank);
  const int32_t rank = packed_dims(&b, x->rank - 2, dims);
  bool fits = packed->rank == rank;
  for (int32_t d = 0; fits && d < rank; d++) fits = packed->dims[d] == dims[d];
  if (!fits)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the diagonals %lld to %lld of %s are given as %s", (long long)b.low,
                    (long long)b.high, dfk_shape_text(x, whole, sizeof whole),
                    dfk_shape_text(packed, given, sizeof given));
  df_tensor *out = dfk_out_like(k, 0, x);
  return out ? fill(k, &b, out, packed, x) : k->error->code;
}

int32_t ref_band_part(df_kernel *k)        { return part(k, false); }
int32_t ref_band_part_left(df_kernel *k)   { return part(k, true); }
int32_t ref_band_matrix(df_kernel *k)      { return matrix(k, false); }
int32_t ref_band_matrix_left(df_kernel *k) { return matrix(k, true); }
int32_t ref_band_set(df_kernel *k)         { return set(k, false); }
int32_t ref_band_set_left(df_kernel *k)    { return set(k, true); }
