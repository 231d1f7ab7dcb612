/* whole.h: what is shared by who writes a loop as one kernel (whole_source.c) and who launches it (whole.c). */
#ifndef DFLOW_CUDA_WHOLE_H
#define DFLOW_CUDA_WHOLE_H
#include "plugin.h"
#include "../whole.h"

/* The source of the kernel k_fused of this loop. Its parameters are words: of each input its bits or its address, of
 * each variable the same and, of a tensor, where it goes; where what is counted goes; iterations at most. To be freed;
 * NULL: no memory, or what lies between threads takes more room than there is. */
char *dfc_whole_source(const dfk_whole *w);
/* Threads of its one block: one where all values are numbers. */
int32_t dfc_whole_threads(const dfk_whole *w);
/* What is counted, in int64: iterations, the dfk_whole_end, how often each cond was true; then the numbers that the
 * variables are. */
enum { DFC_WHOLE_COUNT = 0, DFC_WHOLE_END, DFC_WHOLE_CONDS };
#endif
