/* batch.h: ready nodes of one kind, in different iterations or calls, that are computed as one. batch.c. */
#ifndef DFLOW_ENGINE_BATCH_H
#define DFLOW_ENGINE_BATCH_H
#include "engine/executor.h"

/* A run of a plan with such nodes begins; it has ended, and took x->seconds; its state is freed. */
void dfi_batch_begin(dfi_exec *x);
void dfi_batch_end(const dfi_exec *x);
void dfi_batch_free(struct dfi_batch *b);

/* p in r has all its inputs. It waits for others like it, and r's token with it; or its output is there, as a sum that
   is computed later; or neither: it is computed now. */
typedef enum dfi_batched { DFI_BATCH_NOT, DFI_BATCH_WAITS, DFI_BATCH_LATER } dfi_batched;
dfi_batched dfi_batch_takes(dfi_exec *x, dfi_record *r, dfi_pnode *p);
/* All members of the group have been put off: it waits for others like it, and r for it. */
bool dfi_batch_takes_group(dfi_exec *x, dfi_record *r, dfi_group *g);
/* Do some wait? No token is ready: those of the longest list that fit together are computed. */
bool dfi_batch_waits(const dfi_exec *x);
void dfi_batch_run(dfi_exec *x);
/* An inspector is going to read the run: all that wait are computed, one by one, and all sums that are late. */
void dfi_batch_apart(dfi_exec *x);
/* What the files of the engine ask of each other. An input of n that are computed as one, one behind the other: in
 * place, with *view as the header, or copied to *made, which is owned; along a new axis where `fresh`. NULL: no memory,
 * or too many axes. Whether two inputs of one shape are the same value. And part i of n of a result: to is owned;
 * false: no memory. */
const df_tensor *dfi_batch_stack(dfi_record *const *r, uint32_t n, dfi_operand o, bool fresh, df_tensor *view,
                                 df_tensor **made);
bool dfi_batch_same(const df_value *a, const df_value *b);
bool dfi_batch_part(df_value *to, df_tensor *t, uint32_t i, uint32_t n, bool fresh);
/* If v, a value of a slot, is a sum that is late it is computed, and lies there then. */
int32_t dfi_batch_settle(dfi_exec *x, df_value *v, df_error *err);
#endif
