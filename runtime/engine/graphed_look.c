/* graphed_look.c: can a loop be captured, and in which order do its nodes run? See graphed.h.
 *
 * All nodes of the body must run in each iteration: one straight line, whose Switches are the loop's own, and whose
 * kernels do nothing but compute. In which order they ran would not change a bit.
 */
#include "engine/graphed.h"
#include <stdarg.h>
#include <stdio.h>

bool dfi_graphed_refuse(dfi_graphed_loop *l, const dfi_pnode *p, const char *format, ...) {
  va_list more;
  va_start(more, format);
  char *mine = dfi_engine_reason(p, format, more), *none = NULL;
  va_end(more);
  if (!atomic_compare_exchange_strong(&l->reason, &none, mine)) dfi_free(mine);
  return false;
}

static const dfi_device *device_of(const dfi_plan *p, const dfi_pnode *n) { return p->devices->at[n->device]; }

/* Does a kernel of this node do nothing but compute, of what lies on its device? */
static bool computes(const dfi_plan *plan, dfi_graphed_loop *l, const dfi_pnode *p) {
  const df_op *op = p->op;
  const dfi_device *d = device_of(plan, p);
  if (p->has_handle || p->reads) return dfi_graphed_refuse(l, p, "it works on a variable, an array or a list");
  if (op->stateful || op->effect || op->ordered || op->waits || (op->traits & (DFO_RANDOM | DFO_HOST | DFO_TELLS)))
    return dfi_graphed_refuse(l, p, op->traits & DFO_RANDOM ? "it draws random numbers"
                                                            : "it has effects, or reads what others change");
  if (!d->remote) {
    if (d->arena) return dfi_graphed_refuse(l, p, "it is on %s", d->name);
    return p->kind == DFI_K_SCALAR || dfi_graphed_refuse(l, p, "the host computes it, and it is more than a number");
  }
  if (!p->gpu && op->remote == DFI_REMOTE_NO && p->kind != DFI_K_SCALAR)
    return dfi_graphed_refuse(l, p, "%s has no kernel for it, so the host computes it", d->name);
  if (l->kernel && l->kernel->device != p->device)
    return dfi_graphed_refuse(l, p, "it is on %s, and others are on %s", d->name, device_of(plan, l->kernel)->name);
  if (!d->remote->capture) return dfi_graphed_refuse(l, p, "%s has no graphs", d->name);
  l->kernel = p;
  l->device = p->device;
  return true;
}

static bool known_kind(const dfi_plan *plan, dfi_graphed_loop *l, const dfi_pnode *p) {
  switch ((dfi_kind)p->kind) {
  case DFI_K_SCALAR: case DFI_K_KERNEL: return computes(plan, l, p);
  case DFI_K_SWITCH: case DFI_K_NEXT: case DFI_K_EXIT: case DFI_K_CONST: case DFI_K_NOOP:
  case DFI_K_READ: return true;      /* what others assign meanwhile may come earlier or later */
  case DFI_K_TRANSFER: return p->nin == 1 || dfi_graphed_refuse(l, p, "a control edge goes from device to device");
  case DFI_K_MERGE: return dfi_graphed_refuse(l, p, "a cond: not every iteration does the same");
  case DFI_K_CALL: case DFI_K_ARG: case DFI_K_RETURN: return dfi_graphed_refuse(l, p, "a function is called");
  default: return dfi_graphed_refuse(l, p, "it is not part of a straight line");
  }
}

typedef struct walk { const dfi_plan *plan; dfi_graphed_loop *l; bool *there, *ran; const dfi_pnode **maker; } walk;

static bool is_there(const walk *w, dfi_operand o) {
  return DFI_SPACE(o) != DFI_ITERATION || w->there[DFI_INDEX(o)];
}

static bool can_run(const walk *w, const dfi_pnode *p) {
  if (p->group) {
    const dfi_group *g = &w->plan->group[p->group - 1];
    for (int32_t i = 0; i < g->chain.ninputs; i++) if (!is_there(w, g->input[i].at)) return false;
    return true;
  }
  for (uint32_t i = 0; i < p->nin; i++) if (!is_there(w, w->plan->operand[p->in + i])) return false;
  return true;
}

/* What p makes is there: of a Switch, what goes on. */
static void has_run(walk *w, const dfi_pnode *p) {
  const uint32_t first = p->out + (p->kind == DFI_K_SWITCH), n = p->kind == DFI_K_SWITCH ? 1 : p->nout;
  for (uint32_t i = 0; i < n; i++) { w->there[first + i] = true; w->maker[first + i] = p; }
}

static void step(walk *w, uint32_t i) {
  dfi_graphed_loop *l = w->l;
  const dfi_pnode *at = w->plan->node + l->scope->first, *p = at + i;
  l->step[l->nsteps++] = (dfi_graphed_step){ i, (int32_t)p->group - 1 };
  if (!p->group) { w->ran[i] = true; has_run(w, p); return; }
  const dfi_group *g = &w->plan->group[p->group - 1];
  for (int32_t k = 0; k < g->n; k++) { w->ran[g->member[k].node] = true; has_run(w, at + g->member[k].node); }
}

/* Puts the nodes into an order in which they can run. */
static bool in_order(walk *w) {
  dfi_graphed_loop *l = w->l;
  const dfi_scope *s = l->scope;
  const dfi_pnode *at = w->plan->node + s->first;
  for (bool moved = true; moved; ) {
    moved = false;
    for (uint32_t i = 0; i < s->n; i++) {
      const dfi_pnode *p = at + i;
      if (w->ran[i] || dfi_is_next(p->kind) || dfi_is_exit(p->kind) || !can_run(w, p)) continue;
      step(w, i);
      moved = true;
    }
  }
  for (uint32_t i = 0; i < s->n; i++) {
    const dfi_pnode *p = at + i;
    if (dfi_is_exit(p->kind)) continue;
    l->taken++;
    if (dfi_is_next(p->kind) ? !can_run(w, p) : !w->ran[i])
      return dfi_graphed_refuse(l, p, "it does not run in each iteration");
    l->merged += dfi_is_next(p->kind) && p->merges;
  }
  return true;
}

/* Where the operand was computed, on whatever device it is read. */
static dfi_operand origin(const walk *w, dfi_operand o) {
  while (DFI_SPACE(o) == DFI_ITERATION && w->maker[DFI_INDEX(o)] && w->maker[DFI_INDEX(o)]->kind == DFI_K_TRANSFER)
    o = w->plan->operand[w->maker[DFI_INDEX(o)]->in];
  return o;
}

/* All Switches are the loop's own: they have one predicate. */
static bool one_predicate(walk *w) {
  dfi_graphed_loop *l = w->l;
  const dfi_pnode *first = NULL;
  for (uint32_t i = 0; i < l->scope->n; i++) {
    const dfi_pnode *p = w->plan->node + l->scope->first + i;
    if (p->kind != DFI_K_SWITCH) continue;
    const dfi_operand o = origin(w, w->plan->operand[p->in + 1]);
    if (first && o != l->pred) return dfi_graphed_refuse(l, p, "a cond: not every iteration does the same");
    first = p;
    l->pred = o;
  }
  return first || dfi_graphed_refuse(l, NULL, "it has no predicate");
}

static void find_variables(dfi_graphed_loop *l, const dfi_plan *plan) {
  const dfi_scope *s = l->scope;
  l->var = dfi_xcalloc(s->nenters + 1, sizeof *l->var);
  for (uint32_t i = 0; i < s->nenters; i++) {
    if (s->enters[i]->constant) continue;
    dfi_graphed_var *v = &l->var[l->nvars++];
    v->enter = s->enters[i];
    for (uint32_t k = 0; k < s->n; k++) {
      const dfi_pnode *p = plan->node + s->first + k;
      if (dfi_is_next(p->kind) && p->out == v->enter->out) v->next = p;
    }
  }
}

bool dfi_graphed_look(const dfi_plan *plan, dfi_graphed_loop *l) {
  const dfi_scope *s = l->scope;
  if (l->looked) return !atomic_load(&l->reason);
  l->looked = true;
  if (s->nchildren) return dfi_graphed_refuse(l, NULL, "a loop or a call is inside");
  for (uint32_t i = 0; i < s->n; i++) if (!known_kind(plan, l, plan->node + s->first + i)) return false;
  if (!l->kernel) return dfi_graphed_refuse(l, NULL, "nothing in it is computed by a GPU");
  walk w = { .plan = plan, .l = l };
  w.there = dfi_xcalloc(s->nslots + 1, sizeof *w.there);
  w.ran = dfi_xcalloc(s->n + 1, sizeof *w.ran);
  w.maker = dfi_xcalloc(s->nslots + 1, sizeof *w.maker);
  l->step = dfi_xcalloc(s->n + 1, sizeof *l->step);
  find_variables(l, plan);
  for (int32_t k = 0; k < l->nvars; k++) w.there[l->var[k].enter->out] = true;
  for (uint32_t i = 0; i < s->ncopies; i++) w.there[s->copies[i].slot] = true;
  const bool ok = in_order(&w) && one_predicate(&w);
  dfi_free(w.there);
  dfi_free(w.ran);
  dfi_free(w.maker);
  return ok;
}
