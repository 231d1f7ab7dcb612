/* reduce.h: kernels that fold axes: reductions, scans along an axis, top_k and sums by segment.
 *
 * Where nothing is said to the contrary: integers wrap; float16 and bfloat16 are computed in float and rounded once;
 * max and min give NaN when any element is NaN; folding no elements gives the fold's neutral element (0, 1, lowest,
 * highest, true, false), a mean of no floats is NaN and a mean of no integers an error.
 */
#ifndef DFLOW_KERNELS_REDUCE_H
#define DFLOW_KERNELS_REDUCE_H
#include "kernel.h"

/* What (input, reduction_indices; keep_dims) asks for. */
typedef struct dfk_reduction {
  int32_t rank, out_rank;
  int64_t dims[DF_MAX_RANK], out_dims[DF_MAX_RANK];
  bool    reduced[DF_MAX_RANK];
  int64_t out_size, count;            /* results, and elements folded into each */
} dfk_reduction;

/* Reads the axes in input 1 for input 0, keep_dims from attribute 0. Returns DF_OK or a failure that names the axis. */
int32_t dfk_reduction_of(df_kernel *k, dfk_reduction *r);
/* The same, where only a scalar will do. */
int32_t dfk_scalar_axis_of(df_kernel *k, const df_tensor *axis, const df_tensor *of);

/* (input, reduction_indices; keep_dims) */
int32_t ref_sum(df_kernel *k),  cpu_sum(df_kernel *k);
int32_t ref_mean(df_kernel *k), cpu_mean(df_kernel *k);
int32_t ref_prod(df_kernel *k), cpu_prod(df_kernel *k);
int32_t ref_max(df_kernel *k),  cpu_max(df_kernel *k);
int32_t ref_min(df_kernel *k),  cpu_min(df_kernel *k);
int32_t ref_all(df_kernel *k),  cpu_all(df_kernel *k);
int32_t ref_any(df_kernel *k),  cpu_any(df_kernel *k);
int32_t ref_log_sum_exp(df_kernel *k),    cpu_log_sum_exp(df_kernel *k);
int32_t ref_euclidean_norm(df_kernel *k), cpu_euclidean_norm(df_kernel *k);

/* (input, dimension): the index of the first greatest (least) element; of the first NaN where there is one. */
int32_t ref_arg_max(df_kernel *k), cpu_arg_max(df_kernel *k);
int32_t ref_arg_min(df_kernel *k), cpu_arg_min(df_kernel *k);

/* (x, axis; exclusive, reverse) */
int32_t ref_cumsum(df_kernel *k),  cpu_cumsum(df_kernel *k);
int32_t ref_cumprod(df_kernel *k), cpu_cumprod(df_kernel *k);
/* (x, d, axis; reverse) -> s, beside.   s[i] = d[i] + x[i] s[i-1],  beside[i] = s[i-1], 0 at the first;
 * reverse, which is its adjoint:        s[i] = d[i] + x[i+1] s[i+1], beside[i] = s[i+1], 0 at the last. */
int32_t ref_linear_recurrence(df_kernel *k);

/* (input, k; sorted) -> values, indices along the last axis, greatest first, NaN greatest of all, ties by index. */
int32_t ref_top_k(df_kernel *k), cpu_top_k(df_kernel *k);
int32_t ref_in_top_k(df_kernel *k);                       /* (predictions, targets; k) */
int32_t ref_take_along(df_kernel *k);                     /* (params, indices): params[..., indices[..., j]] */
int32_t ref_put_along(df_kernel *k);                      /* (values, indices, n): its adjoint, [..., n] */

/* (data, segment_ids, num_segments); rows with negative ids are dropped. */
int32_t ref_unsorted_segment_sum(df_kernel *k),  cpu_unsorted_segment_sum(df_kernel *k);
int32_t ref_unsorted_segment_prod(df_kernel *k), cpu_unsorted_segment_prod(df_kernel *k);
int32_t ref_unsorted_segment_max(df_kernel *k),  cpu_unsorted_segment_max(df_kernel *k);
int32_t ref_unsorted_segment_min(df_kernel *k),  cpu_unsorted_segment_min(df_kernel *k);
int32_t ref_segment_sum(df_kernel *k);                    /* (data, segment_ids): ids ascend from 0 */
int32_t ref_segment_gather(df_kernel *k);                 /* (rows, ids): rows[ids], zeros for negative ids */
int32_t ref_bincount(df_kernel *k), cpu_bincount(df_kernel *k);      /* (arr, size, weights) */

int32_t ref_reduced_shape(df_kernel *k);                  /* (shape, axes): the shape with ones at the axes */
int32_t ref_reduced_count(df_kernel *k);  /* (shape, axes): the product of the dims at the axes, int64 */

/* How these begin (kernels/index.c): checked, outputs made. NULL or false: error is filled. */
typedef struct dfk_top { int64_t rows, n, count; df_tensor *values, *indices; } dfk_top;
bool dfk_top_k_begin(df_kernel *k, dfk_top *t);
df_tensor *dfk_in_top_k_begin(df_kernel *k);
df_tensor *dfk_take_along_begin(df_kernel *k);
df_tensor *dfk_put_along_begin(df_kernel *k);                     /* zeros */
#endif
