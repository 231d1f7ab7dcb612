/* wait.c: a run waits: for what comes to its inbox, or until it has found that nothing can move any more.
 */
#include "engine/run/run.h"
#include "base/clock.h"
#include "base/processor.h"
#include "engine/observe/watch.h"
#include "engine/owners/fault.h"
#include "engine/owners/ranks.h"
#include "engine/owners/team.h"
#include "engine/owners/transfer.h"
#include "engine/owners/lost.h"
#include "resource/host.h"
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

/* Is the owner wanted, by an inspector or because another one has failed? */
static bool called(const dfi_exec *x) { return dfi_watch_wanted(x) || dfi_team_failed(x); }

/* Sleeps for so long at most, or until something comes. Under inbox_lock. False: it may have slept to the end. */
static bool sleep_a_while(dfi_exec *x, double seconds) {
  if (DFI_UNLIKELY(x->rank != NULL)) {
    const uint32_t ticket = dfi_rank_ticket(x->rank);
    if (dfi_inbox_filled(x) || called(x)) return true;
    pthread_mutex_unlock(&x->inbox_lock);
    const double before = dfi_now();
    dfi_rank_sleep(x->rank, ticket, seconds);
    if (!dfi_rank_poll(x->rank) && dfi_now() - before >= seconds) dfi_team_tell_wait(x);
    pthread_mutex_lock(&x->inbox_lock);
    return false;
  }
  const struct timespec until = dfi_after(seconds);
  return pthread_cond_timedwait(&x->inbox_bell, &x->inbox_lock, &until) == 0;
}

/* Waits until something is in the inbox; not longer than 10 ms when calls wait for what is outside, which may never
   come. */
static void inbox_wait(dfi_exec *x) {
  if (!x->waiting) {
    while (!dfi_inbox_filled(x) && !called(x)) pthread_cond_wait(&x->inbox_bell, &x->inbox_lock);
    return;
  }
  while (!dfi_inbox_filled(x) && !called(x) && sleep_a_while(x, 0.01)) { }
}

/* Looks for something in the inbox without sleeping. A wait for a worker spins as long as waking would take. One that
 * waits for another owner, which may be a ready thread without a processor, soon gives up its own: with 2000 pauses
 * here two owners on a busy machine of two processors took eight times as long. */
static void look_a_while(dfi_exec *x) {
  enum { SPINS = 2000 };
  if (!x->waiting)
    for (int32_t i = 0; i < SPINS && !dfi_inbox_filled(x); i++) dfi_relax();
  else if (x->team)
    for (int32_t i = 0; i < DFI_LOOKS + DFI_YIELDS && !dfi_inbox_filled(x) && !called(x); i++) {
      if (x->rank && dfi_rank_poll(x->rank)) continue;
      if (i < DFI_LOOKS) dfi_relax();
      else sched_yield();
    }
}

void dfi_inbox_wait(dfi_exec *x, double seconds) {
  if (seconds < 30e-6) {                    /* waking takes longer than that */
    for (const double until = dfi_now() + seconds; dfi_now() < until && !dfi_inbox_filled(x);)
      dfi_relax();
  } else {
    /* a cancellation rings no bell */
    pthread_mutex_lock(&x->inbox_lock);
    if (!dfi_inbox_filled(x) && !called(x)) sleep_a_while(x, seconds < 0.01 ? seconds : 0.01);
    pthread_mutex_unlock(&x->inbox_lock);
  }
  if (dfi_inbox_filled(x)) dfi_inbox_take(x, false);
}

void dfi_inbox_take(dfi_exec *x, bool wait) {
  dfi_call *list = NULL;
  if (wait) look_a_while(x);
  pthread_mutex_lock(&x->inbox_lock);
  if (wait && !dfi_inbox_filled(x)) inbox_wait(x);
  list = x->inbox;
  dfi_team_message *messages = x->messages;
  __atomic_store_n(&x->inbox, NULL, __ATOMIC_RELAXED);
  __atomic_store_n(&x->messages, NULL, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&x->inbox_lock);
  while (list) {
    dfi_call *c = list;
    list = c->next;
    if (DFI_UNLIKELY(c->message)) dfi_transfer_copied(x, c);
    else dfi_call_returned(x, c);
  }
  for (dfi_team_message *next; messages; messages = next) {
    next = messages->next;
    dfi_transfer_message(x, messages);
  }
}

/* ---- calls that wait ------------------------------------------------------------------------------- */

const dfi_call *dfi_calls_first(const dfi_exec *x) {
  for (const dfi_call *c = x->away; c; c = c->away_next) if (!dfi_team_awaits(c)) return c;
  return x->away;
}

enum { TOLD = 3 };             /* calls that a message says more of than how many they are */

/* Writes of the first of them at text + at, either of those that wait for other owners or of the rest; how long it is
   then. */
static size_t tell_calls(const dfi_exec *x, bool others, int32_t *told, char *text, size_t at, size_t bytes) {
  for (dfi_call *c = x->away; c && *told < TOLD && at < bytes; c = c->away_next) {
    char what[300] = "runs";
    if (dfi_team_awaits(c) != others) continue;
    if (c->what) c->what(&c->kernel, c->user, what, sizeof what);
    at += (size_t)snprintf(text + at, bytes - at, "%s`%s`%s%s %s", *told ? "; " : "", dfi_node_name(c->node->node),
                           c->node->node->where[0] ? " at " : "", c->node->node->where, what);
    ++*told;
  }
  return at;
}

size_t dfi_calls_text(const dfi_exec *x, char *text, size_t bytes) {
  int32_t told = 0;
  size_t at = tell_calls(x, true, &told, text, tell_calls(x, false, &told, text, 0, bytes), bytes);
  if (x->running > told && told && at < bytes)
    at += (size_t)snprintf(text + at, bytes - at, "; and %d more", x->running - told);
  return at < bytes ? at : bytes;
}

/* Is it for x to give up? */
static bool gives_up(dfi_exec *x) {
  if (!x->team) return dfi_calls_all_stuck(x);
  if (x->setup.rank_run) {
    dfi_team_look_stalled(x);
    return x->flights ? dfi_team_found_stalled(x) : dfi_team_stalled(x);
  }
  const dfi_shared *s = x->setup.shared;
  if (x->flights) return atomic_load(&s->stuck) == atomic_load(&s->in_progress);  /* held up for ever */
  if (!x->guest) dfi_team_stall(x);
  return dfi_team_stalled(x);
}

/* Under inbox_lock. */
static bool become_stuck(dfi_exec *x) {
  atomic_fetch_add(&x->setup.shared->moves, 1);
  atomic_fetch_add(&x->setup.shared->stuck, 1);
  return x->stuck = true;
}

/* No owner of this rank can run a token of a step. */
static void hand_on_turn(dfi_exec *x) {
  const dfi_shared *s = x->setup.shared;
  if (DFI_UNLIKELY(x->setup.rank_run && x->watch) && atomic_load(&s->stuck) == atomic_load(&s->in_progress))
    dfi_watch_pass_turn(x->watch);
}

void dfi_calls_idle(dfi_exec *x) {
  pthread_mutex_lock(&x->inbox_lock);
  if (!dfi_inbox_filled(x) && !x->stuck) become_stuck(x);
  if (x->stuck) dfi_team_look_stalled(x);
  pthread_mutex_unlock(&x->inbox_lock);
  hand_on_turn(x);
}

bool dfi_calls_stuck(dfi_exec *x) {
  if (dfi_host_asked() && dfi_host_serve() > 0) return false;      /* another run waits for this thread */
  if (x->waiting + dfi_transfers_held(x) < x->running) return false;
  if (DFI_UNLIKELY(x->rank != NULL) && (dfi_rank_poll(x->rank) || !dfi_rank_flush(x->rank))) return false;
  bool newly = false;
  pthread_mutex_lock(&x->inbox_lock);
  if (!dfi_inbox_filled(x) && !x->stuck) newly = become_stuck(x);
  const bool stuck = x->stuck, all = stuck && gives_up(x);
  pthread_mutex_unlock(&x->inbox_lock);
  if (stuck) hand_on_turn(x);
  /* for the second time: most waits are short */
  if (stuck && (x->lost || ((all || !newly) && dfi_calls_lost(x)))) {
    x->finished = x->lost = true;
    return true;
  }
  if (newly && x->watch && !x->team) {
    pthread_mutex_lock(&x->watch->lock);
    x->watch->waits = true;
    pthread_cond_broadcast(&x->watch->changed);
    pthread_mutex_unlock(&x->watch->lock);
  }
  if (!all) return false;
  if (x->flights) {
    dfi_fault_stalled(x, x->flights->call.record, x->flights->call.node);
    return true;
  }
  char message[900];
  size_t at = (size_t)snprintf(message, sizeof message, "nothing can move: ");
  at += dfi_calls_text(x, message + at, sizeof message - at);
  if (at < sizeof message) snprintf(message + at, sizeof message - at, "; and no other run of this session can move");
  const dfi_call *c = dfi_calls_first(x);
  dfi_exec_fail(x, c->record, c->node, DF_FAILED_PRECONDITION, message);
  return true;
}

bool dfi_flights_stuck(dfi_exec *x) {
  for (const dfi_flight *f = x->flights; f; f = f->next) if (!isinf(f->due)) return false;
  if (x->team || dfi_transfers_held(x) != x->running) return dfi_calls_stuck(x);
  if (x->head == x->tail && dfi_calls_lost(x)) return x->finished = true;
  dfi_fault_stalled(x, x->flights->call.record, x->flights->call.node);
  return true;
}

void dfi_calls_stop(dfi_exec *x) {
  for (dfi_call *c = x->away, *next; c; c = next) {
    next = c->away_next;
    if (c->stop) c->stop(&c->kernel, c->user);
  }
  while (x->flights) dfi_transfer_arrivals(x);
  while (x->running) dfi_inbox_take(x, true);   /* after an error, what workers still do is waited for */
  pthread_mutex_lock(&x->inbox_lock);
  if (x->stuck) atomic_fetch_sub(&x->setup.shared->stuck, 1);
  x->stuck = false;
  pthread_mutex_unlock(&x->inbox_lock);
}
