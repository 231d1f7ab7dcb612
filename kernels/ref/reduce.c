/* reduce.c: reference reductions, argmax and argmin. One pass over the input in storage order; floats are
 * accumulated in double, integers in int64, complex numbers in double complex, and rounded (or cut) to the dtype once
 * at the end.
 */
#include "../reduce.h"
#include "fold.h"

static double start_float(ref_fold f) {
  switch (f) {
    case REF_PROD: return 1;
    case REF_MAX: case REF_LOG_SUM_EXP: return -INFINITY;
    case REF_MIN: return INFINITY;
    default: return 0;
  }
}

static int64_t start_int(ref_fold f, int32_t dtype) {
  switch (f) {
    case REF_PROD: case REF_ALL: return 1;
    case REF_MAX: return ref_lowest(dtype, false);
    case REF_MIN: return ref_lowest(dtype, true);
    default: return 0;
  }
}

/* The result that element i of the input is folded into. */
static int64_t result_of(const dfk_reduction *r, int64_t i) {
  int64_t out = 0, stride = 1;
  for (int32_t a = r->rank - 1; a >= 0; a--) {
    int64_t at = i % r->dims[a];
    i /= r->dims[a];
    if (!r->reduced[a]) { out += at * stride; stride *= r->dims[a]; }
  }
  return out;
}

static void reduce_floats(const df_tensor *x, df_tensor *y, const dfk_reduction *r, ref_fold f, double *acc,
                          double *sum) {
  for (int64_t o = 0; o < r->out_size; o++) acc[o] = start_float(f);
  for (int64_t i = 0; i < x->size; i++) {
    int64_t o = result_of(r, i);
    acc[o] = ref_fold_float(f, acc[o], ref_get(x, i));
  }
  if (f == REF_LOG_SUM_EXP) {
    for (int64_t o = 0; o < r->out_size; o++) sum[o] = 0;
    for (int64_t i = 0; i < x->size; i++) {
      int64_t o = result_of(r, i);
      sum[o] += exp(ref_get(x, i) - (isfinite(acc[o]) ? acc[o] : 0));
    }
    for (int64_t o = 0; o < r->out_size; o++) acc[o] = (isfinite(acc[o]) ? acc[o] : 0) + log(sum[o]);
  }
  for (int64_t o = 0; o < r->out_size; o++)
    ref_put(y, o, f == REF_MEAN ? acc[o] / (double)r->count : f == REF_NORM ? sqrt(acc[o]) : acc[o]);
}

static void reduce_ints(const df_tensor *x, df_tensor *y, const dfk_reduction *r, ref_fold f, int64_t *acc) {
  for (int64_t o = 0; o < r->out_size; o++) acc[o] = start_int(f, x->dtype);
  for (int64_t i = 0; i < x->size; i++) {
    int64_t o = result_of(r, i);
    acc[o] = ref_fold_int(f, x->dtype, acc[o], ref_get_int(x, i));
  }
  for (int64_t o = 0; o < r->out_size; o++) {
    int64_t mean = x->dtype == DF_UINT64 ? (int64_t)((uint64_t)acc[o] / (uint64_t)(r->count ? r->count : 1))
                                         : acc[o] / (r->count ? r->count : 1);
    ref_put_int(y, o, f == REF_MEAN ? mean : acc[o]);
    if (f != REF_NORM) continue;
    int64_t sum = ref_get_int(y, o);                     /* as the dtype holds it */
    double root = sqrt(x->dtype == DF_UINT64 ? (double)(uint64_t)sum : (double)sum);
    ref_put_int(y, o, root > 0 ? (int64_t)root : 0);
  }
}

static void reduce_complex(const df_tensor *x, df_tensor *y, const dfk_reduction *r, ref_fold f, double complex *acc) {
  for (int64_t o = 0; o < r->out_size; o++) acc[o] = f == REF_PROD;
  for (int64_t i = 0; i < x->size; i++) {
    int64_t o = result_of(r, i);
    double complex v = ref_get_complex(x, i);
    acc[o] = f == REF_PROD ? acc[o] * v : f == REF_NORM ? acc[o] + v * conj(v) : acc[o] + v;
  }
  for (int64_t o = 0; o < r->out_size; o++)
    ref_put_complex(y, o, f == REF_MEAN ? acc[o] / (double)r->count : f == REF_NORM ? csqrt(acc[o]) : acc[o]);
}

static int32_t reduce(df_kernel *k, ref_fold f) {
  dfk_reduction r;
  int32_t code = dfk_reduction_of(k, &r);
  if (code) return code;
  const df_tensor *x = k->in[0];
  df_tensor *y = dfk_out(k, 0, x->dtype, r.out_rank, r.out_dims);
  if (!y) return DF_RESOURCE_EXHAUSTED;
  bool floats = ref_is_float(x->dtype), both = dfk_is_complex(x->dtype);
  if (f == REF_MEAN && !floats && !both && r.count == 0 && r.out_size > 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the mean of no integers is not defined (integer division by zero)");
  double *acc = (double *)dfk_scratch(k, (2 * r.out_size + 1) * 8);
  if (!acc) return DF_RESOURCE_EXHAUSTED;
  if (both) reduce_complex(x, y, &r, f, (double complex *)acc);
  else if (floats) reduce_floats(x, y, &r, f, acc, acc + r.out_size);
  else reduce_ints(x, y, &r, f, (int64_t *)acc);
  dfk_free(acc);
  return DF_OK;
}

int32_t ref_sum(df_kernel *k)  { return reduce(k, REF_SUM); }
int32_t ref_mean(df_kernel *k) { return reduce(k, REF_MEAN); }
int32_t ref_prod(df_kernel *k) { return reduce(k, REF_PROD); }
int32_t ref_max(df_kernel *k)  { return reduce(k, REF_MAX); }
int32_t ref_min(df_kernel *k)  { return reduce(k, REF_MIN); }
int32_t ref_all(df_kernel *k)  { return reduce(k, REF_ALL); }
int32_t ref_any(df_kernel *k)  { return reduce(k, REF_ANY); }
int32_t ref_log_sum_exp(df_kernel *k)    { return reduce(k, REF_LOG_SUM_EXP); }
int32_t ref_euclidean_norm(df_kernel *k) { return reduce(k, REF_NORM); }

/* ---- argmax ------------------------------------------------------------------------------------- */

static bool beats(const df_tensor *x, int64_t i, int64_t best, bool least) {
  if (ref_is_float(x->dtype)) {
    double a = ref_get(x, i), b = ref_get(x, best);
    return !isnan(b) && (isnan(a) || (least ? a < b : a > b));
  }
  int64_t a = ref_get_int(x, i), b = ref_get_int(x, best);
  return least ? ref_below(x->dtype, a, b) : ref_below(x->dtype, b, a);
}

static int32_t arg(df_kernel *k, bool least) {
  const df_tensor *x = k->in[0];
  int32_t axis = dfk_scalar_axis_of(k, k->in[1], x);
  if (axis < 0) return DF_INVALID_ARGUMENT;
  int64_t outer = 1, n = x->dims[axis], inner = 1, dims[DF_MAX_RANK];
  int32_t rank = 0;
  for (int32_t i = 0; i < x->rank; i++) {
    if (i < axis) outer *= x->dims[i];
    if (i > axis) inner *= x->dims[i];
    if (i != axis) dims[rank++] = x->dims[i];
  }
  char text[160];
  if (n == 0 && outer * inner > 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%s of an empty axis: axis %d of %s has no elements",
                    least ? "argmin" : "argmax", axis, dfk_shape_text(x, text, sizeof text));
  df_tensor *y = dfk_out(k, 0, k->out_dtype[0], rank, dims);
  if (!y) return DF_RESOURCE_EXHAUSTED;
  for (int64_t o = 0; o < outer; o++)
    for (int64_t j = 0; j < inner; j++) {
      int64_t at = o * n * inner + j, best = 0;
      for (int64_t i = 1; i < n; i++)
        if (beats(x, at + i * inner, at + best * inner, least)) best = i;
      ref_put_int(y, o * inner + j, best);
    }
  return DF_OK;
}

int32_t ref_arg_max(df_kernel *k) { return arg(k, false); }
int32_t ref_arg_min(df_kernel *k) { return arg(k, true); }

/* ---- the shapes that gradients of reductions need when the input's shape is not known while building ---- */

static int32_t reduced(df_kernel *k, df_tensor **shape_out, int64_t *count) {
  const df_tensor *shape = k->in[0], *axes = k->in[1];
  for (int64_t i = 0; i < shape->size && shape_out; i++) ref_put_int(*shape_out, i, dfk_index(shape, i));
  *count = 1;
  for (int64_t i = 0; i < axes->size; i++) {
    int64_t a = dfk_index(axes, i);
    if (a < 0) a += shape->size;
    if (a < 0 || a >= shape->size)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "reduction axis %lld is out of range for rank %lld",
                      (long long)dfk_index(axes, i), (long long)shape->size);
    *count *= dfk_index(shape, a);
    if (shape_out) ref_put_int(*shape_out, a, 1);
  }
  return DF_OK;
}

int32_t ref_reduced_shape(df_kernel *k) {
  df_tensor *y = dfk_out_like(k, 0, k->in[0]);
  int64_t count;
  return y ? reduced(k, &y, &count) : DF_RESOURCE_EXHAUSTED;
}

int32_t ref_reduced_count(df_kernel *k) {
  df_tensor *y = dfk_out(k, 0, DF_INT64, 0, NULL);
  int64_t count;
  if (!y) return DF_RESOURCE_EXHAUSTED;
  int32_t code = reduced(k, NULL, &count);
  if (!code) ref_put_int(y, 0, count);
  return code;
}
