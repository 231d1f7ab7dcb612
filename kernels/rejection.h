/* rejection.h: numbers of distributions that are drawn until they fit, for the CPU and the GPU alike.
 *
 * Whoever includes it has `draws`, a place in a stream of TensorFlow's, `uniform(draws *)`, the next number of [0, 1),
 * and `two_normal(draws *, double[2])`.
 */
#ifndef DFLOW_KERNELS_REJECTION_H
#define DFLOW_KERNELS_REJECTION_H

/* Marsaglia's and Tsang's: a cube of a normal number, thrown away now and then. */
DFK_DRAW double gamma_number(draws *d, double alpha) {
  if (alpha == 1) return -log1p(-uniform(d));
  const bool small = alpha < 1;
  const double top = alpha + (small ? 2.0 / 3 : -1.0 / 3), c = 1.0 / 3 / sqrt(top);
  double normal[2];
  int left = 0;
  for (;;) {
    if (!left) { two_normal(d, normal); left = 2; }
    const double x = normal[--left];
    double v = 1 + c * x;
    if (v <= 0) continue;
    v = v * v * v;
    const double u = uniform(d);
    if (u >= 1 - 0.0331 * (x * x) * (x * x) && log(u) >= 0.5 * x * x + top * (1 - v + log(v))) continue;
    return small ? top * v * pow(uniform(d), 1 / alpha) : top * v;
  }
}

/* Knuth's product of uniform numbers. */
DFK_DRAW double small_poisson(draws *d, double rate) {
  const double end = exp(-rate);
  double product = 1, x = 0;
  for (;; x++)
    if ((product *= uniform(d)) <= end) return x;
}

/* Hoermann's transformed rejection, for rates from 10 on. */
DFK_DRAW double large_poisson(draws *d, double rate) {
  const double log_rate = log(rate), b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b,
               inverse = 1.1239 + 1.1328 / (b - 3.4);
  for (;;) {
    const double u = uniform(d) - 0.5, v = uniform(d), us = 0.5 - fabs(u);
    const double x = floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2)) return x;
    if (x < 0 || (us < 0.013 && v > us)) continue;
    if (log(v * inverse / (a / (us * us) + b)) <= -rate + x * log_rate - lgamma(x + 1)) return x;
  }
}

DFK_DRAW double poisson_number(draws *d, double rate) {
  if (rate != rate || rate < 0) return NAN;
  if (rate - rate != 0) return INFINITY;
  return rate < 10 ? small_poisson(d, rate) : large_poisson(d, rate);
}

/* How many times of `count` something of probability p < 1/2 happens: the waits between are geometric. */
DFK_DRAW double small_binomial(draws *d, double count, double p) {
  double sum = 0, n = 0;
  for (;; n++)
    if ((sum += ceil(log(uniform(d)) / log1p(-p))) > count) return n;
}

/* What Stirling's formula lacks of log(k!). */
DFK_DRAW double stirling_tail(double k) {
  switch (k <= 9 ? (int)k : 10) {
    case 0: return 0.0810614667953272;
    case 1: return 0.0413406959554092;
    case 2: return 0.0276779256849983;
    case 3: return 0.02079067210376509;
    case 4: return 0.0166446911898211;
    case 5: return 0.0138761288230707;
    case 6: return 0.0118967099458917;
    case 7: return 0.0104112652619720;
    case 8: return 0.00925546218271273;
    case 9: return 0.00833056343336287;
  }
  const double square = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

/* Hoermann's transformed rejection with a squeeze, for count * p from 10 on. */
DFK_DRAW double large_binomial(draws *d, double count, double p) {
  const double deviation = sqrt(count * p * (1 - p)), b = 1.15 + 2.53 * deviation,
               a = -0.0873 + 0.0248 * b + 0.01 * p, c = count * p + 0.5, v_r = 0.92 - 4.2 / b, r = p / (1 - p),
               alpha = (2.83 + 5.1 / b) * deviation, m = floor((count + 1) * p);
  for (;;) {
    const double u = uniform(d) - 0.5, v = uniform(d), us = 0.5 - fabs(u), k = floor((2 * a / us + b) * u + c);
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || k > count) continue;
    const double bound = (m + 0.5) * log((m + 1) / (r * (count - m + 1))) +
                         (count + 1) * log((count - m + 1) / (count - k + 1)) +
                         (k + 0.5) * log(r * (count - k + 1) / (k + 1)) + stirling_tail(m) +
                         stirling_tail(count - m) - stirling_tail(k) - stirling_tail(count - k);
    if (log(v * alpha / (a / (us * us) + b)) <= bound) return k;
  }
}

/* Whether a binomial number has a large mean, which says how far apart numbers begin, too. */
DFK_DRAW bool large_mean(double count, double p) { return count * (p > 0.5 ? 1 - p : p) >= 10; }

DFK_DRAW double binomial_number(draws *d, double count, double p) {
  if (count <= 0 || p <= 0) return 0;
  if (p >= 1) return count;
  if (count != count || p != p) return NAN;
  const bool other = p > 0.5;
  const double q = other ? 1 - p : p;
  const double n = large_mean(count, p) ? large_binomial(d, count, q) : small_binomial(d, count, q);
  return other ? count - n : n;
}
#endif
