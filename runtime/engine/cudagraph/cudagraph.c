/* cudagraph.c: loops that run as graphs are entered, launched and left. See cudagraph.h. */
#include "engine/cudagraph/cudagraph.h"
#include "base/clock.h"
#include "base/processor.h"
#include "engine/engine.h"
#include "engine/token.h"
#include "engine/owners/transfer.h"
#include "engine/observe/watch.h"
#include "engine/services.h"
#include <stdio.h>
#include <time.h>

enum {
  MANY = 16,               /* iterations of a graph, where the body is short */
  NODES = 512,             /* about so many nodes a graph has at most */
  AHEAD = 4,               /* launches that are not over: no more, so that a stop need not wait long */
  SLICES = 64,             /* launches before other tokens have their turn */
  MASKED_ITERATIONS = 8,   /* iterations of a graph that may be masked, where the GPU computes the predicate */
  AGAIN = 1024,            /* of a launch of a WHILE node, at most, where the host counts numbers for each; */
  ENDLESS = 1 << 20,       /* or none */
  INNER = 1 << 10,         /* that a loop inside may have in a launch, at first */
  FIRST = 16,              /* of its first launch, and of any other at least */
  FEW = 16,                /* launches for which capturing was not worth it */
  HOT = 2,                 /* looks, of 256 tokens each */
  UNROLLED = 2,            /* dfi_cudagraph_loop.within */
  KEPT = 4                 /* graphs of a loop, for several shapes: as long as no more runs go on at once */
};

static dfi_cudagraph_loop *loop_of(const dfi_exec *x, const dfi_scope *s) {
  struct dfi_cudagraph *all = x->plan->cudagraph;
  return all && s->id < all->n && all->loop[s->id].scope == s ? &all->loop[s->id] : NULL;
}

/* ---- what is kept from run to run ------------------------------------------------------------------------------- */

/* Takes a graph that is kept: one that fits (*fits), or one of the same form, or one that has to be another one. */
static dfi_cudagraph_exec *made_take(dfi_exec *x, dfi_cudagraph_loop *l, const dfi_record *r, int32_t many,
                                     bool *fits) {
  dfi_cudagraph_exec **at = NULL, **p;
  *fits = false;
  pthread_mutex_lock(&l->lock);
  for (p = &l->idle; *p && !at; p = &(*p)->next)
    if ((!x->osr || (*p)->many == many || (*p)->again) && dfi_cudagraph_fits(l, *p, r)) { at = p; *fits = true; }
  for (p = &l->idle; *p && !at; p = &(*p)->next) if (dfi_cudagraph_resembles(l, *p, r)) at = p;
  for (p = &l->idle; *p && !at; p = &(*p)->next) if (!(*p)->graph || !(*p)->settled) at = p;
  if (!at && l->idle && l->nmade >= KEPT) for (at = &l->idle; (*at)->next; at = &(*at)->next) {}
  dfi_cudagraph_exec *m = at ? *at : NULL;
  if (m) *at = m->next;
  else l->nmade++;
  pthread_mutex_unlock(&l->lock);
  return m ? m : dfi_xcalloc(1, sizeof *m);
}

static void made_give(dfi_cudagraph_loop *l, dfi_cudagraph_exec *m) {
  pthread_mutex_lock(&l->lock);
  m->next = l->idle;
  l->idle = m;
  pthread_mutex_unlock(&l->lock);
}

static void made_drop(const dfi_plan *p, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m) {
  pthread_mutex_lock(&l->lock);
  l->nmade--;
  pthread_mutex_unlock(&l->lock);
  dfi_cudagraph_drop(p, l, m);
}

/* Is the loop's GPU the arena's, of this session or, where the GPU itself has no more, of whichever? */
static bool is_of(const dfi_cudagraph *all, const dfi_cudagraph_loop *l, const dfi_devmem *a, bool device) {
  const dfi_device *d = all->plan->devices->at[l->device];
  return d->arena == a || (device && d->remote && d->remote == dfi_devmem_remote(a));
}

/* The graph that has not been used for longest goes, of a loop on the arena's GPU: memory is short. */
static bool evict_one(dfi_cache *k, const dfi_devmem *a, bool device) {
  dfi_cudagraph *all = (dfi_cudagraph *)k;
  dfi_cudagraph_exec *m = NULL;
  for (int32_t i = 1; i < all->n && !m; i++) {
    dfi_cudagraph_loop *l = &all->loop[i];
    if (!l->scope || pthread_mutex_trylock(&l->lock)) continue;
    const bool there = l->idle && is_of(all, l, a, device);
    dfi_cudagraph_exec **at = &l->idle;
    while (there && (*at)->next) at = &(*at)->next;
    if (there) { m = *at; *at = NULL; l->nmade--; }
    pthread_mutex_unlock(&l->lock);
    if (!m) continue;
    atomic_fetch_add_explicit(&l->let_go, m->graph != NULL, memory_order_relaxed);
    dfi_cudagraph_drop(all->plan, l, m);
  }
  return m != NULL;
}

/* ---- in and out ------------------------------------------------------------------------------------------------- */

/* The slot holds another tensor. Owned. */
static void put(df_value *slot, df_tensor *t) {
  df_tensor *was = slot->as.tensor;
  slot->as.tensor = t;
  df_tensor_release(was);
}

static void device_failed(dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_record *r) {
  const dfi_device *d = x->plan->devices->at[l->device];
  const char *why = d->remote->error(d->remote->device);
  char message[700];
  snprintf(message, sizeof message, "%s failed: %s; the CPU goes on being usable", d->name,
           *why ? why : "it does not take a graph");
  dfi_exec_fail(x, r, l->kernel, DF_UNAVAILABLE, message);
}

/* The iteration's variables become the graph's. */
static bool enter(const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, dfi_record *r) {
  bool ok = true;
  for (int32_t k = 0; k < l->nvars && ok; k++) {
    df_value *slot = dfi_cudagraph_slot(r, l, k);
    if (slot->kind != DF_TENSOR) continue;
    ok = dfi_cudagraph_copy(m->state[k].as.tensor, slot->as.tensor);
    put(slot, df_tensor_retain(m->state[k].as.tensor));
  }
  return ok;
}

/* And are the iteration's own again. Where there is no memory for a tensor, the graph's own is given away, and the
   graph is not used again: false. */
static bool leave(dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, dfi_record *r,
                  const df_value *number) {
  bool whole = true;
  for (int32_t k = 0; k < l->nvars; k++) {
    df_value *slot = dfi_cudagraph_slot(r, l, k);
    if (m->host[l->var[k].enter->out]) {
      const uint32_t uses = slot->uses;
      *slot = number[l->var[k].enter->out];
      slot->uses = uses;
    }
    if (slot->kind != DF_TENSOR) continue;
    df_tensor *t = dfi_tensor_copy_in(slot->as.tensor, x->plan->devices->at[l->device]->arena);
    if (t == slot->as.tensor) { df_tensor_release(t); t = NULL; }
    if (t) put(slot, t);
    else whole = false;
  }
  return whole;
}

/* ---- launching -------------------------------------------------------------------------------------------------- */

static void count(dfi_exec *x, dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, int64_t n) {
  x->count.taken += n * l->taken;
  x->count.merged += n * l->merged;
  x->count.iterations += n;
  for (uint32_t i = 0; i < l->scope->n; i++) {
    const dfi_pnode *p = x->plan->node + l->scope->first + i;
    if (p->kind != DFI_K_TRANSFER) continue;
    x->traffic[p->child].messages += n;
    if (l->guard_of[i] <= 0) x->traffic[p->child].bytes += n * m->message[i];
  }
  atomic_fetch_add_explicit(&l->iterations, n, memory_order_relaxed);
  x->gpu_loops.iterations += n;
}

/* The same of the nodes of conds, once it is known which sides were taken. */
static void count_sides(dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, const int64_t *tally,
                        int64_t n) {
  for (int32_t g = 1; g < l->nguards; g++)
    x->count.died += l->guard[g].nodes * (n - dfi_cudagraph_alive(l, m, tally, g, n));
  for (uint32_t i = 0; i < l->scope->n; i++) {
    const dfi_pnode *p = x->plan->node + l->scope->first + i;
    if (p->kind != DFI_K_TRANSFER || l->guard_of[i] <= 0) continue;
    const int64_t alive = dfi_cudagraph_alive(l, m, tally, l->guard_of[i], n);
    x->traffic[p->child].bytes += alive * m->message[i];
    x->traffic[p->child].dead += n - alive;
  }
  dfi_cudagraph_count_inner(x, l, m, tally, n, 0);
}

/* Until there is room for one more launch. False: the run is to stop, or the device failed. */
static bool has_room(dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, const dfi_record *r) {
  const dfi_remote *d = x->plan->devices->at[l->device]->remote;
  for (int32_t tries = 0;; tries++) {
    const int32_t n = d->replays_left(d->device, m->graph);
    if (n < 0) { device_failed(x, l, r); return false; }
    if (dfi_engine_stops(x)) return false;
    if (n < AHEAD) return true;
    if (tries < 100) dfi_relax();
    else nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
  }
}

/* The numbers of the next `many` iterations; to `fed` (NULL: nowhere) those that the GPU reads. Gives how many
   iterations that were: fewer where the loop ends before. */
static int32_t look_ahead(const dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r,
                          df_value *v,
                          int32_t many, uint64_t *fed) {
  for (m->ahead_at = 0; m->ahead_at < many; m->ahead_at++) {
    const int32_t done = m->njournal;
    if (dfi_cudagraph_numbers(x, l, m, r, v, fed ? fed + (int64_t)m->ahead_at * m->nrow : m->spare)) continue;
    dfi_cudagraph_undo(m, done);
    break;
  }
  return m->ahead_at;
}

static void start_numbers(const dfi_cudagraph_loop *l, const dfi_record *r, df_value *v) {
  for (int32_t k = 0; k < l->nvars; k++) v[l->var[k].enter->out] = *dfi_cudagraph_slot(r, l, k);
}

/* What the host counts and the GPU reads, to where it reads it, after the launches so far. */
static bool write_numbers(const dfi_cudagraph_exec *m, int32_t most) {
  const int64_t bytes = (int64_t)sizeof *m->ahead * most * m->nrow;
  return !bytes || dfi_bytes_copy(m->numbers->data, m->numbers->buffer, m->ahead, NULL, bytes);
}

static int32_t words_of(const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m) {
  return l->ninner ? 2 * m->ntally : m->ntally;
}

/* What the GPU counts begins at nothing, for `most` iterations. */
static bool write_tally(const dfi_cudagraph_loop *l, const dfi_cudagraph_exec *m, int64_t *tally, int32_t most) {
  memset(tally, 0, sizeof *tally * (size_t)words_of(l, m));
  tally[DFI_TALLY_ON] = 1;
  tally[DFI_TALLY_MOST] = most;
  dfi_cudagraph_allow(l, m, tally);
  return !m->tally || dfi_bytes_copy(m->tally->data, m->tally->buffer, tally, NULL,
                                     (int64_t)sizeof *tally * words_of(l, m));
}
/* Those that are committed, that is; and whether a loop inside was cut off. */
static bool read_tally(const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, int64_t *tally) {
  if (m->tally && !dfi_bytes_copy(tally, NULL, m->tally->data, m->tally->buffer,
                                  (int64_t)sizeof *tally * words_of(l, m)))
    return false;
  m->cut = l->ninner && tally[DFI_TALLY_CUT];
  if (l->ninner) memcpy(tally, tally + m->ntally, sizeof *tally * (size_t)m->ntally);
  return true;
}

/* A launch is to take about as long as may pass until a stop is noticed. */
static void fit_most(dfi_cudagraph_exec *m, double seconds) {
  const int32_t limit = m->many;
  if (seconds < 5e-3 && m->most < limit) m->most = 2 * m->most < limit ? 2 * m->most : limit;
  else if (seconds > 20e-3 && m->most > FIRST) m->most /= 2;
}

/* A loop inside was cut off. If that did not take long it may have more. False: an iteration is the tokens' that cannot
   be had in one launch. */
static bool allows_more(dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, int64_t ran, double seconds) {
  enum { LIMIT = 1 << 22 };
  if (seconds < 20e-3 && m->inner_most < LIMIT) { m->inner_most *= 4; return true; }
  if (ran) return true;
  atomic_store(&l->hindered, "a loop inside has more iterations than a launch may take");
  return false;
}

/* Launches once, from `number` on to what it is `ahead`, `most` iterations, after `before` others. Gives how many
   that were; -1: it failed. Where the GPU computes the predicate it says so itself, and what comes after its no is not
   done. */
static int64_t launch_once(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r, df_value *number,
                           const df_value *ahead, int32_t most, int64_t before, int64_t *tally) {
  const dfi_remote *d = x->plan->devices->at[l->device]->remote;
  const double began = m->again ? dfi_now() : 0;
  bool ok = !m->masked || write_tally(l, m, tally, most);
  ok = ok && write_numbers(m, most) && d->replay(d->device, m->graph) && (!m->masked || read_tally(l, m, tally));
  const int64_t n = m->masked && ok ? tally[DFI_TALLY_COUNT] : most;
  if (n == most) memcpy(number, ahead, sizeof *number * l->scope->nslots);
  else {
    dfi_cudagraph_undo_from(m, (int32_t)n);
    m->again_ahead = true;
    look_ahead(x, l, m, r, number, (int32_t)n, NULL);
    m->again_ahead = false;
  }
  if (!ok || !dfi_cudagraph_settle(x, l, m, r, before, n)) {
    if (!x->failed) device_failed(x, l, r);
    return -1;
  }
  if (m->masked) count_sides(x, l, m, tally, n);
  if (m->again && n == most) fit_most(m, dfi_now() - began);
  return n;
}

/* How many iterations the next launch has; 0: the loop does not go on for so many. */
static int32_t next_most(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, const dfi_record *r,
                         df_value *ahead) {
  if (m->again && x->osr) m->most = 1 + (int32_t)(dfi_engine_dice(x) % 7);
  const int32_t wanted = m->again ? m->most : m->many, most = look_ahead(x, l, m, r, ahead, wanted, m->ahead);
  return m->again || most == wanted ? most : 0;
}

/* Launches as long as the loop goes on and the run is not to stop. Gives how many iterations that were; `number`
   is where their numbers have come. */
static int64_t launch_all(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r, df_value *number,
                          df_value *ahead, int64_t *tally) {
  dfi_frame *f = r->frame;
  int64_t n = 0;
  for (int32_t slice = 0;; slice++) {
    const int32_t most = next_most(x, l, m, r, ahead);
    if (!most || !has_room(x, l, m, r)) break;
    bool anew = false;
    if (!dfi_cudagraph_current(m, r, &anew)) {      /* a variable was assigned: the graph reads what it was before */
      f->tokens_only = anew && slice < FEW;
      x->patience = 0;
      break;
    }
    const double began = l->ninner ? dfi_now() : 0;
    const int64_t ran = launch_once(x, l, m, r, number, ahead, most, n, tally);
    if (ran < 0) break;
    n += ran;
    m->launches += m->again ? 1 + ran / MANY : 1;
    count(x, l, m, ran);
    atomic_fetch_add_explicit(&l->launches, 1, memory_order_relaxed);
    x->gpu_loops.launches++;
    if (x->live) dfi_exec_publish(x);
    if (m->cut && allows_more(l, m, ran, dfi_now() - began)) {
      memcpy(ahead, number, sizeof *number * l->scope->nslots);
      continue;
    }
    if (ran < most) { f->tokens_only = true; break; }        /* its last iteration is the tokens' */
    const bool others = x->head != x->tail || (x->running && __atomic_load_n(&x->inbox, __ATOMIC_RELAXED));
    const bool enough = (others && slice >= SLICES) || dfi_cudagraph_stale(l, m) ||
                        dfi_service.persistent_kernel_ready(x, l, n);
    if (enough || (x->osr && dfi_engine_dice(x) % 3 == 0)) { x->patience = 0; break; }
  }
  dfi_cudagraph_undo(m, 0);
  return n;
}

static int64_t launch(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_record *r, df_value *number) {
  const size_t bytes = sizeof *number * l->scope->nslots;
  df_value *ahead = dfi_xmalloc(bytes + 1);
  int64_t *tally = dfi_xcalloc((size_t)words_of(l, m) + 1, sizeof *tally), n = 0;
  memcpy(ahead, number, bytes);
  if (m->masked || write_tally(l, m, tally, 0)) n = launch_all(x, l, m, r, number, ahead, tally);
  if (!m->masked && n) {                   /* the predicate is the host's: what the GPU counted is asked for once */
    if (read_tally(l, m, tally)) count_sides(x, l, m, tally, n);
    else if (!x->failed) device_failed(x, l, r);
  }
  if (m->masked) x->patience = 0;
  dfi_free(tally);
  dfi_free(ahead);
  return n;
}

/* Runs the graph from r on. */
static void run(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_frame *f, dfi_record *r,
                df_value *number) {
  atomic_store_explicit(&x->at, l->kernel->node->id, memory_order_relaxed);
  start_numbers(l, r, number);
  const bool entered = enter(l, m, r) && dfi_cudagraph_await(x, l, m, r);
  if (!entered) device_failed(x, l, r);
  const int64_t n = entered ? launch(x, l, m, r, number) : 0;
  dfi_cudagraph_release(m);
  dfi_engine_renumber(f, r, r->number + n);
  if (leave(x, l, m, r, number)) made_give(l, m);
  else made_drop(x->plan, l, m);
}

/* How many iterations a graph of this loop has. */
static int32_t many_of(dfi_exec *x, const dfi_cudagraph_loop *l) {
  if (x->osr) return 1 + (int32_t)(dfi_engine_dice(x) % 3);
  const int32_t n = NODES / (dfi_cudagraph_steps(l) + 1);
  return n < 1 ? 1 : n < MANY ? n : MANY;
}

static bool refused(dfi_cudagraph_loop *l) {
  if (dfi_service.persistent_may_compile(l)) atomic_store(&l->uncapturable, true);
  else atomic_store(&l->state, DFI_CUDAGRAPH_REFUSED);
  return false;
}

/* Is there a graph for what is at hand, and does the loop go on for long enough? */
static dfi_cudagraph_ready ready(dfi_exec *x, dfi_cudagraph_loop *l, dfi_cudagraph_exec *m, dfi_frame *f, dfi_record *r,
                                 int32_t many, bool fits, df_value *number) {
  if (!fits) {
    const dfi_cudagraph_ready can = dfi_cudagraph_prepare(x, l, m, r);
    if (can != DFI_CUDAGRAPH_READY) return can;
    if (m->there && many > MASKED_ITERATIONS) many = MASKED_ITERATIONS;
  }
  start_numbers(l, r, number);
  /* making a graph is worth some launches of it */
  const int32_t enough = x->osr ? 1 : fits && m->again ? MASKED_ITERATIONS : fits ? m->many : 2 * many;
  const int32_t goes_on = look_ahead(x, l, m, r, number, enough, NULL);
  dfi_cudagraph_undo(m, 0);
  if (goes_on < enough) {
    f->tokens_only = !x->osr;              /* its end is near */
    return DFI_CUDAGRAPH_NOT_NOW;
  }
  if (fits) {
    atomic_fetch_add_explicit(&l->reuses, 1, memory_order_relaxed);
    x->gpu_loops.entries++;
    return DFI_CUDAGRAPH_READY;
  }
  if (m->again) { many = m->nrow ? AGAIN : ENDLESS; m->most = FIRST; }
  m->inner_most = x->osr ? 1 + (int64_t)(dfi_engine_dice(x) % 64) : INNER;
  return dfi_cudagraph_capture(x, l, m, r, many);
}

static bool may_run(dfi_exec *x, const dfi_frame *f) {
  return !f->tokens_only && !f->call && !x->team && !x->setup.faults && dfi_engine_unwatched(x) &&
         !dfi_engine_wants_many(x, f);
}

/* Runs a graph of the loop, if it may. True: the window stays as it is, since after this iteration it perhaps can. */
static bool try(dfi_exec *x, dfi_cudagraph_loop *l, dfi_frame *f, dfi_record *r) {
  if (!l || !may_run(x, f) || dfi_engine_stops(x)) return false;
  if (x->setup.engine == DFI_ENGINE_NATIVE && atomic_load(&l->state) == DFI_CUDAGRAPH_COLD)
    atomic_store(&l->state, DFI_CUDAGRAPH_WANTED);
  if (atomic_load(&l->state) != DFI_CUDAGRAPH_WANTED || (x->osr && dfi_engine_dice(x) % 2)) return false;
  pthread_mutex_lock(&l->lock);
  const bool can = dfi_cudagraph_analyze(x->plan, l);
  pthread_mutex_unlock(&l->lock);
  const bool uncapturable = atomic_load(&l->uncapturable);
  if (!can && !uncapturable) return refused(l);
  if (dfi_service.persistent_run(x, l, f, r)) return false;
  if (uncapturable) return dfi_service.persistent_may_compile(l) ? false : refused(l);
  const int32_t many = many_of(x, l);
  bool fits;
  dfi_cudagraph_exec *m = made_take(x, l, r, many, &fits);
  df_value *number = dfi_xcalloc(l->scope->nslots + 1, sizeof *number);
  const dfi_cudagraph_ready now = ready(x, l, m, f, r, many, fits, number);
  if (now == DFI_CUDAGRAPH_READY) run(x, l, m, f, r, number);
  else { dfi_cudagraph_release(m); made_give(l, m); }
  if (now == DFI_CUDAGRAPH_NEVER) refused(l);
  dfi_free(number);
  return now == DFI_CUDAGRAPH_NOT_NOW && r->number == 0;
}

static bool turn(dfi_exec *x, dfi_frame *f, dfi_record *r) {
  f->window = try(x, loop_of(x, f->scope), f, r) ? 1 : f->scope->parallel_iterations;
  return false;                            /* the iteration that ends the loop is the tokens' */
}

/* ---- which loops are hot --------------------------------------------------------------------------------------- */

static void look(dfi_exec *x) {
  if (x->head == x->tail) return;
  dfi_frame *f = x->queue[x->head & x->queue_mask].record->frame;
  dfi_cudagraph_loop *l = f->origin ? loop_of(x, f->scope) : NULL;
  if (!l || !may_run(x, f)) return;
  if (atomic_load(&l->state) == DFI_CUDAGRAPH_COLD &&
      (x->setup.engine == DFI_ENGINE_NATIVE || atomic_fetch_add(&l->heat, 1) >= HOT))
    atomic_store(&l->state, DFI_CUDAGRAPH_WANTED);
  if (atomic_load(&l->state) == DFI_CUDAGRAPH_WANTED && (!x->osr || dfi_engine_dice(x) % 2)) f->window = 1;
}

static const dfi_engine_ops cudagraph = { turn, look };

/* ---- a plan's loops -------------------------------------------------------------------------------------------- */

static bool on_gpu(const dfi_plan *p, const dfi_scope *s) {
  for (uint32_t i = 0; i < s->n; i++) {
    const dfi_device *d = p->devices->at[(p->node + s->first + i)->device];
    if (d->remote && d->remote->capture) return true;
  }
  return false;
}

void dfi_cudagraph_attach(dfi_plan *p) {
  for (int32_t i = 1; p->cut && i < p->nscopes; i++) {
    dfi_scope *s = &p->scope[i];
    if (s->parent < 0 || s->remat || !on_gpu(p, s)) continue;
    if (!p->cudagraph) {
      p->cudagraph = dfi_xcalloc(1, sizeof *p->cudagraph + sizeof *p->cudagraph->loop * (size_t)p->nscopes);
      p->cudagraph->n = p->nscopes;
      p->cudagraph->plan = p;
      p->cudagraph->cache.evict = evict_one;
      p->engine_ops = &cudagraph;
    }
    p->cudagraph->loop[i].scope = s;
    pthread_mutex_init(&p->cudagraph->loop[i].lock, NULL);
    s->engine_ops = &cudagraph;
  }
  if (p->cudagraph) dfi_cache_add(&p->cudagraph->cache);
}

void dfi_cudagraph_forget(dfi_plan *p) {
  if (p->cudagraph) dfi_cache_remove(&p->cudagraph->cache);
  for (int32_t i = 0; p->cudagraph && i < p->cudagraph->n; i++) {
    dfi_cudagraph_loop *l = &p->cudagraph->loop[i];
    if (!l->scope) continue;
    for (dfi_cudagraph_exec *m = l->idle, *next; m; m = next) { next = m->next; dfi_cudagraph_drop(p, l, m); }
    dfi_service.persistent_forget(l);
    dfi_free(l->step); dfi_free(l->var); dfi_free(l->reason);
    dfi_free(l->access); dfi_free(l->access_of); dfi_free(l->handle_of); dfi_free(l->moved);
    dfi_free(l->inner); dfi_free(l->last_dead);
    dfi_free(l->guard); dfi_free(l->guard_of); dfi_free(l->pair_of); dfi_free(l->first_side); dfi_free(l->decides);
    pthread_mutex_destroy(&l->lock);
  }
  dfi_free(p->cudagraph);
  p->cudagraph = NULL;
}

static void tell_graph(const dfi_plan *p, dfi_cudagraph_loop *l, dfi_text *t) {
  const long long captures = atomic_load(&l->captures);
  const int32_t sides = atomic_load(&l->sides);
  dfi_text_add(t, "a graph of %s: %lld iterations in %lld launches, captured %lld time%s",
               p->devices->at[l->device]->name, (long long)atomic_load(&l->iterations),
               (long long)atomic_load(&l->launches), captures, captures == 1 ? "" : "s");
  if (atomic_load(&l->there))
    dfi_text_add(t, "; it computes the predicate, %s",
                 atomic_load(&l->again) ? "for a WHILE node"
                                        : "and has no conditional nodes: some iterations are masked");
  const int32_t arrays = atomic_load(&l->arrays);
  if (arrays) dfi_text_add(t, "; it reads or writes %d element%s an iteration", arrays, arrays == 1 ? "" : "s");
  if (sides) dfi_text_add(t, "; %d IF node%s an iteration", sides, sides == 1 ? "" : "s");
  for (int32_t i = 0; i < l->ninner; i++) {
    const dfi_cudagraph_loop *in = l->inner[i].loop;
    dfi_text_add(t, "; %s inside, %s", in->scope->name,
                 atomic_load(&in->within) == UNROLLED ? "its iterations in a row" : "as a WHILE node");
  }
  const long long updates = atomic_load(&l->updates), reuses = atomic_load(&l->reuses), gone = atomic_load(&l->let_go);
  if (updates) dfi_text_add(t, "; %lld capture%s changed it in place", updates, updates == 1 ? "" : "s");
  if (reuses) dfi_text_add(t, "; entered as it was %lld time%s", reuses, reuses == 1 ? "" : "s");
  if (gone) dfi_text_add(t, "; %lld went when memory was short", gone);
  const char *why = dfi_service.persistent_reason(l);
  if (why) dfi_text_add(t, "; not one kernel: %s", why);
}

static void tell_loop(const dfi_plan *p, dfi_cudagraph_loop *l, dfi_text *t) {
  pthread_mutex_lock(&l->lock);
  dfi_text_add(t, "%s  ", l->scope->name);
  const long long launches = atomic_load(&l->launches);
  const char *reason = atomic_load(&l->reason);
  const bool whole = dfi_service.persistent_tell(p, l, t);
  if (whole && launches) dfi_text_add(t, "; before that ");
  if (reason && !whole) dfi_text_add(t, "tokens: %s", reason);
  else if (launches) tell_graph(p, l, t);
  else if (whole) { }
  else if (atomic_load(&l->within))
    dfi_text_add(t, "a part of the graphs of %s", p->scope[l->scope->parent].name);
  else if (atomic_load(&l->state) == DFI_CUDAGRAPH_COLD) dfi_text_add(t, "tokens: it has not become hot");
  else if (atomic_load(&l->hindered)) dfi_text_add(t, "tokens: %s", atomic_load(&l->hindered));
  else dfi_text_add(t, "tokens: it ends before a graph of it would be worth making");
  if (l->scope->where && l->scope->where[0]) dfi_text_add(t, "  %s", l->scope->where);
  dfi_text_add(t, "\n");
  pthread_mutex_unlock(&l->lock);
}

void dfi_cudagraph_tell(dfi_plan *p, int32_t what, const char *loop, dfi_text *t) {
  for (int32_t i = 1; p->cudagraph && what == DF_NATIVE_SUMMARY && i < p->nscopes; i++) {
    const dfi_scope *s = &p->scope[i];
    if (s->parent < 0 || (loop && strcmp(loop, s->name))) continue;
    if (p->cudagraph->loop[i].scope) { tell_loop(p, &p->cudagraph->loop[i], t); continue; }
    dfi_text_add(t, "%s  tokens: it is on several devices, and not on a GPU\n", s->name);
  }
}
