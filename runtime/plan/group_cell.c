/* group_cell.c: recurrent cells: groups whose inputs are the parts of products.
 *
 * LSTMs, GRUs and their kind, however they are written, multiply their input and state, side by side or each by
 * itself, with matrices, add it all up and a bias, cut the sum into gates, and go on element by element, which is a
 * group. The nodes before the group that
 * no other reads become members of it, in front of the others, so that all is computed in one pass (kernels/cell.h).
 * They lie at lower levels than the group, and all that depends on it at higher ones; so it is waited for nothing more.
 * Where a product is of another kind or size than that pass can do, the engine computes these members one by one
 * first, and the group as it does others.
 */
#include "plan/group.h"
#include "kernels/array.h"
#include "kernels/linalg.h"
#include "kernels/elementwise.h"
#include "kernels/nn.h"

/* Nodes before a group for one of its sources: sums, products and what puts side by side, and what cuts. */
enum { MOST = 3 * DFK_CELL_TERMS };

/* From what the group reads to what is multiplied, and the terms, the last one first. */
typedef struct line {
  dfi_pnode *node[MOST];
  int32_t    n, nterms;
  dfi_term   term[DFK_CELL_TERMS];
} line;

dfi_pnode *dfi_group_maker(const maker *m, const dfi_pnode *q, int32_t i, int32_t *out) {
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

static bool is_sum(const dfi_pnode *t) {
  return t && (t->kernel == cpu_add || t->kernel == cpu_bias_add) && t->nin == 2 && t->out_dtype == DF_FLOAT32 &&
         t->node->out[0].shape.rank == 2;
}
static bool is_product(const dfi_pnode *t) {
  return t && t->kernel == cpu_matmul && t->out_dtype == DF_FLOAT32 && !t->node->attrs[0].i;
}

static bool add_term(line *l, dfi_term t) {
  if (l->nterms == DFK_CELL_TERMS) return false;
  l->term[l->nterms++] = t;
  return true;
}

static bool add_product(const maker *m, dfi_pnode *t, line *l) {
  int32_t out;
  dfi_term to = { .kind = DFK_PRODUCT, .nparts = 1, .turned = t->node->attrs[1].i, .at = operand_of(m, t, 1) };
  to.part[0] = operand_of(m, t, 0);
  l->node[l->n++] = t;
  dfi_pnode *side = dfi_group_maker(m, t, 0, &out);
  if (side && side->kernel == cpu_concat && is_its_own(m, side, t) && side->nin <= DFK_CELL_PARTS + 1 &&
      is_last_axis(m, side->node, (int32_t)side->nin - 1)) {
    to.nparts = (int32_t)side->nin - 1;
    for (int32_t k = 0; k < to.nparts; k++) to.part[k] = operand_of(m, side, k);
    l->node[l->n++] = side;
  }
  return add_term(l, to);
}

/* What is added: a product of its own, or what others have made. */
static bool add_other(const maker *m, const dfi_pnode *sum, int32_t i, line *l) {
  int32_t out;
  const int32_t rank = dfi_shape_at(sum->node->in[i])->rank;
  dfi_pnode *t = dfi_group_maker(m, sum, i, &out);
  if (is_product(t) && is_its_own(m, t, sum)) return add_product(m, t, l);
  if (rank != 1 && rank != 2) return false;
  return add_term(l, (dfi_term){ .kind = rank == 1 ? DFK_VECTOR : DFK_MATRIX, .at = operand_of(m, sum, i) });
}

/* Input i of q as a sum that begins with a product: one side of each sum goes on, and what the other side is comes
   behind it. */
static bool find_sum(const maker *m, const dfi_pnode *q, int32_t i, line *l) {
  int32_t out;
  dfi_pnode *t = dfi_group_maker(m, q, i, &out);
  while (is_sum(t)) {
    dfi_pnode *side[2];
    if (l->n + 2 >= MOST) return false;
    l->node[l->n++] = t;
    for (int32_t k = 0; k < 2; k++) {
      side[k] = dfi_group_maker(m, t, k, &out);
      if (side[k] && !is_its_own(m, side[k], t)) side[k] = NULL;
    }
    const int32_t on = is_sum(side[0]) ? 0 : is_sum(side[1]) ? 1 : is_product(side[0]) ? 0 : 1;
    if (!add_other(m, t, !on, l)) return false;
    t = side[on];
  }
  return is_product(t) && l->n + 2 < MOST && add_product(m, t, l);
}

/* Is a product of its own among what t adds up? */
static bool adds_product(const maker *m, const dfi_pnode *t, int32_t depth) {
  for (int32_t i = 0; i < 2; i++) {
    int32_t out;
    const dfi_pnode *side = dfi_group_maker(m, t, i, &out);
    if (!side || !is_its_own(m, side, t)) continue;
    if (is_product(side) || (is_sum(side) && depth && adds_product(m, side, depth - 1))) return true;
  }
  return false;
}

bool dfi_group_becomes_gates(const maker *m, const dfi_pnode *q) {
  const dfi_plan *p = m->plan;
  const dfi_scope *s = &p->scope[q->scope];
  const dfi_pnode *t = q;
  for (int32_t i = 0; i < DFK_CELL_TERMS && is_sum(t); i++) {
    if (s->uses[t->out] != 1 || t->edge[1] - t->edge[0] != 1) return false;
    const dfi_pnode *next = p->node + s->first + p->edge[t->edge[0]].node;
    if (next->kernel == cpu_split) return is_last_axis(m, next->node, 0) && adds_product(m, q, DFK_CELL_TERMS);
    t = next;
  }
  return false;
}

bool dfi_group_encloses(const maker *m, const dfi_pnode *t, uint32_t group) {
  const dfi_plan *p = m->plan;
  const dfi_pnode *nodes = p->node + p->scope[t->scope].first;
  for (uint32_t e = t->edge[0]; e < t->edge[1]; e++) if (nodes[p->edge[e].node].group != group) return false;
  return true;
}

/* The group's inputs that are outputs of t; false: one has another reader, or there is none. */
static bool find_gates(const maker *m, const dfi_group *g, const dfi_pnode *t, dfi_gates *to) {
  const dfi_scope *s = &m->plan->scope[t->scope];
  uint32_t reads[DFK_CELL_GATES] = { 0 };
  for (int32_t i = 0; i < g->chain.ninputs; i++) {
    const dfi_operand o = g->input[i].at;
    const bool one = DFI_SPACE(o) == DFI_ITERATION && DFI_INDEX(o) >= t->out && DFI_INDEX(o) < t->out + t->nout;
    if (!one) continue;
    if (g->input[i].narrow) return false;
    to->of[i] = (int8_t)(to->n + (int32_t)(DFI_INDEX(o) - t->out));
    reads[DFI_INDEX(o) - t->out] += (uint32_t)g->input[i].reads;
  }
  for (uint32_t i = 0; i < t->nout; i++) if (reads[i] != s->uses[t->out + i]) return false;
  return true;
}

void dfi_group_put_before(maker *m, dfi_group *g, dfi_pnode *const *node, int32_t n) {
  dfi_plan *p = m->plan;
  dfi_pnode *nodes = p->node + p->scope[node[0]->scope].first;
  g->member = dfi_xrealloc(g->member, sizeof *g->member * (size_t)(g->n + n));
  memmove(g->member + n, g->member, sizeof *g->member * (size_t)g->n);
  g->n += n;
  g->first += n;
  for (int32_t i = 0; i < n; i++) {
    dfi_pnode *t = node[n - 1 - i];
    g->member[i] = (dfi_member){ .node = (uint32_t)(t - nodes), .step = -1 };
    t->group = (uint32_t)p->ngroups;
    t->kind = DFI_K_KERNEL;
  }
  for (int32_t i = 0; i < g->n; i++) nodes[g->member[i].node].place = (uint32_t)i;
  for (int32_t i = 0; i < g->n; i++) dfi_group_sort_edges(p, nodes, nodes + g->member[i].node);
}

/* Is input i of q, a member, a gate? Then what makes it becomes a source. */
static bool add_source(maker *m, dfi_group *g, const dfi_pnode *q, int32_t i, dfi_gates *to) {
  dfi_gates with = *to;
  line l = { .n = 0 };
  int32_t out;
  dfi_pnode *t = dfi_group_maker(m, q, i, &out);
  if (!t || t->out_dtype != DF_FLOAT32 || to->nsources == DFK_CELL_SOURCES) return false;
  if (t->kernel == cpu_split) {
    if (to->n + (int32_t)t->nout > DFK_CELL_GATES || !is_last_axis(m, t->node, 0)) return false;
    l.node[l.n++] = t;
    dfi_pnode *sum = dfi_group_maker(m, t, 1, &out);
    if (!sum || !is_its_own(m, sum, t) || !find_sum(m, t, 1, &l)) return false;
  } else if (m->plan->scope[t->scope].parent < 0 || to->n == DFK_CELL_GATES || !find_sum(m, q, i, &l)) {
    return false;
  }
  if (g->n + l.n > DFI_GROUP_MEMBERS || !dfi_group_encloses(m, t, q->group)) return false;
  if (!find_gates(m, g, t, &with)) return false;
  dfi_group_put_before(m, g, l.node, l.n);
  with.source[with.nsources].gates = (int32_t)t->nout;
  with.source[with.nsources].nterms = l.nterms;
  for (int32_t k = 0; k < l.nterms; k++) with.source[with.nsources].term[k] = l.term[l.nterms - 1 - k];
  with.nsources++;
  with.n += (int32_t)t->nout;
  *to = with;
  return true;
}

/* The input of one of its own members that is a gate still to be found. */
static bool add_any(maker *m, dfi_group *g, const dfi_pnode *nodes, dfi_gates *to) {
  for (int32_t k = g->first; k < g->n; k++) {
    const dfi_pnode *q = nodes + g->member[k].node;
    for (uint32_t i = 0; i < q->nin; i++) if (add_source(m, g, q, (int32_t)i, to)) return true;
  }
  return false;
}

void dfi_group_cell(maker *m, dfi_group *g, const dfi_scope *s) {
  dfi_gates gates = { 0 };
  if (m->cut || !dfk_cell_fits(&g->chain)) return;
  memset(gates.of, -1, sizeof gates.of);
  while (add_any(m, g, m->plan->node + s->first, &gates)) { }
  if (!gates.nsources) return;
  g->gates = dfi_xmalloc(sizeof *g->gates);
  *g->gates = gates;
}
