/* import_attr.c: TensorFlow's attribute values as an entry's attributes.
 *
 * The entry says which attributes there are and of which type; what it does not have is ignored, whether it begins with an
 * underscore or not. Tensors come in three forms: the bytes of all elements, a list of them, or a list whose last element is
 * repeated up to the size. Sizes are checked before anything is allocated.
 */
#include "tensorflow/import.h"
#include <stdio.h>

/* ---- tensors ------------------------------------------------------------------------------------- */

static int32_t fail(df_error *err, const char *what, const char *text) {
  return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s %s", what, text);
}

/* The dims of a TensorShapeProto; -1 as the rank when it is not known. False: err is filled. */
static bool take_dims(const Pb__TensorShapeProto *s, int32_t *rank, int64_t *dims, const char *what, df_error *err) {
  char text[160];
  *rank = 0;
  if (!s) return true;
  if (s->unknown_rank) { *rank = -1; return true; }
  if (s->n_dim > DF_MAX_RANK) {
    snprintf(text, sizeof text, "has rank %zu; dflow has %d at most", s->n_dim, DF_MAX_RANK);
    dfi_fail(err, DF_UNIMPLEMENTED, NULL, "%s %s", what, text);
    return false;
  }
  for (; *rank < (int32_t)s->n_dim; ++*rank) {
    dims[*rank] = s->dim[*rank]->size;
    if (dims[*rank] >= -1) continue;
    snprintf(text, sizeof text, "has the dimension %lld", (long long)dims[*rank]);
    fail(err, what, text);
    return false;
  }
  return true;
}

static int64_t varint(const uint8_t **p, const uint8_t *end) {
  uint64_t v = 0;
  for (int32_t shift = 0; *p < end && shift < 63; shift += 7) {
    uint8_t byte = *(*p)++;
    v |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return (int64_t)v;
  }
  return -1;
}

/* tensor_content of strings: all lengths, then all bytes. */
static bool packed_strings(df_tensor *t, ProtobufCBinaryData content, const char *what, df_error *err) {
  const uint8_t *p = content.data, *end = p + content.len, *bytes = p;
  for (int64_t i = 0; i < t->size; i++)
    if (varint(&bytes, end) < 0) { fail(err, what, "has strings whose lengths are cut"); return false; }
  for (int64_t i = 0; i < t->size; i++) {
    int64_t length = varint(&p, end);
    if (length > end - bytes) { fail(err, what, "has strings that are cut"); return false; }
    if (df_tensor_set_string(t, i, (const char *)bytes, length, err)) return false;
    bytes += length;
  }
  return true;
}

/* The last element given is that of all that follow; none given is zero. */
static void spread(df_tensor *t, int64_t given) {
  size_t size = (size_t)df_dtype_bytes(t->dtype);
  char *data = t->data;
  if (!given) { memset(data, 0, size * (size_t)t->size); return; }
  for (int64_t have = given; have < t->size; have++) memcpy(data + (size_t)have * size, data + (size_t)(given - 1) * size, size);
}

/* How many elements the list that belongs to the dtype has; -1: none does. */
static int64_t listed(const Pb__TensorProto *p) {
  switch ((int32_t)p->dtype) {
  case DF_FLOAT32: return (int64_t)p->n_float_val;
  case DF_FLOAT64: return (int64_t)p->n_double_val;
  case DF_INT32: case DF_INT16: case DF_INT8: case DF_UINT8: case DF_UINT16: case DF_QINT8: case DF_QUINT8: case DF_QINT16:
  case DF_QUINT16: case DF_QINT32: return (int64_t)p->n_int_val;
  case DF_INT64: return (int64_t)p->n_int64_val;
  case DF_UINT32: return (int64_t)p->n_uint32_val;
  case DF_UINT64: return (int64_t)p->n_uint64_val;
  case DF_BOOL: return (int64_t)p->n_bool_val;
  case DF_FLOAT16: case DF_BFLOAT16: return (int64_t)p->n_half_val;
  case DF_STRING: return (int64_t)p->n_string_val;
  case DF_COMPLEX64: return (int64_t)p->n_scomplex_val / 2;
  case DF_COMPLEX128: return (int64_t)p->n_dcomplex_val / 2;
  default: return -1;
  }
}

static bool copy_listed(df_tensor *t, const Pb__TensorProto *p, int64_t n, df_error *err) {
#define EACH(TYPE, LIST) for (int64_t i = 0; i < n; i++) ((TYPE *)t->data)[i] = (TYPE)p->LIST[i]; break
  switch (t->dtype) {
  case DF_FLOAT32: EACH(float, float_val);
  case DF_FLOAT64: EACH(double, double_val);
  case DF_INT32: case DF_QINT32: EACH(int32_t, int_val);
  case DF_INT16: case DF_QINT16: EACH(int16_t, int_val);
  case DF_UINT16: case DF_QUINT16: EACH(uint16_t, int_val);
  case DF_INT8: case DF_QINT8: EACH(int8_t, int_val);
  case DF_UINT8: case DF_QUINT8: EACH(uint8_t, int_val);
  case DF_INT64: EACH(int64_t, int64_val);
  case DF_UINT32: EACH(uint32_t, uint32_val);
  case DF_UINT64: EACH(uint64_t, uint64_val);
  case DF_BOOL: EACH(bool, bool_val);
  case DF_FLOAT16: case DF_BFLOAT16: EACH(uint16_t, half_val);
  case DF_COMPLEX64: if (n) memcpy(t->data, p->scomplex_val, (size_t)n * 8); break;
  case DF_COMPLEX128: if (n) memcpy(t->data, p->dcomplex_val, (size_t)n * 16); break;
  case DF_STRING:
    for (int64_t i = 0; i < t->size && n; i++) {
      ProtobufCBinaryData s = p->string_val[i < n ? i : n - 1];
      if (df_tensor_set_string(t, i, (const char *)s.data, (int64_t)s.len, err)) return false;
    }
    return true;
  }
#undef EACH
  spread(t, n);
  return true;
}

df_tensor *dfi_tensor_from_proto(const Pb__TensorProto *p, const char *what, df_error *err) {
  char text[200];
  int64_t dims[DF_MAX_RANK], size = 1, given = listed(p);
  int32_t rank, bytes = given < 0 ? 0 : df_dtype_bytes((int32_t)p->dtype);
  if (bytes <= 0) {
    snprintf(text, sizeof text, "is a tensor of dtype %d (%s), whose elements cannot be in a file", (int)p->dtype, df_dtype_name((int32_t)p->dtype));
    fail(err, what, text);
    return NULL;
  }
  if (!take_dims(p->tensor_shape, &rank, dims, what, err)) return NULL;
  bool known = rank >= 0;
  for (int32_t i = 0; i < rank && known; i++) {
    known = dims[i] >= 0;
    if (known && __builtin_mul_overflow(size, dims[i], &size)) size = INT64_MAX;
    if (size == INT64_MAX) break;
  }
  enum { MOST = 1 << 30 };                                   /* of a tensor that says more than the file holds */
  bool content = p->tensor_content.len > 0;
  if (!known) { fail(err, what, "is a tensor whose shape is not known"); return NULL; }
  if (size > INT64_MAX / bytes || (!content && size > given && size > MOST / bytes)) {
    snprintf(text, sizeof text, "is a tensor of %lld elements, but the file has %lld of them", (long long)size, (long long)given);
    fail(err, what, text);
    return NULL;
  }
  if (p->dtype == (Pb__DataType)DF_STRING ? content && (int64_t)p->tensor_content.len < size : content && (int64_t)p->tensor_content.len != size * bytes) {
    snprintf(text, sizeof text, "is a tensor of %lld elements, %lld bytes, but has %zu bytes of content", (long long)size,
             (long long)(size * bytes), p->tensor_content.len);
    fail(err, what, text);
    return NULL;
  }
  if (!content && given > size) {
    snprintf(text, sizeof text, "is a tensor of %lld elements but lists %lld", (long long)size, (long long)given);
    fail(err, what, text);
    return NULL;
  }
  df_tensor *t = df_tensor_new((int32_t)p->dtype, rank, dims, err);
  if (!t || !size) return t;
  bool good = true;
  if (!content) good = copy_listed(t, p, given, err);
  else if (t->dtype == DF_STRING) good = packed_strings(t, p->tensor_content, what, err);
  else if (t->dtype == DF_BOOL) for (int64_t i = 0; i < size; i++) ((bool *)t->data)[i] = p->tensor_content.data[i] != 0;
  else memcpy(t->data, p->tensor_content.data, p->tensor_content.len);
  if (good) return t;
  df_tensor_release(t);
  return NULL;
}

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

static int32_t mismatch(df_error *err, const Pb__NodeDef *def, const char *name, Pb__AttrValue__ValueCase found, const char *expected) {
  return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "attr `%s` of node `%s` is %s, expected %s", name, def->name, kind_text(found), expected);
}

/* A type number as dflow's; a reference to a type counts as the type. 0: dflow has none such. */
static int32_t dtype_of(int64_t type) {
  if (type > 100) type -= 100;
  return type > 0 && type < 32 && df_dtype_bytes((int32_t)type) > 0 ? (int32_t)type : type == DF_RESOURCE ? DF_RESOURCE : 0;
}

static int32_t take_dtype(int64_t type, const char *name, const Pb__NodeDef *def, int64_t *out, df_error *err) {
  *out = dtype_of(type);
  if (*out || !type) return DF_OK;
  return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "attr `%s` of node `%s` is the type %lld, which there is not", name, def->name, (long long)type);
}

static int32_t take_list(df_attr *a, char type, const Pb__AttrValue__ListValue *l, const char *name, const Pb__NodeDef *def, dfi_arena *arena,
                         df_error *err) {
  size_t n = type == 'y' ? l->n_type : type == 'p' ? l->n_shape : l->n_i ? l->n_i : l->n_b ? l->n_b : l->n_type;
  size_t others = l->n_s + l->n_f + l->n_tensor + l->n_func + (type == 'l' ? l->n_shape : type == 'y' ? l->n_shape + l->n_i : l->n_type + l->n_i);
  if (!n && others)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "attr `%s` of node `%s` is a list of something else, expected a list of %s", name, def->name,
                    type == 'y' ? "types" : type == 'p' ? "shapes" : "ints");
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
    if (!take_dims(l->shape[i], &rank, a->ints + a->i + 1, what, err)) return err ? err->code : DF_INVALID_ARGUMENT;
    a->ints[a->i] = rank;
    a->i += 1 + (rank > 0 ? rank : 0);
  }
  return DF_OK;
}

/* One attribute, of the type that the entry says. */
static int32_t take(df_attr *a, char type, const Pb__AttrValue *v, const char *name, const Pb__NodeDef *def, dfi_arena *arena, df_error *err) {
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
    if (!take_dims(v->shape, &rank, a->ints, what, err)) return err ? err->code : DF_INVALID_ARGUMENT;
    a->i = rank;
    return DF_OK;
  }
  case 't':
    if (is != PB__ATTR_VALUE__VALUE_TENSOR) return mismatch(err, def, name, is, "a tensor");
    snprintf(what, sizeof what, "attr `%.60s` of node `%.100s`", name, def->name);
    a->tensor = dfi_tensor_from_proto(v->tensor, what, err);
    return a->tensor ? DF_OK : err ? err->code : DF_INVALID_ARGUMENT;
  default:
    if (is != PB__ATTR_VALUE__VALUE_LIST) return mismatch(err, def, name, is, type == 'y' ? "a list of types" : type == 'p' ? "a list of shapes" : "a list of ints");
    return take_list(a, type, v->list, name, def, arena, err);
  }
}

int32_t dfi_attrs_take(dfi_attrs *a, const dfi_op_info *o, const Pb__NodeDef *def, dfi_arena *arena, df_error *err) {
  a->given = 0;
  if (o->nattr) memcpy(a->value, o->defaults, sizeof *a->value * (size_t)o->nattr);
  for (size_t k = 0; k < def->n_attr && o->nattr; k++) {
    const char *name = def->attr[k]->key;
    if (*name == '_') continue;
    int32_t i = dfi_op_attr_index(o, name);
    if (i < 0) continue;
    if (a->given >> i & 1)
      return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "node `%s` has the attr `%s` twice", def->name, name);
    int32_t code = take(&a->value[i], o->attr[i].type, def->attr[k]->value, name, def, arena, err);
    if (code) return code;
    a->given |= 1u << i;
  }
  for (int32_t i = 0; i < o->nattr && o->needs_attr; i++)
    if (o->attr[i].required && !(a->given >> i & 1))
      return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "node `%s` (%s) has no attr `%s`, which %s needs", def->name, def->op, o->attr[i].name, def->op);
  return DF_OK;
}

void dfi_attrs_drop(dfi_attrs *a, const dfi_op_info *o) {
  for (int32_t i = 0; i < o->nattr; i++)
    if (o->attr[i].type == 't' && a->given >> i & 1) df_tensor_release(a->value[i].tensor);
}

/* ---- attributes that the entry infers from the inputs ---------------------------------------------------
 *
 * The handles of TensorFlow's first queues, stacks and TensorArrays are references to strings there and handles here. */

static const dfi_arg *arg_of(const dfi_op_info *o, int32_t nin, int32_t i) {
  if (!o->in_list) return &o->in[i];
  if (o->in_pair) return &o->in[i >= nin / 2];
  int32_t length = nin - (o->nin - 1), a = 0;
  for (; !o->in[a].list; a++)
    if (a == i) return &o->in[a];
  return i < a + length ? &o->in[a] : &o->in[i - length + 1];
}

int32_t dfi_attrs_check(const dfi_op_info *o, const Pb__NodeDef *def, int32_t nin, const df_output *in, df_error *err) {
  if (o->in_list ? o->in_pair ? nin % 2 : nin < o->nin - 1 : nin != o->nin) return DF_OK;     /* said by the arity check */
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
        if (arg_of(o, nin, i)->var == t && dfi_dtype(in[i]) != dtype && !(dtype == DF_STRING && dfi_dtype(in[i]) == DF_RESOURCE))
          return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "attr `%s` of node `%s` is %s, but its input %d (`%s:%d`) is %s", name, def->name,
                          df_dtype_name((int32_t)dtype), i, dfi_node_name(in[i].node), in[i].index, df_dtype_name(dfi_dtype(in[i])));
    }
    if (o->in_list && !strcmp(name, "N") && dfi_op_attr_index(o, "N") < 0) {
      int32_t length = o->in_pair ? nin / 2 : nin - (o->nin - 1);
      if (is != PB__ATTR_VALUE__VALUE_I) return mismatch(err, def, name, is, "an int");
      if (v->i != length)
        return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "attr `N` of node `%s` is %lld, but its list has %d inputs", def->name, (long long)v->i, length);
    }
  }
  return DF_OK;
}
