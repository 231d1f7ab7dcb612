/* matrix.cuh: what the kernels of batches of matrices have in common. */
#ifndef DFLOW_CUDA_MATRIX_CUH
#define DFLOW_CUDA_MATRIX_CUH
#include "kernel.cuh"
#include "matrix.h"

enum { BLOCK = DFC_MATRIX_BLOCK };

DFK_ELEMENT double real_at(const void *x, int wide, int64_t i) {
  return wide ? ((const double *)x)[i] : (double)((const float *)x)[i];
}
DFK_ELEMENT void put_real(void *x, int wide, int64_t i, double v) {
  if (wide) ((double *)x)[i] = v; else ((float *)x)[i] = (float)v;
}
/* The sum over the block, known to all. */
DFK_ELEMENT double sum_of(double mine, double *part) {
  const int t = (int)threadIdx.x;
  part[t] = mine;
  __syncthreads();
  for (int half = BLOCK / 2; half; half >>= 1) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  const double all = part[0];
  __syncthreads();
  return all;
}
/* The greatest of the block's, known to all. */
DFK_ELEMENT double greatest_of(double mine, double *part) {
  const int t = (int)threadIdx.x;
  part[t] = mine;
  __syncthreads();
  for (int half = BLOCK / 2; half; half >>= 1) {
    if (t < half) part[t] = part[t + half] > part[t] ? part[t + half] : part[t];
    __syncthreads();
  }
  const double all = part[0];
  __syncthreads();
  return all;
}
/* A power of two that brings numbers up to `most` near 1, so that their squares are neither infinite nor nothing. */
DFK_ELEMENT double near_one(double most) {
  int e = 0;
  if (most > 0 && most - most == 0) frexp(most, &e);
  return ldexp(1.0, e > 1000 ? -1000 : e < -1000 ? 1000 : -e);
}
#endif
