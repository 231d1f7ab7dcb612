/* requantize.c: from integers of one range to those of another, and what else is done to quantised tensors as they are.
 *
 * TensorFlow's meaning, to the bit: it converts single numbers in double, tensors in float, and qint32 to quint8 in
 * fixed point. Compiled without fused multiply-add, as quantize.c.
 */
#include "array.h"
#include "quantize.h"
#include <math.h>

enum { GRAIN = 16384 };

/* ---- single numbers ---------------------------------------------------------------------------------------------- */

/* How many integers there are for one number, in a range of all but one of them. */
static double per_one(int32_t dtype, float min, float max) {
  double low, high;
  dfk_quantized_bounds(dtype, &low, &high);
  const double steps = high - low + 1;
  return steps / ((max - min) * (steps / (steps - 1)));
}

int64_t dfk_quantized_of(int32_t dtype, float x, float min, float max) {
  double low, high;
  dfk_quantized_bounds(dtype, &low, &high);
  if (min == max) return (int64_t)low;
  const double scale = per_one(dtype, min, max), q = round(x * scale) - round(min * scale) + low;
  return q > high ? (int64_t)high : q > low ? (int64_t)q : (int64_t)low;
}

float dfk_quantized_number(int32_t dtype, int32_t q, float min, float max) {
  double low, high;
  dfk_quantized_bounds(dtype, &low, &high);
  if (min == max) return min;
  const double steps = high - low + 1, step = (max - min) * (steps / (steps - 1)) / steps;
  const float rounded = (float)step;
  return (float)(round(min / rounded) * rounded + (q - low) * step);
}

/* ---- many of them ------------------------------------------------------------------------------------------------ */

/* Of dtype `from` in a range, and to `to` in another. In float: (x + before) scale, then * per_one - first; in fixed
 * point: (x factor >> 32) + offset >> 16. */
typedef struct change {
  const void *x;
  void    *y;
  int32_t  from, to;
  float    base, scale, per_one, first, least, most;
  int64_t  factor, offset;
  bool     fixed;
} change;

static int32_t element(const void *x, int32_t dtype, int64_t i) {
  switch (dtype) {
    case DF_QINT8:   return ((const int8_t *)x)[i];
    case DF_QUINT8:  return ((const uint8_t *)x)[i];
    case DF_QINT16:  return ((const int16_t *)x)[i];
    case DF_QUINT16: return ((const uint16_t *)x)[i];
    default:         return ((const int32_t *)x)[i];
  }
}
static void set_element(void *y, int32_t dtype, int64_t i, int32_t v) {
  switch (dtype) {
    case DF_QINT8:   ((int8_t *)y)[i] = (int8_t)v; break;
    case DF_QUINT8:  ((uint8_t *)y)[i] = (uint8_t)v; break;
    case DF_QINT16:  ((int16_t *)y)[i] = (int16_t)v; break;
    case DF_QUINT16: ((uint16_t *)y)[i] = (uint16_t)v; break;
    default:         ((int32_t *)y)[i] = v;
  }
}

static void change_from(change *c, float min, float max) {
  double low, high;
  dfk_quantized_bounds(c->from, &low, &high);
  c->scale = (float)((double)(max - min) / (high - low));
  const float rounded = max == min ? min : roundf(min / c->scale) * c->scale;
  c->base = rounded - (float)low * c->scale;
}
static void change_to(change *c, float min, float max) {
  double low, high;
  dfk_quantized_bounds(c->to, &low, &high);
  c->per_one = max == min ? 0 : (float)((high - low) / (double)(max - min));
  c->first = roundf(min * c->per_one) - (float)low;
  c->least = (float)low;
  c->most = high > 2147483520. ? 2147483520.f : (float)high;
}
/* The one way of qint32 to quint8. */
static void change_fixed(change *c, float min, float max, float to_min, float to_max) {
  const float range = max - min, to_range = to_max - to_min;
  const float reciprocal = to_range == 0 ? 0 : (float)(255.0 / to_range);
  c->fixed = true;
  c->factor = to_range == 0 ? 0 : (int64_t)(255.0 * (1 << 16) * range / to_range);
  c->offset = (int64_t)((min + max) / 2.0f * reciprocal * (1 << 16)) + (1 << 15);
  c->offset -= to_range == 0 ? 0 : (int64_t)((1 << 16) * (to_min * 255.0) / to_range);
}

static inline int32_t changed(const change *c, int32_t x) {
  const float q = roundf((c->base + (float)x * c->scale) * c->per_one) - c->first;
  return (int32_t)(q > c->most ? c->most : q > c->least ? q : c->least);
}
static void change_range(void *arg, int64_t begin, int64_t end) {
  const change *c = arg;
  for (int64_t i = begin; c->fixed && i < end; i++) {
    const int64_t q = ((((const int32_t *)c->x)[i] * c->factor >> 32) + c->offset) >> 16;
    ((uint8_t *)c->y)[i] = (uint8_t)(q > 255 ? 255 : q > 0 ? q : 0);
  }
  for (int64_t i = begin; !c->fixed && i < end; i++)
    set_element(c->y, c->to, i, changed(c, element(c->x, c->from, i)));
}

/* Two numbers, inputs i and i + 1. False: the error is filled. */
static bool range_of(df_kernel *k, int32_t i, const char *of, float *min, float *max) {
  int64_t found;
  const float *low = dfk_quantized_range(k, i, of, 1, &found);
  const float *high = low ? dfk_quantized_range(k, i + 1, of, 1, &found) : NULL;
  if (!high) return false;
  *min = *low;
  *max = *high;
  return true;
}
static bool tell_range(df_kernel *k, int32_t out, float min, float max) {
  df_tensor *low = dfk_out(k, out, DF_FLOAT32, 0, NULL), *high = dfk_out(k, out + 1, DF_FLOAT32, 0, NULL);
  if (!low || !high) return false;
  *(float *)low->data = min;
  *(float *)high->data = max;
  return true;
}

/* Output 0 is input 0 in another range. */
static int32_t requantize(df_kernel *k, float min, float max, float to_min, float to_max) {
  const df_tensor *x = k->in[0];
  change c = { .x = x->data, .from = x->dtype, .to = k->out_dtype[0] };
  df_tensor *y = dfk_out(k, 0, c.to, x->rank, x->dims);
  if (!y || !tell_range(k, 1, to_min, to_max)) return k->error->code;
  c.y = y->data;
  change_from(&c, min, max);
  change_to(&c, to_min, to_max);
  if (c.from == DF_QINT32 && c.to == DF_QUINT8) change_fixed(&c, min, max, to_min, to_max);
  dfk_parallel(k, x->size, GRAIN, change_range, &c);
  return DF_OK;
}

int32_t ref_requantize(df_kernel *k) {
  float min, max, to_min, to_max;
  if (!range_of(k, 1, "the input's range", &min, &max) || !range_of(k, 3, "the requested range", &to_min, &to_max))
    return k->error->code;
  if (to_min > 0 || to_max < 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the requested range is from %g to %g: 0 must be in it", to_min, to_max);
  return requantize(k, min, max, to_min, to_max);
}

/* The numbers that the least and the greatest element stand for, the first of them 0 at most. */
static bool found_range(df_kernel *k, float *min, float *max, float *least, float *most) {
  const df_tensor *x = k->in[0];
  double low, high;
  if (!range_of(k, 1, "the input's range", min, max)) return false;
  dfk_quantized_bounds(x->dtype, &low, &high);
  int32_t from = (int32_t)high, to = (int32_t)low;
  for (int64_t i = 0; i < x->size; i++) {
    const int32_t v = element(x->data, x->dtype, i);
    if (v < from) from = v;
    if (v > to) to = v;
  }
  *least = fminf(0, dfk_quantized_number(x->dtype, from, *min, *max));
  *most = dfk_quantized_number(x->dtype, to, *min, *max);
  return true;
}

int32_t ref_requantization_range(df_kernel *k) {
  float min, max, least, most;
  if (!found_range(k, &min, &max, &least, &most) || !tell_range(k, 0, least, most)) return k->error->code;
  return DF_OK;
}

int32_t ref_quantize_down(df_kernel *k) {
  float min, max, least, most;
  if (!found_range(k, &min, &max, &least, &most)) return k->error->code;
  return requantize(k, min, max, least, most);
}

/* ---- ReLU -------------------------------------------------------------------------------------------------------- */

typedef struct bounds { const void *x; void *y; int32_t dtype, low, high; } bounds;

static void clip_range(void *arg, int64_t begin, int64_t end) {
  const bounds *b = arg;
  for (int64_t i = begin; i < end; i++) {
    const int32_t v = element(b->x, b->dtype, i);
    set_element(b->y, b->dtype, i, v < b->low ? b->low : v > b->high ? b->high : v);
  }
}
/* At least what stands for 0, at most what stands for `most`. */
static int32_t rectify(df_kernel *k, float most) {
  const df_tensor *x = k->in[0];
  float min, max;
  if (!range_of(k, 1, "the features' range", &min, &max)) return k->error->code;
  df_tensor *y = dfk_out_reuse(k, 0, 0, x->dtype, x->rank, x->dims);
  if (!y || !tell_range(k, 1, min, max)) return k->error->code;
  bounds b = { x->data, y->data, x->dtype, (int32_t)dfk_quantized_of(x->dtype, 0, min, max),
               (int32_t)dfk_quantized_of(x->dtype, most, min, max) };
  dfk_parallel(k, x->size, GRAIN, clip_range, &b);
  return DF_OK;
}
int32_t ref_quantized_relu(df_kernel *k)  { return rectify(k, INFINITY); }
int32_t ref_quantized_relu6(df_kernel *k) { return rectify(k, 6); }

/* ---- sums -------------------------------------------------------------------------------------------------------- */

typedef struct sum { change x, y; int64_t n; int32_t zero; int32_t *z; } sum;

static void add_range(void *arg, int64_t begin, int64_t end) {
  const sum *s = arg;
  for (int64_t i = begin; i < end; i++) {
    const uint32_t a = (uint32_t)changed(&s->x, element(s->x.x, s->x.from, i));
    const uint32_t b = (uint32_t)changed(&s->y, element(s->y.x, s->y.from, i % s->n));
    s->z[i] = (int32_t)(a + b + (uint32_t)s->zero);
  }
}

int32_t ref_quantized_add(df_kernel *k) {
  const df_tensor *x = k->in[0], *y = k->in[1];
  float min, max, y_min, y_max;
  char a[160], b[160];
  if (!range_of(k, 2, "the input's range", &min, &max) || !range_of(k, 4, "the bias's range", &y_min, &y_max))
    return k->error->code;
  if (x->rank < 2 || y->rank != 1 || y->size != x->dims[x->rank - 1])
    return dfk_fail(k, DF_INVALID_ARGUMENT, "bias is %s and input %s: it must have a number for each place of their "
                    "last axis, of two or more", dfk_shape_text(y, a, sizeof a), dfk_shape_text(x, b, sizeof b));
  df_tensor *z = dfk_out(k, 0, DF_QINT32, x->rank, x->dims);
  const float most = fmaxf(fmaxf(max, -min), fmaxf(y_max, -y_min)) * (1 << 17);
  if (!z || !tell_range(k, 1, -most, most)) return k->error->code;
  sum s = { .x = { .x = x->data, .from = x->dtype, .to = DF_QINT32 },
            .y = { .x = y->data, .from = y->dtype, .to = DF_QINT32 }, .n = y->size, .z = z->data,
            .zero = (int32_t)dfk_quantized_of(DF_QINT32, 0, -most, most) };
  change_from(&s.x, min, max);
  change_from(&s.y, y_min, y_max);
  change_to(&s.x, -most, most);
  change_to(&s.y, -most, most);
  dfk_parallel(k, z->size, GRAIN, add_range, &s);
  return DF_OK;
}

/* ---- pooling ----------------------------------------------------------------------------------------------------- */

/* A pool of input 0, whose attributes are ksize, strides and padding; its range stays. */
static int32_t pool(df_kernel *k, df_kernel_fn fn) {
  float min, max;
  if (!range_of(k, 1, "the input's range", &min, &max) || !tell_range(k, 1, min, max)) return k->error->code;
  const df_attr attrs[] = { k->attrs[0], k->attrs[1], k->attrs[2], { .s = "NHWC", .i = 4 } };
  df_kernel as_pool = *k;
  as_pool.attrs = attrs;
  as_pool.nin = as_pool.nout = 1;
  return fn(&as_pool);
}

/* The sum of a channel's integers in a window, and how many they are. */
static int32_t window_sum(const df_tensor *x, const dfk_pool *p, const int64_t from[3], int64_t channel, int32_t *n) {
  int32_t total = 0;
  *n = 0;
  for (int64_t y = from[1] > 0 ? from[1] : 0; y < from[1] + p->y.window && y < p->y.in; y++)
    for (int64_t u = from[2] > 0 ? from[2] : 0; u < from[2] + p->x.window && u < p->x.in; u++, ++*n)
      total += element(x->data, x->dtype, ((from[0] * p->y.in + y) * p->x.in + u) * p->c + channel);
  return total;
}
static int32_t average(df_kernel *k, const dfk_pool *p, const df_tensor *in, const df_tensor *out, const df_tensor *dy,
                       const int64_t *made) {
  df_tensor *y = dfk_out(k, 0, in->dtype, p->rank, made);
  for (int64_t i = 0; y && i < y->size; i++) {
    const int64_t place = i / p->c, x = place % p->x.out, row = place / p->x.out % p->y.out;
    const int64_t from[] = { place / (p->x.out * p->y.out), row * p->y.stride - p->y.before,
                             x * p->x.stride - p->x.before };
    int32_t n, total = window_sum(in, p, from, i % p->c, &n);
    set_element(y->data, y->dtype, i, n ? total / n : 0);
  }
  (void)out, (void)dy;
  return y ? DF_OK : k->error->code;
}
static int32_t average_pool(df_kernel *k) { return dfk_pooled(k, average); }

int32_t ref_quantized_max_pool(df_kernel *k) { return pool(k, cpu_max_pool); }
int32_t ref_quantized_avg_pool(df_kernel *k) { return pool(k, average_pool); }

/* ---- concatenation and other shapes ----------------------------------------------------------------------------- */

/* The range of n inputs together: `each` has theirs. */
static bool range_of_all(df_kernel *k, int32_t n, float *each, float *min, float *max) {
  for (int32_t i = 0; i < n; i++) {
    int64_t found;
    const float *low = dfk_quantized_range(k, 1 + n + i, "input_mins", 1, &found);
    const float *high = low ? dfk_quantized_range(k, 1 + 2 * n + i, "input_maxes", 1, &found) : NULL;
    if (!high) return false;
    each[2 * i] = *low;
    each[2 * i + 1] = *high;
    *min = i && *min < *low ? *min : *low;
    *max = i && *max > *high ? *max : *high;
  }
  double low, high;
  dfk_quantized_bounds(k->in[1]->dtype, &low, &high);
  if (low == 0) return true;
  *max = fmaxf(fabsf(*min), fabsf(*max));
  *min = -*max;
  return true;
}

/* Value i, each of its `outer` rows to y from element `at` on, `step` apart. */
static void copy_changed(const df_tensor *x, const float own[2], const float all[2], df_tensor *y, int64_t at,
                         int64_t step, int64_t outer) {
  const int64_t row = outer ? x->size / outer : 0, bytes = df_dtype_bytes(x->dtype);
  change c = { .from = x->dtype, .to = x->dtype };
  change_from(&c, own[0], own[1]);
  change_to(&c, all[0], all[1]);
  const bool same = own[0] == all[0] && own[1] == all[1];
  for (int64_t o = 0; o < outer; o++) {
    c.x = (const char *)x->data + o * row * bytes;
    c.y = (char *)y->data + (at + o * step) * bytes;
    if (same) memcpy(c.y, c.x, (size_t)(row * bytes));
    else change_range(&c, 0, row);
  }
}

int32_t ref_quantized_concat(df_kernel *k) {
  const int32_t n = (k->nin - 1) / 3;
  float all[2] = { 0 }, *each = dfk_scratch(k, (n * 2 + 1) * 4);
  const df_tensor **in = each ? dfk_scratch(k, (n + 1) * (int64_t)sizeof *in) : NULL;
  int32_t axis, code = DF_OK;
  df_tensor *y = NULL;
  if (in && range_of_all(k, n, each, &all[0], &all[1]) && tell_range(k, 1, all[0], all[1])) {
    for (int32_t i = 0; i <= n; i++) in[i] = k->in[i < n ? i + 1 : 0];
    df_kernel as_concat = *k;
    as_concat.nin = n + 1;
    as_concat.in = in;
    y = dfk_concat_begin(&as_concat, &axis);
  }
  if (!y) code = k->error->code;
  for (int64_t i = 0, at = 0; y && i < n; i++) {
    const int64_t outer = dfk_span(y->dims, 0, axis);
    copy_changed(in[i], each + 2 * i, all, y, at, dfk_span(y->dims, axis, y->rank), outer);
    at += dfk_span(in[i]->dims, axis, y->rank);
  }
  dfk_free(in);
  dfk_free(each);
  return code;
}

int32_t ref_quantized_reshape(df_kernel *k) {
  float min, max;
  if (!range_of(k, 2, "the input's range", &min, &max) || !tell_range(k, 1, min, max)) return k->error->code;
  df_kernel as_reshape = *k;
  as_reshape.nin = 2;
  as_reshape.nout = 1;
  return ref_reshape(&as_reshape);
}
