/* lanes.h: folding vec.h's vectors, and loading the ends of rows. */
#ifndef DFLOW_CPU_LANES_H
#define DFLOW_CPU_LANES_H
#include "exponential.h"
#include "vec.h"
#include <math.h>

static inline vf64 exp_f64(vf64 x) { return (vf64)SLEEF64(exp, u10)(x); }

/* The greater and the lesser lanes; NaN where either is NaN, a where both are zeros. A machine's instruction gives its
 * second operand for zeros and NaN, so b alone has to be looked at: half the instructions of two comparisons. */
#if defined(__AVX512F__)
#define EXTREME(NAME, V, OP, CMP, BLEND, W) \
  static inline V NAME(V a, V b) { \
    return (V)BLEND(CMP((W)b, (W)b, _CMP_UNORD_Q), (W)OP((W)b, (W)a), (W)b); \
  }
EXTREME(max_f32, vf32, _mm512_max_ps, _mm512_cmp_ps_mask, _mm512_mask_blend_ps, __m512)
EXTREME(min_f32, vf32, _mm512_min_ps, _mm512_cmp_ps_mask, _mm512_mask_blend_ps, __m512)
EXTREME(max_f64, vf64, _mm512_max_pd, _mm512_cmp_pd_mask, _mm512_mask_blend_pd, __m512d)
EXTREME(min_f64, vf64, _mm512_min_pd, _mm512_cmp_pd_mask, _mm512_mask_blend_pd, __m512d)
#elif defined(__AVX2__) && VEC_BYTES == 32
#define EXTREME(NAME, V, OP, CMP, BLEND, W) \
  static inline V NAME(V a, V b) { \
    return (V)BLEND((W)OP((W)b, (W)a), (W)b, CMP((W)b, (W)b, _CMP_UNORD_Q)); \
  }
EXTREME(max_f32, vf32, _mm256_max_ps, _mm256_cmp_ps, _mm256_blendv_ps, __m256)
EXTREME(min_f32, vf32, _mm256_min_ps, _mm256_cmp_ps, _mm256_blendv_ps, __m256)
EXTREME(max_f64, vf64, _mm256_max_pd, _mm256_cmp_pd, _mm256_blendv_pd, __m256d)
EXTREME(min_f64, vf64, _mm256_min_pd, _mm256_cmp_pd, _mm256_blendv_pd, __m256d)
#else
static inline vf32 max_f32(vf32 a, vf32 b) { return pick_f32((b > a) | (b != b), b, a); }
static inline vf32 min_f32(vf32 a, vf32 b) { return pick_f32((b < a) | (b != b), b, a); }
static inline vf64 max_f64(vf64 a, vf64 b) { return pick_f64((b > a) | (b != b), b, a); }
static inline vf64 min_f64(vf64 a, vf64 b) { return pick_f64((b < a) | (b != b), b, a); }
#endif
/* The greater lanes where neither is NaN. */
#if defined(__AVX512F__)
static inline vf32 greater_f32(vf32 a, vf32 b) { return (vf32)_mm512_max_ps((__m512)a, (__m512)b); }
static inline vf64 greater_f64(vf64 a, vf64 b) { return (vf64)_mm512_max_pd((__m512d)a, (__m512d)b); }
#else
static inline vf32 greater_f32(vf32 a, vf32 b) { return pick_f32(b > a, b, a); }
static inline vf64 greater_f64(vf64 a, vf64 b) { return pick_f64(b > a, b, a); }
#endif
/* The first n lanes, 0 in the others. */
static inline vf32 keep_f32(vf32 v, int64_t n) {
  vi32 lane;
  for (int i = 0; i < LANES_f32; i++) lane[i] = i;
  return (vf32)((vi32)v & (lane < (int32_t)n));
}
static inline vf64 keep_f64(vf64 v, int64_t n) {
  vi64 lane;
  for (int i = 0; i < LANES_f64; i++) lane[i] = i;
  return (vf64)((vi64)v & (lane < n));
}
/* 1 in lane i, 0 in the others. */
static inline vf32 one_at_f32(int64_t i) {
  vi32 lane;
  for (int q = 0; q < LANES_f32; q++) lane[q] = q;
  return (vf32)((vi32)splat_f32(1) & (lane == (int32_t)i));
}
static inline vf64 one_at_f64(int64_t i) {
  vi64 lane;
  for (int q = 0; q < LANES_f64; q++) lane[q] = q;
  return (vf64)((vi64)splat_f64(1) & (lane == i));
}
/* All lanes folded, pairwise. The greatest is NaN where any lane is. */
#if defined(__AVX512F__)
static inline float  sum_lanes_f32(vf32 v) { return _mm512_reduce_add_ps((__m512)v); }
static inline double sum_lanes_f64(vf64 v) { return _mm512_reduce_add_pd((__m512d)v); }
static inline float  max_lanes_f32(vf32 v) { return any_i32(v != v) ? NAN : _mm512_reduce_max_ps((__m512)v); }
static inline double max_lanes_f64(vf64 v) { return any_i64(v != v) ? NAN : _mm512_reduce_max_pd((__m512d)v); }
#else
#define FOLD_LANES(NAME, T, L, V, FOLD)                          \
  static inline T NAME(V v) {                                    \
    T a[L];                                                      \
    memcpy(a, &v, sizeof v);                                     \
    for (int w = L / 2; w; w /= 2)                               \
      for (int i = 0; i < w; i++) a[i] = FOLD(a[i], a[i + w]);   \
    return a[0];                                                 \
  }
#define FOLD_SUM(a, b) ((a) + (b))
#define FOLD_MAX(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#if VEC_BYTES == 32
static inline float sum_lanes_f32(vf32 v) {
  const __m128 two = _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
  const __m128 one = _mm_add_ps(two, _mm_movehl_ps(two, two));
  return _mm_cvtss_f32(_mm_add_ss(one, _mm_movehdup_ps(one)));
}
static inline double sum_lanes_f64(vf64 v) {
  const __m128d one = _mm_add_pd(_mm256_castpd256_pd128((__m256d)v), _mm256_extractf128_pd((__m256d)v, 1));
  return _mm_cvtsd_f64(_mm_add_sd(one, _mm_unpackhi_pd(one, one)));
}
#else
FOLD_LANES(sum_lanes_f32, float, LANES_f32, vf32, FOLD_SUM)
FOLD_LANES(sum_lanes_f64, double, LANES_f64, vf64, FOLD_SUM)
#endif
FOLD_LANES(max_lanes_f32, float, LANES_f32, vf32, FOLD_MAX)
FOLD_LANES(max_lanes_f64, double, LANES_f64, vf64, FOLD_MAX)
#endif
#endif
