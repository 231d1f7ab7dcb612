/* swap.h: values saved for gradients leave a device's memory for the host and come back. */
#ifndef DFLOW_SWAP_H
#define DFLOW_SWAP_H
#include "engine/tokens/executor.h"

typedef struct dfi_swap {
  int64_t bytes_out, bytes_in, tensors_out, tensors_in, resident_bytes;
  double stall_seconds;
} dfi_swap;
typedef struct dfi_swapper dfi_swapper;
struct dfi_tensor_array;
/* What was moved in this run. */
dfi_swap dfi_swap_stats(const dfi_exec *x);
/* What became of each value that its gradients need, and why; NULL: nothing was asked for. */
const struct dfi_save_policies *dfi_swap_policies(const dfi_exec *x);
/* From now on this thread's allocations that are about to be refused ask the run to make room. Gives whom they asked
   before. */
dfi_rescue dfi_swap_watch(dfi_exec *x);
/* c has computed element i of a again, which had been let go. */
void dfi_swap_again(const dfi_call *c, struct dfi_tensor_array *a, int64_t i);
/* A run begins. */
void dfi_swap_begin(dfi_exec *x);
/* The run is over: what is on the host is forgotten, its arrays go. */
void dfi_swap_end(dfi_exec *x);
void dfi_swapper_free(dfi_swapper *w);
#endif
