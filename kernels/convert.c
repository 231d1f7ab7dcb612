/* convert.c: a row of loops for each dtype that is read, one loop for each that is written. */
#include "convert.h"
#include "half.h"
#include <complex.h>
#include <math.h>

static int64_t to_int(double v) {
  return isnan(v) ? 0 : v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : (int64_t)v;
}
static uint64_t to_uint64(double v) { return !(v > 0) ? 0 : v >= 0x1p64 ? UINT64_MAX : (uint64_t)v; }

#define SATURATE(v, lo, hi) ((v) != (v) ? 0 : (v) <= (double)(lo) ? (lo) : (v) >= (double)(hi) ? (hi) : (v))
#define TO_INT(DTYPE, TYPE, LOW, HIGH) \
  case DTYPE: \
    for (int64_t i = 0; i < n; i++) { \
      S x = READ(from, i); \
      ((TYPE *)to)[i] = WHOLE ? (TYPE)(int64_t)x : (TYPE)SATURATE((double)x, LOW, HIGH); \
    } \
    return;
#define TO(DTYPE, TYPE, VALUE) \
  case DTYPE: \
    for (int64_t i = 0; i < n; i++) { S x = READ(from, i); ((TYPE *)to)[i] = VALUE; } \
    return;
/* One row of casts: from elements of type S that READ gives, whole numbers (WHOLE) or not. */
#define CAST_FROM(NAME, STYPE) \
  static void NAME(const void *from, void *to, int64_t n, uint8_t dtype) { \
    typedef STYPE S; \
    switch (dtype) { \
      TO(DF_FLOAT32, float, (float)x) \
      TO(DF_FLOAT64, double, (double)x) \
      TO(DF_FLOAT16, uint16_t, dfk_to_float16((float)x)) \
      TO(DF_BFLOAT16, uint16_t, dfk_to_bfloat16((float)x)) \
      TO(DF_BOOL, bool, x != 0) \
      TO(DF_COMPLEX64, float complex, (float)x) \
      TO(DF_COMPLEX128, double complex, (double)x) \
      TO(DF_INT64, int64_t, WHOLE ? (int64_t)x : to_int((double)x)) \
      TO(DF_UINT64, uint64_t, WHOLE ? (uint64_t)x : to_uint64((double)x)) \
      TO_INT(DF_INT32, int32_t, INT32_MIN, INT32_MAX) \
      TO_INT(DF_INT16, int16_t, INT16_MIN, INT16_MAX) \
      TO_INT(DF_INT8, int8_t, INT8_MIN, INT8_MAX) \
      TO_INT(DF_UINT32, uint32_t, 0, UINT32_MAX) \
      TO_INT(DF_UINT16, uint16_t, 0, UINT16_MAX) \
      TO_INT(DF_UINT8, uint8_t, 0, UINT8_MAX) \
      default: return; \
    } \
  }
#define WHOLE 0
#define READ(from, i) ((const S *)(from))[i]
CAST_FROM(from_float32, float)
CAST_FROM(from_float64, double)
#undef READ
#define READ(from, i) dfk_from_float16(((const uint16_t *)(from))[i])
CAST_FROM(from_float16, float)
#undef READ
#define READ(from, i) dfk_from_bfloat16(((const uint16_t *)(from))[i])
CAST_FROM(from_bfloat16, float)
#undef READ
#define READ(from, i) ((const S *)(from))[2 * (i)]      /* the real part */
CAST_FROM(from_complex64, float)
CAST_FROM(from_complex128, double)
#undef READ
#undef WHOLE
#define WHOLE 1
#define READ(from, i) ((const S *)(from))[i]
CAST_FROM(from_int64, int64_t)
CAST_FROM(from_int32, int32_t)
CAST_FROM(from_int16, int16_t)
CAST_FROM(from_int8, int8_t)
CAST_FROM(from_uint64, uint64_t)
CAST_FROM(from_uint32, uint32_t)
CAST_FROM(from_uint16, uint16_t)
CAST_FROM(from_uint8, uint8_t)

void dfk_convert(uint8_t from_dtype, const void *from, uint8_t to_dtype, void *to, int64_t n) {
  from_dtype = dfk_underlying(from_dtype);
  to_dtype = dfk_underlying(to_dtype);
  if (dfk_is_complex(from_dtype) && dfk_is_complex(to_dtype)) {          /* both parts */
    n *= 2;
    from_dtype = from_dtype == DF_COMPLEX64 ? DF_FLOAT32 : DF_FLOAT64;
    to_dtype = to_dtype == DF_COMPLEX64 ? DF_FLOAT32 : DF_FLOAT64;
  }
  switch (from_dtype) {
    case DF_FLOAT32:    from_float32(from, to, n, to_dtype); break;
    case DF_FLOAT64:    from_float64(from, to, n, to_dtype); break;
    case DF_FLOAT16:    from_float16(from, to, n, to_dtype); break;
    case DF_BFLOAT16:   from_bfloat16(from, to, n, to_dtype); break;
    case DF_COMPLEX64:  from_complex64(from, to, n, to_dtype); break;
    case DF_COMPLEX128: from_complex128(from, to, n, to_dtype); break;
    case DF_INT64:      from_int64(from, to, n, to_dtype); break;
    case DF_INT32:      from_int32(from, to, n, to_dtype); break;
    case DF_INT16:      from_int16(from, to, n, to_dtype); break;
    case DF_INT8:       from_int8(from, to, n, to_dtype); break;
    case DF_UINT64:     from_uint64(from, to, n, to_dtype); break;
    case DF_UINT32:     from_uint32(from, to, n, to_dtype); break;
    case DF_UINT16:     from_uint16(from, to, n, to_dtype); break;
    case DF_UINT8: case DF_BOOL: from_uint8(from, to, n, to_dtype); break;
  }
}
