/* export_attr.c: attributes and inputs of a node as TensorFlow's table of ops wants them. */
#include "tensorflow/export.h"
#include <pthread.h>
#include <stdio.h>


/* ---- tensors and shapes ------------------------------------------------------------------------------- */

static Pb__TensorShapeProto *shape_proto(dfi_export *e, int32_t rank, const int64_t *dims) {
  Pb__TensorShapeProto *s = dfi_export_take(e, sizeof *s);
  pb__tensor_shape_proto__init(s);
  s->unknown_rank = rank < 0;
  s->n_dim = rank > 0 ? (size_t)rank : 0;
  s->dim = dfi_export_take(e, sizeof *s->dim * (s->n_dim + 1));
  for (size_t i = 0; i < s->n_dim; i++) {
    s->dim[i] = dfi_export_take(e, sizeof **s->dim);
    pb__tensor_shape_proto__dim__init(s->dim[i]);
    s->dim[i]->size = dims[i];
  }
  return s;
}

void dfi_export_shape(dfi_export *e, Pb__NodeDef *n, const char *key, int32_t rank, const int64_t *dims) {
  Pb__AttrValue *a = dfi_lower_attr(&e->l, n, key);
  a->value_case = PB__ATTR_VALUE__VALUE_SHAPE;
  a->shape = shape_proto(e, rank, dims);
}

void dfi_export_tensor(dfi_export *e, Pb__NodeDef *n, const char *key, const df_tensor *t) {
  Pb__AttrValue *a = dfi_lower_attr(&e->l, n, key);
  Pb__TensorProto *p = dfi_export_take(e, sizeof *p);
  pb__tensor_proto__init(p);
  a->value_case = PB__ATTR_VALUE__VALUE_TENSOR;
  a->tensor = p;
  p->dtype = (Pb__DataType)t->dtype;
  p->tensor_shape = shape_proto(e, t->rank, t->dims);
  size_t bytes = (size_t)t->size * (size_t)df_dtype_bytes(t->dtype);
  if (t->dtype == DF_STRING) {
    p->n_string_val = (size_t)t->size;
    p->string_val = dfi_export_take(e, sizeof *p->string_val * (p->n_string_val + 1));
    for (int64_t i = 0; i < t->size; i++) {
      int64_t length;
      const char *s = df_tensor_string(t, i, &length);
      p->string_val[i].data = dfi_export_take(e, (size_t)length + 1);
      p->string_val[i].len = (size_t)length;
      if (length) memcpy(p->string_val[i].data, s, (size_t)length);
    }
  } else if (bytes) {
    p->tensor_content.data = dfi_export_take(e, bytes);
    p->tensor_content.len = bytes;
    memcpy(p->tensor_content.data, t->data, bytes);
  }
}

void dfi_export_output_shapes(dfi_export *e, Pb__NodeDef *n, const dfi_shape *first) {
  Pb__AttrValue *a = dfi_lower_attr(&e->l, n, "_output_shapes");
  a->value_case = PB__ATTR_VALUE__VALUE_LIST;
  a->list = dfi_export_take(e, sizeof *a->list);
  pb__attr_value__list_value__init(a->list);
  a->list->n_shape = 2;
  a->list->shape = dfi_export_take(e, sizeof *a->list->shape * 2);
  a->list->shape[0] = shape_proto(e, first->rank, first->dims);
  a->list->shape[1] = shape_proto(e, 0, NULL);
}

/* ---- the table ------------------------------------------------------------------------------------------- */

/* The ops of the table, sorted by type. */
enum { MOST_TYPES = 1024 };
static struct type { const char *name; size_t length; const dfi_tensorflow_op *op; } types[MOST_TYPES];
static size_t ntypes;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int by_name(const void *a, const void *b) {
  const struct type *x = a, *y = b;
  const int order = memcmp(x->name, y->name, x->length < y->length ? x->length : y->length);
  return order ? order : (x->length > y->length) - (x->length < y->length);
}

static void sort_types(void) {
  for (int32_t i = 0; i < dfi_export_table_size; i++) {
    size_t length;
    for (const char *p = dfi_export_table[i].types; *p; p += length + (p[length] == ' ')) {
      length = strcspn(p, " ");
      df_assert(ntypes < MOST_TYPES);
      types[ntypes++] = (struct type){ p, length, &dfi_export_table[i].op };
    }
  }
  qsort(types, ntypes, sizeof *types, by_name);
}

static const dfi_tensorflow_op *find(const char *type) {
  pthread_once(&once, sort_types);
  const struct type key = { .name = type, .length = strlen(type) };
  const struct type *found = bsearch(&key, types, ntypes, sizeof *types, by_name);
  if (found) return found->op;
  const dfi_op_info *o = dfi_op_find(type);
  return o ? o->op->tensorflow : NULL;
}

/* Is this one of the words of `list`? */
static bool lists(const char *list, const char *word) {
  const size_t n = strlen(word);
  for (const char *p = list; (p = strstr(p, word)); p++)
    if ((p == list || p[-1] == ' ') && (!p[n] || p[n] == ' ')) return true;
  return false;
}

/* A word of the table, taken apart. */
typedef struct arg {
  char number[40], type[40];   /* `N*T`; empty where there is none */
  bool types;                  /* `@T` */
  int32_t fixed;               /* `=3` */
  int32_t length;
} arg;

enum { ARGS = 24 };
static int32_t take_args(const char *text, arg *out) {
  int32_t n = 0;
  for (const char *p = text; *p && n < ARGS; n++) {
    size_t length = strcspn(p, " ");
    arg *a = &out[n];
    *a = (arg){ .length = 1 };
    const char *star = memchr(p, '*', length), *type = star ? star + 1 : p;
    if (star) snprintf(a->number, sizeof a->number, "%.*s", (int)(star - p), p);
    if (*type == '@') { a->types = true; type++; }
    if (*type == '=') a->fixed = atoi(type + 1);
    else snprintf(a->type, sizeof a->type, "%.*s", (int)(p + length - type), type);
    p += length;
    while (*p == ' ') p++;
  }
  return n;
}

static const df_attr *own_attr(const df_node *n, const char *name, char *type) {
  const dfi_op_info *o = dfi_op_info_at(n->op);
  int32_t i = dfi_op_attr_index(o, name);
  if (i < 0) return NULL;
  *type = o->attr[i].type;
  return &n->attrs[i];
}

/* How many inputs each argument has. False: they do not come out. */
static bool lengths(const df_node *n, arg *in, int32_t nargs) {
  int32_t lists = 0, known = 0, last = -1;
  char type;
  for (int32_t i = 0; i < nargs; i++) {
    bool list = *in[i].number || in[i].types;
    const df_attr *a = list ? own_attr(n, in[i].types ? in[i].type : in[i].number, &type) : NULL;
    if (a && (type == 'y' || type == 'i')) in[i].length = (int32_t)a->i;
    else if (list) { lists++; last = i; in[i].length = 0; }
    known += in[i].length;
  }
  if (lists == 0) return known == n->nin;
  if ((n->nin - known) % lists || n->nin < known) return false;
  for (int32_t i = 0; i <= last; i++)
    if ((*in[i].number || in[i].types) && !in[i].length) in[i].length = (n->nin - known) / lists;
  return true;
}

static int32_t *type_list(dfi_export *e, Pb__NodeDef *def, const char *key, size_t n) {
  Pb__AttrValue *a = dfi_lower_attr(&e->l, def, key);
  a->value_case = PB__ATTR_VALUE__VALUE_LIST;
  a->list = dfi_export_take(e, sizeof *a->list);
  pb__attr_value__list_value__init(a->list);
  a->list->n_type = n;
  a->list->type = dfi_export_take(e, sizeof *a->list->type * (n + 1));
  return (int32_t *)a->list->type;
}

/* A vector as a list of floats or strings. */
static void write_vector(dfi_export *e, Pb__AttrValue__ListValue *l, const df_tensor *t) {
  const size_t n = (size_t)t->size;
  if (t->dtype == DF_STRING) {
    l->s = dfi_export_take(e, sizeof *l->s * (n + 1));
    l->n_s = n;
  } else {
    l->f = dfi_export_take(e, sizeof *l->f * (n + 1));
    l->n_f = n;
  }
  for (size_t i = 0; i < n; i++) {
    const df_str *s = t->dtype == DF_STRING ? (const df_str *)t->data + i : NULL;
    if (s) l->s[i] = (ProtobufCBinaryData){ .len = (size_t)s->length, .data = (uint8_t *)s->bytes };
    else l->f[i] = (float)df_tensor_get(t, (int64_t)i);
  }
}

/* Our attribute in TensorFlow's words. */
static void write_attr(dfi_export *e, Pb__NodeDef *def, const char *key, char kind, char ours, const df_attr *v) {
  Pb__AttrValue *a;
  switch (kind) {
  case 'i': dfi_lower_int(&e->l, def, key, v->i); return;
  case 'b': dfi_lower_bool(&e->l, def, key, v->i != 0); return;
  case 'd': dfi_lower_type(&e->l, def, key, (int32_t)v->i); return;
  case 't': dfi_export_tensor(e, def, key, v->tensor); return;
  case 'h': dfi_export_shape(e, def, key, (int32_t)v->i, v->ints); return;
  case 'f':
    a = dfi_lower_attr(&e->l, def, key);
    a->value_case = PB__ATTR_VALUE__VALUE_F;
    a->f = (float)v->f;
    return;
  case 's':
    a = dfi_lower_attr(&e->l, def, key);
    a->value_case = PB__ATTR_VALUE__VALUE_S;
    a->s = (ProtobufCBinaryData){ .len = (size_t)v->i, .data = (uint8_t *)(uintptr_t)v->s };
    return;
  default: break;
  }
  if (kind == 'y') {
    int32_t *type = type_list(e, def, key, (size_t)v->i);
    for (int64_t i = 0; i < v->i; i++) type[i] = (int32_t)v->ints[i];
    return;
  }
  a = dfi_lower_attr(&e->l, def, key);
  a->value_case = PB__ATTR_VALUE__VALUE_LIST;
  a->list = dfi_export_take(e, sizeof *a->list);
  pb__attr_value__list_value__init(a->list);
  if (kind == 'p') {
    a->list->n_shape = (size_t)dfi_shapes_count(v);
    a->list->shape = dfi_export_take(e, sizeof *a->list->shape * (a->list->n_shape + 1));
    for (size_t i = 0; i < a->list->n_shape; i++) {
      dfi_shape s = dfi_shapes_at(v, (int32_t)i);
      a->list->shape[i] = shape_proto(e, s.rank, s.dims);
    }
  } else if (kind == 'l') {
    a->list->n_i = (size_t)v->i;
    a->list->i = dfi_export_take(e, sizeof *a->list->i * (a->list->n_i + 1));
    for (int64_t i = 0; i < v->i; i++) a->list->i[i] = v->ints[i];
  } else if (kind == 'B') {
    a->list->n_b = (size_t)v->i;
    a->list->b = dfi_export_take(e, sizeof *a->list->b * (a->list->n_b + 1));
    for (int64_t i = 0; i < v->i; i++) a->list->b[i] = v->ints[i] != 0;
  } else if (v->tensor) {
    write_vector(e, a->list, v->tensor);
  }
}

static bool fits(char kind, char ours) {
  return kind == ours || (kind == 'B' && ours == 'l') || ((kind == 'F' || kind == 'S') && ours == 't');
}

/* The handles of TensorFlow's first queues and stacks are references to strings there. */
static int32_t their_dtype(const dfi_export *e, const df_node *n, const df_output o) {
  bool reference = !strncmp(dfi_op_info_at(n->op)->op->type, "Ref", 3);
  return reference && dfi_dtype(o) == DF_RESOURCE ? DF_STRING : dfi_export_dtype(e, o);
}

/* Index dtypes that are one in TensorFlow may differ here: all are then int64. 0: the argument's inputs are of one
 * dtype with those of its kin. */
static int32_t common_index(const dfi_export *e, const df_node *n, const arg *in, int32_t nargs, const char *type) {
  int32_t first = 0;
  bool differ = false, indices = *type != 0;
  for (int32_t i = 0, at = 0; i < nargs; at += in[i++].length) {
    if (in[i].types || strcmp(in[i].type, type)) continue;
    for (int32_t k = 0; k < in[i].length; k++) {
      const int32_t dtype = their_dtype(e, n, n->in[at + k]);
      indices = indices && (dtype == DF_INT32 || dtype == DF_INT64);
      differ |= first && dtype != first;
      if (!first) first = dtype;
    }
  }
  return differ && indices ? DF_INT64 : 0;
}

/* The attribute as the inputs give it. */
static bool from_inputs(dfi_export *e, Pb__NodeDef *def, const char *key, const df_node *n, const arg *in,
                        int32_t nargs) {
  for (int32_t i = 0, at = 0; i < nargs; at += in[i++].length) {
    if (!strcmp(in[i].number, key)) {
      dfi_lower_int(&e->l, def, key, in[i].length);
      return true;
    }
    if (strcmp(in[i].type, key)) continue;
    if (in[i].types) {
      int32_t *type = type_list(e, def, key, (size_t)in[i].length);
      for (int32_t k = 0; k < in[i].length; k++) type[k] = their_dtype(e, n, n->in[at + k]);
      return true;
    }
    if (!in[i].length) continue;
    const int32_t common = common_index(e, n, in, nargs, key);
    dfi_lower_type(&e->l, def, key, common ? common : their_dtype(e, n, n->in[at]));
    return true;
  }
  return false;
}

static bool from_outputs(dfi_export *e, Pb__NodeDef *def, const char *key, const df_node *n, const char *text) {
  arg out[ARGS];
  int32_t nargs = take_args(text, out);
  for (int32_t i = 0; i < nargs; i++) {
    bool only = nargs == 1;
    if (!strcmp(out[i].number, key) && only) {
      dfi_lower_int(&e->l, def, key, n->nout);
      return true;
    }
    if (strcmp(out[i].type, key)) continue;
    if (out[i].types && only) {
      int32_t *type = type_list(e, def, key, (size_t)n->nout);
      for (int32_t k = 0; k < n->nout; k++) type[k] = n->out[k].dtype;
      return true;
    }
    if (out[i].types || i >= n->nout) return false;
    dfi_lower_type(&e->l, def, key, n->out[i].dtype);
    return true;
  }
  return false;
}

/* ---- a node ----------------------------------------------------------------------------------------------- */

/* The input, of the one type that TensorFlow takes there. */
static const char *as_type(dfi_export *e, df_output o, int32_t type, int32_t i) {
  const char *in = dfi_export_ref(e, o);
  if (!type || dfi_dtype(o) == type || dfi_dtype(o) == DF_RESOURCE || dfi_dtype(o) == DF_STRING) return in;
  const char *name = dfi_export_name(e, "%s/cast_%d", e->name[e->current->id], i);
  Pb__NodeDef *cast = dfi_export_node(e, "Cast", name, 1);
  dfi_lower_input(&e->l, cast, in);
  dfi_lower_type(&e->l, cast, "SrcT", dfi_dtype(o));
  dfi_lower_type(&e->l, cast, "DstT", type);
  return name;
}

/* Does input i want a reference that comes through a primitive of values? That happens where an imported loop was
   raised. */
static bool lost_reference(const df_node *n, int32_t i) {
  const df_node *from = n->in[i].node;
  df_flow flow = dfi_op_info_at(from->op)->op->flow;
  return flow >= DF_SWITCH && flow <= DF_NEXT_ITERATION && dfi_input_is_reference(n, i) &&
         strncmp(dfi_op_info_at(from->op)->op->type, "Ref", 3);
}

void dfi_export_plain(dfi_export *e, const char *type, const char *name) {
  const df_node *n = e->current;
  const dfi_tensorflow_op *op = find(type);
  if (!op) {
    dfi_export_refuse(e, "TensorFlow has no such op, nor has dflow other words for it");
    return;
  }
  for (int32_t i = 0; i < n->nin; i++)
    if (lost_reference(n, i))
      dfi_export_refuse(e, "the reference that it takes comes through a cond or loop as a value");
  arg in[ARGS];
  int32_t nargs = take_args(op->in, in);
  if (!lengths(n, in, nargs)) {
    dfi_export_refuse(e, "its inputs are not those of TensorFlow's op");
    return;
  }
  const char **input = dfi_export_take(e, sizeof *input * (size_t)(n->nin + 1));
  for (int32_t i = 0, at = 0; i < nargs; at += in[i++].length) {
    const int32_t dtype = in[i].fixed ? in[i].fixed : common_index(e, n, in, nargs, in[i].type);
    for (int32_t k = 0; k < in[i].length; k++) input[at + k] = as_type(e, n->in[at + k], dtype, at + k);
  }
  Pb__NodeDef *def = dfi_export_node(e, type, name, n->nout);
  for (int32_t i = 0; i < n->nin; i++) dfi_lower_input(&e->l, def, input[i]);
  dfi_export_controls(e, def);
  for (const char *p = op->attrs; *p; ) {
    size_t length = strcspn(p, " ");
    const char *colon = memchr(p, ':', length);
    char *key = dfi_lower_text(&e->l, "%.*s", (int)(colon - p), p), kind = colon[1], ours;
    bool required = p[length - 1] == '!';
    p += length;
    while (*p == ' ') p++;
    if (from_inputs(e, def, key, n, in, nargs)) continue;
    const df_attr *v = own_attr(n, key, &ours);
    if (v && fits(kind, ours) && (kind != 'd' || v->i) && (kind != 't' || v->tensor))
      write_attr(e, def, key, kind, ours, v);
    else if (!from_outputs(e, def, key, n, op->out) && required)
      dfi_export_refuse(e, dfi_lower_text(&e->l, "TensorFlow's op needs the attribute %s", key));
  }
  if (!strcmp(type, "Merge")) dfi_export_output_shapes(e, def, &n->out[0].shape);
}

/* ---- dtypes ------------------------------------------------------------------------------------------------- */

static void check_dtype(dfi_export *e, Pb__NodeDef *def, const dfi_export_narrow *row) {
  for (size_t i = 0; i < def->n_attr; i++) {
    const Pb__AttrValue *v = def->attr[i]->value;
    if (strcmp(def->attr[i]->key, row->attr) || v->value_case != PB__ATTR_VALUE__VALUE_TYPE) continue;
    if (v->type >= 32 || row->dtypes >> v->type & 1) return;
    /* what TensorFlow's own `+` is takes all numbers */
    if (!strcmp(def->op, "Add")) def->op = dfi_lower_text(&e->l, "AddV2");
    else dfi_export_refuse(e, dfi_lower_text(&e->l, "TensorFlow's %s takes no %s", def->op, df_dtype_name(v->type)));
  }
}

void dfi_export_check_dtypes(dfi_export *e) {
  for (size_t k = 0; k < e->l.n; k++) {
    if (!e->place[k].node) continue;
    e->current = e->place[k].node;
    const char *type = e->l.node[k]->op;
    for (int32_t i = 0; i < dfi_export_narrows_size; i++)
      if (lists(dfi_export_narrows[i].types, type)) check_dtype(e, e->l.node[k], &dfi_export_narrows[i]);
  }
}
