/* functions.c: calls in line. functions_flow.c has If, Case, While and For, functions_gradient.c the gradient of a
 * function.
 *
 * A call of f becomes f's nodes under the call's name, `call/node`, and an IdentityN with the call's own name that
 * gathers the results and waits for f's control results. So tensors keep their names, and what must run does.
 * Nodes of a body that have no inputs, or only loop constants, hang on a gate, a node that is live when the body is:
 * otherwise a constant in a branch that was not taken would run, and one in a loop would stand outside its frame or run
 * once too often. Where the call itself waits for something, whatever reads an argument hangs on the gate, too.
 * A reader of a call's result reads it where it is made, so that nothing but what it needs runs, unless the call must
 * run something that has effects.
 * Only what calls itself, directly or round about, stays a function.
 */
#include "tensorflow/functions.h"

enum { DEPTH_AT_MOST = 200, NODES_AT_MOST = 1000 * 1000 };

/* ---- functions --------------------------------------------------------------------------------------------- */

int32_t dfi_lower_find(const dfi_lower *l, const char *name) {
  for (uint32_t i = dfi_hash_name(name, strlen(name)) & l->find_mask; l->find[i]; i = (i + 1) & l->find_mask)
    if (!strcmp(l->function[l->find[i] - 1].name, name)) return l->find[i] - 1;
  return -1;
}

/* The names of the functions; where two have one, the first is meant. */
static void name_functions(dfi_lower *l) {
  for (l->find_mask = 15; l->find_mask < 2 * (uint32_t)l->nfunctions; l->find_mask = 2 * l->find_mask + 1) ;
  l->find = dfi_xcalloc((size_t)l->find_mask + 1, sizeof *l->find);
  for (size_t i = 0; i < l->nfunctions; i++) {
    const char *name = l->function[i].name = l->function[i].def->signature->name;
    uint32_t at = dfi_hash_name(name, strlen(name)) & l->find_mask;
    while (l->find[at]) at = (at + 1) & l->find_mask;
    l->find[at] = (int32_t)i + 1;
  }
}

int32_t dfi_lower_function_attr(dfi_lower *l, const Pb__NodeDef *n, const char *key, Pb__NameAttrList **attrs) {
  const Pb__AttrValue *a = dfi_attr_find(n, key);
  if (!a || a->value_case != PB__ATTR_VALUE__VALUE_FUNC)
    return dfi_lower_fail(l, "node `%s` (%s): its attribute `%s` must be a function", n->name, n->op, key), -1;
  *attrs = dfi_graphdef_function(l->d, a->func, l->err);
  if (!*attrs) return -1;
  int32_t f = dfi_lower_find(l, (*attrs)->name);
  if (f < 0)
    dfi_lower_fail(l, "node `%s` (%s): there is no function `%s` in the library (attribute `%s`)", n->name, n->op,
                   (*attrs)->name, key);
  return f;
}

static int32_t count_of(const Pb__OpDef__ArgDef *arg, const Pb__AttrEntry *const *attr, size_t nattr, int32_t *count) {
  const char *key = arg->number_attr[0] ? arg->number_attr : arg->type_list_attr;
  *count = 1;
  if (!key[0]) return DF_OK;
  for (size_t i = 0; i < nattr; i++) {
    if (strcmp(attr[i]->key, key)) continue;
    const Pb__AttrValue *v = attr[i]->value;
    if (v->value_case == PB__ATTR_VALUE__VALUE_I && v->i >= 0 && v->i < 1 << 20) {
      *count = (int32_t)v->i;
      return DF_OK;
    }
    if (v->value_case == PB__ATTR_VALUE__VALUE_LIST && v->list) { *count = (int32_t)v->list->n_type; return DF_OK; }
  }
  return DF_INVALID_ARGUMENT;
}

/* Outputs of TensorFlow's ops with several, where ours have other names. A function's nodes name them. */
static const struct { const char *op, *names; } outputs_of[] = {
  { "Switch", "output_false output_true" }, { "RefSwitch", "output_false output_true" },
  { "Merge", "output value_index" },
  { "RefMerge", "output value_index" }, { "TopKV2", "values indices" }, { "TopK", "values indices" },
  { "Unique", "y idx" },
  { "UniqueV2", "y idx" }, { "UniqueWithCounts", "y idx count" }, { "TensorArrayV3", "handle flow" },
  { "TensorArrayGradV3", "grad_handle flow_out" },
  { "TensorArrayGradWithShape", "grad_handle flow_out" }, { "TensorArrayConcatV3", "value lengths" },
  { "BroadcastGradientArgs", "r0 r1" },
  { "TensorListPopBack", "output_handle tensor" }, { "TensorListConcat", "tensor lengths" }, { "TensorListConcatV2",
  "tensor lengths" },
  { "LSTMBlockCell", "i cs f o ci co h" }, { "BlockLSTM", "i cs f o ci co h" }, { "BlockLSTMV2", "i cs f o ci co h" },
  { "LSTMBlockCellGrad", "cs_prev_grad dicfo wci_grad wcf_grad wco_grad" }, { "SoftmaxCrossEntropyWithLogits",
  "loss backprop" },
  { "SparseSoftmaxCrossEntropyWithLogits", "loss backprop" }, { "DeserializeSparse", "sparse_indices sparse_values "
  "sparse_shape" },
  { "DeserializeManySparse", "sparse_indices sparse_values sparse_shape" }, { "Qr", "q r" },
  { "RaggedRange", "rt_nested_splits rt_dense_values" },
  { "GRUBlockCell", "r u c h" }, { "Batch", "batched_tensors batch_index id" },
  { "MaxPoolWithArgmax", "output argmax" },
  { "BlockLSTMGrad", "x_grad cs_prev_grad h_prev_grad w_grad wci_grad wcf_grad wco_grad b_grad" },
  { "BlockLSTMGradV2", "x_grad cs_prev_grad h_prev_grad w_grad wci_grad wcf_grad wco_grad b_grad" },
};

/* The place of output `arg` of node b among its outputs; -1: it has none of this name. */
static int32_t output_offset(const dfi_lower *l, const Pb__NodeDef *b, const char *arg, size_t length) {
  int32_t f = dfi_lower_find(l, b->op), at = 0;
  if (f >= 0) {
    const Pb__OpDef *s = l->function[f].def->signature;
    for (size_t i = 0; i < s->n_output_arg; i++) {
      int32_t count;
      if (!strncmp(s->output_arg[i]->name, arg, length) && !s->output_arg[i]->name[length]) return at;
      if (count_of(s->output_arg[i], (const Pb__AttrEntry *const *)b->attr, b->n_attr, &count)) return -1;
      at += count;
    }
    return s->n_output_arg == 1 ? 0 : -1;
  }
  for (size_t i = 0; i < sizeof outputs_of / sizeof *outputs_of; i++) {
    if (strcmp(outputs_of[i].op, b->op)) continue;
    for (const char *w = outputs_of[i].names; *w; at++) {
      size_t n = strcspn(w, " ");
      if (n == length && !strncmp(w, arg, n)) return at;
      w += n + (w[n] == ' ');
    }
    return -1;
  }
  const dfi_op_info *o = dfi_op_find(b->op);
  if (!o || o->nout <= 1) return 0;          /* a call or an unknown op: the importer knows better */
  for (int32_t i = 0; i < o->nout; i++) {
    if (!strncmp(o->out[i].name, arg, length) && !o->out[i].name[length]) return at;
    if (!o->out[i].list) { at++; continue; }
    int16_t a = o->out[i].types_attr >= 0 ? o->out[i].types_attr : o->out[i].count_attr;
    const Pb__AttrValue *v = a >= 0 ? dfi_attr_find(b, o->attr[a].name) : NULL;
    if (!v) return -1;
    at += v->value_case == PB__ATTR_VALUE__VALUE_LIST && v->list ? (int32_t)v->list->n_type : (int32_t)v->i;
  }
  return -1;
}

/* ---- a body in line ------------------------------------------------------------------------------------------ */

typedef struct dfi_body {
  const Pb__FunctionDef *f;
  const char *prefix;                        /* its nodes are prefix/name */
  const dfi_texts *in;
  const int32_t *arg_first;                  /* by argument: its place in `in` */
  dfi_names names;                           /* its nodes */
  const Pb__AttrEntry *const *attr;          /* the call's attributes, nattr of them */
  size_t nattr;
  bool waits;                                /* what reads an argument waits for the gate, too */
} body;

const Pb__OpDef *dfi_lower_signature(const dfi_body *b) { return b->f->signature; }

/* The number of the argument that an input of a body's node names, length bytes long; -1: it names a node. */
static int32_t argument_of(const body *b, const char *name, size_t length) {
  const Pb__OpDef *s = b->f->signature;
  for (size_t i = 0; i < s->n_input_arg; i++)
    if (!strncmp(s->input_arg[i]->name, name, length) && !s->input_arg[i]->name[length]) return (int32_t)i;
  return -1;
}

/* `node:out:1`, `arg`, `^node` as they are named outside. `more`: so many outputs further. NULL: err is filled. */
static const char *resolve(dfi_lower *l, const body *b, const char *input, int32_t more) {
  const Pb__OpDef *s = b->f->signature;
  bool control = *input == '^';
  const char *name = input + control, *colon = strchr(name, ':');
  size_t n = colon ? (size_t)(colon - name) : strlen(name);
  const int32_t argument = argument_of(b, name, n);
  if (argument >= 0) {
    size_t at = (size_t)(b->arg_first[argument] + (colon ? atoi(colon + 1) : 0) + more);
    if (at >= b->in->n) {
      dfi_lower_fail(l, "function `%s`: `%s` is more than its argument has", s->name, input);
      return NULL;
    }
    const char *outer = b->in->at[at];
    if (!control) return outer;
    const char *last = strrchr(outer, ':');
    return dfi_lower_text(l, "^%.*s", last ? (int)(last - outer) : (int)strlen(outer), outer);
  }
  const Pb__NodeDef *node = dfi_lower_named(&b->names, name, n);
  if (!node) {
    dfi_lower_fail(l, "function `%s` has no node or argument `%.*s`, which `%s` names", s->name, (int)n, name, input);
    return NULL;
  }
  if (control) return dfi_lower_text(l, "^%s/%.*s", b->prefix, (int)n, name);
  int32_t index = more;
  if (colon) {
    const char *arg = colon + 1, *second = strchr(arg, ':');
    bool number = arg[0] >= '0' && arg[0] <= '9';
    int32_t offset = number ? 0 : output_offset(l, node, arg, second ? (size_t)(second - arg) : strlen(arg));
    if (offset < 0) {
      dfi_lower_fail(l, "function `%s`: node `%s` (%s) has no output `%s`", s->name, node->name, node->op, arg);
      return NULL;
    }
    index += offset + (number ? atoi(arg) : second ? atoi(second + 1) : 0);
  }
  return dfi_lower_text(l, "%s/%.*s:%d", b->prefix, (int)n, name, index);
}

const char *dfi_lower_resolve(dfi_lower *l, const dfi_body *b, const char *input) { return resolve(l, b, input, 0); }

static int32_t lower_node(dfi_lower *l, const body *b, Pb__NodeDef *n, const char *gate);

/* The attributes of a body's node, with those of the call put in for placeholders. */
static void copy_attrs(dfi_lower *l, const Pb__NodeDef *from, Pb__NodeDef *to, const Pb__AttrEntry *const *attr,
                       size_t nattr) {
  for (size_t i = 0; i < from->n_attr; i++) {
    Pb__AttrValue *v = dfi_lower_attr(l, to, from->attr[i]->key);
    const Pb__AttrValue *value = from->attr[i]->value;
    if (value->value_case == PB__ATTR_VALUE__VALUE_PLACEHOLDER)
      for (size_t k = 0; k < nattr; k++)
        if (!strcmp(attr[k]->key, value->placeholder)) {
          value = attr[k]->value;
          break;
        }
    *v = *value;
  }
}

/* A loop of primitives in a body: each call has a frame of its own. */
static void name_frame(dfi_lower *l, Pb__NodeDef *n, const char *prefix) {
  if (strcmp(n->op, "Enter") && strcmp(n->op, "RefEnter")) return;
  for (size_t i = 0; i < n->n_attr; i++) {
    Pb__AttrValue *v = n->attr[i]->value;
    if (strcmp(n->attr[i]->key, "frame_name") || v->value_case != PB__ATTR_VALUE__VALUE_S) continue;
    char *name = dfi_lower_text(l, "%s/%.*s", prefix, (int)v->s.len, (const char *)v->s.data);
    v->s = (ProtobufCBinaryData){ .len = strlen(name), .data = (uint8_t *)name };
  }
}

/* Is this a loop constant, there in every iteration whether its body runs or not? */
static bool is_loop_constant(const char *input) {
  const char *slash = strrchr(input, '/');
  return slash && !strncmp(slash, "/constant_", 10);
}

bool dfi_lower_hangs(const Pb__NodeDef *n) {
  for (size_t i = 0; i < n->n_input; i++) if (!is_loop_constant(n->input[i])) return true;
  return false;
}

bool dfi_lower_waits(const Pb__NodeDef *n, const char *gate) {
  bool gated = false, given = false;
  for (size_t i = 0; i < n->n_input; i++) {
    if (n->input[i][0] != '^') given |= !is_loop_constant(n->input[i]);
    else if (gate && !strcmp(n->input[i], gate)) gated = true;
    else return true;
  }
  return gated && given;                     /* put_node has a reason */
}

/* Does n read an argument? */
static bool reads_argument(const body *b, const Pb__NodeDef *n) {
  for (size_t k = 0; k < n->n_input; k++) {
    const char *name = n->input[k] + (n->input[k][0] == '^');
    if (argument_of(b, name, strcspn(name, ":")) >= 0) return true;
  }
  return false;
}

/* Where the arguments of s's inputs begin, s->n_input_arg numbers in first, of as many arguments as in has. */
static int32_t place_arguments(dfi_lower *l, const Pb__OpDef *s, const Pb__AttrEntry *const *attr, size_t nattr,
                               const char *prefix, const dfi_texts *in, int32_t *first) {
  int32_t at = 0;
  for (size_t i = 0; i < s->n_input_arg; i++) {
    int32_t count;
    first[i] = at;
    if (count_of(s->input_arg[i], attr, nattr, &count))
      return dfi_lower_fail(l, "`%s` calls function `%s` without saying how many `%s` there are", prefix, s->name,
                            s->input_arg[i]->name);
    at += count;
  }
  if ((size_t)at == in->n) return DF_OK;
  return dfi_lower_fail(l, "`%s` gives %zu arguments to function `%s`, which has %d", prefix, in->n, s->name, at);
}

/* Puts one node of the function there, or what it becomes. */
static int32_t put_node(dfi_lower *l, const body *b, const Pb__NodeDef *from, const char *gate) {
  if (l->n > NODES_AT_MOST)
    return dfi_lower_fail(l, "the functions of this graph put in line are more than %d nodes", NODES_AT_MOST);
  size_t before = l->n;
  Pb__NodeDef *to = dfi_lower_node(l, from->op, dfi_lower_text(l, "%s/%s", b->prefix, from->name));
  l->n = before;                             /* lower_node puts it there */
  to->device = from->device;
  copy_attrs(l, from, to, b->attr, b->nattr);
  name_frame(l, to, b->prefix);
  for (size_t k = 0; k < from->n_input; k++) {
    const char *input = resolve(l, b, from->input[k], 0);
    if (!input) return l->err->code;
    dfi_lower_input(l, to, input);
  }
  dfi_lower_after_given(l, &b->names, from, to, dfi_lower_text(l, "%s/", b->prefix));
  if (gate && (!dfi_lower_hangs(to) || (b->waits && reads_argument(b, from)))) dfi_lower_input(l, to, gate);
  return lower_node(l, b, to, gate);
}

/* Appends what the function returns as its result arg to ret, which has room. */
static int32_t put_result(dfi_lower *l, const body *b, const Pb__OpDef__ArgDef *arg, const char *gate,
                          dfi_texts *ret) {
  const Pb__FunctionDef *def = b->f;
  int32_t count = 1;
  count_of(arg, b->attr, b->nattr, &count);
  const char *value = NULL;
  for (size_t k = 0; k < def->n_ret; k++) if (!strcmp(def->ret[k]->key, arg->name)) value = def->ret[k]->value;
  if (!value)
    return dfi_lower_fail(l, "function `%s` does not say what its result `%s` is", def->signature->name, arg->name);
  for (int32_t k = 0; k < count; k++) {
    const char *r = resolve(l, b, value, k);
    if (!r) return l->err->code;
    const bool came = b->waits && argument_of(b, value, strcspn(value, ":")) >= 0;
    ret->at[ret->n] = came ? dfi_lower_held(l, dfi_lower_text(l, "%s/given_%zu", b->prefix, ret->n), r, gate) : r;
    ret->n++;
  }
  return DF_OK;
}

/* The function's results and the control inputs that stand for all that it must run. */
static int32_t put_results(dfi_lower *l, const body *b, const char *gate, dfi_texts *ret, dfi_texts *control) {
  const Pb__FunctionDef *def = b->f;
  const Pb__OpDef *s = def->signature;
  size_t nret = 0;
  for (size_t i = 0; i < s->n_output_arg; i++) {
    int32_t count = 1;
    if (count_of(s->output_arg[i], b->attr, b->nattr, &count))
      return dfi_lower_fail(l, "`%s` calls function `%s` without saying how many `%s` it wants", b->prefix, s->name,
                            s->output_arg[i]->name);
    nret += (size_t)count;
  }
  *ret = dfi_texts_new(l, nret);
  *control = dfi_texts_new(l, def->n_control_ret);
  ret->n = control->n = 0;
  for (size_t i = 0; i < s->n_output_arg; i++) {
    int32_t code = put_result(l, b, s->output_arg[i], gate, ret);
    if (code) return code;
  }
  for (size_t i = 0; i < def->n_control_ret; i++) {
    const char *c = resolve(l, b, dfi_lower_text(l, "^%s", def->control_ret[i]->value), 0);
    if (!c) return l->err->code;
    control->at[control->n++] = c;
  }
  return DF_OK;
}

/* Puts f's nodes under prefix. in: the arguments; gate: a control input that is live when the body is, or NULL; waits:
 * the arguments may be there before it. *ret: the results, *control: control inputs of what waits for all that the
 * body must run. */
static int32_t put_body(dfi_lower *l, int32_t function, const Pb__AttrEntry *const *attr, size_t nattr,
                        const char *prefix, const dfi_texts *in, const char *gate, bool waits, dfi_texts *ret,
                        dfi_texts *control) {
  const Pb__FunctionDef *def = l->function[function].def;
  if (++l->depth > DEPTH_AT_MOST)
    return dfi_lower_fail(l, "functions are called more than %d deep at `%s`", DEPTH_AT_MOST, prefix);
  int32_t *first = dfi_arena_take(&l->d->arena, sizeof *first * (def->signature->n_input_arg + 1));
  int32_t code = place_arguments(l, def->signature, attr, nattr, prefix, in, first);
  if (code) return code;
  body b = { def, prefix, in, first, dfi_lower_names(def->node_def, def->n_node_def), attr, nattr, waits };
  for (size_t i = 0; i < def->n_node_def && !code; i++) code = put_node(l, &b, def->node_def[i], gate);
  if (!code) code = put_results(l, &b, gate, ret, control);
  dfi_lower_names_free(&b.names);
  l->depth--;
  return code;
}

/* ---- what a call becomes ---------------------------------------------------------------------------------------- */

dfi_texts dfi_lower_inputs(dfi_lower *l, const Pb__NodeDef *n) {
  dfi_texts t = dfi_texts_new(l, n->n_input);
  t.n = 0;
  for (size_t i = 0; i < n->n_input; i++) if (n->input[i][0] != '^') t.at[t.n++] = n->input[i];
  return t;
}

void dfi_lower_add(dfi_lower *l, Pb__NodeDef *n, const dfi_texts *t) {
  for (size_t i = 0; i < t->n; i++) dfi_lower_input(l, n, t->at[i]);
}

const char *dfi_lower_gate(dfi_lower *l, const Pb__NodeDef *n, const char *gate) {
  bool any = false;
  for (size_t i = 0; i < n->n_input; i++) any |= n->input[i][0] == '^';
  if (!any) return gate;
  Pb__NodeDef *g = dfi_lower_node(l, "NoOp", dfi_lower_text(l, "%s/begin", n->name));
  for (size_t i = 0; i < n->n_input; i++) if (n->input[i][0] == '^') dfi_lower_input(l, g, n->input[i]);
  return dfi_lower_text(l, "^%s", g->name);
}

const char *dfi_lower_held(dfi_lower *l, const char *name, const char *value, const char *gate) {
  Pb__NodeDef *n = dfi_lower_node(l, "Identity", name);
  dfi_lower_input(l, n, value);
  dfi_lower_input(l, n, gate);
  return n->name;
}

void dfi_lower_result(dfi_lower *l, const Pb__NodeDef *call, const dfi_texts *ret, const dfi_texts *control,
                      const char *gate) {
  Pb__NodeDef *n = dfi_lower_node(l, ret->n ? "IdentityN" : "NoOp", call->name);
  dfi_lower_add(l, n, ret);
  dfi_lower_add(l, n, control);
  if (!n->n_input && gate) dfi_lower_input(l, n, gate);
  if (!ret->n || dfi_lower_changes(l, call)) return;       /* a result and what must run are one */
  if (l->nresults == l->results_cap)
    l->results = dfi_xrealloc(l->results, sizeof *l->results * (l->results_cap = l->results_cap * 2 + 64));
  l->results[l->nresults++] = n;
}

/* A call of a function that calls itself. */
static int32_t put_call(dfi_lower *l, int32_t function, const char *prefix, const dfi_texts *in, const char *gate,
                        dfi_texts *ret, dfi_texts *control) {
  const Pb__OpDef *s = l->function[function].def->signature;
  if (in->n != s->n_input_arg)
    return dfi_lower_fail(l, "`%s` gives %zu arguments to function `%s`, which has %zu", prefix, in->n, s->name,
                          s->n_input_arg);
  Pb__NodeDef *call = dfi_lower_node(l, "FunctionCall", prefix);
  dfi_lower_add(l, call, in);
  if (gate) dfi_lower_input(l, call, gate);
  dfi_lower_string(l, call, "function", s->name);
  Pb__AttrValue *types = dfi_lower_attr(l, call, "Tout");
  types->value_case = PB__ATTR_VALUE__VALUE_LIST;
  types->list = dfi_arena_take(&l->d->arena, sizeof *types->list);
  pb__attr_value__list_value__init(types->list);
  types->list->type = dfi_arena_take(&l->d->arena, sizeof *types->list->type * (s->n_output_arg + 1));
  *ret = dfi_texts_new(l, s->n_output_arg);
  *control = dfi_texts_new(l, 1);
  for (size_t i = 0; i < s->n_output_arg; i++) {
    types->list->type[types->list->n_type++] = s->output_arg[i]->type;
    ret->at[i] = dfi_lower_text(l, "%s:%zu", prefix, i);
  }
  control->at[0] = dfi_lower_text(l, "^%s", prefix);
  return DF_OK;
}

int32_t dfi_lower_function(dfi_lower *l, int32_t function, const Pb__AttrEntry *const *attr, size_t nattr,
                           const char *prefix, const dfi_texts *in, const char *gate, bool waits, dfi_texts *ret,
                           dfi_texts *control) {
  return l->function[function].recursive ? put_call(l, function, prefix, in, gate, ret, control)
                                         : put_body(l, function, attr, nattr, prefix, in, gate, waits, ret, control);
}

static int32_t lower_call(dfi_lower *l, Pb__NodeDef *n, int32_t function, const Pb__AttrEntry *const *attr,
                          size_t nattr, const char *gate, size_t skip) {
  dfi_texts in = dfi_lower_inputs(l, n), ret, control;
  in.at += skip;
  in.n -= skip <= in.n ? skip : in.n;
  const bool waits = dfi_lower_waits(n, gate);
  gate = dfi_lower_gate(l, n, gate);
  if (l->function[function].recursive) return put_call(l, function, n->name, &in, gate, &ret, &control);
  int32_t code = put_body(l, function, attr, nattr, n->name, &in, gate, waits, &ret, &control);
  if (!code) dfi_lower_result(l, n, &ret, &control, gate);
  return code;
}

/* The library may name a function that is another's gradient. */
static int32_t lower_gradient(dfi_lower *l, Pb__NodeDef *n, const char *gate) {
  const Pb__AttrValue *a = dfi_attr_find(n, "f");
  const Pb__FunctionDefLibrary *library = l->d->graph->library;
  Pb__NameAttrList *f =
      a && a->value_case == PB__ATTR_VALUE__VALUE_FUNC ? dfi_graphdef_function(l->d, a->func, l->err) : NULL;
  if (!f) return dfi_lower_fail(l, "node `%s` (%s): its attribute `f` must be a function", n->name, n->op);
  for (size_t i = 0; i < library->n_gradient; i++) {
    if (strcmp(library->gradient[i]->function_name, f->name)) continue;
    const int32_t g = dfi_lower_find(l, library->gradient[i]->gradient_func);
    if (g < 0)
      return dfi_lower_fail(l, "the library says that `%s` is the gradient of `%s`, but has no such function",
                            library->gradient[i]->gradient_func, f->name);
    return lower_call(l, n, g, (const Pb__AttrEntry *const *)f->attr, f->n_attr, gate, 0);
  }
  return dfi_lower_gradient(l, n, f, gate);
}

/* Puts n there, a node of b's body or, where that is NULL, of the graph; or what it becomes. */
static int32_t lower_node(dfi_lower *l, const body *b, Pb__NodeDef *n, const char *gate) {
  const char *op = n->op;
  if (!strcmp(op, "If") || !strcmp(op, "StatelessIf")) return dfi_lower_if(l, n, gate);
  if (!strcmp(op, "While") || !strcmp(op, "StatelessWhile")) return dfi_lower_while(l, n, gate);
  if (!strcmp(op, "Case") || !strcmp(op, "StatelessCase")) return dfi_lower_case(l, n, gate);
  if (!strcmp(op, "For")) return dfi_lower_for(l, n, gate);
  bool remote = !strcmp(op, "RemoteCall");
  if (remote || !strcmp(op, "PartitionedCall") || !strcmp(op, "StatefulPartitionedCall")) {
    Pb__NameAttrList *attrs;
    int32_t f = dfi_lower_function_attr(l, n, "f", &attrs);
    return f < 0 ? l->err->code
                 : lower_call(l, n, f, (const Pb__AttrEntry *const *)attrs->attr, attrs->n_attr, gate, remote);
  }
  if (!strcmp(op, "SymbolicGradient")) return lower_gradient(l, n, gate);
  int32_t f = dfi_lower_find(l, op);
  if (f >= 0) return lower_call(l, n, f, (const Pb__AttrEntry *const *)n->attr, n->n_attr, gate, 0);
  if (dfi_lower_has_own_gradient(n)) return dfi_lower_own_gradient(l, b, n);
  if (l->n == l->cap) l->node = dfi_xrealloc(l->node, sizeof *l->node * (l->cap = l->cap * 2 + 256));
  l->node[l->n++] = n;
  return DF_OK;
}

/* ---- functions that call themselves -------------------------------------------------------------------------- */

/* The body of a function that calls itself: FunctionArg nodes, its nodes, FunctionReturn. */
static int32_t emit_function(dfi_lower *l, int32_t function) {
  const Pb__FunctionDef *f = l->function[function].def;
  const Pb__OpDef *s = f->signature;
  l->function[function].emitted = true;
  dfi_texts in = dfi_texts_new(l, s->n_input_arg), ret, control;
  Pb__NodeDef *begin = dfi_lower_node(l, "FunctionBegin", dfi_lower_text(l, "%s/begin", s->name));
  dfi_lower_string(l, begin, "function", s->name);
  const char *gate = dfi_lower_text(l, "^%s", begin->name);
  for (size_t i = 0; i < s->n_input_arg; i++) {
    const Pb__OpDef__ArgDef *a = s->input_arg[i];
    if (a->number_attr[0] || a->type_list_attr[0] || a->type_attr[0])
      return dfi_lower_fail(l,
                            "function `%s` is called as one, and its argument `%s` has no fixed type: that cannot "
                            "be run",
                            s->name, a->name);
    Pb__NodeDef *arg = dfi_lower_node(l, "FunctionArg", dfi_lower_text(l, "%s/argument_%zu", s->name, i));
    dfi_lower_string(l, arg, "function", s->name);
    dfi_lower_int(l, arg, "index", (int64_t)i);
    dfi_lower_type(l, arg, "dtype", (int32_t)a->type);
    in.at[i] = arg->name;
  }
  int32_t code = put_body(l, function, NULL, 0, dfi_lower_text(l, "%s/body", s->name), &in, gate, false, &ret,
                          &control);
  if (code) return code;
  Pb__NodeDef *end = dfi_lower_node(l, "FunctionReturn", dfi_lower_text(l, "%s/return", s->name));
  dfi_lower_add(l, end, &ret);
  dfi_lower_add(l, end, &control);
  if (!end->n_input) dfi_lower_input(l, end, gate);
  dfi_lower_string(l, end, "function", s->name);
  return DF_OK;
}

/* ---- results ------------------------------------------------------------------------------------------------ */

/* A reader of a call's result reads what the call's node passes on. */
static void read_directly(dfi_lower *l) {
  dfi_names calls = dfi_lower_names(l->results, l->nresults);
  for (size_t i = 0; i < l->n; i++)
    for (size_t k = 0; k < l->node[i]->n_input; k++)
      for (;;) {
        const char *input = l->node[i]->input[k], *colon = strrchr(input, ':');
        if (*input == '^') break;
        const Pb__NodeDef *call = dfi_lower_named(&calls, input, colon ? (size_t)(colon - input) : strlen(input));
        const size_t index = colon ? (size_t)atoi(colon + 1) : 0;
        if (!call || call == l->node[i] || index >= call->n_input || call->input[index][0] == '^' ||
            is_loop_constant(call->input[index]))
          break;
        l->node[i]->input[k] = call->input[index];
      }
  dfi_lower_names_free(&calls);
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

int32_t dfi_functions_lower(dfi_graphdef *d, df_error *err) {
  Pb__GraphDef *g = d->graph;
  dfi_lower l = { .d = d, .err = err };
  l.nfunctions = g->library ? g->library->n_function : 0;
  bool any = l.nfunctions > 0;
  for (size_t i = 0; i < g->n_node && !any; i++) any = dfi_lower_has_own_gradient(g->node[i]);
  if (!any) return DF_OK;
  l.function = dfi_xcalloc(l.nfunctions + 1, sizeof *l.function);
  int32_t code = DF_OK;
  for (size_t i = 0; i < l.nfunctions && !code; i++) {
    l.function[i].def = g->library->function[i];
    if (!l.function[i].def->signature) {
      code = dfi_lower_fail(&l, "function %zu of the library has no signature", i);
      break;
    }
  }
  if (!code) name_functions(&l);
  if (!code) dfi_lower_recursion(&l);
  dfi_names names = dfi_lower_names(g->node, g->n_node);
  for (size_t i = 0; i < g->n_node && !code; i++) {
    Pb__NodeDef *n = g->node[i];
    dfi_lower_after_given(&l, &names, n, n, "");
    code = lower_node(&l, NULL, n, NULL);
  }
  dfi_lower_names_free(&names);
  bool more = !code;
  while (more && !code) {                        /* a function may call another that is not there yet */
    more = false;
    for (size_t i = 0; i < l.n && !code; i++) {
      if (strcmp(l.node[i]->op, "FunctionCall") && strcmp(l.node[i]->op, "RegisteredGradient")) continue;
      const Pb__AttrValue *name = dfi_attr_find(l.node[i], "function");
      int32_t f = name ? dfi_lower_find(&l, (const char *)name->s.data) : -1;
      if (f < 0 || l.function[f].emitted) continue;
      code = emit_function(&l, f);
      more = true;
    }
  }
  if (!code) {
    read_directly(&l);
    Pb__NodeDef **node = dfi_arena_take(&d->arena, sizeof *node * (l.n + 1));
    memcpy(node, l.node, sizeof *node * l.n);
    g->node = node;
    g->n_node = l.n;
  }
  dfi_free(l.node); dfi_free(l.function); dfi_free(l.find); dfi_free(l.results);
  return code;
}
