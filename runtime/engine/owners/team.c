/* team.c: see team.h. */
#include "engine/owners/team.h"
#include "engine/tokens/audit.h"
#include "engine/tokens/frame.h"
#include "engine/memory/swap.h"
#include "engine/clock/timed.h"
#include "engine/owners/transfer.h"
#include "engine/tokens/turn.h"
#include "engine/observe/watch.h"
#include "resource/host.h"
#include "base/clock.h"
#include "base/processor.h"
#include <math.h>
#include <stdio.h>
#include <unistd.h>

enum { WAITS = 0, GOES, GOES_HOME };
struct dfi_team {
  int32_t     n;
  atomic_int  failed;        /* 1 + the member that failed first; 0: none has */
  atomic_int  held;          /* a message was sent that never comes */
  atomic_int  stalled;       /* how often the first owner has found that nothing can move */
  pthread_mutex_t lock;      /* guards gate and out */
  pthread_cond_t  bell;
  int32_t     gate;
  int32_t     out;           /* other members' threads that have not ended */
  int         spins;
  uint32_t    mode;          /* of the floating-point unit */
  dfi_exec   *member[];      /* the first is the run's own; the others are owned */
};

const dfi_exec *dfi_team_member(const dfi_exec *x, int32_t i) {
  return x->team && x->place == 0 && i + 1 < x->team->n ? x->team->member[i + 1] : NULL;
}

int dfi_team_spins(const dfi_exec *x) { return x->team->spins; }

const dfi_exec *dfi_team_first(const dfi_exec *x) { return x->team->member[0]; }

const char *dfi_team_refused(const dfi_exec *x) {
  const dfi_plan *p = x->plan;
  return p->devices && p->devices->owners >= 2 ? dfi_plan_one_owner(p) : NULL;
}

/* ---- rendezvous ------------------------------------------------------------------------------------------ */

dfi_part_in dfi_team_part(const dfi_exec *x, const dfi_pnode *p) {
  const dfi_link *l = &x->plan->link[p->child];
  const uint16_t *owner = x->plan->parts->owner;
  if (owner[l->from] == owner[l->to] || x->plan->parts->called[p->scope]) return DFI_INSIDE;
  return owner[l->to] == x->place ? DFI_RECEIVES : DFI_SENDS;
}

/* The key of p in r. */
static void key_of(dfi_letter *l, const dfi_record *r, dfi_pnode *p) {
  uint64_t h = (uint64_t)(uintptr_t)p >> 7;
  l->node = p;
  for (l->depth = 0; r->frame->origin; r = r->frame->origin) {
    l->number[l->depth++] = r->number;
    h = (h ^ (uint64_t)r->number) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
  }
  l->hash = (h ^ h >> 32) * 0x9e3779b1u;
}

static bool same_key(const dfi_letter *a, const dfi_letter *b) {
  if (a->hash != b->hash || a->node != b->node) return false;
  for (int32_t i = 0; i < a->depth; i++) if (a->number[i] != b->number[i]) return false;
  return true;
}

static void widen(dfi_exec *x) {
  const uint32_t old = x->meeting_mask + 1;
  dfi_letter **wider = dfi_xcalloc((size_t)old * 2, sizeof *wider);
  for (uint32_t i = 0; i < old; i++)
    for (dfi_letter *l = x->meeting[i], *next; l; l = next) {
      next = l->next;
      l->next = wider[l->hash & (old * 2 - 1)];
      wider[l->hash & (old * 2 - 1)] = l;
    }
  dfi_free(x->meeting);
  x->meeting = wider;
  x->meeting_mask = old * 2 - 1;
}

static void wait_here(dfi_exec *x, dfi_letter *l) {
  if (x->nmeeting > x->meeting_mask) widen(x);
  dfi_letter **at = &x->meeting[l->hash & x->meeting_mask];
  l->next = *at;
  *at = l;
  x->nmeeting++;
}

/* Takes the one with the key of l (or l itself) out of the table; NULL: it is not there. */
static dfi_letter *meet(dfi_exec *x, const dfi_letter *l) {
  for (dfi_letter **at = &x->meeting[l->hash & x->meeting_mask]; *at; at = &(*at)->next) {
    dfi_letter *found = *at;
    if (!same_key(found, l)) continue;
    *at = found->next;
    x->nmeeting--;
    return found;
  }
  return NULL;
}

void dfi_team_send(dfi_exec *x, const dfi_record *r, dfi_pnode *p, uint32_t dead, double due, double came,
                   df_value v) {
  dfi_letter *l = dfi_xmalloc(sizeof *l);
  key_of(l, r, p);
  l->recv = NULL;
  l->due = due;
  l->came = came;
  l->event = x->timed ? x->timed->current : 0;
  l->dead = dead;
  l->value = v;
  if (DFI_UNLIKELY(isinf(due))) atomic_store(&x->team->held, 1);
  x->sent++;
  dfi_letter_post(x->team->member[x->plan->parts->owner[p->device]], l);
}

/* The run has failed, and the Recv waits no more. */
static void recv_stop(df_kernel *k, void *user) {
  dfi_flight *f = user;
  (void)k;
  meet(f->call.exec, &f->at);
  f->due = 0;
  f->call.exec->waiting--;
  dfi_flight_list(f->call.exec, f);
}

static void recv_text(df_kernel *k, void *user, char *text, size_t bytes) {
  const dfi_flight *f = user;
  const dfi_plan *p = f->call.exec->plan;
  (void)k;
  snprintf(text, bytes, "waits for its value from %s", p->devices->at[p->link[f->call.node->child].from]->name);
}

dfi_letter *dfi_team_receive(dfi_exec *x, dfi_record *r, dfi_pnode *p) {
  dfi_letter key;
  key_of(&key, r, p);
  dfi_letter *l = meet(x, &key);
  if (l) { x->received++; return l; }
  dfi_flight *f = dfi_flight_new(x, r, p);
  f->call.stop = recv_stop;
  f->call.what = recv_text;
  f->at = key;
  f->at.recv = f;
  f->recv = x->timed ? x->timed->current : 0;
  dfi_call_away(x, &f->call);
  wait_here(x, &f->at);
  return NULL;
}

dfi_flight *dfi_team_letter(dfi_exec *x, dfi_letter *l) {
  dfi_letter *found = meet(x, l);
  if (!found) { wait_here(x, l); return NULL; }
  dfi_flight *f = found->recv;
  x->received++;
  dfi_flight_takes(f, l);
  dfi_free(l);
  x->waiting--;                            /* it comes by itself, now */
  x->flying += dfi_value_bytes(&f->value);
  return f;
}

bool dfi_team_takes_part(const dfi_exec *x, int32_t o, int32_t scope) {
  const dfi_scope *s = &x->plan->parts->scope[o][scope];
  for (uint32_t i = 0; i < s->nenters; i++) if (!s->enters[i]->constant) return true;
  return false;
}

int64_t dfi_team_letters(dfi_exec *x, void (*tell)(void *to, const dfi_letter *l), void *to) {
  int64_t n = 0;
  pthread_mutex_lock(&x->inbox_lock);
  for (const dfi_letter *l = x->letters; l; l = l->next, n++) tell(to, l);
  pthread_mutex_unlock(&x->inbox_lock);
  for (uint32_t i = 0; i <= x->meeting_mask; i++)
    for (const dfi_letter *l = x->meeting[i]; l; l = l->next) if (!l->recv) { tell(to, l); n++; }
  return n;
}

bool dfi_team_awaits(const dfi_call *c) { return c->stop == recv_stop; }

/* ---- failing together ---------------------------------------------------------------------------------------- */

bool dfi_team_failed(const dfi_exec *x) {
  return x->team && atomic_load_explicit(&x->team->failed, memory_order_relaxed);
}

/* Who waits for other owners alone lets those say what the matter is, who for a second have not; so do all where a
   message is held up, whose Recv says it. */
bool dfi_team_stalled(const dfi_exec *x) {
  const int stalled = atomic_load_explicit(&x->team->stalled, memory_order_relaxed);
  if (!stalled || stalled > 100 || atomic_load(&x->team->held)) return stalled > 100;
  for (const dfi_call *c = x->away; c; c = c->away_next) if (c->node->kind != DFI_K_TRANSFER) return true;
  return false;
}

void dfi_team_fail(dfi_exec *x) {
  struct dfi_team *t = x->team;
  int none = 0;
  if (!atomic_compare_exchange_strong(&t->failed, &none, 1 + x->place)) return;
  for (int32_t i = 0; i < t->n; i++) {
    pthread_mutex_lock(&t->member[i]->inbox_lock);
    pthread_cond_signal(&t->member[i]->inbox_bell);
    pthread_mutex_unlock(&t->member[i]->inbox_lock);
  }
}

/* ---- a member's part --------------------------------------------------------------------------------------------- */

/* What all members have of the run. */
static void enlist(dfi_exec *m, const dfi_exec *x) {
  m->scope = x->plan->parts->scope[m->place];
  m->session = x->session; m->shared = x->shared; m->pool = x->pool;
  m->cancel = x->cancel; m->closing = x->closing;
  m->interrupter = x->interrupter; m->interrupts = x->interrupts;
  m->deadline = x->deadline; m->faults = x->faults;
  m->run_number = x->run_number; m->draw_number = x->draw_number; m->drew = x->drew; m->engine = x->engine;
  m->watch = x->watch; m->live = x->live; m->told = (df_stats){ 0 };
  m->joint = true;
  m->foreground = x->foreground;
  m->shuffle = x->shuffle ? x->shuffle * 31 + (uint64_t)m->place : 0;
  m->late = x->late;
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
    dfi_exec_part(x);
    atomic_fetch_sub(&x->shared->in_progress, 1);
    dfi_short = false;
    dfi_set_float_mode(mode);
  }
  pthread_mutex_lock(&t->lock);
  t->out--;
  pthread_cond_broadcast(&t->bell);
  pthread_mutex_unlock(&t->lock);
}

/* ---- the run ---------------------------------------------------------------------------------------------- */

static struct dfi_team *team_new(dfi_exec *x) {
  const int32_t n = x->plan->parts->n;
  struct dfi_team *t = dfi_xcalloc(1, sizeof *t + sizeof *t->member * (size_t)n);
  t->n = n;
  t->spins = n <= sysconf(_SC_NPROCESSORS_ONLN) ? 2000 : 0;
  pthread_mutex_init(&t->lock, NULL);
  dfi_cond_init(&t->bell);
  for (int32_t i = 0; i < n; i++) {
    dfi_exec *m = t->member[i] = i ? dfi_exec_new(x->plan) : x;
    m->place = i;
    if (i) {
      dfi_free(m->given);
      m->given = x->given;
      m->team = t;
    }
    m->meeting_mask = 63;
    m->meeting = dfi_xcalloc(64, sizeof *m->meeting);
  }
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

/* The first owner has nothing more to do; what it would do if it waited for the others' letters. It cannot move. */
static void wait_for_all(struct dfi_team *t) {
  dfi_exec *x = t->member[0];
  if (x->team) atomic_fetch_add(&x->shared->stuck, 1);
  pthread_mutex_lock(&t->lock);
  while (t->out) {
    const struct timespec until = dfi_after(0.01);
    if (pthread_cond_timedwait(&t->bell, &t->lock, &until) == 0) continue;
    pthread_mutex_unlock(&t->lock);
    if (!(dfi_host_asked() && dfi_host_serve() > 0) && x->team) dfi_team_stall(x);
    pthread_mutex_lock(&t->lock);
  }
  pthread_mutex_unlock(&t->lock);
  if (x->team) atomic_fetch_sub(&x->shared->stuck, 1);
}

bool dfi_team_gather(dfi_exec *x) {
  if (!x->crew) x->crew = team_new(x);
  struct dfi_team *t = x->crew;
  if (dfi_short) return false;
  t->gate = WAITS;
  t->out = 0;
  atomic_store(&t->failed, 0);
  atomic_store(&t->stalled, 0);
  atomic_store(&t->held, 0);
  t->mode = dfi_float_mode();
  for (int32_t i = 1; i < t->n; i++) {
    enlist(t->member[i], x);
    pthread_mutex_lock(&t->lock);
    t->out++;
    pthread_mutex_unlock(&t->lock);
    if (dfi_background(member_run, t->member[i])) continue;
    pthread_mutex_lock(&t->lock);
    t->out--;
    pthread_mutex_unlock(&t->lock);
    open_gate(t, GOES_HOME);
    wait_for_all(t);
    return false;
  }
  x->team = t;
  x->told = (df_stats){ 0 };
  x->joint = true;
  return true;
}

void dfi_team_go(dfi_exec *x) {
  if (x->failed) dfi_team_fail(x);
  atomic_fetch_add(&x->shared->in_progress, x->team->n - 1);
  open_gate(x->team, GOES);
}

static void burn(dfi_letter *l) {
  for (dfi_letter *next; l; l = next) {
    next = l->next;
    dfi_value_drop(&l->value);
    dfi_free(l);
  }
}

/* Letters that nobody waits for any more: the run has failed. */
static void burn_letters(dfi_exec *x) {
  burn(x->letters);
  x->letters = NULL;
  for (uint32_t i = 0; i <= x->meeting_mask && x->nmeeting; i++) {
    for (const dfi_letter *l = x->meeting[i]; l; l = l->next) x->nmeeting--;
    burn(x->meeting[i]);
    x->meeting[i] = NULL;
  }
}

/* ---- for who looks on ------------------------------------------------------------------------------------------ */

int32_t dfi_team_size(const dfi_exec *x) { return x->team ? x->team->n : 1; }

dfi_exec *dfi_team_at(const dfi_exec *x, int32_t i) { return x->team ? x->team->member[i] : (dfi_exec *)(uintptr_t)x; }

void dfi_team_call(const dfi_exec *x) {
  for (int32_t i = 0; i < dfi_team_size(x); i++) {
    dfi_exec *m = dfi_team_at(x, i);
    pthread_mutex_lock(&m->inbox_lock);
    pthread_cond_signal(&m->inbox_bell);
    pthread_mutex_unlock(&m->inbox_lock);
  }
}

bool dfi_team_counts(const dfi_exec *x, const dfi_scope *s) {
  const uint16_t counter = x->plan->parts->counter[s->id];
  return counter == x->place || counter == DFI_COUNTED_EVERYWHERE;
}

void dfi_team_publish(dfi_exec *x) {
  df_stats d = dfi_exec_stats(x);
  d.runs = x->place == 0;
  d.frames -= x->guest_frames;
  const int64_t now[] = { d.runs, d.nodes_run, d.dead_tokens, d.frames, d.iterations, d.stack_pushes, d.stack_pops };
  df_stats *t = &x->told, *l = x->live;
  int64_t *told[] = { &t->runs, &t->nodes_run, &t->dead_tokens, &t->frames, &t->iterations, &t->stack_pushes,
                      &t->stack_pops };
  int64_t *to[] = { &l->runs, &l->nodes_run, &l->dead_tokens, &l->frames, &l->iterations, &l->stack_pushes,
                    &l->stack_pops };
  for (int32_t i = 0; i < 7; i++) __atomic_fetch_add(to[i], now[i] - *told[i], __ATOMIC_RELAXED);
  *t = d;
}

/* ---- its end --------------------------------------------------------------------------------------------------- */

int64_t dfi_team_ran(const dfi_exec *x, int32_t i) {
  if (x->team && x->place == 0) return i < x->team->n ? x->team->member[i]->nodes_run : -1;
  return i ? -1 : dfi_exec_stats(x).nodes_run;
}

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
    burn_letters(t->member[i]);
    t->member[i]->nodes_run = dfi_exec_stats(t->member[i]).nodes_run;
    if (i) add_up(x, t->member[i]);
  }
  const int first = atomic_load(&t->failed);
  if (!first) return;
  x->failed = true;
  if (first > 1) *x->error = t->member[first - 1]->own_error;
}

void dfi_team_reset(dfi_exec *x) {
  for (int32_t i = 1; x->crew && i < x->crew->n; i++) dfi_exec_reset(x->crew->member[i]);
}

void dfi_team_free(dfi_exec *x) {
  struct dfi_team *t = x->crew;
  if (!t) return;
  for (int32_t i = 1; i < t->n; i++) {
    t->member[i]->given = NULL;
    dfi_exec_free(t->member[i]);
  }
  pthread_mutex_destroy(&t->lock);
  pthread_cond_destroy(&t->bell);
  dfi_free(t);
}
