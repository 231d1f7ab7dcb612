/* quantize_and_dequantize.c: floats rounded to those that integers of num_bits stand for: 0 for 0, the range all of
 * them or a part. TensorFlow's meaning, version by version.
 */
#include "../quantize.h"
#include "element.h"
#include <float.h>
#include <math.h>

/* Elements in runs of `inner`, which take the ranges in turns. */
typedef struct ranges { int64_t count, inner; } ranges;

/* `axis` of input 0, -1 for one range; inputs 1 and 2 have the ranges. */
static int32_t ranges_of(df_kernel *k, int64_t axis, bool given, ranges *r) {
  const df_tensor *x = k->in[0];
  char text[160];
  *r = (ranges){ 1, x->size };
  if (axis >= x->rank)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "axis is %lld, but the input is %s", (long long)axis,
                    dfk_shape_text(x, text, sizeof text));
  if (axis >= 0) {
    r->count = x->dims[axis];
    r->inner = 1;
    for (int32_t d = (int32_t)axis + 1; d < x->rank; d++) r->inner *= x->dims[d];
  }
  for (int32_t i = 1; given && i < 3; i++)
    if (k->in[i]->size != r->count)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "input %d is %s: with range_given and axis %lld expected %lld numbers", i,
                      dfk_shape_text(k->in[i], text, sizeof text), (long long)axis, (long long)r->count);
  return DF_OK;
}

typedef struct how { bool is_signed, given, narrow, up; int64_t bits; } how;

/* Elements `from`, from + step of runs of x to y. Numbers of float and less are computed in float. */
#define ROUND_RUN(NAME, T, MOST, RINT, FLOOR) \
  static void NAME(const df_tensor *x, df_tensor *y, const ranges *r, int64_t which, const how *h, T min, T max) { \
    const T most = (T)((1ll << (h->bits - h->is_signed)) - 1); \
    const T least = h->is_signed ? (T)(-(1ll << (h->bits - 1)) + h->narrow) : 0; \
    const int64_t step = r->count * r->inner; \
    for (int64_t at = which * r->inner; !h->given && at < x->size; at += step) \
      for (int64_t i = at; i < at + r->inner; i++) { \
        const T v = (T)ref_get(x, i); \
        if (i == which * r->inner) min = max = v; \
        if (v < min) min = v; \
        if (v > max) max = v; \
      } \
    const T from_min = least * min > 0 ? least / min : MOST, from_max = most * max > 0 ? most / max : MOST; \
    const T scale = from_min < from_max ? from_min : from_max; \
    const T inverse = from_min < from_max ? min / least : max / most; \
    if (from_min < from_max) max = most * inverse; \
    else min = least * inverse; \
    for (int64_t at = which * r->inner; at < x->size; at += step) \
      for (int64_t i = at; i < at + r->inner; i++) { \
        T v = (T)ref_get(x, i); \
        if (h->given) v = v > max ? max : v < min ? min : v; \
        v = h->up ? FLOOR(v * scale + (T)0.5) : RINT(v * scale); \
        ref_put(y, i, v * inverse); \
      } \
  }
ROUND_RUN(round_float, float, FLT_MAX, rintf, floorf)
ROUND_RUN(round_double, double, DBL_MAX, rint, floor)

static int32_t quantize_and_dequantize(df_kernel *k, const how *h, int64_t axis) {
  const df_tensor *x = k->in[0];
  ranges r;
  const int32_t code = ranges_of(k, axis, h->given, &r);
  if (code) return code;
  if (h->bits < 1 + h->is_signed || h->bits > 62 + h->is_signed)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "num_bits is %lld: expected %d to %d", (long long)h->bits, 1 + h->is_signed,
                    62 + h->is_signed);
  df_tensor *y = dfk_out_like(k, 0, x);
  for (int64_t i = 0; y && x->size && i < r.count; i++) {
    const double min = h->given ? ref_get(k->in[1], i) : 0, max = h->given ? ref_get(k->in[2], i) : 0;
    if (min > max)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "input_min is %g, which is above input_max, %g", min, max);
    if (x->dtype == DF_FLOAT64) round_double(x, y, &r, i, h, min, max);
    else round_float(x, y, &r, i, h, (float)min, (float)max);
  }
  return y ? DF_OK : k->error->code;
}

/* attributes: signed_input, num_bits, range_given, round_mode, narrow_range, axis */
int32_t ref_quantize_and_dequantize_v2(df_kernel *k) {
  const how h = { .is_signed = dfk_bool(k, 0), .bits = dfk_int(k, 1), .given = dfk_bool(k, 2),
                  .up = !strcmp(dfk_string(k, 3), "HALF_UP"), .narrow = dfk_bool(k, 4) };
  return quantize_and_dequantize(k, &h, dfk_int(k, 5));
}
/* num_bits is input 3; attributes: signed_input, range_given, narrow_range, axis */
int32_t ref_quantize_and_dequantize_v3(df_kernel *k) {
  if (k->in[3]->size != 1) return dfk_fail(k, DF_INVALID_ARGUMENT, "num_bits must be one number");
  const how h = { .is_signed = dfk_bool(k, 0), .bits = dfk_index(k->in[3], 0), .given = dfk_bool(k, 1),
                  .narrow = dfk_bool(k, 2) };
  return quantize_and_dequantize(k, &h, dfk_int(k, 3));
}

/* (gradients, input, input_min, input_max; axis): the gradients where the input lies in its range */
int32_t ref_quantize_and_dequantize_grad(df_kernel *k) {
  const df_tensor *dy = k->in[0], *x = k->in[1], *in[] = { x, k->in[2], k->in[3] };
  df_kernel of_x = *k;
  ranges r;
  of_x.in = in;
  if (!dfk_fake_one_shape(k, dy, x) || ranges_of(&of_x, dfk_int(k, 0), true, &r)) return k->error->code;
  df_tensor *dx = dfk_out_like(k, 0, x);
  for (int32_t i = 1; dx && i < 3; i++) {
    df_tensor *zero = dfk_out_like(k, i, k->in[1 + i]);
    if (!zero) return k->error->code;
    for (int64_t j = 0; j < zero->size; j++) ref_put(zero, j, 0);
  }
  for (int64_t i = 0; dx && i < x->size; i++) {
    const int64_t of = i / r.inner % r.count;
    const double v = ref_get(x, i);
    ref_put(dx, i, v >= ref_get(k->in[2], of) && v <= ref_get(k->in[3], of) ? ref_get(dy, i) : 0);
  }
  return dx ? DF_OK : k->error->code;
}
