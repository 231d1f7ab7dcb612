/* half.h: float16 and bfloat16, the storage types: kernels convert to float32, compute, and convert back.
 *
 * Rounding is to nearest, ties to even; overflow gives an infinity, NaN stays NaN. From double or int64 the
 * value is rounded once (through a float rounded to odd, which keeps what the second rounding must know).
 */
#ifndef DFLOW_HALF_H
#define DFLOW_HALF_H
#include "../runtime/dflow.h"
#include <string.h>
#if defined(__F16C__) && defined(__AVX__)
#include <immintrin.h>
#endif

static inline uint32_t dfk_float_bits(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }
static inline float dfk_bits_float(uint32_t u) { float x; memcpy(&x, &u, 4); return x; }

static inline float dfk_bf16_to_float(uint16_t h) { return dfk_bits_float((uint32_t)h << 16); }
static inline uint16_t dfk_bf16_from_float(float x) {
  uint32_t u = dfk_float_bits(x);
  uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
  return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? (u >> 16 | 0x40) : rounded);
}

static inline float dfk_f16_to_float(uint16_t h) {
#if defined(__F16C__) && defined(__AVX__)
  return _cvtsh_ss(h);
#else
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;
  if (e == 31) return dfk_bits_float(sign | 0x7f800000 | m << 13);
  if (e) return dfk_bits_float(sign | (e + 112) << 23 | m << 13);
  float tiny = (float)m * 5.9604644775390625e-8f;   /* 2^-24 */
  return sign ? -tiny : tiny;
#endif
}
static inline uint16_t dfk_f16_from_float(float x) {
#if defined(__F16C__) && defined(__AVX__)
  return (uint16_t)_cvtss_sh(x, 0);
#else
  uint32_t u = dfk_float_bits(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
  if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));
  if (a >= 0x477ff000) return (uint16_t)(sign | 0x7c00);          /* 65520 and above */
  if (a >= 0x38800000) {                                           /* normal */
    a += 0xfff + (a >> 13 & 1);
    return (uint16_t)(sign | ((a >> 13) - (112 << 10)));
  }
  if (a < 0x33000000) return (uint16_t)sign;                       /* below half of the smallest */
  uint32_t m = (a & 0x7fffff) | 0x800000, shift = 126 - (a >> 23), kept = m >> shift, rest = m & ((1u << shift) - 1);
  uint32_t half = 1u << (shift - 1);
  return (uint16_t)(sign | (kept + (rest > half || (rest == half && (kept & 1)))));
#endif
}

/* The float next to x toward zero, with its last bit set unless it is x: rounding it again rounds x itself. */
static inline float dfk_odd_from_double(double x) {
  float f = (float)x;
  double back = (double)f;
  uint32_t u = dfk_float_bits(f);
  double size = x < 0 ? -x : x, found = back < 0 ? -back : back;
  u -= found > size;
  return dfk_bits_float(u | (found != size && size == size));
}
static inline float dfk_odd_from_int(int64_t x) {
  uint64_t u = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
  if (u >> 40) u = (u & ~(uint64_t)0xffff) | (uint64_t)((u & 0xffff) != 0) << 16;  /* now exact as a double */
  float f = dfk_odd_from_double((double)u);
  return x < 0 ? -f : f;
}
static inline uint16_t dfk_f16_from_double(double x)  { return dfk_f16_from_float(dfk_odd_from_double(x)); }
static inline uint16_t dfk_bf16_from_double(double x) { return dfk_bf16_from_float(dfk_odd_from_double(x)); }

/* Runs of elements. `dtype` is DF_FLOAT16 or DF_BFLOAT16; to and from do not overlap. */
static inline void dfk_half_to_floats(uint8_t dtype, float *to, const uint16_t *from, int64_t n) {
  int64_t i = 0;
  if (dtype == DF_BFLOAT16) {
    for (; i < n; i++) to[i] = dfk_bf16_to_float(from[i]);
    return;
  }
#if defined(__F16C__) && defined(__AVX__)
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i))));
#endif
  for (; i < n; i++) to[i] = dfk_f16_to_float(from[i]);
}
static inline void dfk_half_from_floats(uint8_t dtype, uint16_t *to, const float *from, int64_t n) {
  int64_t i = 0;
  if (dtype == DF_BFLOAT16) {
    for (; i < n; i++) to[i] = dfk_bf16_from_float(from[i]);
    return;
  }
#if defined(__F16C__) && defined(__AVX__)
  for (; i + 8 <= n; i += 8) _mm_storeu_si128((__m128i *)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), 0));
#endif
  for (; i < n; i++) to[i] = dfk_f16_from_float(from[i]);
}
static inline bool dfk_is_half(uint8_t dtype) { return dtype == DF_FLOAT16 || dtype == DF_BFLOAT16; }

/* One at a time, by the dtypes' names. */
static inline float    dfk_from_float16(uint16_t h)  { return dfk_f16_to_float(h); }
static inline uint16_t dfk_to_float16(float f)       { return dfk_f16_from_float(f); }
static inline float    dfk_from_bfloat16(uint16_t h) { return dfk_bf16_to_float(h); }
static inline uint16_t dfk_to_bfloat16(float f)      { return dfk_bf16_from_float(f); }
#endif
