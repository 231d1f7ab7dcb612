/* export_context.c: conds and loops as TensorFlow 1's control-flow contexts, which its gradients need, in a
 * MetaGraphDef.
 *
 * Predicate and body of a loop are one context there; each branch of a cond is one. Contexts at the top are written to
 * the collections `while_context` and `cond_context`, those inside of others as their nested_contexts. An Exit lies in
 * its loop's context, and its value is one of the context around it.
 */
#include "tensorflow/export.h"
#include "graph/flow.h"
#include <stdio.h>


/* TensorFlow's context of ours: a loop's body stands for its predicate too. */
static df_context *context_of(df_context *c) { return c->kind == DFI_PRED ? c->loop->body : c; }

/* The context that NodeDef i belongs to in TensorFlow: NULL at the top. */
static df_context *context_at(const dfi_export *e, size_t i) {
  const df_node *n = e->place[i].node;
  if (!strcmp(e->l.node[i]->op, "Exit") && dfi_flow_is(n->in[0].node, FLOW_SWITCH) &&
      n->in[0].node->context->kind == DFI_BODY)
    return n->in[0].node->context;
  return e->place[i].context->kind == DFI_TOP ? NULL : context_of(e->place[i].context);
}

/* Contexts in use, each with its nodes. */
typedef struct entry { df_context *context; size_t *node; size_t n, cap; } entry;
typedef struct book { dfi_export *e; entry *entry; int32_t n, cap; } book;

static entry *entry_of(book *b, df_context *c) {
  for (int32_t i = b->n - 1; i >= 0; i--) if (b->entry[i].context == c) return &b->entry[i];
  DFI_GROW(b->entry, b->n, b->cap);
  b->entry[b->n] = (entry){ .context = c };
  return &b->entry[b->n++];
}

static void enter(book *b, size_t i, df_context *c) {
  for (df_context *up = context_of(c)->parent; up->kind != DFI_TOP; up = up->parent) entry_of(b, context_of(up));
  entry *at = entry_of(b, c);
  DFI_GROW(at->node, at->n, at->cap);
  at->node[at->n++] = i;
}

static void add_value(dfi_export *e, Pb__ValuesDef *v, size_t *cap, const char *name) {
  if (v->n_values == *cap) {
    char **wider = dfi_export_take(e, sizeof *wider * (*cap = *cap * 2 + 16));
    if (v->n_values) memcpy(wider, v->values, sizeof *wider * v->n_values);
    v->values = wider;
  }
  v->values[v->n_values++] = (char *)(uintptr_t)name;
}

/* `x` as `x:0`. */
static const char *tensor_name(dfi_export *e, const char *input) {
  return strchr(input, ':') ? input : dfi_lower_text(&e->l, "%s:0", input);
}

static void add_external(dfi_export *e, Pb__ValuesDef *v, size_t *cap, size_t *values_cap, const char *key,
                         const char *value) {
  for (size_t i = 0; i < v->n_external_values; i++) if (!strcmp(v->external_values[i]->key, key)) return;
  if (v->n_external_values == *cap) {
    Pb__ValuesDef__Entry **wider = dfi_export_take(e, sizeof *wider * (*cap = *cap * 2 + 16));
    if (v->n_external_values) memcpy(wider, v->external_values, sizeof *wider * v->n_external_values);
    v->external_values = wider;
  }
  Pb__ValuesDef__Entry *x = v->external_values[v->n_external_values++] = dfi_export_take(e, sizeof *x);
  pb__values_def__entry__init(x);
  x->key = (char *)(uintptr_t)key;
  x->value = (char *)(uintptr_t)value;
  add_value(e, v, values_cap, key);
}

static bool is_constant(const Pb__NodeDef *n) {
  const Pb__AttrValue *a = dfi_attr_find(n, "is_constant");
  return a && a->b;
}

/* Does the Switch choose between the branches of this cond, and not of one inside? */
static bool chooses(const df_node *n, const df_context *c) {
  return n->in[1].node == c->cond->pred.node && n->in[1].index == c->cond->pred.index;
}

/* The values of a context, and those that came in from outside. */
static Pb__ValuesDef *values_of(book *b, entry *at) {
  dfi_export *e = b->e;
  Pb__ValuesDef *v = dfi_export_take(e, sizeof *v);
  pb__values_def__init(v);
  size_t cap = 0, external_cap = 0;
  bool branch = at->context->kind == DFI_BRANCH;
  for (size_t k = 0; k < at->n; k++) {
    const Pb__NodeDef *n = e->l.node[at->node[k]];
    const dfi_export_place *p = &e->place[at->node[k]];
    for (int32_t i = 0; i < p->outputs || i == 0; i++)
      add_value(e, v, &cap, dfi_lower_text(&e->l, "%s:%d", n->name, i));
    if (!branch && !strcmp(n->op, "Enter") && is_constant(n))
      add_external(e, v, &external_cap, &cap, tensor_name(e, n->input[0]), tensor_name(e, n->name));
    if (branch && !strcmp(n->op, "Switch") && p->context == at->context && dfi_flow_is(p->node, FLOW_SWITCH) &&
        chooses(p->node, at->context))
      add_external(e, v, &external_cap, &cap, tensor_name(e, n->input[0]),
                   dfi_lower_text(&e->l, "%s:%d", n->name, at->context->side));
  }
  if (branch) {
    const char *pred = tensor_name(e, dfi_export_ref(e, at->context->cond->pred));
    add_external(e, v, &external_cap, &cap, pred, pred);
  }
  for (int32_t i = 0; i < b->n; i++) {                  /* the Exits of loops inside */
    const entry *in = &b->entry[i];
    if (in->context->kind != DFI_BODY || context_of(in->context->parent) != at->context) continue;
    for (size_t k = 0; k < in->n; k++)
      if (!strcmp(e->l.node[in->node[k]]->op, "Exit"))
        add_value(e, v, &cap, tensor_name(e, e->l.node[in->node[k]]->name));
  }
  return v;
}

static Pb__ControlFlowContextDef *control_flow_context(book *b, entry *at);

static Pb__ControlFlowContextDef **nested(book *b, df_context *c, size_t *n) {
  Pb__ControlFlowContextDef **all = dfi_export_take(b->e, sizeof *all * (size_t)(b->n + 1));
  for (int32_t i = 0; i < b->n; i++)
    if (context_of(b->entry[i].context->parent) == c) all[(*n)++] = control_flow_context(b, &b->entry[i]);
  return all;
}

static Pb__CondContextDef *cond_context(book *b, entry *at) {
  dfi_export *e = b->e;
  const df_context *c = at->context;
  Pb__CondContextDef *d = dfi_export_take(e, sizeof *d);
  pb__cond_context_def__init(d);
  d->context_name = dfi_lower_text(&e->l, "%s/%s", c->cond->name, c->side ? "cond_text" : "cond_text_1");
  d->pred_name = (char *)(uintptr_t)tensor_name(e, dfi_export_ref(e, c->cond->pred));
  d->pivot_name = dfi_lower_text(&e->l, "%s:0", e->name[c->pivot->id]);
  d->branch = c->side;
  d->values_def = values_of(b, at);
  d->nested_contexts = nested(b, at->context, &d->n_nested_contexts);
  return d;
}

static char **names_of(book *b, const entry *at, const char *op, size_t *n) {
  dfi_export *e = b->e;
  char **all = dfi_export_take(e, sizeof *all * (at->n + 1));
  for (size_t k = 0; k < at->n; k++) {
    const Pb__NodeDef *d = e->l.node[at->node[k]];
    if (!strcmp(d->op, op) && !(!strcmp(op, "Enter") && is_constant(d)))
      all[(*n)++] = (char *)(uintptr_t)tensor_name(e, d->name);
  }
  return all;
}

/* tf.gradients names its loops `gradients/while` without looking at the frames of an imported graph, so that those of
 * df.gradients have another name there. */
static char *frame_name(dfi_export *e, const char *name, size_t length) {
  const bool gradient = length >= 9 && !memcmp(name, "gradients", 9);
  return dfi_lower_text(&e->l, "%s%.*s", gradient ? "dflow/" : "", (int)length, name);
}

static void name_frames(dfi_export *e) {
  for (size_t i = 0; i < e->l.n; i++) {
    const Pb__NodeDef *n = e->l.node[i];
    for (size_t k = 0; k < n->n_attr && (!strcmp(n->op, "Enter") || !strcmp(n->op, "RefEnter")); k++) {
      ProtobufCBinaryData *text = &n->attr[k]->value->s;
      if (strcmp(n->attr[k]->key, "frame_name")) continue;
      text->data = (uint8_t *)frame_name(e, (const char *)text->data, text->len);
      text->len = strlen((const char *)text->data);
    }
  }
}

static Pb__WhileContextDef *while_context(book *b, entry *at) {
  dfi_export *e = b->e;
  const df_loop *l = at->context->loop;
  Pb__WhileContextDef *d = dfi_export_take(e, sizeof *d);
  pb__while_context_def__init(d);
  d->context_name = frame_name(e, l->name, strlen(l->name));
  d->parallel_iterations = (int32_t)(l->parallel_iterations < INT32_MAX ? l->parallel_iterations : INT32_MAX);
  d->back_prop = l->back_prop;
  d->swap_memory = l->save && !strcmp(l->save, "swap");
  d->pivot_name = dfi_lower_text(&e->l, "%s:0", e->name[l->loop_cond->id]);
  d->pivot_for_pred_name = dfi_lower_text(&e->l, "%s:0", e->name[l->pred->pivot->id]);
  d->pivot_for_body_name = dfi_lower_text(&e->l, "%s:0", e->name[l->body->pivot->id]);
  d->loop_exit_names = names_of(b, at, "Exit", &d->n_loop_exit_names);
  d->loop_enter_names = names_of(b, at, "Enter", &d->n_loop_enter_names);
  d->values_def = values_of(b, at);
  d->nested_contexts = nested(b, at->context, &d->n_nested_contexts);
  return d;
}

static Pb__ControlFlowContextDef *control_flow_context(book *b, entry *at) {
  Pb__ControlFlowContextDef *d = dfi_export_take(b->e, sizeof *d);
  pb__control_flow_context_def__init(d);
  if (at->context->kind == DFI_BRANCH) {
    d->ctxt_case = PB__CONTROL_FLOW_CONTEXT_DEF__CTXT_COND_CTXT;
    d->cond_ctxt = cond_context(b, at);
  } else {
    d->ctxt_case = PB__CONTROL_FLOW_CONTEXT_DEF__CTXT_WHILE_CTXT;
    d->while_ctxt = while_context(b, at);
  }
  return d;
}

/* ---- collections ---------------------------------------------------------------------------------------------- */

/* A collection of messages, each as its bytes. */
static Pb__MetaGraphDef__CollectionEntry *collection(dfi_export *e, const char *key) {
  Pb__MetaGraphDef__CollectionEntry *c = dfi_export_take(e, sizeof *c);
  pb__meta_graph_def__collection_entry__init(c);
  c->key = (char *)(uintptr_t)key;
  c->value = dfi_export_take(e, sizeof *c->value);
  pb__collection_def__init(c->value);
  c->value->kind_case = PB__COLLECTION_DEF__KIND_BYTES_LIST;
  c->value->bytes_list = dfi_export_take(e, sizeof *c->value->bytes_list);
  pb__collection_def__bytes_list__init(c->value->bytes_list);
  return c;
}

static void collect(dfi_export *e, Pb__MetaGraphDef__CollectionEntry *c, size_t room, const ProtobufCMessage *m) {
  Pb__CollectionDef__BytesList *list = c->value->bytes_list;
  if (!list->value) list->value = dfi_export_take(e, sizeof *list->value * (room + 1));
  ProtobufCBinaryData *d = &list->value[list->n_value++];
  d->len = protobuf_c_message_get_packed_size(m);
  d->data = dfi_export_take(e, d->len + 1);
  protobuf_c_message_pack(m, d->data);
}

Pb__MetaGraphDef *dfi_export_meta(dfi_export *e, Pb__GraphDef *graph) {
  book b = { .e = e };
  name_frames(e);
  for (size_t i = 0; i < e->l.n; i++) {
    df_context *context = context_at(e, i);
    if (context) enter(&b, i, context);
  }
  Pb__MetaGraphDef__CollectionEntry *loops = collection(e, "while_context"), *conds = collection(e, "cond_context");
  for (int32_t i = 0; i < b.n; i++) {
    entry *at = &b.entry[i];
    if (at->context->parent->kind != DFI_TOP) continue;
    if (at->context->kind == DFI_BRANCH) collect(e, conds, (size_t)b.n, &cond_context(&b, at)->base);
    else collect(e, loops, (size_t)b.n, &while_context(&b, at)->base);
  }
  for (int32_t i = 0; i < b.n; i++) dfi_free(b.entry[i].node);
  dfi_free(b.entry);
  Pb__MetaGraphDef__CollectionEntry *all = collection(e, "variables"),
                                    *trainable = collection(e, "trainable_variables");
  for (int32_t i = 0; i < e->nvariable; i++) {
    const Pb__VariableDef *d = dfi_export_variable_def(e, &e->variable[i]);
    if (d) collect(e, all, (size_t)e->nvariable, &d->base);
    if (d && d->trainable) collect(e, trainable, (size_t)e->nvariable, &d->base);
  }
  Pb__MetaGraphDef *meta = dfi_export_take(e, sizeof *meta);
  pb__meta_graph_def__init(meta);
  meta->meta_info_def = dfi_export_take(e, sizeof *meta->meta_info_def);
  pb__meta_graph_def__meta_info_def__init(meta->meta_info_def);
  meta->meta_info_def->tensorflow_version = (char *)(uintptr_t)"1.15.0";
  meta->graph_def = graph;
  Pb__MetaGraphDef__CollectionEntry *const entry[] = { loops, conds, all, trainable };
  enum { ENTRIES = sizeof entry / sizeof *entry };
  meta->collection_def = dfi_export_take(e, sizeof *meta->collection_def * ENTRIES);
  for (int32_t i = 0; i < ENTRIES; i++)
    if (entry[i]->value->bytes_list->n_value) meta->collection_def[meta->n_collection_def++] = entry[i];
  return meta;
}
