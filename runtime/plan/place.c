/* place.c: which device each node of a plan runs on, and why.
 *
 *   1. what was asked for (df.device), where the device has a kernel for the op; on the host, what is the host's
 *      wherever it is asked to run (a Range of integers, a queue: df_op.hosted)
 *   2. a resource (variable, TensorArray, queue) lives where it was asked to, else where its first user was, and all
 *      its users run there: an operation on it is served where it lives
 *   3. control flow goes with its values: a Switch, an Exit and a constant Enter with what they take, a cond's Merge
 *      with what comes to it, and the Enter, Merge and NextIteration of a loop variable with what the body makes of it
 *   4. anything else where it takes the least time, as estimated: its own (as a run has measured it, else by its
 *      shapes: cost.c), and that of what would cross to it and from it: beside one of these, or where it computes
 *      faster (by the virtual clock a small plan is searched, too: place_search.c)
 *   5. what none of this decides, to the session's first device, or where DFLOW_DEFAULT_DEVICE says
 *
 * A constant that was not placed, and what is folded into one (fold.c), is wherever it is read. What is fed comes from
 * the host, and fetches go there.
 */
#include "plan/place.h"
#include <stdio.h>

enum { NOWHERE = -1 };

int32_t dfi_plan_device_of(const maker *m, df_output from, dfi_comes how) {
  if (from.index >= 0 && from.index < from.node->nout && is_handle(from)) return DFI_ANY_DEVICE;
  const mark *k = &m->mark[from.node->id];
  switch (how) {
  case DFI_COMES_FED: return 0;
  case DFI_COMES_GIVEN: return k->asked ? k->device : DFI_ANY_DEVICE;
  case DFI_COMES_VARIABLE: case DFI_COMES_CONSTANT: return DFI_ANY_DEVICE;
  case DFI_COMES_TOKEN:
    if (!k->given_token) break;
    if (feed_of(m, from) >= 0) return 0;
    return k->asked ? k->device : DFI_ANY_DEVICE;
  case DFI_COMES_LOOP_CONSTANT: break;
  }
  return k->device;
}

static void settle(maker *m, const df_node *n, int32_t device, dfi_why why, int32_t because) {
  mark *k = &m->mark[n->id];
  k->device = (int16_t)device;
  k->why = (uint8_t)why;
  k->why_node = because;
}

const dfi_gpu_kernel *dfi_plan_gpu_kernel(const df_node *n) {
  const dfi_gpu_kernel *g = dfi_gpu_kernel_of(op_of(n)->type);
  if (!g) return NULL;
  uint8_t in[64], out[16];
  if (n->nin > 64 || n->nout > 16) return NULL;
  for (int32_t i = 0; i < n->nin; i++) in[i] = dfi_dtype(n->in[i]);
  for (int32_t i = 0; i < n->nout; i++) out[i] = n->out[i].dtype;
  return !g->takes || g->takes(n->nin, in, n->nout, out) ? g : NULL;
}

int32_t dfi_plan_wanted(const maker *m, const df_node *reader, df_output o) {
  if (!reader) return 0;
  const int32_t d = m->mark[reader->id].device;
  if (d < 0 || !m->devices->at[d]->remote) return d;
  if (flow_of(reader) == DF_SWITCH && dfi_same(reader->in[1], o) && !dfi_same(reader->in[0],
      o)) return d | DFI_READ_ON_HOST;
  if (flow_of(reader) != DF_PLAIN) return d;
  const dfi_gpu_kernel *g = dfi_plan_gpu_kernel(reader);
  const uint32_t host = g ? g->host_in : op_of(reader)->host_in;
  const bool all = !g && op_of(reader)->remote == DFI_REMOTE_NO; /* the CPU's kernel, see engine/owners/remote_call.c */
  bool some = false;
  for (int32_t i = 0; i < reader->nin; i++) {
    if (!dfi_same(reader->in[i], o)) continue;
    some = true;
    if (!all && !dfi_on_host(host, i, reader->nin)) return d;
  }
  return some ? d | DFI_READ_ON_HOST : d;
}

static bool only_numbers(const df_node *n) {
  for (int32_t i = 0; i < n->nin; i++) if (dfi_shape_at(n->in[i])->rank != 0) return false;
  return n->nin > 0 && n->nout == 1;
}

/* Sums and zeros of lists, say: the handles are the host's, wherever the elements are. */
static bool only_variants(const df_node *n) {
  for (int32_t i = 0; i < n->nin; i++) if (dfi_dtype(n->in[i]) != DF_VARIANT) return false;
  for (int32_t i = 0; i < n->nout; i++) if (n->out[i].dtype != DF_VARIANT) return false;
  return n->nin > 0;
}

/* A GPU runs what it has kernels for, what needs none, and numbers, which lie in slots of the host's. */
static bool gpu_runs(const df_node *n) {
  const df_op *op = op_of(n);
  if (op->remote != DFI_REMOTE_NO || dfi_plan_gpu_kernel(n) || only_variants(n)) return true;
  uint8_t in[4] = { 0 };
  if (!op->scalar || n->nin > 3 || !only_numbers(n)) return false;
  for (int32_t i = 0; i < n->nin; i++) in[i] = dfi_dtype(n->in[i]);
  return op->scalar(in, n->out[0].dtype) != NULL;
}

bool dfi_plan_has_kernel(const dfi_device *d, const df_node *n) {
  if (d->kind == DFI_DEVICE_CPU || flow_of(n) != DF_PLAIN) return true;
  for (int32_t i = 0; i < n->nin; i++) if (dfi_dtype(n->in[i]) == DF_STRING) return false;
  for (int32_t i = 0; i < n->nout; i++) if (n->out[i].dtype == DF_STRING) return false;
  return !d->remote || gpu_runs(n);
}

/* ---- what was asked for ------------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t h) {
  h ^= h >> 33; h *= 0xff51afd7ed558ccdu; h ^= h >> 33; h *= 0xc4ceb9fe1a85ec53u;
  return h ^ h >> 33;
}

static int32_t no_kernel(maker *m, const df_node *n, const dfi_device *d) {
  return dfi_fail(m->err, DF_INVALID_ARGUMENT, n->where,
                  "op %s (`%s`) has no kernel for %s, where it was asked to run%s", op_of(n)->type,
                  dfi_node_name((df_node *)n), d->name,
                  m->devices->soft ? "" : "; soft_placement = true runs it elsewhere");
}

/* By what DFLOW_STRESS=devices draws a node's device: its number; the name under which a resource is shared. */
static uint64_t drawn_by(const df_node *n) {
  const int32_t shared = dfi_op_attr_index(dfi_op_info_at(n->op), "shared_name");
  const char *name = shared >= 0 && n->attrs[shared].i ? n->attrs[shared].s : "";
  uint64_t h = *name ? 0x5a : (uint64_t)n->id;
  while (*name) h = mix(h + (unsigned char)*name++);
  return h;
}

/* A device of DFLOW_STRESS=devices: any of those that the session lists, else the host or one of four simulated ones;
   the same for n as for the node that it is to be with. */
static int32_t scattered(dfi_devices *d, const df_node *n, const df_node *with, df_error *err) {
  const uint64_t h = mix(d->scatter + drawn_by(with) * 0x9e3779b97f4a7c15u);
  char name[16] = "";
  snprintf(name, sizeof name, "sim:%d", (int)(h % 5) - 1);
  const int32_t at = d->listed ? (int32_t)(h % (uint64_t)d->n) : h % 5 ? dfi_device_of(d, name, NULL, err) : 0;
  if (at < 0) return -2;
  return dfi_plan_has_kernel(d->at[at], n) ? at : 0;
}

/* The node that n is to be with, whose own place is not another one's; NULL: there is none. */
static const df_node *beside(df_graph *g, const df_node *n) {
  for (int32_t patience = 100; n->device[0] == '@' && patience; patience--) {
    const int32_t other = df_node_by_name(g, n->device + 1);
    if (other < 0 || other >= g->n) return NULL;
    n = g->node[other];
  }
  return n->device[0] == '@' ? NULL : n;
}

int32_t dfi_plan_home_rank(df_graph *g, dfi_devices *d, const df_node *variable) {
  df_error unknown;
  const df_node *n = beside(g, variable);
  int32_t at = d->fallback;
  if (n && n->device[0]) at = dfi_device_of(d, n->device, NULL, &unknown);
  else if (d->scatter) at = scattered(d, variable, n ? n : variable, &unknown);
  return at < 0 ? 0 : d->at[at]->rank;
}

/* The device that n was asked to run on: NOWHERE for none; -2: err is filled. */
static int32_t asked_device(maker *m, df_node *n, dfi_why *why) {
  dfi_devices *d = m->devices;
  *why = DFI_WHY_ASKED;
  const char *spec = n->device ? n->device : "";
  const df_node *other = NULL;
  if (spec[0] == '@') {                                /* where another node is */
    other = beside(m->graph, n);
    *why = DFI_WHY_COLOCATED;
    spec = other ? other->device : "";
  }
  int32_t at = -2;
  df_error unknown = { 0 };
  if (spec[0]) {
    at = dfi_device_of(d, spec, n->where, &unknown);
    if (at == -1) {
      if (!d->soft || unknown.code == DF_UNAVAILABLE) {  /* a rank that is lost may have the device */
        if (m->err) *m->err = unknown;
        return -2;
      }
      *why = DFI_WHY_SOFT;
      return d->fallback;
    }
  }
  if (at < 0 && d->scatter && flow_of(n) != DF_CONSTANT) {
    *why = DFI_WHY_SCATTERED;
    return scattered(d, n, other ? other : n, m->err);
  }
  if (at < 0) return NOWHERE;
  if (d->at[at]->rank && (dfi_has_trait(n, DFO_HOST) || dfi_has_trait(n, DFO_TAPE))) {   /* the program is rank 0's */
    *why = DFI_WHY_HOST;
    return 0;
  }
  if (dfi_plan_has_kernel(d->at[at], n)) return at;
  if (op_of(n)->hosted) { *why = DFI_WHY_HOST; return 0; }
  if (!d->soft) return no_kernel(m, n, d->at[at]), -2;
  *why = DFI_WHY_SOFT;
  return 0;
}

/* ---- resources --------------------------------------------------------------------------------------------- */

/* The input that carries the resource that n is about; -1: none. A Merge's is its first. That of a call is no variable
   where there is another resource, since a variable can be used from elsewhere. */
static int32_t handle_input(const maker *m, const df_node *n) {
  int32_t variable = -1;
  for (int32_t i = 0; i < n->nin; i++) {
    if (!is_handle(n->in[i]) || feed_of(m, n->in[i]) >= 0) continue;
    if (flow_of(n) != DF_CALL || !dfi_is_variable(dfi_plan_origin(m, n->in[i]).node)) return i;
    if (variable < 0 && !(m->calls_are_first && m->devices->nranks > 1)) variable = i;
  }
  return variable;
}

/* The node that made the resource that n is about; n itself when it makes one or has none. owner[]: by id, filled as
   it is found. */
static int32_t owner_of(const maker *m, df_node *n, int32_t *owner) {
  df_node *at = n;
  int32_t patience = 100000, i;
  while (owner[at->id] < 0 && (i = handle_input(m, at)) >= 0 && --patience) at = at->in[i].node;
  const int32_t found = owner[at->id] < 0 ? at->id : owner[at->id];
  for (df_node *k = n; k->id != at->id && owner[k->id] < 0 && (i = handle_input(m, k)) >= 0; k = k->in[i].node)
    owner[k->id] = found;
  owner[at->id] = found;
  return found;
}

/* Is it on the default device, whatever was asked for? */
static bool of_function(const df_node *n) {
  const df_flow f = flow_of(n);
  return f == DF_CALL || f == DF_FUNCTION_BEGIN || f == DF_FUNCTION_ARG || f == DF_FUNCTION_RETURN;
}

/* The device that was asked for whatever makes o; control flow hands on what comes to it. NOWHERE: none. */
static int32_t asked_origin(const maker *m, const int32_t *asked, df_output o) {
  for (int32_t patience = 100; patience; patience--) {
    const df_output from = dfi_plan_origin(m, o);
    const df_flow f = flow_of(from.node);
    if (f == DF_PLAIN || of_function(from.node) || feed_of(m, from) >= 0 || !from.node->nin)
      return f == DF_PLAIN ? asked[from.node->id] : NOWHERE;
    o = from.node->in[f == DF_MERGE && flow_of(from.node->in[from.node->nin - 1].node) == DF_NEXT_ITERATION
                          ? from.node->nin - 1
                          : 0];
  }
  return NOWHERE;
}

/* A resource on a GPU that something is to be done with which the GPU has no kernel for lives on the host. */
static int32_t keep_from_gpus(maker *m, const int32_t *asked, const int32_t *owner) {
  for (int32_t i = 0; i < m->nneeded; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    if (owner[n->id] < 0 || flow_of(n) != DF_PLAIN) continue;
    df_node *of = m->graph->node[owner[n->id]];
    const int32_t at = m->mark[of->id].device == NOWHERE ? m->devices->fallback : m->mark[of->id].device;
    const dfi_device *d = m->devices->at[at];
    if (!d->remote || dfi_plan_has_kernel(d, n)) continue;
    if (asked[of->id] == at && !m->devices->soft && !op_of(n)->hosted) return no_kernel(m, n, d);
    settle(m, of, 0, DFI_WHY_HOST, -1);
  }
  return DF_OK;
}


static int32_t root_of(const int32_t *root, int32_t id) {
  while (root[id] != id) id = root[id];
  return id;
}

/* Input j of n is a handle. Is it of a resource that lasts no longer than the run, and goes anywhere? */
static bool may_join(maker *m, const df_node *n, int32_t j, int32_t *owner) {
  if (!is_handle(n->in[j]) || feed_of(m, n->in[j]) >= 0) return false;
  const df_node *of = dfi_plan_node(m, owner_of(m, n->in[j].node, owner));
  return !dfi_is_variable(of) && !op_of(of)->hosted && flow_of(of) != DF_CALL;
}

/* Over ranks calls are rank 0's, and so are their tapes. */
static bool is_rank_0s(const maker *m, const df_node *n) { return m->devices->nranks > 1 && flow_of(n) == DF_CALL; }

/* Resources that a Merge may hand on one for the other are together, and so are an array and those whose handles are
   its elements: handles do not go from owner to owner. */
static void join_resources(maker *m, int32_t *owner) {
  const int32_t ids = dfi_plan_ids(m);
  int32_t *root = dfi_xmalloc(sizeof *root * ((size_t)ids + 1));
  for (int32_t i = 0; i < ids; i++) root[i] = i;
  for (int32_t i = 0; i < m->nneeded; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    const bool joins = flow_of(n) == DF_MERGE || dfi_has_trait(n, DFO_ARRAY_WRITES);
    for (int32_t j = 1; j < n->nin && joins && owner[n->id] >= 0 && may_join(m, n, 0, owner); j++) {
      if (!may_join(m, n, j, owner)) continue;
      const int32_t a = root_of(root, owner_of(m, n->in[0].node, owner));
      const int32_t b = root_of(root, owner_of(m, n->in[j].node, owner));
      if (m->mark[a].device != NOWHERE) root[b] = a;
      else root[a] = b;
    }
  }
  for (int32_t i = 0; i < ids; i++) {
    if (owner[i] < 0) continue;
    const int32_t of = root_of(root, owner[i]);
    if (of != owner[i]) { m->mark[owner[i]].device = NOWHERE; owner[i] = of; }
  }
  dfi_free(root);
  for (int32_t i = 0; i < m->nneeded; i++) {           /* an array of calls' tapes is where the calls are */
    df_node *n = dfi_plan_node(m, m->needed[i]);
    if (owner[n->id] < 0 || !dfi_has_trait(n, DFO_ARRAY_WRITES) || !is_handle(n->in[2])) continue;
    if (is_rank_0s(m, dfi_plan_node(m, owner_of(m, n->in[2].node, owner))))
      settle(m, dfi_plan_node(m, owner[n->id]), m->devices->fallback, DFI_WHY_FUNCTION, -1);
  }
}

/* May the resource that a node makes be where one of its users is? One that outlives runs stays on its rank. */
static bool goes_to_user(const maker *m, const df_node *of, int32_t at) {
  return !m->devices->at[at]->rank || !(dfi_is_variable(of) || op_of(of)->hosted);
}

static int32_t place_resources(maker *m, const int32_t *asked, const dfi_why *why, int32_t *owner) {
  for (int32_t i = 0; i < dfi_plan_ids(m); i++) owner[i] = -1;
  for (int32_t i = 0; i < m->nneeded; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    const bool makes = n->nout && is_handle((df_output){ n, 0 });
    if (handle_input(m, n) < 0 && !makes) continue;
    const int32_t of = owner_of(m, n, owner);
    mark *own = &m->mark[of];
    if (own->device != NOWHERE) continue;
    if (is_rank_0s(m, dfi_plan_node(m, of))) settle(m, m->graph->node[of], m->devices->fallback, DFI_WHY_FUNCTION, -1);
    else if (asked[of] >= 0) settle(m, m->graph->node[of], asked[of], why[of], -1);
    else if (asked[n->id] >= 0 && flow_of(n) == DF_PLAIN && goes_to_user(m, m->graph->node[of], asked[n->id]))
      settle(m, m->graph->node[of], asked[n->id], DFI_WHY_RESOURCE, n->id);
    /* it lives where what it holds is made */
    else if (dfi_has_trait(n, DFO_ARRAY_WRITES)) {
      const int32_t at = asked_origin(m, asked, n->in[2]);
      if (at >= 0) settle(m, m->graph->node[of], at, DFI_WHY_RESOURCE, n->in[2].node->id);
    }
  }
  if (m->devices->owners > 1 || m->devices->nranks > 1) join_resources(m, owner);
  const int32_t status = keep_from_gpus(m, asked, owner);
  for (int32_t i = 0; i < m->nneeded && !status; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    if (owner[n->id] < 0) continue;
    const mark *own = &m->mark[owner[n->id]];
    if (own->device == NOWHERE) settle(m, m->graph->node[owner[n->id]], m->devices->fallback, DFI_WHY_DEFAULT, -1);
    if (n->id != owner[n->id]) settle(m, n, own->device, DFI_WHY_RESOURCE, owner[n->id]);
  }
  return status;
}

/* ---- control flow goes with its values ----------------------------------------------------------------------- */

static int32_t device_at(const maker *m, df_output o, int32_t *because) {
  const df_output from = dfi_plan_origin(m, o);
  *because = from.node->id;
  if (feed_of(m, from) >= 0) return 0;
  if (flow_of(from.node) == DF_CONSTANT && !m->mark[from.node->id].asked) return NOWHERE;
  return m->mark[from.node->id].device;
}

static bool follow(maker *m, const df_node *n, df_output o) {
  int32_t because, d = device_at(m, o, &because);
  if (d == NOWHERE) return false;
  settle(m, n, d, DFI_WHY_FLOW, because);
  return true;
}

bool dfi_plan_is_loop_merge(const df_node *n) {
  return flow_of(n) == DF_MERGE && n->nin == 2 && flow_of(n->in[1].node) == DF_NEXT_ITERATION;
}

/* A loop variable lives where the body makes it; one that the body leaves as it is, where it comes from. */
static bool place_variable(maker *m, df_node *merge) {
  df_node *next = merge->in[1].node, *enter = dfi_plan_origin(m, merge->in[0]).node;
  if (feed_of(m, merge->in[1]) >= 0 || flow_of(next) != DF_NEXT_ITERATION) return false;
  df_output made = dfi_plan_origin(m, next->in[0]);
  if (flow_of(made.node) == DF_SWITCH && dfi_plan_origin(m, made.node->in[0]).node == merge)
    made = flow_of(enter) == DF_ENTER ? enter->in[0] : made;
  int32_t because, d = device_at(m, made, &because);
  if (d == NOWHERE) return false;
  settle(m, merge, d, DFI_WHY_FLOW, because);
  settle(m, next, d, DFI_WHY_FLOW, because);
  if (flow_of(enter) == DF_ENTER && m->mark[enter->id].needed) settle(m, enter, d, DFI_WHY_FLOW, because);
  return true;
}

typedef struct users { int32_t *first, *at; uint8_t *fetched; } users;

static users find_users(maker *m) {
  const int32_t ids = dfi_plan_ids(m);
  users u = { dfi_xcalloc((size_t)ids + 2, sizeof *u.first), NULL, dfi_xcalloc((size_t)ids + 1, 1) };
  for (int32_t pass = 0; pass < 2; pass++) {
    int32_t *fill = u.at ? dfi_xmalloc(sizeof *fill * ((size_t)ids + 1)) : NULL;
    if (fill) memcpy(fill, u.first, sizeof *fill * (size_t)ids);
    for (int32_t i = 0; i < m->nneeded; i++) {
      df_node *n = dfi_plan_node(m, m->needed[i]);
      if (dfi_plan_passes_on(n) && !m->mark[n->id].stays) continue;
      for (int32_t j = 0; j < n->nin; j++) {
        const df_output from = dfi_plan_origin(m, n->in[j]);
        if (fill) u.at[fill[from.node->id]++] = n->id;
        else u.first[from.node->id + 1]++;
      }
    }
    if (!fill) {
      for (int32_t i = 0; i < ids; i++) u.first[i + 1] += u.first[i];
      u.at = dfi_xmalloc(sizeof *u.at * (size_t)(u.first[ids] + 1));
    }
    dfi_free(fill);
  }
  for (int32_t i = 0; i < m->plan->nfetch; i++) {
    const int32_t *pair = m->plan->signature + 2 * i;
    if (pair[1] >= 0) u.fetched[dfi_plan_origin(m, (df_output){ m->graph->node[pair[0]], pair[1] }).node->id] = 1;
  }
  return u;
}

/* Where one that reads n is. */
static bool place_beside_reader(maker *m, const users *u, const df_node *n) {
  for (int32_t i = u->first[n->id]; i < u->first[n->id + 1]; i++)
    if (m->mark[u->at[i]].device != NOWHERE) {
      settle(m, n, m->mark[u->at[i]].device, DFI_WHY_FLOW, u->at[i]);
      return true;
    }
  return false;
}

bool dfi_plan_goes_with_reader(const maker *m, const df_node *n) {
  if (flow_of(n) != DF_SWITCH || m->mark[n->id].scope <= 0) return false;
  const df_output from = dfi_plan_origin(m, n->in[0]);
  return dfi_plan_is_loop_constant(from.node) || feed_of(m, from) >= 0 || flow_of(from.node) == DF_CONSTANT;
}

/* True: n is settled now. */
static bool place_flow(maker *m, const users *u, df_node *n, bool last) {
  switch (flow_of(n)) {
  case DF_SWITCH:
    if (!dfi_plan_goes_with_reader(m, n)) return follow(m, n, n->in[0]);
    return place_beside_reader(m, u, n) || (last && follow(m, n, n->in[0]));
  case DF_EXIT: return follow(m, n, n->in[0]);
  case DF_ENTER: return dfi_plan_is_loop_constant(n) ? follow(m, n, n->in[0]) : false;
  case DF_MERGE:
    if (dfi_plan_is_loop_merge(n)) return place_variable(m, n);
    for (int32_t i = 0; i < n->nin; i++) if (follow(m, n, n->in[i])) return true;
    return false;
  default: return false;
  }
}

static bool is_flow(const df_node *n) {
  const df_flow f = flow_of(n);
  return f == DF_SWITCH || f == DF_EXIT || f == DF_ENTER || f == DF_MERGE || f == DF_NEXT_ITERATION;
}

/* ---- the rest: where it takes the least time --------------------------------------------------------------------- */

double dfi_plan_output_bytes(df_output o) {
  const dfi_shape *s = dfi_shape_at(o);
  double n = 1;
  for (int32_t d = 0; d < s->rank; d++) n *= s->dims[d] < 0 ? 32 : (double)s->dims[d];
  return n * dfi_dtype_size[dfi_dtype(o)];
}

/* A tensor of o's dtype and shape, 32 where a dimension is not known, without elements: for shape functions. */
static void shaped(df_tensor *t, df_value *v, df_output o) {
  const dfi_shape *s = dfi_shape_at(o);
  *t = (df_tensor){ .refs = 1, .dtype = dfi_dtype(o), .rank = s->rank < 0 ? 0 : s->rank, .size = 1 };
  for (int32_t d = 0; d < t->rank; d++) t->size *= t->dims[d] = s->dims[d] < 0 ? 32 : s->dims[d];
  *v = (df_value){ .kind = DF_TENSOR, .dtype = t->dtype, .as.tensor = t };
}

double dfi_plan_seconds(const df_node *n, const dfi_device *d) {
  enum { MOST = 8 };
  df_tensor in[MOST], out[MOST];
  df_value value[MOST], made[MOST];
  const df_tensor *at[MOST];
  const int32_t nin = n->nin < MOST ? n->nin : MOST, nout = n->nout < MOST ? n->nout : MOST;
  for (int32_t i = 0; i < nin; i++) { shaped(&in[i], &value[i], n->in[i]); at[i] = &in[i]; }
  for (int32_t i = 0; i < nout; i++) shaped(&out[i], &made[i], (df_output){ (df_node *)(uintptr_t)n, i });
  const df_kernel k = { .nin = nin, .nout = nout, .in = at, .out = made };
  double flops, bytes;
  dfi_kernel_work(op_of(n)->work, &k, &flops, &bytes);
  return dfi_device_seconds(d, flops, bytes);
}

dfi_why dfi_plan_why_cheapest(const maker *m, const df_node *n) {
  const dfi_costs *c = &m->devices->costs;
  const bool measured = m->devices->nranks == 1 && n->id < c->n && c->seconds[n->id] > 0;
  return measured ? DFI_WHY_MEASURED : DFI_WHY_BYTES;
}

double dfi_plan_own_seconds(const maker *m, const df_node *n, const dfi_device *d) {
  if (d->remote || dfi_plan_why_cheapest(m, n) != DFI_WHY_MEASURED) return dfi_plan_seconds(n, d);
  return m->devices->costs.seconds[n->id] / (d->speed > 0 ? d->speed : 1);
}

static double crossing_seconds(const maker *m, int32_t from, int32_t to, double bytes) {
  double busy;
  return from == to
             ? 0
             : dfi_link_seconds(m->devices->at[from], m->devices->at[to], (int64_t)bytes, &busy) + 1e-6 + bytes / 10e9;
}

/* What it costs to run n on device d, and to bring it what it takes and give others what it makes, as far as these are
   placed. */
static double seconds_on(const maker *m, const users *u, const df_node *n, int32_t d) {
  double sum = 0, because = 0;
  for (int32_t i = 0; i < n->nin; i++) {
    int32_t unused, at = device_at(m, n->in[i], &unused);
    if (at != NOWHERE && !is_handle(n->in[i])) sum += crossing_seconds(m, at, d, dfi_plan_output_bytes(n->in[i]));
  }
  for (int32_t i = 0; i < n->nout; i++) because += dfi_plan_output_bytes((df_output){ (df_node *)n, i });
  uint64_t seen = 0;                                   /* it crosses once for each destination */
  for (int32_t i = u->first[n->id]; i < u->first[n->id + 1]; i++) {
    const int32_t at = m->mark[u->at[i]].device;
    if (at == NOWHERE || (at < 64 && seen >> at & 1)) continue;
    if (at < 64) seen |= 1ull << at;
    sum += crossing_seconds(m, d, at, because);
  }
  if (u->fetched[n->id] && !(seen & 1)) sum += crossing_seconds(m, d, 0, because);
  return sum + dfi_plan_own_seconds(m, n, m->devices->at[d]);
}

enum { CANDIDATES = 16 };

static bool is_candidate(const int32_t *candidate, int32_t nc, int32_t d) {
  for (int32_t c = 0; c < nc; c++) if (candidate[c] == d) return true;
  return false;
}

/* By the clock that the session has: simulated devices are as fast as the host is, in real time. */
static bool is_faster(const maker *m, int32_t d, int32_t than) {
  const dfi_device *a = m->devices->at[d], *b = m->devices->at[than];
  return (m->devices->virtual_clock || a->kind != DFI_DEVICE_SIM) && a->speed > b->speed;
}

/* What it takes besides to run n far from all that it has to do with: what is not placed yet is taken to be `near`. */
static double way_back(const maker *m, const df_node *n, int32_t d, int32_t near) {
  double sum = 0, made = 0;
  int32_t unused;
  for (int32_t i = 0; i < n->nin; i++) {
    const bool given = flow_of(dfi_plan_origin(m, n->in[i]).node) == DF_CONSTANT;
    if (!given && device_at(m, n->in[i], &unused) == NOWHERE)
      sum += crossing_seconds(m, near, d, dfi_plan_output_bytes(n->in[i]));
  }
  for (int32_t i = 0; i < n->nout; i++) made += dfi_plan_output_bytes((df_output){ (df_node *)(uintptr_t)n, i });
  return sum + crossing_seconds(m, d, near, made);
}

/* Does a loop go on by what n says? It is computed where the loop's variables are that it reads: to send them to where
   it is read, and it back, would take each iteration the time of two messages. */
static bool decides_loop(const maker *m, const users *u, const df_node *n) {
  for (int32_t i = u->first[n->id]; i < u->first[n->id + 1]; i++) {
    const df_node *user = dfi_plan_node(m, u->at[i]);
    if (flow_of(user) == DF_LOOP_COND) return true;
    if (flow_of(user) == DF_SWITCH && flow_of(user->in[1].node) == DF_LOOP_COND &&
        dfi_plan_origin(m, user->in[1]).node == n)
      return true;
  }
  return false;
}

static bool place_cheapest(maker *m, const users *u, df_node *n) {
  int32_t candidate[CANDIDATES], nc = 0, because[CANDIDATES], unused;
  candidate[nc] = m->devices->fallback; because[nc++] = -1;
  bool any = false;
  const bool decides = decides_loop(m, u, n);
  const int32_t nusers = decides ? 0 : u->first[n->id + 1] - u->first[n->id];
  for (int32_t i = 0; i < n->nin + nusers; i++) {
    int32_t d, of;
    if (i < n->nin) d = is_handle(n->in[i]) ? NOWHERE : device_at(m, n->in[i], &unused), of = n->in[i].node->id;
    else of = u->at[u->first[n->id] + i - n->nin], d = m->mark[of].device;
    if (d == NOWHERE) continue;
    any = true;
    if (nc < CANDIDATES && !is_candidate(candidate, nc, d) && dfi_plan_has_kernel(m->devices->at[d], n)) {
      candidate[nc] = d;
      because[nc++] = of;
    }
  }
  for (int32_t d = 0; d < m->devices->n && m->devices->listed && !decides && nc < CANDIDATES; d++)
    if (is_faster(m, d, candidate[0]) && !is_candidate(candidate, nc, d) && dfi_plan_has_kernel(m->devices->at[d], n)) {
      candidate[nc] = d;
      because[nc++] = -1;
    }
  if (!any) return false;
  if (!dfi_plan_has_kernel(m->devices->at[candidate[0]], n)) { settle(m, n, 0, DFI_WHY_HOST, -1); return true; }
  int32_t best = 0;
  double least = seconds_on(m, u, n, candidate[0]);
  for (int32_t c = 1; c < nc; c++) {
    const double far = because[c] < 0 ? way_back(m, n, candidate[c], candidate[0]) : 0;
    const double s = seconds_on(m, u, n, candidate[c]) + far;
    if (s < least * 0.999) { least = s; best = c; }
  }
  if (nc > 1 && m->devices->nranks == 1) m->plan->chosen = m->devices->costs.runs + 1;
  if (nc == 1) settle(m, n, candidate[0], DFI_WHY_DEFAULT, -1);
  else settle(m, n, candidate[best], dfi_plan_why_cheapest(m, n), because[best]);
  return true;
}

static bool takes_something_placed(const maker *m, const df_node *n) {
  int32_t unused;
  for (int32_t i = 0; i < n->nin; i++)
    if (!is_handle(n->in[i]) && device_at(m, n->in[i], &unused) != NOWHERE) return true;
  return false;
}

/* A loop variable that nothing around it says anything of, such as a counter. */
static void settle_variable(maker *m, df_node *merge) {
  df_node *made = dfi_plan_origin(m, merge->in[1].node->in[0]).node;
  settle(m, merge, m->devices->fallback, DFI_WHY_DEFAULT, -1);
  settle(m, merge->in[1].node, m->devices->fallback, DFI_WHY_DEFAULT, -1);
  if (m->mark[made->id].device == NOWHERE && flow_of(made) == DF_PLAIN)
    settle(m, made, m->devices->fallback, DFI_WHY_DEFAULT, -1);
}

/* n is to be with another node, which may be placed already: then n goes there. False: it is free to go
   anywhere. */
static bool place_beside(maker *m, const df_node *n, bool last) {
  const df_node *other = n->device[0] == '@' ? beside(m->graph, n) : NULL;
  if (!other || !m->mark[other->id].needed) return false;
  const int32_t d = m->mark[other->id].device;
  if (d == NOWHERE) return !last;
  if (!dfi_plan_has_kernel(m->devices->at[d], n)) return false;
  settle(m, n, d, DFI_WHY_COLOCATED, other->id);
  return true;
}

static void place_flows(maker *m, const users *u) {
  for (int32_t pass = 0; pass < 8; pass++)
    for (int32_t i = 0; i < m->nneeded; i++) {
      df_node *n = dfi_plan_node(m, m->needed[i]);
      if (m->mark[n->id].device == NOWHERE && is_flow(n)) place_flow(m, u, n, pass > 0);
    }
}

static void free_users(users u) { dfi_free(u.first); dfi_free(u.at); dfi_free(u.fetched); }

void dfi_plan_place_flow_again(maker *m) {
  for (int32_t i = 0; i < m->nneeded; i++) {
    const df_node *n = dfi_plan_node(m, m->needed[i]);
    mark *k = &m->mark[n->id];
    if (is_flow(n) && (k->why == DFI_WHY_FLOW || k->why == DFI_WHY_DEFAULT)) k->device = NOWHERE;
  }
  const users u = find_users(m);
  place_flows(m, &u);
  free_users(u);
}

static void place_rest(maker *m) {
  const users u = find_users(m);
  for (int32_t pass = 0; pass < 4; pass++)
    for (int32_t i = 0; i < m->nneeded; i++) {
      df_node *n = dfi_plan_node(m, m->needed[i]);
      if (m->mark[n->id].device != NOWHERE) continue;
      if (is_flow(n)) {
        if (!place_flow(m, &u, n, pass > 1) && pass == 1 && dfi_plan_is_loop_merge(n)) settle_variable(m, n);
      } else if (place_beside(m, n, pass == 3)) continue;
      else if (!m->devices->fallback_asked && (pass > 0 || takes_something_placed(m, n))) place_cheapest(m, &u, n);
    }
  for (int32_t i = 0; i < m->nneeded; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    if (m->mark[n->id].device != NOWHERE || is_flow(n) || place_beside(m, n, true)) continue;
    const bool can = dfi_plan_has_kernel(m->devices->at[m->devices->fallback], n);
    settle(m, n, can ? m->devices->fallback : 0, can ? DFI_WHY_DEFAULT : DFI_WHY_HOST, -1);
  }
  place_flows(m, &u);
  free_users(u);
}

/* The Enter, Merge and NextIteration of a loop variable that is delivered for must be together, whatever was found for
 * each; what was not reached goes to the first device. */
static void join_variables(maker *m) {
  for (int32_t i = 0; i < m->nneeded; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    if (m->mark[n->id].device == NOWHERE) settle(m, n, m->devices->fallback, DFI_WHY_DEFAULT, -1);
  }
  for (int32_t i = 0; i < m->nneeded; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    if (!dfi_plan_is_loop_merge(n)) continue;
    const mark *k = &m->mark[n->id];
    for (int32_t j = 0; j < 2; j++) {
      df_node *by = dfi_plan_origin(m, n->in[j]).node;
      if (flow_of(by) == DF_ENTER || flow_of(by) == DF_NEXT_ITERATION)
        settle(m, by, k->device, (dfi_why)k->why, k->why_node);
    }
  }
}

bool dfi_plan_has_places(const maker *m) {
  const dfi_devices *d = m->devices;
  if (!d) return false;
  if (d->scatter || d->fallback || d->n > 1) return true;
  for (int32_t i = 0; i < m->nneeded; i++) {
    const char *asked = dfi_plan_node(m, m->needed[i])->device;
    if (asked[0] && asked[0] != '@') return true;      /* with each other all are on the host */
  }
  return false;
}

int32_t dfi_plan_place_nodes(maker *m) {
  const size_t ids = (size_t)dfi_plan_ids(m);
  int32_t *asked = dfi_xmalloc(sizeof *asked * (ids + 1)), *owner = dfi_xmalloc(sizeof *owner * (ids + 1)),
          status = DF_OK;
  dfi_why *why = dfi_xmalloc(sizeof *why * (ids + 1));
  for (int32_t i = 0; i < (int32_t)ids; i++) { asked[i] = NOWHERE; m->mark[i].device = NOWHERE; }
  for (int32_t i = 0; i < m->nneeded && !status; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    asked[n->id] = asked_device(m, n, &why[n->id]);
    if (asked[n->id] == -2) status = m->err->code;
  }
  m->calls_are_first = dfi_plan_calls_are_first(m);
  if (!status) status = place_resources(m, asked, why, owner);
  for (int32_t i = 0; i < m->nneeded && !status; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    mark *k = &m->mark[n->id];
    if (k->device != NOWHERE) continue;
    if (of_function(n)) settle(m, n, m->devices->fallback, DFI_WHY_FUNCTION, -1);
    else if (flow_of(n) == DF_FEED) settle(m, n, 0, DFI_WHY_FED, -1);
    else if (asked[n->id] >= 0 && (!is_flow(n) || m->devices->scatter)) {
      k->asked = why[n->id] != DFI_WHY_SCATTERED || flow_of(n) != DF_CONSTANT;
      settle(m, n, asked[n->id], why[n->id], -1);
    } else if (flow_of(n) == DF_CONSTANT && n->ncontrol == 0) settle(m, n, m->devices->fallback, DFI_WHY_CONSTANT, -1);
  }
  if (!status) {
    place_rest(m);
    dfi_plan_search_places(m);
    join_variables(m);
    for (int32_t i = 0; i < m->nneeded; i++) {
      df_node *n = dfi_plan_node(m, m->needed[i]);
      mark *k = &m->mark[n->id];
      if (k->device) m->cut = true;
      if (!dfi_plan_passes_on(n) || !k->asked || k->why != DFI_WHY_ASKED) continue;
      int32_t because, at = device_at(m, n->in[0], &because);
      if (flow_of(n) == DF_LOOP_COND) continue;
      k->stays |= at != NOWHERE && at != k->device && !is_handle(n->in[0]);
    }
    for (int32_t i = 0; i < m->nneeded; i++) {           /* what has no token is where its value is */
      df_node *n = dfi_plan_node(m, m->needed[i]);
      if (dfi_plan_passes_on(n) && !m->mark[n->id].stays) follow(m, n, n->in[0]);
    }
  }
  dfi_free(asked); dfi_free(owner); dfi_free(why);
  return status;
}
