/* token.h: operands and slots, as the engine and the calls of kernels handle them. A slot counts the readers that its
 * value still has; the last one lets it go. Only the run's owner comes here.
 */
#ifndef DFLOW_TOKEN_H
#define DFLOW_TOKEN_H
#include "engine/executor.h"

static inline df_value *operand(const dfi_record *r, dfi_operand o) {
  if (DFI_LIKELY(o < DFI_OPERAND(1, 0))) return r->base[DFI_ITERATION] + o;
  return r->base[DFI_SPACE(o)] + DFI_INDEX(o);
}

/* The ready token of p in r that waits to be taken; NULL: there is none. */
static inline dfi_token *dfi_in_queue(const dfi_exec *x, const dfi_record *r, const dfi_pnode *p) {
  for (uint32_t i = x->head; i != x->tail; i++) {
    dfi_token *t = &x->queue[i & x->queue_mask];
    if (t->record == r && r->nodes + t->node == p) return t;
  }
  return NULL;
}

/* A slot of r lets its tensor or handle go. */
void     dfi_slot_drop(const dfi_record *r, df_value *v);
/* What is lent to a slot of r that is done with it, owned. */
df_value dfi_borrowed_read_taken(const dfi_record *r, const df_value *v);

/* A slot of r has just received *v (by assignment): counts its readers, or drops it when it has none. */
static inline void slot_filled(dfi_record *r, df_value *v, uint32_t uses) {
  if (DFI_LIKELY(v->kind < DF_TENSOR)) return;
  if (uses) { v->uses = uses; r->held++; }
  else dfi_slot_drop(r, v);
}

/* One reader of an operand is done with it. */
static inline void operand_used(dfi_record *r, dfi_operand o) {
  if (DFI_SPACE(o) != DFI_ITERATION) return;
  df_value *v = r->base[DFI_ITERATION] + DFI_INDEX(o);
  if (v->kind >= DF_TENSOR && --v->uses == 0) {
    dfi_slot_drop(r, v);
    r->held--;
  }
}

/* The value of an operand for a node that passes it on: moved when this is its last reader. */
static inline df_value operand_take(dfi_record *r, dfi_operand o) {
  df_value *v = operand(r, o), out = *v;
  if (DFI_LIKELY(out.kind < DF_TENSOR)) return out;
  if (DFI_SPACE(o) == DFI_ITERATION && --v->uses == 0) {
    if (DFI_UNLIKELY(v->flags)) out = dfi_borrowed_read_taken(r, v);
    v->kind = DF_EMPTY;
    r->held--;
    return out;
  }
  return dfi_value_copy(v);
}

static inline void drop_inputs(dfi_exec *x, dfi_record *r, const dfi_pnode *p) {
  const dfi_operand *in = x->plan->operand + p->in;
  for (uint32_t i = 0; i < p->nin; i++) operand_used(r, in[i]);
}
#endif
