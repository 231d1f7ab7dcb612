/* float8.h: what the kernels that round a product's sides to 8 bits are given. */
#ifndef DFLOW_CUDA_FLOAT8_H
#define DFLOW_CUDA_FLOAT8_H
#include <stdint.h>

enum { DFC_FLOAT8_BLOCK = 256, DFC_FLOAT8_PARTS = 256, DFC_FLOAT8_MOST = 448 };      /* the greatest that there is */
/* z: `count` matrices of `rows` rows of k bytes each, of x's float32: element (r, i) of matrix c is at
 * c * step + r * row + i * column. scale: what each byte's number is multiplied by; part: `parts` floats, a block's
 * greatest magnitude each. */
typedef struct dfc_float8 {
  const float *x; uint8_t *z; float *scale, *part;
  int64_t count, rows, k, step, row, column, parts;
} dfc_float8;
#endif
