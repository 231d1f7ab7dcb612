/* ragged.c: ragged tensors, given as partitions of rows, as dense and as sparse ones. */
#include "../move.h"
#include "../ragged.h"
#include <string.h>

#define FAIL(k, ...) (dfk_fail(k, DF_INVALID_ARGUMENT, __VA_ARGS__), false)

/* ---- partitions ------------------------------------------------------------------------------------------------ */

/* One partition: how many rows there are, and how long each is, as the kind that TensorFlow names says it. */
typedef struct partition { const df_tensor *t; bool ids; int64_t rows, values; } partition;

static bool named(const df_str *s, const char *word) {
  return s->length == (int64_t)strlen(word) && !memcmp(s->bytes, word, (size_t)s->length);
}

bool dfk_ragged_splits(df_kernel *k, const df_tensor *t, int64_t values) {
  if (t->rank != 1 || !t->size) return FAIL(k,
                                            "splits of rank %d with %lld elements: expected a vector of one at "
                                        "least", t->rank, (long long)t->size);
  for (int64_t i = 0, before = 0; i < t->size; i++) {
    const int64_t s = dfk_index(t, i);
    if (s < before || (!i && s) || (values >= 0 && (s > values || (i + 1 == t->size && s != values))))
      return FAIL(k, "splits[%lld] is %lld behind %lld: expected numbers from 0 to %lld that never fall",
                  (long long)i, (long long)s,
                  (long long)before, (long long)(values < 0 ? dfk_index(t, t->size - 1) : values));
    before = s;
  }
  return true;
}

static bool check_ids(df_kernel *k, const df_tensor *t, int64_t rows) {
  if (t->rank != 1) return FAIL(k, "row ids of rank %d: expected a vector", t->rank);
  for (int64_t i = 0, before = 0; i < t->size; i++) {
    const int64_t id = dfk_index(t, i);
    if (id < before || id >= rows)
      return FAIL(k, "row ids[%lld] is %lld: expected numbers from 0 to %lld that never fall", (long long)i,
                  (long long)id, (long long)rows - 1);
    before = id;
  }
  return true;
}

static int64_t longest_row(const partition *p) {
  int64_t longest = 0, n = 0;
  for (int64_t i = 0; i < (p->ids ? p->values : p->rows); i++) {
    if (p->ids) n = i && dfk_index(p->t, i) == dfk_index(p->t, i - 1) ? n + 1 : 1;
    else n = dfk_index(p->t, i + 1) - dfk_index(p->t, i);
    if (n > longest) longest = n;
  }
  return longest;
}

/* Where rows begin in the result: row i at at[i] (-1: it is left out), or, without such a list, the first n of them one
 * behind the other. */
typedef struct places { const int64_t *at; int64_t n, step; } places;

static int64_t begin_of(const places *p, int64_t row) {
  return p->at ? p->at[row] : row < p->n ? row * p->step : -1;
}

/* Where the values of the partition lie in the result, at most `width` of a row, by `step`. */
static void place(const partition *p, const places *rows, int64_t *out, int64_t width, int64_t step) {
  for (int64_t v = 0, row = 0, j = 0; v < p->values; v++, j++) {
    const int64_t before = row;
    if (p->ids) row = dfk_index(p->t, v);
    else while (dfk_index(p->t, row + 1) <= v) row++;
    if (row != before) j = 0;
    const int64_t begin = begin_of(rows, row);
    out[v] = begin >= 0 && j < width ? begin + j * step : -1;
  }
}

/* ---- RaggedTensorToTensor -------------------------------------------------------------------------------------- */

enum { SHAPE, VALUES, DEFAULT, FIRST };

typedef struct dense {
  partition p[DF_MAX_RANK];
  int32_t   n, rank;                        /* partitions; of the result */
  int64_t   first, dims[DF_MAX_RANK];       /* rows of the first; of the result */
} dense;

static bool read_partitions(df_kernel *k, dense *d) {
  const df_tensor *kinds = k->attrs[0].tensor;
  const int32_t given = k->nin - FIRST, skip = given && kinds && kinds->size && named(kinds->data, "FIRST_DIM_SIZE");
  if (!kinds || kinds->dtype != DF_STRING || kinds->size != given || !given)
    return FAIL(k, "row_partition_types names %lld kinds, there are %d partitions",
                (long long)(kinds ? kinds->size : 0), given);
  d->n = given - skip;
  if (d->n < 1 || d->n >= DF_MAX_RANK) return FAIL(k, "%d partitions of rows: expected 1 to %d", d->n, DF_MAX_RANK - 1);
  if (skip && k->in[FIRST]->size != 1)
    return FAIL(k, "the first dimension's size is one number, not %lld", (long long)k->in[FIRST]->size);
  if (skip && dfk_index(k->in[FIRST], 0) < 0) return FAIL(k, "the first dimension's size is negative");
  int64_t rows = skip ? dfk_index(k->in[FIRST], 0) : k->in[FIRST]->size - 1;
  d->first = rows;
  for (int32_t i = 0; i < d->n; i++) {
    const df_str *kind = (const df_str *)kinds->data + skip + i;
    partition *p = &d->p[i];
    *p = (partition){ .t = k->in[FIRST + skip + i], .ids = named(kind, "VALUE_ROWIDS"), .rows = rows };
    if (!p->ids && !named(kind, "ROW_SPLITS"))
      return FAIL(k, "partition %d is of the kind %.*s: expected ROW_SPLITS, or VALUE_ROWIDS behind FIRST_DIM_SIZE", i,
                  (int)(kind->length > 40 ? 40 : kind->length), kind->bytes);
    if (p->ids && !skip) return FAIL(k, "VALUE_ROWIDS without FIRST_DIM_SIZE: how many rows there are is not known");
    if (p->ids ? !check_ids(k, p->t, rows) : !dfk_ragged_splits(k, p->t, -1)) return false;
    if (!p->ids && p->t->size - 1 != rows)
      return FAIL(k, "partition %d splits %lld rows, there are %lld", i, (long long)p->t->size - 1, (long long)rows);
    p->values = p->ids ? p->t->size : dfk_index(p->t, p->t->size - 1);
    rows = p->values;
  }
  if (k->in[VALUES]->rank < 1 || k->in[VALUES]->dims[0] != rows)
    return FAIL(k, "the partitions tell of %lld values, there are %lld", (long long)rows,
                (long long)(k->in[VALUES]->rank ? k->in[VALUES]->dims[0] : 0));
  return true;
}

/* Dimension i as the shape asks for it; -1: as large as need be. */
static int64_t asked(const df_tensor *shape, int32_t i) { return shape->rank ? dfk_index(shape, i) : -1; }

static bool read_dims(df_kernel *k, dense *d) {
  const df_tensor *shape = k->in[SHAPE], *values = k->in[VALUES];
  d->rank = d->n + values->rank;
  if (d->rank > DF_MAX_RANK) return FAIL(k, "a result of rank %d: %d is the most", d->rank, DF_MAX_RANK);
  if (shape->rank > 1 || (shape->rank == 0 && dfk_index(shape, 0) != -1) || (shape->rank == 1 &&
                                                                             shape->size != d->rank))
    return FAIL(k, "the shape has rank %d and %lld elements: expected -1, or the %d dimensions of the result",
                shape->rank,
                (long long)shape->size, d->rank);
  for (int32_t i = 0; i < d->rank; i++) {
    const int64_t want = asked(shape, i), inner = i > d->n ? values->dims[i - d->n] : -1;
    if (want < -1 || (inner >= 0 && want >= 0 && want != inner))
      return FAIL(k, "dimension %d of the shape is %lld%s", i, (long long)want,
                  inner < 0 ? "" : ": the values have another there");
    d->dims[i] = want >= 0 ? want : inner >= 0 ? inner : i ? longest_row(&d->p[i - 1]) : d->first;
  }
  return true;
}

/* Fills the result with the default, which is a scalar or goes round the last dimensions of a row of values. */
static bool fill(df_kernel *k, const dense *d, df_tensor *out) {
  const df_tensor *by = k->in[DEFAULT];
  const int32_t shift = d->rank - by->rank;
  if (by->rank >= k->in[VALUES]->rank && by->rank) return FAIL(k, "default_value has rank %d, a row of values %d",
                                                               by->rank, k->in[VALUES]->rank - 1);
  dfk_box box = { .rank = d->rank };
  int64_t step = 1;
  for (int32_t i = by->rank - 1; i >= 0; i--) {
    if (by->dims[i] != 1 && by->dims[i] != d->dims[shift + i]) return FAIL(k,
                                                                           "default_value does not broadcast to "
                                        "a row of values");
    box.from[shift + i] = by->dims[i] == 1 ? 0 : step;
    step *= by->dims[i];
  }
  for (int32_t i = 0; i < d->rank; i++) box.dims[i] = d->dims[i];
  dfk_strides(d->rank, d->dims, box.to);
  return dfk_move(k, out, 0, by, 0, &box);
}

static bool put(df_kernel *k, df_tensor *out, const int64_t *at, int64_t step) {
  const df_tensor *values = k->in[VALUES];
  for (int64_t v = 0; v < values->dims[0]; v++)
    if (at[v] >= 0 && step && !dfk_copy(k, out, at[v], values, v * step, step)) return false;
  return true;
}

static bool give(df_kernel *k, const dense *d, df_tensor *out, int64_t *scratch) {
  int64_t inner = 1, step = 1;
  for (int32_t i = d->n + 1; i < d->rank; i++) inner *= d->dims[i];
  for (int32_t i = 1; i < d->rank; i++) step *= d->dims[i];
  places rows = { NULL, d->dims[0], step };
  for (int32_t i = 0; i < d->n; i++) {
    step /= d->dims[i + 1];
    place(&d->p[i], &rows, scratch, d->dims[i + 1], step);
    rows.at = scratch;
    scratch += d->p[i].values;
  }
  return put(k, out, rows.at, inner);
}

/* shape, values, default_value, row_partition_tensors…; row_partition_types */
int32_t ref_ragged_to_tensor(df_kernel *k) {
  dense d;
  if (!read_partitions(k, &d) || !read_dims(k, &d)) return k->error->code;
  int64_t all = 1;
  for (int32_t i = 0; i < d.n; i++) all += d.p[i].values;
  df_tensor *out = dfk_out(k, 0, k->in[VALUES]->dtype, d.rank, d.dims);
  int64_t *scratch = out ? dfk_scratch(k, all * (int64_t)sizeof *scratch) : NULL;
  const bool good = scratch && (!out->size || (fill(k, &d, out) && give(k, &d, out, scratch)));
  dfk_free(scratch);
  return good ? DF_OK : k->error->code;
}

/* ---- RaggedTensorToSparse --------------------------------------------------------------------------------------- */

/* rt_nested_splits…, rt_dense_values -> sparse_indices, sparse_values, sparse_dense_shape */
int32_t ref_ragged_to_sparse(df_kernel *k) {
  const int32_t n = k->nin - 1;
  const df_tensor *values = k->in[n];
  const int32_t rank = n + values->rank;
  if (n < 1 || values->rank < 1 || rank > DF_MAX_RANK)
    return dfk_fail(k, DF_INVALID_ARGUMENT,
                    "%d splits and values of rank %d: expected one, rank 1, and %d in all at most", n,
                    values->rank, DF_MAX_RANK);
  for (int32_t i = 0; i < n; i++) {
    const df_tensor *below = k->in[i + 1];
    if (!dfk_ragged_splits(k, k->in[i], i + 1 < n ? below->size - 1 : below->dims[0])) return k->error->code;
  }
  df_tensor *indices = dfk_out(k, 0, DF_INT64, 2, (int64_t[]){ values->size, rank }),
            *flat = indices ? dfk_out(k, 1, values->dtype, 1, &values->size) : NULL,
            *shape = flat ? dfk_out(k, 2, DF_INT64, 1, (int64_t[]){ rank }) : NULL;
  if (!shape || !dfk_copy(k, flat, 0, values, 0, values->size)) return k->error->code;
  int64_t *dims = shape->data, row[DF_MAX_RANK] = { 0 };
  dims[0] = k->in[0]->size - 1;
  for (int32_t i = 0; i < n; i++) {
    const partition p = { k->in[i], false, k->in[i]->size - 1, 0 };
    dims[i + 1] = longest_row(&p);
  }
  for (int32_t i = 1; i < values->rank; i++) dims[n + i] = values->dims[i];
  const int64_t inner = values->dims[0] ? values->size / values->dims[0] : 0;
  for (int64_t v = 0, e = 0; v < values->dims[0]; v++) {
    int64_t at = v, *index = (int64_t *)indices->data + e * rank;
    for (int32_t i = n - 1; i >= 0; i--) {                       /* row[i]: the row of level i that value v is in */
      while (dfk_index(k->in[i], row[i] + 1) <= at) row[i]++;
      for (int64_t j = 0; j < inner; j++) index[j * rank + i + 1] = at - dfk_index(k->in[i], row[i]);
      at = row[i];
    }
    for (int64_t j = 0; j < inner; j++, e++) {
      index[j * rank] = at;
      for (int64_t d = values->rank - 1,
           rest = j; d > 0; rest /= values->dims[d--]) index[j * rank + n + d] = rest % values->dims[d];
    }
  }
  return DF_OK;
}
