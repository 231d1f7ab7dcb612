/* graph_conditionals.cu: kernels that tell a graph's conditional nodes whether to go on, and which side to take. They
 * call what lies in NVIDIA's device runtime, so this file alone is linked with that. One thread each.
 */
#include "kernel.cuh"
#include "loop.h"

/* Counts as k_decide; the WHILE node goes on until the predicate says no, or as often as it may. */
DFC_KERNEL(k_go_on, dfc_deciding) {
  if (blockIdx.x || threadIdx.x) return;
  const int64_t on = p.tally[DFC_TALLY_ON] && *(const bool *)p.pred;
  p.tally[DFC_TALLY_ON] = on;
  p.tally[DFC_TALLY_COUNT] += on;
  cudaGraphSetConditional(p.handle, on && p.tally[DFC_TALLY_COUNT] < p.tally[DFC_TALLY_MOST]);
}
/* A loop inside another one begins: its WHILE node has iterations where the loop around it goes on. */
DFC_KERNEL(k_begin_again, dfc_inside) {
  if (blockIdx.x || threadIdx.x) return;
  const bool on = p.around[DFC_TALLY_ON] != 0;
  p.tally[DFC_TALLY_ON] = on;
  p.tally[DFC_TALLY_CUT] = 0;
  cudaGraphSetConditional(p.handle, on && p.tally[DFC_TALLY_COUNT] < p.tally[DFC_TALLY_MOST]);
}
/* An IF node takes the side that the predicate names; how often that was the first is counted, and
 * in which iterations, where that is asked for. */
DFC_KERNEL(k_choose, dfc_choosing) {
  if (blockIdx.x || threadIdx.x) return;
  const bool yes = *(const bool *)p.pred;
  const bool on = p.tally[DFC_TALLY_ON] != 0;
  p.tally[p.which] += yes && on;
  if (p.sides && on)
    p.sides[(p.at < 0 ? p.tally[DFC_TALLY_COUNT] - 1 : p.at) * p.width + p.which - DFC_TALLY_SIDES] = yes;
  cudaGraphSetConditional(p.handle, yes);
}
