/* recover_flow_build.c: builds the conds and loops that recover_flow.c has found, so that what was imported is like
 * what was built here.
 *
 * A value then is used in its own context only: what TensorFlow lets through (an outer value used in a branch as it is)
 * gets its Switch, a Switch that serves both branches is made two, and a body reads its variables without the Identity
 * that TensorFlow puts between. Each context has a pivot, the one its constants hang on where there is one.
 */
#include "tensorflow/recover_flow.h"

/* ---- loops: are all parts there? ------------------------------------------------------------------------- */

typedef struct parts {
  int32_t *var;              /* by node: which variable of its loop it belongs to, or -1 */
  bool     changed;
} parts;

static void incomplete(raiser *r, parts *p, int32_t place) {
  place = dfi_recover_resolve(r, place);
  p->changed |= place != PLACE_FIRST;
  dfi_recover_contradiction(r, place);
}

static raised_loop *loop_at(raiser *r, int32_t place, place_kind kind) {
  return r->place[place].kind == kind ? &r->loops[r->place[place].of] : NULL;
}

static dfi_loop_var *var_at(raiser *r, parts *p, raised_loop *l, const df_node *n) {
  int32_t v = raise_mine(r, n) ? p->var[n->id - r->first] : -1;
  return v >= 0 && v < l->nvar ? &l->var[v] : NULL;
}

static void take_merge(raiser *r, parts *p, df_node *n) {
  int32_t at = dfi_recover_place(r, n);
  raised_loop *l = loop_at(r, at, PLACE_PRED);
  int32_t back = n->nin == 2 && dfi_flow_is(n->in[0].node, FLOW_NEXT) ? 0 : 1;
  df_node *enter = n->nin == 2 ? n->in[1 - back].node : NULL, *next = n->nin == 2 ? n->in[back].node : NULL;
  bool fits = l && dfi_flow_is(n, FLOW_MERGE) && enter && !n->ncontrol && dfi_flow_is(next, FLOW_NEXT) &&
              dfi_flow_is(enter, FLOW_ENTER) && raise_mine(r, enter) && raise_mine(r, next) &&
              !dfi_flow_is_constant_enter(enter) && dfi_recover_place(r, enter) == at &&
              p->var[enter->id - r->first] < 0 && p->var[next->id - r->first] < 0;
  if (!fits) { incomplete(r, p, at); return; }
  DFI_GROW(l->var, l->nvar, l->var_cap);
  l->var[l->nvar] =
      (dfi_loop_var){ .enter = enter, .merge = n, .next = next, .init = enter->in[0], .result = next->in[0] };
  p->var[n->id - r->first] = p->var[enter->id - r->first] = p->var[next->id - r->first] = l->nvar++;
}

static void take_switch(raiser *r, parts *p, df_node *n) {
  int32_t at = dfi_recover_place(r, n);
  raised_loop *l = loop_at(r, at, PLACE_PRED);
  dfi_loop_var *v = l ? var_at(r, p, l, n->in[0].node) : NULL;
  bool fits = v && dfi_flow_is(n, FLOW_SWITCH) && v->merge == n->in[0].node && n->in[0].index == 0 && !v->swtch &&
              dfi_recover_origin(r, n->in[1]).node == l->loop_cond;
  if (!fits) { incomplete(r, p, at); return; }
  v->swtch = n;
  p->var[n->id - r->first] = p->var[v->merge->id - r->first];
}

static void take_exit(raiser *r, parts *p, df_node *n) {
  int32_t place = dfi_recover_place_of(r, n->in[0]);
  raised_loop *l = loop_at(r, place, PLACE_LEFT);
  dfi_loop_var *v = l ? var_at(r, p, l, n->in[0].node) : NULL;
  if (!v || v->swtch != n->in[0].node || v->exit) { incomplete(r, p, place); return; }
  v->exit = n;
}

bool dfi_recover_check_loops(raiser *r) {
  parts p = { .var = dfi_xmalloc(sizeof *p.var * ((size_t)r->n + 1)) };
  memset(p.var, -1, sizeof *p.var * ((size_t)r->n + 1));
  df_node **node = r->graph->node + r->first;
  for (int32_t l = 0; l < r->nloops; l++) r->loops[l].nvar = 0;
  for (int32_t i = 0; i < r->n; i++)
    if (!r->unstructured[i] && raise_is_loop_merge(r, node[i])) take_merge(r, &p, node[i]);
  for (int32_t i = 0; i < r->n; i++)
    if (!r->unstructured[i] && dfi_recover_is_loop_switch(r, node[i])) take_switch(r, &p, node[i]);
  for (int32_t i = 0; i < r->n; i++) {
    df_flow f = raise_flow(node[i]);
    if (r->unstructured[i]) continue;
    if (f == DF_EXIT) take_exit(r, &p, node[i]);
    else if (f == DF_NEXT_ITERATION && p.var[i] < 0) incomplete(r, &p, r->at[i]);
    else if (f == DF_ENTER && !dfi_flow_is_constant_enter(node[i]) && p.var[i] < 0) incomplete(r, &p, r->at[i]);
  }
  for (int32_t k = 0; k < r->nloops; k++) {
    raised_loop *l = &r->loops[k];
    bool whole = l->loop_cond && l->nvar;
    for (int32_t v = 0; v < l->nvar; v++) whole &= l->var[v].swtch != NULL;
    if (!whole && !l->given_up) incomplete(r, &p, l->place);
  }
  dfi_free(p.var);
  return p.changed;
}

/* ---- contexts ------------------------------------------------------------------------------------------------ */

static df_context *context_of(raiser *r, int32_t place);

/* The scope that a node's name stands in, as a name for what it is part of. */
static const char *scope_name(df_graph *g, df_node *n, const char *otherwise) {
  const char *name = dfi_node_name(n), *slash = strrchr(name, '/');
  if (!slash || slash == name || slash - name > 400) return otherwise;
  char text[404];
  memcpy(text, name, (size_t)(slash - name));
  text[slash - name] = 0;
  return dfi_intern(g, text);
}

static void make_loop(raiser *r, raised_loop *k) {
  df_node *enter = k->var[0].enter;
  const df_attr *attrs = enter->attrs;
  df_loop *l = k->made = dfi_flow_loop_new(r->graph, dfi_intern(r->graph, k->name), enter->where);
  l->parent = context_of(r, dfi_recover_resolve(r, k->parent));
  l->parallel_iterations = attrs[DFI_ENTER_PARALLEL_ITERATIONS].i;
  l->maximum_iterations = -1;
  l->back_prop = l->built = true;
  l->save = dfi_intern(r->graph, "keep");
  l->loop_cond = k->loop_cond;
  l->pred = dfi_flow_context(r->graph, DFI_PRED, l->parent);
  l->body = dfi_flow_context(r->graph, DFI_BODY, l->parent);
  l->pred->loop = l->body->loop = l;
  l->pred->raised = l->body->raised = true;
}

static void make_cond(raiser *r, raised_cond *k) {
  df_graph *g = r->graph;
  df_node *of = k->pred.node;
  df_cond *c = k->made = dfi_flow_cond_new(g, scope_name(g, of, "cond"), of->where);
  c->parent = context_of(r, dfi_recover_resolve(r, k->parent));
  for (int32_t side = 0; side < 2; side++) {
    df_context *b = c->branch[side] = dfi_flow_context(g, DFI_BRANCH, c->parent);
    b->cond = c;
    b->side = side;
    b->raised = true;
  }
}

static df_context *context_of(raiser *r, int32_t p) {
  const place *at = &r->place[p];
  if (at->kind == PLACE_TOP) return r->graph->top;
  if (at->kind == PLACE_BRANCH) {
    raised_cond *c = &r->conds[dfi_recover_cond(r, at->of)];
    if (!c->made) make_cond(r, c);
    return c->made->branch[at->side];
  }
  raised_loop *l = &r->loops[at->of];
  if (!l->made) make_loop(r, l);
  return at->kind == PLACE_BODY || at->kind == PLACE_LEFT ? l->made->body : l->made->pred;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------ */

static df_cond *cond_of_switch(raiser *r, int32_t i) {
  raised_cond *c = r->cond[i] < 0 || r->unstructured[i] ? NULL : &r->conds[dfi_recover_cond(r, r->cond[i])];
  return !c || c->given_up ? NULL : c->made;
}

static bool is_loop_variable(const df_node *n) {
  return n->context->kind == DFI_BODY && raise_flow(n) == DF_SWITCH && n->in[1].node == n->context->loop->loop_cond;
}

static void place_nodes(raiser *r) {
  for (int32_t i = 0; i < r->n; i++) {
    df_node *n = r->graph->node[r->first + i];
    int32_t at = dfi_recover_resolve(r, r->at[i]);
    df_context *c = context_of(r, at);
    df_flow f = raise_flow(n);
    if (!r->unstructured[i] && f == DF_SWITCH && r->cond[i] >= 0 && !r->conds[dfi_recover_cond(r, r->cond[i])].given_up)
      context_of(r, r->conds[dfi_recover_cond(r, r->cond[i])].branch[0]);
    if (f == DF_SWITCH && c->kind == DFI_PRED && dfi_recover_is_loop_switch(r, n)) {
      n->in[1] = (df_output){ c->loop->loop_cond, 0 };
      c = c->loop->body;
    }
    n->context = c;
    if (r->unstructured[i]) continue;
    n->unstructured &= !(f == DF_SWITCH  ? c->kind == DFI_BODY || cond_of_switch(r, i)
                  : f == DF_MERGE ? c->kind == DFI_PRED || dfi_recover_place_of(r, n->in[0]) != PLACE_FIRST
                  : f == DF_EXIT  ? dfi_recover_place_of(r, n->in[0]) != PLACE_FIRST
                                  : c->kind != DFI_TOP);
  }
}

/* What the body reads of its variables. */
static df_output without_identity(df_output o) {
  if (!dfi_flow_is(o.node, FLOW_IDENTITY) || o.node->ncontrol) return o;
  df_output in = o.node->in[0];
  return in.index == 1 && is_loop_variable(in.node) ? in : o;
}

/* Which sides of each Switch are used, and by which nodes but the pivots. */
static void place_switches(raiser *r) {
  df_graph *g = r->graph;
  uint8_t *used = dfi_xcalloc((size_t)r->n + 1, 1);     /* 1, 2: side false, true; 4: by more than Identities */
  df_node **duplicate = NULL;
  for (int32_t i = 0; i < r->n; i++) {
    df_node *n = g->node[r->first + i];
    for (int32_t j = 0; j < n->nin; j++) {
      n->in[j] = without_identity(n->in[j]);
      df_node *s = n->in[j].node;
      if (raise_mine(r, s) && raise_flow(s) == DF_SWITCH && n->in[j].index < 2)
        used[s->id - r->first] |=
            (uint8_t)(1 << n->in[j].index | (dfi_flow_is(n, FLOW_IDENTITY) && !n->ncontrol ? 0 : 4));
    }
  }
  for (int32_t i = 0; i < r->n; i++) {
    df_node *n = g->node[r->first + i];
    df_cond *c = cond_of_switch(r, i);
    if (!c || !(used[i] & 3)) continue;
    /* the pivots': it stands outside */
    if (!(used[i] & 4) && dfi_same(dfi_recover_origin(r, n->in[0]), dfi_recover_origin(r, n->in[1]))) continue;
    int32_t side = used[i] & 1 ? 0 : 1;
    if ((used[i] & 3) == 3) {
      df_node *t = dfi_flow_node(g, FLOW_SWITCH, c->branch[1], 2, n->in, NULL, NULL, n->in[0], n->where, NULL);
      if (t && !duplicate) duplicate = dfi_xcalloc((size_t)r->n + 1, sizeof *duplicate);
      if (t) duplicate[i] = t;
    }
    n->context = c->branch[side];
  }
  for (int32_t i = 0; i < r->n && duplicate; i++) {
    df_node *n = g->node[r->first + i];
    for (int32_t j = 0; j < n->nin; j++)
      if (raise_mine(r, n->in[j].node) && n->in[j].index == 1 && duplicate[n->in[j].node->id - r->first])
        n->in[j].node = duplicate[n->in[j].node->id - r->first];
  }
  for (int32_t i = 0; i < r->n; i++)
    for (int32_t k = 0; k < 2; k++) {
      df_node *n = k ? duplicate ? duplicate[i] : NULL : g->node[r->first + i];
      /* the pivots' of an inner cond */
      if (!n || n->context->kind != DFI_BRANCH || n->context->cond != cond_of_switch(r, i)) continue;
      df_context *b = n->context;
      if (!b->captures) b->captures = dfi_map_new();
      df_output key = n->in[0];
      if (dfi_map_get(b->captures, key).node) key = (df_output){ n, -1 };      /* a second way in for the same value */
      dfi_map_put(b->captures, key, (df_output){ n, b->side });
    }
  dfi_free(used);
  dfi_free(duplicate);
}

static void add_constants(raiser *r) {
  for (int32_t i = 0; i < r->n; i++) {
    df_node *n = r->graph->node[r->first + i];
    if (n->context->kind != DFI_PRED || !dfi_flow_is_constant_enter(n)) continue;
    df_loop *l = n->context->loop;
    if (!l->captures) l->captures = dfi_map_new();
    df_output key = n->in[0];
    if (dfi_map_get(l->captures, key).node) key = (df_output){ n, -1 };
    dfi_map_put(l->captures, key, (df_output){ n, 0 });
  }
}

/* Where a node's inputs have to be values of. */
static df_context *reads_in(const df_node *n, df_flow f) {
  df_context *c = n->context;
  if (f == DF_ENTER) return c->loop->parent;
  if (f == DF_SWITCH && c->kind == DFI_BRANCH) return c->parent;
  return c;
}

/* Values used in a branch as they are come in through a Switch from now on. */
static void resolve_inputs(raiser *r) {
  for (int32_t i = 0; i < r->n; i++) {
    df_node *n = r->graph->node[r->first + i];
    df_flow f = raise_flow(n);
    if (r->unstructured[i] || n->unstructured || f == DF_EXIT || f == DF_MERGE ||
        (f == DF_SWITCH && n->context->kind == DFI_BODY) || n->context->kind == DFI_TOP)
      continue;
    df_context *c = reads_in(n, f);
    for (int32_t j = 0; j < n->nin; j++) {
      df_error err;
      df_node *from = n->in[j].node;
      if (from->context == c ||
          (raise_mine(r, from) && raise_flow(from) == DF_SWITCH && cond_of_switch(r, from->id - r->first)))
        continue;
      df_output here = dfi_resolve(r->graph, n->in[j], c, &err);
      if (here.node) n->in[j] = here;
    }
  }
}

/* ---- pivots ---------------------------------------------------------------------------------------------------- */

/* May `by` be the pivot of context c: alive whenever the context is? */
static bool may_be_pivot(const df_node *by, const df_context *c) {
  if (by->context != c || by->ncontrol) return false;
  if (c->kind == DFI_PRED) return raise_flow(by) == DF_MERGE;
  if (!dfi_flow_is(by, FLOW_IDENTITY) || raise_flow(by->in[0].node) != DF_SWITCH) return false;
  if (c->kind == DFI_BODY) return by->in[0].index == 1 && is_loop_variable(by->in[0].node);
  return by->in[0].index == c->side && (by->in[0].node->context == c || by->in[0].node->context == c->parent);
}

static void find_pivots(raiser *r) {
  df_node **node = r->graph->node + r->first;
  for (int32_t i = 0; i < r->n; i++) {                     /* what constants hang on first */
    df_context *c = node[i]->context;
    if (c->kind == DFI_TOP || c->pivot || raise_flow(node[i]) != DF_CONSTANT || node[i]->ncontrol != 1) continue;
    if (may_be_pivot(node[i]->control[0], c)) c->pivot = node[i]->control[0];
  }
  for (int32_t i = 0; i < r->n; i++) {
    df_context *c = node[i]->context;
    if (c->kind != DFI_TOP && !c->pivot && may_be_pivot(node[i], c)) c->pivot = node[i];
  }
}

static void make_pivots(raiser *r) {
  df_graph *g = r->graph;
  for (int32_t k = 0; k < r->nconds; k++) {
    df_cond *c = r->conds[k].made;
    if (!c) continue;
    df_node *split = NULL;
    for (int32_t side = 0; side < 2; side++) {
      if (c->branch[side]->pivot) continue;
      if (!split)
        split = dfi_flow_node(g, FLOW_SWITCH, c->parent, 2, (df_output[]){ c->pred, c->pred }, NULL, c->parent->pivot,
                              c->pred, c->where, NULL);
      df_output way = { split, side };
      c->branch[side]->pivot = dfi_flow_node(g, FLOW_IDENTITY, c->branch[side], 1, &way, NULL, NULL, way, c->where,
                                             NULL);
    }
  }
  for (int32_t k = 0; k < r->nloops; k++) {
    df_loop *l = r->loops[k].made;
    if (!l) continue;
    df_output first = { l->var[0].swtch, 1 };
    if (!l->pred->pivot) l->pred->pivot = l->var[0].merge;
    if (!l->body->pivot)
      l->body->pivot = dfi_flow_node(g, FLOW_IDENTITY, l->body, 1, &first, NULL, NULL, first, l->where, NULL);
  }
}

/* ---- what conds and loops know of themselves -------------------------------------------------------------------- */

static void finish_loops(raiser *r) {
  for (int32_t k = 0; k < r->nloops; k++) {
    raised_loop *from = &r->loops[k];
    df_loop *l = from->made;
    if (!l) continue;
    l->n = l->cap = from->nvar;
    l->var = from->var;
    from->var = NULL;
    for (int32_t i = 0; i < l->n; i++) {
      dfi_loop_var *v = &l->var[i];
      v->init = v->enter->in[0];
      v->result = v->next->in[0];
      df_output left = { v->swtch, 0 };
      if (!v->exit) v->exit = dfi_flow_node(r->graph, FLOW_EXIT, l->parent, 1, &left, NULL, NULL, left, l->where, NULL);
    }
  }
}

static void finish_conds(raiser *r) {
  for (int32_t k = 0; k < r->nconds; k++) {
    df_cond *c = r->conds[k].made;
    df_error err;
    if (c) c->pred = dfi_resolve(r->graph, r->conds[k].pred, c->parent, &err);
    /* it is no value of the context around: it stays what it was */
    if (c && !c->pred.node) c->pred = r->conds[k].pred;
    for (int32_t side = 0; c && side < 2; side++)  /* all its Switches are told by it, whatever Identity was between */
      for (int32_t i = 0; i < dfi_map_count(c->branch[side]->captures); i++) {
        df_output way;
        dfi_map_at(c->branch[side]->captures, i, NULL, &way);
        way.node->in[1] = c->pred;
      }
  }
  for (int32_t i = 0; i < r->n; i++) {
    df_node *n = r->graph->node[r->first + i];
    if (raise_flow(n) != DF_MERGE || r->unstructured[i] || n->unstructured || n->context->kind == DFI_PRED) continue;
    int32_t side = n->in[0].node->context->side;
    df_cond *c = n->in[0].node->context->cond;
    if ((c->n & (c->n - 1)) == 0) {
      size_t room = 2 * (size_t)c->n + 1;
      for (int32_t s = 0; s < 2; s++) c->result[s] = dfi_xrealloc(c->result[s], sizeof *c->result[s] * room);
      c->merge = dfi_xrealloc(c->merge, sizeof *c->merge * room);
    }
    c->result[side][c->n] = n->in[0];
    c->result[1 - side][c->n] = n->in[1];
    c->merge[c->n++] = n;
  }
}

void dfi_recover_build(raiser *r) {
  place_nodes(r);
  place_switches(r);
  add_constants(r);
  finish_conds(r);
  find_pivots(r);
  finish_loops(r);
  make_pivots(r);
  resolve_inputs(r);
  for (int32_t k = 0; k < r->nloops; k++) {
    df_loop *l = r->loops[k].made;
    for (int32_t i = 0; l && i < l->n; i++) {
      l->var[i].init = l->var[i].enter->in[0];
      l->var[i].result = l->var[i].next->in[0];
    }
  }
}
