/* while.c: while_loop, lowered to the five primitives while it is built.
 *
 * Per variable: Enter → Merge → Switch → (body) → NextIteration → the Merge again, and Exit from the Switch's false
 * side. The predicate sees the Merges, the body the Switches' true sides. One variable, a scalar where there is one,
 * carries the pivots: the predicate's is its Merge, the body's an Identity of its Switch, so what hangs on them is dead
 * in the last, unfinished iteration. An outer value comes in through one constant Enter (control_flow.c).
 *
 * Variables may be added to a loop that is built (the trip counter, arrays that save values for gradients): they have
 * their own chain of primitives and no plan that does not fetch what depends on them ever sees them.
 */
#include "graph/flow.h"
#include <stdio.h>

void df_while_invariant(df_graph *g, int32_t var, int32_t rank, const int64_t *dims) {
  flow *f = dfi_flow_of(g);
  f->invariant = dfi_xrealloc(f->invariant, sizeof *f->invariant * (size_t)(f->ninvariant + 1));
  f->invariant[f->ninvariant++] = (flow_shape){ var, dfi_shape_of(rank, dims) };
}

void df_while_var_name(df_graph *g, int32_t var, const char *name) {
  flow *f = dfi_flow_of(g);
  f->name = dfi_xrealloc(f->name, sizeof *f->name * (size_t)(f->nname + 1));
  f->name[f->nname++] = (flow_name){ var, dfi_intern(g, name) };
}

/* ---- the chain of one variable -------------------------------------------------------------- */

static dfi_loop_var *var_new(df_loop *l, df_output init, const char *name) {
  if (l->n == l->cap) l->var = dfi_xrealloc(l->var, sizeof *l->var * (size_t)(l->cap = l->cap * 2 + 4));
  dfi_loop_var *v = &l->var[l->n++];
  *v = (dfi_loop_var){ .init = init, .name = name };
  return v;
}

static bool var_enter(df_loop *l, dfi_loop_var *v, df_error *err) {
  v->enter = dfi_flow_enter(l, v->init, false, err);
  if (!v->enter) return false;
  df_output entered = { v->enter, 0 };
  if (v->has_invariant) v->enter->out[0].shape = v->invariant;
  v->merge = dfi_flow_node(l->graph, FLOW_MERGE, l->pred, 1, &entered, NULL, NULL, entered, l->where, err);
  return v->merge != NULL;
}

static bool var_switch(df_loop *l, dfi_loop_var *v, df_error *err) {
  df_output in[2] = { { v->merge, 0 }, { l->loop_cond, 0 } };
  v->swtch = dfi_flow_node(l->graph, FLOW_SWITCH, l->body, 2, in, NULL, NULL, in[0], l->where, err);
  return v->swtch != NULL;
}

static bool var_next(df_loop *l, dfi_loop_var *v, df_error *err) {
  v->next = dfi_flow_node(l->graph, FLOW_NEXT, l->body, 1, &v->result, NULL, l->body->pivot, v->result, l->where, err);
  if (!v->next) return false;
  dfi_node_add_input(v->merge, (df_output){ v->next, 0 });
  df_output out = { v->swtch, 0 };
  v->exit = dfi_flow_node(l->graph, FLOW_EXIT, l->parent, 1, &out, NULL, NULL, out, l->where, err);
  return v->exit != NULL;
}

/* ---- building ------------------------------------------------------------------------------- */

static const char *var_text(const dfi_loop_var *v, int32_t i, char *buffer, size_t bytes) {
  if (v->name) snprintf(buffer, bytes, "`%s`", v->name); else snprintf(buffer, bytes, "%d", i + 1);
  return buffer;
}

/* May a value of shape `s` stand where `is` was promised? */
static bool fits(const dfi_shape *s, const dfi_shape *is) {
  if (is->rank < 0) return true;
  if (s->rank != is->rank) return false;
  for (int32_t i = 0; i < s->rank; i++) if (is->dims[i] >= 0 && s->dims[i] != is->dims[i]) return false;
  return true;
}

df_loop *dfi_flow_loop_new(df_graph *g, const char *name, const char *where) {
  flow *f = dfi_flow_of(g);
  df_loop *l = dfi_xcalloc(1, sizeof *l);
  l->id = g->nloops++;
  l->graph = g;
  l->name = name;
  l->where = dfi_intern(g, where ? where : "");
  l->trip_var = -1;
  if (f->nloop == f->loop_cap)
    f->loop = dfi_xrealloc(f->loop, sizeof *f->loop * (size_t)(f->loop_cap = f->loop_cap * 2 + 16));
  return f->loop[f->nloop++] = l;
}

/* The initial values, their names and invariants, checked. The counter of maximum_iterations comes after the caller's
   variables. */
static int32_t take_inits(df_graph *g, df_loop *l, int32_t n, const int32_t *init, df_error *err) {
  flow *f = dfi_flow_of(g);
  char at[80], s1[160], s2[160];
  for (int32_t i = 0; i < n; i++) {
    int32_t id = init[2 * i], index = init[2 * i + 1];
    if (id < 0 || id >= g->n || index < 0 || index >= g->node[id]->nout)
      return dfi_fail(err, DF_INVALID_ARGUMENT, l->where,
                      "while_loop: the initial value of loop variable %d is no output of this graph", i + 1);
    df_output o = dfi_resolve(g, (df_output){ g->node[id], index }, l->parent, err);
    if (!o.node) { dfi_flow_blame(err, l->where); return err ? err->code : DF_INVALID_ARGUMENT; }
    var_new(l, o, NULL);
  }
  for (int32_t i = 0; i < f->nname; i++)
    if (f->name[i].var >= 0 && f->name[i].var < n) l->var[f->name[i].var].name = f->name[i].name;
  for (int32_t i = 0; i < f->ninvariant; i++) {
    int32_t k = f->invariant[i].var;
    if (k < 0 || k >= n)
      return dfi_fail(err, DF_INVALID_ARGUMENT, l->where,
                      "while_loop: shape_invariants has an entry for loop variable %d, but there are %d", k + 1, n);
    dfi_loop_var *v = &l->var[k];
    v->has_invariant = true;
    v->invariant = f->invariant[i].shape;
    if (dfi_dtype(v->init) != DF_RESOURCE && !fits(dfi_shape_at(v->init), &v->invariant))
      return dfi_fail(err, DF_INVALID_ARGUMENT, l->where,
                      "loop variable %s enters as %s, which does not fit its shape_invariants entry %s",
                      var_text(v, k, at, sizeof at),
                      dfi_typed_shape_text(dfi_dtype(v->init), dfi_shape_at(v->init), s1),
                      dfi_shape_text(&v->invariant, s2));
  }
  if (l->maximum_iterations < 0) return DF_OK;
  dfi_build b;
  dfi_build_init(&b, g, l->where, err);
  bool wide = l->maximum_iterations > INT32_MAX;
  df_output zero = dfi_const(&b, wide ? DF_INT64 : DF_INT32, 0);
  if (!zero.node) return err ? err->code : DF_INTERNAL;
  if (!wide) l->trip_var = n;
  var_new(l, zero, dfi_intern(g, "trips"));
  return DF_OK;
}

/* A loop that recomputes is to hold little: in a body it does not begin before what the iteration begins with has come,
   or each iteration that runs ahead holds what it gives. */
static bool waits_for_iteration(df_loop *l, df_error *err) {
  const df_context *around = l->parent;
  while (around->kind == DFI_BRANCH) around = around->parent;
  if (around->kind != DFI_BODY) return true;
  for (int32_t i = 0; i < around->loop->n; i++) {
    const df_output v = { around->loop->var[i].swtch, 1 };
    if (!v.node || dfi_dtype(v) == DF_RESOURCE || dfi_shape_at(v)->rank == 0) continue;
    const df_output here = dfi_resolve(l->graph, v, l->parent, err);
    df_node *come = here.node ? dfi_flow_node(l->graph, FLOW_IDENTITY, l->parent, 1, &here, NULL, NULL, here, l->where,
                                              err) : NULL;
    if (!come) return false;
    dfi_node_add_control(l->var[0].enter, come);
  }
  return true;
}

int32_t df_while_begin(df_graph *g, int32_t n, const int32_t *init, int64_t parallel_iterations,
                       int64_t maximum_iterations, bool back_prop, const char *save, const char *name,
                       const char *where, int32_t *vars, df_error *err) {
  flow *f = dfi_flow_of(g);
  int32_t code = DF_OK;
  const bool unsaid = !save || !*save;
  if (unsaid) save = "keep";
  if (n < 1)
    code = dfi_fail(err, DF_INVALID_ARGUMENT, where, "while_loop needs at least one loop variable, but has none");
  else if (parallel_iterations < 1)
    code = dfi_fail(err, DF_INVALID_ARGUMENT, where, "parallel_iterations must be 1 or more, but is %lld",
                    (long long)parallel_iterations);
  else if (strcmp(save, "keep") && strcmp(save, "swap") && strcmp(save, "recompute") && strcmp(save, "auto"))
    code = dfi_fail(err, DF_INVALID_ARGUMENT, where,
                    "save must be 'keep', 'swap', 'recompute' or 'auto', but is '%s'", save);
  if (code) { f->ninvariant = f->nname = 0; return code; }
  const char *full = dfi_unique_name(g, name && *name ? name : "while");
  df_loop *l = dfi_flow_loop_new(g, full, where);
  l->parent = g->current;
  l->parallel_iterations = parallel_iterations;
  l->maximum_iterations = maximum_iterations;
  l->back_prop = back_prop;
  l->save = dfi_intern(g, save);
  l->save_unsaid = unsaid;
  flow_entry *e = dfi_flow_push(g);
  e->loop = l;
  e->nuser = n;
  flow_enter_scope(g, full);
  l->pred = dfi_flow_context(g, DFI_PRED, l->parent);
  l->body = dfi_flow_context(g, DFI_BODY, l->parent);
  l->pred->loop = l->body->loop = l;
  code = take_inits(g, l, n, init, err);
  f->ninvariant = f->nname = 0;
  for (int32_t i = 0; i < l->n && !code; i++)
    if (!var_enter(l, &l->var[i], err)) code = err ? err->code : DF_INTERNAL;
  if (!code && !strcmp(l->save, "recompute") && !waits_for_iteration(l, err)) code = err ? err->code : DF_INTERNAL;
  if (code) { dfi_flow_pop(g); return code; }
  int32_t carrier = 0;
  for (int32_t i = l->n - 1; i >= 0; i--)
    if (dfi_dtype(l->var[i].init) != DF_RESOURCE && l->var[i].merge->out[0].shape.rank == 0) carrier = i;
  l->pred->pivot = l->var[carrier].merge;
  for (int32_t i = 0; i < n; i++) { vars[2 * i] = l->var[i].merge->id; vars[2 * i + 1] = 0; }
  g->current = l->pred;
  return dfi_check_memory(DF_OK, err, where, "a loop");
}

/* ands `trips < maximum` to the predicate. */
static df_output bounded(df_loop *l, int32_t counter, df_output pred, df_error *err) {
  dfi_build b;
  dfi_build_init(&b, l->graph, l->where, err);
  df_output trips = { l->var[counter].merge, 0 };
  df_output more = dfi_op(&b, "Less", trips, dfi_const(&b, dfi_dtype(trips), (double)l->maximum_iterations));
  return dfi_op(&b, "LogicalAnd", more, pred);
}

int32_t df_while_pred_end(df_graph *g, int32_t pred_node, int32_t pred_index, int32_t *vars, df_error *err) {
  flow_entry *e = dfi_flow_top(g);
  char text[160];
  if (!e || !e->loop || e->stage != 0)
    return dfi_fail(err, DF_FAILED_PRECONDITION, NULL, "df_while_pred_end without df_while_begin");
  df_loop *l = e->loop;
  if (pred_node < 0 || pred_node >= g->n || pred_index < 0 || pred_index >= g->node[pred_node]->nout)
    return dfi_fail(err, DF_INVALID_ARGUMENT, l->where, "while_loop: there is no output %d:%d to be the predicate",
                    pred_node, pred_index);
  g->current = l->pred;
  df_output p = dfi_resolve(g, (df_output){ g->node[pred_node], pred_index }, l->pred, err);
  if (!p.node) { dfi_flow_blame(err, l->where); return err ? err->code : DF_INVALID_ARGUMENT; }
  if (dfi_dtype(p) != DF_BOOL || dfi_shape_at(p)->rank > 0)
    return dfi_fail(err, DF_INVALID_ARGUMENT, *p.node->where ? p.node->where : l->where,
                    "the predicate of while_loop `%s` must be a scalar bool, but is %s", l->name,
                    dfi_typed_shape_text(dfi_dtype(p), dfi_shape_at(p), text));
  if (l->maximum_iterations >= 0) p = bounded(l, e->nuser, p, err);
  if (p.node) l->loop_cond = dfi_flow_node(g, FLOW_LOOP_COND, l->pred, 1, &p, NULL, l->pred->pivot, p, l->where, err);
  if (!p.node || !l->loop_cond) return err ? err->code : DF_INTERNAL;
  if (l->pred->last_effect) dfi_node_add_control(l->loop_cond, l->pred->last_effect);
  for (int32_t i = 0; i < l->pred->nreads; i++)
    if (!dfi_flow_follows(l->loop_cond, l->pred->reads[i], l->pred))
      dfi_node_add_control(l->loop_cond, l->pred->reads[i]);
  df_output carrier = DFI_NONE;
  for (int32_t i = 0; i < l->n; i++) {
    if (!var_switch(l, &l->var[i], err)) return err ? err->code : DF_INTERNAL;
    if (l->var[i].merge == l->pred->pivot) carrier = (df_output){ l->var[i].swtch, 1 };
  }
  l->body->pivot = dfi_flow_node(g, FLOW_IDENTITY, l->body, 1, &carrier, NULL, NULL, carrier, l->where, err);
  if (!l->body->pivot) return err ? err->code : DF_INTERNAL;
  for (int32_t i = 0; i < e->nuser; i++) { vars[2 * i] = l->var[i].swtch->id; vars[2 * i + 1] = 1; }
  e->stage = 1;
  g->current = l->body;
  return dfi_check_memory(DF_OK, err, l->where, "a loop");
}

/* The shape_invariants that would have allowed both shapes, as one writes it in Lua. */
static void invariant_text(const dfi_loop_var *v, int32_t i, const dfi_shape *a, const dfi_shape *b, char *out,
                           size_t bytes) {
  dfi_shape wide;
  dfi_shape_relax(a, b, &wide);
  size_t at = 0;
#define PUT(...) do { \
    int k = snprintf(out + at, bytes - at, __VA_ARGS__); \
    at += (size_t)k < bytes - at ? (size_t)k : bytes - at - 1; \
  } while (0)
  int32_t depth = 1;                        /* a variable inside of tables is named `state.h` or `2.1` */
  PUT("shape_invariants = ");
  if (!v->name) PUT("{[%d] = ", i + 1);
  else {
    depth = 0;
    for (const char *key = v->name, *end; key; key = *end ? end + 1 : NULL, depth++) {
      end = key + strcspn(key, ".");
      bool number = *key >= '0' && *key <= '9';
      PUT("{%s%.*s%s = ", number ? "[" : "", (int)(end - key), key, number ? "]" : "");
    }
  }
  if (wide.rank < 0) PUT("false");
  else {
    PUT("{");
    for (int32_t d = 0; d < wide.rank; d++) PUT("%s%lld", d ? ", " : "", (long long)wide.dims[d]);
    PUT("}");
  }
  while (depth--) PUT("}");
#undef PUT
}

static int32_t check_result(df_loop *l, int32_t i, df_error *err) {
  dfi_loop_var *v = &l->var[i];
  const dfi_out *in = &v->merge->out[0], *out = &v->result.node->out[v->result.index];
  char at[80], s1[160], s2[160], fix[200];
  const char *line = *v->result.node->where ? v->result.node->where : l->where;
  if (in->dtype != out->dtype)
    return dfi_fail(err, DF_INVALID_ARGUMENT, line,
                    "loop variable %s enters as %s but the body returns %s: cast it; in the while_loop `%s` built at "
                    "%s",
                    var_text(v, i, at, sizeof at), dfi_typed_shape_text(in->dtype, &in->shape, s1),
                    dfi_typed_shape_text(out->dtype, &out->shape, s2), l->name, l->where);
  if (in->dtype == DF_RESOURCE || fits(&out->shape, &in->shape)) return DF_OK;
  invariant_text(v, i, dfi_shape_at(v->init), &out->shape, fix, sizeof fix);
  return dfi_fail(err, DF_INVALID_ARGUMENT, line,
                  "loop variable %s enters as %s but the body returns %s; %s would allow it; in the while_loop `%s` "
                  "built at %s",
                  var_text(v, i, at, sizeof at), dfi_typed_shape_text(in->dtype, &in->shape, s1),
                  dfi_typed_shape_text(out->dtype, &out->shape, s2), fix, l->name, l->where);
}

/* What is known of a handle after the loop: what was known before or what the body added. */
static void exit_shape(dfi_loop_var *v) {
  dfi_out *x = &v->exit->out[0];
  const dfi_out *r = &v->result.node->out[v->result.index];
  if (x->dtype != DF_RESOURCE) return;
  if (!x->of) x->of = r->of;
  dfi_shape both;
  x->shape = dfi_shape_merge(&x->shape, &r->shape, &both) ? both : dfi_shape_unknown();
}

static bool constant_number(df_output o, df_value *v) {
  const df_tensor *t = o.node->out[o.index].constant;
  if (!t || t->rank || (t->dtype != DF_INT32 && t->dtype != DF_INT64)) return false;
  *v = (df_value){ .kind = DF_SCALAR, .dtype = t->dtype };
  if (t->dtype == DF_INT32) v->as.i32 = (int32_t)df_tensor_get_int(t, 0); else v->as.i64 = df_tensor_get_int(t, 0);
  return true;
}

/* What n, an op of two whole numbers, makes of `begins` in place of the output `of`; its other input is a constant. */
static bool makes(const df_node *n, df_output of, df_value begins, df_value *out) {
  const df_op *op = dfi_op_info_at(n->op)->op;
  if (n->nin != 2 || n->nout != 1 || !op->scalar) return false;
  df_value in[2];
  for (int32_t i = 0; i < 2; i++)
    if (dfi_same(n->in[i], of)) in[i] = begins;
    else if (!constant_number(n->in[i], &in[i])) return false;
  const df_scalar_fn f = op->scalar((uint8_t[]){ in[0].dtype, in[1].dtype }, n->out[0].dtype);
  *out = (df_value){ .kind = DF_SCALAR, .dtype = n->out[0].dtype };
  return f && f(out, &in[0], &in[1], NULL);
}

/* Is it known that the predicate is false after one trip, because of a counter? */
static bool runs_once(const df_loop *l) {
  if (l->maximum_iterations >= 0 && l->maximum_iterations <= 1) return true;
  for (int32_t i = 0; i < l->n; i++) {
    const dfi_loop_var *v = &l->var[i];
    df_value first, second, more;
    if (constant_number(v->init, &first) && makes(v->result.node, (df_output){ v->swtch, 1 }, first, &second) &&
        makes(l->loop_cond->in[0].node, (df_output){ v->merge, 0 }, second, &more))
      return !more.as.b;
  }
  return false;
}

int32_t df_while_end(df_graph *g, int32_t n, const int32_t *results, int32_t *exits, df_error *err) {
  flow_entry *e = dfi_flow_top(g);
  if (!e || !e->loop || e->stage != 1)
    return dfi_fail(err, DF_FAILED_PRECONDITION, NULL, "df_while_end before df_while_pred_end");
  df_loop *l = e->loop;
  df_context *body = l->body;
  if (n != e->nuser)
    return dfi_fail(err, DF_INVALID_ARGUMENT, l->where,
                    "while_loop `%s` has %d loop variable%s, but its body returns %d value%s", l->name, e->nuser,
                    e->nuser == 1 ? "" : "s", n, n == 1 ? "" : "s");
  g->current = body;
  for (int32_t i = 0; i < n; i++) {
    int32_t id = results[2 * i], index = results[2 * i + 1];
    if (id < 0 || id >= g->n || index < 0 || index >= g->node[id]->nout)
      return dfi_fail(err, DF_INVALID_ARGUMENT, l->where,
                      "while_loop: result %d of the body is no output of this graph", i + 1);
    df_output o = dfi_resolve(g, (df_output){ g->node[id], index }, body, err);
    if (!o.node) { dfi_flow_blame(err, l->where); return err ? err->code : DF_INVALID_ARGUMENT; }
    l->var[i].result = o;
    int32_t code = check_result(l, i, err);
    if (code) return code;
  }
  int32_t own = n;
  if (l->maximum_iterations >= 0) {
    dfi_build b;
    dfi_build_init(&b, g, l->where, err);
    df_output trips = { l->var[n].swtch, 1 };
    l->var[n].result = dfi_op(&b, "Add", trips, dfi_const_like(&b, trips, 1));
    if (!l->var[n].result.node) return err ? err->code : DF_INTERNAL;
    own++;
  }
  dfi_loop_var *carrier = &l->var[0];
  for (int32_t i = 0; i < own; i++) {
    dfi_loop_var *v = &l->var[i];
    if (!var_next(l, v, err)) return err ? err->code : DF_INTERNAL;
    exit_shape(v);
    if (body->last_effect) dfi_node_add_control(v->next, body->last_effect);
    if (v->merge == l->pred->pivot) carrier = v;
  }
  /* What the next iteration does waits for the carrier, and that for this iteration's reads: one edge a read is enough.
     */
  for (int32_t r = 0; r < body->nreads; r++)
    if (!dfi_flow_follows(carrier->next, body->reads[r], body)) dfi_node_add_control(carrier->next, body->reads[r]);
  for (int32_t i = 0; i < n; i++) { exits[2 * i] = l->var[i].exit->id; exits[2 * i + 1] = 0; }
  l->built = true;
  l->once = runs_once(l);
  bool effect = body->last_effect || l->pred->last_effect;
  if (effect || body->nreads || l->pred->nreads) dfi_flow_happened(l->parent, carrier->exit, effect);
  dfi_flow_pop(g);
  return dfi_check_memory(DF_OK, err, l->where, "a loop");
}

/* ---- variables added later --------------------------------------------------------------------- */

int32_t dfi_loop_add_var(df_loop *l, df_output init, const char *name, df_output *in_pred, df_output *in_body,
                         df_error *err) {
  init = dfi_resolve(l->graph, init, l->parent, err);
  if (!init.node) return -1;
  dfi_loop_var *v = var_new(l, init, name);
  if (!var_enter(l, v, err) || !var_switch(l, v, err)) return -1;
  if (in_pred) *in_pred = (df_output){ v->merge, 0 };
  if (in_body) *in_body = (df_output){ v->swtch, 1 };
  return l->n - 1;
}

int32_t dfi_loop_close_var(df_loop *l, int32_t var, df_output result, df_output *exit, df_error *err) {
  dfi_loop_var *v = &l->var[var];
  v->result = dfi_resolve(l->graph, result, l->body, err);
  if (!v->result.node || !var_next(l, v, err)) return err && err->code ? err->code : DF_INTERNAL;
  exit_shape(v);
  if (exit) *exit = (df_output){ v->exit, 0 };
  return DF_OK;
}

/* The loop whose body is being built; NULL with an error when there is none. */
static df_loop *loop_in_body(df_graph *g, df_error *err) {
  flow_entry *e = dfi_flow_top(g);
  if (e && e->loop && e->stage == 1) return e->loop;
  dfi_fail(err, DF_FAILED_PRECONDITION, NULL, "a loop variable is added where no body is being built");
  return NULL;
}

static df_output output_of(df_graph *g, int32_t node, int32_t index, df_error *err) {
  if (node >= 0 && node < g->n && index >= 0 && index < g->node[node]->nout) return (df_output){ g->node[node], index };
  dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "there is no output %d:%d in this graph", node, index);
  return DFI_NONE;
}

int32_t df_while_add_var(df_graph *g, int32_t init_node, int32_t init_index, int32_t *var, df_error *err) {
  df_loop *l = loop_in_body(g, err);
  df_output init = l ? output_of(g, init_node, init_index, err) : DFI_NONE, in_body;
  int32_t number = init.node ? dfi_loop_add_var(l, init, NULL, NULL, &in_body, err) : -1;
  if (number < 0) return -1;
  var[0] = in_body.node->id;
  var[1] = in_body.index;
  return number;
}

int32_t df_while_close_var(df_graph *g, int32_t number, int32_t result_node, int32_t result_index, int32_t *exit,
                           df_error *err) {
  df_loop *l = loop_in_body(g, err);
  df_output result = l ? output_of(g, result_node, result_index, err) : DFI_NONE, out;
  if (!result.node) return err ? err->code : DF_INVALID_ARGUMENT;
  if (number < 0 || number >= l->n)
    return dfi_fail(err, DF_INVALID_ARGUMENT, l->where, "there is no loop variable %d", number);
  int32_t code = dfi_loop_close_var(l, number, result, &out, err);
  if (code) return code;
  exit[0] = out.node->id;
  exit[1] = out.index;
  return dfi_check_memory(DF_OK, err, l->where, "a loop variable");
}

/* Is this int32 scalar constant k? */
static bool is_int(df_output o, int32_t k) {
  while (dfi_flow_is_constant_enter(o.node)) o = o.node->in[0];
  const df_tensor *t = o.node->out[o.index].constant;
  return t && t->dtype == DF_INT32 && t->rank == 0 && *(const int32_t *)t->data == k;
}

/* A variable of the user's that counts trips already: from 0, plus 1. */
static bool counts_trips(const dfi_loop_var *v) {
  if (!v->next || dfi_dtype(v->init) != DF_INT32 || !is_int(v->init, 0)) return false;
  const df_node *add = v->result.node;
  if (!dfi_has_trait(add, DFO_ADDS) || add->nin != 2) return false;
  for (int32_t i = 0; i < 2; i++)
    if (add->in[i].node == v->swtch && add->in[i].index == 1 && is_int(add->in[1 - i], 1)) return true;
  return false;
}

int32_t dfi_loop_trips(df_loop *l, df_output *in_body, df_output *exit, df_error *err) {
  for (int32_t i = 0; i < l->n && l->trip_var < 0; i++) if (counts_trips(&l->var[i])) l->trip_var = i;
  if (l->trip_var < 0) {
    df_graph *g = l->graph;
    df_context *was = g->current;
    dfi_build b;
    dfi_build_init(&b, g, l->where, err);
    df_output trips = DFI_NONE, out;
    g->current = l->parent;
    df_output zero = dfi_const_int(&b, 0);
    int32_t i = zero.node ? dfi_loop_add_var(l, zero, dfi_intern(g, "trips"), NULL, &trips, err) : -1;
    g->current = l->body;
    df_output more = i < 0 ? DFI_NONE : dfi_op(&b, "Add", trips, dfi_const_int(&b, 1));
    int32_t code = more.node ? dfi_loop_close_var(l, i, more, &out, err) : DF_INTERNAL;
    g->current = was;
    if (code) return err && err->code ? err->code : code;
    l->trip_var = i;
  }
  dfi_loop_var *v = &l->var[l->trip_var];
  if (in_body) *in_body = (df_output){ v->swtch, 1 };
  if (exit) *exit = (df_output){ v->exit, 0 };
  return DF_OK;
}
