/* search.c: entries that find: distinct slices, places in sorted rows, boxes that do not overlap; and cross products.
 * Kernels are in kernels/ref/search.c.
 */
#include "ops/array.h"
#include "kernels/search.h"

static int32_t shape_unique(dfi_infer *c) {
  dfi_shape s = *dfi_in_shape(c, 0);
  const df_tensor *axes = dfi_in_const(c, 1);
  *dfi_set_shape(c, 1) = dfi_shape_vector(s.rank == 1 ? s.dims[0] : -1);
  if (c->node->nout > 2) *dfi_set_shape(c, 2) = dfi_shape_vector(-1);
  for (int32_t d = 0; d < s.rank; d++) {
    bool along = !axes || axes->size != 1 || d == dfk_index(axes, 0) || d - s.rank == dfk_index(axes, 0);
    if (along) s.dims[d] = -1;
  }
  *dfi_set_shape(c, 0) = s;
  return DF_OK;
}

static int32_t shape_bound(dfi_infer *c) {
  *dfi_set_shape(c, 0) = *dfi_in_shape(c, 1);
  int32_t code = dfi_infer_rank(c, 0, 2, "sorted_inputs");
  return code ? code : dfi_infer_rank(c, 1, 2, "values");
}

static int32_t shape_boxes(dfi_infer *c) {
  int32_t code = dfi_infer_rank(c, 0, 2, "boxes");
  *dfi_set_shape(c, 0) = dfi_shape_vector(-1);
  if (c->node->nout > 1) *dfi_set_shape(c, 1) = dfi_shape_scalar();
  return code ? code : dfi_infer_rank(c, 1, 1, "scores");
}

static int32_t shape_soft_boxes(dfi_infer *c) {
  int32_t code = dfi_infer_rank(c, 0, 2, "boxes");
  *dfi_set_shape(c, 0) = *dfi_set_shape(c, 1) = dfi_shape_vector(-1);
  *dfi_set_shape(c, 2) = dfi_shape_scalar();
  return code ? code : dfi_infer_rank(c, 1, 1, "scores");
}

static int32_t shape_combined(dfi_infer *c) {
  const int32_t code = dfi_infer_rank(c, 0, 4, "boxes");
  const int64_t batch = dfi_in_shape(c, 0)->rank == 4 ? dfi_in_shape(c, 0)->dims[0] : -1;
  *dfi_set_shape(c, 0) = dfi_shape_of(3, (int64_t[]){ batch, -1, 4 });
  *dfi_set_shape(c, 1) = *dfi_set_shape(c, 2) = dfi_shape_of(2, (int64_t[]){ batch, -1 });
  *dfi_set_shape(c, 3) = dfi_shape_vector(batch);
  return code ? code : dfi_infer_rank(c, 1, 3, "scores");
}

static int32_t grad_cross(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  if (dfg_wants(g, n, 0)) dx[0] = dfi_op(b, "Cross", dfg_in(g, n, 1), dy[0]);
  if (dfg_wants(g, n, 1)) dx[1] = dfi_op(b, "Cross", dy[0], dfg_in(g, n, 0));
  return dfg_end(g);
}

#define UNIQUE .types = "T=any Taxis=int32|int64 out_idx=int32|int64", .attrs = "out_idx:dtype=int32", \
  .shape = shape_unique, .no_grad = true, \
  .kernel = { [DF_REF] = ref_unique_slices }
#define BOUND(name) .in = "sorted_inputs:T values:T", .out = "output:out_type", \
  .types = "T=number out_type=int32|int64", \
  .attrs = "out_type:dtype=int32", .shape = shape_bound, .no_grad = true, \
  .kernel = { [DF_REF] = ref_##name, [DF_CPU] = cpu_##name }
#define BOXES .shape = shape_boxes, .no_grad = true, .kernel = { [DF_REF] = ref_non_max_suppression }

static int32_t shape_dense_bincount(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0);
  const df_tensor *size = dfi_in_const(c, 1);
  const int64_t bins = size && size->size == 1 ? df_tensor_get_int(size, 0) : -1;
  if (x->rank > 2) return dfi_infer_fail(c, "the input has rank %d, a vector or a matrix is expected", x->rank);
  if (x->rank == 2) *dfi_set_shape(c, 0) = dfi_shape_of(2, (int64_t[]){ x->dims[0], bins < 0 ? -1 : bins });
  else if (x->rank >= 0) *dfi_set_shape(c, 0) = dfi_shape_vector(bins < 0 ? -1 : bins);
  return DF_OK;
}

static int32_t shape_sparse_bincount(dfi_infer *c) {
  const dfi_shape *rank = dfi_in_shape(c, 2);
  if (rank->rank == 1 && rank->dims[0] >= 0) return dfi_infer_open(c, 0, (int32_t)rank->dims[0]);
  return DF_OK;
}

static int32_t shape_ragged_bincount(dfi_infer *c) {
  *dfi_set_shape(c, 0) = dfi_shape_of(2, (int64_t[]){ -1, -1 });
  return DF_OK;
}

static const df_op ops[] = {
  { .type = "Bucketize", .lua = "bucketize", .in = "input:T", .out = "output:int32",
    .types = "T=int32|int64|float32|float64", .attrs = "boundaries:tensor",
    .doc = "int32[...] = bucketize(input T[...]; boundaries): how many of the boundaries, which ascend, each "
           "number has "
    "reached",
    .example = "df.bucketize({-1, 0, 5}, {boundaries = df.tensor{0, 2}})  --> {0, 1, 2}",
    .output = "[0 1 2] int32[3]",
    .shape = dfi_shape_same, .no_grad = true, .kernel = { [DF_REF] = ref_bucketize } },
  { .type = "DenseBincount", .in = "input:Tidx size:Tidx weights:T", .out = "output:T",
    .types = "Tidx=int32|int64 T=int32|int64|float32|float64", .attrs = "binary_output:bool=false",
    .doc = "how often each number below size is in a vector, or in each row of a matrix; or the sums of their "
           "weights; or, "
    "with binary_output, whether it is there",
    .shape = shape_dense_bincount, .no_grad = true, .kernel = { [DF_REF] = ref_dense_bincount } },
  { .type = "RaggedBincount", .in = "splits:int64 values:Tidx size:Tidx weights:T", .out = "output:T",
    .types = "Tidx=int32|int64 T=int32|int64|float32|float64", .attrs = "binary_output:bool=false",
    .doc = "DenseBincount of the rows of a ragged tensor", .shape = shape_ragged_bincount, .no_grad = true,
    .kernel = { [DF_REF] = ref_ragged_bincount } },
  { .type = "SparseBincount", .in = "indices:int64 values:Tidx dense_shape:int64 size:Tidx weights:T",
    .out = "output:T",
    .types = "Tidx=int32|int64 T=int32|int64|float32|float64", .attrs = "binary_output:bool=false",
    .doc = "DenseBincount of the values of a sparse vector or matrix", .shape = shape_sparse_bincount, .no_grad = true,
    .kernel = { [DF_REF] = ref_sparse_bincount } },
  { .type = "UniqueV2", .in = "x:T axis:Taxis", .out = "y:T idx:out_idx",
    .doc = "Unique slices along an axis; of a vector, where axis is empty", UNIQUE },
  { .type = "UniqueWithCountsV2", .in = "x:T axis:Taxis", .out = "y:T idx:out_idx count:out_idx",
    .doc = "UniqueV2, and how often each slice appears", UNIQUE },
  { .type = "LowerBound", .lua = "lower_bound", BOUND(lower_bound),
    .doc = "out_type[r, m] = lower_bound(sorted_inputs T[r, n], values T[r, m]): row by row, how many of the sorted "
    "numbers are less than each value",
    .output = "[[1 4]] int32[1,2]",
    .example = "df.lower_bound({{1, 3, 3, 5}}, {{3, 6}})  --> {{1, 4}}" },
  { .type = "UpperBound", .lua = "upper_bound", BOUND(upper_bound),
    .doc = "out_type[r, m] = upper_bound(sorted_inputs T[r, n], values T[r, m]): row by row, how many of the sorted "
    "numbers are not greater",
    .output = "[[3 4]] int32[1,2]",
    .example = "df.upper_bound({{1, 3, 3, 5}}, {{3, 6}})  --> {{3, 4}}" },
  { .type = "Cross", .lua = "cross", .in = "a:T b:T", .out = "product:T", .types = "T=number", .shape = dfi_shape_same,
    .doc = "T[..., 3] = cross(a T[..., 3], b T[..., 3]): the cross products of vectors",
    .example = "df.cross({1, 0, 0}, {0, 1, 0})  --> {0, 0, 1}",
    .output = "[0 0 1] int32[3]",
    .derivative = "a = cross(b, dy); b = cross(dy, a)",
    .grad = grad_cross,
    .kernel = { [DF_REF] = ref_cross } },
  { .type = "NonMaxSuppression", .in = "boxes:float32 scores:float32 max_output_size:int32",
    .out = "selected_indices:int32",
    .attrs = "iou_threshold:float=0.5", .doc = "NonMaxSuppressionV2 with the threshold as an attribute", BOXES },
  { .type = "NonMaxSuppressionV2", .in = "boxes:T scores:T max_output_size:int32 iou_threshold:T_threshold",
    .out = "selected_indices:int32",
    .types = "T=float T_threshold=float", .doc = "NonMaxSuppressionV3 without a least score", BOXES },
  { .type = "NonMaxSuppressionV3", .lua = "non_max_suppression",
    .in = "boxes:T scores:T max_output_size:int32 iou_threshold:T_threshold score_threshold:T_threshold",
    .out = "selected_indices:int32",
    .types = "T=float T_threshold=float",
    .doc = "int32[m] = non_max_suppression(boxes T[n, 4], scores T[n], max_output_size, iou_threshold, "
    "score_threshold): which boxes, best first, "
           "have more than the least score and share no more than iou_threshold of their area with a better one that "
           "was taken",
    .example = "df.non_max_suppression({{0, 0, 1, 1}, {0, 0, 1, 1}}, {0.5, 0.9}, 2, 0.5, 0.0)  --> {1}",
    .output = "[1] int32[1]",
    BOXES },
  { .type = "NonMaxSuppressionV4", .in = "boxes:T scores:T max_output_size:int32 iou_threshold:T_threshold "
    "score_threshold:T_threshold",
    .out = "selected_indices:int32 valid_outputs:int32", .types = "T=float T_threshold=float",
    .attrs = "pad_to_max_output_size:bool=false",
    .doc = "NonMaxSuppressionV3, and how many there are; filled up with zeros if asked for", BOXES },
  { .type = "NonMaxSuppressionV5", .in = "boxes:T scores:T max_output_size:int32 iou_threshold:T score_threshold:T "
    "soft_nms_sigma:T",
    .out = "selected_indices:int32 selected_scores:T valid_outputs:int32", .types = "T=float",
    .attrs = "pad_to_max_output_size:bool=false",
    .doc = "NonMaxSuppressionV4, and the scores, which an overlap lowers where sigma is above 0",
    .shape = shape_soft_boxes, .no_grad = true, .kernel = { [DF_REF] = ref_non_max_suppression_soft } },
  { .type = "CombinedNonMaxSuppression", .in = "boxes:float32 scores:float32 max_output_size_per_class:int32 "
    "max_total_size:int32 iou_threshold:float32 score_threshold:float32",
    .out = "nmsed_boxes:float32 nmsed_scores:float32 nmsed_classes:float32 valid_detections:int32",
    .attrs = "pad_per_class:bool=false clip_boxes:bool=true",
    .doc = "the best boxes of each image that overlap no better one of their class, with their scores and classes",
    .shape = shape_combined, .no_grad = true, .kernel = { [DF_REF] = ref_combined_non_max_suppression } },
};
const dfi_op_table dfi_ops_search = { ops, sizeof ops / sizeof *ops };
