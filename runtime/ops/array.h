/* array.h: the shape and gradient functions that the entries of ops/array.c and ops/index.c name. */
#ifndef DFLOW_OPS_ARRAY_H
#define DFLOW_OPS_ARRAY_H
#include "op/op.h"
#include "graph/grad.h"

/* ---- shapes (array_shape.c, slice_shape.c, index_shape.c) -------------------------------------------------- */
int32_t dfi_infer_shape(dfi_infer *c);
int32_t dfi_infer_scalar(dfi_infer *c);
int32_t dfi_infer_reshape(dfi_infer *c);
int32_t dfi_infer_expand_dims(dfi_infer *c);
int32_t dfi_infer_squeeze(dfi_infer *c);
int32_t dfi_infer_transpose(dfi_infer *c);
int32_t dfi_infer_concat(dfi_infer *c);
int32_t dfi_infer_concat_offset(dfi_infer *c);
int32_t dfi_infer_split(dfi_infer *c);
int32_t dfi_infer_split_v(dfi_infer *c);
int32_t dfi_infer_pack(dfi_infer *c);
int32_t dfi_infer_unpack(dfi_infer *c);
int32_t dfi_infer_fill(dfi_infer *c);
int32_t dfi_infer_range(dfi_infer *c);
int32_t dfi_infer_lin_space(dfi_infer *c);
int32_t dfi_infer_broadcast_to(dfi_infer *c);
int32_t dfi_infer_broadcast_args(dfi_infer *c);
int32_t dfi_infer_broadcast_gradient_args(dfi_infer *c);
int32_t dfi_infer_vector_same(dfi_infer *c);
int32_t dfi_infer_diag(dfi_infer *c);
int32_t dfi_infer_diag_part(dfi_infer *c);
int32_t dfi_infer_matrix_set_diag(dfi_infer *c);
int32_t dfi_infer_where(dfi_infer *c);
int32_t dfi_infer_unique(dfi_infer *c);

int32_t dfi_infer_slice(dfi_infer *c);
int32_t dfi_infer_strided_slice(dfi_infer *c);
int32_t dfi_infer_strided_slice_grad(dfi_infer *c);
int32_t dfi_infer_tile(dfi_infer *c);
int32_t dfi_infer_pad(dfi_infer *c);
int32_t dfi_infer_mirror_pad(dfi_infer *c);
int32_t dfi_infer_mirror_pad_grad(dfi_infer *c);
int32_t dfi_infer_reverse(dfi_infer *c);
int32_t dfi_infer_reverse_sequence(dfi_infer *c);
int32_t dfi_infer_roll(dfi_infer *c);

int32_t dfi_infer_gather(dfi_infer *c);
int32_t dfi_infer_gather_grad(dfi_infer *c);
int32_t dfi_infer_gather_nd(dfi_infer *c);
int32_t dfi_infer_scatter_nd(dfi_infer *c);
int32_t dfi_infer_tensor_scatter(dfi_infer *c);
int32_t dfi_infer_one_hot(dfi_infer *c);
int32_t dfi_infer_dynamic_partition(dfi_infer *c);
int32_t dfi_infer_dynamic_stitch(dfi_infer *c);
int32_t dfi_infer_dynamic_stitch_grad(dfi_infer *c);

/* What they share. An axis that input i gives, for `rank` dims (rank < 0: not known): 1 and *axis counted from the
 * front; 0: not known yet; -1: it is wrong, c->error is filled. */
int32_t dfi_infer_axis(dfi_infer *c, int32_t i, int32_t rank, const char *what, int32_t *axis);
/* The same of a number that is known. */
int32_t dfi_infer_axis_value(dfi_infer *c, int64_t v, int32_t rank, const char *what, int32_t *axis);
/* Input i must have this rank where its own is known. */
int32_t dfi_infer_rank(dfi_infer *c, int32_t i, int32_t rank, const char *what);
/* A shape of `rank` unknown dims; an error when that is more than there can be. */
int32_t dfi_infer_open(dfi_infer *c, int32_t out, int32_t rank);

/* ---- gradients (ops/array_grad.c, ops/index_grad.c) -------------------------------------------------------------- */
int32_t dfi_grad_reshape(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);  /* and ExpandDims, Squeeze */
int32_t dfi_grad_transpose(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_concat(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_split(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_split_v(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_pack(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_unpack(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_slice(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_strided_slice(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_strided_slice_grad(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_tile(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_pad(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);           /* and PadV2 */
int32_t dfi_grad_mirror_pad(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_mirror_pad_grad(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_reverse(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_reverse_sequence(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_roll(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_broadcast_to(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_fill(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_range(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_lin_space(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_diag(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_diag_part(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_matrix_set_diag(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_check_numerics(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);

int32_t dfi_grad_gather(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_gather_grad(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_gather_nd(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_gather_nd_last(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_scatter_nd(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_tensor_scatter_update(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_tensor_scatter_add(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_tensor_scatter_sub(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_tensor_scatter_best(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_one_hot(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_dynamic_partition(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_dynamic_stitch(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);
int32_t dfi_grad_dynamic_stitch_grad(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);

/* What they share (ops/array_grad.c). */
df_output dfi_grad_like_in(dfi_grad *g, df_node *n, int32_t i, df_output dz);  /* dz reshaped to the shape of input i */
df_output dfi_grad_zeros_out(dfi_grad *g, df_node *n, int32_t i);              /* zeros of the shape of output i */
df_output dfi_grad_sum_all(dfi_grad *g, df_output x);                          /* the sum of all elements, rank 0 */
df_output dfi_grad_zeros_like(dfi_grad *g, df_node *n, int32_t i);             /* zeros of the shape of input i */
/* The gradient of input 0, from which rows were taken along axis 0 at the indices that input 1 gives, in any shape:
   sparse. */
void dfi_grad_sparse_rows(dfi_grad *g, df_node *n, df_output dy);
#endif
