/* batch_norm.c: reference batch normalisation: channel by channel, in double. */
#include "../nn.h"
#include <math.h>

static double at(const df_tensor *t, int64_t i) {
  return t->dtype == DF_FLOAT64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}
static void set(df_tensor *t, int64_t i, double v) {
  if (t->dtype == DF_FLOAT64) ((double *)t->data)[i] = v; else ((float *)t->data)[i] = (float)v;
}

/* Each element p of channel c. */
#define CHANNEL(b, c, p) \
  for (int64_t o_ = 0; o_ < (b).outer; o_++) \
    for (int64_t i_ = 0, p; i_ < (b).inner && (p = (o_ * (b).channels + (c)) * (b).inner + i_, true); i_++)

int32_t ref_batch_norm(df_kernel *k) {
  const df_tensor *x = k->in[0];
  dfk_norm b;
  int32_t code = dfk_norm_begin(k, &b);
  if (code) return code;
  if (b.out[5]) set(b.out[5], 0, 0);
  for (int64_t c = 0; c < b.channels; c++) {
    double mean = 0, variance = 0;
    if (b.training) CHANNEL(b, c, p) mean += at(x, p);
    if (b.training && b.n) mean /= (double)b.n;
    if (b.training) CHANNEL(b, c, p) variance += (at(x, p) - mean) * (at(x, p) - mean);
    double unbiased = b.n > 1 ? variance / (double)(b.n - 1) : variance;
    if (b.training && b.n) variance /= (double)b.n;
    if (!b.training) { mean = at(k->in[3], c); variance = unbiased = at(k->in[4], c); }
    const double by = at(k->in[1], c) / sqrt(variance + b.epsilon), shift = at(k->in[2], c) - mean * by;
    CHANNEL(b, c, p) set(b.out[0], p, at(x, p) * by + shift);
    set(b.out[1], c, b.moving ? (1 - b.factor) * at(k->in[3], c) + b.factor * mean : mean);
    set(b.out[2], c, b.moving ? (1 - b.factor) * at(k->in[4], c) + b.factor * unbiased : unbiased);
    set(b.out[3], c, mean);
    set(b.out[4], c, variance);
  }
  return DF_OK;
}

int32_t ref_batch_norm_grad(df_kernel *k) {
  const df_tensor *dy = k->in[0], *x = k->in[1], *scale = k->in[2];
  dfk_norm b;
  int32_t code = dfk_norm_grad_begin(k, &b);
  if (code) return code;
  for (int64_t c = 0; c < b.channels; c++) {
    const double mean = at(k->in[3], c), inverse = 1 / sqrt(at(k->in[4], c) + b.epsilon), n = (double)b.n;
    double sum = 0, dot = 0;
    CHANNEL(b, c, p) {
      sum += at(dy, p);
      dot += at(dy, p) * (at(x, p) - mean) * inverse;
    }
    CHANNEL(b, c, p) {
      const double centred = b.training ? at(dy, p) - sum / n - (at(x, p) - mean) * inverse * dot / n : at(dy, p);
      set(b.out[0], p, at(scale, c) * inverse * centred);
    }
    set(b.out[1], c, dot);
    set(b.out[2], c, sum);
  }
  return DF_OK;
}
