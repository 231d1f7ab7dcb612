/* import_unknown.c: ops that dflow does not know become nodes of the op Unknown, which are an error when they have to
 * run.
 *
 * How many outputs such a node has and what they are is seen from their readers: the entry of a known op, and the
 * attributes of its NodeDef, say what it takes. For outputs that no known node takes, the node's own attributes may say
 * it.
 */
#include "tensorflow/functions.h"
#include "tensorflow/import.h"

static int64_t type_attr(const Pb__NodeDef *def, const char *name) {
  const Pb__AttrValue *v = dfi_attr_find(def, name);
  return v && v->value_case == PB__ATTR_VALUE__VALUE_TYPE ? (int64_t)v->type : 0;
}

static const Pb__AttrValue__ListValue *list_attr(const Pb__NodeDef *def, const char *const *names) {
  for (; *names; names++) {
    const Pb__AttrValue *v = dfi_attr_find(def, *names);
    if (v && v->value_case == PB__ATTR_VALUE__VALUE_LIST && v->list) return v->list;
  }
  return NULL;
}

/* What the taker's input i is, as it says itself. 0: it does not. */
static int64_t taken_as(const dfi_op_info *o, const Pb__NodeDef *taker, int32_t nin, int32_t i) {
  if (!dfi_arity_fits(o, nin)) return 0;
  const dfi_arg *a = dfi_input_arg(o, nin, i);
  if (a->dtype) return a->dtype;
  if (a->var >= 0) {
    const int64_t type = type_attr(taker, o->var[a->var].name);
    return type ? type : type_attr(taker, "T");
  }
  const char *const lists[] = {
    a->types_attr >= 0 ? o->attr[a->types_attr].name : "T", "T", "Tin", "Tinputs", "dtypes", NULL
  };
  const Pb__AttrValue__ListValue *types = list_attr(taker, lists);
  const int32_t at = i - (nin - (types ? (int32_t)types->n_type : 0));      /* such a list comes last */
  return types && at >= 0 ? (int64_t)types->type[at] : type_attr(taker, "T");
}

static int64_t plain(int64_t type) {
  if (type > 100) type -= 100;
  return type > 0 && type < 32 && (df_dtype_bytes((int32_t)type) > 0 || type == DF_RESOURCE) ? type : 0;
}

void dfi_unknown_taken(dfi_unknown *u, dfi_arena *arena, const dfi_op_info *o, const Pb__NodeDef *taker, int32_t nin,
                       int32_t i, int32_t index) {
  if (!u->needed_by) u->needed_by = taker->name;
  if (index < 0) return;
  if (index >= u->n) {
    int64_t *wider = dfi_arena_take(arena, sizeof *wider * (size_t)(index + 1));
    for (int32_t k = 0; k <= index; k++) wider[k] = k < u->n ? u->type[k] : 0;
    u->type = wider;
    u->n = index + 1;
  }
  if (!u->type[index] && strcmp(o->op->type, "Unknown")) u->type[index] = plain(taken_as(o, taker, nin, i));
}

void dfi_unknown_attrs(dfi_unknown *u, dfi_arena *arena, const Pb__NodeDef *def, df_attr *attr) {
  static const char *const types[] = { "output_types", "Tout", "component_types", "dtypes", "out_types", NULL };
  static const char *const shapes[] = { "output_shapes", "_output_shapes", "shapes", NULL };
  const Pb__AttrValue__ListValue *own = list_attr(def, types), *dims = list_attr(def, shapes);
  const int32_t said = own ? (int32_t)own->n_type : 0, n = u->n > said ? u->n : said;
  int64_t *type = dfi_arena_take(arena, sizeof *type * (size_t)(n + 1)),
          *shape = dfi_arena_take(arena, sizeof *shape * (size_t)(n + 1) * (DF_MAX_RANK + 1));
  for (int32_t i = 0; i < n; i++) {
    type[i] = i < u->n ? u->type[i] : 0;
    if (!type[i]) type[i] = plain(i < said ? (int64_t)own->type[i] : type_attr(def, "dtype"));
    if (!type[i]) type[i] = plain(type_attr(def, "T"));
    if (!type[i]) type[i] = DF_VARIANT;
  }
  int64_t at = 0;
  for (size_t i = 0; dims && dims->n_shape == (size_t)n && i < dims->n_shape; i++) {
    const Pb__TensorShapeProto *s = dims->shape[i];
    const bool known = !s->unknown_rank && s->n_dim <= DF_MAX_RANK;
    shape[at++] = known ? (int64_t)s->n_dim : -1;
    for (size_t k = 0; known && k < s->n_dim; k++) shape[at++] = s->dim[k]->size < 0 ? -1 : s->dim[k]->size;
  }
  attr[0] = (df_attr){ .s = def->op, .i = (int64_t)strlen(def->op) };
  attr[1] = (df_attr){ .s = u->needed_by ? u->needed_by : "", .i = u->needed_by ? (int64_t)strlen(u->needed_by) : 0 };
  attr[2] = (df_attr){ .ints = type, .i = n };
  attr[3] = (df_attr){ .ints = shape, .i = at };
}
