/* quantize.h: numbers in few bits: quantised and back, products of them, and floats rounded as if they were.
 * TensorFlow's meaning, mode by mode.
 */
#ifndef DFLOW_KERNELS_QUANTIZE_H
#define DFLOW_KERNELS_QUANTIZE_H
#include "kernel.h"

enum { DFK_MIN_COMBINED, DFK_MIN_FIRST, DFK_SCALED };
/* The mode that the attribute's text names; -1: none. */
int32_t dfk_quantize_mode(const char *mode);

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
/* fake.c: have gradients the inputs' shape? Are inputs `in` and `in` + 1 a number each, or have they one for each place
 * of x's last axis (how many there are)? False, or below 0: the error is filled. */
bool dfk_fake_one_shape(df_kernel *k, const df_tensor *dy, const df_tensor *x);
bool dfk_fake_range(df_kernel *k, int32_t in);
int64_t dfk_fake_ranges(df_kernel *k, int32_t in, const df_tensor *x);

/* (a, b, min_a, max_a, min_b, max_b; transpose_a, transpose_b) -> out, min_out, max_out: sums of products of the
 * integers less those that stand for 0; they wrap. */
int32_t ref_quantized_matmul(df_kernel *k), cpu_quantized_matmul(df_kernel *k);
/* How one begins: checked, outputs made, what stands for 0. NULL: error is filled. */
typedef struct dfk_quantized { int64_t m, n, k; int32_t zero_a, zero_b; bool a_t, b_t; } dfk_quantized;
df_tensor *dfk_quantized_begin(df_kernel *k, dfk_quantized *p);
#endif
