/* integrals.c: functions that are integrals: incomplete gamma and beta functions, Bessel functions, and those of
 * Dawson, Fresnel and Spence. In double precision, by power series where these converge, and by asymptotic ones,
 * continued fractions or the trapezoidal rule beyond. Beside a function's domain it is what TensorFlow's is: NaN, or
 * infinite.
 */
#include "../elementwise.h"
#include "element.h"
#include "elementwise.h"
#include <math.h>

#define TINY 1e-300

/* ---- incomplete gamma functions ---------------------------------------------------------------------------------- */

/* x^a e^-x / gamma(a + more) */
static double gamma_front(double a, double x, double more) { return exp(a * log(x) - x - lgamma(a + more)); }

/* The share of gamma(a) below x: a series of positive terms. */
static double below(double a, double x) {
  double term = 1, sum = 1;
  for (double n = 1; term > sum * 0x1p-55; n++) sum += term *= x / (a + n);
  return gamma_front(a, x, 1) * sum;
}
/* The share above x, by the continued fraction, for x > a. */
static double above(double a, double x) {
  double b = x + 1 - a, c = 1 / TINY, d = 1 / b, h = d, change = 0;
  for (double i = 1; fabs(change - 1) > 0x1p-52 && i < 100000; i++) {
    const double an = -i * (i - a);
    b += 2;
    d = an * d + b;
    c = b + an / c;
    d = 1 / (fabs(d) < TINY ? TINY : d);
    c = fabs(c) < TINY ? TINY : c;
    h *= change = d * c;
  }
  return gamma_front(a, x, 0) * h;
}
/* From here on a has Temme's uniform expansion: one term is more exact than the series, whose number of terms grows. */
#define LARGE 1e6
/* Half the square of eta, eta, and the term's factor c0(eta) with its derivative; |mu| <= 0.1, mu = x / a - 1. */
typedef struct temme { double half, eta, factor, slope; } temme;
static temme temme_of(double mu) {
  temme t = { 0 };
  double power = mu * mu;                              /* mu - log1p(mu) without cancellation */
  for (double n = 2; fabs(power) > t.half * 0x1p-54; n++, power *= -mu) t.half += power / n;
  t.eta = copysign(sqrt(2 * t.half), mu);
  t.factor = -1.0 / 3 + t.eta * (1.0 / 12 - t.eta * (2.0 / 135 - t.eta / 864));
  t.slope = 1.0 / 12 - t.eta * (4.0 / 135 - t.eta / 288);
  return t;
}
/* How much of gamma(a) lies above x, for a large a; at |mu| > 0.1 it differs from 0 or 1 by less than any number. */
static double above_large(double a, double x) {
  const double mu = (x - a) / a;
  if (fabs(mu) > 0.1) return mu < 0;
  const temme t = temme_of(mu);
  return 0.5 * erfc(t.eta * sqrt(a / 2)) + exp(-a * t.half) / sqrt(2 * M_PI * a) * t.factor;
}
/* The derivative by a of the share below. */
static double below_large_grad(double a, double x) {
  const double mu = (x - a) / a;
  if (fabs(mu) > 0.1) return 0;
  const temme t = temme_of(mu);
  const double ratio = mu == 0 ? 1 : mu / t.eta, z = t.eta * sqrt(a / 2), moved = (t.eta / 2 - ratio) / sqrt(2 * a);
  const double bell = exp(-a * t.half);
  return bell * moved / sqrt(M_PI) -
         bell / sqrt(2 * M_PI * a) * (-2 * z * moved * t.factor - t.factor / (2 * a) - t.slope * ratio / a);
}
/* Values that need no summation; true: *y is it. */
static bool gamma_edge(double a, double x, bool is_above, double *y) {
  if (isnan(a) || isnan(x) || (is_above && a <= 0)) *y = NAN;
  else if (x == 0) *y = is_above;
  else if (x < 0 || a <= 0) *y = NAN;
  else if (isinf(a)) *y = isinf(x) ? NAN : is_above;
  else if (isinf(x)) *y = !is_above;
  else return false;
  return true;
}
static double igamma(double a, double x) {
  double y;
  if (gamma_edge(a, x, false, &y)) return y;
  if (a > LARGE) return 1 - above_large(a, x);
  return x > 1 && x > a ? 1 - above(a, x) : below(a, x);
}
static double igammac(double a, double x) {
  double y;
  if (gamma_edge(a, x, true, &y)) return y;
  if (a > LARGE) return above_large(a, x);
  return x < 1 || x < a ? 1 - below(a, x) : above(a, x);
}

static double psi(double x) {                          /* the derivative of lgamma, x > 0 */
  double less = 0;
  for (; x < 12; x += 1) less += 1 / x;
  const double z = 1 / (x * x);
  return log(x) - 0.5 / x - less -
         z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * 691.0 / 32760)))));
}
/* The derivative of igamma by a: of each term of the series. */
static double igamma_grad_a(double a, double x) {
  double y;
  if (gamma_edge(a, x, false, &y)) return isnan(y) ? y : 0;
  if (a > LARGE) return below_large_grad(a, x);
  const double front = gamma_front(a, x, 1);
  if (front == 0) return 0;
  double term = 1, slope = log(x) - psi(a + 1), sum = slope;
  for (double n = 1; term * (1 + fabs(slope)) > 0x1p-60 * (1 + fabs(sum)) || n < x; n++) {
    term *= x / (a + n);
    slope -= 1 / (a + n);
    sum += term * slope;
  }
  return front * sum;
}

/* ---- the incomplete beta function -------------------------------------------------------------------------------- */

static double beta_fraction(double a, double b, double x) {
  double c = 1, d = 1 - (a + b) * x / (a + 1), h, change = 0;
  d = 1 / (fabs(d) < TINY ? TINY : d);
  h = d;
  for (double m = 1; fabs(change - 1) > 0x1p-52 && m < 100000; m++) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)), step[] = { even, odd };
    for (int i = 0; i < 2; i++) {
      d = 1 + step[i] * d;
      c = 1 + step[i] / c;
      d = 1 / (fabs(d) < TINY ? TINY : d);
      c = fabs(c) < TINY ? TINY : c;
      h *= change = d * c;
    }
  }
  return h;
}
/* What Stirling's formula lacks of lgamma(a). */
static double stirling_rest(double a) {
  const double z = 1 / (a * a);
  if (a < 15) return lgamma(a) - (a - 0.5) * log(a) + a - 0.5 * log(2 * M_PI);
  return (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z * (1.0 / 1680 - z / 1188)))) / a;
}
/* -log of x^a (1-x)^b beside its greatest value, which is at a / (a + b): no large numbers are subtracted near it. */
static double below_peak(double a, double b, double x) {
  const double more = x * (a + b) - a, u = more / a, v = -more / b;
  return a * (fabs(u) < 0.1 ? temme_of(u).half : u - log(x) - log1p(b / a)) +
         b * (fabs(v) < 0.1 ? temme_of(v).half : v - log1p(-x) - log1p(a / b));
}
/* Where a and b are both large the fraction converges slowly: the first terms of the uniform expansion, DLMF 8.18.9. */
static double betainc_large(double a, double b, double x, double below) {
  const double n = a + b, width = sqrt(a / n) * sqrt(b / n), more = (x * n - a) / n;
  const double eta = copysign(sqrt(2 * fmax(below, 0) / n), more);
  const double factor = fabs(eta) < 1e-7 ? (b - a) / n / (3 * width) : 1 / eta - width / more;
  return 0.5 * erfc(-eta * sqrt(n / 2)) + exp(-below) / sqrt(2 * M_PI * n) * factor;
}
static double betainc(double a, double b, double x) {
  if (isnan(a) || isnan(b) || isnan(x) || a <= 0 || b <= 0 || x < 0 || x > 1) return NAN;
  if (x == 0 || x == 1) return x;
  const double below = below_peak(a, b, x);
  if (a > LARGE && b > LARGE) return betainc_large(a, b, x, below);
  const double front = sqrt(a) * sqrt(b / (a + b)) / sqrt(2 * M_PI) *
                       exp(stirling_rest(a + b) - stirling_rest(a) - stirling_rest(b) - below);
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

/* Three inputs of one shape, or single numbers. */
int32_t ref_betainc(df_kernel *k) {
  const df_tensor *like = k->in[0];
  char one[160], other[160];
  for (int32_t i = 1; i < 3; i++) {
    const df_tensor *t = k->in[i];
    const bool same = t->rank == like->rank && !memcmp(t->dims, like->dims, (size_t)t->rank * sizeof *t->dims);
    if (like->rank && t->rank && !same)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "inputs are %s and %s: expected one shape, or single numbers",
                      dfk_shape_text(like, one, sizeof one), dfk_shape_text(t, other, sizeof other));
    if (!like->rank) like = t;
  }
  df_tensor *y = dfk_out_like(k, 0, like);
  for (int64_t i = 0; y && i < y->size; i++) {
    double v[3];
    for (int32_t j = 0; j < 3; j++) v[j] = ref_get(k->in[j], k->in[j]->rank ? i : 0);
    ref_put(y, i, betainc(v[0], v[1], v[2]));
  }
  return y ? DF_OK : k->error->code;
}

/* ---- modified Bessel functions ----------------------------------------------------------------------------------- */

/* The asymptotic series 1 + sign (m - 1) / 8x + (m - 1)(m - 9) / 2! (8x)^2 + … for large x, where m = 4 order². */
static double hankel(double order, double x, double sign) {
  double term = 1, sum = 1;
  for (double n = 1; n < 30; n++) {
    const double next = term * sign * (4 * order * order - (2 * n - 1) * (2 * n - 1)) / (n * 8 * x);
    if (fabs(next) >= fabs(term)) break;
    sum += term = next;
  }
  return sum;
}
/* I of order 0 or 1 times e^-|x|. */
static double i_scaled(int order, double x) {
  const double z = fabs(x), sign = order && x < 0 ? -1 : 1;
  if (isinf(x)) return 0;
  if (z > 30) return sign * hankel(order, z, -1) / sqrt(2 * M_PI * z);
  double term = order ? z / 2 : 1, sum = term;
  for (double n = 1; term > sum * 0x1p-55; n++) sum += term *= z * z / (4 * n * (n + order));
  return sign * sum * exp(-z);
}
/* K of order 0 or 1 times e^x: the integral of exp(x - x cosh t) cosh(order t) over t from 0 on. */
static double k_scaled(int order, double x) {
  if (x <= 0 || isnan(x)) return isnan(x) ? x : INFINITY;
  if (isinf(x)) return 0;
  if (x > 30) return sqrt(M_PI / (2 * x)) * hankel(order, x, 1);
  const double step = 0x1p-5;
  double sum = 0.5, t = step, term = 1;
  for (; term > sum * 0x1p-56; t += step) {
    const double s = sinh(t / 2);
    term = exp(-2 * x * s * s) * (order ? cosh(t) : 1);
    sum += term;
  }
  return sum * step;
}
/* Times e^x once more, where 0 wins over infinity. */
static double unscaled(double y, double power) { return y == 0 && power < 0 ? 0 : y * exp(power); }

static double bessel_i0e(double x) { return i_scaled(0, x); }
static double bessel_i1e(double x) { return i_scaled(1, x); }
static double bessel_i0(double x)  { return isinf(x) ? INFINITY : i_scaled(0, x) * exp(fabs(x)); }
static double bessel_i1(double x)  { return isinf(x) ? x : i_scaled(1, x) * exp(fabs(x)); }
static double bessel_k0e(double x) { return k_scaled(0, x); }
static double bessel_k1e(double x) { return k_scaled(1, x); }
static double bessel_k0(double x)  { return x > 0 ? unscaled(k_scaled(0, x), -x) : k_scaled(0, x); }
static double bessel_k1(double x)  { return x > 0 ? unscaled(k_scaled(1, x), -x) : k_scaled(1, x); }
static double bessel_y0(double x)  { return x < 0 ? -INFINITY : y0(x); }
static double bessel_y1(double x)  { return x < 0 ? -INFINITY : y1(x); }

/* ---- Dawson, Ei, Fresnel, Spence --------------------------------------------------------------------------------- */

/* e^-x² times the integral of e^t²: a sum of bells at odd places, exact to all digits for their distance. */
static double dawsn(double x) {
  if (isnan(x)) return x;
  if (fabs(x) < 0.1) {
    double term = x, sum = x;
    for (double n = 1; fabs(term) > fabs(sum) * 0x1p-55; n++) sum += term *= -2 * x * x / (2 * n + 1);
    return sum;
  }
  if (fabs(x) > 1e8) return 0.5 / x;
  const double step = 0.25, middle = 2 * floor(x / step / 2) + 1;
  double sum = 0;
  for (double n = middle - 60; n <= middle + 60; n += 2) sum += exp(-(x - n * step) * (x - n * step)) / n;
  return sum / sqrt(M_PI);
}

static double expint(double x) {                       /* Ei, for x > 0 */
  if (x < 0 || isnan(x)) return NAN;
  if (x == 0) return -INFINITY;
  double term = 1, sum = 0;
  if (x <= 40) {
    for (double n = 1; n < 5 || term / n > sum * 0x1p-55; n++) sum += (term *= x / n) / n;
    return 0.57721566490153286061 + log(x) + sum;
  }
  sum = 1;
  for (double n = 1; n < x && term > 0x1p-55; n++) sum += term *= n / x;
  return exp(x) / x * sum;
}

/* The Fresnel integrals C and S at x >= 0, as C + i S. */
static double complex fresnel(double x) {
  if (isinf(x)) return CMPLX(0.5, 0.5);
  if (x < 1.7) {                                       /* the integral of exp(i pi t² / 2), term by term */
    const double complex z = CMPLX(0, M_PI / 2 * x * x);
    double complex term = x, sum = x;
    for (double n = 1; cabs(term) > cabs(sum) * 0x1p-56; n++) sum += (term *= z / n) / (2 * n + 1);
    return sum;
  }
  if (x > 1e8) return CMPLX(0.5, 0.5);
  /* (1 + i) / 2 (1 - e^w² erfc(w)) with w = sqrt(pi) (1 - i) x / 2, erfc by its continued fraction */
  const double square = M_PI * x * x;
  double complex b = CMPLX(1, -square), c = 1 / TINY, d = 1 / b, h = d, change = 0;
  for (double n = 1; cabs(change - 1) > 0x1p-52 && n < 10000; n++) {
    const double an = -(2 * n - 1) * (2 * n);
    b += 4;
    d = 1 / (an * d + b);
    c = b + an / c;
    h *= change = c * d;
  }
  const double turn = fmod(x * x / 4, 1) * 2 * M_PI;   /* pi x² / 2, of which whole turns are nothing */
  return CMPLX(0.5, 0.5) * (1 - CMPLX(cos(turn), sin(turn)) * CMPLX(x, -x) * h);
}
static double fresnel_cos(double x) { return copysign(creal(fresnel(fabs(x))), x); }
static double fresnel_sin(double x) { return copysign(cimag(fresnel(fabs(x))), x); }

static double dilogarithm(double z) {                  /* the sum of z^n / n², z <= 1 */
  const double sixth = M_PI * M_PI / 6;
  if (z == 1) return sixth;
  if (z < -1) return -sixth - 0.5 * log(-z) * log(-z) - dilogarithm(1 / z);
  if (z > 0.5) return sixth - log(z) * log1p(-z) - dilogarithm(1 - z);
  if (z < -0.5) return -dilogarithm(z / (z - 1)) - 0.5 * log1p(-z) * log1p(-z);
  double power = z, sum = z;
  for (double n = 2; fabs(power) > fabs(sum) * 0x1p-56; n++) sum += (power *= z) / (n * n);
  return sum;
}
static double spence(double x) { return x < 0 || isnan(x) ? NAN : isinf(x) ? -INFINITY : dilogarithm(1 - x); }

int32_t ref_igamma(df_kernel *k)        { return dfk_ref_binary(k, igamma, NULL, NULL, NULL); }
int32_t ref_igammac(df_kernel *k)       { return dfk_ref_binary(k, igammac, NULL, NULL, NULL); }
int32_t ref_igamma_grad_a(df_kernel *k) { return dfk_ref_binary(k, igamma_grad_a, NULL, NULL, NULL); }
#define X(name) int32_t ref_##name(df_kernel *k) { return dfk_ref_unary(k, name, NULL, NULL, NULL); }
#define bessel_j0 j0
#define bessel_j1 j1
DFK_INTEGRALS(X)
