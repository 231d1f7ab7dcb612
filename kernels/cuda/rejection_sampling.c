/* rejection_sampling.c: launchers of random numbers that are drawn until they fit, of classes, and of rows in a drawn
 * order. Parameters of distributions lie on the host, where they are checked. */
#include "plugin.h"
#include "rejection_sampling.h"
#include "../half.h"
#include "../move.h"
#include "../random.h"
#include <math.h>
#include <string.h>

double dfc_number_of(const df_tensor *t, int64_t i) {
  switch (t->dtype) {
    case DF_FLOAT32: return ((const float *)t->data)[i];
    case DF_FLOAT64: return ((const double *)t->data)[i];
    case DF_FLOAT16: return dfk_f16_to_float(((const uint16_t *)t->data)[i]);
    case DF_BFLOAT16: return dfk_bf16_to_float(((const uint16_t *)t->data)[i]);
    default: return (double)dfk_index(t, i);
  }
}
/* The stream of a call of an op with a seed, or TensorFlow's that the inputs from `at` on ask for. */
static bool stream(df_kernel *k, int32_t at, dfc_drawing *d) {
  memset(d, 0, sizeof *d);
  if (at) return dfc_dealt(k, at, d);
  const dfk_stream s = dfk_stream_of(k, dfk_int(k, 0));
  memcpy(d->key, s.key, sizeof d->key);
  memcpy(d->tag, s.tag, sizeof d->tag);
  return true;
}
/* Fills the output by the parameters, `each` numbers for each. */
static int32_t draw(df_kernel *k, const char *name, const dfc_drawing *d, df_tensor *out, const double *by,
                    int64_t count, int64_t parameters) {
  dfc_call c = dfc_begin(k);
  dfc_rejection_sampling p = { .n = out->size, .each = out->size / parameters, .parameters = parameters,
                               .start = d->start,
                  .dtype = out->dtype };
  memcpy(p.key, d->key, sizeof p.key);
  memcpy(p.tag, d->tag, sizeof p.tag);
  p.by = dfc_temporary(&c, by, count * (int64_t)sizeof *by);
  p.z = dfc_write(&c, out);
  dfc_run(&c, name, p.n, &p);
  return dfc_end(&c);
}

/* The output's shape is what is asked for, and the parameter's behind it; of a stateless op that is in it. */
static df_tensor *begin(df_kernel *k, const df_tensor *of, bool stateless) {
  int32_t rank;
  int64_t dims[DF_MAX_RANK];
  char text[160];
  if (!dfk_random_dims(k, &rank, dims)) return NULL;
  if (!stateless) {
    if (rank + of->rank > DF_MAX_RANK) {
      dfk_fail(k, DF_INVALID_ARGUMENT, "the shape and the parameter's make a rank above %d", DF_MAX_RANK);
      return NULL;
    }
    for (int32_t i = 0; i < of->rank; i++) dims[rank + i] = of->dims[i];
    return dfk_out(k, 0, k->out_dtype[0], rank + of->rank, dims);
  }
  bool fits = rank >= of->rank;
  for (int32_t i = 0; fits && i < of->rank; i++) fits = dims[rank - of->rank + i] == of->dims[i];
  if (fits) return dfk_out(k, 0, k->out_dtype[0], rank, dims);
  dfk_fail(k, DF_INVALID_ARGUMENT, "the shape must end in that of the parameter, %s",
           dfk_shape_text(of, text, sizeof text));
  return NULL;
}
/* (shape, [seed,] parameter) */
static int32_t by_one(df_kernel *k, const char *name, bool stateless, bool above) {
  const df_tensor *of = k->in[k->nin - 1];
  dfc_drawing d;
  df_tensor *out = stream(k, stateless, &d) ? begin(k, of, stateless) : NULL;
  double *by = out ? dfk_scratch(k, (of->size + 1) * (int64_t)sizeof *by) : NULL;
  if (!by) return k->error->code;
  int32_t code = DF_OK;
  for (int64_t j = 0; j < of->size && !code; j++) {
    by[j] = dfc_number_of(of, j);
    if (above && !(by[j] > 0))
      code = dfk_fail(k, DF_INVALID_ARGUMENT, "alpha is %g but must be greater than 0", by[j]);
  }
  if (!code && out->size) code = draw(k, name, &d, out, by, of->size, of->size);
  dfk_free(by);
  return code;
}
static int32_t run_gamma(df_kernel *k)             { return by_one(k, "k_gamma_numbers", false, true); }
static int32_t run_poisson(df_kernel *k)           { return by_one(k, "k_poisson_numbers", false, false); }
static int32_t run_stateless_gamma(df_kernel *k)   { return by_one(k, "k_gamma_numbers", true, true); }
static int32_t run_stateless_poisson(df_kernel *k) { return by_one(k, "k_poisson_numbers", true, false); }

/* shape seed counts probs: the shape's last dimensions are those of counts and probs, broadcast */
static int32_t run_binomial(df_kernel *k) {
  const df_tensor *counts = k->in[2], *probs = k->in[3];
  df_tensor both = { .dtype = probs->dtype, .size = 1 };
  char one[160], other[160];
  dfc_drawing d;
  both.rank = counts->rank > probs->rank ? counts->rank : probs->rank;
  for (int32_t i = 0; i < both.rank; i++) {
    const int32_t a = i - both.rank + counts->rank, b = i - both.rank + probs->rank;
    const int64_t x = a < 0 ? 1 : counts->dims[a], y = b < 0 ? 1 : probs->dims[b];
    if (x != y && x != 1 && y != 1)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "counts is %s and probs %s, which cannot be broadcast",
                      dfk_shape_text(counts, one, sizeof one), dfk_shape_text(probs, other, sizeof other));
    both.size *= both.dims[i] = x == 1 ? y : x;
  }
  df_tensor *out = stream(k, 1, &d) ? begin(k, &both, true) : NULL;
  double *by = out ? dfk_scratch(k, (2 * both.size + 1) * (int64_t)sizeof *by) : NULL;
  if (!by) return k->error->code;
  for (int64_t j = 0; j < 2 * both.size; j++) {
    const df_tensor *t = j % 2 ? probs : counts;
    int64_t at = 0, step = 1, left = j / 2;
    for (int32_t i = both.rank - 1, own = t->rank - 1; own >= 0; left /= both.dims[i--], step *= t->dims[own--])
      if (t->dims[own] > 1) at += left % both.dims[i] * step;
    by[j] = dfc_number_of(t, at);
  }
  const int32_t code = out->size ? draw(k, "k_binomial_numbers", &d, out, by, 2 * both.size, both.size) : DF_OK;
  dfk_free(by);
  return code;
}

/* shape means stdevs minvals maxvals */
static int32_t run_truncated(df_kernel *k) {
  int32_t rank, code = DF_OK;
  int64_t dims[DF_MAX_RANK];
  dfc_drawing d;
  if (!dfk_truncated_dims(k, &rank, dims)) return k->error->code;
  df_tensor *out = dfk_out(k, 0, k->out_dtype[0], rank, dims);
  double *by = out ? dfk_scratch(k, (4 * dims[0] + 1) * (int64_t)sizeof *by) : NULL;
  if (!by) return k->error->code;
  for (int64_t i = 0; i < dims[0] && !code; i++) {
    double *p = by + 4 * i;
    for (int32_t j = 0; j < 4; j++) p[j] = dfc_number_of(k->in[j + 1], k->in[j + 1]->size == 1 ? 0 : i);
    if (!(p[1] > 0) || !(p[2] < p[3]) || !isfinite(p[0]) || !isfinite(p[1]))
      code = dfk_fail(k, DF_INVALID_ARGUMENT, "batch %lld has the mean %g, the deviation %g and the bounds %g and %g: "
                      "the mean and the deviation must be finite, the deviation above 0, the first bound below the "
                      "second", (long long)i, p[0], p[1], p[2], p[3]);
  }
  if (!code && out->size && stream(k, 0, &d)) code = draw(k, "k_truncated_numbers", &d, out, by, 4 * dims[0], dims[0]);
  dfk_free(by);
  return code;
}

/* Which of the rows, if any, has no class, said as the CPU says it. */
static int32_t told(df_kernel *k, const int64_t *trouble, int64_t rows) {
  for (int64_t b = 0; b < rows; b++) {
    if (trouble[b] < 0)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "every logit of row %lld is -inf: there is no class to draw",
                      (long long)b);
    if (trouble[b])
      return dfk_fail(k, DF_INVALID_ARGUMENT, "logits[%lld, %lld] is %s: no probability", (long long)b,
                      (long long)(trouble[b] / 2 - 1), trouble[b] % 2 ? "inf" : "NaN");
  }
  return DF_OK;
}

static int32_t classes(df_kernel *k, const dfc_drawing *d, int64_t samples, bool dealt) {
  const df_tensor *in = k->in[0];
  const int64_t rows = in->dims[0], words = rows * (int64_t)sizeof(int64_t);
  df_tensor *out = dfk_out(k, 0, k->out_dtype[0], 2, (int64_t[]){ rows, samples });
  int64_t *trouble = out ? dfk_scratch(k, words + 8) : NULL;
  if (!trouble) return k->error->code;
  int32_t code = DF_OK;
  if (out->size) {
    dfc_call c = dfc_begin(k);
    dfc_classes p = { .rows = rows, .classes = in->dims[1], .samples = samples, .start = d->start, .dtype = in->dtype,
                      .wide = out->dtype == DF_INT64, .dealt = dealt };
    memcpy(p.key, d->key, sizeof p.key);
    memcpy(p.tag, d->tag, sizeof p.tag);
    p.x = dfc_read(&c, in);
    p.z = dfc_write(&c, out);
    p.sum = dfc_temporary(&c, NULL, in->size * (int64_t)sizeof *p.sum);
    p.trouble = dealt ? NULL : dfc_temporary(&c, NULL, words);
    dfc_run_blocks(&c, "k_classes", rows < 4096 ? rows : 4096, DFC_CLASSES_BLOCK, &p);
    if (!dealt) dfc_bring(&c, trouble, p.trouble, words);
    code = dfc_end(&c);
    if (!code && !dealt) code = told(k, trouble, rows);
  }
  dfk_free(trouble);
  return code;
}

/* logits[batch, classes] num_samples */
static int32_t run_multinomial(df_kernel *k) {
  const df_tensor *in = k->in[0];
  char text[160];
  dfc_drawing d;
  if (in->rank != 2 || k->in[1]->rank != 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "logits is %s but must be a matrix [batch, classes], num_samples a scalar",
                    dfk_shape_text(in, text, sizeof text));
  const int64_t samples = dfk_index(k->in[1], 0);
  if (samples < 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "num_samples is %lld but must not be negative", (long long)samples);
  if (in->dims[1] == 0 && in->dims[0] * samples > 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "logits is %s: there is no class to draw",
                    dfk_shape_text(in, text, sizeof text));
  if (!dfc_waits(k, "whether there is a class to draw") || !stream(k, 0, &d)) return k->error->code;
  return classes(k, &d, samples, false);
}
/* logits num_samples seed */
static int32_t run_stateless_multinomial(df_kernel *k) {
  const df_tensor *in = k->in[0];
  char text[160];
  dfc_drawing d;
  int64_t samples;
  if (!stream(k, 2, &d) || !dfk_integer(k, 1, "num_samples", &samples)) return k->error->code;
  if (samples < 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "num_samples is %lld but must not be negative", (long long)samples);
  if (in->rank != 2)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "logits is %s but must be a matrix [batch, classes]",
                    dfk_shape_text(in, text, sizeof text));
  if (in->dims[1] == 0 && in->dims[0] * samples > 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "logits is %s: there is no class to draw",
                    dfk_shape_text(in, text, sizeof text));
  return classes(k, &d, samples, true);
}

/* The order follows from the stream alone: it is drawn on the host, and the rows are picked by it. */
static int32_t run_shuffle(df_kernel *k) {
  const df_tensor *in = k->in[0];
  if (in->rank == 0 || in->dims[0] < 2 || in->size == 0) return dfk_out_forward(k, 0, 0, in->rank, NULL);
  const int64_t n = in->dims[0];
  df_tensor *out = dfk_out_like(k, 0, in);
  int64_t *from = out ? dfk_scratch(k, n * (int64_t)sizeof *from) : NULL;
  if (!from) return k->error->code;
  const dfk_stream s = dfk_stream_of(k, dfk_int(k, 0));
  uint32_t w[4];
  for (int64_t i = 0; i < n; i++) {
    if (i % 2 == 0) dfk_philox(&s, (uint64_t)(i / 2), 0, w);
    const int64_t j = (int64_t)dfk_below(w[2 * (i % 2)], w[2 * (i % 2) + 1], (uint64_t)i + 1);
    from[i] = from[j];
    from[j] = i;
  }
  dfc_call c = dfc_begin(k);
  dfc_picking p = { .from = dfc_read(&c, in), .n = n, .row = in->size / n, .blocks = 1 };
  p.index = dfc_temporary(&c, from, n * (int64_t)sizeof *from);
  p.to = dfc_write(&c, out);
  dfc_run(&c, dfc_width_name("pick", dfk_width(in->dtype)), in->size, &p);
  dfk_free(from);
  return dfc_end(&c);
}

static bool takes_drawn(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return out[0] == DF_INT32 || out[0] == DF_INT64 || (out[0] < 32 && (DFC_FLOATS >> out[0] & 1));
}
static bool takes_logits(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return in[0] == DF_INT32 || in[0] == DF_INT64 || (in[0] < 32 && (DFC_FLOATS >> in[0] & 1));
}
static const dfi_gpu_kernel kernels[] = {
  { .op = "RandomGamma", .run = run_gamma, .host_in = DFI_ALL_IN, .takes = takes_drawn },
  { .op = "RandomPoissonV2", .run = run_poisson, .host_in = DFI_ALL_IN, .takes = takes_drawn },
  { .op = "StatelessRandomGammaV2", .run = run_stateless_gamma, .host_in = DFI_ALL_IN, .takes = takes_drawn },
  { .op = "StatelessRandomGammaV3", .run = run_stateless_gamma, .host_in = DFI_ALL_IN, .takes = takes_drawn },
  { .op = "StatelessRandomPoisson", .run = run_stateless_poisson, .host_in = DFI_ALL_IN, .takes = takes_drawn },
  { .op = "StatelessRandomBinomial", .run = run_binomial, .host_in = DFI_ALL_IN, .takes = takes_drawn },
  { .op = "ParameterizedTruncatedNormal", .run = run_truncated, .host_in = DFI_ALL_IN, .takes = takes_drawn },
  { .op = "Multinomial", .run = run_multinomial, .host_in = 2, .takes = takes_logits },
  { .op = "StatelessMultinomial", .run = run_stateless_multinomial, .host_in = DFI_BUT_FIRST_IN,
    .takes = takes_logits },
  { .op = "RandomShuffle", .run = run_shuffle, .takes = dfc_takes_plain },
};
const dfc_table dfc_rejection_samplings = { kernels, (int32_t)(sizeof kernels / sizeof *kernels) };
