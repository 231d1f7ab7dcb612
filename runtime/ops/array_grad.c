/* array_grad.c: gradients of the array family.
 *
 * An op that moves elements has as its gradient the op that moves them back, so every one of these is differentiable as
 * often as one likes. What is known while building (a perm, an axis, sizes, shapes) becomes a constant, so that nothing
 * need be saved for it; where a shape is needed its dims are asked for, never the value.
 */
#include "ops/array.h"

/* ---- shared ------------------------------------------------------------------------------------------------------ */
#define AXES(...) ((int64_t[]){ __VA_ARGS__ })

static const df_tensor *known(df_output o) { return o.node ? o.node->out[o.index].constant : NULL; }

/* Input i where its value is known: a constant of this graph position; else the forward value. */
static df_output argument(dfi_grad *g, df_node *n, int32_t i) {
  const df_tensor *t = known(n->in[i]);
  dfi_build *b = dfg_build(g);
  if (!t) return dfg_in(g, n, i);
  dfi_attr_tensor(b, "value", (df_tensor *)t);
  return dfi_opn(b, "Const", 0, NULL);
}

/* A whole number or a list that is known, as an int. */
static int64_t number(const df_tensor *t, int64_t i) { return dfk_index(t, i); }

static df_output as_dtype(dfi_build *b, df_output x, uint8_t dtype) {
  if (!x.node || dfi_dtype(x) == dtype) return x;
  dfi_attr_int(b, "DstT", dtype);
  return dfi_op(b, "Cast", x);
}

/* The axis that input i gives, from the front of `rank`; -1 where it or the rank is not known. */
static int32_t known_axis(df_node *n, int32_t i, int32_t rank) {
  const df_tensor *t = known(n->in[i]);
  if (!t || t->size != 1 || rank < 0) return -1;
  int64_t a = number(t, 0);
  return (int32_t)(a < 0 ? a + rank : a);
}

df_output dfi_grad_like_in(dfi_grad *g, df_node *n, int32_t i, df_output dz) {
  dfi_build *b = dfg_build(g);
  const dfi_shape *want = dfi_shape_at(n->in[i]);
  if (!dz.node) return DFI_NONE;
  if (dfi_shape_known(want) && dfi_shape_equal(want, dfi_shape_at(dz))) return dz;
  int32_t open = 0;
  bool empty = false;
  for (int32_t d = 0; d < want->rank; d++) {
    open += want->dims[d] < 0;
    empty = empty || want->dims[d] == 0;
  }
  /* one unknown dim is what -1 is for: no shape need be saved */
  if (want->rank >= 0 && open <= 1 && !(open && empty))
    return dfi_op(b, "Reshape", dz, dfi_const_ints(b, want->rank, want->dims));
  return dfi_op(b, "Reshape", dz, dfg_in_shape(g, n, i));
}

static df_output zeros(dfi_grad *g, df_output shape, uint8_t dtype) {
  dfi_build *b = dfg_build(g);
  return dfi_op(b, "Fill", shape, dfi_const(b, dtype, 0));
}
df_output dfi_grad_zeros_out(dfi_grad *g, df_node *n, int32_t i) {
  return zeros(g, dfg_out_shape(g, n, i), n->out[i].dtype);
}
df_output dfi_grad_zeros_like(dfi_grad *g, df_node *n, int32_t i) {
  return zeros(g, dfg_in_shape(g, n, i), dfi_dtype(n->in[i]));
}

df_output dfi_grad_sum_all(dfi_grad *g, df_output x) {
  dfi_build *b = dfg_build(g);
  if (!x.node) return DFI_NONE;
  int32_t rank = dfi_shape_at(x)->rank;
  if (rank == 0) return x;
  int64_t axes[DF_MAX_RANK] = { 0, 1, 2, 3, 4, 5, 6, 7 };
  df_output all = rank > 0 ? dfi_const_ints(b, rank, axes)
                           : dfi_op(b, "Range", dfi_const_int(b, 0), dfi_op(b, "Rank", x), dfi_const_int(b, 1));
  return dfi_op(b, "Sum", x, all);
}

/* dy[i], or zeros where no gradient came. */
static df_output or_zeros(dfi_grad *g, df_node *n, const df_output *dy, int32_t i) {
  return dy[i].node ? dy[i] : dfi_grad_zeros_out(g, n, i);
}
/* dy of all outputs in a list of n->nout + 1; NULL when there is none at all. The caller frees it. */
static df_output *all_or_zeros(dfi_grad *g, df_node *n, const df_output *dy) {
  bool any = false;
  for (int32_t i = 0; i < n->nout; i++) any = any || dy[i].node;
  if (!any) return NULL;
  df_output *list = dfi_xmalloc(sizeof *list * ((size_t)n->nout + 1));
  for (int32_t i = 0; i < n->nout; i++) list[i] = or_zeros(g, n, dy, i);
  return list;
}

/* ---- reshape, transpose ------------------------------------------------------------------------------------------ */
int32_t dfi_grad_reshape(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dfi_grad_like_in(g, n, 0, dy[0]);
  return dfg_end(g);
}

int32_t dfi_grad_transpose(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const df_tensor *perm = known(n->in[1]);
  df_output back;
  if (perm && perm->size <= DF_MAX_RANK) {
    int64_t inverse[DF_MAX_RANK];
    for (int64_t d = 0; d < perm->size; d++) {
      int64_t from = number(perm, d);
      inverse[from < 0 ? from + perm->size : from] = d;
    }
    back = dfi_const_ints(b, (int32_t)perm->size, inverse);
  } else {
    df_output p = dfg_in(g, n, 1);
    df_output rank = as_dtype(b, dfi_op(b, "Size", p), p.node ? dfi_dtype(p) : DF_INT32);
    back = dfi_op(b, "InvertPermutation", dfi_op(b, "FloorMod", p, rank)); /* negative entries count from the end */
  }
  dx[0] = dfi_op(b, "Transpose", dy[0], back);
  return dfg_end(g);
}

/* ---- concat, split, pack, unpack --------------------------------------------------------------------------------- */
/* The slice of dy that is value i, where everything about it is known. */
static df_output cut(dfi_grad *g, df_node *n, df_output dy, int32_t axis, int32_t i, int64_t begin) {
  dfi_build *b = dfg_build(g);
  const dfi_shape *s = dfi_shape_at(n->in[i]);
  int64_t from[DF_MAX_RANK] = { 0 }, size[DF_MAX_RANK];
  for (int32_t d = 0; d < s->rank; d++) size[d] = s->dims[d]; /* unknown ones are -1: all there is */
  from[axis] = begin;
  return dfi_op(b, "Slice", dy, dfi_const_ints(b, s->rank, from), dfi_const_ints(b, s->rank, size));
}

/* The sizes of the values along the axis, int32[values]. */
static df_output sizes_along(dfi_grad *g, df_node *n, int32_t values, int32_t axis) {
  dfi_build *b = dfg_build(g);
  df_output *list = dfi_xmalloc(sizeof *list * (size_t)values);
  for (int32_t i = 0; i < values; i++) {
    if (axis >= 0) {
      list[i] = dfg_in_dim(g, n, i, axis);
      continue;
    }
    df_output shape = dfg_in_shape(g, n, i), at = as_dtype(b, dfg_in(g, n, values), DF_INT32);
    df_output rank = dfi_op(b, "Size", shape);
    list[i] = dfi_op(b, "GatherV2", shape, dfi_op(b, "FloorMod", at, rank), dfi_const_int(b, 0));
  }
  df_output sizes = dfi_opn(b, "Pack", values, list);
  dfi_free(list);
  return sizes;
}

int32_t dfi_grad_concat(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  int32_t values = n->nin - 1, wanted = 0, last = -1, rank = -1;
  for (int32_t i = 0; i < values; i++) {
    const dfi_shape *s = dfi_shape_at(n->in[i]);
    if (s->rank > 0) rank = s->rank;
    if (!dfg_wants(g, n, i)) continue;
    wanted++;
    last = i;
  }
  if (values == 1) { dx[0] = dy[0]; return dfg_end(g); }
  if (!wanted) return dfg_end(g);
  int32_t axis = known_axis(n, values, rank), before = axis < 0 ? -1 : 0; /* how many sizes are known from the front */
  int64_t *size = dfi_xmalloc(sizeof *size * (size_t)values), begin = 0;
  while (before >= 0 && before < values) {
    const dfi_shape *s = dfi_shape_at(n->in[before]);
    if (s->rank < 0 || s->dims[axis] < 0) break;
    size[before++] = s->dims[axis];
  }
  if (2 * wanted <= values && before > last) { /* few are wanted: cut those out */
    for (int32_t i = 0; i < values; i++) {
      if (dfg_wants(g, n, i)) dx[i] = cut(g, n, dy[0], axis, i, begin);
      begin += size[i];
      if (i == last) break;
    }
  } else {
    df_output sizes = before == values ? dfi_const_ints(b, values, size) : sizes_along(g, n, values, axis);
    df_output in[] = { dy[0], sizes, axis >= 0 ? dfi_const_int(b, axis) : as_dtype(b, dfg_in(g, n, values), DF_INT32) };
    dfi_attr_int(b, "num_split", values);
    df_node *parts = dfi_opnode(b, "SplitV", 3, in);
    for (int32_t i = 0; parts && i < values; i++)
      if (dfg_wants(g, n, i)) dx[i] = (df_output){ parts, i };
  }
  dfi_free(size);
  return dfg_end(g);
}

/* Joins what came for the parts along the axis that input `axis` gives. */
static int32_t join(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx, int32_t value, int32_t axis) {
  dfi_build *b = dfg_build(g);
  if (n->nout == 1) { dx[value] = dy[0]; return dfg_end(g); }
  df_output *list = all_or_zeros(g, n, dy);
  if (!list) return dfg_end(g);
  list[n->nout] = argument(g, n, axis);
  dx[value] = dfi_opn(b, "ConcatV2", n->nout + 1, list);
  dfi_free(list);
  return dfg_end(g);
}
int32_t dfi_grad_split(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) { return join(g, n, dy, dx, 1, 0); }
int32_t dfi_grad_split_v(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  return join(g, n, dy, dx, 0, 2);
}

int32_t dfi_grad_pack(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  int32_t wanted = 0;
  for (int32_t i = 0; i < n->nin; i++) wanted += dfg_wants(g, n, i);
  if (4 * wanted <= n->nin) { /* few are wanted: pick those out */
    for (int32_t i = 0; i < n->nin; i++)
      if (dfg_wants(g, n, i))
        dx[i] = dfi_op(b, "GatherV2", dy[0], dfi_const_int(b, i), dfi_const_int(b, n->attrs[0].i));
    return dfg_end(g);
  }
  dfi_attr_int(b, "num", n->nin);
  dfi_attr_int(b, "axis", n->attrs[0].i);
  df_node *parts = dfi_opnode(b, "Unpack", 1, dy);
  for (int32_t i = 0; parts && i < n->nin; i++) dx[i] = (df_output){ parts, i };
  return dfg_end(g);
}

int32_t dfi_grad_unpack(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output *list = all_or_zeros(g, n, dy);
  if (!list) return dfg_end(g);
  dfi_attr_int(b, "axis", n->attrs[1].i);
  dx[0] = dfi_opn(b, "Pack", n->nout, list);
  dfi_free(list);
  return dfg_end(g);
}

/* ---- slices ------------------------------------------------------------------------------------------------------ */
static bool same_context(df_node *a, df_node *b) { return a->context == b->context; }

/* A begin, end or strides vector. One that was put together of scalars is put together again, so that a scalar is saved
 * and not a vector: for x[i] in a loop that is i. */
static df_output slice_vector(dfi_grad *g, df_node *n, int32_t i) {
  df_node *from = n->in[i].node;
  dfi_build *b = dfg_build(g);
  if (known(n->in[i])) return argument(g, n, i);
  if (strcmp(dfi_op_info_at(from->op)->op->type, "Pack") || from->nin > 2 * DF_MAX_RANK || !same_context(from, n) ||
      dfi_shape_at(from->in[0])->rank != 0)
    return dfg_in(g, n, i);
  df_output list[2 * DF_MAX_RANK];
  for (int32_t j = 0; j < from->nin; j++) list[j] = argument(g, from, j);
  return dfi_opn(b, "Pack", from->nin, list);
}

static void copy_masks(dfi_build *b, df_node *n) {
  static const char *const names[] = { "begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask" };
  for (int32_t i = 0; i < 5; i++)
    if (n->attrs[i].i) dfi_attr_int(b, names[i], n->attrs[i].i);
}

/* begin, end and strides of n, from its inputs at, at + 1, at + 2. Where every entry takes one element the end means
   nothing. */
static void slice_vectors(dfi_grad *g, df_node *n, int32_t at, df_output *v) {
  const dfi_shape *s = dfi_shape_at(n->in[at]);
  int64_t length = s->rank == 1 ? s->dims[0] : -1, all = length >= 0 && length < 32 ? (1ll << length) - 1 : -1;
  v[0] = slice_vector(g, n, at);
  v[1] = all > 0 && ((n->attrs[4].i | n->attrs[3].i | n->attrs[2].i) & all) == all ? v[0] : slice_vector(g, n, at + 1);
  v[2] = slice_vector(g, n, at + 2);
}

int32_t dfi_grad_slice(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const df_tensor *begin = known(n->in[1]);
  const dfi_shape *part = &n->out[0].shape;
  int64_t from[DF_MAX_RANK], to[DF_MAX_RANK], ones[DF_MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1 };
  df_output v[3];
  if (begin && begin->size <= DF_MAX_RANK && dfi_shape_known(part)) {
    for (int32_t d = 0; d < part->rank; d++) {
      from[d] = number(begin, d);
      to[d] = from[d] + part->dims[d];
    }
    v[0] = dfi_const_ints(b, part->rank, from);
    v[1] = dfi_const_ints(b, part->rank, to);
    v[2] = dfi_const_ints(b, part->rank, ones);
  } else {
    v[0] = slice_vector(g, n, 1);
    if (!v[0].node) return dfg_end(g);
    v[1] = dfi_op(b, "Add", v[0], as_dtype(b, dfg_out_shape(g, n, 0), dfi_dtype(v[0])));
    v[2] = part->rank >= 0 ? as_dtype(b, dfi_const_ints(b, part->rank, ones), dfi_dtype(v[0]))
                           : dfi_op(b, "OnesLike", v[0]);
  }
  dx[0] = dfi_op(b, "StridedSliceGrad", dfg_in_shape(g, n, 0), v[0], v[1], v[2], dy[0]);
  return dfg_end(g);
}

int32_t dfi_grad_strided_slice(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output v[3], shape = dfg_in_shape(g, n, 0);
  slice_vectors(g, n, 1, v);
  copy_masks(b, n);
  dx[0] = dfi_op(b, "StridedSliceGrad", shape, v[0], v[1], v[2], dy[0]);
  return dfg_end(g);
}

int32_t dfi_grad_strided_slice_grad(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output v[3];
  slice_vectors(g, n, 1, v);
  copy_masks(b, n);
  dx[4] = dfi_op(b, "StridedSlice", dy[0], v[0], v[1], v[2]);
  return dfg_end(g);
}

/* ---- tiles, pads ------------------------------------------------------------------------------------------------- */
/* dy as [times, dim, times, dim, …], summed over the times. */
int32_t dfi_grad_tile(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const df_tensor *times = known(n->in[1]);
  const dfi_shape *x = dfi_shape_at(n->in[0]);
  int64_t dims[2 * DF_MAX_RANK], axes[DF_MAX_RANK];
  int32_t rank = 0, sums = 0, open = 0;
  bool some = true;
  for (int32_t d = 0; times && d < x->rank; d++) {
    if (number(times, d) != 1) {
      axes[sums++] = rank;
      dims[rank++] = number(times, d);
    }
    open += x->dims[d] < 0;
    some = some && x->dims[d] != 0 && number(times, d) != 0;
    dims[rank++] = x->dims[d];
  }
  if (times && x->rank >= 0 && sums == 0) {
    dx[0] = dy[0];
  } else if (times && x->rank >= 0 && rank <= DF_MAX_RANK && (open == 0 || (open == 1 && some))) {
    dx[0] = dfi_op(b, "Sum", dfi_op(b, "Reshape", dy[0], dfi_const_ints(b, rank, dims)), dfi_const_ints(b, sums, axes));
  } else if (n->out[0].shape.rank > DF_MAX_RANK / 2) { /* too many dims to lay apart at once: one after the other */
    df_output sum = dy[0], multiples = argument(g, n, 1), zero = dfi_const_int(b, 0);
    for (int32_t d = 0; d < n->out[0].shape.rank; d++) {
      df_output m = as_dtype(b, dfi_op(b, "GatherV2", multiples, dfi_const_int(b, d), zero), DF_INT32);
      /* [before…, times, dim, after…] needs rank + 1 dims, so what lies before and after is folded into one each */
      df_output shape = dfi_op(b, "Shape", sum), one = dfi_const_ints(b, 1, AXES(1));
      df_output head = dfi_op(b, "Slice", shape, dfi_const_ints(b, 1, AXES(0)), dfi_const_ints(b, 1, AXES(d)));
      df_output tail = dfi_op(b, "Slice", shape, dfi_const_ints(b, 1, AXES(d + 1)), dfi_const_ints(b, 1, AXES(-1)));
      df_output dim = dfg_in_dim(g, n, 0, d), axis0 = dfi_const_ints(b, 1, AXES(0));
      df_output four = dfi_op(b, "Pack", dfi_op(b, "Prod", head, axis0), m, dim, dfi_op(b, "Prod", tail, axis0));
      df_output added = dfi_op(b, "Sum", dfi_op(b, "Reshape", sum, four), one);
      df_output back = dfi_op(b, "ConcatV2", head, dfi_op(b, "Reshape", dim, one), tail, zero);
      sum = dfi_op(b, "Reshape", added, back);
    }
    dx[0] = dfi_grad_like_in(g, n, 0, sum);
  } else {
    df_output shape = dfg_in_shape(g, n, 0), m = as_dtype(b, argument(g, n, 1), DF_INT32), zero = dfi_const_int(b, 0);
    dfi_attr_int(b, "axis", 1);
    df_output both = dfi_op(b, "Pack", m, shape);
    df_output pairs = dfi_op(b, "Reshape", both, dfi_const_ints(b, 1, AXES(-1)));
    df_output even = dfi_op(b, "Range", zero, dfi_op(b, "Size", pairs), dfi_const_int(b, 2));
    dx[0] = dfi_grad_like_in(g, n, 0, dfi_op(b, "Sum", dfi_op(b, "Reshape", dy[0], pairs), even));
  }
  return dfg_end(g);
}

int32_t dfi_grad_pad(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const df_tensor *pads = known(n->in[1]);
  const dfi_shape *x = dfi_shape_at(n->in[0]);
  df_output begin, size;
  if (pads && pads->rank == 2 && pads->dims[0] <= DF_MAX_RANK) {
    int64_t from[DF_MAX_RANK], count[DF_MAX_RANK];
    bool all = x->rank == pads->dims[0];
    for (int32_t d = 0; d < pads->dims[0]; d++) {
      from[d] = number(pads, 2 * d);
      count[d] = x->rank >= 0 ? x->dims[d] : -1;
      if (count[d] < 0 && number(pads, 2 * d + 1) != 0) all = false; /* -1 says "to the end" */
    }
    begin = dfi_const_ints(b, (int32_t)pads->dims[0], from);
    size = all ? dfi_const_ints(b, (int32_t)pads->dims[0], count) : dfg_in_shape(g, n, 0);
  } else {
    df_output p = dfg_in(g, n, 1);
    df_output first = dfi_op(b, "Slice", p, dfi_const_ints(b, 2, AXES(0, 0)), dfi_const_ints(b, 2, AXES(-1, 1)));
    begin = as_dtype(b, dfi_op(b, "Reshape", first, dfi_const_ints(b, 1, AXES(-1))), DF_INT32);
    size = dfg_in_shape(g, n, 0);
  }
  dx[0] = dfi_op(b, "Slice", dy[0], begin, size);
  if (n->nin > 2 && dfg_wants(g, n, 2))
    dx[2] = dfi_op(b, "Sub", dfi_grad_sum_all(g, dy[0]), dfi_grad_sum_all(g, dx[0]));
  return dfg_end(g);
}

int32_t dfi_grad_mirror_pad(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output pads = argument(g, n, 1);
  dfi_attr_string(b, "mode", n->attrs[0].s);
  dx[0] = dfi_op(b, "MirrorPadGrad", dy[0], pads);
  return dfg_end(g);
}
int32_t dfi_grad_mirror_pad_grad(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output pads = argument(g, n, 1);
  dfi_attr_string(b, "mode", n->attrs[0].s);
  dx[0] = dfi_op(b, "MirrorPad", dy[0], pads);
  return dfg_end(g);
}

/* ---- reversals, rolls, broadcasts -------------------------------------------------------------------------------- */
int32_t dfi_grad_reverse(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dfi_op(dfg_build(g), "ReverseV2", dy[0], argument(g, n, 1));
  return dfg_end(g);
}
int32_t dfi_grad_reverse_sequence(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output lengths = argument(g, n, 1);
  dfi_attr_int(b, "seq_dim", n->attrs[0].i);
  dfi_attr_int(b, "batch_dim", n->attrs[1].i);
  dx[0] = dfi_op(b, "ReverseSequence", dy[0], lengths);
  return dfg_end(g);
}
int32_t dfi_grad_roll(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  dx[0] = dfi_op(b, "Roll", dy[0], dfi_op(b, "Neg", argument(g, n, 1)), argument(g, n, 2));
  return dfg_end(g);
}
/* What is not known of the input may be 1: no other operand says so. */
int32_t dfi_grad_broadcast_to(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  const dfi_shape *x = dfi_shape_at(n->in[0]);
  if (dfi_shape_known(x)) dx[0] = dfg_unbroadcast(g, n, 0, dy[0]);
  else dx[0] = dfi_op(dfg_build(g), "SumToShape", dy[0], dfg_in_shape(g, n, 0));
  if (dx[0].node && !dfi_shape_known(x)) dx[0].node->out[0].shape = *x;
  return dfg_end(g);
}

/* ---- fills, ranges ----------------------------------------------------------------------------------------------- */
int32_t dfi_grad_fill(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[1] = dfi_grad_sum_all(g, dy[0]);
  return dfg_end(g);
}

/* Element i is start + i * delta; the limit only says how many there are. */
int32_t dfi_grad_range(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  if (dfg_wants(g, n, 0)) dx[0] = dfi_grad_sum_all(g, dy[0]);
  if (dfg_wants(g, n, 2)) {
    df_output size = dfi_op(b, "Size", dy[0]);
    df_output i = as_dtype(b, dfi_op(b, "Range", dfi_const_int(b, 0), size, dfi_const_int(b, 1)), n->out[0].dtype);
    dx[2] = dfi_grad_sum_all(g, dfi_op(b, "Mul", dy[0], i));
  }
  return dfg_end(g);
}

/* Element i is (1 - w) * start + w * stop, w going from 0 to 1. */
int32_t dfi_grad_lin_space(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  df_output zero = dfi_const(b, n->out[0].dtype, 0), one = dfi_const(b, n->out[0].dtype, 1);
  df_output w = dfi_op(b, "LinSpace", zero, one, dfi_op(b, "Size", dy[0]));
  df_output to_stop = dfi_grad_sum_all(g, dfi_op(b, "Mul", dy[0], w));
  if (dfg_wants(g, n, 0)) dx[0] = dfi_op(b, "Sub", dfi_grad_sum_all(g, dy[0]), to_stop);
  dx[1] = to_stop;
  return dfg_end(g);
}

/* ---- diagonals, checks ------------------------------------------------------------------------------------------- */
int32_t dfi_grad_diag(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dfi_op(dfg_build(g), "DiagPart", dy[0]);
  return dfg_end(g);
}
int32_t dfi_grad_diag_part(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dx[0] = dfi_op(dfg_build(g), "Diag", dy[0]);
  return dfg_end(g);
}
int32_t dfi_grad_matrix_set_diag(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  if (dfg_wants(g, n, 0)) dx[0] = dfi_op(b, "MatrixSetDiag", dy[0], dfi_grad_zeros_like(g, n, 1));
  if (dfg_wants(g, n, 1)) dx[1] = dfi_op(b, "MatrixDiagPart", dy[0]);
  return dfg_end(g);
}
int32_t dfi_grad_check_numerics(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  dfi_attr_string(b, "message", "in the gradient");
  dx[0] = dfi_op(b, "CheckNumerics", dy[0]);
  return dfg_end(g);
}
