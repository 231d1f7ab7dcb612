/* functions.cuh: elementwise functions that are CUDA's own where the CPU has SLEEF's: name_f32, name_f64. The others are
 * the rows of ../expressions.h. Single kernels (elementwise.cu) and those written at run time (fuse.c) are made of
 * both. */
#ifndef DFLOW_CUDA_FUNCTIONS_CUH
#define DFLOW_CUDA_FUNCTIONS_CUH
#include "special.cuh"

FLOAT1(exp_, exp(x))
FLOAT1(expm1_, expm1(x))
FLOAT1(log_, log(x))
FLOAT1(log1p_, log1p(x))
FLOAT1(sin_, sin(x))
FLOAT1(cos_, cos(x))
FLOAT1(tan_, tan(x))
FLOAT1(asin_, asin(x))
FLOAT1(acos_, acos(x))
FLOAT1(atan_, atan(x))
FLOAT1(sinh_, sinh(x))
FLOAT1(cosh_, cosh(x))
FLOAT1(tanh_, tanh(x))
FLOAT1(asinh_, asinh(x))
FLOAT1(acosh_, acosh(x))
FLOAT1(atanh_, atanh(x))
FLOAT1(erf_, erf(x))
FLOAT1(erfc_, erfc(x))
FLOAT1(lgamma_, lgamma(x))
FLOAT1(sigmoid, 1 / (1 + exp(-x)))
FLOAT1(softplus, (x > 0 ? x : 0) + log1p(exp(-fabs(x))))
FLOAT1(elu, x < 0 ? expm1(x) : x)
FLOAT1(selu, (t)SELU_SCALE * (x < 0 ? (t)SELU_ALPHA * expm1(x) : x))
FLOAT2(atan2_, atan2(x, y))
FLOAT2(softplus_grad, x / (1 + exp(-y)))
FLOAT2(xlogy, x == 0 ? 0 : x * log(y))
FLOAT2(xlog1py, x == 0 ? 0 : x * log1p(y))
FLOAT2(pow__, y == 2 ? x * x : pow(x, y))

/* The slope was rounded to float32, as TensorFlow's attribute is. NaN stays NaN when it is clipped; where the bounds
 * cross, the lower one wins. */
#define DFC_SLOPED(s, T) \
  DFK_ELEMENT T leaky_relu_##s(T x, T slope) { return x > 0 ? x : slope * x; } \
  DFK_ELEMENT T leaky_relu_grad_##s(T dy, T x, T slope) { return x > 0 ? dy : slope * dy; }
DFC_SLOPED(f32, float)
DFC_SLOPED(f64, double)
#define DFC_CLIP(s, T) \
  DFK_ELEMENT T clip_##s(T x, T low, T high) { \
    const T down = x > high ? high : x; \
    return down < low ? low : down; \
  }
DFC_CLIP(f32, float)
DFC_CLIP(f64, double)
DFC_CLIP(i32, int32_t)
DFC_CLIP(i64, int64_t)
DFC_CLIP(i8, int8_t)
DFC_CLIP(u8, uint8_t)

/* ---- casts, of floats as double and of integers as int64 (uint64: cast_large): what does not fit becomes the nearest that does ---------- */
template <class T> DFC_INLINE T whole_of(double v) {
  return v != v ? (T)0 : v <= (double)lowest_of<T>() ? lowest_of<T>() : v >= (double)highest_of<T>() ? highest_of<T>()
                                                                                                     : (T)v;
}
/* The float next to v towards zero, with its last bit set unless it is v: a half that is made of it is rounded once. */
DFK_ELEMENT float odd(double v) {
  union { float f; uint32_t u; } x;
  x.f = (float)v;
  const double size = v < 0 ? -v : v, found = x.f < 0 ? -(double)x.f : (double)x.f;
  x.u -= found > size;
  x.u |= found != size && size == size;
  return x.f;
}
/* Of an integer: exact as a double but for the 16 bits that no half keeps, of which it matters only whether there are
 * any. */
DFK_ELEMENT float odd_whole(uint64_t u) {
  if (u >> 40) u = (u & ~(uint64_t)0xffff) | (uint64_t)((u & 0xffff) != 0) << 16;
  return odd((double)u);
}
DFK_ELEMENT float odd_int(uint64_t u) { return odd_whole(u); }
DFK_ELEMENT float odd_int(int64_t v) { return v < 0 ? -odd_whole(0 - (uint64_t)v) : odd_whole((uint64_t)v); }
#define DFC_CAST(s, T, OF_FLOAT, OF_INT) \
  DFK_ELEMENT T cast_##s(double v) { return OF_FLOAT; } \
  DFK_ELEMENT T cast_##s(int64_t v) { return OF_INT; } \
  DFK_ELEMENT T cast_large_##s(uint64_t v) { return OF_INT; }
DFC_CAST(f32, float, (float)v, (float)v)
DFC_CAST(f64, double, v, (double)v)
DFC_CAST(f16, f16, f16(odd(v)), f16(odd_int(v)))
DFC_CAST(b16, b16, b16(odd(v)), b16(odd_int(v)))
DFC_CAST(bool, bool, v != 0, v != 0)
DFC_CAST(i64, int64_t, whole_of<int64_t>(v), v)
DFC_CAST(i32, int32_t, whole_of<int32_t>(v), (int32_t)v)
DFC_CAST(i8, int8_t, whole_of<int8_t>(v), (int8_t)v)
DFC_CAST(u8, uint8_t, whole_of<uint8_t>(v), (uint8_t)v)
DFC_CAST(i16, int16_t, whole_of<int16_t>(v), (int16_t)v)
DFC_CAST(u16, uint16_t, whole_of<uint16_t>(v), (uint16_t)v)
DFC_CAST(u32, uint32_t, whole_of<uint32_t>(v), (uint32_t)v)
DFC_CAST(u64, uint64_t, whole_of<uint64_t>(v), (uint64_t)v)
#endif
