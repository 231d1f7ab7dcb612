/* random.c: the random ops, one element at a time, on Random123's own Philox. */
#include "../half.h"
#include "../random.h"
#include <Random123/philox.h>

static void philox(const dfk_stream *s, uint64_t block, uint32_t attempt, uint32_t w[4]) {
  philox4x32_ctr_t c = { { (uint32_t)block, (uint32_t)(block >> 32) | attempt << 16, s->tag[0], s->tag[1] } };
  philox4x32_key_t key = { { s->key[0], s->key[1] } };
  philox4x32_ctr_t r = philox4x32_R(10, c, key);
  memcpy(w, r.v, sizeof r.v);
}

static df_tensor *out_of_shape(df_kernel *k) {
  int32_t rank;
  int64_t dims[DF_MAX_RANK];
  return dfk_random_dims(k, &rank, dims) ? dfk_out(k, 0, k->out_dtype[0], rank, dims) : NULL;
}

/* shape; dtype seed */
int32_t ref_random_uniform(df_kernel *k) {
  df_tensor *out = out_of_shape(k);
  if (!out) return k->error->code;
  dfk_stream s = dfk_stream_of(k, dfk_int(k, 1));
  int64_t per = dfk_per_block(out->dtype);
  for (int64_t i = 0; i < out->size; i++) {
    uint32_t w[4];
    philox(&s, (uint64_t)(i / per), 0, w);
    int64_t j = i % per;
    switch (out->dtype) {
      case DF_FLOAT32:  ((float *)out->data)[i] = dfk_unit_float(w[j]); break;
      case DF_FLOAT64:  ((double *)out->data)[i] = dfk_unit_double(w[2 * j], w[2 * j + 1]); break;
      case DF_FLOAT16:  ((uint16_t *)out->data)[i] = dfk_f16_from_float((float)(w[j] >> 21) * 0x1p-11f); break;
      case DF_BFLOAT16: ((uint16_t *)out->data)[i] = dfk_bf16_from_float((float)(w[j] >> 24) * 0x1p-8f); break;
    }
  }
  return DF_OK;
}

static void put(df_tensor *out, int64_t i, double v) {
  switch (out->dtype) {
    case DF_FLOAT32:  ((float *)out->data)[i] = (float)v; break;
    case DF_FLOAT64:  ((double *)out->data)[i] = v; break;
    case DF_FLOAT16:  ((uint16_t *)out->data)[i] = dfk_f16_from_float((float)v); break;
    case DF_BFLOAT16: ((uint16_t *)out->data)[i] = dfk_bf16_from_float((float)v); break;
  }
}

/* The normal numbers of a block: four, or two in float64. */
static void normals(const dfk_stream *s, int32_t dtype, uint64_t block, uint32_t attempt, double z[4]) {
  uint32_t w[4];
  philox(s, block, attempt, w);
  if (dtype == DF_FLOAT64) {
    dfk_normal_pair_double(w, &z[0], &z[1]);
    return;
  }
  for (int i = 0; i < 4; i += 2) {
    float x, y;
    dfk_normal_pair(w[i], w[i + 1], &x, &y);
    z[i] = x, z[i + 1] = y;
  }
}

/* shape; dtype seed */
int32_t ref_random_normal(df_kernel *k) {
  df_tensor *out = out_of_shape(k);
  if (!out) return k->error->code;
  dfk_stream s = dfk_stream_of(k, dfk_int(k, 1));
  int64_t per = dfk_per_block(out->dtype);
  for (int64_t i = 0; i < out->size; i++) {
    double z[4];
    normals(&s, out->dtype, (uint64_t)(i / per), 0, z);
    put(out, i, z[i % per]);
  }
  return DF_OK;
}

/* shape; dtype seed. Element i takes the number of its own place where that is within two deviations; else the first
 * that is in block i of attempt 1, then of attempt 2, and so on. */
int32_t ref_truncated_normal(df_kernel *k) {
  df_tensor *out = out_of_shape(k);
  if (!out) return k->error->code;
  dfk_stream s = dfk_stream_of(k, dfk_int(k, 1));
  int64_t per = dfk_per_block(out->dtype);
  for (int64_t i = 0; i < out->size; i++) {
    double z[4];
    normals(&s, out->dtype, (uint64_t)(i / per), 0, z);
    double v = z[i % per];
    for (uint32_t attempt = 1; fabs(v) >= 2; attempt++) {
      normals(&s, out->dtype, (uint64_t)i, attempt, z);
      for (int64_t j = 0; j < per && fabs(v) >= 2; j++) v = z[j];
    }
    put(out, i, v);
  }
  return DF_OK;
}

/* shape minval maxval; seed */
int32_t ref_random_uniform_int(df_kernel *k) {
  df_tensor *out = out_of_shape(k);
  if (!out) return k->error->code;
  if (k->in[1]->rank != 0 || k->in[2]->rank != 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "minval and maxval must be scalars");
  int64_t low = dfk_index(k->in[1], 0), high = dfk_index(k->in[2], 0);
  if (out->size == 0) return DF_OK;
  if (low >= high)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "minval is %lld but must be less than maxval, %lld", (long long)low,
                    (long long)high);
  dfk_stream s = dfk_stream_of(k, dfk_int(k, 0));
  for (int64_t i = 0; i < out->size; i++) {
    uint32_t w[4];
    philox(&s, (uint64_t)(i / 2), 0, w);
    uint64_t v = (uint64_t)low + dfk_below(w[2 * (i % 2)], w[2 * (i % 2) + 1], (uint64_t)high - (uint64_t)low);
    if (out->dtype == DF_INT32) ((int32_t *)out->data)[i] = (int32_t)v;
    else ((int64_t *)out->data)[i] = (int64_t)v;
  }
  return DF_OK;
}

/* value; seed. Rows along axis 0 in an order drawn by Fisher and Yates: step i swaps row i with one of rows 0 to i. */
int32_t ref_random_shuffle(df_kernel *k) {
  const df_tensor *in = k->in[0];
  if (in->rank == 0 || in->dims[0] < 2 || in->size == 0) return dfk_out_forward(k, 0, 0, in->rank, NULL);
  int64_t n = in->dims[0], row = in->size / n;
  int64_t *from = dfk_scratch(k, n * (int64_t)sizeof *from);
  if (!from) return k->error->code;
  dfk_stream s = dfk_stream_of(k, dfk_int(k, 0));
  uint32_t w[4];
  for (int64_t i = 0; i < n; i++) {
    if (i % 2 == 0) dfk_philox(&s, (uint64_t)(i / 2), 0, w);
    int64_t j = (int64_t)dfk_below(w[2 * (i % 2)], w[2 * (i % 2) + 1], (uint64_t)i + 1);
    from[i] = from[j];
    from[j] = i;
  }
  df_tensor *out = dfk_out_like(k, 0, in);
  bool ok = out != NULL;
  if (ok && in->dtype == DF_STRING) {
    const df_str *strings = in->data;
    for (int64_t i = 0; i < n && ok; i++)
      for (int64_t j = 0; j < row && ok; j++)
        ok = dfk_set_string(k, out, i * row + j, strings[from[i] * row + j].bytes, strings[from[i] * row + j].length);
  } else if (ok) {
    int64_t bytes = row * df_dtype_bytes(in->dtype);
    for (int64_t i = 0; i < n; i++)
      memcpy((char *)out->data + i * bytes, (const char *)in->data + from[i] * bytes, (size_t)bytes);
  }
  dfk_free(from);
  return ok ? DF_OK : k->error->code;
}

static double logit(const df_tensor *t, int64_t i) {
  switch (t->dtype) {
    case DF_FLOAT32:  return ((const float *)t->data)[i];
    case DF_FLOAT64:  return ((const double *)t->data)[i];
    case DF_FLOAT16:  return dfk_f16_to_float(((const uint16_t *)t->data)[i]);
    default:          return dfk_bf16_to_float(((const uint16_t *)t->data)[i]);
  }
}

/* logits[batch, classes] num_samples; seed -> int64[batch, num_samples]. A sample is the first class whose part of the
 * sum of exp(logit - max) reaches beyond a uniform number's part of the whole. */
int32_t ref_multinomial(df_kernel *k) {
  const df_tensor *in = k->in[0];
  char text[160];
  if (in->rank != 2 || k->in[1]->rank != 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "logits is %s but must be a matrix [batch, classes], num_samples a scalar",
                    dfk_shape_text(in, text, sizeof text));
  int64_t batch = in->dims[0], classes = in->dims[1], samples = dfk_index(k->in[1], 0);
  if (samples < 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "num_samples is %lld but must not be negative", (long long)samples);
  if (classes == 0 && batch * samples > 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "logits is %s: there is no class to draw",
                    dfk_shape_text(in, text, sizeof text));
  df_tensor *out = dfk_out(k, 0, k->out_dtype[0], 2, (int64_t[]){ batch, samples });
  double *sum = dfk_scratch(k, (classes + 1) * (int64_t)sizeof *sum);
  int32_t code = out && sum ? DF_OK : k->error->code;
  dfk_stream s = dfk_stream_of(k, dfk_int(k, 0));
  for (int64_t b = 0; b < batch && !code && samples > 0; b++) {
    double top = -INFINITY, all = 0;
    for (int64_t c = 0; c < classes; c++) {
      double v = logit(in, b * classes + c);
      top = v > top ? v : top;
      if (isnan(v) || v == INFINITY)
        code = dfk_fail(k, DF_INVALID_ARGUMENT, "logits[%lld, %lld] is %s: no probability", (long long)b, (long long)c,
                        isnan(v) ? "NaN" : "inf");
    }
    if (!code && top == -INFINITY)
      code =
          dfk_fail(k, DF_INVALID_ARGUMENT, "every logit of row %lld is -inf: there is no class to draw", (long long)b);
    if (code) break;
    for (int64_t c = 0; c < classes; c++) sum[c] = all += exp(logit(in, b * classes + c) - top);
    for (int64_t i = 0; i < samples; i++) {
      int64_t e = b * samples + i, lo = 0, hi = classes - 1;
      uint32_t w[4];
      philox(&s, (uint64_t)(e / 2), 0, w);
      double u = dfk_unit_double(w[2 * (e % 2)], w[2 * (e % 2) + 1]) * all;
      while (lo < hi) {
        int64_t mid = (lo + hi) / 2;
        if (sum[mid] > u) hi = mid; else lo = mid + 1;
      }
      if (out->dtype == DF_INT32) ((int32_t *)out->data)[e] = (int32_t)lo;
      else ((int64_t *)out->data)[e] = lo;
    }
  }
  dfk_free(sum);
  return code;
}
