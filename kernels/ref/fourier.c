/* fourier.c: discrete Fourier transforms, in double: by halves where the length is a power of two, else as a
 * convolution of such a length (Bluestein); and histograms.
 */
#include "../decompose.h"
#include "../search.h"
#include "element.h"
#include <complex.h>
#include <math.h>
#include <string.h>

/* What transforms of one length share. length: of those by halves, n where that is a power of two. */
typedef struct plan {
  int64_t n, length;
  int     sign;                  /* -1 forward, 1 backward, which is not divided by n */
  double complex *turn;          /* length / 2: exp(-2 pi i j / length) */
  double complex *chirp;         /* n, where length is not: exp(sign pi i j^2 / n) */
  double complex *image, *line;  /* length: the transform of the conjugate chirp; what is being transformed */
} plan;

/* C's own product looks whether it has made NaNs of infinities. */
static inline double complex times(double complex a, double complex b) {
  return CMPLX(creal(a) * creal(b) - cimag(a) * cimag(b), creal(a) * cimag(b) + cimag(a) * creal(b));
}

/* In place; of p->length elements. */
static void by_halves(const plan *p, double complex *x, int sign) {
  const int64_t n = p->length;
  for (int64_t i = 1, j = 0; i < n; i++) {
    int64_t bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) { double complex t = x[i]; x[i] = x[j]; x[j] = t; }
  }
  for (int64_t half = 1, step = n / 2; half < n; half *= 2, step /= 2)
    for (int64_t i = 0; i < n; i += 2 * half)
      for (int64_t j = 0; j < half; j++) {
        const double complex w = sign < 0 ? p->turn[j * step] : conj(p->turn[j * step]);
        const double complex t = times(w, x[i + j + half]);
        x[i + j + half] = x[i + j] - t;
        x[i + j] += t;
      }
}

static int64_t length_of(int64_t n) {
  int64_t m = 1;
  while (n > 1 && (n & (n - 1)) && m < 2 * n - 1) m *= 2;
  return m > 1 ? m : n;
}
/* Elements that plan_of takes of its room. */
static int64_t room_of(int64_t n) {
  const int64_t m = length_of(n);
  return m / 2 + 1 + (m == n ? 0 : 2 * m + n);
}

static plan plan_of(int64_t n, int sign, double complex *room) {
  const int64_t m = length_of(n);
  plan p = { .n = n, .length = m, .sign = sign, .turn = room, .chirp = room + m / 2 + 1 };
  for (int64_t j = 0; j < m / 2; j++) p.turn[j] = cexp(-M_PI * I * (double)j / (double)(m / 2));
  if (m == n) return p;
  p.image = p.chirp + n;
  p.line = p.image + m;
  memset(p.image, 0, sizeof *p.image * (size_t)m);
  for (int64_t i = 0; i < n; i++) {
    p.chirp[i] = cexp(sign * M_PI * I * (double)(i * i % (2 * n)) / (double)n);
    p.image[i] = conj(p.chirp[i]);
    if (i) p.image[m - i] = p.image[i];
  }
  by_halves(&p, p.image, -1);
  return p;
}

static void transform(const plan *p, double complex *x) {
  const int64_t n = p->n, m = p->length;
  if (n < 2) return;
  if (m == n) { by_halves(p, x, p->sign); return; }
  double complex *a = p->line;
  memset(a, 0, sizeof *a * (size_t)m);
  for (int64_t i = 0; i < n; i++) a[i] = times(x[i], p->chirp[i]);
  by_halves(p, a, -1);
  for (int64_t i = 0; i < m; i++) a[i] = times(a[i], p->image[i]);
  by_halves(p, a, 1);
  for (int64_t i = 0; i < n; i++) x[i] = times(a[i] / (double)m, p->chirp[i]);
}

static int32_t complex_transform(df_kernel *k, int32_t axes, int sign) {
  const df_tensor *in = k->in[0];
  df_tensor *out = dfk_fourier_begin(k, axes);
  if (!out) return k->error->code;
  const int64_t n = in->dims[in->rank - 1], m = axes == 2 ? in->dims[in->rank - 2] : 1, per = n * m;
  double complex *x = dfk_scratch(k, (per + m + room_of(n) + room_of(m) + 1) * (int64_t)sizeof *x);
  if (!x) return DF_RESOURCE_EXHAUSTED;
  double complex *line = x + per, *room = line + m;
  const plan rows = plan_of(n, sign, room), columns = plan_of(m, sign, room + room_of(n));
  for (int64_t at = 0; per && at < in->size; at += per) {
    for (int64_t i = 0; i < per; i++) x[i] = ref_get_complex(in, at + i);
    for (int64_t i = 0; i < m; i++) transform(&rows, x + i * n);
    for (int64_t j = 0; j < n && axes == 2; j++) {
      for (int64_t i = 0; i < m; i++) line[i] = x[i * n + j];
      transform(&columns, line);
      for (int64_t i = 0; i < m; i++) x[i * n + j] = line[i];
    }
    for (int64_t i = 0; i < per; i++) ref_put_complex(out, at + i, sign > 0 ? x[i] / (double)per : x[i]);
  }
  dfk_free(x);
  return DF_OK;
}
int32_t ref_fft(df_kernel *k)    { return complex_transform(k, 1, -1); }
int32_t ref_ifft(df_kernel *k)   { return complex_transform(k, 1, 1); }
int32_t ref_fft2d(df_kernel *k)  { return complex_transform(k, 2, -1); }
int32_t ref_ifft2d(df_kernel *k) { return complex_transform(k, 2, 1); }

/* Between n real numbers and the n/2 + 1 first of their transform; input is cut or filled up with zeros to what n asks
   for. */
static int32_t real_transform(df_kernel *k, bool forward) {
  const df_tensor *in = k->in[0];
  dfk_real_lines f;
  if (!dfk_real_fourier_begin(k, forward, false, &f)) return k->error->code;
  const int64_t n = f.n, half = n / 2 + 1, given = f.given, made = f.made;
  df_tensor *out = f.out;
  double complex *x = dfk_scratch(k, (n + room_of(n) + 1) * (int64_t)sizeof *x);
  if (!x) return DF_RESOURCE_EXHAUSTED;
  const plan p = plan_of(n, forward ? -1 : 1, x + n);
  for (int64_t r = 0; r < f.rows; r++) {
    for (int64_t i = 0; i < n; i++) x[i] = 0;
    for (int64_t i = 0; i < given && i < (forward ? n : half); i++) {
      x[i] = forward ? ref_get(in, r * given + i) : ref_get_complex(in, r * given + i);
      if (!forward && i && i < n - i) x[n - i] = conj(x[i]);
      if (!forward && (i == 0 || 2 * i == n)) x[i] = creal(x[i]);
    }
    transform(&p, x);
    for (int64_t i = 0; i < made; i++)
      if (forward) ref_put_complex(out, r * made + i, x[i]); else ref_put(out, r * made + i, creal(x[i]) / (double)n);
  }
  dfk_free(x);
  return DF_OK;
}
int32_t ref_rfft(df_kernel *k)  { return real_transform(k, true); }
int32_t ref_irfft(df_kernel *k) { return real_transform(k, false); }

/* The adjoints: what each input has to do with all outputs. dy is cut to what the transform gave, the result to what it
   was given. */
static int32_t real_adjoint(df_kernel *k, bool forward) {
  const df_tensor *in = k->in[0];
  dfk_real_lines f;
  if (!dfk_real_fourier_begin(k, !forward, true, &f)) return k->error->code;
  const int64_t n = f.n, half = n / 2 + 1, given = f.given, made = f.made;
  df_tensor *out = f.out;
  double complex *x = dfk_scratch(k, (n + room_of(n) + 1) * (int64_t)sizeof *x);
  if (!x) return DF_RESOURCE_EXHAUSTED;
  const plan p = plan_of(n, forward ? 1 : -1, x + n);
  for (int64_t r = 0; r < f.rows; r++) {
    for (int64_t i = 0; i < n; i++) x[i] = 0;
    for (int64_t i = 0; i < given && i < (forward ? half : n); i++)
      x[i] = forward ? ref_get_complex(in, r * given + i) : ref_get(in, r * given + i);
    transform(&p, x);
    for (int64_t i = 0; i < made; i++) {
      if (forward) ref_put(out, r * made + i, i < n ? creal(x[i]) : 0);
      else if (i >= half || i >= n) ref_put_complex(out, r * made + i, 0);
      else ref_put_complex(out, r * made + i, (i == 0 || 2 * i == n ? creal(x[i]) : 2 * x[i]) / (double)n);
    }
  }
  dfk_free(x);
  return DF_OK;
}
int32_t ref_rfft_grad(df_kernel *k)  { return real_adjoint(k, true); }
int32_t ref_irfft_grad(df_kernel *k) { return real_adjoint(k, false); }

int32_t ref_histogram_fixed_width(df_kernel *k) {
  const df_tensor *values = k->in[0];
  dfk_bins b;
  df_tensor *out = dfk_histogram_begin(k, &b);
  if (!out) return k->error->code;
  const int64_t n = out->size;
  for (int64_t i = 0; i < n; i++) ref_put_int(out, i, 0);
  for (int64_t i = 0; i < values->size; i++) {
    const double v = ref_is_float(values->dtype) ? ref_get(values, i) : (double)ref_get_int(values, i);
    const double at = (v - b.low) / b.step;
    const int64_t bin = !(at > 0) ? 0 : at >= (double)n ? n - 1 : (int64_t)at;
    ref_put_int(out, bin, ref_get_int(out, bin) + 1);
  }
  return DF_OK;
}
