/* loop.cu: a loop, in a graph, that goes on until a predicate which the GPU computes says no: its iterations after that
 * leave all as it is. One thread counts; one for each word of what is kept. */
#include "kernel.cuh"
#include "loop.h"

DFC_KERNEL(k_decide, dfc_deciding) {
  if (blockIdx.x || threadIdx.x) return;
  const int64_t on = p.tally[DFC_TALLY_ON] && *(const bool *)p.pred;
  p.tally[DFC_TALLY_ON] = on;
  p.tally[DFC_TALLY_COUNT] += on;
}
#define KEEP(bits, T) \
  DFC_KERNEL(k_keep_##bits, dfc_keeping) { if (*p.tally) DFC_EACH(i, p.n) ((T *)p.to)[i] = ((const T *)p.from)[i]; }
KEEP(8, uint8_t)
KEEP(64, uint64_t)

DFC_KERNEL(k_turn, dfc_turning) { DFC_EACH(i, p.n) p.to[i] = p.from[p.tally[DFC_TALLY_COUNT] * p.n + i]; }
