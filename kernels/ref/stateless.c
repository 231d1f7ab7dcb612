/* stateless.c: random numbers that are a function of shape and seed alone, TensorFlow's number for number:
 * Philox4x32-10 with the key and counter that its StatelessRandom ops make of the seed, and its ways from words to
 * numbers.
 */
#include "../random.h"
#include <Random123/philox.h>

typedef struct generator { philox4x32_ctr_t counter; philox4x32_key_t key; uint32_t left[4]; int used; } generator;

static void skip(generator *g, uint64_t n) {
  const uint64_t low = ((uint64_t)g->counter.v[1] << 32 | g->counter.v[0]) + n;
  const uint64_t carry = low < n;
  const uint64_t high = ((uint64_t)g->counter.v[3] << 32 | g->counter.v[2]) + carry;
  g->counter = (philox4x32_ctr_t){ { (uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32) } };
}

static uint32_t word(generator *g) {
  if (g->used == 4) {
    philox4x32_ctr_t r = philox4x32_R(10, g->counter, g->key);
    memcpy(g->left, r.v, sizeof r.v);
    skip(g, 1);
    g->used = 0;
  }
  return g->left[g->used++];
}

static int32_t begin(df_kernel *k, generator *g, df_tensor **out) {
  int32_t rank;
  int64_t dims[DF_MAX_RANK];
  const df_tensor *seed = k->in[1];
  if (seed->rank != 1 || seed->size != 2)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "seed must have shape [2], it has %lld elements", (long long)seed->size);
  if (!dfk_random_dims(k, &rank, dims)) return DF_INVALID_ARGUMENT;
  if (!(*out = dfk_out(k, 0, k->out_dtype[0], rank, dims))) return DF_RESOURCE_EXHAUSTED;
  const uint64_t a = (uint64_t)dfk_index(seed, 0), b = (uint64_t)dfk_index(seed, 1);
  philox4x32_ctr_t counter = { { (uint32_t)a, (uint32_t)(a >> 32), (uint32_t)b, (uint32_t)(b >> 32) } };
  philox4x32_key_t key = { { 0x3ec8f720, 0x02461e29 } };
  const philox4x32_ctr_t mixed = philox4x32_R(10, counter, key);
  *g = (generator){ .counter = { { 0, 0, mixed.v[2], mixed.v[3] } }, .key = { { mixed.v[0], mixed.v[1] } }, .used = 4 };
  return DF_OK;
}

static float unit_float(uint32_t w) {
  const uint32_t bits = 127u << 23 | (w & 0x7fffffu);
  float f;
  memcpy(&f, &bits, 4);
  return f - 1.0f;
}
static double unit_double(uint32_t high, uint32_t low) {
  const uint64_t bits = (uint64_t)1023 << 52 | (uint64_t)(high & 0xfffffu) << 32 | low;
  double d;
  memcpy(&d, &bits, 8);
  return d - 1.0;
}

/* Box and Muller's pair. */
static void pair(generator *g, bool wide, double out[2]) {
  if (wide) {
    const uint32_t a = word(g), b = word(g), c = word(g), d = word(g);
    const double u = unit_double(a, b) < 1e-7 ? 1e-7 : unit_double(a, b), v = 2 * M_PI * unit_double(c, d),
                 r = sqrt(-2 * log(u));
    out[0] = sin(v) * r;
    out[1] = cos(v) * r;
  } else {
    const uint32_t a = word(g), b = word(g);
    const float u = unit_float(a) < 1e-7f ? 1e-7f : unit_float(a), v = (float)(2 * M_PI) * unit_float(b),
                r = sqrtf(-2.0f * logf(u));
    out[0] = sinf(v) * r;
    out[1] = cosf(v) * r;
  }
}

static void put(df_tensor *t, int64_t i, double v) {
  if (t->dtype == DF_FLOAT64) ((double *)t->data)[i] = v; else ((float *)t->data)[i] = (float)v;
}

int32_t ref_stateless_uniform(df_kernel *k) {
  generator g;
  df_tensor *out;
  int32_t code = begin(k, &g, &out);
  for (int64_t i = 0; !code && i < out->size; i++) {
    const uint32_t a = word(&g);
    put(out, i, out->dtype == DF_FLOAT64 ? unit_double(a, word(&g)) : (double)unit_float(a));
  }
  return code;
}

int32_t ref_stateless_normal(df_kernel *k) {
  generator g;
  df_tensor *out;
  int32_t code = begin(k, &g, &out);
  for (int64_t i = 0; !code && i < out->size; i += 2) {
    double two[2];
    pair(&g, out->dtype == DF_FLOAT64, two);
    put(out, i, two[0]);
    if (i + 1 < out->size) put(out, i + 1, two[1]);
  }
  return code;
}

/* Each group of numbers begins 256 blocks after the one before, so that what is thrown away moves no other. */
int32_t ref_stateless_truncated_normal(df_kernel *k) {
  generator g, base;
  df_tensor *out;
  int32_t code = begin(k, &base, &out);
  if (code) return code;
  const bool wide = out->dtype == DF_FLOAT64;
  const int64_t group = wide ? 2 : 4;
  for (int64_t first = 0; first < out->size; first += group) {
    g = base;
    skip(&g, (uint64_t)(first / group) * (uint64_t)group * 256 / 4);
    for (int64_t made = 0; made < group;) {
      double two[2];
      pair(&g, wide, two);
      for (int i = 0; i < 2 && made < group; i++) {
        if (fabs(two[i]) >= 2) continue;
        if (first + made < out->size) put(out, first + made, two[i]);
        made++;
      }
    }
  }
  return DF_OK;
}
