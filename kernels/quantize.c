/* quantize.c: see quantize.h. Compiled without fused multiply-add: numbers are on the border of two integers often, and
 * have to fall on TensorFlow's side.
 */
#include "quantize.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PIECE = 1024, GRAIN = 16384 };

/* The least and the greatest integer of a quantised dtype. */
void dfk_quantized_bounds(int32_t dtype, double *low, double *high) {
  switch (dtype) {
    case DF_QINT8:   *low = -128;        *high = 127; break;
    case DF_QUINT8:  *low = 0;           *high = 255; break;
    case DF_QINT16:  *low = -32768;      *high = 32767; break;
    case DF_QUINT16: *low = 0;           *high = 65535; break;
    default:         *low = -2147483648; *high = 2147483647; break;
  }
}

/* The mode that the attribute's text names; -1: none. */
static int32_t mode_of(const char *mode) {
  return !strcmp(mode, "MIN_COMBINED") ? DFK_MIN_COMBINED : !strcmp(mode, "MIN_FIRST") ? DFK_MIN_FIRST
         : !strcmp(mode, "SCALED") ? DFK_SCALED : -1;
}

/* ---- along an axis ---------------------------------------------------------------------------------------- */

/* Elements in runs of `inner`, which take the ranges in turns. */
typedef struct runs { int64_t count, inner; } runs;

static bool runs_of(df_kernel *k, int64_t axis, runs *r) {
  const df_tensor *x = k->in[0];
  char text[160];
  *r = (runs){ 1, x->size };
  if (axis >= 0) {
    if (axis >= x->rank) {
      dfk_fail(k, DF_INVALID_ARGUMENT, "axis is %lld, but input is %s", (long long)axis,
               dfk_shape_text(x, text, sizeof text));
      return false;
    }
    r->count = x->dims[axis];
    r->inner = 1;
    for (int32_t d = (int32_t)axis + 1; d < x->rank; d++) r->inner *= x->dims[d];
  }
  for (int32_t i = 1; i <= 2; i++) {
    const df_tensor *t = k->in[i];
    if (t->size == r->count && (axis < 0 || t->rank == 1)) continue;
    char expected[40] = "one number";
    if (axis >= 0) snprintf(expected, sizeof expected, "float32[%lld]", (long long)r->count);
    dfk_fail(k, DF_INVALID_ARGUMENT, "%s must be %s, got %s", i == 1 ? "min_range" : "max_range", expected,
             dfk_shape_text(t, text, sizeof text));
    return false;
  }
  return true;
}

/* ---- quantising ---------------------------------------------------------------------------------------------- */

/* q = round(within(x, low, high) * scale [- first] [...]), then within least and most. */
typedef struct way { float low, high, scale, first, least, most; int32_t mode; bool even, is_signed; } way;

typedef struct quantising { const float *x; char *y; const way *way; runs runs; int32_t dtype; } quantising;

static inline float within(float x, float low, float high) {
  const float y = x < high ? x : high;
  return y > low ? y : low;
}

static void quantise_some(const way *w, const float *x, float *q, int64_t n) {
  const float low = w->low, high = w->high, scale = w->scale, first = w->first;
  if (w->mode == DFK_MIN_FIRST) for (int64_t i = 0; i < n; i++) q[i] = roundf(x[i] * scale) - first;
  else if (w->mode == DFK_SCALED && w->even)
    for (int64_t i = 0; i < n; i++) q[i] = rintf(within(x[i], low, high) * scale);
  else if (w->mode == DFK_SCALED) for (int64_t i = 0; i < n; i++) q[i] = roundf(within(x[i], low, high) * scale);
  else if (w->is_signed)
    for (int64_t i = 0; i < n; i++) q[i] = roundf((within(x[i], low, high) - low) * scale - first);
  else for (int64_t i = 0; i < n; i++) q[i] = truncf((within(x[i], low, high) - low) * scale + 0.5f);
  /* NaN is 0: TensorFlow gives that or the least integer, by where the element lies */
  for (int64_t i = 0; i < n; i++) q[i] = x[i] != x[i] ? 0 : within(q[i], w->least, w->most);
}

#define STORE(T) for (int64_t i = 0; i < n; i++) ((T *)to)[i] = (T)q[i]
static void store_some(int32_t dtype, const float *q, void *to, int64_t n) {
  switch (dtype) {
    case DF_QINT8:   STORE(int8_t); break;
    case DF_QUINT8:  STORE(uint8_t); break;
    case DF_QINT16:  STORE(int16_t); break;
    case DF_QUINT16: STORE(uint16_t); break;
    default: for (int64_t i = 0; i < n; i++) ((int32_t *)to)[i] = q[i] >= 2147483648.f ? INT32_MAX : (int32_t)q[i];
  }
}

static void quantise_range(void *arg, int64_t begin, int64_t end) {
  const quantising *s = arg;
  const int64_t bytes = df_dtype_bytes(s->dtype), inner = s->runs.inner;
  float q[PIECE];
  while (begin < end) {
    int64_t n = end - begin < PIECE ? end - begin : PIECE;
    if (n > inner - begin % inner) n = inner - begin % inner;
    quantise_some(&s->way[begin / inner % s->runs.count], s->x + begin, q, n);
    store_some(s->dtype, q, s->y + begin * bytes, n);
    begin += n;
  }
}

/* The way for one range, which becomes what the integers' bounds stand for. */
static way way_of(int32_t mode, int32_t dtype, bool even, bool narrow, float *min, float *max) {
  double low, high;
  dfk_quantized_bounds(dtype, &low, &high);
  way w = { .mode = mode, .even = even, .is_signed = low < 0, .least = (float)low, .most = (float)high };
  if (mode == DFK_SCALED) {
    const float least = (float)(low + narrow), most = (float)high;
    const float from_min = least * *min > 0 ? least / *min : FLT_MAX;
    const float from_max = most * *max > 0 ? most / *max : FLT_MAX;
    w.scale = from_min < from_max ? from_min : from_max;
    *min = least / w.scale;
    *max = most / w.scale;
  } else if (mode == DFK_MIN_COMBINED) {
    w.scale = (float)(high - low) / (*max - *min);
    w.first = w.is_signed ? ((float)high - (float)low + 1) / 2 : 0;
  } else {
    w.scale = *max == *min ? 0 : (float)((high - low) / (double)(*max - *min));
    w.first = (*max == *min ? 0 : roundf(*min * w.scale)) - (float)low;
    if (w.most > 2147483520.f) w.most = 2147483520.f;
  }
  w.low = *min;
  w.high = *max;
  return w;
}

int32_t ref_quantize(df_kernel *k) {
  const df_tensor *x = k->in[0];
  const int64_t axis = dfk_int(k, 4);
  const int32_t mode = mode_of(dfk_string(k, 1)), dtype = k->out_dtype[0];
  runs r;
  if (!runs_of(k, axis, &r)) return k->error->code;
  const int32_t rank = axis >= 0;                      /* of the ranges */
  df_tensor *y = dfk_out(k, 0, dtype, x->rank, x->dims), *low = dfk_out(k, 1, DF_FLOAT32, rank, &r.count),
            *high = dfk_out(k, 2, DF_FLOAT32, rank, &r.count);
  if (!y || !low || !high) return DF_RESOURCE_EXHAUSTED;
  way *ways = dfk_scratch(k, (r.count + 1) * (int64_t)sizeof *ways);
  if (!ways) return DF_RESOURCE_EXHAUSTED;
  for (int64_t i = 0; i < r.count; i++) {
    const float least = ((const float *)k->in[1]->data)[i], most = ((const float *)k->in[2]->data)[i];
    const float apart = fmaxf(1, fmaxf(fabsf(least), fabsf(most))) * (float)dfk_float(k, 5);
    float *min = (float *)low->data + i, *max = (float *)high->data + i;
    if (most < least) {
      dfk_free(ways);
      return dfk_fail(k, DF_INVALID_ARGUMENT, "max_range is %g, which is below min_range, %g", most, least);
    }
    *min = least < 0 ? least : 0;
    *max = fmaxf(0, fmaxf(most, *min + apart));
    ways[i] = way_of(mode, dtype, !strcmp(dfk_string(k, 2), "HALF_TO_EVEN"), dfk_bool(k, 3), min, max);
  }
  quantising s = { x->data, y->data, ways, r, dtype };
  dfk_parallel(k, x->size, GRAIN, quantise_range, &s);
  dfk_free(ways);
  return DF_OK;
}

/* ---- and back -------------------------------------------------------------------------------------------------- */

typedef struct line { float before, scale, after; } line;        /* (x + before) scale + after */
typedef struct returning { const char *x; float *y; const line *line; runs runs; int32_t dtype; } returning;

#define LOAD(T) for (int64_t i = 0; i < n; i++) y[i] = ((float)((const T *)from)[i] + before) * scale + after
static void return_range(void *arg, int64_t begin, int64_t end) {
  const returning *s = arg;
  const int64_t bytes = df_dtype_bytes(s->dtype), inner = s->runs.inner;
  while (begin < end) {
    const line *w = &s->line[begin / inner % s->runs.count];
    const float before = w->before, scale = w->scale, after = w->after;
    const int64_t n = end - begin < inner - begin % inner ? end - begin : inner - begin % inner;
    const void *from = s->x + begin * bytes;
    float *y = s->y + begin;
    switch (s->dtype) {
      case DF_QINT8:   LOAD(int8_t); break;
      case DF_QUINT8:  LOAD(uint8_t); break;
      case DF_QINT16:  LOAD(int16_t); break;
      case DF_QUINT16: LOAD(uint16_t); break;
      default:         LOAD(int32_t);
    }
    begin += n;
  }
}

static line line_of(int32_t mode, int32_t dtype, bool narrow, float min, float max) {
  double low, high;
  dfk_quantized_bounds(dtype, &low, &high);
  const float least = (float)(low + narrow), most = (float)high;
  if (mode == DFK_SCALED)
    return (line){ 0, low < 0 && min / least > max / most ? min / least : max / most, 0 };
  if (mode == DFK_MIN_COMBINED)
    return (line){ low < 0 ? ((float)high - (float)low + 1) / 2 : 0, (max - min) / ((float)high - (float)low), min };
  const float scale = max == min ? 0 : (float)((double)(max - min) / (high - low));
  const float first = max == min ? min : roundf(min / scale) * scale;
  return (line){ 0, scale, first - (float)low * scale };
}

int32_t ref_dequantize(df_kernel *k) {
  const df_tensor *x = k->in[0];
  const int32_t mode = mode_of(dfk_string(k, 0));
  runs r;
  if (!runs_of(k, dfk_int(k, 2), &r)) return k->error->code;
  df_tensor *y = dfk_out(k, 0, DF_FLOAT32, x->rank, x->dims);
  if (!y) return DF_RESOURCE_EXHAUSTED;
  line *lines = dfk_scratch(k, (r.count + 1) * (int64_t)sizeof *lines);
  if (!lines) return DF_RESOURCE_EXHAUSTED;
  for (int64_t i = 0; i < r.count; i++)
    lines[i] = line_of(mode, x->dtype, dfk_bool(k, 1), ((const float *)k->in[1]->data)[i],
                       ((const float *)k->in[2]->data)[i]);
  returning s = { x->data, y->data, lines, r, x->dtype };
  dfk_parallel(k, x->size, GRAIN, return_range, &s);
  dfk_free(lines);
  return DF_OK;
}

/* ---- floats rounded as if they were quantised ------------------------------------------------------------------ */

/* A range moved a little, so that one of the numbers is 0. */
typedef struct nudged { float min, max, scale, inverse, zero; bool none; } nudged;

static nudged nudge(float min, float max, int64_t bits, bool narrow) {
  const float least = narrow, most = (float)(((int64_t)1 << bits) - 1);
  nudged u = { .none = min == 0 && max == 0, .scale = (max - min) / (most - least) };
  const float from_min = least - min / u.scale;
  const float zero = from_min < least ? least : from_min > most ? most : roundf(from_min);
  u.min = (least - zero) * u.scale;
  u.max = (most - zero) * u.scale;
  u.inverse = 1 / u.scale;
  u.zero = roundf(-u.min * u.inverse);
  return u;
}

/* What the attributes from `at` on, or inputs from `in` on (at below 0), say. */
static bool nudge_by(df_kernel *k, int32_t at, int32_t in, nudged *u) {
  const int32_t bits_at = at < 0 ? 0 : 2;
  const int64_t bits = dfk_int(k, bits_at);
  double min, max;
  if (at >= 0) {
    min = dfk_float(k, 0);
    max = dfk_float(k, 1);
  } else {
    if (!dfk_fake_range(k, in)) return false;
    min = *(const float *)k->in[in]->data;
    max = *(const float *)k->in[in + 1]->data;
  }
  *u = nudge((float)min, (float)max, bits, dfk_bool(k, bits_at + 1));
  return true;
}

typedef struct faking { const float *dy, *x; float *y; nudged u; } faking;

/* A NaN stays one. */
static void fake_range(void *arg, int64_t begin, int64_t end) {
  const faking *s = arg;
  const nudged u = s->u;
  for (int64_t i = begin; i < end; i++) {
    const float x = s->x[i];
    const float y = floorf((within(x, u.min, u.max) - u.min) * u.inverse - u.zero + 0.5f) * u.scale;
    s->y[i] = x == x ? y : x;
  }
}

static void fake_grad_range(void *arg, int64_t begin, int64_t end) {
  const faking *s = arg;
  const nudged u = s->u;
  for (int64_t i = begin; i < end; i++) s->y[i] = s->x[i] >= u.min && s->x[i] <= u.max ? s->dy[i] : 0;
}

static int32_t fake(df_kernel *k, int32_t at) {
  faking s = { .x = k->in[0]->data };
  if (!nudge_by(k, at, 1, &s.u)) return k->error->code;
  df_tensor *y = dfk_out_reuse(k, 0, 0, DF_FLOAT32, k->in[0]->rank, k->in[0]->dims);
  if (!y) return DF_RESOURCE_EXHAUSTED;
  s.y = y->data;
  if (s.u.none) memset(s.y, 0, (size_t)y->size * 4);
  else dfk_parallel(k, y->size, GRAIN, fake_range, &s);
  return DF_OK;
}

int32_t ref_fake_quant(df_kernel *k)      { return fake(k, 0); }
int32_t ref_fake_quant_vars(df_kernel *k) { return fake(k, -1); }

/* Output 0 and what it was made of. */
static bool fake_grad(df_kernel *k, int32_t at, faking *s) {
  const df_tensor *dy = k->in[0], *x = k->in[1];
  if (!dfk_fake_one_shape(k, dy, x)) return false;
  *s = (faking){ .dy = dy->data, .x = x->data };
  if (!nudge_by(k, at, 2, &s->u)) return false;
  df_tensor *y = dfk_out_like(k, 0, x);
  if (!y) return false;
  s->y = y->data;
  if (s->u.none) memcpy(s->y, s->dy, (size_t)y->size * 4);
  else dfk_parallel(k, y->size, GRAIN, fake_grad_range, s);
  return true;
}

int32_t ref_fake_quant_grad(df_kernel *k) {
  faking s;
  return fake_grad(k, 0, &s) ? DF_OK : k->error->code;
}

int32_t ref_fake_quant_vars_grad(df_kernel *k) {
  faking s;
  if (!fake_grad(k, -1, &s)) return k->error->code;
  df_tensor *low = dfk_out(k, 1, DF_FLOAT32, 0, NULL), *high = dfk_out(k, 2, DF_FLOAT32, 0, NULL);
  if (!low || !high) return DF_RESOURCE_EXHAUSTED;
  double below = 0, above = 0;
  for (int64_t i = 0; !s.u.none && i < k->in[0]->size; i++) {
    if (s.x[i] < s.u.min) below += s.dy[i];
    if (s.x[i] > s.u.max) above += s.dy[i];             /* both, where max is below min, as in TensorFlow */
  }
  *(float *)low->data = (float)below;
  *(float *)high->data = (float)above;
  return DF_OK;
}

/* ---- the same with a range for each channel --------------------------------------------------------------------- */

/* Of the ranges in inputs `in` and `in` + 1, one for each place of x's last axis; NULL: the error is filled. For
 * dfk_free. */
static nudged *nudge_channels(df_kernel *k, int32_t in, const df_tensor *x) {
  const int64_t n = dfk_fake_ranges(k, in, x);
  if (n < 0) return NULL;
  nudged *u = dfk_scratch(k, (n + 1) * (int64_t)sizeof *u);
  for (int64_t i = 0; u && i < n; i++)
    u[i] = nudge(((const float *)k->in[in]->data)[i], ((const float *)k->in[in + 1]->data)[i], dfk_int(k, 0),
                 dfk_bool(k, 1));
  return u;
}

typedef struct channels { const float *dy, *x; float *y; const nudged *of; int64_t n; } channels;

static void channels_range(void *arg, int64_t begin, int64_t end) {
  const channels *s = arg;
  for (int64_t i = begin; i < end; i++) {
    const nudged *u = &s->of[i % s->n];
    const float x = within(s->x[i], u->min, u->max);
    s->y[i] = u->none ? 0 : floorf((x - u->min) * u->inverse - u->zero + 0.5f) * u->scale;
  }
}

static void channels_grad_range(void *arg, int64_t begin, int64_t end) {
  const channels *s = arg;
  for (int64_t i = begin; i < end; i++) {
    const nudged *u = &s->of[i % s->n];
    s->y[i] = u->none || (s->x[i] >= u->min && s->x[i] <= u->max) ? s->dy[i] : 0;
  }
}

int32_t ref_fake_quant_channels(df_kernel *k) {
  const df_tensor *x = k->in[0];
  nudged *of = nudge_channels(k, 1, x);
  if (!of) return k->error->code ? k->error->code : DF_RESOURCE_EXHAUSTED;
  df_tensor *y = dfk_out_reuse(k, 0, 0, DF_FLOAT32, x->rank, x->dims);
  if (y) {
    channels s = { .x = x->data, .y = y->data, .of = of, .n = x->dims[x->rank - 1] };
    dfk_parallel(k, y->size, GRAIN, channels_range, &s);
  }
  dfk_free(of);
  return y ? DF_OK : DF_RESOURCE_EXHAUSTED;
}

int32_t ref_fake_quant_channels_grad(df_kernel *k) {
  const df_tensor *dy = k->in[0], *x = k->in[1];
  if (!dfk_fake_one_shape(k, dy, x)) return k->error->code;
  nudged *of = nudge_channels(k, 2, x);
  if (!of) return k->error->code ? k->error->code : DF_RESOURCE_EXHAUSTED;
  const int64_t n = x->dims[x->rank - 1];
  df_tensor *y = dfk_out_like(k, 0, x), *low = dfk_out(k, 1, DF_FLOAT32, 1, &n),
            *high = dfk_out(k, 2, DF_FLOAT32, 1, &n);
  if (y && low && high) {
    channels s = { .dy = dy->data, .x = x->data, .y = y->data, .of = of, .n = n };
    dfk_parallel(k, y->size, GRAIN, channels_grad_range, &s);
    for (int64_t c = 0; c < n; c++) {
      double below = 0, above = 0;
      for (int64_t i = c; !of[c].none && i < x->size; i += n) {
        if (s.x[i] < of[c].min) below += s.dy[i];
        else if (s.x[i] > of[c].max) above += s.dy[i];
      }
      ((float *)low->data)[c] = (float)below;
      ((float *)high->data)[c] = (float)above;
    }
  }
  dfk_free(of);
  return y && low && high ? DF_OK : DF_RESOURCE_EXHAUSTED;
}

/* ---- products: what is wrong, and what the result stands for -------------------------------------------------- */

const float *dfk_quantized_range(df_kernel *k, int32_t i, const char *name, int64_t n, int64_t *found) {
  const df_tensor *t = k->in[i];
  char text[160], expected[64] = "one number";
  *found = t->size;
  if (t->size == 1 || (n > 1 && t->size == n && t->rank == 1)) return t->data;
  if (n > 1) snprintf(expected, sizeof expected, "one number or float32[%lld]", (long long)n);
  dfk_fail(k, DF_INVALID_ARGUMENT, "%s must be %s, got %s", name, expected, dfk_shape_text(t, text, sizeof text));
  return NULL;
}

/* One number of each of four inputs from `from` on. */
static bool ranges_of(df_kernel *k, int32_t from, float range[4]) {
  static const char *const name[] = { "min_a", "max_a", "min_b", "max_b" };
  for (int32_t i = 0; i < 4; i++) {
    int64_t found;
    const float *r = dfk_quantized_range(k, from + i, name[i], 1, &found);
    if (!r) return false;
    range[i] = *r;
  }
  return true;
}

/* The integer that stands for 0 in a range. */
static int32_t zero_of(int32_t dtype, float min, float max) {
  double low, high;
  dfk_quantized_bounds(dtype, &low, &high);
  if (min == max) return 0;
  return (int32_t)(-round(min * ((high - low) / (double)(max - min))) + low);
}

/* What two integers that follow each other are apart. */
static float level_of(int32_t dtype, float min, float max) {
  double low, high;
  dfk_quantized_bounds(dtype, &low, &high);
  return (max - min) / (float)(high - low);
}

/* The same where the integer 0 stands for 0. */
static float level_scaled(int32_t dtype, float min, float max) {
  return fmaxf(fabsf(min), fabsf(max)) / (dtype == DF_QUINT8 ? 255 : 127);
}

/* The range of sums of products, outputs 1 and 2, and output 0. */
static df_tensor *sums_of(df_kernel *k, dfk_quantized *p, int32_t rank, const int64_t *dims) {
  const int32_t a = k->in[0]->dtype, b = k->in[1]->dtype;
  float range[4];
  if (!ranges_of(k, 2, range)) return NULL;
  p->zero_a = zero_of(a, range[0], range[1]);
  p->zero_b = zero_of(b, range[2], range[3]);
  df_tensor *y = dfk_out(k, 0, DF_QINT32, rank, dims), *low = dfk_out(k, 1, DF_FLOAT32, 0, NULL),
            *high = dfk_out(k, 2, DF_FLOAT32, 0, NULL);
  if (!y || !low || !high) return NULL;
  const float level = level_of(a, range[0], range[1]) * level_of(b, range[2], range[3]);
  *(float *)low->data = level * -2147483648.f;
  *(float *)high->data = level * 2147483647.f;
  return y;
}

static int32_t matrices_of(df_kernel *k, dfk_quantized *p, int64_t *dims) {
  const df_tensor *a = k->in[0], *b = k->in[1];
  char s[160], t[160];
  *p = (dfk_quantized){ .a_t = dfk_bool(k, 0), .b_t = dfk_bool(k, 1) };
  if (a->rank != 2 || b->rank != 2 || a->dims[!p->a_t] != b->dims[p->b_t])
    return dfk_fail(k, DF_INVALID_ARGUMENT, "a %s%s and b %s%s have no product", dfk_shape_text(a, s, sizeof s),
                    p->a_t ? " transposed" : "", dfk_shape_text(b, t, sizeof t), p->b_t ? " transposed" : "");
  dims[0] = p->m = a->dims[p->a_t];
  dims[1] = p->n = b->dims[!p->b_t];
  p->k = a->dims[!p->a_t];
  return DF_OK;
}

/* The product that a convolution is. The attributes are strides, padding, dilations and, where there are four,
 * padding_list. */
static int32_t window_of(df_kernel *k, dfk_quantized *p, dfk_conv *c, const df_attr *pads, int64_t *dims) {
  const df_attr none = { 0 }, explicit = { .s = "EXPLICIT", .i = 8 }, format = { .s = "NHWC", .i = 4 };
  const bool given = pads && pads->i > 0;
  const df_attr attrs[] = { k->attrs[0], given ? explicit : k->attrs[1], given ? *pads : none, format, k->attrs[2] };
  df_kernel as_conv = *k;
  as_conv.attrs = attrs;
  const int32_t code = dfk_conv2d_of(&as_conv, false, c, dims);
  if (code) return code;
  if (c->groups != 1) return dfk_fail(k, DF_UNIMPLEMENTED, "the input has %lld channels, the filter is for %lld: "
                                      "groups of channels are not quantized", (long long)c->ci,
                                      (long long)(c->ci / c->groups));
  *p = (dfk_quantized){ .m = dfk_conv_places(c), .n = c->co, .k = dfk_conv_taps(c) * c->ci, .window = c };
  return DF_OK;
}

int32_t dfk_quantized_matmul(df_kernel *k, dfk_quantized_fn run) {
  dfk_quantized p;
  int64_t dims[2];
  const int32_t code = matrices_of(k, &p, dims);
  if (code) return code;
  df_tensor *y = sums_of(k, &p, 2, dims);
  return !y ? k->error->code : y->size ? run(k, &p, y) : DF_OK;
}

int32_t dfk_quantized_conv2d(df_kernel *k, dfk_quantized_fn run) {
  dfk_quantized p;
  dfk_conv c;
  int64_t dims[4];
  const int32_t code = window_of(k, &p, &c, NULL, dims);
  if (code) return code;
  df_tensor *y = sums_of(k, &p, 4, dims);
  return !y ? k->error->code : y->size ? run(k, &p, y) : DF_OK;
}

/* ---- products and what follows them ----------------------------------------------------------------------------- */

void dfk_rescale_shifts(const dfk_rescale *r, const uint32_t *column_sum, int64_t n) {
  for (int64_t j = 0; r->offset != 0 && j < n; j++)
    r->shift[j] += r->offset * r->scale[j] * (float)(int32_t)column_sum[j];
}

/* The scales and the bias of p's columns: r->scale is for dfk_free. */
static int32_t rescale_of(df_kernel *k, const dfk_quantized *p, bool min_first, dfk_rescale *r) {
  const int32_t bias = k->nin > 8 ? 2 : 0, at = bias ? 3 : 2, a = k->in[0]->dtype;
  const df_tensor *b = k->in[2];
  char text[160];
  int64_t found, ranges, ranges_high;
  const float *low = dfk_quantized_range(k, at, "the least number of a", 1, &found);
  const float *high = low ? dfk_quantized_range(k, at + 1, "the greatest number of a", 1, &found) : NULL;
  const float *least = high ? dfk_quantized_range(k, at + 2, "the least number of b", p->n, &ranges) : NULL;
  const float *most = least ? dfk_quantized_range(k, at + 3, "the greatest number of b", p->n, &ranges_high) : NULL;
  if (!most) return k->error->code;
  if (ranges != ranges_high)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "b has %lld least numbers and %lld greatest ones", (long long)ranges,
                    (long long)ranges_high);
  if (bias && (b->rank != 1 || b->size != p->n))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "bias is %s: expected a number for each of %lld columns",
                    dfk_shape_text(b, text, sizeof text), (long long)p->n);
  const float level = min_first ? level_of(a, *low, *high) : level_scaled(a, *low, *high);
  r->scale = dfk_scratch(k, (p->n * 2 + 1) * 4);
  if (!r->scale) return DF_RESOURCE_EXHAUSTED;
  r->shift = r->scale + p->n;
  r->offset = min_first && level > 0 ? *low / level : 0;
  for (int64_t j = 0; j < p->n; j++) {
    const float step = level_scaled(DF_QINT8, least[ranges > 1 ? j : 0], most[ranges > 1 ? j : 0]);
    r->scale[j] = level * step;
    r->shift[j] = !bias ? 0 : b->dtype == DF_FLOAT32 ? ((const float *)b->data)[j]
                                                     : (float)((const int32_t *)b->data)[j] * r->scale[j];
  }
  return DF_OK;
}

/* The outputs: 0 has p's sums as numbers, or as the integers of the range that inputs `at` and at + 1 ask for. */
static df_tensor *rescaled_of(df_kernel *k, dfk_rescale *r, int32_t at, int32_t rank, const int64_t *dims) {
  r->dtype = k->out_dtype[0];
  df_tensor *y = dfk_out(k, 0, r->dtype, rank, dims);
  if (!y || r->dtype == DF_FLOAT32) return y;
  for (int32_t i = 0; i < 2; i++) {
    int64_t found;
    const float *asked = dfk_quantized_range(k, at + i, i ? "max_freezed_output" : "min_freezed_output", 1, &found);
    df_tensor *told = asked ? dfk_out(k, 1 + i, DF_FLOAT32, 0, NULL) : NULL;
    if (!told) return NULL;
    *(float *)told->data = *asked;
  }
  const float step = level_scaled(r->dtype, *(const float *)k->in[at]->data, *(const float *)k->in[at + 1]->data);
  r->steps = step > 0 ? 1 / step : 0;
  return y;
}

static int32_t fused(df_kernel *k, dfk_quantized *p, bool min_first, int32_t rank, const int64_t *dims,
                     dfk_quantized_fn run) {
  dfk_rescale r = { 0 };
  int32_t code = rescale_of(k, p, min_first, &r);
  p->then = &r;
  if (!code) {
    df_tensor *y = rescaled_of(k, &r, k->nin - 2, rank, dims);
    code = !y ? k->error->code : y->size ? run(k, p, y) : DF_OK;
  }
  dfk_free(r.scale);
  return code;
}

int32_t dfk_quantized_matmul_fused(df_kernel *k, dfk_quantized_fn run) {
  dfk_quantized p;
  int64_t dims[2];
  const int32_t code = matrices_of(k, &p, dims);
  return code ? code : fused(k, &p, strcmp(dfk_string(k, 2), "SCALED") != 0, 2, dims, run);
}

int32_t dfk_quantized_conv2d_fused(df_kernel *k, dfk_quantized_fn run) {
  dfk_quantized p;
  dfk_conv c;
  int64_t dims[4];
  const int32_t code = window_of(k, &p, &c, &k->attrs[3], dims);
  return code ? code : fused(k, &p, false, 4, dims, run);
}
