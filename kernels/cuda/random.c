/* random.c: launchers of random numbers: the stream of a call is the CPU's, and so is what each element takes of it.
 * Then what the runtime asks of a device beside its kernels: sums where arrays' and variables' values lie, and steps
 * of optimizers. */
#include "plugin.h"
#include "../array.h"
#include "../random.h"
#include <string.h>

static int32_t draw(df_kernel *k, const char *prefix, int64_t seed, int64_t low, uint64_t range) {
  int32_t rank;
  int64_t dims[DF_MAX_RANK];
  df_tensor *z = dfk_random_dims(k, &rank, dims) ? dfk_out(k, 0, k->out_dtype[0], rank, dims) : NULL;
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  const dfk_stream s = dfk_stream_of(k, seed);
  dfc_call c = dfc_begin(k);
  dfc_drawing p;
  memset(&p, 0, sizeof p);
  memcpy(p.key, s.key, sizeof p.key);
  memcpy(p.tag, s.tag, sizeof p.tag);
  p.z = dfc_write(&c, z);
  p.n = z->size;
  p.low = low;
  p.range = range;
  dfc_run(&c, dfc_name(prefix, z->dtype), p.n, &p);
  return dfc_end(&c);
}
static int32_t run_uniform(df_kernel *k)   { return draw(k, "uniform", dfk_int(k, 1), 0, 0); }
static int32_t run_normal(df_kernel *k)    { return draw(k, "normal", dfk_int(k, 1), 0, 0); }
static int32_t run_truncated(df_kernel *k) { return draw(k, "truncated", dfk_int(k, 1), 0, 0); }
static int32_t run_whole(df_kernel *k) {
  if (k->in[1]->rank != 0 || k->in[2]->rank != 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "minval and maxval must be scalars");
  const int64_t low = dfk_index(k->in[1], 0), high = dfk_index(k->in[2], 0);
  bool some = true;
  for (int64_t i = 0; i < k->in[0]->size; i++) some &= dfk_index(k->in[0], i) != 0;
  if (some && low >= high) return dfk_fail(k, DF_INVALID_ARGUMENT,
      "minval is %lld but must be less than maxval, %lld", (long long)low, (long long)high);
  return draw(k, "whole", dfk_int(k, 0), low, (uint64_t)high - (uint64_t)low);
}

/* (shape, seed[2]; dtype): TensorFlow's stream, whose key and counter are made of the seed. */
static int32_t stateless(df_kernel *k, const char *prefix) {
  const df_tensor *seed = k->in[1];
  int32_t rank;
  int64_t dims[DF_MAX_RANK];
  if (seed->rank != 1 || seed->size != 2)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "seed must have shape [2], it has %lld elements", (long long)seed->size);
  df_tensor *z = dfk_random_dims(k, &rank, dims) ? dfk_out(k, 0, k->out_dtype[0], rank, dims) : NULL;
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  const uint64_t b = (uint64_t)dfk_index(seed, 1);
  const dfk_stream mixer = { .key = { 0x3ec8f720, 0x02461e29 }, .tag = { (uint32_t)b, (uint32_t)(b >> 32) } };
  uint32_t mixed[4];
  dfk_philox(&mixer, (uint64_t)dfk_index(seed, 0), 0, mixed);
  dfc_call c = dfc_begin(k);
  dfc_drawing p;
  memset(&p, 0, sizeof p);
  memcpy(p.key, mixed, sizeof p.key);
  memcpy(p.tag, mixed + 2, sizeof p.tag);
  p.z = dfc_write(&c, z);
  p.n = z->size;
  dfc_run(&c, dfc_name(prefix, z->dtype), p.n, &p);
  return dfc_end(&c);
}
static int32_t run_stateless_uniform(df_kernel *k)   { return stateless(k, "stateless_uniform"); }
static int32_t run_stateless_normal(df_kernel *k)    { return stateless(k, "stateless_normal"); }
static int32_t run_stateless_truncated(df_kernel *k) { return stateless(k, "stateless_truncated"); }

static bool takes_drawn(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return out[0] < 32 && (DFC_FLOATS >> out[0] & 1);
}
static const dfi_gpu_kernel kernels[] = {
  { .op = "RandomUniform", .run = run_uniform, .host_in = 1, .takes = takes_drawn },
  { .op = "RandomStandardNormal", .run = run_normal, .host_in = 1, .takes = takes_drawn },
  { .op = "TruncatedNormal", .run = run_truncated, .host_in = 1, .takes = takes_drawn },
  { .op = "StatelessRandomUniform", .run = run_stateless_uniform, .host_in = 3, .takes = takes_drawn },
  { .op = "StatelessRandomNormal", .run = run_stateless_normal, .host_in = 3, .takes = takes_drawn },
  { .op = "StatelessTruncatedNormal", .run = run_stateless_truncated, .host_in = 3, .takes = takes_drawn },
  { .op = "RandomUniformInt", .run = run_whole, .host_in = 7 },
};
const dfc_table dfc_random = { kernels, (int32_t)(sizeof kernels / sizeof *kernels) };

/* ---- asked by the runtime ---------------------------------------------------------------------------------------- */

static void run_there(dfc_gpu *g, bool *ok, const char *name, int64_t n, const void *p) {
  enum { THREADS = 256 };
  const int64_t wanted = (n + THREADS - 1) / THREADS, most = (int64_t)g->processors * 64;
  *ok = *ok && name && dfc_launch(g, name, wanted < most ? wanted : most, THREADS, p);
}

bool dfc_update(void *device, dfk_update_op op, int32_t dtype, int64_t n, void *to, void *to_note, const void *a,
                void *a_note, const void *b, void *b_note, bool one_b) {
  dfc_gpu *g = device;
  if (!n) return true;
  dfc_enter(g);
  bool ok = dfc_mine(g, to_note) && dfc_mine(g, a_note) && dfc_mine(g, b_note);
  dfc_updating p;
  memset(&p, 0, sizeof p);
  p.to = to; p.a = a; p.b = b; p.n = n; p.op = (int32_t)op; p.one_b = one_b;
  run_there(g, &ok, dfc_name("update", dtype), n, &p);
  dfc_leave(g);
  return ok;
}

bool dfc_step(void *device, const dfi_remote_step *s) {
  dfc_gpu *g = device;
  if (!s->n) return true;
  dfc_enter(g);
  bool ok = true;
  dfc_stepping p;
  memset(&p, 0, sizeof p);
  for (int32_t i = 0; i < s->count; i++) {
    ok = dfc_mine(g, s->note[i]) && ok;
    p.at[i] = s->at[i];
  }
  p.n = s->n;
  p.rate = s->kind == DFI_STEP_ADAM ? s->adam.rate : s->rate;
  p.momentum = s->momentum;
  p.beta1 = s->adam.beta1; p.beta2 = s->adam.beta2; p.epsilon = s->adam.epsilon;
  p.kind = s->kind;
  p.nesterov = s->kind == DFI_STEP_ADAM ? s->adam.nesterov : s->nesterov;
  run_there(g, &ok, dfc_name("step", s->dtype), s->n, &p);
  dfc_leave(g);
  return ok;
}
