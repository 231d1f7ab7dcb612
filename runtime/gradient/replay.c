/* replay.c: a part of a loop's body once more.
 *
 * The copy of a node is the same op on the copies of its inputs, in the copy of its context. Loops and conds are copied
 * with what is asked for of them: a loop with those of its variables that matter, a cond with those of its results.
 * What the graph knows of a loop or cond (its variables, results, captures, in their order) the copy knows as well, so
 * it is differentiated, and added to, like one that was built. Control edges are dropped but for those on pivots: they
 * order effects, and a copy has none that its maker did not choose to copy.
 *
 * Nothing recurses along a chain of nodes. What comes back to a loop's Merge is copied by dfi_replay_finish, so a value
 * never waits for itself; unrolled_value may ask for copies of its own meanwhile.
 */
#include "gradient/replay.h"

#define GROW(list, n, cap) \
  do { if ((n) == (cap)) { (cap) = (cap) ? 2 * (cap) : 8; \
    (list) = dfi_xrealloc((list), sizeof *(list) * (size_t)(cap)); } } while (0)

static df_flow kind_of(const df_node *n) { return dfi_op_info_at(n->op)->op->flow; }
static df_output first_of(df_node *n) { return (df_output){ n, 0 }; }
static bool is_loop_merge(const df_node *n) {
  return dfi_flow_is(n, FLOW_MERGE) && dfi_flow_is(n->in[0].node, FLOW_ENTER);
}

df_output dfi_replay_find(const dfi_replay *c, df_output v) { return dfi_map_get(c->value, v); }

static void found(dfi_replay *c, df_output v, df_output copy) {
  if (!c->value) c->value = dfi_map_new();
  dfi_map_put(c->value, v, copy);
}

/* ---- contexts ---------------------------------------------------------------------------------- */

static df_context *context_find(const dfi_replay *c, const df_context *from) {
  if (from == c->from) return c->to;
  df_output at = dfi_map_get(c->place, first_of(from->pivot));
  return at.node ? c->context[at.index].to : NULL;
}

static df_context *context_new(dfi_replay *c, df_context *from, df_context *parent) {
  df_context *to = dfi_flow_context(c->graph, from->kind, parent);
  if (!c->place) c->place = dfi_map_new();
  dfi_map_put(c->place, first_of(from->pivot), (df_output){ from->pivot, c->ncontext });
  GROW(c->context, c->ncontext, c->context_cap);
  c->context[c->ncontext++] = (dfi_replayed_context){ from, to, c->nloop - 1 };
  return to;
}

static bool copy_pivot(dfi_replay *c, df_context *from, df_context *to) {
  df_output pivot = dfi_replay_value(c, first_of(from->pivot));
  to->pivot = pivot.node;
  return pivot.node != NULL;
}

static df_context *copy_cond(dfi_replay *c, df_cond *k, df_context *parent, int32_t side) {
  df_output pred = dfi_replay_value(c, k->pred);
  if (!pred.node) return NULL;
  const char *slash = strrchr(k->name, '/');
  df_cond *to = dfi_flow_cond_new(c->graph, dfi_unique_name(c->graph, slash && slash[1] ? slash + 1 : k->name),
                                  k->where);
  to->parent = parent;
  to->pred = pred;
  GROW(c->cond, c->ncond, c->cond_cap);
  c->cond[c->ncond++] = (dfi_replayed_cond){ .from = k, .to = to };
  for (int32_t s = 0; s < 2; s++) {
    df_context *b = to->branch[s] = context_new(c, k->branch[s], parent);
    b->cond = to;
    b->side = s;
  }
  for (int32_t s = 0; s < 2; s++) if (!copy_pivot(c, k->branch[s], to->branch[s])) return NULL;
  return to->branch[side];
}

static df_context *copy_loop(dfi_replay *c, df_loop *l, df_context *parent, df_context_kind kind) {
  const char *slash = strrchr(l->name, '/');
  df_loop *to = dfi_flow_loop_new(c->graph, dfi_unique_name(c->graph, slash && slash[1] ? slash + 1 : l->name),
                                  l->where);
  to->parent = parent;
  to->parallel_iterations = l->parallel_iterations;
  to->maximum_iterations = l->maximum_iterations;
  to->back_prop = l->back_prop;
  to->once = l->once;
  to->save = l->save;
  GROW(c->loop, c->nloop, c->loop_cap);
  c->loop[c->nloop++] = (dfi_replayed_loop){ .from = l, .to = to };
  to->pred = context_new(c, l->pred, parent);
  to->body = context_new(c, l->body, parent);
  to->pred->loop = to->body->loop = to;
  if (!copy_pivot(c, l->pred, to->pred)) return NULL;
  df_output more = dfi_replay_value(c, first_of(l->loop_cond));
  to->loop_cond = more.node;
  to->built = true;
  if (!more.node || !copy_pivot(c, l->body, to->body)) return NULL;
  return kind == DFI_PRED ? to->pred : to->body;
}

df_context *dfi_replay_context(dfi_replay *c, df_context *from) {
  df_context *to = context_find(c, from);
  if (to) return to;
  df_context *parent = dfi_replay_context(c, from->parent);
  if (!parent || (to = context_find(c, from))) return parent ? to : NULL;
  return from->kind == DFI_BRANCH ? copy_cond(c, from->cond, parent, from->side)
                                  : copy_loop(c, from->loop, parent, from->kind);
}

/* ---- one node ------------------------------------------------------------------------------------ */

/* Is n the pivot of a context of the copy? */
static bool is_pivot(const dfi_replay *c, df_node *n) {
  df_context *x = n->context;
  return x->pivot == n && dfi_context_inside(x, c->from);
}

/* What a node of the copy hangs on where none of its inputs is a token. */
static df_node *pivot_of(const df_node *n, df_context *to) {
  if (kind_of(n) == DF_ENTER) return to->parent->pivot;
  if (kind_of(n) == DF_SWITCH && n->context->kind == DFI_BRANCH) return to->parent->pivot;
  return to->pivot;
}

/* What is known of the original, and of the copy's inputs; of a loop variable the original's shape: it may change. */
static void learn(df_node *copy, const df_node *n) {
  const bool varies = kind_of(n) == DF_ENTER && !dfi_flow_is_constant_enter(n);
  for (int32_t i = 0; i < n->nout; i++) {
    dfi_out *o = &copy->out[i];
    const dfi_out *is = &n->out[i];
    dfi_shape both;
    o->dtype = is->dtype;
    if (!o->of) o->of = is->of;
    if (varies) o->shape = is->shape;
    else if (dfi_shape_merge(&o->shape, &is->shape, &both)) o->shape = both;
    if (!o->constant && is->constant) o->constant = df_tensor_retain(is->constant);
  }
}

static df_node *copy_node(dfi_replay *c, df_node *n) {
  df_context *to = dfi_replay_context(c, n->context);
  const dfi_op_info *o = dfi_op_info_at(n->op);
  if (!to) return NULL;
  bool merge = is_loop_merge(n);
  int32_t nin = merge ? 1 : n->nin;
  df_output few[16], *in = nin <= 16 ? few : dfi_xmalloc(sizeof *in * (size_t)nin);
  bool token = false, flows = o->op->flow != DF_PLAIN && o->op->flow != DF_CONSTANT;
  for (int32_t i = 0; i < nin; i++) {
    in[i] = dfi_replay_find(c, n->in[i]);
    df_assert(in[i].node);
    token |= !dfi_is_tokenless(in[i]) && !(flows && kind_of(in[i].node) == DF_CONSTANT);
  }
  df_node *pivot = merge || token ? NULL : pivot_of(n, to);
  df_attr attrs[16];
  if (o->nattr) memcpy(attrs, n->attrs, sizeof *attrs * (size_t)o->nattr);
  if (o->op->flow == DF_ENTER) {
    df_attr *name = &attrs[DFI_ENTER_FRAME_NAME];
    name->s = to->loop->name;
    name->i = (int64_t)strlen(name->s);
  } else if (c->retouch) c->retouch(c, n, attrs);
  dfi_node_spec spec = { .op = n->op,
                         .nin = nin,
                         .in = in,
                         .ncontrol = pivot != NULL,
                         .control = &pivot,
                         .attrs = o->nattr ? attrs : NULL,
                         .where = n->where,
                         .raw = true,
                         .context = to };
  df_node *copy = dfi_node_add(c->graph, &spec, c->err);
  if (in != few) dfi_free(in);
  if (!copy) return NULL;
  copy->device = n->device;
  learn(copy, n);
  for (int32_t i = 0; i < n->nout; i++)
    if (!dfi_replay_find(c, (df_output){ n, i }).node) found(c, (df_output){ n, i }, (df_output){ copy, i });
  for (int32_t i = 0; i < n->ncontrol; i++)
    if (is_pivot(c, n->control[i])) {
      df_output pivot =
          n->control[i] == c->from->pivot ? first_of(c->to->pivot) : dfi_replay_find(c, first_of(n->control[i]));
      if (pivot.node) dfi_node_add_control(copy, pivot.node);
    }
  if (merge) { GROW(c->merge, c->nmerge, c->merge_cap); c->merge[c->nmerge++] = n; }
  return copy;
}

/* ---- what a node needs ------------------------------------------------------------------------------ */

typedef struct visit { df_output v; int32_t next; } visit;

/* The i-th thing that must be copied before n; false past the last. */
static bool needs(const dfi_replay *c, df_node *n, int32_t i, df_output *v) {
  int32_t nin = is_loop_merge(n) ? 1 : n->nin;
  if (i < nin) { *v = n->in[i]; return true; }
  i -= nin;
  for (int32_t k = 0; k < n->ncontrol; k++)
    if (is_pivot(c, n->control[k]) && n->control[k] != c->from->pivot && i-- == 0) {
      *v = first_of(n->control[k]);
      return true;
    }
  return false;
}

static bool copy_all(dfi_replay *c, df_output v) {
  visit *stack = NULL;
  int32_t n = 0, cap = 0;
  bool failed = false;
  if (dfi_replay_find(c, v).node) return true;
  GROW(stack, n, cap);
  stack[n++] = (visit){ v, -1 };
  while (n && !failed) {
    visit *top = &stack[n - 1];
    df_output at = top->v, need;
    if (dfi_replay_find(c, at).node) { n--; continue; }
    if (top->next < 0) {
      top->next = 0;
      df_output other = c->unrolled_value(c, at, &failed);
      if (failed) break;
      if (other.node) { found(c, at, other); n--; continue; }
      if (!dfi_replay_context(c, at.node->context)) { failed = true; break; }
      if (dfi_replay_find(c, at).node) { n--; continue; }   /* a pivot */
    }
    if (needs(c, at.node, stack[n - 1].next++, &need)) {
      if (dfi_replay_find(c, need).node) continue;
      GROW(stack, n, cap);
      stack[n++] = (visit){ need, -1 };
      continue;
    }
    failed = !copy_node(c, at.node);
    n--;
  }
  dfi_free(stack);
  return !failed;
}

/* ---- loops and conds, made whole ------------------------------------------------------------------------ */

static dfi_replayed_loop *copied_loop(dfi_replay *c, const df_loop *from) {
  df_output at = dfi_map_get(c->place, first_of(from->pred->pivot));
  return &c->loop[c->context[at.index].loop];
}

static int32_t var_of_merge(dfi_replayed_loop *k, df_node *merge) {
  if (!k->merge) k->merge = dfi_map_new();
  for (; k->known < k->from->n; k->known++) {
    df_node *m = k->from->var[k->known].merge;
    dfi_map_put(k->merge, first_of(m), (df_output){ m, k->known });
  }
  return dfi_map_get(k->merge, first_of(merge)).index;
}

/* The rest of the variable whose Merge was copied: its Switch, what the body gives, and its Exit. */
static bool come_back(dfi_replay *c, df_node *merge) {
  df_loop *l = merge->context->loop;
  /* a copy: what is saved on the way adds variables to l */
  const dfi_loop_var v = l->var[var_of_merge(copied_loop(c, l), merge)];
  if (!copy_all(c, (df_output){ v.swtch, 1 }) || !copy_all(c, first_of(v.next)) || !copy_all(c, first_of(v.exit)))
    return false;
  dfi_node_add_input(dfi_replay_find(c, first_of(merge)).node, dfi_replay_find(c, first_of(v.next)));
  return true;
}

/* Captures in the order of the original's, then those that only the copy has. */
static void order_captures(const dfi_replay *c, const struct dfi_map *from, struct dfi_map **to) {
  struct dfi_map *m = NULL;
  df_output key, in;
  for (int32_t i = 0; i < dfi_map_count(from); i++) {
    dfi_map_at(from, i, &key, &in);
    df_output copy = in.node ? dfi_replay_find(c, in) : DFI_NONE;
    if (!copy.node || kind_of(copy.node) != kind_of(in.node) || copy.node->context->kind != in.node->context->kind)
      continue;
    if (!m) m = dfi_map_new();
    dfi_map_put(m, copy.node->in[0], copy);
  }
  for (int32_t i = 0; i < dfi_map_count(*to); i++) {
    dfi_map_at(*to, i, &key, &in);
    if (!m) m = dfi_map_new();
    if (!dfi_map_get(m, key).node) dfi_map_put(m, key, in);
  }
  dfi_map_free(*to);
  *to = m;
}

static void complete_loop(dfi_replay *c, dfi_replayed_loop *k) {
  df_loop *from = k->from, *to = k->to;
  k->var = dfi_xrealloc(k->var, sizeof *k->var * (size_t)(from->n + 1));
  while (k->nvar < from->n) k->var[k->nvar++] = -1;
  for (int32_t i = 0; i < from->n; i++) {
    const dfi_loop_var *v = &from->var[i];
    df_output merge = k->var[i] < 0 ? dfi_replay_find(c, first_of(v->merge)) : DFI_NONE;
    if (!merge.node) continue;
    if (to->n == to->cap) to->var = dfi_xrealloc(to->var, sizeof *to->var * (size_t)(to->cap = to->cap * 2 + 4));
    k->var[i] = to->n;
    dfi_loop_var *copy = &to->var[to->n++];
    *copy = *v;
    copy->merge = merge.node;
    copy->enter = merge.node->in[0].node;
    copy->init = copy->enter->in[0];
    copy->swtch = dfi_replay_find(c, (df_output){ v->swtch, 1 }).node;
    copy->next = merge.node->in[1].node;
    copy->exit = dfi_replay_find(c, first_of(v->exit)).node;
    copy->result = copy->next->in[0];
    if (i == from->trip_var) to->trip_var = k->var[i];
  }
  if (from->down.node && !to->down.node) to->down = dfi_replay_find(c, from->down);
  order_captures(c, from->captures, &to->captures);
}

static void complete_cond(dfi_replay *c, dfi_replayed_cond *k) {
  df_cond *from = k->from, *to = k->to;
  k->has = dfi_xrealloc(k->has, sizeof *k->has * (size_t)(from->n + 1));
  while (k->n < from->n) k->has[k->n++] = false;
  for (int32_t i = 0; i < from->n; i++) {
    df_output merge = k->has[i] ? DFI_NONE : dfi_replay_find(c, first_of(from->merge[i]));
    if (!merge.node) continue;
    k->has[i] = true;
    for (int32_t s = 0; s < 2; s++) {
      to->result[s] = dfi_xrealloc(to->result[s], sizeof(df_output) * (size_t)(to->n + 1));
      to->result[s][to->n] = merge.node->in[s];
    }
    to->merge = dfi_xrealloc(to->merge, sizeof *to->merge * (size_t)(to->n + 1));
    to->merge[to->n++] = merge.node;
  }
  for (int32_t s = 0; s < 2; s++) order_captures(c, from->branch[s]->captures, &to->branch[s]->captures);
}

df_output dfi_replay_value(dfi_replay *c, df_output v) { return copy_all(c, v) ? dfi_replay_find(c, v) : DFI_NONE; }

bool dfi_replay_finish(dfi_replay *c) {
  while (c->nmerge) if (!come_back(c, c->merge[--c->nmerge])) return false;
  for (int32_t i = 0; i < c->nloop; i++) complete_loop(c, &c->loop[i]);
  for (int32_t i = 0; i < c->ncond; i++) complete_cond(c, &c->cond[i]);
  return true;
}

void dfi_replay_free(dfi_replay *c) {
  for (int32_t i = 0; i < c->nloop; i++) { dfi_free(c->loop[i].var); dfi_map_free(c->loop[i].merge); }
  for (int32_t i = 0; i < c->ncond; i++) dfi_free(c->cond[i].has);
  dfi_free(c->loop); dfi_free(c->cond); dfi_free(c->context); dfi_free(c->merge);
  dfi_map_free(c->value);
  dfi_map_free(c->place);
}
