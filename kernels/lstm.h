/* lstm.h: TensorFlow's fused recurrent cells. What they compute stands in runtime/ops/lstm.c.
 *
 * The two versions differ in their matrix product only: the reference's is three loops.
 */
#ifndef DFLOW_LSTM_H
#define DFLOW_LSTM_H
#include "kernel.h"

int32_t ref_lstm_cell(df_kernel *k);
int32_t cpu_lstm_cell(df_kernel *k);
int32_t ref_lstm_cell_grad(df_kernel *k);
int32_t ref_block_lstm(df_kernel *k);            /* gates in the order i, ci, f, o */
int32_t cpu_block_lstm(df_kernel *k);
int32_t ref_block_lstm_v2(df_kernel *k);         /* gates in the order i, f, ci, o */
int32_t cpu_block_lstm_v2(df_kernel *k);
int32_t ref_block_lstm_grad(df_kernel *k);
int32_t cpu_block_lstm_grad(df_kernel *k);
int32_t ref_block_lstm_grad_v2(df_kernel *k);
int32_t cpu_block_lstm_grad_v2(df_kernel *k);
int32_t ref_gru_cell(df_kernel *k);
int32_t cpu_gru_cell(df_kernel *k);
int32_t ref_gru_cell_grad(df_kernel *k);
int32_t cpu_gru_cell_grad(df_kernel *k);

/* ---- kernels/lstm.c, kernels/gru.c ---------------------------------------------------------------------- */

/* c[m,n] = a b, all dense float32; a_t, b_t: that side is stored transposed. */
typedef int32_t (*dfk_product_fn)(df_kernel *k, int64_t m, int64_t n, int64_t inner, bool a_t, bool b_t, const float *a,
                                  const float *b, float *c);
int32_t dfk_lstm_cell(df_kernel *k, dfk_product_fn product);
int32_t dfk_lstm_cell_grad(df_kernel *k);
int32_t dfk_block_lstm(df_kernel *k, dfk_product_fn product, bool v2);
int32_t dfk_block_lstm_grad(df_kernel *k, dfk_product_fn product, bool v2);
int32_t dfk_gru_cell(df_kernel *k, dfk_product_fn product);
int32_t dfk_gru_cell_grad(df_kernel *k, dfk_product_fn product);

/* Inputs and outputs as float32, whatever they are; memory of the call. */
typedef struct dfk_floats {
  df_kernel *k;
  int32_t    n;
  float     *own[40];            /* owned: what was converted, what will be converted back, scratch */
  struct { int32_t out; float *data; } back[16];
  int32_t    nback;
  bool       failed;
} dfk_floats;
const float *dfk_floats_in(dfk_floats *f, int32_t i);
float *dfk_floats_out(dfk_floats *f, int32_t i, int32_t rank, const int64_t *dims);   /* zeros */
float *dfk_floats_scratch(dfk_floats *f, int64_t n);
int32_t dfk_floats_end(dfk_floats *f, int32_t code);    /* writes back, frees; gives the code */

/* ---- kernels/cells.c: how all versions begin. False: error is filled. ------------------------------------- */

/* A call of an LSTM's kernels: its sizes, and where its operands lie. ci, f: where these stand among the four gates; i
 * is the first, o the last. */
typedef struct dfk_lstm {
  int64_t batch, input, units;
  int32_t ci, f;
  bool    peephole;
  float   forget_bias, clip;
  const float *w, *wci, *wcf, *wco, *b;
} dfk_lstm;
typedef struct dfk_gru { int64_t batch, input, units; const float *x, *h_prev, *w_ru, *w_c, *b_ru, *b_c; } dfk_gru;

/* Are all inputs from the first to the last of this shape? */
bool dfk_all_must_be(df_kernel *k, int32_t first, int32_t last, int32_t rank, const int64_t *dims);
/* Sizes of what lies from input `x` on: x, cs_prev, h_prev, w, wci, wcf, wco, b. c->peephole is known; v2: gates in the
 * order i, f, ci, o. */
bool dfk_lstm_of(df_kernel *k, dfk_lstm *c, int32_t x, bool v2);
/* seq_len_max of BlockLSTM: how many steps are taken. */
bool dfk_lstm_steps(df_kernel *k, int64_t *steps);
/* x h_prev w_ru w_c b_ru b_c */
bool dfk_gru_of(df_kernel *k, dfk_gru *c);
#endif
