/* random.c: launchers of random numbers: the stream of a call is the CPU's, and so is what each element takes of it.
 */
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
