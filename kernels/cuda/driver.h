/* driver.h: the part of the CUDA driver API that the plug-in uses, declared here so that it builds where no toolkit
 * is. The functions are those of libcuda.so.1, found when it is opened; a test compares these prototypes with cuda.h
 * where that is installed (spec/cuda/abi.c).
 */
#ifndef DFLOW_CUDA_DRIVER_H
#define DFLOW_CUDA_DRIVER_H
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef __cuda_cuda_h__
typedef int CUresult, CUdevice;
typedef unsigned long long CUdeviceptr, cuuint64_t;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphNode_st *CUgraphNode;
typedef int CUdevice_attribute, CUmemPool_attribute, CUstreamCaptureMode;
typedef struct CUgraphExecUpdateResultInfo { int result; CUgraphNode errorNode, errorFromNode; }
    CUgraphExecUpdateResultInfo;
typedef int CUstreamCaptureStatus;
typedef cuuint64_t CUgraphConditionalHandle;
typedef struct CUgraphEdgeData { unsigned char from_port, to_port, type, reserved[5]; } CUgraphEdgeData;
/* phGraph_out: as many as `size`, the driver's own */
typedef struct CUDA_CONDITIONAL_NODE_PARAMS {
  CUgraphConditionalHandle handle;
  int type;
  unsigned int size;
  CUgraph *phGraph_out;
  CUcontext ctx;
} CUDA_CONDITIONAL_NODE_PARAMS;
typedef struct CUgraphNodeParams {
  int type, reserved0[3];
  union { long long reserved1[29]; CUDA_CONDITIONAL_NODE_PARAMS conditional; };
  long long reserved2;
} CUgraphNodeParams;
#define NUMBER(name, number) enum { name = number };
#endif

/* X(name, number): what of cuda.h's numbers is used. */
#define DFC_NUMBERS_OF_CUDA(X) \
  X(CUDA_SUCCESS, 0) X(CUDA_ERROR_INVALID_VALUE, 1) X(CUDA_ERROR_OUT_OF_MEMORY, 2) X(CUDA_ERROR_NOT_INITIALIZED, 3) \
  X(CUDA_ERROR_NO_DEVICE, 100) X(CUDA_ERROR_INVALID_DEVICE, 101) X(CUDA_ERROR_INVALID_IMAGE, 200) \
  X(CUDA_ERROR_INVALID_CONTEXT, 201) X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209) X(CUDA_ERROR_INVALID_HANDLE, 400) \
  X(CUDA_ERROR_ILLEGAL_STATE, 401) X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900) \
  X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901) X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903) \
  X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904) X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905) \
  X(CUDA_ERROR_CAPTURED_EVENT, 907) X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908) \
  X(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, 910) X(CU_GRAPH_EXEC_UPDATE_SUCCESS, 0) \
  X(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, 2) X(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, 3) \
  X(CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, 5) X(CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE, 7) \
  X(CU_STREAM_CAPTURE_MODE_GLOBAL, 0) \
  X(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1) X(CU_STREAM_CAPTURE_MODE_RELAXED, 2) \
  X(CU_STREAM_CAPTURE_STATUS_ACTIVE, 1) X(CU_STREAM_SET_CAPTURE_DEPENDENCIES, 1) \
  X(CU_GRAPH_NODE_TYPE_CONDITIONAL, 13) X(CU_GRAPH_COND_TYPE_IF, 0) X(CU_GRAPH_COND_TYPE_WHILE, 1) \
  X(CU_GRAPH_COND_ASSIGN_DEFAULT, 1) X(CUDA_ERROR_NOT_SUPPORTED, 801) \
  X(CUDA_ERROR_NOT_FOUND, 500) X(CUDA_ERROR_NOT_READY, 600) X(CUDA_ERROR_ILLEGAL_ADDRESS, 700) \
  X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701) X(CUDA_ERROR_MISALIGNED_ADDRESS, 716) \
  X(CUDA_ERROR_LAUNCH_FAILED, 719) X(CUDA_ERROR_UNKNOWN, 999) \
  X(CU_STREAM_NON_BLOCKING, 1) X(CU_EVENT_DISABLE_TIMING, 2) X(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 4) \
  X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75) X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76) \
  X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)
#ifndef __cuda_cuda_h__
DFC_NUMBERS_OF_CUDA(NUMBER)
#undef NUMBER
#endif

/* X(result, name, symbol in the library, parameters) */
#define DFC_DRIVER(X) \
  X(CUresult, cuInit, "cuInit", (unsigned int flags)) \
  X(CUresult, cuDriverGetVersion, "cuDriverGetVersion", (int *version)) \
  X(CUresult, cuGetErrorName, "cuGetErrorName", (CUresult error, const char **text)) \
  X(CUresult, cuGetErrorString, "cuGetErrorString", (CUresult error, const char **text)) \
  X(CUresult, cuDeviceGetCount, "cuDeviceGetCount", (int *count)) \
  X(CUresult, cuDeviceGet, "cuDeviceGet", (CUdevice *device, int ordinal)) \
  X(CUresult, cuDeviceGetName, "cuDeviceGetName", (char *name, int len, CUdevice device)) \
  X(CUresult, cuDeviceGetAttribute, "cuDeviceGetAttribute", \
    (int *value, CUdevice_attribute attribute, CUdevice device)) \
  X(CUresult, cuDeviceTotalMem, "cuDeviceTotalMem_v2", (size_t *bytes, CUdevice device)) \
  X(CUresult, cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext *context, CUdevice device)) \
  X(CUresult, cuCtxSetCurrent, "cuCtxSetCurrent", (CUcontext context)) \
  X(CUresult, cuStreamCreate, "cuStreamCreate", (CUstream *stream, unsigned int flags)) \
  X(CUresult, cuStreamDestroy, "cuStreamDestroy_v2", (CUstream stream)) \
  X(CUresult, cuStreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream stream, CUstreamCaptureMode mode)) \
  X(CUresult, cuStreamEndCapture, "cuStreamEndCapture", (CUstream stream, CUgraph *graph)) \
  X(CUresult, cuStreamBeginCaptureToGraph, "cuStreamBeginCaptureToGraph", (CUstream stream, CUgraph graph, \
      const CUgraphNode *after, const CUgraphEdgeData *edges, size_t nafter, CUstreamCaptureMode mode)) \
  X(CUresult, cuStreamGetCaptureInfo, "cuStreamGetCaptureInfo_v3", (CUstream stream, CUstreamCaptureStatus *status, \
      cuuint64_t *id, CUgraph *graph, const CUgraphNode **after, const CUgraphEdgeData **edges, size_t *nafter)) \
  X(CUresult, cuStreamUpdateCaptureDependencies, "cuStreamUpdateCaptureDependencies_v2", (CUstream stream, \
      CUgraphNode *after, const CUgraphEdgeData *edges, size_t nafter, unsigned int flags)) \
  X(CUresult, cuGraphConditionalHandleCreate, "cuGraphConditionalHandleCreate", (CUgraphConditionalHandle *handle, \
      CUgraph graph, CUcontext context, unsigned int value, unsigned int flags)) \
  X(CUresult, cuGraphAddNode, "cuGraphAddNode_v2", (CUgraphNode *node, CUgraph graph, const CUgraphNode *after, \
      const CUgraphEdgeData *edges, size_t nafter, CUgraphNodeParams *params)) \
  X(CUresult, cuGraphInstantiate, "cuGraphInstantiateWithFlags", (CUgraphExec *exec, CUgraph graph, \
      unsigned long long flags)) \
  X(CUresult, cuGraphExecUpdate, "cuGraphExecUpdate_v2", (CUgraphExec exec, CUgraph graph, \
      CUgraphExecUpdateResultInfo *info)) \
  X(CUresult, cuGraphLaunch, "cuGraphLaunch", (CUgraphExec exec, CUstream stream)) \
  X(CUresult, cuGraphGetNodes, "cuGraphGetNodes", (CUgraph graph, CUgraphNode *nodes, size_t *n)) \
  X(CUresult, cuGraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec exec)) \
  X(CUresult, cuGraphDestroy, "cuGraphDestroy", (CUgraph graph)) \
  X(CUresult, cuStreamSynchronize, "cuStreamSynchronize", (CUstream stream)) \
  X(CUresult, cuStreamWaitEvent, "cuStreamWaitEvent", (CUstream stream, CUevent event, unsigned int flags)) \
  X(CUresult, cuEventCreate, "cuEventCreate", (CUevent *event, unsigned int flags)) \
  X(CUresult, cuEventRecord, "cuEventRecord", (CUevent event, CUstream stream)) \
  X(CUresult, cuEventQuery, "cuEventQuery", (CUevent event)) \
  X(CUresult, cuEventSynchronize, "cuEventSynchronize", (CUevent event)) \
  X(CUresult, cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool", (CUmemoryPool *pool, CUdevice device)) \
  X(CUresult, cuMemPoolSetAttribute, "cuMemPoolSetAttribute", \
    (CUmemoryPool pool, CUmemPool_attribute attribute, void *value)) \
  X(CUresult, cuMemAllocAsync, "cuMemAllocAsync", (CUdeviceptr *p, size_t bytes, CUstream stream)) \
  X(CUresult, cuMemFreeAsync, "cuMemFreeAsync", (CUdeviceptr p, CUstream stream)) \
  X(CUresult, cuMemHostAlloc, "cuMemHostAlloc", (void **p, size_t bytes, unsigned int flags)) \
  X(CUresult, cuMemFreeHost, "cuMemFreeHost", (void *p)) \
  X(CUresult, cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (CUdeviceptr to, const void *from, size_t bytes, \
      CUstream stream)) \
  X(CUresult, cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void *to, CUdeviceptr from, size_t bytes, CUstream stream)) \
  X(CUresult, cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (CUdeviceptr to, CUdeviceptr from, size_t bytes, \
      CUstream stream)) \
  X(CUresult, cuMemcpyPeerAsync, "cuMemcpyPeerAsync", (CUdeviceptr to, CUcontext to_in, CUdeviceptr from, \
      CUcontext from_in, size_t bytes, CUstream stream)) \
  X(CUresult, cuMemsetD8Async, "cuMemsetD8Async", (CUdeviceptr to, unsigned char value, size_t n, CUstream stream)) \
  X(CUresult, cuModuleLoadData, "cuModuleLoadData", (CUmodule *module, const void *image)) \
  X(CUresult, cuModuleGetFunction, "cuModuleGetFunction", (CUfunction *function, CUmodule module, const char *name)) \
  X(CUresult, cuLaunchKernel, "cuLaunchKernel", (CUfunction function, unsigned int gx, unsigned int gy, \
      unsigned int gz, unsigned int bx, unsigned int by, \
    unsigned int bz, unsigned int shared_bytes, CUstream stream, void **params, void **extra))

#ifndef __cuda_cuda_h__
typedef struct dfc_driver {
#define X(result, name, symbol, params) result (*name) params;
  DFC_DRIVER(X)
#undef X
} dfc_driver;
extern dfc_driver dfc_cu;                 /* filled by dfc_driver_open */

/* NULL: it is there. Else why not and what to do, one line in static memory. */
const char *dfc_driver_open(void);
/* Another library of CUDA's: the system's or the toolkit's, or what lies beside the driver that DFLOW_CUDA_DRIVER
 * names. */
typedef struct dfc_library {
  const char *soname;
  pthread_mutex_t lock;                   /* guards the rest */
  bool looked, there;                     /* looked, and not there: why says so */
  char why[300];
} dfc_library;
#define DFC_LIBRARY(name) { .soname = (name), .lock = PTHREAD_MUTEX_INITIALIZER }
/* A function of a library, and where its address goes. */
typedef struct dfc_symbol { const char *name; void **at; } dfc_symbol;
/* Opens it, and finds the symbols up to one without a name, when it is first called. Is it there? Any thread. */
bool dfc_library_open(dfc_library *l, const dfc_symbol *symbols);
/* "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"; static or of this thread. */
const char *dfc_error_text(CUresult error);
#endif
#endif
