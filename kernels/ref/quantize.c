/* quantize.c: the reference product of quantised matrices: plain loops. */
#include "../quantize.h"

static int32_t at(const df_tensor *t, bool turned, int64_t i, int64_t j) {
  const int64_t place = turned ? j * t->dims[1] + i : i * t->dims[1] + j;
  return t->dtype == DF_QUINT8 ? ((const uint8_t *)t->data)[place] : ((const int8_t *)t->data)[place];
}

int32_t ref_quantized_matmul(df_kernel *k) {
  dfk_quantized p;
  df_tensor *y = dfk_quantized_begin(k, &p);
  if (!y) return k->error->code;
  for (int64_t i = 0; i < p.m; i++)
    for (int64_t j = 0; j < p.n; j++) {
      uint32_t sum = 0;
      for (int64_t l = 0; l < p.k; l++)
        sum += (uint32_t)(at(k->in[0], p.a_t, i, l) - p.zero_a) * (uint32_t)(at(k->in[1], p.b_t, l, j) - p.zero_b);
      ((uint32_t *)y->data)[i * p.n + j] = sum;
    }
  return DF_OK;
}
