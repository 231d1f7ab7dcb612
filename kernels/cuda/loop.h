/* loop.h: what the kernels of loop.cu are given. See dfi_remote.decide and .keep. */
#ifndef DFLOW_CUDA_LOOP_H
#define DFLOW_CUDA_LOOP_H
#include <stdint.h>

typedef struct dfc_deciding { const void *pred; int64_t *tally; } dfc_deciding;
typedef struct dfc_keeping { const void *from; void *to; const int64_t *tally; int64_t n; } dfc_keeping;
#endif
