/* batch.h: how calls of a kernel in different iterations, or calls of a function, are computed as one. batch_rules.c
 * has the rules, batch.c says which nodes wait for others, engine/tokens/batch.c runs them.
 */
#ifndef DFLOW_PLAN_BATCH_H
#define DFLOW_PLAN_BATCH_H
#include "plan/plan.h"

/* Of how a plan is made, as DFI_PLAN_BATCH, but of the calls of functions alone, which no other engine runs. */
enum { DFI_PLAN_BATCH_CALLS = 32 };

/* Bit i of `rows`: input i may be another one in each; they are put one behind the other along axis 0, along a new axis
 * in front where `fresh`. Bit i of `shared`: input i may be one value for all. The outputs are cut along axis 0 into as
 * many equal parts. */
typedef struct dfi_batching { uint32_t rows, shared; bool fresh; } dfi_batching;

/* A call of several has room for so many inputs and outputs. */
enum { DFI_BATCH_INPUTS = 31, DFI_BATCH_OUTPUTS = 32 };

typedef struct dfi_batch_rule {
  df_kernel_fn kernel;           /* whose rule it is; NULL: of more than one */
  /* May calls with inputs of these dtypes and shapes go together, and how? NULL: never. */
  bool    (*how)(const df_kernel *k, dfi_batching *how);
  /* Where an element is a sum whose order depends on the number of rows: the kernel for so many members, each of whose
     rows is added up as it is alone. NULL: the kernel itself is that. */
  int32_t (*many)(df_kernel *k, int32_t members);
  /* Makes the output as a sum that is computed where it is read (resource/late.h); false: it is to be computed now. */
  bool    (*late)(df_kernel *k);
} dfi_batch_rule;

/* The rule of p, which runs a kernel of the host; NULL: it has none. */
const dfi_batch_rule *dfi_batch_rule_of(const dfi_pnode *p);
#endif
