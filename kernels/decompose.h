/* decompose.h: kernels of linear algebra on batches of matrices, [..., m, n], float32 or float64, computed in double
   and rounded once. */
#ifndef DFLOW_KERNELS_DECOMPOSE_H
#define DFLOW_KERNELS_DECOMPOSE_H
#include "kernel.h"

int32_t ref_matrix_solve(df_kernel *k);               /* (matrix, rhs; adjoint) */
int32_t ref_matrix_triangular_solve(df_kernel *k);    /* (matrix, rhs; lower, adjoint), batch axes broadcast */
int32_t ref_matrix_inverse(df_kernel *k);             /* (input; adjoint) */
int32_t ref_matrix_determinant(df_kernel *k);         /* (input): [...] */
int32_t ref_log_matrix_determinant(df_kernel *k);     /* (input): sign [...], log of the absolute value [...] */
int32_t ref_cholesky(df_kernel *k);                   /* (input): the lower factor */
int32_t ref_lu(df_kernel *k);                         /* (input): lu, p */
int32_t ref_qr(df_kernel *k);                         /* (input; full_matrices): q, r */
int32_t ref_svd(df_kernel *k);                        /* (input; compute_uv, full_matrices): s, u, v */
int32_t ref_self_adjoint_eig(df_kernel *k);           /* (input; compute_v): e ascending, v */
int32_t ref_tridiagonal_solve(df_kernel *k);          /* (diagonals[..., 3, n], rhs[..., n, r]; partial_pivoting) */
/* (input complex) */
int32_t ref_fft(df_kernel *k), ref_ifft(df_kernel *k), ref_fft2d(df_kernel *k), ref_ifft2d(df_kernel *k);
int32_t ref_rfft(df_kernel *k), ref_irfft(df_kernel *k);                  /* (input, fft_length[1]) */
int32_t ref_rfft_grad(df_kernel *k), ref_irfft_grad(df_kernel *k);        /* (dy, fft_length[1], length) */
int32_t cpu_fft(df_kernel *k), cpu_ifft(df_kernel *k), cpu_fft2d(df_kernel *k), cpu_ifft2d(df_kernel *k);
int32_t cpu_rfft(df_kernel *k), cpu_irfft(df_kernel *k), cpu_rfft_grad(df_kernel *k), cpu_irfft_grad(df_kernel *k);

/* How these begin (kernels/fourier.c): checked, outputs made. NULL or false: error is filled. axes: 1 or 2 */
df_tensor *dfk_fourier_begin(df_kernel *k, int32_t axes);
/* Of real numbers, or to them: lines of n, of rows of `given` numbers, to `made`. */
typedef struct dfk_real_lines { int64_t n, given, made, rows; df_tensor *out; } dfk_real_lines;
bool dfk_real_fourier_begin(df_kernel *k, bool from_real, bool adjoint, dfk_real_lines *f);

/* An input as a batch of matrices, and how the ops begin on them (kernels/decompose.c). Not DF_OK, or NULL: the error
 * is filled. */
typedef struct dfk_batch { const df_tensor *t; int64_t count; int m, n; } dfk_batch;
static inline int dfk_least(int a, int b) { return a < b ? a : b; }
int32_t dfk_batch_of(df_kernel *k, int32_t i, dfk_batch *b);
int32_t dfk_square_batch_of(df_kernel *k, int32_t i, dfk_batch *b);
int32_t dfk_same_batch(df_kernel *k, const dfk_batch *a, const dfk_batch *b);
/* Output i, with the batch axes of t and then these n. */
df_tensor *dfk_batch_out(df_kernel *k, int32_t i, const df_tensor *t, int32_t n, const int64_t *own);
typedef struct dfk_triangles { dfk_batch a, b; int64_t count; } dfk_triangles;       /* count: of what is made */
df_tensor *dfk_triangular_solve_begin(df_kernel *k, dfk_triangles *p);
/* Where matrix t of the batch `whole` lies in x, which broadcasts to it. */
int64_t dfk_triangles_at(const df_tensor *x, const df_tensor *whole, int64_t t);
df_tensor *dfk_tridiagonal_begin(df_kernel *k, dfk_batch *a, dfk_batch *b);           /* (diagonals, rhs) */

int32_t ref_histogram_fixed_width(df_kernel *k);      /* (values, value_range[2], nbins; dtype) */
#endif
