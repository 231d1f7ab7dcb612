/* boxes.h: what the kernels that choose among boxes are given, as params.h has it for others. */
#ifndef DFLOW_CUDA_BOXES_H
#define DFLOW_CUDA_BOXES_H
#include <stdint.h>

enum { DFC_BOXES_BLOCK = 128 };
/* Boxes [n, 4] and scores [n] of that dtype; order: how the scores lie sorted, greatest first, NULL: one. chosen: at
 * most `most` of them, and behind these how many; alive: a byte for each. z, valid: what is made of it, `size` long. */
typedef struct dfc_boxes {
  const void *boxes, *scores; const int32_t *order;
  uint8_t *alive; int32_t *chosen; int32_t *z, *valid;
  int64_t n, most, size;
  double  limit, least;
  int32_t dtype, pad;
} dfc_boxes;
#endif
