/* function_grad.c: the gradient of a call of a graph function is a call of another.
 *
 *   y…, tape = f(x…)         dx… = f_gradient(tape, dy…)
 *
 * f_gradient undoes f's body as any region is undone; what it needs of f's values the call of f has kept in its tape,
 * from within its own frame (value.c). The tape of a call in f's body is such a value itself, and its gradient is a
 * call of f_gradient, of whose building nothing but its arguments and results need be known by then. So a recursion is
 * undone by a recursion, in reverse.
 *
 * There is one such function for each set of results that have a gradient and of arguments that want one. What f took
 * from outside are arguments too, so the gradients of variables and captured values are results like the others.
 *
 * f_gradient is a function like any other, and its tape an argument like any other, whose gradient is a tape: what came
 * to the values that f_gradient took from f, by slot. It reaches the call of f as a gradient of that call's tape, and
 * is one more argument of the function that undoes f then: the values that f has kept begin with what lies in it.
 *
 *   dx… = f_gradient(tape, dy…)            dtape, ddy… = f_gradient_gradient(tape of that call, ddx…)
 *   y…, tape = f(x…)                       dx…         = f_gradient'(tape, dy…, dtape)
 */
#include "gradient/gradient.h"
#include <stdio.h>

/* The i-th value that f keeps, and its FunctionSave, where some gradient came to it: see dfi_grad_load. */
static bool graded(const dfi_function *f, int32_t i, df_output *v) {
  df_output save;
  dfi_map_at(f->saved, i, v, &save);
  return save.node->attrs[2].i;
}

/* 1 for each of n outputs (then n inputs) that takes part; owned. Where the call's tape has a gradient a T follows, and
   how many of the values in it may have one: what is built later may give more of them one. */
static char *key_of(pass *p, const dfi_function *f, df_node *n, const df_output *dy) {
  const int32_t all = f->nresults + n->nin;
  char *key = dfi_xcalloc((size_t)all + 16, 1);
  for (int32_t i = 0; i < f->nresults; i++) key[i] = dy[i].node ? '1' : '0';
  for (int32_t i = 0; i < n->nin; i++)
    key[f->nresults + i] = dfi_wanted(p, n->in[i]) && dfi_gradient_flows(p, n, i) ? '1' : '0';
  if (!dy[f->nresults].node) return key;
  int32_t count = 0;
  df_output v;
  for (int32_t i = 0; i < dfi_map_count(f->saved); i++) count += graded(f, i, &v);
  snprintf(key + all, 16, "T%d", count);
  return key;
}
static bool of_tape(const char *key) { return strchr(key, 'T') != NULL; }

static df_output argument(const dfi_function *f, int32_t i) { return (df_output){ f->arg[i], 0 }; }

/* Is argument i of f, which undoes another function then, a tape? No other call gives a handle as an argument. */
static bool is_tape(const dfi_function *f, int32_t i) {
  return i < f->nknown && dfi_dtype(argument(f, i)) == DF_RESOURCE;
}

/* Has argument i a gradient that a call can return: a tensor's, a tape's, or a variable's, which is dense? */
static bool returns(const dfi_function *f, const char *key, int32_t i) {
  if (key[f->nresults + i] != '1') return false;
  if (is_tape(f, i)) return true;
  return dfi_continuous(dfi_gradient_dtype(argument(f, i))) &&
         (dfi_dtype(argument(f, i)) != DF_RESOURCE || dfi_grad_is_variable(argument(f, i)));
}

df_output dfi_load_slot(pass *p, const dfi_function *f, df_output v, int64_t slot, df_output tape) {
  dfi_attr_string(&p->b, "function", f->name);
  dfi_attr_int(&p->b, "slot", slot);
  dfi_attr_int(&p->b, "dtype", dfi_dtype(v));
  df_output load = dfi_op(&p->b, "FunctionLoad", tape);
  if (load.node) {
    load.node->out[0].shape = *dfi_shape_at(v);
    load.node->out[0].of = v.node->out[v.index].of;
  }
  return load;
}

/* The gradient of a value that a call kept goes into the gradient of its tape. */
bool dfi_grad_load(pass *p, df_node *n, df_output dy) {
  const df_node *save = dfi_function_save(p->graph, n->attrs[0].s, n->attrs[1].i);
  gather *a = dfi_gather_of(p, n->in[0]);
  if (!save || !a) return dfi_no_gradient(p, n);
  if (!dy.node) return true;
  save->attrs[2].i = 1;
  array_op *c = dfi_pass_alloc(p, sizeof *c);
  *c = (array_op){ .type = "FunctionAdd", .where = n->where, .like = n, .n = 1, .in = { dy } };
  dfi_gather_append(a, c);
  return true;
}

/* The values of f's body that begin with a gradient: the results of key, and of a tape's gradient what may lie in it.
   Their number; with `gathers` their gradients are gathered. */
static int32_t begin_with(pass *p, const dfi_function *f, const dfi_function *back, const char *key, df_output *y,
                          bool gathers) {
  int32_t n = 0, k = 1;
  df_output v;
  for (int32_t i = 0; i < f->nresults; i++) {
    if (key[i] != '1') continue;
    if (gathers) dfi_gather_gradient(p, f->ret->in[i], argument(back, k));
    k++;
    y[n++] = f->ret->in[i];
  }
  for (int32_t i = 0; of_tape(key) && i < dfi_map_count(f->saved); i++) {
    if (!graded(f, i, &v) || !dfi_differentiable(v)) continue;
    if (gathers) dfi_gather_gradient(p, v, dfi_load_slot(p, f, v, i, argument(back, k)));
    y[n++] = v;
  }
  return n;
}

/* A handle of anything but a variable whose gradient is gathered: a TensorArray, or a tape where this is a gradient
   already. */
static bool refuse(pass *p, const dfi_function *f, int32_t i) {
  const df_output x = argument(f, i);
  if (dfi_gather_empty(dfi_gather_find(p, x))) return true;
  dfi_grad_op_error(p, NULL,
                    "a gradient through the function `%s`, built at %s, reaches a TensorArray (argument %d): stack it "
                    "first and give the function the tensor",
                    f->name, *f->where ? f->where : "a line not known", i + 1);
  return false;
}

/* The body of the gradient of f: between its arguments tape, dy… and its results dx…, in the context that is current.
   */
static bool undo(pass *p, dfi_function *f, const dfi_function *back, const char *key) {
  df_graph *g = p->graph;
  df_output *y = dfi_pass_alloc(p, sizeof *y * (size_t)(f->nresults + dfi_map_count(f->saved) + 1)),
            *x = dfi_pass_alloc(p, sizeof *x * (size_t)(f->n + 1));
  df_output *dx = dfi_pass_alloc(p, sizeof *dx * (size_t)(f->n + 1));
  int32_t nx = 0, n = 0;
  const int32_t ny = begin_with(p, f, back, key, y, false);
  for (int32_t i = 0; i < f->n; i++) if (key[f->nresults + i] == '1') x[nx++] = argument(f, i);
  dfi_marks_begin(p, 0, ny, y, nx, x);
  region top = { .forward = g->top, .backward = g->top };
  region r = { .parent = &top, .function = f, .forward = f->body, .backward = g->current, .tape = argument(back, 0) };
  p->now = &r;
  begin_with(p, f, back, key, y, true);
  bool ok = dfi_backprop(p, &r, ny, y);
  for (int32_t i = 0; i < f->n && ok; i++) {
    if (key[f->nresults + i] != '1') continue;
    if (!returns(f, key, i)) { ok = refuse(p, f, i); continue; }
    df_context *was = dfi_grad_enter(p, r.backward);
    p->now = &r;
    dx[n] = dfi_gather_sum(p, &r, argument(f, i));
    if (!dx[n].node && !dfi_pass_failed(p))
      dx[n] = is_tape(f, i) ? dfi_grad_array_new(p, &r, argument(f, i), r.backward)
                            : dfi_grad_full(p, &r, argument(f, i), 0, r.backward);
    p->graph->current = was;
    ok = dx[n++].node && !dfi_pass_failed(p);
  }
  ok = ok && !dfi_function_end(g, n, dx, p->err);
  dfi_region_free(&r);
  dfi_region_free(&top);
  return ok;
}

/* The arguments and results of the gradient: what is known before it is built. */
static dfi_function *begin(pass *p, dfi_function *f, const char *key) {
  dfi_out *args = dfi_pass_alloc(p, sizeof *args * (size_t)(f->nresults + 3));
  uint8_t *results = dfi_pass_alloc(p, (size_t)f->n + 1);
  int32_t n = 0, nresults = 0;
  args[n++] = (dfi_out){ .dtype = DF_RESOURCE, .shape = dfi_shape_scalar() };
  for (int32_t i = 0; i < f->nresults; i++) {
    if (key[i] != '1') continue;
    const df_output y = f->ret->in[i];
    args[n++] = (dfi_out){ .dtype = dfi_dtype(y), .shape = *dfi_shape_at(y) };
  }
  if (of_tape(key)) args[n++] = (dfi_out){ .dtype = DF_RESOURCE, .shape = dfi_shape_scalar() };
  for (int32_t i = 0; i < f->n; i++)
    if (returns(f, key, i)) results[nresults++] = is_tape(f, i) ? DF_RESOURCE : dfi_gradient_dtype(argument(f, i));
  const char *slash = strrchr(f->name, '/');
  char name[200];
  snprintf(name, sizeof name, "%.180s_gradient", slash && slash[1] ? slash + 1 : f->name);
  dfi_function *b = dfi_function_begin(p->graph, name, n, args, nresults, results, f->where, p->err);
  if (b && dfi_function_is_batched(f->begin) && !dfi_function_batch(b, p->err)) return NULL;
  return b;
}

/* The gradient of f of that key, found or built. */
static dfi_function *backward_of(pass *p, dfi_function *f, const char *key) {
  for (int32_t i = 0; i < f->nbackward; i++) if (!strcmp(f->backward[i].key, key)) return f->backward[i].function;
  df_graph *g = p->graph;
  pass own = { .graph = g, .err = p->err, .where = p->where, .called_in = f->body, .outer = p,
               .interrupts = p->interrupts };
  dfi_build_init(&own.b, g, f->where, p->err);
  const int32_t depth = df_flow_depth(g);
  df_context *current = g->current;
  dfi_function *b = begin(&own, f, key);
  if (b) {
    f->backward = dfi_xrealloc(f->backward, sizeof *f->backward * (size_t)(f->nbackward + 1));
    f->backward[f->nbackward++] = (dfi_backward){ b, dfi_xstrdup(key) };
    g->gradient = &own;
    if (!undo(&own, f, b, key)) {
      df_flow_abort(g, depth);
      for (int32_t i = 0; i < f->nbackward; i++)         /* it is no function */
        if (f->backward[i].function == b) {
          dfi_free(f->backward[i].key);
          f->backward[i] = f->backward[--f->nbackward];
          break;
        }
      b = NULL;
    }
    g->gradient = p;
  }
  g->current = current;
  dfi_pass_end(&own);
  if (!b && !p->err->code) dfi_grad_op_error(p, NULL, "the gradient of the function `%s` could not be built", f->name);
  if (!b) p->b.failed = true;
  return b;
}

bool dfi_grad_call(pass *p, region *r, df_node *n, const df_output *dy, df_output *dx) {
  dfi_function *f = dfi_flow_function_find(p->graph, n->attrs[0].s);
  if (!f || !f->ret) return dfi_no_gradient(p, n);
  bool any = false;
  for (int32_t i = 0; i <= f->nresults; i++) any |= dy[i].node != NULL;
  if (!any) return true;
  char *key = key_of(p, f, n, dy);
  dfi_function *b = backward_of(p, f, key);
  bool ok = b != NULL;
  if (ok) {
    df_output *in = dfi_pass_alloc(p, sizeof *in * (size_t)(f->nresults + 3));
    int32_t nin = 1, k = 0;
    p->graph->current = r->backward;
    in[0] = dfi_grad_value(p, r, (df_output){ n, f->nresults });
    for (int32_t i = 0; i <= f->nresults; i++) if (dy[i].node) in[nin++] = dy[i];
    df_node *call = dfi_pass_failed(p) ? NULL : dfi_function_call(b, nin, in, NULL, n->where, p->err);
    ok = call != NULL;
    for (int32_t i = 0; i < n->nin && ok; i++) {
      if (!returns(f, key, i)) continue;
      dx[i] = (df_output){ call, k++ };
      call->out[dx[i].index].shape = *dfi_gradient_shape(n->in[i]);
    }
    if (!ok) p->b.failed = true;
  }
  dfi_free(key);
  return ok;
}
