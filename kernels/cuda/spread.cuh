/* spread.cuh: operands of different shapes. */
#ifndef DFLOW_CUDA_SPREAD_CUH
#define DFLOW_CUDA_SPREAD_CUH
#include "kernel.cuh"

/* Where element i of the result finds its operands. */
DFK_ELEMENT void places(const dfc_spread &p, int64_t i, int64_t at[3], int count) {
  if (p.rank <= 1) {
    for (int o = 0; o < count; o++) at[o] = i * p.step[o][0];
    return;
  }
  for (int o = 0; o < count; o++) at[o] = 0;
  for (int d = (int)p.rank - 1; d >= 0; d--) {
    const int64_t next = i / p.dims[d], here = i - next * p.dims[d];
    for (int o = 0; o < count; o++) at[o] += here * p.step[o][d];
    i = next;
  }
}
#endif
