/* accumulator.h: what a conditional accumulator holds, for the files that know its two forms: accumulator.c, and
 * accumulator_sparse.c for gradients that are rows of a tensor.
 */
#ifndef DFLOW_OPS_ACCUMULATOR_H
#define DFLOW_OPS_ACCUMULATOR_H
#include "op/op.h"

typedef struct dfi_taker { struct dfi_taker *next; df_kernel *kernel; int64_t required; } dfi_taker;

typedef struct dfi_accumulator {
  dfi_handle      base;
  char           *name;              /* owned */
  uint8_t         dtype;             /* float16, float32 or float64 */
  dfi_shape       shape;             /* of a gradient; may be unknown in part */
  bool            mean;              /* what is taken is the sum divided by how many there are */
  bool            sparse;            /* gradients are rows of a tensor of that shape, with their indices */
  pthread_mutex_t lock;              /* guards what follows; taken before a run's inbox_lock */
  int64_t         step, count;       /* gradients of this step and later ones count; so many are in `sum` */
  df_tensor      *sum;               /* owned; NULL: count is 0. Where sparse: [rows, ...] */
  df_tensor      *indices, *counts;  /* owned; where sparse: int64[rows], and how many gradients had each row */
  dfi_taker      *first, **last;     /* that wait, in line */
} dfi_accumulator;

/* to[i] += from[i], n elements of the dtype; to[i] /= by. */
void dfi_accumulator_add(uint8_t dtype, void *to, const void *from, int64_t n);
void dfi_accumulator_divide(uint8_t dtype, void *to, int64_t n, int64_t by);

/* accumulator_sparse.c. Adds the gradient of SparseAccumulatorApplyGradient, under the lock. */
int32_t dfi_sparse_put(dfi_accumulator *a, df_kernel *k);
/* Each row of the sum divided by how many gradients had it. */
void dfi_sparse_divide(dfi_accumulator *a);
/* The outputs of a taker: indices, values (both consumed) and the shape. */
int32_t dfi_sparse_give(const dfi_accumulator *a, df_kernel *k, df_tensor *indices, df_tensor *values);
#endif
