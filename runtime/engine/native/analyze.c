/* analyze.c: can a loop be compiled, and under which condition is each of its nodes alive?
 *
 * One iteration is gone through as the token engine would, but with conditions in place of values: a Switch sends its
 * data on under `pred` and under `not pred`, a node is alive under the deepest condition that its tokens came with, and
 * a Merge whose inputs came under the two sides of one Switch is alive where that Switch is. What does not fit this (an
 * imported graph may have anything) is left to the tokens. Every array that a handle may stand for is known: a loop
 * gives the array back that it got. A function is gone through once, when its first call is met, as a loop of one
 * iteration would be; it may have no effects, so that tokens can do a call over.
 */
#include "engine/native/analyze.h"
#include <stdarg.h>
#include <stdio.h>

bool dfi_unit_refuse(dfi_unit *u, const dfi_pnode *p, const char *format, ...) {
  if (u->reason) return false;
  va_list more;
  va_start(more, format);
  u->reason = dfi_engine_reason(p, format, more);
  va_end(more);
  return false;
}

bool dfi_guard_inside(const dfi_analyze_loop *l, int32_t inner, int32_t outer) {
  while (inner > outer) inner = l->guard[inner].parent;      /* a condition comes after those around it */
  return inner == outer;
}

uint32_t dfi_analyze_given(dfi_look *l, dfi_operand o) {
  for (uint32_t i = 0; i < l->ngiven; i++) if (l->given[i] == o) return i;
  l->given = dfi_xrealloc(l->given, sizeof *l->given * (l->ngiven + 1));
  l->given[l->ngiven] = o;
  return l->ngiven++;
}

int32_t dfi_analyze_root(dfi_look *l, int32_t i, dfi_operand o) {
  if (DFI_SPACE(o) == DFI_ITERATION) return l->loop[i].slot_root[DFI_INDEX(o)];
  if (DFI_SPACE(o) == DFI_FRAME) return l->loop[i].const_root[DFI_INDEX(o)];
  return -1;
}

/* ---- the conditions of nodes ------------------------------------------------------------------------ */

/* The first of the two conditions that a Switch on pred makes of g. */
static int32_t guard_pair(dfi_analyze_loop *l, int32_t g, dfi_operand pred) {
  for (int32_t i = 1; i < l->nguards; i += 2) if (l->guard[i].parent == g && l->guard[i].pred == pred) return i;
  l->guard = dfi_xrealloc(l->guard, sizeof *l->guard * (size_t)(l->nguards + 2));
  for (uint8_t side = 0; side < 2; side++)
    l->guard[l->nguards++] = (dfi_guard){ .parent = g, .side = side, .pred = pred };
  return l->nguards - 2;
}

typedef struct walk { dfi_look *look; int32_t at; uint32_t *ready; uint32_t nready, ndone; } walk;

static bool arrive(walk *w, const dfi_edge *e, int32_t g) {
  dfi_analyze_loop *l = &w->look->loop[w->at];
  dfi_analyze_node *n = &l->node[e->node];
  const dfi_pnode *p = l->nodes + e->node;
  if ((e->to & 0xff) == DFI_TO_MERGE_CONTROL)
    return dfi_unit_refuse(w->look->unit, p, "it waits for something else too");
  if ((e->to & 0xff) == DFI_TO_MERGE) n->input[(e->to >> 8) & 1] = g;
  else if (n->guard < 0 || dfi_guard_inside(l, g, n->guard)) n->guard = g;
  else if (!dfi_guard_inside(l, n->guard, g))
    return dfi_unit_refuse(w->look->unit, p, "its inputs are alive under different conditions");
  if (--n->missing == 0) w->ready[w->nready++] = e->node;
  return true;
}

static bool arrive_all(walk *w, uint32_t from, uint32_t to, int32_t g) {
  for (const dfi_edge *e = w->look->plan->edge + from, *end = w->look->plan->edge + to; e < end; e++)
    if (!arrive(w, e, g)) return false;
  return true;
}

static void count_edges(dfi_analyze_loop *l, const dfi_plan *p, uint32_t from, uint32_t to) {
  for (uint32_t e = from; e < to; e++) l->node[p->edge[e].node].missing++;
}

void dfi_analyze_count(dfi_analyze_loop *l, const dfi_plan *p) {
  const dfi_scope *s = l->scope;
  for (uint32_t i = 0; i < s->n; i++) l->node[i].missing = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    const dfi_pnode *n = l->nodes + i;
    if (n->kind != DFI_K_NEXT && n->kind != DFI_K_ENTER && n->kind != DFI_K_EXIT)
      count_edges(l, p, n->edge[0], n->edge[3]);
  }
  for (uint32_t i = 0; i < s->nenters; i++)
    if (!s->enters[i]->constant) count_edges(l, p, s->enters[i]->edge[0], s->enters[i]->edge[1]);
  for (int32_t c = 0; c < p->nscopes; c++)
    if (p->scope[c].parent == s->id)
      for (uint32_t i = 0; i < p->scope[c].nexits; i++)
        count_edges(l, p, p->scope[c].exits[i]->edge[0], p->scope[c].exits[i]->edge[1]);
}

/* ---- what values are ---------------------------------------------------------------------------------- */

const dfi_shape *dfi_sized(uint8_t t, const dfi_shape *s) {
  const bool numbers = t && t != DF_RESOURCE && dfi_unboxed(t);
  return numbers && s->rank >= 1 && dfi_shape_known(s) && dfi_shape_size(s) >= 1 ? s : NULL;
}

const dfi_shape *dfi_small(uint8_t t, const dfi_shape *s) {
  return dfi_sized(t, s) && dfi_shape_size(s) <= DFI_SMALL ? s : NULL;
}

/* Does operand o of loop i stay as it is while the unit runs? */
static bool stays(const dfi_look *l, int32_t i, dfi_operand o) {
  return DFI_SPACE(o) != DFI_ITERATION || l->loop[i].slot_far[DFI_INDEX(o)];
}

bool dfi_carries(const dfi_look *l, int32_t loop, const dfi_pnode *p) {
  return p->kind == DFI_K_ENTER || p->kind == DFI_K_ARG || p->kind == DFI_K_SWITCH || p->kind == DFI_K_MERGE ||
         p->kind == DFI_K_EXIT ||
         (p->kind == DFI_K_KERNEL && (dfi_is_alias(p) || dfi_scatter_known(l, loop, p)));
}

/* As made by p, on the host, with the fast kernels? */
static bool fits_here(const dfi_look *l, int32_t loop, const dfi_pnode *p, uint8_t dtype, const dfi_shape *s) {
  return (dfi_small(dtype, s) || (dfi_sized(dtype, s) && dfi_carries(l, loop, p))) && !l->plan->cut && !p->gpu;
}

const dfi_shape *dfi_analyze_shape(const dfi_look *l, int32_t i, dfi_operand o) {
  const uint32_t at = DFI_INDEX(o);
  switch (DFI_SPACE(o)) {
    case DFI_ITERATION: return l->loop[i].slot_shape[at];
    case DFI_FRAME: return l->loop[i].const_shape[at];
    case DFI_CONSTANT: return l->plan->constant[at].kind == DF_TENSOR ? l->constant_shape[at] : NULL;
    default:
      if (at >= (uint32_t)l->plan->nfeed) return NULL;
      return dfi_sized(dfi_dtype(l->plan->feed[at]), dfi_known_shape(l->unit, l->plan->feed[at]));
  }
}

static bool check_output(dfi_look *l, int32_t loop, const dfi_pnode *p, int32_t i) {
  const dfi_out *o = &p->node->out[i];
  char text[200];
  if (o->ref) return dfi_unit_refuse(l->unit, p, "it is a reference to a variable");
  if (o->dtype == DF_RESOURCE) return true;
  if (!dfi_unboxed(o->dtype)) return dfi_unit_refuse(l->unit, p, "%s is not compiled", df_dtype_name(o->dtype));
  const dfi_shape *shape = dfi_out_shape(l, p, i);
  if (shape->rank > 0 && !fits_here(l, loop, p, o->dtype, shape))
    return dfi_unit_refuse(l->unit, p, "it is %s, and only numbers and small tensors of known shape are compiled",
                           dfi_typed_shape_text(o->dtype, shape, text));
  return true;
}

bool dfi_take_room(dfi_look *l, const dfi_pnode *p, uint8_t dtype, const dfi_shape *s) {
  l->bytes += (dfi_shape_size(s) * dfi_dtype_size[dtype] + 63) & ~63;
  return l->bytes <= DFI_SMALL_ROOM || dfi_unit_refuse(l->unit, p, "its small tensors take too much room");
}

static bool set_slot(dfi_look *l, int32_t loop, const dfi_pnode *p, int32_t i, uint32_t slot, int32_t root) {
  if (!check_output(l, loop, p, i)) return false;
  const uint8_t dtype = p->node->out[i].dtype;
  const dfi_shape *shape = dfi_out_shape(l, p, i);
  l->loop[loop].slot_dtype[slot] = dtype;
  l->loop[loop].slot_root[slot] = root;
  if (shape->rank <= 0) return true;
  l->loop[loop].slot_shape[slot] = dfi_sized(dtype, shape);
  l->loop[loop].slot_bare[slot] = p->kind == DFI_K_SWITCH;
  return dfi_carries(l, loop, p) || dfi_take_room(l, p, dtype, shape);
}

/* Output i of p hands on a captured tensor that is not small. */
static bool is_far(const dfi_look *l, int32_t loop, dfi_operand o) {
  const dfi_shape *s = dfi_analyze_shape(l, loop, o);
  return s && stays(l, loop, o) && dfi_shape_size(s) > DFI_SMALL;
}

static bool set_far(dfi_look *l, int32_t loop, const dfi_pnode *p, int32_t i, uint32_t slot, dfi_operand from) {
  const uint8_t dtype = p->node->out[i].dtype;
  const dfi_shape *own = dfi_out_shape(l, p, i), *s = dfi_analyze_shape(l, loop, from);
  if (!dfi_sized(dtype, own) || dfi_shape_size(own) != dfi_shape_size(s))
    return dfi_unit_refuse(l->unit, p, "its shape is not known everywhere");
  l->loop[loop].slot_dtype[slot] = dtype;
  l->loop[loop].slot_root[slot] = -1;
  l->loop[loop].slot_shape[slot] = own;
  l->loop[loop].slot_far[slot] = 1;
  return true;
}

/* The value of operand o goes to the place of output i of p: of the same kind? */
static bool check_same(dfi_look *l, int32_t loop, const dfi_pnode *p, int32_t i, dfi_operand o) {
  const uint8_t to = p->node->out[i].dtype;
  const dfi_shape *from = dfi_analyze_shape(l, loop, o), *own = dfi_out_shape(l, p, i);
  const dfi_shape *want = to == DF_RESOURCE || own->rank <= 0 ? NULL : dfi_sized(to, own);
  char text[2][200];
  if (from == want || (from && want && dfi_shape_equal(from, want))) return true;
  if (!from || !want) return dfi_unit_refuse(l->unit, p, "its shape is not known everywhere");
  return dfi_unit_refuse(l->unit, p, "its shape changes: it is %s, then %s", dfi_typed_shape_text(to, want, text[0]),
                         dfi_typed_shape_text(to, from, text[1]));
}

static bool check_operand(dfi_look *l, int32_t loop, const dfi_pnode *p, dfi_operand o) {
  switch (DFI_SPACE(o)) {
    case DFI_ITERATION: return true;
    case DFI_FRAME: return true;
    case DFI_CONSTANT:
      return l->plan->constant[DFI_INDEX(o)].kind == DF_SCALAR || l->constant_shape[DFI_INDEX(o)] ||
             dfi_unit_refuse(l->unit, p, "it reads a constant that is neither a number nor a tensor of numbers");
    default: dfi_analyze_given(l, o); return true;
  }
}

/* A number's or a handle's operands: can they be read? */
static bool check_operands(dfi_look *l, int32_t loop, const dfi_pnode *p) {
  for (uint32_t i = 0; i < p->nin; i++) if (!check_operand(l, loop, p, l->plan->operand[p->in + i])) return false;
  return true;
}

static df_flow flow_at(const df_node *n) { return dfi_op_info_at(n->op)->op->flow; }

/* What all calls give a function as this argument; ~0: it is not known. */
static dfi_operand variable_given(const dfi_look *l, const df_node *arg) {
  for (int32_t i = 0; i < l->nloops; i++)
    for (uint32_t n = 0; l->loop[i].variable && n < l->loop[i].scope->n; n++)
      if (l->loop[i].nodes[n].node == arg) return l->loop[i].variable[l->loop[i].nodes[n].enter];
  return ~0u;
}

/* The handle of the variable that is p's input k, which conds, loops and calls may have passed on. False: it is not
   known. */
static bool variable_of(const dfi_look *l, const dfi_pnode *p, uint32_t k, dfi_operand *o) {
  const df_node *n = p->node->in[k].node;
  while (flow_at(n) == DF_SWITCH || flow_at(n) == DF_ENTER) n = n->in[0].node;
  if (flow_at(n) == DF_FUNCTION_ARG) return (*o = variable_given(l, n)) != ~0u;
  for (int32_t i = 0; i < l->plan->nvariables && !p->reads; i++) {
    *o = DFI_OPERAND(DFI_GIVEN, (uint32_t)(l->plan->nfeed + i));
    if (l->plan->variable[i] == n) return true;
  }
  return false;
}

uint32_t dfi_analyze_variable_cell(dfi_look *l, const dfi_pnode *p, uint32_t k) {
  dfi_operand o;
  variable_of(l, p, k, &o);               /* analyze.c has refused what it does not know */
  return l->unit->scope->nenters + l->unit->scope->nconsts + dfi_analyze_given(l, o);
}

/* It is read in each iteration: others may assign it meanwhile. */
static bool look_variable(dfi_look *l, int32_t loop, const dfi_pnode *p) {
  dfi_operand o;
  if (!variable_of(l, p, 0, &o)) return dfi_unit_refuse(l->unit, p, "it is not known which variable it reads");
  dfi_analyze_given(l, o);
  return set_slot(l, loop, p, 0, p->out, -1) &&
         (dfi_out_shape(l, p, 0)->rank <= 0 || dfi_take_room(l, p, p->out_dtypes[0], dfi_out_shape(l, p, 0)));
}

static bool look_array(dfi_look *l, int32_t loop, const dfi_pnode *p) {
  const int32_t root = dfi_analyze_root(l, loop, l->plan->operand[p->in]);
  if (root < 0)
    return dfi_unit_refuse(l->unit, p, "it is not known which array it %s", dfi_is_read(p) ? "reads" : "writes to");
  if (!dfi_is_write(p)) {
    const dfi_shape *row = dfi_out_shape(l, p, 0);
    return set_slot(l, loop, p, 0, p->out, -1) &&
           (row->rank <= 0 || dfi_take_room(l, p, p->node->out[0].dtype, row));
  }
  const uint8_t dtype = dfi_dtype(p->node->in[2]);
  const dfi_shape *o = dfi_input_shape(l, p, 2), *shape = dfi_analyze_shape(l, loop, l->plan->operand[p->in + 2]);
  char text[200];
  if (dtype == DF_RESOURCE || !dfi_unboxed(dtype) ||
      (o->rank > 0 || shape ? !shape || !dfi_shape_equal(shape, o) : false))
    return dfi_unit_refuse(l->unit, p, "it writes %s, and only numbers and small tensors of known shape are compiled",
                           dfi_typed_shape_text(dtype, o, text));
  l->unit->root[root].written = true;
  if (shape && !dfi_take_room(l, p, dtype, shape)) return false;
  return set_slot(l, loop, p, 0, p->out, root);
}

/* ---- loops ---------------------------------------------------------------------------------------------- */

static bool look_loop(dfi_look *l, int32_t parent, int32_t guard, const dfi_scope *s);

static int32_t root_new(dfi_look *l, uint32_t cell) {
  dfi_unit *u = l->unit;
  u->root = dfi_xrealloc(u->root, sizeof *u->root * (size_t)(u->nroots + 1));
  u->root[u->nroots] = (dfi_root){ cell, false };
  return u->nroots++;
}

/* An Enter delivers to loop `to`. */
static bool look_enter(dfi_look *l, int32_t to, const dfi_pnode *p) {
  dfi_analyze_loop *c = &l->loop[to];
  int32_t root = -1;
  if (p->node->out[0].dtype == DF_RESOURCE)
    root = c->parent >= 0 ? dfi_analyze_root(l, c->parent, l->plan->operand[p->in])
                          : root_new(l, p->constant ? c->scope->nenters + p->out : p->enter);
  if (!p->constant)
    return (p->merges || dfi_unit_refuse(l->unit, p, "its loop is not an ordinary while_loop")) &&
           set_slot(l, to, p, 0, p->out, root) &&
           (c->parent < 0 || check_same(l, c->parent, p, 0, l->plan->operand[p->in]));
  c->const_dtype[p->out] = p->node->out[0].ref ? 0 : p->node->out[0].dtype;      /* its reader is looked at */
  c->const_root[p->out] = root;
  const dfi_shape *shape = dfi_out_shape(l, p, 0);
  if (c->const_dtype[p->out] == DF_RESOURCE) return true;
  if (shape->rank > 0 && dfi_sized(c->const_dtype[p->out], shape) && !l->plan->cut && !p->gpu &&
      (c->parent < 0 || dfi_analyze_shape(l, c->parent, l->plan->operand[p->in])))
    c->const_shape[p->out] = shape;
  else if (!dfi_unboxed(c->const_dtype[p->out]) || shape->rank > 0) c->const_dtype[p->out] = 0;
  return true;
}

/* An inner loop has all its Enters. */
static bool look_child(walk *w, const dfi_scope *s, int32_t g) {
  dfi_look *l = w->look;
  const int32_t at = w->at;
  if (!look_loop(l, at, g, s)) return false;
  const int32_t inner = l->nloops - 1 >= 0 ? dfi_loop_of(l, (uint32_t)s->id) : -1;
  for (uint32_t i = 0; i < s->nexits; i++) {
    const dfi_pnode *e = s->exits[i];
    if (!set_slot(l, at, e, 0, e->out, dfi_analyze_root(l, inner, l->plan->operand[e->in])) ||
        !check_same(l, inner, e, 0, l->plan->operand[e->in]) ||
        !arrive_all(w, e->edge[0], e->edge[1], g))
      return false;
  }
  return true;
}

static bool look_enter_node(walk *w, const dfi_pnode *p, int32_t g) {
  dfi_look *l = w->look;
  const dfi_scope *s = &l->plan->scope[p->target];
  int32_t come = 0;
  for (uint32_t i = 0; i < s->nenters; i++) {
    const int32_t other = l->loop[w->at].node[s->enters[i] - l->loop[w->at].nodes].guard;
    const bool there = l->loop[w->at].node[s->enters[i] - l->loop[w->at].nodes].written;
    if (there && other != g)
      return dfi_unit_refuse(l->unit, p, "what enters its loop is alive under different conditions");
    come += there;
  }
  return come < (int32_t)s->nenters || look_child(w, s, g);
}

/* Its kernel is called. */
static bool look_call(dfi_look *l, int32_t loop, const dfi_pnode *p) {
  l->loop[loop].calls++;
  l->loop[loop].node[p - l->loop[loop].nodes].called = true;
  if (!dfi_call_known(l, loop, p)) return dfi_unit_refuse(l->unit, p, "it has no native code");
  for (uint32_t i = 0; i < p->nin; i++) {               /* a copy of each operand that does not stay where it is */
    const dfi_operand o = l->plan->operand[p->in + i];
    const dfi_shape *s = dfi_analyze_shape(l, loop, o);
    const bool copied = s && dfi_shape_size(s) <= DFI_DIRECT && !stays(l, loop, o);
    if (copied && !dfi_take_room(l, p, dfi_dtype(p->node->in[i]), s)) return false;
  }
  return true;
}

/* ---- functions ------------------------------------------------------------------------------------------ */

static bool look_argument(dfi_look *l, int32_t at, const dfi_pnode *p) {
  if (!set_slot(l, at, p, 0, p->out, -1)) return false;
  l->loop[at].slot_far[p->out] = l->loop[at].slot_shape[p->out] != NULL;
  return true;
}

/* A call can be done over only if nothing that it did can be seen. */
static bool look_effect(dfi_look *l, int32_t loop, const dfi_pnode *p) {
  const bool effect = dfi_is_change(p) || p->op->traits & DFO_RANDOM;
  return !effect || !l->loop[loop].home ||
         dfi_unit_refuse(l->unit, p, "a function that is called changes a variable, or draws random numbers");
}

/* Calls between functions that are being looked at, of which `to` is one, come back to it. */
static void mark_recursive(dfi_look *l, int32_t to) {
  for (int32_t i = to; i < l->nloops; i++) l->loop[i].recursive |= l->loop[i].active;
}

static bool look_function(dfi_look *l, const dfi_pnode *call);

/* The handles that call p gives function f are those of any call. */
static bool check_variables(dfi_look *l, int32_t f, const dfi_pnode *p) {
  for (uint32_t i = 0; i < p->nin; i++) {
    dfi_operand o = ~0u;
    if (dfi_dtype(p->node->in[i]) != DF_RESOURCE) continue;
    if (!variable_of(l, p, i, &o) || o != l->loop[f].variable[i])
      return dfi_unit_refuse(l->unit, p, "a function is given a handle, and it is not one variable's in all calls");
  }
  return true;
}

static bool look_function_call(dfi_look *l, int32_t at, const dfi_pnode *p) {
  const dfi_scope *s = &l->plan->scope[p->target];
  if (s->batch) return dfi_unit_refuse(l->unit, p, "calls of the function are computed together");
  if (!check_operands(l, at, p)) return false;
  l->loop[at].calls++;
  for (uint32_t i = 0; i < p->nout; i++) {
    if (p->out_dtypes[i] == DF_RESOURCE && l->loop[at].scope->uses[p->out + i])
      return dfi_unit_refuse(l->unit, p, "what the call keeps for its gradient, or another handle of it, is read");
    if (!set_slot(l, at, p, (int32_t)i, p->out + i, -1)) return false;
  }
  const int32_t known = dfi_loop_of(l, p->target);
  if (known >= 0 && l->loop[known].active) mark_recursive(l, known);
  if (known < 0 && !look_function(l, p)) return false;
  if (!check_variables(l, dfi_loop_of(l, p->target), p)) return false;
  for (uint32_t i = 0; i < s->n; i++) {
    const dfi_pnode *q = l->plan->node + s->first + i;
    if (q->kind == DFI_K_ARG && !check_same(l, at, q, 0, l->plan->operand[p->in + q->enter])) return false;
  }
  return true;
}

/* What the function returns is of the kinds that its calls were said to give. */
static bool check_results(dfi_look *l, const dfi_pnode *p) {
  const int32_t f = dfi_loop_of(l, p->target);
  const dfi_operand *given = l->plan->operand + l->loop[f].result->in;
  for (uint32_t i = 0; i < p->nout; i++)
    if (p->out_dtypes[i] != DF_RESOURCE && !check_same(l, f, p, (int32_t)i, given[i])) return false;
  return true;
}

/* Of all calls, when all functions are known. */
static bool look_results(dfi_look *l) {
  for (int32_t i = 0; i < l->nloops; i++)
    for (uint32_t n = 0; n < l->loop[i].scope->n; n++)
      if (l->loop[i].nodes[n].kind == DFI_K_CALL && !check_results(l, &l->loop[i].nodes[n])) return false;
  return true;
}

static bool look_op(dfi_look *l, int32_t loop, const dfi_pnode *p) {
  if (dfi_row_known(l, loop, p)) return l->loop[loop].node[p - l->loop[loop].nodes].row = true;
  if (dfi_move_known(l, loop, p)) return l->loop[loop].node[p - l->loop[loop].nodes].moves = true;
  if ((l->loop[loop].node[p - l->loop[loop].nodes].boxes = dfi_boxes_of(l, loop, p))) return true;
  bool tensors = p->nout && dfi_small(p->node->out[0].dtype, dfi_out_shape(l, p, 0));
  for (uint32_t i = 0; i < p->nin; i++) tensors |= dfi_analyze_shape(l, loop, l->plan->operand[p->in + i]) != NULL;
  if (tensors ? dfi_tensor_op_known(l, loop, p) : dfi_op_known(p)) return true;
  return look_call(l, loop, p);
}

/* It changes variables. */
static bool look_change(dfi_look *l, int32_t loop, const dfi_pnode *p) {
  dfi_operand o;
  for (uint32_t i = 0; i < p->nin; i++) {
    if (dfi_dtype(p->node->in[i]) != DF_RESOURCE) {
      if (!check_operand(l, loop, p, l->plan->operand[p->in + i])) return false;
      continue;
    }
    if (!variable_of(l, p, i, &o))
      return dfi_unit_refuse(l->unit, p, "it is not known which variable it changes");
    dfi_analyze_given(l, o);
  }
  return look_call(l, loop, p);
}

/* A node that computes, reads or writes something. */
static bool look_computed(walk *w, const dfi_pnode *p, int32_t g) {
  dfi_look *l = w->look;
  const dfi_operand *in = l->plan->operand + p->in;
  if (p->kind == DFI_K_KERNEL && (dfi_is_read(p) || dfi_is_write(p)))
    return check_operands(l, w->at, p) && look_array(l, w->at, p) && arrive_all(w, p->edge[0], p->edge[1], g);
  if (dfi_is_tape(p)) return arrive_all(w, p->edge[0], p->edge[1], g);
  if (dfi_is_demand(p)) return check_operand(l, w->at, p, in[0]) && arrive_all(w, p->edge[0], p->edge[1], g);
  if (p->op->stateful && !(p->op->traits & DFO_RANDOM) && !dfi_is_change(p))
    return dfi_unit_refuse(l->unit, p, "it has effects, or reads what others change");
  if (!look_effect(l, w->at, p)) return false;
  if (dfi_is_alias(p) && p->nout == 1 && is_far(l, w->at, in[0]))
    return check_operands(l, w->at, p) && set_far(l, w->at, p, 0, p->out, in[0]) &&
           arrive_all(w, p->edge[0], p->edge[1], g);
  for (uint32_t i = 0; i < p->nout; i++) if (!check_output(l, w->at, p, (int32_t)i)) return false;
  if (dfi_is_change(p) ? !look_change(l, w->at, p) : !look_op(l, w->at, p) || !check_operands(l, w->at, p))
    return false;
  for (uint32_t i = 0; i < p->nout; i++) if (!set_slot(l, w->at, p, (int32_t)i, p->out + i, -1)) return false;
  return arrive_all(w, p->edge[0], p->edge[1], g);
}

static bool look_node(walk *w, uint32_t number) {
  dfi_look *l = w->look;
  dfi_analyze_loop *c = &l->loop[w->at];
  const dfi_pnode *p = c->nodes + number;
  dfi_analyze_node *n = &c->node[number];
  if (n->guard < 0) n->guard = 0;
  const int32_t g = n->guard;
  const dfi_operand *in = l->plan->operand + p->in;
  n->written = true;               /* that is: seen; write.c begins anew */
  w->ndone++;
  switch ((dfi_kind)p->kind) {
    case DFI_K_SWITCH: {
      if (!check_operands(l, w->at, p)) return false;
      const int32_t pair = guard_pair(c, g, in[1]), root = dfi_analyze_root(l, w->at, in[0]);
      if (is_far(l, w->at, in[0]))
        return set_far(l, w->at, p, 0, p->out, in[0]) && set_far(l, w->at, p, 1, p->out + 1, in[0]) &&
               arrive_all(w, p->edge[0], p->edge[1], pair) && arrive_all(w, p->edge[1], p->edge[2], pair + 1) &&
               arrive_all(w, p->edge[2], p->edge[3], g);
      return set_slot(l, w->at, p, 0, p->out, root) && set_slot(l, w->at, p, 1, p->out + 1, root) &&
             check_same(l, w->at, p, 0, in[0]) && check_same(l, w->at, p, 1, in[0]) &&
             arrive_all(w, p->edge[0], p->edge[1], pair) && arrive_all(w, p->edge[1], p->edge[2], pair + 1) &&
             arrive_all(w, p->edge[2], p->edge[3], g);
    }
    case DFI_K_MERGE: {
      const int32_t a = n->input[0], b = n->input[1];
      if (p->nin != 2 || a < 1 || b < 1 || c->guard[a].parent != c->guard[b].parent ||
          c->guard[a].pred != c->guard[b].pred || a == b)
        return dfi_unit_refuse(l->unit, p, "it does not join the two sides of a cond");
      n->guard = c->guard[a].parent;
      const int32_t root = dfi_analyze_root(l, w->at, in[0]);
      if (root != dfi_analyze_root(l, w->at, in[1])) return dfi_unit_refuse(l->unit, p,
                                                                            "it chooses between two arrays");
      return set_slot(l, w->at, p, 0, p->out, root) && set_slot(l, w->at, p, 1, p->out + 1, -1) &&
             check_same(l, w->at, p, 0, in[0]) && check_same(l, w->at, p, 0, in[1]) &&
             arrive_all(w, p->edge[0], p->edge[1], n->guard);
    }
    case DFI_K_ENTER: return check_operands(l, w->at, p) && look_enter_node(w, p, g);
    case DFI_K_NEXT: case DFI_K_EXIT: return check_operands(l, w->at, p);
    case DFI_K_CONST:
      return check_operand(l, w->at, p, in[0]) && check_same(l, w->at, p, 0, in[0]) &&
             set_slot(l, w->at, p, 0, p->out, -1) && arrive_all(w, p->edge[0], p->edge[1], g);
    case DFI_K_NOOP: return arrive_all(w, p->edge[0], p->edge[1], g);
    case DFI_K_ARG: return look_argument(l, w->at, p) && arrive_all(w, p->edge[0], p->edge[1], g);
    case DFI_K_CALL: return look_function_call(l, w->at, p) && arrive_all(w, p->edge[0], p->edge[1], g);
    case DFI_K_RETURN:
      c->result = p;
      if (g) return dfi_unit_refuse(l->unit, p, "what it returns may be dead");
      return check_operands(l, w->at, p) && arrive_all(w, p->edge[0], p->edge[1], g);
    case DFI_K_READ: return look_variable(l, w->at, p) && arrive_all(w, p->edge[0], p->edge[1], g);
    case DFI_K_SCALAR: case DFI_K_KERNEL: return look_computed(w, p, g);
    default: return dfi_unit_refuse(l->unit, p, "it has no native code");
  }
}

static int32_t loop_new(dfi_look *l, int32_t parent, int32_t guard, const dfi_scope *s) {
  l->loop = dfi_xrealloc(l->loop, sizeof *l->loop * (size_t)(l->nloops + 1));
  dfi_analyze_loop *c = &l->loop[l->nloops];
  *c = (dfi_analyze_loop){
    .scope = s, .nodes = l->plan->node + s->first, .parent = parent, .guard_in_parent = guard, .go_on = -1,
    .home = s->parent == DFI_FUNCTION ? l->nloops : parent >= 0 ? l->loop[parent].home : 0
  };
  c->node = dfi_xcalloc(s->n + 1, sizeof *c->node);
  for (uint32_t i = 0; i < s->n; i++) c->node[i].guard = c->node[i].input[0] = c->node[i].input[1] = -1;
  c->guard = dfi_xcalloc(1, sizeof *c->guard);
  c->guard[0].parent = -1;
  c->nguards = 1;
  c->slot_dtype = dfi_xcalloc(s->nslots + 1, 1);
  c->slot_root = dfi_xmalloc(sizeof *c->slot_root * (s->nslots + 1));
  c->slot_copy = dfi_xmalloc(sizeof *c->slot_copy * (s->nslots + 1));
  for (uint32_t i = 0; i < s->nslots; i++) c->slot_root[i] = c->slot_copy[i] = -1;
  for (uint32_t i = 0; i < s->ncopies; i++) {
    c->slot_copy[s->copies[i].slot] = (int32_t)s->copies[i].constant;
    c->slot_dtype[s->copies[i].slot] = l->plan->constant[s->copies[i].constant].dtype;
  }
  c->slot_shape = dfi_xcalloc(s->nslots + 1, sizeof *c->slot_shape);
  c->slot_far = dfi_xcalloc(s->nslots + 1, 1);
  c->slot_bare = dfi_xcalloc(s->nslots + 1, 1);
  c->slot_alias = dfi_xcalloc(s->nslots + 1, sizeof *c->slot_alias);
  c->const_shape = dfi_xcalloc(s->nconsts + 1, sizeof *c->const_shape);
  c->const_alias = dfi_xcalloc(s->nconsts + 1, sizeof *c->const_alias);
  c->const_dtype = dfi_xcalloc(s->nconsts + 1, 1);
  c->const_root = dfi_xmalloc(sizeof *c->const_root * (s->nconsts + 1));
  for (uint32_t i = 0; i < s->nconsts; i++) c->const_root[i] = -1;
  dfi_analyze_count(c, l->plan);
  return l->nloops++;
}

static dfi_nloop *unit_loop(dfi_look *l, int32_t at) {
  dfi_unit *u = l->unit;
  if (u->nloops < l->nloops) {
    u->loop = dfi_xrealloc(u->loop, sizeof *u->loop * (size_t)l->nloops);
    memset(u->loop + u->nloops, 0, sizeof *u->loop * (size_t)(l->nloops - u->nloops));
    u->nloops = l->nloops;
  }
  u->loop[at] = (dfi_nloop){ .scope = l->loop[at].scope, .parent = l->loop[at].parent };
  return &u->loop[at];
}

/* Each variable comes from an Enter and a NextIteration that share a slot; a loop goes on under one condition and ends
   under its opposite. */
static bool look_ends(dfi_look *l, int32_t at) {
  dfi_analyze_loop *c = &l->loop[at];
  dfi_unit *u = l->unit;
  const dfi_scope *s = c->scope;
  dfi_nloop *v = unit_loop(l, at);
  v->var = dfi_xcalloc(s->nenters + 1, sizeof *v->var);
  v->exit_root = dfi_xcalloc(s->nexits + 1, sizeof *v->exit_root);
  v->exit_var = dfi_xmalloc(sizeof *v->exit_var * (s->nexits + 1));
  v->exit_shape = dfi_xcalloc(s->nexits + 1, sizeof *v->exit_shape);
  uint32_t cells = 1;                                       /* after the iteration's number */
  for (uint32_t i = 0; i < s->nenters; i++) if (!s->enters[i]->constant) {
    v->var[v->nvars].enter = s->enters[i];
    v->var[v->nvars].shape = c->slot_shape[s->enters[i]->out];
    v->var[v->nvars].at = cells;
    cells += dfi_cells(s->enters[i]->node->out[0].dtype, v->var[v->nvars].shape);
    v->var[v->nvars++].root = c->slot_root[s->enters[i]->out];
  }
  int32_t nnext = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    const dfi_pnode *p = c->nodes + i;
    if (p->kind != DFI_K_NEXT && p->kind != DFI_K_EXIT) continue;
    const int32_t g = c->node[i].guard, go_on = p->kind == DFI_K_NEXT ? g : g + 1;
    if (g < 1 || c->guard[g].parent != 0 || c->guard[g].side != (p->kind == DFI_K_NEXT) ||
        (c->go_on >= 0 && c->go_on != go_on))
      return dfi_unit_refuse(u, p, "its loop does not go on under one condition");
    if (p->kind == DFI_K_EXIT && p->node->ncontrol) return dfi_unit_refuse(u, p, "it waits for something else too");
    c->go_on = go_on;
    if (p->kind == DFI_K_EXIT) {
      if (!check_same(l, at, p, 0, l->plan->operand[p->in])) return false;
      v->exit_root[p->child] = dfi_analyze_root(l, at, l->plan->operand[p->in]);
      if (dfi_analyze_shape(l, at, l->plan->operand[p->in])) v->exit_shape[p->child] = dfi_out_shape(l, p, 0);
      continue;
    }
    int32_t k = 0;
    while (k < v->nvars && (v->var[k].enter->out != p->out || v->var[k].next)) k++;
    if (k == v->nvars || !p->merges) return dfi_unit_refuse(u, p, "its loop is not an ordinary while_loop");
    v->var[k].next = p;
    nnext++;
    if (!check_same(l, at, v->var[k].enter, 0, l->plan->operand[p->in])) return false;
    if (dfi_analyze_root(l, at, l->plan->operand[p->in]) != v->var[k].root)
      return dfi_unit_refuse(u, p, "the loop's arrays change places");
    if (p->node->out[0].dtype == DF_RESOURCE && v->var[k].root < 0)
      return dfi_unit_refuse(u, p, "it is a handle of something else than an array");
  }
  if (nnext != v->nvars || c->go_on < 0)
    return dfi_unit_refuse(u, v->nvars ? v->var[0].enter : NULL, "its loop is not an ordinary while_loop");
  return true;
}

static bool is_result(const dfi_unit *u, uint32_t slot) {
  for (uint32_t k = 0; k < u->nresults; k++) if (u->result[k].slot == slot) return true;
  return false;
}

/* What a plan's top level hands back is there in each run. */
static bool look_top(dfi_look *l) {
  dfi_unit *u = l->unit;
  const dfi_analyze_loop *c = &l->loop[0];
  uint32_t cell = 0;
  u->loop = dfi_xcalloc(1, sizeof *u->loop);
  u->loop[u->nloops++] = (dfi_nloop){ .scope = c->scope, .parent = -1 };
  u->result = dfi_xcalloc((size_t)l->plan->nfetch + 1, sizeof *u->result);
  for (int32_t i = 0; i < l->plan->nfetch; i++) {
    const dfi_pnode *p = l->plan->fetch_node[i];
    const dfi_operand o = l->plan->fetch[i];
    if (!p || o == ~0u || DFI_SPACE(o) != DFI_ITERATION) continue;
    const uint32_t slot = DFI_INDEX(o);
    if (is_result(u, slot)) continue;
    if (p->kind == DFI_K_SWITCH || c->node[p - c->nodes].guard != 0)
      return dfi_unit_refuse(u, p, "it is fetched, and may be dead");
    const uint8_t dtype = c->slot_dtype[slot];
    if (!dtype || dtype == DF_RESOURCE) return dfi_unit_refuse(u, p, "it is fetched, and is neither number nor tensor");
    u->result[u->nresults++] = (dfi_result){ p, slot, cell, dtype, c->slot_shape[slot] };
    cell += dfi_cells(dtype, c->slot_shape[slot]);
  }
  u->nout = cell;
  return true;
}

/* All nodes of a loop, a function, or the plan's top level. */
static bool look_nodes(dfi_look *l, int32_t at) {
  const dfi_scope *s = l->loop[at].scope;
  walk w = { .look = l, .at = at };
  w.ready = dfi_xmalloc(sizeof *w.ready * (s->n + 1));
  bool ok = true;
  for (uint32_t i = 0; i < s->nroots; i++) w.ready[w.nready++] = s->roots[i];
  for (uint32_t i = 0; i < s->nenters && ok; i++)
    ok = look_enter(l, at, s->enters[i]) &&
         (s->enters[i]->constant || arrive_all(&w, s->enters[i]->edge[0], s->enters[i]->edge[1], 0));
  while (w.nready && ok) ok = look_node(&w, w.ready[--w.nready]);
  dfi_free(w.ready);
  if (ok && w.ndone < s->n) ok = dfi_unit_refuse(l->unit, NULL, "some of its nodes wait for what never comes");
  return ok;
}

static bool look_loop(dfi_look *l, int32_t parent, int32_t guard, const dfi_scope *s) {
  const int32_t at = loop_new(l, parent, guard, s);
  if (l->nloops > 64) return dfi_unit_refuse(l->unit, NULL, "it has more than 64 loops and functions");
  return look_nodes(l, at) && (s->id ? look_ends(l, at) : look_top(l));
}

static bool look_function(dfi_look *l, const dfi_pnode *call) {
  const dfi_scope *s = &l->plan->scope[call->target];
  const int32_t at = loop_new(l, -1, 0, s);
  l->loop[at].variable = dfi_xmalloc(sizeof *l->loop->variable * (call->nin + 1));
  for (uint32_t i = 0; i < call->nin; i++)
    if (dfi_dtype(call->node->in[i]) != DF_RESOURCE || !variable_of(l, call, i, &l->loop[at].variable[i]))
      l->loop[at].variable[i] = ~0u;
  if (l->nloops > 64) return dfi_unit_refuse(l->unit, NULL, "it has more than 64 loops and functions");
  l->loop[at].active = true;
  const bool ok = look_nodes(l, at);
  l->loop[at].active = false;
  unit_loop(l, at);
  return ok && (l->loop[at].result || dfi_unit_refuse(l->unit, NULL, "`%s` does not return", s->name));
}

const dfi_pnode *dfi_argument_of(const dfi_analyze_loop *f, uint32_t argument) {
  uint32_t n = 0;
  while (f->nodes[n].kind != DFI_K_ARG || f->nodes[n].enter != argument) n++;
  return &f->nodes[n];
}

/* A call of it from which its variables are known, if that may be: not one of a function's. */
static const dfi_pnode *call_of(const dfi_plan *p, const dfi_scope *f) {
  const dfi_pnode *found = NULL;
  for (int32_t i = 0; i < p->nscopes; i++)
    for (uint32_t n = 0; n < p->scope[i].n; n++) {
      const dfi_pnode *q = &p->node[p->scope[i].first + n];
      if (q->kind != DFI_K_CALL || q->target != (uint32_t)f->id) continue;
      if (!dfi_is_function(&p->scope[i])) return q;
      found = q;
    }
  return found;
}

/* A function that tokens call: what is given to the call, and what comes of it. */
static bool look_called(dfi_look *l) {
  static const dfi_scope nothing = { .id = -3, .parent = -1, .name = "" };
  dfi_unit *u = l->unit;
  const dfi_pnode *call = call_of(l->plan, u->scope);
  loop_new(l, -1, 0, &nothing);
  if (!call) return dfi_unit_refuse(u, NULL, "it is not called");
  if (!look_function(l, call)) return false;
  const dfi_analyze_loop *f = &l->loop[1];
  unit_loop(l, 0);
  u->bound = dfi_xcalloc((size_t)call->nin + 1, sizeof *u->bound);
  for (uint32_t i = 0; i < call->nin; i++)
    if (f->variable[i] != ~0u) u->bound[u->nbound++] = (dfi_bound){ i, f->variable[i] };
  for (uint32_t n = 0; n < f->scope->n; n++)
    if (f->nodes[n].kind == DFI_K_ARG && f->nodes[n].out_dtypes[0] != DF_RESOURCE)
      dfi_analyze_given(l, DFI_OPERAND(DFI_FRAME, f->nodes[n].enter));
  u->result = dfi_xcalloc((size_t)f->result->nin + 1, sizeof *u->result);
  for (uint32_t k = 0; k < f->result->nin; k++) {
    const uint8_t dtype = dfi_dtype(f->result->node->in[k]);
    const dfi_shape *shape = dfi_analyze_shape(l, 1, l->plan->operand[f->result->in + k]);
    if (dtype == DF_RESOURCE) continue;
    u->result[u->nresults++] = (dfi_result){ f->result, k, u->nout, dtype, shape };
    u->nout += dfi_cells(dtype, shape);
  }
  return true;
}

/* The plan's constants that are tensors, and lie on the host. */
static void look_constants(dfi_look *l) {
  l->constant_shape = dfi_xcalloc((size_t)l->plan->nconstants + 1, sizeof *l->constant_shape);
  for (int32_t i = 0; i < l->plan->nconstants && !l->plan->cut; i++) {
    const df_value *v = &l->plan->constant[i];
    if (v->kind != DF_TENSOR) continue;
    const dfi_shape s = dfi_shape_of(v->as.tensor->rank, v->as.tensor->dims);
    const bool empty = v->as.tensor->size == 0 && dfi_unboxed(v->dtype);      /* the shape of a number, say */
    if (empty || dfi_sized(v->dtype, &s)) *(l->constant_shape[i] = dfi_xmalloc(sizeof s)) = s;
  }
}

bool dfi_analyze_at(dfi_look *l) {
  l->plan = l->unit->plan;
  look_constants(l);
  const bool called = dfi_is_function(l->unit->scope);
  if (!(called ? look_called(l) : look_loop(l, -1, 0, l->unit->scope)) || !look_results(l)) return false;
  if (!dfi_analyze_variables(l)) return false;
  for (int32_t i = 0; i < l->nloops; i++)
    for (uint32_t k = 0; k < l->loop[i].scope->n; k++) l->loop[i].node[k].written = false;
  return true;
}

void dfi_analyze_free(dfi_look *l) {
  for (int32_t i = 0; i < l->nloops; i++) {
    dfi_analyze_loop *c = &l->loop[i];
    for (uint32_t n = 0; c->node && n < c->scope->n; n++) dfi_free(c->node[n].boxes);
    dfi_free(c->node);
    dfi_free(c->guard);
    dfi_free(c->slot_dtype);
    dfi_free(c->slot_root);
    dfi_free(c->slot_copy);
    dfi_free(c->slot_shape);
    dfi_free(c->slot_alias);
    dfi_free(c->slot_far);
    dfi_free(c->slot_bare);
    dfi_free(c->const_alias);
    dfi_free(c->const_shape);
    dfi_free(c->const_dtype);
    dfi_free(c->const_root);
    dfi_free(c->variable);
  }
  for (int32_t i = 0; l->constant_shape && i < l->plan->nconstants; i++) dfi_free(l->constant_shape[i]);
  dfi_free(l->loop); dfi_free(l->given); dfi_free(l->constant_shape);
}
