/* formulas.h: elementwise functions of float32 and float64 that are one C expression. A row is all that the fast
 * kernels need: the loops over tensors, the function for unboxed scalars and the prototypes come of it; kernels/ref/
 * has the reference, written apart.
 *
 *   X(name, expression)      in it x (and y) are the operands and `t` is their type; functions are those of <tgmath.h>
 */
#ifndef DFLOW_FORMULAS_H
#define DFLOW_FORMULAS_H

#include <math.h>

/* How a function of an element is declared; a device's compiler has more to say. */
#ifndef DFK_ELEMENT
#define DFK_ELEMENT static inline
#endif

/* The inverse of erf, to about an ulp of float64: a start that is good to 0.003 (Winitzki, A handy approximation for
 * the error function, 2008), then Halley steps. The steps compare erfc where erf is near 1 and has no digits left. */
DFK_ELEMENT double dfk_erfinv(double y) {
  const double m = fabs(y), half_root_pi = 0.886226925452758013649;
  if (!(m < 1)) return m == 1 ? copysign(INFINITY, y) : NAN;
  const double a = 0.147, l = log1p(-m * m), u = 2 / (3.14159265358979323846 * a) + l / 2;
  double x = sqrt(sqrt(u * u - l / a) - u);
  for (int step = 0; step < 3; step++) {
    const double miss = m < 0.5 ? erf(x) - m : (1 - m) - erfc(x), newton = miss * half_root_pi * exp(x * x);
    x -= newton / (1 + x * newton);
  }
  return m < 1e-9 ? half_root_pi * y : copysign(x, y);
}

/* erfinv(2 p - 1), without losing the digits of a small p. */
DFK_ELEMENT double dfk_erfinv_of_tail(double p) {
  if (!(p > 0 && p < 0.25)) return dfk_erfinv(2 * p - 1);
  double x = -dfk_erfinv(1 - 2 * p);
  if (!isfinite(x)) x = -sqrt(-log(p));
  for (int step = 0; step < 6; step++) {                   /* Newton on log(erfc(-x) / 2) = log p */
    const double q = erfc(-x) / 2, miss = log(q / p);
    x -= miss * q * 1.772453850905516027298 * exp(x * x);
  }
  return x;
}

/* Of one operand. */
#define DFK_FORMULAS1(X) \
  X(softsign, x / (1 + fabs(x))) \
  X(ndtri, 1.4142135623730950488 * dfk_erfinv_of_tail(x))

/* Of two operands. The gradients take theirs in TensorFlow's order. */
#define DFK_FORMULAS2(X) \
  X(softsign_grad, x / ((1 + fabs(y)) * (1 + fabs(y)))) \
  X(next_after, nextafter(x, y))

#endif
