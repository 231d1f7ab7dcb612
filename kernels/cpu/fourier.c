/* fourier.c: fast Fourier transforms.
 *
 * Everything is in double, as in the reference. Lines of numbers that lie beside each other are transformed together,
 * one in each lane of a vector, by Stockham's passes of radix 4, 2 and odd primes, between two buffers. A line that is
 * alone, or too long for the cache, is taken as a matrix: its columns are transformed, turned, and then its rows.
 * A length with a large prime factor becomes a convolution of another length (Bluestein). An even number of real ones
 * is taken as half as many complex numbers.
 */
#include "../decompose.h"
#include "vec.h"
#include <math.h>

enum {
  L = LANES_f64,
  FACTORS = 40,
  PRIME = 127,                   /* the largest that has a pass */
  LONG = 4096,                   /* of a line in two buffers that the cache holds */
  CHUNKS = 8,                    /* shares that threads take */
  BATCH = 1 << 16                /* elements that are converted at a time */
};

/* A number in each lane. */
typedef struct pair { vf64 re, im; } pair;

/* ---- one line in each lane ------------------------------------------------------------------------------------ */

/* turn: n pairs of doubles, exp(sign 2 pi i j / n). */
typedef struct line { int64_t n; int sign; int32_t nfactors, factor[FACTORS]; double *turn; } line;

static inline pair plus(pair a, pair b)  { return (pair){ a.re + b.re, a.im + b.im }; }
static inline pair minus(pair a, pair b) { return (pair){ a.re - b.re, a.im - b.im }; }
static inline pair turned(pair a, const double *w) {
  return (pair){ a.re * w[0] - a.im * w[1], a.re * w[1] + a.im * w[0] };
}
static inline pair times(pair a, pair b) { return (pair){ a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re }; }
static inline pair times_i(pair a, double sign) { return (pair){ a.im * -sign, a.re * sign }; }

/* One pass: `many` times a radix is what is left of n, `apart` the product of the radices before. */
static void by_two(const line *l, int64_t many, int64_t apart, const pair *x, pair *y) {
  for (int64_t p = 0; p < many; p++) {
    const double *w = l->turn + 2 * p * apart;
    for (int64_t q = 0; q < apart; q++) {
      const pair a = x[q + apart * p], b = x[q + apart * (p + many)];
      y[q + apart * 2 * p] = plus(a, b);
      y[q + apart * (2 * p + 1)] = turned(minus(a, b), w);
    }
  }
}

static void by_four(const line *l, int64_t many, int64_t apart, const pair *x, pair *y) {
  for (int64_t p = 0; p < many; p++) {
    const double *w = l->turn, *w1 = w + 2 * p * apart, *w2 = w + 4 * p * apart, *w3 = w + 6 * p * apart;
    for (int64_t q = 0; q < apart; q++) {
      const pair *at = x + q + apart * p;
      const pair a = at[0], b = at[apart * many], c = at[apart * 2 * many], d = at[apart * 3 * many];
      const pair ac = plus(a, c), bd = plus(b, d), other = minus(a, c), turn = times_i(minus(b, d), l->sign);
      pair *to = y + q + apart * 4 * p;
      to[0] = plus(ac, bd);
      to[apart] = turned(plus(other, turn), w1);
      to[2 * apart] = turned(minus(ac, bd), w2);
      to[3 * apart] = turned(minus(other, turn), w3);
    }
  }
}

/* An odd prime r: elements k and r - k of the results have the same two sums in them. */
static inline __attribute__((always_inline)) void by_odd(const line *l, int32_t r, int64_t many, int64_t apart,
                                                         const pair *x, pair *y) {
  const int32_t half = (r - 1) / 2;
  pair sum[PRIME / 2 + 1], difference[PRIME / 2 + 1];
  double cosine[PRIME], sine[PRIME];
  for (int32_t j = 0; j < r; j++) {
    cosine[j] = l->turn[2 * (l->n / r) * j];
    sine[j] = l->turn[2 * (l->n / r) * j + 1];
  }
  for (int64_t p = 0; p < many; p++)
    for (int64_t q = 0; q < apart; q++) {
      const pair *at = x + q + apart * p;
      pair *to = y + q + apart * r * p, all = at[0];
      for (int32_t j = 1; j <= half; j++) {
        const pair a = at[apart * many * j], b = at[apart * many * (r - j)];
        sum[j] = plus(a, b);
        difference[j] = times_i(minus(a, b), 1);
        all = plus(all, sum[j]);
      }
      to[0] = all;
      for (int32_t k = 1; k <= half; k++) {
        pair even = at[0], odd = { { 0 }, { 0 } };
        for (int32_t j = 1, jk = k; j <= half; j++, jk = jk + k < r ? jk + k : jk + k - r) {
          even = (pair){ even.re + sum[j].re * cosine[jk], even.im + sum[j].im * cosine[jk] };
          odd = (pair){ odd.re + difference[j].re * sine[jk], odd.im + difference[j].im * sine[jk] };
        }
        to[apart * k] = turned(plus(even, odd), l->turn + 2 * p * k * apart);
        to[apart * (r - k)] = turned(minus(even, odd), l->turn + 2 * p * (r - k) * apart);
      }
    }
}

static void by_three(const line *l, int64_t many, int64_t apart, const pair *x, pair *y) {
  by_odd(l, 3, many, apart, x, y);
}
static void by_five(const line *l, int64_t many, int64_t apart, const pair *x, pair *y) {
  by_odd(l, 5, many, apart, x, y);
}
static void by_prime(const line *l, int32_t r, int64_t many, int64_t apart, const pair *x, pair *y) {
  by_odd(l, r, many, apart, x, y);
}

/* From a to one of both, which is returned. */
static pair *passes(const line *l, pair *a, pair *b) {
  int64_t left = l->n, apart = 1;
  for (int32_t i = 0; i < l->nfactors; i++) {
    const int32_t r = l->factor[i];
    left /= r;
    if (r == 4) by_four(l, left, apart, a, b);
    else if (r == 2) by_two(l, left, apart, a, b);
    else if (r == 3) by_three(l, left, apart, a, b);
    else if (r == 5) by_five(l, left, apart, a, b);
    else by_prime(l, r, left, apart, a, b);
    apart *= r;
    pair *t = a; a = b; b = t;
  }
  return a;
}

/* exp(sign 2 pi i at / n), of a number in each lane. */
static pair unit_at(vf64 at, int64_t n, int sign) {
  const vf64 angle = at * (2.0 * sign) / (double)n;
  return (pair){ (vf64)SLEEF64(cospi, u05)(angle), (vf64)SLEEF64(sinpi, u05)(angle) };
}
static void units(double *to, int64_t count, int64_t n, int sign) {
  for (int64_t j = 0; j < count; j += L) {
    vf64 at;
    for (int l = 0; l < L; l++) at[l] = (double)(j + l);
    const pair u = unit_at(at, n, sign);
    for (int l = 0; l < L && j + l < count; l++) { to[2 * (j + l)] = u.re[l]; to[2 * (j + l) + 1] = u.im[l]; }
  }
}

/* False: n has a prime factor without a pass. */
static bool factors_of(int64_t n, line *l) {
  l->n = n;
  l->nfactors = 0;
  while (n % 4 == 0) { l->factor[l->nfactors++] = 4; n /= 4; }
  for (int32_t p = 2; p <= PRIME && n > 1; p++) while (n % p == 0) { l->factor[l->nfactors++] = p; n /= p; }
  return n <= 1;
}

/* ---- many lines ------------------------------------------------------------------------------------------------ */

/* Complex numbers: an element of a line is `step` from the last one, a line `lane` from the last one. turn_n: results
   k of line j are turned by exp(sign 2 pi i j k / turn_n); 0: they are not. */
typedef struct lines {
  const line   *line;
  const double *in;
  double       *out;
  int64_t       in_step, in_lane, out_step, out_lane, count, turn_n;
  pair         *room;             /* for each chunk twice a line */
} lines;

/* Where lines lie in one piece, or all first elements do, vectors are read and written; else number by number. */
#if defined(__AVX512F__)
static inline vf64 of_two(vf64 a, vf64 b, vi64 at) {
  return (vf64)_mm512_permutex2var_pd((__m512d)a, (__m512i)at, (__m512d)b);
}
static inline void transpose_lanes(vf64 *r) {
  static const vi64 low[] = { { 0, 8, 2, 10, 4, 12, 6, 14 }, { 0, 1, 8, 9, 4, 5, 12, 13 },
                              { 0, 1, 2, 3, 8, 9, 10, 11 } },
                    high[] = { { 1, 9, 3, 11, 5, 13, 7, 15 }, { 2, 3, 10, 11, 6, 7, 14, 15 },
                               { 4, 5, 6, 7, 12, 13, 14, 15 } };
#pragma GCC unroll 3
  for (int s = 0; s < 3; s++)
#pragma GCC unroll 8
    for (int i = 0; i < L; i++) {
      if (i >> s & 1) continue;
      const vf64 a = r[i], b = r[i + (1 << s)];
      r[i] = of_two(a, b, low[s]);
      r[i + (1 << s)] = of_two(a, b, high[s]);
    }
}
/* How many elements of each line are done so. */
static int64_t load_vectors(const lines *s, const double *x, pair *to) {
  int64_t i = 0;
  if (s->in_lane == 1)
    for (; i < s->line->n; i++, x += 2 * s->in_step) {
      const vf64 a = load_f64(x), b = load_f64(x + L);
      to[i].re = of_two(a, b, (vi64){ 0, 2, 4, 6, 8, 10, 12, 14 });
      to[i].im = of_two(a, b, (vi64){ 1, 3, 5, 7, 9, 11, 13, 15 });
    }
  else if (s->in_step == 1)
    for (; i + L / 2 <= s->line->n; i += L / 2) {
      vf64 r[L];
      for (int l = 0; l < L; l++) r[l] = load_f64(x + 2 * (l * s->in_lane + i));
      transpose_lanes(r);
      for (int l = 0; l < L / 2; l++) to[i + l] = (pair){ r[2 * l], r[2 * l + 1] };
    }
  return i;
}
static int64_t store_vectors(const lines *s, double *y, const pair *from) {
  int64_t i = 0;
  if (s->out_lane == 1)
    for (; i < s->line->n; i++, y += 2 * s->out_step) {
      store_f64(y, of_two(from[i].re, from[i].im, (vi64){ 0, 8, 1, 9, 2, 10, 3, 11 }));
      store_f64(y + L, of_two(from[i].re, from[i].im, (vi64){ 4, 12, 5, 13, 6, 14, 7, 15 }));
    }
  else if (s->out_step == 1)
    for (; i + L / 2 <= s->line->n; i += L / 2) {
      vf64 r[L];
      for (int l = 0; l < L / 2; l++) { r[2 * l] = from[i + l].re; r[2 * l + 1] = from[i + l].im; }
      transpose_lanes(r);
      for (int l = 0; l < L; l++) store_f64(y + 2 * (l * s->out_lane + i), r[l]);
    }
  return i;
}
#else
static int64_t load_vectors(const lines *s, const double *x, pair *to) { return 0; }
static int64_t store_vectors(const lines *s, double *y, const pair *from) { return 0; }
#endif

static void load(const lines *s, int64_t first, int64_t lanes, pair *to) {
  const double *x = s->in + 2 * first * s->in_lane;
  int64_t i = lanes == L ? load_vectors(s, x, to) : 0;
  for (x += 2 * i * s->in_step; i < s->line->n; i++, x += 2 * s->in_step) {
    double re[L] = { 0 }, im[L] = { 0 };
    for (int64_t l = 0; l < lanes; l++) { re[l] = x[2 * l * s->in_lane]; im[l] = x[2 * l * s->in_lane + 1]; }
    to[i] = (pair){ load_f64(re), load_f64(im) };
  }
}

static void store(const lines *s, int64_t first, int64_t lanes, const pair *from) {
  double *y = s->out + 2 * first * s->out_lane;
  int64_t i = lanes == L ? store_vectors(s, y, from) : 0;
  for (y += 2 * i * s->out_step; i < s->line->n; i++, y += 2 * s->out_step) {
    double re[L], im[L];
    store_f64(re, from[i].re);
    store_f64(im, from[i].im);
    for (int64_t l = 0; l < lanes; l++) { y[2 * l * s->out_lane] = re[l]; y[2 * l * s->out_lane + 1] = im[l]; }
  }
}

/* Each result k of line j is turned. The units of k are products of two, each of its own angle. */
static void turn_lines(const lines *s, int64_t first, pair *x) {
  enum { FEW = 16 };
  pair few[FEW];
  vf64 j;
  for (int l = 0; l < L; l++) j[l] = (double)(first + l);
  for (int k = 0; k < FEW; k++) few[k] = unit_at(j * k, s->turn_n, s->line->sign);
  for (int64_t k = 0; k < s->line->n; k += FEW) {
    vf64 at;
    for (int l = 0; l < L; l++) at[l] = (double)((first + l) * k % s->turn_n);
    const pair all = unit_at(at, s->turn_n, s->line->sign);
    for (int64_t i = 0; i < FEW && k + i < s->line->n; i++) x[k + i] = times(x[k + i], times(all, few[i]));
  }
}

static void chunks(void *arg, int64_t begin, int64_t end) {
  const lines *s = arg;
  const int64_t blocks = (s->count + L - 1) / L;
  for (int64_t c = begin; c < end; c++) {
    pair *a = s->room + c * 2 * s->line->n;
    for (int64_t i = blocks * c / CHUNKS; i < blocks * (c + 1) / CHUNKS; i++) {
      const int64_t first = i * L, lanes = s->count - first < L ? s->count - first : L;
      load(s, first, lanes, a);
      pair *made = passes(s->line, a, a + s->line->n);
      if (s->turn_n) turn_lines(s, first, made);
      store(s, first, lanes, made);
    }
  }
}

static void transform_lines(df_kernel *k, lines *s) {
  const int64_t blocks = (s->count + L - 1) / L;
  dfk_parallel(k, CHUNKS, blocks < 2 || s->count * s->line->n < LONG ? CHUNKS : 1, chunks, s);
}

/* ---- of any length --------------------------------------------------------------------------------------------- */

typedef struct plan {
  int64_t n, length;             /* length: what is transformed by passes, n but for Bluestein's */
  int     sign;
  line    line, across;          /* of a matrix: of its columns, and its rows; else across.n is 1 */
  pair   *room;
  double *between;               /* a line, for what lies between columns and rows */
  double *chirp, *image;         /* Bluestein's: n: exp(sign pi i j^2 / n); length: their conjugates' transform */
  double *padded;                /* two lines */
  void   *memory;
} plan;

/* The divisor of n nearest to its root, not above. */
static int64_t divisor_of(int64_t n) {
  int64_t d = (int64_t)sqrt((double)n);
  while (n % d) d--;
  return d;
}

/* A length for a convolution. */
static int64_t padded_length(int64_t n) {
  int64_t best = 1;
  while (best < 2 * n - 1) best *= 2;
  return best / 8 * 5 >= 2 * n - 1 ? best / 8 * 5 : best / 4 * 3 >= 2 * n - 1 ? best / 4 * 3 : best;
}

/* Lines of p->length; from and to may not be the same. */
static void transform_smooth(df_kernel *k, const plan *p, const double *from, double *to, int64_t rows) {
  const int64_t n = p->line.n, m = p->across.n;
  if (m == 1) {
    lines s = { &p->line, from, to, 1, n, 1, n, rows, 0, p->room };
    transform_lines(k, &s);
    return;
  }
  for (int64_t r = 0; r < rows; r++) {
    lines columns = { &p->line, from + 2 * r * n * m, p->between, m, 1, m, 1, m, n * m, p->room };
    lines across = { &p->across, p->between, to + 2 * r * n * m, 1, m, n, 1, n, 0, p->room };
    transform_lines(k, &columns);
    transform_lines(k, &across);
  }
}

static inline void multiply(double *x, const double *a, const double *b, double by) {
  const double re = (a[0] * b[0] - a[1] * b[1]) * by, im = (a[0] * b[1] + a[1] * b[0]) * by;
  x[0] = re;
  x[1] = im;
}

/* A convolution with the chirp; the way back is a transform of what is conjugate. */
static void transform_any(df_kernel *k, const plan *p, const double *from, double *to) {
  double *x = p->padded, *y = x + 2 * p->length;
  memset(x, 0, (size_t)p->length * 16);
  for (int64_t i = 0; i < p->n; i++) multiply(x + 2 * i, from + 2 * i, p->chirp + 2 * i, 1);
  transform_smooth(k, p, x, y, 1);
  for (int64_t i = 0; i < p->length; i++) {
    multiply(x + 2 * i, y + 2 * i, p->image + 2 * i, 1);
    x[2 * i + 1] = -x[2 * i + 1];
  }
  transform_smooth(k, p, x, y, 1);
  for (int64_t i = 0; i < p->n; i++) {
    y[2 * i + 1] = -y[2 * i + 1];
    multiply(to + 2 * i, y + 2 * i, p->chirp + 2 * i, 1.0 / (double)p->length);
  }
}

static void transform(df_kernel *k, const plan *p, const double *from, double *to, int64_t rows) {
  if (p->length == p->n) { transform_smooth(k, p, from, to, rows); return; }
  for (int64_t r = 0; r < rows; r++) transform_any(k, p, from + 2 * r * p->n, to + 2 * r * p->n);
}

static void make_chirp(df_kernel *k, plan *p) {
  double *x = p->padded;
  for (int64_t j = 0; j < p->n; j += L) {
    vf64 at;
    for (int l = 0; l < L; l++) at[l] = (double)((j + l) * (j + l) % (2 * p->n));
    const pair u = unit_at(at, 2 * p->n, p->sign);
    for (int l = 0; l < L && j + l < p->n; l++) {
      p->chirp[2 * (j + l)] = u.re[l];
      p->chirp[2 * (j + l) + 1] = u.im[l];
    }
  }
  memset(x, 0, (size_t)p->length * 16);
  for (int64_t j = 0; j < p->n; j++)
    for (int64_t at = j ? p->length - j : 0, other = j;; at = j, other = j) {
      x[2 * at] = p->chirp[2 * j];
      x[2 * at + 1] = -p->chirp[2 * j + 1];
      if (at == other) break;
    }
  transform_smooth(k, p, x, p->image, 1);
}

/* For `rows` lines of n >= 1 at a time. False: no memory, and the error is filled. */
static bool plan_begin(df_kernel *k, plan *p, int64_t n, int sign, int64_t rows) {
  line whole;
  *p = (plan){ .n = n, .sign = sign };
  p->length = factors_of(n, &whole) ? n : padded_length(n);
  const bool any = p->length != n;
  const int64_t across = p->length > LONG || (rows < L / 2 && p->length >= 8 * L) || (any && p->length >= 8 * L)
                             ? divisor_of(p->length) : 1;
  factors_of(p->length / across, &p->line);
  factors_of(across, &p->across);
  p->line.sign = p->across.sign = any ? -1 : sign;
  const int64_t longest = p->line.n, turns = 2 * (p->line.n + across), between = across > 1 ? 2 * p->length : 0,
                extra = any ? 2 * n + 6 * p->length : 0, room = CHUNKS * 2 * longest * (int64_t)sizeof(pair);
  p->memory = dfk_scratch(k, room + 64 + (turns + between + extra) * 8);
  if (!p->memory) return false;
  p->room = (pair *)(((uintptr_t)p->memory + 63) / 64 * 64);
  double *next = (double *)((char *)p->room + room);
  p->line.turn = next;
  p->across.turn = next + 2 * p->line.n;
  p->between = next + turns;
  p->chirp = p->between + between;
  p->image = p->chirp + 2 * n;
  p->padded = p->image + 2 * p->length;
  units(p->line.turn, p->line.n, p->line.n, p->line.sign);
  units(p->across.turn, across, across, p->across.sign);
  if (any) make_chirp(k, p);
  return true;
}

/* ---- kernels --------------------------------------------------------------------------------------------------- */

static void widen(const df_tensor *t, int64_t at, int64_t n, double *to) {
  if (t->dtype == DF_COMPLEX128) { memcpy(to, (const double *)t->data + 2 * at, (size_t)n * 16); return; }
  const float *from = (const float *)t->data + 2 * at;
  for (int64_t i = 0; i < 2 * n; i++) to[i] = from[i];
}

static void narrow(const double *from, double by, df_tensor *t, int64_t at, int64_t n) {
  double *wide = (double *)t->data + 2 * at;
  float *to = (float *)t->data + 2 * at;
  if (t->dtype == DF_COMPLEX128) for (int64_t i = 0; i < 2 * n; i++) wide[i] = from[i] / by;
  else for (int64_t i = 0; i < 2 * n; i++) to[i] = (float)(from[i] / by);
}

/* Rows that are taken at a time. */
static int64_t batch_of(int64_t rows, int64_t n) {
  const int64_t batch = (BATCH / n + L - 1) / L * L;
  return batch < L ? L < rows ? L : rows : batch < rows ? batch : rows;
}

static int32_t one_axis(df_kernel *k, int sign) {
  const df_tensor *in = k->in[0];
  df_tensor *out = dfk_fourier_begin(k, 1);
  if (!out) return k->error->code;
  if (!in->size) return DF_OK;
  const int64_t n = in->dims[in->rank - 1], rows = in->size / n, most = batch_of(rows, n);
  plan p;
  double *x = dfk_scratch(k, most * n * 32);
  if (!x || !plan_begin(k, &p, n, sign, rows)) { dfk_free(x); return DF_RESOURCE_EXHAUSTED; }
  for (int64_t r = 0; r < rows; r += most) {
    const int64_t some = rows - r < most ? rows - r : most;
    widen(in, r * n, some * n, x);
    transform(k, &p, x, x + 2 * most * n, some);
    narrow(x + 2 * most * n, sign > 0 ? (double)n : 1, out, r * n, some * n);
  }
  dfk_free(p.memory);
  dfk_free(x);
  return DF_OK;
}

static void transpose(const double *x, int64_t rows, int64_t columns, double *y) {
  enum { TILE = 16 };
  for (int64_t r = 0; r < rows; r += TILE)
    for (int64_t c = 0; c < columns; c += TILE)
      for (int64_t i = r; i < rows && i < r + TILE; i++)
        for (int64_t j = c; j < columns && j < c + TILE; j++)
          memcpy(y + 2 * (j * rows + i), x + 2 * (i * columns + j), 16);
}

static int32_t two_axes(df_kernel *k, int sign) {
  const df_tensor *in = k->in[0];
  df_tensor *out = dfk_fourier_begin(k, 2);
  if (!out) return k->error->code;
  if (!in->size) return DF_OK;
  const int64_t n = in->dims[in->rank - 1], m = in->dims[in->rank - 2], per = n * m;
  plan rows, columns;
  double *x = dfk_scratch(k, per * 32);
  if (!x || !plan_begin(k, &rows, n, sign, m)) { dfk_free(x); return DF_RESOURCE_EXHAUSTED; }
  double *y = x + 2 * per;
  if (!plan_begin(k, &columns, m, sign, n)) {
    dfk_free(rows.memory);
    dfk_free(x);
    return DF_RESOURCE_EXHAUSTED;
  }
  for (int64_t at = 0; at < in->size; at += per) {
    widen(in, at, per, x);
    transform(k, &rows, x, y, m);
    transpose(y, m, n, x);
    transform(k, &columns, x, y, n);
    transpose(y, n, m, x);
    narrow(x, sign > 0 ? (double)per : 1, out, at, per);
  }
  dfk_free(rows.memory);
  dfk_free(columns.memory);
  dfk_free(x);
  return DF_OK;
}

int32_t cpu_fft(df_kernel *k)    { return one_axis(k, -1); }
int32_t cpu_ifft(df_kernel *k)   { return one_axis(k, 1); }
int32_t cpu_fft2d(df_kernel *k)  { return two_axes(k, -1); }
int32_t cpu_ifft2d(df_kernel *k) { return two_axes(k, 1); }

/* A line of n complex numbers, n odd, of a row of real ones, or of the first half of a transform whose other half is
   its conjugate (whole) or nothing. */
static void fill(const df_tensor *in, int64_t at, int64_t given, int64_t n, bool real, bool whole, double *x) {
  const int64_t half = n / 2 + 1, most = real ? n : half;
  memset(x, 0, (size_t)n * 16);
  if (!real) widen(in, at, given < most ? given : most, x);
  for (int64_t i = 0; real && i < given && i < most; i++)
    x[2 * i] = in->dtype == DF_FLOAT64 ? ((const double *)in->data)[at + i] : (double)((const float *)in->data)[at + i];
  for (int64_t i = 0; whole && i < given && i < most; i++) {
    if (i && i < n - i) { x[2 * (n - i)] = x[2 * i]; x[2 * (n - i) + 1] = -x[2 * i + 1]; }
    if (i == 0) x[2 * i + 1] = 0;
  }
}

/* The first `made` of a line of n, as real numbers or not; those behind `known` are 0. twice: each stands for the
   conjugate beside it, too. */
static void give(const double *x, int64_t known, int64_t n, double by, bool twice, df_tensor *out, int64_t at,
                 int64_t made) {
  const int64_t there = made < known ? made : known;
  if (out->dtype == DF_COMPLEX64 || out->dtype == DF_COMPLEX128) {
    const int64_t bytes = out->dtype == DF_COMPLEX64 ? 8 : 16;
    if (!twice) narrow(x, by, out, at, there);
    else for (int64_t i = 0; i < there; i++) {
      const bool alone = i == 0 || 2 * i == n;
      narrow((double[]){ x[2 * i], alone ? 0 : x[2 * i + 1] }, alone ? by : by / 2, out, at + i, 1);
    }
    memset((char *)out->data + (at + there) * bytes, 0, (size_t)((made - there) * bytes));
    return;
  }
  for (int64_t i = 0; i < made; i++) {
    const double v = i < there ? x[2 * i] / by : 0;
    if (out->dtype == DF_FLOAT64) ((double *)out->data)[at + i] = v;
    else ((float *)out->data)[at + i] = (float)v;
  }
}

/* ---- an even number of real numbers ------------------------------------------------------------------------------
 * as half as many complex ones, x[2j] + i x[2j + 1]. With h = n / 2, Z their transform, and w = exp(sign 2 pi i / n),
 * the first half of the transform of x is X[k] = (Z[k] + Z'[h - k]) / 2 - i w^k (Z[k] - Z'[h - k]) / 2, where ' is the
 * conjugate and Z[h] is Z[0]; and back, Z[k] = X[k] + X'[h - k] + i w^k (X[k] - X'[h - k]). */

/* w^k of k < count, most of them as products of two. */
static void powers(double *to, int64_t count, int64_t n, int sign) {
  enum { FEW = 256 };
  units(to, count < FEW ? count : FEW, n, sign);
  for (int64_t j = FEW; j < count; j += FEW) {
    const pair u = unit_at(splat_f64((double)j), n, sign);
    const double re = u.re[0], im = u.im[0];
    const int64_t some = count - j < FEW ? count - j : FEW;
    double *w = to + 2 * j;
    for (int64_t i = 0; i < some; i++) {
      w[2 * i] = to[2 * i] * re - to[2 * i + 1] * im;
      w[2 * i + 1] = to[2 * i] * im + to[2 * i + 1] * re;
    }
  }
}

/* turn: w^k of k < h. x has h + 1 numbers. */
static void unfold(const double *restrict z, int64_t h, const double *restrict turn, double *restrict x) {
  x[0] = z[0] + z[1];
  x[2 * h] = z[0] - z[1];
  x[1] = x[2 * h + 1] = 0;
  for (int64_t k = 1; k < h; k++) {
    const double *a = z + 2 * k, *b = z + 2 * (h - k), *w = turn + 2 * k;
    const double re = (a[0] - b[0]) / 2, im = (a[1] + b[1]) / 2;
    x[2 * k] = (a[0] + b[0]) / 2 + (im * w[0] + re * w[1]);
    x[2 * k + 1] = (a[1] - b[1]) / 2 + (im * w[1] - re * w[0]);
  }
}
static void fold(const double *restrict x, int64_t h, const double *restrict turn, double *restrict z) {
  for (int64_t k = 0; k < h; k++) {
    const double *a = x + 2 * k, *b = x + 2 * (h - k), *w = turn + 2 * k;
    const double re = a[0] - b[0], im = a[1] + b[1];
    z[2 * k] = a[0] + b[0] - (im * w[0] + re * w[1]);
    z[2 * k + 1] = a[1] - b[1] + (re * w[0] - im * w[1]);
  }
}

/* The first `given` of n real numbers. */
static void fill_reals(const df_tensor *in, int64_t at, int64_t given, int64_t n, double *x) {
  const int64_t there = given < n ? given : n;
  if (in->dtype == DF_FLOAT64) memcpy(x, (const double *)in->data + at, (size_t)there * 8);
  else for (int64_t i = 0; i < there; i++) x[i] = ((const float *)in->data)[at + i];
  memset(x + there, 0, (size_t)(n - there) * 8);
}
/* The first `given` of h + 1 complex ones, the ends of which are real; those between are multiplied by `by`. */
static void fill_half(const df_tensor *in, int64_t at, int64_t given, int64_t h, double by, double *x) {
  const int64_t there = given < h + 1 ? given : h + 1;
  widen(in, at, there, x);
  memset(x + 2 * there, 0, (size_t)(h + 1 - there) * 16);
  x[1] = x[2 * h + 1] = 0;
  for (int64_t i = 2; by != 1 && i < 2 * h; i++) x[i] *= by;
}
static void give_reals(const double *x, int64_t n, double by, df_tensor *out, int64_t at, int64_t made) {
  for (int64_t i = 0; i < made; i++) {
    const double v = i < n ? x[i] / by : 0;
    if (out->dtype == DF_FLOAT64) ((double *)out->data)[at + i] = v;
    else ((float *)out->data)[at + i] = (float)v;
  }
}

static int32_t with_pairs(df_kernel *k, const dfk_real_lines *f, bool from_real, bool adjoint) {
  const df_tensor *in = k->in[0];
  const int64_t n = f->n, h = n / 2, most = batch_of(f->rows, h);
  const int sign = from_real ? -1 : 1;
  const double by = adjoint == from_real ? (double)n : 1;
  plan p;
  double *x = dfk_scratch(k, most * h * 32 + (2 * h + 1) * 16);
  if (!x || !plan_begin(k, &p, h, sign, f->rows)) { dfk_free(x); return DF_RESOURCE_EXHAUSTED; }
  double *y = x + 2 * most * h, *half = y + 2 * most * h, *turn = half + 2 * (h + 1);
  powers(turn, h, n, sign);
  for (int64_t r = 0; r < f->rows; r += most) {
    const int64_t some = f->rows - r < most ? f->rows - r : most;
    for (int64_t i = 0, at = r * f->given; i < some; i++, at += f->given) {
      if (from_real) { fill_reals(in, at, f->given, n, x + i * n); continue; }
      fill_half(in, at, f->given, h, adjoint ? 0.5 : 1, half);
      fold(half, h, turn, x + i * n);
    }
    transform(k, &p, x, y, some);
    for (int64_t i = 0, at = r * f->made; i < some; i++, at += f->made) {
      if (!from_real) { give_reals(y + i * n, n, by, f->out, at, f->made); continue; }
      unfold(y + i * n, h, turn, half);
      give(half, h + 1, n, by, adjoint, f->out, at, f->made);
    }
  }
  dfk_free(p.memory);
  dfk_free(x);
  return DF_OK;
}

/* Between real numbers and the first half of their transform, and the adjoints of both. */
static int32_t with_real(df_kernel *k, bool from_real, bool adjoint) {
  const df_tensor *in = k->in[0];
  dfk_real_lines f;
  if (!dfk_real_fourier_begin(k, from_real, adjoint, &f)) return k->error->code;
  for (int64_t r = 0; !f.n && r < f.rows; r++) give(NULL, 0, 0, 1, false, f.out, r * f.made, f.made);
  if (!f.rows || !f.n) return DF_OK;
  if (f.n % 2 == 0) return with_pairs(k, &f, from_real, adjoint);
  const int64_t n = f.n, half = n / 2 + 1, most = batch_of(f.rows, n);
  const int sign = from_real ? -1 : 1;
  plan p;
  double *x = dfk_scratch(k, most * n * 32);
  if (!x || !plan_begin(k, &p, n, sign, f.rows)) { dfk_free(x); return DF_RESOURCE_EXHAUSTED; }
  double *y = x + 2 * most * n;
  const bool divided = adjoint ? from_real : !from_real;
  for (int64_t r = 0; r < f.rows; r += most) {
    const int64_t some = f.rows - r < most ? f.rows - r : most;
    for (int64_t i = 0; i < some; i++)
      fill(in, (r + i) * f.given, f.given, n, from_real, !from_real && !adjoint, x + 2 * i * n);
    transform(k, &p, x, y, some);
    for (int64_t i = 0; i < some; i++)
      give(y + 2 * i * n, from_real && half < n ? half : n, n, divided ? (double)n : 1, adjoint && from_real, f.out,
           (r + i) * f.made, f.made);
  }
  dfk_free(p.memory);
  dfk_free(x);
  return DF_OK;
}

int32_t cpu_rfft(df_kernel *k)       { return with_real(k, true, false); }
int32_t cpu_irfft(df_kernel *k)      { return with_real(k, false, false); }
int32_t cpu_rfft_grad(df_kernel *k)  { return with_real(k, false, true); }
int32_t cpu_irfft_grad(df_kernel *k) { return with_real(k, true, true); }
