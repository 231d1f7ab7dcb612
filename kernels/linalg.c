/* linalg.c: what the reference and the CPU kernels of linalg.h check alike. */
#include "linalg.h"

bool dfk_two_matrices(df_kernel *k) {
  char a[160], b[160];
  if (k->in[0]->rank == 2 && k->in[1]->rank == 2) return true;
  dfk_fail(k, DF_INVALID_ARGUMENT, "matmul needs two matrices, got %s and %s",
           dfk_shape_text(k->in[0], a, sizeof a), dfk_shape_text(k->in[1], b, sizeof b));
  return false;
}

int32_t dfk_product_of(df_kernel *k, dfk_product *p) {
  const df_tensor *a = k->in[0], *b = k->in[1];
  char s[160], t[160];
  p->a_t = dfk_bool(k, 0);
  p->b_t = dfk_bool(k, 1);
  if (a->rank < 2 || b->rank < 2)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "a matrix product needs matrices, got %s and %s",
                    dfk_shape_text(a, s, sizeof s), dfk_shape_text(b, t, sizeof t));
  p->m = a->dims[a->rank - 2 + p->a_t];
  p->k = a->dims[a->rank - 1 - p->a_t];
  p->n = b->dims[b->rank - 1 - p->b_t];
  int64_t inner = b->dims[b->rank - 2 + p->b_t];
  if (inner != p->k)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the inner dimensions differ, %lld and %lld: a is %s%s, b is %s%s",
                    (long long)p->k, (long long)inner, dfk_shape_text(a, s, sizeof s), p->a_t ? " transposed" : "",
                    dfk_shape_text(b, t, sizeof t), p->b_t ? " transposed" : "");
  p->rank = a->rank > b->rank ? a->rank : b->rank;
  p->batch_rank = p->rank - 2;
  p->count = 1;
  int64_t at_a = p->m * p->k, at_b = p->k * p->n;
  for (int32_t i = p->batch_rank - 1; i >= 0; i--) {
    int32_t ia = i - (p->rank - a->rank), ib = i - (p->rank - b->rank);
    int64_t da = ia >= 0 ? a->dims[ia] : 1, db = ib >= 0 ? b->dims[ib] : 1;
    if (da != db && da != 1 && db != 1)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "the batch axes of %s and %s do not broadcast",
                      dfk_shape_text(a, s, sizeof s), dfk_shape_text(b, t, sizeof t));
    p->dims[i] = da == 1 ? db : da;
    p->step_a[i] = da == 1 ? 0 : at_a;
    p->step_b[i] = db == 1 ? 0 : at_b;
    at_a *= da;
    at_b *= db;
    p->count *= p->dims[i];
  }
  p->dims[p->rank - 2] = p->m;
  p->dims[p->rank - 1] = p->n;
  return DF_OK;
}

void dfk_product_at(const dfk_product *p, int64_t i, int64_t *a, int64_t *b) {
  *a = *b = 0;
  for (int32_t d = p->batch_rank - 1; d >= 0; d--) {
    *a += i % p->dims[d] * p->step_a[d];
    *b += i % p->dims[d] * p->step_b[d];
    i /= p->dims[d];
  }
}

int32_t dfk_einsum_of(df_kernel *k, dfk_einsum *e, int64_t *sizes) {
  int32_t ranks[DFK_EINSUM_INPUTS];
  char why[256];
  bool unknown;
  for (int32_t i = 0; i < k->nin && i < DFK_EINSUM_INPUTS; i++) ranks[i] = k->in[i]->rank;
  if (!dfk_einsum_parse(dfk_string(k, 0), k->nin, ranks, e, &unknown, why, sizeof why))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%s", why);
  for (int32_t l = 0; l < e->nlabels; l++) sizes[l] = -1;
  for (int32_t i = 0; i < e->n; i++)
    for (int32_t a = 0; a < e->rank[i]; a++) {
      int32_t l = e->label[i][a];
      int64_t d = k->in[i]->dims[a];
      if (sizes[l] < 0 || (sizes[l] == 1 && e->broadcasts[l])) sizes[l] = d;
      else if (sizes[l] != d && !(d == 1 && e->broadcasts[l]))
        return dfk_fail(k, DF_INVALID_ARGUMENT,
                        "einsum equation '%s': label '%c' is %lld in operand %d and %lld before", dfk_string(k, 0),
                        e->name[l], (long long)d, i, (long long)sizes[l]);
    }
  return DF_OK;
}
