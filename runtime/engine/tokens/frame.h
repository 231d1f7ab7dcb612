/* frame.h: frames and their iterations, as the engine opens and ends them. frame.c; what is hot is here.
 *
 * A frame's iterations lie in its ring; those that are over are its spares, and begin again with a copy of their
 * scope's counts. Nothing here runs a node.
 */
#ifndef DFLOW_FRAME_H
#define DFLOW_FRAME_H
#include "engine/tokens/send.h"
#include "engine/clock/timed.h"

/* A record of f: where its slots, the frames inside it and its counts lie, one after the other from `at`, and what its
 * nodes find there from the start. */
void dfi_iteration_begin(const dfi_exec *x, dfi_frame *f, int64_t number, dfi_record *r, char *at);
/* A record of f that never was: what all its iterations have in common. */
dfi_record *dfi_iteration_make(dfi_exec *x, dfi_frame *f, int64_t number);
/* What only some frames' iterations begin with. */
void dfi_iteration_prepare(dfi_exec *x, dfi_record *r);
void dfi_ring_widen(dfi_exec *x, dfi_frame *f, const dfi_record *r);
/* All Enters have come: iteration 0 gets its tokens. By the virtual clock: all those of an owner have. */
void dfi_frame_start(dfi_exec *x, dfi_frame *f);
void dfi_frame_start_part(dfi_exec *x, dfi_frame *f, int32_t owner);
/* Another engine is offered f, whose iteration r has no token yet. True: f has ended, and r was its last one. */
bool dfi_frame_offer(dfi_exec *x, dfi_frame *f, dfi_record *r);
/* A value has left f by an Exit: what only its earlier iterations read is let go when these are over. */
void dfi_frame_left(dfi_frame *f);
/* One more iteration of f may be open; if values wait for it, it is now. */
void dfi_frame_widen(dfi_exec *x, dfi_frame *f);
/* Lets a frame of a failed run go, with all that is open inside. */
void dfi_frame_abandon(dfi_exec *x, dfi_frame *f);
/* Is a frame open in f, or f itself, that some of its Enters will never reach? */
bool dfi_frame_waits(const dfi_frame *f);

/* Four at a time: for the few that most bodies have that is half of what a call of memcpy takes. */
static inline void counts_begin(uint32_t *restrict to, const uint32_t *restrict from, uint32_t n) {
  if (DFI_UNLIKELY(n > 128)) memcpy(to, from, sizeof *to * n);
  else for (const uint32_t *end = from + n; from < end; from += DFI_COUNTS_COPIED, to += DFI_COUNTS_COPIED)
    memcpy(to, from, sizeof *to * DFI_COUNTS_COPIED);
}

static inline dfi_record *record_new(dfi_exec *x, dfi_frame *f, int64_t number) {
  const dfi_scope *s = f->scope;
  dfi_record *r = f->spare;
  if (DFI_LIKELY(r != NULL)) f->spare = r->next_free;
  else r = dfi_iteration_make(x, f, number);
  r->number = number;
  r->stamp = dfi_stamp(f->serial, number);
  counts_begin(r->counts, s->counts, s->n);
  if (DFI_UNLIKELY(f->prepares)) dfi_iteration_prepare(x, r);
  return r;
}

/* A node that waits for nothing has its turn. */
static inline void root_push(dfi_exec *x, dfi_record *r, uint32_t node, uint32_t dead) {
  if (DFI_UNLIKELY(x->timed != NULL)) dfi_timed_arrive(x, r, node, true);
  push(x, r, node, dead);
  if (DFI_UNLIKELY(x->timed != NULL)) dfi_timed_queued(x, x->tail - 1, r, node);
}

/* Those of a new iteration. */
static inline void record_start(dfi_exec *x, const dfi_scope *s, dfi_record *r) {
  for (uint32_t i = 0; i < s->nroots; i++) root_push(x, r, s->roots[i], r->counts[s->roots[i]] & DFI_DEAD);
}

static inline void ring_put(dfi_exec *x, dfi_frame *f, dfi_record *r) {
  if (DFI_UNLIKELY(f->next - f->first >= f->capacity)) dfi_ring_widen(x, f, r);
  f->ring[f->next++ & (f->capacity - 1)] = r;
}

/* A NextIteration's value arrives in iteration r. */
static inline void deliver_next(dfi_exec *x, dfi_record *r, const dfi_pnode *p, df_value v) {
  df_value *slot = r->base[DFI_ITERATION] + p->out;
  *slot = v;
  slot_filled(r, slot, r->frame->scope->uses[p->out]);
  x->count.merged += p->merges;
  dfi_exec_send(x, r, p->edge[0], p->edge[1], 0);
}

static inline __attribute__((always_inline)) dfi_record *iteration_open(dfi_exec *x, dfi_frame *f) {
  dfi_record *r = record_new(x, f, f->next);
  ring_put(x, f, r);
  x->count.iterations += f->counts;
  record_start(x, f->scope, r);
  return r;
}
#endif
