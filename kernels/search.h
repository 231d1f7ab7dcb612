/* search.h: finding: distinct slices, places in sorted rows, boxes that do not overlap. */
#ifndef DFLOW_SEARCH_H
#define DFLOW_SEARCH_H
#include "kernel.h"
int32_t ref_unique_slices(df_kernel *k);    /* (x, axis) -> y, idx[, count] */
int32_t ref_lower_bound(df_kernel *k);      /* (sorted_inputs, values) */
int32_t ref_upper_bound(df_kernel *k);
int32_t cpu_lower_bound(df_kernel *k);
int32_t cpu_upper_bound(df_kernel *k);
int32_t ref_cross(df_kernel *k);            /* (a, b) */
int32_t ref_bucketize(df_kernel *k);        /* ref/bins.c: (input; boundaries) */
int32_t ref_dense_bincount(df_kernel *k);   /* (input, size, weights; binary_output) */
/* (indices, values, dense_shape, size, weights; binary_output) */
int32_t ref_sparse_bincount(df_kernel *k);
int32_t ref_ragged_bincount(df_kernel *k);  /* (splits, values, size, weights; binary_output) */
/* (boxes, scores, max_output_size[, iou_threshold[, score_threshold]]; iou_threshold or pad_to_max_output_size) */
int32_t ref_non_max_suppression(df_kernel *k);
/* (boxes, scores, max_output_size, iou_threshold, score_threshold, soft_nms_sigma; pad_to_max_output_size) */
int32_t ref_non_max_suppression_soft(df_kernel *k);
/* (boxes, scores, max_output_size_per_class, max_total_size, iou_threshold, score_threshold; pad_per_class,
 * clip_boxes) */
int32_t ref_combined_non_max_suppression(df_kernel *k);
/* How their versions begin (kernels/index.c). NULL: error is filled. */
df_tensor *dfk_bound_begin(df_kernel *k);
df_tensor *dfk_cross_begin(df_kernel *k);
typedef struct dfk_bins { double low, step; } dfk_bins;
df_tensor *dfk_histogram_begin(df_kernel *k, dfk_bins *b);      /* (values, value_range[2], nbins) */
#endif
