/* quantize.h: numbers in few bits: quantised and back, products of them, and floats rounded as if they were.
 * TensorFlow's meaning, mode by mode.
 */
#ifndef DFLOW_KERNELS_QUANTIZE_H
#define DFLOW_KERNELS_QUANTIZE_H
#include "window.h"

enum { DFK_MIN_COMBINED, DFK_MIN_FIRST, DFK_SCALED };

/* (input, min_range, max_range; T, mode, round_mode, narrow_range, axis, ensure_minimum_range) -> output, min, max.
 * A number that does not fit becomes the nearest bound, NaN the least one. */
int32_t ref_quantize(df_kernel *k);
/* (input, min_range, max_range; mode, narrow_range, axis) */
int32_t ref_dequantize(df_kernel *k);

/* (inputs; min, max, num_bits, narrow_range): the nearest of 2^num_bits numbers from min to max, one of them 0 */
int32_t ref_fake_quant(df_kernel *k);
int32_t ref_fake_quant_vars(df_kernel *k);         /* (inputs, min, max; num_bits, narrow_range) */
int32_t ref_fake_quant_grad(df_kernel *k);         /* (gradients, inputs; as above): where inputs lie in the range */
int32_t ref_fake_quant_vars_grad(df_kernel *k);    /* (gradients, inputs, min, max; …) -> for inputs, min, max */
int32_t ref_fake_quant_channels(df_kernel *k);     /* the same, with a range for each place of the last axis */
int32_t ref_fake_quant_channels_grad(df_kernel *k);
/* (input, input_min, input_max[, num_bits]) and (gradients, input, input_min, input_max) */
int32_t ref_quantize_and_dequantize_v2(df_kernel *k), ref_quantize_and_dequantize_v3(df_kernel *k);
int32_t ref_quantize_and_dequantize_grad(df_kernel *k);
/* fake.c: have gradients the inputs' shape? Are inputs `in` and `in` + 1 a number each, or have they one for each place
 * of x's last axis (how many there are)? False, or below 0: the error is filled. */
bool dfk_fake_one_shape(df_kernel *k, const df_tensor *dy, const df_tensor *x);
bool dfk_fake_range(df_kernel *k, int32_t in);
int64_t dfk_fake_ranges(df_kernel *k, int32_t in, const df_tensor *x);

/* What becomes of a sum of products in column j: sum * scale[j] + shift[j], times `steps`, as an integer of `dtype`; or
 * that number itself, as float32. shift is the bias, then also what `offset` adds in each column: what the integer 0 of
 * a stands for, in steps of a. */
typedef struct dfk_rescale { float *scale, *shift, offset, steps; uint8_t dtype; } dfk_rescale;
/* The shifts of n columns, the integers of b in which have these sums. */
void dfk_rescale_shifts(const dfk_rescale *r, const uint32_t *column_sum, int64_t n);

/* A product: m sums for each of n columns, of k products each, of the integers less those that stand for 0; they wrap.
 * a is a matrix, or its row i is what the window sees from its place i (the taps that are padded are zero_a). */
typedef struct dfk_quantized {
  int64_t m, n, k;
  int32_t zero_a, zero_b;
  bool    a_t, b_t;
  const dfk_conv    *window;     /* NULL: a is a matrix */
  const dfk_rescale *then;       /* NULL: the sums are the result */
} dfk_quantized;
/* (a, b, min_a, max_a, min_b, max_b; transpose_a, transpose_b) -> out, min_out, max_out */
int32_t ref_quantized_matmul(df_kernel *k), cpu_quantized_matmul(df_kernel *k);
/* (input, filter, min_input, max_input, min_filter, max_filter; strides, padding, dilations) -> the same */
int32_t ref_quantized_conv2d(df_kernel *k), cpu_quantized_conv2d(df_kernel *k);
/* (a, b[, bias], min_a, max_a, min_b, max_b, min_freezed_output, max_freezed_output; transpose_a, transpose_b,
 * input_quant_mode) -> out[, min_out, max_out]: fused with bias and requantising, or dequantising where out is float32;
 * and so of a convolution, whose range of the filter may be one for each channel (strides, padding, dilations,
 * padding_list). */
int32_t ref_quantized_matmul_fused(df_kernel *k), cpu_quantized_matmul_fused(df_kernel *k);
int32_t ref_quantized_conv2d_fused(df_kernel *k), cpu_quantized_conv2d_fused(df_kernel *k);
/* The kernels above but for the arithmetic, which makes y of k's inputs 0 and 1. */
typedef int32_t (*dfk_quantized_fn)(df_kernel *k, const dfk_quantized *p, df_tensor *y);
int32_t ref_quantized_sums(df_kernel *k, const dfk_quantized *p, df_tensor *y);
int32_t dfk_quantized_matmul(df_kernel *k, dfk_quantized_fn run);
int32_t dfk_quantized_conv2d(df_kernel *k, dfk_quantized_fn run);
int32_t dfk_quantized_matmul_fused(df_kernel *k, dfk_quantized_fn run);
int32_t dfk_quantized_conv2d_fused(df_kernel *k, dfk_quantized_fn run);

/* ---- requantize.c: between quantised tensors; all give the range of what they give ------------------------------ */
/* The least and the greatest integer of a quantised dtype. */
void dfk_quantized_bounds(int32_t dtype, double *low, double *high);
/* The integer that stands for a number in the range, and back, as TensorFlow's functions of numbers. */
int64_t dfk_quantized_of(int32_t dtype, float x, float min, float max);
float dfk_quantized_number(int32_t dtype, int32_t q, float min, float max);
/* Input i is one number, or (n > 1) n of them: its elements; NULL: the error is filled. */
const float *dfk_quantized_range(df_kernel *k, int32_t i, const char *name, int64_t n, int64_t *found);
int32_t ref_requantize(df_kernel *k);               /* (input, min, max, requested min, max) */
int32_t ref_requantization_range(df_kernel *k);     /* (input, min, max) -> min, max */
int32_t ref_quantize_down(df_kernel *k);            /* (input, min, max): the two above in one */
int32_t ref_quantized_relu(df_kernel *k), ref_quantized_relu6(df_kernel *k);   /* (features, min, max) */
int32_t ref_quantized_add(df_kernel *k);            /* (x, y, min_x, max_x, min_y, max_y); y's dims are x's last ones */
int32_t ref_quantized_max_pool(df_kernel *k), ref_quantized_avg_pool(df_kernel *k);
int32_t ref_quantized_concat(df_kernel *k);         /* (axis, values, mins, maxes) */
int32_t ref_quantized_reshape(df_kernel *k);        /* (tensor, shape, min, max) */
#endif
