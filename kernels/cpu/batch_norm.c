/* batch_norm.c: fast batch normalisation: sums in double, of parts of the batch that the shape alone says. */
#include "../nn.h"
#include <math.h>

enum { PART = 16384, LANES = 8 };     /* elements of a part at least; sums side by side along a channel */

/* x as [outer, channels, inner]; what is summed in each part, a number for each channel. */
typedef struct norm {
  const df_tensor *x;
  df_tensor    *y;
  const double *mean;                 /* NULL: x is summed; else the squares of what differs from it */
  const double *by, *shift;
  double       *sum;
  int64_t       outer, channels, inner, rows, parts;
} norm;

static inline double term(double v, double mean, bool squared) { return squared ? (v - mean) * (v - mean) : v; }

/* Of `n` elements of a channel that lie side by side; of a row that has one of each. */
#define SUMS(T, s) \
  static double sum_##s(const T *x, int64_t n, double mean, bool squared) { \
    double lane[LANES] = { 0 }; \
    int64_t i = 0; \
    for (; i + LANES <= n; i += LANES) \
      for (int l = 0; l < LANES; l++) lane[l] += term((double)x[i + l], mean, squared); \
    for (; i < n; i++) lane[0] += term((double)x[i], mean, squared); \
    for (int w = LANES / 2; w; w /= 2) for (int l = 0; l < w; l++) lane[l] += lane[l + w]; \
    return lane[0]; \
  } \
  static void add_##s(const T *x, int64_t channels, const double *mean, double *restrict to) { \
    if (mean) for (int64_t c = 0; c < channels; c++) to[c] += term((double)x[c], mean[c], true); \
    else for (int64_t c = 0; c < channels; c++) to[c] += (double)x[c]; \
  } \
  static void sums_##s(void *arg, int64_t begin, int64_t end) { \
    const norm *b = arg; \
    for (int64_t p = begin; p < end; p++) { \
      double *to = b->sum + p * b->channels; \
      const int64_t last = (p + 1) * b->rows < b->outer ? (p + 1) * b->rows : b->outer; \
      for (int64_t c = 0; c < b->channels; c++) to[c] = 0; \
      for (int64_t o = p * b->rows; o < last; o++) { \
        const T *x = (const T *)b->x->data + o * b->channels * b->inner; \
        if (b->inner == 1) { add_##s(x, b->channels, b->mean, to); continue; } \
        for (int64_t c = 0; c < b->channels; c++) \
          to[c] += sum_##s(x + c * b->inner, b->inner, b->mean ? b->mean[c] : 0, b->mean != NULL); \
      } \
    } \
  } \
  static void apply_##s(void *arg, int64_t begin, int64_t end) { \
    const norm *b = arg; \
    for (int64_t o = begin; o < end; o++) { \
      const T *x = (const T *)b->x->data + o * b->channels * b->inner; \
      T *restrict y = (T *)b->y->data + o * b->channels * b->inner; \
      if (b->inner == 1) for (int64_t c = 0; c < b->channels; c++) y[c] = (T)((double)x[c] * b->by[c] + b->shift[c]); \
      else for (int64_t c = 0; c < b->channels; c++, x += b->inner, y += b->inner) { \
        const double by = b->by[c], shift = b->shift[c]; \
        for (int64_t i = 0; i < b->inner; i++) y[i] = (T)((double)x[i] * by + shift); \
      } \
    } \
  }
SUMS(float, f32)
SUMS(double, f64)

static double at(const df_tensor *t, int64_t i) {
  return t->dtype == DF_FLOAT64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}
static void set(df_tensor *t, int64_t i, double v) {
  if (t->dtype == DF_FLOAT64) ((double *)t->data)[i] = v; else ((float *)t->data)[i] = (float)v;
}

/* The sums of all parts, in order, over n. */
static void average(df_kernel *k, const norm *b, double n, double *to) {
  dfk_parallel(k, b->parts, 1, b->x->dtype == DF_FLOAT64 ? sums_f64 : sums_f32, (void *)b);
  for (int64_t c = 0; c < b->channels; c++) {
    double sum = 0;
    for (int64_t p = 0; p < b->parts; p++) sum += b->sum[p * b->channels + c];
    to[c] = n > 0 ? sum / n : 0;
  }
}

int32_t cpu_batch_norm(df_kernel *k) {
  const df_tensor *x = k->in[0];
  dfk_norm d;
  int32_t code = dfk_norm_begin(k, &d);
  if (code) return code;
  const int64_t row = d.channels * d.inner, rows = row && row < PART ? PART / row : 1;
  norm b = { .x = x, .y = d.out[0], .outer = d.outer, .channels = d.channels, .inner = d.inner, .rows = rows,
             .parts = (d.outer + rows - 1) / rows };
  double *memory = dfk_scratch(k, (4 + b.parts) * d.channels * 8), *variance = memory + d.channels;
  if (!memory) return DF_RESOURCE_EXHAUSTED;
  double *by = variance + d.channels, *shift = by + d.channels;
  b.sum = shift + d.channels;
  if (d.training) {
    average(k, &b, (double)d.n, memory);
    b.mean = memory;
    average(k, &b, (double)d.n, variance);
  }
  if (d.out[5]) set(d.out[5], 0, 0);
  for (int64_t c = 0; c < d.channels; c++) {
    if (!d.training) { memory[c] = at(k->in[3], c); variance[c] = at(k->in[4], c); }
    const double mean = memory[c], spread = variance[c],
                 unbiased = d.training && d.n > 1 ? spread * ((double)d.n / (double)(d.n - 1)) : spread;
    by[c] = at(k->in[1], c) / sqrt(spread + d.epsilon);
    shift[c] = at(k->in[2], c) - mean * by[c];
    set(d.out[1], c, d.moving ? (1 - d.factor) * at(k->in[3], c) + d.factor * mean : mean);
    set(d.out[2], c, d.moving ? (1 - d.factor) * at(k->in[4], c) + d.factor * unbiased : unbiased);
    set(d.out[3], c, mean);
    set(d.out[4], c, spread);
  }
  b.by = by;
  b.shift = shift;
  dfk_parallel(k, b.outer, rows, x->dtype == DF_FLOAT64 ? apply_f64 : apply_f32, &b);
  dfk_free(memory);
  return DF_OK;
}
