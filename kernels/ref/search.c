/* search.c: distinct slices, places in sorted rows, and cross products. */
#include "../search.h"
#include "../array.h"
#include "../move.h"
#include "element.h"
#include <math.h>
#include <stdlib.h>

/* ---- distinct slices along an axis --------------------------------------------------------------------- */
typedef struct slices { const df_tensor *x; int64_t outer, n, inner; } slices;

static bool same_element(const df_tensor *t, int64_t i, int64_t j) {
  if (t->dtype == DF_STRING) {
    const df_str *a = (const df_str *)t->data + i, *b = (const df_str *)t->data + j;
    return a->length == b->length && (!a->length || !memcmp(a->bytes, b->bytes, (size_t)a->length));
  }
  if (ref_is_float(t->dtype)) return ref_get(t, i) == ref_get(t, j);
  if (dfk_is_complex(t->dtype)) return ref_get_complex(t, i) == ref_get_complex(t, j);
  return ref_get_int(t, i) == ref_get_int(t, j);
}

static bool same_slice(const slices *s, int64_t i, int64_t j) {
  for (int64_t o = 0; o < s->outer; o++)
    for (int64_t p = 0; p < s->inner; p++)
      if (!same_element(s->x, (o * s->n + i) * s->inner + p, (o * s->n + j) * s->inner + p)) return false;
  return true;
}

int32_t ref_unique_slices(df_kernel *k) {
  const df_tensor *x = k->in[0], *axes = k->in[1];
  char text[160];
  int32_t axis = 0;
  if (axes->size > 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "axis is %s but must have at most one element",
                    dfk_shape_text(axes, text, sizeof text));
  if (axes->size == 0 && x->rank != 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "x is %s: without an axis a vector is expected",
                    dfk_shape_text(x, text, sizeof text));
  if (axes->size == 1 && !dfk_axis(k, axes, 0, x->rank, "axis", &axis)) return k->error->code;
  slices s = { x, 1, x->dims[axis], 1 };
  for (int32_t d = 0; d < axis; d++) s.outer *= x->dims[d];
  for (int32_t d = axis + 1; d < x->rank; d++) s.inner *= x->dims[d];
  int64_t n = 0, dims[DF_MAX_RANK], *first = dfk_scratch(k, (2 * s.n + 1) * (int64_t)sizeof *first),
          *place = first + s.n;
  if (!first) return k->error->code;
  for (int64_t i = 0; i < s.n; i++) {
    int64_t j = 0;
    while (j < n && !same_slice(&s, first[j], i)) j++;
    if (j == n) first[n++] = i;
    place[i] = j;
  }
  memcpy(dims, x->dims, sizeof dims);
  dims[axis] = n;
  df_tensor *y = dfk_out(k, 0, x->dtype, x->rank, dims), *idx = y ? dfk_out(k, 1, k->out_dtype[1], 1, &s.n) : NULL;
  df_tensor *count = idx && k->nout > 2 ? dfk_out(k, 2, k->out_dtype[2], 1, &n) : NULL;
  bool ok = idx && (count || k->nout == 2);
  for (int64_t o = 0; ok && o < s.outer; o++)
    for (int64_t i = 0; ok && i < n; i++)
      ok = dfk_copy(k, y, (o * n + i) * s.inner, x, (o * s.n + first[i]) * s.inner, s.inner);
  if (ok && count) dfk_clear(count);
  for (int64_t i = 0; ok && i < s.n; i++) {
    ref_put_int(idx, i, place[i]);
    if (count) ref_put_int(count, place[i], ref_get_int(count, place[i]) + 1);
  }
  dfk_free(first);
  return ok ? DF_OK : k->error->code;
}

/* ---- places in sorted rows ------------------------------------------------------------------------------- */
static bool before(const df_tensor *a, int64_t i, const df_tensor *b, int64_t j) {
  if (ref_is_float(a->dtype)) return ref_get(a, i) < ref_get(b, j);
  return ref_below(a->dtype, ref_get_int(a, i), ref_get_int(b, j));
}

/* Row by row: how many of the sorted ones are before each value (or not after it). */
static int32_t bound(df_kernel *k, bool upper) {
  const df_tensor *sorted = k->in[0], *values = k->in[1];
  df_tensor *out = dfk_bound_begin(k);
  if (!out) return k->error->code;
  int64_t n = sorted->dims[1], m = values->dims[1];
  for (int64_t i = 0; i < values->size; i++) {
    int64_t row = i / m * n, low = 0, high = n;
    while (low < high) {
      int64_t mid = (low + high) / 2;
      if (upper ? !before(values, i, sorted, row + mid) : before(sorted, row + mid, values, i)) low = mid + 1;
      else high = mid;
    }
    ref_put_int(out, i, low);
  }
  return DF_OK;
}
int32_t ref_lower_bound(df_kernel *k) { return bound(k, false); }
int32_t ref_upper_bound(df_kernel *k) { return bound(k, true); }

/* ---- cross products of vectors in the last axis ------------------------------------------------------------- */
int32_t ref_cross(df_kernel *k) {
  const df_tensor *a = k->in[0], *b = k->in[1];
  df_tensor *out = dfk_cross_begin(k);
  if (!out) return k->error->code;
  for (int64_t i = 0; i < a->size; i++) {
    int64_t base = i - i % 3, p = base + (i % 3 + 1) % 3, q = base + (i % 3 + 2) % 3;
    if (ref_is_float(a->dtype)) ref_put(out, i, ref_get(a, p) * ref_get(b, q) - ref_get(a, q) * ref_get(b, p));
    else ref_put_int(out, i, (int64_t)((uint64_t)ref_get_int(a, p) * (uint64_t)ref_get_int(b, q) -
                                       (uint64_t)ref_get_int(a, q) * (uint64_t)ref_get_int(b, p)));
  }
  return DF_OK;
}
