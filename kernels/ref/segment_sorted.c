/* segment_sorted.c: folds of rows by ids that ascend. Floats are folded in double, integers in int64. */
#include "../segment.h"
#include "fold.h"

static int32_t segments(df_kernel *k, const df_tensor *indices, const df_tensor *ids, ref_fold f) {
  const df_tensor *data = k->in[0];
  int64_t row;
  df_tensor *y = dfk_segments_begin(k, indices, ids, &row);
  if (!y) return k->error->code;
  bool floats = ref_is_float(data->dtype), both = dfk_is_complex(data->dtype);
  for (int64_t i = 0; i < y->size; i++) {
    if (both) ref_put_complex(y, i, f == REF_PROD);
    else if (floats) ref_put(y, i, f == REF_PROD);
    else ref_put_int(y, i, f == REF_PROD);
  }
  for (int64_t begin = 0, end; begin < ids->size; begin = end) {
    int64_t id = dfk_index(ids, begin);
    for (end = begin; end < ids->size && dfk_index(ids, end) == id;) end++;
    double scale = f == REF_MEAN ? (double)(end - begin) : f == REF_SQRT_N ? sqrt((double)(end - begin)) : 1;
    for (int64_t j = 0; j < row; j++) {
      double v = 0;
      double complex c = 0;
      int64_t n = 0;
      for (int64_t i = begin; i < end; i++) {
        int64_t at = (indices ? dfk_index(indices, i) : i) * row + j;
        if (both)
          c = i == begin  ? ref_get_complex(data, at)
              : f == REF_PROD ? c * ref_get_complex(data, at)
                          : c + ref_get_complex(data, at);
        else if (floats) v = i == begin ? ref_get(data, at) : ref_fold_float(f, v, ref_get(data, at));
        else n = i == begin ? ref_get_int(data, at) : ref_fold_int(f, data->dtype, n, ref_get_int(data, at));
      }
      if (both) ref_put_complex(y, id * row + j, c / scale);
      else if (floats) ref_put(y, id * row + j, v / scale);
      else ref_put_int(y, id * row + j, f == REF_MEAN ? n / (end - begin) : n);
    }
  }
  return DF_OK;
}

int32_t ref_segment_mean(df_kernel *k) { return segments(k, NULL, k->in[1], REF_MEAN); }
int32_t ref_segment_prod(df_kernel *k) { return segments(k, NULL, k->in[1], REF_PROD); }
int32_t ref_segment_max(df_kernel *k)  { return segments(k, NULL, k->in[1], REF_MAX); }
int32_t ref_segment_min(df_kernel *k)  { return segments(k, NULL, k->in[1], REF_MIN); }
int32_t ref_sparse_segment_sum(df_kernel *k)    { return segments(k, k->in[1], k->in[2], REF_SUM); }
int32_t ref_sparse_segment_mean(df_kernel *k)   { return segments(k, k->in[1], k->in[2], REF_MEAN); }
int32_t ref_sparse_segment_sqrt_n(df_kernel *k) { return segments(k, k->in[1], k->in[2], REF_SQRT_N); }
