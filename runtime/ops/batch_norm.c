/* batch_norm.c: TensorFlow's fused batch normalisation: y = (x - mean) / sqrt(variance + epsilon) * scale + offset, by
 * channel.
 *
 * In training, mean and variance are those of x over all but the channel; batch_mean and batch_variance are then what a
 * moving average takes (the variance with n - 1), the reserved ones what the gradient takes. Otherwise they are the
 * inputs. The gradient is made of plain ops.
 */
#include "graph/grad.h"
#include <math.h>
#include <string.h>

enum { EPSILON, FACTOR, FORMAT, TRAINING };
enum { GRAD_EPSILON, GRAD_FORMAT, GRAD_TRAINING };

/* ---- kernels ---------------------------------------------------------------------------------------------- */

/* x as [outer, channels, inner]. False: it is not of rank 4 (or 5), or the others are not of one value per channel. */
typedef struct extent { int64_t outer, channels, inner, n; } extent;

static bool extent_of(df_kernel *k, const df_tensor *x, const char *format, int32_t from, int32_t to, extent *e) {
  const bool first = !strncmp(format, "NC", 2);
  if (x->rank != (int32_t)strlen(format)) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "x must have rank %zu (%s), it has rank %d", strlen(format), format, x->rank);
    return false;
  }
  const int32_t axis = first ? 1 : x->rank - 1;
  *e = (extent){ 1, x->dims[axis], 1, 0 };
  for (int32_t d = 0; d < axis; d++) e->outer *= x->dims[d];
  for (int32_t d = axis + 1; d < x->rank; d++) e->inner *= x->dims[d];
  e->n = e->outer * e->inner;
  for (int32_t i = from; i <= to; i++) {
    if (!k->in[i]->size && i > from + 1) continue;               /* mean and variance may be empty in training */
    if (k->in[i]->rank == 1 && k->in[i]->size == e->channels) continue;
    dfk_fail(k, DF_INVALID_ARGUMENT, "input %d must have one value for each of %lld channels, it has %lld", i,
             (long long)e->channels, (long long)k->in[i]->size);
    return false;
  }
  return true;
}

static double at(const df_tensor *t, int64_t i) {
  return t->dtype == DF_FLOAT64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}
static void set(df_tensor *t, int64_t i, double v) {
  if (t->dtype == DF_FLOAT64) ((double *)t->data)[i] = v; else ((float *)t->data)[i] = (float)v;
}

/* x scale offset mean variance */
static int32_t kernel_norm(df_kernel *k) {
  const df_tensor *x = k->in[0], *scale = k->in[1], *offset = k->in[2];
  const bool training = dfk_bool(k, TRAINING);
  const double epsilon = dfk_float(k, EPSILON), factor = dfk_float(k, FACTOR);
  extent e;
  df_tensor *out[6] = { NULL };
  if (!extent_of(k, x, dfk_string(k, FORMAT), 1, 4, &e)) return k->error->code;
  const bool moving = training && factor != 1;
  if ((!training || moving) && (k->in[3]->size != e.channels || k->in[4]->size != e.channels))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "mean and variance must have one value for each of %lld channels",
                    (long long)e.channels);
  for (int32_t i = 0; i < k->nout; i++) {
    out[i] = i == 0 ? dfk_out_like(k, 0, x) : dfk_out(k, i, k->out_dtype[i], i == 5 ? 0 : 1, &e.channels);
    if (!out[i]) return k->error->code;
  }
  if (k->nout > 5) set(out[5], 0, 0);
  for (int64_t c = 0; c < e.channels; c++) {
    double mean = 0, variance = 0;
    for (int64_t o = 0; training && o < e.outer; o++)
      for (int64_t i = 0; i < e.inner; i++) mean += at(x, (o * e.channels + c) * e.inner + i);
    if (training && e.n) mean /= (double)e.n;
    for (int64_t o = 0; training && o < e.outer; o++)
      for (int64_t i = 0; i < e.inner; i++) {
        const double d = at(x, (o * e.channels + c) * e.inner + i) - mean;
        variance += d * d;
      }
    double unbiased = e.n > 1 ? variance / (double)(e.n - 1) : variance;
    if (training && e.n) variance /= (double)e.n;
    if (!training) { mean = at(k->in[3], c); variance = unbiased = at(k->in[4], c); }
    const double by = at(scale, c) / sqrt(variance + epsilon), shift = at(offset, c) - mean * by;
    for (int64_t o = 0; o < e.outer; o++)
      for (int64_t i = 0; i < e.inner; i++) {
        const int64_t p = (o * e.channels + c) * e.inner + i;
        set(out[0], p, at(x, p) * by + shift);
      }
    set(out[1], c, moving ? (1 - factor) * at(k->in[3], c) + factor * mean : mean);
    set(out[2], c, moving ? (1 - factor) * at(k->in[4], c) + factor * unbiased : unbiased);
    set(out[3], c, mean);
    set(out[4], c, variance);
  }
  return DF_OK;
}

/* y_backprop x scale reserve_1 reserve_2 [reserve_3] */
static int32_t kernel_norm_grad(df_kernel *k) {
  const df_tensor *dy = k->in[0], *x = k->in[1], *scale = k->in[2];
  const bool training = dfk_bool(k, GRAD_TRAINING);
  const double epsilon = dfk_float(k, GRAD_EPSILON);
  extent e;
  if (!extent_of(k, x, dfk_string(k, GRAD_FORMAT), 2, 4, &e)) return k->error->code;
  if (dy->size != x->size)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "y_backprop has %lld elements, x %lld", (long long)dy->size,
                    (long long)x->size);
  const int64_t none = 0;
  df_tensor *dx = dfk_out_like(k, 0, x), *ds = dfk_out(k, 1, k->out_dtype[1], 1, &e.channels),
            *doff = dfk_out(k, 2, k->out_dtype[2], 1, &e.channels);
  df_tensor *r4 = dfk_out(k, 3, k->out_dtype[3], 1, &none), *r5 = dfk_out(k, 4, k->out_dtype[4], 1, &none);
  if (!dx || !ds || !doff || !r4 || !r5) return k->error->code;
  if (k->in[3]->size != e.channels || k->in[4]->size != e.channels)
    return dfk_fail(k, DF_INVALID_ARGUMENT,
                    "the reserved mean and variance must have one value for each of %lld channels",
                    (long long)e.channels);
  for (int64_t c = 0; c < e.channels; c++) {
    const double mean = at(k->in[3], c), inverse = 1 / sqrt(at(k->in[4], c) + epsilon), n = (double)e.n;
    double sum = 0, dot = 0;
    for (int64_t o = 0; o < e.outer; o++)
      for (int64_t i = 0; i < e.inner; i++) {
        const int64_t p = (o * e.channels + c) * e.inner + i;
        sum += at(dy, p);
        dot += at(dy, p) * (at(x, p) - mean) * inverse;
      }
    for (int64_t o = 0; o < e.outer; o++)
      for (int64_t i = 0; i < e.inner; i++) {
        const int64_t p = (o * e.channels + c) * e.inner + i;
        const double centred = training ? at(dy, p) - sum / n - (at(x, p) - mean) * inverse * dot / n : at(dy, p);
        set(dx, p, at(scale, c) * inverse * centred);
      }
    set(ds, c, dot);
    set(doff, c, sum);
  }
  return DF_OK;
}

/* ---- shapes, gradient ---------------------------------------------------------------------------------------- */

static int32_t shape_norm(dfi_infer *c) {
  const dfi_shape *x = dfi_in_shape(c, 0);
  *dfi_set_shape(c, 0) = *x;
  const bool first = !strncmp(c->node->attrs[FORMAT].s, "NC", 2);
  for (int32_t i = 1; i < c->node->nout; i++)
    *dfi_set_shape(c, i) =
        i == 5 ? dfi_shape_scalar() : dfi_shape_vector(x->rank > 1 ? x->dims[first ? 1 : x->rank - 1] : -1);
  return DF_OK;
}

static int32_t shape_norm_grad(dfi_infer *c) {
  *dfi_set_shape(c, 0) = *dfi_in_shape(c, 1);
  for (int32_t i = 1; i < 5; i++) *dfi_set_shape(c, i) = i < 3 ? *dfi_in_shape(c, 2) : dfi_shape_vector(0);
  return DF_OK;
}

/* One value per channel, so that it goes with x. */
static df_output by_channel(dfi_build *b, df_output v, bool first, int32_t rank) {
  if (!first) return v;
  const int64_t dims[4] = { -1, 1, 1, 1 };
  return dfi_op(b, "Reshape", v, dfi_const_ints(b, rank - 1, dims));
}

static int32_t grad_norm(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx) {
  dfi_build *b = dfg_build(g);
  const char *format = n->attrs[FORMAT].s;
  const bool first = !strncmp(format, "NC", 2), training = n->attrs[TRAINING].i != 0;
  const int32_t rank = (int32_t)strlen(format);
  if (dy[1].node || dy[2].node)
    return dfg_fail(g, n, "the mean and variance of %s have no gradient", dfi_op_info_at(n->op)->op->type);
  if (!dy[0].node) return dfg_end(g);
  int64_t axis[4], m = 0;
  for (int32_t d = 0; d < rank; d++) if (d != (first ? 1 : rank - 1)) axis[m++] = d;
  const df_output axes = dfi_const_ints(b, (int32_t)m, axis), x = dfg_in(g, n, 0), scale = dfg_in(g, n, 1);
  const df_output mean = training ? dfi_op(b, "Mean", x, axes) : dfg_in(g, n, 3);
  const df_output centred = dfi_op(b, "Sub", x, by_channel(b, mean, first, rank));
  const df_output variance = training ? dfi_op(b, "Mean", dfi_op(b, "Square", centred), axes) : dfg_in(g, n, 4);
  const df_output inverse =
      dfi_op(b, "Rsqrt", dfi_op(b, "Add", variance, dfi_const_like(b, variance, n->attrs[EPSILON].f)));
  const df_output normal = dfi_op(b, "Mul", centred, by_channel(b, inverse, first, rank)),
                  product = dfi_op(b, "Mul", dy[0], normal);
  const df_output by = by_channel(b, dfi_op(b, "Mul", scale, inverse), first, rank);
  df_output d = dy[0];
  if (training) {
    d = dfi_op(b, "Sub", d, by_channel(b, dfi_op(b, "Mean", dy[0], axes), first, rank));
    d = dfi_op(b, "Sub", d, dfi_op(b, "Mul", normal, by_channel(b, dfi_op(b, "Mean", product, axes), first, rank)));
  }
  dx[0] = dfi_op(b, "Mul", by, d);
  dx[1] = dfi_op(b, "Sum", product, axes);
  dx[2] = dfi_op(b, "Sum", dy[0], axes);
  if (training) return dfg_end(g);
  const df_output slope = dfi_op(b, "Mul", dfi_op(b, "Mul", scale, inverse), dx[2]);
  dx[3] = dfi_op(b, "Neg", slope);
  const df_output half = dfi_const_like(b, variance, -0.5);
  dx[4] = dfi_op(b, "Mul", half, dfi_op(b, "Mul", dfi_op(b, "Mul", scale, dx[1]), dfi_op(b, "Square", inverse)));
  return dfg_end(g);
}

/* ---- entries ---------------------------------------------------------------------------------------------------- */

#define NORM(TYPE, MORE) \
  { .type = TYPE, .in = "x:T scale:T offset:T mean:T variance:T", \
    .out = "y:T batch_mean:T batch_variance:T reserve_space_1:T reserve_space_2:T" MORE, .types = "T=float32|float64", \
    .attrs = "epsilon:float=0.0001 exponential_avg_factor:float=1 data_format:string='NHWC' is_training:bool=true", \
    .doc = "batch normalisation of x [n, h, w, c] (or [n, c, h, w]), with the batch's mean and variance in training", \
    .shape = shape_norm, .grad = grad_norm, .kernel = { [DF_REF] = kernel_norm } }
#define NORM_GRAD(TYPE, MORE) \
  { .type = TYPE, .in = "y_backprop:T x:T scale:T reserve_space_1:T reserve_space_2:T" MORE, \
    .out = "x_backprop:T scale_backprop:T offset_backprop:T reserve_space_3:T reserve_space_4:T", \
      .types = "T=float32|float64", \
    .attrs = "epsilon:float=0.0001 data_format:string='NHWC' is_training:bool=true", \
      .doc = "the gradient of FusedBatchNorm", \
    .shape = shape_norm_grad, .kernel = { [DF_REF] = kernel_norm_grad } }

static const df_op ops[] = {
  NORM("FusedBatchNorm", ""),
  NORM("FusedBatchNormV2", ""),
  NORM("FusedBatchNormV3", " reserve_space_3:T"),
  NORM_GRAD("FusedBatchNormGrad", ""),
  NORM_GRAD("FusedBatchNormGradV2", ""),
  NORM_GRAD("FusedBatchNormGradV3", " reserve_space_3:T"),
};
const dfi_op_table dfi_ops_batch_norm = { ops, sizeof ops / sizeof *ops };
