/* log.c: see log.h. */
#include "engine/observe/log.h"
#include "engine/owners/team.h"
#include <stdlib.h>

typedef dfi_logged_frame logged_frame;

static int64_t since_begin(const dfi_watch *w) { return (int64_t)((dfi_now() - w->began) * 1e9); }

static void lock(dfi_exec *x) { if (x->team) pthread_mutex_lock(&x->watch->log_lock); }
static void unlock(dfi_exec *x) { if (x->team) pthread_mutex_unlock(&x->watch->log_lock); }

void dfi_log_begin(dfi_exec *x) {
  x->logs = x->watch->logs;
  x->flushed = since_begin(x->watch);
}

/* ---- events ---------------------------------------------------------------------------------------------- */

/* Event i, which has its place. */
df_event *dfi_log_at(const dfi_watch *w, int64_t i) {
  return &w->chunk[i / DFI_CHUNK_EVENTS][i % DFI_CHUNK_EVENTS];
}

/* Where the next event goes, of `n` (the events behind the last one published) that are not yet; NULL: there is no
   room. */
static df_event *event_at(dfi_watch *w, int64_t n) {
  int64_t i = atomic_load_explicit(&w->nevents, memory_order_relaxed) + n, c = i / DFI_CHUNK_EVENTS;
  if (DFI_UNLIKELY(i >= w->most)) return NULL;
  if (DFI_UNLIKELY(!w->chunk[c])) w->chunk[c] = dfi_xmalloc(sizeof(df_event) * DFI_CHUNK_EVENTS);
  return dfi_log_at(w, i);
}

static void publish(dfi_watch *w, int64_t n) { atomic_fetch_add_explicit(&w->nevents, n, memory_order_release); }

bool dfi_log_add(dfi_watch *w, df_event e) {
  df_event *to = event_at(w, 0);
  if (!to) { atomic_fetch_add_explicit(&w->dropped, 1, memory_order_relaxed); return false; }
  *to = e;
  publish(w, 1);
  return true;
}

/* A node's device, or a message's link. */
static int16_t where(const dfi_pnode *p) {
  return p->kind == DFI_K_TRANSFER ? (int16_t)(-1 - (int32_t)p->child) : (int16_t)p->device;
}

static int32_t number_of(const dfi_exec *x, const dfi_frame *f) {
  return (int32_t)(x->team ? f->logged_as : f->serial);
}

/* A message is logged by its sender. */
static bool is_recv(const dfi_exec *x, const dfi_pnode *p) {
  return x->team && p->kind == DFI_K_TRANSFER && dfi_team_part(x, p) == DFI_RECEIVES;
}

/* Those of the queue up to `to`: their frames are open still, as an end is logged before the frame is another one. */
static void log_tokens(dfi_exec *x, uint32_t to, int64_t now, int64_t memory) {
  dfi_watch *w = x->watch;
  const uint32_t n = to - x->logged;
  if (!n) return;
  const int64_t each = now > x->flushed ? (now - x->flushed) / n : 0;
  int64_t written = 0, lost = 0;
  lock(x);
  for (uint32_t i = 0; i < n; i++) {
    const dfi_token *t = &x->queue[(x->logged + i) & x->queue_mask];
    const dfi_record *r = t->record;
    const dfi_pnode *p = r->nodes + t->node;
    if (is_recv(x, p)) continue;
    df_event *e = event_at(w, written);
    if (!e) { lost++; continue; }
    uint32_t serial;
    dfi_watch_place(x, t, &serial, &e->iteration);
    e->at = x->flushed + each * i;
    e->took = each;
    e->memory = memory;
    e->node = p->node->id;
    e->frame = x->team ? number_of(x, r->frame) : (int32_t)serial;
    e->scope = r->frame->scope->id;
    e->kind = DF_EVENT_TOKEN;
    e->dead = (t->mark & DFI_DEAD) != 0;
    e->device = where(p);
    written++;
  }
  publish(w, written);
  if (lost) atomic_fetch_add_explicit(&w->dropped, lost, memory_order_relaxed);
  unlock(x);
  x->logged = to;
}

void dfi_log_flush(dfi_exec *x) {
  int64_t memory, now = since_begin(x->watch);
  df_memory(&memory, NULL, NULL, NULL);
  log_tokens(x, x->head, now, memory);
  if (now > x->flushed) x->flushed = now;
}

bool dfi_log_call(dfi_exec *x, dfi_record *r, dfi_pnode *p) {
  dfi_watch *w = x->watch;
  const dfi_frame *f = r->frame;
  df_event e = { .kind = DF_EVENT_TOKEN, .node = p->node->id, .frame = number_of(x, f), .iteration = r->number,
                 .scope = f->scope->id, .device = where(p) };
  e.at = since_begin(w);
  df_memory(&e.memory, NULL, NULL, NULL);
  log_tokens(x, x->head - 1, e.at, e.memory);
  x->logged = x->head;
  bool elsewhere = dfi_call_run(x, r, p);
  x->flushed = since_begin(w);
  df_memory(&e.memory, NULL, NULL, NULL);
  if (!elsewhere) e.took = x->flushed - e.at;
  lock(x);
  dfi_log_add(w, e);
  unlock(x);
  return elsewhere;
}

void dfi_log_done(dfi_exec *x, const dfi_record *r, const dfi_pnode *p) {
  dfi_log_flush(x);
  df_event e = { .kind = DF_EVENT_DONE, .node = p->node->id, .frame = number_of(x, r->frame), .at = x->flushed,
                 .iteration = r->number, .scope = r->frame->scope->id, .device = where(p) };
  df_memory(&e.memory, NULL, NULL, NULL);
  lock(x);
  dfi_log_add(x->watch, e);
  unlock(x);
}

/* ---- frames ----------------------------------------------------------------------------------------------- */

/* How many owners have a part of f: of a function's frame, and of all in it, its caller alone. */
static int32_t parts_of(const dfi_exec *x, const dfi_frame *f) {
  for (const dfi_frame *g = f; g; g = g->parent) if (g->call) return 1;
  int32_t n = 0;
  for (int32_t o = 0; o < dfi_team_size(x); o++) n += dfi_team_takes_part(x, dfi_team_at(x, o)->place, f->scope->id);
  return n;
}

static logged_frame *find(const dfi_watch *w, int32_t scope, uint32_t parent, int64_t number, const dfi_pnode *call) {
  for (int32_t i = 0; i < w->nopen; i++) {
    logged_frame *l = &w->open[i];
    if (l->scope == scope && l->parent == parent && l->number == number && l->call == (call ? call->node->id : -1))
      return l;
  }
  return NULL;
}

static logged_frame *logged_of(const dfi_watch *w, const dfi_frame *f) {
  return find(w, f->scope->id, f->parent->logged_as, f->origin->number, f->call);
}

uint32_t dfi_log_number(const dfi_watch *w, const dfi_scope *s, const dfi_record *r) {
  const logged_frame *l = find(w, s->id, r->frame->serial, r->number, NULL);
  return l ? l->id : 0;
}

uint32_t dfi_log_name(dfi_watch *w, const dfi_scope *s, const dfi_record *r, const dfi_pnode *call) {
  const logged_frame *known = find(w, s->id, r->frame->serial, r->number, call);
  if (known) return known->id;
  int32_t parts = 0;
  for (int32_t o = 0; !call && o < dfi_team_size(w->exec); o++)
    parts += dfi_team_takes_part(w->exec, dfi_team_at(w->exec, o)->place, s->id);
  DFI_GROW(w->open, w->nopen, w->open_room);
  w->open[w->nopen++] = (logged_frame){ .id = ++w->logged_frames, .parent = r->frame->serial, .scope = s->id,
    .call = call ? call->node->id : -1, .number = r->number, .parts = parts, .opens = true };
  return w->logged_frames;
}

/* x opens its part of f. True: it is the first to do so. */
static bool part_opens(dfi_exec *x, dfi_frame *f) {
  dfi_watch *w = x->watch;
  logged_frame *l = logged_of(w, f);
  const bool first = !l || l->opens;
  if (l && l->opens) { l->opens = false; l->opened = x->flushed; }
  else if (first) {
    DFI_GROW(w->open, w->nopen, w->open_room);
    l = &w->open[w->nopen++];
    *l = (logged_frame){ ++w->logged_frames, f->parent->logged_as, f->scope->id, f->call ? f->call->node->id : -1,
                         f->origin->number, parts_of(x, f), false, x->flushed, 0 };
  }
  f->logged_as = l->id;
  if (x->history) x->history[f->serial & ((1u << DFI_STAMP_SERIAL_BITS) - 1)].logged_as = l->id;
  if (l->opened > x->flushed) x->flushed = l->opened;      /* what runs in it runs after that */
  return first;
}

/* x has ended its part of f. True: it was the last one; *at: when. */
static bool part_ends(dfi_exec *x, const dfi_frame *f, int64_t *at) {
  dfi_watch *w = x->watch;
  logged_frame *l = logged_of(w, f);
  if (!l) return false;
  if (x->flushed > l->ended) l->ended = x->flushed;
  *at = l->ended;
  if (--l->parts > 0) return false;
  *l = w->open[--w->nopen];
  return true;
}

void dfi_log_frame(dfi_exec *x, dfi_frame *f, bool opened) {
  dfi_log_flush(x);
  df_event e = { .kind = opened ? DF_EVENT_FRAME_OPEN : DF_EVENT_FRAME_END, .at = x->flushed, .scope = f->scope->id,
                 .iteration = f->origin->number };
  df_memory(&e.memory, NULL, NULL, NULL);
  lock(x);
  const bool tells = !x->team || (opened ? part_opens(x, f) : part_ends(x, f, &e.at));
  e.frame = number_of(x, f);
  e.node = number_of(x, f->parent);
  if (tells) dfi_log_add(x->watch, e);
  unlock(x);
}

/* ---- the end ----------------------------------------------------------------------------------------------- */

typedef struct order { int64_t at, event; } order;

static int by_time(const void *a, const void *b) {
  const order *l = a, *r = b;
  if (l->at != r->at) return l->at < r->at ? -1 : 1;
  return l->event < r->event ? -1 : 1;
}

/* Event i comes from where the order says: round and round, until it is the turn of where it began. */
static void follow(const dfi_watch *w, order *by, int64_t i) {
  const df_event first = *dfi_log_at(w, i);
  int64_t to = i;
  for (int64_t from; (from = by[to].event) != i; to = from) {
    *dfi_log_at(w, to) = *dfi_log_at(w, from);
    by[to].event = to;
  }
  *dfi_log_at(w, to) = first;
  by[to].event = to;
}

/* What several owners wrote, some tokens at a time, goes by the time. */
static void sort(dfi_watch *w) {
  const int64_t n = atomic_load(&w->nevents);
  const int64_t bytes = (int64_t)sizeof(order) * (n + 1);
  order *by = dfi_alloc(bytes);
  if (!by) return;
  for (int64_t i = 0; i < n; i++) by[i] = (order){ dfi_log_at(w, i)->at, i };
  qsort(by, (size_t)n, sizeof *by, by_time);
  for (int64_t i = 0; i < n; i++) if (by[i].event != i) follow(w, by, i);
  dfi_release(by, bytes);
}

void dfi_log_end(dfi_exec *x) {
  dfi_log_flush(x);
  if (!x->team) return;
  if (x->setup.rank_run && x->watch->is_remote) { dfi_log_send(x); return; }
  lock(x);
  if (x->watch->halt) dfi_log_merge(x->watch);
  sort(x->watch);
  unlock(x);
}
