/* functions_registered.c: nodes whose gradient is not that of their op.
 *
 * tf.custom_gradient ends in an IdentityN of the results y and the arguments x, whose attribute _gradient_op_type is
 * the name under which Python has registered a function of the gradients of all of these. A SavedModel may carry that
 * function: the library says which one it is (registered_gradients), the saved objects what it is given beside the
 * gradients (tensors of the function that the IdentityN is in, variables) and which gradients it returns. Such a node
 * becomes a RegisteredGradient. Where the file carries no function the node says so when its gradient is asked for.
 */
#include "tensorflow/functions.h"

/* The node, and what the file says of it. */
typedef struct registered {
  dfi_lower      *l;
  const dfi_body *b;
  Pb__NodeDef    *node;
  const char     *type;
  size_t          n;                    /* values that it hands on */
  const Pb__OpDef *function;            /* NULL: the file does not say what its gradient is */
  dfi_texts       captured;
  int64_t        *result;               /* n: by value, which result is its gradient; -1: none */
  bool            damaged;              /* the file names something that is not there; err is filled */
} registered;

bool dfi_lower_has_own_gradient(const Pb__NodeDef *n) {
  const Pb__AttrValue *type = dfi_attr_find(n, "_gradient_op_type");
  if (!type || type->value_case != PB__ATTR_VALUE__VALUE_S || !type->s.len) return false;
  if (type->s.len == strlen(n->op) && !memcmp(type->s.data, n->op, type->s.len)) return false;
  const dfi_op_info *o = dfi_op_find(n->op);
  if (!o || o->op->flow || o->in_list) return o && !strcmp(n->op, "IdentityN");
  for (int32_t i = 0; i < o->nout; i++) if (o->out[i].list || o->out[i].ref) return false;
  return o->nout > 0;
}

static const Pb__SavedConcreteFunction *saved(const dfi_lower *l, const char *name) {
  const Pb__SavedObjectGraph *objects = l->d->meta ? l->d->meta->object_graph_def : NULL;
  for (size_t i = 0; objects && i < objects->n_concrete_functions; i++)
    if (!strcmp(objects->concrete_functions[i]->key, name)) return objects->concrete_functions[i]->value;
  return NULL;
}

/* The argument of the function around the node that is bound to object `id`; NULL: there is none. */
static const char *bound_argument(const registered *r, int32_t id) {
  const Pb__OpDef *around = dfi_lower_signature(r->b);
  const Pb__SavedConcreteFunction *f = saved(r->l, around->name);
  if (!f || f->n_bound_inputs > around->n_input_arg) return NULL;
  const size_t given = around->n_input_arg - f->n_bound_inputs;
  for (size_t i = 0; i < f->n_bound_inputs; i++)
    if (f->bound_inputs[i] == id) return around->input_arg[given + i]->name;
  return NULL;
}

/* What the gradient's function captured, as it is named here. False: the file does not say, or it is not here. */
static bool find_captured(registered *r, const Pb__SavedConcreteFunction *f) {
  const size_t n = r->function->n_input_arg - r->n;
  const Pb__SavedObjectGraph *objects = r->l->d->meta ? r->l->d->meta->object_graph_def : NULL;
  r->captured = dfi_texts_new(r->l, n);
  if (!n) return true;
  if (!f || !r->b || f->n_bound_inputs != n) return false;
  for (size_t i = 0; i < n; i++) {
    const int32_t id = f->bound_inputs[i];
    if (id < 0 || (size_t)id >= objects->n_nodes) return false;
    const Pb__CapturedTensor *t = objects->nodes[id]->captured_tensor;
    if (t && strcmp(t->concrete_function, dfi_lower_signature(r->b)->name)) return false;
    const char *name = t ? t->name : bound_argument(r, id);
    r->captured.at[i] = name ? dfi_lower_resolve(r->l, r->b, name) : NULL;
    r->damaged = name && !r->captured.at[i];
    if (!r->captured.at[i]) return false;
  }
  return true;
}

/* Which results are whose gradients: all that are not None, in order; those of the arguments, which come last, where
   that is not said. */
static bool find_results(registered *r, const Pb__SavedConcreteFunction *f) {
  const Pb__StructuredValue *s = f ? f->output_signature : NULL;
  const Pb__StructuredList *list = s ? s->list_value ? s->list_value : s->tuple_value : NULL;
  const size_t given = r->function->n_output_arg;
  int64_t next = 0;
  if (list ? list->n_values != r->n : given > r->n) return false;
  r->result = dfi_arena_take(&r->l->d->arena, sizeof *r->result * (r->n + 1));
  for (size_t i = 0; i < r->n; i++)
    r->result[i] = (list ? list->values[i]->none_value != NULL : i < r->n - given) ? -1 : next++;
  return next == (int64_t)given;
}

static bool is_plain(const Pb__OpDef__ArgDef *a) {
  return !a->number_attr[0] && !a->type_list_attr[0] && !a->type_attr[0];
}

/* The function that computes the gradient, if the file has all that it takes. */
static void find_function(registered *r) {
  const Pb__FunctionDefLibrary *library = r->l->d->graph->library;
  const char *name = NULL;
  for (size_t i = 0; library && i < library->n_registered_gradients; i++)
    if (!strcmp(library->registered_gradients[i]->registered_op_type, r->type))
      name = library->registered_gradients[i]->gradient_func;
  const int32_t number = name ? dfi_lower_find(r->l, name) : -1;
  if (number < 0) return;
  r->function = r->l->function[number].def->signature;
  bool good = r->function->n_input_arg >= r->n;
  for (size_t i = 0; good && i < r->function->n_input_arg; i++) good = is_plain(r->function->input_arg[i]);
  for (size_t i = 0; good && i < r->function->n_output_arg; i++) good = is_plain(r->function->output_arg[i]);
  const Pb__SavedConcreteFunction *f = saved(r->l, name);
  if (!good || !find_results(r, f) || !find_captured(r, f)) {
    r->function = NULL;
    r->captured.n = 0;
  }
}

static Pb__AttrValue__ListValue *list_attr(dfi_lower *l, Pb__NodeDef *n, const char *key) {
  Pb__AttrValue *a = dfi_lower_attr(l, n, key);
  a->value_case = PB__ATTR_VALUE__VALUE_LIST;
  a->list = dfi_arena_take(&l->d->arena, sizeof *a->list);
  pb__attr_value__list_value__init(a->list);
  return a->list;
}

/* The RegisteredGradient, in the place of the node. */
static void put(registered *r, const dfi_texts *values) {
  dfi_lower *l = r->l;
  Pb__NodeDef *to = dfi_lower_node(l, "RegisteredGradient", r->node->name);
  to->device = r->node->device;
  dfi_lower_add(l, to, &r->captured);
  dfi_lower_add(l, to, values);
  for (size_t i = 0; i < r->node->n_input; i++)
    if (r->node->input[i][0] == '^') dfi_lower_input(l, to, r->node->input[i]);
  dfi_lower_int(l, to, "captured", (int64_t)r->captured.n);
  dfi_lower_string(l, to, "gradient_op_type", r->type);
  if (!r->function) return;
  dfi_lower_string(l, to, "function", r->function->name);
  Pb__AttrValue__ListValue *results = list_attr(l, to, "results"), *types = list_attr(l, to, "Tout");
  results->i = r->result;
  results->n_i = r->n;
  types->type = dfi_arena_take(&l->d->arena, sizeof *types->type * (r->function->n_output_arg + 1));
  for (size_t i = 0; i < r->function->n_output_arg; i++)
    types->type[types->n_type++] = r->function->output_arg[i]->type;
}

int32_t dfi_lower_own_gradient(dfi_lower *l, const dfi_body *b, Pb__NodeDef *n) {
  const ProtobufCBinaryData type = dfi_attr_find(n, "_gradient_op_type")->s;
  const char *name = dfi_lower_text(l, "%.*s", (int)type.len, (const char *)type.data);
  registered r = { .l = l, .b = b, .node = n, .type = name };
  dfi_texts values = dfi_lower_inputs(l, n);
  if (!strcmp(n->op, "IdentityN")) {
    r.n = values.n;
    find_function(&r);
    if (r.damaged) return l->err->code;
    put(&r, &values);
    return DF_OK;
  }
  /* another op, of which Python says that its gradient is a function's: that is in no file */
  Pb__NodeDef *op = dfi_lower_node(l, n->op, dfi_lower_text(l, "%s/value", n->name));
  op->device = n->device;
  op->attr = n->attr;
  op->n_attr = n->n_attr;
  for (size_t i = 0; i < n->n_input; i++) dfi_lower_input(l, op, n->input[i]);
  values = dfi_texts_new(l, (size_t)dfi_op_find(n->op)->nout);
  for (size_t i = 0; i < values.n; i++) values.at[i] = dfi_lower_text(l, "%s:%zu", op->name, i);
  put(&r, &values);
  return DF_OK;
}
