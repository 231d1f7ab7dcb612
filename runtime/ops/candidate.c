/* candidate.c: TensorFlow's candidate samplers, which its sampled losses draw negative examples by. Here such losses
 * are made of other ops (df.sampled_softmax_loss); these are for imported graphs. */
#include "graph/build.h"
#include "op/op.h"
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

#define SAMPLER .traits = DFO_RANDOM, .in = "true_classes:int64", \
  .out = "sampled_candidates:int64 true_expected_count:float32 sampled_expected_count:float32", \
  .stateful = true, .no_grad = true, .shape = shape_candidates

static const df_op ops[] = {
  { .type = "UniformCandidateSampler", SAMPLER,
    .attrs = "num_true:int num_sampled:int unique:bool range_max:int seed:int=-1",
    .doc = "num_sampled of the classes 0 to range_max - 1, each as likely, and how often each class is expected",
    .kernel = { [DF_REF] = ref_uniform_candidates } },
  { .type = "LogUniformCandidateSampler", .work = dfi_work_curve, SAMPLER,
    .attrs = "num_true:int num_sampled:int unique:bool range_max:int seed:int=-1",
    .doc = "the same with probabilities log((class + 2) / (class + 1)) / log(range_max + 1)",
    .kernel = { [DF_REF] = ref_log_uniform_candidates } },
  { .type = "FixedUnigramCandidateSampler", .work = dfi_work_curve, SAMPLER,
    .attrs = "num_true:int num_sampled:int unique:bool range_max:int seed:int=-1 vocab_file:string='' "
    "distortion:float=1 num_reserved_ids:int=0 num_shards:int=1 shard:int=0 unigrams:tensor=none",
    .doc = "the same with probabilities in proportion to the weights of the list unigrams, to the power of the "
    "distortion",
    .kernel = { [DF_REF] = ref_unigram_candidates } },
  { .type = "AllCandidateSampler", SAMPLER, .attrs = "num_true:int num_sampled:int unique:bool",
    .doc = "all of the classes 0 to num_sampled - 1", .kernel = { [DF_REF] = ref_all_candidates } },
  { .type = "ComputeAccidentalHits", .in = "true_classes:int64 sampled_candidates:int64",
    .out = "indices:int32 ids:int64 weights:float32", .attrs = "num_true:int", .no_grad = true, .shape = shape_hits,
    .doc = "where a sampled class is one of a row's true ones: the row, the place among the samples, and the least "
    "float32",
    .kernel = { [DF_REF] = ref_accidental_hits } },
};
const dfi_op_table dfi_ops_candidate = { ops, sizeof ops / sizeof *ops };
