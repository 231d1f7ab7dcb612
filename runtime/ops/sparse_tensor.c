/* sparse_tensor.c: entries of arithmetic on sparse tensors (indices int64[n, rank], values [n], shape int64[rank]).
 * Kernels are in kernels/ref/sparse.c; what makes strings of them is in sparse.c.
 *
 * Gradients are of values alone. They are made of ops that TensorFlow has, too, so they have gradients themselves.
 */
#include "ops/array.h"
#include "kernels/sparse.h"

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

/* The rank of the sparse tensor of input `first` and those `step` apart; -1: not known, -2: the error is filled. */
static int64_t sparse_rank_of(dfi_infer *c, int32_t first, int32_t step) {
  const dfi_shape *ix = dfi_in_shape(c, first), *v = dfi_in_shape(c, first + step),
                  *s = dfi_in_shape(c, first + 2 * step);
  int64_t a = ix->rank == 2 ? ix->dims[1] : -1, b = s->rank == 1 ? s->dims[0] : -1;
  const bool wrong = (ix->rank >= 0 && ix->rank != 2) || (v->rank >= 0 && v->rank != 1) ||
                     (s->rank >= 0 && s->rank != 1) || (a >= 0 && b >= 0 && a != b) ||
                     (ix->rank == 2 && v->rank == 1 && ix->dims[0] >= 0 && v->dims[0] >= 0 &&
                      ix->dims[0] != v->dims[0]);
  if (!wrong) return a < 0 ? b : a;
  char text[3][160];
  dfi_infer_fail(c, "indices %s, values %s and shape %s are no sparse tensor: expected [n,rank], [n] and [rank]",
                 dfi_shape_text(ix, text[0]), dfi_shape_text(v, text[1]), dfi_shape_text(s, text[2]));
  return -2;
}

static int64_t sparse_rank(dfi_infer *c, int32_t first) { return sparse_rank_of(c, first, 1); }

/* Outputs `first` and those `step` apart: a sparse tensor of n elements and this rank. */
static void set_sparse(dfi_infer *c, int32_t first, int32_t step, int64_t n, int64_t rank) {
  *dfi_set_shape(c, first) = dfi_shape_of(2, (int64_t[]){ n, rank });
  *dfi_set_shape(c, first + step) = dfi_shape_vector(n);
  if (first + 2 * step < c->node->nout) *dfi_set_shape(c, first + 2 * step) = dfi_shape_vector(rank);
}

static int64_t elements_of(dfi_infer *c, int32_t first) {
  const dfi_shape *ix = dfi_in_shape(c, first), *v = dfi_in_shape(c, first + 1);
  return v->rank == 1 && v->dims[0] >= 0 ? v->dims[0] : ix->rank == 2 ? ix->dims[0] : -1;
}

static int32_t shape_reorder(dfi_infer *c) {
  const int64_t rank = sparse_rank(c, 0);
  if (rank == -2) return c->error->code;
  set_sparse(c, 0, 1, elements_of(c, 0), rank);
  return DF_OK;
}
/* Of as many elements as there will be. */
static int32_t shape_some(dfi_infer *c) {
  const int64_t rank = sparse_rank(c, 0);
  if (rank == -2) return c->error->code;
  set_sparse(c, 0, 1, -1, rank);
  return DF_OK;
}
static int32_t shape_fill(dfi_infer *c) {
  const int64_t rank = sparse_rank(c, 0);
  if (rank == -2) return c->error->code;
  const dfi_shape s = dfi_in_as_shape(c, 2);
  *dfi_set_shape(c, 0) = dfi_shape_of(2, (int64_t[]){ -1, rank });
  *dfi_set_shape(c, 1) = dfi_shape_vector(-1);
  *dfi_set_shape(c, 2) = dfi_shape_vector(s.rank > 0 ? s.dims[0] : -1);
  *dfi_set_shape(c, 3) = dfi_shape_vector(elements_of(c, 0));
  return DF_OK;
}
static int32_t shape_add(dfi_infer *c) {
  const int64_t a = sparse_rank(c, 0), b = a == -2 ? -2 : sparse_rank(c, 3);
  if (a == -2 || b == -2) return c->error->code;
  if (a >= 0 && b >= 0 && a != b)
    return dfi_infer_fail(c, "the sparse tensors have ranks %lld and %lld: expected one shape", (long long)a,
                          (long long)b);
  set_sparse(c, 0, 1, -1, a < 0 ? b : a);
  return DF_OK;
}
static int32_t shape_concat(dfi_infer *c) {
  const int32_t count = c->node->nin / 3;
  int64_t rank = -1, n = 0;
  for (int32_t i = 0; i < count; i++) {
    const int64_t own = sparse_rank_of(c, i, count);
    if (own == -2) return c->error->code;
    if (rank >= 0 && own >= 0 && own != rank)
      return dfi_infer_fail(c, "sparse tensor %d has rank %lld, those before it %lld", i, (long long)own,
                            (long long)rank);
    if (own >= 0) rank = own;
    const dfi_shape *v = dfi_in_shape(c, count + i);
    n = n < 0 || v->rank != 1 || v->dims[0] < 0 ? -1 : n + v->dims[0];
  }
  set_sparse(c, 0, 1, n, rank);
  return DF_OK;
}
static int32_t shape_split(dfi_infer *c) {
  const int32_t pieces = c->node->nout / 3;
  const int64_t rank = sparse_rank(c, 1);
  if (rank == -2) return c->error->code;
  for (int32_t p = 0; p < pieces; p++) set_sparse(c, p, pieces, -1, rank);
  return DF_OK;
}
static int32_t shape_reshape(dfi_infer *c) {
  const dfi_shape *ix = dfi_in_shape(c, 0), *to = dfi_in_shape(c, 2);
  const int64_t rank = to->rank == 1 ? to->dims[0] : -1;
  *dfi_set_shape(c, 0) = dfi_shape_of(2, (int64_t[]){ ix->rank == 2 ? ix->dims[0] : -1, rank });
  *dfi_set_shape(c, 1) = dfi_shape_vector(rank);
  return DF_OK;
}
static int32_t shape_values(dfi_infer *c) {
  if (sparse_rank(c, 0) == -2) return c->error->code;
  *dfi_set_shape(c, 0) = dfi_shape_vector(elements_of(c, 0));
  return DF_OK;
}
static int32_t shape_dense(dfi_infer *c) {
  if (sparse_rank(c, 0) == -2) return c->error->code;
  *dfi_set_shape(c, 0) = *dfi_in_shape(c, 3);
  return DF_OK;
}
static int32_t shape_reduce(dfi_infer *c) {
  const int64_t rank = sparse_rank(c, 0);
  const df_tensor *axes = dfi_in_const(c, 3);
  if (rank == -2) return c->error->code;
  if (rank < 0 || rank > DF_MAX_RANK || !axes) return DF_OK;
  dfi_shape s = dfi_in_as_shape(c, 2), y = { .rank = 0 };
  bool kept[DF_MAX_RANK];
  for (int32_t d = 0; d < rank; d++) kept[d] = true;
  for (int64_t i = 0; i < axes->size; i++) {
    const int64_t axis = dfk_index(axes, i);
    if (axis < -rank || axis >= rank)
      return dfi_infer_fail(c, "axis %lld is outside of a sparse tensor of rank %lld", (long long)axis,
                            (long long)rank);
    kept[axis < 0 ? axis + rank : axis] = false;
  }
  for (int32_t d = 0; d < rank; d++)
    if (kept[d] || c->node->attrs[0].i) y.dims[y.rank++] = !kept[d] ? 1 : s.rank == rank ? s.dims[d] : -1;
  *dfi_set_shape(c, 0) = y;
  return DF_OK;
}
/* A gradient for each of the indices of input 1, and of input 2. */
static int32_t shape_add_grad(dfi_infer *c) {
  for (int32_t i = 0; i < c->node->nout; i++) {
    const dfi_shape *ix = dfi_in_shape(c, i + 1);
    *dfi_set_shape(c, i) = dfi_shape_vector(ix->rank == 2 ? ix->dims[0] : -1);
  }
  return DF_OK;
}
static int32_t shape_fill_grad(dfi_infer *c) {
  const dfi_shape *map = dfi_in_shape(c, 0);
  *dfi_set_shape(c, 0) = dfi_shape_vector(map->rank == 1 ? map->dims[0] : -1);
  *dfi_set_shape(c, 1) = dfi_shape_scalar();
  return DF_OK;
}
static int32_t shape_product(dfi_infer *c) {
  const int64_t rank = sparse_rank(c, 0);
  int32_t code = rank == -2 ? c->error->code : dfi_infer_rank(c, 3, 2, "b");
  if (!code && rank >= 0 && rank != 2)
    code = dfi_infer_fail(c, "the sparse tensor has rank %lld: expected 2", (long long)rank);
  if (code) return code;
  const dfi_shape s = dfi_in_as_shape(c, 2), *b = dfi_in_shape(c, 3);
  const bool turned = c->node->attrs[0].i, over = c->node->attrs[1].i;
  const int64_t columns = s.rank == 2 ? s.dims[!turned] : -1, rows = b->rank == 2 ? b->dims[over] : -1;
  if (columns >= 0 && rows >= 0 && columns != rows)
    return dfi_infer_fail(c, "a matrix of %lld columns times one of %lld rows", (long long)columns, (long long)rows);
  *dfi_set_shape(c, 0) = dfi_shape_of(2, (int64_t[]){ s.rank == 2 ? s.dims[turned] : -1,
                                                      b->rank == 2 ? b->dims[!over] : -1 });
  return DF_OK;
}

/* ---- gradients: parts -------------------------------------------------------------------------------------------- */
static df_output as_int(dfi_build *b, uint8_t dtype, df_output x) {
  dfi_attr_int(b, "DstT", dtype);
  return dfi_op(b, "Cast", x);
}
static df_output as_int64(dfi_build *b, df_output x) { return as_int(b, DF_INT64, x); }
static df_output vector_of(dfi_build *b, df_output x) {
  return dfi_op(b, "Reshape", x, dfi_const_ints(b, 1, (int64_t[]){ -1 }));
}
static df_output rows_of(dfi_build *b, df_output x, df_output at) {
  return dfi_op(b, "GatherV2", x, at, dfi_const_int(b, 0));
}
/* Column d of indices. */
static df_output column(dfi_build *b, df_output indices, int64_t d) {
  return vector_of(b, dfi_op(b, "Slice", indices, dfi_const_ints(b, 2, (int64_t[]){ 0, d }),
                             dfi_const_ints(b, 2, (int64_t[]){ -1, 1 })));
}
/* A vector in which values stand at these places, of as many as input i of n has. */
static df_output spread(dfi_grad *g, df_node *n, int32_t i, df_output places, df_output values) {
  dfi_build *b = dfg_build(g);
  df_output size = as_int64(b, dfg_in_shape(g, n, i)), at = dfi_op(b, "ExpandDims", as_int64(b, places),
                                                                  dfi_const_int(b, 1));
  return dfi_op(b, "ScatterNd", at, values, size);
}

/* A number for each of the indices, which rises as they do in order. */
static df_output numbers(dfi_build *b, df_output indices, df_output shape) {
  dfi_attr_int(b, "exclusive", 1);
  dfi_attr_int(b, "reverse", 1);
  df_output strides = dfi_op(b, "Cumprod", shape, dfi_const_int(b, 0));
  return dfi_op(b, "Sum", dfi_op(b, "Mul", indices, strides), dfi_const_ints(b, 1, (int64_t[]){ 1 }));
}
/* For each of the indices `own` the value of the sparse tensor (indices in order, values, shape) there; else 0. */
static df_output found(dfi_build *b, df_output indices, df_output values, df_output shape, df_output own) {
  df_output all = numbers(b, indices, shape), mine = numbers(b, own, shape), zero = dfi_const_int(b, 0);
  df_output at = dfi_op(b, "LowerBound", dfi_op(b, "ExpandDims", all, zero), dfi_op(b, "ExpandDims", mine, zero));
  df_output none = dfi_op(b, "ExpandDims", dfi_const(b, DF_INT64, -1), zero),
            nil = dfi_op(b, "ExpandDims", dfi_const_like(b, values, 0), zero);
  at = vector_of(b, at);                                    /* one behind the last: there is none */
  df_output there = rows_of(b, dfi_op(b, "ConcatV2", all, none, zero), at),
            value = rows_of(b, dfi_op(b, "ConcatV2", values, nil, zero), at);
  return dfi_op(b, "SelectV2", dfi_op(b, "Equal", there, mine), value, dfi_op(b, "ZerosLike", value));
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */
static int32_t grad_product(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const bool turned = n->attrs[0].i, over = n->attrs[1].i;
  df_output ix = dfg_in(g, n, 0), swap = dfi_const_ints(b, 2, (int64_t[]){ 1, 0 });
  if (dfg_wants(g, n, 1)) {
    df_output right = dfg_in(g, n, 3);
    if (over) right = dfi_op(b, "Transpose", right, swap);
    df_output rows = rows_of(b, dy[0], column(b, ix, turned)), partners = rows_of(b, right, column(b, ix, !turned));
    dx[1] = dfi_op(b, "Sum", dfi_op(b, "Mul", rows, partners), dfi_const_ints(b, 1, (int64_t[]){ 1 }));
  }
  if (dfg_wants(g, n, 3)) {
    df_output values = dfg_in(g, n, 1), shape = dfg_in(g, n, 2);
    dfi_attr_int(b, "adjoint_a", !turned);
    dx[3] = dfi_op(b, "SparseTensorDenseMatMul", ix, values, shape, dy[0]);
    if (over) dx[3] = dfi_op(b, "Transpose", dx[3], swap);
  }
  return dfg_end(g);
}

static int32_t grad_reorder(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (!dy[1].node) return dfg_end(g);
  dfi_build *b = dfg_build(g);
  df_output ix = dfg_in(g, n, 0), shape = dfg_in(g, n, 2);
  df_output count = dfi_op(b, "Range", dfi_const_int(b, 0), dfg_in_dim(g, n, 1, 0), dfi_const_int(b, 1));
  df_node *sorted = dfi_opnode(b, "SparseReorder", 3, (df_output[]){ ix, count, shape });
  if (sorted) dx[1] = spread(g, n, 1, (df_output){ sorted, 1 }, dy[1]);
  return dfg_end(g);
}

/* dy by the axes that are left, where each element belongs. */
static int32_t grad_reduce_sum(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output ix = dfg_in(g, n, 0), shape = dfg_in(g, n, 2), axes = vector_of(b, dfg_in(g, n, 3));
  df_output rank = dfg_in_shape(g, n, 2);
  axes = dfi_op(b, "ExpandDims", dfi_op(b, "FloorMod", axes, rank), dfi_const_int(b, 1));
  df_output ones = vector_of(b, dfi_op(b, "Add", dfi_op(b, "ZerosLike", axes), dfi_const(b, DF_INT32, 1)));
  df_output folded = as_int64(b, dfi_op(b, "ScatterNd", axes, ones, rank)), one = dfi_const(b, DF_INT64, 1),
            zero = dfi_const(b, DF_INT64, 0);
  df_output is_folded = dfi_op(b, "Greater", folded, zero);
  df_output kept = dfi_op(b, "SelectV2", is_folded, one, shape), at = dfi_op(b, "SelectV2", is_folded, zero, ix);
  dx[1] = dfi_op(b, "GatherNd", dfi_op(b, "Reshape", dy[0], kept), at);
  return dfg_end(g);
}

/* y (dy - the sum of y dy in the row). */
static int32_t grad_softmax(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output ix = dfg_in(g, n, 0), shape = dfg_in(g, n, 2), y = dfg_out(g, n, 0);
  df_output shares = dfi_op(b, "Mul", y, dy[0]), axis = dfi_const_ints(b, 1, (int64_t[]){ -1 });
  dfi_attr_int(b, "keep_dims", 1);
  df_output sums = dfi_op(b, "SparseReduceSum", ix, shares, shape, axis);
  df_output rank = dfg_in_dim(g, n, 2, 0), one = dfi_const_int(b, 1);
  df_output axes = dfi_op(b, "Range", dfi_const_int(b, 0), rank, one);
  df_output last = dfi_op(b, "Equal", axes, dfi_op(b, "Sub", rank, one));
  df_output row = dfi_op(b, "SelectV2", last, dfi_const(b, DF_INT64, 0), ix);
  dx[1] = dfi_op(b, "Mul", y, dfi_op(b, "Sub", dy[0], dfi_op(b, "GatherNd", sums, row)));
  return dfg_end(g);
}

static int32_t grad_slice(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (!dy[1].node) return dfg_end(g);
  dfi_build *b = dfg_build(g);
  df_output ix = dfg_in(g, n, 0), start = dfg_in(g, n, 3), size = dfg_in(g, n, 4);
  df_output from = dfi_op(b, "Sub", ix, start);
  df_output inside = dfi_op(b, "LogicalAnd", dfi_op(b, "GreaterEqual", from, dfi_const(b, DF_INT64, 0)),
                            dfi_op(b, "Less", from, size));
  inside = dfi_op(b, "All", inside, dfi_const_ints(b, 1, (int64_t[]){ 1 }));
  dx[1] = spread(g, n, 1, vector_of(b, dfi_op(b, "Where", inside)), dy[1]);
  return dfg_end(g);
}

static int32_t grad_add(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (!dy[1].node) return dfg_end(g);
  dfi_build *b = dfg_build(g);
  df_output indices = dfg_out(g, n, 0), shape = dfg_out(g, n, 2);
  for (int32_t i = 0; i < 2; i++)
    if (dfg_wants(g, n, 3 * i + 1)) dx[3 * i + 1] = found(b, indices, dy[1], shape, dfg_in(g, n, 3 * i));
  return dfg_end(g);
}

static int32_t grad_concat(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (!dy[1].node) return dfg_end(g);
  dfi_build *b = dfg_build(g);
  const int32_t count = n->nin / 3;
  df_output indices = dfg_out(g, n, 0), shape = dfg_out(g, n, 2), rank = dfg_in_dim(g, n, 2 * count, 0);
  df_output axis = dfi_op(b, "FloorMod", dfi_const_int(b, n->attrs[0].i), rank), before = { 0 };
  df_output along = dfi_op(b, "OneHot", axis, rank, dfi_const(b, DF_INT64, 1), dfi_const(b, DF_INT64, 0));
  for (int32_t i = 0; i < count; i++) {
    df_output own = dfg_in(g, n, i), size = dfi_op(b, "Mul", dfg_in(g, n, 2 * count + i), along);
    if (i) own = dfi_op(b, "Add", own, before);
    if (dfg_wants(g, n, count + i)) dx[count + i] = found(b, indices, dy[1], shape, own);
    before = i ? dfi_op(b, "Add", before, size) : size;
  }
  return dfg_end(g);
}

static int32_t grad_fill(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (!dy[1].node) return dfg_end(g);
  dfi_build *b = dfg_build(g);
  df_output own = rows_of(b, dy[1], dfg_out(g, n, 3)), axes = dfi_const_ints(b, 1, (int64_t[]){ 0 });
  dx[1] = own;
  if (!dfg_wants(g, n, 3)) return dfg_end(g);
  df_output at = dfi_op(b, "ExpandDims", dfg_out(g, n, 3), dfi_const_int(b, 1));
  dx[3] = dfi_op(b, "Sum", dfi_op(b, "TensorScatterUpdate", dy[1], at, dfi_op(b, "ZerosLike", own)), axes);
  return dfg_end(g);
}

/* Where each element finds its partner in the dense tensor, which is broadcast. */
static df_output partners_at(dfi_grad *g, df_node *n) {
  dfi_build *b = dfg_build(g);
  df_output ix = dfg_in(g, n, 0), rank = dfg_in_shape(g, n, 2), dims = dfg_in_shape(g, n, 3);
  df_output less = dfi_op(b, "Sub", rank, dfi_op(b, "Shape", dims));
  df_output begin = dfi_op(b, "ConcatV2", dfi_const_ints(b, 1, (int64_t[]){ 0 }), less, dfi_const_int(b, 0));
  df_output last = dfi_op(b, "Slice", ix, begin, dfi_const_ints(b, 2, (int64_t[]){ -1, -1 }));
  df_output one = dfi_op(b, "Equal", dims, dfi_const_int(b, 1));
  return dfi_op(b, "SelectV2", one, dfi_const(b, DF_INT64, 0), last);
}
static df_output spread_dense(dfi_grad *g, df_node *n, df_output at, df_output values) {
  return dfi_op(dfg_build(g), "ScatterNd", at, values, as_int64(dfg_build(g), dfg_in_shape(g, n, 3)));
}

static int32_t grad_dense_mul(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output at = partners_at(g, n);
  if (dfg_wants(g, n, 1)) dx[1] = dfi_op(b, "Mul", dy[0], dfi_op(b, "GatherNd", dfg_in(g, n, 3), at));
  if (dfg_wants(g, n, 3)) dx[3] = spread_dense(g, n, at, dfi_op(b, "Mul", dy[0], dfg_in(g, n, 1)));
  return dfg_end(g);
}
static int32_t grad_dense_div(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output at = partners_at(g, n), by = dfi_op(b, "GatherNd", dfg_in(g, n, 3), at);
  df_output share = dfi_op(b, "RealDiv", dy[0], by);
  dx[1] = share;
  if (dfg_wants(g, n, 3)) {
    df_output quotient = dfi_op(b, "RealDiv", dfg_in(g, n, 1), by);
    dx[3] = spread_dense(g, n, at, dfi_op(b, "Neg", dfi_op(b, "Mul", share, quotient)));
  }
  return dfg_end(g);
}
static int32_t grad_dense_add(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[1] = dy[0];
  if (dfg_wants(g, n, 3)) dx[3] = spread_dense(g, n, partners_at(g, n), dy[0]);
  return dfg_end(g);
}
static int32_t grad_tensor_dense_add(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (dfg_wants(g, n, 1)) dx[1] = dfi_op(dfg_build(g), "GatherNd", dy[0], dfg_in(g, n, 0));
  dx[3] = dy[0];
  return dfg_end(g);
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */
#define REDUCE(DOC) \
  .in = "input_indices:int64 input_values:T input_shape:int64 reduction_axes:int32", .out = "output:T", \
  .types = "T=number", .attrs = "keep_dims:bool=false", .doc = DOC, .shape = shape_reduce
#define WITH_DENSE(TYPE, DOC, GRAD, KERNEL) \
  { .type = TYPE, .in = "sp_indices:int64 sp_values:T sp_shape:int64 dense:T", .out = "output:T", \
    .types = "T=number", .doc = DOC, .shape = shape_values, .grad = GRAD, .kernel = { [DF_REF] = KERNEL } }

#define EXTREME(TYPE, KERNEL, DOC) \
  { .type = TYPE, .in = "a_indices:int64 a_values:T a_shape:int64 b_indices:int64 b_values:T b_shape:int64", \
    .out = "output_indices:int64 output_values:T", .types = "T=number", .doc = DOC, .shape = shape_add, \
    .no_grad = true, .kernel = { [DF_REF] = KERNEL } }

static const df_op ops[] = {
  { .type = "SparseTensorDenseMatMul",
    .in = "a_indices:Tindices a_values:T a_shape:int64 b:T", .out = "product:T",
    .types = "T=float|int32|int64 Tindices=int32|int64", .attrs = "adjoint_a:bool=false adjoint_b:bool=false",
    .doc = "T[m, n] = a T[m, k] b T[k, n], a sparse; adjoint_a, adjoint_b read that side transposed",
    .shape = shape_product, .grad = grad_product,
    .kernel = { [DF_REF] = ref_sparse_matmul, [DF_CPU] = cpu_sparse_matmul } },
  { .type = "SparseReorder", .in = "input_indices:int64 input_values:T input_shape:int64",
    .out = "output_indices:int64 output_values:T", .types = "T=any",
    .doc = "a sparse tensor whose indices rise", .shape = shape_reorder, .grad = grad_reorder,
    .kernel = { [DF_REF] = ref_sparse_reorder } },
  { .type = "SparseSoftmax", .in = "sp_indices:int64 sp_values:T sp_shape:int64", .out = "output:T",
    .types = "T=float", .doc = "the softmax of each row's values, along the last axis, among those that are there",
    .shape = shape_values, .grad = grad_softmax, .kernel = { [DF_REF] = ref_sparse_softmax } },
  { .type = "SparseReduceSum", REDUCE("the sums of a sparse tensor over these axes, dense"), .grad = grad_reduce_sum,
    .kernel = { [DF_REF] = ref_sparse_reduce_sum } },
  { .type = "SparseReduceMax",
    REDUCE("the greatest elements of a sparse tensor along these axes, dense; 0 where none is"),
    .no_grad = true, .kernel = { [DF_REF] = ref_sparse_reduce_max } },
  { .type = "SparseSlice", .in = "indices:int64 values:T shape:int64 start:int64 size:int64",
    .out = "output_indices:int64 output_values:T output_shape:int64", .types = "T=any",
    .doc = "the part of a sparse tensor from start on, of that size or what there is of it",
    .shape = shape_some, .grad = grad_slice, .kernel = { [DF_REF] = ref_sparse_slice } },
  { .type = "SparseSplit", .in = "split_dim:int64 indices:int64 values:T shape:int64",
    .out = "output_indices:int64*num_split output_values:T*num_split output_shape:int64*num_split", .types = "T=any",
    .attrs = "num_split:int[1..]", .doc = "a sparse tensor in pieces along an axis, the first ones larger by one",
    .shape = shape_split, .kernel = { [DF_REF] = ref_sparse_split } },
  { .type = "SparseAdd",
    .in = "a_indices:int64 a_values:T a_shape:int64 b_indices:int64 b_values:T b_shape:int64 thresh:Treal",
    .out = "sum_indices:int64 sum_values:T sum_shape:int64", .types = "T=number Treal=number",
    .doc = "the sum of two sparse tensors; of two elements that lie at one place none if it is less than thresh",
    .shape = shape_add, .grad = grad_add, .kernel = { [DF_REF] = ref_sparse_add } },
  EXTREME("SparseSparseMaximum", ref_sparse_maximum,
          "the greater of two sparse tensors, place by place, where one is at least; "
          "what is not there is 0"),
  EXTREME("SparseSparseMinimum", ref_sparse_minimum,
          "the lesser of two sparse tensors, place by place, where one is at least; "
          "what is not there is 0"),
  { .type = "SparseConcat", .in = "indices:int64* values:T* shapes:int64*",
    .out = "output_indices:int64 output_values:T output_shape:int64", .types = "T=any", .attrs = "concat_dim:int",
    .doc = "sparse tensors one behind the other along an axis, in order", .shape = shape_concat,
    .grad = grad_concat, .kernel = { [DF_REF] = ref_sparse_concat } },
  { .type = "SparseReshape", .in = "input_indices:int64 input_shape:int64 new_shape:int64",
    .out = "output_indices:int64 output_shape:int64",
    .doc = "the indices of a sparse tensor of another shape with as many places; one dimension may be -1",
    .shape = shape_reshape, .no_grad = true, .kernel = { [DF_REF] = ref_sparse_reshape } },
  { .type = "SparseFillEmptyRows", .in = "indices:int64 values:T dense_shape:int64 default_value:T",
    .out = "output_indices:int64 output_values:T empty_row_indicator:bool reverse_index_map:int64", .types = "T=any",
    .doc = "a sparse tensor with default_value in the first place of each empty row, by rows; which were empty, and "
           "where each element went",
    .shape = shape_fill, .grad = grad_fill, .kernel = { [DF_REF] = ref_sparse_fill_empty_rows } },
  WITH_DENSE("SparseDenseCwiseMul", "the values of a sparse tensor times a dense one, which is broadcast",
             grad_dense_mul, ref_sparse_dense_mul),
  WITH_DENSE("SparseDenseCwiseDiv", "the values of a sparse tensor over a dense one, which is broadcast",
             grad_dense_div, ref_sparse_dense_div),
  WITH_DENSE("SparseDenseCwiseAdd", "the values of a sparse tensor and a dense one, which is broadcast, there",
             grad_dense_add, ref_sparse_dense_add),
  { .type = "SparseTensorDenseAdd", .in = "a_indices:Tindices a_values:T a_shape:Tindices b:T", .out = "output:T",
    .types = "T=number Tindices=int32|int64", .doc = "a sparse and a dense tensor of one shape, dense",
    .shape = shape_dense, .grad = grad_tensor_dense_add, .kernel = { [DF_REF] = ref_sparse_tensor_dense_add } },
  /* What TensorFlow makes gradients of; ours are made of other ops. */
  { .type = "SparseAddGrad",
    .in = "backprop_val_grad:T a_indices:int64 b_indices:int64 sum_indices:int64", .out = "a_val_grad:T b_val_grad:T",
    .types = "T=number", .doc = "the gradient of SparseAdd by the values of both, each at its indices, which rise",
    .shape = shape_add_grad, .kernel = { [DF_REF] = ref_sparse_add_grad } },
  { .type = "SparseSliceGrad",
    .in = "backprop_val_grad:T input_indices:int64 input_start:int64 output_indices:int64", .out = "val_grad:T",
    .types = "T=number", .doc = "the gradient of SparseSlice by the values of its input; 0 where none was taken",
    .shape = shape_add_grad, .kernel = { [DF_REF] = ref_sparse_slice_grad } },
  { .type = "SparseFillEmptyRowsGrad", .in = "reverse_index_map:int64 grad_values:T",
    .out = "d_values:T d_default_value:T", .types = "T=number",
    .doc = "the gradient of SparseFillEmptyRows by the values, and by the default", .shape = shape_fill_grad,
    .kernel = { [DF_REF] = ref_sparse_fill_grad } },
};
const dfi_op_table dfi_ops_sparse_tensor = { ops, (int32_t)(sizeof ops / sizeof *ops) };
