/* random.c: launchers of random numbers: the stream of a call is the CPU's, and so is what each element takes of it.
 */
#include "plugin.h"
#include "../array.h"
#include "../move.h"
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

/* TensorFlow's streams, by input `at` on: a seed of two integers, of which key and counter are made; or a key, a
 * counter and an algorithm. */
enum { PHILOX = 1, ANY = 3 };
static bool has_length(df_kernel *k, const char *what, int32_t at, int64_t n) {
  const df_tensor *t = k->in[at];
  char text[160];
  if (t->rank == 1 && t->size == n) return true;
  dfk_fail(k, DF_INVALID_ARGUMENT, "%s must have shape [%d], it is %s", what, (int)n,
           dfk_shape_text(t, text, sizeof text));
  return false;
}
bool dfc_dealt(df_kernel *k, int32_t at, dfc_drawing *p) {
  if (k->in[at]->dtype != DF_UINT64) {
    if (!has_length(k, "seed", at, 2)) return false;
    const uint64_t b = (uint64_t)dfk_index(k->in[at], 1);
    const dfk_stream mixer = { .key = { 0x3ec8f720, 0x02461e29 }, .tag = { (uint32_t)b, (uint32_t)(b >> 32) } };
    uint32_t mixed[4];
    dfk_philox(&mixer, (uint64_t)dfk_index(k->in[at], 0), 0, mixed);
    memcpy(p->key, mixed, sizeof p->key);
    memcpy(p->tag, mixed + 2, sizeof p->tag);
    return true;
  }
  int64_t algorithm;
  if (!has_length(k, "key", at, 1) || !has_length(k, "counter", at + 1, 2) ||
      !dfk_integer(k, at + 2, "alg", &algorithm))
    return false;
  memcpy(p->key, k->in[at]->data, sizeof p->key);
  memcpy(&p->start, k->in[at + 1]->data, sizeof p->start);
  memcpy(p->tag, (const uint64_t *)k->in[at + 1]->data + 1, sizeof p->tag);
  if (algorithm == PHILOX || algorithm == ANY) return true;
  dfk_fail(k, DF_INVALID_ARGUMENT, "alg is %lld, but there is 1 alone, Philox", (long long)algorithm);
  return false;
}

/* name NULL: integers, whose kernels go by their width. */
static int32_t deal(df_kernel *k, const char *prefix, dfc_drawing p, df_tensor *z) {
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  p.z = dfc_write(&c, z);
  p.n = z->size;
  dfc_run(&c, prefix ? dfc_name(prefix, z->dtype) : dfc_width_name("bits", df_dtype_bytes(z->dtype)), p.n, &p);
  return dfc_end(&c);
}
static df_tensor *dealt_to(df_kernel *k, dfc_drawing *p) {
  int32_t rank;
  int64_t dims[DF_MAX_RANK];
  memset(p, 0, sizeof *p);
  if (!dfc_dealt(k, 1, p) || !dfk_random_dims(k, &rank, dims)) return NULL;
  return dfk_out(k, 0, k->out_dtype[0], rank, dims);
}
static int32_t stateless(df_kernel *k, const char *prefix) {
  dfc_drawing p;
  df_tensor *z = dealt_to(k, &p);
  return deal(k, prefix, p, z);
}
static int32_t run_stateless_uniform(df_kernel *k)   { return stateless(k, "stateless_uniform"); }
static int32_t run_stateless_normal(df_kernel *k)    { return stateless(k, "stateless_normal"); }
static int32_t run_stateless_truncated(df_kernel *k) { return stateless(k, "stateless_truncated"); }
static int32_t run_stateless_bits(df_kernel *k)      { return stateless(k, NULL); }

/* … minval maxval */
static int32_t run_stateless_whole(df_kernel *k) {
  const df_tensor *low = k->in[k->nin - 2], *high = k->in[k->nin - 1];
  dfc_drawing p;
  df_tensor *z = dealt_to(k, &p);
  if (!z) return k->error->code;
  if (low->rank || high->rank) return dfk_fail(k, DF_INVALID_ARGUMENT, "minval and maxval must be scalars");
  const int64_t from = dfk_any_int(low, 0), to = dfk_any_int(high, 0);
  const bool below = z->dtype == DF_UINT64 ? (uint64_t)from < (uint64_t)to : from < to;
  if (z->size && !below)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "minval is %lld but must be less than maxval, %lld", (long long)from,
                    (long long)to);
  p.low = from;
  p.range = (uint64_t)to - (uint64_t)from;
  return deal(k, NULL, p, z);
}

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
  { .op = "StatelessRandomUniformV2", .run = run_stateless_uniform, .host_in = DFI_ALL_IN, .takes = takes_drawn },
  { .op = "StatelessRandomNormalV2", .run = run_stateless_normal, .host_in = DFI_ALL_IN, .takes = takes_drawn },
  { .op = "StatelessTruncatedNormalV2", .run = run_stateless_truncated, .host_in = DFI_ALL_IN, .takes = takes_drawn },
  { .op = "StatelessRandomUniformInt", .run = run_stateless_whole, .host_in = DFI_ALL_IN },
  { .op = "StatelessRandomUniformIntV2", .run = run_stateless_whole, .host_in = DFI_ALL_IN },
  { .op = "StatelessRandomUniformFullInt", .run = run_stateless_bits, .host_in = DFI_ALL_IN },
  { .op = "StatelessRandomUniformFullIntV2", .run = run_stateless_bits, .host_in = DFI_ALL_IN },
  { .op = "RandomUniformInt", .run = run_whole, .host_in = 7 },
};
const dfc_table dfc_random = { kernels, (int32_t)(sizeof kernels / sizeof *kernels) };
