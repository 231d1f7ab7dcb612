/* string_hash.c: strings as bucket numbers, with TensorFlow's hashes: which bucket a string falls into is part of what
 * a model has learnt.
 *
 * Fast: FarmHash's 64-bit fingerprint (Geoff Pike). Strong: SipHash-2-4 (Aumasson and Bernstein) under a key. Legacy:
 * MurmurHash64A (Austin Appleby) from TensorFlow's seed. All read little-endian words.
 */
#include "../string.h"
#include "element.h"

typedef uint64_t (*hash_fn)(const uint8_t *s, uint64_t n, const uint64_t key[2]);

static uint64_t word(const uint8_t *s) {
  uint64_t v;
  memcpy(&v, s, sizeof v);
  return v;
}
static uint64_t half_word(const uint8_t *s) {
  uint32_t v;
  memcpy(&v, s, sizeof v);
  return v;
}
static uint64_t rotate(uint64_t v, int by) { return v >> by | v << (64 - by); }    /* to the right */
static uint64_t fold(uint64_t v) { return v ^ v >> 47; }

/* ---- FarmHash ---------------------------------------------------------------------------------------------------- */
#define K0 0xc3a5c85c97cb3127u
#define K1 0xb492b66fbe98f273u
#define K2 0x9ae16a3b2f90404fu

typedef struct pair { uint64_t a, b; } pair;

static uint64_t join(uint64_t u, uint64_t v, uint64_t by) {
  const uint64_t a = fold((u ^ v) * by);
  return fold((v ^ a) * by) * by;
}

/* 32 bytes mixed with two seeds. */
static pair mix_block(const uint8_t *s, uint64_t a, uint64_t b) {
  const uint64_t w = word(s), x = word(s + 8), y = word(s + 16), z = word(s + 24);
  a += w;
  b = rotate(b + a + z, 21);
  const uint64_t c = a + x + y;
  return (pair){ c + z, b + rotate(c, 44) + a };
}

static uint64_t farm_short(const uint8_t *s, uint64_t n) {
  const uint64_t by = K2 + 2 * n;
  if (n >= 8) {
    const uint64_t a = word(s) + K2, b = word(s + n - 8);
    return join(rotate(b, 37) * by + a, (rotate(a, 25) + b) * by, by);
  }
  if (n >= 4) return join(n + (half_word(s) << 3), half_word(s + n - 4), by);
  if (!n) return K2;
  const uint32_t y = s[0] + ((uint32_t)s[n >> 1] << 8), z = (uint32_t)n + ((uint32_t)s[n - 1] << 2);
  return fold(y * K2 ^ z * K0) * K2;
}

static uint64_t farm_17_to_32(const uint8_t *s, uint64_t n) {
  const uint64_t by = K2 + 2 * n, a = word(s) * K1, b = word(s + 8), c = word(s + n - 8) * by,
                 d = word(s + n - 16) * K2;
  return join(rotate(a + b, 43) + rotate(c, 30) + d, a + rotate(b + K2, 18) + c, by);
}

static uint64_t farm_33_to_64(const uint8_t *s, uint64_t n) {
  const uint64_t by = K2 + 2 * n, a = word(s) * K2, b = word(s + 8), c = word(s + n - 8) * by,
                 d = word(s + n - 16) * K2;
  const uint64_t y = rotate(a + b, 43) + rotate(c, 30) + d, z = join(y, a + rotate(b + K2, 18) + c, by);
  const uint64_t e = word(s + 16) * by, f = word(s + 24), g = (y + word(s + n - 32)) * by,
                 h = (z + word(s + n - 24)) * by;
  return join(rotate(e + f, 43) + rotate(g, 30) + h, e + rotate(f + a, 18) + g, by);
}

/* What is mixed of more than 64 bytes: 56 of state. */
typedef struct farm { uint64_t x, y, z; pair v, w; } farm;

/* A round over 64 bytes: `by` multiplies, `nine` is 1 until the last one. */
static void farm_round(farm *f, const uint8_t *s, uint64_t by, uint64_t nine) {
  const uint64_t x = rotate(f->x + f->y + f->v.a + word(s + 8), 37) * by ^ f->w.b * nine;
  f->y = rotate(f->y + f->v.b + word(s + 48), 42) * by + f->v.a * nine + word(s + 40);
  f->z = rotate(f->z + f->w.a, 33) * by;
  f->v = mix_block(s, f->v.b * by, x + f->w.a);
  f->w = mix_block(s + 32, f->z + f->w.b, f->y + word(s + 16));
  f->x = f->z;
  f->z = x;
}

static uint64_t farm_hash(const uint8_t *s, uint64_t n, const uint64_t key[2]) {
  (void)key;
  if (n <= 16) return farm_short(s, n);
  if (n <= 32) return farm_17_to_32(s, n);
  if (n <= 64) return farm_33_to_64(s, n);
  farm f = { .x = 81 * K2 + word(s), .y = 81 * K1 + 113 };
  f.z = fold(f.y * K2 + 113) * K2;
  for (uint64_t at = 0; at < (n - 1) / 64 * 64; at += 64) farm_round(&f, s + at, K1, 1);
  const uint64_t by = K1 + ((f.z & 255) << 1);
  f.w.a += (n - 1) & 63;
  f.v.a += f.w.a;
  f.w.a += f.v.a;
  farm_round(&f, s + n - 64, by, 9);
  return join(join(f.v.a, f.w.a, by) + fold(f.y) * K0 + f.z, join(f.v.b, f.w.b, by) + f.x, by);
}

uint64_t dfk_fingerprint(const char *bytes, int64_t n) {
  return farm_hash((const uint8_t *)bytes, (uint64_t)n, NULL);
}

/* ---- SipHash ----------------------------------------------------------------------------------------------------- */
static void sip_round(uint64_t v[4]) {
  for (int i = 0; i < 4; i += 2) {
    v[i] += v[i + 1];
    v[i + 1] = rotate(v[i + 1], i ? 48 : 51) ^ v[i];
  }
  v[0] = rotate(v[0], 32);
  v[0] += v[3];
  v[3] = rotate(v[3], 43) ^ v[0];
  v[2] += v[1];
  v[1] = rotate(v[1], 47) ^ v[2];
  v[2] = rotate(v[2], 32);
}
static void sip_word(uint64_t v[4], uint64_t m) {
  v[3] ^= m;
  sip_round(v);
  sip_round(v);
  v[0] ^= m;
}

static uint64_t sip_hash(const uint8_t *s, uint64_t n, const uint64_t key[2]) {
  uint64_t v[4] = { key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u,
                    key[1] ^ 0x7465646279746573u };
  uint64_t last = n << 56;
  for (uint64_t at = 0; at + 8 <= n; at += 8) sip_word(v, word(s + at));
  for (uint64_t i = n & ~7u; i < n; i++) last |= (uint64_t)s[i] << 8 * (i & 7);
  sip_word(v, last);
  v[2] ^= 255;
  for (int i = 0; i < 4; i++) sip_round(v);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- MurmurHash -------------------------------------------------------------------------------------------------- */
static uint64_t murmur_hash(const uint8_t *s, uint64_t n, const uint64_t key[2]) {
  const uint64_t by = 0xc6a4a7935bd1e995u;
  uint64_t h = 0xdecafcaffeu ^ n * by, last = 0;
  (void)key;
  for (uint64_t at = 0; at + 8 <= n; at += 8) {
    const uint64_t m = word(s + at) * by;
    h = (h ^ (m ^ m >> 47) * by) * by;
  }
  for (uint64_t i = n & ~7u; i < n; i++) last |= (uint64_t)s[i] << 8 * (i & 7);
  if (n & 7) h = (h ^ last) * by;
  h = fold(h) * by;
  return fold(h);
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */
static int32_t buckets(df_kernel *k, hash_fn hash, const uint64_t key[2]) {
  const df_tensor *x = k->in[0];
  const int64_t n = dfk_int(k, 0);
  if (n < 1) return dfk_fail(k, DF_INVALID_ARGUMENT, "num_buckets is %lld but must be at least 1", (long long)n);
  df_tensor *out = dfk_out(k, 0, DF_INT64, x->rank, x->dims);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < x->size; i++) {
    const df_str *s = (const df_str *)x->data + i;
    ((int64_t *)out->data)[i] = (int64_t)(hash((const uint8_t *)s->bytes, (uint64_t)s->length, key) % (uint64_t)n);
  }
  return DF_OK;
}

int32_t ref_hash_bucket_fast(df_kernel *k) { return buckets(k, farm_hash, NULL); }
int32_t ref_hash_bucket(df_kernel *k)      { return buckets(k, murmur_hash, NULL); }
int32_t ref_hash_bucket_strong(df_kernel *k) {
  const df_attr *key = &k->attrs[1];
  if (key->i != 2)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "key has %lld numbers but must have 2", (long long)key->i);
  return buckets(k, sip_hash, (uint64_t[]){ (uint64_t)key->ints[0], (uint64_t)key->ints[1] });
}
