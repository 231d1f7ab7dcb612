/* index_shape.c: static shapes of the ops that take indices. Indices that are known already are checked already. */
#include "kernels/move.h"
#include "ops/array.h"
#include <stdio.h>

static int32_t too_many(dfi_infer *c, int32_t rank) {
  return dfi_infer_fail(c, "the result would have %d dimensions: expected at most %d", rank, DF_MAX_RANK);
}

int32_t dfi_infer_gather(dfi_infer *c) {
  const dfi_shape *p = dfi_in_shape(c, 0), *i = dfi_in_shape(c, 1);
  int64_t batch = c->node->attrs[0].i;
  char one[160], other[160];
  if (p->rank == 0) return dfi_infer_fail(c, "params is %s: expected rank 1 or more", dfi_in_text(c, 0, one));
  int32_t axis, known = dfi_infer_axis(c, 2, p->rank, "axis", &axis);
  if (known < 0) return c->error->code;
  if (i->rank >= 0) {
    if (batch < -i->rank || batch > i->rank)
      return dfi_infer_fail(c, "batch_dims is %lld for indices %s: expected one in [%d, %d]", (long long)batch,
                            dfi_in_text(c, 1, one), -i->rank, i->rank);
    if (batch < 0) batch += i->rank;
  }
  if (p->rank < 0 || i->rank < 0) return DF_OK;
  int32_t rank = p->rank - 1 + i->rank - (int32_t)batch, b = (int32_t)batch;
  if (rank > DF_MAX_RANK) return too_many(c, rank);
  dfi_infer_open(c, 0, rank);
  if (!known) return DF_OK;
  if (b > axis) return dfi_infer_fail(c, "batch_dims is %d: expected at most axis, which is %d", b, axis);
  dfi_shape out = { .rank = (int8_t)rank };
  int32_t to = 0;
  for (int32_t d = 0; d < axis; d++) {
    out.dims[to++] = p->dims[d] < 0 && d < b ? i->dims[d] : p->dims[d];
    if (d < b && p->dims[d] >= 0 && i->dims[d] >= 0 && p->dims[d] != i->dims[d])
      return dfi_infer_fail(c, "params is %s and indices %s: expected the first %d dimensions to be equal",
                            dfi_in_text(c, 0, one), dfi_in_text(c, 1, other), b);
  }
  for (int32_t d = b; d < i->rank; d++) out.dims[to++] = i->dims[d];
  for (int32_t d = axis + 1; d < p->rank; d++) out.dims[to++] = p->dims[d];
  *dfi_set_shape(c, 0) = out;
  const df_tensor *t = dfi_in_const(c, 1);
  for (int64_t at = 0; t && p->dims[axis] >= 0 && at < t->size; at++) {
    int64_t v = dfk_index(t, at);
    if (v >= 0 && v < p->dims[axis]) continue;
    char place[200] = "index";
    if (t->rank)
      snprintf(place, sizeof place, "indices[%s] =", dfk_index_text(t->rank, t->dims, at, other, sizeof other));
    return dfi_infer_fail(c, "%s %lld is not in [0, %lld), the range of dimension %d of %s", place, (long long)v,
                          (long long)p->dims[axis], axis, dfi_in_text(c, 0, one));
  }
  return DF_OK;
}

int32_t dfi_infer_gather_grad(dfi_infer *c) {
  *dfi_set_shape(c, 0) = dfi_in_as_shape(c, 0);
  return dfi_infer_rank(c, 0, 1, "shape");
}

/* How many numbers an index of input i has: 1 and *depth when known and right for `array` (a shape of the op's), 0 not
   known, -1 wrong. */
static int32_t index_depth(dfi_infer *c, int32_t i, const dfi_shape *array, int64_t *depth) {
  const dfi_shape *s = dfi_in_shape(c, i);
  char one[160], other[160];
  if (s->rank < 0) return 0;
  if (s->rank == 0) {
    dfi_infer_fail(c, "indices is %s: expected rank 1 or more", dfi_in_text(c, i, one));
    return -1;
  }
  *depth = s->dims[s->rank - 1];
  if (*depth < 0 || array->rank < 0) return 0;
  if (*depth <= array->rank) return 1;
  dfi_infer_fail(c, "indices is %s, %lld numbers to an index, for an array of shape %s: expected at most %d",
                 dfi_in_text(c, i, one), (long long)*depth, dfi_shape_text(array, other), array->rank);
  return -1;
}

int32_t dfi_infer_gather_nd(dfi_infer *c) {
  const dfi_shape *p = dfi_in_shape(c, 0), *s = dfi_in_shape(c, 1);
  int64_t depth;
  int32_t known = index_depth(c, 1, p, &depth);
  if (known <= 0) return known ? c->error->code : DF_OK;
  int32_t rank = s->rank - 1 + p->rank - (int32_t)depth;
  if (rank > DF_MAX_RANK) return too_many(c, rank);
  dfi_shape out = { .rank = 0 };
  for (int32_t d = 0; d < s->rank - 1; d++) out.dims[out.rank++] = s->dims[d];
  for (int32_t d = (int32_t)depth; d < p->rank; d++) out.dims[out.rank++] = p->dims[d];
  *dfi_set_shape(c, 0) = out;
  return DF_OK;
}

/* updates (input u) must be [dims of indices (input i) but the last..., dims of the array behind the depth...]. */
static int32_t check_updates(dfi_infer *c, int32_t i, int32_t u, const dfi_shape *array) {
  const dfi_shape *s = dfi_in_shape(c, i);
  int64_t depth;
  char one[160], other[160];
  int32_t known = index_depth(c, i, array, &depth);
  if (known <= 0) return known ? c->error->code : DF_OK;
  int32_t rank = s->rank - 1 + array->rank - (int32_t)depth;
  if (rank > DF_MAX_RANK) return too_many(c, rank);
  dfi_shape want = { .rank = 0 }, merged;
  for (int32_t d = 0; d < s->rank - 1; d++) want.dims[want.rank++] = s->dims[d];
  for (int32_t d = (int32_t)depth; d < array->rank; d++) want.dims[want.rank++] = array->dims[d];
  if (dfi_shape_merge(&want, dfi_in_shape(c, u), &merged)) return DF_OK;
  return dfi_infer_fail(
      c, "updates is %s for indices %s: expected %s, the dimensions of indices but the last, then those of a slice",
      dfi_in_text(c, u, one), dfi_in_text(c, i, other), dfi_shape_text(&want, (char[160]){ 0 }));
}

int32_t dfi_infer_scatter_nd(dfi_infer *c) {
  const dfi_shape *s = dfi_in_shape(c, 2);
  const df_tensor *t = dfi_in_const(c, 2);
  int32_t code = dfi_infer_rank(c, 2, 1, "shape");
  if (code) return code;
  for (int64_t d = 0; t && d < t->size; d++)
    if (dfk_index(t, d) < 0)
      return dfi_infer_fail(c, "shape[%lld] is %lld: expected 0 or more", (long long)d, (long long)dfk_index(t, d));
  dfi_shape to = dfi_in_as_shape(c, 2);
  if (to.rank < 0) {
    if (s->rank != 1 || s->dims[0] < 0) return DF_OK;
    code = dfi_infer_open(c, 0, (int32_t)(s->dims[0] > DF_MAX_RANK ? DF_MAX_RANK + 1 : s->dims[0]));
    if (code) return code;
    to = *dfi_set_shape(c, 0);
  }
  *dfi_set_shape(c, 0) = to;
  return check_updates(c, 0, 1, &to);
}

int32_t dfi_infer_tensor_scatter(dfi_infer *c) {
  *dfi_set_shape(c, 0) = *dfi_in_shape(c, 0);
  return check_updates(c, 1, 2, dfi_in_shape(c, 0));
}

int32_t dfi_infer_one_hot(dfi_infer *c) {
  static const char *const names[] = { "indices", "depth", "on_value", "off_value" };
  const dfi_shape *s = dfi_in_shape(c, 0);
  const df_tensor *depth = dfi_in_const(c, 1);
  int64_t axis = c->node->attrs[0].i;
  int32_t code;
  for (int32_t i = 1; i < 4; i++)
    if ((code = dfi_infer_rank(c, i, 0, names[i]))) return code;
  if (depth && dfk_index(depth, 0) < 0)
    return dfi_infer_fail(c, "depth is %lld: expected 0 or more", (long long)dfk_index(depth, 0));
  if (s->rank < 0) return DF_OK;
  if (axis < -1 || axis > s->rank)
    return dfi_infer_fail(c, "axis is %lld: expected one in [-1, %d]", (long long)axis, s->rank);
  if (axis < 0) axis = s->rank;
  if ((code = dfi_infer_open(c, 0, s->rank + 1))) return code;
  for (int32_t d = 0, from = 0; d <= s->rank; d++)
    dfi_set_shape(c, 0)->dims[d] = d != axis ? s->dims[from++] : depth ? dfk_index(depth, 0) : -1;
  return DF_OK;
}

int32_t dfi_infer_dynamic_partition(dfi_infer *c) {
  const dfi_shape *data = dfi_in_shape(c, 0), *parts = dfi_in_shape(c, 1);
  char one[160], other[160];
  if (c->node->nout < 1) return dfi_infer_fail(c, "num_partitions is %d: expected 1 or more", c->node->nout);
  if (data->rank < 0 || parts->rank < 0) return DF_OK;
  dfi_shape lead = *data, merged;
  if (data->rank >= parts->rank) lead.rank = parts->rank;
  if (!dfi_shape_merge(&lead, parts, &merged))
    return dfi_infer_fail(c, "data is %s and partitions %s: expected data to begin with the dimensions of partitions",
                          dfi_in_text(c, 0, one), dfi_in_text(c, 1, other));
  dfi_shape part = { .rank = 1, .dims = { -1 } };
  if (data->rank - parts->rank + 1 > DF_MAX_RANK) return too_many(c, data->rank - parts->rank + 1);
  for (int32_t d = parts->rank; d < data->rank; d++) part.dims[part.rank++] = data->dims[d];
  for (int32_t i = 0; i < c->node->nout; i++) *dfi_set_shape(c, i) = part;
  return DF_OK;
}

int32_t dfi_infer_dynamic_stitch(dfi_infer *c) {
  int32_t n = c->node->nin / 2;
  dfi_shape row = dfi_shape_unknown();
  int64_t rows = 0;
  char one[160], other[160];
  if (n < 1) return dfi_infer_fail(c, "dynamic_stitch was given no values: expected one or more");
  for (int32_t i = 0; i < n; i++) {
    const dfi_shape *s = dfi_in_shape(c, i), *data = dfi_in_shape(c, n + i);
    const df_tensor *t = dfi_in_const(c, i);
    for (int64_t j = 0; t && j < t->size; j++) {
      int64_t v = dfk_index(t, j);
      if (v < 0)
        return dfi_infer_fail(c, "indices[%d][%s] = %lld is negative: expected 0 or more", i,
                              dfk_index_text(t->rank, t->dims, j, one, sizeof one), (long long)v);
      if (rows >= 0 && v >= rows) rows = v + 1;
    }
    if (!t) rows = -1;
    if (s->rank < 0 || data->rank < 0) continue;
    dfi_shape lead = *data, merged, tail = { .rank = 0 };
    if (data->rank >= s->rank) lead.rank = s->rank;
    if (!dfi_shape_merge(&lead, s, &merged))
      return dfi_infer_fail(c,
                            "data[%d] is %s and indices[%d] %s: expected data to begin with the dimensions of indices",
                            i, dfi_in_text(c, n + i, one), i, dfi_in_text(c, i, other));
    for (int32_t d = s->rank; d < data->rank; d++) tail.dims[tail.rank++] = data->dims[d];
    if (!dfi_shape_merge(&row, &tail, &row))
      return dfi_infer_fail(c, "data[%d] has rows of %s, but those before it have %s: expected one shape", i,
                            dfi_shape_text(&tail, one), dfi_shape_text(&row, other));
  }
  if (row.rank < 0) return DF_OK;
  if (row.rank + 1 > DF_MAX_RANK) return too_many(c, row.rank + 1);
  dfi_shape out = { .rank = (int8_t)(row.rank + 1), .dims = { rows } };
  for (int32_t d = 0; d < row.rank; d++) out.dims[d + 1] = row.dims[d];
  *dfi_set_shape(c, 0) = out;
  return DF_OK;
}

int32_t dfi_infer_dynamic_stitch_grad(dfi_infer *c) {
  int32_t n = c->node->nin - 1;
  const dfi_shape *dy = dfi_in_shape(c, n);
  char text[160];
  if (dy->rank == 0) return dfi_infer_fail(c, "dy is %s: expected rank 1 or more", dfi_in_text(c, n, text));
  for (int32_t i = 0; i < n && dy->rank > 0; i++) {
    const dfi_shape *s = dfi_in_shape(c, i);
    if (s->rank < 0) continue;
    if (s->rank + dy->rank - 1 > DF_MAX_RANK) return too_many(c, s->rank + dy->rank - 1);
    dfi_shape out = *s;
    for (int32_t d = 1; d < dy->rank; d++) out.dims[out.rank++] = dy->dims[d];
    *dfi_set_shape(c, i) = out;
  }
  return DF_OK;
}
