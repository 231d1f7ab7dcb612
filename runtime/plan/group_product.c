/* group_product.c: products that are only added to something, as the gradients of weights in loops are.
 *
 * The two nodes are a group: the product is put off until the sum has its other operand, and then added in that
 * operand's memory. It has no other reader, so no way leads out of the group and back. Where the sums would not
 * be the same to the bit, or the memory is not the sum's own, the engine takes the group apart as it does others.
 *
 * On a GPU the two are a group where what is added is a vector, as a bias is: the library adds it as it writes the
 * product. Only where the sum is not part of a larger kernel already, and of no halves: those would be rounded once
 * less than the two ops do. A convolution takes its bias, and a ReLU behind it, before larger kernels are looked for:
 * what else they are of then reads one array less, and is no more kernels.
 */
#include "plan/group.h"
#include "kernels/elementwise.h"
#include "kernels/linalg.h"
#include "kernels/nn.h"
#include "kernels/window.h"

/* The node whose value input i of q is, and no other's; NULL: there is none that could be put off. */
static dfi_pnode *sole_of(const maker *m, const dfi_pnode *q, int32_t i) {
  const df_node *n = q->node;
  dfi_plan *p = m->plan;
  if (feed_of(m, n->in[i]) >= 0 || DFI_SPACE(p->operand[q->in + (uint32_t)i]) != DFI_ITERATION) return NULL;
  const df_output from = dfi_plan_origin(m, n->in[i]);
  const mark *k = &m->mark[from.node->id];
  if (feed_of(m, from) >= 0 || k->number < 0 || k->scope != m->mark[n->id].scope) return NULL;
  dfi_pnode *t = &p->node[k->number];
  const bool plain = (t->kind == DFI_K_KERNEL || t->kind == DFI_K_SCALAR) && !t->group && !t->reads && !t->has_handle;
  if (!plain || t->out_dtype != q->out_dtype || t->device != q->device || from.node->context != n->context) return NULL;
  if (t->out != DFI_INDEX(p->operand[q->in + (uint32_t)i]) || p->scope[k->scope].uses[t->out] != 1) return NULL;
  return t->edge[1] - t->edge[0] == 1 ? t : NULL;
}
static dfi_pnode *product_of(const maker *m, const dfi_pnode *q, int32_t i) {
  dfi_pnode *t = sole_of(m, q, i);
  return t && t->kind == DFI_K_KERNEL && t->kernel == cpu_matmul ? t : NULL;
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

/* The group of n nodes, each of which alone reads the one before it; its inputs are still to be said. */
static dfi_group *group_of(maker *m, dfi_pnode *const *node, int32_t n, int32_t inputs) {
  dfi_plan *p = m->plan;
  dfi_scope *s = &p->scope[node[0]->scope];
  p->group = dfi_xrealloc(p->group, sizeof *p->group * (size_t)(p->ngroups + 1));
  dfi_group *g = &p->group[p->ngroups++];
  *g = (dfi_group){ .n = n, .device = node[0]->device, .slot = s->nslots++ };
  g->member = dfi_xcalloc((size_t)n, sizeof *g->member);
  g->input = dfi_xcalloc((size_t)inputs, sizeof *g->input);
  for (int32_t i = 0; i < n; i++) {
    const bool last = i == n - 1;
    g->member[i] = (dfi_member){ .node = (uint32_t)(node[i] - p->node) - s->first, .step = i, .reads = !last,
                                 .wanted = last };
    node[i]->group = (uint32_t)p->ngroups;
    node[i]->place = (uint32_t)i;
    node[i]->inside = node[i]->edge[!last];
    node[i]->kind = DFI_K_KERNEL;
  }
  s->groups = dfi_xrealloc(s->groups, sizeof *s->groups * (s->ngroups + 1));
  s->groups[s->ngroups++] = (uint32_t)p->ngroups - 1;
  return g;
}

static dfi_group_input input_of(const maker *m, const dfi_pnode *q, int32_t i) {
  return (dfi_group_input){ .at = m->plan->operand[q->in + (uint32_t)i], .reads = 1 };
}

/* May the ops of a sum of that rank be put off? */
static bool is_sum(const maker *m, const df_node *n, const dfi_pnode *q, int32_t rank) {
  if (q->group || q->reads || q->has_handle || op_of(n)->stateful) return false;
  if ((q->kind != DFI_K_KERNEL && q->kind != DFI_K_SCALAR) || n->out[0].shape.rank != rank) return false;
  const dfi_scope *s = &m->plan->scope[m->mark[n->id].scope];
  return s->parent != DFI_FUNCTION && !s->batch;
}

void dfi_group_products(maker *m) {
  for (int32_t i = 0; i < m->nneeded; i++) {
    const df_node *n = dfi_plan_node(m, m->needed[i]);
    const mark *k = &m->mark[n->id];
    if (k->number < 0 || n->nin != 2 || n->nout != 1 || !dfi_has_trait(n, DFO_ADDS)) continue;
    dfi_pnode *q = &m->plan->node[k->number];
    if (!is_sum(m, n, q, 2) || q->out_dtype != DF_FLOAT32) continue;
    for (int32_t at = 1; at >= 0; at--) {
      dfi_pnode *t = may_hold(m, q, !at) ? product_of(m, q, at) : NULL;
      if (!t) continue;
      dfi_group *g = group_of(m, (dfi_pnode *[]){ t, q }, 2, 1);
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

/* What the first two compute, and the rest of the n do with it. */
static dfi_group *add_vector(maker *m, dfi_pnode *const *node, int32_t n, int32_t vector) {
  dfi_group *g = group_of(m, node, n, 3);
  g->biased = true;
  g->chain.ninputs = 3;
  for (int32_t in = 0; in < 2; in++) g->input[in] = input_of(m, node[0], in);
  g->input[2] = input_of(m, node[1], vector);
  return g;
}

void dfi_group_biased(maker *m) {
  for (int32_t i = 0; i < m->nneeded; i++) {
    const df_node *n = dfi_plan_node(m, m->needed[i]);
    const mark *k = &m->mark[n->id];
    if (k->number < 0 || n->nin != 2 || n->nout != 1) continue;
    dfi_pnode *q = &m->plan->node[k->number];
    if (!q->gpu || !is_sum(m, n, q, 2) || (q->out_dtype != DF_FLOAT32 && q->out_dtype != DF_FLOAT64)) continue;
    const int32_t vector = vector_of(q);
    dfi_pnode *t = vector < 0 ? NULL : product_of(m, q, !vector);
    if (!t || !t->gpu) continue;
    add_vector(m, (dfi_pnode *[]){ t, q }, 2, vector);
  }
}

/* q adds a vector to the channels of what a convolution gives: which, and *vector is its input. NULL: it does not. */
static dfi_pnode *convolution_of(const maker *m, const dfi_pnode *q, int32_t *vector) {
  const df_node *n = q->node;
  if (!q->gpu || n->nin != 2 || n->nout != 1 || !is_sum(m, n, q, 4)) return NULL;
  if (q->kernel == cpu_bias_add && n->attrs[0].s[1] != 'H') return NULL;                      /* NHWC */
  *vector = vector_of(q);
  dfi_pnode *t = *vector < 0 ? NULL : sole_of(m, q, !*vector);
  return t && t->gpu && t->kernel == cpu_conv2d ? t : NULL;
}

/* With the ReLU of the sum, or without. */
static void group_convolution(maker *m, const df_node *n, bool relu) {
  const mark *k = &m->mark[n->id];
  if (k->number < 0 || n->nout != 1) return;
  dfi_pnode *last = &m->plan->node[k->number], *sum = last;
  if (!last->gpu || last->group || last->reads || last->has_handle || op_of(n)->stateful) return;
  if (last->out_dtype != DF_FLOAT32 && last->out_dtype != DF_FLOAT64) return;
  if ((last->kernel == cpu_relu) != relu) return;
  if (relu && !(sum = sole_of(m, last, 0))) return;
  int32_t vector;
  dfi_pnode *t = convolution_of(m, sum, &vector);
  if (t) add_vector(m, (dfi_pnode *[]){ t, sum, last }, 2 + relu, vector)->convolved = true;
}

void dfi_group_convolved(maker *m) {
  for (int32_t relu = 1; relu >= 0; relu--)
    for (int32_t i = 0; i < m->nneeded; i++) group_convolution(m, dfi_plan_node(m, m->needed[i]), relu);
}
