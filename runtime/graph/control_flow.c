/* control_flow.c: contexts, captures and the order of side effects.
 *
 * cond and while_loop lower to the five primitives while they are built (cond.c, while.c). What holds for both
 * is here: a value of an outer context comes into a branch through one Switch and into a loop through one
 * constant Enter, made at its first use and found again afterwards; a value never leaves its context but as a result.
 *
 * Side effects of a context happen in program order: `last_effect` is the last node of the context that changed
 * something and `reads` the reads since. The first effect of a branch or loop waits for what was done before outside.
 *
 * A variable is read where the read was built, in each iteration, whether or not the loop assigns it: another run, or
 * another loop of this one, may. What is captured is the handle; the engine makes the read cheap (DFI_K_READ).
 */
#include "graph/flow.h"
#include "graph/graph.h"
#include <stdio.h>

/* ---- what is open -------------------------------------------------------------------------- */

flow *dfi_flow_of(df_graph *g) {
  if (!g->flow) g->flow = dfi_xcalloc(1, sizeof(flow));
  return g->flow;
}

flow_entry *dfi_flow_top(df_graph *g) {
  flow *f = dfi_flow_of(g);
  return f->nopen ? &f->open[f->nopen - 1] : NULL;
}

flow_entry *dfi_flow_push(df_graph *g) {
  flow *f = dfi_flow_of(g);
  if (f->nopen == f->open_cap)
    f->open = dfi_xrealloc(f->open, sizeof *f->open * (size_t)(f->open_cap = f->open_cap * 2 + 8));
  f->open[f->nopen] = (flow_entry){ .outer = g->current, .scope = dfi_builder_of(g)->nscope };
  return &f->open[f->nopen++];
}

void dfi_flow_pop(df_graph *g) {
  flow *f = dfi_flow_of(g);
  g->current = f->open[--f->nopen].outer;
  df_pop_scope(g);
}

int32_t df_flow_depth(df_graph *g) { return dfi_flow_of(g)->nopen; }

void df_flow_abort(df_graph *g, int32_t depth) {
  flow *f = dfi_flow_of(g);
  while (f->nopen > depth && f->nopen > 0) dfi_flow_pop(g);
  f->ninvariant = f->nname = 0;
}

void df_graph_build_state(df_graph *g, df_build_state *out) {
  const dfi_builder *b = dfi_builder_of(g);
  *out = (df_build_state){ df_flow_depth(g), b->nscope, b->ndevice, b->ncontrol };
}

void df_graph_unwind(df_graph *g, const df_build_state *to) {
  dfi_builder *b = dfi_builder_of(g);
  df_flow_abort(g, to->flow);
  dfi_undo_leave(g, to->flow);
  while (b->nscope > to->scopes && b->nscope > 1) df_pop_scope(g);
  while (b->ndevice > to->devices && b->ndevice > 1) df_pop_device(g);
  while (b->ncontrol > to->controls && b->ncontrol > 0) df_pop_control(g);
}

int32_t df_current_context(df_graph *g) { return g->current->id; }
int64_t df_graph_effects(df_graph *g) { return dfi_builder_of(g)->neffects; }

/* An entry that is neither cond nor loop: another context, without control dependencies, until the pop. */
static void push_other(df_graph *g, df_context *c, const char *scope) {
  dfi_flow_push(g);
  df_push_scope(g, scope);
  df_push_control(g, -1, NULL);
  g->current = c;
}
static void pop_other(df_graph *g) {
  flow_entry *e = dfi_flow_top(g);
  if (!e || e->cond || e->loop || e->function) return;
  df_pop_control(g);
  dfi_flow_pop(g);
}

static bool is_construct(const flow *f, int32_t scope) {
  for (int32_t i = 0; i < f->nopen; i++)
    if (f->open[i].scope == scope && (f->open[i].cond || f->open[i].loop || f->open[i].function)) return true;
  return false;
}

/* The scope that was chosen by name: the current one without what loops and branches put into it, so that a variable is
 * called the same wherever it is first asked for. */
static const char *chosen_scope(df_graph *g) {
  const dfi_builder *b = dfi_builder_of(g);
  size_t bytes = 1, n = 0;
  for (int32_t i = 1; i < b->nscope; i++) bytes += strlen(b->scope[i]->text);
  char *text = dfi_xcalloc(bytes, 1);
  for (int32_t i = 1; i < b->nscope; i++) {
    const char *outer = b->scope[i - 1]->text, *own = b->scope[i]->text;
    const size_t shared = strlen(outer);
    if (is_construct(dfi_flow_of(g), i)) continue;
    /* one scope may be entered from anywhere */
    if (strncmp(own, outer, shared)) { n = 0; text[0] = 0; } else own += shared;
    n += (size_t)snprintf(text + n, bytes - n, "%s", own);
  }
  const char *interned = dfi_intern(g, text);
  dfi_free(text);
  return interned;
}

void df_push_top(df_graph *g) { push_other(g, g->top, chosen_scope(g)); }
void df_pop_top(df_graph *g)  { pop_other(g); dfi_graph_keep_all(g); }
void df_push_outer(df_graph *g) {
  flow_entry *e = dfi_flow_top(g);
  push_other(g, e && (e->loop || e->cond || e->function) ? e->outer : g->current, NULL);
}
void df_pop_outer(df_graph *g) { pop_other(g); }

void df_push_context(df_graph *g, int32_t context) {
  const flow *f = dfi_flow_of(g);
  df_context *c = context == g->top->id ? g->top : g->current;
  for (int32_t i = 0; i < f->ncontext; i++) if (f->context[i]->id == context) c = f->context[i];
  push_other(g, c, NULL);
}
void df_pop_context(df_graph *g) { pop_other(g); }

df_context *dfi_flow_context(df_graph *g, df_context_kind kind, df_context *parent) {
  flow *f = dfi_flow_of(g);
  df_context *c = dfi_xcalloc(1, sizeof *c);
  c->kind = kind;
  c->id = g->ncontexts++;
  c->parent = parent;
  c->depth = parent->depth + 1;
  if (f->ncontext == f->context_cap)
    f->context = dfi_xrealloc(f->context, sizeof *f->context * (size_t)(f->context_cap = f->context_cap * 2 + 16));
  return f->context[f->ncontext++] = c;
}

void dfi_flow_context_free(df_context *c) {
  dfi_map_free(c->captures); dfi_map_free(c->cache);
  dfi_free(c->reads); dfi_free(c);
}
void dfi_flow_loop_free(df_loop *l) {
  struct dfi_map *maps[] = { l->captures, l->saved, l->notes, l->replayed, l->checkpoints };
  for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) dfi_map_free(maps[i]);
  dfi_free(l->var); dfi_free(l);
}
void dfi_flow_cond_free(df_cond *c) {
  dfi_map_free(c->saved); dfi_map_free(c->notes);
  dfi_free(c->result[0]); dfi_free(c->result[1]); dfi_free(c->merge); dfi_free(c);
}

void dfi_flow_free(df_graph *g) {
  flow *f = g->flow;
  if (!f) return;
  for (int32_t i = 0; i < f->ncontext; i++) dfi_flow_context_free(f->context[i]);
  for (int32_t i = 0; i < f->nloop; i++) dfi_flow_loop_free(f->loop[i]);
  for (int32_t i = 0; i < f->ncond; i++) dfi_flow_cond_free(f->cond[i]);
  dfi_flow_functions_free(f);
  dfi_free(f->open); dfi_free(f->invariant); dfi_free(f->name); dfi_free(f->context); dfi_free(f->loop);
  dfi_free(f->cond);
  dfi_free(f);
  g->flow = NULL;
}

/* ---- the primitives ------------------------------------------------------------------------ */

static const dfi_op_info *flow_info(flow_op op) {
  static const char *const type[FLOW_OPS] = { "Switch",   "Merge",    "Enter",     "Exit",    "NextIteration",
                                              "LoopCond", "Identity", "RefSwitch", "RefEnter" };
  static const dfi_op_info *_Atomic info[FLOW_OPS];
  const dfi_op_info *i = atomic_load_explicit(&info[op], memory_order_acquire);
  if (!i) atomic_store_explicit(&info[op], i = dfi_op_find(type[op]), memory_order_release);
  return i;
}

bool dfi_flow_is(const df_node *n, flow_op op) { return flow_info(op) && n->op == flow_info(op)->id; }

static df_flow flow_kind(const df_node *n) { return dfi_op_info_at(n->op)->op->flow; }

bool dfi_flow_is_constant_enter(const df_node *n) {
  static _Atomic int32_t index = -1;
  if (!dfi_flow_is(n, FLOW_ENTER) && !dfi_flow_is(n, FLOW_REF_ENTER)) return false;  /* both have the same attributes */
  if (index < 0) index = dfi_op_attr_index(flow_info(FLOW_ENTER), "is_constant");
  return n->attrs[index].i != 0;
}

bool dfi_is_tokenless(df_output o) {
  if (flow_kind(o.node) == DF_CONSTANT) return o.node->ncontrol == 0;
  return dfi_flow_is_constant_enter(o.node) || dfi_is_variable(o.node);
}

/* A Const that hangs on its context is there without a token too, where another input brings the token. */
static bool needs_gate(df_output o) { return dfi_is_tokenless(o) || flow_kind(o.node) == DF_CONSTANT; }

df_node *dfi_flow_node(df_graph *g, flow_op op, df_context *c, int32_t n, const df_output *in, const df_attr *attrs,
                       df_node *gate, df_output like, const char *where, df_error *err) {
  bool hang = gate != NULL;
  for (int32_t i = 0; i < n && hang; i++) hang = needs_gate(in[i]);
  dfi_node_spec spec = { .op = flow_info(op)->id,
                         .nin = n,
                         .in = in,
                         .ncontrol = hang,
                         .control = &gate,
                         .attrs = attrs,
                         /* without err, shapes are left to the run */
                         .where = where,
                         .raw = true,
                         .context = c,
                         .lenient = !err };
  df_node *node = dfi_node_add(g, &spec, err);
  if (node && like.node) {
    const dfi_out *from = &like.node->out[like.index];
    int32_t values = op == FLOW_SWITCH || op == FLOW_REF_SWITCH ? 2 : 1;
    for (int32_t i = 0; i < values; i++) {
      node->out[i].dtype = from->dtype;
      node->out[i].of = from->of;
      node->out[i].shape = from->shape;
    }
  }
  return node;
}

/* A captured reference stays one, so that it is read where it is used, in each iteration. */
static bool is_reference(df_output o) { return o.node->out[o.index].ref; }

df_node *dfi_flow_enter(df_loop *l, df_output outer, bool constant, df_error *err) {
  const flow_op enter = constant && is_reference(outer) ? FLOW_REF_ENTER : FLOW_ENTER;
  const dfi_op_info *o = flow_info(enter);
  df_attr attrs[16];
  for (int32_t i = 0; i < o->nattr; i++) attrs[i] = o->attr[i].value;
  df_attr *name = &attrs[dfi_op_attr_index(o, "frame_name")];
  name->s = l->name;
  name->i = (int64_t)strlen(l->name);
  attrs[dfi_op_attr_index(o, "is_constant")].i = constant;
  attrs[dfi_op_attr_index(o, "parallel_iterations")].i = l->parallel_iterations;
  return dfi_flow_node(l->graph, enter, l->pred, 1, &outer, attrs, l->parent->pivot, outer, l->where, err);
}

/* ---- captures ------------------------------------------------------------------------------ */

bool dfi_context_inside(const df_context *inner, const df_context *outer) {
  for (; inner && inner->depth >= outer->depth; inner = inner->parent)
    if (inner == outer) return true;
  return false;
}

/* Is o a value of c itself? Loop constants belong to predicate and body alike. */
static bool is_in(df_output o, const df_context *c) {
  const df_context *own = o.node->context;
  return own == c || (c->kind == DFI_BODY && own == c->loop->pred && dfi_flow_is_constant_enter(o.node));
}

static df_output capture(df_graph *g, df_output o, df_context *c, df_error *err) {
  if (is_in(o, c)) return o;
  if (c->kind == DFI_CALLED) return dfi_flow_function_capture(c->function, o, err);
  df_output up = capture(g, o, c->parent, err);
  if (!up.node) return DFI_NONE;
  struct dfi_map **map = c->kind == DFI_BRANCH ? &c->captures : &c->loop->captures;
  if (!*map) *map = dfi_map_new();
  df_output found = dfi_map_get(*map, up);
  if (found.node) return found;
  df_node *n;
  if (c->kind == DFI_BRANCH) {
    const flow_op op = is_reference(up) ? FLOW_REF_SWITCH : FLOW_SWITCH;
    n = dfi_flow_node(g, op, c, 2, (df_output[]){ up, c->cond->pred }, NULL, c->parent->pivot, up, c->cond->where, err);
    found = (df_output){ n, c->side };
  } else {
    n = dfi_flow_enter(c->loop, up, true, err);
    found = (df_output){ n, 0 };
  }
  if (!n) return DFI_NONE;
  dfi_map_put(*map, up, found);
  return found;
}

/* Is o a value of where the function that c stands in is being built, which is as good as its first call's? */
static bool seen_by_caller(df_output o, const df_context *c) {
  while (c && c->kind != DFI_CALLED) c = c->parent;
  if (!c || !c->function->caller) return false;
  for (const df_context *x = c->function->caller; x; x = x->parent) if (is_in(o, x)) return true;
  return seen_by_caller(o, c->function->caller);
}

static const char *known_line(const char *where) { return where && *where ? where : "a line not known"; }

static df_output out_of_sight(df_output o, const df_context *c, df_error *err) {
  const df_context *own = o.node->context;
  const char *name = dfi_node_name(o.node), *line = known_line(o.node->where);
  if (own->kind == DFI_PRED && c && dfi_context_inside(c, own->loop->body))
    dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
             "`%s:%d`, built at %s in the predicate of the while_loop `%s` (%s), cannot be used in its body: "
             "compute it there again",
             name, o.index, line, own->loop->name, known_line(own->loop->where));
  else if (own->kind == DFI_CALLED)
    dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
             "`%s:%d`, built at %s in the function `%s` (%s), cannot be used outside it: return it", name, o.index,
             line, own->function->name, known_line(own->function->where));
  else if (own->kind == DFI_BRANCH)
    dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
             "`%s:%d`, built at %s in the %s branch of the cond `%s` (%s), cannot be used outside that branch: "
             "return it from the branch",
             name, o.index, line, own->side ? "true" : "false", own->cond->name, known_line(own->cond->where));
  else
    dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
             "`%s:%d`, built at %s in the %s of the while_loop `%s` (%s), cannot be used outside it: "
             "return it from the body as a loop variable, or write it to a TensorArray",
             name, o.index, line, own->kind == DFI_PRED ? "predicate" : "body", own->loop->name,
             known_line(own->loop->where));
  return DFI_NONE;
}

df_output dfi_resolve(df_graph *g, df_output o, df_context *c, df_error *err) {
  if (o.node->context == c) return o;
  for (const df_context *x = c; x; x = x->parent)
    if (is_in(o, x)) return capture(g, o, c, err);
  if (seen_by_caller(o, c)) return capture(g, o, c, err);
  if (g->foreign) {
    df_output v = g->foreign(g, o);
    if (v.node && dfi_context_inside(c, v.node->context)) return dfi_resolve(g, v, c, err);
  }
  if (g->unrolled_at && g->unrolled_value) {
    df_output v = g->unrolled_value(g, g->unrolled_at, o);
    if (v.node) return dfi_resolve(g, v, c, err);
  }
  return out_of_sight(o, c, err);
}

void dfi_flow_blame(df_error *err, const char *where) {
  if (err && !err->source[0] && where) snprintf(err->source, sizeof err->source, "%s", where);
}

/* ---- the order of side effects ------------------------------------------------------------- */

static void wait_for_reads(df_node *n, df_context *c) {
  for (int32_t i = 0; i < c->nreads; i++) if (c->reads[i] != n) dfi_node_add_control(n, c->reads[i]);
}

static void wait_for(df_loop *l, df_context *c, bool effect) {
  for (int32_t i = 0; i < l->n; i++) {
    if (!l->var[i].enter) continue;
    if (effect) wait_for_reads(l->var[i].enter, c);
    if (c->last_effect) dfi_node_add_control(l->var[i].enter, c->last_effect);
  }
}

/* Makes n wait for what was done before it in its context; the first of a context for what was done outside. Across a
 * loop's border it is the loop's variables that wait, so nothing of the loop begins sooner. */
static void put_in_order(df_node *n, bool effect) {
  df_loop *border = NULL;
  for (df_context *c = n->context; c->kind != DFI_TOP; c = c->parent) {
    df_node *last = c->last_effect;
    if (border) wait_for(border, c, effect);
    else {
      if (effect) wait_for_reads(n, c);
      if (last) dfi_node_add_control(n, last);
      else if (c == n->context && c->pivot && c->pivot != n) dfi_node_add_control(n, c->pivot);
    }
    if (last || c->kind == DFI_CALLED) return;      /* what the outside did, the call has waited for */
    if (c->kind != DFI_BRANCH) border = c->loop;
  }
}

void dfi_flow_order(df_node *n) { put_in_order(n, true); }

static bool follows(const df_node *n, const df_node *read, const df_context *c, int32_t *left) {
  if (n == read) return true;
  if (n->context != c || flow_kind(n) == DF_MERGE || --*left < 0) return false;
  for (int32_t i = 0; i < n->nin; i++) if (follows(n->in[i].node, read, c, left)) return true;
  return false;
}

bool dfi_flow_follows(const df_node *n, const df_node *read, const df_context *c) {
  int32_t left = 16;
  return follows(n, read, c, &left);
}

static void add_read(df_context *c, df_node *n) {
  c->reads = dfi_xrealloc(c->reads, sizeof *c->reads * (size_t)(c->nreads + 1));
  c->reads[c->nreads++] = n;
}

void dfi_flow_happened(df_context *c, df_node *n, bool effect) {
  if (c->kind == DFI_TOP) return;
  if (effect) { c->last_effect = n; c->nreads = 0; }
  else add_read(c, n);
}

/* Back through captures to the node that made a handle; NULL when it is no variable's. */
static df_node *variable_of(df_output handle) {
  for (;;) {
    df_node *n = handle.node;
    if (dfi_is_variable(n)) return n;
    bool passes = dfi_flow_is_constant_enter(n) || dfi_flow_is(n, FLOW_IDENTITY) ||
                  (dfi_flow_is(n, FLOW_SWITCH) && n->context->kind == DFI_BRANCH);
    const df_output outer = dfi_flow_captured(handle);
    if (!passes && !outer.node) return NULL;
    handle = passes ? n->in[0] : outer;
  }
}

static df_node *variable_among(int32_t nin, const df_output *in) {
  for (int32_t i = 0; i < nin; i++)
    if (dfi_dtype(in[i]) == DF_RESOURCE) {
      df_node *v = variable_of(in[i]);
      if (v) return v;
    }
  return NULL;
}

static bool is_ordered(const df_node *n) {
  const df_op *op = dfi_op_info_at(n->op)->op;
  return op->effect || op->ordered || (op->stateful && variable_among(n->nin, n->in));
}

void dfi_effect_after(df_graph *g, df_node *n, bool reads) {
  const df_op *op = dfi_op_info_at(n->op)->op;
  df_context *c = n->context;
  if (op->effect || op->ordered) dfi_builder_of(g)->neffects++;
  if (c->kind == DFI_TOP || (!reads && !is_ordered(n))) return;
  put_in_order(n, op->effect);
  dfi_flow_happened(c, n, op->effect);
}

/* Makes n, or the outermost loop around it, wait for what `top` says was done at the top level. */
static void put_behind(df_node *n, df_context *top, bool effect) {
  df_loop *border = NULL;
  df_context *c = n->context;
  for (; c->kind != DFI_TOP && c->kind != DFI_CALLED; c = c->parent) if (c->kind != DFI_BRANCH) border = c->loop;
  if (c->kind == DFI_CALLED) return;
  if (border) wait_for(border, top, effect);
  else {
    if (effect) wait_for_reads(n, top);
    if (top->last_effect) dfi_node_add_control(n, top->last_effect);
  }
}

int32_t df_graph_order(df_graph *g, int32_t first) {
  df_context top = { .kind = DFI_BODY };              /* what a body keeps of its effects, of the top level */
  enum { NOTHING, READS, EFFECT } inside = NOTHING;   /* of the cond or loop whose results come next */
  for (int32_t i = first < 0 ? 0 : first; i < g->n; i++) {
    df_node *n = g->node[i];
    const bool at_top = n->context->kind == DFI_TOP, effect = dfi_op_info_at(n->op)->op->effect;
    if (is_ordered(n)) {
      put_behind(n, &top, effect);
      if (at_top) dfi_flow_happened(&top, n, effect);
      else if (inside != EFFECT) inside = effect ? EFFECT : READS;
    } else if (at_top && (flow_kind(n) == DF_MERGE || flow_kind(n) == DF_EXIT) && inside != NOTHING) {
      dfi_flow_happened(&top, n, inside == EFFECT);   /* of several results the first has the effects behind it */
      inside = READS;
      continue;
    }
    if (at_top) inside = NOTHING;
  }
  dfi_free(top.reads);
  return top.last_effect ? top.last_effect->id : -1;
}
