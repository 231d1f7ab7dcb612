/* window.h: what slides a window over images [n, h, w, c]: convolutions and pooling. */
#ifndef DFLOW_WINDOW_H
#define DFLOW_WINDOW_H
#include "kernel.h"

/* Along one axis: how many places the window has, and how much is padded in front. */
typedef struct dfk_slide { int64_t in, window, stride, dilation, out, before; } dfk_slide;
/* padding is SAME, VALID or EXPLICIT (then before and after are given). False: `why` says what is wrong. */
bool dfk_slide_of(dfk_slide *s, const char *padding, int64_t before, int64_t after, char *why, size_t bytes);

int32_t cpu_conv2d(df_kernel *k);                     /* (input, filter; strides, padding, explicit_paddings, data_format, dilations) */
int32_t cpu_conv2d_backprop_input(df_kernel *k);      /* (input_sizes, filter, out_backprop; the same) */
int32_t cpu_conv2d_backprop_filter(df_kernel *k);     /* (input, filter_sizes, out_backprop; the same) */
int32_t cpu_max_pool(df_kernel *k);                   /* (input; ksize, strides, padding, data_format) */
int32_t cpu_max_pool_grad(df_kernel *k);              /* (orig_input, orig_output, grad; the same) */
int32_t cpu_avg_pool(df_kernel *k);                   /* (value; the same) */
int32_t cpu_avg_pool_grad(df_kernel *k);              /* (orig_input_shape, grad; the same) */
#endif
