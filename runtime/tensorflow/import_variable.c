/* import_variable.c: which nodes of an imported graph are variables, and what the file says of them.
 *
 * TensorFlow 1 lists them in the collections `variables` and `trainable_variables` of a MetaGraphDef, with the tensor
 * that each begins with; TensorFlow 2 in the objects of a SavedModel. A plain GraphDef has no such list; the
 * values of a session, which df.export_graph_def writes, are known by their names. */
#include "tensorflow/functions.h"
#include "tensorflow/import.h"

enum { NODE, TRAINABLE, INIT_NODE, INIT_INDEX, FACTS };

static const Pb__CollectionDef__BytesList *collection(const Pb__MetaGraphDef *m, const char *key) {
  for (size_t i = 0; m && i < m->n_collection_def; i++) {
    const Pb__CollectionDef *c = m->collection_def[i]->value;
    if (!strcmp(m->collection_def[i]->key, key) && c && c->kind_case == PB__COLLECTION_DEF__KIND_BYTES_LIST)
      return c->bytes_list;
  }
  return NULL;
}

/* The node that `name:index` is of, behind the prefix; NULL: there is none. */
static df_node *node_named(df_graph *g, const char *prefix, const char *name, int32_t *index, dfi_arena *arena) {
  const char *colon = strrchr(name, ':');
  const size_t n = colon ? (size_t)(colon - name) : strlen(name), before = strlen(prefix);
  char *full = dfi_arena_take(arena, before + n + 1);
  memcpy(full, prefix, before);
  memcpy(full + before, name, n);
  full[before + n] = 0;
  *index = colon ? atoi(colon + 1) : 0;
  const int32_t id = df_node_by_name(g, full);
  return id < 0 || *index < 0 || *index >= g->node[id]->nout ? NULL : g->node[id];
}

typedef struct facts { int32_t first, *row_of, *row; int32_t n; } facts;

static int32_t *row(const facts *f, const df_node *n) {
  return n && n->id >= f->first && f->row_of[n->id - f->first] >= 0 ? f->row + FACTS * f->row_of[n->id - f->first]
                                                                    : NULL;
}

static void take_collection(const facts *f, df_graph *g, dfi_graphdef *d, const char *prefix, const char *key,
                            bool trainable) {
  const Pb__CollectionDef__BytesList *list = collection(d->meta, key);
  for (size_t i = 0; list && i < list->n_value; i++) {
    const Pb__VariableDef *v = dfi_graphdef_variable(d, list->value[i]);
    int32_t index;
    int32_t *of = v ? row(f, node_named(g, prefix, v->variable_name, &index, &d->arena)) : NULL;
    if (!of) continue;
    of[TRAINABLE] = trainable;
    const df_node *init =
        *v->initial_value_name ? node_named(g, prefix, v->initial_value_name, &index, &d->arena) : NULL;
    if (!init || init->id < f->first || init->context->kind != DFI_TOP) continue;
    of[INIT_NODE] = init->id;
    of[INIT_INDEX] = index;
  }
}

static const char *shared_name(df_node *n) {
  const int32_t i = dfi_op_attr_index(dfi_op_info_at(n->op), "shared_name");
  return i >= 0 && n->attrs[i].i ? n->attrs[i].s : dfi_node_name(n);
}

static void take_objects(const facts *f, df_graph *g, const Pb__SavedObjectGraph *objects) {
  for (size_t i = 0; objects && i < objects->n_nodes; i++) {
    const Pb__SavedVariable *v = objects->nodes[i]->variable;
    for (int32_t k = 0; v && k < f->n; k++)
      if (!strcmp(shared_name(g->node[f->row[FACTS * k]]), v->name)) f->row[FACTS * k + TRAINABLE] = v->trainable;
  }
}

/* Is the node's name the variable's with that end? */
static bool is_named(df_node *node, df_node *variable, const char *end) {
  const char *name = dfi_node_name(node), *of = dfi_node_name(variable);
  const size_t n = strlen(of);
  return !strncmp(name, of, n) && !strcmp(name + n, end);
}

/* What export_variable.c writes of a session's value. TensorFlow's own initializers have other names: variables begin
 * with those only when they are run. */
static bool is_initializer(df_node *assign, df_node *value, df_node *variable) {
  return is_named(assign, variable, "/Assign") && is_named(value, variable, "/Initializer/value");
}

static void take_initializers(const facts *f, df_graph *g) {
  for (int32_t i = f->first; i < g->n; i++) {
    df_node *n = g->node[i];
    int32_t *of = n->nin == 2 ? row(f, n->in[0].node) : NULL;
    if (!of || of[INIT_NODE] >= 0 || n->in[1].node->context->kind != DFI_TOP || n->in[1].node->id < f->first) continue;
    const dfi_op_info *from = dfi_op_info_at(n->in[1].node->op);
    const bool assigns = dfi_has_trait(n, DFO_ASSIGNS) || !strcmp(dfi_op_info_at(n->op)->op->type, "AssignVariableOp");
    if (!assigns || from->op->flow != DF_CONSTANT || !is_initializer(n, n->in[1].node, n->in[0].node))
      continue;
    of[INIT_NODE] = n->in[1].node->id;
    of[INIT_INDEX] = n->in[1].index;
  }
}

df_tensor *dfi_import_variables(df_graph *g, int32_t first, dfi_graphdef *d, const char *prefix, df_error *err) {
  int64_t dims[2] = { 0, FACTS };
  facts f = { .first = first, .row_of = dfi_arena_take(&d->arena, sizeof *f.row_of * (size_t)(g->n - first + 1)) };
  for (int32_t i = first; i < g->n; i++) f.row_of[i - first] = dfi_is_variable(g->node[i]) ? f.n++ : -1;
  dims[0] = f.n;
  df_tensor *t = df_tensor_new(DF_INT32, 2, dims, err);
  if (!t) return NULL;
  f.row = t->data;
  for (int32_t i = first; i < g->n; i++) {
    int32_t *r = row(&f, g->node[i]);
    if (r) { r[NODE] = i; r[TRAINABLE] = r[INIT_NODE] = r[INIT_INDEX] = -1; }
  }
  if (f.n && d->meta) {
    take_objects(&f, g, d->meta->object_graph_def);
    take_collection(&f, g, d, prefix, "variables", false);
    take_collection(&f, g, d, prefix, "trainable_variables", true);
  }
  if (f.n) take_initializers(&f, g);
  return t;
}
