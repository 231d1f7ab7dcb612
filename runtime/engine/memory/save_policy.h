/* save_policy.h: what becomes of each value that a gradient needs, and why: kept, swapped to the host, or computed
   again. */
#ifndef DFLOW_SAVE_POLICY_H
#define DFLOW_SAVE_POLICY_H
#include "engine/executor.h"

enum { DFI_SMALL_BYTES = 256 }; /* what takes less stays: moving it or computing it again costs more than it frees */

struct dfi_tensor_array;
/* One value of a loop, with all its elements in a run. */
typedef struct dfi_save_policy {
  df_node *node;             /* that makes its arrays */
  int32_t  scope;            /* of the loop that saves it, in the plan */
  uint8_t  policy;           /* dfi_save; AUTO: nothing has been decided, since all of it fits */
  int64_t  elements, bytes;  /* saved */
  double   since;            /* when its first element was saved, on a device whose costs are measured; or 0 */
  int64_t  swapped, let_go;  /* elements that were moved out; that were let go, to be computed again */
  bool     held, small;      /* some did not go, though memory was short: others held them; there is little in them */
  char     why[160];
} dfi_save_policy;
typedef struct dfi_save_policies { dfi_save_policy *at; int32_t n, room; } dfi_save_policies;

/* What the run's session wants of the elements of a: dfi_save. */
dfi_save    dfi_save_policy_for(const dfi_exec *x, const struct dfi_tensor_array *a);
/* The policy for a, made when it is new. Borrowed until the next one is made. */
dfi_save_policy *dfi_save_policy_entry(dfi_save_policies *l, const struct dfi_tensor_array *a, const dfi_call *c);
/* The loop or the session said what becomes of it; `can`: it is possible. */
void        dfi_save_policy_wanted(const dfi_exec *x, dfi_save_policy *h, dfi_save policy, bool can);
/* What became of it in the end: its policy, but KEEP where nothing of it had to go, or could. */
dfi_save    dfi_save_policy_outcome(const dfi_save_policy *h, const char **why);
/* Decides for a value of which memory has run short on a device (NULL: the host). */
void        dfi_save_policy_decide(dfi_exec *x, dfi_save_policies *l, dfi_save_policy *h, const dfi_device *d,
                                   const struct dfi_tensor_array *a);
#endif
