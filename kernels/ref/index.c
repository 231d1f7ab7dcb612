/* index.c: reference kernels that read and write by index. The indices have been checked (kernels/index.c) before any
 * of these loops runs. Where several writes meet at one place, adds all count and updates leave the last.
 */
#include "../index.h"
#include "../array.h"
#include "../move.h"
#include "../update.h"

int32_t ref_gather(df_kernel *k) {
  dfk_gather g;
  df_tensor *out = dfk_gather_begin(k, &g);
  if (!out) return k->error->code;
  int64_t to = 0;
  for (int64_t b = 0; b < g.batches; b++)
    for (int64_t o = 0; o < g.outer; o++)
      for (int64_t i = 0; i < g.picks; i++, to += g.row) {
        int64_t from = ((b * g.outer + o) * g.limit + dfk_index(k->in[1], b * g.picks + i)) * g.row;
        if (!dfk_copy(k, out, to, k->in[0], from, g.row)) return k->error->code;
      }
  return DF_OK;
}

/* Adds each row of dy (input 3) to the row of an array of shape `shape` (input 0) that a gather would have read it
   from. */
int32_t ref_gather_grad(df_kernel *k) {
  const df_tensor *dy = k->in[3];
  int64_t dims[DF_MAX_RANK], read[2 * DF_MAX_RANK];
  dfk_gather g;
  char text[160];
  int32_t rank = dfk_dims_of(k, k->in[0], "shape", dims), n;
  if (rank < 0 || !dfk_gather_plan(k, rank, dims, &g, &n, read)) return k->error->code;
  bool fits = dy->rank == n;
  for (int32_t d = 0; fits && d < n; d++) fits = dy->dims[d] == read[d];
  if (!fits)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "dy is %s, which is not what such a gather gives",
                    dfk_shape_text(dy, text, sizeof text));
  df_tensor *out = dfk_out(k, 0, dy->dtype, rank, dims);
  if (!out) return k->error->code;
  dfk_clear(out);
  int64_t width = dfk_width(dy->dtype), from = 0;
  for (int64_t b = 0; b < g.batches; b++)
    for (int64_t o = 0; o < g.outer; o++)
      for (int64_t i = 0; i < g.picks; i++, from += g.row) {
        int64_t at = ((b * g.outer + o) * g.limit + dfk_index(k->in[1], b * g.picks + i)) * g.row;
        char *to = (char *)out->data + at * width;
        dfk_update(DFK_ADD, dy->dtype, g.row, to, to, (const char *)dy->data + from * width, false);
      }
  return DF_OK;
}

int32_t ref_gather_nd(df_kernel *k) {
  dfk_places p;
  df_tensor *out = dfk_gather_nd_begin(k, &p);
  if (!out) return k->error->code;
  bool ok = true;
  for (int64_t i = 0; ok && i < p.picks; i++) ok = dfk_copy(k, out, i * p.row, k->in[0], p.offset[i], p.row);
  dfk_free(p.offset);
  return ok ? DF_OK : k->error->code;
}

/* As gather_nd, but an index that comes again later gives zeros: only the last to write a place had a say in it. */
int32_t ref_gather_nd_last(df_kernel *k) {
  const df_tensor *x = k->in[0];
  dfk_places p;
  df_tensor *out = dfk_gather_nd_begin(k, &p);
  if (!out) return k->error->code;
  int64_t places = dfk_span(x->dims, 0, p.depth);
  uint8_t *seen = dfk_scratch(k, places + 1);
  if (seen) {
    memset(seen, 0, (size_t)places + 1);
    dfk_clear(out);
    for (int64_t i = p.picks - 1; i >= 0 && p.row > 0; i--) {
      if (seen[p.offset[i] / p.row]) continue;
      seen[p.offset[i] / p.row] = 1;
      dfk_copy(k, out, i * p.row, x, p.offset[i], p.row);
    }
  }
  int32_t code = seen ? DF_OK : k->error->code;
  dfk_free(seen);
  dfk_free(p.offset);
  return code;
}

/* ---- scatters ------------------------------------------------------------------------------------------ */
/* Writes the slices of input `u` into `out` where input `i` says. */
static int32_t scatter(df_kernel *k, df_tensor *out, const df_tensor *indices, const df_tensor *updates,
                       dfk_update_op op) {
  dfk_places p;
  if (!dfk_places_of(k, indices, out->rank, out->dims, "result", &p)) return k->error->code;
  bool ok = dfk_updates_fit(k, indices, updates, out->rank, out->dims, p.depth);
  int64_t width = dfk_width(out->dtype);
  for (int64_t i = 0; ok && i < p.picks; i++) {
    if (op == DFK_SET) {
      ok = dfk_copy(k, out, p.offset[i], updates, i * p.row, p.row);
      continue;
    }
    char *to = (char *)out->data + p.offset[i] * width;
    dfk_update(op, out->dtype, p.row, to, to, (const char *)updates->data + i * p.row * width, false);
  }
  dfk_free(p.offset);
  return ok ? DF_OK : k->error->code;
}

int32_t ref_scatter_nd(df_kernel *k) {
  int64_t dims[DF_MAX_RANK];
  int32_t rank = dfk_dims_of(k, k->in[2], "shape", dims);
  df_tensor *out = rank < 0 ? NULL : dfk_out(k, 0, k->in[1]->dtype, rank, dims);
  if (!out) return k->error->code;
  dfk_clear(out);
  return scatter(k, out, k->in[0], k->in[1], DFK_ADD);
}

static int32_t scatter_into_copy(df_kernel *k, dfk_update_op op) {
  const df_tensor *x = k->in[0];
  df_tensor *out = dfk_out_reuse(k, 0, 0, x->dtype, x->rank, x->dims);
  if (!out) return k->error->code;
  if (out->data != x->data && !dfk_copy(k, out, 0, x, 0, x->size)) return k->error->code;
  return scatter(k, out, k->in[1], k->in[2], op);
}
int32_t ref_tensor_scatter_update(df_kernel *k) { return scatter_into_copy(k, DFK_SET); }
int32_t ref_tensor_scatter_add(df_kernel *k)    { return scatter_into_copy(k, DFK_ADD); }
int32_t ref_tensor_scatter_sub(df_kernel *k)    { return scatter_into_copy(k, DFK_SUB); }
int32_t ref_tensor_scatter_max(df_kernel *k)    { return scatter_into_copy(k, DFK_MAX); }
int32_t ref_tensor_scatter_min(df_kernel *k)    { return scatter_into_copy(k, DFK_MIN); }

/* ---- one_hot, partition, stitch -------------------------------------------------------------------------- */
int32_t ref_one_hot(df_kernel *k) {
  int64_t prefix, depth, suffix, o = 0;
  df_tensor *out = dfk_one_hot_begin(k, &prefix, &depth, &suffix);
  if (!out) return k->error->code;
  for (int64_t p = 0; p < prefix; p++)
    for (int64_t d = 0; d < depth; d++)
      for (int64_t s = 0; s < suffix; s++, o++) {
        bool on = dfk_any_int(k->in[0], p * suffix + s) == d;
        if (!dfk_copy(k, out, o, k->in[on ? 2 : 3], 0, 1)) return k->error->code;
      }
  return DF_OK;
}

int32_t ref_dynamic_partition(df_kernel *k) {
  const df_tensor *data = k->in[0], *parts = k->in[1];
  int64_t row, *next = dfk_partition_begin(k, &row);
  if (!next) return k->error->code;
  memset(next, 0, sizeof *next * (size_t)k->nout);
  int32_t code = DF_OK;
  for (int64_t i = 0; i < parts->size && !code; i++) {
    int64_t p = dfk_index(parts, i);
    if (!dfk_copy(k, k->out[p].as.tensor, row * next[p]++, data, i * row, row)) code = k->error->code;
  }
  dfk_free(next);
  return code;
}

int32_t ref_dynamic_stitch(df_kernel *k) {
  int32_t n = k->nin / 2; /* inputs: n indices, then n data */
  int64_t row;
  df_tensor *out = dfk_stitch_begin(k, &row);
  if (!out) return k->error->code;
  dfk_clear(out); /* rows without an index are zeros */
  for (int32_t i = 0; i < n; i++)
    for (int64_t j = 0; j < k->in[i]->size; j++)
      if (!dfk_copy(k, out, dfk_index(k->in[i], j) * row, k->in[n + i], j * row, row)) return k->error->code;
  return DF_OK;
}

/* The rows of dy that each list of indices won in the stitch; zeros where a later one overwrote it. */
int32_t ref_dynamic_stitch_grad(df_kernel *k) {
  int32_t n = k->nin - 1;
  const df_tensor *dy = k->in[n];
  if (!dfk_stitch_grad_fits(k)) return k->error->code;
  uint8_t *taken = dfk_scratch(k, dy->dims[0] + 1);
  if (!taken) return k->error->code;
  memset(taken, 0, (size_t)dy->dims[0] + 1);
  int64_t row = dfk_span(dy->dims, 1, dy->rank);
  int32_t code = DF_OK;
  for (int32_t i = n - 1; i >= 0 && !code; i--) { /* from the last write to the first */
    const df_tensor *t = k->in[i];
    df_tensor *out = dfk_stitch_grad_out(k, i);
    if (!out) { code = k->error->code; break; }
    dfk_clear(out);
    for (int64_t j = t->size - 1; j >= 0; j--) {
      int64_t v = dfk_index(t, j);
      if (!taken[v]) dfk_copy(k, out, j * row, dy, v * row, row);
      taken[v] = 1;
    }
  }
  dfk_free(taken);
  return code;
}
