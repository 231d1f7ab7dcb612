/* form_check.c: is what was read a graph that plans can be made of? Each node fits its op's entry, contexts are a tree
 * that agrees with the conds, loops and functions they belong to, and only a NextIteration closes a circle.
 */
#include "cluster/form.h"
#include "graph/graph.h"

#define BAD(where, ...) return dfi_fail(err, DF_DATA_LOSS, where, "a graph from another process: " __VA_ARGS__)

static int32_t check_attr(const df_node *n, const dfi_attr_def *def, const df_attr *a, df_error *err) {
  switch (def->type) {
  case 'd': if (a->i < 0 || a->i >= 32) BAD(n->where, "%s of node %d is no dtype", def->name, n->id); break;
  case 'b': if (a->i != 0 && a->i != 1) BAD(n->where, "%s of node %d is no bool", def->name, n->id); break;
  case 'h':
    if (a->i < -1 || a->i > DF_MAX_RANK)
      BAD(n->where, "%s of node %d has rank %lld", def->name, n->id, (long long)a->i);
    for (int64_t k = 0; k < a->i; k++)
      if (a->ints[k] < -1) BAD(n->where, "%s of node %d is no shape", def->name, n->id);
    break;
  case 'y':
    for (int64_t k = 0; k < a->i; k++)
      if (a->ints[k] <= 0 || a->ints[k] >= 32) BAD(n->where, "%s of node %d is no list of dtypes", def->name, n->id);
    break;
  case 'p':
    for (int64_t k = 0; k < a->i;) {
      const int64_t rank = a->ints[k++];
      if (rank < -1 || rank > DF_MAX_RANK || rank > a->i - k)
        BAD(n->where, "%s of node %d is no list of shapes", def->name, n->id);
      k += rank > 0 ? rank : 0;
    }
    break;
  case 't': if (def->required && !a->tensor) BAD(n->where, "%s of node %d is missing", def->name, n->id); break;
  }
  return DF_OK;
}

static int32_t check_constant(const df_node *n, const dfi_out *o, df_error *err) {
  const df_tensor *t = o->constant;
  if (!t) return DF_OK;
  dfi_shape shape = dfi_shape_of(t->rank, t->dims), both;
  if (t->dtype != o->dtype || !dfi_shape_merge(&shape, &o->shape, &both))
    BAD(n->where, "the constant of node %d is another than its output", n->id);
  return DF_OK;
}

static int32_t check_node(const df_graph *g, df_node *n, df_error *err) {
  const dfi_op_info *o = dfi_op_info_at(n->op);
  for (int32_t i = 0; i < n->nin; i++)
    if (n->in[i].index < 0 || n->in[i].index >= n->in[i].node->nout)
      BAD(n->where, "node %d reads output %d of node %d", n->id, n->in[i].index, n->in[i].node->id);
  for (int32_t a = 0; a < o->nattr && n->attrs != o->defaults; a++)
    if (check_attr(n, &o->attr[a], &n->attrs[a], err)) return err->code;
  for (int32_t i = 0; i < n->nout; i++) if (check_constant(n, &n->out[i], err)) return err->code;
  if (o->op->flow == DF_CONSTANT && !n->out[0].constant && !n->attrs[0].tensor)
    BAD(n->where, "node %d is a constant of no value", n->id);
  return dfi_node_check(n, err);
}

/* ---- contexts ---------------------------------------------------------------------------------------- */

static bool owned(const df_context *c) {
  switch (c->kind) {
  case DFI_TOP: return !c->id && !c->parent;
  case DFI_BRANCH: return c->cond && (c->side == 0 || c->side == 1) && c->cond->branch[c->side] == c;
  case DFI_PRED: return c->loop && c->loop->pred == c;
  case DFI_BODY: return c->loop && c->loop->body == c;
  case DFI_CALLED: return c->function && c->function->body == c;
  }
  return false;
}

static int32_t check_contexts(const df_graph *g, const flow *f, df_error *err) {
  if (!owned(g->top)) BAD(NULL, "its top level is none");
  for (int32_t i = 0; i < f->ncontext; i++) {
    const df_context *c = f->context[i];
    if (!c->parent || c->parent->id >= c->id || c->depth != c->parent->depth + 1)
      BAD(NULL, "context %d lies in none that is older", c->id);
    if (!owned(c)) BAD(NULL, "context %d and what it belongs to do not agree", c->id);
  }
  return DF_OK;
}

static bool is_flow(const df_node *n, df_flow flow) { return n && dfi_op_info_at(n->op)->op->flow == flow; }

static int32_t check_loops(const flow *f, df_error *err) {
  for (int32_t i = 0; i < f->nloop; i++) {
    const df_loop *l = f->loop[i];
    if (!l->name || !l->where || !l->parent || !l->pred || !l->save || l->parallel_iterations < 1)
      BAD(l->where, "loop %d lacks a part", i);
    if (!l->built) continue;
    if (!l->body || !is_flow(l->loop_cond, DF_LOOP_COND)) BAD(l->where, "loop %d has no predicate", i);
    for (int32_t v = 0; v < l->n; v++) {
      const dfi_loop_var *x = &l->var[v];
      if (!is_flow(x->enter, DF_ENTER) || !is_flow(x->merge, DF_MERGE) || !is_flow(x->swtch, DF_SWITCH) ||
          !is_flow(x->next, DF_NEXT_ITERATION) || (x->exit && !is_flow(x->exit, DF_EXIT)) || !x->init.node)
        BAD(l->where, "variable %d of loop %d lacks a part", v, i);
    }
    if (l->trip_var < -1 || l->trip_var >= l->n) BAD(l->where, "loop %d counts by variable %d", i, l->trip_var);
  }
  return DF_OK;
}

static int32_t check_constructs(const df_graph *g, const flow *f, df_error *err) {
  for (int32_t i = 0; i < f->ncond; i++) {
    const df_cond *c = f->cond[i];
    if (!c->name || !c->where || !c->parent || !c->pred.node) BAD(c->where, "cond %d lacks a part", i);
    for (int32_t k = 0; c->merge && k < c->n; k++)
      if (!is_flow(c->merge[k], DF_MERGE)) BAD(c->where, "result %d of cond %d is no Merge", k, i);
  }
  for (int32_t i = 0; i < f->nfunction; i++) {
    const dfi_function *k = f->function[i];
    if (!k->name || !k->where || !k->body || !is_flow(k->begin, DF_FUNCTION_BEGIN) || !k->tape || !k->outer ||
        k->nknown < 0 || k->nknown > k->n || (k->ret && !is_flow(k->ret, DF_FUNCTION_RETURN)))
      BAD(k->where, "function %d lacks a part", i);
    for (int32_t a = 0; a < k->n; a++)
      if (!is_flow(k->arg[a], DF_FUNCTION_ARG)) BAD(k->where, "argument %d of function %d is none", a, i);
  }
  for (int32_t i = 0; i < dfi_map_count(g->variable_init); i++) {
    df_output key, value;
    dfi_map_at(g->variable_init, i, &key, &value);
    if (!key.node || !dfi_is_variable(key.node) || !value.node || value.index < 0 || value.index >= value.node->nout)
      BAD(NULL, "an initial value is of no variable");
  }
  return DF_OK;
}

/* ---- circles ----------------------------------------------------------------------------------------- */

static bool closes_loop(const df_node *n) { return is_flow(n, DF_NEXT_ITERATION); }

/* Takes away nodes that wait for nothing until none is left that does; what a NextIteration sends is not waited for. */
static int32_t check_circles(const df_graph *g, df_error *err) {
  int32_t *waits = dfi_xcalloc((size_t)g->n + 1, sizeof *waits), *first = dfi_xcalloc((size_t)g->n + 2, sizeof *first);
  int32_t *ready = dfi_xmalloc(sizeof *ready * ((size_t)g->n + 1)), nready = 0, done = 0;
  for (int32_t id = 0; id < g->n; id++) {
    const df_node *n = g->node[id];
    for (int32_t i = 0; i < n->nin + n->ncontrol; i++) {
      const df_node *from = i < n->nin ? n->in[i].node : n->control[i - n->nin];
      if (!closes_loop(from)) { waits[id]++; first[from->id + 1]++; }
    }
    if (!waits[id]) ready[nready++] = id;
  }
  for (int32_t i = 0; i < g->n; i++) first[i + 1] += first[i];
  int32_t *reader = dfi_xmalloc(sizeof *reader * ((size_t)first[g->n] + 1));
  int32_t *at = dfi_xmalloc(sizeof *at * ((size_t)g->n + 1));
  memcpy(at, first, sizeof *at * (size_t)g->n);
  for (int32_t id = 0; id < g->n; id++) {
    const df_node *n = g->node[id];
    for (int32_t i = 0; i < n->nin + n->ncontrol; i++) {
      const df_node *from = i < n->nin ? n->in[i].node : n->control[i - n->nin];
      if (!closes_loop(from)) reader[at[from->id]++] = id;
    }
  }
  for (; done < nready; done++)
    for (int32_t i = first[ready[done]]; i < first[ready[done] + 1]; i++)
      if (!--waits[reader[i]]) ready[nready++] = reader[i];
  dfi_free(waits); dfi_free(first); dfi_free(ready); dfi_free(reader); dfi_free(at);
  if (done < g->n) BAD(NULL, "%d nodes wait for each other", g->n - done);
  return DF_OK;
}

int32_t dfi_form_check(df_graph *g, df_error *err) {
  const flow *f = dfi_flow_of(g);
  for (int32_t i = 0; i < g->n; i++) if (check_node(g, g->node[i], err)) return err->code;
  if (check_contexts(g, f, err) || check_loops(f, err) || check_constructs(g, f, err) || check_circles(g, err))
    return err->code;
  return DF_OK;
}
