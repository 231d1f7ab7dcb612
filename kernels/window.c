/* window.c: what all kernels that slide a window over images share: where the window stands, and what may be wrong. */
#include "window.h"
#include "half.h"
#include <stdio.h>
#include <string.h>

/* Twice as wide: attributes go to 2^63. */
typedef __int128 wide;

bool dfk_slide_of(dfk_slide *s, const char *padding, int64_t before, int64_t after, char *why, size_t bytes) {
  const wide reach = ((wide)s->window - 1) * s->dilation + 1;
  wide total, out;
  if (s->stride < 1 || s->dilation < 1 || s->window < 1) {
    snprintf(why, bytes, "a window of %lld with stride %lld and dilation %lld: expected 1 or more of each",
             (long long)s->window, (long long)s->stride, (long long)s->dilation);
    return false;
  }
  if (reach > INT64_MAX) {
    snprintf(why, bytes, "a window of %lld with dilation %lld reaches further than can be counted",
             (long long)s->window, (long long)s->dilation);
    return false;
  }
  if (!strcmp(padding, "SAME")) {
    out = ((wide)s->in + s->stride - 1) / s->stride;
    total = (out - 1) * s->stride + reach - s->in;
    s->out = (int64_t)out;
    s->before = total > 0 ? (int64_t)(total / 2) : 0;
    return true;
  }
  bool given = !strcmp(padding, "EXPLICIT");
  if (!given && strcmp(padding, "VALID")) {
    snprintf(why, bytes, "padding is %s but must be SAME, VALID or EXPLICIT", padding);
    return false;
  }
  s->before = given ? before : 0;
  total = s->in + (given ? (wide)before + after : 0);
  out = (total - reach + s->stride) / s->stride;     /* none where the window is a little too large, as in TensorFlow */
  if (total > INT64_MAX || out < 0) {
    if (total > INT64_MAX)
      snprintf(why, bytes, "%lld with paddings of %lld and %lld is more than can be counted", (long long)s->in,
               (long long)before, (long long)after);
    else
      snprintf(why, bytes, "a window that reaches over %lld does not fit into %lld", (long long)reach,
               (long long)total);
    return false;
  }
  s->out = (int64_t)out;
  return true;
}

/* ---- convolution: geometry, checks, halves as floats ------------------------------------------------------ */
enum { STRIDES, PADDING, EXPLICIT, FORMAT, DILATIONS };

int32_t dfk_bad_format(df_kernel *k, int32_t attr) {
  return strcmp(dfk_string(k, attr), "NHWC")
             ? dfk_fail(k, DF_UNIMPLEMENTED, "data_format %s is not supported on the CPU: it must be NHWC",
                        dfk_string(k, attr))
             : DF_OK;
}

/* Geometry from the sizes of input and filter; of a depthwise convolution each channel gives filter[3] channels. */
static int32_t conv_of(df_kernel *k, dfk_conv *c, const int64_t *in, const int64_t *filter, bool depthwise) {
  const df_attr *strides = &k->attrs[STRIDES], *pads = &k->attrs[EXPLICIT], *dilations = &k->attrs[DILATIONS];
  bool given = !strcmp(dfk_string(k, PADDING), "EXPLICIT");
  char why[200];
  int32_t code = dfk_bad_format(k, FORMAT);
  if (code) return code;
  if (strides->i != 4 || dilations->i != 4 || (given && pads->i != 8))
    return dfk_fail(k, DF_INVALID_ARGUMENT,
                    "strides and dilations have one number for each of the 4 axes, explicit_paddings two");
  if (strides->ints[0] != 1 || strides->ints[3] != 1 || dilations->ints[0] != 1 || dilations->ints[3] != 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "strides and dilations of the batch and of the channels must be 1");
  if (in[3] != filter[2])
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the input has %lld channels, the filter is for %lld", (long long)in[3],
                    (long long)filter[2]);
  *c = (dfk_conv){ .n = in[0], .ci = in[3], .co = depthwise ? in[3] * filter[3] : filter[3],
               .y = { .in = in[1], .window = filter[0], .stride = strides->ints[1], .dilation = dilations->ints[1] },
               .x = { .in = in[2], .window = filter[1], .stride = strides->ints[2], .dilation = dilations->ints[2] } };
  if (!dfk_slide_of(&c->y, dfk_string(k, PADDING), given ? pads->ints[2] : 0, given ? pads->ints[3] : 0, why,
                    sizeof why) ||
      !dfk_slide_of(&c->x, dfk_string(k, PADDING), given ? pads->ints[4] : 0, given ? pads->ints[5] : 0, why,
                    sizeof why))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%s", why);
  return DF_OK;
}

int32_t dfk_four_axes(df_kernel *k, const df_tensor *t, const char *name) {
  char text[160];
  if (t->rank == 4) return DF_OK;
  return dfk_fail(k, DF_INVALID_ARGUMENT, "%s is %s: expected 4 axes", name, dfk_shape_text(t, text, sizeof text));
}
int32_t dfk_four_sizes(df_kernel *k, const df_tensor *t, const char *name, int64_t *dims) {
  if (t->size != 4)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%s has %lld numbers: expected 4", name, (long long)t->size);
  for (int i = 0; i < 4; i++) dims[i] = dfk_index(t, i);
  for (int i = 0; i < 4; i++)
    if (dims[i] < 0)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "%s has a negative number: %lld", name, (long long)dims[i]);
  return DF_OK;
}

/* One of the three tensors is made of the other two; `made` has its dims. */
#ifdef DFK_DEVICE
static int32_t convolve(df_kernel *k, dfk_conv *c, dfk_side to, dfk_conv_fn run, const df_tensor *in,
                        const df_tensor *filter, const df_tensor *out, const int64_t *made) {
  const df_tensor *given[3] = { [DFK_OUTPUT] = out, [DFK_INPUT] = in, [DFK_FILTER] = filter };
  const df_tensor *y = given[to] = dfk_out(k, 0, k->out_dtype[0], 4, made);
  if (!y) return k->error->code;
  c->out = (void *)given[DFK_OUTPUT];
  c->in = (void *)given[DFK_INPUT];
  c->filter = (void *)given[DFK_FILTER];
  return y->size ? run(k, c, to, y->dtype == DF_FLOAT64) : DF_OK;
}
#else
static int32_t convolve(df_kernel *k, dfk_conv *c, dfk_side to, dfk_conv_fn run, const df_tensor *in,
                        const df_tensor *filter, const df_tensor *out, const int64_t *made) {
  const df_tensor *given[3] = { out, in, filter };
  uint8_t dtype = k->out_dtype[0];
  df_tensor *y = dfk_out(k, 0, dtype, 4, made);
  if (!y) return k->error->code;
  bool half = dfk_is_half(dtype);
  int64_t width = dtype == DF_FLOAT64 ? 8 : 4, total = 0;
  bool empty = false;
  given[to] = y;
  float *floats = NULL, *at;
  void *data[3];
  for (int i = 0; i < 3; i++) {
    data[i] = given[i]->data;
    total += given[i]->size;
    empty |= given[i]->size == 0;
  }
  if (half) {
    if (!(floats = at = dfk_scratch(k, total * 4 + 4))) return k->error->code;
    for (int i = 0; i < 3; at += given[i++]->size) {
      data[i] = at;
      if (i != (int)to) dfk_half_to_floats(dtype, at, given[i]->data, given[i]->size);
    }
  }
  if (y->size) memset(data[to], 0, (size_t)(y->size * width));
  c->out = data[DFK_OUTPUT];
  c->in = data[DFK_INPUT];
  c->filter = data[DFK_FILTER];
  int32_t code = empty ? DF_OK : run(k, c, to, dtype == DF_FLOAT64);
  if (half && !code) dfk_half_from_floats(dtype, y->data, data[to], y->size);
  dfk_free(floats);
  return code;
}
#endif

static int32_t forward_of(df_kernel *k, dfk_conv *c, bool depthwise, int64_t *dims) {
  const df_tensor *in = k->in[0], *filter = k->in[1];
  int32_t code = dfk_four_axes(k, in, "the input");
  if (!code) code = dfk_four_axes(k, filter, "the filter");
  if (!code) code = conv_of(k, c, in->dims, filter->dims, depthwise);
  if (code) return code;
  dims[0] = c->n; dims[1] = c->y.out; dims[2] = c->x.out; dims[3] = c->co;
  return DF_OK;
}
int32_t dfk_conv2d_of(df_kernel *k, dfk_conv *c, int64_t *dims) { return forward_of(k, c, false, dims); }

static int32_t forward(df_kernel *k, dfk_conv_fn run, bool depthwise) {
  dfk_conv c;
  int64_t dims[4];
  const int32_t code = forward_of(k, &c, depthwise, dims);
  return code ? code : convolve(k, &c, DFK_OUTPUT, run, k->in[0], k->in[1], NULL, dims);
}

static int32_t check_out(df_kernel *k, const dfk_conv *c, const df_tensor *dy) {
  char text[160];
  bool fits = dy->rank == 4 && dy->dims[0] == c->n && dy->dims[1] == c->y.out && dy->dims[2] == c->x.out &&
              dy->dims[3] == c->co;
  if (fits) return DF_OK;
  return dfk_fail(k, DF_INVALID_ARGUMENT, "out_backprop is %s but must be [%lld,%lld,%lld,%lld]",
                  dfk_shape_text(dy, text, sizeof text), (long long)c->n, (long long)c->y.out, (long long)c->x.out,
                  (long long)c->co);
}

static int32_t to_input(df_kernel *k, dfk_conv_fn run, bool depthwise) {
  int64_t sizes[4];
  dfk_conv c;
  int32_t code = dfk_four_sizes(k, k->in[0], "input_sizes", sizes);
  if (!code) code = dfk_four_axes(k, k->in[1], "the filter");
  if (!code) code = conv_of(k, &c, sizes, k->in[1]->dims, depthwise);
  if (!code) code = check_out(k, &c, k->in[2]);
  return code ? code : convolve(k, &c, DFK_INPUT, run, NULL, k->in[1], k->in[2], sizes);
}

static int32_t to_filter(df_kernel *k, dfk_conv_fn run, bool depthwise) {
  int64_t sizes[4];
  dfk_conv c;
  int32_t code = dfk_four_axes(k, k->in[0], "the input");
  if (!code) code = dfk_four_sizes(k, k->in[1], "filter_sizes", sizes);
  if (!code) code = conv_of(k, &c, k->in[0]->dims, sizes, depthwise);
  if (!code) code = check_out(k, &c, k->in[2]);
  return code ? code : convolve(k, &c, DFK_FILTER, run, k->in[0], NULL, k->in[2], sizes);
}

int32_t dfk_conv2d(df_kernel *k, dfk_conv_fn run)                      { return forward(k, run, false); }
int32_t dfk_conv2d_backprop_input(df_kernel *k, dfk_conv_fn run)       { return to_input(k, run, false); }
int32_t dfk_conv2d_backprop_filter(df_kernel *k, dfk_conv_fn run)      { return to_filter(k, run, false); }
int32_t dfk_depthwise_conv2d(df_kernel *k, dfk_conv_fn run)            { return forward(k, run, true); }
int32_t dfk_depthwise_backprop_input(df_kernel *k, dfk_conv_fn run)    { return to_input(k, run, true); }
int32_t dfk_depthwise_backprop_filter(df_kernel *k, dfk_conv_fn run)   { return to_filter(k, run, true); }

/* ---- pooling: geometry and checks ---------------------------------------------------------------------------- */
/* attrs: ksize, strides, padding, data_format */
static int32_t pool_of(df_kernel *k, dfk_pool *s, const int64_t *dims) {
  const df_attr *ksize = &k->attrs[0], *strides = &k->attrs[1];
  char why[200];
  int32_t code = dfk_bad_format(k, 3);
  if (code) return code;
  if (ksize->i != 4 || strides->i != 4)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "ksize and strides have one number for each of the 4 axes");
  if (ksize->ints[0] != 1 || ksize->ints[3] != 1 || strides->ints[0] != 1 || strides->ints[3] != 1)
    return dfk_fail(k, DF_UNIMPLEMENTED, "pooling over the batch or the channels is not supported");
  *s = (dfk_pool){ .n = dims[0],
               .c = dims[3],
               .y = { .in = dims[1], .window = ksize->ints[1], .stride = strides->ints[1], .dilation = 1 },
               .x = { .in = dims[2], .window = ksize->ints[2], .stride = strides->ints[2], .dilation = 1 } };
  if (!dfk_slide_of(&s->y, dfk_string(k, 2), 0, 0, why, sizeof why) ||
      !dfk_slide_of(&s->x, dfk_string(k, 2), 0, 0, why, sizeof why))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%s", why);
  return DF_OK;
}

static int32_t check_pooled(df_kernel *k, const dfk_pool *s, const df_tensor *t, const char *name) {
  char text[160];
  bool fits =
      t->rank == 4 && t->dims[0] == s->n && t->dims[1] == s->y.out && t->dims[2] == s->x.out && t->dims[3] == s->c;
  if (fits) return DF_OK;
  return dfk_fail(k, DF_INVALID_ARGUMENT, "%s is %s but must be [%lld,%lld,%lld,%lld]", name,
                  dfk_shape_text(t, text, sizeof text), (long long)s->n, (long long)s->y.out, (long long)s->x.out,
                  (long long)s->c);
}

int32_t dfk_pooled(df_kernel *k, dfk_pool_fn run) {
  const df_tensor *x = k->in[0];
  dfk_pool s;
  int32_t code = dfk_four_axes(k, x, "the input");
  if (!code) code = pool_of(k, &s, x->dims);
  return code ? code : run(k, &s, x, NULL, NULL, (int64_t[]){ s.n, s.y.out, s.x.out, s.c });
}

int32_t dfk_max_pool_grad(df_kernel *k, dfk_pool_fn run) {
  dfk_pool s;
  int32_t code = dfk_four_axes(k, k->in[0], "orig_input");
  if (!code) code = pool_of(k, &s, k->in[0]->dims);
  if (!code) code = check_pooled(k, &s, k->in[1], "orig_output");
  if (!code) code = check_pooled(k, &s, k->in[2], "grad");
  return code ? code : run(k, &s, k->in[0], k->in[1], k->in[2], k->in[0]->dims);
}

int32_t dfk_max_pool_grad_grad(df_kernel *k, dfk_pool_fn run) {
  dfk_pool s;
  char a[160], b[160];
  int32_t code = dfk_four_axes(k, k->in[0], "orig_input");
  if (!code) code = pool_of(k, &s, k->in[0]->dims);
  if (!code) code = check_pooled(k, &s, k->in[1], "orig_output");
  if (code) return code;
  if (k->in[2]->rank != 4 || memcmp(k->in[2]->dims, k->in[0]->dims, 4 * sizeof *k->in[0]->dims))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "grad is %s but must have the shape of orig_input, %s",
                    dfk_shape_text(k->in[2], a, sizeof a), dfk_shape_text(k->in[0], b, sizeof b));
  return run(k, &s, k->in[0], k->in[1], k->in[2], k->in[1]->dims);
}

int32_t dfk_avg_pool_grad(df_kernel *k, dfk_pool_fn run) {
  int64_t sizes[4];
  dfk_pool s;
  int32_t code = dfk_four_sizes(k, k->in[0], "orig_input_shape", sizes);
  if (!code) code = pool_of(k, &s, sizes);
  if (!code) code = check_pooled(k, &s, k->in[1], "grad");
  return code ? code : run(k, &s, NULL, NULL, k->in[1], sizes);
}
