/* function_shapes.c: what is known of the results of functions that call themselves.
 *
 * While a body is built nothing is known of the results of calls in it, so nothing is of what a branch with such a call
 * returns. The other branches say what the recursion ends with. That is assumed of the calls, too; if the bodies then
 * return what was assumed, it holds for every call that returns, however deep. If they do not, nothing is assumed.
 */
#include "graph/flow.h"
#include "graph/graph.h"

static bool is_cond_merge(const df_node *n) {
  return dfi_flow_is(n, FLOW_MERGE) && n->nin == 2 && n->in[0].node->context->kind == DFI_BRANCH;
}

/* What the branches say of o that know its shape; unknown rank where none does. */
static dfi_shape guess(df_output o, int32_t depth) {
  while (dfi_flow_is(o.node, FLOW_IDENTITY)) o = o.node->in[0];
  const dfi_shape *own = dfi_shape_at(o);
  if (own->rank >= 0 || depth > 64 || !is_cond_merge(o.node)) return *own;
  dfi_shape a = guess(o.node->in[0], depth + 1), b = guess(o.node->in[1], depth + 1), both;
  if (a.rank < 0) return b;
  if (b.rank < 0) return a;
  dfi_shape_relax(&a, &b, &both);
  return both;
}

/* Does n stand in a function's body, in branches at most? A loop's variables keep what was said of them when it was
   built. */
static bool is_reached(const df_node *n) {
  const df_context *c = n->context;
  while (c->kind == DFI_BRANCH) c = c->parent;
  const df_flow flow = dfi_op_info_at(n->op)->op->flow;
  return c->kind == DFI_CALLED && flow != DF_EXIT && flow != DF_ENTER && flow != DF_CALL && flow != DF_FUNCTION_ARG;
}

static void infer(df_node *n) {
  if (n->nout == 0 || n->nout > 16 || n->out[0].dtype == DF_RESOURCE) return;
  dfi_shape was[16], both;
  for (int32_t i = 0; i < n->nout; i++) was[i] = n->out[i].shape;
  if (is_cond_merge(n)) dfi_shape_relax(dfi_shape_at(n->in[0]), dfi_shape_at(n->in[1]), &n->out[0].shape);
  else if (dfi_flow_is(n, FLOW_MERGE)) return;
  else dfi_node_infer_again(n);
  for (int32_t i = 0; i < n->nout; i++)
    n->out[i].shape = dfi_shape_merge(&n->out[i].shape, &was[i], &both) ? both : was[i];
}

typedef struct told { df_node *node; int32_t index; dfi_shape shape; bool constant; } told;

static told *keep_all(df_graph *g, int32_t first, int32_t *n) {
  int32_t count = 0;
  for (int32_t id = first; id < g->n; id++) count += g->node[id]->nout;
  told *k = dfi_xcalloc((size_t)count + 1, sizeof *k);
  *n = 0;
  for (int32_t id = first; id < g->n; id++)
    for (int32_t i = 0; i < g->node[id]->nout; i++) {
      const dfi_out *o = &g->node[id]->out[i];
      k[(*n)++] = (told){ g->node[id], i, o->shape, o->constant != NULL };
    }
  return k;
}

static void restore_all(const told *k, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    dfi_out *o = &k[i].node->out[k[i].index];
    o->shape = k[i].shape;
    if (k[i].constant || !o->constant) continue;
    df_tensor_release(o->constant);
    o->constant = NULL;
  }
}

static bool is_new(const dfi_function *f) { return f->caller && f->ret; }

/* What is assumed of each result of f, if anything is: owned, NULL otherwise. */
static dfi_shape *assume(const dfi_function *f) {
  dfi_shape *s = dfi_xcalloc((size_t)f->nresults + 1, sizeof *s);
  bool any = false;
  for (int32_t i = 0; i < f->nresults; i++) {
    s[i] = guess(f->ret->in[i], 0);
    any |= dfi_shape_at(f->ret->in[i])->rank < 0 && s[i].rank >= 0;
  }
  if (any) return s;
  dfi_free(s);
  return NULL;
}

static bool holds(const dfi_function *f, const dfi_shape *s) {
  dfi_shape wide;
  for (int32_t i = 0; s && i < f->nresults; i++) {
    if (s[i].rank < 0) continue;
    dfi_shape_relax(&s[i], dfi_shape_at(f->ret->in[i]), &wide);
    if (!dfi_shape_equal(&wide, &s[i])) return false;
  }
  return true;
}

void dfi_flow_functions_infer(df_graph *g) {
  flow *fl = dfi_flow_of(g);
  dfi_shape **assumed = dfi_xcalloc((size_t)fl->nfunction + 1, sizeof *assumed);
  int32_t first = g->n, n;
  bool any = false, all = true;
  for (int32_t i = 0; i < fl->nfunction; i++) {
    const dfi_function *f = fl->function[i];
    if (!is_new(f)) continue;
    if (f->begin->id < first) first = f->begin->id;
    assumed[i] = assume(f);
    any |= assumed[i] != NULL;
  }
  if (any) {
    told *before = keep_all(g, first, &n);
    for (int32_t i = 0; i < fl->nfunction; i++)
      for (int32_t c = 0; assumed[i] && c < fl->function[i]->ncall; c++)
        for (int32_t k = 0; k < fl->function[i]->nresults; k++) {
          dfi_out *o = &fl->function[i]->call[c]->out[k];
          dfi_shape both;
          if (dfi_shape_merge(&o->shape, &assumed[i][k], &both)) o->shape = both;
        }
    for (int32_t id = first; id < g->n; id++) if (is_reached(g->node[id])) infer(g->node[id]);
    for (int32_t i = 0; i < fl->nfunction; i++) all &= holds(fl->function[i], assumed[i]);
    if (!all) restore_all(before, n);
    dfi_free(before);
  }
  for (int32_t i = 0; i < fl->nfunction; i++) dfi_free(assumed[i]);
  dfi_free(assumed);
}
