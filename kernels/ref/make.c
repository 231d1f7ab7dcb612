/* make.c: reference kernels that make arrays out of little: fills, ranges, diagonals, index sets.
 *
 * They are plain loops on every host; no faster CPU version exists but for Fill.
 */
#include "../array.h"
#include "../move.h"
#include "element.h"
#include <math.h>
#include <stdio.h>

/* ---- fills ------------------------------------------------------------------------------------------ */
int32_t ref_fill(df_kernel *k) {
  df_tensor *out = dfk_fill_begin(k);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < out->size; i++)
    if (!dfk_copy(k, out, i, k->in[1], 0, 1)) return k->error->code;
  return DF_OK;
}

int32_t ref_zeros_like(df_kernel *k) {
  const df_tensor *x = k->in[0];
  df_tensor *out = !dfk_plain(x->dtype) ? dfk_out_like(k, 0, x) : dfk_out_reuse(k, 0, 0, x->dtype, x->rank, x->dims);
  if (!out) return k->error->code;
  dfk_clear(out);
  return DF_OK;
}

int32_t ref_ones_like(df_kernel *k) {
  const df_tensor *x = k->in[0];
  df_tensor *out = dfk_out_reuse(k, 0, 0, x->dtype, x->rank, x->dims);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < out->size; i++) {
    if (dfk_is_complex(out->dtype)) ref_put_complex(out, i, 1);
    else if (ref_is_float(out->dtype)) ref_put(out, i, 1);
    else ref_put_int(out, i, 1);
  }
  return DF_OK;
}

/* ---- ranges ------------------------------------------------------------------------------------------- */
int32_t ref_range(df_kernel *k) {
  dfk_ramp r;
  df_tensor *out = dfk_range_begin(k, &r);
  for (int64_t i = 0; out && i < out->size; i++) {
    const uint64_t v = (uint64_t)r.from + (uint64_t)i * (uint64_t)r.by;
    if (ref_is_float(out->dtype)) ref_put(out, i, r.start + (double)i * r.step);
    else ref_put_int(out, i, (int64_t)v);
  }
  return out ? DF_OK : k->error->code;
}

int32_t ref_lin_space(df_kernel *k) {
  dfk_ramp r;
  df_tensor *out = dfk_lin_space_begin(k, &r);
  for (int64_t i = 0; out && i < out->size; i++)
    ref_put(out, i, i > 0 && i == out->size - 1 ? r.stop : r.start + r.step * (double)i);
  return out ? DF_OK : k->error->code;
}

/* ---- shapes as values ---------------------------------------------------------------------------------- */
/* Entry d, counted from the back, of a shape given as a vector; 1 beyond its front. */
static int64_t from_back(const df_tensor *s, int64_t d) { return d < s->size ? dfk_index(s, s->size - 1 - d) : 1; }

static int32_t shapes_agree(df_kernel *k, int64_t *rank) {
  const df_tensor *a = k->in[0], *b = k->in[1];
  if (a->rank != 1 || b->rank != 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "shapes are vectors: these have ranks %d and %d", a->rank, b->rank);
  *rank = a->size > b->size ? a->size : b->size;
  for (int64_t d = 0; d < *rank; d++)
    if (from_back(a, d) != from_back(b, d) && from_back(a, d) != 1 && from_back(b, d) != 1)
      return dfk_fail(k, DF_INVALID_ARGUMENT,
                      "the shapes do not broadcast: dimension %lld from the back is %lld and %lld", (long long)d,
                      (long long)from_back(a, d), (long long)from_back(b, d));
  return DF_OK;
}
int32_t ref_broadcast_args(df_kernel *k) {
  int64_t rank;
  int32_t code = shapes_agree(k, &rank);
  if (code) return code;
  df_tensor *out = dfk_out(k, 0, k->in[0]->dtype, 1, &rank);
  if (!out) return k->error->code;
  for (int64_t d = 0; d < rank; d++) {
    int64_t a = from_back(k->in[0], d), b = from_back(k->in[1], d);
    ref_put_int(out, rank - 1 - d, a == 1 ? b : a);
  }
  return DF_OK;
}

int32_t ref_broadcast_gradient_args(df_kernel *k) {
  int64_t rank;
  int32_t code = shapes_agree(k, &rank);
  if (code) return code;
  bool equal = k->in[0]->size == k->in[1]->size;
  for (int64_t d = 0; equal && d < rank; d++) equal = dfk_index(k->in[0], d) == dfk_index(k->in[1], d);
  for (int32_t i = 0; i < 2; i++) {
    const df_tensor *own = k->in[i];
    int64_t n = 0; /* dims of 1, also where the other is 1: summing those costs nothing */
    for (int pass = 0; pass < 2; pass++) { /* count, then write */
      df_tensor *out = pass ? dfk_out(k, i, own->dtype, 1, &n) : NULL;
      if (pass && !out) return k->error->code;
      int64_t at = 0;
      for (int64_t d = rank - 1; d >= 0; d--) {
        if (equal || from_back(own, d) != 1) continue;
        if (pass) ref_put_int(out, at, rank - 1 - d);
        at++;
      }
      n = at;
    }
  }
  return DF_OK;
}

int32_t ref_invert_permutation(df_kernel *k) {
  const df_tensor *x = k->in[0];
  char text[160];
  if (x->rank != 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "x is %s: expected a vector", dfk_shape_text(x, text, sizeof text));
  df_tensor *out = dfk_out_like(k, 0, x);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < x->size; i++) ref_put_int(out, i, -1);
  for (int64_t i = 0; i < x->size; i++) {
    int64_t v = dfk_index(x, i);
    if (v < 0 || v >= x->size)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "x[%lld] is %lld: expected one in [0, %lld)", (long long)i, (long long)v,
                      (long long)x->size);
    if (dfk_index(out, v) != -1)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "x[%lld] is %lld, as x[%lld] is already: expected a permutation",
                      (long long)i, (long long)v, (long long)dfk_index(out, v));
    ref_put_int(out, v, i);
  }
  return DF_OK;
}

/* ---- diagonals ------------------------------------------------------------------------------------------ */
int32_t ref_diag(df_kernel *k) {
  const df_tensor *x = k->in[0];
  df_tensor *out = dfk_diag_begin(k);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < x->size; i++)
    if (!dfk_copy(k, out, i * x->size + i, x, i, 1)) return k->error->code;
  return DF_OK;
}

int32_t ref_diag_part(df_kernel *k) {
  const df_tensor *x = k->in[0];
  df_tensor *out = dfk_diag_part_begin(k);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < out->size; i++)
    if (!dfk_copy(k, out, i, x, i * out->size + i, 1)) return k->error->code;
  return DF_OK;
}

int32_t ref_matrix_set_diag(df_kernel *k) {
  const df_tensor *x = k->in[0], *diagonal = k->in[1];
  df_tensor *out = dfk_matrix_set_diag_begin(k);
  if (!out) return k->error->code;
  const int64_t rows = x->dims[x->rank - 2], cols = x->dims[x->rank - 1], n = rows < cols ? rows : cols;
  for (int64_t i = 0; i < diagonal->size; i++)
    if (!dfk_copy(k, out, i / n * rows * cols + i % n * (cols + 1), diagonal, i, 1)) return k->error->code;
  return DF_OK;
}

/* ---- index sets ------------------------------------------------------------------------------------------ */
static bool is_set(const df_tensor *t, int64_t i) {
  if (dfk_is_half(t->dtype)) return ((const uint16_t *)t->data)[i] & 0x7fff;    /* a denormal one is none as a float */
  return dfk_is_complex(t->dtype) ? ref_get_complex(t, i) != 0
         : ref_is_float(t->dtype) ? ref_get(t, i) != 0
                                  : ref_get_int(t, i) != 0;
}

int32_t ref_where(df_kernel *k) {
  const df_tensor *x = k->in[0];
  int64_t dims[2] = { 0, x->rank }, at[DF_MAX_RANK] = { 0 };
  if (x->rank == 0) return dfk_fail(k, DF_INVALID_ARGUMENT, "a scalar has no places: expected rank 1 or more");
  for (int64_t i = 0; i < x->size; i++) dims[0] += is_set(x, i);
  df_tensor *out = dfk_out(k, 0, DF_INT64, 2, dims);
  if (!out) return k->error->code;
  int64_t *row = out->data;
  for (int64_t i = 0; i < x->size; i++) {
    if (is_set(x, i))
      for (int32_t d = 0; d < x->rank; d++) *row++ = at[d];
    dfk_next(x->rank, x->dims, at);
  }
  return DF_OK;
}

static uint64_t hash_of(double v) {
  uint64_t u;
  v += 0.0;                                              /* -0 is 0 */
  memcpy(&u, &v, sizeof u);
  return u;
}
/* Elements as keys: equal bits, but for floats, where -0 is 0 and a NaN is equal to nothing, not even to itself. */
static uint64_t key_of(const df_tensor *t, int64_t i) {
  uint64_t u = 0;
  if (t->dtype == DF_STRING) {
    const df_str *s = (const df_str *)t->data + i;
    u = 14695981039346656037u;
    for (int64_t b = 0; b < s->length; b++) u = (u ^ (uint8_t)s->bytes[b]) * 1099511628211u;
    return u;
  }
  int64_t w = dfk_width(t->dtype);
  memcpy(&u, (const char *)t->data + i * w, (size_t)(w < 8 ? w : 8));
  if (dfk_is_complex(t->dtype))
    return hash_of(creal(ref_get_complex(t, i))) * 31 + hash_of(cimag(ref_get_complex(t, i)));
  bool zero = (t->dtype == DF_FLOAT32 && u == 0x80000000u) || (t->dtype == DF_FLOAT64 && u == 1ull << 63) ||
              ((t->dtype == DF_FLOAT16 || t->dtype == DF_BFLOAT16) && u == 0x8000u);
  return zero ? 0 : u;
}
static bool same_element(const df_tensor *t, int64_t i, int64_t j) {
  switch (t->dtype) {
  case DF_STRING: {
    const df_str *a = (const df_str *)t->data + i, *b = (const df_str *)t->data + j;
    return a->length == b->length && (a->length == 0 || !memcmp(a->bytes, b->bytes, (size_t)a->length));
  }
  case DF_COMPLEX64: case DF_COMPLEX128: return ref_get_complex(t, i) == ref_get_complex(t, j);
  case DF_FLOAT32: case DF_FLOAT64: case DF_FLOAT16: case DF_BFLOAT16: return ref_get(t, i) == ref_get(t, j);
  default: return key_of(t, i) == key_of(t, j);
  }
}

/* first: the positions of the distinct elements; idx: where each element is among them. Returns how many there are. */
static int64_t find_distinct(const df_tensor *x, int64_t *table, int64_t slots, int64_t *first, int64_t *idx) {
  int64_t n = 0;
  for (int64_t s = 0; s < slots; s++) table[s] = -1;
  for (int64_t i = 0; i < x->size; i++) {
    uint64_t h = key_of(x, i) * 0x9e3779b97f4a7c15u;
    int64_t s = (int64_t)((h ^ h >> 32) & (uint64_t)(slots - 1));
    while (table[s] >= 0 && !same_element(x, first[table[s]], i)) s = (s + 1) & (slots - 1);
    if (table[s] < 0) {
      first[n] = i;
      table[s] = n++;
    }
    idx[i] = table[s];
  }
  return n;
}

int32_t ref_unique(df_kernel *k) {
  const df_tensor *x = k->in[0];
  char text[160];
  if (x->rank != 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "x is %s: expected a vector", dfk_shape_text(x, text, sizeof text));
  int64_t slots = 16;
  while (slots < 2 * x->size) slots *= 2;
  int64_t *table = dfk_scratch(k, (int64_t)sizeof(int64_t) * (slots + 2 * x->size));
  if (!table) return k->error->code;
  int64_t *first = table + slots, *idx = first + x->size;
  int64_t n = find_distinct(x, table, slots, first, idx);
  df_tensor *y = dfk_out(k, 0, x->dtype, 1, &n), *at = y ? dfk_out(k, 1, k->out_dtype[1], 1, &x->size) : NULL;
  df_tensor *count = at && k->nout > 2 ? dfk_out(k, 2, k->out_dtype[2], 1, &n) : NULL;
  bool ok = at && (k->nout == 2 || count);
  for (int64_t i = 0; ok && i < n; i++) ok = dfk_copy(k, y, i, x, first[i], 1);
  for (int64_t i = 0; ok && i < x->size; i++) ref_put_int(at, i, idx[i]);
  if (ok && count) {
    dfk_clear(count);
    for (int64_t i = 0; i < x->size; i++) ref_put_int(count, idx[i], dfk_index(count, idx[i]) + 1);
  }
  dfk_free(table);
  return ok ? DF_OK : k->error->code;
}

/* ---- checks ------------------------------------------------------------------------------------------------ */
int32_t ref_check_numerics(df_kernel *k) {
  const df_tensor *x = k->in[0];
  int64_t nan = -1, inf = -1;
  char text[160];
  for (int64_t i = 0; i < x->size; i++) {
    double v = ref_get(x, i);
    if (nan < 0 && isnan(v)) nan = i;
    if (inf < 0 && isinf(v)) inf = i;
  }
  if (nan < 0 && inf < 0) return dfk_out_forward(k, 0, 0, x->rank, NULL);
  int64_t first = nan < 0 || (inf >= 0 && inf < nan) ? inf : nan;
  return dfk_fail(k, DF_INVALID_ARGUMENT, "%.*s : Tensor had %s values, the first at [%s]", (int)k->attrs[0].i,
                  dfk_string(k, 0),
                  nan >= 0 && inf >= 0 ? "Inf and NaN"
                  : nan >= 0           ? "NaN"
                                       : "Inf",
                  dfk_index_text(x->rank, x->dims, first, text, sizeof text));
}
