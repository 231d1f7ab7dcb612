/* array_shape.c: what is known of the results of array ops before anything runs. A dim or rank that cannot be known
 * stays -1; what is wrong already is an error here, with the shapes and the range that would do.
 */
#include "ops/array.h"
#include <math.h>

/* ---- shared -------------------------------------------------------------------------------------------------- */
int32_t dfi_infer_axis_value(dfi_infer *c, int64_t v, int32_t rank, const char *what, int32_t *axis) {
  if (rank < 0) return 0;
  if (v < -rank || v >= rank) {
    if (rank == 0) dfi_infer_fail(c, "%s is %lld for a scalar: expected rank 1 or more", what, (long long)v);
    else
      dfi_infer_fail(c, "%s %lld is out of range for rank %d: expected one in [%d, %d)", what, (long long)v, rank,
                     -rank, rank);
    return -1;
  }
  *axis = (int32_t)(v < 0 ? v + rank : v);
  return 1;
}

int32_t dfi_infer_axis(dfi_infer *c, int32_t i, int32_t rank, const char *what, int32_t *axis) {
  const df_tensor *t = dfi_in_const(c, i);
  if (!t) return 0;
  if (t->size != 1) {
    dfi_infer_fail(c, "%s has %lld elements: expected 1", what, (long long)t->size);
    return -1;
  }
  return dfi_infer_axis_value(c, dfk_index(t, 0), rank, what, axis);
}

int32_t dfi_infer_rank(dfi_infer *c, int32_t i, int32_t rank, const char *what) {
  const dfi_shape *s = dfi_in_shape(c, i);
  char text[160];
  if (s->rank < 0 || s->rank == rank) return DF_OK;
  dfi_typed_shape_text(dfi_in_dtype(c, i), s, text);
  if (rank == 0) return dfi_infer_fail(c, "%s is %s: expected a scalar", what, text);
  if (rank == 1) return dfi_infer_fail(c, "%s is %s: expected a vector", what, text);
  return dfi_infer_fail(c, "%s is %s: expected rank %d", what, text, rank);
}

int32_t dfi_infer_open(dfi_infer *c, int32_t out, int32_t rank) {
  if (rank > DF_MAX_RANK)
    return dfi_infer_fail(c, "the result would have %d dimensions: expected at most %d", rank, DF_MAX_RANK);
  dfi_shape s = { .rank = (int8_t)rank };
  for (int32_t d = 0; d < rank; d++) s.dims[d] = -1;
  *dfi_set_shape(c, out) = s;
  return DF_OK;
}

/* ---- shapes as values ------------------------------------------------------------------------------------------ */
int32_t dfi_infer_shape(dfi_infer *c) {
  for (int32_t i = 0; i < c->node->nout; i++) *dfi_set_shape(c, i) = dfi_shape_vector(dfi_in_shape(c, i)->rank);
  return DF_OK;
}
int32_t dfi_infer_scalar(dfi_infer *c) {
  *dfi_set_shape(c, 0) = dfi_shape_scalar();
  return DF_OK;
}

/* The shape that input i spells, checked: a vector, no more than DF_MAX_RANK entries, none negative where the value is
 * known (-1 is let through where `open` says so). */
static int32_t spelled(dfi_infer *c, int32_t i, const char *what, bool open, dfi_shape *out) {
  const df_tensor *t = dfi_in_const(c, i);
  const dfi_shape *s = dfi_in_shape(c, i);
  int32_t code = dfi_infer_rank(c, i, 1, what);
  if (code) return code;
  if (s->rank == 1 && s->dims[0] > DF_MAX_RANK)
    return dfi_infer_fail(c, "%s has %lld dimensions: expected at most %d", what, (long long)s->dims[0], DF_MAX_RANK);
  for (int64_t d = 0; t && d < t->size; d++)
    if (dfk_index(t, d) < (open ? -1 : 0))
      return dfi_infer_fail(c, "%s[%lld] is %lld: expected 0 or more%s", what, (long long)d,
                            (long long)dfk_index(t, d), open ? ", or -1" : "");
  *out = dfi_in_as_shape(c, i);
  if (out->rank < 0 && s->rank == 1 && s->dims[0] >= 0) {
    out->rank = (int8_t)s->dims[0];
    for (int32_t d = 0; d < out->rank; d++) out->dims[d] = -1;
  }
  return DF_OK;
}

/* The product of the dimensions above 0: where both shapes are empty, what -1 stands for is found by it. */
static int64_t positive(const dfi_shape *s) {
  int64_t n = 1;
  for (int32_t d = 0; d < s->rank; d++) n *= s->dims[d] > 0 ? s->dims[d] : 1;
  return n;
}

int32_t dfi_infer_reshape(dfi_infer *c) {
  const df_tensor *t = dfi_in_const(c, 1);
  int64_t size = dfi_shape_size(dfi_in_shape(c, 0)), known = 1, open = -1, opens = 0;
  dfi_shape to;
  char text[160], other[160];
  int32_t code = spelled(c, 1, "shape", true, &to);
  if (code) return code;
  *dfi_set_shape(c, 0) = to;
  if (to.rank < 0) return DF_OK;
  for (int32_t d = 0; d < to.rank; d++) {
    if (to.dims[d] >= 0) {
      if (__builtin_mul_overflow(known, to.dims[d], &known))
        return dfi_infer_fail(c, "the shape %s is too large", dfi_shape_text(&to, text));
      continue;
    }
    if (t && opens > 0)
      return dfi_infer_fail(c, "shape has -1 at %lld and at %d: expected one at most", (long long)open, d);
    open = d;
    opens++;
  }
  if (size < 0 || opens > 1) return DF_OK;
  if (opens == 0 && known != size)
    return dfi_infer_fail(c, "%s has %lld elements, but the shape %s has %lld", dfi_in_text(c, 0, text),
                          (long long)size, dfi_shape_text(&to, other), (long long)known);
  if (opens == 0) return DF_OK;
  if (known == 0 ? size != 0 : size % known != 0)
    return dfi_infer_fail(c, "%s has %lld elements, which is no multiple of the %lld that the shape %s asks for",
                          dfi_in_text(c, 0, text), (long long)size, (long long)known, dfi_shape_text(&to, other));
  if (known > 0) dfi_set_shape(c, 0)->dims[open] = size / known;
  else if (t) dfi_set_shape(c, 0)->dims[open] = positive(dfi_in_shape(c, 0)) / positive(&to);
  return DF_OK;
}

int32_t dfi_infer_expand_dims(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0);
  int32_t axis, known = dfi_infer_axis(c, 1, x->rank < 0 ? -1 : x->rank + 1, "dim", &axis);
  if (known < 0) return c->error->code;
  if (x->rank < 0) return DF_OK;
  int32_t code = dfi_infer_open(c, 0, x->rank + 1);
  if (code || !known) return code;
  for (int32_t d = 0, from = 0; d <= x->rank; d++) dfi_set_shape(c, 0)->dims[d] = d == axis ? 1 : x->dims[from++];
  return DF_OK;
}

int32_t dfi_infer_squeeze(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0);
  const df_attr *list = &c->node->attrs[0];
  uint32_t drop = 0;
  char text[160];
  if (x->rank < 0) return DF_OK;
  for (int64_t i = 0; i < list->i; i++) {
    int32_t axis;
    if (dfi_infer_axis_value(c, list->ints[i], x->rank, "squeeze_dims: axis", &axis) < 0) return c->error->code;
    if (x->dims[axis] >= 0 && x->dims[axis] != 1)
      return dfi_infer_fail(c, "dimension %d of %s is to be squeezed, but is %lld: expected 1", axis,
                            dfi_in_text(c, 0, text), (long long)x->dims[axis]);
    drop |= 1u << axis;
  }
  dfi_shape out = { .rank = 0 };
  for (int32_t d = 0; d < x->rank; d++) {
    if (!list->i && x->dims[d] < 0) return DF_OK; /* it is not known whether it goes */
    if (list->i ? !(drop >> d & 1) : x->dims[d] != 1) out.dims[out.rank++] = x->dims[d];
  }
  *dfi_set_shape(c, 0) = out;
  return DF_OK;
}

int32_t dfi_infer_transpose(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0), *p = dfi_in_shape(c, 1);
  const df_tensor *perm = dfi_in_const(c, 1);
  char text[160];
  int32_t code = dfi_infer_rank(c, 1, 1, "perm"), rank = x->rank;
  if (code) return code;
  if (rank < 0 && p->rank == 1) rank = (int32_t)(p->dims[0] > DF_MAX_RANK ? DF_MAX_RANK + 1 : p->dims[0]);
  if (rank < 0) return DF_OK;
  if (x->rank >= 0 && p->rank == 1 && p->dims[0] >= 0 && p->dims[0] != x->rank)
    return dfi_infer_fail(c, "perm has %lld entries for %s: expected %d", (long long)p->dims[0],
                          dfi_in_text(c, 0, text), x->rank);
  if ((code = dfi_infer_open(c, 0, rank)) || !perm) return code;
  uint32_t seen = 0;
  for (int32_t d = 0; d < rank; d++) {
    int32_t axis;
    if (dfi_infer_axis_value(c, dfk_index(perm, d), rank, "perm: axis", &axis) < 0) return c->error->code;
    if (seen >> axis & 1) return dfi_infer_fail(c, "perm names dimension %d twice", axis);
    seen |= 1u << axis;
    if (x->rank >= 0) dfi_set_shape(c, 0)->dims[d] = x->dims[axis];
  }
  return DF_OK;
}

/* ---- concat, split, pack, unpack --------------------------------------------------------------------------------- */
int32_t dfi_infer_concat(dfi_infer *c) {
  int32_t n = c->node->nin - 1, rank = -1, first = -1, axis, known;
  char one[160], other[160];
  if (n == 0) return dfi_infer_fail(c, "concat was given no values: expected one or more");
  for (int32_t i = 0; i < n; i++) {
    const dfi_shape *s = dfi_in_shape(c, i);
    if (s->rank < 0) continue;
    if (s->rank == 0)
      return dfi_infer_fail(c, "values[%d] is a scalar: expected rank 1 or more (stack takes scalars)", i);
    if (first >= 0 && s->rank != rank)
      return dfi_infer_fail(c, "values[%d] is %s and values[%d] is %s: expected the same rank", first,
                            dfi_in_text(c, first, one), i, dfi_in_text(c, i, other));
    if (first < 0) first = i;
    rank = s->rank;
  }
  if ((known = dfi_infer_axis(c, n, rank, "axis", &axis)) < 0) return c->error->code;
  if (n == 1) {
    *dfi_set_shape(c, 0) = *dfi_in_shape(c, 0);
    return DF_OK;
  }
  if (rank < 0) return DF_OK;
  dfi_infer_open(c, 0, rank);
  if (!known) return DF_OK;
  dfi_shape all = *dfi_set_shape(c, 0);
  int64_t sum = 0;
  for (int32_t i = 0; i < n; i++) {
    dfi_shape s = *dfi_in_shape(c, i);
    if (s.rank < 0) { sum = -1; continue; }
    sum = sum < 0 || s.dims[axis] < 0 ? -1 : sum + s.dims[axis];
    s.dims[axis] = -1;
    if (!dfi_shape_merge(&all, &s, &all))
      return dfi_infer_fail(c, "values[%d] is %s and values[%d] is %s: expected the same dimensions but for axis %d",
                            first, dfi_in_text(c, first, one), i, dfi_in_text(c, i, other), axis);
  }
  all.dims[axis] = sum;
  *dfi_set_shape(c, 0) = all;
  return DF_OK;
}

int32_t dfi_infer_concat_offset(dfi_infer *c) {
  if (c->node->nin < 2) return dfi_infer_fail(c, "no shapes were given, at least one is expected");
  for (int32_t i = 0; i < c->node->nout; i++) {
    const dfi_shape *shape = dfi_in_shape(c, 1 + i);
    if (shape->rank >= 0 && shape->rank != 1)
      return dfi_infer_fail(c, "shape[%d] has rank %d: expected a vector, the shape of an array", i, shape->rank);
    *dfi_set_shape(c, i) = *shape;
  }
  return DF_OK;
}

static int32_t all_parts_open(dfi_infer *c, int32_t rank) {
  for (int32_t i = 0; i < c->node->nout; i++) dfi_infer_open(c, i, rank);
  return DF_OK;
}

int32_t dfi_infer_split(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 1);
  int32_t axis, known = dfi_infer_axis(c, 0, x->rank, "split_dim", &axis), n = c->node->nout;
  char text[160];
  if (known < 0) return c->error->code;
  if (x->rank < 0) return DF_OK;
  if (!known) return all_parts_open(c, x->rank);
  if (x->dims[axis] >= 0 && x->dims[axis] % n)
    return dfi_infer_fail(c, "dimension %d of %s does not split into %d equal parts", axis, dfi_in_text(c, 1, text), n);
  for (int32_t i = 0; i < n; i++) {
    *dfi_set_shape(c, i) = *x;
    if (x->dims[axis] >= 0) dfi_set_shape(c, i)->dims[axis] = x->dims[axis] / n;
  }
  return DF_OK;
}

int32_t dfi_infer_split_v(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0), *s = dfi_in_shape(c, 1);
  const df_tensor *sizes = dfi_in_const(c, 1);
  int32_t axis, known = dfi_infer_axis(c, 2, x->rank, "split_dim", &axis), n = c->node->nout, open = -1;
  int64_t sum = 0;
  char text[160];
  if (known < 0) return c->error->code;
  if (dfi_infer_rank(c, 1, 1, "size_splits")) return c->error->code;
  if (sizes && sizes->size != n)
    return dfi_infer_fail(c, "size_splits has %lld entries for %d outputs", (long long)sizes->size, n);
  if (s->rank == 1 && s->dims[0] >= 0 && s->dims[0] != n)
    return dfi_infer_fail(c, "size_splits has %lld entries for %d outputs", (long long)s->dims[0], n);
  if (x->rank < 0) return DF_OK;
  if (!known) return all_parts_open(c, x->rank);
  dfi_shape partly = dfi_in_as_shape(c, 1); /* sizes that are known one by one, where not all are */
  for (int32_t i = 0; i < n; i++) {
    *dfi_set_shape(c, i) = *x;
    dfi_set_shape(c, i)->dims[axis] = sizes ? dfk_index(sizes, i) : partly.rank == n ? partly.dims[i] : -1;
    if (!sizes) continue;
    int64_t size = dfk_index(sizes, i);
    if (size < -1 || (size == -1 && open >= 0))
      return dfi_infer_fail(c, "size_splits[%d] is %lld: expected 0 or more, or one -1", i, (long long)size);
    if (size == -1) open = i;
    else sum += size;
  }
  if (!sizes || x->dims[axis] < 0) return DF_OK;
  if (open >= 0 ? sum > x->dims[axis] : sum != x->dims[axis])
    return dfi_infer_fail(c, "size_splits add up to %lld, but dimension %d of %s is %lld", (long long)sum, axis,
                          dfi_in_text(c, 0, text), (long long)x->dims[axis]);
  if (open >= 0) dfi_set_shape(c, open)->dims[axis] = x->dims[axis] - sum;
  return DF_OK;
}

int32_t dfi_infer_pack(dfi_infer *c) {
  dfi_shape s = dfi_shape_unknown();
  int32_t axis, n = c->node->nin, first = -1;
  char one[160], other[160];
  if (n == 0) return dfi_infer_fail(c, "stack was given no values: expected one or more");
  for (int32_t i = 0; i < n; i++) {
    if (!dfi_shape_merge(&s, dfi_in_shape(c, i), &s))
      return dfi_infer_fail(c, "values[%d] is %s and values[%d] is %s: expected one shape", first,
                            dfi_in_text(c, first, one), i, dfi_in_text(c, i, other));
    if (first < 0 && s.rank >= 0) first = i;
  }
  if (s.rank < 0) return DF_OK;
  if (dfi_infer_axis_value(c, c->node->attrs[0].i, s.rank + 1, "axis", &axis) < 0) return c->error->code;
  int32_t code = dfi_infer_open(c, 0, s.rank + 1);
  if (code) return code;
  for (int32_t d = 0, from = 0; d <= s.rank; d++) dfi_set_shape(c, 0)->dims[d] = d == axis ? n : s.dims[from++];
  return DF_OK;
}

int32_t dfi_infer_unpack(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0);
  int32_t axis, n = c->node->nout;
  char text[160];
  if (x->rank < 0) return DF_OK;
  if (dfi_infer_axis_value(c, c->node->attrs[1].i, x->rank, "axis", &axis) < 0) return c->error->code;
  if (x->dims[axis] >= 0 && x->dims[axis] != n)
    return dfi_infer_fail(c, "%s is to be taken apart into %d values along axis %d: expected that dimension to be %d",
                          dfi_in_text(c, 0, text), n, axis, n);
  dfi_shape out = { .rank = 0 };
  for (int32_t d = 0; d < x->rank; d++)
    if (d != axis) out.dims[out.rank++] = x->dims[d];
  for (int32_t i = 0; i < n; i++) *dfi_set_shape(c, i) = out;
  return DF_OK;
}

/* ---- fills, ranges, broadcasts ----------------------------------------------------------------------------------- */
int32_t dfi_infer_fill(dfi_infer *c) {
  int32_t code = spelled(c, 0, "dims", false, dfi_set_shape(c, 0));
  return code ? code : dfi_infer_rank(c, 1, 0, "value");
}

static double number_at(const df_tensor *t) {
  return t->dtype == DF_FLOAT32   ? *(const float *)t->data
         : t->dtype == DF_FLOAT64 ? *(const double *)t->data
                                  : (double)dfk_index(t, 0);
}

int32_t dfi_infer_range(dfi_infer *c) {
  static const char *const names[] = { "start", "limit", "delta" };
  const df_tensor *t[3];
  int32_t code;
  *dfi_set_shape(c, 0) = dfi_shape_vector(-1);
  for (int32_t i = 0; i < 3; i++) {
    if ((code = dfi_infer_rank(c, i, 0, names[i]))) return code;
    t[i] = dfi_in_const(c, i);
  }
  if (t[2] && number_at(t[2]) == 0) return dfi_infer_fail(c, "delta is 0: expected a step");
  if (!t[0] || !t[1] || !t[2]) return DF_OK;
  double start = number_at(t[0]), limit = number_at(t[1]), delta = number_at(t[2]);
  if (delta > 0 ? start > limit : start < limit)
    return dfi_infer_fail(c, "a range from %g to %g by %g: expected start %s limit", start, limit, delta,
                          delta > 0 ? "<=" : ">=");
  double n;
  if (t[0]->dtype == DF_FLOAT32) n = ceilf(fabsf(((float)limit - (float)start) / (float)delta));
  else if (t[0]->dtype == DF_FLOAT64) n = ceil(fabs((limit - start) / delta));
  else {
    int64_t a = dfk_index(t[0], 0), b = dfk_index(t[1], 0), by = dfk_index(t[2], 0);
    uint64_t span = by > 0 ? (uint64_t)b - (uint64_t)a : (uint64_t)a - (uint64_t)b,
             step = by > 0 ? (uint64_t)by : 0 - (uint64_t)by;
    n = (double)(span / step + (span % step != 0));
  }
  if (n < 1e15) *dfi_set_shape(c, 0) = dfi_shape_vector((int64_t)n);
  return DF_OK;
}

int32_t dfi_infer_lin_space(dfi_infer *c) {
  static const char *const names[] = { "start", "stop", "num" };
  const df_tensor *num = dfi_in_const(c, 2);
  *dfi_set_shape(c, 0) = dfi_shape_vector(-1);
  for (int32_t i = 0; i < 3; i++) {
    int32_t code = dfi_infer_rank(c, i, 0, names[i]);
    if (code) return code;
  }
  if (!num) return DF_OK;
  if (dfk_index(num, 0) < 1)
    return dfi_infer_fail(c, "num is %lld: expected 1 or more", (long long)dfk_index(num, 0));
  *dfi_set_shape(c, 0) = dfi_shape_vector(dfk_index(num, 0));
  return DF_OK;
}

int32_t dfi_infer_broadcast_to(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0);
  dfi_shape to;
  char text[160], other[160];
  int32_t code = spelled(c, 1, "shape", false, &to);
  if (code) return code;
  bool fits = to.rank < 0 || x->rank <= to.rank;
  for (int32_t d = 1; fits && to.rank >= 0 && d <= x->rank; d++) {
    int64_t from = x->dims[x->rank - d], *wanted = &to.dims[to.rank - d];
    fits = from < 0 || from == 1 || *wanted < 0 || from == *wanted;
    if (from > 1 && *wanted < 0) *wanted = from;
  }
  if (!fits)
    return dfi_infer_fail(c, "%s does not broadcast to %s", dfi_in_text(c, 0, text), dfi_shape_text(&to, other));
  *dfi_set_shape(c, 0) = to;
  return DF_OK;
}

int32_t dfi_infer_broadcast_args(dfi_infer *c) {
  const dfi_shape *a = dfi_in_shape(c, 0), *b = dfi_in_shape(c, 1);
  int64_t n = -1;
  if (a->rank == 1 && b->rank == 1 && a->dims[0] >= 0 && b->dims[0] >= 0)
    n = a->dims[0] > b->dims[0] ? a->dims[0] : b->dims[0];
  *dfi_set_shape(c, 0) = dfi_shape_vector(n);
  return DF_OK;
}
int32_t dfi_infer_broadcast_gradient_args(dfi_infer *c) {
  *dfi_set_shape(c, 0) = *dfi_set_shape(c, 1) = dfi_shape_vector(-1);
  return DF_OK;
}

int32_t dfi_infer_vector_same(dfi_infer *c) {
  int32_t code = dfi_infer_rank(c, 0, 1, "x");
  *dfi_set_shape(c, 0) = dfi_in_shape(c, 0)->rank == 1 ? *dfi_in_shape(c, 0) : dfi_shape_vector(-1);
  return code;
}

/* ---- diagonals, index sets --------------------------------------------------------------------------------------- */
int32_t dfi_infer_diag(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0);
  char text[160];
  if (x->rank < 0) return DF_OK;
  if (x->rank == 0) return dfi_infer_fail(c, "diagonal is %s: expected rank 1 or more", dfi_in_text(c, 0, text));
  int32_t code = dfi_infer_open(c, 0, 2 * x->rank);
  for (int32_t d = 0; !code && d < 2 * x->rank; d++) dfi_set_shape(c, 0)->dims[d] = x->dims[d % x->rank];
  return code;
}

int32_t dfi_infer_diag_part(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0);
  char text[160];
  if (x->rank < 0) return DF_OK;
  dfi_shape a = { .rank = (int8_t)(x->rank / 2) }, b = a;
  for (int32_t d = 0; d < a.rank; d++) {
    a.dims[d] = x->dims[d];
    b.dims[d] = x->dims[d + a.rank];
  }
  if (x->rank == 0 || x->rank % 2 || !dfi_shape_merge(&a, &b, &a))
    return dfi_infer_fail(c, "%s has no diagonal: expected the same dimensions twice", dfi_in_text(c, 0, text));
  *dfi_set_shape(c, 0) = a;
  return DF_OK;
}

/* The shape of the diagonals of matrices of shape x, whose rank is 2 or more. */
static dfi_shape diagonals(const dfi_shape *x) {
  dfi_shape s = *x;
  int64_t rows = x->dims[x->rank - 2], cols = x->dims[x->rank - 1];
  s.rank--;
  s.dims[s.rank - 1] = rows < 0 || cols < 0 ? -1 : rows < cols ? rows : cols;
  return s;
}
int32_t dfi_infer_matrix_set_diag(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0);
  char text[160], other[160];
  *dfi_set_shape(c, 0) = *x;
  if (x->rank < 0) return DF_OK;
  if (x->rank < 2) return dfi_infer_fail(c, "input is %s: expected rank 2 or more", dfi_in_text(c, 0, text));
  dfi_shape want = diagonals(x);
  if (!dfi_shape_merge(&want, dfi_in_shape(c, 1), &want))
    return dfi_infer_fail(c, "diagonal is %s for %s: expected %s", dfi_in_text(c, 1, text), dfi_in_text(c, 0, other),
                          dfi_shape_text(&want, (char[160]){ 0 }));
  return DF_OK;
}

int32_t dfi_infer_where(dfi_infer *c) {
  *dfi_set_shape(c, 0) = (dfi_shape){ .rank = 2, .dims = { -1, dfi_in_shape(c, 0)->rank } };
  return DF_OK;
}

int32_t dfi_infer_unique(dfi_infer *c) {
  int32_t code = dfi_infer_rank(c, 0, 1, "x");
  for (int32_t i = 0; i < c->node->nout; i++) *dfi_set_shape(c, i) = dfi_shape_vector(-1);
  if (dfi_in_shape(c, 0)->rank == 1) *dfi_set_shape(c, 1) = *dfi_in_shape(c, 0);
  return code;
}
