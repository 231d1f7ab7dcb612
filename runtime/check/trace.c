/* trace.c: what a run did, to do it again without loops.
 *
 * A Trace node hands its input on and notes it under its id and iteration. df_graph_prepare puts one in front of each
 * LoopCond, in front of the Switches of each cond, and beside each random op. Nothing else of the graph changes: what
 * gradients are built from still names the values themselves.
 */
#include "session/session.h"
#include "check/unroll.h"
#include <stdio.h>

typedef struct entry { struct entry *next; int32_t id, index; df_value value; char path[]; } entry;
enum { BUCKETS = 4096 };
struct dfi_trace { pthread_mutex_t lock; entry *bucket[BUCKETS]; };

static uint32_t hash(int32_t id, int32_t index, const char *path) {
  uint32_t h = 2166136261u ^ (uint32_t)id * 0x9e3779b1u ^ (uint32_t)index;
  for (; *path; path++) h = (h ^ (uint8_t)*path) * 16777619u;
  return (h ^ h >> 15) % BUCKETS;
}

static void clear(dfi_trace *t) {
  for (int32_t b = 0; b < BUCKETS; b++) {
    for (entry *e = t->bucket[b], *next; e; e = next) {
      next = e->next;
      df_value_release(&e->value);
      dfi_free(e);
    }
    t->bucket[b] = NULL;
  }
}

void dfi_trace_free(dfi_trace *t) {
  if (!t) return;
  clear(t);
  pthread_mutex_destroy(&t->lock);
  dfi_free(t);
}

void df_graph_record(df_graph *g, bool on) {
  dfi_unrolled *u = dfi_unrolled_of(g);
  if (on && !u->trace) {
    u->trace = dfi_xcalloc(1, sizeof *u->trace);
    pthread_mutex_init(&u->trace->lock, NULL);
  }
  if (on) clear(u->trace);
  u->recording = on;
}

static entry *find(dfi_trace *t, int32_t id, int32_t index, const char *path) {
  for (entry *e = t->bucket[hash(id, index, path)]; e; e = e->next)
    if (e->id == id && e->index == index && !strcmp(e->path, path)) return e;
  return NULL;
}

const df_value *dfi_trace_find(df_graph *g, int32_t id, int32_t index, const char *path) {
  dfi_trace *t = dfi_unrolled_of(g)->trace;
  entry *e = t ? find(t, id, index, path) : NULL;
  return e ? &e->value : NULL;
}

/* ---- the op ----------------------------------------------------------------------------------- */

static int32_t kernel_trace(df_kernel *k) {
  dfi_call *call = k->run;
  if (call) {
    df_graph *g = call->exec->plan->graph;
    dfi_unrolled *u = g->unrolled;
    if (u && u->recording) {
      char path[4096];
      dfi_frame_path(call->record, path, sizeof path);
      int32_t id = (int32_t)dfk_int(k, 0), index = (int32_t)dfk_int(k, 1);
      df_value v = dfi_value_copy(k->raw[0]);
      if (v.kind == DF_TENSOR && v.as.tensor->view) v.as.tensor = dfk_own(k, 0);
      pthread_mutex_lock(&u->trace->lock);
      if (!find(u->trace, id, index, path)) {
        size_t bytes = strlen(path) + 1;
        entry *e = dfi_xmalloc(sizeof *e + bytes), **at = &u->trace->bucket[hash(id, index, path)];
        *e = (entry){ .next = *at, .id = id, .index = index, .value = v };
        memcpy(e->path, path, bytes);
        *at = e;
      } else df_value_release(&v);
      pthread_mutex_unlock(&u->trace->lock);
    }
  }
  return dfk_out_forward(k, 0, 0, k->in[0]->rank, NULL);
}

static const df_op ops[] = {
  { .type = "Trace", .in = "value:T", .out = "output:T", .types = "T=any", .attrs = "id:int index:int=0",
    .doc = "hands value on and, in a run that is recorded, notes it for this iteration",
    .stateful = true, .no_grad = true, .shape = dfi_shape_same, .kernel = { [DF_REF] = kernel_trace } },
};
const dfi_op_table dfi_ops_trace = { ops, (int32_t)(sizeof ops / sizeof *ops) };

/* ---- where it stands ---------------------------------------------------------------------------- */

bool dfi_is_random(const df_node *n) { return dfi_has_trait(n, DFO_RANDOM); }

static df_node *trace(df_graph *g, df_context *c, df_output o, int32_t id, int32_t index, df_error *err) {
  df_attr attrs[2] = { { .i = id, .f = id }, { .i = index, .f = index } };
  bool hang = c->pivot && (dfi_is_tokenless(o) || dfi_op_info_at(o.node->op)->op->flow == DF_CONSTANT);
  dfi_node_spec spec = { .op = dfi_op_find("Trace")->id, .nin = 1, .in = &o, .ncontrol = hang, .control = &c->pivot,
                         .attrs = attrs, .where = o.node->where, .raw = true, .context = c };
  return dfi_node_add(g, &spec, err);
}

static int32_t prepare_loop(df_graph *g, df_loop *l, df_error *err) {
  if (!l->loop_cond) return DF_OK;
  df_node *t = trace(g, l->pred, l->loop_cond->in[0], dfi_trace_loop(l), 0, err);
  if (!t) return err ? err->code : DF_INTERNAL;
  pthread_mutex_lock(&g->lock);
  l->loop_cond->in[0] = (df_output){ t, 0 };
  pthread_mutex_unlock(&g->lock);
  return DF_OK;
}

/* All Switches of the cond, which are those of its branches and the one that the pivots hang on. */
static int32_t prepare_cond(df_graph *g, df_cond *c, df_error *err) {
  if (!c->branch[0] || !c->branch[0]->pivot || !c->branch[1] || !c->branch[1]->pivot) return DF_OK;
  df_node *t = trace(g, c->parent, c->pred, dfi_trace_cond(c), 0, err);
  if (!t) return err ? err->code : DF_INTERNAL;
  pthread_mutex_lock(&g->lock);
  c->branch[0]->pivot->in[0].node->in[1] = (df_output){ t, 0 };
  for (int32_t s = 0; s < 2; s++)
    for (int32_t i = 0; i < dfi_map_count(c->branch[s]->captures); i++) {
      df_output key, in;
      dfi_map_at(c->branch[s]->captures, i, &key, &in);
      if (in.node && flow_is_switch(in.node)) in.node->in[1] = (df_output){ t, 0 };
    }
  pthread_mutex_unlock(&g->lock);
  return DF_OK;
}

/* A random op's readers wait for the note. */
static int32_t prepare_random(df_graph *g, df_node *n, int32_t count, df_error *err) {
  for (int32_t k = 0; k < n->nout; k++) {
    df_node *t = trace(g, n->context, (df_output){ n, k }, n->id, k, err);
    if (!t) return err ? err->code : DF_INTERNAL;
    for (int32_t i = n->id + 1; i < count; i++)
      for (int32_t j = 0; j < g->node[i]->nin; j++)
        if (g->node[i]->in[j].node == n && g->node[i]->in[j].index == k) { dfi_node_add_control(g->node[i], t); break; }
  }
  return DF_OK;
}

int32_t df_graph_prepare(df_graph *g, df_error *err) {
  dfi_unrolled *u = dfi_unrolled_of(g);
  flow *f = dfi_flow_of(g);
  int32_t code = DF_OK, count = g->n;
  for (; u->loops < f->nloop && !code; u->loops++) code = prepare_loop(g, f->loop[u->loops], err);
  for (; u->conds < f->ncond && !code; u->conds++) code = prepare_cond(g, f->cond[u->conds], err);
  for (; u->nodes < count && !code; u->nodes++)
    if (dfi_is_random(g->node[u->nodes])) code = prepare_random(g, g->node[u->nodes], count, err);
  return dfi_check_memory(code, err, NULL, "a record of a graph");
}
