/* dnn_layers.c: pooling, softmax and batch normalisation by cuDNN. See dnn.h.
 *
 * The library reads a description when it is called, so that each GPU has one of each kind, written anew for every
 * call. What it has once said that it has nothing for is asked of our own kernels at once.
 */
#include "dnn.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REFUSED = 256 };
struct dfc_dnn_layers {
  cudnnTensorDescriptor_t x, y, channels;
  cudnnPoolingDescriptor_t window;
  uint64_t refused[REFUSED];              /* marks of what it has nothing for, each at its place */
};

#define GOOD(call, ...) dfc_dnn_good(g, dfc_dnn.call(__VA_ARGS__), #call)

/* What is asked for, as one number. */
static uint64_t mark_of(const int64_t *words, size_t n) {
  uint64_t h = 1469598103934665603ull;
  for (size_t i = 0; i < n; i++) h = (h ^ (uint64_t)words[i]) * 0x9e3779b97f4a7c15ull, h ^= h >> 29;
  return h | 1;
}
#define MARK(...) mark_of((const int64_t[]){ __VA_ARGS__ }, sizeof (int64_t[]){ __VA_ARGS__ } / sizeof(int64_t))

static bool has_refused(const dfc_gpu *g, uint64_t mark) {
  return g->dnn_layers && g->dnn_layers->refused[mark / 2 % REFUSED] == mark;
}

/* The descriptions of this GPU. False: our own kernel is asked; or c->ok says that the library failed. */
static bool begin(dfc_call *c, uint64_t mark) {
  dfc_gpu *g = c->g;
  if (!c->ok || has_refused(g, mark) || !dfc_dnn_open() || !dfc_dnn_ready(c)) return false;
  if (g->dnn_layers) return true;
  struct dfc_dnn_layers *l = calloc(1, sizeof *l);
  if (!l) return c->ok = false;
  c->ok = GOOD(cudnnCreateTensorDescriptor, &l->x) && GOOD(cudnnCreateTensorDescriptor, &l->y) &&
          GOOD(cudnnCreateTensorDescriptor, &l->channels) && GOOD(cudnnCreatePoolingDescriptor, &l->window);
  if (c->ok) g->dnn_layers = l; else free(l);
  return c->ok;
}

/* What came of a call that enqueues. False: as above, and nothing was enqueued. */
static bool end(dfc_call *c, uint64_t mark, cudnnStatus_t status, const char *what) {
  const int kind = status / 1000;
  if (kind == CUDNN_STATUS_NOT_SUPPORTED / 1000 || kind == CUDNN_STATUS_BAD_PARAM / 1000) {
    c->g->dnn_layers->refused[mark / 2 % REFUSED] = mark;
    return false;
  }
  c->g->launches++;
  return c->ok = dfc_dnn_good(c->g, status, what);
}

/* What results are multiplied with, as the library wants it for a dtype; and what was there before: 0 as either. */
static const void *one(int32_t dtype) {
  static const float narrow = 1;
  static const double wide = 1;
  return dtype == DF_FLOAT64 ? (const void *)&wide : &narrow;
}
static const double none = 0;

static bool describe(dfc_gpu *g, cudnnTensorDescriptor_t t, int format, int32_t dtype, int64_t n, int64_t channels,
                     int64_t h, int64_t w) {
  return GOOD(cudnnSetTensor4dDescriptor, t, format, dfc_dnn_type(dtype), (int)n, (int)channels, (int)h, (int)w);
}

static bool is_float(int32_t dtype) { return dtype < 32 && (DFC_FLOATS >> dtype & 1); }

/* ---- pooling ----------------------------------------------------------------------------------------------------- */

/* Windows that see more than all of the image are ours: the library may go over all of a window that has a place for
 * each of a billion pixels beside it. */
static bool axis_fits(const dfc_axis *a) {
  return a->dilation == 1 && a->window <= a->in && a->before < a->window && dfc_dnn_axis_fits(a, 0);
}
static bool pools(const dfc_window *p, int32_t dtype) {
  const double in = (double)p->n * (double)p->y.in * (double)p->x.in * (double)p->ci,
               out = (double)p->n * (double)p->y.out * (double)p->x.out * (double)p->ci;
  return is_float(dtype) && p->n > 0 && p->ci > 0 && p->y.in > 0 && p->x.in > 0 && axis_fits(&p->y) &&
         axis_fits(&p->x) && in <= INT_MAX && out <= INT_MAX;
}

bool dfc_dnn_pool(dfc_call *c, const dfc_window *p, int32_t dtype, dfc_dnn_pooling what) {
  dfc_gpu *g = c->g;
  if (!pools(p, dtype)) return false;
  const uint64_t mark = MARK(what, dtype, p->n, p->ci, p->y.in, p->y.window, p->y.stride, p->y.before, p->x.in,
                             p->x.window, p->x.stride, p->x.before);
  if (!begin(c, mark)) return false;
  const struct dfc_dnn_layers *l = g->dnn_layers;
  c->ok = describe(g, l->x, CUDNN_TENSOR_NHWC, dtype, p->n, p->ci, p->y.in, p->x.in) &&
          describe(g, l->y, CUDNN_TENSOR_NHWC, dtype, p->n, p->ci, p->y.out, p->x.out) &&
          GOOD(cudnnSetPooling2dDescriptor, l->window,
               what == DFC_DNN_MAX ? CUDNN_POOLING_MAX : CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING,
               CUDNN_PROPAGATE_NAN, (int)p->y.window, (int)p->x.window, (int)p->y.before, (int)p->x.before,
               (int)p->y.stride, (int)p->x.stride);
  if (!c->ok) return false;
  const cudnnStatus_t status =        /* an average's gradient asks for inputs and results, and reads neither */
      what == DFC_DNN_AVERAGE_BACK
          ? dfc_dnn.cudnnPoolingBackward(g->dnn, l->window, one(dtype), l->y, p->dy, l->y, p->dy, l->x, p->to,
                                         &none, l->x, p->to)
          : dfc_dnn.cudnnPoolingForward(g->dnn, l->window, one(dtype), l->x, p->in, &none, l->y, p->to);
  return end(c, mark, status, "pooling by cuDNN");
}

/* ---- softmax ----------------------------------------------------------------------------------------------------- */

static uint64_t mark_of_rows(int64_t rows, int64_t n, int32_t dtype) { return MARK(100, dtype, rows, n); }

bool dfc_dnn_softens(dfc_gpu *g, int64_t rows, int64_t n, int32_t dtype) {
  if (!is_float(dtype) || rows < 1 || n < 1 || rows > INT_MAX / n || !dfc_dnn_open()) return false;
  dfc_enter(g);
  const bool refused = has_refused(g, mark_of_rows(rows, n, dtype));
  dfc_leave(g);
  return !refused;
}

bool dfc_dnn_softmax(dfc_call *c, const dfc_rows *p, int32_t dtype) {
  dfc_gpu *g = c->g;
  const uint64_t mark = mark_of_rows(p->rows, p->n, dtype);
  if (p->x == p->z || !is_float(dtype) || p->rows > INT_MAX / p->n || !begin(c, mark)) return false;
  const struct dfc_dnn_layers *l = g->dnn_layers;
  if (!(c->ok = describe(g, l->x, CUDNN_TENSOR_NCHW, dtype, p->rows, p->n, 1, 1))) return false;
  const int how = p->what == DFC_LOG_SOFTMAX ? CUDNN_SOFTMAX_LOG : CUDNN_SOFTMAX_ACCURATE;
  return end(c, mark, dfc_dnn.cudnnSoftmaxForward(g->dnn, how, CUDNN_SOFTMAX_MODE_INSTANCE, one(dtype), l->x, p->x,
                                                  &none, l->x, p->z), "a softmax by cuDNN");
}

/* ---- batch normalisation ----------------------------------------------------------------------------------------- */

static bool normalises(const dfc_norm *p, const df_tensor *x) {
  return (x->dtype == DF_FLOAT32 || x->dtype == DF_FLOAT64) && p->outer * p->inner > 1 && p->channels > 0 &&
         x->size <= INT_MAX && p->epsilon >= 0;
}
static uint64_t mark_of_norm(const dfc_norm *p, const df_tensor *x, int64_t what) {
  return MARK(what, x->dtype, x->dims[0], p->outer, p->channels, p->inner);
}

/* x, and what there is of each channel. Channels last: an image of as many rows as it has pixels. Behind what asks for
 * memory, for which another thread may have been let in. */
static bool describe_norm(dfc_call *c, const dfc_norm *p, const df_tensor *x) {
  dfc_gpu *g = c->g;
  const struct dfc_dnn_layers *l = g->dnn_layers;
  const bool last = p->inner == 1;
  const int64_t images = x->dims[0], pixels = p->outer * p->inner / images;
  const int order = last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
  return c->ok = dfc_dnn_ready(c) && describe(g, l->x, order, x->dtype, images, p->channels, pixels, 1) &&
                 describe(g, l->channels, CUDNN_TENSOR_NCHW, x->dtype, 1, p->channels, 1, 1);
}

static void *channels_of(dfc_call *c, const dfc_norm *p, int32_t dtype) {
  return dfc_temporary(c, NULL, p->channels * df_dtype_bytes(dtype));
}

/* With a factor of 1 what the library calls running are the moments of x itself: it multiplies what was there with
 * 0. */
bool dfc_dnn_norm(dfc_call *c, const dfc_norm *p, const df_tensor *x) {
  dfc_gpu *g = c->g;
  const int32_t dtype = x->dtype;
  const uint64_t mark = mark_of_norm(p, x, 200 + p->training);
  if (!normalises(p, x) || !begin(c, mark)) return false;
  const size_t bytes = (size_t)(p->channels * df_dtype_bytes(dtype));
  void *moment[2] = { NULL, NULL };
  for (int32_t i = 0; i < 2 && p->training; i++) {
    moment[i] = channels_of(c, p, dtype);
    c->ok = c->ok && dfc_ok(g, dfc_cu.cuMemsetD8Async((CUdeviceptr)(uintptr_t)moment[i], 0, bytes, dfc_stream(g)),
                            "cuMemsetD8Async");
  }
  if (!c->ok || !describe_norm(c, p, x)) return false;
  const struct dfc_dnn_layers *l = g->dnn_layers;
  const cudnnStatus_t status =
      p->training
          ? dfc_dnn.cudnnBatchNormalizationForwardTraining(g->dnn, CUDNN_BATCHNORM_SPATIAL, one(dtype), &none,
                                                           l->x, p->x, l->x, p->z, l->channels, p->scale, p->offset, 1,
                                                           moment[0], moment[1], p->epsilon, NULL, NULL)
          : dfc_dnn.cudnnBatchNormalizationForwardInference(g->dnn, CUDNN_BATCHNORM_SPATIAL, one(dtype), &none,
                                                            l->x, p->x, l->x, p->z, l->channels, p->scale, p->offset,
                                                            p->mean, p->variance, p->epsilon);
  if (!end(c, mark, status, "a batch normalisation by cuDNN")) return false;
  dfc_norm told = *p;
  told.x = p->training ? moment[0] : p->mean;
  told.dy = p->training ? moment[1] : p->variance;
  dfc_run(c, dfc_name("batch_norm_told", dtype), p->channels, &told);
  return c->ok;
}

bool dfc_dnn_norm_back(dfc_call *c, const dfc_norm *p, const df_tensor *x) {
  dfc_gpu *g = c->g;
  const int32_t dtype = x->dtype;
  const uint64_t mark = mark_of_norm(p, x, 202);
  if (!p->training || !normalises(p, x) || !begin(c, mark)) return false;
  dfc_norm inverse = *p;
  inverse.z = channels_of(c, p, dtype);
  dfc_run(c, dfc_name("batch_norm_inverse", dtype), p->channels, &inverse);
  if (!c->ok || !describe_norm(c, p, x)) return false;
  const struct dfc_dnn_layers *l = g->dnn_layers;
  const cudnnStatus_t status = dfc_dnn.cudnnBatchNormalizationBackward(
      g->dnn, CUDNN_BATCHNORM_SPATIAL, one(dtype), &none, one(dtype), &none, l->x, p->x, l->x, p->dy, l->x,
      p->z, l->channels, p->scale, p->out[0], p->out[1], p->epsilon, p->mean, inverse.z);
  return end(c, mark, status, "the gradient of a batch normalisation by cuDNN");
}
