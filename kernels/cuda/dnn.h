/* dnn.h: convolutions, pooling, softmax and batch normalisation by cuDNN, opened when the first is asked for.
 *
 * What the library chose for a geometry (its algorithm and the workspace that it wants) is kept; only algorithms that
 * give the same bits every time are taken. float32 is computed in float32 unless DFLOW_GPU_MATH lets it be rounded.
 * Filters lie as [h, w, in, out] here and as [out, h, w, in] there. Where more is padded behind than before, which the
 * library does not know, the image is copied into a larger one. Without the library, or for what it does not take, all
 * this is our own kernels'.
 *
 * Of layers (dnn_layers.c) these stay ours: the gradient of a maximum, as the library does not say which of equal
 * pixels it goes to, and TensorFlow's is the first; windows that are padded more behind than before; integers; what
 * comes back through moments that are given.
 */
#ifndef DFLOW_CUDA_DNN_H
#define DFLOW_CUDA_DNN_H
#include "driver.h"

#ifndef CUDNN_H_                          /* NVIDIA's own header is not here */
typedef int cudnnStatus_t, cudnnDataType_t, cudnnTensorFormat_t, cudnnConvolutionMode_t, cudnnMathType_t,
    cudnnDeterminism_t, cudnnConvolutionFwdAlgo_t, cudnnConvolutionBwdDataAlgo_t, cudnnConvolutionBwdFilterAlgo_t,
    cudnnPoolingMode_t, cudnnNanPropagation_t, cudnnSoftmaxAlgorithm_t, cudnnSoftmaxMode_t, cudnnBatchNormMode_t,
    cudnnActivationMode_t;
typedef struct cudnnContext *cudnnHandle_t;
typedef struct cudnnTensorStruct *cudnnTensorDescriptor_t;
typedef struct cudnnFilterStruct *cudnnFilterDescriptor_t;
typedef struct cudnnConvolutionStruct *cudnnConvolutionDescriptor_t;
typedef struct cudnnPoolingStruct *cudnnPoolingDescriptor_t;
typedef struct cudnnActivationStruct *cudnnActivationDescriptor_t;
typedef struct {
  int algo;
  cudnnStatus_t status;
  float time;
  size_t memory;
  cudnnDeterminism_t determinism;
  cudnnMathType_t mathType;
  int reserved[3];
} cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdFilterAlgoPerf_t;
#ifndef CUBLASAPI
typedef CUstream cudaStream_t;
#endif
#endif

/* X(name, number): what of the library's numbers is used. */
#define DFC_NUMBERS_OF_DNN(X) \
  X(CUDNN_STATUS_SUCCESS, 0) X(CUDNN_STATUS_BAD_PARAM, 2000) X(CUDNN_STATUS_NOT_SUPPORTED, 3000) \
  X(CUDNN_STATUS_EXECUTION_FAILED, 5000) \
  X(CUDNN_DATA_FLOAT, 0) X(CUDNN_DATA_DOUBLE, 1) X(CUDNN_DATA_HALF, 2) X(CUDNN_DATA_BFLOAT16, 9) \
  X(CUDNN_TENSOR_NCHW, 0) X(CUDNN_TENSOR_NHWC, 1) X(CUDNN_CROSS_CORRELATION, 1) X(CUDNN_DETERMINISTIC, 1) \
  X(CUDNN_DEFAULT_MATH, 0) X(CUDNN_TENSOR_OP_MATH, 1) X(CUDNN_FMA_MATH, 3) \
  X(CUDNN_POOLING_MAX, 0) X(CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING, 2) X(CUDNN_PROPAGATE_NAN, 1) \
  X(CUDNN_SOFTMAX_ACCURATE, 1) X(CUDNN_SOFTMAX_LOG, 2) X(CUDNN_SOFTMAX_MODE_INSTANCE, 0) \
  X(CUDNN_BATCHNORM_SPATIAL, 1) X(CUDNN_ACTIVATION_RELU, 1) X(CUDNN_ACTIVATION_IDENTITY, 5) \
  X(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, 1)
#ifndef CUDNN_H_
#define NUMBER(name, number) enum { name = number };
DFC_NUMBERS_OF_DNN(NUMBER)
#undef NUMBER
#endif

/* X(result, name, parameters) */
#define DFC_DNN(X) \
  X(size_t, cudnnGetVersion, (void)) \
  X(const char *, cudnnGetErrorString, (cudnnStatus_t status)) \
  X(cudnnStatus_t, cudnnCreate, (cudnnHandle_t *handle)) \
  X(cudnnStatus_t, cudnnSetStream, (cudnnHandle_t handle, cudaStream_t stream)) \
  X(cudnnStatus_t, cudnnCreateTensorDescriptor, (cudnnTensorDescriptor_t *tensor)) \
  X(cudnnStatus_t, cudnnDestroyTensorDescriptor, (cudnnTensorDescriptor_t tensor)) \
  X(cudnnStatus_t, cudnnSetTensor4dDescriptor, \
    (cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format, cudnnDataType_t type, int n, int c, int h, int w)) \
  X(cudnnStatus_t, cudnnCreateFilterDescriptor, (cudnnFilterDescriptor_t *filter)) \
  X(cudnnStatus_t, cudnnDestroyFilterDescriptor, (cudnnFilterDescriptor_t filter)) \
  X(cudnnStatus_t, cudnnSetFilter4dDescriptor, \
    (cudnnFilterDescriptor_t filter, cudnnDataType_t type, cudnnTensorFormat_t format, int k, int c, int h, int w)) \
  X(cudnnStatus_t, cudnnCreateConvolutionDescriptor, (cudnnConvolutionDescriptor_t *convolution)) \
  X(cudnnStatus_t, cudnnDestroyConvolutionDescriptor, (cudnnConvolutionDescriptor_t convolution)) \
  X(cudnnStatus_t, cudnnSetConvolution2dDescriptor, \
    (cudnnConvolutionDescriptor_t convolution, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h, \
      int dilation_w, cudnnConvolutionMode_t mode, cudnnDataType_t compute)) \
  X(cudnnStatus_t, cudnnSetConvolutionMathType, (cudnnConvolutionDescriptor_t convolution, cudnnMathType_t math)) \
  X(cudnnStatus_t, cudnnGetConvolutionForwardAlgorithm_v7, \
    (cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w, \
      const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t y, const int wanted, int *count, \
      cudnnConvolutionFwdAlgoPerf_t *found)) \
  X(cudnnStatus_t, cudnnGetConvolutionBackwardDataAlgorithm_v7, \
    (cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy, \
      const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t dx, const int wanted, int *count, \
      cudnnConvolutionBwdDataAlgoPerf_t *found)) \
  X(cudnnStatus_t, cudnnGetConvolutionBackwardFilterAlgorithm_v7, \
    (cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy, \
      const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t dw, const int wanted, int *count, \
      cudnnConvolutionBwdFilterAlgoPerf_t *found)) \
  X(cudnnStatus_t, cudnnGetConvolutionForwardWorkspaceSize, \
    (cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w, \
      const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t y, cudnnConvolutionFwdAlgo_t algo, \
      size_t *bytes)) \
  X(cudnnStatus_t, cudnnGetConvolutionBackwardDataWorkspaceSize, \
    (cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy, \
      const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t dx, \
      cudnnConvolutionBwdDataAlgo_t algo, size_t *bytes)) \
  X(cudnnStatus_t, cudnnGetConvolutionBackwardFilterWorkspaceSize, \
    (cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy, \
      const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t dw, \
      cudnnConvolutionBwdFilterAlgo_t algo, size_t *bytes)) \
  X(cudnnStatus_t, cudnnConvolutionForward, \
    (cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t x, const void *x_at, \
      const cudnnFilterDescriptor_t w, const void *w_at, const cudnnConvolutionDescriptor_t convolution, \
      cudnnConvolutionFwdAlgo_t algo, void *workspace, size_t workspace_bytes, const void *beta, \
      const cudnnTensorDescriptor_t y, void *y_at)) \
  X(cudnnStatus_t, cudnnCreateActivationDescriptor, (cudnnActivationDescriptor_t *activation)) \
  X(cudnnStatus_t, cudnnSetActivationDescriptor, \
    (cudnnActivationDescriptor_t activation, cudnnActivationMode_t mode, cudnnNanPropagation_t nan, double number)) \
  X(cudnnStatus_t, cudnnDestroyActivationDescriptor, (cudnnActivationDescriptor_t activation)) \
  X(cudnnStatus_t, cudnnConvolutionBiasActivationForward, \
    (cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t x, const void *x_at, \
      const cudnnFilterDescriptor_t w, const void *w_at, const cudnnConvolutionDescriptor_t convolution, \
      cudnnConvolutionFwdAlgo_t algo, void *workspace, size_t workspace_bytes, const void *alpha_z, \
      const cudnnTensorDescriptor_t z, const void *z_at, const cudnnTensorDescriptor_t bias, const void *bias_at, \
      const cudnnActivationDescriptor_t activation, const cudnnTensorDescriptor_t y, void *y_at)) \
  X(cudnnStatus_t, cudnnConvolutionBackwardData, \
    (cudnnHandle_t handle, const void *alpha, const cudnnFilterDescriptor_t w, const void *w_at, \
      const cudnnTensorDescriptor_t dy, const void *dy_at, const cudnnConvolutionDescriptor_t convolution, \
      cudnnConvolutionBwdDataAlgo_t algo, void *workspace, size_t workspace_bytes, const void *beta, \
      const cudnnTensorDescriptor_t dx, void *dx_at)) \
  X(cudnnStatus_t, cudnnConvolutionBackwardFilter, \
    (cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t x, const void *x_at, \
      const cudnnTensorDescriptor_t dy, const void *dy_at, const cudnnConvolutionDescriptor_t convolution, \
      cudnnConvolutionBwdFilterAlgo_t algo, void *workspace, size_t workspace_bytes, const void *beta, \
      const cudnnFilterDescriptor_t dw, void *dw_at)) \
  X(cudnnStatus_t, cudnnCreatePoolingDescriptor, (cudnnPoolingDescriptor_t *pooling)) \
  X(cudnnStatus_t, cudnnSetPooling2dDescriptor, \
    (cudnnPoolingDescriptor_t pooling, cudnnPoolingMode_t mode, cudnnNanPropagation_t nan, int window_h, int window_w, \
      int pad_h, int pad_w, int stride_h, int stride_w)) \
  X(cudnnStatus_t, cudnnPoolingForward, \
    (cudnnHandle_t handle, const cudnnPoolingDescriptor_t pooling, const void *alpha, const cudnnTensorDescriptor_t x, \
      const void *x_at, const void *beta, const cudnnTensorDescriptor_t y, void *y_at)) \
  X(cudnnStatus_t, cudnnPoolingBackward, \
    (cudnnHandle_t handle, const cudnnPoolingDescriptor_t pooling, const void *alpha, const cudnnTensorDescriptor_t y, \
      const void *y_at, const cudnnTensorDescriptor_t dy, const void *dy_at, const cudnnTensorDescriptor_t x, \
      const void *x_at, const void *beta, const cudnnTensorDescriptor_t dx, void *dx_at)) \
  X(cudnnStatus_t, cudnnSoftmaxForward, \
    (cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algo, cudnnSoftmaxMode_t mode, const void *alpha, \
      const cudnnTensorDescriptor_t x, const void *x_at, const void *beta, const cudnnTensorDescriptor_t y, \
      void *y_at)) \
  X(cudnnStatus_t, cudnnBatchNormalizationForwardTraining, \
    (cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void *alpha, const void *beta, \
      const cudnnTensorDescriptor_t x, const void *x_at, const cudnnTensorDescriptor_t y, void *y_at, \
      const cudnnTensorDescriptor_t channels, const void *scale, const void *offset, double factor, \
      void *running_mean, void *running_variance, double epsilon, void *saved_mean, void *saved_inverse)) \
  X(cudnnStatus_t, cudnnBatchNormalizationForwardInference, \
    (cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void *alpha, const void *beta, \
      const cudnnTensorDescriptor_t x, const void *x_at, const cudnnTensorDescriptor_t y, void *y_at, \
      const cudnnTensorDescriptor_t channels, const void *scale, const void *offset, const void *mean, \
      const void *variance, double epsilon)) \
  X(cudnnStatus_t, cudnnBatchNormalizationBackward, \
    (cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void *alpha, const void *beta, const void *alpha_channels, \
      const void *beta_channels, const cudnnTensorDescriptor_t x, const void *x_at, const cudnnTensorDescriptor_t dy, \
      const void *dy_at, const cudnnTensorDescriptor_t dx, void *dx_at, const cudnnTensorDescriptor_t channels, \
      const void *scale, void *dscale, void *doffset, double epsilon, const void *saved_mean, \
      const void *saved_inverse))

#if !defined(CUDNN_H_) && !defined(__cplusplus)
#include "plugin.h"
/* Enqueues what makes side p->side of the other two, of that dtype. False: it is for our own kernel, and nothing was
 * written; or the call has failed, and says so. */
bool dfc_dnn_run(dfc_call *c, const dfc_window *p, int32_t dtype);
/* The same of a convolution's output, with a vector added to its channels, and of that, relu, what is above 0 or no
 * number: by the algorithm of the convolution alone, so that the bits are those of the ops apart. False too where that
 * algorithm cannot. */
bool dfc_dnn_run_biased(dfc_call *c, const dfc_window *p, int32_t dtype, const void *bias, bool relu);
/* What computes convolutions and layers, one line: "convolutions, pooling, …: cuDNN 9.19.0, float32 as float32". */
void dfc_dnn_about(dfc_gpu *g, char *out, size_t room);

/* The same of layers: p->in becomes p->to, or p->dy the gradient of an average's input. */
typedef enum dfc_dnn_pooling { DFC_DNN_MAX, DFC_DNN_AVERAGE, DFC_DNN_AVERAGE_BACK } dfc_dnn_pooling;
bool dfc_dnn_pool(dfc_call *c, const dfc_window *p, int32_t dtype, dfc_dnn_pooling what);
/* Softmax or log-softmax, into other memory than p->x. May it do so with rows of this dtype? Then they are not written
 * where they lie, so that what computes them does not depend on other readers. */
bool dfc_dnn_softens(dfc_gpu *g, int64_t rows, int64_t n, int32_t dtype);
bool dfc_dnn_softmax(dfc_call *c, const dfc_rows *p, int32_t dtype);
/* Batch normalisation of x of these dims, all outputs; and what comes back through it in training. */
bool dfc_dnn_norm(dfc_call *c, const dfc_norm *p, const df_tensor *x);
bool dfc_dnn_norm_back(dfc_call *c, const dfc_norm *p, const df_tensor *x);

/* dnn.c, for dnn_layers.c. The library's functions, once it is open. */
typedef struct dfc_dnn_calls {
#define X(result, name, params) result (*name) params;
  DFC_DNN(X)
#undef X
} dfc_dnn_calls;
extern dfc_dnn_calls dfc_dnn;
bool dfc_dnn_open(void);                  /* is it there? */
/* It has a handle for this GPU, whose work goes to the stream of the call. False: c->ok says that this failed. */
bool dfc_dnn_ready(dfc_call *c);
bool dfc_dnn_good(dfc_gpu *g, cudnnStatus_t status, const char *what);
int  dfc_dnn_type(int32_t dtype);
/* It counts the places along this axis, of `more` pixels more, as the axis says. */
bool dfc_dnn_axis_fits(const dfc_axis *a, int64_t more);
#endif
#endif
