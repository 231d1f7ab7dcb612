/* group_product.c: products that are only added to something, as the gradients of weights in loops are.
 *
 * The two nodes are a group: the product is put off until the sum has its other operand, and then added in that
 * operand's memory. Nobody else reads the product, so no way leads out of the group and back. Where the sums would not
 * be the same to the bit, or the memory is not the sum's own, the engine takes the group apart as it does others.
 *
 * On a GPU the two are a group where what is added is a vector, as a bias is: the library adds it as it writes the
 * product. Only where the sum is not part of a larger kernel already, and of no halves: those would be rounded once
 * less than the two ops do.
 */
#include "plan/group.h"
#include "kernels/linalg.h"
#include "kernels/nn.h"

/* The node whose product input i of q is and nobody else's; NULL: it is none. */
static dfi_pnode *product_of(const maker *m, const dfi_pnode *q, int32_t i) {
  const df_node *n = q->node;
  dfi_plan *p = m->plan;
  if (feed_of(m, n->in[i]) >= 0 || DFI_SPACE(p->operand[q->in + (uint32_t)i]) != DFI_ITERATION) return NULL;
  const df_output from = dfi_plan_origin(m, n->in[i]);
  const mark *k = &m->mark[from.node->id];
  if (feed_of(m, from) >= 0 || k->number < 0 || k->scope != m->mark[n->id].scope) return NULL;
  dfi_pnode *t = &p->node[k->number];
  const bool plain = t->kind == DFI_K_KERNEL && t->kernel == cpu_matmul && !t->group && !t->reads && !t->has_handle;
  if (!plain || t->out_dtype != q->out_dtype || t->device != q->device || from.node->context != n->context) return NULL;
  if (t->out != DFI_INDEX(p->operand[q->in + (uint32_t)i]) || p->scope[k->scope].uses[t->out] != 1) return NULL;
  return t->edge[1] - t->edge[0] == 1 ? t : NULL;
}

/* May what q adds to be as large as the sum, and of an iteration's own, so that the sum may lie there? Not a bias. */
static bool may_hold(const maker *m, const dfi_pnode *q, int32_t other) {
  const dfi_shape *s = dfi_shape_at(q->node->in[other]), *sum = &q->node->out[0].shape;
  if (DFI_SPACE(m->plan->operand[q->in + (uint32_t)other]) != DFI_ITERATION) return false;
  if (s->rank >= 0 && s->rank != sum->rank) return false;
  for (int32_t d = 0; d < s->rank; d++)
    if (s->dims[d] >= 0 && sum->dims[d] >= 0 && s->dims[d] != sum->dims[d]) return false;
  return true;
}

/* The group of the two, whose inputs are still to be said. */
static dfi_group *pair(maker *m, dfi_pnode *product, dfi_pnode *sum, int32_t inputs) {
  dfi_plan *p = m->plan;
  dfi_scope *s = &p->scope[sum->scope];
  p->group = dfi_xrealloc(p->group, sizeof *p->group * (size_t)(p->ngroups + 1));
  dfi_group *g = &p->group[p->ngroups++];
  *g = (dfi_group){ .n = 2, .device = sum->device, .slot = s->nslots++ };
  g->member = dfi_xcalloc(2, sizeof *g->member);
  g->input = dfi_xcalloc((size_t)inputs, sizeof *g->input);
  g->member[0] = (dfi_member){ .node = (uint32_t)(product - p->node) - s->first, .reads = 1 };
  g->member[1] = (dfi_member){ .node = (uint32_t)(sum - p->node) - s->first, .step = 1, .wanted = true };
  product->group = sum->group = (uint32_t)p->ngroups;
  product->place = 0;
  sum->place = 1;
  product->inside = product->edge[1];
  sum->inside = sum->edge[0];
  sum->kind = DFI_K_KERNEL;
  s->groups = dfi_xrealloc(s->groups, sizeof *s->groups * (s->ngroups + 1));
  s->groups[s->ngroups++] = (uint32_t)p->ngroups - 1;
  return g;
}

static dfi_group_input input_of(const maker *m, const dfi_pnode *q, int32_t i) {
  return (dfi_group_input){ .at = m->plan->operand[q->in + (uint32_t)i], .reads = 1 };
}

/* May the two ops of a sum be put off? */
static bool is_sum(const maker *m, const df_node *n, const dfi_pnode *q) {
  if (q->group || q->reads || q->has_handle || op_of(n)->stateful) return false;
  if ((q->kind != DFI_K_KERNEL && q->kind != DFI_K_SCALAR) || n->out[0].shape.rank != 2) return false;
  return m->plan->scope[m->mark[n->id].scope].parent != DFI_FUNCTION;
}

void dfi_group_products(maker *m) {
  for (int32_t i = 0; i < m->nneeded; i++) {
    const df_node *n = dfi_plan_node(m, m->needed[i]);
    const mark *k = &m->mark[n->id];
    if (k->number < 0 || n->nin != 2 || n->nout != 1 || !dfi_has_trait(n, DFO_ADDS)) continue;
    dfi_pnode *q = &m->plan->node[k->number];
    if (!is_sum(m, n, q) || q->out_dtype != DF_FLOAT32) continue;
    for (int32_t at = 1; at >= 0; at--) {
      dfi_pnode *t = may_hold(m, q, !at) ? product_of(m, q, at) : NULL;
      if (!t) continue;
      dfi_group *g = pair(m, t, q, 1);
      g->product = true;
      g->input[0] = input_of(m, q, !at);
      break;
    }
  }
}

/* Which input of q is a vector that is added to each row of the other; -1: it is no such sum. */
static int32_t vector_of(const dfi_pnode *q) {
  const df_node *n = q->node;
  if (q->kernel == cpu_bias_add) return 1;
  for (int32_t i = 0; i < 2 && dfi_has_trait(n, DFO_ADDS); i++) if (dfi_shape_at(n->in[i])->rank == 1) return i;
  return -1;
}

void dfi_group_biased(maker *m) {
  for (int32_t i = 0; i < m->nneeded; i++) {
    const df_node *n = dfi_plan_node(m, m->needed[i]);
    const mark *k = &m->mark[n->id];
    if (k->number < 0 || n->nin != 2 || n->nout != 1) continue;
    dfi_pnode *q = &m->plan->node[k->number];
    if (!q->gpu || !is_sum(m, n, q) || (q->out_dtype != DF_FLOAT32 && q->out_dtype != DF_FLOAT64)) continue;
    const int32_t vector = vector_of(q);
    dfi_pnode *t = vector < 0 ? NULL : product_of(m, q, !vector);
    if (!t || !t->gpu) continue;
    dfi_group *g = pair(m, t, q, 3);
    g->biased = true;
    g->chain.ninputs = 3;
    for (int32_t in = 0; in < 2; in++) g->input[in] = input_of(m, t, in);
    g->input[2] = input_of(m, q, vector);
  }
}
