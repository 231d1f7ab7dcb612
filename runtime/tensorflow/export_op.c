/* export_op.c: ops that TensorFlow has in other words.
 *
 * Each becomes a few nodes under its own name, `x/max`, `x/log`, …; the last one has the name itself. Small constants
 * hang on the context.
 */
#include "tensorflow/export.h"
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* ---- a few words --------------------------------------------------------------------------------------------- */

static const char *own(dfi_export *e) { return e->name[e->current->id]; }
static const char *in(dfi_export *e, int32_t i) { return dfi_export_ref(e, e->current->in[i]); }
static uint8_t type_in(dfi_export *e, int32_t i) { return dfi_dtype(e->current->in[i]); }
static const dfi_shape *shape_in(dfi_export *e, int32_t i) { return dfi_shape_at(e->current->in[i]); }

/* A node under the current one; word NULL: the node itself, with its control edges. */
static Pb__NodeDef *put(dfi_export *e, const char *type, const char *word, int32_t n, ...) {
  Pb__NodeDef *def = dfi_export_node(e, type, word ? dfi_export_name(e, "%s/%s", own(e), word) : own(e), 1);
  va_list args;
  va_start(args, n);
  for (int32_t i = 0; i < n; i++) dfi_lower_input(&e->l, def, va_arg(args, const char *));
  va_end(args);
  if (!word) dfi_export_controls(e, def);
  return def;
}

/* The same with the attribute T. */
static Pb__NodeDef *put_t(dfi_export *e, const char *type, const char *word, uint8_t t, int32_t n, const char *a,
                          const char *b, const char *c) {
  const char *input[3] = { a, b, c };
  Pb__NodeDef *def = put(e, type, word, 0);
  size_t controls = def->n_input;
  for (int32_t i = 0; i < n; i++) dfi_lower_input(&e->l, def, input[i]);
  if (controls) {                                     /* control edges come last */
    char **all = dfi_arena_take(&e->d->arena, sizeof *all * def->n_input);
    memcpy(all, def->input + controls, sizeof *all * (size_t)n);
    memcpy(all + n, def->input, sizeof *all * controls);
    memcpy(def->input, all, sizeof *all * def->n_input);
  }
  dfi_lower_type(&e->l, def, "T", t);
  return def;
}
static const char *one(dfi_export *e, const char *type, const char *word, uint8_t t, const char *a) {
  return put_t(e, type, word, t, 1, a, NULL, NULL)->name;
}
static const char *two(dfi_export *e, const char *type, const char *word, uint8_t t, const char *a, const char *b) {
  return put_t(e, type, word, t, 2, a, b, NULL)->name;
}
static const char *reduce(dfi_export *e, const char *type, const char *word, uint8_t t, uint8_t tidx, const char *x,
                          const char *axes, bool keep) {
  Pb__NodeDef *n = put_t(e, type, word, t, 2, x, axes, NULL);
  dfi_lower_type(&e->l, n, "Tidx", tidx);
  dfi_lower_bool(&e->l, n, "keep_dims", keep);
  return n->name;
}
static const char *shape_of(dfi_export *e, const char *word, uint8_t t, const char *x, uint8_t out) {
  Pb__NodeDef *n = put_t(e, "Shape", word, t, 1, x, NULL, NULL);
  dfi_lower_type(&e->l, n, "out_type", out);
  return n->name;
}
static const char *reshape(dfi_export *e, const char *word, uint8_t t, const char *x, const char *shape,
                           uint8_t tshape) {
  Pb__NodeDef *n = put_t(e, "Reshape", word, t, 2, x, shape, NULL);
  dfi_lower_type(&e->l, n, "Tshape", tshape);
  return n->name;
}
static const char *cast(dfi_export *e, const char *word, const char *x, uint8_t from, uint8_t to) {
  if (from == to && word) return x;
  Pb__NodeDef *n = put(e, "Cast", word, 0);
  dfi_lower_input(&e->l, n, x);
  dfi_lower_type(&e->l, n, "SrcT", from);
  dfi_lower_type(&e->l, n, "DstT", to);
  return n->name;
}
static const char *number(dfi_export *e, const char *word, uint8_t t, double v) {
  return dfi_export_number(e, dfi_export_name(e, "%s/%s", own(e), word), t, v);
}
static const char *ints(dfi_export *e, const char *word, int32_t n, const int64_t *v) {
  return dfi_export_ints(e, dfi_export_name(e, "%s/%s", own(e), word), DF_INT32, 1, n, v);
}
static const char *gather(dfi_export *e, const char *word, uint8_t t, const char *x, const char *indices, uint8_t ti,
                          int64_t axis, int64_t batch) {
  const char *at = number(e, "axis", DF_INT32, (double)axis);
  Pb__NodeDef *n = put(e, "GatherV2", word, 3, x, indices, at);
  dfi_lower_type(&e->l, n, "Tparams", t);
  dfi_lower_type(&e->l, n, "Tindices", ti);
  dfi_lower_type(&e->l, n, "Taxis", DF_INT32);
  dfi_lower_int(&e->l, n, "batch_dims", batch);
  return n->name;
}

/* ---- state ------------------------------------------------------------------------------------------------------ */

/* An assignment has no output in TensorFlow: the new value is a read that waits for it. */
static void assignment(dfi_export *e) {
  const df_node *n = e->current;
  const char *done = dfi_export_name(e, "%s/update", own(e));
  size_t at = e->l.n;
  dfi_export_plain(e, dfi_op_info_at(n->op)->op->type, done);
  e->place[e->l.n - 1].outputs = 0;
  if (e->l.n == at) return;
  Pb__NodeDef *read = dfi_export_node(e, "ReadVariableOp", own(e), 1);
  dfi_lower_input(&e->l, read, in(e, 0));
  dfi_lower_input(&e->l, read, dfi_lower_text(&e->l, "^%s", done));
  dfi_lower_type(&e->l, read, "dtype", n->out[0].dtype);
}

/* Variables without a shared name are TensorFlow's by the names of their nodes here, but all the same one there. */
static void variable(dfi_export *e) {
  const df_node *n = e->current;
  const dfi_op_info *o = dfi_op_info_at(n->op);
  const df_attr *shape = &n->attrs[dfi_op_attr_index(o, "shape")],
                *shared = &n->attrs[dfi_op_attr_index(o, "shared_name")];
  Pb__NodeDef *def = dfi_export_node(e, "VarHandleOp", own(e), 1);
  dfi_export_controls(e, def);
  dfi_lower_type(&e->l, def, "dtype", (int32_t)n->attrs[dfi_op_attr_index(o, "dtype")].i);
  dfi_export_shape(e, def, "shape", (int32_t)shape->i, shape->ints);
  dfi_lower_string(&e->l, def, "shared_name", shared->i ? shared->s : own(e));
  dfi_lower_string(&e->l, def, "container", n->attrs[dfi_op_attr_index(o, "container")].s);
}

/* A message of ours is one of the values that TensorFlow shows. */
static void assertion(dfi_export *e) {
  const df_node *n = e->current;
  const dfi_op_info *o = dfi_op_info_at(n->op);
  const df_attr *message = &n->attrs[dfi_op_attr_index(o, "message")],
                *summarize = &n->attrs[dfi_op_attr_index(o, "summarize")];
  const char *text = NULL;
  if (message->i || n->nin == 1) {
    text = dfi_export_name(e, "%s/message", own(e));
    Pb__NodeDef *c = dfi_export_node(e, "Const", text, 1);
    df_tensor *t = df_tensor_new(DF_STRING, 0, NULL, NULL);
    if (message->i) df_tensor_set_string(t, 0, message->s, message->i, NULL);
    dfi_export_hang(e, c);
    dfi_lower_type(&e->l, c, "dtype", DF_STRING);
    dfi_export_tensor(e, c, "value", t);
    df_tensor_release(t);
  }
  Pb__NodeDef *def = dfi_export_node(e, "Assert", own(e), 0);
  Pb__AttrValue__ListValue *list = dfi_arena_take(&e->d->arena, sizeof *list);
  pb__attr_value__list_value__init(list);
  list->type = dfi_arena_take(&e->d->arena, sizeof *list->type * (size_t)(n->nin + 1));
  dfi_lower_input(&e->l, def, in(e, 0));
  if (text) {
    dfi_lower_input(&e->l, def, text);
    list->type[list->n_type++] = PB__DATA_TYPE__DT_STRING;
  }
  for (int32_t i = 1; i < n->nin; i++) {
    dfi_lower_input(&e->l, def, in(e, i));
    list->type[list->n_type++] = (Pb__DataType)type_in(e, i);
  }
  dfi_export_controls(e, def);
  Pb__AttrValue *types = dfi_lower_attr(&e->l, def, "T");
  types->value_case = PB__ATTR_VALUE__VALUE_LIST;
  types->list = list;
  dfi_lower_int(&e->l, def, "summarize", summarize->i);
}

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

static void logical_xor(dfi_export *e) { two(e, "NotEqual", NULL, DF_BOOL, in(e, 0), in(e, 1)); }

static void log_sum_exp(dfi_export *e) {
  const df_node *n = e->current;
  uint8_t t = type_in(e, 0), tidx = type_in(e, 1);
  bool keep = n->attrs[0].i != 0;
  const char *x = in(e, 0), *axes = in(e, 1);
  const char *most = reduce(e, "Max", "max", t, tidx, x, axes, true);
  const char *finite = one(e, "IsFinite", "is_finite", t, most);
  const char *shift = put_t(e, "Select", "shift", t, 3, finite, most, one(e, "ZerosLike", "zeros", t, most))->name;
  const char *still = one(e, "StopGradient", "stop", t, shift);
  const char *sum =
      reduce(e, "Sum", "sum", t, tidx, one(e, "Exp", "exp", t, two(e, "Sub", "sub", t, x, still)), axes, keep);
  const char *log = one(e, "Log", "log", t, sum);
  if (!keep) still = reshape(e, "flat", t, still, shape_of(e, "shape", t, log, DF_INT32), DF_INT32);
  two(e, "AddV2", NULL, t, log, still);
}

static void sum_to_shape(dfi_export *e) {
  uint8_t t = type_in(e, 0), i = type_in(e, 1);
  const char *shape = in(e, 1);
  Pb__NodeDef *axes =
      put_t(e, "BroadcastGradientArgs", "axes", i, 2, shape, shape_of(e, "shape", t, in(e, 0), i), NULL);
  e->place[e->l.n - 1].outputs = 2;
  reshape(e, NULL, t, reduce(e, "Sum", "sum", t, i, in(e, 0), axes->name, false), shape, i);
}

/* Axes as int32[n] from 0 on, and the rank. */
static const char *plain_axes(dfi_export *e, const char *shape, uint8_t tshape, const char **rank) {
  const char *axes = cast(e, "axes", in(e, 1), type_in(e, 1), DF_INT32);
  Pb__NodeDef *size = put_t(e, "Size", "rank", tshape, 1, shape, NULL, NULL);
  dfi_lower_type(&e->l, size, "out_type", DF_INT32);
  *rank = size->name;
  axes = reshape(e, "list", DF_INT32, axes, ints(e, "any", 1, (int64_t[]){ -1 }), DF_INT32);
  return two(e, "FloorMod", "positive", DF_INT32, two(e, "AddV2", "up", DF_INT32, axes, *rank), *rank);
}

static void reduced_shape(dfi_export *e) {
  uint8_t t = type_in(e, 0);
  const char *rank, *axes = plain_axes(e, in(e, 0), t, &rank);
  Pb__NodeDef *all = put(e, "Range", "all", 3, number(e, "zero", DF_INT32, 0), rank, number(e, "one", DF_INT32, 1));
  dfi_lower_type(&e->l, all, "Tidx", DF_INT32);
  Pb__NodeDef *ones =
      put(e, "Fill", "ones", 2, shape_of(e, "count", DF_INT32, axes, DF_INT32), number(e, "unit", t, 1));
  dfi_lower_type(&e->l, ones, "T", t);
  dfi_lower_type(&e->l, ones, "index_type", DF_INT32);
  Pb__NodeDef *stitch = put_t(e, "DynamicStitch", "stitch", t, 3, all->name, axes, in(e, 0));
  dfi_lower_input(&e->l, stitch, ones->name);
  dfi_lower_int(&e->l, stitch, "N", 2);
  one(e, "Identity", NULL, t, stitch->name);
}

static void reduced_count(dfi_export *e) {
  uint8_t t = type_in(e, 0);
  const char *rank, *axes = plain_axes(e, in(e, 0), t, &rank);
  const char *dims = gather(e, "dims", t, in(e, 0), axes, DF_INT32, 0, 0);
  const char *all = reduce(e, "Prod", "product", t, DF_INT32, dims, ints(e, "first", 1, (int64_t[]){ 0 }), false);
  cast(e, NULL, all, t, DF_INT64);
}

/* ---- indices ----------------------------------------------------------------------------------------------------- */

static bool constant_int(const df_output o, int64_t *v) {
  const df_tensor *t = o.node->out[o.index].constant;
  if (!t || t->size != 1) return false;
  *v = t->dtype == DF_INT64 ? *(const int64_t *)t->data : *(const int32_t *)t->data;
  return true;
}

static const char *transposed(dfi_export *e, const char *word, uint8_t t, const char *x, int32_t n,
                              const int64_t *order) {
  Pb__NodeDef *p = put_t(e, "Transpose", word, t, 2, x, ints(e, "order", n, order), NULL);
  dfi_lower_type(&e->l, p, "Tperm", DF_INT32);
  return p->name;
}

/* Rows of dy are summed by segments; an axis that is not the first is brought there and back. */
static void gather_grad(dfi_export *e) {
  const df_node *n = e->current;
  uint8_t t = type_in(e, 3), ti = type_in(e, 1), ts = type_in(e, 0);
  int64_t axis;
  int32_t rank = n->out[0].shape.rank, inner = shape_in(e, 1)->rank;
  if (rank < 0 && shape_in(e, 0)->rank == 1) rank = (int32_t)shape_in(e, 0)->dims[0];
  if (n->attrs[0].i) { dfi_export_refuse(e, "its indices have batch dimensions"); return; }
  if (!constant_int(n->in[2], &axis) || (axis && (rank < 0 || inner < 0))) {
    dfi_export_refuse(e, "its axis or its ranks are not known before it runs");
    return;
  }
  if (axis < 0) axis += rank;
  const char *dy = in(e, 3),
             *rows = gather(e, "rows", ts, in(e, 0), number(e, "at", DF_INT32, (double)axis), DF_INT32, 0, 0);
  int64_t there[2 * DF_MAX_RANK], back[DF_MAX_RANK];
  int32_t all = rank - 1 + inner, k = 0;
  if (axis) {
    if (all > 2 * DF_MAX_RANK || rank > DF_MAX_RANK) { dfi_export_refuse(e, "its rank is too high"); return; }
    for (int32_t i = 0; i < inner; i++) there[k++] = axis + i;
    for (int32_t i = 0; i < all; i++) if (i < axis || i >= axis + inner) there[k++] = i;
    for (int32_t i = 0; i < rank; i++) back[i] = i < axis ? i + 1 : i == axis ? 0 : i;
    dy = transposed(e, "turned", t, dy, all, there);
  }
  Pb__NodeDef *sum = put_t(e, "UnsortedSegmentSum", "sum", t, 3, dy, in(e, 1), rows);
  dfi_lower_type(&e->l, sum, "Tindices", ti);
  dfi_lower_type(&e->l, sum, "Tnumsegments", ts);
  const char *result = axis ? transposed(e, "back", t, sum->name, rank, back) : sum->name;
  reshape(e, NULL, t, result, in(e, 0), ts);
}

static void take_along(dfi_export *e) {
  int32_t rank = shape_in(e, 0)->rank;
  if (rank < 1) dfi_export_refuse(e, "its rank is not known before it runs");
  else gather(e, NULL, type_in(e, 0), in(e, 0), in(e, 1), type_in(e, 1), rank - 1, rank - 1);
}

static void put_along(dfi_export *e) {
  uint8_t t = type_in(e, 0), ti = type_in(e, 1);
  Pb__NodeDef *hot = put_t(e, "OneHot", "places", t, 3, in(e, 1), in(e, 2), number(e, "on", t, 1));
  dfi_lower_input(&e->l, hot, number(e, "off", t, 0));
  dfi_lower_type(&e->l, hot, "TI", ti);
  const char *last = number(e, "last", DF_INT32, -1);
  Pb__NodeDef *wide = put_t(e, "ExpandDims", "column", t, 2, in(e, 0), last, NULL);
  dfi_lower_type(&e->l, wide, "Tdim", DF_INT32);
  const char *both = two(e, "Mul", "spread", t, hot->name, wide->name);
  reduce(e, "Sum", NULL, t, DF_INT32, both, number(e, "second", DF_INT32, -2), false);
}

/* mask, one per index, with ones after it so that it chooses among slices of x. */
static const char *mask_rows(dfi_export *e, const char *mask, uint8_t ti, const char *indices, int32_t inner,
                             int32_t rank) {
  int64_t ones[DF_MAX_RANK];
  int32_t more = rank - inner;
  for (int32_t i = 0; i < more; i++) ones[i] = 1;
  if (more <= 0) return mask;
  const char *shape = shape_of(e, "mask_shape", ti, indices, DF_INT32), *rest = ints(e, "mask_rest", more, ones);
  Pb__NodeDef *n = put_t(e, "ConcatV2", "mask_all", DF_INT32, 3, shape, rest, number(e, "mask_axis", DF_INT32, 0));
  dfi_lower_int(&e->l, n, "N", 2);
  dfi_lower_type(&e->l, n, "Tidx", DF_INT32);
  return reshape(e, "mask_rows", DF_BOOL, mask, n->name, DF_INT32);
}

static void segment_gather(dfi_export *e) {
  uint8_t t = type_in(e, 0), ti = type_in(e, 1);
  int32_t inner = shape_in(e, 1)->rank, rank = e->current->out[0].shape.rank;
  if (inner < 0 || rank < 0) { dfi_export_refuse(e, "its ranks are not known before it runs"); return; }
  const char *zero = number(e, "zero", ti, 0), *ids = in(e, 1);
  const char *rows = gather(e, "rows", t, in(e, 0), two(e, "Maximum", "ids", ti, ids, zero), ti, 0, 0);
  const char *mask = mask_rows(e, two(e, "GreaterEqual", "there", ti, ids, zero), ti, ids, inner, rank);
  put_t(e, "SelectV2", NULL, t, 3, mask, rows, one(e, "ZerosLike", "zeros", t, rows));
}

/* The node as IdentityN of n values, of the types of `from` or all of type t. */
static void pass(dfi_export *e, int32_t n, const char **input, const df_output *from, uint8_t t) {
  Pb__NodeDef *def = dfi_export_node(e, "IdentityN", own(e), n);
  Pb__AttrValue__ListValue *list = dfi_arena_take(&e->d->arena, sizeof *list);
  pb__attr_value__list_value__init(list);
  list->type = dfi_arena_take(&e->d->arena, sizeof *list->type * (size_t)(n + 1));
  for (int32_t i = 0; i < n; i++) {
    dfi_lower_input(&e->l, def, input[i]);
    list->type[list->n_type++] = (Pb__DataType)(from ? dfi_dtype(from[i]) : t);
  }
  dfi_export_controls(e, def);
  Pb__AttrValue *types = dfi_lower_attr(&e->l, def, "T");
  types->value_case = PB__ATTR_VALUE__VALUE_LIST;
  types->list = list;
}

/* Rows of dy where a list's row came last, zeros where a later one overwrote it: the last write is found by stitching
   numbers. */
static void stitch_grad(dfi_export *e) {
  const df_node *n = e->current;
  int32_t lists = n->nout, dy = n->nin - 1, rank = shape_in(e, dy)->rank;
  uint8_t t = type_in(e, dy);
  for (int32_t i = 0; i < lists; i++)
    if (rank < 1 || dfi_shape_size(shape_in(e, i)) < 0) {
      dfi_export_refuse(e, "its shapes are not known before it runs");
      return;
    }
  const char **number_of = dfi_arena_take(&e->d->arena, sizeof *number_of * (size_t)lists);
  int64_t at = 0;
  for (int32_t i = 0; i < lists; i++) {
    int64_t size = dfi_shape_size(shape_in(e, i)), *v = dfi_arena_take(&e->d->arena, sizeof *v * (size_t)(size + 1));
    for (int64_t k = 0; k < size; k++) v[k] = at++;
    const char *flat = ints(e, dfi_lower_text(&e->l, "numbers_%d", i), (int32_t)size, v);
    number_of[i] = reshape(e, dfi_lower_text(&e->l, "number_%d", i), DF_INT32, flat,
                           shape_of(e, dfi_lower_text(&e->l, "shape_%d", i), DF_INT32, in(e, i), DF_INT32), DF_INT32);
  }
  Pb__NodeDef *last = put_t(e, "DynamicStitch", "last", DF_INT32, 0, NULL, NULL, NULL);
  for (int32_t i = 0; i < lists; i++) dfi_lower_input(&e->l, last, in(e, i));
  for (int32_t i = 0; i < lists; i++) dfi_lower_input(&e->l, last, number_of[i]);
  dfi_lower_int(&e->l, last, "N", lists);
  const char **part = dfi_arena_take(&e->d->arena, sizeof *part * (size_t)lists);
  for (int32_t i = 0; i < lists; i++) {
    int32_t inner = shape_in(e, i)->rank;
    const char *rows = gather(e, "rows", t, in(e, dy), in(e, i), DF_INT32, 0, 0);
    const char *winner = gather(e, "winner", DF_INT32, last->name, in(e, i), DF_INT32, 0, 0);
    const char *mask = mask_rows(e, two(e, "Equal", "won", DF_INT32, winner, number_of[i]), DF_INT32, in(e, i), inner,
                                 inner + rank - 1);
    part[i] = put_t(e, "SelectV2", "part", t, 3, mask, rows, one(e, "ZerosLike", "zeros", t, rows))->name;
  }
  pass(e, lists, part, NULL, t);
}

/* As GatherNd, but of those that read one place only the last does: the greatest number that was scattered there. */
static void gather_nd_last(dfi_export *e) {
  uint8_t t = type_in(e, 0), ti = type_in(e, 1);
  const dfi_shape *at = shape_in(e, 1);
  const int64_t size = dfi_shape_size(at), depth = at->rank > 0 ? at->dims[at->rank - 1] : -1;
  const int32_t rank = e->current->out[0].shape.rank;
  if (size < 0 || depth <= 0 || rank < 0 || shape_in(e, 0)->rank < 0) {
    dfi_export_refuse(e, "its shapes are not known before it runs");
    return;
  }
  const int64_t rows = size / depth;
  int64_t *v = dfi_arena_take(&e->d->arena, sizeof *v * (size_t)(rows + 1)), dims[DF_MAX_RANK];
  for (int64_t k = 0; k < rows; k++) v[k] = k;
  for (int32_t d = 0; d < at->rank - 1; d++) dims[d] = at->dims[d];
  const char *numbers = reshape(e, "number", DF_INT32, ints(e, "numbers", (int32_t)rows, v),
                                ints(e, "rows", at->rank - 1, dims), DF_INT32);
  Pb__NodeDef *outer = put(e, "Slice", "outer", 3, shape_of(e, "shape", t, in(e, 0), DF_INT32),
                           ints(e, "first", 1, (int64_t[]){ 0 }), ints(e, "depth", 1, &depth));
  dfi_lower_type(&e->l, outer, "T", DF_INT32);
  dfi_lower_type(&e->l, outer, "Index", DF_INT32);
  Pb__NodeDef *none = put_t(e, "Fill", "none", DF_INT32, 2, outer->name, number(e, "minus", DF_INT32, -1), NULL);
  dfi_lower_type(&e->l, none, "index_type", DF_INT32);
  Pb__NodeDef *last = put(e, "TensorScatterMax", "last", 3, none->name, in(e, 1), numbers);
  dfi_lower_type(&e->l, last, "T", DF_INT32);
  dfi_lower_type(&e->l, last, "Tindices", ti);
  const char *read[2], *from[2] = { last->name, in(e, 0) };
  for (int32_t i = 0; i < 2; i++) {
    Pb__NodeDef *n = put(e, "GatherNd", i ? "all" : "winner", 2, from[i], in(e, 1));
    dfi_lower_type(&e->l, n, "Tparams", i ? t : DF_INT32);
    dfi_lower_type(&e->l, n, "Tindices", ti);
    read[i] = n->name;
  }
  const char *mask =
      mask_rows(e, two(e, "Equal", "won", DF_INT32, read[0], numbers), DF_INT32, numbers, at->rank - 1, rank);
  put_t(e, "SelectV2", NULL, t, 3, mask, read[1], one(e, "ZerosLike", "zeros", t, read[1]));
}

/* ---- scans ------------------------------------------------------------------------------------------------------- */

/* x, or x with its axes in that order; each use needs a word of its own. */
static const char *along(dfi_export *e, const char *word, int32_t i, const int64_t *order) {
  return order ? transposed(e, word, type_in(e, i), in(e, i), shape_in(e, 0)->rank, order) : in(e, i);
}

/* x as a column (axis -1) or as a row (-2) of its last axis. */
static const char *widened(dfi_export *e, const char *word, uint8_t t, const char *x, const char *axis) {
  Pb__NodeDef *wide = put_t(e, "ExpandDims", word, t, 2, x, axis, NULL);
  dfi_lower_type(&e->l, wide, "Tdim", DF_INT32);
  return wide->name;
}

/* The matrix of the products of x[j + 1] … x[i], of x as a column and as a row; 0 where j > i. */
static const char *product_matrix(dfi_export *e, uint8_t t, const char *column, const char *row) {
  const char *square = two(e, "AddV2", "square", t, column, one(e, "ZerosLike", "zeros", t, row));
  const char *ones = one(e, "OnesLike", "ones", t, square), *part[2];
  for (int32_t i = 0; i < 2; i++) {                    /* x below the diagonal, ones elsewhere */
    Pb__NodeDef *p = put(e, "MatrixBandPart", i ? "upper" : "lower_ones", 3, ones,
                         number(e, "low", DF_INT64, i ? 0 : -1), number(e, "high", DF_INT64, i ? -1 : 0));
    dfi_lower_type(&e->l, p, "T", t);
    dfi_lower_type(&e->l, p, "Tindex", DF_INT64);
    part[i] = p->name;
  }
  const char *above = two(e, "Greater", "above", t, part[1], one(e, "ZerosLike", "none", t, ones));
  const char *factors = put_t(e, "SelectV2", "factors", t, 3, above, ones, square)->name;
  Pb__NodeDef *products = put_t(e, "Cumprod", "products", t, 2, factors, number(e, "down", DF_INT32, -2), NULL);
  dfi_lower_type(&e->l, products, "Tidx", DF_INT32);
  return two(e, "Mul", "matrix", t, products->name, part[0]);
}

/* s one place on along the axis, back where `reverse`: a zero comes in, and the last goes. */
static const char *shifted(dfi_export *e, uint8_t t, const char *s, int32_t rank, int64_t axis, bool reverse) {
  int64_t pads[2 * DF_MAX_RANK] = { 0 }, begin[DF_MAX_RANK] = { 0 }, dims[2] = { rank, 2 };
  pads[2 * axis + reverse] = 1;
  begin[axis] = reverse;
  const char *paddings = dfi_export_name(e, "%s/paddings", own(e));
  df_tensor *table = df_tensor_new(DF_INT32, 2, dims, NULL);
  for (int32_t i = 0; i < 2 * rank; i++) df_tensor_set_int(table, i, pads[i]);
  Pb__NodeDef *padding = dfi_export_node(e, "Const", paddings, 1);
  dfi_export_hang(e, padding);
  dfi_lower_type(&e->l, padding, "dtype", DF_INT32);
  dfi_export_tensor(e, padding, "value", table);
  df_tensor_release(table);
  Pb__NodeDef *padded = put_t(e, "Pad", "padded", t, 2, s, paddings, NULL);
  dfi_lower_type(&e->l, padded, "Tpaddings", DF_INT32);
  Pb__NodeDef *beside =
      put(e, "Slice", "beside", 3, padded->name, ints(e, "begin", rank, begin), shape_of(e, "size", t, s, DF_INT32));
  dfi_lower_type(&e->l, beside, "T", t);
  dfi_lower_type(&e->l, beside, "Index", DF_INT32);
  return beside->name;
}

/* s and what stands beside it as products with the matrix of x[j + 1] … x[i], which is 0 where j > i. It has n x n
 * elements for an axis of n: TensorFlow has no scan of this kind but a loop, which its gradients would want to know. */
static void linear_recurrence(dfi_export *e) {
  const df_node *n = e->current;
  const uint8_t t = type_in(e, 0);
  const bool reverse = n->attrs[0].i != 0;
  const int32_t rank = shape_in(e, 0)->rank;
  int64_t axis, order[DF_MAX_RANK];
  if (rank < 1 || !constant_int(n->in[2], &axis)) {
    dfi_export_refuse(e, "its axis or its rank is not known before it runs");
    return;
  }
  if (dfi_is_complex(t) || t == DF_FLOAT16 || t == DF_BFLOAT16) {
    dfi_export_refuse(e, "it is of a dtype that TensorFlow has no such products for");
    return;
  }
  if (axis < 0) axis += rank;
  for (int32_t d = 0; d < rank; d++) order[d] = d;
  order[axis] = rank - 1;
  order[rank - 1] = axis;
  const int64_t *turn = axis != rank - 1 ? order : NULL;
  const char *last = number(e, "last", DF_INT32, -1);
  const char *x = widened(e, "x_column", t, along(e, "x", 0, turn), last);
  const char *d = widened(e, "d_column", t, along(e, "d", 1, turn), last);
  const char *row = widened(e, "row", t, along(e, "x_again", 0, turn), number(e, "second", DF_INT32, -2));
  Pb__NodeDef *product = put_t(e, "BatchMatMulV2", "product", t, 2, product_matrix(e, t, x, row), d, NULL);
  dfi_lower_bool(&e->l, product, "adj_x", reverse);
  const char *s = reshape(e, "sum", t, product->name,
                          shape_of(e, "shape", t, along(e, "like", 0, turn), DF_INT32), DF_INT32);
  if (turn) s = transposed(e, "s", t, s, rank, order);
  pass(e, 2, (const char *[]){ s, shifted(e, t, s, rank, axis, reverse) }, NULL, t);
}

/* ---- einsum ------------------------------------------------------------------------------------------------------ */

/* The labels of `a` and of `b` (may be NULL) that stand in the rest of the equation too, each once. */
static char *kept_labels(dfi_export *e, const char *a, size_t na, const char *b, size_t nb, const char *rest) {
  char *kept = dfi_lower_text(&e->l, "%*s", (int)(na + nb), "");
  size_t n = 0;
  for (size_t i = 0; i < na + nb; i++) {
    const char c = i < na ? a[i] : b[i - na];
    if (c != ' ' && strchr(rest, c) && !memchr(kept, c, n)) kept[n++] = c;
  }
  kept[n] = 0;
  return kept;
}

static void einsum_of(dfi_export *e, const char *word, const char *equation, const char *a, const char *b) {
  Pb__NodeDef *n = put_t(e, "Einsum", word, type_in(e, 0), b ? 2 : 1, a, b, NULL);
  dfi_lower_string(&e->l, n, "equation", equation);
  dfi_lower_int(&e->l, n, "N", b ? 2 : 1);
}

/* What an equation without an arrow gives: the labels that stand in it once, in their order. */
static char *implied_labels(dfi_export *e, const char *equation) {
  char *labels = dfi_lower_text(&e->l, "%*s", CHAR_MAX + 1, "");
  size_t n = 0;
  for (int c = 'A'; c <= 'z'; c++) {
    const char *once = isalpha(c) ? strchr(equation, c) : NULL;
    if (once && !strchr(once + 1, c)) labels[n++] = (char)c;
  }
  labels[n] = 0;
  return labels;
}

/* TensorFlow's op takes two operands at most: more are a chain. */
static void einsum(dfi_export *e) {
  const df_node *n = e->current;
  const char *equation = n->attrs[dfi_op_attr_index(dfi_op_info_at(n->op), "equation")].s,
             *arrow = strstr(equation, "->");
  const char *result = arrow ? arrow + 2 : implied_labels(e, equation);
  if (n->nin <= 2) {
    const char *batch = strstr(equation, "...") ? "..." : "";
    if (!arrow) equation = dfi_lower_text(&e->l, "%s->%s%s", equation, batch, result);
    einsum_of(e, NULL, equation, in(e, 0), n->nin > 1 ? in(e, 1) : NULL);
    return;
  }
  if (strstr(equation, "...")) {
    dfi_export_refuse(e, "TensorFlow's op takes two operands, and an equation with `...` has no plain chain");
    return;
  }
  const char *have = in(e, 0), *at = equation, *labels = at;
  size_t length = strcspn(at, ",-");
  at += length + 1;
  for (int32_t i = 1; i < n->nin; i++) {
    const size_t next = strcspn(at, ",-");
    const bool last = i == n->nin - 1;
    const char *rest = last ? result : dfi_lower_text(&e->l, "%s%s", at + next, arrow ? "" : result);
    const char *to = last ? result : kept_labels(e, labels, length, at, next, rest);
    const char *step = dfi_lower_text(&e->l, "%.*s,%.*s->%s", (int)length, labels, (int)next, at, to);
    const char *name = last ? NULL : dfi_lower_text(&e->l, "step_%d", i);
    einsum_of(e, name, step, have, in(e, i));
    have = e->l.node[e->l.n - 1]->name;
    labels = to;
    length = strlen(to);
    at += next + 1;
  }
}

/* ---- what stands for something else ------------------------------------------------------------------------------ */

static void custom_gradient(dfi_export *e) {
  const df_node *n = e->current;
  int32_t first = (int32_t)n->attrs[0].i, count = n->nin - first;
  const char **input = dfi_arena_take(&e->d->arena, sizeof *input * (size_t)(count + 1));
  for (int32_t i = 0; i < count; i++) input[i] = in(e, first + i);
  pass(e, count, input, n->in + first, DF_INVALID);
}

static void top_k(dfi_export *e) {
  const df_node *n = e->current;
  const dfi_op_info *o = dfi_op_info_at(n->op);
  const char *k = number(e, "k", DF_INT32, (double)n->attrs[dfi_op_attr_index(o, "k")].i);
  Pb__NodeDef *def = put_t(e, "TopKV2", NULL, type_in(e, 0), 2, in(e, 0), k, NULL);
  e->place[e->l.n - 1].outputs = 2;
  dfi_lower_bool(&e->l, def, "sorted", n->attrs[dfi_op_attr_index(o, "sorted")].i != 0);
}

static void saved_read(dfi_export *e) {
  int32_t last = e->current->nin - 1;
  one(e, "Identity", NULL, type_in(e, last), in(e, last));
}

/* Handles in a tensor are of type variant here and of type resource there. */
static void pack_handles(dfi_export *e) {
  Pb__NodeDef *def = dfi_export_node(e, "Pack", own(e), 1);
  for (int32_t i = 0; i < e->current->nin; i++) dfi_lower_input(&e->l, def, in(e, i));
  dfi_export_controls(e, def);
  dfi_lower_type(&e->l, def, "T", DF_RESOURCE);
  dfi_lower_int(&e->l, def, "N", e->current->nin);
}
static void gather_handle(dfi_export *e) {
  Pb__NodeDef *n = put(e, "GatherV2", NULL, 3, in(e, 0), in(e, 1), in(e, 2));
  dfi_lower_type(&e->l, n, "Tparams", DF_RESOURCE);
  dfi_lower_type(&e->l, n, "Tindices", type_in(e, 1));
  dfi_lower_type(&e->l, n, "Taxis", type_in(e, 2));
}

static void sparse_descent(dfi_export *e) {
  uint8_t t = type_in(e, 1), ti = type_in(e, 3);
  const char *step = two(e, "Mul", "step", t, in(e, 2), in(e, 1));
  Pb__NodeDef *n = put(e, "ResourceScatterSub", NULL, 0);
  size_t controls = n->n_input;
  char **was = n->input;
  n->n_input = 0;
  n->input = NULL;
  dfi_lower_input(&e->l, n, in(e, 0));
  dfi_lower_input(&e->l, n, in(e, 3));
  dfi_lower_input(&e->l, n, step);
  for (size_t i = 0; i < controls; i++) dfi_lower_input(&e->l, n, was[i]);
  dfi_lower_type(&e->l, n, "dtype", t);
  dfi_lower_type(&e->l, n, "Tindices", ti);
}

/* The rows that have a gradient, in one that is zero for all others. */
static void sparse_adam(dfi_export *e) {
  const df_node *n = e->current;
  const uint8_t t = type_in(e, 9), ti = type_in(e, 10);
  Pb__NodeDef *shape = put(e, "VariableShape", "shape", 1, in(e, 0));
  dfi_lower_type(&e->l, shape, "out_type", DF_INT32);
  const char *rows = gather(e, "rows", DF_INT32, shape->name, number(e, "first", DF_INT32, 0), DF_INT32, 0, 0);
  Pb__NodeDef *sum = put_t(e, "UnsortedSegmentSum", "dense", t, 3, in(e, 9), in(e, 10), rows);
  dfi_lower_type(&e->l, sum, "Tindices", ti);
  dfi_lower_type(&e->l, sum, "Tnumsegments", DF_INT32);
  Pb__NodeDef *def = dfi_export_node(e, "ResourceApplyAdam", own(e), 0);
  for (int32_t i = 0; i < 9; i++) dfi_lower_input(&e->l, def, in(e, i));
  dfi_lower_input(&e->l, def, sum->name);
  dfi_export_controls(e, def);
  dfi_lower_type(&e->l, def, "T", t);
  dfi_lower_bool(&e->l, def, "use_nesterov", n->attrs[dfi_op_attr_index(dfi_op_info_at(n->op), "use_nesterov")].i != 0);
}

/* TensorFlow's older op wants elements whose shape it is told; the newer one finds it. */
static void list_concat(dfi_export *e) {
  const df_node *n = e->current;
  const df_attr *shape = &n->attrs[dfi_op_attr_index(dfi_op_info_at(n->op), "element_shape")];
  const char *dims = shape->i < 0 ? number(e, "element_shape", DF_INT32, -1)
                                  : ints(e, "element_shape", (int32_t)shape->i, shape->ints);
  const char *lengths = dfi_export_ints(e, dfi_export_name(e, "%s/leading", own(e)), DF_INT64, 1, 0, NULL);
  Pb__NodeDef *def = put(e, "TensorListConcatV2", NULL, 0);
  char **controls = def->input;
  const size_t ncontrols = def->n_input;
  def->input = NULL;
  def->n_input = 0;
  dfi_lower_input(&e->l, def, in(e, 0));
  dfi_lower_input(&e->l, def, dims);
  dfi_lower_input(&e->l, def, lengths);
  for (size_t i = 0; i < ncontrols; i++) dfi_lower_input(&e->l, def, controls[i]);
  e->place[e->l.n - 1].outputs = 2;
  dfi_lower_type(&e->l, def, "element_dtype", n->out[0].dtype);
  dfi_lower_type(&e->l, def, "shape_type", DF_INT32);
}

/* The rows that were gathered from each element, summed; zeros of their shape for the other elements. */
static void list_gather_grad(dfi_export *e) {
  const uint8_t t = type_in(e, 1);
  Pb__NodeDef *length = put(e, "TensorListLength", "length", 1, in(e, 0));
  Pb__NodeDef *sum = put_t(e, "UnsortedSegmentSum", "sum", t, 3, in(e, 1), in(e, 2), length->name);
  dfi_lower_type(&e->l, sum, "Tindices", DF_INT32);
  dfi_lower_type(&e->l, sum, "Tnumsegments", DF_INT32);
  Pb__NodeDef *def = dfi_export_node(e, "TensorListFromTensor", own(e), 1);
  dfi_lower_input(&e->l, def, sum->name);
  dfi_lower_input(&e->l, def, number(e, "element_shape", DF_INT32, -1));
  dfi_export_controls(e, def);
  dfi_lower_type(&e->l, def, "element_dtype", t);
  dfi_lower_type(&e->l, def, "shape_type", DF_INT32);
}

/* TensorFlow's ClipByValue takes bounds that are one number or of the shape of what is clipped, and passes over those
   that are NaN, as ours does. Of other shapes it is two choices, which broadcast. */
static bool is_bound(dfi_export *e, int32_t i) {
  const dfi_shape *x = shape_in(e, 0), *bound = shape_in(e, i);
  return bound->rank == 0 || (dfi_shape_known(x) && dfi_shape_equal(x, bound));
}
static void clip(dfi_export *e) {
  const uint8_t t = type_in(e, 0);
  const char *x = in(e, 0), *low = in(e, 1), *high = in(e, 2);
  if (is_bound(e, 1) && is_bound(e, 2)) { put_t(e, "ClipByValue", NULL, t, 3, x, low, high); return; }
  const char *below = put_t(e, "SelectV2", "below", t, 3, two(e, "Greater", "above", t, x, high), high, x)->name;
  put_t(e, "SelectV2", NULL, t, 3, two(e, "Less", "under", t, below, low), low, below);
}

/* Input i in the shape that both inputs are broadcast to. */
static const char *broadcast(dfi_export *e, const char *word, int32_t i, const char *dims) {
  Pb__NodeDef *n = put_t(e, "BroadcastTo", word, type_in(e, i), 2, in(e, i), dims, NULL);
  dfi_lower_type(&e->l, n, "Tidx", DF_INT32);
  return n->name;
}
/* TensorFlow's op broadcasts nothing. */
static void approximate_equal(dfi_export *e) {
  const uint8_t t = type_in(e, 0);
  const char *x = in(e, 0), *y = in(e, 1);
  if (!dfi_shape_known(shape_in(e, 0)) || !dfi_shape_equal(shape_in(e, 0), shape_in(e, 1))) {
    const char *dims = two(e, "BroadcastArgs", "dims", DF_INT32, shape_of(e, "x_dims", t, x, DF_INT32),
                           shape_of(e, "y_dims", t, y, DF_INT32));
    x = broadcast(e, "x", 0, dims);
    y = broadcast(e, "y", 1, dims);
  }
  Pb__AttrValue *tolerance = dfi_lower_attr(&e->l, put_t(e, "ApproximateEqual", NULL, t, 2, x, y, NULL), "tolerance");
  tolerance->value_case = PB__ATTR_VALUE__VALUE_F;
  tolerance->f = (float)e->current->attrs[0].f;
}

/* The gradient of a gradient's array is looked for among the arrays of the forward pass there, and not found. */
static void array_gradient(dfi_export *e) {
  const df_node *from = e->current->in[0].node;
  while (from->nin == 1 || !strcmp(dfi_op_info_at(from->op)->op->type, "Switch")) from = from->in[0].node;
  const char *type = dfi_op_info_at(e->current->op)->op->type;
  if (!strncmp(dfi_op_info_at(from->op)->op->type, "TensorArrayGrad", 15))
    dfi_export_refuse(e, "it is the gradient of a gradient's array");
  else dfi_export_plain(e, strcmp(type, "TensorArrayGradV2") ? type : "TensorArrayGradV3", own(e));
}

/* ---- attention, in TensorFlow's ops ------------------------------------------------------------------------------ */

static const char *product(dfi_export *e, const char *word, uint8_t t, const char *a, const char *b, bool a_t,
                           bool b_t) {
  Pb__NodeDef *n = put_t(e, "BatchMatMulV2", word, t, 2, a, b, NULL);
  dfi_lower_bool(&e->l, n, "adj_x", a_t);
  dfi_lower_bool(&e->l, n, "adj_y", b_t);
  return n->name;
}
static const char *column(dfi_export *e, const char *word, uint8_t t, const char *x) {
  Pb__NodeDef *n = put_t(e, "ExpandDims", word, t, 2, x, number(e, "column", DF_INT32, -1), NULL);
  dfi_lower_type(&e->l, n, "Tdim", DF_INT32);
  return n->name;
}
/* Input i in the dtype of the sums. */
static const char *wide_in(dfi_export *e, const char *word, int32_t i, uint8_t t) {
  return cast(e, word, in(e, i), type_in(e, i), t);
}

/* Scores of inputs `first` and on, -infinity where a query may not look. NULL: refused. */
static const char *scores_of(dfi_export *e, int32_t first, int32_t mask, uint8_t t, double *scale) {
  const df_node *n = e->current;
  const dfi_shape *q = shape_in(e, first);
  *scale = n->attrs[1].f;
  if (*scale == 0 && (q->rank < 1 || q->dims[q->rank - 1] < 0)) {
    dfi_export_refuse(e, "the depth of its query is known only when it runs, and its scale follows from that");
    return NULL;
  }
  if (*scale == 0) *scale = q->dims[q->rank - 1] ? 1 / sqrt((double)q->dims[q->rank - 1]) : 1;
  const char *query = wide_in(e, "query", first, t), *key = wide_in(e, "key", first + 1, t);
  const char *s = product(e, "products", t, query, key, false, true);
  s = two(e, "Mul", "scores", t, s, number(e, "scale", t, *scale));
  const char *far = n->nin > mask || n->attrs[0].i ? number(e, "far", t, -INFINITY) : NULL;
  if (n->nin > mask && type_in(e, mask) == DF_BOOL) s = put_t(e, "SelectV2", "masked", t, 3, in(e, mask), s, far)->name;
  else if (n->nin > mask) s = two(e, "AddV2", "biased", t, s, wide_in(e, "bias", mask, t));
  if (!n->attrs[0].i) return s;
  Pb__NodeDef *band = put_t(e, "MatrixBandPart", "band", t, 3, one(e, "OnesLike", "ones", t, s),
                            number(e, "lower", DF_INT32, -1), number(e, "upper", DF_INT32, 0));
  dfi_lower_type(&e->l, band, "Tindex", DF_INT32);
  const char *seen = two(e, "Greater", "seen", t, band->name, number(e, "zero", t, 0));
  return put_t(e, "SelectV2", "causal", t, 3, seen, s, far)->name;
}

static void attention(dfi_export *e) {
  const df_node *n = e->current;
  const uint8_t t = n->out[1].dtype;
  const int64_t last = -1;
  double scale;
  const char *s = scores_of(e, 0, 3, t, &scale);
  if (!s) return;
  const char *axes = ints(e, "last", 1, &last), *most = reduce(e, "Max", "max", t, DF_INT32, s, axes, true);
  const char *empty = two(e, "Equal", "empty", t, most, number(e, "none", t, -INFINITY));
  const char *shift = put_t(e, "SelectV2", "shift", t, 3, empty, one(e, "ZerosLike", "zeros", t, most), most)->name;
  const char *p = one(e, "Exp", "exp", t, two(e, "Sub", "sub", t, s, shift));
  const char *sum = reduce(e, "Sum", "sum", t, DF_INT32, p, axes, true);
  const char *mix = product(e, "values", t, p, wide_in(e, "value", 2, t), false, false);
  const char *y = two(e, "DivNoNan", "mix", t, mix, sum);
  const char *log = two(e, "AddV2", "log_sum", t, shift, one(e, "Log", "log", t, sum));
  log = put_t(e, "SelectV2", "sums", t, 3, empty, number(e, "infinity", t, INFINITY), log)->name;
  const char *out[2] = { cast(e, "output", y, t, n->out[0].dtype),
                         reduce(e, "Max", "log_sum_exp", t, DF_INT32, log, axes, false) };
  const df_output from[2] = { { (df_node *)n, 0 }, { (df_node *)n, 1 } };
  pass(e, 2, out, from, t);
}

static void attention_grad(dfi_export *e) {
  const df_node *n = e->current;
  const uint8_t t = type_in(e, 4), own_type = n->out[0].dtype;
  double scale;
  const char *s = scores_of(e, 1, 6, t, &scale);
  if (!s) return;
  const char *p = one(e, "Exp", "weights", t, two(e, "Sub", "sub", t, s, column(e, "sums", t, in(e, 4))));
  const char *dy = wide_in(e, "dy", 0, t), *q = wide_in(e, "query_again", 1, t), *k = wide_in(e, "key_again", 2, t);
  const char *dp = product(e, "dp", t, dy, wide_in(e, "value", 3, t), false, true);
  dp = two(e, "Sub", "less", t, dp, column(e, "delta", t, in(e, 5)));
  const char *ds = two(e, "Mul", "ds", t, two(e, "Mul", "weighted", t, p, dp), number(e, "scale_again", t, scale));
  const char *out[3] = { product(e, "dq", t, ds, k, false, false), product(e, "dk", t, ds, q, true, false),
                         product(e, "dv", t, p, dy, true, false) };
  static const char *const word[3] = { "query_backprop", "key_backprop", "value_backprop" };
  for (int32_t i = 0; i < 3; i++) out[i] = cast(e, word[i], out[i], t, own_type);
  pass(e, 3, out, NULL, own_type);
}

bool dfi_export_special(dfi_export *e, const df_node *n) {
  static const struct { const char *type; void (*write)(dfi_export *); } own_ops[] = {
    { "ScaledDotProductAttention", attention }, { "ScaledDotProductAttentionGrad", attention_grad },
    { "LogicalXor", logical_xor }, { "LogSumExp", log_sum_exp }, { "SumToShape", sum_to_shape },
    { "ReducedShape", reduced_shape },
    { "ReducedCount", reduced_count }, { "GatherGrad", gather_grad }, { "TakeAlong", take_along },
    { "PutAlong", put_along },
    { "SegmentGather", segment_gather }, { "DynamicStitchGrad", stitch_grad }, { "TopK", top_k },
    { "PackHandles", pack_handles },
    { "GatherHandle", gather_handle }, { "CustomGradient", custom_gradient },
    { "RegisteredGradient", custom_gradient }, { "TensorArrayReadSaved", saved_read },
    { "ReadReferenceSaved", saved_read }, { "ReadVariableSaved", saved_read },
    { "ResourceSparseApplyGradientDescent", sparse_descent }, { "VarHandleOp", variable },
    { "ClipByValue", clip }, { "ApproximateEqual", approximate_equal },
    { "TensorArrayGradV2", array_gradient }, { "TensorArrayGradV3", array_gradient },
    { "Assert", assertion }, { "GatherNdLast", gather_nd_last }, { "LinearRecurrence", linear_recurrence },
    { "ResourceSparseApplyAdam", sparse_adam }, { "TensorListConcat", list_concat },
    { "TensorListGatherGrad", list_gather_grad }, { "Einsum", einsum },
    { "AssignVariableOp", assignment }, { "AssignAddVariableOp", assignment }, { "AssignSubVariableOp", assignment },
    { "ResourceScatterUpdate", assignment }, { "ResourceScatterAdd", assignment }, { "ResourceScatterSub", assignment },
    { "ResourceScatterMul", assignment }, { "ResourceScatterDiv", assignment }, { "ResourceScatterMin", assignment },
    { "ResourceScatterMax", assignment },
  };
  const char *type = dfi_op_info_at(n->op)->op->type;
  for (size_t i = 0; i < sizeof own_ops / sizeof *own_ops; i++)
    if (!strcmp(type, own_ops[i].type)) { own_ops[i].write(e); return true; }
  return false;
}
