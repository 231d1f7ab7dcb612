/* run.h: what a kernel may ask of the run that called it, beside the services of kernels/kernel.h. `run` is
 * df_kernel.run: NULL for a kernel that is called while the graph is built. The engine answers
 * (engine/tokens/kernel.c), variables the session.
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
/* For arrays whose elements may leave the device's memory (engine/memory/swap.c): one was written; one is read, and
   *out has it where it had left: true. */
void      dfi_run_swap_written(void *run, void *array, int64_t i);
bool      dfi_run_swap_read(void *run, void *array, int64_t i, df_value *out);
/* Shall the read come again later, because it would fill the device before what was read is used? Then the kernel
   returns DFI_AGAIN. */
enum { DFI_AGAIN = -2 };
bool      dfi_run_swap_later(void *run, void *array, int64_t i);
#endif
