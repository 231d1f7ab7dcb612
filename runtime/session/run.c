/* run.c: runs in the background, and what their handles can do: wait, cancel, pause, step, break, look. */
#include "session/session.h"
#include "resource/host.h"
#include "engine/clock/record.h"
#include "engine/observe/halt.h"
#include "engine/owners/team.h"
#include "inspect/inspect.h"
#include "plan/make.h"
#include "plan/where.h"
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

struct df_run {
  df_session *session;             /* may be gone once the thread has ended, and the plan with it */
  df_graph   *graph;               /* retained */
  int32_t     nscopes, nown;       /* nown: without the copies that run a second time */
  const char **scope;              /* name and Lua line of each, in turn; the graph's */
  int32_t     nfetch, nfeed;
  dfi_plan   *plan, *finally;      /* finally: NULL, or what runs when it has ended, however it did */
  df_value   *values, *results;    /* owned */
  double      timeout;
  const dfi_spmd *spmd;            /* every rank's program makes this run; NULL: this process alone does */
  dfi_spmd_call    call;                /* fetches and feeds: the plan's */
  dfi_run_number number;
  atomic_int  cancel, done;        /* done: its thread has nothing more to do with it */
  _Atomic int32_t holder;          /* HELD, LEFT or ENDED */
  dfi_watch  *watch;               /* owned */
  int32_t     status;
  df_stats    stats;
  dfi_tally   tally;               /* filled when it is over */
  struct df_run *next, **link;     /* among the session's `remaining`; link NULL: it is not */
  df_error    error;
};

enum { SHORT_LOOKS = 1024 };
/* df_run.holder: the caller's; released while it went on, so that its thread drops it; its thread leaves it. */
enum { HELD, LEFT, ENDED };

/* What its report needs of the session. */
static void look(df_run *r) {
  pthread_mutex_lock(&r->session->lock);
  dfi_tally_look(&r->tally, &r->session->devices, r->session->memory_limit);
  pthread_mutex_unlock(&r->session->lock);
}

static void drop(df_run *r) {
  if (r->link) dfi_run_let_go(r);
  for (int32_t i = 0; i < r->nfeed; i++) df_value_release(&r->values[i]);
  for (int32_t i = 0; i < r->nfetch; i++) df_value_release(&r->results[i]);
  dfi_watch_free(r->watch);
  dfi_tally_free(&r->tally);
  df_graph_release(r->graph);
  dfi_free(r->values); dfi_free(r->results); dfi_free(r->scope); dfi_free(r);
}

static void background(void *arg) {
  df_run *r = arg;
  dfi_short = false;                         /* of whatever the thread did before */
  if (!r->spmd || r->spmd->driver)
    r->status = dfi_session_run_plan(r->session, r->plan, r->values, r->timeout, r->number, &r->cancel, r->watch,
                                     r->results, &r->stats, &r->tally, &r->error);
  if (r->spmd) r->status = r->spmd->finish(&r->call, r->status, r->results, &r->error);
  if (r->finally) {
    df_value none = { 0 };
    df_error error;
    dfi_session_run_plan(r->session, r->finally, NULL, 0, dfi_session_number(r->session, r->finally), NULL, NULL, &none,
                         NULL,
                         NULL, &error);
    df_value_release(&none);
    dfi_session_let_go(r->finally);
  }
  look(r);                                   /* the session may be gone when it is asked for */
  dfi_short = false;                         /* it could be kept all the same */
  const bool remains = r->watch->remains && r->watch->exec;
  if (remains) {
    df_session *s = r->session;
    pthread_mutex_lock(&s->lock);
    r->next = s->remaining;
    r->link = &s->remaining;
    if (r->next) r->next->link = &r->next;
    s->remaining = r;
    pthread_mutex_unlock(&s->lock);
  }
  pthread_mutex_lock(&r->watch->lock);       /* it may have failed before its first token */
  r->watch->state = DF_RUN_OVER;
  pthread_cond_broadcast(&r->watch->changed);
  pthread_mutex_unlock(&r->watch->lock);
  atomic_fetch_sub(&r->session->shared.in_progress, 1);
  if (!remains) dfi_session_let_go(r->plan);
  df_session *s = r->session;                /* it ends when `active` is 0 */
  int32_t held = HELD;
  if (atomic_compare_exchange_strong(&r->holder, &held, ENDED)) {
    atomic_fetch_sub(&s->active, 1);
    atomic_store(&r->done, 1);
  } else {
    drop(r);
    atomic_fetch_sub(&s->active, 1);
  }
}

/* Runs started one after the other come to a queue in that order: a start returns when its run is over, is paused,
 * waits for something outside of it, or has gone on for a moment. */
static void get_going(df_run *r) {
  dfi_watch *w = r->watch;
  const int64_t interrupts = atomic_load(&dfi_calls_interrupted);
  for (int32_t i = 0; i < SHORT_LOOKS; i++) {         /* a short run is over before this thread could sleep and wake */
    if (atomic_load(&r->done)) return;
    if (i % 64 == 63 && !dfi_yield()) break;
  }
  pthread_mutex_lock(&w->lock);
  double until = dfi_now() + 0.2;          /* until its thread has a processor */
  while (w->state == DF_RUN_NEW && dfi_watch_wait(w, until, interrupts)) {}
  until = dfi_now() + 0.02;
  while (w->state == DF_RUN_RUNNING && !w->waits && dfi_watch_wait(w, until, interrupts)) {}
  pthread_mutex_unlock(&w->lock);
}

/* A run that no thread turns: what it holds goes back. */
static df_run *not_started(df_run *r) {
  dfi_session_let_go(r->plan);
  if (r->finally) dfi_session_let_go(r->finally);
  r->watch->state = DF_RUN_OVER;
  atomic_store(&r->done, 1);
  df_run_release(r);
  return NULL;
}

df_run *df_session_start(df_session *s, int32_t nfetch, const int32_t *fetches, int32_t nfeed, const int32_t *feeds,
                         const df_value *values, double timeout, const char *options, df_error *err) {
  df_error local;
  const dfi_spmd *m = dfi_spmd_now();
  if (!err) err = &local;
  dfi_short = false;
  dfi_watch *w = dfi_watch_new(options, err);
  if (!w) return NULL;
  /* where each token is looked at, nodes are those of the graph as it is written */
  const uint32_t watched = (w->want_pause || w->logs || w->keeps ? DFI_PLAN_STEPPED : 0u) |
                           (w->primitives ? DFI_PLAN_PRIMITIVES : 0u);
  dfi_plan *p = dfi_session_plan(s, nfetch, fetches, nfeed, feeds, watched, err);
  dfi_plan *finally = NULL;
  bool fits = p != NULL;
  for (int32_t i = 0; i < nfeed && fits; i++) fits = !dfi_session_check_feed(p->feed[i], &values[i], err);
  if (fits && w->finally >= 0)
    fits = (finally = dfi_session_plan(s, 1, (int32_t[]){ w->finally, -1 }, 0, NULL, 0, err)) != NULL;
  if (!fits) {
    dfi_watch_free(w);
    if (p) dfi_session_let_go(p);
    return NULL;
  }
  df_run *r = dfi_xcalloc(1, sizeof *r);
  r->watch = w;
  r->graph = df_graph_retain(s->graph);
  r->nscopes = p->nscopes;
  r->nown = p->remat ? p->remat->nscopes : p->nscopes;
  r->scope = dfi_xcalloc((size_t)p->nscopes * 2 + 1, sizeof *r->scope);
  for (int32_t i = 0; i < p->nscopes; i++) {
    r->scope[2 * i] = p->scope[i].name;
    r->scope[2 * i + 1] = p->scope[i].where ? p->scope[i].where : "";
  }
  r->session = s; r->plan = p; r->finally = finally; r->timeout = timeout; r->nfetch = nfetch; r->nfeed = nfeed;
  r->values = dfi_xcalloc((size_t)nfeed + 1, sizeof *r->values);
  r->results = dfi_xcalloc((size_t)nfetch + 1, sizeof *r->results);
  r->spmd = m;
  r->call = (dfi_spmd_call){ s, nfetch, nfeed, p->signature, p->signature + 2 * nfetch };
  if (m && m->arrive(&r->call, NULL, values, err)) return not_started(r);
  for (int32_t i = 0; i < nfeed; i++) r->values[i] = dfi_value_copy(m && m->driver ? &r->call.values[i] : &values[i]);
  if (dfi_check_memory(DF_OK, err, NULL, "a run")) return not_started(r);
  atomic_fetch_add(&s->active, 1);         /* until the thread ends: the session waits for it */
  atomic_fetch_add(&s->shared.in_progress, 1);
  r->number = dfi_session_number(s, p);    /* whenever its thread comes to it: random ops draw in the order of starts */
  if (!dfi_background(background, r)) {
    atomic_fetch_sub(&s->shared.in_progress, 1);
    atomic_fetch_sub(&s->active, 1);
    if (p->nrandom) dfi_session_drew(s, p, r->number.draw, NULL);
    dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "no thread could be started for the run");
    return not_started(r);
  }
  if (!w->at_once) get_going(r);
  return r;
}

/* Waits for its thread to have done with it. */
static void join(df_run *r) {
  if (atomic_load(&r->done)) return;
  pthread_mutex_lock(&r->watch->lock);
  while (r->watch->state != DF_RUN_OVER) pthread_cond_wait(&r->watch->changed, &r->watch->lock);
  pthread_mutex_unlock(&r->watch->lock);
  while (!atomic_load(&r->done)) sched_yield();       /* the last lines of background */
}

int32_t df_run_wait(df_run *r, df_value *results, df_error *err) {
  const int32_t state = atomic_load(&r->done) || atomic_load(&r->cancel) ? DF_RUN_OVER : df_run_settle(r, -1, NULL);
  if (state == DF_RUN_PAUSED)
    return dfi_fail(err, DF_FAILED_PRECONDITION, NULL,
                    "the run is paused: it would never end; let it go on (resume, step) or cancel it first");
  /* else the run itself was interrupted, and ends */
  if (state != DF_RUN_OVER && r->watch->interrupts == atomic_load(&dfi_interrupts))
    return dfi_fail(err, DF_CANCELLED, NULL, "waiting for the run was interrupted; the run goes on");
  join(r);
  for (int32_t i = 0; i < r->nfetch; i++) {
    results[i] = r->results[i];
    r->results[i] = (df_value){ 0 };
  }
  if (r->status && err) *err = r->error;
  return r->status;
}

bool df_run_done(df_run *r) {
  dfi_host_serve();                         /* it may wait for us */
  return atomic_load(&r->done) != 0;
}
void df_run_cancel(df_run *r) {
  atomic_store(&r->cancel, 1);
  pthread_mutex_lock(&r->watch->lock);      /* it may be paused */
  if (r->watch->exec) dfi_team_cancel(r->watch->exec);
  pthread_cond_broadcast(&r->watch->changed);
  pthread_mutex_unlock(&r->watch->lock);
}
void df_run_stats(df_run *r, df_stats *out) {
  pthread_mutex_lock(&r->watch->lock);
  if (r->watch->halt && !atomic_load(&r->done)) dfi_halt_ask_counts(r->watch);
  *out = dfi_stats_published(&r->stats);
  if (r->watch->halt && !atomic_load(&r->done)) dfi_halt_count(r->watch->halt, out);
  pthread_mutex_unlock(&r->watch->lock);
}

int32_t df_run_report(df_run *r, int32_t capacity, char *out) {
  const size_t most = capacity > 0 ? (size_t)capacity : 0;
  if (atomic_load(&r->done)) return (int32_t)dfi_tally_text(&r->tally, out, most);
  pthread_mutex_lock(&r->session->lock);     /* the run may end meanwhile, and add what it did */
  dfi_tally_look(&r->tally, &r->session->devices, r->session->memory_limit);
  const size_t n = dfi_tally_text(&r->tally, out, most);
  pthread_mutex_unlock(&r->session->lock);
  return (int32_t)n;
}

/* The options of df_run_whatif. */
static int32_t whatif_options(const char *options, dfi_whatif *how, df_error *err) {
  char *copy = dfi_xstrdup(options ? options : ""), *save = NULL;
  int32_t status = DF_OK;
  *how = (dfi_whatif){ .latency = -1 };
  for (char *w = strtok_r(copy, " ", &save); w && !status; w = strtok_r(NULL, " ", &save)) {
    char *eq = strchr(w, '='), *end = w;
    const double v = eq ? strtod(eq + 1, &end) : 0;
    const size_t n = eq ? (size_t)(eq - w) : 0;
    if (!eq || *end) status = DF_INVALID_ARGUMENT;
    else if (n == 9 && !strncmp(w, "bandwidth", n)) how->bandwidth = v;
    else if (n == 7 && !strncmp(w, "latency", n)) how->latency = v;
    else if (n == 5 && !strncmp(w, "speed", n)) how->speed = v;
    else if (n == 19 && !strncmp(w, "parallel_iterations", n)) how->window = (int64_t)v;
    else if (n == 7 && !strncmp(w, "devices", n)) how->devices = (int32_t)v;
    else if (n == 8 && !strncmp(w, "timeline", n)) how->timeline = v != 0;
    else if (n == 7 && !strncmp(w, "replace", n)) how->replace = v != 0;
    else status = DF_INVALID_ARGUMENT;
    if (status) dfi_fail(err, status, NULL, "whatif: `%s` is not understood", w);
  }
  dfi_free(copy);
  return status;
}

/* The recording as if its nodes had been placed for the devices that `how` describes; NULL: err says why not. */
static dfi_recorder *placed_anew(df_run *r, const dfi_whatif *how, df_error *err) {
  df_session *s = r->session;
  int32_t nfetch, nfeed;
  const int32_t *signature = dfi_recorder_signature(r->watch->recorder, &nfetch, &nfeed);
  dfi_recorder *moved = NULL;
  pthread_mutex_lock(&s->lock);
  dfi_devices *devices = dfi_whatif_devices(&s->devices, how);
  pthread_mutex_lock(&s->graph->lock);
  dfi_plan *fresh = dfi_plan_make(s, devices, s->graph, nfetch, signature, nfeed, signature + 2 * nfetch,
                                  dfi_session_plan_flags(s, 0), err);
  if (fresh) moved = dfi_recorder_replaced(r->watch->recorder, fresh);
  dfi_plan_free(fresh);
  pthread_mutex_unlock(&s->graph->lock);
  pthread_mutex_unlock(&s->lock);
  dfi_whatif_devices_free(devices);
  return moved;
}

int32_t df_run_whatif(df_run *r, const char *options, int32_t capacity, char *out, df_error *err) {
  if (!atomic_load(&r->done))
    return dfi_fail(err, DF_FAILED_PRECONDITION, NULL, "the run is not over yet: wait for it first"), -1;
  if (!r->watch->recorder)
    return dfi_fail(err, DF_FAILED_PRECONDITION, NULL, "the run was not recorded: start it with {record = true}"), -1;
  dfi_whatif how;
  if (whatif_options(options, &how, err)) return -1;
  dfi_recorder *moved = how.replace ? placed_anew(r, &how, err) : NULL;
  if (how.replace && !moved) return -1;
  const size_t n = dfi_record_whatif(moved ? moved : r->watch->recorder, &how, out,
                                     capacity > 0 ? (size_t)capacity : 0);
  dfi_recorder_free(moved);
  return (int32_t)n;
}

void dfi_run_let_go(df_run *r) {
  df_session *s = r->session;                /* it lives as long as it has this run */
  pthread_mutex_lock(&s->lock);
  if (r->link) {
    *r->link = r->next;
    if (r->next) r->next->link = r->link;
    r->link = NULL;
  }
  pthread_mutex_unlock(&s->lock);
  dfi_session_forget(r->watch);
}

void df_run_forget(df_run *r) { if (atomic_load(&r->done) && r->link) dfi_run_let_go(r); }

int64_t df_run_remains(df_run *r) {
  pthread_mutex_lock(&r->watch->lock);
  const int64_t bytes = dfi_watch_readable(r->watch, r->watch->state) ? dfi_snapshot_bytes(r->watch) : -1;
  pthread_mutex_unlock(&r->watch->lock);
  return bytes;
}

void df_run_release(df_run *r) {
  if (!r) return;
  if (!atomic_load(&r->done)) {
    df_run_cancel(r);
    const double until = dfi_now() + DFI_PATIENCE;
    while (!atomic_load(&r->done) && dfi_now() < until) usleep(200);
    int32_t held = HELD;
    if (!atomic_load(&r->done) && atomic_compare_exchange_strong(&r->holder, &held, LEFT)) return;
    join(r);
  }
  drop(r);
}

/* ---- pausing, stepping, breaking ------------------------------------------------------------------------ */

int32_t df_run_pause(df_run *r, df_stop *stop) {
  bool mine;
  int32_t state = dfi_watch_hold(r->watch, &mine);
  r->watch->until_resumed = true;
  if (state == DF_RUN_RUNNING) {            /* the wish stands */
    r->watch->want_pause = true;
    atomic_store(&r->watch->wanted, 1);
  }
  pthread_cond_broadcast(&r->watch->changed);
  if (stop) *stop = r->watch->stop;
  dfi_watch_let_go(r->watch, false);
  return state;
}

void df_run_patience(df_run *r, double seconds) {
  pthread_mutex_lock(&r->watch->lock);
  r->watch->patience = seconds;
  pthread_mutex_unlock(&r->watch->lock);
}

int32_t df_run_at(df_run *r) {
  pthread_mutex_lock(&r->watch->lock);
  int32_t at = r->watch->exec ? atomic_load_explicit(&r->watch->exec->at, memory_order_relaxed) : -1;
  pthread_mutex_unlock(&r->watch->lock);
  return at;
}

void df_run_resume(df_run *r, int32_t step, int64_t n) {
  dfi_watch *w = r->watch;
  pthread_mutex_lock(&w->lock);
  if (w->state == DF_RUN_PAUSED && w->until_resumed) {
    const dfi_exec *x = w->exec;
    w->step = step;
    w->left = n > 0 ? n : 1;
    w->step_frame = w->stop_serial;
    w->step_ended = false;
    w->step_number = step != DF_STEP_FRAME ? w->stop.iteration : dfi_watch_together(w) ? w->opened : x->count.frames;
    w->until_resumed = w->want_pause = false;       /* one that waited for the pause may have asked again meanwhile */
    dfi_watch_go_on(w);
  } else if (w->state == DF_RUN_RUNNING || w->state == DF_RUN_NEW) {
    w->want_pause = w->until_resumed = false;       /* it was asked to pause, and has not yet */
    if (w->halts) dfi_watch_go_on(w);
  }
  pthread_mutex_unlock(&w->lock);
}

int32_t df_run_settle(df_run *r, double seconds, df_stop *stop) {
  dfi_watch *w = r->watch;
  const int64_t interrupts = atomic_load(&dfi_calls_interrupted);
  const double until = seconds < 0 ? -1 : dfi_now() + seconds;
  dfi_host_bell(&w->lock, &w->changed);
  dfi_host_serve();
  pthread_mutex_lock(&w->lock);
  bool in_time = true;
  while (w->state != DF_RUN_OVER && !(w->state == DF_RUN_PAUSED && w->until_resumed) && in_time) {
    if (dfi_host_asked()) {
      pthread_mutex_unlock(&w->lock);
      const int32_t served = dfi_host_serve();
      dfi_host_bell(&w->lock, &w->changed);              /* what was called may have waited elsewhere */
      pthread_mutex_lock(&w->lock);
      if (served) continue;
    }
    in_time = dfi_watch_wait(w, until, interrupts);
  }
  int32_t state = w->state == DF_RUN_PAUSED && !w->until_resumed ? DF_RUN_RUNNING : w->state;      /* it is inspected */
  if (stop) *stop = w->stop;
  pthread_mutex_unlock(&w->lock);
  dfi_host_bell(NULL, NULL);
  return state;
}

/* Marks the plan nodes that stand for graph node n: its own, those that deliver for a loop's Merge, a Switch of the
   same. */
static int32_t mark_nodes(const dfi_plan *p, const df_node *n, uint8_t *match) {
  int32_t found = 0;
  n = dfi_plan_kept(p, n);
  const df_flow flow = dfi_op_info_at(n->op)->op->flow;
  for (int32_t i = 0; i < p->nnodes; i++) {
    const df_node *q = p->node[i].node;
    bool delivers = flow == DF_MERGE && p->node[i].merges && n->nin == 2 && (q == n->in[0].node || q == n->in[1].node);
    if (delivers || dfi_stands_for(&p->node[i], n)) { match[i] = 1; found++; }
  }
  return found;
}

/* The loop's name in a tag such as `outer:4/inner`. */
static const char *innermost(const char *tag) {
  const char *colon = strrchr(tag, ':');
  if (!colon) return tag;
  colon += 1 + strspn(colon + 1, "0123456789");
  return *colon == '/' ? colon + 1 : tag;
}

static int32_t no_frame(const df_run *r, const char *frame, df_error *err) {
  char names[400] = "";
  size_t at = 0;
  for (int32_t i = 1; i < r->nown && at < sizeof names - 1; i++)
    at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i > 1 ? ", " : "", r->scope[2 * i]);
  return dfi_fail(err, DF_NOT_FOUND, NULL,
                  r->nown > 1 ? "this run has no frame `%s` (it has %s)" : "this run has no frame `%s`%s", frame,
                  names),
         0;
}

/* Marks what stands for these nodes; where none of them has a token, those that made what they only pass on. How many.
   */
static int32_t mark_all(const dfi_plan *p, int32_t nnodes, const int32_t *nodes, uint8_t *match) {
  int32_t found = 0;
  for (int32_t further = 0; further < 2 && !found; further++)
    for (int32_t i = 0; i < nnodes; i++) {
      if (nodes[i] < 0 || nodes[i] >= p->graph->n) continue;
      const df_node *n = p->graph->node[nodes[i]];
      for (int32_t patience = 1000; further && patience && dfi_plan_passes_on(n); patience--) n = n->in[0].node;
      found += mark_nodes(p, n, match);
    }
  return found;
}

/* The first of these that was folded into a constant; NULL: none was. */
static const df_node *folded_one(const dfi_plan *p, int32_t nnodes, const int32_t *nodes) {
  for (int32_t i = 0; i < nnodes; i++) {
    const df_node *n = nodes[i] >= 0 && nodes[i] < p->graph->n ? p->graph->node[nodes[i]] : NULL;
    if (n && dfi_plan_folded(p, n)) return n;
  }
  return NULL;
}

int32_t df_run_break(df_run *r, int32_t nnodes, const int32_t *nodes, const char *frame, int64_t iteration,
                     int32_t conditions, df_error *err) {
  dfi_break b = { .iteration = iteration, .conditions = conditions,
                  .once = nnodes < 0 && iteration >= 0 && !conditions };
  if (frame) {
    bool known = false;
    for (int32_t i = 1; i < r->nscopes; i++) known |= !strcmp(r->scope[2 * i], innermost(frame));
    if (!known) return no_frame(r, frame, err);
  }
  dfi_watch *w = r->watch;
  bool mine;
  const int32_t state = dfi_watch_hold(w, &mine);
  if (state != DF_RUN_PAUSED) {
    dfi_watch_refuse(w, state, "the run is over", err);
    dfi_watch_let_go(w, mine);
    return 0;
  }
  if (nnodes >= 0) {
    b.match = dfi_xcalloc((size_t)r->plan->nnodes + 1, 1);
    if (!mark_all(r->plan, nnodes, nodes, b.match)) {
      const df_node *folded = folded_one(r->plan, nnodes, nodes);
      dfi_watch_let_go(w, mine);
      dfi_free(b.match);
      if (folded)
        return dfi_fail(err, DF_NOT_FOUND, folded->where,
                        "`%s` has no token in this run: only constants go into it, so its value was computed when the "
                        "plan was made",
                        dfi_node_name((df_node *)(uintptr_t)folded)),
               0;
      return dfi_fail(err, DF_NOT_FOUND, NULL, "no such node has a token in this run: its fetches do not need it"), 0;
    }
  }
  b.frame = frame ? dfi_xstrdup(frame) : NULL;
  b.id = ++w->break_serial;
  w->breaks = dfi_xrealloc(w->breaks, sizeof *w->breaks * (size_t)(w->nbreaks + 1));
  w->breaks[w->nbreaks++] = b;
  dfi_watch_let_go(w, mine);
  return b.id;
}

bool df_run_unbreak(df_run *r, int32_t breakpoint) {
  dfi_watch *w = r->watch;
  bool mine, found = false;
  const int32_t state = dfi_watch_hold(w, &mine);
  if (state != DF_RUN_RUNNING) found = dfi_watch_unbreak(w, breakpoint);
  dfi_watch_let_go(w, mine);
  return found;
}

/* ---- looking -------------------------------------------------------------------------------------------------- */

df_snapshot *df_run_look(df_run *r, df_error *err) { return dfi_snapshot_take(r->watch, err); }

df_snapshot *df_run_frames(df_run *r, int32_t frame, df_error *err) {
  return dfi_snapshot_frames(r->watch, frame, err);
}

int32_t df_run_ledger(df_run *r, df_ledger *out, df_error *err) { return dfi_ledger_balance(r->watch, out, err); }

int32_t df_run_history(df_run *r, int32_t n, df_token_info *out) {
  pthread_mutex_lock(&r->watch->lock);
  int32_t found = dfi_watch_readable(r->watch, r->watch->state) ? dfi_snapshot_history(r->watch, n, out) : 0;
  pthread_mutex_unlock(&r->watch->lock);
  return found;
}

static df_node *node_of(df_run *r, int32_t node, df_error *err) {
  if (node >= 0 && node < r->graph->n) return r->graph->node[node];
  dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "there is no node %d", node);
  return NULL;
}

static bool paused(df_run *r, df_error *err) {
  if (dfi_watch_readable(r->watch, r->watch->state)) return true;
  dfi_fail(err, DF_FAILED_PRECONDITION, NULL, "the run is not paused");
  return false;
}

int32_t df_run_value(df_run *r, int32_t node, int32_t index, int32_t frame, int64_t iteration, df_value *out,
                     df_error *err) {
  df_error local;
  if (!err) err = &local;
  df_node *n = node_of(r, node, err);
  if (!n) return DF_INVALID_ARGUMENT;
  if (index < 0 || index >= n->nout)
    return dfi_fail(err, DF_INVALID_ARGUMENT, n->where, "`%s` has no output %d", dfi_node_name(n), index);
  pthread_mutex_lock(&r->watch->lock);
  int32_t status = paused(r, err) ? dfi_snapshot_value(r->watch, (df_output){ n, index }, frame, iteration, out, err)
                                  : DF_FAILED_PRECONDITION;
  pthread_mutex_unlock(&r->watch->lock);
  return status;
}

int32_t df_run_waits_for(df_run *r, int32_t node, int32_t frame, int64_t iteration, int32_t *state, int32_t n,
                         int32_t *missing, df_error *err) {
  df_node *of = node_of(r, node, err);
  if (!of) return -1;
  pthread_mutex_lock(&r->watch->lock);
  int32_t found = paused(r, err) ? dfi_snapshot_waits_for(r->watch, of, frame, iteration, state, n, missing, err) : -1;
  pthread_mutex_unlock(&r->watch->lock);
  return found;
}

int64_t df_run_events(df_run *r, int64_t first, int64_t n, df_event *out) {
  const dfi_watch *w = r->watch;
  if (first < 0) first = 0;
  int64_t all = atomic_load_explicit(&w->nevents, memory_order_acquire), there = all > first ? all - first : 0;
  for (int64_t i = 0; i < n && i < there; i++)
    out[i] = w->chunk[(first + i) / DFI_CHUNK_EVENTS][(first + i) % DFI_CHUNK_EVENTS];
  return there;
}

int64_t df_run_events_lost(df_run *r) { return atomic_load(&r->watch->dropped); }

const char *df_run_scope(df_run *r, int32_t scope, const char **where) {
  if (scope < 0 || scope >= r->nscopes) return NULL;
  if (where) *where = r->scope[2 * scope + 1];
  return r->scope[2 * scope];
}
