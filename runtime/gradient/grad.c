/* grad.c: reverse mode.
 *
 * 1. marks     what lies between the ys and the xs: gradient/reach.c.
 * 2. backprop  each region (gradient.h) as a graph of plain nodes, loops and conds, in reverse topological order: the
 *              contributions to a node's outputs are summed, its gradient function is called, and what that
 *              gives is added to the node's inputs. Loops and conds: gradient/loop.c, gradient/cond.c.
 * 3. results   what was gathered at the xs.
 *
 * Everything is linear in the number of edges that lie between the ys and the xs, and nothing recurses but nesting.
 * Gradient nodes stand under `gradients/` and carry the Lua line of the forward node they belong to.
 */
#include "gradient/gradient.h"
#include <stdarg.h>
#include <stdio.h>

/* ---- the pass's own things ------------------------------------------------------------------ */

void *dfi_pass_alloc(pass *p, size_t bytes) {
  char *at = dfi_arena_take(&p->memory, bytes + 15);
  at += -(uintptr_t)at & 15;
  return memset(at, 0, bytes);
}

void dfi_pass_end(pass *p) {
  dfi_marks_end(p);
  dfi_map_free(p->stops);
  dfi_arena_free(&p->memory);
}

bool dfi_pass_failed(pass *p) { return p->b.failed || p->err->code; }

static int32_t code_of(pass *p) { return p->err->code ? p->err->code : p->b.failed ? DF_INTERNAL : DF_OK; }

df_context *dfi_grad_enter(pass *p, df_context *c) {
  df_context *was = p->graph->current;
  p->graph->current = c;
  return was;
}

const char *dfi_grad_op_type(const df_node *n) { return dfi_op_info_at(n->op)->op->type; }

int32_t dfi_grad_op_error(pass *p, df_node *n, const char *format, ...) {
  if (p->err->code) return p->err->code;
  char text[800];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  dfi_fail(p->err, DF_INVALID_ARGUMENT, n && *n->where ? n->where : p->where, "%s", text);
  if (n) snprintf(p->err->op, sizeof p->err->op, "%.110s (%.40s)", dfi_node_name(n), dfi_grad_op_type(n));
  p->b.failed = true;
  return DF_INVALID_ARGUMENT;
}

/* ---- gathering --------------------------------------------------------------------------------- */

gather *dfi_gather_find(pass *p, df_output o) {
  if (!own(p, o.node) || !p->gather[o.node->id - p->base]) return NULL;
  return &p->gather[o.node->id - p->base][o.index];
}

bool dfi_gather_empty(const gather *a) { return !a || (!a->first && !a->chain); }

gather *dfi_gather_of(pass *p, df_output o) {
  if (!own(p, o.node)) return NULL;
  gather **g = &p->gather[o.node->id - p->base];
  if (!*g) {
    *g = dfi_pass_alloc(p, sizeof(gather) * (size_t)o.node->nout);
    for (int32_t i = 0; i < o.node->nout; i++) { (*g)[i].last = &(*g)[i].first; (*g)[i].chain_last = &(*g)[i].chain; }
  }
  return &(*g)[o.index];
}

void dfi_gather_add(pass *p, df_output o, term_kind kind, df_output v, df_output indices) {
  gather *a = dfi_gather_of(p, o);
  if (!a || !v.node) return;
  df_assert(!a->summed);
  term *t = dfi_pass_alloc(p, sizeof *t);
  *t = (term){ NULL, kind, v, indices };
  *a->last = t;
  a->last = &t->next;
  a->nterms++;
}

void dfi_gather_append(gather *a, array_op *c) {
  df_assert(!a->summed);
  *a->chain_last = c;
  a->chain_last = &c->next;
}

void dfi_gather_gradient(pass *p, df_output o, df_output d) {
  if (d.node) dfi_gather_add(p, o, dfi_dtype(d) == DF_RESOURCE ? TERM_ARRAY : TERM_DENSE, d, DFI_NONE);
}

static df_output sum_dense(dfi_build *b, int32_t n, const df_output *v) {
  if (n == 1) return v[0];
  return n == 2 && dfi_dtype(v[0]) != DF_VARIANT ? dfi_op(b, "Add", v[0], v[1]) : dfi_opn(b, "AddN", n, v);
}

static df_output concat_rows(pass *p, int32_t n, df_output *v) {
  if (n == 1) return v[0];
  df_output *in = dfi_pass_alloc(p, sizeof *in * (size_t)(n + 1));
  memcpy(in, v, sizeof *in * (size_t)n);
  in[n] = dfi_const_int(&p->b, 0);
  return dfi_opn(&p->b, "ConcatV2", n + 1, in);
}

/* The sparse terms of a gather, as one. */
static bool join_sparse(pass *p, gather *a, df_output *values, df_output *indices) {
  df_output *v = dfi_pass_alloc(p, sizeof *v * (size_t)(a->nterms + 1)),
            *i = dfi_pass_alloc(p, sizeof *i * (size_t)(a->nterms + 1));
  int32_t n = 0;
  bool wide = false;
  for (term *t = a->first; t; t = t->next)
    if (t->kind == TERM_SPARSE) { v[n] = t->value; i[n++] = t->indices; wide |= dfi_dtype(t->indices) == DF_INT64; }
  if (!n) return false;
  for (int32_t k = 0; k < n && wide; k++)
    if (dfi_dtype(i[k]) != DF_INT64) { dfi_attr_int(&p->b, "DstT", DF_INT64); i[k] = dfi_op(&p->b, "Cast", i[k]); }
  *values = concat_rows(p, n, v);
  *indices = concat_rows(p, n, i);
  return true;
}

bool dfi_gather_sparse(pass *p, df_output o, df_output *values, df_output *indices) {
  gather *a = dfi_gather_find(p, o);
  if (!a || !a->first) return false;
  for (term *t = a->first; t; t = t->next) if (t->kind != TERM_SPARSE) return false;
  return join_sparse(p, a, values, indices);
}

df_output dfi_gather_join(pass *p, df_output base, gather *a) {
  int32_t n = 0;
  df_output *v = dfi_pass_alloc(p, sizeof *v * (size_t)((a ? a->nterms : 0) + 1));
  if (base.node) v[n++] = base;
  for (term *t = a ? a->first : NULL; t; t = t->next) if (t->kind == TERM_ARRAY) v[n++] = t->value;
  df_output h = n == 0 ? DFI_NONE : n == 1 ? v[0] : dfi_opn(&p->b, "TensorArrayJoin", n, v);
  for (array_op *c = a && h.node ? a->chain : NULL; c; c = c->next) {
    df_output in[5] = { h };
    for (int32_t i = 0; i < c->n; i++) in[i + 1] = c->in[i];
    p->b.where = c->where;
    if (c->like) {
      dfi_attr_string(&p->b, "function", c->like->attrs[0].s);
      dfi_attr_int(&p->b, "slot", c->like->attrs[1].i);
    }
    h = dfi_opn(&p->b, c->type, c->n + 1, in);
  }
  return h;
}

/* The gradient of o has the shape of o: what either says of it holds. */
static void refine(pass *p, df_output o, df_output sum) {
  if (!sum.node || dfi_dtype(sum) == DF_RESOURCE) return;
  char a[160], b[160];
  const dfi_shape *is = dfi_gradient_shape(o);
  dfi_shape both;
  if (!dfi_shape_merge(dfi_shape_at(sum), is, &both))
    dfi_grad_op_error(p, o.node, "the gradient of `%s:%d`, %s, has another shape: %s", dfi_node_name(o.node), o.index,
                      dfi_typed_shape_text(dfi_gradient_dtype(o), is, a), dfi_shape_text(dfi_shape_at(sum), b));
  else if (sum.node->id >= p->n0) sum.node->out[sum.index].shape = both;
}

df_output dfi_gather_sum(pass *p, region *r, df_output o) {
  gather *a = dfi_gather_find(p, o);
  if (dfi_gather_empty(a) || dfi_pass_failed(p)) return DFI_NONE;
  if (a->summed) return a->sum;
  const char *was = p->b.where;
  p->b.where = o.node->where;
  bool array = a->chain != NULL;
  for (term *t = a->first; t; t = t->next) array |= t->kind == TERM_ARRAY;
  if (array) {
    bool base = false;
    for (term *t = a->first; t; t = t->next) base |= t->kind == TERM_ARRAY;
    df_output none = base ? DFI_NONE : dfi_grad_array_new(p, r, o, p->graph->current);
    a->sum = dfi_gather_join(p, none, a);
  } else {
    df_output *v = dfi_pass_alloc(p, sizeof *v * (size_t)(a->nterms + 1)), values, indices;
    int32_t n = 0;
    for (term *t = a->first; t; t = t->next) if (t->kind == TERM_DENSE) v[n++] = t->value;
    if (join_sparse(p, a, &values, &indices)) {
      df_output zero = dfi_const_int(&p->b, 0);
      df_output rows = dfi_op(&p->b, "GatherV2", dfi_grad_shape_of(p, r, o), zero, zero);
      v[n++] = dfi_op(&p->b, "UnsortedSegmentSum", values, indices, rows);
      if (!dfi_pass_failed(p)) refine(p, o, v[n - 1]);
    }
    a->sum = sum_dense(&p->b, n, v);
    if (!dfi_pass_failed(p)) refine(p, o, a->sum);
  }
  p->b.where = was;
  if (dfi_pass_failed(p)) return DFI_NONE;
  a->summed = true;
  return a->sum;
}

/* All that was gathered at `from` is gathered at `to` too. */
static void hand_on(pass *p, region *r, df_output from, df_output to) {
  gather *a = dfi_gather_find(p, from);
  df_output values, indices;
  if (dfi_gather_empty(a)) return;
  bool array = a->chain != NULL, sparse = true;
  for (term *t = a->first; t; t = t->next) { array |= t->kind == TERM_ARRAY; sparse &= t->kind == TERM_SPARSE; }
  if (!array && a->nterms > 1) {                        /* what goes down a chain stays short */
    if (sparse && dfi_gather_sparse(p, from, &values, &indices)) dfi_gather_add(p, to, TERM_SPARSE, values, indices);
    else dfi_gather_gradient(p, to, dfi_gather_sum(p, r, from));
    return;
  }
  for (term *t = a->first; t; t = t->next) dfi_gather_add(p, to, t->kind, t->value, t->indices);
  gather *b = dfi_gather_of(p, to);
  for (array_op *c = a->chain; c && b; c = c->next) {
    array_op *same = dfi_pass_alloc(p, sizeof *same);
    *same = *c;
    same->next = NULL;
    dfi_gather_append(b, same);
  }
}

/* ---- one region ----------------------------------------------------------------------------- */

/* A node, or all of a loop or cond; the representative's id marks it. */
typedef struct unit { df_node *node, *exit; df_loop *loop; df_cond *cond; } unit;

static unit unit_of(df_node *n) {
  if (n->unstructured) return (unit){ .node = n };
  df_loop *l = dfi_flow_is(n, FLOW_EXIT) ? n->in[0].node->context->loop : NULL;
  if (l) return (unit){ .loop = l, .exit = n };
  if (dfi_flow_is(n, FLOW_MERGE) && n->in[0].node->context->kind == DFI_BRANCH)
    return (unit){ .cond = n->in[0].node->context->cond };
  return (unit){ .node = n };
}

static int32_t representative(unit u) {
  return u.loop ? u.loop->loop_cond->id : u.cond ? u.cond->branch[0]->pivot->id : u.node->id;
}

/* Is n where the region begins: what came in from outside, or with the iteration? */
static bool is_leaf(pass *p, const region *r, df_node *n) {
  if (r->loop)
    return n->context == r->loop->pred ||
           (dfi_flow_is(n, FLOW_SWITCH) && n->context == r->forward && n->in[1].node == r->loop->loop_cond);
  if (r->cond) return flow_is_switch(n) && n->context == r->forward;
  return dfi_is_open_variable(p, n);
}

df_node *dfi_loop_capture(const df_loop *l, df_output o) {
  return dfi_flow_is_constant_enter(o.node) && o.node->context == l->pred ? o.node : NULL;
}

/* The i-th input of a unit; false past the last. o.node may be NULL: no gradient flows there. */
static bool unit_input(pass *p, unit u, int32_t i, df_output *o) {
  *o = DFI_NONE;
  df_output key, in;
  if (u.node) {
    if (i >= u.node->nin) return false;
    if (dfi_gradient_flows(p, u.node, i)) *o = u.node->in[i];
    return true;
  }
  if (u.loop) {
    if (i < u.loop->n) {
      df_node *enter = u.loop->var[i].enter;
      if (enter && mark_of(p, enter) & DEPENDS) *o = enter->in[0];
      return true;
    }
    i -= u.loop->n;
    if (i >= dfi_map_count(u.loop->captures)) return false;
    dfi_map_at(u.loop->captures, i, &key, &in);
    if (in.node && dfi_flow_is_constant_enter(in.node) && mark_of(p, in.node) & DEPENDS) *o = in.node->in[0];
    return true;
  }
  for (int32_t side = 0; side < 2; side++) {
    int32_t n = dfi_map_count(u.cond->branch[side]->captures);
    if (i < n) {
      dfi_map_at(u.cond->branch[side]->captures, i, &key, &in);
      if (in.node && mark_of(p, in.node) & DEPENDS) *o = in.node->in[0];
      return true;
    }
    i -= n;
  }
  return false;
}

typedef struct visit { unit u; int32_t next; } visit;

static bool enter_unit(pass *p, region *r, df_output o, visit **stack, int32_t *n, int32_t *cap) {
  if (!o.node || !(mark_of(p, o.node) & DEPENDS) || is_leaf(p, r, o.node)) return false;
  if (dfi_is_stop(p, o)) return false;
  unit u = unit_of(o.node);
  int32_t rep = representative(u) - p->base;
  if (p->mark[rep] & VISITED) return false;
  p->mark[rep] |= VISITED;
  if (*n == *cap) *stack = dfi_xrealloc(*stack, sizeof **stack * (size_t)(*cap = *cap * 2 + 64));
  (*stack)[(*n)++] = (visit){ u, 0 };
  return true;
}

static bool grad_node(pass *p, region *r, df_node *n);

bool dfi_backprop(pass *p, region *r, int32_t nseeds, const df_output *seeds) {
  region *outer = p->now;
  visit *stack = NULL;
  unit *done = NULL;
  int32_t depth = 0, cap = 0, ndone = 0, done_cap = 0;
  for (int32_t i = 0; i < nseeds; i++) {
    if (!enter_unit(p, r, seeds[i], &stack, &depth, &cap)) continue;
    while (depth) {
      visit *v = &stack[depth - 1];
      df_output in;
      if (unit_input(p, v->u, v->next++, &in)) { enter_unit(p, r, in, &stack, &depth, &cap); continue; }
      if (ndone == done_cap) done = dfi_xrealloc(done, sizeof *done * (size_t)(done_cap = done_cap * 2 + 64));
      done[ndone++] = v->u;
      depth--;
    }
  }
  dfi_free(stack);
  df_context *was = dfi_grad_enter(p, r->backward);
  p->now = r;
  for (int32_t i = ndone - 1; i >= 0 && !dfi_pass_failed(p); i--) {
    if (atomic_load_explicit(&dfi_calls_interrupted, memory_order_relaxed) != p->interrupts) {
      dfi_fail(p->err, DF_CANCELLED, p->where, "gradients: interrupted before all was built");
      break;
    }
    p->graph->current = r->backward;
    p->asks = done[i].loop ? done[i].exit : done[i].cond ? done[i].cond->merge[0] : done[i].node;
    if (done[i].loop) dfi_grad_while(p, r, done[i].loop);
    else if (done[i].cond) dfi_grad_cond(p, r, done[i].cond);
    else grad_node(p, r, done[i].node);
  }
  dfi_free(done);
  p->now = outer;
  p->graph->current = was;
  return !dfi_pass_failed(p);
}

/* ---- one node --------------------------------------------------------------------------------- */

static bool grad_custom(pass *p, df_node *n, const df_output *dy, df_output *dx) {
  df_graph *g = p->graph;
  int32_t nx = (int32_t)n->attrs[0].i, ny = n->nout;
  if (!g->custom) { dfi_grad_op_error(p, n, "nobody has registered custom gradients for this graph"); return false; }
  int32_t *io = dfi_pass_alloc(p, sizeof *io * 2 * (size_t)(nx + ny + 1)), *out = io + 2 * ny;
  for (int32_t i = 0; i < ny; i++) { io[2 * i] = dy[i].node ? dy[i].node->id : -1; io[2 * i + 1] = dy[i].index; }
  for (int32_t i = 0; i < nx; i++) { out[2 * i] = -1; out[2 * i + 1] = 0; }
  df_error error = { 0 };
  int32_t depth = df_flow_depth(g);
  df_context *here = g->current;
  df_node *stood = g->unrolled_at;
  g->unrolled_at = n;
  int32_t code = g->custom(g->custom_user, n->attrs[1].i, ny, io, nx, out, &error);
  g->unrolled_at = stood;
  if (code) {
    df_flow_abort(g, depth);
    g->current = here;
    if (!p->err->code) { *p->err = error; p->err->code = code; dfi_flow_blame(p->err, n->where); }
    p->b.failed = true;
    return false;
  }
  g->current = here;
  for (int32_t i = 0; i < nx; i++) {
    int32_t id = out[2 * i], index = out[2 * i + 1];
    if (id < 0) continue;
    if (id >= g->n || index < 0 || index >= g->node[id]->nout) {
      dfi_grad_op_error(p, n, "the custom gradient of `%s` gave no output of this graph for input %d",
                        dfi_node_name(n), i);
      return false;
    }
    df_output d = dfi_resolve(g, (df_output){ g->node[id], index }, here, p->err);
    if (!d.node) { p->b.failed = true; dfi_flow_blame(p->err, n->where); return false; }
    if (dfi_differentiable(n->in[i]) && dfi_dtype(d) != dfi_gradient_dtype(n->in[i]) && dfi_dtype(d) != DF_RESOURCE) {
      dfi_grad_op_error(p, n, "the custom gradient of `%s` for input %d is %s, but the input is %s",
                        dfi_node_name(n), i, df_dtype_name(dfi_dtype(d)), df_dtype_name(dfi_gradient_dtype(n->in[i])));
      return false;
    }
    char a[160], b[160];
    dfi_shape both;
    if (dfi_dtype(d) != DF_RESOURCE && !dfi_shape_merge(dfi_shape_at(d), dfi_gradient_shape(n->in[i]), &both)) {
      dfi_grad_op_error(p, n, "the custom gradient of `%s` for input %d is %s, but the input is %s",
                        dfi_node_name(n), i, dfi_shape_text(dfi_shape_at(d), a),
                        dfi_shape_text(dfi_gradient_shape(n->in[i]), b));
      return false;
    }
    dx[i] = d;
  }
  return true;
}

/* Does n hand its input on, so that what was gathered can pass as it is, sparse or not yet summed? */
static bool passes(const df_node *n) {
  return flow_kind(n) == DF_ENTER || flow_kind(n) == DF_SWITCH || dfi_flow_is(n, FLOW_IDENTITY) ||
         dfi_op_info_at(n->op)->op->traits & DFO_GRAD_PASSES;
}

/* For specs that check the checker: see df_op_break_gradient. */
static struct { int32_t op; double factor; } broken = { -1, 1 };
void df_op_break_gradient(int32_t op, double factor) { broken.op = op; broken.factor = factor; }
static double gradient_fault(int32_t op) { return DFI_LIKELY(op != broken.op) ? 1 : broken.factor; }

/* Multiplies the dense ones among d. Were there any? */
static bool scale(pass *p, int32_t n, df_output *d, double factor) {
  bool any = false;
  for (int32_t i = 0; i < n; i++)
    if (d[i].node && dfi_continuous(dfi_dtype(d[i]))) {
      d[i] = dfi_op(&p->b, "Mul", d[i], dfi_const_like(&p->b, d[i], factor));
      any = true;
    }
  return any;
}

df_output dfi_with_fault(pass *p, df_node *n, df_output d) {
  double factor = gradient_fault(n->op);
  if (factor != 1) scale(p, 1, &d, factor);
  return d;
}

static bool grad_node(pass *p, region *r, df_node *n) {
  const df_op *op = dfi_op_info_at(n->op)->op;
  bool any = false;
  for (int32_t i = 0; i < n->nout; i++) {
    df_output o = { n, i };
    any |= !dfi_gather_empty(dfi_gather_find(p, o)) && !dfi_is_stop(p, o);
  }
  if (!any) return true;
  dfi_part_of(p, n, n->where);
  double fault = gradient_fault(n->op);
  if (n->unstructured) return dfi_no_gradient(p, n);
  if (n->contradiction) {
    dfi_grad_op_error(p, n, "`%s` cannot be differentiated: %s", dfi_node_name(n), n->contradiction);
    return false;
  }
  if (passes(n) && fault == 1) {
    for (int32_t i = 0; i < n->nout; i++)
      if (!dfi_is_stop(p, (df_output){ n, i })) hand_on(p, r, (df_output){ n, i }, n->in[0]);
    return true;
  }
  df_output few_dy[16], few_dx[16];
  df_output *dy = n->nout <= 16 ? few_dy : dfi_pass_alloc(p, sizeof *dy * (size_t)n->nout);
  df_output *dx = n->nin <= 16 ? few_dx : dfi_pass_alloc(p, sizeof *dx * (size_t)n->nin);
  for (int32_t i = 0; i < n->nin; i++) dx[i] = DFI_NONE;
  for (int32_t i = 0; i < n->nout; i++) {
    df_output o = { n, i };
    dy[i] = dfi_is_stop(p, o) || !dfi_differentiable(o) ? DFI_NONE : dfi_gather_sum(p, r, o);
  }
  if (dfi_pass_failed(p)) return false;
  bool scaled = fault == 1 || (strncmp(op->out, "flow", 4) && scale(p, n->nout, dy, fault));
  if (op->flow == DF_CALL) { if (!dfi_grad_call(p, r, n, dy, dx)) return false; }
  else if (op->traits & DFO_OWN_GRADIENT) { if (!grad_custom(p, n, dy, dx)) return false; }
  else if (op->traits & DFO_TAPE_LOADS) { if (!dfi_grad_load(p, n, dy[0])) return false; }
  else if (!op->grad) return dfi_no_gradient(p, n);
  else {
    p->node = n;
    df_push_device(p->graph, n->device);           /* a gradient runs where its forward operation does */
    int32_t code = op->grad(p, n, dy, dx);
    df_pop_device(p->graph);
    if (code || dfi_pass_failed(p)) {
      p->b.failed = true;
      if (!p->err->code) dfi_grad_op_error(p, n, "the gradient of op %s (`%s`) could not be built", op->type,
                                           dfi_node_name(n));
      dfi_flow_blame(p->err, n->where);
      return false;
    }
  }
  if (!scaled) scale(p, n->nin, dx, fault);
  for (int32_t j = 0; j < n->nin; j++)
    if (dx[j].node && dfi_wanted(p, n->in[j]) && dfi_gradient_flows(p, n, j)) dfi_gather_gradient(p, n->in[j], dx[j]);
  return true;
}

/* ---- what gradient functions are given ------------------------------------------------------- */

dfi_build *dfg_build(dfi_grad *g) { return &g->b; }

/* What is asked for may have to be built, and attributes that are set would land on that: they are set last. */
static region *here(dfi_grad *g) {
  df_assert(!g->b.nkeys);
  return g->now;
}
df_output dfg_in(dfi_grad *g, df_node *n, int32_t i)  { return dfi_grad_value(g, here(g), n->in[i]); }
df_output dfg_out(dfi_grad *g, df_node *n, int32_t i) { return dfi_grad_value(g, here(g), (df_output){ n, i }); }
df_output dfg_in_shape(dfi_grad *g, df_node *n, int32_t i)  { return dfi_grad_shape_of(g, here(g), n->in[i]); }
df_output dfg_out_shape(dfi_grad *g, df_node *n, int32_t i) {
  return dfi_grad_shape_of(g, here(g), (df_output){ n, i });
}
bool dfg_wants(dfi_grad *g, df_node *n, int32_t i) { return dfi_wanted(g, n->in[i]) && dfi_gradient_flows(g, n, i); }

df_output dfg_in_dim(dfi_grad *g, df_node *n, int32_t i, int32_t axis) {
  const dfi_shape *s = dfi_gradient_shape(n->in[i]);
  if (s->rank >= 0 && axis < 0) axis += s->rank;
  if (s->rank > axis && axis >= 0 && s->dims[axis] >= 0) return dfi_const_int(&g->b, s->dims[axis]);
  df_output shape = dfg_in_shape(g, n, i);
  df_output at = dfi_const_int(&g->b, axis), first = dfi_const_int(&g->b, 0);
  if (axis < 0) at = dfi_op(&g->b, "Add", dfi_op(&g->b, "Size", shape), at);
  return dfi_op(&g->b, "GatherV2", shape, at, first);
}

void dfg_sparse(dfi_grad *g, int32_t i, df_output values, df_output indices) {
  if (!dfi_pass_failed(g) && dfg_wants(g, g->node, i)) dfi_gather_add(g, g->node->in[i], TERM_SPARSE, values, indices);
}

void dfg_array(dfi_grad *g, int32_t i, const char *type, int32_t n, const df_output *in) {
  if (dfi_pass_failed(g) || !dfg_wants(g, g->node, i)) return;
  df_assert(n <= 4);
  gather *a = dfi_gather_of(g, g->node->in[i]);
  array_op *c = dfi_pass_alloc(g, sizeof *c);
  *c = (array_op){ .type = type, .where = g->node->where, .n = n };
  for (int32_t k = 0; k < n; k++) c->in[k] = in[k];
  dfi_gather_append(a, c);
}

int32_t dfg_end(dfi_grad *g) { return code_of(g); }

int32_t dfg_fail(dfi_grad *g, df_node *n, const char *format, ...) {
  char text[500];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return dfi_grad_op_error(g, n, "%s (`%s`): %s", dfi_grad_op_type(n), dfi_node_name(n), text);
}

int32_t dfg_unknown(dfi_grad *g, df_node *n, int32_t from, int32_t to) {
  for (int32_t i = from; i < to; i++)
    if (dfg_wants(g, n, i))
      return dfg_fail(g, n, "its gradient by input %d (%s) is not known: df.stop_gradient of that input leaves it out",
                      i, dfi_input_arg(dfi_op_info_at(n->op), n->nin, i)->name);
  return DF_OK;
}

/* ---- the whole pass ------------------------------------------------------------------------------ */

df_output dfi_grad_array_start(pass *p, region *r, df_output o) {
  if (r->loop && dfi_flow_is_constant_enter(o.node)) {  /* the backward loop carries it */
    df_output h = r->arrays ? dfi_map_get(r->arrays, o) : DFI_NONE;
    if (h.node) return h;
    df_context *was = dfi_grad_enter(p, r->parent->backward);
    df_output init = dfi_grad_array_start(p, r->parent, o.node->in[0]), in_body = DFI_NONE;
    p->graph->current = was;
    int32_t i = dfi_pass_failed(p) ? -1 : dfi_loop_add_var(r->back, init, NULL, NULL, &in_body, p->err);
    if (i < 0) { p->b.failed = true; return DFI_NONE; }
    if (!r->arrays) { r->arrays = dfi_map_new(); r->array_var = dfi_map_new(); }
    dfi_map_put(r->arrays, o, in_body);
    dfi_map_put(r->array_var, o, (df_output){ r->back->var[i].merge, i });
    return in_body;
  }
  gather *a = dfi_gather_find(p, o);
  df_output h = dfi_gather_empty(a) ? DFI_NONE : dfi_gather_sum(p, r, o);
  if (!h.node) return dfi_pass_failed(p) ? DFI_NONE : dfi_grad_array_new(p, r, o, p->graph->current);
  a->first = NULL; a->last = &a->first; a->nterms = 0;
  a->chain = NULL; a->chain_last = &a->chain;
  a->summed = false;
  return h;
}

void dfi_grad_array_finish(pass *p, region *r, df_output o, df_output handle) {
  if (r->loop && dfi_flow_is_constant_enter(o.node)) dfi_map_put(r->arrays, o, handle);
  else dfi_gather_add(p, o, TERM_ARRAY, handle, DFI_NONE);
}

/* o, or its copy in iterations that were run again: those that r goes through. */
static df_output copy_within(const region *r, df_output o) {
  if (!r) return o;
  o = copy_within(r->parent, o);
  df_output copy = r->loop ? dfi_map_get(r->loop->replayed, o) : DFI_NONE;
  return copy.node ? copy : o;
}

/* The same for those that p, or a pass around it, is running again. */
static df_output copy_of(pass *p, df_output o) {
  if (p->outer) o = copy_of(p->outer, o);
  df_output copy = p->replay ? dfi_grad_copy(p, o) : DFI_NONE;
  return copy_within(p->now, copy.node ? copy : o);
}

static df_output forward_value(df_graph *g, df_output o) {
  for (pass *p = g->gradient; p; p = p->outer) {
    df_output v = copy_of(p, o);
    for (region *r = p->now; r && r->parent; r = r->parent)
      if (v.node->context == r->forward || (r->loop && dfi_loop_capture(r->loop, v))) return dfi_grad_value(p, r, v);
  }
  return DFI_NONE;
}

static bool check_output(pass *p, df_graph *g, int32_t id, int32_t index, const char *what, int32_t i, df_output *o) {
  if (id < 0 || id >= g->n || index < 0 || index >= g->node[id]->nout) {
    dfi_fail(p->err, DF_INVALID_ARGUMENT, p->where, "gradients: %s %d is no output of this graph", what, i + 1);
    return false;
  }
  *o = (df_output){ g->node[id], index };
  for (const df_context *c = g->current; c; c = c->parent)
    if (c == o->node->context || (c->kind == DFI_BODY && dfi_loop_capture(c->loop, *o))) return true;
  df_output here = dfi_resolve(g, *o, g->current, p->err);      /* says why not; or a value of an outer pass */
  if (!here.node) { dfi_flow_blame(p->err, p->where); return false; }
  *o = here;
  return true;
}

static bool check_float(pass *p, df_output o, const char *what) {
  char text[160];
  if (dfi_differentiable(o)) return true;
  dfi_fail(p->err, DF_INVALID_ARGUMENT, p->where,
           "gradients: %s `%s:%d`, built at %s, is %s; only float values have gradients%s", what, dfi_node_name(o.node),
           o.index, dfi_line_of(o.node), dfi_typed_shape_text(dfi_gradient_dtype(o), dfi_gradient_shape(o), text),
           dfi_is_int(dfi_gradient_dtype(o)) ? ": cast it to float32 first" : "");
  return false;
}

static bool seed(pass *p, region *root, int32_t i, df_output y, const int32_t *grad_ys) {
  df_graph *g = p->graph;
  dfi_part_of(p, y.node, y.node->where);
  df_output d;
  if (dfi_is_stop(p, y) && !(mark_of(p, y.node) & TARGET)) return true;  /* a constant, for this call */
  if (grad_ys && grad_ys[2 * i] >= 0) {
    char a[160], b[160];
    dfi_shape both;
    if (!check_output(p, g, grad_ys[2 * i], grad_ys[2 * i + 1], "grad_ys", i, &d)) return false;
    if (dfi_dtype(d) != dfi_dtype(y) || !dfi_shape_merge(dfi_shape_at(d), dfi_shape_at(y), &both)) {
      dfi_fail(p->err, DF_INVALID_ARGUMENT, p->where, "gradients: grad_ys %d is %s, but its y is %s", i + 1,
               dfi_typed_shape_text(dfi_dtype(d), dfi_shape_at(d), a),
               dfi_typed_shape_text(dfi_dtype(y), dfi_shape_at(y), b));
      return false;
    }
  } else d = dfi_grad_full(p, root, y, 1, root->backward);
  if (dfi_pass_failed(p)) return false;
  dfi_gather_gradient(p, y, d);
  return true;
}

static bool give(pass *p, region *root, int32_t ny, const df_output *ys, df_output x, int32_t i, int32_t nx,
                 int32_t unconnected, int32_t *out) {
  df_output values, indices;
  gather *a = dfi_gather_find(p, x);
  for (int32_t k = 0; k < 6; k++) out[k] = k % 2 ? 0 : -1;
  dfi_part_of(p, x.node, x.node->where);
  if (dfi_gather_empty(a)) {
    if (unconnected == 2) return true;
    if (unconnected == 1) {
      df_output zero = dfi_grad_full(p, root, x, 0, root->backward);
      if (dfi_pass_failed(p)) return false;
      out[0] = zero.node->id; out[1] = zero.index;
      return true;
    }
    char why[700], which[16] = "";
    if (nx > 1) snprintf(which, sizeof which, " %d", i + 1);
    dfi_why_unconnected(p, ny, ys, x, why, sizeof why);
    dfi_fail(p->err, DF_INVALID_ARGUMENT, p->where,
             "gradients: y (`%s`, built at %s) does not depend on x%s (`%s`, built at %s): %s; "
             "unconnected = 'zero' or 'none' would allow it",
             dfi_node_name(ys[0].node), dfi_line_of(ys[0].node), which, dfi_node_name(x.node), dfi_line_of(x.node),
             why);
    return false;
  }
  if (dfi_gather_sparse(p, x, &values, &indices)) {
    df_output shape = dfi_grad_shape_of(p, root, x);
    if (dfi_pass_failed(p)) return false;
    out[0] = values.node->id; out[1] = values.index;
    out[2] = indices.node->id; out[3] = indices.index;
    out[4] = shape.node->id; out[5] = shape.index;
    return true;
  }
  df_output sum = dfi_gather_sum(p, root, x);
  if (dfi_pass_failed(p)) return false;
  out[0] = sum.node->id; out[1] = sum.index;
  return true;
}

static bool run_pass(pass *p, int32_t ny, const int32_t *ys, const int32_t *grad_ys, int32_t nx, const int32_t *xs,
                     int32_t nstop, const int32_t *stops, int32_t unconnected, int32_t *out) {
  df_graph *g = p->graph;
  df_output *y = dfi_pass_alloc(p, sizeof *y * (size_t)(ny + 1)), *x = dfi_pass_alloc(p, sizeof *x * (size_t)(nx + 1));
  df_output stop;
  char what[32];
  for (int32_t i = 0; i < ny; i++) {
    snprintf(what, sizeof what, "y %d", i + 1);
    if (!check_output(p, g, ys[2 * i], ys[2 * i + 1], "y", i, &y[i]) || !check_float(p, y[i], ny == 1 ? "y" : what))
      return false;
    if (dfi_dtype(y[i]) == DF_RESOURCE && (!grad_ys || grad_ys[2 * i] < 0)) {
      dfi_fail(p->err, DF_INVALID_ARGUMENT, p->where, "gradients: %s `%s` is a handle: read it first", what,
               dfi_node_name(y[i].node));
      return false;
    }
  }
  for (int32_t i = 0; i < nx; i++) {
    snprintf(what, sizeof what, "x %d", i + 1);
    if (!check_output(p, g, xs[2 * i], xs[2 * i + 1], "x", i, &x[i]) || !check_float(p, x[i], nx == 1 ? "x" : what))
      return false;
  }
  for (int32_t i = 0; i < nstop; i++) {
    if (!check_output(p, g, stops[2 * i], stops[2 * i + 1], "stop_gradients", i, &stop)) return false;
    if (!p->stops) p->stops = dfi_map_new();
    dfi_map_put(p->stops, stop, stop);
  }
  dfi_marks_begin(p, 0, ny, y, nx, x);
  region root = { .forward = g->current, .backward = g->current };
  p->now = &root;
  bool ok = true;
  for (int32_t i = 0; i < ny && ok; i++) ok = seed(p, &root, i, y[i], grad_ys);
  p->now = &root;
  ok = ok && dfi_backprop(p, &root, ny, y);
  p->now = &root;
  for (int32_t i = 0; i < nx && ok; i++) ok = give(p, &root, ny, y, x[i], i, nx, unconnected, out + 6 * i);
  dfi_map_free(root.memo); dfi_map_free(root.shapes);
  return ok;
}

int32_t df_gradients(df_graph *g, int32_t ny, const int32_t *ys, const int32_t *grad_ys, int32_t nx, const int32_t *xs,
                     int32_t nstop, const int32_t *stops, int32_t unconnected, const char *where, int32_t *out,
                     df_error *err) {
  pass p = { .graph = g, .err = err, .where = where ? where : "", .called_in = g->current, .outer = g->gradient };
  p.interrupts = atomic_load(&dfi_calls_interrupted);
  if (!err) p.err = &p.own_error;
  memset(p.err, 0, sizeof *p.err);
  if (ny < 1) return dfi_fail(p.err, DF_INVALID_ARGUMENT, where, "gradients: there is no y");
  dfi_building(g, "df_gradients");
  dfi_build_init(&p.b, g, p.where, p.err);
  const int32_t mark = df_graph_mark(g);
  df_context *current = g->current;
  const int32_t outer_of = g->gradient_of;
  df_push_scope(g, "gradients");
  if (!p.outer) g->ngradients++;
  g->gradient = &p;
  g->gradient_of = 0;
  g->foreign = forward_value;
  bool ok = run_pass(&p, ny, ys, grad_ys, nx, xs, nstop, stops, unconnected, out);
  g->gradient = p.outer;
  g->gradient_of = outer_of;
  dfi_pass_end(&p);
  ok = ok && !dfi_check_memory(DF_OK, p.err, where, "gradients");
  if (ok) {
    g->current = current;
    df_pop_scope(g);
    df_graph_keep(g, mark);
    dfi_built(g);
    return DF_OK;
  }
  if (!p.err->code) dfi_fail(p.err, DF_INTERNAL, where, "gradients: the pass failed without saying why");
  if (!p.err->source[0]) dfi_flow_blame(p.err, where);
  const int32_t code = p.err->code;
  df_graph_undo(g, mark);
  dfi_built(g);
  return code;
}
