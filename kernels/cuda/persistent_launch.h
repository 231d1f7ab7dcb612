/* persistent_launch.h: what the writer of a loop as one kernel (persistent_source.c) shares with what launches it
   (persistent.c). */
#ifndef DFLOW_CUDA_PERSISTENT_H
#define DFLOW_CUDA_PERSISTENT_H
#include "plugin.h"
#include "../persistent.h"

/* The source of the kernel k_fused of this loop. Its parameters are words: of each input its bits or its address, of
 * each variable the same and, of a tensor, where it goes; where what is counted goes; iterations at most. To be freed;
 * NULL: no memory, or what lies between threads takes more room than there is. */
char *dfc_persistent_source(const dfk_persistent *w);
/* Threads of its one block: one where all values are numbers. */
int32_t dfc_persistent_threads(const dfk_persistent *w);
/* What is counted, in int64: iterations, the dfk_persistent_end, how often each cond was true; then the numbers that
 * the variables are. */
enum { DFC_PERSISTENT_COUNT = 0, DFC_PERSISTENT_END, DFC_PERSISTENT_CONDS };
#endif
