/* dnn.c: cuDNN, opened, and its convolutions. See dnn.h. */
#include "dnn.h"
#include "blas.h"
#include "../window.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

dfc_dnn_calls dfc_dnn;
static dfc_library library = DFC_LIBRARY("libcudnn.so.9");

bool dfc_dnn_open(void) {
#define X(result, name, params) { #name, (void **)&dfc_dnn.name },
  static const dfc_symbol symbols[] = { DFC_DNN(X) { NULL, NULL } };
#undef X
  return dfc_library_open(&library, symbols);
}

#define DFC_DNN_DOES "convolutions, pooling, softmax, batch norms: "
void dfc_dnn_about(dfc_gpu *g, char *out, size_t room) {
  if (!library.looked) snprintf(out, room, DFC_DNN_DOES "none was asked for yet");
  else if (!library.there)
    snprintf(out, room, DFC_DNN_DOES "dflow's own kernels, as there is no cuDNN (%s)", library.why);
  else {
    const size_t v = dfc_dnn.cudnnGetVersion();
    snprintf(out, room, DFC_DNN_DOES "cuDNN %d.%d.%d, float32 as %s", (int)(v / 10000), (int)(v / 100 % 100),
             (int)(v % 100), g->math ? "tf32" : "float32");
  }
}

/* ---- what is kept by geometry ------------------------------------------------------------------------------------ */

/* The window of `in` that the library sees: `behind` more rows and columns of zeros, so that as much is padded on one
 * side as on the other. */
typedef struct key { int64_t n, ci, co; dfc_axis y, x; int64_t behind_y, behind_x; int32_t side, dtype; } key;
struct dfc_dnn_plan {
  key key;                                /* n 0: empty */
  cudnnConvolutionDescriptor_t how;       /* NULL: the library has nothing for it */
  cudnnTensorDescriptor_t in, out;
  cudnnFilterDescriptor_t filter;
  cudnnTensorDescriptor_t channels;       /* a vector for the output's, and what becomes of the sum: */
  cudnnActivationDescriptor_t ends[2];    /* itself, its ReLU; NULL: not asked for yet */
  bool ends_not[2];                       /* the library does not */
  int algo;
  size_t workspace;
};
enum { PLANS = 128, ALGORITHMS = 8 };
static const size_t WORKSPACE_MOST = (size_t)256 << 20;

int dfc_dnn_type(int32_t dtype) {
  return dtype == DF_FLOAT32 ? CUDNN_DATA_FLOAT : dtype == DF_FLOAT64 ? CUDNN_DATA_DOUBLE
         : dtype == DF_FLOAT16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
}

/* How much more must be padded behind than before. Below 0: what is padded before is not all reached. */
static int64_t behind(const dfc_axis *a) {
  const int64_t reach = (a->window - 1) * a->dilation + 1, after = (a->out - 1) * a->stride + reach - a->in - a->before;
  return after > a->before ? after - a->before : 0;
}

static key key_of(const dfc_window *p, int32_t dtype) {
  key k;
  memset(&k, 0, sizeof k);
  k.n = p->n; k.ci = p->ci; k.co = p->co; k.y = p->y; k.x = p->x;
  k.behind_y = behind(&p->y); k.behind_x = behind(&p->x);
  k.side = p->side; k.dtype = dtype;
  return k;
}

/* The library counts places as this does, and elements in int. */
bool dfc_dnn_axis_fits(const dfc_axis *a, int64_t more) {
  const int64_t reach = (a->window - 1) * a->dilation + 1;
  if (a->stride > INT_MAX || a->dilation > INT_MAX || a->before > INT_MAX || a->in + more > INT_MAX) return false;
  return a->before >= 0 && a->out > 0 && (a->in + more + 2 * a->before - reach) / a->stride + 1 == a->out;
}
static bool fits(const key *k) {
  if (k->n <= 0 || k->ci <= 0 || k->co <= 0) return false;
  if (!dfc_dnn_axis_fits(&k->y, k->behind_y) || !dfc_dnn_axis_fits(&k->x, k->behind_x)) return false;
  const double in = (double)k->n * (double)(k->y.in + k->behind_y) * (double)(k->x.in + k->behind_x) * (double)k->ci,
               out = (double)k->n * (double)k->y.out * (double)k->x.out * (double)k->co,
               filter = (double)k->y.window * (double)k->x.window * (double)k->ci * (double)k->co;
  return in <= INT_MAX && out <= INT_MAX && filter <= INT_MAX;
}

bool dfc_dnn_good(dfc_gpu *g, cudnnStatus_t status, const char *what) {
  if (status == CUDNN_STATUS_SUCCESS) return true;
  const char *why = dfc_dnn.cudnnGetErrorString(status);
  if (!(dfc_capturing && dfc_capture_wrong(g, what, why)) && !g->said[0])
    snprintf(g->said, sizeof g->said, "%s: %s", what, why);
  return false;
}
#define GOOD(call, ...) dfc_dnn_good(g, dfc_dnn.call(__VA_ARGS__), #call)

bool dfc_dnn_ready(dfc_call *c) {
  dfc_gpu *g = c->g;
  return c->ok = (g->dnn || GOOD(cudnnCreate, &g->dnn)) && GOOD(cudnnSetStream, g->dnn, dfc_stream(g));
}

static void forget(struct dfc_dnn_plan *q) {
  if (q->in) dfc_dnn.cudnnDestroyTensorDescriptor(q->in);
  if (q->out) dfc_dnn.cudnnDestroyTensorDescriptor(q->out);
  if (q->filter) dfc_dnn.cudnnDestroyFilterDescriptor(q->filter);
  if (q->how) dfc_dnn.cudnnDestroyConvolutionDescriptor(q->how);
  if (q->channels) dfc_dnn.cudnnDestroyTensorDescriptor(q->channels);
  for (int i = 0; i < 2; i++) if (q->ends[i]) dfc_dnn.cudnnDestroyActivationDescriptor(q->ends[i]);
  memset(q, 0, sizeof *q);
}

static bool describe(dfc_gpu *g, struct dfc_dnn_plan *q) {
  const key *k = &q->key;
  const int type = dfc_dnn_type(k->dtype), compute = k->dtype == DF_FLOAT64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  const bool half = k->dtype == DF_FLOAT16 || k->dtype == DF_BFLOAT16;
  const int math = half ? CUDNN_TENSOR_OP_MATH : g->math ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
  return GOOD(cudnnCreateTensorDescriptor, &q->in) && GOOD(cudnnCreateTensorDescriptor, &q->out) &&
         GOOD(cudnnCreateFilterDescriptor, &q->filter) && GOOD(cudnnCreateConvolutionDescriptor, &q->how) &&
         GOOD(cudnnSetTensor4dDescriptor, q->in, CUDNN_TENSOR_NHWC, type, (int)k->n, (int)k->ci,
              (int)(k->y.in + k->behind_y), (int)(k->x.in + k->behind_x)) &&
         GOOD(cudnnSetTensor4dDescriptor, q->out, CUDNN_TENSOR_NHWC, type, (int)k->n, (int)k->co, (int)k->y.out,
              (int)k->x.out) &&
         GOOD(cudnnSetFilter4dDescriptor, q->filter, type, CUDNN_TENSOR_NHWC, (int)k->co, (int)k->ci, (int)k->y.window,
              (int)k->x.window) &&
         GOOD(cudnnSetConvolution2dDescriptor, q->how, (int)k->y.before, (int)k->x.before, (int)k->y.stride,
              (int)k->x.stride, (int)k->y.dilation, (int)k->x.dilation, CUDNN_CROSS_CORRELATION, compute) &&
         GOOD(cudnnSetConvolutionMathType, q->how, math);
}

/* The workspace that the plan's algorithm wants with the description's kind of math. False: they do not go together. */
static bool ask_workspace(dfc_gpu *g, struct dfc_dnn_plan *q, size_t *bytes) {
  const dfc_dnn_calls *of = &dfc_dnn;
  switch (q->key.side) {
    case DFK_OUTPUT:
      return !of->cudnnGetConvolutionForwardWorkspaceSize(g->dnn, q->in, q->filter, q->how, q->out, q->algo, bytes);
    case DFK_INPUT:
      return !of->cudnnGetConvolutionBackwardDataWorkspaceSize(g->dnn, q->filter, q->out, q->how, q->in, q->algo,
                                                               bytes);
    default:
      return !of->cudnnGetConvolutionBackwardFilterWorkspaceSize(g->dnn, q->in, q->out, q->how, q->filter, q->algo,
                                                                 bytes);
  }
}

/* Takes an answer, which is an algorithm, a kind of math and a workspace in one: the description says that kind from
 * now on. float32 that shall stay so takes no tensor cores; and the default, by which the library may mean them since
 * the A100, becomes the kind that never does, with the workspace that it wants then. */
static bool take(dfc_gpu *g, struct dfc_dnn_plan *q, const cudnnConvolutionFwdAlgoPerf_t *a) {
  const bool strict = q->key.dtype == DF_FLOAT32 && !g->math;
  if (a->status != CUDNN_STATUS_SUCCESS || a->determinism != CUDNN_DETERMINISTIC) return false;
  if (strict && a->mathType != CUDNN_DEFAULT_MATH && a->mathType != CUDNN_FMA_MATH) return false;
  const int math = strict ? CUDNN_FMA_MATH : a->mathType;
  size_t bytes = a->memory;
  q->algo = a->algo;
  if (dfc_dnn.cudnnSetConvolutionMathType(q->how, math)) return false;
  if (math != a->mathType && !ask_workspace(g, q, &bytes)) return false;
  q->workspace = bytes;
  return bytes <= WORKSPACE_MOST;
}

/* The first of the algorithms, the library's best, that gives the same bits each time and asks for no more memory than
 * there may be. False: there is none. */
static bool choose(dfc_gpu *g, struct dfc_dnn_plan *q) {
  cudnnConvolutionFwdAlgoPerf_t found[ALGORITHMS];
  int n = 0;
  const dfc_dnn_calls *of = &dfc_dnn;
  const cudnnStatus_t status =
      q->key.side == DFK_OUTPUT ? of->cudnnGetConvolutionForwardAlgorithm_v7(g->dnn, q->in, q->filter, q->how, q->out,
                                                                             ALGORITHMS, &n, found)
      : q->key.side == DFK_INPUT ? of->cudnnGetConvolutionBackwardDataAlgorithm_v7(g->dnn, q->filter, q->out, q->how,
                                                                                   q->in, ALGORITHMS, &n, found)
                                 : of->cudnnGetConvolutionBackwardFilterAlgorithm_v7(g->dnn, q->in, q->out, q->how,
                                                                                     q->filter, ALGORITHMS, &n, found);
  for (int i = 0; status == CUDNN_STATUS_SUCCESS && i < n; i++) if (take(g, q, &found[i])) return true;
  return false;
}

/* The library has nothing for this geometry, or says so (by a number of its own for each reason) when it is asked to do
 * what it offered: our own kernel does it. */
static void has_nothing(struct dfc_dnn_plan *q) {
  const key k = q->key;
  forget(q);
  q->key = k;
}

static struct dfc_dnn_plan *plan_of(dfc_gpu *g, const key *k) {
  if (!g->dnn_plan && !(g->dnn_plan = calloc(PLANS, sizeof *g->dnn_plan))) return NULL;
  uint64_t words[sizeof *k / 8], h = 1469598103934665603ull;
  memcpy(words, k, sizeof words);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) h = (h ^ words[i]) * 0x9e3779b97f4a7c15ull, h ^= h >> 29;
  struct dfc_dnn_plan *q = &g->dnn_plan[(h >> 32) % PLANS];
  if (!memcmp(&q->key, k, sizeof *k)) return q;
  forget(q);
  q->key = *k;
  if (!describe(g, q)) { forget(q); return NULL; }
  if (!choose(g, q)) has_nothing(q);
  return q;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* A box of elements from place to place: dims of 1 at the end are free. */
static void move(dfc_call *c, int32_t dtype, const void *from, void *to, int64_t rank, const int64_t *dims,
                 const int64_t *from_step, const int64_t *to_step) {
  dfc_moving m;
  memset(&m, 0, sizeof m);
  m.from = from; m.to = to; m.rank = rank; m.n = 1;
  for (int64_t d = 0; d < rank; d++) {
    m.dims[d] = dims[d]; m.from_step[d] = from_step[d]; m.to_step[d] = to_step[d];
    m.n *= dims[d];
  }
  dfc_run(c, dfc_width_name("move", df_dtype_bytes(dtype)), m.n, &m);
}

/* [h w in, out] and [out, h w in] */
static void turn_filter(dfc_call *c, const key *k, const void *from, void *to, bool back) {
  const int64_t taps = k->y.window * k->x.window * k->ci, dims[2] = { k->co, taps };
  const int64_t ours[2] = { 1, k->co }, theirs[2] = { taps, 1 };
  move(c, k->dtype, from, to, 2, dims, back ? theirs : ours, back ? ours : theirs);
}

/* Between the image and the larger one that it is the first rows and columns of. */
static void frame_image(dfc_call *c, const key *k, const void *from, void *to, bool back) {
  const int64_t dims[3] = { k->n, k->y.in, k->x.in * k->ci }, row = (k->x.in + k->behind_x) * k->ci;
  const int64_t small[3] = { k->y.in * k->x.in * k->ci, k->x.in * k->ci, 1 },
                large[3] = { (k->y.in + k->behind_y) * row, row, 1 };
  move(c, k->dtype, from, to, 3, dims, back ? large : small, back ? small : large);
}

static int64_t bytes_of(const key *k, int64_t elements) { return elements * df_dtype_bytes(k->dtype); }

/* The image as the library is given it: itself, or where it has its frame of zeros. */
static const void *framed(dfc_call *c, const key *k, const void *in) {
  if (!k->behind_y && !k->behind_x) return in;
  const int64_t bytes = bytes_of(k, k->n * (k->y.in + k->behind_y) * (k->x.in + k->behind_x) * k->ci);
  void *large = dfc_temporary(c, NULL, bytes);
  if (c->ok)
    c->ok = dfc_ok(c->g, dfc_cu.cuMemsetD8Async((CUdeviceptr)(uintptr_t)large, 0, (size_t)bytes, dfc_stream(c->g)),
                   "cuMemsetD8Async");
  if (k->side != DFK_INPUT) frame_image(c, k, in, large, false);
  return large;
}

static cudnnStatus_t launch(dfc_call *c, const struct dfc_dnn_plan *q, void *workspace, const void *in,
                            const void *filter, const void *out) {
  dfc_gpu *g = c->g;
  const float one = 1, none = 0;
  const double wide_one = 1, wide_none = 0;
  const bool wide = q->key.dtype == DF_FLOAT64;
  const void *alpha = wide ? (const void *)&wide_one : &one, *beta = wide ? (const void *)&wide_none : &none;
  switch (q->key.side) {
    case DFK_OUTPUT:
      return dfc_dnn.cudnnConvolutionForward(g->dnn, alpha, q->in, in, q->filter, filter, q->how, q->algo, workspace,
                                             q->workspace, beta, q->out, (void *)(uintptr_t)out);
    case DFK_INPUT:
      return dfc_dnn.cudnnConvolutionBackwardData(g->dnn, alpha, q->filter, filter, q->out, out, q->how, q->algo,
                                                  workspace, q->workspace, beta, q->in, (void *)(uintptr_t)in);
    default:
      return dfc_dnn.cudnnConvolutionBackwardFilter(g->dnn, alpha, q->in, in, q->out, out, q->how, q->algo, workspace,
                                                    q->workspace, beta, q->filter, (void *)(uintptr_t)filter);
  }
}

/* What the library has for this. NULL: it is for our own kernel, or c->ok says what is wrong. */
static struct dfc_dnn_plan *plan_for(dfc_call *c, const key *k) {
  if (!(DFC_FLOATS >> k->dtype & 1) || !c->ok || !fits(k) || !dfc_dnn_open() || !dfc_dnn_ready(c)) return NULL;
  struct dfc_dnn_plan *q = plan_of(c->g, k);
  c->ok = q != NULL;
  return q && q->how ? q : NULL;
}

/* A vector for the channels, and what becomes of the sum. False: the device's error says why. */
static bool describe_ends(dfc_gpu *g, struct dfc_dnn_plan *q, bool relu) {
  return (q->channels || (GOOD(cudnnCreateTensorDescriptor, &q->channels) &&
                          GOOD(cudnnSetTensor4dDescriptor, q->channels, CUDNN_TENSOR_NHWC, dfc_dnn_type(q->key.dtype),
                               1, (int)q->key.co, 1, 1))) &&
         (q->ends[relu] || (GOOD(cudnnCreateActivationDescriptor, &q->ends[relu]) &&
                            GOOD(cudnnSetActivationDescriptor, q->ends[relu],
                                 relu ? CUDNN_ACTIVATION_RELU : CUDNN_ACTIVATION_IDENTITY, CUDNN_PROPAGATE_NAN, 0)));
}

/* The workspace of a plan, which is looked up again then: making room for the memory may have let another thread take
 * its place. False: it is for our own kernel, or c->ok says what is wrong. */
static bool workspace_of(dfc_call *c, const key *k, struct dfc_dnn_plan **q, void **workspace) {
  const size_t wanted = (*q)->workspace;
  *workspace = wanted ? dfc_temporary(c, NULL, (int64_t)wanted) : NULL;
  *q = plan_for(c, k);
  return c->ok && *q && (*q)->workspace == wanted;
}

/* Nothing was enqueued: it has no kernel, or none for these numbers. */
static bool is_missing(cudnnStatus_t status) {
  return status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000 || status / 1000 == CUDNN_STATUS_BAD_PARAM / 1000;
}

bool dfc_dnn_run_biased(dfc_call *c, const dfc_window *p, int32_t dtype, const void *bias, bool relu) {
  dfc_gpu *g = c->g;
  const key k = key_of(p, dtype);
  struct dfc_dnn_plan *q = plan_for(c, &k);
  if (!q || q->ends_not[relu] || (!relu && q->algo != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM)) return false;
  const float one = 1, none = 0;
  const double wide_one = 1, wide_none = 0;
  const bool wide = dtype == DF_FLOAT64;
  const void *in = framed(c, &k, p->in);
  void *filter = dfc_temporary(c, NULL, bytes_of(&k, k.y.window * k.x.window * k.ci * k.co));
  turn_filter(c, &k, p->filter, filter, false);
  void *workspace;
  if (!workspace_of(c, &k, &q, &workspace)) return false;
  if (!describe_ends(g, q, relu)) return c->ok = false;
  const cudnnStatus_t status = dfc_dnn.cudnnConvolutionBiasActivationForward(
      g->dnn, wide ? (const void *)&wide_one : &one, q->in, in, q->filter, filter, q->how, q->algo, workspace,
      q->workspace, wide ? (const void *)&wide_none : &none, q->out, p->to, q->channels, bias, q->ends[relu], q->out,
      p->to);
  if (is_missing(status)) { q->ends_not[relu] = true; return false; }
  g->launches++;
  return c->ok = dfc_dnn_good(g, status, "a convolution with its bias by cuDNN");
}

bool dfc_dnn_run(dfc_call *c, const dfc_window *p, int32_t dtype) {
  dfc_gpu *g = c->g;
  const key k = key_of(p, dtype);
  struct dfc_dnn_plan *q = plan_for(c, &k);
  if (!q) return false;
  const int64_t weights = k.y.window * k.x.window * k.ci * k.co;
  const void *in = framed(c, &k, k.side == DFK_INPUT ? p->to : p->in), *out = k.side == DFK_OUTPUT ? p->to : p->out;
  void *filter = dfc_temporary(c, NULL, bytes_of(&k, weights));
  if (k.side != DFK_FILTER) turn_filter(c, &k, p->filter, filter, false);
  void *workspace;
  if (!workspace_of(c, &k, &q, &workspace)) return false;
  const cudnnStatus_t status = launch(c, q, workspace, in, filter, out);
  if (is_missing(status)) { has_nothing(q); return false; }
  g->launches++;
  c->ok = dfc_dnn_good(g, status, "a convolution by cuDNN");
  if (k.side == DFK_FILTER) turn_filter(c, &k, filter, p->to, true);
  if (k.side == DFK_INPUT && in != p->to) frame_image(c, &k, in, p->to, true);
  return c->ok;
}
