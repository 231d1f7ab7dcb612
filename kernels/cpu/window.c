/* window.c: pooling, as loops over the places of the window. The innermost runs over its pixels, for as many channels
 * as fit into a few registers.
 *
 * Rows of a result that different threads write are apart, and each element is summed in the order of the window's
 * taps, so nothing depends on how the work was split. Halves are computed as floats and rounded once.
 */
#include "../window.h"
#include "../half.h"
#include "elementwise.h"
#include "vec.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* ---- pooling ------------------------------------------------------------------------------------------------- */
typedef struct pool {
  int64_t   n, c;
  dfk_slide z, y, x;
  const void *in, *out, *dy;
  void     *to;
  bool      tiles;         /* the windows cover the input, each pixel once */
  int64_t   rows;          /* of the result that one piece of work has */
} pool;

#define INSIDE(AXIS, o) \
  int64_t AXIS##_from = (o) * s->AXIS.stride - s->AXIS.before, AXIS##_to = AXIS##_from + s->AXIS.window; \
  if (AXIS##_from < 0) AXIS##_from = 0; \
  if (AXIS##_to > s->AXIS.in) AXIS##_to = s->AXIS.in;
/* Each place of the window: BODY sees pixel `o` of the outputs, and pixels of the inputs with PIXELS. */
#define PLACES(BODY) \
  for (int64_t row = begin * s->rows; row < end * s->rows; row++) { \
    const int64_t plane = row / s->y.out, image = plane / s->z.out, oz = plane % s->z.out, oy = row % s->y.out; \
    INSIDE(z, oz) \
    INSIDE(y, oy) \
    for (int64_t ox = 0; ox < s->x.out; ox++) { \
      INSIDE(x, ox) \
      const int64_t o = (row * s->x.out + ox) * s->c; \
      const int64_t first = (((image * s->z.in + z_from) * s->y.in + y_from) * s->x.in + x_from) * s->c; \
      BODY \
    } \
  }
#define PIXELS \
  for (int64_t iz = z_from, from = first; iz < z_to; iz++, from += s->y.in * s->x.in * s->c) \
    for (int64_t iy = y_from, line = from; iy < y_to; iy++, line += s->x.in * s->c) \
      for (int64_t ix = x_from, p = line; ix < x_to; ix++, p += s->c)
/* CHANNELS(STEP): channels from c on, four vectors of them at a time, then one, then one channel; STEP(V, w) does w of
   type V, whose lanes stay in registers while the window's pixels go by: 1.5 to 2 times as fast as row by row. */
#define CHANNELS(S, T, STEP) { \
    enum { L = (int)(sizeof(v_##S) / sizeof(T)) }; \
    int64_t c = 0; \
    for (; c + 4 * L <= s->c; c += 4 * L) { STEP(S, v_##S, 4) } \
    for (; c + L <= s->c; c += L) { STEP(S, v_##S, 1) } \
    for (; c < s->c; c++) { STEP(S, o_##S, 1) } \
  }
#define EACH for (int q = 0; q < (int)(sizeof a / sizeof *a); q++)
#define LOAD(v, from) memcpy(&(v), (from), sizeof(v))
#define STORE(to, v)  memcpy((to), &(v), sizeof(v))
#define PICK(V, m, a, b) ((V)(((__typeof__(m))(a) & (m)) | ((__typeof__(m))(b) & ~(m))))
/* A vector as wide as the machine's, of bytes of 16, as images have few channels; and one of one lane. */
#define VECTORS(S, T) \
  typedef T v_##S __attribute__((vector_size(sizeof(T) == 1 ? 16 : VEC_BYTES))), \
            o_##S __attribute__((vector_size(sizeof(T))));

/* A greatest number that is NaN is the first one's. */
#define MAX_STEP(S, V, w) \
  V a[w]; \
  EACH a[q] = (V){ 0 } + lowest; \
  PIXELS { \
    V v[w]; \
    LOAD(v, x + p + c); \
    EACH a[q] = PICK(V, (v[q] > a[q]) | (v[q] != v[q]), v[q], a[q]); \
  } \
  STORE(to + o + c, a);
#define MAX_POOL(S, T, LOWEST) \
  VECTORS(S, T) \
  static void max_##S(void *arg, int64_t begin, int64_t end) { \
    const pool *s = arg; \
    const T *x = s->in, lowest = LOWEST; \
    T *to = s->to; \
    PLACES(CHANNELS(S, T, MAX_STEP)) \
  }

/* To the first pixel that is the greatest; v is what has not found its pixel yet. */
#define MAX_GRAD_STEP(S, V, w) \
  V a[w], left[w]; \
  LOAD(a, y + o + c); \
  LOAD(left, dy + o + c); \
  PIXELS { \
    V v[w], d[w] = { 0 }; \
    LOAD(v, x + p + c); \
    if (!s->tiles) LOAD(d, to + p + c); \
    EACH { \
      const __typeof__(v[q] == a[q]) hit = v[q] == a[q]; \
      d[q] += (V)((__typeof__(hit))left[q] & hit); \
      left[q] = (V)((__typeof__(hit))left[q] & ~hit); \
    } \
    STORE(to + p + c, d); \
  }
/* From the first pixel that is the greatest; 0 where there is none. */
#define MAX_GRAD_GRAD_STEP(S, V, w) \
  V a[w], sum[w] = { 0 }; \
  LOAD(a, y + o + c); \
  __typeof__(a[0] == a[0]) found[w] = { 0 }; \
  PIXELS { \
    V v[w], d[w]; \
    LOAD(v, x + p + c); \
    LOAD(d, dy + p + c); \
    EACH { \
      const __typeof__(v[q] == a[q]) hit = (v[q] == a[q]) & ~found[q]; \
      sum[q] = PICK(V, hit, d[q], sum[q]); \
      found[q] |= hit; \
    } \
  } \
  STORE(to + o + c, sum);
/* Of the pixels that are there. */
#define AVERAGE_STEP(S, V, w) \
  V a[w] = { 0 }; \
  PIXELS { \
    V v[w]; \
    LOAD(v, x + p + c); \
    EACH a[q] += v[q]; \
  } \
  EACH a[q] /= count; \
  STORE(to + o + c, a);
#define AVERAGE_GRAD_STEP(S, V, w) \
  V a[w]; \
  LOAD(a, dy + o + c); \
  EACH a[q] /= count; \
  PIXELS { \
    V d[w] = { 0 }; \
    if (!s->tiles) LOAD(d, to + p + c); \
    EACH d[q] += a[q]; \
    STORE(to + p + c, d); \
  }
#define POOL(S, T, LOWEST) \
  MAX_POOL(S, T, LOWEST) \
  static void max_grad_grad_##S(void *arg, int64_t begin, int64_t end) { \
    const pool *s = arg; \
    const T *x = s->in, *y = s->out, *dy = s->dy; \
    T *to = s->to; \
    PLACES(CHANNELS(S, T, MAX_GRAD_GRAD_STEP)) \
  } \
  static void max_grad_##S(void *arg, int64_t begin, int64_t end) { \
    const pool *s = arg; \
    const T *x = s->in, *y = s->out, *dy = s->dy; \
    T *to = s->to; \
    PLACES(CHANNELS(S, T, MAX_GRAD_STEP)) \
  } \
  static void average_##S(void *arg, int64_t begin, int64_t end) { \
    const pool *s = arg; \
    const T *x = s->in; \
    T *to = s->to; \
    PLACES(const T count = (T)((z_to - z_from) * (y_to - y_from) * (x_to - x_from)); \
           CHANNELS(S, T, AVERAGE_STEP)) \
  } \
  static void average_grad_##S(void *arg, int64_t begin, int64_t end) { \
    const pool *s = arg; \
    const T *dy = s->dy; \
    T *to = s->to; \
    PLACES(const T count = (T)((z_to - z_from) * (y_to - y_from) * (x_to - x_from)); \
           CHANNELS(S, T, AVERAGE_GRAD_STEP)) \
  }
POOL(f32, float, -INFINITY)
POOL(f64, double, -INFINITY)
MAX_POOL(i8, int8_t, INT8_MIN)
MAX_POOL(u8, uint8_t, 0)
MAX_POOL(i16, int16_t, INT16_MIN)
MAX_POOL(u16, uint16_t, 0)
MAX_POOL(i32, int32_t, INT32_MIN)
MAX_POOL(i64, int64_t, INT64_MIN)

static bool tiles(const dfk_slide *s) { return s->window == s->stride && !s->before && s->out * s->stride == s->in; }

static int64_t taps_inside(const dfk_slide *s) { return s->window < s->in ? s->window : s->in; }

/* Pieces of work: rows of outputs, or whole images where windows that overlap add to the same rows of the result. */
static void over_pieces(df_kernel *k, pool *s, bool apart, df_range_fn fn) {
  const int64_t rows = s->z.out * s->y.out;
  const int64_t each = s->x.out * s->c * taps_inside(&s->z) * taps_inside(&s->y) * taps_inside(&s->x);
  s->rows = apart ? 1 : rows;
  if (s->c && rows)
    dfk_parallel(k, s->n * rows / s->rows, apart && each < EW_LIGHT ? EW_LIGHT / (each + 1) : 1, fn, s);
}

/* Runs fn over the images with these inputs (NULL: none), halves as floats. `apart`: rows of outputs share none of the
 * result; else they do not where the windows are tiles. */
static int32_t run_pool(df_kernel *k, const dfk_pool *p, bool apart, df_range_fn f32, df_range_fn f64,
                        const df_tensor *in, const df_tensor *out, const df_tensor *dy, const int64_t *made) {
  pool of = { .n = p->n, .c = p->c, .z = p->z, .y = p->y, .x = p->x }, *s = &of;
  s->tiles = !apart && tiles(&s->z) && tiles(&s->y) && tiles(&s->x);
  apart |= s->tiles;
  const df_tensor *given[3] = { in, out, dy };
  const void *data[3];
  uint8_t dtype = k->out_dtype[0];
  df_tensor *y = dfk_out(k, 0, dtype, p->rank, made);
  if (!y) return k->error->code;
  int64_t total = y->size;
  for (int i = 0; i < 3; i++) { data[i] = given[i] ? given[i]->data : NULL; total += given[i] ? given[i]->size : 0; }
  float *floats = NULL, *at;
  s->to = y->data;
  if (dfk_is_half(dtype)) {
    if (!(floats = at = dfk_scratch(k, total * 4 + 4))) return k->error->code;
    for (int i = 0; i < 3; i++) {
      if (!given[i]) continue;
      dfk_half_to_floats(dtype, at, given[i]->data, given[i]->size);
      data[i] = at;
      at += given[i]->size;
    }
    s->to = at;
  }
  if (y->size && !apart) memset(s->to, 0, (size_t)(floats ? y->size * 4 : y->size * df_dtype_bytes(dtype)));
  s->in = data[0];
  s->out = data[1];
  s->dy = data[2];
  over_pieces(k, s, apart, dtype == DF_FLOAT64 ? f64 : f32);
  if (floats) dfk_half_from_floats(dtype, y->data, s->to, y->size);
  dfk_free(floats);
  return DF_OK;
}

#define RUN(name, apart, f32, f64) \
  static int32_t name(df_kernel *k, const dfk_pool *p, const df_tensor *in, const df_tensor *out, const df_tensor *dy, \
                      const int64_t *made) { \
    return run_pool(k, p, apart, f32, f64, in, out, dy, made); \
  }
RUN(run_average, true, average_f32, average_f64)
RUN(run_average_grad, false, average_grad_f32, average_grad_f64)
RUN(run_max_grad_grad, true, max_grad_grad_f32, max_grad_grad_f64)
RUN(run_max_grad, false, max_grad_f32, max_grad_f64)

static int32_t run_max(df_kernel *k, const dfk_pool *p, const df_tensor *in, const df_tensor *out, const df_tensor *dy,
                       const int64_t *made) {
  static const df_range_fn ints[] = { [DF_INT8] = max_i8, [DF_UINT8] = max_u8, [DF_INT16] = max_i16,
                                      [DF_UINT16] = max_u16, [DF_INT32] = max_i32, [DF_INT64] = max_i64,
                                      [DF_QINT8] = max_i8, [DF_QUINT8] = max_u8 };
  const df_range_fn whole = in->dtype < sizeof ints / sizeof *ints ? ints[in->dtype] : NULL;
  return run_pool(k, p, true, whole ? whole : max_f32, whole ? whole : max_f64, in, out, dy, made);
}

int32_t cpu_max_pool(df_kernel *k)           { return dfk_pooled(k, run_max); }
int32_t cpu_avg_pool(df_kernel *k)           { return dfk_pooled(k, run_average); }
int32_t cpu_avg_pool_grad(df_kernel *k)      { return dfk_avg_pool_grad(k, run_average_grad); }
int32_t cpu_max_pool_grad(df_kernel *k)      { return dfk_max_pool_grad(k, run_max_grad); }
/* What MaxPoolGrad hands on, backwards: grad, of the input's shape, at the pixel that each window took. */
int32_t cpu_max_pool_grad_grad(df_kernel *k) { return dfk_max_pool_grad_grad(k, run_max_grad_grad); }
