/* functions_flow.c: If, Case, While and For as the five primitives, their functions in line.
 *
 *   If     Switch per argument, both branches in line behind it, Merge per result
 *   Case   a tree of these; an index out of range takes the last branch, as in TensorFlow
 *   While  Enter, Merge, cond, LoopCond, Switch, body, NextIteration, Exit; an argument that the body returns as it
 *          came is a loop constant
 *   For    a While that counts
 */
#include "tensorflow/functions.h"

/* The name of a bool that says whether `condition` holds. */
static const char *as_bool(dfi_lower *l, const Pb__NodeDef *n, const char *condition, const char *base) {
  const Pb__AttrValue *t = dfi_attr_find(n, "Tcond");
  if (t && t->value_case == PB__ATTR_VALUE__VALUE_TYPE && t->type == PB__DATA_TYPE__DT_BOOL) return condition;
  Pb__NodeDef *b = dfi_lower_node(l, "ToBool", dfi_lower_text(l, "%s/%s", n->name, base));
  dfi_lower_input(l, b, condition);
  return b->name;
}

/* One side of a cond whose pred is `pred`: its nodes are named `name/…`. */
typedef struct side {
  const char *name, *pred;
  int32_t     port;                            /* it runs where pred is port */
  const char *live;                            /* the Identity that is live where it runs */
  const char *gate;                            /* the same as a control input */
  dfi_texts   in;                              /* what it is given, behind its Switches */
  dfi_texts   ret;                             /* its results */
  const char *done;                            /* a node for the order of effects */
} side;

/* The Switches of a side. waits: what it is given may be there before the gate. */
static void put_switches(dfi_lower *l, side *s, const dfi_texts *in, const char *gate, bool waits) {
  Pb__NodeDef *pivot = dfi_lower_node(l, "Switch", dfi_lower_text(l, "%s/pivot_switch", s->name));
  dfi_lower_input(l, pivot, s->pred);
  dfi_lower_input(l, pivot, s->pred);
  if (gate) dfi_lower_input(l, pivot, gate);
  Pb__NodeDef *live = dfi_lower_node(l, "Identity", dfi_lower_text(l, "%s/pivot", s->name));
  dfi_lower_input(l, live, dfi_lower_text(l, "%s:%d", pivot->name, s->port));
  s->live = live->name;
  s->gate = dfi_lower_text(l, "^%s", live->name);
  s->in = dfi_texts_new(l, in->n);
  for (size_t i = 0; i < in->n; i++) {
    Pb__NodeDef *n = dfi_lower_node(l, "Switch", dfi_lower_text(l, "%s/switch_%zu", s->name, i));
    dfi_lower_input(l, n, in->at[i]);
    dfi_lower_input(l, n, s->pred);
    if (gate && (waits || !dfi_lower_hangs(n))) dfi_lower_input(l, n, gate);
    s->in.at[i] = dfi_lower_text(l, "%s:%d", n->name, s->port);
  }
}

/* It has its results, after all of `control`. */
static void put_done(dfi_lower *l, side *s, const dfi_texts *control) {
  Pb__NodeDef *d = dfi_lower_node(l, "Identity", dfi_lower_text(l, "%s/done", s->name));
  dfi_lower_input(l, d, s->live);
  dfi_lower_add(l, d, control);
  s->done = d->name;
}

/* Merges what both sides gave as `name/merge_i`. *ret: the results, *control: what waits for it. */
static int32_t merge_sides(dfi_lower *l, const Pb__NodeDef *call, const char *name, const side *s, dfi_texts *ret,
                           dfi_texts *control) {
  if (s[0].ret.n != s[1].ret.n)
    return dfi_lower_fail(l, "the branches of `%s` (%s) give %zu and %zu results", call->name, call->op, s[0].ret.n,
                          s[1].ret.n);
  *ret = dfi_texts_new(l, s[0].ret.n);
  *control = dfi_texts_new(l, 1);
  for (size_t i = 0; i < ret->n; i++) {
    Pb__NodeDef *m = dfi_lower_node(l, "Merge", dfi_lower_text(l, "%s/merge_%zu", name, i));
    for (int32_t k = 0; k < 2; k++) dfi_lower_input(l, m, s[k].ret.at[i]);
    ret->at[i] = m->name;
  }
  Pb__NodeDef *d = dfi_lower_node(l, "Merge", dfi_lower_text(l, "%s/merged", name));
  for (int32_t k = 0; k < 2; k++) dfi_lower_input(l, d, s[k].done);
  control->at[0] = dfi_lower_text(l, "^%s", d->name);
  return DF_OK;
}

int32_t dfi_lower_if(dfi_lower *l, Pb__NodeDef *n, const char *gate) {
  dfi_texts in = dfi_lower_inputs(l, n), ret, control;
  if (!in.n) return dfi_lower_fail(l, "node `%s` (%s) has no predicate", n->name, n->op);
  const char *pred = as_bool(l, n, in.at[0], "predicate");
  in.at++; in.n--;
  const bool waits = dfi_lower_waits(n, gate);
  gate = dfi_lower_gate(l, n, gate);
  side s[2];
  for (int32_t k = 0; k < 2; k++) {
    Pb__NameAttrList *attrs;
    const int32_t f = dfi_lower_function_attr(l, n, k ? "then_branch" : "else_branch", &attrs);
    if (f < 0) return l->err->code;
    s[k] = (side){ .name = dfi_lower_text(l, "%s/%s", n->name, k ? "then" : "else"), .pred = pred, .port = k };
    put_switches(l, &s[k], &in, gate, waits);
    int32_t code = dfi_lower_function(l, f, (const Pb__AttrEntry *const *)attrs->attr, attrs->n_attr, s[k].name,
                                      &s[k].in, s[k].gate, false, &s[k].ret, &control);
    if (code) return code;
    put_done(l, &s[k], &control);
  }
  int32_t code = merge_sides(l, n, n->name, s, &ret, &control);
  if (!code) dfi_lower_result(l, n, &ret, &control, gate);
  return code;
}

/* The function of branch b of n. */
static int32_t put_branch(dfi_lower *l, const Pb__NodeDef *n, size_t b, const dfi_texts *in, const char *gate,
                          bool waits, dfi_texts *ret, dfi_texts *control) {
  Pb__NameAttrList *attrs = dfi_graphdef_function(l->d, dfi_attr_find(n, "branches")->list->func[b], l->err);
  if (!attrs) return l->err->code;
  const int32_t f = dfi_lower_find(l, attrs->name);
  if (f < 0)
    return dfi_lower_fail(l, "node `%s` (%s): there is no function `%s` in the library (branch %zu)", n->name, n->op,
                          attrs->name, b);
  return dfi_lower_function(l, f, (const Pb__AttrEntry *const *)attrs->attr, attrs->n_attr,
                            dfi_lower_text(l, "%s/branch_%zu", n->name, b), in, gate, waits, ret, control);
}

/* Branches low to high - 1 of n, of which in->at[0], the index, picks one: a tree of conds; nodes are `name/…`. */
static int32_t put_branches(dfi_lower *l, const Pb__NodeDef *n, const char *name, size_t low, size_t high,
                            const dfi_texts *in, const char *gate, bool waits, dfi_texts *ret, dfi_texts *control) {
  const dfi_texts given = { in->at + 1, in->n - 1 };
  if (high - low == 1) return put_branch(l, n, low, &given, gate, waits, ret, control);
  const size_t middle = (low + high) / 2;
  side s[2];
  Pb__NodeDef *less = dfi_lower_node(l, "Less", dfi_lower_text(l, "%s/below_%zu", name, middle));
  dfi_lower_input(l, less, in->at[0]);
  dfi_lower_input(l, less, dfi_lower_const(l, dfi_lower_text(l, "%s/number_%zu", name, middle), (int32_t)middle, gate));
  for (int32_t k = 0; k < 2; k++) {
    const size_t from = k ? low : middle, to = k ? middle : high;
    dfi_texts inner;
    s[k] = (side){ .name = dfi_lower_text(l, "%s/branches_%zu_%zu", n->name, from, to - 1), .pred = less->name,
                   .port = k };
    put_switches(l, &s[k], in, gate, waits);
    int32_t code = put_branches(l, n, s[k].name, from, to, &s[k].in, s[k].gate, false, &s[k].ret, &inner);
    if (code) return code;
    put_done(l, &s[k], &inner);
  }
  return merge_sides(l, n, name, s, ret, control);
}

/* An index that is none of the `branches` means the last one, as in TensorFlow; the tree sees to large ones. */
static const char *within(dfi_lower *l, const Pb__NodeDef *n, const char *index, size_t branches, const char *gate) {
  Pb__NodeDef *negative = dfi_lower_node(l, "Less", dfi_lower_text(l, "%s/is_negative", n->name));
  dfi_lower_input(l, negative, index);
  dfi_lower_input(l, negative, dfi_lower_const(l, dfi_lower_text(l, "%s/zero", n->name), 0, gate));
  Pb__NodeDef *pick = dfi_lower_node(l, "SelectV2", dfi_lower_text(l, "%s/index", n->name));
  dfi_lower_input(l, pick, negative->name);
  dfi_lower_input(l, pick, dfi_lower_const(l, dfi_lower_text(l, "%s/last", n->name), (int32_t)branches - 1, gate));
  dfi_lower_input(l, pick, index);
  return pick->name;
}

/* The gate of the only branch, which is always taken, once the index is there. */
static const char *after(dfi_lower *l, const Pb__NodeDef *n, const char *index, const char *gate) {
  Pb__NodeDef *there = dfi_lower_node(l, "Identity", dfi_lower_text(l, "%s/index", n->name));
  dfi_lower_input(l, there, index);
  if (gate) dfi_lower_input(l, there, gate);
  return dfi_lower_text(l, "^%s", there->name);
}

int32_t dfi_lower_case(dfi_lower *l, Pb__NodeDef *n, const char *gate) {
  const Pb__AttrValue *list = dfi_attr_find(n, "branches");
  dfi_texts in = dfi_lower_inputs(l, n), ret, control;
  const size_t branches = list && list->value_case == PB__ATTR_VALUE__VALUE_LIST && list->list ? list->list->n_func : 0;
  if (!branches || !in.n) return dfi_lower_fail(l, "node `%s` (%s) has no index or no branches", n->name, n->op);
  const bool waits = dfi_lower_waits(n, gate);
  gate = dfi_lower_gate(l, n, gate);
  if (branches > 1) in.at[0] = within(l, n, in.at[0], branches, gate);
  else gate = after(l, n, in.at[0], gate);
  int32_t code = put_branches(l, n, n->name, 0, branches, &in, gate, waits || branches == 1, &ret, &control);
  if (!code) dfi_lower_result(l, n, &ret, &control, gate);
  return code;
}

/* Does f return its argument i as its result i? */
static bool returns_as_it_came(const Pb__FunctionDef *f, size_t i) {
  const Pb__OpDef *s = f->signature;
  if (i >= s->n_input_arg || i >= s->n_output_arg) return false;
  const char *value = NULL;
  for (size_t k = 0; k < f->n_ret; k++) if (!strcmp(f->ret[k]->key, s->output_arg[i]->name)) value = f->ret[k]->value;
  for (int32_t patience = 0; value && patience < 100; patience++) {
    size_t n = strcspn(value, ":");
    if (!strncmp(s->input_arg[i]->name, value, n) && !s->input_arg[i]->name[n]) return true;
    const Pb__NodeDef *by = NULL;
    for (size_t k = 0; k < f->n_node_def; k++)
      if (!strncmp(f->node_def[k]->name, value, n) && !f->node_def[k]->name[n]) by = f->node_def[k];
    if (!by || strcmp(by->op, "Identity") || by->n_input != 1) return false;
    value = by->input[0];
  }
  return false;
}

static void frame_attrs(dfi_lower *l, Pb__NodeDef *enter, const Pb__NodeDef *loop, bool constant) {
  const Pb__AttrValue *p = dfi_attr_find(loop, "parallel_iterations");
  dfi_lower_string(l, enter, "frame_name", dfi_lower_text(l, "%s/while", loop->name));
  dfi_lower_bool(l, enter, "is_constant", constant);
  dfi_lower_int(l, enter, "parallel_iterations", p && p->value_case == PB__ATTR_VALUE__VALUE_I && p->i > 0 ? p->i : 10);
}

/* The nodes of the loop n, variable by variable. A constant has an Enter alone. */

/* Enter of value as `n/name`. */
static Pb__NodeDef *put_enter(dfi_lower *l, const Pb__NodeDef *n, const char *name, const char *value, bool constant,
                              const char *gate) {
  Pb__NodeDef *enter = dfi_lower_node(l, "Enter", dfi_lower_text(l, "%s/%s", n->name, name));
  dfi_lower_input(l, enter, value);
  if (gate) dfi_lower_input(l, enter, gate);
  frame_attrs(l, enter, n, constant);
  return enter;
}

/* The Merge of variable i, of its Enter and of a NextIteration yet to come; its name. */
static const char *put_merge(dfi_lower *l, const Pb__NodeDef *n, size_t i, const Pb__NodeDef *enter) {
  Pb__NodeDef *merge = dfi_lower_node(l, "Merge", dfi_lower_text(l, "%s/merge_%zu", n->name, i));
  dfi_lower_input(l, merge, enter->name);
  dfi_lower_input(l, merge, dfi_lower_text(l, "%s/next_%zu", n->name, i));
  return merge->name;
}

/* The Switch of variable i and what the body reads, whose name is returned; *exit, unless exit is NULL: its Exit's. */
static const char *put_switch(dfi_lower *l, const Pb__NodeDef *n, size_t i, const Pb__NodeDef *condition,
                              const char **exit) {
  Pb__NodeDef *s = dfi_lower_node(l, "Switch", dfi_lower_text(l, "%s/switch_%zu", n->name, i));
  dfi_lower_input(l, s, dfi_lower_text(l, "%s/merge_%zu", n->name, i));
  dfi_lower_input(l, s, condition->name);
  Pb__NodeDef *id = dfi_lower_node(l, "Identity", dfi_lower_text(l, "%s/body_%zu", n->name, i));
  dfi_lower_input(l, id, dfi_lower_text(l, "%s:1", s->name));
  if (exit) {
    Pb__NodeDef *e = dfi_lower_node(l, "Exit", dfi_lower_text(l, "%s/exit_%zu", n->name, i));
    dfi_lower_input(l, e, s->name);
    *exit = e->name;
  }
  return id->name;
}

/* The NextIteration of variable i with value, after the body's pivot and what the body must run. */
static void put_next(dfi_lower *l, const Pb__NodeDef *n, size_t i, const char *value, const char *pivot,
                     const dfi_texts *control) {
  Pb__NodeDef *next = dfi_lower_node(l, "NextIteration", dfi_lower_text(l, "%s/next_%zu", n->name, i));
  dfi_lower_input(l, next, value);
  if (!dfi_lower_hangs(next)) dfi_lower_input(l, next, pivot);
  dfi_lower_add(l, next, control);
}

/* Which of the loop's n variables come out of its body as they went in: these are constants. One stays a variable. */
static bool *constants_of(dfi_lower *l, const Pb__FunctionDef *body, size_t n) {
  bool *constant = memset(dfi_arena_take(&l->d->arena, n), 0, n);
  size_t variables = 0;
  for (size_t i = 0; i < n; i++) {
    constant[i] = returns_as_it_came(body, i) && !(i + 1 == n && !variables);
    variables += !constant[i];
  }
  return constant;
}

/* The LoopCond of n: function f of merged, after the node `first`. *condition: the node. */
static int32_t put_condition(dfi_lower *l, Pb__NodeDef *n, int32_t f, const Pb__NameAttrList *attrs,
                             const dfi_texts *merged, const char *first, Pb__NodeDef **condition) {
  dfi_texts ret, control;
  int32_t code = dfi_lower_function(l, f, (const Pb__AttrEntry *const *)attrs->attr, attrs->n_attr,
                                    dfi_lower_text(l, "%s/cond", n->name), merged, dfi_lower_text(l, "^%s", first),
                                    false, &ret, &control);
  if (code) return code;
  if (ret.n != 1)
    return dfi_lower_fail(l, "the cond of `%s` (%s) gives %zu results, it must give one", n->name, n->op, ret.n);
  const char *pred = ret.at[0];
  if (l->function[f].def->signature->output_arg[0]->type != PB__DATA_TYPE__DT_BOOL) {
    Pb__NodeDef *b = dfi_lower_node(l, "ToBool", dfi_lower_text(l, "%s/predicate", n->name));
    dfi_lower_input(l, b, pred);
    pred = b->name;
  }
  *condition = dfi_lower_node(l, "LoopCond", dfi_lower_text(l, "%s/loop_cond", n->name));
  dfi_lower_input(l, *condition, pred);
  dfi_lower_add(l, *condition, &control);
  return DF_OK;
}

int32_t dfi_lower_while(dfi_lower *l, Pb__NodeDef *n, const char *gate) {
  Pb__NameAttrList *cond_attrs, *body_attrs;
  dfi_texts in = dfi_lower_inputs(l, n);
  int32_t cond = dfi_lower_function_attr(l, n, "cond", &cond_attrs);
  int32_t body = cond < 0 ? -1 : dfi_lower_function_attr(l, n, "body", &body_attrs);
  if (body < 0) return l->err->code;
  if (!in.n) return dfi_lower_fail(l, "node `%s` (%s) has no loop variable", n->name, n->op);
  const bool waits = dfi_lower_waits(n, gate);
  gate = dfi_lower_gate(l, n, gate);
  const bool *constant = constants_of(l, l->function[body].def, in.n);
  dfi_texts merged = dfi_texts_new(l, in.n), inside = dfi_texts_new(l, in.n), exits = dfi_texts_new(l, in.n), ret,
            control;
  const char *first = NULL, *pivot = NULL;
  for (size_t i = 0; i < in.n; i++) {
    Pb__NodeDef *enter =
        put_enter(l, n, dfi_lower_text(l, constant[i] ? "constant_%zu" : "enter_%zu", i), in.at[i], constant[i], gate);
    merged.at[i] = inside.at[i] = enter->name;
    if (constant[i]) continue;
    merged.at[i] = put_merge(l, n, i, enter);
    if (!first) first = merged.at[i];
  }
  Pb__NodeDef *condition = NULL;
  int32_t code = put_condition(l, n, cond, cond_attrs, &merged, first, &condition);
  if (code) return code;
  for (size_t i = 0; i < in.n; i++) {
    if (constant[i]) {
      exits.at[i] = waits ? dfi_lower_held(l, dfi_lower_text(l, "%s/given_%zu", n->name, i), in.at[i], gate) : in.at[i];
      continue;
    }
    inside.at[i] = put_switch(l, n, i, condition, &exits.at[i]);
    if (!pivot) pivot = dfi_lower_text(l, "^%s", inside.at[i]);
  }
  code = dfi_lower_function(l, body, (const Pb__AttrEntry *const *)body_attrs->attr, body_attrs->n_attr,
                            dfi_lower_text(l, "%s/body", n->name), &inside, pivot, false, &ret, &control);
  if (code) return code;
  if (ret.n != in.n)
    return dfi_lower_fail(l, "the body of `%s` (%s) gives %zu results for %zu loop variables", n->name, n->op, ret.n,
                          in.n);
  for (size_t i = 0; i < in.n; i++) if (!constant[i]) put_next(l, n, i, ret.at[i], pivot, &control);
  control.n = 0;
  dfi_lower_result(l, n, &exits, &control, gate);
  return DF_OK;
}

/* The LoopCond of a For, "(limit - i) * sign(delta) > 0": up or down. */
static Pb__NodeDef *put_count(dfi_lower *l, Pb__NodeDef *n, const char *limit, const char *delta) {
  const char *counter = dfi_lower_text(l, "%s/merge_0", n->name);
  Pb__NodeDef *left = dfi_lower_node(l, "Sub", dfi_lower_text(l, "%s/left", n->name));
  dfi_lower_input(l, left, limit);
  dfi_lower_input(l, left, counter);
  Pb__NodeDef *sign = dfi_lower_node(l, "Sign", dfi_lower_text(l, "%s/direction", n->name));
  dfi_lower_input(l, sign, delta);
  Pb__NodeDef *go = dfi_lower_node(l, "Mul", dfi_lower_text(l, "%s/to_go", n->name));
  dfi_lower_input(l, go, left->name);
  dfi_lower_input(l, go, sign->name);
  Pb__NodeDef *more = dfi_lower_node(l, "Greater", dfi_lower_text(l, "%s/more", n->name));
  dfi_lower_input(l, more, go->name);
  const char *after = dfi_lower_text(l, "^%s", counter);
  dfi_lower_input(l, more, dfi_lower_const(l, dfi_lower_text(l, "%s/zero", n->name), 0, after));
  Pb__NodeDef *condition = dfi_lower_node(l, "LoopCond", dfi_lower_text(l, "%s/loop_cond", n->name));
  dfi_lower_input(l, condition, more->name);
  return condition;
}

/* For(start, limit, delta, in…): the body gets the counter and the variables, and gives the variables. */
int32_t dfi_lower_for(dfi_lower *l, Pb__NodeDef *n, const char *gate) {
  dfi_texts in = dfi_lower_inputs(l, n), ret, control;
  Pb__NameAttrList *attrs;
  int32_t body = dfi_lower_function_attr(l, n, "body", &attrs);
  if (body < 0) return l->err->code;
  if (in.n < 3) return dfi_lower_fail(l, "node `%s` (For) needs start, limit and delta", n->name);
  gate = dfi_lower_gate(l, n, gate);
  const size_t vars = in.n - 2;                 /* the counter, then the variables */
  dfi_texts inside = dfi_texts_new(l, vars), exits = dfi_texts_new(l, in.n - 3);
  const char *limit = put_enter(l, n, "constant_limit", in.at[1], true, gate)->name;
  const char *delta = put_enter(l, n, "constant_delta", in.at[2], true, gate)->name;
  /* an error where it never ends */
  Pb__NodeDef *range = dfi_lower_node(l, "Range", dfi_lower_text(l, "%s/constant_range", n->name));
  for (size_t i = 0; i < 3; i++) dfi_lower_input(l, range, in.at[i]);
  if (gate) dfi_lower_input(l, range, gate);
  for (size_t i = 0; i < vars; i++) {
    Pb__NodeDef *enter = put_enter(l, n, dfi_lower_text(l, "enter_%zu", i), in.at[i ? i + 2 : 0], false, gate);
    if (!i) dfi_lower_input(l, enter, dfi_lower_text(l, "^%s", range->name));
    put_merge(l, n, i, enter);
  }
  Pb__NodeDef *condition = put_count(l, n, limit, delta);
  for (size_t i = 0; i < vars; i++) inside.at[i] = put_switch(l, n, i, condition, i ? &exits.at[i - 1] : NULL);
  const char *pivot = dfi_lower_text(l, "^%s", inside.at[0]);
  int32_t code = dfi_lower_function(l, body, (const Pb__AttrEntry *const *)attrs->attr, attrs->n_attr,
                                    dfi_lower_text(l, "%s/body", n->name), &inside, pivot, false, &ret, &control);
  if (code) return code;
  if (ret.n != vars - 1)
    return dfi_lower_fail(l, "the body of `%s` (For) gives %zu results for %zu variables", n->name, ret.n, vars - 1);
  Pb__NodeDef *add = dfi_lower_node(l, "Add", dfi_lower_text(l, "%s/counted", n->name));
  dfi_lower_input(l, add, inside.at[0]);
  dfi_lower_input(l, add, delta);
  for (size_t i = 0; i < vars; i++) put_next(l, n, i, i ? ret.at[i - 1] : add->name, pivot, &control);
  control.n = 0;
  dfi_lower_result(l, n, &exits, &control, gate);
  return DF_OK;
}
