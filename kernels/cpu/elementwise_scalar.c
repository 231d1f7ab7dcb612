/* elementwise_scalar.c: the elementwise ops on unboxed rank-0 operands: what a loop counter, a loss or a predicate
 * costs. One function per op and dtype, from the same elements.h as the tensors' loops, so the bits agree. scalar_x
 * gives the one for these dtypes, or NULL: then the executor calls the kernel.
 */
#include "../elementwise.h"
#include "cast.h"
#include "elements.h"

bool dfk_polynomials(void) {
#if DFLOW_FUSED_F32
  return true;
#else
  return false;
#endif
}

#define SCALAR1(name, s, field, answer) \
  static bool name##_##s##_scalar(df_value *out, const df_value *a, const df_value *b, const df_value *c) { \
    out->as.answer = name##_##s(a->as.field); \
    return true; \
  }
#define SCALAR2(name, s, field, answer) \
  static bool name##_##s##_scalar(df_value *out, const df_value *a, const df_value *b, const df_value *c) { \
    out->as.answer = name##_##s(a->as.field, b->as.field); \
    return true; \
  }
/* With a condition on the operands under which the kernel is asked instead (to report the error). */
#define SCALAR2_IF(name, s, field, good) \
  static bool name##_##s##_scalar(df_value *out, const df_value *a, const df_value *b, const df_value *c) { \
    if (!(b->as.field good)) return false; \
    out->as.field = name##_##s(a->as.field, b->as.field); \
    return true; \
  }
/* scalar_op: by the dtype of the first operand. */
#define CHOOSE(op, ...) \
  df_scalar_fn scalar_##op(const uint8_t *in, uint8_t out) { \
    static const df_scalar_fn by_dtype[DF_UINT64 + 1] = { __VA_ARGS__ }; \
    return by_dtype[in[0]]; \
  }
#define ALL_FLOATS(name) [DF_FLOAT32] = name##_f32_scalar, [DF_FLOAT64] = name##_f64_scalar
#define ALL_INTS(name)   [DF_INT32] = name##_i32_scalar, [DF_INT64] = name##_i64_scalar

#define FLOATS1(op, name)  SCALAR1(name, f32, f32, f32) SCALAR1(name, f64, f64, f64) CHOOSE(op, ALL_FLOATS(name))
#define TESTS1(op, name)   SCALAR1(name, f32, f32, b) SCALAR1(name, f64, f64, b) CHOOSE(op, ALL_FLOATS(name))
#define NUMBERS1(op, name) \
  SCALAR1(name, f32, f32, f32) SCALAR1(name, f64, f64, f64) SCALAR1(name, i32, i32, i32) SCALAR1(name, i64, i64, i64) \
  CHOOSE(op, ALL_FLOATS(name), ALL_INTS(name))
#define FLOATS2(op, name)  SCALAR2(name, f32, f32, f32) SCALAR2(name, f64, f64, f64) CHOOSE(op, ALL_FLOATS(name))
#define INTS2(op, name)    SCALAR2(name, i32, i32, i32) SCALAR2(name, i64, i64, i64) CHOOSE(op, ALL_INTS(name))
#define NUMBERS2(op, name) \
  SCALAR2(name, f32, f32, f32) SCALAR2(name, f64, f64, f64) SCALAR2(name, i32, i32, i32) SCALAR2(name, i64, i64, i64) \
  CHOOSE(op, ALL_FLOATS(name), ALL_INTS(name))
#define TESTS2(op, name, ...) \
  SCALAR2(name, f32, f32, b) SCALAR2(name, f64, f64, b) SCALAR2(name, i32, i32, b) SCALAR2(name, i64, i64, b) \
  CHOOSE(op, ALL_FLOATS(name), ALL_INTS(name), __VA_ARGS__)
#define DIVIDES(op, name, good) \
  SCALAR2(name, f32, f32, f32) SCALAR2(name, f64, f64, f64) SCALAR2_IF(name, i32, i32, good) SCALAR2_IF(name, i64, \
    i64, good) \
  CHOOSE(op, ALL_FLOATS(name), ALL_INTS(name))
#define BOOLS2(op) SCALAR2(op, b, b, b) CHOOSE(op, [DF_BOOL] = op##_b_scalar)

NUMBERS1(neg, neg)
NUMBERS1(abs, abs_)
NUMBERS1(sign, sign)
NUMBERS1(square, square)
NUMBERS1(round, round_)
NUMBERS1(relu, relu)
NUMBERS1(relu6, relu6)
FLOATS1(sqrt, sqrt_)
FLOATS1(rsqrt, rsqrt)
FLOATS1(reciprocal, reciprocal)
FLOATS1(floor, floor_)
FLOATS1(ceil, ceil_)
FLOATS1(rint, rint_)
FLOATS1(exp, exp_)
FLOATS1(expm1, expm1_)
FLOATS1(log, log_)
FLOATS1(log1p, log1p_)
FLOATS1(sin, sin_)
FLOATS1(cos, cos_)
FLOATS1(tan, tan_)
FLOATS1(asin, asin_)
FLOATS1(acos, acos_)
FLOATS1(atan, atan_)
FLOATS1(sinh, sinh_)
FLOATS1(cosh, cosh_)
FLOATS1(tanh, tanh_)
FLOATS1(asinh, asinh_)
FLOATS1(acosh, acosh_)
FLOATS1(atanh, atanh_)
FLOATS1(erf, erf_)
FLOATS1(erfc, erfc_)
FLOATS1(erfinv, erfinv_)
FLOATS1(lgamma, lgamma_)
FLOATS1(sigmoid, sigmoid)
FLOATS1(softplus, softplus)
#define ROW(name, ...) FLOATS1(name, name)
DFK_FORMULAS1(ROW)
#undef ROW
FLOATS1(elu, elu)
FLOATS1(selu, selu)
TESTS1(is_nan, is_nan)
TESTS1(is_inf, is_inf)
TESTS1(is_finite, is_finite)
SCALAR1(invert, i32, i32, i32)
SCALAR1(invert, i64, i64, i64)
CHOOSE(invert, ALL_INTS(invert))
SCALAR1(logical_not, b, b, b)
CHOOSE(logical_not, [DF_BOOL] = logical_not_b_scalar)

NUMBERS2(add, add)
NUMBERS2(sub, sub)
NUMBERS2(mul, mul)
NUMBERS2(maximum, maximum)
NUMBERS2(minimum, minimum)
NUMBERS2(squared_difference, squared_difference)
NUMBERS2(relu_grad, relu_grad)
NUMBERS2(relu6_grad, relu6_grad)
DIVIDES(floor_div, floor_div, != 0)
DIVIDES(floor_mod, floor_mod, != 0)
DIVIDES(truncate_div, truncate_div, != 0)
DIVIDES(truncate_mod, truncate_mod, != 0)
DIVIDES(pow, pow_, >= 0)
FLOATS2(real_div, real_div)
FLOATS2(div_no_nan, div_no_nan)
FLOATS2(xdivy, xdivy)
FLOATS2(xlogy, xlogy)
FLOATS2(xlog1py, xlog1py)
FLOATS2(mul_no_nan, mul_no_nan)
df_scalar_fn scalar_div(const uint8_t *in, uint8_t out) {
  return in[0] == DF_FLOAT32 || in[0] == DF_FLOAT64 ? scalar_real_div(in, out) : scalar_truncate_div(in, out);
}
FLOATS2(atan2, atan2_)
FLOATS2(tanh_grad, tanh_grad)
FLOATS2(sigmoid_grad, sigmoid_grad)
FLOATS2(sqrt_grad, sqrt_grad)
FLOATS2(rsqrt_grad, rsqrt_grad)
FLOATS2(reciprocal_grad, reciprocal_grad)
FLOATS2(elu_grad, elu_grad)
FLOATS2(selu_grad, selu_grad)
FLOATS2(softplus_grad, softplus_grad)
#define ROW(name, ...) FLOATS2(name, name)
DFK_FORMULAS2(ROW)
#undef ROW
TESTS2(less, less)
TESTS2(less_equal, less_equal)
TESTS2(greater, greater)
TESTS2(greater_equal, greater_equal)
SCALAR2(equal, b, b, b)
SCALAR2(not_equal, b, b, b)
TESTS2(equal, equal, [DF_BOOL] = equal_b_scalar)
TESTS2(not_equal, not_equal, [DF_BOOL] = not_equal_b_scalar)
BOOLS2(logical_and)
BOOLS2(logical_or)
BOOLS2(logical_xor)
INTS2(bitwise_and, bitwise_and)
INTS2(bitwise_or, bitwise_or)
INTS2(bitwise_xor, bitwise_xor)
INTS2(left_shift, left_shift)
INTS2(right_shift, right_shift)

/* An unboxed number of any dtype fills no more than the eight bytes of the payload. */
static bool unboxed(uint8_t dtype) { return dfk_plain(dtype) && !dfk_is_complex(dtype); }
static bool select_scalar(df_value *out, const df_value *a, const df_value *b, const df_value *c) {
  out->as.i64 = a->as.b ? b->as.i64 : c->as.i64;
  return true;
}
df_scalar_fn scalar_select(const uint8_t *in, uint8_t out)    { return unboxed(in[1]) ? select_scalar : NULL; }
df_scalar_fn scalar_select_v2(const uint8_t *in, uint8_t out) { return unboxed(in[1]) ? select_scalar : NULL; }

#define CLIP(s) \
  static bool clip_##s##_scalar(df_value *out, const df_value *a, const df_value *b, const df_value *c) { \
    out->as.s = a->as.s > c->as.s ? c->as.s : a->as.s; \
    if (out->as.s < b->as.s) out->as.s = b->as.s; \
    return true; \
  }
CLIP(f32)
CLIP(f64)
CLIP(i32)
CLIP(i64)
CHOOSE(clip_by_value, ALL_FLOATS(clip), ALL_INTS(clip))

#define CAST(from, From, to, To) \
  static bool from##_to_##to##_scalar(df_value *out, const df_value *a, const df_value *b, const df_value *c) { \
    out->as.to = from##_to_##to(a->as.from); \
    return true; \
  }
CAST_PAIRS(CAST)
#define ROW(from) { [DF_FLOAT32] = from##_to_f32_scalar, [DF_FLOAT64] = from##_to_f64_scalar, \
  [DF_INT8] = from##_to_i8_scalar, \
                    [DF_UINT8] = from##_to_u8_scalar, [DF_INT32] = from##_to_i32_scalar, \
                      [DF_INT64] = from##_to_i64_scalar, \
                    [DF_BOOL] = from##_to_b_scalar }
df_scalar_fn scalar_cast(const uint8_t *in, uint8_t out) {
  static const df_scalar_fn casts[DF_UINT64 + 1][DF_UINT64 + 1] = {
    [DF_FLOAT32] = ROW(f32), [DF_FLOAT64] = ROW(f64), [DF_INT8] = ROW(i8), [DF_UINT8] = ROW(u8), [DF_INT32] = ROW(i32),
    [DF_INT64] = ROW(i64), [DF_BOOL] = ROW(b)
  };
  return casts[in[0]][out];
}
