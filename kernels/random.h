/* random.h: random numbers, and their kernels.
 *
 * Philox4x32-10: block b of a stream is philox(counter, key), four 32-bit words.
 *   key      a mix of the graph's seed and the op's
 *   counter  words 0 and 1: the block's number b (48 bits) and, above it, an attempt (16 bits); words 2 and 3: dfk_tag,
 *            which differs between runs, frames and iterations
 * Element e of an output takes words of a block that follows from e alone, so the numbers depend neither on threads
 * nor on the engine or device. From words to numbers there are only exact conversions, correctly rounded operations
 * and explicit fma (or, in float64, libm), so ref and cpu agree to the bit.
 */
#ifndef DFLOW_RANDOM_H
#define DFLOW_RANDOM_H
#include "kernel.h"
#include <math.h>
#include <string.h>

typedef struct dfk_stream { uint32_t key[2]; uint32_t tag[2]; } dfk_stream;

static inline uint64_t dfk_mix(uint64_t x) {            /* splitmix64's finaliser */
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}
/* The stream of this call of an op with this seed. */
static inline dfk_stream dfk_stream_of(const df_kernel *k, int64_t seed) {
  uint64_t key = dfk_mix(dfk_mix((uint64_t)dfk_graph_seed(k) + 0x9e3779b97f4a7c15u) ^ (uint64_t)seed), tag = dfk_tag(k);
  return (dfk_stream){ { (uint32_t)key, (uint32_t)(key >> 32) }, { (uint32_t)tag, (uint32_t)(tag >> 32) } };
}

/* One block. ref/random.c has Random123's own; this is the same, written out for the vectoriser. */
static inline __attribute__((always_inline)) void dfk_philox(const dfk_stream *s, uint64_t block, uint32_t attempt,
                                                             uint32_t w[4]) {
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
static inline float  dfk_unit_float(uint32_t w) { return (float)(w >> 8) * 0x1p-24f; }
static inline double dfk_unit_double(uint32_t low, uint32_t high) {
  return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53;
}
/* In [0, range), range > 0, from 64 bits: off by less than range / 2^64. */
static inline uint64_t dfk_below(uint32_t low, uint32_t high, uint64_t range) {
  return (uint64_t)((unsigned __int128)((uint64_t)high << 32 | low) * range >> 64);
}

/* Box-Muller: two words to two independent normal numbers. The radius comes from u in (0, 1], the angle from
 * the bits of v: its top two are the quadrant, the others the place in it. */
static inline __attribute__((always_inline)) void dfk_normal_pair(uint32_t u, uint32_t v, float *x, float *y) {
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
static inline void dfk_normal_pair_double(const uint32_t w[4], double *x, double *y) {
  double u = 1.0 - dfk_unit_double(w[0], w[1]), r = sqrt(-2.0 * log(u)),
         v = dfk_unit_double(w[2], w[3]) * 6.283185307179586;
  *x = r * cos(v);
  *y = r * sin(v);
}

/* Elements of a block: four, or two in float64. */
static inline int64_t dfk_per_block(int32_t dtype) { return dtype == DF_FLOAT64 ? 2 : 4; }

int32_t ref_random_uniform(df_kernel *k), cpu_random_uniform(df_kernel *k);
int32_t ref_random_normal(df_kernel *k), cpu_random_normal(df_kernel *k);
int32_t ref_truncated_normal(df_kernel *k), cpu_truncated_normal(df_kernel *k);
int32_t ref_random_uniform_int(df_kernel *k), cpu_random_uniform_int(df_kernel *k);
int32_t ref_random_shuffle(df_kernel *k);
int32_t ref_multinomial(df_kernel *k);
/* ref/candidate.c: (true_classes int64[batch, num_true]; num_true, num_sampled, unique, range_max, seed)
   -> sampled int64[num_sampled], expected counts float32[batch, num_true] and float32[num_sampled] */
int32_t ref_uniform_candidates(df_kernel *k), ref_log_uniform_candidates(df_kernel *k);
int32_t ref_all_candidates(df_kernel *k);
/* (true_classes, sampled_candidates; num_true) -> indices int32[n], ids int64[n], weights float32[n] */
int32_t ref_accidental_hits(df_kernel *k);
/* The dims that input 0 (a shape) asks for; false: error is filled. */
bool dfk_random_dims(df_kernel *k, int32_t *rank, int64_t dims[DF_MAX_RANK]);

/* (shape, seed[2]; dtype): a function of these alone, with TensorFlow's values. ref/stateless.c. */
int32_t ref_stateless_uniform(df_kernel *k), ref_stateless_normal(df_kernel *k),
    ref_stateless_truncated_normal(df_kernel *k);
#endif
