/* tensor_array.c: TensorArray and its methods.
 *
 * A TensorArray is one value, its handle: an op that changes the array gives the handle again, so that order is a
 * matter of data flow. The handle's static shape is that of an element as far as it is known, `of` the elements' dtype.
 * An array of arrays has `of` DF_RESOURCE and the shape of the innermost elements; a handle read from it has `of`
 * DF_INVALID: not known. Every gradient is an op on the gradient array (grad.h), which adds up what is written to a
 * location.
 */
#include "op/run.h"
#include "graph/grad.h"
#include "resource/tape.h"
#include "resource/resource.h"
#include "resource/tensor_array.h"
#include <stdio.h>

/* Values saved for and read by gradients are counted by the run (kernel.c). */
void dfi_run_count_push(void *run);
void dfi_run_count_pop(void *run);

/* Attributes of TensorArray. */
enum { A_DTYPE, A_ELEMENT_SHAPE, A_DYNAMIC, A_CLEAR, A_NAME, A_SAVED, A_SWAP, A_OUTLINES, A_LANES };

/* ---- what is known while building ----------------------------------------------------------------- */

static const dfi_out *handle_of(const dfi_infer *c, int32_t i) {
  return &c->node->in[i].node->out[c->node->in[i].index];
}

/* "TensorArray 'rows'": the array that input i is a handle of, as well as one can tell. */
static const char *array_title(const dfi_infer *c, int32_t i, char buffer[128]) {
  const df_node *n = c->node->in[i].node;
  for (;;) {
    const dfi_op_info *o = dfi_op_info_at(n->op);
    if (!strcmp(o->op->type, "TensorArray")) {
      int32_t at = dfi_op_attr_index(o, "tensor_array_name");
      snprintf(buffer, 128, "TensorArray '%.80s'", n->attrs[at].i ? n->attrs[at].s : dfi_node_name((df_node *)n));
      return buffer;
    }
    if (n->nin == 0 || dfi_dtype(n->in[0]) != DF_RESOURCE) return strcpy(buffer, "TensorArray");
    n = n->in[0].node;
  }
}

/* Where a handle comes from: what is known of that while one goes back, by way of which Merges. */
typedef struct origin {
  const df_node *maker, *merge[64];
  int32_t        nmerge;
  bool           lost;                 /* of several arrays, or where it cannot be seen */
} origin;

static void look_back(origin *o, const df_node *n) {
  while (!o->lost) {
    const df_op *op = dfi_op_info_at(n->op)->op;
    if (!strcmp(op->type, "TensorArray")) {
      o->lost = o->maker && o->maker != n;
      o->maker = n;
      return;
    }
    if (n->nin == 0 || dfi_dtype(n->in[0]) != DF_RESOURCE) break;
    if (op->flow == DF_MERGE) {
      for (int32_t i = 0; i < o->nmerge; i++) if (o->merge[i] == n) return;
      /* a body that is being built may give its loop another array yet */
      if (n->nin != 2 || o->nmerge == (int32_t)(sizeof o->merge / sizeof *o->merge)) break;
      o->merge[o->nmerge++] = n;
      look_back(o, n->in[1].node);
    }
    n = n->in[0].node;
  }
  o->lost = true;
}

/* How many elements the array of input 0 has; -1: that is known when it runs. */
static int64_t size_of(const dfi_infer *c) {
  origin o = { 0 };
  look_back(&o, c->node->in[0].node);
  if (o.lost || !o.maker || o.maker->attrs[A_DYNAMIC].i) return -1;
  const df_output size = o.maker->in[0];
  return size.node->out[size.index].constant ? df_tensor_get_int(size.node->out[size.index].constant, 0) : -1;
}

static void pass_handle(dfi_infer *c, int32_t out, const dfi_out *h) {
  c->node->out[out].of = h->of;
  c->node->out[out].shape = h->shape;
}

/* The handle after something of this dtype and shape was written as an element. */
static int32_t write_element(dfi_infer *c, uint8_t dtype, const dfi_shape *shape) {
  const dfi_out *h = handle_of(c, 0);
  char title[128], a[160], b[160];
  dfi_shape merged;
  if (h->of != DF_INVALID && h->of != dtype)
    return dfi_infer_fail(c, "%s holds %s but is given %s", array_title(c, 0, title), df_dtype_name(h->of),
                          dfi_typed_shape_text(dtype, shape, a));
  if (!dfi_shape_merge(&h->shape, shape, &merged))
    return dfi_infer_fail(c, "%s: its elements are %s but are given %s (shapes that vary need element_shape with -1)",
                          array_title(c, 0, title), dfi_typed_shape_text(dtype, &h->shape, a),
                          dfi_typed_shape_text(dtype, shape, b));
  pass_handle(c, 0, h);
  if (h->shape.rank < 0) c->node->out[0].shape = *shape;   /* the first write settles it; a given -1 stays open */
  if (h->of == DF_INVALID) c->node->out[0].of = dtype;
  return DF_OK;
}

/* An output of dtype attribute 0 made of elements: the dtype must be the array's. */
static int32_t check_dtype(dfi_infer *c) {
  const dfi_out *h = handle_of(c, 0);
  char title[128];
  if (h->of == DF_INVALID || h->of == c->node->out[0].dtype) return DF_OK;
  return dfi_infer_fail(c, "%s holds %s but is read as %s", array_title(c, 0, title), df_dtype_name(h->of),
                        df_dtype_name(c->node->out[0].dtype));
}

/* The element shape: what the handle knows and what attribute `attr` says. The kernel, which sees no handle's shape, is
 * told by the attribute. */
static int32_t merge_element_shape(dfi_infer *c, int32_t attr, dfi_shape *merged) {
  const dfi_out *h = handle_of(c, 0);
  df_attr *given = &c->node->attrs[attr];
  dfi_shape asked = dfi_shape_of((int32_t)given->i, given->ints);
  char title[128], a[160], b[160];
  if (!dfi_shape_merge(&h->shape, &asked, merged))
    return dfi_infer_fail(c, "%s: its elements are %s but element_shape is %s", array_title(c, 0, title),
                          dfi_shape_text(&h->shape, a), dfi_shape_text(&asked, b));
  if (dfi_shape_equal(merged, &asked)) return DF_OK;
  const dfi_op_info *o = dfi_op_info_at(c->node->op);
  /* the node's may be the entry's defaults */
  df_attr *attrs = dfi_graph_alloc(c->graph, sizeof *attrs * (size_t)o->nattr);
  memcpy(attrs, c->node->attrs, sizeof *attrs * (size_t)o->nattr);
  attrs[attr].i = merged->rank;
  attrs[attr].ints = dfi_graph_alloc(c->graph, sizeof *attrs->ints * DF_MAX_RANK);
  memcpy(attrs[attr].ints, merged->dims, sizeof *merged->dims * (size_t)merged->rank);
  c->node->attrs = attrs;
  return DF_OK;
}

static int32_t rows_of(dfi_infer *c, const dfi_shape *element, int64_t n) {
  char a[160];
  if (element->rank < 0) return DF_OK;
  if (element->rank >= DF_MAX_RANK)
    return dfi_infer_fail(c, "elements of shape %s cannot be stacked: the rank would be above %d",
                          dfi_shape_text(element, a), DF_MAX_RANK);
  dfi_shape s = { .rank = (int8_t)(element->rank + 1), .dims = { n } };
  memcpy(s.dims + 1, element->dims, sizeof *s.dims * (size_t)element->rank);
  *dfi_set_shape(c, 0) = s;
  return DF_OK;
}

static int32_t must_be_scalar(dfi_infer *c, int32_t i, const char *name) {
  char a[160];
  if (dfi_in_shape(c, i)->rank <= 0) return DF_OK;
  return dfi_infer_fail(c, "%s is %s but must be a scalar", name,
                        dfi_typed_shape_text(dfi_in_dtype(c, i), dfi_in_shape(c, i), a));
}
static int32_t must_be_vector(dfi_infer *c, int32_t i, const char *name) {
  char a[160];
  int32_t rank = dfi_in_shape(c, i)->rank;
  if (rank == 1 || rank < 0) return DF_OK;
  return dfi_infer_fail(c, "%s is %s but must be a vector", name,
                        dfi_typed_shape_text(dfi_in_dtype(c, i), dfi_in_shape(c, i), a));
}

static int32_t shape_array(dfi_infer *c) {
  const df_attr *a = c->node->attrs;
  if (df_dtype_bytes((int32_t)a[A_DTYPE].i) == 0)
    return dfi_infer_fail(c, "a TensorArray needs the dtype of its elements");
  const df_tensor *size = dfi_in_const(c, 0);
  if (size && size->size == 1 && df_tensor_get_int(size, 0) < 0)
    return dfi_infer_fail(c, "the size of a TensorArray is %lld but must not be negative",
                          (long long)df_tensor_get_int(size, 0));
  c->node->out[0].of = (uint8_t)a[A_DTYPE].i;
  c->node->out[0].shape = dfi_shape_of((int32_t)a[A_ELEMENT_SHAPE].i, a[A_ELEMENT_SHAPE].ints);
  return must_be_scalar(c, 0, "size");
}

static int32_t shape_write(dfi_infer *c) {
  int32_t code = must_be_scalar(c, 1, "index");
  return code ? code : write_element(c, dfi_in_dtype(c, 2), dfi_in_shape(c, 2));
}

static int32_t shape_read(dfi_infer *c) {
  const dfi_out *h = handle_of(c, 0);
  int32_t code = must_be_scalar(c, 1, "index");
  if (code || (code = check_dtype(c))) return code;
  *dfi_set_shape(c, 0) = h->shape;
  return DF_OK;
}

static int32_t shape_stack(dfi_infer *c) {
  dfi_shape element;
  int32_t code = check_dtype(c);
  if (code || (code = merge_element_shape(c, 1, &element))) return code;
  return rows_of(c, &element, size_of(c));
}

static int32_t shape_take(dfi_infer *c) {
  dfi_shape element;
  const df_tensor *n = dfi_in_const(c, 1);
  int32_t code = check_dtype(c);
  if (code || (code = must_be_scalar(c, 1, "count")) || (code = merge_element_shape(c, 1, &element))) return code;
  return rows_of(c, &element, n ? df_tensor_get_int(n, 0) : -1);
}

static int32_t shape_gather(dfi_infer *c) {
  dfi_shape element;
  int32_t code = check_dtype(c);
  if (code || (code = must_be_vector(c, 1, "indices")) || (code = merge_element_shape(c, 1, &element))) return code;
  return rows_of(c, &element, dfi_in_shape(c, 1)->rank == 1 ? dfi_in_shape(c, 1)->dims[0] : -1);
}

static int32_t write_rows(dfi_infer *c, int32_t value) {
  const dfi_shape *s = dfi_in_shape(c, value);
  char title[128];
  if (s->rank == 0) return dfi_infer_fail(c, "%s: a scalar has no rows to make elements of", array_title(c, 0, title));
  dfi_shape row = s->rank < 0 ? dfi_shape_unknown() : dfi_shape_of(s->rank - 1, s->dims + 1);
  return write_element(c, dfi_in_dtype(c, value), &row);
}
static int32_t shape_unstack(dfi_infer *c) { return write_rows(c, 1); }
static int32_t shape_scatter(dfi_infer *c) {
  int32_t code = must_be_vector(c, 1, "indices");
  const dfi_shape *ix = dfi_in_shape(c, 1), *s = dfi_in_shape(c, 2);
  char title[128], a[160], b[160];
  if (!code && ix->rank == 1 && s->rank > 0 && ix->dims[0] >= 0 && s->dims[0] >= 0 && ix->dims[0] != s->dims[0])
    return dfi_infer_fail(c, "%s: indices is %s but must have one index for each row of %s", array_title(c, 0, title),
                          dfi_shape_text(ix, a), dfi_shape_text(s, b));
  return code ? code : write_rows(c, 2);
}

static int32_t shape_concat(dfi_infer *c) {
  dfi_shape element;
  char title[128];
  int32_t code = check_dtype(c);
  if (code || (code = merge_element_shape(c, 1, &element))) return code;
  if (element.rank == 0)
    return dfi_infer_fail(c, "%s: its elements are scalars, which are stacked, not concatenated",
                          array_title(c, 0, title));
  if (element.rank > 0) element.dims[0] = -1;
  *dfi_set_shape(c, 0) = element;
  if (c->node->nout > 1) *dfi_set_shape(c, 1) = dfi_shape_vector(-1);
  return DF_OK;
}

static int32_t shape_split(dfi_infer *c) {
  int32_t code = must_be_vector(c, 2, "lengths");
  if (code) return code;
  dfi_shape part = *dfi_in_shape(c, 1);
  char title[128];
  if (part.rank == 0)
    return dfi_infer_fail(c, "%s: a scalar has no rows to make elements of", array_title(c, 0, title));
  if (part.rank > 0) part.dims[0] = -1;
  return write_element(c, dfi_in_dtype(c, 1), &part);
}

static int32_t shape_same_array(dfi_infer *c) {
  if (c->node->nin == 0) return dfi_infer_fail(c, "no array was given, at least one is expected");
  pass_handle(c, 0, handle_of(c, 0));
  return DF_OK;
}

/* ---- gradients -------------------------------------------------------------------------------------- */

static bool has_gradient(uint8_t dtype) { return dfi_is_float(dtype) || dfi_is_complex(dtype) || dtype == DF_RESOURCE; }

/* A new node's output is known to have the shape of a forward value. */
static df_output shaped(df_output o, const dfi_shape *s) {
  dfi_shape merged;
  if (o.node && dfi_shape_merge(dfi_shape_at(o), s, &merged)) o.node->out[o.index].shape = merged;
  return o;
}

static int32_t grad_write(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (!dy[0].node) return dfg_end(g);
  dx[0] = dy[0];
  if (has_gradient(dfi_dtype(n->in[2])) && dfg_wants(g, n, 2)) {
    dfi_build *b = dfg_build(g);
    df_output index = dfg_in(g, n, 1);
    dfi_attr_int(b, "dtype", dfi_dtype(n->in[2]));
    dx[2] = shaped(dfi_op(b, "TensorArrayRead", dy[0], index), dfi_shape_at(n->in[2]));
  }
  return dfg_end(g);
}

static int32_t grad_read(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (dy[0].node) dfg_array(g, 0, "TensorArrayWrite", 2, (df_output[]){ dfg_in(g, n, 1), dy[0] });
  return dfg_end(g);
}

static int32_t grad_stack(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (dy[0].node) dfg_array(g, 0, "TensorArrayUnstack", 1, dy);
  return dfg_end(g);
}

static int32_t grad_gather(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (dy[0].node) dfg_array(g, 0, "TensorArrayScatter", 2, (df_output[]){ dfg_in(g, n, 1), dy[0] });
  return dfg_end(g);
}

/* The rows of the elements' gradients. */
static void row_attrs(dfi_build *b, df_output value) {
  const dfi_shape *s = dfi_shape_at(value);
  dfi_shape row = s->rank < 1 ? dfi_shape_unknown() : dfi_shape_of(s->rank - 1, s->dims + 1);
  dfi_attr_int(b, "dtype", dfi_dtype(value));
  dfi_attr_shape(b, "element_shape", &row);
}

/* Only as many rows as the value had: the array may have been longer, or have grown since. */
static int32_t grad_unstack(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (!dy[0].node) return dfg_end(g);
  dx[0] = dy[0];
  if (has_gradient(dfi_dtype(n->in[1])) && dfg_wants(g, n, 1)) {
    dfi_build *b = dfg_build(g);
    df_output count = dfg_in_dim(g, n, 1, 0);
    row_attrs(b, n->in[1]);
    dx[1] = shaped(dfi_op(b, "TensorArrayTake", dy[0], count), dfi_shape_at(n->in[1]));
  }
  return dfg_end(g);
}

static int32_t grad_scatter(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (!dy[0].node) return dfg_end(g);
  dx[0] = dy[0];
  if (has_gradient(dfi_dtype(n->in[2])) && dfg_wants(g, n, 2)) {
    dfi_build *b = dfg_build(g);
    df_output indices = dfg_in(g, n, 1);
    row_attrs(b, n->in[2]);
    dx[2] = shaped(dfi_op(b, "TensorArrayGather", dy[0], indices), dfi_shape_at(n->in[2]));
  }
  return dfg_end(g);
}

static int32_t grad_concat(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (dy[0].node) dfg_array(g, 0, "TensorArraySplit", 2, (df_output[]){ dy[0], dfg_out(g, n, 1) });
  return dfg_end(g);
}
static int32_t grad_concat_parts(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (dy[0].node) dfg_array(g, 0, "TensorArraySplit", 2, (df_output[]){ dy[0], dfg_in(g, n, 1) });
  return dfg_end(g);
}

static int32_t grad_split(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (!dy[0].node) return dfg_end(g);
  dx[0] = dy[0];
  if (has_gradient(dfi_dtype(n->in[1])) && dfg_wants(g, n, 1)) {
    dfi_build *b = dfg_build(g);
    df_output lengths = dfg_in(g, n, 2);
    dfi_attr_int(b, "dtype", dfi_dtype(n->in[1]));
    dx[1] = shaped(dfi_op(b, "TensorArrayConcatParts", dy[0], lengths), dfi_shape_at(n->in[1]));
  }
  return dfg_end(g);
}

static int32_t grad_pass(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dy[0];
  return dfg_end(g);
}

/* Inputs that were one array have one gradient array; an array that was added to the first has the same gradient, in an
 * array of its own, because what else happened to the two differs. Which it was is known when it runs. */
static int32_t grad_join(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (!dy[0].node) return dfg_end(g);
  dx[0] = dy[0];
  for (int32_t i = 1; i < n->nin; i++)
    if (dfg_wants(g, n, i))
      dx[i] = dfi_op(dfg_build(g), "TensorArrayJoinGrad", dy[0], dfg_in(g, n, 0), dfg_in(g, n, i));
  return dfg_end(g);
}

/* ---- kernels ---------------------------------------------------------------------------------------- */

/* Input i of a kernel, borrowed; NULL where it is no array (error is filled). */
static inline dfi_tensor_array *array_in(df_kernel *k, int32_t i) {
  dfi_handle *h = k->raw[i]->as.handle;
  if (DFI_LIKELY(k->raw[i]->kind == DF_HANDLE && h->type == DFI_TENSOR_ARRAY)) return (dfi_tensor_array *)h;
  return dfi_handle_in(k, i, DFI_TENSOR_ARRAY);
}

static inline int32_t give(df_kernel *k, dfi_tensor_array *a) {    /* consumes the reference */
  if (!a) return k->error->code;
  k->out[0] = (df_value){ .kind = DF_HANDLE, .dtype = DF_RESOURCE, .as.handle = a };
  return DF_OK;
}
static inline int32_t give_again(df_kernel *k, dfi_tensor_array *a, int32_t code) {
  return DFI_LIKELY(code == DF_OK) ? give(k, dfi_handle_retain(a)) : code;
}

/* A scalar integer input. */
static inline bool index_in(df_kernel *k, int32_t i, int64_t *index) {
  const df_value *v = k->raw[i];
  if (DFI_LIKELY(v->kind == DF_SCALAR)) {
    *index = v->dtype == DF_INT32 ? v->as.i32 : v->as.i64;
    return true;
  }
  char text[160];
  dfk_fail(k, DF_INVALID_ARGUMENT, "input %d is %s but must be a scalar", i,
           dfk_shape_text(k->in[i], text, sizeof text));
  return false;
}

static int32_t kernel_array(df_kernel *k) {
  int64_t size;
  if (!index_in(k, 0, &size)) return k->error->code;
  const df_attr *t = k->attrs;
  dfi_shape element = dfi_shape_of((int32_t)t[A_ELEMENT_SHAPE].i, t[A_ELEMENT_SHAPE].ints);
  dfi_tensor_array *a = dfi_tensor_array_new((uint8_t)t[A_DTYPE].i, size, dfk_bool(k, A_DYNAMIC), dfk_bool(k, A_CLEAR),
                                             &element, dfk_string(k, A_NAME), k->error);
  if (a) {
    a->saved = dfk_bool(k, A_SAVED);
    a->swap = (uint8_t)dfk_int(k, A_SWAP);
    a->outlines = dfk_bool(k, A_OUTLINES);
    a->lanes = dfk_int(k, A_LANES);
    if (k->run) a->node = dfi_run_node(k->run);
  }
  return give(k, a);
}

/* Was this done before, to the location i and to all others? A gradient array adds whatever was there. */
static bool is_again(const df_kernel *k, const dfi_tensor_array *a, int64_t i) {
  if (DFI_LIKELY(!dfk_bool(k, 0)) || a->accumulates || i < 0 || i >= dfi_tensor_array_size(a)) return false;
  return dfi_tensor_array_state(a, i) != DFI_SLOT_EMPTY;
}

static int32_t kernel_write(df_kernel *k) {
  dfi_tensor_array *a = array_in(k, 0);
  int64_t i;
  if (!a || !index_in(k, 1, &i)) return k->error->code;
  if (is_again(k, a, i)) return give(k, dfi_handle_retain(a));
  if (a->saved) dfi_run_count_push(k->run);
  const int32_t status = dfi_tensor_array_write(a, i, k->raw[2], k->error);
  if (DFI_UNLIKELY(a->swap) && !status) dfi_run_swap_written(k->run, a, i);
  return give_again(k, a, status);
}

static __attribute__((noinline)) int32_t wrong_dtype(df_kernel *k, const dfi_tensor_array *a) {
  char title[128];
  return dfk_fail(k, DF_INVALID_ARGUMENT, "%s holds %s but is read as %s", dfi_tensor_array_title(a, title),
                  df_dtype_name(a->dtype), df_dtype_name(k->out_dtype[0]));
}

static int32_t kernel_read(df_kernel *k) {
  dfi_tensor_array *a = array_in(k, 0);
  int64_t i;
  if (!a || !index_in(k, 1, &i)) return k->error->code;
  if (DFI_UNLIKELY(a->swap) && dfi_run_swap_later(k->run, a, i)) return DFI_AGAIN;
  if (a->saved) dfi_run_count_pop(k->run);
  if (DFI_UNLIKELY(a->dtype != k->out_dtype[0])) return wrong_dtype(k, a);
  if (DFI_UNLIKELY(a->swap) && dfi_run_swap_read(k->run, a, i, &k->out[0])) return DF_OK;
  return dfi_tensor_array_read(a, i, &k->out[0], k->error);
}

/* t is made of a's elements. */
static int32_t give_rows(df_kernel *k, dfi_tensor_array *a, df_tensor *t) {
  if (!t) return k->error->code;
  if (DFI_UNLIKELY(t->dtype != k->out_dtype[0])) {
    df_tensor_release(t);
    return wrong_dtype(k, a);
  }
  dfk_out_tensor(k, 0, t);
  return DF_OK;
}
static dfi_shape shape_attr(const df_kernel *k, int32_t a) {
  return dfi_shape_of((int32_t)k->attrs[a].i, k->attrs[a].ints);
}

/* handle; dtype element_shape */
static int32_t kernel_stack(df_kernel *k) {
  dfi_tensor_array *a = array_in(k, 0);
  if (!a) return k->error->code;
  dfi_shape hint = shape_attr(k, 1);
  return give_rows(k, a, dfi_tensor_array_gather(a, k, dfi_tensor_array_size(a), NULL, &hint));
}

/* handle count; dtype element_shape */
static int32_t kernel_take(df_kernel *k) {
  dfi_tensor_array *a = array_in(k, 0);
  int64_t n;
  if (!a || !index_in(k, 1, &n)) return k->error->code;
  dfi_shape hint = shape_attr(k, 1);
  return give_rows(k, a, dfi_tensor_array_gather(a, k, n, NULL, &hint));
}

/* handle indices; dtype element_shape */
static int32_t kernel_gather(df_kernel *k) {
  dfi_tensor_array *a = array_in(k, 0);
  char text[160];
  if (!a) return k->error->code;
  if (k->in[1]->rank != 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "indices is %s but must be a vector",
                    dfk_shape_text(k->in[1], text, sizeof text));
  dfi_shape hint = shape_attr(k, 1);
  return give_rows(k, a, dfi_tensor_array_gather(a, k, k->in[1]->size, k->in[1], &hint));
}

/* handle value */
static int32_t kernel_unstack(df_kernel *k) {
  dfi_tensor_array *a = array_in(k, 0);
  if (!a) return k->error->code;
  if (is_again(k, a, 0)) return give(k, dfi_handle_retain(a));
  return give_again(k, a, dfi_tensor_array_unstack(a, (df_tensor *)k->in[1], k->error));
}

/* handle indices value */
static int32_t kernel_scatter(df_kernel *k) {
  dfi_tensor_array *a = array_in(k, 0);
  if (!a) return k->error->code;
  if (k->in[1]->size && is_again(k, a, dfk_index(k->in[1], 0))) return give(k, dfi_handle_retain(a));
  return give_again(k, a, dfi_tensor_array_scatter(a, k->in[1], (df_tensor *)k->in[2], k->error));
}

static int32_t concat(df_kernel *k, dfi_tensor_array *a, int64_t n, const df_tensor *known, int64_t *lengths) {
  dfi_shape hint = shape_attr(k, 1);
  return give_rows(k, a, dfi_tensor_array_concat(a, k, n, known, &hint, lengths));
}

/* handle; dtype element_shape */
static int32_t kernel_concat(df_kernel *k) {
  dfi_tensor_array *a = array_in(k, 0);
  if (!a) return k->error->code;
  int64_t n = dfi_tensor_array_size(a);
  df_tensor *lengths = dfk_out(k, 1, DF_INT64, 1, &n);
  return lengths ? concat(k, a, n, NULL, lengths->data) : k->error->code;
}

/* handle lengths; dtype element_shape */
static int32_t kernel_concat_parts(df_kernel *k) {
  dfi_tensor_array *a = array_in(k, 0);
  if (!a) return k->error->code;
  int64_t n = k->in[1]->size, *lengths = dfk_scratch(k, (n + 1) * (int64_t)sizeof *lengths);
  if (!lengths) return k->error->code;
  int32_t code = concat(k, a, n, k->in[1], lengths);
  dfk_free(lengths);
  return code;
}

/* handle value lengths */
static int32_t kernel_split(df_kernel *k) {
  dfi_tensor_array *a = array_in(k, 0);
  if (!a) return k->error->code;
  if (is_again(k, a, 0)) return give(k, dfi_handle_retain(a));
  return give_again(k, a, dfi_tensor_array_split(a, (df_tensor *)k->in[1], k->in[2], k->error));
}

static int32_t kernel_size(df_kernel *k) {
  dfi_tensor_array *a = array_in(k, 0);
  if (!a) return k->error->code;
  k->out[0] = (df_value){ .kind = DF_SCALAR, .dtype = DF_INT32, .as.i32 = (int32_t)dfi_tensor_array_size(a) };
  return DF_OK;
}

/* The tapes of calls have gradients as arrays have; their ops are these. */
static int32_t give_handle(df_kernel *k, dfi_handle *h) {          /* consumes the reference */
  if (!h) return k->error->code;
  k->out[0] = (df_value){ .kind = DF_HANDLE, .dtype = DF_RESOURCE, .as.handle = h };
  return DF_OK;
}

/* handle; source */
static int32_t kernel_grad(df_kernel *k) {
  dfi_tape *t = dfi_tape_of(k->raw[0]);
  if (t) return give_handle(k, dfi_gradient_new(&t->base, k->error));
  dfi_tensor_array *a = array_in(k, 0);
  return a ? give(k, dfi_tensor_array_grad(a, dfk_string(k, 0), k->error)) : k->error->code;
}

static int32_t join_tapes(df_kernel *k, dfi_tape *first) {
  for (int32_t i = 1; i < k->nin; i++) {
    dfi_tape *t = dfi_tape_of(k->raw[i]);
    if (!t) return dfk_fail(k, DF_INVALID_ARGUMENT, "input %d is no tape of a call", i);
    int32_t code = dfi_gradient_join(&first->base, &t->base, k->error);
    if (code) return code;
  }
  return give_handle(k, dfi_handle_retain(first));
}

static int32_t kernel_join(df_kernel *k) {
  dfi_tape *tape = dfi_tape_of(k->raw[0]);
  if (tape) return join_tapes(k, tape);
  dfi_tensor_array *first = array_in(k, 0);
  if (!first) return k->error->code;
  for (int32_t i = 1; i < k->nin; i++) {
    dfi_tensor_array *a = array_in(k, i);
    int32_t code = a ? dfi_tensor_array_join(first, a, k->error) : k->error->code;
    if (code) return code;
  }
  return give_again(k, first, DF_OK);
}

/* dy first other */
static int32_t kernel_join_grad(df_kernel *k) {
  dfi_tape *tape = dfi_tape_of(k->raw[0]);
  if (tape) {
    if (k->raw[1]->as.handle == k->raw[2]->as.handle) return give_handle(k, dfi_handle_retain(tape));
    dfi_tape *copy = dfi_tape_new();
    if (tape->forward) copy->forward = dfi_handle_retain(tape->forward);
    for (int32_t i = 0; i < tape->n; i++) if (tape->slot[i].kind != DF_EMPTY) dfi_tape_put(copy, i, &tape->slot[i]);
    return give_handle(k, &copy->base);
  }
  dfi_tensor_array *dy = array_in(k, 0);
  if (!dy) return k->error->code;
  if (k->raw[1]->as.handle == k->raw[2]->as.handle) return give_again(k, dy, DF_OK);
  return give(k, dfi_tensor_array_copy(dy, k->error));
}

static int32_t kernel_copy(df_kernel *k) {
  dfi_tensor_array *a = array_in(k, 0);
  return a ? give(k, dfi_tensor_array_copy(a, k->error)) : k->error->code;
}

/* ---- entries ---------------------------------------------------------------------------------------- */

static const df_op ops[] = {
  { .type = "TensorArray", .work = dfi_work_nothing, .remote = DFI_REMOTE_MOVES, .host_in = 0x1,
    .traits = DFO_ARRAY_NEW | DFO_ARRAY, .in = "size:I", .out = "handle:handle", .types = "I=int32|int64",
    .attrs = "dtype:dtype element_shape:shape=? dynamic_size:bool=false clear_after_read:bool=false "
             "tensor_array_name:string='' saved:bool=false swap:int=0 outlines:bool=false lanes:int=0",
    .doc = "a new array of `size` locations each time it runs; with dynamic_size a write beyond the end makes it "
    "longer. "
           "Each location is written once. Elements have the shape of the first one unless element_shape is given",
    .stateful = true, .no_grad = true, .shape = shape_array, .kernel = { [DF_REF] = kernel_array } },
  { .type = "TensorArrayWrite", .work = dfi_work_nothing, .remote = DFI_REMOTE_MOVES, .host_in = 0x2,
    .traits = DFO_ARRAY_FILLS | DFO_ARRAY | DFO_ARRAY_WRITES, .in = "handle:handle index:I value:T",
    .out = "handle_out:handle", .types = "I=int32|int64 T=all",
    .attrs = "recomputed:bool=false",
    .doc = "location index holds value; a second write there is an error (a gradient array adds)",
    .stateful = true, .shape = shape_write, .grad = grad_write, .kernel = { [DF_REF] = kernel_write } },
  { .type = "TensorArrayRead", .work = dfi_work_nothing, .remote = DFI_REMOTE_MOVES, .host_in = 0x2,
    .traits = DFO_ARRAY_TAKES | DFO_ARRAY | DFO_ARRAY_READS, .in = "handle:handle index:I", .out = "value:dtype",
    .types = "I=int32|int64 dtype=all",
    .attrs = "dtype:dtype",
    .doc = "the element at index; an error where nothing was written (a gradient array gives zeros)",
    .stateful = true, .shape = shape_read, .grad = grad_read, .kernel = { [DF_REF] = kernel_read } },
  { .type = "TensorArrayStack", .remote = DFI_REMOTE_MOVES,
    .traits = DFO_ARRAY_WHOLE | DFO_ARRAY, .in = "handle:handle", .out = "value:dtype",
    .types = "dtype=any",
    .attrs = "dtype:dtype element_shape:shape=?",
    .doc = "T[size, element...]: all elements, which must have one shape. element_shape is needed where there is no "
    "element",
    .stateful = true, .shape = shape_stack, .grad = grad_stack, .kernel = { [DF_REF] = kernel_stack } },
  { .type = "TensorArrayTake", .remote = DFI_REMOTE_MOVES, .host_in = 0x2,
    .traits = DFO_ARRAY_WHOLE | DFO_ARRAY, .in = "handle:handle count:I", .out = "value:dtype",
    .types = "I=int32|int64 dtype=any",
    .attrs = "dtype:dtype element_shape:shape=?", .doc = "T[count, element...]: the first `count` elements",
    .stateful = true, .shape = shape_take, .grad = grad_stack, .kernel = { [DF_REF] = kernel_take } },
  { .type = "TensorArrayGather", .remote = DFI_REMOTE_MOVES, .host_in = 0x2,
    .traits = DFO_ARRAY_TAKES | DFO_ARRAY, .in = "handle:handle indices:I", .out = "value:dtype",
    .types = "I=int32|int64 dtype=any",
    .attrs = "dtype:dtype element_shape:shape=?", .doc = "T[n, element...]: the elements at indices[n], as often as "
    "they are named",
    .stateful = true, .shape = shape_gather, .grad = grad_gather, .kernel = { [DF_REF] = kernel_gather } },
  { .type = "TensorArrayUnstack", .remote = DFI_REMOTE_MOVES,
    .traits = DFO_ARRAY_FILLS | DFO_ARRAY, .in = "handle:handle value:T", .out = "handle_out:handle",
    .types = "T=any",
    .attrs = "recomputed:bool=false",
    .doc = "row i of value along axis 0 becomes element i; no more rows than locations, unless the array grows",
    .stateful = true, .shape = shape_unstack, .grad = grad_unstack, .kernel = { [DF_REF] = kernel_unstack } },
  { .type = "TensorArrayScatter", .remote = DFI_REMOTE_MOVES, .host_in = 0x2,
    .traits = DFO_ARRAY_FILLS | DFO_ARRAY, .in = "handle:handle indices:I value:T",
    .out = "handle_out:handle", .types = "I=int32|int64 T=any",
    .attrs = "recomputed:bool=false",
    .doc = "row i of value along axis 0 becomes element indices[i]",
    .stateful = true, .shape = shape_scatter, .grad = grad_scatter, .kernel = { [DF_REF] = kernel_scatter } },
  { .type = "TensorArrayConcat", .remote = DFI_REMOTE_MOVES, .host_out = 2,
    .traits = DFO_ARRAY_WHOLE | DFO_ARRAY, .in = "handle:handle", .out = "value:dtype lengths:int64",
    .types = "dtype=any",
    .attrs = "dtype:dtype element_shape:shape=?",
    .doc = "the elements joined along axis 0, and how many rows each had; their other dimensions must agree",
    .stateful = true, .shape = shape_concat, .grad = grad_concat, .kernel = { [DF_REF] = kernel_concat } },
  { .type = "TensorArrayConcatParts", .remote = DFI_REMOTE_MOVES, .host_in = 0x2,
    .traits = DFO_ARRAY_WHOLE | DFO_ARRAY, .in = "handle:handle lengths:I", .out = "value:dtype",
    .types = "I=int32|int64 dtype=any",
    .attrs = "dtype:dtype element_shape:shape=?",
    .doc = "the first elements joined along axis 0, as many as there are lengths; a gradient array's missing ones are "
    "zeros of that length",
    .stateful = true, .shape = shape_concat, .grad = grad_concat_parts, .kernel = { [DF_REF] = kernel_concat_parts } },
  { .type = "TensorArraySplit", .remote = DFI_REMOTE_MOVES, .host_in = 0x4,
    .traits = DFO_ARRAY_FILLS | DFO_ARRAY, .in = "handle:handle value:T lengths:I",
    .out = "handle_out:handle", .types = "I=int32|int64 T=any",
    .attrs = "recomputed:bool=false",
    .doc = "the first lengths[0] rows of value become element 0, the next lengths[1] element 1, …; there are as many "
    "lengths as locations",
    .stateful = true, .shape = shape_split, .grad = grad_split, .kernel = { [DF_REF] = kernel_split } },
  { .type = "TensorArraySize", .work = dfi_work_nothing, .remote = DFI_REMOTE_LOOKS,
    .traits = DFO_ARRAY_WHOLE | DFO_ARRAY, .in = "handle:handle", .out = "size:int32",
    .doc = "how many locations the array has now",
    .stateful = true, .no_grad = true, .shape = dfi_shape_all_scalar, .kernel = { [DF_REF] = kernel_size } },
  { .type = "TensorArrayGrad", .work = dfi_work_nothing, .remote = DFI_REMOTE_MOVES,
    .traits = DFO_ARRAY_GRAD | DFO_ARRAY, .in = "handle:handle", .out = "grad_handle:handle",
    .attrs = "source:string=''",
    .doc = "the gradient array of this array that `source` names, made when there is none; '' makes a new one each "
    "time. It adds up "
           "what is written to a location, and reads as zeros where nothing was",
    .stateful = true, .no_grad = true, .shape = shape_same_array, .kernel = { [DF_REF] = kernel_grad } },
  { .type = "TensorArrayJoin", .traits = DFO_ARRAY | DFO_ARRAY_JOINS, .remote = DFI_REMOTE_MOVES,
    .in = "handles:handle*", .out = "handle:handle",
    .doc = "waits for all; gradient arrays that are not the first one are added to it",
    .stateful = true, .shape = shape_same_array, .grad = grad_join, .kernel = { [DF_REF] = kernel_join } },
  { .type = "TensorArrayJoinGrad", .traits = DFO_ARRAY, .remote = DFI_REMOTE_MOVES,
    .in = "grad:handle first:handle other:handle", .out = "handle:handle",
    .doc = "grad where first and other are one array, else a copy of it",
    .stateful = true, .shape = shape_same_array, .grad = grad_pass, .kernel = { [DF_REF] = kernel_join_grad } },
  { .type = "TensorArrayCopy", .traits = DFO_ARRAY, .remote = DFI_REMOTE_MOVES,
    .in = "handle:handle", .out = "handle_out:handle",
    .doc = "a new array with the same elements",
    .stateful = true, .shape = shape_same_array, .grad = grad_pass, .kernel = { [DF_REF] = kernel_copy } },
};
const dfi_op_table dfi_ops_tensor_array = { ops, (int32_t)(sizeof ops / sizeof *ops) };
