/* tell.c: what became of a plan's loops, in words, and their code. */
#include "engine/native/native.h"
#include "engine/native/plugin.h"
#include <math.h>
#include <stdio.h>

/* The compiled unit that the loop is part of, other than its own; NULL: none. */
static const dfi_unit *around(const dfi_unit *all, const dfi_plan *p, const dfi_scope *s) {
  for (int32_t i = 0; i < p->nscopes; i++)
    for (const dfi_unit *u = &all[i]; u && i != s->id; u = dfi_unit_other(u)) {
      if (atomic_load_explicit(&u->state, memory_order_acquire) != DFI_UNIT_READY) continue;
      for (int32_t k = 1; k < u->nloops; k++) if (u->loop[k].scope == s) return u;
    }
  return NULL;
}

static void tell_types(const dfi_unit *u, dfi_text *t) {
  const dfi_scope *s = u->scope;
  const char *between = "";
  for (uint32_t i = 0; i < s->nenters; i++) {
    const dfi_cell *c = &u->cell[i];
    if (s->enters[i]->constant || !c->used) continue;
    dfi_text_add(t, "%s%s", between, c->handle ? "array" : df_dtype_name(c->dtype));
    between = ", ";
  }
}

/* Does one of its loops run many iterations at once? */
static bool bursts(const dfi_unit *u) {
  for (int32_t i = 0; i < u->nloops; i++) if (u->loop[i].bursts) return true;
  return false;
}

/* How its code came to be there. */
static void tell_time(const dfi_unit *u, dfi_text *t) {
  const char *how = u->shared ? "shared" : u->from_disk ? "from the disk" : "compiled";
  dfi_text_add(t, "; %s in %.1f ms", how, u->compile_ms);
  if (atomic_load_explicit(&u->tier, memory_order_acquire) == DFI_TIER_BETTER)
    dfi_text_add(t, " and improved in %.1f", u->better_ms);
}

/* Why a unit that was refused is the tokens'. */
static const char *why_tokens(const dfi_unit *u) {
  return u->reason ? u->reason : "again and again it failed, or met what it was not compiled for";
}

/* A plan's top level. */
static void tell_top(const dfi_unit *u, dfi_text *t) {
  dfi_text_add(t, "top level  ");
  switch ((dfi_unit_state)atomic_load_explicit(&u->state, memory_order_acquire)) {
    case DFI_UNIT_READY:
      dfi_text_add(t, "native: %u nodes", u->scope->n);
      tell_time(u, t);
      dfi_text_add(t, "\n");
      break;
    case DFI_UNIT_REFUSED:
      dfi_text_add(t, "tokens: %s\n", why_tokens(u));
      break;
    case DFI_UNIT_WAITING: dfi_text_add(t, "tokens: it is being compiled\n"); break;
    case DFI_UNIT_COLD: dfi_text_add(t, "tokens: it has not become hot\n");
  }
}

/* How many loops, or functions, are part of it. */
static void tell_inside(const dfi_unit *u, const char *what, dfi_text *t) {
  int32_t n = 0;
  for (int32_t k = 1; k < u->nloops; k++)
    n += u->loop[k].scope != u->scope && dfi_is_function(u->loop[k].scope) == (*what == 'f');
  if (n) dfi_text_add(t, "; %d %s%s inside", n, what, n > 1 ? "s" : "");
}

static void tell_unit(const dfi_unit *all, const dfi_unit *u, dfi_text *t) {
  const dfi_scope *s = u->scope;
  const dfi_unit *outer = around(all, u->plan, s);
  dfi_text_add(t, "%s  ", s->name);
  switch ((dfi_unit_state)atomic_load_explicit(&u->state, memory_order_acquire)) {
    case DFI_UNIT_READY:
      dfi_text_add(t, dfi_is_function(s) ? "native: calls" : "native: variables ");
      tell_types(u, t);
      tell_inside(u, "loop", t);
      tell_inside(u, "function", t);
      if (bursts(u)) dfi_text_add(t, "; many iterations at once");
      dfi_unit_tell_met(u, t);
      tell_time(u, t);
      break;
    case DFI_UNIT_REFUSED:
      dfi_text_add(t, "tokens: %s", why_tokens(u));
      break;
    case DFI_UNIT_WAITING: dfi_text_add(t, "tokens: it is being compiled"); break;
    case DFI_UNIT_COLD:
      if (outer) dfi_text_add(t, "native: part of %s", outer->scope->name);
      else dfi_text_add(t, "tokens: it has not become hot");
  }
  if (s->where && s->where[0]) dfi_text_add(t, "  %s", s->where);
  dfi_text_add(t, "\n");
}

static void tell_code(const dfi_unit *u, int32_t what, dfi_text *t) {
  if (atomic_load_explicit(&u->state, memory_order_acquire) != DFI_UNIT_READY) return;
  char *machine = what == DF_NATIVE_MACHINE ? dfi_native_assembly(u) : NULL;
  dfi_text_add(t, "%s", machine ? machine : what == DF_NATIVE_LLVM ? u->text.at : "");
  free(machine);
}

/* What became of a function's calls, or a loop's iterations, whose ready nodes are computed as one. */
static void tell_batches(const dfi_plan *p, const dfi_scope *s, dfi_text *t) {
  int64_t calls = 0, members = 0;
  uint32_t most = 0;
  for (uint32_t i = 0; i < s->n + s->ngroups; i++) {
    const dfi_pnode *q = &p->node[s->first + i];
    const bool runs = i < s->n && (q->kind == DFI_K_KERNEL || q->kind == DFI_K_SCALAR);
    const uint32_t list = i >= s->n ? p->group[s->groups[i - s->n]].batch : runs ? q->batch & ~DFI_LATE : 0;
    if (!list) continue;
    const dfi_batch_reached *r = &p->reached[list - 1];
    calls += atomic_load_explicit(&r->calls, memory_order_relaxed);
    members += atomic_load_explicit(&r->members, memory_order_relaxed);
    const uint32_t own = atomic_load_explicit(&r->most, memory_order_relaxed);
    if (own > most) most = own;
  }
  dfi_text_add(t, "%s  batched: ", s->name);
  if (calls)
    dfi_text_add(t, "%lld nodes in %lld calls of kernels, %.1f a call, %u at most", (long long)members,
                 (long long)calls, (double)members / (double)calls, most);
  else dfi_text_add(t, p->parts ? "not where a run has several owners" : "no two nodes were ready at once");
  if (s->where && s->where[0]) dfi_text_add(t, "  %s", s->where);
  dfi_text_add(t, "\n");
}

/* What a node takes each way, and so which way runs go, where that is measured. */
static void tell_costs(const dfi_plan *p, dfi_text *t) {
  const float alone = atomic_load_explicit(&p->batch_costs.node_ns[0], memory_order_relaxed);
  const float together = atomic_load_explicit(&p->batch_costs.node_ns[1], memory_order_relaxed);
  if (!(alone > 0 && together > 0 && isfinite(alone) && isfinite(together))) return;
  dfi_text_add(t, "batch = 'auto': %s, a node takes %.2f us batched and %.2f us one by one\n",
               together <= alone ? "calls are batched" : "calls run one by one", together / 1e3, alone / 1e3);
}

void dfi_native_tell(dfi_plan *p, int32_t what, const char *loop, dfi_text *t) {
  if (p->cudagraph) return;
  dfi_units *units = __atomic_load_n(&p->native, __ATOMIC_ACQUIRE);
  const dfi_unit *top = p->scope[0].engine_ops && units && !loop ? units->unit : NULL;
  if (top && what == DF_NATIVE_SUMMARY) tell_top(top, t);
  else if (top) tell_code(top, what, t);
  if (p->batch_measured && what == DF_NATIVE_SUMMARY && !loop) tell_costs(p, t);
  for (int32_t i = 1; i < p->nscopes; i++) {
    const dfi_scope *s = &p->scope[i];
    if (s->batch && what == DF_NATIVE_SUMMARY && (!loop || !strcmp(loop, s->name))) tell_batches(p, s, t);
    if (s->batch || (s->parent < 0 && !s->engine_ops) || (loop && strcmp(loop, s->name))) continue;
    if (!units || !s->engine_ops) {
      if (what == DF_NATIVE_SUMMARY)
        dfi_text_add(t, "%s  tokens: %s\n", s->name,
                     s->engine_ops ? "it has not run" : "the session's engine is tokens");
      continue;
    }
    const dfi_unit *u = dfi_unit_other(&units->unit[i]);
    if (!u) u = &units->unit[i];
    for (; u; u = dfi_unit_other(u)) {
      if (what == DF_NATIVE_SUMMARY) tell_unit(units->unit, u, t);
      else tell_code(u, what, t);
    }
  }
}
