/* matrix.h: what the kernels of batches of matrices are given, as params.h has it for others. */
#ifndef DFLOW_CUDA_MATRIX_H
#define DFLOW_CUDA_MATRIX_H
#include <stdint.h>

enum { DFC_MATRIX_BLOCK = 128 };
enum { DFC_MATRIX_SOLVE = 0, DFC_MATRIX_DETERMINANT, DFC_MATRIX_LOG_DETERMINANT };
/* `count` matrices a[m, n] and b[m, nrhs], float64 where `wide`, else float32; x and z: what is made. room: `per`
 * doubles for each block; wrong: a word for each, and one for all. place: where a and b are, of matrices that are
 * repeated. lower: the lower triangle counts, or rows may be swapped. */
typedef struct dfc_matrices {
  const void *a, *b;
  void       *x, *z, *v;
  double     *room;
  int32_t    *wrong;
  const int64_t *place;
  int64_t    count, per;
  int32_t    m, n, nrhs, wide, adjoint, lower, what, full;
} dfc_matrices;
#endif
