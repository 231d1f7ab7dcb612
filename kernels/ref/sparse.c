/* sparse.c: TensorFlow's arithmetic of sparse tensors. Elements are read as doubles or integers and rounded once; what
 * only moves them takes every dtype. Where elements come together their order is that of the indices.
 */
#include "../sparse.h"
#include "../move.h"
#include "element.h"
#include <math.h>
#include <string.h>

#define FAIL(k, ...) (dfk_fail(k, DF_INVALID_ARGUMENT, __VA_ARGS__), false)

/* ---- a sparse tensor --------------------------------------------------------------------------------------------- */
typedef struct sparse {
  const df_tensor *indices, *values;
  int64_t          n, dims[DF_MAX_RANK];
  int32_t          rank;
} sparse;

static int64_t at(const sparse *s, int64_t i, int32_t d) { return dfk_index(s->indices, i * s->rank + d); }

static bool read_shape(df_kernel *k, const df_tensor *shape, const char *name, int32_t *rank, int64_t *dims) {
  if (shape->rank != 1 || shape->size > DF_MAX_RANK)
    return FAIL(k, "%s has rank %d and %lld numbers: expected a vector of up to %d", name, shape->rank,
                (long long)shape->size, DF_MAX_RANK);
  *rank = (int32_t)shape->size;
  for (int32_t d = 0; d < *rank; d++)
    if ((dims[d] = dfk_index(shape, d)) < 0) return FAIL(k, "%s has a negative dimension", name);
  return true;
}

/* The sparse tensor of these three; each index is inside. False: the error is filled. */
static bool make_sparse(df_kernel *k, sparse *s, const df_tensor *indices, const df_tensor *values,
                        const df_tensor *shape) {
  char a[160], b[160], c[160];
  if (indices->rank != 2 || shape->rank != 1 || indices->dims[1] != shape->size ||
      (values && (values->rank != 1 || values->size != indices->dims[0])))
    return FAIL(k, "indices %s, values %s and shape %s are no sparse tensor: expected [n,rank], [n] and [rank]",
                dfk_shape_text(indices, a, sizeof a), values ? dfk_shape_text(values, b, sizeof b) : "[n]",
                dfk_shape_text(shape, c, sizeof c));
  *s = (sparse){ .indices = indices, .values = values, .n = indices->dims[0] };
  if (!read_shape(k, shape, "the shape of a sparse tensor", &s->rank, s->dims)) return false;
  for (int64_t i = 0; i < s->n; i++)
    for (int32_t d = 0; d < s->rank; d++)
      if (at(s, i, d) < 0 || at(s, i, d) >= s->dims[d])
        return FAIL(k, "indices[%lld,%d] is %lld: outside of a dimension of %lld", (long long)i, d,
                    (long long)at(s, i, d), (long long)s->dims[d]);
  return true;
}
static bool read_sparse(df_kernel *k, sparse *s, int32_t first) {
  return make_sparse(k, s, k->in[first], k->in[first + 1], k->in[first + 2]);
}

/* Element i of s before (-1), at (0) or after (1) element j of t, which has the same rank. */
static int order(const sparse *s, int64_t i, const sparse *t, int64_t j) {
  for (int32_t d = 0; d < s->rank; d++)
    if (at(s, i, d) != at(t, j, d)) return at(s, i, d) < at(t, j, d) ? -1 : 1;
  return 0;
}

static bool in_order(df_kernel *k, const sparse *s) {
  for (int64_t i = 1; i < s->n; i++)
    if (order(s, i - 1, s, i) >= 0)
      return FAIL(k, "indices[%lld] is not after the one before it: SparseReorder puts them in order", (long long)i);
  return true;
}

/* The outputs from `first` on, `step` apart: a sparse tensor of n elements. False: the error is filled. */
typedef struct made { df_tensor *indices, *values; } made;
static bool make_outputs(df_kernel *k, made *m, int32_t first, int32_t step, int64_t n, int32_t rank,
                         const int64_t *dims) {
  const int64_t wide = rank;
  m->indices = dfk_out(k, first, DF_INT64, 2, (int64_t[]){ n, rank });
  m->values = dfk_out(k, first + step, k->out_dtype[first + step], 1, &n);
  if (!m->indices || !m->values) return false;
  if (!dims) return true;
  df_tensor *shape = dfk_out(k, first + 2 * step, DF_INT64, 1, &wide);
  if (shape && rank) memcpy(shape->data, dims, (size_t)rank * sizeof *dims);
  return shape != NULL;
}
/* Element `to` of m is element i of s, its index less `less` (NULL: nothing). */
static bool move(df_kernel *k, const made *m, int64_t to, const sparse *s, int64_t i, const int64_t *less) {
  int64_t *index = (int64_t *)m->indices->data + to * s->rank;
  for (int32_t d = 0; d < s->rank; d++) index[d] = at(s, i, d) - (less ? less[d] : 0);
  return dfk_copy(k, m->values, to, s->values, i, 1);
}

/* ---- in order ---------------------------------------------------------------------------------------------------- */

/* Which element comes first, which next; of equal ones the earlier. Merge sort by halves. */
static void sort(const sparse *s, int64_t from, int64_t n, int64_t *place, int64_t *spare) {
  if (n <= 1) { if (n) place[0] = from; return; }
  const int64_t half = n / 2;
  sort(s, from, half, spare, place);
  sort(s, from + half, n - half, spare + half, place + half);
  for (int64_t i = 0, j = half, to = 0; to < n; to++)
    place[to] = j == n || (i < half && order(s, spare[i], s, spare[j]) <= 0) ? spare[i++] : spare[j++];
}

/* Scratch: the places in order. NULL: the error is filled. */
static int64_t *places_in_order(df_kernel *k, const sparse *s) {
  int64_t *place = dfk_scratch(k, (2 * s->n + 1) * (int64_t)sizeof *place);
  if (place) sort(s, 0, s->n, place, place + s->n);
  return place;
}

static bool put_in_order(df_kernel *k, const sparse *s, const made *m) {
  int64_t *place = places_in_order(k, s);
  bool ok = place != NULL;
  for (int64_t i = 0; ok && i < s->n; i++) ok = move(k, m, i, s, place[i], NULL);
  dfk_free(place);
  return ok;
}

int32_t ref_sparse_reorder(df_kernel *k) {
  sparse s;
  made m;
  return read_sparse(k, &s, 0) && make_outputs(k, &m, 0, 1, s.n, s.rank, NULL) && put_in_order(k, &s, &m)
             ? DF_OK : k->error->code;
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */
static bool is_inside(const sparse *s, int64_t i, const int64_t *start, const int64_t *dims) {
  for (int32_t d = 0; d < s->rank; d++)
    if (at(s, i, d) < start[d] || at(s, i, d) - start[d] >= dims[d]) return false;
  return true;
}

/* What lies in [start, start + dims), as outputs from `first` on. */
static bool cut(df_kernel *k, const sparse *s, const int64_t *start, const int64_t *dims, int32_t first, int32_t step) {
  int64_t n = 0, to = 0;
  made m;
  for (int64_t i = 0; i < s->n; i++) n += is_inside(s, i, start, dims);
  if (!make_outputs(k, &m, first, step, n, s->rank, dims)) return false;
  for (int64_t i = 0; i < s->n; i++)
    if (is_inside(s, i, start, dims) && !move(k, &m, to++, s, i, start)) return false;
  return true;
}

int32_t ref_sparse_slice(df_kernel *k) {
  const df_tensor *start = k->in[3], *size = k->in[4];
  int64_t from[DF_MAX_RANK], dims[DF_MAX_RANK];
  sparse s;
  if (!read_sparse(k, &s, 0)) return k->error->code;
  if (start->rank != 1 || size->rank != 1 || start->size != s.rank || size->size != s.rank)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "start has %lld numbers and size %lld: expected %d of each",
                    (long long)start->size, (long long)size->size, s.rank);
  for (int32_t d = 0; d < s.rank; d++) {
    from[d] = dfk_index(start, d);
    dims[d] = dfk_index(size, d);
    if (from[d] < 0 || dims[d] < 0)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "start and size of axis %d are %lld and %lld: expected 0 or more", d,
                      (long long)from[d], (long long)dims[d]);
    const int64_t left = from[d] < s.dims[d] ? s.dims[d] - from[d] : 0;
    if (dims[d] > left) dims[d] = left;
  }
  return cut(k, &s, from, dims, 0, 1) ? DF_OK : k->error->code;
}

int32_t ref_sparse_split(df_kernel *k) {
  const int64_t pieces = dfk_int(k, 0);
  int64_t axis, start[DF_MAX_RANK] = { 0 }, dims[DF_MAX_RANK];
  sparse s;
  if (!dfk_integer(k, 0, "split_dim", &axis) || !read_sparse(k, &s, 1)) return k->error->code;
  if (axis < -s.rank || axis >= s.rank)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "split_dim is %lld for a sparse tensor of rank %d", (long long)axis,
                    s.rank);
  if (axis < 0) axis += s.rank;
  if (pieces > s.dims[axis])
    return dfk_fail(k, DF_INVALID_ARGUMENT, "num_split is %lld: dimension %lld has %lld", (long long)pieces,
                    (long long)axis, (long long)s.dims[axis]);
  memcpy(dims, s.dims, sizeof dims);
  for (int64_t p = 0; p < pieces; p++, start[axis] += dims[axis]) {
    dims[axis] = s.dims[axis] / pieces + (p < s.dims[axis] % pieces);
    if (!cut(k, &s, start, dims, (int32_t)p, (int32_t)pieces)) return k->error->code;
  }
  return DF_OK;
}

/* ---- side by side ------------------------------------------------------------------------------------------------ */

static bool fits_beside(df_kernel *k, const sparse *all, const sparse *t, int32_t number, int32_t axis) {
  if (t->rank != all->rank)
    return FAIL(k, "sparse tensor %d has rank %d, the first has %d", number, t->rank, all->rank);
  for (int32_t d = 0; d < t->rank; d++)
    if (d != axis && t->dims[d] != all->dims[d])
      return FAIL(k, "dimension %d of sparse tensor %d is %lld, of the first %lld", d, number, (long long)t->dims[d],
                  (long long)all->dims[d]);
  return true;
}

/* Writes t's indices behind those of `all`, moved up by what lies before t along the axis, and `number` as the tensor
   that they are of. */
static bool append(df_kernel *k, sparse *all, const sparse *t, int32_t number, int32_t axis, int64_t *index,
                   int64_t *of) {
  if (!fits_beside(k, all, t, number, axis)) return false;
  for (int64_t i = 0; i < t->n; i++) {
    of[all->n + i] = number;
    for (int32_t d = 0; d < t->rank; d++)
      index[(all->n + i) * t->rank + d] = at(t, i, d) + (d == axis ? all->dims[axis] : 0);
  }
  all->n += t->n;
  return !__builtin_add_overflow(all->dims[axis], t->dims[axis], &all->dims[axis]) ||
         FAIL(k, "the dimensions along axis %d are more than can be counted", axis);
}

/* The elements of `all` in order, from the tensors that they are of. */
static bool put_beside(df_kernel *k, const sparse *all, const int64_t *of, int32_t count) {
  made m;
  int64_t *place = places_in_order(k, all), *first = dfk_scratch(k, (count + 1) * (int64_t)sizeof *first);
  bool ok = place && first && make_outputs(k, &m, 0, 1, all->n, all->rank, all->dims);
  if (ok) first[0] = 0;
  for (int32_t i = 0; ok && i < count; i++) first[i + 1] = first[i] + k->in[i]->dims[0];
  for (int64_t i = 0; ok && i < all->n; i++) {
    const int64_t e = place[i];
    for (int32_t d = 0; d < all->rank; d++) ((int64_t *)m.indices->data)[i * all->rank + d] = at(all, e, d);
    ok = dfk_copy(k, m.values, i, k->in[count + of[e]], e - first[of[e]], 1);
  }
  dfk_free(first);
  dfk_free(place);
  return ok;
}

int32_t ref_sparse_concat(df_kernel *k) {
  const int32_t count = k->nin / 3;
  int64_t n = 0, axis = dfk_int(k, 0);
  sparse all, t;
  if (!count) return dfk_fail(k, DF_INVALID_ARGUMENT, "there is no sparse tensor: expected one or more");
  if (!make_sparse(k, &all, k->in[0], k->in[count], k->in[2 * count])) return k->error->code;
  if (axis < -all.rank || axis >= all.rank)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "concat_dim is %lld for sparse tensors of rank %d", (long long)axis,
                    all.rank);
  if (axis < 0) axis += all.rank;
  for (int32_t i = 0; i < count; i++) n += k->in[i]->rank == 2 ? k->in[i]->dims[0] : 0;
  int64_t *index = dfk_scratch(k, n * (all.rank + 1) * 8 + 8), *of = index ? index + n * all.rank : NULL;
  df_tensor indices = { .dtype = DF_INT64, .rank = 2, .data = index };
  bool ok = index != NULL;
  all.indices = &indices;
  all.n = all.dims[axis] = 0;
  for (int32_t i = 0; ok && i < count; i++)
    ok = make_sparse(k, &t, k->in[i], k->in[count + i], k->in[2 * count + i]) &&
         append(k, &all, &t, i, (int32_t)axis, index, of);
  ok = ok && put_beside(k, &all, of, count);
  dfk_free(index);
  return ok ? DF_OK : k->error->code;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

static void put_sum(const df_tensor *a, int64_t i, const df_tensor *b, int64_t j, df_tensor *to, int64_t at_) {
  if (ref_is_float(to->dtype)) ref_put(to, at_, ref_get(a, i) + ref_get(b, j));
  else ref_put_int(to, at_, (int64_t)((uint64_t)ref_get_int(a, i) + (uint64_t)ref_get_int(b, j)));
}
static bool is_kept(const df_tensor *a, int64_t i, const df_tensor *b, int64_t j, const df_tensor *thresh) {
  if (ref_is_float(a->dtype)) return fabs(ref_get(a, i) + ref_get(b, j)) >= ref_get(thresh, 0);
  const int64_t sum = (int64_t)((uint64_t)ref_get_int(a, i) + (uint64_t)ref_get_int(b, j));
  const int64_t least = ref_get_int(thresh, 0);
  return (sum < 0 ? 0 - (uint64_t)sum : (uint64_t)sum) >= (least < 0 ? 0 : (uint64_t)least);
}

/* Both in the order of their indices; m NULL: counts alone. The number of elements; -1: the error is filled. */
static int64_t merge(df_kernel *k, const sparse *a, const sparse *b, const df_tensor *thresh, const made *m) {
  int64_t n = 0;
  for (int64_t i = 0, j = 0; i < a->n || j < b->n;) {
    const int by = i == a->n ? 1 : j == b->n ? -1 : order(a, i, b, j);
    const bool kept = by || is_kept(a->values, i, b->values, j, thresh);
    if (m && kept) {
      if (!move(k, m, n, by > 0 ? b : a, by > 0 ? j : i, NULL)) return -1;
      if (!by) put_sum(a->values, i, b->values, j, m->values, n);
    }
    n += kept;
    i += by <= 0;
    j += by >= 0;
  }
  return n;
}

/* Two sparse tensors of one shape, in order. */
static bool read_two(df_kernel *k, sparse *a, sparse *b) {
  if (!read_sparse(k, a, 0) || !read_sparse(k, b, 3) || !in_order(k, a) || !in_order(k, b)) return false;
  if (a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims)) return true;
  char x[160], y[160];
  df_tensor of_a = { .dtype = k->in[1]->dtype, .rank = (int8_t)a->rank }, of_b = of_a;
  of_b.rank = (int8_t)b->rank;
  memcpy(of_a.dims, a->dims, sizeof a->dims);
  memcpy(of_b.dims, b->dims, sizeof b->dims);
  return FAIL(k, "the sparse tensors are %s and %s: expected one shape", dfk_shape_text(&of_a, x, sizeof x),
              dfk_shape_text(&of_b, y, sizeof y));
}

int32_t ref_sparse_add(df_kernel *k) {
  sparse a, b;
  made m;
  return read_two(k, &a, &b) && make_outputs(k, &m, 0, 1, merge(k, &a, &b, k->in[6], NULL), a.rank, a.dims) &&
                 merge(k, &a, &b, k->in[6], &m) >= 0
             ? DF_OK : k->error->code;
}

/* ---- the greater or the lesser of two: what is not there is 0
 * ------------------------------------------------------ */

/* Is element i of a, or where i is -1 zero, to be taken, and not element j of b? A NaN is taken. */
static bool is_first(const df_tensor *a, int64_t i, const df_tensor *b, int64_t j, bool greater) {
  if (ref_is_float(a->dtype)) {
    const double x = i < 0 ? 0 : ref_get(a, i), y = j < 0 ? 0 : ref_get(b, j);
    return greater ? !(x < y) : !(y < x);
  }
  const int64_t x = i < 0 ? 0 : ref_get_int(a, i), y = j < 0 ? 0 : ref_get_int(b, j);
  return greater ? !ref_below(a->dtype, x, y) : !ref_below(a->dtype, y, x);
}

static int32_t extreme(df_kernel *k, bool greater) {
  sparse a, b;
  made m;
  int64_t n = 0;
  if (!read_two(k, &a, &b)) return k->error->code;
  for (int64_t i = 0, j = 0; i < a.n || j < b.n; n++) {
    const int by = i == a.n ? 1 : j == b.n ? -1 : order(&a, i, &b, j);
    i += by <= 0;
    j += by >= 0;
  }
  if (!make_outputs(k, &m, 0, 1, n, a.rank, NULL)) return k->error->code;
  dfk_clear(m.values);
  for (int64_t i = 0, j = 0, o = 0; i < a.n || j < b.n; o++) {
    const int by = i == a.n ? 1 : j == b.n ? -1 : order(&a, i, &b, j);
    const int64_t x = by <= 0 ? i++ : -1, y = by >= 0 ? j++ : -1;
    const sparse *from = by <= 0 ? &a : &b;
    for (int32_t d = 0; d < a.rank; d++)
      ((int64_t *)m.indices->data)[o * a.rank + d] = at(from, by <= 0 ? x : y, d);
    const bool first = is_first(a.values, x, b.values, y, greater);
    const int64_t e = first ? x : y;
    if (e >= 0 && !dfk_copy(k, m.values, o, first ? a.values : b.values, e, 1)) return k->error->code;
  }
  return DF_OK;
}
int32_t ref_sparse_maximum(df_kernel *k) { return extreme(k, true); }
int32_t ref_sparse_minimum(df_kernel *k) { return extreme(k, false); }

/* What is left of the dims when these axes (input 3) are folded. kept: 1 where an axis stays. */
static bool fold_axes(df_kernel *k, const sparse *s, bool *kept) {
  const df_tensor *axes = k->in[3];
  for (int32_t d = 0; d < s->rank; d++) kept[d] = true;
  for (int64_t i = 0; i < axes->size; i++) {
    const int64_t axis = dfk_index(axes, i);
    if (axis < -s->rank || axis >= s->rank)
      return FAIL(k, "axis %lld is outside of a sparse tensor of rank %d", (long long)axis, s->rank);
    kept[axis < 0 ? axis + s->rank : axis] = false;
  }
  return true;
}

/* Where element i belongs in what is left. */
static int64_t place_of(const sparse *s, int64_t i, const bool *kept) {
  int64_t place = 0;
  for (int32_t d = 0; d < s->rank; d++) if (kept[d]) place = place * s->dims[d] + at(s, i, d);
  return place;
}

static void fold(df_tensor *out, const sparse *s, const bool *kept, bool greatest, double *sums, int64_t *wholes) {
  const bool real = ref_is_float(out->dtype), bits = out->dtype == DF_UINT64;
  for (int64_t i = 0; i < s->n; i++) {
    const int64_t p = place_of(s, i, kept);
    if (real) {
      const double v = ref_get(s->values, i);
      sums[p] = !greatest ? sums[p] + v : v > sums[p] || v != v ? v : sums[p];
    } else {
      const int64_t v = ref_get_int(s->values, i);
      const bool more = bits ? (uint64_t)v > (uint64_t)wholes[p] : v > wholes[p];
      wholes[p] = !greatest ? (int64_t)((uint64_t)wholes[p] + (uint64_t)v) : more ? v : wholes[p];
    }
  }
  for (int64_t p = 0; p < out->size; p++) if (real) ref_put(out, p, sums[p]); else ref_put_int(out, p, wholes[p]);
}

/* Where nothing is the greatest number is 0, so that those which are there begin with the first of them. */
static void begin_greatest(const sparse *s, const bool *kept, double *sums, int64_t *wholes, bool real) {
  for (int64_t i = s->n - 1; i >= 0; i--)
    if (real) sums[place_of(s, i, kept)] = ref_get(s->values, i);
    else wholes[place_of(s, i, kept)] = ref_get_int(s->values, i);
}

static int32_t reduce(df_kernel *k, bool greatest) {
  int64_t dims[DF_MAX_RANK];
  int32_t rank = 0;
  bool kept[DF_MAX_RANK];
  sparse s;
  if (!read_sparse(k, &s, 0) || !fold_axes(k, &s, kept)) return k->error->code;
  for (int32_t d = 0; d < s.rank; d++) if (kept[d] || dfk_bool(k, 0)) dims[rank++] = kept[d] ? s.dims[d] : 1;
  df_tensor *out = dfk_out(k, 0, k->out_dtype[0], rank, dims);
  int64_t *wholes = out ? dfk_scratch(k, out->size * 8 + 8) : NULL;
  if (!wholes) return k->error->code;
  double *sums = (double *)wholes;
  const bool real = ref_is_float(out->dtype);
  memset(wholes, 0, (size_t)out->size * 8);
  if (greatest) begin_greatest(&s, kept, sums, wholes, real);
  fold(out, &s, kept, greatest, sums, wholes);
  dfk_free(wholes);
  return DF_OK;
}
int32_t ref_sparse_reduce_sum(df_kernel *k) { return reduce(k, false); }
int32_t ref_sparse_reduce_max(df_kernel *k) { return reduce(k, true); }

static bool in_one_row(const sparse *s, int64_t i, int64_t j) {
  for (int32_t d = 0; d < s->rank - 1; d++) if (at(s, i, d) != at(s, j, d)) return false;
  return true;
}

/* Of the n elements of one row, which these places name. */
static void softmax_row(const sparse *s, const int64_t *place, int64_t n, df_tensor *out) {
  double most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; i++) most = fmax(most, ref_get(s->values, place[i]));
  for (int64_t i = 0; i < n; i++) sum += exp(ref_get(s->values, place[i]) - most);
  for (int64_t i = 0; i < n; i++) ref_put(out, place[i], exp(ref_get(s->values, place[i]) - most) / sum);
}

int32_t ref_sparse_softmax(df_kernel *k) {
  sparse s;
  if (!read_sparse(k, &s, 0)) return k->error->code;
  if (s.rank < 2)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the sparse tensor is of rank %d, 2 or more are expected", s.rank);
  df_tensor *out = dfk_out_like(k, 0, s.values);
  int64_t *place = out ? places_in_order(k, &s) : NULL;
  if (!place) return k->error->code;
  for (int64_t from = 0, to; from < s.n; from = to) {
    for (to = from + 1; to < s.n && in_one_row(&s, place[from], place[to]); to++) ;
    softmax_row(&s, place + from, to - from, out);
  }
  dfk_free(place);
  return DF_OK;
}

/* ---- other shapes ------------------------------------------------------------------------------------------------ */

static bool count_of(df_kernel *k, int32_t rank, const int64_t *dims, int64_t *n) {
  *n = 1;
  for (int32_t d = 0; d < rank; d++)
    if (__builtin_mul_overflow(*n, dims[d], n)) return FAIL(k, "a sparse tensor of more than 2^63 places");
  return true;
}

/* The new shape, of which one dimension may be -1, for as many places. */
static bool new_shape(df_kernel *k, const sparse *s, int32_t *rank, int64_t *dims, int64_t *places) {
  const df_tensor *shape = k->in[2];
  int64_t known = 1;
  int32_t open = -1;
  if (shape->rank != 1 || shape->size > DF_MAX_RANK)
    return FAIL(k, "new_shape has %lld numbers: expected up to %d", (long long)shape->size, DF_MAX_RANK);
  *rank = (int32_t)shape->size;
  for (int32_t d = 0; d < *rank; d++) {
    dims[d] = dfk_index(shape, d);
    if (dims[d] < -1 || (dims[d] == -1 && open >= 0))
      return FAIL(k, "new_shape has %lld at %d: expected 0 or more, and -1 once", (long long)dims[d], d);
    if (dims[d] == -1) open = d;
    else if (__builtin_mul_overflow(known, dims[d], &known)) return FAIL(k, "new_shape has more than 2^63 places");
  }
  if (!count_of(k, s->rank, s->dims, places)) return false;
  if (open >= 0 && known > 0 && *places % known == 0) known *= dims[open] = *places / known;
  else if (open >= 0)
    return FAIL(k, "new_shape has -1, but its other dimensions do not divide %lld", (long long)*places);
  return known == *places ||
         FAIL(k, "the sparse tensor has %lld places, new_shape has %lld", (long long)*places, (long long)known);
}

int32_t ref_sparse_reshape(df_kernel *k) {
  int64_t dims[DF_MAX_RANK], places;
  int32_t rank;
  sparse s;
  if (!make_sparse(k, &s, k->in[0], NULL, k->in[1]) || !new_shape(k, &s, &rank, dims, &places)) return k->error->code;
  const int64_t wide = rank;
  df_tensor *index = dfk_out(k, 0, DF_INT64, 2, (int64_t[]){ s.n, rank }), *shape = dfk_out(k, 1, DF_INT64, 1, &wide);
  if (!index || !shape) return k->error->code;
  if (rank) memcpy(shape->data, dims, (size_t)rank * sizeof *dims);
  for (int64_t i = 0; i < s.n; i++) {
    int64_t place = 0;
    for (int32_t d = 0; d < s.rank; d++) place = place * s.dims[d] + at(&s, i, d);
    for (int32_t d = rank - 1; d >= 0; place /= dims[d], d--) ((int64_t *)index->data)[i * rank + d] = place % dims[d];
  }
  return DF_OK;
}

/* ---- empty rows -------------------------------------------------------------------------------------------------- */

static bool fill_rows(df_kernel *k, const sparse *s, int64_t *start) {
  const int64_t rows = s->dims[0];
  for (int64_t r = 0; r <= rows; r++) start[r] = 0;
  for (int64_t i = 0; i < s->n; i++) start[at(s, i, 0) + 1]++;
  df_tensor *empty = dfk_out(k, 2, DF_BOOL, 1, &rows), *reverse = dfk_out(k, 3, DF_INT64, 1, &s->n);
  if (!empty || !reverse) return false;
  for (int64_t r = 0; r < rows; r++) {
    ((uint8_t *)empty->data)[r] = start[r + 1] == 0;
    start[r + 1] = start[r] + (start[r + 1] ? start[r + 1] : 1);
  }
  made m;
  if (!make_outputs(k, &m, 0, 1, start[rows], s->rank, NULL)) return false;
  for (int64_t r = 0; r < rows; r++) {
    if (!((uint8_t *)empty->data)[r]) continue;
    int64_t *index = (int64_t *)m.indices->data + start[r] * s->rank;
    memset(index, 0, (size_t)s->rank * sizeof *index);
    index[0] = r;
    if (!dfk_copy(k, m.values, start[r], k->in[3], 0, 1)) return false;
  }
  for (int64_t i = 0; i < s->n; i++) {
    const int64_t to = ((int64_t *)reverse->data)[i] = start[at(s, i, 0)]++;
    if (!move(k, &m, to, s, i, NULL)) return false;
  }
  return true;
}

int32_t ref_sparse_fill_empty_rows(df_kernel *k) {
  sparse s;
  if (!read_sparse(k, &s, 0)) return k->error->code;
  if (s.rank < 1 || k->in[3]->rank != 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT,
                    "a sparse tensor of rank 1 or more and a scalar default_value are expected");
  int64_t *start = dfk_scratch(k, (s.dims[0] + 1) * (int64_t)sizeof *start);
  const bool ok = start && fill_rows(k, &s, start);
  dfk_free(start);
  return ok ? DF_OK : k->error->code;
}

/* ---- gradients as TensorFlow has them ---------------------------------------------------------------------------- */

/* Indices alone, [n, rank] like those of input 1. */
static bool read_indices(df_kernel *k, sparse *s, int32_t input, const char *name) {
  const df_tensor *t = k->in[input], *like = k->in[1];
  char text[160];
  *s = (sparse){ .indices = t, .n = t->dims[0], .rank = (int32_t)t->dims[1] };
  return (t->rank == 2 && like->rank == 2 && t->dims[1] == like->dims[1] && t->dims[1] <= DF_MAX_RANK) ||
         FAIL(k, "%s is %s: expected [n,rank], of one rank", name, dfk_shape_text(t, text, sizeof text));
}

/* Output i: for each of `own` the gradient of what lies there, less `start` (NULL: nothing), in `there`; both rise. */
static bool find_each(df_kernel *k, int32_t i, const sparse *own, const sparse *there, const df_tensor *start) {
  df_tensor *out = dfk_out(k, i, k->out_dtype[i], 1, &own->n);
  if (!out) return false;
  dfk_clear(out);
  for (int64_t e = 0, j = 0; e < own->n && j < there->n; e++) {
    int by = -1;
    for (; j < there->n && by < 0; j += by < 0) {
      by = 0;
      for (int32_t d = 0; d < own->rank && !by; d++) {
        const int64_t a = at(there, j, d), b = at(own, e, d) - (start ? dfk_index(start, d) : 0);
        by = a < b && !start ? -1 : a == b ? 0 : 1;
      }
    }
    if (by == 0 && !dfk_copy(k, out, e, k->in[0], j++, 1)) return false;
  }
  return true;
}

static bool is_vector_of(df_kernel *k, const df_tensor *t, int64_t n) {
  char text[160];
  return (t->rank == 1 && t->size == n) ||
         FAIL(k, "the gradient is %s: expected [%lld]", dfk_shape_text(t, text, sizeof text), (long long)n);
}

int32_t ref_sparse_add_grad(df_kernel *k) {
  sparse a, b, sum;
  return read_indices(k, &a, 1, "a_indices") && read_indices(k, &b, 2, "b_indices") &&
                 read_indices(k, &sum, 3, "sum_indices") && is_vector_of(k, k->in[0], sum.n) &&
                 find_each(k, 0, &a, &sum, NULL) && find_each(k, 1, &b, &sum, NULL)
             ? DF_OK : k->error->code;
}

int32_t ref_sparse_slice_grad(df_kernel *k) {
  sparse own, part;
  if (!read_indices(k, &own, 1, "input_indices") || !read_indices(k, &part, 3, "output_indices") ||
      !is_vector_of(k, k->in[0], part.n)) return k->error->code;
  if (k->in[2]->rank != 1 || k->in[2]->size != own.rank)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "input_start has %lld numbers: expected %d", (long long)k->in[2]->size,
                    own.rank);
  return find_each(k, 0, &own, &part, k->in[2]) ? DF_OK : k->error->code;
}

/* The sum of the gradients that belong to no element: of the default. taken: 1 where one does. */
static void sum_rest(const df_tensor *dy, const uint8_t *taken, df_tensor *rest) {
  double sum = 0;
  uint64_t whole = 0;
  for (int64_t i = 0; i < dy->size; i++) {
    if (taken[i]) continue;
    if (ref_is_float(dy->dtype)) sum += ref_get(dy, i);
    else whole += (uint64_t)ref_get_int(dy, i);
  }
  if (ref_is_float(dy->dtype)) ref_put(rest, 0, sum);
  else ref_put_int(rest, 0, (int64_t)whole);
}

static bool fill_grad(df_kernel *k, uint8_t *taken) {
  const df_tensor *reverse = k->in[0], *dy = k->in[1];
  df_tensor *values = dfk_out(k, 0, k->out_dtype[0], 1, &reverse->size);
  df_tensor *rest = dfk_out(k, 1, k->out_dtype[1], 0, NULL);
  if (!values || !rest) return false;
  memset(taken, 0, (size_t)dy->size);
  for (int64_t i = 0; i < reverse->size; i++) {
    const int64_t from = dfk_index(reverse, i);
    if (from < 0 || from >= dy->size)
      return FAIL(k, "reverse_index_map[%lld] is %lld: outside of %lld gradients", (long long)i, (long long)from,
                  (long long)dy->size);
    taken[from] = 1;
    if (!dfk_copy(k, values, i, dy, from, 1)) return false;
  }
  sum_rest(dy, taken, rest);
  return true;
}

int32_t ref_sparse_fill_grad(df_kernel *k) {
  const df_tensor *reverse = k->in[0], *dy = k->in[1];
  if (reverse->rank != 1 || dy->rank != 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "reverse_index_map has rank %d and the gradient %d: expected 1 of both",
                    reverse->rank, dy->rank);
  uint8_t *taken = dfk_scratch(k, dy->size + 1);
  const bool ok = taken && fill_grad(k, taken);
  dfk_free(taken);
  return ok ? DF_OK : k->error->code;
}

/* ---- with dense tensors ------------------------------------------------------------------------------------------ */

/* Where in the dense tensor element i finds its partner; that is broadcast. */
static int64_t partner(const sparse *s, int64_t i, const df_tensor *dense) {
  int64_t place = 0;
  for (int32_t d = 0; d < dense->rank; d++)
    place = place * dense->dims[d] + (dense->dims[d] == 1 ? 0 : at(s, i, s->rank - dense->rank + d));
  return place;
}

static bool broadcasts(df_kernel *k, const sparse *s, const df_tensor *dense) {
  char a[160];
  bool fits = dense->rank <= s->rank;
  for (int32_t d = 0; fits && d < dense->rank; d++)
    fits = dense->dims[d] == 1 || dense->dims[d] == s->dims[s->rank - dense->rank + d];
  return fits || FAIL(k, "the dense tensor is %s and cannot be broadcast to the shape of the sparse one",
                      dfk_shape_text(dense, a, sizeof a));
}

typedef enum cwise { MUL, DIV, ADD } cwise;
static double real_of(cwise what, double a, double b) { return what == MUL ? a * b : what == DIV ? a / b : a + b; }

static int32_t with_dense(df_kernel *k, cwise what) {
  const df_tensor *dense = k->in[3];
  sparse s;
  if (!read_sparse(k, &s, 0) || !broadcasts(k, &s, dense)) return k->error->code;
  df_tensor *out = dfk_out(k, 0, k->out_dtype[0], 1, &s.n);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < s.n; i++) {
    const int64_t j = partner(&s, i, dense);
    if (ref_is_float(out->dtype)) {
      ref_put(out, i, real_of(what, ref_get(s.values, i), ref_get(dense, j)));
      continue;
    }
    const int64_t a = ref_get_int(s.values, i), b = ref_get_int(dense, j);
    if (what == DIV && b == 0) return dfk_fail(k, DF_INVALID_ARGUMENT, "division by zero");
    const uint64_t x = (uint64_t)a, y = (uint64_t)b;
    const uint64_t quotient = what != DIV ? 0 : out->dtype == DF_UINT64 ? x / y : b == -1 ? 0 - x : (uint64_t)(a / b);
    ref_put_int(out, i, (int64_t)(what == MUL ? x * y : what == ADD ? x + y : quotient));
  }
  return DF_OK;
}
int32_t ref_sparse_dense_mul(df_kernel *k) { return with_dense(k, MUL); }
int32_t ref_sparse_dense_div(df_kernel *k) { return with_dense(k, DIV); }
int32_t ref_sparse_dense_add(df_kernel *k) { return with_dense(k, ADD); }

int32_t ref_sparse_tensor_dense_add(df_kernel *k) {
  const df_tensor *dense = k->in[3];
  char text[160];
  sparse s;
  if (!read_sparse(k, &s, 0)) return k->error->code;
  if (dense->rank != s.rank || memcmp(dense->dims, s.dims, (size_t)s.rank * sizeof *s.dims))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the dense tensor is %s: expected the shape of the sparse one",
                    dfk_shape_text(dense, text, sizeof text));
  df_tensor *out = dfk_out_like(k, 0, dense);
  if (!out || !dfk_copy(k, out, 0, dense, 0, dense->size)) return k->error->code;
  for (int64_t i = 0; i < s.n; i++) {
    const int64_t to = partner(&s, i, dense);
    put_sum(out, dense->size == 1 ? 0 : to, s.values, i, out, dense->size == 1 ? 0 : to);
  }
  return DF_OK;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

int32_t dfk_sparse_matmul(df_kernel *k, dfk_sparse_product_fn run) {
  const df_tensor *b = k->in[3];
  const int32_t row = dfk_bool(k, 0), over = dfk_bool(k, 1);
  char text[160];
  sparse s;
  if (!read_sparse(k, &s, 0)) return k->error->code;
  if (s.rank != 2 || b->rank != 2)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "a sparse tensor of rank %d times %s: expected two matrices", s.rank,
                    dfk_shape_text(b, text, sizeof text));
  const dfk_triplets a = { s.n, s.dims[row], s.dims[1 - row], k->in[0], row };
  if (b->dims[over] != a.columns)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "a matrix of %lld columns times one of %lld rows", (long long)a.columns,
                    (long long)b->dims[over]);
  df_tensor *out = dfk_out(k, 0, k->out_dtype[0], 2, (int64_t[]){ a.rows, b->dims[1 - over] });
  if (!out) return k->error->code;
  dfk_clear(out);
  return out->size ? run(k, &a, b, over, out) : DF_OK;
}

static int32_t product(df_kernel *k, const dfk_triplets *a, const df_tensor *b, bool transposed, df_tensor *out) {
  const int64_t n = out->dims[1];
  const bool real = ref_is_float(out->dtype);
  int64_t *wholes = dfk_scratch(k, out->size * 8);
  if (!wholes) return k->error->code;
  double *sums = (double *)wholes;
  memset(wholes, 0, (size_t)out->size * 8);
  for (int64_t i = 0; i < a->n; i++) {
    const int64_t r = dfk_index(a->at, 2 * i + a->row), c = dfk_index(a->at, 2 * i + 1 - a->row);
    for (int64_t j = 0; j < n; j++) {
      const int64_t from = transposed ? j * b->dims[1] + c : c * n + j;
      if (real) sums[r * n + j] += ref_get(k->in[1], i) * ref_get(b, from);
      else wholes[r * n + j] = (int64_t)((uint64_t)wholes[r * n + j] +
                                         (uint64_t)ref_get_int(k->in[1], i) * (uint64_t)ref_get_int(b, from));
    }
  }
  for (int64_t p = 0; p < out->size; p++) if (real) ref_put(out, p, sums[p]); else ref_put_int(out, p, wholes[p]);
  dfk_free(wholes);
  return DF_OK;
}
int32_t ref_sparse_matmul(df_kernel *k) { return dfk_sparse_matmul(k, product); }
