/* watch.c: a run is paused, stepped and broken into, and its tokens are logged. */
#include "base/remote_memory.h"
#include "engine/engine.h"
#include "engine/observe/watch.h"
#include "engine/observe/gather.h"
#include "engine/observe/halt.h"
#include "engine/tokens/batch.h"
#include "engine/tokens/group_run.h"
#include "engine/observe/log.h"
#include "engine/owners/ranks.h"
#include "engine/owners/team.h"
#include "base/clock.h"
#include "engine/token.h"
#include "engine/clock/record.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <time.h>
#include "kernels/half.h"

/* ---- life ---------------------------------------------------------------------------------------- */

dfi_watch *dfi_watch_new(const char *options, df_error *err) {
  dfi_watch *w = dfi_xcalloc(1, sizeof *w);
  pthread_mutex_init(&w->lock, NULL);
  pthread_mutex_init(&w->log_lock, NULL);
  dfi_cond_init(&w->changed);
  w->most = (int64_t)DFI_CHUNKS * DFI_CHUNK_EVENTS;
  w->interrupts = atomic_load(&dfi_interrupts);
  w->patience = -1;
  w->finally = -1;
  char *copy = dfi_xstrdup(options ? options : ""), *save = NULL;
  int32_t status = DF_OK;
  for (char *o = strtok_r(copy, " ", &save); o && !status; o = strtok_r(NULL, " ", &save)) {
    if (!strcmp(o, "paused=yes")) { w->want_pause = w->until_resumed = true; atomic_store(&w->wanted, 1); }
    else if (!strcmp(o, "log=tokens")) w->logs = true;
    else if (!strcmp(o, "log=values")) w->keeps = true;
    else if (!strcmp(o, "record=yes")) w->records = true;
    else if (!strcmp(o, "primitives=yes")) w->primitives = true;
    else if (!strcmp(o, "remains=yes")) w->remains = true;
    else if (!strcmp(o, "at_once=yes")) w->at_once = true;
    else if (!strncmp(o, "finally=", 8)) w->finally = atoi(o + 8);
    else if (!strncmp(o, "events=", 7) && atoll(o + 7) > 0) w->most = atoll(o + 7) < w->most ? atoll(o + 7) : w->most;
    else
      status = dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
                        "there is no run option `%s`; there are paused=yes, log=tokens, events=N, log=values, "
                        "record=yes, primitives=yes, remains=yes, at_once=yes and finally=NODE", o);
  }
  dfi_free(copy);
  if (!status) return w;
  dfi_watch_free(w);
  return NULL;
}

uint32_t dfi_watch_order(const dfi_watch *w) {
  if (!w) return 0;
  return DFI_WATCHED | (w->want_pause ? DFI_WATCH_PAUSED : 0) | (w->logs ? DFI_WATCH_LOGS : 0) |
         (w->keeps ? DFI_WATCH_KEEPS : 0) | (w->remains ? DFI_WATCH_REMAINS : 0);
}

dfi_watch *dfi_watch_follow(uint32_t order, double ordered) {
  char options[64];
  if (!order) return NULL;
  snprintf(options, sizeof options, "%s%s%s", order & DFI_WATCH_PAUSED ? "paused=yes " : "",
           order & DFI_WATCH_LOGS ? "log=tokens " : "", order & DFI_WATCH_KEEPS ? "log=values" : "");
  dfi_watch *w = dfi_watch_new(options, NULL);
  w->is_remote = true;
  w->ordered_at = ordered;
  w->reports_end = (order & DFI_WATCH_REMAINS) != 0;
  return w;
}

void dfi_watch_free(dfi_watch *w) {
  if (!w) return;
  for (int32_t i = 0; i < w->nbreaks; i++) { dfi_free(w->breaks[i].match); dfi_free(w->breaks[i].frame); }
  for (int32_t i = 0; w->chunk && i < DFI_CHUNKS; i++) dfi_free(w->chunk[i]);
  dfi_free(w->breaks); dfi_free(w->chunk); dfi_free(w->open);
  dfi_gather_free(w->gathered);
  dfi_halt_free(w->halt);
  dfi_recorder_free(w->recorder);
  pthread_mutex_destroy(&w->lock);
  pthread_mutex_destroy(&w->log_lock);
  pthread_cond_destroy(&w->changed);
  dfi_free(w);
}

static dfi_watched wanted(const dfi_watch *w) {
  return w->nbreaks || w->step ? DFI_EVERY_TOKEN : w->logs || w->keeps ? DFI_RECORDED : DFI_UNWATCHED;
}

/* Under the lock. */
static void begin(dfi_exec *x) {
  const dfi_watch *w = x->watch;
  if (!x->history) x->history = dfi_xcalloc((size_t)1 << DFI_STAMP_SERIAL_BITS, sizeof *x->history);
  x->cursor = (dfi_watch_cursor){ 0 };
  x->watched = wanted(w);
  if (atomic_load(&w->wanted)) x->patience = 0;
  dfi_log_begin(x);
  if (w->keeps) x->kept = dfi_xcalloc(DFI_KEPT_VALUES, sizeof *x->kept);
  x->nkept = x->kept_tensors = 0;
}

void dfi_watch_join(dfi_exec *x) {
  pthread_mutex_lock(&x->watch->lock);
  begin(x);
  pthread_mutex_unlock(&x->watch->lock);
}

void dfi_watch_begin(dfi_exec *x) {
  dfi_watch *w = x->watch;
  pthread_mutex_lock(&w->lock);
  w->exec = x;
  w->members = dfi_team_size(x);
  w->state = DF_RUN_RUNNING;
  w->began = dfi_now();
  if (x->setup.rank_run && x->team) dfi_halt_begin(x);
  begin(x);
  if (w->logs) w->chunk = dfi_xcalloc(DFI_CHUNKS, sizeof *w->chunk);
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
}

/* ---- where a token belongs ----------------------------------------------------------------------- */

void dfi_watch_place(const dfi_exec *x, const dfi_token *t, uint32_t *serial, int64_t *number) {
  const uint32_t serials = (1u << DFI_STAMP_SERIAL_BITS) - 1, stamp = t->mark & ~DFI_DEAD;
  const int64_t period = (int64_t)1 << DFI_STAMP_NUMBER_BITS;
  if (t->record->frame->scope->id == 0) { *serial = 0; *number = 0; return; }
  const dfi_record *r = t->record;
  if (r->stamp == stamp && dfi_stamp(r->frame->serial, r->number) == stamp) {
    *serial = r->frame->serial;            /* they are these still, be the frame older than the history */
    *number = r->number;
    return;
  }
  const dfi_frame_history *history = &x->history[stamp & serials];
  *serial = history->serial;
  int64_t next = history->next;
  if (next < 0) {                          /* the frame is alive, or its window says how far it got */
    const dfi_frame *f = t->record->frame;
    next = f->serial == history->serial ? f->next : period;
  }
  int64_t low = stamp >> DFI_STAMP_SERIAL_BITS;
  int64_t n = ((next - 1) & ~(period - 1)) | low;
  *number = n >= next && n >= period ? n - period : n;
}

/* ---- pausing -------------------------------------------------------------------------------------- */

static bool told_to_stop(const dfi_exec *x) {
  return dfi_team_failed(x) || dfi_exec_cancelled(x);
}

static void say_where(const dfi_exec *x, dfi_watch *w, int32_t reason, int32_t breakpoint, const dfi_token *at) {
  w->stop = (df_stop){ .reason = reason, .breakpoint = breakpoint, .node = -1 };
  w->stop_serial = 0;
  w->stopper = x->place;
  if (!at && x->head != x->tail) at = &x->queue[x->head & x->queue_mask];
  if (!at) return;
  uint32_t serial;
  dfi_watch_place(x, at, &serial, &w->stop.iteration);
  w->stop.node = at->record->nodes[at->node].node->id;
  w->stop.frame = (int32_t)serial;
  w->stop_serial = serial;
  w->stop.dead = (at->mark & DFI_DEAD) != 0;
}

/* The last of several owners pauses: others may look. Under the lock. */
static void when_all_stand(dfi_watch *w) {
  if (!w->halts || !w->standing || w->standing + w->ended < w->members || w->state == DF_RUN_PAUSED) return;
  if (dfi_team_failed(w->exec)) return;    /* it is about to end */
  if (w->halt && !dfi_halt_complete(w)) return;
  if (w->spent) dfi_watch_unbreak(w, w->spent);
  w->spent = 0;
  w->gathered = dfi_gather(w->exec);
  for (int32_t i = 0; w->stop.node < 0 && i < dfi_gathered_members(w->gathered); i++) {
    const dfi_exec *m = dfi_gathered_member(w->gathered, i);
    if (m) say_where(m, w, w->stop.reason, w->stop.breakpoint, NULL);
  }
  w->stop.frame = dfi_gathered_frame(w->gathered, w->stopper, w->stop_serial);
  w->state = DF_RUN_PAUSED;
  atomic_store(&w->wanted, 0);
  pthread_cond_broadcast(&w->changed);
}

/* Waits a while for a word to go on, which another rank may give: the owner takes messages then. Under the lock. */
static void stand_among_ranks(const dfi_exec *x, dfi_watch *w) {
  const uint32_t ticket = dfi_rank_ticket(x->rank);
  dfi_halt_take(w);
  when_all_stand(w);
  if (!w->halts) return;
  pthread_mutex_unlock(&w->lock);
  if (!dfi_rank_poll(x->rank)) dfi_rank_sleep(x->rank, ticket, 0.05);
  pthread_mutex_lock(&w->lock);
}

/* One of several owners pauses, and the others are to. Under the lock. */
static void stand_together(dfi_exec *x, dfi_watch *w, int32_t reason, int32_t breakpoint, const dfi_token *at) {
  const double since = dfi_now();
  if (!w->halts) {
    say_where(x, w, reason, breakpoint, at);
    w->want_pause = false;
    w->until_resumed |= reason != DF_STOP_ASKED;
    w->step = DF_STEP_NONE;
    w->halts = true;
    atomic_store(&w->wanted, 1);
    dfi_team_call(w->exec);
    if (w->halt) dfi_halt_others(w);
  }
  if (x->live) dfi_exec_publish(x);
  if (x->logs) dfi_log_flush(x);
  w->standing++;
  when_all_stand(w);
  while (w->halts && !told_to_stop(x)) {
    const struct timespec until = dfi_after(0.05);
    if (w->halt) stand_among_ranks(x, w);
    else pthread_cond_timedwait(&w->changed, &w->lock, &until);
  }
  w->standing--;
  if (w->halts) dfi_watch_go_on(w);
  if (x->setup.deadline) x->setup.deadline += dfi_now() - since;
  x->watched = wanted(w);
  x->patience = told_to_stop(x) ? 0 : 256;
}

void dfi_watch_go_on(dfi_watch *w) {
  dfi_gather_free(w->gathered);
  w->gathered = NULL;
  w->halts = false;
  if (w->state == DF_RUN_PAUSED) w->state = DF_RUN_RUNNING;
  pthread_cond_broadcast(&w->changed);
  if (!w->halt) return;
  dfi_halt_go_on(w);
  dfi_team_call(w->exec);
}

/* The owner is paused until it is let go. Under the lock. `at`: the token it is about; NULL: the next one. */
static void stand_still(dfi_exec *x, dfi_watch *w, int32_t reason, int32_t breakpoint, const dfi_token *at) {
  double since = dfi_now();
  if (x->logs) dfi_log_flush(x);
  say_where(x, w, reason, breakpoint, at);
  w->want_pause = false;
  w->until_resumed |= reason != DF_STOP_ASKED;
  w->step = DF_STEP_NONE;
  w->state = DF_RUN_PAUSED;
  if (x->live) dfi_exec_publish(x);
  pthread_cond_broadcast(&w->changed);
  while (w->state == DF_RUN_PAUSED && !told_to_stop(x)) {
    struct timespec until = dfi_after(0.05);
    pthread_cond_timedwait(&w->changed, &w->lock, &until);
  }
  w->state = DF_RUN_RUNNING;
  if (x->setup.deadline) x->setup.deadline += dfi_now() - since;
  x->watched = wanted(w);
  x->patience = told_to_stop(x) ? 0 : 256;
  pthread_cond_broadcast(&w->changed);
}

void dfi_watch_look(dfi_exec *x) {
  dfi_watch *w = x->watch;
  if (!atomic_load_explicit(&w->wanted, memory_order_relaxed)) return;
  dfi_batch_apart(x);
  dfi_groups_apart(x);
  pthread_mutex_lock(&w->lock);
  if (w->halt) {
    if (!w->halts) atomic_store(&w->wanted, 0);
    dfi_halt_take(w);
  }
  if (dfi_watch_together(w) && (w->want_pause || w->halts)) {
    stand_together(x, w, DF_STOP_ASKED, 0, NULL);
    pthread_mutex_unlock(&w->lock);
    return;
  }
  atomic_store(&w->wanted, 0);
  if (w->want_pause) stand_still(x, w, DF_STOP_ASKED, 0, NULL);
  x->watched = wanted(w);
  pthread_mutex_unlock(&w->lock);
}

/* ---- frames ------------------------------------------------------------------------------------------ */

/* Is it x that says how far a step in a frame has come? */
static bool steps_in_frame(const dfi_exec *x, const dfi_watch *w) { return !x->team || x->place == w->stopper; }

void dfi_watch_frame(dfi_exec *x, const dfi_frame *f, bool opened) {
  dfi_watch *w = x->watch;
  if (x->team) pthread_mutex_lock(&w->lock);
  w->opened += opened && x->team && dfi_team_counts(x, f->scope);
  w->step_ended |= !opened && w->step && steps_in_frame(x, w) && f->serial == w->step_frame;
  if (x->team) pthread_mutex_unlock(&w->lock);
  if (x->logs && f->origin) dfi_log_frame(x, (dfi_frame *)(uintptr_t)f, opened);
}

/* ---- values that are kept ---------------------------------------------------------------------------- */

/* Tensors stay for a shorter while than numbers do: they hold memory that the run would use again. */
enum { DFI_KEPT_TENSORS = 128 };

static void forget_tensor(dfi_exec *x, dfi_kept_value *k) {
  if (k->value.kind != DF_TENSOR) return;
  df_value_release(&k->value);
  k->value.kind = DF_EMPTY;
  x->kept_tensors--;
}

void dfi_watch_keep(dfi_exec *x, dfi_token t, uint32_t index, const df_value *v) {
  if (v->kind != DF_TENSOR && v->kind != DF_SCALAR && !v->dead) return;
  dfi_kept_value *k = x->kept + (x->nkept++ & (DFI_KEPT_VALUES - 1));
  forget_tensor(x, k);
  forget_tensor(x, x->kept + ((x->nkept - DFI_KEPT_TENSORS) & (DFI_KEPT_VALUES - 1)));
  x->kept_tensors += v->kind == DF_TENSOR;
  k->token = t;
  k->value = dfi_value_copy(v);
  k->value.uses = index;
}

void dfi_watch_keep_all(dfi_exec *x, dfi_record *r, const dfi_pnode *p) {
  const dfi_token t = { r, (uint32_t)(p - r->nodes), r->stamp };
  for (uint32_t i = 0; i < p->nout; i++) dfi_watch_keep(x, t, i, r->base[DFI_ITERATION] + p->out + i);
}

/* ---- before every token, when the run is watched --------------------------------------------------- */

static bool holds(const df_value *v, int32_t conditions) {
  const void *data = &v->as;
  int64_t n = 1;
  if (v->kind == DF_TENSOR && !dfi_readable(v->as.tensor)) {
    df_value here;
    const bool yes = dfi_value_on_host(v, &here) && holds(&here, conditions);
    dfi_value_drop(&here);
    return yes;
  }
  if (v->kind == DF_TENSOR) { data = v->as.tensor->data; n = v->as.tensor->size; }
  else if (v->kind != DF_SCALAR) return false;
  if (conditions & DF_IF_MADE) return true;
  for (int64_t i = 0; i < n; i++) {
    double d;
    switch (v->dtype) {
    case DF_FLOAT32: d = ((const float *)data)[i]; break;
    case DF_FLOAT64: d = ((const double *)data)[i]; break;
    case DF_FLOAT16: d = dfk_from_float16(((const uint16_t *)data)[i]); break;
    case DF_BFLOAT16: d = dfk_from_bfloat16(((const uint16_t *)data)[i]); break;
    default: return false;
    }
    if ((conditions & DF_IF_NAN && isnan(d)) || (conditions & DF_IF_INF && isinf(d))) return true;
  }
  return false;
}

/* Does the frame go by this tag, `inner` or `outer:4/inner`, of n messages? What the tag leaves out is any. */
static bool goes_by(const dfi_frame *f, const char *tag, size_t n) {
  size_t name = strlen(f->scope->name);
  if (n < name || memcmp(tag + n - name, f->scope->name, name)) return false;
  if (!(n -= name)) return true;
  char outer[24];
  size_t length = (size_t)snprintf(outer, sizeof outer, ":%lld/", f->origin ? (long long)f->origin->number : -1);
  if (n < length || memcmp(tag + n - length, outer, length)) return false;
  return goes_by(f->parent, tag, n - length);
}

static bool matches(const dfi_exec *x, const dfi_break *b, const dfi_token *t, const dfi_pnode *p, int64_t number) {
  if (b->match && !b->match[p - x->plan->node]) return false;
  const dfi_frame *f = t->record->frame;
  if (b->frame) {
    size_t n = strlen(b->frame);
    /* of nodes that are asked for by name: a loop inside of the one named will do */
    while (!goes_by(f, b->frame, n)) {
      if (!b->match || !f->parent || !f->parent->parent) return false;
      number = f->origin->number;
      f = f->parent;
    }
  }
  return b->iteration < 0 || b->iteration == number;
}

enum { AFTERWARDS = DF_IF_NAN | DF_IF_INF | DF_IF_MADE };      /* of a token that ran */

/* What node p has made in iteration `number`: is it what a breakpoint waits for? */
static void look_at_results(dfi_exec *x, const dfi_watch *w, const dfi_token t, const dfi_pnode *p) {
  dfi_watch_cursor *k = &x->cursor;
  const df_value *out = t.record->base[DFI_ITERATION] + p->out;
  uint32_t i = 0, end = p->nout, serial = 0;
  int64_t number = -1;
  if (p->kind == DFI_K_SWITCH) {                     /* the other side holds what an iteration before left there */
    i = operand(t.record, x->plan->operand[p->in + 1])->as.u8 != 0;
    end = i + 1;
  }
  for (int32_t b = 0; b < w->nbreaks && !k->hit; b++) {
    if (!(w->breaks[b].conditions & AFTERWARDS)) continue;
    if (number < 0) dfi_watch_place(x, &t, &serial, &number);
    if (!matches(x, &w->breaks[b], &t, p, number)) continue;
    for (uint32_t n = i; n < end; n++) if (holds(out + n, w->breaks[b].conditions)) k->hit = w->breaks[b].id;
  }
  if (k->hit) k->last = t;
}

/* What the last token did, now that its outputs are there. */
static void look_back(dfi_exec *x, const dfi_watch *w) {
  const dfi_token t = x->cursor.last;
  const dfi_pnode *p = &t.record->nodes[t.node];
  x->cursor.has_last = false;
  if (t.mark & DFI_DEAD || p->kind == DFI_K_ENTER || dfi_is_exit(p->kind) || dfi_is_next(p->kind) ||
      p->kind == DFI_K_TRANSFER ||                       /* which makes nothing: it brings what was made elsewhere */
      t.record->stamp != (t.mark & ~DFI_DEAD))
    return;
  /* dfi_watch_done will look */
  for (const dfi_call *c = x->away; c; c = c->away_next) if (c->record == t.record && c->node == p) return;
  look_at_results(x, w, t, p);
}

/* A call is over that was with a worker or waited. */
void dfi_watch_done(dfi_exec *x, const dfi_record *r, const dfi_pnode *p) {
  dfi_watch *w = x->watch;
  if (x->cursor.has_last) look_back(x, w);
  look_at_results(x, w, (dfi_token){ (dfi_record *)r, (uint32_t)(p - r->nodes), r->stamp }, p);
  if (x->logs) dfi_log_done(x, r, p);
}

void dfi_watch_end(dfi_exec *x) {
  dfi_watch *w = x->watch;
  dfi_watch_cursor *k = &x->cursor;
  if (k->has_last) look_back(x, w);
  if (x->logs) dfi_log_end(x);
  if (w->is_remote) dfi_watch_pass_turn(w);
  pthread_mutex_lock(&w->lock);
  if (w->halts) dfi_watch_go_on(w);
  if (k->hit && !x->failed) stand_still(x, w, DF_STOP_BREAK, k->hit, &k->last);  /* the last token of all made a NaN */
  if (w->reports_end) dfi_halt_end(x);
  if (w->remains) {                        /* it is over when its results were fetched: df_run says so */
    if (dfi_watch_together(w)) w->gathered = dfi_gather(x);
    say_where(x, w, DF_STOP_ASKED, 0, x->head != x->begun ? &x->queue[(x->head - 1) & x->queue_mask] : NULL);
    pthread_mutex_unlock(&w->lock);
    return;
  }
  w->exec = NULL;
  w->state = DF_RUN_OVER;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
  dfi_watch_forget(x);
}

void dfi_watch_leave(dfi_exec *x) {
  dfi_watch *w = x->watch;
  dfi_watch_cursor *k = &x->cursor;
  if (k->has_last) look_back(x, w);
  if (x->logs) dfi_log_flush(x);
  pthread_mutex_lock(&w->lock);
  while (k->hit && !x->failed) {
    k->stopped = k->hit;
    k->hit = 0;
    stand_together(x, w, DF_STOP_BREAK, k->stopped, &k->last);
  }
  if (x->live) dfi_exec_publish(x);
  w->ended++;
  when_all_stand(w);
  pthread_mutex_unlock(&w->lock);
}

void dfi_watch_forget(dfi_exec *x) {
  dfi_gather_free(x->watch->gathered);
  x->watch->gathered = NULL;
  if (x->watch->halt) dfi_halt_forget(x->watch->halt);
  for (int32_t o = 0; o < dfi_team_size(x); o++) {
    dfi_exec *m = dfi_team_at(x, o);
    for (int32_t i = 0; m->kept && i < DFI_KEPT_VALUES; i++) dfi_value_drop(&m->kept[i].value);
    dfi_free(m->kept);
    m->kept = NULL;
  }
}

bool dfi_watch_unbreak(dfi_watch *w, int32_t breakpoint) {
  int32_t kept = 0;
  for (int32_t i = 0; i < w->nbreaks; i++) {
    if (breakpoint && w->breaks[i].id != breakpoint) { w->breaks[kept++] = w->breaks[i]; continue; }
    dfi_free(w->breaks[i].match);
    dfi_free(w->breaks[i].frame);
  }
  const bool found = kept < w->nbreaks;
  w->nbreaks = kept;
  return found;
}

static bool stops_once(const dfi_watch *w, int32_t breakpoint) {
  for (int32_t i = 0; i < w->nbreaks; i++) if (w->breaks[i].id == breakpoint) return w->breaks[i].once;
  return false;
}

/* The breakpoint that stops before t; 0: none. */
static int32_t broken_at(const dfi_exec *x, const dfi_watch *w, const dfi_token *t, const dfi_pnode *p,
                         int64_t number) {
  for (int32_t i = 0; i < w->nbreaks; i++) {
    const dfi_break *b = &w->breaks[i];
    if (b->conditions & AFTERWARDS) continue;
    if (b->conditions & DF_IF_DEAD && !(t->mark & DFI_DEAD)) continue;
    if (matches(x, b, t, p, number)) return b->id;
  }
  return 0;
}

/* Has the step come to its end before t? Of several owners all take their tokens in one step, and the one that has
   stood in a frame says how far that is. */
static bool stepped(const dfi_exec *x, dfi_watch *w, const dfi_token *t, uint32_t serial, int64_t number) {
  switch (w->step) {
  case DF_STEP_TOKEN: return w->left-- <= 0;
  case DF_STEP_NODE: return !(t->mark & DFI_DEAD) && w->left-- <= 0;
  case DF_STEP_FRAME:
    return (x->team ? w->opened : x->count.frames) - w->step_number >= w->left ||
           (w->step_ended && steps_in_frame(x, w));
  case DF_STEP_ITERATION:
    if (!w->step_frame) return serial && number >= w->left;  /* at the top level: of the first loop that gets so far */
    return steps_in_frame(x, w) &&
           (w->step_ended || (serial == w->step_frame && number >= w->step_number + w->left));
  default: return false;
  }
}

/* Another rank has the turn of a step: takes what comes, for a while. Under the lock. */
static void await_turn(dfi_exec *x, dfi_watch *w) {
  const uint32_t ticket = dfi_rank_ticket(x->rank);
  dfi_halt_take(w);
  x->patience = 0;                         /* it looks up before its next token */
  if (w->halts || dfi_halt_may_run(w)) return;
  pthread_mutex_unlock(&w->lock);
  if (!dfi_rank_poll(x->rank)) dfi_rank_sleep(x->rank, ticket, 0.05);
  pthread_mutex_lock(&w->lock);
}

/* For one of several owners: all that they share is under the lock, also while it is only looked at. */
static bool token_of_several(dfi_exec *x, dfi_watch *w) {
  dfi_watch_cursor *k = &x->cursor;
  const dfi_token t = x->queue[x->head & x->queue_mask];
  const dfi_pnode *p = &t.record->nodes[t.node];
  if (p->kind == DFI_K_TRANSFER && dfi_team_part(x, p) == DFI_RECEIVES) return true;   /* the sender is asked */
  if (w->halt && !k->hit && !dfi_halt_may_run(w)) { await_turn(x, w); return false; }
  uint32_t serial;
  int64_t number;
  dfi_watch_place(x, &t, &serial, &number);
  int32_t reason = -1, breakpoint = k->hit;
  if (k->hit) reason = DF_STOP_BREAK;
  else if (!k->pass && (breakpoint = broken_at(x, w, &t, p, number))) reason = DF_STOP_BREAK;
  else if (stepped(x, w, &t, serial, number)) reason = DF_STOP_STEP;
  if (reason < 0) {
    k->pass = false;
    k->last = t;
    k->has_last = true;
    return true;
  }
  const bool about = k->hit != 0;
  k->stopped = k->hit;
  k->hit = 0;
  if (reason == DF_STOP_BREAK && stops_once(w, breakpoint)) w->spent = breakpoint;
  k->pass = reason == DF_STOP_BREAK && !about;
  stand_together(x, w, reason, breakpoint, about ? &k->last : NULL);
  return false;
}

bool dfi_watch_token(dfi_exec *x) {
  dfi_watch *w = x->watch;
  dfi_watch_cursor *k = &x->cursor;
  if (DFI_UNLIKELY(x->team != NULL)) {
    pthread_mutex_lock(&w->lock);
    if (k->has_last) look_back(x, w);
    const bool goes = !w->halts && token_of_several(x, w);
    if (!goes && w->halts) stand_together(x, w, DF_STOP_ASKED, 0, NULL);
    pthread_mutex_unlock(&w->lock);
    return goes;
  }
  if (k->has_last) look_back(x, w);
  const dfi_token t = x->queue[x->head & x->queue_mask];
  const dfi_pnode *p = &t.record->nodes[t.node];
  uint32_t serial;
  int64_t number;
  dfi_watch_place(x, &t, &serial, &number);
  if (!k->pass) {
    int32_t reason = -1, breakpoint = k->hit;
    const dfi_token *about = NULL;
    if (k->hit) { reason = DF_STOP_BREAK; about = &k->last; }
    else if ((breakpoint = broken_at(x, w, &t, p, number))) reason = DF_STOP_BREAK;
    else if (stepped(x, w, &t, serial, number)) reason = DF_STOP_STEP;
    k->hit = 0;
    if (reason >= 0) {
      pthread_mutex_lock(&w->lock);
      if (reason == DF_STOP_BREAK && stops_once(w, breakpoint)) dfi_watch_unbreak(w, breakpoint);
      stand_still(x, w, reason, breakpoint, about);
      pthread_mutex_unlock(&w->lock);
      if (about) return false;               /* t is looked at for itself */
      k->pass = x->watched;
      if (w->step == DF_STEP_TOKEN || (w->step == DF_STEP_NODE && !(t.mark & DFI_DEAD))) w->left--;
      return false;
    }
  }
  k->pass = false;
  k->last = t;
  k->has_last = true;
  return true;
}

/* ---- from outside ------------------------------------------------------------------------------------- */

static void call_owner(dfi_watch *w) {
  atomic_store(&w->wanted, 1);
  if (w->exec) dfi_team_call(w->exec);
}

bool dfi_watch_wait(dfi_watch *w, double until, int64_t interrupts) {
  const double slice = 0.02;                    /* a signal handler cannot ring a bell */
  if (atomic_load_explicit(&dfi_calls_interrupted, memory_order_relaxed) != interrupts) return false;
  const double left = until < 0 ? 1 : until - dfi_now();
  if (left <= 0) return false;
  struct timespec t = dfi_after(left < slice ? left + 0.001 : slice);
  pthread_cond_timedwait(&w->changed, &w->lock, &t);
  return true;
}

int32_t dfi_watch_hold(dfi_watch *w, bool *mine) {
  const int64_t interrupts = atomic_load(&dfi_calls_interrupted);
  pthread_mutex_lock(&w->lock);
  const double until = w->patience < 0 ? -1 : dfi_now() + w->patience;
  *mine = w->state == DF_RUN_RUNNING || w->state == DF_RUN_NEW;
  bool in_time = true;
  /* another may have let it go before this one woke */
  while ((w->state == DF_RUN_RUNNING || w->state == DF_RUN_NEW) && in_time) {
    w->want_pause = true;
    call_owner(w);
    in_time = dfi_watch_wait(w, until, interrupts);
  }
  if (w->state == DF_RUN_PAUSED || w->state == DF_RUN_OVER) return w->state;
  *mine = false;
  if (!w->until_resumed) {
    w->want_pause = false;
    if (w->halts) dfi_watch_go_on(w);      /* some of several stand already */
  }
  return DF_RUN_RUNNING;
}

int32_t dfi_watch_refuse(dfi_watch *w, int32_t state, const char *over, df_error *err) {
  if (state == DF_RUN_OVER) return dfi_fail(err, DF_FAILED_PRECONDITION, NULL, "%s", over);
  const int32_t at = w->exec ? atomic_load_explicit(&w->exec->at, memory_order_relaxed) : -1;
  const char *what = at >= 0 ? dfi_node_name(w->exec->plan->graph->node[at]) : NULL;
  if (!what)
    return dfi_fail(err, DF_DEADLINE_EXCEEDED, NULL, "the run has not paused yet: %s",
                    w->exec ? "it has just begun" : "its variables are initialised first");
  return dfi_fail(err, DF_DEADLINE_EXCEEDED, NULL, "the run has not paused yet: `%s` is being computed", what);
}

void dfi_watch_let_go(dfi_watch *w, bool mine) {
  if (mine && !w->until_resumed && w->state == DF_RUN_PAUSED) dfi_watch_go_on(w);
  pthread_mutex_unlock(&w->lock);
}
