/* random.c: the random ops, sixteen Philox blocks at a time, split over the workers.
 *
 * The loops over LANES are what the compiler vectorises. Numbers are those of ref/random.c, bit for bit.
 */
#include "../half.h"
#include "../random.h"

enum { LANES = 16, GRAIN_BLOCKS = 16384 };

typedef struct draw { dfk_stream s; int32_t dtype; int64_t size; void *data; uint64_t low, range; } draw;

/* The words of LANES blocks from `first` on: word j of block l in w[j][l]. */
static inline __attribute__((always_inline)) void philox_lanes(const dfk_stream *s, uint64_t first,
                                                               uint32_t w[4][LANES]) {
  uint32_t a[LANES], b[LANES], c[LANES], d[LANES], k0 = s->key[0], k1 = s->key[1];
  for (int l = 0; l < LANES; l++) {
    a[l] = (uint32_t)(first + l), b[l] = (uint32_t)((first + l) >> 32);
    c[l] = s->tag[0], d[l] = s->tag[1];
  }
#pragma GCC unroll 10
  for (int r = 0; r < 10; r++) {
    for (int l = 0; l < LANES; l++) {
      uint64_t p = (uint64_t)0xD2511F53u * a[l], q = (uint64_t)0xCD9E8D57u * c[l];
      a[l] = (uint32_t)(q >> 32) ^ b[l] ^ k0;
      c[l] = (uint32_t)(p >> 32) ^ d[l] ^ k1;
      b[l] = (uint32_t)q, d[l] = (uint32_t)p;
    }
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  memcpy(w[0], a, sizeof a), memcpy(w[1], b, sizeof b), memcpy(w[2], c, sizeof c), memcpy(w[3], d, sizeof d);
}

/* Calls for every LANES blocks of [begin, end), with their elements in `v`, and stores what lies inside the output. */
#define FOR_BLOCKS(T, PER, MAKE) \
  for (int64_t b = begin; b < end; b += LANES) { \
    uint32_t w[4][LANES]; \
    T v[PER * LANES]; \
    philox_lanes(&o->s, (uint64_t)b, w); \
    MAKE \
    int64_t at = b * PER, left = (end * PER < o->size ? end * PER : o->size) - at; \
    if (left >= PER * LANES) memcpy((T *)o->data + at, v, sizeof v); \
    else memcpy((T *)o->data + at, v, (size_t)left * sizeof(T)); \
  }

static void uniform_part(void *arg, int64_t begin, int64_t end) {
  const draw *o = arg;
  switch (o->dtype) {
    case DF_FLOAT32:
      FOR_BLOCKS(float, 4, {
        for (int l = 0; l < LANES; l++)
          for (int j = 0; j < 4; j++) v[4 * l + j] = (float)(int32_t)(w[j][l] >> 8) * 0x1p-24f;
      })
      break;
    case DF_FLOAT64:
      FOR_BLOCKS(double, 2, {
        for (int l = 0; l < LANES; l++)
          for (int j = 0; j < 2; j++) v[2 * l + j] = dfk_unit_double(w[2 * j][l], w[2 * j + 1][l]);
      })
      break;
    case DF_FLOAT16:
      FOR_BLOCKS(uint16_t, 4, {
        for (int l = 0; l < LANES; l++)
          for (int j = 0; j < 4; j++) v[4 * l + j] = dfk_f16_from_float((float)(w[j][l] >> 21) * 0x1p-11f);
      })
      break;
    default:
      FOR_BLOCKS(uint16_t, 4, {
        for (int l = 0; l < LANES; l++)
          for (int j = 0; j < 4; j++) v[4 * l + j] = dfk_bf16_from_float((float)(w[j][l] >> 24) * 0x1p-8f);
      })
      break;
  }
}

/* The normal numbers of LANES blocks, in the elements' order. */
static inline __attribute__((always_inline)) void normal_lanes(uint32_t w[4][LANES], float v[4 * LANES]) {
  float z[4][LANES];
  for (int l = 0; l < LANES; l++) dfk_normal_pair(w[0][l], w[1][l], &z[0][l], &z[1][l]);
  for (int l = 0; l < LANES; l++) dfk_normal_pair(w[2][l], w[3][l], &z[2][l], &z[3][l]);
  for (int l = 0; l < LANES; l++)
    for (int j = 0; j < 4; j++) v[4 * l + j] = z[j][l];
}
static void normal_lanes_double(uint32_t w[4][LANES], double v[2 * LANES]) {
  for (int l = 0; l < LANES; l++)
    dfk_normal_pair_double((uint32_t[]){ w[0][l], w[1][l], w[2][l], w[3][l] }, &v[2 * l], &v[2 * l + 1]);
}

static void normal_part(void *arg, int64_t begin, int64_t end) {
  const draw *o = arg;
  if (o->dtype == DF_FLOAT32) {
    FOR_BLOCKS(float, 4, normal_lanes(w, v);)
  } else if (o->dtype == DF_FLOAT64) {
    FOR_BLOCKS(double, 2, normal_lanes_double(w, v);)
  } else {
    FOR_BLOCKS(uint16_t, 4, {
      float z[4 * LANES];
      normal_lanes(w, z);
      dfk_half_from_floats((uint8_t)o->dtype, v, z, 4 * LANES);
    })
  }
}

/* Element i's number when the one of its place is too far out. */
static __attribute__((noinline)) double again(const draw *o, int64_t i) {
  for (uint32_t attempt = 1;; attempt++) {
    uint32_t w[4];
    dfk_philox(&o->s, (uint64_t)i, attempt, w);
    if (o->dtype == DF_FLOAT64) {
      double x, y;
      dfk_normal_pair_double(w, &x, &y);
      if (fabs(x) < 2) return x;
      if (fabs(y) < 2) return y;
      continue;
    }
    for (int j = 0; j < 4; j += 2) {
      float x, y;
      dfk_normal_pair(w[j], w[j + 1], &x, &y);
      if (fabsf(x) < 2) return x;
      if (fabsf(y) < 2) return y;
    }
  }
}

static void truncated_part(void *arg, int64_t begin, int64_t end) {
  const draw *o = arg;
  if (o->dtype == DF_FLOAT32) {
    FOR_BLOCKS(float, 4, {
      normal_lanes(w, v);
      for (int i = 0; i < 4 * LANES; i++)
        if (fabsf(v[i]) >= 2) v[i] = (float)again(o, b * 4 + i);
    })
  } else if (o->dtype == DF_FLOAT64) {
    FOR_BLOCKS(double, 2, {
      normal_lanes_double(w, v);
      for (int i = 0; i < 2 * LANES; i++)
        if (fabs(v[i]) >= 2) v[i] = again(o, b * 2 + i);
    })
  } else {
    FOR_BLOCKS(uint16_t, 4, {
      float z[4 * LANES];
      normal_lanes(w, z);
      for (int i = 0; i < 4 * LANES; i++)
        if (fabsf(z[i]) >= 2) z[i] = (float)again(o, b * 4 + i);
      dfk_half_from_floats((uint8_t)o->dtype, v, z, 4 * LANES);
    })
  }
}

static void int_part(void *arg, int64_t begin, int64_t end) {
  const draw *o = arg;
  if (o->dtype == DF_INT32) {
    FOR_BLOCKS(int32_t, 2, {
      for (int l = 0; l < LANES; l++)
        for (int j = 0; j < 2; j++)
          v[2 * l + j] = (int32_t)(o->low + dfk_below(w[2 * j][l], w[2 * j + 1][l], o->range));
    })
  } else {
    FOR_BLOCKS(int64_t, 2, {
      for (int l = 0; l < LANES; l++)
        for (int j = 0; j < 2; j++)
          v[2 * l + j] = (int64_t)(o->low + dfk_below(w[2 * j][l], w[2 * j + 1][l], o->range));
    })
  }
}

static int32_t run(df_kernel *k, int32_t seed_attr, draw o, int64_t per, df_range_fn part) {
  int32_t rank;
  int64_t dims[DF_MAX_RANK];
  if (!dfk_random_dims(k, &rank, dims)) return k->error->code;
  df_tensor *out = dfk_out(k, 0, k->out_dtype[0], rank, dims);
  if (!out) return k->error->code;
  o.s = dfk_stream_of(k, dfk_int(k, seed_attr));
  o.dtype = out->dtype;
  o.size = out->size;
  o.data = out->data;
  dfk_parallel(k, (out->size + per - 1) / per, GRAIN_BLOCKS, part, &o);
  return DF_OK;
}

int32_t cpu_random_uniform(df_kernel *k) {
  return run(k, 1, (draw){ 0 }, dfk_per_block(k->out_dtype[0]), uniform_part);
}
int32_t cpu_random_normal(df_kernel *k) { return run(k, 1, (draw){ 0 }, dfk_per_block(k->out_dtype[0]), normal_part); }
int32_t cpu_truncated_normal(df_kernel *k) {
  return run(k, 1, (draw){ 0 }, dfk_per_block(k->out_dtype[0]), truncated_part);
}

int32_t cpu_random_uniform_int(df_kernel *k) {
  int64_t low, high;
  if (k->in[1]->rank != 0 || k->in[2]->rank != 0 || (low = dfk_index(k->in[1], 0)) >= (high = dfk_index(k->in[2], 0)))
    return ref_random_uniform_int(k);               /* which says what is wrong */
  return run(k, 0, (draw){ .low = (uint64_t)low, .range = (uint64_t)high - (uint64_t)low }, 2, int_part);
}
