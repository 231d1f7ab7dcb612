/* infer.c: what shape functions ask of their node, and the shape functions that many ops share. */
#include "op/op.h"
#include "base/remote_memory.h"
#include <stdarg.h>
#include <stdio.h>

int32_t dfi_infer_fail(dfi_infer *c, const char *format, ...) {
  char text[900];
  const df_op *op = dfi_op_info_at(c->node->op)->op;
  int32_t at = snprintf(text, sizeof text, "%s: ", op->type);
  va_list args;
  va_start(args, format);
  vsnprintf(text + at, sizeof text - (size_t)at, format, args);
  va_end(args);
  return dfi_fail(c->error, DF_INVALID_ARGUMENT, c->node->where, "%s", text);
}

const df_tensor *dfi_in_const(const dfi_infer *c, int32_t i) {
  return c->node->in[i].node->out[c->node->in[i].index].constant;
}

/* ---- vectors of which some elements are known ------------------------------------------------ */

enum { DEEPEST = 16 };
static dfi_shape partly(df_output o, int32_t depth);

static const df_tensor *constant(df_output o) { return o.node->out[o.index].constant; }
static bool is(df_output o, const char *type) { return !strcmp(dfi_op_info_at(o.node->op)->op->type, type); }
static int64_t attr(df_output o, const char *name) {
  int32_t a = dfi_op_attr_index(dfi_op_info_at(o.node->op), name);
  return a < 0 ? 0 : o.node->attrs[a].i;
}

/* Does the op hand its first input on as it is? */
static bool passes(df_output o) {
  return dfi_has_trait(o.node, DFO_PASSES) || is(o, "Cast") || is(o, "Switch") ||
         (is(o, "Enter") && o.node->attrs[DFI_ENTER_IS_CONSTANT].i);
}

static int64_t wrap(int64_t i, int64_t n) { return i < 0 ? i + n : i; }
static int64_t clamp(int64_t i, int64_t low, int64_t high) { return i < low ? low : i > high ? high : i; }

/* Of a vector `v` (known or not): elements begin, begin + step, … of a StridedSlice with at most one dimension. False
 * when it is not that simple. `count` -1: a single element was taken. */
static bool strided(df_output o, int32_t n, int64_t *begin, int64_t *step, int64_t *count) {
  const df_tensor *b = constant(o.node->in[1]), *e = constant(o.node->in[2]), *s = constant(o.node->in[3]);
  if (!b || !e || !s || b->size != 1 || e->size != 1 || s->size != 1) return false;
  if (attr(o, "ellipsis_mask") || attr(o, "new_axis_mask")) return false;
  *step = df_tensor_get_int(s, 0);
  if (*step == 0) return false;
  *begin = wrap(df_tensor_get_int(b, 0), n);
  if (attr(o, "shrink_axis_mask") & 1) {
    *count = -1;
    return *begin >= 0 && *begin < n;
  }
  int64_t low = *step > 0 ? 0 : -1, high = *step > 0 ? n : n - 1;
  int64_t end = attr(o, "end_mask") & 1 ? (*step > 0 ? n : -1) : clamp(wrap(df_tensor_get_int(e, 0), n), low, high);
  *begin = attr(o, "begin_mask") & 1 ? (*step > 0 ? 0 : n - 1) : clamp(*begin, low, high);
  *count = (end - *begin + *step + (*step > 0 ? -1 : 1)) / *step;
  if (*count < 0) *count = 0;
  return true;
}

/* A single whole number; -1 when it is not known. */
static int64_t one(df_output o, int32_t depth) {
  const df_tensor *t = constant(o);
  if (t) return t->size == 1 ? df_tensor_get_int(t, 0) : -1;
  if (depth > DEEPEST) return -1;
  if (passes(o)) return one(o.node->in[0], depth + 1);
  if (is(o, "StridedSlice")) {
    dfi_shape v = partly(o.node->in[0], depth + 1);
    int64_t begin, step, count;
    if (v.rank > 0 && strided(o, v.rank, &begin, &step, &count) && count == -1) return v.dims[begin];
  } else if (is(o, "GatherV2")) {
    dfi_shape v = partly(o.node->in[0], depth + 1);
    int64_t i = v.rank > 0 ? one(o.node->in[1], depth + 1) : -1;
    if (i >= 0 && i < v.rank) return v.dims[i];
  } else if (is(o, "Reshape") || is(o, "Squeeze") || is(o, "ExpandDims")) {
    dfi_shape v = partly(o.node->in[0], depth + 1);
    if (v.rank == 1) return v.dims[0];
    if (dfi_shape_at(o.node->in[0])->rank == 0) return one(o.node->in[0], depth + 1);
  }
  return -1;
}

/* A vector of n elements of which nothing is known. */
static dfi_shape unknown_elements(int32_t n) {
  dfi_shape r = dfi_shape_unknown();
  r.rank = (int8_t)n;
  for (int32_t i = 0; i < n; i++) r.dims[i] = -1;
  return r;
}

static dfi_shape of_constant(const df_tensor *t) {
  if (t->rank > 1 || t->size > DF_MAX_RANK || (t->dtype != DF_INT32 && t->dtype != DF_INT64))
    return dfi_shape_unknown();
  dfi_shape r = unknown_elements((int32_t)t->size);
  for (int32_t i = 0; i < r.rank; i++) {
    const int64_t d = df_tensor_get_int(t, i);
    r.dims[i] = d < 0 ? -1 : d;
  }
  return r;
}

/* One element of each of the first n inputs. */
static dfi_shape of_scalars(const df_node *node, int32_t n, int32_t depth) {
  dfi_shape r = unknown_elements(n);
  for (int32_t i = 0; i < n; i++) {
    const int64_t d = one(node->in[i], depth + 1);
    r.dims[i] = d < 0 ? -1 : d;
  }
  return r;
}

static dfi_shape of_concat(const df_node *n, int32_t depth) {
  dfi_shape r = unknown_elements(0);
  for (int32_t i = 0; i < n->nin - 1; i++) {
    const dfi_shape v = partly(n->in[i], depth + 1);
    if (v.rank < 0 || r.rank + v.rank > DF_MAX_RANK) return dfi_shape_unknown();
    memcpy(r.dims + r.rank, v.dims, sizeof *v.dims * (size_t)v.rank);
    r.rank = (int8_t)(r.rank + v.rank);
  }
  return r;
}

static dfi_shape of_strided_slice(df_output o, int32_t depth) {
  const dfi_shape v = partly(o.node->in[0], depth + 1);
  int64_t begin, step, count;
  if (v.rank < 0 || !strided(o, v.rank, &begin, &step, &count) || count < 0) return dfi_shape_unknown();
  dfi_shape r = unknown_elements((int32_t)count);
  for (int32_t i = 0; i < r.rank; i++) r.dims[i] = v.dims[begin + i * step];
  return r;
}

static dfi_shape of_slice(const df_node *n, int32_t depth) {
  const dfi_shape v = partly(n->in[0], depth + 1);
  const int64_t begin = v.rank >= 0 ? one(n->in[1], depth + 1) : -1;
  const df_tensor *size = constant(n->in[2]);
  if (begin < 0 || !size || size->size != 1) return dfi_shape_unknown();
  int64_t count = df_tensor_get_int(size, 0);
  if (count < 0) count = v.rank - begin;
  if (count < 0 || begin + count > v.rank) return dfi_shape_unknown();
  dfi_shape r = unknown_elements((int32_t)count);
  memcpy(r.dims, v.dims + begin, sizeof *v.dims * (size_t)count);
  return r;
}

/* What is known of the elements of a vector, as a shape: of unknown rank where not even their number is. */
static dfi_shape partly(df_output o, int32_t depth) {
  const dfi_shape *s = dfi_shape_at(o);
  if (constant(o)) return of_constant(constant(o));
  dfi_shape r = dfi_shape_unknown();
  if (depth <= DEEPEST) {
    const df_node *n = o.node;
    if (passes(o)) return partly(n->in[0], depth + 1);
    if (is(o, "Shape") || is(o, "ShapeN")) return *dfi_shape_at(n->in[o.index]);
    if (is(o, "Pack") && n->nin <= DF_MAX_RANK && dfi_shape_at(n->in[0])->rank == 0)
      return of_scalars(n, n->nin, depth);
    if (is(o, "ConcatV2")) r = of_concat(n, depth);
    else if (is(o, "StridedSlice")) r = of_strided_slice(o, depth);
    else if (is(o, "Slice")) r = of_slice(n, depth);
    else if ((is(o, "ExpandDims") || is(o, "Reshape")) && s->rank == 1 && s->dims[0] == 1)
      return of_scalars(n, 1, depth);
  }
  if (r.rank < 0 && s->rank == 1 && s->dims[0] >= 0 && s->dims[0] <= DF_MAX_RANK)
    return unknown_elements((int32_t)s->dims[0]);
  return r;
}

dfi_shape dfi_in_as_shape(const dfi_infer *c, int32_t i) { return partly(c->node->in[i], 0); }

int32_t dfi_shapes_count(const df_attr *a) {
  int32_t n = 0;
  for (int64_t i = 0; i < a->i; i += 1 + (a->ints[i] > 0 ? a->ints[i] : 0)) n++;
  return n;
}

dfi_shape dfi_shapes_at(const df_attr *a, int32_t i) {
  int64_t at = 0;
  for (; i > 0 && at < a->i; i--) at += 1 + (a->ints[at] > 0 ? a->ints[at] : 0);
  if (at >= a->i) return dfi_shape_unknown();          /* the list is shorter */
  return dfi_shape_of((int32_t)a->ints[at], a->ints + at + 1);
}

/* ---- ready-made ------------------------------------------------------------------------------ */

int32_t dfi_shape_same(dfi_infer *c) {
  for (int32_t i = 0; i < c->node->nout && c->node->nin; i++) {
    const df_output from = c->node->in[0];
    *dfi_set_shape(c, i) = *dfi_in_shape(c, 0);
    if (c->node->out[i].dtype == DF_RESOURCE) c->node->out[i].of = from.node->out[from.index].of;
  }
  return DF_OK;
}

static int32_t fail_broadcast(dfi_infer *c, int32_t n) {
  char a[160], b[160], d[160];
  dfi_typed_shape_text(dfi_in_dtype(c, 0), dfi_in_shape(c, 0), a);
  dfi_typed_shape_text(dfi_in_dtype(c, 1), dfi_in_shape(c, 1), b);
  if (n == 2) return dfi_infer_fail(c, "shapes cannot be broadcast: %s and %s", a, b);
  dfi_typed_shape_text(dfi_in_dtype(c, 2), dfi_in_shape(c, 2), d);
  return dfi_infer_fail(c, "shapes cannot be broadcast: %s, %s and %s", a, b, d);
}

int32_t dfi_shape_binary(dfi_infer *c) {
  return dfi_shape_broadcast(dfi_in_shape(c, 0), dfi_in_shape(c, 1), dfi_set_shape(c, 0)) ? DF_OK
                                                                                          : fail_broadcast(c, 2);
}

int32_t dfi_shape_equality(dfi_infer *c) {
  dfi_shape s;
  if (c->node->attrs[0].i) return dfi_shape_binary(c);
  if (dfi_shape_known(dfi_in_shape(c, 0)) && dfi_shape_known(dfi_in_shape(c, 1)))
    *dfi_set_shape(c, 0) = dfi_shape_broadcast(dfi_in_shape(c, 0), dfi_in_shape(c, 1), &s) ? s : dfi_shape_scalar();
  return DF_OK;
}

int32_t dfi_shape_ternary(dfi_infer *c) {
  dfi_shape s;
  if (dfi_shape_broadcast(dfi_in_shape(c, 0), dfi_in_shape(c, 1), &s) &&
      dfi_shape_broadcast(&s, dfi_in_shape(c, 2), dfi_set_shape(c, 0)))
    return DF_OK;
  return fail_broadcast(c, 3);
}

int32_t dfi_shape_all_scalar(dfi_infer *c) {
  for (int32_t i = 0; i < c->node->nout; i++) *dfi_set_shape(c, i) = dfi_shape_scalar();
  return DF_OK;
}

/* ---- once more, when it runs ----------------------------------------------------------------------------- */

/* A node that gives t, as a Const would. */
static void stand_in(df_node *x, dfi_out *out, const df_node *n, const dfi_op_info *constant, const df_tensor *t) {
  *out = (dfi_out){ .dtype = t->dtype, .shape = dfi_shape_of(t->rank, t->dims),
                    .constant = dfi_readable(t) ? (df_tensor *)t : NULL };
  *x = (df_node){ .op = constant->id, .nout = 1, .out = out, .attrs = constant->defaults, .context = n->context,
                  .where = "", .name = "", .scope = "", .device = "", .graph = n->graph };
}

bool dfi_infer_refuses(const df_node *n, const df_tensor *const *in, df_error *err) {
  const dfi_op_info *o = dfi_op_info_at(n->op), *constant = dfi_op_find("Const");
  if ((!o->op->shape && !o->op->check) || o->op->stateful || !constant) return false;
  for (int32_t i = 0; i < n->nin; i++) if (!in[i]) return false;
  const size_t inputs = (size_t)n->nin + 1, outputs = (size_t)n->nout + 1;
  df_node *from = dfi_xcalloc(inputs, sizeof *from), again = *n;
  dfi_out *given = dfi_xcalloc(inputs, sizeof *given), *out = dfi_xcalloc(outputs, sizeof *out);
  df_output *at = dfi_xcalloc(inputs, sizeof *at);
  for (int32_t i = 0; i < n->nin; i++) {
    stand_in(&from[i], &given[i], n, constant, in[i]);
    at[i] = (df_output){ &from[i], 0 };
  }
  for (int32_t i = 0; i < n->nout; i++)
    out[i] = (dfi_out){ .dtype = n->out[i].dtype, .of = n->out[i].of, .shape.rank = -1 };
  again.in = at;
  again.out = out;
  df_error said = { 0 };
  dfi_infer c = { n->graph, &again, &said };
  int32_t code = o->op->shape ? o->op->shape(&c) : DF_OK;
  if (!code && o->op->check) code = o->op->check(&c);
  for (int32_t i = 0; i < n->nout; i++) df_tensor_release(out[i].constant);
  dfi_free(from); dfi_free(given); dfi_free(out); dfi_free(at);
  if (code != DF_INVALID_ARGUMENT) return false;
  const size_t type = strlen(o->op->type);
  const bool prefixed = !strncmp(said.message, o->op->type, type) && !strncmp(said.message + type, ": ", 2);
  snprintf(err->message, sizeof err->message, "%s", said.message + (prefixed ? type + 2 : 0));
  return true;
}
