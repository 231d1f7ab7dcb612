/* array.c: the entries of the array family: asking for shapes, changing them, joining, cutting, repeating, filling.
 *
 * Types, inputs and attributes are TensorFlow's. Shapes are inferred in array_shape.c and slice_shape.c, gradients are
 * made in ops/array_grad.c, kernels live in kernels/ref/{array,slice,make}.c and kernels/cpu/array.c.
 */
#include "resource/variant.h"
#include "ops/array.h"
#include "kernels/array.h"

/* ---- costs, in ns ------------------------------------------------------------------------------------------------ */
enum { CALL = 30 };              /* what a kernel takes that moves next to nothing */
#define EACH 0.25                /* an element moved */

static double cost_nothing(const df_kernel *k) { return CALL; }
static double cost_inputs(const df_kernel *k) {
  double n = 0;
  for (int32_t i = 0; i < k->nin; i++) n += (double)k->in[i]->size;
  return CALL + EACH * n;
}
static double cost_slice(const df_kernel *k) {
  double n = 1;
  for (int64_t d = 0; d < k->in[2]->size && d < k->in[0]->rank; d++) {
    int64_t size = dfk_index(k->in[2], d);
    n *= size < 0 ? (double)k->in[0]->dims[d] : (double)size;
  }
  return CALL + EACH * n;
}
/* Only the dims that lose all but one element are counted out. */
static double cost_strided_slice(const df_kernel *k) {
  double n = (double)k->in[0]->size;
  if (!dfk_int(k, 2) && !dfk_int(k, 3))
    for (int32_t d = 0; d < k->in[0]->rank && n > 0; d++)
      if (dfk_int(k, 4) >> d & 1) n /= (double)k->in[0]->dims[d];
  return CALL + EACH * n;
}
static double product(const df_tensor *t) {
  double n = 1;
  for (int64_t i = 0; i < t->size; i++) n *= (double)dfk_index(t, i);
  return n < 0 ? 0 : n;
}
static double cost_shape_0(const df_kernel *k) { return CALL + EACH * product(k->in[0]); }
static double cost_shape_1(const df_kernel *k) { return CALL + EACH * product(k->in[1]); }
static double cost_tile(const df_kernel *k) { return CALL + EACH * product(k->in[1]) * (double)k->in[0]->size; }
static double cost_walk(const df_kernel *k) { return CALL + 5.0 * (double)k->in[0]->size; }
static double cost_check(const df_kernel *k) { return CALL + 0.7 * (double)k->in[0]->size; }

#define MASKS "begin_mask:int=0 end_mask:int=0 ellipsis_mask:int=0 new_axis_mask:int=0 shrink_axis_mask:int=0"

static int32_t zeros_like(df_kernel *k) {
  return k->in[0]->dtype == DF_VARIANT ? dfi_variant_zeros_like(k) : ref_zeros_like(k);
}

static const df_op ops[] = {
  /* ---- shapes ---- */
  { .type = "Shape", .work = dfi_work_nothing, .remote = DFI_REMOTE_LOOKS,
    .traits = DFO_CHEAP, .fold = DFI_FOLD_SHAPE, .lua = "shape", .in = "input:T",
    .out = "output:out_type", .types = "T=any out_type=int32|int64",
    .attrs = "out_type:dtype=int32", .doc = "out_type[rank] = shape(input T[...]): the dimensions of the input",
    .example = "df.shape(df.zeros{2, 3})  -- {2, 3}",
    .output = "[2 3] int32[2]",
    .shape = dfi_infer_shape, .no_grad = true, .cost = cost_nothing, .kernel = { [DF_REF] = ref_shape } },
  { .type = "ShapeN", .remote = DFI_REMOTE_LOOKS,
    .fold = DFI_FOLD_SHAPE, .lua = "shape_n", .in = "input:any*", .out = "output:out_type*",
    .types = "out_type=int32|int64",
    .attrs = "out_type:dtype=int32", .doc = "a list of out_type[rank] = shape_n(list of inputs): the dimensions of "
    "each",
    .example = "df.unpack(df.shape_n{df.float32{1, 2}, df.float32(3)})",
    .output = "[2] int32[1], [] int32[0]",
    .shape = dfi_infer_shape, .no_grad = true, .cost = cost_nothing, .kernel = { [DF_REF] = ref_shape } },
  { .type = "Size", .work = dfi_work_nothing, .remote = DFI_REMOTE_LOOKS,
    .traits = DFO_CHEAP, .fold = DFI_FOLD_SIZE, .lua = "size", .in = "input:T",
    .out = "output:out_type", .types = "T=any out_type=int32|int64",
    .attrs = "out_type:dtype=int32", .doc = "out_type = size(input T[...]): the number of elements",
    .example = "df.size(df.float32{1, 2})",
    .output = "2",
    .shape = dfi_infer_scalar, .no_grad = true, .cost = cost_nothing, .kernel = { [DF_REF] = ref_size } },
  { .type = "Rank", .work = dfi_work_nothing, .remote = DFI_REMOTE_LOOKS,
    .traits = DFO_CHEAP, .fold = DFI_FOLD_RANK, .lua = "rank", .in = "input:T", .out = "output:int32",
    .types = "T=any",
    .doc = "int32 = rank(input T[...]): the number of dimensions",
    .example = "df.rank(df.float32{1, 2})",
    .output = "1",
    .shape = dfi_infer_scalar, .no_grad = true, .cost = cost_nothing, .kernel = { [DF_REF] = ref_rank } },
  { .type = "Reshape", .work = dfi_work_nothing, .remote = DFI_REMOTE_MOVES, .host_in = 0x2,
    .traits = DFO_CHEAP | DFO_RESHAPES, .lua = "reshape", .in = "tensor:T shape:Tshape", .out = "output:T",
    .types = "T=any Tshape=int32|int64",
    .doc = "T[shape] = reshape(tensor T[...], shape int[rank]): the same elements in another shape; one entry may be "
    "-1 and becomes "
           "what is left over. No element is copied. Error: the numbers of elements differ",
    .example = "df.reshape(df.float32{1, 2, 3, 4}, {-1, 2})",
    .output = "[[1. 2.]\n [3. 4.]] float32[2,2]",
    .derivative = "dy in the shape of tensor",
    .shape = dfi_infer_reshape, .grad = dfi_grad_reshape, .cost = cost_nothing, .kernel = { [DF_REF] = ref_reshape } },
  { .type = "ExpandDims", .work = dfi_work_nothing, .remote = DFI_REMOTE_MOVES, .host_in = 0x2,
    .traits = DFO_CHEAP | DFO_RESHAPES, .lua = "expand_dims", .in = "input:T dim:Tdim", .out = "output:T",
    .types = "T=any Tdim=int32|int64",
    .doc = "T = expand_dims(input T[...], dim int): a dimension of 1 is put in at dim, from -rank - 1 to rank. No "
    "element is copied",
    .example = "df.expand_dims(df.float32{1, 2}, 0)",
    .output = "[[1. 2.]] float32[1,2]",
    .derivative = "input = reshape(dy, shape(input))",
    .shape = dfi_infer_expand_dims, .grad = dfi_grad_reshape, .cost = cost_nothing,
    .kernel = { [DF_REF] = ref_expand_dims } },
  { .type = "Squeeze", .work = dfi_work_nothing, .remote = DFI_REMOTE_MOVES,
    .traits = DFO_CHEAP | DFO_RESHAPES, .lua = "squeeze", .in = "input:T", .out = "output:T", .types = "T=any",
    .attrs = "squeeze_dims:ints=[]",
    .doc = "T = squeeze(input T[...]; squeeze_dims): without the dimensions of 1; those of squeeze_dims only, when "
    "given. No element "
           "is copied. Error: a dimension of squeeze_dims is not 1",
    .example = "df.squeeze(df.float32{{1, 2}}, 0)",
    .output = "[1. 2.] float32[2]",
    .derivative = "input = reshape(dy, shape(input))",
    .shape = dfi_infer_squeeze, .grad = dfi_grad_reshape, .cost = cost_nothing, .kernel = { [DF_REF] = ref_squeeze } },
  { .type = "Transpose", .lua = "transpose", .in = "x:T perm:Tperm", .out = "y:T", .types = "T=any Tperm=int32|int64",
    .doc = "T = transpose(x T[...], perm int[rank]): dimension d of the result is dimension perm[d] of x",
    .example = "df.transpose(df.float32{{1, 2}, {3, 4}}, {1, 0})",
    .output = "[[1. 3.]\n [2. 4.]] float32[2,2]",
    .derivative = "x = transpose(dy, invert_permutation(perm))",
    .shape = dfi_infer_transpose, .grad = dfi_grad_transpose, .kernel = { [DF_REF] = ref_transpose,
    [DF_CPU] = cpu_transpose } },
  { .type = "InvertPermutation", .hosted = true, .lua = "invert_permutation", .in = "x:T", .out = "y:T",
    .types = "T=int32|int64",
    .doc = "T[n] = invert_permutation(x T[n]): y[x[i]] = i. Error: x is not a permutation of 0 to n - 1",
    .example = "df.invert_permutation(df.int32{2, 0, 1})  -- {1, 2, 0}",
    .output = "[1 2 0] int32[3]",
    .shape = dfi_infer_vector_same, .no_grad = true, .kernel = { [DF_REF] = ref_invert_permutation } },

  /* ---- joining, taking apart ---- */
  { .type = "ConcatV2", .lua = "concat", .in = "values:T* axis:Tidx", .out = "output:T",
    .types = "T=any Tidx=int32|int64",
    .doc = "T = concat(list of T[...], axis int): one behind the other along an axis; all other dimensions must be "
    "equal",
    .example = "df.concat({df.float32{1, 2}, df.float32{3}}, 0)",
    .output = "[1. 2. 3.] float32[3]",
    .derivative = "dy is sliced: each value gets its part",
    .shape = dfi_infer_concat, .grad = dfi_grad_concat, .cost = cost_inputs, .kernel = { [DF_REF] = ref_concat,
    [DF_CPU] = cpu_concat } },
  { .type = "ConcatOffset", .hosted = true, .in = "concat_dim:int32 shape:int32*", .out = "offset:int32*",
    .doc = "where each of several arrays of these shapes begins in their concatenation along concat_dim",
    .shape = dfi_infer_concat_offset, .no_grad = true, .cost = cost_nothing,
    .kernel = { [DF_REF] = ref_concat_offset } },
  { .type = "Split", .lua = "split", .in = "split_dim:int32 value:T", .out = "output:T*num_split", .types = "T=any",
    .attrs = "num_split:int[1..]",
    .doc = "a list of num_split T[...]: value T[...] in equal parts along split_dim, in order",
    .example = "df.unpack(df.split(df.float32{{1, 2, 3}}, 3, {axis = 1}))",
    .output = "[[1.]] float32[1,1], [[2.]] float32[1,1], [[3.]] float32[1,1]",
    .derivative = "the parts of dy concatenated",
    .shape = dfi_infer_split, .grad = dfi_grad_split, .cost = cost_inputs, .kernel = { [DF_REF] = ref_split,
    [DF_CPU] = cpu_split } },
  { .type = "SplitV", .lua = "split_v", .in = "value:T size_splits:Tlen split_dim:int32", .out = "output:T*num_split",
    .types = "T=any Tlen=int32|int64", .attrs = "num_split:int[1..]",
    .doc = "a list of num_split T[...]: value T[...] in parts of size_splits int[num_split] along split_dim; one size "
    "may be -1 and becomes "
           "what is left over",
    .example = "df.unpack(df.split(df.float32{1, 2, 3}, {2, -1}))",
    .output = "[1. 2.] float32[2], [3.] float32[1]",
    .derivative = "the parts of dy concatenated",
    .shape = dfi_infer_split_v, .grad = dfi_grad_split_v, .cost = cost_inputs, .kernel = { [DF_REF] = ref_split_v,
    [DF_CPU] = cpu_split_v } },
  { .type = "Pack", .traits = DFO_CHEAP, .lua = "stack", .in = "values:T*", .out = "output:T", .types = "T=any",
    .attrs = "axis:int=0",
    .doc = "T[n, ...] = stack(list of n T[...]; axis): the values side by side along a new axis",
    .example = "df.stack({df.float32{1, 2}, df.float32{3, 4}}, {axis = 1})",
    .output = "[[1. 3.]\n [2. 4.]] float32[2,2]",
    .derivative = "dy is unstacked: each value gets its slice",
    .shape = dfi_infer_pack, .grad = dfi_grad_pack, .cost = cost_inputs, .kernel = { [DF_REF] = ref_pack,
    [DF_CPU] = cpu_pack } },
  { .type = "Unpack", .lua = "unstack", .in = "value:T", .out = "output:T*num", .types = "T=any",
    .attrs = "num:int axis:int=0",
    .doc = "a list of num T[...]: the slices of value T[num, ...] along an axis, each without it",
    .example = "df.unpack(df.unstack(df.float32{{1, 2}, {3, 4}}, {axis = 1}))",
    .output = "[1. 3.] float32[2], [2. 4.] float32[2]",
    .derivative = "the slices of dy stacked",
    .shape = dfi_infer_unpack, .grad = dfi_grad_unpack, .cost = cost_inputs, .kernel = { [DF_REF] = ref_unpack,
    [DF_CPU] = cpu_unpack } },

  /* ---- cutting ---- */
  { .type = "Slice", .work = dfi_work_part, .lua = "slice", .in = "input:T begin:Index size:Index", .out = "output:T",
    .types = "T=any Index=int32|int64",
    .doc = "T = slice(input T[...], begin int[rank], size int[rank]): the box of that size from begin on; a size of -1 "
    "is all that is left",
    .example = "df.slice(df.float32{{1, 2, 3}, {4, 5, 6}}, {0, 1}, {-1, 2})",
    .output = "[[2. 3.]\n [5. 6.]] float32[2,2]",
    .derivative = "dy in the place it was cut from, zeros around it",
    .shape = dfi_infer_slice, .grad = dfi_grad_slice, .cost = cost_slice, .kernel = { [DF_REF] = ref_slice,
    [DF_CPU] = cpu_slice } },
  { .type = "StridedSlice", .work = dfi_work_part,
    .lua = "strided_slice", .in = "input:T begin:Index end:Index strides:Index",
    .out = "output:T",
    .types = "T=any Index=int32|int64", .attrs = MASKS,
    .doc = "T = strided_slice(input T[...], begin int[n], end int[n], strides int[n]): elements begin, begin + stride, "
    "... before end of each of the "
           "first n dimensions. Bit i of begin_mask and end_mask: from or to the edge; of shrink_axis_mask: the one "
           "element at begin, without its "
           "dimension; of new_axis_mask: a new dimension of 1; of ellipsis_mask: all dimensions that no other entry "
           "names",
    .example = "df.strided_slice(df.float32{0, 1, 2, 3, 4, 5}, {0}, {5}, {2})",
    .output = "[0. 2. 4.] float32[3]",
    .derivative = "dy in the places it was taken from, zeros elsewhere",
    .shape = dfi_infer_strided_slice, .grad = dfi_grad_strided_slice, .cost = cost_strided_slice,
    .kernel = { [DF_REF] = ref_strided_slice, [DF_CPU] = cpu_strided_slice } },
  { .type = "StridedSliceGrad", .in = "shape:Tshape begin:Index end:Index strides:Index dy:T", .out = "output:T",
    .types = "T=any Index=int32|int64 Tshape=int32|int64", .attrs = MASKS,
    .doc = "zeros of a shape, with dy where StridedSlice would have read",
    .shape = dfi_infer_strided_slice_grad, .grad = dfi_grad_strided_slice_grad, .cost = cost_shape_0,
    .kernel = { [DF_REF] = ref_strided_slice_grad, [DF_CPU] = cpu_strided_slice_grad } },

  /* ---- repeating, padding, turning ---- */
  { .type = "Tile", .lua = "tile", .in = "input:T multiples:Tmultiples", .out = "output:T",
    .types = "T=any Tmultiples=int32|int64",
    .doc = "T = tile(input T[...], multiples int[rank]): the input repeated along each dimension",
    .example = "df.tile(df.float32{{1, 2}}, {2, 1})",
    .output = "[[1. 2.]\n [1. 2.]] float32[2,2]",
    .derivative = "the sum of dy over the copies",
    .shape = dfi_infer_tile, .grad = dfi_grad_tile, .cost = cost_tile, .kernel = { [DF_REF] = ref_tile,
    [DF_CPU] = cpu_tile } },
  { .type = "Pad", .lua = "pad", .in = "input:T paddings:Tpaddings", .out = "output:T",
    .types = "T=any Tpaddings=int32|int64",
    .doc = "T = pad(input T[...], paddings int[rank, 2]): zeros (false, '') before and after, along each dimension",
    .example = "df.pad(df.float32{{1, 2, 3}}, {{1, 1}, {0, 2}})",
    .output = "[[0. 0. 0. 0. 0.]\n [1. 2. 3. 0. 0.]\n [0. 0. 0. 0. 0.]] float32[3,5]",
    .derivative = "the part of dy that is not padding",
    .shape = dfi_infer_pad, .grad = dfi_grad_pad, .cost = cost_inputs, .kernel = { [DF_REF] = ref_pad,
    [DF_CPU] = cpu_pad } },
  { .type = "PadV2", .lua = "pad_v2", .in = "input:T paddings:Tpaddings constant_values:T", .out = "output:T",
    .types = "T=any Tpaddings=int32|int64",
    .doc = "T = pad_v2(input T[...], paddings int[rank, 2], constant_values T): as pad, with a value of one's own",
    .example = "df.pad(df.float32{{1, 2, 3}}, {{1, 1}, {0, 2}}, {constant_values = -1})",
    .output = "[[-1. -1. -1. -1. -1.]\n [ 1.  2.  3. -1. -1.]\n [-1. -1. -1. -1. -1.]] float32[3,5]",
    .derivative = "input gets the part of dy that is not padding, constant_values the sum of the rest",
    .shape = dfi_infer_pad, .grad = dfi_grad_pad, .cost = cost_inputs, .kernel = { [DF_REF] = ref_pad,
    [DF_CPU] = cpu_pad } },
  { .type = "MirrorPad", .lua = "mirror_pad", .in = "input:T paddings:Tpaddings", .out = "output:T",
    .types = "T=any Tpaddings=int32|int64",
    .attrs = "mode:string[REFLECT|SYMMETRIC]='REFLECT'",
    .doc = "T = mirror_pad(input T[...], paddings int[rank, 2]; mode): padded with its own mirror image; 'REFLECT' "
    "leaves the edge out, "
           "'SYMMETRIC' repeats it",
    .example = "df.pad(df.float32{{1, 2, 3}, {4, 5, 6}}, {{1, 1}, {0, 2}}, {mode = 'reflect'})",
    .output = "[[4. 5. 6. 5. 4.]\n [1. 2. 3. 2. 1.]\n [4. 5. 6. 5. 4.]\n [1. 2. 3. 2. 1.]] float32[4,5]",
    .derivative = "dy folded back: each element gets the sum of its images",
    .shape = dfi_infer_mirror_pad, .grad = dfi_grad_mirror_pad, .cost = cost_walk,
    .kernel = { [DF_REF] = ref_mirror_pad, [DF_CPU] = cpu_mirror_pad } },
  { .type = "MirrorPadGrad", .in = "input:T paddings:Tpaddings", .out = "output:T",
    .types = "T=number|complex Tpaddings=int32|int64",
    .attrs = "mode:string[REFLECT|SYMMETRIC]='REFLECT'",
    .doc = "every padded element added to the one that it mirrored",
    .shape = dfi_infer_mirror_pad_grad, .grad = dfi_grad_mirror_pad_grad, .cost = cost_walk,
    .kernel = { [DF_REF] = ref_mirror_pad_grad } },
  { .type = "ReverseV2", .lua = "reverse", .in = "tensor:T axis:Tidx", .out = "output:T",
    .types = "T=any Tidx=int32|int64",
    .doc = "T = reverse(tensor T[...], axis int[n]): back to front along these axes",
    .example = "df.reverse(df.float32{1, 2, 3}, {0})",
    .output = "[3. 2. 1.] float32[3]",
    .derivative = "tensor = reverse(dy, axis)",
    .shape = dfi_infer_reverse, .grad = dfi_grad_reverse, .cost = cost_inputs, .kernel = { [DF_REF] = ref_reverse,
    [DF_CPU] = cpu_reverse } },
  { .type = "ReverseSequence", .lua = "reverse_sequence", .in = "input:T seq_lengths:Tlen", .out = "output:T",
    .types = "T=any Tlen=int32|int64",
    .attrs = "seq_dim:int batch_dim:int=0",
    .doc = "T = reverse_sequence(input T[...], seq_lengths int[batch]; seq_dim, batch_dim): the first seq_lengths[b] "
    "elements along seq_dim "
           "of each b of batch_dim back to front, the rest as they were",
    .example = "df.reverse_sequence(df.float32{{1, 2, 3}, {4, 5, 6}}, df.int32{2, 3}, {seq_dim = 1, batch_dim = 0})",
    .output = "[[2. 1. 3.]\n [6. 5. 4.]] float32[2,3]",
    .derivative = "dy reversed in the same way",
    .shape = dfi_infer_reverse_sequence, .grad = dfi_grad_reverse_sequence,
    .kernel = { [DF_REF] = ref_reverse_sequence } },
  { .type = "Roll", .lua = "roll", .in = "input:T shift:Tshift axis:Taxis", .out = "output:T",
    .types = "T=any Tshift=int32|int64 Taxis=int32|int64",
    .doc = "T = roll(input T[...], shift int, axis int): moved along an axis, what leaves at the end comes in at the "
    "front; both may be lists",
    .example = "df.roll(df.float32{1, 2, 3}, df.int32(1), df.int32(0))",
    .output = "[3. 1. 2.] float32[3]",
    .derivative = "input = roll(dy, -shift, axis)",
    .shape = dfi_infer_roll, .grad = dfi_grad_roll, .cost = cost_inputs, .kernel = { [DF_REF] = ref_roll,
    [DF_CPU] = cpu_roll } },
  { .type = "BroadcastTo", .lua = "broadcast_to", .in = "input:T shape:Tidx", .out = "output:T",
    .types = "T=any Tidx=int32|int64",
    .doc = "T[shape] = broadcast_to(input T[...], shape int[rank]): dimensions of 1, and those missing in front, are "
    "repeated",
    .example = "df.broadcast_to(df.float32{1, 2, 3}, {4, 3})",
    .output = "[[1. 2. 3.]\n [1. 2. 3.]\n [1. 2. 3.]\n [1. 2. 3.]] float32[4,3]",
    .derivative = "input = reduce_sum(dy, 0)",
    .shape = dfi_infer_broadcast_to, .grad = dfi_grad_broadcast_to, .cost = cost_shape_1,
    .kernel = { [DF_REF] = ref_broadcast_to, [DF_CPU] = cpu_broadcast_to } },
  { .type = "BroadcastArgs", .hosted = true, .lua = "broadcast_dynamic_shape", .in = "s0:T s1:T", .out = "r0:T",
    .types = "T=int32|int64",
    .doc = "T[rank] = broadcast_dynamic_shape(s0 T[n], s1 T[m]): the shape that arrays of these shapes broadcast to",
    .example = "df.broadcast_dynamic_shape(df.int32{2, 1}, df.int32{3})",
    .output = "[2 3] int32[2]",
    .shape = dfi_infer_broadcast_args, .no_grad = true, .cost = cost_nothing,
    .kernel = { [DF_REF] = ref_broadcast_args } },
  { .type = "BroadcastGradientArgs", .hosted = true, .work = dfi_work_nothing,
    .in = "s0:T s1:T", .out = "r0:T r1:T", .types = "T=int32|int64",
    .doc = "the axes along which each of two shapes is repeated when they are broadcast together",
    .shape = dfi_infer_broadcast_gradient_args, .no_grad = true, .cost = cost_nothing,
    .kernel = { [DF_REF] = ref_broadcast_gradient_args } },

  /* ---- making ---- */
  { .type = "Fill", .traits = DFO_CHEAP, .lua = "fill", .in = "dims:index_type value:T", .out = "output:T",
    .types = "T=any index_type=int32|int64",
    .doc = "T[dims] = fill(dims int[rank], value T): the value everywhere",
    .example = "df.fill({2, 3}, 1.5)",
    .output = "[[1.5 1.5 1.5]\n [1.5 1.5 1.5]] float32[2,3]",
    .derivative = "value = reduce_sum(dy)",
    .shape = dfi_infer_fill, .grad = dfi_grad_fill, .cost = cost_shape_0, .kernel = { [DF_REF] = ref_fill,
    [DF_CPU] = cpu_fill } },
  { .type = "ZerosLike", .traits = DFO_CHEAP, .lua = "zeros_like", .in = "x:T", .out = "y:T", .types = "T=any",
    .doc = "T[...] = zeros_like(x T[...]): zeros (false, '') of the shape of x",
    .example = "df.zeros_like(df.float32{1, 2})",
    .output = "[0. 0.] float32[2]",
    .derivative = "none: it depends on the shape of its input alone",
    .shape = dfi_shape_same, .no_grad = true, .cost = cost_inputs, .kernel = { [DF_REF] = zeros_like } },
  { .type = "OnesLike", .traits = DFO_CHEAP, .lua = "ones_like", .in = "x:T", .out = "y:T",
    .types = "T=number|bool|complex",
    .doc = "T[...] = ones_like(x T[...]): ones (true) of the shape of x",
    .example = "df.ones_like(df.float32{1, 2})",
    .output = "[1. 1.] float32[2]",
    .derivative = "none: it depends on the shape of its input alone",
    .shape = dfi_shape_same, .no_grad = true, .kernel = { [DF_REF] = ref_ones_like } },
  { .type = "Range", .hosted = true, .traits = DFO_CHEAP, .lua = "range", .in = "start:Tidx limit:Tidx delta:Tidx",
    .out = "output:Tidx", .types = "Tidx=int32|int64|float32|float64",
    .doc = "Tidx[n] = range(start, limit, delta): start, start + delta, ... before limit. Error: delta is 0, or leads "
    "away from limit",
    .example = "df.range(0, 10, 2)",
    .output = "[0 2 4 6 8] int32[5]",
    .derivative = "start gets the sum of dy, delta the sum of dy times the position",
    .shape = dfi_infer_range, .grad = dfi_grad_range, .cost = cost_nothing,
    .kernel = { [DF_REF] = ref_range, [DF_CPU] = cpu_range } },
  { .type = "LinSpace", .lua = "linspace", .in = "start:T stop:T num:Tidx", .out = "output:T",
    .types = "T=float32|float64 Tidx=int32|int64",
    .doc = "T[num] = linspace(start T, stop T, num int): num values evenly spaced from start to stop, both included",
    .example = "df.linspace(0.0, 1.0, 5)",
    .output = "[0.00 0.25 0.50 0.75 1.00] float32[5]",
    .derivative = "start and stop get the sums of dy, weighted by how near each value is to them",
    .shape = dfi_infer_lin_space, .grad = dfi_grad_lin_space, .cost = cost_nothing,
    .kernel = { [DF_REF] = ref_lin_space } },
  { .type = "Diag", .lua = "diag", .in = "diagonal:T", .out = "output:T", .types = "T=any",
    .doc = "T[dims, dims] = diag(diagonal T[dims]): zeros but for the diagonal",
    .example = "df.diag(df.float32{1, 2})  -- {{1, 0}, {0, 2}}",
    .output = "[[1. 0.]\n [0. 2.]] float32[2,2]",
    .derivative = "diagonal = diag_part(dy)",
    .shape = dfi_infer_diag, .grad = dfi_grad_diag, .kernel = { [DF_REF] = ref_diag, [DF_CPU] = cpu_diag } },
  { .type = "DiagPart", .lua = "diag_part", .in = "input:T", .out = "diagonal:T", .types = "T=any",
    .doc = "T[dims] = diag_part(input T[dims, dims]): the diagonal",
    .example = "df.diag_part(df.float32{{1, 2}, {3, 4}})  -- {1, 4}",
    .output = "[1. 4.] float32[2]",
    .derivative = "input = diag(dy)",
    .shape = dfi_infer_diag_part, .grad = dfi_grad_diag_part,
    .kernel = { [DF_REF] = ref_diag_part, [DF_CPU] = cpu_diag_part } },
  { .type = "MatrixSetDiag", .lua = "matrix_set_diag", .in = "input:T diagonal:T", .out = "output:T", .types = "T=any",
    .doc = "T[..., m, n] = matrix_set_diag(input T[..., m, n], diagonal T[..., min(m, n)]): matrices with other "
    "diagonals",
    .example = "df.matrix_set_diag(df.float32{{1, 2}, {3, 4}}, df.float32{0, 0})",
    .output = "[[0. 2.]\n [3. 0.]] float32[2,2]",
    .derivative = "input gets dy with zeros on the diagonal, diagonal gets the diagonal of dy",
    .shape = dfi_infer_matrix_set_diag, .grad = dfi_grad_matrix_set_diag,
    .kernel = { [DF_REF] = ref_matrix_set_diag, [DF_CPU] = cpu_matrix_set_diag } },

  /* ---- finding ---- */
  { .type = "Where", .lua = "where", .in = "input:T", .out = "index:int64", .types = "T=number|bool|complex",
    .doc = "int64[n, rank] = where(input T[...]): the indices of the elements that are true or not zero, in row-major "
    "order",
    .example = "df.where(df.float32{1, -2, 3}:gt(0))",
    .output = "[[0]\n [2]] int64[2,1]",
    .shape = dfi_infer_where, .no_grad = true, .kernel = { [DF_REF] = ref_where, [DF_CPU] = cpu_where } },
  { .type = "Unique", .lua = "unique", .in = "x:T", .out = "y:T idx:out_idx", .types = "T=any out_idx=int32|int64",
    .attrs = "out_idx:dtype=int32",
    .doc = "y T[m], idx out_idx[n] = unique(x T[n]): the distinct elements in the order of their first appearance, and "
    "where each of x is "
           "among them. A NaN is equal to nothing",
    .example = "df.unique(df.int32{3, 1, 3})",
    .output = "[3 1] int32[2], [0 1 0] int32[3]",
    .derivative = "none: which elements stay is no smooth function",
    .shape = dfi_infer_unique, .cost = cost_walk, .kernel = { [DF_REF] = ref_unique, [DF_CPU] = cpu_unique } },
  { .type = "UniqueWithCounts", .lua = "unique_with_counts", .in = "x:T", .out = "y:T idx:out_idx count:out_idx",
    .types = "T=any out_idx=int32|int64", .attrs = "out_idx:dtype=int32",
    .doc = "y T[m], idx out_idx[n], count out_idx[m] = unique_with_counts(x T[n]): as unique, and how often each one "
    "appears",
    .example = "df.unique_with_counts(df.int32{3, 1, 3})",
    .output = "[3 1] int32[2], [0 1 0] int32[3], [2 1] int32[2]",
    .derivative = "none: which elements stay is no smooth function",
    .shape = dfi_infer_unique, .cost = cost_walk, .kernel = { [DF_REF] = ref_unique, [DF_CPU] = cpu_unique } },
  { .type = "CheckNumerics", .lua = "check_numerics", .in = "tensor:T", .out = "output:T", .types = "T=float",
    .attrs = "message:string",
    .doc = "T[...] = check_numerics(tensor T[...]; message): the tensor itself, and an error where it has a NaN or an "
    "infinity; the message comes first",
    .example = "df.check_numerics(df.float32{1, 2}, {message = 'the loss'})",
    .output = "[1. 2.] float32[2]",
    .derivative = "tensor = check_numerics(dy, {message = message})",
    .shape = dfi_shape_same, .grad = dfi_grad_check_numerics, .cost = cost_check,
    .kernel = { [DF_REF] = ref_check_numerics } },
};

const dfi_op_table dfi_ops_array = { ops, (int32_t)(sizeof ops / sizeof *ops) };
