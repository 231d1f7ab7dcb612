/* lstm.c: the fused recurrent cells with an honest matrix product. */
#include "../lstm.h"

static int32_t product(df_kernel *k, int64_t m, int64_t n, int64_t inner, bool a_t, bool b_t, const float *a,
                       const float *b, float *c) {
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double sum = 0;
      for (int64_t p = 0; p < inner; p++)
        sum += (double)a[a_t ? p * m + i : i * inner + p] * b[b_t ? j * inner + p : p * n + j];
      c[i * n + j] = (float)sum;
    }
  return DF_OK;
}

int32_t ref_lstm_cell(df_kernel *k)          { return dfk_lstm_cell(k, product); }
int32_t ref_lstm_cell_grad(df_kernel *k)     { return dfk_lstm_cell_grad(k); }
int32_t ref_block_lstm(df_kernel *k)         { return dfk_block_lstm(k, product, false); }
int32_t ref_block_lstm_v2(df_kernel *k)      { return dfk_block_lstm(k, product, true); }
int32_t ref_block_lstm_grad(df_kernel *k)    { return dfk_block_lstm_grad(k, product, false); }
int32_t ref_block_lstm_grad_v2(df_kernel *k) { return dfk_block_lstm_grad(k, product, true); }
int32_t ref_gru_cell(df_kernel *k)           { return dfk_gru_cell(k, product); }
int32_t ref_gru_cell_grad(df_kernel *k)      { return dfk_gru_cell_grad(k, product); }
