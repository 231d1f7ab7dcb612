/* lost.c: see lost.h. */
#include "engine/owners/lost.h"
#include "engine/owners/rank.h"
#include "engine/owners/team.h"
#include "plan/where.h"

enum { MET = 1, FETCHED = 2 };

/* A walk along the edges of the top level. `is` goes by the plan's nodes; list: those met that are still to be left;
   here: it ends at what is sent to another owner, whose Recv waits there and is looked at for itself. */
typedef struct walk {
  const dfi_exec *x;
  const dfi_record *top;
  uint8_t *is;
  const dfi_pnode **list;
  uint32_t n;
  bool here;
} walk;

static uint8_t *flags(const walk *w, const dfi_pnode *p) { return w->is + (p - w->x->plan->node); }

/* Does a token on this edge come to a Merge that another input has passed? */
static bool comes_too_late(const walk *w, const dfi_edge *e) {
  const uint32_t c = w->top->counts[e->node];
  if ((e->to & 0xff) != DFI_TO_MERGE || !(c & DFI_MERGE_FIRED) || !(c & DFI_MERGE_LIVE)) return false;
  return w->top->base[DFI_ITERATION][w->top->nodes[e->node].out + 1].as.i32 != (int32_t)(e->to >> 8);
}

/* Meets all that p sends its outputs to; p may be an Exit of a frame that the top level opened. True: p is fetched. */
static bool follow(walk *w, const dfi_pnode *p) {
  const dfi_edge *e = w->x->edge + p->edge[0], *end = w->x->edge + p->edge[p->kind == DFI_K_SWITCH ? 3 : 1];
  if (w->here && w->x->team && p->kind == DFI_K_TRANSFER && dfi_team_part(w->x, p) == DFI_SENDS) return false;
  for (; e < end; e++) {
    const dfi_pnode *to = w->top->nodes + e->node;
    if (comes_too_late(w, e) || *flags(w, to) & MET) continue;
    *flags(w, to) |= MET;
    w->list[w->n++] = to;
  }
  return *flags(w, p) & FETCHED;
}

/* All that leaves a loop; true: something of it is fetched. */
static bool leave(walk *w, const dfi_scope *s) {
  bool fetched = false;
  for (uint32_t i = 0; i < s->nexits; i++) fetched |= follow(w, s->exits[i]);
  return fetched;
}

/* Does the walk, which has begun at p, or leaves loop s, come to something fetched? */
static bool finds(walk *w, const dfi_pnode *p, const dfi_scope *s) {
  const dfi_scope *scope = w->x->plan->scope;
  for (size_t i = 0; i < (size_t)w->x->plan->nnodes; i++) w->is[i] &= FETCHED;
  w->n = 0;
  w->here = p != NULL;
  bool found = p ? follow(w, p) : leave(w, s);
  while (w->n && !found) {
    p = w->list[--w->n];
    found = p->kind == DFI_K_ENTER ? leave(w, &scope[p->target]) : follow(w, p);
  }
  return found;
}

static uint64_t bit_of(const dfi_scope *s) { return (uint64_t)1 << s->id % 64; }

/* Marks what is fetched. False: an operation is, of which the plan does not say where it runs. */
static bool mark_fetched(const walk *w) {
  const dfi_plan *plan = w->x->plan;
  for (int32_t i = 0; i < plan->nfetch; i++) {
    const bool operation = plan->signature[2 * i + 1] < 0;
    const dfi_pnode *p = operation ? dfi_plan_node_for(plan, plan->scope, plan->graph->node[plan->signature[2 * i]])
                                   : plan->fetch_node[i];
    if (p) *flags(w, p) |= FETCHED;
    else if (operation) return false;
  }
  return true;
}

dfi_wanted dfi_calls_look(const dfi_exec *x, uint64_t loops) {
  const size_t n = (size_t)x->plan->nnodes + 1;
  dfi_wanted is = { .any = x->team && dfi_team_size(x) > 1 };
  if (is.any || (!x->away && !loops)) return is;
  walk w = { .x = x, .top = x->root->ring[0] };
  w.is = dfi_xcalloc(n, sizeof *w.is);
  w.list = dfi_xcalloc(n, sizeof *w.list);
  is.any = !mark_fetched(&w);
  for (const dfi_call *c = x->away; c && !is.any; c = c->away_next) {
    const dfi_frame *outer = NULL;
    for (const dfi_frame *f = c->record->frame; f->origin; f = f->parent) outer = f;
    if (outer && !outer->call) is.waits |= bit_of(outer->scope);
    else is.any = finds(&w, outer ? outer->call : c->node, NULL);
  }
  if (!loops) loops = is.waits;
  for (int32_t i = 1; i < x->plan->nscopes && !is.any; i++) {
    const dfi_scope *s = &x->plan->scope[i];
    if (s->parent == 0 && loops & bit_of(s) && !(is.wanted & bit_of(s)) && finds(&w, NULL, s)) is.wanted |= bit_of(s);
  }
  dfi_free(w.list);
  dfi_free(w.is);
  return is;
}

/* Is an operation fetched that runs on another rank? */
static bool fetches_elsewhere(const dfi_exec *x) {
  const dfi_plan *plan = x->plan;
  for (int32_t i = 0; i < plan->nfetch; i++) {
    if (plan->signature[2 * i + 1] >= 0) continue;
    const dfi_pnode *p = dfi_plan_node_for(plan, plan->scope, plan->graph->node[plan->signature[2 * i]]);
    if (p && plan->parts->owner[p->device] != x->place) return true;
  }
  return false;
}

bool dfi_calls_lost(const dfi_exec *x) {
  if (!x->away || (x->team && (!x->setup.rank_run || dfi_rank_me(x->rank) || fetches_elsewhere(x)))) return false;
  const dfi_wanted is = dfi_calls_look(x, 0);
  return !is.any && !is.wanted;
}
