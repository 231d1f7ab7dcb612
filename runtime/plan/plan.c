/* plan.c: from the graph to a plan: prune, find frames, pass values through, lay out.
 *
 * 1. prune     backwards from the fetches, not past what is fed
 * 2. scopes    forwards from the nodes without inputs: Enter leads into a child frame, Exit out of it. A node whose
 *              inputs come from different frames, or that nothing reaches, is an error: this holds for any graph,
 *              however it was made.
 * 3. origins   where a value really comes from: Identity, StopGradient and LoopCond pass it on and need no token of
 *              their own; a loop constant that is a constant or a feed is read where it is.
 * 4. layout    (here; the others are in plan/find.c) slots, operands, edges, and the counts that each iteration
 *              starts with.
 *
 * A Const of a branch or body hangs on the pivot by a control edge, so that it is dead when the branch is. A plain node
 * of the same context that reads it has another input that says the same, so the constant itself needs no token.
 */
#include "plan/batch.h"
#include "plan/place.h"
#include "op/run.h"
#include "kernels/chain.h"
#include "kernels/nn.h"
#include <stdio.h>

/* ---- layout -------------------------------------------------------------------------------------------- */

/* Kinds, the order of nodes (by scope, then by age), slots. */
static void number_nodes(maker *m) {
  dfi_plan *p = m->plan;
  uint32_t *per_scope = dfi_xcalloc((size_t)p->nscopes + 1, sizeof *per_scope);
  for (int32_t i = 0; i < m->nneeded; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    mark *k = &m->mark[n->id];
    k->number = k->merged ? -1 : 0;
    if (k->merged) {
      k->slot = p->scope[k->scope].nslots++;
      continue;
    }
    per_scope[k->scope]++;
    p->nnodes++;
    /* outputs lie in the scope that reads them */
    if (dfi_plan_is_loop_constant(n)) { k->slot = p->scope[k->child_scope].nconsts++; continue; }
    int32_t read = flow_of(n) == DF_ENTER  ? (int32_t)k->child_scope
                   : flow_of(n) == DF_EXIT ? p->scope[k->scope].parent
                                           : k->scope;
    k->slot = p->scope[read].nslots;
    p->scope[read].nslots += (uint32_t)n->nout;
  }
  for (int32_t i = 0; i < m->nneeded; i++) {      /* Enter and NextIteration write where their Merge is read */
    df_node *n = dfi_plan_node(m, m->needed[i]);
    for (int32_t k = 0; k < n->nin && m->mark[n->id].merged; k++) {
      mark *by = &m->mark[dfi_plan_origin(m, n->in[k]).node->id];
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
    c->counts = dfi_xcalloc(c->n + DFI_COUNTS_COPIED, sizeof *c->counts);
    c->uses = dfi_xcalloc(c->nslots + 1, sizeof *c->uses);      /* copies of constants come after and have none */
    c->roots = dfi_xcalloc(c->n + 1, sizeof *c->roots);
    c->enters = dfi_xcalloc(c->n + 1, sizeof *c->enters);
  }
  dfi_free(per_scope);
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

/* Does the call give the function what its arguments are, and want what it returns? An imported graph may say
   otherwise. */
static int32_t check_call(maker *m, df_node *n, const struct function *f) {
  const df_node *r = f->ret;
  if (r->nin != n->nout)
    return dfi_fail(m->err, DF_INVALID_ARGUMENT, n->where, "`%s` wants %d results of the function `%s`, which has %d",
                    dfi_node_name(n), n->nout, f->name, r->nin);
  for (int32_t i = 0; i < n->nout; i++)
    if (n->out[i].dtype != dfi_dtype(r->in[i]))
      return dfi_fail(m->err, DF_INVALID_ARGUMENT, n->where,
                      "`%s` wants a result of %s of the function `%s`, whose result %d is %s", dfi_node_name(n),
                      df_dtype_name(n->out[i].dtype), f->name, i, df_dtype_name(dfi_dtype(r->in[i])));
  for (int32_t k = 0; k < m->nneeded; k++) {
    const df_node *a = dfi_plan_node(m, m->needed[k]);
    if (flow_of(a) != DF_FUNCTION_ARG || strcmp(attr_of(a, "function")->s, f->name)) continue;
    int64_t i = attr_of(a, "index")->i;
    if (i < 0 || i >= n->nin || dfi_dtype(n->in[i]) != a->out[0].dtype)
      return dfi_fail(m->err, DF_INVALID_ARGUMENT, n->where, "`%s` gives the function `%s` no argument %lld of %s",
                      dfi_node_name(n), f->name, (long long)i, df_dtype_name(a->out[0].dtype));
  }
  return DF_OK;
}

/* What belongs to a function must stand in its frame. */
static int32_t check_frame(maker *m, df_node *n) {
  const struct function *f = dfi_plan_function_of(m, n);
  if (f && f->scope >= 0 && f->scope == m->mark[n->id].scope) return DF_OK;
  return dfi_fail(m->err, DF_INVALID_ARGUMENT, n->where, "`%s` (%s) is outside of the function `%s`",
                  dfi_node_name(n), op_of(n)->type, attr_of(n, "function")->s);
}

static void enter_node(maker *m, df_node *n, dfi_pnode *q) {
  const mark *k = &m->mark[n->id];
  dfi_scope *c = &m->plan->scope[k->child_scope];
  q->kind = DFI_K_ENTER;
  q->constant = dfi_plan_is_loop_constant(n);
  q->child = (uint16_t)c->child;
  q->target = k->child_scope;
  q->enter = c->nenters++;
  c->enters = dfi_xrealloc(c->enters, sizeof *c->enters * (c->nenters + 1));
  c->enters[q->enter] = q;
}

/* What inference said against a node of an imported graph is known to be wrong: its kernel need not find out. */
static int32_t kernel_contradiction(df_kernel *k) {
  return dfk_fail(k, DF_INVALID_ARGUMENT, "%s", dfi_run_node(k->run)->contradiction);
}

/* A node that has a kernel: which one, and what the engine need know of its inputs. */
static int32_t kernel_node(maker *m, df_node *n, dfi_pnode *q) {
  const df_op *op = q->op;
  q->kind = DFI_K_KERNEL;
  bool reference = m->reference && op->kernel[DF_REF];
  q->kernel = !reference && op->kernel[DF_CPU] ? op->kernel[DF_CPU] : op->kernel[DF_REF];
  if (n->contradiction) q->kernel = kernel_contradiction;
  if (!q->kernel && op->flow == DF_LOOP_COND) { q->kernel = dfi_op_find("Identity")->op->kernel[DF_REF]; }
  if (!q->kernel)
    return dfi_fail(m->err, DF_UNIMPLEMENTED, n->where, "op %s (`%s`) has no kernel for the CPU", op->type,
                    dfi_node_name(n));
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
  if (n->contradiction) return DF_OK;
  const bool remote = m->devices && m->devices->at[m->mark[n->id].device]->remote;
  if (remote && dfi_plan_gpu_kernel(n)) q->gpu = dfi_plan_gpu_kernel(n);
  q->offload = !q->has_handle && !op->stateful && !q->reads && !remote;
  if ((op->traits & DFO_READS_VARIABLE || (q->reads && op->traits & DFO_READS_REFERENCE)) && !reference)
    q->kind = DFI_K_READ;
  if (plain && op->scalar && !reference && !q->reads) {
    q->scalar = op->scalar(types, q->out_dtype);
    if (q->scalar) q->kind = DFI_K_SCALAR;
  }
  return DF_OK;
}

/* What n is computed as. A bias of the last axis, whose shapes are known, is added as any row is: so it is a member of
 * groups, and native code. GPUs know it by itself. */
static const df_op *computed_as(const maker *m, const df_node *n) {
  const df_op *op = op_of(n);
  if (op->kernel[DF_CPU] != cpu_bias_add || m->cut || m->reference || n->contradiction) return op;
  const dfi_shape *value = dfi_shape_at(n->in[0]), *bias = dfi_shape_at(n->in[1]);
  if (n->attrs[0].s[1] != 'H' || !dfk_chain_plain(n->out[0].dtype) || value->rank < 2 || bias->rank != 1) return op;
  const bool same = bias->dims[0] > 0 && bias->dims[0] == value->dims[value->rank - 1];
  return same ? dfi_op_find("Add")->op : op;
}

static int32_t make_node(maker *m, df_node *n, dfi_pnode *q) {
  const df_op *op = computed_as(m, n);
  mark *k = &m->mark[n->id];
  q->node = n; q->op = op;
  q->nin = (uint32_t)n->nin; q->nout = (uint32_t)n->nout;
  q->scope = (uint32_t)k->scope;
  q->out = k->slot;
  q->merges = k->for_merge;
  q->out_dtypes = dfi_xmalloc((size_t)n->nout + 1);
  for (int32_t i = 0; i < n->nout; i++) q->out_dtypes[i] = n->out[i].dtype;
  q->out_dtype = n->nout ? n->out[0].dtype : 0;
  q->device = (uint16_t)(k->device < 0 ? 0 : k->device);        /* what is fed in place of a node comes from the host */
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
  case DF_ENTER: enter_node(m, n, q); return DF_OK;
  case DF_EXIT:
    q->kind = DFI_K_EXIT;
    q->child = (uint16_t)s->nexits++;
    s->exits = dfi_xrealloc(s->exits, sizeof *s->exits * (s->nexits + 1));
    s->exits[q->child] = q;
    return DF_OK;
  case DF_NEXT_ITERATION: q->kind = DFI_K_NEXT; return DF_OK;
  case DF_CONSTANT: q->kind = DFI_K_CONST; q->nin = 0; return DF_OK;
  case DF_CALL: {
    struct function *f = dfi_plan_function_of(m, n);
    q->kind = DFI_K_CALL;
    q->child = (uint16_t)s->nchildren++;
    q->target = (uint32_t)f->scope;
    return check_call(m, n, f);
  }
  case DF_FUNCTION_BEGIN: q->kind = DFI_K_NOOP; return check_frame(m, n);
  case DF_FUNCTION_ARG:
    q->kind = DFI_K_ARG;
    q->enter = (uint32_t)attr_of(n, "index")->i;
    return check_frame(m, n);
  case DF_FUNCTION_RETURN: q->kind = DFI_K_RETURN; return check_frame(m, n);
  case DF_NO_OP: q->kind = DFI_K_NOOP; return DF_OK;
  case DF_TRIGGER: q->kind = DFI_K_TRIGGER; return DF_OK;
  case DF_FEED: q->kind = DFI_K_UNFED; return DF_OK;
  case DF_TRANSFER:
    if (n->id < m->nids)
      return dfi_fail(m->err, DF_INVALID_ARGUMENT, n->where, "`%s`: a graph cannot have a Transfer, only a plan",
                      dfi_node_name(n));
    q->kind = DFI_K_TRANSFER;
    q->child = (uint16_t)k->child_scope;
    q->device = m->plan->link[q->child].to;
    q->constant = k->asked;                            /* see cut.c: it stays on the host */
    return DF_OK;
  case DF_LOOP_COND: case DF_PLAIN: break;
  }
  return kernel_node(m, n, q);
}

int32_t dfi_plan_look_up(maker *m, int32_t i) {
  enum { EVERY = 8192 };
  if (i % EVERY != EVERY - 1 || atomic_load_explicit(&dfi_calls_interrupted, memory_order_relaxed) == m->interrupts)
    return DF_OK;
  return dfi_fail(m->err, DF_CANCELLED, NULL, "the run was interrupted while its plan of %d nodes was made",
                  m->nneeded);
}

static int32_t lay_out(maker *m) {
  dfi_plan *p = m->plan;
  if (!m->primitives) dfi_plan_find_duplicates(m);
  dfi_plan_prune_tokens(m);
  if (!m->primitives) dfi_plan_find_merged(m);
  int32_t status = dfi_plan_deal_owners(m);
  if (status) return status;
  if (m->cut) {
    dfi_plan_cut(m);
    dfi_plan_pace_owners(m);
  }
  number_nodes(m);
  p->node = dfi_xaligned(sizeof *p->node, sizeof *p->node * ((size_t)p->nnodes + 1));
  memset(p->node, 0, sizeof *p->node * ((size_t)p->nnodes + 1));
  _Static_assert(sizeof *p->node == 128, "one node, two cache lines");
  uint32_t operands = 0;                               /* what the plan alone has is among the nodes by now */
  for (int32_t i = 0; i < m->nneeded && !status; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    operands += (uint32_t)n->nin + 3;
    if ((status = dfi_plan_look_up(m, i))) break;
    if (m->mark[n->id].number >= 0) status = make_node(m, n, &p->node[m->mark[n->id].number]);
  }
  p->operand = dfi_xmalloc(sizeof *p->operand * (operands + 1));
  if (!status) status = dfi_plan_wire(m);
  if (!status) dfi_plan_find_spent(p);
  if (!status) dfi_plan_find_invariants(m);
  if (!status && m->cut) dfi_plan_find_dead_together(p);
  return status;
}

/* ---- the plan ---------------------------------------------------------------------------------------------- */

static int32_t check_pair(maker *m, const int32_t *pair, const char *what) {
  if (pair[0] < 0 || pair[0] >= m->nids)
    return dfi_fail(m->err, DF_INVALID_ARGUMENT, NULL, "%s: there is no node %d in this graph of %d nodes", what,
                    pair[0], m->nids);
  df_node *n = m->graph->node[pair[0]];
  if (pair[1] < -1 || pair[1] >= n->nout)
    return dfi_fail(m->err, DF_INVALID_ARGUMENT, n->where, "%s: `%s` (%s) has %d outputs, so there is no output %d",
                    what, dfi_node_name(n), op_of(n)->type, n->nout, pair[1]);
  return DF_OK;
}

static int32_t find_fetches(maker *m) {
  dfi_plan *p = m->plan;
  for (int32_t i = 0; i < p->nfetch; i++) {
    df_node *n = m->graph->node[p->signature[2 * i]];
    int32_t index = p->signature[2 * i + 1];
    int32_t scope = m->mark[n->id].scope;
    if (scope > 0 && flow_of(n) == DF_EXIT) scope = p->scope[scope].parent;   /* what leaves a loop is outside */
    p->fetch[i] = ~0u;
    if (index < 0) {
      if (scope > 0) goto inside;
      continue;
    }
    df_output o = { n, index }, from; bool token;
    if (dfi_dtype(o) == DF_RESOURCE)
      return dfi_fail(m->err, DF_INVALID_ARGUMENT, n->where,
                      "`%s:%d` is the handle of a variable or TensorArray and cannot be fetched", dfi_node_name(n),
                      index);
    if (feed_of(m, o) >= 0) scope = 0;
    if (scope == 0 && feed_of(m, o) < 0 && flow_of(n) == DF_ENTER) scope = 1;
    if (scope > 0) goto inside;
    p->fetch[i] = dfi_plan_place(m, NULL, o, &from, &token);
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
    return dfi_fail(m->err, DF_INVALID_ARGUMENT, n->where,
                    "`%s` is inside the loop `%s` and has a value for each iteration: return it from the body, or "
                    "write it to a TensorArray, to fetch it",
                    dfi_node_name(n), p->scope[in].name);
  }
  return DF_OK;
}

/* What crosses when the run begins has its place behind the variables. */
static void settle_crossing(const dfi_plan *p, dfi_operand *o) {
  if (*o == ~0u || DFI_SPACE(*o) != DFI_GIVEN || !(DFI_INDEX(*o) & DFI_CROSSES)) return;
  *o = DFI_OPERAND(DFI_GIVEN, (uint32_t)(p->nfeed + p->nvariables) + (DFI_INDEX(*o) & ~(uint32_t)DFI_CROSSES));
}

/* What crosses has its place now, for its readers and for a fetch of it. */
static void finish_cut(maker *m) {
  dfi_plan *p = m->plan;
  p->cut = true;
  p->variable_device = dfi_xcalloc((size_t)p->nvariables + 1, sizeof *p->variable_device);
  for (int32_t i = 0; i < p->nvariables; i++) p->variable_device[i] = (uint16_t)m->mark[p->variable[i]->id].device;
  for (uint32_t i = 0; i < p->noperands; i++) settle_crossing(p, &p->operand[i]);
  for (int32_t i = 0; i < p->nfetch; i++) settle_crossing(p, &p->fetch[i]);
  p->crossing = dfi_xcalloc((size_t)p->ncrossings + 1, sizeof *p->crossing);
  for (int32_t i = 0; i < p->ncrossings; i++) {
    const df_output from = m->crossed[i].from;
    const int32_t f = feed_of(m, from);
    p->crossing[i].from =
        f >= 0 ? DFI_OPERAND(DFI_GIVEN, f) : DFI_OPERAND(DFI_CONSTANT, dfi_plan_constant_place(m, from.node));
    p->crossing[i].host = m->crossed[i].device & DFI_READ_ON_HOST;
    p->crossing[i].link = (uint16_t)dfi_plan_link(p, f >= 0 ? 0 : m->mark[from.node->id].device,
                                                  m->crossed[i].device & ~DFI_READ_ON_HOST);
    p->crossing[i].node = from.node;
  }
}

/* The plan's own nodes are looked at as the nodes of the graph that they are of. */
static void name_extras(dfi_plan *p) {
  for (int32_t i = 0; i < p->nfolded; i++) p->folded[i].constant->id = p->folded[i].node;
  for (int32_t i = 0; i < p->nextra; i++) {
    df_node *n = p->extra[i];
    if (flow_of(n) == DF_CONSTANT) continue;
    n->id = n->ncontrol && !n->nin ? n->control[0]->id : n->in[0].node->id;
  }
}

/* Keeps where every node of the graph runs, and why. */
static void tell_places(maker *m) {
  dfi_plan *p = m->plan;
  p->place = dfi_xcalloc((size_t)m->nids + 1, sizeof *p->place);
  for (int32_t i = 0; i < m->nids; i++) {
    const mark *k = &m->mark[i];
    if (k->scope < 0) continue;
    int32_t kept = i;
    while (m->mark[kept].duplicate >= 0) kept = m->mark[kept].duplicate;
    const int32_t device = m->mark[kept].device < 0 ? 0 : m->mark[kept].device;
    const bool folded = kept >= m->nids;
    const int32_t because = k->why_node >= m->nids ? p->extra[k->why_node - m->nids]->id : k->why_node;
    const dfi_pnode *q = k->number >= 0 ? &p->node[k->number] : NULL;
    const int32_t loop = q && q->invariant ? (int32_t)q->target : 0;
    p->place[p->nplaces++] = kept == i ? (struct dfi_place){ i, device, k->why, because, loop }
                             : folded  ? (struct dfi_place){ i, device, DFI_WHY_FOLDED, -1, 0 }
                             : k->stands ? (struct dfi_place){ i, device, DFI_WHY_NEUTRAL, k->duplicate, 0 }
                                         : (struct dfi_place){ i, device, DFI_WHY_EQUAL, kept, 0 };
    if (k->duplicate < 0 || k->duplicate >= m->nids || flow_of(m->graph->node[i]) == DF_SWITCH) continue;
    if ((p->nequal & (p->nequal - 1)) == 0)
      p->equal = dfi_xrealloc(p->equal, sizeof *p->equal * (size_t)(2 * p->nequal + 1));
    p->equal[p->nequal++] = (struct dfi_equal){ i, k->duplicate, k->stands };
  }
  p->place = dfi_xrealloc(p->place, sizeof *p->place * ((size_t)p->nplaces + 1));
}

/* In a branch of an imported graph, what is fed is alive whether the branch is taken or not. */
static bool may_be_fed(const df_context *c) {
  while (c && c->kind == DFI_BRANCH && c->raised) c = c->parent;
  return !c || c->kind == DFI_TOP;
}

dfi_plan *dfi_plan_make(struct df_session *s, dfi_devices *devices, df_graph *g, int32_t nfetch, const int32_t *fetches,
                        int32_t nfeed, const int32_t *feeds, uint32_t how, df_error *err) {
  return dfi_plan_make_and_tell(s, devices, g, nfetch, fetches, nfeed, feeds, how, NULL, err);
}

/* An empty plan, and room for what the maker notes of each node. */
static void begin(maker *m, struct df_session *s, int32_t nfetch, const int32_t *fetches, int32_t nfeed,
                  const int32_t *feeds) {
  dfi_plan *p = m->plan = dfi_xcalloc(1, sizeof *p);
  p->session = s;
  p->graph = m->graph;
  p->devices = m->devices;
  p->nfetch = nfetch; p->nfeed = nfeed;
  pthread_mutex_init(&p->lock, NULL);
  m->nids = m->graph->n;
  m->mark = dfi_xcalloc((size_t)m->nids + 1, sizeof *m->mark);
  m->const_index = dfi_xmalloc(sizeof *m->const_index * ((size_t)m->nids + 1));
  m->variable_index = dfi_xmalloc(sizeof *m->variable_index * ((size_t)m->nids + 1));
  for (int32_t i = 0; i < m->nids; i++) {
    mark *k = &m->mark[i];
    k->scope = k->number = k->duplicate = k->copy_scope = k->why_node = -1;
    m->const_index[i] = m->variable_index[i] = -1;
  }
  p->signature = dfi_xmalloc(sizeof *p->signature * (size_t)(2 * (nfetch + nfeed) + 1));
  memcpy(p->signature, fetches, sizeof *p->signature * 2 * (size_t)nfetch);
  if (nfeed) memcpy(p->signature + 2 * nfetch, feeds, sizeof *p->signature * 2 * (size_t)nfeed);
  p->fetch = dfi_xcalloc((size_t)nfetch + 1, sizeof *p->fetch);
  p->fetch_node = dfi_xcalloc((size_t)nfetch + 1, sizeof *p->fetch_node);
  p->feed = dfi_xcalloc((size_t)nfeed + 1, sizeof *p->feed);
  m->given = dfi_xcalloc((size_t)nfeed + 1, sizeof *m->given);
  m->same_node = dfi_xcalloc((size_t)nfeed + 1, sizeof *m->same_node);
  p->constant = dfi_xcalloc(16, sizeof *p->constant); m->constant_cap = 16;
  dfi_plan_scope_new(m, -1, "");
}

static void end(maker *m) {
  dfi_free(m->across); dfi_free(m->crossed);
  dfi_free(m->mark); dfi_free(m->needed); dfi_free(m->function); dfi_free(m->given);
  dfi_free(m->same_node); dfi_free(m->const_index);
  dfi_free(m->variable_index); dfi_free(m->frame); dfi_free(m->namesake);
}

static int32_t take_feed(maker *m, int32_t i, const int32_t *pair) {
  int32_t status = check_pair(m, pair, "feed");
  if (status) return status;
  df_output o = { m->graph->node[pair[0]], pair[1] };
  if (o.index < 0 || dfi_dtype(o) == DF_RESOURCE)
    return dfi_fail(m->err, DF_INVALID_ARGUMENT, o.node->where, "`%s` cannot be fed: it is %s", dfi_node_name(o.node),
                    o.index < 0 ? "an operation" : "a handle");
  if (!may_be_fed(o.node->context))
    return dfi_fail(m->err, DF_INVALID_ARGUMENT, o.node->where, "`%s` cannot be fed: it is inside a loop or branch",
                    dfi_node_name(o.node));
  m->given[m->ngiven] = m->plan->feed[i] = o;
  m->same_node[m->ngiven++] = m->mark[o.node->id].fed;
  m->mark[o.node->id].fed = m->ngiven;
  return DF_OK;
}

/* What the fetches need of the graph, and whether all of it is there. */
static int32_t find_needed(maker *m, const int32_t *fetches, const int32_t *feeds) {
  const dfi_plan *p = m->plan;
  int32_t status = DF_OK;
  for (int32_t i = 0; i < p->nfetch && !status; i++) status = check_pair(m, fetches + 2 * i, "fetch");
  for (int32_t i = 0; i < p->nfeed && !status; i++) status = take_feed(m, i, feeds + 2 * i);
  if (status) return status;
  dfi_plan_prune(m, p->nfetch, fetches);
  for (int32_t i = 0; i < m->nneeded; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    m->mark[n->id].stays = m->primitives && dfi_plan_passes_on(n) && n->out[0].dtype != DF_RESOURCE && !n->out[0].ref;
    if (flow_of(n) == DF_CALL && !dfi_plan_function_of(m, n))
      return dfi_fail(m->err, DF_NOT_FOUND, n->where, "`%s` calls a function `%s`, which the graph does not have",
                      dfi_node_name(n), attr_of(n, "function")->s);
  }
  return DF_OK;
}

static int by_id(const void *a, const void *b) {
  const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

static void find_random(dfi_plan *p) {
  int32_t n = 0;
  for (int32_t i = 0; i < p->nnodes; i++) n += (p->node[i].op->traits & DFO_RANDOM) != 0;
  if (!n) return;
  p->random = dfi_xcalloc((size_t)n, sizeof *p->random);
  for (int32_t i = 0; i < p->nnodes; i++)
    if (p->node[i].op->traits & DFO_RANDOM) p->random[p->nrandom++] = p->node[i].node->id;
  qsort(p->random, (size_t)n, sizeof *p->random, by_id);
}

dfi_plan *dfi_plan_make_and_tell(struct df_session *s, dfi_devices *devices, df_graph *g, int32_t nfetch,
                                 const int32_t *fetches, int32_t nfeed, const int32_t *feeds, uint32_t how,
                                 int32_t *tell, df_error *err) {
  maker m = { .graph = g,
              .devices = devices,
              .err = err,
              .reference = (how & DFI_PLAN_REFERENCE) != 0,
              .primitives = (how & DFI_PLAN_PRIMITIVES) != 0,
              .as_written = (how & DFI_PLAN_AS_WRITTEN) != 0,
              .stepped = (how & DFI_PLAN_STEPPED) != 0,
              .batch = how & (DFI_PLAN_BATCH | DFI_PLAN_BATCH_CALLS),
              .interrupts = atomic_load(&dfi_calls_interrupted) };
  begin(&m, s, nfetch, fetches, nfeed, feeds);
  dfi_plan *p = m.plan;
  int32_t status = find_needed(&m, fetches, feeds);
  if (!status) status = dfi_plan_find_scopes(&m);
  const bool placed = !status && dfi_plan_has_places(&m);
  if (!status) dfi_plan_simplify(&m, placed);
  if (placed) status = dfi_plan_place_nodes(&m);
  if (!status) dfi_plan_batch_scopes(&m);
  if (!status) status = lay_out(&m);
  if (!status) status = find_fetches(&m);
  if (!status) {
    if (m.cut) finish_cut(&m);
    if (!m.reference) dfi_plan_group(&m);
    dfi_plan_batch(&m);
    if (m.cut) status = dfi_plan_find_shared(&m);
    find_random(p);
    name_extras(p);
    if (devices) tell_places(&m);
    if (tell) dfi_plan_tell(&m, tell);
  }
  end(&m);
  if (!status) return p;
  dfi_plan_free(p);
  return NULL;
}

int64_t dfi_plan_bytes(const dfi_plan *p) {
  size_t n = sizeof *p + sizeof *p->node * (size_t)p->nnodes + sizeof *p->scope * (size_t)p->nscopes +
             sizeof *p->operand * p->noperands + sizeof *p->constant * (size_t)p->nconstants +
             sizeof *p->place * (size_t)p->nplaces + sizeof *p->variable * (size_t)p->nvariables +
             (size_t)(p->nfetch + p->nfeed) * 2 * sizeof *p->signature + sizeof(df_node) * (size_t)p->nextra +
             sizeof *p->random * (size_t)p->nrandom;
  for (int32_t i = 0; i < p->nnodes; i++)
    n += sizeof *p->edge * (p->node[i].edge[3] - p->node[i].edge[0]) + p->node[i].nout + 32;
  for (int32_t i = 0; i < p->ngroups; i++)
    n += sizeof *p->group + sizeof *p->group->gates + sizeof *p->group->member * (size_t)p->group[i].n +
         sizeof *p->group->chain.step * (size_t)p->group[i].chain.nsteps +
         (sizeof *p->group->input + 1) * DFK_CHAIN_INPUTS;
  for (int32_t i = 0; i < p->nfolded; i++) {
    const df_tensor *t = attr_of(p->folded[i].constant, "value")->tensor;
    n += (size_t)(t->size * dfi_dtype_size[t->dtype]);
  }
  for (int32_t i = 0; i < p->nscopes; i++) {
    const dfi_scope *s = &p->scope[i];
    n += sizeof *s->counts * (s->n * 2 + s->nslots) + sizeof *s->enters * s->n;
  }
  return (int64_t)n;
}

void dfi_plan_free(dfi_plan *p) {
  if (!p) return;
  const int32_t nscopes = p->remat ? p->remat->nscopes : p->nscopes, nnodes = p->remat ? p->remat->nnodes : p->nnodes;
  for (int32_t i = 0; i < p->nscopes; i++) {
    dfi_scope *s = &p->scope[i];
    dfi_free(s->enters);
    dfi_free(s->exits);
    if (i >= nscopes) continue;                        /* a copy, which shares the rest */
    dfi_free(s->counts);
    dfi_free(s->uses);
    dfi_free(s->copies);
    dfi_free(s->roots);
    dfi_free(s->groups);
    dfi_free(s->const_users);
    dfi_free(s->const_first);
    dfi_free(s->spent);
  }
  for (int32_t i = 0; i < p->nconstants; i++) dfi_value_drop(&p->constant[i]);
  dfi_plan_groups_free(p);
  dfi_free(p->reached);
  dfi_plan_owners_free(p);
  if (p->node) for (int32_t i = 0; i < nnodes; i++) { dfi_free(p->node[i].out_dtypes); dfi_free(p->node[i].reads); }
  if (p->remat) {
    for (int32_t i = 0; i < nscopes; i++) dfi_free(p->remat->why[i]);
    dfi_free(p->remat->kernel); dfi_free(p->remat->why); dfi_free(p->remat->seconds); dfi_free(p->remat);
  }
  dfi_free(p->scope);
  dfi_free(p->node);
  dfi_free(p->operand);
  dfi_free(p->edge);
  dfi_free(p->constant);
  dfi_free(p->fetch);
  dfi_free(p->fetch_node);
  for (int32_t i = 0; i < p->nextra; i++) {
    df_node *n = p->extra[i];
    if (flow_of(n) == DF_CONSTANT) {
      df_tensor_release(attr_of(n, "value")->tensor);
      dfi_free(n->attrs);
    }
    dfi_free(n->in); dfi_free(n->control); dfi_free(n->out); dfi_free((char *)(uintptr_t)n->name); dfi_free(n);
  }
  dfi_free(p->equal); dfi_free(p->folded);
  dfi_free(p->extra); dfi_free(p->link); dfi_free(p->crossing); dfi_free(p->place);
  dfi_free(p->feed); dfi_free(p->variable); dfi_free(p->random); dfi_free(p->variable_device); dfi_free(p->signature);
  pthread_mutex_destroy(&p->lock);
  dfi_free(p);
}
