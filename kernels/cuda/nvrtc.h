/* nvrtc.h: kernels written and compiled while the program runs, by NVRTC, opened when the first is wanted. What it gave
 * is kept on disk ($DFLOW_GPU_CACHE, else $XDG_CACHE_HOME/dflow/gpu or ~/.cache/dflow/gpu), under a name made of the
 * source, the headers, the options and NVRTC's version.
 */
#ifndef DFLOW_CUDA_NVRTC_H
#define DFLOW_CUDA_NVRTC_H
#include "driver.h"

#ifndef __NVRTC_H__                       /* NVIDIA's own header is not here */
typedef int nvrtcResult;
typedef struct _nvrtcProgram *nvrtcProgram;
enum { NVRTC_SUCCESS = 0, NVRTC_ERROR_INVALID_INPUT = 3, NVRTC_ERROR_INVALID_PROGRAM = 4,
       NVRTC_ERROR_INVALID_OPTION = 5, NVRTC_ERROR_COMPILATION = 6 };
#endif

/* X(result, name, parameters) */
#define DFC_NVRTC(X) \
  X(nvrtcResult, nvrtcVersion, (int *major, int *minor)) \
  X(nvrtcResult, nvrtcCreateProgram, (nvrtcProgram *program, const char *source, const char *name, int nheaders, \
      const char *const *headers, const char *const *names)) \
  X(nvrtcResult, nvrtcDestroyProgram, (nvrtcProgram *program)) \
  X(nvrtcResult, nvrtcCompileProgram, (nvrtcProgram program, int noptions, const char *const *options)) \
  X(nvrtcResult, nvrtcGetCUBINSize, (nvrtcProgram program, size_t *bytes)) \
  X(nvrtcResult, nvrtcGetCUBIN, (nvrtcProgram program, char *cubin)) \
  X(nvrtcResult, nvrtcGetProgramLogSize, (nvrtcProgram program, size_t *bytes)) \
  X(nvrtcResult, nvrtcGetProgramLog, (nvrtcProgram program, char *log)) \
  X(const char *, nvrtcGetErrorString, (nvrtcResult result))

#if !defined(__NVRTC_H__) && !defined(__cplusplus)
#include "device.h"
/* The code of `source` for this GPU, from the disk or, where `compile` says so, compiled: owned, to be freed. NULL:
 * there is none; `why`, "" where it only was not on the disk, says the reason. Any thread, not under the lock of a
 * device. */
void *dfc_nvrtc_code(const dfc_gpu *g, const char *source, bool compile, size_t *bytes, char *why, size_t room);
/* One line for the report of what computes with what. */
void dfc_nvrtc_about(char *out, size_t room);
#endif
#endif
