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
/* A loop inside another one begins, beside no node; and is over: what still goes on has been cut off. */
DFC_KERNEL(k_begin, dfc_inside) {
  if (blockIdx.x || threadIdx.x) return;
  p.tally[DFC_TALLY_ON] = p.around[DFC_TALLY_ON];
  p.tally[DFC_TALLY_CUT] = 0;
}
DFC_KERNEL(k_end, dfc_inside) {
  if (blockIdx.x || threadIdx.x || !(p.tally[DFC_TALLY_ON] || p.tally[DFC_TALLY_CUT])) return;
  p.around[DFC_TALLY_ON] = 0;
  p.around[DFC_TALLY_CUT] = 1;
}
/* How often a predicate was true is counted, and in which iterations: what k_choose does beside choosing. */
DFC_KERNEL(k_count, dfc_choosing) {
  if (blockIdx.x || threadIdx.x || !p.tally[DFC_TALLY_ON]) return;
  const bool yes = *(const bool *)p.pred;
  p.tally[p.which] += yes;
  if (p.sides) p.sides[(p.at < 0 ? p.tally[DFC_TALLY_COUNT] - 1 : p.at) * p.width + p.which - DFC_TALLY_SIDES] = yes;
}
#define KEEP(bits, T) \
  DFC_KERNEL(k_keep_##bits, dfc_keeping) { if (*p.tally) DFC_EACH(i, p.n) ((T *)p.to)[i] = ((const T *)p.from)[i]; }
KEEP(8, uint8_t)
KEEP(64, uint64_t)

#define ELEMENT(bits, T) \
  DFC_KERNEL(k_fetch_##bits, dfc_element) { \
    const T *from = (const T *)(uintptr_t)p.where[0]; \
    DFC_EACH(i, p.n) ((T *)p.to)[i] = from[i]; \
  } \
  DFC_KERNEL(k_store_##bits, dfc_element) { \
    if (p.tally && !p.tally[DFC_TALLY_ON]) return; \
    T *to = (T *)(uintptr_t)p.where[0]; \
    const T *from = (const T *)(p.sum && p.where[1] ? p.sum : p.from); \
    DFC_EACH(i, p.n) to[i] = from[i]; \
  }
ELEMENT(8, uint8_t)
ELEMENT(16, uint16_t)
ELEMENT(32, uint32_t)
ELEMENT(64, uint64_t)

DFC_KERNEL(k_turn, dfc_turning) { DFC_EACH(i, p.n) p.to[i] = p.from[p.tally[DFC_TALLY_COUNT] * p.n + i]; }
