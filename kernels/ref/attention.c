/* attention.c: the reference for attention: row by row, all keys at once, in double. */
#include "../attention.h"
#include "element.h"
#include <math.h>

/* scores[keys] of row i of matrix b. */
static void scores_of(const dfk_attention *a, int64_t b, int64_t i, double *scores) {
  const int64_t row = b * a->queries + i, mask = a->mask ? dfk_attention_mask_at(a, b) + i * a->row_step : 0;
  for (int64_t j = 0; j < a->keys; j++) {
    double s = 0;
    for (int64_t d = 0; d < a->depth; d++)
      s += ref_get(a->q, row * a->depth + d) * ref_get(a->k, (b * a->keys + j) * a->depth + d);
    s *= a->scale;
    if (a->mask && a->mask->dtype == DF_BOOL) s = ref_get_int(a->mask, mask + j * a->key_step) ? s : -INFINITY;
    else if (a->mask) s += ref_get(a->mask, mask + j * a->key_step);
    scores[j] = a->causal && j > i ? -INFINITY : s;
  }
}

int32_t ref_attention(df_kernel *k) {
  dfk_attention a;
  df_tensor *y, *sums;
  int32_t code = dfk_attention_of(k, &a, 0, 3);
  if (!code) code = dfk_attention_out(k, &a, &y, &sums);
  if (code) return code;
  double *p = dfk_scratch(k, (a.keys + 1) * (int64_t)sizeof *p);
  if (!p) return k->error->code;
  for (int64_t row = 0; row < a.count * a.queries; row++) {
    const int64_t b = row / a.queries;
    double top = -INFINITY, sum = 0;
    scores_of(&a, b, row % a.queries, p);
    for (int64_t j = 0; j < a.keys; j++) if (p[j] > top) top = p[j];
    if (top == -INFINITY) top = 0;
    for (int64_t j = 0; j < a.keys; j++) sum += p[j] = exp(p[j] - top);
    ref_put(sums, row, sum == 0 ? INFINITY : top + log(sum));
    for (int64_t e = 0; e < a.width; e++) {
      double v = 0;
      for (int64_t j = 0; j < a.keys; j++)
        if (p[j] != 0) v += p[j] * ref_get(a.v, (b * a.keys + j) * a.width + e);
      ref_put(y, row * a.width + e, sum == 0 ? 0 : v / sum);
    }
  }
  dfk_free(p);
  return DF_OK;
}

/* Adds what row i of matrix b gives; dk and dv are of that matrix, dq of that row, ds has room for the keys. */
static void row_back(const df_kernel *k, const dfk_attention *a, int64_t b, int64_t i, double *dq, double *dk,
                     double *dv, double *ds) {
  const int64_t row = b * a->queries + i;
  const double sum = ref_get(k->in[4], row), delta = ref_get(k->in[5], row);
  scores_of(a, b, i, ds);
  for (int64_t j = 0; j < a->keys; j++) {
    const double p = exp(ds[j] - sum);
    double dp = 0;
    ds[j] = 0;
    if (p == 0) continue;
    for (int64_t e = 0; e < a->width; e++) {
      const double dy = ref_get(k->in[0], row * a->width + e);
      dp += dy * ref_get(a->v, (b * a->keys + j) * a->width + e);
      dv[j * a->width + e] += p * dy;
    }
    ds[j] = p * (dp - delta) * a->scale;
    for (int64_t d = 0; d < a->depth; d++) {
      dq[d] += ds[j] * ref_get(a->k, (b * a->keys + j) * a->depth + d);
      dk[j * a->depth + d] += ds[j] * ref_get(a->q, row * a->depth + d);
    }
  }
}

int32_t ref_attention_grad(df_kernel *k) {
  dfk_attention a;
  const int32_t code = dfk_attention_grad_of(k, &a);
  if (code) return code;
  df_tensor *out[3];
  for (int32_t i = 0; i < 3; i++) out[i] = k->out[i].as.tensor;
  const int64_t n_k = a.keys * a.depth, n_v = a.keys * a.width, all = a.keys + a.depth + n_k + n_v;
  double *room = dfk_scratch(k, (all + 1) * (int64_t)sizeof *room);
  if (!room) return k->error->code;
  double *ds = room, *dq = ds + a.keys, *dk = dq + a.depth, *dv = dk + n_k;
  for (int64_t b = 0; b < a.count; b++) {
    for (int64_t i = 0; i < n_k + n_v; i++) dk[i] = 0;
    for (int64_t i = 0; i < a.queries; i++) {
      for (int64_t d = 0; d < a.depth; d++) dq[d] = 0;
      row_back(k, &a, b, i, dq, dk, dv, ds);
      for (int64_t d = 0; d < a.depth; d++) ref_put(out[0], (b * a.queries + i) * a.depth + d, dq[d]);
    }
    for (int64_t i = 0; i < n_k; i++) ref_put(out[1], b * n_k + i, dk[i]);
    for (int64_t i = 0; i < n_v; i++) ref_put(out[2], b * n_v + i, dv[i]);
  }
  dfk_free(room);
  return DF_OK;
}
