/* form_graph.c: the records of a graph's form, one function a kind. Reading, a record is taken apart into locals first
 * and becomes part of the graph when it is whole: a plan that runs meanwhile reads what was there before.
 */
#include "cluster/form.h"
#include "graph/graph.h"
#include <stdio.h>

/* ---- what records name: 0 is none ------------------------------------------------------------------------------ */

static void io_number(dfi_form *f, uint64_t *number, uint64_t count, const char *what) {
  dfi_io_u64(f, number);
  if (!f->bad && *number > count) {
    dfi_form_bad(f, "there is no %s %llu", what, (unsigned long long)*number - 1);
    *number = 0;
  }
}

static void io_node(dfi_form *f, df_node **n) {
  uint64_t number = !f->reading && *n ? (uint64_t)(*n)->id + 1 : 0;
  io_number(f, &number, (uint64_t)f->graph->n, "node");
  if (f->reading) *n = number && !f->bad ? f->graph->node[number - 1] : NULL;
}

static void io_output(dfi_form *f, df_output *o) {
  io_node(f, &o->node);
  dfi_io_i32(f, &o->index);
}

/* The indices of contexts, loops, conds and functions; a context's is its place among all, the top one first. */
static void io_context(dfi_form *f, df_context **c) {
  const flow *all = dfi_flow_of(f->graph);
  uint64_t number = !f->reading && *c ? (uint64_t)(*c)->id + 1 : 0;
  io_number(f, &number, (uint64_t)all->ncontext + 1, "context");
  if (f->reading) *c = number < 2 ? number ? f->graph->top : NULL : all->context[number - 2];
}

static void io_loop(dfi_form *f, df_loop **l) {
  const flow *all = dfi_flow_of(f->graph);
  uint64_t number = !f->reading && *l ? (uint64_t)(*l)->id + 1 : 0;
  io_number(f, &number, (uint64_t)all->nloop, "loop");
  if (f->reading) *l = number ? all->loop[number - 1] : NULL;
}

static void io_cond(dfi_form *f, df_cond **c) {
  const flow *all = dfi_flow_of(f->graph);
  uint64_t number = !f->reading && *c ? (uint64_t)(*c)->id + 1 : 0;
  io_number(f, &number, (uint64_t)all->ncond, "cond");
  if (f->reading) *c = number ? all->cond[number - 1] : NULL;
}

static void io_function(dfi_form *f, dfi_function **k) {
  const flow *all = dfi_flow_of(f->graph);
  uint64_t number = !f->reading && *k ? (uint64_t)(*k)->id + 1 : 0;
  io_number(f, &number, (uint64_t)all->nfunction, "function");
  if (f->reading) *k = number ? all->function[number - 1] : NULL;
}

static void io_map(dfi_form *f, struct dfi_map **m) {
  bool is = !f->reading && *m;
  dfi_io_bool(f, &is);
  int32_t n = !f->reading && is ? dfi_map_count(*m) : 0;
  if (is) dfi_io_count(f, &n, 4);
  struct dfi_map *made = f->reading && is ? dfi_map_new() : NULL;
  for (int32_t i = 0; i < n && !f->bad; i++) {
    df_output key, value;
    if (!f->reading) dfi_map_at(*m, i, &key, &value);
    io_output(f, &key);
    io_output(f, &value);
    if (made && !f->bad) dfi_map_put(made, key, value);
  }
  if (!f->reading) return;
  dfi_map_free(*m);
  *m = made;
}

/* A list of nodes or outputs that its owner frees; reading, it takes the place of what was there. */
static void io_nodes(dfi_form *f, int32_t *n, df_node ***list) {
  int32_t count = f->reading ? 0 : *n;
  dfi_io_count(f, &count, 1);
  df_node **made = f->reading ? dfi_xcalloc((size_t)count + 1, sizeof *made) : *list;
  for (int32_t i = 0; i < count && !f->bad; i++) io_node(f, &made[i]);
  if (!f->reading) return;
  dfi_free(*list);
  *list = made;
  *n = f->bad ? 0 : count;
}

static void io_outputs(dfi_form *f, int32_t n, df_output **list) {
  bool is = !f->reading && *list;
  dfi_io_bool(f, &is);
  if (f->reading) {
    dfi_free(*list);
    *list = is ? dfi_xcalloc((size_t)n + 1, sizeof **list) : NULL;
  }
  for (int32_t i = 0; is && i < n && !f->bad; i++) io_output(f, &(*list)[i]);
}

static void io_shape(dfi_form *f, dfi_shape *s) {
  uint8_t rank = f->reading ? 0 : (uint8_t)(s->rank + 1);
  dfi_io_u8(f, &rank);
  if (!f->bad && rank > DF_MAX_RANK + 1) dfi_form_bad(f, "a shape has rank %d", rank - 1);
  if (f->bad) return;
  if (f->reading) *s = (dfi_shape){ .rank = (int8_t)(rank - 1) };
  for (int32_t i = 0; i < s->rank && !f->bad; i++) {
    dfi_io_i64(f, &s->dims[i]);
    if (s->dims[i] < -1) dfi_form_bad(f, "a shape has the dimension %lld", (long long)s->dims[i]);
  }
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static void io_string(dfi_form *f, df_attr *a) {
  bool is = !f->reading && a->s;
  dfi_io_bool(f, &is);
  dfi_io_i64(f, &a->i);
  if (!is) { if (f->reading) a->s = NULL; return; }
  int32_t n = f->reading ? 0 : (int32_t)(a->i ? a->i : (int64_t)strlen(a->s));
  dfi_io_count(f, &n, 1);
  if (!f->reading) { dfi_io_raw(f, (void *)a->s, (size_t)n); return; }
  if (f->bad || (a->i && a->i != n)) { dfi_form_bad(f, "a string has another length than it says"); return; }
  char *s = dfi_graph_alloc(f->graph, (size_t)n + 1);
  dfi_io_raw(f, s, (size_t)n);
  a->s = s;
}

static void io_ints(dfi_form *f, df_attr *a) {
  dfi_io_i64(f, &a->i);
  if (f->bad || a->i <= 0) return;
  if (f->reading) {
    if (a->i > f->end - f->in) { dfi_form_bad(f, "it ends within a list"); return; }
    a->ints = dfi_graph_alloc(f->graph, sizeof *a->ints * (size_t)a->i);
  }
  for (int64_t i = 0; i < a->i; i++) dfi_io_i64(f, &a->ints[i]);
}

static void io_attr(dfi_form *f, char type, df_attr *a) {
  switch (type) {
  case 't': dfi_io_tensor(f, &a->tensor); break;
  case 's': io_string(f, a); break;
  case 'f': dfi_io_double(f, &a->f); break;
  case 'h': case 'l': case 'y': case 'p': io_ints(f, a); break;
  default: dfi_io_i64(f, &a->i); break;
  }
}

static df_attr *io_attrs(dfi_form *f, const dfi_op_info *o, df_attr *attrs) {
  bool own = !f->reading && attrs != o->defaults;
  dfi_io_bool(f, &own);
  if (!own) return o->defaults;
  if (f->reading) attrs = dfi_graph_alloc(f->graph, sizeof *attrs * (size_t)(o->nattr + 1));
  for (int32_t a = 0; a < o->nattr && !f->bad; a++) io_attr(f, o->attr[a].type, &attrs[a]);
  return attrs;
}

static void io_out(dfi_form *f, dfi_out *out) {
  dfi_io_u8(f, &out->dtype);
  dfi_io_bool(f, &out->ref);
  dfi_io_u8(f, &out->of);
  if (!f->bad && (out->dtype >= 32 || out->of >= 32)) dfi_form_bad(f, "there is no dtype %d", out->dtype);
  io_shape(f, &out->shape);
  dfi_io_tensor(f, &out->constant);
}

static dfi_out *io_outs(dfi_form *f, int32_t *n, dfi_out *out) {
  dfi_io_count(f, n, 5);
  if (f->bad) return NULL;
  if (f->reading) out = dfi_graph_alloc(f->graph, sizeof *out * (size_t)(*n + 1));
  for (int32_t i = 0; i < *n && !f->bad; i++) io_out(f, &out[i]);
  return out;
}

/* Inputs are mostly a few nodes away: the distance takes a byte where the number would take three. */
static void io_near(dfi_form *f, int32_t id, df_node **n) {
  int64_t away = f->reading ? 0 : id - (int64_t)(*n)->id;
  dfi_io_i64(f, &away);
  if (!f->reading || f->bad) return;
  if (away > id || id - away >= f->graph->n) dfi_form_bad(f, "there is no node %lld", (long long)id - away);
  else *n = f->graph->node[id - away];
}

static void io_edges(dfi_form *f, df_node *n) {
  dfi_io_count(f, &n->nin, 2);
  if (f->bad) return;
  if (f->reading) n->in = dfi_graph_alloc(f->graph, sizeof *n->in * (size_t)(n->nin + 1));
  for (int32_t i = 0; i < n->nin && !f->bad; i++) {
    io_near(f, n->id, &n->in[i].node);
    dfi_io_i32(f, &n->in[i].index);
  }
  dfi_io_count(f, &n->ncontrol, 1);
  if (f->bad) return;
  if (f->reading) n->control = n->ncontrol ? dfi_graph_alloc(f->graph, sizeof *n->control * (size_t)n->ncontrol) : NULL;
  for (int32_t i = 0; i < n->ncontrol && !f->bad; i++) io_near(f, n->id, &n->control[i]);
}

/* A node that was not named has scope and serial; its name is sent where that does not make it. */
static void io_name(dfi_form *f, df_node *n) {
  const char *type = dfi_op_info_at(n->op)->op->type, *name = NULL;
  if (!f->reading && (name = __atomic_load_n(&n->name, __ATOMIC_ACQUIRE)) != NULL) {
    char made[400];
    if (n->serial) snprintf(made, sizeof made, "%s%s_%d", n->scope, type, n->serial);
    else snprintf(made, sizeof made, "%s%s", n->scope, type);
    if (!strcmp(made, name)) name = NULL;
  }
  dfi_io_text(f, &n->scope);
  dfi_io_i32(f, &n->serial);
  dfi_io_text(f, &name);
  if (f->reading) n->name = name;
}

/* What was read takes the place of what is there. */
static void commit(dfi_form *f, df_node *n, const df_node *read, const dfi_op_info *was, const dfi_op_info *is) {
  for (int32_t i = 0; i < read->nout; i++) if (read->out[i].constant) df_tensor_retain(read->out[i].constant);
  for (int32_t a = 0; a < is->nattr; a++)
    if (is->attr[a].type == 't' && read->attrs[a].tensor) df_tensor_retain(read->attrs[a].tensor);
  for (int32_t i = 0; i < n->nout; i++) df_tensor_release(n->out[i].constant);
  for (int32_t a = 0; a < was->nattr; a++) if (was->attr[a].type == 't') df_tensor_release(n->attrs[a].tensor);
  const char *name = read->name;
  *n = *read;
  n->name = NULL;
  dfi_names_restore(f->graph, n, name);
}

static void record_node(dfi_form *f, int32_t id) {
  df_node *n = f->graph->node[id], read = *n;
  const dfi_op_info *was = dfi_op_info_at(n->op), *o = was;
  const char *type = o->op->type;
  dfi_io_text(f, &type);
  if (f->reading && !f->bad && (!type || !(o = dfi_op_find(type))))
    dfi_form_bad(f, "there is no op `%s`", type ? type : "");
  if (f->bad) return;
  read.op = o->id;
  io_context(f, &read.context);
  dfi_io_text(f, &read.where);
  dfi_io_text(f, &read.device);
  io_name(f, &read);
  dfi_io_i32(f, &read.pass);
  dfi_io_bool(f, &read.imported);
  dfi_io_bool(f, &read.unstructured);
  dfi_io_text(f, &read.contradiction);
  io_edges(f, &read);
  read.attrs = f->bad ? o->defaults : io_attrs(f, o, read.attrs);
  read.out = f->bad ? NULL : io_outs(f, &read.nout, read.out);
  if (!f->reading || f->bad) return;
  if (!read.context || !read.where || !read.device || !read.scope || read.serial < 0 || read.serial > 1 << 30)
    dfi_form_bad(f, "node %d lacks a part", id);
  else commit(f, n, &read, was, o);
}

/* A frame's name is taken, as where it was built. */
static void io_frame_name(dfi_form *f, const char **name) {
  dfi_io_text(f, name);
  if (f->reading && !f->bad && *name) dfi_names_take(f->graph, NULL, *name);
}

/* ---- contexts and what they belong to ---------------------------------------------------------------------------- */

static void record_context(dfi_form *f, int32_t id) {
  df_context *c = id ? dfi_flow_of(f->graph)->context[id - 1] : f->graph->top;
  uint8_t kind = (uint8_t)c->kind;
  dfi_io_u8(f, &kind);
  if (kind > DFI_CALLED) dfi_form_bad(f, "a context is of kind %d", kind);
  dfi_io_i32(f, &c->depth);
  io_context(f, &c->parent);
  io_node(f, &c->pivot);
  io_cond(f, &c->cond);
  dfi_io_i32(f, &c->side);
  io_loop(f, &c->loop);
  io_function(f, &c->function);
  dfi_io_bool(f, &c->raised);
  if (f->reading && !f->bad) c->kind = kind;
  if (!f->building) return;
  io_node(f, &c->last_effect);
  io_nodes(f, &c->nreads, &c->reads);
  io_map(f, &c->captures);
  io_map(f, &c->cache);
}

static void io_var(dfi_form *f, dfi_loop_var *v) {
  df_node **nodes[] = { &v->enter, &v->merge, &v->swtch, &v->next, &v->exit };
  for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) io_node(f, nodes[i]);
  io_output(f, &v->init);
  io_output(f, &v->result);
  dfi_io_text(f, &v->name);
  dfi_io_bool(f, &v->has_invariant);
  io_shape(f, &v->invariant);
}

static void record_loop(dfi_form *f, int32_t id) {
  df_loop *l = dfi_flow_of(f->graph)->loop[id];
  io_frame_name(f, &l->name);
  dfi_io_text(f, &l->where);
  io_context(f, &l->parent); io_context(f, &l->pred); io_context(f, &l->body);
  io_node(f, &l->loop_cond);
  int32_t n = l->n;
  dfi_io_count(f, &n, 12);
  if (f->reading && !f->bad) {
    dfi_free(l->var);
    l->var = dfi_xcalloc((size_t)n + 1, sizeof *l->var);
    l->n = l->cap = n;
  }
  for (int32_t i = 0; i < n && !f->bad; i++) io_var(f, &l->var[i]);
  dfi_io_i64(f, &l->parallel_iterations);
  dfi_io_i64(f, &l->maximum_iterations);
  dfi_io_bool(f, &l->back_prop); dfi_io_bool(f, &l->built); dfi_io_bool(f, &l->once);
  dfi_io_text(f, &l->save);
  dfi_io_bool(f, &l->save_unsaid);
  dfi_io_i32(f, &l->trip_var);
  io_output(f, &l->down);
  io_map(f, &l->saved);
  io_loop(f, &l->gradient_of); io_loop(f, &l->replay);
  io_cond(f, &l->mark);
  io_output(f, &l->marks); io_output(f, &l->marks_exit);
  io_map(f, &l->checkpoints);
  if (!f->building) return;
  io_map(f, &l->captures);
  io_map(f, &l->notes);
  io_map(f, &l->replayed);
}

static void record_cond(dfi_form *f, int32_t id) {
  df_cond *c = dfi_flow_of(f->graph)->cond[id];
  io_frame_name(f, &c->name);
  dfi_io_text(f, &c->where);
  io_context(f, &c->parent); io_context(f, &c->branch[0]); io_context(f, &c->branch[1]);
  io_output(f, &c->pred);
  bool merged = !f->reading && c->merge;
  dfi_io_bool(f, &merged);
  int32_t n = f->reading ? 0 : c->n;
  if (merged) io_nodes(f, &n, &c->merge);
  else dfi_io_count(f, &n, 0);
  if (f->reading && !f->bad) c->n = n;
  /* without merges there may be results of one side only, n of them, each of which takes two bytes */
  if (f->reading && !f->bad && n > f->end - f->in) dfi_form_bad(f, "it ends within a cond");
  for (int32_t s = 0; s < 2 && !f->bad; s++) io_outputs(f, n, &c->result[s]);
  io_cond(f, &c->gradient_of);
  io_node(f, &c->done);
  io_map(f, &c->saved);
  if (f->building) io_map(f, &c->notes);
}

static void io_backward(dfi_form *f, dfi_function *k) {
  int32_t n = k->nbackward;
  dfi_io_count(f, &n, 2);
  if (f->reading && !f->bad) {
    for (int32_t i = 0; i < k->nbackward; i++) dfi_free(k->backward[i].key);
    dfi_free(k->backward);
    k->backward = dfi_xcalloc((size_t)n + 1, sizeof *k->backward);
    k->nbackward = n;
  }
  for (int32_t i = 0; i < n && !f->bad; i++) {
    const char *key = k->backward[i].key;
    dfi_io_text(f, &key);
    io_function(f, &k->backward[i].function);
    if (f->reading && !f->bad) k->backward[i].key = dfi_xstrdup(key ? key : "");
  }
}

static void record_function(dfi_form *f, int32_t id) {
  dfi_function *k = dfi_flow_of(f->graph)->function[id];
  io_frame_name(f, &k->name);
  dfi_io_text(f, &k->where);
  io_context(f, &k->body); io_context(f, &k->caller);
  io_node(f, &k->begin); io_node(f, &k->tape); io_node(f, &k->ret);
  dfi_io_i32(f, &k->nknown);
  io_nodes(f, &k->n, &k->arg);
  if (f->reading) k->cap = k->n;
  io_outputs(f, k->n, &k->outer);
  dfi_io_i32(f, &k->nresults);
  int32_t n = k->nresults > 0 ? k->nresults : 0;
  if (f->reading && !f->bad && n > f->end - f->in) dfi_form_bad(f, "it ends within a function");
  if (f->reading && !f->bad) { dfi_free(k->result); k->result = dfi_xcalloc((size_t)n + 1, 1); }
  if (!f->bad && k->result) dfi_io_raw(f, k->result, (size_t)n);
  io_map(f, &k->saved);
  if (!f->building) return;
  int32_t calls = k->ncall;
  df_node **call = f->reading ? NULL : k->call;
  io_nodes(f, &calls, &call);
  if (f->reading) { dfi_free(k->call); k->call = call; k->ncall = calls; }
  io_map(f, &k->captures);
  io_backward(f, k);
}

static void record_graph(dfi_form *f) {
  df_graph *g = f->graph;
  int64_t seed = g->seed;
  bool files = g->files;
  dfi_io_i64(f, &seed);
  dfi_io_bool(f, &files);
  if (seed != g->seed) g->seed = seed;                 /* runs may be reading them */
  if (files != g->files) g->files = files;
  int32_t *counts[] = { &g->ncontexts, &g->nloops, &g->nconds, &g->ngradients };
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) dfi_io_i32(f, counts[i]);
  io_map(f, &g->variable_init);
}

void dfi_form_record(dfi_form *f, int32_t kind, int32_t id) {
  switch (kind) {
  case DFI_REC_NODE: record_node(f, id); break;
  case DFI_REC_CONTEXT: record_context(f, id); break;
  case DFI_REC_LOOP: record_loop(f, id); break;
  case DFI_REC_COND: record_cond(f, id); break;
  case DFI_REC_FUNCTION: record_function(f, id); break;
  default: record_graph(f); break;
  }
}

/* ---- room -------------------------------------------------------------------------------------------- */

int32_t dfi_form_count(const df_graph *g, int32_t kind) {
  const flow *f = dfi_flow_of((df_graph *)g);
  switch (kind) {
  case DFI_REC_NODE: return g->n;
  case DFI_REC_CONTEXT: return f->ncontext + 1;
  case DFI_REC_LOOP: return f->nloop;
  case DFI_REC_COND: return f->ncond;
  case DFI_REC_FUNCTION: return f->nfunction;
  default: return 1;
  }
}

/* A node of nothing, which its record makes one. */
static void add_shell(df_graph *g) {
  const dfi_op_info *nothing = dfi_op_find("NoOp");
  const char *empty = dfi_where(g, NULL);
  df_node *n = dfi_graph_alloc(g, sizeof *n);
  *n = (df_node){ .id = g->n, .op = nothing->id, .attrs = nothing->defaults, .context = g->top, .graph = g,
                  .where = empty, .scope = empty, .device = empty };
  if (g->n == g->cap) {
    const int32_t cap = g->cap ? 2 * g->cap : 64;
    g->node = dfi_xrealloc(g->node, sizeof *g->node * (size_t)cap);
    g->cap = cap;
  }
  g->node[g->n++] = n;
}

/* The list has n things of so many bytes; those that are too many go by `end`. */
#define FIT(list, n, cap, count, end) do { \
    while ((n) > (count)) end((list)[--(n)]); \
    while ((n) < (count)) { DFI_GROW(list, n, cap); (list)[n] = dfi_xcalloc(1, sizeof *(list)[0]); (n)++; } \
  } while (0)

bool dfi_form_room(dfi_form *f, const int32_t *count) {
  df_graph *g = f->graph;
  flow *t = dfi_flow_of(g);
  if (count[DFI_REC_NODE] < g->n || count[DFI_REC_CONTEXT] < 1 || count[DFI_REC_GRAPH] != 1) {
    dfi_form_bad(f, "it has %d nodes, %d contexts and %d graphs", count[DFI_REC_NODE], count[DFI_REC_CONTEXT],
                 count[DFI_REC_GRAPH]);
    return false;
  }
  while (g->n < count[DFI_REC_NODE]) add_shell(g);
  FIT(t->context, t->ncontext, t->context_cap, count[DFI_REC_CONTEXT] - 1, dfi_flow_context_free);
  FIT(t->loop, t->nloop, t->loop_cap, count[DFI_REC_LOOP], dfi_flow_loop_free);
  FIT(t->cond, t->ncond, t->cond_cap, count[DFI_REC_COND], dfi_flow_cond_free);
  FIT(t->function, t->nfunction, t->function_cap, count[DFI_REC_FUNCTION], dfi_flow_function_free);
  for (int32_t i = 0; i < t->ncontext; i++) t->context[i]->id = i + 1;
  for (int32_t i = 0; i < t->nloop; i++) { t->loop[i]->id = i; t->loop[i]->graph = g; }
  for (int32_t i = 0; i < t->ncond; i++) { t->cond[i]->id = i; t->cond[i]->graph = g; }
  for (int32_t i = 0; i < t->nfunction; i++) { t->function[i]->id = i; t->function[i]->graph = g; }
  return true;
}
