/* blocks.c: pixels of blocks moved to the batch or to the channels, and back.
 *
 * A space tensor is [batch, space..., rest...]. Its batch tensor is [block... batch, space / block..., rest...]: the
 * pixel j block + k - begin of an axis lies at j in the part of the batch that k names, where begin is what is padded
 * in front (or cropped).
 */
#include "../blocks.h"
#include "../move.h"

typedef struct blocks {
  int32_t n;                                   /* axes of space */
  int64_t block[DF_MAX_RANK], begin[DF_MAX_RANK], end[DF_MAX_RANK];
  int64_t batch, rest, parts;                  /* of the space tensor; elements of a pixel; the product of the blocks */
  int64_t space[DF_MAX_RANK], small[DF_MAX_RANK];   /* of the space tensor; of the batch tensor */
} blocks;

/* Block sizes and margins; false: they are wrong, the error is filled. */
static bool read_blocks(df_kernel *k, blocks *b, const df_tensor *size, int64_t both, const df_tensor *margins) {
  const df_tensor *x = k->in[0];
  char one[160], other[160];
  b->n = size ? (int32_t)size->size : 2;
  bool fits = b->n + 1 <= x->rank && margins->rank == 2 && margins->dims[0] == b->n && margins->dims[1] == 2 &&
              (!size || size->rank == 1);
  if (!fits) {
    dfk_fail(k, DF_INVALID_ARGUMENT,
             "%d blocks and margins %s are given for %s: expected a block and two margins for each axis of space", b->n,
             dfk_shape_text(margins, one, sizeof one), dfk_shape_text(x, other, sizeof other));
    return false;
  }
  b->parts = b->rest = 1;
  for (int32_t i = 0; i < b->n; i++) {
    b->block[i] = size ? dfk_index(size, i) : both;
    b->begin[i] = dfk_index(margins, 2 * i);
    b->end[i] = dfk_index(margins, 2 * i + 1);
    if (b->block[i] < 1 || b->begin[i] < 0 || b->end[i] < 0) {
      dfk_fail(
          k, DF_INVALID_ARGUMENT,
          "axis %d of space has blocks of %lld and margins of %lld and %lld: expected 1 or more, and none negative", i,
          (long long)b->block[i], (long long)b->begin[i], (long long)b->end[i]);
      return false;
    }
    b->parts *= b->block[i];
  }
  for (int32_t d = b->n + 1; d < x->rank; d++) b->rest *= x->dims[d];
  return true;
}

/* Visits every pixel of the batch tensor and copies it to or from where it lies in the space tensor; what is padding
   stays. */
static int32_t move_pixels(df_kernel *k, const blocks *b, df_tensor *out, bool to_batch) {
  int64_t small = 1, at[DF_MAX_RANK] = { 0 };
  for (int32_t i = 0; i < b->n; i++) small *= b->small[i];
  for (int64_t part = 0; part < b->parts; part++) {
    int64_t inside[DF_MAX_RANK], left = part;
    for (int32_t i = b->n - 1; i >= 0; i--) { inside[i] = left % b->block[i]; left /= b->block[i]; }
    for (int64_t n = 0; n < b->batch; n++)
      for (int64_t j = 0; j < small; j++) {
        int64_t space = n, in_batch = (part * b->batch + n) * small + j;
        bool real = true;
        for (int32_t i = 0; i < b->n; i++) {
          int64_t pixel = at[i] * b->block[i] + inside[i] - b->begin[i];
          real = real && pixel >= 0 && pixel < b->space[i];
          space = space * b->space[i] + pixel;
        }
        dfk_next(b->n, b->small, at);
        if (!real) continue;
        if (!dfk_copy(k, out, (to_batch ? in_batch : space) * b->rest, k->in[0],
                      (to_batch ? space : in_batch) * b->rest, b->rest))
          return k->error->code;
      }
  }
  return DF_OK;
}

static int32_t move(df_kernel *k, blocks *b, bool to_batch) {
  const df_tensor *x = k->in[0];
  int64_t dims[DF_MAX_RANK];
  memcpy(dims, x->dims, sizeof dims);
  b->batch = to_batch ? x->dims[0] : x->dims[0] / b->parts;
  dims[0] = to_batch ? x->dims[0] * b->parts : b->batch;
  if (!to_batch && x->dims[0] % b->parts)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "a batch of %lld cannot be shared among blocks of %lld pixels",
                    (long long)x->dims[0], (long long)b->parts);
  for (int32_t i = 0; i < b->n; i++) {
    int64_t size = x->dims[i + 1];
    b->space[i] = to_batch ? size : size * b->block[i] - b->begin[i] - b->end[i];
    b->small[i] = to_batch ? (size + b->begin[i] + b->end[i]) / b->block[i] : size;
    if (to_batch ? (size + b->begin[i] + b->end[i]) % b->block[i] != 0 : b->space[i] < 0)
      return dfk_fail(k, DF_INVALID_ARGUMENT,
                      "axis %d of space is %lld with margins of %lld and %lld, which does not go with blocks of %lld",
                      i, (long long)size, (long long)b->begin[i], (long long)b->end[i], (long long)b->block[i]);
    dims[i + 1] = to_batch ? b->small[i] : b->space[i];
  }
  df_tensor *out = dfk_out(k, 0, x->dtype, x->rank, dims);
  if (!out) return k->error->code;
  dfk_clear(out);
  return move_pixels(k, b, out, to_batch);
}

int32_t ref_space_to_batch(df_kernel *k) {
  blocks b;
  return read_blocks(k, &b, k->in[1], 0, k->in[2]) ? move(k, &b, true) : k->error->code;
}
int32_t ref_batch_to_space(df_kernel *k) {
  blocks b;
  return read_blocks(k, &b, k->in[1], 0, k->in[2]) ? move(k, &b, false) : k->error->code;
}
int32_t ref_space_to_batch_2d(df_kernel *k) {
  blocks b;
  return read_blocks(k, &b, NULL, dfk_int(k, 0), k->in[1]) ? move(k, &b, true) : k->error->code;
}
int32_t ref_batch_to_space_2d(df_kernel *k) {
  blocks b;
  return read_blocks(k, &b, NULL, dfk_int(k, 0), k->in[1]) ? move(k, &b, false) : k->error->code;
}

/* [n, h s, w s, c] and [n, h, w, s s c]: the pixels of a block lie side by side in the channels. */
static int32_t depth(df_kernel *k, bool to_depth) {
  const df_tensor *x = k->in[0];
  int64_t s = dfk_int(k, 0);
  char text[160];
  if (k->attrs[1].i != 4 || memcmp(k->attrs[1].s, "NHWC", 4))
    return dfk_fail(k, DF_UNIMPLEMENTED, "data_format %s is not supported on the CPU: it must be NHWC", k->attrs[1].s);
  if (x->rank != 4 || s < 2)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the input is %s with blocks of %lld: expected [n, h, w, c], and 2 or more",
                    dfk_shape_text(x, text, sizeof text), (long long)s);
  if (to_depth ? x->dims[1] % s || x->dims[2] % s : x->dims[3] % (s * s) != 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%s does not go with blocks of %lld", dfk_shape_text(x, text, sizeof text),
                    (long long)s);
  int64_t h = to_depth ? x->dims[1] / s : x->dims[1], w = to_depth ? x->dims[2] / s : x->dims[2],
          c = to_depth ? x->dims[3] : x->dims[3] / (s * s);
  int64_t dims[4] = { x->dims[0], to_depth ? h : h * s, to_depth ? w : w * s, to_depth ? c * s * s : c };
  df_tensor *out = dfk_out(k, 0, x->dtype, 4, dims);
  if (!out) return k->error->code;
  for (int64_t n = 0; n < dims[0]; n++)
    for (int64_t y = 0; y < h * s; y++)
      for (int64_t v = 0; v < w * s; v++) {
        int64_t space = ((n * h * s + y) * w * s + v) * c,
                deep = ((n * h + y / s) * w + v / s) * s * s * c + (y % s * s + v % s) * c;
        if (!dfk_copy(k, out, to_depth ? deep : space, x, to_depth ? space : deep, c)) return k->error->code;
      }
  return DF_OK;
}
int32_t ref_space_to_depth(df_kernel *k) { return depth(k, true); }
int32_t ref_depth_to_space(df_kernel *k) { return depth(k, false); }
