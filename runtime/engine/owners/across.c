/* across.c: the part of a team's work that crosses to other ranks: messages become bytes and bytes messages, failures
 * and ends are told. And DFLOW_STRESS=ring, which has the owners of one process do the same.
 */
#include "engine/owners/team_internal.h"
#include "engine/services.h"
#include "resource/host.h"
#include "base/processor.h"
#include <math.h>
#include <sched.h>
#include <stdio.h>

static int32_t rank_of(const dfi_exec *x, int32_t owner) {
  return x->team->serial ? owner - x->team->first : x->plan->parts->rank[owner];
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* What a message has to wait for on its way, in microseconds: clocks of hosts differ. */
static uint32_t delay_of(double due) {
  if (due <= 0) return 0;
  if (isinf(due)) return UINT32_MAX;
  const double us = (due - dfi_now()) * 1e6;
  return us < 1 ? 1 : us > 4e9 ? (uint32_t)4e9 : (uint32_t)us;
}

void dfi_across_send(dfi_exec *x, const dfi_record *r, const dfi_pnode *p, int32_t owner, uint32_t dead, double due,
                     df_value v) {
  dfi_message m;
  m.head = (dfi_head){ .run = x->team->run, .edge = (uint32_t)(p - x->plan->node), .owner = (uint16_t)owner,
    .kind = DFI_MESSAGE_VALUE, .dead = dead != 0, .delay = delay_of(due) };
  const dfi_record *at = r;
  for (; at->frame->origin; at = at->frame->origin) m.number[m.head.depth++] = at->number;
  df_error err;
  const int32_t to = rank_of(x, owner);
  if (dfi_message_value(&m, &v, &err)) {
    atomic_fetch_add_explicit(&x->team->sent_to[to & (DFI_RANKS_MOST - 1)], 1, memory_order_relaxed);
    dfi_rank_send(x->rank, to, &m);
  }
  else dfi_exec_fail(x, r, p, err.code, err.message);
}

/* Is it a message that the plan has a Recv for, with what that expects? */
static bool is_ours(const struct dfi_team *t, const dfi_team_message *l) {
  const dfi_plan *p = t->member[0]->plan;
  if (l->edge >= (uint32_t)p->nnodes) return false;
  const dfi_pnode *q = &p->node[l->edge];
  if (q->kind != DFI_K_TRANSFER || p->parts->owner[p->link[q->child].to] != l->owner) return false;
  if (l->depth != dfi_scope_depth(p, (int32_t)q->scope)) return false;
  const bool has_value = l->value.kind != DF_EMPTY;
  return has_value ? q->nout && !l->dead && l->value.dtype == q->out_dtypes[0] : !q->nout || l->dead;
}

static bool is_crossing(const struct dfi_team *t, const dfi_team_message *l) {
  const dfi_plan *p = t->member[0]->plan;
  return l->edge < (uint32_t)p->ncrossings && l->value.kind != DF_EMPTY;
}

static void drop(dfi_team_message *l) {
  dfi_value_drop(&l->value);
  dfi_free(l);
}

void dfi_across_message(void *user, dfi_team_message *l) {
  struct dfi_team *t = user;
  dfi_exec *m = l->crossing ? NULL : dfi_team_member_of(t, l->owner);
  if (m && is_ours(t, l)) {
    _Atomic int64_t *come = &t->come_from[l->from & (DFI_RANKS_MOST - 1)];
    dfi_team_post(m, l);
    atomic_fetch_add(come, 1);
    return;
  }
  if (l->crossing && is_crossing(t, l)) {
    pthread_mutex_lock(&t->lock);
    l->next = t->crossed;
    t->crossed = l;
    pthread_mutex_unlock(&t->lock);
    return;
  }
  df_error err;
  dfi_fail(&err, DF_DATA_LOSS, NULL, "a message has come from another rank that this run's plan has no place for: the "
           "ranks have different plans");
  drop(l);
  dfi_rank_tell_failed(t->member[0]->rank, t->part.ranks, t->run, &err);
  dfi_across_failed(t, -1, &err);
}

void dfi_team_look(dfi_exec *x) { dfi_rank_poll(x->rank); }

void dfi_across_settle(const struct dfi_team *t) {
  for (bool moved = true; moved;) {
    moved = false;
    for (int32_t i = 0; i < t->n; i++) moved |= dfi_rank_poll(t->member[i]->rank);
  }
}

/* ---- waiting without having a token ----------------------------------------------------------------------------- */

/* The nth time that there is nothing to do. True: it has slept. */
static bool rest(const dfi_exec *x, int32_t n) {
  if (dfi_rank_poll(x->rank)) return false;
  if (n < DFI_LOOKS) dfi_relax();
  else if (n < DFI_LOOKS + DFI_YIELDS) sched_yield();
  else dfi_rank_sleep(x->rank, dfi_rank_ticket(x->rank), 0.002);
  return n >= DFI_LOOKS + DFI_YIELDS;
}

/* The same. False: the run is to stop. */
static bool pause_for(dfi_exec *x, int32_t n) {
  if (rest(x, n)) {
    if (!x->guest && dfi_host_asked()) dfi_host_serve();
    dfi_service.stop_if_told(x);
  }
  return !x->failed && !dfi_team_failed(x);
}

void dfi_team_flush(dfi_exec *x) {
  for (int32_t n = 0; !dfi_rank_flush(x->rank) && pause_for(x, n); n++) { }
}

/* ---- what crosses when the run begins --------------------------------------------------------------------------- */

void dfi_team_send_crossing(dfi_exec *x, int32_t crossing, const df_value *v) {
  const dfi_plan *p = x->plan;
  dfi_message m = { .head = { .run = x->team->run, .edge = (uint32_t)crossing, .kind = DFI_MESSAGE_CROSSING } };
  df_value own = dfi_value_copy(v);
  df_error err;
  if (dfi_message_value(&m, &own, &err))
    dfi_rank_send(x->rank, p->devices->at[p->link[p->crossing[crossing].link].to]->rank, &m);
  else dfi_exec_fail(x, NULL, NULL, err.code, err.message);
}

static dfi_team_message *find_crossed(struct dfi_team *t, int32_t crossing) {
  pthread_mutex_lock(&t->lock);
  dfi_team_message **at = &t->crossed;
  while (*at && (*at)->edge != (uint32_t)crossing) at = &(*at)->next;
  dfi_team_message *found = *at;
  if (found) *at = found->next;
  pthread_mutex_unlock(&t->lock);
  return found;
}

bool dfi_team_crossing(dfi_exec *x, int32_t crossing, df_value *out) {
  dfi_team_message *l = NULL;
  for (int32_t n = 0; !(l = find_crossed(x->team, crossing)) && pause_for(x, n); n++) { }
  if (!l) return false;
  *out = l->value;
  dfi_free(l);
  return true;
}

/* ---- looking at it ---------------------------------------------------------------------------------------------- */

void dfi_across_told(void *user, int32_t from, const void *bytes, int64_t n) {
  struct dfi_team *t = user;
  struct dfi_watch *w = t->member[0]->watch;
  if (!w) return;
  dfi_told *s = dfi_xmalloc(sizeof *s + (size_t)n);
  s->next = NULL;
  s->from = from;
  s->n = n;
  memcpy(s->bytes, bytes, (size_t)n);
  pthread_mutex_lock(&t->lock);
  *t->told_last = s;
  t->told_last = &s->next;
  pthread_mutex_unlock(&t->lock);
  dfi_service.watch_call(w);
  dfi_team_call_all(t);
}

dfi_told *dfi_team_told(const dfi_exec *x) {
  struct dfi_team *t = x->team;
  pthread_mutex_lock(&t->lock);
  dfi_told *s = t->told;
  if (s && !(t->told = s->next)) t->told_last = &t->told;
  pthread_mutex_unlock(&t->lock);
  return s;
}

void dfi_team_tell(const dfi_exec *x, int32_t rank, const void *bytes, int64_t n) {
  dfi_message m = { .head = { .kind = DFI_MESSAGE_WATCH, .run = x->team->run, .bytes = n }, .payload = bytes };
  dfi_rank_send(x->rank, rank, &m);
}

uint64_t dfi_team_others(const dfi_exec *x) { return x->team->part.ranks & ~atomic_load(&x->team->ended); }
int64_t dfi_team_sent_to(const dfi_exec *x, int32_t rank) { return atomic_load(&x->team->sent_to[rank]); }
int64_t dfi_team_come_from(const dfi_exec *x, int32_t rank) { return atomic_load(&x->team->come_from[rank]); }

void dfi_team_cancel(const dfi_exec *x) {
  df_error err;
  if (!x->setup.rank_run || !x->team) return;
  dfi_fail(&err, DF_CANCELLED, NULL, "the run was cancelled");
  dfi_rank_tell_failed(x->rank, x->team->part.ranks, x->setup.rank_run, &err);
}

void dfi_team_ended_counts(const dfi_exec *x, dfi_counters *count, int64_t *sent, int64_t *received) {
  struct dfi_team *t = x->team;
  pthread_mutex_lock(&t->lock);
  *count = t->sum.count;
  *sent = t->sum.sent;
  *received = t->sum.received;
  pthread_mutex_unlock(&t->lock);
}

/* ---- failing and ending together -------------------------------------------------------------------------------- */

void dfi_across_failed(void *user, int32_t from, const df_error *err) {
  struct dfi_team *t = user;
  int none = 0;
  (void)from;
  pthread_mutex_lock(&t->lock);
  if (!atomic_load(&t->failed)) {
    t->elsewhere = *err;
    atomic_compare_exchange_strong(&t->failed, &none, FAILED_ELSEWHERE);
  }
  pthread_mutex_unlock(&t->lock);
  dfi_team_call_all(t);
}

static int64_t end_bytes(const dfi_plan *p, const dfi_end *e) {
  return (int64_t)sizeof *e + (int64_t)sizeof(dfi_save_policy) * e->nsaved +
         8 * (3 * (int64_t)p->nlinks + e->nowners + 4 * e->ndevices) + p->nrandom;
}

/* Has another process written what is possible, and as long as it says? */
static bool is_end(const dfi_plan *p, const dfi_end *e, int64_t nowners, int64_t n) {
  return e->nlinks == p->nlinks && e->nowners >= 0 && e->nowners <= nowners && e->ndevices >= 0 &&
         e->ndevices <= DFI_DEVICES_MOST && e->nsaved >= 0 && e->nsaved <= p->graph->n && n == end_bytes(p, e);
}

/* What a rank saved in its part. Under the team's lock. */
static void add_saved(struct dfi_team *t, const dfi_end *e, const dfi_save_policy *policy) {
  const df_graph *g = t->member[0]->plan->graph;
  dfi_saved *s = &t->saved;
  s->recomputed += e->recomputed;
  dfi_swap_add(&s->swap, &e->swap);
  for (int64_t i = 0; i < e->nsaved; i++) {
    const uintptr_t node = (uintptr_t)policy[i].node;
    if (node >= (uintptr_t)g->n || policy[i].policy > DFI_SAVE_AUTO) continue;
    DFI_GROW(s->policies.at, s->policies.n, s->policies.room);
    dfi_save_policy *h = &s->policies.at[s->policies.n++];
    *h = policy[i];
    h->node = g->node[node];
    h->why[sizeof h->why - 1] = 0;
  }
}

/* What this one saved, for the end of its part: as many policies as `to` has room for. */
static void put_saved(const struct dfi_team *t, dfi_end *e, dfi_save_policy *to) {
  for (int32_t i = 0; i < t->n; i++) {
    const dfi_saved s = dfi_swap_saved(t->member[i]);
    e->recomputed += s.recomputed;
    dfi_swap_add(&e->swap, &s.swap);
    for (int32_t k = 0; k < s.policies.n; k++) {
      *to = s.policies.at[k];
      to++->node = (df_node *)(uintptr_t)s.policies.at[k].node->id;
    }
  }
}

void dfi_across_ended(void *user, int32_t from, const void *bytes, int64_t n) {
  struct dfi_team *t = user;
  const dfi_plan *p = t->member[0]->plan;
  const dfi_end *e = bytes;
  const dfi_save_policy *saved = (const dfi_save_policy *)(e + 1);
  int32_t first = 0;
  while (first < p->parts->n && p->parts->rank[first] != from) first++;
  pthread_mutex_lock(&t->lock);
  if (is_end(p, e, p->parts->n - first, n)) {
    const int64_t *more = (const int64_t *)(saved + e->nsaved);
    add_saved(t, e, saved);
    int64_t *sum = (int64_t *)&t->sum.count, *part = (int64_t *)&((dfi_end *)(uintptr_t)e)->count;
    for (size_t i = 0; i < sizeof t->sum.count / 8; i++) sum[i] += part[i];
    t->sum.sent += e->sent;
    t->sum.received += e->received;
    t->sum.gone += e->gone;
    t->sum.come += e->come;
    t->sum.held |= e->held;
    for (int32_t i = 0; i < p->nlinks; i++, more += 3) {
      t->traffic[i].messages += more[0];
      t->traffic[i].dead += more[1];
      t->traffic[i].bytes += more[2];
    }
    for (int32_t i = 0; i < e->nowners; i++) t->ran[first + i] = *more++;
    pthread_mutex_lock(&p->devices->lock);
    for (int64_t i = 0; i < e->ndevices; i++, more += 4) {
      dfi_device *v = more[0] >= 0 && more[0] < p->devices->n ? p->devices->at[more[0]] : NULL;
      if (v && v->rank == from) v->far = (dfi_devmem_stats){ .in_use = more[1], .peak = more[2], .limit = more[3] };
    }
    pthread_mutex_unlock(&p->devices->lock);
    const uint8_t *drew = (const uint8_t *)more;
    _Atomic uint8_t *all = t->member[0]->setup.drew;
    for (int32_t i = 0; i < p->nrandom && all; i++) if (drew[i]) atomic_store(&all[i], 1);
  }
  pthread_mutex_unlock(&t->lock);
  atomic_fetch_or(&t->ended, (uint64_t)1 << from);
}

void dfi_across_join(struct dfi_team *t) {
  dfi_exec *x = t->member[0];
  const dfi_plan *p = x->plan;
  t->run = x->setup.rank_run;
  t->left_behind = false;
  t->sum = (dfi_end){ 0 };
  t->saved = (dfi_saved){ .policies = { t->saved.policies.at, 0, t->saved.policies.room } };
  memset(t->traffic, 0, sizeof *t->traffic * ((size_t)p->nlinks + 1));
  memset(t->ran, 0, sizeof *t->ran * ((size_t)p->parts->n + 1));
  atomic_store(&t->ended, (uint64_t)1 << dfi_rank_me(x->rank));
  t->told_last = &t->told;
  for (int32_t i = 0; i < DFI_RANKS_MOST; i++) {
    atomic_store(&t->sent_to[i], 0);
    atomic_store(&t->come_from[i], 0);
  }
  dfi_far_begin(t);
  dfi_stall_begin(t);
  dfi_rank_begin(x->rank, t->run, &t->part);
}

/* Ranks that have not said that they are done, and are not lost. */
static uint64_t to_come(const struct dfi_team *t, const dfi_rank *r) {
  uint64_t left = t->part.ranks & ~atomic_load(&t->ended);
  for (int32_t i = 0; left >> i; i++) if (left >> i & 1 && !dfi_rank_peer_alive(r, i)) left &= ~((uint64_t)1 << i);
  return left;
}

/* It is over here, and nothing fetched waits for what other ranks wait for: their parts end, too, and their counts are
 * not waited for. */
static void leave_behind(dfi_exec *x) {
  struct dfi_team *t = x->team;
  df_error over;
  dfi_fail(&over, DF_CANCELLED, NULL, "the run is over without what this rank computes");
  dfi_rank_tell_failed(x->rank, to_come(t, x->rank), t->run, &over);
  t->left_behind = true;
}

/* Rank 0 has what the others counted. */
static void wait_for_ranks(dfi_exec *x) {
  struct dfi_team *t = x->team;
  for (int32_t n = 0; !t->left_behind && to_come(t, x->rank); n++)
    if (!pause_for(x, n) && x->failed) dfi_team_fail(x);         /* the others end, and say so */
    else if (x->watch && dfi_service.watch_ranks(x)) continue;
    else if (x->lost) leave_behind(x);
    else if (n > DFI_LOOKS + DFI_YIELDS && !dfi_team_failed(x)) dfi_stall_ask(x);
  if (x->watch) dfi_service.watch_look(x);        /* what they said last */
  const dfi_counters *s = &t->sum.count;
  dfi_counters *c = &x->count;
  c->taken += s->taken; c->died += s->died; c->merged += s->merged; c->ended += s->ended;
  c->frames += s->frames; c->iterations += s->iterations; c->pushes += s->pushes; c->pops += s->pops;
  for (int32_t i = 0; i < x->plan->nlinks; i++) {
    x->traffic[i].messages += t->traffic[i].messages;
    x->traffic[i].dead += t->traffic[i].dead;
    x->traffic[i].bytes += t->traffic[i].bytes;
  }
  if (x->watch) dfi_service.watch_counted(x);
}

static void say_end(dfi_exec *x) {
  const struct dfi_team *t = x->team;
  const int32_t nlinks = x->plan->nlinks;
  const dfi_devices *d = x->plan->devices;
  int32_t ndevices = 0;
  for (int32_t i = 0; i < d->n; i++) ndevices += d->at[i]->rank == d->rank;
  dfi_end head = { .nlinks = nlinks, .nowners = t->n, .ndevices = ndevices, .nrandom = x->plan->nrandom };
  for (int32_t i = 0; i < t->n; i++) head.nsaved += dfi_swap_saved(t->member[i]).policies.n;
  const int64_t bytes = end_bytes(x->plan, &head);
  dfi_end *e = dfi_xcalloc(1, (size_t)bytes);
  *e = head;
  dfi_save_policy *saved = (dfi_save_policy *)(e + 1);
  int64_t *more = (int64_t *)(saved + e->nsaved);
  put_saved(t, e, saved);
  dfi_stall_counts(t, &e->sent, &e->received);
  dfi_stall_crossed(x->team, &e->gone, &e->come);
  e->held = atomic_load(&t->held);
  e->count = x->count;
  e->count.taken += x->head - x->counted;
  for (int32_t i = 0; i < nlinks; i++) {
    *more++ = x->traffic[i].messages;
    *more++ = x->traffic[i].dead;
    *more++ = x->traffic[i].bytes;
  }
  for (int32_t i = 0; i < t->n; i++) *more++ = t->member[i]->nodes_run;
  for (int32_t i = 0; i < d->n && ndevices; i++) {
    if (d->at[i]->rank != d->rank) continue;
    dfi_devmem_stats now = { 0 };
    if (d->at[i]->arena) dfi_devmem_look(d->at[i]->arena, &now);
    else if (!d->spread) df_memory(&now.in_use, &now.peak, &now.limit, NULL);     /* else it is rank 0's, too */
    *more++ = i; *more++ = now.in_use; *more++ = now.peak; *more++ = now.limit;
    ndevices--;
  }
  for (int32_t i = 0; i < x->plan->nrandom && x->setup.drew; i++) ((uint8_t *)more)[i] = atomic_load(&x->setup.drew[i]);
  dfi_message m = { .head = { .kind = DFI_MESSAGE_END, .run = t->run, .bytes = bytes }, .payload = e };
  dfi_rank_send(x->rank, 0, &m);
  dfi_free(e);
}

void dfi_across_leave(dfi_exec *x) {
  struct dfi_team *t = x->team;
  if (!dfi_rank_me(x->rank)) wait_for_ranks(x);
  dfi_rank_over(x->rank, t->run, t->left_behind || atomic_load(&t->failed) != 0);
  dfi_far_end(t);
  for (dfi_team_message *l = t->crossed, *next; l; l = next) { next = l->next; drop(l); }
  t->crossed = NULL;
  for (dfi_told *s; (s = dfi_team_told(x)) != NULL;) dfi_free(s);
  x->setup.shared = t->session;
}

void dfi_team_say_end(dfi_exec *x) {
  if (!dfi_rank_me(x->rank)) return;
  dfi_service.exec_reset(x);                      /* what it holds is not among the memory in use */
  say_end(x);
  for (int32_t n = 0; !dfi_rank_flush(x->rank); n++) rest(x, n);         /* no other thread may send what is kept */
}

/* ---- the owners of one process, as if they were ranks ------------------------------------------------------------ */

struct dfi_serial {
  void     *memory;              /* owned */
  uint64_t  runs;
  dfi_rank *rank[];              /* owned; by member */
};

struct dfi_serial *dfi_serial_new(const struct dfi_team *t) {
  enum { LANE_BYTES = 4096 };
  struct dfi_serial *s = dfi_xcalloc(1, sizeof *s + sizeof *s->rank * (size_t)t->n);
  s->memory = dfi_xaligned(4096, (size_t)dfi_ring_lay(NULL, t->n, LANE_BYTES));
  dfi_ring_lay(s->memory, t->n, LANE_BYTES);
  for (int32_t i = 0; i < t->n; i++)
    s->rank[i] = dfi_rank_new(dfi_ring_new(s->memory, dfi_ring_lay(NULL, t->n, LANE_BYTES), i, NULL));
  return s;
}

void dfi_serial_begin(struct dfi_team *t) {
  struct dfi_serial *s = t->serial;
  if (t->member[0]->timed) return;         /* bytes do not carry what is recorded */
  t->run = ++s->runs;
  for (int32_t i = 0; i < t->n; i++) {
    t->member[i]->rank = s->rank[i];
    dfi_rank_begin(s->rank[i], t->run, &t->part);
  }
}

void dfi_serial_end(struct dfi_team *t) {
  if (!t->member[0]->rank) return;
  dfi_across_settle(t);                    /* of a run that has failed: it is forgotten */
  for (int32_t i = 0; i < t->n; i++) {
    dfi_rank_over(t->serial->rank[i], t->run, atomic_load(&t->failed) != 0);
    t->member[i]->rank = NULL;
  }
}

void dfi_serial_free(struct dfi_team *t) {
  for (int32_t i = 0; i < t->n; i++) dfi_rank_free(t->serial->rank[i]);
  dfi_free(t->serial->memory);
  dfi_free(t->serial);
}
