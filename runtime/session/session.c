/* session.c: a session, and its runs. Its plans are in plans.c, its variables in variables.c.
 *
 * A run looks its plan up (or makes it), sees to it that the variables it needs are initialised, takes an idle
 * executor state of that plan (or makes one), and runs it on the calling thread. Runs of one session may overlap.
 */
#include "session/session.h"
#include "base/processor.h"
#include "engine/engine.h"
#include "engine/run/run.h"
#include "engine/clock/timed.h"
#include "engine/clock/record.h"
#include "engine/memory/holders.h"
#include <stdio.h>
#include <unistd.h>

/* ---- life ----------------------------------------------------------------------- */

df_session *dfi_session_make(df_graph *g, const char *options, const dfi_cluster *cluster, df_error *err) {
  df_session *s = dfi_xcalloc(1, sizeof *s);
  dfi_devices_init(&s->devices);
  static _Atomic uint64_t serials;
  s->serial = atomic_fetch_add(&serials, 1) + 1;
  if (cluster) dfi_session_join(s, cluster);
  s->devices.spread = cluster && cluster != dfi_cluster_now();
  if (dfi_session_options(s, options, err)) {
    dfi_devices_free(&s->devices);
    dfi_free(s);
    return NULL;
  }
  if (s->devices.virtual_clock) dfi_devices_simulate(&s->devices);
  s->graph = df_graph_retain(g);
  s->options = dfi_xstrdup(options ? options : "");
  s->pool = dfi_pool_get(s->threads - 1);
  s->epoch = 1;
  s->tally.of_session = true;
  pthread_mutex_init(&s->lock, NULL);
  dfi_resources_init(&s->resources);
  s->shared.resources = &s->resources;
  pthread_mutexattr_t recursive;
  pthread_mutexattr_init(&recursive);
  pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&s->init_lock, &recursive);
  pthread_mutexattr_destroy(&recursive);
  return s;
}

df_session *df_session_new(df_graph *g, const char *options, df_error *err) {
  dfi_short = false;
  const dfi_cluster *cluster = dfi_cluster_now(), *local = cluster ? NULL : dfi_local_ranks();
  df_session *s = dfi_session_make(g, options, local ? local : cluster, err);
  int32_t status = DF_OK;
  if (!s && local) local->closed(local->user, NULL);
  if (!s) return NULL;
  if (local) status = dfi_local_ranks_begin(s, options, err);
  if (!dfi_check_memory(status, err, NULL, "a session")) return s;
  df_session_release(s);
  return NULL;
}

static void drop(void *of) {
  df_session *s = of;
  while (atomic_load(&s->active)) usleep(200);
  while (s->remaining) dfi_run_let_go(s->remaining);
  if (s->cluster && !s->devices.rank) s->cluster->closed(s->cluster->user, s);
  for (dfi_plan *p = s->newest, *older; p; p = older) { older = p->older; dfi_session_plan_drop(p); }
  for (int32_t i = 0; i < s->nvariables; i++) dfi_handle_release(s->variable[i]);
  dfi_free(s->variable); dfi_free(s->variable_node); dfi_free(s->draws.of);
  dfi_resources_free(&s->resources);
  dfi_devices_free(&s->devices);
  dfi_tally_free(&s->tally);
  pthread_mutex_destroy(&s->lock);
  pthread_mutex_destroy(&s->init_lock);
  df_graph_release(s->graph);
  dfi_free(s->options);
  dfi_free(s);
}

void df_session_release(df_session *s) {
  if (!s) return;
  atomic_store(&s->closing, 1);
  const double until = dfi_now() + DFI_PATIENCE;
  while (atomic_load(&s->active) && dfi_now() < until) usleep(200);
  if (!atomic_load(&s->active) || !dfi_background(drop, s)) drop(s);
}

void df_graph_allow_files(df_graph *g) { g->files = true; }

/* ---- a run ------------------------------------------------------------------------------------------- */

int32_t dfi_session_check_feed(df_output o, const df_value *v, df_error *err) {
  dfi_shape found = dfi_value_shape(v), merged;
  if (v->kind != DF_SCALAR && v->kind != DF_TENSOR)
    return dfi_fail(err, DF_INVALID_ARGUMENT, o.node->where, "the feed for `%s` is no value", dfi_node_name(o.node));
  if (v->dtype == dfi_dtype(o) && dfi_shape_merge(&found, dfi_shape_at(o), &merged)) return DF_OK;
  char a[200], b[200];
  return dfi_fail(err, DF_INVALID_ARGUMENT, o.node->where, "`%s:%d` was fed %s, but it is %s", dfi_node_name(o.node),
                  o.index, dfi_typed_shape_text(v->dtype, &found, a),
                  dfi_typed_shape_text(dfi_dtype(o), dfi_shape_at(o), b));
}

static dfi_exec *exec_take(df_session *s, dfi_plan *p) {
  pthread_mutex_lock(&p->lock);
  dfi_exec *x = p->idle;
  if (x) p->idle = x->next_idle;
  pthread_mutex_unlock(&p->lock);
  if (x) return x;
  x = dfi_exec_new(p);
  x->setup.session = s;
  x->setup.shared = &s->shared;
  x->setup.pool = s->pool;
  x->setup.closing = &s->closing;
  for (int32_t i = 0; i < p->nvariables; i++) {    /* borrowed: the session keeps its variables to its end */
    dfi_variable *v = dfi_session_variable_of(s, p->variable[i]);
    if (p->cut) atomic_store(&v->home, p->devices->at[p->variable_device[i]]->rank);
    atomic_store(&v->node, p->variable[i]->id);
    x->given[p->nfeed + i] = (df_value){ .kind = DF_HANDLE, .dtype = DF_RESOURCE, .as.handle = v };
  }
  return x;
}

static void exec_give_back(dfi_plan *p, dfi_exec *x) {
  dfi_exec_reset(x);
  if (DFI_UNLIKELY(x->bytes != x->bytes_told)) {
    atomic_fetch_add(&p->idle_bytes, x->bytes - x->bytes_told);
    x->bytes_told = x->bytes;
  }
  pthread_mutex_lock(&p->lock);
  x->next_idle = p->idle;
  p->idle = x;
  pthread_mutex_unlock(&p->lock);
}

void dfi_session_forget(dfi_watch *w) {
  pthread_mutex_lock(&w->lock);
  dfi_exec *x = w->remains && w->state == DF_RUN_OVER ? w->exec : NULL;
  if (x) w->exec = NULL;
  pthread_mutex_unlock(&w->lock);
  if (!x) return;
  dfi_watch_forget(x);
  x->watch = NULL;
  x->live = NULL;
  dfi_plan *p = x->plan;
  exec_give_back(p, x);
  dfi_session_let_go(p);
}

static void count_run(df_session *s, dfi_exec *x, dfi_tally *tally) {
  const df_stats d = dfi_exec_stats(x);
  pthread_mutex_lock(&s->lock);
  df_stats *t = &s->stats;
  t->runs += x->setup.run_number > 0;
  t->nodes_run += d.nodes_run; t->dead_tokens += d.dead_tokens; t->frames += d.frames; t->iterations += d.iterations;
  t->stack_pushes += d.stack_pushes; t->stack_pops += d.stack_pops;
  dfi_tally_add(&s->tally, x);
  if (tally) dfi_tally_add(tally, x);
  pthread_mutex_unlock(&s->lock);
  if (x->live) dfi_exec_publish(x);
}

/* The plan's i-th variable has no room where it is to lie: which device that is, and how full. */
static int32_t no_room_there(const df_session *s, const dfi_plan *p, int32_t i, df_error *err) {
  const dfi_device *d = s->devices.at[p->variable_device[i]];
  char told[300], used[32], limit[32];
  dfi_devmem_stats now;
  int32_t n = 0;
  if (!err || !d->arena) return DF_RESOURCE_EXHAUSTED;
  dfi_devmem_look(d->arena, &now);
  for (int32_t k = 0; k < p->nvariables; k++) n += p->variable_device[k] == p->variable_device[i];
  snprintf(told, sizeof told, "%.290s", err->message);
  return dfi_fail(err, DF_RESOURCE_EXHAUSTED, p->variable[i]->where,
                  "%s, on %s (%s of %s in use), where %d variable%s of this run lie%s", told, d->name,
                  dfi_size_text(now.in_use, used), dfi_size_text(now.limit, limit), n, n == 1 ? "" : "s",
                  n == 1 ? "s" : "");
}

/* The plan's variables lie where their devices keep them. */
static int32_t settle_variables(df_session *s, const dfi_plan *p, df_error *err) {
  for (int32_t i = 0; i < p->nvariables; i++) {
    if (!dfi_devices_here(&s->devices, s->devices.at[p->variable_device[i]]->rank)) continue;
    dfi_devmem *a = s->devices.at[p->variable_device[i]]->arena;
    const int32_t status = dfi_variable_settle(dfi_session_variable_of(s, p->variable[i]), a, err);
    if (status) return status == DF_RESOURCE_EXHAUSTED ? no_room_there(s, p, i, err) : status;
  }
  return DF_OK;
}

/* What is fed, as the run's own values: numbers out of their boxes. */
static void take_feeds(dfi_exec *x, const dfi_plan *p, const df_value *values) {
  for (int32_t i = 0; i < p->nfeed; i++) {
    x->given[i] = dfi_value_copy(&values[i]);
    x->given[i].dead = 0;
    if (values[i].kind == DF_TENSOR && values[i].as.tensor->rank == 0 && dfi_unboxed(values[i].dtype))
      dfi_value_from_tensor(&x->given[i], x->given[i].as.tensor);
  }
}

/* The recorder of a run that is to be recorded, and the clock that this or its session asks for. */
static void set_clock(const df_session *s, dfi_exec *x, dfi_watch *watch, bool records) {
  x->timed = NULL;
  if (!s->devices.virtual_clock && !records) return;
  if (!x->clock) x->clock = dfi_timed_new(x->plan);
  x->timed = x->clock;
  if (records) x->timed->recorder = watch->recorder = dfi_recorder_new();
}

/* Runs to the end, by the floating point mode and within the memory that runs have. */
static int32_t turn(df_session *s, dfi_exec *x, df_error *err) {
  const uint32_t mode = dfi_float_mode();
  dfi_set_float_mode(mode | DFI_NO_DENORMALS);
  /* one in the background has been counted since it was started */
  if (!x->setup.cancel) atomic_fetch_add(&s->shared.in_progress, 1);
  dfi_memory_hold hold;
  if (DFI_UNLIKELY(s->memory_limit)) dfi_memory_hold_begin(&hold, s->memory_limit);
  const int32_t status = dfi_exec_run(x, err);
  if (DFI_UNLIKELY(s->memory_limit)) dfi_memory_hold_end(&hold);
  if (!x->setup.cancel) atomic_fetch_sub(&s->shared.in_progress, 1);
  dfi_set_float_mode(mode);
  if (x->timed) x->timed->recorder = NULL;
  return status;
}

/* The run goes over ranks: which number it has among them. On rank 0 the others are told to begin. */
static int32_t go_over_ranks(df_session *s, dfi_exec *x, int64_t number, double timeout, uint64_t part, df_error *err) {
  const dfi_cluster *c = s->cluster;
  if (!s->devices.spread && c != dfi_cluster_now())
    return dfi_fail(err, DF_UNAVAILABLE, NULL, "the graph is placed on ranks that are not there any more: the cluster "
                    "was stopped");
  if (x->timed)
    return dfi_fail(err, DF_UNIMPLEMENTED, NULL, "a run over several ranks is neither recorded nor timed by the "
                    "virtual clock: place the graph on one rank for that");
  x->rank = c->rank;
  x->setup.rank_run = part ? part : dfi_rank_run_number(c->rank);
  const dfi_part_order o = { x->setup.rank_run, number, timeout, dfi_now(), dfi_watch_order(x->watch) };
  return part ? DF_OK : c->begin(c->user, s, x->plan, x->plan->parts->ranks, &o, err);
}

/* A part of a run of other ranks does not begin here: they are told. */
static int32_t not_begun(const df_session *s, uint64_t part, const df_error *err, int32_t status) {
  if (part) dfi_rank_refuse(s->cluster->rank, part, err);
  return status;
}

/* A reference to a variable of another rank is read there. */
static int32_t take_fetch(df_session *s, dfi_exec *x, int32_t i, df_value *out, df_error *err) {
  const dfi_plan *p = x->plan;
  const dfi_operand o = p->fetch[i];
  const int32_t v = o != ~0u && DFI_SPACE(o) == DFI_GIVEN ? (int32_t)DFI_INDEX(o) - p->nfeed : -1;
  if (v < 0 || v >= p->nvariables || dfi_devices_here(&s->devices, dfi_session_home(s, p->variable[v])))
    return dfi_exec_fetch(x, i, out, err);
  return df_session_variable(s, p->variable[v]->id, out, err);
}

/* part: 0, or the number of a run that another rank has begun, of which this is a part. */
static int32_t run_plan(df_session *s, dfi_plan *p, const df_value *values, double timeout, dfi_run_number number,
                        uint64_t part, _Atomic uint8_t *drew, atomic_int *cancel, dfi_watch *watch, df_value *results,
                        df_stats *stats, dfi_tally *tally, df_error *err) {
  for (int32_t i = 0; i < p->nfetch; i++) results[i] = (df_value){ 0 };
  const _Atomic int64_t *interrupter = cancel ? &dfi_interrupts : &dfi_calls_interrupted;
  const int64_t interrupts = cancel && watch ? watch->interrupts : atomic_load(interrupter);
  int32_t status = DF_OK;
  for (int32_t i = 0; i < p->nfeed && !status && !part; i++)
    status = dfi_session_check_feed(p->feed[i], &values[i], err);
  if (!status && p->nvariables && !part) status = dfi_session_initialise(s, p, cancel, err);
  if (!status && p->cut) status = settle_variables(s, p, err);
  if (status) return not_begun(s, part, err, status);
  dfi_exec *x = exec_take(s, p);
  if (!part) take_feeds(x, p, values);
  if (DFI_UNLIKELY(dfi_short)) {
    exec_give_back(p, x);
    return not_begun(s, part, err, dfi_short_fail(err, NULL, "a run"));
  }
  if (timeout <= 0) timeout = s->timeout;
  x->setup.cancel = cancel;
  x->watch = watch;
  x->live = stats;
  const bool records = watch && watch->records;
  set_clock(s, x, watch, records);
  x->setup.interrupter = interrupter;
  x->setup.interrupts = interrupts;
  atomic_store_explicit(&x->at, -1, memory_order_relaxed);
  x->setup.deadline = timeout > 0 ? dfi_now() + timeout : 0;
  x->shuffle = s->shuffle ? s->shuffle * 0x9e3779b97f4a7c15u + (uint64_t)number.serial : 0;
  x->setup.run_number = number.serial;
  x->setup.draw_number = number.draw;
  x->setup.drew = drew;
  x->setup.engine = s->engine;
  x->osr = s->osr ? s->osr * 0x9e3779b97f4a7c15u + (uint64_t)number.serial : 0;
  x->setup.foreground = s->lone && !cancel;
  x->rank = NULL;
  x->setup.rank_run = 0;
  if (DFI_UNLIKELY(dfi_plan_over_ranks(p)) && (status = go_over_ranks(s, x, number.draw, timeout, part, err)))
    not_begun(s, part, err, status);
  const bool far = x->setup.rank_run && !part;
  if (far) atomic_fetch_add(&s->shared.far, 1);
  if (!status) status = turn(s, x, err);
  if (far) atomic_fetch_sub(&s->shared.far, 1);
  for (int32_t i = 0; i < p->nfetch && !status && !part; i++) status = take_fetch(s, x, i, &results[i], err);
  if (status) for (int32_t i = 0; i < p->nfetch; i++) df_value_release(&results[i]);
  /* an inspector finds everything where it was */
  if (watch && (records || watch->logs) && !watch->remains && !status) dfi_session_learn(s, p, watch);
  count_run(s, x, tally);
  x->setup.drew = NULL;
  if (!watch || !watch->remains) exec_give_back(p, x);
  return status;
}

int32_t dfi_session_compute(df_session *s, dfi_plan *p, atomic_int *cancel, df_value *results, df_error *err) {
  return run_plan(s, p, NULL, 0, (dfi_run_number){ 0 }, 0, NULL, cancel, NULL, results, NULL, NULL, err);
}

/* The session's peak is that of the time in which it has runs; a run with a handle has its own. */
static void peaks_begin(df_session *s, const dfi_plan *p, dfi_tally *tally, dfi_peaks *peaks) {
  pthread_mutex_lock(&s->lock);
  if (s->running++ == 0) dfi_tally_peaks_begin(&s->tally, &s->peaks, NULL);
  if (tally) dfi_tally_peaks_begin(tally, peaks, p->cut ? &s->devices : NULL);
  pthread_mutex_unlock(&s->lock);
}

static void peaks_end(df_session *s, dfi_tally *tally) {
  pthread_mutex_lock(&s->lock);
  if (tally) dfi_tally_peaks_end(tally);
  if (--s->running == 0) dfi_tally_peaks_end(&s->tally);
  pthread_mutex_unlock(&s->lock);
}

int32_t dfi_session_run_plan(df_session *s, dfi_plan *p, const df_value *values, double timeout, dfi_run_number number,
                             atomic_int *cancel, dfi_watch *watch, df_value *results, df_stats *stats,
                             dfi_tally *tally, df_error *err) {
  if (atomic_load(&s->closing)) return dfi_fail(err, DF_CANCELLED, NULL, "the session is closed");
  _Atomic uint8_t few[64] = { 0 }, *drew = p->nrandom <= 64 ? few : dfi_xcalloc((size_t)p->nrandom, 1);
  atomic_fetch_add(&s->active, 1);
  dfi_run_entered();
  dfi_peaks peaks;
  peaks_begin(s, p, tally, &peaks);
  int32_t status = run_plan(s, p, values, timeout, number, 0, drew, cancel, watch, results, stats, tally, err);
  peaks_end(s, tally);
  dfi_run_left();
  if (p->nrandom) dfi_session_drew(s, p, number.draw, drew);
  if (drew != few) dfi_free(drew);
  atomic_fetch_sub(&s->active, 1);
  return status;
}

int32_t dfi_session_part(df_session *s, dfi_plan *p, const dfi_part_order *o, df_error *err) {
  df_error local;
  if (!err) err = &local;
  err->code = 0; err->message[0] = err->op[0] = err->frame[0] = err->source[0] = 0;
  dfi_short = false;
  int32_t status = DF_OK;
  if (atomic_load(&s->closing)) status = dfi_fail(err, DF_CANCELLED, NULL, "the session is closed");
  else if (!dfi_plan_over_ranks(p) || !(p->parts->ranks >> s->devices.rank & 1))
    status = dfi_fail(err, DF_FAILED_PRECONDITION, NULL, "this rank has no part in the run, as it sees it: the ranks "
                      "have different plans");
  if (status) return not_begun(s, o->run, err, status);
  dfi_watch *watch = dfi_watch_follow((uint32_t)o->watch, o->now);
  df_value *none = dfi_xcalloc((size_t)p->nfetch + 1, sizeof *none);
  _Atomic uint8_t *drew = dfi_xcalloc((size_t)p->nrandom + 1, 1);
  df_stats counted = { 0 };
  status = run_plan(s, p, NULL, o->timeout, (dfi_run_number){ o->number, o->number }, o->run, drew, NULL, watch, none,
                    watch ? &counted : NULL, NULL, err);
  dfi_watch_free(watch);
  dfi_free(none); dfi_free((void *)drew);
  return status;
}

/* df_session_run and the others on rank 0, of what has arrived. */
static int32_t run_here(df_session *s, int32_t nfetch, const int32_t *fetches, int32_t nfeed, const int32_t *feeds,
                             const df_value *values, double timeout, df_value *results, df_error *err) {
  for (int32_t i = 0; i < nfetch; i++) results[i] = (df_value){ 0 };
  dfi_plan *p = dfi_session_plan(s, nfetch, fetches, nfeed, feeds, 0, err);
  if (!p) return err->code;
  const int32_t status =
      dfi_session_run_plan(s, p, values, timeout, dfi_session_number(s, p), NULL, NULL, results, NULL, NULL, err);
  dfi_session_let_go(p);
  return status;
}

/* Every rank's program has come to this run. */
static int32_t run_together(const dfi_spmd *m, dfi_spmd_call *c, const df_value *values, double timeout,
                            df_value *results, df_error *err) {
  int32_t status = m->arrive(c, NULL, values, err);
  if (status) return status;
  if (m->driver)
    status = run_here(c->session, c->nfetch, c->fetches, c->nfeed, c->feeds, c->values, timeout, results,
                                  err);
  return m->finish(c, status, results, err);
}

int32_t df_session_run(df_session *s, int32_t nfetch, const int32_t *fetches, int32_t nfeed, const int32_t *feeds,
                       const df_value *values, double timeout, df_value *results, df_error *err) {
  df_error local;
  if (!err) err = &local;
  err->code = 0; err->message[0] = err->op[0] = err->frame[0] = err->source[0] = 0;
  err->rank = 0;
  dfi_short = false;
  const dfi_spmd *m = dfi_spmd_now();
  if (DFI_LIKELY(!m)) return run_here(s, nfetch, fetches, nfeed, feeds, values, timeout, results, err);
  for (int32_t i = 0; i < nfetch; i++) results[i] = (df_value){ 0 };
  return run_together(m, &(dfi_spmd_call){ s, nfetch, nfeed, fetches, feeds }, values, timeout, results, err);
}

void df_session_stats(df_session *s, df_stats *out) {
  pthread_mutex_lock(&s->lock);
  *out = s->stats;
  pthread_mutex_unlock(&s->lock);
}
