/* half.h: float16 and bfloat16 are for storage; arithmetic is done in float. Rounding is to nearest even, NaN stays NaN.
 * Used by ref and cpu kernels alike. */
#ifndef DFLOW_KERNELS_HALF_H
#define DFLOW_KERNELS_HALF_H
#include "kernel.h"
#include <string.h>
#ifdef __F16C__
#include <immintrin.h>
#endif

static inline float dfk_from_bfloat16(uint16_t h) {
  uint32_t u = (uint32_t)h << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}

static inline uint16_t dfk_to_bfloat16(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40);
  return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
}

static inline float dfk_from_float16(uint16_t h) {
#ifdef __F16C__
  return _cvtsh_ss(h);
#else
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, mantissa = h & 0x3ff, u;
  if (exponent == 31) {
    u = sign | 0x7f800000u | mantissa << 13;
  } else if (exponent) {
    u = sign | (exponent + 112) << 23 | mantissa << 13;
  } else {
    float f = (float)mantissa * 0x1p-24f;
    memcpy(&u, &f, 4);
    u |= sign;
  }
  float f;
  memcpy(&f, &u, 4);
  return f;
#endif
}

static inline uint16_t dfk_to_float16(float f) {
#ifdef __F16C__
  return _cvtss_sh(f, 0);
#else
  uint32_t u;
  memcpy(&u, &f, 4);
  uint32_t sign = (u >> 16) & 0x8000, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00 | ((a >> 13) & 0x3ff));
  if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00);          /* 65520 and up round to infinity */
  if (a < 0x38800000u) {                                           /* subnormal: units of 2^-24, rounded by the adder */
    float g;
    memcpy(&g, &a, 4);
    g = g * 0x1p24f + 0x1p23f;
    memcpy(&a, &g, 4);
    return (uint16_t)(sign | (a - 0x4b000000u));
  }
  a += 0xfff + ((a >> 13) & 1);
  return (uint16_t)(sign | ((a - 0x38000000u) >> 13));
#endif
}

static inline bool dfk_is_half(int32_t dtype) { return dtype == DF_FLOAT16 || dtype == DF_BFLOAT16; }

/* Arrays of n; dtype is DF_FLOAT16 or DF_BFLOAT16. */
static inline void dfk_half_to_floats(int32_t dtype, const void *from, float *to, int64_t n) {
  const uint16_t *h = (const uint16_t *)from;
  if (dtype == DF_FLOAT16) for (int64_t i = 0; i < n; i++) to[i] = dfk_from_float16(h[i]);
  else                     for (int64_t i = 0; i < n; i++) to[i] = dfk_from_bfloat16(h[i]);
}
static inline void dfk_floats_to_half(int32_t dtype, const float *from, void *to, int64_t n) {
  uint16_t *h = (uint16_t *)to;
  if (dtype == DF_FLOAT16) for (int64_t i = 0; i < n; i++) h[i] = dfk_to_float16(from[i]);
  else                     for (int64_t i = 0; i < n; i++) h[i] = dfk_to_bfloat16(from[i]);
}
#endif
