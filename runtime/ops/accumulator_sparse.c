/* accumulator_sparse.c: sums of gradients that are rows of a tensor, with their indices in rising order. Two are added
 * as lists are merged; a row that several gradients had is divided by how many these were. As in TensorFlow, what does
 * not rise is merged all the same, and keeps an index twice.
 */
#include "ops/accumulator.h"
#include "kernels/move.h"

enum { INDICES = 2, VALUES = 3, SHAPE_IN = 4, HAS_SHAPE = 0 };

/* Elements of a row. */
static int64_t width(const df_tensor *rows) {
  int64_t n = 1;
  for (int32_t d = 1; d < rows->rank; d++) n *= rows->dims[d];
  return n;
}

/* ---- what is given ----------------------------------------------------------------------------------------------- */

/* Does a size that is known, -1 where it is not, allow this one? */
static bool allows(int64_t known, int64_t n) { return known < 0 || known == n; }

static bool rows_fit(const dfi_accumulator *a, df_kernel *k) {
  const df_tensor *values = k->in[VALUES], *shape = k->in[SHAPE_IN];
  bool fits = values->dtype == a->dtype && (a->shape.rank < 0 || a->shape.rank == values->rank) &&
              (!a->sum || a->sum->rank == values->rank);
  if (dfk_bool(k, HAS_SHAPE))
    fits = fits && shape->rank == 1 && shape->size == values->rank &&
           (a->shape.rank < 1 || a->shape.dims[0] < 0 || allows(dfk_index(shape, 0), a->shape.dims[0]));
  for (int32_t d = 1; fits && d < values->rank; d++)
    fits = (a->shape.rank < 0 || allows(a->shape.dims[d], values->dims[d])) &&
           (!a->sum || a->sum->dims[d] == values->dims[d]) &&
           (!dfk_bool(k, HAS_SHAPE) || allows(dfk_index(shape, d), values->dims[d]));
  return fits;
}

static int32_t check(const dfi_accumulator *a, df_kernel *k) {
  const df_tensor *indices = k->in[INDICES], *values = k->in[VALUES];
  char has[160], b[160], c[160];
  if (indices->rank != 1 || values->rank < 1 || values->dims[0] != indices->size)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "gradient_indices is %s and gradient_values %s: expected [n] and [n, ...]",
                    dfk_shape_text(indices, b, sizeof b), dfk_shape_text(values, c, sizeof c));
  if (!rows_fit(a, k))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "accumulator '%s' adds up rows of %s but is given those of %s", a->name,
                    dfi_typed_shape_text(a->dtype, &a->shape, has), dfk_shape_text(values, c, sizeof c));
  int64_t rows = a->shape.rank > 0 && a->shape.dims[0] >= 0 ? a->shape.dims[0] : INT64_MAX;
  if (dfk_bool(k, HAS_SHAPE) && dfk_index(k->in[SHAPE_IN], 0) >= 0 && dfk_index(k->in[SHAPE_IN], 0) < rows)
    rows = dfk_index(k->in[SHAPE_IN], 0);
  for (int64_t i = 0; i < indices->size; i++)
    if (dfk_index(indices, i) < 0 || dfk_index(indices, i) >= rows)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "gradient_indices[%lld] is %lld, not a row of accumulator '%s'",
                      (long long)i, (long long)dfk_index(indices, i), a->name);
  return DF_OK;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* Where row i of the sum goes, and row j of the gradient: each step of a merge takes one of them, or both. */
typedef struct merge { const df_tensor *a, *b; int64_t i, j; bool from_a, from_b; } merge;
static bool next(merge *m) {
  m->i += m->from_a;
  m->j += m->from_b;
  const bool a = m->a && m->i < m->a->size, b = m->j < m->b->size;
  m->from_a = a && (!b || dfk_index(m->a, m->i) <= dfk_index(m->b, m->j));
  m->from_b = b && (!a || dfk_index(m->b, m->j) <= dfk_index(m->a, m->i));
  return a || b;
}

int32_t dfi_sparse_put(dfi_accumulator *a, df_kernel *k) {
  if (check(a, k)) return k->error->code;
  const df_tensor *given = k->in[VALUES];
  const int64_t w = width(given), bytes = w * df_dtype_bytes(a->dtype);
  int64_t dims[DF_MAX_RANK], rows = 0;
  for (merge m = { .a = a->indices, .b = k->in[INDICES] }; next(&m);) rows++;
  memcpy(dims, given->dims, sizeof *dims * (size_t)given->rank);
  dims[0] = rows;
  df_tensor *sum = dfi_tensor_make(a->dtype, given->rank, dims), *indices = dfi_tensor_make(DF_INT64, 1, &rows),
            *counts = dfi_tensor_make(DF_INT64, 1, &rows);
  if (!sum || !indices || !counts) {
    df_tensor_release(sum);
    df_tensor_release(indices);
    df_tensor_release(counts);
    return dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for the sum of accumulator '%s'", a->name);
  }
  int64_t row = 0;
  for (merge m = { .a = a->indices, .b = k->in[INDICES] }; next(&m); row++) {
    char *to = (char *)sum->data + row * bytes;
    const char *mine = (const char *)given->data + m.j * bytes;
    if (bytes) memcpy(to, m.from_a ? (const char *)a->sum->data + m.i * bytes : mine, (size_t)bytes);
    if (m.from_a && m.from_b) dfi_accumulator_add(a->dtype, to, mine, w);
    ((int64_t *)indices->data)[row] = m.from_a ? dfk_index(m.a, m.i) : dfk_index(m.b, m.j);
    ((int64_t *)counts->data)[row] = (m.from_a ? dfk_index(a->counts, m.i) : 0) + m.from_b;
  }
  df_tensor_release(a->sum);
  df_tensor_release(a->indices);
  df_tensor_release(a->counts);
  a->sum = sum;
  a->indices = indices;
  a->counts = counts;
  a->count++;
  return DF_OK;
}

void dfi_sparse_divide(dfi_accumulator *a) {
  const int64_t w = width(a->sum), bytes = w * df_dtype_bytes(a->dtype);
  for (int64_t i = 0; i < a->counts->size; i++)
    dfi_accumulator_divide(a->dtype, (char *)a->sum->data + i * bytes, w, dfk_index(a->counts, i));
}

int32_t dfi_sparse_give(const dfi_accumulator *a, df_kernel *k, df_tensor *indices, df_tensor *values) {
  const int64_t rank = values->rank;
  df_tensor *shape = dfk_out(k, 2, DF_INT64, 1, &rank);
  for (int32_t d = 0; shape && d < rank; d++)
    ((int64_t *)shape->data)[d] = d ? values->dims[d] : a->shape.rank > 0 ? a->shape.dims[0] : -1;
  dfk_out_tensor(k, 0, indices);
  dfk_out_tensor(k, 1, values);
  return shape ? DF_OK : k->error->code;
}
