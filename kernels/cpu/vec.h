/* vec.h: vectors as wide as the machine has them, and SLEEF's functions on them.
 *
 * vf32 and vf64 are GCC vector types: + - * / and comparisons work on them, comparisons give vi32 and vi64 lanes
 * of 0 or -1. SLEEF's `finz` functions give the same bits whatever the vector width, so a scalar computed as a
 * splat agrees with the same element in the middle of a tensor, here and on another machine with FMA.
 */
#ifndef DFLOW_VEC_H
#define DFLOW_VEC_H
#include <sleef.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define VEC_PASTE_(a, b, c, d) a##b##c##d
#define VEC_PASTE(a, b, c, d) VEC_PASTE_(a, b, c, d)
#if defined(__AVX512F__)
#define VEC_BYTES 64
#define SLEEF32(name, ulp) VEC_PASTE(Sleef_finz_, name, f16_, VEC_PASTE(ulp, avx512f, , ))
#define SLEEF64(name, ulp) VEC_PASTE(Sleef_finz_, name, d8_, VEC_PASTE(ulp, avx512f, , ))
#elif defined(__AVX2__) && defined(__FMA__)
#define VEC_BYTES 32
#define SLEEF32(name, ulp) VEC_PASTE(Sleef_finz_, name, f8_, VEC_PASTE(ulp, avx2, , ))
#define SLEEF64(name, ulp) VEC_PASTE(Sleef_finz_, name, d4_, VEC_PASTE(ulp, avx2, , ))
#elif defined(__aarch64__)
#define VEC_BYTES 16
#define SLEEF32(name, ulp) VEC_PASTE(Sleef_finz_, name, f4_, VEC_PASTE(ulp, advsimd, , ))
#define SLEEF64(name, ulp) VEC_PASTE(Sleef_finz_, name, d2_, VEC_PASTE(ulp, advsimd, , ))
#else
#define VEC_BYTES 16
#define SLEEF32(name, ulp) VEC_PASTE(Sleef_cinz_, name, f4_, VEC_PASTE(ulp, sse2, , ))
#define SLEEF64(name, ulp) VEC_PASTE(Sleef_cinz_, name, d2_, VEC_PASTE(ulp, sse2, , ))
#endif

typedef float   vf32 __attribute__((vector_size(VEC_BYTES)));
typedef double  vf64 __attribute__((vector_size(VEC_BYTES)));
typedef int32_t vi32 __attribute__((vector_size(VEC_BYTES)));
typedef int64_t vi64 __attribute__((vector_size(VEC_BYTES)));
enum { LANES_f32 = VEC_BYTES / 4, LANES_f64 = VEC_BYTES / 8 };

static inline vf32 splat_f32(float x)  { return x - (vf32){ 0 }; }   /* x - 0 keeps -0 and NaN */
static inline vf64 splat_f64(double x) { return x - (vf64){ 0 }; }
static inline vf32 load_f32(const float *p)  { vf32 v; memcpy(&v, p, sizeof v); return v; }
static inline vf64 load_f64(const double *p) { vf64 v; memcpy(&v, p, sizeof v); return v; }
static inline void store_f32(float *p, vf32 v)  { memcpy(p, &v, sizeof v); }
static inline void store_f64(double *p, vf64 v) { memcpy(p, &v, sizeof v); }
/* The first n elements, 0 < n < LANES, the other lanes `rest`; and the first n lanes to memory. With AVX2 a store goes
 * by halves: one by a mask takes as long as twelve. */
#if defined(__AVX512F__)
static inline __mmask16 lanes_(int64_t n) { return (__mmask16)((1u << n) - 1); }
static inline vf32 load_part_f32(const float *p, int64_t n, float rest) {
  return _mm512_mask_loadu_ps(splat_f32(rest), lanes_(n), p);
}
static inline vf64 load_part_f64(const double *p, int64_t n, double rest) {
  return _mm512_mask_loadu_pd(splat_f64(rest), (__mmask8)lanes_(n), p);
}
static inline void store_some_f32(float *p, vf32 v, int64_t n)  { _mm512_mask_storeu_ps(p, lanes_(n), v); }
static inline void store_some_f64(double *p, vf64 v, int64_t n) { _mm512_mask_storeu_pd(p, (__mmask8)lanes_(n), v); }
#elif VEC_BYTES == 32
static inline vf32 load_part_f32(const float *p, int64_t n, float rest) {
  const vi32 lane = (vi32){ 0, 1, 2, 3, 4, 5, 6, 7 } < (int32_t)n;
  return _mm256_blendv_ps(splat_f32(rest), _mm256_maskload_ps(p, (__m256i)lane), (__m256)lane);
}
static inline vf64 load_part_f64(const double *p, int64_t n, double rest) {
  const vi64 lane = (vi64){ 0, 1, 2, 3 } < n;
  return _mm256_blendv_pd(splat_f64(rest), _mm256_maskload_pd(p, (__m256i)lane), (__m256d)lane);
}
static inline void store_some_f32(float *p, vf32 v, int64_t n) {
  __m128 part = _mm256_castps256_ps128((__m256)v);
  if (n & 4) { _mm_storeu_ps(p, part); part = _mm256_extractf128_ps((__m256)v, 1); p += 4; }
  if (n & 2) { _mm_storel_pi((__m64 *)p, part); part = _mm_movehl_ps(part, part); p += 2; }
  if (n & 1) _mm_store_ss(p, part);
}
static inline void store_some_f64(double *p, vf64 v, int64_t n) {
  __m128d part = _mm256_castpd256_pd128((__m256d)v);
  if (n & 2) { _mm_storeu_pd(p, part); part = _mm256_extractf128_pd((__m256d)v, 1); p += 2; }
  if (n & 1) _mm_store_sd(p, part);
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
static inline void store_some_f32(float *p, vf32 v, int64_t n)  { memcpy(p, &v, (size_t)n * 4); }
static inline void store_some_f64(double *p, vf64 v, int64_t n) { memcpy(p, &v, (size_t)n * 8); }
#endif
/* The others 1: a number that no function below finds hard. */
static inline vf32 load_some_f32(const float *p, int64_t n)  { return load_part_f32(p, n, 1); }
static inline vf64 load_some_f64(const double *p, int64_t n) { return load_part_f64(p, n, 1); }
/* Lanes of a where m is -1, of b where it is 0. */
static inline vf32 pick_f32(vi32 m, vf32 a, vf32 b) { return (vf32)((m & (vi32)a) | (~m & (vi32)b)); }
static inline vf64 pick_f64(vi64 m, vf64 a, vf64 b) { return (vf64)((m & (vi64)a) | (~m & (vi64)b)); }
static inline vf32 size_f32(vf32 x) { return (vf32)((vi32)x & INT32_MAX); }   /* |x| */
static inline vf64 size_f64(vf64 x) { return (vf64)((vi64)x & INT64_MAX); }
/* Is any lane of a mask set? */
#if defined(__AVX512F__)
static inline bool any_i32(vi32 m) { return _mm512_test_epi32_mask((__m512i)m, (__m512i)m) != 0; }
static inline bool any_i64(vi64 m) { return _mm512_test_epi64_mask((__m512i)m, (__m512i)m) != 0; }
#elif VEC_BYTES == 32
static inline bool any_i64(vi64 m) { return !_mm256_testz_si256((__m256i)m, (__m256i)m); }
static inline bool any_i32(vi32 m) { return any_i64((vi64)m); }
#else
static inline bool any_i64(vi64 m) {
  int64_t any = 0;
  for (int32_t i = 0; i < LANES_f64; i++) any |= m[i];
  return any != 0;
}
static inline bool any_i32(vi32 m) { return any_i64((vi64)m); }
#endif
#endif
