/* scan.c: reference scans along one axis: cumsum, cumprod and the linear recurrence that cumprod's gradient is made of.
   */
#include "../reduce.h"
#include "element.h"

typedef struct axis_view { int64_t outer, n, inner; } axis_view;

static bool view(df_kernel *k, const df_tensor *axis, const df_tensor *x, axis_view *v) {
  int32_t a = dfk_scalar_axis_of(k, axis, x);
  if (a < 0) return false;
  *v = (axis_view){ 1, x->dims[a], 1 };
  for (int32_t i = 0; i < a; i++) v->outer *= x->dims[i];
  for (int32_t i = a + 1; i < x->rank; i++) v->inner *= x->dims[i];
  return true;
}

static int32_t scan(df_kernel *k, bool product) {
  const df_tensor *x = k->in[0];
  bool exclusive = dfk_bool(k, 0), reverse = dfk_bool(k, 1), floats = ref_is_float(x->dtype);
  axis_view v;
  if (!view(k, k->in[1], x, &v)) return DF_INVALID_ARGUMENT;
  df_tensor *y = dfk_out_like(k, 0, x);
  if (!y) return DF_RESOURCE_EXHAUSTED;
  for (int64_t o = 0; o < v.outer; o++)
    for (int64_t j = 0; j < v.inner; j++) {
      double  f = product;
      double complex c = product;
      int64_t n = product;
      for (int64_t s = 0; s < v.n; s++) {
        int64_t at = (o * v.n + (reverse ? v.n - 1 - s : s)) * v.inner + j;
        if (dfk_is_complex(x->dtype)) {
          double complex e = ref_get_complex(x, at);
          if (exclusive) ref_put_complex(y, at, c);
          c = product ? c * e : c + e;
          if (!exclusive) ref_put_complex(y, at, c);
        } else if (floats) {
          if (exclusive) ref_put(y, at, f);
          f = product ? f * ref_get(x, at) : f + ref_get(x, at);
          if (!exclusive) ref_put(y, at, f);
        } else {
          uint64_t e = (uint64_t)ref_get_int(x, at);
          if (exclusive) ref_put_int(y, at, n);
          n = (int64_t)(product ? (uint64_t)n * e : (uint64_t)n + e);
          if (!exclusive) ref_put_int(y, at, n);
        }
      }
    }
  return DF_OK;
}

int32_t ref_cumsum(df_kernel *k)  { return scan(k, false); }
int32_t ref_cumprod(df_kernel *k) { return scan(k, true); }

int32_t ref_linear_recurrence(df_kernel *k) {
  const df_tensor *x = k->in[0], *d = k->in[1];
  bool reverse = dfk_bool(k, 0);
  axis_view v;
  if (!view(k, k->in[2], x, &v)) return DF_INVALID_ARGUMENT;
  if (d->size != x->size) {
    char one[160], other[160];
    return dfk_fail(k, DF_INVALID_ARGUMENT, "x is %s and d is %s: expected one shape",
                    dfk_shape_text(x, one, sizeof one), dfk_shape_text(d, other, sizeof other));
  }
  df_tensor *s = dfk_out_like(k, 0, x), *beside = dfk_out_like(k, 1, x);
  if (!s || !beside) return DF_RESOURCE_EXHAUSTED;
  for (int64_t o = 0; o < v.outer; o++)
    for (int64_t j = 0; j < v.inner; j++) {
      double before = 0;
      double complex both = 0;
      for (int64_t step = 0; step < v.n; step++) {
        int64_t i = reverse ? v.n - 1 - step : step, at = (o * v.n + i) * v.inner + j;
        if (dfk_is_complex(x->dtype)) {
          ref_put_complex(beside, at, both);
          both = step == 0 ? ref_get_complex(d, at)
                           : ref_get_complex(d, at) + ref_get_complex(x, reverse ? at + v.inner : at) * both;
          ref_put_complex(s, at, both);
          continue;
        }
        double factor = step == 0 ? 0 : ref_get(x, reverse ? at + v.inner : at);
        ref_put(beside, at, before);
        before = step == 0 ? ref_get(d, at) : ref_get(d, at) + factor * before;
        ref_put(s, at, before);
      }
    }
  return DF_OK;
}
