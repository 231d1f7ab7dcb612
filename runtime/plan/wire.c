/* wire.c: which node sends a token to which. The operands of a plan's nodes, the edges between them sorted to their
 * producers, which nodes wait for a loop constant, and the count that a node begins an iteration with. The nodes have
 * their numbers, kinds and slots by now (plan.c).
 */
#include "plan/place.h"
#include "graph/flow.h"

/* An edge while they are gathered. */
typedef struct draft { uint32_t from; uint32_t list; dfi_edge edge; } draft;
typedef struct drafts { draft *at; uint32_t n, cap; } drafts;

static void draft_add(drafts *d, uint32_t from, uint32_t list, uint32_t node, uint32_t to) {
  if (d->n == d->cap) d->at = dfi_xrealloc(d->at, sizeof *d->at * (d->cap = d->cap * 2 + 64));
  d->at[d->n++] = (draft){ from, list, { node, to } };
}

/* The list of a producer that carries the token of its output `index` (-1: of the node as a whole). */
static uint32_t edge_list(const dfi_pnode *from, int32_t index) {
  if (from->kind != DFI_K_SWITCH) return 0;
  return index < 0 ? 2 : (uint32_t)index;
}

typedef struct const_user { int32_t scope; uint32_t constant, node; } const_user;
typedef struct const_users { const_user *at; uint32_t n, cap; } const_users;

/* What is gathered while nodes are wired, and the node that is. */
typedef struct wiring {
  maker *m;
  drafts edges;
  const_users users;
  uint32_t operand_at;                         /* the next free operand of the plan */
  df_node *n;
  dfi_pnode *q;
  dfi_scope *s;                                /* q's */
  uint32_t self, tokens, controls;             /* q's place in s; the tokens it waits for; controls: a Merge's */
} wiring;

/* The node reads a loop constant of its scope, and starts when that has come. */
static void const_user_add(wiring *w, uint32_t constant) {
  const_users *u = &w->users;
  if (u->n == u->cap) u->at = dfi_xrealloc(u->at, sizeof *u->at * (u->cap = u->cap * 2 + 16));
  u->at[u->n++] = (const_user){ (int32_t)w->q->scope, constant, w->self };
}

/* The slot of scope s that holds a copy of a scalar constant of the plan. */
static dfi_operand constant_copy(maker *m, df_node *c, dfi_scope *s) {
  mark *k = &m->mark[c->id];
  if (k->copy_scope != s->id) {
    if ((s->ncopies & (s->ncopies - 1)) == 0)
      s->copies = dfi_xrealloc(s->copies, sizeof *s->copies * (2 * s->ncopies + 1));
    s->copies[s->ncopies].slot = s->nslots;
    s->copies[s->ncopies++].constant = (uint32_t)dfi_plan_constant_place(m, c);
    k->copy_scope = s->id;
    k->copy_slot = s->nslots++;
  }
  return DFI_OPERAND(DFI_ITERATION, k->copy_slot);
}

/* A token from output `from` (index -1: from the node as a whole) to the node. */
static void send(wiring *w, df_output from, int32_t index, uint32_t to) {
  const maker *m = w->m;
  if (m->mark[from.node->id].merged) {
    for (int32_t k = 0; k < from.node->nin; k++)
      draft_add(&w->edges, (uint32_t)m->mark[dfi_plan_origin(w->m, from.node->in[k]).node->id].number, 0, w->self, to);
    return;
  }
  int32_t number = m->mark[from.node->id].number;
  draft_add(&w->edges, (uint32_t)number, edge_list(&m->plan->node[number], index), w->self, to);
}

/* Input i: its operand, and the edge that brings its token, where one does. */
static int32_t wire_input(wiring *w, int32_t i) {
  maker *m = w->m;
  dfi_plan *p = m->plan;
  df_node *n = w->n;
  const bool merge = w->q->kind == DFI_K_MERGE;
  df_output from; bool token;
  dfi_operand o = dfi_plan_place(m, n, n->in[i], &from, &token);
  if (DFI_SPACE(o) == DFI_CONSTANT && w->s->id > 0 && p->constant[DFI_INDEX(o)].kind == DF_SCALAR)
    o = constant_copy(m, from.node, w->s);
  p->operand[w->operand_at++] = o;
  if (DFI_SPACE(o) == DFI_FRAME) const_user_add(w, DFI_INDEX(o));
  if (!token) {
    if (!merge) return DF_OK;
    return dfi_fail(m->err, DF_INVALID_ARGUMENT, n->where, "the Merge `%s` has an input that is always there",
                    dfi_node_name(n));
  }
  w->s->uses[DFI_INDEX(o)]++;
  w->q->iteration_operands = 1;
  send(w, from, from.index,
       merge                                      ? DFI_TO_MERGE | (uint32_t)i << 8
       : w->q->kind == DFI_K_EXIT && !n->ncontrol ? DFI_TO_EXIT
                                                  : DFI_TO_PLAIN);
  w->tokens++;
  return DF_OK;
}

/* The control inputs of holder, for which the node waits: its own, or those of a constant that it reads in place. */
static void wire_controls(wiring *w, const df_node *holder) {
  maker *m = w->m;
  const bool merge = w->q->kind == DFI_K_MERGE;
  for (int32_t c = 0; c < holder->ncontrol; c++) {
    df_node *by = holder->control[c];
    if (m->calls_commute && flow_of(by) == DF_CALL && w->tokens && !merge && w->s->id > 0) continue;
    df_output from = by->nout ? dfi_plan_origin(m, (df_output){ by, 0 }) : (df_output){ by, 0 };
    if (feed_of(m, from) >= 0 || dfi_plan_is_given(m, from)) continue;
    const bool constant = dfi_plan_is_loop_constant(from.node);
    int32_t index = dfi_plan_passes_on(by) && by != from.node ? from.index : -1;
    if (DFI_UNLIKELY(m->cut))
      from = dfi_plan_control_across(m, from, constant ? &(int32_t){ 0 } : &index, m->mark[w->n->id].device);
    if (constant) {
      const_user_add(w, m->mark[from.node->id].slot);
      continue;
    }
    send(w, from, index, merge ? DFI_TO_MERGE_CONTROL : DFI_TO_PLAIN);
    if (merge) w->controls++; else w->tokens++;
  }
}

/* With what the node's count begins in each iteration. */
static int32_t wire_count(wiring *w) {
  df_node *n = w->n;
  if (w->q->kind == DFI_K_MERGE) {
    if (n->nin > 0x7fff || w->controls > 0x7fff)
      return dfi_fail(w->m->err, DF_UNIMPLEMENTED, n->where, "the Merge `%s` has more than 32767 inputs",
                      dfi_node_name(n));
    w->s->counts[w->self] = (uint32_t)n->nin | w->controls * DFI_MERGE_CONTROL;
    return DF_OK;
  }
  w->s->counts[w->self] = w->tokens;
  if (!w->tokens) w->s->roots[w->s->nroots++] = w->self;
  return DF_OK;
}

/* What nothing but a backward loop at the top level reads, as the first gradient is, would lie there all the while that
 * the forward loop runs: it waits for what the plan has of that loop's exits, where it waits for nothing else. */
static void find_late(maker *m) {
  const flow *f = m->graph->flow;
  for (int32_t i = 0; f && i < f->nloop; i++) {
    const df_loop *l = f->loop[i];
    if (!l->gradient_of || l->gradient_of->parent->kind != DFI_TOP || l->parent->kind != DFI_TOP) continue;
    for (int32_t k = 0; k < l->n; k++) {
      const df_node *enter = l->var[k].enter;
      if (!enter || enter->id >= m->nids || !m->mark[enter->id].needed) continue;
      mark *first = &m->mark[enter->in[0].node->id];
      if (first->users == 1 && first->number >= 0) first->late = l->gradient_of;
    }
  }
}

static void wire_late(wiring *w) {
  maker *m = w->m;
  const df_loop *l = m->mark[w->n->id].late;
  if (!l || w->tokens || w->s->id > 0 || w->q->kind == DFI_K_ENTER) return;
  for (int32_t k = 0; k < l->n; k++) {
    df_node *exit = l->var[k].exit;
    if (!exit || exit->id >= m->nids || !m->mark[exit->id].needed || m->mark[exit->id].number < 0) continue;
    send(w, (df_output){ exit, 0 }, -1, DFI_TO_PLAIN);
    w->tokens++;
  }
}

/* Operands and edges of one node. */
static int32_t wire(wiring *w, df_node *n) {
  maker *m = w->m;
  dfi_plan *p = m->plan;
  dfi_pnode *q = w->q = &p->node[m->mark[n->id].number];
  w->n = n;
  w->s = &p->scope[q->scope];
  w->self = (uint32_t)(q - p->node) - w->s->first;
  w->tokens = w->controls = 0;
  q->in = w->operand_at;
  if (m->mark[n->id].given_token) {
    df_output from = { n, m->mark[n->id].given_index }; bool token;
    p->operand[w->operand_at] = dfi_plan_place(m, NULL, from, &from, &token);
    w->operand_at += 3;
    w->s->counts[w->self] = 0;
    w->s->roots[w->s->nroots++] = w->self;
    return DF_OK;
  }
  for (int32_t i = 0; i < n->nin; i++) {
    int32_t status = wire_input(w, i);
    if (status) return status;
  }
  wire_controls(w, n);
  for (int32_t i = 0; i < n->nin && m->mark[n->id].reads_gate; i++) {   /* where nothing else brings a token */
    df_node *gate = NULL;
    df_output unused;
    if (!dfi_plan_comes_as_token(m, n, n->in[i], &unused, &gate) && gate) wire_controls(w, gate);
  }
  wire_late(w);
  while (w->operand_at - q->in < 3)
    p->operand[w->operand_at++] = n->nin ? p->operand[q->in] : DFI_OPERAND(DFI_CONSTANT, 0);
  if (q->kind == DFI_K_CONST) p->operand[q->in] = DFI_OPERAND(DFI_CONSTANT, dfi_plan_constant_place(m, n));
  return wire_count(w);
}

/* Which outputs of a Switch have no readers but Exits? See `constant`. */
static void find_exits(const dfi_plan *p, dfi_pnode *q) {
  q->constant = q->edge[2] != q->edge[3] ? 3 | DFI_SWITCH_HAS_OWN : 3;
  for (uint32_t l = 0; l < 2; l++)
    for (uint32_t e = q->edge[l]; e < q->edge[l + 1]; e++)
      if (p->edge[e].to != DFI_TO_EXIT) q->constant &= (uint8_t)~(2u >> l);
}

/* Sorts the gathered edges to their producers. */
static void lay_edges(maker *m, const drafts *d) {
  dfi_plan *p = m->plan;
  p->edge = dfi_xmalloc(sizeof *p->edge * (d->n + 1));
  uint32_t *count = dfi_xcalloc((size_t)p->nnodes * 3 + 1, sizeof *count);
  for (uint32_t i = 0; i < d->n; i++) count[d->at[i].from * 3 + d->at[i].list]++;
  uint32_t at = 0;
  for (int32_t i = 0; i < p->nnodes; i++) {
    p->node[i].edge[0] = at;
    for (int32_t l = 0; l < 3; l++) {
      uint32_t n = count[i * 3 + l];
      count[i * 3 + l] = at;
      at += n;
      p->node[i].edge[l + 1] = at;
    }
    const dfi_pnode *q = &p->node[i];
    const uint32_t sends = at - q->edge[0] + (q->kind == DFI_K_NEXT ? p->scope[q->scope].nroots : 0);
    if (sends > p->widest) p->widest = sends;
  }
  for (uint32_t i = 0; i < d->n; i++) p->edge[count[d->at[i].from * 3 + d->at[i].list]++] = d->at[i].edge;
  for (int32_t i = 0; i < p->nnodes; i++) if (p->node[i].kind == DFI_K_SWITCH) find_exits(p, &p->node[i]);
  dfi_free(count);
}

/* Lists, by scope, which nodes wait for each loop constant: those of constant c from const_first[c] on. */
static void lay_const_users(dfi_plan *p, const const_users *u) {
  for (int32_t i = 0; i < p->nscopes; i++)
    p->scope[i].const_first = dfi_xcalloc(p->scope[i].nconsts + 2, sizeof *p->scope[i].const_first);
  for (uint32_t k = 0; k < u->n; k++) p->scope[u->at[k].scope].const_first[u->at[k].constant + 2]++;
  for (int32_t i = 0; i < p->nscopes; i++) {
    dfi_scope *s = &p->scope[i];
    for (uint32_t c = 0; c < s->nconsts; c++) s->const_first[c + 2] += s->const_first[c + 1];
    s->const_users = dfi_xmalloc(sizeof *s->const_users * (s->const_first[s->nconsts + 1] + 1));
  }
  for (uint32_t k = 0; k < u->n; k++) {         /* a place on, where each begins until its own are laid */
    dfi_scope *s = &p->scope[u->at[k].scope];
    s->const_users[s->const_first[u->at[k].constant + 1]++] = u->at[k].node;
  }
}

int32_t dfi_plan_wire(maker *m) {
  wiring w = { .m = m };
  int32_t status = DF_OK;
  if (!m->cut && !m->primitives) find_late(m);
  for (int32_t i = 0; i < m->nneeded && !status; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    if ((status = dfi_plan_look_up(m, i))) break;
    if (m->mark[n->id].number >= 0) status = wire(&w, n);
  }
  m->plan->noperands = w.operand_at;
  if (!status) {
    lay_edges(m, &w.edges);
    lay_const_users(m->plan, &w.users);
  }
  dfi_free(w.edges.at); dfi_free(w.users.at);
  return status;
}
