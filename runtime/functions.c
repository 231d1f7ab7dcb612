/* functions.c: calls in line, and the functional forms of control flow as the five primitives.
 *
 * A call of f becomes f's nodes under the call's name, `call/node`, and an IdentityN with the call's own name that gathers the results
 * and waits for f's control results. So tensors keep their names, and what must run does.
 *   If     Switch per argument, both branches in line behind it, Merge per result
 *   Case   the same with a predicate per branch; an index out of range takes the last branch, as in TensorFlow
 *   While  Enter, Merge, cond, LoopCond, Switch, body, NextIteration, Exit; an argument that the body returns as it came is a loop constant
 *   For    a While that counts
 * Nodes of a body that have no inputs, or only loop constants, hang on a gate, a node that is live when the body is: otherwise a
 * constant in a branch that was not taken would run, and one in a loop would stand outside its frame or run once too often.
 * Who reads a result of a call reads it where it is made, so that nothing but what it needs runs.
 * Only what calls itself, directly or round about, stays a function.
 */
#include "functions.h"
#include <stdarg.h>
#include <stdio.h>

enum { DEPTH_AT_MOST = 200, NODES_AT_MOST = 1000 * 1000 };

static int32_t fail(dfi_lower *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int32_t fail(dfi_lower *l, const char *format, ...) {
  char text[900];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return dfi_fail(l->err, DF_INVALID_ARGUMENT, NULL, "%s", text);
}

/* A list of texts in the arena. */
typedef struct texts { const char **at; size_t n; } texts;

static texts texts_new(dfi_lower *l, size_t n) {
  return (texts){ memset(dfi_arena_take(&l->d->arena, sizeof(char *) * (n + 1)), 0, sizeof(char *) * (n + 1)), n };
}

/* ---- functions --------------------------------------------------------------------------------------------- */

static int32_t find_function(const dfi_lower *l, const char *name) {
  for (size_t i = 0; i < l->nfunctions; i++) if (!strcmp(l->function[i].name, name)) return (int32_t)i;
  return -1;
}

/* The function that attribute `key` of n names; *attrs are the attributes it is given. -1: err is filled. */
static int32_t function_attr(dfi_lower *l, const Pb__NodeDef *n, const char *key, Pb__NameAttrList **attrs) {
  const Pb__AttrValue *a = dfi_attr_find(n, key);
  if (!a || a->value_case != PB__ATTR_VALUE__VALUE_FUNC) return fail(l, "node `%s` (%s): its attribute `%s` must be a function", n->name, n->op, key), -1;
  *attrs = dfi_graphdef_function(l->d, a->func, l->err);
  if (!*attrs) return -1;
  int32_t f = find_function(l, (*attrs)->name);
  if (f < 0) fail(l, "node `%s` (%s): there is no function `%s` in the library (attribute `%s`)", n->name, n->op, (*attrs)->name, key);
  return f;
}

static int32_t count_of(const Pb__OpDef__ArgDef *arg, const Pb__AttrEntry *const *attr, size_t nattr, int32_t *count) {
  const char *key = arg->number_attr[0] ? arg->number_attr : arg->type_list_attr;
  *count = 1;
  if (!key[0]) return DF_OK;
  for (size_t i = 0; i < nattr; i++) {
    if (strcmp(attr[i]->key, key)) continue;
    const Pb__AttrValue *v = attr[i]->value;
    if (v->value_case == PB__ATTR_VALUE__VALUE_I && v->i >= 0 && v->i < 1 << 20) { *count = (int32_t)v->i; return DF_OK; }
    if (v->value_case == PB__ATTR_VALUE__VALUE_LIST && v->list) { *count = (int32_t)v->list->n_type; return DF_OK; }
  }
  return DF_INVALID_ARGUMENT;
}

/* Outputs of TensorFlow's ops with several, where ours have other names. A function's nodes name them. */
static const struct { const char *op, *names; } outputs_of[] = {
  { "Switch", "output_false output_true" }, { "RefSwitch", "output_false output_true" }, { "Merge", "output value_index" },
  { "RefMerge", "output value_index" }, { "TopKV2", "values indices" }, { "TopK", "values indices" }, { "Unique", "y idx" },
  { "UniqueV2", "y idx" }, { "UniqueWithCounts", "y idx count" }, { "TensorArrayV3", "handle flow" }, { "TensorArrayGradV3", "grad_handle flow_out" },
  { "TensorArrayGradWithShape", "grad_handle flow_out" }, { "TensorArrayConcatV3", "value lengths" }, { "BroadcastGradientArgs", "r0 r1" },
  { "TensorListPopBack", "output_handle tensor" }, { "TensorListConcat", "tensor lengths" }, { "TensorListConcatV2", "tensor lengths" },
  { "LSTMBlockCell", "i cs f o ci co h" }, { "BlockLSTM", "i cs f o ci co h" }, { "BlockLSTMV2", "i cs f o ci co h" },
  { "LSTMBlockCellGrad", "cs_prev_grad dicfo wci_grad wcf_grad wco_grad" }, { "SoftmaxCrossEntropyWithLogits", "loss backprop" },
  { "SparseSoftmaxCrossEntropyWithLogits", "loss backprop" }, { "DeserializeSparse", "sparse_indices sparse_values sparse_shape" },
  { "DeserializeManySparse", "sparse_indices sparse_values sparse_shape" }, { "Qr", "q r" }, { "RaggedRange", "rt_nested_splits rt_dense_values" },
  { "GRUBlockCell", "r u c h" }, { "Batch", "batched_tensors batch_index id" }, { "MaxPoolWithArgmax", "output argmax" },
  { "BlockLSTMGrad", "x_grad cs_prev_grad h_prev_grad w_grad wci_grad wcf_grad wco_grad b_grad" },
  { "BlockLSTMGradV2", "x_grad cs_prev_grad h_prev_grad w_grad wci_grad wcf_grad wco_grad b_grad" },
};

/* The place of output `arg` of node b among its outputs; -1: it has none of this name. */
static int32_t output_offset(const dfi_lower *l, const Pb__NodeDef *b, const char *arg, size_t length) {
  int32_t f = find_function(l, b->op), at = 0;
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

typedef struct body {
  const Pb__FunctionDef *f;
  const char *prefix;                        /* its nodes are prefix/name */
  const texts *in;
  const int32_t *arg_first;                  /* by argument: its place in `in` */
  const struct named *table; uint32_t mask;  /* nodes by name */
} body;
typedef struct named { const Pb__NodeDef *node; } named;

static uint32_t hash_name(const char *s, size_t n) {
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < n; i++) h = (h ^ (uint8_t)s[i]) * 16777619u;
  return h ^ h >> 15;
}

static const Pb__NodeDef *body_node(const body *b, const char *name, size_t n) {
  for (uint32_t i = hash_name(name, n) & b->mask; b->table[i].node; i = (i + 1) & b->mask)
    if (!strncmp(b->table[i].node->name, name, n) && !b->table[i].node->name[n]) return b->table[i].node;
  return NULL;
}

/* `node:out:1`, `arg`, `^node` as they are named outside. `more`: so many outputs further. NULL: err is filled. */
static const char *resolve(dfi_lower *l, const body *b, const char *input, int32_t more) {
  const Pb__OpDef *s = b->f->signature;
  bool control = *input == '^';
  const char *name = input + control, *colon = strchr(name, ':');
  size_t n = colon ? (size_t)(colon - name) : strlen(name);
  for (size_t i = 0; i < s->n_input_arg; i++) {
    if (strncmp(s->input_arg[i]->name, name, n) || s->input_arg[i]->name[n]) continue;
    size_t at = (size_t)(b->arg_first[i] + (colon ? atoi(colon + 1) : 0) + more);
    if (at >= b->in->n) { fail(l, "function `%s`: `%s` is more than its argument has", s->name, input); return NULL; }
    const char *outer = b->in->at[at];
    if (!control) return outer;
    const char *last = strrchr(outer, ':');
    return dfi_lower_text(l, "^%.*s", last ? (int)(last - outer) : (int)strlen(outer), outer);
  }
  const Pb__NodeDef *node = body_node(b, name, n);
  if (!node) { fail(l, "function `%s` has no node or argument `%.*s`, which `%s` names", s->name, (int)n, name, input); return NULL; }
  if (control) return dfi_lower_text(l, "^%s/%.*s", b->prefix, (int)n, name);
  int32_t index = more;
  if (colon) {
    const char *arg = colon + 1, *second = strchr(arg, ':');
    bool number = arg[0] >= '0' && arg[0] <= '9';
    int32_t offset = number ? 0 : output_offset(l, node, arg, second ? (size_t)(second - arg) : strlen(arg));
    if (offset < 0) { fail(l, "function `%s`: node `%s` (%s) has no output `%s`", s->name, node->name, node->op, arg); return NULL; }
    index += offset + (number ? atoi(arg) : second ? atoi(second + 1) : 0);
  }
  return dfi_lower_text(l, "%s/%.*s:%d", b->prefix, (int)n, name, index);
}

static int32_t lower_node(dfi_lower *l, Pb__NodeDef *n, const char *gate);

/* The attributes of a body's node, with those of the call put in for placeholders. */
static void copy_attrs(dfi_lower *l, const Pb__NodeDef *from, Pb__NodeDef *to, const Pb__AttrEntry *const *attr, size_t nattr) {
  for (size_t i = 0; i < from->n_attr; i++) {
    Pb__AttrValue *v = dfi_lower_attr(l, to, from->attr[i]->key);
    const Pb__AttrValue *value = from->attr[i]->value;
    if (value->value_case == PB__ATTR_VALUE__VALUE_PLACEHOLDER)
      for (size_t k = 0; k < nattr; k++) if (!strcmp(attr[k]->key, value->placeholder)) { value = attr[k]->value; break; }
    *v = *value;
  }
}

/* Is this a loop constant, there in every iteration whether its body runs or not? */
static bool is_loop_constant(const char *input) {
  const char *slash = strrchr(input, '/');
  return slash && !strncmp(slash, "/constant_", 10);
}

/* Does the node wait for something of the body it stands in? */
static bool hangs(const Pb__NodeDef *n) {
  for (size_t i = 0; i < n->n_input; i++) if (!is_loop_constant(n->input[i])) return true;
  return false;
}

/* Puts f's nodes under prefix. in: the arguments; gate: a control input that is live when the body is, or NULL. *ret: the results,
 * *control: control inputs for whoever waits for all that the body must run. */
static int32_t put_body(dfi_lower *l, int32_t function, const Pb__AttrEntry *const *attr, size_t nattr, const char *prefix, const texts *in,
                        const char *gate, texts *ret, texts *control) {
  const Pb__FunctionDef *f = l->function[function].def;
  const Pb__OpDef *s = f->signature;
  if (++l->depth > DEPTH_AT_MOST) return fail(l, "functions are called more than %d deep at `%s`", DEPTH_AT_MOST, prefix);
  int32_t *first = dfi_arena_take(&l->d->arena, sizeof *first * (s->n_input_arg + 1)), at = 0, code = DF_OK;
  for (size_t i = 0; i < s->n_input_arg; i++) {
    int32_t count;
    first[i] = at;
    if (count_of(s->input_arg[i], attr, nattr, &count)) return fail(l, "`%s` calls function `%s` without saying how many `%s` there are", prefix, s->name, s->input_arg[i]->name);
    at += count;
  }
  if ((size_t)at != in->n) return fail(l, "`%s` gives %zu arguments to function `%s`, which has %d", prefix, in->n, s->name, at);
  uint32_t mask = 15;
  while (mask < 2 * f->n_node_def) mask = mask * 2 + 1;
  named *table = dfi_xcalloc((size_t)mask + 1, sizeof *table);
  for (size_t i = 0; i < f->n_node_def; i++) {
    uint32_t h = hash_name(f->node_def[i]->name, strlen(f->node_def[i]->name)) & mask;
    while (table[h].node) h = (h + 1) & mask;
    table[h].node = f->node_def[i];
  }
  const body b = { f, prefix, in, first, table, mask };
  for (size_t i = 0; i < f->n_node_def && !code; i++) {
    const Pb__NodeDef *from = f->node_def[i];
    if (l->n > NODES_AT_MOST) { code = fail(l, "the functions of this graph put in line are more than %d nodes", NODES_AT_MOST); break; }
    size_t before = l->n;
    Pb__NodeDef *to = dfi_lower_node(l, from->op, dfi_lower_text(l, "%s/%s", prefix, from->name));
    l->n = before;                           /* lower_node puts it there, or what it becomes */
    to->device = from->device;
    copy_attrs(l, from, to, attr, nattr);
    for (size_t k = 0; k < from->n_input && !code; k++) {
      const char *input = resolve(l, &b, from->input[k], 0);
      if (input) dfi_lower_input(l, to, input); else code = l->err->code;
    }
    if (gate && !hangs(to)) dfi_lower_input(l, to, gate);
    if (!code) code = lower_node(l, to, gate);
  }
  size_t nret = 0;
  for (size_t i = 0; i < s->n_output_arg && !code; i++) {
    int32_t count = 1;
    if (count_of(s->output_arg[i], attr, nattr, &count)) code = fail(l, "`%s` calls function `%s` without saying how many `%s` it wants", prefix, s->name, s->output_arg[i]->name);
    nret += (size_t)count;
  }
  if (!code) { *ret = texts_new(l, nret); ret->n = 0; *control = texts_new(l, f->n_control_ret); control->n = 0; }
  for (size_t i = 0; i < s->n_output_arg && !code; i++) {
    int32_t count = 1;
    count_of(s->output_arg[i], attr, nattr, &count);
    const char *value = NULL;
    for (size_t k = 0; k < f->n_ret; k++) if (!strcmp(f->ret[k]->key, s->output_arg[i]->name)) value = f->ret[k]->value;
    if (!value) { code = fail(l, "function `%s` does not say what its result `%s` is", s->name, s->output_arg[i]->name); break; }
    for (int32_t k = 0; k < count && !code; k++) {
      const char *r = resolve(l, &b, value, k);
      if (r) ret->at[ret->n++] = r; else code = l->err->code;
    }
  }
  for (size_t i = 0; i < f->n_control_ret && !code; i++) {
    const char *c = resolve(l, &b, dfi_lower_text(l, "^%s", f->control_ret[i]->value), 0);
    if (c) control->at[control->n++] = c; else code = l->err->code;
  }
  free(table);
  l->depth--;
  return code;
}

/* ---- what a call becomes ---------------------------------------------------------------------------------------- */

static texts data_inputs(dfi_lower *l, const Pb__NodeDef *n) {
  texts t = texts_new(l, n->n_input);
  t.n = 0;
  for (size_t i = 0; i < n->n_input; i++) if (n->input[i][0] != '^') t.at[t.n++] = n->input[i];
  return t;
}

static void add_inputs(dfi_lower *l, Pb__NodeDef *n, const texts *t) {
  for (size_t i = 0; i < t->n; i++) dfi_lower_input(l, n, t->at[i]);
}

/* A control input that is live when call n runs: its own gate, which also waits for n's control inputs where it has any. */
static const char *gate_of(dfi_lower *l, const Pb__NodeDef *n, const char *gate) {
  bool any = false;
  for (size_t i = 0; i < n->n_input; i++) any |= n->input[i][0] == '^';
  if (!any) return gate;
  Pb__NodeDef *g = dfi_lower_node(l, "NoOp", dfi_lower_text(l, "%s/begin", n->name));
  for (size_t i = 0; i < n->n_input; i++) if (n->input[i][0] == '^') dfi_lower_input(l, g, n->input[i]);
  if (gate && !(n->n_input == 1 && !strcmp(n->input[0], gate))) {
    bool there = false;
    for (size_t i = 0; i < g->n_input; i++) there |= !strcmp(g->input[i], gate);
    if (!there) dfi_lower_input(l, g, gate);
  }
  return dfi_lower_text(l, "^%s", g->name);
}

/* The node that keeps the call's name: its results, after all that must have run. */
static void put_result(dfi_lower *l, const Pb__NodeDef *call, const texts *ret, const texts *control, const char *gate) {
  Pb__NodeDef *n = dfi_lower_node(l, ret->n ? "IdentityN" : "NoOp", call->name);
  add_inputs(l, n, ret);
  add_inputs(l, n, control);
  if (!n->n_input && gate) dfi_lower_input(l, n, gate);
  if (!ret->n) return;
  if (l->nresults == l->results_cap) l->results = dfi_xrealloc(l->results, sizeof *l->results * (l->results_cap = l->results_cap * 2 + 64));
  l->results[l->nresults++] = n;
}

/* As put_body, but a function that calls itself is called: a FunctionCall named prefix. */
static int32_t put_function(dfi_lower *l, int32_t function, const Pb__AttrEntry *const *attr, size_t nattr, const char *prefix, const texts *in,
                            const char *gate, texts *ret, texts *control) {
  if (!l->function[function].recursive) return put_body(l, function, attr, nattr, prefix, in, gate, ret, control);
  const Pb__OpDef *s = l->function[function].def->signature;
  if (in->n != s->n_input_arg) return fail(l, "`%s` gives %zu arguments to function `%s`, which has %zu", prefix, in->n, s->name, s->n_input_arg);
  Pb__NodeDef *call = dfi_lower_node(l, "FunctionCall", prefix);
  add_inputs(l, call, in);
  if (gate) dfi_lower_input(l, call, gate);
  dfi_lower_string(l, call, "function", s->name);
  Pb__AttrValue *types = dfi_lower_attr(l, call, "Tout");
  types->value_case = PB__ATTR_VALUE__VALUE_LIST;
  types->list = dfi_arena_take(&l->d->arena, sizeof *types->list);
  pb__attr_value__list_value__init(types->list);
  types->list->type = dfi_arena_take(&l->d->arena, sizeof *types->list->type * (s->n_output_arg + 1));
  *ret = texts_new(l, s->n_output_arg);
  *control = texts_new(l, 1);
  for (size_t i = 0; i < s->n_output_arg; i++) {
    types->list->type[types->list->n_type++] = s->output_arg[i]->type;
    ret->at[i] = dfi_lower_text(l, "%s:%zu", prefix, i);
  }
  control->at[0] = dfi_lower_text(l, "^%s", prefix);
  return DF_OK;
}

static int32_t lower_call(dfi_lower *l, Pb__NodeDef *n, int32_t function, const Pb__AttrEntry *const *attr, size_t nattr, const char *gate, size_t skip) {
  texts in = data_inputs(l, n), ret, control;
  in.at += skip;
  in.n -= skip <= in.n ? skip : in.n;
  gate = gate_of(l, n, gate);
  int32_t code = put_function(l, function, attr, nattr, n->name, &in, gate, &ret, &control);
  if (!code && !l->function[function].recursive) put_result(l, n, &ret, &control, gate);
  return code;
}

/* The name of a bool that says whether `condition` holds. */
static const char *as_bool(dfi_lower *l, const Pb__NodeDef *n, const char *condition, const char *base) {
  const Pb__AttrValue *t = dfi_attr_find(n, "Tcond");
  if (t && t->value_case == PB__ATTR_VALUE__VALUE_TYPE && t->type == PB__DATA_TYPE__DT_BOOL) return condition;
  Pb__NodeDef *b = dfi_lower_node(l, "ToBool", dfi_lower_text(l, "%s/%s", n->name, base));
  dfi_lower_input(l, b, condition);
  return b->name;
}

/* Branch `function` behind the side of `pred` that `side` names. Adds its results to merge[i], and a node for the order of effects to *done. */
static int32_t put_branch(dfi_lower *l, Pb__NodeDef *n, int32_t function, const Pb__NameAttrList *f, const char *pred, int32_t side, const char *label,
                          const texts *in, const char *gate, texts *ret, const char **done) {
  texts args = texts_new(l, in->n), control;
  Pb__NodeDef *pivot = dfi_lower_node(l, "Switch", dfi_lower_text(l, "%s/%s/pivot_switch", n->name, label));
  dfi_lower_input(l, pivot, pred);
  dfi_lower_input(l, pivot, pred);
  if (gate) dfi_lower_input(l, pivot, gate);
  Pb__NodeDef *live = dfi_lower_node(l, "Identity", dfi_lower_text(l, "%s/%s/pivot", n->name, label));
  dfi_lower_input(l, live, dfi_lower_text(l, "%s:%d", pivot->name, side));
  for (size_t i = 0; i < in->n; i++) {
    Pb__NodeDef *s = dfi_lower_node(l, "Switch", dfi_lower_text(l, "%s/%s/switch_%zu", n->name, label, i));
    dfi_lower_input(l, s, in->at[i]);
    dfi_lower_input(l, s, pred);
    if (gate && !hangs(s)) dfi_lower_input(l, s, gate);
    args.at[i] = dfi_lower_text(l, "%s:%d", s->name, side);
  }
  int32_t code = put_function(l, function, (const Pb__AttrEntry *const *)f->attr, f->n_attr, dfi_lower_text(l, "%s/%s", n->name, label), &args,
                          dfi_lower_text(l, "^%s", live->name), ret, &control);
  if (code) return code;
  Pb__NodeDef *d = dfi_lower_node(l, "Identity", dfi_lower_text(l, "%s/%s/done", n->name, label));
  dfi_lower_input(l, d, live->name);
  add_inputs(l, d, &control);
  *done = d->name;
  return DF_OK;
}

/* Merges what n branches gave, and gives it the call's name. */
static int32_t merge_branches(dfi_lower *l, Pb__NodeDef *call, size_t n, const texts *ret, const char **done, const char *gate) {
  texts merged = texts_new(l, ret[0].n), control = texts_new(l, 1);
  for (size_t b = 1; b < n; b++)
    if (ret[b].n != ret[0].n) return fail(l, "the branches of `%s` (%s) give %zu and %zu results", call->name, call->op, ret[0].n, ret[b].n);
  for (size_t i = 0; i < merged.n; i++) {
    Pb__NodeDef *m = dfi_lower_node(l, "Merge", dfi_lower_text(l, "%s/merge_%zu", call->name, i));
    for (size_t b = 0; b < n; b++) dfi_lower_input(l, m, ret[b].at[i]);
    merged.at[i] = m->name;
  }
  Pb__NodeDef *d = dfi_lower_node(l, "Merge", dfi_lower_text(l, "%s/done", call->name));
  for (size_t b = 0; b < n; b++) dfi_lower_input(l, d, done[b]);
  control.at[0] = dfi_lower_text(l, "^%s", d->name);
  put_result(l, call, &merged, &control, gate);
  return DF_OK;
}

static int32_t lower_if(dfi_lower *l, Pb__NodeDef *n, const char *gate) {
  texts in = data_inputs(l, n), ret[2];
  if (!in.n) return fail(l, "node `%s` (%s) has no predicate", n->name, n->op);
  const char *pred = as_bool(l, n, in.at[0], "predicate"), *done[2];
  in.at++; in.n--;
  gate = gate_of(l, n, gate);
  for (int32_t side = 0; side < 2; side++) {
    Pb__NameAttrList *attrs;
    int32_t f = function_attr(l, n, side ? "then_branch" : "else_branch", &attrs);
    int32_t code = f < 0 ? l->err->code : put_branch(l, n, f, attrs, pred, side, side ? "then" : "else", &in, gate, &ret[side], &done[side]);
    if (code) return code;
  }
  return merge_branches(l, n, 2, ret, done, gate);
}

static int32_t lower_case(dfi_lower *l, Pb__NodeDef *n, const char *gate) {
  const Pb__AttrValue *list = dfi_attr_find(n, "branches");
  texts in = data_inputs(l, n);
  size_t branches = list && list->value_case == PB__ATTR_VALUE__VALUE_LIST && list->list ? list->list->n_func : 0;
  if (!branches || !in.n) return fail(l, "node `%s` (%s) has no index or no branches", n->name, n->op);
  const char *index = in.at[0];
  in.at++; in.n--;
  gate = gate_of(l, n, gate);
  texts *ret = dfi_arena_take(&l->d->arena, sizeof *ret * branches);
  const char **done = dfi_arena_take(&l->d->arena, sizeof *done * branches);
  const char *last = NULL;                       /* none of the branches before */
  for (size_t b = 0; b < branches; b++) {
    const char *label = dfi_lower_text(l, "branch_%zu", b), *pred;
    if (b + 1 == branches) {
      if (!last) {                               /* the only branch is always taken */
        Pb__NodeDef *eq = dfi_lower_node(l, "Equal", dfi_lower_text(l, "%s/%s/taken", n->name, label));
        dfi_lower_input(l, eq, index);
        dfi_lower_input(l, eq, index);
        last = eq->name;
      }
      pred = last;
    } else {
      Pb__NodeDef *eq = dfi_lower_node(l, "Equal", dfi_lower_text(l, "%s/%s/taken", n->name, label)), *not, *and = NULL;
      dfi_lower_input(l, eq, index);
      dfi_lower_input(l, eq, dfi_lower_const(l, dfi_lower_text(l, "%s/%s/number", n->name, label), (int32_t)b, gate));
      not = dfi_lower_node(l, "LogicalNot", dfi_lower_text(l, "%s/%s/not_taken", n->name, label));
      dfi_lower_input(l, not, eq->name);
      if (last) {
        and = dfi_lower_node(l, "LogicalAnd", dfi_lower_text(l, "%s/%s/none_yet", n->name, label));
        dfi_lower_input(l, and, last);
        dfi_lower_input(l, and, not->name);
      }
      last = and ? and->name : not->name;
      pred = eq->name;
    }
    Pb__NameAttrList *attrs = dfi_graphdef_function(l->d, list->list->func[b], l->err);
    int32_t f = attrs ? find_function(l, attrs->name) : -1;
    if (attrs && f < 0) return fail(l, "node `%s` (%s): there is no function `%s` in the library (branch %zu)", n->name, n->op, attrs->name, b);
    int32_t code = f < 0 ? l->err->code : put_branch(l, n, f, attrs, pred, 1, label, &in, gate, &ret[b], &done[b]);
    if (code) return code;
  }
  return merge_branches(l, n, branches, ret, done, gate);
}

/* Does f return its argument i as its result i? */
static bool returns_as_it_came(const Pb__FunctionDef *f, size_t i) {
  const Pb__OpDef *s = f->signature;
  if (i >= s->n_input_arg || i >= s->n_output_arg) return false;
  const char *value = NULL;
  for (size_t k = 0; k < f->n_ret; k++) if (!strcmp(f->ret[k]->key, s->output_arg[i]->name)) value = f->ret[k]->value;
  for (int32_t patience = 0; value && patience < 100; patience++) {
    size_t n = strcspn(value, ":");
    if (!strncmp(s->input_arg[i]->name, value, n) && !s->input_arg[i]->name[n]) return true;
    const Pb__NodeDef *by = NULL;
    for (size_t k = 0; k < f->n_node_def; k++)
      if (!strncmp(f->node_def[k]->name, value, n) && !f->node_def[k]->name[n]) by = f->node_def[k];
    if (!by || strcmp(by->op, "Identity") || by->n_input != 1) return false;
    value = by->input[0];
  }
  return false;
}

static void frame_attrs(dfi_lower *l, Pb__NodeDef *enter, const Pb__NodeDef *loop, bool constant) {
  const Pb__AttrValue *p = dfi_attr_find(loop, "parallel_iterations");
  dfi_lower_string(l, enter, "frame_name", dfi_lower_text(l, "%s/while", loop->name));
  dfi_lower_bool(l, enter, "is_constant", constant);
  dfi_lower_int(l, enter, "parallel_iterations", p && p->value_case == PB__ATTR_VALUE__VALUE_I && p->i > 0 ? p->i : 10);
}

/* A loop over in. The predicate is cond(in…), or with count >= 0 "i < limit" of a For; the body's function gets the arguments from the
 * place `hidden` on. */
typedef struct loop { int32_t cond, body; Pb__NameAttrList *cond_attrs, *body_attrs; } loop;

static int32_t lower_while(dfi_lower *l, Pb__NodeDef *n, const char *gate) {
  loop w;
  texts in = data_inputs(l, n);
  w.cond = function_attr(l, n, "cond", &w.cond_attrs);
  w.body = w.cond < 0 ? -1 : function_attr(l, n, "body", &w.body_attrs);
  if (w.body < 0) return l->err->code;
  if (!in.n) return fail(l, "node `%s` (%s) has no loop variable", n->name, n->op);
  const Pb__FunctionDef *body = l->function[w.body].def;
  gate = gate_of(l, n, gate);
  bool *constant = memset(dfi_arena_take(&l->d->arena, in.n), 0, in.n);
  texts merged = texts_new(l, in.n), inside = texts_new(l, in.n), exits = texts_new(l, in.n), ret, control;
  Pb__NodeDef **merge = dfi_arena_take(&l->d->arena, sizeof *merge * in.n);
  size_t variables = 0;
  for (size_t i = 0; i < in.n; i++) {
    constant[i] = returns_as_it_came(body, i) && !(i + 1 == in.n && !variables);
    variables += !constant[i];
  }
  const char *first = NULL;
  for (size_t i = 0; i < in.n; i++) {
    Pb__NodeDef *enter = dfi_lower_node(l, "Enter", dfi_lower_text(l, constant[i] ? "%s/constant_%zu" : "%s/enter_%zu", n->name, i));
    dfi_lower_input(l, enter, in.at[i]);
    if (gate) dfi_lower_input(l, enter, gate);
    frame_attrs(l, enter, n, constant[i]);
    merged.at[i] = inside.at[i] = enter->name;
    if (constant[i]) continue;
    merge[i] = dfi_lower_node(l, "Merge", dfi_lower_text(l, "%s/merge_%zu", n->name, i));
    dfi_lower_input(l, merge[i], enter->name);
    dfi_lower_input(l, merge[i], dfi_lower_text(l, "%s/next_%zu", n->name, i));
    merged.at[i] = merge[i]->name;
    if (!first) first = merge[i]->name;
  }
  int32_t code = put_function(l, w.cond, (const Pb__AttrEntry *const *)w.cond_attrs->attr, w.cond_attrs->n_attr, dfi_lower_text(l, "%s/cond", n->name), &merged,
                          dfi_lower_text(l, "^%s", first), &ret, &control);
  if (code) return code;
  if (ret.n != 1) return fail(l, "the cond of `%s` (%s) gives %zu results, it must give one", n->name, n->op, ret.n);
  const Pb__OpDef__ArgDef *type = l->function[w.cond].def->signature->output_arg[0];
  const char *pred = ret.at[0];
  if (type->type != PB__DATA_TYPE__DT_BOOL) {
    Pb__NodeDef *b = dfi_lower_node(l, "ToBool", dfi_lower_text(l, "%s/predicate", n->name));
    dfi_lower_input(l, b, pred);
    pred = b->name;
  }
  Pb__NodeDef *condition = dfi_lower_node(l, "LoopCond", dfi_lower_text(l, "%s/loop_cond", n->name));
  dfi_lower_input(l, condition, pred);
  add_inputs(l, condition, &control);
  const char *pivot = NULL;
  for (size_t i = 0; i < in.n; i++) {
    exits.at[i] = in.at[i];
    if (constant[i]) continue;
    Pb__NodeDef *s = dfi_lower_node(l, "Switch", dfi_lower_text(l, "%s/switch_%zu", n->name, i));
    dfi_lower_input(l, s, merge[i]->name);
    dfi_lower_input(l, s, condition->name);
    Pb__NodeDef *id = dfi_lower_node(l, "Identity", dfi_lower_text(l, "%s/body_%zu", n->name, i));
    dfi_lower_input(l, id, dfi_lower_text(l, "%s:1", s->name));
    Pb__NodeDef *exit = dfi_lower_node(l, "Exit", dfi_lower_text(l, "%s/exit_%zu", n->name, i));
    dfi_lower_input(l, exit, s->name);
    exits.at[i] = exit->name;
    inside.at[i] = id->name;
    if (!pivot) pivot = dfi_lower_text(l, "^%s", id->name);
  }
  code = put_function(l, w.body, (const Pb__AttrEntry *const *)w.body_attrs->attr, w.body_attrs->n_attr, dfi_lower_text(l, "%s/body", n->name), &inside, pivot,
                  &ret, &control);
  if (code) return code;
  if (ret.n != in.n) return fail(l, "the body of `%s` (%s) gives %zu results for %zu loop variables", n->name, n->op, ret.n, in.n);
  for (size_t i = 0; i < in.n; i++) {
    if (constant[i]) continue;
    Pb__NodeDef *next = dfi_lower_node(l, "NextIteration", dfi_lower_text(l, "%s/next_%zu", n->name, i));
    dfi_lower_input(l, next, ret.at[i]);
    if (!hangs(next)) dfi_lower_input(l, next, pivot);
    add_inputs(l, next, &control);
  }
  control.n = 0;
  put_result(l, n, &exits, &control, gate);
  return DF_OK;
}

/* For(start, limit, delta, in…): the body gets the counter and the variables, and gives the variables. */
static int32_t lower_for(dfi_lower *l, Pb__NodeDef *n, const char *gate) {
  texts in = data_inputs(l, n), ret, control;
  Pb__NameAttrList *attrs;
  int32_t body = function_attr(l, n, "body", &attrs);
  if (body < 0) return l->err->code;
  if (in.n < 3) return fail(l, "node `%s` (For) needs start, limit and delta", n->name);
  gate = gate_of(l, n, gate);
  const size_t vars = in.n - 2;                 /* the counter, then the variables */
  texts inside = texts_new(l, vars), exits = texts_new(l, in.n - 3);
  const char *limit = NULL, *delta = NULL;
  for (size_t i = 1; i < 3; i++) {
    Pb__NodeDef *enter = dfi_lower_node(l, "Enter", dfi_lower_text(l, "%s/constant_%s", n->name, i == 1 ? "limit" : "delta"));
    dfi_lower_input(l, enter, in.at[i]);
    if (gate) dfi_lower_input(l, enter, gate);
    frame_attrs(l, enter, n, true);
    if (i == 1) limit = enter->name; else delta = enter->name;
  }
  Pb__NodeDef *range = dfi_lower_node(l, "Range", dfi_lower_text(l, "%s/constant_range", n->name));    /* an error where it never ends */
  for (size_t i = 0; i < 3; i++) dfi_lower_input(l, range, in.at[i]);
  if (gate) dfi_lower_input(l, range, gate);
  for (size_t i = 0; i < vars; i++) {
    Pb__NodeDef *enter = dfi_lower_node(l, "Enter", dfi_lower_text(l, "%s/enter_%zu", n->name, i));
    dfi_lower_input(l, enter, in.at[i ? i + 2 : 0]);
    if (gate) dfi_lower_input(l, enter, gate);
    if (!i) dfi_lower_input(l, enter, dfi_lower_text(l, "^%s", range->name));
    frame_attrs(l, enter, n, false);
    Pb__NodeDef *merge = dfi_lower_node(l, "Merge", dfi_lower_text(l, "%s/merge_%zu", n->name, i));
    dfi_lower_input(l, merge, enter->name);
    dfi_lower_input(l, merge, dfi_lower_text(l, "%s/next_%zu", n->name, i));
  }
  /* (limit - i) * delta > 0: up or down */
  Pb__NodeDef *left = dfi_lower_node(l, "Sub", dfi_lower_text(l, "%s/left", n->name));
  dfi_lower_input(l, left, limit);
  dfi_lower_input(l, left, dfi_lower_text(l, "%s/merge_0", n->name));
  Pb__NodeDef *sign = dfi_lower_node(l, "Sign", dfi_lower_text(l, "%s/direction", n->name));
  dfi_lower_input(l, sign, delta);
  Pb__NodeDef *go = dfi_lower_node(l, "Mul", dfi_lower_text(l, "%s/to_go", n->name));
  dfi_lower_input(l, go, left->name);
  dfi_lower_input(l, go, sign->name);
  Pb__NodeDef *more = dfi_lower_node(l, "Greater", dfi_lower_text(l, "%s/more", n->name));
  dfi_lower_input(l, more, go->name);
  dfi_lower_input(l, more, dfi_lower_const(l, dfi_lower_text(l, "%s/zero", n->name), 0, dfi_lower_text(l, "^%s/merge_0", n->name)));
  Pb__NodeDef *condition = dfi_lower_node(l, "LoopCond", dfi_lower_text(l, "%s/loop_cond", n->name));
  dfi_lower_input(l, condition, more->name);
  for (size_t i = 0; i < vars; i++) {
    Pb__NodeDef *s = dfi_lower_node(l, "Switch", dfi_lower_text(l, "%s/switch_%zu", n->name, i));
    dfi_lower_input(l, s, dfi_lower_text(l, "%s/merge_%zu", n->name, i));
    dfi_lower_input(l, s, condition->name);
    Pb__NodeDef *id = dfi_lower_node(l, "Identity", dfi_lower_text(l, "%s/body_%zu", n->name, i));
    dfi_lower_input(l, id, dfi_lower_text(l, "%s:1", s->name));
    inside.at[i] = id->name;
    if (!i) continue;
    Pb__NodeDef *exit = dfi_lower_node(l, "Exit", dfi_lower_text(l, "%s/exit_%zu", n->name, i));
    dfi_lower_input(l, exit, s->name);
    exits.at[i - 1] = exit->name;
  }
  int32_t code = put_function(l, body, (const Pb__AttrEntry *const *)attrs->attr, attrs->n_attr, dfi_lower_text(l, "%s/body", n->name), &inside,
                          dfi_lower_text(l, "^%s", inside.at[0]), &ret, &control);
  if (code) return code;
  if (ret.n != vars - 1) return fail(l, "the body of `%s` (For) gives %zu results for %zu variables", n->name, ret.n, vars - 1);
  Pb__NodeDef *add = dfi_lower_node(l, "Add", dfi_lower_text(l, "%s/counted", n->name));
  dfi_lower_input(l, add, inside.at[0]);
  dfi_lower_input(l, add, delta);
  for (size_t i = 0; i < vars; i++) {
    Pb__NodeDef *next = dfi_lower_node(l, "NextIteration", dfi_lower_text(l, "%s/next_%zu", n->name, i));
    dfi_lower_input(l, next, i ? ret.at[i - 1] : add->name);
    if (!hangs(next)) dfi_lower_input(l, next, dfi_lower_text(l, "^%s", inside.at[0]));
    add_inputs(l, next, &control);
  }
  control.n = 0;
  put_result(l, n, &exits, &control, gate);
  return DF_OK;
}

static int32_t lower_node(dfi_lower *l, Pb__NodeDef *n, const char *gate) {
  const char *op = n->op;
  if (!strcmp(op, "If") || !strcmp(op, "StatelessIf")) return lower_if(l, n, gate);
  if (!strcmp(op, "While") || !strcmp(op, "StatelessWhile")) return lower_while(l, n, gate);
  if (!strcmp(op, "Case") || !strcmp(op, "StatelessCase")) return lower_case(l, n, gate);
  if (!strcmp(op, "For")) return lower_for(l, n, gate);
  bool remote = !strcmp(op, "RemoteCall");
  if (remote || !strcmp(op, "PartitionedCall") || !strcmp(op, "StatefulPartitionedCall")) {
    Pb__NameAttrList *attrs;
    int32_t f = function_attr(l, n, "f", &attrs);
    return f < 0 ? l->err->code : lower_call(l, n, f, (const Pb__AttrEntry *const *)attrs->attr, attrs->n_attr, gate, remote);
  }
  int32_t f = l->nfunctions ? find_function(l, op) : -1;
  if (f >= 0) return lower_call(l, n, f, (const Pb__AttrEntry *const *)n->attr, n->n_attr, gate, 0);
  if (l->n == l->cap) l->node = dfi_xrealloc(l->node, sizeof *l->node * (l->cap = l->cap * 2 + 256));
  l->node[l->n++] = n;
  return DF_OK;
}

/* ---- recursion ---------------------------------------------------------------------------------------------- */

/* Does n call a function? Its number, or -1; `which` counts through the functions that one node may name. */
static int32_t callee(dfi_lower *l, const Pb__NodeDef *n, size_t which) {
  static const char *const keys[] = { "f", "then_branch", "else_branch", "cond", "body" };
  if (which == 0) return find_function(l, n->op);
  if (which <= 5) {
    const Pb__AttrValue *a = dfi_attr_find(n, keys[which - 1]);
    Pb__NameAttrList *f = a && a->value_case == PB__ATTR_VALUE__VALUE_FUNC ? dfi_graphdef_function(l->d, a->func, l->err) : NULL;
    return f ? find_function(l, f->name) : -1;
  }
  const Pb__AttrValue *a = dfi_attr_find(n, "branches");
  if (!a || a->value_case != PB__ATTR_VALUE__VALUE_LIST || !a->list || which - 6 >= a->list->n_func) return -2;
  Pb__NameAttrList *f = dfi_graphdef_function(l->d, a->list->func[which - 6], l->err);
  return f ? find_function(l, f->name) : -1;
}

/* Which functions come to call themselves. */
static void find_recursion(dfi_lower *l) {
  const size_t n = l->nfunctions;
  int32_t *first = dfi_xcalloc(n + 1, sizeof *first), *to = NULL, *stack = dfi_xmalloc(sizeof *stack * (n + 1));
  int32_t edges = 0, cap = 0;
  for (size_t i = 0; i < n; i++) {
    const Pb__FunctionDef *f = l->function[i].def;
    first[i] = edges;
    for (size_t k = 0; k < f->n_node_def; k++)
      for (size_t which = 0, c; (int32_t)(c = (size_t)callee(l, f->node_def[k], which)) != -2; which++) {
        if ((int32_t)c < 0) continue;
        if (edges == cap) to = dfi_xrealloc(to, sizeof *to * (size_t)(cap = cap * 2 + 64));
        to[edges++] = (int32_t)c;
      }
  }
  first[n] = edges;
  for (size_t i = 0; i < n; i++) {
    for (size_t k = 0; k < n; k++) l->function[k].state = 0;
    int32_t depth = 0;
    stack[depth++] = (int32_t)i;
    while (depth && !l->function[i].recursive) {
      int32_t at = stack[--depth];
      for (int32_t e = first[at]; e < first[at + 1]; e++) {
        if (to[e] == (int32_t)i) l->function[i].recursive = true;
        if (!l->function[to[e]].state) { l->function[to[e]].state = 1; stack[depth++] = to[e]; }
      }
    }
  }
  free(first); free(to); free(stack);
}

/* The body of a function that calls itself: FunctionArg nodes, its nodes, FunctionReturn. */
static int32_t emit_function(dfi_lower *l, int32_t function) {
  const Pb__FunctionDef *f = l->function[function].def;
  const Pb__OpDef *s = f->signature;
  l->function[function].emitted = true;
  texts in = texts_new(l, s->n_input_arg), ret, control;
  Pb__NodeDef *begin = dfi_lower_node(l, "FunctionBegin", dfi_lower_text(l, "%s/begin", s->name));
  dfi_lower_string(l, begin, "function", s->name);
  const char *gate = dfi_lower_text(l, "^%s", begin->name);
  for (size_t i = 0; i < s->n_input_arg; i++) {
    const Pb__OpDef__ArgDef *a = s->input_arg[i];
    if (a->number_attr[0] || a->type_list_attr[0] || a->type_attr[0])
      return fail(l, "function `%s` calls itself, and its argument `%s` has no fixed type: that cannot be run", s->name, a->name);
    Pb__NodeDef *arg = dfi_lower_node(l, "FunctionArg", dfi_lower_text(l, "%s/argument_%zu", s->name, i));
    dfi_lower_string(l, arg, "function", s->name);
    dfi_lower_int(l, arg, "index", (int64_t)i);
    dfi_lower_type(l, arg, "dtype", (int32_t)a->type);
    in.at[i] = arg->name;
  }
  int32_t code = put_body(l, function, NULL, 0, dfi_lower_text(l, "%s/body", s->name), &in, gate, &ret, &control);
  if (code) return code;
  Pb__NodeDef *end = dfi_lower_node(l, "FunctionReturn", dfi_lower_text(l, "%s/return", s->name));
  add_inputs(l, end, &ret);
  add_inputs(l, end, &control);
  if (!end->n_input) dfi_lower_input(l, end, gate);
  dfi_lower_string(l, end, "function", s->name);
  return DF_OK;
}

/* ---- results ------------------------------------------------------------------------------------------------ */

/* Who reads a result of a call reads what the call's node passes on. */
static void read_directly(dfi_lower *l) {
  uint32_t mask = 15;
  while (mask < 2 * l->nresults) mask = mask * 2 + 1;
  named *table = dfi_xcalloc((size_t)mask + 1, sizeof *table);
  for (size_t i = 0; i < l->nresults; i++) {
    uint32_t h = hash_name(l->results[i]->name, strlen(l->results[i]->name)) & mask;
    while (table[h].node) h = (h + 1) & mask;
    table[h].node = l->results[i];
  }
  const body calls = { .table = table, .mask = mask };
  for (size_t i = 0; i < l->n; i++)
    for (size_t k = 0; k < l->node[i]->n_input; k++)
      for (;;) {
        const char *input = l->node[i]->input[k], *colon = strrchr(input, ':');
        if (*input == '^') break;
        const Pb__NodeDef *call = body_node(&calls, input, colon ? (size_t)(colon - input) : strlen(input));
        const size_t index = colon ? (size_t)atoi(colon + 1) : 0;
        if (!call || call == l->node[i] || index >= call->n_input || call->input[index][0] == '^' || is_loop_constant(call->input[index])) break;
        l->node[i]->input[k] = call->input[index];
      }
  free(table);
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

int32_t dfi_functions_lower(dfi_graphdef *d, df_error *err) {
  Pb__GraphDef *g = d->graph;
  dfi_lower l = { .d = d, .err = err };
  if (!g->library || !g->library->n_function) return DF_OK;
  l.nfunctions = g->library->n_function;
  l.function = dfi_xcalloc(l.nfunctions, sizeof *l.function);
  int32_t code = DF_OK;
  for (size_t i = 0; i < l.nfunctions && !code; i++) {
    l.function[i].def = g->library->function[i];
    if (!l.function[i].def->signature) { code = fail(&l, "function %zu of the library has no signature", i); break; }
    l.function[i].name = l.function[i].def->signature->name;
  }
  if (!code) find_recursion(&l);
  for (size_t i = 0; i < g->n_node && !code; i++) code = lower_node(&l, g->node[i], NULL);
  bool more = !code;
  while (more && !code) {                        /* a function may call another that is not there yet */
    more = false;
    for (size_t i = 0; i < l.n && !code; i++) {
      if (strcmp(l.node[i]->op, "FunctionCall")) continue;
      const Pb__AttrValue *name = dfi_attr_find(l.node[i], "function");
      int32_t f = find_function(&l, (const char *)name->s.data);
      if (l.function[f].emitted) continue;
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
  free(l.node); free(l.function); free(l.results);
  return code;
}
