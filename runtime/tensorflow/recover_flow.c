/* recover_flow.c: finds the conds and loops of an imported graph.
 *
 * The nodes are read once, each after its inputs, and get their places (recover_flow.h): that of their innermost input,
 * data or control. A Switch whose predicate is no LoopCond leads into a new cond; two conds turn out to be one where a
 * node takes inputs from both, or a Merge brings their sides together. An Enter leads into the loop of its frame's
 * name, an Exit out of it.
 *
 * TensorFlow's gradients of a cond stand in the cond's own branches, and depend on its results as well. No single cond
 * can be differentiated like that, so what depends on a cond's results is not part of it: it stays unstructured, at
 * the top, and still runs.
 */
#include "tensorflow/recover_flow.h"

enum { DEEPEST = 200, ROUNDS = 16, STEPS_PER_EDGE = 4000, STEPS_BETWEEN_LOOKS = 4096 };

/* ---- places ------------------------------------------------------------------------------------------ */

static int32_t place_new(raiser *r, place_kind kind, int32_t of, int32_t side) {
  DFI_GROW(r->place, r->nplace, r->place_cap);
  r->place[r->nplace] = (place){ kind, of, side };
  return r->nplace++;
}

int32_t dfi_recover_cond(raiser *r, int32_t c) {
  while (r->conds[c].joined != c) c = r->conds[c].joined = r->conds[r->conds[c].joined].joined;
  return c;
}

/* Counts one step of a walk. True: there have been too many, or the user interrupts. */
static bool spent(raiser *r) {
  if (r->steps >= r->most_steps) return true;
  if (++r->steps % STEPS_BETWEEN_LOOKS == 0 && dfi_import_interrupted(r->interrupts)) r->steps = r->most_steps;
  return false;
}

int32_t dfi_recover_resolve(raiser *r, int32_t p) {
  for (;;) {
    if (spent(r)) return PLACE_FIRST;
    const place *at = &r->place[p];
    if (at->kind == PLACE_TOP) return p;
    if (at->kind == PLACE_BRANCH) {
      const raised_cond *c = &r->conds[dfi_recover_cond(r, at->of)];
      if (!c->given_up) return c->branch[at->side];
      p = c->parent;
    } else {
      if (!r->loops[at->of].given_up) return p;
      p = r->loops[at->of].parent;
    }
  }
}

/* The place around it. */
static int32_t up(raiser *r, int32_t p) {
  if (spent(r)) return PLACE_FIRST;
  const place *at = &r->place[p];
  switch (at->kind) {
  case PLACE_TOP: return p;
  case PLACE_BRANCH: return dfi_recover_resolve(r, r->conds[dfi_recover_cond(r, at->of)].parent);
  case PLACE_CONSTANTS: return dfi_recover_resolve(r, r->loops[at->of].parent);
  default: return r->loops[at->of].place;
  }
}

static int32_t depth_of(raiser *r, int32_t p) {
  int32_t d = 0;
  for (; p != PLACE_FIRST && d <= DEEPEST; p = up(r, p)) d++;
  return d;
}

/* Are two places of one depth the same? Conds that may be the same are made so. */
static bool same(raiser *r, int32_t a, int32_t b) {
  if (a == b) return true;
  const place *x = &r->place[a], *y = &r->place[b];
  if (x->kind != PLACE_BRANCH || y->kind != PLACE_BRANCH || x->side != y->side) return false;
  int32_t c = dfi_recover_cond(r, x->of), d = dfi_recover_cond(r, y->of);
  if (!dfi_same(r->conds[c].pred, r->conds[d].pred) || !same(r, up(r, a), up(r, b))) return false;
  c = dfi_recover_cond(r, c);
  d = dfi_recover_cond(r, d);
  if (c != d) r->conds[c > d ? c : d].joined = c > d ? d : c;
  return true;
}

/* The inner of two places that lie one within the other; PLACE_NONE when they do not. */
static int32_t inner_of(raiser *r, int32_t a, int32_t b) {
  a = dfi_recover_resolve(r, a);
  b = dfi_recover_resolve(r, b);
  if (a == b || b == PLACE_FIRST) return a;
  if (a == PLACE_FIRST) return b;
  int32_t da = depth_of(r, a), db = depth_of(r, b);
  if (da > DEEPEST || db > DEEPEST) return PLACE_NONE;
  if (da < db) { int32_t t = a; a = b; b = t; t = da; da = db; db = t; }
  int32_t at = a;
  for (; da > db; da--) at = up(r, at);
  return same(r, at, b) ? dfi_recover_resolve(r, a) : PLACE_NONE;
}

static void give_up(raiser *r, int32_t p) {
  for (p = dfi_recover_resolve(r, p); p != PLACE_FIRST; p = dfi_recover_resolve(r, p)) {
    if (r->place[p].kind == PLACE_BRANCH) r->conds[dfi_recover_cond(r, r->place[p].of)].given_up = true;
    else r->loops[r->place[p].of].given_up = true;
  }
}

static int32_t meet(raiser *r, int32_t a, int32_t b) {
  int32_t p = inner_of(r, a, b);
  if (p != PLACE_NONE) return p;
  give_up(r, a);
  give_up(r, b);
  return PLACE_FIRST;
}

df_output dfi_recover_origin(const raiser *r, df_output o) {
  return o.index == 0 && raise_mine(r, o.node) ? r->origin[o.node->id - r->first] : o;
}

/* An Identity's input is made before the Identity is, so that its origin is known. */
static void find_origins(raiser *r) {
  for (int32_t i = 0; i < r->n; i++) {
    df_node *n = r->graph->node[r->first + i];
    const bool passes = !n->ncontrol && dfi_flow_is(n, FLOW_IDENTITY) && !n->in[0].node->out[n->in[0].index].ref;
    r->origin[i] = passes ? dfi_recover_origin(r, n->in[0]) : (df_output){ n, 0 };
  }
}

bool dfi_recover_is_loop_switch(const raiser *r, const df_node *n) {
  return raise_flow(n) == DF_SWITCH && raise_flow(dfi_recover_origin(r, n->in[1]).node) == DF_LOOP_COND;
}

int32_t dfi_recover_place_of(raiser *r, df_output o) {
  if (!raise_mine(r, o.node)) return PLACE_FIRST;
  int32_t i = o.node->id - r->first;
  if (raise_flow(o.node) == DF_SWITCH && !r->unstructured[i]) {
    if (r->cond[i] >= 0) return dfi_recover_resolve(r, r->conds[dfi_recover_cond(r, r->cond[i])].branch[o.index]);
    int32_t at = dfi_recover_resolve(r, r->at[i]);
    if (dfi_recover_is_loop_switch(r, o.node) && r->place[at].kind == PLACE_PRED) return at + (o.index ? 1 : 2);
  }
  return dfi_recover_resolve(r, r->at[i]);
}

int32_t dfi_recover_place(raiser *r, const df_node *n) {
  return raise_mine(r, n) ? dfi_recover_resolve(r, r->at[n->id - r->first]) : PLACE_FIRST;
}

/* ---- the first reading ----------------------------------------------------------------------------------- */

static int32_t loop_named(raiser *r, const char *name, int32_t parent) {
  uint32_t i = dfi_text_hash(name) & r->loop_mask;
  for (; r->loop_table[i]; i = (i + 1) & r->loop_mask)
    if (!strcmp(r->loops[r->loop_table[i] - 1].name, name)) return r->loop_table[i] - 1;
  DFI_GROW(r->loops, r->nloops, r->loops_cap);
  raised_loop *l = &r->loops[r->nloops];
  *l = (raised_loop){ .parent = parent, .name = name, .place = place_new(r, PLACE_CONSTANTS, r->nloops, 0) };
  place_new(r, PLACE_PRED, r->nloops, 0);
  place_new(r, PLACE_BODY, r->nloops, 0);
  place_new(r, PLACE_LEFT, r->nloops, 0);
  return (r->loop_table[i] = ++r->nloops) - 1;
}

/* Does p lie in that loop? */
static bool in_loop(raiser *r, int32_t p, int32_t loop) {
  for (p = dfi_recover_resolve(r, p); p != PLACE_FIRST; p = up(r, p))
    if (r->place[p].kind != PLACE_BRANCH && r->place[p].of == loop) return true;
  return false;
}

/* What is nested too deeply is not raised. The place that a new cond or loop at p stands in. */
static int32_t shallow(raiser *r, int32_t p) {
  if (depth_of(r, p) <= DEEPEST) return p;
  give_up(r, p);
  return PLACE_FIRST;
}

static void enter(raiser *r, df_node *n, int32_t at) {
  const char *name = n->attrs[dfi_op_attr_index(dfi_op_info_at(n->op), "frame_name")].s;
  at = shallow(r, at);
  int32_t l = loop_named(r, name, at);
  raised_loop *loop = &r->loops[l];
  r->at[n->id - r->first] = loop->place + (dfi_flow_is_constant_enter(n) ? 0 : 1);
  if (loop->given_up || in_loop(r, at, l)) {           /* a frame that is entered from inside is no loop */
    give_up(r, at);
    give_up(r, loop->place);
    return;
  }
  loop->parent = meet(r, loop->parent, at);
  if (!dfi_flow_is(n, FLOW_ENTER)) give_up(r, loop->place);
}

static void split(raiser *r, df_node *n, int32_t at) {
  int32_t i = n->id - r->first;
  r->at[i] = at = shallow(r, at);
  if (dfi_recover_is_loop_switch(r, n)) return;
  DFI_GROW(r->conds, r->nconds, r->conds_cap);
  raised_cond *c = &r->conds[r->nconds];
  *c = (raised_cond){ .joined = r->nconds, .parent = at, .pred = dfi_recover_origin(r, n->in[1]) };
  c->branch[0] = place_new(r, PLACE_BRANCH, r->nconds, 0);
  c->branch[1] = place_new(r, PLACE_BRANCH, r->nconds, 1);
  r->cond[i] = r->nconds++;
  if (!dfi_flow_is(n, FLOW_SWITCH)) give_up(r, c->branch[0]);
}

/* The cond whose sides a Merge brings together, or -1. Conds that it shows to be one are joined. */
static int32_t cond_of_merge(raiser *r, const df_node *n) {
  if (n->nin != 2 || !dfi_flow_is(n, FLOW_MERGE)) return -1;
  int32_t a = dfi_recover_place_of(r, n->in[0]), b = dfi_recover_place_of(r, n->in[1]);
  if (r->place[a].kind != PLACE_BRANCH || r->place[b].kind != PLACE_BRANCH || r->place[a].side == r->place[b].side)
    return -1;
  int32_t other = r->conds[dfi_recover_cond(r, r->place[b].of)].branch[r->place[a].side];
  return same(r, a, dfi_recover_resolve(r, other)) ? dfi_recover_cond(r, r->place[a].of) : -1;
}

static int32_t merge(raiser *r, df_node *n) {
  int32_t c = cond_of_merge(r, n);
  if (c >= 0) return dfi_recover_resolve(r, r->conds[c].parent);
  for (int32_t i = 0; i < n->nin; i++) give_up(r, dfi_recover_place_of(r, n->in[i]));
  return PLACE_FIRST;
}

static int32_t leave(raiser *r, df_node *n) {
  int32_t p = dfi_recover_place_of(r, n->in[0]);
  if (r->place[p].kind == PLACE_LEFT && dfi_flow_is(n, FLOW_EXIT)) return up(r, up(r, p));
  give_up(r, p);
  return PLACE_FIRST;
}

static bool is_trigger(const df_node *n) { return !strcmp(dfi_op_info_at(n->op)->op->type, "ControlTrigger"); }

static void read_node(raiser *r, df_node *n) {
  int32_t at = PLACE_FIRST, i = n->id - r->first;
  df_flow flow = raise_flow(n);
  bool loop_merge = raise_is_loop_merge(r, n);
  if (flow == DF_MERGE && !loop_merge) at = merge(r, n);
  else if (flow == DF_EXIT) at = leave(r, n);
  else
    for (int32_t j = 0; j < n->nin; j++)
      if (!loop_merge || raise_flow(n->in[j].node) != DF_NEXT_ITERATION)
        at = meet(r, at, dfi_recover_place_of(r, n->in[j]));
  for (int32_t j = 0; j < n->ncontrol; j++) {
    int32_t p = dfi_recover_place(r, n->control[j]);
    /* it runs whatever its inputs are: in no branch */
    while (is_trigger(n) && r->place[p].kind == PLACE_BRANCH) p = up(r, p);
    at = meet(r, at, p);
  }
  r->at[i] = at;
  if (flow == DF_ENTER) enter(r, n, at);
  else if (flow == DF_SWITCH) split(r, n, at);
  else if (flow == DF_LOOP_COND) {
    at = dfi_recover_resolve(r, at);
    raised_loop *l = r->place[at].kind == PLACE_PRED ? &r->loops[r->place[at].of] : NULL;
    if (!l || l->loop_cond) give_up(r, at);
    else l->loop_cond = n;
  }
}

/* A Switch of the predicate by itself gives the branches their pivots, but nothing may hang on those. Then it goes with
 * the next cond on the same predicate in the same place. */
static void adopt_pivots(raiser *r) {
  uint32_t mask = 63;
  while (mask < 2 * (uint32_t)r->nconds) mask = 2 * mask + 1;
  int32_t *table = dfi_xcalloc((size_t)mask + 1, sizeof *table),
          *members = dfi_xcalloc((size_t)r->nconds + 1, sizeof *members);
  bool *alone = dfi_xcalloc((size_t)r->nconds + 1, sizeof *alone);
  for (int32_t c = 0; c < r->nconds; c++) members[dfi_recover_cond(r, c)]++;
  for (int32_t i = 0; i < r->n; i++) {
    df_node *n = r->graph->node[r->first + i];
    if (r->cond[i] >= 0)
      alone[r->cond[i]] =
          members[dfi_recover_cond(r, r->cond[i])] == 1 &&
          dfi_same(dfi_recover_origin(r, n->in[0]), r->conds[r->cond[i]].pred);
  }
  for (int32_t c = r->nconds - 1; c >= 0; c--) {
    raised_cond *k = &r->conds[c];
    if (k->joined != c || k->given_up) continue;
    int32_t parent = dfi_recover_resolve(r, k->parent);
    uint32_t at =
        ((uint32_t)k->pred.node->id * 0x9e3779b1u ^ (uint32_t)k->pred.index ^ (uint32_t)parent * 0x85ebca6bu) & mask;
    for (; table[at]; at = (at + 1) & mask) {
      raised_cond *other = &r->conds[table[at] - 1];
      if (dfi_same(other->pred, k->pred) && dfi_recover_resolve(r, other->parent) == parent) break;
    }
    if (!alone[c]) table[at] = c + 1;
    else if (table[at]) r->conds[dfi_recover_cond(r, table[at] - 1)].joined = c;
  }
  dfi_free(table); dfi_free(members); dfi_free(alone);
}

/* ---- what depends on a cond's own results ------------------------------------------------------------------ */

static void find_users(raiser *r) {
  if (r->user) return;
  df_graph *g = r->graph;
  int32_t edges = 0, *first = r->first_user = dfi_xcalloc((size_t)r->n + 2, sizeof *first);
  for (int32_t pass = 0; pass < 2; pass++) {
    for (int32_t i = 0; i < r->n; i++) {
      df_node *n = g->node[r->first + i];
      for (int32_t j = 0; j < n->nin + n->ncontrol; j++) {
        df_node *from = j < n->nin ? n->in[j].node : n->control[j - n->nin];
        if (!raise_mine(r, from)) continue;
        if (pass) r->user[first[from->id - r->first]++] = i;
        else { first[from->id - r->first + 1]++; edges++; }
      }
    }
    if (pass) break;
    for (int32_t i = 0; i < r->n; i++) first[i + 1] += first[i];
    r->user = dfi_xmalloc(sizeof *r->user * ((size_t)edges + 1));
  }
  memmove(first + 1, first, sizeof *first * (size_t)r->n);         /* filling moved each to its end */
  first[0] = 0;
}

static bool within(raiser *r, int32_t p, int32_t cond) {
  for (p = dfi_recover_resolve(r, p); p != PLACE_FIRST; p = up(r, p))
    if (r->place[p].kind == PLACE_BRANCH && dfi_recover_cond(r, r->place[p].of) == cond) return true;
  return false;
}

/* A node of a cond that depends on the cond's results: it is none of the cond's. */
static void leave_unstructured(raiser *r, int32_t i) {
  df_node *n = r->graph->node[r->first + i];
  if (raise_flow(n) == DF_ENTER && !r->unstructured[i]) r->loops[r->place[r->at[i]].of].given_up = true;
  r->cond[i] = -1;
  r->unstructured[i] = true;
  r->at[i] = PLACE_FIRST;
}

/* Of each cond, its Switches and its Merges, of each loop its Enters: lists through `next`. */
typedef struct lists { int32_t *next, *switches, *merges, *enters, *seen, *queue; int64_t left; bool whole; } lists;

/* seen: c + 1 when something led to the node, -1 - c for a result of c to which nothing led yet. */
static void see(lists *l, int32_t c, int32_t i, int32_t *tail) {
  if (l->seen[i] == c + 1) return;
  if (l->seen[i] != -1 - c) l->queue[(*tail)++] = i;
  l->seen[i] = c + 1;
}

/* Finds what depends on the results of cond c. True: some of c's own Switches do. A loop depends as a whole, and so
 * does another cond when `whole` says so; the iterations that follow do not count. */
static bool reach(raiser *r, int32_t c, lists *l, int32_t *count) {
  int32_t head = 0, tail = 0, first = INT32_MAX, last = -1;
  for (int32_t m = l->merges[c]; m >= 0; m = l->next[m]) {
    if (r->unstructured[m]) continue;
    l->seen[m] = -1 - c;
    l->queue[tail++] = m;
    if (m < first) first = m;
  }
  for (int32_t s = l->switches[c]; s >= 0; s = l->next[s]) if (!r->unstructured[s] && s > last) last = s;
  if (first > last) return false;
  find_users(r);
  bool again = false;
  for (; head < tail && l->left > 0; head++) {
    int32_t i = l->queue[head], other = r->cond[i] >= 0 ? dfi_recover_cond(r, r->cond[i]) : c;
    df_flow flow = raise_flow(r->graph->node[r->first + i]);
    again |= r->cond[i] >= 0 && other == c;
    if (flow == DF_NEXT_ITERATION) continue;
    for (int32_t m = other == c || !l->whole ? -1 : l->merges[other]; m >= 0; m = l->next[m], l->left--)
      see(l, c, m, &tail);
    for (int32_t m = flow == DF_ENTER && !r->unstructured[i] ? l->enters[r->place[r->at[i]].of] : -1; m >= 0;
         m = l->next[m], l->left--)
      see(l, c, m, &tail);
    for (int32_t e = r->first_user[i]; e < r->first_user[i + 1]; e++, l->left--) see(l, c, r->user[e], &tail);
  }
  *count = tail;
  return again || l->left <= 0;
}

static void part(raiser *r, int32_t c, lists *l) {
  int32_t count = 0;
  if (!reach(r, c, l, &count)) return;
  if (l->left <= 0 || dfi_recover_resolve(r, r->conds[c].parent) != PLACE_FIRST) {
    give_up(r, r->conds[c].branch[0]);
    return;
  }
  int32_t out = 0;
  for (int32_t k = 0; k < count; k++) {
    int32_t u = l->queue[k];
    if (l->seen[u] != c + 1) continue;
    df_node *n = r->graph->node[r->first + u];
    bool merged = raise_flow(n) == DF_MERGE && !raise_is_loop_merge(r, n) && cond_of_merge(r, n) == c;
    bool entered = r->cond[u] >= 0 && dfi_recover_cond(r, r->cond[u]) == c;
    if (merged || entered || within(r, r->at[u], c)) l->queue[out++] = u;
  }
  while (out) leave_unstructured(r, l->queue[--out]);
}

static void part_conds(raiser *r) {
  size_t n = (size_t)r->n + 1, conds = (size_t)r->nconds + 1;
  lists l = { .next = dfi_xmalloc(sizeof *l.next * n), .switches = dfi_xmalloc(sizeof *l.switches * conds),
              .merges = dfi_xmalloc(sizeof *l.merges * conds),
              .enters = dfi_xmalloc(sizeof *l.enters * ((size_t)r->nloops + 1)), .seen = dfi_xcalloc(n, sizeof *l.seen),
              .queue = dfi_xmalloc(sizeof *l.queue * n) };
  for (int32_t c = 0; c < r->nconds; c++) l.switches[c] = l.merges[c] = -1;
  for (int32_t k = 0; k < r->nloops; k++) l.enters[k] = -1;
  for (int32_t i = 0; i < r->n; i++) {
    df_node *node = r->graph->node[r->first + i];
    bool merge = raise_flow(node) == DF_MERGE && !raise_is_loop_merge(r, node);
    int32_t c = merge ? cond_of_merge(r, node) : r->cond[i] >= 0 ? dfi_recover_cond(r, r->cond[i]) : -1;
    bool enter = raise_flow(node) == DF_ENTER;
    if (c < 0 && !enter) continue;
    int32_t *head = enter ? &l.enters[r->place[r->at[i]].of] : merge ? &l.merges[c] : &l.switches[c];
    l.next[i] = *head;
    *head = i;
  }
  for (int32_t pass = 0; pass < 2; pass++, l.whole = true) {
    l.left = 40 * (int64_t)r->n + 100000;
    memset(l.seen, 0, sizeof *l.seen * n);
    for (int32_t c = 0; c < r->nconds; c++)                 /* what is outside comes first */
      if (r->conds[c].joined == c && !r->conds[c].given_up) part(r, c, &l);
  }
  dfi_free(l.next); dfi_free(l.switches); dfi_free(l.merges); dfi_free(l.enters); dfi_free(l.seen); dfi_free(l.queue);
}

/* ---- what contradicts itself inside a cond of the top ----------------------------------------------------------- */

static bool one_structure(raiser *r, int32_t a, int32_t b) {
  const place *x = &r->place[a], *y = &r->place[b];
  if ((x->kind == PLACE_BRANCH) != (y->kind == PLACE_BRANCH) || x->kind == PLACE_TOP || y->kind == PLACE_TOP)
    return false;
  return x->kind == PLACE_BRANCH ? dfi_recover_cond(r, x->of) == dfi_recover_cond(r, y->of) : x->of == y->of;
}

static bool inside(raiser *r, int32_t p, int32_t structure) {
  for (p = dfi_recover_resolve(r, p); p != PLACE_FIRST; p = up(r, p)) if (one_structure(r, p, structure)) return true;
  return false;
}

/* Takes out of all structure what stands directly in the outermost cond around p, with what depends on it; the rest of
 * that cond stays. False: p is not in such a place, or this was done too often. */
static bool isolate(raiser *r, int32_t p) {
  int32_t outer = PLACE_FIRST, inner = PLACE_FIRST;
  for (p = dfi_recover_resolve(r, p); p != PLACE_FIRST; p = up(r, p)) {
    if (outer != PLACE_FIRST && !one_structure(r, outer, p)) inner = outer;
    outer = p;
  }
  if (inner == PLACE_FIRST || r->place[outer].kind != PLACE_BRANCH || ++r->isolated > 50) return false;
  int32_t cond = dfi_recover_cond(r, r->place[outer].of), head = 0, tail = 0;
  find_users(r);
  bool *seen = dfi_xcalloc((size_t)r->n + 1, sizeof *seen);
  int32_t *queue = dfi_xmalloc(sizeof *queue * ((size_t)r->n + 1));
  for (int32_t i = 0; i < r->n; i++)
    if (!r->unstructured[i] && (inside(r, r->at[i], inner) ||
                         (r->cond[i] >= 0 && inside(r, r->conds[dfi_recover_cond(r, r->cond[i])].branch[0], inner)))) {
      seen[i] = true;
      queue[tail++] = i;
    }
  for (; head < tail; head++) {
    int32_t i = queue[head];
    if (raise_flow(r->graph->node[r->first + i]) == DF_NEXT_ITERATION) continue;
    for (int32_t e = r->first_user[i]; e < r->first_user[i + 1]; e++)
      if (!seen[r->user[e]]) { seen[r->user[e]] = true; queue[tail++] = r->user[e]; }
  }
  int32_t out = 0;
  for (int32_t k = 0; k < tail; k++) {
    df_node *n = r->graph->node[r->first + queue[k]];
    bool merged = raise_flow(n) == DF_MERGE && !raise_is_loop_merge(r, n) && cond_of_merge(r, n) == cond;
    bool entered = r->cond[queue[k]] >= 0 && dfi_recover_cond(r, r->cond[queue[k]]) == cond;
    if (merged || entered || within(r, r->at[queue[k]], cond)) queue[out++] = queue[k];
  }
  while (out) leave_unstructured(r, queue[--out]);
  dfi_free(seen); dfi_free(queue);
  return true;
}

void dfi_recover_contradiction(raiser *r, int32_t p) {
  if (!isolate(r, p)) give_up(r, p);
}

/* ---- checks ------------------------------------------------------------------------------------------------- */

static bool is_around(raiser *r, int32_t outer, int32_t p, bool *crossed) {
  *crossed = false;
  for (;; p = up(r, p)) {
    if (p == outer) return true;
    if (p == PLACE_FIRST) return false;
    *crossed |= r->place[p].kind == PLACE_CONSTANTS;
  }
}

/* A node of a loop's constants alone belongs to the predicate or to the body: where it is used. */
static void settle(raiser *r, int32_t i) {
  int32_t at = dfi_recover_resolve(r, r->at[i]), chosen = PLACE_NONE;
  df_node *n = r->graph->node[r->first + i];
  if (r->unstructured[i] || r->place[at].kind != PLACE_CONSTANTS || raise_flow(n) == DF_ENTER) return;
  find_users(r);
  for (int32_t e = r->first_user[i]; e < r->first_user[i + 1]; e++) {
    int32_t p = dfi_recover_resolve(r, r->at[r->user[e]]);
    while (p != PLACE_FIRST && up(r, p) != at) p = up(r, p);
    if (p == PLACE_FIRST || (chosen != PLACE_NONE && chosen != p)) { give_up(r, at); return; }
    chosen = p;
  }
  r->at[i] = chosen == PLACE_NONE ? at + 2 : chosen;
}

/* Is each node where its inputs can be used? Gives up what is not. */
static bool consistent(raiser *r) {
  bool good = true, crossed;
  for (int32_t i = 0; i < r->n; i++) {
    df_node *n = r->graph->node[r->first + i];
    df_flow flow = raise_flow(n);
    if (r->unstructured[i] || is_trigger(n)) continue;
    int32_t at = dfi_recover_resolve(r, r->at[i]);
    bool loop_merge = raise_is_loop_merge(r, n);
    if (flow == DF_MERGE && !loop_merge) {
      int32_t c = cond_of_merge(r, n);
      if (c >= 0 && dfi_recover_resolve(r, r->conds[c].parent) == at) continue;
      if (c < 0 && at == PLACE_FIRST && dfi_recover_place_of(r, n->in[0]) == PLACE_FIRST &&
          (n->nin < 2 || dfi_recover_place_of(r, n->in[1]) == PLACE_FIRST))
        continue;
      for (int32_t j = 0; j < n->nin && !r->unstructured[i]; j++)
        dfi_recover_contradiction(r, dfi_recover_place_of(r, n->in[j]));
      if (!r->unstructured[i]) dfi_recover_contradiction(r, at);
      good = false;
      continue;
    }
    if (flow == DF_EXIT) {
      int32_t p = dfi_recover_place_of(r, n->in[0]);
      bool fits =
          r->place[p].kind == PLACE_LEFT ? up(r, up(r, p)) == at : p == PLACE_FIRST && at == PLACE_FIRST;
      if (fits) continue;
      dfi_recover_contradiction(r, p);
      if (!r->unstructured[i]) dfi_recover_contradiction(r, at);
      good = false;
      continue;
    }
    int32_t from = flow == DF_ENTER && at != PLACE_FIRST && r->place[at].kind != PLACE_BRANCH
                       ? dfi_recover_resolve(r, r->loops[r->place[at].of].parent)
                       : at;
    if (r->place[at].kind == PLACE_LEFT || (r->place[at].kind == PLACE_CONSTANTS && flow != DF_ENTER)) {
      dfi_recover_contradiction(r, at);
      good = false;
      continue;
    }
    for (int32_t j = 0; j < n->nin + n->ncontrol; j++) {
      bool back = loop_merge && j < n->nin && raise_flow(n->in[j].node) == DF_NEXT_ITERATION;
      int32_t p = j < n->nin ? dfi_recover_place_of(r, n->in[j]) : dfi_recover_place(r, n->control[j - n->nin]);
      bool fits = back ? (r->place[at].kind == PLACE_PRED && p == at + 1) || (at == PLACE_FIRST && p == PLACE_FIRST)
                       : is_around(r, p, from, &crossed) && !crossed;
      if (fits) continue;
      dfi_recover_contradiction(r, p);
      if (!r->unstructured[i]) dfi_recover_contradiction(r, at);
      good = false;
      break;
    }
  }
  return good;
}

/* How many Enters and Switches there are; *edges: inputs of any node, and what waits. */
static int32_t count_control_flow(raiser *r, int32_t *enters, int64_t *edges) {
  int32_t switches = 0;
  for (int32_t i = 0; i < r->n; i++) {
    df_node *node = r->graph->node[r->first + i];
    df_flow f = raise_flow(node);
    node->unstructured = f == DF_SWITCH || f == DF_MERGE || f == DF_ENTER || f == DF_EXIT || f == DF_NEXT_ITERATION;
    *enters += f == DF_ENTER;
    switches += f == DF_SWITCH;
    *edges += 1 + node->nin + node->ncontrol;
  }
  return *enters + switches;
}

static void find_and_build(raiser *r) {
  place_new(r, PLACE_TOP, 0, 0);
  find_origins(r);
  for (int32_t i = 0; i < r->n; i++) read_node(r, r->graph->node[r->first + i]);
  adopt_pivots(r);
  part_conds(r);
  for (int32_t i = r->n - 1; i >= 0; i--) settle(r, i);
  int32_t round = 0;
  for (bool good = false; !good && round < ROUNDS; round++) {
    good = consistent(r);
    good &= !dfi_recover_check_loops(r);
  }
  if (round < ROUNDS && r->steps < r->most_steps) {
    r->most_steps = INT64_MAX;                             /* what is consistent has as many steps as it needs */
    dfi_recover_build(r);
  }
}

int32_t dfi_recover_flow(df_graph *g, int32_t first, df_error *err) {
  raiser r = { .graph = g, .first = first, .n = g->n - first, .interrupts = atomic_load(&dfi_calls_interrupted) };
  size_t n = (size_t)r.n + 1;
  int32_t enters = 0;
  int64_t edges = 0;
  if (!count_control_flow(&r, &enters, &edges)) return DF_OK;
  r.most_steps = (edges + 1000) * STEPS_PER_EDGE;
  r.at = dfi_xcalloc(n, sizeof *r.at);
  r.cond = dfi_xmalloc(sizeof *r.cond * n);
  memset(r.cond, -1, sizeof *r.cond * n);
  r.unstructured = dfi_xcalloc(n, sizeof *r.unstructured);
  r.origin = dfi_xcalloc(n, sizeof *r.origin);
  for (r.loop_mask = 15; r.loop_mask < 2 * (uint32_t)enters; r.loop_mask = 2 * r.loop_mask + 1) ;
  r.loop_table = dfi_xcalloc((size_t)r.loop_mask + 1, sizeof *r.loop_table);
  find_and_build(&r);
  for (int32_t l = 0; l < r.nloops; l++) dfi_free(r.loops[l].var);
  dfi_free(r.at);
  dfi_free(r.cond);
  dfi_free(r.unstructured);
  dfi_free(r.origin);
  dfi_free(r.loop_table);
  dfi_free(r.place);
  dfi_free(r.conds);
  dfi_free(r.loops);
  dfi_free(r.first_user);
  dfi_free(r.user);
  return dfi_import_interrupted(r.interrupts) ? dfi_import_cancelled(err) : DF_OK;
}
