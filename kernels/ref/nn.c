/* nn.c: reference kernels of nn.h: plain loops in double. */
#include "../nn.h"
#include "element.h"
#include <math.h>

/* The greatest of a row and the logarithm of the sum of exp(x - greatest). */
static void row_stats(const df_tensor *x, int64_t at, int64_t n, double *top, double *log_sum) {
  double m = -INFINITY, s = 0;
  for (int64_t i = 0; i < n; i++) {
    double v = ref_get(x, at + i);
    m = v > m || isnan(v) ? v : m;
  }
  for (int64_t i = 0; i < n; i++) s += exp(ref_get(x, at + i) - m);
  *top = m;
  *log_sum = log(s);
}

static int32_t softmax(df_kernel *k, bool logarithm) {
  const df_tensor *x = k->in[0];
  if (x->rank < 1) return dfk_fail(k, DF_INVALID_ARGUMENT, "softmax needs at least one axis, got a scalar");
  df_tensor *y = dfk_out_like(k, 0, x);
  if (!y) return DF_RESOURCE_EXHAUSTED;
  int64_t n = x->dims[x->rank - 1];
  for (int64_t at = 0; at < x->size; at += n) {
    double top, log_sum;
    row_stats(x, at, n, &top, &log_sum);
    for (int64_t i = 0; i < n; i++) {
      double v = ref_get(x, at + i) - top - log_sum;
      ref_put(y, at + i, logarithm ? v : exp(v));
    }
  }
  return DF_OK;
}

int32_t ref_softmax(df_kernel *k)     { return softmax(k, false); }
int32_t ref_log_softmax(df_kernel *k) { return softmax(k, true); }

static int32_t xent(df_kernel *k, bool sparse) {
  dfk_xent e;
  int32_t code = dfk_xent_begin(k, sparse, &e);
  if (code) return dfk_xent_end(&e, code);
  const df_tensor *x = e.logits, *labels = e.labels;
  for (int64_t r = 0; r < e.rows; r++) {
    double top, log_sum, loss = 0;
    int64_t at = r * e.classes;
    row_stats(x, at, e.classes, &top, &log_sum);
    for (int64_t i = 0; i < e.classes; i++) {
      double v = ref_get(x, at + i) - top - log_sum;
      double label = sparse ? dfk_index(labels, r) == i : ref_get(labels, at + i);
      if (!sparse || label) loss -= label * v;
      ref_put(e.backprop, at + i, exp(v) - label);
    }
    ref_put(e.loss, r, loss);
  }
  return dfk_xent_end(&e, DF_OK);
}

int32_t ref_softmax_xent(df_kernel *k)        { return xent(k, false); }
int32_t ref_sparse_softmax_xent(df_kernel *k) { return xent(k, true); }

int32_t ref_bias_add(df_kernel *k) {
  const df_tensor *x = k->in[0], *bias = k->in[1];
  dfk_channels c;
  char a[160], b[160];
  int32_t code = dfk_channels_of(k, 0, &c);
  if (code) return code;
  if (bias->rank != 1 || bias->size != c.n)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "bias must have one element per channel: value is %s, bias %s",
                    dfk_shape_text(x, a, sizeof a), dfk_shape_text(bias, b, sizeof b));
  df_tensor *y = dfk_out_like(k, 0, x);
  if (!y) return DF_RESOURCE_EXHAUSTED;
  for (int64_t i = 0; i < x->size; i++) {
    int64_t at = i / c.inner % c.n;
    if (dfk_is_complex(x->dtype)) ref_put_complex(y, i, ref_get_complex(x, i) + ref_get_complex(bias, at));
    else if (ref_is_float(x->dtype)) ref_put(y, i, ref_get(x, i) + ref_get(bias, at));
    else ref_put_int(y, i, (int64_t)((uint64_t)ref_get_int(x, i) + (uint64_t)ref_get_int(bias, at)));
  }
  return DF_OK;
}

int32_t ref_bias_add_grad(df_kernel *k) {
  const df_tensor *x = k->in[0];
  dfk_channels c;
  int32_t code = dfk_channels_of(k, 0, &c);
  if (code) return code;
  df_tensor *y = dfk_out(k, 0, x->dtype, 1, &c.n);
  if (!y) return DF_RESOURCE_EXHAUSTED;
  for (int64_t j = 0; j < c.n; j++) {
    double sum = 0;
    double complex both = 0;
    uint64_t whole = 0;
    for (int64_t o = 0; o < c.outer; o++)
      for (int64_t i = 0; i < c.inner; i++) {
        int64_t at = (o * c.n + j) * c.inner + i;
        if (dfk_is_complex(x->dtype)) both += ref_get_complex(x, at);
        else if (ref_is_float(x->dtype)) sum += ref_get(x, at);
        else whole += (uint64_t)ref_get_int(x, at);
      }
    if (dfk_is_complex(x->dtype)) ref_put_complex(y, j, both);
    else if (ref_is_float(x->dtype)) ref_put(y, j, sum);
    else ref_put_int(y, j, (int64_t)whole);
  }
  return DF_OK;
}

int32_t ref_l2_loss(df_kernel *k) {
  const df_tensor *x = k->in[0];
  df_tensor *y = dfk_out(k, 0, x->dtype, 0, NULL);
  if (!y) return DF_RESOURCE_EXHAUSTED;
  double sum = 0;
  for (int64_t i = 0; i < x->size; i++) sum += ref_get(x, i) * ref_get(x, i);
  ref_put(y, 0, sum / 2);
  return DF_OK;
}

/* x / (bias + alpha * the sum of squares of the channels within the radius) ^ beta. */
int32_t ref_lrn(df_kernel *k) {
  const df_tensor *x = k->in[0];
  const int64_t radius = dfk_int(k, 0);
  df_tensor *y = dfk_lrn_begin(k);
  if (!y) return k->error->code;
  const int64_t depth = x->dims[3];
  for (int64_t e = 0; e < x->size; e++) {
    const int64_t c = e % depth, first = c > radius ? c - radius : 0;
    const int64_t last = radius < depth - 1 - c ? c + radius : depth - 1;
    double sum = 0;
    for (int64_t i = first; i <= last; i++) sum += ref_get(x, e - c + i) * ref_get(x, e - c + i);
    ref_put(y, e, ref_get(x, e) * pow(dfk_float(k, 1) + dfk_float(k, 2) * sum, -dfk_float(k, 3)));
  }
  return DF_OK;
}
