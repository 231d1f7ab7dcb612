/* window.h: what slides a window over images [n, h, w, c]: convolutions and pooling. */
#ifndef DFLOW_WINDOW_H
#define DFLOW_WINDOW_H
#include "kernel.h"

/* Along one axis: how many places the window has, and how much is padded in front. */
typedef struct dfk_slide { int64_t in, window, stride, dilation, out, before; } dfk_slide;
/* padding is SAME, VALID or EXPLICIT (then before and after are given). False: `why` says what is wrong. */
bool dfk_slide_of(dfk_slide *s, const char *padding, int64_t before, int64_t after, char *why, size_t bytes);

/* Is data_format (this attribute) not NHWC? Is t not of rank 4? Four sizes from a tensor. DF_OK, or the error is
   filled. */
int32_t dfk_bad_format(df_kernel *k, int32_t attr);
int32_t dfk_four_axes(df_kernel *k, const df_tensor *t, const char *name);
int32_t dfk_four_sizes(df_kernel *k, const df_tensor *t, const char *name, int64_t *dims);

/* A convolution: in [n, y.in, x.in, ci], filter [y.window, x.window, ci, co], out [n, y.out, x.out, co], of floats or
   doubles. Compiled for a device (DFK_DEVICE) these are the tensors themselves, halves too. */
typedef struct dfk_conv {
  int64_t   n, ci, co;
  dfk_slide y, x;
  void     *in, *filter, *out;
} dfk_conv;
typedef enum dfk_side { DFK_OUTPUT, DFK_INPUT, DFK_FILTER } dfk_side;
/* Makes the tensor `to`, all zeros before, of the other two, none of which is empty. DF_OK, or the error is filled. For
   a device: all of `to`, which is not empty, whatever was there; the others may be. */
typedef int32_t (*dfk_conv_fn)(df_kernel *k, const dfk_conv *c, dfk_side to, bool wide);
/* The kernels below but for the arithmetic. */
int32_t dfk_conv2d(df_kernel *k, dfk_conv_fn run);
/* Its geometry and the dims of its result, of inputs that may be wrong. DF_OK, or the error is filled. */
int32_t dfk_conv2d_of(df_kernel *k, dfk_conv *c, int64_t *dims);
int32_t dfk_conv2d_backprop_input(df_kernel *k, dfk_conv_fn run);
int32_t dfk_conv2d_backprop_filter(df_kernel *k, dfk_conv_fn run);
/* The same where each channel is by itself: filter [y.window, x.window, ci, co / ci], channel i of in gives channels i
   * (co / ci) on. */
int32_t dfk_depthwise_conv2d(df_kernel *k, dfk_conv_fn run);
int32_t dfk_depthwise_backprop_input(df_kernel *k, dfk_conv_fn run);
int32_t dfk_depthwise_backprop_filter(df_kernel *k, dfk_conv_fn run);

/* (input, filter; strides, padding, explicit_paddings, data_format, dilations), (input_sizes, filter, out_backprop; the
 * same) and (input, filter_sizes, out_backprop; the same). */
int32_t cpu_conv2d(df_kernel *k), ref_conv2d(df_kernel *k);
int32_t cpu_conv2d_backprop_input(df_kernel *k), ref_conv2d_backprop_input(df_kernel *k);
int32_t cpu_conv2d_backprop_filter(df_kernel *k), ref_conv2d_backprop_filter(df_kernel *k);
int32_t cpu_depthwise_conv2d(df_kernel *k), ref_depthwise_conv2d(df_kernel *k);
int32_t cpu_depthwise_backprop_input(df_kernel *k), ref_depthwise_backprop_input(df_kernel *k);
int32_t cpu_depthwise_backprop_filter(df_kernel *k), ref_depthwise_backprop_filter(df_kernel *k);

/* Pooling: in [n, y.in, x.in, c], out [n, y.out, x.out, c]. */
typedef struct dfk_pool { int64_t n, c; dfk_slide y, x; } dfk_pool;
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
#endif
