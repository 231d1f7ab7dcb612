/* matrix.cuh: what the kernels of batches of matrices have in common. */
#ifndef DFLOW_CUDA_MATRIX_CUH
#define DFLOW_CUDA_MATRIX_CUH
#include "block.cuh"
#include "matrix.h"

enum { BLOCK = DFC_MATRIX_BLOCK };

DFK_ELEMENT double real_at(const void *x, int wide, int64_t i) {
  return wide ? ((const double *)x)[i] : (double)((const float *)x)[i];
}
DFK_ELEMENT void put_real(void *x, int wide, int64_t i, double v) {
  if (wide) ((double *)x)[i] = v; else ((float *)x)[i] = (float)v;
}
/* The sum over the block, and the greatest of it, known to all. */
DFK_ELEMENT double sum_of(double mine, double *part) { return block_sum<BLOCK>(mine, part); }
DFK_ELEMENT double greatest_of(double mine, double *part) { return block_most<BLOCK>(mine, part); }
/* A power of two that brings numbers up to `most` near 1, so that their squares are neither infinite nor nothing. */
DFK_ELEMENT double near_one(double most) {
  int e = 0;
  if (most > 0 && most - most == 0) frexp(most, &e);
  return ldexp(1.0, e > 1000 ? -1000 : e < -1000 ? 1000 : -e);
}
#endif
