/* session.c: runs, and what outlives them: plans by signature, variables, counters.
 *
 * A run looks its plan up (or makes it), sees to it that the variables it needs are initialised, takes an idle
 * executor state of that plan (or makes one), and runs it on the calling thread. Runs of one session may overlap.
 */
#include "session/session.h"
#include "base/processor.h"
#include "graph/build.h"
#include "engine/cudagraph/cudagraph.h"
#include "engine/native/native.h"
#include "engine/clock/timed.h"
#include "engine/clock/record.h"
#include "engine/memory/remat.h"
#include "engine/owners/fault.h"
#include "engine/memory/holders.h"
#include <stdio.h>
#include <unistd.h>

/* ---- life ----------------------------------------------------------------------- */

df_session *dfi_session_make(df_graph *g, const char *options, const dfi_cluster *cluster, df_error *err) {
  df_session *s = dfi_xcalloc(1, sizeof *s);
  dfi_devices_init(&s->devices);
  s->cluster = cluster;
  if (cluster) dfi_devices_of_ranks(&s->devices, dfi_rank_me(cluster->rank), dfi_rank_count(cluster->rank));
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

static void plan_drop(dfi_plan *p) {
  for (dfi_exec *x = p->idle, *n; x; x = n) { n = x->next_idle; dfi_exec_free(x); }
  dfi_native_forget(p);
  dfi_cudagraph_forget(p);
  dfi_plan_free(p);
}

static void drop(void *of) {
  df_session *s = of;
  while (atomic_load(&s->active)) usleep(200);
  while (s->remaining) dfi_run_let_go(s->remaining);
  if (s->cluster && !s->devices.rank) s->cluster->closed(s->cluster->user, s);
  for (dfi_plan *p = s->newest, *older; p; p = older) { older = p->older; plan_drop(p); }
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

/* ---- variables ---------------------------------------------------------------------------------- */

/* What a variable is found by: its container and shared name, or the node's name where it has none. A reference and a
 * handle of one name are different variables. Owned. */
static char *variable_key(df_node *n) {
  const dfi_op_info *o = dfi_op_info_at(n->op);
  int32_t container = dfi_op_attr_index(o, "container"), shared = dfi_op_attr_index(o, "shared_name");
  const char *in = container >= 0 && n->attrs[container].i ? n->attrs[container].s : "";
  const char *name = shared >= 0 && n->attrs[shared].i ? n->attrs[shared].s : dfi_node_name(n);
  size_t bytes = strlen(in) + strlen(name) + 16;
  char *key = dfi_xmalloc(bytes);
  snprintf(key, bytes, "%s %s/%s", n->out[0].ref ? "reference" : "handle", in, name);
  return key;
}

/* May the node be that variable? */
static int32_t check_variable(const dfi_variable *v, df_node *n, df_error *err) {
  const dfi_out *o = &n->out[0];
  uint8_t dtype = o->ref ? o->dtype : o->of;
  char text[160];
  if (v->dtype != dtype)
    return dfi_fail(err, DF_INVALID_ARGUMENT, n->where, "`%s` is for %s, but the variable of that name holds %s",
                    dfi_node_name(n), df_dtype_name(dtype), df_dtype_name(v->dtype));
  if (o->ref && o->shape.rank >= 0 && !dfi_shape_known(&o->shape))
    return dfi_fail(err, DF_INVALID_ARGUMENT, n->where,
                    "the shape of variable `%s`, %s, must be known in full or not at all", dfi_node_name(n),
                    dfi_shape_text(&o->shape, text));
  return DF_OK;
}

static dfi_variable *variable_of(df_session *s, df_node *handle) {
  pthread_mutex_lock(&s->lock);
  dfi_variable *v = NULL;
  for (int32_t i = 0; i < s->nvariables && !v; i++) if (s->variable_node[i] == handle) v = s->variable[i];
  if (!v) {
    if (s->nvariables == s->variable_capacity) {
      s->variable_capacity = s->variable_capacity ? s->variable_capacity * 2 : 16;
      s->variable = dfi_xrealloc(s->variable, sizeof *s->variable * (size_t)s->variable_capacity);
      s->variable_node = dfi_xrealloc(s->variable_node, sizeof *s->variable_node * (size_t)s->variable_capacity);
    }
    const dfi_out *o = &handle->out[0];
    char *key = variable_key(handle);
    for (int32_t i = 0; i < s->nvariables && !v; i++)
      if (!strcmp(s->variable[i]->key, key)) v = dfi_handle_retain(s->variable[i]);
    if (!v) {
      v = dfi_variable_new(o->ref ? o->dtype : o->of, &o->shape, dfi_node_name(handle));
      v->where = handle->where;
      v->key = key;
    } else dfi_free(key);
    s->variable_node[s->nvariables] = handle;
    s->variable[s->nvariables++] = v;
  }
  pthread_mutex_unlock(&s->lock);
  return v;
}

void *dfi_run_variable(void *run, const df_kernel *k) {
  dfi_call *c = run;
  return dfi_handle_retain(variable_of(c->exec->session, c->node->node));
}

/* Does the rest of a path climb out of where it begins? */
static bool climbs(const char *rest, int64_t n) {
  for (int64_t i = 0; i + 1 < n; i++) if (rest[i] == '.' && rest[i + 1] == '.') return true;
  return false;
}

/* Marks in `seen` what `first` is computed from, and itself; of `n` nodes each, as the graph had when it was asked. */
static void mark_sources(df_node *first, int32_t n, uint8_t *seen, df_node **queue) {
  int32_t tail = 0;
  queue[tail++] = first;
  seen[first->id] = 1;
  for (int32_t head = 0; head < tail; head++)
    for (int32_t i = 0; i < queue[head]->nin; i++) {
      df_node *from = queue[head]->in[i].node;
      if (from->id >= n || seen[from->id]) continue;
      seen[from->id] = 1;
      queue[tail++] = from;
    }
}

static bool begins_with_fed(const char *path, int64_t n, const df_value *fed) {
  int64_t length;
  if (fed->kind != DF_TENSOR || fed->dtype != DF_STRING || fed->as.tensor->size != 1) return false;
  const char *text = df_tensor_string(fed->as.tensor, 0, &length);
  return length && length <= n && !memcmp(text, path, (size_t)length) && !climbs(path + length, n - length);
}

bool dfi_run_may_touch(const void *run, int32_t input, const char *path, int64_t n) {
  const dfi_call *c = run;
  if (!c) return false;
  df_graph *g = c->exec->session->graph;
  const df_node *node = c->node->node;
  if (g->files || !node->imported) return true;
  const dfi_plan *plan = c->exec->plan;
  if (input < 0 || input >= node->nin) return false;
  pthread_mutex_lock(&g->lock);
  const int32_t nodes = g->n;
  pthread_mutex_unlock(&g->lock);
  uint8_t *seen = dfi_xcalloc((size_t)nodes, 1);
  df_node **queue = dfi_xmalloc(sizeof *queue * (size_t)nodes);
  mark_sources(node->in[input].node, nodes, seen, queue);
  bool may = false;
  for (int32_t i = 0; i < plan->nfeed && !may; i++)
    may = seen[plan->feed[i].node->id] && begins_with_fed(path, n, &c->exec->given[i]);
  dfi_free(seen); dfi_free(queue);
  return may;
}

void df_graph_allow_files(df_graph *g) { g->files = true; }

int32_t df_variable_set_init(df_graph *g, int32_t handle_node, int32_t init_node, int32_t init_index, df_error *err) {
  if (handle_node < 0 || handle_node >= g->n || init_node < 0 || init_node >= g->n)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "there is no node %d or %d in this graph of %d nodes", handle_node,
                    init_node, g->n);
  df_node *h = g->node[handle_node], *i = g->node[init_node];
  if (init_index < 0 || init_index >= i->nout || !dfi_is_variable(h))
    return dfi_fail(err, DF_INVALID_ARGUMENT, h->where, "`%s` is not a variable, or `%s` has no output %d",
                    dfi_node_name(h), dfi_node_name(i), init_index);
  if (i->context->kind != DFI_TOP)
    return dfi_fail(err, DF_INVALID_ARGUMENT, h->where,
                    "the initial value of `%s` is made inside a loop or branch (`%s`, %s): it must be made outside",
                    dfi_node_name(h), dfi_node_name(i), i->where);
  if (!g->variable_init) g->variable_init = dfi_map_new();
  pthread_mutex_lock(&g->lock);
  dfi_map_put(g->variable_init, (df_output){ h, 0 }, (df_output){ i, init_index });
  dfi_graph_keep_all(g);
  pthread_mutex_unlock(&g->lock);
  return dfi_check_memory(DF_OK, err, h->where, "a variable's initial value");
}

static int32_t run_plan(df_session *s, dfi_plan *p, const df_value *values, double timeout, dfi_run_number number,
                        uint64_t part, _Atomic uint8_t *drew, atomic_int *cancel, dfi_watch *watch, df_value *results,
                        df_stats *stats, dfi_tally *tally, df_error *err);

/* Has a variable its first value? home: the rank that it lives on. */
static bool has_value(const df_session *s, dfi_variable *v, int32_t home) {
  return dfi_devices_here(&s->devices, home) ? dfi_variable_initialised(v) : v->told;
}

static int32_t set_value(df_session *s, df_node *handle, dfi_variable *v, int32_t home, const df_value *value,
                         df_error *err) {
  if (dfi_devices_here(&s->devices, home)) return dfi_variable_assign(v, value, err);
  const int32_t status = s->cluster->set_variable(s->cluster->user, s, home, handle, value, err);
  v->told |= !status;
  return status;
}

static int32_t initialise(df_session *s, df_node *handle, dfi_variable *v, int32_t home, atomic_int *cancel,
                          df_error *err) {
  pthread_mutex_lock(&s->graph->lock);
  df_output init = dfi_map_get(s->graph->variable_init, (df_output){ handle, 0 });
  pthread_mutex_unlock(&s->graph->lock);
  if (!init.node) return DF_OK;             /* reading it will say so */
  if (s->initialising > s->nvariables + 1)
    return dfi_fail(err, DF_FAILED_PRECONDITION, handle->where,
                    "the initial value of variable `%s` needs the variable itself", dfi_node_name(handle));
  int32_t fetch[2] = { init.node->id, init.index };
  dfi_plan *p = dfi_session_plan(s, 1, fetch, 0, NULL, false, err);
  if (!p) return err ? err->code : DF_INTERNAL;
  s->initialising++;
  df_value value = { 0 };
  /* number 0: no run of the caller's */
  int32_t status = run_plan(s, p, NULL, 0, (dfi_run_number){ 0 }, 0, NULL, cancel, NULL, &value, NULL, NULL, err);
  s->initialising--;
  dfi_session_let_go(p);
  if (!status && !has_value(s, v, home)) status = set_value(s, handle, v, home, &value, err);
  df_value_release(&value);
  return status;
}

/* Sees to it that all variables of the plan have values. */
static int32_t initialise_variables(df_session *s, dfi_plan *p, atomic_int *cancel, df_error *err) {
  int64_t epoch = atomic_load(&s->epoch);
  if (DFI_LIKELY(atomic_load_explicit(&p->ready_epoch, memory_order_acquire) == epoch)) return DF_OK;
  int32_t status = DF_OK;
  pthread_mutex_lock(&s->init_lock);
  for (int32_t i = 0; i < p->nvariables && !status; i++) {
    dfi_variable *v = variable_of(s, p->variable[i]);
    const int32_t home = p->cut ? s->devices.at[p->variable_device[i]]->rank : 0;
    status = check_variable(v, p->variable[i], err);
    if (!status && !has_value(s, v, home)) status = initialise(s, p->variable[i], v, home, cancel, err);
  }
  pthread_mutex_unlock(&s->init_lock);
  if (!status) atomic_store_explicit(&p->ready_epoch, epoch, memory_order_release);
  return status;
}

void df_session_reset(df_session *s) {
  pthread_mutex_lock(&s->init_lock);
  pthread_mutex_lock(&s->lock);
  for (int32_t i = 0; i < s->nvariables; i++) {
    dfi_variable_reset(s->variable[i]);
    s->variable[i]->told = false;
  }
  atomic_fetch_add(&s->epoch, 1);
  pthread_mutex_unlock(&s->lock);
  if (s->cluster && !s->devices.rank) s->cluster->reset(s->cluster->user, s);
  pthread_mutex_unlock(&s->init_lock);
}

static df_node *variable_node(df_session *s, int32_t handle_node, df_error *err) {
  if (handle_node < 0 || handle_node >= s->graph->n)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "there is no node %d in this graph of %d nodes", handle_node,
                    s->graph->n),
           NULL;
  df_node *h = s->graph->node[handle_node];
  if (dfi_is_variable(h)) return h;
  dfi_fail(err, DF_INVALID_ARGUMENT, h->where, "`%s` is no variable", dfi_node_name(h));
  return NULL;
}

int32_t df_session_variable(df_session *s, int32_t handle_node, df_value *out, df_error *err) {
  *out = (df_value){ 0 };
  df_node *h = variable_node(s, handle_node, err);
  if (!h) return err->code;
  const int32_t home = dfi_session_home(s, h);
  return dfi_devices_here(&s->devices, home) ? dfi_session_variable_here(s, h, out, err)
                                             : s->cluster->get_variable(s->cluster->user, s, home, h, out, err);
}

int32_t dfi_session_variable_here(df_session *s, df_node *h, df_value *out, df_error *err) {
  *out = (df_value){ 0 };
  df_value found;
  const int32_t status = dfi_variable_read(variable_of(s, h), &found, err);
  if (status) return status;
  const bool room = dfi_value_in(&found, NULL, out);
  dfi_value_drop(&found);
  return room ? DF_OK
              : dfi_fail(err, DF_RESOURCE_EXHAUSTED, h->where, "out of memory for the value of `%s`", dfi_node_name(h));
}

int32_t df_session_set_variable(df_session *s, int32_t handle_node, const df_value *value, df_error *err) {
  df_node *h = variable_node(s, handle_node, err);
  if (!h) return err->code;
  const int32_t home = dfi_session_home(s, h);
  return dfi_devices_here(&s->devices, home) ? dfi_session_set_variable_here(s, h, value, err)
                                             : set_value(s, h, variable_of(s, h), home, value, err);
}

int32_t dfi_session_set_variable_here(df_session *s, df_node *h, const df_value *value, df_error *err) {
  df_value own = dfi_value_copy(value);
  /* a number is kept unboxed, as runs have it */
  if (own.kind == DF_TENSOR) dfi_value_from_tensor(&own, own.as.tensor);
  const int32_t status = dfi_variable_assign(variable_of(s, h), &own, err);
  dfi_value_drop(&own);
  return status;
}

/* ---- plans ----------------------------------------------------------------------------------------- */

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
  if (!c || s->cluster) return;
  s->cluster = c;
  dfi_devices_of_ranks(&s->devices, dfi_rank_me(c->rank), dfi_rank_count(c->rank));
}

static dfi_plan *new_plan(df_session *s, uint64_t hash, int32_t nfetch, const int32_t *fetches, int32_t nfeed,
                          const int32_t *feeds, bool stepped, bool *grown, df_error *err) {
  join_ranks(s);
  pthread_mutex_lock(&s->graph->lock);              /* somebody may be building meanwhile */
  dfi_graph_keep_all(s->graph);
  const uint32_t how = (s->reference_kernels ? DFI_PLAN_REFERENCE : 0u) |
                       (s->engine == DFI_ENGINE_PRIMITIVES ? DFI_PLAN_PRIMITIVES : 0u) |
                       (s->as_written ? DFI_PLAN_AS_WRITTEN : 0u) | (stepped ? DFI_PLAN_STEPPED : 0u);
  dfi_plan *p = dfi_plan_make(s, &s->devices, s->graph, nfetch, fetches, nfeed, feeds, how, err);
  *grown = grows(s);
  if (p) p->stepped = stepped;
  if (p && dfi_plan_over_ranks(p) && s->cluster->planned && s->cluster->planned(s->cluster->user, s, p, err)) {
    dfi_plan_free(p);
    p = NULL;
  }
  pthread_mutex_unlock(&s->graph->lock);
  if (!p) {
    dfi_check_memory(DF_INTERNAL, err, NULL, "a plan");
    return NULL;
  }
  if (!dfi_plan_over_ranks(p)) dfi_remat_attach(p);
  dfi_faults_attach(p);
  dfi_exec_lay_out(p);
  /* it knows one device and the real clock */
  const bool native = s->engine == DFI_ENGINE_AUTO || s->engine == DFI_ENGINE_NATIVE;
  if (native && !p->cut && !p->remat && !s->devices.virtual_clock) dfi_native_attach(p);
  if (native && p->cut && !p->remat && !s->devices.virtual_clock) dfi_cudagraph_attach(p);
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
                           bool stepped, df_error *err) {
  uint64_t hash = hash_pairs(hash_pairs(17, nfetch, fetches), nfeed, feeds);
  dfi_plan *p, *gone = NULL;
  bool grown = false;
  pthread_mutex_lock(&s->lock);
  for (p = s->plan[hash % DFI_PLAN_BUCKETS]; p; p = p->next)
    if (p->hash == hash && p->nfetch == nfetch && p->nfeed == nfeed && p->stepped == stepped &&
        (!p->chosen || p->chosen == s->devices.costs.runs + 1) &&
        !memcmp(p->signature, fetches, sizeof *fetches * 2 * (size_t)nfetch) &&
        (!nfeed || !memcmp(p->signature + 2 * nfetch, feeds, sizeof *feeds * 2 * (size_t)nfeed))) break;
  if (!p && (p = new_plan(s, hash, nfetch, fetches, nfeed, feeds, stepped, &grown, err))) gone = past_limit(s);
  else if (p && p != s->newest) {
    unlink_use(s, p);
    used_now(s, p);
  }
  if (p) atomic_fetch_add_explicit(&p->users, 1, memory_order_relaxed);
  pthread_mutex_unlock(&s->lock);
  if (DFI_UNLIKELY(grown)) warn_grown(s);
  for (dfi_plan *next; gone; gone = next) { next = gone->older; plan_drop(gone); }
  return p;
}

int32_t df_session_plans(df_session *s) { return s->nplans; }

int32_t df_session_native(df_session *s, int32_t what, const char *loop, int32_t room, char *out) {
  dfi_text t = { 0 };
  dfi_text_add(&t, "%s", "");
  pthread_mutex_lock(&s->lock);
  for (int32_t b = 0; b < DFI_PLAN_BUCKETS; b++)
    for (dfi_plan *p = s->plan[b]; p; p = p->next) {
      if (!p->cudagraph) dfi_native_tell(p, what, loop, &t);
      else if (what == DF_NATIVE_SUMMARY) dfi_cudagraph_tell(p, loop, &t);
    }
  pthread_mutex_unlock(&s->lock);
  const int32_t n = (int32_t)t.n;
  if (room > 0) snprintf(out, (size_t)room, "%s", t.at);
  dfi_free(t.at);
  return n;
}

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
  x->session = s;
  x->shared = &s->shared;
  x->pool = s->pool;
  x->closing = &s->closing;
  for (int32_t i = 0; i < p->nvariables; i++)      /* borrowed: the session keeps its variables to its end */
    x->given[p->nfeed + i] =
        (df_value){ .kind = DF_HANDLE, .dtype = DF_RESOURCE, .as.handle = variable_of(s, p->variable[i]) };
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
  t->runs += x->run_number > 0; t->nodes_run += d.nodes_run; t->dead_tokens += d.dead_tokens; t->frames += d.frames;
  t->iterations += d.iterations; t->stack_pushes += d.stack_pushes; t->stack_pops += d.stack_pops;
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
    const int32_t status = dfi_variable_settle(variable_of(s, p->variable[i]), a, err);
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
  if (!x->cancel) atomic_fetch_add(&s->shared.in_progress, 1);
  dfi_memory_hold hold;
  if (DFI_UNLIKELY(s->memory_limit)) dfi_memory_hold_begin(&hold, s->memory_limit);
  const int32_t status = dfi_exec_run(x, err);
  if (DFI_UNLIKELY(s->memory_limit)) dfi_memory_hold_end(&hold);
  if (!x->cancel) atomic_fetch_sub(&s->shared.in_progress, 1);
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
  x->rank_run = part ? part : dfi_rank_run_number(c->rank);
  return part ? DF_OK : c->begin(c->user, s, x->plan, x->plan->parts->ranks, x->rank_run, number, timeout, err);
}

/* A part of a run of other ranks does not begin here: they are told. */
static int32_t not_begun(const df_session *s, uint64_t part, const df_error *err, int32_t status) {
  if (part) dfi_rank_refuse(s->cluster->rank, part, err);
  return status;
}

/* part: 0, or the number of a run that another rank has begun, of which this is a part. */
static int32_t run_plan(df_session *s, dfi_plan *p, const df_value *values, double timeout, dfi_run_number number,
                        uint64_t part, _Atomic uint8_t *drew, atomic_int *cancel, dfi_watch *watch, df_value *results,
                        df_stats *stats, dfi_tally *tally, df_error *err) {
  for (int32_t i = 0; i < p->nfetch; i++) results[i] = (df_value){ 0 };
  const _Atomic int64_t *interrupter = cancel ? &dfi_interrupts : &dfi_calls_interrupted;
  int64_t interrupts = atomic_load(interrupter);
  int32_t status = DF_OK;
  for (int32_t i = 0; i < p->nfeed && !status && !part; i++)
    status = dfi_session_check_feed(p->feed[i], &values[i], err);
  if (!status && p->nvariables && !part) status = initialise_variables(s, p, cancel, err);
  if (!status && p->cut) status = settle_variables(s, p, err);
  if (status) return not_begun(s, part, err, status);
  dfi_exec *x = exec_take(s, p);
  if (!part) take_feeds(x, p, values);
  if (DFI_UNLIKELY(dfi_short)) {
    exec_give_back(p, x);
    return not_begun(s, part, err, dfi_short_fail(err, NULL, "a run"));
  }
  if (timeout <= 0) timeout = s->timeout;
  x->cancel = cancel;
  x->watch = watch;
  x->live = stats;
  const bool records = watch && watch->records;
  set_clock(s, x, watch, records);
  x->interrupter = interrupter;
  x->interrupts = interrupts;
  atomic_store_explicit(&x->at, -1, memory_order_relaxed);
  x->deadline = timeout > 0 ? dfi_now() + timeout : 0;
  x->shuffle = s->shuffle ? s->shuffle * 0x9e3779b97f4a7c15u + (uint64_t)number.serial : 0;
  x->run_number = number.serial;
  x->draw_number = number.draw;
  x->drew = drew;
  x->engine = s->engine;
  x->osr = s->osr ? s->osr * 0x9e3779b97f4a7c15u + (uint64_t)number.serial : 0;
  x->foreground = s->lone && !cancel;
  x->rank = NULL;
  x->rank_run = 0;
  if (DFI_UNLIKELY(dfi_plan_over_ranks(p)) && (status = go_over_ranks(s, x, number.draw, timeout, part, err)))
    not_begun(s, part, err, status);
  if (!status) status = turn(s, x, err);
  for (int32_t i = 0; i < p->nfetch && !status && !part; i++) status = dfi_exec_fetch(x, i, &results[i], err);
  if (status) for (int32_t i = 0; i < p->nfetch; i++) df_value_release(&results[i]);
  /* who looks at it afterwards finds everything where it was */
  if (watch && (records || watch->logs) && !watch->remains && !status) dfi_session_learn(s, p, watch);
  count_run(s, x, tally);
  x->drew = NULL;
  if (!watch || !watch->remains) exec_give_back(p, x);
  return status;
}

/* The session's peak is that of the time in which it has runs; a run that somebody holds has its own. */
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

int32_t dfi_session_part(df_session *s, dfi_plan *p, uint64_t run, int64_t number, double timeout, df_error *err) {
  df_error local;
  if (!err) err = &local;
  err->code = 0; err->message[0] = err->op[0] = err->frame[0] = err->source[0] = 0;
  dfi_short = false;
  int32_t status = DF_OK;
  if (atomic_load(&s->closing)) status = dfi_fail(err, DF_CANCELLED, NULL, "the session is closed");
  else if (!dfi_plan_over_ranks(p) || !(p->parts->ranks >> s->devices.rank & 1))
    status = dfi_fail(err, DF_FAILED_PRECONDITION, NULL, "this rank has no part in the run, as it sees it: the ranks "
                      "have different plans");
  if (status) return not_begun(s, run, err, status);
  df_value *none = dfi_xcalloc((size_t)p->nfetch + 1, sizeof *none);
  _Atomic uint8_t *drew = dfi_xcalloc((size_t)p->nrandom + 1, 1);
  atomic_fetch_add(&s->active, 1);
  status = run_plan(s, p, NULL, timeout, (dfi_run_number){ number, number }, run, drew, NULL, NULL, none, NULL, NULL,
                    err);
  atomic_fetch_sub(&s->active, 1);
  dfi_free(none); dfi_free((void *)drew);
  return status;
}

int32_t df_session_run(df_session *s, int32_t nfetch, const int32_t *fetches, int32_t nfeed, const int32_t *feeds,
                       const df_value *values, double timeout, df_value *results, df_error *err) {
  df_error local;
  if (!err) err = &local;
  err->code = 0; err->message[0] = err->op[0] = err->frame[0] = err->source[0] = 0;
  err->rank = 0;
  dfi_short = false;
  for (int32_t i = 0; i < nfetch; i++) results[i] = (df_value){ 0 };
  dfi_plan *p = dfi_session_plan(s, nfetch, fetches, nfeed, feeds, false, err);
  if (!p) return err->code;
  const int32_t status =
      dfi_session_run_plan(s, p, values, timeout, dfi_session_number(s, p), NULL, NULL, results, NULL, NULL, err);
  dfi_session_let_go(p);
  return status;
}

void df_interrupt(void) {
  atomic_fetch_add(&dfi_interrupts, 1);
  atomic_fetch_add(&dfi_calls_interrupted, 1);
}
void df_interrupt_calls(void) { atomic_fetch_add(&dfi_calls_interrupted, 1); }

void df_session_stats(df_session *s, df_stats *out) {
  pthread_mutex_lock(&s->lock);
  *out = s->stats;
  pthread_mutex_unlock(&s->lock);
}
