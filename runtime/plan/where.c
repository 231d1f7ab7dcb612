/* where.c: see where.h. */
#include "plan/where.h"
#include "op/node.h"

static df_flow flow_of(const df_node *n) { return dfi_op_info_at(n->op)->op->flow; }

bool dfi_stands_for(const dfi_pnode *q, const df_node *n) {
  return q->node == n || (q->kind == DFI_K_SWITCH && flow_of(n) == DF_SWITCH && dfi_same(q->node->in[0], n->in[0]) &&
                          dfi_same(q->node->in[1], n->in[1]));
}

/* One step: the output that stands for o; false: none does. */
static bool stands_for(const dfi_plan *p, df_output *o) {
  int32_t low = 0, high = p->nequal;
  while (low < high) {
    const int32_t at = (low + high) / 2;
    if (p->equal[at].node < o->node->id) low = at + 1; else high = at;
  }
  if (low == p->nequal || p->equal[low].node != o->node->id) return false;
  *o = (df_output){ p->graph->node[p->equal[low].kept], p->equal[low].output ? p->equal[low].output - 1 : o->index };
  return true;
}

const df_node *dfi_plan_kept(const dfi_plan *p, const df_node *n) {
  df_output o = { (df_node *)(uintptr_t)n, 0 };
  while (stands_for(p, &o)) { }
  return o.node;
}

const df_node *dfi_plan_folded(const dfi_plan *p, const df_node *n) {
  int32_t low = 0, high = p->nfolded;
  while (low < high) {
    const int32_t at = (low + high) / 2;
    if (p->folded[at].node < n->id) low = at + 1; else high = at;
  }
  return low < p->nfolded && p->folded[low].node == n->id ? p->folded[low].constant : NULL;
}

const dfi_pnode *dfi_plan_node_for(const dfi_plan *p, const dfi_scope *s, const df_node *n) {
  const dfi_pnode *equal = NULL;
  n = dfi_plan_kept(p, n);
  for (uint32_t i = 0; i < s->n; i++) {
    const dfi_pnode *q = p->node + s->first + i;
    if (q->node == n) return q;
    if (dfi_stands_for(q, n)) equal = q;
  }
  return equal;
}

static bool is_fed(const dfi_plan *p, df_output o, dfi_where *w) {
  for (int32_t i = 0; i < p->nfeed; i++)
    if (dfi_same(p->feed[i], o)) {
      *w = (dfi_where){ DFI_LIES_GIVEN, DFI_OPERAND(DFI_GIVEN, i), o };
      return true;
    }
  return false;
}

static dfi_where merged(const dfi_plan *p, const dfi_scope *s, df_output o) {
  const dfi_where next = o.node->nin == 2 ? dfi_where_is(p, s, o.node->in[1]) : (dfi_where){ DFI_LIES_NOWHERE };
  if (!next.node || !dfi_is_next(next.node->kind) || !next.node->merges) return (dfi_where){ DFI_LIES_NOWHERE, 0, o };
  return (dfi_where){ DFI_LIES_MERGED, DFI_OPERAND(DFI_ITERATION, next.node->out), o, next.node };
}

/* What Enters and Exits made: it lies on the other side of the loop's border. */
static dfi_where at_border(const dfi_plan *p, const dfi_scope *s, df_output o) {
  for (uint32_t i = 0; i < s->nenters; i++) {
    const dfi_pnode *q = s->enters[i];
    const int32_t space = q->constant ? DFI_FRAME : DFI_ITERATION;
    if (q->node == o.node) return (dfi_where){ DFI_LIES_ENTERED, DFI_OPERAND(space, q->out), o };
  }
  for (int32_t i = 0; i < p->nscopes; i++) {
    const dfi_scope *child = &p->scope[i];
    for (uint32_t e = 0; child->parent == s->id && e < child->nexits; e++) {
      const dfi_pnode *q = child->exits[e];
      if (q->node == o.node) return (dfi_where){ DFI_LIES_LEFT, DFI_OPERAND(DFI_ITERATION, q->out), o, q, child };
    }
  }
  return (dfi_where){ DFI_LIES_NOWHERE, 0, o };
}

/* The Merge of a variable, what left or entered a loop; what q, a node of the scope, sends to another one lies nowhere.
   */
static dfi_where beside(const dfi_plan *p, const dfi_scope *s, df_output o, const dfi_pnode *q) {
  dfi_where w = flow_of(o.node) == DF_MERGE ? merged(p, s, o) : at_border(p, s, o);
  if (w.why == DFI_LIES_NOWHERE) w.node = q;
  return w;
}

dfi_where dfi_where_is(const dfi_plan *p, const dfi_scope *s, df_output o) {
  for (int32_t patience = 0; patience < 1000; patience++) {
    dfi_where w;
    if (is_fed(p, o, &w)) return w;
    if (stands_for(p, &o)) continue;
    if (flow_of(o.node) == DF_CONSTANT) return (dfi_where){ DFI_LIES_FOLDED, 0, o };
    df_node *constant = (df_node *)(uintptr_t)dfi_plan_folded(p, o.node);
    if (constant) return (dfi_where){ DFI_LIES_FOLDED, 0, { constant, 0 } };
    const dfi_pnode *q = dfi_plan_node_for(p, s, o.node);
    if (q && q->kind != DFI_K_ENTER && !dfi_is_exit(q->kind) && !dfi_is_next(q->kind))
      return (dfi_where){ DFI_LIES_KEPT, DFI_OPERAND(DFI_ITERATION, q->out + (uint32_t)o.index), o, q };
    if (q || o.node->nin != 1 || !dfi_has_trait(o.node, DFO_PASSES)) return beside(p, s, o, q);
    o = o.node->in[0];
  }
  return (dfi_where){ DFI_LIES_NOWHERE, 0, o };
}
