/* elementwise_unary.c: the loops of the elementwise ops of one operand. Nothing is decided here: elements.h says
 * what each op is, elementwise.c how it goes over a tensor. */
#include "elementwise.h"
#include "elements.h"
#include "../half.h"

#define LOOP1(name, s, T, R) \
  static void name##_##s##_loop(void *out, const void *const *in, uint32_t fixed, int64_t n, double param) { \
    const T *x = in[0]; \
    R *o = out; \
    EW_LANES for (int64_t i = 0; i < n; i++) o[i] = name##_##s(x[i]); \
  }
#define VLOOP1(name, s, T) \
  static void name##_##s##_loop(void *out, const void *const *in, uint32_t fixed, int64_t n, double param) { \
    const T *x = in[0]; \
    T *o = out; \
    int64_t i = 0; \
    for (; i + LANES_##s <= n; i += LANES_##s) store_##s(o + i, name##_v##s(load_##s(x + i))); \
    if (i < n) store_some_##s(o + i, name##_v##s(load_some_##s(x + i, n - i)), n - i); \
  }
#define KERNEL(op, work, ...) \
  int32_t cpu_##op(df_kernel *k) { \
    static const ew_op entry = { .grain = work, .loop = { __VA_ARGS__ } }; \
    if (dfk_is_rare(k->in[0]->dtype) && !entry.loop[k->in[0]->dtype]) return ref_##op(k); \
    return cpu_ew_run(k, &entry, 0, NULL); \
  }
#define FLOAT_LOOPS(name) [DF_FLOAT32] = name##_f32_loop, [DF_FLOAT64] = name##_f64_loop
#define INT_LOOPS(name) [DF_INT8] = name##_i8_loop, [DF_UINT8] = name##_u8_loop, [DF_INT32] = name##_i32_loop, \
  [DF_INT64] = name##_i64_loop

#define FLOATS(op, name)  LOOP1(name, f32, float, float) LOOP1(name, f64, double, double) KERNEL(op, EW_LIGHT, \
  FLOAT_LOOPS(name))
#define TESTS(op, name)   LOOP1(name, f32, float, bool) LOOP1(name, f64, double, bool) KERNEL(op, EW_LIGHT, \
  FLOAT_LOOPS(name))
#define VECTORS(op, name) VLOOP1(name, f32, float) VLOOP1(name, f64, double) KERNEL(op, EW_HEAVY, FLOAT_LOOPS(name))
#define INT_LOOP_SET(name) \
  LOOP1(name, i8, int8_t, int8_t) LOOP1(name, u8, uint8_t, uint8_t) LOOP1(name, i32, int32_t, int32_t) LOOP1(name, \
    i64, int64_t, int64_t)
#define NUMBERS(op, name) \
  LOOP1(name, f32, float, float) LOOP1(name, f64, double, double) INT_LOOP_SET(name) \
  KERNEL(op, EW_LIGHT, FLOAT_LOOPS(name), INT_LOOPS(name))

/* Short and unsigned integers, computed in `w`: int32, which holds the result, or what wraps. */
#define RARE_LOOP(name, s, T, W, ...) \
  static inline T name##_##s(T x) { typedef W w; return (T)(__VA_ARGS__); } \
  LOOP1(name, s, T, T)
#define ALL_NUMBERS(op, name, ...) \
  LOOP1(name, f32, float, float) LOOP1(name, f64, double, double) INT_LOOP_SET(name) \
  RARE_LOOP(name, i16, int16_t, int32_t, __VA_ARGS__) RARE_LOOP(name, u16, uint16_t, uint32_t, __VA_ARGS__) \
  RARE_LOOP(name, u32, uint32_t, uint32_t, __VA_ARGS__) RARE_LOOP(name, u64, uint64_t, uint64_t, __VA_ARGS__) \
  KERNEL(op, EW_LIGHT, FLOAT_LOOPS(name), INT_LOOPS(name), [DF_INT16] = name##_i16_loop, \
         [DF_UINT16] = name##_u16_loop, [DF_UINT32] = name##_u32_loop, [DF_UINT64] = name##_u64_loop)
#define SIZE_OF(x) ((w)-1 < 0 && (x) < 0 ? 0 - (w)(x) : (w)(x))

ALL_NUMBERS(neg, neg, 0 - (w)x)
ALL_NUMBERS(abs, abs_, SIZE_OF(x))
NUMBERS(sign, sign)
ALL_NUMBERS(square, square, (w)x * (w)x)
NUMBERS(round, round_)
ALL_NUMBERS(relu, relu, (w)x > 0 ? x : 0)
NUMBERS(relu6, relu6)
FLOATS(sqrt, sqrt_)
FLOATS(rsqrt, rsqrt)
FLOATS(reciprocal, reciprocal)
FLOATS(floor, floor_)
FLOATS(ceil, ceil_)
FLOATS(rint, rint_)
#define ROW(name, ...) FLOATS(name, name)
DFK_FORMULAS1(ROW)
#undef ROW
TESTS(is_nan, is_nan)
TESTS(is_inf, is_inf)
TESTS(is_finite, is_finite)
VECTORS(exp, exp_)
VECTORS(expm1, expm1_)
VECTORS(log, log_)
VECTORS(log1p, log1p_)
VECTORS(sin, sin_)
VECTORS(cos, cos_)
VECTORS(tan, tan_)
VECTORS(asin, asin_)
VECTORS(acos, acos_)
VECTORS(atan, atan_)
VECTORS(sinh, sinh_)
VECTORS(cosh, cosh_)
VECTORS(tanh, tanh_)
VECTORS(asinh, asinh_)
VECTORS(acosh, acosh_)
VECTORS(atanh, atanh_)
VLOOP1(erf_, f32, float)
VLOOP1(erf_, f64, double)
#if DFLOW_FUSED_F32
#define HALF_LOOP(name, s, dtype) \
  static void name##_##s##_loop(void *out, const void *const *in, uint32_t fixed, int64_t n, double param) { \
    enum { BLOCK = 512 };                              /* a whole number of vectors */ \
    float some[BLOCK] __attribute__((aligned(64))) = { 0 }; \
    for (int64_t done = 0, m; done < n; done += m) { \
      m = n - done < BLOCK ? n - done : BLOCK; \
      dfk_half_to_floats(dtype, some, (const uint16_t *)in[0] + done, m); \
      for (int64_t i = 0; i < m; i += LANES_f32) store_f32(some + i, name##_for_half(load_f32(some + i))); \
      dfk_half_from_floats(dtype, (uint16_t *)out + done, some, m); \
    } \
  }
HALF_LOOP(erf, f16, DF_FLOAT16)
HALF_LOOP(erf, bf16, DF_BFLOAT16)
KERNEL(erf, EW_HEAVY, FLOAT_LOOPS(erf_), [DF_FLOAT16] = erf_f16_loop, [DF_BFLOAT16] = erf_bf16_loop)
#else
KERNEL(erf, EW_HEAVY, FLOAT_LOOPS(erf_))
#endif
VECTORS(erfc, erfc_)
VECTORS(erfinv, erfinv_)
VECTORS(lgamma, lgamma_)
VECTORS(sigmoid, sigmoid)
VECTORS(softplus, softplus)
VECTORS(elu, elu)
VECTORS(selu, selu)
INT_LOOP_SET(invert)
KERNEL(invert, EW_LIGHT, INT_LOOPS(invert))
static void logical_not_b_loop(void *out, const void *const *in, uint32_t fixed, int64_t n, double param) {
  const uint8_t *x = in[0];                            /* of loads of bool GCC makes no vectors */
  uint8_t *o = out;
  EW_LANES for (int64_t i = 0; i < n; i++) o[i] = x[i] == 0;
}
KERNEL(logical_not, EW_LIGHT, [DF_BOOL] = logical_not_b_loop)

static void leaky_relu_f32_loop(void *out, const void *const *in, uint32_t fixed, int64_t n, double param) {
  const float *x = in[0];
  float *o = out, alpha = (float)param;
  EW_LANES for (int64_t i = 0; i < n; i++) o[i] = x[i] > 0 ? x[i] : alpha * x[i];
}
static void leaky_relu_f64_loop(void *out, const void *const *in, uint32_t fixed, int64_t n, double param) {
  const double *x = in[0];
  double *o = out, alpha = (float)param;           /* TensorFlow's attribute is a float */
  EW_LANES for (int64_t i = 0; i < n; i++) o[i] = x[i] > 0 ? x[i] : alpha * x[i];
}
int32_t cpu_leaky_relu(df_kernel *k) {
  static const ew_op entry = { .grain = EW_LIGHT, .loop = { FLOAT_LOOPS(leaky_relu) } };
  return cpu_ew_run(k, &entry, dfk_float(k, 0), NULL);
}
