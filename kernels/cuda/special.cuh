/* special.cuh: Digamma, Polygamma and Zeta, in double whatever the dtype. */
#ifndef DFLOW_CUDA_SPECIAL_CUH
#define DFLOW_CUDA_SPECIAL_CUH
#include "kernel.cuh"

/* (2j)! over the Bernoulli number B_2j, for j from 1: how Euler and Maclaurin's correction goes on. */
DFK_ELEMENT double correction(int j) {
  switch (j) {
    case 0: return 12;
    case 1: return -720;
    case 2: return 30240;
    case 3: return -1209600;
    case 4: return 47900160;
    case 5: return -1.8924375803183791606e9;
    case 6: return 7.47242496e10;
    case 7: return -2.950130727918164224e12;
    case 8: return 1.1646782814350067249e14;
    case 9: return -4.5979787224074726105e15;
    case 10: return 1.8152105401943546773e17;
    default: return -7.1661652561756670113e18;
  }
}
/* The sum over n >= 0 of (q + n)^-x for q > 0 and x > 1: terms one by one up to 12, then an integral and corrections. */
DFK_ELEMENT double zeta_right(double x, double q) {
  if (isinf(q)) return 0;
  double sum = 0, at = q, term = pow(at, -x);
  for (; at < 12; at += 1, term = pow(at, -x)) {
    sum += term;
    if (term < sum * 0x1p-54) return sum;
  }
  sum += term * at / (x - 1) + 0.5 * term;
  double factor = x, power = term / at;
  for (int j = 0; j < 12; j++) {
    const double part = factor * power / correction(j);
    sum += part;
    if (fabs(part) < fabs(sum) * 0x1p-54) break;
    factor *= (x + 2 * j + 1) * (x + 2 * j + 2);
    power /= at * at;
  }
  return sum;
}
DFK_ELEMENT double zeta(double x, double q) {
  if (x == 1) return INFINITY;
  if (isnan(x) || isnan(q) || x < 1) return NAN;
  if (isinf(x)) return q < 1 ? INFINITY : q == 1;
  if (q > 0) return zeta_right(x, q);
  if (q == floor(q)) return fmod(x, 2.0) == 0 ? INFINITY : NAN;
  if (x != floor(x)) return NAN;
  /* the terms below zero are, but for their sign, those from the mirrored fraction up to -q */
  const double fraction = -q - floor(-q), mirrored = zeta_right(x, fraction) - zeta_right(x, 1 - q);
  return (fmod(x, 2.0) == 1 ? -mirrored : mirrored) + zeta_right(x, 1 - fraction);
}
DFK_ELEMENT double digamma_right(double x) {
  double below = 0;
  for (; x < 10; x += 1) below += 1 / x;
  const double z = 1 / (x * x);
  double tail = z / 12;
  tail = z * (691.0 / 32760 - tail);
  tail = z * (1.0 / 132 - tail);
  tail = z * (1.0 / 240 - tail);
  tail = z * (1.0 / 252 - tail);
  tail = z * (1.0 / 120 - tail);
  tail = z * (1.0 / 12 - tail);
  return log(x) - 0.5 / x - tail - below;
}
DFK_ELEMENT double digamma(double x) {
  const double pi = 3.14159265358979323846;
  if (!(x <= 0)) return digamma_right(x);
  if (x == floor(x)) return NAN;
  return digamma_right(1 - x) - pi / tan(pi * (x - floor(x)));
}
DFK_ELEMENT double polygamma(double n, double x) {
  if (n == 0) return digamma(x);
  if (n < 0 || n != floor(n)) return NAN;
  return (isinf(n) || fmod(n, 2.0) == 1 ? 1 : -1) * tgamma(n + 1) * zeta(n + 1, x);
}

FLOAT1(digamma_, (t)digamma((double)x))
FLOAT2(polygamma_, (t)polygamma((double)x, (double)y))
FLOAT2(zeta_, (t)zeta((double)x, (double)y))
#endif
