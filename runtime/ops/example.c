/* example.c: entries of the ops that parse tensorflow.Example messages and lines of comma-separated values. Their
 * kernels are in kernels/ref/parse_example.c and decode_csv.c. */
#include "kernels/example.h"
#include "op/op.h"
#include <string.h>

/* Outputs: sparse (indices, values, shapes), then dense, then the rest, which are vectors. The attributes num_sparse
 * and
 * dense_shapes are those. */
static int32_t shapes_of(dfi_infer *c, int64_t sparse, const df_attr *dense) {
  const dfi_shape *in = dfi_in_shape(c, 0);
  const int64_t rank = in->rank < 0 ? -1 : in->rank + 1, nd = dfi_shapes_count(dense);
  if (3 * sparse + nd > c->node->nout) return DF_OK;                            /* the kernel says so */
  for (int32_t i = 0; i < c->node->nout; i++) {
    dfi_shape *out = dfi_set_shape(c, i);
    if (i < sparse) *out = dfi_shape_of(2, (int64_t[]){ -1, rank });
    else if (i < 2 * sparse) *out = dfi_shape_vector(-1);
    else if (i < 3 * sparse) *out = dfi_shape_vector(rank);
    else if (i >= 3 * sparse + nd) *out = dfi_shape_vector(-1);
    else if (in->rank == 0) *out = dfi_shapes_at(dense, (int32_t)(i - 3 * sparse));
    else if (in->rank == 1) {
      const dfi_shape own = dfi_shapes_at(dense, (int32_t)(i - 3 * sparse));
      if (own.rank < 0 || own.rank == DF_MAX_RANK) continue;
      *out = dfi_shape_vector(in->dims[0]);
      for (int32_t d = 0; d < own.rank; d++) out->dims[out->rank++] = own.dims[d];
    }
  }
  return DF_OK;
}
static int32_t shape_example(dfi_infer *c) { return shapes_of(c, c->node->attrs[1].i, &c->node->attrs[5]); }
static int32_t shape_first(dfi_infer *c) { return shapes_of(c, c->node->attrs[0].i, &c->node->attrs[4]); }
static int32_t shape_single(dfi_infer *c) { return shapes_of(c, c->node->attrs[0].i, &c->node->attrs[5]); }

static int32_t shape_csv(dfi_infer *c) {
  char text[160];
  if (strlen(c->node->attrs[1].s) != 1)
    return dfi_infer_fail(c, "field_delim is '%s': expected one character", c->node->attrs[1].s);
  for (int32_t i = 0; i < c->node->nout; i++) {
    const dfi_shape *given = dfi_in_shape(c, 1 + i);
    if (given->rank > 1 || (given->rank == 1 && given->dims[0] > 1))
      return dfi_infer_fail(c, "record_defaults[%d] is %s: expected one value or none", i,
                            dfi_typed_shape_text(dfi_in_dtype(c, 1 + i), given, text));
    *dfi_set_shape(c, i) = *dfi_in_shape(c, 0);
  }
  return DF_OK;
}

#define SPARSE_OF(n) "sparse_indices:int64*" n " sparse_values:sparse_types* sparse_shapes:int64*" n " "
#define SPARSE SPARSE_OF("num_sparse")
static const df_op ops[] = {
  { .type = "DecodeCSV", .in = "records:string record_defaults:OUT_TYPE*", .out = "output:OUT_TYPE*",
    .attrs = "OUT_TYPE:types=[] field_delim:string=',' use_quote_delim:bool=true na_value:string='' "
             "select_cols:ints=[]",
    .doc = "the fields of lines of comma-separated values, by number: each in the dtype of its default, which stands "
           "for a field that is missing; without a default, as an empty vector, it must be there",
    .no_grad = true, .shape = shape_csv, .kernel = { [DF_REF] = ref_decode_csv } },
  { .type = "ParseExample",
    .in = "serialized:string names:string keys_and_defaults:any*",
    .out = SPARSE_OF("Nsparse") "dense_values:Tdense*",
    .attrs = "Nsparse:int[0..] Ndense:int[0..] sparse_types:types=[] Tdense:types=[] dense_shapes:shapes=[]",
    .doc = "features of tensorflow.Example messages, as sparse and dense tensors; each key is an input of its own",
    .expensive = true, .no_grad = true, .shape = shape_first, .kernel = { [DF_REF] = ref_parse_example } },
  { .type = "ParseExampleV2",
    .in = "serialized:string names:string sparse_keys:string dense_keys:string ragged_keys:string "
          "dense_defaults:Tdense*",
    .out = SPARSE "dense_values:Tdense* ragged_values:ragged_value_types* ragged_row_splits:ragged_split_types*",
    .attrs = "Tdense:types=[] num_sparse:int[0..]=0 sparse_types:types=[] ragged_value_types:types=[] "
    "ragged_split_types:types=[] dense_shapes:shapes=[]",
    .doc = "features of tensorflow.Example messages, as sparse, dense and ragged tensors",
    .expensive = true, .no_grad = true, .shape = shape_example, .kernel = { [DF_REF] = ref_parse_example_v2 } },
  { .type = "ParseSingleExample", .in = "serialized:string dense_defaults:Tdense*",
   .out = SPARSE "dense_values:Tdense*",
    .attrs = "num_sparse:int[0..] sparse_keys:tensor dense_keys:tensor sparse_types:types=[] Tdense:types=[] "
    "dense_shapes:shapes=[]",
    .doc = "features of one tensorflow.Example message, as sparse and dense tensors",
    .expensive = true, .no_grad = true, .shape = shape_single, .kernel = { [DF_REF] = ref_parse_single_example } },
};
const dfi_op_table dfi_ops_example = { ops, (int32_t)(sizeof ops / sizeof *ops) };
