/* window.c: convolutions and pooling, as loops over the places of the window whose innermost run is over channels.
 *
 * Rows of a result that different threads write are apart, and each element is summed in the order of the window's taps, so nothing
 * depends on how the work was split. Halves are computed as floats and rounded once.
 */
#include "../window.h"
#include "../half.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

bool dfk_slide_of(dfk_slide *s, const char *padding, int64_t before, int64_t after, char *why, size_t bytes) {
  int64_t reach = (s->window - 1) * s->dilation + 1, total;
  if (s->stride < 1 || s->dilation < 1 || s->window < 1) {
    snprintf(why, bytes, "a window of %lld with stride %lld and dilation %lld: expected 1 or more of each", (long long)s->window,
             (long long)s->stride, (long long)s->dilation);
    return false;
  }
  if (!strcmp(padding, "SAME")) {
    s->out = (s->in + s->stride - 1) / s->stride;
    total = (s->out - 1) * s->stride + reach - s->in;
    s->before = total > 0 ? total / 2 : 0;
    return true;
  }
  bool given = !strcmp(padding, "EXPLICIT");
  if (!given && strcmp(padding, "VALID")) {
    snprintf(why, bytes, "padding is %s but must be SAME, VALID or EXPLICIT", padding);
    return false;
  }
  s->before = given ? before : 0;
  total = s->in + (given ? before + after : 0);
  s->out = (total - reach + s->stride) / s->stride;             /* none where the window is a little too large, as in TensorFlow */
  if (s->out < 0) {
    snprintf(why, bytes, "a window that reaches over %lld does not fit into %lld", (long long)reach, (long long)total);
    return false;
  }
  return true;
}

/* ---- convolution ------------------------------------------------------------------------------------------- */
typedef struct conv {
  int64_t   n, ci, co;
  dfk_slide y, x;
  void     *in, *filter, *out;
} conv;

/* The taps of the window at (oy, ox) that lie inside: pixels p of the input and w of the filter, pixel o of the output. */
#define TAPS(T, oy, ox, BODY)                                                                                    \
  for (int64_t ky = 0; ky < c->y.window; ky++) {                                                                 \
    int64_t iy = (oy) * c->y.stride + ky * c->y.dilation - c->y.before;                                          \
    if (iy < 0 || iy >= c->y.in) continue;                                                                       \
    for (int64_t kx = 0; kx < c->x.window; kx++) {                                                               \
      int64_t ix = (ox) * c->x.stride + kx * c->x.dilation - c->x.before;                                        \
      if (ix < 0 || ix >= c->x.in) continue;                                                                     \
      T *p = (T *)c->in + ((image * c->y.in + iy) * c->x.in + ix) * c->ci;                                       \
      T *w = (T *)c->filter + (ky * c->x.window + kx) * c->ci * c->co;                                           \
      T *o = (T *)c->out + ((image * c->y.out + (oy)) * c->x.out + (ox)) * c->co;                                \
      BODY                                                                                                       \
    }                                                                                                            \
  }

#define CONVOLVE(S, T)                                                                                           \
  static void forward_##S(void *arg, int64_t begin, int64_t end) {        /* rows of the output */               \
    const conv *c = arg;                                                                                         \
    for (int64_t r = begin; r < end; r++)                                                                        \
      for (int64_t image = r / c->y.out, oy = r % c->y.out, ox = 0; ox < c->x.out; ox++)                         \
        TAPS(T, oy, ox,                                                                                          \
          for (int64_t i = 0; i < c->ci; i++)                                                                    \
            for (int64_t j = 0; j < c->co; j++) o[j] += p[i] * w[i * c->co + j];)                                \
  }                                                                                                              \
  static void to_input_##S(void *arg, int64_t begin, int64_t end) {       /* images */                           \
    const conv *c = arg;                                                                                         \
    for (int64_t image = begin; image < end; image++)                                                            \
      for (int64_t oy = 0; oy < c->y.out; oy++)                                                                  \
        for (int64_t ox = 0; ox < c->x.out; ox++)                                                                \
          TAPS(T, oy, ox,                                                                                        \
            for (int64_t i = 0; i < c->ci; i++) {                                                                \
              T sum = 0;                                                                                         \
              for (int64_t j = 0; j < c->co; j++) sum += o[j] * w[i * c->co + j];                                \
              p[i] += sum;                                                                                       \
            })                                                                                                   \
  }                                                                                                              \
  static void to_filter_##S(void *arg, int64_t begin, int64_t end) {      /* input channels */                   \
    const conv *c = arg;                                                                                         \
    for (int64_t image = 0; image < c->n; image++)                                                               \
      for (int64_t oy = 0; oy < c->y.out; oy++)                                                                  \
        for (int64_t ox = 0; ox < c->x.out; ox++)                                                                \
          TAPS(T, oy, ox,                                                                                        \
            for (int64_t i = begin; i < end; i++)                                                                \
              for (int64_t j = 0; j < c->co; j++) w[i * c->co + j] += p[i] * o[j];)                              \
  }
CONVOLVE(f32, float)
CONVOLVE(f64, double)

enum { STRIDES, PADDING, EXPLICIT, FORMAT, DILATIONS };
typedef enum side { OUTPUT, INPUT, FILTER } side;

static int32_t bad_format(df_kernel *k, int32_t attr) {
  return strcmp(dfk_string(k, attr), "NHWC")
           ? dfk_fail(k, DF_UNIMPLEMENTED, "data_format %s is not supported on the CPU: it must be NHWC", dfk_string(k, attr)) : DF_OK;
}

/* Geometry from the sizes of input and filter. */
static int32_t conv_of(df_kernel *k, conv *c, const int64_t *in, const int64_t *filter) {
  const df_attr *strides = &k->attrs[STRIDES], *pads = &k->attrs[EXPLICIT], *dilations = &k->attrs[DILATIONS];
  bool given = !strcmp(dfk_string(k, PADDING), "EXPLICIT");
  char why[200];
  int32_t code = bad_format(k, FORMAT);
  if (code) return code;
  if (strides->i != 4 || dilations->i != 4 || (given && pads->i != 8))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "strides and dilations have one number for each of the 4 axes, explicit_paddings two");
  if (strides->ints[0] != 1 || strides->ints[3] != 1 || dilations->ints[0] != 1 || dilations->ints[3] != 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "strides and dilations of the batch and of the channels must be 1");
  if (in[3] != filter[2])
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the input has %lld channels, the filter is for %lld", (long long)in[3], (long long)filter[2]);
  *c = (conv){ .n = in[0], .ci = in[3], .co = filter[3],
               .y = { .in = in[1], .window = filter[0], .stride = strides->ints[1], .dilation = dilations->ints[1] },
               .x = { .in = in[2], .window = filter[1], .stride = strides->ints[2], .dilation = dilations->ints[2] } };
  if (!dfk_slide_of(&c->y, dfk_string(k, PADDING), given ? pads->ints[2] : 0, given ? pads->ints[3] : 0, why, sizeof why) ||
      !dfk_slide_of(&c->x, dfk_string(k, PADDING), given ? pads->ints[4] : 0, given ? pads->ints[5] : 0, why, sizeof why))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%s", why);
  return DF_OK;
}

static int32_t four_axes(df_kernel *k, const df_tensor *t, const char *name) {
  char text[160];
  if (t->rank == 4) return DF_OK;
  return dfk_fail(k, DF_INVALID_ARGUMENT, "%s is %s: expected 4 axes", name, dfk_shape_text(t, text, sizeof text));
}
static int32_t four_sizes(df_kernel *k, const df_tensor *t, const char *name, int64_t *dims) {
  if (t->size != 4) return dfk_fail(k, DF_INVALID_ARGUMENT, "%s has %lld numbers: expected 4", name, (long long)t->size);
  for (int i = 0; i < 4; i++) dims[i] = dfk_index(t, i);
  for (int i = 0; i < 4; i++)
    if (dims[i] < 0) return dfk_fail(k, DF_INVALID_ARGUMENT, "%s has a negative number: %lld", name, (long long)dims[i]);
  return DF_OK;
}

static void run_conv(df_kernel *k, conv *c, side to, bool wide) {
  double each = (double)c->y.window * (double)c->x.window * (double)c->ci * (double)c->co, row = each * (double)c->x.out;
  if (to == OUTPUT) dfk_parallel(k, c->n * c->y.out, row >= 65536 ? 1 : (int64_t)(65536 / (row + 1)) + 1, wide ? forward_f64 : forward_f32, c);
  else if (to == INPUT) dfk_parallel(k, c->n, 1, wide ? to_input_f64 : to_input_f32, c);
  else dfk_parallel(k, c->ci, 8, wide ? to_filter_f64 : to_filter_f32, c);
}

/* One of the three tensors is made of the other two; `made` has its dims. */
static int32_t convolve(df_kernel *k, conv *c, side to, const df_tensor *in, const df_tensor *filter, const df_tensor *out, const int64_t *made) {
  const df_tensor *given[3] = { out, in, filter };
  uint8_t dtype = k->out_dtype[0];
  df_tensor *y = dfk_out(k, 0, dtype, 4, made);
  if (!y) return k->error->code;
  bool half = dfk_is_half(dtype);
  int64_t width = dtype == DF_FLOAT64 ? 8 : 4, total = 0;
  given[to] = y;
  float *floats = NULL, *at;
  void *data[3];
  for (int i = 0; i < 3; i++) { data[i] = given[i]->data; total += given[i]->size; }
  if (half) {
    if (!(floats = at = dfk_scratch(k, total * 4 + 4))) return k->error->code;
    for (int i = 0; i < 3; at += given[i++]->size) {
      data[i] = at;
      if (i != (int)to) dfk_half_to_floats(dtype, at, given[i]->data, given[i]->size);
    }
  }
  if (y->size) memset(data[to], 0, (size_t)(y->size * width));
  c->out = data[OUTPUT];
  c->in = data[INPUT];
  c->filter = data[FILTER];
  if (y->size && total) run_conv(k, c, to, dtype == DF_FLOAT64);
  if (half) dfk_half_from_floats(dtype, y->data, data[to], y->size);
  dfk_free(floats);
  return DF_OK;
}

int32_t cpu_conv2d(df_kernel *k) {
  const df_tensor *in = k->in[0], *filter = k->in[1];
  conv c;
  int32_t code = four_axes(k, in, "the input");
  if (!code) code = four_axes(k, filter, "the filter");
  if (!code) code = conv_of(k, &c, in->dims, filter->dims);
  return code ? code : convolve(k, &c, OUTPUT, in, filter, NULL, (int64_t[]){ c.n, c.y.out, c.x.out, c.co });
}

static int32_t check_out(df_kernel *k, const conv *c, const df_tensor *dy) {
  char text[160];
  bool fits = dy->rank == 4 && dy->dims[0] == c->n && dy->dims[1] == c->y.out && dy->dims[2] == c->x.out && dy->dims[3] == c->co;
  if (fits) return DF_OK;
  return dfk_fail(k, DF_INVALID_ARGUMENT, "out_backprop is %s but must be [%lld,%lld,%lld,%lld]", dfk_shape_text(dy, text, sizeof text),
                  (long long)c->n, (long long)c->y.out, (long long)c->x.out, (long long)c->co);
}

int32_t cpu_conv2d_backprop_input(df_kernel *k) {
  int64_t sizes[4];
  conv c;
  int32_t code = four_sizes(k, k->in[0], "input_sizes", sizes);
  if (!code) code = four_axes(k, k->in[1], "the filter");
  if (!code) code = conv_of(k, &c, sizes, k->in[1]->dims);
  if (!code) code = check_out(k, &c, k->in[2]);
  return code ? code : convolve(k, &c, INPUT, NULL, k->in[1], k->in[2], sizes);
}

int32_t cpu_conv2d_backprop_filter(df_kernel *k) {
  int64_t sizes[4];
  conv c;
  int32_t code = four_axes(k, k->in[0], "the input");
  if (!code) code = four_sizes(k, k->in[1], "filter_sizes", sizes);
  if (!code) code = conv_of(k, &c, k->in[0]->dims, sizes);
  if (!code) code = check_out(k, &c, k->in[2]);
  return code ? code : convolve(k, &c, FILTER, k->in[0], NULL, k->in[2], sizes);
}

/* ---- pooling ------------------------------------------------------------------------------------------------- */
typedef struct pool {
  int64_t   n, c;
  dfk_slide y, x;
  const void *in, *out, *dy;
  void     *to;
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

#define POOL(S, T, LOWEST) \
  static void max_##S(void *arg, int64_t begin, int64_t end) { \
    const pool *s = arg; \
    const T *x = s->in; \
    T *to = s->to; \
    PLACES( \
      for (int64_t c = 0; c < s->c; c++) to[o + c] = LOWEST; \
      PIXELS for (int64_t c = 0; c < s->c; c++) to[o + c] = x[p + c] > to[o + c] || x[p + c] != x[p + c] ? x[p + c] : to[o + c];) \
  } \
  static void max_grad_##S(void *arg, int64_t begin, int64_t end) {        /* to the first pixel that is the greatest */ \
    const pool *s = arg; \
    const T *x = s->in, *y = s->out, *dy = s->dy; \
    T *to = s->to; \
    PLACES( \
      for (int64_t c = 0; c < s->c; c++) { \
        int64_t first = -1; \
        PIXELS if (first < 0 && x[p + c] == y[o + c]) first = p + c; \
        if (first >= 0) to[first] += dy[o + c]; \
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

/* attrs: ksize, strides, padding, data_format */
static int32_t pool_of(df_kernel *k, pool *s, const int64_t *dims) {
  const df_attr *ksize = &k->attrs[0], *strides = &k->attrs[1];
  char why[200];
  int32_t code = bad_format(k, 3);
  if (code) return code;
  if (ksize->i != 4 || strides->i != 4) return dfk_fail(k, DF_INVALID_ARGUMENT, "ksize and strides have one number for each of the 4 axes");
  if (ksize->ints[0] != 1 || ksize->ints[3] != 1 || strides->ints[0] != 1 || strides->ints[3] != 1)
    return dfk_fail(k, DF_UNIMPLEMENTED, "pooling over the batch or the channels is not supported");
  *s = (pool){ .n = dims[0], .c = dims[3], .y = { .in = dims[1], .window = ksize->ints[1], .stride = strides->ints[1], .dilation = 1 },
               .x = { .in = dims[2], .window = ksize->ints[2], .stride = strides->ints[2], .dilation = 1 } };
  if (!dfk_slide_of(&s->y, dfk_string(k, 2), 0, 0, why, sizeof why) || !dfk_slide_of(&s->x, dfk_string(k, 2), 0, 0, why, sizeof why))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%s", why);
  return DF_OK;
}

/* Runs fn over the images with these inputs (NULL: none), halves as floats. */
static int32_t run_pool(df_kernel *k, pool *s, df_range_fn f32, df_range_fn f64, const df_tensor *in, const df_tensor *out, const df_tensor *dy,
                        const int64_t *made) {
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
  if (y->size) memset(s->to, 0, (size_t)(y->size * (dtype == DF_FLOAT64 ? 8 : 4)));
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
  bool fits = t->rank == 4 && t->dims[0] == s->n && t->dims[1] == s->y.out && t->dims[2] == s->x.out && t->dims[3] == s->c;
  if (fits) return DF_OK;
  return dfk_fail(k, DF_INVALID_ARGUMENT, "%s is %s but must be [%lld,%lld,%lld,%lld]", name, dfk_shape_text(t, text, sizeof text), (long long)s->n,
                  (long long)s->y.out, (long long)s->x.out, (long long)s->c);
}

static int32_t pooled(df_kernel *k, df_range_fn f32, df_range_fn f64) {
  const df_tensor *x = k->in[0];
  pool s;
  int32_t code = four_axes(k, x, "the input");
  if (!code) code = pool_of(k, &s, x->dims);
  return code ? code : run_pool(k, &s, f32, f64, x, NULL, NULL, (int64_t[]){ s.n, s.y.out, s.x.out, s.c });
}
int32_t cpu_max_pool(df_kernel *k) { return pooled(k, max_f32, max_f64); }
int32_t cpu_avg_pool(df_kernel *k) { return pooled(k, average_f32, average_f64); }

int32_t cpu_max_pool_grad(df_kernel *k) {
  pool s;
  int32_t code = four_axes(k, k->in[0], "orig_input");
  if (!code) code = pool_of(k, &s, k->in[0]->dims);
  if (!code) code = check_pooled(k, &s, k->in[1], "orig_output");
  if (!code) code = check_pooled(k, &s, k->in[2], "grad");
  return code ? code : run_pool(k, &s, max_grad_f32, max_grad_f64, k->in[0], k->in[1], k->in[2], k->in[0]->dims);
}

int32_t cpu_avg_pool_grad(df_kernel *k) {
  int64_t sizes[4];
  pool s;
  int32_t code = four_sizes(k, k->in[0], "orig_input_shape", sizes);
  if (!code) code = pool_of(k, &s, sizes);
  if (!code) code = check_pooled(k, &s, k->in[1], "grad");
  return code ? code : run_pool(k, &s, average_grad_f32, average_grad_f64, NULL, NULL, k->in[1], sizes);
}
