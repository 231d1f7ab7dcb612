/* plan.c: from the graph to a plan: prune, find frames, pass values through, lay out.
 *
 * 1. prune     backwards from the fetches, not past what is fed
 * 2. scopes    forwards from the nodes without inputs: Enter leads into a child frame, Exit out of it. A node whose inputs come from
 *              different frames, or that nothing reaches, is an error: this holds for any graph, however it was made.
 * 3. origins   where a value really comes from: Identity, StopGradient and LoopCond pass it on and need no token of their own; a
 *              loop constant that is a constant or a feed is read where it is.
 * 4. layout    slots, operands, edges, and the counts that each iteration starts with.
 *
 * A Const of a branch or body hangs on the pivot by a control edge, so that it is dead when the branch is. A plain node of the
 * same context that reads it has another input that says the same, so the constant itself needs no token.
 */
#include "executor.h"
#include <stdio.h>

/* What is known of a node while its plan is made. By node id. */
typedef struct mark {
  bool     needed, fed_out;    /* fed_out: some output is fed */
  int32_t  scope;              /* -1: not found yet */
  int32_t  waiting;            /* inputs that have not been reached */
  bool     reads_gate;         /* all its operands are constants read in place: it hangs on what they hang on */
  bool     merged;             /* a loop's Merge: its Enter and NextIteration deliver for it */
  bool     for_merge;          /* Enter, NextIteration: delivers for a Merge */
  bool     given_token;        /* its value is given, but a Merge needs a token of it: output given_index */
  int32_t  given_index;
  int32_t  twin;               /* a Switch with the same inputs, or -1 */
  int32_t  copy_scope; uint32_t copy_slot;   /* a scalar constant: where it was copied last */
  int32_t  users;              /* places that wait for its tokens */
  int32_t  number;             /* pnode, or -1 when it needs none */
  uint32_t slot;               /* of output 0 */
  uint32_t child_scope;        /* Enter */
} mark;

typedef struct maker {
  df_graph *graph;
  df_error *err;
  dfi_plan *plan;
  mark     *mark;
  int32_t  *needed, nneeded;   /* ids, ascending */
  int32_t   nids;
  bool      reference;
  df_output *given; int32_t ngiven;   /* what is fed */
  int32_t  *const_index;       /* by id: place in plan->constant, or -1 */
  int32_t  *variable_index;    /* by id: place among the variables, or -1 */
  int32_t   scope_cap, constant_cap;
  struct function { const char *name; df_node *ret; int32_t scope; } *function; int32_t nfunctions;
} maker;

static const df_op *op_of(const df_node *n) { return dfi_op_info_at(n->op)->op; }
static df_flow flow_of(const df_node *n) { return op_of(n)->flow; }

static int32_t feed_of(const maker *m, df_output o) {
  if (!m->mark[o.node->id].fed_out) return -1;
  for (int32_t i = 0; i < m->ngiven; i++) if (dfi_same(m->given[i], o)) return i;
  return -1;
}


/* ---- functions that call themselves ------------------------------------------------------------------ */

static const df_attr *attr_of(const df_node *n, const char *name) {
  int32_t i = dfi_op_attr_index(dfi_op_info_at(n->op), name);
  return i < 0 ? NULL : &n->attrs[i];
}

/* The function that a call, or a node of a function's frame, names; NULL: the graph has none of this name. */
static struct function *function_of(maker *m, const df_node *n) {
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

static void prune(maker *m, int32_t nfetch, const int32_t *fetches) {
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
    struct function *f = flow_of(n) == DF_CALL ? function_of(m, n) : NULL;
    if (f) need(m, f->ret, &stack, &depth, &cap);
  }
  free(stack);
  m->needed = dfi_xmalloc(sizeof *m->needed * (size_t)(m->nneeded + 1));
  m->nneeded = 0;
  for (int32_t i = 0; i < m->nids; i++) if (m->mark[i].needed) m->needed[m->nneeded++] = i;
}

/* ---- scopes ----------------------------------------------------------------------------------------- */

static int32_t scope_new(maker *m, int32_t parent, const char *name) {
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
  s->salt = 14695981039346656037u;                    /* FNV-1a */
  for (const char *c = name; c && *c; c++) s->salt = (s->salt ^ (uint8_t)*c) * 1099511628211u;
  s->parallel_iterations = 1;
  if (parent >= 0) s->child = p->scope[parent].nchildren++;
  return p->nscopes++;
}

/* The child frame that an Enter of scope `parent` opens. */
static int32_t scope_child(maker *m, int32_t parent, const df_node *enter) {
  const char *name = attr_of(enter, "frame_name")->s;
  for (int32_t i = parent + 1; i < m->plan->nscopes; i++)
    if (m->plan->scope[i].parent == parent && !strcmp(m->plan->scope[i].name, name)) return i;
  int32_t id = scope_new(m, parent, name);
  const df_attr *pi = attr_of(enter, "parallel_iterations");
  m->plan->scope[id].parallel_iterations = pi && pi->i > 0 ? pi->i : 1;
  m->plan->scope[id].where = enter->where;
  return id;
}

static int32_t arrive(maker *m, df_node *n, int32_t scope, const df_node *from) {
  mark *k = &m->mark[n->id];
  if (k->scope < 0) k->scope = scope;
  else if (k->scope != scope)
    return dfi_fail(m->err, DF_INVALID_ARGUMENT, n->where, "`%s` (%s) has inputs from different frames: `%s` is in %s, others in %s",
      dfi_node_name(n), op_of(n)->type, dfi_node_name((df_node *)from),
      scope ? m->plan->scope[scope].name : "the top level", k->scope ? m->plan->scope[k->scope].name : "the top level");
  return DF_OK;
}

/* The scope of a node without inputs. */
static int32_t home_of(maker *m, const df_node *n) {
  if (flow_of(n) != DF_FUNCTION_BEGIN && flow_of(n) != DF_FUNCTION_ARG) return 0;
  struct function *f = function_of(m, n);
  if (f->scope < 0) {
    f->scope = scope_new(m, DFI_FUNCTION, f->name);
    m->plan->scope[f->scope].where = f->ret->where;
  }
  return f->scope;
}

/* What only an imported graph can have: a frame that is entered from two frames, or that has two LoopConds. */
static int32_t check_frames(maker *m) {
  dfi_plan *p = m->plan;
  df_node **loop_cond = dfi_xcalloc((size_t)p->nscopes, sizeof *loop_cond);
  int32_t status = DF_OK;
  for (int32_t i = 0; i < m->nneeded && !status; i++) {
    df_node *n = m->graph->node[m->needed[i]];
    if (flow_of(n) == DF_LOOP_COND) {
      df_node **other = &loop_cond[m->mark[n->id].scope];
      if (*other) status = dfi_fail(m->err, DF_INVALID_ARGUMENT, n->where, "the frame `%s` has two LoopConds, `%s` and `%s`",
                                    p->scope[m->mark[n->id].scope].name, dfi_node_name(*other), dfi_node_name(n));
      *other = n;
    }
    for (int32_t s = 1; s < p->nscopes && n->loose && flow_of(n) == DF_ENTER && !status; s++) {
      const dfi_scope *own = &p->scope[m->mark[n->id].child_scope];
      if (s == own->id || p->scope[s].parent == own->parent || strcmp(p->scope[s].name, own->name)) continue;
      status = dfi_fail(m->err, DF_INVALID_ARGUMENT, n->where, "the frame `%s` is entered from two frames; `%s` enters it from %s", own->name,
                        dfi_node_name(n), own->parent > 0 ? p->scope[own->parent].name : "the top level");
    }
  }
  free(loop_cond);
  return status;
}

static int32_t find_scopes(maker *m) {
  /* consumers, as a compressed list by node id */
  int32_t *first = dfi_xcalloc((size_t)m->nids + 2, sizeof *first), status = DF_OK, edges = 0;
  for (int32_t i = 0; i < m->nneeded; i++) {
    df_node *n = m->graph->node[m->needed[i]];
    for (int32_t k = 0; k < n->nin; k++) if (feed_of(m, n->in[k]) < 0) { first[n->in[k].node->id + 1]++; edges++; }
    for (int32_t k = 0; k < n->ncontrol; k++) { first[n->control[k]->id + 1]++; edges++; }
  }
  for (int32_t i = 0; i < m->nids; i++) first[i + 1] += first[i];
  int32_t *user = dfi_xmalloc(sizeof *user * (size_t)(edges + 1)), *at = dfi_xmalloc(sizeof *at * (size_t)(m->nids + 1));
  memcpy(at, first, sizeof *at * (size_t)m->nids);
  int32_t *stack = dfi_xmalloc(sizeof *stack * (size_t)(m->nneeded + 1)), depth = 0, reached = 0;
  for (int32_t i = 0; i < m->nneeded; i++) {
    df_node *n = m->graph->node[m->needed[i]];
    mark *k = &m->mark[n->id];
    for (int32_t j = 0; j < n->nin; j++) if (feed_of(m, n->in[j]) < 0) { user[at[n->in[j].node->id]++] = n->id; k->waiting++; }
    for (int32_t j = 0; j < n->ncontrol; j++) { user[at[n->control[j]->id]++] = n->id; k->waiting++; }
    if (flow_of(n) == DF_MERGE && k->waiting > 1) k->waiting = 1;        /* a loop's Merge is reached through its Enter */
    if (!k->waiting) { k->scope = home_of(m, n); stack[depth++] = n->id; }
  }
  while (depth && !status) {
    df_node *n = m->graph->node[stack[--depth]];
    mark *k = &m->mark[n->id];
    reached++;
    int32_t scope = k->scope;
    if (flow_of(n) == DF_ENTER) { scope = scope_child(m, scope, n); k->child_scope = (uint32_t)scope; }
    else if (flow_of(n) == DF_EXIT) {
      if (scope == 0) { status = dfi_fail(m->err, DF_INVALID_ARGUMENT, n->where, "the Exit `%s` is in no frame", dfi_node_name(n)); break; }
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
        df_node *n = m->graph->node[m->needed[i]];
        status = dfi_fail(m->err, DF_INVALID_ARGUMENT, n->where, "`%s` (%s) waits for itself: a cycle without a NextIteration and an Enter",
                          dfi_node_name(n), op_of(n)->type);
        break;
      }
  free(first); free(user); free(at); free(stack);
  return status ? status : check_frames(m);
}

/* ---- origins ------------------------------------------------------------------------------------------ */

/* Is this value there before the run's first token, in every frame? */
static bool is_given(const maker *m, df_output o) {
  if (feed_of(m, o) >= 0) return true;
  return o.node->ncontrol == 0 && m->mark[o.node->id].scope == 0 && (flow_of(o.node) == DF_CONSTANT || dfi_is_variable(o.node));
}

static bool passes_on(const df_node *n) {
  if (n->ncontrol || n->nin != 1 || n->nout != 1) return false;
  if (n->in[0].node->out[n->in[0].index].ref != n->out[0].ref) return false;     /* it reads the variable, here and now */
  const char *t = op_of(n)->type;
  return flow_of(n) == DF_LOOP_COND || !strcmp(t, "Identity") || !strcmp(t, "RefIdentity") || !strcmp(t, "StopGradient");
}

static bool is_loop_constant(const df_node *n) {
  const df_attr *a = flow_of(n) == DF_ENTER ? attr_of(n, "is_constant") : NULL;
  return a && a->i;
}

/* The output whose slot holds the value of o. */
static df_output find_origin(const maker *m, df_output o) {
  while (feed_of(m, o) < 0) {
    if (passes_on(o.node)) { o = o.node->in[0]; continue; }
    if (m->mark[o.node->id].twin >= 0) { o.node = m->graph->node[m->mark[o.node->id].twin]; continue; }
    if (is_loop_constant(o.node) && !o.node->ncontrol) {
      df_output outer = find_origin(m, o.node->in[0]);
      if (is_given(m, outer)) return outer;
    }
    break;
  }
  return o;
}

/* May consumer n read the constant c where it lies, with no token from c? */
static bool reads_constant(const df_node *n, const df_node *c) {
  if (flow_of(c) != DF_CONSTANT) return false;
  df_flow f = flow_of(n);
  if (!c->context || c->context->kind == DFI_TOP || c->ncontrol != 1 || c->control[0] != c->context->pivot) return false;
  if (f == DF_SWITCH && n->context->parent == c->context) return true;    /* a capture: its predicate brings the token */
  return n->context == c->context && (f == DF_PLAIN || f == DF_SWITCH);
}

static int32_t constant_place(maker *m, df_node *n) {
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
  return reader && flow_of(reader) == DF_MERGE && m->mark[reader->id].scope == 0 && (feed_of(m, from) >= 0 || is_given(m, from));
}

/* Where the value of o lies for a reader in its scope. `reader` may be NULL (a fetch). *token: it arrives along an edge from *from. */
static dfi_operand place(maker *m, const df_node *reader, df_output o, df_output *from, bool *token) {
  *from = find_origin(m, o);
  *token = given_as_token(m, reader, *from);
  if (*token) return DFI_OPERAND(DFI_ITERATION, m->mark[from->node->id].slot + (uint32_t)from->index);
  int32_t f = feed_of(m, *from);
  if (f >= 0) return DFI_OPERAND(DFI_GIVEN, f);
  df_node *n = from->node;
  if (is_given(m, *from))
    return dfi_is_variable(n) ? DFI_OPERAND(DFI_GIVEN, m->plan->nfeed + variable_place(m, n))
                          : DFI_OPERAND(DFI_CONSTANT, constant_place(m, n));
  if (reader && reads_constant(reader, n)) return DFI_OPERAND(DFI_CONSTANT, constant_place(m, n));
  if (is_loop_constant(n)) return DFI_OPERAND(DFI_FRAME, m->mark[n->id].slot);
  *token = true;
  return DFI_OPERAND(DFI_ITERATION, m->mark[n->id].slot + (uint32_t)from->index);
}

/* ---- layout -------------------------------------------------------------------------------------------- */

/* Does a value read by n come as a token from *from? A constant read in place that hangs on something: *gate. */
static bool comes_as_token(maker *m, const df_node *n, df_output o, df_output *from, df_node **gate) {
  *from = find_origin(m, o);
  *gate = NULL;
  if (given_as_token(m, n, *from)) {
    mark *k = &m->mark[from->node->id];
    k->given_token = true;
    k->given_index = from->index;
    if (k->scope < 0) k->scope = 0;                 /* all its outputs are fed: nobody has looked for it */
    return true;
  }
  if (feed_of(m, *from) >= 0 || is_given(m, *from)) return false;
  if (n && reads_constant(n, from->node)) { *gate = from->node; return false; }
  return true;
}

/* Of several Switches with the same inputs one is kept: a value used in both branches of a cond is captured by each. */
static void find_twins(maker *m) {
  uint32_t mask = 63;
  int32_t switches = 0;
  for (int32_t i = 0; i < m->nneeded; i++) switches += flow_of(m->graph->node[m->needed[i]]) == DF_SWITCH;
  while (mask < (uint32_t)switches * 2) mask = mask * 2 + 1;
  df_node **table = dfi_xcalloc(mask + 1, sizeof *table);
  for (int32_t i = 0; i < m->nneeded; i++) {
    df_node *n = m->graph->node[m->needed[i]];
    if (flow_of(n) != DF_SWITCH || n->ncontrol || m->mark[n->id].fed_out) continue;
    df_output data = find_origin(m, n->in[0]), pred = find_origin(m, n->in[1]);
    if (flow_of(data.node) == DF_CONSTANT) continue;
    uint32_t h = (uint32_t)(data.node->id * 31 + data.index) * 0x9e3779b1u ^ (uint32_t)(pred.node->id * 31 + pred.index);
    for (h &= mask; table[h]; h = (h + 1) & mask)
      if (dfi_same(find_origin(m, table[h]->in[0]), data) && dfi_same(find_origin(m, table[h]->in[1]), pred) &&
          m->mark[table[h]->id].scope == m->mark[n->id].scope) break;
    if (table[h]) m->mark[n->id].twin = table[h]->id;
    else table[h] = n;
  }
  free(table);
}

/* Prunes once more, now that it is known which values need no token: what only they hung on is not needed. */
static void prune_tokens(maker *m) {
  int32_t *stack = NULL, depth = 0, cap = 0;
  for (int32_t i = 0; i < m->nneeded; i++) m->mark[m->needed[i]].needed = false;
  m->nneeded = 0;
  for (int32_t i = 0; i < m->plan->nfetch; i++) {
    df_output o = { m->graph->node[m->plan->signature[2 * i]], m->plan->signature[2 * i + 1] }, from = o;
    df_node *gate;
    if (o.index < 0 && !passes_on(o.node)) { if (!is_given(m, (df_output){ o.node, 0 })) { need(m, o.node, &stack, &depth, &cap); m->mark[o.node->id].users++; } }
    else if (comes_as_token(m, NULL, o.index < 0 ? (df_output){ o.node, 0 } : o, &from, &gate)) { need(m, from.node, &stack, &depth, &cap); m->mark[from.node->id].users++; }
  }
  while (depth) {
    df_node *n = m->graph->node[stack[--depth]];
    if (m->mark[n->id].given_token) continue;       /* its inputs are beside the point */
    if (flow_of(n) == DF_CALL) need(m, function_of(m, n)->ret, &stack, &depth, &cap);
    int32_t tokens = n->ncontrol, ngates = 0;
    df_output from;
    df_node *gate;
    for (int32_t i = 0; i < n->nin; i++) {
      if (!comes_as_token(m, n, n->in[i], &from, &gate)) { ngates += gate != NULL; continue; }
      need(m, from.node, &stack, &depth, &cap);
      m->mark[from.node->id].users++;
      tokens += !is_loop_constant(from.node);
    }
    m->mark[n->id].reads_gate = !tokens && ngates;
    for (int32_t i = 0; i < n->ncontrol; i++) {
      df_output by = { n->control[i], 0 };
      if (by.node->nout && !comes_as_token(m, NULL, by, &by, &gate)) continue;
      need(m, by.node, &stack, &depth, &cap);
      m->mark[by.node->id].users++;
    }
    for (int32_t i = 0; i < n->nin && m->mark[n->id].reads_gate; i++) {
      comes_as_token(m, n, n->in[i], &from, &gate);
      for (int32_t c = 0; gate && c < gate->ncontrol; c++) {
        df_output by = { gate->control[c], 0 };
        df_node *none;
        if (by.node->nout && !comes_as_token(m, NULL, by, &by, &none)) continue;
        need(m, by.node, &stack, &depth, &cap);
        m->mark[by.node->id].users++;
      }
    }
  }
  free(stack);
  m->nneeded = 0;
  for (int32_t i = 0; i < m->nids; i++) if (m->mark[i].needed) m->needed[m->nneeded++] = i;
}

/* A loop's Merge whose Enter and NextIteration serve nobody else needs no node: they deliver for it. */
static void find_merged(maker *m) {
  for (int32_t i = 0; i < m->nneeded; i++) {
    df_node *n = m->graph->node[m->needed[i]];
    if (flow_of(n) != DF_MERGE || n->ncontrol || n->nin != 2) continue;
    df_node *enter = find_origin(m, n->in[0]).node, *next = find_origin(m, n->in[1]).node;
    m->mark[n->id].merged = flow_of(enter) == DF_ENTER && !is_loop_constant(enter) && flow_of(next) == DF_NEXT_ITERATION &&
                            m->mark[enter->id].users == 1 && m->mark[next->id].users == 1;
  }
  for (int32_t i = 0; i < m->nneeded; i++) {      /* somebody asks which input it was */
    df_node *n = m->graph->node[m->needed[i]];
    for (int32_t k = 0; k < n->nin; k++) {
      df_output o = find_origin(m, n->in[k]);
      if (o.index == 1 && flow_of(o.node) == DF_MERGE) m->mark[o.node->id].merged = false;
    }
  }
}

/* Kinds, the order of nodes (by scope, then by age), slots. */
static void number_nodes(maker *m) {
  dfi_plan *p = m->plan;
  uint32_t *per_scope = dfi_xcalloc((size_t)p->nscopes + 1, sizeof *per_scope);
  for (int32_t i = 0; i < m->nneeded; i++) {
    df_node *n = m->graph->node[m->needed[i]];
    mark *k = &m->mark[n->id];
    k->number = k->merged ? -1 : 0;
    if (k->merged) {
      k->slot = p->scope[k->scope].nslots++;
      continue;
    }
    per_scope[k->scope]++;
    p->nnodes++;
    /* outputs lie in the scope that reads them */
    if (is_loop_constant(n)) { k->slot = p->scope[k->child_scope].nconsts++; continue; }
    int32_t home = flow_of(n) == DF_ENTER ? (int32_t)k->child_scope : flow_of(n) == DF_EXIT ? p->scope[k->scope].parent : k->scope;
    k->slot = p->scope[home].nslots;
    p->scope[home].nslots += (uint32_t)n->nout;
  }
  for (int32_t i = 0; i < m->nneeded; i++) {      /* Enter and NextIteration write where their Merge is read */
    df_node *n = m->graph->node[m->needed[i]];
    for (int32_t k = 0; k < n->nin && m->mark[n->id].merged; k++) {
      mark *by = &m->mark[find_origin(m, n->in[k]).node->id];
      by->slot = m->mark[n->id].slot;
      by->for_merge = true;
    }
  }
  uint32_t at = 0;
  for (int32_t s = 0; s < p->nscopes; s++) {
    p->scope[s].first = at;
    at += per_scope[s];
  }
  for (int32_t i = 0; i < m->nneeded; i++) {
    mark *k = &m->mark[m->needed[i]];
    if (k->number >= 0) k->number = (int32_t)(p->scope[k->scope].first + p->scope[k->scope].n++);
  }
  for (int32_t s = 0; s < p->nscopes; s++) {
    dfi_scope *c = &p->scope[s];
    c->counts = dfi_xcalloc(c->n + 1, sizeof *c->counts);
    c->uses = dfi_xcalloc(c->nslots + 1, sizeof *c->uses);      /* copies of constants come after and have none */
    c->roots = dfi_xcalloc(c->n + 1, sizeof *c->roots);
    c->enters = dfi_xcalloc(c->n + 1, sizeof *c->enters);
  }
  free(per_scope);
}

/* Which inputs of n are references to variables while n wants values: one byte each, owned; NULL when none is. */
static uint8_t *references_read(const df_node *n) {
  uint8_t *reads = NULL;
  for (int32_t i = 0; i < n->nin; i++)
    if (n->in[i].node->out[n->in[i].index].ref && !dfi_input_is_reference(n, i)) {
      if (!reads) reads = dfi_xcalloc((size_t)n->nin, 1);
      reads[i] = 1;
    }
  return reads;
}

static int32_t make_node(maker *m, df_node *n, dfi_pnode *q) {
  const df_op *op = op_of(n);
  mark *k = &m->mark[n->id];
  q->node = n; q->op = op;
  q->nin = (uint32_t)n->nin; q->nout = (uint32_t)n->nout;
  q->scope = (uint32_t)k->scope;
  q->out = k->slot;
  q->merges = k->for_merge;
  q->out_dtypes = dfi_xmalloc((size_t)n->nout + 1);
  for (int32_t i = 0; i < n->nout; i++) q->out_dtypes[i] = n->out[i].dtype;
  q->out_dtype = n->nout ? n->out[0].dtype : 0;
  dfi_scope *s = &m->plan->scope[k->scope];
  if (k->given_token) {
    q->kind = DFI_K_CONST;
    q->nin = 0;
    q->out += (uint32_t)k->given_index;
    return DF_OK;
  }
  switch (op->flow) {
  case DF_SWITCH: q->kind = DFI_K_SWITCH; return DF_OK;
  case DF_MERGE: q->kind = DFI_K_MERGE; return DF_OK;
  case DF_ENTER: {
    dfi_scope *c = &m->plan->scope[k->child_scope];
    q->kind = DFI_K_ENTER;
    q->constant = is_loop_constant(n);
    q->child = (uint16_t)c->child;
    q->target = k->child_scope;
    q->enter = c->nenters++;
    c->enters = dfi_xrealloc(c->enters, sizeof *c->enters * (c->nenters + 1));
    c->enters[q->enter] = q;
    return DF_OK;
  }
  case DF_EXIT:
    q->kind = DFI_K_EXIT;
    q->child = (uint16_t)s->nexits++;
    s->exits = dfi_xrealloc(s->exits, sizeof *s->exits * (s->nexits + 1));
    s->exits[q->child] = q;
    return DF_OK;
  case DF_NEXT_ITERATION: q->kind = DFI_K_NEXT; return DF_OK;
  case DF_CONSTANT: q->kind = DFI_K_CONST; q->nin = 0; return DF_OK;
  case DF_CALL: {
    struct function *f = function_of(m, n);
    q->kind = DFI_K_CALL;
    q->child = (uint16_t)s->nchildren++;
    q->target = (uint32_t)f->scope;
    if (f->ret->nin == n->nout) return DF_OK;
    return dfi_fail(m->err, DF_INVALID_ARGUMENT, n->where, "`%s` wants %d results of the function `%s`, which has %d", dfi_node_name(n), n->nout, f->name, f->ret->nin);
  }
  case DF_FUNCTION_BEGIN: q->kind = DFI_K_NOOP; return DF_OK;
  case DF_FUNCTION_ARG:
    q->kind = DFI_K_ARG;
    q->enter = (uint32_t)attr_of(n, "index")->i;
    return DF_OK;
  case DF_FUNCTION_RETURN: q->kind = DFI_K_RETURN; return DF_OK;
  case DF_NO_OP: q->kind = strcmp(op->type, "ControlTrigger") ? DFI_K_NOOP : DFI_K_TRIGGER; return DF_OK;
  case DF_FEED: q->kind = DFI_K_UNFED; return DF_OK;
  case DF_LOOP_COND: case DF_PLAIN: break;
  }
  q->kind = DFI_K_KERNEL;
  bool reference = m->reference && op->kernel[DF_REF];
  q->kernel = !reference && op->kernel[DF_CPU] ? op->kernel[DF_CPU] : op->kernel[DF_REF];
  if (!q->kernel && op->flow == DF_LOOP_COND) { q->kernel = dfi_op_find("Identity")->op->kernel[DF_REF]; }
  if (!q->kernel)
    return dfi_fail(m->err, DF_UNIMPLEMENTED, n->where, "op %s (`%s`) has no kernel for the CPU", op->type, dfi_node_name(n));
  uint8_t types[4] = { 0 };
  bool plain = n->nin >= 1 && n->nin <= 3 && n->nout == 1;
  for (int32_t i = 0; i < n->nin; i++) {
    uint8_t t = dfi_dtype(n->in[i]);
    if (t == DF_RESOURCE) { q->has_handle = 1; plain = false; }
    if (i < 4) types[i] = t;
  }
  for (int32_t i = 0; i < n->nout; i++) if (n->out[i].dtype == DF_RESOURCE) q->has_handle = 1;
  q->reads = references_read(n);
  q->waits = op->waits;
  q->offload = !q->has_handle && !op->stateful && !q->reads;
  if (plain && op->scalar && !reference && !q->reads) {
    q->scalar = op->scalar(types, q->out_dtype);
    if (q->scalar) q->kind = DFI_K_SCALAR;
  }
  return DF_OK;
}

/* An edge while they are gathered. */
typedef struct draft { uint32_t from; uint32_t list; dfi_edge edge; } draft;
typedef struct drafts { draft *at; uint32_t n, cap; } drafts;

static void draft_add(drafts *d, uint32_t from, uint32_t list, uint32_t node, uint32_t to) {
  if (d->n == d->cap) d->at = dfi_xrealloc(d->at, sizeof *d->at * (d->cap = d->cap * 2 + 64));
  d->at[d->n++] = (draft){ from, list, { node, to } };
}

/* The list of a producer that carries the token of its output `index` (-1: of the node as a whole). */
static uint32_t edge_list(const dfi_pnode *from, int32_t index) {
  if (from->kind != DFI_K_SWITCH) return 0;
  return index < 0 ? 2 : (uint32_t)index;
}

typedef struct const_user { int32_t scope; uint32_t constant, node; } const_user;

/* The slot of scope s that holds a copy of a scalar constant of the plan. */
static dfi_operand constant_copy(maker *m, df_node *c, dfi_scope *s) {
  mark *k = &m->mark[c->id];
  if (k->copy_scope != s->id) {
    if ((s->ncopies & (s->ncopies - 1)) == 0) s->copies = dfi_xrealloc(s->copies, sizeof *s->copies * (2 * s->ncopies + 1));
    s->copies[s->ncopies].slot = s->nslots;
    s->copies[s->ncopies++].constant = (uint32_t)constant_place(m, c);
    k->copy_scope = s->id;
    k->copy_slot = s->nslots++;
  }
  return DFI_OPERAND(DFI_ITERATION, k->copy_slot);
}

/* A token from output `from` (index -1: from the node as a whole) to node `self`. */
static void send(maker *m, drafts *d, df_output from, int32_t index, uint32_t self, uint32_t to) {
  dfi_plan *p = m->plan;
  if (m->mark[from.node->id].merged) {
    for (int32_t k = 0; k < from.node->nin; k++)
      draft_add(d, (uint32_t)m->mark[find_origin(m, from.node->in[k]).node->id].number, 0, self, to);
    return;
  }
  int32_t number = m->mark[from.node->id].number;
  draft_add(d, (uint32_t)number, edge_list(&p->node[number], index), self, to);
}

/* Operands and edges of one node. */
static int32_t wire(maker *m, df_node *n, dfi_pnode *q, uint32_t *operand_at, drafts *d, const_user **cu, uint32_t *ncu) {
  dfi_plan *p = m->plan;
  dfi_scope *s = &p->scope[q->scope];
  uint32_t self = (uint32_t)(q - p->node) - s->first, tokens = 0;
  uint32_t controls = 0;
  bool merge = q->kind == DFI_K_MERGE;
  q->in = *operand_at;
  if (m->mark[n->id].given_token) {
    df_output from = { n, m->mark[n->id].given_index }; bool token;
    p->operand[*operand_at] = place(m, NULL, from, &from, &token);
    *operand_at += 3;
    s->counts[self] = 0;
    s->roots[s->nroots++] = self;
    return DF_OK;
  }
  for (int32_t i = 0; i < n->nin; i++) {
    df_output from; bool token;
    dfi_operand o = place(m, n, n->in[i], &from, &token);
    if (DFI_SPACE(o) == DFI_CONSTANT && s->id > 0 && p->constant[DFI_INDEX(o)].kind == DF_SCALAR) o = constant_copy(m, from.node, s);
    p->operand[(*operand_at)++] = o;
    if (DFI_SPACE(o) == DFI_FRAME) {
      *cu = dfi_xrealloc(*cu, sizeof **cu * (*ncu + 1u));   /* few: loop constants' readers */
      (*cu)[(*ncu)++] = (const_user){ (int32_t)q->scope, DFI_INDEX(o), self };
    }
    if (!token) {
      if (merge)
        return dfi_fail(m->err, DF_INVALID_ARGUMENT, n->where, "the Merge `%s` has an input that is always there", dfi_node_name(n));
      continue;
    }
    s->uses[DFI_INDEX(o)]++;
    q->iteration_operands = 1;
    uint32_t to = merge ? DFI_TO_MERGE | (uint32_t)i << 8 : q->kind == DFI_K_EXIT && !n->ncontrol ? DFI_TO_EXIT : DFI_TO_PLAIN;
    send(m, d, from, from.index, self, to);
    tokens++;
  }
  for (int32_t i = -1; i < n->nin; i++) {
    /* i < 0: the node's own controls; then those of constants it reads in place, where nothing else brings a token */
    df_node *holder = n, *gate = NULL;
    df_output unused;
    if (i >= 0) {
      if (!m->mark[n->id].reads_gate || comes_as_token(m, n, n->in[i], &unused, &gate) || !gate) continue;
      holder = gate;
    }
    for (int32_t c = 0; c < holder->ncontrol; c++) {
      df_node *by = holder->control[c];
      df_output from = by->nout ? find_origin(m, (df_output){ by, 0 }) : (df_output){ by, 0 };
      if (feed_of(m, from) >= 0 || is_given(m, from)) continue;
      if (is_loop_constant(from.node)) {
        *cu = dfi_xrealloc(*cu, sizeof **cu * (*ncu + 1u));
        (*cu)[(*ncu)++] = (const_user){ (int32_t)q->scope, m->mark[from.node->id].slot, self };
        continue;
      }
      send(m, d, from, passes_on(by) ? from.index : -1, self, merge ? DFI_TO_MERGE_CONTROL : DFI_TO_PLAIN);
      if (merge) controls++; else tokens++;
    }
  }
  while (*operand_at - q->in < 3) { p->operand[*operand_at] = n->nin ? p->operand[q->in] : DFI_OPERAND(DFI_CONSTANT, 0); (*operand_at)++; }
  if (q->kind == DFI_K_CONST) p->operand[q->in] = DFI_OPERAND(DFI_CONSTANT, constant_place(m, n));
  if (merge) {
    if (n->nin > 0x7fff || controls > 0x7fff)
      return dfi_fail(m->err, DF_UNIMPLEMENTED, n->where, "the Merge `%s` has more than 32767 inputs", dfi_node_name(n));
    s->counts[self] = (uint32_t)n->nin | controls * DFI_MERGE_CONTROL;
  } else {
    s->counts[self] = tokens;
    if (!tokens) s->roots[s->nroots++] = self;
  }
  return DF_OK;
}

/* Sorts the gathered edges to their producers. */
static void lay_edges(maker *m, const drafts *d) {
  dfi_plan *p = m->plan;
  p->edge = dfi_xmalloc(sizeof *p->edge * (d->n + 1));
  uint32_t *count = dfi_xcalloc((size_t)p->nnodes * 3 + 1, sizeof *count);
  for (uint32_t i = 0; i < d->n; i++) count[d->at[i].from * 3 + d->at[i].list]++;
  uint32_t at = 0;
  for (int32_t i = 0; i < p->nnodes; i++) {
    p->node[i].edge[0] = at;
    for (int32_t l = 0; l < 3; l++) {
      uint32_t n = count[i * 3 + l];
      count[i * 3 + l] = at;
      at += n;
      p->node[i].edge[l + 1] = at;
    }
    if (at - p->node[i].edge[0] > p->widest) p->widest = at - p->node[i].edge[0];
  }
  for (uint32_t i = 0; i < d->n; i++) p->edge[count[d->at[i].from * 3 + d->at[i].list]++] = d->at[i].edge;
  free(count);
}

static void lay_const_users(dfi_plan *p, const const_user *cu, uint32_t ncu) {
  for (int32_t i = 0; i < p->nscopes; i++) {
    dfi_scope *s = &p->scope[i];
    s->const_first = dfi_xcalloc(s->nconsts + 2, sizeof *s->const_first);
    uint32_t total = 0;
    for (uint32_t k = 0; k < ncu; k++) if (cu[k].scope == i) { s->const_first[cu[k].constant + 1]++; total++; }
    for (uint32_t c = 0; c < s->nconsts; c++) s->const_first[c + 1] += s->const_first[c];
    s->const_users = dfi_xmalloc(sizeof *s->const_users * (total + 1));
    uint32_t *at = dfi_xmalloc(sizeof *at * (s->nconsts + 1));
    memcpy(at, s->const_first, sizeof *at * s->nconsts);
    for (uint32_t k = 0; k < ncu; k++) if (cu[k].scope == i) s->const_users[at[cu[k].constant]++] = cu[k].node;
    free(at);
  }
}

static int32_t lay_out(maker *m) {
  dfi_plan *p = m->plan;
  find_twins(m);
  prune_tokens(m);
  find_merged(m);
  number_nodes(m);
  if (posix_memalign((void **)&p->node, sizeof *p->node, sizeof *p->node * ((size_t)p->nnodes + 1))) abort();
  memset(p->node, 0, sizeof *p->node * ((size_t)p->nnodes + 1));
  _Static_assert(sizeof *p->node == 128, "one node, two cache lines");
  int32_t status = DF_OK;
  uint32_t operands = 0;
  for (int32_t i = 0; i < m->nneeded && !status; i++) {
    df_node *n = m->graph->node[m->needed[i]];
    operands += (uint32_t)n->nin + 3;
    if (m->mark[n->id].number >= 0) status = make_node(m, n, &p->node[m->mark[n->id].number]);
  }
  p->operand = dfi_xmalloc(sizeof *p->operand * (operands + 1));
  drafts d = { 0 };
  const_user *cu = NULL; uint32_t ncu = 0, at = 0;
  for (int32_t i = 0; i < m->nneeded && !status; i++) {
    df_node *n = m->graph->node[m->needed[i]];
    if (m->mark[n->id].number >= 0) status = wire(m, n, &p->node[m->mark[n->id].number], &at, &d, &cu, &ncu);
  }
  if (!status) {
    lay_edges(m, &d);
    lay_const_users(p, cu, ncu);
  }
  free(d.at); free(cu);
  return status;
}

/* ---- the plan ---------------------------------------------------------------------------------------------- */

static int32_t check_pair(maker *m, const int32_t *pair, const char *what) {
  if (pair[0] < 0 || pair[0] >= m->nids)
    return dfi_fail(m->err, DF_INVALID_ARGUMENT, NULL, "%s: there is no node %d in this graph of %d nodes", what, pair[0], m->nids);
  df_node *n = m->graph->node[pair[0]];
  if (pair[1] < -1 || pair[1] >= n->nout)
    return dfi_fail(m->err, DF_INVALID_ARGUMENT, n->where, "%s: `%s` (%s) has %d outputs, so there is no output %d", what,
                    dfi_node_name(n), op_of(n)->type, n->nout, pair[1]);
  return DF_OK;
}

static int32_t find_fetches(maker *m) {
  dfi_plan *p = m->plan;
  for (int32_t i = 0; i < p->nfetch; i++) {
    df_node *n = m->graph->node[p->signature[2 * i]];
    int32_t index = p->signature[2 * i + 1];
    p->fetch[i] = ~0u;
    if (index < 0) {
      if (m->mark[n->id].scope > 0) goto inside;
      continue;
    }
    df_output o = { n, index }, from; bool token;
    if (dfi_dtype(o) == DF_RESOURCE)
      return dfi_fail(m->err, DF_INVALID_ARGUMENT, n->where, "`%s:%d` is the handle of a variable or TensorArray and cannot be fetched", dfi_node_name(n), index);
    int32_t home = feed_of(m, o) >= 0 ? 0 : m->mark[n->id].scope;
    if (home > 0 && flow_of(n) == DF_EXIT) home = p->scope[home].parent;
    if (home == 0 && feed_of(m, o) < 0 && flow_of(n) == DF_ENTER) home = 1;
    if (home > 0) goto inside;
    p->fetch[i] = place(m, NULL, o, &from, &token);
    if (token) {
      if (m->mark[from.node->id].merged) goto inside;
      const dfi_pnode *by = &p->node[m->mark[from.node->id].number];
      if (by->kind == DFI_K_ENTER || (by->kind != DFI_K_EXIT && by->scope)) goto inside;
      p->scope[0].uses[DFI_INDEX(p->fetch[i])]++;
      p->fetch_node[i] = &p->node[m->mark[from.node->id].number];
    }
    continue;
  inside:;
    const int32_t in = m->mark[n->id].scope > 0 ? m->mark[n->id].scope : (int32_t)m->mark[n->id].child_scope;
    return dfi_fail(m->err, DF_INVALID_ARGUMENT, n->where, "`%s` is inside the loop `%s` and has a value for each iteration: return it from the body, or write it to a TensorArray, to fetch it",
                    dfi_node_name(n), p->scope[in].name);
  }
  return DF_OK;
}

/* In a branch of an imported graph, what is fed is alive whether the branch is taken or not. */
static bool may_be_fed(const df_context *c) {
  while (c && c->kind == DFI_BRANCH && c->raised) c = c->parent;
  return !c || c->kind == DFI_TOP;
}

dfi_plan *dfi_plan_make(struct df_session *s, df_graph *g, int32_t nfetch, const int32_t *fetches,
                        int32_t nfeed, const int32_t *feeds, bool reference_kernels, df_error *err) {
  maker m = { .graph = g, .err = err, .reference = reference_kernels };
  dfi_plan *p = m.plan = dfi_xcalloc(1, sizeof *p);
  p->session = s;
  p->graph = g;
  p->nfetch = nfetch; p->nfeed = nfeed;
  pthread_mutex_init(&p->lock, NULL);
  m.nids = g->n;
  m.mark = dfi_xcalloc((size_t)m.nids + 1, sizeof *m.mark);
  m.const_index = dfi_xmalloc(sizeof *m.const_index * ((size_t)m.nids + 1));
  m.variable_index = dfi_xmalloc(sizeof *m.variable_index * ((size_t)m.nids + 1));
  for (int32_t i = 0; i < m.nids; i++) { m.mark[i].scope = m.mark[i].number = m.mark[i].twin = m.mark[i].copy_scope = -1; m.const_index[i] = m.variable_index[i] = -1; }
  p->signature = dfi_xmalloc(sizeof *p->signature * (size_t)(2 * (nfetch + nfeed) + 1));
  memcpy(p->signature, fetches, sizeof *p->signature * 2 * (size_t)nfetch);
  if (nfeed) memcpy(p->signature + 2 * nfetch, feeds, sizeof *p->signature * 2 * (size_t)nfeed);
  p->fetch = dfi_xcalloc((size_t)nfetch + 1, sizeof *p->fetch);
  p->fetch_node = dfi_xcalloc((size_t)nfetch + 1, sizeof *p->fetch_node);
  p->feed = dfi_xcalloc((size_t)nfeed + 1, sizeof *p->feed);
  m.given = dfi_xcalloc((size_t)nfeed + 1, sizeof *m.given);
  p->constant = dfi_xcalloc(16, sizeof *p->constant); m.constant_cap = 16;
  scope_new(&m, -1, "");

  int32_t status = DF_OK;
  for (int32_t i = 0; i < nfetch && !status; i++) status = check_pair(&m, fetches + 2 * i, "fetch");
  for (int32_t i = 0; i < nfeed && !status; i++) {
    status = check_pair(&m, feeds + 2 * i, "feed");
    if (status) break;
    df_output o = { g->node[feeds[2 * i]], feeds[2 * i + 1] };
    if (o.index < 0 || dfi_dtype(o) == DF_RESOURCE)
      status = dfi_fail(err, DF_INVALID_ARGUMENT, o.node->where, "`%s` cannot be fed: it is %s", dfi_node_name(o.node), o.index < 0 ? "an operation" : "a handle");
    else if (!may_be_fed(o.node->context))
      status = dfi_fail(err, DF_INVALID_ARGUMENT, o.node->where, "`%s` cannot be fed: it is inside a loop or branch", dfi_node_name(o.node));
    m.given[m.ngiven++] = p->feed[i] = o;
    m.mark[o.node->id].fed_out = true;
  }
  if (!status) prune(&m, nfetch, fetches);
  for (int32_t i = 0; i < m.nneeded && !status; i++) {
    df_node *n = g->node[m.needed[i]];
    if (flow_of(n) == DF_CALL && !function_of(&m, n))
      status = dfi_fail(err, DF_NOT_FOUND, n->where, "`%s` calls a function `%s`, which the graph does not have", dfi_node_name(n), attr_of(n, "function")->s);
  }
  if (!status) status = find_scopes(&m);
  if (!status) status = lay_out(&m);
  if (!status) status = find_fetches(&m);
  for (int32_t i = 0; i < p->nscopes && !status; i++) p->scope[i].record_bytes = dfi_record_bytes(&p->scope[i]);
  free(m.mark); free(m.needed); free(m.function); free(m.given); free(m.const_index); free(m.variable_index);
  if (status) { dfi_plan_free(p); return NULL; }
  return p;
}

void dfi_plan_free(dfi_plan *p) {
  if (!p) return;
  for (int32_t i = 0; i < p->nscopes; i++) {
    dfi_scope *s = &p->scope[i];
    free(s->counts); free(s->uses); free(s->copies); free(s->roots); free(s->enters); free(s->exits); free(s->const_users); free(s->const_first);
  }
  for (int32_t i = 0; i < p->nconstants; i++) dfi_value_drop(&p->constant[i]);
  if (p->node) for (int32_t i = 0; i < p->nnodes; i++) { free(p->node[i].out_dtypes); free(p->node[i].reads); }
  free(p->scope); free(p->node); free(p->operand); free(p->edge); free(p->constant); free(p->fetch); free(p->fetch_node);
  free(p->feed); free(p->variable); free(p->signature);
  pthread_mutex_destroy(&p->lock);
  free(p);
}
