/* stateless_draws.c: numbers of distributions that are drawn until they fit, TensorFlow's number for number: each
 * begins 256 blocks after the one before it (42, a binomial one of a small mean), so that what is thrown away moves no
 * other.
 */
#include "stateless.h"
#include "../convert.h"

enum { BLOCKS = 256, FEW_BLOCKS = 42 };

/* Uniform doubles come in twos, the second one first. */
typedef struct draws { ref_generator g; double two[2]; int left; } draws;

static draws draws_of(const ref_generator *base, int64_t number, int blocks) {
  draws d = { .g = *base };
  ref_generator_skip(&d.g, (uint64_t)number * (uint64_t)blocks);
  return d;
}

static double uniform(draws *d) {
  if (!d->left) {
    for (int i = 0; i < 2; i++) {
      const uint32_t high = ref_generator_word(&d->g);
      d->two[i] = ref_unit_double(high, ref_generator_word(&d->g));
    }
    d->left = 2;
  }
  return d->two[--d->left];
}

/* An integer that has not the number is the nearest that does, and 0 of NaN, as of a cast. */
static void put(df_tensor *t, int64_t i, double v) {
  if (ref_is_float(t->dtype)) ref_put(t, i, v);
  else dfk_convert(DF_FLOAT64, &v, t->dtype, (char *)t->data + i * df_dtype_bytes(t->dtype), 1);
}
static double get(const df_tensor *t, int64_t i) {
  return ref_is_float(t->dtype) ? ref_get(t, i) : (double)ref_get_int(t, i);
}

static void two_normal(draws *d, double pair[2]) { ref_normal_pair(&d->g, true, pair); }
#include "../rejection.h"

/* ---- kernels --------------------------------------------------------------------------------------------------- */

/* The output of a shape whose last dimensions are the parameter's; number i of parameter j goes to i * n + j. */
static df_tensor *begin(df_kernel *k, int32_t last, const int64_t *of, ref_generator *g) {
  int32_t rank;
  int64_t dims[DF_MAX_RANK];
  char text[160];
  if (ref_generator_in(k, 1, g) || !dfk_random_dims(k, &rank, dims)) return NULL;
  bool fits = rank >= last;
  for (int32_t i = 0; fits && i < last; i++) fits = dims[rank - last + i] == of[i];
  if (fits) return dfk_out(k, 0, k->out_dtype[0], rank, dims);
  df_tensor parameter = { .dtype = k->in[k->nin - 1]->dtype, .rank = (int8_t)last };
  memcpy(parameter.dims, of, sizeof *of * (size_t)last);
  dfk_fail(k, DF_INVALID_ARGUMENT, "the shape must end in that of the parameter, %s",
           dfk_shape_text(&parameter, text, sizeof text));
  return NULL;
}

/* The output of a shape that the parameter's dimensions follow, and the generator of this call of an op with a seed. */
static df_tensor *begin_seeded(df_kernel *k, const df_tensor *parameter, ref_generator *g) {
  int32_t rank;
  int64_t dims[DF_MAX_RANK];
  if (!dfk_random_dims(k, &rank, dims)) return NULL;
  if (rank + parameter->rank > DF_MAX_RANK) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "the shape and the parameter's make a rank above %d", DF_MAX_RANK);
    return NULL;
  }
  for (int32_t i = 0; i < parameter->rank; i++) dims[rank + i] = parameter->dims[i];
  const dfk_stream s = dfk_stream_of(k, dfk_int(k, 0));
  *g = (ref_generator){ .counter = { { 0, 0, s.tag[0], s.tag[1] } }, .key = { { s.key[0], s.key[1] } }, .used = 4 };
  return dfk_out(k, 0, k->out_dtype[0], rank + parameter->rank, dims);
}

static int32_t fill_gamma(df_kernel *k, const df_tensor *alpha, const ref_generator *g, df_tensor *out) {
  if (!out) return k->error->code;
  for (int64_t j = 0; j < alpha->size; j++)
    if (!(get(alpha, j) > 0))
      return dfk_fail(k, DF_INVALID_ARGUMENT, "alpha is %g but must be greater than 0", get(alpha, j));
  const int64_t n = alpha->size, each = n ? out->size / n : 0;
  for (int64_t i = 0; i < out->size; i++) {
    draws d = draws_of(g, i, BLOCKS);
    put(out, i % each * n + i / each, gamma_number(&d, get(alpha, i / each)));
  }
  return DF_OK;
}

static int32_t fill_poisson(df_kernel *k, const df_tensor *lam, const ref_generator *g, df_tensor *out) {
  if (!out) return k->error->code;
  const int64_t n = lam->size, each = n ? out->size / n : 0;
  for (int64_t i = 0; i < out->size; i++) {
    draws d = draws_of(g, i, BLOCKS);
    put(out, i % each * n + i / each, poisson_number(&d, get(lam, i / each)));
  }
  return DF_OK;
}

/* shape seed alpha, or shape key counter alg alpha */
int32_t ref_stateless_gamma(df_kernel *k) {
  ref_generator g = { .used = 4 };
  df_tensor *out = begin(k, k->in[k->nin - 1]->rank, k->in[k->nin - 1]->dims, &g);
  return fill_gamma(k, k->in[k->nin - 1], &g, out);
}

/* shape alpha */
int32_t ref_random_gamma(df_kernel *k) {
  ref_generator g = { .used = 4 };
  df_tensor *out = begin_seeded(k, k->in[1], &g);
  return fill_gamma(k, k->in[1], &g, out);
}

/* shape seed lam */
int32_t ref_stateless_poisson(df_kernel *k) {
  ref_generator g = { .used = 4 };
  df_tensor *out = begin(k, k->in[2]->rank, k->in[2]->dims, &g);
  return fill_poisson(k, k->in[2], &g, out);
}

/* shape rate */
int32_t ref_random_poisson(df_kernel *k) {
  ref_generator g = { .used = 4 };
  df_tensor *out = begin_seeded(k, k->in[1], &g);
  return fill_poisson(k, k->in[1], &g, out);
}

/* Two parameters that are broadcast, and how many numbers there are then. */
typedef struct pair { int32_t rank; int64_t dims[DF_MAX_RANK], n; } pair;

static bool pair_of(df_kernel *k, const df_tensor *a, const df_tensor *b, pair *p) {
  char one[160], other[160];
  *p = (pair){ .rank = a->rank > b->rank ? a->rank : b->rank, .n = 1 };
  for (int32_t d = 0; d < p->rank; d++) {
    const int32_t da = d - p->rank + a->rank, db = d - p->rank + b->rank;
    const int64_t x = da < 0 ? 1 : a->dims[da], y = db < 0 ? 1 : b->dims[db];
    if (x != y && x != 1 && y != 1) {
      dfk_fail(k, DF_INVALID_ARGUMENT, "counts is %s and probs %s, which cannot be broadcast",
               dfk_shape_text(a, one, sizeof one), dfk_shape_text(b, other, sizeof other));
      return false;
    }
    p->n *= p->dims[d] = x == 1 ? y : x;
  }
  return true;
}

/* Number j of the pair's, of one of them. */
static double get_of(const pair *p, const df_tensor *t, int64_t j) {
  int64_t at = 0, step = 1;
  for (int32_t d = p->rank - 1, dt = t->rank - 1; dt >= 0; j /= p->dims[d--], step *= t->dims[dt--])
    if (t->dims[dt] > 1) at += j % p->dims[d] * step;
  return get(t, at);
}

/* shape seed counts probs: the shape's last dimensions are those of counts and probs, broadcast */
int32_t ref_stateless_binomial(df_kernel *k) {
  const df_tensor *counts = k->in[2], *probs = k->in[3];
  ref_generator g = { .used = 4 };
  pair both;
  if (!pair_of(k, counts, probs, &both)) return k->error->code;
  df_tensor *out = begin(k, both.rank, both.dims, &g);
  if (!out) return k->error->code;
  const int64_t n = both.n, each = n ? out->size / n : 0;
  for (int64_t i = 0; i < out->size; i++) {
    const int64_t j = i / each;
    const double count = get_of(&both, counts, j), p = get_of(&both, probs, j);
    draws d = draws_of(&g, i, large_mean(count, p) ? BLOCKS : FEW_BLOCKS);
    put(out, i % each * n + j, binomial_number(&d, count, p));
  }
  return DF_OK;
}

/* Of the sums up to each class the first that is above u. */
static int64_t class_of(const double *sum, int64_t n, double u) {
  int64_t lo = 0, hi = n;
  while (lo < hi) {
    const int64_t mid = (lo + hi) / 2;
    if (sum[mid] > u) hi = mid; else lo = mid + 1;
  }
  return lo;
}

/* logits[batch, classes] num_samples seed */
int32_t ref_stateless_multinomial(df_kernel *k) {
  const df_tensor *logits = k->in[0];
  ref_generator g = { .used = 4 };
  char text[160];
  if (ref_generator_in(k, 2, &g)) return k->error->code;
  int64_t samples;
  if (!dfk_integer(k, 1, "num_samples", &samples)) return k->error->code;
  if (samples < 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "num_samples is %lld but must not be negative", (long long)samples);
  if (logits->rank != 2)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "logits is %s but must be a matrix [batch, classes]",
                    dfk_shape_text(logits, text, sizeof text));
  const int64_t batch = logits->dims[0], classes = logits->dims[1];
  if (classes == 0 && batch * samples > 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "logits is %s: there is no class to draw",
                    dfk_shape_text(logits, text, sizeof text));
  df_tensor *out = dfk_out(k, 0, k->out_dtype[0], 2, (int64_t[]){ batch, samples });
  double *sum = out ? dfk_scratch(k, (classes + 1) * (int64_t)sizeof *sum) : NULL;
  if (!sum) return k->error->code;
  for (int64_t b = 0; b < batch; b++) {
    double top = -INFINITY, all = 0;
    for (int64_t c = 0; c < classes; c++)
      if (isfinite(get(logits, b * classes + c))) top = fmax(top, get(logits, b * classes + c));
    for (int64_t c = 0; c < classes; c++) {
      const double v = get(logits, b * classes + c);
      sum[c] = all += isfinite(v) ? exp(v - top) : 0;
    }
    for (int64_t i = 0; i < samples; i++) {
      const uint32_t high = ref_generator_word(&g);
      ref_put_int(out, b * samples + i, class_of(sum, classes, ref_unit_double(high, ref_generator_word(&g)) * all));
    }
  }
  dfk_free(sum);
  return DF_OK;
}
