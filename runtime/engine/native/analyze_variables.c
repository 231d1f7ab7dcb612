/* analyze_variables.c: where the variables of a unit's loops lie, and whether copying them pays.
 *
 * A variable that passes on what it is, or whose next value is its own with rows written over, stays where it lies. In
 * the outermost loop it lies in the frame's own tensor, of any size; elsewhere it has a place of the unit's, which it
 * is copied to when its loop begins.
 */
#include "engine/native/analyze.h"

const dfi_pnode *dfi_maker_of(const dfi_analyze_loop *c, dfi_operand o) {
  for (uint32_t n = 0; DFI_SPACE(o) == DFI_ITERATION && n < c->scope->n; n++) {
    const dfi_pnode *p = &c->nodes[n];
    if (p->kind == DFI_K_NEXT || p->kind == DFI_K_ENTER || p->kind == DFI_K_EXIT) continue;
    if (DFI_INDEX(o) - p->out < p->nout) return p;
  }
  return NULL;
}

/* What Switches and reshapes have handed on as o. */
static dfi_operand handed_on(const dfi_look *l, int32_t i, dfi_operand o) {
  const dfi_pnode *p;
  while ((p = dfi_maker_of(&l->loop[i], o)) && (p->kind == DFI_K_SWITCH || dfi_is_alias(p)))
    o = l->plan->operand[p->in];
  return o;
}

/* Which of the loop's variables o is, perhaps of another shape; -1: none. */
static int32_t variable_of(const dfi_look *l, int32_t i, dfi_operand o) {
  o = handed_on(l, i, o);
  const dfi_nloop *v = &l->unit->loop[i];
  int32_t k = v->nvars;
  while (k-- && o != DFI_OPERAND(DFI_ITERATION, v->var[k].enter->out)) ;
  return k;
}

/* Is o a tensor that may be gone when rows are written, at the iteration's end? Variables whose own rows are written
   come first then, one after the other; a number that became a tensor has a place of its own. */
static bool may_be_gone(const dfi_look *l, int32_t i, dfi_operand o) {
  const int32_t k = variable_of(l, i, o);
  if (k < 0 || !l->unit->loop[i].var[k].shape) return false;
  const dfi_pnode *p = dfi_maker_of(&l->loop[i], l->plan->operand[l->unit->loop[i].var[k].next->in]);
  return p && (p->kind == DFI_K_MERGE || dfi_scatter_known(l, i, p));
}

static int32_t readers_of(const dfi_look *l, int32_t i, uint32_t slot) {
  const dfi_analyze_loop *c = &l->loop[i];
  int32_t readers = 0;
  for (uint32_t n = 0; n < c->scope->n; n++)
    for (uint32_t k = 0; k < c->nodes[n].nin; k++)
      readers += l->plan->operand[c->nodes[n].in + k] == DFI_OPERAND(DFI_ITERATION, slot);
  return readers;
}

/* Can p's rows be written when the iteration is over, and does nothing but the next p, or the next iteration, read what
   comes of it? */
static bool may_write_over(const dfi_look *l, int32_t i, const dfi_pnode *p) {
  const dfi_analyze_loop *c = &l->loop[i];
  const dfi_analyze_node *n = &c->node[p - c->nodes];
  return n->moves && !p->invariant && (n->guard == 0 || dfi_guard_inside(c, n->guard, c->go_on)) &&
         dfi_scatter_known(l, i, p) && readers_of(l, i, p->out) == 1 &&
         !may_be_gone(l, i, l->plan->operand[p->in + 2]);
}

/* Is o variable k with rows written over, or not, as conds have it? marks: the nodes that write, and join, are told. */
static bool written_over(dfi_look *l, int32_t i, int32_t k, dfi_operand o, bool marks) {
  dfi_analyze_loop *c = &l->loop[i];
  const dfi_pnode *p = dfi_maker_of(c, o);
  const bool joins = p && p->kind == DFI_K_MERGE && readers_of(l, i, p->out) == 1;
  if (!joins && !(p && may_write_over(l, i, p)))
    return handed_on(l, i, o) == DFI_OPERAND(DFI_ITERATION, l->unit->loop[i].var[k].enter->out);
  if (marks) c->slot_bare[p->out] = c->node[p - c->nodes].over = true;
  return written_over(l, i, k, l->plan->operand[p->in], marks) &&
         (!joins || written_over(l, i, k, l->plan->operand[p->in + 1], marks));
}

/* Variables whose next value is their own with rows written over. */
static void find_over(dfi_look *l, int32_t i) {
  for (int32_t k = 0; k < l->unit->loop[i].nvars; k++) {
    const dfi_operand next = l->plan->operand[l->unit->loop[i].var[k].next->in];
    const dfi_shape *s = l->unit->loop[i].var[k].shape;
    const dfi_pnode *p = dfi_maker_of(&l->loop[i], next);
    const bool makes = p && (p->kind == DFI_K_MERGE || may_write_over(l, i, p));
    if (!s || dfi_shape_size(s) <= DFI_DIRECT || !makes || !written_over(l, i, k, next, false)) continue;
    l->unit->loop[i].var[k].over = true;
    written_over(l, i, k, next, true);
  }
}

/* Is variable k in the next iteration what it was, where it was? */
static bool is_kept(const dfi_look *l, int32_t i, int32_t k) {
  const dfi_nloop *v = &l->unit->loop[i];
  return v->var[k].over || handed_on(l, i, l->plan->operand[v->var[k].next->in]) ==
                               DFI_OPERAND(DFI_ITERATION, v->var[k].enter->out);
}

/* Variables of the outermost loop that lie in the frame's tensors. */
static void find_in_place(dfi_look *l) {
  dfi_nloop *v = &l->unit->loop[0];
  uint32_t cells = 1;
  for (int32_t k = 0; k < v->nvars; k++) {
    const dfi_shape *s = v->var[k].shape;
    v->var[k].in_place = s && dfi_shape_size(s) > DFI_DIRECT && is_kept(l, 0, k);
    if (v->var[k].in_place) l->loop[0].slot_bare[v->var[k].enter->out] = 1;
    v->var[k].at = cells;
    cells += dfi_variable_cells(v, k);
  }
}

/* What p hands on, or writes rows of, has it room? */
static bool room_for(dfi_look *l, int32_t i, const dfi_pnode *p, uint32_t slot) {
  const dfi_shape *s = l->loop[i].slot_shape[slot];
  char text[200];
  if (!s || l->loop[i].slot_bare[slot] || l->loop[i].slot_far[slot]) return true;
  if (dfi_shape_size(s) > DFI_SMALL)
    return dfi_unit_refuse(l->unit, p, "it is %s, and of so many elements only rows are written, in the outermost loop",
                           dfi_typed_shape_text(l->loop[i].slot_dtype[slot], s, text));
  return dfi_take_room(l, p, l->loop[i].slot_dtype[slot], s);
}

static bool have_room(dfi_look *l, int32_t i) {
  const dfi_scope *s = l->loop[i].scope;
  for (uint32_t k = 0; k < s->nenters; k++)
    if (!s->enters[k]->constant && !room_for(l, i, s->enters[k], s->enters[k]->out)) return false;
  for (uint32_t k = 0; l->loop[i].parent >= 0 && k < s->nexits; k++)
    if (!room_for(l, l->loop[i].parent, s->exits[k], s->exits[k]->out)) return false;
  for (uint32_t n = 0; n < s->n; n++) {
    const dfi_pnode *p = &l->loop[i].nodes[n];
    const bool makes = p->kind == DFI_K_MERGE || (p->kind == DFI_K_KERNEL && !dfi_is_alias(p));
    if (makes && dfi_carries(l, i, p) && !room_for(l, i, p, p->out)) return false;
  }
  return true;
}

/* Nodes of loop i and those inside it. */
static int64_t nodes_of(const dfi_look *l, int32_t i) {
  int64_t n = l->loop[i].scope->n;
  for (int32_t c = i + 1; c < l->nloops; c++) if (l->loop[c].parent == i) n += nodes_of(l, c);
  return n;
}

/* The bytes of variable k, if it is a tensor. */
static int64_t bytes_of(const dfi_nloop *v, int32_t k) {
  return v->var[k].shape ? dfi_shape_size(v->var[k].shape) * dfi_dtype_size[v->var[k].next->out_dtypes[0]] : 0;
}

/* Do tokens compute all elements of variable k anew, too? */
static bool is_made(const dfi_look *l, int32_t i, int32_t k) {
  const dfi_pnode *p = dfi_maker_of(&l->loop[i], handed_on(l, i, l->plan->operand[l->unit->loop[i].var[k].next->in]));
  return p && (p->kind == DFI_K_KERNEL || p->kind == DFI_K_SCALAR) && !dfi_carries(l, i, p);
}

/* Native code copies a loop's tensors from one iteration to the next, and when an inner loop begins, where tokens hand
 * them on, or write into them. A kB takes it some 25 ns, and a node takes tokens some 55. What both compute anew it
 * copies in less than it gains by computing several ops at once. */
static bool copies_pay(dfi_look *l, int32_t i) {
  enum { NS_OF_NODE = 55, BYTES_IN_NS = 40 };
  const dfi_nloop *v = &l->unit->loop[i];
  int64_t bytes = 0;
  for (int32_t k = 0; k < v->nvars; k++) if (!is_kept(l, i, k) && !is_made(l, i, k)) bytes += bytes_of(v, k);
  for (int32_t c = i + 1; c < l->nloops; c++)
    for (int32_t k = 0; l->loop[c].parent == i && k < l->unit->loop[c].nvars; k++)
      if (is_kept(l, c, k)) bytes += bytes_of(&l->unit->loop[c], k);
  if (bytes / BYTES_IN_NS <= nodes_of(l, i) * NS_OF_NODE) return true;
  return dfi_unit_refuse(l->unit, v->nvars ? v->var[0].enter : NULL,
                         "its variables have %lld kB, which native code would copy in each iteration and tokens hand "
                         "on: that takes longer than tokens do for its %lld nodes",
                         (long long)(bytes >> 10), (long long)nodes_of(l, i));
}

bool dfi_analyze_variables(dfi_look *l) {
  const bool loops = l->unit->scope->id != 0;            /* a plan's top level has none around it */
  for (int32_t i = 0; loops && i < l->nloops; i++) find_over(l, i);
  if (loops) find_in_place(l);
  for (int32_t i = 0; i < l->nloops; i++) if (!have_room(l, i)) return false;
  for (int32_t i = 0; loops && i < l->nloops; i++) if (!copies_pay(l, i)) return false;
  return true;
}
