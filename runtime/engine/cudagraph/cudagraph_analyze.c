/* cudagraph_analyze.c: can a loop be captured, and in which order do its nodes run? See cudagraph.h.
 *
 * The body is one straight line, and its conds, whose kernels do nothing but compute. Tokens are followed as the token
 * engine would, with conditions (guards) in place of values: a node is alive under the deepest one that its tokens come
 * with. What is alive under the sides of one predicate comes together, as one IF node, or as several where something
 * comes in between. In which order the rest ran would not change a bit. A loop inside is one step of it, once all that
 * enters it is there.
 */
#include "engine/cudagraph/cudagraph.h"
#include <stdarg.h>
#include <stdio.h>

bool dfi_cudagraph_refuse(dfi_cudagraph_loop *l, const dfi_pnode *p, const char *format, ...) {
  va_list more;
  va_start(more, format);
  char *mine = dfi_engine_reason(p, format, more), *none = NULL;
  va_end(more);
  if (!atomic_compare_exchange_strong(&l->reason, &none, mine)) dfi_free(mine);
  return false;
}

static const dfi_device *device_of(const dfi_plan *p, const dfi_pnode *n) { return p->devices->at[n->device]; }

/* Does a kernel of this node do nothing but compute, of what lies on its device? */
static bool computes(const dfi_plan *plan, dfi_cudagraph_loop *l, const dfi_pnode *p) {
  const df_op *op = p->op;
  const dfi_device *d = device_of(plan, p);
  if (dfi_cudagraph_accesses(op) && (d->remote ? d->remote->capture != NULL : !d->arena)) return true;
  if (p->has_handle || p->reads) return dfi_cudagraph_refuse(l, p, "it works on a variable, a list or a whole array");
  if (op->stateful || op->effect || op->ordered || op->waits || (op->traits & (DFO_RANDOM | DFO_HOST | DFO_TELLS)))
    return dfi_cudagraph_refuse(l, p, op->traits & DFO_RANDOM ? "it draws random numbers"
                                                            : "it has effects, or reads what others change");
  if (!d->remote) {
    if (d->arena) return dfi_cudagraph_refuse(l, p, "it is on %s", d->name);
    return p->kind == DFI_K_SCALAR || dfi_cudagraph_refuse(l, p, "the host computes it, and it is more than a number");
  }
  if (!p->gpu && op->remote == DFI_REMOTE_NO && p->kind != DFI_K_SCALAR)
    return dfi_cudagraph_refuse(l, p, "%s has no kernel for it, so the host computes it", d->name);
  if (l->kernel && l->kernel->device != p->device)
    return dfi_cudagraph_refuse(l, p, "it is on %s, and others are on %s", d->name, device_of(plan, l->kernel)->name);
  if (!d->remote->capture) return dfi_cudagraph_refuse(l, p, "%s has no graphs", d->name);
  l->kernel = p;
  l->device = p->device;
  return true;
}

static bool known_kind(const dfi_plan *plan, dfi_cudagraph_loop *l, const dfi_pnode *p) {
  switch ((dfi_kind)p->kind) {
  case DFI_K_SCALAR: case DFI_K_KERNEL: return computes(plan, l, p);
  case DFI_K_SWITCH: case DFI_K_NEXT: case DFI_K_EXIT: case DFI_K_CONST: case DFI_K_NOOP: case DFI_K_ENTER:
  case DFI_K_READ: return true;      /* what others assign meanwhile may come earlier or later */
  case DFI_K_TRANSFER: return p->nin == 1 || dfi_cudagraph_refuse(l, p, "a control edge goes from device to device");
  case DFI_K_MERGE:
    return (p->nin == 2 && !l->scope->uses[p->out + 1]) || dfi_cudagraph_refuse(l, p, "it is not a cond's");
  case DFI_K_CALL: case DFI_K_ARG: case DFI_K_RETURN: return dfi_cudagraph_refuse(l, p, "a function is called");
  default: return dfi_cudagraph_refuse(l, p, "it is not part of a straight line");
  }
}

typedef struct walk {
  const dfi_plan *plan; dfi_cudagraph_loop *l; bool *there, *ran; const dfi_pnode **maker;
  int32_t *missing, (*arrived)[2]; uint32_t *ready, nready;      /* by node: tokens to come; of a Merge: whose guards */
  uint8_t *joined;                                               /* of a Merge: bits */
} walk;

/* Where the operand was computed, on whatever device it is read. */
static dfi_operand origin(const walk *w, dfi_operand o) {
  while (DFI_SPACE(o) == DFI_ITERATION && w->maker[DFI_INDEX(o)] && w->maker[DFI_INDEX(o)]->kind == DFI_K_TRANSFER)
    o = w->plan->operand[w->maker[DFI_INDEX(o)]->in];
  return o;
}

static const dfi_pnode *node_at(const walk *w, uint32_t i) { return w->plan->node + w->l->scope->first + i; }

/* ---- under which conditions -------------------------------------------------------------------------------------- */

static void find_makers(walk *w) {
  for (uint32_t i = 0; i < w->l->scope->n; i++) {
    const dfi_pnode *p = node_at(w, i);
    if (dfi_is_next(p->kind) || dfi_is_exit(p->kind) || p->kind == DFI_K_ENTER) continue;
    for (uint32_t k = 0; k < p->nout; k++) w->maker[p->out + k] = p;
  }
  for (int32_t k = 0; k < w->l->ninner; k++) {
    const dfi_scope *s = w->l->inner[k].loop->scope;
    for (uint32_t i = 0; i < s->nexits; i++) w->maker[s->exits[i]->out] = s->exits[i];
  }
}

/* That which decides whether there is another iteration: of the Switches whose data leave the loop. */
static bool find_predicate(walk *w) {
  dfi_cudagraph_loop *l = w->l;
  for (uint32_t i = 0; i < l->scope->nexits; i++) {
    const dfi_operand o = w->plan->operand[l->scope->exits[i]->in];
    const dfi_pnode *p = DFI_SPACE(o) == DFI_ITERATION ? w->maker[DFI_INDEX(o)] : NULL;
    if (!p || p->kind != DFI_K_SWITCH) continue;
    l->pred = origin(w, w->plan->operand[p->in + 1]);
    return true;
  }
  return dfi_cudagraph_refuse(l, NULL, "it has no predicate");
}

static bool inside(const dfi_cudagraph_loop *l, int32_t inner, int32_t outer) {
  while (inner > outer) inner = l->guard[inner].parent;      /* a guard comes after those around it */
  return inner == outer;
}

/* The first of the two guards that a Switch on pred makes of g. */
static int32_t pair_of(dfi_cudagraph_loop *l, int32_t g, dfi_operand pred) {
  for (int32_t i = 1; i < l->nguards; i += 2) if (l->guard[i].parent == g && l->guard[i].pred == pred) return i;
  l->guard = dfi_xrealloc(l->guard, sizeof *l->guard * (size_t)(l->nguards + 2));
  for (uint8_t side = 0; side < 2; side++)
    l->guard[l->nguards++] = (dfi_cudagraph_guard){ .parent = g, .side = side, .pred = pred };
  return l->nguards - 2;
}

/* dead: it is, in the iteration whose predicate says no. */
static bool arrive(walk *w, const dfi_edge *e, int32_t g, bool dead) {
  dfi_cudagraph_loop *l = w->l;
  int32_t *mine = &l->guard_of[e->node];
  const dfi_pnode *p = node_at(w, e->node);
  const uint32_t how = e->to & 0xff;
  l->last_dead[e->node] |= dead;
  if (how == DFI_TO_MERGE_CONTROL) return dfi_cudagraph_refuse(l, p, "it waits for something else too");
  if (how == DFI_TO_MERGE) w->arrived[e->node][e->to >> 8 & 1] = g;
  else if (*mine < 0 || inside(l, g, *mine)) *mine = g;
  else if (!inside(l, *mine, g)) return dfi_cudagraph_refuse(l, p, "its inputs are alive under different conditions");
  if (--w->missing[e->node] == 0) w->ready[w->nready++] = e->node;
  return true;
}
static bool arrive_all(walk *w, uint32_t from, uint32_t to, int32_t g, bool dead) {
  for (uint32_t e = from; e < to; e++) if (!arrive(w, &w->plan->edge[e], g, dead)) return false;
  return true;
}

/* A Merge is alive where its Switch is. */
static bool merge_guard(walk *w, uint32_t i) {
  dfi_cudagraph_loop *l = w->l;
  const int32_t a = w->arrived[i][0], b = w->arrived[i][1];
  if (a <= 0 || b <= 0 || (a - 1) / 2 != (b - 1) / 2 || a == b)
    return dfi_cudagraph_refuse(l, node_at(w, i), "it is not a cond's");
  l->guard_of[i] = l->guard[a].parent;
  l->pair_of[i] = (a - 1) | 1;
  l->first_side[i] = l->guard[a].side;
  return true;
}

/* Which loop inside Enter p goes into; NULL: none that is known. */
static dfi_cudagraph_inner *inner_of(const dfi_cudagraph_loop *l, const dfi_pnode *p) {
  for (int32_t k = 0; k < l->ninner; k++)
    if ((uint32_t)l->inner[k].loop->scope->id == p->target) return &l->inner[k];
  return NULL;
}

/* An Enter's token has come. With the last one the loop inside gives what leaves it, where its variables are alive. */
static bool entered(walk *w, uint32_t i) {
  dfi_cudagraph_loop *l = w->l;
  const dfi_pnode *p = node_at(w, i);
  const int32_t g = l->guard_of[i];
  dfi_cudagraph_inner *in = inner_of(l, p);
  if (!in) return dfi_cudagraph_refuse(l, p, "it is not part of a straight line");
  if (!p->constant && in->guard >= 0 && in->guard != g)
    return dfi_cudagraph_refuse(l, p, "variables of a loop inside are alive under different conditions");
  if (!p->constant) in->guard = g;
  if (--in->missing) return true;
  const dfi_scope *s = in->loop->scope;
  bool dead = false;
  for (uint32_t k = 0; k < s->nenters; k++) {
    const uint32_t e = (uint32_t)(s->enters[k] - (w->plan->node + l->scope->first));
    if (in->guard < 0 || !inside(l, in->guard, l->guard_of[e]))
      return dfi_cudagraph_refuse(l, p, "its inputs are alive under different conditions");
    dead = dead || (!s->enters[k]->constant && l->last_dead[e]);
  }
  for (uint32_t k = 0; k < s->nexits; k++)
    if (!arrive_all(w, s->exits[k]->edge[0], s->exits[k]->edge[1], in->guard, dead)) return false;
  return true;
}

/* All tokens of node i have come: it sends on its own. */
static bool follow(walk *w, uint32_t i) {
  dfi_cudagraph_loop *l = w->l;
  const dfi_pnode *p = node_at(w, i);
  if (p->kind == DFI_K_MERGE && !merge_guard(w, i)) return false;
  if (dfi_is_exit(p->kind) || dfi_is_next(p->kind)) return true;
  if (l->guard_of[i] < 0) l->guard_of[i] = 0;
  const int32_t g = l->guard_of[i];
  const bool dead = l->last_dead[i];
  l->guard[g].nodes++;
  if (p->kind == DFI_K_ENTER) return entered(w, i);
  if (p->kind != DFI_K_SWITCH) return arrive_all(w, p->edge[0], p->edge[1], g, dead);
  const dfi_operand pred = origin(w, w->plan->operand[p->in + 1]);
  if (pred == l->pred)                     /* what goes on */
    return arrive_all(w, p->edge[1], p->edge[2], g, true) && arrive_all(w, p->edge[2], p->edge[3], g, dead);
  const int32_t pair = l->pair_of[i] = pair_of(l, g, pred);
  return arrive_all(w, p->edge[0], p->edge[1], pair, dead) && arrive_all(w, p->edge[1], p->edge[2], pair + 1, dead) &&
         arrive_all(w, p->edge[2], p->edge[3], g, dead);
}

static void expect(walk *w, uint32_t from, uint32_t to) {
  for (uint32_t e = from; e < to; e++) w->missing[w->plan->edge[e].node]++;
}

static bool find_guards(walk *w) {
  dfi_cudagraph_loop *l = w->l;
  const dfi_scope *s = l->scope;
  l->guard = dfi_xcalloc(1, sizeof *l->guard);
  l->nguards = 1;
  for (uint32_t i = 0; i < s->n; i++) {
    const dfi_pnode *p = node_at(w, i);
    l->guard_of[i] = l->pair_of[i] = w->arrived[i][0] = w->arrived[i][1] = -1;
    if (!dfi_is_next(p->kind) && !dfi_is_exit(p->kind) && p->kind != DFI_K_ENTER)
      expect(w, p->edge[0], p->edge[p->kind == DFI_K_SWITCH ? 3 : 1]);
  }
  for (int32_t k = 0; k < l->ninner; k++) {
    const dfi_scope *in = l->inner[k].loop->scope;
    for (uint32_t i = 0; i < in->nexits; i++) expect(w, in->exits[i]->edge[0], in->exits[i]->edge[1]);
  }
  for (uint32_t i = 0; i < s->nenters; i++)
    if (!s->enters[i]->constant) expect(w, s->enters[i]->edge[0], s->enters[i]->edge[1]);
  for (uint32_t i = 0; i < s->nroots; i++) if (!w->missing[s->roots[i]]) w->ready[w->nready++] = s->roots[i];
  for (uint32_t i = 0; i < s->nenters; i++)
    if (!s->enters[i]->constant && !arrive_all(w, s->enters[i]->edge[0], s->enters[i]->edge[1], 0, false))
      return false;
  for (uint32_t i = 0; i < w->nready; i++) if (!follow(w, w->ready[i])) return false;
  return true;
}

/* ---- in which order ---------------------------------------------------------------------------------------------- */

static bool is_there(const walk *w, dfi_operand o) {
  return DFI_SPACE(o) != DFI_ITERATION || w->there[DFI_INDEX(o)];
}

static bool can_run(const walk *w, uint32_t i) {
  const dfi_pnode *p = node_at(w, i);
  if (p->kind == DFI_K_MERGE) return w->joined[i] == 3;
  if (p->group) {
    const dfi_group *g = &w->plan->group[p->group - 1];
    for (int32_t k = 0; k < g->chain.ninputs; k++) if (!is_there(w, g->input[k].at)) return false;
    return true;
  }
  for (uint32_t k = 0; k < p->nin; k++) if (!is_there(w, w->plan->operand[p->in + k])) return false;
  return true;
}
static bool waits(const walk *w, uint32_t i) {
  const dfi_pnode *p = node_at(w, i);
  return !w->ran[i] && !dfi_is_next(p->kind) && !dfi_is_exit(p->kind) && p->kind != DFI_K_ENTER && can_run(w, i);
}

/* What p makes is there: of the loop's own Switch, what goes on. */
static void has_run(walk *w, const dfi_pnode *p) {
  const bool own = p->kind == DFI_K_SWITCH && origin(w, w->plan->operand[p->in + 1]) == w->l->pred;
  for (uint32_t i = own; i < p->nout; i++) w->there[p->out + i] = true;
}

static void put_step(walk *w, dfi_cudagraph_do what, uint32_t node, int32_t group) {
  dfi_cudagraph_loop *l = w->l;
  if ((l->nsteps & (l->nsteps - 1)) == 0)
    l->step = dfi_xrealloc(l->step, sizeof *l->step * (size_t)(l->nsteps ? 2 * l->nsteps : 1));
  l->step[l->nsteps++] = (dfi_cudagraph_step){ node, group, what };
}

static void run_node(walk *w, uint32_t i) {
  const dfi_pnode *p = node_at(w, i);
  put_step(w, DFI_CUDAGRAPH_RUN, i, (int32_t)p->group - 1);
  if (!p->group) { w->ran[i] = true; has_run(w, p); return; }
  const dfi_group *g = &w->plan->group[p->group - 1];
  for (int32_t k = 0; k < g->n; k++) { w->ran[g->member[k].node] = true; has_run(w, node_at(w, g->member[k].node)); }
}

/* Has the loop inside not begun, and is there all that enters it? */
static bool may_start(const walk *w, const dfi_cudagraph_inner *in) {
  const dfi_scope *s = in->loop->scope;
  bool can = !in->started;
  for (uint32_t k = 0; k < s->nenters && can; k++)
    can = can_run(w, (uint32_t)(s->enters[k] - (w->plan->node + w->l->scope->first)));
  return can;
}

static void start(walk *w, int32_t which) {
  dfi_cudagraph_inner *in = &w->l->inner[which];
  const dfi_scope *s = in->loop->scope;
  put_step(w, DFI_CUDAGRAPH_LOOP, (uint32_t)which, -1);
  in->started = true;
  for (uint32_t k = 0; k < s->nenters; k++) w->ran[s->enters[k] - (w->plan->node + w->l->scope->first)] = true;
  for (uint32_t k = 0; k < s->nexits; k++) w->there[s->exits[k]->out] = true;
}

/* Could a Merge's input that comes under guard g be joined? */
static int32_t joins(const walk *w, uint32_t i, int32_t g) {
  if (node_at(w, i)->kind != DFI_K_MERGE || w->ran[i]) return -1;
  const dfi_operand *in = w->plan->operand + node_at(w, i)->in;
  for (int32_t k = 0; k < 2; k++)
    if (w->arrived[i][k] == g && !(w->joined[i] >> k & 1) && is_there(w, in[k])) return k;
  return -1;
}

/* Is there something to do under g, or inside it? */
static bool moves(const walk *w, int32_t g) {
  for (uint32_t i = 0; i < w->l->scope->n; i++) {
    if (w->l->guard_of[i] >= 0 && inside(w->l, w->l->guard_of[i], g) && waits(w, i)) return true;
    for (int32_t k = 0; k < 2; k++)
      if (w->arrived[i][k] > 0 && inside(w->l, w->arrived[i][k], g) && joins(w, i, w->arrived[i][k]) >= 0) return true;
  }
  for (int32_t k = 0; k < w->l->ninner; k++)
    if (inside(w->l, w->l->inner[k].guard, g) && may_start(w, &w->l->inner[k])) return true;
  return false;
}

/* All that can be done under g, conds inside it where nothing else is left to do. */
static void put_in_order(walk *w, int32_t g) {
  dfi_cudagraph_loop *l = w->l;
  for (bool moved = true; moved; ) {
    moved = false;
    for (uint32_t i = 0; i < l->scope->n; i++) {
      if (l->guard_of[i] == g && waits(w, i)) { run_node(w, i); moved = true; }
      const int32_t input = g ? joins(w, i, g) : -1;
      if (input < 0) continue;
      put_step(w, DFI_CUDAGRAPH_JOIN, i, input);
      w->joined[i] |= (uint8_t)(1 << input);
      moved = true;
    }
    for (int32_t k = 0; k < l->ninner && !moved; k++)
      if (l->inner[k].guard == g && may_start(w, &l->inner[k])) { start(w, k); moved = true; }
    for (int32_t q = 1; q < l->nguards && !moved; q += 2) {
      if (l->guard[q].parent != g || (!moves(w, q) && !moves(w, q + 1))) continue;
      put_step(w, DFI_CUDAGRAPH_OPEN, (uint32_t)q, -1);
      put_in_order(w, q + 1);
      put_step(w, DFI_CUDAGRAPH_OTHERWISE, (uint32_t)q, -1);
      put_in_order(w, q);
      put_step(w, DFI_CUDAGRAPH_CLOSE, (uint32_t)q, -1);
      moved = true;
    }
  }
}

static bool in_order(walk *w) {
  dfi_cudagraph_loop *l = w->l;
  put_in_order(w, 0);
  for (uint32_t i = 0; i < l->scope->n; i++) {
    const dfi_pnode *p = node_at(w, i);
    if (dfi_is_exit(p->kind)) continue;
    l->taken++;
    if (dfi_is_next(p->kind) ? !can_run(w, i) || l->guard_of[i] > 0 : !w->ran[i])
      return dfi_cudagraph_refuse(l, p, "it does not run in each iteration");
    l->merged += dfi_is_next(p->kind) && p->merges;
    l->died_last += l->last_dead[i];
  }
  return true;
}

/* Transfers that bring a predicate to the host, for Switches alone. */
static void find_deciding(walk *w) {
  dfi_cudagraph_loop *l = w->l;
  const dfi_scope *s = l->scope;
  uint32_t *readers = dfi_xcalloc(s->nslots + 1, sizeof *readers);
  for (uint32_t i = 0; i < s->n; i++) {
    const dfi_pnode *p = node_at(w, i);
    if (p->kind == DFI_K_SWITCH && DFI_SPACE(w->plan->operand[p->in + 1]) == DFI_ITERATION)
      readers[DFI_INDEX(w->plan->operand[p->in + 1])]++;
  }
  for (uint32_t i = 0; i < s->n; i++) {
    const dfi_pnode *p = node_at(w, i);
    l->decides[i] = p->kind == DFI_K_TRANSFER && p->constant && p->nout && readers[p->out] == s->uses[p->out];
  }
  dfi_free(readers);
}

static void find_variables(dfi_cudagraph_loop *l, const dfi_plan *plan) {
  const dfi_scope *s = l->scope;
  l->var = dfi_xcalloc(s->nenters + 1, sizeof *l->var);
  for (uint32_t i = 0; i < s->nenters; i++) {
    if (s->enters[i]->constant) continue;
    dfi_cudagraph_var *v = &l->var[l->nvars++];
    v->enter = s->enters[i];
    for (uint32_t k = 0; k < s->n; k++) {
      const dfi_pnode *p = plan->node + s->first + k;
      if (dfi_is_next(p->kind) && p->out == v->enter->out) v->next = p;
    }
  }
}

bool dfi_cudagraph_analyze(const dfi_plan *plan, dfi_cudagraph_loop *l) {
  const dfi_scope *s = l->scope;
  if (l->looked) return !atomic_load(&l->reason);
  l->looked = true;
  if (!dfi_cudagraph_find_inner(plan, l)) return false;
  for (uint32_t i = 0; i < s->n; i++) if (!known_kind(plan, l, plan->node + s->first + i)) return false;
  for (int32_t k = 0; k < l->ninner && !l->kernel; k++) {
    l->kernel = l->inner[k].loop->kernel;
    l->device = l->inner[k].loop->device;
  }
  if (!l->kernel) return dfi_cudagraph_refuse(l, NULL, "nothing in it is computed by a GPU");
  walk w = { .plan = plan, .l = l };
  w.there = dfi_xcalloc(s->nslots + 1, sizeof *w.there);
  w.ran = dfi_xcalloc(s->n + 1, sizeof *w.ran);
  w.maker = dfi_xcalloc(s->nslots + 1, sizeof *w.maker);
  w.missing = dfi_xcalloc(s->n + 1, sizeof *w.missing);
  w.arrived = dfi_xcalloc(s->n + 1, sizeof *w.arrived);
  w.ready = dfi_xcalloc(s->n + 1, sizeof *w.ready);
  w.joined = dfi_xcalloc(s->n + 1, sizeof *w.joined);
  l->guard_of = dfi_xcalloc(s->n + 1, sizeof *l->guard_of);
  l->pair_of = dfi_xcalloc(s->n + 1, sizeof *l->pair_of);
  l->first_side = dfi_xcalloc(s->n + 1, sizeof *l->first_side);
  l->decides = dfi_xcalloc(s->n + 1, sizeof *l->decides);
  l->last_dead = dfi_xcalloc(s->n + 1, sizeof *l->last_dead);
  find_variables(l, plan);
  bool ok = dfi_cudagraph_find_arrays(plan, l);
  for (int32_t k = 0; k < l->nvars; k++) w.there[l->var[k].enter->out] = true;
  for (uint32_t i = 0; i < s->ncopies; i++) w.there[s->copies[i].slot] = true;
  find_makers(&w);
  find_deciding(&w);
  ok = ok && find_predicate(&w) && find_guards(&w) && in_order(&w) && dfi_cudagraph_inner_fit(plan, l);
  dfi_free(w.there); dfi_free(w.ran); dfi_free(w.maker); dfi_free(w.missing);
  dfi_free(w.arrived); dfi_free(w.ready); dfi_free(w.joined);
  return ok;
}
