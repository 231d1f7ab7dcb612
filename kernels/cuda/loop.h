/* loop.h: what the kernels of loop.cu and graph_conditionals.cu are given. See dfi_remote.decide, .keep and their
   like. */
#ifndef DFLOW_CUDA_LOOP_H
#define DFLOW_CUDA_LOOP_H
#include <stdint.h>

/* kernels/device.h has the same: dfi_remote.decide */
enum { DFC_TALLY_ON = 0, DFC_TALLY_COUNT, DFC_TALLY_MOST, DFC_TALLY_CUT, DFC_TALLY_SIDES };
/* handle: of the node that the predicate decides for; 0: of none */
typedef struct dfc_deciding { const void *pred; int64_t *tally; uint64_t handle; } dfc_deciding;
/* A loop inside another one. */
typedef struct dfc_inside { int64_t *tally, *around; uint64_t handle; } dfc_inside;
/* sides: NULL, or a word of each node and iteration, as dfi_remote_sides has it */
typedef struct dfc_choosing {
  const void *pred; int64_t *tally; uint64_t handle; int64_t which;
  int64_t *sides; int64_t at, width;
} dfc_choosing;
/* n words: where[0] is the address of an element; see dfi_remote.fetch */
typedef struct dfc_element { const uint64_t *where; const void *from, *sum; void *to; const int64_t *tally; int64_t n; }
    dfc_element;
typedef struct dfc_keeping { const void *from; void *to; const int64_t *tally; int64_t n; } dfc_keeping;
/* to[i] = from[tally[1] * n + i]: what is of the iteration at hand */
typedef struct dfc_turning { const uint64_t *from; uint64_t *to; const int64_t *tally; int64_t n; } dfc_turning;
#endif
