/* swap.h: values saved for gradients leave a device's memory for the host and come back. */
#ifndef DFLOW_SWAP_H
#define DFLOW_SWAP_H
#include "engine/memory/save_policy.h"

typedef struct dfi_swap {
  int64_t bytes_out, bytes_in, tensors_out, tensors_in, resident_bytes;
  double stall_seconds;
} dfi_swap;
typedef struct dfi_swapper dfi_swapper;
struct dfi_tensor_array;
/* What an owner did in this run with values that gradients need: those that it moved; iterations that it ran a second
   time; what became of each value, and why. */
typedef struct dfi_saved { dfi_swap swap; int64_t recomputed; dfi_save_policies policies; } dfi_saved;
/* Adds what another owner of the run moved: they wait side by side. */
void dfi_swap_add(dfi_swap *to, const dfi_swap *more);
/* Borrowed. */
dfi_saved dfi_swap_saved(const dfi_exec *x);
/* From now on this thread's allocations that are about to be refused ask the run to make room. Gives what they asked
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
