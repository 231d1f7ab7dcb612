/* candidate.c: TensorFlow's candidate samplers, which its sampled losses draw negative examples by. Here such losses
 * are made of other ops (df.sampled_softmax_loss); these are for imported graphs. */
#include "graph/build.h"
#include "op/op.h"
#include "op/run.h"
#include "resource/resource.h"
#include "kernels/random.h"

enum { NUM_TRUE, NUM_SAMPLED, UNIQUE, RANGE_MAX, SEED };

static int32_t shape_candidates(dfi_infer *c) {
  const df_attr *a = c->node->attrs;
  const dfi_shape *given = dfi_in_shape(c, 0);
  if (given->rank >= 0 && given->rank != 2)
    return dfi_infer_fail(c, "true_classes has rank %d: expected 2", given->rank);
  *dfi_set_shape(c, 0) = *dfi_set_shape(c, 2) = dfi_shape_of(1, &a[NUM_SAMPLED].i);
  *dfi_set_shape(c, 1) = dfi_shape_of(2, (int64_t[]){ given->rank < 0 ? -1 : given->dims[0], a[NUM_TRUE].i });
  return DF_OK;
}

static int32_t shape_hits(dfi_infer *c) {
  const int64_t any = -1;
  for (int32_t i = 0; i < 3; i++) *dfi_set_shape(c, i) = dfi_shape_of(1, &any);
  return DF_OK;
}

/* ---- classes by how often they were true ------------------------------------------------------------------------- */

/* What a sampler that learns has seen; the session has one for each node. */
typedef struct seen {
  dfi_handle      base;
  pthread_mutex_t lock;      /* guards the weights */
  df_tensor      *weights;   /* owned; float64[classes]: 1, and 1 more for each time that the class was true */
} seen;

static double *weights_of(const seen *s) { return s->weights->data; }

static void destroy(dfi_handle *h) {
  seen *s = (seen *)h;
  df_tensor_release(s->weights);
  pthread_mutex_destroy(&s->lock);
  dfi_free(s);
}

static dfi_handle *make(void *user, df_error *err) {
  const int64_t *classes = user;
  df_tensor *weights = dfi_tensor_make(DF_FLOAT64, 1, classes);
  if (!weights) {
    dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "out of memory for the weights of %lld classes", (long long)*classes);
    return NULL;
  }
  seen *s = dfi_xcalloc(1, sizeof *s);
  s->base = (dfi_handle){ .refs = 1, .type = DFI_SAMPLER, .destroy = destroy };
  s->weights = weights;
  pthread_mutex_init(&s->lock, NULL);
  for (int64_t i = 0; i < *classes; i++) weights_of(s)[i] = 1;
  return &s->base;
}

static bool are_classes(df_kernel *k, int64_t range) {
  const int64_t *given = k->in[0]->data;
  for (int64_t i = 0; i < k->in[0]->size; i++) {
    if (given[i] >= 0 && given[i] < range) continue;
    dfk_fail(k, DF_INVALID_ARGUMENT, "true class %lld is not among those from 0 to %lld", (long long)given[i],
             (long long)range - 1);
    return false;
  }
  return true;
}

/* Draws by what was true in earlier calls, then notes what is true in this one. */
static int32_t kernel_learned(df_kernel *k) {
  int64_t range = dfk_int(k, RANGE_MAX);
  if (range < 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "range_max is %lld: expected a positive number", (long long)range);
  if (!are_classes(k, range)) return k->error->code;
  seen *s = dfi_resource_get(k->run, DFI_SAMPLER, "", "", make, &range, k->error);
  double *sum = s ? dfk_scratch(k, range * 8) : NULL;
  if (!sum) return k->error->code;
  pthread_mutex_lock(&s->lock);
  double all = 0;
  for (int64_t i = 0; i < range; i++) sum[i] = all += weights_of(s)[i];
  pthread_mutex_unlock(&s->lock);
  const int32_t code = ref_weighted_candidates(k, sum);
  dfk_free(sum);
  if (code) return code;
  pthread_mutex_lock(&s->lock);
  for (int64_t i = 0; i < k->in[0]->size; i++) weights_of(s)[((const int64_t *)k->in[0]->data)[i]]++;
  pthread_mutex_unlock(&s->lock);
  return DF_OK;
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

#define LEARNED(TYPE) \
  { .type = TYPE, .work = dfi_work_curve, SAMPLER, \
    .attrs = "num_true:int[1..] num_sampled:int[1..] unique:bool range_max:int[1..] seed:int=-1", \
    .doc = "the same with probabilities that are learned: in proportion to one more than how often the class was a " \
           "true one of the session's earlier runs", \
    .kernel = { [DF_REF] = kernel_learned } }
#define SAMPLER .traits = DFO_RANDOM, .in = "true_classes:int64", \
  .out = "sampled_candidates:int64 true_expected_count:float32 sampled_expected_count:float32", \
  .stateful = true, .no_grad = true, .shape = shape_candidates

static const df_op ops[] = {
  { .type = "UniformCandidateSampler", SAMPLER,
    .attrs = "num_true:int[1..] num_sampled:int[1..] unique:bool range_max:int[1..] seed:int=-1",
    .doc = "num_sampled of the classes 0 to range_max - 1, each as likely, and how often each class is expected",
    .kernel = { [DF_REF] = ref_uniform_candidates } },
  { .type = "LogUniformCandidateSampler", .work = dfi_work_curve, SAMPLER,
    .attrs = "num_true:int[1..] num_sampled:int[1..] unique:bool range_max:int[1..] seed:int=-1",
    .doc = "the same with probabilities log((class + 2) / (class + 1)) / log(range_max + 1)",
    .kernel = { [DF_REF] = ref_log_uniform_candidates } },
  { .type = "FixedUnigramCandidateSampler", .work = dfi_work_curve, SAMPLER,
    .attrs = "num_true:int[1..] num_sampled:int[1..] unique:bool range_max:int[1..] seed:int=-1 vocab_file:string='' "
    "distortion:float=1 num_reserved_ids:int[0..]=0 num_shards:int[1..]=1 shard:int[0..]=0 unigrams:tensor=none",
    .doc = "the same with probabilities in proportion to the weights of the list unigrams, to the power of the "
    "distortion",
    .kernel = { [DF_REF] = ref_unigram_candidates } },
  LEARNED("LearnedUnigramCandidateSampler"),
  LEARNED("ThreadUnsafeUnigramCandidateSampler"),
  { .type = "AllCandidateSampler", SAMPLER, .attrs = "num_true:int[1..] num_sampled:int[1..] unique:bool",
    .doc = "all of the classes 0 to num_sampled - 1", .kernel = { [DF_REF] = ref_all_candidates } },
  { .type = "ComputeAccidentalHits", .in = "true_classes:int64 sampled_candidates:int64",
    .out = "indices:int32 ids:int64 weights:float32", .attrs = "num_true:int[1..]", .no_grad = true,
    .shape = shape_hits,
    .doc = "where a sampled class is one of a row's true ones: the row, the place among the samples, and the least "
    "float32",
    .kernel = { [DF_REF] = ref_accidental_hits } },
};
const dfi_op_table dfi_ops_candidate = { ops, sizeof ops / sizeof *ops };
