/* v1.c: TensorFlow's older ops whose inputs stand in another order or number than those of the newer ones, and a few
 * ops of their kind that only graphs from TensorFlow use. Kernels are in kernels/v1.c.
 */
#include "ops/array.h"
#include "kernels/array.h"
#include "kernels/convert_ops.h"
#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "kernels/move.h"
#include "kernels/reduce.h"
#include "kernels/v1.h"

static int32_t infer_with(dfi_infer *c, int32_t (*fn)(dfi_infer *c), int32_t n, df_output *in) {
  df_node other = *c->node;
  other.nin = n;
  other.in = in;
  return fn(&(dfi_infer){ c->graph, &other, c->error });
}

/* ---- Concat: the axis comes first -------------------------------------------------------------------------- */
static int32_t shape_concat(dfi_infer *c) {
  int32_t n = c->node->nin;
  df_output *in = dfi_xmalloc(sizeof *in * (size_t)n);
  for (int32_t i = 0; i < n; i++) in[i] = c->node->in[(i + 1) % n];
  int32_t code = infer_with(c, dfi_infer_concat, n, in);
  dfi_free(in);
  return code;
}

static int32_t grad_concat(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  int32_t count = n->nin - 1;
  df_output *in = dfi_xmalloc(sizeof *in * (size_t)n->nin);
  in[0] = dfg_in(g, n, 0);
  for (int32_t i = 0; i < count; i++) in[i + 1] = dfg_in_shape(g, n, i + 1);
  df_node *offset = dfi_opnode(b, "ConcatOffset", n->nin, in);
  for (int32_t i = 0; i < count && offset; i++)
    if (dfg_wants(g, n, i + 1)) dx[i + 1] = dfi_op(b, "Slice", dy[0], ((df_output){ offset, i }), in[i + 1]);
  dfi_free(in);
  return dfg_end(g);
}

/* ---- Gather: along axis 0 ------------------------------------------------------------------------------------ */
static int32_t shape_gather(dfi_infer *c) {
  const dfi_shape *p = dfi_in_shape(c, 0), *i = dfi_in_shape(c, 1);
  if (p->rank == 0) return dfi_infer_fail(c, "params is a scalar: expected rank 1 or more");
  if (p->rank < 0 || i->rank < 0) return DF_OK;
  int32_t code = dfi_infer_open(c, 0, i->rank + p->rank - 1);
  if (code) return code;
  dfi_shape *s = dfi_set_shape(c, 0);
  for (int32_t d = 0; d < i->rank; d++) s->dims[d] = i->dims[d];
  for (int32_t d = 1; d < p->rank; d++) s->dims[i->rank + d - 1] = p->dims[d];
  return DF_OK;
}

static int32_t grad_gather(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_grad_sparse_rows(g, n, dy[0]);
  return dfg_end(g);
}

/* ---- Reverse: a bool for each axis --------------------------------------------------------------------------- */
static int32_t grad_reverse(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dfi_op(dfg_build(g), "Reverse", dy[0], dfg_in(g, n, 1));
  return dfg_end(g);
}

/* ---- TopK with k as an attribute, InTopKV2 with k as an input ------------------------------------------------- */
static int32_t shape_top_k(dfi_infer *c) {
  dfi_shape s = *dfi_in_shape(c, 0);
  int64_t count = c->node->attrs[0].i;
  if (count < 0) return dfi_infer_fail(c, "k must not be negative, got %lld", (long long)count);
  if (s.rank == 0) return dfi_infer_fail(c, "top_k needs at least one axis, got a scalar");
  if (s.rank > 0 && s.dims[s.rank - 1] >= 0 && s.dims[s.rank - 1] < count)
    return dfi_infer_fail(c, "the %lld greatest of %lld elements are asked for", (long long)count,
                          (long long)s.dims[s.rank - 1]);
  if (s.rank > 0) s.dims[s.rank - 1] = count;
  *dfi_set_shape(c, 0) = *dfi_set_shape(c, 1) = s;
  return DF_OK;
}

static int32_t grad_top_k(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (dy[0].node) dx[0] = dfi_op(dfg_build(g), "PutAlong", dy[0], dfg_out(g, n, 1), dfg_in_dim(g, n, 0, -1));
  return dfg_end(g);
}

static int32_t shape_in_top_k(dfi_infer *c) {
  *dfi_set_shape(c, 0) = *dfi_in_shape(c, 1);
  return dfi_infer_rank(c, 0, 2, "predictions");
}

/* ---- Empty, ListDiff, ConjugateTranspose, AccumulateNV2 ---------------------------------------------------------- */
static int32_t shape_empty(dfi_infer *c) {
  *dfi_set_shape(c, 0) = dfi_in_as_shape(c, 0);
  return dfi_infer_rank(c, 0, 1, "shape");
}

static int32_t shape_list_diff(dfi_infer *c) {
  int32_t code = dfi_infer_rank(c, 0, 1, "x");
  *dfi_set_shape(c, 0) = *dfi_set_shape(c, 1) = dfi_shape_vector(-1);
  return code ? code : dfi_infer_rank(c, 1, 1, "y");
}

static int32_t grad_conjugate_transpose(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  dx[0] = dfi_op(b, "ConjugateTranspose", dy[0], dfi_op(b, "InvertPermutation", dfg_in(g, n, 1)));
  return dfg_end(g);
}

static int32_t grad_accumulate(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  for (int32_t i = 0; i < n->nin; i++) dx[i] = dy[0];
  return dfg_end(g);
}

static int32_t shape_parallel_concat(dfi_infer *c) {
  const df_attr *shape = &c->node->attrs[0];
  dfi_shape *s = dfi_set_shape(c, 0);
  *s = dfi_shape_unknown();
  if (shape->i < 0) return DF_OK;
  s->rank = (int8_t)shape->i;
  for (int32_t d = 0; d < s->rank; d++) s->dims[d] = shape->ints[d];
  return DF_OK;
}

static int32_t grad_parallel_concat(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  dfi_attr_int(b, "num_split", n->nin);
  df_node *rows = dfi_opnode(b, "Split", 2, (df_output[]){ dfi_const_int(b, 0), dy[0] });
  for (int32_t i = 0; rows && i < n->nin; i++) dx[i] = (df_output){ rows, i };
  return dfg_end(g);
}

static const df_op ops[] = {
  { .type = "ParallelConcat", .in = "values:T*", .out = "output:T", .types = "T=any", .attrs = "shape:shape",
    .doc = "values of one row each below each other, in the shape that is known before", .shape = shape_parallel_concat,
    .grad = grad_parallel_concat, .kernel = { [DF_REF] = ref_v1_parallel_concat } },
  { .type = "Concat", .in = "concat_dim:int32 values:T*", .out = "output:T", .types = "T=any",
    .doc = "ConcatV2 with the axis first", .shape = shape_concat, .grad = grad_concat,
    .kernel = { [DF_REF] = ref_v1_concat, [DF_CPU] = cpu_v1_concat } },
  { .type = "Gather", .work = dfi_work_part, .in = "params:Tparams indices:Tindices", .out = "output:Tparams",
    .types = "Tparams=any Tindices=int32|int64",
    .attrs = "validate_indices:bool=true", .doc = "GatherV2 along axis 0", .shape = shape_gather, .grad = grad_gather,
    .kernel = { [DF_REF] = ref_v1_gather, [DF_CPU] = cpu_v1_gather } },
  { .type = "Reverse", .in = "tensor:T dims:bool", .out = "output:T", .types = "T=any",
    .doc = "ReverseV2 with a bool for each axis", .shape = dfi_shape_same, .grad = grad_reverse,
    .kernel = { [DF_REF] = ref_v1_reverse, [DF_CPU] = cpu_v1_reverse } },
  { .type = "TopK", .in = "input:T", .out = "values:T indices:int32", .types = "T=number",
    .attrs = "k:int sorted:bool=true",
    .doc = "TopKV2 with k as an attribute", .shape = shape_top_k, .grad = grad_top_k,
    .kernel = { [DF_REF] = ref_v1_top_k, [DF_CPU] = cpu_v1_top_k } },
  { .type = "InTopKV2", .in = "predictions:float32 targets:T k:T", .out = "precision:bool", .types = "T=int32|int64",
    .doc = "InTopK with k as an input", .shape = shape_in_top_k, .no_grad = true,
    .kernel = { [DF_REF] = ref_v1_in_top_k } },
  { .type = "Empty", .in = "shape:int32", .out = "output:dtype", .types = "dtype=any",
    .attrs = "dtype:dtype init:bool=false",
    .doc = "a tensor of this shape and dtype; zeros", .shape = shape_empty, .stateful = true, .no_grad = true,
    .kernel = { [DF_REF] = ref_v1_empty } },
  { .type = "ListDiff", .lua = "setdiff1d", .in = "x:T y:T", .out = "out:T idx:out_idx",
    .types = "T=number|bool|complex|string|quantized out_idx=int32|int64", .attrs = "out_idx:dtype=int32",
    .doc = "out T[n], idx out_idx[n] = setdiff1d(x T[m], y T[l]): the elements of x that are not in y, in order, and "
    "where they are",
    .example = "df.setdiff1d({1, 2, 3}, {2})  --> {1, 3}, {0, 2}",
    .output = "[1 3] int32[2], [0 2] int32[2]",
    .derivative = "none: which elements stay is no smooth function",
    .shape = shape_list_diff, .no_grad = true,
    .kernel = { [DF_REF] = ref_v1_list_diff } },
  { .type = "ConjugateTranspose", .in = "x:T perm:Tperm", .out = "y:T", .types = "T=any Tperm=int32|int64",
    .doc = "Transpose, and complex numbers conjugated", .shape = dfi_infer_transpose, .grad = grad_conjugate_transpose,
    .kernel = { [DF_REF] = ref_v1_conjugate_transpose } },
  { .type = "AccumulateNV2", .in = "inputs:T*", .out = "sum:T", .types = "T=number|complex", .attrs = "shape:shape=?",
    .doc = "AddN of tensors of a shape that is known", .shape = dfi_shape_same, .grad = grad_accumulate,
    .kernel = { [DF_REF] = ref_add_n, [DF_CPU] = cpu_add_n } },
};
const dfi_op_table dfi_ops_v1 = { ops, sizeof ops / sizeof *ops };
