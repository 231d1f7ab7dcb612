/* truncated.c: normal numbers between two bounds, by rejection: what is drawn from a curve above the density stays with
 * the probability of the ratio of the two. Element e of the output draws from block e of the stream, so what is thrown
 * away moves no other.
 *
 * Which curve: the normal one itself where the bounds lie around its middle, a uniform one where they are close
 * together, and in a tail an exponential one (C. P. Robert, Simulation of truncated normal variables).
 */
#include "../random.h"
#include "element.h"

/* Bounds in deviations from the mean; low < high. */
typedef struct bounds { double low, high; } bounds;

/* Two numbers in [0, 1) of attempt `number`. */
static void draw_two(const dfk_stream *s, int64_t e, uint32_t number, double u[2]) {
  uint32_t w[4];
  dfk_philox(s, (uint64_t)e, number, w);
  u[0] = dfk_unit_double(w[0], w[1]);
  u[1] = dfk_unit_double(w[2], w[3]);
}

enum { ATTEMPTS = 65535 };               /* of one element: the worst curve is left by one in three */

static double around(const dfk_stream *s, int64_t e, bounds b) {
  for (uint32_t n = 0; n < ATTEMPTS; n++) {
    double u[2];
    draw_two(s, e, n, u);
    const double x = sqrt(-2 * log1p(-u[0])) * cos(2 * 3.14159265358979323846 * u[1]);
    if (x >= b.low && x <= b.high) return x;
  }
  return fmin(fmax(0, b.low), b.high);
}

static double close_together(const dfk_stream *s, int64_t e, bounds b) {
  const double top = fmin(fmax(0, b.low), b.high);         /* where the density is highest */
  for (uint32_t n = 0; n < ATTEMPTS; n++) {
    double u[2];
    draw_two(s, e, n, u);
    const double x = b.low + u[0] * (b.high - b.low);
    if (u[1] <= exp((top * top - x * x) / 2)) return x;
  }
  return top;
}

/* 0 < b.low. */
static double tail(const dfk_stream *s, int64_t e, bounds b) {
  const double rate = (b.low + sqrt(b.low * b.low + 4)) / 2;
  for (uint32_t n = 0; n < ATTEMPTS; n++) {
    double u[2];
    draw_two(s, e, n, u);
    const double x = b.low - log1p(-u[0]) / rate;
    if (x <= b.high && u[1] <= exp(-(x - rate) * (x - rate) / 2)) return x;
  }
  return b.low;
}

static double between(const dfk_stream *s, int64_t e, bounds b) {
  if (!(b.low < b.high)) return b.low;             /* deviations so great, or so small, that the bounds are one */
  if (b.high <= 0) return -between(s, e, (bounds){ -b.high, -b.low });
  if (b.low <= 0) return b.high - b.low > 1.25 ? around(s, e, b) : close_together(s, e, b);
  return (b.high - b.low) * b.low < 1.25 && b.high - b.low < 1.25 ? close_together(s, e, b) : tail(s, e, b);
}

int32_t ref_parameterized_truncated_normal(df_kernel *k) {
  int32_t rank;
  int64_t dims[DF_MAX_RANK];
  if (!dfk_truncated_dims(k, &rank, dims)) return k->error->code;
  df_tensor *out = dfk_out(k, 0, k->out_dtype[0], rank, dims);
  if (!out) return k->error->code;
  const dfk_stream s = dfk_stream_of(k, dfk_int(k, 0));
  const int64_t each = dims[0] ? out->size / dims[0] : 0;
  for (int64_t i = 0; i < dims[0]; i++) {
    double p[4];
    for (int32_t j = 0; j < 4; j++) p[j] = ref_get(k->in[j + 1], k->in[j + 1]->size == 1 ? 0 : i);
    if (!(p[1] > 0) || !(p[2] < p[3]) || !isfinite(p[0]) || !isfinite(p[1]))
      return dfk_fail(k, DF_INVALID_ARGUMENT, "batch %lld has the mean %g, the deviation %g and the bounds %g and %g: "
                      "the mean and the deviation must be finite, the deviation above 0, the first bound below the "
                      "second", (long long)i, p[0], p[1], p[2], p[3]);
    const bounds b = { (p[2] - p[0]) / p[1], (p[3] - p[0]) / p[1] };
    for (int64_t e = i * each; e < (i + 1) * each; e++)
      ref_put(out, e, fmin(fmax(p[0] + p[1] * between(&s, e, b), p[2]), p[3]));
  }
  return DF_OK;
}
