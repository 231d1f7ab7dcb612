/* segment.h: folds of rows by ids that ascend, which TensorFlow calls segments. A segment that has no rows is 1 for
 * products and 0 for everything else. With indices the rows are those that they name. */
#ifndef DFLOW_SEGMENT_H
#define DFLOW_SEGMENT_H
#include "kernel.h"
/* (data, segment_ids) */
int32_t ref_segment_mean(df_kernel *k), ref_segment_prod(df_kernel *k), ref_segment_max(df_kernel *k),
    ref_segment_min(df_kernel *k);
/* (data, indices, segment_ids) */
int32_t ref_sparse_segment_sum(df_kernel *k), ref_sparse_segment_mean(df_kernel *k),
    ref_sparse_segment_sqrt_n(df_kernel *k);

/* How folds by segment begin (kernels/segment.c): ids and sizes are checked, output 0 is made; row: elements of a row.
 * NULL: error is filled. */
df_tensor *dfk_unsorted_begin(df_kernel *k, int64_t *row);             /* (data, segment_ids, num_segments) */
/* (data …) by ids; indices NULL: each row in its order */
df_tensor *dfk_segments_begin(df_kernel *k, const df_tensor *indices, const df_tensor *ids, int64_t *row);
df_tensor *dfk_segment_gather_begin(df_kernel *k, int64_t *row);       /* (rows, ids) */
df_tensor *dfk_bincount_begin(df_kernel *k);                           /* (arr, size, weights) */
#endif
