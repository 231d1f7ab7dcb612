/* boxes.cu: boxes that do not overlap much, the best first: one block goes through them in the order of their scores;
 * who is chosen strikes out those behind that it overlaps, a thread each. In double, as the reference. */
#include "kernel.cuh"
#include "boxes.h"

enum { BLOCK = DFC_BOXES_BLOCK, OF_F32 = 1, OF_F64 = 2, OF_B16 = 14 };       /* as in dflow.h */
DFK_ELEMENT double float_at(const void *x, int dtype, int64_t i) {
  switch (dtype) {
    case OF_F32: return ((const float *)x)[i];
    case OF_F64: return ((const double *)x)[i];
    case OF_B16: return (float)((const b16 *)x)[i];
    default: return (float)((const f16 *)x)[i];
  }
}
/* The area that two boxes (two opposite corners each) share, as a part of what they cover together. */
DFK_ELEMENT double overlap(const dfc_boxes &p, int64_t i, int64_t j) {
  double common = 1, one = 1, other = 1;
  for (int d = 0; d < 2; d++) {
    const double a = float_at(p.boxes, p.dtype, 4 * i + d), b = float_at(p.boxes, p.dtype, 4 * i + d + 2);
    const double c = float_at(p.boxes, p.dtype, 4 * j + d), e = float_at(p.boxes, p.dtype, 4 * j + d + 2);
    one *= fmax(a, b) - fmin(a, b);
    other *= fmax(c, e) - fmin(c, e);
    common *= fmax(fmin(fmax(a, b), fmax(c, e)) - fmax(fmin(a, b), fmin(c, e)), 0.0);
  }
  return one <= 0 || other <= 0 ? 0 : common / (one + other - common);
}
DFC_KERNEL(k_boxes_choose, dfc_boxes) {
  const int t = (int)threadIdx.x;
  int64_t chosen = 0;
  for (int64_t i = t; i < p.n; i += BLOCK)
    p.alive[i] = float_at(p.scores, p.dtype, p.order ? p.order[i] : i) > p.least;
  __syncthreads();
  for (int64_t i = 0; i < p.n && chosen < p.most; i++) {
    if (!p.alive[i]) continue;
    const int32_t box = p.order ? p.order[i] : (int32_t)i;
    if (t == 0) p.chosen[chosen] = box;
    chosen++;
    for (int64_t j = i + 1 + t; j < p.n; j += BLOCK)
      if (p.alive[j] && overlap(p, box, p.order ? p.order[j] : j) > p.limit) p.alive[j] = 0;
    __syncthreads();
  }
  if (t == 0) p.chosen[p.most] = (int32_t)chosen;
}
/* Behind those that were chosen are zeros. */
DFC_KERNEL(k_boxes_give, dfc_boxes) {
  const int32_t chosen = p.chosen[p.most];
  DFC_EACH(i, p.size) p.z[i] = i < chosen ? p.chosen[i] : 0;
  if (p.valid && blockIdx.x == 0 && threadIdx.x == 0) *p.valid = chosen;
}
