/* elements.h: each elementwise op on one element (the arithmetic ones, ../expressions.h: plain C, which the compiler
 * turns into vectors) or on one vector (those that need SLEEF). Tensors (elementwise_*.c) and unboxed scalars
 * (elementwise_scalar.c) both compute with these, so a number does not depend on the shape it came in. These files
 * are compiled without fused multiply-add for the same reason.
 *
 * In an expression x, y are the operands, `t` is their type and `u` the unsigned type in which integers wrap.
 */
#ifndef DFLOW_ELEMENTS_H
#define DFLOW_ELEMENTS_H
#include "exponential.h"
#include "trigonometric.h"
#include "vec.h"
#include <stdbool.h>
#include <tgmath.h>
#include "../expressions.h"

/* ---- vectors: name_vf32, name_vf64, and name_f32, name_f64, which are lane 0 of a splat -------------- */
#define ONE_LANE1(name) \
  static inline float  name##_f32(float x)  { return name##_vf32(splat_f32(x))[0]; } \
  static inline double name##_f64(double x) { return name##_vf64(splat_f64(x))[0]; }
#define ONE_LANE2(name) \
  static inline float  name##_f32(float x, float y)   { return name##_vf32(splat_f32(x), splat_f32(y))[0]; } \
  static inline double name##_f64(double x, double y) { return name##_vf64(splat_f64(x), splat_f64(y))[0]; }
#define SLEEF1(name, sleef, ulp) \
  static inline vf32 name##_vf32(vf32 x) { return SLEEF32(sleef, ulp)(x); } \
  static inline vf64 name##_vf64(vf64 x) { return SLEEF64(sleef, ulp)(x); }
#define SLEEF2(name, sleef, ulp) \
  static inline vf32 name##_vf32(vf32 x, vf32 y) { return SLEEF32(sleef, ulp)(x, y); } \
  static inline vf64 name##_vf64(vf64 x, vf64 y) { return SLEEF64(sleef, ulp)(x, y); }
/* As DEFINE1 and DEFINE2; in the expression v is the vector type and mask that of its comparisons. */
#define VECTOR1(name, ...) \
  static inline vf32 name##_vf32(vf32 x) { EW_TYPES(float, vf32); return (__VA_ARGS__); } \
  static inline vf64 name##_vf64(vf64 x) { EW_TYPES(double, vf64); return (__VA_ARGS__); }
#define VECTOR2(name, ...) \
  static inline vf32 name##_vf32(vf32 x, vf32 y) { EW_TYPES(float, vf32); return (__VA_ARGS__); } \
  static inline vf64 name##_vf64(vf64 x, vf64 y) { EW_TYPES(double, vf64); return (__VA_ARGS__); }
#define V1(name, x) _Generic((x), vf32: name##_vf32, vf64: name##_vf64)(x)
#define PICK(m, a, b) _Generic((a), vf32: pick_f32, vf64: pick_f64)(m, a, b)
#define SIZE(x) _Generic((x), vf32: size_f32, vf64: size_f64)(x)
#define K(c) ((u){ 0 } + (t)(c))

static inline vf32 exp__vf32(vf32 x) { return exp_f32(x); }
static inline vf64 exp__vf64(vf64 x) { return SLEEF64(exp, u10)(x); }
SLEEF1(expm1_, expm1, u10)
SLEEF1(log_, log, u10)
static inline vf32 sin__vf32(vf32 x) { return sin_f32(x); }
static inline vf64 sin__vf64(vf64 x) { return SLEEF64(sin, u10)(x); }
static inline vf32 cos__vf32(vf32 x) { return cos_f32(x); }
static inline vf64 cos__vf64(vf64 x) { return SLEEF64(cos, u10)(x); }
SLEEF1(tan_, tan, u10)
SLEEF1(asin_, asin, u10)
SLEEF1(acos_, acos, u10)
SLEEF1(atan_, atan, u10)
SLEEF1(atanh_, atanh, u10)
SLEEF1(erfc_, erfc, u15)
SLEEF1(lgamma_, lgamma, u10)
SLEEF2(atan2_, atan2, u10)

/* In float32, tanh is a polynomial (Cephes's) near 0 and 1 - 2 / (e^2x + 1) beyond: within 1.31 ulp, where SLEEF's is
 * within 1 and takes twice as long, which recurrent networks feel. */
static inline vf32 tanh__vf32(vf32 x) {
  const vf32 zero = { 0 }, z = x * x, a = size_f32(x);
  static const float c[] = DFK_TANH;
  vf32 p = fused_f32(z, zero + c[0], zero + c[1]);
  p = fused_f32(p, z, zero + c[2]);
  p = fused_f32(p, z, zero + c[3]);
  p = fused_f32(p, z, zero + c[4]);
  const vf32 far = 1 - 2 / (exp__vf32(a + a) + 1);
  return (vf32)((vi32)pick_f32(a < DFK_TANH_NEAR, fused_f32(p * z, a, a), far) | ((vi32)x & INT32_MIN));
}
static inline vf64 tanh__vf64(vf64 x) { return SLEEF64(tanh, u10)(x); }

/* In float32, erf is a polynomial near 0 and 1 - exp of one beyond: within 1.3 ulp, where SLEEF's is within 1 and takes
 * 3.4 times as long, which networks with GELU feel. */
#if DFLOW_FUSED_F32
static inline vf32 erf__vf32(vf32 x) {
  static const float near[] = DFK_ERF_NEAR, far[] = DFK_ERF_FAR;
  const vf32 zero = { 0 }, z = x * x, a = within_f32(size_f32(x), zero, zero + DFK_ERF_MOST);
  vf32 p = fused_f32(z, zero + near[0], zero + near[1]), q = fused_f32(a, zero + far[0], zero + far[1]);
  for (int i = 2; i < 7; i++) {
    p = fused_f32(p, z, zero + near[i]);
    q = fused_f32(q, a, zero + far[i]);
  }
  const vf32 beyond = (vf32)((vi32)(1 - exp_f32(q)) | ((vi32)x & INT32_MIN));
  return pick_f32(a < 1, fused_f32(p, x, x), beyond);
}
#else
static inline vf32 erf__vf32(vf32 x) { return SLEEF32(erf, u10)(x); }
#endif
static inline vf64 erf__vf64(vf64 x) { return SLEEF64(erf, u10)(x); }

/* SLEEF's sinh, cosh, asinh, acosh and log1p overflow before their results do. In the lanes where that is near
 * they are taken from exp(|x| / 2) and log(|x|), whose further terms are below the last bit there. */
#define LATE1(name, plain, bound_f32, bound_f64, ...) \
  static inline vf32 name##_vf32(vf32 x) { \
    EW_TYPES(float, vf32); \
    vi32 late = size_f32(x) > bound_f32; \
    return any_i32(late) ? PICK(late, (__VA_ARGS__), plain##_vf32(x)) : plain##_vf32(x); \
  } \
  static inline vf64 name##_vf64(vf64 x) { \
    EW_TYPES(double, vf64); \
    vi64 late = size_f64(x) > bound_f64; \
    return any_i64(late) ? PICK(late, (__VA_ARGS__), plain##_vf64(x)) : plain##_vf64(x); \
  }
SLEEF1(sleef_sinh, sinh, u10)
SLEEF1(sleef_cosh, cosh, u10)
SLEEF1(sleef_asinh, asinh, u10)
SLEEF1(sleef_acosh, acosh, u10)
SLEEF1(sleef_log1p, log1p, u10)
VECTOR1(half_exp, V1(exp_, x * (t)0.5) * (t)0.5 * V1(exp_, x * (t)0.5))
VECTOR1(log_twice, V1(log_, x) + (t)0.693147180559945309417232121458)
LATE1(sinh_, sleef_sinh, 87, 708, PICK(x > 0, V1(half_exp, x), -V1(half_exp, -x)))
LATE1(cosh_, sleef_cosh, 87, 708, V1(half_exp, SIZE(x)))
LATE1(asinh_, sleef_asinh, 1e15f, 1e150, PICK(x > 0, V1(log_twice, x), -V1(log_twice, -x)))
LATE1(acosh_, sleef_acosh, 1e15f, 1e150, V1(log_twice, x))
LATE1(log1p_, sleef_log1p, 1e15f, 1e150, V1(log_, x))

/* The inverse of erf is x p(w), where w is -log(1 - x^2), or in the tails its root. Polynomials fitted to Chebyshev's
 * points: within 2e-8 in float32; in float64 within 6e-7, and a step of Halley's makes that an ulp. */
static inline vf32 polynomial_f32(vf32 t, const float *c, int n) {
  vf32 p = splat_f32(c[0]);
  for (int i = 1; i < n; i++) p = fused_f32(p, t, splat_f32(c[i]));
  return p;
}
static inline vf64 polynomial_f64(vf64 t, const double *c, int n) {
  vf64 p = splat_f64(c[0]);
  for (int i = 1; i < n; i++) p = p * t + c[i];
  return p;
}
/* With the sign of x, which has size m: infinite at -1 and 1, NaN beyond. */
static inline vf32 erfinv_sized_f32(vf32 x, vf32 m, vf32 size) {
  size = pick_f32(m < 1, size, pick_f32(m == 1, splat_f32(INFINITY), splat_f32(NAN)));
  return (vf32)((vi32)size | ((vi32)x & INT32_MIN));
}
static inline vf64 erfinv_sized_f64(vf64 x, vf64 m, vf64 size) {
  size = pick_f64(m < 1, size, pick_f64(m == 1, splat_f64(INFINITY), splat_f64(NAN)));
  return (vf64)((vi64)size | ((vi64)x & INT64_MIN));
}
static inline vf32 erfinv__vf32(vf32 x) {
  static const float near[] = { -3.41087879e-05f, 3.54992677e-05f, 2.85807479e-04f, -8.45481706e-04f, -4.85651335e-04f,
                                8.5291362e-03f, -1.95738317e-02f, -2.6108678e-02f, 6.16600696e-01f, 1.50140936f };
  static const float far[] = { 8.41469299e-05f, -8.48060275e-05f, -3.28739035e-04f, 9.95461186e-04f, -1.70757536e-03f,
                               2.55800612e-03f, -3.87249593e-03f, 5.54390536e-03f, 9.86781487e-01f, 3.05175705f };
  const vf32 m = size_f32(x), w = -log__vf32((1 - m) * (1 + m)), t = w * 0.4f - 1;
  const vi32 tail = w >= 5;
  vf32 p = polynomial_f32(t, near, 10);
  if (any_i32(tail)) {
    vf32 root = w;                                 /* each lane is replaced: GCC cannot see it */
    for (int i = 0; i < LANES_f32; i++) root[i] = sqrtf(w[i]);
    const vf32 s = (root - 3.218033988749895f) * 1.018365186313258f;
    p = PICK(tail, polynomial_f32(s, far, 10), p);
  }
  return erfinv_sized_f32(x, m, m * p);
}
static inline vf64 erfinv__vf64(vf64 x) {
  static const double near[] = { -3.4108787888130219e-05, 3.5499267749860559e-05, 2.8580747899069477e-04,
    -8.4548170639852781e-04, -4.8565133482393033e-04, 8.5291362020274864e-03, -1.9573831670548984e-02,
    -2.6108677961733832e-02, 6.1660069620197144e-01, 1.5014093595818208 };
  static const double far[] = { -8.0421971685696442e-04, -1.3617674954571389e-03, 5.6972342938398004e-03,
    -2.9850059982032997e-03, -1.1582111104479842e-03, -1.172856056524414e-03, 4.1807394652920906e-03,
    -5.1393534584055333e-03, 2.9576209091093254e-03, 2.0016586475766966, 4.0599404931898491 };
  const vf64 m = size_f64(x), w = -log__vf64((1 - m) * (1 + m)), t = w * 0.4 - 1;
  const vi64 tail = w >= 5, half = m < 0.5;
  vf64 p = polynomial_f64(t, near, 10), miss = t;
  if (any_i64(tail)) {
    vf64 root = w;
    for (int i = 0; i < LANES_f64; i++) root[i] = sqrt(w[i]);
    const vf64 s = (root - 4.2180339887498945) * 0.5045495201853941;
    p = PICK(tail, polynomial_f64(s, far, 11), p);
  }
  const vf64 y = m * p;
  if (any_i64(half)) miss = erf__vf64(y) - m;
  if (any_i64(~half)) miss = PICK(half, miss, (1 - m) - erfc__vf64(y));
  const vf64 newton = miss * 0.886226925452758013649 * exp__vf64(y * y), step = newton / (1 + y * newton);
  return erfinv_sized_f64(x, m, pick_f64(m < 1e-9, m * 0.886226925452758013649, y - step));
}

/* erf, where its result is rounded to a half: x + x p(x^2) near 0, 1 - exp(-x - x q(x)) beyond, p and q of the least
 * greatest error. Within 1.46 ulp of float32, and of every float16 and bfloat16 the half that is nearest. SLEEF's takes
 * three times as long. */
#if DFLOW_FUSED_F32
static inline vf32 erf_for_half(vf32 x) {
  static const float near[] = { 7.971016021e-5f, -8.043048438e-4f, 5.191787612e-3f, -2.685549855e-2f, 1.128362268e-1f,
                                -3.761262894e-1f, 1.283791512e-1f };
  static const float far[] = { 1.369416714e-5f, -3.477656865e-4f, 3.745379392e-3f, -2.398304828e-2f, 1.064976379e-1f,
                               6.349908710e-1f, 1.286887378e-1f };
  const vf32 size = size_f32(x), t = pick_f32(size > 4, splat_f32(4), size);         /* beyond 4 it is 1; NaN stays */
  const vf32 most = 1 - exp_f32(-fused_f32(polynomial_f32(t, far, 7), t, t));
  return pick_f32(size < 0.985f, fused_f32(polynomial_f32(x * x, near, 7), x, x),
                  (vf32)((vi32)most | ((vi32)x & INT32_MIN)));
}
#endif

VECTOR1(sigmoid, 1 / (1 + V1(exp_, -x)))
VECTOR1(softplus, PICK(x > 0, x, K(0)) + V1(log1p_, V1(exp_, -SIZE(x))))
VECTOR1(elu, PICK(x < 0, V1(expm1_, x), x))
VECTOR1(selu, K(SELU_SCALE) * PICK(x < 0, K(SELU_ALPHA) * V1(expm1_, x), x))
VECTOR2(softplus_grad, x / (1 + V1(exp_, -y)))                   /* (dy, x) */
VECTOR2(xlogy, PICK(x == 0, K(0), x * V1(log_, y)))
SLEEF2(sleef_pow, pow, u10)
VECTOR2(xlog1py, PICK(x == 0, K(0), x * V1(log1p_, y)))
#define V2(name, x, y) _Generic((x), vf32: name##_vf32, vf64: name##_vf64)(x, y)
VECTOR2(pow_, PICK(y == 2, x * x, V2(sleef_pow, x, y)))          /* squares exactly rounded */

ONE_LANE1(exp_) ONE_LANE1(expm1_) ONE_LANE1(log_) ONE_LANE1(log1p_) ONE_LANE1(sin_) ONE_LANE1(cos_) ONE_LANE1(tan_)
ONE_LANE1(asin_) ONE_LANE1(acos_) ONE_LANE1(atan_) ONE_LANE1(sinh_) ONE_LANE1(cosh_) ONE_LANE1(tanh_)
ONE_LANE1(asinh_) ONE_LANE1(acosh_) ONE_LANE1(atanh_) ONE_LANE1(erf_) ONE_LANE1(erfc_) ONE_LANE1(erfinv_)
ONE_LANE1(lgamma_)
ONE_LANE1(sigmoid) ONE_LANE1(softplus) ONE_LANE1(elu) ONE_LANE1(selu)
ONE_LANE2(atan2_) ONE_LANE2(softplus_grad) ONE_LANE2(xlogy) ONE_LANE2(xlog1py)
static inline float  pow__f32(float x, float y)   { return y == 2 ? x * x : pow__vf32(splat_f32(x), splat_f32(y))[0]; }
static inline double pow__f64(double x, double y) { return y == 2 ? x * x : pow__vf64(splat_f64(x), splat_f64(y))[0]; }
#endif
