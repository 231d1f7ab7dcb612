/* segment.c: sums, products and extremes by segment. Rows are folded in their order, one thread for each range of
   columns. */
#include "../reduce.h"
#include "../half.h"
#include <float.h>
#include <string.h>

typedef enum kind { SUM, PROD, MAX, MIN } kind;
typedef struct segments {
  const void      *x;
  void            *y;
  const df_tensor *ids;
  int64_t          row, n;
  kind             what;
} segments;

#define SEGMENTS(NAME, T, U, LOWEST, HIGHEST)                                                                      \
  static void NAME(void *arg, int64_t begin, int64_t end) {                                                        \
    const segments *s = (const segments *)arg;                                                                     \
    int64_t row = s->row, w = end - begin;                                                                         \
    T first = s->what == SUM ? 0 : s->what == PROD ? 1 : s->what == MAX ? LOWEST : HIGHEST;                        \
    for (int64_t i = 0; i < s->n; i++)                                                                             \
      for (int64_t j = begin; j < end; j++) ((T *)s->y)[i * row + j] = first;                                      \
    if (row == 1 && s->what == SUM) {                                                                              \
      const T *x = s->x;                                                                                           \
      T *y = s->y;                                                                                                 \
      const int32_t *id = s->ids->data;                                                                            \
      const int64_t *wide = s->ids->data, n = s->ids->size;                                                        \
      const bool is_wide = s->ids->dtype == DF_INT64;                                                              \
      for (int64_t i = 0; is_wide && i < n; i++)                                                                   \
        if (wide[i] >= 0) y[wide[i]] = (T)((U)y[wide[i]] + (U)x[i]);                                               \
      for (int64_t i = 0; !is_wide && i < n; i++) if (id[i] >= 0) y[id[i]] = (T)((U)y[id[i]] + (U)x[i]);           \
      return;                                                                                                      \
    }                                                                                                              \
    for (int64_t i = 0; i < s->ids->size; i++) {                                                                   \
      int64_t id = dfk_index(s->ids, i);                                                                           \
      if (id < 0) continue;                                                                                        \
      const T *x = (const T *)s->x + i * row + begin;                                                              \
      T *restrict y = (T *)s->y + id * row + begin;                                                                \
      switch (s->what) {                                                                                           \
        case SUM:  for (int64_t j = 0; j < w; j++) y[j] = (T)((U)y[j] + (U)x[j]); break;                           \
        case PROD: for (int64_t j = 0; j < w; j++) y[j] = (T)((U)y[j] * (U)x[j]); break;                           \
        case MAX:  for (int64_t j = 0; j < w; j++) y[j] = x[j] > y[j] || x[j] != x[j] ? x[j] : y[j]; break;        \
        case MIN:  for (int64_t j = 0; j < w; j++) y[j] = x[j] < y[j] || x[j] != x[j] ? x[j] : y[j]; break;        \
      }                                                                                                            \
    }                                                                                                              \
  }
SEGMENTS(fold_f32, float, float, -FLT_MAX, FLT_MAX)
SEGMENTS(fold_f64, double, double, -DBL_MAX, DBL_MAX)
SEGMENTS(fold_i8, int8_t, unsigned, INT8_MIN, INT8_MAX)
SEGMENTS(fold_u8, uint8_t, unsigned, 0, UINT8_MAX)
SEGMENTS(fold_i32, int32_t, uint32_t, INT32_MIN, INT32_MAX)
SEGMENTS(fold_i64, int64_t, uint64_t, INT64_MIN, INT64_MAX)

/* At least -1. */
static int64_t largest(const df_tensor *ids) {
  const int32_t *id = ids->data;
  const int64_t *wide = ids->data;
  int32_t most = -1;
  int64_t widest = -1;
  if (ids->dtype == DF_INT64) for (int64_t i = 0; i < ids->size; i++) widest = wide[i] > widest ? wide[i] : widest;
  else for (int64_t i = 0; i < ids->size; i++) most = id[i] > most ? id[i] : most;
  return most > widest ? most : widest;
}

/* The reference tells what is wrong with what does not fit, and does the half types. */
static int32_t run(df_kernel *k, kind what, df_kernel_fn reference) {
  const df_tensor *data = k->in[0], *ids = k->in[1];
  int64_t n = k->in[2]->rank == 0 ? dfk_index(k->in[2], 0) : -1, dims[DF_MAX_RANK];
  bool usual = n >= 0 && ids->rank <= data->rank && !dfk_is_half(data->dtype) && !dfk_is_rare(data->dtype) &&
               data->rank - ids->rank < DF_MAX_RANK;
  for (int32_t i = 0; usual && i < ids->rank; i++) usual = ids->dims[i] == data->dims[i];
  if (!usual || largest(ids) >= n) return reference(k);
  segments s = { data->data, NULL, ids, 1, n, what };
  int32_t rank = 0;
  dims[rank++] = n;
  for (int32_t i = ids->rank; i < data->rank; i++) s.row *= dims[rank++] = data->dims[i];
  df_tensor *y = dfk_out(k, 0, data->dtype, rank, dims);
  if (!y) return DF_RESOURCE_EXHAUSTED;
  s.y = y->data;
  df_range_fn fn = data->dtype == DF_FLOAT32   ? fold_f32
                   : data->dtype == DF_FLOAT64 ? fold_f64
                   : data->dtype == DF_INT8    ? fold_i8
                   : data->dtype == DF_UINT8   ? fold_u8
                   : data->dtype == DF_INT32   ? fold_i32
                                               : fold_i64;
  if (y->size) dfk_parallel(k, s.row, data->size + y->size > 65536 ? 64 : s.row, fn, &s);
  return DF_OK;
}

int32_t cpu_unsorted_segment_sum(df_kernel *k)  { return run(k, SUM, ref_unsorted_segment_sum); }
int32_t cpu_unsorted_segment_prod(df_kernel *k) { return run(k, PROD, ref_unsorted_segment_prod); }
int32_t cpu_unsorted_segment_max(df_kernel *k)  { return run(k, MAX, ref_unsorted_segment_max); }
int32_t cpu_unsorted_segment_min(df_kernel *k)  { return run(k, MIN, ref_unsorted_segment_min); }
