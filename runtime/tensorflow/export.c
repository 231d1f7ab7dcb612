/* export.c: which nodes of a graph are written, under which names, and the bytes.
 *
 * Needed is what the outputs depend on, or all. A loop of which anything is needed is needed with its predicate and its
 * pivots, and with each variable of it its Exit, because TensorFlow's gradients begin there. Names that TensorFlow
 * would not take are changed. The reader need not have nodes in an order, so they come as they were built.
 */
#include "tensorflow/export.h"
#include "graph/flow.h"
#include <stdarg.h>
#include <stdio.h>

/* ---- names ------------------------------------------------------------------------------------------------ */

static uint32_t hash(const char *s) {
  uint32_t h = 2166136261u;
  while (*s) h = (h ^ (uint8_t)*s++) * 16777619u;
  return h;
}

static void claim(dfi_export *e, const char *name) {
  if (e->ntaken * 2 >= e->taken_mask) {
    uint32_t mask = e->taken_mask ? e->taken_mask * 2 + 1 : 1023;
    const char **wider = dfi_xcalloc((size_t)mask + 1, sizeof *wider);
    for (uint32_t i = 0; e->taken && i <= e->taken_mask; i++) {
      if (!e->taken[i]) continue;
      uint32_t at = hash(e->taken[i]) & mask;
      while (wider[at]) at = (at + 1) & mask;
      wider[at] = e->taken[i];
    }
    dfi_free(e->taken);
    e->taken = wider;
    e->taken_mask = mask;
  }
  uint32_t at = hash(name) & e->taken_mask;
  while (e->taken[at]) at = (at + 1) & e->taken_mask;
  e->taken[at] = name;
  e->ntaken++;
}

static bool letter(char c, bool first) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
         (!first && (c == '_' || c == '/' || c == '-' || c == '\\' || c == '>'));
}

static bool is_taken(const dfi_export *e, const char *name) {
  if (!e->taken) return false;
  uint32_t at = hash(name) & e->taken_mask;
  for (; e->taken[at]; at = (at + 1) & e->taken_mask)
    if (!strcmp(e->taken[at], name)) return true;
  return false;
}

enum { PARTS = 3 };     /* of a primitive or an array; a tape's handles follow */
static const char *part_name(dfi_export *e, const char *name, int32_t i) {
  static const char *const part[PARTS] = { "body", "handle", "flow" };
  return i < PARTS ? dfi_lower_text(&e->l, "%s/%s", name, part[i])
                   : dfi_lower_text(&e->l, "%s/slot_%d", name, i - PARTS);
}

/* The name, or one like it that is free, and so are those of so many parts of the node. */
static const char *claim_free(dfi_export *e, char *name, int32_t parts) {
  for (char *p = name; *p; p++)
    if (!letter(*p, p == name)) *p = p == name ? '.' : '_';
  const char *free_one = name;
  for (int32_t i = 1; ; i++) {
    bool good = !is_taken(e, free_one);
    for (int32_t k = 0; k < parts && good; k++) good = !is_taken(e, part_name(e, free_one, k));
    if (good) break;
    free_one = dfi_lower_text(&e->l, "%s_%d", name, i);
  }
  claim(e, free_one);
  for (int32_t k = 0; k < parts; k++) claim(e, part_name(e, free_one, k));
  return free_one;
}

const char *dfi_export_name(dfi_export *e, const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return claim_free(e, dfi_lower_text(&e->l, "%s", text), 0);
}

/* ---- what is needed --------------------------------------------------------------------------------------- */

static void need(dfi_export *e, df_node *n) {
  if (!n || e->needed[n->id]) return;
  e->needed[n->id] = 1;
  DFI_GROW(e->need, e->nneed, e->need_cap);
  e->need[e->nneed++] = n;
}

static void need_loop(dfi_export *e, df_loop *l, df_node *n) {
  need(e, l->loop_cond);
  need(e, l->pred->pivot);
  need(e, l->body->pivot);
  if (!dfi_flow_is(n, FLOW_MERGE)) return;
  for (int32_t i = 0; i < l->n; i++)
    if (l->var[i].merge == n) { need(e, l->var[i].enter); need(e, l->var[i].exit); }
}

static void need_around(dfi_export *e, df_node *n) {
  df_context *c = n->context;
  if (c->kind == DFI_BRANCH) {
    need(e, c->cond->pred.node);
    need(e, c->pivot);
    if (c->cond->branch[!c->side]) need(e, c->cond->branch[!c->side]->pivot);
  } else if (c->loop) need_loop(e, c->loop, n);
}

static void need_all(dfi_export *e) {
  for (int32_t at = 0; at < e->nneed; at++) {
    df_node *n = e->need[at];
    for (int32_t i = 0; i < n->nin; i++) need(e, n->in[i].node);
    for (int32_t i = 0; i < n->ncontrol; i++) need(e, n->control[i]);
    need_around(e, n);
    dfi_export_need_function(e, n, need);
    if (!dfi_is_variable(n)) continue;
    df_output init = e->graph->variable_init && !e->frozen && !dfi_export_value(e, n)
                         ? dfi_map_get(e->graph->variable_init, (df_output){ n, 0 })
                         : DFI_NONE;
    need(e, init.node);
  }
}

/* ---- making nodes ------------------------------------------------------------------------------------------- */

void dfi_export_refuse(dfi_export *e, const char *why) {
  for (int32_t i = 0; i < e->nrefused; i++) if (e->refused[i].node == e->current) return;
  DFI_GROW(e->refused, e->nrefused, e->refused_cap);
  e->refused[e->nrefused].node = e->current;
  e->refused[e->nrefused++].why = why;
}

Pb__NodeDef *dfi_export_node(dfi_export *e, const char *op, const char *name, int32_t outputs) {
  if (e->l.n == e->place_cap) {
    e->place_cap = e->place_cap ? e->place_cap * 2 : 256;
    e->place = dfi_xrealloc(e->place, sizeof *e->place * e->place_cap);
  }
  e->place[e->l.n] = (dfi_export_place){ e->current->context, outputs, e->current };
  return dfi_lower_node(&e->l, op, name);
}

/* The output of a Switch that its loop's body or its branch uses, through an Identity: TensorFlow's gradients count on
 * one consumer in a body, and its optimizer makes dead what adds a Switch's output to itself. -1: there is none. */
static int32_t read_through(const df_node *n) {
  if (!dfi_flow_is(n, FLOW_SWITCH) || n->out[0].ref) return -1;  /* an Identity would read a reference */
  if (n->context->kind == DFI_BRANCH) return n->context->side;
  return n->context->kind == DFI_BODY && dfi_flow_is(n->in[1].node, FLOW_LOOP_COND) ? 1 : -1;
}

const char *dfi_export_ref(dfi_export *e, df_output o) {
  const char *name = e->name[o.node->id];
  if (dfi_dtype(o) == DF_RESOURCE && dfi_export_is_array(e, o)) {
    dfi_export_refuse(e, "it takes a TensorArray as no op of TensorFlow does");
    return name;
  }
  if (dfi_export_is_tape(e, o)) dfi_export_refuse(e, "it takes the tape of a call as no op of TensorFlow does");
  if (read_through(o.node) == o.index) return dfi_lower_text(&e->l, "%s/body", name);
  return o.index ? dfi_lower_text(&e->l, "%s:%d", name, o.index) : name;
}

void dfi_export_hang(dfi_export *e, Pb__NodeDef *n) {
  df_node *pivot = e->current->context->pivot;
  if (e->current->context->kind != DFI_TOP && pivot && pivot != e->current)
    dfi_lower_input(&e->l, n, dfi_lower_text(&e->l, "^%s", e->name[pivot->id]));
}

void dfi_export_controls(dfi_export *e, Pb__NodeDef *def) {
  const df_node *n = e->current;
  for (int32_t i = 0; i < n->ncontrol; i++)
    if (n->control[i]) dfi_lower_input(&e->l, def, dfi_lower_text(&e->l, "^%s", e->name[n->control[i]->id]));
  if (n->nin == 0 && n->ncontrol == 0) dfi_export_hang(e, def);
}

static const char *constant(dfi_export *e, const char *name, df_tensor *t) {
  Pb__NodeDef *n = dfi_export_node(e, "Const", name, 1);
  dfi_export_hang(e, n);
  dfi_lower_type(&e->l, n, "dtype", t->dtype);
  dfi_export_tensor(e, n, "value", t);
  df_tensor_release(t);
  return name;
}

const char *dfi_export_ints(dfi_export *e, const char *name, uint8_t dtype, int32_t rank, int32_t n, const int64_t *v) {
  int64_t size = n;
  df_tensor *t = df_tensor_new(dtype, rank, &size, NULL);
  for (int32_t i = 0; i < n; i++) df_tensor_set_int(t, i, v[i]);
  return constant(e, name, t);
}

const char *dfi_export_number(dfi_export *e, const char *name, uint8_t dtype, double v) {
  df_tensor *t = df_tensor_new(dtype, 0, NULL, NULL);
  df_tensor_set(t, 0, v);
  return constant(e, name, t);
}

/* This type, or the one that took its place: the second TensorArrays have gone, the third have the same inputs. */
static const char *type_of(dfi_export *e, const char *type) {
  size_t n = strlen(type);
  if (strncmp(type, "TensorArray", 11) || strcmp(type + n - 2, "V2")) return type;
  return dfi_lower_text(&e->l, "%.*sV3", (int)n - 2, type);
}

static bool is_primitive(const df_node *n) {
  df_flow flow = dfi_op_info_at(n->op)->op->flow;
  return flow >= DF_SWITCH && flow <= DF_LOOP_COND;
}

static void write_node(dfi_export *e, df_node *n) {
  e->current = n;
  const char *type = dfi_op_info_at(n->op)->op->type;
  if (dfi_export_function_node(e, n) || dfi_export_array_node(e, n) || dfi_export_frozen_node(e, n) ||
      dfi_export_special(e, n))
    return;
  if (e->frozen && !strncmp(type, "Ref", 3) && is_primitive(n)) type += 3;       /* what was a reference is a value */
  dfi_export_plain(e, type_of(e, type), e->name[n->id]);
  int32_t side = read_through(n);
  if (side < 0) return;
  Pb__NodeDef *duplicate = dfi_export_node(e, "Identity", dfi_lower_text(&e->l, "%s/body", e->name[n->id]), 1);
  dfi_lower_input(&e->l, duplicate, dfi_lower_text(&e->l, "%s:%d", e->name[n->id], side));
  dfi_lower_type(&e->l, duplicate, "T", dfi_export_dtype(e, (df_output){ n, side }));
}

/* ---- the whole ---------------------------------------------------------------------------------------------- */

/* One error for all nodes that cannot be written. */
static int32_t refuse_all(dfi_export *e) {
  char text[sizeof ((df_error *)0)->message];
  size_t at = 0;
  enum { SHOWN = 8 };
  for (int32_t i = 0; i < e->nrefused && i < SHOWN && at < sizeof text - 1; i++) {
    const df_node *n = e->refused[i].node;
    int k = snprintf(text + at, sizeof text - at, "%s%s `%s`%s%s%s: %s", i ? "; " : "", dfi_op_info_at(n->op)->op->type,
                     e->name[n->id], *n->where ? " (" : "", n->where, *n->where ? ")" : "", e->refused[i].why);
    at += (size_t)k;
  }
  if (e->nrefused > SHOWN && at < sizeof text - 1)
    snprintf(text + at, sizeof text - at, "; and %d more", e->nrefused - SHOWN);
  return dfi_fail(e->err, DF_UNIMPLEMENTED, e->refused[0].node->where, "%d node%s cannot be written for TensorFlow: %s",
                  e->nrefused, e->nrefused == 1 ? "" : "s", text);
}

/* Is the node one of those that the whole graph has? A primitive that is not there for a result of its cond or loop
 * comes with what needs it, and so does a function's body. */
static bool is_whole(const df_node *n) {
  df_flow flow = dfi_op_info_at(n->op)->op->flow;
  if (dfi_export_function_of(n->context)) return false;
  return !is_primitive(n) || ((flow == DF_MERGE || flow == DF_EXIT) && n->nin && n->in[0].node);
}

static int32_t parts_of(const dfi_export *e, df_node *n) {
  const bool handles = n->nout && n->out[0].dtype == DF_RESOURCE;
  const bool returns = dfi_op_info_at(n->op)->op->flow == DF_FUNCTION_RETURN;
  const int32_t slots = handles   ? dfi_export_handles(e, (df_output){ n, 0 })
                        : returns ? dfi_export_kept(e, n)
                                  : 0;
  const bool array = handles && (!strncmp(dfi_op_info_at(n->op)->op->type, "TensorArray", 11) ||
                                 dfi_export_behind(e, n).node);
  return slots ? PARTS + slots : is_primitive(n) || array ? PARTS : 0;
}

/* An argument's name has no slash, so neither have those of what else it is: a tape's handles, an array's flow. */
static const char *argument_name(dfi_export *e, df_node *n) {
  const dfi_function *f = dfi_export_function_of(n->context);
  const int32_t slots = dfi_export_handles(e, (df_output){ n, 0 });
  for (int32_t again = 0;; again++) {
    const char *name = dfi_lower_text(&e->l, "f%d_%d_arg_%lld", f->id, again, (long long)n->attrs[1].i);
    const char *flow = dfi_lower_text(&e->l, "%s_flow", name);
    bool good = !is_taken(e, name) && !is_taken(e, flow);
    for (int32_t k = 0; k < slots && good; k++) good = !is_taken(e, dfi_lower_text(&e->l, "%s_slot_%d", name, k));
    if (!good) continue;
    claim(e, name);
    claim(e, flow);
    for (int32_t k = 0; k < slots; k++) claim(e, dfi_lower_text(&e->l, "%s_slot_%d", name, k));
    return name;
  }
}

static const char *name_of(dfi_export *e, df_node *n) {
  return dfi_op_info_at(n->op)->op->flow == DF_FUNCTION_ARG && dfi_export_function_of(n->context)
             ? argument_name(e, n)
             : claim_free(e, dfi_lower_text(&e->l, "%s", dfi_node_name(n)), parts_of(e, n));
}

static int32_t start(dfi_export *e, int32_t n, const int32_t *outputs) {
  df_graph *g = e->graph;
  for (int32_t i = 0; i < n; i++) {
    int32_t id = outputs[2 * i], index = outputs[2 * i + 1];
    if (id < 0 || id >= g->n || index < -1 || index >= g->node[id]->nout)
      return dfi_fail(e->err, DF_INVALID_ARGUMENT, NULL,
                      "export_graph_def: outputs has an entry that is no output of this graph");
    need(e, g->node[id]);
  }
  bool *left_out = dfi_xcalloc((size_t)g->n + 1, sizeof *left_out);
  if (n < 0 && e->frozen) dfi_export_mark_changes(e, left_out);
  for (int32_t i = 0; i < g->n && n < 0; i++) if (!left_out[i] && is_whole(g->node[i])) need(e, g->node[i]);
  dfi_free(left_out);
  need_all(e);
  dfi_export_find_elements(e);
  for (int32_t i = 0; i < g->n; i++) if (e->needed[i]) e->name[i] = name_of(e, g->node[i]);
  dfi_export_arrays_meet(e);
  for (int32_t i = 0; i < g->n; i++) if (e->needed[i]) write_node(e, g->node[i]);
  dfi_export_init(e);
  dfi_export_check_dtypes(e);
  return DF_OK;
}

/* Takes what is said of variables. */
static int32_t take_variables(dfi_export *e, int32_t n, const int32_t *variable, df_tensor *const *value) {
  e->variable = dfi_xcalloc((size_t)n + 1, sizeof *e->variable);
  for (int32_t i = 0; i < n; i++) {
    const int32_t id = variable[2 * i];
    if (id < 0 || id >= e->graph->n || !dfi_is_variable(e->graph->node[id]))
      return dfi_fail(e->err, DF_INVALID_ARGUMENT, NULL,
                      "export_graph_def: entry %d of the variables is no variable of this graph", i);
    e->variable[e->nvariable++] = (dfi_export_variable){ .node = e->graph->node[id],
                                                         .trainable = variable[2 * i + 1] != 0,
                                                         .value = value ? value[i] : NULL };
  }
  return DF_OK;
}

/* The bytes of all that is written. */
static df_tensor *packed(dfi_export *e, int32_t form, Pb__FunctionDefLibrary *library) {
  Pb__VersionDef versions = PB__VERSION_DEF__INIT;
  versions.producer = 1087;                    /* TensorFlow 2.12 and later; any of TensorFlow 1's ops is known there */
  Pb__GraphDef graph = PB__GRAPH_DEF__INIT;
  graph.n_node = e->l.n;
  graph.node = e->l.node;
  graph.versions = &versions;
  graph.library = library;
  const ProtobufCMessage *m = form & DF_EXPORT_CONTEXT ? &dfi_export_meta(e, &graph)->base : &graph.base;
  if (form & DF_EXPORT_TEXT) return dfi_export_text(m, e->err);
  const int64_t size = (int64_t)protobuf_c_message_get_packed_size(m);
  df_tensor *result = df_tensor_new(DF_UINT8, 1, &size, e->err);
  if (result) protobuf_c_message_pack(m, result->data);
  return result;
}

df_tensor *df_export_graph_def(df_graph *g, int32_t n, const int32_t *outputs, int32_t form, int32_t nvariable,
                               const int32_t *variable, df_tensor *const *value, df_error *err) {
  size_t nodes = (size_t)g->n + 1;
  df_error own;
  dfi_short = false;
  if (!err) err = &own;
  dfi_export e = { .graph = g,
                   .err = err,
                   .frozen = form & DF_EXPORT_FROZEN,
                   .d = dfi_xcalloc(1, sizeof *e.d),
                   .needed = dfi_xcalloc(nodes, 1),
                   .array = dfi_xcalloc(nodes, 1),
                   .moves = dfi_xcalloc(nodes, sizeof *e.moves),
                   .element = dfi_xcalloc(nodes, sizeof *e.element),
                   .element_shape = dfi_xcalloc(nodes, sizeof *e.element_shape),
                   .name = dfi_xcalloc(nodes, sizeof *e.name) };
  e.l.d = e.d;
  e.l.err = err;
  df_tensor *result = NULL;
  if (take_variables(&e, nvariable, variable, value) == DF_OK && start(&e, n, outputs) == DF_OK) {
    if (!(form & DF_EXPORT_CLEAR_DEVICES)) dfi_export_devices(&e);
    if (form & DF_EXPORT_CONTEXT) dfi_export_snapshots(&e);
    Pb__FunctionDefLibrary *library = e.nrefused ? NULL : dfi_export_library(&e);
    if (e.nrefused) refuse_all(&e); else result = packed(&e, form, library);
  }
  dfi_free(e.need); dfi_free(e.needed); dfi_free(e.array); dfi_free(e.moves); dfi_free(e.element);
  dfi_free(e.element_shape); dfi_free(e.name); dfi_free(e.taken);
  dfi_free(e.refused);
  dfi_free(e.place); dfi_free(e.l.node); dfi_free(e.variable);
  dfi_graphdef_free(e.d);
  if (!dfi_check_memory(result ? DF_OK : DF_INTERNAL, err, NULL, "an export")) return result;
  df_tensor_release(result);
  return NULL;
}
