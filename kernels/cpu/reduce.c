/* reduce.c: fast reductions.
 *
 * The axes are collapsed into alternating kept and folded ones, and folded one after the other, the innermost first.
 * Each such stage is [A, R, B] -> [A, B]: rows when B is 1, columns otherwise. A stage is cut into pieces by its size
 * alone, and pieces are folded in order, so that results do not depend on threads.
 */
#include "../nn.h"
#include "../reduce.h"
#include "../half.h"
#include "lanes.h"
#include "rows.h"

/* The ways to fold elements of one type. `columns` takes at most FOLD_WIDTH columns. */
enum { FOLD_WIDTH = 1024, PIECE = 32768 };
typedef struct fold {
  void (*row)(const void *x, int64_t n, void *y);
  void (*rows)(const void *x, int64_t rows, int64_t n, void *y);
  void (*columns)(const void *x, int64_t rows, int64_t stride, int64_t w, void *y);
  dfk_add_fn add;
  int64_t width;
} fold;

#define FOLD(a, b)     ((T)((a) + (b)))
#define VFOLD(v, a, b) ((a) + (b))
#define T float
#define NAME(f) sum_f32_##f
#define LANES(a) sum_lanes_f32((vf32)(a))
#include "fold_body.h"
#define T double
#define NAME(f) sum_f64_##f
#define LANES(a) sum_lanes_f64((vf64)(a))
#include "fold_body.h"
#define T uint8_t
#define NAME(f) sum_u8_##f
#include "fold_body.h"
#define T uint16_t
#define NAME(f) sum_u16_##f
#include "fold_body.h"
#define T uint32_t
#define NAME(f) sum_u32_##f
#include "fold_body.h"
#define T uint64_t
#define NAME(f) sum_u64_##f
#include "fold_body.h"
#undef FOLD
#undef VFOLD

#define FOLD(a, b)     ((T)((a) * (b)))
#define VFOLD(v, a, b) ((a) * (b))
#define T float
#define NAME(f) prod_f32_##f
#include "fold_body.h"
#define T double
#define NAME(f) prod_f64_##f
#include "fold_body.h"
#define T uint8_t
#define NAME(f) prod_u8_##f
#include "fold_body.h"
#define T uint16_t
#define NAME(f) prod_u16_##f
#include "fold_body.h"
#define T uint32_t
#define NAME(f) prod_u32_##f
#include "fold_body.h"
#define T uint64_t
#define NAME(f) prod_u64_##f
#include "fold_body.h"
#undef FOLD
#undef VFOLD

#define FOLD(a, b)     ((b) != (b) ? (b) : (b) > (a) ? (b) : (a))
#define PICK(v, m) static inline v pick_##v(m mask, v yes, v no) { return (v)(((m)yes & mask) | ((m)no & ~mask)); }
typedef int8_t  vi8 __attribute__((vector_size(VEC_BYTES)));
typedef uint8_t vu8 __attribute__((vector_size(VEC_BYTES)));
typedef int16_t  vi16 __attribute__((vector_size(VEC_BYTES)));
typedef uint16_t vu16 __attribute__((vector_size(VEC_BYTES)));
typedef uint32_t vu32 __attribute__((vector_size(VEC_BYTES)));
typedef uint64_t vu64 __attribute__((vector_size(VEC_BYTES)));
PICK(vi8, vi8) PICK(vu8, vi8) PICK(vi16, vi16) PICK(vu16, vi16)
PICK(vi32, vi32) PICK(vu32, vi32) PICK(vi64, vi64) PICK(vu64, vi64)

#define VFOLD(v, a, b) ((v)max_f32((vf32)(a), (vf32)(b)))
#define T float
#define NAME(f) max_f32_##f
#include "fold_body.h"
#undef VFOLD
#define VFOLD(v, a, b) ((v)max_f64((vf64)(a), (vf64)(b)))
#define T double
#define NAME(f) max_f64_##f
#include "fold_body.h"
#undef VFOLD
#define VFOLD(v, a, b) VPICK((b > a) | (b != b), b, a)
#define T int8_t
#define VPICK pick_vi8
#define NAME(f) max_i8_##f
#include "fold_body.h"
#undef VPICK
#define T uint8_t
#define VPICK pick_vu8
#define NAME(f) max_u8_##f
#include "fold_body.h"
#undef VPICK
#define T int16_t
#define VPICK pick_vi16
#define NAME(f) max_i16_##f
#include "fold_body.h"
#undef VPICK
#define T uint16_t
#define VPICK pick_vu16
#define NAME(f) max_u16_##f
#include "fold_body.h"
#undef VPICK
#define T uint32_t
#define VPICK pick_vu32
#define NAME(f) max_u32_##f
#include "fold_body.h"
#undef VPICK
#define T uint64_t
#define VPICK pick_vu64
#define NAME(f) max_u64_##f
#include "fold_body.h"
#undef VPICK
#define T int32_t
#define VPICK pick_vi32
#define NAME(f) max_i32_##f
#include "fold_body.h"
#undef VPICK
#define T int64_t
#define VPICK pick_vi64
#define NAME(f) max_i64_##f
#include "fold_body.h"
#undef VPICK
#undef FOLD
#undef VFOLD

#define FOLD(a, b)     ((b) != (b) ? (b) : (b) < (a) ? (b) : (a))
#define VFOLD(v, a, b) ((v)min_f32((vf32)(a), (vf32)(b)))
#define T float
#define NAME(f) min_f32_##f
#include "fold_body.h"
#undef VFOLD
#define VFOLD(v, a, b) ((v)min_f64((vf64)(a), (vf64)(b)))
#define T double
#define NAME(f) min_f64_##f
#include "fold_body.h"
#undef VFOLD
#define VFOLD(v, a, b) VPICK((b < a) | (b != b), b, a)
#define T int8_t
#define VPICK pick_vi8
#define NAME(f) min_i8_##f
#include "fold_body.h"
#undef VPICK
#define T uint8_t
#define VPICK pick_vu8
#define NAME(f) min_u8_##f
#include "fold_body.h"
#undef VPICK
#define T int16_t
#define VPICK pick_vi16
#define NAME(f) min_i16_##f
#include "fold_body.h"
#undef VPICK
#define T uint16_t
#define VPICK pick_vu16
#define NAME(f) min_u16_##f
#include "fold_body.h"
#undef VPICK
#define T uint32_t
#define VPICK pick_vu32
#define NAME(f) min_u32_##f
#include "fold_body.h"
#undef VPICK
#define T uint64_t
#define VPICK pick_vu64
#define NAME(f) min_u64_##f
#include "fold_body.h"
#undef VPICK
#define T int32_t
#define VPICK pick_vi32
#define NAME(f) min_i32_##f
#include "fold_body.h"
#undef VPICK
#define T int64_t
#define VPICK pick_vi64
#define NAME(f) min_i64_##f
#include "fold_body.h"
#undef VPICK
#undef FOLD
#undef VFOLD

typedef enum kind { SUM, MEAN, PROD, MAX, MIN, LOG_SUM_EXP, NORM } kind;

static const fold *fold_of(kind f, int32_t dtype) {
  static const fold *const sums[] = { &sum_f32_fold, &sum_f64_fold, &sum_u8_fold,  &sum_u8_fold,  &sum_u16_fold,
                                      &sum_u16_fold, &sum_u32_fold, &sum_u32_fold, &sum_u64_fold, &sum_u64_fold };
  static const fold *const prods[] = { &prod_f32_fold, &prod_f64_fold, &prod_u8_fold,  &prod_u8_fold,  &prod_u16_fold,
                                       &prod_u16_fold, &prod_u32_fold, &prod_u32_fold, &prod_u64_fold, &prod_u64_fold };
  static const fold *const maxs[] = { &max_f32_fold, &max_f64_fold, &max_i8_fold,  &max_u8_fold,  &max_i16_fold,
                                      &max_u16_fold, &max_i32_fold, &max_u32_fold, &max_i64_fold, &max_u64_fold };
  static const fold *const mins[] = { &min_f32_fold, &min_f64_fold, &min_i8_fold,  &min_u8_fold,  &min_i16_fold,
                                      &min_u16_fold, &min_i32_fold, &min_u32_fold, &min_i64_fold, &min_u64_fold };
  int i = 3;                                             /* uint8 and bool */
  switch (dtype) {
    case DF_FLOAT32: i = 0; break;
    case DF_FLOAT64: i = 1; break;
    case DF_INT8:    i = 2; break;
    case DF_INT16:   i = 4; break;
    case DF_UINT16:  i = 5; break;
    case DF_INT32:   i = 6; break;
    case DF_UINT32:  i = 7; break;
    case DF_INT64:   i = 8; break;
    case DF_UINT64:  i = 9; break;
  }
  return f == PROD ? prods[i] : f == MAX ? maxs[i] : f == MIN ? mins[i] : sums[i];
}

/* ---- one stage: [A, R, B] -> [A, B] --------------------------------------------------------------- */

typedef struct stage {
  const fold *fold;
  const char *x;
  char       *y;
  int64_t     a, r, b;
  int64_t     rows, row_pieces;     /* rows of a piece; pieces of R */
  int64_t     columns, column_pieces;
} stage;

static void fold_pieces(void *arg, int64_t begin, int64_t end) {
  const stage *s = (const stage *)arg;
  int64_t w = s->fold->width;
  if (s->b == 1 && s->row_pieces == 1) {
    s->fold->rows(s->x + begin * s->r * w, end - begin, s->r, s->y + begin * w);
    return;
  }
  for (int64_t i = begin; i < end; i++) {
    int64_t c = i % s->column_pieces, p = i / s->column_pieces % s->row_pieces,
            a = i / s->column_pieces / s->row_pieces;
    int64_t row = p * s->rows, rows = row + s->rows < s->r ? s->rows : s->r - row, column = c * s->columns;
    int64_t columns = column + s->columns < s->b ? s->columns : s->b - column;
    const char *x = s->x + ((a * s->r + row) * s->b + column) * w;
    char *y = s->y + ((a * s->row_pieces + p) * s->b + column) * w;
    if (s->b == 1) { s->fold->row(x, rows, y); continue; }
    int64_t group = columns == s->b && columns < DFK_FOLD_LEAD ? 64 / columns : 1;
    if (rows < 2 * group) group = 1;
    if (group == 1) { s->fold->columns(x, rows, s->b, columns, y); continue; }
    /* Few columns: several rows are taken as one wide row, and then the wide row is folded. */
    char wide[64 * 8] __attribute__((aligned(64)));
    s->fold->columns(x, rows / group, group * columns, group * columns, wide);
    s->fold->columns(wide, group, columns, columns, y);
    int64_t rest = rows % group;
    if (!rest) continue;
    memcpy(wide, y, (size_t)(columns * w));
    s->fold->columns(x + (rows - rest) * columns * w, rest, columns, columns, wide + columns * w);
    s->fold->columns(wide, 2, columns, columns, y);
  }
}

/* Rows of a piece, where r rows of b elements are folded into one. */
static int64_t piece_rows(int64_t r, int64_t b) {
  if (r <= 256 || r * b <= 2 * PIECE) return r;
  return PIECE / b < DFK_FOLD_BLOCK ? DFK_FOLD_BLOCK : PIECE / b;
}

static int32_t fold_stage(df_kernel *k, const fold *f, const char *x, char *y, int64_t a, int64_t r, int64_t b) {
  stage s = {
    .fold = f, .x = x, .y = y, .a = a, .r = r, .b = b, .rows = piece_rows(r, b), .columns = b, .column_pieces = 1
  };
  s.row_pieces = r ? (r + s.rows - 1) / s.rows : 1;
  if (b > FOLD_WIDTH) { s.columns = FOLD_WIDTH; s.column_pieces = (b + FOLD_WIDTH - 1) / FOLD_WIDTH; }
  char *part = NULL;
  if (s.row_pieces > 1) {
    part = (char *)dfk_scratch(k, a * s.row_pieces * b * f->width);
    if (!part) return DF_RESOURCE_EXHAUSTED;
    s.y = part;
  }
  int64_t pieces = a * s.row_pieces * s.column_pieces, each = s.rows * s.columns;
  if (a * r * b <= 2 * PIECE) fold_pieces(&s, 0, pieces);
  else dfk_parallel(k, pieces, each >= PIECE ? 1 : PIECE / each, fold_pieces, &s);
  if (!part) return DF_OK;
  int32_t code = fold_stage(k, f, part, y, a, s.row_pieces, b);
  dfk_free(part);
  return code;
}

/* logsumexp of [A, R, B] -> [A, B], in float or double. Rows of exp are summed in order. */
typedef struct lse { const void *x; void *y; int64_t r, b; } lse;

static float lse_row_f32(const float *x, int64_t n) {
  vf32 m = splat_f32(-INFINITY), sum = splat_f32(0);
  int64_t i, rest = n % LANES_f32;
  for (i = 0; i + LANES_f32 <= n; i += LANES_f32) m = max_f32(m, load_f32(x + i));
  if (rest) m = max_f32(m, load_part_f32(x + i, rest, -INFINITY));
  float top = max_lanes_f32(m), base = isfinite(top) ? top : 0;
  vf32 minus = splat_f32(base);
  for (i = 0; i + LANES_f32 <= n; i += LANES_f32) sum += exp_f32(load_f32(x + i) - minus);
  if (rest) sum += exp_f32(load_part_f32(x + i, rest, -INFINITY) - minus);
  return base + logf(sum_lanes_f32(sum));
}

static double lse_row_f64(const double *x, int64_t n) {
  vf64 m = splat_f64(-INFINITY), sum = splat_f64(0);
  int64_t i, rest = n % LANES_f64;
  for (i = 0; i + LANES_f64 <= n; i += LANES_f64) m = max_f64(m, load_f64(x + i));
  if (rest) m = max_f64(m, load_part_f64(x + i, rest, -INFINITY));
  double top = max_lanes_f64(m), base = isfinite(top) ? top : 0;
  vf64 minus = splat_f64(base);
  for (i = 0; i + LANES_f64 <= n; i += LANES_f64) sum += exp_f64(load_f64(x + i) - minus);
  if (rest) sum += exp_f64(load_part_f64(x + i, rest, -INFINITY) - minus);
  return base + log(sum_lanes_f64(sum));
}

/* Rows: a result each. Columns: side by side, a block of LSE_WIDTH at a time, summed in blocks of 128 rows. */
enum { LSE_WIDTH = 256 };
#define LSE(T, L, S)                                                                                                 \
  static void lse_rows_##S(void *arg, int64_t begin, int64_t end) {                                                  \
    const lse *l = (const lse *)arg;                                                                                 \
    for (int64_t i = begin; i < end; i++) ((T *)l->y)[i] = lse_row_##S((const T *)l->x + i * l->r, l->r);            \
  }                                                                                                                  \
  static void lse_columns_##S(void *arg, int64_t begin, int64_t end) {                                               \
    const lse *l = (const lse *)arg;                                                                                 \
    int64_t blocks = (l->b + LSE_WIDTH - 1) / LSE_WIDTH;                                                             \
    T top[LSE_WIDTH], base[LSE_WIDTH], part[LSE_WIDTH], total[LSE_WIDTH];                                            \
    for (int64_t i = begin; i < end; i++) {                                                                          \
      int64_t j = i % blocks * LSE_WIDTH, w = l->b - j < LSE_WIDTH ? l->b - j : LSE_WIDTH;                           \
      const T *x = (const T *)l->x + i / blocks * l->r * l->b + j;                                                   \
      T *y = (T *)l->y + i / blocks * l->b + j;                                                                      \
      for (int64_t q = 0; q < w; q++) { top[q] = -INFINITY; total[q] = part[q] = 0; }                                \
      for (int64_t r = 0; r < l->r; r++) {                                                                           \
        const T *p = x + r * l->b;                                                                                   \
        for (int64_t q = 0; q < w; q++) top[q] = p[q] > top[q] || p[q] != p[q] ? p[q] : top[q];                      \
      }                                                                                                              \
      for (int64_t q = 0; q < w; q++) base[q] = isfinite(top[q]) ? top[q] : 0;                                       \
      for (int64_t r = 0; r < l->r; r++) {                                                                           \
        const T *p = x + r * l->b;                                                                                   \
        int64_t q = 0;                                                                                               \
        for (; q + L <= w; q += L)                                                                                   \
          store_##S(part + q, load_##S(part + q) + exp_##S(load_##S(p + q) - load_##S(base + q)));                   \
        if (q < w)                                                                                                   \
          store_some_##S(part + q, load_part_##S(part + q, w - q, 0) +                                               \
                         exp_##S(load_part_##S(p + q, w - q, 0) - load_part_##S(base + q, w - q, 0)), w - q);        \
        if (r % 128 == 127 || r + 1 == l->r)                                                                         \
          for (q = 0; q < w; q++) { total[q] += part[q]; part[q] = 0; }                                              \
      }                                                                                                              \
      for (int64_t q = 0; q < w; q++) y[q] = base[q] + log_of_##S(total[q]);                                         \
    }                                                                                                                \
  }
static inline float  log_of_f32(float x)  { return logf(x); }
static inline double log_of_f64(double x) { return log(x); }
LSE(float, LANES_f32, f32)
LSE(double, LANES_f64, f64)

static int32_t lse_stage(df_kernel *k, bool wide, const char *x, char *y, int64_t a, int64_t r, int64_t b) {
  lse l = { x, y, r, b };
  if (b == 1) {
    dfk_parallel(k, a, r >= 8192 ? 1 : 8192 / r, wide ? lse_rows_f64 : lse_rows_f32, &l);
  } else {
    int64_t width = b < LSE_WIDTH ? b : LSE_WIDTH, grain = 8192 / (r * width);
    dfk_parallel(k, a * ((b + LSE_WIDTH - 1) / LSE_WIDTH), grain < 1 ? 1 : grain,
                 wide ? lse_columns_f64 : lse_columns_f32, &l);
  }
  return DF_OK;
}

/* ---- whole reductions ------------------------------------------------------------------------------- */

/* Axes collapsed: n alternating runs, the first of them folded or kept. */
typedef struct runs { int32_t n; int64_t dim[DF_MAX_RANK]; bool folded[DF_MAX_RANK]; } runs;

static void collapse(const dfk_reduction *r, runs *c) {
  c->n = 0;
  for (int32_t i = 0; i < r->rank; i++) {
    if (r->dims[i] == 1) continue;
    if (c->n && c->folded[c->n - 1] == r->reduced[i]) c->dim[c->n - 1] *= r->dims[i];
    else { c->dim[c->n] = r->dims[i]; c->folded[c->n++] = r->reduced[i]; }
  }
}

/* Takes out run `at`. Its neighbours, both of the other kind, become one. */
static void drop(runs *c, int32_t at) {
  bool join = at > 0 && at + 1 < c->n;
  if (join) c->dim[at - 1] *= c->dim[at + 1];
  c->n -= 1 + join;
  for (int32_t i = at; i < c->n; i++) { c->dim[i] = c->dim[i + 1 + join]; c->folded[i] = c->folded[i + 1 + join]; }
}

/* Folds x (size elements of f's type or of `wide` floats) stage by stage into y. */
static int32_t fold_all(df_kernel *k, kind what, int32_t dtype, const char *x, char *y, const runs *given) {
  runs c = *given;
  const fold *f = fold_of(what, dtype);
  char *owned = NULL;
  int32_t code = DF_OK;
  bool any = false;
  while (!code) {
    int32_t at = c.n - 1, left = 0;
    while (at >= 0 && !c.folded[at]) at--;
    if (at < 0) break;
    for (int32_t i = 0; i < at; i++) left += c.folded[i];
    int64_t a = 1, b = 1;
    for (int32_t i = 0; i < at; i++) a *= c.dim[i];
    for (int32_t i = at + 1; i < c.n; i++) b *= c.dim[i];
    char *to = left ? (char *)dfk_scratch(k, a * b * f->width) : y;
    if (!to) { code = DF_RESOURCE_EXHAUSTED; break; }
    code = what == LOG_SUM_EXP ? lse_stage(k, dtype == DF_FLOAT64, x, to, a, c.dim[at], b)
                               : fold_stage(k, f, x, to, a, c.dim[at], b);
    dfk_free(owned);
    owned = left ? to : NULL;
    x = to;
    any = true;
    drop(&c, at);
  }
  dfk_free(owned);
  if (!code && !any) {
    int64_t n = 1;
    for (int32_t i = 0; i < c.n; i++) n *= c.dim[i];
    memcpy(y, x, (size_t)(n * f->width));
  }
  return code;
}

/* What folding nothing gives. */
static void fill_neutral(kind what, df_tensor *y) {
  for (int64_t i = 0; i < y->size; i++) {
    double v = what == PROD                         ? 1
               : what == MEAN                       ? NAN
               : what == MAX || what == LOG_SUM_EXP ? -INFINITY
               : what == MIN                        ? INFINITY
                                                    : 0;
    switch (y->dtype) {
      case DF_FLOAT32:  ((float *)y->data)[i] = (float)v; break;
      case DF_FLOAT64:  ((double *)y->data)[i] = v; break;
      case DF_FLOAT16:  ((uint16_t *)y->data)[i] = dfk_f16_from_float((float)v); break;
      case DF_BFLOAT16: ((uint16_t *)y->data)[i] = dfk_bf16_from_float((float)v); break;
      case DF_INT8:  ((int8_t *)y->data)[i]  = what == MAX ? INT8_MIN : what == MIN ? INT8_MAX : what == PROD; break;
      case DF_UINT8: ((uint8_t *)y->data)[i] = what == MAX ? 0 : what == MIN ? UINT8_MAX : what == PROD; break;
      case DF_INT32: ((int32_t *)y->data)[i] = what == MAX ? INT32_MIN : what == MIN ? INT32_MAX : what == PROD; break;
      case DF_INT64: ((int64_t *)y->data)[i] = what == MAX ? INT64_MIN : what == MIN ? INT64_MAX : what == PROD; break;
      case DF_BOOL:  ((uint8_t *)y->data)[i] = what == MIN; break;      /* all is min, any is max */
    }
  }
}

typedef struct widen { const df_tensor *x; void *to; bool square; } widen;

/* Half to float, integers to int64 (for means), floats to their squares (for norms). */
static void widen_range(void *arg, int64_t begin, int64_t end) {
  const widen *w = (const widen *)arg;
  const df_tensor *x = w->x;
  float *f = (float *)w->to;
  double *d = (double *)w->to;
  int64_t *n = (int64_t *)w->to;
  switch (x->dtype) {
    case DF_FLOAT16: case DF_BFLOAT16:
      dfk_half_to_floats(x->dtype, f + begin, (const uint16_t *)x->data + begin, end - begin);
      if (w->square) for (int64_t i = begin; i < end; i++) f[i] *= f[i];
      break;
    case DF_FLOAT32:
      for (int64_t i = begin; i < end; i++) {
        float v = ((const float *)x->data)[i];
        f[i] = v * v;
      }
      break;
    case DF_FLOAT64:
      for (int64_t i = begin; i < end; i++) {
        double v = ((const double *)x->data)[i];
        d[i] = v * v;
      }
      break;
    case DF_INT8:    for (int64_t i = begin; i < end; i++) n[i] = ((const int8_t *)x->data)[i]; break;
    case DF_UINT8:   for (int64_t i = begin; i < end; i++) n[i] = ((const uint8_t *)x->data)[i]; break;
    case DF_INT32:   for (int64_t i = begin; i < end; i++) n[i] = ((const int32_t *)x->data)[i]; break;
  }
}

/* The division of a mean, the root of a norm, the narrowing of what was widened. Both may be the same memory. */
static void finish(kind what, int32_t dtype, const void *from, void *to, int32_t to_dtype, int64_t n, int64_t count) {
  if (dtype == DF_FLOAT32) {
    float *f = (float *)from;
    if (what == MEAN) for (int64_t i = 0; i < n; i++) f[i] /= (float)count;
    if (what == NORM) for (int64_t i = 0; i < n; i++) f[i] = sqrtf(f[i]);
    if (dfk_is_half((uint8_t)to_dtype)) dfk_half_from_floats((uint8_t)to_dtype, (uint16_t *)to, f, n);
  } else if (dtype == DF_FLOAT64) {
    double *d = (double *)from;
    if (what == MEAN) for (int64_t i = 0; i < n; i++) d[i] /= (double)count;
    if (what == NORM) for (int64_t i = 0; i < n; i++) d[i] = sqrt(d[i]);
  } else if (what == MEAN) {
    const int64_t *s = (const int64_t *)from;
    for (int64_t i = 0; i < n; i++) {
      int64_t v = s[i] / count;
      if (to_dtype == DF_INT32) ((int32_t *)to)[i] = (int32_t)v;
      else if (to_dtype == DF_INT64) ((int64_t *)to)[i] = v;
      else ((int8_t *)to)[i] = (int8_t)v;
    }
  }
}

static int32_t reduce(df_kernel *k, kind what) {
  static const df_kernel_fn reference[] = {
    [SUM] = ref_sum, [PROD] = ref_prod, [MAX] = ref_max, [MIN] = ref_min, [MEAN] = ref_mean, [NORM] = ref_euclidean_norm
  };
  dfk_reduction r;
  const bool folds = what != MEAN && what != NORM && k->in[0]->size && !dfk_is_complex(k->in[0]->dtype);
  if (dfk_is_rare(k->in[0]->dtype) && !folds) return reference[what](k);
  int32_t code = dfk_reduction_of(k, &r);
  if (code) return code;
  const df_tensor *x = k->in[0];
  bool half = dfk_is_half(x->dtype), floats = half || x->dtype == DF_FLOAT32 || x->dtype == DF_FLOAT64;
  if (r.count == 1 && what != NORM) return dfk_out_forward(k, 0, 0, r.out_rank, r.out_dims);
  df_tensor *y = dfk_out(k, 0, x->dtype, r.out_rank, r.out_dims);
  if (!y) return DF_RESOURCE_EXHAUSTED;
  if (y->size == 0) return DF_OK;
  if (x->size == 0) {
    if (what == MEAN && !floats)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "the mean of no integers is not defined (integer division by zero)");
    fill_neutral(what, y);
    return DF_OK;
  }
  runs c;
  collapse(&r, &c);
  int32_t dtype = half ? DF_FLOAT32 : what == MEAN && !floats ? DF_INT64 : x->dtype;
  bool wider = dtype != x->dtype;
  if (!wider && what != NORM) {
    code = fold_all(k, what, dtype, (const char *)x->data, (char *)y->data, &c);
    if (!code) finish(what, dtype, y->data, y->data, dtype, y->size, r.count);
    return code;
  }
  int64_t width = dtype == DF_FLOAT32 ? 4 : 8;
  char *from = (char *)dfk_scratch(k, (x->size + y->size) * width);
  if (!from) return DF_RESOURCE_EXHAUSTED;
  char *to = from + x->size * width;
  widen w = { x, from, what == NORM };
  dfk_parallel(k, x->size, PIECE, widen_range, &w);
  if (!wider) to = (char *)y->data;
  code = fold_all(k, what, dtype, from, to, &c);
  if (!code) finish(what, dtype, to, y->data, x->dtype, y->size, r.count);
  dfk_free(from);
  return code;
}

int32_t cpu_sum(df_kernel *k)  { return reduce(k, SUM); }
int32_t cpu_mean(df_kernel *k) { return reduce(k, MEAN); }
int32_t cpu_prod(df_kernel *k) { return reduce(k, PROD); }
int32_t cpu_max(df_kernel *k)  { return reduce(k, MAX); }
int32_t cpu_min(df_kernel *k)  { return reduce(k, MIN); }
int32_t cpu_all(df_kernel *k)  { return reduce(k, MIN); }
int32_t cpu_any(df_kernel *k)  { return reduce(k, MAX); }
int32_t cpu_log_sum_exp(df_kernel *k)    { return reduce(k, LOG_SUM_EXP); }
int32_t cpu_euclidean_norm(df_kernel *k) {
  return dfk_is_half(k->in[0]->dtype) || k->in[0]->dtype == DF_FLOAT32 || k->in[0]->dtype == DF_FLOAT64
             ? reduce(k, NORM) : ref_euclidean_norm(k);
}

/* Rows, as fold_stage and lse_stage have them where a row is one piece. */
_Static_assert(DFK_CHAIN_ROW <= 2 * PIECE, "a row is one piece");
static void mean_rows_f32(const void *x, int64_t rows, int64_t n, void *y) {
  sum_f32_rows(x, rows, n, y);
  finish(MEAN, DF_FLOAT32, y, y, DF_FLOAT32, rows, n);
}
static void mean_rows_f64(const void *x, int64_t rows, int64_t n, void *y) {
  sum_f64_rows(x, rows, n, y);
  finish(MEAN, DF_FLOAT64, y, y, DF_FLOAT64, rows, n);
}
static void lse_some_f32(const void *x, int64_t rows, int64_t n, void *y) {
  lse_rows_f32(&(lse){ x, y, n, 1 }, 0, rows);
}
static void lse_some_f64(const void *x, int64_t rows, int64_t n, void *y) {
  lse_rows_f64(&(lse){ x, y, n, 1 }, 0, rows);
}

dfk_rows_fn dfk_fold_rows(df_kernel_fn kernel, int32_t dtype) {
  static const struct { df_kernel_fn kernel; kind what; } plain[] = {
    { cpu_sum, SUM }, { cpu_prod, PROD }, { cpu_max, MAX }, { cpu_min, MIN }, { cpu_all, MIN }, { cpu_any, MAX }
  };
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
    if (kernel == plain[i].kernel) return fold_of(plain[i].what, dtype)->rows;
  const bool wide = dtype == DF_FLOAT64;
  if (!wide && dtype != DF_FLOAT32) return NULL;
  if (kernel == cpu_mean) return wide ? mean_rows_f64 : mean_rows_f32;
  if (kernel == cpu_log_sum_exp) return wide ? lse_some_f64 : lse_some_f32;
  return NULL;
}

/* ---- axes in front, for chains -------------------------------------------------------------------------------- */

dfk_over dfk_fold_over(df_kernel_fn kernel, int32_t dtype) {
  static const struct { df_kernel_fn kernel; kind what; } known[] = {
    { cpu_sum, SUM }, { cpu_mean, MEAN }, { cpu_prod, PROD }, { cpu_max, MAX }, { cpu_min, MIN }, { cpu_all, MIN },
    { cpu_any, MAX }, { cpu_bias_add_grad, SUM }
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (kernel != known[i].kernel) continue;
    if (known[i].what == MEAN && dtype != DF_FLOAT32 && dtype != DF_FLOAT64) break;
    return (dfk_over){ fold_of(known[i].what, dtype)->add, (uint8_t)known[i].what, (uint8_t)dtype };
  }
  return (dfk_over){ 0 };
}

int64_t dfk_fold_piece(int64_t rows, int64_t width) { return piece_rows(rows, width); }

void dfk_fold_join(dfk_over over, void *x, int64_t rows, int64_t width) {
  const int64_t bytes = width * fold_of((kind)over.what, over.dtype)->width;
  while (rows > 1) {
    const int64_t piece = piece_rows(rows, width), pieces = (rows + piece - 1) / piece;
    for (int64_t p = 0; p < pieces; p++) {
      const int64_t begin = p * piece, end = begin + piece < rows ? begin + piece : rows;
      for (int64_t at = begin; at < end; at += DFK_FOLD_BLOCK) {
        const int64_t n = at + DFK_FOLD_BLOCK < end ? DFK_FOLD_BLOCK : end - at;
        over.add((char *)x + (at + 1) * bytes, n - 1, width, width, (char *)x + at * bytes);
        if (at > begin) over.add((char *)x + at * bytes, 1, width, width, (char *)x + begin * bytes);
      }
      if (p) memmove((char *)x + p * bytes, (char *)x + begin * bytes, (size_t)bytes);
    }
    rows = pieces;
  }
}

void dfk_fold_finish(dfk_over over, void *y, int64_t width, int64_t count) {
  finish((kind)over.what, over.dtype, y, y, over.dtype, width, count);
}

/* (dy; data_format): all axes summed but the channels'. */
int32_t cpu_bias_add_grad(df_kernel *k) {
  const df_tensor *x = k->in[0];
  dfk_channels c;
  if (dfk_is_half(x->dtype) || dfk_is_rare(x->dtype)) return ref_bias_add_grad(k);
  int32_t code = dfk_channels_of(k, 0, &c);
  if (code) return code;
  df_tensor *y = dfk_out(k, 0, x->dtype, 1, &c.n);
  if (!y) return DF_RESOURCE_EXHAUSTED;
  if (y->size == 0) return DF_OK;
  if (x->size == 0) {
    fill_neutral(SUM, y);
    return DF_OK;
  }
  runs r = { 3, { c.outer, c.n, c.inner }, { true, false, true } };
  if (c.inner == 1) r.n = 2;
  return fold_all(k, SUM, x->dtype, (const char *)x->data, (char *)y->data, &r);
}
