/* run.c: a run of a plan, from its beginning to its end: its state, what it stops for, how it fails. The engine that
 * turns it is in executor.c.
 */
#include "engine/run/run.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "engine/tokens/audit.h"
#include "engine/tokens/frame.h"
#include "engine/owners/far_kernel.h"
#include "engine/owners/fault.h"
#include "engine/tokens/batch.h"
#include "engine/tokens/borrowed_read.h"
#include "engine/clock/record.h"
#include "engine/memory/remat.h"
#include "engine/owners/stream.h"
#include "engine/memory/swap.h"
#include "engine/owners/team.h"
#include "engine/owners/transfer.h"
#include "engine/tokens/turn.h"
#include "engine/observe/watch.h"
#include <math.h>
#include <stdio.h>
#include <time.h>

/* ---- is it to stop? --------------------------------------------------------------------------------------------- */

/* The deadline has passed: says what the run waits for, or where it is. */
static void too_late(dfi_exec *x) {
  char message[900];
  size_t at = (size_t)snprintf(message, sizeof message, "the run took longer than its timeout");
  if (x->away) {
    at += (size_t)snprintf(message + at, sizeof message - at, ": ");
    dfi_calls_text(x, message + at, sizeof message - at);
    dfi_exec_fail(x, dfi_calls_first(x)->record, dfi_calls_first(x)->node, DF_DEADLINE_EXCEEDED, message);
  } else if (x->head != x->tail) {
    const dfi_token *next = &x->queue[x->head & x->queue_mask];
    dfi_exec_fail(x, next->record, next->record->nodes + next->node, DF_DEADLINE_EXCEEDED, message);
  } else {
    dfi_exec_fail(x, NULL, NULL, DF_DEADLINE_EXCEEDED, message);
  }
}

/* Has the deadline passed? An owner that waits for others alone, or has done its part, gives them a moment to say what
 * the matter is. */
static bool is_late(const dfi_exec *x) {
  const double moment = 0.2;
  if (!x->setup.deadline) return false;
  const double late = dfi_now() - x->setup.deadline;
  const bool waits = x->team && x->head == x->tail && (x->away ? dfi_team_awaits(dfi_calls_first(x)) : x->finished);
  return late > (waits ? moment : 0);
}

bool dfi_engine_stops(dfi_exec *x) {
  return x->failed || dfi_exec_cancelled(x) || dfi_watch_wanted(x) ||
         (x->setup.deadline && dfi_now() > x->setup.deadline);
}

/* Why the run ends where it is, though others may fail in it; NULL: it goes on. */
static const char *told_to_stop(const dfi_exec *x) {
  if (dfi_is_set(x->setup.cancel)) return "the run was cancelled";
  if (dfi_is_set(x->setup.closing)) return "the session was closed";
  return dfi_interrupted(x) ? "the run was interrupted" : NULL;
}

bool dfk_stopping(const df_kernel *k) {
  const dfi_call *c = k->run;
  return c && (told_to_stop(c->exec) != NULL || dfi_team_failed(c->exec));
}

/* The run waits for a device (x->wait): until it is to end. */
static bool gives_up(void *user) {
  dfi_exec *x = user;
  char message[300];
  const char *why = told_to_stop(x);
  if (x->failed) return true;
  if (why) dfi_exec_fail(x, x->wait.record, x->wait.node, DF_CANCELLED, why);
  else if (x->setup.deadline && dfi_now() > x->setup.deadline) {
    snprintf(message, sizeof message, "the run took longer than its timeout: it waits for %s, where a kernel takes "
             "long, or hangs", x->wait.device ? x->wait.device->name : "a device");
    dfi_exec_fail(x, x->wait.record, x->wait.node, DF_DEADLINE_EXCEEDED, message);
  }
  return x->failed;
}

void dfi_exec_stop_if_told(dfi_exec *x) {
  const char *why = told_to_stop(x);
  if (why) dfi_exec_fail(x, NULL, NULL, DF_CANCELLED, why);
  else if (is_late(x)) too_late(x);
}

static void fail_with_others(dfi_exec *x) {
  dfi_exec_fail(x, NULL, NULL, DF_CANCELLED, "another owner of the run has failed");
  const dfi_record *r = dfi_team_waits_in(x);
  if (r) dfi_frame_path(r, x->error->frame, sizeof x->error->frame);
}

/* Every so many tokens: is the run to stop? */
static void look_up(dfi_exec *x) {
  if (DFI_UNLIKELY(dfi_short)) dfi_exec_no_memory(x, NULL, "the run");
  x->patience = x->flights ? 16 : 256;
  x->count.taken += x->head - x->counted;
  x->counted = x->head;
  if (x->live) dfi_exec_publish(x);
  if (DFI_UNLIKELY(x->rank != NULL)) dfi_team_look(x);
  const char *why = told_to_stop(x);
  if (why) dfi_exec_fail(x, NULL, NULL, DF_CANCELLED, why);
  else if (dfi_team_failed(x)) fail_with_others(x);
  else if (is_late(x)) too_late(x);
  if (x->watch && !x->failed) dfi_watch_look(x);
  if (x->plan->engine_ops && !x->failed) x->plan->engine_ops->look(x);
  if (x->running && dfi_inbox_filled(x)) dfi_inbox_take(x, false);
}

/* Does all that is ready have its turn again and again, and wait for what a message would bring? */
static bool is_livelocked(dfi_exec *x) {
  const int64_t ran = x->count.taken + (x->head - x->counted);
  if (ran == x->no_progress_at) return ++x->no_progress > x->tail - x->head + 64;
  if (DFI_UNLIKELY(x->stuck)) dfi_exec_ring(x);          /* it is not, any more */
  x->no_progress_at = ran;
  x->no_progress = 0;
  return false;
}

/* What happens only now and then: false when the engine has to stop. */
bool dfi_exec_pause(dfi_exec *x) {
  if (x->finished || x->failed) return false;
  if (DFI_UNLIKELY(x->flights != NULL)) {
    const double next = dfi_transfer_arrivals(x);
    if (x->finished || x->failed) return false;
    if (x->head == x->tail && next > 0) {
      if (DFI_UNLIKELY(isinf(next)) && dfi_flights_stuck(x)) return false;
      look_up(x);
      if (!x->failed && x->head == x->tail) dfi_inbox_wait(x, next);
      return !x->failed;
    }
    if (x->head == x->tail && !x->finished) return true;
    if (DFI_UNLIKELY(x->setup.faults != NULL) && x->flights && is_livelocked(x) && dfi_flights_stuck(x)) return false;
  }
  if (DFI_UNLIKELY(x->team && x->swapper) && x->head != x->tail && x->waiting && is_livelocked(x)) {
    if (dfi_calls_stuck(x)) return false;
    dfi_inbox_wait(x, 50e-6);
  }
  if (x->head == x->tail && DFI_UNLIKELY(x->batch != NULL) && dfi_batch_waits(x)) {
    if (x->patience < 0) look_up(x);
    if (!x->failed && x->head == x->tail) dfi_batch_run(x);
    return !x->failed && !x->finished;
  }
  if (x->head == x->tail) {
    if (!x->running) {
      if (dfi_frame_waits(x->root)) { x->finished = true; return false; }
      /* a token is missing: the plan was malformed */
      dfi_exec_fail(x, NULL, NULL, DF_INTERNAL, "nothing can move, and the run is not done");
      return false;
    }
    if (x->waiting || dfi_watch_wanted(x)) {   /* waiting: perhaps for ever */
      look_up(x);                           /* it may find that something has come back */
      if (x->failed || x->finished) return false;
      if (x->head != x->tail || !x->running || x->flights) return true;
      if (x->waiting && dfi_calls_stuck(x)) return false;
    }
    dfi_inbox_take(x, true);
    return !x->finished && !x->failed;
  }
  look_up(x);
  return !x->failed;
}

/* ---- from its beginning to its end ------------------------------------------------------------------------------ */

dfi_exec *dfi_exec_new(dfi_plan *p) {
  dfi_exec *x = dfi_xcalloc(1, sizeof *x);
  x->plan = p;
  x->given = dfi_xcalloc((size_t)(p->nfeed + p->nvariables + p->ncrossings + 1), sizeof *x->given);
  x->traffic = dfi_xcalloc((size_t)p->nlinks + 1, sizeof *x->traffic);
  int32_t devices = 0;
  for (int32_t i = 0; i < p->nlinks; i++) if (p->link[i].to >= devices) devices = p->link[i].to + 1;
  x->port = dfi_xcalloc((size_t)devices + 1, sizeof *x->port);
  x->queue = dfi_xcalloc(DFI_HISTORY, sizeof *x->queue);
  x->queue_mask = DFI_HISTORY - 1;
  x->bytes = (int64_t)(sizeof *x + DFI_HISTORY * sizeof *x->queue);
  x->free_frames = dfi_xcalloc((size_t)p->nscopes, sizeof *x->free_frames);
  pthread_mutex_init(&x->inbox_lock, NULL);
  dfi_cond_init(&x->inbox_bell);
  return x;
}

/* Nothing has run yet. */
static void begin(dfi_exec *x, df_error *err) {
  x->error = err;
  x->finished = x->failed = x->lost = false;
  x->head = x->tail = x->begun = x->counted = x->logged = x->drawn = 0;
  x->patience = 256;
  x->watched = DFI_UNWATCHED;
  x->logs = false;
  x->kept = NULL;
  x->edge = x->plan->edge;
  x->count = (dfi_counters){ 0 };
  dfi_books_begin(x);
  x->guest_frames = x->sent = x->received = 0;
  x->root = NULL;
  x->remat_iterations = 0;
  x->gpu_loops = (dfi_gpu_loops){ 0 };
  if (x->swapper) dfi_swap_begin(x);
  if (x->plan->nbatches) dfi_batch_begin(x);
}

/* Has another engine run all of the top level? */
static bool by_another_engine(dfi_exec *x, dfi_record *r) {
  x->finished = dfi_frame_offer(x, x->root, r);
  if (x->finished && !x->failed) dfi_books_balance(x);
  if (DFI_UNLIKELY(dfi_short)) dfi_exec_no_memory(x, NULL, "the run");
  return x->finished;
}

/* It has no tokens any more, and other ranks may still have kernels run here. */
static void stay_for_others(dfi_exec *x) {
  dfi_far_owner_done(x);
  while (!x->failed && dfi_far_is_needed(x)) {
    look_up(x);
    dfi_calls_idle(x);
    if (!x->failed && dfi_far_is_needed(x)) dfi_inbox_wait(x, 0.01);
  }
}

/* From the first token to the last one, of what this thread owns. */
static void turn(dfi_exec *x) {
  dfi_record *r = x->root->ring[0];
  if (DFI_UNLIKELY(x->root->scope->engine_ops != NULL) && by_another_engine(x, r)) return;
  record_start(x, x->root->scope, r);
  if (DFI_UNLIKELY(dfi_short)) dfi_exec_no_memory(x, NULL, "the run");
  if (x->failed) { }
  else if (dfi_team_failed(x)) fail_with_others(x);      /* where what crosses first did not, it is not there */
  else if (r->outstanding) dfi_exec_turn(x);
  else x->finished = true;
  if (x->finished && !x->failed) dfi_books_balance(x);
  if (DFI_UNLIKELY(dfi_short)) dfi_exec_no_memory(x, NULL, "the run");
  if (DFI_UNLIKELY(x->rank != NULL) && !x->failed) {
    dfi_team_flush(x);
    stay_for_others(x);
  }
  if (x->team && x->failed) dfi_team_fail(x);
  if (x->running || x->stuck) {
    dfi_calls_stop(x);
    if (x->finished) r->outstanding = 0;   /* what it was over without (lost.h) goes with the record */
  }
  if (x->team && x->watch) dfi_watch_leave(x);
}

void dfi_exec_part(dfi_exec *x) {
  const dfi_rescue rescue = dfi_swap_watch(x);
  const dfi_waiter waiter = dfi_waiter_here;
  dfi_waiter_here = (dfi_waiter){ gives_up, x };
  begin(x, &x->own_error);
  dfi_timed_join(x, dfi_team_first(x));
  memset(x->traffic, 0, sizeof *x->traffic * (size_t)(x->plan->nlinks + 1));
  if (x->watch) dfi_watch_join(x);
  x->root = dfi_frame_open_at(x, x->scope, NULL, NULL, 0);
  turn(x);
  dfi_waiter_here = waiter;
  dfi_rescue_here = rescue;
  if (!x->failed) dfi_audit_end(x);
}

int32_t dfi_exec_run(dfi_exec *x, df_error *err) {
  df_error local;
  begin(x, err ? err : &local);
  x->team = NULL;
  if (x->timed) dfi_timed_begin(x);
  if (x->timed && x->timed->recorder) dfi_record_begin(x);
  if (x->plan->cut && x->plan->devices->faulty) dfi_faults_begin(x);
  const bool several = DFI_UNLIKELY(x->plan->parts != NULL) && !dfi_team_refused(x) && dfi_team_gather(x);
  if (x->watch) dfi_watch_begin(x);
  x->scope = several ? x->plan->parts->scope[x->place] : x->plan->scope;
  if (x->plan->cut) dfi_streams_begin(x);
  const dfi_rescue rescue = dfi_swap_watch(x);
  const dfi_waiter waiter = dfi_waiter_here;
  dfi_waiter_here = (dfi_waiter){ gives_up, x };
  dfi_waits(x, NULL, NULL, NULL);
  const double began = dfi_now();
  x->root = dfi_frame_open_at(x, x->scope, NULL, NULL, 0);
  if (x->plan->cut) dfi_transfer_begin(x);
  if (several) dfi_team_go(x);
  turn(x);
  if (several) dfi_team_end(x);
  if (x->streams) dfi_streams_end(x);
  dfi_waiter_here = waiter;
  dfi_rescue_here = rescue;
  x->seconds = x->timed && x->plan->devices->virtual_clock ? x->timed->last : dfi_now() - began;
  if (x->plan->nbatches) dfi_batch_end(x);
  if (x->watch) dfi_watch_end(x);
  if (!x->failed) dfi_audit_end(x);
  if (DFI_UNLIKELY(x->setup.rank_run != 0)) dfi_team_say_end(x);
  return x->failed ? x->error->code : DF_OK;
}

void dfi_exec_reset(dfi_exec *x) {
  if (x->swapper) dfi_swap_end(x);
  if (x->replay) x->plan->engine_ops->forget_replays(x);
  if (x->root) dfi_frame_abandon(x, x->root);
  x->root = NULL;
  dfi_borrowed_reads_end(x);
  if (x->remats) dfi_remat_end(x);
  dfi_team_reset(x);
  if (x->guest) return;                    /* what was given is the first owner's */
  for (int32_t i = 0; i < x->plan->nfeed; i++) {
    dfi_value_drop(&x->given[i]);
    x->given[i].kind = DF_EMPTY;
  }
  for (int32_t i = 0; i < x->plan->ncrossings; i++) {
    df_value *v = &x->given[x->plan->nfeed + x->plan->nvariables + i];
    dfi_value_drop(v);
    v->kind = DF_EMPTY;
  }
}

void dfi_exec_free(dfi_exec *x) {
  dfi_exec_reset(x);
  dfi_team_free(x);
  for (int32_t s = 0; s < x->plan->nscopes; s++) {
    for (dfi_frame *f = x->free_frames[s], *n; f; f = n) {
      n = f->next_free;
      for (dfi_record *r = f->spare, *next; r; r = next) {
        next = r->next_free;
        dfi_free(r->when); dfi_free(r->shares);
        dfi_free(r->sources);
        dfi_free(r);
      }
      dfi_free(f->windows);
      dfi_free(f->ring); dfi_free(f->gate); dfi_free(f->constants); dfi_free(f->enter_dead); dfi_free(f->deferred);
      dfi_free(f);
    }
  }
  dfi_timed_free(x->clock);
  dfi_swapper_free(x->swapper);
  dfi_batch_free(x->batch);
  dfi_streams_free(x);
  if (!x->guest) dfi_free(x->setup.faults);      /* of several owners they are the first one's */
  dfi_flows_free(x->flows); dfi_free(x->traffic); dfi_free(x->port); dfi_free(x->rendezvous);
  for (dfi_flight *f = x->spare_flights, *next; f; f = next) {
    next = f->next;
    dfi_free(f);
  }
  dfi_free(x->free_frames); dfi_free(x->queue); dfi_free(x->history); dfi_free(x->given);
  pthread_mutex_destroy(&x->inbox_lock);
  pthread_cond_destroy(&x->inbox_bell);
  dfi_free(x);
}
