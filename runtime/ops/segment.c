/* segment.c: the entries of folds by ascending ids beside SegmentSum, with and without indices. Kernels are in
 * kernels/ref/segment_sorted.c.
 */
#include "op/op.h"
#include "graph/grad.h"
#include "kernels/segment.h"

static int32_t shape_segments(dfi_infer *c) {
  int32_t ids = c->node->nin - 1;
  dfi_shape s = *dfi_in_shape(c, 0);
  for (int32_t i = 1; i <= ids; i++)
    if (dfi_in_shape(c, i)->rank >= 0 && dfi_in_shape(c, i)->rank != 1)
      return dfi_infer_fail(c, "%s must be a vector, got rank %d", i == ids ? "segment_ids" : "indices",
                            dfi_in_shape(c, i)->rank);
  if (s.rank == 0) return dfi_infer_fail(c, "data is a scalar: expected rank 1 or more");
  if (s.rank > 0) s.dims[0] = -1;
  *dfi_set_shape(c, 0) = s;
  return DF_OK;
}

/* ---- gradients ------------------------------------------------------------------------------------------------- */
static df_output rows_of(dfi_build *b, df_output x, df_output ids) { return dfi_op(b, "SegmentGather", x, ids); }

static df_output cast_to(dfi_build *b, uint8_t dtype, df_output x) {
  dfi_attr_int(b, "DstT", dtype);
  return dfi_op(b, "Cast", x);
}

/* dy divided by how many rows each segment has (or by the root of it), row by row. Input `ids` has the ids. */
static df_output shares(dfi_grad *g, df_node *n, int32_t ids, df_output dy, bool root) {
  dfi_build *b = dfg_build(g);
  df_output id = dfg_in(g, n, ids), zeros = dfi_op(b, "ZerosLike", id);
  df_output ones = cast_to(b, n->out[0].dtype, dfi_op(b, "Add", zeros, dfi_const_like(b, id, 1)));
  df_output count = rows_of(b, dfi_op(b, "SegmentSum", ones, id), id);
  if (root) count = dfi_op(b, "Sqrt", count);
  df_output rows = rows_of(b, dy, id);
  int32_t rank = n->out[0].shape.rank;
  if (rank < 0) { dfg_fail(g, n, "its gradient needs the rank of data to be known while building"); return DFI_NONE; }
  int64_t dims[DF_MAX_RANK] = { -1 };
  for (int32_t d = 1; d < rank; d++) dims[d] = 1;
  return dfi_op(b, "RealDiv", rows, dfi_op(b, "Reshape", count, dfi_const_ints(b, rank, dims)));
}

static int32_t grad_mean(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = shares(g, n, 1, dy[0], false);
  return dfg_end(g);
}

/* The greatest (least) rows of a segment share its gradient. */
static int32_t grad_extreme(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output ids = dfg_in(g, n, 1), taken = dfi_op(b, "Equal", dfg_in(g, n, 0), rows_of(b, dfg_out(g, n, 0), ids));
  df_output one = cast_to(b, n->out[0].dtype, taken);
  dx[0] = dfi_op(b, "Mul", one, rows_of(b, dfi_op(b, "DivNoNan", dy[0], dfi_op(b, "SegmentSum", one, ids)), ids));
  return dfg_end(g);
}

/* dy times the product of the other rows: over the row itself, or, where it is the only zero, of the others. */
static int32_t grad_prod(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output x = dfg_conj(g, dfg_in(g, n, 0)), ids = dfg_in(g, n, 1);
  df_output zero = cast_to(b, n->out[0].dtype, dfi_op(b, "Equal", x, dfi_const_like(b, x, 0))),
            others = dfi_op(b, "Add", x, zero);
  df_output zeros = rows_of(b, dfi_op(b, "SegmentSum", zero, ids), ids),
            product = rows_of(b, dfi_op(b, "SegmentProd", others, ids), ids);
  df_output only = cast_to(b, n->out[0].dtype, dfi_op(b, "Equal", zeros, zero));
  dx[0] = dfi_op(b, "Mul", rows_of(b, dy[0], ids), dfi_op(b, "Mul", only, dfi_op(b, "RealDiv", product, others)));
  return dfg_end(g);
}

/* Back to the rows that the indices name. */
static int32_t scattered(dfi_grad *g, df_node *n, df_output rows, df_output *dx) {
  dx[0] = dfi_op(dfg_build(g), "UnsortedSegmentSum", rows, dfg_in(g, n, 1), dfg_in_dim(g, n, 0, 0));
  return dfg_end(g);
}
static int32_t grad_sparse_sum(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  return scattered(g, n, rows_of(dfg_build(g), dy[0], dfg_in(g, n, 2)), dx);
}
static int32_t grad_sparse_mean(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  return scattered(g, n, shares(g, n, 2, dy[0], false), dx);
}
static int32_t grad_sparse_sqrt_n(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  return scattered(g, n, shares(g, n, 2, dy[0], true), dx);
}

/* ---- entries --------------------------------------------------------------------------------------------------- */
#define SEGMENT(TYPES) .in = "data:T segment_ids:Tindices", .out = "output:T", \
  .types = "T=" TYPES " Tindices=int32|int64", .shape = shape_segments
#define SPARSE(TYPES) .in = "data:T indices:Tidx segment_ids:Tsegmentids", .out = "output:T", \
  .types = "T=" TYPES " Tidx=int32|int64 Tsegmentids=int32|int64", .shape = shape_segments
#define KERNEL(name) .kernel = { [DF_REF] = ref_##name }

static const df_op ops[] = {
  { .type = "SegmentMean", .lua = "segment_mean", SEGMENT("number|complex"),
    .doc = "As segment_sum, with means; 0 where a segment is empty.",
    .example = "df.segment_mean({1.0, 2.0, 3.0}, {0, 0, 1})  --> {1.5, 3}",
    .output = "[1.5 3.0] float32[2]",
    .derivative = "dy of the segment divided by the number of its rows",
    .grad = grad_mean, KERNEL(segment_mean) },
  { .type = "SegmentProd", .lua = "segment_prod", SEGMENT("number|complex"),
    .doc = "As segment_sum, with products; 1 where a segment is empty.",
    .example = "df.segment_prod({2, 3, 4}, {0, 0, 1})  --> {6, 4}",
    .output = "[6 4] int32[2]",
    .derivative = "dy of the segment times the product of its other rows",
    .grad = grad_prod, KERNEL(segment_prod) },
  { .type = "SegmentMax", .lua = "segment_max", SEGMENT("number"),
    .doc = "As segment_sum, with the greatest elements, which share the gradient; 0 where a segment is empty.",
    .example = "df.segment_max({2, 3, 4}, {0, 0, 1})  --> {3, 4}",
    .output = "[3 4] int32[2]",
    .derivative = "the greatest elements of a segment share its dy",
    .grad = grad_extreme, KERNEL(segment_max) },
  { .type = "SegmentMin", .lua = "segment_min", SEGMENT("number"),
    .doc = "As segment_sum, with the least elements, which share the gradient; 0 where a segment is empty.",
    .example = "df.segment_min({2, 3, 4}, {0, 0, 1})  --> {2, 4}",
    .output = "[2 4] int32[2]",
    .derivative = "the least elements of a segment share its dy",
    .grad = grad_extreme, KERNEL(segment_min) },
  { .type = "SparseSegmentSum", .lua = "sparse_segment_sum", SPARSE("number"),
    .doc = "Row i of the result is the sum of the rows data[indices[j]] whose segment_ids[j] is i; the ids ascend.",
    .example = "df.sparse_segment_sum({1, 2, 3}, {2, 0, 1}, {0, 0, 1})  --> {4, 2}",
    .output = "[4 2] int32[2]",
    .derivative = "the rows of data that were summed get dy of their segment",
    .grad = grad_sparse_sum,
    KERNEL(sparse_segment_sum) },
  { .type = "SparseSegmentMean", .lua = "sparse_segment_mean", SPARSE("float"),
    .doc = "As sparse_segment_sum, with means.",
    .example = "df.sparse_segment_mean({1.0, 2.0, 3.0}, {2, 0, 1}, {0, 0, 1})  --> {2, 2}",
    .output = "[2. 2.] float32[2]",
    .derivative = "the rows of data that were summed get dy of their segment, divided by its number of rows",
    .grad = grad_sparse_mean,
    KERNEL(sparse_segment_mean) },
  { .type = "SparseSegmentSqrtN", .lua = "sparse_segment_sqrt_n", SPARSE("float"),
    .doc = "As sparse_segment_sum, divided by the root of the number of rows.",
    .example = "df.sparse_segment_sqrt_n({1.0, 2.0, 3.0}, {2, 0, 1}, {0, 0, 1})",
    .output = "[2.8284 2.0000] float32[2]",
    .derivative = "the rows of data that were summed get dy of their segment, divided by the root of its number of "
    "rows",
    .grad = grad_sparse_sqrt_n,
    KERNEL(sparse_segment_sqrt_n) },
};
const dfi_op_table dfi_ops_segment = { ops, sizeof ops / sizeof *ops };
