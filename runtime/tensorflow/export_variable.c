/* export_variable.c: variables in an exported graph: what they begin with, what they are when they are frozen, and the
 * collections by which TensorFlow finds them.
 *
 * A frozen variable is a Const under the variable's name, and a read of it an Identity; what hands the variable on,
 * into a loop or a branch, hands on the value. What changes a variable has no place beside it. Otherwise an operation
 * `init` assigns to each variable its value, or else its initial value.
 */
#include "tensorflow/export.h"
#include "graph/flow.h"
#include <stdio.h>

static const char *type_of(const df_node *n) { return dfi_op_info_at(n->op)->op->type; }

/* NULL: nothing is said of it. */
static dfi_export_variable *variable_of(const dfi_export *e, const df_node *n) {
  for (int32_t i = 0; i < e->nvariable && dfi_is_variable(n); i++) if (e->variable[i].node == n) return &e->variable[i];
  return NULL;
}

const df_tensor *dfi_export_value(const dfi_export *e, const df_node *n) {
  const dfi_export_variable *v = variable_of(e, n);
  return v ? v->value : NULL;
}

/* ---- frozen --------------------------------------------------------------------------------------------- */

static bool passes(const df_node *n) {
  const df_flow f = dfi_op_info_at(n->op)->op->flow;
  return (f >= DF_SWITCH && f <= DF_NEXT_ITERATION) || dfi_flow_is(n, FLOW_IDENTITY);
}

/* The variable whose handle, or reference, this output is; NULL: it is none. */
static const df_node *variable_behind(df_output o) {
  if (dfi_dtype(o) != DF_RESOURCE && !o.node->out[o.index].ref) return NULL;
  for (df_output outer; o.node; o = outer) {
    while (passes(o.node) && o.node->nin) o = o.node->in[0];
    outer = dfi_flow_captured(o);
    if (!outer.node) break;
  }
  return dfi_is_variable(o.node) ? o.node : NULL;
}

static int32_t value_dtype(const df_node *variable) {
  return (int32_t)variable->attrs[dfi_op_attr_index(dfi_op_info_at(variable->op), "dtype")].i;
}

int32_t dfi_export_dtype(const dfi_export *e, df_output o) {
  const df_node *variable = e->frozen && dfi_dtype(o) == DF_RESOURCE ? variable_behind(o) : NULL;
  return variable ? value_dtype(variable) : dfi_dtype(o);
}

static bool is_read(const df_node *n) {
  static const char *const reads[] = { "ReadVariableOp", "ReadVariableSaved",  "ReadReferenceSaved",
                                       "VariableShape",  "VarIsInitializedOp", "IsVariableInitialized",
                                       "ResourceGather", "ResourceGatherNd" };
  for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) if (!strcmp(type_of(n), reads[i])) return true;
  return false;
}

static bool changes_variable(const df_node *n) {
  const df_flow flow = dfi_op_info_at(n->op)->op->flow;
  if (passes(n) || is_read(n) || flow == DF_CALL) return false;  /* a call: what changes it lies in the function */
  for (int32_t i = 0; i < n->nin; i++)
    if (variable_behind(n->in[i]) && (dfi_dtype(n->in[i]) == DF_RESOURCE || dfi_input_is_reference(n, i))) return true;
  return false;
}

void dfi_export_mark_changes(const dfi_export *e, bool *left_out) {
  const df_graph *g = e->graph;
  for (bool again = true; again; ) {  /* more than once only where a loop's Merge stands before what it depends on */
    again = false;
    for (int32_t i = 0; i < g->n; i++) {
      const df_node *n = g->node[i];
      bool out = !left_out[i] && changes_variable(n);
      for (int32_t k = 0; k < n->nin && !left_out[i]; k++) out |= left_out[n->in[k].node->id];
      for (int32_t k = 0; k < n->ncontrol && !left_out[i]; k++) out |= n->control[k] && left_out[n->control[k]->id];
      if (out) left_out[i] = again = true;
    }
  }
}

static void constant(dfi_export *e, const char *name, const df_tensor *value) {
  Pb__NodeDef *def = dfi_export_node(e, "Const", name, 1);
  dfi_lower_type(&e->l, def, "dtype", value->dtype);
  dfi_export_tensor(e, def, "value", value);
}

/* A read, in terms of the value that stands where the variable stood. */
static void write_read(dfi_export *e, const df_node *n, const df_node *variable) {
  const char *type = type_of(n), *name = e->name[n->id];
  const bool gather = !strcmp(type, "ResourceGather"), nd = !strcmp(type, "ResourceGatherNd");
  const int32_t dtype = value_dtype(variable);
  if (strstr(type, "Initialized")) {
    df_tensor *yes = df_tensor_new(DF_BOOL, 0, NULL, NULL);
    df_tensor_set(yes, 0, 1);
    constant(e, name, yes);
    df_tensor_release(yes);
    return;
  }
  const char *axis = gather ? dfi_export_number(e, dfi_export_name(e, "%s/axis", name), DF_INT32, 0) : NULL;
  Pb__NodeDef *def = dfi_export_node(e,
                                     gather                           ? "GatherV2"
                                     : nd                             ? "GatherNd"
                                     : !strcmp(type, "VariableShape") ? "Shape"
                                                                      : "Identity",
                                     name, 1);
  dfi_lower_input(&e->l, def, dfi_export_ref(e, n->in[0]));
  if (gather || nd) dfi_lower_input(&e->l, def, dfi_export_ref(e, n->in[1]));
  if (axis) dfi_lower_input(&e->l, def, axis);
  dfi_export_controls(e, def);
  dfi_lower_type(&e->l, def, gather || nd ? "Tparams" : "T", dtype);
  if (gather || nd) dfi_lower_type(&e->l, def, "Tindices", dfi_dtype(n->in[1]));
  if (gather) {
    dfi_lower_type(&e->l, def, "Taxis", DF_INT32);
    dfi_lower_int(&e->l, def, "batch_dims", n->attrs[dfi_op_attr_index(dfi_op_info_at(n->op), "batch_dims")].i);
  }
  if (!strcmp(def->op, "Shape")) dfi_lower_type(&e->l, def, "out_type", n->out[0].dtype);
}

bool dfi_export_frozen_node(dfi_export *e, const df_node *n) {
  if (!e->frozen) return false;
  if (dfi_is_variable(n)) {
    const df_tensor *value = dfi_export_value(e, n);
    if (value) constant(e, e->name[n->id], value);
    else dfi_export_refuse(e, "the variable has no value in the session, so there is none to freeze");
    return true;
  }
  if (changes_variable(n)) {
    dfi_export_refuse(e, "it changes a variable, and frozen variables are constants");
    return true;
  }
  const df_node *variable = n->nin ? variable_behind(n->in[0]) : NULL;
  if (!variable || !is_read(n)) return false;
  write_read(e, n, variable);
  return true;
}

/* ---- init ------------------------------------------------------------------------------------------------------ */

/* The operation of the graph itself that gives the variable its first value; NULL: there is none. */
static const char *own_initializer(const dfi_export *e, const df_node *variable) {
  for (int32_t i = 0; i < e->graph->n; i++) {
    const df_node *n = e->graph->node[i];
    if (!e->needed[i] || !n->nin || n->in[0].node != variable ||
        (strcmp(type_of(n), "Assign") && strcmp(type_of(n), "AssignVariableOp")))
      continue;
    return e->name[i];
  }
  return NULL;
}

static const char *assign(dfi_export *e, df_node *n, dfi_export_variable *v) {
  const bool resource = dfi_dtype((df_output){ n, 0 }) == DF_RESOURCE;
  const df_tensor *value = v ? v->value : NULL;
  const df_output init = e->graph->variable_init ? dfi_map_get(e->graph->variable_init, (df_output){ n, 0 }) : DFI_NONE;
  if (!value && !init.node) return NULL;
  e->current = n;
  const char *own = e->name[n->id],
             *from = value ? dfi_export_name(e, "%s/Initializer/value", own) : dfi_export_ref(e, init);
  if (value) constant(e, from, value);
  const char *name = dfi_export_name(e, "%s/Assign", own);
  Pb__NodeDef *def = dfi_export_node(e, resource ? "AssignVariableOp" : "Assign", name, resource ? 0 : 1);
  dfi_lower_input(&e->l, def, own);
  dfi_lower_input(&e->l, def, from);
  dfi_lower_type(&e->l, def, resource ? "dtype" : "T", value_dtype(n));
  if (v) { v->initializer = name; v->initial = from; }
  return name;
}

void dfi_export_init(dfi_export *e) {
  const char *group = NULL;
  Pb__NodeDef *all = NULL;
  for (int32_t i = 0; i < e->graph->n && !e->frozen; i++) {
    df_node *n = e->graph->node[i];
    if (!e->needed[i] || !dfi_is_variable(n)) continue;
    const char *name = assign(e, n, variable_of(e, n));
    if (!name) continue;
    if (!group) {
      group = dfi_export_name(e, "init");
      all = dfi_export_node(e, "NoOp", group, 0);
    }
    dfi_lower_input(&e->l, all, dfi_lower_text(&e->l, "^%s", name));
  }
}

/* ---- collections ------------------------------------------------------------------------------------------------- */

void dfi_export_snapshots(dfi_export *e) {
  for (int32_t i = 0; i < e->nvariable && !e->frozen; i++) {
    dfi_export_variable *v = &e->variable[i];
    if (!e->needed[v->node->id]) continue;
    const bool resource = dfi_dtype((df_output){ v->node, 0 }) == DF_RESOURCE;
    const char *own = e->name[v->node->id];
    e->current = v->node;
    v->snapshot = dfi_export_name(e, resource ? "%s/Read/ReadVariableOp" : "%s/read", own);
    Pb__NodeDef *def = dfi_export_node(e, resource ? "ReadVariableOp" : "Identity", v->snapshot, 1);
    dfi_lower_input(&e->l, def, own);
    dfi_lower_type(&e->l, def, resource ? "dtype" : "T", value_dtype(v->node));
    if (!v->initializer) v->initializer = own_initializer(e, v->node);
  }
}

Pb__VariableDef *dfi_export_variable_def(dfi_export *e, const dfi_export_variable *v) {
  if (e->frozen || !e->needed[v->node->id] || !v->initializer) return NULL;
  Pb__VariableDef *d = dfi_arena_take(&e->d->arena, sizeof *d);
  pb__variable_def__init(d);
  d->variable_name = dfi_lower_text(&e->l, "%s:0", e->name[v->node->id]);
  d->initializer_name = (char *)(uintptr_t)v->initializer;
  d->snapshot_name = dfi_lower_text(&e->l, "%s:0", v->snapshot);
  if (v->initial)
    d->initial_value_name =
        strchr(v->initial, ':') ? (char *)(uintptr_t)v->initial : dfi_lower_text(&e->l, "%s:0", v->initial);
  d->is_resource = dfi_dtype((df_output){ v->node, 0 }) == DF_RESOURCE;
  d->trainable = v->trainable;
  return d;
}
