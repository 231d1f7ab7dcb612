/* persistent_kernel.c: loops that a GPU runs as one kernel are entered, launched and left. See persistent_kernel.h. */
#include "engine/persistent/persistent_kernel.h"
#include "base/clock.h"
#include "base/remote_memory.h"
#include "base/stress.h"
#include "engine/engine.h"
#include "engine/token.h"
#include "engine/owners/transfer.h"
#include "engine/observe/watch.h"
#include <stdarg.h>
#include <stdio.h>

enum {
  FIRST = 64,                    /* iterations of a first launch */
  MOST = 1 << 26,                /* and of any */
  SLICES = 8,                    /* launches before other tokens have their turn */
  PROGRAMS = 16,                 /* of a loop: for as many shapes of its variables */
  LAUNCH_NS = 2000,              /* of each kernel of a graph that is saved */
  ASK_NS = 25000000              /* saved time after which the device is asked again */
};

static df_value *slot_of(const dfi_record *r, const dfi_cudagraph_loop *l, const dfi_persistent_kernel *m, int32_t k) {
  return r->base[DFI_ITERATION] + l->var[m->var[k]].enter->out;
}

/* ---- programs --------------------------------------------------------------------------------------------------- */

/* It cannot be; the first reason, owned, counts. */
static void never(dfi_persistent *w, char *why) {
  char *none = NULL;
  if (!atomic_compare_exchange_strong(&w->reason, &none, why)) dfi_free(why);
}
static void never_for(dfi_persistent *w, const dfi_pnode *p, const char *format, ...)
  __attribute__((format(printf, 3, 4)));
static void never_for(dfi_persistent *w, const dfi_pnode *p, const char *format, ...) {
  va_list more;
  va_start(more, format);
  never(w, dfi_engine_reason(p, format, more));
  va_end(more);
}

static void made_give(dfi_cudagraph_loop *l, dfi_persistent_kernel *m) {
  pthread_mutex_lock(&l->lock);
  m->in_use = false;
  pthread_mutex_unlock(&l->lock);
}

/* One that fits, and that no run has; it is r's from now on. */
static dfi_persistent_kernel *made_take(const dfi_exec *x, dfi_cudagraph_loop *l, const dfi_record *r) {
  dfi_persistent *w = l->persistent;
  pthread_mutex_lock(&l->lock);
  dfi_persistent_kernel **at = &w->made, *m;
  while ((m = *at) && (m->in_use || !dfi_persistent_fits(x, l, m, r))) at = &m->next;
  if (m) {
    *at = m->next;
    m->in_use = true;
    m->next = w->made;
    w->made = m;
  }
  pthread_mutex_unlock(&l->lock);
  return m;
}

/* m is r's, and one of the loop's from now on. Where these are many the one that has not been used for longest goes; of
   runs that go on at once each has its own. */
static void made_keep(dfi_cudagraph_loop *l, dfi_persistent_kernel *m) {
  dfi_persistent *w = l->persistent;
  dfi_persistent_kernel **idle = NULL, *oldest = NULL;
  int32_t n = 0;
  pthread_mutex_lock(&l->lock);
  for (dfi_persistent_kernel **at = &w->made; *at; at = &(*at)->next, n++) if (!(*at)->in_use) idle = at;
  if (n >= PROGRAMS && idle) {
    oldest = *idle;
    *idle = oldest->next;
  }
  m->in_use = true;
  m->next = w->made;
  w->made = m;
  pthread_mutex_unlock(&l->lock);
  if (oldest) dfi_persistent_drop(oldest);
}

/* A program for what is at hand; NULL: not now, or never. */
static dfi_persistent_kernel *made_of(dfi_exec *x, dfi_cudagraph_loop *l, const dfi_record *r) {
  dfi_persistent_kernel *m = made_take(x, l, r);
  char *why;
  if (m) return m;
  m = dfi_xcalloc(1, sizeof *m);
  m->most = FIRST;
  m->asked = -1;
  m->began = atomic_load(&l->iterations);
  const dfi_persistent_found found = dfi_persistent_make(x, l, r, m, &why);
  if (found == DFI_PERSISTENT_MADE) {
    made_keep(l, m);
    return m;
  }
  dfi_persistent_drop(m);
  atomic_store(&l->persistent->wanted, found == DFI_PERSISTENT_LATER);
  if (found == DFI_PERSISTENT_NEVER) never(l->persistent, why);
  return NULL;
}

/* What a kernel would have saved by now, in ns. */
static int64_t saved_by(const dfi_cudagraph_loop *l, int64_t iterations) {
  return iterations * LAUNCH_NS * (l->nsteps + 1);
}

/* Has the device a kernel for it? It is asked now and then. */
static bool has_kernel(dfi_exec *x, dfi_cudagraph_loop *l, dfi_persistent_kernel *m, const dfi_record *r) {
  const dfi_remote *d = dfi_cudagraph_device(x, l)->remote;
  const int64_t saved = saved_by(l, r->number + atomic_load(&l->iterations) - m->began);
  if (m->kernel) return true;
  if (m->asked >= 0 && saved < m->asked + ASK_NS) return false;
  m->asked = saved;
  m->kernel = d->persistent(d->device, &m->program, saved, x->setup.engine == DFI_ENGINE_NATIVE);
  atomic_store(&l->persistent->wanted, m->kernel == NULL);
  if (!m->kernel && x->setup.engine == DFI_ENGINE_NATIVE) never_for(l->persistent, NULL, "there is no code for it");
  return m->kernel;
}

/* ---- in and out ------------------------------------------------------------------------------------------------- */

/* A launch: what it is given, by variable and input; tensors made for it. */
typedef struct launch {
  dfi_remote_persistent run;
  uint64_t   in[DFK_PERSISTENT_VARS + DFK_PERSISTENT_INPUTS];
  void      *in_note[DFK_PERSISTENT_VARS + DFK_PERSISTENT_INPUTS], *to[DFK_PERSISTENT_VARS],
            *to_note[DFK_PERSISTENT_VARS];
  int64_t    yes[DFK_PERSISTENT_CONDS];
  df_tensor *out[DFK_PERSISTENT_VARS];                         /* owned */
  df_tensor *held[DFK_PERSISTENT_VARS + DFK_PERSISTENT_INPUTS]; /* owned: what is read meanwhile */
} launch;

/* What is given in place i; consumes v, which is read until the launch is over. False: there is no memory. */
static bool give(launch *c, const dfi_device *d, int32_t i, df_value v) {
  df_tensor_release(c->held[i]);
  c->held[i] = NULL;
  if (v.kind == DF_SCALAR) { c->in[i] = v.as.u64; return true; }
  if (v.as.tensor->buffer->arena != d->arena) {        /* the host's, or another GPU's */
    c->held[i] = dfi_tensor_copy_in(v.as.tensor, d->arena);
    df_tensor_release(v.as.tensor);
  } else c->held[i] = v.as.tensor;
  if (!c->held[i]) return false;
  c->in[i] = (uint64_t)(uintptr_t)c->held[i]->data;
  c->in_note[i] = dfi_note_of(c->held[i]->buffer);
  return true;
}

static bool give_variables(dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_persistent_kernel *m,
                           const dfi_record *r,
                           launch *c) {
  const dfi_device *d = dfi_cudagraph_device(x, l);
  bool ok = true;
  for (int32_t k = 0; k < m->program.nvars && ok; k++) {
    const df_value *v = slot_of(r, l, m, k);
    ok = give(c, d, k, dfi_value_copy(v));
    if (v->kind != DF_TENSOR || !ok) continue;
    dfi_devmem_use(d->arena);
    c->out[k] = dfi_tensor_make(v->dtype, v->as.tensor->rank, v->as.tensor->dims);
    dfi_devmem_use(NULL);
    if (!(ok = c->out[k])) break;
    c->to[k] = c->out[k]->data;
    c->to_note[k] = dfi_note_of(c->out[k]->buffer);
  }
  return ok;
}

/* Variables of the session are read anew for each launch. False: one has become something else. */
static bool give_inputs(dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_persistent_kernel *m, const dfi_record *r,
                        launch *c,
                        bool first) {
  const dfk_persistent *w = &m->program;
  bool ok = first || dfi_persistent_fits(x, l, m, r);
  for (int32_t i = 0; i < w->ninputs && ok; i++) {
    if (!first && !m->input[i].read) continue;
    const df_value v = dfi_persistent_input_now(r, &m->input[i]);
    if (v.kind == DF_EMPTY) return false;
    ok = give(c, dfi_cudagraph_device(x, l), w->nvars + i, m->input[i].read ? v : dfi_value_copy(&v));
  }
  return ok;
}

/* What a launch wrote is what the next one reads. */
static void go_round(const dfi_persistent_kernel *m, launch *c) {
  for (int32_t k = 0; k < m->program.nvars; k++) {
    if (!c->out[k]) continue;
    c->in[k] = (uint64_t)(uintptr_t)c->to[k];
    c->in_note[k] = c->to_note[k];
  }
}

/* The variables become the iteration's; those that never change stay, wherever they are. */
static void leave(const dfi_cudagraph_loop *l, const dfi_persistent_kernel *m, const dfi_record *r, launch *c) {
  for (int32_t k = 0; k < m->program.nvars; k++) {
    df_value *slot = slot_of(r, l, m, k);
    if (m->program.next[k] == k) continue;
    if (slot->kind == DF_SCALAR) { slot->as.u64 = c->in[k]; continue; }
    df_tensor *was = slot->as.tensor;
    slot->as.tensor = c->out[k];
    c->out[k] = NULL;
    df_tensor_release(was);
  }
}

static void let_go(const dfi_persistent_kernel *m, launch *c) {
  for (int32_t k = 0; k < m->program.nvars; k++) df_tensor_release(c->out[k]);
  for (int32_t i = 0; i < m->program.nvars + m->program.ninputs; i++) df_tensor_release(c->held[i]);
}

/* ---- counting --------------------------------------------------------------------------------------------------- */

/* In how many of a launch's n iterations the guard g held. */
static int64_t alive(const dfi_cudagraph_loop *l, const launch *c, int32_t g, int64_t n) {
  if (g <= 0) return n;
  const int64_t yes = c->yes[(g - 1) / 2];
  return l->guard[g].side ? yes : alive(l, c, l->guard[g].parent, n) - yes;
}

/* What tokens would have counted. */
static void count(dfi_exec *x, dfi_cudagraph_loop *l, const dfi_persistent_kernel *m, const launch *c, int64_t n) {
  x->count.taken += n * l->taken;
  x->count.merged += n * l->merged;
  x->count.iterations += n;
  for (int32_t g = 1; g < l->nguards; g++) x->count.died += l->guard[g].nodes * (n - alive(l, c, g, n));
  for (uint32_t i = 0; i < l->scope->n; i++) {
    const dfi_pnode *p = x->plan->node + l->scope->first + i;
    if (p->kind != DFI_K_TRANSFER) continue;
    const int64_t lived = alive(l, c, l->guard_of[i], n);
    x->traffic[p->child].messages += n;
    x->traffic[p->child].bytes += lived * m->message[i];
    x->traffic[p->child].dead += n - lived;
  }
  atomic_fetch_add(&l->persistent->iterations, n);
  x->gpu_loops.persistent_iterations += n;
}

/* ---- launching -------------------------------------------------------------------------------------------------- */

/* Where the device says nothing the run gives up, or there is no memory for the launch: then tokens go on. */
static void failed(dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_record *r) {
  const dfi_device *d = dfi_cudagraph_device(x, l);
  const char *why = d->remote->error(d->remote->device);
  char message[700];
  r->frame->tokens_only = true;
  if (!*why) return;
  snprintf(message, sizeof message, "%s failed: %s; the CPU goes on being usable", d->name, why);
  dfi_exec_fail(x, r, l->kernel, DF_UNAVAILABLE, message);
}

/* A launch is to take about as long as may pass until a stop is noticed. */
static void fit_most(dfi_persistent_kernel *m, double seconds) {
  if (seconds < 5e-4 && m->most < MOST) m->most *= 4;
  else if (seconds > 2e-3 && m->most > 1) m->most /= 2;
}

/* Once. Gives how many iterations that were, -1: it failed. */
static int64_t launch_once(dfi_exec *x, dfi_cudagraph_loop *l, dfi_persistent_kernel *m, const dfi_record *r,
                           launch *c) {
  const dfi_device *d = dfi_cudagraph_device(x, l);
  const double began = dfi_now();
  c->run.most = x->osr ? 1 + (int64_t)(dfi_engine_dice(x) % 7) : m->most;
  atomic_store_explicit(&x->at, l->kernel->node->id, memory_order_relaxed);
  dfi_waits(x, r, l->kernel, d);
  if (!d->remote->persistent_run(d->remote->device, m->kernel, &m->program, &c->run)) return failed(x, l, r), -1;
  if (c->run.ran == c->run.most && !x->osr) fit_most(m, dfi_now() - began);
  count(x, l, m, c, c->run.ran);
  atomic_fetch_add(&l->persistent->launches, 1);
  x->gpu_loops.persistent_launches++;
  return c->run.ran;
}

/* As long as the loop goes on and the run is not to stop. Gives how many iterations that were. */
static int64_t launch_all(dfi_exec *x, dfi_cudagraph_loop *l, dfi_persistent_kernel *m, dfi_frame *f, dfi_record *r,
                          launch *c) {
  int64_t n = 0;
  for (int32_t slice = 0; !dfi_engine_stops(x); slice++) {
    if (slice && !give_inputs(x, l, m, r, c, false)) break;
    const int64_t ran = launch_once(x, l, m, r, c);
    if (ran < 0) return n;
    n += ran;
    dfi_engine_renumber(f, r, r->number + ran);        /* an error names the iteration that a launch began with */
    if (x->live) dfi_exec_publish(x);
    go_round(m, c);
    if (c->run.end != DFK_PERSISTENT_ENOUGH) { f->tokens_only = true; break; }   /* the next one is the tokens' */
    const bool others = x->head != x->tail || (x->running && __atomic_load_n(&x->inbox, __ATOMIC_RELAXED));
    if ((others && slice >= SLICES) || (x->osr && dfi_engine_dice(x) % 3 == 0)) break;
  }
  x->patience = 0;
  return n;
}

static void run(dfi_exec *x, dfi_cudagraph_loop *l, dfi_persistent_kernel *m, dfi_frame *f, dfi_record *r) {
  launch *c = dfi_xcalloc(1, sizeof *c);
  c->run = (dfi_remote_persistent){ .in = c->in, .in_note = c->in_note, .to = c->to, .to_note = c->to_note,
                                    .yes = c->yes };
  int64_t n = 0;
  if (give_variables(x, l, m, r, c) && give_inputs(x, l, m, r, c, true)) n = launch_all(x, l, m, f, r, c);
  if (n && !x->failed) leave(l, m, r, c);
  let_go(m, c);
  dfi_free(c);
}

/* Once for a loop. False: it is not to be one. */
static bool begins(dfi_exec *x, dfi_cudagraph_loop *l) {
  const dfi_remote *d = dfi_cudagraph_device(x, l)->remote;
  pthread_mutex_lock(&l->lock);
  if (!l->persistent) {
    l->persistent = dfi_xcalloc(1, sizeof *l->persistent);
    if (!d->persistent) never_for(l->persistent, NULL, "the device has no such kernels");
    else if (dfi_stress("graphs", NULL)) never_for(l->persistent, NULL, "DFLOW_STRESS wants graphs");
  }
  pthread_mutex_unlock(&l->lock);
  return !atomic_load(&l->persistent->reason);
}

bool dfi_persistent_run(dfi_exec *x, dfi_cudagraph_loop *l, dfi_frame *f, dfi_record *r) {
  if (!begins(x, l)) return false;
  dfi_persistent_kernel *m = made_of(x, l, r);
  if (!m) return false;
  const bool can = has_kernel(x, l, m, r);
  if (can) run(x, l, m, f, r);
  made_give(l, m);
  return can;
}

bool dfi_persistent_kernel_ready(dfi_exec *x, dfi_cudagraph_loop *l, int64_t iterations) {
  return l->persistent && !atomic_load(&l->persistent->reason) && atomic_load(&l->persistent->wanted) &&
         saved_by(l, iterations) > ASK_NS;
}

bool dfi_persistent_may_compile(dfi_cudagraph_loop *l) { return l->persistent && !atomic_load(&l->persistent->reason); }

const char *dfi_persistent_reason(const dfi_cudagraph_loop *l) {
  return l->persistent ? atomic_load(&l->persistent->reason) : NULL;
}

bool dfi_persistent_tell(const dfi_plan *p, dfi_cudagraph_loop *l, dfi_text *t) {
  const long long iterations = l->persistent ? atomic_load(&l->persistent->iterations) : 0;
  if (!iterations) return false;
  dfi_text_add(t, "one kernel of %s: %lld iterations in %lld launches", p->devices->at[l->device]->name, iterations,
               (long long)atomic_load(&l->persistent->launches));
  return true;
}

void dfi_persistent_forget(dfi_cudagraph_loop *l) {
  if (!l->persistent) return;
  for (dfi_persistent_kernel *m = l->persistent->made, *next; m; m = next) { next = m->next; dfi_persistent_drop(m); }
  dfi_free(atomic_load(&l->persistent->reason));
  dfi_free(l->persistent);
  l->persistent = NULL;
}
