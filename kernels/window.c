/* window.c: what all kernels that slide a window share: where the window stands, and what may be wrong. */
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

/* ---- what may be wrong ------------------------------------------------------------------------------------- */

static int32_t check_last(df_kernel *k, const df_attr *format, int32_t rank) {
  if (dfk_channels_last(format->s)) return DF_OK;
  return dfk_fail(k, DF_UNIMPLEMENTED, "data_format %s is not supported on the CPU: it must be %s", format->s,
                  rank == 4 ? "NHWC" : "NDHWC");
}

static int32_t check_rank(df_kernel *k, const df_tensor *t, int32_t rank, const char *name) {
  char text[160];
  if (t->rank == rank) return DF_OK;
  return dfk_fail(k, DF_INVALID_ARGUMENT, "%s is %s: expected %d axes", name, dfk_shape_text(t, text, sizeof text),
                  rank);
}

/* One number for each of `rank` axes, those of the batch and of the channels being 1. */
static int32_t check_numbers(df_kernel *k, const df_attr *a, int32_t rank, const char *name, int32_t code) {
  if (a->i != rank)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%s has %lld numbers, one for each of the %d axes is expected", name,
                    (long long)a->i, rank);
  return a->ints[0] == 1 && a->ints[rank - 1] == 1
             ? DF_OK
             : dfk_fail(k, code, "%s of the batch and of the channels must be 1", name);
}

/* `rank` sizes from a tensor. */
static int32_t read_sizes(df_kernel *k, const df_tensor *t, int32_t rank, const char *name, int64_t *dims) {
  if (t->size != rank)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%s has %lld numbers: expected %d", name, (long long)t->size, rank);
  for (int32_t i = 0; i < rank; i++)
    if ((dims[i] = dfk_index(t, i)) < 0)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "%s has a negative number: %lld", name, (long long)dims[i]);
  return DF_OK;
}

/* Is t [dims[0], …]? */
static int32_t check_dims(df_kernel *k, const df_tensor *t, int32_t rank, const int64_t *dims, const char *name) {
  char is[160], must_be[160];
  if (t->rank == rank && !memcmp(t->dims, dims, (size_t)rank * sizeof *dims)) return DF_OK;
  df_tensor expected = { .dtype = t->dtype, .rank = (int8_t)rank };
  memcpy(expected.dims, dims, (size_t)rank * sizeof *dims);
  return dfk_fail(k, DF_INVALID_ARGUMENT, "%s is %s but must be %s", name, dfk_shape_text(t, is, sizeof is),
                  dfk_shape_text(&expected, must_be, sizeof must_be));
}

/* ---- convolution: geometry, checks, halves as floats ------------------------------------------------------ */

int64_t dfk_groups_of(int64_t channels, int64_t of_filter) {
  if (channels == of_filter) return 1;
  return of_filter > 0 && channels > 0 && channels % of_filter == 0 ? channels / of_filter : -1;
}

/* The rank of a convolution's tensors. */
static int32_t rank_of(const df_kernel *k) { return k->attrs[0].i == 5 ? 5 : 4; }

/* The window along the axes between batch and channels. */
static int32_t slides_of(df_kernel *k, dfk_conv *c, const dfk_conv_attrs *a, int32_t rank, const int64_t *in,
                         const int64_t *filter) {
  const bool given = a->pads && !strcmp(a->padding->s, "EXPLICIT");
  dfk_slide *slide[] = { &c->z, &c->y, &c->x };
  char why[200];
  if (given && a->pads->i != 2 * rank)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "explicit_paddings has %lld numbers, two for each of the %d axes are "
                    "expected", (long long)a->pads->i, rank);
  c->z = (dfk_slide){ .in = 1, .window = 1, .stride = 1, .dilation = 1, .out = 1 };
  for (int32_t d = 1; d < rank - 1; d++) {
    dfk_slide *s = slide[4 - rank + d];
    *s = (dfk_slide){ .in = in[d], .window = filter[d - 1], .stride = a->strides->ints[d],
                      .dilation = a->dilations->ints[d] };
    if (!dfk_slide_of(s, a->padding->s, given ? a->pads->ints[2 * d] : 0, given ? a->pads->ints[2 * d + 1] : 0, why,
                      sizeof why))
      return dfk_fail(k, DF_INVALID_ARGUMENT, "%s", why);
  }
  return DF_OK;
}

/* Geometry from the sizes of input and filter; of a depthwise convolution each channel gives as many channels as the
   filter's last size says. `dims`: those of the result. */
static int32_t conv_of(df_kernel *k, dfk_conv *c, const int64_t *in, const int64_t *filter, bool depthwise,
                       int64_t *dims) {
  const int32_t rank = rank_of(k);
  const dfk_conv_attrs a = dfk_conv_attrs_of(k->attrs, rank);
  const int64_t ci = in[rank - 1], of_filter = filter[rank - 2], last = filter[rank - 1];
  int32_t code = check_last(k, a.format, rank);
  if (!code) code = check_numbers(k, a.strides, rank, "strides", DF_INVALID_ARGUMENT);
  if (!code) code = check_numbers(k, a.dilations, rank, "dilations", DF_INVALID_ARGUMENT);
  if (code) return code;
  const int64_t groups = depthwise ? ci : dfk_groups_of(ci, of_filter);
  if (groups < 0 || (depthwise && ci != of_filter))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the input has %lld channels, the filter is for %lld", (long long)ci,
                    (long long)of_filter);
  if (!depthwise && last % groups)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the filter gives %lld channels, which its %lld groups do not divide",
                    (long long)last, (long long)groups);
  *c = (dfk_conv){ .n = in[0], .ci = ci, .co = depthwise ? ci * last : last, .groups = groups ? groups : 1 };
  code = slides_of(k, c, &a, rank, in, filter);
  dims[0] = c->n;
  dims[rank - 3] = c->y.out;
  dims[rank - 2] = c->x.out;
  dims[rank - 1] = c->co;
  if (rank == 5) dims[1] = c->z.out;
  return code;
}

/* One of the three tensors is made of the other two; `made` has its dims. */
#ifdef DFK_DEVICE
static int32_t convolve(df_kernel *k, dfk_conv *c, dfk_side to, dfk_conv_fn run, const df_tensor *in,
                        const df_tensor *filter, const df_tensor *out, const int64_t *made) {
  const df_tensor *given[3] = { [DFK_OUTPUT] = out, [DFK_INPUT] = in, [DFK_FILTER] = filter };
  const df_tensor *y = given[to] = dfk_out(k, 0, k->out_dtype[0], rank_of(k), made);
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
  df_tensor *y = dfk_out(k, 0, dtype, rank_of(k), made);
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
  if (y->size && (empty || to != DFK_OUTPUT)) memset(data[to], 0, (size_t)(y->size * width));
  c->out = data[DFK_OUTPUT];
  c->in = data[DFK_INPUT];
  c->filter = data[DFK_FILTER];
  c->weights = half ? NULL : filter;
  int32_t code = empty ? DF_OK : run(k, c, to, dtype == DF_FLOAT64);
  if (half && !code) dfk_half_from_floats(dtype, y->data, data[to], y->size);
  dfk_free(floats);
  return code;
}
#endif

int32_t dfk_conv2d_of(df_kernel *k, bool depthwise, dfk_conv *c, int64_t *dims) {
  const df_tensor *in = k->in[0], *filter = k->in[1];
  int32_t code = check_rank(k, in, rank_of(k), "the input");
  if (!code) code = check_rank(k, filter, rank_of(k), "the filter");
  return code ? code : conv_of(k, c, in->dims, filter->dims, depthwise, dims);
}

static int32_t forward(df_kernel *k, dfk_conv_fn run, bool depthwise) {
  dfk_conv c;
  int64_t dims[5];
  const int32_t code = dfk_conv2d_of(k, depthwise, &c, dims);
  return code ? code : convolve(k, &c, DFK_OUTPUT, run, k->in[0], k->in[1], NULL, dims);
}

static int32_t to_input(df_kernel *k, dfk_conv_fn run, bool depthwise) {
  int64_t sizes[5], dims[5];
  dfk_conv c;
  int32_t code = read_sizes(k, k->in[0], rank_of(k), "input_sizes", sizes);
  if (!code) code = check_rank(k, k->in[1], rank_of(k), "the filter");
  if (!code) code = conv_of(k, &c, sizes, k->in[1]->dims, depthwise, dims);
  if (!code) code = check_dims(k, k->in[2], rank_of(k), dims, "out_backprop");
  return code ? code : convolve(k, &c, DFK_INPUT, run, NULL, k->in[1], k->in[2], sizes);
}

static int32_t to_filter(df_kernel *k, dfk_conv_fn run, bool depthwise) {
  int64_t sizes[5], dims[5];
  dfk_conv c;
  int32_t code = check_rank(k, k->in[0], rank_of(k), "the input");
  if (!code) code = read_sizes(k, k->in[1], rank_of(k), "filter_sizes", sizes);
  if (!code) code = conv_of(k, &c, k->in[0]->dims, sizes, depthwise, dims);
  if (!code) code = check_dims(k, k->in[2], rank_of(k), dims, "out_backprop");
  return code ? code : convolve(k, &c, DFK_FILTER, run, k->in[0], NULL, k->in[2], sizes);
}

int32_t dfk_conv2d(df_kernel *k, dfk_conv_fn run)                      { return forward(k, run, false); }
int32_t dfk_conv2d_backprop_input(df_kernel *k, dfk_conv_fn run)       { return to_input(k, run, false); }
int32_t dfk_conv2d_backprop_filter(df_kernel *k, dfk_conv_fn run)      { return to_filter(k, run, false); }
int32_t dfk_depthwise_conv2d(df_kernel *k, dfk_conv_fn run)            { return forward(k, run, true); }
int32_t dfk_depthwise_backprop_input(df_kernel *k, dfk_conv_fn run)    { return to_input(k, run, true); }
int32_t dfk_depthwise_backprop_filter(df_kernel *k, dfk_conv_fn run)   { return to_filter(k, run, true); }

/* ---- pooling: geometry and checks ---------------------------------------------------------------------------- */
/* attrs: ksize, strides, padding, data_format; `dims`: of the input, `made`: of the result. */
static int32_t pool_of(df_kernel *k, dfk_pool *s, const int64_t *dims, int64_t *made) {
  const int32_t rank = rank_of(k);
  const df_attr *ksize = &k->attrs[0], *strides = &k->attrs[1];
  char why[200];
  int32_t code = check_last(k, &k->attrs[3], rank);
  if (!code) code = check_numbers(k, ksize, rank, "ksize", DF_UNIMPLEMENTED);
  if (!code) code = check_numbers(k, strides, rank, "strides", DF_UNIMPLEMENTED);
  if (code) return code;
  *s = (dfk_pool){ .n = dims[0], .c = dims[rank - 1], .rank = rank,
                   .z = { .in = 1, .window = 1, .stride = 1, .dilation = 1, .out = 1 } };
  made[0] = s->n;
  made[rank - 1] = s->c;
  dfk_slide *slide[] = { &s->z, &s->y, &s->x };
  for (int32_t d = 1; d < rank - 1; d++) {
    dfk_slide *t = slide[4 - rank + d];
    *t = (dfk_slide){ .in = dims[d], .window = ksize->ints[d], .stride = strides->ints[d], .dilation = 1 };
    if (!dfk_slide_of(t, dfk_string(k, 2), 0, 0, why, sizeof why)) return dfk_fail(k, DF_INVALID_ARGUMENT, "%s", why);
    made[d] = t->out;
  }
  return DF_OK;
}

int32_t dfk_pooled(df_kernel *k, dfk_pool_fn run) {
  const df_tensor *x = k->in[0];
  int64_t made[5];
  dfk_pool s;
  int32_t code = check_rank(k, x, rank_of(k), "the input");
  if (!code) code = pool_of(k, &s, x->dims, made);
  return code ? code : run(k, &s, x, NULL, NULL, made);
}

/* The pool of inputs 0 and 1. */
static int32_t max_pool_of(df_kernel *k, dfk_pool *s, int64_t *made) {
  int32_t code = check_rank(k, k->in[0], rank_of(k), "orig_input");
  if (!code) code = pool_of(k, s, k->in[0]->dims, made);
  return code ? code : check_dims(k, k->in[1], s->rank, made, "orig_output");
}

int32_t dfk_max_pool_grad(df_kernel *k, dfk_pool_fn run) {
  int64_t made[5];
  dfk_pool s;
  int32_t code = max_pool_of(k, &s, made);
  if (!code) code = check_dims(k, k->in[2], s.rank, made, "grad");
  return code ? code : run(k, &s, k->in[0], k->in[1], k->in[2], k->in[0]->dims);
}

int32_t dfk_max_pool_grad_grad(df_kernel *k, dfk_pool_fn run) {
  int64_t made[5];
  dfk_pool s;
  int32_t code = max_pool_of(k, &s, made);
  if (!code) code = check_dims(k, k->in[2], s.rank, k->in[0]->dims, "grad");
  return code ? code : run(k, &s, k->in[0], k->in[1], k->in[2], made);
}

int32_t dfk_avg_pool_grad(df_kernel *k, dfk_pool_fn run) {
  int64_t sizes[5], made[5];
  dfk_pool s;
  int32_t code = read_sizes(k, k->in[0], rank_of(k), "orig_input_shape", sizes);
  if (!code) code = pool_of(k, &s, sizes, made);
  if (!code) code = check_dims(k, k->in[1], s.rank, made, "grad");
  return code ? code : run(k, &s, NULL, NULL, k->in[1], sizes);
}
