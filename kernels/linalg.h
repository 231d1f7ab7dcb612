/* linalg.h: kernels of linear algebra. float16 and bfloat16 are computed in float and rounded once; integers wrap. */
#ifndef DFLOW_KERNELS_LINALG_H
#define DFLOW_KERNELS_LINALG_H
#include "einsum.h"
#include "kernel.h"

int32_t ref_matmul(df_kernel *k), cpu_matmul(df_kernel *k);               /* (a, b; transpose_a, transpose_b) */
/* The same of `members` products with one b, whose rows lie one behind the other in a, which is not transposed: each
   row is added up as in the product of its own. */
int32_t dfk_matmul_members(df_kernel *k, int32_t members);
/* c += a b of float32, on k's threads. False, and c as it was: shapes do not fit, or the bits would not be those of the
 * product, added afterwards. */
bool dfk_matmul_into(df_kernel *k, const df_tensor *a, const df_tensor *b, bool a_t, bool b_t, df_tensor *c);
/* c = a b of matrices of float32 or float64 that fit each other. DF_OK, or no memory for packing. */
int32_t dfk_matmul_to(df_kernel *k, const df_tensor *a, const df_tensor *b, bool a_t, bool b_t, df_tensor *c);
/* The kernel's product of [m, k] and [k, n] elements, which lie one after the other, on this thread: what it comes to
   where nothing is to be checked. NULL: it would do more than that. `how` is for the function. */
typedef void (*dfk_product_fn)(const void *a, const void *b, void *c, int64_t m, int64_t n, int64_t k, int32_t how);
dfk_product_fn dfk_product_alone(int32_t dtype, int64_t m, int64_t n, int64_t k, bool a_t, bool b_t, int32_t *how);
/* (x, y; adj_x, adj_y), batch axes broadcast */
int32_t ref_batch_matmul(df_kernel *k), cpu_batch_matmul(df_kernel *k);
int32_t ref_einsum(df_kernel *k), cpu_einsum(df_kernel *k);               /* (inputs...; equation) */
int32_t ref_matrix_band_part(df_kernel *k);                               /* (input, num_lower, num_upper) */
int32_t ref_matrix_diag(df_kernel *k), cpu_matrix_diag(df_kernel *k);     /* (diagonal[..., n]): [..., n, n] */
/* (input[..., m, n]): [..., min(m, n)] */
int32_t ref_matrix_diag_part(df_kernel *k), cpu_matrix_diag_part(df_kernel *k);

/* What a product asks for: checked, its batch axes broadcast. */
typedef struct dfk_product {
  int64_t m, n, k, count;                    /* count: matrices in the batch */
  bool    a_t, b_t;
  int32_t rank;
  int64_t dims[DF_MAX_RANK];                 /* of the result */
  int32_t batch_rank;
  /* elements between neighbours along each batch axis; 0: repeated */
  int64_t step_a[DF_MAX_RANK], step_b[DF_MAX_RANK];
} dfk_product;
int32_t dfk_product_of(df_kernel *k, dfk_product *p);
bool    dfk_two_matrices(df_kernel *k);      /* are the inputs? False: error is filled. */
/* Where matrix i of the batch begins in a and b, in elements. */
void    dfk_product_at(const dfk_product *p, int64_t i, int64_t *a, int64_t *b);

/* How their versions begin. NULL: error is filled. A band keeps `lower` subdiagonals and `upper` superdiagonals of
 * matrices m x n; negative: all. */
typedef struct dfk_band { int64_t m, n, lower, upper; } dfk_band;
df_tensor *dfk_band_part_begin(df_kernel *k, dfk_band *b);
df_tensor *dfk_matrix_diag_begin(df_kernel *k);                           /* zeros */
df_tensor *dfk_matrix_diag_part_begin(df_kernel *k);

/* The equation read for this call's inputs, and the size of each label. */
int32_t dfk_einsum_of(df_kernel *k, dfk_einsum *e, int64_t *sizes);
#endif
