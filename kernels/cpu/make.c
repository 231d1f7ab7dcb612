/* make.c: ranges, mirrored edges, distinct integers and counts of integers, fast. */
#include "../array.h"
#include "../move.h"
#include "../reduce.h"
#include "../segment.h"
#include <string.h>

/* ---- ranges ---------------------------------------------------------------------------------------------------- */

typedef struct range { dfk_ramp ramp; df_tensor *out; } range;

static void fill_range(void *arg, int64_t begin, int64_t end) {
  const range *s = arg;
  const dfk_ramp r = s->ramp;
  switch (s->out->dtype) {
    case DF_INT32: {
      uint32_t *to = s->out->data;
      for (int64_t i = begin; i < end; i++) to[i] = (uint32_t)r.from + (uint32_t)i * (uint32_t)r.by;
      break;
    }
    case DF_INT64: {
      uint64_t *to = s->out->data;
      for (int64_t i = begin; i < end; i++) to[i] = (uint64_t)r.from + (uint64_t)i * (uint64_t)r.by;
      break;
    }
    case DF_FLOAT32: {
      float *to = s->out->data;
      for (int64_t i = begin; i < end; i++) to[i] = (float)(r.start + (double)i * r.step);
      break;
    }
    case DF_FLOAT64: {
      double *to = s->out->data;
      for (int64_t i = begin; i < end; i++) to[i] = r.start + (double)i * r.step;
      break;
    }
  }
}

int32_t cpu_range(df_kernel *k) {
  range s;
  s.out = dfk_range_begin(k, &s.ramp);
  if (!s.out) return k->error->code;
  dfk_parallel(k, s.out->size, 1 << 15, fill_range, &s);
  return DF_OK;
}

/* ---- mirrored edges -------------------------------------------------------------------------------------------- */

typedef struct mirror {
  const df_tensor *x;
  df_tensor       *out;
  int64_t          before[DF_MAX_RANK], width;
  int32_t          edge;
} mirror;

/* Rows of the last axis: what lies inside is one copy. */
static void mirror_rows(void *arg, int64_t begin, int64_t end) {
  const mirror *s = arg;
  const df_tensor *x = s->x;
  const int32_t last = x->rank - 1;
  const int64_t n = x->dims[last], all = s->out->dims[last], before = s->before[last], width = s->width;
  for (int64_t row = begin; row < end; row++) {
    int64_t from = 0, left = row, stride = n;
    for (int32_t d = last - 1; d >= 0; d--) {
      from += dfk_mirrored(left % s->out->dims[d], s->before[d], x->dims[d], s->edge) * stride;
      left /= s->out->dims[d];
      stride *= x->dims[d];
    }
    const char *in = (const char *)x->data + from * width;
    char *to = (char *)s->out->data + row * all * width;
    for (int64_t i = 0; i < before; i++)
      memcpy(to + i * width, in + dfk_mirrored(i, before, n, s->edge) * width, (size_t)width);
    memcpy(to + before * width, in, (size_t)(n * width));
    for (int64_t i = before + n; i < all; i++)
      memcpy(to + i * width, in + dfk_mirrored(i, before, n, s->edge) * width, (size_t)width);
  }
}

int32_t cpu_mirror_pad(df_kernel *k) {
  const df_tensor *x = k->in[0];
  if (!dfk_plain(x->dtype) || x->rank == 0) return ref_mirror_pad(k);
  mirror s = { .x = x, .width = dfk_width(x->dtype) };
  s.out = dfk_mirror_pad_begin(k, s.before, &s.edge);
  if (!s.out) return k->error->code;
  const int64_t row = s.out->dims[x->rank - 1];
  if (s.out->size) dfk_parallel(k, s.out->size / row, (1 << 15) / row + 1, mirror_rows, &s);
  return DF_OK;
}

/* ---- distinct integers ----------------------------------------------------------------------------------------- */

/* The distinct elements of n at x, in the order of their first appearance, to `found`; where each of x is among them to
 * idx. The table is made twice as large, at `next`, when half of it is taken; the last takes `most` slots. Returns how
 * many there are. */
#define DISTINCT(NAME, T)                                                                                          \
  typedef struct NAME##_slot { T key; int32_t at; } NAME##_slot;                                                   \
  static inline int64_t NAME##_find(const NAME##_slot *table, int64_t slots, T key) {                              \
    const uint64_t h = (uint64_t)key * 0x9e3779b97f4a7c15u;                                                        \
    int64_t s = (int64_t)((h ^ h >> 32) & (uint64_t)(slots - 1));                                                  \
    while (table[s].at >= 0 && table[s].key != key) s = (s + 1) & (slots - 1);                                     \
    return s;                                                                                                      \
  }                                                                                                                \
  static int64_t NAME(const T *x, int64_t n, NAME##_slot *table, T *found, int32_t *idx) {                         \
    int64_t slots = LEAST_SLOTS, taken = 0;                                                                        \
    memset(table, -1, (size_t)slots * sizeof *table);                                                              \
    for (int64_t i = 0; i < n; i++) {                                                                              \
      int64_t s = NAME##_find(table, slots, x[i]);                                                                 \
      if (table[s].at < 0) {                                                                                       \
        if (2 * taken >= slots) {                                                                                  \
          slots *= 4;                                                                                              \
          memset(table, -1, (size_t)slots * sizeof *table);                                                        \
          for (int64_t j = 0; j < taken; j++)                                                                      \
            table[NAME##_find(table, slots, found[j])] = (NAME##_slot){ found[j], (int32_t)j };                    \
          s = NAME##_find(table, slots, x[i]);                                                                     \
        }                                                                                                          \
        table[s] = (NAME##_slot){ x[i], (int32_t)taken };                                                          \
        found[taken++] = x[i];                                                                                     \
      }                                                                                                            \
      idx[i] = table[s].at;                                                                                        \
    }                                                                                                              \
    return taken;                                                                                                  \
  }
enum { LEAST_SLOTS = 1024 };
DISTINCT(distinct_i32, int32_t)
DISTINCT(distinct_i64, int64_t)

int32_t cpu_unique(df_kernel *k) {
  const df_tensor *x = k->in[0];
  const bool wide = x->dtype == DF_INT64;
  if (x->rank != 1 || (!wide && x->dtype != DF_INT32) || k->out_dtype[1] != DF_INT32 || x->size > INT32_MAX)
    return ref_unique(k);
  int64_t slots = LEAST_SLOTS;
  while (slots < 2 * x->size) slots *= 4;
  df_tensor *at = dfk_out(k, 1, DF_INT32, 1, &x->size);
  const int64_t bytes = slots * (int64_t)(wide ? sizeof(distinct_i64_slot) : sizeof(distinct_i32_slot));
  char *table = at ? dfk_scratch(k, bytes + x->size * 8 + 8) : NULL;
  if (!table) return k->error->code;
  void *found = table + bytes;
  const int64_t n = wide ? distinct_i64(x->data, x->size, (distinct_i64_slot *)table, found, at->data)
                         : distinct_i32(x->data, x->size, (distinct_i32_slot *)table, found, at->data);
  df_tensor *y = dfk_out(k, 0, x->dtype, 1, &n), *count = y && k->nout > 2 ? dfk_out(k, 2, DF_INT32, 1, &n) : NULL;
  const bool ok = y && (k->nout == 2 || count);
  if (ok) memcpy(y->data, found, (size_t)(n * df_dtype_bytes(x->dtype)));
  if (ok && count) {
    int32_t *often = count->data;
    memset(often, 0, (size_t)n * sizeof *often);
    for (int64_t i = 0; i < x->size; i++) often[((const int32_t *)at->data)[i]]++;
  }
  dfk_free(table);
  return ok ? DF_OK : k->error->code;
}

/* ---- counts ---------------------------------------------------------------------------------------------------- */

#define COUNT(T, W)                                                                                                \
  {                                                                                                                \
    const T *v = values->data;                                                                                     \
    const W *w = weights->data;                                                                                    \
    W *to = y->data;                                                                                               \
    if (!weights->size) for (int64_t i = 0; i < values->size; i++) if (v[i] < n) to[v[i]] += 1;                    \
    if (weights->size) for (int64_t i = 0; i < values->size; i++) if (v[i] < n) to[v[i]] += w[i];                  \
    break;                                                                                                         \
  }

int32_t cpu_bincount(df_kernel *k) {
  const df_tensor *values = k->in[0], *weights = k->in[2];
  df_tensor *y = dfk_bincount_begin(k);
  if (!y) return k->error->code;
  const int64_t n = y->size;
  memset(y->data, 0, (size_t)(n * df_dtype_bytes(y->dtype)));
  const bool wide = values->dtype == DF_INT64;
  switch (y->dtype * 2 + wide) {
    case DF_INT32 * 2: COUNT(int32_t, uint32_t)
    case DF_INT32 * 2 + 1: COUNT(int64_t, uint32_t)
    case DF_INT64 * 2: COUNT(int32_t, uint64_t)
    case DF_INT64 * 2 + 1: COUNT(int64_t, uint64_t)
    case DF_FLOAT32 * 2: COUNT(int32_t, float)
    case DF_FLOAT32 * 2 + 1: COUNT(int64_t, float)
    case DF_FLOAT64 * 2: COUNT(int32_t, double)
    case DF_FLOAT64 * 2 + 1: COUNT(int64_t, double)
  }
  return DF_OK;
}
