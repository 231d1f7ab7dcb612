/* describe.c: a plan for drawings: what a run makes of each node of the graph. Nothing here is part of a
 * run.
 */
#include "plan/make.h"

static int32_t lowered_with_token(const dfi_pnode *q) {
  switch ((dfi_kind)q->kind) {
  case DFI_K_SCALAR: return DF_LOWERED_SCALAR;
  case DFI_K_KERNEL: case DFI_K_READ: return DF_LOWERED_KERNEL;
  case DFI_K_UNFED: return DF_LOWERED_KERNEL;
  default: return DF_LOWERED_FLOW;
  }
}

static int32_t lowered_to(const maker *m, df_node *n) {
  const mark *k = &m->mark[n->id];
  if (k->fed) return DF_LOWERED_FED;
  if (k->number >= 0) return lowered_with_token(&m->plan->node[k->number]);
  if (k->scope < 0) return DF_LOWERED_UNNEEDED;
  if (k->merged) return DF_LOWERED_MERGED;
  if (k->duplicate >= 0) return DF_LOWERED_DUPLICATE;
  if (dfi_plan_passes_on(n)) return DF_LOWERED_PASSED;
  if (flow_of(n) == DF_CONSTANT || dfi_is_variable(n) || dfi_plan_is_loop_constant(n)) return DF_LOWERED_IN_PLACE;
  return DF_LOWERED_UNUSED;
}

void dfi_plan_tell(const maker *m, int32_t *out) {
  for (int32_t i = 0; i < m->nids; i++) {
    out[2 * i] = lowered_to(m, m->graph->node[i]);
    out[2 * i + 1] = m->mark[i].scope;
  }
}

int32_t df_plan_describe(df_graph *g, int32_t nfetch, const int32_t *fetches, int32_t nfeed, const int32_t *feeds,
                         int32_t *out, df_error *err) {
  df_error own;
  pthread_mutex_lock(&g->lock);
  dfi_plan *p = dfi_plan_make_and_tell(NULL, NULL, g, nfetch, fetches, nfeed, feeds, 0, out, err ? err : &own);
  pthread_mutex_unlock(&g->lock);
  if (!p) return -1;
  int32_t nodes = p->nnodes;
  dfi_plan_free(p);
  return nodes;
}
