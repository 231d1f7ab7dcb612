/* functions_node.c: making NodeDefs, in the arena of the graph that is lowered. */
#include "tensorflow/functions.h"
#include <stdarg.h>
#include <stdio.h>

int32_t dfi_lower_fail(dfi_lower *l, const char *format, ...) {
  char text[900];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return dfi_fail(l->err, DF_INVALID_ARGUMENT, NULL, "%s", text);
}

static void *take(dfi_lower *l, size_t bytes) { return memset(dfi_arena_take(&l->d->arena, bytes), 0, bytes); }

dfi_texts dfi_texts_new(dfi_lower *l, size_t n) { return (dfi_texts){ take(l, sizeof(char *) * (n + 1)), n }; }

char *dfi_lower_text(dfi_lower *l, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, args);
  char *text = take(l, (size_t)n + 1);
  vsnprintf(text, (size_t)n + 1, format, again);
  va_end(args);
  va_end(again);
  return text;
}

Pb__NodeDef *dfi_lower_node(dfi_lower *l, const char *op, const char *name) {
  Pb__NodeDef *n = take(l, sizeof *n);
  pb__node_def__init(n);
  n->op = (char *)op;
  n->name = (char *)name;
  if (l->n == l->cap) l->node = dfi_xrealloc(l->node, sizeof *l->node * (l->cap = l->cap * 2 + 256));
  l->node[l->n++] = n;
  return n;
}

/* Room for one more pointer in an array of n; arrays have room for a power of two. */
static void *grown(dfi_lower *l, void *array, size_t n) {
  if (n & (n - 1)) return array;
  void **wider = take(l, sizeof *wider * (n ? 2 * n : 1));
  if (n) memcpy(wider, array, sizeof *wider * n);
  return wider;
}

void dfi_lower_input(dfi_lower *l, Pb__NodeDef *n, const char *input) {
  for (size_t i = n->n_input; *input == '^' && i-- && n->input[i][0] == '^';) if (!strcmp(n->input[i], input)) return;
  n->input = grown(l, n->input, n->n_input);
  n->input[n->n_input++] = (char *)input;
}

Pb__AttrValue *dfi_lower_attr(dfi_lower *l, Pb__NodeDef *n, const char *key) {
  Pb__AttrEntry *e = take(l, sizeof *e);
  pb__attr_entry__init(e);
  e->key = (char *)key;
  e->value = take(l, sizeof *e->value);
  pb__attr_value__init(e->value);
  n->attr = grown(l, n->attr, n->n_attr);
  n->attr[n->n_attr++] = e;
  return e->value;
}

void dfi_lower_int(dfi_lower *l, Pb__NodeDef *n, const char *key, int64_t v) {
  Pb__AttrValue *a = dfi_lower_attr(l, n, key);
  a->value_case = PB__ATTR_VALUE__VALUE_I;
  a->i = v;
}

void dfi_lower_bool(dfi_lower *l, Pb__NodeDef *n, const char *key, bool v) {
  Pb__AttrValue *a = dfi_lower_attr(l, n, key);
  a->value_case = PB__ATTR_VALUE__VALUE_B;
  a->b = v;
}

void dfi_lower_type(dfi_lower *l, Pb__NodeDef *n, const char *key, int32_t v) {
  Pb__AttrValue *a = dfi_lower_attr(l, n, key);
  a->value_case = PB__ATTR_VALUE__VALUE_TYPE;
  a->type = (Pb__DataType)v;
}

void dfi_lower_string(dfi_lower *l, Pb__NodeDef *n, const char *key, const char *v) {
  Pb__AttrValue *a = dfi_lower_attr(l, n, key);
  a->value_case = PB__ATTR_VALUE__VALUE_S;
  a->s = (ProtobufCBinaryData){ .len = strlen(v), .data = (uint8_t *)v };
}

const char *dfi_lower_const(dfi_lower *l, const char *name, int32_t v, const char *gate) {
  Pb__NodeDef *n = dfi_lower_node(l, "Const", name);
  if (gate) dfi_lower_input(l, n, gate);
  dfi_lower_type(l, n, "dtype", DF_INT32);
  Pb__AttrValue *a = dfi_lower_attr(l, n, "value");
  a->value_case = PB__ATTR_VALUE__VALUE_TENSOR;
  a->tensor = take(l, sizeof *a->tensor);
  pb__tensor_proto__init(a->tensor);
  a->tensor->dtype = PB__DATA_TYPE__DT_INT32;
  a->tensor->tensor_shape = take(l, sizeof *a->tensor->tensor_shape);
  pb__tensor_shape_proto__init(a->tensor->tensor_shape);
  a->tensor->n_int_val = 1;
  a->tensor->int_val = take(l, sizeof *a->tensor->int_val);
  a->tensor->int_val[0] = v;
  return name;
}

const Pb__AttrValue *dfi_attr_find(const Pb__NodeDef *n, const char *key) {
  for (size_t i = 0; i < n->n_attr; i++) if (!strcmp(n->attr[i]->key, key)) return n->attr[i]->value;
  return NULL;
}
