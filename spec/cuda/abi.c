/* abi.c: what kernels/cuda/ declares of CUDA beside NVIDIA's own headers: the same prototypes, symbols and numbers.
 * Compiled, never run, where the toolkit is: `make cuda-abi`. */
#include <cuda.h>
#include <cublasLt.h>
#include <nvrtc.h>
#include "../../kernels/cuda/driver.h"
#include "../../kernels/cuda/blas.h"
#include "../../kernels/cuda/nvrtc.h"

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
#undef X

#define SAME(name, number) _Static_assert((int)name == number, #name " is another number");
DFC_NUMBERS_OF_CUDA(SAME)
DFC_NUMBERS_OF_BLAS(SAME)
