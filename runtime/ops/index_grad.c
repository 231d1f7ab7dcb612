/* index_grad.c: gradients of the index family.
 *
 * A gather along axis 0 has a sparse gradient: the rows of dy and where they belong. Every other one is dense, by an op
 * that adds rows where the forward op read them. Where a forward op lets a later write win, its gradient goes to the
 * winner alone.
 */
#include "ops/array.h"

static const df_tensor *known(df_output o) { return o.node ? o.node->out[o.index].constant : NULL; }
static bool is_zero(df_output o) {
  const df_tensor *t = known(o);
  return t && t->size == 1 && dfk_index(t, 0) == 0;
}

void dfi_grad_sparse_rows(dfi_grad *g, df_node *n, df_output dy) {
  dfi_build *b = dfg_build(g);
  const dfi_shape *p = dfi_shape_at(n->in[0]), *i = dfi_shape_at(n->in[1]);
  df_output indices = dfg_in(g, n, 1);
  if (i->rank == 1) { dfg_sparse(g, 0, dy, indices); return; }
  int64_t count = dfi_shape_size(i), dims[DF_MAX_RANK] = { count };
  bool rows_known = p->rank > 0;
  for (int32_t d = 1; d < p->rank; d++) {
    dims[d] = p->dims[d];
    rows_known = rows_known && (p->dims[d] > 0 || (p->dims[d] == 0 && count >= 0));
  }
  df_output shape, flat = dfi_const_ints(b, 1, &count); /* -1 where the count is not known */
  if (rows_known) {
    shape = dfi_const_ints(b, p->rank, dims);
  } else {
    df_output row = dfi_op(b, "Slice", dfg_in_shape(g, n, 0), dfi_const_ints(b, 1, (int64_t[]){ 1 }),
                           dfi_const_ints(b, 1, (int64_t[]){ -1 }));
    df_output rows =
        count >= 0 ? flat : dfi_op(b, "Reshape", dfi_op(b, "Size", indices), dfi_const_ints(b, 1, (int64_t[]){ 1 }));
    shape = dfi_op(b, "ConcatV2", rows, row, dfi_const_int(b, 0));
  }
  df_output values = dfi_op(b, "Reshape", dy, shape);
  dfg_sparse(g, 0, values, dfi_op(b, "Reshape", indices, flat));
}

int32_t dfi_grad_gather(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  if (is_zero(n->in[2]) && n->attrs[0].i == 0) {
    dfi_grad_sparse_rows(g, n, dy[0]);
    return dfg_end(g);
  }
  df_output shape = dfg_in_shape(g, n, 0), indices = dfg_in(g, n, 1), axis = dfg_in(g, n, 2);
  if (n->attrs[0].i) dfi_attr_int(b, "batch_dims", n->attrs[0].i);
  dx[0] = dfi_op(b, "GatherGrad", shape, indices, axis, dy[0]);
  return dfg_end(g);
}

/* GatherGrad(shape, indices, axis, dy) is linear in dy, and the gather is what it undoes. */
int32_t dfi_grad_gather_grad(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output indices = dfg_in(g, n, 1), axis = dfg_in(g, n, 2);
  if (n->attrs[0].i) dfi_attr_int(b, "batch_dims", n->attrs[0].i);
  dx[3] = dfi_op(b, "GatherV2", dy[0], indices, axis);
  return dfg_end(g);
}

int32_t dfi_grad_gather_nd(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dfi_op(dfg_build(g), "ScatterNd", dfg_in(g, n, 1), dy[0], dfg_in_shape(g, n, 0));
  return dfg_end(g);
}
int32_t dfi_grad_scatter_nd(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[1] = dfi_op(dfg_build(g), "GatherNd", dy[0], dfg_in(g, n, 0));
  return dfg_end(g);
}

int32_t dfi_grad_tensor_scatter_update(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  if (dfg_wants(g, n, 0))
    dx[0] = dfi_op(b, "TensorScatterUpdate", dy[0], dfg_in(g, n, 1), dfi_grad_zeros_like(g, n, 2));
  if (dfg_wants(g, n, 2)) dx[2] = dfi_op(b, "GatherNdLast", dy[0], dfg_in(g, n, 1));
  return dfg_end(g);
}
/* GatherNdLast(params, indices) gives zeros for an index that comes again later. */
int32_t dfi_grad_gather_nd_last(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dfi_op(dfg_build(g), "TensorScatterUpdate", dfi_grad_zeros_like(g, n, 0), dfg_in(g, n, 1), dy[0]);
  return dfg_end(g);
}
int32_t dfi_grad_tensor_scatter_add(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dy[0];
  if (dfg_wants(g, n, 2)) dx[2] = dfi_op(dfg_build(g), "GatherNd", dy[0], dfg_in(g, n, 1));
  return dfg_end(g);
}
int32_t dfi_grad_tensor_scatter_sub(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  dx[0] = dy[0];
  if (dfg_wants(g, n, 2)) dx[2] = dfi_op(b, "Neg", dfi_op(b, "GatherNd", dy[0], dfg_in(g, n, 1)));
  return dfg_end(g);
}

/* The greatest or the least: dy goes in equal shares to all that are it. */
int32_t dfi_grad_tensor_scatter_best(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const int64_t dtype = n->out[0].dtype;
  df_output best = dfg_out(g, n, 0), indices = dfg_in(g, n, 1), is[2];
  for (int32_t i = 0; i < 2; i++) {
    df_output equal = i ? dfi_op(b, "Equal", dfg_in(g, n, 2), dfi_op(b, "GatherNd", best, indices))
                        : dfi_op(b, "Equal", dfg_in(g, n, 0), best);
    dfi_attr_int(b, "DstT", dtype);
    is[i] = dfi_op(b, "Cast", equal);
  }
  df_output share = dfi_op(b, "RealDiv", dy[0], dfi_op(b, "TensorScatterAdd", is[0], indices, is[1]));
  if (dfg_wants(g, n, 0)) dx[0] = dfi_op(b, "Mul", share, is[0]);
  if (dfg_wants(g, n, 2)) dx[2] = dfi_op(b, "Mul", dfi_op(b, "GatherNd", share, indices), is[1]);
  return dfg_end(g);
}

/* on_value gets what came where the one is, off_value the rest. */
int32_t dfi_grad_one_hot(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  uint8_t dtype = n->out[0].dtype;
  df_output indices = dfg_in(g, n, 0), depth = dfg_in(g, n, 1), one = dfi_const(b, dtype, 1),
            zero = dfi_const(b, dtype, 0);
  dfi_attr_int(b, "axis", n->attrs[0].i);
  df_output hot = dfi_op(b, "OneHot", indices, depth, one, zero);
  dx[2] = dfi_grad_sum_all(g, dfi_op(b, "Mul", dy[0], hot));
  if (dfg_wants(g, n, 3)) dx[3] = dfi_op(b, "Sub", dfi_grad_sum_all(g, dy[0]), dx[2]);
  return dfg_end(g);
}

/* The positions of the rows are partitioned the same way; stitching by them puts dy's rows back. */
int32_t dfi_grad_dynamic_partition(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output parts = dfg_in(g, n, 1), zero = dfi_const_int(b, 0), one = dfi_const_int(b, 1);
  df_output *list = dfi_xmalloc(sizeof *list * 2 * (size_t)n->nout);
  df_output size = dfi_op(b, "Size", parts), row = dfi_op(b, "Range", zero, size, one);
  if (dfi_shape_at(n->in[1])->rank != 1) row = dfi_op(b, "Reshape", row, dfg_in_shape(g, n, 1));
  dfi_attr_int(b, "num_partitions", n->nout);
  df_node *where = dfi_opnode(b, "DynamicPartition", 2, (df_output[]){ row, parts });
  for (int32_t i = 0; where && i < n->nout; i++) {
    list[i] = (df_output){ where, i };
    list[n->nout + i] = dy[i].node ? dy[i] : dfi_grad_zeros_out(g, n, i);
  }
  if (where) dx[0] = dfi_grad_like_in(g, n, 0, dfi_opn(b, "DynamicStitch", 2 * n->nout, list));
  dfi_free(list);
  return dfg_end(g);
}

int32_t dfi_grad_dynamic_stitch(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  int32_t lists = n->nin / 2;
  df_output *in = dfi_xmalloc(sizeof *in * ((size_t)lists + 1));
  for (int32_t i = 0; i < lists; i++) in[i] = dfg_in(g, n, i);
  in[lists] = dy[0];
  df_node *rows = dfi_opnode(b, "DynamicStitchGrad", lists + 1, in);
  for (int32_t i = 0; rows && i < lists; i++) dx[lists + i] = (df_output){ rows, i };
  dfi_free(in);
  return dfg_end(g);
}
/* DynamicStitchGrad(indices…, dy) gives each list the rows of dy that it won, zeros for the others. */
int32_t dfi_grad_dynamic_stitch_grad(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  int32_t lists = n->nin - 1;
  df_output *in = dfi_xmalloc(sizeof *in * 2 * (size_t)lists);
  for (int32_t i = 0; i < lists; i++) {
    in[i] = dfg_in(g, n, i);
    in[lists + i] = dy[i].node ? dy[i] : dfi_grad_zeros_out(g, n, i);
  }
  dx[lists] = dfi_opn(b, "DynamicStitch", 2 * lists, in);
  dfi_free(in);
  return dfg_end(g);
}
