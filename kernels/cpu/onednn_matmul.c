/* onednn_matmul.c: large products of floats, and those of bfloat16 where the processor multiplies such numbers.
 *
 * A result is cut into tiles that depend on the sizes alone; a tile is one call of a primitive, on one thread, which
 * reads its rows of a and columns of b as they lie. bfloat16 is multiplied in pairs and summed in float32, the sum
 * rounded once, as our own kernels do, which make floats of all numbers first: at half the speed or less.
 */
#include "onednn_matmul.h"
#include <string.h>

#ifdef DFLOW_ONEDNN
enum {
  LEAST_FLOATS = 512 * 512,            /* elements of a result from which on the library is faster than gemm.c */
  FEW_ROWS = 256, KEPT = 1 << 23,      /* which for so few rows keeps a b of at most so many elements packed */
  LEAST_HALVES = 1 << 17,              /* multiplications that are worth a primitive of their own */
  TILE = 512, LEAST_TILE = 64,         /* rows and columns, at most; and where more tiles are wanted, at least */
  TILES = 16, TILE_WORK = 1 << 23,     /* so many are wanted, of so many multiplications each: 70 us */
};

/* ---- primitives ------------------------------------------------------------------------------------------------- */

typedef struct tile { const gemm *g; int32_t dtype; int64_t rows, columns; } tile;

static dnnl_primitive_desc_t make_tile(const dfk_dnn *d, const void *what, dnnl_primitive_attr_t attr,
                                       dfk_dnn_primitive *p) {
  const tile *t = what;
  const gemm *g = t->g;
  const dnnl_data_type_t type = t->dtype == DF_BFLOAT16 ? dnnl_bf16 : dnnl_f32;
  dnnl_dims_t a = { t->rows, g->k }, b = { g->k, t->columns }, c = { t->rows, t->columns };
  dnnl_dims_t step_a = { g->a_t ? 1 : g->lda, g->a_t ? g->lda : 1 }, step_c = { g->ldc, 1 };
  dnnl_dims_t step_b = { g->b_t ? 1 : g->ldb, g->b_t ? g->ldb : 1 };
  dnnl_matmul_desc_t desc;
  dnnl_primitive_desc_t pd;
  if (d->memory_desc_init_by_strides(&p->md[0], 2, a, type, step_a) ||
      d->memory_desc_init_by_strides(&p->md[1], 2, b, type, step_b) ||
      d->memory_desc_init_by_strides(&p->md[2], 2, c, type, step_c) ||
      d->matmul_desc_init(&desc, &p->md[0], &p->md[1], NULL, &p->md[2]) ||
      d->primitive_desc_create(&pd, &desc, attr, d->engine, NULL))
    return NULL;
  static const int args[3] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST };
  p->nargs = 3;
  memcpy(p->args, args, sizeof args);
  p->is_product = true;
  return pd;
}

static const dfk_dnn_primitive *tile_of(const gemm *g, int32_t dtype, int64_t rows, int64_t columns) {
  const dfk_dnn_key key = { { 'P', dtype, rows, columns, g->k, g->a_t, g->b_t, g->lda, g->ldb, g->ldc } };
  return dfk_dnn_get(&key, make_tile, &(tile){ g, dtype, rows, columns });
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

typedef struct job {
  const gemm    *g;
  const char    *a, *b;
  const int64_t *at_a, *at_b;
  char          *c;
  int64_t        width, rows, columns, down, across;      /* bytes of an element; of a tile, but the last; tiles */
  const dfk_dnn_primitive *tile[2][2];   /* [in the last rows][in the last columns]; the same where these are whole */
  bool           failed;
} job;

static void tiles(void *arg, int64_t begin, int64_t end) {
  job *s = arg;
  const gemm *g = s->g;
  for (int64_t t = begin; t < end; t++) {
    const int64_t which = t / (s->down * s->across), y = t / s->across % s->down, x = t % s->across;
    const int64_t i = y * s->rows, j = x * s->columns;
    const int64_t a = (s->at_a ? s->at_a[which] : 0) + (g->a_t ? i : i * g->lda);
    const int64_t b = (s->at_b ? s->at_b[which] : 0) + (g->b_t ? j * g->ldb : j);
    const int64_t c = which * g->m * g->n + i * g->ldc + j;
    void *at[] = { (void *)(s->a + a * s->width), (void *)(s->b + b * s->width), s->c + c * s->width };
    if (!dfk_dnn_run(s->tile[y == s->down - 1][x == s->across - 1], at))
      __atomic_store_n(&s->failed, true, __ATOMIC_RELAXED);
  }
}

/* n cut into parts of at most `most`, about as large as one another, in sixteens. */
static int64_t part_of(int64_t n, int64_t most) {
  const int64_t parts = (n + most - 1) / most, each = (n + parts - 1) / parts;
  return parts == 1 ? n : (each + 15) / 16 * 16;
}

static void choose_tiles(job *s, int64_t count) {
  const gemm *g = s->g;
  int64_t rows = TILE, columns = TILE;
  for (;;) {
    s->rows = part_of(g->m, rows);
    s->columns = part_of(g->n, columns);
    s->down = (g->m + s->rows - 1) / s->rows;
    s->across = (g->n + s->columns - 1) / s->columns;
    const bool small = s->rows * s->columns * g->k <= TILE_WORK;
    if (small || count * s->down * s->across >= TILES || (rows == LEAST_TILE && columns == LEAST_TILE)) return;
    if (s->rows >= s->columns && rows > LEAST_TILE) rows /= 2;
    else if (columns > LEAST_TILE) columns /= 2;
    else rows /= 2;
  }
}

static bool suits(const gemm *g, int32_t dtype) {
  const bool fits = g->m < INT32_MAX && g->n < INT32_MAX && g->k < INT32_MAX;
  if (!fits || g->add || g->m * g->n == 0 || g->k == 0) return false;
  if (dtype == DF_FLOAT32)
    return g->m * g->n > LEAST_FLOATS && !(g->weights && g->m <= FEW_ROWS && g->n * g->k <= KEPT);
#if defined(__x86_64__)
  return g->m * g->n * g->k >= LEAST_HALVES && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

dfk_done dfk_dnn_products(df_kernel *k, const gemm *g, int32_t dtype, int64_t count, const void *a, const int64_t *at_a,
                          const void *b, const int64_t *at_b, void *c) {
  if (!suits(g, dtype)) return DFK_NOT_DONE;
  job s = { .g = g, .a = a, .b = b, .at_a = at_a, .at_b = at_b, .c = c, .width = dtype == DF_FLOAT32 ? 4 : 2 };
  choose_tiles(&s, count);
  const int64_t rows[2] = { s.rows, g->m - (s.down - 1) * s.rows };
  const int64_t columns[2] = { s.columns, g->n - (s.across - 1) * s.columns };
  bool whole = true;
  for (int32_t t = 0; t < 4; t++)
    whole = (s.tile[t / 2][t % 2] = tile_of(g, dtype, rows[t / 2], columns[t % 2])) != NULL && whole;
  if (whole) dfk_parallel(k, count * s.down * s.across, 1, tiles, &s);
  for (int32_t t = 0; t < 4; t++) dfk_dnn_put(s.tile[t / 2][t % 2]);
  if (s.failed) dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for a product of matrices");
  return s.failed ? DFK_FAILED : whole ? DFK_DONE : DFK_NOT_DONE;
}
#else
dfk_done dfk_dnn_products(df_kernel *k, const gemm *g, int32_t dtype, int64_t count, const void *a, const int64_t *at_a,
                          const void *b, const int64_t *at_b, void *c) {
  return DFK_NOT_DONE;
}
#endif
