/* move.c: the strided copy that transposes, slices, tiles, reverses, broadcasts and pads.
 *
 * A box is first made small: dims of 1 go, the others are ordered by their stride on the writing side, and neighbours
 * that are contiguous on both sides become one. What is left is a 2-D copy inside a few outer loops, and the 2-D copy
 * is one of six: rows to rows (memcpy), one element to a row (fill), rows back to front, every second element, columns
 * to rows (a transpose in 8 x 8 tiles held in registers), or anything (a plain loop). Large boxes are split over the
 * workers by blocks of rows, each written by one worker, so the result does not depend on the split.
 */
#include "move.h"
#include <stdio.h>

void dfk_copy_pieces(void *to, const void *from, int64_t n) {
  enum { PIECE = 1024 };                     /* that memcpy copies by loads and stores */
  for (int64_t at = 0; at < n; at += PIECE)
    memcpy((char *)to + at, (const char *)from + at, (size_t)(n - at < PIECE ? n - at : PIECE));
}

bool dfk_copy_owned(df_kernel *k, df_tensor *to, int64_t to_at, const df_tensor *from, int64_t from_at, int64_t n) {
  if (to->dtype == DF_VARIANT) {
    for (int64_t i = 0; i < n; i++) dfk_set_variant(to, to_at + i, ((void *const *)from->data)[from_at + i]);
    return true;
  }
  const df_str *s = (const df_str *)from->data + from_at;
  for (int64_t i = 0; i < n; i++)
    if (!dfk_set_string(k, to, to_at + i, s[i].bytes, s[i].length)) return false;
  return true;
}

/* ---- the 2-D copies: to[i * t0 + j * t1] = from[i * f0 + j * f1], i < n0, j < n1, in elements -------------- */
typedef struct plane { int64_t n0, n1, t0, t1, f0, f1; } plane;

/* Short rows of a number of elements that is known here: loads and stores, where a loop becomes a call for each. */
#define ROWS_OF(n, T) for (int64_t i = 0; i < p->n0; i++) memcpy(to + i * p->t0, from + i * p->f0, n * sizeof(T));

#define DEFINE_COPIES(T)                                                                                     \
  static void fill_rows_##T(T *to, const T *from, const plane *p) {                                          \
    for (int64_t i = 0; i < p->n0; i++) {                                                                    \
      T v = from[i * p->f0], *row = to + i * p->t0;                                                          \
      for (int64_t j = 0; j < p->n1; j++) row[j] = v;                                                        \
    }                                                                                                        \
  }                                                                                                          \
  static void copy_rows_##T(T *restrict to, const T *restrict from, const plane *p) {                        \
    if (p->n1 * sizeof(T) > 48) {                                                                            \
      const int64_t bytes = p->n1 * (int64_t)sizeof(T);                                                      \
      for (int64_t i = 0; i < p->n0; i++) dfk_copy_bytes(to + i * p->t0, from + i * p->f0, bytes);           \
      return;                                                                                                \
    }                                                                                                        \
    switch (p->n1) {                                                                                         \
      case 2: ROWS_OF(2, T) return;                                                                          \
      case 3: ROWS_OF(3, T) return;                                                                          \
      case 4: ROWS_OF(4, T) return;                                                                          \
      case 6: ROWS_OF(6, T) return;                                                                          \
      case 8: ROWS_OF(8, T) return;                                                                          \
    }                                                                                                        \
    for (int64_t i = 0; i < p->n0; i++)                                                                      \
      for (int64_t j = 0; j < p->n1; j++) to[i * p->t0 + j] = from[i * p->f0 + j];                           \
  }                                                                                                          \
  static void copy_reversed_##T(T *restrict to, const T *restrict from, const plane *p) {                    \
    for (int64_t i = 0; i < p->n0; i++)                                                                      \
      for (int64_t j = 0; j < p->n1; j++) to[i * p->t0 + j] = from[i * p->f0 - j];                           \
  }                                                                                                          \
  static void copy_second_##T(T *restrict to, const T *restrict from, const plane *p) {                      \
    for (int64_t i = 0; i < p->n0; i++)                                                                      \
      for (int64_t j = 0; j < p->n1; j++) to[i * p->t0 + j] = from[i * p->f0 + 2 * j];                       \
  }                                                                                                          \
  static void copy_any_##T(T *restrict to, const T *restrict from, const plane *p) {                         \
    for (int64_t i = 0; i < p->n0; i++)                                                                      \
      for (int64_t j = 0; j < p->n1; j++) to[i * p->t0 + j * p->t1] = from[i * p->f0 + j * p->f1];           \
  }                                                                                                          \
  static void copy_tile_##T(T *restrict to, const T *restrict from, int64_t n0, int64_t n1, int64_t t0, int64_t f1) { \
    for (int64_t i = 0; i < n0; i++)                                                                         \
      for (int64_t j = 0; j < n1; j++) to[i * t0 + j] = from[i + j * f1];                                    \
  }
DEFINE_COPIES(uint8_t)
DEFINE_COPIES(uint16_t)
DEFINE_COPIES(uint32_t)
DEFINE_COPIES(uint64_t)
typedef struct bytes16 { uint64_t low, high; } bytes16;     /* complex128 */
DEFINE_COPIES(bytes16)

/* An 8 x 8 tile of 4-byte elements, transposed in registers. Written with compiler vectors, so any target builds it. */
typedef uint32_t row8 __attribute__((vector_size(32), aligned(4), may_alias));
#define MIX(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
static inline void tile8_uint32_t(uint32_t *restrict to, const uint32_t *restrict from, int64_t t0, int64_t f1) {
  row8 r[8], s[8];
  for (int i = 0; i < 8; i++) r[i] = *(const row8 *)(from + i * f1);
  for (int i = 0; i < 8; i += 2) {
    s[i]     = MIX(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    s[i + 1] = MIX(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i]     = MIX(s[i], s[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    r[i + 1] = MIX(s[i], s[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    r[i + 2] = MIX(s[i + 1], s[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
    r[i + 3] = MIX(s[i + 1], s[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  for (int i = 0; i < 4; i++) {
    *(row8 *)(to + i * t0)       = MIX(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    *(row8 *)(to + (i + 4) * t0) = MIX(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

/* The same of 8-byte elements. */
typedef uint64_t wide8 __attribute__((vector_size(64), aligned(8), may_alias));
static inline void tile8_uint64_t(uint64_t *restrict to, const uint64_t *restrict from, int64_t t0, int64_t f1) {
  wide8 r[8], s[8];
  for (int i = 0; i < 8; i++) r[i] = *(const wide8 *)(from + i * f1);
  for (int i = 0; i < 8; i += 2) {
    s[i]     = MIX(r[i], r[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    s[i + 1] = MIX(r[i], r[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; j++) {
      r[i + j]     = MIX(s[i + j], s[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      r[i + j + 2] = MIX(s[i + j], s[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int i = 0; i < 4; i++) {
    *(wide8 *)(to + i * t0)       = MIX(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    *(wide8 *)(to + (i + 4) * t0) = MIX(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}
static inline void tile8_uint16_t(uint16_t *restrict to, const uint16_t *restrict from, int64_t t0, int64_t f1) {
  copy_tile_uint16_t(to, from, 8, 8, t0, f1);
}
static inline void tile8_bytes16(bytes16 *restrict to, const bytes16 *restrict from, int64_t t0, int64_t f1) {
  copy_tile_bytes16(to, from, 8, 8, t0, f1);
}
static inline void tile8_uint8_t(uint8_t *restrict to, const uint8_t *restrict from, int64_t t0, int64_t f1) {
  copy_tile_uint8_t(to, from, 8, 8, t0, f1);
}

/* Columns to rows: f0 and t1 are 1. Bands of 32 columns keep the lines being read in the first-level cache. Larger
 * blocks by way of a buffer were tried and were no faster. */
#define DEFINE_TRANSPOSE(T)                                                                          \
  static void transpose_##T(T *to, const T *from, const plane *p) {                                  \
    for (int64_t jj = 0; jj < p->n1; jj += 32) {                                                     \
      int64_t je = jj + 32 < p->n1 ? jj + 32 : p->n1;                                                \
      int64_t i = 0;                                                                                 \
      for (; i + 8 <= p->n0; i += 8) {                                                               \
        int64_t j = jj;                                                                              \
        for (; j + 8 <= je; j += 8) tile8_##T(to + i * p->t0 + j, from + i + j * p->f1, p->t0, p->f1); \
        if (j < je) copy_tile_##T(to + i * p->t0 + j, from + i + j * p->f1, 8, je - j, p->t0, p->f1); \
      }                                                                                              \
      if (i < p->n0) copy_tile_##T(to + i * p->t0 + jj, from + i + jj * p->f1, p->n0 - i, je - jj, p->t0, p->f1); \
    }                                                                                                \
  }                                                                                                  \
  static void copy_plane_##T(void *to, const void *from, const plane *p) {                           \
    if (p->t1 != 1)      copy_any_##T(to, from, p);                                                  \
    else if (p->f1 == 1) copy_rows_##T(to, from, p);                                                 \
    else if (p->f1 == 0) fill_rows_##T(to, from, p);                                                 \
    else if (p->f1 == -1) copy_reversed_##T(to, from, p);                                            \
    else if (p->f1 == 2) copy_second_##T(to, from, p);                                               \
    else if (p->f0 == 1) transpose_##T(to, from, p);                                                 \
    else                 copy_any_##T(to, from, p);                                                  \
  }
DEFINE_TRANSPOSE(uint8_t)
DEFINE_TRANSPOSE(uint16_t)
DEFINE_TRANSPOSE(uint32_t)
DEFINE_TRANSPOSE(uint64_t)
DEFINE_TRANSPOSE(bytes16)

/* ---- the box ------------------------------------------------------------------------------------ */
typedef struct job {
  int32_t outer;              /* dims before the plane */
  int64_t dims[DFK_MOVE_RANK + 2], to_stride[DFK_MOVE_RANK + 2], from_stride[DFK_MOVE_RANK + 2];
  plane   all;                /* the two innermost dims */
  int64_t block, blocks;      /* rows of a plane done at a time, and how many such blocks a plane has */
  int64_t width;
  char   *to;
  const char *from;
  void  (*copy)(void *to, const void *from, const plane *p);
} job;

/* Units [begin, end) of the job: unit u is block u % blocks of plane u / blocks. */
static void run_units(void *arg, int64_t begin, int64_t end) {
  const job *w = arg;
  int64_t at[DFK_MOVE_RANK + 2], to = 0, from = 0, left = begin / w->blocks, b = begin % w->blocks;
  for (int32_t d = w->outer - 1; d >= 0; d--) {
    at[d] = left % w->dims[d];
    left /= w->dims[d];
    to += at[d] * w->to_stride[d];
    from += at[d] * w->from_stride[d];
  }
  for (int64_t u = begin; u < end; u++) {
    plane p = w->all;
    int64_t row = b * w->block;
    p.n0 = p.n0 - row < w->block ? p.n0 - row : w->block;
    w->copy(w->to + (to + row * p.t0) * w->width, w->from + (from + row * p.f0) * w->width, &p);
    if (++b < w->blocks) continue;
    b = 0;
    for (int32_t d = w->outer - 1; d >= 0; d--) {
      to += w->to_stride[d];
      from += w->from_stride[d];
      if (++at[d] < w->dims[d]) break;
      to -= at[d] * w->to_stride[d];
      from -= at[d] * w->from_stride[d];
      at[d] = 0;
    }
  }
}

typedef struct run { char *to; const char *from; } run;
static void run_bytes(void *arg, int64_t begin, int64_t end) {
  const run *r = arg;
  dfk_copy_bytes(r->to + begin, r->from + begin, end - begin);
}

static inline int64_t magnitude(int64_t v) { return v < 0 ? -v : v; }

/* Drops dims of 1, orders by the `to` stride, joins neighbours. Returns the rank; -1 when the box is empty. */
static int32_t simplify(const dfk_box *box, int64_t *dims, int64_t *to, int64_t *from) {
  int32_t r = 0;
  for (int32_t d = 0; d < box->rank; d++) {
    if (box->dims[d] == 0) return -1;
    if (box->dims[d] == 1) continue;
    int32_t at = r++;
    for (; at > 0 && magnitude(to[at - 1]) < magnitude(box->to[d]); at--) {
      dims[at] = dims[at - 1]; to[at] = to[at - 1]; from[at] = from[at - 1];
    }
    dims[at] = box->dims[d]; to[at] = box->to[d]; from[at] = box->from[d];
  }
  int32_t m = 0;
  for (int32_t d = 1; d < r; d++) {
    if (to[m] == to[d] * dims[d] && from[m] == from[d] * dims[d]) {
      dims[m] *= dims[d]; to[m] = to[d]; from[m] = from[d];
    } else {
      m++;
      dims[m] = dims[d]; to[m] = to[d]; from[m] = from[d];
    }
  }
  return r ? m + 1 : 0;
}

static bool move_owned(df_kernel *k, df_tensor *to, int64_t to_at, const df_tensor *from, int64_t from_at,
                       const dfk_box *box) {
  int64_t at[DFK_MOVE_RANK] = { 0 }, n = 1;
  for (int32_t d = 0; d < box->rank; d++) n *= box->dims[d];
  for (int64_t i = 0; i < n; i++) {
    int64_t t = to_at, f = from_at;
    for (int32_t d = 0; d < box->rank; d++) { t += at[d] * box->to[d]; f += at[d] * box->from[d]; }
    if (!dfk_copy_owned(k, to, t, from, f, 1)) return false;
    dfk_next(box->rank, box->dims, at);
  }
  return true;
}

bool dfk_move(df_kernel *k, df_tensor *to, int64_t to_at, const df_tensor *from, int64_t from_at, const dfk_box *box) {
  if (!dfk_plain(to->dtype)) return move_owned(k, to, to_at, from, from_at, box);
  job w;
  int64_t *dims = w.dims + 2, *ts = w.to_stride + 2, *fs = w.from_stride + 2; /* room for two dims of 1 in front */
  int32_t r = simplify(box, dims, ts, fs);
  if (r < 0) return true;
  w.width = dfk_width(to->dtype);
  w.to = (char *)to->data + to_at * w.width;
  w.from = (const char *)from->data + from_at * w.width;
  if (r == 0) { memcpy(w.to, w.from, (size_t)w.width); return true; }
  if (r == 1 && ts[0] == 1 && fs[0] == 1) {
    run bytes = { w.to, w.from };
    int64_t n = dims[0] * w.width;
    if (n <= 1 << 18) run_bytes(&bytes, 0, n);
    else dfk_parallel(k, n, 1 << 18, run_bytes, &bytes);
    return true;
  }
  for (; r < 2; r++) { *--dims = 1; *--ts = 0; *--fs = 0; }
  int32_t last = r - 1;
  if (fs[last] != 1 && fs[last] != 0) { /* bring the dim that is contiguous on the reading side next to the innermost */
    int32_t j = last - 1;
    while (j >= 0 && fs[j] != 1) j--;
    if (j >= 0 && j != last - 1) {
      int64_t n = dims[j], t = ts[j], f = fs[j];
      for (; j < last - 1; j++) { dims[j] = dims[j + 1]; ts[j] = ts[j + 1]; fs[j] = fs[j + 1]; }
      dims[j] = n; ts[j] = t; fs[j] = f;
    }
  }
  w.outer = r - 2;
  w.all = (plane){ dims[r - 2], dims[r - 1], ts[r - 2], ts[r - 1], fs[r - 2], fs[r - 1] };
  int64_t planes = 1;
  for (int32_t d = 0; d < w.outer; d++) planes *= dims[d];
  memmove(w.dims, dims, (size_t)w.outer * sizeof *dims);
  memmove(w.to_stride, ts, (size_t)w.outer * sizeof *ts);
  memmove(w.from_stride, fs, (size_t)w.outer * sizeof *fs);
  w.copy = w.width == 4 ? copy_plane_uint32_t : w.width == 8 ? copy_plane_uint64_t : w.width == 2 ? copy_plane_uint16_t
         : w.width == 16 ? copy_plane_bytes16 : copy_plane_uint8_t;
  w.block = 16384 / w.all.n1 < 64 ? 64 : 16384 / w.all.n1;
  if (w.all.f1 == 1 || w.all.f1 == 0) w.block = 16384 / w.all.n1 + 1;
  if (w.block > w.all.n0) w.block = w.all.n0;
  w.blocks = (w.all.n0 + w.block - 1) / w.block;
  int64_t units = planes * w.blocks, each = w.block * w.all.n1;
  if (units * each <= 1 << 16) run_units(&w, 0, units);
  else dfk_parallel(k, units, (1 << 16) / each + 1, run_units, &w);
  return true;
}
