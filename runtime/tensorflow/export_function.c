/* export_function.c: graph functions as the FunctionDefs of the GraphDef's library.
 *
 * A call is a node whose op is the function. TensorFlow runs no function that calls itself in another way: it refuses
 * PartitionedCalls, makes regions of an If's branches without end, and a RemoteCall's body has no TensorArrays.
 *
 * A function's nodes are written among all others and moved into its FunctionDef at the end, where inputs are written
 * `node:argument:number` by the names that TensorFlow's op gives its outputs; those are the entry's own.
 *
 * A tape is one handle here and in TensorFlow one for each of its slots that some gradient reads: a TensorArray of one
 * element, which a FunctionSave writes and a FunctionLoad reads. A slot that keeps the tape of another call has an
 * element for each of that tape's handles. The handles of x's tape are `x/slot_0`, `x/slot_1`, …; a call returns them
 * behind its results.
 */
#include "tensorflow/export.h"
#include "graph/build.h"
#include "graph/flow.h"
#include <ctype.h>
#include <stdio.h>

static const char *type_of(const df_node *n) { return dfi_op_info_at(n->op)->op->type; }
static df_flow flow_kind(const df_node *n) { return dfi_op_info_at(n->op)->op->flow; }
static bool loads(const df_node *n) { return !strcmp(type_of(n), "FunctionLoad"); }
static bool hands_on(const df_node *n) {
  const df_flow f = flow_kind(n);
  return n->nin && ((f >= DF_SWITCH && f <= DF_NEXT_ITERATION) || dfi_flow_is(n, FLOW_IDENTITY));
}
static dfi_function *named(const dfi_export *e, const df_node *n) {
  return dfi_flow_function_find(e->graph, n->attrs[0].s);
}

dfi_function *dfi_export_function_of(const df_context *c) {
  while (c && c->kind != DFI_CALLED) c = c->parent;
  return c ? c->function : NULL;
}

/* ---- what is needed ------------------------------------------------------------------------------------------ */

void dfi_export_need_function(dfi_export *e, const df_node *n, void (*need)(dfi_export *, df_node *)) {
  if (loads(n)) need(e, dfi_function_save(e->graph, n->attrs[0].s, n->attrs[1].i));
  dfi_function *f = flow_kind(n) == DF_CALL ? named(e, n) : NULL;
  if (!f) return;
  need(e, f->begin);
  need(e, f->ret);
  for (int32_t i = 0; i < f->n; i++) need(e, f->arg[i]);
}

/* ---- tapes --------------------------------------------------------------------------------------------------- */

df_output dfi_export_behind(const dfi_export *e, const df_node *n) {
  df_output v = DFI_NONE, save;
  if (flow_kind(n) == DF_FUNCTION_ARG) return dfi_flow_captured((df_output){ (df_node *)(uintptr_t)n, 0 });
  const dfi_function *f = loads(n) ? named(e, n) : NULL;
  if (f && n->attrs[1].i < dfi_map_count(f->saved)) dfi_map_at(f->saved, (int32_t)n->attrs[1].i, &v, &save);
  return v;
}

static int32_t slots(const dfi_export *e, const dfi_function *f, int64_t slot, int32_t *at);

/* The function that b is the gradient of; NULL: it is none. */
static dfi_function *forward_of(const dfi_export *e, const dfi_function *b) {
  const flow *all = dfi_flow_of(e->graph);
  for (int32_t i = 0; i < all->nfunction; i++)
    for (int32_t k = 0; k < all->function[i]->nbackward; k++)
      if (all->function[i]->backward[k].function == b) return all->function[i];
  return NULL;
}

/* The function of whose calls this output is a tape; NULL: it is none. */
static dfi_function *tape_of(const dfi_export *e, df_output o) {
  for (int32_t steps = 0; o.node && dfi_dtype(o) == DF_RESOURCE && steps <= e->nneed; steps++) {
    df_node *n = o.node;
    const df_flow f = flow_kind(n);
    if (f == DF_CALL) {
      dfi_function *callee = named(e, n);
      return callee && o.index == callee->nresults ? callee : NULL;
    }
    const df_output behind = dfi_export_behind(e, n);
    if (behind.node) {
      o = behind;
    } else if (f == DF_FUNCTION_ARG) {
      return n->attrs[1].i == 0 ? forward_of(e, dfi_export_function_of(n->context)) : NULL;
    } else if (!strcmp(type_of(n), "TensorArrayRead")) {
      o = e->element[dfi_export_array_made(e, n->in[0])->id];
    } else if (dfi_has_trait(n, DFO_TAPE)) {
      return dfi_export_function_of(n->context);
    } else if (hands_on(n)) {
      o = n->in[0];
    } else return NULL;
  }
  return NULL;
}

int32_t dfi_export_element_handles(const dfi_export *e, df_output array) {
  const dfi_function *f = tape_of(e, e->element[dfi_export_array_made(e, array)->id]);
  return f ? slots(e, f, -1, NULL) : -1;
}

bool dfi_export_is_tape(const dfi_export *e, df_output o) { return tape_of(e, o) != NULL; }

/* How many slots of f's tape some gradient reads, at number *at of which `slot` stands. */
static int32_t slots(const dfi_export *e, const dfi_function *f, int64_t slot, int32_t *at) {
  int32_t n = 0;
  for (int32_t i = 0; f && i < dfi_map_count(f->saved); i++) {
    df_output v, save;
    dfi_map_at(f->saved, i, &v, &save);
    if (!save.node || !e->needed[save.node->id]) continue;
    if (i == slot) *at = n;
    n++;
  }
  return n;
}

int32_t dfi_export_handles(const dfi_export *e, df_output o) { return slots(e, tape_of(e, o), -1, NULL); }
int32_t dfi_export_kept(const dfi_export *e, const df_node *ret) {
  return slots(e, dfi_export_function_of(ret->context), -1, NULL);
}

/* How many elements the slot has in which v is kept. */
static int32_t elements(const dfi_export *e, df_output v) {
  return dfi_export_is_tape(e, v) ? dfi_export_handles(e, v) : 1;
}

const char *dfi_export_tape_handle(dfi_export *e, df_output tape, int32_t i) {
  const char *name = e->name[tape.node->id];
  switch (flow_kind(tape.node)) {
  case DF_CALL: return dfi_lower_text(&e->l, "%s:%d", name, tape.index + i);
  case DF_FUNCTION_ARG: return dfi_lower_text(&e->l, "%s_slot_%d", name, i);
  default:
    return tape.index ? dfi_lower_text(&e->l, "%s/slot_%d:%d", name, i, tape.index)
                      : dfi_lower_text(&e->l, "%s/slot_%d", name, i);
  }
}

/* A scalar beside the current node, which some op of arrays wants. */
static const char *number(dfi_export *e, const char *what, uint8_t dtype, int32_t v) {
  return dfi_export_number(e, dfi_export_name(e, "%s/%s", e->name[e->current->id], what), dtype, v);
}

static void write_tape(dfi_export *e, const dfi_function *f) {
  const char *name = e->name[e->current->id];
  for (int32_t i = 0, at = 0; i < dfi_map_count(f->saved); i++) {
    df_output v, save;
    dfi_map_at(f->saved, i, &v, &save);
    if (!save.node || !e->needed[save.node->id]) continue;
    const char *size = number(e, "size", DF_INT32, elements(e, v));
    Pb__NodeDef *def = dfi_export_node(e, "TensorArrayV3", dfi_lower_text(&e->l, "%s/slot_%d", name, at++), 2);
    dfi_lower_input(&e->l, def, size);
    dfi_lower_type(&e->l, def, "dtype", dfi_dtype(v));
    dfi_export_shape(e, def, "element_shape", -1, NULL);
    dfi_lower_bool(&e->l, def, "clear_after_read", false);
    dfi_lower_bool(&e->l, def, "dynamic_size", false);
    dfi_lower_string(&e->l, def, "tensor_array_name", def->name);
  }
}

/* The slot's handle in an op on its element i. */
static Pb__NodeDef *on_slot(dfi_export *e, const char *type, const char *name, const char *slot, int32_t i,
                            const char *value) {
  const char *index = number(e, "index", DF_INT32, i), *flow = number(e, "flow", DF_FLOAT32, 0);
  Pb__NodeDef *def = dfi_export_node(e, type, name, 1);
  dfi_lower_input(&e->l, def, slot);
  dfi_lower_input(&e->l, def, index);
  if (value) dfi_lower_input(&e->l, def, value);
  dfi_lower_input(&e->l, def, flow);
  return def;
}

static void write_save(dfi_export *e, const df_node *n) {
  const df_output v = n->in[1];
  const bool tape = dfi_export_is_tape(e, v), array = !tape && dfi_export_is_array(e, v);
  int32_t slot = 0;
  slots(e, tape_of(e, n->in[0]), n->attrs[1].i, &slot);
  const char *into = dfi_export_tape_handle(e, n->in[0], slot), *after = NULL;
  if (array) after = dfi_export_array_flow(e, v);                /* what is written to the array has been */
  for (int32_t i = elements(e, v); i-- > 0;) {                   /* the last one that is written has the node's name */
    const char *name = i ? dfi_export_name(e, "%s/more", e->name[n->id]) : e->name[n->id];
    const char *value = tape    ? dfi_export_tape_handle(e, v, i)
                        : array ? dfi_export_array_handle(e, v)
                                : dfi_export_ref(e, v);
    Pb__NodeDef *def = on_slot(e, "TensorArrayWriteV3", name, into, i, value);
    if (after) dfi_lower_input(&e->l, def, dfi_lower_text(&e->l, "^%.*s", (int)strcspn(after, ":"), after));
    dfi_export_controls(e, def);
    dfi_lower_type(&e->l, def, "T", dfi_export_dtype(e, v));
    after = name;
  }
}

/* The handles that a call returns, once something lies in their slots. */
static void write_return(dfi_export *e, const df_node *n) {
  const dfi_function *f = dfi_export_function_of(n->context);
  for (int32_t i = 0, at = 0; f && i < dfi_map_count(f->saved); i++) {
    df_output v, save;
    dfi_map_at(f->saved, i, &v, &save);
    if (!save.node || !e->needed[save.node->id]) continue;
    Pb__NodeDef *def = dfi_export_node(e, "Identity", dfi_lower_text(&e->l, "%s/slot_%d", e->name[n->id], at), 1);
    dfi_lower_input(&e->l, def, dfi_export_tape_handle(e, (df_output){ f->tape, 0 }, at++));
    dfi_lower_input(&e->l, def, dfi_lower_text(&e->l, "^%s", e->name[save.node->id]));
    dfi_lower_type(&e->l, def, "T", DF_RESOURCE);
  }
}

static void write_load(dfi_export *e, const df_node *n) {
  const df_output v = dfi_export_behind(e, n);
  const bool tape = dfi_export_is_tape(e, v), array = !tape && dfi_export_is_array(e, v);
  const char *name = e->name[n->id];
  int32_t slot = 0;
  slots(e, tape_of(e, n->in[0]), n->attrs[1].i, &slot);
  for (int32_t i = 0; i < elements(e, v); i++) {
    Pb__NodeDef *def = on_slot(e, "TensorArrayReadV3", tape ? dfi_lower_text(&e->l, "%s/slot_%d", name, i) : name,
                               dfi_export_tape_handle(e, n->in[0], slot), i, NULL);
    dfi_export_controls(e, def);
    dfi_lower_type(&e->l, def, "dtype", dfi_export_dtype(e, v));
  }
  if (tape) dfi_export_stands_for(e, elements(e, v));
  if (!array) return;
  Pb__NodeDef *flow = dfi_export_node(e, "Identity", dfi_lower_text(&e->l, "%s/flow", name), 1);
  dfi_lower_input(&e->l, flow, number(e, "flow", DF_FLOAT32, 0));
  dfi_lower_input(&e->l, flow, dfi_lower_text(&e->l, "^%s", name));
  dfi_lower_type(&e->l, flow, "T", DF_FLOAT32);
}

void dfi_export_stands_for(dfi_export *e, int32_t handles) {
  const char *name = e->name[e->current->id];
  Pb__NodeDef *def = dfi_export_node(e, "NoOp", name, 0);
  for (int32_t i = 0; i < handles; i++) dfi_lower_input(&e->l, def, dfi_lower_text(&e->l, "^%s/slot_%d", name, i));
  if (!handles) dfi_export_hang(e, def);
}

/* A primitive, or an Identity, that hands a tape on: one for each handle. */
static void write_handed_on(dfi_export *e, const df_node *n) {
  const df_flow f = flow_kind(n);
  const int32_t tapes = f == DF_MERGE ? n->nin : 1, outputs = f == DF_SWITCH || f == DF_MERGE ? 2 : 1;
  const int32_t handles = dfi_export_handles(e, (df_output){ (df_node *)(uintptr_t)n, 0 });
  for (int32_t i = 0; i < handles; i++) {
    Pb__NodeDef *def =
        dfi_export_node(e, type_of(n), dfi_lower_text(&e->l, "%s/slot_%d", e->name[n->id], i), outputs);
    for (int32_t k = 0; k < tapes; k++) dfi_lower_input(&e->l, def, dfi_export_tape_handle(e, n->in[k], i));
    if (f == DF_SWITCH) dfi_lower_input(&e->l, def, dfi_export_ref(e, n->in[1]));
    dfi_export_controls(e, def);
    dfi_lower_type(&e->l, def, "T", DF_RESOURCE);
    if (f == DF_MERGE) dfi_lower_int(&e->l, def, "N", n->nin);
    if (f == DF_ENTER) dfi_export_enter_attrs(e, def, n, n->attrs[DFI_ENTER_IS_CONSTANT].i != 0);
  }
}

/* ---- calls --------------------------------------------------------------------------------------------------- */

/* Do calls in the body of f, or of what it calls, come to a call of `of`? seen: by the function's id. */
static bool comes_to(const dfi_export *e, const dfi_function *f, const dfi_function *of, bool *seen) {
  if (!f->ret || seen[f->id]) return false;
  seen[f->id] = true;
  for (int32_t id = f->begin->id; id < e->graph->n; id++) {
    const df_node *n = e->graph->node[id];
    if (!e->needed[id] || flow_kind(n) != DF_CALL || dfi_export_function_of(n->context) != f) continue;
    const dfi_function *callee = named(e, n);
    if (callee && (callee == of || comes_to(e, callee, of, seen))) return true;
  }
  return false;
}

static bool calls_itself(dfi_export *e, const dfi_function *f) {
  enum { NO = 1, YES = 2 };
  const size_t all = (size_t)dfi_flow_of(e->graph)->nfunction + 1;
  if (!e->recursive) e->recursive = dfi_export_take(e, all);
  if (!e->recursive[f->id]) {
    bool *seen = dfi_xcalloc(all, sizeof *seen);
    e->recursive[f->id] = comes_to(e, f, f, seen) ? YES : NO;
    dfi_free(seen);
  }
  return e->recursive[f->id] == YES;
}

static void write_call(dfi_export *e, const df_node *n) {
  dfi_function *f = named(e, n);
  if (!f || !f->ret) { dfi_export_refuse(e, "its function was imported, not built by df.func"); return; }
  Pb__NodeDef *def = dfi_export_node(e, dfi_export_function_name(e, f), e->name[n->id],
                                     f->nresults + slots(e, f, -1, NULL));
  for (int32_t i = 0; i < n->nin; i++) {
    const bool tape = dfi_export_is_tape(e, n->in[i]), array = !tape && dfi_export_is_array(e, n->in[i]);
    if (array) dfi_lower_input(&e->l, def, dfi_export_array_handle(e, n->in[i]));
    if (array) dfi_lower_input(&e->l, def, dfi_export_array_flow(e, n->in[i]));
    if (!tape && !array) dfi_lower_input(&e->l, def, dfi_export_ref(e, n->in[i]));
    for (int32_t k = 0; k < dfi_export_handles(e, n->in[i]); k++)
      dfi_lower_input(&e->l, def, dfi_export_tape_handle(e, n->in[i], k));
  }
  dfi_export_controls(e, def);
  if (calls_itself(e, f)) dfi_lower_bool(&e->l, def, "_disable_call_shape_inference", true);   /* it would not end */
}

bool dfi_export_function_node(dfi_export *e, const df_node *n) {
  const df_output first = { (df_node *)(uintptr_t)n, 0 };
  switch (flow_kind(n)) {
  case DF_CALL: write_call(e, n); return true;
  case DF_FUNCTION_BEGIN: dfi_export_node(e, "NoOp", e->name[n->id], 0); return true;
  case DF_FUNCTION_RETURN: write_return(e, n); return true;
  case DF_FUNCTION_ARG: return true;                          /* its FunctionDef has it */
  default: break;
  }
  if (loads(n)) write_load(e, n);
  else if (!strcmp(type_of(n), "FunctionSave")) write_save(e, n);
  else if (!strcmp(type_of(n), "FunctionTape")) write_tape(e, dfi_export_function_of(n->context));
  else if (!strcmp(type_of(n), "FunctionAdd"))
    dfi_export_refuse(e, "a second derivative of a graph function has no form in TensorFlow's graphs");
  else if (hands_on(n) && dfi_export_is_tape(e, first)) write_handed_on(e, n);
  else return false;
  return true;
}

/* ---- FunctionDefs -------------------------------------------------------------------------------------------- */

const char *dfi_export_function_name(dfi_export *e, const dfi_function *f) {
  char *name = dfi_lower_text(&e->l, "%s_%d", f->name, f->id);   /* no op's name, nor another function's */
  for (char *p = name; *p; p++) if (!isalnum((unsigned char)*p)) *p = '_';
  return name;
}

/* What was written, by name. */
typedef struct written { const char *name; size_t number; } written;
typedef struct library {
  dfi_export *e;
  written *by_name; size_t n;
  Pb__FunctionDef **def;                /* by the function's id; NULL: none of its nodes is written */
} library;

static int by_name(const void *a, const void *b) {
  return strcmp(((const written *)a)->name, ((const written *)b)->name);
}

/* Output `index` of what was written as number k, by the name that TensorFlow's op gives it. */
static const char *output_name(dfi_export *e, size_t k, int32_t index) {
  const Pb__NodeDef *def = e->l.node[k];
  const df_node *n = e->place[k].node;
  if (flow_kind(n) == DF_CALL) return dfi_lower_text(&e->l, "%s:result_%d:0", def->name, index);
  const dfi_op_info *o = dfi_op_find(def->op);
  for (int32_t a = 0; o && a < o->nout; a++) {
    const dfi_arg *out = &o->out[a];
    const int32_t count = !out->list       ? 1
                          : o->nout == 1   ? index + 1
                          : n->op == o->id ? (int32_t)dfi_output_count(o, out, n->nin, n->attrs)
                                           : -1;
    if (count < 0) break;
    if (index < count) return dfi_lower_text(&e->l, "%s:%s:%d", def->name, out->name, index);
    index -= count;
  }
  e->current = n;
  dfi_export_refuse(e, dfi_lower_text(&e->l, "the outputs of TensorFlow's %s have no names here", def->op));
  return def->name;
}

/* An input as the nodes of f's FunctionDef have it. Arguments and `^node` stay as they are. */
static const char *inside(const library *b, const dfi_function *f, const char *input) {
  const char *colon = strrchr(input, ':');
  const written key = {
    .name = colon ? dfi_lower_text(&b->e->l, "%.*s", (int)(colon - input), input) : input
  };
  const written *from = *input == '^' ? NULL : bsearch(&key, b->by_name, b->n, sizeof key, by_name);
  return from && dfi_export_function_of(b->e->place[from->number].context) == f
             ? output_name(b->e, from->number, colon ? atoi(colon + 1) : 0) : input;
}

static Pb__OpDef__ArgDef *arg_def(dfi_export *e, const char *name, int32_t dtype) {
  Pb__OpDef__ArgDef *a = dfi_export_take(e, sizeof *a);
  pb__op_def__arg_def__init(a);
  a->name = (char *)(uintptr_t)name;
  a->type = (Pb__DataType)dtype;
  return a;
}

static void argument(dfi_export *e, Pb__OpDef *s, df_node *arg) {
  const df_output o = { arg, 0 };
  if (!dfi_export_is_tape(e, o)) {
    s->input_arg[s->n_input_arg++] = arg_def(e, e->name[arg->id], dfi_export_dtype(e, o));
    if (dfi_export_is_array(e, o))
      s->input_arg[s->n_input_arg++] = arg_def(e, dfi_export_array_flow(e, o), DF_FLOAT32);
    return;
  }
  for (int32_t i = 0; i < dfi_export_handles(e, o); i++)
    s->input_arg[s->n_input_arg++] = arg_def(e, dfi_export_tape_handle(e, o, i), DF_RESOURCE);
}

static Pb__FunctionDef__Pair *pair(dfi_export *e, const char *key, const char *value) {
  Pb__FunctionDef__Pair *p = dfi_export_take(e, sizeof *p);
  pb__function_def__pair__init(p);
  p->key = (char *)(uintptr_t)key;
  p->value = (char *)(uintptr_t)value;
  return p;
}

static void result(const library *b, const dfi_function *f, Pb__FunctionDef *d, const char *value, int32_t dtype) {
  Pb__OpDef *s = d->signature;
  const char *name = dfi_lower_text(&b->e->l, "result_%zu", s->n_output_arg);   /* see output_name */
  s->output_arg[s->n_output_arg++] = arg_def(b->e, name, dtype);
  d->ret[d->n_ret++] = pair(b->e, name, inside(b, f, value));
}

/* What every call runs, whether a result needs it or not. */
static void must_run(dfi_export *e, Pb__FunctionDef *d, const df_node *n) {
  const char *name = e->name[n->id];
  d->signature->control_output[d->signature->n_control_output++] = (char *)(uintptr_t)name;
  d->control_ret[d->n_control_ret++] = pair(e, name, name);
}

/* Arguments and results; room for its nodes. */
static Pb__FunctionDef *begin(const library *b, const dfi_function *f, size_t nodes) {
  dfi_export *e = b->e;
  Pb__FunctionDef *d = dfi_export_take(e, sizeof *d);
  pb__function_def__init(d);
  Pb__OpDef *s = d->signature = dfi_export_take(e, sizeof *s);
  pb__op_def__init(s);
  s->name = (char *)(uintptr_t)dfi_export_function_name(e, f);
  s->is_stateful = true;
  d->node_def = dfi_export_take(e, sizeof *d->node_def * (nodes + 1));
  const int32_t saves = slots(e, f, -1, NULL);
  size_t in = 1, out = (size_t)(f->nresults + saves) + 1, control = (size_t)f->ret->ncontrol + 1;
  for (int32_t i = 0; i < f->n; i++) in += (size_t)dfi_export_handles(e, (df_output){ f->arg[i], 0 }) + 2;
  s->input_arg = dfi_export_take(e, sizeof *s->input_arg * in);
  s->output_arg = dfi_export_take(e, sizeof *s->output_arg * out);
  s->control_output = dfi_export_take(e, sizeof *s->control_output * control);
  d->ret = dfi_export_take(e, sizeof *d->ret * out);
  d->control_ret = dfi_export_take(e, sizeof *d->control_ret * control);
  for (int32_t i = 0; i < f->n; i++) argument(e, s, f->arg[i]);
  e->current = f->ret;
  for (int32_t i = 0; i < f->nresults; i++) result(b, f, d, dfi_export_ref(e, f->ret->in[i]), dfi_dtype(f->ret->in[i]));
  for (int32_t i = 0; i < saves; i++)
    result(b, f, d, dfi_lower_text(&e->l, "%s/slot_%d", e->name[f->ret->id], i), DF_RESOURCE);
  for (int32_t i = 0; i < f->ret->ncontrol; i++)
    if (f->ret->control[i] && f->ret->control[i] != f->begin) must_run(e, d, f->ret->control[i]);
  return d;
}

static void never_in_line(dfi_export *e, Pb__FunctionDef *d) {
  Pb__AttrEntry *a = dfi_export_take(e, sizeof *a);
  pb__attr_entry__init(a);
  a->key = (char *)(uintptr_t)"_noinline";
  a->value = dfi_export_take(e, sizeof *a->value);
  pb__attr_value__init(a->value);
  a->value->value_case = PB__ATTR_VALUE__VALUE_B;
  a->value->b = true;
  d->attr = dfi_export_take(e, sizeof *d->attr);
  d->attr[d->n_attr++] = a;
}

Pb__FunctionDefLibrary *dfi_export_library(dfi_export *e) {
  const flow *all = dfi_flow_of(e->graph);
  library b = { .e = e, .n = e->l.n };
  size_t *nodes = dfi_xcalloc((size_t)all->nfunction + 1, sizeof *nodes), top = 0;
  b.by_name = dfi_xcalloc(b.n + 1, sizeof *b.by_name);
  b.def = dfi_xcalloc((size_t)all->nfunction + 1, sizeof *b.def);
  for (size_t k = 0; k < b.n; k++) {
    const dfi_function *f = dfi_export_function_of(e->place[k].context);
    b.by_name[k] = (written){ e->l.node[k]->name, k };
    if (f) nodes[f->id]++;
  }
  qsort(b.by_name, b.n, sizeof *b.by_name, by_name);
  Pb__FunctionDefLibrary *library = dfi_export_take(e, sizeof *library);
  pb__function_def_library__init(library);
  library->function = dfi_export_take(e, sizeof *library->function * ((size_t)all->nfunction + 1));
  for (int32_t i = 0; i < all->nfunction; i++) {
    if (!nodes[i] || !all->function[i]->ret) continue;
    library->function[library->n_function++] = b.def[i] = begin(&b, all->function[i], nodes[i]);
    if (calls_itself(e, all->function[i])) never_in_line(e, b.def[i]);
  }
  for (size_t k = 0; k < b.n && library->n_function; k++) {
    const dfi_function *f = dfi_export_function_of(e->place[k].context);
    Pb__NodeDef *n = e->l.node[k];
    Pb__FunctionDef *d = f ? b.def[f->id] : NULL;
    if (!d) continue;
    for (size_t i = 0; i < n->n_input; i++) n->input[i] = (char *)(uintptr_t)inside(&b, f, n->input[i]);
    d->node_def[d->n_node_def++] = n;
  }
  for (size_t k = 0; k < b.n; k++)
    if (!dfi_export_function_of(e->place[k].context)) { e->place[top] = e->place[k]; e->l.node[top++] = e->l.node[k]; }
  e->l.n = top;
  dfi_free(nodes); dfi_free(b.by_name); dfi_free(b.def);
  return library->n_function ? library : NULL;
}
