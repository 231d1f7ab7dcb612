/* blocks.h: pixels of blocks moved to the batch or to the channels, and back. */
#ifndef DFLOW_BLOCKS_H
#define DFLOW_BLOCKS_H
#include "kernel.h"
/* (input, block_shape, paddings), (input, block_shape, crops) */
int32_t ref_space_to_batch(df_kernel *k), cpu_space_to_batch(df_kernel *k);
int32_t ref_batch_to_space(df_kernel *k), cpu_batch_to_space(df_kernel *k);
/* (input, paddings; block_size), (input, crops; block_size) */
int32_t ref_space_to_batch_2d(df_kernel *k), cpu_space_to_batch_2d(df_kernel *k);
int32_t ref_batch_to_space_2d(df_kernel *k), cpu_batch_to_space_2d(df_kernel *k);
/* (input; block_size, data_format) */
int32_t ref_space_to_depth(df_kernel *k), cpu_space_to_depth(df_kernel *k);
int32_t ref_depth_to_space(df_kernel *k), cpu_depth_to_space(df_kernel *k);

/* ---- how both versions begin (kernels/blocks.c). NULL: error is filled. ----
 *
 * A space tensor is [batch, space..., rest...]. Its batch tensor is [block... batch, space / block..., rest...]: the
 * pixel j block + k - begin of an axis lies at j in the part of the batch that k names, where begin is what is padded
 * in front (or cropped). */
typedef struct dfk_blocks {
  int32_t n;                                   /* axes of space */
  int64_t block[DF_MAX_RANK], begin[DF_MAX_RANK], end[DF_MAX_RANK];
  int64_t batch, rest, parts;                  /* of the space tensor; elements of a pixel; the product of the blocks */
  int64_t space[DF_MAX_RANK], small[DF_MAX_RANK];   /* of the space tensor; of the batch tensor */
} dfk_blocks;
df_tensor *dfk_blocks_begin(df_kernel *k, dfk_blocks *b, bool square, bool to_batch);      /* zeros */
/* [n, h s, w s, c] and [n, h, w, s s c]: the pixels of a block lie side by side in the channels. */
typedef struct dfk_depth { int64_t n, h, w, c, s; } dfk_depth;
df_tensor *dfk_depth_begin(df_kernel *k, dfk_depth *d, bool to_depth);
#endif
