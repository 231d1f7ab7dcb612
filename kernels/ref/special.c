/* special.c: Digamma, Polygamma and Zeta: the derivatives of Lgamma. In double precision on every device: none has
 * asked for fast ones. */
#include "../elementwise.h"
#include "elementwise.h"
#include <math.h>

/* The Hurwitz zeta function: the sum over n >= 0 of (q + n)^-x, for x > 1. Terms are added while q + n is small, and
 * Euler and Maclaurin do the rest; the numbers are (2j)! over the Bernoulli number B_2j. */
static double zeta(double x, double q) {
  static const double factor[] = { 12, -720, 30240, -1209600, 47900160, -1.8924375803183791606e9, 7.47242496e10,
    -2.950130727918164224e12, 1.1646782814350067249e14, -4.5979787224074726105e15, 1.8152105401943546773e17,
    -7.1661652561756670113e18 };
  if (x == 1) return INFINITY;                   /* whatever q is, as TensorFlow's */
  if (isnan(x) || isnan(q) || x < 1) return NAN;
  if (isinf(x)) return q < 1 ? INFINITY : q == 1;
  if (q <= 0) {
    if (q == floor(q)) return fmod(x, 2) == 0 ? INFINITY : NAN;      /* of poles of odd order the sides differ */
    if (x != floor(x)) return NAN;               /* a negative number to a power that is no integer */
    double f = -q - floor(-q), mirrored = zeta(x, f) - zeta(x, 1 - q);   /* the terms below zero are those of f to -q */
    return (fmod(x, 2) == 1 ? -mirrored : mirrored) + zeta(x, 1 - f);
  }
  if (isinf(q)) return 0;
  double sum = pow(q, -x), a = q, term;
  do {
    a += 1;
    term = pow(a, -x);
    sum += term;
    if (term < sum * 0x1p-54) return sum;
  } while (a < 12);
  sum += term * a / (x - 1) - 0.5 * term;
  double rising = 1, k = 0;
  for (int32_t i = 0; i < 12; i++) {
    rising *= x + k;
    term /= a;
    double t = rising * term / factor[i];
    sum += t;
    if (fabs(t) < fabs(sum) * 0x1p-54) break;
    k += 1;
    rising *= x + k;
    term /= a;
    k += 1;
  }
  return sum;
}

static double digamma(double x) {
  if (x <= 0) {
    if (x == floor(x)) return NAN;               /* the poles, and -inf */
    return digamma(1 - x) - M_PI / tan(M_PI * (x - floor(x)));
  }
  double below = 0;
  for (; x < 10; x += 1) below += 1 / x;
  double z = 1 / (x * x);
  double tail =
      z *
      (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
  return log(x) - 0.5 / x - tail - below;
}

static double polygamma(double n, double x) {
  if (n == 0) return digamma(x);
  if (n < 0 || n != floor(n)) return NAN;
  return (isinf(n) || fmod(n, 2) == 1 ? 1 : -1) * tgamma(n + 1) * zeta(n + 1, x);
}

int32_t ref_digamma(df_kernel *k)   { return dfk_ref_unary(k, digamma, NULL, NULL, NULL); }
int32_t ref_polygamma(df_kernel *k) { return dfk_ref_binary(k, polygamma, NULL, NULL, NULL); }
int32_t ref_zeta(df_kernel *k)      { return dfk_ref_binary(k, zeta, NULL, NULL, NULL); }
