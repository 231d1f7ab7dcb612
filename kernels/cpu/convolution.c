/* convolution.c: convolutions of images as matrix products (gemm.h).
 *
 * The taps that the window sees from one place are a row of a matrix `cols`, [places, taps]; a convolution is cols times the filter
 * [taps, co]. cols is made a block of places at a time, small enough for the second-level cache, and multiplied at once. The
 * filter's gradient is dy' cols, summed over groups of blocks and then over the groups; the input's is dy filter', each row
 * of which is added to where its taps came from. Blocks and groups depend on the sizes alone, so the results do not depend on the
 * threads.
 *
 * Why not oneDNN: it generates code anew for each shape that it meets, and shapes are what changes in a dynamic graph; see the
 * README for what it costs against it.
 */
#include "../window.h"
#include "gemm.h"
#include <string.h>

enum { GROUPS = 16, BLOCK_BYTES = 1 << 18, LEAST = 64, MOST = 512 };

typedef struct conv {
  dfk_conv  all;
  int64_t   places, taps;         /* rows and columns of cols */
  int64_t   block, groups;        /* places done at a time; parts that may be done at once */
  char     *room;
  int64_t   room_bytes;           /* of each group */
} conv;

static int64_t part(const conv *c, int64_t all, int64_t group) { return all * group / c->groups; }

/* Steps through places [first, first + count): `image`, `oy`, `ox`. */
#define EACH_PLACE(BODY)                                                                                         \
  for (int64_t q = 0, ox = first % c->all.x.out, oy = first / c->all.x.out % c->all.y.out, image = first / (c->all.x.out * c->all.y.out); q < count; q++) { \
    BODY                                                                                                         \
    if (++ox == c->all.x.out) {                                                                                      \
      ox = 0;                                                                                                    \
      if (++oy == c->all.y.out) oy = 0, image++;                                                                     \
    }                                                                                                            \
  }
/* The window's rows at (oy, ox): INSIDE sees run of `taps` pixels that lie in the image, from pixel p of the input and tap t on;
 * OUTSIDE sees tap t on its own. */
#define EACH_TAP(INSIDE, OUTSIDE)                                                                                \
  for (int64_t ky = 0; ky < c->all.y.window; ky++) {                                                                 \
    int64_t iy = oy * c->all.y.stride + ky * c->all.y.dilation - c->all.y.before, ix = ox * c->all.x.stride - c->all.x.before;       \
    bool row = iy >= 0 && iy < c->all.y.in, whole = row && c->all.x.dilation == 1 && ix >= 0 && ix + c->all.x.window <= c->all.x.in; \
    for (int64_t kx = 0, taps = whole ? c->all.x.window : 1; kx < c->all.x.window; kx += taps, ix += c->all.x.dilation) {    \
      int64_t t = (ky * c->all.x.window + kx) * c->all.ci, p = ((image * c->all.y.in + iy) * c->all.x.in + ix) * c->all.ci;          \
      if (row && ix >= 0 && ix < c->all.x.in) { INSIDE } else { OUTSIDE }                                            \
    }                                                                                                            \
  }

#define CONVOLVE(S, T)                                                                                           \
  static void gather_##S(const conv *c, int64_t first, int64_t count, T *cols) {                                 \
    const T *in = c->all.in;                                                                                         \
    EACH_PLACE(                                                                                                  \
      T *to = cols + q * c->taps;                                                                                \
      EACH_TAP(memcpy(to + t, in + p, (size_t)(taps * c->all.ci) * sizeof(T));, memset(to + t, 0, (size_t)c->all.ci * sizeof(T));)) \
  }                                                                                                              \
  static void scatter_##S(const conv *c, int64_t first, int64_t count, const T *cols) {                          \
    T *in = c->all.in;                                                                                               \
    EACH_PLACE(                                                                                                  \
      const T *from = cols + q * c->taps;                                                                        \
      EACH_TAP(for (int64_t i = 0; i < taps * c->all.ci; i++) in[p + i] += from[t + i];, ;))                         \
  }                                                                                                              \
  static void gathered_##S(void *arg, int64_t begin, int64_t end) {              /* all of cols, for few places */ \
    const conv *c = arg;                                                                                         \
    gather_##S(c, begin, end - begin, (T *)c->room + begin * c->taps);                                           \
  }                                                                                                              \
  static void forward_##S(void *arg, int64_t begin, int64_t end) {                                               \
    const conv *c = arg;                                                                                         \
    for (int64_t g = begin; g < end; g++)                                                                        \
      for (int64_t first = part(c, c->places, g), stop = part(c, c->places, g + 1); first < stop; first += c->block) { \
        T *cols = (T *)(c->room + g * c->room_bytes);                                                            \
        gemm m = { stop - first < c->block ? stop - first : c->block, c->all.co, c->taps, false, false, c->taps, c->all.co, c->all.co }; \
        gather_##S(c, first, m.m, cols);                                                                         \
        dfk_gemm_piece_##S(&m, cols, c->all.filter, (T *)c->all.out + first * c->all.co, false, NULL);                       \
      }                                                                                                          \
  }                                                                                                              \
  static void to_input_##S(void *arg, int64_t begin, int64_t end) {              /* groups of images */          \
    const conv *c = arg;                                                                                         \
    int64_t each = c->all.y.out * c->all.x.out;                                                                          \
    for (int64_t g = begin; g < end; g++)                                                                        \
      for (int64_t first = part(c, c->all.n, g) * each, stop = part(c, c->all.n, g + 1) * each; first < stop; first += c->block) { \
        T *cols = (T *)(c->room + g * c->room_bytes);                                                            \
        gemm m = { stop - first < c->block ? stop - first : c->block, c->taps, c->all.co, false, true, c->all.co, c->all.co, c->taps }; \
        dfk_gemm_piece_##S(&m, (const T *)c->all.out + first * c->all.co, c->all.filter, cols, false, NULL);                 \
        scatter_##S(c, first, m.m, cols);                                                                        \
      }                                                                                                          \
  }                                                                                                              \
  static void to_filter_##S(void *arg, int64_t begin, int64_t end) {                                             \
    const conv *c = arg;                                                                                         \
    for (int64_t g = begin; g < end; g++) {                                                                      \
      T *sum = (T *)(c->room + g * c->room_bytes), *cols = sum + c->all.co * c->taps, *packed = cols + c->block * c->taps; \
      int64_t start = part(c, c->places, g), stop = part(c, c->places, g + 1);                                   \
      for (int64_t first = start; first < stop; first += c->block) {                                             \
        int64_t count = stop - first < c->block ? stop - first : c->block;                                       \
        gemm m = { c->all.co, c->taps, count, true, false, c->all.co, c->taps, c->taps };                                \
        gather_##S(c, first, count, cols);                                                                       \
        dfk_gemm_piece_##S(&m, (const T *)c->all.out + first * c->all.co, cols, sum, first > start, packed);             \
      }                                                                                                          \
    }                                                                                                            \
  }                                                                                                              \
  static void add_groups_##S(void *arg, int64_t begin, int64_t end) {            /* taps of the filter */        \
    const conv *c = arg;                                                                                         \
    T *to = c->all.filter;                                                                                           \
    for (int64_t t = begin; t < end; t++)                                                                        \
      for (int64_t j = 0; j < c->all.co; j++) {                                                                      \
        T sum = 0;                                                                                               \
        for (int64_t g = 0; g < c->groups; g++) sum += ((const T *)(c->room + g * c->room_bytes))[j * c->taps + t]; \
        to[t * c->all.co + j] = sum;                                                                                 \
      }                                                                                                          \
  }
CONVOLVE(f32, float)
CONVOLVE(f64, double)

static bool take_room(df_kernel *k, conv *c, int64_t bytes) {
  c->room_bytes = (bytes + 63) & ~(int64_t)63;
  return (c->room = dfk_scratch(k, c->room_bytes * c->groups)) != NULL;
}

static int32_t run_conv(df_kernel *k, conv *c, dfk_side to, bool wide) {
  int64_t width = wide ? 8 : 4, row = c->taps * width, least = (c->places + LEAST - 1) / LEAST;
  c->block = BLOCK_BYTES / row / 8 * 8;
  if (c->block < LEAST) c->block = LEAST;
  if (c->block > MOST) c->block = MOST;
  c->groups = least < GROUPS ? least : GROUPS;
  if (to == DFK_OUTPUT) {
    bool as_it_lies = c->taps == c->all.ci && c->all.x.out == c->all.x.in && c->all.y.out == c->all.y.in && c->all.x.stride == 1 && c->all.y.stride == 1;
    if (as_it_lies || c->places < GROUPS * LEAST) {   /* one product, which splits itself by columns, too */
      gemm m = { c->places, c->all.co, c->taps, false, false, c->taps, c->all.co, c->all.co };
      c->groups = 1;
      if (!as_it_lies) {
        if (!take_room(k, c, c->places * row)) return k->error->code;
        dfk_parallel(k, c->places, 65536 / row + 1, wide ? gathered_f64 : gathered_f32, c);
      }
      const void *a = as_it_lies ? c->all.in : c->room;
      return wide ? dfk_gemm_f64(k, &m, a, c->all.filter, c->all.out) : dfk_gemm_f32(k, &m, a, c->all.filter, c->all.out);
    }
    if (!take_room(k, c, c->block * row)) return k->error->code;
    dfk_parallel(k, c->groups, 1, wide ? forward_f64 : forward_f32, c);
  } else if (to == DFK_INPUT) {
    c->groups = c->all.n < GROUPS ? c->all.n : GROUPS;
    if (!take_room(k, c, c->block * row)) return k->error->code;
    dfk_parallel(k, c->groups, 1, wide ? to_input_f64 : to_input_f32, c);
  } else {
    if (!take_room(k, c, c->all.co * row + c->block * row + (c->all.co + 8) * c->block * width)) return k->error->code;
    dfk_parallel(k, c->groups, 1, wide ? to_filter_f64 : to_filter_f32, c);
    dfk_parallel(k, c->taps, 65536 / (c->all.co * c->groups) + 1, wide ? add_groups_f64 : add_groups_f32, c);
  }
  return DF_OK;
}

static int32_t by_products(df_kernel *k, const dfk_conv *all, dfk_side to, bool wide) {
  conv c = { .all = *all, .places = all->n * all->y.out * all->x.out, .taps = all->y.window * all->x.window * all->ci };
  int32_t code = run_conv(k, &c, to, wide);
  dfk_free(c.room);
  return code;
}

int32_t cpu_conv2d(df_kernel *k) { return dfk_conv2d(k, by_products); }
int32_t cpu_conv2d_backprop_input(df_kernel *k) { return dfk_conv2d_backprop_input(k, by_products); }
int32_t cpu_conv2d_backprop_filter(df_kernel *k) { return dfk_conv2d_backprop_filter(k, by_products); }
