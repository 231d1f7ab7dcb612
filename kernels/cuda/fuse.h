/* fuse.h: what is shared by who writes a fused kernel and who compiles and launches it. */
#ifndef DFLOW_CUDA_FUSE_H
#define DFLOW_CUDA_FUSE_H
#include "plugin.h"
#include "../chain.h"

/* The source of the kernel k_fused for this chain, whose inputs meet the elements as the run says; on_host: which of
 * them are numbers that come with the launch. To be freed; NULL: no memory. */
char *dfc_fused_source(const dfk_chain_run *run, uint64_t on_host);
#endif
