/* fake.cu: floats rounded as if they were quantised, and what comes back of them. Each thread moves its range itself so
 * that one of the numbers is 0: ranges are variables, which the host does not read. */
#include "block.cuh"

enum { BLOCK = 256 };

struct nudged { float min, max, scale, inverse, zero; bool none; };
DFC_INLINE nudged nudge(const dfc_faking &p, int64_t channel) {
  const float min = load<float>(p.min, channel), max = load<float>(p.max, channel), least = (float)p.narrow;
  nudged u;
  u.none = min == 0 && max == 0;
  u.scale = (max - min) / (p.most - least);
  const float from_min = least - min / u.scale;
  const float zero = from_min < least ? least : from_min > p.most ? p.most : roundf(from_min);
  u.min = (least - zero) * u.scale;
  u.max = (p.most - zero) * u.scale;
  u.inverse = 1 / u.scale;
  u.zero = roundf(-u.min * u.inverse);
  return u;
}

/* Of one range a NaN stays one; of many it is taken for what is too large. */
DFC_KERNEL(k_fake_f32, dfc_faking) {
  DFC_EACH(i, p.n) {
    const nudged u = nudge(p, i % p.channels);
    const float x = ((const float *)p.x)[i], low = x < u.max ? x : u.max, within = low > u.min ? low : u.min;
    const float y = floorf((within - u.min) * u.inverse - u.zero + 0.5f) * u.scale;
    ((float *)p.y)[i] = u.none ? 0 : x != x && !p.many ? x : y;
  }
}
DFC_KERNEL(k_fake_back_f32, dfc_faking) {
  DFC_EACH(i, p.n) {
    const nudged u = nudge(p, i % p.channels);
    const float x = ((const float *)p.x)[i];
    ((float *)p.y)[i] = u.none || (x >= u.min && x <= u.max) ? ((const float *)p.dy)[i] : 0;
  }
}
/* What lies below a range goes to its lower end, what lies above it to the other: one block for each range. Of one
 * whose ends cross both take it. */
DFC_KERNEL(k_fake_ends_f32, dfc_faking) {
  DFC_SHARED double part[BLOCK];
  for (int64_t c = blockIdx.x; c < p.channels; c += gridDim.x) {
    const nudged u = nudge(p, c);
    double below = 0, above = 0;
    for (int64_t i = c + threadIdx.x * p.channels; i < p.n && !u.none; i += BLOCK * p.channels) {
      const float x = ((const float *)p.x)[i], dy = ((const float *)p.dy)[i];
      if (x < u.min) below += dy;
      if (x > u.max && !(p.many && x < u.min)) above += dy;
    }
    below = block_sum<BLOCK>(below, part);
    above = block_sum<BLOCK>(above, part);
    if (threadIdx.x) continue;
    ((float *)p.low)[c] = (float)below;
    ((float *)p.high)[c] = (float)above;
  }
}
