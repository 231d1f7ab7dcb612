/* attention.h: what the kernels of attention are given: kernels/attention.h has the words. */
#ifndef DFLOW_CUDA_ATTENTION_H
#define DFLOW_CUDA_ATTENTION_H
#include "params.h"

/* blocks: of threads; bools: that is what the mask has. */
typedef struct dfc_attention {
  const void *q, *k, *v, *mask, *dy, *delta;
  void   *y, *sums, *dq, *dk, *dv;
  int64_t count, queries, keys, depth, width, blocks, lead, lead_dims[DFC_RANK], lead_step[DFC_RANK], row_step,
      key_step;
  double  scale;
  int32_t causal, bools;
} dfc_attention;
#endif
