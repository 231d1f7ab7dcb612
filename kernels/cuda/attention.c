/* attention.c: launchers of attention. */
#include "attention.h"
#include "plugin.h"
#include "../attention.h"
#include <string.h>

enum { TILE = 16, COLUMNS = 128, THREADS = 256 };

static int64_t parts(int64_t n, int64_t of) { return n > 0 ? (n + of - 1) / of : 1; }

/* What all of them are given. The tensors of the call are brought where they are not there. */
static dfc_attention params_of(dfc_call *c, const dfk_attention *a) {
  dfc_attention p;
  memset(&p, 0, sizeof p);
  p.count = a->count; p.queries = a->queries; p.keys = a->keys; p.depth = a->depth; p.width = a->width;
  p.scale = a->scale;
  p.causal = a->causal;
  p.lead = a->lead;
  for (int32_t d = 0; d < a->lead; d++) { p.lead_dims[d] = a->lead_dims[d]; p.lead_step[d] = a->lead_step[d]; }
  p.row_step = a->row_step; p.key_step = a->key_step;
  p.q = dfc_read(c, a->q); p.k = dfc_read(c, a->k); p.v = dfc_read(c, a->v);
  p.mask = a->mask ? dfc_read(c, a->mask) : NULL;
  p.bools = a->mask && a->mask->dtype == DF_BOOL;
  return p;
}

static int32_t run_attention(df_kernel *k) {
  dfk_attention a;
  df_tensor *y, *sums;
  int32_t code = dfk_attention_of(k, &a, 0, 3);
  if (!code) code = dfk_attention_out(k, &a, &y, &sums);
  if (code || !sums->size) return code;
  dfc_call c = dfc_begin(k);
  dfc_attention p = params_of(&c, &a);
  p.y = dfc_write(&c, y);
  p.sums = dfc_write(&c, sums);
  p.blocks = a.count * parts(a.queries, TILE) * parts(a.width, COLUMNS);
  dfc_run_blocks(&c, dfc_name("attention", y->dtype), p.blocks, THREADS, &p);
  return dfc_end(&c);
}

static int32_t run_attention_grad(df_kernel *k) {
  dfk_attention a;
  const int32_t code = dfk_attention_grad_of(k, &a);
  if (code) return code;
  df_tensor *out[3];
  for (int32_t i = 0; i < 3; i++) out[i] = k->out[i].as.tensor;
  const int32_t dtype = a.q->dtype;
  dfc_call c = dfc_begin(k);
  dfc_attention p = params_of(&c, &a);
  p.dy = dfc_read(&c, k->in[0]);
  p.sums = (void *)(uintptr_t)dfc_read(&c, k->in[4]);
  p.delta = dfc_read(&c, k->in[5]);
  p.dq = dfc_write(&c, out[0]);
  p.dk = dfc_write(&c, out[1]);
  p.dv = dfc_write(&c, out[2]);
  const int64_t widest = a.depth > a.width ? a.depth : a.width;
  p.blocks = a.count * parts(a.queries, TILE) * parts(a.depth, COLUMNS);
  if (out[0]->size) dfc_run_blocks(&c, dfc_name("attention_queries", dtype), p.blocks, THREADS, &p);
  p.blocks = a.count * parts(a.keys, TILE) * parts(widest, COLUMNS);
  if (out[1]->size || out[2]->size) dfc_run_blocks(&c, dfc_name("attention_keys", dtype), p.blocks, THREADS, &p);
  return dfc_end(&c);
}

static bool takes(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return in[0] < 32 && (DFC_FLOATS >> in[0] & 1);
}
static const dfi_gpu_kernel kernels[] = {
  { .op = "ScaledDotProductAttention", .run = run_attention, .takes = takes },
  { .op = "ScaledDotProductAttentionGrad", .run = run_attention_grad, .takes = takes },
};
const dfc_table dfc_attentions = { kernels, (int32_t)(sizeof kernels / sizeof *kernels) };
