/* loop.h: what the kernels of loop.cu and again.cu are given. See dfi_remote.decide, .keep and their like. */
#ifndef DFLOW_CUDA_LOOP_H
#define DFLOW_CUDA_LOOP_H
#include <stdint.h>

/* kernels/device.h has the same: dfi_remote.decide */
enum { DFC_TALLY_ON = 0, DFC_TALLY_COUNT, DFC_TALLY_MOST, DFC_TALLY_SIDES };
/* handle: of the node that the predicate decides for; 0: of none */
typedef struct dfc_deciding { const void *pred; int64_t *tally; uint64_t handle; } dfc_deciding;
typedef struct dfc_choosing { const void *pred; int64_t *tally; uint64_t handle; int64_t which; } dfc_choosing;
typedef struct dfc_keeping { const void *from; void *to; const int64_t *tally; int64_t n; } dfc_keeping;
/* to[i] = from[tally[1] * n + i]: what is of the iteration at hand */
typedef struct dfc_turning { const uint64_t *from; uint64_t *to; const int64_t *tally; int64_t n; } dfc_turning;
#endif
