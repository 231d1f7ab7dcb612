/* reduce.cuh: what reductions are made of: those of a reduction alone (reduce.cu), and of kernels that are written at
 * run time (fuse_source.c). A row of more than DFC_REDUCE_SHORT elements is reduced by a block: each thread takes every
 * DFC_REDUCE_BLOCK-th element, then they go pair by pair; a shorter one by one thread, from the first to the last. */
#ifndef DFLOW_CUDA_REDUCE_CUH
#define DFLOW_CUDA_REDUCE_CUH
#include "kernel.cuh"

template <class T> DFC_INLINE typename acc_of<T>::type neutral(int what) {
  switch (what) {
    case DFC_PROD: case DFC_ALL: return 1;
    case DFC_MAX: case DFC_LOG_SUM_EXP: return (typename acc_of<T>::type)lowest_of<T>();
    case DFC_MIN: return (typename acc_of<T>::type)highest_of<T>();
    default: return 0;
  }
}
/* Two partial results as one. */
template <class A> DFC_INLINE A both(int what, A a, A b) {
  switch (what) {
    case DFC_PROD: return wrap_mul(a, b);
    case DFC_MAX: case DFC_LOG_SUM_EXP: return b > a || b != b ? b : a;
    case DFC_MIN: return b < a || b != b ? b : a;
    case DFC_ALL: return a && b;
    case DFC_ANY: return a || b;
    default: return wrap_add(a, b);
  }
}
template <class A> DFC_INLINE A of_element(int what, A x) { return what == DFC_NORM ||
    what == DFC_HALF_SQUARES ? wrap_mul(x, x) : x; }
DFC_INLINE float e_to(float x) { return expf(x); }
DFC_INLINE double e_to(double x) { return exp(x); }
DFC_INLINE int64_t e_to(int64_t x) { return x; }
DFC_INLINE float ln(float x) { return logf(x); }
DFC_INLINE double ln(double x) { return log(x); }
DFC_INLINE int64_t ln(int64_t x) { return x; }
DFC_INLINE float root(float x) { return sqrtf(x); }
DFC_INLINE double root(double x) { return sqrt(x); }
DFC_INLINE int64_t root(int64_t x) { return x; }
template <class A> DFC_INLINE bool is_number(A x) { return x - x == 0; }
template <class A> DFC_INLINE A finished(int what, A a, int64_t n) {
  switch (what) {
    case DFC_MEAN: return a / (A)n;
    case DFC_NORM: return root(a);
    case DFC_HALF_SQUARES: return a / 2;
    default: return a;
  }
}

/* The partial results of a block as one, known to all its threads. */
template <class A> DFC_INLINE A block_reduce(int what, A mine, A *part) {
  const int t = (int)threadIdx.x;
  part[t] = mine;
  __syncthreads();
  for (int half = DFC_REDUCE_BLOCK / 2; half; half >>= 1) {
    if (t < half) part[t] = both(what, part[t], part[t + half]);
    __syncthreads();
  }
  const A all = part[0];
  __syncthreads();
  return all;
}
#endif
