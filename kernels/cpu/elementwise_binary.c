/* elementwise_binary.c: the loops of the elementwise ops of two operands: tensor and tensor, tensor and number,
 * number and tensor. elements.h says what each op is, elementwise.c how it goes over a tensor. */
#include "elementwise.h"
#include "elements.h"
#include "../convert.h"
#include "../half.h"

#define LOOP2(name, s, T, R) \
  static void name##_##s##_loop(void *out, const void *const *in, uint32_t fixed, int64_t n, double param) { \
    const T *a = in[0], *b = in[1]; \
    R *o = out; \
    if (fixed == 1) { \
      T x = *a; \
      EW_LANES for (int64_t i = 0; i < n; i++) o[i] = name##_##s(x, b[i]); \
    } else if (fixed == 2) { \
      T y = *b; \
      EW_LANES for (int64_t i = 0; i < n; i++) o[i] = name##_##s(a[i], y); \
    } else { \
      EW_LANES for (int64_t i = 0; i < n; i++) o[i] = name##_##s(a[i], b[i]); \
    } \
  }
#define VLOOP2(name, s, T) \
  static void name##_##s##_loop(void *out, const void *const *in, uint32_t fixed, int64_t n, double param) { \
    const T *a = in[0], *b = in[1]; \
    T *o = out; \
    v##s x = splat_##s(*a), y = splat_##s(*b); \
    int64_t i = 0; \
    for (; i + LANES_##s <= n; i += LANES_##s) { \
      if (fixed != 1) x = load_##s(a + i); \
      if (fixed != 2) y = load_##s(b + i); \
      store_##s(o + i, name##_v##s(x, y)); \
    } \
    if (i == n) return; \
    if (fixed != 1) x = load_some_##s(a + i, n - i); \
    if (fixed != 2) y = load_some_##s(b + i, n - i); \
    store_some_##s(o + i, name##_v##s(x, y), n - i); \
  }
#define KERNEL_CHECKED(op, work, check, ...) \
  int32_t cpu_##op(df_kernel *k) { \
    static const ew_op entry = { .grain = work, .loop = { __VA_ARGS__ } }; \
    const int32_t dtype = k->in[0]->dtype; \
    if ((dfk_is_rare(dtype) && !entry.loop[dtype]) || dtype == DF_STRING) return ref_##op(k); \
    int32_t bad = check(k); \
    return bad ? bad : cpu_ew_run(k, &entry, 0, NULL); \
  }
static inline int32_t anything(df_kernel *k) { return DF_OK; }
#define KERNEL(op, work, ...) KERNEL_CHECKED(op, work, anything, __VA_ARGS__)
#define FLOAT_LOOPS(name) [DF_FLOAT32] = name##_f32_loop, [DF_FLOAT64] = name##_f64_loop
#define INT_LOOPS(name) [DF_INT8] = name##_i8_loop, [DF_UINT8] = name##_u8_loop, [DF_INT32] = name##_i32_loop, \
  [DF_INT64] = name##_i64_loop
#define FLOAT_LOOP_SET(name) LOOP2(name, f32, float, float) LOOP2(name, f64, double, double)
#define INT_LOOP_SET(name) \
  LOOP2(name, i8, int8_t, int8_t) LOOP2(name, u8, uint8_t, uint8_t) LOOP2(name, i32, int32_t, int32_t) LOOP2(name, \
    i64, int64_t, int64_t)
#define TEST_LOOP_SET(name) \
  LOOP2(name, f32, float, bool) LOOP2(name, f64, double, bool) LOOP2(name, i8, int8_t, bool) \
  LOOP2(name, u8, uint8_t, bool) LOOP2(name, i32, int32_t, bool) LOOP2(name, i64, int64_t, bool)

#define FLOATS(op)  FLOAT_LOOP_SET(op) KERNEL(op, EW_LIGHT, FLOAT_LOOPS(op))
#define INTS(op)    INT_LOOP_SET(op) KERNEL(op, EW_LIGHT, INT_LOOPS(op))
#define NUMBERS(op) FLOAT_LOOP_SET(op) INT_LOOP_SET(op) KERNEL(op, EW_LIGHT, FLOAT_LOOPS(op), INT_LOOPS(op))
/* Numbers of 32 bits by way of float64, whose quotient is a whole number where theirs is, and else on the right side of
 * the one next to it: 0.2 ns an element instead of 3.2. `of` names the loops of floats. */
#define DIVIDES(op, of) \
  LOOP2(op, i8, int8_t, int8_t) LOOP2(op, u8, uint8_t, uint8_t) LOOP2(near_##op, i32, int32_t, int32_t) \
  LOOP2(op, i64, int64_t, int64_t) \
  KERNEL_CHECKED(op, EW_HEAVY, dfk_check_divisor, FLOAT_LOOPS(of), [DF_INT8] = op##_i8_loop, \
  [DF_UINT8] = op##_u8_loop, [DF_INT32] = near_##op##_i32_loop, [DF_INT64] = op##_i64_loop)
#define NEAR_INT(op, ...) \
  static inline int32_t near_##op##_i32(int32_t x, int32_t y) { return (int32_t)(__VA_ARGS__); }
static inline uint32_t is_apart(int32_t r, int32_t y) { return (r != 0) & ((r ^ y) < 0); }  /* of the other sign */
NEAR_INT(truncate_div, (int64_t)((double)x / (double)y))
NEAR_INT(truncate_mod, (uint32_t)x - (uint32_t)y * (uint32_t)near_truncate_div_i32(x, y))
NEAR_INT(floor_div, (uint32_t)near_truncate_div_i32(x, y) - is_apart(near_truncate_mod_i32(x, y), y))
NEAR_INT(floor_mod, (uint32_t)near_truncate_mod_i32(x, y) + (is_apart(near_truncate_mod_i32(x, y), y) * (uint32_t)y))

/* A tensor by one power of two: a shift, or the low bits, which floor as the op does. A tenth of the time of a
 * division of 32 bits, a fiftieth of one of 64. */
#define FLOORS_LOOP(op, other, s, T, ...) \
  static void any_##op##_##s##_loop(void *out, const void *const *in, uint32_t fixed, int64_t n, double param) { \
    const T *a = in[0], y = fixed == 2 ? *(const T *)in[1] : 0; \
    T *o = out; \
    if (y <= 0 || (y & (y - 1))) { other##_##s##_loop(out, in, fixed, n, param); return; } \
    const int bits = __builtin_ctzll((uint64_t)y); (void)bits; \
    EW_LANES for (int64_t i = 0; i < n; i++) o[i] = __VA_ARGS__; \
  }
#define FLOORS(op, of, ...) \
  LOOP2(op, i8, int8_t, int8_t) LOOP2(op, u8, uint8_t, uint8_t) LOOP2(near_##op, i32, int32_t, int32_t) \
  LOOP2(op, i64, int64_t, int64_t) FLOORS_LOOP(op, near_##op, i32, int32_t, __VA_ARGS__) \
  FLOORS_LOOP(op, op, i64, int64_t, __VA_ARGS__) \
  KERNEL_CHECKED(op, EW_HEAVY, dfk_check_divisor, FLOAT_LOOPS(of), [DF_INT8] = op##_i8_loop, \
  [DF_UINT8] = op##_u8_loop, [DF_INT32] = any_##op##_i32_loop, [DF_INT64] = any_##op##_i64_loop)

/* fmod, a block at a time. Where the quotient has few bits, what is left over is exact: x - q y, one rounding, of a q
 * that is one too large at most. Elements with many, or next to what is not a normal number, are libm's, which takes
 * 22 ns for each. */
enum { MOD_BLOCK = 64 };
#define MOD_LOOP(op, s, T, U, most, least, mantissa, finish) \
  static void near_##op##_##s##_loop(void *out, const void *const *in, uint32_t fixed, int64_t n, double param) { \
    const int64_t p = fixed != 1, q = fixed != 2; \
    for (int64_t at = 0; at < n; at += MOD_BLOCK) { \
      const int64_t some = n - at < MOD_BLOCK ? n - at : MOD_BLOCK; \
      T a[MOD_BLOCK], b[MOD_BLOCK], r[MOD_BLOCK]; \
      U odd = 0; \
      for (int64_t i = 0; i < some; i++) a[i] = ((const T *)in[0])[(at + i) * p]; \
      for (int64_t i = 0; i < some; i++) b[i] = ((const T *)in[1])[(at + i) * q]; \
      for (int64_t i = 0; i < some; i++) { \
        const T x = a[i] < 0 ? -a[i] : a[i], y = b[i] < 0 ? -b[i] : b[i], whole = trunc(x / y); \
        U bits; \
        memcpy(&bits, &a[i], sizeof bits); \
        const T left = fma(-whole, y, x), right = left < 0 ? left + y : left; \
        r[i] = finish((T)copysign(right, a[i]), b[i]); \
        odd |= (U)!(whole < (T)most) | (U)!(y > (T)least) | (U)!(y <= (T)(1 / (T)least)) | \
               (U)(((bits << 1) >> 1) - 1 < mantissa); \
      } \
      for (int64_t i = 0; i < some && odd; i++) r[i] = finish((T)fmod(a[i], b[i]), b[i]); \
      memcpy((T *)out + at, r, (size_t)some * sizeof(T)); \
    } \
  }
#define AS_IT_IS(r, y) (r)
#define MOD_LOOPS(op, up32, up64) \
  MOD_LOOP(op, f32, float, uint32_t, 0x1p22, 0x1p-100, 0x7fffff, up32) \
  MOD_LOOP(op, f64, double, uint64_t, 0x1p50, 0x1p-900, 0xfffffffffffff, up64)
MOD_LOOPS(truncate_mod, AS_IT_IS, AS_IT_IS)
MOD_LOOPS(floor_mod, floor_up_f32, floor_up_f64)
FLOAT_LOOP_SET(floor_div)
FLOAT_LOOP_SET(truncate_div)
#define TESTS(op)   TEST_LOOP_SET(op) KERNEL(op, EW_LIGHT, FLOAT_LOOPS(op), INT_LOOPS(op))
/* Short and unsigned integers, computed in `w`: int32, which holds the result, or what wraps. */
#define RARE_LOOP(op, s, T, W, R, ...) \
  static inline R op##_##s(T x, T y) { typedef W w; return (R)(__VA_ARGS__); } \
  LOOP2(op, s, T, R)
#define RARE_LOOP_SET(op, ...) \
  RARE_LOOP(op, i16, int16_t, int32_t, int16_t, __VA_ARGS__) \
  RARE_LOOP(op, u16, uint16_t, uint32_t, uint16_t, __VA_ARGS__) \
  RARE_LOOP(op, u32, uint32_t, uint32_t, uint32_t, __VA_ARGS__) \
  RARE_LOOP(op, u64, uint64_t, uint64_t, uint64_t, __VA_ARGS__)
#define RARE_TEST_SET(op, ...) \
  RARE_LOOP(op, i16, int16_t, int32_t, bool, __VA_ARGS__) RARE_LOOP(op, u16, uint16_t, uint32_t, bool, __VA_ARGS__) \
  RARE_LOOP(op, u32, uint32_t, uint32_t, bool, __VA_ARGS__) \
  RARE_LOOP(op, u64, uint64_t, uint64_t, bool, __VA_ARGS__)
#define RARE_LOOPS(name) [DF_INT16] = name##_i16_loop, [DF_UINT16] = name##_u16_loop, \
  [DF_UINT32] = name##_u32_loop, [DF_UINT64] = name##_u64_loop
#define ALL_NUMBERS(op, ...) \
  FLOAT_LOOP_SET(op) INT_LOOP_SET(op) RARE_LOOP_SET(op, __VA_ARGS__) \
  KERNEL(op, EW_LIGHT, FLOAT_LOOPS(op), INT_LOOPS(op), RARE_LOOPS(op))
#define ALL_TESTS(op, ...) \
  TEST_LOOP_SET(op) RARE_TEST_SET(op, __VA_ARGS__) \
  KERNEL(op, EW_LIGHT, FLOAT_LOOPS(op), INT_LOOPS(op), RARE_LOOPS(op))
#define BOOLS(op)   LOOP2(op, b, bool, bool) KERNEL(op, EW_LIGHT, [DF_BOOL] = op##_b_loop)
#define VECTORS(op, name) VLOOP2(name, f32, float) VLOOP2(name, f64, double) KERNEL(op, EW_HEAVY, FLOAT_LOOPS(name))

ALL_NUMBERS(add, (w)x + (w)y)
ALL_NUMBERS(sub, (w)x - (w)y)
ALL_NUMBERS(mul, (w)x * (w)y)
ALL_NUMBERS(maximum, (w)x > (w)y ? x : y)
ALL_NUMBERS(minimum, (w)x < (w)y ? x : y)
NUMBERS(squared_difference)
FLOORS(floor_div, floor_div, a[i] >> bits)
FLOORS(floor_mod, near_floor_mod, a[i] & (y - 1))
DIVIDES(truncate_div, truncate_div)
DIVIDES(truncate_mod, near_truncate_mod)
FLOATS(real_div)
FLOATS(div_no_nan)
FLOATS(mul_no_nan)
FLOATS(xdivy)
VECTORS(xlogy, xlogy)
VECTORS(xlog1py, xlog1py)
VECTORS(atan2, atan2_)
ALL_TESTS(less, (w)x < (w)y)
ALL_TESTS(less_equal, (w)x <= (w)y)
ALL_TESTS(greater, (w)x > (w)y)
ALL_TESTS(greater_equal, (w)x >= (w)y)
BOOLS(logical_and)
BOOLS(logical_or)
BOOLS(logical_xor)
INTS(bitwise_and)
INTS(bitwise_or)
INTS(bitwise_xor)
INTS(left_shift)
INTS(right_shift)
FLOATS(tanh_grad)
FLOATS(sigmoid_grad)
FLOATS(sqrt_grad)
FLOATS(rsqrt_grad)
FLOATS(reciprocal_grad)
NUMBERS(relu_grad)
NUMBERS(relu6_grad)
FLOATS(elu_grad)
FLOATS(selu_grad)
#define ROW(name, ...) FLOATS(name)
DFK_FORMULAS2(ROW)
#undef ROW
VECTORS(softplus_grad, softplus_grad)

int32_t cpu_div(df_kernel *k) {
  uint8_t t = k->in[0]->dtype;
  return t == DF_FLOAT32 || t == DF_FLOAT64 || dfk_is_half(t) || dfk_is_complex(t) ? cpu_real_div(k)
                                                                                   : cpu_truncate_div(k);
}

/* Equality is for strings and whatever else is no number, too. */
static bool numbers_or_bool(const df_tensor *t) {
  return t->dtype != DF_STRING && !dfk_is_rare(t->dtype) && dfk_underlying(t->dtype) == t->dtype;
}
TEST_LOOP_SET(equal)
TEST_LOOP_SET(not_equal)
LOOP2(equal, b, bool, bool)
LOOP2(not_equal, b, bool, bool)
int32_t cpu_equal(df_kernel *k) {
  static const ew_op entry = { .grain = EW_LIGHT,
                               .loop = { FLOAT_LOOPS(equal), INT_LOOPS(equal), [DF_BOOL] = equal_b_loop } };
  return numbers_or_bool(k->in[0]) ? cpu_ew_run(k, &entry, 0, NULL) : ref_equal(k);
}
int32_t cpu_not_equal(df_kernel *k) {
  static const ew_op entry = { .grain = EW_LIGHT,
                               .loop = { FLOAT_LOOPS(not_equal), INT_LOOPS(not_equal), [DF_BOOL] = not_equal_b_loop } };
  return numbers_or_bool(k->in[0]) ? cpu_ew_run(k, &entry, 0, NULL) : ref_not_equal(k);
}

/* x ^ 2 is most of what people write: it needs no logarithm, and pow_ gives it the bits of a product anyway. */
VLOOP2(pow_, f32, float)
VLOOP2(pow_, f64, double)
INT_LOOP_SET(pow_)
LOOP2(mul_same, f32, float, float)
LOOP2(mul_same, f64, double, double)
static void power_f32_loop(void *out, const void *const *in, uint32_t fixed, int64_t n, double param) {
  bool squares = fixed == 2 && *(const float *)in[1] == 2;
  (squares ? mul_same_f32_loop : pow__f32_loop)(out, in, fixed, n, param);
}
static void power_f64_loop(void *out, const void *const *in, uint32_t fixed, int64_t n, double param) {
  bool squares = fixed == 2 && *(const double *)in[1] == 2;
  (squares ? mul_same_f64_loop : pow__f64_loop)(out, in, fixed, n, param);
}
KERNEL_CHECKED(pow, EW_HEAVY, dfk_check_exponent, FLOAT_LOOPS(power), INT_LOOPS(pow_))

/* The two that have an attribute. */
#define LEAKY_GRAD_LOOP(s, T) \
  static void leaky_relu_grad_##s##_loop(void *out, const void *const *in, uint32_t fixed, int64_t n, double param) { \
    const T *dy = in[0], *x = in[1]; \
    T *o = out, alpha = (T)(float)param; \
    int64_t a = fixed != 1, b = fixed != 2; \
    EW_LANES for (int64_t i = 0; i < n; i++) o[i] = x[i * b] > 0 ? dy[i * a] : alpha * dy[i * a]; \
  }
LEAKY_GRAD_LOOP(f32, float)
LEAKY_GRAD_LOOP(f64, double)
int32_t cpu_leaky_relu_grad(df_kernel *k) {
  static const ew_op entry = { .grain = EW_LIGHT, .loop = { FLOAT_LOOPS(leaky_relu_grad) } };
  return cpu_ew_run(k, &entry, dfk_float(k, 0), NULL);
}

/* D: what the difference is computed in, as in TensorFlow, whose tolerance is a float32 and counts as equal. */
#define APPROXIMATE_LOOP(s, T, D) \
  static void approximate_equal_##s##_loop(void *out, const void *const *in, uint32_t fixed, int64_t n, double param) \
    { \
    const T *x = in[0], *y = in[1]; \
    const D tolerance = (D)(float)param; \
    bool *o = out; \
    int64_t a = fixed != 1, b = fixed != 2; \
    for (int64_t i = 0; i < n; i++) { \
      const D apart = (D)x[i * a] - (D)y[i * b]; \
      o[i] = apart <= tolerance && -apart <= tolerance; \
    } \
  }
APPROXIMATE_LOOP(f32, float, float)
APPROXIMATE_LOOP(f64, double, double)
APPROXIMATE_LOOP(i8, int8_t, double)
APPROXIMATE_LOOP(u8, uint8_t, double)
APPROXIMATE_LOOP(i32, int32_t, double)
APPROXIMATE_LOOP(i64, int64_t, double)
int32_t cpu_approximate_equal(df_kernel *k) {
  static const ew_op entry = { .grain = EW_LIGHT,
                               .loop = { FLOAT_LOOPS(approximate_equal), INT_LOOPS(approximate_equal) } };
  if (dfk_is_rare(k->in[0]->dtype)) return ref_approximate_equal(k);
  return cpu_ew_run(k, &entry, dfk_float(k, 0), NULL);
}

/* ---- what integer ops ask before they begin -------------------------------------------------------- */
#define SCAN(T, test) { \
    const T *y = b->data; \
    for (int64_t i = 0; i < b->size; i++) { T v = y[i]; bad |= test; } \
  }
int32_t dfk_check_divisor(df_kernel *k) {
  const df_tensor *b = k->in[1];
  bool bad = k->asked != NULL;                /* a chain would not look */
  if (!bad && k->in[0]->size == 0) return DF_OK;
  switch (b->dtype) {
    case DF_INT8: case DF_UINT8: SCAN(int8_t, v == 0) break;
    case DF_INT16: case DF_UINT16: SCAN(int16_t, v == 0) break;
    case DF_INT32: case DF_UINT32: SCAN(int32_t, v == 0) break;
    case DF_INT64: case DF_UINT64: SCAN(int64_t, v == 0) break;
    default: return DF_OK;
  }
  return bad ? dfk_fail(k, DF_INVALID_ARGUMENT, "integer division by zero") : DF_OK;
}
int32_t dfk_check_exponent(df_kernel *k) {
  const df_tensor *b = k->in[1];
  bool bad = k->asked != NULL;                /* a chain would not look */
  if (!bad && k->in[0]->size == 0) return DF_OK;
  switch (b->dtype) {
    case DF_INT8: SCAN(int8_t, v < 0) break;
    case DF_INT16: SCAN(int16_t, v < 0) break;
    case DF_INT32: SCAN(int32_t, v < 0) break;
    case DF_INT64: SCAN(int64_t, v < 0) break;
    default: return DF_OK;
  }
  return bad ? dfk_fail(k, DF_INVALID_ARGUMENT,
                        "an integer to a negative power is no integer: cast to a float dtype first")
             : DF_OK;
}
