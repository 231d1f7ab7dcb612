/* elementwise.cu: one thread for each element; 4 to 24 bytes moved per element. Operands of one, two or three inputs;
 * those that are repeated along dims are walked by their steps. The plain ones are the rows of ../expressions.h; the
 * others are CUDA's functions (functions.cuh). Compiled without fused multiply-add, as the CPU's are. */
#include "functions.cuh"
#include "spread.cuh"

/* ---- one operand ------------------------------------------------------------------------------------------------- */
#define LOOP1(op, name, s, T, R, ...) \
  DFC_KERNEL(k_##op##_##s, dfc_unary) { \
    const T *in = (const T *)p.x; \
    R *out = (R *)p.z; \
    DFC_EACH(i, p.n) out[i] = (R)(__VA_ARGS__); \
  }
#define FLOATS1(op, name) \
  LOOP1(op, name, f32, float, float, name##_f32(in[i])) LOOP1(op, name, f64, double, double, name##_f64(in[i])) \
  LOOP1(op, name, f16, f16, f16, name##_f32((float)in[i])) LOOP1(op, name, b16, b16, b16, name##_f32((float)in[i]))
#define TESTS1(op, name) \
  LOOP1(op, name, f32, float, bool, name##_f32(in[i])) LOOP1(op, name, f64, double, bool, name##_f64(in[i])) \
  LOOP1(op, name, f16, f16, bool, name##_f32((float)in[i])) LOOP1(op, name, b16, b16, bool, name##_f32((float)in[i]))
#define INTS1(op, name) \
  LOOP1(op, name, i32, int32_t, int32_t, name##_i32(in[i])) LOOP1(op, name, i64, int64_t, int64_t, name##_i64(in[i])) \
  LOOP1(op, name, i8, int8_t, int8_t, name##_i8(in[i])) LOOP1(op, name, u8, uint8_t, uint8_t, name##_u8(in[i]))
#define BOOLS1(op, name) LOOP1(op, name, bool, bool, bool, name##_b(in[i]))
#define NUMBERS1(op, name) FLOATS1(op, name) INTS1(op, name)
#define RING1 NUMBERS1                   /* complex numbers: complex.cu */
#define FIELD1 FLOATS1
#define X(type, kinds, op, name) kinds##1(op, name)
#include "unary.inc"
#undef X

#define LEAKY(s, T) \
  DFC_KERNEL(k_leaky_relu_##s, dfc_unary) { \
    DFC_EACH(i, p.n) ((T *)p.z)[i] = leaky_relu_##s(((const T *)p.x)[i], (T)p.param); \
  }
LEAKY(f32, float)
LEAKY(f64, double)

/* ---- two operands ------------------------------------------------------------------------------------------------ */

#define LOOP2(op, s, T, R, ...) \
  DFC_KERNEL(k_##op##_##s, dfc_spread) { \
    R *out = (R *)p.z; \
    DFC_EACH(i, p.n) { \
      int64_t at[3]; \
      places(p, i, at, 2); \
      const T x = load<T>(p.in[0], at[0]), y = load<T>(p.in[1], at[1]); \
      out[i] = (R)(__VA_ARGS__); \
    } \
  }
#define FLOATS2(op, name) \
  LOOP2(op, f32, float, float, name##_f32(x, y)) LOOP2(op, f64, double, double, name##_f64(x, y)) \
  LOOP2(op, f16, f16, f16, name##_f32((float)x, (float)y)) LOOP2(op, b16, b16, b16, name##_f32((float)x, (float)y))
#define INTS2(op, name) \
  LOOP2(op, i32, int32_t, int32_t, name##_i32(x, y)) LOOP2(op, i64, int64_t, int64_t, name##_i64(x, y)) \
  LOOP2(op, i8, int8_t, int8_t, name##_i8(x, y)) LOOP2(op, u8, uint8_t, uint8_t, name##_u8(x, y))
#define NUMBERS2(op, name) FLOATS2(op, name) INTS2(op, name)
#define RING2 NUMBERS2
#define FIELD2 FLOATS2
#define TESTS2(op, name) \
  LOOP2(op, f32, float, bool, name##_f32(x, y)) LOOP2(op, f64, double, bool, name##_f64(x, y)) \
  LOOP2(op, f16, f16, bool, name##_f32((float)x, (float)y)) LOOP2(op, b16, b16, bool, name##_f32((float)x, (float)y)) \
  LOOP2(op, i32, int32_t, bool, name##_i32(x, y)) LOOP2(op, i64, int64_t, bool, name##_i64(x, y)) \
  LOOP2(op, i8, int8_t, bool, name##_i8(x, y)) LOOP2(op, u8, uint8_t, bool, name##_u8(x, y))
#define BOOLS2(op, name) LOOP2(op, bool, bool, bool, name##_b(x, y))
#define EQUALS2(op, name) TESTS2(op, name) BOOLS2(op, name)
#define X(type, kinds, op, name) kinds##2(op, name)
#include "binary.inc"
#undef X
/* Of float32 the difference is rounded to float32, as the CPU's and TensorFlow's. */
template <class T> DFC_INLINE double apart(T x, T y) { return fabs((double)x - (double)y); }
template <> DFC_INLINE double apart<float>(float x, float y) { return (double)fabsf(x - y); }
#define NEAR(s, T) \
  LOOP2(approximate_equal, s, T, bool, apart<T>(x, y) <= p.param)
NEAR(f32, float) NEAR(f64, double) NEAR(f16, f16) NEAR(b16, b16)
NEAR(i32, int32_t) NEAR(i64, int64_t) NEAR(i8, int8_t) NEAR(u8, uint8_t)
LOOP2(leaky_relu_grad, f32, float, float, leaky_relu_grad_f32(x, y, (float)p.param))
LOOP2(leaky_relu_grad, f64, double, double, leaky_relu_grad_f64(x, y, p.param))

/* ---- three ------------------------------------------------------------------------------------------------------- */
#define SELECT(bits, T) \
  DFC_KERNEL(k_select_##bits, dfc_spread) { \
    DFC_EACH(i, p.n) { \
      int64_t at[3]; \
      places(p, i, at, 3); \
      ((T *)p.z)[i] = load<bool>(p.in[0], at[0]) ? load<T>(p.in[1], at[1]) : load<T>(p.in[2], at[2]); \
    } \
  }
SELECT(8, uint8_t)
SELECT(16, uint16_t)
SELECT(32, uint32_t)
SELECT(64, uint64_t)
SELECT(128, wide16)

#define CLIP(s, T, by) \
  DFC_KERNEL(k_clip_##s, dfc_spread) { \
    DFC_EACH(i, p.n) { \
      int64_t at[3]; \
      places(p, i, at, 3); \
      ((T *)p.z)[i] = (T)clip_##by(load<T>(p.in[0], at[0]), load<T>(p.in[1], at[1]), load<T>(p.in[2], at[2])); \
    } \
  }

CLIP(f32, float, f32)
CLIP(f64, double, f64)
CLIP(f16, f16, f32)
CLIP(b16, b16, f32)
CLIP(i32, int32_t, i32)
CLIP(i64, int64_t, i64)
CLIP(i8, int8_t, i8)
CLIP(u8, uint8_t, u8)

/* ---- casts: by the type that is written; the one that is read is known to the whole grid ------------------------- */
/* as in dflow.h */
enum {
  FROM_F32 = 1,
  FROM_F64 = 2,
  FROM_I32 = 3,
  FROM_U8 = 4,
  FROM_I16 = 5,
  FROM_I8 = 6,
  FROM_I64 = 9,
  FROM_BOOL = 10,
  FROM_B16 = 14,
  FROM_U16 = 17,
  FROM_F16 = 19,
  FROM_U32 = 22,
  FROM_U64 = 23
};
DFK_ELEMENT double float_at(const dfc_cast &p, int64_t i) {
  switch (p.from) {
    case FROM_F32: return ((const float *)p.x)[i];
    case FROM_F64: return ((const double *)p.x)[i];
    case FROM_F16: return (float)((const f16 *)p.x)[i];
    default:       return (float)((const b16 *)p.x)[i];
  }
}
DFK_ELEMENT int64_t int_at(const dfc_cast &p, int64_t i) {
  switch (p.from) {
    case FROM_I32:  return ((const int32_t *)p.x)[i];
    case FROM_I64:  return ((const int64_t *)p.x)[i];
    case FROM_I8:   return ((const int8_t *)p.x)[i];
    case FROM_I16:  return ((const int16_t *)p.x)[i];
    case FROM_U16:  return ((const uint16_t *)p.x)[i];
    case FROM_U32:  return ((const uint32_t *)p.x)[i];
    default:        return ((const uint8_t *)p.x)[i];
  }
}
DFK_ELEMENT bool from_float(const dfc_cast &p) {
  return p.from == FROM_F32 || p.from == FROM_F64 || p.from == FROM_F16 || p.from == FROM_B16;
}
#define CAST(s, T) \
  DFC_KERNEL(k_cast_##s, dfc_cast) { \
    T *out = (T *)p.z; \
    if (from_float(p)) DFC_EACH(i, p.n) out[i] = cast_##s(float_at(p, i)); \
    else if (p.from == FROM_U64) DFC_EACH(i, p.n) out[i] = cast_large_##s(((const uint64_t *)p.x)[i]); \
    else DFC_EACH(i, p.n) out[i] = cast_##s(int_at(p, i)); \
  }
CAST(f32, float)
CAST(f64, double)
CAST(f16, f16)
CAST(b16, b16)
CAST(bool, bool)
CAST(i64, int64_t)
CAST(i32, int32_t)
CAST(i8, int8_t)
CAST(u8, uint8_t)
CAST(i16, int16_t)
CAST(u16, uint16_t)
CAST(u32, uint32_t)
CAST(u64, uint64_t)
