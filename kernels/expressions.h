/* expressions.h: each elementwise op that is plain arithmetic, on one element: a row is all there is to it. The CPU's
 * loops and scalar functions (cpu/elements.h) and the GPU's kernels (cuda/elementwise.cu) are made of these rows, so
 * they cannot differ.
 *
 * In an expression x, y are the operands, `t` is their type and `u` the unsigned type in which integers wrap. Row
 * `name` makes name_f32, name_f64, name_i32 and so on. Who includes this has <tgmath.h> or C++'s <cmath>.
 */
#ifndef DFLOW_EXPRESSIONS_H
#define DFLOW_EXPRESSIONS_H
#include "formulas.h"
#include <stdbool.h>
#include <stdint.h>

/* One expression serves signed and unsigned operands; on the latter some comparisons know their answer. */
#pragma GCC diagnostic ignored "-Wtype-limits"
#define EW_TYPES(T, U) typedef T t __attribute__((unused)); typedef U u __attribute__((unused))
#define DEFINE1(name, s, T, U, R, ...) \
  DFK_ELEMENT R name##_##s(T x) { EW_TYPES(T, U); return (R)(__VA_ARGS__); }
#define DEFINE2(name, s, T, U, R, ...) \
  DFK_ELEMENT R name##_##s(T x, T y) { EW_TYPES(T, U); return (R)(__VA_ARGS__); }
#define FLOAT1(name, ...) DEFINE1(name, f32, float, float, float, __VA_ARGS__) DEFINE1(name, f64, double, double, \
  double, __VA_ARGS__)
#define FLOAT2(name, ...) DEFINE2(name, f32, float, float, float, __VA_ARGS__) DEFINE2(name, f64, double, double, \
  double, __VA_ARGS__)
#define INT1(name, ...) \
  DEFINE1(name, i8, int8_t, uint8_t, int8_t, __VA_ARGS__)     DEFINE1(name, u8, uint8_t, uint8_t, uint8_t, \
    __VA_ARGS__) \
  DEFINE1(name, i32, int32_t, uint32_t, int32_t, __VA_ARGS__) DEFINE1(name, i64, int64_t, uint64_t, int64_t, \
    __VA_ARGS__)
#define INT2(name, ...) \
  DEFINE2(name, i8, int8_t, uint8_t, int8_t, __VA_ARGS__)     DEFINE2(name, u8, uint8_t, uint8_t, uint8_t, \
    __VA_ARGS__) \
  DEFINE2(name, i32, int32_t, uint32_t, int32_t, __VA_ARGS__) DEFINE2(name, i64, int64_t, uint64_t, int64_t, \
    __VA_ARGS__)
#define NUMBER1(name, ...) FLOAT1(name, __VA_ARGS__) INT1(name, __VA_ARGS__)
#define NUMBER2(name, ...) FLOAT2(name, __VA_ARGS__) INT2(name, __VA_ARGS__)
/* Answers are bool. */
#define TEST1(name, ...) DEFINE1(name, f32, float, float, bool, __VA_ARGS__) DEFINE1(name, f64, double, double, bool, \
  __VA_ARGS__)
#define TEST2(name, ...) \
  DEFINE2(name, f32, float, float, bool, __VA_ARGS__)      DEFINE2(name, f64, double, double, bool, __VA_ARGS__) \
  DEFINE2(name, i8, int8_t, uint8_t, bool, __VA_ARGS__)    DEFINE2(name, u8, uint8_t, uint8_t, bool, __VA_ARGS__) \
  DEFINE2(name, i32, int32_t, uint32_t, bool, __VA_ARGS__) DEFINE2(name, i64, int64_t, uint64_t, bool, __VA_ARGS__)
#define BOOL1(name, ...) DEFINE1(name, b, bool, bool, bool, __VA_ARGS__)
#define BOOL2(name, ...) DEFINE2(name, b, bool, bool, bool, __VA_ARGS__)

/* ---- one operand ------------------------------------------------------------------------------ */
FLOAT1(neg, -x)
INT1(neg, 0 - (u)x)
FLOAT1(abs_, fabs(x))
INT1(abs_, x < 0 ? 0 - (u)x : (u)x)
NUMBER1(sign, x > 0 ? (t)1 : x < 0 ? (t)-1 : x)     /* NaN and -0 stay */
NUMBER1(square, (u)x * (u)x)
FLOAT1(sqrt_, sqrt(x))
FLOAT1(rsqrt, 1 / sqrt(x))
FLOAT1(reciprocal, 1 / x)
FLOAT1(floor_, floor(x))
FLOAT1(ceil_, ceil(x))
FLOAT1(round_, rint(x))
INT1(round_, x)
FLOAT1(rint_, rint(x))
FLOAT1(relu, !(x <= 0) ? x : 0)                      /* NaN stays */
INT1(relu, x > 0 ? x : 0)
FLOAT1(relu6, !(x <= 0) ? (x >= 6 ? 6 : x) : 0)
INT1(relu6, x > 0 ? (x > 6 ? 6 : x) : 0)
DFK_FORMULAS1(FLOAT1)
FLOAT1(erfinv, dfk_erfinv(x))                        /* of a device; the host has vectors of it (cpu/elements.h) */
INT1(invert, ~x)
BOOL1(logical_not, !x)
TEST1(is_nan, x != x)
TEST1(is_inf, fabs(x) == (t)INFINITY)
TEST1(is_finite, fabs(x) < (t)INFINITY)

/* ---- two operands ------------------------------------------------------------------------------- */
NUMBER2(add, (u)x + (u)y)
NUMBER2(sub, (u)x - (u)y)
NUMBER2(mul, (u)x * (u)y)
FLOAT2(squared_difference, (x - y) * (x - y))
INT2(squared_difference, ((u)x - (u)y) * ((u)x - (u)y))
NUMBER2(maximum, x >= y || x != x ? x : y)           /* NaN wins */
NUMBER2(minimum, x <= y || x != x ? x : y)
FLOAT2(real_div, x / y)
FLOAT2(xdivy, x == 0 ? 0 : x / y)
FLOAT2(mul_no_nan, y == 0 ? 0 : x * y)
FLOAT2(div_no_nan, y == 0 ? 0 : x / y)
/* Integer division: the divisor is not 0 (the kernel looks first), and -1 is taken apart because the smallest
 * integer divided by it has no quotient; it wraps. */
FLOAT2(truncate_div, trunc(x / y))
INT2(truncate_div, y == (t)-1 && (t)-1 < 0 ? (t)(0 - (u)x) : (t)(x / y))
FLOAT2(floor_div, floor(x / y))
DFK_ELEMENT int64_t floor_down(int64_t q, int64_t r, int64_t y) { return q - (r != 0 && (r < 0) != (y < 0)); }
INT2(floor_div, y == (t)-1 && (t)-1 < 0 ? (t)(0 - (u)x) : (t)floor_down(x / y, x % y, y))
FLOAT2(truncate_mod, fmod(x, y))
INT2(truncate_mod, y == (t)-1 && (t)-1 < 0 ? 0 : x % y)
DFK_ELEMENT float  floor_up_f32(float r, float y)   { return r != 0 && (r < 0) != (y < 0) ? r + y : r; }
DFK_ELEMENT double floor_up_f64(double r, double y) { return r != 0 && (r < 0) != (y < 0) ? r + y : r; }
DFK_ELEMENT int64_t floor_up_int(int64_t r, int64_t y) { return r != 0 && (r < 0) != (y < 0) ? r + y : r; }
DEFINE2(floor_mod, f32, float, float, float, floor_up_f32(fmod(x, y), y))
DEFINE2(floor_mod, f64, double, double, double, floor_up_f64(fmod(x, y), y))
INT2(floor_mod, y == (t)-1 && (t)-1 < 0 ? 0 : floor_up_int(x % y, y))
FLOAT2(mul_same, x * x)                              /* x ^ 2 */
DFK_ELEMENT uint64_t int_power(uint64_t x, uint64_t y) {
  uint64_t r = 1;
  for (; y; y >>= 1, x *= x) if (y & 1) r *= x;
  return r;
}
INT2(pow_, int_power((uint64_t)x, (uint64_t)y))      /* wraps; y is not negative (the kernel looks first) */

TEST2(less, x < y)
TEST2(less_equal, x <= y)
TEST2(greater, x > y)
TEST2(greater_equal, x >= y)
TEST2(equal, x == y)
TEST2(not_equal, x != y)
BOOL2(equal, x == y)
BOOL2(not_equal, x != y)
BOOL2(logical_and, x & y)
BOOL2(logical_or, x | y)
BOOL2(logical_xor, x ^ y)
INT2(bitwise_and, x & y)
INT2(bitwise_or, x | y)
INT2(bitwise_xor, x ^ y)
/* A shift by a negative count is one by 0, by the width or more one by width - 1. */
INT2(left_shift, (u)x << (y < 0 ? 0 : y >= (t)(sizeof(t) * 8) ? (t)(sizeof(t) * 8 - 1) : y))
INT2(right_shift, x >> (y < 0 ? 0 : y >= (t)(sizeof(t) * 8) ? (t)(sizeof(t) * 8 - 1) : y))

/* ---- gradients: dy and the output y, or dy and the input, in TensorFlow's order -------------------- */
FLOAT2(tanh_grad, y * ((1 - x) * (1 + x)))            /* (y, dy); exact where 1 - y^2 cancels */
FLOAT2(sigmoid_grad, y * x * (1 - x))
/* No gradient has none to hand on, where the function has a pole, too: as TensorFlow's. */
FLOAT2(sqrt_grad, y == 0 ? 0 : y * (t)0.5 / x)
FLOAT2(rsqrt_grad, y == 0 ? 0 : y * (t)-0.5 * (x * x * x))
FLOAT2(reciprocal_grad, y == 0 ? 0 : -y * (x * x))
NUMBER2(relu_grad, y > 0 ? x : 0)                     /* (dy, x) or (dy, y) */
NUMBER2(relu6_grad, y > 0 && y < 6 ? x : 0)
DFK_FORMULAS2(FLOAT2)
FLOAT2(elu_grad, y < 0 ? x * (y + 1) : x)
#define SELU_SCALE 1.0507009873554804934193349852946
#define SELU_ALPHA 1.6732632423543772848170429916717
FLOAT2(selu_grad, y < 0 ? x * (y + (t)(SELU_SCALE * SELU_ALPHA)) : x * (t)SELU_SCALE)
#endif
