/* unroll.c: a graph without its loops and conds, as one run of it went.
 *
 * An instance is one run of a context: an iteration of a loop (predicate and body together) or a branch that was taken,
 * inside the instance of the context around it. It maps the outputs of its context to their copies, which all stand at
 * the top level.
 *
 *   what came in (a constant Enter, a branch's Switch)   the value in the instance around
 *   a loop variable (Merge, Switch)                      what the iteration began with
 *   Exit                                                 what the last iteration gave, after as many as were recorded
 *   Merge of a cond                                      the result of the branch that was recorded
 *   what a random op drew                                a constant
 *   any other op                                         the same op on the copies of its inputs
 *
 * At the top level what depends on none of these is its own copy. Side effects keep their order: a copy waits for the
 * copies of what its original waited for. Nodes of an instance are copied in the order they were built, so nothing here
 * recurses deeply.
 */
#include "check/unroll.h"
#include <stdio.h>

typedef struct instance {
  struct instance *parent;   /* NULL: the top level */
  df_context *context;       /* a body, standing for the predicate too, or a branch */
  df_loop    *loop;          /* of a body */
  const char *path;          /* the iteration's frame path; interned */
  struct dfi_map *value;     /* output -> copy */
  df_output  *begun;         /* of a body: n; what the iteration began with; in the graph's memory */
  df_node    *last;          /* the copy of what last read or changed a variable or had another effect, or NULL */
} instance;

typedef struct unroller {
  df_graph *graph;
  dfi_unrolled *to;
  df_error *err;
  uint8_t  *needed;          /* by id */
  int32_t   n0;              /* nodes before */
  int32_t  *member, *first;  /* needed nodes by context, in order: member[first[c] … first[c + 1]) */
  struct dfi_map *exit;      /* Exit of a loop, Merge of a loop variable, Switch of one -> (LoopCond, number) */
  struct dfi_map *constant;  /* Const -> its one copy */
  int64_t   left;            /* nodes that may still be made */
  bool      failed;
} unroller;

static df_output value(unroller *u, instance *in, df_output o);

static df_output fail(unroller *u, int32_t code, const char *where, const char *format, const char *name) {
  if (!u->failed) dfi_fail(u->err, code, where, format, name);
  u->failed = true;
  return DFI_NONE;
}

/* ---- instances ---------------------------------------------------------------------------------- */

static instance *instance_new(unroller *u, instance *parent, df_context *c, const char *path) {
  dfi_unrolled *t = u->to;
  instance *i = dfi_xcalloc(1, sizeof *i);
  *i = (instance){ .parent = parent, .context = c, .path = path, .value = dfi_map_new() };
  if (t->ninstance == t->instance_cap)
    t->instance = dfi_xrealloc(t->instance, sizeof *t->instance * (size_t)(t->instance_cap = t->instance_cap * 2 + 64));
  return t->instance[t->ninstance++] = i;
}

static bool is_of(const instance *i, const df_context *c) {
  return i->context == c || (i->loop && c == i->loop->pred);
}

static instance *instance_of(instance *i, const df_context *c) {
  while (i && !is_of(i, c)) i = i->parent;
  return i;
}

static void unrolled_free(df_graph *g) {
  dfi_unrolled *t = g->unrolled;
  if (!t) return;
  dfi_trace_free(t->trace);
  for (int32_t i = 0; i < t->ninstance; i++) { dfi_map_free(t->instance[i]->value); dfi_free(t->instance[i]); }
  dfi_free(t->instance);
  dfi_free(t->origin);
  dfi_free(t);
  g->unrolled = NULL;
}

/* A value of a loop or cond, as the iteration sees it that the unrolled node `at` is a copy from: where a custom
 * gradient's function names one. DFI_NONE: there is none. */
static df_output unrolled_value(df_graph *g, df_node *at, df_output o);

dfi_unrolled *dfi_unrolled_of(df_graph *g) {
  if (!g->unrolled) {
    g->unrolled = dfi_xcalloc(1, sizeof(dfi_unrolled));
    g->unrolled_free = unrolled_free;
    g->unrolled_value = unrolled_value;
  }
  return g->unrolled;
}

static void remember(unroller *u, df_node *copy, df_node *of, instance *in) {
  dfi_unrolled *t = u->to;
  if (copy->id >= t->norigin) {
    int32_t n = copy->id * 2 + 64;
    t->origin = dfi_xrealloc(t->origin, sizeof *t->origin * (size_t)n);
    memset(t->origin + t->norigin, 0, sizeof *t->origin * (size_t)(n - t->norigin));
    t->norigin = n;
  }
  t->origin[copy->id].node = of;
  t->origin[copy->id].in = in;
}

/* ---- one node -------------------------------------------------------------------------------------- */

static df_output constant(unroller *u, const df_value *v, df_node *like, const char *where) {
  df_tensor *t = v->kind == DF_TENSOR ? df_tensor_retain(v->as.tensor) : dfi_tensor_from_scalar(v);
  if (!t) return fail(u, DF_RESOURCE_EXHAUSTED, where, "out of memory for what `%s` drew", dfi_node_name(like));
  dfi_build b;
  dfi_build_init(&b, u->graph, where, u->err);
  dfi_attr_tensor(&b, "value", t);
  df_output o = dfi_opn(&b, "Const", 0, NULL);
  df_tensor_release(t);
  if (!o.node) u->failed = true;
  return o;
}

/* What the copy of n waits for beside its inputs: copies of ops, not of what only says that a context runs. */
static df_node *wait_for(unroller *u, instance *in, df_node *control) {
  instance *own = instance_of(in, control->context);
  df_flow f = dfi_op_info_at(control->op)->op->flow;
  if (!own || (own->parent && control == own->context->pivot)) return NULL;
  if (f == DF_SWITCH || f == DF_ENTER || f == DF_NEXT_ITERATION || f == DF_LOOP_COND || f == DF_CONSTANT) return NULL;
  if (f == DF_MERGE && control->context->kind == DFI_PRED) return NULL;
  df_output o = value(u, own, (df_output){ control, control->nout ? 0 : -1 });
  return o.node;
}

/* Must it run in program order? Effects and what looks at variables. */
static bool is_ordered(const df_node *n) {
  const df_op *op = dfi_op_info_at(n->op)->op;
  if (op->effect) return true;
  for (int32_t i = 0; i < n->nin && op->stateful; i++) {
    df_node *h = n->in[i].node;
    while (dfi_flow_is_constant_enter(h) || flow_is_switch(h) || dfi_flow_is(h, FLOW_IDENTITY)) h = h->in[0].node;
    if (dfi_dtype(n->in[i]) == DF_RESOURCE && dfi_is_variable(h)) return true;
  }
  return false;
}

static df_output copy(unroller *u, instance *in, df_output o) {
  df_node *n = o.node;
  df_graph *g = u->graph;
  const dfi_op_info *info = dfi_op_info_at(n->op);
  if (info->op->flow == DF_CONSTANT) {
    if (!in->parent) return o;
    df_output known = dfi_map_get(u->constant, o);
    if (known.node) return known;
  }
  if (dfi_is_random(n)) {
    const df_value *v = dfi_trace_find(g, n->id, o.index, in->path);
    return v ? constant(u, v, n, n->where)
             : fail(u, DF_FAILED_PRECONDITION, n->where, "no run recorded what `%s` drew", dfi_node_name(n));
  }
  df_output few[16], *to = n->nin <= 16 ? few : dfi_graph_alloc(g, sizeof *to * (size_t)n->nin);
  bool same = !in->parent;
  for (int32_t i = 0; i < n->nin; i++) {
    to[i] = value(u, in, n->in[i]);
    if (u->failed) return DFI_NONE;
    same &= dfi_same(to[i], n->in[i]);
  }
  if (same) return o;
  df_node *waits[64];
  int32_t nwait = 0;
  for (int32_t i = 0; i < n->ncontrol && nwait < 64; i++) {
    df_node *w = wait_for(u, in, n->control[i]);
    if (u->failed) return DFI_NONE;
    if (w) waits[nwait++] = w;
  }
  bool ordered = in->parent && is_ordered(n);
  if (ordered && in->last && nwait < 64) waits[nwait++] = in->last;
  if (--u->left < 0) return fail(u, DF_RESOURCE_EXHAUSTED, n->where, "the unrolled graph is too large%s", "");
  dfi_node_spec spec = {
    .op = n->op, .nin = n->nin, .in = to, .ncontrol = nwait, .control = waits, .attrs = n->attrs, .where = n->where
  };
  df_node *made = dfi_node_add(g, &spec, u->err);
  if (!made) { u->failed = true; return DFI_NONE; }
  for (int32_t i = 0; i < made->nout; i++) {
    dfi_shape both;
    if (dfi_shape_merge(&made->out[i].shape, &n->out[i].shape, &both)) made->out[i].shape = both;
    if (!made->out[i].of) made->out[i].of = n->out[i].of;
    if (i != o.index) dfi_map_put(in->value, (df_output){ n, i }, (df_output){ made, i });
  }
  if (ordered) for (instance *i = in; i; i = i->loop ? NULL : i->parent) i->last = made;
  remember(u, made, n, in);
  df_output result = { made, o.index };
  if (info->op->flow == DF_CONSTANT) dfi_map_put(u->constant, o, result);
  return result;
}

/* ---- loops and conds ---------------------------------------------------------------------------------- */

static void copy_all(unroller *u, instance *in) {
  int32_t c = in->context->id;
  for (int32_t i = u->first[c]; i < u->first[c + 1] && !u->failed; i++) {
    df_node *n = u->graph->node[u->member[i]];
    df_flow f = dfi_op_info_at(n->op)->op->flow;
    if (f == DF_NEXT_ITERATION || f == DF_SWITCH || (n == in->context->pivot && in->parent)) continue;
    value(u, in, (df_output){ n, n->nout ? 0 : -1 });
  }
}

static bool truth(const df_value *v) { return v->kind == DF_TENSOR ? df_tensor_get(v->as.tensor, 0) != 0 : v->as.b; }

static const char *path_of(unroller *u, const instance *around, const df_loop *l, int64_t number) {
  char text[4096];
  snprintf(text, sizeof text, "%s%s%s:%lld", around->path, *around->path ? "/" : "", l->name, (long long)number);
  return dfi_intern(u->graph, text);
}

/* What a loop with back_prop = false gives: to gradients a constant. */
static df_output stopped(unroller *u, const df_loop *l, df_output o) {
  if (dfi_dtype(o) == DF_RESOURCE) return o;
  dfi_build b;
  dfi_build_init(&b, u->graph, l->where, u->err);
  o = dfi_op(&b, "StopGradient", o);
  if (!o.node) u->failed = true;
  return o;
}

/* All iterations of a loop inside `around`. The values that it ends with are noted as those of its Exits. */
static bool run_loop(unroller *u, instance *around, df_loop *l) {
  df_output *now = dfi_graph_alloc(u->graph, sizeof *now * (size_t)(l->n + 1));
  for (int32_t i = 0; i < l->n; i++)
    if (l->var[i].merge && u->needed[l->var[i].merge->id]) now[i] = value(u, around, l->var[i].enter->in[0]);
  df_node *last = around->last;
  for (int64_t number = 0; !u->failed; number++) {
    const char *path = path_of(u, around, l, number);
    const df_value *more = dfi_trace_find(u->graph, dfi_trace_loop(l), 0, path);
    if (!more) {
      fail(u, DF_FAILED_PRECONDITION, l->where, "no run recorded the trips of `%s`", l->name);
      return false;
    }
    if (!truth(more)) break;
    instance *in = instance_new(u, around, l->body, path);
    in->loop = l;
    in->begun = now;
    in->last = last;
    copy_all(u, in);
    df_output *next = dfi_graph_alloc(u->graph, sizeof *next * (size_t)(l->n + 1));
    for (int32_t i = 0; i < l->n && !u->failed; i++)
      if (now[i].node) next[i] = value(u, in, l->var[i].result);
    now = next;
    last = in->last;
  }
  if (last) around->last = last;
  for (int32_t i = 0; i < l->n && !u->failed; i++)
    if (now[i].node && l->var[i].exit)
      dfi_map_put(around->value, (df_output){ l->var[i].exit, 0 }, l->back_prop ? now[i] : stopped(u, l, now[i]));
  return !u->failed;
}

static df_output take_branch(unroller *u, instance *around, df_output o) {
  df_node *merge = o.node;
  df_cond *c = merge->in[0].node->context->cond;
  const df_value *v = dfi_trace_find(u->graph, dfi_trace_cond(c), 0, around->path);
  if (!v) return fail(u, DF_FAILED_PRECONDITION, c->where, "no run recorded which way `%s` went", c->name);
  int32_t side = truth(v);
  if (o.index == 1) {
    df_value which = { .kind = DF_SCALAR, .dtype = DF_INT32, .as.i32 = side };
    return constant(u, &which, merge, merge->where);
  }
  df_output key = { c->branch[0]->pivot, -3 }, number = dfi_map_get(around->value, key);
  instance *in;
  if (number.node) in = u->to->instance[number.index];
  else {
    in = instance_new(u, around, c->branch[side], around->path);
    in->last = around->last;
    dfi_map_put(around->value, key, (df_output){ merge, u->to->ninstance - 1 });
    copy_all(u, in);
    if (in->last) around->last = in->last;
  }
  return u->failed ? DFI_NONE : value(u, in, merge->in[side]);
}

static df_output work_out(unroller *u, instance *in, df_output o) {
  df_node *n = o.node;
  df_output at;
  switch (dfi_op_info_at(n->op)->op->flow) {
    case DF_ENTER:
      if (dfi_flow_is_constant_enter(n) && in->parent) return value(u, in->parent, n->in[0]);
      break;
    case DF_SWITCH:
      if (in->loop && n->in[1].node == in->loop->loop_cond) {
        at = dfi_map_get(u->exit, (df_output){ n, 0 });
        if (at.node && o.index == 1 && in->begun[at.index].node) return in->begun[at.index];
        break;
      }
      return value(u, in, n->in[0]);
    case DF_MERGE:
      if (n->context->kind == DFI_PRED && in->loop) {
        at = dfi_map_get(u->exit, (df_output){ n, 0 });
        if (at.node && in->begun[at.index].node) return in->begun[at.index];
      } else if (n->in[0].node->context->kind == DFI_BRANCH) return take_branch(u, in, o);
      break;
    case DF_EXIT:
      at = dfi_map_get(u->exit, o);
      if (at.node && run_loop(u, in, at.node->context->loop)) {
        df_output v = dfi_map_get(in->value, o);
        if (v.node) return v;
      }
      break;
    case DF_LOOP_COND: return value(u, in, n->in[0]);
    case DF_NEXT_ITERATION: break;
    default: return copy(u, in, o);
  }
  return fail(u, DF_UNIMPLEMENTED, n->where, "`%s` is no part of a cond or while_loop that could be unrolled",
              dfi_node_name(n));
}

static df_output value(unroller *u, instance *in, df_output o) {
  if (u->failed) return DFI_NONE;
  instance *own = instance_of(in, o.node->context);
  if (!own)
    return fail(u, DF_INTERNAL, o.node->where, "`%s` is in no iteration that was unrolled", dfi_node_name(o.node));
  df_output known = dfi_map_get(own->value, o);
  if (known.node) return known;
  df_output v = work_out(u, own, o);
  if (v.node) dfi_map_put(own->value, o, v);
  return v;
}

/* ---- all of it --------------------------------------------------------------------------------------------- */

static void sort_members(unroller *u) {
  df_graph *g = u->graph;
  u->first = dfi_xcalloc((size_t)g->ncontexts + 2, sizeof *u->first);
  u->member = dfi_xmalloc(sizeof *u->member * ((size_t)u->n0 + 1));
  for (int32_t i = 0; i < u->n0; i++) if (u->needed[i]) u->first[g->node[i]->context->id + 1]++;
  for (int32_t i = 0; i <= g->ncontexts; i++) u->first[i + 1] += u->first[i];
  int32_t *at = dfi_xmalloc(sizeof *at * ((size_t)g->ncontexts + 2));
  memcpy(at, u->first, sizeof *at * ((size_t)g->ncontexts + 2));
  for (int32_t i = 0; i < u->n0; i++) if (u->needed[i]) u->member[at[g->node[i]->context->id]++] = i;
  dfi_free(at);
}

static void find_parts(unroller *u) {
  flow *f = dfi_flow_of(u->graph);
  u->exit = dfi_map_new();
  for (int32_t i = 0; i < f->nloop; i++) {
    df_loop *l = f->loop[i];
    for (int32_t k = 0; k < l->n && l->loop_cond; k++) {
      df_output at = { l->loop_cond, k };
      df_node *parts[3] = { l->var[k].exit, l->var[k].merge, l->var[k].swtch };
      for (int32_t p = 0; p < 3; p++) if (parts[p]) dfi_map_put(u->exit, (df_output){ parts[p], 0 }, at);
    }
  }
}

static void unroller_free(unroller *u) {
  dfi_map_free(u->exit); dfi_map_free(u->constant);
  dfi_free(u->needed); dfi_free(u->member); dfi_free(u->first);
}

int32_t df_graph_unroll(df_graph *g, int32_t n, const int32_t *outputs, int32_t nx, const int32_t *xs, int64_t most,
                        int32_t *out, df_error *err) {
  df_error own;
  unroller u = {
    .graph = g, .to = dfi_unrolled_of(g), .err = err ? err : &own, .n0 = g->n, .left = most, .constant = dfi_map_new()
  };
  u.err->code = DF_OK;
  if (dfi_flow_of(g)->nopen) {
    dfi_map_free(u.constant);
    return dfi_fail(u.err, DF_FAILED_PRECONDITION, NULL,
                    "a graph is unrolled while a cond or a loop of it is being built");
  }
  for (int32_t i = 0; i < n + nx; i++) {
    const int32_t *o = i < n ? outputs + 2 * i : xs + 2 * (i - n);
    if (o[0] >= 0 && o[0] < g->n && o[1] >= 0 && o[1] < g->node[o[0]]->nout) continue;
    dfi_map_free(u.constant);
    return dfi_fail(u.err, DF_INVALID_ARGUMENT, NULL,
                    "there is no output %d of a node %d to unroll: the graph has %d nodes", o[1], o[0], g->n);
  }
  u.needed = dfi_graph_needs(g, n, outputs);
  sort_members(&u);
  find_parts(&u);
  df_push_scope(g, "unrolled");
  instance *root = instance_new(&u, NULL, g->top, "");
  for (int32_t i = 0; i < nx; i++) {
    df_output x = { g->node[xs[2 * i]], xs[2 * i + 1] };
    dfi_map_put(root->value, x, x);
  }
  copy_all(&u, root);
  for (int32_t i = 0; i < n && !u.failed; i++) {
    df_output v = value(&u, root, (df_output){ g->node[outputs[2 * i]], outputs[2 * i + 1] });
    if (v.node) { out[2 * i] = v.node->id; out[2 * i + 1] = v.index; }
  }
  df_pop_scope(g);
  unroller_free(&u);
  return dfi_check_memory(u.failed ? u.err->code ? u.err->code : DF_INTERNAL : DF_OK, u.err, NULL, "an unrolled graph");
}

static df_output unrolled_value(df_graph *g, df_node *at, df_output o) {
  dfi_unrolled *t = g->unrolled;
  if (!t || at->id >= t->norigin || !t->origin[at->id].in) return DFI_NONE;
  df_error error;
  error.code = DF_OK;
  unroller u = { .graph = g, .to = t, .err = &error, .n0 = g->n, .left = 1 << 20, .constant = dfi_map_new() };
  u.needed = dfi_xcalloc((size_t)g->n + 1, 1);
  u.member = NULL;
  u.first = dfi_xcalloc((size_t)g->ncontexts + 2, sizeof *u.first);
  find_parts(&u);
  void *controls = dfi_controls_suspend(g);
  df_context *was = g->current;
  g->current = g->top;
  instance *own = instance_of(t->origin[at->id].in, o.node->context);
  df_output v = own && own->parent ? value(&u, own, o) : DFI_NONE;
  g->current = was;
  dfi_controls_resume(g, controls);
  unroller_free(&u);
  return v;
}

int32_t df_node_origin(df_graph *g, int32_t node) {
  dfi_unrolled *t = g->unrolled;
  return t && node >= 0 && node < t->norigin && t->origin[node].node ? t->origin[node].node->id : node;
}

const char *df_node_iteration(df_graph *g, int32_t node) {
  dfi_unrolled *t = g->unrolled;
  return t && node >= 0 && node < t->norigin && t->origin[node].in ? t->origin[node].in->path : "";
}
