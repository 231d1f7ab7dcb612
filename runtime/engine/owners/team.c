/* team.c: see team.h. */
#include "engine/engine.h"
#include "engine/owners/team_internal.h"
#include "engine/tokens/audit.h"
#include "engine/tokens/frame.h"
#include "engine/memory/swap.h"
#include "engine/clock/timed.h"
#include "engine/owners/transfer.h"
#include "engine/services.h"
#include "resource/host.h"
#include "base/clock.h"
#include "base/processor.h"
#include "base/stress.h"
#include <math.h>
#include <stdio.h>
#include <unistd.h>

const dfi_exec *dfi_team_member(const dfi_exec *x, int32_t i) {
  return x->team && !x->guest && i + 1 < x->team->n ? x->team->member[i + 1] : NULL;
}

const dfi_exec *dfi_team_first(const dfi_exec *x) { return x->team->member[0]; }

const char *dfi_team_refused(const dfi_exec *x) {
  const dfi_plan *p = x->plan;
  if (!p->devices || p->devices->owners < 2) return NULL;
  return p->devices->virtual_clock ? dfi_in_time_order : p->one_owner;
}

/* ---- failing together ---------------------------------------------------------------------------------------- */

bool dfi_team_failed(const dfi_exec *x) {
  return x->team && atomic_load_explicit(&x->team->failed, memory_order_relaxed);
}

/* An owner that waits for others alone lets those say what the matter is that for a second have not; so do all where a
   message is held up, whose Recv says it. */
bool dfi_team_stalled(const dfi_exec *x) {
  const int stalled = atomic_load_explicit(&x->team->stalled, memory_order_relaxed);
  if (!stalled || stalled > 100 || atomic_load(&x->team->held)) return stalled > 100;
  for (const dfi_call *c = x->away; c; c = c->away_next) if (c->node->kind != DFI_K_TRANSFER) return true;
  return false;
}

bool dfi_team_found_stalled(const dfi_exec *x) { return atomic_load(&x->team->stalled) > 0; }

void dfi_team_call_all(const struct dfi_team *t) {
  for (int32_t i = 0; i < t->n; i++) {
    pthread_mutex_lock(&t->member[i]->inbox_lock);
    pthread_cond_signal(&t->member[i]->inbox_bell);
    pthread_mutex_unlock(&t->member[i]->inbox_lock);
    if (t->member[i]->rank) dfi_rank_wake(t->member[i]->rank);
  }
}

void dfi_team_fail(dfi_exec *x) {
  struct dfi_team *t = x->team;
  int none = 0;
  if (!atomic_compare_exchange_strong(&t->failed, &none, 1 + x->place - t->first)) return;
  if (x->setup.rank_run) dfi_rank_tell_failed(x->rank, t->part.ranks, x->setup.rank_run, x->error);
  dfi_team_call_all(t);
}

/* ---- a member's part --------------------------------------------------------------------------------------------- */

/* What all members have of the run. */
static void enlist(dfi_exec *m, const dfi_exec *x) {
  m->setup = x->setup;
  m->scope = x->plan->parts->scope[m->place];
  m->watch = x->watch; m->live = x->live; m->told = (df_stats){ 0 };
  m->joint = true;
  m->shuffle = x->shuffle ? x->shuffle * 31 + (uint64_t)m->place : 0;
  m->late = x->late;
  if (x->setup.rank_run) m->rank = x->rank;
}

static void member_run(void *arg) {
  dfi_exec *x = arg;
  struct dfi_team *t = x->team;
  pthread_mutex_lock(&t->lock);
  while (t->gate == WAITS) pthread_cond_wait(&t->bell, &t->lock);
  const bool goes = t->gate == GOES;
  pthread_mutex_unlock(&t->lock);
  if (goes) {
    const uint32_t mode = dfi_float_mode();
    dfi_set_float_mode(t->mode);
    dfi_short = false;
    dfi_service.exec_part(x);
    atomic_fetch_sub(&x->setup.shared->in_progress, 1);
    dfi_short = false;
    dfi_set_float_mode(mode);
  }
  pthread_mutex_lock(&t->lock);
  t->out--;
  pthread_cond_broadcast(&t->bell);
  pthread_mutex_unlock(&t->lock);
}

/* ---- the run ---------------------------------------------------------------------------------------------- */

/* The owners of this process, of which x is the first. */
static struct dfi_team *team_new(dfi_exec *x) {
  const dfi_parts *a = x->plan->parts;
  int32_t first = 0, n = 0;
  for (int32_t i = 0; i < a->n; i++)
    if (a->rank[i] == x->plan->devices->rank && !n++) first = i;
  struct dfi_team *t = dfi_xcalloc(1, sizeof *t + sizeof *t->member * (size_t)n);
  t->n = n;
  t->first = first;
  t->part = (dfi_part){ a->ranks, t, dfi_across_message, dfi_across_failed, dfi_across_ended,
                        dfi_stall_told, dfi_across_told, dfi_far_message };
  t->traffic = dfi_xcalloc((size_t)x->plan->nlinks + 1, sizeof *t->traffic);
  t->ran = dfi_xcalloc((size_t)a->n + 1, sizeof *t->ran);
  pthread_mutex_init(&t->lock, NULL);
  pthread_mutex_init(&t->far.lock, NULL);
  dfi_cond_init(&t->bell);
  for (int32_t i = 0; i < n; i++) {
    dfi_exec *m = t->member[i] = i ? dfi_service.exec_new(x->plan) : x;
    m->place = first + i;
    m->guest = i > 0;
    if (i) {
      dfi_free(m->given);
      m->given = x->given;
      m->team = t;
    }
    m->rendezvous_mask = 63;
    m->rendezvous = dfi_xcalloc(64, sizeof *m->rendezvous);
  }
  if (n > 1 && !dfi_plan_over_ranks(x->plan) && dfi_stress("ring", NULL)) t->serial = dfi_serial_new(t);
  return t;
}

static void open_gate(struct dfi_team *t, int32_t gate) {
  pthread_mutex_lock(&t->lock);
  t->gate = gate;
  pthread_cond_broadcast(&t->bell);
  pthread_mutex_unlock(&t->lock);
}

void dfi_team_stall(dfi_exec *x) {
  if (dfi_calls_all_stuck(x)) atomic_fetch_add(&x->team->stalled, 1);
}

/* The first owner has nothing more to do; what it would do if it waited for the others' messages. It cannot move. */
static void wait_for_all(struct dfi_team *t) {
  dfi_exec *x = t->member[0];
  if (x->team) atomic_fetch_add(&x->setup.shared->stuck, 1);
  pthread_mutex_lock(&t->lock);
  while (t->out) {
    const struct timespec until = dfi_after(0.01);
    if (pthread_cond_timedwait(&t->bell, &t->lock, &until) == 0) continue;
    pthread_mutex_unlock(&t->lock);
    if (!(dfi_host_asked() && dfi_host_serve() > 0) && x->team) dfi_team_stall(x);
    pthread_mutex_lock(&t->lock);
  }
  pthread_mutex_unlock(&t->lock);
  if (x->team) atomic_fetch_sub(&x->setup.shared->stuck, 1);
}

/* The threads of the others. False: there are not enough, and those that there were have gone home. */
static bool call_members(struct dfi_team *t) {
  for (int32_t i = 1; i < t->n; i++) {
    enlist(t->member[i], t->member[0]);
    pthread_mutex_lock(&t->lock);
    t->out++;
    pthread_mutex_unlock(&t->lock);
    if (dfi_background(member_run, t->member[i])) continue;
    pthread_mutex_lock(&t->lock);
    t->out--;
    pthread_mutex_unlock(&t->lock);
    open_gate(t, CANCELLED);
    wait_for_all(t);
    return false;
  }
  return true;
}

bool dfi_team_gather(dfi_exec *x) {
  if (!x->worker_execs) x->worker_execs = team_new(x);
  struct dfi_team *t = x->worker_execs;
  t->gate = WAITS;
  t->out = 0;
  atomic_store(&t->failed, 0);
  atomic_store(&t->stalled, 0);
  atomic_store(&t->held, 0);
  t->mode = dfi_float_mode();
  const bool there = !dfi_short && call_members(t);
  if (!there && !x->setup.rank_run) return false;
  x->team = t;
  x->told = (df_stats){ 0 };
  x->joint = true;
  if (!there) {
    t->gate = CANCELLED;
    dfi_exec_fail(x, NULL, NULL, DF_RESOURCE_EXHAUSTED, "there are no threads for the owners of this run");
  }
  if (x->setup.rank_run) dfi_across_join(t);
  if (t->serial) dfi_serial_begin(t);
  return true;
}

void dfi_team_go(dfi_exec *x) {
  struct dfi_team *t = x->team;
  if (x->failed) dfi_team_fail(x);
  if (t->gate == CANCELLED) return;
  atomic_fetch_add(&x->setup.shared->in_progress, t->n - 1);
  open_gate(t, GOES);
}

void dfi_messages_drop(dfi_team_message *l) {
  for (dfi_team_message *next; l; l = next) {
    next = l->next;
    dfi_value_drop(&l->value);
    dfi_free(l);
  }
}

/* Messages that are not waited for any more: the run has failed. */
static void burn_messages(dfi_exec *x) {
  dfi_messages_drop(x->messages);
  x->messages = NULL;
  for (uint32_t i = 0; i <= x->rendezvous_mask && x->nrendezvous; i++) {
    for (const dfi_team_message *l = x->rendezvous[i]; l; l = l->next) x->nrendezvous--;
    dfi_messages_drop(x->rendezvous[i]);
    x->rendezvous[i] = NULL;
  }
}

/* ---- for inspectors ------------------------------------------------------------------------------------------ */

int32_t dfi_team_size(const dfi_exec *x) { return x->team ? x->team->n : 1; }

dfi_exec *dfi_team_at(const dfi_exec *x, int32_t i) { return x->team ? x->team->member[i] : (dfi_exec *)(uintptr_t)x; }

void dfi_team_call(const dfi_exec *x) {
  if (x->team) { dfi_team_call_all(x->team); return; }
  dfi_exec *alone = dfi_team_at(x, 0);
  pthread_mutex_lock(&alone->inbox_lock);
  pthread_cond_signal(&alone->inbox_bell);
  pthread_mutex_unlock(&alone->inbox_lock);
}

static void publish_part(dfi_exec *x) {
  df_stats d = dfi_exec_stats(x);
  d.runs = !x->guest;
  d.frames -= x->guest_frames;
  const int64_t *now = &d.runs, *told = &x->told.runs;
  for (int32_t i = 0; i < DFI_COUNTERS; i++) __atomic_fetch_add(&x->live->runs + i, now[i] - told[i], __ATOMIC_RELAXED);
  x->told = d;
}

void dfi_exec_publish(dfi_exec *x) {
  const df_stats d = dfi_exec_stats(x);
  if (x->joint) { publish_part(x); return; }
  for (int32_t i = 0; i < DFI_COUNTERS; i++) __atomic_store_n(&x->live->runs + i, (&d.runs)[i], __ATOMIC_RELAXED);
}

/* ---- its end --------------------------------------------------------------------------------------------------- */

int64_t dfi_team_ran(const dfi_exec *x, int32_t i) {
  if (x->team && !x->guest && i >= x->team->n) return i < x->plan->parts->n ? x->team->ran[i] : -1;
  if (x->team && !x->guest) return x->team->member[i]->nodes_run;
  return i ? -1 : dfi_exec_stats(x).nodes_run;
}

const dfi_saved *dfi_team_saved_elsewhere(const dfi_exec *x) { return &x->team->saved; }

/* What a member counted is the run's. */
static void add_up(dfi_exec *x, dfi_exec *m) {
  x->count.taken += m->count.taken + (m->head - m->counted);
  x->count.died += m->count.died;
  x->count.merged += m->count.merged;
  x->count.ended += m->count.ended;
  x->count.frames += m->count.frames - m->guest_frames;
  x->count.iterations += m->count.iterations;
  x->count.pushes += m->count.pushes;
  x->count.pops += m->count.pops;
  x->bytes += m->bytes - m->bytes_told;
  m->bytes_told = m->bytes;
  for (int32_t i = 0; i < x->plan->nlinks; i++) {
    x->traffic[i].messages += m->traffic[i].messages;
    x->traffic[i].dead += m->traffic[i].dead;
    x->traffic[i].bytes += m->traffic[i].bytes;
  }
}

void dfi_team_end(dfi_exec *x) {
  struct dfi_team *t = x->team;
  if (x->failed) dfi_team_fail(x);
  wait_for_all(t);
  x->joint = false;
  x->count.frames -= x->guest_frames;
  for (int32_t i = 0; i < t->n; i++) {
    t->member[i]->nodes_run = dfi_exec_stats(t->member[i]).nodes_run;
    if (i) add_up(x, t->member[i]);
  }
  if (x->setup.rank_run) dfi_across_leave(x);
  if (t->serial) dfi_serial_end(t);
  for (int32_t i = 0; i < t->n; i++) burn_messages(t->member[i]);
  const int first = atomic_load(&t->failed);
  if (!first) return;
  x->failed = true;
  if (first > 1) *x->error = t->member[first - 1]->own_error;
  else if (first == FAILED_ELSEWHERE) {
    df_error *lost = &t->elsewhere;
    if (lost->rank && !lost->frame[0]) memcpy(lost->frame, x->error->frame, sizeof lost->frame);
    *x->error = *lost;
  }
}

void dfi_team_reset(dfi_exec *x) {
  const struct dfi_team *t = x->worker_execs;
  for (int32_t i = 1; t && i < t->n; i++) dfi_service.exec_reset(t->member[i]);
}

void dfi_team_free(dfi_exec *x) {
  struct dfi_team *t = x->worker_execs;
  if (!t) return;
  for (int32_t i = 1; i < t->n; i++) {
    t->member[i]->given = NULL;
    dfi_service.exec_free(t->member[i]);
  }
  if (t->serial) dfi_serial_free(t);
  pthread_mutex_destroy(&t->lock);
  pthread_mutex_destroy(&t->far.lock);
  pthread_cond_destroy(&t->bell);
  dfi_free(t->traffic); dfi_free(t->ran); dfi_free(t->saved.policies.at);
  dfi_free(t);
}
