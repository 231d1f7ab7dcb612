/* blocks.c: reference kernels that move pixels of blocks, one after the other. */
#include "../blocks.h"
#include "../move.h"

/* Visits every pixel of the batch tensor and copies it to or from where it lies in the space tensor; what is padding
   stays. */
static int32_t move_pixels(df_kernel *k, const dfk_blocks *b, df_tensor *out, bool to_batch) {
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

static int32_t move(df_kernel *k, bool square, bool to_batch) {
  dfk_blocks b;
  df_tensor *out = dfk_blocks_begin(k, &b, square, to_batch);
  return out ? move_pixels(k, &b, out, to_batch) : k->error->code;
}

int32_t ref_space_to_batch(df_kernel *k)    { return move(k, false, true); }
int32_t ref_batch_to_space(df_kernel *k)    { return move(k, false, false); }
int32_t ref_space_to_batch_2d(df_kernel *k) { return move(k, true, true); }
int32_t ref_batch_to_space_2d(df_kernel *k) { return move(k, true, false); }

static int32_t depth(df_kernel *k, bool to_depth) {
  dfk_depth d;
  df_tensor *out = dfk_depth_begin(k, &d, to_depth);
  if (!out) return k->error->code;
  for (int64_t n = 0; n < d.n; n++)
    for (int64_t y = 0; y < d.h * d.s; y++)
      for (int64_t v = 0; v < d.w * d.s; v++) {
        int64_t space = ((n * d.h * d.s + y) * d.w * d.s + v) * d.c,
                deep = ((n * d.h + y / d.s) * d.w + v / d.s) * d.s * d.s * d.c + (y % d.s * d.s + v % d.s) * d.c;
        if (!dfk_copy(k, out, to_depth ? deep : space, k->in[0], to_depth ? space : deep, d.c)) return k->error->code;
      }
  return DF_OK;
}
int32_t ref_space_to_depth(df_kernel *k) { return depth(k, true); }
int32_t ref_depth_to_space(df_kernel *k) { return depth(k, false); }
