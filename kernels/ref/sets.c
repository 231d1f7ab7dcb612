/* sets.c: TensorFlow's set operations. The elements of a set lie along the last dimension, or have their places there
 * in a sparse tensor; the dimensions before it count the sets. What is given back is sparse: each set's elements in
 * rising order, once each. How far two sequences are apart is asked of the same two operands.
 */
#include "../sets.h"
#include "element.h"
#include <stdlib.h>

/* The sets of one operand: n of them; set i is values [start[i], start[i + 1]). */
typedef struct operand {
  int32_t          rank;                 /* with the dimension of the elements */
  int64_t          dims[DF_MAX_RANK];
  int64_t          n;
  const df_tensor *values;
  int64_t         *start;                /* n + 1; scratch */
} operand;

/* ---- elements ---------------------------------------------------------------------------------------------------- */
static int order(const df_tensor *t, int64_t i, const df_tensor *u, int64_t j) {
  if (t->dtype != DF_STRING) {
    const int64_t a = ref_get_int(t, i), b = ref_get_int(u, j);
    return (a > b) - (a < b);
  }
  const df_str *a = (const df_str *)t->data + i, *b = (const df_str *)u->data + j;
  const int64_t n = a->length < b->length ? a->length : b->length;
  const int at = n ? memcmp(a->bytes, b->bytes, (size_t)n) : 0;
  return at ? at : (a->length > b->length) - (a->length < b->length);
}

/* The places of the values [from, to) in rising order, of equal ones the first; so many. Merge sort by halves. */
static int64_t sorted(const df_tensor *t, int64_t from, int64_t to, int64_t *place, int64_t *spare) {
  const int64_t n = to - from;
  if (n <= 0) return 0;
  if (n == 1) { place[0] = from; return 1; }
  const int64_t half = n / 2;
  const int64_t a = sorted(t, from, from + half, spare, place), b = sorted(t, from + half, to, spare + half, place);
  int64_t i = 0, j = 0, at = 0;
  while (i < a || j < b) {
    const int by = i == a ? 1 : j == b ? -1 : order(t, spare[i], t, spare[half + j]);
    place[at++] = by <= 0 ? spare[i] : spare[half + j];
    i += by <= 0;
    j += by >= 0;
  }
  return at;
}

/* ---- operands ---------------------------------------------------------------------------------------------------- */
/* The operand's n and room for its starts, by its dims. */
static bool count_sets(df_kernel *k, operand *o) {
  o->n = 1;
  for (int32_t d = 0; d < o->rank - 1; d++) {
    if (o->dims[d] >= 0 && o->dims[d] <= INT32_MAX) o->n *= o->dims[d];
    if (o->dims[d] >= 0 && o->dims[d] <= INT32_MAX && o->n <= INT32_MAX) continue;
    dfk_fail(k, DF_INVALID_ARGUMENT, "dimension %d of the sets is %lld: there can be %d sets", d, (long long)o->dims[d],
             INT32_MAX);
    return false;
  }
  o->start = dfk_scratch(k, (o->n + 1) * (int64_t)sizeof *o->start);
  return o->start != NULL;
}

static bool begin_dense(df_kernel *k, int32_t i, operand *o) {
  const df_tensor *t = k->in[i];
  if (t->rank < 2) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "a set has rank %d but must have 2 or more: sets, then elements", t->rank);
    return false;
  }
  *o = (operand){ .rank = t->rank, .values = t };
  memcpy(o->dims, t->dims, sizeof *t->dims * (size_t)t->rank);
  if (!count_sets(k, o)) return false;
  for (int64_t s = 0; s <= o->n; s++) o->start[s] = s * t->dims[t->rank - 1];
  return true;
}

/* The number of the set that row i of the indices is in; -1: it lies outside, and error is filled. */
static int64_t set_of(df_kernel *k, const operand *o, const df_tensor *index, int64_t i) {
  int64_t at = 0;
  for (int32_t d = 0; d < o->rank; d++) {
    const int64_t x = ((const int64_t *)index->data)[i * o->rank + d];
    if (x < 0 || x >= o->dims[d]) {
      dfk_fail(k, DF_INVALID_ARGUMENT, "index %lld of a set is %lld in dimension %d, which has %lld", (long long)i,
               (long long)x, d, (long long)o->dims[d]);
      return -1;
    }
    if (d < o->rank - 1) at = at * o->dims[d] + x;
  }
  return at;
}

static bool begin_sparse(df_kernel *k, int32_t i, operand *o) {
  const df_tensor *index = k->in[i], *values = k->in[i + 1], *shape = k->in[i + 2];
  char a[160], b[160], c[160];
  if (index->rank != 2 || values->rank != 1 || shape->rank != 1 || index->dims[0] != values->size ||
      index->dims[1] != shape->size || shape->size < 2 || shape->size > DF_MAX_RANK) {
    dfk_fail(k, DF_INVALID_ARGUMENT,
             "indices %s, values %s and shape %s are no sparse sets: expected [n,rank], [n] and [rank], a "
             "rank of 2 or more", dfk_shape_text(index, a, sizeof a), dfk_shape_text(values, b, sizeof b),
             dfk_shape_text(shape, c, sizeof c));
    return false;
  }
  *o = (operand){ .rank = (int32_t)shape->size, .values = values };
  for (int32_t d = 0; d < o->rank; d++) o->dims[d] = dfk_index(shape, d);
  if (!count_sets(k, o)) return false;
  int64_t set = 0;
  o->start[0] = 0;
  for (int64_t r = 0; r < values->size; r++) {
    const int64_t at = set_of(k, o, index, r);
    if (at >= set) { while (set < at) o->start[++set] = r; continue; }
    if (at >= 0)
      dfk_fail(k, DF_INVALID_ARGUMENT, "index %lld of a sparse set is out of order", (long long)r);
    return false;
  }
  while (set < o->n) o->start[++set] = values->size;
  return true;
}

/* ---- operations -------------------------------------------------------------------------------------------------- */
typedef enum what { A_MINUS_B, B_MINUS_A, INTERSECTION, UNION, UNKNOWN } what;

static what what_of(df_kernel *k) {
  static const char *const name[] = { "a-b", "b-a", "intersection", "union" };
  for (int i = 0; i < UNKNOWN; i++) if (!strcmp(dfk_string(k, 0), name[i])) return (what)i;
  dfk_fail(k, DF_INVALID_ARGUMENT, "set_operation is '%s' but must be a-b, b-a, intersection or union",
           dfk_string(k, 0));
  return UNKNOWN;
}

/* An element of the result: of which operand, its place there, the set it is in. */
typedef struct element { const df_tensor *of; int64_t place, set; } element;
typedef struct result { element *at; int64_t n, most; } result;

/* Set s of both operands as one; room has three times the elements of a set. */
static void combine(what w, const operand *a, const operand *b, int64_t s, int64_t *room, int64_t width, result *r) {
  int64_t *x = room, *y = room + width, *spare = room + 2 * width, i = 0, j = 0;
  const int64_t n = sorted(a->values, a->start[s], a->start[s + 1], x, spare),
                m = sorted(b->values, b->start[s], b->start[s + 1], y, spare), before = r->n;
  while (i < n || j < m) {
    const int by = i == n ? 1 : j == m ? -1 : order(a->values, x[i], b->values, y[j]);
    const bool keep = w == UNION || (w == INTERSECTION && by == 0) || (w == A_MINUS_B && by < 0) ||
                      (w == B_MINUS_A && by > 0);
    if (keep) r->at[r->n++] = by <= 0 ? (element){ a->values, x[i], s } : (element){ b->values, y[j], s };
    i += by <= 0;
    j += by >= 0;
  }
  if (r->n - before > r->most) r->most = r->n - before;
}

static int32_t give(df_kernel *k, const operand *a, const result *r) {
  const int64_t rank = a->rank;
  df_tensor *index = dfk_out(k, 0, DF_INT64, 2, (int64_t[]){ r->n, rank });
  df_tensor *values = index ? dfk_out(k, 1, a->values->dtype, 1, &r->n) : NULL;
  df_tensor *shape = values ? dfk_out(k, 2, DF_INT64, 1, &rank) : NULL;
  if (!shape) return k->error->code;
  for (int32_t d = 0; d < rank; d++) ((int64_t *)shape->data)[d] = d < rank - 1 ? a->dims[d] : r->most;
  for (int64_t e = 0, within = 0; e < r->n; e++, within++) {
    if (e && r->at[e].set != r->at[e - 1].set) within = 0;
    int64_t *to = (int64_t *)index->data + e * rank, left = r->at[e].set;
    to[rank - 1] = within;
    for (int64_t d = rank - 2; d >= 0; d--) { to[d] = left % a->dims[d]; left /= a->dims[d]; }
    if (a->values->dtype != DF_STRING) ref_put_int(values, e, ref_get_int(r->at[e].of, r->at[e].place));
    else {
      const df_str *s = (const df_str *)r->at[e].of->data + r->at[e].place;
      if (!dfk_set_string(k, values, e, s->bytes, s->length)) return k->error->code;
    }
  }
  return DF_OK;
}

/* Consumes what the operands hold. */
static int32_t operate(df_kernel *k, bool began, const operand *a, const operand *b) {
  const what w = began ? what_of(k) : UNKNOWN;
  bool fits = a->rank == b->rank;
  for (int32_t d = 0; fits && d < a->rank - 1; d++) fits = a->dims[d] == b->dims[d];
  int32_t code = w == UNKNOWN ? k->error->code : DF_OK;
  if (!code && !fits)
    code = dfk_fail(k, DF_INVALID_ARGUMENT, "the sets are counted by different dimensions: %lld of rank %d and %lld of "
                    "rank %d", (long long)a->n, a->rank, (long long)b->n, b->rank);
  int64_t width = 1;
  for (int64_t s = 0; !code && s < a->n; s++) {
    const int64_t n = a->start[s + 1] - a->start[s], m = b->start[s + 1] - b->start[s];
    width = n > width ? n : width;
    width = m > width ? m : width;
  }
  result r = { 0 };
  int64_t *room = code ? NULL : dfk_scratch(k, 3 * width * (int64_t)sizeof *room);
  if (room) r.at = dfk_scratch(k, (a->values->size + b->values->size + 1) * (int64_t)sizeof *r.at);
  if (!code && !r.at) code = k->error->code;
  for (int64_t s = 0; !code && s < a->n; s++) combine(w, a, b, s, room, width, &r);
  if (!code) code = give(k, a, &r);
  dfk_free(r.at);
  dfk_free(room);
  dfk_free(a->start);
  dfk_free(b->start);
  return code;
}

int32_t ref_dense_to_dense_set(df_kernel *k) {
  operand a = { 0 }, b = { 0 };
  return operate(k, begin_dense(k, 0, &a) && begin_dense(k, 1, &b), &a, &b);
}
int32_t ref_dense_to_sparse_set(df_kernel *k) {
  operand a = { 0 }, b = { 0 };
  return operate(k, begin_dense(k, 0, &a) && begin_sparse(k, 1, &b), &a, &b);
}
int32_t ref_sparse_to_sparse_set(df_kernel *k) {
  operand a = { 0 }, b = { 0 };
  return operate(k, begin_sparse(k, 0, &a) && begin_sparse(k, 3, &b), &a, &b);
}

/* ---- sequences --------------------------------------------------------------------------------------------------- */
static bool alike(const df_tensor *t, int64_t i, const df_tensor *u, int64_t j) {
  if (ref_is_float(t->dtype)) return ref_get(t, i) == ref_get(u, j);
  if (dfk_is_complex(t->dtype)) return ref_get_complex(t, i) == ref_get_complex(u, j);
  return order(t, i, u, j) == 0;
}

/* How many elements set s of a, put in, left out or replaced by others, make it set u of b. row: room for one more than
 * u has. */
static int64_t edits(const operand *a, int64_t s, const operand *b, int64_t u, int64_t *row) {
  const int64_t n = b->start[u + 1] - b->start[u];
  for (int64_t j = 0; j <= n; j++) row[j] = j;
  for (int64_t i = a->start[s]; i < a->start[s + 1]; i++) {
    int64_t before = row[0]++;
    for (int64_t j = 0; j < n; j++) {
      int64_t least = before + !alike(a->values, i, b->values, b->start[u] + j);
      before = row[j + 1];
      if (row[j] + 1 < least) least = row[j] + 1;
      if (before + 1 < least) least = before + 1;
      row[j + 1] = least;
    }
  }
  return row[n];
}

/* The set of o at place i of dims, those of o or larger; -1: o has none there. */
static int64_t set_at(const operand *o, const int64_t *dims, int64_t i) {
  int64_t set = 0, size = 1;
  for (int32_t d = o->rank - 2; d >= 0; i /= dims[d--]) {
    if (i % dims[d] >= o->dims[d]) return -1;
    set += i % dims[d] * size;
    size *= o->dims[d];
  }
  return set;
}
static int64_t length_of(const operand *o, int64_t s) { return s < 0 ? 0 : o->start[s + 1] - o->start[s]; }

int32_t ref_edit_distance(df_kernel *k) {
  operand a = { 0 }, b = { 0 };
  int64_t dims[DF_MAX_RANK];
  int32_t code = begin_sparse(k, 0, &a) && begin_sparse(k, 3, &b) ? DF_OK : k->error->code;
  if (!code && a.rank != b.rank)
    code = dfk_fail(k, DF_INVALID_ARGUMENT, "the hypothesis has rank %d and the truth rank %d: expected the same",
                    a.rank, b.rank);
  for (int32_t d = 0; !code && d < a.rank - 1; d++) dims[d] = a.dims[d] > b.dims[d] ? a.dims[d] : b.dims[d];
  df_tensor *out = code ? NULL : dfk_out(k, 0, DF_FLOAT32, a.rank - 1, dims);
  int64_t *row = out ? dfk_scratch(k, (b.values->size + 1) * (int64_t)sizeof *row) : NULL;
  if (!row && !code) code = k->error->code;
  for (int64_t i = 0; !code && i < out->size; i++) {
    const int64_t s = set_at(&a, dims, i), u = set_at(&b, dims, i), n = length_of(&a, s), m = length_of(&b, u);
    const int64_t far = n && m ? edits(&a, s, &b, u, row) : n + m;
    ((float *)out->data)[i] = (float)far / (dfk_bool(k, 0) && far ? (float)m : 1);
  }
  dfk_free(row);
  dfk_free(a.start);
  dfk_free(b.start);
  return code;
}

int32_t ref_set_size(df_kernel *k) {
  operand o = { 0 };
  int32_t code = begin_sparse(k, 0, &o) ? DF_OK : k->error->code;
  df_tensor *out = code ? NULL : dfk_out(k, 0, DF_INT32, o.rank - 1, o.dims);
  int64_t *room = out ? dfk_scratch(k, 2 * (o.values->size + 1) * (int64_t)sizeof *room) : NULL;
  if (!code && !room) code = k->error->code;
  for (int64_t s = 0; !code && s < o.n; s++)
    ((int32_t *)out->data)[s] = (int32_t)sorted(o.values, o.start[s], o.start[s + 1], room, room + o.values->size + 1);
  dfk_free(room);
  dfk_free(o.start);
  return code;
}
