/* kernel.cuh: how a kernel is written. Each takes one struct `p` of params.h; DFC_EACH(i, n) walks over n elements
 * with all threads of the grid. The same sources are compiled by nvcc for GPUs and by the host's C++ compiler for the
 * driver for tests (spec/cuda/strict.h), so they use what that has. */
#ifndef DFLOW_CUDA_KERNEL_CUH
#define DFLOW_CUDA_KERNEL_CUH
#include "params.h"
#ifdef __CUDACC__
#ifndef __CUDACC_RTC__                     /* which has no headers of the toolkit's to include */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif
#define DFC_KERNEL(name, P) extern "C" __global__ void name(const __grid_constant__ P p)
#define DFC_SHARED __shared__
#else
#include "strict.h"
#include "../half.h"
#endif
#define DFK_ELEMENT static __device__ __forceinline__
#define DFK_DRAW DFK_ELEMENT
#define DFC_INLINE __device__ __forceinline__             /* of templates, which may not be static */
#include <math.h>
#include <cmath>
#include "../expressions.h"

#define DFC_EACH(i, n) \
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (int64_t)gridDim.x * blockDim.x)

/* Storage types: computed in float, rounded once. */
struct f16 {
  uint16_t bits;
  f16() = default;
#ifdef __CUDACC_RTC__
  __device__ f16(float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
  __device__ operator float() const { float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits)); return x; }
#elif defined __CUDACC__
  __device__ f16(float x) : bits(__half_as_ushort(__float2half_rn(x))) {}
  __device__ operator float() const { return __half2float(__ushort_as_half(bits)); }
#else
  f16(float x) : bits(dfk_f16_from_float(x)) {}
  operator float() const { return dfk_f16_to_float(bits); }
#endif
};
struct b16 {
  uint16_t bits;
  b16() = default;
#ifdef __CUDACC_RTC__
  __device__ b16(float x) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
  __device__ operator float() const { return __int_as_float((int)bits << 16); }
#elif defined __CUDACC__
  __device__ b16(float x) : bits(__bfloat16_as_ushort(__float2bfloat16_rn(x))) {}
  __device__ operator float() const { return __bfloat162float(__ushort_as_bfloat16(bits)); }
#else
  b16(float x) : bits(dfk_bf16_from_float(x)) {}
  operator float() const { return dfk_bf16_to_float(bits); }
#endif
};

/* What a type is computed in: floats, and integers that wrap. */
template <class T> struct wide_of { typedef T type; };
template <> struct wide_of<f16> { typedef float type; };
template <> struct wide_of<b16> { typedef float type; };
template <class T> struct is_floating { enum { yes = 0 }; };
template <> struct is_floating<float> { enum { yes = 1 }; };
template <> struct is_floating<double> { enum { yes = 1 }; };

/* What elements are changed in: integers as int64; and reduced in, where long sums of floats keep their digits. */
template <class T> struct calc_of { typedef int64_t type; };
template <> struct calc_of<float> { typedef float type; };
template <> struct calc_of<double> { typedef double type; };
template <> struct calc_of<f16> { typedef float type; };
template <> struct calc_of<b16> { typedef float type; };
template <class T> struct acc_of { typedef int64_t type; };
template <> struct acc_of<float> { typedef double type; };
template <> struct acc_of<double> { typedef double type; };
template <> struct acc_of<f16> { typedef float type; };
template <> struct acc_of<b16> { typedef float type; };
DFC_INLINE int64_t wrap_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
DFC_INLINE int64_t wrap_sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
DFC_INLINE int64_t wrap_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
#define FLOATING(W) \
  DFC_INLINE W wrap_add(W a, W b) { return a + b; } \
  DFC_INLINE W wrap_sub(W a, W b) { return a - b; } \
  DFC_INLINE W wrap_mul(W a, W b) { return a * b; }
FLOATING(float)
FLOATING(double)

/* The least and the greatest value; of floats the infinities. In digits: what is compiled at run time has no
 * <stdint.h>. */
template <class T> DFC_INLINE T lowest_of();
template <class T> DFC_INLINE T highest_of();
#define DFC_ENDS(T, LOW, HIGH) \
  template <> DFC_INLINE T lowest_of<T>() { return (T)(LOW); } \
  template <> DFC_INLINE T highest_of<T>() { return (T)(HIGH); }
DFC_ENDS(float, -INFINITY, INFINITY)
DFC_ENDS(double, -INFINITY, INFINITY)
DFC_ENDS(f16, -INFINITY, INFINITY)
DFC_ENDS(b16, -INFINITY, INFINITY)
DFC_ENDS(int64_t, -9223372036854775807ll - 1, 9223372036854775807ll)
DFC_ENDS(int32_t, -2147483647 - 1, 2147483647)
DFC_ENDS(int8_t, -128, 127)
DFC_ENDS(uint8_t, 0, 255)
DFC_ENDS(int16_t, -32768, 32767)
DFC_ENDS(uint16_t, 0, 65535)
DFC_ENDS(uint32_t, 0, 4294967295u)
DFC_ENDS(uint64_t, 0, 18446744073709551615ull)
DFC_ENDS(bool, false, true)

template <class T> DFC_INLINE T from_bits(uint64_t bits) {
  union { uint64_t all; T one; } u;
  u.all = bits;
  return u.one;
}
template <> DFC_INLINE f16 from_bits<f16>(uint64_t bits) { f16 x; x.bits = (uint16_t)bits; return x; }
/* 16 bytes, whatever they mean. */
struct wide16 {
  uint64_t low, high;
  wide16() = default;
  __device__ wide16(uint64_t v) : low(v), high(0) {}
};
template <> DFC_INLINE wide16 from_bits<wide16>(uint64_t bits) { return wide16(bits); }
template <> DFC_INLINE b16 from_bits<b16>(uint64_t bits) { b16 x; x.bits = (uint16_t)bits; return x; }
/* Element i of integers of that dtype. */
DFC_INLINE int64_t int_at(const void *at, int dtype, int64_t i) {
  switch (dtype) {
    case DFC_OF_INT64: return ((const int64_t *)at)[i];
    case DFC_OF_UINT8: return ((const uint8_t *)at)[i];
    case DFC_OF_INT8: return ((const int8_t *)at)[i];
    default: return ((const int32_t *)at)[i];
  }
}
template <class T> DFC_INLINE T load(const dfc_operand &o, int64_t i) {
    return o.at ? ((const T *)o.at)[i] : from_bits<T>(o.bits); }
#endif
