/* run.h: what a kernel may ask of the run that called it, beside the services of kernels/kernel.h. `run` is df_kernel.run: NULL for a
 * kernel that is called while the graph is built. The engine answers (engine/kernel.c), variables the session.
 */
#ifndef DFLOW_RUN_H
#define DFLOW_RUN_H
#include "op/node.h"

df_node  *dfi_run_node(const void *run);                      /* that the kernel runs for */
uint64_t  dfi_run_id(const void *run);                        /* no two runs in progress have the same */
struct dfi_resources *dfi_run_resources(const void *run);     /* of the session: resource/resource.h */
/* The variable's handle that the node of k names in the session; owned. */
void     *dfi_run_variable(void *run, const df_kernel *k);
/* Counts a value saved for a gradient, and one taken back. Without a run: nothing. */
void      dfi_run_count_push(void *run);
void      dfi_run_count_pop(void *run);
#endif
