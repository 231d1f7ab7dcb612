/* order.c: the control edges that a node gets when it is built.
 *
 * 1. Pivot: inside a cond or loop, a node that no token of its context reaches (all its inputs are tokenless) waits for
 *    the context's pivot, so that it runs once per run of the context and is dead with it.
 * 2. What the node asks for itself, and what df_push_control has standing.
 * Program order of side effects is control_flow.c's.
 *
 * A control edge never crosses a frame. Something outside that is waited for inside a loop arrives there as a loop
 * constant (control_in), except that what stood when the loop was begun already holds back its Enters.
 */
#include "graph/graph.h"

static bool is_loop(const df_context *c) { return c->kind == DFI_PRED || c->kind == DFI_BODY; }

static void waits_add(dfi_waits *w, df_node *n) {
  for (int32_t i = 0; i < w->n; i++)
    if (w->node[i] == n) return;
  if (w->n == w->cap) {
    w->cap *= 2;
    df_node **more = dfi_xmalloc(sizeof *more * (size_t)w->cap);
    memcpy(more, w->node, sizeof *more * (size_t)w->n);
    if (w->node != w->few) dfi_free(w->node);
    w->node = more;
  }
  w->node[w->n++] = n;
}

/* Is `outer` c or around it? `loops`: a loop's border lies between. */
static bool around(const df_context *c, const df_context *outer, bool *loops) {
  for (*loops = false; c; c = c->parent) {
    if (c == outer) return true;
    *loops |= is_loop(c);
  }
  return false;
}

/* The node to hang a control edge on so that something in context c waits for `control`: itself within one frame, or a
 * constant Enter that arrives after it. NULL: it was built inside a cond or loop that c is not in; err is filled. */
static df_node *control_in(df_graph *g, df_node *control, df_context *c, const char *where, df_error *err) {
  bool loops;
  if (!around(c, control->context, &loops)) {
    dfi_fail(err, DF_INVALID_ARGUMENT, where,
             "%s was built inside a cond or while_loop%s%s and cannot be waited for outside of it",
             dfi_node_name(control), *control->where ? " at " : "", control->where);
    return NULL;
  }
  if (!loops) return control;
  /* A token that is there once `control` has run; kept, because many may wait for it. */
  df_context *context = control->context, *before = g->current;
  if (!context->cache) context->cache = dfi_map_new();
  df_output key = { control, -2 }, token = dfi_map_get(context->cache, key);
  if (!token.node) {
    dfi_builder *b = g->build;
    const dfi_op_info *constant = dfi_op_find("Const"), *identity = dfi_op_find("Identity");
    df_tensor *zero = df_tensor_new(DF_INT32, 0, NULL, err);
    if (!zero) return NULL;
    df_tensor_set_int(zero, 0, 0);
    df_attr attrs[2] = { { .tensor = zero }, { .i = DF_INT32 } };
    int32_t standing = b->ncontrol;
    b->ncontrol = 0;
    g->current = context;
    df_node *n = dfi_node_add(g, &(dfi_node_spec){ .op = constant->id, .attrs = attrs, .where = where }, err);
    df_tensor_release(zero);
    if (n) n = dfi_node_add(g, &(dfi_node_spec){ .op = identity->id, .nin = 1, .in = (df_output[]){ { n, 0 } },
                                                 .ncontrol = 1, .control = &control, .where = where }, err);
    g->current = before;
    b->ncontrol = standing;
    if (!n) return NULL;
    token = (df_output){ n, 0 };
    dfi_map_put(context->cache, key, token);
  }
  return dfi_resolve(g, token, c, err).node;
}

/* What was pushed in c's own frame. What was pushed outside of a loop that c is in holds back that loop already. */
static int32_t add_standing(df_graph *g, df_context *c, const char *where, dfi_waits *w, df_error *err) {
  dfi_builder *b = g->build;
  for (int32_t i = b->ncontrol - 1; i >= 0; i--) {
    const dfi_control *s = &b->control[i];
    if (s->n < 0) break;
    bool loops;
    if (!around(c, s->context, &loops) || loops) continue;
    for (int32_t j = 0; j < s->n; j++) {
      df_node *control = control_in(g, s->nodes[j], c, where, err);
      if (!control) return err && err->code ? err->code : DF_INVALID_ARGUMENT;
      waits_add(w, control);
    }
  }
  return DF_OK;
}

int32_t dfi_order(df_graph *g, df_node *n, const dfi_node_spec *spec, dfi_waits *w, df_error *err) {
  const dfi_op_info *o = dfi_op_info_at(n->op);
  df_context *c = n->context;
  for (int32_t i = 0; i < spec->ncontrol; i++) {
    df_node *control = spec->raw ? spec->control[i] : control_in(g, spec->control[i], c, spec->where, err);
    if (!control) return err && err->code ? err->code : DF_INVALID_ARGUMENT;
    waits_add(w, control);
  }
  if (spec->raw) {
    /* What stands around a loop that is being begun holds back its variables, and with them all of it. */
    if (o->op->flow == DF_ENTER && dfi_builder_of(g)->ncontrol && c->loop && !c->loop->built &&
        !n->attrs[DFI_ENTER_IS_CONSTANT].i)
      return add_standing(g, c->loop->parent, spec->where, w, err);
    return DF_OK;
  }
  if (dfi_builder_of(g)->ncontrol) {
    int32_t code = add_standing(g, c, spec->where, w, err);
    if (code) return code;
  }
  if (c->kind == DFI_TOP) return DF_OK;

  bool reached = false;
  for (int32_t i = 0; i < n->nin && !reached; i++) reached = !dfi_is_tokenless(n->in[i]);
  if (!reached && c->pivot) waits_add(w, c->pivot);
  return DF_OK;
}

void df_push_control(df_graph *g, int32_t n, const int32_t *nodes) {
  dfi_builder *b = g->build;
  DFI_GROW(b->control, b->ncontrol, b->control_cap);
  dfi_control *s = &b->control[b->ncontrol++];
  *s = (dfi_control){ .n = n < 0 ? -1 : 0, .context = g->current };
  if (n > 0) s->nodes = dfi_graph_alloc(g, sizeof *s->nodes * (size_t)n);
  for (int32_t i = 0; i < n; i++)
    if (nodes[i] >= 0 && nodes[i] < g->n) s->nodes[s->n++] = g->node[nodes[i]];
}
void df_pop_control(df_graph *g) {
  dfi_builder *b = g->build;
  if (b->ncontrol > 0) b->ncontrol--;
}

/* What stands is set aside by a barrier: `suspended` is its place. */
void *dfi_controls_suspend(df_graph *g) {
  df_push_control(g, -1, NULL);
  return (void *)(intptr_t)dfi_builder_of(g)->ncontrol;
}
void dfi_controls_resume(df_graph *g, void *suspended) {
  df_assert((intptr_t)suspended == dfi_builder_of(g)->ncontrol);
  df_pop_control(g);
}
