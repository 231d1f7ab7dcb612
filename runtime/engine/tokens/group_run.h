/* group_run.h: elementwise nodes that are computed in one pass, as the engine meets them. */
#ifndef DFLOW_ENGINE_GROUP_H
#define DFLOW_ENGINE_GROUP_H
#include "engine/executor.h"

/* A member of a group has all its inputs. True: nothing more is to be done for it now. False: it is computed alone,
   like any node. */
bool dfi_group_fire(dfi_exec *x, dfi_record *r, dfi_pnode *p);
/* A member is dead: sends that on. */
void dfi_group_dead(dfi_exec *x, dfi_record *r, dfi_pnode *p);
/* All inputs of the group are there: its members' values are made, and no tokens sent. at_once: a kernel of a
   GPU for it is worth compiling now. False: not in one pass, and nothing has changed. */
bool dfi_group_values(dfi_exec *x, dfi_record *r, dfi_group *g, bool at_once);
/* The same, and their readers are told; where it cannot be done in one pass, one by one. */
void dfi_group_compute(dfi_exec *x, dfi_record *r, dfi_group *g);
/* The group in n iterations or calls, whose inputs have the same shapes, in one pass. False: it cannot be done so, and
   nothing has changed. */
bool dfi_group_compute_many(dfi_exec *x, dfi_record *const *r, int32_t n, dfi_group *g);
/* Before an inspector looks: what members of groups have put off is computed, in all that is open. */
void dfi_groups_apart(dfi_exec *x);
/* A record begins an iteration. */
static inline void dfi_groups_begin(const dfi_exec *x, dfi_record *r, const dfi_scope *s) {
  for (uint32_t i = 0; i < s->ngroups; i++)
    r->base[DFI_ITERATION][x->plan->group[s->groups[i]].slot] = (df_value){ 0 };
}
/* call.c: computes a member that had been put off; its tokens inside the group have been sent. */
void dfi_call_late(dfi_exec *x, dfi_record *r, dfi_pnode *p);
/* call.c: calls p's kernel here and now, and sends no tokens: its outputs are in their slots. Else the error, and the
   run goes on. */
int32_t dfi_call_alone(dfi_exec *x, dfi_record *r, dfi_pnode *p, df_error *err);
#endif
