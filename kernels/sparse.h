/* sparse.h: arithmetic of sparse tensors (ref/sparse.c, cpu/sparse.c). A sparse tensor is indices int64[n, rank],
   values [n], shape int64[rank]; in order means that its indices rise, no two alike. */
#ifndef DFLOW_SPARSE_H
#define DFLOW_SPARSE_H
#include "kernel.h"
/* A matrix as a product reads it: element i lies at row[i], column[i] of [rows, columns]. */
typedef struct dfk_triplets {
  int64_t          n, rows, columns;
  const df_tensor *at;                   /* [n, 2] */
  int32_t          row;                  /* which of the two is the row */
} dfk_triplets;
/* out [rows, b's columns], all zeros, += a times b [columns, …], or times b transposed. */
typedef int32_t (*dfk_sparse_product_fn)(df_kernel *k, const dfk_triplets *a, const df_tensor *b, bool transposed,
                                         df_tensor *out);
/* (a: sparse, b; adjoint_a, adjoint_b) -> product; the kernel but for the arithmetic. */
int32_t dfk_sparse_matmul(df_kernel *k, dfk_sparse_product_fn run);
int32_t ref_sparse_matmul(df_kernel *k), cpu_sparse_matmul(df_kernel *k);

int32_t ref_sparse_reorder(df_kernel *k);             /* (sparse) -> indices, values in order */
int32_t ref_sparse_softmax(df_kernel *k);             /* (sparse) -> values */
int32_t ref_sparse_reduce_sum(df_kernel *k), ref_sparse_reduce_max(df_kernel *k);  /* (sparse, axes; keep_dims) */
int32_t ref_sparse_slice(df_kernel *k);               /* (sparse, start, size) -> sparse */
int32_t ref_sparse_split(df_kernel *k);               /* (axis, sparse; num_split) -> indices…, values…, shapes… */
int32_t ref_sparse_add(df_kernel *k);                 /* (sparse, sparse, thresh) -> sparse */
/* (sparse, sparse) -> indices, values */
int32_t ref_sparse_maximum(df_kernel *k), ref_sparse_minimum(df_kernel *k);
int32_t ref_sparse_concat(df_kernel *k);              /* (indices, values, shapes: lists; concat_dim) -> sparse */
int32_t ref_sparse_reshape(df_kernel *k);             /* (indices, shape, new shape) -> indices, shape */
int32_t ref_sparse_fill_empty_rows(df_kernel *k);     /* (sparse, default) -> indices, values, empty, reverse */
int32_t ref_sparse_dense_mul(df_kernel *k), ref_sparse_dense_div(df_kernel *k),
    ref_sparse_dense_add(df_kernel *k);               /* (sparse, dense) -> values */
/* What TensorFlow's gradients of SparseAdd, SparseSlice and SparseFillEmptyRows are made of: (grad, indices of a, of b,
   of the sum) -> of a's values, of b's; (grad, indices, start, indices of the part) -> of the values;
   (reverse_index_map, grad) -> of the values, of the default. */
int32_t ref_sparse_add_grad(df_kernel *k), ref_sparse_slice_grad(df_kernel *k), ref_sparse_fill_grad(df_kernel *k);
int32_t ref_sparse_tensor_dense_add(df_kernel *k);    /* (sparse, dense) -> dense */
#endif
