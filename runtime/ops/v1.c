/* v1.c: TensorFlow's older ops whose inputs stand in another order or number than those of the newer ones, and a few ops of their
 * kind that only graphs from TensorFlow use. A kernel here calls the newer op's with the inputs as that one wants them.
 */
#include "ops/array.h"
#include "kernels/array.h"
#include "kernels/convert_ops.h"
#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "kernels/move.h"
#include "kernels/reduce.h"

enum { FEW = 32 };

/* ---- calling one op's functions with other inputs --------------------------------------------------------- */

/* fn with n inputs; none of them may be overwritten. */
static int32_t with_inputs(df_kernel *k, df_kernel_fn fn, int32_t n, const df_tensor *const *in, const df_value *const *raw) {
  df_kernel other = *k;
  other.nin = n;
  other.in = in;
  other.raw = raw;
  other.reusable = 0;
  return fn(&other);
}

/* A number that lies in `v`, seen as a tensor. */
static df_tensor number_in(const df_value *v) {
  return (df_tensor){ .refs = 1, .dtype = v->dtype, .view = 1, .size = 1, .data = (void *)&v->as };
}

/* The first input becomes the last one. */
static int32_t first_last(df_kernel *k, df_kernel_fn fn) {
  const df_tensor *few_in[FEW] = { NULL }, **in = few_in;
  const df_value *few_raw[FEW] = { NULL }, **raw = few_raw;
  if (k->nin > FEW && !(in = dfk_scratch(k, 2 * k->nin * (int64_t)sizeof *in))) return k->error->code;
  if (k->nin > FEW) raw = (const df_value **)(in + k->nin);
  for (int32_t i = 0; i < k->nin; i++) {
    in[i] = k->in[(i + 1) % k->nin];
    raw[i] = k->raw[(i + 1) % k->nin];
  }
  int32_t code = with_inputs(k, fn, k->nin, in, raw);
  if (in != few_in) dfk_free(in);
  return code;
}

static int32_t infer_with(dfi_infer *c, int32_t (*fn)(dfi_infer *c), int32_t n, df_output *in) {
  df_node other = *c->node;
  other.nin = n;
  other.in = in;
  return fn(&(dfi_infer){ c->graph, &other, c->error });
}

/* ---- Concat: the axis comes first -------------------------------------------------------------------------- */
static int32_t kernel_concat_ref(df_kernel *k) { return first_last(k, ref_concat); }
static int32_t kernel_concat(df_kernel *k) { return first_last(k, cpu_concat); }

static int32_t shape_concat(dfi_infer *c) {
  int32_t n = c->node->nin;
  df_output *in = dfi_xmalloc(sizeof *in * (size_t)n);
  for (int32_t i = 0; i < n; i++) in[i] = c->node->in[(i + 1) % n];
  int32_t code = infer_with(c, dfi_infer_concat, n, in);
  free(in);
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
  free(in);
  return dfg_end(g);
}

/* ---- Gather: along axis 0 ------------------------------------------------------------------------------------ */
static int32_t gather(df_kernel *k, df_kernel_fn fn) {
  static const df_value zero = { .kind = DF_SCALAR, .dtype = DF_INT32 };
  static const df_attr no_batch = { .i = 0 };
  df_tensor axis = number_in(&zero);
  df_kernel other = *k;
  other.attrs = &no_batch;
  return with_inputs(&other, fn, 3, (const df_tensor *[]){ k->in[0], k->in[1], &axis }, (const df_value *[]){ k->raw[0], k->raw[1], &zero });
}
static int32_t kernel_gather_ref(df_kernel *k) { return gather(k, ref_gather); }
static int32_t kernel_gather(df_kernel *k) { return gather(k, cpu_gather); }

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
static int32_t reverse(df_kernel *k, df_kernel_fn fn) {
  const df_tensor *x = k->in[0], *dims = k->in[1];
  char a[160], b[160];
  int32_t axes[DF_MAX_RANK];
  if (dims->rank != 1 || dims->size != x->rank)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "dims is %s but must have one bool for each axis of %s", dfk_shape_text(dims, a, sizeof a),
                    dfk_shape_text(x, b, sizeof b));
  df_tensor list = { .refs = 1, .dtype = DF_INT32, .view = 1, .rank = 1, .data = axes };
  for (int32_t d = 0; d < x->rank; d++)
    if (((const bool *)dims->data)[d]) axes[list.size++] = d;
  list.dims[0] = list.size;
  return with_inputs(k, fn, 2, (const df_tensor *[]){ x, &list }, (const df_value *[]){ k->raw[0], k->raw[1] });
}
static int32_t kernel_reverse_ref(df_kernel *k) { return reverse(k, ref_reverse); }
static int32_t kernel_reverse(df_kernel *k) { return reverse(k, cpu_reverse); }

static int32_t grad_reverse(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dfi_op(dfg_build(g), "Reverse", dy[0], dfg_in(g, n, 1));
  return dfg_end(g);
}

/* ---- TopK with k as an attribute, InTopKV2 with k as an input ------------------------------------------------- */
static int32_t top_k(df_kernel *k, df_kernel_fn fn) {
  df_value count = { .kind = DF_SCALAR, .dtype = DF_INT32, .as.i32 = (int32_t)dfk_int(k, 0) };
  df_tensor t = number_in(&count);
  return with_inputs(k, fn, 2, (const df_tensor *[]){ k->in[0], &t }, (const df_value *[]){ k->raw[0], &count });
}
static int32_t kernel_top_k_ref(df_kernel *k) { return top_k(k, ref_top_k); }
static int32_t kernel_top_k(df_kernel *k) { return top_k(k, cpu_top_k); }

static int32_t shape_top_k(dfi_infer *c) {
  dfi_shape s = *dfi_in_shape(c, 0);
  int64_t count = c->node->attrs[0].i;
  if (count < 0) return dfi_infer_fail(c, "k must not be negative, got %lld", (long long)count);
  if (s.rank == 0) return dfi_infer_fail(c, "top_k needs at least one axis, got a scalar");
  if (s.rank > 0 && s.dims[s.rank - 1] >= 0 && s.dims[s.rank - 1] < count)
    return dfi_infer_fail(c, "the %lld greatest of %lld elements are asked for", (long long)count, (long long)s.dims[s.rank - 1]);
  if (s.rank > 0) s.dims[s.rank - 1] = count;
  *dfi_set_shape(c, 0) = *dfi_set_shape(c, 1) = s;
  return DF_OK;
}

static int32_t grad_top_k(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (dy[0].node) dx[0] = dfi_op(dfg_build(g), "PutAlong", dy[0], dfg_out(g, n, 1), dfg_in_dim(g, n, 0, -1));
  return dfg_end(g);
}

static int32_t kernel_in_top_k(df_kernel *k) {
  df_attr count = { 0 };
  df_kernel other = *k;
  if (!dfk_integer(k, 2, "k", &count.i)) return k->error->code;
  other.attrs = &count;
  return with_inputs(&other, ref_in_top_k, 2, k->in, k->raw);
}

static int32_t shape_in_top_k(dfi_infer *c) {
  *dfi_set_shape(c, 0) = *dfi_in_shape(c, 1);
  return dfi_infer_rank(c, 0, 2, "predictions");
}

/* ---- Empty, ListDiff, ConjugateTranspose, AccumulateNV2 ------------------------------------------------------------------ */
/* Zeros, whether or not they were asked for: what lies in memory is nobody's business. */
static int32_t kernel_empty(df_kernel *k) {
  int64_t dims[DF_MAX_RANK];
  int32_t rank = dfk_dims_of(k, k->in[0], "shape", dims);
  df_tensor *out = rank < 0 ? NULL : dfk_out(k, 0, k->out_dtype[0], rank, dims);
  if (!out) return k->error->code;
  dfk_clear(out);
  return DF_OK;
}

static int32_t shape_empty(dfi_infer *c) {
  *dfi_set_shape(c, 0) = dfi_in_as_shape(c, 0);
  return dfi_infer_rank(c, 0, 1, "shape");
}

static bool same_element(const df_tensor *a, int64_t i, const df_tensor *b, int64_t j) {
  int64_t w = dfk_width(a->dtype);
  if (a->dtype != DF_STRING) return !memcmp((const char *)a->data + i * w, (const char *)b->data + j * w, (size_t)w);
  const df_str *s = (const df_str *)a->data + i, *t = (const df_str *)b->data + j;
  return s->length == t->length && (!s->length || !memcmp(s->bytes, t->bytes, (size_t)s->length));
}

static int32_t kernel_list_diff(df_kernel *k) {
  const df_tensor *x = k->in[0], *y = k->in[1];
  char text[160];
  for (int32_t i = 0; i < 2; i++)
    if (k->in[i]->rank != 1)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "%s is %s but must be a vector", i ? "y" : "x", dfk_shape_text(k->in[i], text, sizeof text));
  int64_t n = 0, *kept = dfk_scratch(k, (x->size + 1) * (int64_t)sizeof *kept);
  if (!kept) return k->error->code;
  for (int64_t i = 0; i < x->size; i++) {
    bool found = false;
    for (int64_t j = 0; j < y->size && !found; j++) found = same_element(x, i, y, j);
    if (!found) kept[n++] = i;
  }
  df_tensor *out = dfk_out(k, 0, x->dtype, 1, &n), *index = out ? dfk_out(k, 1, k->out_dtype[1], 1, &n) : NULL;
  bool ok = index != NULL;
  for (int64_t i = 0; ok && i < n; i++) {
    ok = dfk_copy(k, out, i, x, kept[i], 1);
    if (index->dtype == DF_INT64) ((int64_t *)index->data)[i] = kept[i];
    else ((int32_t *)index->data)[i] = (int32_t)kept[i];
  }
  dfk_free(kept);
  return ok ? DF_OK : k->error->code;
}

static int32_t shape_list_diff(dfi_infer *c) {
  int32_t code = dfi_infer_rank(c, 0, 1, "x");
  *dfi_set_shape(c, 0) = *dfi_set_shape(c, 1) = dfi_shape_vector(-1);
  return code ? code : dfi_infer_rank(c, 1, 1, "y");
}

static int32_t kernel_conjugate_transpose(df_kernel *k) {
  if (!dfk_is_complex(k->in[0]->dtype)) return cpu_transpose(k);
  df_value between = { 0 };
  df_kernel first = *k;
  first.nin = 1;
  first.reusable = 0;
  first.out = &between;
  int32_t code = ref_conj(&first);
  if (!code) code = with_inputs(k, cpu_transpose, 2, (const df_tensor *[]){ between.as.tensor, k->in[1] },
                                (const df_value *[]){ &between, k->raw[1] });
  df_value_release(&between);
  return code;
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

/* values of one row each; shape */
static int32_t kernel_parallel_concat(df_kernel *k) {
  const df_attr *shape = &k->attrs[0];
  char one[160];
  df_tensor like = { .dtype = k->in[0]->dtype, .rank = (int8_t)shape->i };
  for (int32_t d = 0; d < shape->i; d++) like.dims[d] = shape->ints[d];
  if (shape->i < 1 || shape->ints[0] != k->nin)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%d values make no %s", k->nin, shape->i < 0 ? "tensor of unknown shape" : dfk_shape_text(&like, one, sizeof one));
  for (int32_t i = 0; i < k->nin; i++) {
    const df_tensor *v = k->in[i];
    bool fits = v->rank == shape->i && v->dims[0] == 1;
    for (int32_t d = 1; fits && d < v->rank; d++) fits = v->dims[d] == shape->ints[d];
    char other[160];
    if (!fits)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "values[%d] is %s, but each is to be one row of %s", i, dfk_shape_text(v, other, sizeof other),
                      dfk_shape_text(&like, one, sizeof one));
  }
  df_tensor *out = dfk_out(k, 0, like.dtype, like.rank, shape->ints);
  if (!out) return k->error->code;
  const int64_t row = out->size / k->nin;
  for (int32_t i = 0; i < k->nin; i++)
    if (!dfk_copy(k, out, i * row, k->in[i], 0, row)) return k->error->code;
  return DF_OK;
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
    .grad = grad_parallel_concat, .kernel = { [DF_REF] = kernel_parallel_concat } },
  { .type = "Concat", .in = "concat_dim:int32 values:T*", .out = "output:T", .types = "T=any",
    .doc = "ConcatV2 with the axis first", .shape = shape_concat, .grad = grad_concat,
    .kernel = { [DF_REF] = kernel_concat_ref, [DF_CPU] = kernel_concat } },
  { .type = "Gather", .in = "params:Tparams indices:Tindices", .out = "output:Tparams", .types = "Tparams=any Tindices=int32|int64",
    .attrs = "validate_indices:bool=true", .doc = "GatherV2 along axis 0", .shape = shape_gather, .grad = grad_gather,
    .kernel = { [DF_REF] = kernel_gather_ref, [DF_CPU] = kernel_gather } },
  { .type = "Reverse", .in = "tensor:T dims:bool", .out = "output:T", .types = "T=any",
    .doc = "ReverseV2 with a bool for each axis", .shape = dfi_shape_same, .grad = grad_reverse,
    .kernel = { [DF_REF] = kernel_reverse_ref, [DF_CPU] = kernel_reverse } },
  { .type = "TopK", .in = "input:T", .out = "values:T indices:int32", .types = "T=number", .attrs = "k:int sorted:bool=true",
    .doc = "TopKV2 with k as an attribute", .shape = shape_top_k, .grad = grad_top_k,
    .kernel = { [DF_REF] = kernel_top_k_ref, [DF_CPU] = kernel_top_k } },
  { .type = "InTopKV2", .in = "predictions:float32 targets:T k:T", .out = "precision:bool", .types = "T=int32|int64",
    .doc = "InTopK with k as an input", .shape = shape_in_top_k, .no_grad = true, .kernel = { [DF_REF] = kernel_in_top_k } },
  { .type = "Empty", .in = "shape:int32", .out = "output:dtype", .types = "dtype=any", .attrs = "dtype:dtype init:bool=false",
    .doc = "a tensor of this shape and dtype; zeros", .shape = shape_empty, .stateful = true, .no_grad = true,
    .kernel = { [DF_REF] = kernel_empty } },
  { .type = "ListDiff", .lua = "setdiff1d", .in = "x:T y:T", .out = "out:T idx:out_idx",
    .types = "T=number|bool|complex|string|quantized out_idx=int32|int64", .attrs = "out_idx:dtype=int32",
    .doc = "out T[n], idx out_idx[n] = setdiff1d(x T[m], y T[l]): the elements of x that are not in y, in order, and where they are",
    .example = "df.setdiff1d({1, 2, 3}, {2})  --> {1, 3}, {0, 2}", .shape = shape_list_diff, .no_grad = true,
    .kernel = { [DF_REF] = kernel_list_diff } },
  { .type = "ConjugateTranspose", .in = "x:T perm:Tperm", .out = "y:T", .types = "T=any Tperm=int32|int64",
    .doc = "Transpose, and complex numbers conjugated", .shape = dfi_infer_transpose, .grad = grad_conjugate_transpose,
    .kernel = { [DF_REF] = kernel_conjugate_transpose } },
  { .type = "AccumulateNV2", .in = "inputs:T*", .out = "sum:T", .types = "T=number|complex", .attrs = "shape:shape=?",
    .doc = "AddN of tensors of a shape that is known", .shape = dfi_shape_same, .grad = grad_accumulate,
    .kernel = { [DF_REF] = ref_add_n, [DF_CPU] = cpu_add_n } },
};
const dfi_op_table dfi_ops_v1 = { ops, sizeof ops / sizeof *ops };
