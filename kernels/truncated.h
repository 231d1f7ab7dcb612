/* truncated.h: normal numbers between two bounds, for the CPU and the GPU alike, by rejection: what is drawn from a
 * curve above the density stays with the probability of the ratio of the two. Element e draws from block e of the
 * stream.
 *
 * Which curve: the normal one itself where the bounds lie around its middle, a uniform one where they are close
 * together, and in a tail an exponential one (C. P. Robert, Simulation of truncated normal variables).
 */
#ifndef DFLOW_KERNELS_TRUNCATED_H
#define DFLOW_KERNELS_TRUNCATED_H
#include "philox.h"

/* Bounds in deviations from the mean; low < high. */
typedef struct bounds { double low, high; } bounds;

/* Two numbers in [0, 1) of attempt `number`. */
DFK_DRAW void draw_two(const dfk_stream *s, int64_t e, uint32_t number, double u[2]) {
  uint32_t w[4];
  dfk_philox(s, (uint64_t)e, number, w);
  u[0] = dfk_unit_double(w[0], w[1]);
  u[1] = dfk_unit_double(w[2], w[3]);
}

enum { ATTEMPTS = 65535 };               /* of one element: the worst curve is left by one in three */

DFK_DRAW double around(const dfk_stream *s, int64_t e, bounds b) {
  for (uint32_t n = 0; n < ATTEMPTS; n++) {
    double u[2];
    draw_two(s, e, n, u);
    const double x = sqrt(-2 * log1p(-u[0])) * cos(2 * 3.14159265358979323846 * u[1]);
    if (x >= b.low && x <= b.high) return x;
  }
  return fmin(fmax(0.0, b.low), b.high);
}

DFK_DRAW double close_together(const dfk_stream *s, int64_t e, bounds b) {
  const double top = fmin(fmax(0.0, b.low), b.high);         /* where the density is highest */
  for (uint32_t n = 0; n < ATTEMPTS; n++) {
    double u[2];
    draw_two(s, e, n, u);
    const double x = b.low + u[0] * (b.high - b.low);
    if (u[1] <= exp((top * top - x * x) / 2)) return x;
  }
  return top;
}

/* 0 < b.low. */
DFK_DRAW double tail(const dfk_stream *s, int64_t e, bounds b) {
  const double rate = (b.low + sqrt(b.low * b.low + 4)) / 2;
  for (uint32_t n = 0; n < ATTEMPTS; n++) {
    double u[2];
    draw_two(s, e, n, u);
    const double x = b.low - log1p(-u[0]) / rate;
    if (x <= b.high && u[1] <= exp(-(x - rate) * (x - rate) / 2)) return x;
  }
  return b.low;
}

DFK_DRAW double between(const dfk_stream *s, int64_t e, double low, double high) {
  if (!(low < high)) return low;                   /* deviations so great, or so small, that the bounds are one */
  const bool below = high <= 0;
  const bounds b = { below ? -high : low, below ? -low : high };
  const double width = b.high - b.low;
  const bool close = b.low <= 0 ? width <= 1.25 : width * b.low < 1.25 && width < 1.25;
  const double x = close ? close_together(s, e, b) : b.low <= 0 ? around(s, e, b) : tail(s, e, b);
  return below ? -x : x;
}
#endif
