/* import_attr.c: TensorFlow's attribute values as an entry's attributes.
 *
 * The entry says which attributes there are and of which type; what it does not have is ignored, whether it begins with
 * an underscore or not. Tensors: ops/tensor_proto.c.
 */
#include "tensorflow/import.h"
#include "tensorflow/functions.h"
#include "kernels/random.h"
#include <stdio.h>

/* ---- attributes ------------------------------------------------------------------------------------- */

static const char *kind_text(Pb__AttrValue__ValueCase kind) {
  switch (kind) {
  case PB__ATTR_VALUE__VALUE_S: return "a string";
  case PB__ATTR_VALUE__VALUE_I: return "an int";
  case PB__ATTR_VALUE__VALUE_F: return "a float";
  case PB__ATTR_VALUE__VALUE_B: return "a bool";
  case PB__ATTR_VALUE__VALUE_TYPE: return "a type";
  case PB__ATTR_VALUE__VALUE_SHAPE: return "a shape";
  case PB__ATTR_VALUE__VALUE_TENSOR: return "a tensor";
  case PB__ATTR_VALUE__VALUE_LIST: return "a list";
  case PB__ATTR_VALUE__VALUE_FUNC: return "a function";
  case PB__ATTR_VALUE__VALUE_PLACEHOLDER: return "a placeholder of a function";
  default: return "nothing";
  }
}

static int32_t mismatch(df_error *err, const Pb__NodeDef *def, const char *name, Pb__AttrValue__ValueCase found,
                        const char *expected) {
  return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "attr `%s` of node `%s` is %s, expected %s", name, def->name,
                  kind_text(found), expected);
}

/* A type number as dflow's; a reference to a type counts as the type. 0: dflow has none such. */
static int32_t dtype_of(int64_t type) {
  if (type > 100) type -= 100;
  return type > 0 && type < 32 && df_dtype_bytes((int32_t)type) > 0 ? (int32_t)type
         : type == DF_RESOURCE                                      ? DF_RESOURCE
                                                                    : 0;
}

static int32_t take_dtype(int64_t type, const char *name, const Pb__NodeDef *def, int64_t *out, df_error *err) {
  *out = dtype_of(type);
  if (*out || !type) return DF_OK;
  return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "attr `%s` of node `%s` is the type %lld, which there is not", name,
                  def->name, (long long)type);
}

static int32_t take_list(df_attr *a, char type, const Pb__AttrValue__ListValue *l, const char *name,
                         const Pb__NodeDef *def, dfi_arena *arena, df_error *err) {
  size_t n = type == 'y' ? l->n_type : type == 'p' ? l->n_shape : l->n_i ? l->n_i : l->n_b ? l->n_b : l->n_type;
  size_t others = l->n_s + l->n_f + l->n_tensor + l->n_func +
                  (type == 'l'   ? l->n_shape
                   : type == 'y' ? l->n_shape + l->n_i
                                 : l->n_type + l->n_i);
  if (!n && others)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
                    "attr `%s` of node `%s` is a list of something else, expected a list of %s", name, def->name,
                    type == 'y'   ? "types"
                    : type == 'p' ? "shapes"
                                  : "ints");
  a->i = (int64_t)n;
  if (type != 'p') {
    a->ints = dfi_arena_take(arena, sizeof *a->ints * n);
    for (size_t i = 0; i < n; i++) {
      a->ints[i] = type == 'l' && l->n_i ? l->i[i] : type == 'l' && l->n_b ? l->b[i] : (int64_t)l->type[i];
      int32_t code = type == 'y' || (!l->n_i && !l->n_b) ? take_dtype(a->ints[i], name, def, &a->ints[i], err) : DF_OK;
      if (code) return code;
    }
    return DF_OK;
  }
  a->ints = dfi_arena_take(arena, sizeof *a->ints * n * (DF_MAX_RANK + 1));
  a->i = 0;
  for (size_t i = 0; i < n; i++) {
    int32_t rank;
    char what[200];
    snprintf(what, sizeof what, "a shape of attr `%.60s` of node `%.100s`", name, def->name);
    if (!dfi_proto_dims(l->shape[i], &rank, a->ints + a->i + 1, what, err))
      return err ? err->code : DF_INVALID_ARGUMENT;
    a->ints[a->i] = rank;
    a->i += 1 + (rank > 0 ? rank : 0);
  }
  return DF_OK;
}

/* A list of floats, or of strings, is a vector. */
static int32_t take_vector(df_attr *a, const Pb__AttrValue__ListValue *l, const char *name, const Pb__NodeDef *def,
                           df_error *err) {
  if (l->n_i + l->n_b + l->n_type + l->n_shape + l->n_func || (l->n_s && l->n_f))
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
                    "attr `%s` of node `%s` is a list of something else, expected a list of floats or of strings", name,
                    def->name);
  const size_t n = l->n_s ? l->n_s : l->n_f;
  a->tensor = dfi_tensor_make(l->n_s ? DF_STRING : DF_FLOAT32, 1, (int64_t[]){ (int64_t)n });
  if (!a->tensor) return dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "out of memory for a list of %zu elements", n);
  if (l->n_f) memcpy(a->tensor->data, l->f, sizeof *l->f * l->n_f);
  for (size_t i = 0; i < l->n_s; i++) {
    const int32_t code = df_tensor_set_string(a->tensor, (int64_t)i, (const char *)l->s[i].data, (int64_t)l->s[i].len,
                                              err);
    if (code) { df_tensor_release(a->tensor); a->tensor = NULL; return code; }
  }
  return DF_OK;
}

/* One attribute, of the type that the entry says. */
static int32_t take(df_attr *a, char type, const Pb__AttrValue *v, const char *name, const Pb__NodeDef *def,
                    dfi_arena *arena, int64_t *unpack, df_error *err) {
  Pb__AttrValue__ValueCase is = v ? v->value_case : PB__ATTR_VALUE__VALUE__NOT_SET;
  char what[200];
  switch (type) {
  case 'i':
    if (is != PB__ATTR_VALUE__VALUE_I) return mismatch(err, def, name, is, "an int");
    a->i = v->i;
    return DF_OK;
  case 'f':
    if (is != PB__ATTR_VALUE__VALUE_F) return mismatch(err, def, name, is, "a float");
    a->f = v->f;
    return DF_OK;
  case 'b':
    if (is != PB__ATTR_VALUE__VALUE_B) return mismatch(err, def, name, is, "a bool");
    a->i = v->b;
    return DF_OK;
  case 's':
    if (is != PB__ATTR_VALUE__VALUE_S) return mismatch(err, def, name, is, "a string");
    a->i = (int64_t)v->s.len;
    char *s = dfi_arena_take(arena, v->s.len + 1);
    if (v->s.len) memcpy(s, v->s.data, v->s.len);
    s[v->s.len] = 0;
    a->s = s;
    return DF_OK;
  case 'd':
    if (is != PB__ATTR_VALUE__VALUE_TYPE) return mismatch(err, def, name, is, "a type");
    return take_dtype(v->type, name, def, &a->i, err);
  case 'h': {
    if (is != PB__ATTR_VALUE__VALUE_SHAPE) return mismatch(err, def, name, is, "a shape");
    int32_t rank;
    a->ints = dfi_arena_take(arena, sizeof *a->ints * DF_MAX_RANK);
    snprintf(what, sizeof what, "attr `%.60s` of node `%.100s`", name, def->name);
    if (!dfi_proto_dims(v->shape, &rank, a->ints, what, err)) return err ? err->code : DF_INVALID_ARGUMENT;
    a->i = rank;
    return DF_OK;
  }
  case 't':
    if (is == PB__ATTR_VALUE__VALUE_LIST && !v->list->n_tensor) return take_vector(a, v->list, name, def, err);
    if (is != PB__ATTR_VALUE__VALUE_TENSOR) return mismatch(err, def, name, is, "a tensor");
    snprintf(what, sizeof what, "attr `%.60s` of node `%.100s`", name, def->name);
    a->tensor = dfi_tensor_from_proto(v->tensor, what, unpack, err);
    return a->tensor ? DF_OK : err ? err->code : DF_INVALID_ARGUMENT;
  default:
    if (is != PB__ATTR_VALUE__VALUE_LIST)
      return mismatch(err, def, name, is,
                      type == 'y'   ? "a list of types"
                      : type == 'p' ? "a list of shapes"
                                    : "a list of ints");
    return take_list(a, type, v->list, name, def, arena, err);
  }
}

/* TensorFlow's two seeds, the graph's and the op's, as the one that ops have here; both 0: none, so one of the op's
 * own. */
static void take_seeds(dfi_attrs *a, const dfi_op_info *o, const Pb__NodeDef *def) {
  const int32_t i = dfi_op_attr_index(o, "seed");
  if (!(o->op->traits & DFO_RANDOM) || i < 0) return;
  const Pb__AttrValue *second = dfi_attr_find(def, "seed2");
  const int64_t seed2 = second && second->value_case == PB__ATTR_VALUE__VALUE_I ? second->i : 0;
  if (!(a->given >> i & 1)) a->value[i].i = 0;
  if (seed2) a->value[i].i = (int64_t)(dfk_mix(dfk_mix((uint64_t)a->value[i].i) ^ (uint64_t)seed2) >> 1);
  else if (a->value[i].i == 0) a->value[i].i = -1;
}

int32_t dfi_attrs_take(dfi_attrs *a, const dfi_op_info *o, const Pb__NodeDef *def, dfi_arena *arena, int64_t *unpack,
                       df_error *err) {
  a->given = 0;
  if (o->nattr) memcpy(a->value, o->defaults, sizeof *a->value * (size_t)o->nattr);
  for (size_t k = 0; k < def->n_attr && o->nattr; k++) {
    const char *name = def->attr[k]->key;
    if (*name == '_') continue;
    int32_t i = dfi_op_attr_index(o, name);
    if (i < 0) continue;
    if (a->given >> i & 1)
      return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "node `%s` has the attr `%s` twice", def->name, name);
    int32_t code = take(&a->value[i], o->attr[i].type, def->attr[k]->value, name, def, arena, unpack, err);
    if (code) return code;
    a->given |= 1u << i;
  }
  take_seeds(a, o, def);
  for (int32_t i = 0; i < o->nattr && o->needs_attr; i++)
    if (o->attr[i].required && !(a->given >> i & 1))
      return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "node `%s` (%s) has no attr `%s`, which %s needs", def->name,
                      def->op, o->attr[i].name, def->op);
  return DF_OK;
}

void dfi_attrs_drop(dfi_attrs *a, const dfi_op_info *o) {
  for (int32_t i = 0; i < o->nattr; i++)
    if (o->attr[i].type == 't' && a->given >> i & 1) df_tensor_release(a->value[i].tensor);
}

/* ---- attributes that the entry infers from the inputs ---------------------------------------------------
 *
 * The handles of TensorFlow's first queues, stacks and TensorArrays are references to strings there and handles here.
 * */

int32_t dfi_attrs_check(const dfi_op_info *o, const Pb__NodeDef *def, int32_t nin, const df_output *in, df_error *err) {
  if (!dfi_arity_fits(o, nin)) return DF_OK;                               /* said by the arity check */
  for (size_t k = 0; k < def->n_attr; k++) {
    const char *name = def->attr[k]->key;
    const Pb__AttrValue *v = def->attr[k]->value;
    Pb__AttrValue__ValueCase is = v ? v->value_case : PB__ATTR_VALUE__VALUE__NOT_SET;
    if (*name == '_') continue;
    for (int32_t t = 0; t < o->nvar; t++) {
      if (strcmp(o->var[t].name, name)) continue;
      if (is != PB__ATTR_VALUE__VALUE_TYPE) return mismatch(err, def, name, is, "a type");
      int64_t dtype;
      int32_t code = take_dtype(v->type, name, def, &dtype, err);
      if (code) return code;
      for (int32_t i = 0; i < nin; i++)
        if (dfi_input_arg(o, nin, i)->var == t && dfi_dtype(in[i]) != dtype &&
            !(dtype == DF_STRING && dfi_dtype(in[i]) == DF_RESOURCE))
          return dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
                          "attr `%s` of node `%s` is %s, but its input %d (`%s:%d`) is %s", name, def->name,
                          df_dtype_name((int32_t)dtype), i, dfi_node_name(in[i].node), in[i].index,
                          df_dtype_name(dfi_dtype(in[i])));
    }
    if (o->in_list && !strcmp(name, "N") && dfi_op_attr_index(o, "N") < 0) {
      const int32_t length = dfi_list_length(o, nin);
      if (is != PB__ATTR_VALUE__VALUE_I) return mismatch(err, def, name, is, "an int");
      if (v->i != length)
        return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "attr `N` of node `%s` is %lld, but its list has %d inputs",
                        def->name, (long long)v->i, length);
    }
  }
  return DF_OK;
}
