/* array.c: reading the arguments of array ops: axes, shapes, and the masks of StridedSlice. Here is how the reference
 * and the CPU version of each op begin, so that they differ only in how they move elements.
 *
 * The masks of StridedSlice are TensorFlow's. Entry i of begin/end/strides stands for one dim of the input, except
 * where bit i of ellipsis_mask (as many whole dims as are left) or of new_axis_mask (no dim of the input, a 1 in the
 * result) is set. begin_mask and end_mask mean "from the edge", shrink_axis_mask takes the one element at begin and
 * drops the dim. The shape function calls the same code with what is known, so the two cannot disagree.
 */
#include "array.h"
#include "convert_ops.h"
#include "move.h"
#include <stdarg.h>
#include <stdio.h>

static bool say(char *message, int32_t bytes, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(message, (size_t)bytes, format, list);
  va_end(list);
  return false;
}

/* Where a begin or end lies, cut to what a walk by `stride` can reach: [0, dim], or [-1, dim - 1] backwards. */
static int64_t clip(int64_t v, int64_t dim, int64_t stride) {
  int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? dim : dim - 1;
  if (v < 0) v += dim;
  return v < low ? low : v > high ? high : v;
}

static int64_t steps(int64_t begin, int64_t end, int64_t stride) {
  int64_t interval = end - begin;
  if (interval == 0 || (interval < 0) != (stride < 0)) return 0;
  return interval / stride + (interval % stride != 0);
}

/* One entry of the spec against one dim. */
static bool resolve_dim(const dfk_slice_spec *s, int32_t i, int32_t d, int64_t dim, dfk_slice *out, char *message,
                        int32_t bytes) {
  bool from_edge = s->begin_mask >> i & 1, to_edge = s->end_mask >> i & 1, shrink = s->shrink_axis_mask >> i & 1;
  int64_t begin = s->begin[i], end = s->end[i], stride = s->strides[i];
  if (stride == 0) return say(message, bytes, "strides[%d] must be non-zero", i);
  if (shrink) {
    if (stride != DFK_UNKNOWN && stride < 0)
      return say(message, bytes, "strides[%d] is %lld, but an index (shrink_axis_mask) takes stride 1 only", i,
                 (long long)stride);
    if (from_edge) begin = 0;
    out->stride[d] = 1;
    out->size[d] = 1;
    out->begin[d] = DFK_UNKNOWN;
    if (begin == DFK_UNKNOWN || dim < 0) return true;
    if (begin < -dim || begin >= dim)
      return say(message, bytes, "slice index %lld of dimension %d is out of bounds: expected an index in [%lld, %lld)",
                 (long long)begin, d, (long long)-dim, (long long)dim);
    out->begin[d] = begin < 0 ? begin + dim : begin;
    return true;
  }
  out->stride[d] = stride;
  out->size[d] = out->begin[d] = DFK_UNKNOWN;
  if (stride == DFK_UNKNOWN || (!from_edge && begin == DFK_UNKNOWN) || (!to_edge && end == DFK_UNKNOWN)) return true;
  if (dim < 0) return true;
  out->begin[d] = from_edge ? (stride > 0 ? 0 : dim - 1) : clip(begin, dim, stride);
  int64_t stop  = to_edge ? (stride > 0 ? dim : -1) : clip(end, dim, stride);
  out->size[d] = steps(out->begin[d], stop, stride);
  return true;
}

bool dfk_slice_resolve(const dfk_slice_spec *s, int32_t rank, const int64_t *dims, dfk_slice *out, char *message,
                       int32_t bytes) {
  int32_t ellipsis = -1, used = 0;
  for (int32_t i = 0; i < s->n; i++) {
    if (s->ellipsis_mask >> i & 1) {
      if (ellipsis >= 0)
        return say(message, bytes, "ellipsis_mask has bits %d and %d: expected one ellipsis at most", ellipsis, i);
      ellipsis = i;
    } else if (!(s->new_axis_mask >> i & 1)) {
      used++;
    }
  }
  if (used > rank)
    return say(message, bytes, "%d indices for an input of rank %d: expected at most %d", used, rank, rank);
  int32_t d = 0;
  out->rank = 0;
  for (int32_t i = 0; i <= s->n; i++) {
    int32_t whole = 0;
    if (i == s->n) {
      if (ellipsis < 0) whole = rank - d;
    } else if (i == ellipsis) {
      whole = rank - used;
    } else if (s->new_axis_mask >> i & 1) {
      if (out->rank == DF_MAX_RANK)
        return say(message, bytes, "the result would have more than %d dimensions", DF_MAX_RANK);
      out->dims[out->rank++] = 1;
    } else {
      if (!resolve_dim(s, i, d, dims[d], out, message, bytes)) return false;
      if (!(s->shrink_axis_mask >> i & 1)) {
        if (out->rank == DF_MAX_RANK)
          return say(message, bytes, "the result would have more than %d dimensions", DF_MAX_RANK);
        out->dims[out->rank++] = out->size[d];
      }
      d++;
    }
    for (; whole > 0; whole--, d++) {
      if (out->rank == DF_MAX_RANK)
        return say(message, bytes, "the result would have more than %d dimensions", DF_MAX_RANK);
      out->begin[d] = 0;
      out->stride[d] = 1;
      out->size[d] = dims[d] < 0 ? DFK_UNKNOWN : dims[d];
      out->dims[out->rank++] = out->size[d];
    }
  }
  return true;
}

bool dfk_axis(df_kernel *k, const df_tensor *t, int64_t i, int32_t rank, const char *what, int32_t *axis) {
  if (i >= t->size) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "%s is missing: it has %lld elements", what, (long long)t->size);
    return false;
  }
  int64_t a = dfk_index(t, i);
  if (a < -rank || a >= rank) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "%s %lld is out of range: expected one in [%d, %d)", what, (long long)a, -rank,
             rank);
    return false;
  }
  *axis = (int32_t)(a < 0 ? a + rank : a);
  return true;
}

int32_t dfk_dims_of(df_kernel *k, const df_tensor *t, const char *what, int64_t *dims) {
  char text[160];
  if (t->rank != 1) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "%s is %s: expected a vector", what, dfk_shape_text(t, text, sizeof text));
    return -1;
  }
  if (t->size > DF_MAX_RANK) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "%s has %lld dimensions: expected at most %d", what, (long long)t->size,
             DF_MAX_RANK);
    return -1;
  }
  for (int64_t i = 0; i < t->size; i++) {
    dims[i] = dfk_index(t, i);
    if (dims[i] < 0) {
      dfk_fail(k, DF_INVALID_ARGUMENT, "%s[%lld] is %lld: expected 0 or more", what, (long long)i, (long long)dims[i]);
      return -1;
    }
  }
  return (int32_t)t->size;
}

bool dfk_one_axis(df_kernel *k, const df_tensor *t, int32_t rank, const char *what, int32_t *axis) {
  if (t->size == 1) return dfk_axis(k, t, 0, rank, what, axis);
  dfk_fail(k, DF_INVALID_ARGUMENT, "%s has %lld elements: expected 1", what, (long long)t->size);
  return false;
}

bool dfk_scalar_axis(df_kernel *k, const df_tensor *t, int32_t rank, const char *what, int32_t *axis) {
  if (t->rank == 0) return dfk_axis(k, t, 0, rank, what, axis);
  dfk_fail(k, DF_INVALID_ARGUMENT, "%s must be a scalar, but it has rank %d", what, t->rank);
  return false;
}

/* For functions that return a pointer: the error, and NULL. */
#define FAIL(k, ...) (dfk_fail(k, DF_INVALID_ARGUMENT, __VA_ARGS__), NULL)

df_tensor *dfk_transpose_begin(df_kernel *k, int32_t *from) {
  const df_tensor *x = k->in[0], *perm = k->in[1];
  int64_t dims[DF_MAX_RANK];
  uint32_t seen = 0;
  if (perm->rank != 1) return FAIL(k, "perm has rank %d: expected a vector", perm->rank);
  if (perm->size != x->rank)
    return FAIL(k, "perm has %lld entries for an input of rank %d", (long long)perm->size, x->rank);
  for (int32_t d = 0; d < x->rank; d++) {
    if (!dfk_axis(k, perm, d, x->rank, "perm", &from[d])) return NULL;
    if (seen >> from[d] & 1) return FAIL(k, "perm names dimension %d twice", from[d]);
    seen |= 1u << from[d];
    dims[d] = x->dims[from[d]];
  }
  return dfk_out(k, 0, x->dtype, x->rank, dims);
}

df_tensor *dfk_concat_begin(df_kernel *k, int32_t *axis) {
  int32_t n = k->nin - 1;
  const df_tensor *a = k->in[0];
  char one[160], other[160];
  if (a->rank == 0) return FAIL(k, "values[0] is a scalar: expected rank 1 or more (stack takes scalars)");
  if (!dfk_one_axis(k, k->in[n], a->rank, "axis", axis)) return NULL;
  int64_t dims[DF_MAX_RANK];
  memcpy(dims, a->dims, sizeof dims);
  for (int32_t i = 1; i < n; i++) {
    const df_tensor *b = k->in[i];
    bool fits = b->rank == a->rank;
    for (int32_t d = 0; fits && d < a->rank; d++) fits = d == *axis || b->dims[d] == a->dims[d];
    if (!fits)
      return FAIL(k, "values[0] is %s and values[%d] is %s: expected the same dimensions but for axis %d",
                  dfk_shape_text(a, one, sizeof one), i, dfk_shape_text(b, other, sizeof other), *axis);
    dims[*axis] += b->dims[*axis];
  }
  return dfk_out(k, 0, a->dtype, a->rank, dims);
}

int64_t *dfk_split_begin(df_kernel *k, int32_t *axis) {
  const df_tensor *x = k->in[1]; /* inputs: split_dim, value */
  char text[160];
  if (!dfk_scalar_axis(k, k->in[0], x->rank, "split_dim", axis)) return NULL;
  if (x->dims[*axis] % k->nout)
    return FAIL(k, "dimension %d of %s does not split into %d equal parts", *axis, dfk_shape_text(x, text, sizeof text),
                k->nout);
  int64_t *sizes = dfk_scratch(k, (int64_t)sizeof(int64_t) * k->nout);
  for (int32_t i = 0; sizes && i < k->nout; i++) sizes[i] = x->dims[*axis] / k->nout;
  return sizes;
}

int64_t *dfk_split_v_begin(df_kernel *k, int32_t *axis) {
  const df_tensor *x = k->in[0], *wanted = k->in[1]; /* inputs: value, size_splits, split_dim */
  int32_t open = -1;
  int64_t sum = 0;
  char text[160];
  if (!dfk_one_axis(k, k->in[2], x->rank, "split_dim", axis)) return NULL;
  if (wanted->rank != 1) return FAIL(k, "size_splits has rank %d: expected a vector", wanted->rank);
  if (wanted->size != k->nout)
    return FAIL(k, "size_splits has %lld entries for %d outputs", (long long)wanted->size, k->nout);
  for (int32_t i = 0; i < k->nout; i++) {
    int64_t size = dfk_index(wanted, i);
    if (size == -1 && open < 0) open = i;
    else if (size < 0) return FAIL(k, "size_splits[%d] is %lld: expected 0 or more, or one -1", i, (long long)size);
    else if (__builtin_add_overflow(sum, size, &sum)) sum = INT64_MAX;
  }
  if (open >= 0 ? sum > x->dims[*axis] : sum != x->dims[*axis])
    return FAIL(k, "size_splits add up to %lld, but dimension %d of %s is %lld", (long long)sum, *axis,
                dfk_shape_text(x, text, sizeof text), (long long)x->dims[*axis]);
  int64_t *sizes = dfk_scratch(k, (int64_t)sizeof(int64_t) * k->nout);
  for (int32_t i = 0; sizes && i < k->nout; i++) sizes[i] = i == open ? x->dims[*axis] - sum : dfk_index(wanted, i);
  return sizes;
}

df_tensor *dfk_pack_begin(df_kernel *k, int32_t *axis) {
  const df_tensor *a = k->in[0];
  char one[160], other[160];
  int64_t at = dfk_int(k, 0), rank = a->rank + 1, dims[DF_MAX_RANK];
  if (at < -rank || at >= rank)
    return FAIL(k, "axis %lld is out of range: expected one in [%lld, %lld)", (long long)at, (long long)-rank,
                (long long)rank);
  if (rank > DF_MAX_RANK) return FAIL(k, "the values have %d dimensions already, the most there can be", DF_MAX_RANK);
  *axis = (int32_t)(at < 0 ? at + rank : at);
  for (int32_t i = 1; i < k->nin; i++) {
    const df_tensor *b = k->in[i];
    if (b->rank != a->rank || memcmp(a->dims, b->dims, sizeof(int64_t) * (size_t)a->rank))
      return FAIL(k, "values[0] is %s and values[%d] is %s: expected one shape", dfk_shape_text(a, one, sizeof one), i,
                  dfk_shape_text(b, other, sizeof other));
  }
  for (int32_t d = 0, from = 0; d < rank; d++) dims[d] = d == *axis ? k->nin : a->dims[from++];
  return dfk_out(k, 0, a->dtype, (int32_t)rank, dims);
}

bool dfk_unpack_begin(df_kernel *k, int32_t *axis, int64_t *dims) {
  const df_tensor *x = k->in[0];
  char text[160];
  int64_t at = dfk_int(k, 1); /* attrs: num, axis */
  if (at < -x->rank || at >= x->rank)
    return FAIL(k, "axis %lld is out of range: expected one in [%d, %d)", (long long)at, -x->rank, x->rank);
  *axis = (int32_t)(at < 0 ? at + x->rank : at);
  if (x->dims[*axis] != k->nout)
    return FAIL(k, "%s is to be taken apart into %d values along axis %d: expected that dimension to be %d",
                dfk_shape_text(x, text, sizeof text), k->nout, *axis, k->nout);
  for (int32_t d = 0, to = 0; d < x->rank; d++)
    if (d != *axis) dims[to++] = x->dims[d];
  return true;
}

df_tensor *dfk_slice_begin(df_kernel *k, int64_t *begin) {
  const df_tensor *x = k->in[0], *b = k->in[1], *s = k->in[2];
  int64_t dims[DF_MAX_RANK];
  char text[160];
  if (b->size != x->rank || s->size != x->rank || b->rank != 1 || s->rank != 1)
    return FAIL(k, "begin has %lld entries and size %lld for %s: expected %d each", (long long)b->size,
                (long long)s->size, dfk_shape_text(x, text, sizeof text), x->rank);
  for (int32_t d = 0; d < x->rank; d++) {
    int64_t from = dfk_index(b, d), size = dfk_index(s, d), dim = x->dims[d];
    if (from < 0 || from > dim)
      return FAIL(k, "begin[%d] is %lld: expected one in [0, %lld]", d, (long long)from, (long long)dim);
    if (size == -1) size = dim - from;
    if (size < 0 || size > dim - from)
      return FAIL(k, "size[%d] is %lld: expected one in [0, %lld] or -1, as dimension %d is %lld and begin %lld", d,
                  (long long)size, (long long)(dim - from), d, (long long)dim, (long long)from);
    begin[d] = from;
    dims[d] = size;
  }
  return dfk_out(k, 0, x->dtype, x->rank, dims);
}

/* StridedSlice's begin, end and strides are inputs `at`, at + 1 and at + 2; its masks are the attributes. */
static bool read_slice(df_kernel *k, int32_t at, int32_t rank, const int64_t *dims, dfk_slice *s) {
  const df_tensor *b = k->in[at], *e = k->in[at + 1], *st = k->in[at + 2];
  dfk_slice_spec spec;
  char message[256];
  if (b->rank != 1 || b->size != e->size || b->size != st->size || b->size > 2 * DF_MAX_RANK)
    return FAIL(k, "begin, end and strides have %lld, %lld and %lld entries: expected as many each, at most %d",
                (long long)b->size, (long long)e->size, (long long)st->size, 2 * DF_MAX_RANK);
  spec.n = (int32_t)b->size;
  for (int32_t i = 0; i < spec.n; i++) {
    spec.begin[i] = dfk_index(b, i);
    spec.end[i] = dfk_index(e, i);
    spec.strides[i] = dfk_index(st, i);
    if (spec.begin[i] == DFK_UNKNOWN) spec.begin[i]++; /* as far out as the next number */
    if (spec.end[i] == DFK_UNKNOWN) spec.end[i]++;
    if (spec.strides[i] == DFK_UNKNOWN) spec.strides[i]++;
  }
  spec.begin_mask = dfk_int(k, 0);
  spec.end_mask = dfk_int(k, 1);
  spec.ellipsis_mask = dfk_int(k, 2);
  spec.new_axis_mask = dfk_int(k, 3);
  spec.shrink_axis_mask = dfk_int(k, 4);
  return dfk_slice_resolve(&spec, rank, dims, s, message, sizeof message) || FAIL(k, "%s", message);
}

bool dfk_strided_slice_read(df_kernel *k, dfk_slice *s) {
  return read_slice(k, 1, k->in[0]->rank, k->in[0]->dims, s);
}

df_tensor *dfk_strided_slice_begin(df_kernel *k, dfk_slice *s) {
  const df_tensor *x = k->in[0];
  if (!dfk_strided_slice_read(k, s)) return NULL;
  return dfk_out(k, 0, x->dtype, s->rank, s->dims);
}

df_tensor *dfk_strided_slice_grad_begin(df_kernel *k, dfk_slice *s) {
  const df_tensor *dy = k->in[4]; /* inputs: shape, begin, end, strides, dy */
  int64_t dims[DF_MAX_RANK];
  char text[160];
  int32_t rank = dfk_dims_of(k, k->in[0], "shape", dims);
  if (rank < 0 || !read_slice(k, 1, rank, dims, s)) return NULL;
  bool fits = dy->rank == s->rank;
  for (int32_t d = 0; fits && d < s->rank; d++) fits = dy->dims[d] == s->dims[d];
  if (!fits) return FAIL(k, "dy is %s, which is not the shape of such a slice", dfk_shape_text(dy, text, sizeof text));
  df_tensor *out = dfk_out(k, 0, dy->dtype, rank, dims);
  if (out) dfk_clear(out);
  return out;
}

df_tensor *dfk_tile_begin(df_kernel *k, int64_t *times) {
  const df_tensor *x = k->in[0], *m = k->in[1];
  int64_t dims[DF_MAX_RANK];
  char text[160];
  if (m->rank != 1 || m->size != x->rank)
    return FAIL(k, "multiples has %lld entries for %s: expected %d", (long long)m->size,
                dfk_shape_text(x, text, sizeof text), x->rank);
  for (int32_t d = 0; d < x->rank; d++) {
    times[d] = dfk_index(m, d);
    if (times[d] < 0) return FAIL(k, "multiples[%d] is %lld: expected 0 or more", d, (long long)times[d]);
    if (__builtin_mul_overflow(x->dims[d], times[d], &dims[d])) dims[d] = INT64_MAX;
  }
  return dfk_out(k, 0, x->dtype, x->rank, dims);
}

df_tensor *dfk_pad_begin(df_kernel *k, int64_t *before) {
  const df_tensor *x = k->in[0], *p = k->in[1];
  int64_t dims[DF_MAX_RANK];
  char text[160], other[160];
  if (p->rank != 2 || p->dims[0] != x->rank || p->dims[1] != 2)
    return FAIL(k, "paddings is %s for %s: expected [%d,2]", dfk_shape_text(p, text, sizeof text),
                dfk_shape_text(x, other, sizeof other), x->rank);
  for (int32_t d = 0; d < x->rank; d++) {
    int64_t after = dfk_index(p, 2 * d + 1);
    before[d] = dfk_index(p, 2 * d);
    if (before[d] < 0 || after < 0)
      return FAIL(k, "paddings[%d] is [%lld, %lld]: expected 0 or more", d, (long long)before[d], (long long)after);
    if (__builtin_add_overflow(x->dims[d], before[d], &dims[d]) || __builtin_add_overflow(dims[d], after, &dims[d]))
      dims[d] = INT64_MAX;
  }
  if (k->nin > 2 && k->in[2]->size != 1)
    return FAIL(k, "constant_values is %s: expected a scalar", dfk_shape_text(k->in[2], text, sizeof text));
  return dfk_out(k, 0, x->dtype, x->rank, dims);
}

df_tensor *dfk_reverse_begin(df_kernel *k, uint32_t *axes) {
  const df_tensor *x = k->in[0], *list = k->in[1];
  *axes = 0;
  if (k->in[1]->rank > 1) return FAIL(k, "axis has rank %d: expected a scalar or a vector", k->in[1]->rank);
  for (int64_t i = 0; i < list->size; i++) {
    int32_t axis;
    if (!dfk_axis(k, list, i, x->rank, "axis", &axis)) return NULL;
    if (*axes >> axis & 1) return FAIL(k, "axis names dimension %d twice", axis);
    *axes |= 1u << axis;
  }
  return dfk_out_like(k, 0, x);
}

df_tensor *dfk_roll_begin(df_kernel *k, int64_t *shift) {
  const df_tensor *x = k->in[0], *by = k->in[1], *list = k->in[2];
  memset(shift, 0, sizeof(int64_t) * DF_MAX_RANK);
  if (by->size != list->size || by->rank > 1 || list->rank > 1)
    return FAIL(k, "shift has %lld entries and axis %lld: expected as many", (long long)by->size,
                (long long)list->size);
  for (int64_t i = 0; i < list->size; i++) {
    int32_t axis;
    if (!dfk_axis(k, list, i, x->rank, "axis", &axis)) return NULL;
    int64_t n = x->dims[axis];
    if (n) shift[axis] = ((shift[axis] + dfk_index(by, i) % n) % n + n) % n;
  }
  return dfk_out_like(k, 0, x);
}

df_tensor *dfk_broadcast_to_begin(df_kernel *k, int64_t *strides) {
  const df_tensor *x = k->in[0];
  int64_t dims[DF_MAX_RANK], own[DF_MAX_RANK];
  char text[160];
  int32_t rank = dfk_dims_of(k, k->in[1], "shape", dims);
  if (rank < 0) return NULL;
  if (rank < x->rank)
    return FAIL(k, "%s does not broadcast to a shape of rank %d", dfk_shape_text(x, text, sizeof text), rank);
  dfk_strides(x->rank, x->dims, own);
  for (int32_t d = 0; d < rank; d++) {
    int32_t from = d - (rank - x->rank);
    strides[d] = from < 0 || x->dims[from] == 1 ? 0 : own[from];
    if (from >= 0 && x->dims[from] != 1 && x->dims[from] != dims[d])
      return FAIL(k, "%s does not broadcast: its dimension %d would have to be %lld or 1",
                  dfk_shape_text(x, text, sizeof text), from, (long long)dims[d]);
  }
  return dfk_out(k, 0, x->dtype, rank, dims);
}

df_tensor *dfk_fill_begin(df_kernel *k) {
  const df_tensor *value = k->in[1];
  int64_t dims[DF_MAX_RANK];
  char text[160];
  if (value->rank != 0)
    return FAIL(k, "value is %s: expected a scalar", dfk_shape_text(value, text, sizeof text));
  int32_t rank = dfk_dims_of(k, k->in[0], "dims", dims);
  return rank < 0 ? NULL : dfk_out(k, 0, value->dtype, rank, dims);
}

df_tensor *dfk_bitcast_begin(df_kernel *k) {
  const df_tensor *x = k->in[0];
  const uint8_t type = k->out_dtype[0];
  const int64_t from = dfk_width(x->dtype), to = dfk_width(type);
  int64_t dims[DF_MAX_RANK + 1];
  int32_t rank = x->rank;
  char text[160];
  for (int32_t d = 0; d < rank; d++) dims[d] = x->dims[d];
  if (from > to) dims[rank++] = from / to;
  else if (from < to && (rank == 0 || dims[--rank] != to / from)) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "%s cannot be cast to %s bit by bit: its last axis must be %lld",
             dfk_shape_text(x, text, sizeof text), df_dtype_name(type), (long long)(to / from));
    return NULL;
  }
  if (rank <= DF_MAX_RANK) return dfk_out(k, 0, type, rank, dims);
  dfk_fail(k, DF_INVALID_ARGUMENT, "the result would have %d axes, more than %d", rank, DF_MAX_RANK);
  return NULL;
}
