/* send.h: the queue of ready tokens, and what it takes to make one ready. send.c.
 *
 * The queue is a ring: the pusher sees to it that nothing is written over before it ran, and before it is logged.
 */
#ifndef DFLOW_SEND_H
#define DFLOW_SEND_H
#include "engine/token.h"

/* What a token along an edge to a Merge or an Exit does to the node. */
typedef enum dfi_readiness { DFI_NOT_READY, DFI_READY, DFI_READY_DEAD } dfi_readiness;
dfi_readiness dfi_token_arrive(dfi_exec *x, dfi_record *r, const dfi_edge *e, uint32_t dead);

/* There is room for so many tokens more. */
void dfi_queue_room(dfi_exec *x, uint32_t more);

static inline void push(dfi_exec *x, dfi_record *r, uint32_t node, uint32_t dead) {
  if (DFI_UNLIKELY(x->tail - (x->logs ? x->logged : x->head) > x->queue_mask)) dfi_queue_room(x, 0);
  x->queue[x->tail++ & x->queue_mask] = (dfi_token){ r, node, dead | r->stamp };
  r->outstanding++;
}
#endif
