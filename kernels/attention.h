/* attention.h: scaled dot-product attention, without a matrix of all queries by all keys.
 *
 * scores = scale q k^T, plus a bias, where a mask allows it and, causal, j <= i; y = softmax(scores) v. Keys are taken
 * in blocks, so sums are in another order than those of the ops it could be written with: it runs where it is asked
 * for. A query without allowed keys gives 0. What has the weight 0 is not there, were it NaN: blocks of keys that no
 * query sees are left out, and which those are shall show in no number. log_sum_exp is that of each row of scores; +inf
 * where none is allowed, so that exp(score - log_sum_exp) is 0 there. What goes back is made of the scores again, and
 * of that.
 */
#ifndef DFLOW_ATTENTION_H
#define DFLOW_ATTENTION_H
#include "kernel.h"

enum { DFK_ATTENTION_CAUSAL, DFK_ATTENTION_SCALE };          /* attributes; scale 0: 1 / sqrt(depth) */

/* q [count, queries, depth], k [count, keys, depth], v [count, keys, width]; the mask, bools or what is added, has
 * steps of 0 along the axes that it is broadcast over. */
typedef struct dfk_attention {
  int64_t count, queries, keys, depth, width;
  double  scale;
  bool    causal;
  const df_tensor *q, *k, *v, *mask;                         /* mask NULL: there is none */
  int32_t lead;                                              /* axes before the last two */
  int64_t lead_dims[DF_MAX_RANK], lead_step[DF_MAX_RANK];    /* of the mask: elements */
  int64_t row_step, key_step;
} dfk_attention;

/* Where matrix number b of the mask begins, in elements. */
static inline int64_t dfk_attention_mask_at(const dfk_attention *a, int64_t b) {
  int64_t at = 0;
  for (int32_t d = a->lead - 1; d >= 0; d--) {
    at += b % a->lead_dims[d] * a->lead_step[d];
    b /= a->lead_dims[d];
  }
  return at;
}
/* Keys that a query of rows up to `end` may see, but for the mask. */
static inline int64_t dfk_attention_seen(const dfk_attention *a, int64_t end) {
  return a->causal && end < a->keys ? end : a->keys;
}

/* What query, key and value, inputs `first` and on, and a mask, input `mask` if there is one, say. DF_OK, or the error
 * is filled. */
int32_t dfk_attention_of(df_kernel *k, dfk_attention *a, int32_t first, int32_t mask);

/* (query, key, value[, mask]; causal, scale) -> output, log_sum_exp */
int32_t ref_attention(df_kernel *k), cpu_attention(df_kernel *k);
/* (dy, query, key, value, log_sum_exp, delta[, mask]; the same) -> of query, key, value. delta: what is taken off
 * dy v^T in each row: the sum of dy y, less the gradient of log_sum_exp. */
int32_t ref_attention_grad(df_kernel *k), cpu_attention_grad(df_kernel *k);
/* How each begins. The outputs of the first: y and the sums; the inputs of the other, checked, and its outputs made.
 * DF_OK, or a code. */
int32_t dfk_attention_out(df_kernel *k, const dfk_attention *a, df_tensor **y, df_tensor **sums);
int32_t dfk_attention_grad_of(df_kernel *k, dfk_attention *a);
#endif
