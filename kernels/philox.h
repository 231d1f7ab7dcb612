/* philox.h: Philox4x32-10 and what makes numbers of its words, on one element: for the CPU's kernels (random.h) and
 * the GPU's. See random.h. */
#ifndef DFLOW_PHILOX_H
#define DFLOW_PHILOX_H
#include <math.h>
#include <stdint.h>
#include <string.h>
#ifndef DFK_DRAW
#define DFK_DRAW static inline __attribute__((always_inline))
#endif

typedef struct dfk_stream { uint32_t key[2]; uint32_t tag[2]; } dfk_stream;

/* One block. ref/random.c has Random123's own; this is the same, written out for the vectoriser. */
DFK_DRAW void dfk_philox(const dfk_stream *s, uint64_t block, uint32_t attempt, uint32_t w[4]) {
  uint32_t a = (uint32_t)block, b = (uint32_t)(block >> 32) | attempt << 16, c = s->tag[0], d = s->tag[1];
  uint32_t k0 = s->key[0], k1 = s->key[1];
  for (int r = 0; r < 10; r++) {
    uint64_t p = (uint64_t)0xD2511F53u * a, q = (uint64_t)0xCD9E8D57u * c;
    uint32_t x = (uint32_t)(q >> 32) ^ b ^ k0, z = (uint32_t)(p >> 32) ^ d ^ k1;
    a = x, b = (uint32_t)q, c = z, d = (uint32_t)p;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  w[0] = a, w[1] = b, w[2] = c, w[3] = d;
}

/* Words to numbers. Uniform numbers are in [0, 1) in steps of their dtype's last bit at 1/2. */
DFK_DRAW float  dfk_unit_float(uint32_t w) { return (float)(w >> 8) * 0x1p-24f; }
DFK_DRAW double dfk_unit_double(uint32_t low, uint32_t high) {
  return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53;
}
/* In [0, range), range > 0, from 64 bits: off by less than range / 2^64. */
DFK_DRAW uint64_t dfk_below(uint32_t low, uint32_t high, uint64_t range) {
  return (uint64_t)((unsigned __int128)((uint64_t)high << 32 | low) * range >> 64);
}

/* Box-Muller: two words to two independent normal numbers. The radius comes from u in (0, 1], the angle from
 * the bits of v: its top two are the quadrant, the others the place in it. */
DFK_DRAW void dfk_normal_pair(uint32_t u, uint32_t v, float *x, float *y) {
  float f = fmaf((float)u, 0x1p-32f, 0x1p-33f);         /* (float)2^32 rounds up to 1 at most */
  f = f > 1.0f ? 1.0f : f;
  uint32_t bits;
  memcpy(&bits, &f, 4);
  uint32_t shift = bits - 0x3f3504f3u;                  /* sqrt(1/2): the mantissa m is in [sqrt(1/2), sqrt(2)) */
  int32_t e = (int32_t)shift >> 23;
  bits = (shift & 0x007fffffu) + 0x3f3504f3u;
  float m;
  memcpy(&m, &bits, 4);
  float t = m - 1.0f, t2 = t * t;                       /* Cephes' logf */
  float p = 7.0376836292e-2f;
  p = fmaf(p, t, -1.1514610310e-1f);
  p = fmaf(p, t, 1.1676998740e-1f);
  p = fmaf(p, t, -1.2420140846e-1f);
  p = fmaf(p, t, 1.4249322787e-1f);
  p = fmaf(p, t, -1.6668057665e-1f);
  p = fmaf(p, t, 2.0000714765e-1f);
  p = fmaf(p, t, -2.4999993993e-1f);
  p = fmaf(p, t, 3.3333331174e-1f);
  float ln = fmaf((float)e, 0.693359375f, fmaf(t2, fmaf(p, t, -0.5f), fmaf((float)e, -2.12194440e-4f, t)));
  float r = sqrtf(ln * -2.0f);
  float q = (float)((int32_t)(v << 2) >> 2) * 0x1p-30f; /* [-1/2, 1/2) quarter turns, once the quadrant is taken off */
  float w = q * 1.57079632679f, w2 = w * w;             /* [-pi/4, pi/4) */
  float s = fmaf(fmaf(fmaf(-1.9515295891e-4f, w2, 8.3321608736e-3f), w2, -1.6666654611e-1f) * w2, w, w);
  float c = fmaf(fmaf(fmaf(2.443315711809948e-5f, w2, -1.388731625493765e-3f), w2, 4.166664568298827e-2f) * w2, w2,
                 fmaf(-0.5f, w2, 1.0f));
  uint32_t quadrant = (v + 0x20000000u) >> 30;          /* q counts from the middle of its quadrant */
  float a = quadrant & 1 ? s : c, b = quadrant & 1 ? c : s;
  a = (quadrant + 1) & 2 ? -a : a;
  b = quadrant & 2 ? -b : b;
  *x = r * a;
  *y = r * b;
}
/* The same in float64, from four words. */
DFK_DRAW void dfk_normal_pair_double(const uint32_t w[4], double *x, double *y) {
  double u = 1.0 - dfk_unit_double(w[0], w[1]), r = sqrt(-2.0 * log(u)),
         v = dfk_unit_double(w[2], w[3]) * 6.283185307179586;
  *x = r * cos(v);
  *y = r * sin(v);
}

#endif
