/* window.c: pooling, as loops over the places of the window whose innermost run is over channels.
 *
 * Rows of a result that different threads write are apart, and each element is summed in the order of the window's
 * taps, so nothing depends on how the work was split. Halves are computed as floats and rounded once.
 */
#include "../window.h"
#include "../half.h"
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
} pool;

#define INSIDE(AXIS, o) \
  int64_t AXIS##_from = (o) * s->AXIS.stride - s->AXIS.before, AXIS##_to = AXIS##_from + s->AXIS.window; \
  if (AXIS##_from < 0) AXIS##_from = 0; \
  if (AXIS##_to > s->AXIS.in) AXIS##_to = s->AXIS.in;
/* Each place of the window: BODY sees pixel `o` of the outputs and runs over pixels `p` of the inputs with PIXELS. */
#define PLACES(BODY) \
  for (int64_t image = begin; image < end; image++) \
    for (int64_t oy = 0; oy < s->y.out; oy++) \
      for (int64_t ox = 0; ox < s->x.out; ox++) { \
        INSIDE(y, oy) \
        INSIDE(x, ox) \
        int64_t o = ((image * s->y.out + oy) * s->x.out + ox) * s->c; \
        BODY \
      }
#define PIXELS \
  for (int64_t iy = y_from; iy < y_to; iy++) \
    for (int64_t ix = x_from, p = ((image * s->y.in + iy) * s->x.in + ix) * s->c; ix < x_to; ix++, p += s->c)

/* Channels that the gradient of a maximum takes at a time: `left` is what of theirs has not found its pixel yet. Masks,
 * not branches: 3.6 times as fast. */
enum { CHANNELS = 128 };

#define FIRST_HITS(T, WAS) \
  for (int64_t c = 0; c < w; c++) { \
    bool hit = x[c] == y[c]; \
    d[c] = (T)(WAS) + (hit ? left[c] : 0); \
    left[c] = hit ? 0 : left[c]; \
  }

#define MAX_POOL(S, T, LOWEST) \
  static void max_##S(void *arg, int64_t begin, int64_t end) { \
    const pool *s = arg; \
    const T *x = s->in; \
    T *to = s->to; \
    PLACES( \
      for (int64_t c = 0; c < s->c; c++) to[o + c] = LOWEST; \
      PIXELS for (int64_t c = 0; c < s->c; c++) to[o + c] = x[p + c] > to[o + c] || x[p + c] != x[p + c] ? x[p + c] \
        : to[o + c];) \
  }
#define POOL(S, T, LOWEST) \
  MAX_POOL(S, T, LOWEST) \
  static void max_grad_grad_##S(void *arg, int64_t begin, int64_t end) \
    {        /* from the first pixel that is the greatest */ \
    const pool *s = arg; \
    const T *x = s->in, *y = s->out, *d = s->dy; \
    T *to = s->to; \
    PLACES( \
      for (int64_t c = 0; c < s->c; c++) { \
        bool found = false; \
        PIXELS if (!found && x[p + c] == y[o + c]) { to[o + c] = d[p + c]; found = true; } \
      }) \
  } \
  static void max_grad_##S(void *arg, int64_t begin, int64_t end) \
    {        /* to the first pixel that is the greatest */ \
    const pool *s = arg; \
    T *to = s->to, left[CHANNELS]; \
    PLACES( \
      for (int64_t at = 0, w; at < s->c; at += w) { \
        w = s->c - at < CHANNELS ? s->c - at : CHANNELS; \
        const T *restrict y = (const T *)s->out + o + at; \
        memcpy(left, (const T *)s->dy + o + at, (size_t)w * sizeof(T)); \
        PIXELS { \
          const T *restrict x = (const T *)s->in + p + at; \
          T *restrict d = to + p + at; \
          if (s->tiles) FIRST_HITS(T, 0) else FIRST_HITS(T, d[c]) \
        } \
      }) \
  } \
  static void average_##S(void *arg, int64_t begin, int64_t end) {         /* of the pixels that are there */ \
    const pool *s = arg; \
    const T *x = s->in; \
    T *to = s->to; \
    PLACES( \
      T count = (T)((y_to - y_from) * (x_to - x_from)); \
      for (int64_t c = 0; c < s->c; c++) to[o + c] = 0; \
      PIXELS for (int64_t c = 0; c < s->c; c++) to[o + c] += x[p + c]; \
      for (int64_t c = 0; c < s->c; c++) to[o + c] /= count;) \
  } \
  static void average_grad_##S(void *arg, int64_t begin, int64_t end) { \
    const pool *s = arg; \
    const T *dy = s->dy; \
    T *to = s->to; \
    PLACES( \
      T count = (T)((y_to - y_from) * (x_to - x_from)); \
      PIXELS for (int64_t c = 0; c < s->c; c++) to[p + c] += dy[o + c] / count;) \
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

/* Runs fn over the images with these inputs (NULL: none), halves as floats. */
static int32_t run_pool(df_kernel *k, pool *s, df_range_fn f32, df_range_fn f64, const df_tensor *in,
                        const df_tensor *out, const df_tensor *dy, const int64_t *made) {
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
  if (y->size && !s->tiles) memset(s->to, 0, (size_t)(floats ? y->size * 4 : y->size * df_dtype_bytes(dtype)));
  s->in = data[0];
  s->out = data[1];
  s->dy = data[2];
  if (s->c) dfk_parallel(k, s->n, 1, dtype == DF_FLOAT64 ? f64 : f32, s);
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
  return code ? code : run_pool(k, &s, f32, f64, x, NULL, NULL, (int64_t[]){ s.n, s.y.out, s.x.out, s.c });
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
  return run_pool(k, &s, max_grad_f32, max_grad_f64, k->in[0], k->in[1], k->in[2], k->in[0]->dims);
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
  return run_pool(k, &s, max_grad_grad_f32, max_grad_grad_f64, k->in[0], k->in[1], k->in[2], k->in[1]->dims);
}

int32_t cpu_avg_pool_grad(df_kernel *k) {
  int64_t sizes[4];
  pool s;
  int32_t code = dfk_four_sizes(k, k->in[0], "orig_input_shape", sizes);
  if (!code) code = pool_of(k, &s, sizes);
  if (!code) code = check_pooled(k, &s, k->in[1], "grad");
  return code ? code : run_pool(k, &s, average_grad_f32, average_grad_f64, NULL, NULL, k->in[1], sizes);
}
