/* remat_plan.c: the copies of a plan's loops that run iterations a second time. See remat.h. */
#include "engine/memory/remat.h"
#include "resource/tensor_array.h"
#include <stdio.h>

/* How a node runs in the copy. */
typedef enum how { RERUN, LOGGED, FILLS, TAKES, MAKES } how;

static bool has_trait(const dfi_pnode *p, uint32_t traits) { return (p->op->traits & traits) != 0; }

static how how_of(const dfi_pnode *p) {
  if (p->kind == DFI_K_READ || p->reads) return LOGGED;
  if (p->kind != DFI_K_KERNEL) return RERUN;
  if (has_trait(p, DFO_ARRAY_NEW | DFO_ARRAY_GRAD)) return MAKES;
  if (has_trait(p, DFO_ARRAY_FILLS)) return FILLS;
  if (has_trait(p, DFO_ARRAY_TAKES | DFO_ARRAY_WHOLE)) return TAKES;
  if (!p->op->stateful || has_trait(p, DFO_REPEATS | DFO_RANDOM)) return RERUN;
  if (has_trait(p, DFO_VARIABLE) && p->nout && p->out_dtypes[0] == DF_RESOURCE) return RERUN;
  return has_trait(p, DFO_TAPE) ? RERUN : LOGGED;        /* a call's tape is made anew with the call */
}

/* ---- may the loop's iterations run again? --------------------------------------------------------------------- */

static const dfi_pnode *waits_in(const dfi_plan *p, const dfi_scope *s, uint8_t *seen) {
  if (seen[s->id]) return NULL;
  seen[s->id] = 1;
  for (uint32_t i = 0; i < s->n; i++) {
    const dfi_pnode *q = p->node + s->first + i, *found = NULL;
    if (q->waits) return q;
    if (q->kind == DFI_K_ENTER || q->kind == DFI_K_CALL) found = waits_in(p, &p->scope[q->target], seen);
    if (found) return found;
  }
  return NULL;
}

/* The Enter of the variable that a NextIteration is of; -1: their Merge is a node of its own. */
static int32_t variable_of(const dfi_scope *s, const dfi_pnode *next) {
  for (uint32_t i = 0; next->merges && i < s->nenters; i++)
    if (!s->enters[i]->constant && s->enters[i]->merges && s->enters[i]->out == next->out) return (int32_t)i;
  return -1;
}

static bool saves(const dfi_plan *p, const dfi_scope *s) {
  for (uint32_t i = 0; i < s->n; i++)
    if (dfi_writes_array(p->node[s->first + i].op)) return true;
  return false;
}

/* Why not? Owned; NULL: they may. */
static char *why_not(const dfi_plan *p, const dfi_scope *s) {
  char text[400] = "";
  uint8_t *seen = dfi_xcalloc((size_t)p->nscopes, 1);
  const dfi_pnode *waits = waits_in(p, s, seen);
  dfi_free(seen);
  if (waits) snprintf(text, sizeof text, "`%s` waits for something outside of the run", dfi_node_name(waits->node));
  for (uint32_t i = 0; i < s->nenters && !text[0]; i++)
    if (!s->enters[i]->constant && !s->enters[i]->merges)
      snprintf(text, sizeof text, "`%s` enters a Merge that has other uses", dfi_node_name(s->enters[i]->node));
  for (uint32_t i = 0; i < s->n && !text[0]; i++) {
    const dfi_pnode *q = p->node + s->first + i;
    if (q->kind == DFI_K_NEXT && variable_of(s, q) < 0)
      snprintf(text, sizeof text, "`%s` goes to a Merge that has other uses", dfi_node_name(q->node));
  }
  return text[0] ? dfi_xstrdup(text) : NULL;
}

/* ---- what an iteration takes ------------------------------------------------------------------------------------ */

static double node_seconds(const dfi_plan *p, const dfi_pnode *q) {
  if ((q->kind != DFI_K_KERNEL && q->kind != DFI_K_SCALAR) || q->has_handle) return 0;
  return dfi_plan_seconds(q->node, p->devices->at[q->device]);
}

/* ---- the copies -------------------------------------------------------------------------------------------------- */

/* Is there anything in the plan that the policy is about? */
static bool wanted(const dfi_plan *p) {
  if (!p->devices) return false;
  const bool session = p->devices->save == DFI_SAVE_RECOMPUTE || p->devices->save == DFI_SAVE_AUTO;
  for (int32_t i = 0; i < p->nnodes; i++) {
    const dfi_pnode *q = &p->node[i];
    if (q->kind != DFI_K_KERNEL || !has_trait(q, DFO_ARRAY_NEW)) continue;
    const dfi_op_info *o = dfi_op_info_at(q->node->op);
    const int64_t swap = q->node->attrs[dfi_op_attr_index(o, "swap")].i;
    if (swap == DFI_SWAP_AUTO || (session && swap == DFI_SWAP_UNSAID)) return true;
  }
  return false;
}

static void make_room(dfi_plan *p) {
  const int32_t n = p->nscopes;
  const uint32_t first = n > 1 ? p->scope[1].first : (uint32_t)p->nnodes, more = (uint32_t)p->nnodes - first;
  dfi_pnode *node, *was = p->node;
  node = dfi_xaligned(sizeof *node, sizeof *node * ((size_t)p->nnodes + more + 1));
  memcpy(node, was, sizeof *node * (size_t)p->nnodes);
  memcpy(node + p->nnodes, was + first, sizeof *node * more);
  for (int32_t i = 0; i < n; i++) {
    for (uint32_t k = 0; k < p->scope[i].nenters; k++) p->scope[i].enters[k] = node + (p->scope[i].enters[k] - was);
    for (uint32_t k = 0; k < p->scope[i].nexits; k++) p->scope[i].exits[k] = node + (p->scope[i].exits[k] - was);
  }
  for (int32_t i = 0; i < p->nfetch; i++) if (p->fetch_node[i]) p->fetch_node[i] = node + (p->fetch_node[i] - was);
  dfi_free(was);
  p->node = node;
  p->scope = dfi_xrealloc(p->scope, sizeof *p->scope * 2 * (size_t)n);
  p->remat = dfi_xcalloc(1, sizeof *p->remat);
  *p->remat = (dfi_remat_plan){ .nscopes = n, .nnodes = p->nnodes, .behind = (uint32_t)p->nnodes - first,
                                .child = p->scope[0].nchildren,
                                .kernel = dfi_xcalloc((size_t)p->nnodes + 1, sizeof *p->remat->kernel),
                                .why = dfi_xcalloc((size_t)n, sizeof *p->remat->why),
                                .seconds = dfi_xcalloc((size_t)n, sizeof *p->remat->seconds) };
  p->nscopes *= 2;
  p->nnodes += (int32_t)more;
}

static void copy_scope(dfi_plan *p, int32_t i) {
  const dfi_remat_plan *m = p->remat;
  const dfi_scope *s = &p->scope[i];
  dfi_scope *c = &p->scope[m->nscopes + i];
  *c = *s;
  c->id = m->nscopes + i;
  c->parent = s->parent > 0 ? m->nscopes + s->parent : DFI_FUNCTION;
  c->first = s->first + m->behind;
  c->enters = dfi_xcalloc(s->nenters + 1, sizeof *c->enters);
  c->exits = dfi_xcalloc(s->nexits + 1, sizeof *c->exits);
  for (uint32_t k = 0; k < s->nenters; k++) c->enters[k] = s->enters[k] + (s->parent > 0 ? m->behind : 0);
  for (uint32_t k = 0; k < s->nexits; k++) c->exits[k] = s->exits[k] + m->behind;
}

/* Node i, in a loop or function, and its copy. */
static void mark_node(dfi_plan *p, int32_t i) {
  static const df_kernel_fn second[] = {
    [LOGGED] = dfi_remat_logged, [FILLS] = dfi_remat_fill, [TAKES] = dfi_remat_take, [MAKES] = dfi_remat_make
  };
  const dfi_remat_plan *m = p->remat;
  dfi_pnode *q = &p->node[i], *c = q + m->behind;
  const how h = how_of(q);
  m->kernel[i] = q->kernel;
  c->scope += (uint32_t)m->nscopes;
  if (c->kind == DFI_K_ENTER || c->kind == DFI_K_CALL) c->target += (uint32_t)m->nscopes;
  if (c->kind == DFI_K_EXIT) c->kind = DFI_K_EXIT_REMAT;
  if (c->kind == DFI_K_NEXT) c->kind = DFI_K_NEXT_REMAT;
  if (h == RERUN) return;
  c->kernel = second[h];
  c->kind = DFI_K_KERNEL;
  c->offload = 0;
  if (h != LOGGED && h != TAKES) return;
  q->kernel = h == TAKES ? dfi_remat_log_take : dfi_remat_log;
  q->kind = DFI_K_KERNEL;
  q->offload = 0;
}

void dfi_remat_attach(dfi_plan *p) {
  if (!wanted(p)) return;
  make_room(p);
  dfi_remat_plan *m = p->remat;
  dfi_scope *top = &p->scope[m->nscopes];              /* there is no copy of the top level */
  *top = (dfi_scope){ .id = m->nscopes, .parent = DFI_FUNCTION, .name = "" };
  for (int32_t i = 0; i < m->nscopes; i++) {
    for (uint32_t k = 0; k < p->scope[i].n; k++) m->seconds[i] += node_seconds(p, p->node + p->scope[i].first + k);
    p->scope[i].remat = i && p->scope[i].parent != DFI_FUNCTION && saves(p, &p->scope[i]) &&
                        !(m->why[i] = why_not(p, &p->scope[i]));
  }
  for (int32_t i = m->nscopes - 1; i > 0; i--)         /* a loop within is run at least once */
    if (p->scope[i].parent >= 0) m->seconds[p->scope[i].parent] += m->seconds[i];
  for (int32_t i = 1; i < m->nscopes; i++) copy_scope(p, i);
  for (int32_t i = (int32_t)(m->nnodes - (int32_t)m->behind); i < m->nnodes; i++) mark_node(p, i);
  for (int32_t i = 1; i < m->nscopes; i++) {
    const dfi_scope *s = &p->scope[i];
    for (uint32_t k = 0; k < s->n; k++) {
      dfi_pnode *q = p->node + s->first + k, *c = q + m->behind;
      if (q->kind != DFI_K_NEXT || !s->remat) continue;
      q->enter = c->enter = (uint32_t)variable_of(s, q);
      q->kind = DFI_K_NEXT_REMAT;
    }
  }
  p->scope[0].nchildren += DFI_REMAT_AT_ONCE * (uint32_t)(p->parts ? p->parts->n : 1);
}
