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
  dfk_slide y, x;
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
    const int64_t image = row / s->y.out, oy = row % s->y.out; \
    INSIDE(y, oy) \
    for (int64_t ox = 0; ox < s->x.out; ox++) { \
      INSIDE(x, ox) \
      const int64_t o = (row * s->x.out + ox) * s->c, first = ((image * s->y.in + y_from) * s->x.in + x_from) * s->c; \
      BODY \
    } \
  }
#define PIXELS \
  for (int64_t iy = y_from, line = first; iy < y_to; iy++, line += s->x.in * s->c) \
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
/* A vector as wide as the machine's and one of one lane. */
#define VECTORS(S, T) \
  typedef T v_##S __attribute__((vector_size(VEC_BYTES))), o_##S __attribute__((vector_size(sizeof(T))));

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
    PLACES(const T count = (T)((y_to - y_from) * (x_to - x_from)); CHANNELS(S, T, AVERAGE_STEP)) \
  } \
  static void average_grad_##S(void *arg, int64_t begin, int64_t end) { \
    const pool *s = arg; \
    const T *dy = s->dy; \
    T *to = s->to; \
    PLACES(const T count = (T)((y_to - y_from) * (x_to - x_from)); CHANNELS(S, T, AVERAGE_GRAD_STEP)) \
  }
POOL(f32, float, -INFINITY)
POOL(f64, double, -INFINITY)
MAX_POOL(i8, int8_t, INT8_MIN)
MAX_POOL(u8, uint8_t, 0)
MAX_POOL(i16, int16_t, INT16_MIN)
MAX_POOL(u16, uint16_t, 0)
MAX_POOL(i32, int32_t, INT32_MIN)
MAX_POOL(i64, int64_t, INT64_MIN)

/* attrs: ksize, strides, padding, data_format */
static int32_t pool_of(df_kernel *k, pool *s, const int64_t *dims) {
  const df_attr *ksize = &k->attrs[0], *strides = &k->attrs[1];
  char why[200];
  int32_t code = dfk_bad_format(k, 3);
  if (code) return code;
  if (ksize->i != 4 || strides->i != 4)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "ksize and strides have one number for each of the 4 axes");
  if (ksize->ints[0] != 1 || ksize->ints[3] != 1 || strides->ints[0] != 1 || strides->ints[3] != 1)
    return dfk_fail(k, DF_UNIMPLEMENTED, "pooling over the batch or the channels is not supported");
  *s = (pool){ .n = dims[0],
               .c = dims[3],
               .y = { .in = dims[1], .window = ksize->ints[1], .stride = strides->ints[1], .dilation = 1 },
               .x = { .in = dims[2], .window = ksize->ints[2], .stride = strides->ints[2], .dilation = 1 } };
  if (!dfk_slide_of(&s->y, dfk_string(k, 2), 0, 0, why, sizeof why) ||
      !dfk_slide_of(&s->x, dfk_string(k, 2), 0, 0, why, sizeof why))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%s", why);
  return DF_OK;
}

/* Pieces of work: rows of outputs, or whole images where windows that overlap add to the same rows of the result. */
static void over_pieces(df_kernel *k, pool *s, bool apart, df_range_fn fn) {
  s->rows = apart ? 1 : s->y.out;
  const int64_t each = s->x.out * s->c * s->y.window * s->x.window;
  if (s->c && s->y.out) dfk_parallel(k, s->n * s->y.out / s->rows, apart && each < EW_LIGHT ? EW_LIGHT / (each + 1) : 1,
                                     fn, s);
}

/* Runs fn over the images with these inputs (NULL: none), halves as floats. `apart`: rows of outputs share none of the
 * result. */
static int32_t run_pool(df_kernel *k, pool *s, bool apart, df_range_fn f32, df_range_fn f64,
                        const df_tensor *in, const df_tensor *out, const df_tensor *dy, const int64_t *made) {
  const df_tensor *given[3] = { in, out, dy };
  const void *data[3];
  uint8_t dtype = k->out_dtype[0];
  df_tensor *y = dfk_out(k, 0, dtype, 4, made);
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

static int32_t check_pooled(df_kernel *k, const pool *s, const df_tensor *t, const char *name) {
  char text[160];
  bool fits =
      t->rank == 4 && t->dims[0] == s->n && t->dims[1] == s->y.out && t->dims[2] == s->x.out && t->dims[3] == s->c;
  if (fits) return DF_OK;
  return dfk_fail(k, DF_INVALID_ARGUMENT, "%s is %s but must be [%lld,%lld,%lld,%lld]", name,
                  dfk_shape_text(t, text, sizeof text), (long long)s->n, (long long)s->y.out, (long long)s->x.out,
                  (long long)s->c);
}

static int32_t pooled(df_kernel *k, df_range_fn f32, df_range_fn f64) {
  const df_tensor *x = k->in[0];
  pool s;
  int32_t code = dfk_four_axes(k, x, "the input");
  if (!code) code = pool_of(k, &s, x->dims);
  return code ? code : run_pool(k, &s, true, f32, f64, x, NULL, NULL,
                                (int64_t[]){ s.n, s.y.out, s.x.out, s.c });
}
int32_t cpu_max_pool(df_kernel *k) {
  static const df_range_fn ints[] = { [DF_INT8] = max_i8, [DF_UINT8] = max_u8, [DF_INT16] = max_i16,
                                      [DF_UINT16] = max_u16, [DF_INT32] = max_i32, [DF_INT64] = max_i64 };
  const uint8_t d = k->in[0]->dtype;
  const df_range_fn whole = d < sizeof ints / sizeof *ints ? ints[d] : NULL;
  return whole ? pooled(k, whole, whole) : pooled(k, max_f32, max_f64);
}
int32_t cpu_avg_pool(df_kernel *k) { return pooled(k, average_f32, average_f64); }

static bool tiles(const dfk_slide *s) { return s->window == s->stride && !s->before && s->out * s->stride == s->in; }

int32_t cpu_max_pool_grad(df_kernel *k) {
  pool s;
  int32_t code = dfk_four_axes(k, k->in[0], "orig_input");
  if (!code) code = pool_of(k, &s, k->in[0]->dims);
  if (!code) code = check_pooled(k, &s, k->in[1], "orig_output");
  if (!code) code = check_pooled(k, &s, k->in[2], "grad");
  if (code) return code;
  s.tiles = tiles(&s.y) && tiles(&s.x);
  return run_pool(k, &s, s.tiles, max_grad_f32, max_grad_f64, k->in[0], k->in[1], k->in[2], k->in[0]->dims);
}

/* What MaxPoolGrad hands on, backwards: grad, of the input's shape, at the pixel that each window took. */
int32_t cpu_max_pool_grad_grad(df_kernel *k) {
  pool s;
  char a[160], b[160];
  int32_t code = dfk_four_axes(k, k->in[0], "orig_input");
  if (!code) code = pool_of(k, &s, k->in[0]->dims);
  if (!code) code = check_pooled(k, &s, k->in[1], "orig_output");
  if (code) return code;
  if (k->in[2]->rank != 4 || memcmp(k->in[2]->dims, k->in[0]->dims, 4 * sizeof *k->in[0]->dims))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "grad is %s but must have the shape of orig_input, %s",
                    dfk_shape_text(k->in[2], a, sizeof a), dfk_shape_text(k->in[0], b, sizeof b));
  return run_pool(k, &s, true, max_grad_grad_f32, max_grad_grad_f64, k->in[0], k->in[1], k->in[2],
                  k->in[1]->dims);
}

int32_t cpu_avg_pool_grad(df_kernel *k) {
  int64_t sizes[4];
  pool s;
  int32_t code = dfk_four_sizes(k, k->in[0], "orig_input_shape", sizes);
  if (!code) code = pool_of(k, &s, sizes);
  if (!code) code = check_pooled(k, &s, k->in[1], "grad");
  if (code) return code;
  s.tiles = tiles(&s.y) && tiles(&s.x);
  return run_pool(k, &s, s.tiles, average_grad_f32, average_grad_f64, NULL, NULL, k->in[1], sizes);
}
