/* block.h: kernels as the driver for tests runs them. */
#ifndef DFLOW_STRICT_BLOCK_H
#define DFLOW_STRICT_BLOCK_H
#include "strict.h"
#include <string>
#include <vector>

/* The kernels that were made known so far, newest first: those of the driver's own, and of each module as it is loaded.
 * Gives the list and begins a new one. */
strict_kernel *strict_kernels_take();
const strict_kernel *strict_kernel_find(const strict_kernel *list, const char *name);        /* NULL: there is none */
/* All blocks, in an order that `random` chooses. Empty, or what the kernel did wrong. */
std::string strict_grid_run(const strict_kernel *k, const void *p, strict_dim blocks, strict_dim block,
                            uint64_t random);
void strict_abandon();
/* What the kernel that ran last set of conditions, in its order; forgotten when the next one runs. `raced`: another
 * thread of it set the same one, too. */
struct strict_setting { uint64_t handle; unsigned value; bool raced; uint64_t thread; };
const std::vector<strict_setting> &strict_settings();
#endif
