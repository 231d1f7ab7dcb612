/* invariant.c: what the iterations of a loop share, so that one of them computes it for all.
 *
 * A node without effects whose inputs stay as they are from one iteration to the next gives the same bits in each. It
 * stays where it was written: its tokens come and go as ever, it is dead where it would be dead, and the first
 * iteration that comes to it computes it (so a loop that does not run, or a branch that is not taken, computes nothing,
 * and an error comes where it came). What it made is kept in the frame, and the iterations after it take that.
 *
 * The frame is that of the outermost loop around the node in which nothing it reads changes: a product of two captured
 * tensors in an inner loop is computed once for all runs of the inner loop. Numbers are not worth it. A loop that is
 * known to run once shares nothing: what is kept in its frame would only be in memory for longer.
 */
#include "plan/place.h"

static bool is_function(const dfi_plan *p, int32_t scope) { return p->scope[scope].parent == DFI_FUNCTION; }

/* The innermost scope from whose one iteration to the next this value changes; 0: it never does in a run. */
static int32_t varies(const maker *m, df_output o) {
  const df_output from = dfi_plan_origin(m, o);
  if (feed_of(m, from) >= 0 || dfi_plan_is_given(m, from) || flow_of(from.node) == DF_CONSTANT) return 0;
  return m->mark[from.node->id].varies;
}

/* The same of all that n reads; all are of the scopes around it. */
static int32_t reads_what_varies(const maker *m, const df_node *n, int32_t inputs) {
  int32_t most = 0;
  for (int32_t i = 0; i < inputs; i++) {
    const int32_t of = varies(m, n->in[i]);
    if (dfi_scope_depth(m->plan, of) > dfi_scope_depth(m->plan, most)) most = of;
  }
  return most;
}

/* Does the loop variable hand its value on as it is? */
static bool hands_on(const maker *m, const df_node *merge) {
  if (merge->nin != 2 || flow_of(merge->in[0].node) != DF_ENTER) return false;
  const df_node *next = merge->in[1].node;
  if (flow_of(next) != DF_NEXT_ITERATION) return false;
  const df_node *by = dfi_plan_origin(m, next->in[0]).node;
  return flow_of(by) == DF_SWITCH && dfi_plan_origin(m, by->in[0]).node == merge;
}

static int32_t varies_in(const maker *m, const df_node *n) {
  const mark *k = &m->mark[n->id];
  switch (flow_of(n)) {
  case DF_ENTER: return dfi_plan_is_loop_constant(n) ? varies(m, n->in[0]) : (int32_t)k->child_scope;
  case DF_EXIT: return m->plan->scope[k->scope].parent;
  case DF_SWITCH: return varies(m, n->in[0]);
  case DF_MERGE: return hands_on(m, n) ? varies(m, n->in[0].node->in[0]) : k->scope;
  case DF_PLAIN: return dfi_plan_is_pure(n) ? reads_what_varies(m, n, n->nin) : k->scope;
  default: return k->scope;
  }
}

/* The outermost loop around scope `in` whose iterations share what changes in `outer` alone; 0: there is none. once: by
   scope, is it known to run once? */
static int32_t loop_within(const dfi_plan *p, int32_t in, int32_t outer, const bool *once) {
  int32_t loop = 0;
  for (; in > 0 && in != outer && !is_function(p, in); in = p->scope[in].parent) if (!once[in]) loop = in;
  return loop;
}

/* Is it to be made when something else has come, as a gradient's zeros are? Then it is to go when it has been read. */
static bool waits(const df_node *n) {
  for (int32_t i = 0; i < n->ncontrol; i++) if (n->control[i] != n->context->pivot) return true;
  return false;
}

static bool is_worth_it(const df_node *n) {
  for (int32_t i = 0; i < n->nin; i++) if (dfi_shape_at(n->in[i])->rank != 0) return true;
  for (int32_t i = 0; i < n->nout; i++) if (n->out[i].shape.rank != 0) return true;
  return false;
}

/* GPUs run whole bodies at a time, and compute what changes beside what does not. */
static bool has_gpu(const maker *m) {
  for (int32_t i = 0; m->devices && i < m->devices->n; i++) if (m->devices->at[i]->remote) return true;
  return false;
}

void dfi_plan_find_invariants(maker *m) {
  dfi_plan *p = m->plan;
  if (m->primitives || m->as_written || (m->stepped && !m->cut) || p->nscopes < 2 || has_gpu(m)) return;
  bool *once = dfi_xcalloc((size_t)p->nscopes, sizeof *once);
  for (int32_t i = 0; i < m->nneeded; i++) {
    const df_node *n = dfi_plan_node(m, m->needed[i]);
    m->mark[n->id].varies = m->mark[n->id].scope;    /* an imported graph may have any order: not known yet */
    if (flow_of(n) == DF_ENTER && n->context->loop) once[m->mark[n->id].child_scope] = n->context->loop->once;
  }
  for (int32_t i = 0; i < m->nneeded; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    mark *k = &m->mark[n->id];
    if (k->scope < 0) continue;
    k->varies = varies_in(m, n);
    const int32_t loop = loop_within(p, k->scope, k->varies, once);
    if (!loop || k->number < 0 || k->fed || flow_of(n) != DF_PLAIN || n->contradiction || waits(n) ||
        !is_worth_it(n)) continue;
    dfi_pnode *q = &p->node[k->number];
    if (q->kind != DFI_K_KERNEL && q->kind != DFI_K_SCALAR) continue;
    dfi_scope *s = &p->scope[loop];
    q->invariant = 1 + s->nconsts + s->ninvariants;
    q->target = (uint32_t)loop;
    s->ninvariants += q->nout;
  }
  dfi_free(once);
}
