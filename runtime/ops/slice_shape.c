/* slice_shape.c: static shapes of the ops that take parts of an array or put parts into one. */
#include "ops/array.h"
#include "kernels/array.h"

/* Entries of an integer vector, one by one; DFK_UNKNOWN where not known. Returns how many, -1 when that is not known;
 * more than `most` is an error: -2. */
static int32_t entries(dfi_infer *c, int32_t i, const char *what, int32_t most, int64_t *v) {
  const df_tensor *t = dfi_in_const(c, i);
  const dfi_shape *s = dfi_in_shape(c, i);
  if (dfi_infer_rank(c, i, 1, what)) return -2;
  int64_t n = t ? t->size : s->rank == 1 ? s->dims[0] : -1;
  if (n > most) {
    dfi_infer_fail(c, "%s has %lld entries: expected at most %d", what, (long long)n, most);
    return -2;
  }
  dfi_shape partly = t || n < 0 || n > DF_MAX_RANK ? dfi_shape_unknown() : dfi_in_as_shape(c, i);
  for (int64_t d = 0; d < n; d++)
    v[d] = t ? dfk_index(t, d) : partly.rank == n && partly.dims[d] >= 0 ? partly.dims[d] : DFK_UNKNOWN;
  return (int32_t)n;
}

int32_t dfi_infer_slice(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0);
  int64_t begin[DF_MAX_RANK], size[DF_MAX_RANK];
  char text[160];
  int32_t nb = entries(c, 1, "begin", DF_MAX_RANK, begin), ns = nb < -1 ? -2 : entries(c, 2, "size", DF_MAX_RANK, size);
  if (nb < -1 || ns < -1) return c->error->code;
  int32_t rank = x->rank >= 0 ? x->rank : nb >= 0 ? nb : ns;
  if (rank < 0) return DF_OK;
  if ((nb >= 0 && nb != rank) || (ns >= 0 && ns != rank))
    return dfi_infer_fail(c, "begin has %d entries and size %d for %s: expected %d each", nb < 0 ? rank : nb,
                          ns < 0 ? rank : ns, dfi_in_text(c, 0, text), rank);
  dfi_infer_open(c, 0, rank);
  for (int32_t d = 0; d < rank; d++) {
    int64_t dim = x->rank < 0 ? -1 : x->dims[d], b = nb < 0 ? DFK_UNKNOWN : begin[d],
            s = ns < 0 ? DFK_UNKNOWN : size[d];
    if (b != DFK_UNKNOWN && (b < 0 || (dim >= 0 && b > dim)))
      return dfi_infer_fail(c, "begin[%d] is %lld for %s: expected 0 or more, and no more than the dimension", d,
                            (long long)b, dfi_in_text(c, 0, text));
    if (s == DFK_UNKNOWN) continue;
    if (s < -1) return dfi_infer_fail(c, "size[%d] is %lld: expected 0 or more, or -1", d, (long long)s);
    if (s == -1) { /* to the end */
      if (dim >= 0 && b != DFK_UNKNOWN) dfi_set_shape(c, 0)->dims[d] = dim - b;
      continue;
    }
    if (dim >= 0 && s > dim - (b == DFK_UNKNOWN ? 0 : b))
      return dfi_infer_fail(c, "size[%d] is %lld from begin %lld on for %s: expected at most %lld", d, (long long)s,
                            (long long)(b == DFK_UNKNOWN ? 0 : b), dfi_in_text(c, 0, text),
                            (long long)(dim - (b == DFK_UNKNOWN ? 0 : b)));
    dfi_set_shape(c, 0)->dims[d] = s;
  }
  return DF_OK;
}

/* StridedSlice's begin, end and strides are inputs at, at + 1 and at + 2. 1: `s` is right; 0: nothing is known; -1: an
   error. */
static int32_t resolve(dfi_infer *c, int32_t at, const dfi_shape *x, dfk_slice *s) {
  static const char *const names[] = { "begin", "end", "strides" };
  dfk_slice_spec spec = dfk_slice_masks(c->node->attrs, -1);
  int64_t *to[] = { spec.begin, spec.end, spec.strides };
  int32_t n[3];
  char text[160], message[256];
  for (int32_t i = 0; i < 3; i++) {
    if ((n[i] = entries(c, at + i, names[i], 2 * DF_MAX_RANK, to[i])) < -1) return -1;
    if (n[i] >= 0 && spec.n >= 0 && n[i] != spec.n) {
      dfi_infer_fail(c, "%s has %d entries and begin %d: expected as many", names[i], n[i], spec.n);
      return -1;
    }
    if (n[i] >= 0) spec.n = n[i];
  }
  if (spec.n < 0 || x->rank < 0) return 0;
  for (int32_t i = 0; i < 3; i++)
    for (int32_t d = 0; n[i] < 0 && d < spec.n; d++) to[i][d] = DFK_UNKNOWN;
  if (dfk_slice_resolve(&spec, x->rank, x->dims, s, message, sizeof message)) return 1;
  dfi_infer_fail(c, "%s: %s", dfi_shape_text(x, text), message);
  return -1;
}

int32_t dfi_infer_strided_slice(dfi_infer *c) {
  dfk_slice s;
  int32_t known = resolve(c, 1, dfi_in_shape(c, 0), &s);
  if (known < 0) return c->error->code;
  if (known) *dfi_set_shape(c, 0) = dfi_shape_of(s.rank, s.dims);
  return DF_OK;
}

int32_t dfi_infer_strided_slice_grad(dfi_infer *c) {
  dfi_shape to = dfi_in_as_shape(c, 0), fits;
  dfk_slice s;
  char text[160], other[160];
  const dfi_shape *length = dfi_in_shape(c, 0);
  if (to.rank < 0 && length->rank == 1 && length->dims[0] >= 0) {
    int32_t code = dfi_infer_open(c, 0, (int32_t)(length->dims[0] > DF_MAX_RANK ? DF_MAX_RANK + 1 : length->dims[0]));
    if (code) return code;
  } else {
    *dfi_set_shape(c, 0) = to;
  }
  int32_t known = resolve(c, 1, &to, &s);
  if (known < 0) return c->error->code;
  if (!known) return DF_OK;
  dfi_shape part = dfi_shape_of(s.rank, s.dims);
  if (!dfi_shape_merge(&part, dfi_in_shape(c, 4), &fits))
    return dfi_infer_fail(c, "dy is %s, but such a slice is %s", dfi_in_text(c, 4, text), dfi_shape_text(&part, other));
  return DF_OK;
}

int32_t dfi_infer_tile(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0);
  int64_t times[DF_MAX_RANK];
  char text[160];
  int32_t n = entries(c, 1, "multiples", DF_MAX_RANK, times), rank = x->rank >= 0 ? x->rank : n;
  if (n < -1) return c->error->code;
  if (rank < 0) return DF_OK;
  if (n >= 0 && n != rank)
    return dfi_infer_fail(c, "multiples has %d entries for %s: expected %d", n, dfi_in_text(c, 0, text), rank);
  dfi_infer_open(c, 0, rank);
  for (int32_t d = 0; d < n; d++) {
    int64_t *to = &dfi_set_shape(c, 0)->dims[d];
    if (times[d] == DFK_UNKNOWN) continue;
    if (times[d] < 0) return dfi_infer_fail(c, "multiples[%d] is %lld: expected 0 or more", d, (long long)times[d]);
    if (times[d] == 0) *to = 0;
    else if (x->rank >= 0 && x->dims[d] >= 0 && __builtin_mul_overflow(x->dims[d], times[d], to))
      return dfi_infer_fail(c, "multiples[%d] is %lld for %s: the result is too large", d, (long long)times[d],
                            dfi_in_text(c, 0, text));
  }
  return DF_OK;
}

/* Reads paddings: 1 known, 0 not, -1 an error. *rank is set where it can be known (else -1). */
static int32_t paddings(dfi_infer *c, int32_t *rank, int64_t pads[DF_MAX_RANK][2]) {
  const dfi_shape *x = dfi_in_shape(c, 0), *p = dfi_in_shape(c, 1);
  const df_tensor *t = dfi_in_const(c, 1);
  char one[160], other[160];
  dfi_shape want = { .rank = 2, .dims = { x->rank, 2 } };
  if (!dfi_shape_merge(&want, p, &want)) {
    dfi_infer_fail(c, "paddings is %s for %s: expected [%d,2]", dfi_in_text(c, 1, one), dfi_in_text(c, 0, other),
                   x->rank < 0 ? 1 : x->rank);
    return -1;
  }
  *rank = (int32_t)(want.dims[0] > DF_MAX_RANK ? DF_MAX_RANK + 1 : want.dims[0]);
  if (!t) return 0;
  for (int32_t d = 0; d < *rank && d < DF_MAX_RANK; d++)
    for (int32_t side = 0; side < 2; side++) {
      pads[d][side] = dfk_index(t, 2 * d + side);
      if (pads[d][side] < 0) {
        dfi_infer_fail(c, "paddings[%d,%d] is %lld: expected 0 or more", d, side, (long long)pads[d][side]);
        return -1;
      }
    }
  return 1;
}

/* The result is the input plus (sign 1) or less (sign -1) the paddings. */
static int32_t padded(dfi_infer *c, int32_t sign) {
  const dfi_shape *x = dfi_in_shape(c, 0);
  int64_t pads[DF_MAX_RANK][2];
  int32_t rank, known = paddings(c, &rank, pads);
  char text[160];
  if (known < 0) return c->error->code;
  if (rank < 0) return DF_OK;
  int32_t code = dfi_infer_open(c, 0, rank);
  if (code || !known || x->rank < 0) return code;
  for (int32_t d = 0; d < rank; d++) {
    if (x->dims[d] < 0) continue;
    int64_t to = x->dims[d] + sign * (pads[d][0] + pads[d][1]);
    if (to < 0)
      return dfi_infer_fail(c, "paddings[%d] is [%lld, %lld], more than %s has", d, (long long)pads[d][0],
                            (long long)pads[d][1], dfi_in_text(c, 0, text));
    dfi_set_shape(c, 0)->dims[d] = to;
  }
  return DF_OK;
}

int32_t dfi_infer_pad(dfi_infer *c) {
  int32_t code = padded(c, 1);
  return code || c->node->nin < 3 ? code : dfi_infer_rank(c, 2, 0, "constant_values");
}

/* Mirrors cannot reach further than what they mirror. `inside`: the shape that is mirrored. */
static int32_t check_mirror(dfi_infer *c, const dfi_shape *inside) {
  const char *mode = c->node->attrs[0].s;
  int64_t pads[DF_MAX_RANK][2];
  int32_t rank, edge = !strcmp(mode, "SYMMETRIC");
  if (paddings(c, &rank, pads) != 1 || inside->rank < 0) return DF_OK; /* what is wrong with them has been said */
  for (int32_t d = 0; d < rank; d++)
    for (int32_t side = 0; side < 2; side++)
      if (inside->dims[d] >= 0 && pads[d][side] > 0 && pads[d][side] > inside->dims[d] - !edge)
        return dfi_infer_fail(c, "paddings[%d,%d] is %lld for a dimension of %lld: mode %s expects at most %lld", d,
                              side, (long long)pads[d][side], (long long)inside->dims[d], mode,
                              (long long)(inside->dims[d] - !edge));
  return DF_OK;
}
int32_t dfi_infer_mirror_pad(dfi_infer *c) {
  int32_t code = padded(c, 1);
  return code ? code : check_mirror(c, dfi_in_shape(c, 0));
}
int32_t dfi_infer_mirror_pad_grad(dfi_infer *c) {
  int32_t code = padded(c, -1);
  return code ? code : check_mirror(c, dfi_set_shape(c, 0));
}

/* Every entry of input i, where known, is an axis of the input. */
static int32_t check_axes(dfi_infer *c, int32_t i, bool twice) {
  const df_tensor *t = dfi_in_const(c, i);
  uint32_t seen = 0;
  *dfi_set_shape(c, 0) = *dfi_in_shape(c, 0);
  for (int64_t d = 0; t && d < t->size; d++) {
    int32_t axis, known = dfi_infer_axis_value(c, dfk_index(t, d), dfi_in_shape(c, 0)->rank, "axis", &axis);
    if (known < 0) return c->error->code;
    if (!known) return DF_OK;
    if (!twice && (seen >> axis & 1)) return dfi_infer_fail(c, "axis names dimension %d twice", axis);
    seen |= 1u << axis;
  }
  return DF_OK;
}
int32_t dfi_infer_reverse(dfi_infer *c) {
  char text[160];
  if (dfi_in_shape(c, 1)->rank > 1)
    return dfi_infer_fail(c, "axis is %s: expected a scalar or a vector", dfi_in_text(c, 1, text));
  return check_axes(c, 1, false);
}

int32_t dfi_infer_roll(dfi_infer *c) {
  const dfi_shape *shift = dfi_in_shape(c, 1), *axis = dfi_in_shape(c, 2);
  dfi_shape both;
  char one[160], other[160];
  if (!dfi_shape_merge(shift, axis, &both) || both.rank > 1)
    return dfi_infer_fail(c, "shift is %s and axis %s: expected two scalars or two vectors of one length",
                          dfi_in_text(c, 1, one), dfi_in_text(c, 2, other));
  return check_axes(c, 2, true);
}

int32_t dfi_infer_reverse_sequence(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0), *lengths = dfi_in_shape(c, 1);
  int32_t code = dfi_infer_rank(c, 1, 1, "seq_lengths"), seq, batch;
  char text[160];
  *dfi_set_shape(c, 0) = *x;
  if (code || x->rank < 0) return code;
  if (dfi_infer_axis_value(c, c->node->attrs[0].i, x->rank, "seq_dim", &seq) < 0) return c->error->code;
  if (dfi_infer_axis_value(c, c->node->attrs[1].i, x->rank, "batch_dim", &batch) < 0) return c->error->code;
  if (seq == batch)
    return dfi_infer_fail(c, "seq_dim and batch_dim are both %d: expected two different dimensions", seq);
  if (lengths->rank == 1 && lengths->dims[0] >= 0 && x->dims[batch] >= 0 && lengths->dims[0] != x->dims[batch])
    return dfi_infer_fail(c, "seq_lengths has %lld entries for %s: expected %lld, one for each of dimension %d",
                          (long long)lengths->dims[0], dfi_in_text(c, 0, text), (long long)x->dims[batch], batch);
  return DF_OK;
}
