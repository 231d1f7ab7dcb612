/* graphed_exact.c: what tokens have as numbers of the host's while a graph has it on the GPU. See graphed.h.
 *
 * Both sides of a cond give numbers and the GPU knows which, or one of them does; a number is put in other dims, of
 * which there are none; a loop inside counts on the GPU. Tokens have such a value as a number, in some iterations or in
 * all, and so the host computes what is of these alone. There the graph may have only what has the same bits on every
 * device; and what a variable is must not go by it, since that shows behind the loop.
 */
#include "engine/graphed.h"
#include "engine/token.h"

/* What is true or whole is; of floats, what both sides have from one expression. */
bool dfi_graphed_exact(const dfi_pnode *p) {
  enum { MOST = 3 };
  uint8_t in[MOST];
  dfk_whole_care care;
  if (!dfi_is_float(p->out_dtype) || p->op->traits & DFO_PASSES) return true;
  for (uint32_t i = 0; i < p->nin && i < MOST; i++) in[i] = dfi_dtype(p->node->in[i]);
  return p->nin <= MOST && dfi_gpu_counts(p->op->type, (int32_t)p->nin, in, p->out_dtype, &care);
}

typedef struct walk {
  const dfi_plan *plan;
  const dfi_graphed_loop *l;
  const dfi_graphed_made *m;     /* NULL: of a loop inside */
  const dfi_record *r;           /* of the loop around all */
  bool *some;                    /* by slot: a number of the host's, in some iterations */
  bool *constant;                /* the same of what enters a loop inside and does not change; NULL: r has it */
  bool changed;
  const dfi_pnode *found;        /* the host computes it by tokens, with bits of its own */
} walk;

static bool is_some(const walk *w, dfi_operand o) {
  if (DFI_SPACE(o) == DFI_ITERATION) return w->some[DFI_INDEX(o)];
  if (DFI_SPACE(o) == DFI_FRAME && w->constant) return w->constant[DFI_INDEX(o)];
  return operand(w->r, o)->kind == DF_SCALAR;
}

static void set(walk *w, uint32_t slot, bool is) {
  w->changed |= is && !w->some[slot];
  w->some[slot] |= is;
}

bool dfi_graphed_makes_number(const dfi_pnode *p, bool first, bool any, bool all) {
  switch ((dfi_kind)p->kind) {
  case DFI_K_SWITCH: case DFI_K_TRANSFER: case DFI_K_CONST: return first;
  case DFI_K_MERGE: return any;
  case DFI_K_SCALAR: return all;
  default: return p->op->traits & DFO_RESHAPES && p->node->out[0].shape.rank < 1 && first;
  }
}

static bool makes_number(const walk *w, const dfi_pnode *p) {
  const dfi_operand *in = w->plan->operand + p->in;
  bool any = false, all = true;
  for (uint32_t k = 0; k < p->nin; k++) {
    any |= is_some(w, in[k]);
    all &= is_some(w, in[k]);
  }
  return dfi_graphed_makes_number(p, is_some(w, in[0]), any, all);
}

static void run_step(walk *w, dfi_graphed_step t) {
  const dfi_pnode *p = w->plan->node + w->l->scope->first + t.node;
  if (t.group >= 0 || !p->nout) return;
  if (w->l->access_of[t.node] >= 0) { set(w, p->out, w->m && w->m->host[p->out]); return; }
  const bool is = makes_number(w, p);
  for (uint32_t k = 0; k < p->nout; k++) set(w, p->out + k, is);
  if (is && p->kind == DFI_K_SCALAR && w->m && !w->m->host[p->out] && !dfi_graphed_exact(p)) w->found = p;
}

static void run_loop(walk *w);

/* What leaves a loop inside, by what enters it. */
static void run_inner(walk *w, const dfi_graphed_loop *in) {
  const dfi_scope *s = in->scope;
  uint32_t nconstants = 1;
  for (uint32_t k = 0; k < s->nenters; k++)
    if (s->enters[k]->constant && s->enters[k]->out >= nconstants) nconstants = s->enters[k]->out + 1;
  walk inner = { .plan = w->plan, .l = in, .r = w->r };
  inner.some = dfi_xcalloc(s->nslots + 1, sizeof *inner.some);
  inner.constant = dfi_xcalloc(nconstants, sizeof *inner.constant);
  for (uint32_t k = 0; k < s->nenters; k++) {
    const dfi_pnode *e = s->enters[k];
    (e->constant ? inner.constant : inner.some)[e->out] = is_some(w, w->plan->operand[e->in]);
  }
  run_loop(&inner);
  for (uint32_t k = 0; k < s->nexits; k++) set(w, s->exits[k]->out, is_some(&inner, w->plan->operand[s->exits[k]->in]));
  dfi_free(inner.some);
  dfi_free(inner.constant);
}

/* Iterations, until no more becomes a number than is one already. */
static void run_loop(walk *w) {
  const dfi_graphed_loop *l = w->l;
  for (uint32_t i = 0; i < l->scope->ncopies; i++) w->some[l->scope->copies[i].slot] = true;
  do {
    w->changed = false;
    for (int32_t i = 0; i < l->nsteps; i++) {
      const dfi_graphed_step t = l->step[i];
      const int32_t to = w->m ? dfi_graphed_skip(l, w->m, i) : i;
      if (to > i) i = to - 1;
      else if (t.what == DFI_GRAPHED_LOOP) run_inner(w, l->inner[t.node].loop);
      else if (t.what == DFI_GRAPHED_RUN) run_step(w, t);
    }
    for (int32_t k = 0; k < l->nvars; k++)
      if (l->var[k].next) set(w, l->var[k].enter->out, is_some(w, w->plan->operand[l->var[k].next->in]));
  } while (w->changed);
}

bool dfi_graphed_is_exact(const dfi_exec *x, dfi_graphed_loop *l, const dfi_graphed_made *m, const dfi_record *r) {
  walk w = { .plan = x->plan, .l = l, .m = m, .r = r };
  const dfi_pnode *changes = NULL;
  w.some = dfi_xcalloc(l->scope->nslots + 1, sizeof *w.some);
  for (int32_t k = 0; k < l->nvars; k++) w.some[l->var[k].enter->out] = m->host[l->var[k].enter->out];
  run_loop(&w);
  for (int32_t k = 0; k < l->nvars; k++) {
    const uint32_t slot = l->var[k].enter->out;
    if (w.some[slot] && !m->host[slot]) changes = l->var[k].enter;
  }
  dfi_free(w.some);
  if (w.found) return dfi_graphed_refuse(l, w.found, "the host computes it, of what the GPU counts");
  return !changes || dfi_graphed_refuse(l, changes, "it is a number of the host's in some iterations only");
}
