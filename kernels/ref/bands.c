/* bands.c: see bands.h. TensorFlow's second and third version of diagonals: the second packs all to the left. */
#include "../bands.h"
#include "../move.h"
#include "element.h"

static int64_t length_of(const dfk_bands *b, int64_t d) {
  const int64_t down = b->rows + (d < 0 ? d : 0), across = b->cols - (d > 0 ? d : 0);
  return down < across ? down : across;
}
/* Where diagonal d begins in its row. */
static int64_t begin_of(const dfk_bands *b, int64_t d) {
  const bool left = (d >= 0 && b->align.left_above) || (d <= 0 && b->align.left_below);
  return left ? 0 : b->width - length_of(b, d);
}
/* The place of matrix element [i, j] in the packed band; -1: it is not in it. */
static int64_t packed_at(const dfk_bands *b, int64_t i, int64_t j) {
  const int64_t d = j - i;
  if (d < b->low || d > b->high) return -1;
  return (b->high - d) * b->width + begin_of(b, d) + (i < j ? i : j);
}

static int32_t part(df_kernel *k, bool left) {
  const df_tensor *x = k->in[0];
  dfk_bands b;
  df_tensor *out = dfk_bands_part_begin(k, left, &b);
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
static int32_t fill(df_kernel *k, const dfk_bands *b, df_tensor *out, const df_tensor *packed, const df_tensor *rest) {
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
  dfk_bands b;
  df_tensor *out = dfk_bands_matrix_begin(k, left, &b);
  return out ? fill(k, &b, out, k->in[0], k->in[4]) : k->error->code;
}

static int32_t set(df_kernel *k, bool left) {
  dfk_bands b;
  df_tensor *out = dfk_bands_set_begin(k, left, &b);
  return out ? fill(k, &b, out, k->in[1], k->in[0]) : k->error->code;
}

int32_t ref_band_part(df_kernel *k)        { return part(k, false); }
int32_t ref_band_part_left(df_kernel *k)   { return part(k, true); }
int32_t ref_band_matrix(df_kernel *k)      { return matrix(k, false); }
int32_t ref_band_matrix_left(df_kernel *k) { return matrix(k, true); }
int32_t ref_band_set(df_kernel *k)         { return set(k, false); }
int32_t ref_band_set_left(df_kernel *k)    { return set(k, true); }
