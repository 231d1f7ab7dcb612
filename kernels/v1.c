/* v1.c: the kernels of TensorFlow's older ops whose inputs stand in another order or number than those of the newer
 * ones, and of a few ops of their kind. Most call the newer op's kernel with the inputs as that one wants them.
 */
#include "v1.h"
#include "half.h"
#include "array.h"
#include "convert_ops.h"
#include "index.h"
#include "move.h"
#include "reduce.h"
#include <string.h>

enum { FEW = 32 };

/* ---- calling one op's kernel with other inputs --------------------------------------------------------- */

/* fn with n inputs; none of them may be overwritten. */
static int32_t with_inputs(df_kernel *k, df_kernel_fn fn, int32_t n, const df_tensor *const *in,
                           const df_value *const *raw) {
  df_kernel other = *k;
  other.nin = n;
  other.in = in;
  other.raw = raw;
  other.reusable = 0;
  return fn(&other);
}

/* A number that lies in `v`, seen as a tensor. */
static df_tensor number_in(const df_value *v) {
  return (df_tensor){ .refs = 1, .dtype = v->dtype, .view = 1, .size = 1, .data = (void *)&v->as };
}

/* The first input becomes the last one. */
static int32_t first_last(df_kernel *k, df_kernel_fn fn) {
  const df_tensor *few_in[FEW] = { NULL }, **in = few_in;
  const df_value *few_raw[FEW] = { NULL }, **raw = few_raw;
  if (k->nin > FEW && !(in = dfk_scratch(k, 2 * k->nin * (int64_t)sizeof *in))) return k->error->code;
  if (k->nin > FEW) raw = (const df_value **)(in + k->nin);
  for (int32_t i = 0; i < k->nin; i++) {
    in[i] = k->in[(i + 1) % k->nin];
    raw[i] = k->raw[(i + 1) % k->nin];
  }
  int32_t code = with_inputs(k, fn, k->nin, in, raw);
  if (in != few_in) dfk_free(in);
  return code;
}

/* ---- Concat: the axis comes first ---- */
int32_t dfk_v1_concat(df_kernel *k, df_kernel_fn concat) { return first_last(k, concat); }

/* ---- Gather: along axis 0 ---- */
int32_t dfk_v1_gather(df_kernel *k, df_kernel_fn fn) {
  static const df_value zero = { .kind = DF_SCALAR, .dtype = DF_INT32 };
  static const df_attr no_batch = { .i = 0 };
  df_tensor axis = number_in(&zero);
  df_kernel other = *k;
  other.attrs = &no_batch;
  return with_inputs(&other, fn, 3, (const df_tensor *[]){ k->in[0], k->in[1], &axis },
                     (const df_value *[]){ k->raw[0], k->raw[1], &zero });
}

/* ---- Reverse: a bool for each axis ---- */
int32_t dfk_v1_reverse(df_kernel *k, df_kernel_fn fn) {
  const df_tensor *x = k->in[0], *dims = k->in[1];
  char a[160], b[160];
  int32_t axes[DF_MAX_RANK];
  if (dims->rank != 1 || dims->size != x->rank)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "dims is %s but must have one bool for each axis of %s",
                    dfk_shape_text(dims, a, sizeof a), dfk_shape_text(x, b, sizeof b));
  df_tensor list = { .refs = 1, .dtype = DF_INT32, .view = 1, .rank = 1, .data = axes };
  for (int32_t d = 0; d < x->rank; d++)
    if (((const bool *)dims->data)[d]) axes[list.size++] = d;
  list.dims[0] = list.size;
  return with_inputs(k, fn, 2, (const df_tensor *[]){ x, &list }, (const df_value *[]){ k->raw[0], k->raw[1] });
}

/* ---- TopK with k as an attribute, InTopKV2 with k as an input ---- */
int32_t dfk_v1_top_k(df_kernel *k, df_kernel_fn fn) {
  df_value count = { .kind = DF_SCALAR, .dtype = DF_INT32, .as.i32 = (int32_t)dfk_int(k, 0) };
  df_tensor t = number_in(&count);
  return with_inputs(k, fn, 2, (const df_tensor *[]){ k->in[0], &t }, (const df_value *[]){ k->raw[0], &count });
}

int32_t dfk_v1_in_top_k(df_kernel *k, df_kernel_fn fn) {
  df_attr count = { 0 };
  df_kernel other = *k;
  if (!dfk_integer(k, 2, "k", &count.i)) return k->error->code;
  other.attrs = &count;
  return with_inputs(&other, fn, 2, k->in, k->raw);
}

/* ---- Empty, on the host alone ListDiff, ConjugateTranspose, ParallelConcat ---- */
/* Zeros, whether or not they were asked for: what lies in memory is not to be seen. */
int32_t ref_v1_empty(df_kernel *k) {
  int64_t dims[DF_MAX_RANK];
  int32_t rank = dfk_dims_of(k, k->in[0], "shape", dims);
  df_tensor *out = rank < 0 ? NULL : dfk_out(k, 0, k->out_dtype[0], rank, dims);
  if (!out) return k->error->code;
  dfk_clear(out);
  return DF_OK;
}

#ifndef DFK_DEVICE
int32_t ref_v1_concat(df_kernel *k)   { return dfk_v1_concat(k, ref_concat); }
int32_t cpu_v1_concat(df_kernel *k)   { return dfk_v1_concat(k, cpu_concat); }
int32_t ref_v1_gather(df_kernel *k)   { return dfk_v1_gather(k, ref_gather); }
int32_t cpu_v1_gather(df_kernel *k)   { return dfk_v1_gather(k, cpu_gather); }
int32_t ref_v1_reverse(df_kernel *k)  { return dfk_v1_reverse(k, ref_reverse); }
int32_t cpu_v1_reverse(df_kernel *k)  { return dfk_v1_reverse(k, cpu_reverse); }
int32_t ref_v1_top_k(df_kernel *k)    { return dfk_v1_top_k(k, ref_top_k); }
int32_t cpu_v1_top_k(df_kernel *k)    { return dfk_v1_top_k(k, cpu_top_k); }
int32_t ref_v1_in_top_k(df_kernel *k) { return dfk_v1_in_top_k(k, ref_in_top_k); }

/* Floats by value: 0 is -0, and a NaN is equal to nothing. */
static bool same_element(const df_tensor *a, int64_t i, const df_tensor *b, int64_t j) {
  int64_t w = dfk_width(a->dtype);
  if (a->dtype == DF_FLOAT32) return ((const float *)a->data)[i] == ((const float *)b->data)[j];
  if (a->dtype == DF_FLOAT64) return ((const double *)a->data)[i] == ((const double *)b->data)[j];
  if (dfk_is_half(a->dtype)) {
    const uint16_t x = ((const uint16_t *)a->data)[i], y = ((const uint16_t *)b->data)[j];
    const uint16_t most = a->dtype == DF_FLOAT16 ? 0x7c00 : 0x7f80;
    return (x & 0x7fff) <= most && (x == y || !((x | y) & 0x7fff));
  }
  if (dfk_is_complex(a->dtype)) {
    const int64_t half = w / 2;
    df_tensor p = *a, q = *b;
    p.dtype = q.dtype = half == 4 ? DF_FLOAT32 : DF_FLOAT64;
    return same_element(&p, 2 * i, &q, 2 * j) && same_element(&p, 2 * i + 1, &q, 2 * j + 1);
  }
  if (a->dtype != DF_STRING) return !memcmp((const char *)a->data + i * w, (const char *)b->data + j * w, (size_t)w);
  const df_str *s = (const df_str *)a->data + i, *t = (const df_str *)b->data + j;
  return s->length == t->length && (!s->length || !memcmp(s->bytes, t->bytes, (size_t)s->length));
}

int32_t ref_v1_list_diff(df_kernel *k) {
  const df_tensor *x = k->in[0], *y = k->in[1];
  char text[160];
  for (int32_t i = 0; i < 2; i++)
    if (k->in[i]->rank != 1)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "%s is %s but must be a vector", i ? "y" : "x",
                      dfk_shape_text(k->in[i], text, sizeof text));
  int64_t n = 0, *kept = dfk_scratch(k, (x->size + 1) * (int64_t)sizeof *kept);
  if (!kept) return k->error->code;
  for (int64_t i = 0; i < x->size; i++) {
    bool found = false;
    for (int64_t j = 0; j < y->size && !found; j++) found = same_element(x, i, y, j);
    if (!found) kept[n++] = i;
  }
  df_tensor *out = dfk_out(k, 0, x->dtype, 1, &n), *index = out ? dfk_out(k, 1, k->out_dtype[1], 1, &n) : NULL;
  bool ok = index != NULL;
  for (int64_t i = 0; ok && i < n; i++) {
    ok = dfk_copy(k, out, i, x, kept[i], 1);
    if (index->dtype == DF_INT64) ((int64_t *)index->data)[i] = kept[i];
    else ((int32_t *)index->data)[i] = (int32_t)kept[i];
  }
  dfk_free(kept);
  return ok ? DF_OK : k->error->code;
}

int32_t ref_v1_conjugate_transpose(df_kernel *k) {
  if (!dfk_is_complex(k->in[0]->dtype)) return cpu_transpose(k);
  df_value between = { 0 };
  df_kernel first = *k;
  first.nin = 1;
  first.reusable = 0;
  first.out = &between;
  int32_t code = ref_conj(&first);
  if (!code) code = with_inputs(k, cpu_transpose, 2, (const df_tensor *[]){ between.as.tensor, k->in[1] },
                                (const df_value *[]){ &between, k->raw[1] });
  df_value_release(&between);
  return code;
}

#endif

/* values of one row each; shape */
int32_t ref_v1_parallel_concat(df_kernel *k) {
  const df_attr *shape = &k->attrs[0];
  char one[160];
  df_tensor like = { .dtype = k->in[0]->dtype, .rank = (int8_t)shape->i };
  for (int32_t d = 0; d < shape->i; d++) like.dims[d] = shape->ints[d];
  if (shape->i < 1 || shape->ints[0] != k->nin)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "%d values make no %s", k->nin,
                    shape->i < 0 ? "tensor of unknown shape" : dfk_shape_text(&like, one, sizeof one));
  for (int32_t i = 0; i < k->nin; i++) {
    const df_tensor *v = k->in[i];
    bool fits = v->rank == shape->i && v->dims[0] == 1;
    for (int32_t d = 1; fits && d < v->rank; d++) fits = v->dims[d] == shape->ints[d];
    char other[160];
    if (!fits)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "values[%d] is %s, but each is to be one row of %s", i,
                      dfk_shape_text(v, other, sizeof other), dfk_shape_text(&like, one, sizeof one));
  }
  df_tensor *out = dfk_out(k, 0, like.dtype, like.rank, shape->ints);
  if (!out) return k->error->code;
  const int64_t row = out->size / k->nin;
  for (int32_t i = 0; i < k->nin; i++)
    if (!dfk_copy(k, out, i * row, k->in[i], 0, row)) return k->error->code;
  return DF_OK;
}
