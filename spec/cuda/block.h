/* block.h: kernels as the driver for tests runs them. */
#ifndef DFLOW_STRICT_BLOCK_H
#define DFLOW_STRICT_BLOCK_H
#include "strict.h"
#include <string>

const strict_kernel *strict_kernel_find(const char *name);        /* NULL: there is none */
/* All blocks, in an order that `random` chooses. Empty, or what the kernel did wrong. */
std::string strict_grid_run(const strict_kernel *k, const void *p, strict_dim blocks, strict_dim block,
                            uint64_t random);
void strict_abandon();
#endif
