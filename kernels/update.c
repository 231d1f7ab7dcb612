/* update.c: arithmetic in place, for variables and gradient arrays. Plain loops that the compiler vectorises. */
#include "update.h"
#include "half.h"
#include "move.h"
#include <complex.h>
#include <math.h>
#include <string.h>

/* One loop per op. b steps by `step`: 1, or 0 where one number serves all. */
#define LOOP(T, EXPR) \
  if (one_b) { const T y = b[0]; for (int64_t i = 0; i < n; i++) { const T x = a[i]; to[i] = (T)(EXPR); } } \
  else for (int64_t i = 0; i < n; i++) { const T x = a[i], y = b[i]; to[i] = (T)(EXPR); } \
  break

#define FLOATS(NAME, T) \
  static void NAME(dfk_update_op op, int64_t n, T *to, const T *a, const T *b, bool one_b) { \
    switch (op) { \
      case DFK_SET: LOOP(T, ((void)x, y)); \
      case DFK_ADD: LOOP(T, x + y); \
      case DFK_SUB: LOOP(T, x - y); \
      case DFK_MUL: LOOP(T, x * y); \
      case DFK_DIV: LOOP(T, x / y); \
      case DFK_MIN: LOOP(T, x < y || x != x ? x : y); \
      case DFK_MAX: LOOP(T, x > y || x != x ? x : y); \
    } \
  }
FLOATS(update_float, float)
FLOATS(update_double, double)

#define COMPLEX(NAME, T) \
  static void NAME(dfk_update_op op, int64_t n, T *to, const T *a, const T *b, bool one_b) { \
    switch (op) { \
      case DFK_ADD: LOOP(T, x + y); \
      case DFK_SUB: LOOP(T, x - y); \
      case DFK_MUL: LOOP(T, x * y); \
      case DFK_DIV: LOOP(T, x / y); \
      default: break; \
    } \
  }
COMPLEX(update_complex64, float complex)
COMPLEX(update_complex128, double complex)

/* Wrapping arithmetic happens in the unsigned type U. Division is by magnitude, so that MIN / -1 wraps too. */
#define INTS(NAME, T, U) \
  static T NAME##_divide(T x, T y) { return y == 0 ? x : y == (T)-1 && (T)-1 < 1 ? (T)(0 - (U)x) : (T)(x / y); } \
  static void NAME(dfk_update_op op, int64_t n, T *to, const T *a, const T *b, bool one_b) { \
    switch (op) { \
      case DFK_SET: LOOP(T, ((void)x, y)); \
      case DFK_ADD: LOOP(T, (U)x + (U)y); \
      case DFK_SUB: LOOP(T, (U)x - (U)y); \
      case DFK_MUL: LOOP(T, (U)((U)x * 1u * (U)y)); \
      case DFK_DIV: LOOP(T, NAME##_divide(x, y)); \
      case DFK_MIN: LOOP(T, x < y ? x : y); \
      case DFK_MAX: LOOP(T, x > y ? x : y); \
    } \
  }
INTS(update_int8, int8_t, uint8_t)
INTS(update_uint8, uint8_t, uint8_t)
INTS(update_int32, int32_t, uint32_t)
INTS(update_int64, int64_t, uint64_t)
INTS(update_int16, int16_t, uint16_t)
INTS(update_uint16, uint16_t, uint16_t)
INTS(update_uint32, uint32_t, uint32_t)
INTS(update_uint64, uint64_t, uint64_t)

/* Elements that mean nothing here. */
static void set_bytes(int64_t n, char *to, const char *b, int64_t width, bool one_b) {
  for (int64_t i = 0; i < n; i++) memmove(to + i * width, one_b ? b : b + i * width, (size_t)width);
}

static void update_half(dfk_update_op op, int32_t dtype, int64_t n, uint16_t *to, const uint16_t *a, const uint16_t *b,
                        bool one_b) {
  float x[256], y[256];
  for (int64_t i = 0; i < n; i += 256) {
    int64_t m = n - i < 256 ? n - i : 256;
    dfk_half_to_floats((uint8_t)dtype, x, a + i, m);
    dfk_half_to_floats((uint8_t)dtype, y, one_b ? b : b + i, one_b ? 1 : m);
    update_float(op, m, x, x, y, one_b);
    dfk_half_from_floats((uint8_t)dtype, to + i, x, m);
  }
}

bool dfk_adds(int32_t dtype) {
  switch (dtype) {
    case DF_FLOAT32: case DF_FLOAT64: case DF_FLOAT16: case DF_BFLOAT16: case DF_COMPLEX64: case DF_COMPLEX128:
    case DF_INT8: case DF_INT16: case DF_INT32: case DF_INT64:
    case DF_UINT8: case DF_UINT16: case DF_UINT32: case DF_UINT64: return true;
    default: return false;
  }
}

void dfk_update(dfk_update_op op, int32_t dtype, int64_t n, void *to, const void *a, const void *b, bool one_b) {
  if (op == DFK_SET && (dtype == DF_COMPLEX64 || dtype == DF_COMPLEX128 || !dfk_adds(dtype))) {
    if (one_b) set_bytes(n, to, b, dfk_width((uint8_t)dtype), true);
    else memmove(to, b, (size_t)(n * dfk_width((uint8_t)dtype)));
    return;
  }
  switch (dtype) {
    case DF_FLOAT32: update_float(op, n, to, a, b, one_b); break;
    case DF_FLOAT64: update_double(op, n, to, a, b, one_b); break;
    case DF_INT32:   update_int32(op, n, to, a, b, one_b); break;
    case DF_INT64:   update_int64(op, n, to, a, b, one_b); break;
    case DF_INT8:    update_int8(op, n, to, a, b, one_b); break;
    case DF_UINT8:   update_uint8(op, n, to, a, b, one_b); break;
    case DF_INT16:   update_int16(op, n, to, a, b, one_b); break;
    case DF_UINT16:  update_uint16(op, n, to, a, b, one_b); break;
    case DF_UINT32:  update_uint32(op, n, to, a, b, one_b); break;
    case DF_UINT64:  update_uint64(op, n, to, a, b, one_b); break;
    case DF_COMPLEX64:  update_complex64(op, n, to, a, b, one_b); break;
    case DF_COMPLEX128: update_complex128(op, n, to, a, b, one_b); break;
    case DF_FLOAT16: case DF_BFLOAT16: update_half(op, dtype, n, to, a, b, one_b); break;
    default: break;
  }
}

bool dfk_update_allowed(dfk_update_op op, int32_t dtype, int64_t n, const void *b) {
  if (op != DFK_DIV) return true;
  bool zero = false;
  switch (dtype) {
    case DF_INT32: case DF_UINT32: for (int64_t i = 0; i < n; i++) zero |= ((const int32_t *)b)[i] == 0; break;
    case DF_INT16: case DF_UINT16: for (int64_t i = 0; i < n; i++) zero |= ((const int16_t *)b)[i] == 0; break;
    case DF_INT64: case DF_UINT64: for (int64_t i = 0; i < n; i++) zero |= ((const int64_t *)b)[i] == 0; break;
    case DF_INT8: case DF_UINT8: for (int64_t i = 0; i < n; i++) zero |= ((const uint8_t *)b)[i] == 0; break;
    default: break;
  }
  return !zero;
}

#define STEPS(NAME, T, SQRT) \
  static void NAME##_descent(int64_t n, T *restrict var, const T *restrict grad, T alpha) { \
    for (int64_t i = 0; i < n; i++) var[i] -= alpha * grad[i]; \
  } \
  static void NAME##_momentum(int64_t n, T *restrict var, T *restrict accum, const T *restrict grad, T lr, T momentum, \
                              bool nesterov) { \
    if (nesterov) \
      for (int64_t i = 0; i < n; i++) { \
        T a = accum[i] = momentum * accum[i] + grad[i]; \
        var[i] -= lr * (grad[i] + momentum * a); \
      } \
    else \
      for (int64_t i = 0; i < n; i++) { \
        T a = accum[i] = momentum * accum[i] + grad[i]; \
        var[i] -= lr * a; \
      } \
  } \
  static void NAME##_adam(int64_t n, T *restrict var, T *restrict m, T *restrict v, const T *restrict grad, T rate, \
                          T beta1, T beta2, T epsilon, bool nesterov) { \
    for (int64_t i = 0; i < n; i++) { \
      T g = grad[i], m1 = m[i] + (g - m[i]) * (1 - beta1), v1 = v[i] + (g * g - v[i]) * (1 - beta2); \
      m[i] = m1; \
      v[i] = v1; \
      T way = nesterov ? beta1 * m1 + (1 - beta1) * g : m1; \
      var[i] -= rate * way / (SQRT(v1) + epsilon); \
    } \
  }
STEPS(float, float, sqrtf)
STEPS(double, double, sqrt)

/* Halves are stepped as float32, a few at a time: at most four arrays, of which the last is the gradient. */
enum { HALVES = 256, STEP_ARRAYS = 4 };
typedef struct halves {
  int32_t dtype;
  int32_t arrays;
  uint16_t *at[STEP_ARRAYS];
  float x[STEP_ARRAYS][HALVES];
} halves;

static void halves_load(halves *h, int64_t from, int64_t n) {
  for (int32_t i = 0; i < h->arrays; i++) dfk_half_to_floats((uint8_t)h->dtype, h->x[i], h->at[i] + from, n);
}
static void halves_store(halves *h, int64_t from, int64_t n) {
  for (int32_t i = 0; i + 1 < h->arrays; i++) dfk_half_from_floats((uint8_t)h->dtype, h->at[i] + from, h->x[i], n);
}
#define STEP_HALVES(N, STEP, ...) do { \
    uint16_t *arrays[] = { __VA_ARGS__ }; \
    halves h = { .dtype = dtype, .arrays = (int32_t)(sizeof arrays / sizeof *arrays) }; \
    memcpy(h.at, arrays, sizeof arrays); \
    for (int64_t from = 0; from < (N); from += HALVES) { \
      int64_t m = (N) - from < HALVES ? (N) - from : HALVES; \
      halves_load(&h, from, m); \
      STEP; \
      halves_store(&h, from, m); \
    } \
  } while (0)
#define HALF(p) (uint16_t *)(uintptr_t)(p)

void dfk_step_descent(int32_t dtype, int64_t n, void *var, const void *grad, double alpha) {
  if (dtype == DF_FLOAT32) float_descent(n, var, grad, (float)alpha);
  else if (dtype == DF_FLOAT64) double_descent(n, var, grad, alpha);
  else STEP_HALVES(n, float_descent(m, h.x[0], h.x[1], (float)alpha), var, HALF(grad));
}

void dfk_step_momentum(int32_t dtype, int64_t n, void *var, void *accum, const void *grad, double lr, double momentum,
                       bool nesterov) {
  if (dtype == DF_FLOAT32) float_momentum(n, var, accum, grad, (float)lr, (float)momentum, nesterov);
  else if (dtype == DF_FLOAT64) double_momentum(n, var, accum, grad, lr, momentum, nesterov);
  else
    STEP_HALVES(n, float_momentum(m, h.x[0], h.x[1], h.x[2], (float)lr, (float)momentum, nesterov), var, accum,
                HALF(grad));
}

void dfk_step_adam(int32_t dtype, int64_t n, void *var, void *mean, void *v, const void *grad, const dfk_adam *o) {
  float rate = (float)o->rate, beta1 = (float)o->beta1, beta2 = (float)o->beta2, epsilon = (float)o->epsilon;
  if (dtype == DF_FLOAT32) float_adam(n, var, mean, v, grad, rate, beta1, beta2, epsilon, o->nesterov);
  else if (dtype == DF_FLOAT64)
    double_adam(n, var, mean, v, grad, o->rate, o->beta1, o->beta2, o->epsilon, o->nesterov);
  else
    STEP_HALVES(n, float_adam(m, h.x[0], h.x[1], h.x[2], h.x[3], rate, beta1, beta2, epsilon, o->nesterov), var, mean,
                v, HALF(grad));
}
