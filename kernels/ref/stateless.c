/* stateless.c: random numbers that are a function of shape and seed alone, TensorFlow's number for number:
 * Philox4x32-10 with the key and counter that its StatelessRandom ops make of the seed, and its ways from words to
 * numbers.
 */
#include "stateless.h"

/* The generator that a seed of two integers stands for. */
static ref_generator generator_of(uint64_t a, uint64_t b) {
  const philox4x32_ctr_t counter = { { (uint32_t)a, (uint32_t)(a >> 32), (uint32_t)b, (uint32_t)(b >> 32) } };
  const philox4x32_key_t key = { { 0x3ec8f720, 0x02461e29 } };
  const philox4x32_ctr_t mixed = philox4x32_R(10, counter, key);
  return (ref_generator){ .counter = { { 0, 0, mixed.v[2], mixed.v[3] } }, .key = { { mixed.v[0], mixed.v[1] } },
                          .used = 4 };
}

void ref_generator_skip(ref_generator *g, uint64_t n) {
  const uint64_t low = ((uint64_t)g->counter.v[1] << 32 | g->counter.v[0]) + n;
  const uint64_t carry = low < n;
  const uint64_t high = ((uint64_t)g->counter.v[3] << 32 | g->counter.v[2]) + carry;
  g->counter = (philox4x32_ctr_t){ { (uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32) } };
}

/* The algorithms that TensorFlow numbers: Philox, ThreeFry, and whichever suits the device. */
enum { PHILOX = 1, ANY = 3 };

static int32_t seed_length(df_kernel *k, const char *what, int32_t at, int64_t n) {
  const df_tensor *t = k->in[at];
  char text[160];
  if (t->rank == 1 && t->size == n) return DF_OK;
  return dfk_fail(k, DF_INVALID_ARGUMENT, "%s must have shape [%d], it is %s", what, (int)n,
                  dfk_shape_text(t, text, sizeof text));
}

int32_t ref_generator_in(df_kernel *k, int32_t at, ref_generator *g) {
  const df_tensor *t = k->in[at];
  if (t->dtype != DF_UINT64) {
    if (seed_length(k, "seed", at, 2)) return k->error->code;
    *g = generator_of((uint64_t)dfk_index(t, 0), (uint64_t)dfk_index(t, 1));
    return DF_OK;
  }
  if (seed_length(k, "key", at, 1) || seed_length(k, "counter", at + 1, 2)) return k->error->code;
  int64_t algorithm;
  if (!dfk_integer(k, at + 2, "alg", &algorithm)) return k->error->code;
  if (algorithm != PHILOX && algorithm != ANY)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "alg is %lld, but there is 1 alone, Philox", (long long)algorithm);
  const uint64_t *key = t->data, *c = k->in[at + 1]->data;
  *g = (ref_generator){
    .counter = { { (uint32_t)c[0], (uint32_t)(c[0] >> 32), (uint32_t)c[1], (uint32_t)(c[1] >> 32) } },
    .key = { { (uint32_t)key[0], (uint32_t)(key[0] >> 32) } }, .used = 4 };
  return DF_OK;
}

/* seed: key, counter, and the algorithm where it is asked for */
int32_t ref_stateless_key_counter(df_kernel *k) {
  ref_generator g = { .used = 4 };
  if (ref_generator_in(k, 0, &g)) return k->error->code;
  df_tensor *key = dfk_out(k, 0, DF_UINT64, 1, (int64_t[]){ 1 });
  df_tensor *counter = dfk_out(k, 1, DF_UINT64, 1, (int64_t[]){ 2 });
  if (!key || !counter) return k->error->code;
  const uint32_t *c = g.counter.v;
  ((uint64_t *)key->data)[0] = (uint64_t)g.key.v[1] << 32 | g.key.v[0];
  ((uint64_t *)counter->data)[0] = (uint64_t)c[1] << 32 | c[0];
  ((uint64_t *)counter->data)[1] = (uint64_t)c[3] << 32 | c[2];
  return DF_OK;
}

int32_t ref_stateless_algorithm(df_kernel *k) {
  k->out[0] = (df_value){ .kind = DF_SCALAR, .dtype = DF_INT32, .as.i32 = PHILOX };
  return DF_OK;
}

static int32_t begin(df_kernel *k, ref_generator *g, df_tensor **out) {
  int32_t rank;
  int64_t dims[DF_MAX_RANK];
  if (ref_generator_in(k, 1, g) || !dfk_random_dims(k, &rank, dims)) return k->error->code;
  return (*out = dfk_out(k, 0, k->out_dtype[0], rank, dims)) ? DF_OK : k->error->code;
}

static float unit_float(uint32_t w) {
  const uint32_t bits = 127u << 23 | (w & 0x7fffffu);
  float f;
  memcpy(&f, &bits, 4);
  return f - 1.0f;
}

/* The bits of a word that a dtype's mantissa has room for. */
static double unit(ref_generator *g, int32_t dtype) {
  const uint32_t w = ref_generator_word(g);
  if (dtype == DF_FLOAT64) return ref_unit_double(w, ref_generator_word(g));
  if (dtype == DF_FLOAT16) return (w & 0x3ffu) / 1024.0;
  if (dtype == DF_BFLOAT16) return (w & 0x7fu) / 128.0;
  return unit_float(w);
}

void ref_normal_pair(ref_generator *g, bool wide, double out[2]) {
  if (wide) {
    const uint32_t a = ref_generator_word(g), b = ref_generator_word(g);
    const uint32_t c = ref_generator_word(g), d = ref_generator_word(g);
    const double u = ref_unit_double(a, b) < 1e-7 ? 1e-7 : ref_unit_double(a, b), v = 2 * M_PI * ref_unit_double(c, d),
                 r = sqrt(-2 * log(u));
    out[0] = sin(v) * r;
    out[1] = cos(v) * r;
  } else {
    const uint32_t a = ref_generator_word(g), b = ref_generator_word(g);
    const float u = unit_float(a) < 1e-7f ? 1e-7f : unit_float(a), v = (float)(2 * M_PI) * unit_float(b),
                r = sqrtf(-2.0f * logf(u));
    out[0] = sinf(v) * r;
    out[1] = cosf(v) * r;
  }
}

int32_t ref_stateless_uniform(df_kernel *k) {
  ref_generator g = { .used = 4 };
  df_tensor *out;
  int32_t code = begin(k, &g, &out);
  for (int64_t i = 0; !code && i < out->size; i++) ref_put(out, i, unit(&g, out->dtype));
  return code;
}

int32_t ref_stateless_normal(df_kernel *k) {
  ref_generator g = { .used = 4 };
  df_tensor *out;
  int32_t code = begin(k, &g, &out);
  for (int64_t i = 0; !code && i < out->size; i += 2) {
    double two[2];
    ref_normal_pair(&g, out->dtype == DF_FLOAT64, two);
    ref_put(out, i, two[0]);
    if (i + 1 < out->size) ref_put(out, i + 1, two[1]);
  }
  return code;
}

/* Each group of numbers begins 256 blocks after the one before, so that what is thrown away moves no other. */
int32_t ref_stateless_truncated_normal(df_kernel *k) {
  ref_generator g, base;
  df_tensor *out;
  int32_t code = begin(k, &base, &out);
  if (code) return code;
  const bool wide = out->dtype == DF_FLOAT64;
  const int64_t group = wide ? 2 : 4;
  for (int64_t first = 0; first < out->size; first += group) {
    g = base;
    ref_generator_skip(&g, (uint64_t)(first / group) * (uint64_t)group * 256 / 4);
    for (int64_t made = 0; made < group;) {
      double two[2];
      ref_normal_pair(&g, wide, two);
      for (int i = 0; i < 2 && made < group; i++) {
        if (fabs(two[i]) >= 2) continue;
        if (first + made < out->size) ref_put(out, first + made, two[i]);
        made++;
      }
    }
  }
  return DF_OK;
}

/* ---- integers -------------------------------------------------------------------------------------------------- */

/* 32 or 64 random bits, as the dtype has. */
static uint64_t bits_of(ref_generator *g, int32_t dtype) {
  const uint64_t low = ref_generator_word(g);
  return dtype == DF_INT64 || dtype == DF_UINT64 ? low | (uint64_t)ref_generator_word(g) << 32 : low;
}

int32_t ref_stateless_full_int(df_kernel *k) {
  ref_generator g = { .used = 4 };
  df_tensor *out;
  int32_t code = begin(k, &g, &out);
  for (int64_t i = 0; !code && i < out->size; i++) ref_put_int(out, i, (int64_t)bits_of(&g, out->dtype));
  return code;
}

/* ... minval maxval */
int32_t ref_stateless_int(df_kernel *k) {
  const df_tensor *low = k->in[k->nin - 2], *high = k->in[k->nin - 1];
  ref_generator g = { .used = 4 };
  df_tensor *out;
  int32_t code = begin(k, &g, &out);
  if (code) return code;
  if (low->rank || high->rank) return dfk_fail(k, DF_INVALID_ARGUMENT, "minval and maxval must be scalars");
  const int64_t from = ref_get_int(low, 0), to = ref_get_int(high, 0);
  if (out->size && !ref_below(out->dtype, from, to))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "minval is %lld but must be less than maxval, %lld", (long long)from,
                    (long long)to);
  const uint64_t range = (uint64_t)to - (uint64_t)from;
  for (int64_t i = 0; i < out->size; i++)
    ref_put_int(out, i, (int64_t)((uint64_t)from + bits_of(&g, out->dtype) % range));
  return DF_OK;
}
