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
#endif
