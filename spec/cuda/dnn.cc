/* dnn.cc: cuDNN for tests: the part of it that the plug-in uses, as late as the driver for tests and as strict as the
 * library's documentation; dnn_layers.cc has pooling and its like. Convolutions are loops over all
 * places. Of algorithms it offers one that it does not take, one whose sums come in any order, one by tensor cores, and
 * one that serves, by another kind of math than it was asked with (DFLOW_STRICT_MATH: by that one) and with a workspace
 * that it fills with what is of no use. It reports shapes that do not fit, algorithms of other geometries or by another
 * math than it said, and handles that are none of its own. */
#include "dnn_handles.h"

template <class T> static cudnnStatus_t drop(const char *call, T *h) {
  {
    std::lock_guard<std::mutex> guard(strict_dnn_lock);
    if (strict_dnn_handles.erase(h)) { delete h; return CUDNN_STATUS_SUCCESS; }
  }
  return wrong(call, "no such handle");
}

static size_t bytes_of(const cudnnFilterStruct &f) { return (size_t)f.k * f.c * f.h * f.w * width(f.type); }
static int places(int in, int pad, int window, int stride, int dilation) {
  return (in + 2 * pad - (window - 1) * dilation - 1) / stride + 1;
}

/* A convolution of these: what does not fit. Empty: all does. */
typedef cudnnTensorDescriptor_t tensor;
typedef cudnnFilterDescriptor_t filter;
typedef cudnnConvolutionDescriptor_t how;
static std::string misfit(cudnnHandle_t handle, tensor x, filter w, how c, tensor y) {
  if (!known(handle) || !known(x) || !known(w) || !known(c) || !known(y))
    return "a handle that is none, or was destroyed";
  if (x->type < 0 || w->type < 0 || y->type < 0 || c->compute < 0) return "a description that nothing was written to";
  if (x->type != w->type || x->type != y->type) return "types that differ";
  if (x->format != CUDNN_TENSOR_NHWC || y->format != CUDNN_TENSOR_NHWC)
    return "a format that differs from the filter's";
  if (x->c != w->c || y->c != w->k || x->n != y->n)
    return std::to_string(x->c) + " channels for a filter of " + std::to_string(w->c) + ", or " + std::to_string(y->c) +
           " made by one of " + std::to_string(w->k);
  const int h = places(x->h, c->pad[0], w->h, c->stride[0], c->dilation[0]),
            v = places(x->w, c->pad[1], w->w, c->stride[1], c->dilation[1]);
  if (h != y->h || v != y->w)
    return "a result of " + std::to_string(y->h) + " x " + std::to_string(y->w) + ", where there are " +
           std::to_string(h) + " x " + std::to_string(v) + " places";
  if (c->compute != (x->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT)) return "another type to compute in";
  return "";
}
/* What does not fit of how it ends. */
static std::string misfit_end(tensor x, tensor z, tensor bias, cudnnActivationDescriptor_t ends, tensor y, int algo) {
  if (!known(x) || !known(y) || !known(z) || !known(bias) || !known(ends) || ends->mode < 0)
    return "a description that is none, was destroyed, or that nothing was written to";
  if (z->n != y->n || z->c != y->c || z->h != y->h || z->w != y->w || z->type != y->type) return "another z than y";
  if (bias->n != 1 || bias->h != 1 || bias->w != 1 || bias->c != y->c || bias->type != y->type)
    return "a bias of " + std::to_string(bias->c) + " channels, or of another type, for " + std::to_string(y->c);
  if (ends->mode == CUDNN_ACTIVATION_IDENTITY && algo != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM)
    return "the identity by another algorithm than the one that can";
  if (ends->mode == CUDNN_ACTIVATION_RELU && ends->nan != CUDNN_PROPAGATE_NAN) return "a ReLU that loses NaN";
  return "";
}
static uint64_t mark_of(tensor x, filter w, how c, tensor y, int side) {
  uint64_t h = 1469598103934665603ull + (uint64_t)side;
  for (int v : { x->type, x->n, x->c, x->h, x->w, w->k, w->h, w->w, c->pad[0], c->pad[1], c->stride[0], c->stride[1],
                 c->dilation[0], c->dilation[1], c->math, y->h, y->w })
    h = (h ^ (uint64_t)v) * 0x9e3779b97f4a7c15u, h ^= h >> 31;
  return h;
}
enum { FORWARD, DATA, FILTER };
/* The one that can end in a sum alone; where it shall not be, the one that cannot. */
static int serves() { return getenv("DFLOW_STRICT_NO_EPILOGUE") ? 2 : CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM; }
static size_t workspace_of(tensor x, filter w, how c, tensor y, int side) { return 128 + mark_of(x, w, c, y, side) % 8 * 64; }

/* The math of the answer that serves. */
static int answered(const cudnnConvolutionStruct &c) {
  const char *told = getenv("DFLOW_STRICT_MATH");
  return told ? atoi(told) : c.math == CUDNN_DEFAULT_MATH ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

struct job {
  cudnnTensorStruct x, y;
  cudnnFilterStruct w;
  cudnnConvolutionStruct c;
  char *x_at, *w_at, *y_at, *workspace;
  size_t workspace_bytes;
  int side;
  char *bias = nullptr;
  bool relu = false;
};

/* Every product of an element of x and one of w goes to one of y; the side that is made sums its share in double. */
static void convolve(const job &j) {
  const cudnnTensorStruct &x = j.x, &y = j.y;
  const cudnnFilterStruct &w = j.w;
  const size_t n = j.side == FORWARD ? bytes_of(y) : j.side == DATA ? bytes_of(x) : bytes_of(w);
  std::vector<double> sum(n / width(x.type));
  for (int b = 0; b < y.n; b++)
    for (int h = 0; h < y.h; h++)
      for (int v = 0; v < y.w; v++)
        for (int r = 0; r < w.h; r++)
          for (int s = 0; s < w.w; s++) {
            const int a = h * j.c.stride[0] + r * j.c.dilation[0] - j.c.pad[0],
                      e = v * j.c.stride[1] + s * j.c.dilation[1] - j.c.pad[1];
            if (a < 0 || a >= x.h || e < 0 || e >= x.w) continue;
            for (int k = 0; k < w.k; k++)
              for (int i = 0; i < w.c; i++) {
                const int64_t at_x = (((int64_t)b * x.h + a) * x.w + e) * x.c + i,
                              at_w = (((int64_t)k * w.h + r) * w.w + s) * w.c + i,
                              at_y = (((int64_t)b * y.h + h) * y.w + v) * y.c + k;
                if (j.side == FORWARD) sum[at_y] += load(j.x_at, x.type, at_x) * load(j.w_at, x.type, at_w);
                else if (j.side == DATA) sum[at_x] += load(j.y_at, x.type, at_y) * load(j.w_at, x.type, at_w);
                else sum[at_w] += load(j.x_at, x.type, at_x) * load(j.y_at, x.type, at_y);
              }
          }
  char *to = j.side == FORWARD ? j.y_at : j.side == DATA ? j.x_at : j.w_at;
  for (size_t i = 0; i < sum.size(); i++) {
    store(to, x.type, (int64_t)i, sum[i]);
    if (!j.bias) continue;
    store(to, x.type, (int64_t)i, load(to, x.type, (int64_t)i) + load(j.bias, x.type, (int64_t)i % y.c));
    if (j.relu && load(to, x.type, (int64_t)i) <= 0) store(to, x.type, (int64_t)i, 0);
  }
}

static cudnnStatus_t algorithms(const char *call, cudnnHandle_t handle, tensor x, filter w, how c, tensor y, int side,
                                int wanted, int *count, cudnnConvolutionFwdAlgoPerf_t *found) {
  *count = 0;
  const std::string why = misfit(handle, x, w, c, y);
  if (!why.empty()) return wrong(call, why);
  if (getenv("DFLOW_STRICT_NO_ALGORITHM")) return CUDNN_STATUS_NOT_SUPPORTED;
  c->asked = c->math;
  c->told.clear();
  struct { int algo, math; bool same; } answers[] = {
    { 0, c->math, false }, { 3 - serves(), c->math, false }, { serves(), CUDNN_TENSOR_OP_MATH, true },
    { serves(), answered(*c), true },
  };
  for (auto &a : answers) {
    if (*count == wanted) break;
    if (a.math == CUDNN_TENSOR_OP_MATH && x->type == CUDNN_DATA_DOUBLE) continue;
    cudnnConvolutionStruct by = *c;
    by.math = a.math;
    cudnnConvolutionFwdAlgoPerf_t &to = found[(*count)++];
    memset(&to, 0, sizeof to);
    to.algo = a.algo;
    to.status = a.algo ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
    to.memory = workspace_of(x, w, &by, y, side);
    to.determinism = a.same;
    to.mathType = a.math;
    if (a.same) c->told.insert({ a.algo, a.math });
  }
  return CUDNN_STATUS_SUCCESS;
}
static cudnnStatus_t tell_workspace(const char *call, cudnnHandle_t handle, tensor x, filter w, how c, tensor y,
                                    int side, int algo, size_t *bytes) {
  const std::string why = misfit(handle, x, w, c, y);
  if (!why.empty()) return wrong(call, why);
  if (algo != serves() || getenv("DFLOW_STRICT_NO_WORKSPACE")) return CUDNN_STATUS_NOT_SUPPORTED;
  *bytes = workspace_of(x, w, c, y, side);
  c->told.insert({ algo, c->math });
  return CUDNN_STATUS_SUCCESS;
}
/* What is wrong with how it shall be multiplied. */
static std::string mismath(tensor x, how c, int algo) {
  if (!c->told.count({ algo, c->math }))
    return "algorithm " + std::to_string(algo) + " by math " + std::to_string(c->math) +
           ", for which no workspace was told";
  if (x->type == CUDNN_DATA_FLOAT && c->asked == CUDNN_FMA_MATH && c->math != CUDNN_FMA_MATH)
    return "math that may round float32, where it was not to";
  return "";
}

static cudnnStatus_t run(const char *call, cudnnHandle_t handle, const void *alpha, const void *beta, job j, tensor x,
                         filter w, how c, tensor y, int algo) {
  if (!strict_has_context()) return wrong(call, "no context is current to this thread");
  const std::string why = misfit(handle, x, w, c, y);
  if (!why.empty()) return wrong(call, why);
  if (algo != serves()) return wrong(call, "an algorithm that does not serve, or whose bits change");
  const std::string math = mismath(x, c, algo);
  if (!math.empty()) return wrong(call, math);
  const size_t need = workspace_of(x, w, c, y, j.side);
  if (j.workspace_bytes < need || !j.workspace)
    return wrong(call, "a workspace of " + std::to_string(j.workspace ? j.workspace_bytes : 0) + " bytes, where " +
                 std::to_string(need) + " were asked for");
  if (!plain(x->type, alpha, beta)) return CUDNN_STATUS_NOT_SUPPORTED;
  if (getenv("DFLOW_STRICT_REFUSES")) return strict_dnn_refusal();
  j.x = *x; j.w = *w; j.c = *c; j.y = *y;
  j.workspace_bytes = need;
  std::vector<strict_range> ranges = {
    { j.x_at, bytes_of(*x), j.side == DATA ? STRICT_WRITES : STRICT_READS },
    { j.w_at, bytes_of(*w), j.side == FILTER ? STRICT_WRITES : STRICT_READS },
    { j.y_at, bytes_of(*y), j.side == FORWARD ? STRICT_WRITES : STRICT_READS },
    { j.workspace, need, STRICT_WRITES },
  };
  if (j.bias) ranges.push_back({ j.bias, (size_t)y->c * width(y->type), STRICT_READS });
  const CUresult error = strict_enqueue(handle->stream, call, ranges, [j]() {
    memset(j.workspace, 0xff, j.workspace_bytes);
    convolve(j);
    return std::string();
  });
  return error ? CUDNN_STATUS_EXECUTION_FAILED : CUDNN_STATUS_SUCCESS;
}

/* ---- the API ----------------------------------------------------------------------------------------------------- */

extern "C" {
STRICT_API size_t cudnnGetVersion(void) { return 91900; }
STRICT_API const char *cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    default: return "CUDNN_STATUS_EXECUTION_FAILED";
  }
}
API cudnnCreate(cudnnHandle_t *handle) {
  if (!strict_has_context()) return wrong("cudnnCreate", "no context is current to this thread");
  return make(handle);
}
API cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (!known(handle)) return wrong("cudnnSetStream", "no such handle");
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
API cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *t) { return make(t); }
API cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t t) { return drop("cudnnDestroyTensorDescriptor", t); }
API cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t t, cudnnTensorFormat_t format, cudnnDataType_t type, int n, int c,
                               int h, int w) {
  if (!known(t) || (format != CUDNN_TENSOR_NHWC && format != CUDNN_TENSOR_NCHW) || n < 1 || c < 1 || h < 1 || w < 1)
    return wrong("cudnnSetTensor4dDescriptor", "no such tensor, another format, or a size below 1");
  *t = { type, n, c, h, w, format };
  return CUDNN_STATUS_SUCCESS;
}
API cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *f) { return make(f); }
API cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t f) { return drop("cudnnDestroyFilterDescriptor", f); }
API cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t f, cudnnDataType_t type, cudnnTensorFormat_t format, int k, int c,
                               int h, int w) {
  if (!known(f) || format != CUDNN_TENSOR_NHWC || k < 1 || c < 1 || h < 1 || w < 1)
    return wrong("cudnnSetFilter4dDescriptor", "no such filter, another format, or a size below 1");
  *f = { type, k, c, h, w };
  return CUDNN_STATUS_SUCCESS;
}
API cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *c) { return make(c); }
API cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t c) {
  return drop("cudnnDestroyConvolutionDescriptor", c);
}
API cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t c, int pad_h, int pad_w, int stride_h, int stride_w,
                                    int dilation_h, int dilation_w, cudnnConvolutionMode_t mode,
                                    cudnnDataType_t compute) {
  if (!known(c) || pad_h < 0 || pad_w < 0 || stride_h < 1 || stride_w < 1 || dilation_h < 1 || dilation_w < 1 ||
      mode != CUDNN_CROSS_CORRELATION)
    return wrong("cudnnSetConvolution2dDescriptor", "no such convolution, or a number that none has");
  *c = { { pad_h, pad_w }, { stride_h, stride_w }, { dilation_h, dilation_w }, compute };
  return CUDNN_STATUS_SUCCESS;
}
API cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t c, cudnnMathType_t math) {
  if (!known(c) || math < 0 || math > CUDNN_FMA_MATH) return wrong("cudnnSetConvolutionMathType", "no such kind");
  c->math = math;
  return CUDNN_STATUS_SUCCESS;
}
API cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, const tensor x, const filter w, const how c,
                                           const tensor y, const int wanted, int *count,
                                           cudnnConvolutionFwdAlgoPerf_t *found) {
  return algorithms("cudnnGetConvolutionForwardAlgorithm_v7", handle, x, w, c, y, FORWARD, wanted, count, found);
}
API cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t handle, const filter w, const tensor dy, const how c,
                                                const tensor dx, const int wanted, int *count,
                                                cudnnConvolutionBwdDataAlgoPerf_t *found) {
  return algorithms("cudnnGetConvolutionBackwardDataAlgorithm_v7", handle, dx, w, c, dy, DATA, wanted, count, found);
}
API cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t handle, const tensor x, const tensor dy, const how c,
                                                  const filter dw, const int wanted, int *count,
                                                  cudnnConvolutionBwdFilterAlgoPerf_t *found) {
  return algorithms("cudnnGetConvolutionBackwardFilterAlgorithm_v7", handle, x, dw, c, dy, FILTER, wanted, count, found);
}
API cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle, const tensor x, const filter w, const how c,
                                            const tensor y, cudnnConvolutionFwdAlgo_t algo, size_t *bytes) {
  return tell_workspace("cudnnGetConvolutionForwardWorkspaceSize", handle, x, w, c, y, FORWARD, algo, bytes);
}
API cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t handle, const filter w, const tensor dy, const how c,
                                                 const tensor dx, cudnnConvolutionBwdDataAlgo_t algo, size_t *bytes) {
  return tell_workspace("cudnnGetConvolutionBackwardDataWorkspaceSize", handle, dx, w, c, dy, DATA, algo, bytes);
}
API cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t handle, const tensor x, const tensor dy, const how c,
                                                   const filter dw, cudnnConvolutionBwdFilterAlgo_t algo, size_t *bytes) {
  return tell_workspace("cudnnGetConvolutionBackwardFilterWorkspaceSize", handle, x, dw, c, dy, FILTER, algo, bytes);
}
API cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha, const tensor x, const void *x_at, const filter w,
                            const void *w_at, const how c, cudnnConvolutionFwdAlgo_t algo, void *workspace,
                            size_t bytes, const void *beta, const tensor y, void *y_at) {
  return run("cudnnConvolutionForward", handle, alpha, beta,
             { {}, {}, {}, {}, AT(x_at), AT(w_at), AT(y_at), (char *)workspace, bytes, FORWARD }, x, w, c, y, algo);
}
API cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t *a) { return make(a); }
API cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t a) {
  return drop("cudnnDestroyActivationDescriptor", a);
}
API cudnnSetActivationDescriptor(cudnnActivationDescriptor_t a, cudnnActivationMode_t mode, cudnnNanPropagation_t nan,
                                 double) {
  if (!known(a) || (mode != CUDNN_ACTIVATION_RELU && mode != CUDNN_ACTIVATION_IDENTITY))
    return wrong("cudnnSetActivationDescriptor", "no such activation, or one that is not offered");
  a->mode = mode;
  a->nan = nan;
  return CUDNN_STATUS_SUCCESS;
}
API cudnnConvolutionBiasActivationForward(cudnnHandle_t handle, const void *alpha, const tensor x, const void *x_at,
                                          const filter w, const void *w_at, const how c, cudnnConvolutionFwdAlgo_t algo,
                                          void *workspace, size_t bytes, const void *alpha_z, const tensor z,
                                          const void *z_at, const tensor bias, const void *bias_at,
                                          const cudnnActivationDescriptor_t ends, const tensor y, void *y_at) {
  const char *call = "cudnnConvolutionBiasActivationForward";
  const std::string why = misfit_end(x, z, bias, ends, y, algo);
  if (!why.empty()) return wrong(call, why);
  if (z_at != y_at) return wrong(call, "another z than y, which nothing asks for");
  if (getenv("DFLOW_STRICT_NO_EPILOGUE")) return CUDNN_STATUS_NOT_SUPPORTED + 5;
  job j = { {}, {}, {}, {}, AT(x_at), AT(w_at), AT(y_at), (char *)workspace, bytes, FORWARD };
  j.bias = AT(bias_at);
  j.relu = ends->mode == CUDNN_ACTIVATION_RELU;
  return run(call, handle, alpha, alpha_z, j, x, w, c, y, algo);
}
API cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha, const filter w, const void *w_at,
                                 const tensor dy, const void *dy_at, const how c, cudnnConvolutionBwdDataAlgo_t algo,
                                 void *workspace, size_t bytes, const void *beta, const tensor dx, void *dx_at) {
  return run("cudnnConvolutionBackwardData", handle, alpha, beta,
             { {}, {}, {}, {}, AT(dx_at), AT(w_at), AT(dy_at), (char *)workspace, bytes, DATA }, dx, w, c, dy, algo);
}
API cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void *alpha, const tensor x, const void *x_at,
                                   const tensor dy, const void *dy_at, const how c,
                                   cudnnConvolutionBwdFilterAlgo_t algo, void *workspace, size_t bytes,
                                   const void *beta, const filter dw, void *dw_at) {
  return run("cudnnConvolutionBackwardFilter", handle, alpha, beta,
             { {}, {}, {}, {}, AT(x_at), AT(dw_at), AT(dy_at), (char *)workspace, bytes, FILTER }, x, dw, c, dy, algo);
}
}
