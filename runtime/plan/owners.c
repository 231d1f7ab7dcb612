/* owners.c: which owner turns which partition of a run, where a session has several.
 *
 * Each owner has devices of its own, and of every loop a frame of its own: its records are begun by its Enters and
 * NextIterations alone. So it must have a loop variable that says how far the loop is. Where an owner takes part in a
 * loop and has none, it gets one: the control loop of the paper's Figure 6, whose predicate is sent to it as to any
 * other Switch. What it hands on is the value of some loop variable as it entered.
 *
 * The owners share the plan: nodes, slots, edges. What is an owner's own is the scopes, with those roots, Enters and
 * Exits that lie on its devices. A Transfer from another owner is a root of its scope there, a Recv: so an iteration
 * is not over before all that is sent to it has come, and an owner is done when its top level is. No owner asks the
 * others whether they are.
 *
 * A graph function belongs to its caller, on whatever devices its body is: its frames are that owner's, and messages
 * within are its own. A variable of another rank that it uses stays there, and so does that of an op that has variables
 * of several ranks: engine/owners/far_kernel.c. A function of the program is called by the first owner, whose thread is
 * most often that function's: where one is placed, or a graph function is called that might call one, is among its
 * devices. So is where the tape of a call lies, which is handed about.
 *
 * A graph whose loops are none that while_loop builds is turned by one owner, and so is one where something with two
 * resources would have them of two owners.
 */
#include "plan/place.h"
#include "resource/tensor_array.h"
#include <stdio.h>

typedef struct loop {
  df_output   pred;          /* its LoopCond */
  df_node    *enter, *merge, *next, *choice;   /* of the variable that a control loop is made like; a Switch */
  int32_t     variables, merged;
  bool        raw;           /* it is none that while_loop builds */
} loop;

/* ---- devices of owners --------------------------------------------------------------------------------- */

/* Is it the copy of a scope, for a second time? */
static bool is_copy(const dfi_plan *p, int32_t scope) { return p->remat && scope >= p->remat->nscopes; }

/* Is the scope one of a loop of the top level, or of a loop in such a one? Those of functions belong to the caller. */
static bool of_loop(const dfi_plan *p, int32_t scope) {
  if (is_copy(p, scope)) scope -= p->remat->nscopes;
  while (scope > 0) scope = p->scope[scope].parent;
  return scope == 0;
}

/* Has some graph function to be called by the first owner? It calls a function of the program, or has a tape. */
bool dfi_plan_calls_are_first(const maker *m) {
  for (int32_t i = 0; i < m->nneeded; i++) {
    const df_node *n = dfi_plan_node(m, m->needed[i]);
    if (dfi_has_trait(n, DFO_TAPE) || (dfi_has_trait(n, DFO_HOST) && !of_loop(m->plan, m->mark[n->id].scope)))
      return true;
  }
  return false;
}

/* The device that a variable lives on, which is input j of n; -1: it is none. */
static int32_t home_of_input(const maker *m, const df_node *n, int32_t j) {
  const df_node *from = dfi_plan_origin(m, n->in[j]).node;
  return dfi_is_variable(from) ? m->mark[from->id].device : -1;
}

enum { UNUSED, USED, FIRST };

/* What each device is used for. */
static uint8_t *find_uses(const maker *m) {
  const int32_t devices = m->devices->n;
  uint8_t *use = dfi_xcalloc((size_t)devices + 1, sizeof *use);
  for (int32_t i = 0; i < m->nneeded; i++) {
    const df_node *node = dfi_plan_node(m, m->needed[i]);
    const mark *k = &m->mark[node->id];
    for (int32_t j = 0; j < node->nin; j++) {
      const int32_t home = home_of_input(m, node, j);        /* where others may have kernels run: far_kernel.c */
      if (home >= 0 && m->devices->at[home]->rank && !use[home]) use[home] = USED;
    }
    if (k->device < 0 || k->device >= devices) continue;
    const bool inside = !of_loop(m->plan, k->scope);        /* of a function: it is on whatever device it is */
    if (dfi_has_trait(node, DFO_TAPE)) use[k->device] = FIRST;
    else if (inside) continue;
    else if (dfi_has_trait(node, DFO_HOST) || (m->calls_are_first && flow_of(node) == DF_CALL)) use[k->device] = FIRST;
    else if (!use[k->device]) use[k->device] = USED;
  }
  use[0] = FIRST;
  return use;
}

/* The devices of a rank in order, dealt out in runs of the same length to owners from number `from` on: first, as if
   they were one, those that have to be the first owner's. Returns how many owners there is work for. */
static int32_t deal_rank(const maker *m, const uint8_t *use, int32_t rank, int32_t from, uint16_t *owner) {
  const dfi_devices *d = m->devices;
  int32_t n = 0, first = 0, at = 0;
  for (int32_t i = 0; i < d->n; i++) {
    if (d->at[i]->rank != rank) continue;
    n += use[i] == USED;
    first |= use[i] == FIRST;
    owner[i] = (uint16_t)from;
  }
  n += first;
  at = first;
  const int32_t owners = d->owners < n ? d->owners : n;
  for (int32_t i = 0; i < d->n; i++)
    if (d->at[i]->rank == rank && use[i] == USED) owner[i] = (uint16_t)(from + (int64_t)at++ * owners / n);
  return owners;
}

/* Every rank's devices. */
static void deal(const maker *m, dfi_parts *a) {
  uint8_t *use = find_uses(m);
  a->rank = dfi_xcalloc((size_t)m->devices->nranks * (size_t)m->devices->owners + 1, 1);
  for (int32_t r = 0; r < m->devices->nranks; r++) {
    const int32_t n = deal_rank(m, use, r, a->n, a->owner);
    memset(a->rank + a->n, r, (size_t)n);
    if (n) a->ranks |= (uint64_t)1 << r;
    a->n += n;
  }
  dfi_free(use);
}

/* Is something of it to be on another rank than the first, or a variable that it uses? What functions compute belongs
   to their callers, wherever it is. */
static bool is_over_ranks(const maker *m) {
  for (int32_t i = 0; i < m->nneeded && m->devices->nranks > 1 && !m->devices->simulated; i++) {
    const df_node *n = dfi_plan_node(m, m->needed[i]);
    const mark *k = &m->mark[n->id];
    if (k->device > 0 && k->scope >= 0 && of_loop(m->plan, k->scope) && m->devices->at[k->device]->rank) return true;
    for (int32_t j = 0; j < n->nin; j++) {
      const int32_t home = home_of_input(m, n, j);
      if (home >= 0 && m->devices->at[home]->rank) return true;
    }
  }
  return false;
}

const char dfi_in_time_order[] = "the virtual clock runs all tokens in the order of their times";
static const char alone[] = "all of it is on one device",
                  functions_only[] = "the first owner has all its devices, for what functions on them do";

/* Why one owner turns the run, whatever there is in it; NULL: nothing speaks for that. Where it is over ranks there
   have to be several. */
static const char *asks_for_one(const maker *m, bool over_ranks) {
  const dfi_devices *d = m->devices;
  if (!m->cut) return alone;
  if (d->virtual_clock && (over_ranks || !d->owner_windows)) return dfi_in_time_order;
  if (m->primitives) return "every node fires on its own, to be looked at";
  if (over_ranks) return NULL;
  for (int32_t i = 0; i < d->n; i++) if (d->at[i]->remote) return "a GPU is in the session";
  return NULL;
}

/* ---- control loops ------------------------------------------------------------------------------------------ */

static bool plain_number(df_output o) {
  const dfi_out *out = &o.node->out[o.index];
  return out->dtype != DF_RESOURCE && out->dtype != DF_VARIANT && out->dtype != DF_STRING && !out->ref;
}

static int64_t size_of(df_output o) {
  const dfi_shape *s = &o.node->out[o.index].shape;
  const int64_t n = dfi_shape_size(s);
  return n < 0 ? INT64_MAX : n;
}

/* What is known of the loops, by scope; owned. */
static loop *find_loops(const maker *m) {
  loop *l = dfi_xcalloc((size_t)m->plan->nscopes + 1, sizeof *l);
  for (int32_t i = 0; i < m->nneeded; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    const mark *k = &m->mark[n->id];
    loop *in = &l[k->scope < 0 ? 0 : k->scope];
    switch (flow_of(n)) {
    case DF_ENTER:
      if (dfi_plan_is_loop_constant(n)) break;
      in = &l[k->child_scope];
      in->variables++;
      if (plain_number(n->in[0]) && (!in->enter || size_of(n->in[0]) < size_of(in->enter->in[0]))) in->enter = n;
      break;
    case DF_MERGE:
      if (k->merged) { in->merged++; in->merge = n; }
      break;
    case DF_NEXT_ITERATION:
      in->next = n;
      in->raw |= n->context->kind == DFI_TOP;
      break;
    case DF_SWITCH:
      if (flow_of(n->in[1].node) != DF_LOOP_COND) break;
      in->choice = n;
      in->pred = n->in[1];
      break;
    default: break;
    }
  }
  return l;
}

static df_node *part(maker *m, const df_node *like, const char *name, int32_t nin, int32_t nout, int32_t scope,
                     int32_t device) {
  df_node *n = dfi_plan_extra(m, like, nin, 0, nout);
  for (int32_t i = 0; i < nout; i++) {
    n->out[i] = like->out[i];
    n->out[i].constant = NULL;
  }
  n->name = dfi_xstrdup(name);
  mark *k = &m->mark[n->id];
  k->scope = scope;
  k->device = (int16_t)device;
  return n;
}

/* A loop variable on a device, that goes round as it came. */
static void control_loop(maker *m, const loop *l, int32_t scope, int32_t device) {
  char name[300];
  snprintf(name, sizeof name, "%s on %s", m->plan->scope[scope].name, m->devices->at[device]->name);
  df_node *enter = part(m, l->enter, name, 1, 1, m->mark[l->enter->id].scope, device);
  enter->in[0] = l->enter->in[0];
  m->mark[enter->id].child_scope = (uint32_t)scope;
  df_node *merge = part(m, l->merge, name, 2, 2, scope, device);
  df_node *choice = part(m, l->choice, name, 2, 2, scope, device);
  df_node *next = part(m, l->next, name, 1, 1, scope, device);
  const dfi_out value = enter->out[0];
  merge->out[0] = choice->out[0] = choice->out[1] = next->out[0] = value;
  merge->in[0] = (df_output){ enter, 0 };
  merge->in[1] = (df_output){ next, 0 };
  choice->in[0] = (df_output){ merge, 0 };
  choice->in[1] = l->pred;
  next->in[0] = (df_output){ choice, 1 };
  m->mark[merge->id].merged = true;
}

/* A node of the scope on each owner's devices, or of a loop inside of it: part[scope * n + owner], -1: none. */
static int16_t *who_takes_part(const maker *m, const uint16_t *owner, int32_t n) {
  const dfi_plan *p = m->plan;
  const size_t cells = (size_t)p->nscopes * (size_t)n;
  int16_t *at = dfi_xmalloc(sizeof *at * (cells + 1));
  for (size_t i = 0; i < cells; i++) at[i] = -1;
  for (int32_t i = 0; i < m->nneeded; i++) {
    const df_node *node = dfi_plan_node(m, m->needed[i]);
    const mark *k = &m->mark[node->id];
    if (k->scope < 0 || k->device < 0) continue;
    const int32_t inner = flow_of(node) == DF_ENTER ? (int32_t)k->child_scope : k->scope;
    for (int32_t s = inner; s > 0; s = p->scope[s].parent) at[s * n + owner[k->device]] = k->device;
  }
  return at;
}

static void add_control_loops(maker *m, const loop *l, const uint16_t *owner, int32_t n) {
  const dfi_plan *p = m->plan;
  int16_t *at = who_takes_part(m, owner, n);
  bool *has = dfi_xcalloc((size_t)p->nscopes * (size_t)n + 1, sizeof *has);
  for (int32_t i = 0; i < m->nneeded; i++) {
    const df_node *node = dfi_plan_node(m, m->needed[i]);
    const mark *k = &m->mark[node->id];
    if (flow_of(node) == DF_ENTER && !dfi_plan_is_loop_constant(node) && k->device >= 0)
      has[(int32_t)k->child_scope * n + owner[k->device]] = true;
  }
  for (int32_t s = 1; s < p->nscopes; s++)
    for (int32_t o = 0; o < n; o++)
      if (of_loop(p, s) && at[s * n + o] >= 0 && !has[s * n + o]) control_loop(m, &l[s], s, at[s * n + o]);
  dfi_free(at); dfi_free(has);
}

static bool built_by_while_loop(const loop *l) {
  return l->enter && l->merge && l->next && l->choice && !l->raw && l->variables == l->merged;
}

/* It is on several ranks, each of which is an owner at least. */
static int32_t must_be_shared(maker *m, const df_node *at, const char *why) {
  return dfi_fail(m->err, DF_UNIMPLEMENTED, at ? at->where : NULL,
                  "the graph is placed on several ranks, which cannot run it together: %s%s%s%s", why,
                  at ? " (`" : "", at ? dfi_node_name((df_node *)(uintptr_t)at) : "", at ? "`)" : "");
}

int32_t dfi_plan_deal_owners(maker *m) {
  dfi_plan *p = m->plan;
  const bool over_ranks = m->devices && is_over_ranks(m);
  if (!m->devices || (m->devices->owners < 2 && !over_ranks)) return DF_OK;
  if ((p->one_owner = asks_for_one(m, over_ranks))) return over_ranks ? must_be_shared(m, NULL, p->one_owner) : DF_OK;
  dfi_parts *a = dfi_xcalloc(1, sizeof *a);
  a->owner = dfi_xcalloc((size_t)m->devices->n + 1, sizeof *a->owner);
  deal(m, a);
  loop *l = find_loops(m);
  if (a->n < 2) p->one_owner = functions_only;
  for (int32_t s = 1; s < p->nscopes && !p->one_owner; s++)
    if (of_loop(p, s) && !built_by_while_loop(&l[s])) p->one_owner = "it has a loop that while_loop has not built";
  p->parts = a;
  if (!p->one_owner) add_control_loops(m, l, a->owner, a->n);
  else dfi_plan_owners_free(p);
  dfi_free(l);
  return over_ranks && p->one_owner ? must_be_shared(m, NULL, p->one_owner) : DF_OK;
}

/* ---- pace ----------------------------------------------------------------------------------------------------- */

/* An owner that only sends to another one in a loop would run ahead as far as its own data lets it, and all it sends
 * would lie there. So it is told, by a token without a reader, that the other one has begun the iteration too: then
 * its own is not over before, and the two are no further apart than their windows. */
static void keep_pace(maker *m) {
  dfi_plan *p = m->plan;
  const size_t n = (size_t)p->parts->n, cells = (size_t)p->nscopes * n * n;
  const uint16_t *owner = p->parts->owner;
  int16_t *sends = dfi_xmalloc(sizeof *sends * (cells + 1));           /* by scope, sender, receiver: its device; -1 */
  df_node **choice = dfi_xcalloc((size_t)p->nscopes * n + 1, sizeof *choice);  /* a Switch of a loop variable */
  for (size_t i = 0; i < cells; i++) sends[i] = -1;
  for (int32_t i = 0; i < m->nneeded; i++) {
    df_node *node = dfi_plan_node(m, m->needed[i]);
    const mark *k = &m->mark[node->id];
    if (k->scope <= 0 || k->device < 0 || !of_loop(p, k->scope)) continue;
    if (flow_of(node) == DF_TRANSFER) {
      const dfi_link *l = &p->link[k->child_scope];
      if (owner[l->from] != owner[l->to])
        sends[((size_t)k->scope * n + owner[l->from]) * n + owner[l->to]] = (int16_t)l->from;
    } else if (flow_of(node) == DF_SWITCH && flow_of(node->in[1].node) == DF_LOOP_COND)
      choice[(size_t)k->scope * n + owner[k->device]] = node;
  }
  for (size_t s = 1; s < (size_t)p->nscopes; s++)
    for (size_t a = 0; a < n; a++)
      for (size_t b = 0; b < n; b++)
        if (sends[(s * n + a) * n + b] >= 0 && sends[(s * n + b) * n + a] < 0 && choice[s * n + b])
          dfi_plan_cut_control(m, choice[s * n + b], sends[(s * n + a) * n + b]);
  dfi_free(sends); dfi_free(choice);
}

/* Iterations that begin one after the other (parallel_iterations = 1) do so on all devices: an owner that has nothing
 * more to do in one tells another, and waits for a third, in rounds: of n owners number i tells number i + 2^k in round
 * k, once it has been told in all rounds before. So after log2 n rounds each knows of all, and ends its own. These
 * messages wait for nothing and are no roots (ends_only): the engine sends and awaits them at the iteration's end. */
static void meet_at_ends(maker *m) {
  dfi_plan *p = m->plan;
  const int32_t n = p->parts->n;
  int16_t *at = who_takes_part(m, p->parts->owner, n);
  int16_t *device = dfi_xcalloc((size_t)n + 1, sizeof *device);
  loop *l = find_loops(m);
  for (int32_t s = 1; s < p->nscopes; s++) {
    if (!of_loop(p, s) || p->scope[s].parallel_iterations != 1) continue;
    int32_t owners = 0;
    for (int32_t o = 0; o < n; o++) if (at[s * n + o] >= 0) device[owners++] = at[s * n + o];
    for (int32_t far = 1; far < owners; far *= 2)
      for (int32_t i = 0; i < owners; i++)
        dfi_plan_cut_end(m, l[s].choice, s, device[i], device[(i + far) % owners]);
  }
  dfi_free(at); dfi_free(device); dfi_free(l);
}

void dfi_plan_pace_owners(maker *m) {
  if (!m->plan->parts) return;
  keep_pace(m);
  meet_at_ends(m);
}

/* ---- each owner's scopes -------------------------------------------------------------------------------------- */

/* Do all q's tokens go to the owner that runs it (or receives it)? A loop constant is read by the owner of its Enter
 * alone. */
static bool keeps_to_itself(const dfi_plan *p, const dfi_pnode *q) {
  const int32_t to = dfi_receiver_of(p, q);
  const dfi_scope *s = dfi_reads_in(p, q);
  if (!of_loop(p, (int32_t)q->scope)) return true;
  for (uint32_t e = q->edge[0]; e < q->edge[3]; e++)
    if (dfi_owner_of(p, p->node + s->first + p->edge[e].node) != to) return false;
  if (q->kind != DFI_K_ENTER || !q->constant) return true;
  for (uint32_t u = s->const_first[q->out]; u < s->const_first[q->out + 1]; u++)
    if (dfi_owner_of(p, p->node + s->first + s->const_users[u]) != to) return false;
  return true;
}

/* Is it a message that is sent, or awaited, at the end of an iteration? */
static bool ends_only(const dfi_scope *s, const dfi_pnode *q, uint32_t i) {
  return q->kind == DFI_K_TRANSFER && !s->counts[i];
}

/* One owner that turns all of it after all sends none. */
static void leave_out_ends(const dfi_plan *p, dfi_scope *s) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->nroots; i++)
    if (!ends_only(s, p->node + s->first + s->roots[i], s->roots[i])) s->roots[n++] = s->roots[i];
  s->nroots = n;
}

/* The round of a message at the end of an iteration: see meet_at_ends. Each owner that takes part sends some. */
static uint32_t round_of(const dfi_plan *p, const dfi_scope *s, const dfi_pnode *end) {
  uint8_t *takes_part = dfi_xcalloc((size_t)p->parts->n + 1, 1);
  for (uint32_t i = 0; i < s->n; i++)
    if (ends_only(s, p->node + s->first + i, i)) takes_part[dfi_owner_of(p, p->node + s->first + i)] = 1;
  int32_t n = 0, from = 0, to = 0;
  for (int32_t o = 0; o < p->parts->n; o++) {
    if (o == dfi_owner_of(p, end)) from = n;
    if (o == dfi_receiver_of(p, end)) to = n;
    n += takes_part[o];
  }
  dfi_free(takes_part);
  return (uint32_t)__builtin_ctz((uint32_t)((to - from + n) % n));
}

static dfi_scope scope_of(const dfi_plan *p, const dfi_scope *all, int32_t owner, uint32_t *nrecvs) {
  dfi_scope s = *all;
  s.nroots = s.nenters = s.nexits = s.nends = 0;
  s.roots = dfi_xmalloc(sizeof *s.roots * (all->n + 1));
  s.ends = dfi_xmalloc(sizeof *s.ends * (all->n + 1));
  s.enters = dfi_xmalloc(sizeof *s.enters * (all->nenters + 1));
  s.exits = dfi_xmalloc(sizeof *s.exits * (all->nexits + 1));
  const bool shared = of_loop(p, all->id);
  for (uint32_t i = 0; i < all->n && shared; i++) {
    const dfi_pnode *q = p->node + all->first + i;
    const bool sends = dfi_owner_of(p, q) == owner, receives = dfi_receiver_of(p, q) == owner;
    if (ends_only(all, q, i)) {
      if (!(sends || receives) || is_copy(p, all->id)) continue;
      s.ends[s.nends].node = i;
      s.ends[s.nends++].round = round_of(p, all, q);
    } else if (receives && !sends) s.roots[s.nroots++] = i;
  }
  if (s.nroots + s.nends > *nrecvs) *nrecvs = s.nroots + s.nends;
  for (uint32_t i = 0; i < all->nroots; i++)
    if (!shared || dfi_owner_of(p, p->node + all->first + all->roots[i]) == owner) s.roots[s.nroots++] = all->roots[i];
  for (uint32_t i = 0; i < all->nenters; i++)
    if (!shared || dfi_owner_of(p, all->enters[i]) == owner) s.enters[s.nenters++] = all->enters[i];
  for (uint32_t i = 0; i < all->nexits; i++)
    if (!shared || dfi_owner_of(p, all->exits[i]) == owner) s.exits[s.nexits++] = all->exits[i];
  return s;
}

/* Does it take a variable that may live on another rank than the owner that runs it? A function's owner, and the
 * variables that it is given, are known when it runs. */
static bool may_be_far(const dfi_plan *p, const dfi_pnode *q) {
  if ((q->kind != DFI_K_KERNEL && q->kind != DFI_K_READ) || (!q->has_handle && !q->reads)) return false;
  if (!of_loop(p, (int32_t)q->scope)) return true;
  const int32_t rank = p->parts->rank[dfi_owner_of(p, q)];
  for (uint32_t i = 0; i < q->nin; i++) {
    const dfi_operand o = p->operand[q->in + i];
    const int32_t v = (int32_t)DFI_INDEX(o) - p->nfeed;
    if (DFI_SPACE(o) == DFI_GIVEN && v >= 0 && v < p->nvariables &&
        p->devices->at[p->variable_device[v]]->rank != rank)
      return true;
  }
  return false;
}

static void find_far(dfi_plan *p) {
  for (int32_t i = 0; i < p->nnodes && p->nvariables; i++) {
    dfi_pnode *q = &p->node[i];
    if (!may_be_far(p, q)) continue;
    p->parts->far = true;
    q->kind = DFI_K_KERNEL;
    q->waits = DFI_WAITS_FAR;
    q->offload = 0;
  }
}

/* Why it cannot be shared as it has been cut; NULL: it can. */
static const char *not_shared(const dfi_plan *p, const df_node **at) {
  for (int32_t i = 0; i < p->nnodes; i++) {
    const dfi_pnode *q = &p->node[i];
    *at = q->node;
    if (!keeps_to_itself(p, q))
      return q->nout && q->out_dtypes[0] == DF_RESOURCE
                 ? "an operation or a function takes queues, or other resources, of two owners, and their handles "
                   "cannot be sent: build them on one device, or use one of them outside of the function"
                 : "something in it has values of two owners that cannot be sent";
    if (dfi_scope_depth(p, (int32_t)q->scope) > DFI_TAG_DEPTH) return "its loops are nested more than sixty-four deep";
  }
  return NULL;
}

/* What counts a loop's frames and iterations: the owner of the first of its variables. */
static uint16_t counter_of(const dfi_plan *p, const dfi_scope *s) {
  for (uint32_t i = 0; i < s->nenters && of_loop(p, s->id); i++)
    if (!s->enters[i]->constant) return (uint16_t)dfi_owner_of(p, s->enters[i]);
  return DFI_COUNTED_EVERYWHERE;
}

int32_t dfi_plan_find_shared(maker *m) {
  dfi_plan *p = m->plan;
  if (!p->parts) return DF_OK;
  for (int32_t s = 0; s < p->nscopes; s++) leave_out_ends(p, &p->scope[s]);
  const df_node *at = NULL;
  const bool over_ranks = dfi_plan_over_ranks(p);
  if (over_ranks) find_far(p);
  if (!(p->one_owner = not_shared(p, &at))) return DF_OK;
  dfi_plan_owners_free(p);
  return over_ranks ? must_be_shared(m, at, p->one_owner) : DF_OK;
}

void dfi_plan_lay_owners(dfi_plan *p) {
  dfi_parts *a = p->parts;
  if (!a) return;
  uint32_t nrecvs = 0;
  a->nscopes = p->nscopes;
  a->scope = dfi_xcalloc((size_t)a->n, sizeof *a->scope);
  a->counter = dfi_xcalloc((size_t)p->nscopes, sizeof *a->counter);
  a->called = dfi_xcalloc((size_t)p->nscopes, sizeof *a->called);
  for (int32_t s = 0; s < p->nscopes; s++) {
    a->counter[s] = counter_of(p, &p->scope[s]);
    a->called[s] = !of_loop(p, s);
  }
  for (int32_t o = 0; o < a->n; o++) {
    a->scope[o] = dfi_xcalloc((size_t)p->nscopes, sizeof **a->scope);
    for (int32_t s = 0; s < p->nscopes; s++) a->scope[o][s] = scope_of(p, &p->scope[s], o, &nrecvs);
  }
  p->widest += nrecvs;
}

void dfi_plan_owners_free(dfi_plan *p) {
  dfi_parts *a = p->parts;
  if (!a) return;
  for (int32_t o = 0; a->scope && o < a->n; o++) {
    for (int32_t s = 0; s < a->nscopes; s++) {
      dfi_free(a->scope[o][s].roots);
      dfi_free(a->scope[o][s].ends);
      dfi_free(a->scope[o][s].enters);
      dfi_free(a->scope[o][s].exits);
    }
    dfi_free(a->scope[o]);
  }
  dfi_free(a->scope); dfi_free(a->counter); dfi_free(a->called); dfi_free(a->owner); dfi_free(a->rank);
  dfi_free(a);
  p->parts = NULL;
}
