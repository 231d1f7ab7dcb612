/* argminmax.c: argmax and argmin. Lines are independent of each other; each is searched in order, so the first of
 * equals wins on any number of threads. */
#include "../reduce.h"
#include "../half.h"
#include "lanes.h"

typedef struct search {
  const void *x;
  int64_t     n, inner;
  bool        least, wide;      /* wide: int64 results */
  void       *y;
} search;

static inline void put(const search *s, int64_t i, int64_t v) {
  if (s->wide) ((int64_t *)s->y)[i] = v;
  else ((int32_t *)s->y)[i] = (int32_t)v;
}

/* Does b come before a, which was found earlier? NaN comes before everything. */
#define BEATS(a, b, least) (((least) ? (b) < (a) : (b) > (a)) || ((b) != (b) && (a) == (a)))

/* best = v in the lanes where v beats it: a NaN stays, or another takes its place. */
#define BETTER(best, v)                                                                                            \
  do {                                                                                                             \
    const __typeof__(v > best) m = (least ? v < best : v > best) | (v != v);                                       \
    best = (__typeof__(v))(((__typeof__(m))v & m) | ((__typeof__(m))best & ~m));                                  \
  } while (0)

/* Lines side by side in memory are searched together, a block of WIDTH; a line of its own is searched for its best
 * element, and then for where that is. N is an integer as wide as T. ANY(mask): is any lane set? */
enum { WIDTH = 128 };
#define ARG(NAME, T, V, N, ANY)                                                                                    \
  static int64_t NAME##_line(const T *x, int64_t n, bool least) {                                                  \
    enum { L = (int)(sizeof(V) / sizeof(T)) };                                                                     \
    T top = x[0];                                                                                                  \
    int64_t i = 0, whole = n / L * L;                                                                              \
    if (whole) {                                                                                                   \
      V best[4], v;                                                                                                \
      for (int q = 0; q < 4; q++) memcpy(&best[q], x, sizeof v);                                                   \
      for (; i + 4 * L <= whole; i += 4 * L)                                                                       \
        for (int q = 0; q < 4; q++) {                                                                              \
          memcpy(&v, x + i + q * L, sizeof v);                                                                     \
          BETTER(best[q], v);                                                                                      \
        }                                                                                                          \
      for (; i < whole; i += L) {                                                                                  \
        memcpy(&v, x + i, sizeof v);                                                                               \
        BETTER(best[0], v);                                                                                        \
      }                                                                                                            \
      for (int q = 1; q < 4; q++) BETTER(best[0], best[q]);                                                        \
      T lane[L];                                                                                                   \
      memcpy(lane, best, sizeof lane);                                                                             \
      top = lane[0];                                                                                               \
      for (int q = 1; q < L; q++) top = BEATS(top, lane[q], least) ? lane[q] : top;                            \
    }                                                                                                              \
    for (; i < n; i++) top = BEATS(top, x[i], least) ? x[i] : top;                                                 \
    bool none = top != top;                                                                                        \
    for (i = 0; i < whole; i += L) {                                                                               \
      V v, t = (V){ 0 } + top;                                                                                     \
      memcpy(&v, x + i, sizeof v);                                                                                 \
      if (ANY((v == t) | (none ? v != v : v == t))) break;                                                         \
    }                                                                                                              \
    while (i < n - 1 && !(none ? x[i] != x[i] : x[i] == top)) i++;                                                 \
    return i;                                                                                                      \
  }                                                                                                                \
  static void NAME(void *arg, int64_t begin, int64_t end) {                                                        \
    const search *s = (const search *)arg;                                                                         \
    int64_t n = s->n, inner = s->inner;                                                                            \
    bool least = s->least;                                                                                         \
    for (int64_t line = begin; line < end && inner == 1; line++)                                                   \
      put(s, line, NAME##_line((const T *)s->x + line * n, n, least));                                             \
    for (int64_t line = begin, w; line < end && inner > 1; line += w) {                                            \
      const T *x = (const T *)s->x + line / inner * n * inner + line % inner;                                      \
      T top[WIDTH];                                                                                                \
      N at[WIDTH];                                                                                                 \
      w = inner - line % inner;                                                                                    \
      if (w > end - line) w = end - line;                                                                          \
      if (w > WIDTH) w = WIDTH;                                                                                    \
      for (int64_t j = 0; j < w; j++) { top[j] = x[j]; at[j] = 0; }                                                \
      for (int64_t i = 1; i < n; i++) {                                                                            \
        const T *p = x + i * inner;                                                                                \
        if (least)                                                                                                 \
          for (int64_t j = 0; j < w; j++) {                                                                        \
            bool b = BEATS(top[j], p[j], true);                                                                    \
            top[j] = b ? p[j] : top[j];                                                                            \
            at[j] = b ? (N)i : at[j];                                                                              \
          }                                                                                                        \
        else                                                                                                       \
          for (int64_t j = 0; j < w; j++) {                                                                        \
            bool b = BEATS(top[j], p[j], false);                                                                   \
            top[j] = b ? p[j] : top[j];                                                                            \
            at[j] = b ? (N)i : at[j];                                                                              \
          }                                                                                                        \
      }                                                                                                            \
      for (int64_t j = 0; j < w; j++) put(s, line + j, (int64_t)at[j]);                                            \
    }                                                                                                              \
  }
typedef int8_t  vi8 __attribute__((vector_size(8)));
typedef uint8_t vu8 __attribute__((vector_size(8)));
static inline bool any_i8(vi8 m) { uint64_t u; memcpy(&u, &m, 8); return u != 0; }
ARG(arg_f32, float, vf32, int32_t, any_i32)
ARG(arg_f64, double, vf64, int64_t, any_i64)
ARG(arg_i8, int8_t, vi8, int64_t, any_i8)
ARG(arg_u8, uint8_t, vu8, int64_t, any_i8)
ARG(arg_i32, int32_t, vi32, int32_t, any_i32)
ARG(arg_i64, int64_t, vi64, int64_t, any_i64)

/* Lines that fit into one register, as the scores of a few classes do: 2 ns each, by the above 27. NONE(v): the lanes
 * that are not numbers. */
#if defined(__AVX512F__)
#define FEW(NAME, T, V, M, K, LOW, HIGH, NONE)                                                                     \
  static void NAME##_few(void *arg, int64_t begin, int64_t end) {                                                  \
    const search *s = arg;                                                                                         \
    const M some = (M)((1u << s->n) - 1);                                                                          \
    const V rest = _mm512_set1_##K(s->least ? HIGH : LOW);                                                         \
    for (int64_t line = begin; line < end; line++) {                                                               \
      const V v = _mm512_mask_loadu_##K(rest, some, (const T *)s->x + line * s->n);                                \
      const M none = NONE(v);                                                                                      \
      const V best = _mm512_set1_##K(s->least ? _mm512_reduce_min_##K(v) : _mm512_reduce_max_##K(v));              \
      put(s, line, __builtin_ctz(none ? none : EQUAL_##K(v, best)));                                               \
    }                                                                                                              \
  }
#define EQUAL_ps(a, b)    _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ)
#define EQUAL_pd(a, b)    _mm512_cmp_pd_mask(a, b, _CMP_EQ_OQ)
#define EQUAL_epi32(a, b) _mm512_cmpeq_epi32_mask(a, b)
#define EQUAL_epi64(a, b) _mm512_cmpeq_epi64_mask(a, b)
#define NONE_ps(v)        _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q)
#define NONE_pd(v)        _mm512_cmp_pd_mask(v, v, _CMP_UNORD_Q)
#define NONE_int(v)       0
FEW(arg_f32, float, __m512, __mmask16, ps, -INFINITY, INFINITY, NONE_ps)
FEW(arg_f64, double, __m512d, __mmask8, pd, -INFINITY, INFINITY, NONE_pd)
FEW(arg_i32, int32_t, __m512i, __mmask16, epi32, INT32_MIN, INT32_MAX, NONE_int)
FEW(arg_i64, int64_t, __m512i, __mmask8, epi64, INT64_MIN, INT64_MAX, NONE_int)
#else
#define arg_f32_few arg_f32
#define arg_f64_few arg_f64
#define arg_i32_few arg_i32
#define arg_i64_few arg_i64
#endif

static df_range_fn search_of(uint8_t dtype, const search *s) {
  const bool few = s->inner == 1 && s->n <= VEC_BYTES / df_dtype_bytes(dtype);
  switch (dtype) {
    case DF_FLOAT64: return few ? arg_f64_few : arg_f64;
    case DF_INT8:    return arg_i8;
    case DF_UINT8:   return arg_u8;
    case DF_INT32:   return few ? arg_i32_few : arg_i32;
    case DF_INT64:   return few ? arg_i64_few : arg_i64;
    default:         return s->inner == 1 && s->n <= LANES_f32 ? arg_f32_few : arg_f32;     /* half types, too */
  }
}

/* Runs the search over all lines, float16 and bfloat16 as floats. */
static int32_t run(df_kernel *k, search *s, const df_tensor *x, int64_t lines) {
  float *f = NULL;
  s->x = x->data;
  if (dfk_is_half(x->dtype)) {
    s->x = f = (float *)dfk_scratch(k, x->size * 4 + 4);
    if (!f) return DF_RESOURCE_EXHAUSTED;
    dfk_half_to_floats(x->dtype, f, (const uint16_t *)x->data, x->size);
  }
  if (lines > 0) dfk_parallel(k, lines, s->n >= 32768 ? 1 : 32768 / s->n, search_of(x->dtype, s), s);
  dfk_free(f);
  return DF_OK;
}

static int32_t arg(df_kernel *k, bool least) {
  const df_tensor *x = k->in[0];
  if (dfk_is_rare(x->dtype) || x->dtype == DF_BOOL) return least ? ref_arg_min(k) : ref_arg_max(k);
  int32_t axis = dfk_scalar_axis_of(k, k->in[1], x), rank = 0;
  if (axis < 0) return DF_INVALID_ARGUMENT;
  search s = { .n = x->dims[axis], .inner = 1, .least = least, .wide = k->out_dtype[0] == DF_INT64 };
  int64_t dims[DF_MAX_RANK], lines = 1;
  for (int32_t i = 0; i < x->rank; i++) {
    if (i == axis) continue;
    if (i > axis) s.inner *= x->dims[i];
    lines *= dims[rank++] = x->dims[i];
  }
  char text[160];
  if (s.n == 0 && lines > 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%s of an empty axis: axis %d of %s has no elements",
                    least ? "argmin" : "argmax", axis, dfk_shape_text(x, text, sizeof text));
  df_tensor *y = dfk_out(k, 0, k->out_dtype[0], rank, dims);
  if (!y) return DF_RESOURCE_EXHAUSTED;
  s.y = y->data;
  return run(k, &s, x, lines);
}

int32_t cpu_arg_max(df_kernel *k) { return arg(k, false); }
int32_t cpu_arg_min(df_kernel *k) { return arg(k, true); }
