/* cond.c: cond, lowered to Switch and Merge while it is built.
 *
 * Each branch is a context; its pivot is alive when the branch is taken. An outer value used in a branch comes through
 * one Switch (control_flow.c). Each result is a Merge whose input 0 is the false branch's value and input 1 the true
 * branch's; both inputs are nodes of the branches themselves, so a Merge always leads back to its df_cond.
 * Where a branch has side effects, its results wait for them, and `done` runs when all of the taken branch has.
 */
#include "graph/flow.h"
#include <stdio.h>

df_cond *dfi_flow_cond_new(df_graph *g, const char *name, const char *where) {
  flow *f = dfi_flow_of(g);
  df_cond *c = dfi_xcalloc(1, sizeof *c);
  c->id = g->nconds++;
  c->graph = g;
  c->name = name;
  c->where = where;
  if (f->ncond == f->cond_cap)
    f->cond = dfi_xrealloc(f->cond, sizeof *f->cond * (size_t)(f->cond_cap = f->cond_cap * 2 + 16));
  return f->cond[f->ncond++] = c;
}

int32_t df_cond_begin(df_graph *g, int32_t pred_node, int32_t pred_index, const char *name, const char *where,
                      df_error *err) {
  char text[160];
  if (pred_node < 0 || pred_node >= g->n || pred_index < 0 || pred_index >= g->node[pred_node]->nout)
    return dfi_fail(err, DF_INVALID_ARGUMENT, where, "cond: there is no output %d:%d to be the predicate", pred_node,
                    pred_index);
  df_output pred = dfi_resolve(g, (df_output){ g->node[pred_node], pred_index }, g->current, err);
  if (!pred.node) { dfi_flow_blame(err, where); return err ? err->code : DF_INVALID_ARGUMENT; }
  if (dfi_dtype(pred) != DF_BOOL || dfi_shape_at(pred)->rank > 0)
    return dfi_fail(err, DF_INVALID_ARGUMENT, where, "the predicate of cond must be a scalar bool, but `%s` is %s",
                    dfi_node_name(pred.node), dfi_typed_shape_text(dfi_dtype(pred), dfi_shape_at(pred), text));
  const char *full = dfi_unique_name(g, name && *name ? name : "cond");
  df_cond *c = dfi_flow_cond_new(g, full, dfi_intern(g, where ? where : ""));
  c->parent = g->current;
  c->pred = pred;
  flow_entry *e = dfi_flow_push(g);
  e->cond = c;
  flow_enter_scope(g, full);
  df_node *split =
      dfi_flow_node(g, FLOW_SWITCH, c->parent, 2, (df_output[]){ pred, pred }, NULL, c->parent->pivot, pred, c->where,
                    err);
  for (int32_t side = 0; side < 2 && split; side++) {
    df_context *b = c->branch[side] = dfi_flow_context(g, DFI_BRANCH, c->parent);
    df_output way = { split, side };
    b->cond = c;
    b->side = side;
    b->pivot = dfi_flow_node(g, FLOW_IDENTITY, b, 1, &way, NULL, NULL, way, c->where, err);
    if (!b->pivot) split = NULL;
  }
  if (!split) { dfi_flow_pop(g); return err ? err->code : DF_INTERNAL; }
  g->current = c->branch[1];
  return dfi_check_memory(DF_OK, err, where, "a cond");
}

/* A result as its Merge takes it: a value of the branch, which waits for the branch's effects. */
static df_output branch_result(df_context *b, df_output o, bool wait, df_error *err) {
  df_graph *g = b->cond->graph;
  o = dfi_resolve(g, o, b, err);
  if (!o.node || (!wait && !dfi_is_tokenless(o))) return o;
  df_node *n = dfi_flow_node(g, FLOW_IDENTITY, b, 1, &o, NULL, b->pivot, o, b->cond->where, err);
  if (!n) return DFI_NONE;
  if (b->last_effect && wait) dfi_node_add_control(n, b->last_effect);
  return (df_output){ n, 0 };
}

int32_t df_cond_branch_end(df_graph *g, int32_t n, const int32_t *outputs, df_error *err) {
  flow_entry *e = dfi_flow_top(g);
  if (!e || !e->cond || e->stage > 1)
    return dfi_fail(err, DF_FAILED_PRECONDITION, NULL, "df_cond_branch_end without a branch that was begun");
  df_cond *c = e->cond;
  int32_t side = 1 - e->stage;
  df_context *b = c->branch[side];
  if (e->stage == 1 && n != c->n)
    return dfi_fail(err, DF_INVALID_ARGUMENT, c->where,
                    "the true branch of cond returns %d value%s, but the false branch returns %d", c->n,
                    c->n == 1 ? "" : "s", n);
  g->current = b;
  if (n < 0) return dfi_fail(err, DF_INVALID_ARGUMENT, c->where, "a branch of cond cannot return %d values", n);
  c->n = n;
  dfi_free(c->result[side]);                              /* of an attempt that failed */
  c->result[side] = dfi_xcalloc((size_t)n, sizeof(df_output));
  for (int32_t i = 0; i < n; i++) {
    int32_t id = outputs[2 * i], index = outputs[2 * i + 1];
    if (id < 0 || id >= g->n || index < 0 || index >= g->node[id]->nout)
      return dfi_fail(err, DF_INVALID_ARGUMENT, c->where, "cond: result %d of the %s branch is no output of this graph",
                      i + 1, side ? "true" : "false");
    df_output o = branch_result(b, (df_output){ g->node[id], index }, b->last_effect != NULL, err);
    if (!o.node) { dfi_flow_blame(err, c->where); return err ? err->code : DF_INVALID_ARGUMENT; }
    c->result[side][i] = o;
  }
  e->stage++;
  g->current = e->stage == 1 ? c->branch[0] : c->parent;
  return dfi_check_memory(DF_OK, err, c->where, "a cond");
}

int32_t df_cond_select_branch(df_graph *g, bool side, df_error *err) {
  flow_entry *e = dfi_flow_top(g);
  if (!e || !e->cond || e->stage > 0)
    return dfi_fail(err, DF_FAILED_PRECONDITION, NULL, "df_cond_select_branch without a cond whose branches are open");
  g->current = e->cond->branch[side];
  return DF_OK;
}

/* What is known of either value, for their Merge. */
static void relax(df_node *merge, df_output a, df_output b) {
  const dfi_out *x = &a.node->out[a.index], *y = &b.node->out[b.index];
  dfi_out *m = &merge->out[0];
  m->dtype = x->dtype;
  m->of = x->of ? x->of : y->of;
  if (x->dtype != DF_RESOURCE || !dfi_shape_merge(&x->shape, &y->shape, &m->shape))
    dfi_shape_relax(&x->shape, &y->shape, &m->shape);
}

static df_node *merge_results(df_cond *c, df_output if_false, df_output if_true, df_error *err) {
  df_node *m = dfi_flow_node(c->graph, FLOW_MERGE, c->parent, 2, (df_output[]){ if_false, if_true }, NULL, NULL,
                             if_false, c->where, err);
  if (m) relax(m, if_false, if_true);
  return m;
}

/* A node of the branch that runs when all of it has that matters: its effects, and the reads that later effects must
   wait for. */
static df_output branch_done(df_context *b, df_error *err) {
  df_output alive = { b->pivot, 0 };
  df_node *n = dfi_flow_node(b->cond->graph, FLOW_IDENTITY, b, 1, &alive, NULL, NULL, alive, b->cond->where, err);
  if (!n) return DFI_NONE;
  if (b->last_effect) dfi_node_add_control(n, b->last_effect);
  else dfi_flow_order(n);  /* the other branch may have effects: what follows waits for both */
  for (int32_t i = 0; i < b->nreads; i++) dfi_node_add_control(n, b->reads[i]);
  return (df_output){ n, 0 };
}

int32_t df_cond_end(df_graph *g, int32_t *out, df_error *err) {
  flow_entry *e = dfi_flow_top(g);
  if (!e || !e->cond || e->stage != 2) {
    dfi_fail(err, DF_FAILED_PRECONDITION, NULL, "df_cond_end before both branches have ended");
    return -1;
  }
  df_cond *c = e->cond;
  for (int32_t i = 0; i < c->n; i++) {
    df_output f = c->result[0][i], t = c->result[1][i];
    if (dfi_dtype(f) != dfi_dtype(t)) {
      dfi_fail(err, DF_INVALID_ARGUMENT, c->where,
               "result %d of cond is %s in the true branch (%s) but %s in the false branch (%s): cast one of them",
               i + 1, df_dtype_name(dfi_dtype(t)), t.node->where, df_dtype_name(dfi_dtype(f)), f.node->where);
      return -1;
    }
  }
  c->merge = dfi_xcalloc((size_t)c->n, sizeof *c->merge);
  for (int32_t i = 0; i < c->n; i++) {
    c->merge[i] = merge_results(c, c->result[0][i], c->result[1][i], err);
    if (!c->merge[i]) return -1;
    out[2 * i] = c->merge[i]->id;
    out[2 * i + 1] = 0;
  }
  bool effect = c->branch[0]->last_effect || c->branch[1]->last_effect,
       read = c->branch[0]->nreads || c->branch[1]->nreads;
  if (c->n == 0 || (c->parent->kind != DFI_TOP && (effect || read))) {
    df_output f = branch_done(c->branch[0], err), t = branch_done(c->branch[1], err);
    if (!f.node || !t.node || !(c->done = merge_results(c, f, t, err))) return -1;
    if (effect || read) dfi_flow_happened(c->parent, c->done, effect);
  }
  dfi_flow_pop(g);
  if (dfi_check_memory(DF_OK, err, c->where, "a cond")) return -1;
  return c->done ? c->done->id : c->merge[0]->id;
}

int32_t dfi_cond_add_result(df_cond *c, df_output if_false, df_output if_true, df_output *out, df_error *err) {
  df_output r[2] = { branch_result(c->branch[0], if_false, false, err),
                     branch_result(c->branch[1], if_true, false, err) };
  df_node *m = r[0].node && r[1].node ? merge_results(c, r[0], r[1], err) : NULL;
  if (!m) return err && err->code ? err->code : DF_INTERNAL;
  for (int32_t side = 0; side < 2; side++) {
    c->result[side] = dfi_xrealloc(c->result[side], sizeof(df_output) * (size_t)(c->n + 1));
    c->result[side][c->n] = r[side];
  }
  c->merge = dfi_xrealloc(c->merge, sizeof *c->merge * (size_t)(c->n + 1));
  c->merge[c->n++] = m;
  *out = (df_output){ m, 0 };
  return DF_OK;
}
