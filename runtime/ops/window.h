/* window.h: the shapes of convolutions and pools, for the entries of ops/window.c and ops/quantized.c. */
#ifndef DFLOW_OPS_WINDOW_H
#define DFLOW_OPS_WINDOW_H
#include "op/op.h"
#include "kernels/window.h"

/* Output 0 of a convolution of inputs 0 and 1, of tensors of this rank, by its attributes. */
int32_t dfi_shape_conv(dfi_infer *c, dfk_conv_attrs a, int32_t rank, bool depthwise);
/* Output 0 of a pool of input 0, whose attributes begin with ksize, strides and padding. */
int32_t dfi_shape_pool(dfi_infer *c, int32_t rank, const char *format);
#endif
