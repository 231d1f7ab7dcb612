/* undo.c: a failed part of building takes its nodes with it.
 *
 * A mark notes how much of everything there is. Most of a graph only grows at its end (nodes, their memory, conds,
 * loops, entries of maps), so undoing is cutting: what has an id from the mark's on goes, and what stays forgets it.
 * Three things change where they stand and are noted while a mark is open: inputs and control edges of older nodes,
 * texts that become names, and what the open contexts know of effects.
 *
 * What was built is kept where something outside of the graph may know of it: g->kept says up to where.
 */
#include "graph/flow.h"
#include "graph/graph.h"
#include "graph/undo.h"

int32_t df_graph_mark(df_graph *g) {
  dfi_builder *b = dfi_builder_of(g);
  flow *f = dfi_flow_of(g);
  DFI_GROW(b->mark, b->nmark, b->mark_cap);
  struct dfi_mark *m = &b->mark[b->nmark];
  *m = (struct dfi_mark){
    .n = g->n, .nodes = b->nodes, .flow = f->nopen, .nscope = b->nscope, .ndevice = b->ndevice, .ncontrol = b->ncontrol,
    .ncontext = f->ncontext, .nloop = f->nloop, .ncond = f->ncond, .nfunction = f->nfunction, .ncontexts = g->ncontexts,
    .nloops = g->nloops, .nconds = g->nconds, .ngradients = g->ngradients, .nedge = b->nedge, .nrenamed = b->nrenamed,
    .whole = !g->gradient && !g->unrolled, .current = g->current
  };
  for (df_context *c = g->current; c && c->kind != DFI_TOP; c = c->parent) m->nstood++;
  if (m->nstood) m->stood = dfi_xcalloc((size_t)m->nstood, sizeof *m->stood);
  dfi_stood *s = m->stood;
  for (df_context *c = g->current; c && c->kind != DFI_TOP; c = c->parent, s++) {
    *s = (dfi_stood){ .context = c, .last_effect = c->last_effect, .nreads = c->nreads };
    if (!c->nreads) continue;
    s->reads = dfi_xmalloc(sizeof *s->reads * (size_t)c->nreads);
    memcpy(s->reads, c->reads, sizeof *s->reads * (size_t)c->nreads);
  }
  return b->nmark++;
}

static void mark_free(struct dfi_mark *m) {
  for (int32_t i = 0; i < m->nstood; i++) dfi_free(m->stood[i].reads);
  dfi_free(m->stood);
}

void df_graph_keep(df_graph *g, int32_t mark) {
  dfi_builder *b = dfi_builder_of(g);
  while (b->nmark > mark && b->nmark > 0) mark_free(&b->mark[--b->nmark]);
  if (!b->nmark) b->nedge = b->nrenamed = 0;
}

void dfi_undo_leave(df_graph *g, int32_t flow) {
  dfi_builder *b = dfi_builder_of(g);
  int32_t kept = b->nmark;
  while (kept > 0 && b->mark[kept - 1].flow > flow) kept--;
  df_graph_keep(g, flow == 0 ? 0 : kept);
}

void dfi_undo_free(dfi_builder *b) {
  while (b->nmark > 0) mark_free(&b->mark[--b->nmark]);
  dfi_free(b->mark); dfi_free(b->edge); dfi_free(b->renamed);
}

/* ---- what is noted while a mark is open --------------------------------------------------------------------- */

void dfi_undo_edges(df_node *n) {
  dfi_builder *b = dfi_builder_of(n->graph);
  if (!b->nmark || n->id >= b->mark[b->nmark - 1].n) return;
  DFI_GROW(b->edge, b->nedge, b->edge_cap);
  b->edge[b->nedge++] = (struct dfi_undo_edge){ n, n->in, n->control, n->nin, n->ncontrol };
}

void dfi_undo_text(dfi_builder *b, dfi_interned *t) {
  if (!b->nmark) return;
  DFI_GROW(b->renamed, b->nrenamed, b->renamed_cap);
  b->renamed[b->nrenamed++] = (struct dfi_undo_name){ t, t->next_suffix, t->taken };
}

/* ---- undoing --------------------------------------------------------------------------------------------------- */

/* Younger than the mark? */
static bool young(const df_node *n, int32_t first) { return n && n->id >= first; }

static bool old_pair(df_output key, df_output value, int64_t first) {
  return !young(key.node, (int32_t)first) && !young(value.node, (int32_t)first);
}
static void cut_map(struct dfi_map *m, int32_t first) { dfi_map_filter(m, old_pair, first); }

static void cut_context(df_context *c, int32_t first) {
  cut_map(c->captures, first);
  cut_map(c->cache, first);
  if (young(c->last_effect, first)) {        /* a context that is not open: the effect before it is what it waits for */
    df_node *n = c->last_effect;
    c->last_effect = NULL;
    for (int32_t i = 0; i < n->ncontrol; i++)
      if (n->control[i]->context == c && !young(n->control[i], first)) c->last_effect = n->control[i];
  }
  int32_t kept = 0;
  for (int32_t i = 0; i < c->nreads; i++) if (!young(c->reads[i], first)) c->reads[kept++] = c->reads[i];
  c->nreads = kept;
}

static void cut_loop(df_loop *l, int32_t first) {
  struct dfi_map *maps[] = { l->captures, l->saved, l->notes, l->replayed, l->checkpoints };
  for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) cut_map(maps[i], first);
  for (int32_t i = 0; i < l->n; i++)
    if (young(l->var[i].enter, first) || young(l->var[i].init.node, first)) l->n = i;
  if (l->trip_var >= l->n) l->trip_var = -1;
  if (l->replay && young(l->replay->loop_cond, first)) l->replay = NULL;
  if (l->mark && young(l->mark->pred.node, first)) l->mark = NULL;
  if (young(l->marks.node, first)) l->marks = DFI_NONE;
  if (young(l->marks_exit.node, first)) l->marks_exit = DFI_NONE;
}

static void cut_cond(df_cond *c, int32_t first) {
  cut_map(c->saved, first);
  cut_map(c->notes, first);
  for (int32_t i = 0; c->merge && i < c->n; i++) if (young(c->merge[i], first)) c->n = i;
  if (young(c->done, first)) c->done = NULL;
}

static void cut_function(dfi_function *k, int32_t first, int32_t nfunction) {
  cut_map(k->captures, first);
  cut_map(k->saved, first);
  while (k->n > k->nknown && young(k->arg[k->n - 1], first)) k->n--;
  int32_t kept = 0;
  for (int32_t i = 0; i < k->ncall; i++) if (!young(k->call[i], first)) k->call[kept++] = k->call[i];
  k->ncall = kept;
  kept = 0;
  for (int32_t i = 0; i < k->nbackward; i++) {
    if (k->backward[i].function->id < nfunction) k->backward[kept++] = k->backward[i];
    else dfi_free(k->backward[i].key);
  }
  k->nbackward = kept;
}

static void cut_flow(df_graph *g, const struct dfi_mark *m) {
  flow *f = dfi_flow_of(g);
  for (int32_t i = 0; i < m->ncontext; i++) cut_context(f->context[i], m->n);
  cut_map(g->top->captures, m->n);
  cut_map(g->top->cache, m->n);
  cut_map(g->variable_init, m->n);
  for (int32_t i = 0; i < m->nloop; i++) cut_loop(f->loop[i], m->n);
  for (int32_t i = 0; i < m->ncond; i++) cut_cond(f->cond[i], m->n);
  for (int32_t i = 0; i < m->nfunction; i++) cut_function(f->function[i], m->n, m->nfunction);
  for (int32_t i = 0; i < m->nstood; i++) {
    const dfi_stood *s = &m->stood[i];
    s->context->last_effect = s->last_effect;
    s->context->nreads = s->nreads;                    /* there was room for them */
    if (s->nreads) memcpy(s->context->reads, s->reads, sizeof *s->reads * (size_t)s->nreads);
  }
  while (f->ncontext > m->ncontext) dfi_flow_context_free(f->context[--f->ncontext]);
  while (f->nloop > m->nloop) dfi_flow_loop_free(f->loop[--f->nloop]);
  while (f->ncond > m->ncond) dfi_flow_cond_free(f->cond[--f->ncond]);
  while (f->nfunction > m->nfunction) dfi_flow_function_free(f->function[--f->nfunction]);
  g->ncontexts = m->ncontexts; g->nloops = m->nloops; g->nconds = m->nconds; g->ngradients = m->ngradients;
  dfi_builder_of(g)->neffects++;         /* reads are kept by context and effects: the context may be another */
}

static void cut_nodes(df_graph *g, const struct dfi_mark *m) {
  dfi_builder *b = dfi_builder_of(g);
  while (b->nedge > m->nedge) {
    const struct dfi_undo_edge *e = &b->edge[--b->nedge];
    e->node->in = e->in; e->node->nin = e->nin;
    e->node->control = e->control; e->node->ncontrol = e->ncontrol;
  }
  dfi_names_undo(g, m->n, m->nrenamed);
  for (int32_t i = g->n - 1; i >= m->n; i--) dfi_node_drop(g->node[i]);
  g->n = m->n;
  dfi_arena_cut(&b->nodes, &m->nodes);
}

int32_t df_graph_undo(df_graph *g, int32_t mark) {
  dfi_builder *b = dfi_builder_of(g);
  if (mark < 0 || mark >= b->nmark) return g->n;
  df_graph_keep(g, mark + 1);
  struct dfi_mark *m = &b->mark[mark];
  df_flow_abort(g, m->flow);
  while (b->nscope > m->nscope) df_pop_scope(g);
  while (b->ndevice > m->ndevice) df_pop_device(g);
  while (b->ncontrol > m->ncontrol) df_pop_control(g);
  g->current = m->current;
  pthread_mutex_lock(&g->lock);
  if (m->whole && !g->gradient && !g->unrolled && g->kept <= m->n && g->n >= m->n) {
    dfi_node_give_up(g);
    cut_flow(g, m);
    cut_nodes(g, m);
  }
  pthread_mutex_unlock(&g->lock);
  df_graph_keep(g, mark);
  dfi_short = false;                     /* that is what it was undone for */
  return g->n;
}

void df_graph_finalize(df_graph *g) { g->finalized = true; }
