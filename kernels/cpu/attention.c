/* attention.c: attention by blocks of queries and keys that stay in the caches.
 *
 * Forward: a block of queries goes over the blocks of keys; what it has summed shrinks whenever a larger score comes.
 * Keys are turned once, into panels that the product of a block wants. Backward: the scores of a block again, from the
 * sums that the forward pass kept, and five products. How the work is cut shows in no bit: an element is summed over
 * blocks in their order. Halves are computed as floats, and rounded once.
 */
#include "../attention.h"
#include "../half.h"
#include "gemm.h"
#include "lanes.h"

enum { ROWS = 64, KEYS = 128, TURNED = 8 /* queries from which on turning the keys pays */ };

typedef struct attention {
  dfk_attention of;
  const void *q, *k, *v, *mask, *dy, *delta;
  void *y, *sums, *dq, *dk, *dv, *k_panels, *v_panels;
  int64_t pieces, panel_keys;            /* of queries; keys of a matrix, in whole panels */
  bool    packs;
} attention;

static inline float  log_of_f32(float x)  { return logf(x); }
static inline double log_of_f64(double x) { return log(x); }
static inline float  exp_of_f32(float x)  { return exp_f32(splat_f32(x))[0]; }
static inline double exp_of_f64(double x) { return exp_f64(splat_f64(x))[0]; }

#define T float
#define V vf32
#define L LANES_f32
#define S(f) f##_f32
#include "attention_body.h"
#define T double
#define V vf64
#define L LANES_f64
#define S(f) f##_f64
#include "attention_body.h"

/* Memory of a call: tensors of halves as floats, and panels. */
typedef struct room { char *at; int64_t bytes; } room;
static void *some(room *r, int64_t bytes) {
  bytes = (bytes + 63) & ~(int64_t)63;
  r->bytes += bytes;
  return r->at ? (r->at += bytes) - bytes : NULL;
}
static const void *as_floats(room *r, const df_tensor *t) {
  if (!dfk_is_half(t->dtype)) return t->data;
  float *to = some(r, t->size * 4);
  if (to) dfk_half_to_floats(t->dtype, to, t->data, t->size);
  return to;
}
static void *floats_for(room *r, const df_tensor *t) {
  return dfk_is_half(t->dtype) ? some(r, t->size * 4) : t->data;
}
static void rounded(const df_tensor *t, const void *floats) {
  if (dfk_is_half(t->dtype)) dfk_half_from_floats(t->dtype, t->data, floats, t->size);
}

/* What both directions read; once to count, once to fill. */
static void lay_out(attention *w, room *r) {
  const dfk_attention *a = &w->of;
  const bool wide = a->q->dtype == DF_FLOAT64;
  const int64_t nr = 2 * (wide ? LANES_f64 : LANES_f32), width = wide ? 8 : 4;
  w->q = as_floats(r, a->q);
  w->k = as_floats(r, a->k);
  w->v = as_floats(r, a->v);
  w->mask = a->mask && a->mask->dtype != DF_BOOL ? as_floats(r, a->mask) : NULL;
  w->packs = a->queries >= TURNED;
  w->pieces = (a->queries + ROWS - 1) / ROWS;
  w->panel_keys = (a->keys + nr - 1) / nr * nr;
  const int64_t keys = w->packs ? a->count * w->panel_keys * width : 0;
  w->k_panels = some(r, keys * a->depth);
  w->v_panels = w->dy ? some(r, keys * a->width) : NULL;
}

static void pack(df_kernel *k, attention *w) {
  const bool wide = w->of.q->dtype == DF_FLOAT64;
  const int64_t nr = 2 * (wide ? LANES_f64 : LANES_f32), each = nr * (w->of.depth + w->of.width) + 1;
  if (w->packs) dfk_parallel(k, w->of.count * w->panel_keys / nr, 1 + (1 << 16) / each, wide ? pack_f64 : pack_f32, w);
}

/* Multiplications that are worth a thread, in pieces of `each`. */
static int64_t grain_of(int64_t each) { return 1 + (1 << 18) / (each + 1); }

int32_t cpu_attention(df_kernel *k) {
  attention w = { 0 };
  const dfk_attention *a = &w.of;
  df_tensor *y, *sums;
  int32_t code = dfk_attention_of(k, &w.of, 0, 3);
  if (!code) code = dfk_attention_out(k, a, &y, &sums);
  if (code || !sums->size) return code;
  room r = { 0 };
  lay_out(&w, &r);
  floats_for(&r, y);
  char *memory = dfk_scratch(k, r.bytes + 64);
  if (!memory) return k->error->code;
  r.at = memory + (-(uintptr_t)memory & 63);
  lay_out(&w, &r);
  w.y = floats_for(&r, y);
  w.sums = sums->data;
  pack(k, &w);
  dfk_parallel(k, a->count * w.pieces, grain_of(ROWS * a->keys * (a->depth + a->width)),
               a->q->dtype == DF_FLOAT64 ? forward_f64 : forward_f32, &w);
  rounded(y, w.y);
  dfk_free(memory);
  return DF_OK;
}

static void lay_out_back(df_kernel *k, attention *w, room *r, df_tensor **out) {
  w->dy = as_floats(r, k->in[0]);
  if (!w->dy) w->dy = k;                  /* while it is counted: there will be one */
  lay_out(w, r);
  w->dq = floats_for(r, out[0]);
  w->dk = floats_for(r, out[1]);
  w->dv = floats_for(r, out[2]);
}

int32_t cpu_attention_grad(df_kernel *k) {
  attention w = { 0 };
  const dfk_attention *a = &w.of;
  const int32_t code = dfk_attention_grad_of(k, &w.of);
  if (code) return code;
  df_tensor *out[3];
  for (int32_t i = 0; i < 3; i++) out[i] = k->out[i].as.tensor;
  room r = { 0 };
  lay_out_back(k, &w, &r, out);
  char *memory = dfk_scratch(k, r.bytes + 64);
  if (!memory) return k->error->code;
  r.at = memory + (-(uintptr_t)memory & 63);
  lay_out_back(k, &w, &r, out);
  const bool wide = a->q->dtype == DF_FLOAT64;
  void *sum[3] = { w.dq, w.dk, w.dv };
  for (int32_t i = 0; i < 3; i++) memset(sum[i], 0, (size_t)(out[i]->size * (wide ? 8 : 4)));
  w.sums = k->in[4]->data;
  w.delta = k->in[5]->data;
  const int64_t pair = a->depth * 3 + a->width * 2;
  if (a->queries && a->keys) pack(k, &w);
  if (a->count >= dfk_threads(k)) {
    dfk_parallel(k, a->count, grain_of(a->queries * a->keys * pair), wide ? matrices_back_f64 : matrices_back_f32, &w);
  } else {
    dfk_parallel(k, a->count * w.pieces, grain_of(ROWS * a->keys * pair),
                 wide ? queries_back_f64 : queries_back_f32, &w);
    dfk_parallel(k, a->count * ((a->keys + KEYS - 1) / KEYS), grain_of(KEYS * a->queries * pair),
                 wide ? keys_back_f64 : keys_back_f32, &w);
  }
  for (int32_t i = 0; i < 3; i++) rounded(out[i], sum[i]);
  dfk_free(memory);
  return DF_OK;
}
