/* kernel_cache.h: kernels whose source was written while the program runs: each once, by its source, for each GPU. */
#ifndef DFLOW_CUDA_KERNEL_CACHE_H
#define DFLOW_CUDA_KERNEL_CACHE_H
#include "plugin.h"

/* A kernel as one GPU has it, for ever. */
typedef struct dfc_cached_kernel dfc_cached_kernel;
/* The kernel k_fused of this source, which is taken (NULL: there was no memory for it). It would have saved `saved_ns`
 * by now, beside what it was asked for before where `more` says so. NULL: it is not there yet, or never will be;
 * at_once: it is worth waiting for. Any thread, not under the lock of a device. */
dfc_cached_kernel  *dfc_kernel_cache_get(dfc_gpu *g, char *source, int64_t saved_ns, bool more, bool at_once);
CUfunction dfc_cached_kernel_function(const dfc_cached_kernel *f);
#endif
