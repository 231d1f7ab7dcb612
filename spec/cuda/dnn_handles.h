/* dnn_handles.h: what the files of cuDNN for tests share: its handles, of which it knows each, what they describe, and
 * elements of its types. */
#ifndef DFLOW_STRICT_DNN_HANDLES_H
#define DFLOW_STRICT_DNN_HANDLES_H
#include "enqueue.h"
#include "../../kernels/cuda/dnn.h"
#include "../../kernels/half.h"
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

struct cudnnContext { CUstream stream; };
struct cudnnTensorStruct { int type = -1, n = 0, c = 0, h = 0, w = 0, format = CUDNN_TENSOR_NHWC; };
struct cudnnFilterStruct { int type = -1, k = 0, c = 0, h = 0, w = 0; };
struct cudnnConvolutionStruct {
  int pad[2], stride[2], dilation[2], compute = -1, math = CUDNN_DEFAULT_MATH;
  int asked = -1;                        /* the math when algorithms were asked for; -1: they were not */
  std::set<std::pair<int, int>> told;    /* algorithms with the math that each goes by */
};
struct cudnnActivationStruct { int mode = -1, nan = 0; };
struct cudnnPoolingStruct { int mode = -1, window[2], pad[2], stride[2]; };

inline std::mutex strict_dnn_lock;                       /* guards what follows */
inline std::set<const void *> strict_dnn_handles;

static inline bool known(const void *h) {
  std::lock_guard<std::mutex> guard(strict_dnn_lock);
  return strict_dnn_handles.count(h) > 0;
}
template <class T> static cudnnStatus_t make(T **to) {
  std::lock_guard<std::mutex> guard(strict_dnn_lock);
  strict_dnn_handles.insert(*to = new T());
  return CUDNN_STATUS_SUCCESS;
}
static inline cudnnStatus_t wrong(const char *call, const std::string &what) {
  strict_misuse(call, what);
  return CUDNN_STATUS_BAD_PARAM;
}

static inline size_t width(int type) { return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2; }
static inline size_t size_of(const cudnnTensorStruct &t) { return (size_t)t.n * t.c * t.h * t.w; }
static inline size_t bytes_of(const cudnnTensorStruct &t) { return size_of(t) * width(t.type); }
/* Where an element lies. */
static inline int64_t place(const cudnnTensorStruct &t, int n, int c, int h, int w) {
  return t.format == CUDNN_TENSOR_NHWC ? (((int64_t)n * t.h + h) * t.w + w) * t.c + c
                                       : (((int64_t)n * t.c + c) * t.h + h) * t.w + w;
}

static inline double load(const char *p, int type, int64_t i) {
  switch (type) {
    case CUDNN_DATA_DOUBLE: return ((const double *)p)[i];
    case CUDNN_DATA_HALF: return dfk_f16_to_float(((const uint16_t *)p)[i]);
    case CUDNN_DATA_BFLOAT16: return dfk_bf16_to_float(((const uint16_t *)p)[i]);
    default: return ((const float *)p)[i];
  }
}
static inline void store(char *p, int type, int64_t i, double x) {
  switch (type) {
    case CUDNN_DATA_DOUBLE: ((double *)p)[i] = x; break;
    case CUDNN_DATA_HALF: ((uint16_t *)p)[i] = dfk_f16_from_float((float)x); break;
    case CUDNN_DATA_BFLOAT16: ((uint16_t *)p)[i] = dfk_bf16_from_float((float)x); break;
    default: ((float *)p)[i] = (float)x;
  }
}

/* What results are multiplied with, and what was there before, are 1 and 0. */
static inline bool plain(int type, const void *alpha, const void *beta) {
  if (type == CUDNN_DATA_DOUBLE) return *(const double *)alpha == 1 && *(const double *)beta == 0;
  return *(const float *)alpha == 1 && *(const float *)beta == 0;
}
/* A reason of its own, where DFLOW_STRICT_REFUSES says no other status. */
static inline cudnnStatus_t strict_dnn_refusal() {
  const int status = atoi(getenv("DFLOW_STRICT_REFUSES"));
  return status > 1 ? status : CUDNN_STATUS_NOT_SUPPORTED + 3;
}
#define API STRICT_API cudnnStatus_t
#define AT(p) (char *)(uintptr_t)(p)
#endif
