/* dnn_layers.cc: cuDNN for tests: pooling, softmax and batch normalisation. Sums are in double, place by place. It
 * reports shapes that do not fit, a softmax where it lies (of which the documentation says nothing), moments of which
 * one is missing, and of maxima what NaN would be lost by. The gradient of a maximum, and softmax in other ways, are
 * not offered: nothing asks for them. */
#include "dnn_handles.h"
#include <cmath>

typedef cudnnTensorDescriptor_t tensor;
typedef cudnnPoolingDescriptor_t pooling;

/* What every call looks at. SUCCESS: it may go on. */
static cudnnStatus_t looked(const char *call, cudnnHandle_t handle, const void *alpha, const void *beta,
                            std::initializer_list<tensor> described) {
  if (!strict_has_context()) return wrong(call, "no context is current to this thread");
  if (!known(handle)) return wrong(call, "a handle that is none, or was destroyed");
  for (tensor t : described) {
    if (!known(t)) return wrong(call, "a description that is none, or was destroyed");
    if (t->type < 0) return wrong(call, "a description that nothing was written to");
  }
  if (!plain((*described.begin())->type, alpha, beta)) return CUDNN_STATUS_NOT_SUPPORTED;
  return getenv("DFLOW_STRICT_REFUSES") ? strict_dnn_refusal() : CUDNN_STATUS_SUCCESS;
}
static cudnnStatus_t enqueue(const char *call, cudnnHandle_t handle, const std::vector<strict_range> &ranges,
                             std::function<void()> run) {
  const CUresult error = strict_enqueue(handle->stream, call, ranges, [run]() { run(); return std::string(); });
  return error ? CUDNN_STATUS_EXECUTION_FAILED : CUDNN_STATUS_SUCCESS;
}
static bool same(tensor a, tensor b) {
  return a->type == b->type && a->n == b->n && a->c == b->c && a->h == b->h && a->w == b->w && a->format == b->format;
}
static std::string text(int a, int b) { return std::to_string(a) + " x " + std::to_string(b); }

/* ---- pooling ----------------------------------------------------------------------------------------------------- */

/* What does not fit; empty: all does. */
static std::string misfit(pooling p, tensor x, tensor y) {
  if (!known(p) || p->mode < 0) return "a pooling that is none, or that nothing was written to";
  if (x->type != y->type || x->format != y->format || x->n != y->n || x->c != y->c)
    return "types, formats, images or channels that differ";
  const int h = (x->h + 2 * p->pad[0] - p->window[0]) / p->stride[0] + 1,
            w = (x->w + 2 * p->pad[1] - p->window[1]) / p->stride[1] + 1;
  return h == y->h && w == y->w ? "" : "a result of " + text(y->h, y->w) + ", where there are " + text(h, w) + " places";
}

/* fn(places in x) of each place in y. */
template <class F> static void windows(const cudnnPoolingStruct &p, const cudnnTensorStruct &x,
                                       const cudnnTensorStruct &y, F fn) {
  std::vector<int64_t> seen;
  for (int n = 0; n < y.n; n++)
    for (int c = 0; c < y.c; c++)
      for (int i = 0; i < y.h; i++)
        for (int j = 0; j < y.w; j++) {
          seen.clear();
          for (int r = 0; r < p.window[0]; r++)
            for (int s = 0; s < p.window[1]; s++) {
              const int a = i * p.stride[0] - p.pad[0] + r, b = j * p.stride[1] - p.pad[1] + s;
              if (a >= 0 && a < x.h && b >= 0 && b < x.w) seen.push_back(place(x, n, c, a, b));
            }
          fn(place(y, n, c, i, j), seen);
        }
}

static void pool(const cudnnPoolingStruct &p, const cudnnTensorStruct &x, const cudnnTensorStruct &y, const char *from,
                 char *to) {
  windows(p, x, y, [&](int64_t at, const std::vector<int64_t> &seen) {
    double a = p.mode == CUDNN_POOLING_MAX ? -INFINITY : 0;
    for (int64_t i : seen) {
      const double v = load(from, x.type, i);
      if (p.mode != CUDNN_POOLING_MAX) a += v / (double)seen.size();
      else if (v > a || v != v) a = v;
      else if (a != a) break;
    }
    store(to, y.type, at, a);
  });
}
static void pool_back(const cudnnPoolingStruct &p, const cudnnTensorStruct &x, const cudnnTensorStruct &y,
                      const char *dy, char *dx) {
  std::vector<double> sum(size_of(x));
  windows(p, x, y, [&](int64_t at, const std::vector<int64_t> &seen) {
    for (int64_t i : seen) sum[(size_t)i] += load(dy, y.type, at) / (double)seen.size();
  });
  for (size_t i = 0; i < sum.size(); i++) store(dx, x.type, (int64_t)i, sum[i]);
}

/* ---- batch normalisation ----------------------------------------------------------------------------------------- */

/* What does not fit of channels [1, c, 1, 1]. */
static std::string misfit(int mode, tensor x, tensor channels, double epsilon) {
  if (mode != CUDNN_BATCHNORM_SPATIAL) return "a mode that is not offered";
  const int wanted = x->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  if (channels->n != 1 || channels->c != x->c || channels->h != 1 || channels->w != 1 || channels->type != wanted)
    return "moments of " + std::to_string(channels->c) + " channels, or of another type, for " + std::to_string(x->c);
  return epsilon >= 0 ? "" : "an epsilon below 0";
}

/* fn(channel, its places) */
template <class F> static void channelwise(const cudnnTensorStruct &x, F fn) {
  std::vector<int64_t> at;
  for (int c = 0; c < x.c; c++) {
    at.clear();
    for (int n = 0; n < x.n; n++) for (int h = 0; h < x.h; h++) for (int w = 0; w < x.w; w++) at.push_back(place(x, n, c, h, w));
    fn(c, at);
  }
}
struct moments { double mean, squares; };                /* squares: the sum of those of the distances */
static moments moments_of(const cudnnTensorStruct &x, const char *from, const std::vector<int64_t> &at) {
  moments m = { 0, 0 };
  for (int64_t i : at) m.mean += load(from, x.type, i) / (double)at.size();
  for (int64_t i : at) m.squares += pow(load(from, x.type, i) - m.mean, 2);
  return m;
}
static void scale_to(const cudnnTensorStruct &x, const char *from, char *to, const std::vector<int64_t> &at, double mean,
                     double deviation, double scale, double offset) {
  for (int64_t i : at) store(to, x.type, i, (load(from, x.type, i) - mean) / deviation * scale + offset);
}

/* ---- the API ----------------------------------------------------------------------------------------------------- */

extern "C" {
API cudnnCreatePoolingDescriptor(pooling *p) { return make(p); }
API cudnnSetPooling2dDescriptor(pooling p, cudnnPoolingMode_t mode, cudnnNanPropagation_t nan, int window_h,
                                int window_w, int pad_h, int pad_w, int stride_h, int stride_w) {
  static const char *const call = "cudnnSetPooling2dDescriptor";
  if (!known(p) || window_h < 1 || window_w < 1 || stride_h < 1 || stride_w < 1)
    return wrong(call, "no such pooling, or a number that none has");
  if (pad_h < 0 || pad_w < 0 || pad_h >= window_h || pad_w >= window_w)
    return wrong(call, "windows of " + text(window_h, window_w) + " that can lie in the padding of " +
                 text(pad_h, pad_w) + " alone");
  if (mode != CUDNN_POOLING_MAX && mode != CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING)
    return wrong(call, "a mode that is not offered");
  if (nan != CUDNN_PROPAGATE_NAN) return wrong(call, "what is no number would be lost");
  *p = { mode, { window_h, window_w }, { pad_h, pad_w }, { stride_h, stride_w } };
  return CUDNN_STATUS_SUCCESS;
}
API cudnnPoolingForward(cudnnHandle_t handle, const pooling p, const void *alpha, const tensor x, const void *x_at,
                        const void *beta, const tensor y, void *y_at) {
  static const char *const call = "cudnnPoolingForward";
  const cudnnStatus_t status = looked(call, handle, alpha, beta, { x, y });
  if (status) return status;
  const std::string why = misfit(p, x, y);
  if (!why.empty()) return wrong(call, why);
  const cudnnPoolingStruct how = *p;
  const cudnnTensorStruct a = *x, b = *y;
  return enqueue(call, handle, { { x_at, bytes_of(a), STRICT_READS }, { y_at, bytes_of(b), STRICT_WRITES } },
                 [=]() { pool(how, a, b, (const char *)x_at, (char *)y_at); });
}
API cudnnPoolingBackward(cudnnHandle_t handle, const pooling p, const void *alpha, const tensor y, const void *y_at,
                         const tensor dy, const void *dy_at, const tensor x, const void *x_at, const void *beta,
                         const tensor dx, void *dx_at) {
  static const char *const call = "cudnnPoolingBackward";
  const cudnnStatus_t status = looked(call, handle, alpha, beta, { x, y, dx, dy });
  if (status) return status;
  const std::string why = misfit(p, dx, dy);
  if (!why.empty() || !same(x, dx) || !same(y, dy)) return wrong(call, why.empty() ? "gradients of other shapes" : why);
  if (!x_at || !y_at) return wrong(call, "no inputs or results");
  if (p->mode == CUDNN_POOLING_MAX) return wrong(call, "a maximum's gradient, whose bits change");
  const cudnnPoolingStruct how = *p;
  const cudnnTensorStruct a = *dx, b = *dy;
  return enqueue(call, handle, { { dy_at, bytes_of(b), STRICT_READS }, { dx_at, bytes_of(a), STRICT_WRITES } },
                 [=]() { pool_back(how, a, b, (const char *)dy_at, (char *)dx_at); });
}

API cudnnSoftmaxForward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algo, cudnnSoftmaxMode_t mode, const void *alpha,
                        const tensor x, const void *x_at, const void *beta, const tensor y, void *y_at) {
  static const char *const call = "cudnnSoftmaxForward";
  const cudnnStatus_t status = looked(call, handle, alpha, beta, { x, y });
  if (status) return status;
  if (!same(x, y)) return wrong(call, "a result of another shape");
  if (x_at == y_at) return wrong(call, "a result where the input lies");
  if (mode != CUDNN_SOFTMAX_MODE_INSTANCE || (algo != CUDNN_SOFTMAX_ACCURATE && algo != CUDNN_SOFTMAX_LOG))
    return wrong(call, "a way that is not offered, or that loses great numbers");
  const cudnnTensorStruct t = *x;
  return enqueue(call, handle, { { x_at, bytes_of(t), STRICT_READS }, { y_at, bytes_of(t), STRICT_WRITES } }, [=]() {
    const int64_t n = (int64_t)t.c * t.h * t.w;          /* an image's elements lie together in either format */
    for (int64_t row = 0; row < t.n; row++) {
      double top = -INFINITY, sum = 0;
      for (int64_t i = row * n; i < (row + 1) * n; i++) top = fmax(top, load((const char *)x_at, t.type, i));
      for (int64_t i = row * n; i < (row + 1) * n; i++) sum += exp(load((const char *)x_at, t.type, i) - top);
      for (int64_t i = row * n; i < (row + 1) * n; i++) {
        const double d = load((const char *)x_at, t.type, i) - top;
        store((char *)y_at, t.type, i, algo == CUDNN_SOFTMAX_LOG ? d - log(sum) : exp(d) / sum);
      }
    }
  });
}

API cudnnBatchNormalizationForwardTraining(cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void *alpha,
                                           const void *beta, const tensor x, const void *x_at, const tensor y,
                                           void *y_at, const tensor channels, const void *scale, const void *offset,
                                           double factor, void *running_mean, void *running_variance, double epsilon,
                                           void *saved_mean, void *saved_inverse) {
  static const char *const call = "cudnnBatchNormalizationForwardTraining";
  const cudnnStatus_t status = looked(call, handle, alpha, beta, { x, y, channels });
  if (status) return status;
  const std::string why = misfit(mode, x, channels, epsilon);
  if (!why.empty() || !same(x, y)) return wrong(call, why.empty() ? "a result of another shape" : why);
  if (!running_mean != !running_variance || !saved_mean != !saved_inverse)
    return wrong(call, "one of two moments is missing");
  if (saved_mean || !running_mean || factor < 0 || factor > 1) return CUDNN_STATUS_NOT_SUPPORTED;
  const cudnnTensorStruct t = *x, of = *channels;
  const size_t each = bytes_of(of);
  return enqueue(call, handle,
                 { { x_at, bytes_of(t), STRICT_READS }, { y_at, bytes_of(t), STRICT_WRITES },
                   { scale, each, STRICT_READS }, { offset, each, STRICT_READS },
                   { running_mean, each, STRICT_READS | STRICT_WRITES },
                   { running_variance, each, STRICT_READS | STRICT_WRITES } }, [=]() {
    channelwise(t, [&](int c, const std::vector<int64_t> &at) {
      const moments m = moments_of(t, (const char *)x_at, at);
      const double n = (double)at.size();
      scale_to(t, (const char *)x_at, (char *)y_at, at, m.mean, sqrt(m.squares / n + epsilon),
               load((const char *)scale, of.type, c), load((const char *)offset, of.type, c));
      const double mean = load((char *)running_mean, of.type, c), variance = load((char *)running_variance, of.type, c);
      store((char *)running_mean, of.type, c, mean * (1 - factor) + m.mean * factor);
      store((char *)running_variance, of.type, c, variance * (1 - factor) + m.squares / (n - 1) * factor);
    });
  });
}
API cudnnBatchNormalizationForwardInference(cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void *alpha,
                                            const void *beta, const tensor x, const void *x_at, const tensor y,
                                            void *y_at, const tensor channels, const void *scale, const void *offset,
                                            const void *mean, const void *variance, double epsilon) {
  static const char *const call = "cudnnBatchNormalizationForwardInference";
  const cudnnStatus_t status = looked(call, handle, alpha, beta, { x, y, channels });
  if (status) return status;
  const std::string why = misfit(mode, x, channels, epsilon);
  if (!why.empty() || !same(x, y)) return wrong(call, why.empty() ? "a result of another shape" : why);
  const cudnnTensorStruct t = *x, of = *channels;
  const size_t each = bytes_of(of);
  return enqueue(call, handle,
                 { { x_at, bytes_of(t), STRICT_READS }, { y_at, bytes_of(t), STRICT_WRITES },
                   { scale, each, STRICT_READS }, { offset, each, STRICT_READS }, { mean, each, STRICT_READS },
                   { variance, each, STRICT_READS } }, [=]() {
    channelwise(t, [&](int c, const std::vector<int64_t> &at) {
      scale_to(t, (const char *)x_at, (char *)y_at, at, load((const char *)mean, of.type, c),
               sqrt(load((const char *)variance, of.type, c) + epsilon), load((const char *)scale, of.type, c),
               load((const char *)offset, of.type, c));
    });
  });
}
API cudnnBatchNormalizationBackward(cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void *alpha,
                                    const void *beta, const void *alpha_channels, const void *beta_channels,
                                    const tensor x, const void *x_at, const tensor dy, const void *dy_at,
                                    const tensor dx, void *dx_at, const tensor channels, const void *scale,
                                    void *dscale, void *doffset, double epsilon, const void *saved_mean,
                                    const void *saved_inverse) {
  static const char *const call = "cudnnBatchNormalizationBackward";
  const cudnnStatus_t status = looked(call, handle, alpha, beta, { x, dy, dx, channels });
  if (status) return status;
  const std::string why = misfit(mode, x, channels, epsilon);
  if (!why.empty() || !same(x, dy) || !same(x, dx)) return wrong(call, why.empty() ? "gradients of other shapes" : why);
  if (!saved_mean != !saved_inverse) return wrong(call, "one of two moments is missing");
  if (!saved_mean || !plain(x->type, alpha_channels, beta_channels)) return CUDNN_STATUS_NOT_SUPPORTED;
  const cudnnTensorStruct t = *x, of = *channels;
  const size_t each = bytes_of(of);
  return enqueue(call, handle,
                 { { x_at, bytes_of(t), STRICT_READS }, { dy_at, bytes_of(t), STRICT_READS },
                   { dx_at, bytes_of(t), STRICT_WRITES }, { scale, each, STRICT_READS },
                   { saved_mean, each, STRICT_READS }, { saved_inverse, each, STRICT_READS },
                   { dscale, each, STRICT_WRITES }, { doffset, each, STRICT_WRITES } }, [=]() {
    channelwise(t, [&](int c, const std::vector<int64_t> &at) {
      const double mean = load((const char *)saved_mean, of.type, c), n = (double)at.size(),
                   inverse = load((const char *)saved_inverse, of.type, c);
      double sum = 0, dot = 0;
      for (int64_t i : at) {
        const double d = load((const char *)dy_at, t.type, i);
        sum += d;
        dot += d * (load((const char *)x_at, t.type, i) - mean) * inverse;
      }
      for (int64_t i : at) {
        const double d = load((const char *)dy_at, t.type, i), v = (load((const char *)x_at, t.type, i) - mean) * inverse;
        store((char *)dx_at, t.type, i, load((const char *)scale, of.type, c) * inverse * (d - (sum + v * dot) / n));
      }
      store((char *)dscale, of.type, c, dot);
      store((char *)doffset, of.type, c, sum);
    });
  });
}
}
