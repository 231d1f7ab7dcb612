/* scan.c: cumsum and cumprod. Independent lines run side by side: vectors across the inner axes, threads across the
   outer. */
#include "../reduce.h"
#include "../half.h"
#include <string.h>

typedef struct scan {
  const void *x;
  void       *y;
  int64_t     n, inner;
  bool        exclusive, reverse;
} scan;

/* Products of two uint16_t would be those of two ints, which overflow. */
#define UNSIGNED(x) _Generic((x), uint16_t: (uint32_t)(x), default: (x))

/* One step adds (multiplies) a row of `inner` elements to the row before. A line of its own accumulates in A. */
#define SCAN(NAME, T, A, FIRST, OP)                                                                               \
  static void NAME(void *arg, int64_t begin, int64_t end) {                                                       \
    const scan *s = (const scan *)arg;                                                                            \
    int64_t n = s->n, inner = s->inner, step = s->reverse ? -inner : inner;                                       \
    for (int64_t o = begin; o < end; o++) {                                                                       \
      const T *x = (const T *)s->x + o * n * inner + (s->reverse ? (n - 1) * inner : 0);                          \
      T *y = (T *)s->y + o * n * inner + (s->reverse ? (n - 1) * inner : 0);                                      \
      if (inner == 1) {                                                                                           \
        A a = FIRST;                                                                                              \
        for (int64_t i = 0; i < n; i++, x += step, y += step) {                                                   \
          A next = a OP *x;                                                                                       \
          *y = (T)(s->exclusive ? a : next);                                                                      \
          a = next;                                                                                               \
        }                                                                                                         \
        continue;                                                                                                 \
      }                                                                                                           \
      for (int64_t i = 0; i < n; i++, x += step, y += step) {                                                     \
        T *restrict to = y;                                                                                       \
        const T *before = y - step, *with = s->exclusive ? x - step : x;                                          \
        if (i) for (int64_t j = 0; j < inner; j++) to[j] = (T)(UNSIGNED(before[j]) OP with[j]);                   \
        else if (s->exclusive) for (int64_t j = 0; j < inner; j++) to[j] = FIRST;                                 \
        else memcpy(to, x, (size_t)inner * sizeof(T));                                                            \
      }                                                                                                           \
    }                                                                                                             \
  }
SCAN(sum_f32, float, double, 0, +)
SCAN(sum_f64, double, double, 0, +)
SCAN(sum_i8, uint8_t, uint8_t, 0, +)
SCAN(sum_i16, uint16_t, uint16_t, 0, +)
SCAN(sum_i32, uint32_t, uint32_t, 0, +)
SCAN(sum_i64, uint64_t, uint64_t, 0, +)
SCAN(prod_f32, float, double, 1, *)
SCAN(prod_f64, double, double, 1, *)
SCAN(prod_i8, uint8_t, uint8_t, 1, *)
SCAN(prod_i16, uint16_t, uint32_t, 1, *)
SCAN(prod_i32, uint32_t, uint32_t, 1, *)
SCAN(prod_i64, uint64_t, uint64_t, 1, *)

static df_range_fn scan_of(uint8_t dtype, bool product) {
  switch (dtype) {
    case DF_FLOAT64: return product ? prod_f64 : sum_f64;
    case DF_INT16: case DF_UINT16: return product ? prod_i16 : sum_i16;
    case DF_INT32: case DF_UINT32: return product ? prod_i32 : sum_i32;
    case DF_INT64: case DF_UINT64: return product ? prod_i64 : sum_i64;
    case DF_INT8: case DF_UINT8: return product ? prod_i8 : sum_i8;
    default:         return product ? prod_f32 : sum_f32;
  }
}

static int32_t run(df_kernel *k, bool product) {
  const df_tensor *x = k->in[0];
  if (dfk_is_complex(x->dtype)) return product ? ref_cumprod(k) : ref_cumsum(k);
  int32_t axis = dfk_scalar_axis_of(k, k->in[1], x);
  if (axis < 0) return DF_INVALID_ARGUMENT;
  df_tensor *y = dfk_out_like(k, 0, x);
  if (!y) return DF_RESOURCE_EXHAUSTED;
  if (x->size == 0) return DF_OK;
  bool half = dfk_is_half(x->dtype);
  scan s = { x->data, y->data, x->dims[axis], 1, dfk_bool(k, 0), dfk_bool(k, 1) };
  int64_t outer = 1;
  for (int32_t i = 0; i < axis; i++) outer *= x->dims[i];
  for (int32_t i = axis + 1; i < x->rank; i++) s.inner *= x->dims[i];
  float *f = NULL;
  if (half) {
    f = (float *)dfk_scratch(k, 2 * x->size * 4);
    if (!f) return DF_RESOURCE_EXHAUSTED;
    dfk_half_to_floats(x->dtype, f, (const uint16_t *)x->data, x->size);
    s.x = f;
    s.y = f + x->size;
  }
  int64_t each = s.n * s.inner;
  dfk_parallel(k, outer, each >= 32768 ? 1 : 32768 / each, scan_of(x->dtype, product), &s);
  if (half) {
    dfk_half_from_floats(x->dtype, (uint16_t *)y->data, f + x->size, x->size);
    dfk_free(f);
  }
  return DF_OK;
}

int32_t cpu_cumsum(df_kernel *k)  { return run(k, false); }
int32_t cpu_cumprod(df_kernel *k) { return run(k, true); }
