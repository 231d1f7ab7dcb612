/* norm.c: launchers of batch normalisation: kernels of our own, for what cuDNN (dnn_layers.c) does not take. */
#include "dnn.h"
#include "../nn.h"
#include "../move.h"
#include <string.h>

enum { BLOCK = 256 };

static dfc_norm params_of(const dfk_norm *b) {
  dfc_norm p;
  memset(&p, 0, sizeof p);
  p.outer = b->outer; p.channels = b->channels; p.inner = b->inner;
  p.epsilon = b->epsilon; p.factor = b->factor;
  p.training = b->training; p.moving = b->moving;
  return p;
}

static int32_t run_norm(df_kernel *k) {
  dfk_norm b;
  int32_t code = dfk_norm_begin(k, &b);
  if (code) return code;
  if (b.out[5]) dfk_clear(b.out[5]);
  dfc_call c = dfc_begin(k);
  dfc_norm p = params_of(&b);
  p.x = dfc_read(&c, k->in[0]);
  p.scale = dfc_read(&c, k->in[1]);
  p.offset = dfc_read(&c, k->in[2]);
  p.mean = dfc_read(&c, k->in[3]);
  p.variance = dfc_read(&c, k->in[4]);
  p.z = dfc_write(&c, b.out[0]);
  for (int32_t i = 0; i < 4; i++) p.out[i] = dfc_write(&c, b.out[i + 1]);
  if (!dfc_dnn_norm(&c, &p, k->in[0]))
    dfc_run_blocks(&c, dfc_name("batch_norm", k->in[0]->dtype), b.channels, BLOCK, &p);
  return dfc_end(&c);
}

static int32_t run_norm_grad(df_kernel *k) {
  dfk_norm b;
  int32_t code = dfk_norm_grad_begin(k, &b);
  if (code) return code;
  dfc_call c = dfc_begin(k);
  dfc_norm p = params_of(&b);
  p.dy = dfc_read(&c, k->in[0]);
  p.x = dfc_read(&c, k->in[1]);
  p.scale = dfc_read(&c, k->in[2]);
  p.mean = dfc_read(&c, k->in[3]);
  p.variance = dfc_read(&c, k->in[4]);
  p.z = dfc_write(&c, b.out[0]);
  for (int32_t i = 0; i < 2; i++) p.out[i] = dfc_write(&c, b.out[i + 1]);
  if (!dfc_dnn_norm_back(&c, &p, k->in[1]))
    dfc_run_blocks(&c, dfc_name("batch_norm_grad", k->in[1]->dtype), b.channels, BLOCK, &p);
  return dfc_end(&c);
}

#define NORM(type, fn) { .op = type, .run = fn }
static const dfi_gpu_kernel kernels[] = {
  NORM("FusedBatchNorm", run_norm),
  NORM("FusedBatchNormV2", run_norm),
  NORM("FusedBatchNormV3", run_norm),
  NORM("FusedBatchNormGrad", run_norm_grad),
  NORM("FusedBatchNormGradV2", run_norm_grad),
  NORM("FusedBatchNormGradV3", run_norm_grad),
};
const dfc_table dfc_norms = { kernels, (int32_t)(sizeof kernels / sizeof *kernels) };
