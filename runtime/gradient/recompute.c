/* recompute.c: the gradient of a while_loop with save = 'recompute'.
 *
 * The forward loop keeps its variables as they are at the start of iterations 0, 1, 3, 6, 10, … (s (s + 1) / 2), in one
 * TensorArray per variable, written in a cond that the other iterations skip. Segment s is the s + 1 iterations from
 * there on. After N trips there are about √(2N) segments and none is longer, whatever N turns out to be; no bound on it
 * is needed and nothing kept is ever dropped. The backward loop goes over the segments, the last one first, one at a
 * time:
 *
 *   n, g…, a… = segments, gradients of the exits, 0…
 *   while n > 0:
 *     s = n - 1
 *     i, v… = s (s + 1) / 2, what was kept at s
 *     while i < min (i₀ + s + 1, N): i, v… = i + 1, body(v…)          the copy, which saves like any loop
 *     g…, a…  = gradient of that loop from g…; its sums begin with a…
 *     n = s
 *
 * A segment is not begun before the gradient has come to it: df.checkpoint is such a loop of one trip, and many of them
 * in a row hold the values of one at a time.
 *
 * So 2 √(2N) iterations' worth of memory is held at once, and each body runs twice. The sums are added up in the order
 * in which save = 'keep' adds them, and the copy has the order of the original in all that order depends on: the
 * gradients are equal to the bit where the ops are deterministic. The inner loops are ordinary ones and the gradient of
 * the copy is an ordinary pass within this one, so there are gradients of any order, and a loop in the body may
 * recompute, too.
 *
 * What of the body is run again (replay.c):
 *   an op that is a function of its inputs         copied
 *   arrays: made anew, or written before           copied; a location that was written before is left alone
 *   elements read from an array that keeps them    copied
 *   a call of a function in which all is so        copied
 *   what has another value the second time: random numbers, a variable that the loop assigns, what a queue gives,
 *   the size of an array that grows                saved by the forward iteration, as save = 'keep' would, and read
 *   side effects                                   left out; Print hands its input on
 *   whole arrays that may have grown since, writes to gradient arrays of outside: an error that says so
 */
#include "gradient/replay.h"
#include "gradient/gradient.h"

/* A captured value of the loop whose gradient is wanted. */
typedef struct captured {
  df_node    *enter;         /* the forward loop's */
  df_output   x;             /* an Identity of it in the backward loop's body: what the pass within goes to */
  int32_t     sum;           /* the backward loop's variable that sums its gradient; -1: none */
} captured;

struct recompute {
  pass       *p;
  region     *r, *b;         /* around the loop; the backward loop over segments */
  df_loop    *l, *replay;     /* the forward loop; its iterations once more, in the backward loop's body */
  region      body;          /* l's body, to save in */
  df_output   i;             /* the forward iteration, in again's body */
  dfi_replay    copy;
  /* true side of a variable's Switch in l -> (node, its number), of the first `known` variables */
  struct dfi_map *number;
  int32_t     known;
  /* by number in l: number in again or -1; what it begins with */
  struct { int32_t to; df_output kept, in_body; } *var;
  int32_t     nvar;
  int32_t    *pending, npending, pending_cap;              /* variables of again that have no next value so far */
  captured   *captured; int32_t ncaptured, captured_cap;
  struct dfi_map *of_x;      /* x -> (node, place in captured) */
  struct dfi_map *handles;   /* handle that l saved -> the same for the iteration, in the copy */
  region    **inner; int32_t ninner, inner_cap;            /* contexts within the body, to save in */
  bool        custom;        /* a custom gradient is among what was copied */
  struct dfi_map *replaced;  /* predicate of a loop within -> (node, is it replaced by a count of trips?) */
};
typedef struct recompute recompute;

#define GROW(list, n, cap) \
  do { if ((n) == (cap)) { (cap) = (cap) ? 2 * (cap) : 8; \
    (list) = dfi_xrealloc((list), sizeof *(list) * (size_t)(cap)); } } while (0)

/* ---- what the forward loop keeps ----------------------------------------------------------------- */

/* s (s + 1) / 2 */
static df_output triangle(dfi_build *b, df_output s) {
  return dfi_op(b, "FloorDiv", dfi_op(b, "Mul", s, dfi_op(b, "Add", s, dfi_const_int(b, 1))), dfi_const_int(b, 2));
}

/* Adds the cond that is taken in the iterations to be kept, and the count of these. */
static bool add_marks(pass *p, df_loop *l) {
  df_graph *g = p->graph;
  dfi_build *b = &p->b;
  df_output trip, count, due, exit;
  if (dfi_loop_trips(l, &trip, NULL, p->err)) return false;
  g->current = l->parent;
  df_output zero = dfi_const_int(b, 0);
  int32_t v = dfi_pass_failed(p) ? -1 : dfi_loop_add_var(l, zero, dfi_intern(g, "segments"), NULL, &count, p->err);
  int32_t w = v < 0 ? -1 : dfi_loop_add_var(l, zero, dfi_intern(g, "next segment"), NULL, &due, p->err);
  if (w < 0) return false;
  g->current = l->body;
  df_output now = dfi_op(b, "Equal", trip, due), out[2];
  int32_t ids[4];
  if (dfi_pass_failed(p) || df_cond_begin(g, now.node->id, now.index, "keep", l->where, p->err)) return false;
  l->mark = dfi_flow_top(g)->cond;
  out[0] = dfi_op(b, "Add", count, dfi_const_int(b, 1));
  out[1] = dfi_op(b, "Add", due, out[0]);
  for (int32_t side = 1; side >= 0; side--) {
    if (side == 0) {
      out[0] = dfi_resolve(g, count, g->current, p->err);
      out[1] = dfi_resolve(g, due, g->current, p->err);
    }
    if (dfi_pass_failed(p)) return false;
    for (int32_t i = 0; i < 2; i++) { ids[2 * i] = out[i].node->id; ids[2 * i + 1] = out[i].index; }
    if (df_cond_branch_end(g, 2, ids, p->err)) return false;
  }
  if (df_cond_end(g, ids, p->err) < 0) return false;
  if (dfi_loop_close_var(l, v, (df_output){ g->node[ids[0]], ids[1] }, &l->marks_exit, p->err) ||
      dfi_loop_close_var(l, w, (df_output){ g->node[ids[2]], ids[3] }, &exit, p->err)) return false;
  l->marks = count;
  return true;
}

/* The handle, after the loop, of the array that keeps v, a variable in the body. */
static df_output keep(pass *p, df_loop *l, df_output v) {
  df_graph *g = p->graph;
  df_output exit = dfi_map_get(l->checkpoints, v), in_body, side[2], h;
  if (exit.node) return exit;
  const char *line = p->b.where;
  df_context *was = dfi_grad_enter(p, l->parent);
  void *controls = dfi_controls_suspend(g);
  p->b.where = l->where;
  h = dfi_saved_array_new(p, v, true, false);
  int32_t var = dfi_pass_failed(p) ? -1 : dfi_loop_add_var(l, h, NULL, NULL, &in_body, p->err);
  if (var >= 0) {
    g->current = l->mark->branch[1];
    side[0] = in_body;
    side[1] = dfi_op(&p->b, "TensorArrayWrite", in_body, l->marks, v);
    if (dfi_pass_failed(p) || dfi_cond_add_result(l->mark, side[0], side[1], &h, p->err) ||
        dfi_loop_close_var(l, var, h, &exit, p->err))
      var = -1;
  }
  dfi_controls_resume(g, controls);
  p->b.where = line;
  g->current = was;
  if (var < 0) { p->b.failed = true; return DFI_NONE; }
  if (!l->checkpoints) l->checkpoints = dfi_map_new();
  dfi_map_put(l->checkpoints, v, exit);
  return exit;
}

/* ---- variables and captured values of the copy ------------------------------------------------------ */

static int32_t number_of(recompute *c, df_output v) {
  if (!c->number) c->number = dfi_map_new();
  for (; c->known < c->l->n; c->known++) {
    df_node *s = c->l->var[c->known].swtch;
    dfi_map_put(c->number, (df_output){ s, 1 }, (df_output){ s, c->known });
  }
  df_output at = dfi_map_get(c->number, v);
  return at.node ? at.index : -1;
}

/* Variable k of the forward loop, in the body of the copy. */
static df_output variable(recompute *c, int32_t k) {
  pass *p = c->p;
  df_output v = { c->l->var[k].swtch, 1 };
  if (k == c->l->trip_var) return c->i;
  if (k >= c->nvar) {
    c->var = dfi_xrealloc(c->var, sizeof *c->var * (size_t)(k + 1));
    for (; c->nvar <= k; c->nvar++) c->var[c->nvar].to = -1;
  }
  if (c->var[k].to >= 0) return c->var[k].in_body;
  dfi_saved_note_of(c->l, NULL, NULL, v, NOTE_KEPT);
  df_output h = keep(p, c->l, v);
  if (h.node) h = dfi_grad_value(p, c->r, h);
  if (dfi_pass_failed(p)) return DFI_NONE;
  df_context *was = dfi_grad_enter(p, c->b->backward);
  p->b.where = c->l->where;
  dfi_attr_int(&p->b, "dtype", dfi_dtype(v));
  df_output first = dfi_op(&p->b, "TensorArrayRead", h, c->b->index), in_body = DFI_NONE;
  int32_t to = -1;
  if (first.node) {
    first.node->out[0].shape = *dfi_shape_at(v);
    first.node->out[0].of = v.node->out[v.index].of;
    to = dfi_loop_add_var(c->replay, first, c->l->var[k].name, NULL, &in_body, p->err);
  }
  p->graph->current = was;
  if (to < 0) { p->b.failed = true; return DFI_NONE; }
  c->var[k].to = to;
  c->var[k].kept = first;
  c->var[k].in_body = in_body;
  GROW(c->pending, c->npending, c->pending_cap);
  c->pending[c->npending++] = k;
  return in_body;
}

/* A loop constant of the forward loop, as one of the copy. */
static df_output constant(recompute *c, df_output inner) {
  pass *p = c->p;
  df_output o = dfi_grad_value(p, c->r, inner.node->in[0]);
  if (dfi_pass_failed(p)) return DFI_NONE;
  if (dfi_wanted(p, inner)) {
    df_context *was = dfi_grad_enter(p, c->b->backward);
    p->b.where = inner.node->in[0].node->where;
    df_output like = o;
    o = dfi_op(&p->b, "Identity", o);
    p->graph->current = was;
    if (!o.node) return DFI_NONE;
    o.node->out[0].of = like.node->out[like.index].of;
    o.node->out[0].shape = *dfi_shape_at(like);
    GROW(c->captured, c->ncaptured, c->captured_cap);
    if (!c->of_x) c->of_x = dfi_map_new();
    dfi_map_put(c->of_x, o, (df_output){ o.node, c->ncaptured });
    c->captured[c->ncaptured++] = (captured){ .enter = inner.node, .x = o, .sum = -1 };
  }
  o = dfi_resolve(p->graph, o, c->replay->body, p->err);
  if (!o.node) p->b.failed = true;
  return o;
}

/* ---- what cannot be run again ------------------------------------------------------------------------- */

/* of the arrays that a handle may name */
typedef struct origin { bool inside, outside, gradient, grows, clears; } origin;

static bool attr_of(const df_node *n, const char *name) {
  int32_t a = dfi_op_attr_index(dfi_op_info_at(n->op), name);
  return a >= 0 && n->attrs[a].i;
}

static origin origin_of(recompute *c, df_output handle) {
  origin o = { 0 };
  struct dfi_map *seen = dfi_map_new();
  dfi_map_put(seen, handle, handle);
  for (int32_t i = 0; i < dfi_map_count(seen); i++) {
    df_output h, at;
    dfi_map_at(seen, i, &h, &at);
    df_node *n = h.node;
    bool made = dfi_has_trait(n, DFO_ARRAY_NEW), grad = dfi_has_trait(n, DFO_ARRAY_GRAD);
    if (made || grad || n->nin == 0 || i > 2000) {
      bool inside = dfi_context_inside(n->context, c->l->body);
      o.inside |= inside;
      o.outside |= !inside;
      o.gradient |= !inside && !made;
      o.grows |= !inside && (!made || attr_of(n, "dynamic_size"));
      o.clears |= !inside && (!made || attr_of(n, "clear_after_read"));
      continue;
    }
    bool all = flow_kind(n) == DF_MERGE || dfi_has_trait(n, DFO_ARRAY_JOINS);
    for (int32_t k = 0; k < (all ? n->nin : 1); k++)
      if (!dfi_map_get(seen, n->in[k]).node) dfi_map_put(seen, n->in[k], n->in[k]);
  }
  dfi_map_free(seen);
  return o;
}

typedef enum again_how { COPIED, SAVED, HANDED_ON, ASSIGNED, REFUSED } again_how;

/* How is what n gives had again? REFUSED: *why says why not. */
static again_how how_again(recompute *c, df_node *n, const char **why) {
  const df_op *op = dfi_op_info_at(n->op)->op;
  if (dfi_reads_reference(n)) return SAVED;
  if (!op->stateful || op->traits & (DFO_ARRAY_NEW | DFO_REPEATS) ||
      (op->traits & DFO_VARIABLE && n->out[0].dtype == DF_RESOURCE))
    return COPIED;
  if (op->traits & DFO_TELLS) return HANDED_ON;
  if (op->traits & DFO_ASSIGNS) return ASSIGNED;
  bool active = mark_of(c->p, n) & DEPENDS && !op->no_grad;
  if (op->flow == DF_CALL) {
    const dfi_function *f = dfi_flow_function_find(c->p->graph, n->attrs[0].s);
    if (f && dfi_flow_function_repeats(f)) return COPIED;
    *why = "the function has effects or gives something else the second time, and a gradient through it is asked for";
    return active ? REFUSED : SAVED;
  }
  if (op->traits & DFO_ARRAY && n->nin && dfi_dtype(n->in[0]) == DF_RESOURCE) {
    origin o = origin_of(c, n->in[0]);
    if (op->traits & DFO_ARRAY_GRAD) {
      if (!n->attrs[0].s || !n->attrs[0].i) return COPIED;
      *why = "it names a gradient array, which would be added to twice";
      return REFUSED;
    }
    bool takes = op->traits & DFO_ARRAY_TAKES, whole = op->traits & DFO_ARRAY_WHOLE;
    if (!o.outside) return COPIED;
    if (takes && !o.gradient && !o.clears) return COPIED;
    if (whole && !o.gradient && !o.clears && !o.grows) return COPIED;
    if (takes || whole) {
      if (!active || op->traits & DFO_ARRAY_READS) return SAVED;
      *why = o.clears ? "it reads an array of outside whose elements are cleared when they are read"
                      : "it reads all of an array of outside that may have grown since";
      return REFUSED;
    }
    if (!o.gradient) return COPIED;
    *why = "it adds to a gradient array of outside";
    return REFUSED;
  }
  if (active && op->grad && !(op->traits & DFO_READS_VARIABLE)) {
    *why = op->effect ? "it has effects, and a gradient through it is asked for"
                      : "it reads a variable, and a gradient through it is asked for";
    return REFUSED;
  }
  return SAVED;
}

static region *region_at(recompute *c, df_context *x) {
  if (x == c->l->body) return &c->body;
  for (int32_t i = c->ninner - 1; i >= 0; i--) if (c->inner[i]->forward == x) return c->inner[i];
  region *parent = region_at(c, x->parent), *r = dfi_pass_alloc(c->p, sizeof *r);
  *r = (region){ .parent = parent, .forward = x };
  if (x->kind == DFI_BRANCH) { r->cond = x->cond; r->side = x->side; } else r->loop = x->loop;
  GROW(c->inner, c->ninner, c->inner_cap);
  return c->inner[c->ninner++] = r;
}

static df_output read_saved(recompute *c, df_output v, df_output handle, df_output index) {
  pass *p = c->p;
  df_context *to = dfi_replay_context(&c->copy, v.node->context);
  if (!to) { p->b.failed = true; return DFI_NONE; }
  df_context *was = dfi_grad_enter(p, to);
  p->b.where = v.node->where;
  dfi_attr_int(&p->b, "dtype", dfi_dtype(v));
  df_output o = dfi_op(&p->b, "TensorArrayRead", handle, index);
  p->graph->current = was;
  if (!o.node) return DFI_NONE;
  o.node->out[0].shape = *dfi_shape_at(v);
  o.node->out[0].of = v.node->out[v.index].of;
  return o;
}

/* v as the forward iteration saved it, in the copy of v's context. */
static df_output saved(recompute *c, df_output v) {
  pass *p = c->p;
  df_context *x = v.node->context;
  df_output h = dfi_saved_array(p, region_at(c, x), v, false), trip = c->i;
  while (x->kind == DFI_BRANCH) x = x->parent;
  if (dfi_pass_failed(p)) return DFI_NONE;
  if (x->loop == c->l) h = dfi_grad_value(p, c->r, h);
  else {
    df_output known = dfi_map_get(c->handles, h);
    if (!known.node) {
      known = saved(c, h);
      if (!known.node) return DFI_NONE;
      if (!c->handles) c->handles = dfi_map_new();
      dfi_map_put(c->handles, h, known);
    }
    h = known;
    if (x->loop->down.node) trip = x->loop->down;
    else if (dfi_loop_trips(x->loop, &trip, NULL, p->err)) { p->b.failed = true; return DFI_NONE; }
    trip = dfi_replay_value(&c->copy, trip);
    if (!trip.node) { p->b.failed = true; return DFI_NONE; }
  }
  return dfi_pass_failed(p) ? DFI_NONE : read_saved(c, v, h, trip);
}

/* ---- stand-ins ---------------------------------------------------------------------------------------- */

/* Does the predicate of a loop in the body need what only the forward iteration knew? */
static bool is_replaced(recompute *c, df_loop *l) {
  df_output pred = l->loop_cond->in[0], known = dfi_map_get(c->replaced, pred);
  if (known.node) return known.index;
  bool replaced = false;
  const char *why;
  struct dfi_map *seen = dfi_map_new();
  dfi_map_put(seen, (df_output){ pred.node, 0 }, pred);
  for (int32_t i = 0; i < dfi_map_count(seen) && !replaced; i++) {
    df_output at, same;
    dfi_map_at(seen, i, &at, &same);
    df_node *n = at.node;
    if (!dfi_context_inside(n->context, l->pred) || dfi_flow_is(n, FLOW_MERGE) || dfi_flow_is(n, FLOW_ENTER)) continue;
    replaced = how_again(c, n, &why) != COPIED;
    for (int32_t k = 0; k < n->nin; k++) dfi_map_put(seen, (df_output){ n->in[k].node, 0 }, n->in[k]);
  }
  dfi_map_free(seen);
  if (!c->replaced) c->replaced = dfi_map_new();
  dfi_map_put(c->replaced, pred, (df_output){ pred.node, replaced });
  return replaced;
}

/* trips so far < trips that the forward iteration made */
static df_output counted_pred(recompute *c, df_loop *l) {
  pass *p = c->p;
  df_output in_body, trips;
  if (dfi_loop_trips(l, &in_body, &trips, p->err)) { p->b.failed = true; return DFI_NONE; }
  df_output now = dfi_replay_value(&c->copy, (df_output){ l->var[l->trip_var].merge, 0 });
  df_output all = now.node ? saved(c, trips) : DFI_NONE;
  df_context *to = all.node ? dfi_replay_context(&c->copy, l->pred) : NULL;
  if (!to) { p->b.failed = true; return DFI_NONE; }
  df_context *was = dfi_grad_enter(p, to);
  p->b.where = l->where;
  df_output more = dfi_op(&p->b, "Less", now, all);
  p->graph->current = was;
  return more;
}

/* v as an op gives it that stands in for v's node: type(in…), in the copy of v's context. */
static df_output instead(recompute *c, df_output v, const char *type, int32_t n, df_output *in) {
  pass *p = c->p;
  df_context *to = dfi_replay_context(&c->copy, v.node->context);
  for (int32_t i = 0; i < n && to; i++) if (!in[i].node) to = NULL;
  if (!to) { p->b.failed = true; return DFI_NONE; }
  df_context *was = dfi_grad_enter(p, to);
  p->b.where = v.node->where;
  df_output o = dfi_opn(&p->b, type, n, in);
  p->graph->current = was;
  if (o.node) o.node->out[0].shape = *dfi_shape_at(v);
  return o;
}

static df_output other_way(recompute *c, df_output v) {
  pass *p = c->p;
  df_node *n = v.node;
  const char *why = "", *t = dfi_grad_op_type(n);
  df_output in[3] = { DFI_NONE };
  switch (how_again(c, n, &why)) {
    case COPIED: return DFI_NONE;
    case HANDED_ON: in[0] = dfi_replay_value(&c->copy, n->in[0]); return instead(c, v, "Identity", 1, in);
    case ASSIGNED: in[0] = dfi_replay_value(&c->copy, n->in[1]); return instead(c, v, "Identity", 1, in);
    case REFUSED:
      dfi_grad_op_error(p, n,
                        "the while_loop `%s`, built at %s, has save = 'recompute', but `%s` (%s) cannot be run again: "
                        "%s; save = 'keep' would save what it gave",
                        c->l->name, dfi_line_of(c->l->loop_cond), dfi_node_name(n), t, why);
      p->err->code = DF_UNIMPLEMENTED;
      return DFI_NONE;
    case SAVED: break;
  }
  const df_op *op = dfi_op_info_at(n->op)->op;
  bool active = mark_of(p, n) & DEPENDS && !op->no_grad && dfi_differentiable(v);
  if (active && !op->grad) { dfi_no_gradient(p, n); return DFI_NONE; }
  dfi_saved_note_of(c->l, NULL, NULL, v, NOTE_NOT_REPEATED);
  df_output was = saved(c, v);
  if (!was.node || !active) return was;
  in[0] = dfi_replay_value(&c->copy, n->in[0]);  /* the value is what it was, the gradient goes where it would go */
  if (dfi_reads_reference(n)) { in[1] = was; return instead(c, v, "ReadReferenceSaved", 2, in); }
  if (op->traits & DFO_READS_VARIABLE) { in[1] = was; return instead(c, v, "ReadVariableSaved", 2, in); }
  in[1] = dfi_replay_value(&c->copy, n->in[1]);
  in[2] = was;
  return instead(c, v, "TensorArrayReadSaved", 3, in);
}

static df_output unrolled_value(dfi_replay *copy, df_output v, bool *bad) {
  recompute *c = copy->user;
  pass *p = c->p;
  df_node *n = v.node;
  df_context *x = n->context;
  df_output o = DFI_NONE;
  const char *line = p->b.where;
  if (x == c->l->body && dfi_flow_is(n, FLOW_SWITCH) && n->in[1].node == c->l->loop_cond)
    o = variable(c, number_of(c, v));
  else if (dfi_loop_capture(c->l, v)) o = constant(c, v);
  else if (!dfi_context_inside(x, c->l->body)) {
    o = dfi_grad_value(p, c->r, v);
    if (o.node) o = dfi_resolve(p->graph, o, c->replay->body, p->err);
    if (!o.node) p->b.failed = true;
  } else if (x->kind == DFI_PRED && x->loop->loop_cond && dfi_same(x->loop->loop_cond->in[0], v) &&
             is_replaced(c, x->loop))
    o = counted_pred(c, x->loop);
  else o = other_way(c, v);
  p->b.where = line;
  *bad = dfi_pass_failed(p);
  return o;
}

/* What is written a second time is left as it is. */
static void retouch(dfi_replay *copy, df_node *n, df_attr *attrs) {
  if (dfi_has_trait(n, DFO_OWN_GRADIENT)) ((recompute *)copy->user)->custom = true;
  int32_t a = dfi_has_trait(n, DFO_ARRAY) ? dfi_op_attr_index(dfi_op_info_at(n->op), "recomputed") : -1;
  if (a >= 0) attrs[a].i = 1;
}

/* Gives every variable of the copy its next value, and what that needs. */
static bool complete(recompute *c) {
  pass *p = c->p;
  do {
    while (c->npending) {
      int32_t k = c->pending[--c->npending];
      df_output next = dfi_replay_value(&c->copy, c->l->var[k].result);
      if (!next.node || dfi_loop_close_var(c->replay, c->var[k].to, next, NULL, p->err)) return false;
    }
    if (!dfi_replay_finish(&c->copy)) return false;
  } while (c->npending);
  return !dfi_pass_failed(p);
}

df_output dfi_grad_copy(pass *p, df_output o) {
  recompute *c = p->replay;
  if (!dfi_context_inside(o.node->context, c->l->body) && !dfi_loop_capture(c->l, o)) return DFI_NONE;
  df_graph *g = p->graph;
  df_context *was = g->current;
  void *controls = dfi_controls_suspend(g);
  df_output copy = dfi_replay_find(&c->copy, o);
  if (!copy.node) {
    copy = dfi_replay_value(&c->copy, o);
    if (copy.node && !complete(c)) copy = DFI_NONE;
    if (!copy.node) p->b.failed = true;
  }
  dfi_controls_resume(g, controls);
  g->current = was;
  return copy;
}

df_node *dfi_grad_original(pass *p, const df_node *n) {
  const struct dfi_map *m = p->replay->copy.value;
  df_output from, to;
  for (int32_t i = 0; i < dfi_map_count(m); i++) {
    dfi_map_at(m, i, &from, &to);
    if (to.node == n && from.node->op == n->op) return from.node;
  }
  return NULL;
}

/* ---- the backward loop --------------------------------------------------------------------------------- */

/* The segment's iterations once more: a loop in the body of the backward loop. */
static bool run_again(recompute *c, int32_t n, const carried *v) {
  pass *p = c->p;
  df_graph *g = p->graph;
  dfi_build *b = &p->b;
  df_loop *l = c->l;
  df_output trips;
  int32_t var[2];
  if (dfi_loop_trips(l, NULL, &trips, p->err)) return false;
  trips = dfi_grad_value(p, c->r, trips);
  g->current = c->b->backward;
  df_output first = triangle(b, c->b->index), one = dfi_const_int(b, 1);
  /* not before the gradient has come: what runs again early holds it all at once */
  for (int32_t i = 0; i < n && !dfi_pass_failed(p); i++) {
    df_output come = dfi_op(b, "Identity", v[i].in_body);
    if (come.node) dfi_node_add_control(first.node, come.node);
  }
  df_output end = dfi_op(b, "Minimum", dfi_op(b, "Add", dfi_op(b, "Add", first, c->b->index), one), trips);
  if (dfi_pass_failed(p)) return false;
  var[0] = first.node->id; var[1] = first.index;
  if (df_while_begin(g, 1, var, l->parallel_iterations, -1, true, "keep", "recompute", l->where, var, p->err))
    return false;
  c->replay = l->replay = dfi_flow_top(g)->loop;
  df_output more = dfi_op(b, "Less", (df_output){ g->node[var[0]], var[1] }, end);
  if (dfi_pass_failed(p) || df_while_pred_end(g, more.node->id, more.index, var, p->err)) return false;
  c->i = (df_output){ g->node[var[0]], var[1] };
  df_output next = dfi_op(b, "Add", c->i, dfi_const_int(b, 1));
  if (dfi_pass_failed(p)) return false;
  var[0] = next.node->id; var[1] = next.index;
  if (df_while_end(g, 1, var, var, p->err)) return false;
  c->replay->once = l->once;
  c->copy = (dfi_replay){ .graph = g, .err = p->err, .from = l->body, .to = c->replay->body, .user = c,
                          .unrolled_value = unrolled_value, .retouch = retouch };
  for (int32_t i = 0; i < n; i++) if (!variable(c, v[i].index).node) return false;
  for (int32_t i = 0; i < c->npending / 2; i++) {  /* so that they get their next values in the order of the loop's */
    int32_t t = c->pending[i];
    c->pending[i] = c->pending[c->npending - 1 - i];
    c->pending[c->npending - 1 - i] = t;
  }
  return complete(c);
}

df_output dfi_sum_running(pass *p, region *r, df_output x) {
  recompute *c = p->replay;
  df_output at = !r->parent && c ? dfi_map_get(c->of_x, x) : DFI_NONE, in_body = DFI_NONE;
  if (!at.node) return DFI_NONE;
  captured *k = &c->captured[at.index];
  df_graph *g = p->graph;
  df_context *outside = g->current;
  g->current = c->r->backward;
  df_output zero = dfi_grad_full(c->p, c->r, k->enter->in[0], 0, c->r->backward);
  /* large zeros are made when the gradient has come */
  df_node *come = c->b->back->n > 1 ? c->b->back->var[1].init.node : NULL;
  if (zero.node && come && zero.node->nin && come->context == zero.node->context &&
      come != zero.node)
    dfi_node_add_control(zero.node, come);
  k->sum = dfi_sum_add(c->p, c->b, zero, &in_body);
  g->current = outside;
  if (k->sum < 0) { p->b.failed = true; return DFI_NONE; }
  return in_body;
}

static bool is_threaded(const captured *k) { return dfi_dtype(k->x) == DF_RESOURCE && !dfi_grad_is_variable(k->x); }

/* What the pass within gave for a captured value, to the backward loop's sum. */
static bool give_captured(recompute *c, pass *in, region *root, captured *k) {
  pass *p = c->p;
  df_graph *g = p->graph;
  df_output inner = { k->enter, 0 }, outer = k->enter->in[0], values, indices, exit;
  dfi_part_of(p, outer.node, outer.node->where);
  in->b.where = outer.node->where;
  g->current = c->b->backward;
  if (is_threaded(k)) {
    df_output h = dfi_gather_sum(in, root, k->x);
    df_output at = dfi_pass_failed(in) ? DFI_NONE : dfi_map_get(c->b->array_var, inner);
    exit = at.node ? dfi_sum_close(p, c->b, at.index, h) : DFI_NONE;
    g->current = c->r->backward;
    if (!exit.node) return false;
    dfi_grad_array_finish(p, c->r, outer, exit);
    return true;
  }
  if (k->sum < 0) {
    bool sparse = dfi_gather_sparse(in, k->x, &values, &indices);
    g->current = c->r->backward;
    return !dfi_pass_failed(in) && (!sparse || dfi_sum_sparse(p, c->r, c->b, inner, outer, values, indices));
  }
  exit = dfi_sum_close(p, c->b, k->sum, dfi_gather_sum(in, root, k->x));
  g->current = c->r->backward;
  if (exit.node) dfi_gather_gradient(p, outer, exit);
  return exit.node != NULL;
}

/* The gradient of the iterations run again: a pass of its own, over their nodes only. */
static bool undo_again(recompute *c, int32_t base, int32_t n, carried *v) {
  pass *p = c->p;
  df_graph *g = p->graph;
  df_context *here = c->b->backward;
  pass in = { .graph = g,
              .err = p->err,
              .where = p->where,
              .called_in = here,
              .outer = p,
              .interrupts = p->interrupts,
              .replay = c,
              .stops = dfi_map_new() };
  region root = { .forward = here, .backward = here };
  int32_t nx = n + c->ncaptured;
  df_output *ys = dfi_pass_alloc(p, sizeof *ys * (size_t)(n + 1));
  df_output *xs = dfi_pass_alloc(p, sizeof *xs * (size_t)(nx + 1));
  dfi_build_init(&in.b, g, p->where, p->err);
  in.now = &root;
  for (int32_t i = 0; i < n; i++) {
    int32_t k = v[i].index;
    ys[i] = (df_output){ c->replay->var[c->var[k].to].exit, 0 };
    xs[i] = c->var[k].kept;
  }
  for (int32_t i = 0; i < c->ncaptured; i++) xs[n + i] = c->captured[i].x;
  for (int32_t i = 0; i < nx; i++) dfi_map_put(in.stops, xs[i], xs[i]);
  dfi_marks_begin(&in, base, n, ys, nx, xs);
  g->gradient = &in;
  g->current = here;
  for (int32_t i = 0; i < n; i++) dfi_gather_gradient(&in, ys[i], v[i].in_body);
  for (int32_t i = 0; i < c->ncaptured && !dfi_pass_failed(p); i++)
    if (is_threaded(&c->captured[i])) {
      df_output h = dfi_grad_array_start(p, c->b, (df_output){ c->captured[i].enter, 0 });
      dfi_gather_add(&in, c->captured[i].x, TERM_ARRAY, h, DFI_NONE);
    }
  bool ok = !dfi_pass_failed(p) && dfi_backprop(&in, &root, n, ys);
  for (int32_t i = 0; i < n && ok; i++) {
    g->current = here;
    dfi_part_of(&in, c->l->loop_cond, c->l->where);
    v[i].next = dfi_gather_sum(&in, &root, xs[i]);
    if (!v[i].next.node && !dfi_pass_failed(&in)) v[i].next = dfi_grad_zeros(&in, &root, xs[i]);
    ok = !dfi_pass_failed(&in);
  }
  for (int32_t i = 0; i < c->ncaptured && ok; i++)
    ok = give_captured(c, &in, &root, &c->captured[i]) && !dfi_pass_failed(&in) && !dfi_pass_failed(p);
  g->gradient = p;
  dfi_map_free(root.memo); dfi_map_free(root.shapes);
  dfi_pass_end(&in);
  if (!ok) p->b.failed = true;
  return ok;
}

static bool build(recompute *c, int32_t n, carried *v) {
  pass *p = c->p;
  df_graph *g = p->graph;
  df_loop *l = c->l;
  p->b.where = l->where;
  df_context *was = g->current;
  void *controls = dfi_controls_suspend(g);
  bool ok = l->mark || add_marks(p, l);
  g->current = was;
  dfi_controls_resume(g, controls);
  if (!ok) return false;
  backward how = { .trips = dfi_grad_value(p, c->r, l->marks_exit), .parallel_iterations = 1, .save = "keep" };
  int32_t *vars = dfi_pass_alloc(p, sizeof *vars * 2 * (size_t)(n + 1));
  if (dfi_pass_failed(p) || !dfi_backward_begin(p, c->r, c->b, n, v, &how, vars)) return false;
  int32_t base = g->n;
  return run_again(c, n, v) && undo_again(c, base, n, v) && dfi_backward_end(p, c->b, n, v, vars);
}

bool dfi_grad_replayed(pass *p, region *r, region *b, int32_t n, carried *v) {
  recompute c = {
    .p = p, .r = r, .b = b, .l = b->loop, .body = { .parent = r, .loop = b->loop, .forward = b->loop->body }
  };
  bool ok = build(&c, n, v);
  if (ok && c.custom) {  /* its function names values of the forward body, in later passes as well */
    c.replay->replayed = c.copy.value;
    c.copy.value = NULL;
  }
  dfi_replay_free(&c.copy);
  dfi_map_free(c.number); dfi_map_free(c.of_x); dfi_map_free(c.handles); dfi_map_free(c.replaced);
  dfi_free(c.var); dfi_free(c.pending); dfi_free(c.captured); dfi_free(c.inner);
  return ok;
}
