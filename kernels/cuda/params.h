/* params.h: what kernels are given: one struct each, by value. Shared by the launchers (C) and the kernels (CUDA
 * C++). An operand that is a number of the host's has no address: its bits lie in the struct. */
#ifndef DFLOW_CUDA_PARAMS_H
#define DFLOW_CUDA_PARAMS_H
#include <stdint.h>

enum { DFC_RANK = 8, DFC_BOX_RANK = 16 };
typedef struct dfc_operand { const void *at; uint64_t bits; } dfc_operand;

/* z[i] = f(x[i]) */
typedef struct dfc_unary { const void *x; void *z; int64_t n; double param; } dfc_unary;
/* z[i] = f(a[…], b[…], c[…]): dims of z with neighbours joined; steps of each operand along them, 0 where it is
 * repeated. */
typedef struct dfc_spread {
  dfc_operand in[3];
  void   *z;
  int64_t n, rank, dims[DFC_RANK], step[3][DFC_RANK];
  double  param;
} dfc_spread;
typedef struct dfc_cast { const void *x; void *z; int64_t n; int32_t from, pad; } dfc_cast;
/* x as [outer, n, inner], folded over n: z is [outer, inner]. */
typedef struct dfc_fold { const void *x; void *z; int64_t outer, n, inner; int32_t what, flags; } dfc_fold;
/* Rows of n: softmax and its like. `labels`: of cross entropies. */
typedef struct dfc_rows { const void *x, *labels; void *z, *loss; int64_t rows, n; int32_t what, wide; } dfc_rows;
/* Elements of `width` bytes from place to place: see move.h. */
typedef struct dfc_moving {
  const void *from; void *to;
  uint64_t bits;                          /* from NULL: the one element */
  int64_t n, rank, dims[DFC_BOX_RANK], to_step[DFC_BOX_RANK], from_step[DFC_BOX_RANK];
} dfc_moving;
/* rows of `row` elements: to[i] = from[index[i]], or to[index[i]] op= from[i] in the order of i. */
typedef struct dfc_picking { const void *from; void *to; const int64_t *index; int64_t n, row, blocks, limit;
    int32_t op, pad; } dfc_picking;
typedef struct dfc_product {
  const void *a, *b; void *c;
  int64_t m, n, k, a_row, a_col, b_row, b_col;       /* steps in elements */
  /* of each matrix of the batch in a and then in b; NULL: one matrix */
  const int64_t *at;
  int64_t count;
} dfc_product;
/* A window over images: the geometry of window.h. `side`: which of the three is made, as dfk_side has it. Pooling: c in
 * place of ci and co; out and dy as its kernels are given them. */
typedef struct dfc_axis { int64_t in, window, stride, dilation, out, before; } dfc_axis;
typedef struct dfc_window {
  const void *in, *filter, *out, *dy; void *to;
  int64_t n, ci, co;
  dfc_axis y, x;
  int32_t side, pad;
} dfc_window;
typedef struct dfc_drawing { void *z; int64_t n; uint32_t key[2], tag[2]; int64_t low; uint64_t range; } dfc_drawing;
/* to[i] = a[i] op b[i]: dfk_update */
typedef struct dfc_updating { void *to; const void *a, *b; int64_t n; int32_t op, one_b; } dfc_updating;
typedef struct dfc_stepping {
  void *at[4];
  int64_t n;
  double rate, momentum, beta1, beta2, epsilon;
  int32_t kind, nesterov;
} dfc_stepping;
enum {
  DFC_SUM = 0,
  DFC_MEAN,
  DFC_PROD,
  DFC_MAX,
  DFC_MIN,
  DFC_ALL,
  DFC_ANY,
  DFC_LOG_SUM_EXP,
  DFC_NORM,
  DFC_HALF_SQUARES
};
enum { DFC_SOFTMAX = 0, DFC_LOG_SOFTMAX, DFC_XENT, DFC_SPARSE_XENT };
#endif
