/* lstm.c: the fused recurrent cells on gemm.h. */
#include "../lstm.h"
#include "gemm.h"

static int32_t product(df_kernel *k, int64_t m, int64_t n, int64_t inner, bool a_t, bool b_t, const float *a,
                       const float *b, float *c) {
  gemm g = { m, n, inner, a_t, b_t, a_t ? m : inner, b_t ? inner : n, n };
  return dfk_gemm_f32(k, &g, a, b, c);
}

int32_t cpu_lstm_cell(df_kernel *k)          { return dfk_lstm_cell(k, product); }
int32_t cpu_block_lstm(df_kernel *k)         { return dfk_block_lstm(k, product, false); }
int32_t cpu_block_lstm_v2(df_kernel *k)      { return dfk_block_lstm(k, product, true); }
int32_t cpu_block_lstm_grad(df_kernel *k)    { return dfk_block_lstm_grad(k, product, false); }
int32_t cpu_block_lstm_grad_v2(df_kernel *k) { return dfk_block_lstm_grad(k, product, true); }
int32_t cpu_gru_cell(df_kernel *k)           { return dfk_gru_cell(k, product); }
int32_t cpu_gru_cell_grad(df_kernel *k)      { return dfk_gru_cell_grad(k, product); }
