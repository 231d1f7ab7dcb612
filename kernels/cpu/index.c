/* index.c: gathers, one_hot and where, fast.
 *
 * x[i] (a scalar index along axis 0) is one check and one memcpy. Otherwise rows are copied by workers in blocks; rows
 * of one element are loads and stores.
 */
#include "../index.h"
#include "../array.h"
#include "../move.h"

typedef struct rows {
  char          *to;
  const char    *from;
  const df_tensor *indices;
  const int64_t *offset;   /* of gather_nd, in elements; NULL: gather */
  dfk_gather     g;
  int64_t        width;
} rows;

/* Output rows [begin, end) of a gather. */
static void gather_rows(void *arg, int64_t begin, int64_t end) {
  const rows *r = arg;
  const dfk_gather *g = &r->g;
  int64_t bytes = g->row * r->width, plane = begin / g->picks, i = begin % g->picks;
  const bool wide = r->indices->dtype == DF_INT64;
  const int64_t *i64 = r->indices->data;
  const int32_t *i32 = r->indices->data;
  char *to = r->to + begin * bytes;
  while (begin < end) {
    int64_t stop = i + end - begin < g->picks ? i + end - begin : g->picks;
    const char *from = r->from + plane * g->limit * bytes;
    int64_t base = plane / g->outer * g->picks;
    begin += stop - i;
    if (bytes == 4) {
      for (; i < stop; i++, to += 4) *(uint32_t *)to = ((const uint32_t *)from)[wide ? i64[base + i] : i32[base + i]];
    } else if (bytes == 8) {
      for (; i < stop; i++, to += 8) *(uint64_t *)to = ((const uint64_t *)from)[wide ? i64[base + i] : i32[base + i]];
    } else if (bytes == 16) {
      for (; i < stop; i++, to += 16) memcpy(to, from + (wide ? i64[base + i] : i32[base + i]) * 16, 16);
    } else {
      for (; i < stop; i++, to += bytes)
        memcpy(to, from + (wide ? i64[base + i] : i32[base + i]) * bytes, (size_t)bytes);
    }
    i = 0;
    plane++;
  }
}

/* x[i]. Returns false when it is not that, or when something is wrong: the general kernel says what. */
static bool gather_one(df_kernel *k) {
  const df_tensor *x = k->in[0], *index = k->in[1], *axis = k->in[2];
  if (index->rank != 0 || x->rank == 0 || axis->rank != 0 || dfk_index(axis, 0) != 0 || dfk_int(k, 0) != 0)
    return false;
  int64_t i = dfk_index(index, 0);
  if ((uint64_t)i >= (uint64_t)x->dims[0] || !dfk_plain(x->dtype)) return false;
  df_tensor *out = dfk_out(k, 0, x->dtype, x->rank - 1, x->dims + 1);
  if (!out) return false;
  int64_t bytes = out->size * dfk_width(x->dtype);
  memcpy(out->data, (const char *)x->data + i * bytes, (size_t)bytes);
  return true;
}

int32_t cpu_gather(df_kernel *k) {
  dfk_gather g;
  if (gather_one(k)) return DF_OK;
  if (!dfk_plain(k->in[0]->dtype)) return ref_gather(k);
  df_tensor *out = dfk_gather_begin(k, &g);
  if (!out) return k->error->code;
  if (out->size == 0) return DF_OK;
  rows r = { out->data, k->in[0]->data, k->in[1], NULL, g, dfk_width(out->dtype) };
  dfk_parallel(k, g.batches * g.outer * g.picks, (1 << 15) / g.row + 1, gather_rows, &r);
  return DF_OK;
}

static void gather_nd_rows(void *arg, int64_t begin, int64_t end) {
  const rows *r = arg;
  int64_t bytes = r->g.row * r->width;
  if (bytes == 4 && r->width == 4) {
    for (int64_t i = begin; i < end; i++) ((uint32_t *)r->to)[i] = ((const uint32_t *)r->from)[r->offset[i]];
    return;
  }
  for (int64_t i = begin; i < end; i++) memcpy(r->to + i * bytes, r->from + r->offset[i] * r->width, (size_t)bytes);
}

int32_t cpu_gather_nd(df_kernel *k) {
  dfk_places p;
  if (!dfk_plain(k->in[0]->dtype)) return ref_gather_nd(k);
  df_tensor *out = dfk_gather_nd_begin(k, &p);
  if (!out) return k->error->code;
  rows r = { out->data, k->in[0]->data, NULL, p.offset, { .row = p.row }, dfk_width(out->dtype) };
  if (out->size) dfk_parallel(k, p.picks, (1 << 15) / p.row + 1, gather_nd_rows, &r);
  dfk_free(p.offset);
  return DF_OK;
}

int32_t cpu_one_hot(df_kernel *k) {
  int64_t prefix, depth, suffix;
  df_tensor *out = dfk_one_hot_begin(k, &prefix, &depth, &suffix);
  if (!out) return k->error->code;
  dfk_box all = { .rank = 1, .dims = { out->size }, .to = { 1 } };
  if (!dfk_move(k, out, 0, k->in[3], 0, &all)) return k->error->code;
  for (int64_t p = 0; p < prefix; p++)
    for (int64_t s = 0; s < suffix; s++) {
      int64_t d = dfk_any_int(k->in[0], p * suffix + s);
      if (d < 0 || d >= depth) continue;
      if (!dfk_copy(k, out, (p * depth + d) * suffix + s, k->in[2], 0, 1)) return k->error->code;
    }
  return DF_OK;
}

/* ---- where ------------------------------------------------------------------------------------------------------- */

/* The places of those of n bytes that are set, at most `left` of them, without a branch that would be guessed wrong:
   1.5 ns an element instead of 8. Returns how many there were. */
enum { LINE = 1024 };
static int64_t set_places(const uint8_t *x, int64_t n, int64_t left, int32_t *to) {
  int64_t found = 0;
  for (int64_t i = 0; i < n && found < left; i++) {
    to[found] = (int32_t)i;
    found += x[i] != 0;
  }
  return found;
}

int32_t cpu_where(df_kernel *k) {
  const df_tensor *x = k->in[0];
  if (x->dtype != DF_BOOL || x->rank == 0 || x->size == 0) return ref_where(k);
  const uint8_t *from = x->data;
  const int32_t last = x->rank - 1;
  int64_t dims[2] = { 0, x->rank }, at[DF_MAX_RANK] = { 0 };
  for (int64_t i = 0; i < x->size; i++) dims[0] += from[i] != 0;
  df_tensor *out = dfk_out(k, 0, DF_INT64, 2, dims);
  if (!out) return k->error->code;
  int64_t *row = out->data, left = dims[0];
  for (; left; dfk_next(last, x->dims, at))                    /* a line of the last axis after the other */
    for (int64_t j = 0; j < x->dims[last] && left; j += LINE) {
      int32_t place[LINE];
      const int64_t n = x->dims[last] - j < LINE ? x->dims[last] - j : LINE, found = set_places(from, n, left, place);
      for (int64_t i = 0; i < found; i++, row += x->rank) {
        for (int32_t d = 0; d < last; d++) row[d] = at[d];
        row[last] = j + place[i];
      }
      from += n;
      left -= found;
    }
  return DF_OK;
}
