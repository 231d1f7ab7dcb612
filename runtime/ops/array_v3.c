/* array_v3.c: TensorArrayV3 and its fellows, as TensorFlow's graphs have them: array_v3.h says by which rules.
 *
 * What a graph was made of passes through here unchanged: nothing is checked while building that TensorFlow checks when
 * it runs. The V2 ops are the same under other names.
 */
#include "resource/array_v3.h"
#include "op/run.h"
#include "graph/grad.h"
#include "resource/tensor_array.h"
#include "resource/values.h"
#include "resource/variable.h"
#include <stdio.h>

/* ---- what is known while building ------------------------------------------------------------------ */

static const dfi_out *handle_of(const dfi_infer *c) { return &c->node->in[0].node->out[c->node->in[0].index]; }

enum { A_DTYPE, A_ELEMENT_SHAPE, A_DYNAMIC, A_CLEAR, A_IDENTICAL, A_NAME };

static int32_t shape_array(dfi_infer *c) {
  const df_attr *a = c->node->attrs;
  c->node->out[0].of = (uint8_t)a[A_DTYPE].i;
  c->node->out[0].shape = dfi_shape_of((int32_t)a[A_ELEMENT_SHAPE].i, a[A_ELEMENT_SHAPE].ints);
  *dfi_set_shape(c, 1) = dfi_shape_scalar();
  return DF_OK;
}

static int32_t shape_read(dfi_infer *c) {
  const dfi_out *h = handle_of(c);
  if (h->of == c->node->out[0].dtype) *dfi_set_shape(c, 0) = h->shape;
  return DF_OK;
}

/* [n, element…], or with n < 0 [?, element…]. */
static void rows(dfi_infer *c, const dfi_shape *element, int64_t n) {
  if (element->rank < 0 || element->rank >= DF_MAX_RANK) return;
  dfi_shape s = { .rank = (int8_t)(element->rank + 1), .dims = { n } };
  memcpy(s.dims + 1, element->dims, sizeof *s.dims * (size_t)element->rank);
  *dfi_set_shape(c, 0) = s;
}

static int32_t shape_gather(dfi_infer *c) {
  const df_attr *a = &c->node->attrs[1];
  dfi_shape asked = dfi_shape_of((int32_t)a->i, a->ints), merged;
  const dfi_shape *ix = dfi_in_shape(c, 1);
  if (!dfi_shape_merge(&asked, &handle_of(c)->shape, &merged)) merged = asked;
  rows(c, &merged, ix->rank == 1 ? ix->dims[0] : -1);
  return DF_OK;
}

static int32_t shape_concat(dfi_infer *c) {
  const df_attr *a = &c->node->attrs[1];
  dfi_shape rest = dfi_shape_of((int32_t)a->i, a->ints);
  rows(c, &rest, -1);
  *dfi_set_shape(c, 1) = dfi_shape_vector(-1);
  return DF_OK;
}

static int32_t shape_grad(dfi_infer *c) {
  c->node->out[0].of = handle_of(c)->of;
  if (c->node->nin < 3) c->node->out[0].shape = handle_of(c)->shape;
  if (c->node->nout > 1) *dfi_set_shape(c, 1) = dfi_shape_scalar();
  return DF_OK;
}

/* ---- gradients ---------------------------------------------------------------------------------------- */

/* The part of the current name scope that names this call of gradients: up to its last component `gradients…`. */
static const char *source_of(df_graph *g, char buffer[256]) {
  const char *scope = dfi_current_scope(g);
  size_t end = 0;
  for (const char *at = scope; *at;) {
    size_t n = strcspn(at, "/");
    if (!strncmp(at, "gradients", 9)) end = (size_t)(at - scope) + n;
    at += n + (at[n] == '/');
  }
  if (!end) return "gradients";
  snprintf(buffer, 256, "%.*s", (int)(end < 255 ? end : 255), scope);
  return buffer;
}

/* The gradient array of the array that n works on, after `flow`: handle and flow. */
static df_node *gradient_array(dfi_grad *g, df_node *n, df_output flow) {
  dfi_build *b = dfg_build(g);
  char source[256];
  df_output handle = dfg_in(g, n, 0);
  dfi_attr_string(b, "source", source_of(b->graph, source));
  return dfi_opnode(b, "TensorArrayGradV3", 2, (df_output[]){ handle, flow });
}

static df_output shaped(df_output o, const dfi_shape *s) {
  dfi_shape merged;
  if (o.node && dfi_shape_merge(dfi_shape_at(o), s, &merged)) o.node->out[o.index].shape = merged;
  return o;
}

/* Of an op that takes elements out: dy is put into the gradient array by `type`, with `where` (may be none). */
static int32_t put(dfi_grad *g, df_node *n, df_output dy, df_output *dx, int32_t flow, const char *type,
                   df_output index, df_output lengths) {
  if (!dy.node) return dfg_end(g);
  df_node *a = gradient_array(g, n, dfg_in(g, n, flow));
  if (!a) return dfg_end(g);
  df_output h = { a, 0 }, after = { a, 1 };
  dx[flow] =
      index.node ? dfi_op(dfg_build(g), type, h, index, dy, after) : dfi_op(dfg_build(g), type, h, dy, lengths, after);
  return dfg_end(g);
}
static int32_t grad_read(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  return dy[0].node ? put(g, n, dy[0], dx, 2, "TensorArrayWriteV3", dfg_in(g, n, 1), DFI_NONE) : dfg_end(g);
}
static int32_t grad_gather(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  return dy[0].node ? put(g, n, dy[0], dx, 2, "TensorArrayScatterV3", dfg_in(g, n, 1), DFI_NONE) : dfg_end(g);
}
static int32_t grad_concat(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  return dy[0].node ? put(g, n, dy[0], dx, 1, "TensorArraySplitV3", DFI_NONE, dfg_out(g, n, 1)) : dfg_end(g);
}

/* Of an op that puts elements in: its value's gradient is taken out of the gradient array, after all that dy, the flow,
   waits for. */
static int32_t grad_write(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (!dy[0].node) return dfg_end(g);
  dx[3] = dy[0];
  if (!dfg_wants(g, n, 2)) return dfg_end(g);
  df_output index = dfg_in(g, n, 1);
  df_node *a = gradient_array(g, n, dy[0]);
  dfi_attr_int(dfg_build(g), "dtype", dfi_dtype(n->in[2]));
  if (a)
    dx[2] = shaped(dfi_op(dfg_build(g), "TensorArrayReadV3", ((df_output){ a, 0 }), index, ((df_output){ a, 1 })),
                   dfi_shape_at(n->in[2]));
  return dfg_end(g);
}
static int32_t grad_scatter(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (!dy[0].node) return dfg_end(g);
  dx[3] = dy[0];
  if (!dfg_wants(g, n, 2)) return dfg_end(g);
  dfi_build *b = dfg_build(g);
  df_output indices = dfg_in(g, n, 1);
  df_node *a = gradient_array(g, n, dy[0]);
  dfi_attr_int(b, "dtype", dfi_dtype(n->in[2]));
  if (a)
    dx[2] = shaped(dfi_op(b, "TensorArrayGatherV3", ((df_output){ a, 0 }), indices, ((df_output){ a, 1 })),
                   dfi_shape_at(n->in[2]));
  return dfg_end(g);
}
static int32_t grad_split(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (!dy[0].node) return dfg_end(g);
  dx[3] = dy[0];
  if (!dfg_wants(g, n, 1)) return dfg_end(g);
  dfi_build *b = dfg_build(g);
  df_node *a = gradient_array(g, n, dy[0]);
  dfi_attr_int(b, "dtype", dfi_dtype(n->in[1]));
  if (a)
    dx[1] =
        shaped(dfi_op(b, "TensorArrayConcatV3", ((df_output){ a, 0 }), ((df_output){ a, 1 })), dfi_shape_at(n->in[1]));
  return dfg_end(g);
}

/* Only the flow: what a gradient array adds up is linear in what is written to it, and its own gradient array has the
   rest. */
static int32_t grad_grad(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[1] = dy[1];
  return dfg_end(g);
}

/* ---- kernels ------------------------------------------------------------------------------------------- */

static __attribute__((noinline)) dfi_array_v3 *no_array(df_kernel *k) {
  dfk_fail(k, DF_INVALID_ARGUMENT, "input 0 is not the handle of a TensorArrayV3");
  return NULL;
}
static inline dfi_array_v3 *array_in(df_kernel *k) {
  dfi_handle *h = k->raw[0]->as.handle;
  return DFI_LIKELY(k->raw[0]->kind == DF_HANDLE && h->type == DFI_ARRAY_V3) ? (dfi_array_v3 *)h : no_array(k);
}

static inline int32_t flow(df_kernel *k, int32_t out) {
  k->out[out] = (df_value){ .kind = DF_SCALAR, .dtype = DF_FLOAT32 };
  return DF_OK;
}

static inline bool index_in(df_kernel *k, int32_t i, const char *name, int64_t *index) {
  const df_value *v = k->raw[i];
  if (DFI_LIKELY(v->kind == DF_SCALAR)) {
    *index = v->as.i32;
    return true;
  }
  char text[160];
  dfk_fail(k, DF_INVALID_ARGUMENT, "%s is %s but must be a scalar", name, dfk_shape_text(k->in[i], text, sizeof text));
  return false;
}

static bool vector_in(df_kernel *k, int32_t i, const char *name) {
  char text[160];
  if (k->in[i]->rank == 1) return true;
  dfk_fail(k, DF_INVALID_ARGUMENT, "%s is %s but must be a vector", name, dfk_shape_text(k->in[i], text, sizeof text));
  return false;
}

static bool same_dtype(df_kernel *k, const dfi_array_v3 *a, uint8_t dtype) {
  char title[160];
  if (DFI_LIKELY(a->dtype == dtype)) return true;
  dfk_fail(k, DF_INVALID_ARGUMENT, "%s holds %s but the op is for %s", dfi_array_v3_title(a, title),
           df_dtype_name(a->dtype), df_dtype_name(dtype));
  return false;
}

static dfi_shape shape_attr(const df_kernel *k, int32_t a) {
  return dfi_shape_of((int32_t)k->attrs[a].i, k->attrs[a].ints);
}

static int32_t kernel_array(df_kernel *k) {
  int64_t size;
  if (!index_in(k, 0, "size", &size)) return k->error->code;
  dfi_shape element = shape_attr(k, A_ELEMENT_SHAPE);
  const char *name = dfk_string(k, A_NAME);
  if (!*name && k->run) name = dfi_node_name(dfi_run_node(k->run));
  dfi_array_v3 *a = dfi_array_v3_new((uint8_t)dfk_int(k, A_DTYPE), size, &element, name, k->error);
  if (!a) return k->error->code;
  a->dynamic = dfk_bool(k, A_DYNAMIC);
  a->clear_after_read = dfk_bool(k, A_CLEAR);
  a->identical = dfk_bool(k, A_IDENTICAL);
  k->out[0] = (df_value){ .kind = DF_HANDLE, .dtype = DF_RESOURCE, .as.handle = a };
  return flow(k, 1);
}

/* handle index value flow */
static int32_t kernel_write(df_kernel *k) {
  dfi_array_v3 *a = array_in(k);
  int64_t i;
  if (!a || !index_in(k, 1, "index", &i)) return k->error->code;
  int32_t code = dfi_array_v3_write(a, i, k->raw[2], k->error);
  return code ? code : flow(k, 0);
}

/* handle index flow; dtype */
static int32_t kernel_read(df_kernel *k) {
  dfi_array_v3 *a = array_in(k);
  int64_t i;
  if (!a || !index_in(k, 1, "index", &i) || !same_dtype(k, a, k->out_dtype[0])) return k->error->code;
  return dfi_array_v3_read(a, i, &k->out[0], k->error);
}

/* The n elements that `index` names (NULL: the first), read; to be dropped and freed. NULL: error is filled. */
static df_value *read_all(df_kernel *k, dfi_array_v3 *a, int64_t n, const df_tensor *index) {
  df_value *v = dfi_xcalloc((size_t)n + 1, sizeof *v);
  int64_t i = 0;
  while (i < n && !dfi_array_v3_read(a, index ? dfk_index(index, i) : i, &v[i], k->error)) i++;
  if (i == n) return v;
  while (i-- > 0) dfi_value_drop(&v[i]);
  dfi_free(v);
  return NULL;
}

/* handle indices flow; dtype element_shape */
static int32_t kernel_gather(df_kernel *k) {
  dfi_array_v3 *a = array_in(k);
  dfi_shape asked = shape_attr(k, 1);
  if (!a || !vector_in(k, 1, "indices") || !same_dtype(k, a, k->out_dtype[0]) || dfi_array_v3_check_open(a, k->error) ||
      dfi_array_v3_narrow(a, &asked, k->error)) return k->error->code;
  int64_t n = k->in[1]->size;
  char title[160], x[160], y[160];
  if (n == 0 && !dfi_shape_known(&asked))
    return dfk_fail(k, DF_UNIMPLEMENTED,
                    "%s: nothing is gathered, and element_shape (%s) does not say in full what it would be",
                    dfi_array_v3_title(a, title), dfi_shape_text(&asked, x));
  df_value *v = read_all(k, a, n, k->in[1]);
  if (!v) return k->error->code;
  dfi_shape first = n ? dfi_value_shape(&v[0]) : asked;
  if (!dfi_shape_merge(&first, &asked, &first))
    return dfi_values_drop(v, n,
                    dfk_fail(k, DF_INVALID_ARGUMENT, "%s: element_shape is %s but index %lld has %s",
                             dfi_array_v3_title(a, title), dfi_shape_text(&asked, x), (long long)dfk_index(k->in[1], 0),
                             dfi_shape_text(&first, y)));
  for (int64_t i = 1; i < n; i++) {
    dfi_shape s = dfi_value_shape(&v[i]);
    if (dfi_shape_equal(&first, &s)) continue;
    return dfi_values_drop(v, n,
                    dfk_fail(k, DF_INVALID_ARGUMENT, "%s: elements of different shapes cannot be stacked: %s and %s",
                             dfi_array_v3_title(a, title), dfi_shape_text(&first, x), dfi_shape_text(&s, y)));
  }
  return dfi_values_drop(v, n, dfi_values_stack(k, 0, a->dtype, &first, n, v));
}

/* handle flow; dtype element_shape_except0 */
static int32_t kernel_concat(df_kernel *k) {
  dfi_array_v3 *a = array_in(k);
  dfi_shape asked = shape_attr(k, 1);
  if (!a || !same_dtype(k, a, k->out_dtype[0]) || dfi_array_v3_check_open(a, k->error)) return k->error->code;
  int64_t n = a->accumulates && a->marked >= 0 ? a->marked : a->size;
  char title[160], x[160], y[160];
  if (n == 0 && !dfi_shape_known(&asked))
    return dfk_fail(k, DF_UNIMPLEMENTED,
                    "%s: nothing is concatenated, and element_shape_except0 (%s) does not say in full what it would be",
                    dfi_array_v3_title(a, title), dfi_shape_text(&asked, x));
  df_tensor *lengths = dfk_out(k, 1, DF_INT64, 1, &n);
  df_value *v = lengths ? read_all(k, a, n, NULL) : NULL;
  if (!v) return k->error->code;
  dfi_shape rest = asked;
  int64_t total = 0;
  for (int64_t i = 0; i < n; i++) {
    dfi_shape s = dfi_value_shape(&v[i]);
    if (s.rank == 0)
      return dfi_values_drop(v, n,
                      dfk_fail(k, DF_INVALID_ARGUMENT,
                               "%s: index %lld is a scalar: scalars are stacked, not concatenated",
                               dfi_array_v3_title(a, title), (long long)i));
    total += ((int64_t *)lengths->data)[i] = s.dims[0];
    s = dfi_shape_of(s.rank - 1, s.dims + 1);
    if (i == 0 ? !dfi_shape_merge(&s, &rest, &rest) : !dfi_shape_equal(&s, &rest))
      return dfi_values_drop(v, n,
                      dfk_fail(k, DF_INVALID_ARGUMENT, "%s: index %lld has rows %s, but %s",
                               dfi_array_v3_title(a, title), (long long)i, dfi_shape_text(&s, x),
                               dfi_shape_text(&rest, y)));
  }
  return dfi_values_drop(v, n, dfi_values_concat(k, 0, a->dtype, &rest, total, n, v));
}

static bool rows_in(df_kernel *k, int32_t i) {
  char text[160];
  if (k->in[i]->rank > 0) return true;
  dfk_fail(k, DF_INVALID_ARGUMENT, "value is %s but must be a vector at least",
           dfk_shape_text(k->in[i], text, sizeof text));
  return false;
}

/* handle indices value flow */
static int32_t kernel_scatter(df_kernel *k) {
  dfi_array_v3 *a = array_in(k);
  if (!a || !vector_in(k, 1, "indices") || !rows_in(k, 2) || !same_dtype(k, a, k->in[2]->dtype) ||
      dfi_array_v3_check_open(a, k->error))
    return k->error->code;
  const df_tensor *ix = k->in[1], *value = k->in[2];
  char title[160];
  if (ix->size != value->dims[0])
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%s: %lld indices for %lld rows", dfi_array_v3_title(a, title),
                    (long long)ix->size, (long long)value->dims[0]);
  int64_t top = -1;
  for (int64_t i = 0; i < ix->size; i++) top = dfk_index(ix, i) > top ? dfk_index(ix, i) : top;
  if (top >= a->size && !a->dynamic)
    return dfk_fail(k, DF_INVALID_ARGUMENT,
                    "%s: index %lld is written, but the array has %lld locations and does not grow",
                    dfi_array_v3_title(a, title), (long long)top, (long long)a->size);
  for (int64_t i = 0; i < ix->size; i++) {
    df_value row;
    if (!dfi_row_value((df_tensor *)value, i, &row))
      return dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for a row");
    int32_t code = dfi_array_v3_write(a, dfk_index(ix, i), &row, k->error);
    dfi_value_drop(&row);
    if (code) return code;
  }
  return flow(k, 0);
}

/* handle value lengths flow */
static int32_t kernel_split(df_kernel *k) {
  dfi_array_v3 *a = array_in(k);
  if (!a || !vector_in(k, 2, "lengths") || !rows_in(k, 1) || !same_dtype(k, a, k->in[1]->dtype) ||
      dfi_array_v3_check_open(a, k->error))
    return k->error->code;
  const df_tensor *value = k->in[1], *lengths = k->in[2];
  char title[160];
  int64_t total = 0, n = lengths->size;
  bool negative = false;
  for (int64_t i = 0; i < n; i++) {
    total += dfk_index(lengths, i);
    negative |= dfk_index(lengths, i) < 0;
  }
  if (total != value->dims[0] || negative)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%s: the lengths add up to %lld%s but the value has %lld rows",
                    dfi_array_v3_title(a, title), (long long)total, negative ? " and some are negative" : "",
                    (long long)value->dims[0]);
  if (a->dynamic && !dfi_array_v3_grow(a, n, k->error)) return k->error->code;
  if (a->size != n)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%s: %lld lengths for an array of %lld locations",
                    dfi_array_v3_title(a, title), (long long)n, (long long)a->size);
  if (!a->accumulates) a->marked = n;
  int64_t dims[DF_MAX_RANK], row = total ? value->size / total : 0;
  memcpy(dims, value->dims, sizeof dims);
  for (int64_t i = 0, at = 0; i < n; at += row * dims[0], i++) {
    dims[0] = dfk_index(lengths, i);
    df_value part = { .kind = DF_TENSOR, .dtype = value->dtype };
    part.as.tensor = dfi_tensor_part((df_tensor *)value, at, value->rank, dims);
    if (!part.as.tensor) return dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for a part");
    int32_t code = dfi_array_v3_write(a, i, &part, k->error);
    dfi_value_drop(&part);
    if (code) return code;
  }
  return flow(k, 0);
}

static int32_t kernel_size(df_kernel *k) {
  dfi_array_v3 *a = array_in(k);
  if (!a || dfi_array_v3_check_open(a, k->error)) return k->error->code;
  k->out[0] = (df_value){ .kind = DF_SCALAR, .dtype = DF_INT32, .as.i32 = (int32_t)a->size };
  return DF_OK;
}

static int32_t kernel_close(df_kernel *k) {
  dfi_array_v3 *a = array_in(k);
  if (!a) return k->error->code;
  dfi_array_v3_close(a);
  return DF_OK;
}

static int32_t give_gradient(df_kernel *k, dfi_array_v3 *a, const dfi_shape *prefix) {
  dfi_array_v3 *g = dfi_array_v3_gradient(a, dfk_string(k, 0), prefix, k->error);
  if (!g) return k->error->code;
  k->out[0] = (df_value){ .kind = DF_HANDLE, .dtype = DF_RESOURCE, .as.handle = dfi_handle_retain(g) };
  return k->nout > 1 ? flow(k, 1) : DF_OK;
}

/* handle flow; source */
static int32_t kernel_grad(df_kernel *k) {
  dfi_array_v3 *a = array_in(k);
  return a ? give_gradient(k, a, NULL) : k->error->code;
}

/* handle flow shape_to_prepend; source */
static int32_t kernel_grad_with_shape(df_kernel *k) {
  dfi_array_v3 *a = array_in(k);
  if (!a || !vector_in(k, 2, "shape_to_prepend")) return k->error->code;
  dfi_shape prefix = { .rank = (int8_t)(k->in[2]->size > DF_MAX_RANK ? DF_MAX_RANK : k->in[2]->size) };
  for (int32_t i = 0; i < prefix.rank; i++) prefix.dims[i] = dfk_index(k->in[2], i);
  return give_gradient(k, a, &prefix);
}

/* ---- entries -------------------------------------------------------------------------------------------- */

#define FAMILY(V) \
  { .type = "TensorArray" V, .work = dfi_work_nothing, .remote = DFI_REMOTE_MOVES, .host_in = 0x1, \
    .traits = DFO_ARRAY, .in = "size:int32", .out = "handle:handle flow:float32", \
    .attrs = "dtype:dtype element_shape:shape=? dynamic_size:bool=false clear_after_read:bool=true " \
             "identical_element_shapes:bool=false tensor_array_name:string=''", \
    .doc = "a new array of `size` locations each time it runs, and the flow that orders what is done with it", \
    .stateful = true, .no_grad = true, .shape = shape_array, .kernel = { [DF_REF] = kernel_array } }, \
  { .type = "TensorArrayWrite" V, .work = dfi_work_nothing, .traits = DFO_ARRAY | DFO_ARRAY_WRITES, \
    .remote = DFI_REMOTE_MOVES, .host_in = 0x2, \
    .in = "handle:handle index:int32 value:T flow_in:float32", \
    .out = "flow_out:float32", .types = "T=all", \
    .doc = "location index holds value; it must not have been written or read before", \
    .stateful = true, .shape = dfi_shape_all_scalar, .grad = grad_write, .kernel = { [DF_REF] = kernel_write } }, \
  { .type = "TensorArrayRead" V, .work = dfi_work_nothing, .traits = DFO_ARRAY, \
    .remote = DFI_REMOTE_MOVES, .host_in = 0x2, \
    .in = "handle:handle index:int32 flow_in:float32", .out = "value:dtype", \
    .types = "dtype=all", \
    .attrs = "dtype:dtype", \
    .doc = "the element at index; zeros where nothing was written and the element shape is known", \
    .stateful = true, .shape = shape_read, .grad = grad_read, .kernel = { [DF_REF] = kernel_read } }, \
  { .type = "TensorArrayGather" V, .traits = DFO_ARRAY, .remote = DFI_REMOTE_MOVES, .host_in = 0x2, \
    .in = "handle:handle indices:int32 flow_in:float32", .out = "value:dtype", \
    .types = "dtype=any", \
    .attrs = "dtype:dtype element_shape:shape=?", \
    .doc = "T[n, element...]: the elements at indices[n], stacked", \
    .stateful = true, .shape = shape_gather, .grad = grad_gather, .kernel = { [DF_REF] = kernel_gather } }, \
  { .type = "TensorArrayScatter" V, .traits = DFO_ARRAY, .remote = DFI_REMOTE_MOVES, .host_in = 0x2, \
    .in = "handle:handle indices:int32 value:T flow_in:float32", .out = "flow_out:float32", \
    .types = "T=any", .doc = "row i of value becomes element indices[i]", \
    .stateful = true, .shape = dfi_shape_all_scalar, .grad = grad_scatter, .kernel = { [DF_REF] = kernel_scatter } }, \
  { .type = "TensorArrayConcat" V, .traits = DFO_ARRAY, .remote = DFI_REMOTE_MOVES, .host_out = 0x2, \
    .in = "handle:handle flow_in:float32", .out = "value:dtype lengths:int64", \
    .types = "dtype=any", \
    .attrs = "dtype:dtype element_shape_except0:shape=?", \
    .doc = "all elements joined along axis 0, and how many rows each has", \
    .stateful = true, .shape = shape_concat, .grad = grad_concat, .kernel = { [DF_REF] = kernel_concat } }, \
  { .type = "TensorArraySplit" V, .traits = DFO_ARRAY, .remote = DFI_REMOTE_MOVES, .host_in = 0x4, \
    .in = "handle:handle value:T lengths:int64 flow_in:float32", .out = "flow_out:float32", \
    .types = "T=any", .doc = "the first lengths[0] rows of value become element 0, the next lengths[1] element 1, …", \
    .stateful = true, .shape = dfi_shape_all_scalar, .grad = grad_split, .kernel = { [DF_REF] = kernel_split } }, \
  { .type = "TensorArraySize" V, .work = dfi_work_nothing, .remote = DFI_REMOTE_LOOKS, \
    .traits = DFO_ARRAY, .in = "handle:handle flow_in:float32", .out = "size:int32", \
    .doc = "how many locations the array has now", \
    .stateful = true, .no_grad = true, .shape = dfi_shape_all_scalar, .kernel = { [DF_REF] = kernel_size } }, \
  { .type = "TensorArrayClose" V, .work = dfi_work_nothing, .traits = DFO_ARRAY, .remote = DFI_REMOTE_LOOKS, \
    .in = "handle:handle", .out = "", .doc = "drops all elements; nothing more can be " \
    "done with the array", \
    .stateful = true, .effect = true, .no_grad = true, .kernel = { [DF_REF] = kernel_close } }

static const df_op ops[] = {
  FAMILY("V3"),
  { .type = "TensorArrayGradV3", .work = dfi_work_nothing, .traits = DFO_ARRAY, .remote = DFI_REMOTE_MOVES,
    .in = "handle:handle flow_in:float32", .out = "grad_handle:handle flow_out:float32",
    .attrs = "source:string",
    .doc = "the gradient array of this source, found or made; it adds up what is written to a location. The array "
    "grows no more",
    .stateful = true, .shape = shape_grad, .grad = grad_grad, .kernel = { [DF_REF] = kernel_grad } },
  { .type = "TensorArrayGradWithShape", .work = dfi_work_nothing, .traits = DFO_ARRAY, .remote = DFI_REMOTE_MOVES,
    .host_in = 0x4,
    .in = "handle:handle flow_in:float32 shape_to_prepend:int32",
    .out = "grad_handle:handle flow_out:float32", .attrs = "source:string",
    .doc = "the gradient array of this source, whose elements have shape_to_prepend before their own dimensions",
    .stateful = true, .shape = shape_grad, .no_grad = true, .kernel = { [DF_REF] = kernel_grad_with_shape } },
  FAMILY("V2"),
  { .type = "TensorArrayGradV2", .work = dfi_work_nothing, .traits = DFO_ARRAY, .remote = DFI_REMOTE_MOVES,
    .in = "handle:handle flow_in:float32", .out = "grad_handle:handle",
    .attrs = "source:string",
    .doc = "as TensorArrayGradV3, without a flow", .stateful = true, .shape = shape_grad, .no_grad = true,
    .kernel = { [DF_REF] = kernel_grad } },
};
const dfi_op_table dfi_ops_array_v3 = { ops, (int32_t)(sizeof ops / sizeof *ops) };
