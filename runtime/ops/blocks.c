/* blocks.c: entries that move the pixels of blocks to the batch or to the channels, and back. Each is the gradient of
 * its inverse. Kernels are in kernels/ref/blocks.c.
 */
#include "op/op.h"
#include "graph/grad.h"
#include "kernels/blocks.h"

/* The rank stays; sizes are known when the graph runs. */
static int32_t shape_rank(dfi_infer *c) {
  dfi_shape s = *dfi_in_shape(c, 0);
  for (int32_t d = 0; d < s.rank; d++) s.dims[d] = -1;
  *dfi_set_shape(c, 0) = s;
  return DF_OK;
}

static int32_t shape_depth(dfi_infer *c, bool to_depth) {
  dfi_shape s = *dfi_in_shape(c, 0);
  int64_t n = c->node->attrs[0].i, square;
  if (n < 2) return dfi_infer_fail(c, "block_size is %lld but must be 2 or more", (long long)n);
  if (__builtin_mul_overflow(n, n, &square))
    return dfi_infer_fail(c, "block_size is %lld: blocks of that many pixels squared cannot be counted", (long long)n);
  if (s.rank >= 0 && s.rank != 4) return dfi_infer_fail(c, "the input must be [n, h, w, c], it has rank %d", s.rank);
  for (int32_t d = 1; d < s.rank; d++) {
    bool grows = (d == 3) == to_depth;
    int64_t by = d == 3 ? square : n;
    if (s.dims[d] < 0) continue;
    if (!grows && s.dims[d] % by)
      return dfi_infer_fail(c, "axis %d is %lld, which blocks of %lld do not divide", d, (long long)s.dims[d],
                            (long long)n);
    const int64_t before = s.dims[d];
    if (!grows) s.dims[d] /= by;
    else if (__builtin_mul_overflow(before, by, &s.dims[d]))
      return dfi_infer_fail(c, "axis %d is %lld, and %lld times that cannot be counted", d, (long long)before,
                            (long long)by);
  }
  *dfi_set_shape(c, 0) = s;
  return DF_OK;
}
static int32_t shape_to_depth(dfi_infer *c) { return shape_depth(c, true); }
static int32_t shape_to_space(dfi_infer *c) { return shape_depth(c, false); }

/* The inverse op with the same blocks and margins. */
static int32_t undo(dfi_grad *g, df_node *n, df_output dy, df_output *dx, const char *type) {
  dfi_build *b = dfg_build(g);
  if (n->nin == 3) {
    df_output blocks = dfg_in(g, n, 1), margins = dfg_in(g, n, 2);
    dx[0] = dfi_op(b, type, dy, blocks, margins);
  } else {
    df_output margins = n->nin == 2 ? dfg_in(g, n, 1) : DFI_NONE;
    dfi_attr_int(b, "block_size", n->attrs[0].i);
    if (n->nin == 1) dfi_attr_string(b, "data_format", n->attrs[1].s);
    dx[0] = dfi_opn(b, type, n->nin, (df_output[]){ dy, margins });
  }
  return dfg_end(g);
}
#define UNDO(name, type) \
  static int32_t name(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) { return undo(g, n, dy[0], dx, \
    type); }
UNDO(grad_space_to_batch, "BatchToSpaceND")
UNDO(grad_batch_to_space, "SpaceToBatchND")
UNDO(grad_space_to_batch_2d, "BatchToSpace")
UNDO(grad_batch_to_space_2d, "SpaceToBatch")
UNDO(grad_space_to_depth, "DepthToSpace")
UNDO(grad_depth_to_space, "SpaceToDepth")

static const df_op ops[] = {
  { .type = "SpaceToBatchND", .lua = "space_to_batch_nd", .in = "input:T block_shape:Tblock_shape paddings:Tpaddings",
    .out = "output:T",
    .types = "T=any Tblock_shape=int32|int64 Tpaddings=int32|int64",
    .doc = "T[batch prod(block_shape), ...] = space_to_batch_nd(input T[batch, space..., ...], block_shape int[n], "
    "paddings int[n, 2]): the padded "
           "space in blocks, whose pixels become parts of the batch",
    .example = "df.space_to_batch_nd(df.float32{{{1, 2}, {3, 4}}}, {2, 2}, {{0, 0}, {0, 0}})",
    .output = "[[[1.]]\n\n [[2.]]\n\n [[3.]]\n\n [[4.]]] float32[4,1,1]",
    .derivative = "batch_to_space_nd of dy, with paddings as crops",
    .shape = shape_rank, .grad = grad_space_to_batch,
    .kernel = { [DF_REF] = ref_space_to_batch, [DF_CPU] = cpu_space_to_batch } },
  { .type = "BatchToSpaceND", .lua = "batch_to_space_nd", .in = "input:T block_shape:Tblock_shape crops:Tcrops",
    .out = "output:T",
    .types = "T=any Tblock_shape=int32|int64 Tcrops=int32|int64",
    .doc = "T[batch / prod(block_shape), ...] = batch_to_space_nd(input T[batch, space..., ...], block_shape int[n], "
    "crops int[n, 2]): what "
           "space_to_batch_nd undoes",
    .example = "df.batch_to_space_nd(df.reshape(df.float32{1, 2, 3, 4}, {4, 1, 1}), {2, 2}, {{0, 0}, {0, 0}})",
    .output = "[[[1. 2.]\n  [3. 4.]]] float32[1,2,2]",
    .derivative = "space_to_batch_nd of dy, with crops as paddings",
    .shape = shape_rank, .grad = grad_batch_to_space,
    .kernel = { [DF_REF] = ref_batch_to_space, [DF_CPU] = cpu_batch_to_space } },
  { .type = "SpaceToBatch", .in = "input:T paddings:Tpaddings", .out = "output:T",
    .types = "T=any Tpaddings=int32|int64", .attrs = "block_size:int[2..]",
    .doc = "SpaceToBatchND with square blocks", .shape = shape_rank, .grad = grad_space_to_batch_2d,
    .kernel = { [DF_REF] = ref_space_to_batch_2d, [DF_CPU] = cpu_space_to_batch_2d } },
  { .type = "BatchToSpace", .in = "input:T crops:Tidx", .out = "output:T", .types = "T=any Tidx=int32|int64",
    .attrs = "block_size:int[2..]",
    .doc = "BatchToSpaceND with square blocks", .shape = shape_rank, .grad = grad_batch_to_space_2d,
    .kernel = { [DF_REF] = ref_batch_to_space_2d, [DF_CPU] = cpu_batch_to_space_2d } },
  { .type = "SpaceToDepth", .lua = "space_to_depth", .in = "input:T", .out = "output:T", .types = "T=any",
    .attrs = "block_size:int[2..] data_format:string[NHWC|NCHW|NCHW_VECT_C]='NHWC'",
    .doc = "T[n, h / s, w / s, c s s] = space_to_depth(input T[n, h, w, c]; block_size): the pixels of a block of s by "
    "s side by side in the channels",
    .example = "df.space_to_depth(df.reshape(df.float32{1, 2, 3, 4}, {1, 2, 2, 1}), {block_size = 2})",
    .output = "[[[[1. 2. 3. 4.]]]] float32[1,1,1,4]",
    .derivative = "depth_to_space of dy",
    .shape = shape_to_depth, .grad = grad_space_to_depth,
    .kernel = { [DF_REF] = ref_space_to_depth, [DF_CPU] = cpu_space_to_depth } },
  { .type = "DepthToSpace", .lua = "depth_to_space", .in = "input:T", .out = "output:T", .types = "T=any",
    .attrs = "block_size:int[2..] data_format:string[NHWC|NCHW|NCHW_VECT_C]='NHWC'",
    .doc = "T[n, h s, w s, c] = depth_to_space(input T[n, h, w, c s s]; block_size): what space_to_depth undoes",
    .example = "df.depth_to_space(df.reshape(df.float32{1, 2, 3, 4}, {1, 1, 1, 4}), {block_size = 2})",
    .output = "[[[[1.]\n   [2.]]\n\n  [[3.]\n   [4.]]]] float32[1,2,2,1]",
    .derivative = "space_to_depth of dy",
    .shape = shape_to_space, .grad = grad_depth_to_space,
    .kernel = { [DF_REF] = ref_depth_to_space, [DF_CPU] = cpu_depth_to_space } },
};
const dfi_op_table dfi_ops_blocks = { ops, sizeof ops / sizeof *ops };
