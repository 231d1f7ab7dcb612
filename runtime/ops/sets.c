/* sets.c: entries of operations on sets that lie in the last dimension of a tensor, dense or sparse. */
#include "op/op.h"
#include "kernels/sets.h"

static int32_t shape_sets(dfi_infer *c) {
  const dfi_shape *first = dfi_in_shape(c, 0);
  const bool sparse = c->node->nin == 6;
  const int64_t rank = sparse ? first->rank == 2 ? first->dims[1] : -1 : first->rank;
  *dfi_set_shape(c, 0) = dfi_shape_of(2, (int64_t[]){ -1, rank });
  *dfi_set_shape(c, 1) = dfi_shape_vector(-1);
  *dfi_set_shape(c, 2) = dfi_shape_vector(rank);
  return DF_OK;
}

static int32_t shape_distance(dfi_infer *c) {
  dfi_shape a = dfi_in_as_shape(c, 2), b = dfi_in_as_shape(c, 5);
  if (a.rank > 0 && a.rank == b.rank) {
    for (int32_t d = 0; d < a.rank; d++)
      a.dims[d] = a.dims[d] < 0 || b.dims[d] < 0 ? -1 : a.dims[d] > b.dims[d] ? a.dims[d] : b.dims[d];
    a.rank--;
    *dfi_set_shape(c, 0) = a;
  }
  return DF_OK;
}

#define ELEMENTS "T=int8|int16|int32|int64|uint8|uint16|string"
#define SPARSE(N) "set" #N "_indices:int64 set" #N "_values:T set" #N "_shape:int64"
#define OPERATION(TYPE, IN, KERNEL, DOC) \
  { .type = TYPE, .in = IN, .out = "result_indices:int64 result_values:T result_shape:int64", .types = ELEMENTS, \
    .attrs = "set_operation:string validate_indices:bool=true", .doc = DOC, .no_grad = true, .shape = shape_sets, \
    .kernel = { [DF_REF] = KERNEL } }

static const df_op ops[] = {
  OPERATION("DenseToDenseSetOperation", "set1:T set2:T", ref_dense_to_dense_set,
            "the sparse tensor of sets in the last dimension: their a-b, b-a, intersection or union"),
  OPERATION("DenseToSparseSetOperation", "set1:T " SPARSE(2), ref_dense_to_sparse_set,
            "DenseToDenseSetOperation of which the second sets are sparse"),
  OPERATION("SparseToSparseSetOperation", SPARSE(1) " " SPARSE(2), ref_sparse_to_sparse_set,
            "DenseToDenseSetOperation of sparse sets"),
  { .type = "SetSize", .in = "set_indices:int64 set_values:T set_shape:int64", .out = "size:int32", .types = ELEMENTS,
    .attrs = "validate_indices:bool=true", .doc = "how many different elements each of the sparse sets has",
    .no_grad = true, .kernel = { [DF_REF] = ref_set_size } },
  { .type = "EditDistance",
    .in = "hypothesis_indices:int64 hypothesis_values:T hypothesis_shape:int64 truth_indices:int64 truth_values:T "
          "truth_shape:int64", .out = "output:float32", .types = "T=any", .attrs = "normalize:bool=true",
    .doc = "the fewest elements of a hypothesis that are put in, left out or replaced to make the truth of it; "
           "normalize: for each element of the truth", .no_grad = true, .shape = shape_distance,
    .kernel = { [DF_REF] = ref_edit_distance } },
};
const dfi_op_table dfi_ops_sets = { ops, (int32_t)(sizeof ops / sizeof *ops) };
