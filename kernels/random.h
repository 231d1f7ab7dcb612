/* random.h: random numbers, and their kernels.
 *
 * Philox4x32-10: block b of a stream is philox(counter, key), four 32-bit words.
 *   key      a mix of the graph's seed and the op's
 *   counter  words 0 and 1: the block's number b (48 bits) and, above it, an attempt (16 bits); words 2 and 3: dfk_tag,
 *            which differs between runs, frames and iterations
 * Element e of an output takes words of a block that follows from e alone, so the numbers depend neither on threads
 * nor on the engine or device. From words to numbers there are only exact conversions, correctly rounded operations
 * and explicit fma (or, in float64, libm), so ref and cpu agree to the bit.
 */
#ifndef DFLOW_RANDOM_H
#define DFLOW_RANDOM_H
#include "kernel.h"
#include "philox.h"

static inline uint64_t dfk_mix(uint64_t x) {            /* splitmix64's finaliser */
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}
/* The stream of this call of an op with this seed. */
static inline dfk_stream dfk_stream_of(const df_kernel *k, int64_t seed) {
  uint64_t key = dfk_mix(dfk_mix((uint64_t)dfk_graph_seed(k) + 0x9e3779b97f4a7c15u) ^ (uint64_t)seed), tag = dfk_tag(k);
  return (dfk_stream){ { (uint32_t)key, (uint32_t)(key >> 32) }, { (uint32_t)tag, (uint32_t)(tag >> 32) } };
}

/* Elements of a block: four, or two in float64. */
static inline int64_t dfk_per_block(int32_t dtype) { return dtype == DF_FLOAT64 ? 2 : 4; }

int32_t ref_random_uniform(df_kernel *k), cpu_random_uniform(df_kernel *k);
int32_t ref_random_normal(df_kernel *k), cpu_random_normal(df_kernel *k);
int32_t ref_truncated_normal(df_kernel *k), cpu_truncated_normal(df_kernel *k);
int32_t ref_random_uniform_int(df_kernel *k), cpu_random_uniform_int(df_kernel *k);
int32_t ref_random_shuffle(df_kernel *k);
int32_t ref_multinomial(df_kernel *k);
/* ref/candidate.c: (true_classes int64[batch, num_true]; num_true, num_sampled, unique, range_max, seed)
   -> sampled int64[num_sampled], expected counts float32[batch, num_true] and float32[num_sampled] */
int32_t ref_uniform_candidates(df_kernel *k), ref_log_uniform_candidates(df_kernel *k);
int32_t ref_all_candidates(df_kernel *k);
/* With vocab_file, distortion, num_reserved_ids, num_shards, shard and unigrams float32[n] besides. */
int32_t ref_unigram_candidates(df_kernel *k);
/* The same by weights that the caller keeps: sum[c] is that of the weights of classes 0 to c, all above 0. */
int32_t ref_weighted_candidates(df_kernel *k, const double *sum);
/* (true_classes, sampled_candidates; num_true) -> indices int32[n], ids int64[n], weights float32[n] */
int32_t ref_accidental_hits(df_kernel *k);
/* The dims that input 0 (a shape) asks for; false: error is filled. */
bool dfk_random_dims(df_kernel *k, int32_t *rank, int64_t dims[DF_MAX_RANK]);
/* The same of ParameterizedTruncatedNormal, whose four parameters fit them. */
bool dfk_truncated_dims(df_kernel *k, int32_t *rank, int64_t dims[DF_MAX_RANK]);

/* (shape, seed[2]; dtype): a function of these alone, with TensorFlow's values. ref/stateless.c. */
int32_t ref_stateless_uniform(df_kernel *k), ref_stateless_normal(df_kernel *k),
    ref_stateless_truncated_normal(df_kernel *k), ref_stateless_int(df_kernel *k), ref_stateless_full_int(df_kernel *k),
    ref_stateless_key_counter(df_kernel *k), ref_stateless_algorithm(df_kernel *k);
/* The same, drawn until they fit. ref/stateless_draws.c. */
int32_t ref_stateless_gamma(df_kernel *k), ref_stateless_poisson(df_kernel *k), ref_stateless_binomial(df_kernel *k),
    ref_stateless_multinomial(df_kernel *k);
/* (shape, alpha or rate; seed) -> numbers of this shape for each parameter, which the last dimensions count */
int32_t ref_random_gamma(df_kernel *k), ref_random_poisson(df_kernel *k);
/* (shape, means, stdevs, minvals, maxvals; seed): rows of normal numbers between two bounds. ref/truncated.c */
int32_t ref_parameterized_truncated_normal(df_kernel *k);
int32_t ref_index_shuffle(df_kernel *k);       /* (index, seed[3], max_index; rounds): ref/index_shuffle.c */
#endif
