/* index.c: gathers, one_hot and where, fast.
 *
 * x[i] (a scalar index along axis 0) is one check and one memcpy. Otherwise rows are copied by workers in blocks; rows
 * of one element are loads and stores.
 */
#include "../index.h"
#include "../array.h"
#include "../move.h"
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

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
        dfk_copy_bytes(to, from + (wide ? i64[base + i] : i32[base + i]) * bytes, bytes);
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
  if (dfk_out_part(k, 0, 0, i * dfk_span(x->dims, 1, x->rank), x->rank - 1, x->dims + 1)) return true;
  df_tensor *out = dfk_out(k, 0, x->dtype, x->rank - 1, x->dims + 1);
  if (!out) return false;
  int64_t bytes = out->size * dfk_width(x->dtype);
  dfk_copy_bytes(out->data, (const char *)x->data + i * bytes, bytes);
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
  for (int64_t i = begin; i < end; i++) dfk_copy_bytes(r->to + i * bytes, r->from + r->offset[i] * r->width, bytes);
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

/* The places of those of n bytes that are set, without a branch that would be guessed wrong; sixteen at a time where
   the machine can press lanes together. Returns how many there were. */
enum { LINE = 1024, AT_ONCE = 16 };
static int64_t set_places(const uint8_t *x, int64_t n, int32_t *to) {
  int64_t found = 0, i = 0;
#if defined(__AVX512F__)
  __m512i place = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (; i + AT_ONCE <= n; i += AT_ONCE) {
    const __m128i none = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(x + i)), _mm_setzero_si128());
    const uint32_t set = 0xffff & ~(uint32_t)_mm_movemask_epi8(none);
    _mm512_storeu_si512(to + found, _mm512_maskz_compress_epi32((__mmask16)set, place));
    found += __builtin_popcount(set);
    place = _mm512_add_epi32(place, _mm512_set1_epi32(AT_ONCE));
  }
#endif
  for (; i < n; i++) {
    to[found] = (int32_t)i;
    found += x[i] != 0;
  }
  return found;
}

/* How many of n <= LINE bytes are set. */
static int64_t set_of(const uint8_t *x, int64_t n) {
  uint16_t set = 0;
  for (int64_t i = 0; i < n; i++) set = (uint16_t)(set + (x[i] != 0));
  return set;
}

/* A row of the result for each place: the numbers of the outer dims, and j + place. */
static void write_places(int64_t *row, int32_t last, const int64_t *at, int64_t j, const int32_t *place, int64_t n) {
  if (!last) for (int64_t i = 0; i < n; i++) row[i] = j + place[i];
  else
    for (int64_t i = 0; i < n; i++, row += last + 1) {
      for (int32_t d = 0; d < last; d++) row[d] = at[d];
      row[last] = j + place[i];
    }
}

int32_t cpu_where(df_kernel *k) {
  const df_tensor *x = k->in[0];
  if (x->dtype != DF_BOOL || x->rank == 0 || x->size == 0) return ref_where(k);
  const uint8_t *from = x->data;
  const int32_t last = x->rank - 1;
  int64_t dims[2] = { 0, x->rank }, at[DF_MAX_RANK] = { 0 };
  for (int64_t i = 0; i < x->size; i += LINE) dims[0] += set_of(from + i, x->size - i < LINE ? x->size - i : LINE);
  df_tensor *out = dfk_out(k, 0, DF_INT64, 2, dims);
  if (!out) return k->error->code;
  int64_t *row = out->data, left = dims[0];
  for (; left; dfk_next(last, x->dims, at))                    /* a line of the last axis after the other */
    for (int64_t j = 0; j < x->dims[last] && left; j += LINE) {
      int32_t place[LINE + AT_ONCE];
      const int64_t n = x->dims[last] - j < LINE ? x->dims[last] - j : LINE, found = set_places(from, n, place);
      write_places(row, last, at, j, place, found);
      row += found * x->rank;
      from += n;
      left -= found;
    }
  return DF_OK;
}
