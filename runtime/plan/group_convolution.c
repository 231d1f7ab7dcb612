/* group_convolution.c: a convolution that only a group reads is computed with it.
 *
 * A network adds a bias to what a convolution gives, scales it, adds what went around it, and cuts it off below 0: a
 * group. The convolution becomes a member in front of the others. The kernel makes its output piece by piece, in the
 * memory of the group's result, and the group's chain goes over a piece while that is in the cache
 * (kernels/window.h: dfk_conv.then). The numbers are those of the ops run one after the other.
 */
#include "plan/group.h"
#include "kernels/window.h"

static bool is_convolution(const dfi_pnode *t) {
  return t && (t->kernel == cpu_conv2d || t->kernel == cpu_depthwise_conv2d) && t->nout == 1 && !t->invariant &&
         (t->out_dtype == DF_FLOAT32 || t->out_dtype == DF_FLOAT64);
}

bool dfi_group_convolves(const maker *m, const dfi_pnode *q) {
  int32_t out;
  if (m->cut || m->plan->scope[q->scope].batch) return false;
  for (uint32_t i = 0; i < q->nin; i++) {
    const dfi_pnode *t = dfi_group_maker(m, q, (int32_t)i, &out);
    if (is_convolution(t) && t->edge[1] - t->edge[0] == 1) return true;
  }
  return false;
}

/* The chain's input that t makes and that has no other reader; -1: there is none. */
static int32_t input_of(const maker *m, const dfi_group *g, const dfi_pnode *t) {
  for (int32_t i = 0; i < g->chain.ninputs; i++) {
    const dfi_operand o = g->input[i].at;
    if (DFI_SPACE(o) != DFI_ITERATION || DFI_INDEX(o) != t->out) continue;
    return !g->input[i].narrow && (uint32_t)g->input[i].reads == m->plan->scope[t->scope].uses[t->out] ? i : -1;
  }
  return -1;
}

static bool add_convolution(maker *m, dfi_group *g, const dfi_pnode *q, int32_t i) {
  int32_t out;
  dfi_pnode *t = dfi_group_maker(m, q, i, &out);
  if (!is_convolution(t) || !dfi_group_encloses(m, t, q->group)) return false;
  const int32_t input = input_of(m, g, t);
  if (input < 0) return false;
  dfi_group_put_before(m, g, &t, 1);
  g->convolution = input + 1;
  return true;
}

void dfi_group_convolution(maker *m, dfi_group *g, const dfi_scope *s) {
  const dfk_chain *c = &g->chain;
  if (m->cut || g->gates || c->row || c->over || g->n == DFI_GROUP_MEMBERS) return;
  for (int32_t k = 0; k < g->n; k++) {
    const dfi_pnode *q = m->plan->node + s->first + g->member[k].node;
    for (uint32_t i = 0; i < q->nin; i++) if (add_convolution(m, g, q, (int32_t)i)) return;
  }
}
