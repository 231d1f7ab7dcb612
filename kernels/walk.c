/* walk.c: how kernels begin whose elements come from a walk along an axis: ranges, mirrored edges, reversed sequences.
 * Arguments are read and checked, and outputs made, for all versions.
 */
#include "array.h"
#include "move.h"
#include <math.h>

/* ---- ranges ------------------------------------------------------------------------------------------------ */
static bool scalars(df_kernel *k, const char *const *names) {
  char text[160];
  for (int32_t i = 0; i < 3; i++)
    if (k->in[i]->rank != 0) {
      dfk_fail(k, DF_INVALID_ARGUMENT, "%s is %s: expected a scalar", names[i],
               dfk_shape_text(k->in[i], text, sizeof text));
      return false;
    }
  return true;
}

static double number_of(const df_tensor *t) {
  return t->dtype == DF_FLOAT64 ? *(const double *)t->data : *(const float *)t->data;
}

static df_tensor *range_ints(df_kernel *k, dfk_ramp *r) {
  const int64_t start = dfk_index(k->in[0], 0), limit = dfk_index(k->in[1], 0), delta = dfk_index(k->in[2], 0);
  if (delta == 0) { dfk_fail(k, DF_INVALID_ARGUMENT, "delta is 0: expected a step"); return NULL; }
  if (delta > 0 ? start > limit : start < limit) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "a range from %lld to %lld by %lld: expected start %s limit", (long long)start,
             (long long)limit, (long long)delta, delta > 0 ? "<=" : ">=");
    return NULL;
  }
  const uint64_t span = delta > 0 ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
  const uint64_t step = delta > 0 ? (uint64_t)delta : 0 - (uint64_t)delta, count = span / step + (span % step != 0);
  const int64_t n = (int64_t)count;
  if (count > INT64_MAX / 8) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "a range of %llu elements", (unsigned long long)count);
    return NULL;
  }
  *r = (dfk_ramp){ .from = start, .by = delta };
  return dfk_out(k, 0, k->in[0]->dtype, 1, &n);
}

df_tensor *dfk_range_begin(df_kernel *k, dfk_ramp *r) {
  static const char *const names[] = { "start", "limit", "delta" };
  const uint8_t t = k->in[0]->dtype;
  if (!scalars(k, names)) return NULL;
  if (t == DF_INT32 || t == DF_INT64) return range_ints(k, r);
  const double start = number_of(k->in[0]), limit = number_of(k->in[1]), delta = number_of(k->in[2]);
  if (delta == 0) { dfk_fail(k, DF_INVALID_ARGUMENT, "delta is 0: expected a step"); return NULL; }
  if (delta > 0 ? start > limit : start < limit) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "a range from %g to %g by %g: expected start %s limit", start, limit, delta,
             delta > 0 ? "<=" : ">=");
    return NULL;
  }
  /* counted in the range's own precision, so that 0 to 0.3 by 0.1 has three elements in float32 too */
  const double count = t == DF_FLOAT64 ? ceil(fabs((limit - start) / delta))
                                       : (double)ceilf(fabsf(((float)limit - (float)start) / (float)delta));
  if (!(count <= 1e15)) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "a range from %g to %g by %g has no size", start, limit, delta);
    return NULL;
  }
  const int64_t n = (int64_t)count;
  *r = (dfk_ramp){ .start = start, .step = delta };
  return dfk_out(k, 0, t, 1, &n);
}

df_tensor *dfk_lin_space_begin(df_kernel *k, dfk_ramp *r) {
  static const char *const names[] = { "start", "stop", "num" };
  if (!scalars(k, names)) return NULL;
  const int64_t n = dfk_index(k->in[2], 0);
  if (n <= 0) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "num is %lld: expected 1 or more", (long long)n);
    return NULL;
  }
  *r = (dfk_ramp){ .start = number_of(k->in[0]), .stop = number_of(k->in[1]) };
  r->step = n > 1 ? (r->stop - r->start) / (double)(n - 1) : 0;
  return dfk_out(k, 0, k->in[0]->dtype, 1, &n);
}

/* ---- mirrors -------------------------------------------------------------------------------------------------- */
/* The paddings of MirrorPad against dims of what lies inside. -1: error is filled; else 1 for SYMMETRIC (the edge is
 * repeated) and 0 for REFLECT (it is not). */
static int32_t mirror_of(df_kernel *k, int32_t rank, const int64_t *inside, int64_t *before) {
  const df_tensor *p = k->in[1];
  const char *mode = dfk_string(k, 0);
  int32_t edge = mode[0] == 'S' || mode[0] == 's';
  for (int32_t d = 0; d < rank; d++) {
    int64_t b = dfk_index(p, 2 * d), a = dfk_index(p, 2 * d + 1), most = inside[d] - !edge;
    if (b < 0 || a < 0 || ((b > most || a > most) && (b || a))) {
      dfk_fail(k, DF_INVALID_ARGUMENT,
               "paddings[%d] is [%lld, %lld] for a dimension of %lld: mode %s expects 0 to %lld", d, (long long)b,
               (long long)a, (long long)inside[d], edge ? "SYMMETRIC" : "REFLECT", (long long)(most < 0 ? 0 : most));
      return -1;
    }
    before[d] = b;
  }
  return edge;
}
static bool mirror_paddings(df_kernel *k, int32_t rank) {
  const df_tensor *p = k->in[1];
  char text[160];
  if (p->rank == 2 && p->dims[0] == rank && p->dims[1] == 2) return true;
  dfk_fail(k, DF_INVALID_ARGUMENT, "paddings is %s: expected [%d,2]", dfk_shape_text(p, text, sizeof text), rank);
  return false;
}

df_tensor *dfk_mirror_pad_begin(df_kernel *k, int64_t *before, int32_t *edge) {
  const df_tensor *x = k->in[0];
  int64_t dims[DF_MAX_RANK];
  if (!mirror_paddings(k, x->rank) || (*edge = mirror_of(k, x->rank, x->dims, before)) < 0) return NULL;
  for (int32_t d = 0; d < x->rank; d++) dims[d] = x->dims[d] + before[d] + dfk_index(k->in[1], 2 * d + 1);
  return dfk_out(k, 0, x->dtype, x->rank, dims);
}

df_tensor *dfk_mirror_pad_grad_begin(df_kernel *k, int64_t *before, int32_t *edge) {
  const df_tensor *dy = k->in[0];
  int64_t dims[DF_MAX_RANK];
  if (!mirror_paddings(k, dy->rank)) return NULL;
  for (int32_t d = 0; d < dy->rank; d++)
    dims[d] = dy->dims[d] - dfk_index(k->in[1], 2 * d) - dfk_index(k->in[1], 2 * d + 1);
  if ((*edge = mirror_of(k, dy->rank, dims, before)) < 0) return NULL;
  return dfk_out(k, 0, dy->dtype, dy->rank, dims);
}

/* ---- sequences -------------------------------------------------------------------------------------------------- */
df_tensor *dfk_reverse_sequence_begin(df_kernel *k, int32_t *seq_dim, int32_t *batch_dim) {
  const df_tensor *x = k->in[0], *lengths = k->in[1];
  int64_t seq = dfk_int(k, 0), batch = dfk_int(k, 1);
  char text[160];
  if (seq < 0) seq += x->rank;
  if (batch < 0) batch += x->rank;
  if (seq < 0 || seq >= x->rank || batch < 0 || batch >= x->rank || seq == batch) {
    dfk_fail(
        k, DF_INVALID_ARGUMENT, "seq_dim %lld and batch_dim %lld for %s: expected two different ones in [%d, %d)",
        (long long)dfk_int(k, 0), (long long)dfk_int(k, 1), dfk_shape_text(x, text, sizeof text), -x->rank, x->rank);
    return NULL;
  }
  if (lengths->rank != 1 || lengths->size != x->dims[batch]) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "seq_lengths has %lld entries: expected %lld, one for each of dimension %lld",
             (long long)lengths->size, (long long)x->dims[batch], (long long)batch);
    return NULL;
  }
  for (int64_t i = 0; i < lengths->size; i++) {
    const int64_t n = dfk_index(lengths, i);
    if (n >= 0 && n <= x->dims[seq]) continue;
    dfk_fail(k, DF_INVALID_ARGUMENT, "seq_lengths[%lld] is %lld: expected one in [0, %lld]", (long long)i,
             (long long)n, (long long)x->dims[seq]);
    return NULL;
  }
  *seq_dim = (int32_t)seq;
  *batch_dim = (int32_t)batch;
  return dfk_out_like(k, 0, x);
}
