/* depthwise.c: depthwise convolutions of images and volumes. There is no product to make of them: they wait for
 * memory.
 *
 * With one channel out per channel in (what networks use) a tap is a multiplication of rows of channels; the output's
 * are summed in registers, a vector of channels of several places at a time, which share the tap. More channels out are
 * made the same: each channel of the input is written as often as it is used, or summed up again. Output and the
 * input's gradient are done by rows of images at once; the filter's gradient by taps, each of which goes over all
 * places. Every element is added up by one thread in an order that the sizes alone give.
 */
#include "../window.h"
#include "lanes.h"
#include <string.h>

enum { THEN = 8192 };       /* elements of the output to which then comes what becomes of them */

/* The input as it is given, of which each channel stands `each` times side by side in c->in. */
typedef struct work { const dfk_conv *c; void *narrow; int64_t each; } work;

/* The places ox0 .. ox1 - 1 of a row at which column kx of the window lies in the image. */
static void inside(const dfk_slide *s, int64_t k, int64_t *from, int64_t *to) {
  int64_t shift = k * s->dilation - s->before;                    /* i = o * stride + shift */
  *from = shift >= 0 ? 0 : (-shift - 1) / s->stride + 1;
  int64_t last = s->in - 1 - shift;
  *to = last < 0 ? 0 : last / s->stride + 1;
  if (*to > s->out) *to = s->out;
}

/* Taps k0 .. k1 - 1 of the window at place o lie in the image. */
static void taps_at(const dfk_slide *s, int64_t o, int64_t *k0, int64_t *k1) {
  const int64_t from = o * s->stride - s->before, last = s->in - 1 - from;
  *k0 = from >= 0 ? 0 : (-from - 1) / s->dilation + 1;
  *k1 = last < 0 ? 0 : last / s->dilation + 1;
  if (*k1 > s->window) *k1 = s->window;
}

typedef struct taps { int64_t z0, z1, y0, y1, x0, x1; } taps;

/* How many places from ox on have its taps along x: 8, 4, 2 or 1. */
static int64_t places_like(const dfk_slide *s, int64_t ox, const taps *t) {
  for (int64_t p = 8; p > 1; p /= 2) {
    taps last;
    if (ox + p > s->out) continue;
    taps_at(s, ox + p - 1, &last.x0, &last.x1);
    if (last.x0 == t->x0 && last.x1 == t->x1) return p;
  }
  return 1;
}

#define PLACES(S, T, p)                                                                                          \
  static void places_##p##_##S(const dfk_conv *c, const taps *t, const T *in, T *o) {                            \
    int64_t j = 0;                                                                                               \
    for (; j + LANES_##S <= c->co; j += LANES_##S) window_##S(c, t, in, o, p, j, LANES_##S);                     \
    if (j < c->co) window_##S(c, t, in, o, p, j, c->co - j);                                                     \
  }

/* Here c.ci == c.co. */
#define KERNELS(S, T)                                                                                            \
  /* p places side by side, whose windows have these taps: of channels from j on a vector, or `rest` of it. */        \
  static inline __attribute__((always_inline)) void window_##S(const dfk_conv *c, const taps *t, const T *in,    \
                                                               T *o, const int p, int64_t j, int64_t rest) {     \
    const int64_t n = c->co, next = c->x.stride * n;                                                             \
    const bool whole = rest == LANES_##S;                                                                        \
    v##S a[8];                                                                                                   \
    _Pragma("GCC unroll 8") for (int q = 0; q < p; q++) a[q] = (v##S){ 0 };                                      \
    for (int64_t kz = t->z0; kz < t->z1; kz++)                                                                   \
    for (int64_t ky = t->y0; ky < t->y1; ky++) {                                                                 \
      const int64_t row = kz * c->z.dilation * c->y.in + ky * c->y.dilation;                                     \
      const T *x = in + (row * c->x.in + t->x0 * c->x.dilation) * n + j;                                         \
      const T *f = (const T *)c->filter + ((kz * c->y.window + ky) * c->x.window + t->x0) * n + j;               \
      for (int64_t kx = t->x0; kx < t->x1; kx++, x += c->x.dilation * n, f += n) {                               \
        const v##S v = whole ? load_##S(f) : load_part_##S(f, rest, 0);                                          \
        _Pragma("GCC unroll 8") for (int q = 0; q < p; q++)                                                      \
          a[q] += (whole ? load_##S(x + q * next) : load_part_##S(x + q * next, rest, 0)) * v;                   \
      }                                                                                                          \
    }                                                                                                            \
    _Pragma("GCC unroll 8") for (int q = 0; q < p; q++)                                                          \
      if (whole) store_##S(o + q * n + j, a[q]); else store_some_##S(o + q * n + j, a[q], rest);                 \
  }                                                                                                              \
  PLACES(S, T, 1) PLACES(S, T, 2) PLACES(S, T, 4) PLACES(S, T, 8)                                                \
  /* Rows of the output: (image * z.out + oz) * y.out + oy. */                                                   \
  static void output_##S(void *user, int64_t begin, int64_t end) {                                               \
    const dfk_conv *c = ((const work *)user)->c;                                                                 \
    const int64_t n = c->co, row = c->x.out * n;                                                                 \
    int64_t done = begin;                                                                                        \
    for (int64_t r = begin; r < end; r++) {                                                                      \
      const int64_t plane = r / c->y.out, image = plane / c->z.out, oz = plane % c->z.out, oy = r % c->y.out;    \
      const int64_t iz = oz * c->z.stride - c->z.before, iy = oy * c->y.stride - c->y.before;                    \
      taps t;                                                                                                    \
      taps_at(&c->z, oz, &t.z0, &t.z1);                                                                          \
      taps_at(&c->y, oy, &t.y0, &t.y1);                                                                          \
      for (int64_t ox = 0, p; ox < c->x.out; ox += p) {                                                          \
        taps_at(&c->x, ox, &t.x0, &t.x1);                                                                        \
        p = places_like(&c->x, ox, &t);                                                                          \
        const T *in = (const T *)c->in + (((image * c->z.in + iz) * c->y.in + iy) * c->x.in +                    \
                                          ox * c->x.stride - c->x.before) * n;                                   \
        T *o = (T *)c->out + r * row + ox * n;                                                                   \
        (p == 8 ? places_8_##S : p == 4 ? places_4_##S : p == 2 ? places_2_##S : places_1_##S)(c, &t, in, o);    \
      }                                                                                                          \
      if (!c->then || ((r + 1 - done) * row < THEN && r + 1 < end)) continue;                                    \
      dfk_chain_range((void *)c->then, done * row, (r + 1) * row);                                               \
      done = r + 1;                                                                                              \
    }                                                                                                            \
  }                                                                                                              \
  static void row_##S(const dfk_conv *c, int64_t image, int64_t row, int64_t kz, int64_t ky) {                   \
    const int64_t oz = row / c->y.out, oy = row % c->y.out, n = c->co;                                           \
    int64_t iz = oz * c->z.stride + kz * c->z.dilation - c->z.before;                                            \
    int64_t iy = oy * c->y.stride + ky * c->y.dilation - c->y.before;                                            \
    if (iz < 0 || iz >= c->z.in || iy < 0 || iy >= c->y.in) return;                                              \
    for (int64_t kx = 0; kx < c->x.window; kx++) {                                                               \
      int64_t from, end;                                                                                         \
      inside(&c->x, kx, &from, &end);                                                                            \
      const T *restrict w = (const T *)c->filter + ((kz * c->y.window + ky) * c->x.window + kx) * n;             \
      for (int64_t ox = from; ox < end; ox++) {                                                                  \
        int64_t ix = ox * c->x.stride + kx * c->x.dilation - c->x.before;                                        \
        T *restrict in = (T *)c->in + (((image * c->z.in + iz) * c->y.in + iy) * c->x.in + ix) * n;              \
        const T *restrict o = (const T *)c->out + ((image * c->z.out * c->y.out + row) * c->x.out + ox) * n;     \
        for (int64_t j = 0; j < n; j++) in[j] += o[j] * w[j];                                                    \
      }                                                                                                          \
    }                                                                                                            \
  }                                                                                                              \
  /* Images: the rows of one overlap. */                                                                         \
  static void input_##S(void *user, int64_t begin, int64_t end) {                                                \
    const dfk_conv *c = ((const work *)user)->c;                                                                 \
    for (int64_t image = begin; image < end; image++)                                                            \
      for (int64_t row = 0; row < c->z.out * c->y.out; row++)                                                    \
        for (int64_t kz = 0; kz < c->z.window; kz++)                                                             \
          for (int64_t ky = 0; ky < c->y.window; ky++) row_##S(c, image, row, kz, ky);                           \
  }                                                                                                              \
  /* The places of a plane of the output, at which plane iz of the input has this tap, times the input there. */ \
  static void tap_##S(const dfk_conv *c, int64_t oplane, int64_t iplane, int64_t ky, int64_t kx, T *restrict w) {\
    const int64_t n = c->co;                                                                                     \
    int64_t y0, y1, x0, x1;                                                                                      \
    inside(&c->y, ky, &y0, &y1);                                                                                 \
    inside(&c->x, kx, &x0, &x1);                                                                                 \
    for (int64_t oy = y0; oy < y1; oy++)                                                                         \
      for (int64_t ox = x0; ox < x1; ox++) {                                                                     \
        int64_t iy = oy * c->y.stride + ky * c->y.dilation - c->y.before;                                        \
        int64_t ix = ox * c->x.stride + kx * c->x.dilation - c->x.before;                                        \
        const T *restrict in = (const T *)c->in + ((iplane * c->y.in + iy) * c->x.in + ix) * n;                  \
        const T *restrict o = (const T *)c->out + ((oplane * c->y.out + oy) * c->x.out + ox) * n;                \
        for (int64_t j = 0; j < n; j++) w[j] += in[j] * o[j];                                                    \
      }                                                                                                          \
  }                                                                                                              \
  /* Taps: (kz * y.window + ky) * x.window + kx. */                                                              \
  static void filter_##S(void *user, int64_t begin, int64_t end) {                                               \
    const dfk_conv *c = ((const work *)user)->c;                                                                 \
    for (int64_t tap = begin; tap < end; tap++) {                                                                \
      const int64_t row = tap / c->x.window, kz = row / c->y.window, ky = row % c->y.window;                     \
      int64_t z0, z1;                                                                                            \
      inside(&c->z, kz, &z0, &z1);                                                                               \
      for (int64_t image = 0; image < c->n; image++)                                                             \
        for (int64_t oz = z0; oz < z1; oz++)                                                                     \
          tap_##S(c, image * c->z.out + oz,                                                                      \
                  image * c->z.in + oz * c->z.stride + kz * c->z.dilation - c->z.before,                         \
                  ky, tap % c->x.window, (T *)c->filter + tap * c->co);                                          \
    }                                                                                                            \
  }                                                                                                              \
  /* Elements of the input: each `each` times in `wide`, and back as sums. */                                    \
  static void spread_##S(void *user, int64_t begin, int64_t end) {                                               \
    const work *w = user;                                                                                        \
    const T *in = w->narrow;                                                                                     \
    T *wide = w->c->in;                                                                                          \
    for (int64_t i = begin; i < end; i++)                                                                        \
      for (int64_t m = 0; m < w->each; m++) wide[i * w->each + m] = in[i];                                       \
  }                                                                                                              \
  static void sum_##S(void *user, int64_t begin, int64_t end) {                                                  \
    const work *w = user;                                                                                        \
    T *in = w->narrow;                                                                                           \
    const T *wide = w->c->in;                                                                                    \
    for (int64_t i = begin; i < end; i++)                                                                        \
      for (int64_t m = 0; m < w->each; m++) in[i] += wide[i * w->each + m];                                      \
  }
KERNELS(f32, float)
KERNELS(f64, double)

static void by_rows(df_kernel *k, const work *w, dfk_side to, bool wide) {
  const dfk_conv *c = w->c;
  const int64_t taps = dfk_conv_taps(c), rows = c->z.out * c->y.out, row = taps * c->x.out * c->co;
  switch (to) {
  case DFK_OUTPUT: dfk_parallel(k, c->n * rows, 65536 / row + 1, wide ? output_f64 : output_f32, (void *)w); break;
  case DFK_INPUT:  dfk_parallel(k, c->n, 65536 / (row * rows) + 1, wide ? input_f64 : input_f32, (void *)w); break;
  case DFK_FILTER:
    dfk_parallel(k, taps, 65536 / (dfk_conv_places(c) * c->co) + 1, wide ? filter_f64 : filter_f32, (void *)w);
    break;
  }
}

int32_t dfk_depthwise(df_kernel *k, const dfk_conv *c, dfk_side to, bool wide) {
  dfk_conv alike = dfk_conv_flat(c);
  work w = { &alike, c->in, c->co / c->ci };
  int64_t narrow = dfk_conv_pixels(c) * c->ci, bytes = narrow * w.each * (wide ? 8 : 4);
  if (w.each > 1) {
    alike.ci = c->co;
    if (!(alike.in = dfk_scratch(k, bytes))) return k->error->code;
    if (to == DFK_INPUT) memset(alike.in, 0, (size_t)bytes);
    else dfk_parallel(k, narrow, 16384 / w.each + 1, wide ? spread_f64 : spread_f32, &w);
  }
  by_rows(k, &w, to, wide);
  if (w.each > 1 && to == DFK_INPUT) dfk_parallel(k, narrow, 16384 / w.each + 1, wide ? sum_f64 : sum_f32, &w);
  if (w.each > 1) dfk_free(alike.in);
  return DF_OK;
}

int32_t cpu_depthwise_conv2d(df_kernel *k) { return dfk_depthwise_conv2d(k, dfk_depthwise); }
int32_t cpu_depthwise_backprop_input(df_kernel *k) { return dfk_depthwise_backprop_input(k, dfk_depthwise); }
int32_t cpu_depthwise_backprop_filter(df_kernel *k) { return dfk_depthwise_backprop_filter(k, dfk_depthwise); }
