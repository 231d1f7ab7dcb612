/* ctc.c: entries of what decodes connectionist temporal classification. */
#include "ops/array.h"
#include "kernels/ctc.h"

/* top_paths lists of indices, values and shapes, and a number for each example and path. */
static int32_t shape_decoded(dfi_infer *c) {
  const int32_t paths = (c->node->nout - 1) / 3;
  const dfi_shape *x = dfi_in_shape(c, 0);
  for (int32_t p = 0; p < paths; p++) {
    *dfi_set_shape(c, p) = dfi_shape_of(2, (int64_t[]){ -1, 2 });
    *dfi_set_shape(c, paths + p) = dfi_shape_vector(-1);
    *dfi_set_shape(c, 2 * paths + p) = dfi_shape_vector(2);
  }
  *dfi_set_shape(c, 3 * paths) = dfi_shape_of(2, (int64_t[]){ x->rank == 3 ? x->dims[1] : -1, paths });
  const int32_t code = dfi_infer_rank(c, 0, 3, "inputs");
  return code ? code : dfi_infer_rank(c, 1, 1, "sequence_length");
}

#define DECODER .in = "inputs:T sequence_length:int32", .types = "T=float32|float64", .shape = shape_decoded, \
  .expensive = true, .no_grad = true

static const df_op ops[] = {
  { .type = "CTCGreedyDecoder", DECODER,
    .out = "decoded_indices:int64 decoded_values:int64 decoded_shape:int64 log_probability:T",
    .attrs = "merge_repeated:bool=false blank_index:int=-1",
    .doc = "the sparse labels that the best class of each step of inputs [time, batch, classes] makes, and the "
           "negative sum of these logits", .kernel = { [DF_REF] = ref_ctc_greedy } },
  { .type = "CTCBeamSearchDecoder", DECODER,
    .out = "decoded_indices:int64*top_paths decoded_values:int64*top_paths decoded_shape:int64*top_paths "
           "log_probability:T",
    .attrs = "beam_width:int[1..] top_paths:int[1..] merge_repeated:bool=true",
    .doc = "the most probable sparse labels of inputs [time, batch, classes], and the logarithms of how probable they "
           "are", .kernel = { [DF_REF] = ref_ctc_beam_search } },
};
const dfi_op_table dfi_ops_ctc = { ops, (int32_t)(sizeof ops / sizeof *ops) };
