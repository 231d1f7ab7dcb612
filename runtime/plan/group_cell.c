/* group_cell.c: recurrent cells: groups whose inputs are the parts of a product.
 *
 * LSTMs, GRUs and their kind, however they are written, multiply their input and state, side by side, with a matrix,
 * add a bias, cut the sum into gates, and go on element by element, which is a group. The nodes before the group that
 * nobody else reads become members of it, in front of the others, so that all is computed in one pass (kernels/cell.h).
 * They lie at lower levels than the group, and all that depends on it at higher ones; so it is waited for nothing more.
 * Where the product is of another kind or size than that pass can do, the engine computes these members one by one
 * first, and the group as it does others.
 */
#include "plan/group.h"
#include "kernels/array.h"
#include "kernels/linalg.h"
#include "kernels/elementwise.h"
#include "kernels/nn.h"

enum { MOST = 4 };               /* of them: what puts side by side, product, sum, what cuts */

/* From what is multiplied to what the group reads. */
typedef struct line { dfi_pnode *node[MOST]; int32_t n; } line;

/* The node that makes input i of q, which is one of q's context; *out: which of its outputs that is. NULL: there is
   none that could be a member. */
static dfi_pnode *maker_of(const maker *m, const dfi_pnode *q, int32_t i, int32_t *out) {
  const df_node *n = q->node;
  dfi_plan *p = m->plan;
  const dfi_operand o = p->operand[q->in + (uint32_t)i];
  if (feed_of(m, n->in[i]) >= 0 || DFI_SPACE(o) != DFI_ITERATION) return NULL;
  const df_output from = dfi_plan_origin(m, n->in[i]);
  const mark *k = &m->mark[from.node->id];
  if (feed_of(m, from) >= 0 || k->number < 0 || k->scope != m->mark[n->id].scope) return NULL;
  dfi_pnode *t = &p->node[k->number];
  *out = from.index;
  const bool plain = (t->kind == DFI_K_KERNEL || t->kind == DFI_K_SCALAR) && !t->group && !t->reads && !t->has_handle &&
                     !t->waits && !op_of(t->node)->stateful;
  if (!plain || t->device != q->device || from.node->context != n->context) return NULL;
  return t->out + (uint32_t)from.index == DFI_INDEX(o) ? t : NULL;
}

/* Does only q read t, and wait for it? */
static bool is_its_own(const maker *m, const dfi_pnode *t, const dfi_pnode *q) {
  const dfi_plan *p = m->plan;
  const dfi_scope *s = &p->scope[t->scope];
  return s->uses[t->out] == 1 && t->edge[1] - t->edge[0] == 1 &&
         p->edge[t->edge[0]].node == (uint32_t)(q - p->node) - s->first;
}

/* Is input i the number of the last axis of a matrix? */
static bool is_last_axis(const maker *m, const df_node *n, int32_t i) {
  const df_tensor *axis = n->in[i].node->out[n->in[i].index].constant;
  if (!axis || axis->size != 1 || feed_of(m, n->in[i]) >= 0) return false;
  return dfk_index(axis, 0) == 1 || dfk_index(axis, 0) == -1;
}

static dfi_operand operand_of(const maker *m, const dfi_pnode *q, int32_t i) {
  return m->plan->operand[q->in + (uint32_t)i];
}

/* The product that makes input i of q, alone or in a sum with a vector, and what is multiplied put side by side. */
static bool find_product(const maker *m, const dfi_pnode *q, int32_t i, dfi_gates *g, line *l) {
  int32_t out;
  dfi_pnode *t = maker_of(m, q, i, &out), *sum = NULL;
  if (t && (t->kernel == cpu_add || t->kernel == cpu_bias_add) && t->nin == 2) {
    const dfi_shape *b[2] = { dfi_shape_at(t->node->in[0]), dfi_shape_at(t->node->in[1]) };
    const int32_t at = b[1]->rank == 1 ? 1 : 0;
    if (b[at]->rank != 1 || b[!at]->rank != 2) return false;
    sum = t;
    g->has_bias = true;
    g->bias = operand_of(m, sum, at);
    t = maker_of(m, sum, !at, &out);
    if (t && !is_its_own(m, t, sum)) return false;
  }
  if (!t || t->kernel != cpu_matmul || t->out_dtype != DF_FLOAT32 || t->node->attrs[0].i) return false;
  g->turned = t->node->attrs[1].i;
  g->weights = operand_of(m, t, 1);
  g->part[0] = operand_of(m, t, 0);
  g->nparts = 1;
  dfi_pnode *side = maker_of(m, t, 0, &out);
  if (side && side->kernel == cpu_concat && is_its_own(m, side, t) && side->nin <= DFK_CELL_PARTS + 1 &&
      is_last_axis(m, side->node, (int32_t)side->nin - 1)) {
    g->nparts = (int32_t)side->nin - 1;
    for (int32_t k = 0; k < g->nparts; k++) g->part[k] = operand_of(m, side, k);
    l->node[l->n++] = side;
  }
  l->node[l->n++] = t;
  if (sum) l->node[l->n++] = sum;
  return true;
}

/* Do all that wait for t belong to the group? */
static bool stays_inside(const maker *m, const dfi_pnode *t, uint32_t group) {
  const dfi_plan *p = m->plan;
  const dfi_pnode *nodes = p->node + p->scope[t->scope].first;
  for (uint32_t e = t->edge[0]; e < t->edge[1]; e++) if (nodes[p->edge[e].node].group != group) return false;
  return true;
}

/* The group's inputs that are outputs of t; false: somebody else reads one, or there is none. */
static bool find_gates(const maker *m, const dfi_group *g, const dfi_pnode *t, dfi_gates *to) {
  const dfi_scope *s = &m->plan->scope[t->scope];
  uint32_t reads[DFK_CELL_GATES] = { 0 };
  to->n = (int32_t)t->nout;
  for (int32_t i = 0; i < g->chain.ninputs; i++) {
    const dfi_operand o = g->input[i].at;
    const bool one = DFI_SPACE(o) == DFI_ITERATION && DFI_INDEX(o) >= t->out && DFI_INDEX(o) < t->out + t->nout;
    to->of[i] = one ? (int8_t)(DFI_INDEX(o) - t->out) : -1;
    if (one && g->input[i].narrow) return false;
    if (one) reads[to->of[i]] += (uint32_t)g->input[i].reads;
  }
  for (uint32_t i = 0; i < t->nout; i++) if (reads[i] != s->uses[t->out + i]) return false;
  return true;
}

/* They become members, in front of the others. */
static void put_before(maker *m, dfi_group *g, const line *l) {
  dfi_plan *p = m->plan;
  dfi_pnode *nodes = p->node + p->scope[l->node[0]->scope].first;
  g->member = dfi_xrealloc(g->member, sizeof *g->member * (size_t)(g->n + l->n));
  memmove(g->member + l->n, g->member, sizeof *g->member * (size_t)g->n);
  g->n += l->n;
  g->first = l->n;
  for (int32_t i = 0; i < l->n; i++) {
    g->member[i] = (dfi_member){ .node = (uint32_t)(l->node[i] - nodes), .step = -1 };
    l->node[i]->group = (uint32_t)p->ngroups;
    l->node[i]->kind = DFI_K_KERNEL;
  }
  for (int32_t i = 0; i < g->n; i++) nodes[g->member[i].node].place = (uint32_t)i;
  for (int32_t i = 0; i < l->n; i++) dfi_group_sort_edges(p, nodes, l->node[i]);
}

/* Where input i of q, a member, is a gate. */
static bool cell_from(maker *m, dfi_group *g, const dfi_pnode *q, int32_t i) {
  dfi_gates gates = { 0 };
  line l = { .n = 0 };
  int32_t out;
  dfi_pnode *t = maker_of(m, q, i, &out);
  if (!t || t->out_dtype != DF_FLOAT32) return false;
  if (t->kernel == cpu_split) {
    if (t->nout > DFK_CELL_GATES || !is_last_axis(m, t->node, 0) || !find_product(m, t, 1, &gates, &l)) return false;
    if (!is_its_own(m, l.node[l.n - 1], t)) return false;
    l.node[l.n++] = t;
  } else if (m->plan->scope[t->scope].parent < 0 || !find_product(m, q, i, &gates, &l)) {
    return false;
  }
  const dfi_pnode *last = l.node[l.n - 1];
  if (last != t || !stays_inside(m, last, q->group) || !find_gates(m, g, last, &gates)) return false;
  put_before(m, g, &l);
  g->gates = dfi_xmalloc(sizeof *g->gates);
  *g->gates = gates;
  return true;
}

void dfi_group_cell(maker *m, dfi_group *g, const dfi_scope *s) {
  if (m->cut || !dfk_cell_fits(&g->chain) || g->n + MOST > DFI_GROUP_MEMBERS) return;
  const dfi_pnode *nodes = m->plan->node + s->first;
  for (int32_t k = 0; k < g->n; k++) {
    const dfi_pnode *q = nodes + g->member[k].node;
    for (uint32_t i = 0; i < q->nin; i++) if (cell_from(m, g, q, (int32_t)i)) return;
  }
}
