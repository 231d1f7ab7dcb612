/* block.cuh: what the threads of a block do together. */
#ifndef DFLOW_CUDA_BLOCK_CUH
#define DFLOW_CUDA_BLOCK_CUH
#include "kernel.cuh"

/* The sum over a block of that many threads, a power of two, known to all of them; pair by pair. part: shared, one for
 * each thread. */
template <int BLOCK> DFC_INLINE double block_sum(double mine, double *part) {
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
/* The same of the greatest; what is no number is passed over. */
template <int BLOCK, class T> DFC_INLINE T block_most(T mine, T *part) {
  const int t = (int)threadIdx.x;
  part[t] = mine;
  __syncthreads();
  for (int half = BLOCK / 2; half; half >>= 1) {
    if (t < half) part[t] = part[t + half] > part[t] ? part[t + half] : part[t];
    __syncthreads();
  }
  const T all = part[0];
  __syncthreads();
  return all;
}
#endif
