/* rank.c: see rank.h. Messages out: what there is no room for is kept, in order, and goes when there is. Messages in:
 * put together, and handed to the run that they belong to, or kept for it until it begins here.
 *
 * Lock order: a peer's `in`, then `runs`, then a peer's `out`.
 */
#include "engine/owners/ranks.h"
#include "base/processor.h"
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct peer {
  pthread_mutex_t out;           /* guards what goes to it */
  dfi_message *kept, **last;     /* what there was no room for */
  _Atomic int32_t nkept;
  pthread_mutex_t in;            /* guards what comes from it */
  dfi_incoming incoming;
  atomic_bool dead;
  char     host[64], what[200];  /* guarded by `runs`, as is pid */
  int64_t  pid;
  _Atomic int64_t messages_in, bytes_in, messages_out, bytes_out;
} peer;

/* A run that has begun here, or of which something has come, or which has failed. */
typedef struct run {
  uint64_t id;
  struct run *next;
  const dfi_part *part;          /* NULL: it has not begun here, or is over */
  dfi_team_message *early;       /* what came before it */
  struct said { struct said *next; int32_t kind, from; void *bytes; int64_t n; } *said, **last;    /* the same; owned */
  bool     expected;             /* it is about to begin here */
  bool     failed;               /* before it has begun, or since it was over */
  int32_t  from;                 /* by which rank */
  df_error error;
} run;

enum { RUN_BUCKETS = 64, FAILED_KEPT = 256 };

struct dfi_rank {
  dfi_transport *t;
  int32_t  n, me;
  peer    *peer;
  dfi_rank_handler handler; void *user;
  _Atomic uint64_t next_run;
  _Atomic uint32_t wakes;        /* of threads that wait here */
  pthread_mutex_t waits;         /* guards waited; no other lock is taken under it */
  dfi_rank_wait waited;
  pthread_mutex_t runs;          /* guards all below */
  run     *bucket[RUN_BUCKETS];
  uint64_t failed[FAILED_KEPT]; uint32_t nfailed;    /* the last runs that failed: forgotten in this order */
};

/* ---- life ------------------------------------------------------------------------------------------------------- */

dfi_rank *dfi_rank_new(dfi_transport *transport) {
  dfi_rank *r = dfi_xcalloc(1, sizeof *r);
  r->t = transport;
  r->n = transport->n;
  r->me = transport->me;
  r->peer = dfi_xcalloc((size_t)r->n, sizeof *r->peer);
  for (int32_t i = 0; i < r->n; i++) {
    pthread_mutex_init(&r->peer[i].out, NULL);
    pthread_mutex_init(&r->peer[i].in, NULL);
    r->peer[i].last = &r->peer[i].kept;
  }
  pthread_mutex_init(&r->runs, NULL);
  pthread_mutex_init(&r->waits, NULL);
  return r;
}

static void drop_said(run *f) {
  for (struct said *e = f->said, *next; e; e = next) {
    next = e->next;
    free(e->bytes);
    dfi_free(e);
  }
  f->said = NULL;
  f->last = &f->said;
}

static void drop_kept(peer *p) {
  for (dfi_message *m = p->kept, *next; m; m = next) {
    next = m->next;
    dfi_message_drop(m);
    dfi_free(m);
  }
  p->kept = NULL;
  p->last = &p->kept;
  atomic_store(&p->nkept, 0);
}

void dfi_rank_free(dfi_rank *r) {
  for (int32_t i = 0; i < r->n; i++) {
    drop_kept(&r->peer[i]);
    dfi_incoming_drop(&r->peer[i].incoming);
    pthread_mutex_destroy(&r->peer[i].out);
    pthread_mutex_destroy(&r->peer[i].in);
  }
  for (int32_t b = 0; b < RUN_BUCKETS; b++)
    for (run *at = r->bucket[b], *next; at; at = next) {
      next = at->next;
      dfi_messages_drop(at->early);
      drop_said(at);
      dfi_free(at);
    }
  r->t->free(r->t);
  pthread_mutex_destroy(&r->runs);
  pthread_mutex_destroy(&r->waits);
  dfi_free(r->peer); dfi_free(r);
}

int32_t dfi_rank_me(const dfi_rank *r) { return r->me; }
int32_t dfi_rank_count(const dfi_rank *r) { return r->n; }
bool dfi_rank_peer_alive(const dfi_rank *r, int32_t p) { return !atomic_load(&r->peer[p].dead); }
void dfi_rank_wake(dfi_rank *r) {
  atomic_fetch_add(&r->wakes, 1);
  r->t->wake(r->t);
}
uint32_t dfi_rank_wakes(const dfi_rank *r) { return atomic_load(&r->wakes); }
uint64_t dfi_rank_run_number(dfi_rank *r) { return 1 + atomic_fetch_add(&r->next_run, 1); }

void dfi_rank_handle(dfi_rank *r, dfi_rank_handler handler, void *user) {
  r->user = user;
  r->handler = handler;
}

void dfi_rank_traffic_of(const dfi_rank *r, int32_t i, dfi_rank_traffic *out) {
  const peer *p = &r->peer[i];
  *out = (dfi_rank_traffic){ atomic_load(&p->messages_in), atomic_load(&p->bytes_in), atomic_load(&p->messages_out),
                             atomic_load(&p->bytes_out) };
}

/* ---- waiters --------------------------------------------------------------------------------------------------- */

/* A waiter says so whenever it has slept for long; what was not said again is over. */
static bool goes_on(const dfi_rank_wait *w) {
  enum { SAID_MS = 500 };
  return w->seen > 0 && dfi_now() - w->seen < 1e-3 * SAID_MS;
}

void dfi_rank_waits(dfi_rank *r, const dfi_rank_wait *w) {
  pthread_mutex_lock(&r->waits);
  if (!goes_on(&r->waited) || w->since <= r->waited.since) r->waited = *w;
  pthread_mutex_unlock(&r->waits);
}

bool dfi_rank_waiting(dfi_rank *r, dfi_rank_wait *out) {
  pthread_mutex_lock(&r->waits);
  *out = r->waited;
  const bool is = goes_on(out);
  pthread_mutex_unlock(&r->waits);
  return is;
}

/* ---- out -------------------------------------------------------------------------------------------------------- */

/* The next packet of m. False: there is no room. */
static bool put_packet(dfi_rank *r, int32_t to, dfi_message *m) {
  const int64_t front = m->sent < 0 ? dfi_message_front(&m->head) : 0, all = dfi_message_payload(&m->head);
  const int64_t sent = m->sent < 0 ? 0 : m->sent, room = r->t->most - front;
  const int64_t now = all - sent < room ? all - sent : room;
  char *at = r->t->reserve(r->t, to, front + now);
  if (!at) return false;
  if (front) {
    memcpy(at, &m->head, sizeof m->head);
    memcpy(at + sizeof m->head, m->number, (size_t)front - sizeof m->head);
  }
  if (now) memcpy(at + front, (const char *)m->payload + sent, (size_t)now);
  r->t->commit(r->t, to);
  m->sent = sent + now;
  return true;
}

/* False: part of it is still here. */
static bool put_message(dfi_rank *r, int32_t to, dfi_message *m) {
  do if (!put_packet(r, to, m)) return false;
  while (m->sent < dfi_message_payload(&m->head));
  return true;
}

/* Under `out`. */
static void flush(dfi_rank *r, int32_t to) {
  peer *p = &r->peer[to];
  while (p->kept && put_message(r, to, p->kept)) {
    dfi_message *m = p->kept;
    if (!(p->kept = m->next)) p->last = &p->kept;
    dfi_message_drop(m);
    dfi_free(m);
    atomic_fetch_sub(&p->nkept, 1);
  }
}

void dfi_rank_send(dfi_rank *r, int32_t to, dfi_message *m) {
  peer *p = &r->peer[to];
  atomic_fetch_add_explicit(&p->messages_out, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&p->bytes_out, dfi_message_front(&m->head) + dfi_message_payload(&m->head),
                            memory_order_relaxed);
  m->sent = -1;
  pthread_mutex_lock(&p->out);
  const bool gone = atomic_load(&p->dead) || (!p->kept && put_message(r, to, m));
  if (!gone) {
    dfi_message *k = dfi_xmalloc(sizeof *k);
    *k = *m;
    if (k->payload && !k->packed && k->value.kind == DF_EMPTY) {       /* the caller's: a copy of it */
      k->packed = dfi_xmalloc((size_t)k->head.bytes);
      k->payload = memcpy(k->packed, k->payload, (size_t)k->head.bytes);
    }
    k->next = NULL;
    *p->last = k;
    p->last = &k->next;
    atomic_fetch_add(&p->nkept, 1);
  }
  pthread_mutex_unlock(&p->out);
  if (gone) dfi_message_drop(m);
}

bool dfi_rank_flush(dfi_rank *r) {
  bool all = true;
  for (int32_t i = 0; i < r->n; i++) {
    if (!atomic_load_explicit(&r->peer[i].nkept, memory_order_relaxed)) continue;
    pthread_mutex_lock(&r->peer[i].out);
    flush(r, i);
    all &= !r->peer[i].kept;
    pthread_mutex_unlock(&r->peer[i].out);
  }
  return all;
}

void dfi_rank_post(dfi_rank *r, int32_t to, const void *bytes, int64_t n) {
  dfi_message m = { .head = { .kind = DFI_MESSAGE_CLUSTER, .bytes = n }, .payload = bytes };
  dfi_rank_send(r, to, &m);
}

/* ---- runs ------------------------------------------------------------------------------------------------------- */

/* Under `runs`; NULL: nothing is known of it. */
static run **place_of(dfi_rank *r, uint64_t id) {
  run **at = &r->bucket[id % RUN_BUCKETS];
  while (*at && (*at)->id != id) at = &(*at)->next;
  return at;
}

static run *run_of(dfi_rank *r, uint64_t id) {
  run **at = place_of(r, id);
  if (!*at) {
    *at = dfi_xcalloc(1, sizeof **at);
    (*at)->id = id;
    (*at)->last = &(*at)->said;
  }
  return *at;
}

static void forget(dfi_rank *r, uint64_t id) {
  run **at = place_of(r, id), *gone = *at;
  if (!gone) return;
  *at = gone->next;
  dfi_messages_drop(gone->early);
  drop_said(gone);
  dfi_free(gone);
}

/* What still comes of it finds that it has failed. */
static void remember_failed(dfi_rank *r, run *f) {
  dfi_messages_drop(f->early);
  f->early = NULL;
  uint64_t *oldest = &r->failed[r->nfailed++ % FAILED_KEPT];
  run *old = *oldest ? *place_of(r, *oldest) : NULL;
  if (old && old != f && !old->part) forget(r, *oldest);
  *oldest = f->id;
}

void dfi_rank_tell_failed(dfi_rank *r, uint64_t ranks, uint64_t id, const df_error *err) {
  for (int32_t i = 0; i < r->n; i++) {
    if (i == r->me || !(ranks >> i & 1)) continue;
    dfi_message m = { .head = { .kind = DFI_MESSAGE_FAIL, .run = id, .bytes = sizeof *err }, .payload = err };
    dfi_rank_send(r, i, &m);
  }
}

/* here: it is found out here, and the other ranks of the run are told. */
static void fail_run(dfi_rank *r, run *f, int32_t from, bool here, const df_error *err) {
  if (f->failed) return;
  f->failed = true;
  f->from = from;
  f->error = *err;
  if (!f->part) { remember_failed(r, f); return; }
  if (here) dfi_rank_tell_failed(r, f->part->ranks, f->id, err);
  f->part->failed(f->part->user, from, err);
}

void dfi_rank_expect(dfi_rank *r, uint64_t id) {
  pthread_mutex_lock(&r->runs);
  run_of(r, id)->expected = true;
  pthread_mutex_unlock(&r->runs);
}

static void loss_of(const dfi_rank *r, int32_t i, df_error *err) {
  const peer *p = &r->peer[i];
  char where[128] = "";
  if (p->host[0]) snprintf(where, sizeof where, " (host %s, pid %lld)", p->host, (long long)p->pid);
  dfi_fail(err, DF_UNAVAILABLE, NULL, "rank %d%s %s", i, where, p->what);
  err->rank = i + 1;
  snprintf(err->host, sizeof err->host, "%s", p->host);
}

typedef void (*listens)(void *user, int32_t from, const void *bytes, int64_t n);

static listens listener(const dfi_part *part, int32_t kind) {
  return kind == DFI_MESSAGE_END ? part->ended : kind == DFI_MESSAGE_WATCH ? part->told : part->kernel;
}

void dfi_rank_begin(dfi_rank *r, uint64_t id, const dfi_part *part) {
  pthread_mutex_lock(&r->runs);
  run *f = run_of(r, id);
  f->part = part;
  dfi_team_message *early = f->early;
  f->early = NULL;
  for (dfi_team_message *next; early; early = next) {
    next = early->next;
    part->message(part->user, early);
  }
  for (const struct said *e = f->said; e; e = e->next) listener(part, e->kind)(part->user, e->from, e->bytes, e->n);
  drop_said(f);
  if (f->failed) part->failed(part->user, f->from, &f->error);
  for (int32_t i = 0; i < r->n && !f->failed; i++)
    if (part->ranks >> i & 1 && i != r->me && atomic_load(&r->peer[i].dead)) {
      df_error err;
      loss_of(r, i, &err);
      fail_run(r, f, i, true, &err);
    }
  pthread_mutex_unlock(&r->runs);
}

void dfi_rank_over(dfi_rank *r, uint64_t id, bool failed) {
  pthread_mutex_lock(&r->runs);
  run *f = run_of(r, id);
  f->part = NULL;
  if (failed || f->failed) { f->failed = true; remember_failed(r, f); }
  else forget(r, id);
  pthread_mutex_unlock(&r->runs);
}

void dfi_rank_stop(dfi_rank *r, uint64_t id, const df_error *err) {
  pthread_mutex_lock(&r->runs);
  fail_run(r, run_of(r, id), r->me, true, err);
  pthread_mutex_unlock(&r->runs);
}

void dfi_rank_refuse(dfi_rank *r, uint64_t id, const df_error *err) {
  const dfi_end none = { 0 };
  dfi_rank_stop(r, id, err);
  dfi_rank_tell_failed(r, ~(uint64_t)0 >> (64 - r->n), id, err);
  dfi_message end = { .head = { .kind = DFI_MESSAGE_END, .run = id, .bytes = sizeof none }, .payload = &none };
  dfi_rank_send(r, 0, &end);
}

/* Rank `to` has done its part of a run: what is kept for it of that run goes nowhere (whether it can move is still
 * asked while it may not have begun). Else the end of the run here would wait for it to be taken. What has gone in part
 * stays, since the rest of it is awaited. */
static void forget_kept(dfi_rank *r, int32_t to, uint64_t id) {
  peer *p = &r->peer[to];
  pthread_mutex_lock(&p->out);
  for (dfi_message **at = &p->kept, *m; (m = *at);) {
    if (m->head.run != id || m->head.kind == DFI_MESSAGE_CLUSTER || m->sent >= 0) { at = &m->next; continue; }
    *at = m->next;
    dfi_message_drop(m);
    dfi_free(m);
    atomic_fetch_sub(&p->nkept, 1);
  }
  for (p->last = &p->kept; *p->last;) p->last = &(*p->last)->next;
  pthread_mutex_unlock(&p->out);
}

/* ---- in --------------------------------------------------------------------------------------------------------- */

/* A message of what has come, for the run's owner. */
static dfi_team_message *letter_of(const dfi_incoming *in, int32_t from) {
  const dfi_head *h = &in->head;
  dfi_team_message *l = dfi_xmalloc(sizeof *l);
  l->recv = NULL;
  l->edge = h->edge; l->owner = h->owner; l->depth = h->depth;
  l->crossing = h->kind == DFI_MESSAGE_CROSSING;
  l->from = (uint8_t)from;
  l->dead = h->dead ? DFI_DEAD : 0;
  l->due = !h->delay ? 0 : h->delay == UINT32_MAX ? (double)INFINITY : dfi_now() + 1e-6 * h->delay;
  l->came = 0;
  l->event = 0;
  l->value = in->value;
  memcpy(l->number, in->number, 8 * (size_t)h->depth);
  l->hash = dfi_key_hash(l->edge, l->depth, l->number);
  return l;
}

/* Another process wrote it: texts may not end, and numbers be any. */
static df_error error_of(const dfi_rank *r, const void *bytes) {
  df_error e;
  memcpy(&e, bytes, sizeof e);
  if (e.code <= DF_OK || e.code > DF_DATA_LOSS) e.code = DF_INTERNAL;
  if (e.rank < 0 || e.rank > r->n) e.rank = 0;
  char *texts[] = { e.message, e.op, e.frame, e.source, e.host };
  const size_t room[] = { sizeof e.message, sizeof e.op, sizeof e.frame, sizeof e.source, sizeof e.host };
  for (int32_t i = 0; i < 5; i++) texts[i][room[i] - 1] = 0;
  return e;
}

static void deliver(dfi_rank *r, int32_t from, dfi_incoming *in) {
  const dfi_head *h = &in->head;
  pthread_mutex_lock(&r->runs);
  if (h->kind == DFI_MESSAGE_STALL || h->kind == DFI_MESSAGE_WATCH) {      /* a part that is over is not asked */
    const run *known = *place_of(r, h->run);
    if (!known || !in->packed || (!known->part && (h->kind == DFI_MESSAGE_STALL || !known->expected))) {
      pthread_mutex_unlock(&r->runs);
      return;
    }
  }
  run *f = run_of(r, h->run);
  if (h->kind == DFI_MESSAGE_FAIL) {
    const df_error err = h->bytes == sizeof err ? error_of(r, in->packed) : (df_error){ 0 };
    if (err.code) fail_run(r, f, from, false, &err);
  } else if (h->kind == DFI_MESSAGE_STALL) f->part->stall(f->part->user, from, in->packed, h->bytes);
  else if (h->kind == DFI_MESSAGE_END || h->kind == DFI_MESSAGE_WATCH || h->kind == DFI_MESSAGE_KERNEL) {
    const bool end = h->kind == DFI_MESSAGE_END;
    if (end) forget_kept(r, from, h->run);
    if ((end && h->bytes < (int64_t)sizeof(dfi_end)) || (h->kind == DFI_MESSAGE_KERNEL && f->failed)) { }
    else if (f->part) listener(f->part, h->kind)(f->part->user, from, in->packed, h->bytes);
    else {                                 /* a short part may be over before this one begins */
      struct said *e = dfi_xmalloc(sizeof *e);
      *e = (struct said){ NULL, h->kind, from, in->packed, h->bytes };
      in->packed = NULL;
      *f->last = e;
      f->last = &e->next;
    }
  } else if (f->part) f->part->message(f->part->user, letter_of(in, from));
  else if (f->failed) dfi_value_drop(&in->value);
  else {
    dfi_team_message *l = letter_of(in, from);
    l->next = f->early;
    f->early = l;
  }
  pthread_mutex_unlock(&r->runs);
  in->value.kind = DF_EMPTY;
}

static void no_memory(dfi_rank *r, int32_t from, const dfi_head *h) {
  df_error err;
  dfi_fail(&err, DF_RESOURCE_EXHAUSTED, NULL, "out of memory for %lld bytes that rank %d sent", (long long)h->bytes,
           from);
  dfi_rank_stop(r, h->run, &err);
}

/* One packet of rank i; false: there is none. Under its `in`. */
static bool take_packet(dfi_rank *r, int32_t i) {
  peer *p = &r->peer[i];
  int64_t bytes;
  const void *packet = r->t->next(r->t, i, &bytes);
  if (!packet) return false;
  atomic_fetch_add_explicit(&p->bytes_in, bytes, memory_order_relaxed);
  dfi_incoming *in = &p->incoming;
  const dfi_came came = dfi_incoming_take(in, packet, bytes);
  r->t->release(r->t, i);
  if (came == DFI_CAME_PART) return true;
  atomic_fetch_add_explicit(&p->messages_in, 1, memory_order_relaxed);
  if (came == DFI_CAME_WRONG) dfi_rank_peer_failed(r, i, NULL, 0, "has sent what is no message");
  else if (came == DFI_CAME_NO_MEMORY) no_memory(r, i, &in->head);
  else if (in->head.kind != DFI_MESSAGE_CLUSTER) deliver(r, i, in);
  else if (r->handler) r->handler(r->user, i, in->packed, in->head.bytes);
  free(in->packed);
  in->packed = NULL;
  return true;
}

bool dfi_rank_poll(dfi_rank *r) {
  bool some = false;
  for (int32_t i = 0; i < r->n; i++) {
    peer *p = &r->peer[i];
    if (i == r->me || atomic_load_explicit(&p->dead, memory_order_relaxed)) continue;
    if (!r->t->has(r->t, i) || pthread_mutex_trylock(&p->in)) continue;
    while (take_packet(r, i)) some = true;
    pthread_mutex_unlock(&p->in);
    if (r->t->broken(r->t, i)) dfi_rank_peer_failed(r, i, NULL, 0, "has sent what is no packet");
  }
  dfi_rank_flush(r);
  return some;
}

uint32_t dfi_rank_ticket(const dfi_rank *r) { return r->t->ticket(r->t); }
void dfi_rank_sleep(dfi_rank *r, uint32_t ticket, double seconds) { r->t->wait(r->t, ticket, seconds); }

bool dfi_rank_serve(dfi_rank *r, uint32_t wakes, double seconds) {
  for (int32_t look = 0; look < DFI_LOOKS + DFI_YIELDS; look++) {
    if (dfi_rank_poll(r)) return true;
    if (seconds <= 0) return false;
    if (look < DFI_LOOKS) dfi_relax();
    else sched_yield();
  }
  const uint32_t ticket = dfi_rank_ticket(r);           /* from here on a wake ends the sleep */
  if (wakes == dfi_rank_wakes(r)) dfi_rank_sleep(r, ticket, seconds);
  return dfi_rank_poll(r);
}

/* ---- peers that are lost ---------------------------------------------------------------------------------------- */

void dfi_rank_peer_failed(dfi_rank *r, int32_t i, const char *host, int64_t pid, const char *what) {
  peer *p = &r->peer[i];
  df_error err;
  pthread_mutex_lock(&r->runs);
  if (!atomic_load(&p->dead)) {
    if (host) { snprintf(p->host, sizeof p->host, "%s", host); p->pid = pid; }
    snprintf(p->what, sizeof p->what, "%s", what);
    atomic_store(&p->dead, true);
    loss_of(r, i, &err);
    for (int32_t b = 0; b < RUN_BUCKETS; b++)
      for (run *f = r->bucket[b]; f; f = f->next)
        if (f->part && f->part->ranks >> i & 1) fail_run(r, f, i, true, &err);
  }
  pthread_mutex_unlock(&r->runs);
  pthread_mutex_lock(&p->out);
  drop_kept(p);
  pthread_mutex_unlock(&p->out);
  r->t->wake(r->t);
}

void dfi_rank_peer_back(dfi_rank *r, int32_t i) {
  peer *p = &r->peer[i];
  pthread_mutex_lock(&p->in);
  dfi_incoming_drop(&p->incoming);
  r->t->clear(r->t, i);
  pthread_mutex_unlock(&p->in);
  pthread_mutex_lock(&p->out);
  drop_kept(p);
  pthread_mutex_unlock(&p->out);
  pthread_mutex_lock(&r->runs);
  p->host[0] = p->what[0] = 0;
  atomic_store(&p->dead, false);
  pthread_mutex_unlock(&r->runs);
}
