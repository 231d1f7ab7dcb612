/* index.c: the entries of the index family: reading and writing rows by number.
 *
 * Types, inputs and attributes are TensorFlow's. Indices count from 0 and never from the end; one out of range is an
 * error that names its position, its value and the bound. Shapes are inferred in index_shape.c, gradients are made in
 * ops/index_grad.c, kernels live in kernels/{ref,cpu}/index.c.
 */
#include "ops/array.h"
#include "kernels/array.h"
#include "kernels/index.h"

/* ---- costs, in ns ------------------------------------------------------------------------------------------------ */
enum { CALL = 30 };
#define EACH 0.3

static double cost_gather(const df_kernel *k) {
  const df_tensor *params = k->in[0];
  int64_t axis = k->in[2]->size == 1 ? dfk_index(k->in[2], 0) : 0;
  if (axis < 0) axis += params->rank;
  if (axis < 0 || axis >= params->rank || params->dims[axis] == 0) return CALL;
  return CALL + EACH * (double)k->in[1]->size * (double)params->size / (double)params->dims[axis];
}
static double cost_gather_nd(const df_kernel *k) {
  const df_tensor *params = k->in[0], *indices = k->in[1];
  if (indices->rank < 1 || indices->size == 0) return CALL;
  int64_t depth = indices->dims[indices->rank - 1];
  double row = depth <= params->rank ? (double)dfk_span(params->dims, (int32_t)depth, params->rank) : 1;
  return CALL + (double)indices->size / (double)depth * (2 + EACH * row);
}
static double cost_inputs(const df_kernel *k) {
  double n = 0;
  for (int32_t i = 0; i < k->nin; i++) n += (double)k->in[i]->size;
  return CALL + n;
}
static double cost_one_hot(const df_kernel *k) {
  return CALL + EACH * (double)k->in[0]->size * (k->in[1]->size == 1 ? (double)dfk_index(k->in[1], 0) : 1);
}
static double cost_scatter_nd(const df_kernel *k) {
  double n = (double)k->in[1]->size, all = EACH;
  for (int64_t i = 0; i < k->in[2]->size; i++) all *= (double)dfk_index(k->in[2], i);
  return CALL + n + (all > 0 ? all : 0);
}
static double cost_gather_grad(const df_kernel *k) {
  double n = (double)k->in[3]->size, all = EACH;
  for (int64_t i = 0; i < k->in[0]->size; i++) all *= (double)dfk_index(k->in[0], i);
  return CALL + n + (all > 0 ? all : 0);
}

static const df_op ops[] = {
  { .type = "GatherV2", .work = dfi_work_part,
    .lua = "gather", .in = "params:Tparams indices:Tindices axis:Taxis", .out = "output:Tparams",
    .types = "Tparams=any Tindices=int32|int64 Taxis=int32|int64", .attrs = "batch_dims:int=0",
    .doc = "Tparams = gather(params Tparams[...], indices int[...], axis int; batch_dims): the slices of params along "
    "axis that indices names, "
           "in the shape of indices; with batch_dims the first dimensions of both go together. Error: an index outside "
           "[0, dimension)",
    .example = "df.gather(df.float32{{1, 2}, {3, 4}, {5, 6}}, df.int32{2, 0})",
    .output = "[[5. 6.]\n [1. 2.]] float32[2,2]",
    .derivative = "IndexedSlices: row indices[i] of params gets row i of dy; dense for another axis than 0",
    .shape = dfi_infer_gather, .grad = dfi_grad_gather, .cost = cost_gather, .kernel = { [DF_REF] = ref_gather,
    [DF_CPU] = cpu_gather } },
  { .type = "GatherGrad", .in = "shape:Tshape indices:Tindices axis:Taxis dy:T", .out = "output:T",
    .types = "T=number|complex Tindices=int32|int64 Taxis=int32|int64 Tshape=int32|int64", .attrs = "batch_dims:int=0",
    .doc = "zeros of a shape, with every slice of dy added where gather would have read it",
    .shape = dfi_infer_gather_grad, .grad = dfi_grad_gather_grad, .cost = cost_gather_grad,
    .kernel = { [DF_REF] = ref_gather_grad, [DF_CPU] = cpu_gather_grad } },
  { .type = "GatherNd", .work = dfi_work_part,
    .lua = "gather_nd", .in = "params:Tparams indices:Tindices", .out = "output:Tparams",
    .types = "Tparams=any Tindices=int32|int64",
    .doc = "Tparams = gather_nd(params Tparams[...], indices int[..., depth]): the element or slice at each index of "
    "depth numbers",
    .example = "df.gather_nd(df.float32{{1, 2}, {3, 4}, {5, 6}}, {{0, 1}, {2, 0}})",
    .output = "[2. 5.] float32[2]",
    .derivative = "scatter_nd of dy: each element that was taken gets its part, one taken twice the sum",
    .shape = dfi_infer_gather_nd, .grad = dfi_grad_gather_nd, .cost = cost_gather_nd,
    .kernel = { [DF_REF] = ref_gather_nd, [DF_CPU] = cpu_gather_nd } },
  { .type = "GatherNdLast", .work = dfi_work_part, .in = "params:T indices:Tindices", .out = "output:T",
    .types = "T=number|complex Tindices=int32|int64",
    .doc = "as GatherNd, but zeros for an index that comes again later",
    .shape = dfi_infer_gather_nd, .grad = dfi_grad_gather_nd_last, .cost = cost_gather_nd,
    .kernel = { [DF_REF] = ref_gather_nd_last } },
  { .type = "ScatterNd", .lua = "scatter_nd", .in = "indices:Tindices updates:T shape:Tshape", .out = "output:T",
    .types = "T=number|complex Tindices=int32|int64 Tshape=int32|int64",
    .doc = "T[shape] = scatter_nd(indices int[..., depth], updates T[...], shape int[rank]): zeros, with each update "
    "added at its index",
    .example = "df.scatter_nd(df.int32{{1}, {3}}, df.float32{5, 6}, df.int32{4})  -- {0, 5, 0, 6}",
    .output = "[0. 5. 0. 6.] float32[4]",
    .derivative = "updates = gather_nd(dy, indices)",
    .shape = dfi_infer_scatter_nd, .grad = dfi_grad_scatter_nd, .cost = cost_scatter_nd,
    .kernel = { [DF_REF] = ref_scatter_nd, [DF_CPU] = cpu_scatter_nd } },
  { .type = "TensorScatterUpdate", .lua = "tensor_scatter_update", .in = "tensor:T indices:Tindices updates:T",
    .out = "output:T",
    .types = "T=any Tindices=int32|int64",
    .doc = "T[...] = tensor_scatter_update(tensor T[...], indices int[..., depth], updates T[...]): the tensor with "
    "each update in the place of its "
           "index; where an index comes twice, the later update stays",
    .example = "df.tensor_scatter_update(df.float32{1, 2, 3}, df.int32{{0}}, df.float32{10})",
    .output = "[10.  2.  3.] float32[3]",
    .derivative = "tensor = tensor_scatter_update(dy, indices, zeros_like(updates)); updates = gather_nd(dy, indices)",
    .shape = dfi_infer_tensor_scatter, .grad = dfi_grad_tensor_scatter_update, .cost = cost_inputs,
    .kernel = { [DF_REF] = ref_tensor_scatter_update } },
  { .type = "TensorScatterAdd", .lua = "tensor_scatter_add", .in = "tensor:T indices:Tindices updates:T",
    .out = "output:T",
    .types = "T=number|complex Tindices=int32|int64",
    .doc = "T[...] = tensor_scatter_add(tensor T[...], indices int[..., depth], updates T[...]): the tensor with each "
    "update added at its index",
    .example = "df.tensor_scatter_add(df.float32{1, 2, 3}, df.int32{{0}}, df.float32{10})",
    .output = "[11.  2.  3.] float32[3]",
    .derivative = "tensor = dy; updates = gather_nd(dy, indices)",
    .shape = dfi_infer_tensor_scatter, .grad = dfi_grad_tensor_scatter_add, .cost = cost_inputs,
    .kernel = { [DF_REF] = ref_tensor_scatter_add } },
  { .type = "TensorScatterSub", .lua = "tensor_scatter_sub", .in = "tensor:T indices:Tindices updates:T",
    .out = "output:T",
    .types = "T=number|complex Tindices=int32|int64",
    .doc = "T[...] = tensor_scatter_sub(tensor T[...], indices int[..., depth], updates T[...]): the tensor with each "
    "update subtracted at its index",
    .example = "df.tensor_scatter_sub(df.float32{1, 2, 3}, df.int32{{0}}, df.float32{10})",
    .output = "[-9.  2.  3.] float32[3]",
    .derivative = "tensor = dy; updates = -gather_nd(dy, indices)",
    .shape = dfi_infer_tensor_scatter, .grad = dfi_grad_tensor_scatter_sub, .cost = cost_inputs,
    .kernel = { [DF_REF] = ref_tensor_scatter_sub } },
  { .type = "TensorScatterMax", .in = "tensor:T indices:Tindices updates:T", .out = "output:T",
    .types = "T=number Tindices=int32|int64",
    .doc = "the tensor with the greatest of what it holds and what the updates have for each index",
    .shape = dfi_infer_tensor_scatter, .grad = dfi_grad_tensor_scatter_best, .cost = cost_inputs,
    .kernel = { [DF_REF] = ref_tensor_scatter_max } },
  { .type = "TensorScatterMin", .in = "tensor:T indices:Tindices updates:T", .out = "output:T",
    .types = "T=number Tindices=int32|int64",
    .doc = "the tensor with the least of what it holds and what the updates have for each index",
    .shape = dfi_infer_tensor_scatter, .grad = dfi_grad_tensor_scatter_best, .cost = cost_inputs,
    .kernel = { [DF_REF] = ref_tensor_scatter_min } },
  { .type = "OneHot", .lua = "one_hot", .in = "indices:TI depth:int32 on_value:T off_value:T", .out = "output:T",
    .types = "TI=uint8|int32|int64 T=any", .attrs = "axis:int=-1",
    .doc = "T[..., depth] = one_hot(indices int[...], depth int32, on_value T, off_value T; axis): off_value "
    "everywhere but on_value where the position "
           "along the new axis is the index; an index outside [0, depth) gives off_value only",
    .example = "df.one_hot(df.int32{1, 0, 2}, 3)",
    .output = "[[0. 1. 0.]\n [1. 0. 0.]\n [0. 0. 1.]] float32[3,3]",
    .derivative = "on_value and off_value get the sums of dy where they stand",
    .shape = dfi_infer_one_hot, .grad = dfi_grad_one_hot, .cost = cost_one_hot, .kernel = { [DF_REF] = ref_one_hot,
    [DF_CPU] = cpu_one_hot } },
  { .type = "DynamicPartition", .lua = "dynamic_partition", .in = "data:T partitions:int32",
    .out = "outputs:T*num_partitions", .types = "T=any",
    .attrs = "num_partitions:int[1..]",
    .doc = "a list of num_partitions T[n, ...] = dynamic_partition(data T[...], partitions int32[...]; "
    "num_partitions): the rows of data, each in the part "
           "that partitions names, in order. Error: a part outside [0, num_partitions)",
    .example = "df.unpack(df.dynamic_partition(df.float32{1, 2, 3}, df.int32{0, 1, 0}, 2))",
    .output = "[1. 3.] float32[2], [2.] float32[1]",
    .derivative = "the parts of dy go back to the rows they came from",
    .shape = dfi_infer_dynamic_partition, .grad = dfi_grad_dynamic_partition, .cost = cost_inputs,
    .kernel = { [DF_REF] = ref_dynamic_partition } },
  { .type = "DynamicStitch", .lua = "dynamic_stitch", .in = "indices:int32* data:T*", .out = "merged:T",
    .types = "T=any",
    .doc = "T[n, ...] = dynamic_stitch(list of indices int32[...], list of data T[...]): row indices[i][j] of the "
    "result is row j of data[i]; where an index "
           "comes twice the later row stays, rows that no index names are zeros",
    .example = "df.dynamic_stitch({df.int32{0, 2}, df.int32{1}}, {df.float32{1, 3}, df.float32{2}})",
    .output = "[1. 2. 3.] float32[3]",
    .derivative = "each row of data gets the row of dy that it became; a row that a later one replaced gets zero",
    .shape = dfi_infer_dynamic_stitch, .grad = dfi_grad_dynamic_stitch, .cost = cost_inputs,
    .kernel = { [DF_REF] = ref_dynamic_stitch } },
  { .type = "ParallelDynamicStitch", .in = "indices:int32* data:T*", .out = "merged:T", .types = "T=any",
    .doc = "DynamicStitch; which of several rows at one index stays is not promised",
    .shape = dfi_infer_dynamic_stitch, .grad = dfi_grad_dynamic_stitch, .cost = cost_inputs,
    .kernel = { [DF_REF] = ref_dynamic_stitch } },
  { .type = "DynamicStitchGrad", .in = "indices:int32* dy:T", .out = "data:T*", .types = "T=number|complex",
    .doc = "the rows of dy at each list of indices, zeros where a later list overwrote them in the stitch",
    .shape = dfi_infer_dynamic_stitch_grad, .grad = dfi_grad_dynamic_stitch_grad, .cost = cost_inputs,
    .kernel = { [DF_REF] = ref_dynamic_stitch_grad } },
};

const dfi_op_table dfi_ops_index = { ops, (int32_t)(sizeof ops / sizeof *ops) };
