/* elementwise.c: the reference of elementwise math: one element at a time, floats in double precision through the C
 * library, integers in int64 (uint64: in uint64), complex numbers in double complex. What the fast kernels are compared
 * with.
 */
#include "../elementwise.h"
#include "element.h"
#include "elementwise.h"
#include <math.h>
#include "../convert.h"
#include "../move.h"

#pragma GCC diagnostic ignored "-Wtype-limits"       /* one text is an expression on int64 and on uint64 */

/* Where element i of the broadcast shape lies in t. */
static int64_t element_of(const df_tensor *t, int64_t i, int32_t rank, const int64_t *dims) {
  int64_t at = 0, stride = 1;
  for (int32_t d = rank - 1, own = t->rank - 1; own >= 0; d--, own--) {
    if (t->dims[own] != 1) at += i % dims[d] * stride;
    stride *= t->dims[own];
    i /= dims[d];
  }
  return at;
}

/* The output, of the broadcast shape of all inputs. NULL: they have none, or memory is out. */
static df_tensor *broadcast_out(df_kernel *k) {
  int32_t rank = 0;
  int64_t dims[DF_MAX_RANK];
  for (int32_t i = 0; i < k->nin; i++) if (k->in[i]->rank > rank) rank = k->in[i]->rank;
  for (int32_t d = 0; d < rank; d++) dims[d] = 1;
  for (int32_t i = 0; i < k->nin; i++) {
    const df_tensor *t = k->in[i];
    for (int32_t own = 0; own < t->rank; own++) {
      int64_t *n = &dims[rank - t->rank + own];
      if (*n == 1) *n = t->dims[own];
      else if (t->dims[own] != 1 && t->dims[own] != *n) {
        dfk_no_broadcast(k);
        return NULL;
      }
    }
  }
  return dfk_out(k, 0, k->out_dtype[0], rank, dims);
}

typedef bool    (*test2)(double x, double y);

int32_t dfk_ref_unary(df_kernel *k, float1 f, int1 g, unsigned1 u, complex1 h) {
  const df_tensor *x = k->in[0];
  df_tensor *out = dfk_out_like(k, 0, x);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < x->size; i++)
    if (dfk_is_complex(x->dtype)) ref_put_complex(out, i, h(ref_get_complex(x, i)));
    else if (x->dtype == DF_UINT64) ((uint64_t *)out->data)[i] = u(((const uint64_t *)x->data)[i]);
    else if (ref_is_float(x->dtype)) ref_put(out, i, f(ref_get(x, i)));
    else ref_put_int(out, i, g(ref_get_int(x, i)));
  return DF_OK;
}
/* The answer is bool. */
static int32_t unary_test(df_kernel *k, bool (*f)(double x)) {
  const df_tensor *x = k->in[0];
  df_tensor *out = dfk_out(k, 0, DF_BOOL, x->rank, x->dims);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < x->size; i++) ref_put_int(out, i, f(ref_get(x, i)));
  return DF_OK;
}
int32_t dfk_ref_binary(df_kernel *k, float2 f, int2 g, unsigned2 u, complex2 h) {
  const df_tensor *x = k->in[0], *y = k->in[1];
  df_tensor *out = broadcast_out(k);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < out->size; i++) {
    int64_t a = element_of(x, i, out->rank, out->dims), b = element_of(y, i, out->rank, out->dims);
    if (ref_is_float(x->dtype)) ref_put(out, i, f(ref_get(x, a), ref_get(y, b)));
    else if (dfk_is_complex(x->dtype)) ref_put_complex(out, i, h(ref_get_complex(x, a), ref_get_complex(y, b)));
    else if (x->dtype == DF_UINT64)
      ((uint64_t *)out->data)[i] = u(((const uint64_t *)x->data)[a], ((const uint64_t *)y->data)[b]);
    else ref_put_int(out, i, g(ref_get_int(x, a), ref_get_int(y, b)));
  }
  return DF_OK;
}
static int compare_strings(const df_str *a, const df_str *b) {
  if (a->length != b->length) return 1;
  return a->length ? memcmp(a->bytes, b->bytes, (size_t)a->length) : 0;
}
static int32_t binary_test(df_kernel *k, test2 f, int2 g, unsigned2 u) {
  const df_tensor *x = k->in[0], *y = k->in[1];
  df_tensor *out = broadcast_out(k);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < out->size; i++) {
    int64_t a = element_of(x, i, out->rank, out->dims), b = element_of(y, i, out->rank, out->dims);
    if (ref_is_float(x->dtype)) ref_put_int(out, i, f(ref_get(x, a), ref_get(y, b)));
    else if (x->dtype == DF_STRING)
      ref_put_int(out, i, g(compare_strings((df_str *)x->data + a, (df_str *)y->data + b), 0));
    else if (x->dtype == DF_UINT64)
      ref_put_int(out, i, (int64_t)u(((const uint64_t *)x->data)[a], ((const uint64_t *)y->data)[b]));
    /* (not) equal */
    else if (dfk_is_complex(x->dtype)) ref_put_int(out, i, g(ref_get_complex(x, a) != ref_get_complex(y, b), 0));
    else ref_put_int(out, i, g(ref_get_int(x, a), ref_get_int(y, b)));
  }
  return DF_OK;
}

/* ---- the ops. f is for floats, g for integers and bool (u: g on uint64), h for complex numbers; 0: there are none  */
#define UNARY(name, f_of_x, g_of_x, h_of_x) \
  static double f_##name(double x) { return f_of_x; } \
  static int64_t g_##name(int64_t x) { return g_of_x; } \
  static uint64_t u_##name(uint64_t x) { return (uint64_t)(g_of_x); } \
  static double complex h_##name(double complex x) { return h_of_x; } \
  int32_t ref_##name(df_kernel *k) { return dfk_ref_unary(k, f_##name, g_##name, u_##name, h_##name); }
#define UNARY_TEST(name, f_of_x) \
  static bool f_##name(double x) { return f_of_x; } \
  int32_t ref_##name(df_kernel *k) { return unary_test(k, f_##name); }
#define FUNCTIONS(name, f_of_xy, g_of_xy, u_of_xy, h_of_xy) \
  static double f_##name(double x, double y) { return f_of_xy; } \
  static int64_t g_##name(int64_t x, int64_t y) { return g_of_xy; } \
  static uint64_t u_##name(uint64_t x, uint64_t y) { return (uint64_t)(u_of_xy); } \
  static double complex h_##name(double complex x, double complex y) { return h_of_xy; }
#define BINARY(name, f_of_xy, g_of_xy, h_of_xy) \
  FUNCTIONS(name, f_of_xy, g_of_xy, g_of_xy, h_of_xy) \
  int32_t ref_##name(df_kernel *k) { return dfk_ref_binary(k, f_##name, g_##name, u_##name, h_##name); }
#define BINARY_TEST(name, f_of_xy, g_of_xy) \
  static bool f_##name(double x, double y) { return f_of_xy; } \
  static int64_t g_##name(int64_t x, int64_t y) { return g_of_xy; } \
  static uint64_t u_##name(uint64_t x, uint64_t y) { return g_of_xy; } \
  int32_t ref_##name(df_kernel *k) { return binary_test(k, f_##name, g_##name, u_##name); }

static int64_t wrap_add(int64_t x, int64_t y) { return (int64_t)((uint64_t)x + (uint64_t)y); }
static int64_t wrap_sub(int64_t x, int64_t y) { return (int64_t)((uint64_t)x - (uint64_t)y); }
static int64_t wrap_mul(int64_t x, int64_t y) { return (int64_t)((uint64_t)x * (uint64_t)y); }

UNARY(neg, -x, wrap_sub(0, x), -x)
UNARY(abs, fabs(x), x < 0 ? wrap_sub(0, x) : (int64_t)x, 0)
UNARY(sign, x > 0 ? 1 : x < 0 ? -1 : x, x > 0 ? 1 : x < 0 ? -1 : 0, x == 0 ? 0 : x / cabs(x))
UNARY(square, x * x, wrap_mul(x, x), x * x)
UNARY(sqrt, sqrt(x), 0, csqrt(x))
UNARY(rsqrt, 1 / sqrt(x), 0, 1 / csqrt(x))
UNARY(reciprocal, 1 / x, 0, 1 / x)
UNARY(exp, exp(x), 0, cexp(x))
UNARY(expm1, expm1(x), 0, cexp(x) - 1)
UNARY(log, log(x), 0, clog(x))
UNARY(log1p, log1p(x), 0, clog(1 + x))
UNARY(sin, sin(x), 0, csin(x))
UNARY(cos, cos(x), 0, ccos(x))
UNARY(tan, tan(x), 0, ctan(x))
UNARY(asin, asin(x), 0, casin(x))
UNARY(acos, acos(x), 0, cacos(x))
UNARY(atan, atan(x), 0, catan(x))
UNARY(sinh, sinh(x), 0, csinh(x))
UNARY(cosh, cosh(x), 0, ccosh(x))
UNARY(tanh, tanh(x), 0, ctanh(x))
UNARY(asinh, asinh(x), 0, casinh(x))
UNARY(acosh, acosh(x), 0, cacosh(x))
UNARY(atanh, atanh(x), 0, catanh(x))
UNARY(erf, erf(x), 0, 0)
UNARY(erfc, erfc(x), 0, 0)
static double log_gamma(double x) { int sign; return lgamma_r(x, &sign); }
UNARY(lgamma, log_gamma(x), 0, 0)
UNARY(floor, floor(x), x, 0)
UNARY(ceil, ceil(x), x, 0)
UNARY(round, nearbyint(x), x, 0)
UNARY(rint, nearbyint(x), x, 0)
UNARY_TEST(is_nan, isnan(x))
UNARY_TEST(is_inf, isinf(x))
UNARY_TEST(is_finite, isfinite(x))
UNARY(sigmoid, 1 / (1 + exp(-x)), 0, 1 / (1 + cexp(-x)))
UNARY(softplus, (x > 0 ? x : 0) + log1p(exp(-fabs(x))), 0, 0)
/* The inverse of erf by bisection: slow, and with no formula to be wrong. */
static double inverse_erf(double y) {
  if (!(fabs(y) < 1)) return fabs(y) == 1 ? copysign(INFINITY, y) : NAN;
  double low = 0, high = 6;
  for (int i = 0; i < 200; i++) {
    const double middle = (low + high) / 2;
    if (erfc(middle) > 1 - fabs(y) && erf(middle) < fabs(y)) low = middle; else high = middle;
  }
  return copysign(low, y);
}
UNARY(erfinv, inverse_erf(x), 0, 0)
static double normal_quantile(double p) {
  if (!(p > 0 && p < 1)) return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
  double low = -40, high = 40;
  for (int i = 0; i < 200; i++) {
    const double middle = (low + high) / 2;
    if (middle < 0 ? erfc(-middle / sqrt(2)) < 2 * p : erfc(middle / sqrt(2)) > 2 * (1 - p)) low = middle;
    else high = middle;
  }
  return low;
}
UNARY(ndtri, normal_quantile(x), 0, 0)
UNARY(softsign, x / (1 + fabs(x)), 0, 0)
UNARY(relu, isnan(x) || x > 0 ? x : 0, x > 0 ? x : 0, 0)
UNARY(relu6, isnan(x) ? x : x <= 0 ? 0 : x > 6 ? 6 : x, x <= 0 ? 0 : x > 6 ? 6 : x, 0)
UNARY(elu, x < 0 ? expm1(x) : x, 0, 0)
static const double selu_scale = 1.0507009873554804934193349852946, selu_alpha = 1.6732632423543772848170429916717;
UNARY(selu, selu_scale * (x < 0 ? selu_alpha * expm1(x) : x), 0, 0)
UNARY(logical_not, 0, !x, 0)
UNARY(invert, 0, ~x, 0)

FUNCTIONS(add, x + y, wrap_add(x, y), wrap_add(x, y), x + y)
/* One string behind the other. */
static int32_t join_strings(df_kernel *k) {
  df_tensor *out = broadcast_out(k);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < out->size; i++) {
    const df_str *a = (const df_str *)k->in[0]->data + element_of(k->in[0], i, out->rank, out->dims);
    const df_str *b = (const df_str *)k->in[1]->data + element_of(k->in[1], i, out->rank, out->dims);
    char *both = dfk_scratch(k, a->length + b->length + 1);
    if (!both) return k->error->code;
    if (a->length) memcpy(both, a->bytes, (size_t)a->length);
    if (b->length) memcpy(both + a->length, b->bytes, (size_t)b->length);
    bool ok = dfk_set_string(k, out, i, both, a->length + b->length);
    dfk_free(both);
    if (!ok) return k->error->code;
  }
  return DF_OK;
}
int32_t ref_add(df_kernel *k) {
  return k->in[0]->dtype == DF_STRING ? join_strings(k) : dfk_ref_binary(k, f_add, g_add, u_add, h_add);
}
BINARY(sub, x - y, wrap_sub(x, y), x - y)
BINARY(mul, x * y, wrap_mul(x, y), x * y)
BINARY(real_div, x / y, 0, x / y)
BINARY(div_no_nan, y == 0 ? 0 : x / y, 0, y == 0 ? 0 : x / y)
BINARY(xdivy, x == 0 ? 0 : x / y, 0, x == 0 ? 0 : x / y)
BINARY(xlogy, x == 0 ? 0 : x * log(y), 0, x == 0 ? 0 : x * clog(y))
BINARY(xlog1py, x == 0 ? 0 : x * log1p(y), 0, x == 0 ? 0 : x * clog(1 + y))
BINARY(mul_no_nan, y == 0 ? 0 : x * y, 0, y == 0 ? 0 : x * y)
BINARY(atan2, atan2(x, y), 0, 0)
BINARY(maximum, isnan(x) || x > y ? x : x == y ? x : y, x > y ? x : y, 0)
BINARY(minimum, isnan(x) || x < y ? x : x == y ? x : y, x < y ? x : y, 0)
BINARY(squared_difference, (x - y) * (x - y), wrap_mul(wrap_sub(x, y), wrap_sub(x, y)), (x - y) * conj(x - y))
static double round_up(double r, double y) { return r != 0 && (r < 0) != (y < 0) ? r + y : r; }
static int64_t divide(int64_t x, int64_t y)   { return y == -1 ? wrap_sub(0, x) : x / y; }
static int64_t remains(int64_t x, int64_t y)  { return y == -1 ? 0 : x % y; }
#define DIVISION(name, f_of_xy, g_of_xy, u_of_xy) \
  FUNCTIONS(name, f_of_xy, g_of_xy, u_of_xy, 0) \
  int32_t ref_##name(df_kernel *k) { \
    int32_t bad = dfk_check_divisor(k); \
    return bad ? bad : dfk_ref_binary(k, f_##name, g_##name, u_##name, h_##name); \
  }
DIVISION(truncate_div, trunc(x / y), divide(x, y), x / y)
DIVISION(truncate_mod, fmod(x, y), remains(x, y), x % y)
DIVISION(floor_div, floor(x / y), divide(x, y) - (remains(x, y) != 0 && (x < 0) != (y < 0)), x / y)
DIVISION(floor_mod, round_up(fmod(x, y), y), remains(x, y) + (remains(x, y) != 0 && (x < 0) != (y < 0) ? y : 0), x % y)
/* TensorFlow 1's Div: the quotient of floats, and of integers as in C. */
int32_t ref_div(df_kernel *k) {
  return ref_is_float(k->in[0]->dtype) || dfk_is_complex(k->in[0]->dtype) ? ref_real_div(k) : ref_truncate_div(k);
}
static int64_t power(int64_t x, int64_t y) {
  uint64_t result = 1, base = (uint64_t)x, left = (uint64_t)y;
  for (; left; left >>= 1, base *= base) if (left & 1) result *= base;
  return (int64_t)result;
}
FUNCTIONS(pow, pow(x, y), power(x, y), power((int64_t)x, (int64_t)y),
          y == 0                   ? 1
          : x == 0 && creal(y) > 0 ? 0
                                   : cpow(x, y))
int32_t ref_pow(df_kernel *k) {
  int32_t bad = dfk_check_exponent(k);
  return bad ? bad : dfk_ref_binary(k, f_pow, g_pow, u_pow, h_pow);
}

BINARY_TEST(less, x < y, x < y)
BINARY_TEST(less_equal, x <= y, x <= y)
BINARY_TEST(greater, x > y, x > y)
BINARY_TEST(greater_equal, x >= y, x >= y)
BINARY_TEST(equal, x == y, x == y)
BINARY_TEST(not_equal, x != y, x != y)
BINARY(logical_and, 0, x && y, 0)
BINARY(logical_or, 0, x || y, 0)
BINARY(logical_xor, 0, !x != !y, 0)
BINARY(bitwise_and, 0, x & y, 0)
BINARY(bitwise_or, 0, x | y, 0)
BINARY(bitwise_xor, 0, x ^ y, 0)
/* The count is held between 0 and the width - 1. */
static int64_t count(int64_t y, int64_t bits) { return y < 0 ? 0 : y >= bits ? bits - 1 : y; }
static int32_t shift(df_kernel *k, bool left) {
  const df_tensor *x = k->in[0], *y = k->in[1];
  int64_t bits = 8 * df_dtype_bytes(x->dtype);
  df_tensor *out = broadcast_out(k);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < out->size; i++) {
    int64_t v = ref_get_int(x, element_of(x, i, out->rank, out->dims));
    int64_t by = ref_get_int(y, element_of(y, i, out->rank, out->dims));
    int64_t n = x->dtype == DF_UINT64 && by < 0 ? bits - 1 : count(by, bits);
    ref_put_int(out, i,
                left                    ? (int64_t)((uint64_t)v << n)
                : x->dtype == DF_UINT64 ? (int64_t)((uint64_t)v >> n)
                                        : v >> n);
  }
  return DF_OK;
}
int32_t ref_left_shift(df_kernel *k)  { return shift(k, true); }
int32_t ref_right_shift(df_kernel *k) { return shift(k, false); }

BINARY(tanh_grad, y * ((1 - x) * (1 + x)), 0, y * (1 - x * x))
BINARY(sigmoid_grad, y * x * (1 - x), 0, y * x * (1 - x))
BINARY(sqrt_grad, y == 0 ? 0 : 0.5 * y / x, 0, y == 0 ? 0 : 0.5 * y / conj(x))
BINARY(rsqrt_grad, y == 0 ? 0 : -0.5 * y * (x * x * x), 0, y == 0 ? 0 : -0.5 * y * (conj(x) * conj(x) * conj(x)))
BINARY(reciprocal_grad, y == 0 ? 0 : -y * (x * x), 0, y == 0 ? 0 : -y * (conj(x) * conj(x)))
BINARY(relu_grad, y > 0 ? x : 0, y > 0 ? x : 0, 0)
BINARY(relu6_grad, y > 0 && y < 6 ? x : 0, y > 0 && y < 6 ? x : 0, 0)
BINARY(elu_grad, y < 0 ? x * (y + 1) : x, 0, 0)
BINARY(selu_grad, y < 0 ? x * (y + selu_scale * selu_alpha) : x * selu_scale, 0, 0)
BINARY(softplus_grad, x / (1 + exp(-y)), 0, 0)
static double next_float(double x, double y) { return nextafterf((float)x, (float)y); }
int32_t ref_next_after(df_kernel *k) {
  return dfk_ref_binary(k, k->in[0]->dtype == DF_FLOAT64 ? nextafter : next_float, NULL, NULL, NULL);
}
BINARY(softsign_grad, x / ((1 + fabs(y)) * (1 + fabs(y))), 0, 0)

int32_t ref_leaky_relu(df_kernel *k) {
  const df_tensor *x = k->in[0];
  df_tensor *out = dfk_out_like(k, 0, x);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < x->size; i++) {
    double v = ref_get(x, i);
    ref_put(out, i, v > 0 ? v : (float)dfk_float(k, 0) * v);
  }
  return DF_OK;
}
int32_t ref_leaky_relu_grad(df_kernel *k) {
  const df_tensor *dy = k->in[0], *x = k->in[1];
  df_tensor *out = broadcast_out(k);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < out->size; i++) {
    double d = ref_get(dy, element_of(dy, i, out->rank, out->dims)),
           v = ref_get(x, element_of(x, i, out->rank, out->dims));
    ref_put(out, i, v > 0 ? d : (float)dfk_float(k, 0) * d);
  }
  return DF_OK;
}
int32_t ref_approximate_equal(df_kernel *k) {
  const df_tensor *x = k->in[0], *y = k->in[1];
  df_tensor *out = broadcast_out(k);
  if (!out) return k->error->code;
  const float tolerance = (float)dfk_float(k, 0);
  for (int64_t i = 0; i < out->size; i++) {
    int64_t a = element_of(x, i, out->rank, out->dims), b = element_of(y, i, out->rank, out->dims);
    if (dfk_is_complex(x->dtype)) {
      ref_put_int(out, i, cabs(ref_get_complex(x, a) - ref_get_complex(y, b)) <= tolerance);
      continue;
    }
    double v = ref_is_float(x->dtype)  ? ref_get(x, a)
               : x->dtype == DF_UINT64 ? (double)((uint64_t *)x->data)[a]
                                       : (double)ref_get_int(x, a);
    double w = ref_is_float(x->dtype)  ? ref_get(y, b)
               : x->dtype == DF_UINT64 ? (double)((uint64_t *)y->data)[b]
                                       : (double)ref_get_int(y, b);
    double apart = x->dtype == DF_FLOAT32 ? (float)v - (float)w : v - w;
    ref_put_int(out, i, fabs(apart) <= tolerance);
  }
  return DF_OK;
}

/* ---- choosing ------------------------------------------------------------------------------------------- */
int32_t ref_select_v2(df_kernel *k) {
  df_tensor *out = broadcast_out(k);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < out->size; i++) {
    bool c = ((const bool *)k->in[0]->data)[element_of(k->in[0], i, out->rank, out->dims)];
    const df_tensor *t = k->in[c ? 1 : 2];
    if (!dfk_copy(k, out, i, t, element_of(t, i, out->rank, out->dims), 1)) return k->error->code;
  }
  return DF_OK;
}
int32_t ref_select(df_kernel *k) {
  const df_tensor *c = k->in[0], *a = k->in[1], *b = k->in[2];
  bool rows = c->rank == 1 && a->rank > 1 && c->dims[0] == a->dims[0];
  if (!dfk_same_dims(a, b) || !(c->rank == 0 || rows || dfk_same_dims(c, a))) {
    char text[3][160];
    return dfk_fail(k, DF_INVALID_ARGUMENT,
                    "condition %s does not choose between %s and %s: these must have one shape, and the "
                    "condition that shape, one element, or one for each row",
                    dfk_shape_text(c, text[0], sizeof text[0]), dfk_shape_text(a, text[1], sizeof text[1]),
                    dfk_shape_text(b, text[2], sizeof text[2]));
  }
  df_tensor *out = dfk_out_like(k, 0, a);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < out->size; i++) {
    int64_t from = c->rank == 0 ? 0 : rows ? i / (a->size / a->dims[0]) : i;
    if (!dfk_copy(k, out, i, ((const bool *)c->data)[from] ? a : b, i, 1)) return k->error->code;
  }
  return DF_OK;
}

int32_t ref_clip_by_value(df_kernel *k) {
  df_tensor *out = broadcast_out(k);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < out->size; i++) {
    int64_t at[3];
    for (int32_t j = 0; j < 3; j++) at[j] = element_of(k->in[j], i, out->rank, out->dims);
    if (ref_is_float(out->dtype)) {
      double x = ref_get(k->in[0], at[0]), low = ref_get(k->in[1], at[1]), high = ref_get(k->in[2], at[2]);
      if (x > high) x = high;
      ref_put(out, i, x < low ? low : x);
    } else {
      int64_t x = ref_get_int(k->in[0], at[0]), low = ref_get_int(k->in[1], at[1]), high = ref_get_int(k->in[2], at[2]);
      if (ref_below(out->dtype, high, x)) x = high;
      ref_put_int(out, i, ref_below(out->dtype, x, low) ? low : x);
    }
  }
  return DF_OK;
}

int32_t ref_add_n(df_kernel *k) {
  const df_tensor *first = k->in[0];
  for (int32_t i = 1; i < k->nin; i++) {
    char a[160], b[160];
    if (!dfk_same_dims(first, k->in[i]))
      return dfk_fail(k, DF_INVALID_ARGUMENT, "input %d is %s but input 0 is %s: they must have one shape", i,
                      dfk_shape_text(k->in[i], a, sizeof a), dfk_shape_text(first, b, sizeof b));
  }
  df_tensor *out = dfk_out_like(k, 0, first);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < out->size; i++) {
    double sum = 0;
    double complex both = 0;
    int64_t whole = 0;
    for (int32_t j = 0; j < k->nin; j++)
      if (dfk_is_complex(out->dtype)) both += ref_get_complex(k->in[j], i);
      else if (ref_is_float(out->dtype)) sum += ref_get(k->in[j], i);
      else whole = wrap_add(whole, ref_get_int(k->in[j], i));
    if (dfk_is_complex(out->dtype)) ref_put_complex(out, i, both);
    else if (ref_is_float(out->dtype)) ref_put(out, i, sum);
    else ref_put_int(out, i, whole);
  }
  return DF_OK;
}

/* ---- casts -------------------------------------------------------------------------------------------------- */
int32_t ref_cast(df_kernel *k) {
  const df_tensor *x = k->in[0];
  df_tensor *out = dfk_out(k, 0, k->out_dtype[0], x->rank, x->dims);
  if (!out) return k->error->code;
  uint8_t from = dfk_underlying(x->dtype), to = dfk_underlying(out->dtype);
  if (dfk_is_rare(from) || dfk_is_rare(to) || from != x->dtype || to != out->dtype) {
    dfk_convert(from, x->data, to, out->data, x->size);
    return DF_OK;
  }
  for (int64_t i = 0; i < x->size; i++) {
    if (ref_is_float(x->dtype)) {
      double v = ref_get(x, i);
      int64_t bits = 8 * df_dtype_bytes(out->dtype), low = 0, high = 255;
      if (out->dtype != DF_UINT8) low = bits == 64 ? INT64_MIN : -(INT64_C(1) << (bits - 1)), high = -(low + 1);
      if (ref_is_float(out->dtype)) ref_put(out, i, v);
      else if (out->dtype == DF_BOOL) ref_put_int(out, i, v != 0);
      else if (isnan(v)) ref_put_int(out, i, 0);
      else if (v <= (double)low) ref_put_int(out, i, low);
      else if (v >= (double)high) ref_put_int(out, i, high);
      else ref_put_int(out, i, (int64_t)v);
    } else {
      int64_t v = ref_get_int(x, i);
      if (out->dtype == DF_FLOAT32) ((float *)out->data)[i] = (float)v;   /* rounded once, also from 64 bits */
      else if (out->dtype == DF_FLOAT16) ((uint16_t *)out->data)[i] = dfk_f16_from_float(dfk_odd_from_int(v));
      else if (out->dtype == DF_BFLOAT16) ((uint16_t *)out->data)[i] = dfk_bf16_from_float(dfk_odd_from_int(v));
      else if (ref_is_float(out->dtype)) ref_put(out, i, (double)v);
      else ref_put_int(out, i, v);
    }
  }
  return DF_OK;
}
