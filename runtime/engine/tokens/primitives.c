/* primitives.c: Enter, Exit, NextIteration where it waits, and calls of functions: what passes values between frames.
 * The primitives that stay in their iteration, and a NextIteration whose iteration is open, are in the engine's loop.
 */
#include "engine/tokens/batch.h"
#include "engine/tokens/frame.h"
#include "engine/clock/record.h"
#include "engine/engine.h"
#include "engine/services.h"
#include "engine/tokens/turn.h"

/* A whole number or a bool that enters a loop is what it counts by: where a device has it, it is read once, here, and
 * not in every iteration. False: the run has failed. */
static inline bool bring_count(dfi_exec *x, dfi_record *r, const dfi_pnode *p, dfi_operand in) {
  const df_value *v = operand(r, in);
  if (DFI_LIKELY(v->kind != DF_TENSOR) || v->as.tensor->rank) return true;
  const bool counts = v->dtype == DF_INT32 || v->dtype == DF_INT64 || v->dtype == DF_BOOL;
  return !counts || dfi_service.remote_number(x, r, p, in);
}

/* Another engine may run the loop: it knows of no sums that are late. False: the run has failed. */
static __attribute__((noinline)) bool settles(dfi_exec *x, dfi_record *r, const dfi_pnode *p, dfi_operand in) {
  df_error error = { 0 };
  const int32_t code = dfi_batch_settle(x, operand(r, in), &error);
  if (code) dfi_exec_fail(x, r, p, code, error.message);
  return !code;
}

void dfi_do_enter(dfi_exec *x, dfi_record *r, const dfi_pnode *p, uint32_t dead) {
  dfi_frame *f = r->children[p->child];
  if (!f) {
    f = r->children[p->child] = dfi_frame_open_at(x, &x->scope[p->target], r, NULL, 0);
    r->outstanding++;
  }
  dfi_operand in = x->plan->operand[p->in];
  if (!dead && !bring_count(x, r, p, in)) return;
  if (DFI_UNLIKELY(x->batch != NULL) && f->scope->engine_ops && !settles(x, r, p, in)) return;
  f->enter_dead[p->enter] = dead != 0;
  if (dead) { f->some_dead = f->prepares = true; operand_used(r, in); x->count.died++; }
  else if (p->constant) {
    df_value *slot = f->constants + p->out;
    *slot = operand_take(r, in);
  } else {
    dfi_record *first = f->ring[0];
    df_value *slot = first->base[DFI_ITERATION] + p->out;
    *slot = operand_take(r, in);
    slot_filled(first, slot, f->scope->uses[p->out]);
  }
  const int32_t owner = DFI_UNLIKELY(f->windows != NULL) ? dfi_windows_entered(x, f, p) : -1;
  if (owner >= 0) dfi_frame_start_part(x, f, owner);
  if (--f->enters_missing == 0) {
    dfi_frame_start(x, f);
    dfi_record *begun = f->ring[f->first & (f->capacity - 1)];  /* another engine may have gone on from iteration 0 */
    if (!begun->outstanding) dfi_exec_iteration_done(x, begun);
  }
}

void dfi_do_exit(dfi_exec *x, dfi_record *r, const dfi_pnode *p) {
  dfi_record *origin = r->frame->origin;
  /* it has left in an earlier iteration: the Exit reads nothing but constants of a frame that was imported */
  if (DFI_UNLIKELY(r->frame->exit_fired[p->child])) { operand_used(r, x->plan->operand[p->in]); return; }
  r->frame->exit_fired[p->child] = 1;
  dfi_frame_left(r->frame);
  df_value *slot = origin->base[DFI_ITERATION] + p->out;
  *slot = operand_take(r, x->plan->operand[p->in]);
  slot_filled(origin, slot, origin->frame->scope->uses[p->out]);
  dfi_exec_send(x, origin, p->edge[0], p->edge[1], 0);
}

/* Of a loop's second time: its frame has no caller. */
void dfi_do_exit_remat(dfi_exec *x, dfi_record *r, const dfi_pnode *p) {
  if (r->frame->second) operand_used(r, x->plan->operand[p->in]);
  else dfi_do_exit(x, r, p);
}

/* A function that calls itself: a frame of its own for each call. */
void dfi_do_call(dfi_exec *x, dfi_record *r, dfi_pnode *p) {
  if (r->frame->depth >= DFI_CALLS_AT_MOST) {
    dfi_exec_fail(x, r, p, DF_RESOURCE_EXHAUSTED, "functions call each other more than 20000 deep");
    return;
  }
  if (DFI_UNLIKELY(x->replay != NULL) && x->plan->engine_ops->replay(x, r, p)) return;
  dfi_frame *f = r->children[p->child] = dfi_frame_open_at(x, &x->scope[p->target], r, p, 0);
  f->returned = false;
  r->outstanding++;
  const bool offers = DFI_UNLIKELY(f->scope->engine_ops != NULL) && !x->timed;
  if (!offers || (!dfi_frame_offer(x, f, f->ring[0]) && !x->failed)) record_start(x, f->scope, f->ring[0]);
  if (!f->ring[0]->outstanding) dfi_exec_iteration_done(x, f->ring[0]);
}

/* The results go to the caller's slots, which are not read before the frame is done. */
void dfi_do_return(dfi_exec *x, dfi_record *r, const dfi_pnode *p) {
  dfi_frame *f = r->frame;
  df_value *out = f->origin->base[DFI_ITERATION] + f->call->out;
  for (uint32_t i = 0; i < p->nin; i++) out[i] = operand_take(r, x->plan->operand[p->in + i]);
  f->returned = true;
}

/* The window of parallel iterations is full: the value waits until it moves. */
void dfi_next_wait(dfi_frame *f, dfi_pnode *p, df_value v, uint32_t event) {
  if (f->ndeferred == f->deferred_capacity) {
    f->deferred_capacity = f->deferred_capacity ? f->deferred_capacity * 2 : 8;
    f->deferred = dfi_xrealloc(f->deferred, sizeof *f->deferred * (size_t)f->deferred_capacity);
  }
  f->deferred[f->ndeferred++] = (dfi_deferred){ p, v, event };
}

/* A NextIteration of a loop that is run a second time, or may be: iterations past what is wanted are not begun. */
void dfi_do_next_remat(dfi_exec *x, dfi_record *r, dfi_pnode *p) {
  dfi_frame *f = r->frame;
  df_value v = operand_take(r, x->plan->operand[p->in]);
  const int64_t number = r->number + 1;
  if (x->timed) { dfi_timed_ended(x, r); dfi_timed_gate(x, f, number); }
  if (f->second && number >= f->second->end) { dfi_value_drop(&v); return; }
  if (f->remat) dfi_service.remat_next(f->remat, number, p->enter, &v);
  if (number >= f->next && f->next - f->first >= f->window) {
    dfi_next_wait(f, p, v, x->timed && x->timed->recorder ? dfi_record_current(x) : 0);
    return;
  }
  dfi_record *to = number < f->next ? f->ring[number & (f->capacity - 1)] : iteration_open(x, f);
  if (x->timed) dfi_windows_next(x, to, p);
  deliver_next(x, to, p, v);
}
