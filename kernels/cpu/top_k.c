/* top_k.c: the greatest k of each line, with their places; NaN comes before everything, the first of equals first.
 *
 * Few of a line are found with a heap of the best seen, which blocks without anything better pass by. Many, or all, as
 * sort and argsort want them, are found by sorting the line by the digits of keys, the lowest digit first. Both give
 * the same, so which of them it was does not show. A line is one thread's.
 */
#include "../reduce.h"
#include "../half.h"
#include <string.h>

typedef struct search {
  const void *x;
  int64_t     lines, n, k;
  void       *values;           /* NULL: the places will do */
  int32_t    *places;
  char       *room;             /* for `lanes` lines, each in its own; NULL: a line is sorted on the stack */
  int64_t     lanes, lane_bytes;
} search;

enum {
  FEWEST = 48, MANY = 8,        /* a line of so many elements is sorted for an eighth of them or more */
  STACK = 2048,                 /* so many at most are sorted on the stack */
  NARROW = 8, WIDE = 11, WIDE_FROM = 8192,    /* bits of a digit; from so many elements on more of them */
  BLOCK = 64,                   /* elements that are looked at together */
  LANES = 16, LANES_BYTES = 1 << 26,          /* lines that are sorted at a time, at most; memory for more than one */
};

/* ---- keys: the earlier an element comes, the lower ----------------------------------------------------------- */

#define INTEGER_KEY(NAME, T, U, LOWEST)                                                                            \
  static inline U key_##NAME(T x) { return (U)~((U)x ^ LOWEST); }                                                  \
  static inline T value_##NAME(U key, const T *x, int32_t at) {                                                    \
    (void)x, (void)at;                                                                                             \
    return (T)((U)~key ^ LOWEST);                                                                                  \
  }
INTEGER_KEY(i8, int8_t, uint8_t, 0x80)
INTEGER_KEY(u8, uint8_t, uint8_t, 0)
INTEGER_KEY(i32, int32_t, uint32_t, 0x80000000u)
INTEGER_KEY(i64, int64_t, uint64_t, 0x8000000000000000u)

/* Zeros have one key, and so have all that are not numbers: these are found where they lie. */
#define FLOAT_KEY(NAME, T, U, I, SIGN)                                                                             \
  static inline U key_##NAME(T x) {                                                                                \
    U b;                                                                                                           \
    memcpy(&b, &x, sizeof b);                                                                                      \
    b = x == 0 ? 0 : b;                                                                                            \
    return x != x ? 0 : ~(b ^ ((U)((I)b >> (8 * sizeof b - 1)) | SIGN));                                           \
  }                                                                                                                \
  static inline T value_##NAME(U key, const T *x, int32_t at) {                                                    \
    const U up = ~key, b = up & SIGN ? up ^ SIGN : ~up;                                                            \
    T value;                                                                                                       \
    if (b == 0 || key == 0) return x[at];                                                                          \
    memcpy(&value, &b, sizeof value);                                                                              \
    return value;                                                                                                  \
  }
FLOAT_KEY(f32, float, uint32_t, int32_t, 0x80000000u)
FLOAT_KEY(f64, double, uint64_t, int64_t, 0x8000000000000000u)

/* ---- many: by digits ------------------------------------------------------------------------------------------- */

/* n pairs at p in the order of their keys, of `width` bits; room for as many at q. They end up at one of the two. A
 * digit in which all agree is passed over. */
#define SORT(NAME, U)                                                                                              \
  typedef struct NAME { U key; int32_t at; } NAME;                                                                 \
  static NAME *sort_##NAME(NAME *p, NAME *q, int64_t n, int32_t width) {                                           \
    const int32_t bits = n < WIDE_FROM ? NARROW : WIDE, digits = (width + bits - 1) / bits;                        \
    const U mask = (U)((1 << bits) - 1);                                                                           \
    uint32_t count[(8 * sizeof(U) + WIDE - 1) / WIDE << WIDE];                                                     \
    memset(count, 0, (size_t)(digits << bits) * sizeof *count);                                                    \
    for (int64_t i = 0; i < n; i++)                                                                                \
      for (int32_t d = 0; d < digits; d++) count[(d << bits) + (int32_t)(p[i].key >> d * bits & mask)]++;          \
    for (int32_t d = 0; d < digits; d++) {                                                                         \
      const int32_t shift = d * bits;                                                                              \
      uint32_t *to = count + (d << bits), sum = 0;                                                                 \
      if (to[p[0].key >> shift & mask] == n) continue;                                                             \
      for (uint32_t v = 0; v <= mask; v++) {                                                                       \
        const uint32_t here = to[v];                                                                               \
        to[v] = sum;                                                                                               \
        sum += here;                                                                                               \
      }                                                                                                            \
      for (int64_t i = 0; i < n; i++) q[to[p[i].key >> shift & mask]++] = p[i];                                    \
      NAME *sorted = q;                                                                                            \
      q = p;                                                                                                       \
      p = sorted;                                                                                                  \
    }                                                                                                              \
    return p;                                                                                                      \
  }
SORT(narrow, uint32_t)
SORT(wide, uint64_t)

#define BY_DIGITS(NAME, T, PAIR)                                                                                   \
  static void line_##NAME(const search *s, int64_t line, PAIR *p) {                                                \
    const T *x = (const T *)s->x + line * s->n;                                                                    \
    for (int64_t i = 0; i < s->n; i++) p[i] = (PAIR){ key_##NAME(x[i]), (int32_t)i };                              \
    p = sort_##PAIR(p, p + s->n, s->n, 8 * (int32_t)sizeof(T));                                                    \
    int32_t *places = s->places + line * s->k;                                                                     \
    for (int64_t i = 0; i < s->k; i++) places[i] = p[i].at;                                                        \
    if (!s->values) return;                                                                                        \
    T *values = (T *)s->values + line * s->k;                                                                      \
    for (int64_t i = 0; i < s->k; i++) values[i] = value_##NAME((__typeof__(key_##NAME(0)))p[i].key, x, p[i].at);  \
  }                                                                                                                \
  static void sorted_##NAME(void *arg, int64_t begin, int64_t end) {                                               \
    const search *s = (const search *)arg;                                                                         \
    if (!s->room) {                                                                                                \
      PAIR room[2 * STACK];                                                                                        \
      for (int64_t line = begin; line < end; line++) line_##NAME(s, line, room);                                   \
      return;                                                                                                      \
    }                                                                                                              \
    for (int64_t lane = begin; lane < end; lane++)                                                                 \
      for (int64_t line = lane; line < s->lines; line += s->lanes)                                                 \
        line_##NAME(s, line, (PAIR *)(s->room + lane * s->lane_bytes));                                            \
  }
BY_DIGITS(f32, float, narrow)
BY_DIGITS(f64, double, wide)
BY_DIGITS(i8, int8_t, narrow)
BY_DIGITS(u8, uint8_t, narrow)
BY_DIGITS(i32, int32_t, narrow)
BY_DIGITS(i64, int64_t, wide)

/* ---- few: a heap of the best seen, its worst at the root ------------------------------------------------------- */

#define BY_HEAP(NAME, T)                                                                                           \
  static inline bool NAME##_above(const T *x, int32_t a, int32_t b) {                                              \
    T p = x[a], q = x[b];                                                                                          \
    bool nan_p = p != p, nan_q = q != q;                                                                           \
    if (nan_p || nan_q) return nan_p != nan_q ? nan_p : a < b;                                                     \
    return p != q ? p > q : a < b;                                                                                 \
  }                                                                                                                \
  static void NAME##_sink(const T *x, int32_t *h, int64_t n, int64_t i) {                                          \
    int32_t v = h[i];                                                                                              \
    for (int64_t c; (c = 2 * i + 1) < n; i = c) {                                                                  \
      if (c + 1 < n && NAME##_above(x, h[c], h[c + 1])) c++;                                                       \
      if (!NAME##_above(x, v, h[c])) break;                                                                        \
      h[i] = h[c];                                                                                                 \
    }                                                                                                              \
    h[i] = v;                                                                                                      \
  }                                                                                                                \
  /* May any of BLOCK elements be better than the worst of those kept? */                                          \
  static inline bool NAME##_any(const T *x, T worst) {                                                             \
    int32_t any = 0;                                                                                               \
    for (int32_t i = 0; i < BLOCK; i++) any |= (x[i] > worst) | (x[i] != x[i]);                                    \
    return any;                                                                                                    \
  }                                                                                                                \
  static void heap_##NAME(void *arg, int64_t begin, int64_t end) {                                                 \
    const search *s = (const search *)arg;                                                                         \
    for (int64_t line = begin; line < end; line++) {                                                               \
      const T *x = (const T *)s->x + line * s->n;                                                                  \
      int32_t *h = s->places + line * s->k;                                                                        \
      for (int64_t i = 0; i < s->k; i++) h[i] = (int32_t)i;                                                        \
      for (int64_t i = s->k / 2 - 1; i >= 0; i--) NAME##_sink(x, h, s->k, i);                                      \
      for (int64_t i = s->k; i < s->n; i++) {                                                                      \
        while (i + BLOCK <= s->n && !NAME##_any(x + i, x[h[0]])) i += BLOCK;                                       \
        for (int64_t block = i + BLOCK < s->n ? i + BLOCK : s->n; i < block; i++)                                  \
          if (NAME##_above(x, (int32_t)i, h[0])) { h[0] = (int32_t)i; NAME##_sink(x, h, s->k, 0); }                \
        i--;                                                                                                       \
      }                                                                                                            \
      for (int64_t left = s->k - 1; left > 0; left--) {                                                            \
        int32_t worst = h[0];                                                                                      \
        h[0] = h[left];                                                                                            \
        h[left] = worst;                                                                                           \
        NAME##_sink(x, h, left, 0);                                                                                \
      }                                                                                                            \
      if (s->values) for (int64_t i = 0; i < s->k; i++) ((T *)s->values)[line * s->k + i] = x[h[i]];               \
    }                                                                                                              \
  }
BY_HEAP(f32, float)
BY_HEAP(f64, double)
BY_HEAP(i8, int8_t)
BY_HEAP(u8, uint8_t)
BY_HEAP(i32, int32_t)
BY_HEAP(i64, int64_t)

/* ---- which way --------------------------------------------------------------------------------------------------- */

static df_range_fn search_of(uint8_t dtype, bool many) {
  switch (dtype) {
    case DF_FLOAT64: return many ? sorted_f64 : heap_f64;
    case DF_INT8:    return many ? sorted_i8 : heap_i8;
    case DF_UINT8:
    case DF_BOOL:    return many ? sorted_u8 : heap_u8;
    case DF_INT32:   return many ? sorted_i32 : heap_i32;
    case DF_INT64:   return many ? sorted_i64 : heap_i64;
    default:         return many ? sorted_f32 : heap_f32;
  }
}

/* Searches s->lines lines of elements of this dtype, floats where it is a half type. */
static int32_t run(df_kernel *k, search *s, uint8_t dtype) {
  const bool many = s->n >= FEWEST && s->k >= s->n / MANY;
  const df_range_fn fn = search_of(dtype, many);
  int64_t tasks = s->lines;
  if (many && s->n > STACK) {
    const bool is_wide = dtype == DF_FLOAT64 || dtype == DF_INT64;
    s->lane_bytes = 2 * s->n * (int64_t)(is_wide ? sizeof(wide) : sizeof(narrow));
    s->lanes = LANES_BYTES / s->lane_bytes < 1 ? 1 : LANES_BYTES / s->lane_bytes;
    s->lanes = s->lanes > LANES ? LANES : s->lanes;
    tasks = s->lanes = s->lanes > s->lines ? s->lines : s->lanes;
    s->room = dfk_scratch(k, s->lanes * s->lane_bytes);
    if (!s->room) return DF_RESOURCE_EXHAUSTED;
  }
  dfk_parallel(k, tasks, s->n >= 32768 ? 1 : 32768 / s->n, fn, s);
  dfk_free(s->room);
  return DF_OK;
}

int32_t cpu_top_k(df_kernel *k) {
  const df_tensor *x = k->in[0];
  if (dfk_is_rare(x->dtype)) return ref_top_k(k);
  dfk_top t;
  if (!dfk_top_k_begin(k, &t)) return k->error->code;
  df_tensor *values = t.values;
  if (values->size == 0) return DF_OK;
  search s = { .n = t.n, .lines = t.rows, .k = t.count, .x = x->data, .places = (int32_t *)t.indices->data };
  if (!dfk_is_half(x->dtype)) {
    s.values = values->data;
    return run(k, &s, x->dtype);
  }
  float *f = (float *)dfk_scratch(k, x->size * 4);
  if (!f) return DF_RESOURCE_EXHAUSTED;
  dfk_half_to_floats(x->dtype, f, (const uint16_t *)x->data, x->size);
  s.x = f;
  const int32_t code = run(k, &s, x->dtype);
  const uint16_t *from = (const uint16_t *)x->data;
  uint16_t *to = (uint16_t *)values->data;
  for (int64_t i = 0; i < values->size && !code; i++) to[i] = from[i / s.k * s.n + s.places[i]];
  dfk_free(f);
  return code;
}
