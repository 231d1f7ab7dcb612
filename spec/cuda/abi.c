/* abi.c: what kernels/cuda/ declares of CUDA beside NVIDIA's own headers: the same prototypes, symbols and numbers.
 * Compiled, never run, where the toolkit is: `make cuda-abi`. */
#include <cuda.h>
#include <cublasLt.h>
#include <nvrtc.h>
#include <stddef.h>
#include "../../kernels/cuda/driver.h"
#include "../../kernels/cuda/blas.h"
#include "../../kernels/cuda/nvrtc.h"
#if __has_include(<cudnn.h>)              /* which comes apart from the toolkit */
#include <cudnn.h>
#include "../../kernels/cuda/dnn.h"
#else
#define DFC_DNN(X)
#define DFC_NUMBERS_OF_DNN(X)
#endif

#define TEXT(x) #x
#define NAME(x) TEXT(x)
#define X(result, name, symbol, params) \
  _Static_assert(__builtin_types_compatible_p(__typeof__(name), result params), symbol " has another prototype"); \
  _Static_assert(__builtin_strcmp(NAME(name), symbol) == 0, symbol " is another symbol in cuda.h");
DFC_DRIVER(X)
#undef X

#define X(result, name, params) \
  _Static_assert(__builtin_types_compatible_p(__typeof__(name), result params), #name " has another prototype");
DFC_BLAS(X)
DFC_NVRTC(X)
DFC_DNN(X)
#undef X

#define SAME(name, number) _Static_assert((int)name == number, #name " is another number");
DFC_NUMBERS_OF_CUDA(SAME)
DFC_NUMBERS_OF_BLAS(SAME)
DFC_NUMBERS_OF_DNN(SAME)

/* driver.h has its own declarations of these where cuda.h is not: the same places. */
_Static_assert(sizeof(CUgraphNodeParams) == 256 && offsetof(CUgraphNodeParams, conditional) == 16 &&
               offsetof(CUgraphNodeParams, conditional.phGraph_out) == 32 &&
               offsetof(CUgraphNodeParams, conditional.ctx) == 40 && sizeof(CUgraphEdgeData) == 8,
               "a conditional node's parameters lie elsewhere");
