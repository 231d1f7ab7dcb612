/* attention.c: what all kernels of attention ask of their inputs. */
#include "attention.h"
#include <math.h>
#include <string.h>

static int32_t misfit(df_kernel *k, const char *what, const df_tensor *a, const char *other, const df_tensor *b,
                      const char *expected) {
  char s[160], t[160];
  return dfk_fail(k, DF_INVALID_ARGUMENT, "the %s is %s, the %s %s: %s", what, dfk_shape_text(a, s, sizeof s), other,
                  dfk_shape_text(b, t, sizeof t), expected);
}

static bool same_front(const df_tensor *a, const df_tensor *b, int32_t axes) {
  return a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)axes * sizeof *a->dims);
}

/* The mask's steps along the axes of the scores. */
static int32_t find_mask(df_kernel *k, dfk_attention *a, const df_tensor *mask) {
  int64_t want[DF_MAX_RANK], step[DF_MAX_RANK], each = 1;
  const int32_t rank = a->lead + 2;
  char s[160];
  memcpy(want, a->q->dims, sizeof want);
  want[rank - 1] = a->keys;
  for (int32_t d = rank - 1; d >= 0; d--) {
    const int32_t from = d - (rank - mask->rank);
    const int64_t n = from < 0 ? 1 : mask->dims[from];
    if (n != 1 && n != want[d])
      return dfk_fail(k, DF_INVALID_ARGUMENT, "the mask is %s, which does not fit %lld queries and %lld keys",
                      dfk_shape_text(mask, s, sizeof s), (long long)a->queries, (long long)a->keys);
    step[d] = n == 1 ? 0 : each;
    each *= n;
  }
  if (mask->rank > rank) return misfit(k, "mask", mask, "query", a->q, "the mask has at most as many axes");
  memcpy(a->lead_step, step, sizeof a->lead_step);
  a->row_step = step[rank - 2];
  a->key_step = step[rank - 1];
  a->mask = mask;
  return DF_OK;
}

int32_t dfk_attention_of(df_kernel *k, dfk_attention *a, int32_t first, int32_t mask) {
  const df_tensor *q = k->in[first], *key = k->in[first + 1], *v = k->in[first + 2];
  memset(a, 0, sizeof *a);
  a->q = q; a->k = key; a->v = v;
  if (q->rank < 2 || !same_front(q, key, q->rank - 2) || q->dims[q->rank - 1] != key->dims[q->rank - 1])
    return misfit(k, "query", q, "key", key, "[..., queries, depth] and [..., keys, depth] are expected");
  if (!same_front(key, v, q->rank - 1))
    return misfit(k, "key", key, "value", v, "[..., keys, depth] and [..., keys, width] are expected");
  a->lead = q->rank - 2;
  a->count = 1;
  for (int32_t d = 0; d < a->lead; d++) a->count *= a->lead_dims[d] = q->dims[d];
  a->queries = q->dims[a->lead];
  a->keys = key->dims[a->lead];
  a->depth = q->dims[a->lead + 1];
  a->width = v->dims[a->lead + 1];
  a->causal = k->attrs[DFK_ATTENTION_CAUSAL].i != 0;
  a->scale = k->attrs[DFK_ATTENTION_SCALE].f;
  if (a->scale == 0) a->scale = 1 / sqrt((double)(a->depth ? a->depth : 1));
  return k->nin > mask ? find_mask(k, a, k->in[mask]) : DF_OK;
}

int32_t dfk_attention_out(df_kernel *k, const dfk_attention *a, df_tensor **y, df_tensor **sums) {
  int64_t dims[DF_MAX_RANK];
  memcpy(dims, a->q->dims, sizeof dims);
  dims[a->lead + 1] = a->width;
  if (!(*y = dfk_out(k, 0, k->out_dtype[0], a->lead + 2, dims))) return k->error->code;
  return (*sums = dfk_out(k, 1, k->out_dtype[1], a->lead + 1, dims)) ? DF_OK : k->error->code;
}

int32_t dfk_attention_grad_of(df_kernel *k, dfk_attention *a) {
  int32_t code = dfk_attention_of(k, a, 1, 6);
  const df_tensor *dy = k->in[0];
  if (code) return code;
  if (!same_front(dy, a->q, a->lead + 1) || dy->dims[a->lead + 1] != a->width)
    return misfit(k, "gradient", dy, "query", a->q, "[..., queries, width] is expected");
  for (int32_t i = 4; i < 6; i++)
    if (k->in[i]->rank != a->lead + 1 || memcmp(k->in[i]->dims, a->q->dims, (size_t)(a->lead + 1) * sizeof(int64_t)))
      return misfit(k, i == 4 ? "log_sum_exp" : "delta", k->in[i], "query", a->q, "one number a query is expected");
  for (int32_t i = 0; i < 3; i++) if (!dfk_out_like(k, i, k->in[1 + i])) return k->error->code;
  return DF_OK;
}
