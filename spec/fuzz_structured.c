/* fuzz_structured.c: graphs that are valid messages and say hostile things.
 *
 * Two generators. One changes a graph of the corpus where its meaning is: attributes of the right type with wrong
 * numbers, of the wrong type, missing or twice; shapes, dtypes and values; inputs that are left out, doubled, swapped
 * or that close a cycle. The other draws an op of the registry and builds a graph for it: inputs of the dtypes that its
 * entry allows and of small shapes, a handle of each kind for a handle, and attributes of which some are hostile.
 */
#include "fuzz_structured.h"
#include "op/op.h"
#include "graphdef.pb-c.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t fuzz_hostile(void) {
  static const int64_t numbers[] = {
    0, -1, 1, 2, 3, -2, 4, 7, 8, 64, 255, 256, 65536, INT32_MAX, INT32_MIN, (int64_t)INT32_MAX + 1, INT64_MAX,
    INT64_MIN, (int64_t)1 << 40, -((int64_t)1 << 40), (int64_t)1 << 62, 1000000007
  };
  return numbers[fuzz_draw(sizeof numbers / sizeof *numbers)];
}

static double hostile_float(void) {
  static const double numbers[] = { 0, -1, 1, 0.5, 1e30, -1e30, 1e-40, 1e308 };
  const uint32_t i = fuzz_draw(10);
  return i == 8 ? __builtin_nan("") : i == 9 ? __builtin_inf() : numbers[i];
}

/* ---- memory: all of a graph goes at once ------------------------------------------------------------------ */

typedef struct block { struct block *next; _Alignas(16) char bytes[]; } block;
static block *blocks;

static void *take(void *user, size_t n) {
  (void)user;
  block *b = calloc(1, sizeof *b + n);
  if (!b) abort();
  b->next = blocks;
  blocks = b;
  return b->bytes;
}
static void keep(void *user, void *p) { (void)user; (void)p; }
static ProtobufCAllocator arena = { take, keep, NULL };

static void *room_for(size_t n) { return take(NULL, n); }
static void drop_all(void) {
  for (block *next; blocks; blocks = next) {
    next = blocks->next;
    free(blocks);
  }
}

static char *text(const char *format, int64_t a, int64_t b) {
  char *t = room_for(80);
  snprintf(t, 80, format, (long long)a, (long long)b);
  return t;
}

/* An array of one more pointer. */
static void *longer(void *array, size_t n, void *last) {
  void **wider = room_for(sizeof *wider * (n + 1));
  if (n) memcpy(wider, array, sizeof *wider * n);
  wider[n] = last;
  return wider;
}

static size_t pack(const Pb__GraphDef *g, uint8_t *bytes, size_t room) {
  const size_t n = pb__graph_def__get_packed_size(g);
  if (n > room) return 0;
  return pb__graph_def__pack(g, bytes);
}

/* ---- parts of messages -------------------------------------------------------------------------------------- */

static int32_t any_dtype(void) {
  static const int32_t dtypes[] = { DF_FLOAT32, DF_INT32, DF_INT64, DF_BOOL, DF_STRING, DF_FLOAT64, DF_FLOAT16,
                                    DF_COMPLEX64, DF_UINT8, DF_INT8, DF_RESOURCE, DF_VARIANT };
  return fuzz_draw(8) ? dtypes[fuzz_draw(12)] : (int32_t)fuzz_draw(130);
}

static Pb__TensorShapeProto *shape_of(uint32_t rank, const int64_t *dims) {
  Pb__TensorShapeProto *s = room_for(sizeof *s);
  pb__tensor_shape_proto__init(s);
  for (uint32_t i = 0; i < rank; i++) {
    Pb__TensorShapeProto__Dim *d = room_for(sizeof *d);
    pb__tensor_shape_proto__dim__init(d);
    d->size = dims[i];
    s->dim = longer(s->dim, s->n_dim, d);
    s->n_dim++;
  }
  return s;
}

static Pb__TensorShapeProto *hostile_shape(void) {
  int64_t dims[9];
  const uint32_t rank = fuzz_draw(fuzz_draw(5) ? 5 : 9);
  for (uint32_t i = 0; i < rank; i++) dims[i] = fuzz_draw(2) ? (int64_t)fuzz_draw(5) : fuzz_hostile();
  Pb__TensorShapeProto *s = shape_of(rank, dims);
  s->unknown_rank = !fuzz_draw(6);
  return s;
}

/* A tensor of dtype with the elements that `how` says: 0: small numbers, 1: hostile ones as well. */
static Pb__TensorProto *tensor_of(int32_t dtype, uint32_t rank, const int64_t *dims, bool hostile) {
  Pb__TensorProto *t = room_for(sizeof *t);
  pb__tensor_proto__init(t);
  t->dtype = (Pb__DataType)dtype;
  t->tensor_shape = shape_of(rank, dims);
  size_t n = 1;
  for (uint32_t i = 0; i < rank; i++) n *= (size_t)(dims[i] > 0 ? dims[i] : 0);
  if (n > 256) n = 256;
  if (dtype == DF_STRING) {
    static const char *const words[] = { "", "a", "1", "7.5", "AAAA", "\xff", "e(x", "a b,c" };
    t->n_string_val = n;
    t->string_val = room_for(sizeof *t->string_val * (n + 1));
    for (size_t i = 0; i < n; i++) {
      const char *w = words[fuzz_draw(8)];
      t->string_val[i] = (ProtobufCBinaryData){ strlen(w), (uint8_t *)(uintptr_t)w };
    }
  } else if (dtype == DF_FLOAT32 || dtype == DF_FLOAT64) {
    double *d = room_for(sizeof *d * (n + 1));
    float *f = room_for(sizeof *f * (n + 1));
    for (size_t i = 0; i < n; i++) d[i] = hostile ? hostile_float() : (double)fuzz_draw(5) * 0.5 - 0.5;
    for (size_t i = 0; i < n; i++) f[i] = (float)d[i];
    if (dtype == DF_FLOAT32) { t->float_val = f; t->n_float_val = n; }
    else { t->double_val = d; t->n_double_val = n; }
  } else if (dtype == DF_INT64) {
    t->int64_val = room_for(sizeof *t->int64_val * (n + 1));
    t->n_int64_val = n;
    for (size_t i = 0; i < n; i++) t->int64_val[i] = hostile ? fuzz_hostile() : (int64_t)fuzz_draw(5) - 1;
  } else if (dtype == DF_BOOL) {
    t->bool_val = room_for(sizeof *t->bool_val * (n + 1));
    t->n_bool_val = n;
    for (size_t i = 0; i < n; i++) t->bool_val[i] = fuzz_draw(2) != 0;
  } else {                                     /* complex numbers and halves: zeros and what the bytes say */
    t->int_val = room_for(sizeof *t->int_val * (n + 1));
    t->n_int_val = n;
    for (size_t i = 0; i < n; i++) t->int_val[i] = hostile ? (int32_t)fuzz_hostile() : (int32_t)fuzz_draw(5) - 1;
  }
  return t;
}

static Pb__AttrValue *value_of(char type, bool hostile) {
  Pb__AttrValue *v = room_for(sizeof *v);
  pb__attr_value__init(v);
  static const char *const strings[] = {
    "", "SAME", "VALID", "NHWC", "NCHW", "EXPLICIT", "REFLECT", "abab,ab->a", "f"
  };
  const char *s = strings[fuzz_draw(9)];
  switch (type) {
    case 'i': v->value_case = PB__ATTR_VALUE__VALUE_I; v->i = hostile ? fuzz_hostile() : (int64_t)fuzz_draw(4); break;
    case 'f': v->value_case = PB__ATTR_VALUE__VALUE_F; v->f = (float)(hostile ? hostile_float() : 0.5); break;
    case 'b': v->value_case = PB__ATTR_VALUE__VALUE_B; v->b = fuzz_draw(2); break;
    case 'd': v->value_case = PB__ATTR_VALUE__VALUE_TYPE; v->type = (Pb__DataType)any_dtype(); break;
    case 's':
      v->value_case = PB__ATTR_VALUE__VALUE_S;
      v->s = (ProtobufCBinaryData){ strlen(s), (uint8_t *)(uintptr_t)s };
      break;
    case 'h': v->value_case = PB__ATTR_VALUE__VALUE_SHAPE; v->shape = hostile_shape(); break;
    case 't':
      v->value_case = PB__ATTR_VALUE__VALUE_TENSOR;
      v->tensor = tensor_of(any_dtype(), fuzz_draw(2), (int64_t[]){ 2 }, hostile);
      break;
    default: {
      const size_t n = fuzz_draw(hostile ? 7 : 5);
      v->value_case = PB__ATTR_VALUE__VALUE_LIST;
      Pb__AttrValue__ListValue *l = v->list = room_for(sizeof *l);
      pb__attr_value__list_value__init(l);
      l->i = room_for(sizeof *l->i * (n + 1));
      l->type = room_for(sizeof *l->type * (n + 1));
      for (size_t i = 0; i < n; i++) {
        l->i[i] = hostile && !fuzz_draw(3) ? fuzz_hostile() : 1 + (int64_t)fuzz_draw(2);
        l->type[i] = (Pb__DataType)any_dtype();
        if (type == 'p') l->shape = longer(l->shape, i, hostile_shape());
      }
      if (type == 'l') l->n_i = n;
      else if (type == 'y') l->n_type = n;
      else l->n_shape = n;
    }
  }
  return v;
}

static void put_attr(Pb__NodeDef *n, const char *key, Pb__AttrValue *v) {
  Pb__AttrEntry *e = room_for(sizeof *e);
  pb__attr_entry__init(e);
  e->key = (char *)(uintptr_t)key;
  e->value = v;
  n->attr = longer(n->attr, n->n_attr, e);
  n->n_attr++;
}

/* ---- a graph, changed ----------------------------------------------------------------------------------------- */

static void change_list(Pb__AttrValue__ListValue *l) {
  if (l->n_i) {
    if (!fuzz_draw(3)) l->n_i--;
    else l->i[fuzz_draw((uint32_t)l->n_i)] = fuzz_hostile();
  } else if (l->n_type) {
    if (!fuzz_draw(3)) l->n_type--;
    else l->type[fuzz_draw((uint32_t)l->n_type)] = (Pb__DataType)any_dtype();
  } else if (l->n_shape) {
    if (!fuzz_draw(3)) l->n_shape--;
    else l->shape[fuzz_draw((uint32_t)l->n_shape)] = hostile_shape();
  }
}

static void change_tensor(Pb__TensorProto *t) {
  const size_t n = t->tensor_content.len / 4;
  int32_t v = (int32_t)fuzz_hostile();
  switch (fuzz_draw(5)) {
    case 0: t->tensor_shape = hostile_shape(); break;
    case 1: t->dtype = (Pb__DataType)any_dtype(); break;
    default:
      if (t->n_int_val) t->int_val[fuzz_draw((uint32_t)t->n_int_val)] = v;
      else if (t->n_int64_val) t->int64_val[fuzz_draw((uint32_t)t->n_int64_val)] = fuzz_hostile();
      else if (t->n_float_val) t->float_val[fuzz_draw((uint32_t)t->n_float_val)] = (float)hostile_float();
      else if (n) memcpy(t->tensor_content.data + 4 * fuzz_draw((uint32_t)n), &v, 4);
  }
}

static void change_attr(Pb__NodeDef *n, const Pb__NodeDef *other) {
  static const char types[] = "ifbdshtlyp";
  if (!n->n_attr) return;
  const uint32_t at = fuzz_draw((uint32_t)n->n_attr);
  Pb__AttrEntry *e = n->attr[at];
  Pb__AttrValue *v = e->value;
  const uint32_t how = fuzz_draw(12);
  if (how == 0) n->attr[at] = n->attr[--n->n_attr];                              /* one less */
  else if (how == 1) { n->attr = longer(n->attr, n->n_attr, e); n->n_attr++; }   /* twice */
  else if (how == 2) e->value = value_of(types[fuzz_draw(10)], true);            /* of any type */
  else if (how == 3 && other->n_attr) e->value = other->attr[fuzz_draw((uint32_t)other->n_attr)]->value;
  else if (v)
    switch (v->value_case) {
      case PB__ATTR_VALUE__VALUE_I: v->i = fuzz_hostile(); break;
      case PB__ATTR_VALUE__VALUE_F: v->f = (float)hostile_float(); break;
      case PB__ATTR_VALUE__VALUE_B: v->b = !v->b; break;
      case PB__ATTR_VALUE__VALUE_TYPE: v->type = (Pb__DataType)any_dtype(); break;
      case PB__ATTR_VALUE__VALUE_SHAPE: v->shape = hostile_shape(); break;
      case PB__ATTR_VALUE__VALUE_TENSOR: if (v->tensor) change_tensor(v->tensor); break;
      case PB__ATTR_VALUE__VALUE_LIST: if (v->list) change_list(v->list); break;
      case PB__ATTR_VALUE__VALUE_S: e->value = value_of('s', true); break;
      default: break;
    }
}

static void change_inputs(Pb__NodeDef *n, const Pb__NodeDef *other) {
  const uint32_t at = fuzz_draw((uint32_t)n->n_input + 1), from = fuzz_draw((uint32_t)n->n_input + 1);
  char *name = other->name;
  if (fuzz_draw(3) == 0) {
    char *output = room_for(strlen(name) + 32);
    snprintf(output, strlen(name) + 32, fuzz_draw(4) ? "%s:%d" : "^%s", name, (int)fuzz_draw(4));
    name = output;
  }
  if (at == n->n_input || !fuzz_draw(4)) {                              /* one more */
    n->input = longer(n->input, n->n_input, name);
    n->n_input++;
  } else if (!fuzz_draw(4)) n->input[at] = n->input[--n->n_input];      /* one less */
  else n->input[at] = from < n->n_input && fuzz_draw(2) ? n->input[from] : name;
}

static void change(Pb__NodeDef **nodes, size_t count) {
  Pb__NodeDef *n = nodes[fuzz_draw((uint32_t)count)];
  const Pb__NodeDef *other = nodes[fuzz_draw((uint32_t)count)];
  switch (fuzz_draw(8)) {
    case 0: {
      const int32_t op = (int32_t)fuzz_draw((uint32_t)df_op_count());
      n->op = fuzz_draw(3) ? other->op : (char *)(uintptr_t)df_op_type(op);
      break;
    }
    case 1: if (!fuzz_draw(4)) n->name = other->name; break;
    case 2: case 3: change_inputs(n, other); break;
    default: change_attr(n, other); break;
  }
}

size_t fuzz_mutate(uint8_t *bytes, size_t n, size_t room) {
  Pb__GraphDef *g = pb__graph_def__unpack(&arena, n, bytes);
  size_t size = 0;
  if (g) {
    for (uint32_t times = 1 + fuzz_draw(fuzz_draw(3) ? 2 : 8); times; times--) {
      const Pb__FunctionDefLibrary *l = g->library;
      const Pb__FunctionDef *f = l && l->n_function ? l->function[fuzz_draw((uint32_t)l->n_function)] : NULL;
      if (f && f->n_node_def && fuzz_draw(2)) change(f->node_def, f->n_node_def);
      else if (g->n_node) change(g->node, g->n_node);
    }
    size = pack(g, bytes, room);
  }
  drop_all();
  return size;
}

/* ---- a graph of one op ------------------------------------------------------------------------------------------ */

static Pb__NodeDef *put_node(Pb__GraphDef *g, const char *op) {
  Pb__NodeDef *n = room_for(sizeof *n);
  pb__node_def__init(n);
  n->op = (char *)(uintptr_t)op;
  n->name = text("n%lld", (int64_t)g->n_node, 0);
  g->node = longer(g->node, g->n_node, n);
  g->n_node++;
  return n;
}

static void put_input(Pb__NodeDef *n, char *name) {
  n->input = longer(n->input, n->n_input, name);
  n->n_input++;
}

static void put_type(Pb__NodeDef *n, const char *key, int32_t dtype) {
  Pb__AttrValue *v = room_for(sizeof *v);
  pb__attr_value__init(v);
  v->value_case = PB__ATTR_VALUE__VALUE_TYPE;
  v->type = (Pb__DataType)dtype;
  put_attr(n, key, v);
}

/* The attributes that the entry has and the node has not, some left out. */
static void draw_attrs(Pb__NodeDef *n, const dfi_op_info *o) {
  for (int32_t a = 0; a < o->nattr; a++) {
    bool there = false;
    for (size_t k = 0; k < n->n_attr; k++) there |= !strcmp(n->attr[k]->key, o->attr[a].name);
    if (there || (o->attr[a].required ? !fuzz_draw(40) : fuzz_draw(3))) continue;
    put_attr(n, o->attr[a].name, value_of(o->attr[a].type, !fuzz_draw(2)));
  }
}

static char *some_value(Pb__GraphDef *g, int32_t dtype, int32_t depth);

/* A node of a random op among those whose first output is a handle (or a variant), or NULL. */
static char *some_handle(Pb__GraphDef *g, int32_t dtype, int32_t depth) {
  for (int32_t tries = 0; tries < 400; tries++) {
    const dfi_op_info *o = dfi_op_info_at((int32_t)fuzz_draw((uint32_t)df_op_count()));
    if (!o->nout || o->out[0].list || o->out[0].dtype != dtype || o->nin > (depth < 3 ? 4 : 0) || o->in_list) continue;
    Pb__NodeDef *n = put_node(g, o->op->type);
    for (int32_t i = 0; i < o->nin; i++)
      put_input(n, some_value(g, o->in[i].dtype ? o->in[i].dtype : DF_FLOAT32, depth + 1));
    draw_attrs(n, o);
    return n->name;
  }
  return text("n%lld", 0, 0);
}

static char *some_value(Pb__GraphDef *g, int32_t dtype, int32_t depth) {
  static const struct { uint32_t rank; int64_t dims[4]; } shapes[] = {
    { 0, { 0 } }, { 0, { 0 } }, { 1, { 1 } }, { 1, { 2 } }, { 1, { 3 } }, { 1, { 0 } }, { 2, { 2, 2 } },
    { 2, { 3, 1 } }, { 2, { 0, 2 } }, { 3, { 2, 2, 2 } }, { 4, { 1, 4, 4, 2 } }, { 4, { 2, 3, 3, 1 } },
    { 4, { 0, 4, 4, 2 } }, { 1, { 4 } }, { 2, { 4, 2 } }
  };
  if (dtype == DF_RESOURCE || dtype == DF_VARIANT) return some_handle(g, dtype, depth);
  const uint32_t s = fuzz_draw(sizeof shapes / sizeof *shapes);
  const bool placed = !fuzz_draw(4);                /* nothing is known of it while the graph is made */
  Pb__NodeDef *c = put_node(g, "Const");
  put_type(c, "dtype", dtype);
  Pb__AttrValue *v = room_for(sizeof *v);
  pb__attr_value__init(v);
  v->value_case = PB__ATTR_VALUE__VALUE_TENSOR;
  v->tensor = tensor_of(dtype, shapes[s].rank, shapes[s].dims, !fuzz_draw(4));
  put_attr(c, "value", v);
  if (!placed) return c->name;
  Pb__NodeDef *p = put_node(g, "PlaceholderWithDefault");
  put_input(p, c->name);
  put_type(p, "dtype", dtype);
  Pb__AttrValue *unknown = value_of('h', false);
  unknown->shape->unknown_rank = true;
  unknown->shape->n_dim = 0;
  put_attr(p, "shape", unknown);
  return p->name;
}

static char *some_reference(Pb__GraphDef *g, int32_t dtype) {
  Pb__NodeDef *v = put_node(g, "VariableV2"), *a = put_node(g, "Assign");
  put_type(v, "dtype", dtype);
  Pb__AttrValue *shape = value_of('h', false);
  shape->shape->unknown_rank = true;
  shape->shape->n_dim = 0;
  put_attr(v, "shape", shape);
  put_input(a, v->name);
  put_input(a, some_value(g, dtype, 0));
  return a->name;
}

static int32_t one_of(uint64_t allowed) {
  for (int32_t tries = 0; tries < 200; tries++) {
    const int32_t d = 1 + (int32_t)fuzz_draw(30);
    if (allowed >> d & 1 && (d != DF_RESOURCE || tries > 20)) return d;
  }
  return DF_FLOAT32;
}

size_t fuzz_op(uint8_t *bytes, size_t room) {
  Pb__GraphDef *g = room_for(sizeof *g);
  pb__graph_def__init(g);
  const dfi_op_info *o = dfi_op_info_at((int32_t)fuzz_draw((uint32_t)df_op_count()));
  int32_t bound[8], list = 1 + (int32_t)fuzz_draw(3);
  for (int32_t i = 0; i < o->nvar; i++) bound[i] = one_of(o->var[i].allowed);
  char *in[80];
  int32_t n = 0;
  for (int32_t i = 0; i < o->nin; i++)
    for (int32_t times = o->in[i].list ? list : 1; times && n < 80; times--) {
      const dfi_arg *a = &o->in[i];
      const int32_t dtype = a->var >= 0 ? bound[a->var] : a->dtype ? a->dtype : one_of(a->allowed);
      in[n++] = a->ref ? some_reference(g, dtype) : some_value(g, dtype, 0);
    }
  Pb__NodeDef *node = put_node(g, o->op->type);
  for (int32_t i = 0; i < n; i++) put_input(node, in[i]);
  for (int32_t i = 0; i < o->nvar; i++) if (o->var[i].attr >= 0) put_type(node, o->var[i].name, bound[i]);
  draw_attrs(node, o);
  const size_t size = pack(g, bytes, room);
  drop_all();
  return size;
}
