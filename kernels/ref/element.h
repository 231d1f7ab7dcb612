/* element.h: elements of any number dtype as a double or an int64, for reference kernels. */
#ifndef DFLOW_REF_ELEMENT_H
#define DFLOW_REF_ELEMENT_H
#include "../kernel.h"
#include "../half.h"

static inline bool ref_is_float(int32_t dtype) {
  return dtype == DF_FLOAT32 || dtype == DF_FLOAT64 || dfk_is_half(dtype);
}

static inline double ref_get(const df_tensor *t, int64_t i) {
  switch (t->dtype) {
    case DF_FLOAT32:  return ((const float *)t->data)[i];
    case DF_FLOAT64:  return ((const double *)t->data)[i];
    case DF_FLOAT16:  return dfk_f16_to_float(((const uint16_t *)t->data)[i]);
    case DF_BFLOAT16: return dfk_bf16_to_float(((const uint16_t *)t->data)[i]);
    default:          return 0;
  }
}

static inline int64_t ref_get_int(const df_tensor *t, int64_t i) {
  switch (t->dtype) {
    case DF_INT8:  return ((const int8_t *)t->data)[i];
    case DF_UINT8: return ((const uint8_t *)t->data)[i];
    case DF_BOOL:  return ((const uint8_t *)t->data)[i] != 0;
    case DF_INT32: return ((const int32_t *)t->data)[i];
    case DF_INT64: return ((const int64_t *)t->data)[i];
    default:       return 0;
  }
}

static inline void ref_put(df_tensor *t, int64_t i, double v) {
  switch (t->dtype) {
    case DF_FLOAT32:  ((float *)t->data)[i] = (float)v; break;
    case DF_FLOAT64:  ((double *)t->data)[i] = v; break;
    case DF_FLOAT16:  ((uint16_t *)t->data)[i] = dfk_f16_from_double(v); break;
    case DF_BFLOAT16: ((uint16_t *)t->data)[i] = dfk_bf16_from_double(v); break;
  }
}

/* Keeps the low bits: integers wrap. */
static inline void ref_put_int(df_tensor *t, int64_t i, int64_t v) {
  switch (t->dtype) {
    case DF_INT8:  ((int8_t *)t->data)[i] = (int8_t)v; break;
    case DF_UINT8: ((uint8_t *)t->data)[i] = (uint8_t)v; break;
    case DF_BOOL:  ((uint8_t *)t->data)[i] = v != 0; break;
    case DF_INT32: ((int32_t *)t->data)[i] = (int32_t)v; break;
    case DF_INT64: ((int64_t *)t->data)[i] = v; break;
  }
}
#endif
