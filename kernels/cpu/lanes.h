/* lanes.h: folding vec.h's vectors, and loading the ends of rows. */
#ifndef DFLOW_CPU_LANES_H
#define DFLOW_CPU_LANES_H
#include "vec.h"
#include <math.h>

static inline vf32 exp_f32(vf32 x) { return (vf32)SLEEF32(exp, u10)(x); }
static inline vf64 exp_f64(vf64 x) { return (vf64)SLEEF64(exp, u10)(x); }

/* The first n elements, 0 < n < LANES, the other lanes `rest`. */
#if defined(__AVX512F__)
static inline vf32 load_part_f32(const float *p, int64_t n, float rest) {
  return _mm512_mask_loadu_ps(splat_f32(rest), lanes_(n), p);
}
static inline vf64 load_part_f64(const double *p, int64_t n, double rest) {
  return _mm512_mask_loadu_pd(splat_f64(rest), (__mmask8)lanes_(n), p);
}
#else
static inline vf32 load_part_f32(const float *p, int64_t n, float rest) {
  vf32 v = splat_f32(rest);
  memcpy(&v, p, (size_t)n * 4);
  return v;
}
static inline vf64 load_part_f64(const double *p, int64_t n, double rest) {
  vf64 v = splat_f64(rest);
  memcpy(&v, p, (size_t)n * 8);
  return v;
}
#endif
/* The greater lanes; NaN where either is NaN. */
static inline vf32 max_f32(vf32 a, vf32 b) { return pick_f32((b > a) | (b != b), b, a); }
static inline vf64 max_f64(vf64 a, vf64 b) { return pick_f64((b > a) | (b != b), b, a); }
/* All lanes folded, pairwise. */
#if defined(__AVX512F__)
static inline float  sum_lanes_f32(vf32 v) { return _mm512_reduce_add_ps((__m512)v); }
static inline double sum_lanes_f64(vf64 v) { return _mm512_reduce_add_pd((__m512d)v); }
#else
static inline float sum_lanes_f32(vf32 v) {
  for (int w = LANES_f32 / 2; w; w /= 2) for (int i = 0; i < w; i++) v[i] += v[i + w];
  return v[0];
}
static inline double sum_lanes_f64(vf64 v) {
  for (int w = LANES_f64 / 2; w; w /= 2) for (int i = 0; i < w; i++) v[i] += v[i + w];
  return v[0];
}
#endif
static inline float max_lanes_f32(vf32 v) {
  float a[LANES_f32];
  memcpy(a, &v, sizeof v);
  for (int w = LANES_f32 / 2; w; w /= 2)
    for (int i = 0; i < w; i++) a[i] = a[i + w] > a[i] || a[i + w] != a[i + w] ? a[i + w] : a[i];
  return a[0];
}
static inline double max_lanes_f64(vf64 v) {
  double a[LANES_f64];
  memcpy(a, &v, sizeof v);
  for (int w = LANES_f64 / 2; w; w /= 2)
    for (int i = 0; i < w; i++) a[i] = a[i + w] > a[i] || a[i + w] != a[i + w] ? a[i + w] : a[i];
  return a[0];
}
#endif
