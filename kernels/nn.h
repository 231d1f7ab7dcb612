/* nn.h: kernels of neural networks' last steps. Classes lie along the last axis. float16 and bfloat16 are computed in
   float. */
#ifndef DFLOW_KERNELS_NN_H
#define DFLOW_KERNELS_NN_H
#include "kernel.h"

/* (logits): exp(x - max) / sum, and its logarithm. A row that is all -inf, or holds +inf or NaN, gives NaN. */
int32_t ref_softmax(df_kernel *k),     cpu_softmax(df_kernel *k);
int32_t ref_log_softmax(df_kernel *k), cpu_log_softmax(df_kernel *k);
/* (features, labels), which broadcast -> loss, backprop. loss = sum of labels * -log_softmax, backprop = softmax -
   labels. */
int32_t ref_softmax_xent(df_kernel *k), cpu_softmax_xent(df_kernel *k);
/* The same with labels that are class numbers. */
int32_t ref_sparse_softmax_xent(df_kernel *k), cpu_sparse_softmax_xent(df_kernel *k);
/* (value, bias; data_format): the channel axis is the last, or axis 1 with NCHW. */
int32_t ref_bias_add(df_kernel *k),      cpu_bias_add(df_kernel *k);
int32_t ref_bias_add_grad(df_kernel *k), cpu_bias_add_grad(df_kernel *k);   /* cpu: reduce.c */
int32_t ref_l2_loss(df_kernel *k),       cpu_l2_loss(df_kernel *k);         /* (t): sum of squares / 2 */

/* A cross entropy: its inputs, in one shape, and its outputs. DF_OK, or a code; dfk_xent_end belongs to either. */
typedef struct dfk_xent {
  int64_t rows, classes;
  const df_tensor *logits, *labels;      /* borrowed, or one of `own` */
  df_tensor *loss, *backprop, *own[2];   /* what was broadcast; owned */
} dfk_xent;
int32_t dfk_xent_begin(df_kernel *k, bool sparse, dfk_xent *x);
int32_t dfk_xent_end(dfk_xent *x, int32_t code);
/* The channel axis of input 0: outer, channels, inner. `attr` is data_format. DF_OK, or a code. */
typedef struct dfk_channels { int64_t outer, n, inner; } dfk_channels;
int32_t dfk_channels_of(df_kernel *k, int32_t attr, dfk_channels *c);

/* Batch normalisation of x [outer, channels, inner], float32 or float64; what it computes stands in
 * runtime/ops/batch_norm.c. */
typedef struct dfk_norm {
  int64_t outer, channels, inner, n;     /* n: elements of a channel */
  double  epsilon, factor;
  bool    training, moving;              /* moving: the mean and variance given take a part of the batch's */
  df_tensor *out[6];                     /* borrowed; NULL where there is none */
} dfk_norm;
/* (x[batch, rows, columns, depth]; depth_radius, bias, alpha, beta): ref/nn.c */
int32_t ref_lrn(df_kernel *k);
df_tensor *dfk_lrn_begin(df_kernel *k);               /* how it begins; NULL: the error is filled */
int32_t ref_batch_norm(df_kernel *k), cpu_batch_norm(df_kernel *k);      /* (x, scale, offset, mean, variance) */
int32_t ref_batch_norm_grad(df_kernel *k);     /* (y_backprop, x, scale, reserve_1, reserve_2[, reserve_3]) */
/* Arguments checked, outputs made. DF_OK, or a code. */
int32_t dfk_norm_begin(df_kernel *k, dfk_norm *b);
int32_t dfk_norm_grad_begin(df_kernel *k, dfk_norm *b);
#endif
