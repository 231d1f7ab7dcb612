/* reduce.c: the entries of ops that fold axes: reductions, scans, argmax, top_k and sums by segment, with their shape
 * rules and gradients. Gradients are made of ops that have gradients themselves, some of them internal (no Lua name),
 * in pairs that are each other's: SegmentGather and UnsortedSegmentSum, TakeAlong and PutAlong, LinearRecurrence and
 * its reverse. Where shapes are known while building, a gradient holds no shape arithmetic.
 */
#include "op/op.h"
#include "graph/grad.h"
#include "kernels/reduce.h"
#include "kernels/string.h"

/* ---- shapes ------------------------------------------------------------------------------------------- */

/* Is every axis known? Then reduced[] says which; a bad axis is an error (*code). */
static bool axes_known(dfi_infer *c, const dfi_shape *x, bool *reduced, int32_t *code) {
  const df_tensor *axes = dfi_in_const(c, 1);
  char text[160];
  *code = DF_OK;
  for (int32_t i = 0; i < DF_MAX_RANK; i++) reduced[i] = false;
  if (!axes || x->rank < 0) return false;
  for (int64_t i = 0; i < axes->size; i++) {
    int64_t given = dfk_index(axes, i), a = given < 0 ? given + x->rank : given;
    if (a < 0 || a >= x->rank) {
      *code = dfi_infer_fail(c, "reduction axis %lld is out of range for %s: expected %d to %d", (long long)given,
                             dfi_typed_shape_text(dfi_in_dtype(c, 0), x, text), -x->rank, x->rank - 1);
      return false;
    }
    if (reduced[a]) {
      *code = dfi_infer_fail(c, "reduction axis %lld is given twice", (long long)given);
      return false;
    }
    reduced[a] = true;
  }
  return true;
}

static int32_t shape_reduce(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0), *axes = dfi_in_shape(c, 1);
  dfi_shape *y = dfi_set_shape(c, 0);
  bool keep = c->node->attrs[0].i != 0, reduced[DF_MAX_RANK];
  int32_t code;
  char text[160];
  *y = dfi_shape_unknown();
  if (x->rank < 0) return DF_OK;
  if (axes_known(c, x, reduced, &code)) {
    y->rank = 0;
    for (int32_t i = 0; i < x->rank; i++)
      if (!reduced[i] || keep) y->dims[y->rank++] = reduced[i] ? 1 : x->dims[i];
    return DF_OK;
  }
  if (code) return code;
  int64_t n = axes->rank < 0 ? -1 : 1;                      /* nested ones are those in them, as TensorFlow has it */
  for (int32_t i = 0; i < axes->rank; i++) n = n < 0 || axes->dims[i] < 0 ? -1 : n * axes->dims[i];
  if (n > x->rank)
    return dfi_infer_fail(c, "%lld reduction axes for %s", (long long)n,
                          dfi_typed_shape_text(dfi_in_dtype(c, 0), x, text));
  if (!keep && n < 0) return DF_OK;
  y->rank = (int8_t)(keep ? x->rank : x->rank - n);
  for (int32_t i = 0; i < y->rank; i++) y->dims[i] = -1;
  return DF_OK;
}

/* The axis that input i names: -1 when it is not known, -2 after a failure. */
static int32_t axis_known(dfi_infer *c, int32_t i, const dfi_shape *x) {
  const df_tensor *axis = dfi_in_const(c, i);
  char text[160];
  if (dfi_in_shape(c, i)->rank > 0) {
    dfi_infer_fail(c, "the axis must be a scalar, got %s",
                   dfi_typed_shape_text(dfi_in_dtype(c, i), dfi_in_shape(c, i), text));
    return -2;
  }
  if (x->rank == 0) {
    dfi_infer_fail(c, "a scalar has no axes");
    return -2;
  }
  if (!axis || x->rank < 0) return -1;
  int64_t given = dfk_index(axis, 0), a = given < 0 ? given + x->rank : given;
  if (a >= 0 && a < x->rank) return (int32_t)a;
  dfi_infer_fail(c, "axis %lld is out of range for %s: expected %d to %d", (long long)given,
                 dfi_typed_shape_text(dfi_in_dtype(c, 0), x, text), -x->rank, x->rank - 1);
  return -2;
}

static int32_t shape_arg(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0);
  dfi_shape *y = dfi_set_shape(c, 0);
  *y = dfi_shape_unknown();
  int32_t axis = axis_known(c, 1, x);
  if (axis == -2) return DF_INVALID_ARGUMENT;
  if (x->rank < 0) return DF_OK;
  y->rank = (int8_t)(x->rank - 1);
  for (int32_t i = 0; i < y->rank; i++) y->dims[i] = axis < 0 ? -1 : x->dims[i + (i >= axis)];
  char text[160];
  if (axis >= 0 && x->dims[axis] == 0)
    return dfi_infer_fail(c, "axis %d of %s has no elements", axis, dfi_typed_shape_text(dfi_in_dtype(c, 0), x, text));
  return DF_OK;
}

static int32_t shape_scan(dfi_infer *c) {
  for (int32_t i = 0; i < c->node->nout; i++) *dfi_set_shape(c, i) = *dfi_in_shape(c, 0);
  return axis_known(c, c->node->nin - 1, dfi_in_shape(c, 0)) == -2 ? DF_INVALID_ARGUMENT : DF_OK;
}

static int32_t shape_top_k(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0);
  const df_tensor *k = dfi_in_const(c, 1);
  char text[160];
  *dfi_set_shape(c, 0) = *dfi_set_shape(c, 1) = dfi_shape_unknown();
  if (x->rank == 0) return dfi_infer_fail(c, "top_k needs at least one axis, got a scalar");
  if (k && k->size == 1 && dfk_index(k, 0) < 0)
    return dfi_infer_fail(c, "k must not be negative, got %lld", (long long)dfk_index(k, 0));
  if (x->rank < 0) return DF_OK;
  dfi_shape y = *x;
  int64_t n = x->dims[x->rank - 1], count = k && k->size == 1 ? dfk_index(k, 0) : -1;
  if (n >= 0 && count > n)
    return dfi_infer_fail(c, "top_k of %lld among the last axis of %s: expected 0 to %lld", (long long)count,
                          dfi_typed_shape_text(dfi_in_dtype(c, 0), x, text), (long long)n);
  y.dims[y.rank - 1] = count;
  *dfi_set_shape(c, 0) = *dfi_set_shape(c, 1) = y;
  return DF_OK;
}

static int32_t shape_in_top_k(dfi_infer *c) {
  dfi_shape p = { .rank = 2, .dims = { -1, -1 } }, t = dfi_shape_vector(-1), rows = dfi_shape_vector(-1);
  char a[160], b[160];
  bool fits = dfi_shape_merge(&p, dfi_in_shape(c, 0), &p) && dfi_shape_merge(&t, dfi_in_shape(c, 1), &t);
  rows.dims[0] = p.dims[0];
  if (!fits || !dfi_shape_merge(&t, &rows, &rows))
    return dfi_infer_fail(c, "predictions must be [batch, classes] and targets [batch], got %s and %s",
                          dfi_typed_shape_text(dfi_in_dtype(c, 0), dfi_in_shape(c, 0), a),
                          dfi_typed_shape_text(dfi_in_dtype(c, 1), dfi_in_shape(c, 1), b));
  *dfi_set_shape(c, 0) = rows;
  return DF_OK;
}

static int32_t shape_take_along(dfi_infer *c) { *dfi_set_shape(c, 0) = *dfi_in_shape(c, 1); return DF_OK; }

static int32_t shape_put_along(dfi_infer *c) {
  dfi_shape *y = dfi_set_shape(c, 0);
  const df_tensor *n = dfi_in_const(c, 2);
  *y = *dfi_in_shape(c, 0);
  if (y->rank > 0) y->dims[y->rank - 1] = n && n->size == 1 && dfk_index(n, 0) >= 0 ? dfk_index(n, 0) : -1;
  return DF_OK;
}

static int32_t segments(dfi_infer *c, int64_t n) {
  const dfi_shape *x = dfi_in_shape(c, 0), *ids = dfi_in_shape(c, 1);
  dfi_shape *y = dfi_set_shape(c, 0);
  char a[160], b[160];
  *y = dfi_shape_unknown();
  if (x->rank < 0 || ids->rank < 0) return DF_OK;
  bool prefix = ids->rank <= x->rank;
  for (int32_t i = 0; prefix && i < ids->rank; i++)
    prefix = x->dims[i] < 0 || ids->dims[i] < 0 || x->dims[i] == ids->dims[i];
  if (!prefix)
    return dfi_infer_fail(c, "the shape of data must begin with that of segment_ids: data is %s, segment_ids %s",
                          dfi_typed_shape_text(dfi_in_dtype(c, 0), x, a),
                          dfi_typed_shape_text(dfi_in_dtype(c, 1), ids, b));
  if (x->rank - ids->rank + 1 > DF_MAX_RANK) return dfi_infer_fail(c, "the result has more than %d axes", DF_MAX_RANK);
  y->rank = 0;
  y->dims[y->rank++] = n;
  for (int32_t i = ids->rank; i < x->rank; i++) y->dims[y->rank++] = x->dims[i];
  return DF_OK;
}

static int32_t shape_unsorted_segment(dfi_infer *c) {
  const df_tensor *n = dfi_in_const(c, 2);
  if (dfi_in_shape(c, 2)->rank > 0) return dfi_infer_fail(c, "num_segments must be a scalar");
  if (n && n->size != 1)
    return dfi_infer_fail(c, "num_segments must be one integer, it has %lld elements", (long long)n->size);
  if (n && dfk_index(n, 0) < 0)
    return dfi_infer_fail(c, "num_segments must not be negative, got %lld", (long long)dfk_index(n, 0));
  return segments(c, n ? dfk_index(n, 0) : -1);
}

static int32_t shape_segment_sum(dfi_infer *c) {
  if (dfi_in_shape(c, 1)->rank >= 0 && dfi_in_shape(c, 1)->rank != 1)
    return dfi_infer_fail(c, "segment_ids must be a vector, got rank %d", dfi_in_shape(c, 1)->rank);
  return segments(c, -1);
}

static int32_t shape_segment_gather(dfi_infer *c) {
  const dfi_shape *rows = dfi_in_shape(c, 0), *ids = dfi_in_shape(c, 1);
  dfi_shape *y = dfi_set_shape(c, 0);
  *y = dfi_shape_unknown();
  if (rows->rank < 1 || ids->rank < 0 || ids->rank + rows->rank - 1 > DF_MAX_RANK) return DF_OK;
  *y = *ids;
  for (int32_t i = 1; i < rows->rank; i++) y->dims[y->rank++] = rows->dims[i];
  return DF_OK;
}

static int32_t shape_bincount(dfi_infer *c) {
  const df_tensor *n = dfi_in_const(c, 1);
  *dfi_set_shape(c, 0) = dfi_shape_vector(n && n->size == 1 ? dfk_index(n, 0) : -1);
  return DF_OK;
}

/* ---- gradients of reductions ---------------------------------------------------------------------------- */

/* Which axes a node reduces, where that is known: its axes are constant and its input's rank is known. */
static bool reduced_axes(const df_node *n, bool *reduced) {
  const dfi_shape *x = dfi_shape_at(n->in[0]);
  const df_tensor *axes = n->in[1].node->out[n->in[1].index].constant;
  if (!axes || x->rank < 0) return false;
  for (int32_t i = 0; i < DF_MAX_RANK; i++) reduced[i] = false;
  for (int64_t i = 0; i < axes->size; i++) {
    int64_t a = dfk_index(axes, i);
    reduced[a < 0 ? a + x->rank : a] = true;
  }
  return true;
}

/* t, which has the shape of n's result, with ones where n reduced: it broadcasts against the input. */
static df_output with_axes(dfi_grad *g, df_node *n, df_output t) {
  dfi_build *b = dfg_build(g);
  const dfi_shape *x = dfi_shape_at(n->in[0]);
  bool reduced[DF_MAX_RANK], leading = true, none = true, zero = false;
  if (n->attrs[0].i) return t;
  if (!reduced_axes(n, reduced))
    return dfi_op(b, "Reshape", t, dfi_op(b, "ReducedShape", dfg_in_shape(g, n, 0), dfg_in(g, n, 1)));
  int64_t dims[DF_MAX_RANK];
  int32_t unknown = 0;
  for (int32_t i = 0; i < x->rank; i++) {
    dims[i] = reduced[i] ? 1 : x->dims[i];
    unknown += dims[i] < 0;
    zero |= dims[i] == 0;
    none &= !reduced[i];
    if (reduced[i]) for (int32_t j = 0; j < i; j++) leading &= reduced[j];
  }
  if (none || leading) return t;                      /* broadcasting aligns at the last axis */
  if (unknown == 0 || (unknown == 1 && !zero)) return dfi_op(b, "Reshape", t, dfi_const_ints(b, x->rank, dims));
  for (int32_t i = 0; i < x->rank; i++) if (reduced[i]) t = dfi_op(b, "ExpandDims", t, dfi_const_int(b, i));
  return t;
}

/* t in the shape of n's input: every reduced element gets a copy. */
static df_output spread(dfi_grad *g, df_node *n, df_output t) {
  const dfi_shape *x = dfi_shape_at(n->in[0]);
  t = with_axes(g, n, t);
  if (!t.node) return t;
  if (dfi_shape_known(x) && dfi_shape_equal(x, dfi_shape_at(t))) return t;
  return dfi_op(dfg_build(g), "BroadcastTo", t, dfg_in_shape(g, n, 0));
}

static int32_t grad_sum(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = spread(g, n, dy[0]);
  return dfg_end(g);
}

static int32_t grad_mean(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const dfi_shape *x = dfi_shape_at(n->in[0]);
  bool reduced[DF_MAX_RANK], known = reduced_axes(n, reduced);
  int64_t count = 1;
  for (int32_t i = 0; known && i < x->rank; i++) {
    if (reduced[i] && x->dims[i] < 0) known = false;
    else if (reduced[i]) count *= x->dims[i];
  }
  df_output divisor;
  if (known) {
    divisor = dfi_const_like(b, dy[0], (double)count);
  } else {
    df_output c = dfi_op(b, "ReducedCount", dfg_in_shape(g, n, 0), dfg_in(g, n, 1));
    dfi_attr_int(b, "DstT", n->out[0].dtype);
    divisor = dfi_op(b, "Cast", c);
  }
  dx[0] = spread(g, n, known && count == 1 ? dy[0] : dfi_op(b, "RealDiv", dy[0], divisor));
  return dfg_end(g);
}

/* The elements equal to the result share its gradient evenly, as in TensorFlow. */
static int32_t grad_extreme(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output equal = dfi_op(b, "Equal", dfg_in(g, n, 0), with_axes(g, n, dfg_out(g, n, 0)));
  dfi_attr_int(b, "DstT", n->out[0].dtype);
  df_output chosen = dfi_op(b, "Cast", equal);
  df_output axes = dfg_in(g, n, 1);
  dfi_attr_int(b, "keep_dims", n->attrs[0].i);
  df_output count = dfi_op(b, "Sum", chosen, axes);
  dx[0] = dfi_op(b, "Mul", chosen, with_axes(g, n, dfi_op(b, "RealDiv", dy[0], count)));
  return dfg_end(g);
}

/* The same where axes or rank are not known: the reduced axes are brought to the front, as one. */
static int32_t grad_prod_any(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const int64_t flat = -1;
  df_output x = dfg_conj(g, dfg_in(g, n, 0)), shape = dfg_in_shape(g, n, 0), zero = dfi_const_int(b, 0),
            one = dfi_const_int(b, 1);
  df_output rank = dfi_op(b, "Size", shape), axes = dfg_in(g, n, 1);
  if (dfi_dtype(axes) != DF_INT32) {
    dfi_attr_int(b, "DstT", DF_INT32);
    axes = dfi_op(b, "Cast", axes);
  }
  axes = dfi_op(b, "FloorMod", dfi_op(b, "Reshape", axes, dfi_const_ints(b, 1, &flat)), rank);
  df_output others = dfi_op(b, "ListDiff", dfi_op(b, "Range", zero, rank, one), axes);
  df_output order = dfi_op(b, "ConcatV2", axes, others, zero); df_output turned = dfi_op(b, "Transpose", x, order);
  df_output count = dfi_op(b, "Prod", dfi_op(b, "GatherV2", shape, axes, zero), zero);
  df_output rest = dfi_op(b, "Prod", dfi_op(b, "GatherV2", shape, others, zero), zero);
  df_output column = dfi_op(b, "Reshape", turned, dfi_op(b, "Pack", count, rest));
  dfi_attr_int(b, "exclusive", true);
  df_output before = dfi_op(b, "Cumprod", column, zero);
  dfi_attr_int(b, "exclusive", true);
  dfi_attr_int(b, "reverse", true);
  df_output factor = dfi_op(b, "Mul", before, dfi_op(b, "Cumprod", column, zero));
  factor = dfi_op(b, "Reshape", factor, dfi_op(b, "Shape", turned));
  factor = dfi_op(b, "Transpose", factor, dfi_op(b, "InvertPermutation", order));
  dx[0] = dfi_op(b, "Mul", factor, with_axes(g, n, dy[0]));
  return dfg_end(g);
}

/* Each element's factor is the product of the others: exact where elements are zero. Axis after axis, the last axis
 * reduced first, each product along one axis of the product along the axes after it. */
static int32_t grad_prod(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  bool reduced[DF_MAX_RANK];
  int32_t rank = dfi_shape_at(n->in[0])->rank, count = 0, axis[DF_MAX_RANK];
  if (!reduced_axes(n, reduced)) return grad_prod_any(g, n, dy, dx);
  for (int32_t i = rank - 1; i >= 0; i--) if (reduced[i]) axis[count++] = i;
  df_output part[DF_MAX_RANK + 1], d = with_axes(g, n, dy[0]);
  part[0] = dfg_conj(g, dfg_in(g, n, 0));
  for (int32_t i = 0; i + 1 < count; i++) {
    int64_t a = axis[i];
    dfi_attr_int(b, "keep_dims", true);
    part[i + 1] = dfi_op(b, "Prod", part[i], dfi_const_ints(b, 1, &a));
  }
  for (int32_t i = count - 1; i >= 0; i--) {
    df_output a = dfi_const_int(b, axis[i]);
    dfi_attr_int(b, "exclusive", true);
    df_output before = dfi_op(b, "Cumprod", part[i], a);
    dfi_attr_int(b, "exclusive", true);
    dfi_attr_int(b, "reverse", true);
    df_output after = dfi_op(b, "Cumprod", part[i], a);
    d = dfi_op(b, "Mul", d, dfi_op(b, "Mul", before, after));
  }
  dx[0] = d;
  return dfg_end(g);
}

static int32_t grad_log_sum_exp(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output share = dfi_op(b, "Exp", dfi_op(b, "Sub", dfg_in(g, n, 0), with_axes(g, n, dfg_out(g, n, 0))));
  dx[0] = dfi_op(b, "Mul", share, with_axes(g, n, dy[0]));
  return dfg_end(g);
}

static int32_t grad_norm(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  dx[0] = dfi_op(b, "Mul", dfg_in(g, n, 0), with_axes(g, n, dfi_op(b, "RealDiv", dy[0], dfg_out(g, n, 0))));
  return dfg_end(g);
}

/* ---- gradients of scans ------------------------------------------------------------------------------------ */

static int32_t grad_cumsum(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output axis = dfg_in(g, n, 1);
  dfi_attr_int(b, "exclusive", n->attrs[0].i);
  dfi_attr_int(b, "reverse", !n->attrs[1].i);
  dx[0] = dfi_op(b, "Cumsum", dy[0], axis);
  return dfg_end(g);
}

/* Both outputs of a recurrence over d with factors x. */
static df_node *recurrence(dfi_build *b, df_output x, df_output d, df_output axis, bool reverse) {
  dfi_attr_int(b, "reverse", reverse);
  return dfi_opnode(b, "LinearRecurrence", 3, (df_output[]){ x, d, axis });
}
static df_output output(df_node *n, int32_t i) { return n ? (df_output){ n, i } : DFI_NONE; }
/* d moved by one along the axis, zero where nothing comes from: to the front when `forward` is false. */
static df_output shift(dfi_build *b, df_output d, df_output axis, bool forward) {
  return output(recurrence(b, dfi_op(b, "ZerosLike", d), d, axis, !forward), 1);
}

/* y[i] = x[0] ... x[i] (exclusive: x[0] ... x[i-1]). dx[i] = x[0] ... x[i-1] * s[i], where s[i] = dy[i] + x[i+1] s[i+1]
 * (exclusive: dy[i+1] in place of dy[i]). No division, so zeros do no harm. */
static int32_t grad_cumprod(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  bool exclusive = n->attrs[0].i != 0, reverse = n->attrs[1].i != 0;
  df_output axis = dfg_in(g, n, 1), x = dfg_conj(g, dfg_in(g, n, 0)), d = dy[0], ends = axis;
  if (reverse) {
    ends = dfi_op(b, "Reshape", axis, dfi_const_ints(b, 1, (const int64_t[]){ 1 }));
    x = dfi_op(b, "ReverseV2", x, ends);
    d = dfi_op(b, "ReverseV2", d, ends);
  }
  if (exclusive) d = shift(b, d, axis, false);
  dfi_attr_int(b, "exclusive", true);
  df_output before = dfi_op(b, "Cumprod", x, axis);
  df_output r = dfi_op(b, "Mul", before, output(recurrence(b, x, d, axis, true), 0));
  dx[0] = reverse ? dfi_op(b, "ReverseV2", r, ends) : r;
  return dfg_end(g);
}

/* The recurrence over d is the adjoint of the one in the other direction. */
static int32_t grad_linear_recurrence(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  bool reverse = n->attrs[0].i != 0;
  df_output axis = dfg_in(g, n, 2), d = dy[0];
  if (dy[1].node) {
    df_output back = shift(b, dy[1], axis, reverse);
    d = d.node ? dfi_op(b, "Add", d, back) : back;
  }
  df_node *t = recurrence(b, dfg_conj(g, dfg_in(g, n, 0)), d, axis, !reverse);
  dx[1] = output(t, 0);
  if (dfg_wants(g, n, 0))
    dx[0] = reverse ? dfi_op(b, "Mul", dfg_conj(g, dfg_out(g, n, 0)), output(t, 1))
                    : dfi_op(b, "Mul", output(t, 0), dfg_conj(g, dfg_out(g, n, 1)));
  return dfg_end(g);
}

/* ---- gradients of top_k and segments ------------------------------------------------------------------------ */

static int32_t grad_top_k(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  if (!dy[0].node) return dfg_end(g);
  dx[0] = dfi_op(dfg_build(g), "PutAlong", dy[0], dfg_out(g, n, 1), dfg_in_dim(g, n, 0, -1));
  return dfg_end(g);
}

static int32_t grad_take_along(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dfi_op(dfg_build(g), "PutAlong", dy[0], dfg_in(g, n, 1), dfg_in_dim(g, n, 0, -1));
  return dfg_end(g);
}

static int32_t grad_put_along(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dfi_op(dfg_build(g), "TakeAlong", dy[0], dfg_in(g, n, 1));
  return dfg_end(g);
}

static int32_t grad_segment_sum(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dfi_op(dfg_build(g), "SegmentGather", dy[0], dfg_in(g, n, 1));
  return dfg_end(g);
}

static int32_t grad_segment_gather(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dfi_op(dfg_build(g), "UnsortedSegmentSum", dy[0], dfg_in(g, n, 1), dfg_in_dim(g, n, 0, 0));
  return dfg_end(g);
}

static int32_t grad_segment_extreme(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output ids = dfg_in(g, n, 1),
            equal = dfi_op(b, "Equal", dfg_in(g, n, 0), dfi_op(b, "SegmentGather", dfg_out(g, n, 0), ids));
  dfi_attr_int(b, "DstT", n->out[0].dtype);
  df_output chosen = dfi_op(b, "Cast", equal);
  df_output count = dfi_op(b, "UnsortedSegmentSum", chosen, ids, dfg_in(g, n, 2));
  count = dfi_op(b, "Maximum", count, dfi_const_like(b, count, 1));          /* an empty segment has none */
  dx[0] = dfi_op(b, "Mul", chosen, dfi_op(b, "SegmentGather", dfi_op(b, "RealDiv", dy[0], count), ids));
  return dfg_end(g);
}

/* The product of the others: zeros are left out of the product and counted; an element sees it where no other is zero.
   */
static int32_t grad_segment_prod(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output x = dfg_conj(g, dfg_in(g, n, 0)), ids = dfg_in(g, n, 1), count = dfg_in(g, n, 2);
  df_output equal = dfi_op(b, "Equal", x, dfi_const_like(b, x, 0));
  dfi_attr_int(b, "DstT", n->out[0].dtype);
  df_output zero = dfi_op(b, "Cast", equal), others = dfi_op(b, "Add", x, zero);
  df_output zeros = dfi_op(b, "SegmentGather", dfi_op(b, "UnsortedSegmentSum", zero, ids, count), ids);
  df_output product = dfi_op(b, "SegmentGather", dfi_op(b, "UnsortedSegmentProd", others, ids, count), ids);
  df_output only = dfi_op(b, "Equal", zeros, zero);
  dfi_attr_int(b, "DstT", n->out[0].dtype);
  df_output seen = dfi_op(b, "Cast", only);
  df_output factor = dfi_op(b, "Mul", seen, dfi_op(b, "RealDiv", product, others));
  dx[0] = dfi_op(b, "Mul", dfi_op(b, "SegmentGather", dy[0], ids), factor);
  return dfg_end(g);
}

/* weights may be empty, which stands for ones. */
static int32_t grad_bincount(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  if (dfi_shape_size(dfi_shape_at(n->in[2])) == 0) return dfg_end(g);
  df_output values = dfg_in(g, n, 0), size = dfg_in(g, n, 1);
  df_output inside = dfi_op(b, "Less", values, size);                         /* what was left out gets zero */
  df_output ids = dfi_op(b, "SelectV2", inside, values, dfi_const_like(b, values, -1));
  dx[2] = dfi_op(b, "SegmentGather", dy[0], ids);
  return dfg_end(g);
}

/* ---- costs, in ns ---------------------------------------------------------------------------------------- */

static double cost_reduce(const df_kernel *k)  { return 30 + 0.15 * (double)k->in[0]->size; }
static double cost_exp(const df_kernel *k)     { return 40 + 1.0 * (double)k->in[0]->size; }
static double cost_top_k(const df_kernel *k)   { return 50 + 3.0 * (double)k->in[0]->size; }

/* ---- entries ----------------------------------------------------------------------------------------------- */

#define REDUCE(TYPES) \
  .in = "input:T reduction_indices:Tidx", .out = "output:T", .types = "T=" TYPES " Tidx=int32|int64", \
  .attrs = "keep_dims:bool=false", .shape = shape_reduce, .cost = cost_reduce
#define SEGMENT(TYPES) \
  .in = "data:T segment_ids:Tindices num_segments:Tnumsegments", .out = "output:T", \
  .types = "T=" TYPES " Tindices=int32|int64 Tnumsegments=int32|int64", .shape = shape_unsorted_segment
#define SCAN \
  .in = "x:T axis:Tidx", .out = "out:T", .types = "T=number|complex Tidx=int32|int64", \
  .attrs = "exclusive:bool=false reverse:bool=false", .shape = shape_scan
#define KERNELS(name) .kernel = { [DF_REF] = ref_##name, [DF_CPU] = cpu_##name }
#define KERNEL(name)  .kernel = { [DF_REF] = ref_##name }

static const df_op ops[] = {
  { .type = "Sum", .lua = "reduce_sum", REDUCE("number|complex"),
    .doc = "The sum of the elements along the given axes (all of them by default); the axes stay as ones with "
    "keep_dims. No elements sum to "
           "0. Integers wrap. A negative axis counts from the end; one out of range or given twice is an error.",
    .example = "df.reduce_sum({{1, 2}, {3, 4}}, {axis = 0})  --> {4, 6}",
    .output = "[4 6] int32[2]",
    .derivative = "dy, spread over the reduced axes",
    .grad = grad_sum, KERNELS(sum) },
  { .type = "Mean", .lua = "reduce_mean", REDUCE("number|complex"),
    .doc = "The mean of the elements along the given axes (all of them by default); the axes stay as ones with "
    "keep_dims. The mean of no "
           "elements is NaN; of no integers it is an error. The mean of integers is cut toward zero.",
    .example = "df.reduce_mean({{1.0, 2.0}, {3.0, 4.0}}, {axis = 1})  --> {1.5, 3.5}",
    .output = "[1.5 3.5] float32[2]",
    .derivative = "dy / n, spread over the n elements of each mean",
    .grad = grad_mean,
    KERNELS(mean) },
  { .type = "Prod", .lua = "reduce_prod", REDUCE("number|complex"),
    .doc = "The product of the elements along the given axes (all of them by default); the axes stay as ones with "
    "keep_dims. No elements "
           "multiply to 1. Integers wrap.",
    .example = "df.reduce_prod({{1, 2}, {3, 4}}, {axis = 0})  --> {3, 8}",
    .output = "[3 8] int32[2]",
    .derivative = "dy times the product of the other elements, exact where some are zero",
    .grad = grad_prod, KERNELS(prod) },
  { .type = "Max", .lua = "reduce_max", REDUCE("number"),
    .doc = "The greatest element along the given axes (all of them by default); the axes stay as ones with keep_dims. "
    "NaN where any element "
           "is NaN; the lowest number of the dtype (-inf) of no elements. Equal greatest elements share the gradient.",
    .example = "df.reduce_max({{1, 5}, {3, 4}}, {axis = 0})  --> {3, 5}",
    .output = "[3 5] int32[2]",
    .derivative = "the greatest elements share dy equally",
    .grad = grad_extreme, KERNELS(max) },
  { .type = "Min", .lua = "reduce_min", REDUCE("number"),
    .doc = "The least element along the given axes (all of them by default); the axes stay as ones with keep_dims. NaN "
    "where any element is "
           "NaN; the highest number of the dtype (inf) of no elements. Equal least elements share the gradient.",
    .example = "df.reduce_min({{1, 5}, {3, 4}}, {axis = 0})  --> {1, 4}",
    .output = "[1 4] int32[2]",
    .derivative = "the least elements share dy equally",
    .grad = grad_extreme, KERNELS(min) },
  { .type = "All", .lua = "reduce_all",
    .in = "input:bool reduction_indices:Tidx", .out = "output:bool", .types = "Tidx=int32|int64",
    .attrs = "keep_dims:bool=false",
    .doc = "Are all elements along the given axes (all of them by default) true? Of no elements: true.",
    .example = "df.reduce_all({{true, false}, {true, true}}, {axis = 0})  --> {true, false}",
    .output = "[ true false] bool[2]",
    .shape = shape_reduce, .no_grad = true, .cost = cost_reduce, KERNELS(all) },
  { .type = "Any", .lua = "reduce_any",
    .in = "input:bool reduction_indices:Tidx", .out = "output:bool", .types = "Tidx=int32|int64",
    .attrs = "keep_dims:bool=false",
    .doc = "Is any element along the given axes (all of them by default) true? Of no elements: false.",
    .example = "df.reduce_any({{true, false}, {false, false}}, {axis = 1})  --> {true, false}",
    .output = "[ true false] bool[2]",
    .shape = shape_reduce, .no_grad = true, .cost = cost_reduce, KERNELS(any) },
  { .type = "LogSumExp", .work = dfi_work_curve, .lua = "reduce_logsumexp",
    .in = "input:T reduction_indices:Tidx", .out = "output:T", .types = "T=float Tidx=int32|int64",
    .attrs = "keep_dims:bool=false",
    .doc = "log(sum(exp(x))) along the given axes (all of them by default), without overflow: the greatest element is "
    "taken out first. Of "
           "no elements, or of -inf alone: -inf.",
    .example = "df.reduce_logsumexp({1000.0, 1000.0})  --> 1000.6931",
    .output = "1000.69",
    .derivative = "dy * softmax(x) over the reduced axes",
    .shape = shape_reduce, .grad = grad_log_sum_exp, .cost = cost_exp, KERNELS(log_sum_exp) },
  { .type = "EuclideanNorm", .lua = "reduce_euclidean_norm",
    .in = "input:T reduction_indices:Tidx", .out = "output:T", .types = "T=number Tidx=int32|int64",
    .attrs = "keep_dims:bool=false",
    .doc = "sqrt(sum(x^2)) along the given axes (all of them by default); of integers without its fraction.",
    .example = "df.reduce_euclidean_norm({3.0, 4.0})  --> 5",
    .output = "5.0",
    .derivative = "dy * x / norm(x), spread over the reduced axes",
    .shape = shape_reduce, .grad = grad_norm, .cost = cost_reduce, KERNELS(euclidean_norm) },
  { .type = "ArgMax", .lua = "argmax",
    .in = "input:T dimension:Tidx", .out = "output:output_type", .types = "T=number|bool Tidx=int32|int64 "
    "output_type=int32|int64",
    .attrs = "output_type:dtype=int64",
    .doc = "Where along an axis the greatest element is: the first of equals, the first NaN where there is one. An "
    "empty axis is an error.",
    .example = "df.argmax({{1, 5, 5}, {7, 2, 3}}, 1)  --> {1, 0}",
    .output = "[1 0] int64[2]",
    .shape = shape_arg, .no_grad = true,
    KERNELS(arg_max) },
  { .type = "ArgMin", .lua = "argmin",
    .in = "input:T dimension:Tidx", .out = "output:output_type", .types = "T=number|bool Tidx=int32|int64 "
    "output_type=int32|int64",
    .attrs = "output_type:dtype=int64",
    .doc = "Where along an axis the least element is: the first of equals, the first NaN where there is one. An empty "
    "axis is an error.",
    .example = "df.argmin({{1, 5, 5}, {7, 2, 3}}, 1)  --> {0, 1}",
    .output = "[0 1] int64[2]",
    .shape = shape_arg, .no_grad = true,
    KERNELS(arg_min) },
  { .type = "Cumsum", .lua = "cumsum", SCAN,
    .doc = "Sums of everything up to each element along an axis: {a, a+b, a+b+c}; exclusive: {0, a, a+b}; reverse runs "
    "from the end.",
    .example = "df.cumsum({1, 2, 3}, 0)  --> {1, 3, 6}",
    .output = "[1 3 6] int32[3]",
    .derivative = "x = cumsum(dy, axis, {reverse = true})",
    .grad = grad_cumsum, KERNELS(cumsum) },
  { .type = "Cumprod", .lua = "cumprod", SCAN,
    .doc = "Products of everything up to each element along an axis: {a, ab, abc}; exclusive: {1, a, ab}; reverse runs "
    "from the end. The "
           "gradient is exact where elements are zero.",
    .example = "df.cumprod({2, 3, 4}, 0)  --> {2, 6, 24}",
    .output = "[ 2  6 24] int32[3]",
    .derivative = "of each element the sum over the products it is part of, exact where elements are zero",
    .grad = grad_cumprod, KERNELS(cumprod) },
  { .type = "LinearRecurrence",
    .in = "x:T d:T axis:Tidx", .out = "s:T beside:T", .types = "T=float|complex Tidx=int32|int64",
    .attrs = "reverse:bool=false",
    .doc = "s[i] = d[i] + x[i] s[i-1] along an axis, and beside[i] = s[i-1]; reverse, its adjoint: s[i] = d[i] + "
    "x[i+1] s[i+1] and "
           "beside[i] = s[i+1]. beside is 0 where there is no neighbour.",
    .shape = shape_scan, .grad = grad_linear_recurrence, KERNEL(linear_recurrence) },
  { .type = "TopKV2", .lua = "top_k",
    .in = "input:T k:Tk", .out = "values:T indices:index_type", .types = "T=number Tk=int32|int64|int16 "
    "index_type=int32", .attrs = "sorted:bool=true index_type:dtype=int32",
    .doc = "The k greatest elements along the last axis, greatest first, and where they are. Of equals the first comes "
    "first; NaN is taken "
           "to be greatest.",
    .example = "df.top_k({1, 9, 4}, 2)  --> {9, 4}, {1, 2}",
    .output = "[9 4] int32[2], [1 2] int32[2]",
    .derivative = "the elements that were taken get dy of values, the others zero",
    .shape = shape_top_k, .grad = grad_top_k, .cost = cost_top_k, KERNELS(top_k) },
  { .type = "InTopK", .lua = "in_top_k",
    .in = "predictions:float targets:T", .out = "precision:bool", .types = "T=int32|int64", .attrs = "k:int",
    .doc = "For each row of predictions [batch, classes]: is the target class among the k greatest? Ties count as "
    "among; false where the "
           "target is no class or a prediction is not finite.",
    .example = "df.in_top_k({{0.1, 0.7, 0.2}}, {2}, 2)  --> {true}",
    .output = "[true] bool[1]",
    .shape = shape_in_top_k, .no_grad = true,
    KERNEL(in_top_k) },
  { .type = "TakeAlong",
    .in = "params:T indices:Tidx", .out = "output:T", .types = "T=number|complex Tidx=int32|int64",
    .doc = "params[..., indices[..., j]].", .shape = shape_take_along, .grad = grad_take_along, KERNEL(take_along) },
  { .type = "PutAlong",
    .in = "values:T indices:Tidx n:int32", .out = "output:T", .types = "T=number|complex Tidx=int32|int64",
    .doc = "Zeros [..., n] with values[..., j] added at indices[..., j].",
    .shape = shape_put_along, .grad = grad_put_along, KERNEL(put_along) },
  { .type = "UnsortedSegmentSum", .lua = "unsorted_segment_sum", SEGMENT("number|complex"),
    .doc = "Row i of the result is the sum of the rows of data whose segment id is i; 0 where there are none. "
    "segment_ids has the leading "
           "axes of data. Rows with negative ids are dropped; an id of num_segments or more is an error.",
    .example = "df.unsorted_segment_sum({1, 2, 3}, {1, 0, 1}, 2)  --> {2, 4}",
    .output = "[2 4] int32[2]",
    .derivative = "data = gather(dy, segment_ids), zero where an id is negative",
    .grad = grad_segment_sum,
    KERNELS(unsorted_segment_sum) },
  { .type = "UnsortedSegmentJoin", .lua = "unsorted_segment_join",
    .in = "inputs:string segment_ids:Tindices num_segments:Tnumsegments", .out = "output:string",
    .types = "Tindices=int32|int64 Tnumsegments=int32|int64", .attrs = "separator:string=''",
    .doc = "Row i of the result joins the rows of inputs whose segment id is i, in their order, with separator between "
    "them; an empty string where there are none. Rows with negative ids are dropped; an id of num_segments or more is "
    "an error.",
    .example = "df.unsorted_segment_join({'a', 'b', 'c'}, {1, 0, 1}, 2, {separator = '-'})",
    .output = "[\"b\"   \"a-c\"] string[2]", .see = "unsorted_segment_sum reduce_join",
    .shape = shape_unsorted_segment, .no_grad = true, KERNEL(unsorted_segment_join) },
  { .type = "UnsortedSegmentProd", .lua = "unsorted_segment_prod", SEGMENT("number|complex"),
    .doc = "As unsorted_segment_sum, with products; 1 where a segment is empty.",
    .example = "df.unsorted_segment_prod({2, 3, 4}, {1, 0, 1}, 2)  --> {3, 8}",
    .output = "[3 8] int32[2]",
    .derivative = "dy of the segment times the product of its other rows",
    .grad = grad_segment_prod,
    KERNELS(unsorted_segment_prod) },
  { .type = "UnsortedSegmentMax", .lua = "unsorted_segment_max", SEGMENT("number"),
    .doc = "As unsorted_segment_sum, with the greatest element; the lowest finite number of the dtype where a segment "
    "is empty.",
    .example = "df.unsorted_segment_max({1, 2, 3}, {1, 0, 1}, 2)  --> {2, 3}",
    .output = "[2 3] int32[2]",
    .derivative = "the greatest elements of a segment share its dy",
    .grad = grad_segment_extreme,
    KERNELS(unsorted_segment_max) },
  { .type = "UnsortedSegmentMin", .lua = "unsorted_segment_min", SEGMENT("number"),
    .doc = "As unsorted_segment_sum, with the least element; the highest finite number of the dtype where a segment is "
    "empty.",
    .example = "df.unsorted_segment_min({1, 2, 3}, {1, 0, 1}, 2)  --> {2, 1}",
    .output = "[2 1] int32[2]",
    .derivative = "the least elements of a segment share its dy",
    .grad = grad_segment_extreme,
    KERNELS(unsorted_segment_min) },
  { .type = "SegmentSum", .lua = "segment_sum",
    .in = "data:T segment_ids:Tindices", .out = "output:T", .types = "T=number|complex Tindices=int32|int64",
    .doc = "Row i of the result is the sum of the rows of data whose segment id is i. segment_ids is a vector that "
    "ascends from 0 or more; "
           "ids left out give zeros.",
    .example = "df.segment_sum({1, 2, 3}, {0, 0, 1})  --> {3, 3}",
    .output = "[3 3] int32[2]",
    .derivative = "data = gather(dy, segment_ids)",
    .shape = shape_segment_sum, .grad = grad_segment_sum,
    KERNEL(segment_sum) },
  { .type = "SegmentGather",
    .in = "rows:T segment_ids:Tindices", .out = "output:T", .types = "T=number|bool|complex Tindices=int32|int64",
    .doc = "rows[segment_ids], zeros for negative ids.", .shape = shape_segment_gather, .grad = grad_segment_gather,
    KERNEL(segment_gather) },
  { .type = "Bincount",
    .in = "arr:Tidx size:int32 weights:T", .out = "bins:T", .types = "Tidx=int32|int64 T=int32|int64|float32|float64",
    .doc = "bins[v] is how often v occurs in arr, or the sum of the weights there; weights may be empty. Values of "
    "size or more are left "
           "out; negative ones are an error.",
    .example = "df.bincount({1, 2, 1}, 3, df.int32({}))  --> {0, 2, 1}", .shape = shape_bincount, .grad = grad_bincount,
    KERNELS(bincount) },
  { .type = "ReducedShape", .hosted = true,
    .in = "shape:T axes:Tidx", .out = "output:T", .types = "T=int32|int64 Tidx=int32|int64",
    .doc = "A shape with ones at the axes.", .shape = dfi_shape_same, .no_grad = true, KERNEL(reduced_shape) },
  { .type = "ReducedCount", .hosted = true,
    .in = "shape:T axes:Tidx", .out = "output:int64", .types = "T=int32|int64 Tidx=int32|int64",
    .doc = "The product of a shape's dimensions at the axes.", .shape = dfi_shape_all_scalar, .no_grad = true,
    KERNEL(reduced_count) },
};
const dfi_op_table dfi_ops_reduce = { ops, sizeof ops / sizeof *ops };
