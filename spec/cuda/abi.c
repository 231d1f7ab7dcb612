/* abi.c: kernels/cuda/driver.h beside NVIDIA's own cuda.h: the same prototypes, symbols and numbers. Compiled, never
 * run, where the toolkit is: `make cuda-abi`. */
#include <cuda.h>
#include "../../kernels/cuda/driver.h"

#define TEXT(x) #x
#define NAME(x) TEXT(x)
#define X(result, name, symbol, params) \
  _Static_assert(__builtin_types_compatible_p(__typeof__(name), result params), symbol " has another prototype"); \
  _Static_assert(__builtin_strcmp(NAME(name), symbol) == 0, symbol " is another symbol in cuda.h");
DFC_DRIVER(X)
#undef X

#define SAME(name, number) _Static_assert((int)name == number, #name " is another number");
DFC_NUMBERS_OF_CUDA(SAME)
