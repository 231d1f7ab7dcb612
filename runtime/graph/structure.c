/* structure.c: the control flow of a graph as it was built, for drawings. Nothing here changes a graph. */
#include "graph/flow.h"
#include <stdarg.h>
#include <stdio.h>

/* Numbers for a caller's array: counts them all, writes those that fit. */
typedef struct list { int32_t n, room, *out; } list;

static void add(list *l, int32_t v) {
  if (l->n < l->room) l->out[l->n] = v;
  l->n++;
}

static void add_output(list *l, df_output o) {
  add(l, o.node ? o.node->id : -1);
  add(l, o.index);
}

static void add_node(list *l, const df_node *n) { add(l, n ? n->id : -1); }

static df_flow kind_of(const df_node *n) { return dfi_op_info_at(n->op)->op->flow; }

/* The cond that a Merge ends, the loop that an Exit leaves; NULL for other nodes. */
static df_cond *cond_of(const df_node *n) {
  if (kind_of(n) != DF_MERGE || n->unstructured || n->nin < 1 || !n->in[0].node) return NULL;
  const df_context *c = n->in[0].node->context;
  return c->kind == DFI_BRANCH && c->parent == n->context ? c->cond : NULL;
}

static df_loop *loop_of(const df_node *n) {
  if (kind_of(n) != DF_EXIT || n->unstructured || n->nin < 1 || !n->in[0].node) return NULL;
  const df_context *c = n->in[0].node->context;
  return c->kind == DFI_BODY || c->kind == DFI_PRED ? c->loop : NULL;
}

int32_t df_flow_describe(df_graph *g, int32_t node, int32_t capacity, int32_t *out) {
  list l = { 0, capacity, out };
  if (node < 0 || node >= g->n) return 0;
  const df_node *n = g->node[node];
  const df_cond *c = cond_of(n);
  const df_loop *w = c ? NULL : loop_of(n);
  if (c) {
    add(&l, 1);
    add(&l, c->id);
    add_output(&l, c->pred);
    add(&l, c->n);
    for (int32_t i = 0; i < c->n; i++) {
      add_node(&l, c->merge[i]);
      add_output(&l, c->result[1][i]);
      add_output(&l, c->result[0][i]);
    }
  } else if (w) {
    add(&l, 2);
    add(&l, w->id);
    add_output(&l, w->loop_cond ? w->loop_cond->in[0] : DFI_NONE);
    add(&l, w->n);
    for (int32_t i = 0; i < w->n; i++) {
      const dfi_loop_var *v = &w->var[i];
      add_node(&l, v->exit);
      add_node(&l, v->merge);
      add_node(&l, v->swtch);
      add_output(&l, v->init);
      add_output(&l, v->result);
    }
  }
  return l.n;
}

const char *df_flow_name(df_graph *g, int32_t node) {
  if (node < 0 || node >= g->n) return "";
  const df_cond *c = cond_of(g->node[node]);
  const df_loop *w = c ? NULL : loop_of(g->node[node]);
  const char *name = c ? c->name : w ? w->name : NULL;
  return name ? name : "";
}

bool df_node_capture(df_graph *g, int32_t node, int32_t *from_node, int32_t *from_index) {
  if (node < 0 || node >= g->n) return false;
  const df_node *n = g->node[node];
  df_flow flow = kind_of(n);
  bool is = (flow == DF_SWITCH && n->context->kind == DFI_BRANCH && n->nin == 2 &&
             dfi_same(n->in[1], n->context->cond->pred)) ||
            (flow == DF_ENTER && n->attrs[DFI_ENTER_IS_CONSTANT].i);
  if (!is || !n->in[0].node) return false;
  *from_node = n->in[0].node->id;
  *from_index = n->in[0].index;
  return true;
}

/* ---- all conds and loops, and what each node is in them -------------------------------------------- */

static int32_t context_id(const df_context *c) { return c ? c->id : -1; }

static df_flow_info cond_info(const df_cond *c) {
  return (df_flow_info){ .kind = 1,
                         .number = c->id,
                         .parent = context_id(c->parent),
                         .inside = { context_id(c->branch[0]), context_id(c->branch[1]) },
                         .pred_node = c->pred.node ? c->pred.node->id : -1,
                         .pred_index = c->pred.index,
                         .gradient_of = c->gradient_of ? c->gradient_of->id : -1,
                         .repeats = -1,
                         .pass = c->branch[1] && c->branch[1]->pivot ? c->branch[1]->pivot->pass : 0,
                         .name = c->name,
                         .where = c->where,
                         .save = "" };
}

static df_flow_info loop_info(const df_loop *l) {
  df_output pred = l->loop_cond ? l->loop_cond->in[0] : DFI_NONE;
  return (df_flow_info){ .kind = 2,
                         .number = l->id,
                         .parent = context_id(l->parent),
                         .inside = { context_id(l->pred), context_id(l->body) },
                         .pred_node = pred.node ? pred.node->id : -1,
                         .pred_index = pred.index,
                         .gradient_of = l->gradient_of ? l->gradient_of->id : -1,
                         .repeats = -1,
                         .pass = l->loop_cond ? l->loop_cond->pass : 0,
                         .parallel_iterations = l->parallel_iterations,
                         .name = l->name,
                         .where = l->where,
                         .save = l->save };
}

int32_t df_flows(df_graph *g, int32_t capacity, df_flow_info *out) {
  const flow *f = dfi_flow_of(g);
  int32_t n = 0;
  for (int32_t i = 0; i < f->ncond; i++, n++) if (n < capacity) out[n] = cond_info(f->cond[i]);
  for (int32_t i = 0; i < f->nloop; i++, n++) if (n < capacity) out[n] = loop_info(f->loop[i]);
  for (int32_t i = 0; i < f->nloop; i++)
    if (f->loop[i]->replay && f->ncond + f->loop[i]->replay->id < capacity)
      out[f->ncond + f->loop[i]->replay->id].repeats = f->loop[i]->id;
  return n;
}

static void play(int32_t *out, const df_node *n, int32_t role, int32_t number, int32_t which) {
  if (!n || out[3 * n->id]) return;
  out[3 * n->id] = role;
  out[3 * n->id + 1] = number;
  out[3 * n->id + 2] = which;
}

static void play_captures(int32_t *out, const struct dfi_map *captures, int32_t role, int32_t number) {
  for (int32_t i = 0; captures && i < dfi_map_count(captures); i++) {
    df_output outer, in;
    dfi_map_at(captures, i, &outer, &in);
    if (!in.node) continue;
    df_flow kind = kind_of(in.node);
    if (kind == DF_SWITCH || kind == DF_ENTER) play(out, in.node, role, number, i);
  }
}

/* A pivot that passes something on; where an imported graph has another node there, that is a node like others. */
static void play_pivot(int32_t *out, const df_node *n, int32_t role, int32_t number) {
  if (n && dfi_flow_is(n, FLOW_IDENTITY)) play(out, n, role, number, 0);
}

void df_flow_roles(df_graph *g, int32_t *out) {
  const flow *f = dfi_flow_of(g);
  memset(out, 0, sizeof *out * 3 * (size_t)g->n);
  for (int32_t i = 0; i < f->nloop; i++) {
    const df_loop *l = f->loop[i];
    for (int32_t k = 0; k < l->n; k++) {
      const dfi_loop_var *v = &l->var[k];
      play(out, v->enter, DF_ROLE_ENTER, i, k);
      play(out, v->merge, DF_ROLE_VARIABLE, i, k);
      play(out, v->swtch, DF_ROLE_SWITCH, i, k);
      play(out, v->next, DF_ROLE_NEXT, i, k);
      play(out, v->exit, DF_ROLE_EXIT, i, k);
    }
    play_captures(out, l->captures, DF_ROLE_CAPTURE, i);
    play(out, l->loop_cond, DF_ROLE_LOOP_COND, i, 0);
    play_pivot(out, l->body ? l->body->pivot : NULL, DF_ROLE_PIVOT, i);
  }
  for (int32_t i = 0; i < f->ncond; i++) {
    const df_cond *c = f->cond[i];
    for (int32_t k = 0; c->merge && k < c->n; k++) play(out, c->merge[k], DF_ROLE_RESULT, i, k);
    play(out, c->done, DF_ROLE_DONE, i, 0);
    for (int32_t side = 0; side < 2; side++) {
      const df_context *b = c->branch[side];
      if (!b) continue;
      play_captures(out, b->captures, DF_ROLE_CAPTURE, i);
      play_pivot(out, b->pivot, DF_ROLE_PIVOT, i);
      const df_node *split = b->pivot && b->pivot->nin == 1 ? b->pivot->in[0].node : NULL;
      if (split && kind_of(split) == DF_SWITCH && dfi_same(split->in[0], split->in[1]))
        play(out, split, DF_ROLE_PIVOT, i, 0);
      if (c->done && side < c->done->nin) play_pivot(out, c->done->in[side].node, DF_ROLE_PIVOT, i);
    }
  }
}

const char *df_loop_variable(df_graph *g, int32_t loop, int32_t variable) {
  const flow *f = dfi_flow_of(g);
  const df_loop *l = loop >= 0 && loop < f->nloop ? f->loop[loop] : NULL;
  return l && variable >= 0 && variable < l->n && l->var[variable].name ? l->var[variable].name : "";
}

int32_t df_node_controls(df_graph *g, int32_t node, int32_t capacity, int32_t *out) {
  if (node < 0 || node >= g->n) return 0;
  const df_node *n = g->node[node];
  for (int32_t i = 0; i < n->ncontrol && i < capacity; i++) out[i] = n->control[i]->id;
  return n->ncontrol;
}

const char *df_node_device(df_graph *g, int32_t node) {
  return node >= 0 && node < g->n && g->node[node]->device ? g->node[node]->device : "";
}
int32_t df_node_pass(df_graph *g, int32_t node) { return node >= 0 && node < g->n ? g->node[node]->pass : 0; }
int32_t df_node_gradient_of(df_graph *g, int32_t node) {
  return node >= 0 && node < g->n ? g->node[node]->gradient_of - 1 : -1;
}

/* ---- attributes -------------------------------------------------------------------------------- */

typedef struct text { char *p; size_t n, room; } text;

static void __attribute__((format(printf, 2, 3))) say(text *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(t->p + t->n, t->room - t->n, format, args);
  va_end(args);
  if (n > 0) t->n = t->n + (size_t)n < t->room ? t->n + (size_t)n : t->room - 1;
}

static bool same_ints(const df_attr *a, const df_attr *b) {
  return a->i == b->i && (a->i <= 0 || memcmp(a->ints, b->ints, (size_t)a->i * sizeof *a->ints) == 0);
}

static bool is_default(char type, const df_attr *a, const df_attr *d) {
  switch (type) {
    case 'f': return a->f == d->f;
    case 's': return a->i == d->i && (a->i == 0 || memcmp(a->s, d->s, (size_t)a->i) == 0);
    case 't': return a->tensor == d->tensor;
    case 'h': case 'l': case 'y': return same_ints(a, d);
    case 'p': return a->i == d->i;
    default:  return a->i == d->i;
  }
}

static void say_ints(text *t, int64_t n, const int64_t *v, bool shape) {
  say(t, "[");
  for (int64_t i = 0; i < n; i++) {
    if (i) say(t, ",");
    if (shape && v[i] < 0) say(t, "?");
    else say(t, "%lld", (long long)v[i]);
  }
  say(t, "]");
}

int32_t df_node_attrs_text(df_graph *g, int32_t node, int32_t capacity, char *out) {
  text t = { out, 0, (size_t)(capacity > 0 ? capacity : 0) };
  if (capacity <= 0) return 0;
  out[0] = '\0';
  if (node < 0 || node >= g->n) return 0;
  const df_node *n = g->node[node];
  const dfi_op_info *info = dfi_op_info_at(n->op);
  for (int32_t i = 0; i < info->nattr; i++) {
    const dfi_attr_def *def = &info->attr[i];
    const df_attr *a = &n->attrs[i];
    if (!def->required && is_default(def->type, a, &def->value)) continue;
    if (def->type == 't' || def->type == 'p') continue;      /* a constant's value is shown another way */
    say(&t, "%s%s=", t.n ? " " : "", def->name);
    switch (def->type) {
      case 'i': say(&t, "%lld", (long long)a->i); break;
      case 'f': say(&t, "%g", a->f); break;
      case 'b': say(&t, "%s", a->i ? "true" : "false"); break;
      case 'd': say(&t, "%s", df_dtype_name((int32_t)a->i)); break;
      case 's': say(&t, "'%.*s'", (int)(a->i < 40 ? a->i : 40), a->s ? a->s : ""); break;
      case 'h': if (a->i < 0) say(&t, "?"); else say_ints(&t, a->i, a->ints, true); break;
      case 'y':
        say(&t, "[");
        for (int64_t k = 0; k < a->i; k++) say(&t, "%s%s", k ? "," : "", df_dtype_name((int32_t)a->ints[k]));
        say(&t, "]");
        break;
      default: say_ints(&t, a->i, a->ints, false);
    }
  }
  return (int32_t)t.n;
}

int32_t df_node_attr(df_graph *g, int32_t node, const char *name, df_attr_value *out) {
  *out = (df_attr_value){ 0 };
  if (node < 0 || node >= g->n) return 0;
  const df_node *n = g->node[node];
  const dfi_op_info *info = dfi_op_info_at(n->op);
  int32_t i = dfi_op_attr_index(info, name);
  if (i < 0) return 0;
  const df_attr *a = &n->attrs[i];
  char type = info->attr[i].type;
  switch (type) {
    case 'i': case 'b': case 'd': out->number = (double)a->i; break;
    case 'f': out->number = a->f; break;
    case 's': out->bytes = a->s; out->n = a->i; break;
    case 'h': case 'l': case 'y': out->ints = a->ints; out->n = a->i; break;
    default: return 0;
  }
  return type;
}
