/* batch.c: which nodes wait for others like them, in other iterations or calls, to be computed as one
 * (engine/tokens/batch.c).
 *
 * A scope is batched where the session says so of all of them, or the function that it is, or stands in, says so of
 * itself. In it the groups of elementwise nodes wait, and the nodes whose op's entry has a rule. Not on other devices
 * than the host, and not with the reference kernels, whose sums are not known to be those of each row alone. Where a
 * session has several devices no sum is late: values that move between them are tensors.
 */
#include "plan/make.h"
#include "plan/batch.h"
#include "graph/flow.h"

static bool is_inside(const maker *m, const df_node *n) {
  return m->mark[n->id].scope > 0 || (n->context && n->context->kind != DFI_TOP);
}

/* Does n, at the top level, run after a value that a control edge names, and not only its inputs? Other effects are
 * such values only where they are themselves. */
static bool is_ordered(const df_node *n, const bool *ordered) {
  bool is = false;
  for (int32_t i = 0; i < n->nin; i++) is |= ordered[n->in[i].node->id];
  for (int32_t i = 0; i < n->ncontrol; i++) {
    const df_node *by = n->control[i];
    is |= ordered[by->id] || !(op_of(by)->effect || flow_of(by) == DF_NO_OP) || flow_of(by) == DF_CALL;
  }
  return is;
}

/* Calls are built in program order, as effects are, since a function may call itself before its effects are known. In
 * a plan they are known: where nothing in a loop, branch or function has one, the calls of all iterations may be ready
 * at once. A call may still read a variable that the top level changes after the loop: not where a control edge says
 * "after" (an optimizer's changes wait for gradients, which are what the calls gave). */
static bool calls_commute(const maker *m) {
  bool commute = true, *ordered = dfi_xcalloc((size_t)dfi_plan_ids(m), sizeof *ordered);
  for (int32_t i = 0; i < m->nneeded && commute; i++) {
    const df_node *n = dfi_plan_node(m, m->needed[i]);
    const bool inside = is_inside(m, n);
    ordered[n->id] = !inside && is_ordered(n, ordered);
    commute = !op_of(n)->effect || flow_of(n) == DF_CALL || !(inside || ordered[n->id]);
  }
  dfi_free(ordered);
  return commute;
}

void dfi_plan_batch_scopes(maker *m) {
  dfi_plan *p = m->plan;
  if (m->primitives || m->reference || m->stepped) return;
  for (int32_t i = 1; i < p->nscopes; i++)
    p->scope[i].batch = m->batch == DFI_PLAN_BATCH || (m->batch && p->scope[i].parent == DFI_FUNCTION);
  for (int32_t i = 0; i < m->nneeded; i++) {
    const df_node *n = dfi_plan_node(m, m->needed[i]);
    if (flow_of(n) == DF_FUNCTION_BEGIN && dfi_function_is_batched(n)) p->scope[m->mark[n->id].scope].batch = true;
  }
  for (int32_t i = 1; i < p->nscopes; i++)
    for (int32_t s = i; s > 0 && !p->scope[i].batch; s = p->scope[s].parent) p->scope[i].batch = p->scope[s].batch;
  bool any = false;
  for (int32_t i = 1; i < p->nscopes; i++) any |= p->scope[i].batch;
  m->calls_commute = any && calls_commute(m);
}

/* The rule of a node that runs a kernel of its own, if it has one. */
static const dfi_batch_rule *rule_of(const dfi_pnode *q) {
  const bool runs = q->kind == DFI_K_KERNEL || q->kind == DFI_K_SCALAR;
  if (!runs || q->device || q->group || q->invariant || q->has_handle || q->reads || q->waits || q->op->stateful ||
      q->node->contradiction || q->nin > DFI_BATCH_INPUTS || q->nout > DFI_BATCH_OUTPUTS)
    return NULL;
  return dfi_batch_rule_of(q);
}

void dfi_plan_batch(maker *m) {
  dfi_plan *p = m->plan;
  bool any = false;
  for (int32_t i = 0; i < p->nscopes; i++) any |= p->scope[i].batch;
  for (int32_t i = 0; i < p->nnodes && any; i++) {
    dfi_pnode *q = &p->node[i];
    const dfi_batch_rule *rule = rule_of(q);
    const bool inside = p->scope[q->scope].batch;
    if (!rule) continue;
    if (inside && rule->how) q->batch = ++p->nbatches;
    /* what is added is late only where something is, and may be outside then */
    if (rule->late && !m->cut && (inside || q->op->traits & DFO_ADDS)) q->batch |= DFI_LATE;
  }
  for (int32_t i = 0; i < p->nscopes; i++)
    for (uint32_t g = 0; g < p->scope[i].ngroups && p->scope[i].batch; g++)
      if (!p->group[p->scope[i].groups[g]].device) p->group[p->scope[i].groups[g]].batch = ++p->nbatches;
  p->batch_measured = m->batch == DFI_PLAN_BATCH_CALLS;
  if (p->nbatches) p->reached = dfi_xcalloc(p->nbatches, sizeof *p->reached);
}
