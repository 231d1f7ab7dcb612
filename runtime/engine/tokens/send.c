/* send.c: tokens along edges: to plain nodes, which count them, to Merges and to Exits; by the virtual clock too.
 *
 * The engine has its own copy of dfi_exec_send (hot_send in executor.c), with the queue's end in a register.
 */
#include "engine/tokens/send.h"
#include "engine/tokens/turn.h"
#include "engine/clock/timed.h"
#include "engine/services.h"

static void queue_grow(dfi_exec *x) {
  uint32_t old = x->queue_mask + 1;
  dfi_token *q = dfi_xcalloc((size_t)old * 2, sizeof *q);
  /* the history too */
  for (uint32_t i = x->tail - old; i != x->tail; i++) q[i & (old * 2 - 1)] = x->queue[i & x->queue_mask];
  dfi_free(x->queue);
  x->bytes += (int64_t)(old * sizeof *q);
  x->queue = q; x->queue_mask = old * 2 - 1;
  x->queue_most = x->queue_mask - x->plan->widest;
  if (x->timed) dfi_timed_grown(x);
  if (DFI_UNLIKELY(dfi_short)) dfi_exec_no_memory(x, NULL, "ready tokens");
}

/* Nothing is written over before it ran, and before it is logged. */
void dfi_queue_room(dfi_exec *x, uint32_t more) {
  if (x->logs) dfi_service.log_flush(x);
  while (x->tail - x->head + more > x->queue_mask) queue_grow(x);
}

dfi_readiness dfi_token_arrive(dfi_exec *x, dfi_record *r, const dfi_edge *e, uint32_t dead) {
  uint32_t to = e->to & 0xff;
  /* a dead Exit is remembered by not firing: see frame_done */
  if (to == DFI_TO_EXIT) return dead ? DFI_NOT_READY : DFI_READY;
  uint32_t *at = &r->counts[e->node], c = *at;
  const dfi_pnode *m = r->nodes + e->node;
  dfi_readiness ready = DFI_NOT_READY;
  if (to == DFI_TO_MERGE_CONTROL) c -= DFI_MERGE_CONTROL;
  else if (dead) c -= 1;
  else if (!(c & DFI_MERGE_LIVE)) {
    c |= DFI_MERGE_LIVE;
    r->base[DFI_ITERATION][m->out + 1] =
        (df_value){ .kind = DF_SCALAR, .dtype = DF_INT32, .as.i32 = (int32_t)(e->to >> 8) };
  } else {                                 /* a second live input: it came too late, and is let go here */
    operand_used(r, x->plan->operand[m->in + (e->to >> 8)]);
    return DFI_NOT_READY;
  }
  if (!(c & DFI_MERGE_FIRED) && !DFI_MERGE_CONTROLS(c) && (c & DFI_MERGE_LIVE || !DFI_MERGE_DEADS(c))) {
    ready = c & DFI_MERGE_LIVE ? DFI_READY : DFI_READY_DEAD;
    c |= DFI_MERGE_FIRED;
  }
  *at = c;
  return ready;
}

static void push_timed(dfi_exec *x, dfi_record *r, uint32_t node, uint32_t dead) {
  push(x, r, node, dead);
  dfi_timed_queued(x, x->tail - 1, r, node);
}

void dfi_exec_requeue(dfi_exec *x, dfi_record *r, const dfi_pnode *p) {
  const uint32_t node = (uint32_t)(p - r->nodes);
  x->count.taken--;                        /* it has not had its turn */
  r->outstanding--;
  if (!x->timed) { push(x, r, node, 0); return; }
  push(x, r, node, 0);
  dfi_timed_requeue(x, x->tail - 1, r, node);
}

/* dfi_exec_send by the virtual clock. */
static void send_timed(dfi_exec *x, dfi_record *r, const dfi_edge *e, const dfi_edge *end, uint32_t dead) {
  for (; e < end; e++) {
    dfi_timed_arrive(x, r, e->node, false);
    if (e->to != DFI_TO_PLAIN) {
      dfi_readiness ready = dfi_token_arrive(x, r, e, dead);
      if (ready) push_timed(x, r, e->node, ready == DFI_READY ? 0 : DFI_DEAD);
      continue;
    }
    uint32_t c = r->counts[e->node] = (r->counts[e->node] - 1) | dead;
    if ((c & ~DFI_DEAD) == 0) push_timed(x, r, e->node, c);
  }
}

/* Sends a token along edges [from, to) inside r. `dead` is 0 or DFI_DEAD. */
void dfi_exec_send(dfi_exec *x, dfi_record *r, uint32_t from, uint32_t to, uint32_t dead) {
  if (DFI_UNLIKELY(x->timed != NULL)) { send_timed(x, r, x->edge + from, x->edge + to, dead); return; }
  for (const dfi_edge *e = x->edge + from, *end = x->edge + to; e < end; e++) {
    if (DFI_UNLIKELY(e->to != DFI_TO_PLAIN)) {
      dfi_readiness ready = dfi_token_arrive(x, r, e, dead);
      if (ready) push(x, r, e->node, ready == DFI_READY ? 0 : DFI_DEAD);
      continue;
    }
    uint32_t c = r->counts[e->node] = (r->counts[e->node] - 1) | dead;
    if ((c & ~DFI_DEAD) == 0) push(x, r, e->node, c);
  }
}
