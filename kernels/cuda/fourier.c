/* fourier.c: launchers of Fourier transforms. A transform goes along the middle of [outer, n, inner], so that one of
 * two axes needs nothing turned. No cuFFT: its numbers of complex64 are computed in float, and so not the CPU's, and
 * each length would be a plan of its library's with memory of its own, which no graph holds. */
#include "plugin.h"
#include "numerics.h"
#include "../decompose.h"
#include <string.h>

enum { PRIME = 127, SHARE = 128, FACTORS = 64, PAIR = 16, LANES = 8 };

/* Fours first, then primes. 0: one is too large. */
static int32_t factors_of(int64_t n, int32_t *factor) {
  int32_t count = 0;
  for (; n % 4 == 0; n /= 4) factor[count++] = 4;
  for (int32_t p = 2; p <= PRIME && n > 1; p++) for (; n % p == 0; n /= p) factor[count++] = p;
  return n > 1 ? 0 : count;
}

static void *units(dfc_call *c, int64_t n, int64_t of, int32_t sign, bool squares) {
  const dfc_fourier_units p = { .z = dfc_temporary(c, NULL, n * PAIR), .n = n, .of = of, .sign = sign,
                                .squares = squares };
  dfc_run(c, "k_fourier_units", n, &p);
  return p.z;
}

/* How many lines a block has at a time: some, so that neighbours are read together, but work for all processors. */
static int32_t lanes_of(const dfc_call *c, int64_t lines, int32_t radix) {
  const int32_t most = DFC_FOURIER_ROOM / radix, least = most < LANES ? most : LANES;
  const int64_t even = lines / (2 * c->g->processors);
  const int64_t lanes = even > most ? most : even < least ? least : even;
  return (int32_t)(lanes < lines ? lanes : lines);
}

/* x[outer, n, inner] along n, whose factors these are; between x and y, one of which is returned. */
static void *passes(dfc_call *c, void *x, void *y, int64_t outer, int64_t n, int64_t inner, int32_t sign,
                    const int32_t *factor, int32_t count) {
  const void *turn = units(c, n, n, sign, false);
  int64_t apart = inner;
  for (int32_t f = 0; f < count && c->ok;) {
    dfc_fourier_pass p = { .x = x, .y = y, .turn = turn, .n = n, .inner = inner, .apart = apart, .radix = 1,
                           .back = sign > 0 };
    const int64_t share = n <= DFC_FOURIER_ROOM ? n : SHARE;
    while (f < count && p.radix * factor[f] <= share) { p.factor[p.factors++] = factor[f]; p.radix *= factor[f++]; }
    p.lines = outer * (n / p.radix) * inner;
    p.lanes = lanes_of(c, p.lines, p.radix);
    const int64_t wanted = (p.lines + p.lanes - 1) / p.lanes, most = (int64_t)c->g->processors * 64;
    dfc_run_blocks(c, "k_fourier_pass", wanted < most ? wanted : most, DFC_FOURIER_BLOCK, &p);
    apart *= p.radix;
    void *z = x; x = y; y = z;
  }
  return x;
}

/* As a convolution with a chirp, of a length that is a power of two. */
static void *by_chirp(dfc_call *c, void *x, int64_t outer, int64_t n, int64_t inner, int32_t sign) {
  int64_t m = 1;
  int32_t factor[FACTORS];
  while (m < 2 * n - 1) m *= 2;
  const int32_t count = factors_of(m, factor);
  const void *chirp = units(c, n, 2 * n, sign, true);
  void *a = dfc_temporary(c, NULL, outer * m * inner * PAIR), *b = dfc_temporary(c, NULL, outer * m * inner * PAIR);
  dfc_fourier_chirp p = { .with = chirp, .outer = 1, .n = n, .inner = 1, .m = m, .what = DFC_FOURIER_IMAGE };
  p.z = dfc_temporary(c, NULL, m * PAIR);
  dfc_run(c, "k_fourier_chirp", m, &p);
  const void *image = passes(c, p.z, dfc_temporary(c, NULL, m * PAIR), 1, m, 1, -1, factor, count);
  p = (dfc_fourier_chirp){ .x = x, .with = chirp, .z = a, .outer = outer, .n = n, .inner = inner, .m = m,
                           .what = DFC_FOURIER_IN };
  dfc_run(c, "k_fourier_chirp", outer * m * inner, &p);
  void *z = passes(c, a, b, outer, m, inner, -1, factor, count);
  p.x = p.z = z;
  p.with = image;
  p.what = DFC_FOURIER_BETWEEN;
  dfc_run(c, "k_fourier_chirp", outer * m * inner, &p);
  p.x = passes(c, z, z == a ? b : a, outer, m, inner, -1, factor, count);
  p.z = x;
  p.with = chirp;
  p.what = DFC_FOURIER_OUT;
  dfc_run(c, "k_fourier_chirp", outer * n * inner, &p);
  return x;
}

/* In x or y, or what is returned. */
static void *transform(dfc_call *c, void *x, void *y, int64_t outer, int64_t n, int64_t inner, int32_t sign) {
  int32_t factor[FACTORS];
  if (n == 1) return x;
  const int32_t count = factors_of(n, factor);
  return count ? passes(c, x, y, outer, n, inner, sign, factor, count) : by_chirp(c, x, outer, n, inner, sign);
}

static bool is_wide(int32_t dtype) { return dtype == DF_COMPLEX128 || dtype == DF_FLOAT64; }

static int32_t whole(df_kernel *k, int32_t axes, int32_t sign) {
  const df_tensor *in = k->in[0];
  df_tensor *out = dfk_fourier_begin(k, axes);
  if (!out) return k->error->code;
  if (!in->size) return DF_OK;
  const int64_t n = in->dims[in->rank - 1], m = axes == 2 ? in->dims[in->rank - 2] : 1, rows = in->size / n;
  dfc_call c = dfc_begin(k);
  void *x = dfc_temporary(&c, NULL, in->size * PAIR), *y = dfc_temporary(&c, NULL, in->size * PAIR);
  dfc_fourier_lines p = { .x = dfc_read(&c, in), .z = x, .rows = rows, .n = n, .given = n, .most = n, .made = n,
                          .by = sign > 0 ? (double)(n * m) : 1, .wide = is_wide(in->dtype) };
  dfc_run(&c, "k_fourier_fill", in->size, &p);
  void *z = transform(&c, x, y, rows, n, 1, sign);
  if (axes == 2) z = transform(&c, z, z == x ? y : x, rows / m, m, n, sign);
  p.x = z;
  p.z = dfc_write(&c, out);
  dfc_run(&c, "k_fourier_give", in->size, &p);
  return dfc_end(&c);
}
static int32_t run_fft(df_kernel *k)    { return whole(k, 1, -1); }
static int32_t run_ifft(df_kernel *k)   { return whole(k, 1, 1); }
static int32_t run_fft2d(df_kernel *k)  { return whole(k, 2, -1); }
static int32_t run_ifft2d(df_kernel *k) { return whole(k, 2, 1); }

/* Between real numbers and the first half of their transform, and the adjoints of both. */
static int32_t half(df_kernel *k, bool from_real, bool adjoint) {
  const df_tensor *in = k->in[0];
  dfk_real_lines f;
  if (!dfk_real_fourier_begin(k, from_real, adjoint, &f)) return k->error->code;
  if (!f.out->size) return DF_OK;
  const int64_t n = f.n;
  dfc_call c = dfc_begin(k);
  dfc_fourier_lines p = { .rows = f.rows, .n = n, .given = f.given, .most = from_real ? n : n / 2 + 1,
                          .made = f.made, .real = from_real, .wide = is_wide(in->dtype),
                          .half = !from_real && !adjoint };
  void *x = dfc_temporary(&c, NULL, (f.rows * n + 1) * PAIR), *y = dfc_temporary(&c, NULL, (f.rows * n + 1) * PAIR);
  p.x = dfc_read(&c, in);
  p.z = x;
  dfc_run(&c, "k_fourier_fill", f.rows * n, &p);
  p.x = n ? transform(&c, x, y, f.rows, n, 1, from_real ? -1 : 1) : x;
  p.z = dfc_write(&c, f.out);
  p.real = !from_real;
  p.wide = is_wide(f.out->dtype);
  p.half = from_real;
  p.twice = adjoint && from_real;
  p.by = n && adjoint == from_real ? (double)n : 1;
  dfc_run(&c, "k_fourier_give", f.out->size, &p);
  return dfc_end(&c);
}
static int32_t run_rfft(df_kernel *k)       { return half(k, true, false); }
static int32_t run_irfft(df_kernel *k)      { return half(k, false, false); }
static int32_t run_rfft_grad(df_kernel *k)  { return half(k, false, true); }
static int32_t run_irfft_grad(df_kernel *k) { return half(k, true, true); }

static const dfi_gpu_kernel kernels[] = {
  { .op = "FFT", .run = run_fft },
  { .op = "IFFT", .run = run_ifft },
  { .op = "FFT2D", .run = run_fft2d },
  { .op = "IFFT2D", .run = run_ifft2d },
  { .op = "RFFT", .run = run_rfft, .host_in = 2 },
  { .op = "IRFFT", .run = run_irfft, .host_in = 2 },
  { .op = "RFFTGrad", .run = run_rfft_grad, .host_in = 6 },
  { .op = "IRFFTGrad", .run = run_irfft_grad, .host_in = 6 },
};
const dfc_table dfc_fouriers = { kernels, (int32_t)(sizeof kernels / sizeof *kernels) };
