/* index_shuffle.c: where an index comes to lie when all from 0 to a greatest one are shuffled, without a list of them:
 * a block cipher (Simon, of few rounds) of as many bits as the greatest has is applied until an index comes out.
 * TensorFlow's numbers.
 */
#include "../random.h"
#include "../move.h"
#include <math.h>

enum { ROUNDS, MOST_ROUNDS = 256 };

/* A cipher of two words of so many bits. */
typedef struct cipher { int32_t bits, rounds; uint64_t mask, key[MOST_ROUNDS]; } cipher;

static uint64_t left(const cipher *c, uint64_t x, int32_t by) { return (x << by | x >> (c->bits - by)) & c->mask; }
static uint64_t right(const cipher *c, uint64_t x, int32_t by) { return (x >> by | x << (c->bits - by)) & c->mask; }

static cipher cipher_of(uint64_t greatest, const uint32_t *key, int32_t rounds) {
  int32_t bits = greatest > 1 ? (int32_t)ceil(log2((double)greatest)) : 1;
  bits += bits % 2;
  cipher c = { .bits = (bits < 16 ? 16 : bits) / 2, .rounds = rounds };
  c.mask = (1ull << c.bits) - 1;
  uint64_t z = 0x7369f885192c0ef5ull & c.mask;
  for (int32_t i = 0; i < 3; i++) c.key[i] = key[i] & c.mask;
  for (int32_t i = 3; i < rounds; i++, z >>= 1)
    c.key[i] = (0xfffffffcull & c.mask) ^ (z & 1) ^ c.key[i - 3] ^ right(&c, c.key[i - 1], 3) ^
               right(&c, c.key[i - 1], 4);
  return c;
}

static uint64_t turn(const cipher *c, uint64_t x) { return (left(c, x, 1) & left(c, x, 8 % c->bits)) ^ left(c, x, 2); }

static uint64_t encrypt(const cipher *c, uint64_t v) {
  uint64_t high = v >> c->bits & c->mask, low = v & c->mask;
  for (int32_t i = 0; i < c->rounds; i += 2) {
    high ^= turn(c, low) ^ c->key[i];
    low ^= turn(c, high) ^ c->key[i + 1];
  }
  return high << c->bits | low;
}

/* How many indices there are; -1: the inputs do not go together, error is filled. */
static int64_t count_of(df_kernel *k, bool *scalar) {
  const df_tensor *index = k->in[0], *seed = k->in[1], *most = k->in[2];
  char a[160], b[160], c[160];
  const int64_t n = index->rank ? index->size : most->rank ? most->size : seed->rank == 2 ? seed->dims[0] : 1;
  *scalar = !index->rank && !most->rank && seed->rank == 1;
  if (index->rank <= 1 && most->rank <= 1 && (seed->rank == 1 || seed->rank == 2) && seed->dims[seed->rank - 1] == 3 &&
      (!index->rank || index->size == n) && (!most->rank || most->size == n) && (seed->rank == 1 || seed->dims[0] == n))
    return n;
  dfk_fail(k, DF_INVALID_ARGUMENT, "index is %s, seed %s and max_index %s: expected one or [n], [3] or [n, 3], and one "
           "or [n]", dfk_shape_text(index, a, sizeof a), dfk_shape_text(seed, b, sizeof b),
           dfk_shape_text(most, c, sizeof c));
  return -1;
}

int32_t ref_index_shuffle(df_kernel *k) {
  const df_tensor *index = k->in[0], *seed = k->in[1], *most = k->in[2];
  const int64_t rounds = dfk_int(k, ROUNDS);
  bool scalar;
  const int64_t n = count_of(k, &scalar);
  if (n < 0) return k->error->code;
  if (rounds < 4 || rounds % 2 || rounds > MOST_ROUNDS)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "rounds is %lld: expected an even number from 4 to %d", (long long)rounds,
                    MOST_ROUNDS);
  df_tensor *out = dfk_out(k, 0, index->dtype, scalar ? 0 : 1, &n);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < n; i++) {
    const uint64_t at = (uint64_t)dfk_any_int(index, index->rank ? i : 0);
    const uint64_t greatest = (uint64_t)dfk_any_int(most, most->rank ? i : 0);
    if (at > greatest)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "index %lld is not among those from 0 to %lld", (long long)at,
                      (long long)greatest);
    uint32_t key[3];
    for (int32_t j = 0; j < 3; j++) key[j] = (uint32_t)dfk_any_int(seed, (seed->rank == 2 ? 3 * i : 0) + j);
    const cipher c = cipher_of(greatest, key, (int32_t)rounds);
    uint64_t v = at;
    do v = encrypt(&c, v); while (v > greatest);
    if (dfk_width(out->dtype) == 8) ((uint64_t *)out->data)[i] = v;
    else ((uint32_t *)out->data)[i] = (uint32_t)v;
  }
  return DF_OK;
}
