/* candidate.c: classes drawn as negative examples, and how often each is expected among them.
 *
 * The algorithms are TensorFlow's: classes are drawn by themselves, and with `unique` again where they were drawn
 * before; a class of probability p is expected p * num_sampled times, or, where some were drawn again,
 * 1 - (1 - p)^tries times.
 */
#include "../random.h"
#include <stdlib.h>

enum { NUM_TRUE, NUM_SAMPLED, UNIQUE, RANGE_MAX, SEED, VOCAB_FILE, DISTORTION, RESERVED, SHARDS, SHARD, UNIGRAMS };

/* How classes 0 to range - 1 are drawn. */
typedef struct sampler {
  int64_t (*draw)(double u, const struct sampler *s);   /* u in [0, 1) */
  double (*probability)(int64_t class, const struct sampler *s);
  int64_t range;
  const double *sum;                                    /* of weights: of the classes up to each; or NULL */
} sampler;

static int64_t draw_uniform(double u, const sampler *s) { return (int64_t)(u * (double)s->range); }
static double chance_uniform(int64_t class, const sampler *s) {
  (void)class;
  return 1 / (double)s->range;
}
/* Zipf's law, for classes in falling order of frequency. */
static int64_t draw_log_uniform(double u, const sampler *s) {
  return (int64_t)exp(u * log1p((double)s->range)) - 1;
}
static double chance_log_uniform(int64_t class, const sampler *s) {
  return log(((double)class + 2) / ((double)class + 1)) / log1p((double)s->range);
}
/* By weights that are given: the first class whose sum is above. */
static int64_t draw_weighted(double u, const sampler *s) {
  const double at = u * s->sum[s->range - 1];
  int64_t low = 0, high = s->range - 1;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (s->sum[middle] <= at) low = middle + 1; else high = middle;
  }
  return low;
}
static double chance_weighted(int64_t class, const sampler *s) {
  if (class < 0 || class >= s->range) return 0;
  return (s->sum[class] - (class ? s->sum[class - 1] : 0)) / s->sum[s->range - 1];
}

static float expected(double p, int64_t sampled, int64_t tries) {
  return (float)(tries == sampled ? p * (double)sampled : -expm1((double)tries * log1p(-p)));
}

/* An open table of the classes that were drawn; -1 is free. False: this one was. */
static bool is_new(int64_t *table, uint64_t mask, int64_t class) {
  uint64_t at = dfk_mix((uint64_t)class + 1) & mask;
  for (; table[at] >= 0; at = (at + 1) & mask) if (table[at] == class) return false;
  table[at] = class;
  return true;
}

enum { IN_VAIN = 1 << 26 };              /* so many draws in a row by weights without a new class: a second or two */

/* How often it drew; -1: what is left of the classes is never drawn, and error is filled. */
static int64_t draw_all(df_kernel *k, const sampler *how, int64_t *out, int64_t n, bool unique, int64_t *table,
                        uint64_t mask) {
  const dfk_stream s = dfk_stream_of(k, dfk_int(k, SEED));
  int64_t tries = 0, last = 0;
  for (uint64_t i = 0; unique && i <= mask; i++) table[i] = -1;
  for (int64_t found = 0; found < n; tries++) {
    uint32_t w[4];
    dfk_philox(&s, (uint64_t)tries / 2, 0, w);
    int64_t class = how->draw(dfk_unit_double(w[2 * (tries % 2)], w[2 * (tries % 2) + 1]), how);
    if (class >= how->range) class = how->range - 1;              /* rounding */
    if (!unique || is_new(table, mask, class)) {
      out[found++] = class;
      last = tries;
    } else if (how->sum && tries - last >= IN_VAIN) {
      dfk_fail(k, DF_INVALID_ARGUMENT, "%lld different classes are to be sampled, but after %lld the others have too "
               "little weight: %d draws in a row gave none of them", (long long)n, (long long)found, IN_VAIN);
      return -1;
    }
  }
  return tries;
}

static int32_t candidates(df_kernel *k, const sampler *how) {
  const df_tensor *given = k->in[0];
  const int64_t num_true = dfk_int(k, NUM_TRUE), n = dfk_int(k, NUM_SAMPLED);
  const int64_t range = how ? dfk_int(k, RANGE_MAX) : n;
  const bool unique = dfk_bool(k, UNIQUE);
  char text[160];
  if (given->rank != 2 || given->dims[1] != num_true)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "true_classes is %s: expected [batch, %lld]",
                    dfk_shape_text(given, text, sizeof text), (long long)num_true);
  if (n < 1 || range < 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "num_sampled is %lld of %lld classes: both must be positive", (long long)n,
                    (long long)range);
  if (unique && n > range)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%lld different classes are to be sampled, but there are %lld",
                    (long long)n, (long long)range);
  df_tensor *sampled = dfk_out(k, 0, DF_INT64, 1, &n);
  df_tensor *of_true = sampled ? dfk_out(k, 1, DF_FLOAT32, 2, given->dims) : NULL;
  df_tensor *of_sampled = of_true ? dfk_out(k, 2, DF_FLOAT32, 1, &n) : NULL;
  if (!of_sampled) return k->error->code;
  uint64_t size = 1;
  while (size < 2 * (uint64_t)n) size *= 2;
  int64_t *table = dfk_scratch(k, unique ? (int64_t)size * 8 : 8);
  if (!table) return k->error->code;
  int64_t *classes = sampled->data, tries = n;
  const int64_t *true_class = given->data;
  float *p = of_true->data, *q = of_sampled->data;
  if (how) tries = draw_all(k, how, classes, n, unique, table, size - 1);
  else for (int64_t i = 0; i < n; i++) classes[i] = i;
  for (int64_t i = 0; tries > 0 && i < given->size; i++)
    p[i] = how ? expected(how->probability(true_class[i], how), n, tries) : 1;
  for (int64_t i = 0; tries > 0 && i < n; i++)
    q[i] = how ? expected(how->probability(classes[i], how), n, tries) : 1;
  dfk_free(table);
  return tries > 0 ? DF_OK : k->error->code;
}

int32_t ref_uniform_candidates(df_kernel *k) {
  return candidates(k, &(sampler){ draw_uniform, chance_uniform, dfk_int(k, RANGE_MAX), NULL });
}
int32_t ref_log_uniform_candidates(df_kernel *k) {
  return candidates(k, &(sampler){ draw_log_uniform, chance_log_uniform, dfk_int(k, RANGE_MAX), NULL });
}

/* The weights of this shard's classes, one upon the other: reserved ones have none, the others are those of the list,
   to the power of the distortion. So many classes have a weight above 0; -1: error is filled. */
static int64_t sum_weights(df_kernel *k, const df_tensor *unigrams, double *sum, int64_t range) {
  const int64_t reserved = dfk_int(k, RESERVED), shards = dfk_int(k, SHARDS), shard = dfk_int(k, SHARD);
  int64_t some = 0;
  double total = 0;
  for (int64_t c = 0; c < range; c++) {
    const int64_t i = shard + c * shards - reserved;
    const float weight = i < 0 ? 0 : powf(((const float *)unigrams->data)[i], (float)dfk_float(k, DISTORTION));
    if (!(weight >= 0 && isfinite(weight))) {
      dfk_fail(k, DF_INVALID_ARGUMENT, "unigram %lld has the weight %g: expected a finite number, 0 or more",
               (long long)i, weight);
      return -1;
    }
    some += weight > 0;
    sum[c] = total += weight;
  }
  if (some) return some;
  dfk_fail(k, DF_INVALID_ARGUMENT, "none of the %lld classes has a weight", (long long)range);
  return -1;
}

/* How many classes this shard has: of the reserved ones and the list, each that leaves `shard` modulo shards. */
static int64_t classes_of(const df_kernel *k, int64_t unigrams) {
  const int64_t left = dfk_int(k, RESERVED) + unigrams - dfk_int(k, SHARD);
  return left > 0 ? (left - 1) / dfk_int(k, SHARDS) + 1 : 0;
}

int32_t ref_unigram_candidates(df_kernel *k) {
  const df_tensor *unigrams = k->attrs[UNIGRAMS].tensor;
  const int64_t range = dfk_int(k, RANGE_MAX), shards = dfk_int(k, SHARDS), shard = dfk_int(k, SHARD);
  if (k->attrs[VOCAB_FILE].i)
    return dfk_fail(k, DF_UNIMPLEMENTED, "vocab_file is '%s': the weights must be in `unigrams`",
                    dfk_string(k, VOCAB_FILE));
  if (!unigrams || unigrams->dtype != DF_FLOAT32 || unigrams->rank != 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "unigrams must list the weights of the classes");
  const int64_t reserved = dfk_int(k, RESERVED);
  if (range < 1 || shards < 1 || shard < 0 || shard >= shards || reserved < 0 || reserved > INT32_MAX)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "range_max is %lld, num_reserved_ids %lld, shard %lld of %lld",
                    (long long)range, (long long)reserved, (long long)shard, (long long)shards);
  const int64_t classes = classes_of(k, unigrams->size);
  if (range != classes)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "range_max is %lld, but there are %lld classes (num_reserved_ids %lld and "
                    "%lld unigrams, shard %lld of %lld)", (long long)range, (long long)classes, (long long)reserved,
                    (long long)unigrams->size, (long long)shard, (long long)shards);
  double *sum = dfk_scratch(k, range * (int64_t)sizeof *sum);
  if (!sum) return k->error->code;
  const int64_t some = sum_weights(k, unigrams, sum, range);
  int32_t code = some < 0 ? k->error->code : DF_OK;
  if (!code && dfk_bool(k, UNIQUE) && dfk_int(k, NUM_SAMPLED) > some)
    code = dfk_fail(k, DF_INVALID_ARGUMENT, "%lld different classes are to be sampled, but %lld have a weight",
                    (long long)dfk_int(k, NUM_SAMPLED), (long long)some);
  if (!code) code = candidates(k, &(sampler){ draw_weighted, chance_weighted, range, sum });
  dfk_free(sum);
  return code;
}
int32_t ref_all_candidates(df_kernel *k) { return candidates(k, NULL); }
int32_t ref_weighted_candidates(df_kernel *k, const double *sum) {
  return candidates(k, &(sampler){ draw_weighted, chance_weighted, dfk_int(k, RANGE_MAX), sum });
}

int32_t ref_accidental_hits(df_kernel *k) {
  const df_tensor *given = k->in[0], *sampled = k->in[1];
  char text[160];
  if (given->rank != 2 || given->dims[1] != dfk_int(k, NUM_TRUE) || sampled->rank != 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%s is %s: expected %s",
                    sampled->rank != 1 ? "sampled_candidates" : "true_classes",
                    dfk_shape_text(sampled->rank != 1 ? sampled : given, text, sizeof text),
                    sampled->rank != 1 ? "a vector" : "[batch, num_true]");
  const int64_t *t = given->data, *s = sampled->data;
  int64_t n = 0;
  for (int64_t i = 0; i < given->size; i++) for (int64_t j = 0; j < sampled->size; j++) n += t[i] == s[j];
  df_tensor *rows = dfk_out(k, 0, DF_INT32, 1, &n), *ids = rows ? dfk_out(k, 1, DF_INT64, 1, &n) : NULL,
            *weights = ids ? dfk_out(k, 2, DF_FLOAT32, 1, &n) : NULL;
  if (!weights) return k->error->code;
  int64_t at = 0;
  for (int64_t i = 0; i < given->size; i++)
    for (int64_t j = 0; j < sampled->size; j++) {
      if (t[i] != s[j]) continue;
      ((int32_t *)rows->data)[at] = (int32_t)(i / given->dims[1]);
      ((int64_t *)ids->data)[at] = j;
      ((float *)weights->data)[at++] = -3.40282347e38f;  /* added to a logit, it leaves nothing of it */
    }
  return DF_OK;
}
