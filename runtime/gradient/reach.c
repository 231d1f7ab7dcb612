/* reach.c: what a pass differentiates, and what it says of what it cannot.
 *
 * Back from the ys along differentiable edges of the lowered graph, then forward from the xs inside what was reached.
 * Loops are cycles here, so the marks are the fixpoint that says which loop variable matters. Both walks are linear in
 * the edges they meet.
 */
#include "gradient/gradient.h"
#include <stdarg.h>
#include <stdio.h>

/* ---- what is differentiated ------------------------------------------------------------------- */

uint8_t dfi_gradient_dtype(df_output o) { return dfi_dtype(o) == DF_RESOURCE ? o.node->out[o.index].of : dfi_dtype(o); }

bool dfi_continuous(uint8_t dtype) { return dfi_is_float(dtype) || dfi_is_complex(dtype); }

/* Floats and complex numbers, lists of these (variants), and handles of these or of other handles. */
bool dfi_differentiable(df_output o) {
  uint8_t t = dfi_dtype(o);
  if (t != DF_RESOURCE) return dfi_continuous(t) || t == DF_VARIANT;
  uint8_t of = o.node->out[o.index].of;
  return of == 0 || of == DF_RESOURCE || dfi_continuous(of);
}

/* Is n what carries a variable of a loop that the call itself stands in? To the call it is an input like any other. */
bool dfi_is_open_variable(pass *p, df_node *n) {
  df_context *c = n->context;
  if (c->kind != DFI_PRED && c->kind != DFI_BODY) return false;
  df_flow f = flow_kind(n);
  bool carries = (f == DF_SWITCH && n->in[1].node == c->loop->loop_cond) ||
                 (f == DF_MERGE && dfi_flow_is(n->in[0].node, FLOW_ENTER)) ||
                 (f == DF_ENTER && !dfi_flow_is_constant_enter(n));
  return carries &&
         (dfi_context_inside(p->called_in, c->loop->body) || dfi_context_inside(p->called_in, c->loop->pred));
}

/* The loop whose Exit n is, when it was built with back_prop = false; NULL otherwise. */
static const df_loop *stopping_loop(const df_node *n) {
  if (flow_kind(n) != DF_EXIT) return NULL;
  const df_context *c = n->in[0].node->context;
  const df_loop *l = c->kind == DFI_BODY || c->kind == DFI_PRED ? c->loop : NULL;
  return l && !l->back_prop ? l : NULL;
}

bool df_node_stops_gradient(df_graph *g, int32_t node) {
  if (node < 0 || node >= g->n) return false;
  return dfi_has_trait(g->node[node], DFO_STOPS) || stopping_loop(g->node[node]);
}

/* Does a gradient flow from n to its input j? */
bool dfi_gradient_flows(pass *p, df_node *n, int32_t j) {
  const df_op *op = dfi_op_info_at(n->op)->op;
  if (!dfi_differentiable(n->in[j])) return false;
  switch (op->flow) {
    case DF_SWITCH: return j == 0 && !dfi_is_open_variable(p, n);
    case DF_MERGE: case DF_ENTER: return !dfi_is_open_variable(p, n);
    case DF_EXIT: return !stopping_loop(n);
    case DF_NEXT_ITERATION: return true;
    case DF_PLAIN: case DF_CALL: break;
    default: return false;
  }
  if (op->no_grad) return false;
  if (op->grad) return !(op->traits & DFO_ARRAY_GRAD);
  if (op->traits & DFO_OWN_GRADIENT) return j < n->attrs[0].i;
  for (int32_t i = 0; i < n->nout; i++)
    if (dfi_differentiable((df_output){ n, i })) return true;
  return false;
}

bool dfi_is_stop(pass *p, df_output o) { return p->stops && dfi_map_get(p->stops, o).node; }

/* Does no gradient flow to o from what uses it? A stop that is an x itself receives its own, and hands none on. */
static bool is_cut(pass *p, df_output o, int32_t nx, const df_output *xs) {
  if (!dfi_is_stop(p, o)) return false;
  for (int32_t i = 0; i < nx; i++)
    if (xs[i].node == o.node && xs[i].index == o.index) return false;
  return true;
}

static uint8_t *mark_at(pass *p, const df_node *n) { return &p->mark[n->id - p->base]; }

/* Back from the ys. `order` receives the ids of the nodes reached. */
static int32_t reach(pass *p, int32_t ny, const df_output *ys, int32_t *order) {
  int32_t n = 0;
  for (int32_t i = 0; i < ny; i++)
    if (own(p, ys[i].node) && !(*mark_at(p, ys[i].node) & REACHED) && !dfi_is_stop(p, ys[i])) {
      *mark_at(p, ys[i].node) |= REACHED;
      p->from[ys[i].node->id - p->base] = -1;
      order[n++] = ys[i].node->id;
    }
  for (int32_t at = 0; at < n; at++) {
    df_node *u = p->graph->node[order[at]];
    for (int32_t j = 0; j < u->nin; j++) {
      df_output in = u->in[j];
      if (!own(p, in.node) || !dfi_gradient_flows(p, u, j)) continue;
      uint8_t *m = mark_at(p, in.node);
      if (*m & REACHED) continue;
      if (dfi_is_stop(p, in)) { *m |= STOPPED; continue; }
      *m |= REACHED;
      p->from[in.node->id - p->base] = u->id;
      order[n++] = in.node->id;
    }
  }
  return n;
}

/* Forward from the xs, among the n nodes reached. */
static void depend(pass *p, int32_t n, const int32_t *order, int32_t nx, const df_output *xs) {
  int32_t all = p->n0 - p->base, edges = 0;
  int32_t *first = dfi_xcalloc((size_t)all + 2, sizeof *first);
  for (int32_t i = 0; i < n; i++) {
    df_node *u = p->graph->node[order[i]];
    for (int32_t j = 0; j < u->nin; j++)
      if (own(p, u->in[j].node) && dfi_gradient_flows(p, u, j) && !is_cut(p, u->in[j], nx, xs)) {
        first[u->in[j].node->id - p->base + 1]++;
        edges++;
      }
  }
  for (int32_t i = 0; i < all; i++) first[i + 1] += first[i];
  int32_t *user = dfi_xmalloc(sizeof *user * ((size_t)edges + 1)), *at = dfi_xmalloc(sizeof *at * ((size_t)all + 1));
  memcpy(at, first, sizeof *at * (size_t)all);
  for (int32_t i = 0; i < n; i++) {
    df_node *u = p->graph->node[order[i]];
    for (int32_t j = 0; j < u->nin; j++)
      if (own(p, u->in[j].node) && dfi_gradient_flows(p, u, j) && !is_cut(p, u->in[j], nx, xs))
        user[at[u->in[j].node->id - p->base]++] = u->id;
  }
  int32_t *queue = dfi_xmalloc(sizeof *queue * ((size_t)n + (size_t)nx + 1)), head = 0, tail = 0;
  for (int32_t i = 0; i < nx; i++) {
    uint8_t *m = mark_at(p, xs[i].node);
    if (!(*m & TARGET)) queue[tail++] = xs[i].node->id;
    *m |= TARGET;
    p->toward[xs[i].node->id - p->base] = -1;
  }
  while (head < tail) {
    int32_t id = queue[head++];
    for (int32_t e = first[id - p->base]; e < first[id - p->base + 1]; e++) {
      uint8_t *m = &p->mark[user[e] - p->base];
      if (*m & DEPENDS) continue;
      if (!(*m & TARGET)) { queue[tail++] = user[e]; p->toward[user[e] - p->base] = id; }
      *m |= DEPENDS;
    }
  }
  dfi_free(first); dfi_free(user); dfi_free(at); dfi_free(queue);
}

void dfi_marks_begin(pass *p, int32_t base, int32_t ny, const df_output *ys, int32_t nx, const df_output *xs) {
  p->base = base;
  p->n0 = p->graph->n;
  size_t all = (size_t)(p->n0 - base) + 1;
  p->mark = dfi_xcalloc(all, 1);
  p->gather = dfi_xcalloc(all, sizeof *p->gather);
  p->from = dfi_xmalloc(sizeof *p->from * all);
  p->toward = dfi_xmalloc(sizeof *p->toward * all);
  int32_t *order = dfi_xmalloc(sizeof *order * all);
  depend(p, reach(p, ny, ys, order), order, nx, xs);
  dfi_free(order);
}

void dfi_marks_end(pass *p) {
  dfi_free(p->mark); dfi_free(p->gather); dfi_free(p->from); dfi_free(p->toward);
}

bool dfi_wanted(pass *p, df_output o) {
  return mark_of(p, o.node) & (DEPENDS | TARGET) && dfi_differentiable(o);
}

/* ---- in words ------------------------------------------------------------------------------------ */

static bool is_primitive(const df_node *n) {
  df_flow f = flow_kind(n);
  return f != DF_PLAIN && f != DF_FEED && f != DF_CONSTANT;
}

const char *dfi_line_of(const df_node *n) { return *n->where ? n->where : "a line not known"; }

typedef struct words { char *text; size_t bytes, at; } words;
static __attribute__((format(printf, 2, 3))) void put(words *w, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int k = vsnprintf(w->text + w->at, w->bytes - w->at, format, args);
  va_end(args);
  w->at += (size_t)k < w->bytes - w->at ? (size_t)k : w->bytes - w->at - 1;
}

/* A path as one reads it: the first and the last few of its nodes, each with its line where that changes; the
 * primitives of control flow only at its ends. */
static void put_path(words *w, df_node *const *node, int32_t n) {
  enum { SHOWN = 7 };
  int32_t said = 0, count = 0, k = 0;
  for (int32_t i = 0; i < n; i++) count += i == 0 || i == n - 1 || !is_primitive(node[i]);
  const char *line = "";
  for (int32_t i = 0; i < n; i++) {
    if (i && i < n - 1 && is_primitive(node[i])) continue;
    int32_t at = k++;
    if (count > SHOWN && at >= SHOWN / 2 && at < count - SHOWN / 2) {
      if (at == SHOWN / 2) put(w, " ← … (%d more)", count - SHOWN / 2 * 2);
      continue;
    }
    put(w, "%s`%s`", said++ ? " ← " : "", dfi_node_name(node[i]));
    if (*node[i]->where && strcmp(node[i]->where, line)) put(w, " (%s)", node[i]->where);
    line = node[i]->where;
  }
}

/* From a y through n to an x. */
static void path_text(pass *p, df_node *n, char *text, size_t bytes) {
  int32_t count = 0, cap = 64;
  df_node **node = dfi_xmalloc(sizeof *node * (size_t)cap);
#define PUT(x) do { \
    if (count == cap) node = dfi_xrealloc(node, sizeof *node * (size_t)(cap *= 2)); \
    node[count++] = (x); \
  } while (0)
  for (int32_t id = n->id; id >= 0; id = p->from[id - p->base]) PUT(p->graph->node[id]);
  for (int32_t i = 0; i < count / 2; i++) {
    df_node *t = node[i];
    node[i] = node[count - 1 - i];
    node[count - 1 - i] = t;
  }
  for (int32_t id = p->toward[n->id - p->base]; id >= 0; id = p->toward[id - p->base]) PUT(p->graph->node[id]);
#undef PUT
  put_path(&(words){ text, bytes, 0 }, node, count);
  dfi_free(node);
}

bool dfi_no_gradient(pass *p, df_node *n) {
  char path[600];
  df_node *forward = p->replay ? dfi_grad_original(p, n) : NULL;
  if (forward) {                                         /* the user knows the node that n is a copy of */
    dfi_no_gradient(p->outer, forward);
    p->b.failed = true;
    return false;
  }
  path_text(p, n, path, sizeof path);
  dfi_grad_op_error(p, n, "op %s (`%s`) has no gradient, and it lies on the way from y to x: %s", dfi_grad_op_type(n),
                    dfi_node_name(n), path);
  return false;
}

/* By id: the node through which each was reached that the ys are computed from, -1 for the ys' own and -2 for others,
 * until `goal` is among them. */
static int32_t *walk_back(pass *p, int32_t ny, const df_output *ys, const df_node *goal) {
  df_graph *g = p->graph;
  int32_t *from = dfi_xmalloc(sizeof *from * (size_t)p->n0), *queue = dfi_xmalloc(sizeof *queue * (size_t)p->n0);
  int32_t head = 0, tail = 0;
  for (int32_t i = 0; i < p->n0; i++) from[i] = -2;
  for (int32_t i = 0; i < ny; i++)
    if (ys[i].node->id < p->n0 && from[ys[i].node->id] == -2) {
      from[ys[i].node->id] = -1;
      queue[tail++] = ys[i].node->id;
    }
  while (head < tail && from[goal->id] == -2) {
    df_node *n = g->node[queue[head++]];
    for (int32_t j = 0; j < n->nin + n->ncontrol; j++) {
      int32_t id = j < n->nin ? n->in[j].node->id : n->control[j - n->nin]->id;
      if (id < p->n0 && from[id] == -2) { from[id] = n->id; queue[tail++] = id; }
    }
  }
  dfi_free(queue);
  return from;
}

/* The node that names the variable whose value n is; n itself where it is none. */
static const df_node *variable_of(const df_node *n) {
  return dfi_has_trait(n, DFO_READS_VARIABLE) && n->nin ? n->in[0].node : n;
}

/* Is x computed from one of the ys, or from the variable that it is the value of? */
static bool other_way_round(pass *p, int32_t ny, const df_output *ys, df_output x) {
  for (int32_t i = 0; i < ny; i++) {
    const df_node *y = variable_of(ys[i].node);
    if (y->id >= p->n0 || y == variable_of(x.node)) continue;
    int32_t *from = walk_back(p, 1, &x, y);
    const bool reached = from[y->id] != -2;
    dfi_free(from);
    if (reached) return true;
  }
  return false;
}

/* Why x has no part in the ys: what ends the gradient on a way between them, found without regard to what is
 * differentiable, and that way. */
void dfi_why_unconnected(pass *p, int32_t ny, const df_output *ys, df_output x, char *text, size_t bytes) {
  df_graph *g = p->graph;
  words w = { text, bytes, 0 };
  int32_t *from = walk_back(p, ny, ys, x.node);
  if (from[x.node->id] == -2)
    put(&w, "y is not computed from it%s",
        other_way_round(p, ny, ys, x) ? ", but it from y: what is differentiated comes first, gradients(y, x)" : "");
  else {
    df_node *cut = NULL, **way = dfi_xmalloc(sizeof *way * (size_t)p->n0);
    int32_t slot = 0, length = 0;
    bool by_predicate = false;
    for (int32_t id = x.node->id; id >= 0; id = from[id]) way[length++] = g->node[id];
    for (int32_t id = x.node->id; from[id] >= 0; id = from[id]) {
      df_node *n = g->node[from[id]];
      bool data = false;
      for (int32_t j = 0; j < n->nin; j++) {
        if (n->in[j].node->id != id) continue;
        data = true;
        by_predicate |= flow_kind(n) == DF_LOOP_COND || (flow_kind(n) == DF_SWITCH && j == 1);
        if (!cut && (!dfi_gradient_flows(p, n, j) || dfi_is_stop(p, n->in[j]))) { cut = n; slot = j; }
      }
      by_predicate |= !data;
    }
    if (by_predicate) put(&w, "y depends on it only through a predicate");
    else if (!cut) put(&w, "the gradient is stopped on the way");
    else if (dfi_is_stop(p, cut->in[slot])) put(&w, "`%s` is in stop_gradients", dfi_node_name(cut->in[slot].node));
    else if (stopping_loop(cut))
      put(&w, "on the way is the while_loop `%s` at %s, which was built with back_prop = false",
          stopping_loop(cut)->name, *stopping_loop(cut)->where ? stopping_loop(cut)->where : "a line not known");
    else if (!dfi_differentiable(cut->in[slot]))
      put(&w, "on the way is `%s` (%s) at %s, whose dtype is %s", dfi_node_name(cut->in[slot].node),
          dfi_grad_op_type(cut->in[slot].node), dfi_line_of(cut->in[slot].node),
          df_dtype_name(dfi_gradient_dtype(cut->in[slot])));
    else put(&w, "on the way is `%s` (%s) at %s, %s", dfi_node_name(cut), dfi_grad_op_type(cut), dfi_line_of(cut),
             dfi_has_trait(cut, DFO_STOPS) ? "which stops it" : "whose gradient is zero everywhere");
    for (int32_t i = 0; i < length / 2; i++) {
      df_node *t = way[i];
      way[i] = way[length - 1 - i];
      way[length - 1 - i] = t;
    }
    put(&w, "; the way from y to x is ");
    put_path(&w, way, length);
    dfi_free(way);
  }
  dfi_free(from);
}
