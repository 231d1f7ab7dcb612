/* gemm.c: matrix products.
 *
 * Four ways, by size alone: small products run at once on the matrices as they lie; larger ones whose b is near are cut
 * into rows over the worker threads; then come strips of our own, and the largest are cut into blocks of our own where
 * vectors are wide, else into tiles by a library (onednn_matmul.h, blas.h), as those are that are large but thin.
 */
#include "gemm.h"
#include "blas.h"
#include "onednn_matmul.h"
#include "lanes.h"

/* Rows of c that an inner kernel holds, two vectors each, in 32 registers or 16; an element's sum is the same. */
#if VEC_BYTES >= 64 || defined(__aarch64__)
#define MOST_ROWS 8
#define WHOLE kernel_8
#elif VEC_BYTES >= 32
#define MOST_ROWS 6
#define WHOLE kernel_6
#else
#define MOST_ROWS 4
#define WHOLE kernel_4
#endif
enum { MR = MOST_ROWS };

enum {
  VECTORS = 1 << 16,              /* multiplications from which on few rows are vectors, cut into pieces */
  ROOM = 4096,                    /* elements of b that a small product keeps on the stack */
  KC = 192, PACK = 8,             /* how much of k is done at a time, a multiple of how much is packed at a time */
  UNSPLIT = 512 * 512,  /* a result so large or smaller is ours: a library's tiles are too few for the threads */
  FAR_BYTES = 1 << 19, MANY_ROWS = 512,                /* from here on packing b weighs nothing */
  A_PAYS = 256, A_ROWS = 32,     /* from so many columns and rows on a is packed */
  FEW = 8 * MR, STRIP = 16 * FEW, PANELS = 8, STRIPS = 16,   /* see strips(); the least number of strips wanted */
  BLOCK_PANELS = 16, BLOCK_ROWS = 1024,               /* of a block, see block(): 384 KB of b; rows at most */
  TILE_ROWS = BLOCK_ROWS / 2, TILES = 4,              /* rows of a tile at most, and how many tiles are wanted */
  LEAST_BLOCK = 256, MOST_KEPT = 1 << 23,             /* rows and columns at least; a b that is kept, see large() */
  HEAVY = 1 << 25,                                    /* multiplications of a tile that takes 0.3 ms */
};

/* A product in pieces. Of vectors with a matrix: m vectors, `vector` apart in a, their elements lda apart; n results
   each. */
typedef struct job {
  int64_t     m, n, k, lda, ldb, ldc, vector, tile_rows, tile_columns, strip_rows, strip_panels;
  bool        a_t, b_t, add, far;     /* far: pb is past the second-level cache */
  const void *a, *b;
  void       *c, *pa, *pb;     /* pa, pb: packed as a whole, or NULL */
} job;

/* k in equal parts of KC at most. */
static int64_t sum_chunk(int64_t k) {
  const int64_t parts = (k + KC - 1) / KC;
  return (k + parts - 1) / parts;
}

#undef I   /* complex.h's */
#define S_(f, t) f##_##t
#define S__(f, t) S_(f, t)
#define T float
#define V vf32
#define I vi32
#define L LANES_f32
#define S(f) S__(f, f32)
#include "gemm_body.h"
#define T double
#define V vf64
#define I vi64
#define L LANES_f64
#define S(f) S__(f, f64)
#include "gemm_body.h"

/* ---- tiles by OpenBLAS, a call each ---------------------------------------------------------------------- */

#define BLAS_TILES(name, T, gemm)                                                                                     \
  static void name(void *arg, int64_t begin, int64_t end) {                                                          \
    const job *s = (const job *)arg;                                                                                 \
    const int64_t across = (s->n + s->tile_columns - 1) / s->tile_columns;                                           \
    for (int64_t t = begin; t < end; t++) {                                                                          \
      const int64_t i = t / across * s->tile_rows, j = t % across * s->tile_columns,                                 \
                    m = s->m - i < s->tile_rows ? s->m - i : s->tile_rows,                                           \
                    n = s->n - j < s->tile_columns ? s->n - j : s->tile_columns;                                     \
      dfk_blas()->gemm(CblasRowMajor, s->a_t ? CblasTrans : CblasNoTrans, s->b_t ? CblasTrans : CblasNoTrans,        \
                       (int)m, (int)n, (int)s->k, 1, (const T *)s->a + (s->a_t ? i : i * s->lda), (int)s->lda,       \
                       (const T *)s->b + (s->b_t ? j * s->ldb : j), (int)s->ldb, 0, (T *)s->c + i * s->ldc + j,      \
                       (int)s->ldc);                                                                                 \
    }                                                                                                                \
  }
BLAS_TILES(blas_tiles_f32, float, sgemm)
BLAS_TILES(blas_tiles_f64, double, dgemm)

/* ---- which way -------------------------------------------------------------------------------------------- */

typedef struct way {
  df_range_fn vectors, alike_rows, alike_dots, rows, pack_a, turn_a, pack_all_b, strips, blocks, blas;
  int64_t     width, nr;
} way;
static const way way_f32 = { vector_pieces_f32, alike_rows_f32, alike_dots_f32, row_pieces_f32, pack_a_f32, turn_a_f32,
                             pack_all_b_f32, strips_f32, blocks_f32, blas_tiles_f32, 4, 2 * LANES_f32 };
static const way way_f64 = { vector_pieces_f64, alike_rows_f64, alike_dots_f64, row_pieces_f64, pack_a_f64, turn_a_f64,
                             pack_all_b_f64, strips_f64, blocks_f64, blas_tiles_f64, 8, 2 * LANES_f64 };

static void set_tiles(job *s, int64_t rows, int64_t columns, int64_t unit_rows, int64_t unit_columns) {
  s->tile_rows = rows;
  s->tile_columns = columns;
  while (s->tile_columns > unit_columns && s->tile_columns / 2 >= s->n) s->tile_columns /= 2;
  while (s->tile_rows > unit_rows && s->tile_rows / 2 >= s->m) s->tile_rows /= 2;
}

static int64_t strips_of(const job *s, int64_t nr) {
  int64_t wide = s->strip_panels * nr;
  return (s->m + s->strip_rows - 1) / s->strip_rows * ((s->n + wide - 1) / wide);
}

/* Enough strips for the threads. Each packs its part of b, which weighs the more the fewer its rows. But halves by rows
 * are what the kernels before and after have in their caches, so rows are cut first where there are many. */
static void choose_strips(job *s, int64_t nr) {
  s->strip_rows = STRIP;
  s->strip_panels = s->m >= 512 && s->n >= 1024 ? PANELS : 2;
  while (strips_of(s, nr) < STRIPS && s->strip_rows > 4 * FEW && s->m > 4 * FEW) s->strip_rows /= 2;
  if (strips_of(s, nr) < STRIPS) s->strip_panels = 1;
  while (strips_of(s, nr) < STRIPS / 2 && s->strip_rows > FEW) s->strip_rows /= 2;
}

/* b's panels as they were kept when the same matrix was multiplied with before, or made now to be kept. Where there are
 * many rows packing weighs little; kept panels make 128 rows 1.07 times as fast and 32 rows 1.2
 * times. The sums are the same. With 256 rows and fewer it is faster than a library's tiles, which pack b each time:
 * 256x2048x1024 takes 4.7 ms on one thread, in tiles 5.4. */
static void packed_b(df_kernel *k, const gemm *g, const way *w, job *s) {
  if (!g->weights || g->m > MANY_ROWS) return;
  dfk_packing how = { { 'B' | g->b_t << 8 | w->width << 16, g->n, g->k, g->ldb } };
  int64_t chunks = (g->k + KC - 1) / KC, panels = (g->n + w->nr - 1) / w->nr;
  int64_t bytes = chunks * panels * KC * w->nr * w->width;
  void *room;
  s->pb = (void *)dfk_packed(g->weights, &how, bytes, &room);
  s->far = bytes > FAR_BYTES;
  if (!room) return;
  s->pb = room;
  dfk_parallel(k, chunks, 1 + (1 << 17) / (KC * g->n), w->pack_all_b, s);
  dfk_packed_done(g->weights, room);
}

/* n in equal parts of `most` at most, multiples of `unit`. */
static int64_t part_of(int64_t n, int64_t most, int64_t unit) {
  const int64_t parts = (n + most - 1) / most, each = (n + parts - 1) / parts;
  return (each + unit - 1) / unit * unit;
}

/* How a result is cut shows in no number: each of its elements is summed in the same order. */
static void in_blocks(df_kernel *k, const way *w, job *s) {
  int64_t rows = TILE_ROWS, columns = BLOCK_PANELS * w->nr, down, across;
  for (;; rows /= 2) {
    s->tile_rows = part_of(s->m, rows, MR);
    s->tile_columns = part_of(s->n, columns, w->nr);
    down = (s->m + s->tile_rows - 1) / s->tile_rows;
    across = (s->n + s->tile_columns - 1) / s->tile_columns;
    if (down * across >= TILES || rows <= FEW) break;
  }
  dfk_parallel(k, down * across, s->tile_rows * s->tile_columns * s->k >= HEAVY ? 0 : 1, w->blocks, s);
}

/* As wide vectors have them, large enough, and not so few rows that a kept b is faster: there a library's tiles are
 * slower, since they pack b anew for each. 1024^3 takes 9.7 ms on one thread and 4.9 on two, in tiles 10.6 and 5.3;
 * 512 x 1024 x 2048 takes 9.8 instead of 11.8, and with b transposed 9.9 instead of 12.9. */
static bool suit_blocks(const gemm *g) {
  const bool kept = g->weights && g->m <= LEAST_BLOCK && g->n * g->k <= MOST_KEPT;
  return VEC_BYTES >= 64 && g->m * g->n > UNSPLIT && g->m >= LEAST_BLOCK && g->n >= LEAST_BLOCK && !kept;
}

/* Packing a costs 8 % of a product of 512 x 512 matrices and gains nothing there: eight rows stream well. From A_PAYS
 * columns on it pays, since rows that lie a page apart crowd one set of the first-level cache. Tried and no faster:
 * kernels of 12 and of 14 rows (at 256 rows their ends halve the speed), chunks of 256. b packed as a whole beforehand
 * is slower for thin products. */
static int32_t large(df_kernel *k, const gemm *g, const way *w, const void *a, const void *b, void *c) {
  job s = { .m = g->m, .n = g->n, .k = g->k, .lda = g->lda, .ldb = g->ldb, .ldc = g->ldc, .a_t = g->a_t, .b_t = g->b_t,
            .add = g->add, .a = a, .b = b, .c = c };
  bool fits = g->m < INT32_MAX && g->n < INT32_MAX && g->k < INT32_MAX && g->lda < INT32_MAX && g->ldb < INT32_MAX;
  const bool by_blas = !g->each && fits && g->m * g->n > UNSPLIT && dfk_blas();
  if (suit_blocks(g) && (w->width == 4 || !by_blas)) {
    in_blocks(k, w, &s);
    return DF_OK;
  }
  const dfk_done done =
      w->width == 4 && !g->each ? dfk_dnn_products(k, g, DF_FLOAT32, 1, a, NULL, b, NULL, c) : DFK_NOT_DONE;
  if (done != DFK_NOT_DONE) return done == DFK_DONE ? DF_OK : DF_RESOURCE_EXHAUSTED;
  if (by_blas) {
    set_tiles(&s, 256, 512, 32, 64);
    dfk_parallel(k, (g->m + s.tile_rows - 1) / s.tile_rows * ((g->n + s.tile_columns - 1) / s.tile_columns), 1, w->blas,
                 &s);
    return DF_OK;
  }
  int64_t panels = (g->m + MR - 1) / MR;
  if (g->a_t || (g->n >= A_PAYS && g->m >= A_ROWS)) {
    s.pa = dfk_scratch(k, panels * MR * g->k * w->width);
    if (!s.pa) return DF_RESOURCE_EXHAUSTED;
    if (g->a_t) dfk_parallel(k, (g->k + PACK - 1) / PACK, 65536 / (PACK * g->m) + 1, w->pack_a, &s);
    else dfk_parallel(k, panels, 65536 / (MR * g->k) + 1, w->turn_a, &s);
  }
  packed_b(k, g, w, &s);
  choose_strips(&s, w->nr);
  int64_t rows = g->m < s.strip_rows ? g->m : s.strip_rows, each = rows * s.strip_panels * w->nr * g->k;
  dfk_parallel(k, strips_of(&s, w->nr), 1 + (1 << 17) / each, w->strips, &s);
  dfk_free(s.pa);
  return DF_OK;
}

/* Vectors and a matrix past the first-level cache: pieces of the result over the threads. */
static bool vectors(df_kernel *k, const gemm *g, const way *w, const void *a, const void *b, void *c) {
  job s = { .m = g->m, .n = g->n, .k = g->k, .ldb = g->ldb, .ldc = g->ldc, .b_t = g->b_t, .a = a, .b = b, .c = c };
  bool column = g->n == 1 && g->m > 4;
  if (g->n * g->k * g->m < VECTORS || (g->m > 4 && !column)) return false;
  s.lda = g->a_t ? g->lda : 1;
  s.vector = g->a_t ? 1 : g->lda;
  if (column) {                                    /* c' = b' a' */
    if (g->ldc != 1) return false;
    s.m = 1;
    s.n = g->m;
    s.b_t = !g->a_t;
    s.lda = g->b_t ? 1 : g->ldb;
    s.ldb = g->lda;
    s.a = b;
    s.b = a;
  }
  if (s.b_t && s.lda != 1) return false;
  int64_t grain = (1 << 16) / (64 * g->k);
  dfk_parallel(k, (s.n + 63) / 64, grain < 1 ? 1 : grain, w->vectors, &s);
  return true;
}

/* b fits the second-level cache, where the kernels walk it as it lies: no packing. Not where it is transposed: packing
   turns it. */
static bool is_near(const gemm *g) { return g->n * g->k <= 32768 && !g->b_t; }

static int32_t rows(df_kernel *k, const gemm *g, const way *w, const void *a, const void *b, void *c) {
  job s = {
    .m = g->m, .n = g->n, .k = g->k, .lda = g->lda, .ldb = g->ldb, .ldc = g->ldc, .a_t = g->a_t, .a = a, .b = b, .c = c,
    .add = g->add
  };
  int64_t grain = 524288 / (MR * g->n * g->k);
  dfk_parallel(k, (g->m + MR - 1) / MR, grain < 1 ? 1 : grain, w->rows, &s);
  return DF_OK;
}

/* Rows of products of g->each rows, one behind the other. The way is that of one alone, over all rows: how many there
 * are shows in no sum. But vectors have an order of their own, and a library's is not known. */
static bool vectors_alike(df_kernel *k, const gemm *g, const way *w, const void *a, const void *b, void *c) {
  enum { ROWS = 32 };
  const bool small = dfk_gemm_alone(g->each, g->n, g->k), column = g->n == 1;
  if (small ? g->each > 1 && !column : g->n * g->k * g->each < VECTORS || (g->each > 4 && !column)) return false;
  job s = { .m = g->m, .n = g->n, .k = g->k, .lda = g->lda, .ldb = g->ldb, .ldc = g->ldc, .a = a, .b = b, .c = c };
  const bool dots = g->b_t || (column && (small || g->each > 4));
  if (!dots) packed_b(k, g, w, &s);
  s.tile_rows = dots ? ROWS : 16 * ROWS;
  const int64_t wide = dots ? 64 : w->nr, down = (s.m + s.tile_rows - 1) / s.tile_rows;
  const int64_t grain = (1 << 19) / (s.tile_rows * wide * s.k);
  dfk_parallel(k, down * ((s.n + wide - 1) / wide), grain < 1 ? 1 : grain, dots ? w->alike_dots : w->alike_rows, &s);
  return true;
}

bool dfk_gemm_alone(int64_t m, int64_t n, int64_t k) { return n * k <= ROOM && m * n * k <= 524288; }

bool dfk_gemm_adds(const gemm *g) {
  return g->m > 4 && g->n > 1 && g->k > 0 &&
         (dfk_gemm_alone(g->m, g->n, g->k) || is_near(g) || (g->k <= KC && g->m * g->n <= UNSPLIT));
}

#define GEMM(NAME, T, WAY, ALONE)                                                                                   \
  int32_t NAME(df_kernel *k, const gemm *g, const T *a, const T *b, T *c) {                                         \
    if (g->m == 0 || g->n == 0) return DF_OK;                                                                       \
    if (g->k == 0) {                                                                                                \
      for (int64_t i = 0; i < g->m; i++) memset(c + i * g->ldc, 0, (size_t)g->n * sizeof(T));                       \
      return DF_OK;                                                                                                 \
    }                                                                                                               \
    if (g->each && vectors_alike(k, g, &WAY, a, b, c)) return DF_OK;                                                \
    if (dfk_gemm_alone(g->each ? g->each : g->m, g->n, g->k)) {                                                     \
      T room[ROOM] __attribute__((aligned(64)));                                                                    \
      ALONE(g, a, b, c, room);                                                                                      \
      return DF_OK;                                                                                                 \
    }                                                                                                               \
    if (!g->each && vectors(k, g, &WAY, a, b, c)) return DF_OK;                                                     \
    return is_near(g) ? rows(k, g, &WAY, a, b, c) : large(k, g, &WAY, a, b, c);                                     \
  }
GEMM(dfk_gemm_f32, float, way_f32, alone_f32)
GEMM(dfk_gemm_f64, double, way_f64, alone_f64)

/* On one thread, as a part of something larger. */
#define PIECE(NAME, T, WAY)                                                                                         \
  void NAME(const gemm *g, const T *a, const T *b, T *c, bool add, T *room) {                                       \
    job s = { .m = g->m, .n = g->n, .k = g->k, .lda = g->lda, .ldb = g->ldb, .ldc = g->ldc, .a_t = g->a_t, \
      .b_t = g->b_t, \
              .a = a, .b = b, .c = c, .add = add, .strip_rows = STRIP, .strip_panels = 2 };                         \
    if (g->a_t) {                                                                                                   \
      s.pa = room;                                                                                                  \
      WAY.pack_a(&s, 0, (g->k + PACK - 1) / PACK);                                                                  \
    }                                                                                                               \
    int64_t wide = 2 * WAY.nr;                                                                                      \
    WAY.strips(&s, 0, (g->m + STRIP - 1) / STRIP * ((g->n + wide - 1) / wide));                                     \
  }
PIECE(dfk_gemm_piece_f32, float, way_f32)
PIECE(dfk_gemm_piece_f64, double, way_f64)

/* ---- of blocks that are near ------------------------------------------------------------------------------------ */

#define NEAR(s, T)                                                                                                  \
  void dfk_gemm_near_##s(int64_t m, int64_t n, int64_t k, const T *a, int64_t ars, int64_t acs, const T *b,         \
                         int64_t ldb, T *c, int64_t ldc, bool add) {                                                \
    if (add) small_##s(m, n, k, a, ars, acs, b, ldb, c, ldc, true);                                                 \
    else small_##s(m, n, k, a, ars, acs, b, ldb, c, ldc, false);                                                    \
  }                                                                                                                 \
  void dfk_gemm_dots_##s(int64_t m, int64_t k, const T *a, int64_t lda, const T *x, T *y) {                         \
    matrix_vector_##s(m, k, a, lda, x, y);                                                                          \
  }                                                                                                                 \
  void dfk_gemm_transpose_##s(int64_t rows, int64_t columns, const T *from, int64_t ld, T *to, int64_t ldt) {       \
    transpose_##s(rows, columns, from, ld, to, ldt);                                                                \
  }
NEAR(f32, float)
NEAR(f64, double)

/* ---- sums of products whose left sides overlap ------------------------------------------------------------------- */

#define SUM(s, T)                                                                                                   \
  void dfk_gemm_sum_pack_##s(const gemm_sum *g, const T *b, T *panels, int64_t begin, int64_t end) {                \
    sum_pack_##s(g, b, panels, begin, end);                                                                         \
  }                                                                                                                 \
  void dfk_gemm_sum_##s(const gemm_sum *g, const T *a, T *c, int64_t from, int64_t to) {                            \
    sum_##s(g, a, c, from, to);                                                                                     \
  }
SUM(f32, float)
SUM(f64, double)

int64_t dfk_gemm_sum_panels(const gemm_sum *s) {
  const int64_t chunk = sum_chunk(s->k), chunks = (s->k + chunk - 1) / chunk, nr = 2 * LANES_f32;
  return s->parts * chunks * chunk * ((s->n + nr - 1) / nr * nr);
}

/* ---- parts side by side, in pieces ----------------------------------------------------------------------------- */

enum { GATE_COLUMNS = 2 * LANES_f32 };               /* of a block: as wide as a kernel */

/* Chunks of KC, or all of k at once, in one register: is that dfk_gemm_f32's order? Its library's tiles have their own,
   and vectors. */
static bool sums_in_chunks(const gemm *g) {
  return g->m > 4 && g->n > 1 && g->k > 0 && g->m * g->n <= UNSPLIT && !g->a_t;
}
static int64_t chunk_of(const gemm *g) {
  return dfk_gemm_alone(g->m, g->n, g->k) || is_near(g) || g->k < KC ? g->k : KC;
}

typedef struct gates_job { const gemm_gates *s; job b; float *to; } gates_job;

static void pack_gates(void *arg, int64_t begin, int64_t end) {       /* blocks of chunks */
  const gates_job *w = (const gates_job *)arg;
  const gemm_gates *s = w->s;
  for (int64_t t = begin; t < end; t++) {
    const int64_t p = t / s->blocks * s->chunk, kc = s->g.k - p < s->chunk ? s->g.k - p : s->chunk;
    const int64_t j = t % s->blocks * GATE_COLUMNS;
    const int64_t wide = s->units - j < GATE_COLUMNS ? s->units - j : GATE_COLUMNS;
    for (int64_t i = 0; i < s->gates; i++)
      pack_b_f32(&w->b, p, kc, i * s->units + j, i * s->units + j + wide,
                 w->to + (t * s->gates + i) * s->chunk * GATE_COLUMNS);
  }
}

bool dfk_gemm_gates_begin(df_kernel *k, gemm_gates *s, const gemm *g, int64_t gates) {
  if (!g->weights || g->n % gates || !sums_in_chunks(g)) return false;
  const int64_t units = g->n / gates, blocks = (units + GATE_COLUMNS - 1) / GATE_COLUMNS;
  const int64_t chunk = chunk_of(g), chunks = (g->k + chunk - 1) / chunk, panel = chunk * GATE_COLUMNS;
  const int64_t bytes = chunks * blocks * gates * panel * 4;
  const dfk_packing how = { { 'G' | g->b_t << 8 | gates << 16, g->n | chunk << 32, g->k, g->ldb } };
  void *room;
  *s = (gemm_gates){ *g, gates, units, GATE_COLUMNS, blocks, chunk, bytes > 2 * FAR_BYTES,
                      g->n >= A_PAYS && g->m >= A_ROWS, NULL };
  s->panels = (const float *)dfk_packed(g->weights, &how, bytes, &room);
  if (!room) return s->panels != NULL;
  gates_job w = { s, { .k = g->k, .n = g->n, .ldb = g->ldb, .b_t = g->b_t, .b = g->weights->data }, (float *)room };
  dfk_parallel(k, chunks * blocks, 1 + (1 << 17) / (panel * gates), pack_gates, &w);
  dfk_packed_done(g->weights, room);
  s->panels = (const float *)room;
  return true;
}

int64_t dfk_gemm_transposed(int64_t rows, int64_t k) { return (rows + MR - 1) / MR * MR * k; }

void dfk_gemm_transpose(const gemm_gates *s, int64_t rows, int64_t p, int64_t n, const float *from, int64_t ld,
                        float *to) {
  const int64_t all = (rows + MR - 1) / MR * MR;
  if (!s->turns)
    for (int64_t i = 0; i < rows; i++) memcpy(to + i * s->g.k + p, from + i * ld, (size_t)n * sizeof *to);
  while (n > 0 && s->turns) {
    const int64_t chunk = p / s->chunk * s->chunk, kc = s->g.k - chunk < s->chunk ? s->g.k - chunk : s->chunk;
    const int64_t some = chunk + kc - p < n ? chunk + kc - p : n;
    for (int64_t i = 0; i < rows; i += MR)
      turn_f32(rows - i < MR ? rows - i : MR, some, from + i * ld, ld, to + chunk * all + i * kc + (p - chunk) * MR);
    p += some;
    n -= some;
    from += some;
  }
}

/* c[rows, w] += what every row gets. */
static inline void add_vector_f32(int64_t rows, int64_t w, const float *bias, float *c, int64_t ldc) {
  for (int64_t i = 0; i < rows; i++, c += ldc) for (int64_t j = 0; j < w; j++) c[j] += bias[j];
}

bool dfk_gemm_gates_add(const gemm_gates *s) { return s->g.k <= s->chunk; }

void dfk_gemm_gate_block(const gemm_gates *s, int64_t rows, const float *turned, int64_t block, bool add,
                         const float *bias, float *c, int64_t ldc, int64_t apart) {
  enum { NR = GATE_COLUMNS };
  const int64_t panel = s->chunk * NR, all = (rows + MR - 1) / MR * MR, j = block * NR;
  const int64_t w = s->units - j < NR ? s->units - j : NR, ars = s->turns ? 1 : s->g.k, acs = s->turns ? MR : 1;
  for (int64_t p = 0; p < s->g.k; p += s->chunk) {
    const int64_t kc = s->g.k - p < s->chunk ? s->g.k - p : s->chunk;
    const float *b = s->panels + (p / s->chunk * s->blocks + block) * s->gates * panel;
    for (int64_t gate = 0; gate < s->gates; gate++, b += panel)
      for (int64_t i = 0; i < rows; i += MR) {
        const float *a = turned + (s->turns ? p * all + i * kc : i * s->g.k + p);
        float *to = c + gate * apart + i * ldc;
        const int64_t high = rows - i < MR ? rows - i : MR;
        if (s->far) come_f32(b + panel, i / MR);
        if (high < MR || w < NR || !s->turns) small_f32(high, w, kc, a, ars, acs, b, NR, to, ldc, p > 0 || add);
        else if (p || add) cell_add_f32(kc, a, b, to, ldc);
        else cell_set_f32(kc, a, b, to, ldc);
        if (!bias || p + kc < s->g.k) continue;
        if (w == NR) add_vector_f32(high, NR, bias + gate * s->units + j, to, ldc);
        else add_vector_f32(high, w, bias + gate * s->units + j, to, ldc);
      }
  }
}

/* ---- integers ------------------------------------------------------------------------------------------------- */

/* As KERNEL has it: INT_ROWS rows by two vectors of c in registers; what is left at the ends, rows of b added to c. */
enum { INT_ROWS = 4 };
#define INTEGER(NAME, T)                                                                                            \
  typedef T NAME##_v __attribute__((vector_size(VEC_BYTES)));                                                       \
  static void NAME##_tile(const job *s, const T *a, int64_t row, int64_t step, const T *b, T *c) {                  \
    NAME##_v x[INT_ROWS] = { 0 }, y[INT_ROWS] = { 0 }, p, q;                                                        \
    for (int64_t n = s->k; n; n--, a += step, b += s->ldb) {                                                        \
      memcpy(&p, b, sizeof p);                                                                                      \
      memcpy(&q, (const char *)b + sizeof p, sizeof q);                                                             \
      _Pragma("GCC unroll 4") for (int i = 0; i < INT_ROWS; i++) {                                                  \
        x[i] += a[i * row] * p;                                                                                     \
        y[i] += a[i * row] * q;                                                                                     \
      }                                                                                                             \
    }                                                                                                               \
    _Pragma("GCC unroll 4") for (int i = 0; i < INT_ROWS; i++) {                                                    \
      memcpy(c + i * s->ldc, &x[i], sizeof p);                                                                      \
      memcpy((char *)(c + i * s->ldc) + sizeof p, &y[i], sizeof q);                                                 \
    }                                                                                                               \
  }                                                                                                                 \
  static void NAME##_end(const job *s, int64_t i, int64_t j, int64_t n) {                                           \
    T *restrict c = (T *)s->c + i * s->ldc + j;                                                                     \
    const T *a = (const T *)s->a + (s->a_t ? i : i * s->lda);                                                       \
    const int64_t step = s->a_t ? s->lda : 1;                                                                       \
    memset(c, 0, (size_t)n * sizeof(T));                                                                            \
    for (int64_t p = 0; p < s->k; p++) {                                                                            \
      const T x = a[p * step], *b = (const T *)s->b + p * s->ldb + j;                                               \
      for (int64_t q = 0; q < n; q++) c[q] += x * b[q];                                                             \
    }                                                                                                               \
  }                                                                                                                 \
  static void NAME##_rows(void *arg, int64_t begin, int64_t end) {                                                  \
    enum { WIDE = 2 * VEC_BYTES / sizeof(T) };                                                                      \
    const job *s = (const job *)arg;                                                                                \
    const int64_t row = s->a_t ? 1 : s->lda, step = s->a_t ? s->lda : 1, whole = s->n / WIDE * WIDE;                \
    const int64_t last = begin + (end - begin) / INT_ROWS * INT_ROWS;                                               \
    for (int64_t j = 0; j < whole; j += WIDE)                                                                       \
      for (int64_t i = begin; i < last; i += INT_ROWS)                                                              \
        NAME##_tile(s, (const T *)s->a + i * row, row, step, (const T *)s->b + j, (T *)s->c + i * s->ldc + j);      \
    for (int64_t i = begin; i < last && whole < s->n; i++) NAME##_end(s, i, whole, s->n - whole);                   \
    for (int64_t i = last; i < end; i++) NAME##_end(s, i, 0, s->n);                                                 \
  }                                                                                                                 \
  int32_t NAME(df_kernel *k, const gemm *g, const T *a, const T *b, T *c) {                                         \
    job s = { .m = g->m, .n = g->n, .k = g->k, .lda = g->lda, .ldb = g->ldb, .ldc = g->ldc, .a_t = g->a_t,          \
              .a = a, .b = b, .c = c };                                                                             \
    T *room = NULL;                                                                                                 \
    if (g->m == 0 || g->n == 0) return DF_OK;                                                                       \
    if (g->b_t && g->k) {                                                                                           \
      s.b = room = (T *)dfk_scratch(k, g->n * g->k * (int64_t)sizeof(T));                                           \
      if (!room) return DF_RESOURCE_EXHAUSTED;                                                                      \
      s.ldb = g->n;                                                                                                 \
      for (int64_t p = 0; p < g->k; p++)                                                                            \
        for (int64_t j = 0; j < g->n; j++) room[p * g->n + j] = b[j * g->ldb + p];                                  \
    }                                                                                                               \
    int64_t each = g->n * g->k + 1;                                                                                 \
    dfk_parallel(k, g->m, each >= 65536 ? 1 : 65536 / each, NAME##_rows, &s);                                       \
    dfk_free(room);                                                                                                 \
    return DF_OK;                                                                                                   \
  }
INTEGER(dfk_gemm_i32, uint32_t)
INTEGER(dfk_gemm_i64, uint64_t)

/* ---- many products ------------------------------------------------------------------------------------------- */

typedef struct batch {
  const gemm    *g;
  bool           wide;
  const char    *a, *b;
  const int64_t *at_a, *at_b;
  char          *c;
} batch;

static void batch_range(void *arg, int64_t begin, int64_t end) {
  const batch *s = (const batch *)arg;
  const gemm *g = s->g;
  double room[ROOM] __attribute__((aligned(64)));
  for (int64_t i = begin; i < end; i++) {
    int64_t a = s->at_a ? s->at_a[i] : 0, b = s->at_b ? s->at_b[i] : 0, c = i * g->m * g->n;
    if (s->wide) alone_f64(g, (const double *)s->a + a, (const double *)s->b + b, (double *)s->c + c, room);
    else alone_f32(g, (const float *)s->a + a, (const float *)s->b + b, (float *)s->c + c, (float *)room);
  }
}

int32_t dfk_gemm_batch(df_kernel *k, const gemm *g, int32_t dtype, int64_t count, const void *a, const int64_t *at_a,
                       const void *b, const int64_t *at_b, void *c) {
  bool wide = dtype == DF_FLOAT64, floats = wide || dtype == DF_FLOAT32;
  int64_t each = g->m * g->n * g->k;
  if (floats && count > 1 && each > 0 && each <= 524288 && g->n * g->k <= ROOM) {
    batch s = { g, wide, (const char *)a, (const char *)b, at_a, at_b, (char *)c };
    dfk_parallel(k, count, each >= 262144 ? 1 : 262144 / each, batch_range, &s);
    return DF_OK;
  }
  for (int64_t i = 0; i < count; i++) {
    int64_t p = at_a ? at_a[i] : 0, q = at_b ? at_b[i] : 0, r = i * g->m * g->n;
    int32_t code =
      dtype == DF_FLOAT64 ? dfk_gemm_f64(k, g, (const double *)a + p, (const double *)b + q, (double *)c + r) :
      dtype == DF_FLOAT32 ? dfk_gemm_f32(k, g, (const float *)a + p, (const float *)b + q, (float *)c + r) :
      dtype == DF_INT32   ? dfk_gemm_i32(k, g, (const uint32_t *)a + p, (const uint32_t *)b + q, (uint32_t *)c + r) :
                            dfk_gemm_i64(k, g, (const uint64_t *)a + p, (const uint64_t *)b + q, (uint64_t *)c + r);
    if (code) return code;
  }
  return DF_OK;
}
