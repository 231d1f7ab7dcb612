/* window.h: what slides a window over images [n, h, w, c] or volumes [n, d, h, w, c]: convolutions and pooling.
 *
 * An image is a volume of one plane: its axis z has one place.
 */
#ifndef DFLOW_WINDOW_H
#define DFLOW_WINDOW_H
#include "chain.h"
#include <string.h>

/* Along one axis: how many places the window has, and how much is padded in front. */
typedef struct dfk_slide { int64_t in, window, stride, dilation, out, before; } dfk_slide;
/* padding is SAME, VALID or EXPLICIT (then before and after are given). False: `why` says what is wrong. */
bool dfk_slide_of(dfk_slide *s, const char *padding, int64_t before, int64_t after, char *why, size_t bytes);

/* How many groups a filter for so many channels makes of the input's; -1: they do not divide it. */
int64_t dfk_groups_of(int64_t channels, int64_t of_filter);

/* The attributes of a convolution of tensors of this rank, 4 or 5; volumes have no explicit paddings (NULL). */
typedef struct dfk_conv_attrs { const df_attr *strides, *padding, *pads, *format, *dilations; } dfk_conv_attrs;
static inline dfk_conv_attrs dfk_conv_attrs_of(const df_attr *a, int32_t rank) {
  return (dfk_conv_attrs){ a, a + 1, rank == 4 ? a + 2 : NULL, a + (rank == 4 ? 3 : 2), a + (rank == 4 ? 4 : 3) };
}
/* Are channels the last axis in this data_format? */
static inline bool dfk_channels_last(const char *format) { return format[strlen(format) - 1] == 'C'; }

/* A convolution: in [n, z.in, y.in, x.in, ci], filter [z.window, y.window, x.window, ci / groups, co], out
   [n, z.out, y.out, x.out, co], of floats or doubles: each group of co / groups output channels sees its ci / groups
   of the input alone. Compiled for a device (DFK_DEVICE) these are the tensors themselves, halves too. */
typedef struct dfk_conv {
  int64_t   n, ci, co, groups;
  dfk_slide z, y, x;
  void     *in, *filter, *out;
  const df_tensor *weights;      /* that the filter is the data of; NULL: it is not known */
  const dfk_chain_run *then;     /* what becomes of the output, element by element, in its place; NULL: nothing */
} dfk_conv;
/* Does the window see each place of this axis alone, one after the other? */
static inline bool dfk_slide_is_each(const dfk_slide *s) {
  return s->window == 1 && s->stride == 1 && !s->before && s->out == s->in;
}
static inline bool dfk_slide_is_one(const dfk_slide *s) { return s->in == 1 && dfk_slide_is_each(s); }
/* The same, where planes that the window sees alone are images, and images of one column are images of one row. */
static inline dfk_conv dfk_conv_flat(const dfk_conv *c) {
  dfk_conv flat = *c;
  if (dfk_slide_is_each(&c->z)) {
    flat.n *= c->z.in;
    flat.z.in = flat.z.out = 1;
  }
  if (c->x.in != 1 || c->x.window != 1 || c->x.out != 1 || c->x.before) return flat;
  flat.x = c->y;
  flat.y = c->x;
  return flat;
}
/* Places of the window, pixels of the input and taps of the filter. */
static inline int64_t dfk_conv_places(const dfk_conv *c) { return c->n * c->z.out * c->y.out * c->x.out; }
static inline int64_t dfk_conv_pixels(const dfk_conv *c) { return c->n * c->z.in * c->y.in * c->x.in; }
static inline int64_t dfk_conv_taps(const dfk_conv *c) { return c->z.window * c->y.window * c->x.window; }
typedef enum dfk_side { DFK_OUTPUT, DFK_INPUT, DFK_FILTER } dfk_side;
/* Makes the tensor `to` of the other two, none of which is empty; an input or a filter is all zeros before. DF_OK, or
   the error is filled. For a device: all of `to`, which is not empty, whatever was there; the others may be. */
typedef int32_t (*dfk_conv_fn)(df_kernel *k, const dfk_conv *c, dfk_side to, bool wide);
/* The kernels below but for the arithmetic: over images or volumes, as many axes as they have strides. */
int32_t dfk_conv2d(df_kernel *k, dfk_conv_fn run);
/* Its geometry and the dims of its result, of inputs that may be wrong. DF_OK, or the error is filled. */
int32_t dfk_conv2d_of(df_kernel *k, bool depthwise, dfk_conv *c, int64_t *dims);
/* The CPU's convolution of inputs 0 and 1, which are not empty, to `out`, and then what `then` says of it. */
int32_t cpu_convolve_then(df_kernel *k, const dfk_conv *geometry, bool wide, void *out, const dfk_chain_run *then);
int32_t dfk_conv2d_backprop_input(df_kernel *k, dfk_conv_fn run);
int32_t dfk_conv2d_backprop_filter(df_kernel *k, dfk_conv_fn run);
/* The same where each channel is a group: filter [y.window, x.window, ci, co / ci], which lies as the one above. */
int32_t dfk_depthwise_conv2d(df_kernel *k, dfk_conv_fn run);
int32_t dfk_depthwise_backprop_input(df_kernel *k, dfk_conv_fn run);
int32_t dfk_depthwise_backprop_filter(df_kernel *k, dfk_conv_fn run);

/* The CPU's, where each channel is a group. */
int32_t dfk_depthwise(df_kernel *k, const dfk_conv *c, dfk_side to, bool wide);

/* (input, filter; strides, padding, explicit_paddings, data_format, dilations), (input_sizes, filter, out_backprop; the
 * same) and (input, filter_sizes, out_backprop; the same). Of volumes there are no explicit_paddings. */
int32_t cpu_conv2d(df_kernel *k), ref_conv2d(df_kernel *k);
int32_t cpu_conv2d_backprop_input(df_kernel *k), ref_conv2d_backprop_input(df_kernel *k);
int32_t cpu_conv2d_backprop_filter(df_kernel *k), ref_conv2d_backprop_filter(df_kernel *k);
int32_t cpu_depthwise_conv2d(df_kernel *k), ref_depthwise_conv2d(df_kernel *k);
int32_t cpu_depthwise_backprop_input(df_kernel *k), ref_depthwise_backprop_input(df_kernel *k);
int32_t cpu_depthwise_backprop_filter(df_kernel *k), ref_depthwise_backprop_filter(df_kernel *k);

/* Pooling: in [n, z.in, y.in, x.in, c], out [n, z.out, y.out, x.out, c]; of tensors of this rank. */
typedef struct dfk_pool { int64_t n, c; dfk_slide z, y, x; int32_t rank; } dfk_pool;
/* Makes output 0, of dims `made`, of those of these tensors that are not NULL. */
typedef int32_t (*dfk_pool_fn)(df_kernel *k, const dfk_pool *p, const df_tensor *in, const df_tensor *out,
                               const df_tensor *dy, const int64_t *made);
/* The kernels below but for the arithmetic. */
int32_t dfk_pooled(df_kernel *k, dfk_pool_fn run);
int32_t dfk_max_pool_grad(df_kernel *k, dfk_pool_fn run);
int32_t dfk_max_pool_grad_grad(df_kernel *k, dfk_pool_fn run);
int32_t dfk_avg_pool_grad(df_kernel *k, dfk_pool_fn run);
int32_t cpu_max_pool(df_kernel *k);                   /* (input; ksize, strides, padding, data_format) */
int32_t cpu_max_pool_grad_grad(df_kernel *k);         /* (orig_input, orig_output, grad of the input; the same) */
int32_t cpu_max_pool_grad(df_kernel *k);              /* (orig_input, orig_output, grad; the same) */
int32_t cpu_avg_pool(df_kernel *k);                   /* (value; the same) */
int32_t cpu_avg_pool_grad(df_kernel *k);              /* (orig_input_shape, grad; the same) */
/* ref/patches.c: (images; ksizes, strides, rates, padding), and (input; ksize, strides, Targmax, padding,
 * include_batch_in_index) -> output, argmax */
int32_t ref_extract_patches(df_kernel *k), ref_max_pool_with_argmax(df_kernel *k);
/* ref/dilation.c: (input, filter[, out_backprop]; strides, rates, padding), and (input, grad, argmax; ksize, strides,
 * padding, include_batch_in_index) */
int32_t ref_dilation(df_kernel *k), ref_dilation_to_input(df_kernel *k), ref_dilation_to_filter(df_kernel *k);
int32_t ref_max_pool_argmax_grad(df_kernel *k);
#endif
