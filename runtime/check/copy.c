/* copy.c: a graph once more.
 *
 * The copy has the same nodes under the same ids, in contexts, loops and conds of its own, so an output of the one
 * names the same output of the other; from then on both grow on their own. It is what df.check_gradients takes apart: a
 * copy may be made in float64, and its loops may be told how many iterations overlap and what becomes of saved values.
 * A copy prints nothing. Nothing may be open in the graph: no cond, no loop, no pass.
 */
#include "graph/graph.h"
#include "graph/flow.h"
#include "check/unroll.h"

typedef struct copier {
  df_graph *from, *to;
  bool      wide;
  const uint8_t *needed;     /* by id */
  /* by id; a bit for each output that only says what has happened to a TensorArray, in float32 for ever */
  uint32_t *flow;
} copier;

static bool is_narrow(uint8_t dtype) { return dfi_is_float(dtype) && dtype != DF_FLOAT64; }

static df_node *node_in(const copier *c, const df_node *n) { return n ? c->to->node[n->id] : NULL; }
static df_output output_in(const copier *c, df_output o) { return (df_output){ node_in(c, o.node), o.index }; }
static const char *text_in(const copier *c, const char *s) { return s ? dfi_intern(c->to, s) : NULL; }

static df_context *context_in(const copier *c, const df_context *x) {
  if (!x) return NULL;
  return x->id ? dfi_flow_of(c->to)->context[x->id - 1] : c->to->top;
}
static df_loop *loop_in(const copier *c, const df_loop *l) { return l ? dfi_flow_of(c->to)->loop[l->id] : NULL; }
static df_cond *cond_in(const copier *c, const df_cond *k) { return k ? dfi_flow_of(c->to)->cond[k->id] : NULL; }

static dfi_function *function_in(const copier *c, const dfi_function *f) {
  return f ? dfi_flow_of(c->to)->function[f->id] : NULL;
}

static struct dfi_map *map_in(const copier *c, const struct dfi_map *m) {
  if (!m) return NULL;
  struct dfi_map *copy = dfi_map_new();
  for (int32_t i = 0; i < dfi_map_count(m); i++) {
    df_output key, value;
    dfi_map_at(m, i, &key, &value);
    dfi_map_put(copy, output_in(c, key), output_in(c, value));
  }
  return copy;
}

/* ---- float64 ---------------------------------------------------------------------------------- */

/* The flow of a TensorArrayV3: a float32 whose value means nothing. */
static bool is_flow(const dfi_arg *a) { return a->dtype == DF_FLOAT32 && !strncmp(a->name, "flow", 4); }

static bool takes_wide(const dfi_op_info *o, const dfi_arg *a, uint8_t dtype) {
  if (!is_narrow(dtype) || is_flow(a)) return true;
  uint64_t allowed = a->var >= 0 ? o->var[a->var].allowed : a->dtype ? (uint64_t)1 << a->dtype : a->allowed;
  return !allowed || allowed >> DF_FLOAT64 & 1;
}

/* Can n compute in float64? */
static bool widens(const df_node *n) {
  const dfi_op_info *o = dfi_op_info_at(n->op);
  for (int32_t i = 0; i < n->nin; i++)
    if (!takes_wide(o, dfi_input_arg(o, n->nin, i), dfi_dtype(n->in[i]))) return false;
  for (int32_t i = 0; i < n->nout; i++)
    if (!takes_wide(o, dfi_output_arg(n, i), n->out[i].dtype)) return false;
  return !(o->traits & DFO_BITS);
}

/* Which outputs are flows, also behind Switches, Enters and the like. */
static uint32_t *find_flows(const df_graph *g) {
  uint32_t *flow = dfi_xcalloc((size_t)g->n + 1, sizeof *flow);
  for (bool more = true; more;) {
    more = false;
    for (int32_t id = 0; id < g->n; id++) {
      const df_node *n = g->node[id];
      const dfi_op_info *o = dfi_op_info_at(n->op);
      uint32_t marks = flow[id];
      for (int32_t i = 0; i < n->nout && i < 32; i++)
        if (is_flow(dfi_output_arg(n, i))) marks |= 1u << i;
      bool passes = (o->op->flow >= DF_SWITCH && o->op->flow <= DF_NEXT_ITERATION) || (o->traits & DFO_PASSES);
      for (int32_t j = 0; j < n->nin && passes; j++)
        if (n->in[j].index < 32 && flow[n->in[j].node->id] >> n->in[j].index & 1)
          marks |= o->op->flow == DF_SWITCH ? 3 : 1;
      more |= marks != flow[id];
      flow[id] = marks;
    }
  }
  return flow;
}

static df_tensor *tensor_in(const copier *c, df_tensor *t, df_error *err) {
  if (!t) return NULL;
  return c->wide && is_narrow(t->dtype) ? df_tensor_cast(t, DF_FLOAT64, err) : df_tensor_retain(t);
}

/* ---- the parts ----------------------------------------------------------------------------------- */

static int32_t copy_attrs(const copier *c, df_node *n, const df_node *from, df_error *err) {
  const dfi_op_info *o = dfi_op_info_at(n->op);
  bool prints = o->traits & DFO_TELLS;
  if (from->attrs == o->defaults && !prints) {
    bool same = true;
    for (int32_t a = 0; a < o->nattr && c->wide; a++)
      same &= o->attr[a].type != 'y' && (o->attr[a].type != 'd' || !is_narrow((uint8_t)from->attrs[a].i));
    if (same) return DF_OK;
  }
  n->attrs = dfi_graph_alloc(c->to, sizeof *n->attrs * (size_t)(o->nattr + 1));
  for (int32_t a = 0; a < o->nattr; a++) {
    df_attr *to = &n->attrs[a];
    *to = from->attrs[a];
    switch (o->attr[a].type) {
      case 't':
        to->tensor = tensor_in(c, to->tensor, err);
        if (from->attrs[a].tensor && !to->tensor) return err ? err->code : DF_RESOURCE_EXHAUSTED;
        break;
      case 's': {
        size_t length = to->s ? to->i ? (size_t)to->i : strlen(to->s) : 0;
        char *s = dfi_graph_alloc(c->to, length + 1);
        if (length) memcpy(s, to->s, length);
        to->s = s;
        break;
      }
      case 'h': case 'l': case 'y': case 'p':
        if (to->i > 0) {
          int64_t *v = dfi_graph_alloc(c->to, sizeof *v * (size_t)to->i);
          to->ints = memcpy(v, to->ints, sizeof *v * (size_t)to->i);
          for (int64_t k = 0; k < to->i && c->wide && o->attr[a].type == 'y'; k++)
            if (is_narrow((uint8_t)v[k])) v[k] = DF_FLOAT64;
        }
        break;
      case 'd':
        if (c->wide && to->i > 0 && to->i < 64 && is_narrow((uint8_t)to->i)) to->i = DF_FLOAT64;
        break;
    }
  }
  int32_t first_n = prints ? dfi_op_attr_index(o, "first_n") : -1;
  if (first_n >= 0) n->attrs[first_n] = (df_attr){ 0 };      /* prints no more */
  return DF_OK;
}

/* A node with everything that is its own; its inputs and controls come when all nodes are there. */
static df_node *copy_node(copier *c, const df_node *from, df_error *err) {
  df_node *n = dfi_graph_alloc(c->to, sizeof *n);
  *n = *from;
  n->graph = c->to;
  n->context = context_in(c, from->context);
  n->where = text_in(c, from->where);
  n->scope = text_in(c, from->scope);
  n->device = text_in(c, from->device);
  n->contradiction = text_in(c, from->contradiction);
  n->name = NULL;
  n->in = dfi_graph_alloc(c->to, sizeof *n->in * (size_t)(n->nin + 1));
  n->control = n->ncontrol ? dfi_graph_alloc(c->to, sizeof *n->control * (size_t)n->ncontrol) : NULL;
  n->out = dfi_graph_alloc(c->to, sizeof *n->out * (size_t)(n->nout + 1));
  bool wide = c->wide;
  if (wide && !widens(from)) {
    if (c->needed[from->id]) {
      dfi_fail(err, DF_UNIMPLEMENTED, from->where, "`%s` (%s) does not compute in float64",
               dfi_node_name((df_node *)from), dfi_op_info_at(from->op)->op->type);
      return NULL;
    }
    wide = false;                                     /* it will not be run */
  }
  copier as = *c;
  as.wide = wide;
  for (int32_t i = 0; i < n->nout; i++) {
    n->out[i] = from->out[i];
    n->out[i].constant = tensor_in(&as, from->out[i].constant, err);
    if (wide && i < 32 && c->flow[from->id] >> i & 1) continue;
    if (wide && is_narrow(n->out[i].dtype)) n->out[i].dtype = DF_FLOAT64;
    if (wide && is_narrow(n->out[i].of)) n->out[i].of = DF_FLOAT64;
  }
  if (copy_attrs(&as, n, from, err)) return NULL;
  df_graph *g = c->to;
  if (g->n == g->cap) g->node = dfi_xrealloc(g->node, sizeof *g->node * (size_t)(g->cap = g->cap ? 2 * g->cap : 64));
  g->node[g->n++] = n;
  dfi_names_take(g, n, dfi_node_name((df_node *)from));
  return n;
}

static void join_node(const copier *c, df_node *n, const df_node *from) {
  for (int32_t i = 0; i < n->nin; i++) n->in[i] = output_in(c, from->in[i]);
  for (int32_t i = 0; i < n->ncontrol; i++) n->control[i] = node_in(c, from->control[i]);
}

static void copy_context(const copier *c, df_context *to, const df_context *from) {
  *to = *from;
  to->parent = context_in(c, from->parent);
  to->pivot = node_in(c, from->pivot);
  to->cond = cond_in(c, from->cond);
  to->loop = loop_in(c, from->loop);
  to->function = function_in(c, from->function);
  to->last_effect = node_in(c, from->last_effect);
  to->reads = NULL;
  if (from->nreads) to->reads = dfi_xmalloc(sizeof *to->reads * (size_t)from->nreads);
  for (int32_t i = 0; i < from->nreads; i++) to->reads[i] = node_in(c, from->reads[i]);
  to->captures = map_in(c, from->captures);
  to->cache = map_in(c, from->cache);
}

static void copy_loop(const copier *c, df_loop *to, const df_loop *from) {
  *to = *from;
  to->name = text_in(c, from->name);
  to->where = text_in(c, from->where);
  to->save = text_in(c, from->save);
  to->graph = c->to;
  to->parent = context_in(c, from->parent);
  to->pred = context_in(c, from->pred);
  to->body = context_in(c, from->body);
  to->loop_cond = node_in(c, from->loop_cond);
  to->cap = from->n;
  to->var = dfi_xcalloc((size_t)from->n + 1, sizeof *to->var);
  for (int32_t i = 0; i < from->n; i++) {
    dfi_loop_var *v = &to->var[i];
    const dfi_loop_var *is = &from->var[i];
    *v = *is;
    v->enter = node_in(c, is->enter); v->merge = node_in(c, is->merge); v->swtch = node_in(c, is->swtch);
    v->next = node_in(c, is->next); v->exit = node_in(c, is->exit);
    v->init = output_in(c, is->init); v->result = output_in(c, is->result);
    v->name = text_in(c, is->name);
  }
  to->captures = map_in(c, from->captures);
  to->saved = map_in(c, from->saved);
  to->notes = map_in(c, from->notes);
  to->checkpoints = map_in(c, from->checkpoints);
  to->replayed = map_in(c, from->replayed);
  to->replay = loop_in(c, from->replay);
  to->gradient_of = loop_in(c, from->gradient_of);
  to->mark = cond_in(c, from->mark);
  to->marks = output_in(c, from->marks);
  to->marks_exit = output_in(c, from->marks_exit);
  to->down = output_in(c, from->down);
}

static void copy_cond(const copier *c, df_cond *to, const df_cond *from) {
  *to = *from;
  to->name = text_in(c, from->name);
  to->where = text_in(c, from->where);
  to->graph = c->to;
  to->parent = context_in(c, from->parent);
  to->pred = output_in(c, from->pred);
  for (int32_t s = 0; s < 2; s++) {
    to->branch[s] = context_in(c, from->branch[s]);
    to->result[s] = NULL;
    if (!from->result[s]) continue;
    to->result[s] = dfi_xcalloc((size_t)from->n + 1, sizeof(df_output));
    for (int32_t i = 0; i < from->n; i++) to->result[s][i] = output_in(c, from->result[s][i]);
  }
  to->merge = NULL;
  if (from->merge) {
    to->merge = dfi_xcalloc((size_t)from->n + 1, sizeof *to->merge);
    for (int32_t i = 0; i < from->n; i++) to->merge[i] = node_in(c, from->merge[i]);
  }
  to->done = node_in(c, from->done);
  to->gradient_of = cond_in(c, from->gradient_of);
  to->saved = map_in(c, from->saved);
  to->notes = map_in(c, from->notes);
}

/* Its gradients are differentiated anew in the copy; those that are there stay functions that are called. */
static void copy_function(const copier *c, dfi_function *to, const dfi_function *from) {
  *to = *from;
  to->name = text_in(c, from->name);
  to->where = text_in(c, from->where);
  to->graph = c->to;
  to->body = context_in(c, from->body);
  to->caller = context_in(c, from->caller);
  to->begin = node_in(c, from->begin);
  to->tape = node_in(c, from->tape);
  to->ret = node_in(c, from->ret);
  to->cap = from->n;
  to->arg = dfi_xcalloc((size_t)from->n + 1, sizeof *to->arg);
  to->outer = dfi_xcalloc((size_t)from->n + 1, sizeof *to->outer);
  for (int32_t i = 0; i < from->n; i++) {
    to->arg[i] = node_in(c, from->arg[i]);
    to->outer[i] = output_in(c, from->outer[i]);
  }
  const size_t n = (size_t)(from->nresults > 0 ? from->nresults : 0);
  to->result = dfi_xcalloc(n + 1, 1);
  for (size_t i = 0; i < n; i++) to->result[i] = c->wide && is_narrow(from->result[i]) ? DF_FLOAT64 : from->result[i];
  to->call = NULL;
  to->ncall = 0;
  to->captures = map_in(c, from->captures);
  to->saved = map_in(c, from->saved);
  to->backward = NULL;
  to->nbackward = 0;
}

static void make_room(df_graph *to, const flow *f) {
  flow *t = dfi_flow_of(to);
  t->context = dfi_xcalloc((size_t)f->ncontext + 1, sizeof *t->context);
  t->loop = dfi_xcalloc((size_t)f->nloop + 1, sizeof *t->loop);
  t->cond = dfi_xcalloc((size_t)f->ncond + 1, sizeof *t->cond);
  t->function = dfi_xcalloc((size_t)f->nfunction + 1, sizeof *t->function);
  t->nfunction = f->nfunction; t->function_cap = f->nfunction + 1;
  t->ncontext = f->ncontext; t->context_cap = f->ncontext + 1;
  t->nloop = f->nloop; t->loop_cap = f->nloop + 1;
  t->ncond = f->ncond; t->cond_cap = f->ncond + 1;
  for (int32_t i = 0; i < f->ncontext; i++) t->context[i] = dfi_xcalloc(1, sizeof(df_context));
  for (int32_t i = 0; i < f->nloop; i++) t->loop[i] = dfi_xcalloc(1, sizeof(df_loop));
  for (int32_t i = 0; i < f->ncond; i++) t->cond[i] = dfi_xcalloc(1, sizeof(df_cond));
  for (int32_t i = 0; i < f->nfunction; i++) t->function[i] = dfi_xcalloc(1, sizeof(dfi_function));
}

/* What n needs beside its inputs: the end of the function that it calls, the keeping of the value that it loads. */
static df_node *needs_besides(df_graph *g, const df_node *n) {
  const df_op *op = dfi_op_info_at(n->op)->op;
  const dfi_function *f = op->flow == DF_CALL ? dfi_flow_function_find(g, n->attrs[0].s) : NULL;
  return f ? f->ret : op->traits & DFO_TAPE_LOADS ? dfi_function_save(g, n->attrs[0].s, n->attrs[1].i) : NULL;
}

uint8_t *dfi_graph_needs(df_graph *g, int32_t n, const int32_t *outputs) {
  uint8_t *mark = dfi_xcalloc((size_t)g->n + 1, 1);
  int32_t *stack = dfi_xmalloc(sizeof *stack * ((size_t)g->n + 1)), top = 0;
  for (int32_t i = 0; i < n; i++)
    if (outputs[2 * i] >= 0 && outputs[2 * i] < g->n && !mark[outputs[2 * i]]) {
      mark[outputs[2 * i]] = 1;
      stack[top++] = outputs[2 * i];
    }
  while (top) {
    const df_node *u = g->node[stack[--top]];
    for (int32_t j = 0; j < u->nin + u->ncontrol; j++) {
      int32_t id = j < u->nin ? u->in[j].node->id : u->control[j - u->nin]->id;
      if (!mark[id]) { mark[id] = 1; stack[top++] = id; }
    }
    const df_node *more = needs_besides(g, u);
    if (more && !mark[more->id]) { mark[more->id] = 1; stack[top++] = more->id; }
  }
  dfi_free(stack);
  return mark;
}

int32_t df_graph_needs(df_graph *g, int32_t n, const int32_t *outputs, int32_t *nodes) {
  uint8_t *mark = dfi_graph_needs(g, n, outputs);
  int32_t count = 0;
  for (int32_t i = 0; i < g->n; i++) if (mark[i]) nodes[count++] = i;
  dfi_free(mark);
  return count;
}

df_graph *df_graph_copy(df_graph *g, bool wide, int32_t nneed, const int32_t *need, df_error *err) {
  flow *f = dfi_flow_of(g);
  if (f->nopen || g->gradient) {
    dfi_fail(err, DF_FAILED_PRECONDITION, NULL,
             "a graph is copied while a cond, a loop or a gradient of it is being built");
    return NULL;
  }
  uint8_t *needed = dfi_graph_needs(g, nneed, need);
  copier c = { g, df_graph_new(), wide, needed, wide ? find_flows(g) : NULL };
  df_graph *to = c.to;
  make_room(to, f);
  bool ok = true;
  int32_t count = g->n;
  for (int32_t i = 0; i < count && ok; i++) ok = copy_node(&c, g->node[i], err) != NULL;
  dfi_free(needed);
  dfi_free(c.flow);
  if (!ok) {                                            /* what is there holds together */
    for (int32_t i = 0; i < to->n; i++) to->node[i]->nin = to->node[i]->ncontrol = 0;
    df_graph_release(to);
    return NULL;
  }
  for (int32_t i = 0; i < count; i++) join_node(&c, to->node[i], g->node[i]);
  copy_context(&c, to->top, g->top);
  for (int32_t i = 0; i < f->ncontext; i++) copy_context(&c, dfi_flow_of(to)->context[i], f->context[i]);
  for (int32_t i = 0; i < f->nloop; i++) {
    copy_loop(&c, dfi_flow_of(to)->loop[i], f->loop[i]);
    if (f->loop[i]->name) dfi_names_take(to, NULL, f->loop[i]->name);
  }
  for (int32_t i = 0; i < f->ncond; i++) {
    copy_cond(&c, dfi_flow_of(to)->cond[i], f->cond[i]);
    if (f->cond[i]->name) dfi_names_take(to, NULL, f->cond[i]->name);
  }
  for (int32_t i = 0; i < f->nfunction; i++) {
    copy_function(&c, dfi_flow_of(to)->function[i], f->function[i]);
    dfi_names_take(to, NULL, f->function[i]->name);
  }
  to->ncontexts = g->ncontexts; to->nloops = g->nloops; to->nconds = g->nconds; to->ngradients = g->ngradients;
  to->seed = g->seed;
  dfi_map_free(to->variable_init);
  pthread_mutex_lock(&g->lock);
  to->variable_init = map_in(&c, g->variable_init);
  pthread_mutex_unlock(&g->lock);
  if (!dfi_check_memory(DF_OK, err, NULL, "a copy of a graph")) return to;
  df_graph_release(to);
  return NULL;
}

void df_graph_set_loops(df_graph *g, int64_t parallel_iterations, const char *save) {
  flow *f = dfi_flow_of(g);
  for (int32_t i = 0; i < f->nloop; i++) {
    if (parallel_iterations > 0) f->loop[i]->parallel_iterations = parallel_iterations;
    if (save && *save) f->loop[i]->save = dfi_intern(g, save);
  }
  if (parallel_iterations > 0)
    for (int32_t i = 0; i < g->n; i++)
      if (dfi_flow_is(g->node[i], FLOW_ENTER)) g->node[i]->attrs[DFI_ENTER_PARALLEL_ITERATIONS].i = parallel_iterations;
}
