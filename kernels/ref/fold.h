/* fold.h: what the reference reductions fold elements with: floats in double, integers in int64, cut to the dtype at
 * the end.
 */
#ifndef DFLOW_REF_FOLD_H
#define DFLOW_REF_FOLD_H
#include "element.h"
#include <math.h>

typedef enum ref_fold {
  REF_SUM, REF_MEAN, REF_SQRT_N, REF_PROD, REF_MAX, REF_MIN, REF_ALL, REF_ANY, REF_LOG_SUM_EXP, REF_NORM
} ref_fold;

/* The least integer of a dtype, or the greatest. */
static inline int64_t ref_lowest(int32_t dtype, bool high) {
  switch (dtype) {
    case DF_INT8:  return high ? INT8_MAX : INT8_MIN;
    case DF_UINT8: return high ? UINT8_MAX : 0;
    case DF_INT16: return high ? INT16_MAX : INT16_MIN;
    case DF_UINT16: return high ? UINT16_MAX : 0;
    case DF_INT32: return high ? INT32_MAX : INT32_MIN;
    case DF_UINT32: return high ? UINT32_MAX : 0;
    case DF_UINT64: return high ? -1 : 0;
    default:       return high ? INT64_MAX : INT64_MIN;
  }
}

/* a with one more element, x. A NaN that has come stays. */
static inline double ref_fold_float(ref_fold f, double a, double x) {
  switch (f) {
    case REF_SUM: case REF_MEAN: case REF_SQRT_N: return a + x;
    case REF_PROD: return a * x;
    case REF_MAX: case REF_LOG_SUM_EXP: return x > a || isnan(x) ? x : a;
    case REF_MIN: return x < a || isnan(x) ? x : a;
    case REF_NORM: return a + x * x;
    default: return a;
  }
}

static inline int64_t ref_fold_int(ref_fold f, int32_t dtype, int64_t a, int64_t x) {
  switch (f) {
    case REF_SUM: case REF_MEAN: case REF_SQRT_N: return (int64_t)((uint64_t)a + (uint64_t)x);
    case REF_PROD: return (int64_t)((uint64_t)a * (uint64_t)x);
    case REF_MAX: return ref_below(dtype, a, x) ? x : a;
    case REF_MIN: return ref_below(dtype, x, a) ? x : a;
    case REF_ALL: return a && x;
    case REF_ANY: return a || x;
    case REF_NORM: return (int64_t)((uint64_t)a + (uint64_t)x * (uint64_t)x);
    default: return a;
  }
}
#endif
