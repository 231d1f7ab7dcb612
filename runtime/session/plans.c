/* plans.c: the plans of a session, by signature: found, made, and forgotten when they take too much. */
#include "session/session.h"
#include "engine/engine.h"
#include "engine/memory/remat.h"
#include "engine/owners/far_kernel.h"
#include "engine/owners/fault.h"
#include "engine/run/run.h"
#include "graph/build.h"
#include <stdio.h>

void dfi_session_plan_drop(dfi_plan *p) {
  for (dfi_exec *x = p->idle, *n; x; x = n) { n = x->next_idle; dfi_exec_free(x); }
  dfi_engines_forget(p);
  dfi_plan_free(p);
}

static uint64_t hash_pairs(uint64_t h, int32_t n, const int32_t *pairs) {
  for (int32_t i = 0; i < 2 * n; i++) {
    h = (h ^ (uint32_t)pairs[i]) * 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
  }
  return h * 31 + (uint64_t)n;
}

/* ---- which are kept: under the lock */

static void unlink_use(df_session *s, dfi_plan *p) {
  *(p->newer ? &p->newer->older : &s->newest) = p->older;
  *(p->older ? &p->older->newer : &s->oldest) = p->newer;
}
static void used_now(df_session *s, dfi_plan *p) {
  p->newer = NULL;
  p->older = s->newest;
  *(s->newest ? &s->newest->newer : &s->oldest) = p;
  s->newest = p;
}

static void forget_plan(df_session *s, dfi_plan *p) {
  dfi_plan **at = &s->plan[p->hash % DFI_PLAN_BUCKETS];
  while (*at != p) at = &(*at)->next;
  *at = p->next;
  unlink_use(s, p);
  s->plans_kept--;
}

/* Takes plans that are past the limit out of the table, those first that were not used for longest; a list by `older`.
 * The newest few stay, and so does what is held. */
static dfi_plan *past_limit(df_session *s) {
  int64_t bytes = 0;
  int32_t n = 0;
  dfi_plan *gone = NULL;
  for (dfi_plan *p = s->newest, *older; p; p = older) {
    older = p->older;
    bytes += p->bytes + atomic_load(&p->idle_bytes);
    if (n++ < DFI_PLANS_STAY || bytes <= s->plan_limit || atomic_load(&p->users)) continue;
    bytes -= p->bytes + atomic_load(&p->idle_bytes);
    forget_plan(s, p);
    p->older = gone;
    gone = p;
  }
  return gone;
}

/* A graph that grows between runs is built in a loop, as a rule. */
static bool grows(df_session *s) {
  const int32_t n = s->graph->n, before = s->grown_nodes;
  s->grown_nodes = n;
  return before && n > before && ++s->grown == DFI_GROWN_OFTEN;
}

void df_session_told_growth(df_session *s) {
  pthread_mutex_lock(&s->lock);
  s->grown = DFI_GROWN_OFTEN;
  pthread_mutex_unlock(&s->lock);
}

static void warn_grown(const df_session *s) {
  const char *where = s->graph->n ? s->graph->node[s->graph->n - 1]->where : "";
  fprintf(stderr,
          "dflow: warning: the graph has grown between runs %d times and has %d operations now%s%s: build once and run "
          "often, feeding what changes; g:finalize() makes building after it an error\n",
          DFI_GROWN_OFTEN, s->graph->n, *where ? ", the last built at " : "", where);
}

void dfi_session_let_go(dfi_plan *p) { atomic_fetch_sub_explicit(&p->users, 1, memory_order_release); }

/* There is a cluster now that was not there when the session was made: it has its devices from now on. Under the
   session's lock. */
static void join_ranks(df_session *s) {
  const dfi_cluster *c = dfi_cluster_now();
  if (c && !s->cluster) dfi_session_join(s, c);
}

uint32_t dfi_session_plan_flags(const df_session *s, uint32_t watched) {
  return (s->reference_kernels ? DFI_PLAN_REFERENCE : 0u) |
         (s->engine == DFI_ENGINE_PRIMITIVES ? DFI_PLAN_PRIMITIVES : 0u) |
         (s->as_written ? DFI_PLAN_AS_WRITTEN : 0u) | watched | s->batch;
}

static dfi_plan *new_plan(df_session *s, uint64_t hash, int32_t nfetch, const int32_t *fetches, int32_t nfeed,
                          const int32_t *feeds, uint32_t watched, bool *grown, df_error *err) {
  join_ranks(s);
  pthread_mutex_lock(&s->graph->lock);              /* another thread may be building meanwhile */
  dfi_graph_keep_all(s->graph);
  const uint32_t how = dfi_session_plan_flags(s, watched), jobs = dfi_jobs_version();
  dfi_plan *p = dfi_plan_make(s, &s->devices, s->graph, nfetch, fetches, nfeed, feeds, how, err);
  *grown = grows(s);
  if (p) {
    p->watched = watched;
    p->jobs = jobs;
    dfi_far_attach(p);
    dfi_remat_attach(p);
    dfi_plan_lay_owners(p);
  }
  if (p && dfi_plan_over_ranks(p) && s->cluster->planned && s->cluster->planned(s->cluster->user, s, p, err)) {
    dfi_plan_free(p);
    p = NULL;
  }
  pthread_mutex_unlock(&s->graph->lock);
  if (!p) {
    dfi_check_memory(DF_INTERNAL, err, NULL, "a plan");
    return NULL;
  }
  dfi_faults_attach(p);
  dfi_exec_lay_out(p);
  /* it knows one device and the real clock */
  const bool native = s->engine == DFI_ENGINE_AUTO || s->engine == DFI_ENGINE_NATIVE;
  if (native && !(how & DFI_PLAN_PRIMITIVES) && !p->remat && !s->devices.virtual_clock) dfi_engines_attach(p);
  if (dfi_check_memory(DF_OK, err, NULL, "a plan")) {
    dfi_plan_free(p);
    return NULL;
  }
  p->hash = hash;
  p->bytes = dfi_plan_bytes(p);
  p->next = s->plan[hash % DFI_PLAN_BUCKETS];
  s->plan[hash % DFI_PLAN_BUCKETS] = p;
  used_now(s, p);
  s->nplans++;
  s->plans_kept++;
  return p;
}

dfi_plan *dfi_session_plan(df_session *s, int32_t nfetch, const int32_t *fetches, int32_t nfeed, const int32_t *feeds,
                           uint32_t watched, df_error *err) {
  uint64_t hash = hash_pairs(hash_pairs(17, nfetch, fetches), nfeed, feeds);
  dfi_plan *p, *gone = NULL;
  bool grown = false;
  pthread_mutex_lock(&s->lock);
  for (p = s->plan[hash % DFI_PLAN_BUCKETS]; p; p = p->next)
    if (p->hash == hash && p->nfetch == nfetch && p->nfeed == nfeed && p->watched == watched &&
        p->jobs == dfi_jobs_version() && (!p->chosen || p->chosen == s->devices.costs.runs + 1) &&
        !memcmp(p->signature, fetches, sizeof *fetches * 2 * (size_t)nfetch) &&
        (!nfeed || !memcmp(p->signature + 2 * nfetch, feeds, sizeof *feeds * 2 * (size_t)nfeed))) break;
  if (!p && (p = new_plan(s, hash, nfetch, fetches, nfeed, feeds, watched, &grown, err))) gone = past_limit(s);
  else if (p && p != s->newest) {
    unlink_use(s, p);
    used_now(s, p);
  }
  if (p) atomic_fetch_add_explicit(&p->users, 1, memory_order_relaxed);
  pthread_mutex_unlock(&s->lock);
  if (DFI_UNLIKELY(grown)) warn_grown(s);
  for (dfi_plan *next; gone; gone = next) { next = gone->older; dfi_session_plan_drop(gone); }
  return p;
}

int32_t df_session_plans(df_session *s) { return s->nplans; }

int32_t df_session_native(df_session *s, int32_t what, const char *loop, int32_t capacity, char *out) {
  dfi_text t = { 0 };
  dfi_text_add(&t, "%s", "");
  pthread_mutex_lock(&s->lock);
  for (int32_t b = 0; b < DFI_PLAN_BUCKETS; b++)
    for (dfi_plan *p = s->plan[b]; p; p = p->next) dfi_engines_tell(p, what, loop, &t);
  pthread_mutex_unlock(&s->lock);
  const int32_t n = (int32_t)t.n;
  if (capacity > 0) snprintf(out, (size_t)capacity, "%s", t.at);
  dfi_free(t.at);
  return n;
}
