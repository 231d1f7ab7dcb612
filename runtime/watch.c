/* watch.c: a run is paused, stepped and broken into, and its tokens are logged. */
#include "watch.h"
#include "token.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <time.h>
#include "../kernels/half.h"

/* ---- life ---------------------------------------------------------------------------------------- */

dfi_watch *dfi_watch_new(const char *options, df_error *err) {
  dfi_watch *w = dfi_xcalloc(1, sizeof *w);
  pthread_mutex_init(&w->lock, NULL);
  pthread_mutex_init(&w->log_lock, NULL);
  pthread_cond_init(&w->changed, NULL);
  char *copy = dfi_xstrdup(options ? options : ""), *save = NULL;
  int32_t status = DF_OK;
  for (char *o = strtok_r(copy, " ", &save); o && !status; o = strtok_r(NULL, " ", &save)) {
    if (!strcmp(o, "paused=yes")) { w->want_pause = true; atomic_store(&w->wanted, 1); }
    else if (!strcmp(o, "log=tokens")) w->log = 1;
    else if (!strcmp(o, "log=values")) w->log = 2;
    else status = dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "there is no run option `%s`; there are paused=yes, log=tokens and log=values", o);
  }
  free(copy);
  if (!status) return w;
  dfi_watch_free(w);
  return NULL;
}

void dfi_watch_free(dfi_watch *w) {
  if (!w) return;
  for (int32_t i = 0; i < w->nbreaks; i++) { free(w->breaks[i].match); free(w->breaks[i].frame); }
  for (int64_t i = 0; w->kept && i < DFI_KEPT; i++) dfi_value_drop(&w->kept[i].value);
  free(w->breaks); free(w->event); free(w->kept);
  pthread_mutex_destroy(&w->lock);
  pthread_mutex_destroy(&w->log_lock);
  pthread_cond_destroy(&w->changed);
  free(w);
}

static bool observes(const dfi_watch *w) { return w->nbreaks || w->step || w->log; }

void dfi_watch_begin(dfi_exec *x) {
  dfi_watch *w = x->watch;
  if (!x->past) x->past = dfi_xcalloc((size_t)1 << DFI_STAMP_SERIAL_BITS, sizeof *x->past);
  pthread_mutex_lock(&w->lock);
  w->exec = x;
  w->state = DF_RUN_RUNNING;
  w->began = dfi_now();
  x->watched = observes(w);
  if (atomic_load(&w->wanted)) x->patience = 0;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
}

/* ---- where a token belongs ----------------------------------------------------------------------- */

void dfi_watch_place(const dfi_exec *x, const dfi_token *t, uint32_t *serial, int64_t *number) {
  const uint32_t serials = (1u << DFI_STAMP_SERIAL_BITS) - 1, stamp = t->mark & ~DFI_DEAD;
  const int64_t period = (int64_t)1 << DFI_STAMP_NUMBER_BITS;
  if (t->record->frame->scope->id == 0) { *serial = 0; *number = 0; return; }
  const dfi_past *past = &x->past[stamp & serials];
  *serial = past->serial;
  int64_t next = past->next;
  if (next < 0) {                          /* the frame is alive, or its window says how far it got */
    const dfi_frame *f = t->record->frame;
    next = f->serial == past->serial ? f->next : period;
  }
  int64_t low = stamp >> DFI_STAMP_SERIAL_BITS;
  int64_t n = ((next - 1) & ~(period - 1)) | low;
  *number = n >= next && n >= period ? n - period : n;
}

/* ---- standing still ------------------------------------------------------------------------------ */

static struct timespec after_ms(int64_t ms) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  t.tv_nsec += ms % 1000 * 1000000;
  t.tv_sec += ms / 1000 + t.tv_nsec / 1000000000;
  t.tv_nsec %= 1000000000;
  return t;
}

static bool told_to_stop(const dfi_exec *x) {
  return (x->cancel && atomic_load(x->cancel)) || (x->closing && atomic_load(x->closing)) || atomic_load(&dfi_interrupts) != x->interrupts;
}

static void say_where(dfi_exec *x, dfi_watch *w, int32_t reason, int32_t breakpoint, const dfi_token *at) {
  w->stop = (df_stop){ .reason = reason, .breakpoint = breakpoint, .node = -1 };
  if (!at && x->head != x->tail) at = &x->queue[x->head & x->queue_mask];
  if (!at) return;
  uint32_t serial;
  dfi_watch_place(x, at, &serial, &w->stop.iteration);
  w->stop.node = at->record->nodes[at->node].node->id;
  w->stop.frame = (int32_t)serial;
  w->stop.dead = (at->mark & DFI_DEAD) != 0;
}

/* The owner stands still until it is let go. Under the lock. `at`: the token it is about; NULL: the next one. */
static void stand_still(dfi_exec *x, dfi_watch *w, int32_t reason, int32_t breakpoint, const dfi_token *at) {
  double since = dfi_now();
  say_where(x, w, reason, breakpoint, at);
  w->want_pause = false;
  w->step = DF_STEP_NONE;
  w->state = DF_RUN_PAUSED;
  if (x->live) dfi_exec_publish(x);
  pthread_cond_broadcast(&w->changed);
  while (w->state == DF_RUN_PAUSED && !told_to_stop(x)) {
    struct timespec until = after_ms(50);
    pthread_cond_timedwait(&w->changed, &w->lock, &until);
  }
  w->state = DF_RUN_RUNNING;
  if (x->deadline) x->deadline += dfi_now() - since;
  x->watched = observes(w);
  x->patience = told_to_stop(x) ? 0 : 256;
  pthread_cond_broadcast(&w->changed);
}

void dfi_watch_look(dfi_exec *x) {
  dfi_watch *w = x->watch;
  if (!atomic_load_explicit(&w->wanted, memory_order_relaxed)) return;
  pthread_mutex_lock(&w->lock);
  atomic_store(&w->wanted, 0);
  if (w->want_pause) stand_still(x, w, DF_STOP_ASKED, 0, NULL);
  x->watched = observes(w);
  pthread_mutex_unlock(&w->lock);
}

/* ---- the log ---------------------------------------------------------------------------------------- */

enum { EVENTS_AT_MOST = 1 << 23 };          /* 400 MB; after that events are only counted */

static int64_t log_event(dfi_watch *w, df_event e) {
  e.at = (int64_t)((dfi_now() - w->began) * 1e9);
  df_memory(&e.memory, NULL, NULL, NULL);
  int64_t at = -1;
  pthread_mutex_lock(&w->log_lock);
  if (w->nevents == w->event_capacity && w->nevents < EVENTS_AT_MOST) {
    w->event_capacity = w->event_capacity ? w->event_capacity * 2 : 1024;
    w->event = dfi_xrealloc(w->event, sizeof *w->event * (size_t)w->event_capacity);
  }
  if (w->nevents < w->event_capacity) w->event[at = w->nevents++] = e;
  else w->dropped++;
  pthread_mutex_unlock(&w->log_lock);
  return at;
}

void dfi_watch_frame(dfi_exec *x, const dfi_frame *f, bool opened) {
  if (!x->watch->log || !f->origin) return;
  log_event(x->watch, (df_event){ .kind = opened ? DF_EVENT_FRAME_OPEN : DF_EVENT_FRAME_END, .frame = (int32_t)f->serial,
    .scope = f->scope->id, .node = (int32_t)f->origin->frame->serial, .iteration = f->origin->number });
}

void dfi_watch_done(dfi_exec *x, const dfi_record *r, const dfi_pnode *p) {
  if (x->watch->log)
    log_event(x->watch, (df_event){ .kind = DF_EVENT_DONE, .node = p->node->id, .frame = (int32_t)r->frame->serial,
      .iteration = r->number, .scope = r->frame->scope->id });
}

static void keep_value(dfi_watch *w, const dfi_pnode *p, int32_t index, uint32_t serial, int64_t number, const df_value *v) {
  if (!w->kept) w->kept = dfi_xcalloc(DFI_KEPT, sizeof *w->kept);
  dfi_kept *k = &w->kept[w->nkept++ % DFI_KEPT];
  dfi_value_drop(&k->value);
  *k = (dfi_kept){ p->node->id, (int32_t)serial, index, number, dfi_value_copy(v) };
}

/* ---- before every token, when the run is watched --------------------------------------------------- */

static bool holds(const df_value *v, int32_t conditions) {
  const void *data = &v->as;
  int64_t n = 1;
  if (v->kind == DF_TENSOR) { data = v->as.tensor->data; n = v->as.tensor->size; }
  else if (v->kind != DF_SCALAR) return false;
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

static bool matches(const dfi_exec *x, const dfi_break *b, const dfi_token *t, const dfi_pnode *p, int64_t number) {
  if (b->match && !b->match[p - x->plan->node]) return false;
  const dfi_scope *s = t->record->frame->scope;
  if (b->frame && strcmp(b->frame, s->name)) return false;
  return b->iteration < 0 || b->iteration == number;
}

/* What the last token did, now that its outputs are there. */
static void look_back(dfi_exec *x, dfi_watch *w) {
  const dfi_token t = w->last;
  const dfi_pnode *p = &t.record->nodes[t.node];
  w->has_last = false;
  if (w->last_event >= 0) {
    pthread_mutex_lock(&w->log_lock);
    df_event *e = &w->event[w->last_event];
    e->took = (int64_t)((dfi_now() - w->began) * 1e9) - e->at;
    pthread_mutex_unlock(&w->log_lock);
  }
  if (t.mark & DFI_DEAD && w->log == 2) {
    uint32_t serial;
    int64_t number;
    dfi_watch_place(x, &t, &serial, &number);
    keep_value(w, p, 0, serial, number, &(df_value){ .dead = 1 });
  }
  if (t.mark & DFI_DEAD || p->kind == DFI_K_ENTER || p->kind == DFI_K_EXIT || p->kind == DFI_K_NEXT || t.record->stamp != (t.mark & ~DFI_DEAD)) return;
  uint32_t serial = 0;
  int64_t number = 0;
  bool placed = false;
  for (uint32_t i = 0; i < p->nout; i++) {
    const df_value *v = t.record->base[DFI_ITERATION] + p->out + i;
    if (v->kind != DF_SCALAR && v->kind != DF_TENSOR) continue;
    if (!placed) { dfi_watch_place(x, &t, &serial, &number); placed = true; }
    if (w->log == 2) keep_value(w, p, (int32_t)i, serial, number, v);
    for (int32_t b = 0; b < w->nbreaks && !w->hit; b++)
      if (w->breaks[b].conditions & (DF_IF_NAN | DF_IF_INF) && matches(x, &w->breaks[b], &t, p, number) && holds(v, w->breaks[b].conditions))
        w->hit = w->breaks[b].id;
  }
}

void dfi_watch_end(dfi_exec *x) {
  dfi_watch *w = x->watch;
  if (w->has_last) look_back(x, w);
  pthread_mutex_lock(&w->lock);
  if (w->hit && !x->failed) stand_still(x, w, DF_STOP_BREAK, w->hit, &w->last);      /* the last token of all made a NaN */
  w->exec = NULL;
  w->state = DF_RUN_OVER;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
}

/* The breakpoint that stops before t; 0: none. */
static int32_t broken_at(const dfi_exec *x, const dfi_watch *w, const dfi_token *t, const dfi_pnode *p, int64_t number) {
  for (int32_t i = 0; i < w->nbreaks; i++) {
    const dfi_break *b = &w->breaks[i];
    if (b->conditions & (DF_IF_NAN | DF_IF_INF)) continue;
    if (b->conditions & DF_IF_DEAD && !(t->mark & DFI_DEAD)) continue;
    if (matches(x, b, t, p, number)) return b->id;
  }
  return 0;
}

/* Has the step come to its end before t? */
static bool stepped(const dfi_exec *x, dfi_watch *w, const dfi_token *t, uint32_t serial, int64_t number) {
  switch (w->step) {
  case DF_STEP_TOKEN: return w->left-- <= 0;
  case DF_STEP_NODE: return !(t->mark & DFI_DEAD) && w->left-- <= 0;
  case DF_STEP_FRAME: return x->count.frames - w->step_number >= w->left || x->past[w->step_frame & ((1u << DFI_STAMP_SERIAL_BITS) - 1)].next >= 0;
  case DF_STEP_ITERATION:
    if (!w->step_frame) return serial && number >= w->left;        /* at the top level: of the first loop that gets so far */
    if (serial == w->step_frame && number >= w->step_number + w->left) return true;
    return x->past[w->step_frame & ((1u << DFI_STAMP_SERIAL_BITS) - 1)].next >= 0;      /* the frame has ended */
  default: return false;
  }
}

bool dfi_watch_token(dfi_exec *x) {
  dfi_watch *w = x->watch;
  if (w->has_last) look_back(x, w);
  const dfi_token t = x->queue[x->head & x->queue_mask];
  const dfi_pnode *p = &t.record->nodes[t.node];
  uint32_t serial;
  int64_t number;
  dfi_watch_place(x, &t, &serial, &number);
  if (!w->pass) {
    int32_t reason = -1, breakpoint = w->hit;
    const dfi_token *about = NULL;
    if (w->hit) { reason = DF_STOP_BREAK; about = &w->last; }
    else if ((breakpoint = broken_at(x, w, &t, p, number))) reason = DF_STOP_BREAK;
    else if (stepped(x, w, &t, serial, number)) reason = DF_STOP_STEP;
    w->hit = 0;
    if (reason >= 0) {
      pthread_mutex_lock(&w->lock);
      stand_still(x, w, reason, breakpoint, about);
      pthread_mutex_unlock(&w->lock);
      w->pass = x->watched;
      if (w->step == DF_STEP_TOKEN || (w->step == DF_STEP_NODE && !(t.mark & DFI_DEAD))) w->left--;
      return false;
    }
  }
  w->pass = false;
  w->last = t;
  w->has_last = true;
  w->last_event = w->log ? log_event(w, (df_event){ .kind = DF_EVENT_TOKEN, .node = p->node->id, .frame = (int32_t)serial, .iteration = number,
                                                    .scope = t.record->frame->scope->id, .dead = (t.mark & DFI_DEAD) != 0 }) : -1;
  return true;
}

/* ---- from outside ------------------------------------------------------------------------------------- */

static void call_owner(dfi_watch *w) {
  atomic_store(&w->wanted, 1);
  if (!w->exec) return;
  pthread_mutex_lock(&w->exec->inbox_lock);
  pthread_cond_signal(&w->exec->inbox_bell);
  pthread_mutex_unlock(&w->exec->inbox_lock);
}

int32_t dfi_watch_hold(dfi_watch *w, bool *mine) {
  pthread_mutex_lock(&w->lock);
  *mine = w->state == DF_RUN_RUNNING || w->state == DF_RUN_NEW;
  if (*mine) {
    w->want_pause = true;
    call_owner(w);
    while (w->state == DF_RUN_RUNNING || w->state == DF_RUN_NEW) pthread_cond_wait(&w->changed, &w->lock);
  }
  return w->state;
}

void dfi_watch_let_go(dfi_watch *w, bool mine) {
  if (mine && w->state == DF_RUN_PAUSED) {
    w->state = DF_RUN_RUNNING;
    pthread_cond_broadcast(&w->changed);
  }
  pthread_mutex_unlock(&w->lock);
}
