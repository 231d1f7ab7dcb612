/* complex.cu: complex numbers: their parts, functions of one and of two, casts, reductions and scans, and the few
 * kernels of other files that know what they add: one thread for each result. 16 to 48 bytes moved per element. */
#include "complex.cuh"
#include "pieces.h"
#include "functions.cuh"
#include "spread.cuh"

/* ---- functions --------------------------------------------------------------------------------------------------- */
DFK_ELEMENT c128 times_i(c128 x) { return c128(-x.im, x.re); }
DFK_ELEMENT c128 over_i(c128 x)  { return c128(x.im, -x.re); }
DFK_ELEMENT c128 square_c(c128 x) { return x * x; }
DFK_ELEMENT c128 neg_c(c128 x) { return -x; }
DFK_ELEMENT c128 reciprocal_c(c128 x) { return c128(1) / x; }
DFK_ELEMENT c128 sign_c(c128 x) {
  const double size = hypot(x.re, x.im);
  return x.re == 0 && x.im == 0 ? c128(0) : c128(x.re / size, x.im / size);
}
DFK_ELEMENT c128 sqrt__c(c128 x) {
  if (x.re == 0 && x.im == 0) return c128(0, x.im);
  if (infinite(x.im)) return c128(INFINITY, x.im);
  if (infinite(x.re))
    return x.re > 0 ? c128(x.re, x.im == x.im ? copysign(0.0, x.im) : x.im)
                    : c128(x.im == x.im ? 0.0 : x.im, copysign(INFINITY, x.im));
  const bool large = fabs(x.re) > 1e300 || fabs(x.im) > 1e300, small = fabs(x.re) < 1e-290 && fabs(x.im) < 1e-290;
  const double scale = large ? 0.0625 : small ? 0x1p200 : 1, back = large ? 4 : small ? 0x1p-100 : 1;
  const double a = x.re * scale, b = x.im * scale, t = sqrt((fabs(a) + hypot(a, b)) / 2);
  return a >= 0 ? c128(t * back, b / (2 * t) * back) : c128(fabs(b) / (2 * t) * back, copysign(t, b) * back);
}
DFK_ELEMENT c128 rsqrt_c(c128 x) { return c128(1) / sqrt__c(x); }
DFK_ELEMENT c128 exp__c(c128 x) {
  if (x.im == 0) return c128(exp(x.re), x.im);
  if (infinite(x.re) && x.im - x.im != 0)
    return x.re < 0 ? c128(0, copysign(0.0, x.im)) : c128(INFINITY, NAN);
  if (infinite(x.re) && x.re < 0) return c128(copysign(0.0, cos(x.im)), copysign(0.0, sin(x.im)));
  const bool large = x.re > 709;
  const double size = exp(large ? x.re - 709 : x.re), more = large ? 8.2184074615549724e307 : 1;
  return c128(size * cos(x.im) * more, size * sin(x.im) * more);
}
DFK_ELEMENT c128 expm1__c(c128 x) { return exp__c(x) - c128(1); }
DFK_ELEMENT double log_size(c128 x) {
  const bool along = fabs(x.re) > fabs(x.im);
  const double a = fabs(along ? x.re : x.im), b = fabs(along ? x.im : x.re);
  if (a > 0.5 && a < 1.5 && b < 1.5) {                       /* near 1: |x|^2 - 1 by its parts */
    const double rest = (a - 1) * (a + 1) + b * b;
    if (rest > -0.5 && rest < 1) return log1p(rest) / 2;
  }
  return log(hypot(a, b));
}
DFK_ELEMENT c128 log__c(c128 x) { return c128(log_size(x), atan2(x.im, x.re)); }
/* 1 - x and 1 + x, that keep the sign of a zero beside them. */
DFK_ELEMENT c128 below_one(c128 x) { return c128(1 - x.re, -x.im); }
DFK_ELEMENT c128 above_one(c128 x) { return c128(1 + x.re, x.im); }
DFK_ELEMENT c128 log1p__c(c128 x) { return log__c(above_one(x)); }
/* No angle: an infinity or NaN. What C says of functions of it stands where these begin. */
DFK_ELEMENT bool no_angle(double x) { return x - x != 0; }
DFK_ELEMENT c128 sinh__c(c128 x) {
  if (x.im == 0) return c128(sinh(x.re), x.im);
  if (no_angle(x.im)) return c128(x.re == 0 || infinite(x.re) ? x.re : NAN, NAN);
  return c128(sinh(x.re) * cos(x.im), cosh(x.re) * sin(x.im));
}
DFK_ELEMENT c128 cosh__c(c128 x) {
  if (x.im == 0) return c128(cosh(x.re), copysign(0.0, x.re) * x.im);
  if (no_angle(x.im)) return c128(infinite(x.re) ? INFINITY : NAN, x.re == 0 ? 0 : NAN);
  return c128(cosh(x.re) * cos(x.im), sinh(x.re) * sin(x.im));
}
DFK_ELEMENT c128 tanh__c(c128 x) {
  if (x.im == 0) return c128(tanh(x.re), x.im);
  if (no_angle(x.im)) return infinite(x.re) ? c128(copysign(1.0, x.re), 0) : c128(x.re == 0 ? x.re : NAN, NAN);
  if (fabs(x.re) > 22) return c128(copysign(1.0, x.re), 4 * sin(x.im) * cos(x.im) * exp(-2 * fabs(x.re)));
  const double t = tan(x.im), s = sinh(x.re), beta = 1 + t * t, rho = sqrt(1 + s * s), down = 1 + beta * s * s;
  if (infinite(t)) return c128(rho / s, 1 / t);
  return c128(beta * rho * s / down, t / down);
}
DFK_ELEMENT c128 sin__c(c128 x) { return over_i(sinh__c(times_i(x))); }
DFK_ELEMENT c128 cos__c(c128 x) { return cosh__c(times_i(x)); }
DFK_ELEMENT c128 tan__c(c128 x) { return over_i(tanh__c(times_i(x))); }
/* Of an infinity: the angle to the axis that is real or imaginary. */
DFK_ELEMENT bool far(c128 x) { return infinite(x.re) || infinite(x.im); }
DFK_ELEMENT double angle_of_far(c128 x, bool to_real) {
  if (x.re != x.re || x.im != x.im) return NAN;
  return to_real ? atan2(fabs(boxed(x.im)), boxed(x.re)) : atan2(boxed(x.re), fabs(boxed(x.im)));
}
DFK_ELEMENT c128 asin__c(c128 x) {
  if (far(x)) return c128(angle_of_far(x, false), copysign(INFINITY, x.im));
  if (x.re == 0 && x.im != x.im) return x;
  const c128 a = sqrt__c(below_one(x)), b = sqrt__c(above_one(x));
  return c128(atan2(x.re, a.re * b.re - a.im * b.im), asinh(a.re * b.im - a.im * b.re));
}
DFK_ELEMENT c128 acos__c(c128 x) {
  if (far(x)) return c128(angle_of_far(x, true), -copysign(INFINITY, x.im));
  if (x.re == 0 && x.im != x.im) return c128(1.5707963267948966, x.im);
  const c128 a = sqrt__c(below_one(x)), b = sqrt__c(above_one(x));
  return c128(2 * atan2(a.re, b.re), asinh(b.re * a.im - b.im * a.re));
}
DFK_ELEMENT c128 acosh__c(c128 x) {
  if (far(x)) return c128(INFINITY, copysign(angle_of_far(x, true), x.im));
  if (x.re == 0 && x.im != x.im) return c128(x.im, 1.5707963267948966);
  const c128 a = sqrt__c(c128(x.re - 1, x.im)), b = sqrt__c(above_one(x));
  return c128(asinh(a.re * b.re + a.im * b.im), 2 * atan2(a.im, b.re));
}
DFK_ELEMENT c128 asinh__c(c128 x) { return over_i(asin__c(times_i(x))); }
DFK_ELEMENT c128 atanh__c(c128 x) {
  if (x.im != x.im) return c128(x.re == 0 || infinite(x.re) ? copysign(0.0, x.re) : NAN, NAN);
  if (x.re != x.re) return infinite(x.im) ? c128(0, copysign(1.5707963267948966, x.im)) : c128(NAN, NAN);
  if (fabs(x.re) == 1 && x.im != 0 && fabs(x.im) < 1e-100)             /* whose square would be nothing */
    return c128(copysign((log(2.0) - log(fabs(x.im))) / 2, x.re), copysign(0.78539816339744831, x.im));
  const double a = 1 - x.re, b = 1 + x.re, y2 = x.im * x.im;
  const double re = log1p(4 * fabs(x.re) / ((1 - fabs(x.re)) * (1 - fabs(x.re)) + y2)) / 4;
  const double im = fabs(x.re) > 1e150 || fabs(x.im) > 1e150 ? copysign(1.5707963267948966, x.im)
                                                             : atan2(2 * x.im, a * b - y2) / 2;
  return c128(copysign(fabs(x.re) > 1e150 || fabs(x.im) > 1e150 ? (c128(1) / x).re : re, x.re), im);
}
DFK_ELEMENT c128 atan__c(c128 x) { return over_i(atanh__c(times_i(x))); }
DFK_ELEMENT c128 sigmoid_c(c128 x) { return c128(1) / (c128(1) + exp__c(-x)); }
/* The power of a logarithm; by a small whole number products alone would do, but the CPU takes this way, too. */
DFK_ELEMENT c128 pow___c(c128 x, c128 y) {
  if (y == c128(0)) return c128(1);
  if (x == c128(0) && y.re > 0) return c128(0);
  return exp__c(y * log__c(x));
}

DFK_ELEMENT c128 add_c(c128 x, c128 y) { return x + y; }
DFK_ELEMENT c128 sub_c(c128 x, c128 y) { return x - y; }
DFK_ELEMENT c128 mul_c(c128 x, c128 y) { return x * y; }
DFK_ELEMENT c128 real_div_c(c128 x, c128 y) { return x / y; }
DFK_ELEMENT c128 div_no_nan_c(c128 x, c128 y) { return y == c128(0) ? c128(0) : x / y; }
DFK_ELEMENT c128 mul_no_nan_c(c128 x, c128 y) { return y == c128(0) ? c128(0) : x * y; }
DFK_ELEMENT c128 squared_difference_c(c128 x, c128 y) { return (x - y) * conj_of(x - y); }
DFK_ELEMENT c128 xdivy_c(c128 x, c128 y) { return x == c128(0) ? c128(0) : x / y; }
DFK_ELEMENT c128 xlogy_c(c128 x, c128 y) { return x == c128(0) ? c128(0) : x * log__c(y); }
DFK_ELEMENT c128 xlog1py_c(c128 x, c128 y) { return x == c128(0) ? c128(0) : x * log1p__c(y); }
/* With TensorFlow's conjugates. */
DFK_ELEMENT c128 tanh_grad_c(c128 x, c128 y) { return y * (c128(1) - x * x); }
DFK_ELEMENT c128 sigmoid_grad_c(c128 x, c128 y) { return y * x * (c128(1) - x); }
DFK_ELEMENT c128 sqrt_grad_c(c128 x, c128 y) { return y == c128(0) ? y : c128(0.5 * y.re, 0.5 * y.im) / conj_of(x); }
DFK_ELEMENT c128 rsqrt_grad_c(c128 x, c128 y) {
  return y == c128(0) ? y : c128(-0.5 * y.re, -0.5 * y.im) * (conj_of(x) * conj_of(x) * conj_of(x));
}
DFK_ELEMENT c128 reciprocal_grad_c(c128 x, c128 y) { return y == c128(0) ? y : -y * (conj_of(x) * conj_of(x)); }

/* ---- elementwise: the rows of unary.inc and binary.inc that complex numbers have --------------------------------- */
#define ONE(op, fn, s, T) \
  DFC_KERNEL(k_##op##_##s, dfc_unary) { DFC_EACH(i, p.n) ((T *)p.z)[i] = (T)fn##_c((c128)((const T *)p.x)[i]); }
#define TWO(op, s, T, R, ...) \
  DFC_KERNEL(k_##op##_##s, dfc_spread) { \
    DFC_EACH(i, p.n) { \
      int64_t at[3]; \
      places(p, i, at, 2); \
      const c128 x = (c128)load<T>(p.in[0], at[0]), y = (c128)load<T>(p.in[1], at[1]); \
      ((R *)p.z)[i] = (R)(__VA_ARGS__); \
    } \
  }
#define NONE(op, fn)
#define BOTH1(op, fn) ONE(op, fn, c64, c64) ONE(op, fn, c128, c128)
#define BOTH2(op, fn) TWO(op, c64, c64, c64, fn##_c(x, y)) TWO(op, c128, c128, c128, fn##_c(x, y))
#define BY_NUMBERS(op, fn)
#define BY_FLOATS(op, fn)
#define BY_INTS(op, fn)
#define BY_BOOLS(op, fn)
#define BY_TESTS(op, fn)
#define BY_EQUALS(op, fn)
#define BY_RING BOTH1
#define BY_FIELD BOTH1
#define X(type, kinds, op, fn) BY_##kinds(op, fn)
#include "unary.inc"
#undef BY_RING
#undef BY_FIELD
#define BY_RING BOTH2
#define BY_FIELD BOTH2
#include "binary.inc"
#undef X
#define MORE(s, T) \
  TWO(equal, s, T, bool, x == y) \
  TWO(not_equal, s, T, bool, x != y) \
  TWO(approximate_equal, s, T, bool, hypot(x.re - y.re, x.im - y.im) <= p.param)
MORE(c64, c64)
MORE(c128, c128)

/* ---- parts, and casts: of a complex number the real part is taken ------------------------------------------------ */
#define PART(op, s, T, R, ...) \
  DFC_KERNEL(k_##op##_##s, dfc_unary) { \
    DFC_EACH(i, p.n) { \
      const c128 x = (c128)((const T *)p.x)[i]; \
      ((R *)p.z)[i] = (R)(__VA_ARGS__); \
    } \
  }
#define PARTS(s, T, R) \
  PART(real, s, T, R, x.re) \
  PART(imag, s, T, R, x.im) \
  PART(angle, s, T, R, atan2(x.im, x.re)) \
  PART(size, s, T, R, hypot(x.re, x.im)) \
  PART(conj, s, T, T, conj_of(x))
PARTS(c64, c64, float)
PARTS(c128, c128, double)
#define OF_PARTS(s, T, F) \
  DFC_KERNEL(k_complex_##s, dfc_spread) { \
    DFC_EACH(i, p.n) { \
      int64_t at[3]; \
      places(p, i, at, 2); \
      ((T *)p.z)[i] = (T)c128(load<F>(p.in[0], at[0]), load<F>(p.in[1], at[1])); \
    } \
  }
OF_PARTS(f32, c64, float)
OF_PARTS(f64, c128, double)
PART(widen, c64, c64, c128, x)
PART(widen, c128, c128, c64, x)

/* ---- reductions, as reduce.cuh has them: what, DFC_SUM, DFC_MEAN or DFC_PROD ------------------------------------- */
enum { BLOCK = DFC_REDUCE_BLOCK };
DFK_ELEMENT c128 both(int what, c128 a, c128 b) { return what == DFC_PROD ? a * b : a + b; }
DFK_ELEMENT c128 finished(int what, c128 a, int64_t n) {
  return what == DFC_MEAN ? c128(a.re / (double)n, a.im / (double)n) : a;
}
template <class T> DFC_INLINE void reduce_each(const dfc_reduction &p) {
  DFC_EACH(i, p.outer * p.inner) {
    const T *x = (const T *)p.x + i / p.inner * p.n * p.inner + i % p.inner;
    c128 a(p.what == DFC_PROD);
    for (int64_t j = 0; j < p.n; j++) a = both(p.what, a, (c128)x[j * p.inner]);
    ((T *)p.z)[i] = (T)finished(p.what, a, p.n);
  }
}
DFC_INLINE c128 lanes_reduce(int what, c128 mine, c128 *part, int lanes) {
  return lanes_join(mine, part, lanes, [&](c128 a, c128 b) { return both(what, a, b); });
}
template <class T> DFC_INLINE void reduce_block(const dfc_reduction &p, c128 *part) {
  for (int64_t i = blockIdx.x; i < p.outer * p.inner; i += gridDim.x) {
    const T *x = (const T *)p.x + i / p.inner * p.n * p.inner + i % p.inner;
    c128 a(p.what == DFC_PROD);
    for (int64_t j = threadIdx.x; j < p.n; j += BLOCK) a = both(p.what, a, (c128)x[j * p.inner]);
    a = lanes_reduce(p.what, a, part, 1);
    if (threadIdx.x == 0) ((T *)p.z)[i] = (T)finished(p.what, a, p.n);
  }
}
/* The pieces of reductions of many elements, and these as one. */
template <class T> DFC_INLINE void reduce_pieces(const dfc_pieces &p, c128 *part) {
  for (int64_t b = blockIdx.x; b < piece_blocks(p); b += gridDim.x) {
    const dfc_strand s = strand_of(p, b);
    const T *x = (const T *)p.x + s.x;
    c128 a(p.what == DFC_PROD);
    for (int64_t j = s.from; j < s.to; j += s.by) a = both(p.what, a, (c128)x[j * p.inner]);
    a = lanes_reduce(p.what, a, part, p.lanes);
    if (s.first) ((c128 *)p.part)[s.i * p.pieces + s.piece] = a;
  }
}
template <class T> DFC_INLINE void reduce_parts(const dfc_pieces &p, c128 *part) {
  for (int64_t i = blockIdx.x; i < p.outer * p.inner; i += gridDim.x) {
    c128 a(p.what == DFC_PROD);
    const c128 *from = (const c128 *)p.part + i * p.pieces;
    for (int64_t q = threadIdx.x; q < p.pieces; q += BLOCK) a = both(p.what, a, from[q]);
    a = lanes_reduce(p.what, a, part, 1);
    if (threadIdx.x == 0) ((T *)p.z)[i] = (T)finished(p.what, a, p.n);
  }
}
/* ---- along an axis: flags 1: exclusive, 2: reverse --------------------------------------------------------------- */
template <class T> DFC_INLINE void scan_each(const dfc_reduction &p) {
  DFC_EACH(i, p.outer * p.inner) {
    const int64_t first = i / p.inner * p.n * p.inner + i % p.inner;
    c128 a(p.what == DFC_PROD);
    for (int64_t s = 0; s < p.n; s++) {
      const int64_t at = first + (p.flags & 2 ? p.n - 1 - s : s) * p.inner;
      const c128 next = both(p.what, a, (c128)((const T *)p.x)[at]);
      ((T *)p.z)[at] = (T)(p.flags & 1 ? a : next);
      a = next;
    }
  }
}
template <class T> DFC_INLINE void recur(const dfc_recurring &p) {
  DFC_EACH(e, p.outer * p.inner) {
    const int64_t first = e / p.inner * p.n * p.inner + e % p.inner;
    c128 before(0);
    for (int64_t step = 0; step < p.n; step++) {
      const int64_t at = first + (p.reverse ? p.n - 1 - step : step) * p.inner;
      const c128 d = (c128)((const T *)p.d)[at];
      ((T *)p.beside)[at] = (T)before;
      before = step ? d + (c128)((const T *)p.x)[p.reverse ? at + p.inner : at] * before : d;
      ((T *)p.s)[at] = (T)before;
    }
  }
}
#define ALONG(s, T) \
  DFC_KERNEL(k_reduce_each_##s, dfc_reduction) { reduce_each<T>(p); } \
  DFC_KERNEL(k_reduce_block_##s, dfc_reduction) { \
    DFC_SHARED double part[2 * BLOCK]; \
    reduce_block<T>(p, (c128 *)part); \
  } \
  DFC_KERNEL(k_reduce_pieces_##s, dfc_pieces) { \
    DFC_SHARED double part[2 * BLOCK]; \
    reduce_pieces<T>(p, (c128 *)part); \
  } \
  DFC_KERNEL(k_reduce_parts_##s, dfc_pieces) { \
    DFC_SHARED double part[2 * BLOCK]; \
    reduce_parts<T>(p, (c128 *)part); \
  } \
  DFC_KERNEL(k_scan_##s, dfc_reduction) { scan_each<T>(p); } \
  DFC_KERNEL(k_recur_##s, dfc_recurring) { recur<T>(p); }
ALONG(c64, c64)
ALONG(c128, c128)
