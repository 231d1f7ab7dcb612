/* gemm.h: c[m,n] = a[m,k] b[k,n] for CPU kernels. All row-major; a_t: a is stored [k,m]; b_t: b is stored [n,k].
 * c has rows ldc apart. Each element is summed in an order that depends on m, n and k alone.
 */
#ifndef DFLOW_CPU_GEMM_H
#define DFLOW_CPU_GEMM_H
#include "../kernel.h"

typedef struct gemm {
  int64_t m, n, k;
  bool    a_t, b_t;
  int64_t lda, ldb, ldc;
  const df_tensor *weights;   /* the tensor that b is, where it may be read again and again; NULL: not known */
  bool    add;                /* to what c holds; only where dfk_gemm_adds */
  int64_t each;               /* 0; else rows are those of products of so many rows each, and summed as in these */
} gemm;

/* Is c + a b, added at once, what adding the product to c afterwards gives, to the bit? So it is where an element of
 * the product is summed in one register from end to end. */
bool dfk_gemm_adds(const gemm *g);

/* Is it done at once, by the thread that asks? Then the df_kernel may be NULL. */
bool dfk_gemm_alone(int64_t m, int64_t n, int64_t k);

/* Uses dfk_parallel when it is large. Memory for packing is taken with dfk_scratch: DF_OK or DF_RESOURCE_EXHAUSTED. */
int32_t dfk_gemm_f32(df_kernel *k, const gemm *g, const float *a, const float *b, float *c);
int32_t dfk_gemm_f64(df_kernel *k, const gemm *g, const double *a, const double *b, double *c);
/* A product on this thread alone; added to c when `add`. m, n and k are above 0. room, where a_t: k times m rounded up
 * to a multiple of 8 elements; else it may be NULL. */
void dfk_gemm_piece_f32(const gemm *g, const float *a, const float *b, float *c, bool add, float *room);
void dfk_gemm_piece_f64(const gemm *g, const double *a, const double *b, double *c, bool add, double *room);
/* The parts of products that others make block by block, on this thread, of what is near. c[m, n] = or += a b, where
 * element (i, p) of a lies at i ars + p acs; y[m] = a x; to[columns, rows] = from[rows, columns]. */
void dfk_gemm_near_f32(int64_t m, int64_t n, int64_t k, const float *a, int64_t ars, int64_t acs, const float *b,
                       int64_t ldb, float *c, int64_t ldc, bool add);
void dfk_gemm_near_f64(int64_t m, int64_t n, int64_t k, const double *a, int64_t ars, int64_t acs, const double *b,
                       int64_t ldb, double *c, int64_t ldc, bool add);
void dfk_gemm_dots_f32(int64_t m, int64_t k, const float *a, int64_t lda, const float *x, float *y);
void dfk_gemm_dots_f64(int64_t m, int64_t k, const double *a, int64_t lda, const double *x, double *y);
void dfk_gemm_transpose_f32(int64_t rows, int64_t columns, const float *from, int64_t ld, float *to, int64_t ldt);
void dfk_gemm_transpose_f64(int64_t rows, int64_t columns, const double *from, int64_t ld, double *to, int64_t ldt);
/* A sum of products whose left sides overlap, as those of a convolution do: c[rows m, n] = a_0 b_0 + a_1 b_1 + …, each
 * b [k, n], one behind the other in rows ldb apart. Row r m + i of a_p begins at a + at[p] + r row + i step, that of c
 * at (r m + i) ldc. Counted in elements. */
typedef struct gemm_sum {
  int64_t        parts, k, n, rows, m, row, step, ldb, ldc;
  const int64_t *at;
  const void    *panels;      /* all b, packed */
} gemm_sum;
int64_t dfk_gemm_sum_panels(const gemm_sum *s);                      /* elements that they take */
/* Those of parts [begin, end). */
void dfk_gemm_sum_pack_f32(const gemm_sum *s, const float *b, float *panels, int64_t begin, int64_t end);
void dfk_gemm_sum_pack_f64(const gemm_sum *s, const double *b, double *panels, int64_t begin, int64_t end);
/* Columns [from, to) of c, on this thread; `from` is a multiple of DFK_SUM_COLUMNS. An element's sum is one order,
 * whatever is asked for at once. */
enum { DFK_SUM_COLUMNS = 64 };
void dfk_gemm_sum_f32(const gemm_sum *s, const float *a, float *c, int64_t from, int64_t to);
void dfk_gemm_sum_f64(const gemm_sum *s, const double *a, double *c, int64_t from, int64_t to);
int32_t dfk_gemm_i32(df_kernel *k, const gemm *g, const uint32_t *a, const uint32_t *b, uint32_t *c);
int32_t dfk_gemm_i64(df_kernel *k, const gemm *g, const uint64_t *a, const uint64_t *b, uint64_t *c);

/* A product of float32 whose n columns are `gates` equal parts, in pieces for a caller that goes on with each at once:
 * cell.c. A block is `columns` columns of every part, the last one fewer. Sums are those of dfk_gemm_f32, to the bit.
 */
typedef struct gemm_gates {
  gemm    g;                          /* neither a_t nor add; its weights are known */
  int64_t gates, units, columns, blocks, chunk;       /* units: columns of a part; chunk: of k, summed in a register */
  bool    far, turns;                 /* b is past the second-level cache; turning rows pays */
  const float *panels;                /* b, kept in the order of blocks */
} gemm_gates;
enum { DFK_GATE_ROWS = 64 };          /* of a at a time, at most */
/* False: dfk_gemm_f32 sums in another order, or b is not kept, or not yet. */
bool dfk_gemm_gates_begin(df_kernel *k, gemm_gates *s, const gemm *g, int64_t gates);
/* How many floats so many rows of a take when they are turned. */
int64_t dfk_gemm_transposed(int64_t rows, int64_t k);
/* Turns columns [p, p + n) of some rows of a, where that pays; these columns lie at `from`. */
void dfk_gemm_transpose(const gemm_gates *s, int64_t rows, int64_t p, int64_t n, const float *from, int64_t ld,
                        float *to);
/* Is all of k summed in one register, so that the product may be added at once to something? */
bool dfk_gemm_gates_add(const gemm_gates *s);
/* Turned rows times a block's columns, added to what is there where `add`, and the bias (NULL: none, else of n
   numbers): gate g, row i of c begins at g apart + i ldc. */
void dfk_gemm_gate_block(const gemm_gates *s, int64_t rows, const float *turned, int64_t block, bool add,
                         const float *bias, float *c, int64_t ldc, int64_t apart);

/* count products of one shape: c[i] = a[at_a[i]] b[at_b[i]], where offsets count elements. dtype DF_FLOAT32,
 * DF_FLOAT64, DF_INT32 or DF_INT64. at_a or at_b NULL: every product reads offset 0. c[i] begins at i m n (ldc = n). */
int32_t dfk_gemm_batch(df_kernel *k, const gemm *g, int32_t dtype, int64_t count, const void *a, const int64_t *at_a,
                       const void *b, const int64_t *at_b, void *c);
#endif
