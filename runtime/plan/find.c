/* find.c: what a run needs, in which frame each node runs, where each value really comes from, and what must come as a
 * token. The first three steps of plan.c, whose head tells how they hang together.
 */
#include "plan/place.h"
#include "graph/build.h"
#include <stdio.h>

/* ---- functions that call themselves ------------------------------------------------------------------ */

/* The function that a call, or a node of a function's frame, names; NULL: the graph has none of this name. */
struct function *dfi_plan_function_of(maker *m, const df_node *n) {
  const char *name = attr_of(n, "function")->s;
  for (int32_t i = 0; i < m->nfunctions; i++) if (!strcmp(m->function[i].name, name)) return &m->function[i];
  for (int32_t i = 0; i < m->nids; i++) {
    df_node *r = m->graph->node[i];
    if (flow_of(r) != DF_FUNCTION_RETURN || strcmp(attr_of(r, "function")->s, name)) continue;
    m->function = dfi_xrealloc(m->function, sizeof *m->function * (size_t)(m->nfunctions + 1));
    m->function[m->nfunctions] = (struct function){ name, r, -1 };
    return &m->function[m->nfunctions++];
  }
  return NULL;
}

/* ---- prune --------------------------------------------------------------------------------------- */

static void need(maker *m, df_node *n, int32_t **stack, int32_t *depth, int32_t *cap) {
  if (m->mark[n->id].needed) return;
  m->mark[n->id].needed = true;
  m->nneeded++;
  if (*depth == *cap) *stack = dfi_xrealloc(*stack, sizeof **stack * (size_t)(*cap = *cap * 2 + 64));
  (*stack)[(*depth)++] = n->id;
}

/* A value that a call keeps is kept where it is loaded. */
static void need_saved(maker *m, df_node *n, int32_t **stack, int32_t *depth, int32_t *cap) {
  if (!dfi_has_trait(n, DFO_TAPE_LOADS)) return;
  df_node *save = dfi_function_save(m->graph, attr_of(n, "function")->s, attr_of(n, "slot")->i);
  if (save) need(m, save, stack, depth, cap);
}

void dfi_plan_prune(maker *m, int32_t nfetch, const int32_t *fetches) {
  int32_t *stack = NULL, depth = 0, cap = 0;
  for (int32_t i = 0; i < nfetch; i++) {
    df_output o = { m->graph->node[fetches[2 * i]], fetches[2 * i + 1] };
    if (o.index >= 0 && feed_of(m, o) >= 0) continue;
    need(m, o.node, &stack, &depth, &cap);
  }
  while (depth) {
    df_node *n = m->graph->node[stack[--depth]];
    for (int32_t i = 0; i < n->nin; i++)
      if (feed_of(m, n->in[i]) < 0) need(m, n->in[i].node, &stack, &depth, &cap);
    for (int32_t i = 0; i < n->ncontrol; i++) need(m, n->control[i], &stack, &depth, &cap);
    struct function *f = flow_of(n) == DF_CALL ? dfi_plan_function_of(m, n) : NULL;
    if (f) need(m, f->ret, &stack, &depth, &cap);
    need_saved(m, n, &stack, &depth, &cap);
  }
  dfi_free(stack);
  m->needed = dfi_xmalloc(sizeof *m->needed * (size_t)(m->nneeded + 1));
  m->nneeded = 0;
  for (int32_t i = 0; i < m->nids; i++) if (m->mark[i].needed) m->needed[m->nneeded++] = i;
}

/* ---- scopes ----------------------------------------------------------------------------------------- */

int32_t dfi_plan_scope_new(maker *m, int32_t parent, const char *name) {
  dfi_plan *p = m->plan;
  if (p->nscopes == m->scope_cap) {
    m->scope_cap = m->scope_cap ? m->scope_cap * 2 : 8;
    p->scope = dfi_xrealloc(p->scope, sizeof *p->scope * (size_t)m->scope_cap);
  }
  dfi_scope *s = &p->scope[p->nscopes];
  memset(s, 0, sizeof *s);
  s->id = p->nscopes;
  s->parent = parent;
  s->name = name;
  s->parallel_iterations = 1;
  if (parent >= 0) s->child = p->scope[parent].nchildren++;
  return p->nscopes++;
}

/* The newest frame called name, or -1; those before it with the same name follow in maker.namesake. */
static int32_t *frame_called(maker *m, const char *name) {
  uint32_t at = dfi_hash_name(name, strlen(name)) & m->frame_mask;
  while (m->frame[at] >= 0 && strcmp(m->plan->scope[m->frame[at]].name, name)) at = (at + 1) & m->frame_mask;
  return &m->frame[at];
}

/* Room in the table of frames for one more; it is at most half full. */
static void make_room_for_frame(maker *m) {
  const int32_t n = m->plan->nscopes;
  if (m->frame && (uint32_t)n * 2 <= m->frame_mask) return;
  m->frame_mask = m->frame ? m->frame_mask * 2 + 1 : 15;
  m->frame = dfi_xrealloc(m->frame, sizeof *m->frame * ((size_t)m->frame_mask + 1));
  m->namesake = dfi_xrealloc(m->namesake, sizeof *m->namesake * ((size_t)m->frame_mask + 1));
  memset(m->frame, -1, sizeof *m->frame * ((size_t)m->frame_mask + 1));
  for (int32_t i = 1; i < n; i++) if (m->plan->scope[i].parent >= 0) *frame_called(m, m->plan->scope[i].name) = i;
}

/* The child frame that an Enter of scope `parent` opens. */
static int32_t scope_child(maker *m, int32_t parent, const df_node *enter) {
  const char *name = attr_of(enter, "frame_name")->s;
  make_room_for_frame(m);
  int32_t *newest = frame_called(m, name);
  for (int32_t i = *newest; i >= 0; i = m->namesake[i]) if (m->plan->scope[i].parent == parent) return i;
  int32_t id = dfi_plan_scope_new(m, parent, name);
  const df_attr *pi = attr_of(enter, "parallel_iterations");
  m->plan->scope[id].parallel_iterations = pi && pi->i > 0 ? pi->i : 1;
  m->plan->scope[id].where = enter->where;
  m->namesake[id] = *newest;
  *newest = id;
  return id;
}

/* `outer/inner`, as it is named from the top level. */
static const char *scope_text(const maker *m, int32_t scope, char *buffer, size_t bytes) {
  const dfi_scope *s = &m->plan->scope[scope];
  if (scope <= 0) return "the top level";
  char outer[200];
  if (s->parent > 0) snprintf(buffer, bytes, "%s/%s", scope_text(m, s->parent, outer, sizeof outer), s->name);
  else snprintf(buffer, bytes, "%s", s->name);
  return buffer;
}

static int32_t arrive(maker *m, df_node *n, int32_t scope, const df_node *from) {
  mark *k = &m->mark[n->id];
  if (k->scope < 0) k->scope = scope;
  else if (k->scope != scope)
    return dfi_fail(m->err, DF_INVALID_ARGUMENT, n->where,
                    "`%s` (%s) has inputs from different frames: `%s` is in %s, others in %s", dfi_node_name(n),
                    op_of(n)->type, dfi_node_name((df_node *)from), scope_text(m, scope, (char[200]){ 0 }, 200),
                    scope_text(m, k->scope, (char[200]){ 0 }, 200));
  return DF_OK;
}

/* The scope of a node without inputs; -1: err is filled. */
static int32_t root_scope(maker *m, const df_node *n) {
  if (flow_of(n) != DF_FUNCTION_BEGIN && flow_of(n) != DF_FUNCTION_ARG) return 0;
  struct function *f = dfi_plan_function_of(m, n);
  if (!f)
    return dfi_fail(m->err, DF_NOT_FOUND, n->where, "`%s` belongs to a function `%s` that the graph does not have",
                    dfi_node_name((df_node *)n), attr_of(n, "function")->s),
           -1;
  if (f->scope < 0) {
    f->scope = dfi_plan_scope_new(m, DFI_FUNCTION, f->name);
    m->plan->scope[f->scope].where = f->ret->where;
  }
  return f->scope;
}

/* Is there no frame of the name that n enters, but of another parent? */
static int32_t check_entered_once(maker *m, df_node *n) {
  const dfi_plan *p = m->plan;
  const dfi_scope *own = &p->scope[m->mark[n->id].child_scope];
  for (int32_t i = *frame_called(m, own->name); i >= 0; i = m->namesake[i])
    if (p->scope[i].parent != own->parent)
      return dfi_fail(m->err, DF_INVALID_ARGUMENT, n->where,
                      "the frame `%s` is entered from two frames; `%s` enters it from %s", own->name, dfi_node_name(n),
                      own->parent > 0 ? p->scope[own->parent].name : "the top level");
  return DF_OK;
}

/* What only an imported graph can have: a frame that is entered from two frames, that has two LoopConds, or that loops
   without a Switch. A NextIteration that no Merge takes goes on to one more iteration and does not loop. */
static int32_t check_frames(maker *m) {
  dfi_plan *p = m->plan;
  df_node **loop_cond = dfi_xcalloc((size_t)p->nscopes, sizeof *loop_cond),
          **loops = dfi_xcalloc((size_t)p->nscopes, sizeof *loops);
  bool *ends = dfi_xcalloc((size_t)p->nscopes, sizeof *ends);
  int32_t status = DF_OK;
  for (int32_t i = 0; i < m->nneeded && !status; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    if (flow_of(n) == DF_SWITCH) ends[m->mark[n->id].scope] = true;
    if (flow_of(n) == DF_NEXT_ITERATION && !m->mark[n->id].scope) loops[0] = n;
    for (int32_t k = 0; flow_of(n) == DF_MERGE && k < n->nin; k++)
      if (flow_of(n->in[k].node) == DF_NEXT_ITERATION) loops[m->mark[n->id].scope] = n->in[k].node;
    if (flow_of(n) == DF_LOOP_COND) {
      df_node **other = &loop_cond[m->mark[n->id].scope];
      if (*other)
        status = dfi_fail(m->err, DF_INVALID_ARGUMENT, n->where, "the frame `%s` has two LoopConds, `%s` and `%s`",
                          p->scope[m->mark[n->id].scope].name, dfi_node_name(*other), dfi_node_name(n));
      *other = n;
    }
    if (n->unstructured && flow_of(n) == DF_ENTER && !status) status = check_entered_once(m, n);
  }
  for (int32_t s = 0; s < p->nscopes && !status; s++) {
    if (!loops[s] || (s > 0 && ends[s])) continue;
    if (s == 0)
      status = dfi_fail(m->err, DF_INVALID_ARGUMENT, loops[s]->where, "the NextIteration `%s` is in no frame",
                        dfi_node_name(loops[s]));
    else
      status = dfi_fail(m->err, DF_INVALID_ARGUMENT, loops[s]->where,
                        "the frame `%s` has the NextIteration `%s` and no Switch: it would never end", p->scope[s].name,
                        dfi_node_name(loops[s]));
  }
  dfi_free(loop_cond); dfi_free(loops); dfi_free(ends);
  return status;
}

int32_t dfi_plan_find_scopes(maker *m) {
  /* consumers, as a compressed list by node id */
  int32_t *first = dfi_xcalloc((size_t)m->nids + 2, sizeof *first), status = DF_OK, edges = 0;
  for (int32_t i = 0; i < m->nneeded; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    for (int32_t k = 0; k < n->nin; k++) if (feed_of(m, n->in[k]) < 0) { first[n->in[k].node->id + 1]++; edges++; }
    for (int32_t k = 0; k < n->ncontrol; k++) { first[n->control[k]->id + 1]++; edges++; }
  }
  for (int32_t i = 0; i < m->nids; i++) first[i + 1] += first[i];
  int32_t *user = dfi_xmalloc(sizeof *user * (size_t)(edges + 1)),
          *at = dfi_xmalloc(sizeof *at * (size_t)(m->nids + 1));
  memcpy(at, first, sizeof *at * (size_t)m->nids);
  int32_t *stack = dfi_xmalloc(sizeof *stack * (size_t)(m->nneeded + 1)), depth = 0, reached = 0;
  for (int32_t i = 0; i < m->nneeded; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    mark *k = &m->mark[n->id];
    for (int32_t j = 0; j < n->nin; j++)
      if (feed_of(m, n->in[j]) < 0) {
        user[at[n->in[j].node->id]++] = n->id;
        k->waiting++;
      }
    for (int32_t j = 0; j < n->ncontrol; j++) { user[at[n->control[j]->id]++] = n->id; k->waiting++; }
    if (flow_of(n) == DF_MERGE && k->waiting > 1) k->waiting = 1;  /* a loop's Merge is reached through its Enter */
    if (k->waiting) continue;
    k->scope = root_scope(m, n);
    if (k->scope < 0) { status = DF_NOT_FOUND; break; }
    stack[depth++] = n->id;
  }
  while (depth && !status) {
    df_node *n = m->graph->node[stack[--depth]];
    mark *k = &m->mark[n->id];
    if ((status = dfi_plan_look_up(m, reached++))) break;
    int32_t scope = k->scope;
    if (flow_of(n) == DF_ENTER) { scope = scope_child(m, scope, n); k->child_scope = (uint32_t)scope; }
    else if (flow_of(n) == DF_EXIT) {
      if (scope == 0) {
        status = dfi_fail(m->err, DF_INVALID_ARGUMENT, n->where, "the Exit `%s` is in no frame", dfi_node_name(n));
        break;
      }
      scope = m->plan->scope[scope].parent;
    }
    for (int32_t e = first[n->id]; e < first[n->id + 1] && !status; e++) {
      df_node *u = m->graph->node[user[e]];
      status = arrive(m, u, scope, n);
      if (--m->mark[u->id].waiting == 0) stack[depth++] = u->id;
    }
  }
  if (!status && reached < m->nneeded)
    for (int32_t i = 0; i < m->nneeded; i++)
      if (m->mark[m->needed[i]].waiting > 0) {
        df_node *n = dfi_plan_node(m, m->needed[i]);
        status = dfi_fail(m->err, DF_INVALID_ARGUMENT, n->where,
                          "`%s` (%s) waits for itself: a cycle without a NextIteration and an Enter", dfi_node_name(n),
                          op_of(n)->type);
        break;
      }
  dfi_free(first); dfi_free(user); dfi_free(at); dfi_free(stack);
  return status ? status : check_frames(m);
}

/* ---- origins ------------------------------------------------------------------------------------------ */

/* Is this value there before the run's first token, in every frame? */
bool dfi_plan_is_given(const maker *m, df_output o) {
  if (feed_of(m, o) >= 0) return true;
  if (m->primitives && flow_of(o.node) == DF_CONSTANT) return false;
  return o.node->ncontrol == 0 && m->mark[o.node->id].scope == 0 &&
         (flow_of(o.node) == DF_CONSTANT || dfi_is_variable(o.node));
}

bool dfi_plan_passes_on(const df_node *n) {
  if (n->ncontrol || n->nin != 1 || n->nout != 1) return false;
  if (n->in[0].node->out[n->in[0].index].ref != n->out[0].ref) return false;  /* it reads the variable, here and now */
  return dfi_has_trait(n, DFO_PASSES);
}

bool dfi_plan_is_loop_constant(const df_node *n) {
  const df_attr *a = flow_of(n) == DF_ENTER ? attr_of(n, "is_constant") : NULL;
  return a && a->i;
}

/* The output whose slot holds the value of o. */
df_output dfi_plan_origin(const maker *m, df_output o) {
  while (feed_of(m, o) < 0) {
    if (dfi_plan_passes_on(o.node) && !m->mark[o.node->id].stays) { o = o.node->in[0]; continue; }
    const mark *k = &m->mark[o.node->id];
    if (k->duplicate >= 0) {
      o = (df_output){ dfi_plan_node(m, k->duplicate), k->stands ? k->stands - 1 : o.index };
      continue;
    }
    if (dfi_plan_is_loop_constant(o.node) && !o.node->ncontrol) {
      df_output outer = dfi_plan_origin(m, o.node->in[0]);
      if (dfi_plan_is_given(m, outer)) return outer;
    }
    break;
  }
  return o;
}

/* May consumer n read the constant c where it lies, with no token from c? */
static bool reads_constant(const maker *m, const df_node *n, const df_node *c) {
  if (flow_of(c) != DF_CONSTANT || m->primitives) return false;
  df_flow f = flow_of(n);
  if (!c->context || c->context->kind == DFI_TOP || c->ncontrol != 1 || c->control[0] != c->context->pivot)
    return false;
  if (f == DF_SWITCH && n->context->parent == c->context) return true;  /* a capture: its predicate brings the token */
  return n->context == c->context && (f == DF_PLAIN || f == DF_SWITCH);
}

int32_t dfi_plan_constant_place(maker *m, df_node *n) {
  if (m->const_index[n->id] >= 0) return m->const_index[n->id];
  dfi_plan *p = m->plan;
  if (p->nconstants == m->constant_cap) {
    m->constant_cap = m->constant_cap ? m->constant_cap * 2 : 16;
    p->constant = dfi_xrealloc(p->constant, sizeof *p->constant * (size_t)m->constant_cap);
  }
  df_value *v = &p->constant[p->nconstants];
  *v = (df_value){ 0 };
  dfi_value_from_tensor(v, df_tensor_retain(attr_of(n, "value")->tensor));
  return m->const_index[n->id] = p->nconstants++;
}

static int32_t variable_place(maker *m, df_node *n) {
  if (m->variable_index[n->id] >= 0) return m->variable_index[n->id];
  dfi_plan *p = m->plan;
  p->variable = dfi_xrealloc(p->variable, sizeof *p->variable * (size_t)(p->nvariables + 1));
  p->variable[p->nvariables] = n;
  return m->variable_index[n->id] = p->nvariables++;
}

/* A Merge chooses by tokens, so what is given is sent to it by a node of its own. */
static bool given_as_token(const maker *m, const df_node *reader, df_output from) {
  return reader && flow_of(reader) == DF_MERGE && m->mark[reader->id].scope == 0 &&
         (feed_of(m, from) >= 0 || dfi_plan_is_given(m, from));
}

dfi_comes dfi_plan_comes(const maker *m, const df_node *reader, df_output from) {
  if (given_as_token(m, reader, from)) return DFI_COMES_TOKEN;
  if (feed_of(m, from) >= 0) return DFI_COMES_FED;
  if (dfi_plan_is_given(m, from)) return dfi_is_variable(from.node) ? DFI_COMES_VARIABLE : DFI_COMES_GIVEN;
  if (reader && reads_constant(m, reader, from.node)) return DFI_COMES_CONSTANT;
  return dfi_plan_is_loop_constant(from.node) ? DFI_COMES_LOOP_CONSTANT : DFI_COMES_TOKEN;
}

/* Where the value of o lies for a reader in its scope. `reader` may be NULL (a fetch). *token: it arrives along an edge
   from *from. */
dfi_operand dfi_plan_place(maker *m, const df_node *reader, df_output o, df_output *from, bool *token) {
  *from = dfi_plan_origin(m, o);
  const dfi_comes how = dfi_plan_comes(m, reader, *from);
  *token = how == DFI_COMES_TOKEN;
  if (DFI_UNLIKELY(m->cut)) {
    int32_t given;
    *from = dfi_plan_across(m, reader, *from, how, dfi_plan_wanted(m, reader, o), &given);
    if (given >= 0) return DFI_OPERAND(DFI_GIVEN, (uint32_t)given | DFI_CROSSES);
  }
  df_node *n = from->node;
  switch (how) {
  case DFI_COMES_FED: return DFI_OPERAND(DFI_GIVEN, feed_of(m, *from));
  case DFI_COMES_VARIABLE: return DFI_OPERAND(DFI_GIVEN, m->plan->nfeed + variable_place(m, n));
  case DFI_COMES_GIVEN: case DFI_COMES_CONSTANT: return DFI_OPERAND(DFI_CONSTANT, dfi_plan_constant_place(m, n));
  case DFI_COMES_LOOP_CONSTANT: return DFI_OPERAND(DFI_FRAME, m->mark[n->id].slot);
  case DFI_COMES_TOKEN: break;
  }
  return DFI_OPERAND(DFI_ITERATION, m->mark[n->id].slot + (uint32_t)from->index);
}

/* ---- what needs a token -------------------------------------------------------------------------------- */

/* Does a value read by n come as a token from *from? A constant read in place that hangs on something: *gate. */
bool dfi_plan_comes_as_token(maker *m, const df_node *n, df_output o, df_output *from, df_node **gate) {
  *from = dfi_plan_origin(m, o);
  *gate = NULL;
  if (given_as_token(m, n, *from)) {
    mark *k = &m->mark[from->node->id];
    k->given_token = true;
    k->given_index = from->index;
    if (k->scope < 0) k->scope = 0;                 /* all its outputs are fed: it was not looked for */
    return true;
  }
  if (feed_of(m, *from) >= 0 || dfi_plan_is_given(m, *from)) return false;
  if (n && reads_constant(m, n, from->node)) { *gate = from->node; return false; }
  return true;
}

/* Of several Switches with the same inputs one is kept: a value used in both branches of a cond is captured by each. */
void dfi_plan_find_duplicates(maker *m) {
  uint32_t mask = 63;
  int32_t switches = 0;
  for (int32_t i = 0; i < m->nneeded; i++) switches += flow_of(dfi_plan_node(m, m->needed[i])) == DF_SWITCH;
  while (mask < (uint32_t)switches * 2) mask = mask * 2 + 1;
  df_node **table = dfi_xcalloc(mask + 1, sizeof *table);
  for (int32_t i = 0; i < m->nneeded; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    if (flow_of(n) != DF_SWITCH || n->ncontrol || m->mark[n->id].fed) continue;
    df_output data = dfi_plan_origin(m, n->in[0]), pred = dfi_plan_origin(m, n->in[1]);
    if (flow_of(data.node) == DF_CONSTANT) continue;
    uint32_t h =
        (uint32_t)(data.node->id * 31 + data.index) * 0x9e3779b1u ^ (uint32_t)(pred.node->id * 31 + pred.index);
    for (h &= mask; table[h]; h = (h + 1) & mask)
      if (dfi_same(dfi_plan_origin(m, table[h]->in[0]), data) && dfi_same(dfi_plan_origin(m, table[h]->in[1]), pred) &&
          m->mark[table[h]->id].scope == m->mark[n->id].scope) break;
    if (table[h]) m->mark[n->id].duplicate = table[h]->id;
    else table[h] = n;
  }
  dfi_free(table);
}

/* Prunes once more, now that it is known which values need no token: what only they hung on is not needed. */
void dfi_plan_prune_tokens(maker *m) {
  int32_t *stack = NULL, depth = 0, cap = 0;
  for (int32_t i = 0; i < m->nneeded; i++) m->mark[m->needed[i]].needed = false;
  m->nneeded = 0;
  for (int32_t i = 0; i < m->plan->nfetch; i++) {
    df_output o = { m->graph->node[m->plan->signature[2 * i]], m->plan->signature[2 * i + 1] }, from = o;
    df_node *gate;
    if (o.index < 0 && !dfi_plan_passes_on(o.node)) {
      if (!dfi_plan_is_given(m, (df_output){ o.node, 0 })) {
        need(m, o.node, &stack, &depth, &cap);
        m->mark[o.node->id].users++;
      }
    } else if (dfi_plan_comes_as_token(m, NULL, o.index < 0 ? (df_output){ o.node, 0 } : o, &from, &gate)) {
      need(m, from.node, &stack, &depth, &cap);
      m->mark[from.node->id].users++;
    }
  }
  while (depth) {
    df_node *n = dfi_plan_node(m, stack[--depth]);
    if (m->mark[n->id].given_token) continue;       /* its inputs are beside the point */
    if (flow_of(n) == DF_CALL) need(m, dfi_plan_function_of(m, n)->ret, &stack, &depth, &cap);
    need_saved(m, n, &stack, &depth, &cap);
    int32_t tokens = n->ncontrol, ngates = 0;
    df_output from;
    df_node *gate;
    for (int32_t i = 0; i < n->nin; i++) {
      if (!dfi_plan_comes_as_token(m, n, n->in[i], &from, &gate)) { ngates += gate != NULL; continue; }
      need(m, from.node, &stack, &depth, &cap);
      m->mark[from.node->id].users++;
      tokens += !dfi_plan_is_loop_constant(from.node);
    }
    m->mark[n->id].reads_gate = !tokens && ngates;
    for (int32_t i = 0; i < n->ncontrol; i++) {
      df_output by = { n->control[i], 0 };
      if (by.node->nout && !dfi_plan_comes_as_token(m, NULL, by, &by, &gate)) continue;
      need(m, by.node, &stack, &depth, &cap);
      m->mark[by.node->id].users++;
    }
    for (int32_t i = 0; i < n->nin && m->mark[n->id].reads_gate; i++) {
      dfi_plan_comes_as_token(m, n, n->in[i], &from, &gate);
      for (int32_t c = 0; gate && c < gate->ncontrol; c++) {
        df_output by = { gate->control[c], 0 };
        df_node *none;
        if (by.node->nout && !dfi_plan_comes_as_token(m, NULL, by, &by, &none)) continue;
        need(m, by.node, &stack, &depth, &cap);
        m->mark[by.node->id].users++;
      }
    }
  }
  dfi_free(stack);
  m->nneeded = 0;
  for (int32_t i = 0; i < dfi_plan_ids(m); i++) if (m->mark[i].needed) m->needed[m->nneeded++] = i;
}

/* A loop's Merge whose Enter and NextIteration serve no other node needs none: they deliver for it. */
void dfi_plan_find_merged(maker *m) {
  for (int32_t i = 0; i < m->nneeded; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    if (flow_of(n) != DF_MERGE || n->ncontrol || n->nin != 2) continue;
    df_node *enter = dfi_plan_origin(m, n->in[0]).node, *next = dfi_plan_origin(m, n->in[1]).node;
    m->mark[n->id].merged = flow_of(enter) == DF_ENTER && !dfi_plan_is_loop_constant(enter) &&
                            flow_of(next) == DF_NEXT_ITERATION && m->mark[enter->id].users == 1 &&
                            m->mark[next->id].users == 1;
  }
  for (int32_t i = 0; i < m->nneeded; i++) {      /* which input it was is read */
    df_node *n = dfi_plan_node(m, m->needed[i]);
    for (int32_t k = 0; k < n->nin; k++) {
      df_output o = dfi_plan_origin(m, n->in[k]);
      if (o.index == 1 && flow_of(o.node) == DF_MERGE) m->mark[o.node->id].merged = false;
    }
  }
}
