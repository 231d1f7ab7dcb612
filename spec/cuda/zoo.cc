/* zoo.cc: small wrong programs, each of which the strict driver must catch, and right ones, of which it must not complain. Linked to the driver itself.
 * Prints a line for each that went otherwise than it should, and then `N passed, N failed`. */
#include "../../kernels/cuda/driver.h"
#include "../../kernels/cuda/blas.h"
#include "../../kernels/cuda/dnn.h"
#include "../../kernels/cuda/loop.h"
#include "../../kernels/cuda/nvrtc.h"
#include "../../kernels/cuda/params.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#define X(result, name, symbol, params) extern "C" result symbol_##name params __asm__(symbol);
DFC_DRIVER(X)
#undef X
#define X(result, name, params) extern "C" result name params;
DFC_BLAS(X)
DFC_DNN(X)
DFC_NVRTC(X)
#undef X
extern "C" size_t strict_reports(char *out, size_t room);
extern "C" void strict_forget(uint64_t seed);

static CUstream one, two, far;                            /* far: a second GPU's */
static CUcontext here, there;
static CUmodule module;

static CUdeviceptr get(size_t bytes, CUstream s = nullptr) { CUdeviceptr p = 0; symbol_cuMemAllocAsync(&p, bytes, s ? s : one); return p; }
static void drop(CUdeviceptr p, CUstream s = nullptr) { symbol_cuMemFreeAsync(p, s ? s : one); }
static void *pin(size_t bytes) { void *p = nullptr; symbol_cuMemHostAlloc(&p, bytes, 0); memset(p, 1, bytes); return p; }
static CUevent event() { CUevent e = nullptr; symbol_cuEventCreate(&e, CU_EVENT_DISABLE_TIMING); return e; }
/* stream `after` goes on once `before` is where it is now */
static void order(CUstream before, CUstream after) { CUevent e = event(); symbol_cuEventRecord(e, before); symbol_cuStreamWaitEvent(after, e, 0); }
static CUresult launch(const char *name, const void *params, CUstream s, unsigned blocks = 1, unsigned threads = 32) {
  CUfunction f = nullptr;
  const CUresult found = symbol_cuModuleGetFunction(&f, module, name);
  void *list[] = { (void *)params };
  return found ? found : symbol_cuLaunchKernel(f, blocks, 1, 1, threads, 1, 1, 0, s, list, nullptr);
}
static CUresult neg(CUdeviceptr x, CUdeviceptr z, int64_t n, CUstream s) {
  dfc_unary p = { (const void *)(uintptr_t)x, (void *)(uintptr_t)z, n, 0 };
  return launch("k_neg_f32", &p, s);
}
static void all_over() { symbol_cuStreamSynchronize(one); symbol_cuStreamSynchronize(two); }
/* On the second GPU. */
template <class F> static auto over_there(F f) {
  symbol_cuCtxSetCurrent(there);
  auto got = f();
  symbol_cuCtxSetCurrent(here);
  return got;
}
static CUdeviceptr get_there(size_t bytes) { return over_there([=]() { return get(bytes, far); }); }
static void zero(CUdeviceptr p, size_t n, CUstream s = nullptr) { symbol_cuMemsetD8Async(p, 0, n, s ? s : one); }

/* A product of 4 x 6 and 6 x 5 by columns, float32, as right as it can be; `spoil` makes it another one. */
struct multiplying {
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  cublasLtMatmulHeuristicResult_t found = {};
  CUdeviceptr at[3] = {}, workspace = 0;
  CUstream stream = one;
};
static void choose(multiplying &p, uint32_t aligned = 64) {
  cublasLtMatmulPreference_t wish;
  const size_t most = 1 << 20;
  int count = 0;
  cublasLtMatmulPreferenceCreate(&wish);
  cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
  for (int i = 0; i < 4; i++)
    cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i, &aligned, sizeof aligned);
  cublasLtMatmulAlgoGetHeuristic(p.handle, p.desc, p.a, p.b, p.d, p.d, wish, 1, &p.found, &count);
}
static multiplying product_of() {
  multiplying p;
  cublasLtCreate(&p.handle);
  cublasLtMatmulDescCreate(&p.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatrixLayoutCreate(&p.a, CUDA_R_32F, 4, 6, 4);
  cublasLtMatrixLayoutCreate(&p.b, CUDA_R_32F, 6, 5, 6);
  cublasLtMatrixLayoutCreate(&p.d, CUDA_R_32F, 4, 5, 4);
  choose(p);
  p.at[0] = get(96); p.at[1] = get(120); p.at[2] = get(80);
  p.workspace = get(p.found.workspaceSize);
  zero(p.at[0], 96);
  zero(p.at[1], 120);
  return p;
}
/* The same of 8-bit floats: `inner` of each side are added up. */
static multiplying product_of_float8(int t = CUBLAS_OP_T, uint64_t inner = 32, bool scaled = true) {
  multiplying p;
  cublasLtCreate(&p.handle);
  cublasLtMatmulDescCreate(&p.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatmulDescSetAttribute(p.desc, CUBLASLT_MATMUL_DESC_TRANSA, &t, sizeof t);
  const CUdeviceptr scale = get(4);
  zero(scale, 4);
  const int sides[] = { CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER };
  for (int side : sides) if (scaled) cublasLtMatmulDescSetAttribute(p.desc, side, &scale, sizeof scale);
  cublasLtMatrixLayoutCreate(&p.a, CUDA_R_8F_E4M3, t ? inner : 16, t ? 16 : inner, t ? inner : 16);
  cublasLtMatrixLayoutCreate(&p.b, CUDA_R_8F_E4M3, inner, 48, inner);
  cublasLtMatrixLayoutCreate(&p.d, CUDA_R_32F, 16, 48, 16);
  choose(p);
  p.at[0] = get(16 * inner); p.at[1] = get(48 * inner); p.at[2] = get(16 * 48 * 4);
  if (p.found.workspaceSize) p.workspace = get(p.found.workspaceSize);
  zero(p.at[0], 16 * inner);
  zero(p.at[1], 48 * inner);
  return p;
}
static multiplying with_bias(multiplying p, CUdeviceptr bias) {
  const uint32_t ends = CUBLASLT_EPILOGUE_BIAS;
  cublasLtMatmulDescSetAttribute(p.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &ends, sizeof ends);
  cublasLtMatmulDescSetAttribute(p.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
  if (bias) zero(bias, 4);
  return p;
}
static multiplying biased(CUdeviceptr bias) { return with_bias(product_of(), bias); }
static void check(const multiplying &p) {
  cublasLtMatmulHeuristicResult_t found;
  cublasLtMatmulAlgoCheck(p.handle, p.desc, p.a, p.b, p.d, p.d, &p.found.algo, &found);
}
static cublasStatus_t multiply(const multiplying &p) {
  const float alpha = 1, beta = 0;
  return cublasLtMatmul(p.handle, p.desc, &alpha, (void *)(uintptr_t)p.at[0], p.a, (void *)(uintptr_t)p.at[1], p.b, &beta,
                        (void *)(uintptr_t)p.at[2], p.d, (void *)(uintptr_t)p.at[2], p.d, &p.found.algo,
                        (void *)(uintptr_t)p.workspace, p.found.workspaceSize, p.stream);
}

/* A convolution of 4 x 4 pixels of 2 channels by a filter of 3 x 3 to 3, all around padded by 1, as right as it can
 * be. */
struct convolving {
  cudnnHandle_t handle = nullptr;
  cudnnTensorDescriptor_t x = nullptr, y = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t how = nullptr;
  cudnnConvolutionFwdAlgoPerf_t found[4] = {};
  int algo = -1;
  size_t bytes = 0;
  CUdeviceptr at[3] = {}, workspace = 0;
};
static convolving convolution_of(int math = CUDNN_DEFAULT_MATH) {
  convolving c;
  int n = 0;
  cudnnCreate(&c.handle);
  cudnnSetStream(c.handle, one);
  cudnnCreateTensorDescriptor(&c.x);
  cudnnCreateTensorDescriptor(&c.y);
  cudnnCreateFilterDescriptor(&c.w);
  cudnnCreateConvolutionDescriptor(&c.how);
  cudnnSetTensor4dDescriptor(c.x, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, 2, 4, 4);
  cudnnSetTensor4dDescriptor(c.y, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, 3, 4, 4);
  cudnnSetFilter4dDescriptor(c.w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC, 3, 2, 3, 3);
  cudnnSetConvolution2dDescriptor(c.how, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
  cudnnSetConvolutionMathType(c.how, math);
  cudnnGetConvolutionForwardAlgorithm_v7(c.handle, c.x, c.w, c.how, c.y, 4, &n, c.found);
  for (int i = n - 1; i >= 0; i--)
    if (c.found[i].status == CUDNN_STATUS_SUCCESS && c.found[i].determinism == CUDNN_DETERMINISTIC) c.algo = i;
  c.bytes = c.found[c.algo].memory;
  cudnnSetConvolutionMathType(c.how, c.found[c.algo].mathType);
  c.at[0] = get(128); c.at[1] = get(216); c.at[2] = get(192);
  c.workspace = get(c.bytes);
  zero(c.at[0], 128);
  zero(c.at[1], 216);
  return c;
}
static cudnnStatus_t convolve(const convolving &c) {
  const float alpha = 1, beta = 0;
  return cudnnConvolutionForward(c.handle, &alpha, c.x, (void *)(uintptr_t)c.at[0], c.w, (void *)(uintptr_t)c.at[1],
                                 c.how, c.found[c.algo].algo, (void *)(uintptr_t)c.workspace, c.bytes, &beta, c.y,
                                 (void *)(uintptr_t)c.at[2]);
}
static void convolve_biased(const convolving &c, CUdeviceptr bias, int mode, int channels = 3,
                            int nan = CUDNN_PROPAGATE_NAN, bool gone = false) {
  const float alpha = 1, none = 0;
  cudnnTensorDescriptor_t b = nullptr;
  cudnnActivationDescriptor_t ends = nullptr;
  cudnnCreateTensorDescriptor(&b);
  cudnnSetTensor4dDescriptor(b, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, channels, 1, 1);
  cudnnCreateActivationDescriptor(&ends);
  cudnnSetActivationDescriptor(ends, mode, nan, 0);
  if (gone) cudnnDestroyActivationDescriptor(ends);
  zero(bias, 4);
  cudnnConvolutionBiasActivationForward(c.handle, &alpha, c.x, (void *)(uintptr_t)c.at[0], c.w,
                                        (void *)(uintptr_t)c.at[1], c.how, c.found[c.algo].algo,
                                        (void *)(uintptr_t)c.workspace, c.bytes, &none, c.y,
                                        (void *)(uintptr_t)c.at[2], b, (void *)(uintptr_t)bias, ends, c.y,
                                        (void *)(uintptr_t)c.at[2]);
}

/* Pooling of 4 x 4 pixels of 2 channels by windows of 2 x 2, a softmax of 4 rows of 8, and a batch normalisation of 16
 * pixels of 2 channels, as right as they can be: each reads at[0] and writes at[1]. */
struct layering {
  cudnnHandle_t handle = nullptr;
  cudnnPoolingDescriptor_t window = nullptr;
  cudnnTensorDescriptor_t x = nullptr, y = nullptr, rows = nullptr, channels = nullptr;
  CUdeviceptr at[2] = {}, scale = 0, running[2] = {};
};
static layering layers() {
  layering l;
  cudnnCreate(&l.handle);
  cudnnSetStream(l.handle, one);
  for (cudnnTensorDescriptor_t *t : { &l.x, &l.y, &l.rows, &l.channels }) cudnnCreateTensorDescriptor(t);
  cudnnCreatePoolingDescriptor(&l.window);
  cudnnSetTensor4dDescriptor(l.x, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, 2, 4, 4);
  cudnnSetTensor4dDescriptor(l.y, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, 2, 2, 2);
  cudnnSetTensor4dDescriptor(l.rows, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 4, 8, 1, 1);
  cudnnSetTensor4dDescriptor(l.channels, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 2, 1, 1);
  cudnnSetPooling2dDescriptor(l.window, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2);
  for (CUdeviceptr *p : { &l.at[0], &l.at[1] }) { *p = get(128); zero(*p, 128); }
  for (CUdeviceptr *p : { &l.scale, &l.running[0], &l.running[1] }) { *p = get(8); zero(*p, 8); }
  return l;
}
static void *address(CUdeviceptr p) { return (void *)(uintptr_t)p; }
static const float as_is = 1, anew = 0;
static cudnnStatus_t pool(const layering &l) {
  return cudnnPoolingForward(l.handle, l.window, &as_is, l.x, address(l.at[0]), &anew, l.y, address(l.at[1]));
}
static cudnnStatus_t pool_back(const layering &l) {
  return cudnnPoolingBackward(l.handle, l.window, &as_is, l.y, address(l.at[0]), l.y, address(l.at[0]), l.x,
                              address(l.at[1]), &anew, l.x, address(l.at[1]));
}
static cudnnStatus_t soften(const layering &l, int how = CUDNN_SOFTMAX_ACCURATE) {
  return cudnnSoftmaxForward(l.handle, how, CUDNN_SOFTMAX_MODE_INSTANCE, &as_is, l.rows, address(l.at[0]), &anew,
                             l.rows, address(l.at[1]));
}
static cudnnStatus_t normalise(const layering &l, double epsilon = 1e-3) {
  return cudnnBatchNormalizationForwardTraining(l.handle, CUDNN_BATCHNORM_SPATIAL, &as_is, &anew, l.x, address(l.at[0]),
                                                l.x, address(l.at[1]), l.channels, address(l.scale), address(l.scale),
                                                1, address(l.running[0]), address(l.running[1]), epsilon, nullptr,
                                                nullptr);
}

/* What `fill` gives stream one becomes a graph that can be launched; NULL: the capture was broken. */
static CUgraphExec graph_of(void (*fill)(CUdeviceptr x), CUdeviceptr x, int mode = CU_STREAM_CAPTURE_MODE_RELAXED) {
  CUgraph g = nullptr;
  CUgraphExec e = nullptr;
  symbol_cuStreamBeginCapture(one, mode);
  fill(x);
  symbol_cuStreamEndCapture(one, &g);
  if (g) symbol_cuGraphInstantiate(&e, g, 0);
  return e;
}
static void negate(CUdeviceptr x) { neg(x, x, 16, one); }
static float first_of(CUdeviceptr x) {
  float *back = (float *)pin(64);
  symbol_cuMemcpyDtoHAsync(back, x, 64, one);
  symbol_cuStreamSynchronize(one);
  return back[0];
}

/* A kernel of zoo_kernels.cc, of blocks of 32 threads, on memory for 64 numbers. */
static void touch(const char *name, unsigned blocks = 1) {
  CUdeviceptr z = get(256);
  zero(z, 256);
  dfc_unary p = { nullptr, (void *)(uintptr_t)z, 64, 0 };
  launch(name, &p, one, blocks);
  all_over();
}

/* A condition of what stream s is captured into; and a node that goes by one, in the place where s is. Its bodies are
 * handed[]. */
static CUgraphConditionalHandle condition_of(CUstream s, unsigned value, unsigned flags) {
  CUgraph g; const CUgraphNode *after; const CUgraphEdgeData *edges; size_t n; int status; cuuint64_t id;
  CUgraphConditionalHandle h = 0;
  symbol_cuStreamGetCaptureInfo(s, &status, &id, &g, &after, &edges, &n);
  symbol_cuGraphConditionalHandleCreate(&h, g, here, value, flags);
  return h;
}
static CUgraph *handed;
static CUresult add_node(CUstream s, CUgraphNodeParams p) {
  CUgraph g; const CUgraphNode *after; const CUgraphEdgeData *edges; size_t n; int status; cuuint64_t id;
  CUgraphNode node;
  symbol_cuStreamGetCaptureInfo(s, &status, &id, &g, &after, &edges, &n);
  const CUresult added = symbol_cuGraphAddNode(&node, g, after, nullptr, n, &p);
  handed = p.conditional.phGraph_out;
  return added ? added : symbol_cuStreamUpdateCaptureDependencies(s, &node, nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
}
static CUgraphNodeParams node_by(CUgraphConditionalHandle h, int type, unsigned size = 1) {
  CUgraphNodeParams p;
  memset(&p, 0, sizeof p);
  p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  p.conditional.handle = h;
  p.conditional.type = type;
  p.conditional.size = size;
  p.conditional.ctx = here;
  return p;
}
/* What `fill` gives stream two becomes the body. */
template <class F> static void body_of(CUgraph body, F fill) {
  CUgraph same;
  if (symbol_cuStreamBeginCaptureToGraph(two, body, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_RELAXED)) return;
  fill();
  symbol_cuStreamEndCapture(two, &same);
}
/* A tally that allows `most` iterations, behind it a predicate that is `pred`; and the kernels that decide by these. */
static CUdeviceptr tally_of(int64_t most, bool pred) {
  int64_t *h = (int64_t *)pin(64);
  memset(h, 0, 64);
  h[DFC_TALLY_ON] = 1;
  h[DFC_TALLY_MOST] = most;
  h[6] = pred;
  CUdeviceptr t = get(64);
  symbol_cuMemcpyHtoDAsync(t, h, 64, one);
  return t;
}
static void go_on(CUdeviceptr t, CUgraphConditionalHandle h, CUstream s) {
  const dfc_deciding p = { (const void *)(uintptr_t)(t + 48), (int64_t *)(uintptr_t)t, h };
  launch("k_go_on", &p, s);
}
static void choose(CUdeviceptr t, CUgraphConditionalHandle h, CUstream s) {
  const dfc_choosing p = { (const void *)(uintptr_t)(t + 48), (int64_t *)(uintptr_t)t, h, DFC_TALLY_SIDES };
  launch("k_choose", &p, s);
}
/* x is negated as often as its tally allows. */
static CUdeviceptr again_tally;
static CUgraphExec again(int64_t most, CUdeviceptr x) {
  again_tally = tally_of(most, true);
  return graph_of([](CUdeviceptr x) {
    const CUgraphConditionalHandle h = condition_of(one, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
    add_node(one, node_by(h, CU_GRAPH_COND_TYPE_WHILE));
    body_of(handed[0], [=]() { neg(x, x, 16, two); go_on(again_tally, h, two); });
  }, x);
}
static CUdeviceptr twos() {
  float *h = (float *)pin(64);
  for (int i = 0; i < 16; i++) h[i] = 2;
  CUdeviceptr x = get(64);
  symbol_cuMemcpyHtoDAsync(x, h, 64, one);
  return x;
}

/* 16 floats at `own`, behind which lies the address of an element, are brought from there, or there. */
static void lead(CUdeviceptr own, CUdeviceptr to) {
  uint64_t *word = (uint64_t *)pin(16);
  word[0] = to; word[1] = 0;
  symbol_cuMemcpyHtoDAsync(own + 64, word, 16, one);
}
static void element(const char *kernel, CUdeviceptr own) {
  dfc_element p;
  memset(&p, 0, sizeof p);
  p.where = (const uint64_t *)(uintptr_t)(own + 64);
  p.from = p.to = (void *)(uintptr_t)own;
  p.n = 16;
  launch(kernel, &p, one);
}

struct beast { const char *name, *says; void (*run)(); };        /* says "": it is a right program */
static const beast zoo[] = {
  { "a right program", "", [] {
      float *h = (float *)pin(64);
      CUdeviceptr x = get(64), z = get(64);
      for (int i = 0; i < 16; i++) h[i] = (float)i;
      symbol_cuMemcpyHtoDAsync(x, h, 64, one);
      neg(x, z, 16, one);
      order(one, two);
      float *back = (float *)pin(64);
      symbol_cuMemcpyDtoHAsync(back, z, 64, two);
      order(two, one);
      drop(x);
      drop(z);
      symbol_cuStreamSynchronize(two);
      if (back[5] != -5) abort();
      all_over();
    } },
  { "two streams in order by an event", "", [] {
      CUdeviceptr x = get(64);
      zero(x, 64);
      order(one, two);
      neg(x, x, 16, two);
      order(two, one);
      drop(x);
      all_over();
    } },
  { "a kernel of another stream that reads what was not yet written", "an event is missing", [] {
      CUdeviceptr x = get(64), z = get(64);
      order(one, two);
      zero(x, 64);
      neg(x, z, 16, two);
      all_over();
    } },
  { "two streams that write one place", "an event is missing", [] {
      CUdeviceptr x = get(64);
      order(one, two);
      zero(x, 64);
      zero(x, 64, two);
      all_over();
    } },
  { "memory used by a stream that does not know that it is there", "an event is missing", [] {
      CUdeviceptr x = get(64, one);
      zero(x, 64, two);
      all_over();
    } },
  { "memory freed while another stream reads it", "freed too early", [] {
      CUdeviceptr x = get(64), z = get(64);
      zero(x, 64);
      order(one, two);
      neg(x, z, 16, two);
      drop(x, one);
      all_over();
    } },
  { "memory used after it was freed", "after it was freed", [] {
      CUdeviceptr x = get(64);
      drop(x);
      zero(x, 64);
      all_over();
    } },
  { "a kernel that is given freed memory", "after it was freed", [] {
      CUdeviceptr x = get(64), z = get(64);
      drop(x);
      neg(x, z, 16, one);
      all_over();
    } },
  { "memory freed twice", "was freed before", [] {
      CUdeviceptr x = get(64);
      drop(x);
      drop(x);
      all_over();
    } },
  { "the middle of an allocation freed", "no allocation's beginning", [] { drop(get(64) + 8); all_over(); } },
  { "a kernel that writes past the end", "past", [] {
      CUdeviceptr x = get(8192), z = get(64);
      zero(x, 8192);
      neg(x, z, 2048, one);
      all_over();
    } },
  { "a kernel that writes a little past the end", "byte 20, past its end", [] {
      CUdeviceptr x = get(64), z = get(20);
      zero(x, 64);
      neg(x, z, 6, one);
      all_over();
    } },
  { "a kernel that is given memory that is nobody's", "no device memory that it was given", [] {
      CUdeviceptr z = get(64);
      neg((CUdeviceptr)1 << 40, z, 16, one);
      all_over();
    } },
  { "a copy past the end", "not inside of one allocation", [] { zero(get(64), 65); all_over(); } },
  { "a copy whose source changes before it runs", "was changed before the copy ran", [] {
      float *h = (float *)pin(64);
      CUdeviceptr x = get(64);
      symbol_cuMemcpyHtoDAsync(x, h, 64, one);
      h[3] = 7;
      all_over();
    } },
  { "a copy from memory that is not pinned", "not pinned", [] {
      static float h[16];
      symbol_cuMemcpyHtoDAsync(get(64), h, 64, one);
      all_over();
    } },
  { "a copy to memory that is not pinned", "not pinned", [] {
      static float h[16];
      CUdeviceptr x = get(64);
      zero(x, 64);
      symbol_cuMemcpyDtoHAsync(h, x, 64, one);
      all_over();
    } },
  { "a kernel that nobody has", "there is no kernel", [] { launch("k_nothing", "", one); } },
  { "no blocks", "cannot have", [] { dfc_unary p = {}; launch("k_neg_f32", &p, one, 0, 32); } },
  { "more threads than there are registers for", "more registers than a block has", [] {
      dfc_unary p = {};
      launch("k_neg_f32", &p, one, 1, 512);
    } },
  { "a number that lies between two places for numbers", "no multiple of what lies there", [] {
      CUdeviceptr x = get(72);
      zero(x, 72);
      neg(x + 2, x + 2, 16, one);
      all_over();
    } },
  { "a copy from GPU to GPU", "", [] {
      float *h = (float *)pin(64), *back = (float *)pin(64);
      h[5] = 5;
      CUdeviceptr x = get(64), y = get_there(64);
      symbol_cuMemcpyHtoDAsync(x, h, 64, one);
      CUevent e = event();
      symbol_cuEventRecord(e, one);
      over_there([=]() {
        symbol_cuStreamWaitEvent(far, e, 0);
        symbol_cuMemcpyPeerAsync(y, there, x, here, 64, far);
        symbol_cuMemcpyDtoHAsync(back, y, 64, far);
        return symbol_cuStreamSynchronize(far);
      });
      drop(x);
      all_over();
      if (back[5] != 5) abort();
    } },
  { "a copy from GPU to GPU that does not wait for what it reads", "an event is missing", [] {
      CUdeviceptr x = get(64), y = get_there(64);
      symbol_cuStreamSynchronize(one);
      zero(x, 64);
      over_there([=]() {
        symbol_cuMemcpyPeerAsync(y, there, x, here, 64, far);
        return symbol_cuStreamSynchronize(far);
      });
      all_over();
    } },
  { "a copy from GPU to GPU that names the wrong one", "has no way to it", [] {
      symbol_cuMemcpyPeerAsync(get(64), here, get_there(64), here, 64, one);
    } },
  { "a kernel that is given another GPU's memory", "has no way to it", [] {
      CUdeviceptr y = get_there(64);
      neg(y, y, 16, one);
      all_over();
    } },
  { "a stream of a GPU whose context is not current", "the context that is current", [] { zero(get(64), 64, far); } },
  { "an event of another GPU than its stream", "another GPU's than the stream", [] {
      symbol_cuEventRecord(over_there(event), one);
    } },
  { "a function of another GPU than its stream", "loaded on another GPU", [] {
      dfc_unary p = {};
      over_there([=]() { return launch("k_neg_f32", &p, far); });
    } },
  { "an image for other GPUs than this", "no code for capability 80", [] {
      unsigned char image[128] = { 0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 64, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 1, 64 };
      image[16 + 28] = 90;
      CUmodule m;
      setenv("DFLOW_STRICT_CAPABILITY", "80", 1);
      symbol_cuModuleLoadData(&m, image);
      unsetenv("DFLOW_STRICT_CAPABILITY");
    } },
  { "too many threads", "cannot have", [] { dfc_unary p = {}; launch("k_neg_f32", &p, one, 1, 2048); } },
  { "an unknown stream", "no such stream", [] { symbol_cuStreamSynchronize((CUstream)(uintptr_t)16); } },
  { "an unknown event", "no such", [] { symbol_cuStreamWaitEvent(one, (CUevent)(uintptr_t)16, 0); } },
  { "no context", "no context", [] {
      CUcontext none = nullptr;
      CUdeviceptr p;
      symbol_cuCtxSetCurrent(none);
      symbol_cuMemAllocAsync(&p, 64, one);
    } },
  { "nothing allocated", "0 bytes", [] { get(0); } },
  { "a right product", "", [] {
      const multiplying p = product_of();
      multiply(p);
      drop(p.at[0]);
      drop(p.workspace);
      all_over();
    } },
  { "columns of a matrix that lie over each other", "columns 3 apart", [] {
      cublasLtMatrixLayout_t l;
      cublasLtMatrixLayoutCreate(&l, CUDA_R_32F, 4, 6, 3);
    } },
  { "a product of matrices that do not fit", "a product of", [] {
      multiplying p = product_of();
      std::swap(p.a, p.b);
      multiply(p);
    } },
  { "a product without its workspace", "a workspace of 0 bytes", [] {
      multiplying p = product_of();
      p.workspace = 0;
      multiply(p);
    } },
  { "a product with too small a workspace", "not inside of one allocation", [] {
      multiplying p = product_of();
      p.workspace = get(16);
      multiply(p);
      all_over();
    } },
  { "a product of what is less aligned than was promised", "is not aligned to", [] {
      multiplying p = product_of();
      p.at[0] += 4;
      multiply(p);
    } },
  { "a product of freed memory", "after it was freed", [] {
      const multiplying p = product_of();
      drop(p.at[1]);
      multiply(p);
      all_over();
    } },
  { "a product on a stream that knows nothing of its operands", "an event is missing", [] {
      multiplying p = product_of();
      p.stream = two;
      multiply(p);
      all_over();
    } },
  { "a workspace that two products use at once", "an event is missing", [] {
      multiplying p = product_of();
      order(one, two);
      multiply(p);
      p.stream = two;
      p.at[2] = get(80, two);
      multiply(p);
      all_over();
    } },
  { "a product by an algorithm of another", "chosen for another product", [] {
      multiplying p = product_of();
      const int t = CUBLAS_OP_T;
      cublasLtMatmulDescSetAttribute(p.desc, CUBLASLT_MATMUL_DESC_TRANSA, &t, sizeof t);
      cublasLtMatrixLayoutCreate(&p.a, CUDA_R_32F, 6, 4, 6);
      multiply(p);
    } },
  { "a product to which a vector is added", "", [] {
      const multiplying p = biased(get(16));
      check(p);
      multiply(p);
      all_over();
    } },
  { "a product to which nothing is added, though it is said to be", "no bias", [] {
      const multiplying p = biased(0);
      check(p);
      multiply(p);
    } },
  { "a product that adds a vector by an algorithm that may not", "was not checked", [] {
      multiplying p = product_of();
      const uint32_t plain = CUBLASLT_EPILOGUE_DEFAULT;
      cublasLtMatmulDescSetAttribute(p.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &plain, sizeof plain);
      cublasLtMatrixLayoutCreate(&p.d, CUDA_R_32F, 4, 5, 7 /* a shape that nobody else checks */);
      choose(p);
      multiply(with_bias(p, get(16)));
    } },
  { "a product to which too short a vector is added", "not inside of one allocation", [] {
      const multiplying p = biased(get(12));
      check(p);
      multiply(p);
      all_over();
    } },
  { "a product to which a vector is added that begins anywhere", "not aligned to 16 bytes", [] {
      const multiplying p = biased(get(24) + 8);
      check(p);
      multiply(p);
    } },
  { "a product of 8-bit floats", "", [] { multiply(product_of_float8()); all_over(); } },
  { "a product of 8-bit floats that lie by columns", "k is not innermost", [] { multiply(product_of_float8(CUBLAS_OP_N)); } },
  { "a product of 8-bit floats with odd sides", "no multiple of 16", [] { multiply(product_of_float8(CUBLAS_OP_T, 24)); } },
  { "a product of 8-bit floats that nobody says the scale of", "without their scales", [] {
      multiply(product_of_float8(CUBLAS_OP_T, 32, false));
    } },
  { "a product of 8-bit floats to which a vector is added", "a vector of float32 is added", [] {
      const multiplying p = with_bias(product_of_float8(), get(64));
      check(p);
    } },
  { "a convolution", "", [] { convolve(convolution_of()); all_over(); } },
  { "a convolution by an algorithm whose bits change", "whose bits change", [] {
      convolving c = convolution_of();
      c.algo--;
      convolve(c);
    } },
  { "a convolution without its workspace", "a workspace of 0 bytes", [] {
      convolving c = convolution_of();
      c.workspace = 0;
      convolve(c);
    } },
  { "a convolution whose result is too small for it", "not inside of one allocation", [] {
      convolving c = convolution_of();
      c.at[2] = get(188);
      convolve(c);
      all_over();
    } },
  { "a convolution to another number of places", "where there are 4 x 4 places", [] {
      const convolving c = convolution_of();
      cudnnSetTensor4dDescriptor(c.y, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, 3, 2, 4);
      convolve(c);
    } },
  { "a convolution on a stream that knows nothing of its operands", "an event is missing", [] {
      const convolving c = convolution_of();
      cudnnSetStream(c.handle, two);
      convolve(c);
      all_over();
    } },
  { "a convolution with a bias, and its ReLU", "", [] {
      const convolving c = convolution_of();
      convolve_biased(c, get(12), CUDNN_ACTIVATION_IDENTITY);
      convolve_biased(c, get(12), CUDNN_ACTIVATION_RELU);
      all_over();
    } },
  { "a convolution by the math that it was asked with, not answered", "for which no workspace was told", [] {
      const convolving c = convolution_of();
      cudnnSetConvolutionMathType(c.how, CUDNN_DEFAULT_MATH);
      convolve(c);
    } },
  { "a convolution that rounds float32 where it was not to", "may round float32", [] {
      convolve(convolution_of(CUDNN_FMA_MATH));
    } },
  { "a convolution with too short a bias", "not inside of one allocation", [] {
      convolve_biased(convolution_of(), get(8), CUDNN_ACTIVATION_RELU);
      all_over();
    } },
  { "a convolution with a bias for other channels", "a bias of 2 channels", [] {
      convolve_biased(convolution_of(), get(12), CUDNN_ACTIVATION_RELU, 2);
    } },
  { "a convolution whose ReLU loses NaN", "a ReLU that loses NaN", [] {
      convolve_biased(convolution_of(), get(12), CUDNN_ACTIVATION_RELU, 3, 0);
    } },
  { "a convolution with a bias alone by an algorithm that has none", "the identity by another algorithm", [] {
      convolving c = convolution_of();
      c.found[c.algo].algo = 6;
      convolve_biased(c, get(12), CUDNN_ACTIVATION_IDENTITY);
    } },
  { "a convolution whose activation was destroyed", "was destroyed", [] {
      convolve_biased(convolution_of(), get(12), CUDNN_ACTIVATION_RELU, 3, CUDNN_PROPAGATE_NAN, true);
    } },
  { "a convolution whose filter was destroyed", "was destroyed", [] {
      const convolving c = convolution_of();
      cudnnDestroyFilterDescriptor(c.w);
      convolve(c);
    } },
  { "pooling, a softmax and a batch normalisation", "", [] {
      const layering l = layers();
      pool(l);
      soften(l);
      normalise(l);
      cudnnSetPooling2dDescriptor(l.window, CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING, CUDNN_PROPAGATE_NAN, 2, 2, 0,
                                  0, 2, 2);
      pool_back(l);
      all_over();
    } },
  { "pooling to another number of places", "where there are 2 x 2 places", [] {
      layering l = layers();
      l.y = l.x;
      pool(l);
    } },
  { "pooling by windows that see no pixel", "in the padding of 2 x 0 alone", [] {
      cudnnSetPooling2dDescriptor(layers().window, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 2, 2, 2, 0, 2, 2);
    } },
  { "pooling that loses what is no number", "would be lost", [] {
      cudnnSetPooling2dDescriptor(layers().window, CUDNN_POOLING_MAX, 0, 2, 2, 0, 0, 2, 2);
    } },
  { "the gradient of a maximum", "whose bits change", [] { pool_back(layers()); } },
  { "pooling on a stream that knows nothing of its operands", "an event is missing", [] {
      const layering l = layers();
      cudnnSetStream(l.handle, two);
      pool(l);
      all_over();
    } },
  { "pooling past the end", "not inside of one allocation", [] {
      layering l = layers();
      l.at[1] = get(28);
      pool(l);
      all_over();
    } },
  { "a softmax where its input lies", "where the input lies", [] {
      layering l = layers();
      l.at[1] = l.at[0];
      soften(l);
    } },
  { "a softmax that loses great numbers", "loses great numbers", [] { soften(layers(), 0); } },
  { "a softmax of a description that was not written", "nothing was written to", [] {
      layering l = layers();
      cudnnCreateTensorDescriptor(&l.rows);
      soften(l);
    } },
  { "a batch normalisation with the moments of other channels", "moments of 3 channels", [] {
      const layering l = layers();
      cudnnSetTensor4dDescriptor(l.channels, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 3, 1, 1);
      normalise(l);
    } },
  { "a batch normalisation with one moment of two", "one of two moments is missing", [] {
      layering l = layers();
      l.running[1] = 0;
      normalise(l);
    } },
  { "a batch normalisation with an epsilon below 0", "an epsilon below 0", [] { normalise(layers(), -1); } },
  { "a batch normalisation of freed moments", "after it was freed", [] {
      const layering l = layers();
      drop(l.running[0]);
      normalise(l);
      all_over();
    } },
  { "threads that give to each other, and wait", "", [] {
      touch("k_zoo_neighbours", 2);
      touch("k_zoo_leader", 2);
      touch("k_zoo_through");
    } },
  { "a thread that takes what another may not have given yet", "of shared memory by threads", [] { touch("k_zoo_hasty"); } },
  { "a thread that gives anew what another may not have taken", "of shared memory by threads", [] { touch("k_zoo_twice"); } },
  { "threads that write one place", "two writes of byte", [] { touch("k_zoo_crowd"); } },
  { "the same through device memory", "of device memory at", [] { touch("k_zoo_through_hastily"); } },
  { "bytes side by side, each another thread's", "", [] { touch("k_zoo_bytes"); } },
  { "a thread that reads a byte of a word that another writes", "by threads", [] { touch("k_zoo_part"); } },
  { "a thread that writes the last part of a struct that another writes", "by threads", [] { touch("k_zoo_struct"); } },
  { "a thread that takes what no thread gave", "where no thread of its block has written", [] { touch("k_zoo_half"); } },
  { "a block that takes what an earlier one left", "where no thread of its block has written", [] {
      touch("k_zoo_first_block", 2);
    } },
  { "a kernel that writes what lies there, while another stream reads it", "an event is missing", [] {
      CUdeviceptr x = get(128), z = get(128);
      zero(x, 128);
      order(one, two);
      neg(x, z, 32, one);
      dfc_unary p = { nullptr, (void *)(uintptr_t)x, 32, 0 };
      launch("k_zoo_again", &p, two);
      all_over();
    } },
  { "a kernel that reads a little past the end", "byte 20, past its end", [] {
      CUdeviceptr x = get(20), z = get(64);
      zero(x, 20);
      neg(x, z, 6, one);
      all_over();
    } },
  { "a kernel that reads what nothing has written", "where nothing was written", [] {
      neg(get(64), get(64), 16, one);
      all_over();
    } },
  { "a product of what nothing has written", "where nothing was written", [] {
      multiplying p = product_of();
      p.at[1] = get(120);
      multiply(p);
      all_over();
    } },
  { "a block that takes what another gives", "by threads of two blocks", [] { touch("k_zoo_blocks", 3); } },
  { "a block that writes what the others read", "by threads of two blocks", [] { touch("k_zoo_one_for_all", 3); } },
  { "code that is none", "neither code for this GPU", [] { CUmodule m; symbol_cuModuleLoadData(&m, "PTX or so"); } },
  { "a program that is compiled with an option that is none", "unknown option", [] {
      nvrtcProgram p = nullptr;
      const char *const options[] = { "--fast" };
      nvrtcCreateProgram(&p, "int x;", "x.cu", 0, nullptr, nullptr);
      nvrtcCompileProgram(p, 1, options);
    } },
  { "a program that may fuse what it multiplies and adds", "--fmad=false", [] {
      nvrtcProgram p = nullptr;
      nvrtcCreateProgram(&p, "int x;", "x.cu", 0, nullptr, nullptr);
      nvrtcCompileProgram(p, 0, nullptr);
    } },
  { "a program that has denormals", "--ftz=true", [] {
      nvrtcProgram p = nullptr;
      const char *const options[] = { "--fmad=false" };
      nvrtcCreateProgram(&p, "int x;", "x.cu", 0, nullptr, nullptr);
      nvrtcCompileProgram(p, 1, options);
    } },
  { "the code of a program that was not compiled", "was not compiled", [] {
      nvrtcProgram p = nullptr;
      size_t n;
      nvrtcCreateProgram(&p, "int x;", "x.cu", 0, nullptr, nullptr);
      nvrtcGetCUBINSize(p, &n);
    } },
  { "a program that was destroyed", "no such program", [] {
      nvrtcProgram p = nullptr;
      nvrtcCreateProgram(&p, "int x;", "x.cu", 0, nullptr, nullptr);
      nvrtcProgram gone = p;
      nvrtcDestroyProgram(&p);
      nvrtcDestroyProgram(&gone);
    } },
  { "a description that was destroyed", "was destroyed", [] {
      const multiplying p = product_of();
      cublasLtMatmulDescDestroy(p.desc);
      multiply(p);
    } },
  { "a graph that is captured, launched and launched again", "", [] {
      float *h = (float *)pin(64);
      CUdeviceptr x = get(64);
      for (int i = 0; i < 16; i++) h[i] = 2;
      symbol_cuMemcpyHtoDAsync(x, h, 64, one);
      CUgraphExec e = graph_of(negate, x);
      if (first_of(x) != 2) abort();                     /* what is captured does not run */
      symbol_cuGraphLaunch(e, one);
      if (first_of(x) != -2) abort();
      symbol_cuGraphLaunch(e, one);
      order(one, two);
      symbol_cuGraphLaunch(e, two);                      /* after the one before it, on whatever stream */
      order(two, one);
      if (first_of(x) != -2) abort();
      symbol_cuGraphExecDestroy(e);
      drop(x);
      all_over();
    } },
  { "a graph of two branches that are joined", "", [] {
      static CUdeviceptr other;
      CUdeviceptr x = get(64);
      other = get(64);
      zero(x, 64);
      zero(other, 64);
      CUgraphExec e = graph_of([](CUdeviceptr x) {
        order(one, two);
        neg(x, x, 16, one);
        neg(other, other, 16, two);
        order(two, one);
      }, x);
      symbol_cuGraphLaunch(e, one);
      all_over();
    } },
  { "a graph that is made another one while a launch of it waits", "", [] {
      CUdeviceptr x = get(64), y = get(64);
      CUgraphExecUpdateResultInfo info;
      CUgraph g = nullptr;
      zero(x, 64);
      zero(y, 64);
      CUgraphExec e = graph_of(negate, x);
      symbol_cuGraphLaunch(e, one);
      symbol_cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_RELAXED);
      negate(y);
      symbol_cuStreamEndCapture(one, &g);
      if (symbol_cuGraphExecUpdate(e, g, &info)) abort();
      symbol_cuGraphDestroy(g);
      drop(x);                                           /* the launch before still has it, and comes first */
      symbol_cuGraphLaunch(e, one);
      all_over();
    } },
  { "a graph that another one could not be made of does what it did", "", [] {
      CUdeviceptr x = twos();
      CUgraphExecUpdateResultInfo info;
      CUgraph g = nullptr;
      CUgraphExec e = graph_of(negate, x);
      symbol_cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_RELAXED);
      zero(x, 64);
      symbol_cuStreamEndCapture(one, &g);
      if (!symbol_cuGraphExecUpdate(e, g, &info)) abort();
      symbol_cuGraphDestroy(g);
      symbol_cuGraphLaunch(e, one);
      if (first_of(x) != -2) abort();
    } },
  { "an executable graph that has gone is to be another one", "no such executable graph", [] {
      CUdeviceptr x = get(64);
      CUgraphExecUpdateResultInfo info;
      CUgraph g = nullptr;
      CUgraphExec e = graph_of(negate, x);
      symbol_cuGraphExecDestroy(e);
      symbol_cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_RELAXED);
      negate(x);
      symbol_cuStreamEndCapture(one, &g);
      symbol_cuGraphExecUpdate(e, g, &info);
    } },
  { "a graph becomes the body of another one's node", "it is a conditional node's body", [] {
      CUdeviceptr x = get(64);
      CUgraphExecUpdateResultInfo info;
      CUgraphExec e = graph_of(negate, x);
      again(2, x);
      symbol_cuGraphExecUpdate(e, handed[0], &info);
    } },
  { "a branch of a capture that is not joined", "an event is missing", [] {
      CUdeviceptr x = get(64);
      graph_of([](CUdeviceptr x) { negate(x); order(one, two); neg(x, x, 16, two); }, x);
    } },
  { "two branches of a graph that write one place", "no order between them in the graph", [] {
      CUdeviceptr x = get(64);
      zero(x, 64);
      CUgraphExec e = graph_of([](CUdeviceptr x) {
        zero(x, 64);
        order(one, two);
        zero(x, 64, two);
        zero(x, 64);
        order(two, one);
      }, x);
      symbol_cuGraphLaunch(e, one);
      all_over();
    } },
  { "a wait for the host in a capture", "the stream is capturing", [] {
      graph_of([](CUdeviceptr x) { negate(x); symbol_cuStreamSynchronize(one); }, get(64));
    } },
  { "a capture that is ended though it was broken", "the capture was broken", [] {
      graph_of([](CUdeviceptr x) { symbol_cuStreamSynchronize(one); }, get(64));
    } },
  { "a capture that waits for what is not part of it", "not part of the capture", [] {
      graph_of([](CUdeviceptr x) {
        CUevent e = event();
        symbol_cuEventRecord(e, two);
        symbol_cuStreamWaitEvent(one, e, 0);
      }, get(64));
    } },
  { "a question after an event of a capture", "nothing to wait for", [] {
      graph_of([](CUdeviceptr x) {
        CUevent e = event();
        symbol_cuEventRecord(e, one);
        symbol_cuEventQuery(e);
      }, get(64));
    } },
  { "memory asked for in a capture", "is given its memory", [] { graph_of([](CUdeviceptr x) { get(64); }, get(64)); } },
  { "memory given back in a capture", "is given its memory", [] { graph_of([](CUdeviceptr x) { drop(x); }, get(64)); } },
  { "a copy to the host in a capture", "not for the host", [] {
      graph_of([](CUdeviceptr x) { symbol_cuMemcpyDtoHAsync(pin(64), x, 64, one); }, get(64));
    } },
  { "pinned memory asked for while a thread captures", "unsafe", [] {
      graph_of([](CUdeviceptr x) { void *p; symbol_cuMemHostAlloc(&p, 64, 0); }, get(64),
               CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    } },
  { "the same in a relaxed capture", "", [] { graph_of([](CUdeviceptr x) { pin(64); }, get(64)); } },
  { "a stream that is captured twice", "captured already", [] {
      graph_of([](CUdeviceptr x) { symbol_cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_RELAXED); }, get(64));
    } },
  { "the end of a capture that was not begun", "is not captured", [] {
      CUgraph g;
      symbol_cuStreamEndCapture(one, &g);
    } },
  { "the end of a capture on another stream", "begun on another stream", [] {
      graph_of([](CUdeviceptr x) {
        CUgraph g;
        order(one, two);
        symbol_cuStreamEndCapture(two, &g);
      }, get(64));
    } },
  { "a graph inside a graph", "a graph inside a graph", [] {
      static CUgraphExec inner;
      CUdeviceptr x = get(64);
      inner = graph_of(negate, x);
      graph_of([](CUdeviceptr x) { symbol_cuGraphLaunch(inner, one); }, x);
    } },
  { "a graph whose memory was freed", "after it was freed", [] {
      CUdeviceptr x = get(64);
      zero(x, 64);
      CUgraphExec e = graph_of(negate, x);
      drop(x);
      symbol_cuGraphLaunch(e, one);
      all_over();
    } },
  { "memory freed while a graph on another stream has it", "freed too early", [] {
      CUdeviceptr x = get(64);
      zero(x, 64);
      CUgraphExec e = graph_of(negate, x);
      order(one, two);
      symbol_cuGraphLaunch(e, two);
      drop(x, one);
      all_over();
    } },
  { "a graph on a stream that knows nothing of its memory", "an event is missing", [] {
      CUdeviceptr x = get(64);
      CUgraphExec e = graph_of(negate, x);
      zero(x, 64);
      symbol_cuGraphLaunch(e, two);
      all_over();
    } },
  { "pinned memory that changes after a graph that reads it was launched", "was changed before the copy ran", [] {
      static float *h;
      h = (float *)pin(64);
      CUgraphExec e = graph_of([](CUdeviceptr x) { symbol_cuMemcpyHtoDAsync(x, h, 64, one); }, get(64));
      symbol_cuGraphLaunch(e, one);
      h[3] = 7;
      all_over();
    } },
  { "pinned memory that changes between two launches of a graph that reads it", "", [] {
      static float *h;
      h = (float *)pin(64);
      CUdeviceptr x = get(64);
      CUgraphExec e = graph_of([](CUdeviceptr x) { symbol_cuMemcpyHtoDAsync(x, h, 64, one); }, x);
      for (int i = 1; i < 4; i++) {
        h[0] = (float)i;
        symbol_cuGraphLaunch(e, one);
        if (first_of(x) != (float)i) abort();
      }
    } },
  { "pinned memory of a graph that was freed", "was freed", [] {
      static float *h;
      h = (float *)pin(64);
      CUgraphExec e = graph_of([](CUdeviceptr x) { symbol_cuMemcpyHtoDAsync(x, h, 64, one); }, get(64));
      symbol_cuMemFreeHost(h);
      symbol_cuGraphLaunch(e, one);
      all_over();
    } },
  { "a graph that was destroyed", "no such executable graph", [] {
      CUgraphExec e = graph_of(negate, get(64));
      symbol_cuGraphExecDestroy(e);
      symbol_cuGraphLaunch(e, one);
    } },
  { "a graph destroyed while a launch of it waits", "not known to be over", [] {
      CUdeviceptr x = get(64);
      zero(x, 64);
      CUgraphExec e = graph_of(negate, x);
      symbol_cuGraphLaunch(e, one);
      symbol_cuGraphExecDestroy(e);
    } },
  { "a graph that goes on as long as its kernel says", "", [] {
      CUdeviceptr x = twos();
      CUgraphExec e = again(3, x);
      symbol_cuGraphLaunch(e, one);
      if (first_of(x) != -2) abort();
      CUdeviceptr other = tally_of(2, true);             /* launched again it begins again */
      symbol_cuMemcpyDtoDAsync(again_tally, other, 64, one);
      symbol_cuGraphLaunch(e, one);
      if (first_of(x) != -2) abort();
      symbol_cuGraphExecDestroy(e);
      all_over();
    } },
  { "a graph that takes one of two sides", "", [] {
      for (int yes = 0; yes < 2; yes++) {
        CUdeviceptr x = twos();
        again_tally = tally_of(1, yes);
        CUgraphExec e = graph_of([](CUdeviceptr x) {
          const CUgraphConditionalHandle h = condition_of(one, 0, 0);
          choose(again_tally, h, one);
          add_node(one, node_by(h, CU_GRAPH_COND_TYPE_IF, 2));
          body_of(handed[0], [=]() { neg(x, x, 16, two); });
          body_of(handed[1], [=]() { zero(x, 64, two); });
        }, x);
        symbol_cuGraphLaunch(e, one);
        if (first_of(x) != (yes ? -2 : 0)) abort();
        all_over();
      }
    } },
  { "a side inside of what goes on", "", [] {
      CUdeviceptr x = twos();
      again_tally = tally_of(4, true);
      CUgraphExec e = graph_of([](CUdeviceptr x) {
        const CUgraphConditionalHandle h = condition_of(one, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
        add_node(one, node_by(h, CU_GRAPH_COND_TYPE_WHILE));
        CUgraph body = handed[0], same;
        symbol_cuStreamBeginCaptureToGraph(two, body, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_RELAXED);
        const CUgraphConditionalHandle inner = condition_of(two, 0, 0);
        choose(again_tally, inner, two);
        add_node(two, node_by(inner, CU_GRAPH_COND_TYPE_IF));
        static CUstream three;
        if (!three) symbol_cuStreamCreate(&three, CU_STREAM_NON_BLOCKING);
        symbol_cuStreamBeginCaptureToGraph(three, handed[0], nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_RELAXED);
        neg(x, x, 16, three);
        symbol_cuStreamEndCapture(three, &same);
        go_on(again_tally, h, two);
        symbol_cuStreamEndCapture(two, &same);
      }, x);
      symbol_cuGraphLaunch(e, one);
      if (first_of(x) != 2) abort();
      all_over();
    } },
  { "elements whose addresses are read when the graph runs", "", [] {
      CUdeviceptr x = twos(), y = get(128);
      CUgraphExec e = graph_of([](CUdeviceptr y) { element("k_fetch_32", y); element("k_store_32", y); }, y);
      lead(y, x);
      symbol_cuGraphLaunch(e, one);
      if (first_of(y) != 2) abort();
      all_over();
    } },
  { "an element whose address nobody wrote", "is led to address 0xffffffffffffffff", [] {
      CUdeviceptr y = get(128);
      CUgraphExec e = graph_of([](CUdeviceptr y) { element("k_fetch_32", y); }, y);
      symbol_cuGraphLaunch(e, one);
      all_over();
    } },
  { "an element that was freed", "after it was freed", [] {
      CUdeviceptr x = twos(), y = get(128);
      CUgraphExec e = graph_of([](CUdeviceptr y) { element("k_fetch_32", y); }, y);
      lead(y, x);
      drop(x);
      symbol_cuGraphLaunch(e, one);
      all_over();
    } },
  { "an element of another GPU's", "has no way to it", [] {
      CUdeviceptr x = get_there(64), y = get(128);
      CUgraphExec e = graph_of([](CUdeviceptr y) { element("k_fetch_32", y); }, y);
      lead(y, x);
      symbol_cuGraphLaunch(e, one);
      all_over();
    } },
  { "an element that another stream still writes", "an event is missing", [] {
      CUdeviceptr x = twos(), y = get(128);
      CUgraphExec e = graph_of([](CUdeviceptr y) { element("k_fetch_32", y); }, y);
      lead(y, x);
      order(one, two);
      neg(x, x, 16, two);
      symbol_cuGraphLaunch(e, one);
      all_over();
    } },
  { "an element past the end of its memory", "touches", [] {
      CUdeviceptr x = twos(), y = get(128);
      CUgraphExec e = graph_of([](CUdeviceptr y) { element("k_store_32", y); }, y);
      zero(y, 64);
      lead(y, x + 4096 - 32);
      symbol_cuGraphLaunch(e, one);
      all_over();
    } },
  { "a WHILE whose body does not set its condition", "never ends", [] {
      CUdeviceptr x = twos();
      CUgraphExec e = graph_of([](CUdeviceptr x) {
        add_node(one, node_by(condition_of(one, 1, CU_GRAPH_COND_ASSIGN_DEFAULT), CU_GRAPH_COND_TYPE_WHILE));
        body_of(handed[0], [=]() { neg(x, x, 16, two); });
      }, x);
      symbol_cuGraphLaunch(e, one);
      all_over();
    } },
  { "a condition that nothing has set", "has no value", [] {
      CUdeviceptr x = twos();
      CUgraphExec e = graph_of([](CUdeviceptr x) {
        add_node(one, node_by(condition_of(one, 1, 0), CU_GRAPH_COND_TYPE_IF));
        body_of(handed[0], [=]() { neg(x, x, 16, two); });
      }, x);
      symbol_cuGraphLaunch(e, one);
      all_over();
    } },
  { "a condition that is set beside its node, not before it", "no order between them in the graph", [] {
      again_tally = tally_of(1, true);
      CUgraphExec e = graph_of([](CUdeviceptr x) {
        const CUgraphConditionalHandle h = condition_of(one, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
        zero(x, 64);
        order(one, two);
        add_node(one, node_by(h, CU_GRAPH_COND_TYPE_IF));
        CUgraph body = handed[0], same;
        static CUstream three;
        if (!three) symbol_cuStreamCreate(&three, CU_STREAM_NON_BLOCKING);
        symbol_cuStreamBeginCaptureToGraph(three, body, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_RELAXED);
        neg(x, x, 16, three);
        symbol_cuStreamEndCapture(three, &same);
        choose(again_tally, h, two);
        order(two, one);
      }, twos());
      symbol_cuGraphLaunch(e, one);
      all_over();
    } },
  { "two sides that write what others read beside them", "no order between them in the graph", [] {
      again_tally = tally_of(1, true);
      CUgraphExec e = graph_of([](CUdeviceptr x) {
        const CUgraphConditionalHandle h = condition_of(one, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
        order(one, two);
        add_node(one, node_by(h, CU_GRAPH_COND_TYPE_IF));
        CUgraph body = handed[0], same;
        static CUstream three;
        if (!three) symbol_cuStreamCreate(&three, CU_STREAM_NON_BLOCKING);
        symbol_cuStreamBeginCaptureToGraph(three, body, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_RELAXED);
        neg(x, x, 16, three);
        symbol_cuStreamEndCapture(three, &same);
        zero(x, 64, two);
        order(two, one);
      }, twos());
      symbol_cuGraphLaunch(e, one);
      all_over();
    } },
  { "a kernel of no graph that sets a condition", "of a graph that it is not part of", [] {
      static CUgraphConditionalHandle h;
      graph_of([](CUdeviceptr x) {
        h = condition_of(one, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
        add_node(one, node_by(h, CU_GRAPH_COND_TYPE_IF));
      }, get(64));
      choose(tally_of(1, true), h, one);
      all_over();
    } },
  { "a condition that several threads set", "by several threads at once", [] {
      CUdeviceptr x = twos();
      CUgraphExec e = graph_of([](CUdeviceptr x) {
        const CUgraphConditionalHandle h = condition_of(one, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
        const dfc_unary p = { nullptr, nullptr, (int64_t)h, 0 };
        launch("k_zoo_all_decide", &p, one);
        add_node(one, node_by(h, CU_GRAPH_COND_TYPE_IF));
        body_of(handed[0], [=]() { neg(x, x, 16, two); });
      }, x);
      symbol_cuGraphLaunch(e, one);
      all_over();
    } },
  { "a condition that there is not", "a condition that there is not", [] { choose(tally_of(1, true), 77, one); all_over(); } },
  { "a node by a condition that there is not", "no such condition", [] {
      graph_of([](CUdeviceptr x) { add_node(one, node_by(77, CU_GRAPH_COND_TYPE_IF)); }, get(64));
    } },
  { "a condition of two nodes", "another node has the condition", [] {
      graph_of([](CUdeviceptr x) {
        const CUgraphConditionalHandle h = condition_of(one, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
        add_node(one, node_by(h, CU_GRAPH_COND_TYPE_IF));
        add_node(one, node_by(h, CU_GRAPH_COND_TYPE_IF));
      }, get(64));
    } },
  { "a condition of another graph", "the condition is of another graph", [] {
      static CUgraphConditionalHandle h;
      graph_of([](CUdeviceptr x) { negate(x); h = condition_of(one, 1, 0); }, get(64));
      graph_of([](CUdeviceptr x) { add_node(one, node_by(h, CU_GRAPH_COND_TYPE_IF)); }, get(64));
    } },
  { "a condition that no node has", "no node has one of its conditions", [] {
      graph_of([](CUdeviceptr x) { negate(x); condition_of(one, 1, 0); }, get(64));
    } },
  { "a WHILE of two bodies", "cannot have 2 bodies", [] {
      graph_of([](CUdeviceptr x) {
        add_node(one, node_by(condition_of(one, 1, 1), CU_GRAPH_COND_TYPE_WHILE, 2));
      }, get(64));
    } },
  { "a conditional node of another context", "another context than its condition", [] {
      graph_of([](CUdeviceptr x) {
        CUgraphNodeParams p = node_by(condition_of(one, 1, 1), CU_GRAPH_COND_TYPE_IF);
        p.conditional.ctx = there;
        add_node(one, p);
      }, get(64));
    } },
  { "a conditional node whose reserved words are not zero", "reserved is not zero", [] {
      graph_of([](CUdeviceptr x) {
        CUgraphNodeParams p = node_by(condition_of(one, 1, 1), CU_GRAPH_COND_TYPE_IF);
        p.reserved1[20] = 1;
        add_node(one, p);
      }, get(64));
    } },
  { "memory asked for in a body", "allocates none", [] {
      graph_of([](CUdeviceptr x) {
        add_node(one, node_by(condition_of(one, 1, 1), CU_GRAPH_COND_TYPE_IF));
        body_of(handed[0], [] { get(64, two); });
      }, get(64));
    } },
  { "a body of another GPU's", "and the stream GPU 1's", [] {
      graph_of([](CUdeviceptr x) {
        add_node(one, node_by(condition_of(one, 1, 1), CU_GRAPH_COND_TYPE_IF));
        CUgraph body = handed[0];
        over_there([=]() { return symbol_cuStreamBeginCaptureToGraph(far, body, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_RELAXED); });
      }, get(64));
    } },
  { "a body that is made a graph of its own", "a conditional node's body", [] {
      graph_of([](CUdeviceptr x) {
        CUgraphExec e;
        add_node(one, node_by(condition_of(one, 1, 1), CU_GRAPH_COND_TYPE_IF));
        symbol_cuGraphInstantiate(&e, handed[0], 0);
      }, get(64));
    } },
  { "a graph with conditional nodes that is instantiated twice", "one instance at a time", [] {
      CUgraph g = nullptr;
      CUgraphExec e;
      symbol_cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_RELAXED);
      add_node(one, node_by(condition_of(one, 1, 1), CU_GRAPH_COND_TYPE_IF));
      symbol_cuStreamEndCapture(one, &g);
      symbol_cuGraphInstantiate(&e, g, 0);
      symbol_cuGraphInstantiate(&e, g, 0);
    } },
  { "a capture that goes on after a node of another graph", "a node of another graph", [] {
      graph_of([](CUdeviceptr x) {
        add_node(one, node_by(condition_of(one, 1, 1), CU_GRAPH_COND_TYPE_IF));
        body_of(handed[0], [=]() {
          CUgraph g; const CUgraphNode *after; const CUgraphEdgeData *edges; size_t n; int status; cuuint64_t id;
          symbol_cuStreamGetCaptureInfo(one, &status, &id, &g, &after, &edges, &n);
          CUgraphNode of_another = after[0];
          symbol_cuStreamUpdateCaptureDependencies(two, &of_another, nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
        });
      }, get(64));
    } },
  { "a stream that was destroyed", "no such stream", [] {
      CUstream s = nullptr;
      symbol_cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
      symbol_cuStreamDestroy(s);
      symbol_cuStreamSynchronize(s);
    } },
};

/* What the host reads of a copy too early is not what was copied. */
static bool early_read_is_seen() {
  float *back = (float *)pin(64);
  CUdeviceptr x = get(64);
  zero(x, 64);
  symbol_cuMemcpyDtoHAsync(back, x, 64, one);
  const bool poisoned = back[0] != 0;
  symbol_cuStreamSynchronize(one);
  return poisoned && back[0] == 0;
}
static CUgraph captured(const std::function<void()> &work, CUstream s = nullptr) {
  CUgraph g = nullptr;
  symbol_cuStreamBeginCapture(s ? s : one, CU_STREAM_CAPTURE_MODE_RELAXED);
  work();
  symbol_cuStreamEndCapture(s ? s : one, &g);
  return g;
}
/* What becomes of an executable graph of `was` that is to be one of `is`; at: which node is said to be wrong, in
 * `is`. */
static int becomes(const std::function<void()> &was, const std::function<void()> &is, bool says_which = true,
                   CUstream s = nullptr) {
  CUgraphExecUpdateResultInfo info;
  CUgraphExec e = nullptr;
  CUgraph first = captured(was), second = s ? over_there([&]() { return captured(is, s); }) : captured(is);
  symbol_cuGraphInstantiate(&e, first, 0);
  const CUresult result = symbol_cuGraphExecUpdate(e, second, &info);
  const bool told = !info.result || !says_which || info.errorNode;
  return (result == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) == (info.result != 0) && told ? info.result : -1;
}
/* What an executable graph can become, and what it cannot. */
static bool another_form_is_refused() {
  CUdeviceptr x = get(64), y = get(64);
  void *p = pin(64);
  zero(x, 64);
  zero(y, 64);
  const auto in = [=]() { symbol_cuMemcpyHtoDAsync(x, p, 64, one); };
  const auto within = [=]() { symbol_cuMemcpyDtoDAsync(x, y, 64, one); };
  const auto two_after = [=]() { negate(x); order(one, two); neg(x, x, 16, two); neg(y, y, 16, one); order(two, one); };
  const auto by_condition = [=]() {
    add_node(one, node_by(condition_of(one, 1, CU_GRAPH_COND_ASSIGN_DEFAULT), CU_GRAPH_COND_TYPE_IF));
    body_of(handed[0], [=]() { neg(x, x, 16, two); });
  };
  const CUdeviceptr z = get_there(64);
  const auto there_too = [=]() {
    CUmodule mine = module;
    symbol_cuModuleLoadData(&module, "no image");
    neg(z, z, 16, far);
    module = mine;
  };
  const auto in_turn = [=]() { negate(x); neg(x, x, 16, one); neg(y, y, 16, one); };
  return becomes([=]() { negate(x); }, [=]() { negate(x); negate(x); }, false) == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED &&
         becomes(two_after, in_turn) == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED &&
         becomes([=]() { negate(x); }, [=]() { zero(x, 64); }) == CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED &&
         becomes(in, within) == CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED &&
         becomes([=]() { zero(x, 64); }, [=]() { zero(y, 32); }) == CU_GRAPH_EXEC_UPDATE_SUCCESS &&
         becomes(in, [=]() { symbol_cuMemcpyHtoDAsync(y, p, 32, one); }) == CU_GRAPH_EXEC_UPDATE_SUCCESS &&
         becomes([=]() { negate(x); }, [=]() { dfc_unary u = { nullptr, (void *)(uintptr_t)x, 16, 0 }; launch("k_zoo_crowd", &u, one); }) ==
             CU_GRAPH_EXEC_UPDATE_SUCCESS &&
         becomes(by_condition, by_condition) == CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED &&
         becomes([=]() { zero(x, 64); }, [=]() { zero(z, 64, far); }, true, far) == CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED &&
         becomes([=]() { negate(x); }, there_too, true, far) == CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
}
/* Memory that nobody wrote to holds NaN. */
static bool fresh_memory_is_poisoned() {
  float *back = (float *)pin(64);
  symbol_cuMemcpyDtoHAsync(back, get(64), 64, one);
  symbol_cuStreamSynchronize(one);
  return back[0] != back[0];
}

int main() {
  setenv("DFLOW_STRICT_QUIET", "1", 1);
  CUdevice device;
  setenv("DFLOW_STRICT_GPUS", "2", 1);
  symbol_cuInit(0);
  symbol_cuDeviceGet(&device, 1);
  symbol_cuDevicePrimaryCtxRetain(&there, device);
  symbol_cuCtxSetCurrent(there);
  symbol_cuStreamCreate(&far, CU_STREAM_NON_BLOCKING);
  symbol_cuDeviceGet(&device, 0);
  symbol_cuDevicePrimaryCtxRetain(&here, device);
  symbol_cuCtxSetCurrent(here);
  symbol_cuStreamCreate(&one, CU_STREAM_NON_BLOCKING);
  symbol_cuStreamCreate(&two, CU_STREAM_NON_BLOCKING);
  symbol_cuModuleLoadData(&module, "no image");
  int passed = 0, failed = 0;
  for (const beast &b : zoo)
    for (uint64_t seed = 1; seed <= 5; seed++) {         /* in several orders */
      static char said[4096];
      strict_forget(seed);
      symbol_cuCtxSetCurrent(here);
      b.run();
      const size_t n = strict_reports(said, sizeof said);
      const bool right = *b.says ? n > 0 && strstr(said, b.says) : n == 0;
      if (right) passed++; else { failed++; printf("%s, seed %d: reported %s\n", b.name, (int)seed, n ? said : "nothing"); }
    }
  strict_forget(1);
  symbol_cuCtxSetCurrent(here);
  if (early_read_is_seen()) passed++; else { failed++; printf("an early read of a copy is not seen\n"); }
  if (fresh_memory_is_poisoned()) passed++; else { failed++; printf("fresh memory is not poisoned\n"); }
  if (another_form_is_refused()) passed++; else { failed++; printf("a graph becomes one of another form\n"); }
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
