/* blocks.h: pixels of blocks moved to the batch or to the channels, and back. */
#ifndef DFLOW_BLOCKS_H
#define DFLOW_BLOCKS_H
#include "kernel.h"
int32_t ref_space_to_batch(df_kernel *k);      /* (input, block_shape, paddings) */
int32_t ref_batch_to_space(df_kernel *k);      /* (input, block_shape, crops) */
int32_t ref_space_to_batch_2d(df_kernel *k);   /* (input, paddings; block_size) */
int32_t ref_batch_to_space_2d(df_kernel *k);   /* (input, crops; block_size) */
int32_t ref_space_to_depth(df_kernel *k);      /* (input; block_size, data_format) */
int32_t ref_depth_to_space(df_kernel *k);
#endif
