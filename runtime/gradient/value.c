/* value.c: forward values, where the gradient is built.
 *
 * At the root a forward value is itself. In a backward loop or cond it is, in this order:
 *   a constant, a loop constant, a value from outside          taken from there
 *   a counter (a loop variable that grows by a loop constant)  computed from the iteration's number
 *   cheap and made of such values, of values saved already,
 *   or of one loop variable, which is then saved               computed again
 *   what the body returns as a loop variable                   carried: what the iteration undone before began with,
 *                                                              in the first of all what the loop gave
 *   anything else                                              saved: written to a TensorArray by the forward
 *                                                              iteration, read by the backward one; of a function
 *                                                              to the call's tape
 * The array is one more variable of the forward loop, written at the trip counter in the value's own context and handed
 * out through the conds around it. Its handle after the loop is a forward value like any other, so in a loop within a
 * loop the arrays are saved in an array. A branch in no loop hands out the value itself, the other one a zero; handles
 * and strings it saves in an array of one location. What a loop or cond saves is remembered with it: no value is saved
 * twice, however many gradients ask.
 */
#include "gradient/gradient.h"

static df_tensor *constant_of(df_output o) { return o.node->out[o.index].constant; }

/* Is v, a value of r's own, a constant to be made anew? A number that is made of an outer constant is not: that may be
   an x. */
static bool is_constant(const region *r, df_output v) {
  if (!constant_of(v)) return false;
  return !dfi_differentiable(v) ||
         (v.node->context == r->forward && dfi_op_info_at(v.node->op)->op->flow == DF_CONSTANT);
}

/* The VarHandleOp's, through captures; DFI_NONE: no variable's. */
static df_output variable_handle(df_output o) {
  while (dfi_flow_is_constant_enter(o.node) || dfi_flow_is(o.node, FLOW_IDENTITY) ||
         (flow_is_switch(o.node) && o.node->context->kind == DFI_BRANCH))
    o = o.node->in[0];
  const df_output outer = dfi_flow_captured(o);         /* a function's argument */
  if (outer.node) return variable_handle(outer);
  return dfi_is_variable(o.node) && dfi_dtype(o) == DF_RESOURCE ? o : DFI_NONE;
}

bool dfi_grad_is_variable(df_output o) { return dfi_dtype(o) == DF_RESOURCE && variable_handle(o).node; }

const dfi_shape *dfi_gradient_shape(df_output o) { return dfi_shape_at(o); }

/* Where v comes from when it is no value of the region's own: the output outside. DFI_NONE: it is its own. */
static df_output outside(const region *r, df_output v) {
  df_node *n = v.node;
  if (r->loop && dfi_loop_capture(r->loop, v)) return n->in[0];
  if (n->context != r->forward) return v;
  if (r->cond && flow_is_switch(n)) return n->in[0];
  const df_output outer = r->function ? dfi_flow_captured(v) : DFI_NONE;
  return outer.node && outer.node->context->kind == DFI_TOP ? outer : DFI_NONE;
}

/* Is v the iteration that a backward loop undoes, or its counter, one more? */
static bool counts_down(const region *r, df_output v, bool *one_more) {
  if (!r->loop || !r->loop->down.node) return false;
  *one_more = v.node == r->loop->var[0].swtch && v.index == 1;
  return *one_more || dfi_same(v, r->loop->down);
}

static dfi_loop_var *loop_var_of(const region *r, df_output v) {
  df_output at = r->loop ? dfi_map_get(r->begun, v) : DFI_NONE;
  return at.node ? &r->loop->var[at.index] : NULL;
}

/* Is v a scalar whole number that grows by a loop constant? Then *step is that, and *down says whether it shrinks. */
static bool is_counter(const region *r, df_output v, dfi_loop_var **var, df_output *step, bool *down) {
  uint8_t t = dfi_dtype(v);
  if ((t != DF_INT32 && t != DF_INT64) || dfi_shape_at(v)->rank != 0 || !(*var = loop_var_of(r, v)) || !(*var)->next)
    return false;
  df_node *add = (*var)->result.node;
  const bool sub = dfi_has_trait(add, DFO_SUBTRACTS);
  if ((!sub && !dfi_has_trait(add, DFO_ADDS)) || add->nin != 2) return false;
  for (int32_t i = 0; i < (sub ? 1 : 2); i++) {
    df_output c = add->in[1 - i];
    if (!dfi_same(add->in[i], v) || dfi_shape_at(c)->rank != 0) continue;
    if (!constant_of(c) && !dfi_loop_capture(r->loop, c)) continue;
    *step = c;
    *down = sub;
    return true;
  }
  return false;
}

/* What an array's locations hold is never taken out again. */
static bool stays(df_output h) {
  for (int32_t i = 0; i < 1000; i++) {
    df_node *n = h.node;
    if (dfi_has_trait(n, DFO_ARRAY_NEW)) {
      int32_t a = dfi_op_attr_index(dfi_op_info_at(n->op), "clear_after_read");
      return a < 0 || !n->attrs[a].i;
    }
    df_flow f = dfi_op_info_at(n->op)->op->flow;
    bool passes = f == DF_ENTER || f == DF_EXIT || f == DF_SWITCH || f == DF_MERGE ||
                  dfi_has_trait(n, DFO_PASSES | DFO_ARRAY_FILLS);
    if (!passes) return false;
    h = n->in[0];
  }
  return false;
}

/* Does n read a reference variable? Later it would read another value. */
bool dfi_reads_reference(const df_node *n) {
  for (int32_t i = 0; i < n->nin; i++)
    if (n->in[i].node->out[n->in[i].index].ref && !dfi_input_is_reference(n, i)) return true;
  return false;
}

/* Elementwise, or a matter of shapes: to compute it again costs no more than to save and read it. */
static bool is_cheap(const df_node *n) {
  return n->nout == 1 && dfi_has_trait(n, DFO_CHEAP) && !dfi_reads_reference(n);
}
static bool is_curve(const df_node *n) { return dfi_has_trait(n, DFO_CURVE); }

static df_cond *outermost_cond(const region *r) {
  while (r->parent->cond) r = r->parent;
  return r->cond;
}

/* The forward loop or cond that remembers what is saved for region r. */
static struct dfi_map **memory_of(region *r) {
  region *base = r;
  while (base->cond) base = base->parent;
  return base->loop ? &base->loop->saved : r->function ? &r->function->saved : &outermost_cond(r)->saved;
}

static bool is_read_again(const region *r, const df_node *n) {
  return dfi_has_trait(n, DFO_ARRAY_READS) && outside(r, n->in[0]).node && stays(n->in[0]);
}

/* Is v to be had in r->backward without saving anything new in r? Looks at no more than `left` values. */
static bool is_free(pass *p, region *r, df_output v, int32_t *left) {
  dfi_loop_var *var;
  df_output step, out;
  bool down;
  if (!r->parent || is_constant(r, v) || dfi_grad_is_variable(v)) return true;
  out = outside(r, v);
  if (out.node) return r->loop ? true : is_free(p, r->parent, out, left);
  if (dfi_map_get(r->memo, v).node || dfi_map_get(*memory_of(r), v).node) return true;
  if (counts_down(r, v, &down) || is_counter(r, v, &var, &step, &down)) return true;
  if (--*left < 0) return false;
  if (is_read_again(r, v.node)) return is_free(p, r, v.node->in[1], left);
  if (!is_cheap(v.node)) return false;
  for (int32_t i = 0; i < v.node->nin; i++) if (!is_free(p, r, v.node->in[i], left)) return false;
  return true;
}

static bool is_available(pass *p, region *r, df_output v) {
  int32_t left = 32;
  return is_free(p, r, v, &left);
}

/* A search for the one loop variable that a value is cheaply made of, beside values that are to be had. */
typedef struct roots { df_output root; region *region; bool plain; int32_t left; } roots;

static bool made_of(pass *p, region *r, df_output v, roots *s) {
  int32_t few = 8;
  if (is_free(p, r, v, &few)) return true;
  df_output out = outside(r, v);
  if (out.node) return !r->loop && made_of(p, r->parent, out, s);
  if (r->loop && dfi_flow_is(v.node, FLOW_SWITCH) && loop_var_of(r, v)) {
    if (s->root.node) return s->region == r && dfi_same(s->root, v);
    s->root = v;
    s->region = r;
    return true;
  }
  if (--s->left < 0) return false;
  if (is_read_again(r, v.node)) return made_of(p, r, v.node->in[1], s);
  if (!is_cheap(v.node) || (s->plain && is_curve(v.node))) return false;
  for (int32_t i = 0; i < v.node->nin; i++) if (!made_of(p, r, v.node->in[i], s)) return false;
  return true;
}

/* A chain is walked from its end, so its links are asked for before what they are made of. Where that is one loop
 * variable of the same shape it is saved in place of all of them. Of four sin and exp of 256 x 256 numbers, 1.5 times
 * as slow: there each is saved. */
static bool has_root(pass *p, region *r, df_output v) {
  enum { LARGE = 8192 };
  int64_t size = dfi_shape_size(dfi_shape_at(v));
  roots s = { .plain = size < 0 || size > LARGE, .left = 24 };
  if (!is_cheap(v.node) || (s.plain && is_curve(v.node)) || !made_of(p, r, v, &s) || !s.root.node) return false;
  if (!dfi_shape_equal(dfi_shape_at(s.root), dfi_shape_at(v)) || dfi_dtype(s.root) != dfi_dtype(v)) return false;
  return dfi_grad_value(p, s.region, s.root).node != NULL;
}

/* The same op on the same values, in r->backward. */
static df_output again(pass *p, region *r, df_output v) {
  df_node *n = v.node;
  df_output few[16], *in = n->nin <= 16 ? few : dfi_pass_alloc(p, sizeof *in * (size_t)n->nin);
  for (int32_t i = 0; i < n->nin; i++) {
    in[i] = dfi_grad_value(p, r, n->in[i]);
    if (!in[i].node) return DFI_NONE;
  }
  if (dfi_flow_is(n, FLOW_IDENTITY)) return in[0];
  dfi_node_spec spec = { .op = n->op, .nin = n->nin, .in = in, .attrs = n->attrs, .where = n->where };
  df_node *copy = dfi_node_add(p->graph, &spec, p->err);
  if (!copy) { p->b.failed = true; return DFI_NONE; }
  dfi_out *o = &copy->out[v.index], *is = &v.node->out[v.index];
  dfi_shape both;
  if (dfi_shape_merge(&o->shape, &is->shape, &both)) o->shape = both;
  if (o->dtype == DF_RESOURCE && !o->of) o->of = is->of;
  return (df_output){ copy, v.index };
}

static df_output counter(pass *p, region *r, df_output v, dfi_loop_var *var, df_output step, bool down) {
  dfi_build *b = &p->b;
  df_output i = r->index;
  if (r->loop->down.node)  /* the iteration's number, of a loop that saves by what it counts down */
    i = dfi_op(b, "Sub",
               dfi_op(b, "Sub", dfi_grad_value(p, r->parent, r->loop->var[0].enter->in[0]), dfi_const_int(b, 1)), i);
  bool wide = dfi_dtype(v) == DF_INT64;
  if (!r->loop->down.node && r->loop->trip_var >= 0 && var == &r->loop->var[r->loop->trip_var] && !wide) return i;
  if (wide) { dfi_attr_int(b, "DstT", DF_INT64); i = dfi_op(b, "Cast", i); }
  df_tensor *one = constant_of(step), *zero = constant_of(var->enter->in[0]);
  df_output first = dfi_grad_value(p, r->parent, var->enter->in[0]);
  if (!one || df_tensor_get_int(one, 0) != 1) i = dfi_op(b, "Mul", i, dfi_grad_value(p, r, step));
  if (down) return dfi_op(b, "Sub", first, i);
  return zero && df_tensor_get_int(zero, 0) == 0 ? i : dfi_op(b, "Add", first, i);
}

/* ---- saving -------------------------------------------------------------------------------------- */

df_output dfi_saved_array_new(pass *p, df_output v, bool grows, bool outlines) {
  dfi_build *b = &p->b;
  df_output size = dfi_const_int(b, grows ? 0 : 1);
  dfi_attr_int(b, "dtype", dfi_dtype(v));
  dfi_attr_int(b, "dynamic_size", grows);
  dfi_attr_int(b, "saved", 1);
  if (outlines) dfi_attr_int(b, "outlines", 1);
  const df_context *c = v.node->context;              /* what the loop around v wants of its values */
  while (c && !c->loop) c = c->parent;
  if (c && !strcmp(c->loop->save, "swap")) dfi_attr_int(b, "swap", 1);
  else if (c && !strcmp(c->loop->save, "auto")) dfi_attr_int(b, "swap", 3);
  else if (c && c->loop->save_unsaid) dfi_attr_int(b, "swap", 2);
  dfi_attr_string(b, "tensor_array_name", dfi_node_name(v.node));
  df_output h = dfi_op(b, "TensorArray", size);
  if (h.node) h.node->out[0].of = dfi_dtype(v);
  return h;
}

/* Zeros, or ones: a constant of the current context. */
static df_output filled(pass *p, uint8_t t, const dfi_shape *s, double x) {
  if (s->rank == 0) return dfi_const(&p->b, t, x);
  df_tensor *c = df_tensor_new(t, s->rank, s->dims, p->err);
  if (!c) { p->b.failed = true; return DFI_NONE; }
  for (int64_t i = 0; i < c->size; i++) df_tensor_set(c, i, x);
  dfi_attr_tensor(&p->b, "value", c);
  df_output o = dfi_opn(&p->b, "Const", 0, NULL);
  df_tensor_release(c);
  return o;
}

/* Has it a known shape of few elements? */
static bool is_short(const dfi_shape *s) {
  enum { SHORT = 256 };
  const int64_t size = dfi_shape_size(s);
  return size >= 0 && size <= SHORT;
}

/* o, of r, in the context of `base` around the conds between them; what the other branches give is `other`, or zeros
   where that is DFI_NONE. */
static df_output hand_out(pass *p, region *r, const region *base, df_output o, df_output other, const char *where) {
  if (!o.node) return DFI_NONE;
  const dfi_shape scalar = dfi_shape_scalar(), *shape = is_short(dfi_shape_at(o)) ? dfi_shape_at(o) : &scalar;
  for (region *at = r; at != base && o.node; at = at->parent) {
    df_output side[2];
    p->graph->current = at->cond->branch[1 - at->side];
    side[at->side] = o;
    side[1 - at->side] = other.node ? other : filled(p, dfi_dtype(o), shape, 0);
    if (!side[1 - at->side].node || dfi_cond_add_result(at->cond, side[0], side[1], &o, p->err)) {
      p->b.failed = true;
      return DFI_NONE;
    }
    o.node->where = where;
  }
  return o;
}

/* Writes v at `index` to the array whose handle is `array` in the context around the conds of r, and hands the handle
 * out to there again. */
static df_output write_out(pass *p, region *r, const region *base, df_output v, df_output array, df_output index) {
  p->graph->current = r->forward;
  if (!index.node) index = dfi_const_int(&p->b, 0);
  df_output h = dfi_op(&p->b, "TensorArrayWrite", array, index, v);
  return hand_out(p, r, base, h, array, v.node->where);
}

/* Under which an array's outline is kept beside the array. */
static df_output outline_key(df_output v) { return (df_output){ v.node, -1 - v.index }; }

df_output dfi_saved_array(pass *p, region *r, df_output v, bool outlines) {
  struct dfi_map **memory = memory_of(r);
  const df_output key = outlines ? outline_key(v) : v;
  df_output known = dfi_map_get(*memory, key);
  if (known.node) return known;
  df_graph *g = p->graph;
  region *base = r, *inner = r;
  while (base->cond) { inner = base; base = base->parent; }
  df_context *was = g->current;
  const char *line = p->b.where;
  void *controls = dfi_controls_suspend(g);
  p->b.where = v.node->where;
  df_output exit = DFI_NONE;
  if (base->loop) {
    df_loop *l = base->loop;
    df_output trip, in_body;
    g->current = l->parent;
    df_output h = dfi_saved_array_new(p, v, true, outlines);
    if (l->down.node) trip = l->down; else if (h.node && dfi_loop_trips(l, &trip, NULL, p->err)) h = DFI_NONE;
    int32_t var = h.node ? dfi_loop_add_var(l, h, NULL, NULL, &in_body, p->err) : -1;
    h = var < 0 ? DFI_NONE : write_out(p, r, base, v, in_body, trip);
    if (!h.node || dfi_loop_close_var(l, var, h, &exit, p->err)) { p->b.failed = true; exit = DFI_NONE; }
  } else {
    g->current = inner->cond->parent;
    df_output h = dfi_saved_array_new(p, v, false, outlines);
    if (h.node) exit = write_out(p, r, base, v, h, DFI_NONE);
  }
  dfi_controls_resume(g, controls);
  p->b.where = line;
  g->current = was;
  if (dfi_pass_failed(p)) return DFI_NONE;
  if (!*memory) *memory = dfi_map_new();
  dfi_map_put(*memory, key, exit);
  return exit;
}

/* The call keeps v, a value of a function's body, in its tape; the slot's number is the place among all that it keeps.
   */
static df_output save_in_tape(pass *p, region *r, df_output v) {
  dfi_function *f = r->function;
  df_output known = dfi_map_get(f->saved, v);
  if (!known.node) {
    known.index = dfi_map_count(f->saved);
    known.node = dfi_function_node(f, "FunctionSave", 2, (df_output[]){ { f->tape, 0 }, v }, 2,
                                   (df_attr[]){ { 0 }, { .i = known.index } }, false, p->err);
    if (!known.node) { p->b.failed = true; return DFI_NONE; }
    if (!f->saved) f->saved = dfi_map_new();
    dfi_map_put(f->saved, v, known);
  }
  return dfi_load_slot(p, f, v, known.index, r->tape);
}

/* Is v, a value of r, handed out of the branches that it is in as it is? */
static bool leaves_branch(const region *base, df_output v) {
  return !base->loop && dfi_dtype(v) != DF_RESOURCE && dfi_unboxed(dfi_dtype(v));
}

/* v out of the conds of r, and in again. */
static df_output save_by_branch(pass *p, region *r, region *base, df_output v) {
  struct dfi_map **memory = memory_of(r);
  df_output out = dfi_map_get(*memory, v);
  if (!out.node) {
    df_context *was = p->graph->current;
    void *controls = dfi_controls_suspend(p->graph);
    out = hand_out(p, r, base, v, DFI_NONE, v.node->where);
    dfi_controls_resume(p->graph, controls);
    p->graph->current = was;
    if (!out.node) return DFI_NONE;
    if (!*memory) *memory = dfi_map_new();
    dfi_map_put(*memory, v, out);
  }
  if (base->function) out = save_in_tape(p, base, out);      /* read in the branch, where that is taken */
  const df_output o = dfi_op(&p->b, "Identity", out);
  if (o.node) o.node->out[0].shape = *dfi_shape_at(v);
  return o;
}

static df_output save(pass *p, region *r, df_output v, bool outline) {
  if (r->function) return save_in_tape(p, r, v);
  region *base = r;
  while (base->cond) base = base->parent;
  if (leaves_branch(base, v)) return save_by_branch(p, r, base, v);
  df_output exit = dfi_saved_array(p, r, v, outline);
  if (!exit.node) return DFI_NONE;
  df_output h = base->loop       ? dfi_grad_value(p, base->parent, exit)
                : base->function ? dfi_grad_value(p, base, exit)
                                 : exit;
  df_output at = base->loop ? base->index : dfi_const_int(&p->b, 0);
  if (!h.node) return DFI_NONE;
  dfi_attr_int(&p->b, "dtype", dfi_dtype(v));
  df_output read = dfi_op(&p->b, "TensorArrayRead", h, at);
  if (read.node) {
    read.node->out[0].shape = *dfi_shape_at(v);
    read.node->out[0].of = v.node->out[v.index].of;
  }
  return read;
}

/* ---- values ---------------------------------------------------------------------------------------- */

/* The loop variable that v, which the body computed, becomes. */
static const dfi_loop_var *returned_as(const region *r, df_output v) {
  df_output at = r->loop && !dfi_flow_is(v.node, FLOW_SWITCH) ? dfi_map_get(r->returned, v) : DFI_NONE;
  return at.node ? &r->loop->var[at.index] : NULL;
}

/* The backward loop carries v: first the exit, then what each iteration that was undone had begun with. */
static df_output carry(pass *p, region *r, const dfi_loop_var *var) {
  df_output exit = { var->exit, 0 }, begun = { var->swtch, 1 }, in_body;
  df_output first = dfi_grad_value(p, r->parent, exit);
  int32_t i = first.node ? dfi_loop_add_var(r->back, first, NULL, NULL, &in_body, p->err) : -1;
  df_output next = i < 0 ? DFI_NONE : dfi_grad_value(p, r, begun);
  if (!next.node || dfi_loop_close_var(r->back, i, next, NULL, p->err)) { p->b.failed = true; return DFI_NONE; }
  return in_body;
}

static df_output own_value(pass *p, region *r, df_output v) {
  dfi_loop_var *var;
  df_output step;
  bool down;
  if (counts_down(r, v, &down)) return down ? dfi_op(&p->b, "Add", r->index, dfi_const_int(&p->b, 1)) : r->index;
  if (is_constant(r, v)) {
    dfi_attr_tensor(&p->b, "value", constant_of(v));
    return dfi_opn(&p->b, "Const", 0, NULL);
  }
  if (is_counter(r, v, &var, &step, &down)) {
    dfi_saved_note(p, r, v, NOTE_COUNTED);
    return counter(p, r, v, var, step, down);
  }
  if (dfi_map_get(*memory_of(r), v).node) { dfi_saved_note(p, r, v, NOTE_SAVED); return save(p, r, v, false); }
  const dfi_loop_var *w = returned_as(r, v);
  if (is_available(p, r, v) || (!w && has_root(p, r, v))) {
    if (!dfi_flow_is(v.node, FLOW_IDENTITY)) dfi_saved_note(p, r, v, NOTE_COMPUTED);
    return again(p, r, v);
  }
  dfi_saved_note(p, r, v, w ? NOTE_CARRIED : NOTE_SAVED);
  return w ? carry(p, r, w) : save(p, r, v, false);
}

df_output dfi_grad_value(pass *p, region *r, df_output v) {
  if (dfi_pass_failed(p)) return DFI_NONE;
  if (!r->parent) return v;
  if (dfi_grad_is_variable(v)) return variable_handle(v);
  df_output out = outside(r, v);
  if (out.node && !is_constant(r, v)) {
    if (r->loop && !constant_of(out)) dfi_saved_note(p, r, out, NOTE_CONSTANT);
    return dfi_grad_value(p, r->parent, out);
  }
  df_output known = dfi_map_get(r->memo, v);
  if (known.node) return known;
  df_context *was = dfi_grad_enter(p, r->backward);
  known = own_value(p, r, v);
  p->graph->current = was;
  if (!known.node) return DFI_NONE;
  if (!r->memo) r->memo = dfi_map_new();
  dfi_map_put(r->memo, v, known);
  return known;
}

void dfi_region_free(region *r) {
  dfi_map_free(r->memo); dfi_map_free(r->shapes); dfi_map_free(r->arrays); dfi_map_free(r->array_var);
  dfi_map_free(r->begun); dfi_map_free(r->returned);
}

/* ---- shapes, zeros ----------------------------------------------------------------------------------- */

static df_output build_shape(pass *p, df_output v) { return dfi_op(&p->b, "Shape", v); }

/* Shape(v), computed where v is; one node for all callers. */
static df_output forward_shape(pass *p, df_output v) {
  df_context *c = v.node->context;
  df_output key = { v.node, -16 - v.index }, known = dfi_map_get(c->cache, key);
  if (known.node) return known;
  df_context *was = dfi_grad_enter(p, c);
  void *controls = dfi_controls_suspend(p->graph);
  known = build_shape(p, v);
  dfi_controls_resume(p->graph, controls);
  p->graph->current = was;
  if (!known.node) return DFI_NONE;
  if (!c->cache) c->cache = dfi_map_new();
  dfi_map_put(c->cache, key, known);
  return known;
}

df_output dfi_grad_shape_of(pass *p, region *r, df_output v) {
  const dfi_shape *s = dfi_gradient_shape(v);
  if (dfi_pass_failed(p)) return DFI_NONE;
  if (dfi_shape_known(s)) return dfi_const_ints(&p->b, s->rank, s->dims);
  bool variable = dfi_grad_is_variable(v);
  if (variable) { v = variable_handle(v); while (r->parent) r = r->parent; }
  else if (r->parent) {
    df_output out = outside(r, v);
    if (out.node) return dfi_grad_shape_of(p, r->parent, out);
  }
  df_output known = dfi_map_get(r->shapes, v);
  if (known.node) return known;
  df_context *was = dfi_grad_enter(p, r->backward);
  if (variable) {
    dfi_attr_int(&p->b, "dtype", v.node->out[v.index].of);
    known = build_shape(p, dfi_op(&p->b, "ReadVariableOp", v));
  } else if (!r->parent || is_available(p, r, v)) known = build_shape(p, dfi_grad_value(p, r, v));
  else known = dfi_grad_value(p, r, forward_shape(p, v));
  p->graph->current = was;
  if (!known.node) return DFI_NONE;
  if (!r->shapes) r->shapes = dfi_map_new();
  dfi_map_put(r->shapes, v, known);
  return known;
}

df_output dfi_grad_full(pass *p, region *r, df_output v, double x, df_context *where) {
  if (dfi_pass_failed(p)) return DFI_NONE;
  const dfi_shape *s = dfi_gradient_shape(v);
  uint8_t t = dfi_gradient_dtype(v);
  df_output like = t == DF_VARIANT ? dfi_grad_value(p, r, v) : DFI_NONE;
  df_context *was = dfi_grad_enter(p, where);
  df_output o = DFI_NONE;
  if (t == DF_VARIANT) o = dfi_pass_failed(p) ? DFI_NONE : dfi_op(&p->b, "ZerosLike", like);
  else if (is_short(s)) o = filled(p, t, s, x);
  else {
    df_output shape = dfi_grad_shape_of(p, r, v);
    if (!dfi_pass_failed(p)) o = dfi_op(&p->b, "Fill", shape, dfi_const(&p->b, t, x));
    if (o.node) o.node->out[0].shape = *s;
  }
  p->graph->current = was;
  return o;
}

/* The array v, or one that is as long and whose elements are as large: nothing that an iteration's arrays hold is kept
   for the gradient arrays alone. */
static df_output outline(pass *p, region *r, df_output v) {
  if (dfi_pass_failed(p) || !r->parent || r->function || dfi_grad_is_variable(v)) return dfi_grad_value(p, r, v);
  df_output out = outside(r, v);
  if (out.node) return outline(p, r->parent, out);
  if (returned_as(r, v) || v.node->out[v.index].of == DF_RESOURCE || is_available(p, r, v))
    return dfi_grad_value(p, r, v);
  df_output known = dfi_map_get(r->memo, outline_key(v));
  if (known.node) return known;
  df_context *was = dfi_grad_enter(p, r->backward);
  dfi_saved_note(p, r, v, NOTE_OUTLINED);
  known = save(p, r, v, true);
  p->graph->current = was;
  if (!known.node) return DFI_NONE;
  if (!r->memo) r->memo = dfi_map_new();
  dfi_map_put(r->memo, outline_key(v), known);
  return known;
}

df_output dfi_grad_array_new(pass *p, region *r, df_output handle, df_context *where) {
  df_output h = outline(p, r, handle);
  if (!h.node) return DFI_NONE;
  df_context *was = dfi_grad_enter(p, where);
  df_output o = dfi_op(&p->b, "TensorArrayGrad", h);
  p->graph->current = was;
  if (!o.node) return DFI_NONE;
  if (!o.node->out[0].of) o.node->out[0].of = handle.node->out[handle.index].of;
  if (o.node->out[0].shape.rank < 0) o.node->out[0].shape = *dfi_shape_at(handle);
  return o;
}

/* ---- broadcasting undone ---------------------------------------------------------------------------------- */

/* Is dimension `d` of input i, from the right, surely what the output has there? True as well when it was surely 1. */
static bool axis_known(df_node *n, int32_t i, int32_t d, int64_t own) {
  if (own >= 0) return true;
  for (int32_t k = 0; k < n->nin; k++) {
    const dfi_shape *s = dfi_shape_at(n->in[k]);
    if (k == i) continue;
    if (s->rank < 0) return false;
    if (d <= s->rank && s->dims[s->rank - d] != 1) return false;   /* the other operand may be what widens it */
  }
  return true;
}

df_output dfg_unbroadcast(dfi_grad *g, df_node *n, int32_t i, df_output dz) {
  if (dfi_pass_failed(g) || !dz.node) return DFI_NONE;
  const dfi_shape *to = dfi_gradient_shape(n->in[i]), *from = dfi_shape_at(dz);
  bool known = to->rank >= 0 && from->rank >= to->rank;
  for (int32_t d = 1; known && d <= to->rank; d++) known = axis_known(n, i, d, to->dims[to->rank - d]);
  if (!known) {
    df_output o = dfi_op(&g->b, "SumToShape", dz, dfg_in_shape(g, n, i));
    if (o.node) o.node->out[0].shape = *to;
    return o;
  }
  int64_t lead[DF_MAX_RANK], inner[DF_MAX_RANK];
  int32_t nlead = from->rank - to->rank, ninner = 0;
  for (int32_t d = 0; d < nlead; d++) lead[d] = d;
  for (int32_t d = 0; d < to->rank; d++) if (to->dims[d] == 1 && from->dims[nlead + d] != 1) inner[ninner++] = d;
  dfi_shape narrow = *to;
  if (nlead) dz = dfi_op(&g->b, "Sum", dz, dfi_const_ints(&g->b, nlead, lead));
  if (ninner) {
    df_output axes = dfi_const_ints(&g->b, ninner, inner);
    dfi_attr_int(&g->b, "keep_dims", 1);
    dz = dfi_op(&g->b, "Sum", dz, axes);
  }
  if ((nlead || ninner) && dz.node) dfi_shape_merge(&narrow, dfi_shape_at(dz), &dz.node->out[0].shape);
  return dz;
}
