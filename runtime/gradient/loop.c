/* loop.c: the gradient of a while_loop is a while_loop.
 *
 *   n, g… = N, gradients of the exits
 *   while n > 0:
 *     i    = n - 1                                        the forward iteration that is undone
 *     g…   = backprop of the body of iteration i from g…
 *     a…   = a… + what backprop gives for the loop constants
 *     n    = i
 *   gradients of the initial values = g…, of the captured values = a…
 *
 * N is the forward loop's trip counter, so a loop of no trips hands its gradients through. The backward loop is built
 * with the functions that build any loop, and is differentiated like any loop, but that its iterations are known by the
 * forward iteration they undo: what undoes them counts up again, and needs no counter but N.
 */
#include "gradient/gradient.h"

static bool is_active(pass *p, const dfi_loop_var *v) {
  return v->exit && v->next && mark_of(p, v->merge) & DEPENDS && dfi_differentiable((df_output){ v->merge, 0 });
}

static bool is_array(df_output o) { return dfi_dtype(o) == DF_RESOURCE; }

df_output dfi_grad_zeros(pass *p, region *r, df_output v) {
  return is_array(v) ? dfi_grad_array_new(p, r, v, r->backward) : dfi_grad_full(p, r, v, 0, r->backward);
}

/* That of the forward loop, without the scope of its own pass. */
static const char *loop_name(const df_loop *l) {
  const char *slash = strrchr(l->name, '/');
  return slash && slash[1] ? slash + 1 : l->name;
}

int32_t dfi_sum_add(pass *p, region *b, df_output init, df_output *in_body) {
  int32_t i = dfi_pass_failed(p) || !init.node ? -1 : dfi_loop_add_var(b->back, init, NULL, NULL, in_body, p->err);
  if (i < 0) p->b.failed = true;
  return i;
}

df_output dfi_sum_close(pass *p, region *b, int32_t var, df_output next) {
  df_output exit;
  if (dfi_pass_failed(p) || !next.node || dfi_loop_close_var(b->back, var, next, &exit, p->err)) {
    p->b.failed = true;
    return DFI_NONE;
  }
  return exit;
}

/* A sparse gradient of a loop constant: an array of rows and one of their indices, joined after the loop. */
static df_output sparse_array(pass *p, region *r, region *b, df_output rows, const dfi_shape *shape, df_output *stack) {
  dfi_build *d = &p->b;
  df_context *was = dfi_grad_enter(p, r->backward);
  df_output zero = dfi_const_int(d, 0), in_body = DFI_NONE;
  dfi_attr_int(d, "dtype", dfi_dtype(rows));
  dfi_attr_int(d, "dynamic_size", 1);
  dfi_attr_shape(d, "element_shape", shape);
  df_output init = dfi_op(d, "TensorArray", zero);
  int32_t var = dfi_sum_add(p, b, init, &in_body);
  p->graph->current = b->backward;
  df_output h = dfi_pass_failed(p) ? DFI_NONE : dfi_op(d, "TensorArrayWrite", in_body, b->index, rows);
  df_output exit = dfi_sum_close(p, b, var, h);
  p->graph->current = was;
  *stack = exit;
  return exit;
}

bool dfi_sum_sparse(pass *p, region *r, region *b, df_output inner, df_output outer, df_output values,
                    df_output indices) {
  dfi_shape row = *dfi_gradient_shape(inner), any = *dfi_shape_at(values);
  if (row.rank > 0) row.dims[0] = -1;
  else if (any.rank > 0) { row = any; row.dims[0] = -1; }
  dfi_shape vector = dfi_shape_vector(-1);
  df_output v, i;
  sparse_array(p, r, b, values, &row, &v);
  sparse_array(p, r, b, indices, &vector, &i);
  if (dfi_pass_failed(p)) return false;
  dfi_attr_int(&p->b, "dtype", dfi_dtype(values));
  dfi_attr_shape(&p->b, "element_shape", &row);
  df_output all_values = dfi_op(&p->b, "TensorArrayConcat", v);
  dfi_attr_int(&p->b, "dtype", dfi_dtype(indices));
  dfi_attr_shape(&p->b, "element_shape", &vector);
  df_output all_indices = dfi_op(&p->b, "TensorArrayConcat", i);
  if (dfi_pass_failed(p)) return false;
  dfi_gather_add(p, outer, TERM_SPARSE, all_values, all_indices);
  return true;
}

/* What backprop gathered at one loop constant, summed over the iterations. r: around the loop; b: the body. */
static bool sum_constant(pass *p, region *r, region *b, df_node *enter) {
  df_output inner = { enter, 0 }, outer = enter->in[0], values, indices, in_body = DFI_NONE;
  gather *a = dfi_gather_find(p, inner);
  df_output threaded = b->arrays ? dfi_map_get(b->arrays, inner) : DFI_NONE;
  if (dfi_gather_empty(a) && !threaded.node) return true;
  dfi_part_of(p, enter->in[0].node, enter->in[0].node->where);
  bool array = threaded.node || a->chain;
  for (term *t = a ? a->first : NULL; t; t = t->next) array |= t->kind == TERM_ARRAY;
  if (array) {
    p->graph->current = b->backward;
    df_output h = threaded.node ? threaded : dfi_grad_array_start(p, b, inner);
    h = dfi_gather_join(p, h, a);
    df_output where = b->array_var && !dfi_pass_failed(p) ? dfi_map_get(b->array_var, inner) : DFI_NONE;
    df_output exit = where.node ? dfi_sum_close(p, b, where.index, h) : DFI_NONE;
    p->graph->current = r->backward;
    if (dfi_pass_failed(p)) return false;
    dfi_grad_array_finish(p, r, outer, exit);
    return true;
  }
  p->graph->current = b->backward;
  if (dfi_gather_sparse(p, inner, &values, &indices)) {
    p->graph->current = r->backward;
    return !dfi_pass_failed(p) && dfi_sum_sparse(p, r, b, inner, outer, values, indices);
  }
  df_output sum = dfi_gather_sum(p, b, inner);
  p->graph->current = r->backward;
  df_output first = dfi_pass_failed(p) ? DFI_NONE : dfi_sum_running(p, r, outer);
  if (!first.node && !dfi_pass_failed(p)) first = dfi_grad_full(p, r, outer, 0, r->backward);
  int32_t var = dfi_sum_add(p, b, first, &in_body);
  p->graph->current = b->backward;
  df_output next = DFI_NONE;
  if (dfi_pass_failed(p)) return false;
  if (b->loop->once) next = dfi_op(&p->b, "Identity", sum);       /* zeros that wait for it would only take memory */
  else next = dfi_op(&p->b, dfi_dtype(sum) == DF_VARIANT ? "AddN" : "Add", in_body, sum);
  if (next.node) dfi_shape_merge(dfi_shape_at(next), dfi_shape_at(in_body), &next.node->out[0].shape);
  df_output exit = dfi_sum_close(p, b, var, next);
  p->graph->current = r->backward;
  if (dfi_pass_failed(p)) return false;
  dfi_gather_gradient(p, outer, exit);
  return true;
}

/* The body of the backward loop: from the gradients of the results to those of the variables. */
static bool undo_body(pass *p, region *b, int32_t n, carried *c) {
  df_output *seeds = dfi_pass_alloc(p, sizeof *seeds * (size_t)(n + 1));
  for (int32_t i = 0; i < n; i++) {
    seeds[i] = b->loop->var[c[i].index].result;
    dfi_gather_gradient(p, seeds[i], c[i].in_body);
  }
  if (!dfi_backprop(p, b, n, seeds)) return false;
  p->graph->current = b->backward;
  for (int32_t i = 0; i < n; i++) {
    df_output in = { b->loop->var[c[i].index].swtch, 1 };
    dfi_part_of(p, in.node, in.node->where);
    df_output d = dfi_gather_sum(p, b, in);
    c[i].next = d.node || dfi_pass_failed(p) ? d : dfi_grad_zeros(p, b, in);
    if (dfi_pass_failed(p)) return false;
  }
  return true;
}

static bool sum_constants(pass *p, region *r, region *b) {
  df_loop *l = b->loop;
  for (int32_t i = 0; i < dfi_map_count(l->captures); i++) {
    df_output key, in;
    dfi_map_at(l->captures, i, &key, &in);
    if (!in.node || !dfi_flow_is_constant_enter(in.node) || !(mark_of(p, in.node) & DEPENDS)) continue;
    if (!sum_constant(p, r, b, in.node)) return false;
  }
  return true;
}

bool dfi_backward_begin(pass *p, region *r, region *b, int32_t n, carried *c, const backward *how, int32_t *vars) {
  df_graph *g = p->graph;
  df_loop *l = b->loop;
  int32_t *init = dfi_pass_alloc(p, sizeof *init * 2 * (size_t)(n + 1));
  df_output first = how->up ? dfi_const_int(&p->b, 0) : how->trips;
  if (!first.node) return false;
  init[0] = first.node->id; init[1] = first.index;
  for (int32_t i = 0; i < n; i++) {
    df_output exit = { l->var[c[i].index].exit, 0 }, d = dfi_gather_sum(p, r, exit);
    d = d.node ? dfi_with_fault(p, exit.node, d) : d;
    if (!d.node && !dfi_pass_failed(p)) d = dfi_grad_zeros(p, r, exit);
    if (dfi_pass_failed(p)) return false;
    init[2 * i + 2] = d.node->id; init[2 * i + 3] = d.index;
    dfi_shape wide;  /* the variable's shape may differ from one iteration to the next */
    dfi_shape_relax(dfi_shape_at(d), dfi_shape_at((df_output){ l->var[c[i].index].merge, 0 }), &wide);
    if (!is_array(d)) df_while_invariant(g, i + 1, wide.rank, wide.dims);
  }
  if (df_while_begin(g, n + 1, init, how->parallel_iterations, -1, true, how->save, loop_name(l), l->where, vars,
                     p->err))
    return false;
  b->back = dfi_flow_top(g)->loop;
  b->back->gradient_of = l;
  dfi_part_of(p, l->loop_cond, l->where);
  df_output n0 = { g->node[vars[0]], vars[1] };
  df_output more =
      how->up ? dfi_op(&p->b, "Less", n0, how->trips) : dfi_op(&p->b, "Greater", n0, dfi_const_int(&p->b, 0));
  if (dfi_pass_failed(p) || df_while_pred_end(g, more.node->id, more.index, vars, p->err)) return false;
  b->backward = g->current;
  n0 = (df_output){ g->node[vars[0]], vars[1] };
  b->index = how->up ? n0 : dfi_op(&p->b, "Sub", n0, dfi_const_int(&p->b, 1));
  b->next = how->up ? dfi_op(&p->b, "Add", n0, dfi_const_int(&p->b, 1)) : b->index;
  if (how->up) b->back->trip_var = 0; else b->back->down = b->index;
  for (int32_t i = 0; i < n; i++) c[i].in_body = (df_output){ g->node[vars[2 * i + 2]], vars[2 * i + 3] };
  return !dfi_pass_failed(p);
}

bool dfi_backward_end(pass *p, region *b, int32_t n, const carried *c, int32_t *vars) {
  df_graph *g = p->graph;
  const df_loop *l = b->loop;
  vars[0] = b->next.node->id; vars[1] = b->next.index;
  for (int32_t i = 0; i < n; i++) { vars[2 * i + 2] = c[i].next.node->id; vars[2 * i + 3] = c[i].next.index; }
  g->current = b->backward;
  if (df_while_end(g, n + 1, vars, vars, p->err)) return false;
  b->back->once = l->once;
  for (int32_t i = 0; i < n; i++) {
    df_output from = l->var[c[i].index].enter->in[0];
    if (dfi_wanted(p, from)) dfi_gather_gradient(p, from, (df_output){ g->node[vars[2 * i + 2]], vars[2 * i + 3] });
  }
  return !dfi_pass_failed(p);
}

static bool build(pass *p, region *r, region *b, int32_t n, carried *c) {
  df_graph *g = p->graph;
  df_loop *l = b->loop;
  backward how = { .up = l->down.node != NULL, .parallel_iterations = l->parallel_iterations, .save = l->save };
  dfi_part_of(p, l->loop_cond, l->where);
  if (how.up) how.trips = l->var[0].enter->in[0];
  else {
    void *controls = dfi_controls_suspend(g);
    int32_t code = dfi_loop_trips(l, NULL, &how.trips, p->err);
    dfi_controls_resume(g, controls);
    if (code) return false;
  }
  how.trips = dfi_grad_value(p, r, how.trips);
  int32_t *vars = dfi_pass_alloc(p, sizeof *vars * 2 * (size_t)(n + 1));
  return !dfi_pass_failed(p) && dfi_backward_begin(p, r, b, n, c, &how, vars) && undo_body(p, b, n, c) &&
         sum_constants(p, r, b) && dfi_backward_end(p, b, n, c, vars);
}

bool dfi_grad_while(pass *p, region *r, df_loop *l) {
  bool any = false;
  int32_t n = 0, forward = l->n;                        /* what is saved becomes variables beyond these */
  carried *c = dfi_pass_alloc(p, sizeof *c * (size_t)(forward + 1));
  for (int32_t i = 0; i < forward; i++) {
    if (!is_active(p, &l->var[i])) continue;
    c[n++] = (carried){ .index = i };
    any |= !dfi_gather_empty(dfi_gather_find(p, (df_output){ l->var[i].exit, 0 }));
  }
  if (!any) return true;
  region b = { .parent = r, .loop = l, .forward = l->body, .begun = dfi_map_new(), .returned = dfi_map_new() };
  for (int32_t i = 0; i < forward; i++) {
    dfi_loop_var *v = &l->var[i];
    if (!v->next || !v->exit || dfi_dtype(v->result) == DF_RESOURCE) continue;
    dfi_map_put(b.begun, (df_output){ v->swtch, 1 }, (df_output){ v->merge, i });
    dfi_map_put(b.returned, v->result, (df_output){ v->merge, i });
  }
  bool ok = !strcmp(l->save, "recompute") && !l->down.node ? dfi_grad_replayed(p, r, &b, n, c) : build(p, r, &b, n, c);
  if (!ok) p->b.failed = true;
  dfi_region_free(&b);
  return ok;
}
