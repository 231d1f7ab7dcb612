/* random.c: random numbers.
 *
 * Every op draws anew in each run, frame and iteration; what it draws is a function of the graph's seed, the op's seed,
 * the number under which the run draws (session/draws.c: of its session's runs those count in which the op drew) and
 * the iterations of the frames around it, and of nothing else: two loops written alike whose ops have the same seed
 * draw alike. An op that is given no seed (-1) has one
 * made of its place in the graph, so that two ops never draw the same by accident.
 */
#include "graph/build.h"
#include "op/op.h"
#include "kernels/random.h"

static void seed_by_place(dfi_infer *c, int32_t attr) {
  if (c->node->attrs[attr].i != -1) return;
  const dfi_op_info *o = dfi_op_info_at(c->node->op);
  /* the node's may be the entry's defaults */
  df_attr *attrs = dfi_graph_alloc(c->graph, sizeof *attrs * (size_t)o->nattr);
  memcpy(attrs, c->node->attrs, sizeof *attrs * (size_t)o->nattr);
  attrs[attr].i = (int64_t)(dfk_mix((uint64_t)c->graph->n + 1) >> 1);  /* the id that the node is about to get */
  c->node->attrs = attrs;
}

static int32_t check_shape_input(dfi_infer *c) {
  const dfi_shape *s = dfi_in_shape(c, 0);
  char a[160];
  if (s->rank >= 0 && (s->rank != 1 || s->dims[0] > DF_MAX_RANK))
    return dfi_infer_fail(c, "the shape is given as %s but must be a vector of at most %d integers",
                          dfi_typed_shape_text(dfi_in_dtype(c, 0), s, a), DF_MAX_RANK);
  const df_tensor *t = dfi_in_const(c, 0);
  for (int64_t i = 0; t && i < t->size; i++)
    if (df_tensor_get_int(t, i) < 0)
      return dfi_infer_fail(c, "dimension %lld of the shape is %lld but must not be negative", (long long)i,
                            (long long)df_tensor_get_int(t, i));
  *dfi_set_shape(c, 0) = dfi_in_as_shape(c, 0);
  return DF_OK;
}

static int32_t shape_random(dfi_infer *c) {
  seed_by_place(c, 1);
  return check_shape_input(c);
}

/* the same where the seed is the first attribute */
static int32_t shape_drawn(dfi_infer *c) {
  seed_by_place(c, 0);
  return check_shape_input(c);
}

static int32_t shape_random_int(dfi_infer *c) {
  seed_by_place(c, 0);
  const df_tensor *low = dfi_in_const(c, 1), *high = dfi_in_const(c, 2);
  if (dfi_in_shape(c, 1)->rank > 0 || dfi_in_shape(c, 2)->rank > 0)
    return dfi_infer_fail(c, "minval and maxval must be scalars");
  if (low && high && low->size == 1 && high->size == 1 && df_tensor_get_int(low, 0) >= df_tensor_get_int(high, 0))
    return dfi_infer_fail(c, "minval is %lld but must be less than maxval, %lld", (long long)df_tensor_get_int(low, 0),
                          (long long)df_tensor_get_int(high, 0));
  return check_shape_input(c);
}

static int32_t shape_shuffle(dfi_infer *c) {
  seed_by_place(c, 0);
  return dfi_shape_same(c);
}

/* shape, parameter: the parameter's dimensions follow the shape's */
static int32_t shape_for_each(dfi_infer *c) {
  seed_by_place(c, 0);
  const int32_t code = check_shape_input(c);
  dfi_shape s = dfi_in_as_shape(c, 0);
  const dfi_shape *each = dfi_in_shape(c, 1);
  if (code || s.rank < 0 || each->rank < 0 || s.rank + each->rank > DF_MAX_RANK) {
    *dfi_set_shape(c, 0) = dfi_shape_unknown();
    return code;
  }
  for (int32_t i = 0; i < each->rank; i++) s.dims[s.rank + i] = each->dims[i];
  s.rank = (int8_t)(s.rank + each->rank);
  *dfi_set_shape(c, 0) = s;
  return DF_OK;
}

static int32_t shape_multinomial(dfi_infer *c) {
  seed_by_place(c, 0);
  const dfi_shape *logits = dfi_in_shape(c, 0);
  char a[160];
  if ((logits->rank >= 0 && logits->rank != 2) || dfi_in_shape(c, 1)->rank > 0)
    return dfi_infer_fail(c, "logits is %s but must be a matrix [batch, classes], num_samples a scalar",
                          dfi_typed_shape_text(dfi_in_dtype(c, 0), logits, a));
  const df_tensor *n = dfi_in_const(c, 1);
  int64_t samples = n ? df_tensor_get_int(n, 0) : -1;
  if (n && samples < 0) return dfi_infer_fail(c, "num_samples is %lld but must not be negative", (long long)samples);
  *dfi_set_shape(c, 0) = dfi_shape_of(2, (int64_t[]){ logits->rank < 0 ? -1 : logits->dims[0], samples });
  return DF_OK;
}

/* shape[n], seed[2] or key */
static int32_t shape_stateless(dfi_infer *c) {
  const dfi_shape *s = dfi_in_shape(c, 1);
  char a[160];
  if (dfi_in_dtype(c, 1) != DF_UINT64 && s->rank >= 0 && (s->rank != 1 || (s->dims[0] >= 0 && s->dims[0] != 2)))
    return dfi_infer_fail(c, "seed must have shape [2], not %s", dfi_shape_text(s, a));
  return check_shape_input(c);
}

static int32_t shape_stateless_multinomial(dfi_infer *c) {
  const dfi_shape *logits = dfi_in_shape(c, 0);
  const df_tensor *n = dfi_in_const(c, 1);
  *dfi_set_shape(c, 0) = dfi_shape_of(2, (int64_t[]){ logits->rank == 2 ? logits->dims[0] : -1,
                                                      n && n->size == 1 ? df_tensor_get_int(n, 0) : -1 });
  return DF_OK;
}

static int32_t shape_key_counter(dfi_infer *c) {
  *dfi_set_shape(c, 0) = dfi_shape_vector(1);
  *dfi_set_shape(c, 1) = dfi_shape_vector(2);
  return DF_OK;
}

static int32_t shape_index_shuffle(dfi_infer *c) {
  const dfi_shape *index = dfi_in_shape(c, 0), *seed = dfi_in_shape(c, 1), *most = dfi_in_shape(c, 2);
  if (index->rank > 1 || most->rank > 1 || seed->rank == 0 || seed->rank > 2)
    return dfi_infer_fail(c, "index and max_index have ranks %d and %d, seed %d: expected one or [n], and [3] or "
                          "[n, 3]", index->rank, most->rank, seed->rank);
  if (index->rank < 0 || most->rank < 0 || seed->rank < 0) return DF_OK;
  const int64_t n = index->rank ? index->dims[0] : most->rank ? most->dims[0] : seed->rank == 2 ? seed->dims[0] : 1;
  *dfi_set_shape(c, 0) = index->rank || most->rank || seed->rank == 2 ? dfi_shape_vector(n) : dfi_shape_scalar();
  return DF_OK;
}

static double cost_uniform(const df_kernel *k) {
  double n = 1;
  for (int64_t i = 0; i < k->in[0]->size; i++) n *= (double)dfk_index(k->in[0], i);
  return 30 + 3 * n;
}
static double cost_normal(const df_kernel *k) { return 2 * cost_uniform(k); }

#define SEEDED " seed: the same one gives the same numbers in the n-th run in which it draws, whatever the threads; " \
  "-1: one of the op's own."

static const df_op ops[] = {
  { .type = "RandomUniform", .traits = DFO_RANDOM, .lua = "random_uniform", .in = "shape:S", .out = "output:dtype",
    .types = "dtype=float S=int32|int64", .attrs = "dtype:dtype=float32 seed:int=-1",
    .doc = "uniform numbers in [0, 1) of this shape, anew in each run and iteration." SEEDED,
    .example = "df.random_uniform({2, 3}, {seed = 1})",
    .output = "[[0.1962 0.9278 0.8296]\n [0.5915 0.3456 0.9958]] float32[2,3]",
    .derivative = "none: the numbers are drawn, and do not depend on the inputs smoothly",
    .stateful = true, .no_grad = true, .shape = shape_random, .cost = cost_uniform,
    .kernel = { [DF_REF] = ref_random_uniform, [DF_CPU] = cpu_random_uniform } },
  { .type = "RandomStandardNormal", .traits = DFO_RANDOM, .lua = "random_normal", .in = "shape:S",
    .out = "output:dtype",
    .types = "dtype=float S=int32|int64", .attrs = "dtype:dtype=float32 seed:int=-1",
    .doc = "normal numbers of mean 0 and deviation 1, of this shape, anew in each run and iteration." SEEDED,
    .example = "df.random_normal({2, 3}, {seed = 1})",
    .output = "[[ 1.6224 -0.7907 -0.5130]\n [-0.3324  1.4571 -0.0386]] float32[2,3]",
    .derivative = "none: the numbers are drawn, and do not depend on the inputs smoothly",
    .stateful = true, .no_grad = true, .shape = shape_random, .cost = cost_normal,
    .kernel = { [DF_REF] = ref_random_normal, [DF_CPU] = cpu_random_normal } },
  { .type = "TruncatedNormal", .traits = DFO_RANDOM, .lua = "truncated_normal", .in = "shape:S", .out = "output:dtype",
    .types = "dtype=float S=int32|int64", .attrs = "dtype:dtype=float32 seed:int=-1",
    .doc = "normal numbers of mean 0 and deviation 1, drawn again where they are 2 or more from 0." SEEDED,
    .example = "df.truncated_normal({2, 3}, {seed = 1})",
    .output = "[[ 1.6224 -0.7907 -0.5130]\n [-0.3324  1.4571 -0.0386]] float32[2,3]",
    .derivative = "none: the numbers are drawn, and do not depend on the inputs smoothly",
    .stateful = true, .no_grad = true, .shape = shape_random, .cost = cost_normal,
    .kernel = { [DF_REF] = ref_truncated_normal, [DF_CPU] = cpu_truncated_normal } },
  { .type = "RandomUniformInt", .traits = DFO_RANDOM, .lua = "random_uniform_int",
    .in = "shape:T minval:Tout maxval:Tout", .out = "output:Tout",
    .types = "Tout=int32|int64 T=int32|int64", .attrs = "seed:int=-1",
    .doc = "uniform integers from minval up to, not including, maxval, of this shape." SEEDED,
    .example = "df.random_uniform_int({10}, 1, 7)",
    .output = "[2 6 6 4 5 1 4 6 1 3] int32[10]",
    .stateful = true, .no_grad = true, .shape = shape_random_int, .cost = cost_uniform,
    .kernel = { [DF_REF] = ref_random_uniform_int, [DF_CPU] = cpu_random_uniform_int } },
  { .type = "RandomShuffle", .traits = DFO_RANDOM, .lua = "random_shuffle", .in = "value:T", .out = "output:T",
    .types = "T=any",
    .attrs = "seed:int=-1", .doc = "the rows of value along axis 0 in random order; every order is as likely." SEEDED,
    .example = "df.random_shuffle({1, 2, 3, 4})",
    .output = "[3 2 1 4] int32[4]",
    .derivative = "none: the numbers are drawn, and do not depend on the inputs smoothly",
    .stateful = true, .no_grad = true, .shape = shape_shuffle, .kernel = { [DF_REF] = ref_random_shuffle } },
  { .type = "Multinomial", .traits = DFO_RANDOM, .lua = "multinomial", .in = "logits:T num_samples:int32",
    .out = "output:output_dtype",
    .types = "T=float output_dtype=int32|int64", .attrs = "seed:int=-1 output_dtype:dtype=int64",
    .doc = "int64[batch, num_samples]: classes drawn with probabilities softmax(logits T[batch, classes]). A logit of "
    "-inf is "
           "never drawn; NaN, +inf or a row of nothing but -inf is an error." SEEDED,
    .example = "df.multinomial({{0.0, 1.0, 2.0}}, 5)",
    .output = "[[2 1 2 2 1]] int64[1,5]",
    .stateful = true, .no_grad = true, .shape = shape_multinomial, .kernel = { [DF_REF] = ref_multinomial } },
  { .type = "RandomGamma", .traits = DFO_RANDOM, .lua = "random_gamma", .in = "shape:S alpha:T", .out = "output:T",
    .types = "T=float S=int32|int64", .attrs = "seed:int=-1",
    .doc = "gamma numbers of rate 1 and shape alpha, as many of each alpha as `shape` says: T[shape..., "
    "alpha.shape...]." SEEDED,
    .example = "df.random_gamma({3}, {0.5, 2.0})",
    .output = "[[0.6701 3.0689]\n [0.0390 1.6689]\n [0.5847 1.9433]] float32[3,2]",
    .derivative = "none: the numbers are drawn, and do not depend on the inputs smoothly",
    .stateful = true, .no_grad = true, .shape = shape_for_each, .cost = cost_normal,
    .kernel = { [DF_REF] = ref_random_gamma } },
  { .type = "RandomPoissonV2", .traits = DFO_RANDOM, .in = "shape:S rate:R", .out = "output:dtype",
    .types = "R=float16|float32|float64|int32|int64 dtype=float16|float32|float64|int32|int64 S=int32|int64",
    .attrs = "seed:int=-1 dtype:dtype=int64",
    .doc = "Poisson numbers, as many of each rate as `shape` says: dtype[shape..., rate.shape...]." SEEDED,
    .stateful = true, .no_grad = true, .shape = shape_for_each, .cost = cost_normal,
    .kernel = { [DF_REF] = ref_random_poisson } },
  { .type = "ParameterizedTruncatedNormal", .traits = DFO_RANDOM, .in = "shape:S means:dtype stdevs:dtype "
    "minvals:dtype maxvals:dtype", .out = "output:dtype", .types = "dtype=float S=int32|int64", .attrs = "seed:int=-1",
    .doc = "normal numbers between minvals and maxvals, a mean, a deviation and bounds for each row of the shape."
    SEEDED,
    .stateful = true, .no_grad = true, .shape = shape_drawn, .cost = cost_normal,
    .kernel = { [DF_REF] = ref_parameterized_truncated_normal } },
#define DRAWN(in_, types_, attrs_, kernel_) .in = in_, .out = "output:dtype", .types = types_, .attrs = attrs_, \
  .no_grad = true, .shape = shape_stateless, .cost = cost_uniform, .kernel = { [DF_REF] = kernel_ }
#define KEYED " key:uint64 counter:uint64 alg:int32"
#define STATELESS(kernel_) DRAWN("shape:S seed:Tseed", "dtype=float S=int32|int64 Tseed=int32|int64", \
                                 "dtype:dtype=float32", kernel_)
#define STATELESS_KEYED(kernel_) DRAWN("shape:S" KEYED, "dtype=float S=int32|int64", "dtype:dtype=float32", kernel_)
#define WHOLE "dtype=int32|int64|uint32|uint64 S=int32|int64"
#define FUNCTION ": a function of shape and seed, TensorFlow's"
#define FUNCTION_KEYED ": a function of shape, key and counter, TensorFlow's"
  { .type = "StatelessRandomUniform", STATELESS(ref_stateless_uniform), .doc = "uniform numbers in [0, 1)" FUNCTION },
  { .type = "StatelessRandomNormal", STATELESS(ref_stateless_normal), .doc = "normal numbers" FUNCTION },
  { .type = "StatelessTruncatedNormal", STATELESS(ref_stateless_truncated_normal),
    .doc = "normal numbers within two deviations" FUNCTION },
  { .type = "StatelessRandomUniformV2", STATELESS_KEYED(ref_stateless_uniform),
    .doc = "uniform numbers in [0, 1)" FUNCTION_KEYED },
  { .type = "StatelessRandomNormalV2", STATELESS_KEYED(ref_stateless_normal), .doc = "normal numbers" FUNCTION_KEYED },
  { .type = "StatelessTruncatedNormalV2", STATELESS_KEYED(ref_stateless_truncated_normal),
    .doc = "normal numbers within two deviations" FUNCTION_KEYED },
  { .type = "StatelessRandomUniformInt",
    DRAWN("shape:S seed:Tseed minval:dtype maxval:dtype", WHOLE " Tseed=int32|int64", "", ref_stateless_int),
    .doc = "uniform integers from minval up to, not including, maxval" FUNCTION },
  { .type = "StatelessRandomUniformIntV2",
    DRAWN("shape:S" KEYED " minval:dtype maxval:dtype", WHOLE, "", ref_stateless_int),
    .doc = "uniform integers from minval up to, not including, maxval" FUNCTION_KEYED },
  { .type = "StatelessRandomUniformFullInt",
    DRAWN("shape:S seed:Tseed", WHOLE " Tseed=int32|int64", "dtype:dtype=uint64", ref_stateless_full_int),
    .doc = "integers of random bits" FUNCTION },
  { .type = "StatelessRandomUniformFullIntV2",
    DRAWN("shape:S" KEYED, WHOLE, "dtype:dtype=uint64", ref_stateless_full_int),
    .doc = "integers of random bits" FUNCTION_KEYED },
  { .type = "StatelessRandomGammaV2",
    DRAWN("shape:S seed:Tseed alpha:dtype", "dtype=float S=int32|int64 Tseed=int32|int64", "", ref_stateless_gamma),
    .doc = "gamma numbers of shape alpha and rate 1" FUNCTION },
  { .type = "StatelessRandomGammaV3",
    DRAWN("shape:S" KEYED " alpha:dtype", "dtype=float S=int32|int64", "", ref_stateless_gamma),
    .doc = "gamma numbers of shape alpha and rate 1" FUNCTION_KEYED },
#define COUNTED "=float16|float32|float64|int32|int64"
  { .type = "StatelessRandomPoisson",
    DRAWN("shape:S seed:Tseed lam:Rtype", "dtype" COUNTED " Rtype" COUNTED " S=int32|int64 Tseed=int32|int64",
          "dtype:dtype", ref_stateless_poisson),
    .doc = "Poisson numbers of rate lam" FUNCTION },
  { .type = "StatelessRandomBinomial",
    DRAWN("shape:S seed:Tseed counts:T probs:T", "dtype" COUNTED " T" COUNTED " S=int32|int64 Tseed=int32|int64",
          "dtype:dtype=int64", ref_stateless_binomial),
    .doc = "how often of counts times something of probability probs happens" FUNCTION },
  { .type = "StatelessMultinomial", .in = "logits:T num_samples:int32 seed:Tseed", .out = "output:output_dtype",
    .types = "T=number Tseed=int32|int64 output_dtype=int32|int64", .attrs = "output_dtype:dtype=int64",
    .doc = "classes drawn with probabilities softmax(logits T[batch, classes]): a function of these and the seed, "
    "TensorFlow's",
    .no_grad = true, .shape = shape_stateless_multinomial, .kernel = { [DF_REF] = ref_stateless_multinomial } },
  { .type = "StatelessRandomGetKeyCounter", .hosted = true, .in = "seed:Tseed",
    .out = "key:uint64 counter:uint64", .types = "Tseed=int32|int64",
    .doc = "uint64[1] and uint64[2]: what a generator begins with that has this seed",
    .no_grad = true, .shape = shape_key_counter, .kernel = { [DF_REF] = ref_stateless_key_counter } },
  { .type = "RandomIndexShuffle", .in = "index:dtype seed:Tseed max_index:dtype", .out = "output:dtype",
    .types = "dtype=int32|uint32|int64|uint64 Tseed=int32|uint32|int64|uint64", .attrs = "rounds:int[1..]=4",
    .doc = "where each index comes to lie when all from 0 to max_index are shuffled: a function of these and the "
    "seed[3], TensorFlow's",
    .no_grad = true, .shape = shape_index_shuffle, .kernel = { [DF_REF] = ref_index_shuffle } },
  { .type = "StatelessRandomGetAlg", .hosted = true, .in = "", .out = "alg:int32", .doc = "1: Philox", .no_grad = true,
    .shape = dfi_shape_all_scalar, .kernel = { [DF_REF] = ref_stateless_algorithm } },
};
const dfi_op_table dfi_ops_random = { ops, (int32_t)(sizeof ops / sizeof *ops) };
